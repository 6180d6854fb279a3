package contract

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that children keep their owners: when their options change, when responses are lost or late, and when several handlers or
// versions share one kind.

// inTwoVersions adds a second version to a CRD.
func inTwoVersions(spec, version map[string]any) {
	second := maps.Clone(version)
	second["name"], second["storage"] = "v1beta1", false
	spec["versions"] = []any{version, second}
}

// stays checks that an object remains the same one for a while.
func (c *C) stays(k *Kind, name, uid string) {
	c.Helper()
	c.Pass(2 * time.Second)
	if !k.Exists(name) {
		c.Fatalf("%s is gone", name)
	}
	if got := k.Get(name).UID(); got != uid {
		c.Errorf("%s was made anew", name)
	}
}

var _ = ClusterSuite("reconcile_ownership", func(t *testing.T, c *C) {
	c.Run(t, "RC-43 a child that is to be kept from now on is not pruned, and loses its owner", func(c *C) {
		c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Keep: r.Spec().Bool("keep")})
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		uid := c.configMaps().Get("x").UID()
		c.Pass(time.Second)
		c.Patch("a", spec(map[string]any{"keep": true}))
		c.stays(c.configMaps(), "x", uid)
		if refs := c.configMaps().Get("x").Get("metadata.ownerReferences"); refs != nil {
			c.Errorf("got the owners %v", refs)
		}
	})
	c.Run(t, "RC-43 a child with Once whose answer was lost is not pruned when its stream shows it", func(c *C) {
		c.OnlyInBubble("the stream has to be late")
		late := &lateStream{plural: "configmaps"}
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", map[string]any{"password": fmt.Sprint(time.Now().UnixNano())}), &kopf.DesiredOptions{Once: true})
			return nil
		}, nil, late.of)
		c.Pass(time.Second)
		late.held.Store(true)
		var lost, read atomic.Bool
		op.Wire.Lose(func(q *Request) bool {
			if !strings.Contains(q.Path, "/configmaps/x") {
				return false
			}
			if q.Method == http.MethodGet && !read.Swap(true) {
				late.held.Store(false)
				time.Sleep(time.Second)
			}
			return q.Method == http.MethodPatch && !lost.Swap(true)
		})
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		uid := c.configMaps().Get("x").UID()
		c.WaitFor("another attempt", read.Load)
		c.stays(c.configMaps(), "x", uid)
	})
	c.Run(t, "RC-41 a child of a kind that is owned in two versions is not pruned", func(c *C) {
		c.Define(c.gadgets(inTwoVersions))
		desired, opts := c.toGadgets()
		opts.Owns = append(opts.Owns, kopf.Selector("gadgets.v1beta1."+c.Unique("leaf")+".dev"))
		var deleted atomic.Int64
		op, _ := c.parenting(desired, opts)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodDelete && deleted.Add(1) > 5 {
				time.Sleep(time.Second) // otherwise it would never end
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.gadget().Exists("x") })
		c.Pass(time.Second)
		if n := deleted.Load(); n > 0 {
			c.Errorf("got %d deletions", n)
		}
		uid := c.gadget().Get("x").UID()
		c.Patch("a", spec(map[string]any{"n": 1}))
		c.stays(c.gadget(), "x", uid)
	})
	c.Run(t, "RC-53 a foreign change that the stream shows before the answer to our own apply is put right", func(c *C) {
		c.OnlyInBubble("the answer has to be late")
		op, _ := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1, "text": "one"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		c.Pass(time.Second)
		var changed atomic.Bool
		op.Wire.Lose(func(q *Request) bool {
			if q.Method == http.MethodPatch && strings.Contains(q.Path, "/configmaps/a-0") && !changed.Swap(true) {
				c.configMaps().Patch("a-0", map[string]any{"data": map[string]any{"text": "theirs"}})
				time.Sleep(time.Second)
			}
			return false
		})
		c.Patch("a", spec(map[string]any{"text": "two"}))
		c.WaitFor("the foreign change", changed.Load)
		c.WaitFor("the mend", func() bool { return c.configMaps().Get("a-0").View("data").String("text") == "two" })
	})
	c.Run(t, "RC-10 a change of a kept child calls its owner, also where handlers of other kinds have the same manager", func(c *C) {
		r := &kopf.Registry{}
		r.OnReconcile("kopfclusterexamples", func(context.Context, *kopf.Reconcile) error { return nil },
			&kopf.ReconcileOptions{ID: "one", Manager: "example", Owns: []kopf.Selector{"configmaps"}})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", map[string]any{"text": "ours"}), &kopf.DesiredOptions{Keep: true})
			return nil
		}, &kopf.ReconcileOptions{ID: "two", Manager: "example", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(time.Second)
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"text": "theirs"}})
		c.WaitFor("the mend", func() bool { return c.configMaps().Get("x").View("data").String("text") == "ours" })
	})
	c.Run(t, "RC-41 of two handlers that name a kind in different ways, only one owns it", func(c *C) {
		r := &kopf.Registry{}
		for id, kind := range map[kopf.HandlerID]kopf.Selector{"one": "configmaps", "two": "configmaps.v1"} {
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				r.Desired(desiredMap(string(id), nil), nil)
				return nil
			}, &kopf.ReconcileOptions{ID: id, Owns: []kopf.Selector{kind}})
		}
		op := c.Operator(r)
		if n := len(op.Logs.Find("they would delete each other's children")); n != 1 {
			c.Errorf("got %d warnings, want 1", n)
		}
		c.Create("a", nil)
		c.WaitFor("the failure", func() bool { return len(op.Logs.Find("failed with an exception")) > 0 })
		children := c.configMaps().List()
		if len(children) != 1 {
			c.Fatalf("got %d children, want 1", len(children))
		}
		c.Patch("a", spec(map[string]any{"n": 1}))
		c.stays(c.configMaps(), children[0].Name(), children[0].UID())
	})
	c.Run(t, "RC-37 one object in two versions is desired twice", func(c *C) {
		c.Define(c.gadgets(inTwoVersions))
		group := c.Unique("leaf") + ".dev"
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			for _, version := range []string{"v1", "v1beta1"} {
				r.Desired(map[string]any{"apiVersion": group + "/" + version, "kind": "Gadget", "metadata": map[string]any{"name": "x"}}, nil)
			}
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{kopf.Selector("gadgets." + group)}})
		c.Create("a", nil)
		c.WaitFor("the error", func() bool {
			return slices.ContainsFunc(op.Logs.Find("Handler 'reconcile' failed"), func(l Line) bool { return strings.Contains(fmt.Sprint(l), "is desired twice") })
		})
		if c.gadget().Exists("x") {
			c.Error("it was applied")
		}
	})
	c.Run(t, "RC-41 a child whose deletion a webhook has denied as a conflict is deleted later", func(c *C) {
		op, _ := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		c.Pass(time.Second)
		var denied atomic.Bool
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodDelete && !denied.Swap(true) {
				return Answer(http.StatusConflict, "Conflict", `admission webhook "x.example.com" denied the request: not now`), nil
			}
			return nil, nil
		})
		c.Patch("a", spec(map[string]any{"size": 0}))
		c.WaitFor("the end of the child", func() bool { return !c.configMaps().Exists("a-0") })
		if !denied.Load() {
			c.Error("it was not denied")
		}
	})
	c.Run(t, "RC-10 a change of a kept child calls its owner, also if its stream was quicker than the answer that has made it", func(c *C) {
		c.OnlyInBubble("the answer has to be late")
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", map[string]any{"text": "ours"}), &kopf.DesiredOptions{Keep: true})
			return nil
		}, nil)
		op.Wire.Lose(func(q *Request) bool {
			if q.Method == http.MethodPatch && strings.Contains(q.Path, "/configmaps/x") {
				time.Sleep(time.Second)
			}
			return false
		})
		c.Create("a", nil)
		c.Pass(2 * time.Second)
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"text": "theirs"}})
		c.WaitFor("the mend", func() bool { return c.configMaps().Get("x").View("data").String("text") == "ours" })
	})
	c.Run(t, "RC-41 children that others change all the time are pruned", func(c *C) {
		c.OnlyInBubble("a thousand changes")
		const children = 40
		c.parenting(bySize, nil)
		name := func(i int) string { return fmt.Sprintf("a-%d", i%children) }
		for range 3 {
			c.Apply("a", spec(map[string]any{"size": children}))
			c.WaitFor("the children", func() bool { return len(c.configMaps().List()) == children })
			for i := range children { // so that they can change until the end
				c.configMaps().Patch(name(i), map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
			}
			var others sync.WaitGroup
			for other := range 4 {
				others.Go(func() {
					for i := range 100 {
						c.configMaps().Patch(name(7*i+other), map[string]any{"data": map[string]any{"theirs": fmt.Sprint(i)}})
					}
				})
			}
			c.Patch("a", spec(map[string]any{"size": 0}))
			others.Wait()
			for i := range children {
				c.WaitFor("the deletion", func() bool { return c.configMaps().Get(name(i)).Deleting() })
				c.configMaps().Patch(name(i), map[string]any{"metadata": map[string]any{"finalizers": nil}})
			}
		}
	})
	c.Run(t, "RC-38 the name of a child does not lead to another path", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x/status", nil), nil)
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the error", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		for _, q := range op.Wire.Writes() {
			if !strings.Contains(q.Path, "/configmaps/x%2Fstatus?") {
				c.Errorf("got the request %s %s", q.Method, q.Path)
			}
		}
	})
	c.Run(t, "RC-43 a child that is not to be kept any more gets its owner, also after a restart", func(c *C) {
		desired := func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("of-"+r.Name(), map[string]any{"size": "1"}), &kopf.DesiredOptions{Keep: r.Spec().Bool("keep")})
			return nil
		}
		for name, restarts := range map[string]bool{"a": false, "b": true} {
			op, _ := c.parenting(desired, nil)
			owner := c.Create(name, spec(map[string]any{"keep": true}))
			c.WaitFor("the child", func() bool { return c.configMaps().Exists("of-" + name) })
			first := c.configMaps().Get("of-" + name).UID()
			c.Pass(2 * time.Second)
			if restarts {
				op.Stop()
			}
			c.Patch(name, spec(map[string]any{"keep": false}))
			if restarts {
				op, _ = c.parenting(desired, nil)
			}
			c.Pass(2 * time.Second)
			child := c.configMaps().Get("of-" + name)
			c.same("the uid", first, child.UID())
			refs, _ := child.Get("metadata.ownerReferences").([]any)
			if len(refs) != 1 || refs[0].(map[string]any)["uid"] != owner.UID() {
				c.Errorf("got the owner references %v", refs)
			}
			op.Stop()
			c.Delete(name)
		}
	})
	c.Run(t, "RC-40 a child that another object has kept is left alone", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Keep: r.Name() == "a"})
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(2 * time.Second)
		c.Create("b", nil)
		c.WaitFor("the failure", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		if refs := c.configMaps().Get("x").Get("metadata.ownerReferences"); refs != nil {
			c.Errorf("got the owner references %v", refs)
		}
	})
})
