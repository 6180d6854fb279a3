package contract

import (
	"bufio"
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

// This suite proves what happens to objects and to the Lease when a term begins or ends at an unfavorable moment.

// dripping delivers the lines of a resource's watches one by one, with a delay before each while it is set.
type dripping struct {
	plural string
	pause  atomic.Int64
}

func (s *dripping) of(op *kopf.Operator) {
	base := op.Connection.HTTPClient.Transport
	op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil && req.URL.Query().Get("watch") == "true" && strings.HasSuffix(req.URL.Path, "/"+s.plural) {
			resp.Body = &drippingBody{ReadCloser: resp.Body, lines: bufio.NewReader(resp.Body), stream: s, ctx: req.Context()}
		}
		return resp, err
	})}
}

type drippingBody struct {
	io.ReadCloser
	lines  *bufio.Reader
	stream *dripping
	ctx    context.Context
	rest   []byte
}

func (b *drippingBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n')
		if err != nil {
			return copy(p, line), err
		}
		b.rest = line
		for passed := time.Duration(0); passed < time.Duration(b.stream.pause.Load()) && b.ctx.Err() == nil; passed += 10 * time.Millisecond {
			time.Sleep(10 * time.Millisecond) // the delay of a slow stream, which the test can end
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// refusingWhile has the requests of an operator whose paths contain a part fail while the flag is set, from its start on.
func refusingWhile(on *atomic.Bool, part string) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		op.Connection.HTTPClient.Transport.(*Wire).Fault(func(q *Request) (*http.Response, error) {
			if on.Load() && strings.Contains(q.Path, part) {
				return nil, errors.New("connection refused")
			}
			return nil, nil
		})
	}
}

// capturingServer keeps the function that answers reviews.
type capturingServer struct{ review kopf.ReviewFunc }

func (s *capturingServer) Serve(ctx context.Context, review kopf.ReviewFunc, announce func(kopf.WebhookClientConfig)) error {
	s.review = review
	<-ctx.Done()
	return nil
}

// readsOfObjects counts the requests of an operator for single objects.
func readsOfObjects(op *Running) (n int) {
	for _, q := range op.Wire.Requests("GET") {
		if strings.Contains(q.Path, "/kopfexamples/") {
			n++
		}
	}
	return n
}

var _ = Suite("leader_election_takeovers", func(t *testing.T, c *C) {
	c.Run(t, "HA-T7 a replica that sees the Lease first when it is released does not repeat what its late stream has not shown", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		a := c.Replica(handlingSlowly(&l, "a"))
		c.leads(a)
		s := &lateStream{plural: "kopfexamples"}
		var away atomic.Bool
		away.Store(true)
		b := c.Replica(handlingSlowly(&l, "b"), refusingWhile(&away, "/leases"), s.of)
		c.Pass(time.Second)
		c.Create("x", nil)
		c.Pass(100 * time.Millisecond)
		s.held.Store(true)
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "a" })
		a.Stop()
		away.Store(false)
		c.leads(b)
		c.Pass(2 * time.Second)
		s.held.Store(false)
		c.Pass(time.Minute)
		c.expect(&l, "a creates x")
	})
	c.Run(t, "HA-13 objects that were made while a replica stood by are resumed at its takeover", func(c *C) {
		var l calls
		registry := func(name string) *kopf.Registry {
			r := creating(&l, name)
			r.OnResume(Examples, func(_ context.Context, ch *kopf.Change) error { l.add("%s resumes %s", name, ch.Name()); return nil }, &kopf.ChangeOptions{ID: "resume"})
			return r
		}
		a := c.Replica(registry("a"))
		c.leads(a)
		b := c.Replica(registry("b"))
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "a" })
		c.Pass(time.Second)
		a.Stop()
		c.leads(b)
		c.WaitFor("the resuming", func() bool { return l.count("b resumes x") > 0 })
		c.Pass(time.Second)
		c.expect(&l, "a creates x", "b resumes x")
	})
	c.Run(t, "HA-15 a takeover with a late stream does not let an object go whose deletion is to be handled", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		registry := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error { l.add("%s deletes %s", name, ch.Name()); return nil },
				&kopf.ChangeOptions{ID: "delete", Labels: kopf.Match{"managed": "yes"}})
			return r
		}
		slow, late := &lateStream{plural: "kopfexamples"}, &lateStream{plural: "kopfexamples"}
		a := c.Replica(registry("a"), slow.of) // its patches take 50 ms
		c.leads(a)
		b := c.Replica(registry("b"), late.of)
		c.Create("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"managed": "yes"}}})
		c.Pass(3 * time.Second)
		c.Patch("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"managed": nil}}})
		c.Pass(20 * time.Millisecond)
		late.held.Store(true)
		c.WaitFor("the release", func() bool { return len(c.Get("x").Finalizers()) == 0 })
		c.Patch("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"managed": "yes"}}})
		c.WaitFor("the finalizer", func() bool { return len(c.Get("x").Finalizers()) == 1 })
		c.Pass(time.Second)
		a.Crash()
		c.Delete("x")
		c.leads(b)
		c.Pass(10 * time.Second)
		late.held.Store(false)
		c.Pass(time.Minute)
		if c.Exists("x") {
			c.Error("the object is still there")
		}
		c.same("the calls", []string{"b deletes x"}, l.all())
	})
	c.Run(t, "HA-17 a daemon that begins by what a late stream has shown ends when that shows the end of the object", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		registry := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				l.add("%s runs %s", name, d.Name())
				<-ctx.Done()
				l.add("%s ends %s", name, d.Name())
				return nil
			}, &kopf.DaemonOptions{ID: "daemon"})
			return r
		}
		a := c.Replica(registry("a"))
		c.leads(a)
		late := &lateStream{plural: "kopfexamples"}
		b := c.Replica(registry("b"), late.of)
		c.Create("x", nil)
		c.Pass(3 * time.Second)
		late.held.Store(true)
		c.Delete("x")
		c.WaitFor("the end", func() bool { return !c.Exists("x") })
		a.Stop()
		c.leads(b)
		c.Pass(15 * time.Second)
		late.held.Store(false)
		c.Pass(15 * time.Second)
		c.same("the calls", []string{"a runs x", "a ends x", "b runs x", "b ends x"}, l.all())
	})
	c.Run(t, "HA-28 a handler of the leading's end that goes on keeps the Lease from being released", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		goOn, began := make(chan struct{}), make(chan struct{})
		r := creating(&calls{}, "a")
		r.OnStoppedLeading(func(context.Context, *kopf.Activity) error { close(began); <-goOn; return nil }, &kopf.ActivityOptions{ID: "stopped"})
		a := c.Replica(r)
		c.leads(a)
		holder := c.holder()
		done := make(chan struct{})
		go func() { defer close(done); _ = a.runner.Stop() }()
		<-began
		c.Pass(60 * time.Second)
		if got := c.holder(); got != holder {
			c.Errorf("got the holder %q, want the Lease not to be released while a function runs", got)
		}
		close(goOn)
		<-done
	})
	c.Run(t, "HA-22 what a handler of the leading's end has begun changes nothing in a later term", func(c *C) {
		goOn, result := make(chan struct{}), make(chan error, 1)
		begun := false
		r := creating(&calls{}, "a")
		r.OnStoppedLeading(func(_ context.Context, a *kopf.Activity) error {
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
		}, &kopf.ActivityOptions{ID: "stopped"})
		a := c.Replica(r)
		c.leads(a)
		c.Pass(time.Second)
		c.intrude(2)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
		close(goOn)
		if err := <-result; !errors.Is(err, kopf.ErrLeadershipLost) {
			c.Errorf("got the error %v of a creation by what the end of the first term has begun, want %v", err, kopf.ErrLeadershipLost)
		}
	})
	c.Run(t, "HA-T7 a handler that is called for what was read at a takeover is not interrupted by what the late stream shows of before", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		var l calls
		registry := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create"})
			r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s updates to %d", name, ch.New.Int("spec.x"))
				select {
				case <-time.After(25 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, &kopf.ChangeOptions{ID: "update", Interruptible: true})
			return r
		}
		a := c.Replica(registry("a"))
		c.leads(a)
		s := &dripping{plural: "kopfexamples"}
		b := c.Replica(registry("b"), s.of)
		c.Create("x", sized(1))
		c.Pass(3 * time.Second)
		a.Crash()
		c.Patch("x", sized(2))
		c.Pass(time.Second)
		s.pause.Store(int64(20 * time.Second))
		for i := range 3 {
			c.Patch("x", sized(3+i))
		}
		c.leads(b)
		c.Pass(10 * time.Minute)
		c.same("the calls", []string{"b updates to 5"}, l.all())
	})
	c.Run(t, "HA-16 a refused look at the versions does not have each change read for the whole term", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		var away atomic.Bool
		b := c.Replica(creating(&l, "b"))
		b.Wire.Fault(func(q *Request) (*http.Response, error) {
			if away.Load() && strings.Contains(q.Path, "/kopfexamples?limit=1") {
				return Answer(http.StatusForbidden, "Forbidden", "a webhook of rights is away"), nil
			}
			return nil, nil
		})
		c.Create("x", nil)
		c.Pass(3 * time.Second)
		away.Store(true)
		a.Stop()
		c.leads(b)
		c.Pass(time.Minute)
		away.Store(false)
		c.Pass(time.Hour)
		before := readsOfObjects(b)
		for i := range 20 {
			c.Patch("x", map[string]any{"spec": map[string]any{"size": i}})
			c.Pass(time.Minute)
		}
		if n := readsOfObjects(b) - before; n > 1 {
			c.Errorf("got %d reads of the object for 20 changes, an hour after the takeover", n)
		}
	})
	c.Run(t, "HA-16 objects of a namespace that is made long after a takeover are not read before each handling", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		in := func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, "team-*"} }
		a := c.Replica(creating(&l, "a"), in)
		c.leads(a)
		b := c.Replica(creating(&l, "b"), in)
		c.Pass(3 * time.Second)
		a.Stop()
		c.leads(b)
		c.Pass(time.Hour)
		c.Of("v1", "Namespace").Create("team-a", nil)
		c.Pass(time.Minute)
		object := func(size int) map[string]any {
			return map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "y", "namespace": "team-a"}, "spec": map[string]any{"size": size}}
		}
		if err := c.Client.Create(c.Context(), object(0), nil); err != nil {
			c.Fatal(err)
		}
		c.Pass(time.Minute)
		for i := range 20 {
			if err := c.Client.Apply(c.Context(), object(i+1), &kopf.WriteOptions{FieldManager: "me", Force: true}); err != nil {
				c.Fatal(err)
			}
			c.Pass(time.Minute)
		}
		if n := readsOfObjects(b); n > 0 {
			c.Errorf("got %d reads of an object that was made an hour after the takeover, for %d calls", n, len(l.all()))
		}
	})
	c.Run(t, "HA-28 a handler of the leading's end that was late once does not keep the Lease from being released later", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var late atomic.Bool
		r := creating(&calls{}, "a")
		r.OnStoppedLeading(func(context.Context, *kopf.Activity) error {
			if !late.Swap(true) {
				time.Sleep(8 * time.Second) // the limit is five, plus two
			}
			return nil
		}, &kopf.ActivityOptions{ID: "stopped"})
		a := c.Replica(r)
		c.leads(a)
		c.intrude(1)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
		c.Pass(time.Hour)
		a.Stop()
		if got := c.holder(); got != "" {
			c.Errorf("got the holder %q an hour after the handler has returned, want the Lease to be released: %v", got, a.Logs.Find("Leaving the Lease"))
		}
	})
	c.Run(t, "HA-28 the Lease is renewed while the handlers of the leading's end use their time, and then released", func(c *C) {
		c.OnlyInBubble("it takes seconds")
		r := creating(&calls{}, "a")
		var err error
		r.OnStoppedLeading(func(ctx context.Context, a *kopf.Activity) error {
			time.Sleep(4500 * time.Millisecond) // the limit is five
			err = a.Client.Create(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "late", "namespace": c.Namespace}}, nil)
			return nil
		}, &kopf.ActivityOptions{ID: "stopped"})
		a := c.Replica(r, func(op *kopf.Operator) {
			s := &op.Settings.LeaderElection
			s.LeaseDuration, s.RenewDeadline, s.RetryPeriod = 6*time.Second, 4*time.Second, time.Second
		})
		c.leads(a)
		c.Pass(3 * time.Second)
		a.Stop()
		if err != nil {
			c.Errorf("the handler has got %v", err)
		}
		if got := c.holder(); got != "" {
			c.Errorf("got the holder %q, want the Lease to be released; the log says: %v", got, a.Logs.Find("Released the Lease"))
		}
	})
	c.Run(t, "HA-9 each request for the Lease has its time, also when it is got", func(c *C) {
		c.OnlyInBubble("the server has to be slow")
		a := c.Replica(creating(&calls{}, "a"), func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if strings.Contains(req.URL.Path, "/leases") {
					select {
					case <-time.After(4 * time.Second): // within the five seconds of each request
					case <-req.Context().Done():
						if err == nil {
							_ = resp.Body.Close()
						}
						return nil, req.Context().Err()
					}
				}
				return resp, err
			})}
		})
		c.Pass(10 * time.Minute)
		if n := len(a.Logs.Find("Became the leader")); n != 1 {
			c.Errorf("the only replica has become the leader %d times in ten minutes; the holder is %q", n, c.holder())
		}
	})
	c.Run(t, "HA-23 a handler with a client of an earlier term fails like any other, and is limited by its Retries", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		var client *kopf.Client
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if client == nil {
				client = ch.Client
			}
			l.add("called for %s", ch.Name())
			return client.Create(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": ch.Name(), "namespace": c.Namespace}}, nil)
		}, &kopf.ChangeOptions{ID: "create", Retries: 3})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		c.Pass(time.Second)
		c.intrude(1)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
		c.Create("y", nil)
		c.Pass(time.Hour)
		if n := l.count("called for y"); n > 3 {
			c.Errorf("the handler was called %d times in an hour, want 3; %d lines say that the Lease was lost", n, len(a.Logs.Find("has lost the Lease")))
		}
	})
	c.Run(t, "HA-T1 a Lease that a person deletes does not make two replicas work at once", func(c *C) {
		c.OnlyInBubble("it is a matter of milliseconds")
		var l calls
		registry := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s begins", name)
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
				l.add("%s ends", name)
				return ctx.Err()
			}, &kopf.ChangeOptions{ID: "create"})
			return r
		}
		a := c.Replica(registry("a"))
		c.leads(a)
		b := c.Replica(registry("b"), func(op *kopf.Operator) { op.Settings.LeaderElection.RetryPeriod = 500 * time.Millisecond })
		c.Create("x", nil)
		c.Pass(10 * time.Second)
		renewals := len(a.Wire.Requests("PUT"))
		c.WaitFor("the next renewal", func() bool { return len(a.Wire.Requests("PUT")) > renewals })
		c.leases().Delete(leaseName)
		c.Pass(10 * time.Second)
		_ = b
		if got := l.all(); len(got) > 1 && got[1] != "a ends" {
			c.Errorf("got the calls %q: two replicas work on one object at the same time", got)
		}
	})
	c.Run(t, "HA-19 the fence of a handler of admission is that of the term while its replica leads", func(c *C) {
		c.OnlyInBubble("the reviews come from the test")
		var fences []uint64
		r := creating(&calls{}, "a")
		r.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error { fences = append(fences, a.Fence()); return nil }, &kopf.AdmissionOptions{ID: "check"})
		server := &capturingServer{}
		a := c.Replica(r, func(op *kopf.Operator) { op.Settings.Admission.Server = server })
		c.leads(a)
		c.Pass(time.Second)
		if _, err := server.review(c.Context(), &kopf.ReviewRequest{Handler: "check", Body: []byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
			"uid": "1", "operation": "UPDATE", "userInfo": {"username": "me"}, "namespace": "leaf", "name": "x", "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
			"object": {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "x", "namespace": "leaf", "uid": "u"}}}}`)}); err != nil {
			c.Fatal(err)
		}
		if len(fences) != 1 || fences[0] == 0 {
			c.Errorf("got the fences %v of the leader", fences)
		}
	})
	c.Run(t, "HA-11 a renewal that conflicts again and again is not repeated without a pause", func(c *C) {
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
				if req.Method == http.MethodGet {
					return base.RoundTrip(req)
				}
				return Answer(http.StatusConflict, "Conflict", "the quota was updated by another one"), nil
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

var _ = Suite("leader_election_unserved", func(t *testing.T, c *C) {
	c.Run(t, "HA-21 a loss while the end of an object of a namespace that is gone is reported does not end the process", func(c *C) {
		c.OnlyInBubble("a panic ends the process")
		began := make(chan struct{}, 1)
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Deleted {
				began <- struct{}{}
				<-ctx.Done()
			}
			return nil
		}, &kopf.EventOptions{ID: "event"})
		a := c.Replica(r, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, "team-*"} })
		c.leads(a)
		c.Of("v1", "Namespace").Create("team-a", nil)
		c.Pass(time.Second)
		y := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "y", "namespace": "team-a"}}
		if err := c.Client.Create(c.Context(), y, nil); err != nil {
			c.Fatal(err)
		}
		c.Pass(time.Second)
		c.Of("v1", "Namespace").Delete("team-a") // it contains the object
		<-began
		c.Pass(30 * time.Second)
		c.intrude(1)
		c.loses(a, 1)
		c.leadsAgain(a, 2)
	})
})
