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
	r := slog.NewRecord(now, level, Message, 0)
	r.AddAttrs(slog.String("handler", c.Handler), slog.String("kind", c.Kind))
	if o := c.Object; o != nil {
		r.AddAttrs(slog.Group("object", slog.String("apiVersion", o.APIVersion), slog.String("kind", o.Kind), slog.String("namespace", o.Namespace), slog.String("name", o.Name), slog.String("uid", o.UID),
			slog.String("resourceVersion", o.ResourceVersion), slog.Int64("generation", o.Generation)))
	}
	if c.Cause != "" {
		r.AddAttrs(slog.String("cause", c.Cause))
	}
	r.AddAttrs(slog.Int("attempt", c.Attempt), slog.String("outcome", c.Outcome), slog.Float64("duration", now.Sub(c.Began).Seconds()))
	if c.Err != nil {
		r.AddAttrs(slog.String("error", c.Err.Error()))
	}
	for _, list := range []struct {
		key   string
		items []string
	}{{"fields", c.Fields}, {"applied", c.Applied}, {"deleted", c.Deleted}} {
		if len(list.items) > 0 {
			r.AddAttrs(slog.Any(list.key, list.items))
		}
	}
	if r.AddAttrs(slog.String("replica", c.Replica)); c.Fence != 0 {
		r.AddAttrs(slog.Uint64("fence", c.Fence))
	}
	return r
}
