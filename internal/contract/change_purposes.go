package contract

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which progress of one cause counts for another cause: 9-defects.md.

var _ = Suite("change_purposes", func(t *testing.T, c *C) {
	c.Run(t, "DF-16 a change in the middle of a resuming reaches the handlers that had finished", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		note := func(name string, delay time.Duration) kopf.ChangeFunc {
			return func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s %s %d", name, ch.Reason, ch.Spec().Int("x"))
				if delay > 0 && ch.Retry == 0 && ch.Reason == kopf.ReasonResume {
					return kopf.Temporary(errOops, delay)
				}
				return nil
			}
		}
		registry := func() *kopf.Registry {
			r := &kopf.Registry{}
			quick, slow := note("quick", 0), note("slow", time.Minute)
			r.OnResume(Examples, quick, named("quick"))
			r.OnUpdate(Examples, quick, named("quick"))
			r.OnUpdate(Examples, slow, named("slow"))
			r.OnResume(Examples, slow, named("slow"))
			r.OnResume(Examples, note("resumed", 0), named("resumed"))
			return r
		}
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
		op := c.Operator(registry())
		c.Pass(10 * time.Second)
		c.Patch("a", sized(2)) // while slow waits for its second attempt
		c.Pass(time.Hour)
		want := []string{"quick resume 1", "slow resume 1", "resumed resume 1", "quick update 2", "slow update 2"}
		c.expect(&l, want...)
		if got := c.Get("a").Annotations(); len(got) != 1 || got[diffBase] != `{"spec":{"x":2}}`+"\n" {
			c.Errorf("got the annotations %q", got)
		}
		if lines := op.Logs.Find("Resuming is superseded by the updating: 2 succeeded; 0 failed; 1 unfinished."); len(lines) != 1 {
			c.Errorf("got the lines %v", op.Logs.Find("superseded"))
		}
		op.Stop()
		l.forget()
		// The same is true in another process.
		c.Create("b", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, map[string]string{
			"quick": recordOf("resume", 1, true, ""), "slow": recordOf("resume", 1, false, ""), "resumed": recordOf("resume", 1, true, ""),
		}), "spec": map[string]any{"x": 2}})
		c.Operator(registry())
		c.Pass(time.Hour)
		got := slices.DeleteFunc(l.all(), func(call string) bool { return call[len(call)-len("resume 2"):] == "resume 2" }) // of the other object
		c.same("the calls", []string{"quick update 2", "slow update 2"}, got)
	})
	c.Run(t, "DF-16 so do its sub-handlers", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		parent := func(ctx context.Context, ch *kopf.Change) error {
			for name, delay := range map[kopf.HandlerID]time.Duration{"one": 0, "two": time.Minute} {
				ch.Subhandler(name, func(ctx context.Context, sub *kopf.Change) error {
					if l.add("%s %d", name, sub.Spec().Int("x")); delay > 0 && sub.Retry == 0 {
						return kopf.Temporary(errOops, delay)
					}
					return nil
				}, nil)
			}
			return nil
		}
		r := &kopf.Registry{}
		r.OnResume(Examples, parent, named("parent"))
		r.OnUpdate(Examples, parent, named("parent"))
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
		c.Operator(r)
		c.Pass(10 * time.Second)
		c.Patch("a", sized(2))
		c.Pass(time.Hour)
		got := l.all()
		slices.Sort(got)
		c.same("the calls", []string{"one 1", "one 2", "two 1", "two 2"}, got)
		if got := c.Get("a").Annotations(); len(got) != 1 {
			c.Errorf("got the annotations %q", got)
		}
	})
	c.Run(t, "DF-16 a deletion in the middle of a creation reaches the handlers that are for both", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		both := l.handler("both")
		r := &kopf.Registry{}
		r.OnCreate(Examples, both, named("both"))
		r.OnDelete(Examples, both, named("both"))
		r.OnCreate(Examples, l.handler("slow", kopf.Temporary(errOops, time.Hour)), named("slow"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.Pass(time.Minute)
		c.Delete("a")
		c.gone("a")
		c.expect(&l, "both create 0", "slow create 0", "both delete 0")
	})
	c.Run(t, "DF-16 a handler that has seen a change which is taken back while no operator runs learns of it", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		fn := func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s %d", ch.Reason, ch.Spec().Int("x"))
			return nil
		}
		r := &kopf.Registry{}
		r.OnUpdate(Examples, fn, named("fn"))
		r.OnResume(Examples, fn, named("fn"))
		c.Create("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, map[string]string{"fn": recordOf("update", 1, true, "")}), "spec": map[string]any{"x": 1}})
		c.Operator(r)
		c.Pass(time.Hour)
		c.expect(&l, "resume 1")
	})
})
