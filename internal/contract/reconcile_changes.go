package contract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which changes of other objects call a reconcile handler, and how it knows of changes of the spec, in
// 9-defects.md.

// noise returns a change of a config map that no field of a test is about.
func noise(n int) map[string]any {
	return map[string]any{"data": map[string]any{"noise": fmt.Sprint(n)}}
}

// askingSpec returns a reconcile handler that records whether the spec has changed.
func askingSpec(l *calls) kopf.ReconcileFunc {
	return func(_ context.Context, r *kopf.Reconcile) error {
		l.add("%s %t", r.Name(), r.SpecChanged())
		return nil
	}
}

// size returns a spec.
func size(n int) map[string]any { return spec(map[string]any{"size": n}) }

var _ = Suite("reconcile_changes", func(t *testing.T, c *C) {
	changesOfOthers(t, c)
	changesOfSpecs(t, c)
})

func changesOfOthers(t *testing.T, c *C) {
	c.Run(t, "DF-90 a watch with fields calls for their changes only, and for objects that come and go", func(c *C) {
		var l reconciles
		c.Reconciled(&l, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", Fields: []kopf.FieldPath{"data.id"}}}})
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return l.count("a First") == 1 })
		steps := []struct {
			name   string
			change func()
			calls  int
		}{
			{"it comes", func() { c.configMaps().Create("x", map[string]any{"data": map[string]any{"id": "1"}}) }, 1},
			{"noise", func() {
				for n := range 20 {
					c.configMaps().Patch("x", noise(n))
				}
			}, 1},
			{"the field", func() { c.configMaps().Patch("x", map[string]any{"data": map[string]any{"id": "2"}}) }, 2},
			{"noise again", func() { c.configMaps().Patch("x", noise(30)) }, 2},
			{"it goes", func() { c.configMaps().Delete("x") }, 3},
		}
		for _, step := range steps {
			step.change()
			c.Pass(2 * time.Second)
			if n := l.count("a Watched"); n != step.calls {
				c.Errorf("%s: got %d calls, want %d", step.name, n, step.calls)
			}
		}
	})
	c.Run(t, "DF-90 a watch with fields asks again for an object whose function has panicked", func(c *C) {
		var l reconciles
		var asked atomic.Int64
		op := c.Reconciled(&l, &kopf.ReconcileOptions{Watches: []kopf.Watch{{
			Of: "configmaps", Fields: []kopf.FieldPath{"data.id"},
			Objects: func(w *kopf.Watched) []kopf.ObjectReference {
				if asked.Add(1) == 1 {
					panic("not filled yet")
				}
				return byNote(c.Namespace)(w)
			},
		}}})
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return l.count("a First") == 1 })
		c.configMaps().Create("x", about("a"))
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("A function of a watch panicked")) == 1 })
		c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "1"}}})
		c.WaitFor("the call", func() bool { return l.count("a Watched") == 1 })
	})
	c.Run(t, "DF-90 a watch with a predicate takes an object for which it is false as missing", func(c *C) {
		var l reconciles
		on := func(w *kopf.Watched) bool { return w.Body.View("data").String("on") == "yes" }
		op := c.Reconciled(&l, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", When: on, Objects: byNote(c.Namespace)}}})
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return l.count("a First") == 1 })
		c.configMaps().Create("x", about("a"))
		for n := range 5 {
			c.configMaps().Patch("x", noise(n))
		}
		c.Pass(2 * time.Second)
		if n := l.count("a Watched"); n != 0 {
			c.Errorf("got %d calls for an object that does not match", n)
		}
		for i, on := range []string{"yes", "no"} {
			c.configMaps().Patch("x", map[string]any{"data": map[string]any{"on": on}})
			c.WaitFor("the call for "+on, func() bool { return l.count("a Watched") == i+1 })
		}
		c.configMaps().Patch("x", noise(9))
		c.configMaps().Delete("x")
		c.Pass(2 * time.Second)
		if n := l.count("a Watched"); n != 2 || len(op.Logs.Find("panicked")) > 0 {
			c.Errorf("got %d calls, want 2", n)
		}
	})
	c.Run(t, "DF-90 children with fields call for these, for drift, and when they go", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"ours": "1"}}, nil)
			return nil
		}, &kopf.ReconcileOptions{
			Owns: []kopf.Selector{"configmaps"}, ChildFields: map[kopf.Selector][]kopf.FieldPath{"configmaps": {"data.id"}},
		})
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a") })
		c.Pass(2 * time.Second)
		before := len(l.all())
		for n := range 20 {
			c.configMaps().Patch("a", noise(n))
		}
		c.Pass(2 * time.Second)
		if n := len(l.all()); n != before {
			c.Errorf("got %d calls for other fields", n-before)
		}
		c.configMaps().Patch("a", map[string]any{"data": map[string]any{"id": "1"}})
		c.WaitFor("the call for the field", func() bool { return len(l.all()) == before+1 })
		c.configMaps().Patch("a", map[string]any{"data": map[string]any{"ours": "2"}})
		c.WaitFor("the repair", func() bool { return c.configMaps().Get("a").View("data").String("ours") == "1" })
		c.Pass(2 * time.Second)
		before = len(l.all())
		c.configMaps().Patch("a", noise(30))
		c.Pass(2 * time.Second)
		if n := len(l.all()); n > before+1 { // the first event after an apply may be one
			c.Errorf("got %d calls for another field after the repair", n-before)
		}
		uid := c.configMaps().Get("a").UID()
		c.configMaps().Delete("a")
		c.WaitFor("another child", func() bool { return c.configMaps().Exists("a") && c.configMaps().Get("a").UID() != uid })
	})
	c.Run(t, "DF-90 children with fields call when their readiness changes", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			child := r.Desired(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfStatusExample", "spec": map[string]any{"n": 1}}, nil)
			l.add("%s %t %t", r.Name(), child.Exists(), child.Ready())
			return nil
		}, &kopf.ReconcileOptions{
			Owns: []kopf.Selector{statusExamples}, ChildFields: map[kopf.Selector][]kopf.FieldPath{statusExamples: {"spec.n"}},
		})
		c.Operator(r)
		c.Create("a", nil)
		k := c.Of("kopf.dev/v1", "KopfStatusExample")
		c.WaitFor("the child", func() bool { return k.Exists("a") })
		k.PatchStatus("a", map[string]any{"status": map[string]any{"phase": "begins"}})
		c.Pass(2 * time.Second)
		before := len(l.all())
		k.PatchStatus("a", map[string]any{"status": map[string]any{"phase": "goes on"}})
		c.Pass(2 * time.Second)
		if n := len(l.all()); n != before {
			c.Errorf("got %d calls for another field of the status", n-before)
		}
		for i, ready := range []string{"False", "True"} {
			k.PatchStatus("a", map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "Ready", "status": ready, "reason": "Test", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"},
			}}})
			want := fmt.Sprintf("a true %t", ready == "True")
			c.WaitFor("the call, "+ready, func() bool { return len(l.all()) == before+i+1 && l.all()[before+i] == want })
		}
	})
	c.Run(t, "DF-90 fields that cannot be are a panic at the registration", func(c *C) {
		fields := func(s kopf.Selector, path kopf.FieldPath) map[kopf.Selector][]kopf.FieldPath {
			return map[kopf.Selector][]kopf.FieldPath{s: {path}}
		}
		for want, opts := range map[string]kopf.ReconcileOptions{
			`the watch of "secrets": the option Fields: the field "metadata.managedFields" changes`: {
				Watches: []kopf.Watch{{Of: "secrets", Fields: []kopf.FieldPath{"metadata.managedFields"}}},
			},
			`the option ChildFields: the field "metadata" as a whole changes`: {
				Owns: []kopf.Selector{"secrets"}, ChildFields: map[kopf.Selector][]kopf.FieldPath{"secrets": {"metadata"}},
			},
			`the watch of "secrets": invalid path "a..b" in the option Fields`: {Watches: []kopf.Watch{{Of: "secrets", Fields: []kopf.FieldPath{"a..b"}}}},
			`invalid path "" in the option ChildFields`:                        {Owns: []kopf.Selector{"secrets"}, ChildFields: fields("secrets", "")},
			`invalid selector "pods" in the option ChildFields: want one of`:   {Owns: []kopf.Selector{"secrets"}, ChildFields: fields("pods", "spec")},
		} {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
						c.Errorf("got the panic %s, want %q", got, want)
					}
				}()
				(&kopf.Registry{}).OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &opts)
			}()
		}
	})
}

func changesOfSpecs(t *testing.T, c *C) {
	for _, kind := range []struct {
		name     string
		selector kopf.Selector
	}{{"KopfExample", Examples}, {"KopfStatusExample", statusExamples}} {
		c.Run(t, "DF-90 a handler knows whether the spec has changed since its last success, also after a restart: "+kind.name, func(c *C) {
			var l calls
			source := &kopf.Source{}
			r := &kopf.Registry{}
			r.OnReconcile(kind.selector, askingSpec(&l), &kopf.ReconcileOptions{ID: "asked", Sources: []*kopf.Source{source}, Fields: []kopf.FieldPath{"status.seen"}})
			var updates atomic.Int32
			r.OnUpdate(kind.selector, func(context.Context, *kopf.Change) error {
				updates.Add(1)
				return nil
			}, named("update"))
			k := c.Of("kopf.dev/v1", kind.name)
			op := c.Operator(r)
			k.Create("a", size(1))
			c.WaitFor("the first call", func() bool { return l.count("a true") == 1 })
			c.Pass(2 * time.Second)
			wrote := len(writes(op))
			source.TriggerAll()
			c.WaitFor("the second call", func() bool { return l.count("a false") == 1 })
			patch := k.Patch
			if kind.selector == statusExamples {
				patch = k.PatchStatus
			}
			patch("a", map[string]any{"status": map[string]any{"seen": 1}})
			c.WaitFor("the call for the status", func() bool { return l.count("a false") == 2 })
			if n := len(writes(op)); n != wrote {
				c.Errorf("calls for the same spec have written: %v", writes(op)[wrote:])
			}
			k.Patch("a", size(2))
			c.WaitFor("the call for the spec", func() bool { return l.count("a true") == 2 })
			c.WaitFor("the update", func() bool { return updates.Load() == 1 })
			c.Pass(2 * time.Second)
			op.Stop()
			restarted := c.Operator(r)
			c.WaitFor("the call after the restart", func() bool { return l.count("a false") == 3 })
			c.Pass(2 * time.Second)
			if n := len(writes(restarted)); n > 0 || updates.Load() != 1 {
				c.Errorf("got the writes %v and %d updates", writes(restarted), updates.Load())
			}
		})
	}
	changesWithTransformations(t, c)
	c.Run(t, "DF-90 a call that fails, or has not asked, leaves the spec changed", func(c *C) {
		var l calls
		var fail, ask atomic.Bool
		fail.Store(true)
		source := &kopf.Source{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			if !ask.Load() {
				l.add("not asked")
				return nil
			}
			l.add("%t", r.SpecChanged())
			if fail.Load() {
				return kopf.Temporary(errors.New("not yet"), time.Hour)
			}
			return nil
		}, &kopf.ReconcileOptions{ID: "asked", Sources: []*kopf.Source{source}})
		op := c.Operator(r)
		c.Create("a", size(1))
		c.WaitFor("the call that does not ask", func() bool { return l.count("not asked") == 1 })
		c.Pass(time.Second)
		if got := writes(op); len(got) > 0 {
			c.Errorf("got the writes %v of a handler that has not asked", got)
		}
		ask.Store(true)
		for n := range 2 {
			source.TriggerAll()
			c.WaitFor("a failed call", func() bool { return l.count("true") == n+1 })
		}
		fail.Store(false)
		source.TriggerAll()
		c.WaitFor("the success", func() bool { return l.count("true") == 3 })
		source.TriggerAll()
		c.WaitFor("the call after it", func() bool { return l.count("false") == 1 })
	})
	c.Run(t, "DF-90 two handlers have digests of their own, and a handler may change the spec itself", func(c *C) {
		var l calls
		source := &kopf.Source{}
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"one", "two"} {
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				l.add("%s %t", id, r.SpecChanged())
				r.Patch.Set(kopf.FieldPath("spec."+id), "set")
				return nil
			}, &kopf.ReconcileOptions{ID: id, Sources: []*kopf.Source{source}})
		}
		c.Operator(r)
		c.Create("a", size(1))
		c.Pass(2 * time.Second)
		l.forget()
		source.TriggerAll()
		c.Pass(2 * time.Second)
		c.expect(&l, "one true", "two false") // the second one has changed what the first one has seen
		source.TriggerAll()
		c.Pass(2 * time.Second)
		c.expect(&l, "one true", "two false", "one false", "two false")
	})
	c.Run(t, "DF-90 a copy of an object has not had its spec handled", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(Examples, askingSpec(&l), &kopf.ReconcileOptions{ID: "asked"})
		c.Operator(r)
		c.Create("a", size(1))
		c.WaitFor("the digest", func() bool { return c.Get("a").Annotations()["kopf.zalando.org/reconciled-spec"] != "" })
		annotations := map[string]any{}
		for key, value := range c.Get("a").Annotations() {
			annotations[key] = value
		}
		c.Create("b", map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"size": 1}})
		c.WaitFor("the call for the copy", func() bool { return l.count("b true") == 1 })
	})
	c.Run(t, "DF-90 with the state in the status, the digest comes with the status in one request", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnReconcile(statusExamples, func(ctx context.Context, r *kopf.Reconcile) error {
			r.Patch.Set("status.phase", "done")
			return askingSpec(&l)(ctx, r)
		}, &kopf.ReconcileOptions{ID: "asked"})
		op := c.Operator(r, func(o *kopf.Operator) { o.Settings.Persistence.Storage = kopf.InStatus })
		k := c.Of("kopf.dev/v1", "KopfStatusExample")
		k.Create("a", size(1))
		c.WaitFor("the status", func() bool { return k.Get("a").Status().String("phase") == "done" })
		c.Pass(2 * time.Second)
		if got := writes(op); len(got) != 1 || k.Get("a").Status().String("kopf.reconciled-spec") == "" {
			c.Errorf("got the writes %v and the status %v", got, k.Get("a").Status().Map())
		}
		c.expect(&l, "a true")
	})
	digestsWithoutPlace(t, c)
	c.Run(t, "DF-90 a function literal needs an id to ask", func(c *C) {
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.SpecChanged()
			return nil
		}, nil)
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the failure", func() bool { return len(op.Logs.Find("give the handler an ID")) == 1 })
		if annotations := c.Get("a").Annotations(); len(annotations) > 0 {
			c.Errorf("the annotations are %v", annotations)
		}
	})
}

// changesWithTransformations proves that changes which kopf computes for one version of an object, such
// as those of conditions, leave the digest of the spec as it is stored with them.
func changesWithTransformations(t *testing.T, c *C) {
	transform := func(object map[string]any) error {
		object["status"] = map[string]any{"phase": fmt.Sprint(object["spec"])}
		return nil
	}
	for _, with := range []struct {
		name       string
		conditions bool
		change     func(*kopf.Patch)
	}{
		{name: "the option Conditions", conditions: true},
		{name: "a condition", change: func(p *kopf.Patch) {
			p.SetCondition(kopf.Condition{Type: "Mine", Status: kopf.ConditionTrue, Reason: "Yes"})
		}},
		{name: "a transformation", change: func(p *kopf.Patch) { p.Transform(transform) }},
		{name: "a replaced status", change: func(p *kopf.Patch) { p.Replace("status", map[string]any{"phase": "done"}) }},
	} {
		for _, storage := range []kopf.Storage{kopf.InAnnotations, kopf.InStatus} {
			c.Run(t, fmt.Sprintf("DF-90 with %s, each digest of the spec is stored %s", with.name, storage), func(c *C) {
				var l calls
				r := &kopf.Registry{}
				ask := askingSpec(&l)
				r.OnReconcile(statusExamples, func(ctx context.Context, r *kopf.Reconcile) error {
					if with.change != nil {
						with.change(r.Patch)
					}
					return ask(ctx, r)
				}, &kopf.ReconcileOptions{ID: "asked", Conditions: with.conditions})
				c.Operator(r, func(o *kopf.Operator) { o.Settings.Persistence.Storage = storage })
				k := c.Of("kopf.dev/v1", "KopfStatusExample")
				k.Create("a", size(1))
				c.WaitFor("the first call", func() bool { return l.count("a true") == 1 })
				for n := range 2 {
					c.Pass(2 * time.Second)
					k.Patch("a", size(n+2))
					c.WaitFor("the call for the spec", func() bool { return l.count("a true") == n+2 })
					c.Pass(2 * time.Second)
					former := l.count("a false")
					k.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": fmt.Sprint(n)}}})
					c.WaitFor("the call for the label", func() bool { return l.count("a false") > former })
				}
				if n := l.count("a true"); n != 3 {
					c.Errorf("%d calls have found another spec, want 3", n)
				}
			})
		}
	}
}

// digestsWithoutPlace proves where the digest is with [kopf.InStatus] if the schema of the status does
// not keep it.
func digestsWithoutPlace(t *testing.T, c *C) {
	preserving := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	for _, tt := range []struct {
		name     string
		status   map[string]any
		creating bool // whether there is also a change handler
		warning  string
	}{
		{"of a status that keeps no state", object(map[string]any{"phase": preserving}), false, `does not keep the field "kopf"`},
		{"of a status that keeps no state, with a change handler", object(map[string]any{"phase": preserving}), true,
			`does not keep the field "kopf"`},
		{"of a status that keeps other state", object(map[string]any{"kopf": object(map[string]any{
			"progress": preserving, "last-handled-configuration": map[string]any{"type": "string"},
		})}), false, `does not keep all of the field "kopf"`},
	} {
		c.Run(t, "DF-90 the digest "+tt.name+" is in an annotation, with a warning", func(c *C) {
			selector, kind := c.kindWithStatus(true, tt.status)
			var l calls
			r := &kopf.Registry{}
			r.OnReconcile(selector, askingSpec(&l), &kopf.ReconcileOptions{ID: "asked"})
			if tt.creating {
				r.OnCreate(selector, (&calls{}).handler("create"), named("create"))
			}
			op := c.Operator(r, inStatus)
			kind.Create("a", nil)
			c.WaitFor("the digest", func() bool { return kind.Get("a").Annotations()["kopf.zalando.org/reconciled-spec"] != "" })
			kind.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": "1"}}})
			c.WaitFor("the second call", func() bool { return l.count("a false") == 1 })
			c.expect(&l, "a true", "a false")
			if lines := warned(op, "so the state of its objects is kept in annotations"); len(lines) != 1 || !strings.Contains(lines[0].Message, tt.warning) {
				c.Errorf("got the warnings %v, want %q", lines, tt.warning)
			}
		})
	}
}
