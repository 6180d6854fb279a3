package contract

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that an operator logs its decisions about the objects that ask for that.

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
		want(map[string]any{"status": map[string]any{"x": "y"}}, "nothing: the object is as it was last handled") // which the prefilter would drop
		want(spec(map[string]any{"size": 1}), "size/spec.size: called: is for the update")
		for _, line := range op.Logs.Find(message) {
			if line.Object.Name == "b" {
				c.Errorf("an object without the annotation: %v", line)
			}
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
