package contract

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what kopf does with the changes of handlers that were reverted, or cannot be stored, in 1-change-handling.md.

var _ = Suite("change_reverted", func(t *testing.T, c *C) { reverting(t, c) })

func reverting(t *testing.T, c *C) {
	c.Run(t, "CH-T1 a change that is taken back before all have handled it is undone by those who have", func(c *C) {
		var l calls
		note := func(name string, err error) kopf.ChangeFunc {
			return func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s %v->%v %d", name, ch.Old.Get("spec.x"), ch.New.Get("spec.x"), ch.Retry)
				if ch.Spec().Int("x") == 2 {
					return err
				}
				return nil
			}
		}
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		r.OnUpdate(Examples, note("done", nil), named("done"))
		r.OnUpdate(Examples, note("half", kopf.Temporary(errOops, time.Hour)), named("half"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		c.Patch("a", sized(2))
		c.WaitFor("the records", func() bool { return fmt.Sprint(records(c.Get("a"))) == "[done half]" && l.count("half") == 1 })
		c.Pass(300 * time.Millisecond)
		c.Patch("a", sized(1))
		c.expect(&l, "done 1->2 0", "half 1->2 0", "done 2->1 0", "half 2->1 0")
		c.Pass(time.Second)
		body := c.handled("a")
		if base, _ := body.Annotation(diffBase); base != `{"spec":{"x":1}}`+"\n" || len(body.Annotations()) != 1 {
			c.Errorf("got the annotations %q at the end, want the last state alone", body.Annotations())
		}
		if lines := op.Logs.Find("superseded"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
	c.Run(t, "CH-T8 records of a change that was taken back do not survive", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%d %d", ch.Spec().Int("x"), ch.Retry)
			return kopf.Temporary(errOops, time.Hour)
		}, named("update"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		c.Patch("a", sized(2))
		c.WaitFor("the record", func() bool { return len(records(c.Get("a"))) == 1 && l.count("2 0") == 1 })
		c.Pass(300 * time.Millisecond)
		c.Patch("a", sized(1))
		c.handled("a") // without a record
		n := len(op.Wire.Writes())
		c.Patch("a", map[string]any{"status": map[string]any{"by": "another"}})
		c.Pass(300 * time.Millisecond)
		if got := len(op.Wire.Writes()); got != n {
			c.Errorf("%d writes follow a change of nothing", got-n)
		}
		c.Patch("a", sized(3))
		c.expect(&l, "2 0", "3 0")
	})
	c.Run(t, "CH-156 a result that is not JSON fails its handler, and nobody else", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("good %d", ch.Retry)
			ch.SetResult("fine")
			return nil
		}, named("good"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("bad %d", ch.Retry)
			ch.Patch.Set("status.left", true)
			ch.SetResult(map[string]any{"function": func() {}})
			return nil
		}, &kopf.ChangeOptions{ID: "bad", Retries: 2, Backoff: 200 * time.Millisecond})
		op := c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		c.expect(&l, "good 0", "bad 0") // another attempt would have the same result
		op.waitLogged(c, "Creation is processed")
		if got := fmt.Sprint(body.Status().Map()); got != "map[good:fine left:true]" {
			c.Errorf("got the status %s, want what the good handler has left, and the patch of the bad one", got)
		}
		if lines := op.Logs.Find("'bad' failed permanently: the result: \"function\": json: unsupported type: func()"); len(lines) != 1 || len(op.Logs.Find("1 succeeded; 1 failed")) != 1 || len(op.Logs.Find("Processing of the object failed")) != 0 {
			c.Errorf("got the lines %v, want one failure of the handler", lines)
		}
	})
	c.Run(t, "CH-T21 a damaged last handled state counts as one in which everything was different", func(c *C) {
		for name, damage := range map[string]string{"text": "not json", "list": "[1]", "cut": `{"spec":{"x":`} {
			object := sized(1)
			object["metadata"] = map[string]any{"annotations": map[string]any{diffBase: damage}}
			c.Create(name, object)
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("update %v->%v", ch.Old.Get("spec.x"), ch.New.Get("spec.x"))
				return nil
			}, named("update"))
			op := c.Operator(r)
			c.expect(&l, "update <nil>->1")
			c.WaitFor("the last state", func() bool { return c.Get(name).Annotations()[diffBase] == `{"spec":{"x":1}}`+"\n" })
			if lines := op.Logs.Find("is damaged"); len(lines) == 0 || lines[0].Level != slog.LevelWarn {
				c.Errorf("got the lines %v, want a warning", lines)
			}
			op.Stop()
			c.Delete(name)
		}
	})
}
