package contract

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what an operator does and does not do during a pause, in 2-background.md, 3-admission-auth-client.md and 4-operator-and-kits.md.
// The record of a peer causes the pause.

var _ = ClusterSuite("peering_pauses", func(t *testing.T, c *C) {
	interrupted(t, c)
	quiescing(t, c)
	suspending(t, c)
})

// rounds returns the operator's requests to list or watch the examples, in order.
func rounds(op *Running) (all []string) {
	for _, r := range op.Wire.Requests("GET") {
		if strings.Contains(r.Path, "/kopfexamples?") && !strings.Contains(r.Path, "limit=1&") && !strings.HasSuffix(r.Path, "limit=1") { // a leader reads a version by it
			if strings.Contains(r.Path, "watch=true") {
				all = append(all, "watch")
			} else {
				all = append(all, "list")
			}
		}
	}
	return all
}

// paused waits until an operator pauses, and going until it resumes.
func (c *C) paused(op *Running, times int) {
	c.Helper()
	c.WaitFor("the pause", func() bool { return len(op.Logs.Find("Pausing the watch-stream for kopfexamples")) >= times })
}

func (c *C) going(op *Running, times int) {
	c.Helper()
	c.WaitFor("the end of the pause", func() bool { return len(op.Logs.Find("Resuming the watch-stream for kopfexamples")) >= times })
}

func interrupted(t *testing.T, c *C) {
	c.Run(t, "AC-116 streams are closed in a pause, and begin with a full listing after it", func(c *C) {
		table := c.meet()
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			l.add("%s %s", e.Type, e.Name())
			return nil
		}, &kopf.EventOptions{ID: "e"})
		c.Create("stays", nil)
		c.Create("goes", nil)
		op := c.Operator(r)
		c.WaitFor("the watch", func() bool { return slices.Equal(rounds(op), []string{"list", "watch"}) && len(l.all()) == 2 })
		l.forget()
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.Create("comes", nil)
		c.Delete("goes")
		c.Pass(time.Second)
		if got := rounds(op); !slices.Equal(got, []string{"list", "watch"}) {
			c.Errorf("got the streams %q in a pause, want no new one", got)
		}
		c.expect(&l)
		table.sit("boss", nil)
		c.going(op, 1)
		c.WaitFor("the watch after the pause", func() bool { return slices.Equal(rounds(op), []string{"list", "watch", "list", "watch"}) })
		c.WaitFor("the events", func() bool { return len(l.all()) >= 3 })
		got := l.all()
		slices.Sort(got)
		c.same("the events after the pause", []string{"DELETED goes", "LISTED comes", "LISTED stays"}, upper(got))
		if found := op.Logs.Find("(blockers: peering"); len(found) != 1 || found[0].Level.String() != "DEBUG" {
			c.Errorf("got the lines %v about the pause, want one that names the blocker", found)
		}
		for _, path := range []string{"/kopfpeerings", "/customresourcedefinitions", "/api/v1/namespaces"} {
			n := 0
			for _, r := range op.Wire.Requests("GET") {
				if strings.Contains(r.Path, path+"?") && strings.Contains(r.Path, "watch=true") {
					n++
				}
			}
			if n != 1 {
				c.Errorf("got %d watches of %s, want one that goes on in the pause", n, path)
			}
		}
	})
	c.Run(t, "AC-116 streams are closed in the middle of opening", func(c *C) {
		c.OnlyInBubble("the server has to hang")
		table := c.meet()
		cut := make(chan struct{}, 1)
		op := c.Operator(&kopf.Registry{}, func(op *kopf.Operator) {
			r := &kopf.Registry{}
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "e"})
			op.Registry = r
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.URL.Path, "/kopfexamples") {
					<-req.Context().Done()
					cut <- struct{}{}
					return nil, req.Context().Err()
				}
				return base.RoundTrip(req)
			})}
		})
		c.Pass(time.Second)
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		select {
		case <-cut:
		default:
			c.Error("the request under way was not cut off")
		}
		c.Pass(time.Minute)
		select {
		case <-cut:
			c.Error("another request was made in the pause")
		default:
		}
		op.Stop()
	})
	c.Run(t, "OP-94 streams are closed, running handlers finish, and nothing else starts", func(c *C) {
		table := c.meet()
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("first %s begins", ch.Name())
			door.pass(ctx)
			ch.Patch.Set("status.first", true)
			l.add("first %s ends", ch.Name())
			return nil
		}, named("first"))
		r.OnCreate(Examples, l.handler("second"), named("second"))
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if e.Name() == "b" {
				l.add("event")
			}
			return nil
		}, &kopf.EventOptions{ID: "e"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.expect(&l, "first a begins")
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.Create("b", nil)
		door.let()
		c.WaitFor("what the handler has left", func() bool { return c.Get("a").Has("status.first") })
		c.Pass(time.Second)
		c.expect(&l, "first a begins", "first a ends")
		l.forget()
		table.sit("boss", nil)
		c.handled("a")
		c.handled("b")
		if l.count("second create 0") != 2 || l.count("first a") != 0 || l.count("first b begins") != 1 || l.count("event") == 0 {
			c.Errorf("got the calls %q after the pause, want the second handler of a, both of b, and its events", l.all())
		}
	})
	c.Run(t, "OP-96 resume handlers are not called again for what was handled before the pause", func(c *C) {
		table := c.meet()
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		c.settled("a", nil)
		op := c.Operator(r)
		c.expect(&l, "resume resume 0")
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.Patch("a", sized(2))
		table.sit("boss", nil)
		c.expect(&l, "resume resume 0", "update update 0")
		c.Pass(time.Second)
		c.expect(&l, "resume resume 0", "update update 0")
	})
}

func upper(list []string) []string {
	for i, text := range list {
		first, rest, _ := strings.Cut(text, " ")
		if first == "" {
			first = "LISTED"
		}
		list[i] = strings.ToUpper(first) + " " + rest
	}
	slices.Sort(list)
	return list
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func quiescing(t *testing.T, c *C) {
	c.Run(t, "a delay that ends in a pause, or between it and the listing, starts nothing", func(c *C) {
		c.OnlyInBubble("the delays are long")
		table := c.meet()
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create", temporary("not yet", time.Minute)), named("create"))
		var slow atomic.Bool
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if slow.Load() && strings.Contains(req.Path, "/kopfexamples?") {
				time.Sleep(3 * time.Minute)
			}
			return nil, nil
		}))
		c.Create("a", nil)
		c.expect(&l, "create create 0")
		c.Pass(30 * time.Second)
		slow.Store(true)
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		table.sit("boss", nil)
		c.going(op, 1)
		// Another operator has handled the object in the meantime, so nothing remains to be done.
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{diffBase: "{}", "kopf.zalando.org/create": nil}}})
		c.Pass(5 * time.Minute)
		slow.Store(false)
		c.Pass(10 * time.Minute)
		c.expect(&l, "create create 0")
	})
	c.Run(t, "the next handler of a cycle does not start in a pause, nor after a pause that was short", func(c *C) {
		c.OnlyInBubble("the pauses are counted")
		for _, short := range []bool{false, true} {
			table := c.Of("kopf.dev/v1", "KopfPeering")
			if !short {
				c.meet()
			}
			var l calls
			door := newDoorway()
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				door.pass(ctx)
				return nil
			}, named("first"))
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
				l.add("second")
				return nil
			}, named("second"))
			name := map[bool]string{false: "long", true: "short"}[short]
			var dead atomic.Bool
			op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
				if dead.Load() && strings.Contains(req.Path, "/kopfexamples?") {
					return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
				}
				return nil, nil
			}))
			c.Create(name, nil)
			c.Pass(time.Second)
			dead.Store(true)
			table.sit("boss", rival(100, 3600))
			c.paused(op, 1)
			if short {
				table.sit("boss", nil)
				c.going(op, 1)
			}
			door.let()
			c.Pass(10 * time.Second)
			c.expect(&l)
			dead.Store(false)
			table.sit("boss", nil)
			c.handled(name)
			c.expect(&l, "second")
			op.Stop()
		}
	})
	c.Run(t, "BG-71 what was on its way when the pause begins adds no finalizer", func(c *C) {
		table := c.meet()
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("event")
			door.pass(ctx)
			e.Patch.Set("status.seen", true)
			return nil
		}, &kopf.EventOptions{ID: "e"})
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		op := c.Operator(r)
		before := c.Create("a", nil).ResourceVersion()
		c.expect(&l, "event")
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		door.let()
		c.Pass(time.Second)
		if got := c.Get("a"); got.ResourceVersion() != before {
			c.Errorf("the object was changed in the pause: %v", got.Map())
		}
		table.sit("boss", nil)
		c.held("a")
		c.WaitFor("what the handler has left", func() bool { return c.Get("a").Has("status.seen") })
	})
	c.Run(t, "an event that waits when the pause begins is not indexed in it", func(c *C) {
		table := c.meet()
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			l.add("index")
			return byColor(ctx, i)
		}, &kopf.IndexOptions{ID: "colors"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("event")
			door.pass(ctx)
			return nil
		}, &kopf.EventOptions{ID: "e"})
		op := c.Operator(r)
		c.Pass(time.Second) // until the initial list is done, and the barrier is open
		c.Create("a", colored("red"))
		c.expect(&l, "index", "event")
		c.Patch("a", colored("blue"))
		c.Pass(time.Second)
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		door.let()
		c.Pass(time.Second)
		c.expect(&l, "index", "event")
		table.sit("boss", nil)
		c.WaitFor("the indexing after the pause", func() bool { return l.count("index") > 1 }) // for the event that waited, and for the list
	})
	c.Run(t, "BG-71 a pause patches no object", func(c *C) {
		table := c.meet()
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.expect(&l, "d begins 0")
		before := c.Get("a").ResourceVersion()
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.WaitFor("the end of the daemon", func() bool { return l.count("d ends") == 1 })
		c.Pass(time.Second)
		if got := c.Get("a"); got.ResourceVersion() != before || !holds(got) {
			c.Errorf("the pause has changed the object: %v", got.Metadata().Map())
		}
	})
}

func suspending(t *testing.T, c *C) {
	c.Run(t, "BG-68 daemons and timers are stopped in a pause", func(c *C) {
		table := c.meet()
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), daemonID("d"))
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error {
			l.add("tick")
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: 300 * time.Millisecond})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("a tick", func() bool { return l.count("tick") > 0 && l.count("d begins") == 1 })
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.WaitFor("the end of the daemon", func() bool { return l.count("d ends") == 1 })
		if l.count("d ends OperatorPausing") != 1 {
			c.Errorf("got %q, want that the reason is OperatorPausing", l.all())
		}
		ticks := l.count("tick")
		c.Pass(1500 * time.Millisecond)
		if got := l.count("tick"); got != ticks {
			c.Errorf("the timer has ticked %d times in the pause", got-ticks)
		}
		table.sit("boss", nil)
		c.WaitFor("both after the pause", func() bool { return l.count("d begins 0") == 2 && l.count("tick") > ticks })
	})
	c.Run(t, "BG-68 a daemon that does not look at its context is warned of", func(c *C) {
		c.OnlyInBubble("the time-outs are long")
		table := c.meet()
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error {
			<-door.open
			return nil
		}, &kopf.DaemonOptions{ID: "d", CancellationTimeout: 5 * time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("did not exit in time")) == 1 })
		door.let()
	})
	c.Run(t, "BG-69 an event on its way when the pause begins invokes no daemon", func(c *C) {
		c.OnlyInBubble("it is a race")
		table := c.meet()
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			door.pass(ctx)
			return nil
		}, &kopf.EventOptions{ID: "e"})
		r.OnDaemon(Examples, l.daemon("d"), daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Second)
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		door.let()
		c.Pass(time.Minute)
		c.expect(&l)
		table.sit("boss", nil)
		c.expect(&l, "d begins 0")
	})
	c.Run(t, "BG-69 a daemon that is about to be called when the pause begins is not", func(c *C) {
		c.OnlyInBubble("it is a race")
		table := c.meet()
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", InitialDelayFunc: func(*kopf.Object) time.Duration {
			<-door.open
			return 0
		}})
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		door.let()
		c.Pass(time.Minute)
		c.expect(&l)
		table.sit("boss", nil)
		c.expect(&l, "d begins 0")
	})
	c.Run(t, "BG-70 tasks are spawned again by the listing after the pause, but for those that had ended on their own", func(c *C) {
		table := c.meet()
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), daemonID("d"))
		r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error {
			l.add("once")
			return nil
		}, daemonID("once"))
		var deaf atomic.Bool
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if deaf.Load() && strings.Contains(req.Path, "/kopfexamples?") {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("both daemons", func() bool { return l.count("d begins 0") == 1 && l.count("once") == 1 })
		deaf.Store(true)
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.WaitFor("the end of the daemon", func() bool { return l.count("d ends OperatorPausing") == 1 })
		table.sit("boss", nil)
		c.going(op, 1)
		c.Pass(time.Second)
		if got := l.count("d begins 0"); got != 1 {
			c.Error("the end of the pause has spawned the daemon before the listing")
		}
		deaf.Store(false)
		c.WaitFor("the daemon after the listing", func() bool { return l.count("d begins 0") == 2 })
		c.Pass(time.Second)
		if l.count("once") != 1 || l.count("d begins") != 2 {
			c.Errorf("got %q, want that only what was stopped is spawned again", l.all())
		}
	})
	c.Run(t, "BG-70 a daemon that ends late is spawned again when it has", func(c *C) {
		table := c.meet()
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("begins")
			<-ctx.Done()
			<-door.open
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.expect(&l, "begins")
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		table.sit("boss", nil)
		c.going(op, 1)
		c.Pass(time.Second)
		c.expect(&l, "begins")
		door.let()
		c.Pass(time.Second)
		c.Patch("a", sized(1)) // kopf does not need it, because it retries by itself
		c.expect(&l, "begins", "begins")
	})
}
