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

// This suite proves that a finished handler misses no change of a large object, and handles none twice.

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
		c.same("the calls", []string{"quick 1->2", "slow 1->2", "slow 1->3", "quick 2->3"}, l.all())
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
	outgrown(t, c)
})

// outgrown has objects with a state that was too large to store, or with a last-handled configuration that left no space for progress. They have
// become smaller since.
func outgrown(t *testing.T, c *C) {
	large := func(x int, size int, rest map[string]any) map[string]any {
		rest["x"], rest["pad"] = x, strings.Repeat("p", size)
		return spec(rest)
	}
	slow := func(l *calls) kopf.ChangeFunc {
		return func(_ context.Context, ch *kopf.Change) error {
			l.add("slow %d", ch.Spec().Int("x"))
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Hour)
			}
			return nil
		}
	}
	handled := func(c *C, l *calls, want ...string) {
		c.same("the calls", want, l.all())
		if got := c.Get("a").Annotations(); len(got) != 1 || !strings.Contains(got[diffBase], `"x":2`) {
			c.Errorf("there are %d annotations, want the last handled state alone", len(got))
		}
	}
	c.Run(t, "DF-25 the sub-handlers that have seen the large state are not wanted any more", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			for _, item := range ch.Spec().Strings("items") {
				ch.Subhandler(kopf.HandlerID(item), func(_ context.Context, sub *kopf.Change) error {
					l.add("%s %d", item, sub.Spec().Int("x"))
					if item == "slow" {
						return kopf.Temporary(errOops, time.Hour)
					}
					return nil
				}, nil)
			}
			l.add("parent %d", ch.Spec().Int("x"))
			return nil
		}, named("parent"))
		c.Create("a", large(1, 270<<10, map[string]any{"items": []any{"quick", "slow"}}))
		c.Operator(r)
		c.Pass(time.Minute)
		c.Patch("a", large(2, 1, map[string]any{"items": nil}))
		c.Pass(2 * time.Hour)
		handled(c, &l, "parent 1", "quick 1", "slow 1", "parent 2")
	})
	c.Run(t, "DF-25 the object is not for the handler any more that has seen the large state", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { l.add("quick %d", ch.Spec().Int("x")); return nil },
			&kopf.ChangeOptions{ID: "quick", Labels: kopf.Match{"a": "yes"}})
		r.OnCreate(Examples, slow(&l), named("slow"))
		object := large(1, 270<<10, map[string]any{})
		object["metadata"] = map[string]any{"labels": map[string]any{"a": "yes"}}
		c.Create("a", object)
		c.Operator(r)
		c.Pass(time.Minute)
		object = large(2, 1, map[string]any{})
		object["metadata"] = map[string]any{"labels": map[string]any{"a": "no"}}
		c.Patch("a", object)
		c.Pass(2 * time.Hour)
		handled(c, &l, "quick 1", "slow 1", "slow 2")
	})
	c.Run(t, "DF-25 the last handled state leaves no room for the progress", func(c *C) {
		c.NotShort("the objects are large")
		c.OnlyInBubble("it takes hours")
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, slow(&l), named("slow"))
		op := c.Operator(r)
		c.Create("a", large(1, 256<<10-100, map[string]any{}))
		c.Pass(time.Minute)
		c.Patch("a", large(2, 1, map[string]any{}))
		c.Pass(2 * time.Hour)
		handled(c, &l, "slow 2", "slow 2")
		if lines := op.Logs.Find("The progress of the handlers is too large to be stored"); len(lines) != 1 {
			c.Errorf("got the lines %v, want one", lines)
		}
	})
	c.Run(t, "DF-25 the last handled state leaves no room for the progress while handlers run", func(c *C) {
		c.NotShort("the objects are large")
		c.OnlyInBubble("it takes hours")
		var l calls
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"first", "second", "third"} {
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
				l.add("%s %d", id, ch.Spec().Int("x"))
				time.Sleep(time.Hour)
				return nil
			}, named(id))
		}
		c.Operator(r)
		c.Create("a", large(1, 256<<10-100, map[string]any{}))
		c.Pass(time.Minute)
		c.Patch("a", large(2, 1, map[string]any{}))
		c.Pass(5 * time.Hour)
		handled(c, &l, "first 2", "second 2", "third 2")
	})
}
