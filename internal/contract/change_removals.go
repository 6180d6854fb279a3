package contract

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves what removals in a patch change.

var _ = ClusterSuite("change_removals", func(t *testing.T, c *C) {
	removingAbove(t, c)
	removingAll(t, c)
	removingNothing(t, c)
})

// removingAbove proves that removals have an effect although a field below is set later.
func removingAbove(t *testing.T, c *C) {
	remove := func(p *kopf.Patch) { p.Remove("spec.a") }
	set := func(p *kopf.Patch) { p.Set("spec.a.b", "2") }
	for name, handlers := range map[string][]func(*kopf.Patch){
		"by another handler":         {remove, set},
		"by the same handler":        {func(p *kopf.Patch) { remove(p); set(p) }},
		"by a map":                   {remove, func(p *kopf.Patch) { p.Set("spec.a", map[string]any{"b": "2"}) }},
		"by a replacement":           {remove, func(p *kopf.Patch) { p.Replace("spec.a.b", "2") }},
		"by a merge patch":           {func(p *kopf.Patch) { p.Merge(spec(map[string]any{"a": nil})) }, set},
		"below a value that is text": {func(p *kopf.Patch) { p.Set("spec.a", "text") }, set},
		"after another field below":  {func(p *kopf.Patch) { p.Set("spec.a.c", "3") }, func(p *kopf.Patch) { remove(p); set(p) }},
		"below all":                  {func(p *kopf.Patch) { remove(p); p.Set("spec.a.c", "3") }, remove, set},
	} {
		c.Run(t, "DF-38 a field below a removed one is stored without the former fields, set "+name, func(c *C) {
			var seen any
			r := &kopf.Registry{}
			for i, fill := range handlers {
				r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
					seen = ch.Body.Get("spec.a")
					fill(ch.Patch)
					return nil
				}, named(kopf.HandlerID(fmt.Sprintf("h%d", i))))
			}
			c.Operator(r)
			c.Create("a", spec(map[string]any{"a": map[string]any{"old": "1"}, "x": "1"}))
			got := c.handled("a").Spec().Map()
			want := map[string]any{"a": map[string]any{"b": "2"}, "x": "1"}
			if diff := cmp.Diff(want, got); diff != "" {
				c.Errorf("the last handler has seen %v (-want +got)\n%s", seen, diff)
			}
		})
	}
	c.Run(t, "DF-38 a replaced status keeps the fields that other handlers set", func(c *C) {
		r := &kopf.Registry{}
		for i, fill := range []func(*kopf.Patch){
			func(p *kopf.Patch) { p.Remove("status"); p.Set("status.before", "1") },
			func(p *kopf.Patch) { p.Replace("status", map[string]any{"phase": "Ready"}) },
			func(p *kopf.Patch) { p.Set("status.after", "1") },
		} {
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				fill(ch.Patch)
				return nil
			}, named(kopf.HandlerID(fmt.Sprintf("h%d", i))))
		}
		c.Operator(r)
		c.Create("a", map[string]any{"status": map[string]any{"old": "1"}})
		want := map[string]any{"before": "1", "phase": "Ready", "after": "1"}
		if diff := cmp.Diff(want, c.handled("a").Status().Map()); diff != "" {
			c.Errorf("the status: (-want +got)\n%s", diff)
		}
	})
	c.Run(t, "DF-38 a result below a removed status is stored without the former fields", func(c *C) {
		r := &kopf.Registry{}
		r.OnUpdate(statusExamples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Remove("status")
			ch.SetResult("done")
			return nil
		}, named("h"))
		c.Operator(r)
		k := c.Of("kopf.dev/v1", "KopfStatusExample")
		k.Create("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the first state", func() bool { _, ok := k.Get("a").Annotation(diffBase); return ok })
		k.PatchStatus("a", map[string]any{"status": map[string]any{"old": "1"}})
		k.Patch("a", spec(map[string]any{"x": 2}))
		c.WaitFor("the result", func() bool { return k.Get("a").Status().String("h") == "done" })
		if status := k.Get("a").Status(); status.Has("old") {
			c.Errorf("the status is %v", status.Map())
		}
	})
}

// removingAll proves that kopf keeps its own data when a handler removes everything around it.
func removingAll(t *testing.T, c *C) {
	const mine = "example.com/mine"
	annotated := map[string]any{"metadata": map[string]any{"annotations": map[string]any{mine: "yes"}}}
	c.Run(t, "DF-38 a change handler that removes all annotations leaves those of kopf", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			ch.Patch.Remove("metadata.annotations")
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", annotated)
		body := c.handled("a")
		c.Pass(2 * time.Second)
		if v, ok := body.Annotation(mine); ok {
			c.Errorf("the annotation %q is left", v)
		}
		c.expect(&l, "create")
	})
	c.Run(t, "DF-38 an event handler that removes all annotations leaves those of kopf", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { l.add("create"); return nil }, named("create"))
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if _, ok := e.Body.Annotation(mine); ok {
				e.Patch.Remove("metadata.annotations")
			}
			return nil
		}, &kopf.EventOptions{ID: "event"})
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Patch("a", annotated)
		c.WaitFor("the removal", func() bool { _, ok := c.Get("a").Annotation(mine); return !ok })
		c.Pass(2 * time.Second)
		if _, ok := c.Get("a").Annotation(diffBase); !ok {
			c.Errorf("the annotations are %v", c.Get("a").Annotations())
		}
		c.expect(&l, "create")
	})
}

// removingNothing proves that removals of missing fields change nothing.
func removingNothing(t *testing.T, c *C) {
	for name, test := range map[string]struct {
		path kopf.FieldPath
		spec map[string]any
	}{
		"a missing parent":      {"spec.a.b", map[string]any{"x": "1"}},
		"a missing grandparent": {"spec.a.b.c", map[string]any{"x": "1"}},
		"a text as parent":      {"spec.a.b", map[string]any{"a": "precious"}},
		"a list as parent":      {"spec.a.b", map[string]any{"a": []any{"precious"}}},
		"a missing status":      {"status.a.b", map[string]any{"x": "1"}},
		"missing labels":        {"metadata.labels.a", map[string]any{"x": "1"}},
	} {
		c.Run(t, "DF-39 a removal below "+name+" sends nothing", func(c *C) {
			var l calls
			removals := map[kopf.HandlerID]func(*kopf.Patch){
				"remove": func(p *kopf.Patch) { p.Remove(test.path) },
				"nil":    func(p *kopf.Patch) { p.Set(test.path, nil) },
			}
			r := &kopf.Registry{}
			for id, remove := range removals {
				for _, selector := range []kopf.Selector{Examples, statusExamples} {
					r.OnEvent(selector, func(_ context.Context, e *kopf.WatchEvent) error {
						l.add("%s", e.Resource.Plural)
						remove(e.Patch)
						return nil
					}, &kopf.EventOptions{ID: id})
				}
			}
			op := c.Operator(r)
			for _, kind := range []string{"KopfExample", "KopfStatusExample"} {
				k := c.Of("kopf.dev/v1", kind)
				k.Create("a", spec(test.spec))
				c.WaitFor("the calls", func() bool { return len(l.all()) >= len(removals) })
				c.Pass(time.Second)
				body := k.Get("a")
				if diff := cmp.Diff(test.spec, body.Spec().Map()); diff != "" || body.Has("status") {
					c.Errorf("the status is %v, the spec: (-want +got)\n%s", body.Status().Map(), diff)
				}
				l.forget()
			}
			if got := patches(op); len(got) > 0 {
				c.Errorf("got the patches %q, want none", got)
			}
		})
	}
}
