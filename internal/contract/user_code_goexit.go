package contract

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that runtime.Goexit in a function of the user fails only that call. Tests call
// it with t.FailNow.

var _ = Suite("user_code_goexit", func(t *testing.T, c *C) {
	for kind, register := range goexits {
		c.Run(t, "DF-41 runtime.Goexit in "+kind+" fails that call, and its object goes on", func(c *C) {
			c.goesOn(register)
		})
	}
	c.Run(t, "DF-41 runtime.Goexit in a handler holds no place", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if l.add("%s", ch.Name()); ch.Name() == "a" {
				runtime.Goexit()
			}
			return nil
		}, &kopf.ChangeOptions{ID: "h", Retries: 1})
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Execution.MaxWorkers, op.Settings.Queueing.WorkerLimit = 1, 1
		})
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return l.count("a") > 0 })
		c.Create("b", nil)
		c.handled("b")
		c.expect(&l, "a", "b")
		lines := op.Logs.Find("Handler 'h' failed permanently")
		if len(lines) != 1 || lines[0].Level != slog.LevelError || !strings.Contains(lines[0].Attrs["error"], "runtime.Goexit") {
			c.Errorf("got the lines %+v, want an error that tells of it", lines)
		}
	})
	c.Run(t, "DF-41 a filter that calls runtime.Goexit does not match", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("when"), &kopf.ChangeOptions{ID: "when", When: func(*kopf.Change) bool {
			runtime.Goexit()
			return true
		}})
		r.OnCreate(Examples, l.handler("label"), &kopf.ChangeOptions{ID: "label", Labels: kopf.Match{
			"x": func(*kopf.FieldValue) bool { runtime.Goexit(); return true },
		}})
		r.OnCreate(Examples, l.handler("good"), named("good"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "good create 0")
		if n := len(op.Logs.Find("A filter of a handler panicked")); n != 2 {
			c.Errorf("the log names %d filters, want 2", n)
		}
	})
	c.Run(t, "DF-41 runtime.Goexit in the option Where serves the other handlers", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("bad"), &kopf.ChangeOptions{ID: "bad", Where: func(kopf.Resource) bool {
			runtime.Goexit()
			return true
		}})
		r.OnCreate(Examples, l.handler("good"), named("good"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "good create 0")
	})
	c.Run(t, "DF-41 runtime.Goexit in the readiness function of a child fails the call", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("call")
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Ready: func(*kopf.Body) (bool, string) {
				if l.count("call") == 1 {
					runtime.Goexit()
				}
				return true, ""
			}})
			return nil
		}, &kopf.ReconcileOptions{ID: "h", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("another call", func() bool { return l.count("call") > 1 })
	})
	c.Run(t, "DF-41 runtime.Goexit in Objects of a watch counts as none", func(c *C) {
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{
			ID: "h", Watches: []kopf.Watch{{Of: "configmaps", Objects: func(*kopf.Watched) []kopf.ObjectReference {
				runtime.Goexit()
				return nil
			}}},
		})
		op := c.Operator(r)
		c.configMaps().Create("x", nil)
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("A function of a watch panicked")) > 0 })
	})
	c.Run(t, "DF-41 runtime.Goexit in a label of a watch counts as no match, and does not hold the watched object", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{
			ID: "h", Watches: []kopf.Watch{{Of: "configmaps", Labels: kopf.Match{
				"x": func(*kopf.FieldValue) bool { runtime.Goexit(); return true },
			}}},
		})
		r.OnCreate("configmaps", l.handler("create"), &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"x": "1"}})
		op := c.Operator(r)
		c.configMaps().Create("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "1"}}})
		c.WaitFor("the call for the watched object", func() bool { return len(l.all()) == 1 })
		if lines := op.Logs.Find("A function of a watch panicked"); len(lines) != 1 || lines[0].Attrs["option"] != "Labels" {
			c.Errorf("got the lines %v", lines)
		}
	})
	for what, end := range map[string]func(){"runtime.Goexit": runtime.Goexit, "a panic": func() { panic("oops") }} {
		c.Run(t, "DF-41 "+what+" in a lifecycle counts as AllAtOnce", func(c *C) {
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("first"), named("first"))
			r.OnCreate(Examples, l.handler("second"), named("second"))
			op := c.Operator(r, func(op *kopf.Operator) {
				op.Lifecycle = func([]kopf.PendingHandler) []kopf.PendingHandler {
					end()
					return nil
				}
			})
			c.Create("a", nil)
			c.handled("a")
			c.expect(&l, "first create 0", "second create 0")
			if n := len(op.Logs.Find("The lifecycle panicked")); n != 1 {
				c.Errorf("got %d lines, want 1", n)
			}
		})
	}
	goexitsOutside(t, c)
})

// goexits register handlers that call a function, which ends its goroutine in the first call.
var goexits = map[string]func(r *kopf.Registry, call func()){
	"a create handler": func(r *kopf.Registry, call func()) {
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { call(); return nil }, againSoon())
	},
	"a sub-handler": func(r *kopf.Registry, call func()) {
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Subhandler("sub", func(context.Context, *kopf.Change) error { call(); return nil }, againSoon())
			return nil
		}, named("h"))
	},
	"an interruptible handler": func(r *kopf.Registry, call func()) {
		options := againSoon()
		options.Interruptible = true
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { call(); return nil }, options)
	},
	"an event handler": func(r *kopf.Registry, call func()) {
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { call(); return nil }, watchedAs("h"))
	},
	"a reconcile handler": func(r *kopf.Registry, call func()) {
		r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { call(); return nil }, &kopf.ReconcileOptions{ID: "h"})
	},
	"an index function": func(r *kopf.Registry, call func()) {
		kopf.OnIndexIn(r, Examples, func(context.Context, *kopf.Indexing) (map[string]string, error) {
			call()
			return nil, nil
		}, &kopf.IndexOptions{ID: "h", Errors: kopf.ErrorsTemporary, Backoff: time.Second})
	},
	"a function of Transform": func(r *kopf.Registry, call func()) {
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(func(map[string]any) error { call(); return nil })
			return nil
		}, againSoon())
	},
	"a daemon": func(r *kopf.Registry, call func()) {
		r.OnDaemon(Examples, func(_ context.Context, d *kopf.Daemon) error {
			call()
			<-d.Stopping()
			return nil
		}, &kopf.DaemonOptions{ID: "h", Backoff: time.Second})
	},
	"a timer": func(r *kopf.Registry, call func()) {
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { call(); return nil },
			&kopf.TimerOptions{ID: "h", Interval: time.Hour, Backoff: time.Second})
	},
	"InitialDelayFunc": func(r *kopf.Registry, call func()) {
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { call(); return nil },
			&kopf.TimerOptions{ID: "h", Interval: time.Second, InitialDelayFunc: func(*kopf.Object) time.Duration {
				call()
				return 0
			}})
	},
}

func againSoon() *kopf.ChangeOptions { return &kopf.ChangeOptions{ID: "h", Backoff: time.Second} }

// goesOn has the first call of a function end its goroutine. It waits for another call, and for the
// deletion of the object.
func (c *C) goesOn(register func(r *kopf.Registry, call func())) {
	var n atomic.Int64
	r := &kopf.Registry{}
	register(r, func() {
		if n.Add(1) == 1 {
			runtime.Goexit()
		}
	})
	op := c.Operator(r)
	c.Create("a", nil)
	c.WaitFor("the first call", func() bool { return n.Load() > 0 })
	c.Pass(500 * time.Millisecond)
	c.Patch("a", spec(map[string]any{"x": 1}))
	c.WaitFor("another call", func() bool { return n.Load() > 1 })
	c.Delete("a")
	c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
	said := 0
	for _, line := range op.Logs.All() {
		if line.Level >= slog.LevelWarn && strings.Contains(line.Message+line.Attrs["error"], "runtime.Goexit") {
			said++
		}
	}
	if said != 1 {
		c.Errorf("%d lines tell of it, want 1: %+v", said, op.Logs.All())
	}
}

// goexitsOutside proves it for functions outside of handlers, in the middle of the work on an object.
func goexitsOutside(t *testing.T, c *C) {
	for what, adjust := range map[string]func(op *kopf.Operator, call func()){
		"a storage": func(op *kopf.Operator, call func()) {
			op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(*kopf.Body) { call() }}
		},
		"a storage at a write": func(op *kopf.Operator, call func()) {
			op.Settings.Persistence.ProgressStorage = &faultyProgress{store: func(*kopf.Body) { call() }}
		},
		"the audit": func(op *kopf.Operator, call func()) {
			op.Settings.Process.Audit = func(context.Context, slog.Record) error { call(); return nil }
		},
	} {
		c.Run(t, "DF-41 runtime.Goexit in "+what+" costs its object a pause", func(c *C) {
			c.OnlyInBubble("the pause is long")
			var exited atomic.Bool
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if ch.Retry == 0 {
					return kopf.Temporary(errors.New("not yet"), time.Second)
				}
				return nil
			}, named("first"))
			c.Operator(r, func(op *kopf.Operator) {
				op.Settings.Execution.MaxWorkers = 1
				adjust(op, func() {
					if !exited.Swap(true) {
						runtime.Goexit()
					}
				})
			})
			c.Create("a", nil)
			c.Pass(time.Second)
			c.Create("b", nil)
			c.handled("b")
			c.Pass(5 * time.Minute)
			c.handled("a")
			if !exited.Load() {
				c.Error("the function was not called")
			}
		})
	}
	c.Run(t, "DF-41 runtime.Goexit in a storage costs the patch of a daemon a pause", func(c *C) {
		c.OnlyInBubble("the pause is long")
		var exits atomic.Bool
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(_ context.Context, d *kopf.Daemon) error {
			d.Patch.Set("status", nil)
			exits.Store(true)
			return nil
		}, &kopf.DaemonOptions{ID: "h"})
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(*kopf.Body) {
				if exits.Swap(false) {
					runtime.Goexit()
				}
			}}
		})
		c.Create("a", map[string]any{"status": map[string]any{"seen": true}})
		c.Pass(5 * time.Minute)
		if c.Get("a").Status().Has("seen") || exits.Load() {
			c.Errorf("the object is %s", c.Get("a").LogValue())
		}
		if n := len(op.Logs.Find("Sending a patch failed; it will be sent again")); n != 1 {
			c.Errorf("the log has %d failed patches, want 1", n)
		}
		c.Delete("a")
		c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
	})
}
