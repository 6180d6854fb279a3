package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
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
	removingBeside(t, c)
	removingByTimers(t, c)
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
	c.Run(t, "DF-38 a replaced status keeps the fields that other handlers set, except those of the new value", func(c *C) {
		r := &kopf.Registry{}
		for i, fill := range []func(*kopf.Patch){
			func(p *kopf.Patch) { p.Remove("status"); p.Set("status.before", "1"); p.Set("status.phase", "1") },
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
		c.Run(t, "DF-39 a removal below "+name+" beside what kopf stores is no conflict", func(c *C) {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				ch.Patch.Remove(test.path)
				return nil
			}, named("create"))
			op := c.Operator(r)
			c.Create("a", spec(test.spec))
			c.handled("a")
			if lines := op.Logs.Find("Fields of a patch have other values"); len(lines) > 0 {
				c.Errorf("got %v", lines)
			}
		})
	}
}

// removingBeside proves that removals keep the fields next to them.
func removingBeside(t *testing.T, c *C) {
	for name, fill := range map[string]func(*kopf.Patch){
		"before": func(p *kopf.Patch) { p.Set("spec.a", map[string]any{}); p.Remove("spec.a.b") },
		"after":  func(p *kopf.Patch) { p.Remove("spec.a.b"); p.Set("spec.a", map[string]any{}) },
	} {
		c.Run(t, "DF-39 an object without fields is stored, set "+name+" a removal below it", func(c *C) {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { fill(ch.Patch); return nil }, named("create"))
			c.Operator(r)
			c.Create("a", spec(map[string]any{"x": "1"}))
			want := map[string]any{"a": map[string]any{}, "x": "1"}
			if diff := cmp.Diff(want, c.handled("a").Spec().Map()); diff != "" {
				c.Errorf("the spec: (-want +got)\n%s", diff)
			}
		})
	}
	for name, test := range map[string]struct {
		fill func(*kopf.Patch)
		want string
	}{
		"the whole metadata": {func(p *kopf.Patch) { p.Set("spec.y", "2"); p.Remove("metadata") }, "the patch sets the whole metadata to null"},
		"a removal below a label": {func(p *kopf.Patch) {
			p.Set("spec.y", "2")
			p.SetLabel("mine", "1")
			p.Remove("metadata.labels.mine.kubernetes.io/name")
		}, `use SetLabel("mine.kubernetes.io/name", value)`},
		"a label with fields": {func(p *kopf.Patch) {
			p.Set("spec.y", "2")
			p.Set("metadata.labels.a", "1")
			p.Set("metadata.labels.a.b", "1")
		}, `use SetLabel("a.b", value)`},
	} {
		c.Run(t, "DF-38 the handler fails, and the rest of its patch is stored, with "+name, func(c *C) {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { test.fill(ch.Patch); return nil }, named("create"))
			op := c.Operator(r)
			c.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"mine": "1"}}, "spec": map[string]any{"x": "1"}})
			body := c.handled("a")
			if body.Labels()["mine"] != "1" || body.Spec().String("y") != "2" {
				c.Errorf("the labels are %v, the spec %v", body.Labels(), body.Spec().Map())
			}
			lines := op.Logs.Find("failed permanently")
			if len(lines) != 1 {
				c.Fatalf("got %v, want one failure", lines)
			}
			c.wants("the failure", lines[0].Message+lines[0].Attrs["error"], test.want)
		})
	}
}

// selectingStorage is a storage of a user that leaves a field of the status and an annotation out of the tracked fields.
type selectingStorage struct{ kopf.DiffBaseStorage }

func (s selectingStorage) Build(body *kopf.Body, fields []kopf.FieldPath) *kopf.Essence {
	object := body.Map()
	if status, ok := object["status"].(map[string]any); ok {
		delete(status, "ignored")
	}
	if annotations, ok := object["metadata"].(map[string]any)["annotations"].(map[string]any); ok {
		delete(annotations, "example.com/ignored")
	}
	selected, _ := kopf.NewBody(object) // of decoded JSON
	return s.DiffBaseStorage.Build(selected, fields)
}

// removingByTimers proves that removals are kept until they are stored, and that they keep what kopf stores.
func removingByTimers(t *testing.T, c *C) {
	c.Run(t, "DF-38 many removals of a timer are kept over a failed request", func(c *C) {
		const n = 150
		var l calls
		r := &kopf.Registry{}
		r.OnTimer(statusExamples, func(_ context.Context, x *kopf.Timer) error {
			if l.add("timer"); len(l.all()) > 1 {
				return nil
			}
			for i := range n {
				x.Patch.Remove(kopf.Path("spec", "hosts", fmt.Sprint(i)))
				x.Patch.Set(kopf.Path("spec", "hosts", fmt.Sprint(i), "state"), "new")
			}
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Hour, WithoutFinalizer: true})
		hosts := map[string]any{}
		for i := range n {
			hosts[fmt.Sprint(i)] = map[string]any{"old": "1"}
		}
		var failed atomic.Bool
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && failed.CompareAndSwap(false, true) {
				return Answer(http.StatusConflict, "Conflict", "the object has been modified"), nil
			}
			return nil, nil
		})
		k := c.Of("kopf.dev/v1", "KopfStatusExample")
		k.Create("a", spec(map[string]any{"hosts": hosts}))
		c.WaitFor("the hosts", func() bool { return !strings.Contains(fmt.Sprint(k.Get("a").Spec().Map()), "old") })
		if !failed.Load() {
			c.Error("no request has failed")
		}
	})
	c.Run(t, "DF-38 a timer that removes all of the status and of the annotations leaves the state of kopf", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnTimer(statusExamples, func(_ context.Context, x *kopf.Timer) error {
			l.add("timer")
			x.Patch.Remove("metadata.annotations")
			x.Patch.Remove("status")
			x.Patch.Set("status.a.b", "1")
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Second})
		r.OnCreate(statusExamples, func(context.Context, *kopf.Change) error { l.add("create"); return nil }, named("create"))
		op := c.Operator(r)
		k := c.Of("kopf.dev/v1", "KopfStatusExample")
		k.Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"mine": "1"}}})
		c.WaitFor("calls", func() bool { return l.count("timer") > 3 })
		n := len(patches(op))
		c.WaitFor("more calls", func() bool { return l.count("timer") > 6 })
		body := k.Get("a")
		_, handled := body.Annotation(diffBase)
		_, mine := body.Annotation("mine")
		if m := len(patches(op)); m != n || l.count("create") != 1 || !handled || mine || body.Get("status.a.b") != "1" {
			c.Errorf("%d and then %d patches, %d creations, and the object is %v", n, m, l.count("create"), body.Map())
		}
	})
	c.Run(t, "DF-38 fields that are not tracked are stored as they are set", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Remove("spec.a")
			ch.Patch.Set("spec.a.b", "2")
			ch.Patch.Remove("metadata.annotations")
			ch.Patch.SetAnnotation("example.com/ignored", "new")
			ch.Patch.Set("status.ignored", "new")
			return nil
		}, named("create"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = selectingStorage{&kopf.AnnotationsDiffBaseStorage{}}
		})
		c.Create("a", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"example.com/ignored": "old"}}, "status": map[string]any{"ignored": "old"},
			"spec": map[string]any{"a": map[string]any{"old": "1"}},
		})
		body := c.handled("a")
		got := []any{body.Annotations()["example.com/ignored"], body.Get("status.ignored"), body.Get("spec.a")}
		expect(c, "the fields", got, []any{"new", "new", map[string]any{"b": "2"}})
	})
	c.Run(t, "DF-38 a later handler has the last word over functions and typed statuses of an earlier one", func(c *C) {
		type typed struct {
			kopf.ObjectMeta `json:"metadata"`
			Status          struct {
				URL   string   `json:"url,omitempty"`
				Items []string `json:"items,omitempty"`
			} `json:"status"`
		}
		r := &kopf.Registry{}
		r.OnCreate(Examples, kopf.Typed(func(_ context.Context, ch *kopf.Change, object *typed) error {
			object.Status.URL, object.Status.Items = "first", append(object.Status.Items, "b")
			ch.Patch.Transform(func(object map[string]any) error {
				object["spec"].(map[string]any)["x"] = "first"
				return nil
			})
			return nil
		}), named("first"))
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.url", "second")
			ch.Patch.Remove("spec.x")
			ch.SetResult("done")
			return nil
		}, named("second"))
		c.Operator(r)
		c.Create("a", map[string]any{"spec": map[string]any{"x": "1", "y": "1"}, "status": map[string]any{"items": []any{"a"}}})
		body := c.handled("a")
		want := []any{map[string]any{"url": "second", "items": []any{"a", "b"}, "second": "done"}, map[string]any{"y": "1"}}
		expect(c, "the status and the spec", []any{body.Status().Map(), body.Spec().Map()}, want)
	})
	c.Run(t, "DF-38 a text that was replaced does not return", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.a", map[string]any{"b": "1"})
			return nil
		}, named("first"))
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Remove("spec.a.b")
			return nil
		}, named("second"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"a": "text"}))
		expect(c, "the field", c.handled("a").Spec().Get("a"), any(map[string]any{}))
	})
}
