// Package audit creates the audit log records of handler calls.
package audit

import (
	"log/slog"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Call is a finished call of a handler.
type Call struct {
	Began            time.Time
	Handler, Kind    string // id, and registering function
	Attempt          int    // from 1
	Outcome          string // success, retry, failure, ignored, waiting or cancelled
	Err              error  // nil for success
	Cause            string // of changes
	Replica          string
	Fence            uint64 // of the leader's term; 0 without an election
	Object           *Object
	Fields           []string // patched by the handler, without values
	Applied, Deleted []string // child objects, as kind namespace/name
}

// Object is the object of the call.
type Object struct {
	APIVersion, Kind, Namespace, Name, UID string
	ResourceVersion                        string
	Generation                             int64
}

// AddFields adds the fields of a difference. For added or removed objects, it adds the fields in them.
func (c *Call) AddFields(path []string, before, after any) {
	members, _ := after.(map[string]any)
	if after == nil {
		members, _ = before.(map[string]any)
	}
	if len(members) == 0 {
		c.Fields = append(c.Fields, rawjson.JoinPath(path))
	}
	for _, key := range rawjson.SortedKeys(members) {
		c.AddFields(append(slices.Clip(path), key), nil, members[key])
	}
}

// Message is the message of all records.
const Message = "Handler called"

// Record returns the log record of the call. It omits empty values.
func (c *Call) Record() slog.Record {
	level := slog.LevelInfo
	switch c.Outcome {
	case "retry", "cancelled":
		level = slog.LevelWarn
	case "failure":
		level = slog.LevelError
	}
	now := time.Now()
	args := []any{"handler", c.Handler, "kind", c.Kind}
	add := func(present bool, key string, value any) {
		if present {
			args = append(args, key, value)
		}
	}
	if o := c.Object; o != nil {
		args = append(args, slog.Group("object", "apiVersion", o.APIVersion, "kind", o.Kind, "namespace", o.Namespace, "name", o.Name, "uid", o.UID,
			"resourceVersion", o.ResourceVersion, "generation", o.Generation))
	}
	add(c.Cause != "", "cause", c.Cause)
	args = append(args, "attempt", c.Attempt, "outcome", c.Outcome, "duration", now.Sub(c.Began).Seconds())
	if c.Err != nil {
		args = append(args, "error", c.Err.Error())
	}
	add(len(c.Fields) > 0, "fields", c.Fields)
	add(len(c.Applied) > 0, "applied", c.Applied)
	add(len(c.Deleted) > 0, "deleted", c.Deleted)
	args = append(args, "replica", c.Replica)
	add(c.Fence != 0, "fence", c.Fence)
	r := slog.NewRecord(now, level, Message, 0)
	r.Add(args...)
	return r
}
