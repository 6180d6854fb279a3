package contract

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

var _ = Suite("attack", func(t *testing.T, c *C) {
	c.Run(t, "A1 names with slashes", func(c *C) {
		for _, name := range []string{"x/status", "..", "a/../b", "x?y", "%2e%2e"} {
			op, _ := c.parenting(func(r *kopf.Reconcile) error {
				r.Desired(desiredMap(name, nil), nil)
				return nil
			}, nil)
			c.Apply("a", nil)
			c.WaitFor("failure", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
			for _, q := range op.Wire.Writes() {
				t.Log(name, q.Method, q.Path, q.Code)
			}
			op.Stop()
		}
	})
	c.Run(t, "A2 kind owns itself", func(c *C) {
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			if r.Name() == "a" {
				r.Desired(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "b"}, "spec": map[string]any{"n": r.Spec().Int("n")}}, nil)
			}
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"kopfexamples"}})
		c.Create("a", nil)
		c.WaitFor("b", func() bool { return c.Exists("b") })
		c.Pass(2 * time.Second)
		n := len(op.Wire.Writes())
		c.Patch("b", spec(map[string]any{"n": 5}))
		c.WaitFor("mend", func() bool { return c.Get("b").Spec().Int("n") == 0 })
		c.Pass(2 * time.Second)
		t.Log(l.all(), n, len(op.Wire.Writes()))
		c.Delete("b")
		c.WaitFor("b", func() bool { return c.Exists("b") })
	})
	c.Run(t, "A3 requeue zero", func(c *C) {
		c.OnlyInBubble("x")
		r := &kopf.Registry{}
		l := &calls{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("x")
			if len(l.all()) > 2000 {
				time.Sleep(time.Second)
				return nil
			}
			r.RequeueAfter(0)
			return nil
		}, nil)
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(10 * time.Second)
		t.Log(len(l.all()))
	})
	c.Run(t, "A4 410 relist while children vanish", func(c *C) {
		c.OnlyInBubble("x")
		op, l := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 3}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-2") })
		c.Pass(time.Second)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if strings.Contains(q.Path, "configmaps") && strings.Contains(q.Path, "watch=true") && !strings.Contains(q.Path, "done") && len(l.all()) == 1 {
				return Answer(http.StatusGone, "Expired", "too old"), nil
			}
			return nil, nil
		})
		op.Wire.Drop()
		c.configMaps().Delete("a-1")
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-1") })
	})
	c.Run(t, "A5 lost and won again", func(c *C) {
		c.OnlyInBubble("x")
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("call")
			r.Desired(desiredMap("x", map[string]any{"t": "ours"}), nil)
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})
		c.Create("a", nil)
		a := c.Replica(r)
		c.leads(a)
		c.WaitFor("child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(5 * time.Second)
		n := len(l.all())
		// lose
		var off bool = true
		a.Wire.Fault(func(q *Request) (*http.Response, error) {
			if off && strings.Contains(q.Path, "/leases") {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "no"), nil
			}
			return nil, nil
		})
		c.Pass(time.Minute)
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"t": "theirs"}})
		c.Pass(time.Minute)
		t.Log(n, len(l.all()), c.configMaps().Get("x").View("data").String("t"))
		off = false
		c.WaitFor("mend", func() bool { return c.configMaps().Get("x").View("data").String("t") == "ours" })
		c.Pass(time.Minute)
		t.Log(len(l.all()))
	})
})
