package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how daemons run and are stopped, in 2-background.md.

var _ = Suite("background_daemons", func(t *testing.T, c *C) {
	spawning(t, c)
	running(t, c)
	stopping(t, c)
	exiting(t, c)
})

// daemon returns a daemon that records its start, and its end with the reason. It ends when it is stopped.
func (l *calls) daemon(name string) kopf.DaemonFunc {
	return func(ctx context.Context, d *kopf.Daemon) error {
		l.add("%s begins %d", name, d.Retry)
		<-ctx.Done()
		l.add("%s ends %s", name, d.StopReason())
		return nil
	}
}

func daemonID(id kopf.HandlerID) *kopf.DaemonOptions { return &kopf.DaemonOptions{ID: id} }

func holds(body *kopf.Body) bool { return strings.Contains(fmt.Sprint(body.Finalizers()), finalizer) }

// held waits until an object has the finalizer.
func (c *C) held(name string) {
	c.Helper()
	c.WaitFor("the finalizer of "+name, func() bool { return holds(c.Get(name)) })
}

func (c *C) gone(name string) {
	c.Helper()
	c.WaitFor("the end of "+name, func() bool { return !c.Exists(name) })
}

func labelled(key, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}}
}

func unlabelled(key string) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{key: nil}}}
}

func spawning(t *testing.T, c *C) {
	c.Run(t, "BG-10 there is one task for an object and an id", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		fn := l.daemon("d")
		r.OnDaemon(Examples, fn, daemonID("d"))
		r.OnDaemon(Examples, fn, daemonID("d"))
		c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Second)
		c.expect(&l, "d begins 0")
	})
	c.Run(t, "BG-11 nothing is spawned for an object that is being deleted", func(c *C) {
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
		c.Delete("a")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), daemonID("d"))
		c.Operator(r)
		c.Pass(time.Second)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Second)
		c.expect(&l)
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{}}})
		c.gone("a")
	})
	c.Run(t, "what a daemon has left does not hold up the end of the operator", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			d.Patch.Set("status.left", "this")
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Minute)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch {
				return Answer(500, "InternalError", "asked for"), nil
			}
			return nil, nil
		})
		began := time.Now()
		op.Stop()
		if passed := time.Since(began); passed > 15*time.Second {
			c.Errorf("the operator has ended after %s", passed)
		}
		if n := len(op.Logs.Find("Dropped the last patch of a handler, because it could not be sent")); n != 1 {
			c.Errorf("it is told %d times that the patch is lost, want once", n)
		}
	})
	c.Run(t, "BG-12 a daemon is spawned before the handlers of the cycle, and without the finalizer", func(c *C) {
		begun := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			if holds(d.Body) {
				c.Error("the daemon was spawned after the finalizer was added")
			}
			close(begun)
			<-ctx.Done()
			return nil
		}, daemonID("d"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch {
				<-begun
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.handled("a")
		if !holds(c.Get("a")) {
			c.Error("the object is not held for its daemon")
		}
	})
	c.Run(t, "BG-14 a predicate is asked again with the next event only", func(c *C) {
		var open atomic.Bool
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", When: func(*kopf.Daemon) bool { return open.Load() }})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Second)
		open.Store(true)
		c.Pass(time.Second)
		c.expect(&l)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.expect(&l, "d begins 0")
	})
	c.Run(t, "BG-15 a daemon that has ended by itself is not spawned again", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("%s", d.Name())
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("has exited on its own")) == 1 })
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Second)
		c.expect(&l, "a")
		op.Stop()
		c.Operator(r)
		c.expect(&l, "a", "a")
		c.Delete("a")
		c.gone("a")
		c.Create("a", nil)
		c.expect(&l, "a", "a", "a")
	})
	c.Run(t, "BG-16 a daemon that has ended on request is spawned again", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}})
		c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.expect(&l, "d begins 0")
		c.Patch("a", labelled("run", "no"))
		c.expect(&l, "d begins 0", "d ends FiltersMismatch")
		c.WaitFor("the release", func() bool { return !holds(c.Get("a")) })
		c.Patch("a", labelled("run", "yes"))
		c.expect(&l, "d begins 0", "d ends FiltersMismatch", "d begins 0")
	})
	c.Run(t, "BG-17 a fresh daemon begins from zero", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("%d %s", d.Retry, d.Runtime)
			return kopf.Temporary(errOops, time.Hour)
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}, InitialDelay: time.Minute})
		c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.Pass(90 * time.Minute)
		c.expect(&l, "0 0s", "1 1h0m0s")
		c.Patch("a", labelled("run", "no"))
		c.Pass(time.Second)
		c.Patch("a", labelled("run", "yes"))
		c.Pass(30 * time.Second)
		c.expect(&l, "0 0s", "1 1h0m0s")
		c.Pass(time.Minute)
		c.expect(&l, "0 0s", "1 1h0m0s", "0 0s")
	})
	c.Run(t, "BG-18 what a daemon reads of its object is always the newest state", func(c *C) {
		seen := make(chan string, 10)
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			last := ""
			for d.Sleep(10 * time.Millisecond) {
				if now := d.Spec().String("x") + d.Labels()["l"] + d.Annotations()["n"]; now != last {
					last = now
					seen <- now
				}
			}
			return nil
		}, daemonID("d"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": "1"}))
		if got := <-seen; got != "1" {
			c.Errorf("got %q at first, want 1", got)
		}
		c.Patch("a", map[string]any{"spec": map[string]any{"x": "2"}, "metadata": map[string]any{"labels": map[string]any{"l": "3"}, "annotations": map[string]any{"n": "4"}}})
		if got := <-seen; got != "234" {
			c.Errorf("got %q after the change, want 234", got)
		}
	})
	c.Run(t, "BG-20 a daemon shares the memo of its object", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.Memo().Store("from", "daemon")
			return nil
		}, daemonID("d"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			v, _ := ch.Memo().Load("from")
			ch.SetResult(v)
			return nil
		}, named("update"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("has exited on its own")) == 1 })
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the result", func() bool { return c.Get("a").Status().String("update") == "daemon" })
	})
}

func running(t *testing.T, c *C) {
	c.Run(t, "BG-22 a daemon that is stopped during its initial delay is never called", func(c *C) {
		c.OnlyInBubble("the delay is long")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", InitialDelayFunc: func(o *kopf.Object) time.Duration {
			return time.Duration(o.Spec().Int("delay")) * time.Second
		}})
		c.Operator(r)
		c.Create("a", spec(map[string]any{"delay": 100}))
		c.Create("b", spec(map[string]any{"delay": 50}))
		c.Pass(49 * time.Second)
		c.expect(&l)
		c.Pass(2 * time.Second)
		c.expect(&l, "d begins 0")
		c.Delete("a")
		c.gone("a")
		c.Pass(time.Hour)
		c.expect(&l, "d begins 0")
	})
	c.Run(t, "BG-24 a daemon that returns has ended for good", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.SetResult(map[string]any{"done": true})
			return nil
		}, daemonID("d"))
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the result", func() bool { return c.Get("a").Status().Bool("d.done") })
		c.WaitFor("the release", func() bool { return !holds(c.Get("a")) })
	})
	c.Run(t, "BG-25 a temporary error starts the next attempt after its delay", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("%d %s", d.Retry, d.Runtime)
			if d.Retry < 2 {
				return kopf.Temporary(errOops, 10*time.Second)
			}
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Hour)
		c.expect(&l, "0 0s", "1 10s", "2 20s")
		for _, w := range op.Wire.Writes() {
			if strings.Contains(w.Body, "kopf.zalando.org/d") {
				c.Errorf("something is stored about the attempts: %s", w.Body)
			}
		}
	})
	c.Run(t, "BG-26 the error mode decides about arbitrary errors", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		for mode, id := range map[kopf.ErrorsMode]kopf.HandlerID{0: "t", kopf.ErrorsPermanent: "p", kopf.ErrorsIgnored: "i"} {
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				l.add("%s %d %s", id, d.Retry, d.Runtime)
				if d.Retry == 0 {
					return errOops
				}
				return nil
			}, &kopf.DaemonOptions{ID: id, Errors: mode, Backoff: 7 * time.Second})
		}
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Hour)
		if l.count("p 0") != 1 || l.count("i 0") != 1 || l.count("t 0") != 1 || l.count("t 1 7s") != 1 || len(l.all()) != 4 {
			c.Errorf("got the calls %q", l.all())
		}
	})
	c.Run(t, "BG-28 the attempts end with the retries and with the timeout", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		fail := func(ctx context.Context, d *kopf.Daemon) error {
			l.add("%s %s", d.Param, d.Runtime)
			return kopf.Temporary(errOops, 10*time.Second)
		}
		r.OnDaemon(Examples, fail, &kopf.DaemonOptions{ID: "r", Param: "r", Retries: 2})
		r.OnDaemon(Examples, fail, &kopf.DaemonOptions{ID: "t", Param: "t", Timeout: 25 * time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Hour)
		if l.count("r") != 2 || l.count("t") != 3 || l.count("t 20s") != 1 {
			c.Errorf("got the calls %q", l.all())
		}
		if n := len(op.Logs.Find("has exited on its own")); n != 2 {
			c.Errorf("%d daemons have exited on their own, want 2", n)
		}
	})
	c.Run(t, "BG-T23 a sleep between two runs of a loop ends with the timeout", func(c *C) {
		c.OnlyInBubble("the timeout is long")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			for d.Sleep(7 * time.Second) {
				if ctx.Err() != nil {
					return errOops // another attempt after the context was canceled
				}
			}
			k.tick(fmt.Sprintf("%v stopped=%t ", ctx.Err(), d.StopReason() != ""))
			return nil
		}, &kopf.DaemonOptions{ID: "d", Timeout: time.Minute, WithoutFinalizer: true})
		c.Operator(r)
		c.Pass(time.Second)
		k.began = time.Now()
		c.Create("a", nil)
		c.Pass(time.Hour)
		c.expect(&k.calls, "context deadline exceeded stopped=false 1m0s")
	})
}

func stopping(t *testing.T, c *C) {
	c.Run(t, "BG-51 a deletion stops the daemon before the deletion handlers, and then the object goes", func(c *C) {
		var l calls
		asked := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			defer close(asked)
			return l.daemon("d")(ctx, d)
		}, daemonID("d"))
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			<-asked
			l.add("delete")
			return nil
		}, named("delete"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.handled("a")
		before := len(op.Wire.Writes())
		c.Delete("a")
		c.gone("a")
		c.expect(&l, "d begins 0", "d ends ResourceDeleted", "delete")
		if n := len(op.Wire.Writes()) - before; n != 1 {
			c.Errorf("the deletion took %d requests, want 1: %q", n, patches(op)[before:])
		}
	})
	c.Run(t, "BG-52 a daemon is signalled, cancelled, and abandoned", func(c *C) {
		c.OnlyInBubble("the stages are long")
		begun := time.Now()
		var l calls
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-d.Stopping()
			l.add("flag %s %s", time.Since(begun), d.StopReason())
			<-ctx.Done()
			l.add("context %s %v", time.Since(begun), context.Cause(ctx))
			<-release
			l.add("end")
			return nil
		}, &kopf.DaemonOptions{ID: "d", CancellationBackoff: 5 * time.Second, CancellationTimeout: 10 * time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		begun = time.Now()
		c.Delete("a")
		c.gone("a")
		if passed := time.Since(begun); passed < 15*time.Second || passed > 16*time.Second {
			c.Errorf("the object has gone after %s, want 15s", passed)
		}
		c.expect(&l, "flag 0s ResourceDeleted", "context 5s the daemon is asked to stop: ResourceDeleted")
		if lines := op.Logs.Find("Daemon 'd' did not exit in time"); len(lines) != 1 || lines[0].Attrs["since"] != "15s" {
			c.Errorf("got the warnings %v, want one that tells for how long the daemon was asked", lines)
		}
		close(release)
		c.Pass(time.Second)
	})
	c.Run(t, "BG-T4 an object that vanishes takes its daemons with it", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		c.Create("a", nil)
		c.expect(&l, "d begins 0")
		c.Delete("a")
		c.expect(&l, "d begins 0", "d ends ResourceDeleted")
		if w := op.Wire.Writes(); len(w) > 0 {
			c.Errorf("the object was written to: %+v", w)
		}
	})
}

func exiting(t *testing.T, c *C) {
	c.Run(t, "BG-57 the exit of the operator stops the daemons", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		op.Stop()
		c.expect(&l, "d begins 0", "d ends OperatorExiting")
		if !holds(c.Get("a")) {
			c.Error("the finalizer is gone, although the daemon will run again")
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{}}})
	})
}
