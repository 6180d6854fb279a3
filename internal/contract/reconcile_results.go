package contract

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how reconcile handlers store results, in 9-defects.md.

var _ = Suite("reconcile_results", func(t *testing.T, c *C) {
	for _, kind := range []struct {
		name     string
		selector kopf.Selector
	}{{"KopfExample", Examples}, {"KopfStatusExample", statusExamples}} {
		c.Run(t, "DF-91 a result is stored under the id of the handler, and once while it is the same: "+kind.name, func(c *C) {
			var n atomic.Int32
			r := &kopf.Registry{}
			r.OnReconcile(kind.selector, func(_ context.Context, r *kopf.Reconcile) error {
				n.Add(1)
				r.RequeueAfter(time.Second)
				r.SetResult(map[string]any{"size": r.Spec().Int("size")})
				return nil
			}, &kopf.ReconcileOptions{ID: "size"})
			op := c.Operator(r)
			k := c.Of("kopf.dev/v1", kind.name)
			k.Create("a", spec(map[string]any{"size": 1}))
			c.WaitFor("three calls", func() bool { return n.Load() >= 3 })
			if got := writes(op); len(got) != 1 || k.Get("a").Status().Int("size.size") != 1 {
				c.Errorf("got the writes %v, and the status %v", got, k.Get("a").Status().Map())
			}
			k.Patch("a", spec(map[string]any{"size": 2}))
			c.WaitFor("the second result", func() bool { return k.Get("a").Status().Int("size.size") == 2 })
		})
	}
	c.Run(t, "DF-91 a failed call stores no result, and a result that is not JSON is a failure", func(c *C) {
		var fail atomic.Bool
		fail.Store(true)
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.SetResult("done")
			if fail.Load() {
				return errors.New("not yet")
			}
			return nil
		}, &kopf.ReconcileOptions{ID: "first"})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.SetResult(make(chan int))
			return nil
		}, &kopf.ReconcileOptions{ID: "second"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the failures", func() bool {
			return len(op.Logs.Find("failed with an exception")) > 0 && len(op.Logs.Find("failed permanently")) == 1
		})
		if status := c.Get("a").Status().Map(); len(status) > 0 {
			c.Errorf("the status is %v", status)
		}
		fail.Store(false)
		c.WaitFor("the result", func() bool { return c.Get("a").Status().String("first") == "done" })
		if c.Get("a").Status().Has("second") {
			c.Errorf("the status is %v", c.Get("a").Status().Map())
		}
	})
	c.Run(t, "DF-91 a function literal needs an id for its result", func(c *C) {
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.SetResult("done")
			return nil
		}, nil)
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the failure", func() bool { return len(op.Logs.Find("give the handler an ID")) == 1 })
		if status := c.Get("a").Status().Map(); len(status) > 0 {
			c.Errorf("the status is %v", status)
		}
	})
})
