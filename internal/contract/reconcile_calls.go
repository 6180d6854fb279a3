package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves what triggers reconcile handlers, and when.

// reconciles records the calls of a reconcile handler, as the name of the object with the reasons.
type reconciles struct {
	calls
	fail atomic.Pointer[error]
}

func (l *reconciles) call(_ context.Context, r *kopf.Reconcile) error {
	var reasons []string
	for _, t := range r.Triggers {
		reasons = append(reasons, string(t.Reason))
	}
	l.add("%s %s", r.Name(), strings.Join(reasons, "+"))
	if err := l.fail.Load(); err != nil {
		return *err
	}
	return nil
}

func (l *reconciles) failWith(err error) {
	if err == nil {
		l.fail.Store(nil)
		return
	}
	l.fail.Store(&err)
}

// Reconciled starts an operator with one reconcile handler.
func (c *C) Reconciled(l *reconciles, opts *kopf.ReconcileOptions, adjust ...func(*kopf.Operator)) *Running {
	c.Helper()
	r := &kopf.Registry{}
	r.OnReconcile(Examples, l.call, opts)
	return c.Operator(r, adjust...)
}

// writes returns the writing requests of an operator, as method and path, without those for Leases and events.
func writes(op *Running) (all []string) {
	for _, q := range op.Wire.Writes() {
		all = append(all, q.Method+" "+q.Path)
	}
	return all
}

var _ = Suite("reconcile_calls", func(t *testing.T, c *C) {
	c.Run(t, "RC-1 several handlers are called in the order of registration, one at a time for an object", func(c *C) {
		var l calls
		var running atomic.Int32
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"one", "two", "three"} {
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				if running.Add(1) > 1 {
					l.add("two at a time")
				}
				time.Sleep(100 * time.Millisecond)
				running.Add(-1)
				l.add("%s %s", id, r.Name())
				return nil
			}, &kopf.ReconcileOptions{ID: id})
		}
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(2 * time.Second)
		c.expect(&l, "one a", "two a", "three a")
	})
	c.Run(t, "RC-2 for a handler that changes nothing, nothing is written and no object is read", func(c *C) {
		var l reconciles
		c.Create("a", nil)
		op := c.Reconciled(&l, nil)
		c.Create("b", nil)
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.Pass(2 * time.Second)
		if got := writes(op); len(got) > 0 {
			c.Errorf("got the writes %v, want none", got)
		}
		for _, q := range op.Wire.Requests() {
			if strings.HasSuffix(q.Path, "/a") || strings.HasSuffix(q.Path, "/b") {
				c.Errorf("the object was read: %s %s", q.Method, q.Path)
			}
		}
		if body := c.Get("a"); len(body.Annotations()) > 0 || len(body.Finalizers()) > 0 {
			c.Errorf("the object has %v and %v", body.Annotations(), body.Finalizers())
		}
	})
	c.Run(t, "RC-3 each start calls each object once, also under another id", func(c *C) {
		var l reconciles
		c.Create("a", nil)
		op := c.Reconciled(&l, &kopf.ReconcileOptions{ID: "before"})
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		op.Stop()
		c.Reconciled(&l, &kopf.ReconcileOptions{ID: "after"})
		c.Pass(2 * time.Second)
		c.expect(&l.calls, "a First", "a First")
	})
	c.Run(t, "RC-4 it is not called for an object that is being deleted", func(c *C) {
		var l reconciles
		c.Reconciled(&l, nil)
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Delete("a")
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.Pass(2 * time.Second)
		c.expect(&l.calls, "a First")
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	})
	c.Run(t, "RC-5 options that cannot be are a panic at the registration", func(c *C) {
		for want, opts := range map[string]kopf.ReconcileOptions{
			"invalid option Resync -1s":                       {Resync: -time.Second},
			"invalid option Debounce -1s":                     {Debounce: -time.Second},
			"invalid option Timeout -1s":                      {Timeout: -time.Second},
			"invalid option MaxBackoff 1s":                    {Backoff: 2 * time.Second, MaxBackoff: time.Second},
			`the selector "secrets" is there twice`:           {Owns: []kopf.Selector{"secrets", "secrets"}},
			`invalid selector "*" in the option Owns`:         {Owns: []kopf.Selector{kopf.Everything}},
			`invalid selector "category:all" in the option W`: {Watches: []kopf.Watch{{Of: kopf.Category("all")}}},
			`invalid path "" in the option Fields`:            {Fields: []kopf.FieldPath{""}},
			`the field "metadata" as a whole changes`:         {Fields: []kopf.FieldPath{"status.x", "metadata"}},
			`the field "metadata.resourceVersion" changes`:    {Fields: []kopf.FieldPath{"metadata.resourceVersion"}},
			"invalid option Sources":                          {Sources: []*kopf.Source{nil}},
		} {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); !strings.Contains(got, want) || !strings.Contains(got, "reconcile_calls.go:") {
						c.Errorf("got the panic %s, want %q with the line", got, want)
					}
				}()
				new(kopf.Registry).OnReconcile(Examples, (&reconciles{}).call, &opts)
			}()
		}
	})
	c.Run(t, "RC-6 the patch is sent after a failed call, too, and one that changes nothing is not", func(c *C) {
		r := &kopf.Registry{}
		var n atomic.Int32
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.Patch.Set("status.phase", "Failing")
			n.Add(1)
			return errors.New("not yet")
		}, nil)
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the status", func() bool { return c.Get("a").Status().String("phase") == "Failing" })
		c.WaitFor("three calls", func() bool { return n.Load() == 3 })
		c.Pass(500 * time.Millisecond)
		if got := writes(op); len(got) != 1 {
			c.Errorf("got the writes %v, want one", got)
		}
	})
	c.Run(t, "RC-7 it is called for what is listed and for what is created", func(c *C) {
		var l reconciles
		c.Create("a", nil)
		c.Reconciled(&l, nil)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Create("b", nil)
		c.Pass(2 * time.Second)
		c.expect(&l.calls, "a First", "b First")
	})
	c.Run(t, "RC-8 changes of the essence call it, others do not", func(c *C) {
		var l reconciles
		c.Create("a", nil)
		c.Reconciled(&l, nil)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Patch("a", map[string]any{"status": map[string]any{"phase": "x"}})
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/other": "x"}}})
		c.Pass(2 * time.Second)
		c.expect(&l.calls, "a First")
		c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}})
		c.WaitFor("the second call", func() bool { return len(l.all()) == 2 })
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.WaitFor("the third call", func() bool { return len(l.all()) == 3 })
		c.expect(&l.calls, "a First", "a Changed", "a Changed")
	})
	c.Run(t, "RC-8 Fields add what counts", func(c *C) {
		var l reconciles
		c.Create("a", nil)
		c.Reconciled(&l, &kopf.ReconcileOptions{Fields: []kopf.FieldPath{"status.phase"}})
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Patch("a", map[string]any{"status": map[string]any{"other": "x"}})
		c.Pass(2 * time.Second)
		c.Patch("a", map[string]any{"status": map[string]any{"phase": "x"}})
		c.WaitFor("the second call", func() bool { return len(l.all()) == 2 })
		c.expect(&l.calls, "a First", "a Changed")
	})
	c.Run(t, "RC-9 a filter that begins to match calls it, one that ends does not", func(c *C) {
		var l reconciles
		c.Create("a", nil)
		c.Reconciled(&l, &kopf.ReconcileOptions{Labels: kopf.Match{"on": kopf.Present}})
		label := func(value any) {
			c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"on": value}}})
			c.Pass(2 * time.Second)
		}
		c.Pass(2 * time.Second)
		c.expect(&l.calls)
		label("yes")
		c.expect(&l.calls, "a First")
		label(nil)
		c.expect(&l.calls, "a First")
		label("yes")
		c.expect(&l.calls, "a First", "a First")
	})
	c.Run(t, "RC-11 the own patch of the object calls nobody, a change in between does", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			n := len(l.all())
			l.add("%s %d", r.Name(), r.Spec().Int("size"))
			r.Patch.Set("spec.own", n)
			r.Patch.Set("status.calls", n+1)
			if n == 0 { // this change arrives before the patch of the call
				c.Patch("a", spec(map[string]any{"size": 2}))
			}
			if n == 1 {
				r.Patch.Clear()
			}
			return nil
		}, nil)
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(2 * time.Second)
		c.expect(&l, "a 0", "a 2")
	})
	c.Run(t, "RC-15 RequeueAfter calls once more, the shortest counts, and the next call forgets it", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", time.Since(began).Round(time.Second))
			if len(l.all()) == 1 {
				r.RequeueAfter(time.Minute)
				r.RequeueAfter(10 * time.Second)
			} else if len(l.all()) == 2 {
				r.RequeueAfter(time.Minute)
				return kopf.Temporary(errors.New("x"), time.Hour)
			}
			return nil
		}, nil)
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(3 * time.Hour)
		c.expect(&l, "0s", "10s", "1m10s")
	})
	c.Run(t, "RC-15 a time that has passed calls once a second, and not without a pause", func(c *C) {
		c.OnlyInBubble("the times are exact")
		for _, after := range []time.Duration{-time.Hour, 0, time.Second} {
			var l calls
			began := time.Now()
			r := &kopf.Registry{}
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				if l.add("%s", time.Since(began)); len(l.all()) < 4 {
					r.RequeueAfter(after)
				}
				return nil
			}, nil)
			op := c.Operator(r)
			c.Create("a", nil)
			c.Pass(time.Minute)
			c.expect(&l, "0s", "1s", "2s", "3s")
			c.Delete("a")
			op.Stop()
		}
	})
	c.Run(t, "RC-15 its time holds when the handler has changed the object in short succession", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		began := time.Now()
		source := &kopf.Source{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", time.Since(began).Round(time.Second))
			r.Patch.Set("status.calls", len(l.all()))
			r.RequeueAfter(time.Minute)
			return nil
		}, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}})
		c.Operator(r)
		c.Create("a", nil)
		for range 3 {
			c.Pass(2 * time.Second)
			source.TriggerAll()
		}
		c.Pass(2 * time.Minute)
		c.expect(&l, "0s", "2s", "4s", "6s", "1m6s", "2m6s")
	})
	c.Run(t, "RC-16 Resync counts from the last success, with some jitter, and zero is never", func(c *C) {
		c.OnlyInBubble("the times are long")
		var l, never reconciles
		c.Create("a", nil)
		c.Reconciled(&never, nil)
		c.Reconciled(&l, &kopf.ReconcileOptions{Resync: time.Hour})
		c.Pass(65 * time.Minute)
		c.Pass(2 * time.Minute)
		c.expect(&l.calls, "a First", "a Resync")
		c.expect(&never.calls, "a First")
	})
	c.Run(t, "RC-17 a Source calls it for one object, or for all, and never before the start", func(c *C) {
		var l reconciles
		source := &kopf.Source{}
		source.TriggerAll()
		c.Create("a", nil)
		c.Create("b", nil)
		op := c.Reconciled(&l, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}})
		c.WaitFor("the first calls", func() bool { return len(l.all()) == 2 })
		source.Trigger(c.Get("a").Reference())
		c.WaitFor("the call", func() bool { return l.count("a Source") == 1 })
		source.Trigger(kopf.ObjectReference{Namespace: c.Namespace, Name: "none"})
		source.TriggerAll()
		c.WaitFor("the calls", func() bool { return l.count("a Source") == 2 && l.count("b Source") == 1 })
		op.Stop()
		source.TriggerAll()
		c.Pass(time.Second)
		if n := len(l.all()); n != 5 {
			c.Errorf("got %d calls, want 5", n)
		}
	})
	c.Run(t, "RC-20 what comes during a call makes one more call, with all reasons", func(c *C) {
		var l reconciles
		source := &kopf.Source{}
		door := newDoorway()
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(ctx context.Context, r *kopf.Reconcile) error {
			err := l.call(ctx, r)
			door.pass(ctx)
			return err
		}, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}})
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.Patch("a", spec(map[string]any{"size": 3}))
		source.TriggerAll()
		source.TriggerAll()
		c.Pass(time.Second)
		door.let()
		c.WaitFor("the second call", func() bool { return len(l.all()) == 2 })
		c.Pass(2 * time.Second)
		got := l.all()
		if len(got) != 2 || !strings.Contains(got[1], "Changed") || !strings.Contains(got[1], "Source") {
			c.Errorf("got the calls %v, want one more with both reasons", got)
		}
	})
	c.Run(t, "RC-21 the handlers of changes go first, and it sees their patch", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("reconcile %s", r.Status().String("phase"))
			return nil
		}, nil)
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			ch.Patch.Set("status.phase", "Created")
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(2 * time.Second)
		c.expect(&l, "create", "reconcile Created")
	})
	c.Run(t, "RC-23 Debounce waits until nothing comes, and at most ten times as long", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", time.Since(began).Round(time.Second))
			return nil
		}, &kopf.ReconcileOptions{Debounce: 10 * time.Second})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(5 * time.Second)
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.Pass(time.Minute)
		c.expect(&l, "15s")
		c.Pass(35 * time.Second) // 100 s
		for n := range 30 {
			c.Patch("a", spec(map[string]any{"size": 100 + n}))
			c.Pass(5 * time.Second)
		}
		if got := l.all(); len(got) < 2 || got[1] != "3m20s" {
			c.Errorf("got the calls %v, want the second one after 3m20s", got)
		}
	})
	c.Run(t, "RC-24 the deletion of the object ends the context, with the cause ErrSuperseded", func(c *C) {
		var cause atomic.Pointer[error]
		var n atomic.Int32
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(ctx context.Context, r *kopf.Reconcile) error {
			n.Add(1)
			<-ctx.Done()
			err := context.Cause(ctx)
			cause.Store(&err)
			return err
		}, nil)
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the call", func() bool { return n.Load() == 1 })
		c.Delete("a")
		c.WaitFor("the end of the call", func() bool { return cause.Load() != nil })
		if !errors.Is(*cause.Load(), kopf.ErrSuperseded) {
			c.Errorf("got the cause %v", *cause.Load())
		}
		c.Pass(2 * time.Second)
		if n.Load() != 1 {
			c.Errorf("got %d calls", n.Load())
		}
	})
	c.Run(t, "RC-25 in a pause no call starts, and afterwards all are called once", func(c *C) {
		c.OnlyInBubble("peers are waited for")
		var l reconciles
		table := c.meet()
		c.Create("a", nil)
		c.Create("b", nil)
		source := &kopf.Source{}
		op := c.Reconciled(&l, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}})
		c.WaitFor("the first calls", func() bool { return len(l.all()) == 2 })
		table.sit("boss", rival(100, 60))
		c.paused(op, 1)
		c.Pass(5 * time.Second)
		c.Patch("a", spec(map[string]any{"size": 5}))
		source.TriggerAll()
		c.Pass(20 * time.Second)
		if n := len(l.all()); n != 2 {
			c.Errorf("got the calls %v in the pause", l.all())
		}
		c.Pass(2 * time.Minute)
		got := l.all()[2:]
		slices.Sort(got)
		c.same("the calls after the pause", []string{"a First+Source", "b First+Source"}, got)
	})
	c.Run(t, "RC-25 a standby calls nothing, and the next leader calls all once", func(c *C) {
		c.OnlyInBubble("the times of the Lease")
		var l reconciles
		replica := func() *Running {
			r := &kopf.Registry{}
			r.OnReconcile(Examples, l.call, nil)
			return c.Replica(r)
		}
		c.Create("a", nil)
		a := replica()
		c.leads(a)
		replica()
		c.Create("b", nil)
		c.Pass(10 * time.Second)
		if n := len(l.all()); n != 2 {
			c.Errorf("got the calls %v, want two", l.all())
		}
		a.Stop()
		c.Pass(20 * time.Second)
		got := l.all()[2:]
		slices.Sort(got)
		c.same("the calls of the next leader", []string{"a First", "b First"}, got)
	})
	c.Run(t, "RC-26 errors call again after growing pauses, temporary ones after theirs", func(c *C) {
		c.OnlyInBubble("the times are long")
		var l reconciles
		l.failWith(errors.New("broken"))
		c.Create("a", nil)
		c.Reconciled(&l, nil)
		c.Pass(10 * time.Minute) // 1+2+4+8+16+32 s and then every minute, ±20 %
		if n := len(l.all()); n < 12 || n > 19 {
			c.Errorf("got %d calls in ten minutes, want about 15: %v", n, l.all())
		}
		n := len(l.all())
		l.failWith(kopf.Temporary(errors.New("later"), time.Hour))
		c.Pass(5 * time.Hour)
		if n := len(l.all()) - n; n < 4 || n > 6 {
			c.Errorf("got %d calls in five hours, want about 5", n)
		}
	})
	c.Run(t, "RC-26 a permanent error waits for a change or a Source, and not for Resync", func(c *C) {
		c.OnlyInBubble("the times are long")
		var l reconciles
		source := &kopf.Source{}
		l.failWith(kopf.Permanent(errors.New("never")))
		c.Create("a", nil)
		c.Reconciled(&l, &kopf.ReconcileOptions{Resync: time.Minute, Sources: []*kopf.Source{source}})
		c.Pass(time.Hour)
		c.expect(&l.calls, "a First")
		source.TriggerAll()
		c.Pass(time.Hour)
		c.expect(&l.calls, "a First", "a Source")
		l.failWith(nil)
		c.Patch("a", spec(map[string]any{"size": 3}))
		c.Pass(90 * time.Second)
		c.expect(&l.calls, "a First", "a Source", "a Changed", "a Resync")
	})
	c.Run(t, "RC-27 a success forgets the failures", func(c *C) {
		c.OnlyInBubble("the times are long")
		var l calls
		var ok atomic.Bool
		r := &kopf.Registry{}
		source := &kopf.Source{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%d", r.Retry)
			if ok.Load() {
				return nil
			}
			return errors.New("broken")
		}, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}})
		c.Create("a", nil)
		c.Operator(r)
		c.Pass(5 * time.Second)
		ok.Store(true)
		c.Pass(time.Minute)
		ok.Store(false)
		source.TriggerAll()
		c.Pass(200 * time.Millisecond)
		got := l.all()
		if got[len(got)-1] != "0" || len(got) < 4 {
			c.Errorf("got the retries %v, want the last one to be 0", got)
		}
	})
	c.Run(t, "RC-28 a change calls at once in spite of the pause, and begins the pauses anew", func(c *C) {
		c.OnlyInBubble("the times are long")
		var l reconciles
		l.failWith(kopf.Temporary(errors.New("later"), time.Hour))
		c.Create("a", nil)
		c.Reconciled(&l, nil)
		c.Pass(time.Minute)
		c.Patch("a", spec(map[string]any{"size": 3}))
		c.Pass(time.Second)
		c.expect(&l.calls, "a First", "a Changed")
	})
	c.Run(t, "RC-28 a trigger in the pause calls at once and moves nothing, and many of them wait as well", func(c *C) {
		c.OnlyInBubble("the times are long")
		var l calls
		began := time.Now()
		source := &kopf.Source{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s %d", time.Since(began).Round(time.Second), r.Retry)
			return kopf.Temporary(errors.New("later"), time.Hour)
		}, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}})
		c.Create("a", nil)
		c.Operator(r)
		c.Pass(10 * time.Minute)
		source.TriggerAll()
		c.Pass(59 * time.Minute)
		c.expect(&l, "0s 0", "10m0s 1", "1h0m0s 1")
		for range 600 {
			source.TriggerAll()
			c.Pass(time.Second)
		}
		if n := len(l.all()); n > 40 {
			c.Errorf("got %d calls for a trigger each second over ten minutes", n)
		}
	})
	c.Run(t, "RC-29 a handler that fails for all objects is called at most once for an object and MaxBackoff", func(c *C) {
		c.OnlyInBubble("the times are long")
		var l reconciles
		l.failWith(errors.New("broken"))
		c.createMany(200)
		op := c.Reconciled(&l, nil)
		c.Pass(10 * time.Minute)
		before := len(l.all())
		c.Pass(10 * time.Minute)
		if n := len(l.all()) - before; n < 1500 || n > 2600 {
			c.Errorf("got %d calls for 200 objects in ten minutes, want about 2000", n)
		}
		if got := writes(op); len(got) > 0 {
			c.Errorf("got the writes %v", got)
		}
	})
	c.Run(t, "RC-30 a panic is an error with its stack, and a Timeout ends the context", func(c *C) {
		var n atomic.Int32
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(ctx context.Context, r *kopf.Reconcile) error {
			switch n.Add(1) {
			case 1:
				panic("oops")
			case 2:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, &kopf.ReconcileOptions{Timeout: time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("three calls", func() bool { return n.Load() == 3 })
		if lines := op.Logs.Find("failed with an exception"); len(lines) == 0 || !strings.Contains(fmt.Sprint(lines[0].Attrs), "oops") {
			c.Errorf("the panic was not logged with its stack: %v", lines)
		}
	})
	c.Run(t, "RC-34 after a restart over many objects, a change is handled at once, and the others are not starved", func(c *C) {
		c.OnlyInBubble("thousands of objects")
		objects := proof.Rounds(2_000, 10_000)
		c.createMany(objects)
		run := func(changes bool) (last, worst time.Duration) {
			var mu sync.Mutex
			pending, waits, began := map[string]time.Time{}, []time.Duration{}, time.Now()
			n := 0
			done := make(chan struct{})
			r := &kopf.Registry{}
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				mu.Lock()
				if at, ok := pending[r.Name()]; ok {
					waits = append(waits, time.Since(at))
					delete(pending, r.Name())
				}
				if slices.ContainsFunc(r.Triggers, func(t kopf.Trigger) bool { return t.Reason == kopf.TriggerFirst }) {
					if n++; n == objects {
						close(done)
					}
				}
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				return nil
			}, nil)
			op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 10 })
			defer op.Stop()
			names := c.List()
			for i := 0; changes; i++ {
				select {
				case <-done:
					changes = false
					continue
				case <-time.After(50 * time.Millisecond):
				}
				name := names[(i*37)%objects].Name()
				mu.Lock()
				pending[name] = time.Now()
				mu.Unlock()
				c.Patch(name, spec(map[string]any{"n": i}))
			}
			<-done
			last = time.Since(began)
			c.Pass(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if len(pending) > 0 {
				c.Errorf("%d changes were not handled", len(pending))
			}
			for _, w := range waits {
				worst = max(worst, w)
			}
			return last, worst
		}
		alone, _ := run(false)
		with, worst := run(true)
		if worst > 100*time.Millisecond {
			c.Errorf("a change has waited for %s", worst)
		}
		if with > alone*13/10 {
			c.Errorf("the last object was called after %s, and after %s without changes", with, alone)
		}
	})
	for reason, due := range map[string]func(c *C, woken *kopf.Source){
		"a change of the object": func(c *C, _ *kopf.Source) { c.Patch("x", spec(map[string]any{"n": 1})) },
		"a change of a child": func(c *C, _ *kopf.Source) {
			c.configMaps().Patch("x", map[string]any{"data": map[string]any{"n": "theirs"}})
		},
		"a watch that names the object": func(c *C, _ *kopf.Source) { c.Of("v1", "ServiceAccount").Create("x", nil) },
		"a source":                      func(c *C, woken *kopf.Source) { woken.Trigger(c.Get("x").Reference()) },
		"RequeueAfter":                  func(c *C, _ *kopf.Source) { c.Pass(time.Minute) },
		"a retry of those":              func(c *C, _ *kopf.Source) { c.Pass(time.Minute) },
	} {
		c.Run(t, "RC-31 what is due by "+reason+" goes before what is due by a watch of all", func(c *C) {
			c.OnlyInBubble("the calls are counted")
			c.urgent(reason, due)
		})
	}
	c.Run(t, "RC-32 every fifth turn is a routine one", func(c *C) {
		c.OnlyInBubble("the calls are counted")
		var mu sync.Mutex
		var order []bool
		source, busy := &kopf.Source{}, newDoorway()
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(ctx context.Context, r *kopf.Reconcile) error {
			if r.Name() == "first" && len(r.Triggers) > 0 && r.Triggers[0].Reason == kopf.TriggerSource {
				busy.pass(ctx)
				return nil
			}
			for _, t := range r.Triggers {
				if r.Name() == "first" {
					break
				}
				if t.Reason == kopf.TriggerWatched || t.Reason == kopf.TriggerChanged {
					mu.Lock()
					order = append(order, t.Reason == kopf.TriggerChanged)
					mu.Unlock()
					break
				}
			}
			return nil
		}, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}, Watches: []kopf.Watch{{Of: "configmaps"}}})
		c.Create("first", nil)
		for i := range 40 {
			c.Create(fmt.Sprintf("a%02d", i), nil)
		}
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 1 })
		c.Pass(5 * time.Second)
		source.Trigger(c.Get("first").Reference())
		c.Pass(time.Second)
		c.configMaps().Create("x", nil) // it makes all due
		c.Pass(time.Second)
		for i := range 20 {
			c.Patch(fmt.Sprintf("a%02d", i), spec(map[string]any{"n": 1})) // makes some due with a priority, which moves them to the front
		}
		c.Pass(time.Second)
		busy.let()
		c.Pass(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 40 {
			c.Fatalf("got %d calls, want 40", len(order))
		}
		urgent := 0
		for _, is := range order[:25] {
			if is {
				urgent++
			}
		}
		if urgent < 19 || urgent > 21 {
			c.Errorf("%d of the first 25 calls were for changes, want 20: %v", urgent, order)
		}
	})
	c.Run(t, "RC-6 a patch that is refused is told, and the handler is called again for changes alone", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("call")
			r.Patch.Set("status.phase", "x")
			return nil
		}, nil)
		op := c.Operator(r)
		var refused atomic.Int32
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && refused.Add(1) == 1 {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the status", func() bool { return c.Get("a").Status().String("phase") == "x" })
		c.Pass(2 * time.Second)
		c.expect(&l, "call")
	})
})

// urgent makes an object due for a reason while a worker is busy and many objects wait. It expects that the object is handled before those.
func (c *C) urgent(reason string, due func(c *C, woken *kopf.Source)) {
	source, woken, busy, order := &kopf.Source{}, &kopf.Source{}, newDoorway(), &calls{}
	r := &kopf.Registry{}
	r.OnReconcile(Examples, func(ctx context.Context, r *kopf.Reconcile) error {
		switch n := r.Spec().Int("n"); {
		case r.Name() == "first" && len(r.Triggers) > 0 && r.Triggers[0].Reason == kopf.TriggerSource:
			busy.pass(ctx)
		case r.Name() == "x":
			r.Desired(desiredMap("x", map[string]any{"n": "ours"}), nil)
			if n == 2 && reason == "RequeueAfter" {
				r.RequeueAfter(20 * time.Second)
			} else if n == 2 && r.Retry == 0 {
				order.add("x")
				return kopf.Temporary(errors.New("not now"), 20*time.Second)
			}
		}
		order.add("%s", r.Name())
		return nil
	}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}, Sources: []*kopf.Source{source, woken}, Watches: []kopf.Watch{
		{Of: "secrets"},
		{Of: "serviceaccounts", Objects: func(*kopf.Watched) []kopf.ObjectReference { return []kopf.ObjectReference{c.Ref("x")} }},
	}})
	for i := range 60 {
		c.Create(fmt.Sprintf("a%02d", i), nil)
	}
	c.Create("first", nil)
	c.Create("x", nil)
	c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 1 })
	c.Pass(5 * time.Second)
	if reason == "RequeueAfter" || reason == "a retry of those" {
		c.Patch("x", spec(map[string]any{"n": 2}))
		c.Pass(5 * time.Second)
	}
	source.Trigger(c.Get("first").Reference())
	c.Pass(time.Second)
	c.Of("v1", "Secret").Create("all", nil) // it makes all due
	c.Pass(time.Second)
	due(c, woken)
	c.Pass(time.Second)
	before := len(order.all())
	busy.let()
	c.Pass(5 * time.Second)
	if got := order.all()[before:]; slices.Index(got, "x") > 2 || !slices.Contains(got, "x") {
		c.Errorf("got the calls %v, want one of x among the first", got)
	}
}
