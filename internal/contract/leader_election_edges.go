package contract

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// slowBody is the body of a delayed watch.
type slowBody struct{ io.ReadCloser }

func (s slowBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	time.Sleep(3 * time.Second) // the delay of a slow stream
	return n, err
}

// This suite proves what happens at the moment when a term begins or ends, and that no work of a term continues after its end, in 7-availability.md.

var _ = Suite("leader_election_edges", func(t *testing.T, c *C) {
	c.Run(t, "HA-T7 a request that was cut off by the loss, and carried out, is not made again in the next term", func(c *C) {
		c.OnlyInBubble("the answer has to be late")
		var l calls
		var late atomic.Bool
		a := c.Replica(creating(&l, "a"), func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				watches := req.URL.Query().Get("watch") == "true" && strings.HasSuffix(req.URL.Path, "/kopfexamples")
				resp, err := base.RoundTrip(req)
				if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/kopfexamples/") && !late.Swap(true) {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				if err == nil && watches {
					resp.Body = slowBody{resp.Body}
				}
				return resp, err
			})}
		})
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "a" })
		c.intrude(1)
		c.leadsAgain(a, 2)
		c.Pass(time.Minute)
		c.expect(&l, "a creates x")
	})
	indexed := func(l *calls, takes time.Duration) *kopf.Registry {
		r := creating(l, "a")
		kopf.OnIndexIn(r, Examples, func(_ context.Context, x *kopf.Indexing) (map[string]string, error) {
			time.Sleep(takes)
			return map[string]string{x.Name(): "there"}, nil
		}, &kopf.IndexOptions{ID: "names"})
		return r
	}
	c.Run(t, "HA-15 an object that is being indexed when the Lease is got at the start is handled", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		c.Create("x", nil)
		a := c.Replica(indexed(&l, 100*time.Millisecond))
		c.leads(a)
		c.Pass(10 * time.Minute)
		c.same("the calls", []string{"a creates x"}, l.all())
	})
	c.Run(t, "HA-15 an object that is being indexed at a takeover is handled", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		c.leases().Create(leaseName, c.foreign("other", 4, time.Now()))
		a := c.Replica(indexed(&l, 5*time.Second))
		c.Pass(2 * time.Second)
		c.Create("x", nil)
		c.leads(a)
		c.Pass(10 * time.Minute)
		c.same("the calls", []string{"a creates x"}, l.all())
	})
	c.Run(t, "HA-15 an object that is being indexed at a loss is handled in the next term", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		a := c.Replica(indexed(&l, 5*time.Second))
		c.leads(a)
		c.Pass(2 * time.Second)
		c.Create("x", nil)
		c.Pass(time.Second)
		c.intrude(10)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
		c.Pass(10 * time.Minute)
		c.same("the calls", []string{"a creates x"}, l.all())
	})
	keeps := func(c *C, a *Running, goOn chan struct{}) {
		holder := c.holder()
		done := make(chan struct{})
		go func() { defer close(done); _ = a.runner.Stop() }()
		c.Pass(60 * time.Second)
		if got := c.holder(); got != holder {
			c.Errorf("got the holder %q, want the Lease not to be released while a function runs", got)
		}
		close(goOn)
		<-done
	}
	c.Run(t, "HA-28 a daemon that ignores the exit keeps the Lease from being released", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		goOn, began := make(chan struct{}), make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { close(began); <-goOn; return nil }, &kopf.DaemonOptions{ID: "daemon"})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		<-began
		keeps(c, a, goOn)
	})
	c.Run(t, "HA-28 a daemon that was abandoned earlier, and goes on, keeps the Lease from being released", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		goOn, began := make(chan struct{}), make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { close(began); <-goOn; return nil },
			&kopf.DaemonOptions{ID: "daemon", CancellationTimeout: time.Second})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		<-began
		c.Delete("x")
		c.WaitFor("the end", func() bool { return !c.Exists("x") })
		keeps(c, a, goOn)
	})
	c.Run(t, "HA-28 a handler of the leading's start that goes on keeps the Lease from being released", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		goOn, began := make(chan struct{}), make(chan struct{})
		r := creating(&calls{}, "a")
		r.OnStartedLeading(func(context.Context, *kopf.Activity) error { close(began); <-goOn; return nil }, &kopf.ActivityOptions{ID: "started"})
		a := c.Replica(r)
		<-began
		c.leads(a)
		keeps(c, a, goOn)
	})
	c.Run(t, "HA-15 an index function that has failed is called again while the replica stands by", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var n atomic.Int32
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(_ context.Context, x *kopf.Indexing) (map[string]string, error) {
			if n.Add(1) == 1 {
				return nil, kopf.Temporary(errors.New("later"), 5*time.Second)
			}
			return map[string]string{x.Name(): "there"}, nil
		}, &kopf.IndexOptions{ID: "names"})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the first call", func() bool { return n.Load() == 1 })
		c.intrude(600)
		c.loses(a, 1)
		c.Pass(5 * time.Minute)
		if n.Load() < 2 {
			c.Error("the index function was not called again in five minutes of standing by")
		}
	})
	c.Run(t, "HA-6 a namespace that does not exist is an error, which is logged", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		a := c.Replica(creating(&calls{}, "a"), func(op *kopf.Operator) { op.Settings.LeaderElection.Namespace = "typo" })
		c.Pass(10 * time.Minute)
		if n := len(a.Logs.Find("Standing for the Lease failed")); n == 0 {
			var all []string
			for _, line := range a.Logs.All() {
				all = append(all, line.Message)
			}
			c.Errorf("there is no line in ten minutes of standing in vain: %q", all)
		}
	})
	c.Run(t, "HA-22 what a handler of the leading's start has begun changes nothing in a later term", func(c *C) {
		goOn, result := make(chan struct{}), make(chan error, 1)
		begun := false
		r := creating(&calls{}, "a")
		r.OnStartedLeading(func(_ context.Context, a *kopf.Activity) error {
			if begun {
				return nil
			}
			begun = true
			client := a.Client
			go func() {
				<-goOn
				result <- client.Create(context.Background(), map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "late", "namespace": c.Namespace}}, nil)
			}()
			return nil
		}, &kopf.ActivityOptions{ID: "started"})
		a := c.Replica(r)
		c.leads(a)
		c.Pass(time.Second)
		c.intrude(4)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
		close(goOn)
		if err := <-result; !errors.Is(err, kopf.ErrLeadershipLost) {
			c.Errorf("got the error %v of a creation by what the first term has begun, want %v", err, kopf.ErrLeadershipLost)
		}
	})
	c.Run(t, "HA-17 a daemon that is started while the Lease is lost runs in the next term", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		slow := true
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("runs, %v", context.Cause(ctx))
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", InitialDelay: 30 * time.Second, When: func(*kopf.Daemon) bool {
			if slow {
				slow = false
				time.Sleep(5 * time.Second)
			}
			return true
		}})
		a := c.Replica(r)
		c.leads(a)
		c.Pass(time.Second)
		c.Create("x", nil)
		c.intrude(8)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
		c.Pass(10 * time.Minute)
		c.same("the calls", []string{"runs, <nil>"}, l.all())
	})
	c.Run(t, "HA-17 a daemon that had ended begins when the replica leads again", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { l.add("runs"); return nil }, &kopf.DaemonOptions{ID: "daemon"})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		c.WaitFor("the call", func() bool { return l.count("runs") == 1 })
		c.intrude(4)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
		c.Pass(time.Minute)
		if n := l.count("runs"); n != 2 {
			c.Errorf("the daemon was called %d times, want again at the takeover", n)
		}
	})
	c.Run(t, "HA-11 a renewal is not repeated without a pause", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var away atomic.Bool
		var n atomic.Int32
		a := c.Replica(creating(&calls{}, "a"), func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				if !away.Load() || !strings.Contains(req.URL.Path, "/leases") {
					return base.RoundTrip(req)
				}
				n.Add(1)
				time.Sleep(time.Millisecond)
				if err := req.Context().Err(); err != nil {
					return nil, err
				}
				return Answer(http.StatusNotFound, "NotFound", `namespaces "leaf" not found`), nil
			})}
		})
		c.leads(a)
		away.Store(true)
		c.Pass(30 * time.Second)
		if got := n.Load(); got > 100 {
			c.Errorf("got %d requests for the Lease in 30 s", got)
		}
	})
})
