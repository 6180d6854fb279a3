package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that people see permanent failures of handlers: by an event, and by the commands status and explain.

var _ = SerialSuite("inspection_failures", func(t *testing.T, c *C) {
	postingFailures(t, c)
	statingFailures(t, c)
	keepingFailures(t, c)
	endingFailures(t, c)
	limitingFailures(t, c)
})

// failedKey is the annotation with the handlers that failed permanently.
const failedKey = "kopf.zalando.org/failed-handlers"

// moody returns handlers that fail permanently while the spec of the object names them as failing.
func (c *C) moody() *kopf.Registry {
	return c.handlersFor(func(r *kopf.Registry) {
		fn := func(_ context.Context, ch *kopf.Change) error {
			if ch.Spec().Has(kopf.FieldPath(ch.Param.(string))) {
				return kopf.Permanent(errors.New("no quota"))
			}
			return nil
		}
		for _, id := range []string{"first", "second"} {
			r.OnCreate(Examples, fn, &kopf.ChangeOptions{ID: kopf.HandlerID(id), Param: id})
			r.OnUpdate(Examples, fn, &kopf.ChangeOptions{ID: kopf.HandlerID(id), Param: id})
		}
	})
}

// wantFailing runs the check for scripts, and compares its exit code.
func (c *C) wantFailing(r *kopf.Registry, want bool) {
	c.Helper()
	code, stdout, stderr := c.inspect(c.Context(), r, "status", "kex", "--failed", "--exit-code", "-n", c.Namespace)
	if wanted := map[bool]int{true: 3}[want]; code != wanted {
		c.Errorf("status --failed --exit-code: got the code %d, want %d: %s%s", code, wanted, stdout, stderr)
	}
}

func postingFailures(t *testing.T, c *C) {
	never := kopf.Permanent(errors.New("no quota"))
	change := func(context.Context, *kopf.Change) error { return never }
	tests := []struct {
		name, want string
		register   func(r *kopf.Registry)
	}{
		{"a change handler", "Handler 'h' failed permanently: no quota", func(r *kopf.Registry) {
			r.OnCreate(Examples, change, named("h"))
		}},
		{"a change handler with too many attempts", "Handler 'h' failed permanently: handler \"h\" has used up its 1 attempts: no quota", func(r *kopf.Registry) {
			fn := func(context.Context, *kopf.Change) error { return errors.New("no quota") }
			r.OnCreate(Examples, fn, &kopf.ChangeOptions{ID: "h", Retries: 1})
		}},
		{"a sub-handler", "Handler 'parent/h' failed permanently: no quota", func(r *kopf.Registry) {
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				ch.Subhandler("h", change, nil)
				return nil
			}, named("parent"))
		}},
		{"a timer", "Timer 'h' failed permanently: no quota", func(r *kopf.Registry) {
			r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return never }, &kopf.TimerOptions{ID: "h", Interval: time.Hour})
		}},
		{"a daemon", "Daemon 'h' failed permanently: no quota", func(r *kopf.Registry) {
			r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { return never }, daemonID("h"))
		}},
		{"a reconcile handler", "Handler 'h' failed permanently: no quota", func(r *kopf.Registry) {
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return never }, &kopf.ReconcileOptions{ID: "h"})
		}},
	}
	for _, tt := range tests {
		c.Run(t, "DF-77 a Warning event tells about the permanent failure of "+tt.name, func(c *C) {
			r := &kopf.Registry{}
			tt.register(r)
			op := c.Operator(r)
			c.Create("a", nil)
			for _, e := range op.wantPosted("Warning HandlerFailed: " + tt.want) {
				if e.About["name"] != "a" || e.About["kind"] != "KopfExample" {
					c.Errorf("the event is about %v", e.About)
				}
			}
		})
	}
	c.Run(t, "DF-77 a Warning event tells that the patch of a handler was refused", func(c *C) {
		c.OnlyInBubble("the server has to refuse")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("metadata.labels.wrong", "a b")
			return nil
		}, named("h"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.WaitFor("the event", func() bool { return len(op.posted(false)) == 1 })
		got := op.posted(false)[0]
		if got.Type != "Warning" || !strings.HasPrefix(got.Message, "Handler 'h' failed permanently: its patch was refused") {
			c.Errorf("got the event %s", got)
		}
	})
	c.Run(t, "DF-77 no event tells about handlers that are retried or succeed, or if events are turned off", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				return errors.New("not yet")
			}
			return nil
		}, named("h"))
		r.OnUpdate(Examples, change, named("h"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		op.wantPosted()
		op = c.Operator(r, func(o *kopf.Operator) { o.Settings.Posting.Enabled = false })
		c.Patch("a", sized(2))
		c.Pass(time.Minute)
		op.wantPosted()
	})
}

func statingFailures(t *testing.T, c *C) {
	c.Run(t, "DF-77 status and explain tell about permanent failures, also after a restart, until the next change that succeeds", func(c *C) {
		r := c.moody()
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"first": true}))
		c.WaitFor("the failure", func() bool { _, ok := c.Get("a").Annotation(failedKey); return ok })
		check := func() {
			c.Helper()
			c.wantFailing(r, true)
			s := c.stateOf(r, "kex", "a")
			if s.State != "Failed" || s.Error != "no quota" || len(s.Handlers) != 1 || s.Handlers[0].ID != "first" || s.Handlers[0].Attempts != 1 {
				c.Errorf("got the status %+v", s)
			}
			x := c.explain(r, "kex", "a", "-n", c.Namespace)
			if why := x.why("first"); !strings.Contains(why, "not called: has failed permanently ") || !strings.Contains(why, "ago: no quota") {
				c.Errorf("explain says about the handler %q", why)
			}
			if notes := fmt.Sprint(x.Notes); !strings.Contains(notes, "first failed permanently") || strings.Contains(x.why("second"), "failed") {
				c.Errorf("explain notes %q, and says about the other handler %q", notes, x.why("second"))
			}
			none := c.handlersFor(nil)
			if s := c.stateOf(none, "kex", "a"); s.State != "Failed" || s.Error != "no quota" {
				c.Errorf("the command without handlers says %+v", s)
			}
			if notes := fmt.Sprint(c.explain(none, "kex", "a", "-n", c.Namespace).Notes); !strings.Contains(notes, "no quota") {
				c.Errorf("without handlers, explain notes %q", notes)
			}
		}
		check()
		op.Stop()
		op = c.Operator(r)
		c.Patch("a", map[string]any{"status": map[string]any{"phase": "seen"}}) // not a tracked change
		c.Create("b", nil)
		c.handled("b") // the operator has seen both
		c.Delete("b")
		check()
		c.Patch("a", spec(map[string]any{"first": nil, "second": true}))
		c.WaitFor("the other failure", func() bool {
			s := c.stateOf(r, "kex", "a")
			return len(s.Handlers) == 1 && s.Handlers[0].ID == "second"
		})
		c.Patch("a", spec(map[string]any{"second": nil}))
		c.WaitFor("the success", func() bool { _, ok := c.Get("a").Annotation(failedKey); return !ok })
		c.wantFailing(r, false)
		if s := c.stateOf(r, "kex", "a"); s.State != "Handled" || len(s.Handlers) != 0 {
			c.Errorf("after the success, the status is %+v", s)
		}
		op.Stop()
	})
	c.Run(t, "DF-77 a handler that failed for an earlier change does not count for the current one", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				ch.Subhandler("sub", fails(kopf.Permanent(errOops)), nil)
				return nil
			}, named("create"))
			r.OnUpdate(Examples, noChange, named("quick"))
			r.OnUpdate(Examples, fails(kopf.Temporary(errOops, time.Hour)), named("slow"))
		})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the failure", func() bool { _, ok := c.Get("a").Annotation(failedKey); return ok })
		c.same("after the creation", []int{1, 1}, []int{c.stateOf(r, "kex", "a").Done, c.stateOf(r, "kex", "a").All})
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the attempts", func() bool { return len(c.stateOf(r, "kex", "a").Handlers) == 3 })
		op.Stop()
		s := c.stateOf(r, "kex", "a")
		c.same("in the update", []int{1, 2}, []int{s.Done, s.All})
	})
	c.Run(t, "DF-77 status shows the last error, and for a deletion the one that blocks it", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			failing := func(err error) kopf.ChangeFunc {
				return func(context.Context, *kopf.Change) error { return err }
			}
			r.OnCreate(Examples, failing(kopf.Permanent(errors.New("no quota"))), &kopf.ChangeOptions{ID: "a"})
			r.OnUpdate(Examples, failing(kopf.Permanent(errors.New("too large"))), &kopf.ChangeOptions{ID: "b"})
			r.OnDelete(Examples, failing(errors.New("still used")), &kopf.ChangeOptions{ID: "c"})
		})
		op := c.Operator(r)
		c.Create("a", nil)
		want := func(state, text string) {
			c.Helper()
			c.WaitFor("the error "+text, func() bool { return c.stateOf(r, "kex", "a").Error == text })
			if s := c.stateOf(r, "kex", "a"); string(s.State) != state {
				c.Errorf("got the state %s, want %s", s.State, state)
			}
		}
		want("Failed", "no quota")
		c.Pass(2 * time.Second) // failures are stored with seconds
		c.Patch("a", spec(map[string]any{"x": 1}))
		want("Failed", "too large")
		c.Delete("a")
		want("Deleting", "still used")
		op.Stop()
	})
	c.Run(t, "DF-77 a permanent failure costs no request more than a success, apart from the event", func(c *C) {
		c.OnlyInBubble("the requests are to be seen")
		op := c.Operator(c.moody())
		c.Create("a", nil)
		c.Create("b", spec(map[string]any{"second": true})) // a failure is stored at once, and that of the last handler with the end
		c.handled("a")
		c.handled("b")
		c.Pass(time.Minute)
		if n := len(op.Wire.Requests("PATCH")); n != 2 {
			c.Errorf("got %d patches for two creations, want 2", n)
		}
	})
	c.Run(t, "DF-77 with the state in the status, failures are there, and they move with it", func(c *C) {
		k := c.statuses()
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate("kopfstatusexamples", func(context.Context, *kopf.Change) error { return kopf.Permanent(errors.New("no quota")) }, named("h"))
		})
		op := c.Operator(r, func(o *kopf.Operator) { o.Settings.Persistence.Storage = kopf.InStatus })
		k.Create("a", nil)
		failed := func(b *kopf.Body) bool { return b.Has("status.kopf.progress.failed-handlers.message") }
		c.WaitFor("the failure", func() bool { return failed(k.Get("a")) })
		if _, ok := k.Get("a").Annotation(failedKey); ok {
			c.Error("the failure is also in the annotations")
		}
		check := func() {
			c.Helper()
			if s := c.stateOf(r, "ksx", "a"); s.State != "Failed" || s.Error != "no quota" {
				c.Errorf("got the status %+v", s)
			}
		}
		check()
		op.Stop()
		c.Operator(r)
		c.WaitFor("the move to annotations", func() bool {
			_, ok := k.Get("a").Annotation(failedKey)
			return ok && !failed(k.Get("a"))
		})
		check()
	})
}

func keepingFailures(t *testing.T, c *C) {
	setsLabel := func(ch *kopf.Change) { ch.Patch.Set("metadata.labels.tried", "true") }
	argo := map[string]any{"metadata": map[string]any{"labels": map[string]any{"by": "argo"}}}
	tests := []struct {
		name      string
		bad, good func(*kopf.Change)
		edit      time.Duration // when another client sets a label; 0 for never
	}{
		{"the patch of the failed handler", setsLabel, nil, 0},
		{"the patch of another handler", nil, setsLabel, 0},
		{"a label of another client", nil, nil, time.Minute},
		{"a label that is set during the handling", nil, func(*kopf.Change) { time.Sleep(10 * time.Second) }, 5 * time.Second},
	}
	for _, tt := range tests {
		c.Run(t, "DF-77 a failure is not hidden by "+tt.name+", for which no handler is called", func(c *C) {
			c.OnlyInBubble("it waits")
			r := c.handlersFor(func(r *kopf.Registry) {
				r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
					if tt.bad != nil {
						tt.bad(ch)
					}
					return kopf.Permanent(errors.New("no quota"))
				}, named("bad"))
				r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
					if tt.good != nil {
						tt.good(ch)
					}
					return nil
				}, named("good"))
				r.OnField(Examples, "spec.size", func(context.Context, *kopf.Change) error { return nil }, named("size"))
			})
			p := newPipe()
			op := c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
			c.Create("a", sized(1))
			if tt.edit > 0 {
				c.Pass(tt.edit)
				c.Patch("a", argo)
			}
			c.Pass(time.Minute)
			c.wantFailing(r, true)
			wantMetrics(c, p, map[string]float64{failedExamples: 1})
			op.Stop()
			p = newPipe()
			c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
			c.Pass(time.Minute)
			wantMetrics(c, p, map[string]float64{failedExamples: 1})
			c.Patch("a", spec(map[string]any{"size": 2}))
			c.Pass(time.Minute)
			c.wantFailing(r, false)
			wantMetrics(c, p, map[string]float64{failedExamples: 0})
		})
	}
	c.Run(t, "DF-77 a failure is not hidden by a resume handler, or by the failure of another one", func(c *C) {
		c.OnlyInBubble("it waits")
		never := func(context.Context, *kopf.Change) error { return kopf.Permanent(errors.New("no quota")) }
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, never, named("bad"))
			r.OnResume(Examples, func(context.Context, *kopf.Change) error { return nil }, named("resumed"))
			r.OnUpdate(Examples, never, &kopf.ChangeOptions{ID: "worse", Field: "spec.y"})
		})
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		op.Stop()
		c.Patch("a", argo)
		c.Operator(r)
		c.Pass(time.Minute)
		c.wantFailing(r, true)
		c.Patch("a", spec(map[string]any{"y": 1}))
		c.Pass(time.Minute)
		if s := c.stateOf(r, "kex", "a"); len(s.Handlers) != 2 {
			c.Errorf("got the status %+v, want both failures", s)
		}
	})
	c.Run(t, "DF-77 a failure is not hidden by the rest of its change, for which its handler is not called", func(c *C) {
		c.OnlyInBubble("it waits")
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnField(Examples, "spec.x", func(_ context.Context, ch *kopf.Change) error {
				time.Sleep(time.Second)
				return kopf.Permanent(errors.New("no quota"))
			}, named("bad"))
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, time.Minute)
				}
				return nil
			}, named("slow"))
		})
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
		c.Operator(r)
		c.Pass(30 * time.Second)
		c.Patch("a", spec(map[string]any{"y": 1}))
		c.Pass(10 * time.Minute)
		c.handled("a")
		c.wantFailing(r, true)
	})
}

func endingFailures(t *testing.T, c *C) {
	c.Run(t, "DF-77 failures count no more when another operator has handled the object since", func(c *C) {
		c.OnlyInBubble("the operator must not run in between")
		r := c.moody()
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"first": true}))
		c.handled("a")
		op.Stop()
		c.Patch("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":2}}`, nil), "spec": map[string]any{"first": nil, "x": 2}})
		if s := c.stateOf(r, "kex", "a"); s.State != "Handled" {
			c.Errorf("got the status %+v, want Handled", s)
		}
	})
	c.Run(t, "DF-77 a handler that failed permanently is called for the next change, and after a restart only for that", func(c *C) {
		c.OnlyInBubble("it waits")
		var l calls
		r := c.handlersFor(func(r *kopf.Registry) {
			fn := func(_ context.Context, ch *kopf.Change) error {
				l.add("%s", ch.Reason)
				return kopf.Permanent(errors.New("never"))
			}
			r.OnCreate(Examples, fn, named("h"))
			r.OnUpdate(Examples, fn, named("h"))
		})
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		op.Stop()
		op = c.Operator(r)
		c.Pass(time.Minute)
		c.expect(&l, "create")
		if n := len(op.Wire.Requests("PATCH")); n != 0 {
			c.Errorf("the restart has sent %d patches, want none", n)
		}
		c.Patch("a", sized(2))
		c.Pass(time.Minute)
		c.expect(&l, "create", "update")
		c.wantFailing(r, true)
	})
	c.Run(t, "DF-77 objects with permanent failures are counted after a restart, too", func(c *C) {
		c.OnlyInBubble("it waits")
		r := c.moody()
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"first": true}))
		c.handled("a")
		op.Stop()
		p := newPipe()
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failedExamples: 1})
		c.Patch("a", spec(map[string]any{"first": nil}))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failedExamples: 0})
	})
}

func limitingFailures(t *testing.T, c *C) {
	c.Run(t, "DF-77 many failed sub-handlers with long errors take a few KiB", func(c *C) {
		c.OnlyInBubble("it is the same everywhere")
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				for i := range 100 {
					ch.Subhandler(kopf.HandlerID(fmt.Sprintf("%03d", i)), func(context.Context, *kopf.Change) error {
						return kopf.Permanent(errors.New(strings.Repeat("long ", 1000)))
					}, nil)
				}
				return nil
			}, named("parent"))
		})
		c.Operator(r)
		c.Create("a", nil)
		text, _ := c.handled("a").Annotation(failedKey)
		if len(text) < 2000 || len(text) > 8000 {
			c.Errorf("the failures take %d bytes", len(text))
		}
		s := c.stateOf(r, "kex", "a")
		if s.State != "Failed" || len(s.Handlers) != 10 || s.Handlers[0].ID != "parent/000" || slices.Contains(s.Problems, "damaged") {
			c.Errorf("got the status %+v", s)
		}
	})
}
