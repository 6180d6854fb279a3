package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/peerrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Object is a peering object that a [Command] changes.
type Object interface {
	// Read reads the object.
	Read(ctx context.Context) (State, error)
	// Write is [Server.Write].
	Write(ctx context.Context, version string, records map[string]any) (State, error)
	// Failure is [Server.Failure].
	Failure(err error) Failure
}

// Place is a possible place of a peering object.
type Place struct {
	Resource, Namespace string
	Object              Object
}

// Command writes a record into peering objects, so that operators with lower priorities pause, or removes it.
type Command struct {
	Name     string // of the objects
	ID       string // of the record
	Freeze   bool   // write the record instead of removing it
	Priority int
	Lifetime time.Duration
	Message  string    // printed; "" for none
	Out, Err io.Writer // for results, and for warnings about missing objects
}

// Run changes all existing peering objects. It returns an error if there are none, or if a change fails.
func (c *Command) Run(ctx context.Context, places []Place) error {
	var failures []error
	done := false
	for _, place := range places {
		written, err := c.write(ctx, place)
		if err != nil {
			failures = append(failures, err)
		}
		done = done || written
	}
	if !done && len(failures) == 0 {
		return fmt.Errorf("no peering object %q was found", c.Name)
	}
	return errors.Join(failures...)
}

// write changes one object. A missing object is no error: it may be elsewhere.
func (c *Command) write(ctx context.Context, place Place) (written bool, err error) {
	where := strings.TrimSuffix(fmt.Sprintf("%s %q in %s", place.Resource, c.Name, place.Namespace), " in ")
	state, err := place.Object.Read(ctx)
	if err != nil && place.Object.Failure(err).Code == http.StatusNotFound {
		fmt.Fprintf(c.Err, "There is no %s.\n", where)
		return false, nil
	} else if err != nil {
		return false, err
	}
	var record any
	what := "is removed from"
	if c.Freeze {
		record = peerrecord.Record(c.Priority, c.Lifetime)
		what = fmt.Sprintf("with priority %d is in force for %s in", c.Priority, peerrecord.WholeSeconds(c.Lifetime))
	} else if _, known := rawjson.Find(state.Status, c.ID); !known {
		return false, fmt.Errorf("there is no record of %q in %s, only of %q", c.ID, where, rawjson.Keys(state.Status))
	}
	if _, err := place.Object.Write(ctx, "", map[string]any{c.ID: record}); err != nil {
		return false, err
	}
	if c.Message != "" {
		where += ": " + c.Message
	}
	fmt.Fprintf(c.Out, "The record of %q %s %s.\n", c.ID, what, strings.TrimSuffix(where, "."))
	return true, nil
}
