package contract

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to handlers that run while their object changes, in 1-change-handling.md.

var _ = Suite("change_interruptible", func(t *testing.T, c *C) { interrupting(t, c) })

// patient returns a handler that waits at a doorway, and records its outcome.
func (l *calls) patient(name string, door *doorway) kopf.ChangeFunc {
	return func(ctx context.Context, ch *kopf.Change) error {
		l.add("%s %s %d->%d retry %d", name, ch.Reason, ch.Old.Int("spec.x"), ch.New.Int("spec.x"), ch.Retry)
		ch.Patch.Set(kopf.FieldPath("status."+name), ch.New.Int("spec.x"))
		select {
		case <-door.open:
			return nil
		case <-ctx.Done():
			l.add("%s ends: %t", name, errors.Is(context.Cause(ctx), kopf.ErrSuperseded))
			return ctx.Err()
		}
	}
}

func interruptible(id kopf.HandlerID) *kopf.ChangeOptions {
	return &kopf.ChangeOptions{ID: id, Interruptible: true}
}

func interrupting(t *testing.T, c *C) {
	c.Run(t, "CH-T12 an interruptible handler ends when the object is deleted", func(c *C) {
		var l calls
		never := newDoorway()
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.patient("create", never), interruptible("create"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.expect(&l, "create create 0->1 retry 0")
		c.Delete("a")
		c.gone("a")
		c.expect(&l, "create create 0->1 retry 0", "create ends: true", "delete delete 0")
		if n := len(op.Logs.Find("was interrupted")); n != 1 {
			c.Errorf("got %d lines about it, want one", n)
		}
	})
	c.Run(t, "CH-T12 an interruptible handler ends when the object is gone", func(c *C) {
		var l calls
		never := newDoorway()
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.patient("create", never), interruptible("create"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.expect(&l, "create create 0->1 retry 0")
		c.Delete("a")
		c.expect(&l, "create create 0->1 retry 0", "create ends: true")
	})
	c.Run(t, "CH-T12 what has come before the handler was called counts, too", func(c *C) {
		var l calls
		never := newDoorway()
		seen := make(chan struct{}, 1)
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added {
				seen <- struct{}{}
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		}, &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, l.patient("create", never), interruptible("create"))
		c.Operator(r)
		c.Pass(time.Second) // after the initial list
		c.Create("a", sized(1))
		<-seen
		c.Delete("a")
		c.expect(&l, "create create 0->1 retry 0", "create ends: true")
	})
	c.Run(t, "CH-T12 an interruptible handler ends when the object changes, and is called for what it is then", func(c *C) {
		var l calls
		door := newDoorway()
		r := &kopf.Registry{}
		r.OnUpdate(Examples, l.patient("update", door), interruptible("update"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		c.Patch("a", sized(2))
		c.expect(&l, "update update 1->2 retry 0")
		c.Patch("a", map[string]any{"status": map[string]any{"by": "another"}}) // the status is not tracked
		c.Pass(time.Second)
		c.expect(&l, "update update 1->2 retry 0")
		c.Patch("a", sized(3))
		c.expect(&l, "update update 1->2 retry 0", "update ends: true", "update update 1->3 retry 0")
		if c.Get("a").Has("status.update") {
			c.Error("the patch of the interrupted attempt was sent")
		}
		door.let()
		c.handled("a")
		if got := c.Get("a").Status().Int("update"); got != 3 {
			c.Errorf("got the status %d, want 3", got)
		}
		c.expect(&l, "update update 1->2 retry 0", "update ends: true", "update update 1->3 retry 0")
	})
	c.Run(t, "CH-T12 what the framework itself stores interrupts nothing", func(c *C) {
		var l calls
		door := newDoorway()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.own", true)
			return nil
		}, named("first"))
		r.OnCreate(Examples, l.patient("second", door), interruptible("second"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.expect(&l, "second create 0->1 retry 0")
		c.Patch("a", map[string]any{"status": map[string]any{"by": "another"}}) // before anything is stored
		c.WaitFor("the outcome of the first one", func() bool { return c.Get("a").Has("spec.own") })
		c.Pass(time.Second)
		c.expect(&l, "second create 0->1 retry 0")
		door.let()
		c.handled("a")
	})
	c.Run(t, "CH-T12 sub-handlers can be interrupted as well", func(c *C) {
		var l calls
		never := newDoorway()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("sub", l.patient("sub", never), interruptible(""))
			return nil
		}, named("create"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.expect(&l, "sub create 0->1 retry 0")
		c.Delete("a")
		c.gone("a")
		c.expect(&l, "sub create 0->1 retry 0", "sub ends: true", "delete delete 0")
	})
	c.Run(t, "CH-T12 other handlers run to their end", func(c *C) {
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.patient("create", door), named("create"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.expect(&l, "create create 0->1 retry 0")
		c.Patch("a", sized(2))
		c.Delete("a")
		c.Pass(time.Second)
		c.expect(&l, "create create 0->1 retry 0")
		door.let()
		c.gone("a")
		c.expect(&l, "create create 0->1 retry 0", "delete delete 0")
		if n := len(op.Logs.Find("was interrupted")); n != 0 {
			c.Errorf("got %d lines about interruptions, want none", n)
		}
	})
	c.Run(t, "CH-T12 an interruptible handler that goes on anyway counts", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.New.Int("spec.x") == 2 {
				<-ctx.Done()
			}
			l.add("%d->%d", ch.Old.Int("spec.x"), ch.New.Int("spec.x"))
			return nil
		}, interruptible("update"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		c.Patch("a", sized(2))
		c.WaitFor("the call", func() bool { _, stored := c.Get("a").Annotation(diffBase); return stored })
		c.Pass(100 * time.Millisecond)
		c.Patch("a", sized(3))
		c.WaitFor("both calls", func() bool { return len(l.all()) == 2 })
		if got, want := fmt.Sprint(l.all()), "[1->2 2->3]"; got != want {
			c.Errorf("got %s, want %s", got, want)
		}
	})
}
