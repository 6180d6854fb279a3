package contract

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the changes of timers and daemons are written in spite of failures in between, and when a failed timer starts again.

var _ = Suite("background_timers", func(t *testing.T, c *C) {
	pendingWrites(t, c)
	permanentFailures(t, c)
})

// setDone is a transformation that sets status.done.
func setDone(object map[string]any) error {
	status, _ := object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		object["status"] = status
	}
	status["done"] = true
	return nil
}

// isDone reports whether status.done is set.
func (c *C) isDone(name string) bool { return c.Get(name).Status().Bool("done") }

// spoiling runs a timer that sets status.merged at each call. In addition, a function makes its first patch fail.
func (c *C) spoiling(k *ticker, backoff time.Duration, spoil func(*kopf.Patch)) *Running {
	c.Helper()
	return c.timing(k, func(_ context.Context, t *kopf.Timer) error {
		k.tick("")
		t.Patch.Set("status.merged", true)
		if len(k.all()) == 1 {
			spoil(t.Patch)
		}
		return nil
	}, kopf.TimerOptions{Interval: time.Hour, Backoff: backoff})
}

func pendingWrites(t *testing.T, c *C) {
	c.Run(t, "DF-18 the transformation of an idle timer is sent after a conflict", func(c *C) {
		c.OnlyInBubble("the times are exact")
		examples, times := c.Kind, 0
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			if times++; times == 1 {
				examples.Patch("a", map[string]any{"status": map[string]any{"by": "others"}})
			}
			t.Patch.Transform(setDone)
			return nil
		}, &kopf.TimerOptions{ID: "t", Idle: 10 * time.Second})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(13 * time.Second)
		if status := c.Get("a").Status(); !status.Bool("done") || status.String("by") != "others" {
			c.Errorf("two seconds after the conflict, the status is %v", status.Map())
		}
		c.Pass(time.Hour)
		if times != 1 {
			c.Errorf("the timer was called %d times, want once", times)
		}
	})
	c.Run(t, "DF-18 the first result of a timer is stored within two seconds", func(c *C) {
		c.OnlyInBubble("the interval is long")
		for range 5 {
			r := &kopf.Registry{}
			r.OnTimer("kopfstatusexamples", func(ctx context.Context, t *kopf.Timer) error {
				t.SetResult(map[string]any{"at": "x"})
				return nil
			}, &kopf.TimerOptions{ID: "tick", Interval: 10 * time.Minute})
			op := c.Operator(r)
			kind := c.Of("kopf.dev/v1", "KopfStatusExample")
			kind.Create("a", nil)
			c.Pass(2 * time.Second)
			if !kind.Get("a").Status().Has("tick") {
				c.Error("two seconds after the first call, the result is not stored")
			}
			kind.Delete("a")
			c.Pass(time.Second)
			op.Stop()
		}
	})
	c.Run(t, "DF-18 a conflict in a pause does not lose the last patch", func(c *C) {
		c.OnlyInBubble("the times are exact")
		table, examples := c.meet(), c.Kind
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			door.pass(context.WithoutCancel(ctx))
			d.Patch.Transform(setDone)
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.Pass(time.Second)
		examples.Patch("a", spec(map[string]any{"size": 2})) // no stream shows it during the pause
		door.let()
		c.Pass(3 * time.Second)
		if !c.isDone("a") {
			c.Error("the last patch has not arrived three seconds later")
		}
		if lines := op.Logs.Find("Dropped the last patch of a handler"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
	c.Run(t, "DF-18 what waits to be sent again when a pause begins is sent", func(c *C) {
		c.OnlyInBubble("the times are exact")
		table := c.meet()
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			t.Patch.Transform(setDone)
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: time.Hour, WithoutFinalizer: true})
		op := c.Operator(r)
		var refused atomic.Int32
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.ContentType == jsonPatch && refused.Add(1) == 1 {
				table.sit("boss", rival(100, 3600))
				return Answer(http.StatusConflict, "Conflict", "the object has been modified"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.paused(op, 1)
		c.Pass(2 * time.Second)
		if !c.isDone("a") {
			c.Error("two seconds after the conflict, the change has not arrived")
		}
	})
	c.Run(t, "DF-18 the exit after a conflict does not lose the last patch", func(c *C) {
		c.OnlyInBubble("the times are exact")
		examples := c.Kind
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			examples.Patch("a", spec(map[string]any{"size": 2}))
			d.Patch.Transform(setDone)
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		op.Stop()
		if !c.isDone("a") {
			c.Error("the last patch has not arrived")
		}
	})
	for _, noun := range []string{"Timer", "Daemon"} {
		c.Run(t, "DF-77 a Warning event tells that the patch of a handler was refused: "+noun, func(c *C) {
			r, l := &kopf.Registry{}, calls{}
			set := func(o *kopf.Object) {
				l.add("call")
				o.Patch.SetLabel("wrong", "not a label")
				o.Patch.Transform(func(object map[string]any) error {
					object["status"] = map[string]any{"calls": len(l.all())}
					return nil
				})
			}
			if noun == "Timer" {
				r.OnTimer(Examples, func(_ context.Context, t *kopf.Timer) error { set(&t.Object); return nil }, &kopf.TimerOptions{ID: "h", Interval: 2 * time.Second})
			} else {
				r.OnDaemon(Examples, func(_ context.Context, d *kopf.Daemon) error { set(&d.Object); return nil }, &kopf.DaemonOptions{ID: "h"})
			}
			op := c.Operator(r)
			c.Create("a", nil)
			c.WaitFor("the event", func() bool { return len(op.posted(false)) > 0 })
			if got := op.posted(false)[0]; got.Reason != "HandlerFailed" || !strings.HasPrefix(got.Message, noun+" 'h' failed: its patch was refused: PATCH ") {
				c.Errorf("got the event %s", got)
			}
			c.WaitFor("the rest of the patch", func() bool { return c.Get("a").Status().Int("calls") > 0 })
			if noun == "Timer" {
				c.WaitFor("the next call", func() bool { return len(l.all()) > 1 })
			} else {
				c.Pass(3 * time.Second)
				c.expect(&l, "call")
			}
		})
	}
	c.Run(t, "DF-18 a patch that is refused again and again does not keep a timer from its calls", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		k := &ticker{}
		op := c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			t.Patch.SetPath(true, "status", "at", time.Since(k.began).Round(time.Second).String())
			return nil
		}, kopf.TimerOptions{Interval: 20 * time.Minute})
		var refusals calls
		refusing(op, &refusals, func() bool { return time.Since(k.began) < 50*time.Minute })
		c.Pass(65 * time.Minute)
		c.expect(&k.calls, "0s", "20m0s", "40m0s", "1h0m0s")
		if got := c.Get("a").Status().View("at").Len(); got != 4 {
			c.Errorf("%d patches have come through, want all 4", got)
		}
	})
	c.Run(t, "DF-18 what is pending of a timer is bounded", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		k := &ticker{}
		op := c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			n := len(k.all())
			k.tick("")
			t.Patch.Transform(func(object map[string]any) error {
				status, _ := object["status"].(map[string]any)
				if status == nil {
					status = map[string]any{}
					object["status"] = status
				}
				status[strconv.Itoa(n)] = true
				return nil
			})
			return nil
		}, kopf.TimerOptions{Interval: 10 * time.Second})
		var refusals calls
		refusing(op, &refusals, func() bool { return time.Since(k.began) < time.Hour })
		c.Pass(time.Hour + 30*time.Second)
		if n := c.Get("a").Status().Len(); n < 100 || n > 110 {
			c.Errorf("%d transformations have come through, want the last hundred", n)
		}
		if len(op.Logs.Find("Dropped the oldest transformations of a patch that cannot be sent")) == 0 {
			c.Error("the loss is not reported")
		}
	})
	c.Run(t, "DF-18 a value that is no JSON ends the timer until the object changes, and spoils nothing else", func(c *C) {
		c.OnlyInBubble("the times are exact")
		k := &ticker{}
		op := c.spoiling(k, 500*time.Millisecond, func(p *kopf.Patch) { p.Set("status.bad", make(chan int)) })
		var refusals calls
		refusing(op, &refusals, func() bool { return time.Since(k.began) < 10*time.Second })
		c.Pass(90 * time.Minute)
		c.expect(&k.calls, "0s")
		if !c.Get("a").Status().Bool("merged") {
			c.Error("the patch has not arrived")
		}
		c.Patch("a", spec(map[string]any{"size": "mended"}))
		c.Pass(time.Minute)
		c.expect(&k.calls, "0s", "1h30m0s")
	})
	c.Run(t, "DF-18 a transformation that panics ends neither the timer nor its other changes", func(c *C) {
		c.OnlyInBubble("the times are exact")
		k := &ticker{}
		op := c.spoiling(k, 10*time.Minute, func(p *kopf.Patch) {
			p.Transform(func(map[string]any) error { panic("oops") })
		})
		c.Pass(time.Minute)
		if !c.Get("a").Status().Bool("merged") {
			c.Error("the merge patch was not sent")
		}
		c.Pass(2 * time.Hour)
		c.expect(&k.calls, "0s", "10m0s", "1h10m0s")
		if lines := op.Logs.Find("Sending a patch failed"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
	c.Run(t, "DF-18 a transformation that panics only on a newer state ends nothing", func(c *C) {
		c.OnlyInBubble("the times are exact")
		k, examples := &ticker{}, c.Kind
		op := c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			t.Patch.Transform(func(object map[string]any) error {
				setDone(object)
				if asSpec, _ := object["spec"].(map[string]any); asSpec["bad"] == true {
					panic("oops")
				}
				return nil
			})
			return nil
		}, kopf.TimerOptions{Interval: time.Hour, InitialDelay: time.Second})
		var refused atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) { // another client is faster
			if req.ContentType == jsonPatch && refused.CompareAndSwap(false, true) {
				examples.Patch("a", spec(map[string]any{"bad": true}))
			}
			return nil, nil
		})
		c.Pass(10 * time.Minute)
		if lines := op.Logs.Find("Dropped the transformations of a patch"); len(lines) != 1 || lines[0].Attrs["handler"] != "t" {
			c.Errorf("got the lines %v, want one of the timer", lines)
		}
		c.Patch("a", spec(map[string]any{"bad": false}))
		c.Pass(time.Hour)
		c.expect(&k.calls, "1s", "1h0m1s")
		if !c.isDone("a") {
			c.Error("the next call changes nothing")
		}
	})
}

func permanentFailures(t *testing.T, c *C) {
	c.Run(t, "DF-35 a timer that has failed permanently begins again when its object changes", func(c *C) {
		c.OnlyInBubble("the times are long")
		for _, opts := range []kopf.TimerOptions{
			{Interval: time.Minute}, {Interval: time.Minute, Errors: kopf.ErrorsPermanent}, {Interval: time.Minute, Retries: 1}, {Interval: time.Minute, Idle: 10 * time.Second}, {},
		} {
			k := &ticker{}
			op := c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
				k.tick(t.Spec().String("size"))
				switch {
				case t.Spec().String("size") == "good":
					return nil
				case opts.Errors == 0 && opts.Retries == 0:
					return kopf.Permanent(errOops)
				}
				return errOops
			}, opts)
			c.Pass(time.Hour)
			before := len(k.all())
			if before != 1 {
				c.Errorf("%+v: got the calls %q, want one", opts, k.all())
			}
			c.Patch("a", map[string]any{"status": map[string]any{"x": 1}}) // not a change of the spec
			c.Pass(time.Hour)
			if got := len(k.all()); got != before {
				c.Errorf("%+v: got the calls %q after a change of the status", opts, k.all())
			}
			c.Patch("a", spec(map[string]any{"size": "good"}))
			c.Pass(90 * time.Second)
			want := 2 // in a minute and a half
			if opts.Interval == 0 {
				want = 1
			}
			if got := k.all()[before:]; len(got) != want || !strings.HasPrefix(got[0], "good") {
				c.Errorf("%+v: got the calls %q after the spec was mended, want %d", opts, got, want)
			}
			op.Stop()
			c.Delete("a")
		}
	})
	c.Run(t, "DF-35 an old failure says nothing of a timer that has begun again", func(c *C) {
		k := &ticker{}
		c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick(t.Spec().String("size") + " ")
			if t.Spec().String("size") == "good" {
				return nil
			}
			return kopf.Permanent(errOops)
		}, kopf.TimerOptions{Interval: time.Minute})
		c.Pass(30 * time.Second)
		c.Patch("a", spec(map[string]any{"size": "good"}))
		c.Pass(30 * time.Second)
		c.Patch("a", map[string]any{"spec": nil}) // the state in which the timer failed
		c.Pass(time.Hour)
		c.expect(&k.calls, " 0s", "good 30s", " 1m30s")
	})
	c.Run(t, "DF-35 a change during the call that fails begins the timer again", func(c *C) {
		examples := c.Kind
		k := &ticker{}
		c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			if len(k.all()) == 1 {
				examples.Patch("a", spec(map[string]any{"size": 2}))
				time.Sleep(time.Second) // until the stream shows it
			}
			return kopf.Permanent(errOops)
		}, kopf.TimerOptions{Interval: time.Minute})
		c.Pass(time.Hour)
		c.expect(&k.calls, "0s", "1s")
	})
	c.Run(t, "DF-35 changes by the timer itself do not begin it again", func(c *C) {
		k := &ticker{}
		c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			t.Patch.Set("spec.failed", len(k.all()))
			t.Patch.Transform(func(object map[string]any) error {
				object["metadata"].(map[string]any)["labels"] = map[string]any{"failed": time.Now().Format("150405")}
				return nil
			})
			return kopf.Permanent(errOops)
		}, kopf.TimerOptions{Interval: time.Minute})
		c.Pass(time.Hour)
		c.expect(&k.calls, "0s")
	})
	c.Run(t, "DF-35 a timer that changes its object past its patch and fails each time slows down", func(c *C) {
		k := &ticker{}
		c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			if _, err := t.Client.Patch(ctx, t.Body.Reference(), spec(map[string]any{"n": len(k.all())}), nil); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
			return kopf.Permanent(errOops)
		}, kopf.TimerOptions{Interval: time.Minute})
		c.Pass(time.Hour)
		if n := len(k.all()); n < 20 || n > 90 {
			c.Errorf("the timer was called %d times in an hour, want that it gets as slow as once a minute", n)
		}
	})
	c.Run(t, "DF-35 a timer that is begun again holds its object again", func(c *C) {
		c.OnlyInBubble("the times are exact")
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			if t.Spec().String("size") == "bad" {
				return kopf.Permanent(errOops)
			}
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: time.Minute})
		c.Operator(r)
		c.Create("a", spec(map[string]any{"size": "bad"}))
		c.Pass(time.Minute)
		if holds(c.Get("a")) {
			c.Error("the object is held for a timer that has failed")
		}
		c.Patch("a", spec(map[string]any{"size": "good"}))
		c.Pass(time.Second)
		if !holds(c.Get("a")) {
			c.Error("the object is not held for the timer that runs again")
		}
	})
	c.Run(t, "DF-35 a timer without an interval that has succeeded is not called again", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0), kopf.TimerOptions{})
		c.Pass(time.Minute)
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.Pass(time.Hour)
		c.expect(&k.calls, "0s")
	})
	c.Run(t, "DF-35 an operator without handlers says so", func(c *C) {
		op := c.Operator(&kopf.Registry{})
		if lines := op.Logs.Find("No handlers are registered for objects, so the operator does nothing"); len(lines) != 1 || lines[0].Level.String() != "WARN" {
			c.Errorf("got the lines %v, want one warning", lines)
		}
		for _, register := range []func(*kopf.Registry){
			func(r *kopf.Registry) {
				r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "e"})
			},
			func(r *kopf.Registry) {
				r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
					r.OnCreate(Examples, ready, named("late"))
					return nil
				}, id("startup"))
			},
		} {
			r := &kopf.Registry{}
			register(r)
			if lines := c.Operator(r).Logs.Find("No handlers are registered for objects, so the operator does nothing"); len(lines) != 0 {
				c.Errorf("got the lines %v of an operator with a handler", lines)
			}
		}
	})
}
