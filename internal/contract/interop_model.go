package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// This file changes an object as Kopf for Python does, one cycle at a time, according to 1-change-handling.md and the golden lives. It supports
// objects with only a spec, and handlers of creations and updates without fields.

// original models an operator of Kopf for Python.
type original struct {
	kind     *Kind
	name     string
	handlers []originalHandler
	prefix   string // "" means the default
	// call calls a handler. A delay that is not zero is that of a temporary error.
	call func(id, reason string, retry int, old, now map[string]any) (delay time.Duration)
}

type originalHandler struct{ id, reason string }

// originalRecord is the record of a handler. It drops unknown fields.
type originalRecord struct {
	Started string   `json:"started"`
	Stopped string   `json:"stopped,omitempty"`
	Delayed string   `json:"delayed,omitempty"`
	Purpose string   `json:"purpose,omitempty"`
	Retries int      `json:"retries"`
	Success bool     `json:"success"`
	Failure bool     `json:"failure"`
	Message *string  `json:"message,omitempty"`
	Subrefs []string `json:"subrefs,omitempty"`
}

const originalTime = "2006-01-02T15:04:05.000000-07:00"

// cycle is the reaction to one event: it calls at most one handler (CH-105), and sends one patch. It reports whether the handling is over.
func (o *original) cycle() (over bool) {
	body := o.kind.Get(o.name)
	notes, prefix := body.Annotations(), o.prefix
	if prefix == "" {
		prefix = "kopf.zalando.org"
	}
	prefix += "/"
	essence := map[string]any{"spec": decoded(encoded(body.Spec().Map()))}
	last := strings.TrimSpace(notes[prefix+"last-handled-configuration"])
	reason, old := "create", map[string]any(nil)
	if last != "" {
		reason, old = "update", decoded(last).(map[string]any)
		if encoded(old) == encoded(essence) {
			return true
		}
	}
	records, stored := map[string]*originalRecord{}, map[string]string{}
	for _, h := range o.handlers {
		if text, ok := notes[prefix+h.id]; ok {
			records[h.id], stored[h.id] = &originalRecord{}, text
			_ = json.Unmarshal([]byte(text), records[h.id]) // kopf or this model has written it
		}
	}
	patch := map[string]any{}
	purge := func() {
		for _, h := range o.handlers {
			ids := []string{h.id}
			if r := records[h.id]; r != nil {
				ids = append(ids, r.Subrefs...)
			}
			for _, id := range ids {
				delete(patch, prefix+id)
				if _, ok := notes[prefix+id]; ok {
					patch[prefix+id] = nil
				}
			}
		}
	}
	now := time.Now().UTC()
	var selected []string
	for _, h := range o.handlers {
		if h.reason == reason {
			selected = append(selected, h.id)
			if records[h.id] == nil {
				records[h.id] = &originalRecord{Started: now.Format(originalTime)}
			}
			records[h.id].Purpose = reason // CH-161
		}
	}
	for r := range maps.Values(records) { // CH-162
		if r.Purpose != reason {
			purge()
			break
		}
	}
	o.attempt(records, selected, reason, old, essence)
	done := true
	for _, id := range selected {
		r := records[id]
		if text := encoded(r); text != stored[id] {
			patch[prefix+id] = text
		}
		done = done && (r.Success || r.Failure)
	}
	if done {
		purge()
		patch[prefix+"last-handled-configuration"] = encoded(essence) + "\n"
	}
	o.kind.Patch(o.name, map[string]any{"metadata": map[string]any{"annotations": patch}})
	return done
}

// attempt calls the handler with the fewest attempts among those that are due (CH-106).
func (o *original) attempt(records map[string]*originalRecord, selected []string, reason string, old, essence map[string]any) {
	now := time.Now().UTC()
	due := slices.DeleteFunc(slices.Clone(selected), func(id string) bool {
		r := records[id]
		delayed, err := time.Parse(time.RFC3339Nano, r.Delayed)
		return r.Success || r.Failure || err == nil && delayed.After(now)
	})
	if len(due) == 0 {
		return
	}
	id := slices.MinFunc(due, func(a, b string) int { return records[a].Retries - records[b].Retries })
	r := records[id]
	delay := o.call(id, reason, r.Retries, old, essence)
	r.Retries++
	r.Delayed, r.Message, r.Success = "", nil, delay == 0
	if text := "not yet"; delay > 0 {
		r.Delayed, r.Message = now.Add(delay).Format(originalTime), &text
	} else {
		r.Stopped = now.Format(originalTime)
	}
}

// finish runs cycles until the handling is over.
func (o *original) finish(c *C) {
	c.Helper()
	for range 100 {
		if o.cycle() {
			return
		}
		c.Pass(time.Minute)
	}
	c.Fatal("the original does not come to an end")
}
