package contract

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the harness works.

var _ = SerialSuite("harness", func(t *testing.T, c *C) {
	c.Run(t, "an object is handled and let go", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.phase", "Ready")
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		registry.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "delete"})
		op := c.Operator(registry)
		c.Create("a", map[string]any{"spec": map[string]any{"size": 1}})
		c.WaitFor("the status", func() bool { return c.Get("a").Status().String("phase") == "Ready" })
		c.Delete("a")
		c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
		op.Stop()
		if len(op.Wire.Writes()) == 0 {
			c.Error("no writes of the operator were seen")
		}
		if len(op.Logs.All()) == 0 {
			c.Error("no log lines of the operator were seen")
		}
	})
	c.Run(t, "an operator crashes and another one goes on", func(c *C) {
		c.OnlyInBubble("the back-off is long")
		handle := func(fails bool) *kopf.Registry {
			registry := &kopf.Registry{}
			registry.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if fails {
					return kopf.Temporary(errors.New("not yet"), time.Hour)
				}
				ch.Patch.Set("status.retry", ch.Retry)
				return nil
			}, &kopf.ChangeOptions{ID: "create"})
			return registry
		}
		first := c.Operator(handle(true))
		c.Create("a", nil)
		c.WaitFor("the first attempt", func() bool { return len(c.Get("a").Annotations()) > 0 })
		first.Crash()
		c.Operator(handle(false))
		began := time.Now()
		c.WaitFor("the second attempt", func() bool { return c.Get("a").Has("status.retry") })
		if passed := time.Since(began); passed < 50*time.Minute || passed > 70*time.Minute {
			c.Errorf("the second attempt came after %s, want 1h", passed)
		}
	})
	c.Run(t, "requests fail and streams break", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.phase", "Ready")
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(registry)
		var refused atomic.Int32
		op.Wire.Fault(func(r *Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && refused.Add(1) == 1 {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the status in spite of the refusal", func() bool { return c.Get("a").Status().String("phase") == "Ready" })
		op.Wire.Drop()
		c.Create("b", nil)
		c.WaitFor("the status in spite of the broken stream", func() bool { return c.Get("b").Status().String("phase") == "Ready" })
		if refused.Load() < 2 {
			c.Error("the refused request was not repeated")
		}
	})
})
