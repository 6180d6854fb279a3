package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that no change of a large object is lost for a handler that has finished, and none is handled twice.

var _ = Suite("change_large_objects", func(t *testing.T, c *C) {
	gadgets := func(c *C) kopf.Selector { return kopf.Selector("gadgets.v1." + c.Unique("leaf") + ".dev") }
	both := func(c *C) {
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
	}
	for _, failing := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("a sub-handler that has finished for a digest is called again, though another handler is first, failing=%t", failing), func(c *C) {
			c.OnlyInBubble("it takes hours")
			padded := func(x int, letter string, size int) map[string]any {
				return spec(map[string]any{"x": x, "pad": strings.Repeat(letter, size)})
			}
			var l calls
			var fails atomic.Bool
			delay := time.Hour
			registry := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
					l.add("top %d", ch.New.Int("spec.x"))
					return nil
				}, named("top"))
				r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
					l.add("parent %d", ch.New.Int("spec.x"))
					if fails.CompareAndSwap(true, false) {
						return kopf.Temporary(errOops, time.Minute)
					}
					ch.Subhandler("quick", func(ctx context.Context, sub *kopf.Change) error {
						l.add("quick %d", sub.New.Int("spec.x"))
						return nil
					}, nil)
					ch.Subhandler("slow", func(ctx context.Context, sub *kopf.Change) error {
						l.add("slow %d", sub.New.Int("spec.x"))
						if delay > 0 {
							return kopf.Temporary(errOops, delay)
						}
						return nil
					}, nil)
					return nil
				}, named("parent"))
				return r
			}
			c.Create("a", handledByOriginal(encoded(padded(1, "p", 140<<10)), padded(2, "q", 140<<10)))
			op := c.Operator(registry())
			c.Pass(time.Minute)
			op.Crash()
			delay = 0
			c.Patch("a", sized(3))
			fails.Store(failing)
			c.Operator(registry())
			c.Pass(24 * time.Hour)
			if l.count("quick 3") != 1 {
				c.Errorf("the calls are %q, want one of quick for 3", l.all())
			}
		})
	}
	c.Run(t, "an object that is too large is not handled again because its version was not served", func(c *C) {
		c.OnlyInBubble("it takes hours")
		both(c)
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(gadgets(c), func(context.Context, *kopf.Change) error { l.add("create"); return nil }, named("create"))
		c.Operator(r)
		c.gadget().Create("a", spec(map[string]any{"pad": strings.Repeat("p", 270<<10)}))
		c.Pass(time.Minute)
		n := l.count("create")
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(2 * time.Hour)
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(time.Hour)
		if n != 1 || l.count("create") != 1 {
			c.Errorf("the calls are %q", l.all())
		}
	})
	c.Run(t, "what the finished handlers of a large object have seen is not lost when its version was not served", func(c *C) {
		c.OnlyInBubble("it takes hours")
		both(c)
		padded := func(x int, letter string, size int) map[string]any {
			return spec(map[string]any{"x": x, "pad": strings.Repeat(letter, size)})
		}
		var l calls
		delay := 6 * time.Hour
		r := &kopf.Registry{}
		r.OnUpdate(gadgets(c), func(_ context.Context, ch *kopf.Change) error {
			l.add("quick %v->%v", ch.Old.Get("spec.x"), ch.New.Get("spec.x"))
			return nil
		}, named("quick"))
		r.OnUpdate(gadgets(c), func(_ context.Context, ch *kopf.Change) error {
			l.add("slow %v->%v", ch.Old.Get("spec.x"), ch.New.Get("spec.x"))
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, delay)
			}
			return nil
		}, named("slow"))
		c.Operator(r)
		c.Pass(time.Minute)
		c.gadget().Create("a", handledByOriginal(encoded(padded(1, "p", 140<<10)), padded(2, "q", 140<<10)))
		c.Pass(time.Minute)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(time.Hour)
		c.Of(c.Unique("leaf")+".dev/v2", "Gadget").Patch("a", sized(3))
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(24 * time.Hour)
		c.same("the calls", []string{"quick 1->2", "slow 1->2", "slow 1->3", "quick 2->3", "slow 2->3", "slow 2->3"}, l.all())
	})
	for _, room := range []int{600, 700, 1000} {
		c.Run(t, fmt.Sprintf("a change is not lost for a finished handler while its version is not served, room for %d bytes", room), func(c *C) {
			c.OnlyInBubble("it takes hours")
			both(c)
			var l calls
			r := &kopf.Registry{}
			r.OnUpdate(gadgets(c), func(_ context.Context, ch *kopf.Change) error {
				l.add("quick %v->%v", ch.Old.Get("spec.x"), ch.New.Get("spec.x"))
				return nil
			}, named("quick"))
			r.OnUpdate(gadgets(c), func(_ context.Context, ch *kopf.Change) error {
				l.add("slow %v->%v", ch.Old.Get("spec.x"), ch.New.Get("spec.x"))
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, 6*time.Hour)
				}
				return nil
			}, named("slow"))
			op := c.Operator(r, ignoringFields(kopf.Path("metadata", "annotations", "note")))
			c.Pass(time.Minute)
			c.gadget().Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
				"note": strings.Repeat("n", 262144-room), diffBase: `{"spec":{"x":1}}`}}, "spec": map[string]any{"x": 2}})
			c.Pass(time.Minute)
			_, state := c.gadget().Get("a").Annotation("kopf.zalando.org/handling-state")
			c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
			c.Pass(time.Hour)
			c.Of(c.Unique("leaf")+".dev/v2", "Gadget").Patch("a", sized(3))
			c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
			c.Pass(24 * time.Hour)
			seen := slices.ContainsFunc(l.all(), func(s string) bool { return strings.HasPrefix(s, "quick") && strings.HasSuffix(s, ">3") })
			if !seen && len(op.Logs.Find("too large")) == 0 {
				c.Errorf("state stored: %t, calls %q", state, l.all())
			}
		})
	}
})
