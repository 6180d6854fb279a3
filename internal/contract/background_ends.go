package contract

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves when the objects of daemons and timers have a finalizer, when kopf removes it, and the messages about that, in 2-background.md.

var _ = SerialSuite("background_ends", func(t *testing.T, c *C) {
	holding(t, c)
	leaving(t, c)
	saying(t, c)
})

func holding(t *testing.T, c *C) {
	c.Run(t, "BG-63 an object is held while a daemon or a timer matches it", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, asked, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"kind": "daemon"}})
		r.OnTimer(Examples, (&ticker{}).once, &kopf.TimerOptions{ID: "t", Interval: time.Hour, Labels: kopf.Match{"kind": "timer"}})
		c.Operator(r)
		c.Create("other", labelled("kind", "none"))
		for _, kind := range []string{"daemon", "timer"} {
			c.Create(kind, labelled("kind", kind))
			c.held(kind)
			c.Patch(kind, labelled("kind", "none"))
			c.WaitFor("the release of the "+kind, func() bool { return !holds(c.Get(kind)) })
		}
		if holds(c.Get("other")) {
			c.Error("an object that nothing matches is held")
		}
	})
	c.Run(t, "BG-64 the finalizer is stored before the handlers of changes are called", func(c *C) {
		var l calls
		begun := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("daemon")
			close(begun)
			return asked(ctx, d)
		}, daemonID("d"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create held=%t", holds(ch.Body))
			return nil
		}, named("create"))
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, finalizer) {
				<-begun
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "daemon", "create held=true")
		first := op.Wire.Writes()[0]
		if !strings.Contains(first.Body, finalizer) || strings.Contains(first.Body, "last-handled-configuration") {
			c.Errorf("the first request is %s, want the finalizer alone", first.Body)
		}
	})
	c.Run(t, "BG-66 a deleted object goes when its deletion handlers are done and its daemons have ended", func(c *C) {
		c.OnlyInBubble("the daemon takes long")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			time.Sleep(30 * time.Second)
			k.tick("daemon ")
			return nil
		}, daemonID("d"))
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			k.tick("delete ")
			return nil
		}, named("delete"))
		c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		k.began = time.Now()
		c.Delete("a")
		c.Pass(29 * time.Second)
		if !holds(c.Get("a")) {
			c.Error("the object is released before its daemon has ended")
		}
		c.gone("a")
		if passed := time.Since(k.began).Round(time.Second); passed != 30*time.Second {
			c.Errorf("the object has gone after %s, want 30s", passed)
		}
		c.expect(&k.calls, "delete 0s", "daemon 30s")
	})
	c.Run(t, "BG-67 an object whose daemon ends at once goes with one request", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, asked, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		before := len(op.Wire.Writes())
		c.Delete("a")
		c.gone("a")
		if after := op.Wire.Writes()[before:]; len(after) != 1 || !strings.Contains(after[0].Body, "finalizers") {
			c.Errorf("the deletion took the requests %v, want one", after)
		}
	})
	c.Run(t, "BG-T8 a daemon that does not match any more holds its object until it has ended", func(c *C) {
		var l calls
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			l.add("asked")
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}})
		c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.held("a")
		c.Patch("a", labelled("run", "no"))
		c.expect(&l, "asked")
		c.Pass(500 * time.Millisecond)
		if !holds(c.Get("a")) {
			c.Error("the object is released while its daemon runs")
		}
		close(release)
		c.WaitFor("the release", func() bool { return !holds(c.Get("a")) })
	})
	c.Run(t, "BG-T16 objects need not be held, and optional deletion handlers stay optional", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		r.OnTimer(Examples, (&ticker{}).once, &kopf.TimerOptions{ID: "t", Interval: time.Hour, WithoutFinalizer: true})
		r.OnDelete(Examples, l.handler("delete"), &kopf.ChangeOptions{ID: "delete", WithoutFinalizer: true})
		op := c.Operator(r)
		c.Create("a", nil)
		c.expect(&l, "d begins 0")
		c.handled("a")
		if holds(c.Get("a")) {
			c.Error("the object is held")
		}
		c.Delete("a")
		c.gone("a")
		c.expect(&l, "d begins 0", "d ends ResourceDeleted")
		op.Stop()
	})
}

func leaving(t *testing.T, c *C) {
	c.Run(t, "BG-T5 all of many daemons are stopped at the exit", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for i := range 8 {
			r.OnDaemon(Examples, l.daemon(fmt.Sprint("d", i)), &kopf.DaemonOptions{ID: kopf.HandlerID(fmt.Sprint("d", i)), WithoutFinalizer: true})
		}
		op := c.Operator(r)
		for _, name := range []string{"a", "b", "c"} {
			c.Create(name, nil)
		}
		c.WaitFor("all daemons", func() bool { return len(l.all()) == 24 })
		op.Stop()
		if n := l.count("d"); n != 48 {
			c.Errorf("%d beginnings and ends, want 48", n)
		}
	})
	c.Run(t, "BG-T6 a daemon that does not end in a pause is told of once", func(c *C) {
		c.OnlyInBubble("the pause is long")
		table := c.meet()
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", CancellationBackoff: 5 * time.Second, CancellationTimeout: 5 * time.Second, WithoutFinalizer: true})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the daemon", func() bool { return len(op.Logs.Find("Daemon 'd' is invoked.")) == 1 })
		table.sit("boss", rival(100, 36000))
		c.paused(op, 1)
		c.Pass(time.Hour)
		for _, text := range []string{"is signalled to exit gracefully", "is signalled to exit by force", "did not exit in time"} {
			if n := len(op.Logs.Find(text)); n != 1 {
				c.Errorf("%d lines with %q in an hour, want 1", n, text)
			}
		}
		close(release)
		c.Pass(time.Second)
	})
	c.Run(t, "BG-T12 a daemon that matches again is spawned when the old one has ended, without another event", func(c *C) {
		var l calls
		release := make(chan struct{}, 1)
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("begins")
			<-ctx.Done()
			l.add("asked")
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}})
		op := c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.expect(&l, "begins")
		c.Patch("a", labelled("run", "no"))
		c.expect(&l, "begins", "asked")
		c.Patch("a", labelled("run", "yes"))
		c.Pass(500 * time.Millisecond)
		c.expect(&l, "begins", "asked")
		release <- struct{}{}
		c.expect(&l, "begins", "asked", "begins")
		release <- struct{}{}
		op.Stop()
	})
	c.Run(t, "BG-T17 a daemon that does not end is warned of with what to do", func(c *C) {
		c.OnlyInBubble("the waits are long")
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", CancellationPolling: 20 * time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		c.Delete("a")
		c.Pass(70 * time.Second)
		lines := op.Logs.Find("Background handler is still exiting")
		if len(lines) != 4 || lines[0].Level != slog.LevelDebug || lines[1].Level != slog.LevelWarn || !strings.HasPrefix(lines[1].Attrs["since"], "20.") || !strings.HasPrefix(lines[3].Attrs["since"], "1m0.") || !strings.Contains(lines[1].Attrs["hint"], "CancellationTimeout") {
			c.Errorf("got the lines %v, want one each 20s, from the second one on warnings with the remedy", lines)
		}
		close(release)
		c.gone("a")
	})
	c.Run(t, "a daemon that ignores its context keeps no other object waiting", func(c *C) {
		var l calls
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			if d.Name() != "a" {
				return asked(ctx, d)
			}
			l.add("stuck")
			<-release
			return nil
		}, daemonID("d"))
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Delete("a")
		c.WaitFor("the deletion", func() bool { return l.count("delete") == 1 })
		c.Create("b", nil)
		c.handled("b")
		c.Delete("b")
		c.gone("b")
		if !c.Exists("a") || l.count("stuck") != 1 {
			c.Errorf("the object of the daemon that is stuck has gone: %q", l.all())
		}
		close(release)
		c.gone("a")
	})
	c.Run(t, "BG-T18 nothing is written while a daemon is waited for", func(c *C) {
		c.OnlyInBubble("the waits are long")
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-release
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		before := len(op.Wire.Writes())
		c.Delete("a")
		c.Pass(2 * time.Hour)
		if n := len(op.Wire.Writes()) - before; n != 0 {
			c.Errorf("%d requests were made in two hours of waiting: %q", n, patches(op)[before:])
		}
		close(release)
		c.gone("a")
	})
	c.Run(t, "BG-T19 timers that wait need no goroutines", func(c *C) {
		c.OnlyInBubble("only there it is known that all others wait")
		r := &kopf.Registry{}
		k := &ticker{}
		r.OnTimer(Examples, k.once, &kopf.TimerOptions{ID: "t", Interval: time.Hour, WithoutFinalizer: true})
		c.Operator(r)
		c.Pass(time.Minute)
		before := runtime.NumGoroutine()
		for i := range 200 {
			c.Create(fmt.Sprint("a", i), nil)
		}
		c.Pass(time.Minute)
		if n := len(k.all()); n != 200 {
			c.Fatalf("%d timers were called, want 200", n)
		}
		if n := runtime.NumGoroutine() - before; n > 20 {
			c.Errorf("200 waiting timers have %d goroutines", n)
		}
	})
}

func saying(t *testing.T, c *C) {
	c.Run(t, "BG-T24 a result that the schema prunes is told once, with what to do", func(c *C) {
		selector, kind := c.strict()
		r := &kopf.Registry{}
		var n atomic.Int64
		r.OnTimer(selector, func(ctx context.Context, t *kopf.Timer) error {
			t.Patch.Set("spec.unheard", n.Add(1))
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: 50 * time.Millisecond, WithoutFinalizer: true})
		op := c.Operator(r)
		kind.Create("a", spec(map[string]any{"size": 1}))
		kind.Create("b", spec(map[string]any{"size": 1}))
		c.WaitFor("some calls", func() bool { return len(op.Logs.Find("The API server dropped fields of a patch")) > 5 })
		warnings := 0
		for _, line := range op.Logs.Find("The API server dropped fields of a patch") {
			if line.Level == slog.LevelWarn {
				warnings++
				if !strings.Contains(line.Attrs["hint"], "x-kubernetes-preserve-unknown-fields") {
					c.Errorf("the line %q has no remedy", line.Message)
				}
			}
		}
		if warnings != 1 {
			c.Errorf("%d warnings, want one for the kind", warnings)
		}
		op.Stop()
	})
	c.Run(t, "BG-61 what the server does not take over of a daemon's patch is warned of", func(c *C) {
		selector, kind := c.strict()
		r := &kopf.Registry{}
		r.OnDaemon(selector, func(ctx context.Context, d *kopf.Daemon) error {
			d.Patch.Set("spec.unheard", 1)
			d.Patch.Set("spec.size", 2)
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		kind.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("The API server dropped fields of a patch")) == 1 })
		line := op.Logs.Find("The API server dropped fields of a patch")[0]
		if line.Level != slog.LevelWarn || !strings.Contains(line.Attrs["differences"], "unheard") || strings.Contains(line.Attrs["differences"], "size") {
			c.Errorf("got the line %v, want a warning about the one field", line)
		}
	})
	c.Run(t, "BG-T25 the last patch of a daemon is tried again when it was refused for a conflict", func(c *C) {
		var refusals calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"last": "word"}; return nil })
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.ContentType == jsonPatch && len(refusals.all()) < 2 {
				refusals.add("refused")
				c.Patch("a", map[string]any{"status": map[string]any{"beat": len(refusals.all())}}) // another client wins the race
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the last word", func() bool { return c.Get("a").Spec().String("last") == "word" })
		c.expect(&refusals, "refused", "refused")
	})
	c.Run(t, "BG-T25 the last patch is lost only after ten times, with an error", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var refusals calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.Patch.Set("status.last", "word")
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		refusing(op, &refusals, func() bool { return true })
		c.Create("a", nil)
		c.Pass(24 * time.Hour)
		if n := len(refusals.all()); n != 11 {
			c.Errorf("the patch was sent %d times, want once and ten times more", n)
		}
		if lines := op.Logs.Find("Dropped the last patch of a handler, because it could not be sent"); len(lines) != 1 || lines[0].Level != slog.LevelError {
			c.Errorf("got the lines %v, want one error", lines)
		}
		op.Stop()
	})
}
