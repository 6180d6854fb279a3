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

// lateStream blocks the watches of a resource while it is held.
type lateStream struct {
	plural string
	held   atomic.Bool
}

// of delays the streams of an operator.
func (s *lateStream) of(op *kopf.Operator) {
	base := op.Connection.HTTPClient.Transport
	op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/"+s.plural+"/") {
			time.Sleep(50 * time.Millisecond) // the latency of a distant server
		}
		resp, err := base.RoundTrip(req)
		if err == nil && req.URL.Query().Get("watch") == "true" && strings.HasSuffix(req.URL.Path, "/"+s.plural) {
			resp.Body = &heldBody{resp.Body, s, req.Context()}
		}
		return resp, err
	})}
}

// heldBody is the response to a watch of a [lateStream].
type heldBody struct {
	io.ReadCloser
	stream *lateStream
	ctx    context.Context
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for b.stream.held.Load() && b.ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // polls the test, which releases the stream
	}
	return n, err
}

// handlingSlowly returns handlers that take half a second.
func handlingSlowly(l *calls, name string) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		l.add("%s creates %s", name, ch.Name())
		time.Sleep(500 * time.Millisecond) // the duration of the handler
		ch.Patch.Set("status.by", name)
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error {
		l.add("%s deletes %s", name, ch.Name())
		time.Sleep(500 * time.Millisecond) // the duration of the handler
		return nil
	}, &kopf.ChangeOptions{ID: "delete"})
	return r
}

// This suite proves that a replica with delayed streams does not repeat finished work of the previous leader, in 7-availability.md.

var _ = Suite("leader_election_late", func(t *testing.T, c *C) {
	for when, shown := range map[string]bool{"before": true, "after": false} {
		c.Run(t, "HA-T7 a creation whose handling a late stream does not show is not handled again; the creation is shown "+when+" the takeover", func(c *C) {
			c.OnlyInBubble("streams have to be late")
			var l calls
			s := &lateStream{plural: "kopfexamples"}
			a := c.Replica(handlingSlowly(&l, "a"))
			c.leads(a)
			b := c.Replica(handlingSlowly(&l, "b"), s.of)
			c.Pass(3 * time.Second)
			s.held.Store(!shown)
			c.Create("x", nil)
			c.Pass(100 * time.Millisecond)
			s.held.Store(true)
			c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "a" })
			a.Stop()
			c.leads(b)
			c.Pass(2 * time.Second)
			s.held.Store(false)
			c.Pass(time.Minute)
			c.expect(&l, "a creates x")
		})
	}
	c.Run(t, "HA-T7 a replica whose watch is broken does not repeat a creation at a takeover", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		a := c.Replica(handlingSlowly(&l, "a"))
		c.leads(a)
		b := c.Replica(handlingSlowly(&l, "b"))
		c.Pass(3 * time.Second)
		c.Create("x", nil)
		c.Pass(100 * time.Millisecond)
		var away atomic.Bool
		b.Wire.Fault(func(q *Request) (*http.Response, error) {
			if away.Load() && strings.Contains(q.Path, "/kopfexamples?") {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "watches are not served"), nil
			}
			return nil, nil
		})
		away.Store(true)
		b.Wire.Drop()
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "a" })
		c.Pass(time.Minute)
		a.Stop()
		c.leads(b)
		c.Pass(10 * time.Second)
		away.Store(false)
		c.Pass(10 * time.Minute)
		c.expect(&l, "a creates x")
	})
	c.Run(t, "HA-T7 what a replica could not store while a version was not served is not stored in a later term, when another one has handled the object", func(c *C) {
		c.OnlyInBubble("requests are held up")
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		served := func(v1 bool) { c.setVersions(crdVersion("v1", v1, false), crdVersion("v2", true, true)) }
		var l calls
		handling := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(kopf.Selector("gadgets.v1."+c.Unique("leaf")+".dev"), func(_ context.Context, ch *kopf.Change) error {
				l.add("%s creates %s", name, ch.Name())
				time.Sleep(time.Minute)
				ch.Patch.Set("status.by", name)
				return nil
			}, &kopf.ChangeOptions{ID: "create"})
			return r
		}
		var away, elects atomic.Bool
		a := c.Replica(handling("a"), wired(func(q *Request) (*http.Response, error) {
			if away.Load() && !(elects.Load() && strings.Contains(q.Path, "/leases")) {
				return nil, errCut
			}
			return nil, nil
		}))
		c.leads(a)
		b := c.Replica(handling("b"))
		x := c.Of(c.Unique("leaf")+".dev/v2", "Gadget")
		x.Create("x", nil)
		c.WaitFor("the call", func() bool { return l.count("a creates") == 1 })
		served(false)
		c.Pass(10 * time.Minute)
		away.Store(true)
		a.Wire.Drop()
		c.loses(a, 1)
		c.leads(b)
		served(true)
		c.WaitFor("the handling", func() bool { return x.Get("x").Status().String("by") == "b" })
		c.Pass(time.Minute)
		b.Crash()
		elects.Store(true)
		c.leadsAgain(a, 2)
		c.Pass(time.Second)
		away.Store(false)
		c.Pass(time.Hour)
		c.expect(&l, "a creates x", "b creates x")
		if by := x.Get("x").Status().String("by"); by != "b" {
			c.Errorf("the object has what %q has left, want that of b, which was handled last", by)
		}
	})
	c.Run(t, "HA-T7 a replica that can neither watch nor read the objects asks for them once a second at most without a ConsistencyTimeout", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		a := c.Replica(handlingSlowly(&l, "a"))
		c.leads(a)
		var away atomic.Bool
		refused := func(q *Request) (*http.Response, error) {
			if away.Load() && q.Method == http.MethodGet && strings.Contains(q.Path, "/kopfexamples") {
				return Answer(http.StatusForbidden, "Forbidden", "reading is forbidden"), nil
			}
			return nil, nil
		}
		b := c.Replica(handlingSlowly(&l, "b"), wired(refused), func(op *kopf.Operator) { op.Settings.Persistence.ConsistencyTimeout = 0 })
		c.Pass(3 * time.Second)
		a.Crash()
		c.Create("x", nil)
		c.Pass(100 * time.Millisecond)
		away.Store(true)
		b.Wire.Drop()
		c.leads(b)
		before := len(b.Wire.Requests("GET"))
		c.Pass(time.Minute)
		if n := len(b.Wire.Requests("GET")) - before; n > 300 {
			c.Errorf("%d requests were sent in a minute, want one or two each second", n)
		}
		away.Store(false)
		c.Pass(10 * time.Minute)
		c.expect(&l, "b creates x")
	})
	c.Run(t, "HA-T7 a replica that leads again with a late stream does not repeat what another one has done", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		s := &lateStream{plural: "kopfexamples"}
		a := c.Replica(handlingSlowly(&l, "a"), s.of)
		c.leads(a)
		c.Pass(3 * time.Second)
		b := c.Replica(handlingSlowly(&l, "b"))
		var away atomic.Bool
		a.Wire.Fault(func(q *Request) (*http.Response, error) {
			if away.Load() && strings.Contains(q.Path, "/leases") {
				return nil, errors.New("connection refused")
			}
			return nil, nil
		})
		away.Store(true)
		c.loses(a, 1)
		c.Create("x", nil)
		c.Pass(100 * time.Millisecond)
		s.held.Store(true)
		c.leads(b)
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "b" })
		away.Store(false)
		b.Stop()
		c.leadsAgain(a, 2)
		c.Pass(2 * time.Second)
		s.held.Store(false)
		c.Pass(time.Minute)
		c.expect(&l, "b creates x")
	})
	c.Run(t, "HA-15 the deletion of an object that is gone is not handled at a takeover", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		s := &lateStream{plural: "kopfexamples"}
		a := c.Replica(handlingSlowly(&l, "a"))
		c.leads(a)
		b := c.Replica(handlingSlowly(&l, "b"), s.of)
		c.Create("x", nil)
		c.Pass(3 * time.Second)
		c.Delete("x")
		c.Pass(100 * time.Millisecond)
		s.held.Store(true)
		c.WaitFor("the end", func() bool { return !c.Exists("x") })
		a.Stop()
		c.leads(b)
		c.Pass(30 * time.Second)
		s.held.Store(false)
		c.Pass(time.Minute)
		c.expect(&l, "a creates x", "a deletes x")
	})
	c.Run(t, "HA-15 objects are handled after a takeover by a replica that must not read single ones", func(c *C) {
		c.OnlyInBubble("the rights are taken away on the way")
		var l calls
		a := c.Replica(handlingSlowly(&l, "a"))
		c.leads(a)
		b := c.Replica(handlingSlowly(&l, "b"))
		b.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodGet && strings.Contains(q.Path, "/kopfexamples/") {
				return Answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return nil, nil
		})
		c.Pass(3 * time.Second)
		a.Crash()
		c.Create("x", nil)
		c.leads(b)
		c.Pass(time.Minute)
		c.expect(&l, "b creates x")
	})
	c.Run(t, "HA-45 a record that a late stream does not show is obeyed at a takeover", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		table := c.meet()
		var l calls
		s := &lateStream{plural: "kopfpeerings"}
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		b := c.Replica(creating(&l, "b"), s.of)
		c.Pass(3 * time.Second)
		s.held.Store(true)
		c.Pass(3 * time.Second)
		table.sit("boss", rival(100, 3600))
		c.paused(a, 1)
		c.Create("x", nil)
		c.Pass(20 * time.Second)
		a.Stop()
		c.leads(b)
		c.Pass(20 * time.Second)
		c.expect(&l)
		s.held.Store(false)
		table.sit("boss", nil)
	})
})
