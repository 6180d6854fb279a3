package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how sub-handlers work, in 1-change-handling.md.

var _ = Suite("change_subhandlers", func(t *testing.T, c *C) { nesting(t, c) })

// record returns a stored record of a handler, by its key.
func (c *C) record(body *kopf.Body, key string) map[string]any {
	c.Helper()
	text, ok := body.Annotation("kopf.zalando.org/" + key)
	if !ok {
		c.Fatalf("there is no record %q, but %q", key, records(body))
	}
	var record map[string]any
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		c.Fatalf("the record %q is %s: %v", key, text, err)
	}
	return record
}

// failTimes returns a temporary error in the first attempts.
func failTimes(ch *kopf.Change, times int) error {
	if ch.Retry < times {
		return kopf.Temporary(errOops, time.Minute)
	}
	return nil
}

func nesting(t *testing.T, c *C) {
	c.Run(t, "DF-44 sub-handlers that succeed together are stored by a few requests", func(c *C) {
		const many = 200
		var nested atomic.Int32
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			for i := range many {
				ch.Subhandler(kopf.HandlerID(fmt.Sprint("s", i)), func(_ context.Context, sub *kopf.Change) error {
					sub.Subhandler("nested", func(context.Context, *kopf.Change) error { nested.Add(1); return nil }, nil)
					return nil
				}, nil)
				if i == many/2 {
					if err := ch.Execute(ctx); err != nil {
						return err
					}
				}
			}
			return nil
		}, named("parent"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		if n := len(op.Wire.Writes()); n > 5 || nested.Load() != many {
			c.Errorf("got %d writes for %d nested sub-handlers, want a few for %d", n, nested.Load(), many)
		}
	})
	c.Run(t, "DF-44 a sub-handler that has succeeded is stored a second later, while another one runs", func(c *C) {
		c.OnlyInBubble("the handler is slow")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Subhandler("quick", func(context.Context, *kopf.Change) error { return nil }, nil)
			ch.Subhandler("slow", func(context.Context, *kopf.Change) error { time.Sleep(time.Hour); return nil }, nil)
			return nil
		}, named("parent"))
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(2 * time.Second)
		if record := c.record(c.Get("a"), "parent.quick"); record["success"] != true {
			c.Errorf("got the record %v", record)
		}
		c.Pass(2 * time.Hour)
		c.handled("a")
	})
	c.Run(t, "CH-172 a warning names an unfinished sub-handler that is not declared again", func(c *C) {
		c.OnlyInBubble("the delays are long")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Subhandler("kept", func(_ context.Context, sub *kopf.Change) error { return failTimes(sub, 2) }, nil)
			ch.Subhandler("finished", func(context.Context, *kopf.Change) error { return nil }, nil)
			if ch.Retry == 0 {
				ch.Subhandler("dropped", func(_ context.Context, sub *kopf.Change) error { return failTimes(sub, 9) }, nil)
			}
			return nil
		}, named("parent"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Hour)
		c.handled("a")
		lines := op.Logs.Find("Unfinished sub-handlers were not registered again")
		if len(lines) != 1 || lines[0].Attrs["subhandlers"] != "parent/dropped" || lines[0].Attrs["handler"] != "parent" {
			c.Errorf("got the warnings %v, want one of parent/dropped", lines)
		}
	})
	c.Run(t, "CH-166 a deletion leaves no records of the sub-handlers of the same handler for the change before", func(c *C) {
		c.OnlyInBubble("the delays are long")
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Subhandler("sub", func(context.Context, *kopf.Change) error { return nil }, nil)
			return nil
		}, named("parent"))
		r.OnUpdate(Examples, func(context.Context, *kopf.Change) error { return kopf.Temporary(errOops, time.Hour) }, named("slow"))
		r.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, named("parent"))
		object := handledByOriginal(`{"spec":{"x":1}}`, sized(2))
		object["metadata"].(map[string]any)["finalizers"] = []any{"example.com/other"}
		c.Create("a", object)
		c.Operator(r)
		c.Pass(time.Minute)
		if got := records(c.Get("a")); len(got) != 3 {
			c.Fatalf("got the records %q, want those of the parent, its sub-handler and the slow handler", got)
		}
		c.Delete("a")
		c.Pass(2 * time.Hour)
		if got := records(c.Get("a")); len(got) > 0 {
			c.Errorf("after the deletion was handled, there are the records %q", got)
		}
	})
	for _, crash := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("CH-T1 a change while a sub-handler waits reaches the one that has finished, crash %v", crash), func(c *C) {
			c.OnlyInBubble("the delays are long")
			var l calls
			r := &kopf.Registry{}
			r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				ch.Subhandler("quick", func(ctx context.Context, sub *kopf.Change) error {
					l.add("quick %v->%v", sub.Old.Get("spec.x"), sub.New.Get("spec.x"))
					return nil
				}, nil)
				ch.Subhandler("slow", func(ctx context.Context, sub *kopf.Change) error {
					l.add("slow %v->%v", sub.Old.Get("spec.x"), sub.New.Get("spec.x"))
					if fmt.Sprint(sub.New.Get("spec.x")) == "2" {
						return kopf.Temporary(errOops, time.Hour)
					}
					return nil
				}, nil)
				return nil
			}, named("parent"))
			c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
			op := c.Operator(r)
			c.Pass(time.Minute)
			if crash {
				op.Crash()
				c.Operator(r)
			}
			c.Patch("a", sized(3))
			c.Pass(2 * time.Hour)
			c.expect(&l, "quick 1->2", "slow 1->2", "slow 1->3", "quick 2->3")
		})
	}
	c.Run(t, "DF-25 a sub-handler that has seen a state too large to be stored now is called again", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("parent %v", ch.Spec().Int("x"))
			ch.Subhandler("quick", func(ctx context.Context, sub *kopf.Change) error {
				l.add("quick %v", sub.Spec().Int("x"))
				return nil
			}, nil)
			ch.Subhandler("slow", func(ctx context.Context, sub *kopf.Change) error {
				if l.add("slow %v", sub.Spec().Int("x")); sub.Spec().Int("x") == 1 {
					return kopf.Temporary(errOops, time.Hour)
				}
				return nil
			}, nil)
			return nil
		}, named("parent"))
		c.Create("a", spec(map[string]any{"x": 1, "pad": strings.Repeat("p", 170<<10)}))
		c.Operator(r)
		c.Pass(time.Minute)
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"large": strings.Repeat("y", 100<<10)}}, "spec": map[string]any{"pad": nil, "x": 2}})
		c.Pass(2 * time.Hour)
		c.expect(&l, "parent 1", "quick 1", "slow 1", "parent 2", "slow 2", "parent 2", "quick 2")
		if got := c.Get("a").Annotations(); len(got) != 2 || !strings.Contains(got[diffBase], `"x":2`) {
			c.Errorf("there are %d annotations", len(got))
		}
	})
	c.Run(t, "CH-170 sub-handlers have records, filters, errors, retries and results of their own, at any depth", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("a", func(ctx context.Context, sub *kopf.Change) error {
				l.add("a %d", sub.Retry)
				if sub.Retry == 0 {
					return kopf.Temporary(errOops, time.Minute)
				}
				sub.SetResult("A")
				return nil
			}, nil)
			ch.Subhandler("never", l.handler("never"), &kopf.ChangeOptions{Labels: kopf.Match{"no": kopf.Present}})
			ch.Subhandler("b", func(ctx context.Context, sub *kopf.Change) error {
				sub.Subhandler("c", func(ctx context.Context, deep *kopf.Change) error {
					l.add("c %d", deep.Retry)
					deep.SetResult(map[string]any{"deep": deep.Retry})
					if deep.Retry < 2 {
						return errOops
					}
					return nil
				}, &kopf.ChangeOptions{Backoff: 2 * time.Minute, Retries: 3})
				sub.Subhandler("d", l.handler("d", errOops), &kopf.ChangeOptions{Errors: kopf.ErrorsPermanent})
				return nil
			}, nil)
			return nil
		}, named("parent"))
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the first attempts", func() bool { return len(l.all()) == 3 })
		c.Pass(time.Second)
		body := c.Get("a")
		if got, want := fmt.Sprint(records(body)), "[parent parent.a parent.b parent.b.c parent.b.d]"; got != want {
			c.Errorf("got the records %s, want %s", got, want)
		}
		for key, want := range map[string]string{"parent.a": "false false 1", "parent.b.c": "false false 1", "parent.b.d": "false true 1", "parent.b": "false false 1"} {
			record := c.record(body, key)
			if got := fmt.Sprint(record["success"], record["failure"], record["retries"]); got != want {
				c.Errorf("the record %s has success, failure, retries %s, want %s", key, got, want)
			}
		}
		body = c.handled("a")
		c.expect(&l, "a 0", "c 0", "d create 0", "a 1", "c 1", "c 2")
		if got := body.Status().Get(kopf.Path("parent/a")); got != "A" {
			c.Errorf("the result of the sub-handler is %v, want A", got)
		}
		if got := body.Status().Int(kopf.Path("parent/b/c", "deep")); got != 2 {
			c.Errorf("the result of the inner sub-handler is %v, want 2", got)
		}
	})
	c.Run(t, "CH-171 a parent waits for its sub-handlers as after a temporary error", func(c *C) {
		c.OnlyInBubble("the delays are long")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("b", func(ctx context.Context, sub *kopf.Change) error {
				sub.Subhandler("c", func(context.Context, *kopf.Change) error { return kopf.Temporary(errOops, 30*time.Minute) }, nil)
				return nil
			}, nil)
			ch.Subhandler("a", func(context.Context, *kopf.Change) error { return kopf.Temporary(errOops, 20*time.Minute) }, nil)
			return nil
		}, named("parent"))
		op := c.Operator(r)
		began := time.Now()
		c.Create("a", nil)
		c.Pass(time.Minute)
		record := c.record(c.Get("a"), "parent")
		delayed, err := time.Parse(time.RFC3339, fmt.Sprint(record["delayed"]))
		if err != nil || delayed.Sub(began) < 20*time.Minute || delayed.Sub(began) > 20*time.Minute+time.Second {
			c.Errorf("the parent is delayed until %v (%v), want 20 minutes after %v", record["delayed"], err, began)
		}
		if got, want := fmt.Sprintf("%v %v %v", record["retries"], record["message"], record["subrefs"]), "1 None [parent/a parent/b parent/b/c]"; got != want {
			c.Errorf("got retries, message, subrefs %s, want %s", got, want)
		}
		waits := op.Logs.Find("'parent' waits for its sub-handlers")
		if len(waits) != 1 || waits[0].Level != slog.LevelDebug {
			c.Errorf("got the log lines %v, want one at the debug level", waits)
		}
		if failed := op.Logs.Find("'parent' failed"); len(failed) > 0 {
			c.Errorf("the waiting is logged as an error: %v", failed)
		}
	})
	c.Run(t, "CH-172 a parent is called until its sub-handlers are finished, and the result is that of the last call", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("parent %d", ch.Retry)
			if ch.Body.Has("status.parent") {
				l.add("the result is there already")
			}
			ch.SetResult(ch.Retry)
			ch.Subhandler("once", l.handler("once"), nil)
			ch.Subhandler("thrice", l.handler("thrice", kopf.Temporary(errOops, time.Millisecond), kopf.Temporary(errOops, time.Millisecond)), nil)
			return nil
		}, named("parent"))
		c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		c.expect(&l, "parent 0", "once create 0", "thrice create 0", "parent 1", "thrice create 1", "parent 2", "thrice create 2")
		if got := body.Status().Int("parent"); got != 2 {
			c.Errorf("the result is %d, want that of the last call, 2", got)
		}
	})
	c.Run(t, "CH-173 a sub-handler that has failed for good is finished", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("bad", l.handler("bad", kopf.Permanent(errOops)), nil)
			ch.Subhandler("good", l.handler("good"), nil)
			return nil
		}, named("parent"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		op.waitLogged(c, "is processed")
		c.expect(&l, "bad create 0", "good create 0")
		if len(op.Logs.Find("'parent' succeeded")) != 1 || len(op.Logs.Find("1 succeeded; 0 failed")) != 1 {
			c.Error("the parent has not succeeded")
		}
	})
	c.Run(t, "CH-174 the timeout of a parent counts the time of its sub-handlers, too", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("parent %d", ch.Retry)
			ch.Subhandler("sub", func(context.Context, *kopf.Change) error { return kopf.Temporary(errOops, 10*time.Second) }, nil)
			return nil
		}, &kopf.ChangeOptions{ID: "parent", Timeout: 25 * time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		op.waitLogged(c, "is processed")
		c.expect(&l, "parent 0", "parent 1", "parent 2")
		if n := len(op.Logs.Find("0 succeeded; 1 failed")); n != 1 {
			c.Errorf("%d lines say that it has failed, want 1", n)
		}
	})
	c.Run(t, "CH-T37 calls that wait for sub-handlers do not count as retries", func(c *C) {
		var l calls
		soon := kopf.Temporary(errOops, time.Millisecond)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("parent %d", ch.Retry)
			ch.Subhandler("sub", l.handler("sub", soon, soon, soon), nil)
			return nil
		}, &kopf.ChangeOptions{ID: "parent", Retries: 2})
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		op.waitLogged(c, "is processed")
		if l.count("parent") != 4 || l.count("sub") != 4 {
			c.Errorf("got the calls %q, want four of each", l.all())
		}
		if n := len(op.Logs.Find("1 succeeded; 0 failed")); n != 1 {
			c.Errorf("%d lines say that the parent has succeeded, want 1", n)
		}
	})
	c.Run(t, "CH-175 records of sub-handlers that are not declared any more stay until the end", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				ch.Subhandler("old", l.handler("old", kopf.Temporary(errOops, time.Minute)), nil)
			} else {
				ch.Subhandler("new", l.handler("new", kopf.Temporary(errOops, time.Minute)), nil)
			}
			return nil
		}, named("parent"))
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(90 * time.Second)
		if got, want := fmt.Sprint(records(c.Get("a"))), "[parent parent.new parent.old]"; got != want {
			c.Errorf("got the records %s, want %s", got, want)
		}
		body := c.handled("a")
		c.expect(&l, "old create 0", "new create 0", "new create 1")
		if left := records(body); len(left) > 0 {
			c.Errorf("the records %q are left", left)
		}
	})
	c.Run(t, "CH-176 sub-handlers can be declared only by a running handler of changes", func(c *C) {
		var kept *kopf.Change
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			kept = ch
			return nil
		}, named("parent"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		op.Stop()
		for _, ch := range []*kopf.Change{kept, {}} {
			func() {
				defer func() {
					if recover() == nil {
						c.Error("a sub-handler was declared without a running parent")
					}
				}()
				ch.Subhandler("late", func(context.Context, *kopf.Change) error { return nil }, nil)
			}()
			if err := ch.Execute(c.Context()); err == nil {
				c.Error("sub-handlers were executed without a running parent")
			}
		}
	})
	c.Run(t, "CH-T51 what is counted are the handlers of the cause, and not their sub-handlers", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("good"), named("good"))
		r.OnCreate(Examples, l.handler("ignored", errOops), &kopf.ChangeOptions{ID: "ignored", Errors: kopf.ErrorsIgnored})
		r.OnCreate(Examples, l.handler("bad", kopf.Permanent(errOops)), named("bad"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("x", l.handler("x"), nil)
			ch.Subhandler("y", l.handler("y", kopf.Permanent(errOops)), nil)
			return nil
		}, named("parent"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		op.waitLogged(c, "is processed")
		lines := op.Logs.Find("Creation is processed: 3 succeeded; 1 failed.")
		if len(lines) != 1 || lines[0].Attrs["failed"] != "bad, parent/y" {
			c.Errorf("got %v, want one line with the right counts and the failed handlers", op.Logs.Find("processed"))
		}
	})
}
