package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how kopf sends changes of objects, and what happens after refusals and delays, in 1-change-handling.md.

var _ = ClusterSuite("change_patches", func(t *testing.T, c *C) {
	requesting(t, c)
	mistaken(t, c)
	failingTransforms(t, c)
	conflicting(t, c)
	delaying(t, c)
	throttling(t, c)
	droppedFields(t, c)
})

const jsonPatch = "application/json-patch+json"

func requesting(t *testing.T, c *C) {
	c.Run(t, "CH-180 objects are patched in their namespaces, by operators of the whole cluster too", func(c *C) {
		c.OnlyInBubble("the real server has objects of others")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h"), named("h"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = nil })
		c.Create("a", nil)
		c.handled("a")
		for _, w := range op.Wire.Writes() {
			if want := "/apis/kopf.dev/v1/namespaces/" + c.Namespace + "/kopfexamples/a"; !strings.HasPrefix(w.Path, want) {
				c.Errorf("the object was patched at %s, want %s", w.Path, want)
			}
		}
	})
	c.Run(t, "CH-181 transformations get the newest state, and those that change nothing send nothing", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			e.Patch.Transform(func(object map[string]any) error { return nil })
			return nil
		}, &kopf.EventOptions{ID: "nothing"})
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.first", "done")
			return nil
		}, &kopf.ChangeOptions{ID: "first", Field: "spec.x"})
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(func(object map[string]any) error {
				s := object["spec"].(map[string]any)
				s["second"] = fmt.Sprintf("after %v", s["first"])
				return nil
			})
			return nil
		}, &kopf.ChangeOptions{ID: "second", Field: "spec.x"})
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Execution.FlushAfter = 0 })
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		if got := patches(op); len(got) != 1 || !strings.Contains(got[0], diffBase) || strings.Contains(got[0], "/spec") {
			c.Errorf("got the patches %q for the creation, want the one with the stored state", got)
		}
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.WaitFor("both handlers", func() bool { return c.Get("a").Spec().String("second") == "after done" })
	})
	for _, storage := range []kopf.Storage{kopf.InAnnotations, kopf.InStatus} {
		c.Run(t, fmt.Sprintf("a typed status is replaced, with states %s, which stay", storage), func(c *C) {
			type typed struct {
				Phase string   `json:"phase"`
				Items []string `json:"items,omitempty"`
			}
			var l calls
			handlers := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
					l.add("create")
					ch.Patch.Replace("status", typed{"made", []string{"a"}})
					return nil
				}, named("create"))
				r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
					l.add("update")
					ch.Patch.Replace("status", typed{Phase: "changed"})
					ch.Patch.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Changed"})
					return nil
				}, named("update"))
				return r
			}
			stored := func(op *kopf.Operator) { op.Settings.Persistence.Storage = storage }
			op := c.Operator(handlers(), stored)
			c.Create("a", spec(map[string]any{"x": 1}))
			c.WaitFor("the items", func() bool { return len(c.Get("a").Status().Strings("items")) == 1 })
			c.Patch("a", spec(map[string]any{"x": 2}))
			c.WaitFor("the change", func() bool { return c.Get("a").Status().String("phase") == "changed" })
			status := c.Get("a").Status()
			if conditions := status.Views("conditions"); status.Has("items") || len(conditions) != 1 || conditions[0].String("reason") != "Changed" {
				c.Errorf("the status is %v", status.Map())
			}
			c.Pass(time.Second)
			op.Stop()
			c.Operator(handlers(), stored)
			c.Pass(time.Second)
			c.expect(&l, "create", "update")
		})
	}
	c.Run(t, "within handlers, applied fields belong to the kind that is handled", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			return ch.Client.Apply(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": ch.Name(), "namespace": ch.Namespace()}, "data": map[string]any{"a": "b"}}, nil)
		}, named("create"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		var child kopf.Body
		if err := c.Client.Get(c.Context(), kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace, Name: "a"}, &child, nil); err != nil {
			c.Fatal(err)
		}
		if fields := child.Metadata().Views("managedFields"); len(fields) != 1 || fields[0].String("manager") != "kopf-kopfexamples.kopf.dev" || fields[0].String("operation") != "Apply" {
			c.Errorf("the managed fields are %v", child.Metadata().Get("managedFields"))
		}
	})
	c.Run(t, "CH-187 an object that has gone is not patched, and that is no error", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.x", 1)
			return ch.Client.Delete(ctx, ch.Body.Reference(), nil)
		}, named("h"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.gone("a")
		c.WaitFor("the log line", func() bool { return len(op.Logs.Find("because the object is gone")) > 0 })
		c.Pass(2 * time.Second)
		if n := len(op.Wire.Requests("PATCH")); n != 1 {
			c.Errorf("the object was patched %d times, want once", n)
		}
		for _, line := range op.Logs.All() {
			if line.Level > slog.LevelInfo {
				c.Errorf("got the log line %v", line)
			}
		}
	})
	c.Run(t, "CH-189 a touch of the original is removed with whatever is sent", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h"), named("h"))
		op := c.Operator(r)
		c.Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/touch-dummy": "2020-01-01T00:00:00"}}})
		body := c.handled("a")
		if v, ok := body.Annotation("kopf.zalando.org/touch-dummy"); ok {
			c.Errorf("the touch %q is left", v)
		}
		if got := patches(op); len(got) != 1 {
			c.Errorf("got the patches %q, want one", got)
		}
	})
	c.Run(t, "CH-192 the requests of a handling are few", func(c *C) {
		for name, test := range map[string]struct {
			kind     string
			register func(r *kopf.Registry, s kopf.Selector)
			want     int
		}{
			"one handler": {"KopfExample", func(r *kopf.Registry, s kopf.Selector) {
				r.OnCreate(s, func(context.Context, *kopf.Change) error { return nil }, named("h"))
			}, 1},
			"a result in a status that is a subresource": {"KopfStatusExample", func(r *kopf.Registry, s kopf.Selector) {
				r.OnCreate(s, func(_ context.Context, ch *kopf.Change) error { ch.SetResult(1); return nil }, named("h"))
			}, 2},
			"a finalizer": {"KopfExample", func(r *kopf.Registry, s kopf.Selector) {
				r.OnCreate(s, func(context.Context, *kopf.Change) error { return nil }, named("h"))
				r.OnDelete(s, func(context.Context, *kopf.Change) error { return nil }, named("d"))
			}, 2},
		} {
			r := &kopf.Registry{}
			test.register(r, kopf.Selector(strings.ToLower(test.kind)+"s.v1.kopf.dev"))
			op := c.Operator(r)
			k := c.Of("kopf.dev/v1", test.kind)
			k.Create("a", nil)
			c.WaitFor("the handling with "+name, func() bool { _, ok := k.Get("a").Annotation(diffBase); return ok })
			c.Pass(100 * time.Millisecond)
			if got := patches(op); len(got) != test.want {
				c.Errorf("%s: got the patches %q, want %d", name, got, test.want)
			}
			before := len(op.Wire.Writes())
			k.Delete("a")
			c.WaitFor("the end with "+name, func() bool { return !k.Exists("a") })
			if n := len(op.Wire.Writes()) - before; n != test.want-1 && name == "a finalizer" {
				c.Errorf("the deletion took %d requests, want 1", n)
			}
			op.Stop()
		}
	})
	c.Run(t, "CH-T50 ten handlers are stored by one patch", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for i := range 10 {
			id := kopf.HandlerID(fmt.Sprintf("h%d", i))
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s", id)
				ch.Patch.SetPath(true, "status", string(id))
				return nil
			}, named(kopf.HandlerID(id)))
		}
		op := c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		if n := body.Status().Len(); n != 10 || len(l.all()) != 10 {
			c.Errorf("%d handlers have left something in %d calls, want 10", n, len(l.all()))
		}
		if got := patches(op); len(got) != 1 {
			c.Errorf("got %d patches, want 1: %q", len(got), got)
		}
	})
	c.Run(t, "CH-T31 what a handler changes in a tracked field comes as an update", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.added", true)
			return nil
		}, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s", ch.Diff())
			return nil
		}, named("update"))
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the update", func() bool { return len(l.all()) > 0 })
		c.Pass(time.Second)
		if got := l.all(); len(got) != 1 || !strings.Contains(got[0], "added") {
			c.Errorf("got the updates %q, want the one of the added field", got)
		}
	})
}

// strict defines a kind whose objects have a maximum size of 5, and returns its selector and its verbs.
func (c *C) strict() (kopf.Selector, *Kind) {
	c.Helper()
	name := c.Unique("strict")
	plural := strings.ReplaceAll(name, "-", "") + "s"
	c.Define(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": "Strict" + strings.ReplaceAll(c.Namespace, "-", "")},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{
					"spec":   map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer", "maximum": 5}}},
					"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				},
			}}}},
		},
	})
	return kopf.Selector(plural + ".v1.example.com"), c.Of("example.com/v1", "Strict"+strings.ReplaceAll(c.Namespace, "-", ""))
}

// unmendable are invalid patches by a program, by the ids of handlers.
var unmendable = map[string]func(*kopf.Patch){
	"deep":     func(p *kopf.Patch) { p.Set("metadata.annotations.example.com/touched", "yes") },
	"number":   func(p *kopf.Patch) { p.Set("metadata.labels.n", 1) },
	"value":    func(p *kopf.Patch) { p.Set("status.y", func() {}) },
	"replaced": func(p *kopf.Patch) { p.Replace("status.z", make(chan int)) },
	"version":  func(p *kopf.Patch) { p.Set("metadata.resourceVersion", "1") },
	"uid": func(p *kopf.Patch) {
		p.Merge(map[string]any{"metadata": map[string]any{"uid": "a"}})
	},
	"put-version": func(p *kopf.Patch) { p.Replace("metadata.resourceVersion", "1") },
	"made-version": func(p *kopf.Patch) {
		p.Transform(func(object map[string]any) error {
			object["metadata"].(map[string]any)["resourceVersion"] = "1"
			return nil
		})
	},
	"condition": func(p *kopf.Patch) { p.SetCondition(kopf.Condition{Type: "Ready", Status: "yes", Reason: "Made"}) },
	"transform": func(p *kopf.Patch) {
		p.Transform(func(object map[string]any) error { object["spec"] = func() {}; return nil })
	},
	"refusal": func(p *kopf.Patch) {
		p.Transform(func(map[string]any) error { return kopf.Permanent(errors.New("not this object")) })
	},
}

// mistaken proves what happens to patches that fail in every attempt.
func mistaken(t *testing.T, c *C) {
	c.Run(t, "a patch that no other attempt would mend fails its handler permanently, and all else is stored", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for id, patch := range unmendable {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s", id)
				ch.Patch.Set(kopf.Path("status", id), "stored")
				patch(ch.Patch)
				return nil
			}, named(kopf.HandlerID(id)))
		}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.good", "stored")
			return nil
		}, named("good"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a") // it waits for no other attempt
		status := c.Get("a").Status()
		for id := range unmendable {
			if lines := op.Logs.Find("Handler '" + id + "' failed permanently: "); len(lines) != 1 || lines[0].Level != slog.LevelError {
				c.Errorf("got the lines %v of %s, want one error", lines, id)
			}
			if n := l.count(id); n != 1 || status.String(kopf.FieldPath(id)) != "stored" {
				c.Errorf("%s: called %d times, and the status is %v", id, n, status.Map())
			}
		}
		if lines := op.Logs.Find("Handler 'deep' failed"); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]), `SetAnnotation("example.com/touched", value)`) {
			c.Errorf("got the lines %v", lines)
		}
		if status.String("good") != "stored" || len(op.Logs.Find("refused")) > 0 {
			c.Errorf("the status is %v", status.Map())
		}
	})
	c.Run(t, "DF-9 the patch of the whole object is stored though the object has changed meanwhile", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			whole := ch.Body.Map()
			c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"theirs": "yes"}}})
			whole["spec"].(map[string]any)["x"] = 2
			ch.Patch.Merge(whole)
			return nil
		}, named("create"))
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		body := c.handled("a")
		if body.Spec().Int("x") != 2 || body.Labels()["theirs"] != "yes" {
			c.Errorf("the object is %s", body)
		}
		if lines := warned(op, ""); len(lines) > 0 {
			c.Errorf("got the lines %v, want no warning", lines)
		}
	})
	c.Run(t, "a timer whose patch no other attempt would mend is not called again", func(c *C) {
		c.OnlyInBubble("it waits for minutes")
		var l calls
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, tm *kopf.Timer) error {
			l.add("timer")
			tm.Patch.Set("metadata.labels.n", 1)
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Second})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(10 * time.Minute)
		c.expect(&l, "timer")
	})
}

// failingTransforms proves what happens to functions that cannot change an object now.
func failingTransforms(t *testing.T, c *C) {
	c.Run(t, "a function that fails has its handler called again, and all else is stored meanwhile", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("failing")
			ch.Patch.Set("status.failing", ch.Retry)
			ch.Patch.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionFalse, Reason: "Failing"})
			ch.Patch.Transform(func(object map[string]any) error {
				if object["status"].(map[string]any)["ready"] == nil {
					return errors.New("not ready")
				}
				return nil
			})
			return nil
		}, &kopf.ChangeOptions{ID: "failing", Backoff: time.Second})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.good", "stored")
			return nil
		}, named("good"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("all else", func() bool {
			status := c.Get("a").Status()
			return status.String("good") == "stored" && status.Int("failing") > 0 && len(status.Views("conditions")) == 1
		})
		c.Patch("a", map[string]any{"status": map[string]any{"ready": true}})
		c.handled("a")
		if lines := op.Logs.Find("failed with an exception and will try again"); len(lines) != l.count("failing")-1 || len(op.Logs.Find("processing of the object has failed")) > 0 {
			c.Errorf("got the lines %v after %d calls", lines, l.count("failing"))
		}
	})
	c.Run(t, "a function that fails on newer states alone fails its handler in the end, and all else is stored", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		c.spoil("a", func() error { return errors.New("not so") })
		c.spoil("b", func() error { panic("not so") })
	})
	c.Run(t, "a function of an event handler that fails holds up nothing", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added || e.Type == kopf.Listed {
				e.Patch.Transform(func(map[string]any) error { panic("oops") })
			}
			return nil
		}, &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.good", "stored")
			return nil
		}, named("good"))
		op := c.Operator(r)
		c.Create("a", nil)
		if body := c.handled("a"); body.Status().String("good") != "stored" || len(op.Logs.Find("'event' failed permanently: its patch was refused: a transformation has panicked: oops")) != 1 {
			c.Errorf("the status is %v, and the log %v", body.Status().Map(), op.Logs.Find("event"))
		}
	})
	for name, set := range map[string]func(*kopf.Patch){
		"of the object":            func(p *kopf.Patch) { p.Set("spec.items.0", "x") },
		"of the object, by a name": func(p *kopf.Patch) { p.Set("spec.items.a.b", "x") },
		"of the patch":             func(p *kopf.Patch) { p.Set("status.all", []int{1}); p.Set("status.all.0", 2) },
		"by Replace":               func(p *kopf.Patch) { p.Replace("spec.items.0", "x") },
	} {
		c.Run(t, "a path into a list is an error, and the list stays: "+name, func(c *C) {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				ch.Patch.Remove("spec.items.0") // changes nothing
				set(ch.Patch)
				return nil
			}, named("create"))
			op := c.Operator(r)
			c.Create("a", spec(map[string]any{"items": []any{"a", "b"}}))
			body := c.handled("a")
			c.same("the list", []string{"a", "b"}, body.Spec().Strings("items"))
			lines := op.Logs.Find("is a list: want the whole list, or a function for Transform")
			if len(lines) != 1 || lines[0].Level != slog.LevelError {
				c.Errorf("got the lines %v, want one error", lines)
			}
		})
	}
	c.Run(t, "nulls of nullable fields in lists of the status are stored", proveNullableItems)
	c.Run(t, "the nulls of objects in lists, which API servers drop, are sent once", func(c *C) {
		var ticks atomic.Int64
		given := []any{map[string]any{"a": int64(1), "b": nil, "c": []any{nil, map[string]any{"d": nil}}}}
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(_ context.Context, o *kopf.Timer) error {
			ticks.Add(1)
			o.Patch.Set("status.items", given)
			return nil
		}, &kopf.TimerOptions{ID: "tick", Interval: time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("some ticks", func() bool { return ticks.Load() > 5 })
		writes := 0
		for _, req := range op.Wire.Requests() {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, "items") {
				writes++
			}
		}
		if writes != 1 {
			c.Errorf("the status was written %d times", writes)
		}
		c.same("the status", []any{map[string]any{"a": json.Number("1"), "c": []any{nil, map[string]any{}}}}, c.Get("a").Get("status.items"))
		if _, ok := given[0].(map[string]any)["b"]; !ok {
			c.Error("the value of the handler was changed")
		}
	})
	c.Run(t, "a function that fails is not taken for a refusal of the API server, and a panic has its stack", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		r := &kopf.Registry{}
		for _, id := range []string{"fails", "panics"} {
			r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
				if (e.Type == kopf.Added || e.Type == kopf.Listed) && e.Name() == id {
					e.Patch.Transform(func(map[string]any) error {
						if id == "panics" {
							panicInTransform()
						}
						return errOops
					})
				}
				return nil
			}, watchedAs(kopf.HandlerID(id)))
		}
		op := c.Operator(r)
		c.Create("fails", nil)
		c.Create("panics", nil)
		c.Pass(time.Hour)
		for _, misleading := range []string{"The API server refused", "Storing the patch of a handler failed"} {
			if lines := op.Logs.Find(misleading); len(lines) > 0 {
				c.Errorf("got the lines %v", lines)
			}
		}
		if lines := op.Logs.Find("A transformation of a patch failed; it will be called again"); len(lines) == 0 || lines[0].Attrs["handler"] != "fails" {
			c.Errorf("got the lines %v, want one about the function that fails", lines)
		}
		stacks := map[string]bool{}
		for _, line := range op.Logs.Find("Dropped the patch of a handler, because its transformation failed") {
			stacks[line.Attrs["handler"]] = strings.Contains(line.Attrs["stack"], "panicInTransform")
		}
		c.same("the stacks", map[string]bool{"fails": false, "panics": true}, stacks)
	})
}

// panicInTransform is a function that the test finds in a stack.
func panicInTransform() { panic("oops") }

// spoil creates an object whose handler changes it by a function. The function fails on the state that another client writes during the patch.
func (c *C) spoil(name string, fail func() error) {
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		ch.Patch.Transform(func(object map[string]any) error {
			if rawSpec, _ := object["spec"].(map[string]any); rawSpec["bad"] == true {
				return fail()
			}
			object["spec"] = map[string]any{"done": true}
			return nil
		})
		return nil
	}, named("spoilt"))
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		ch.Patch.Set("status.good", "stored")
		return nil
	}, named("good"))
	op := c.Operator(r)
	defer op.Stop()
	examples, refused := c.Kind, atomic.Bool{}
	op.Wire.Fault(func(req *Request) (*http.Response, error) {
		if req.ContentType == jsonPatch && refused.CompareAndSwap(false, true) {
			examples.Patch(name, spec(map[string]any{"bad": true}))
		}
		return nil, nil
	})
	c.Create(name, nil)
	if body := c.handled(name); body.Status().String("good") != "stored" {
		c.Errorf("the status is %v", body.Status().Map())
	}
	if lines := op.Logs.Find("'spoilt' failed permanently: its patch was refused"); len(lines) != 1 || !strings.Contains(lines[0].Message, "not so") || !refused.Load() {
		c.Errorf("got the lines %v", lines)
	}
}

func conflicting(t *testing.T, c *C) {
	c.Run(t, "CH-185 a conflict is no error: the transformations are applied to the next state", func(c *C) {
		var times atomic.Int64
		r := &kopf.Registry{}
		var l calls
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("update")
			ref := ch.Body.Reference()
			ch.Patch.Transform(func(object map[string]any) error {
				if times.Add(1) == 2 { // the first call is a test run
					_, err := ch.Client.Patch(ctx, ref, map[string]any{"status": map[string]any{"other": true}}, nil)
					if err != nil {
						c.Error(err)
					}
				}
				s := object["spec"].(map[string]any)
				list, _ := s["list"].([]any)
				if len(list) == 0 {
					s["list"] = []any{"added"}
				}
				return nil
			})
			return nil
		}, &kopf.ChangeOptions{ID: "update", Field: "spec.x"})
		r.OnCreate(Examples, l.handler("create"), named("create"))
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.WaitFor("the list", func() bool { return len(c.Get("a").Spec().Strings("list")) == 1 })
		body := c.handled("a")
		c.expect(&l, "create create 0", "update")
		if !body.Status().Bool("other") {
			c.Error("the change of somebody else is lost")
		}
		lines := op.Logs.Find("Another client has changed the object meanwhile; waiting for its newest state")
		if len(lines) == 0 || lines[0].Level != slog.LevelDebug {
			c.Errorf("got the log lines %v, want one at the debug level", lines)
		}
		for _, line := range op.Logs.All() {
			if line.Level > slog.LevelInfo {
				c.Errorf("got the log line %v", line)
			}
		}
	})
	c.Run(t, "CH-182 transformations are called again for a newer state", func(c *C) {
		var times atomic.Int64
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(func(object map[string]any) error {
				times.Add(1)
				s, _ := object["status"].(map[string]any)
				if s == nil {
					s = map[string]any{}
					object["status"] = s
				}
				if s["counted"] == nil { // the function reads before it changes
					s["counted"] = json.Number("1")
				}
				return nil
			})
			return nil
		}, named("create"))
		op := c.Operator(r)
		var refused atomic.Bool
		var calls atomic.Int64 // until then
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.ContentType == jsonPatch && refused.CompareAndSwap(false, true) {
				calls.Store(times.Load())
				c.Patch("a", spec(map[string]any{"other": true})) // another client wins the race
			}
			return nil, nil
		})
		c.Create("a", nil)
		body := c.handled("a")
		if got := body.Status().Int("counted"); got != 1 || !refused.Load() || times.Load() <= calls.Load() {
			c.Errorf("the count is %d after %d calls, %d of them before the conflict", got, times.Load(), calls.Load())
		}
	})
	c.Run(t, "CH-T6 what violates the schema fails its handler, and nothing else", func(c *C) {
		s, k := c.strict()
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(s, func(ctx context.Context, ch *kopf.Change) error {
			l.add("bad")
			ch.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"size": 77}; return nil })
			return nil
		}, named("bad"))
		r.OnCreate(s, func(ctx context.Context, ch *kopf.Change) error {
			l.add("good")
			ch.SetResult("fine")
			return nil
		}, named("good"))
		op := c.Operator(r)
		k.Create("a", spec(map[string]any{"size": 1}))
		var body *kopf.Body
		c.WaitFor("the end", func() bool {
			body = k.Get("a")
			_, ok := body.Annotation(diffBase)
			return ok && len(records(body)) == 0
		})
		c.expect(&l, "bad", "good")
		if body.Spec().Int("size") != 1 || body.Status().String("good") != "fine" {
			c.Errorf("got the object %s", body.LogValue())
		}
		lines := op.Logs.Find("'bad' failed permanently: its patch was refused")
		if len(lines) != 1 || lines[0].Level != slog.LevelError {
			c.Errorf("got the log lines %v, want one error that names the handler", lines)
		}
	})
	c.Run(t, "CH-188 a refused patch of a handler of events is told of, and all else is sent", func(c *C) {
		s, k := c.strict()
		r := &kopf.Registry{}
		r.OnEvent(s, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added || e.Type == kopf.Listed {
				e.Patch.Set("spec.size", 77)
			}
			return nil
		}, &kopf.EventOptions{ID: "bad"})
		r.OnEvent(s, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added || e.Type == kopf.Listed {
				e.Patch.Set("status.good", true)
			}
			return nil
		}, &kopf.EventOptions{ID: "good"})
		r.OnDelete(s, func(context.Context, *kopf.Change) error { return nil }, named("delete"))
		op := c.Operator(r)
		k.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("what is not refused", func() bool { b := k.Get("a"); return holds(b) && b.Status().Bool("good") })
		if got := k.Get("a").Spec().Int("size"); got != 1 {
			c.Errorf("the size is %d, want 1", got)
		}
		if lines := op.Logs.Find("The API server refused the patch of a handler"); len(lines) != 1 || lines[0].Attrs["handler"] != "bad" || lines[0].Level != slog.LevelError {
			c.Errorf("got the lines %v, want one error that names the handler", lines)
		}
		k.Delete("a")
		c.WaitFor("the end", func() bool { return !k.Exists("a") })
	})
	c.Run(t, "CH-T7 the status is sent first, so that nothing is stored as done whose results are lost", func(c *C) {
		r := &kopf.Registry{}
		var l calls
		r.OnCreate("kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error {
			l.add("h")
			ch.SetResult("R")
			return nil
		}, named("h"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ErrorDelays = []time.Duration{50 * time.Millisecond} })
		var refused atomic.Int64
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && refused.Add(1) <= 4 && refused.Load() != 3 {
				return Answer(403, "Forbidden", "not now"), nil // for the status first, and then for the object
			}
			return nil, nil
		})
		k := c.Of("kopf.dev/v1", "KopfStatusExample")
		k.Create("a", nil)
		c.WaitFor("the end", func() bool { _, ok := k.Get("a").Annotation(diffBase); return ok })
		c.expect(&l, "h")
		if got := k.Get("a").Status().String("h"); got != "R" {
			c.Errorf("the result is %q, want R", got)
		}
		var order []string
		for _, w := range op.Wire.Writes() {
			order = append(order, strings.TrimPrefix(w.Path[strings.LastIndex(w.Path, "/"):], "/"))
		}
		if got, want := fmt.Sprint(order), "[status status status a a]"; got != want {
			c.Errorf("got the requests %s, want %s", got, want)
		}
	})
}

// leanCondition is a condition without observedGeneration.
type leanCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

type leanStatus struct {
	Size       int             `json:"size,omitempty"`
	Conditions []leanCondition `json:"conditions,omitempty" listKey:"type"`
}

type lean struct {
	kopf.Meta
	Spec   struct{}   `json:"spec,omitzero"`
	Status leanStatus `json:"status,omitzero"`
}

func droppedFields(t *testing.T, c *C) {
	condition := kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Made"}
	set := func(p *kopf.Patch) { p.Set("status.none", 1) }
	for name, tt := range map[string]struct {
		change func(p *kopf.Patch)
		want   []string
	}{
		"plain":      {set, []string{`status.none: sent 1, stored nothing`}},
		"conditions": {func(p *kopf.Patch) { set(p); p.SetCondition(condition) }, []string{"status.none", "status.conditions"}},
		"a condition alone": {func(p *kopf.Patch) { p.SetCondition(condition) },
			[]string{`status.conditions: sent [{`, `"observedGeneration":1`}},
		"transformed": {func(p *kopf.Patch) {
			p.Transform(func(o map[string]any) error {
				o["status"] = map[string]any{"none": 1, "size": 2}
				return nil
			})
		}, []string{`[status.none: sent 1, stored nothing]`}},
		"replaced": {func(p *kopf.Patch) { p.Replace("status", map[string]any{"none": 1, "size": 2}) },
			[]string{`[status.none: sent 1, stored nothing]`}},
	} {
		c.Run(t, "DF-75 fields that the server drops are logged: "+name, func(c *C) {
			r := &kopf.Registry{}
			k, objects := definedAs[lean](c, r, &kopf.Definition{Kind: "Lean"})
			r.OnCreate(k.Selector(), func(_ context.Context, ch *kopf.Change) error {
				tt.change(ch.Patch)
				return nil
			}, named("create"))
			op := c.Operator(r)
			objects.Create("a", nil)
			const text = "The API server dropped fields of a patch"
			c.WaitFor("the warning", func() bool { return len(op.Logs.Find(text)) == 1 })
			line := op.Logs.Find(text)[0]
			c.wants("the differences", fmt.Sprint(line.Attrs["differences"]), tt.want...)
			if line.Attrs["help"] != "K601" || len(op.Logs.Find("Fields of a patch have other values now")) > 0 {
				c.Errorf("got the line %+v", line)
			}
		})
	}
	c.Run(t, "DF-75 what the server adds to a transformation is not logged", func(c *C) {
		r := &kopf.Registry{}
		k, objects := definedAs[site](c, r, &kopf.Definition{Kind: "Site"})
		r.OnCreate(k.Selector(), func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(func(o map[string]any) error {
				o["spec"] = map[string]any{"html": "x", "tuning": map[string]any{}} // without its defaults
				return nil
			})
			return nil
		}, named("create"))
		op := c.Operator(r)
		objects.Create("a", spec(map[string]any{}))
		c.WaitFor("the change", func() bool { return objects.Get("a").Spec().String("html") == "x" })
		c.Pass(time.Second)
		for _, text := range []string{"dropped fields of a patch", "Fields of a patch have other values now"} {
			if lines := op.Logs.Find(text); len(lines) > 0 {
				c.Errorf("got %+v", lines)
			}
		}
	})
}

func proveNullableItems(c *C) {
	items := func(field string, schema map[string]any, required ...any) map[string]any {
		item := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}, field: schema}}
		if required != nil {
			item["required"] = required
		}
		return map[string]any{"type": "array", "items": item}
	}
	selector, k := c.kindWithStatus(true, map[string]any{"type": "object", "properties": map[string]any{
		"results": items("value", map[string]any{"type": "integer", "nullable": true}, "value"),
		"limits":  items("max", map[string]any{"type": "integer", "nullable": true, "default": 5}),
	}})
	results, limits := []any{map[string]any{"name": "a", "value": nil}}, []any{map[string]any{"name": "b", "max": nil}}
	var l calls
	r := &kopf.Registry{}
	r.OnCreate(selector, func(_ context.Context, x *kopf.Change) error {
		l.add("call")
		x.Patch.Set("status.results", results)
		x.Patch.Set("status.limits", limits)
		return nil
	}, &kopf.ChangeOptions{ID: "fn"})
	c.Operator(r)
	k.Create("a", nil)
	c.WaitFor("the status", func() bool { return k.Get("a").Get("status.results") != nil })
	c.same("the results", results, k.Get("a").Get("status.results"))
	c.same("the limits", limits, k.Get("a").Get("status.limits"))
	c.Pass(time.Second)
	c.expect(&l, "call")
}
