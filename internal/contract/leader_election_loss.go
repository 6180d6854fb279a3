package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how the work moves from one replica to another, in 7-availability.md: after the loss of the Lease, after a shutdown, and after a crash.

var _ = Suite("leader_election_loss", func(t *testing.T, c *C) {
	takeovers(t, c)
	losses(t, c)
	fences(t, c)
	exits(t, c)
})

// intrude writes the Lease as a user, for some seconds.
func (c *C) intrude(seconds int) {
	c.leases().Patch(leaseName, map[string]any{"spec": map[string]any{"holderIdentity": "a person", "leaseDurationSeconds": seconds}})
}

// loses waits until a replica has lost the Lease the given number of times.
func (c *C) loses(op *Running, times int) {
	c.Helper()
	c.WaitFor("the loss", func() bool { return len(op.Logs.Find("Lost the leadership")) == times })
}

// barred blocks a replica's requests for the Lease, so that the other one takes it.
func barred(op *Running) {
	op.Wire.Fault(func(q *Request) (*http.Response, error) {
		if strings.Contains(q.Path, "/leases") {
			return nil, errors.New("connection refused")
		}
		return nil, nil
	})
}

// slowLog writes warnings slowly.
type slowLog struct{ slog.Handler }

func (s slowLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		time.Sleep(100 * time.Millisecond) // the duration of a slow log
	}
	return s.Handler.Handle(ctx, r)
}

func (s slowLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return slowLog{s.Handler.WithAttrs(attrs)}
}

// leadsAgain waits until a replica has become the leader the given number of times.
func (c *C) leadsAgain(op *Running, times int) {
	c.Helper()
	c.WaitFor("the leading", func() bool { return len(op.Logs.Find("Became the leader")) == times })
}

func takeovers(t *testing.T, c *C) {
	handOver := func(c *C, l *calls) (next *Running) {
		a := c.Replica(creating(l, "a"))
		c.leads(a)
		b := c.Replica(creating(l, "b"))
		for i := range 10 {
			c.Create(fmt.Sprintf("x%d", i), nil)
		}
		c.WaitFor("the handling", func() bool { return l.count("a creates") == 10 && c.Get("x9").Status().String("by") == "a" })
		c.Pass(3 * time.Second)
		l.forget()
		before := len(rounds(b))
		a.Crash()
		c.Patch("x3", map[string]any{"spec": map[string]any{"size": 2}})
		c.Create("y", nil)
		c.Delete("x5")
		c.leads(b)
		c.WaitFor("the handling by the next one", func() bool { return len(l.all()) >= 2 })
		c.Pass(5 * time.Second)
		if now := len(rounds(b)); now != before {
			c.Errorf("got %d requests for the objects after the takeover, want none: %v", now-before, rounds(b))
		}
		return b
	}
	c.Run(t, "HA-15 the next leader goes on where the one before was, and lists nothing again", func(c *C) {
		var l calls
		handOver(c, &l)
		got := l.all()
		slices.Sort(got)
		c.same("the calls", []string{"b creates y", "b updates x3"}, got)
	})
	c.Run(t, "HA-T7 a takeover does nothing again that was stored", func(c *C) {
		var l calls
		handOver(c, &l)
		if n := l.count("b creates x"); n > 0 {
			c.Errorf("%d objects were created again", n)
		}
	})
	c.Run(t, "HA-16 the handlers begin as soon as the Lease is got, for those objects alone that need it", func(c *C) {
		c.OnlyInBubble("the clock of the bubble shows that nothing is waited for")
		var l calls
		var at atomic.Pointer[time.Time]
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("b updates %s", ch.Name())
			now := time.Now()
			at.Store(&now)
			return nil
		}, &kopf.ChangeOptions{ID: "update"})
		b := c.Replica(r)
		c.createMany(1000)
		c.WaitFor("the handling", func() bool { return l.count("a creates") == 1000 })
		c.Pass(3 * time.Second)
		a.Crash()
		c.Patch(c.List()[500].Name(), map[string]any{"spec": map[string]any{"size": 77}})
		requests := len(b.Wire.Requests())
		c.WaitFor("the update", func() bool { return at.Load() != nil })
		if wait := at.Load().Sub(b.Logs.Find("Became the leader")[0].Time); wait > 100*time.Millisecond {
			c.Errorf("the first handler was called %s after the Lease was got", wait)
		}
		c.Pass(time.Second)
		var others []string // they do not wait for each other
		for _, q := range b.Wire.Requests()[requests:] {
			if !strings.Contains(q.Path, "/leases") && !strings.Contains(q.Path, "/events") {
				others = append(others, q.Method+" "+q.Path[strings.LastIndex(q.Path, "/")+1:])
			}
		}
		slices.Sort(others)
		name := c.List()[500].Name()
		c.same("the requests after the takeover", []string{"GET " + name, "GET kopfexamples?limit=1", "PATCH " + name}, others)
	})
	c.Run(t, "HA-48 a replica that starts over handled objects, and leads, makes no request but listings of them", func(c *C) {
		c.OnlyInBubble("2,000 objects")
		var l calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		c.createMany(2000)
		c.WaitFor("the handling", func() bool { return l.count("a creates") == 2000 })
		c.Pass(3 * time.Second)
		a.Stop()
		b := c.Replica(creating(&l, "b"))
		c.leads(b)
		c.Pass(10 * time.Second)
		listed := 0
		for _, q := range b.Wire.Requests() {
			switch about := strings.Contains(q.Path, "/kopfexamples"); {
			case about && q.Method == http.MethodGet && !strings.Contains(q.Path, "/kopfexamples/"):
				listed++
			case about, q.Method != http.MethodGet && !strings.Contains(q.Path, "/leases") && !strings.Contains(q.Path, "/events"):
				c.Errorf("got the request %s %s", q.Method, q.Path)
			}
		}
		if listed == 0 || listed > 6 || l.count("b") > 0 {
			c.Errorf("got %d listings and streams, and %d calls, want one listing by pages, one stream, and no call", listed, l.count("b"))
		}
	})
	c.Run(t, "HA-17 timers and daemons begin at the takeover, and InitialDelay counts anew", func(c *C) {
		var l calls
		registry := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { l.add("%s ticks", name); return nil },
				&kopf.TimerOptions{ID: "timer", Interval: time.Second, InitialDelay: 3 * time.Second})
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				l.add("%s runs", name)
				<-ctx.Done()
				l.add("%s ends", name)
				return nil
			}, &kopf.DaemonOptions{ID: "daemon"})
			r.OnResume(Examples, func(context.Context, *kopf.Change) error { l.add("%s resumes", name); return nil }, &kopf.ChangeOptions{ID: "resume"})
			return r
		}
		c.Create("x", nil)
		a := c.Replica(registry("a"))
		c.leads(a)
		c.WaitFor("the ticks", func() bool { return l.count("a ticks") > 1 && l.count("a runs") == 1 })
		b := c.Replica(registry("b"))
		c.Pass(5 * time.Second)
		if n := l.count("b"); n > 0 {
			c.Errorf("got %d calls of the replica that stands by", n)
		}
		a.Stop()
		c.leads(b)
		began := time.Now()
		c.WaitFor("the daemon", func() bool { return l.count("b runs") == 1 && l.count("b resumes") == 1 })
		c.WaitFor("the ticks", func() bool { return l.count("b ticks") == 1 })
		if passed := time.Since(began); passed < 2*time.Second {
			c.Errorf("the timer was called %s after the takeover, want its InitialDelay", passed)
		}
	})
	c.Run(t, "HA-19 handlers are called when a replica leads and when it does not any more, and the fence grows", func(c *C) {
		var l calls
		var mu sync.Mutex
		var fences []uint64
		note := func(fence uint64) { mu.Lock(); defer mu.Unlock(); fences = append(fences, fence) }
		registry := func(name string) *kopf.Registry {
			r := creating(&l, name)
			r.OnStartedLeading(func(ctx context.Context, a *kopf.Activity) error {
				l.add("%s starts", name)
				note(a.Fence())
				return a.Client.Create(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "made-by-" + name, "namespace": c.Namespace}}, nil)
			}, &kopf.ActivityOptions{ID: "started"})
			r.OnStoppedLeading(func(context.Context, *kopf.Activity) error { l.add("%s stops", name); return nil }, &kopf.ActivityOptions{ID: "stopped"})
			r.OnField(Examples, "spec.size", func(_ context.Context, ch *kopf.Change) error {
				if f := ch.Fence(); f != fences[len(fences)-1] {
					c.Errorf("got the fence %d, want %v", f, fences)
				}
				return nil
			}, &kopf.ChangeOptions{ID: "field"})
			return r
		}
		a := c.Replica(registry("a"))
		c.leads(a)
		c.Create("x", map[string]any{"spec": map[string]any{"size": 1}})
		c.WaitFor("the handling", func() bool { return l.count("a creates x") == 1 })
		if got := l.all()[0]; got != "a starts" {
			c.Errorf("got the call %q first, want that of the leading", got)
		}
		c.leases().Delete(leaseName)
		c.Pass(3 * time.Second) // in which it is created again
		a.Stop()
		c.leases().Delete(leaseName)
		b := c.Replica(registry("b"))
		c.leads(b)
		c.WaitFor("the beginning", func() bool { return l.count("b starts") == 1 })
		if l.count("a stops") != 1 || l.count("b stops") != 0 {
			c.Errorf("got the calls %q", l.all())
		}
		if len(fences) != 2 || fences[0] == 0 || fences[1] <= fences[0] {
			c.Errorf("got the fences %v, want them to grow", fences)
		}
	})
	c.Run(t, "HA-32 replicas with different storages follow each other", func(c *C) {
		c.OnlyInBubble("four takeovers")
		var l calls
		inStatus := func(op *kopf.Operator) { op.Settings.Persistence.Storage = kopf.InStatus }
		for round, adjust := range []func(*kopf.Operator){func(*kopf.Operator) {}, inStatus, func(*kopf.Operator) {}, inStatus} {
			op := c.Replica(creating(&l, "a"), adjust)
			c.leads(op)
			if round == 0 {
				c.Create("x", nil)
			} else {
				c.Patch("x", map[string]any{"spec": map[string]any{"size": round}})
			}
			c.WaitFor("the handling", func() bool { return len(l.all()) == round+1 })
			c.Pass(3 * time.Second)
			op.Stop()
		}
		c.expect(&l, "a creates x", "a updates x", "a updates x", "a updates x")
	})
}

func losses(t *testing.T, c *C) {
	// stubborn has a first call that waits for the end of its context, or longer, and further ones that end.
	stubborn := func(l *calls, first func(ctx context.Context, ch *kopf.Change) error) *kopf.Registry {
		var called atomic.Bool
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("called, attempt %d", ch.Retry)
			if !called.Swap(true) {
				return first(ctx, ch)
			}
			ch.Patch.Set("status.by", "second")
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		return r
	}
	c.Run(t, "HA-21 a leader that loses the Lease ends its handlers and stands by, and can lead again", func(c *C) {
		var l calls
		cause := make(chan error, 1)
		a := c.Replica(stubborn(&l, func(ctx context.Context, _ *kopf.Change) error {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		}))
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		c.intrude(2)
		c.loses(a, 1)
		if err := <-cause; !errors.Is(err, kopf.ErrLeadershipLost) {
			c.Errorf("the context has ended with %v, want %v", err, kopf.ErrLeadershipLost)
		}
		c.leadsAgain(a, 2)
		c.WaitFor("the second call", func() bool { return c.Get("x").Status().String("by") == "second" })
		if got := rounds(a); !slices.Equal(got, []string{"list", "watch"}) {
			c.Errorf("got the requests for the objects %v, want one list and one watch", got)
		}
	})
	c.Run(t, "HA-T4 after a loss, the process works as before once it leads again", func(c *C) {
		var l calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		for round := range 3 {
			c.intrude(1)
			c.loses(a, round+1)
			c.Create(fmt.Sprintf("x%d", round), nil)
			c.leadsAgain(a, round+2)
			c.WaitFor("the handling", func() bool { return l.count(fmt.Sprintf("a creates x%d", round)) == 1 })
		}
		c.Pass(2 * time.Second)
		if got := len(l.all()); got != 3 {
			c.Errorf("got the calls %q, want three", l.all())
		}
	})
	c.Run(t, "HA-21 daemons and timers end with the Lease, and begin again with it", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("runs")
			<-ctx.Done()
			l.add("ends")
			d.Patch.Set("status.late", true)
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", CancellationBackoff: 10 * time.Second})
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { l.add("ticks"); return nil }, &kopf.TimerOptions{ID: "timer", Interval: 500 * time.Millisecond})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the calls", func() bool { return l.count("runs") == 1 && l.count("ticks") > 1 })
		c.intrude(4)
		c.loses(a, 1)
		lost := time.Now()
		c.WaitFor("the end of the daemon", func() bool { return l.count("ends") == 1 })
		if passed := time.Since(lost); c.late(passed, 5*time.Second) {
			c.Errorf("the daemon has ended %s after the loss, want at once", passed)
		}
		ticks := l.count("ticks")
		c.Pass(2 * time.Second)
		if now := l.count("ticks"); now > ticks+1 {
			c.Errorf("the timer was called %d times without the Lease", now-ticks)
		}
		c.leadsAgain(a, 2)
		ticks = l.count("ticks")
		c.WaitFor("the calls again", func() bool { return l.count("runs") == 2 && l.count("ticks") > ticks+1 })
		if c.Get("x").Has("status.late") {
			c.Error("what the daemon has left after the loss was stored")
		}
	})
	c.Run(t, "HA-21 a daemon that ends with its context, before it is asked to stop, begins again with the Lease", func(c *C) {
		c.OnlyInBubble("the line about the loss is written slowly, so that the daemon is quicker")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error {
			l.add("runs")
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon"})
		a := c.Replica(r, func(op *kopf.Operator) { op.Logger = slog.New(slowLog{op.Logger.Handler()}) })
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return l.count("runs") == 1 })
		c.intrude(1)
		c.leadsAgain(a, 2)
		c.WaitFor("the call again", func() bool { return l.count("runs") == 2 })
	})
	c.Run(t, "HA-23 what a handler returns after the loss is not stored, and its attempt does not count", func(c *C) {
		var l calls
		a := c.Replica(stubborn(&l, func(ctx context.Context, ch *kopf.Change) error {
			<-ctx.Done()
			ch.Patch.Set("status.by", "first")
			ch.SetResult("late")
			return kopf.Permanent(errors.New("late"))
		}))
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		b := c.Replica(stubborn(&l, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.by", "next"); return nil }))
		c.Pass(time.Second)
		barred(a)
		c.loses(a, 1)
		c.leads(b)
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "next" })
		c.Pass(2 * time.Second)
		c.expect(&l, "called, attempt 0", "called, attempt 0")
		if x := c.Get("x"); x.Status().String("by") != "next" || x.Has("status.create") {
			c.Errorf("got the status %v", x.Status().Map())
		}
	})
	c.Run(t, "HA-26 a Lease that vanishes is made again, and one of another is a loss at once", func(c *C) {
		var l calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		holder := c.holder()
		c.leases().Delete(leaseName)
		c.WaitFor("the Lease", func() bool { return c.holder() == holder })
		if n := len(a.Logs.Find("Lost the leadership")); n > 0 {
			c.Error("the Lease was lost by its deletion")
		}
		began := time.Now()
		c.intrude(3)
		c.loses(a, 1)
		if passed := time.Since(began); c.late(passed, 3*time.Second) {
			c.Errorf("the loss was noticed after %s, want a RetryPeriod", passed)
		}
	})
	c.Run(t, "HA-27 without an API server nobody works, and all is well again soon after it is back", func(c *C) {
		c.OnlyInBubble("it takes longer than a Lease")
		var l calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		b := c.Replica(creating(&l, "b"))
		c.Pass(3 * time.Second)
		var away atomic.Bool
		for _, op := range []*Running{a, b} {
			op.Wire.Fault(func(*Request) (*http.Response, error) {
				if away.Load() {
					return nil, errors.New("connection refused")
				}
				return nil, nil
			})
		}
		away.Store(true)
		c.Pass(time.Minute)
		c.loses(a, 1)
		if n := len(b.Logs.Find("Became the leader")); n > 0 {
			c.Error("a replica has become the leader without an API server")
		}
		away.Store(false)
		began := time.Now()
		c.WaitFor("a leader", func() bool { return len(a.Logs.Find("Became the leader"))+len(b.Logs.Find("Became the leader")) == 2 })
		if passed := time.Since(began); c.late(passed, 3*time.Second) {
			c.Errorf("there was a leader after %s, want a RetryPeriod", passed)
		}
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return len(l.all()) == 1 })
	})
}

func fences(t *testing.T, c *C) {
	c.Run(t, "HA-22 no request that changes anything is sent without the Lease", func(c *C) {
		var l calls
		started, goOn := make(chan struct{}), make(chan struct{})
		results := make(chan error, 3)
		r := &kopf.Registry{}
		var first atomic.Bool
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("called")
			if first.Swap(true) {
				return nil
			}
			close(started)
			<-goOn
			ctx := context.Background() // it ignores the end of the term
			object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "late", "namespace": c.Namespace}}
			results <- ch.Client.Create(ctx, object, nil)
			results <- ch.Client.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: c.Namespace}, &map[string]any{}, nil)
			req, _ := http.NewRequestWithContext(ctx, http.MethodDelete, c.ConnectionInfo().Server+"/api/v1/namespaces/"+c.Namespace+"/configmaps/none", nil)
			_, err := ch.Client.HTTPClient().Do(req)
			results <- err
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		<-started
		c.intrude(2)
		c.loses(a, 1)
		before := len(a.Wire.Writes())
		c.leadsAgain(a, 2) // the handler does not affect the next term
		close(goOn)
		if err := <-results; !errors.Is(err, kopf.ErrLeadershipLost) {
			c.Errorf("got the error %v of a creation, want %v", err, kopf.ErrLeadershipLost)
		}
		if err := <-results; err != nil {
			c.Errorf("got the error %v of a read, want none", err)
		}
		if err := <-results; !errors.Is(err, kopf.ErrLeadershipLost) {
			c.Errorf("got the error %v of another library's deletion, want %v", err, kopf.ErrLeadershipLost)
		}
		c.WaitFor("the second call", func() bool { return l.count("called") == 2 })
		for _, q := range a.Wire.Writes()[before:] {
			if strings.Contains(q.Path, "configmaps") {
				c.Errorf("got the request %s %s", q.Method, q.Path)
			}
		}
	})
	c.Run(t, "HA-22 requests under way end with the Lease", func(c *C) {
		c.OnlyInBubble("the server has to hang")
		ended := make(chan error, 1)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ended <- ch.Client.Create(context.Background(), map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "slow", "namespace": c.Namespace}}, nil)
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		a := c.Replica(r, func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/configmaps") {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				return base.RoundTrip(req)
			})}
		})
		c.leads(a)
		c.Create("x", nil)
		c.Pass(time.Second)
		c.intrude(600)
		c.loses(a, 1)
		if err := <-ended; !errors.Is(err, kopf.ErrLeadershipLost) {
			c.Errorf("got the error %v, want %v", err, kopf.ErrLeadershipLost)
		}
	})
	// partitioned runs two replicas, the first of which loses its connection to the API server for a while. It returns the writing requests of each.
	partitioned := func(c *C) (old, next []Request) {
		r := func(l *calls) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnTimer(Examples, func(_ context.Context, timer *kopf.Timer) error {
				timer.Patch.Set("status.n", timer.Status().Int("n")+1)
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: 100 * time.Millisecond})
			return r
		}
		a := c.Replica(r(&calls{}))
		c.leads(a)
		b := c.Replica(r(&calls{}))
		c.Create("x", nil)
		c.WaitFor("the ticks", func() bool { return c.Get("x").Status().Int("n") > 5 })
		barred(a) // and its other requests arrive
		c.leads(b)
		c.WaitFor("the ticks of the next one", func() bool { return len(b.Wire.Writes()) > 10 })
		_, old = leaseWrites(a)
		_, next = leaseWrites(b)
		return old, next
	}
	c.Run(t, "HA-24 no write of the old holder is sent after the first one of the next", func(c *C) {
		old, next := partitioned(c)
		if last, first := old[len(old)-1].Time, next[0].Time; !last.Before(first) {
			c.Errorf("the last write of the old holder came %s after the first one of the next", last.Sub(first))
		}
	})
	c.Run(t, "HA-T1 work does not go on after the deadline of the renewal", func(c *C) {
		old, next := partitioned(c)
		if last, first := old[len(old)-1].Time, next[0].Time; first.Sub(last) < 500*time.Millisecond {
			c.Errorf("the old holder has written until %s before the next one", first.Sub(last))
		}
	})
	c.Run(t, "HA-25 a handler that ignores its context overlaps with the next holder's, and its fence is the lower one", func(c *C) {
		goOn := make(chan struct{})
		numbers := make(chan uint64, 2)
		registry := func(stubborn bool) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if stubborn {
					<-goOn
				}
				numbers <- ch.Fence()
				return nil
			}, &kopf.ChangeOptions{ID: "create"})
			return r
		}
		a := c.Replica(registry(true))
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return c.Exists("x") })
		c.Pass(time.Second)
		b := c.Replica(registry(false))
		c.Pass(time.Second)
		barred(a)
		c.leads(b)
		newer := <-numbers
		close(goOn)
		if older := <-numbers; older == 0 || older >= newer {
			c.Errorf("got the fences %d of the old and %d of the new holder", older, newer)
		}
	})
}

func exits(t *testing.T, c *C) {
	// slow returns a handler that takes the given time, and records its end.
	slow := func(l *calls, name string, takes time.Duration) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("%s begins", name)
			time.Sleep(takes)
			ch.Patch.Set("status.by", name)
			l.add("%s ends", name)
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		r.OnTimer(Examples, func(_ context.Context, timer *kopf.Timer) error { return nil }, &kopf.TimerOptions{ID: "timer", Interval: time.Second})
		return r
	}
	c.Run(t, "HA-28 the Lease is released when all is done, by one request", func(c *C) {
		var l calls
		a := c.Replica(slow(&l, "a", time.Second))
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		a.Stop()
		c.expect(&l, "a begins", "a ends")
		writes := a.Wire.Requests("POST", "PUT", "PATCH", "DELETE")
		last := writes[len(writes)-1]
		if last.Method != http.MethodPut || !strings.Contains(last.Path, "/leases/") || !strings.Contains(last.Body, `"holderIdentity":""`) || !strings.Contains(last.Body, "resourceVersion") {
			c.Errorf("got the last request %v, want the release of the Lease, with a test of its version", last)
		}
		spec := c.leases().Get(leaseName).Spec()
		if spec.String("holderIdentity") != "" || spec.Int("leaseDurationSeconds") != 1 {
			c.Errorf("got the Lease %v, want no holder and a second", spec.Map())
		}
		if got := c.Get("x").Status().String("by"); got != "a" {
			c.Errorf("what the handler has left was not stored: %q", got)
		}
	})
	c.Run(t, "HA-28 a handler that goes on keeps the Lease from being released", func(c *C) {
		c.OnlyInBubble("it takes as long as a Lease")
		goOn := make(chan struct{})
		r := &kopf.Registry{}
		var l calls
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { l.add("begins"); <-goOn; return nil }, &kopf.ChangeOptions{ID: "create"})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		holder := c.holder()
		done := make(chan struct{})
		go func() { defer close(done); _ = a.runner.Stop() }()
		c.Pass(20 * time.Second)
		if got := c.holder(); got != holder {
			c.Errorf("got the holder %q, want the Lease not to be released", got)
		}
		close(goOn)
		<-done
	})
	c.Run(t, "HA-T3 the Lease is not released before the work has ended, and not kept after it", func(c *C) {
		var l calls
		a := c.Replica(slow(&l, "a", time.Second))
		c.leads(a)
		b := c.Replica(slow(&l, "b", 0))
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		a.Stop()
		began := time.Now()
		c.leads(b)
		if passed := time.Since(began); c.late(passed, 3*time.Second) {
			c.Errorf("the next leader came %s after the end of the first", passed)
		}
		c.Pass(3 * time.Second)
		c.expect(&l, "a begins", "a ends")
	})
	c.Run(t, "HA-29 from the end in good order to the next handler it takes less than 3 s", func(c *C) {
		c.OnlyInBubble("twenty takeovers")
		var l calls
		var times []time.Duration
		op := c.Replica(creating(&l, "a"))
		c.leads(op)
		for i := range 20 {
			next := c.Replica(creating(&l, "a"))
			c.Pass(time.Duration(3000+137*i) * time.Millisecond)
			op.Stop()
			began := time.Now()
			c.Create(fmt.Sprintf("x%d", i), nil)
			c.WaitFor("the handling", func() bool { return l.count(fmt.Sprintf("a creates x%d", i)) == 1 })
			times = append(times, time.Since(began))
			op = next
		}
		slices.Sort(times)
		if times[9] > 1500*time.Millisecond || times[19] > 3*time.Second {
			c.Errorf("got the times %v, want half of them less than 1.5 s, and all less than 3 s", times)
		}
	})
	c.Run(t, "HA-22 a renewal with a slow answer counts from its request", func(c *C) {
		c.OnlyInBubble("the times are exact")
		const slow = 900 * time.Millisecond // less than the timeout of requests for the Lease
		a := c.Replica(creating(&calls{}, "a"), func(op *kopf.Operator) {
			next := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(req)
				if req.Method == http.MethodPut && strings.Contains(req.URL.Path, "/leases") {
					time.Sleep(slow)
				}
				return resp, err
			})}
		})
		c.leads(a)
		c.Pass(time.Minute)
		barred(a)
		c.loses(a, 1)
		var renewed time.Time
		for _, q := range a.Wire.Requests(http.MethodPut) {
			if q.Code == http.StatusOK {
				renewed = q.Time
			}
		}
		if passed := a.Logs.Find("Lost the leadership")[0].Time.Sub(renewed); passed > 10*time.Second {
			c.Errorf("the leadership was lost %s after the last renewal began, want at most the RenewDeadline, 10s", passed)
		}
	})
	c.Run(t, "HA-30 from a crash to the next handler it takes a Lease and a RetryPeriod", func(c *C) {
		c.OnlyInBubble("ten takeovers")
		var l calls
		op := c.Replica(creating(&l, "a"))
		c.leads(op)
		for i := range 10 {
			next := c.Replica(creating(&l, "a"))
			c.Pass(time.Duration(3000+311*i) * time.Millisecond)
			op.Crash()
			began := time.Now()
			c.Create(fmt.Sprintf("x%d", i), nil)
			c.WaitFor("the handling", func() bool { return l.count(fmt.Sprintf("a creates x%d", i)) == 1 })
			if passed := time.Since(began); passed > 17500*time.Millisecond {
				c.Errorf("it took %s", passed)
			}
			op = next
		}
	})
}
