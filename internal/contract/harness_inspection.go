package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kopf-go/kopf"
)

// This file runs the commands status and explain for the suites, and parses their output.

// handlersFor returns a registry for the commands, with a login to the server of the leaf.
func (c *C) handlersFor(register func(r *kopf.Registry)) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) { return c.ConnectionInfo(), nil }, &kopf.ActivityOptions{ID: "login"})
	if register != nil {
		register(r)
	}
	return r
}

// inspect runs a command with the handlers of a registry.
func (c *C) inspect(ctx context.Context, r *kopf.Registry, args ...string) (code int, stdout, stderr string) {
	c.Helper()
	c.changesProcess()
	before, logger := kopf.DefaultRegistry(), slog.Default()
	defer kopf.SetDefaultRegistry(before)
	defer slog.SetDefault(logger)
	kopf.SetDefaultRegistry(r)
	var out, errs bytes.Buffer
	code = kopf.Command(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// inspected runs a command that must succeed, and returns its output.
func (c *C) inspected(r *kopf.Registry, args ...string) string {
	c.Helper()
	code, stdout, stderr := c.inspect(c.Context(), r, args...)
	if code != 0 {
		c.Fatalf("%q: got the exit code %d: %s", args, code, stderr)
	}
	c.Logf("%q:\n%s", args, stdout)
	return stdout
}

// explained is the output of the command explain as JSON.
type explained struct {
	Object   map[string]string
	Operator string
	Cause    string
	Decision string
	Steps    []string
	Changes  []struct {
		Operation, Field string
		Old, New         any
	}
	Handlers []struct {
		ID, Kind, Registered, Why, Error, Next string
		Called                                 bool
		Attempts                               int
	}
	Notes []string
}

// explain runs the command explain, and returns its output.
func (c *C) explain(r *kopf.Registry, args ...string) *explained {
	c.Helper()
	code, stdout, stderr := c.inspect(c.Context(), r, append([]string{"explain", "-o", "json"}, args...)...)
	if code != 0 {
		c.Fatalf("explain %q: got the exit code %d: %s", args, code, stderr)
	}
	x := &explained{}
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(x); err != nil {
		c.Fatalf("explain %q: %v in %s", args, err, stdout)
	}
	return x
}

// called returns the ids of the handlers that are called.
func (x *explained) called() (ids []string) {
	for _, h := range x.Handlers {
		if h.Called {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// why returns the reason why a handler is called, or not called.
func (x *explained) why(id string) string {
	for _, h := range x.Handlers {
		if h.ID == id {
			return map[bool]string{true: "called: ", false: "not called: "}[h.Called] + h.Why
		}
	}
	return "there is no handler " + id
}

// statusLine is the output of the command status for one object and operator as JSON.
type statusLine struct {
	APIVersion, Kind, Namespace, Name, UID string
	Operator, State, Error, From           string
	Done, All, Attempts                    int
	NextAttempt, CreationTimestamp         string
	Finalizers, Problems                   []string
	PausedFor                              string
	Handlers                               []struct {
		ID, State, Purpose, Started, NextAttempt, Error string
		Attempts                                        int
	}
}

// status runs the command status, and returns its output.
func (c *C) status(r *kopf.Registry, args ...string) []statusLine {
	c.Helper()
	code, stdout, stderr := c.inspect(c.Context(), r, append([]string{"status", "-o", "json", "-n", c.Namespace}, args...)...)
	if code != 0 {
		c.Fatalf("status %q: got the exit code %d: %s", args, code, stderr)
	}
	var all []statusLine
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		c.Fatalf("status %q: %v in %s", args, err, stdout)
	}
	return all
}

// stateOf returns the only line of the command status.
func (c *C) stateOf(r *kopf.Registry, args ...string) statusLine {
	c.Helper()
	all := c.status(r, args...)
	if len(all) != 1 {
		c.Fatalf("status %q: got %d objects and operators, want one: %v", args, len(all), all)
	}
	return all[0]
}

// file writes an object to a file, and returns its path.
func (c *C) file(object any) string {
	c.Helper()
	path := filepath.Join(c.TempDir(), "object.json")
	data, err := json.Marshal(object)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		c.Fatal(err)
	}
	return path
}

// withBody gives a response a body.
func withBody(resp *http.Response, body string) *http.Response {
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return resp
}
