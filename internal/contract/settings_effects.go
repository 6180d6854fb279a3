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

// This suite proves the effects of settings that no other suite covers. The test of all settings refers to the proof of each.

var _ = Suite("settings_effects", func(t *testing.T, c *C) {
	limitingHandlers(t, c)
	watchSettings(t, c)
	otherSettings(t, c)
})

// concurrency counts the functions that run at the same time.
type concurrency struct{ now, most, calls atomic.Int64 }

func (b *concurrency) work(ctx context.Context) error {
	b.calls.Add(1)
	b.most.Store(max(b.most.Load(), b.now.Add(1)))
	defer b.now.Add(-1)
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *C) createMany(n int) {
	for i := range n {
		c.Create(fmt.Sprint("a", i), spec(map[string]any{"size": 1}))
	}
}

func maxWorkers(n int) func(*kopf.Operator) {
	return func(op *kopf.Operator) { op.Settings.Execution.MaxWorkers = n }
}

func limitingHandlers(t *testing.T, c *C) {
	c.Run(t, "DF-6 MaxWorkers limits how many handlers run at the same time, of all objects together", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var b concurrency
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return b.work(ctx) }, named("create"))
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error { return b.work(ctx) }, &kopf.EventOptions{ID: "e"})
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error { return b.work(ctx) }, &kopf.TimerOptions{ID: "t"})
		c.Operator(r, maxWorkers(3))
		c.createMany(10)
		c.Pass(5 * time.Minute)
		if most, calls := b.most.Load(), b.calls.Load(); most != 3 || calls < 30 {
			c.Errorf("%d handlers have run at the same time, want 3; there were %d calls, want at least 30", most, calls)
		}
	})
	c.Run(t, "DF-6 the time that a handler waits for its first call does not count for its timeout", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s %s", ch.Name(), ch.Runtime)
			time.Sleep(time.Minute)
			return nil
		}, &kopf.ChangeOptions{ID: "create", Timeout: 90 * time.Second})
		c.Operator(r, maxWorkers(1))
		c.createMany(4)
		c.Pass(time.Hour)
		if n := len(l.all()); n != 4 {
			c.Errorf("of 4 handlers, %d were called: %q", n, l.all())
		}
		for _, line := range l.all() {
			if !strings.HasSuffix(line, " 0s") {
				c.Errorf("the first call begins with a runtime: %s", line)
			}
		}
	})
	c.Run(t, "DF-6 sub-handlers run in the place of their parent", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var b concurrency
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			sub := func(ctx context.Context, ch *kopf.Change) error { return b.work(ctx) }
			ch.Subhandler("one", sub, nil)
			if err := ch.Execute(ctx); err != nil {
				return err
			}
			ch.Subhandler("two", sub, nil)
			return nil
		}, named("create"))
		op := c.Operator(r, maxWorkers(1))
		c.createMany(3)
		c.WaitFor("all objects", func() bool { return len(op.Logs.Find("Creation is processed")) == 3 })
		if most := b.most.Load(); most != 1 {
			c.Errorf("%d handlers have run at the same time, want 1", most)
		}
	})
	c.Run(t, "DF-6 daemons and indices wait for no handlers, nor handlers for them", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		sizes := kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]int, error) {
			return map[string]int{x.Name(): int(x.Spec().Int("size"))}, nil
		}, &kopf.IndexOptions{ID: "sizes"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			door.pass(ctx)
			l.add("create")
			return nil
		}, named("create"))
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.Sleep(30 * time.Second)
			l.add("daemon sees %d", sizes.Len(d))
			<-ctx.Done()
			return nil
		}, daemonID("d"))
		c.Operator(r, maxWorkers(1))
		c.createMany(3)
		c.Pass(time.Minute)
		c.expect(&l, "daemon sees 3", "daemon sees 3", "daemon sees 3")
		door.let()
		c.expect(&l, "daemon sees 3", "daemon sees 3", "daemon sees 3", "create", "create", "create")
	})
	c.Run(t, "DF-6 what waits for its turn does not begin in a pause, nor hold up the end", func(c *C) {
		c.OnlyInBubble("the times are exact")
		table := c.meet()
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		for _, name := range []string{"one", "two"} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s %s", name, ch.Name())
				door.pass(ctx)
				return ctx.Err()
			}, named(kopf.HandlerID(name)))
		}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			l.add("tick %s", t.Name())
			return nil
		}, &kopf.TimerOptions{ID: "t", InitialDelay: time.Second})
		op := c.Operator(r, maxWorkers(1))
		c.createMany(2)
		c.Pass(time.Minute)
		if n := len(l.all()); n != 1 {
			c.Errorf("got the calls %q, want one", l.all())
		}
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.Pass(time.Second)
		if n := len(op.Logs.Find("Timer 't' has exited on request")); n != 2 {
			c.Errorf("%d timers have ended in the pause, want both", n)
		}
		door.let()
		c.Pass(time.Minute)
		if n := len(l.all()); n != 1 {
			c.Errorf("got the calls %q, want none in the pause", l.all())
		}
		door = newDoorway()
		defer door.let()
		table.sit("boss", nil)
		c.Pass(time.Minute)
		if n := len(l.all()); n != 2 {
			c.Errorf("got the calls %q, want one more after the pause", l.all())
		}
		began := time.Now()
		op.Stop()
		if took := time.Since(began); took > 5*time.Second {
			c.Errorf("the end took %s", took)
		}
		if n := l.count("one") + l.count("two"); n != 2 {
			c.Errorf("got the calls %q, want no handler of changes more at the end", l.all())
		}
	})
	c.Run(t, "DF-6 a timer that waits for its turn is idle when it comes", func(c *C) {
		c.OnlyInBubble("the times are exact")
		k := &ticker{}
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Name() == "door" {
				door.pass(ctx)
			}
			return nil
		}, &kopf.EventOptions{ID: "e", Labels: kopf.Match{"door": kopf.Present}})
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			return nil
		}, &kopf.TimerOptions{ID: "t", Idle: 10 * time.Second, Labels: kopf.Match{"door": kopf.Absent}})
		c.Operator(r, maxWorkers(1))
		c.Create("a", nil)
		c.Pass(5 * time.Second)
		k.began = time.Now().Add(-5 * time.Second)
		c.Create("door", map[string]any{"metadata": map[string]any{"labels": map[string]any{"door": "x"}}})
		c.Pass(20 * time.Second)
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.Pass(2 * time.Second)
		door.let() // 27 seconds after the start, 2 after the change
		c.Pass(time.Minute)
		c.expect(&k.calls, "35s")
	})
}

func watchSettings(t *testing.T, c *C) {
	streams := func(op *Running, kind string) (n int) {
		for _, round := range rounds(op) {
			if round == kind {
				n++
			}
		}
		return n
	}
	event := func(context.Context, *kopf.WatchEvent) error { return nil }
	c.Run(t, "DF-6 ReconnectBackoff is the pause before a watch is opened again", func(c *C) {
		c.OnlyInBubble("the pause is long")
		r := &kopf.Registry{}
		r.OnEvent(Examples, event, &kopf.EventOptions{ID: "e"})
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Watching.ReconnectBackoff = 30 * time.Second })
		c.Pass(time.Second)
		before := streams(op, "watch")
		op.Wire.Drop()
		c.Pass(25 * time.Second)
		early := streams(op, "watch")
		c.Pass(time.Minute)
		if late := streams(op, "watch"); early != before || late == before {
			c.Errorf("there were %d watches before, %d after 25 seconds, %d a minute later", before, early, late)
		}
	})
	c.Run(t, "DF-6 InactivityTimeout is the silence after which a watch is opened again", func(c *C) {
		c.OnlyInBubble("the times are exact")
		for timeout, want := range map[time.Duration]int{0: 1, 5 * time.Second: 9} {
			r := &kopf.Registry{}
			r.OnEvent(Examples, event, &kopf.EventOptions{ID: "e"})
			op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Watching.InactivityTimeout = timeout })
			c.Pass(50 * time.Second)
			if n := streams(op, "watch"); n < want || n > want+2 {
				c.Errorf("with %s, there were %d watches in 50 seconds, want %d", timeout, n, want)
			}
			op.Stop()
		}
	})
	c.Run(t, "DF-6 PageSize is the number of objects that a listing asks for at once", func(c *C) {
		c.createMany(5)
		r := &kopf.Registry{}
		var l calls
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("%s", e.Name())
			return nil
		}, &kopf.EventOptions{ID: "e"})
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Watching.PageSize = 2 })
		c.WaitFor("all objects", func() bool { return len(l.all()) == 5 })
		if n := streams(op, "list"); n != 3 {
			c.Errorf("the listing took %d requests, want 3", n)
		}
		for _, req := range op.Wire.Requests("GET") {
			if strings.Contains(req.Path, "/kopfexamples?") && !strings.Contains(req.Path, "watch=true") && !strings.Contains(req.Path, "limit=2") {
				c.Errorf("got the request %s", req.Path)
			}
		}
	})
}

func otherSettings(t *testing.T, c *C) {
	c.Run(t, "DF-6 InstantExitTimeout is how long a daemon may take before its exit is reported", func(c *C) {
		c.OnlyInBubble("the times are exact")
		for timeout, want := range map[time.Duration]int{100 * time.Millisecond: 1, 5 * time.Second: 0} {
			r := &kopf.Registry{}
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			}, daemonID("d"))
			op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Background.InstantExitTimeout = timeout })
			c.Create("a", nil)
			c.held("a")
			c.Delete("a")
			c.gone("a")
			if n := len(op.Logs.Find("Background handler is still exiting")); n != want {
				c.Errorf("with %s, it is reported %d times, want %d", timeout, n, want)
			}
			op.Stop()
		}
	})
	c.Run(t, "DF-6 CancellationPolling is how often it is reported that a daemon is still exiting", func(c *C) {
		c.OnlyInBubble("the times are exact")
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			return nil
		}, daemonID("d"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Background.CancellationPolling = 10 * time.Second })
		c.Create("a", nil)
		c.held("a")
		c.Delete("a")
		c.gone("a")
		if n := len(op.Logs.Find("Background handler is still exiting")); n < 5 || n > 7 {
			c.Errorf("it is reported %d times in a minute, want each ten seconds", n)
		}
	})
	c.Run(t, "DF-6 Background.ExitTimeout is how long daemons are waited for at the end", func(c *C) {
		c.OnlyInBubble("the times are exact")
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			door.pass(context.WithoutCancel(ctx))
			return nil
		}, daemonID("d"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Background.ExitTimeout = time.Minute })
		c.Create("a", nil)
		c.held("a")
		began := time.Now()
		_ = op.Err() // the daemon still runs then
		if took := time.Since(began); took < 50*time.Second || took > 80*time.Second {
			c.Errorf("the end took %s, want a minute", took)
		}
		door.let()
	})
	c.Run(t, "DF-6 FlushAfter is how long what is finished may wait to be stored", func(c *C) {
		c.OnlyInBubble("the times are exact")
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("quick"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		}, named("slow"))
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Execution.FlushAfter = 20 * time.Second })
		c.Create("a", nil)
		c.Pass(19 * time.Second)
		if c.isReady("a") {
			c.Error("it is stored too early")
		}
		c.Pass(2 * time.Second)
		if !c.isReady("a") {
			c.Error("it is not stored")
		}
	})
	c.Run(t, "DF-6 MaxInFlight limits the requests that are made at the same time", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var b concurrency
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Networking.MaxInFlight = 2
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
				if req.Method == http.MethodPatch {
					return nil, b.work(c.Context())
				}
				return nil, nil
			})
		})
		c.createMany(10)
		c.Pass(time.Minute)
		if most, calls := b.most.Load(), b.calls.Load(); most != 2 || calls < 10 {
			c.Errorf("%d of %d requests were made at the same time, want 2", most, calls)
		}
	})
	c.Run(t, "DF-6 TrustEnv reaches the logins", func(c *C) {
		r := &kopf.Registry{}
		var trusted atomic.Bool
		var own *kopf.ConnectionInfo // the operator's, with connections that no other client uses
		r.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
			trusted.Store(l.TrustEnv)
			return own, nil
		}, id("login"))
		c.Operator(r, func(op *kopf.Operator) {
			own, op.Connection, op.Settings.Networking.TrustEnv = op.Connection, nil, true
		})
		if !trusted.Load() {
			c.Error("the login does not trust the environment")
		}
	})
}
