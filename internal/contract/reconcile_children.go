package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how kopf manages the desired children of reconcile handlers.

// desiredMap is a desired ConfigMap.
func desiredMap(name string, data map[string]any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data}
}

// parenting runs a reconcile handler whose desired children a function determines.
func (c *C) parenting(desired func(r *kopf.Reconcile) error, opts *kopf.ReconcileOptions, adjust ...func(*kopf.Operator)) (*Running, *calls) {
	c.Helper()
	l := &calls{}
	r := &kopf.Registry{}
	if opts == nil {
		opts = &kopf.ReconcileOptions{}
	}
	if opts.Owns == nil {
		opts.Owns = []kopf.Selector{"configmaps"}
	}
	opts.ID = "reconcile"
	r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
		l.add("%s", r.Name())
		return desired(r)
	}, opts)
	return c.Operator(r, adjust...), l
}

func (c *C) configMaps() *Kind { return c.Of("v1", "ConfigMap") }

// applies returns the operator's writing requests for config maps.
func applies(op *Running) (all []string) {
	for _, q := range op.Wire.Writes() {
		if strings.Contains(q.Path, "/configmaps/") {
			all = append(all, q.Method+" "+strings.TrimPrefix(q.Path[strings.LastIndex(q.Path, "/")+1:], ""))
		}
	}
	return all
}

// bySize wants as many config maps as the size in the spec.
func bySize(r *kopf.Reconcile) error {
	size := int(r.Spec().Int("size"))
	if size == 0 {
		r.NoChildren()
	}
	for i := range size {
		r.Desired(desiredMap(fmt.Sprintf("%s-%d", r.Name(), i), map[string]any{"text": r.Spec().String("text")}), nil)
	}
	return nil
}

var _ = Suite("reconcile_children", func(t *testing.T, c *C) {
	c.Run(t, "RC-35 a desired object gets the name, the namespace, the labels and the controller reference that it lacks", func(c *C) {
		c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"labels": map[string]any{"x": "own"}}}, nil)
			return nil
		}, nil)
		owner := c.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "1", "y": "2"}}})
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a") })
		body := c.configMaps().Get("a")
		c.same("the labels", map[string]string{"x": "own", "y": "2"}, body.Labels())
		refs, _ := body.Get("metadata.ownerReferences").([]any)
		if len(refs) != 1 || refs[0].(map[string]any)["uid"] != owner.UID() || refs[0].(map[string]any)["controller"] != true {
			c.Errorf("got the owner references %v", refs)
		}
	})
	c.Run(t, "RC-36 with an error, nothing is applied and nothing is deleted", func(c *C) {
		var fails atomic.Bool
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			if fails.Load() {
				r.Desired(desiredMap("other", nil), nil)
				return errors.New("broken")
			}
			return bySize(r)
		}, nil)
		c.Create("a", spec(map[string]any{"size": 2}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-0") && c.configMaps().Exists("a-1") })
		fails.Store(true)
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("three failures", func() bool { return len(l.all()) >= 4 })
		c.same("the writes", []string{"PATCH a-0", "PATCH a-1"}, withoutQueries(applies(op)))
	})
	c.Run(t, "RC-37 what cannot be wanted fails the handler, by name", func(c *C) {
		for want, desired := range map[string]func(r *kopf.Reconcile){
			"invalid desired kind Secret of v1": func(r *kopf.Reconcile) {
				r.Desired(map[string]any{"apiVersion": "v1", "kind": "Secret"}, nil)
			},
			"ConfigMap " + c.Namespace + "/x is desired twice": func(r *kopf.Reconcile) {
				r.Desired(desiredMap("x", nil), nil)
				r.Desired(desiredMap("x", nil), nil)
			},
			"invalid desired object: invalid apiVersion":    func(r *kopf.Reconcile) { r.Desired(map[string]any{"metadata": nil}, nil) },
			"the desired object is nil, of type *kopf.Meta": func(r *kopf.Reconcile) { r.Desired((*kopf.Meta)(nil), nil) },
			"invalid metadata.generateName of a desired object": func(r *kopf.Reconcile) {
				r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "x-"}}, nil)
			},
			"invalid desired object of type int": func(r *kopf.Reconcile) { r.Desired(5, nil) },
			"invalid option After": func(r *kopf.Reconcile) {
				r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{After: []*kopf.Child{nil}})
			},
		} {
			c.Run2(want, desired)
		}
	})
	c.Run(t, "RC-38 children are applied by the manager of the handler, and never posted", func(c *C) {
		op, _ := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1, "text": "x"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		c.Patch("a", spec(map[string]any{"text": "y"}))
		c.WaitFor("the change", func() bool { return c.configMaps().Get("a-0").View("data").String("text") == "y" })
		for _, q := range op.Wire.Writes() {
			if strings.Contains(q.Path, "configmaps") && (q.Method != http.MethodPatch || !strings.Contains(q.Path, "fieldManager=kopf-kopfexamples.kopf.dev") || !strings.Contains(q.Path, "force=true")) {
				c.Errorf("got the request %s %s", q.Method, q.Path)
			}
		}
		managed := fmt.Sprint(c.configMaps().Get("a-0").Get("metadata.managedFields"))
		if !strings.Contains(managed, "kopf-kopfexamples.kopf.dev") || !strings.Contains(managed, "Apply") {
			c.Errorf("got the managers %s", managed)
		}
	})
	c.Run(t, "RC-39 all that can be applied is, and the errors name the children", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("Bad_Name", nil), nil)
			r.Desired(desiredMap("good", nil), nil)
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the good one", func() bool { return c.configMaps().Exists("good") })
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		if line := op.Logs.Find("Handler 'reconcile' failed")[0]; !strings.Contains(fmt.Sprint(line), "ConfigMap "+c.Namespace+"/Bad_Name: ") {
			c.Errorf("got the line %v", line)
		}
	})
	c.Run(t, "RC-39 a field of another type, or that the kind does not have, fails the handler at once", func(c *C) {
		for name, bad := range map[string]map[string]any{
			"another type": desiredMap("bad", map[string]any{"a": 1}),
			"no field":     {"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "bad"}, "dta": map[string]any{"a": "1"}},
			"no quantity":  {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "bad"}, "spec": map[string]any{"hard": map[string]any{"cpu": "two"}}},
		} {
			op, _ := c.parenting(func(r *kopf.Reconcile) error {
				r.Desired(bad, nil)
				r.Desired(desiredMap("good", map[string]any{"of": name}), &kopf.DesiredOptions{Keep: true})
				return nil
			}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps", "resourcequotas"}, Backoff: time.Hour})
			c.Create("a", nil)
			c.WaitFor("the line", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
			if line := fmt.Sprint(op.Logs.Find("Handler 'reconcile' failed")[0]); !strings.Contains(line, bad["kind"].(string)+" "+c.Namespace+"/bad: ") {
				c.Errorf("got the line %s for %s", line, name)
			}
			if repeated := op.Logs.Find("Request attempt"); len(repeated) > 0 {
				c.Errorf("the request was repeated for %s: %v", name, repeated)
			}
			c.same("the other child", name, c.configMaps().Get("good").View("data").String("of"))
			op.Stop()
			c.Delete("a")
		}
	})
	c.Run(t, "RC-40 an object that is there without our reference is left alone, unless it is adopted", func(c *C) {
		c.configMaps().Create("x", map[string]any{"data": map[string]any{"theirs": "1"}})
		var adopt atomic.Bool
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", map[string]any{"ours": "2"}), &kopf.DesiredOptions{Adopt: adopt.Load()})
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		if line := fmt.Sprint(op.Logs.Find("Handler 'reconcile' failed")[0]); !strings.Contains(line, "ConfigMap "+c.Namespace+"/x: an object of its name is there already") {
			c.Errorf("got the line %s", line)
		}
		c.same("the data", map[string]any{"theirs": "1"}, c.configMaps().Get("x").Get("data"))
		adopt.Store(true)
		c.Patch("a", spec(map[string]any{"size": 3}))
		c.WaitFor("the adoption", func() bool { return c.configMaps().Get("x").View("data").String("ours") == "2" })
		c.same("the data", map[string]any{"theirs": "1", "ours": "2"}, c.configMaps().Get("x").Get("data"))
	})
	c.Run(t, "RC-40 one with another controller is not adopted either", func(c *C) {
		c.Create("boss", nil)
		boss := c.Get("boss")
		c.configMaps().Create("x", map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "boss", "uid": boss.UID(), "controller": true}}}})
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			if r.Name() == "a" {
				r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Adopt: true})
			}
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		if line := fmt.Sprint(op.Logs.Find("Handler 'reconcile' failed")[0]); !strings.Contains(line, `controlled by the KopfExample "boss"`) {
			c.Errorf("got the line %s", line)
		}
		if !c.configMaps().Exists("x") {
			c.Error("the object of the other owner is gone")
		}
	})
	c.Run(t, "RC-41 children that are not wanted any more are deleted, and others are not", func(c *C) {
		op, _ := c.parenting(bySize, nil)
		owner := c.Create("a", spec(map[string]any{"size": 3}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-2") })
		c.configMaps().Create("by-hand", map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "uid": owner.UID(), "controller": true}}}})
		c.configMaps().Create("alone", nil)
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the end of two", func() bool { return !c.configMaps().Exists("a-1") && !c.configMaps().Exists("a-2") })
		c.Pass(2 * time.Second)
		for _, name := range []string{"a-0", "by-hand", "alone"} {
			if !c.configMaps().Exists(name) {
				c.Errorf("%s is gone", name)
			}
		}
		for _, q := range op.Wire.Writes() {
			if q.Method == http.MethodDelete && (!strings.Contains(q.Body, `"uid"`) || !strings.Contains(q.Body, "Background")) {
				c.Errorf("got the deletion %s", q.Body)
			}
		}
		for _, line := range op.Logs.Find("Deleted a child that is not desired any more") {
			c.same("the kind in the log", "ConfigMap", line.Attrs["kind"])
		}
	})
	c.Run(t, "RC-41 children that handlers apply by the client, with the same manager, are left alone", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, h *kopf.Change) error {
			child := desiredMap("by-client", nil)
			if err := h.Adopt(child, nil); err != nil {
				return err
			}
			return h.Client.Apply(ctx, child, nil)
		}, &kopf.ChangeOptions{ID: "create"})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error { return bySize(r) }, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r)
		c.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("by-client") && c.configMaps().Exists("a-0") })
		c.Patch("a", spec(map[string]any{"size": 0}))
		c.WaitFor("the end of the one that was desired", func() bool { return !c.configMaps().Exists("a-0") })
		c.Pass(time.Second)
		if !c.configMaps().Exists("by-client") {
			c.Error("the one of the client is gone")
		}
	})
	c.Run(t, "RC-42 a child that is being deleted is not applied, and its going is a trigger", func(c *C) {
		_, l := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		first := c.configMaps().Get("a-0").UID()
		c.configMaps().Patch("a-0", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		c.Pass(time.Second)
		c.configMaps().Delete("a-0")
		c.Pass(2 * time.Second)
		if c.configMaps().Get("a-0").UID() != first {
			c.Error("it was made anew before it was gone")
		}
		n := len(l.all())
		c.configMaps().Patch("a-0", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.WaitFor("the new child", func() bool { return c.configMaps().Exists("a-0") && c.configMaps().Get("a-0").UID() != first })
		if len(l.all()) <= n {
			c.Error("it was not called when the child was gone")
		}
	})
	c.Run(t, "RC-43 Once is made if it is missing, and left alone", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", map[string]any{"password": fmt.Sprint(time.Now().UnixNano())}), &kopf.DesiredOptions{Once: true})
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(time.Second)
		c.Patch("a", spec(map[string]any{"size": 3}))
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"password": "mine"}})
		c.Pass(2 * time.Second)
		if got := c.configMaps().Get("x").View("data").String("password"); got != "mine" {
			c.Errorf("got the password %s", got)
		}
		c.same("the writes", []string{"PATCH x"}, withoutQueries(applies(op)))
		c.configMaps().Delete("x")
		c.WaitFor("the new one", func() bool { return c.configMaps().Exists("x") })
	})
	c.Run(t, "RC-43 Keep is not pruned, and has no owner", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			if r.Spec().Int("size") > 0 {
				r.Desired(desiredMap("x", map[string]any{"size": fmt.Sprint(r.Spec().Int("size"))}), &kopf.DesiredOptions{Keep: true})
			}
			return nil
		}, nil)
		c.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		if refs := c.configMaps().Get("x").Get("metadata.ownerReferences"); refs != nil {
			c.Errorf("got the owners %v", refs)
		}
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.WaitFor("the change", func() bool { return c.configMaps().Get("x").View("data").String("size") == "2" })
		c.Pass(time.Second)
		n := len(op.Wire.Requests())
		c.Patch("a", spec(map[string]any{"other": 2}))
		c.Pass(time.Second)
		for _, q := range op.Wire.Requests()[n:] {
			if strings.Contains(q.Path, "/"+c.Namespace+"/") { // other leaves of a real server define kinds, which are discovered
				c.Errorf("got the request %s %s for a child that is as it is wanted", q.Method, q.Path)
			}
		}
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"size": "theirs"}})
		c.WaitFor("the mend", func() bool { return c.configMaps().Get("x").View("data").String("size") == "2" })
		c.Patch("a", spec(map[string]any{"size": 0}))
		c.Pass(2 * time.Second)
		c.Delete("a")
		c.Pass(2 * time.Second)
		if !c.configMaps().Exists("x") {
			c.Error("it is gone")
		}
	})
	c.Run(t, "RC-43 a child that is to be kept from now on is not pruned, and loses its owner", func(c *C) {
		for _, once := range []bool{false, true} {
			op, _ := c.parenting(func(r *kopf.Reconcile) error {
				r.Desired(desiredMap("x", map[string]any{"size": "1"}), &kopf.DesiredOptions{Keep: r.Spec().Bool("keep"), Once: once})
				return nil
			}, nil)
			c.Create("a", nil)
			c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
			first := c.configMaps().Get("x").UID()
			c.Patch("a", spec(map[string]any{"keep": true}))
			c.Pass(2 * time.Second)
			c.same("the uid", first, c.configMaps().Get("x").UID())
			want := []string{"PATCH x", "PATCH x"}
			if once { // it never applies it again
				want = want[:1]
			} else if refs := c.configMaps().Get("x").Get("metadata.ownerReferences"); refs != nil {
				c.Errorf("got the owners %v", refs)
			}
			c.same("the writes", want, withoutQueries(applies(op)))
			c.Delete("a")
			c.Pass(2 * time.Second)
			if !once {
				c.same("the uid", first, c.configMaps().Get("x").UID())
				c.configMaps().Delete("x")
			}
			op.Stop()
		}
	})
	c.Run(t, "RC-44 Recreate makes a child anew whose field is immutable", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			m := desiredMap("x", map[string]any{"text": r.Spec().String("text")})
			m["immutable"] = true
			r.Desired(m, &kopf.DesiredOptions{Recreate: r.Spec().Bool("recreate")})
			return nil
		}, nil)
		c.Create("a", spec(map[string]any{"text": "one"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		uid := c.configMaps().Get("x").UID()
		c.Patch("a", spec(map[string]any{"text": "two"}))
		c.WaitFor("the error", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		if c.configMaps().Get("x").UID() != uid {
			c.Error("it was made anew without the option")
		}
		c.Patch("a", spec(map[string]any{"recreate": true}))
		c.WaitFor("the new child", func() bool {
			return slices.ContainsFunc(c.configMaps().List(), func(x *kopf.Body) bool { // for a while, there is none to get
				if c.InBubble() && x.Name() == "x" && x.Deleting() { // the real server has a garbage collector that does this
					c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"finalizers": nil}})
				}
				return x.Name() == "x" && x.View("data").String("text") == "two"
			})
		})
	})
	c.Run(t, "RC-10 changes of a child, its deletion, and the removal of the reference call its owner", func(c *C) {
		_, l := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1, "text": "x"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		c.Pass(2 * time.Second)
		more := func(what string, change func()) {
			n := len(l.all())
			change()
			c.Pass(2 * time.Second)
			if len(l.all()) <= n {
				c.Errorf("the owner was not called after %s", what)
			}
		}
		more("a change", func() { c.configMaps().Patch("a-0", map[string]any{"data": map[string]any{"theirs": "1"}}) })
		more("the deletion", func() { c.configMaps().Delete("a-0") })
		if !c.configMaps().Exists("a-0") {
			c.Error("the child was not made anew")
		}
		more("the removal of the reference", func() {
			c.configMaps().Patch("a-0", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
		})
		n := len(l.all())
		c.configMaps().Create("other", map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "uid": c.Get("a").UID()}}}})
		c.Pass(2 * time.Second)
		if got := len(l.all()); got > n+1 { // one for the retry after the removal
			c.Errorf("an owner that is no controller was called: %d times after %d", got, n)
		}
	})
	c.Run(t, "RC-11 the own apply calls nobody", func(c *C) {
		_, l := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 3}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-2") })
		c.Pass(2 * time.Second)
		c.expect(l, "a")
	})
	c.Run(t, "RC-52 a restart over unchanged children makes no write and no read but listings", func(c *C) {
		op, _ := c.parenting(bySize, nil)
		for i := range 10 {
			c.Create(fmt.Sprintf("a%d", i), spec(map[string]any{"size": 3, "text": "x"}))
		}
		c.WaitFor("the children", func() bool { return len(c.configMaps().List()) >= 30 })
		c.Pass(2 * time.Second)
		op.Stop()
		op, l := c.parenting(bySize, nil)
		c.WaitFor("the calls", func() bool { return len(l.all()) == 10 })
		c.Pass(2 * time.Second)
		for _, q := range op.Wire.Requests() {
			if q.Method != http.MethodGet || strings.Contains(q.Path, "/configmaps/") || strings.Contains(q.Path, "/kopfexamples/") {
				c.Errorf("got the request %s %s", q.Method, q.Path)
			}
		}
	})
	c.Run(t, "RC-52 of children that only an apply can judge, a restart applies one of a kind", func(c *C) {
		deployment := func(r *kopf.Reconcile) error {
			labels := map[string]any{"app": r.Name()}
			r.Desired(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{
				"replicas": 0, "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}}},
			}}, nil)
			return nil
		}
		opts := func() *kopf.ReconcileOptions {
			return &kopf.ReconcileOptions{Owns: []kopf.Selector{"deployments.apps"}}
		}
		op, _ := c.parenting(deployment, opts())
		for i := range 20 {
			c.Create(fmt.Sprintf("a%d", i), nil)
		}
		c.WaitFor("the children", func() bool { return len(c.Of("apps/v1", "Deployment").List()) >= 20 })
		c.Pass(2 * time.Second)
		op.Stop()
		op, l := c.parenting(deployment, opts())
		c.WaitFor("the calls", func() bool { return len(l.all()) == 20 })
		c.Pass(2 * time.Second)
		if writes := op.Wire.Writes(); len(writes) > 1 {
			c.Errorf("got %d writes, want one that shows how the kind is", len(writes))
		}
	})
	c.Run(t, "RC-53 a foreign change of our field is put right with one apply, one of another field with none", func(c *C) {
		op, l := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1, "text": "x"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		c.Pass(2 * time.Second)
		n := len(applies(op))
		c.configMaps().Patch("a-0", map[string]any{"data": map[string]any{"theirs": "1"}})
		c.WaitFor("the call", func() bool { return len(l.all()) == 2 })
		c.Pass(time.Second)
		if got := len(applies(op)); got != n {
			c.Errorf("got %d writes for a field of another client", got-n)
		}
		c.configMaps().Patch("a-0", map[string]any{"data": map[string]any{"text": "theirs"}})
		c.WaitFor("the mend", func() bool { return c.configMaps().Get("a-0").View("data").String("text") == "x" })
		c.Pass(2 * time.Second)
		if got := len(applies(op)); got != n+1 {
			c.Errorf("got %d writes for a field of ours, want 1", got-n)
		}
	})
	c.Run(t, "RC-49 a child carries the digest of what was wanted, which is the same for the same", func(c *C) {
		c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1, "text": "x"}))
		digest := func() string {
			text, _ := c.configMaps().Get("a-0").Annotation("kopf.zalando.org/wanted")
			return text
		}
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		first := digest()
		if len(first) != 20 {
			c.Errorf("got the digest %q", first)
		}
		for _, text := range []string{"y", "x"} {
			before := digest()
			c.Patch("a", spec(map[string]any{"text": text}))
			c.WaitFor("another digest", func() bool { return digest() != before })
		}
		if got := digest(); got != first {
			c.Errorf("got the digest %q, and %q before for the same", got, first)
		}
	})
	c.Run(t, "RC-50 a map of a child that becomes an empty one is not lost", func(c *C) {
		parts := c.Of("kopf.dev/v1", "KopfStatusExample")
		c.parenting(func(r *kopf.Reconcile) error {
			options := map[string]any{}
			if r.Spec().Bool("fast") {
				options["speed"] = 2
			}
			r.Desired(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfStatusExample", "metadata": map[string]any{"name": "part"}, "spec": map[string]any{"options": options}}, nil)
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"kopfstatusexamples"}})
		c.Create("a", spec(map[string]any{"fast": true}))
		c.WaitFor("the child", func() bool { return parts.Exists("part") })
		c.Of("kopf.dev/v1", "KopfExample").Patch("a", spec(map[string]any{"fast": false}))
		c.WaitFor("the change", func() bool { return parts.Get("part").Spec().Int("options.speed") == 0 })
		c.Pass(2 * time.Second)
		if part := parts.Get("part"); part.Get("spec.options") == nil {
			c.Errorf("the map is lost: %v", part.Map())
		}
	})
	c.Run(t, "RC-51 what was learnt of a kind is forgotten when its definition changes", func(c *C) {
		group, schema := c.Unique("parts")+".dev", func(list map[string]any) map[string]any {
			list["type"] = "array"
			list["items"] = map[string]any{"type": "object", "required": []any{"k"}, "properties": map[string]any{"k": map[string]any{"type": "string"}}}
			return map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": map[string]any{"l": list}}}}
		}
		c.Define(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "parts." + group}, "spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "parts", "singular": "part", "kind": "Part", "listKind": "PartList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": schema(map[string]any{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"k"}})}}},
		}})
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(map[string]any{"apiVersion": group + "/v1", "kind": "Part", "spec": map[string]any{"l": []any{}}}, nil)
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{kopf.Selector("parts." + group)}})
		parts := c.Of(group+"/v1", "Part")
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return parts.Exists("a") })
		c.Pass(2 * time.Second)
		n, calls := len(op.Wire.Writes()), len(l.all())
		parts.Patch("a", spec(map[string]any{"l": []any{map[string]any{"k": "theirs"}}})) // another item, which is no drift
		c.WaitFor("the call", func() bool { return len(l.all()) > calls })
		c.Pass(time.Second)
		c.nothingWritten(op, n)
		definitions := c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
		definitions.replace("parts."+group, "/spec/versions/0/schema/openAPIV3Schema", schema(map[string]any{"x-kubernetes-list-type": "atomic"}))
		c.Pass(2 * time.Second)
		parts.Patch("a", spec(map[string]any{"l": []any{map[string]any{"k": "other"}}})) // the whole list belongs to the operator
		c.WaitFor("the empty list", func() bool { list, _ := parts.Get("a").Get("spec.l").([]any); return len(list) == 0 })
	})
	c.Run(t, "RC-22 an owner that replaces its namesake is handled while the children of that are still applied", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("part-"+r.UID(), map[string]any{"value": fmt.Sprint(r.Spec().Int("value"))}), nil)
			return nil
		}, nil)
		var applied atomic.Int32
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && strings.Contains(q.Path, "/configmaps/part-") {
				switch applied.Add(1) {
				case 1:
					time.Sleep(time.Second) // of the first owner
				case 2:
					time.Sleep(1500 * time.Millisecond) // of the other owner
				}
			}
			return nil, nil
		})
		c.Create("a", spec(map[string]any{"value": 1}))
		c.WaitFor("the first apply", func() bool { return applied.Load() == 1 })
		c.Delete("a")
		second := c.Create("a", spec(map[string]any{"value": 2}))
		third := c.Create("b", spec(map[string]any{"value": 3}))
		for _, owner := range []*kopf.Body{second, third} {
			c.WaitFor("the child of "+owner.Name(), func() bool { return c.configMaps().Exists("part-" + owner.UID()) })
		}
		c.Pass(2 * time.Second)
		c.Patch("a", spec(map[string]any{"value": 4}))
		c.WaitFor("the change", func() bool { return c.configMaps().Get("part-"+second.UID()).Get("data.value") == "4" })
		if lines := op.Logs.Find("failed with an exception"); len(lines) > 0 {
			c.Errorf("got %s", lines[0])
		}
	})
	c.Run(t, "RC-56 a child with After is applied when these are ready, and others go on", func(c *C) {
		var ready atomic.Bool
		c.parenting(func(r *kopf.Reconcile) error {
			first := r.Desired(desiredMap("first", nil), &kopf.DesiredOptions{Ready: func(*kopf.Body) (bool, string) { return ready.Load(), "Not yet" }})
			r.Desired(desiredMap("second", nil), &kopf.DesiredOptions{After: []*kopf.Child{first}})
			r.Desired(desiredMap("third", nil), nil)
			r.Patch.Set("status.reason", first.Reason())
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("two of them", func() bool { return c.configMaps().Exists("first") && c.configMaps().Exists("third") })
		c.Pass(time.Second)
		if c.configMaps().Exists("second") {
			c.Error("it was applied before the first one was ready")
		}
		ready.Store(true)
		c.configMaps().Patch("first", map[string]any{"data": map[string]any{"x": "y"}})
		c.WaitFor("the second", func() bool { return c.configMaps().Exists("second") })
	})
	c.Run(t, "RC-12 a change of a watched object calls those that it is about, and was about", func(c *C) {
		l := &calls{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			return nil
		}, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", Objects: func(w *kopf.Watched) []kopf.ObjectReference {
			if to := w.Body.View("data").String("to"); to != "" {
				return []kopf.ObjectReference{{Namespace: w.Namespace(), Name: to}}
			}
			return nil
		}}}})
		c.configMaps().Create("x", map[string]any{"data": map[string]any{"to": "a"}})
		c.Create("a", nil)
		c.Create("b", nil)
		c.Operator(r)
		c.WaitFor("the first calls", func() bool { return len(l.all()) == 2 })
		c.Pass(2 * time.Second)
		if n := len(l.all()); n != 2 {
			c.Errorf("got the calls %v at the start", l.all())
		}
		step := func(want ...string) {
			c.Helper()
			c.Pass(2 * time.Second)
			got := l.all()[2:]
			slices.Sort(got)
			c.same("the calls", want, got)
			l.forget()
			l.add("")
			l.add("")
		}
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"more": "1"}})
		step("a")
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"to": "b"}})
		step("a", "b")
		c.configMaps().Delete("x")
		step("b")
	})
	c.Run(t, "RC-13 an index that a handler reads is not older than its trigger", func(c *C) {
		c.OnlyInBubble("a thousand changes")
		l := &calls{}
		r := &kopf.Registry{}
		values := kopf.OnIndexIn(r, "configmaps", func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{i.Name(): i.Body.View("data").String("n")}, nil
		}, &kopf.IndexOptions{ID: "values"})
		var last atomic.Int32
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			for _, v := range values.Get(r, "x") {
				if want := fmt.Sprint(last.Load()); v != want {
					l.add("the index has %s after the change to %s", v, want)
				}
			}
			return nil
		}, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps"}}})
		c.Create("a", nil)
		c.configMaps().Create("x", map[string]any{"data": map[string]any{"n": "0"}})
		c.Operator(r)
		for n := range 100 {
			last.Store(int32(n))
			c.configMaps().Patch("x", map[string]any{"data": map[string]any{"n": fmt.Sprint(n)}})
			c.Pass(100 * time.Millisecond)
		}
		c.expect(l)
	})
	c.Run(t, "RC-14 Objects that panics counts as none, and is told once", func(c *C) {
		l := &calls{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			return nil
		}, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", Objects: func(*kopf.Watched) []kopf.ObjectReference { panic("oops") }}}})
		c.Create("a", nil)
		op := c.Operator(r)
		c.configMaps().Create("x", nil)
		c.configMaps().Create("y", nil)
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("A function of a watch panicked")) > 0 })
		c.Pass(time.Second)
		if n := len(op.Logs.Find("A function of a watch panicked")); n != 1 {
			c.Errorf("got %d lines, want 1", n)
		}
		c.expect(l, "a")
	})
	c.Run(t, "RC-18 a kind that is not there is warned of once, and followed when it comes, with a call of all objects", func(c *C) {
		group := c.Unique("leaf") + ".dev"
		l := &calls{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			return nil
		}, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: kopf.Selector("gadgets." + group)}}})
		c.Create("a", nil)
		op := c.Operator(r)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Pass(2 * time.Second)
		if n := len(op.Logs.Find("Unresolved resources cannot be followed")); n != 1 {
			c.Errorf("got %d warnings, want 1", n)
		}
		c.Define(c.gadgets())
		c.WaitFor("the second call", func() bool { return len(l.all()) == 2 })
		c.gadget().Create("x", nil)
		c.WaitFor("the third call", func() bool { return len(l.all()) == 3 })
	})
	c.Run(t, "RC-19 no call is made before all that is followed was listed", func(c *C) {
		c.OnlyInBubble("the listing fails for minutes")
		var on atomic.Bool
		on.Store(true)
		l := &calls{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})
		c.Create("a", nil)
		op := c.Operator(r, func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(q *http.Request) (*http.Response, error) {
				if on.Load() && strings.Contains(q.URL.Path, "/configmaps") {
					return Answer(http.StatusForbidden, "Forbidden", "not allowed"), nil
				}
				return base.RoundTrip(q)
			})}
		})
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("Listing an owned or watched resource fails repeatedly")) == 1 })
		c.Pass(10 * time.Minute)
		if n := len(l.all()); n > 0 {
			c.Errorf("got %d calls before the children were listed", n)
		}
		on.Store(false)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
	})
	c.Run(t, "RC-22 a call sees what the one before has written, also if the streams are late", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		late := &lateStream{plural: "configmaps"}
		own := &lateStream{plural: "kopfexamples"}
		var n atomic.Int32
		source := &kopf.Source{}
		_, l := c.parenting(func(r *kopf.Reconcile) error {
			child := r.Desired(desiredMap("x", nil), nil)
			if call := n.Add(1); call > 1 && (!child.Exists() || r.Status().Int("calls") != int64(call-1)) {
				return kopf.Permanent(fmt.Errorf("call %d sees %d calls and a child %t", call, r.Status().Int("calls"), child.Exists()))
			}
			r.Patch.Set("status.calls", n.Load())
			return nil
		}, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}}, late.of, own.of)
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		late.held.Store(true)
		own.held.Store(true)
		for range 3 {
			source.TriggerAll()
			c.Pass(200 * time.Millisecond)
		}
		late.held.Store(false)
		own.held.Store(false)
		c.Pass(2 * time.Second)
		if got := c.Get("a").Status().Int("calls"); got < 4 {
			c.Errorf("got %d calls that have seen the one before", got)
		}
	})
	c.Run(t, "RC-45 an object whose reconcile handler vanishes keeps its children", func(c *C) {
		op, _ := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 2}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-1") })
		op.Stop()
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{Labels: kopf.Match{"none": kopf.Present}, Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r)
		c.Pass(2 * time.Second)
		if !c.configMaps().Exists("a-0") || !c.configMaps().Exists("a-1") {
			c.Error("a child is gone")
		}
	})
	c.Run(t, "RC-54 two that put each other right are told, and slowed down to once a minute", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		op, _ := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1, "text": "ours"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		began := time.Now()
		for time.Since(began) < time.Hour {
			if c.configMaps().Get("a-0").View("data").String("text") == "ours" {
				c.configMaps().Patch("a-0", map[string]any{"data": map[string]any{"text": "theirs"}})
			}
			c.Pass(500 * time.Millisecond)
		}
		if n := len(applies(op)); n > 90 || n < 40 {
			c.Errorf("got %d applies in an hour, want about one a minute", n)
		}
		if n := len(op.Logs.Find("Another client changes a child again and again")); n != 1 {
			c.Errorf("got %d lines about it, want 1", n)
		}
	})
	c.Run(t, "RC-54 two versions of an operator, which have the same manager, are slowed down as well", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		version := func(text string) *Running {
			op, _ := c.parenting(func(r *kopf.Reconcile) error {
				r.Desired(desiredMap("x", map[string]any{"text": text}), nil)
				return nil
			}, nil)
			return op
		}
		ops := []*Running{version("one"), version("two")}
		c.Create("a", nil)
		c.Pass(time.Hour)
		for _, op := range ops {
			if n := len(applies(op)); n > 90 {
				c.Errorf("got %d applies in an hour, want about one a minute", n)
			}
			if n := len(op.Logs.Find("Another client changes a child again and again")); n != 1 {
				c.Errorf("got %d lines about it, want 1", n)
			}
		}
		ops[1].Stop()
		c.Pass(2 * time.Minute)
		c.same("the text", "one", c.configMaps().Get("x").View("data").String("text"))
	})
	c.Run(t, "RC-54 changes of what is desired are not slowed down", func(c *C) {
		op, _ := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1}))
		for i := range 30 {
			c.Patch("a", spec(map[string]any{"text": fmt.Sprint(i % 2)}))
			c.WaitFor("the text", func() bool {
				return c.configMaps().Exists("a-0") && c.configMaps().Get("a-0").View("data").String("text") == fmt.Sprint(i%2)
			})
		}
		if lines := op.Logs.Find("Another client changes a child"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
	c.Run(t, "RC-12 without Objects, a watched object calls all", func(c *C) {
		l := &calls{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			return nil
		}, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", Labels: kopf.Match{"watched": "yes"}}}})
		c.Create("a", nil)
		c.Create("b", nil)
		c.Operator(r)
		c.WaitFor("the first calls", func() bool { return len(l.all()) == 2 })
		c.configMaps().Create("other", nil)
		c.Pass(time.Second)
		c.configMaps().Create("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"watched": "yes"}}})
		c.WaitFor("the calls", func() bool { return len(l.all()) == 4 })
		c.Pass(time.Second)
		if n := len(l.all()); n != 4 {
			c.Errorf("got the calls %v", l.all())
		}
	})
})

// Run2 has one object with an invalid desired state, and checks the message.
func (c *C) Run2(want string, desired func(r *kopf.Reconcile)) {
	c.Helper()
	op, _ := c.parenting(func(r *kopf.Reconcile) error {
		desired(r)
		return nil
	}, nil)
	defer op.Stop()
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, want))
	c.Create(name, nil)
	c.WaitFor("the message "+want, func() bool {
		return slices.ContainsFunc(op.Logs.Find("Handler 'reconcile' failed"), func(l Line) bool { return strings.Contains(fmt.Sprint(l), want) })
	})
}

// withoutQueries removes the queries.
func withoutQueries(requests []string) (all []string) {
	for _, q := range requests {
		q, _, _ = strings.Cut(q, "?")
		all = append(all, q)
	}
	return all
}
