package contract

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves that an operator logs its decisions about objects with the annotation for that.

var _ = Suite("decisions", func(t *testing.T, c *C) {
	const message = "The decision about the object was made"
	deciding := func(n int) func(*kopf.Operator) {
		return func(op *kopf.Operator) { op.Settings.Process.Decisions = n }
	}
	annotation := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/explain": ""}}}
	c.Run(t, "OB-17 objects with the annotation have their decisions logged, with the reasons", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		var chosen atomic.Int32
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				return kopf.Temporary(errors.New("not yet"), time.Minute)
			}
			return nil
		}, named("create"))
		r.OnCreate(Examples, ready, &kopf.ChangeOptions{ID: "other", Labels: kopf.Match{"env": "prod"}})
		r.OnUpdate(Examples, ready, &kopf.ChangeOptions{ID: "size", Field: "spec.size"})
		op := c.Operator(r, deciding(100), func(op *kopf.Operator) {
			op.Lifecycle = func(pending []kopf.PendingHandler) []kopf.PendingHandler {
				chosen.Add(1)
				return pending
			}
		})
		c.Create("a", annotation)
		c.Create("b", nil)
		c.Pass(2 * time.Minute)
		first := op.Logs.Find(message)
		if len(first) == 0 || !strings.Contains(first[0].Attrs["decision"], "the handlers for the creation are called") {
			c.Fatalf("got %v", first)
		}
		if n := chosen.Load(); n != 4 {
			c.Errorf("the lifecycle was called %d times for four attempts", n)
		}
		want := func(change map[string]any, parts ...string) {
			c.Helper()
			before := len(op.Logs.Find(message))
			c.Patch("a", change)
			c.Pass(time.Second)
			text := ""
			for _, line := range op.Logs.Find(message)[before:] {
				if line.Level != slog.LevelInfo {
					c.Errorf("the level is %s", line.Level)
				}
				text += line.Attrs["decision"] + "; " + line.Attrs["handlers"] + "\n"
			}
			for _, part := range parts {
				if !strings.Contains(text, part) {
					c.Errorf("after %v, there is no %q in %s", change, part, text)
				}
			}
		}
		want(map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}}, "create: not called: is called for each creation, and this is the update", `label env is absent, "prod" is wanted`)
		want(map[string]any{"status": map[string]any{"x": "y"}}, "nothing: the object is as it was last handled") // the prefilter would drop this event
		want(spec(map[string]any{"size": 1}), "size/spec.size: called: is for the update")
		for _, line := range op.Logs.Find(message) {
			if line.Object.Name == "b" {
				c.Errorf("an object without the annotation: %v", line)
			}
		}
	})
	c.Run(t, "OB-17 predicates are called as often with decisions as without", func(c *C) {
		c.OnlyInBubble("it waits")
		for _, annotations := range []map[string]any{nil, annotation} {
			var counts [2]map[string]int
			for i, n := range []int{0, 100} {
				r, count := countingPredicates()
				op := c.Operator(r, deciding(n))
				c.Pass(5 * time.Second)
				c.Create("a", annotations)
				c.Pass(5 * time.Second)
				c.Patch("a", spec(map[string]any{"x": 1}))
				c.Pass(5 * time.Second)
				c.Patch("a", map[string]any{"status": map[string]any{"x": 1}})
				c.Pass(5 * time.Second)
				counts[i] = count()
				c.Delete("a")
				c.Pass(5 * time.Second)
				op.Stop()
			}
			counts[1]["reconcile"] -= 2 // each of the two changes makes it a different object
			if diff := cmp.Diff(counts[0], counts[1]); diff != "" || len(counts[0]) != 7 {
				c.Errorf("with the annotations %v, calls of the predicates (-without decisions +with them):\n%s", annotations, diff)
			}
		}
	})
	c.Run(t, "OB-17 a decision tells of each handler what its filters have said", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		for _, id := range []string{"yes", "no", "panics"} {
			when := func(o *kopf.Object) bool {
				if id == "panics" {
					panic("oops")
				}
				return id == "yes"
			}
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event-" + kopf.HandlerID(id), When: func(e *kopf.WatchEvent) bool { return when(&e.Object) }})
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if ch.Retry == 0 {
					return kopf.Temporary(errors.New("not yet"), time.Minute)
				}
				return nil
			}, &kopf.ChangeOptions{ID: "create-" + kopf.HandlerID(id), When: func(ch *kopf.Change) bool { return when(&ch.Object) }})
			r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error { <-ctx.Done(); return nil }, &kopf.DaemonOptions{ID: "daemon-" + kopf.HandlerID(id), When: func(d *kopf.Daemon) bool { return when(&d.Object) }})
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile-" + kopf.HandlerID(id), When: func(rec *kopf.Reconcile) bool { return when(&rec.Object) }})
		}
		op := c.Operator(r, deciding(100))
		c.Create("a", annotation)
		c.Pass(2 * time.Minute)
		c.Delete("a")
		c.Pass(time.Second)
		lines := op.Logs.Find(message)
		var first, retried, deleted string
		for _, line := range lines {
			switch text := line.Attrs["handlers"]; {
			case strings.Contains(line.Attrs["decision"], "for the creation are called") && first == "":
				first = text
			case strings.Contains(line.Attrs["decision"], "for the creation are called"):
				retried = text
			case strings.Contains(text, "being deleted"):
				deleted = text
			}
		}
		for _, want := range []struct{ text, part string }{
			{first, "event-yes: called: is called for each event"}, {first, "event-no: not called: the predicate"}, {first, "event-panics: not called: the predicate of decisions.go:"}, {first, "has panicked: oops"},
			{first, "create-yes: called: is for the creation"}, {first, "create-no: not called: the predicate"}, {first, "create-panics: not called"}, {first, "daemon-yes: called"}, {first, "daemon-no: not called"},
			{first, "reconcile-yes: called"}, {first, "reconcile-no: not called"}, {retried, "create-yes: called: is called again, after 1 attempt"}, {retried, "event-yes: not called: is called for events, and none has come"},
			{deleted, "daemon-yes: not called: the object is being deleted"},
		} {
			if !strings.Contains(want.text, want.part) {
				c.Errorf("there is no %q in %q", want.part, want.text)
			}
		}
		if lines := op.Logs.Find("A filter of a handler panicked; it matches nothing"); len(lines) != 4 {
			c.Errorf("got %d lines about filters that panic, want one for each handler", len(lines))
		}
	})
	c.Run(t, "OB-17 without Decisions, the annotation means nothing", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r)
		c.Create("a", annotation)
		op.waitLogged(c, "Creation is processed")
		if lines := op.Logs.Find(message); len(lines) > 0 {
			c.Errorf("got %v", lines)
		}
	})
})

// countingPredicates returns handlers of all kinds for objects with predicates, and a function that returns the counts of their calls.
func countingPredicates() (r *kopf.Registry, counts func() map[string]int) {
	var mu sync.Mutex
	calls := make(map[string]int)
	count := func(id string) bool {
		mu.Lock()
		defer mu.Unlock()
		calls[id]++
		return true
	}
	r = &kopf.Registry{}
	r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event", When: func(*kopf.WatchEvent) bool { return count("event") }})
	r.OnCreate(Examples, ready, &kopf.ChangeOptions{ID: "create", When: func(*kopf.Change) bool { return count("create") }})
	r.OnUpdate(Examples, ready, &kopf.ChangeOptions{ID: "update", When: func(*kopf.Change) bool { return count("update") && false }})
	r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error { <-ctx.Done(); return nil }, &kopf.DaemonOptions{ID: "daemon", When: func(*kopf.Daemon) bool { return count("daemon") }})
	r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return nil }, &kopf.TimerOptions{ID: "timer", Interval: time.Hour, When: func(*kopf.Timer) bool { return count("timer") }})
	kopf.OnIndexIn(r, Examples, func(context.Context, *kopf.Indexing) (map[string]int, error) { return nil, nil }, &kopf.IndexOptions{ID: "index", When: func(*kopf.Indexing) bool { return count("index") }})
	r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile", When: func(*kopf.Reconcile) bool { return count("reconcile") }})
	return r, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(calls)
	}
}
