package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/applyset"
)

// This suite proves how kopf manages children that cannot have an owner reference: those in another namespace than their owner, or cluster-scoped ones.

// namespace creates a namespace for the leaf.
func (c *C) namespace(suffix string) string {
	c.Helper()
	name := c.Unique(suffix)
	c.Define(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	return name
}

// In returns the verbs for the kind in another namespace.
func (k *Kind) In(namespace string) *Kind {
	c := *k.c
	c.Namespace = namespace
	return &Kind{c: &c, apiVersion: k.apiVersion, kind: k.kind, clusterwide: k.clusterwide}
}

// in has the operator serve more namespaces than that of the leaf.
func in(namespaces ...string) func(*kopf.Operator) {
	return func(op *kopf.Operator) { op.Namespaces = append(op.Namespaces, namespaces...) }
}

// byTargets wants a config map in each namespace in the spec.
func byTargets(r *kopf.Reconcile) error {
	targets, _ := r.Spec().Get("targets").([]any)
	if len(targets) == 0 {
		r.NoChildren()
	}
	for _, target := range targets {
		m := desiredMap(r.Name(), map[string]any{"text": r.Spec().String("text")})
		m["metadata"].(map[string]any)["namespace"] = target
		r.Desired(m, nil)
	}
	return nil
}

func targets(namespaces ...any) map[string]any { return spec(map[string]any{"targets": namespaces}) }

// setOf returns the ID of the set of a KopfExample.
func (c *C) setOf(name string) string {
	return applyset.ID(name, c.Namespace, "KopfExample", "kopf.dev")
}

// parentOf returns the set in an object's annotations: the ID, the kinds, the namespaces, and whether it has the finalizer.
func parentOf(b *kopf.Body) string {
	id, _ := b.Label(applyset.IDLabel)
	kinds, _ := b.Annotation(applyset.GroupKindsAnnotation)
	namespaces, _ := b.Annotation(applyset.NamespacesAnnotation)
	return fmt.Sprintf("%s %s %s %t", id, kinds, namespaces, len(b.Finalizers()) > 0)
}

// nothingWritten fails if the operator has written to the object or its children since.
func (c *C) nothingWritten(op *Running, before int) {
	c.Helper()
	for _, q := range op.Wire.Writes()[before:] {
		c.Errorf("got the request %s %s %s", q.Method, q.Path, q.Body)
	}
}

var _ = ClusterSuite("reconcile_elsewhere", func(t *testing.T, c *C) {
	for _, trigger := range []string{"Objects", "Source"} {
		c.Run(t, "RC-6 a reference without the namespace of the object is logged once: "+trigger, func(c *C) {
			var l reconciles
			source, named := &kopf.Source{}, func(namespace string) kopf.ObjectReference {
				return kopf.ObjectReference{Namespace: namespace, Name: "a"}
			}
			op := c.Reconciled(&l, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}, Watches: []kopf.Watch{{
				Of: "configmaps", Objects: func(w *kopf.Watched) []kopf.ObjectReference {
					if trigger == "Objects" {
						return []kopf.ObjectReference{named("")}
					}
					return []kopf.ObjectReference{}
				},
			}}})
			c.Create("a", nil)
			c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
			for i := range 2 {
				if source.Trigger(named(c.Get("a").Namespace())); trigger == "Source" {
					source.Trigger(named(""))
				}
				c.configMaps().Create(fmt.Sprint("x", i), nil)
				c.WaitFor("the line", func() bool { return len(op.Logs.Find("A reference triggers no object")) > 0 })
			}
			c.Pass(time.Second)
			if lines := op.Logs.Find("A reference triggers no object"); len(lines) != 1 || lines[0].Attrs["name"] != "a" || lines[0].Attrs["help"] != "K720" {
				c.Errorf("got the lines %v, want one", lines)
			}
		})
	}
	c.Run(t, "RC-42 a child in another namespace that leaves the set while it is being deleted is made again", func(c *C) {
		other := c.namespace("other")
		c.parenting(byTargets, nil, in(other))
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		c.endWithout(c.configMaps().In(other), "a", map[string]any{"labels": nil})
	})
	c.Run(t, "RC-T5 a child in another namespace gets no owner reference, and one in that of the owner does", func(c *C) {
		other := c.namespace("other")
		c.parenting(byTargets, nil, in(other))
		owner := c.Create("a", targets(c.Namespace, other))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a") && c.configMaps().In(other).Exists("a") })
		elsewhere := c.configMaps().In(other).Get("a")
		if refs := elsewhere.Get("metadata.ownerReferences"); refs != nil {
			c.Errorf("got the owners %v in another namespace", refs)
		}
		c.same("the labels elsewhere", map[string]string{applyset.PartOfLabel: c.setOf("a")}, elsewhere.Labels())
		refs, _ := c.configMaps().Get("a").Get("metadata.ownerReferences").([]any)
		if len(refs) != 1 || refs[0].(map[string]any)["uid"] != owner.UID() {
			c.Errorf("got the owners %v in the namespace of the owner", refs)
		}
		c.same("the labels", map[string]string{}, c.configMaps().Get("a").Labels())
	})
	c.Run(t, "RC-46 a child in no namespace of an owner in one gets no owner reference", func(c *C) {
		name := c.Unique("wide")
		c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfClusterExample", "metadata": map[string]any{"name": name}, "spec": map[string]any{"x": 1}}, nil)
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"kopfclusterexamples"}})
		c.Create("a", nil)
		wide := c.Of("kopf.dev/v1", "KopfClusterExample")
		c.WaitFor("the child", func() bool { return wide.Exists(name) })
		if refs := wide.Get(name).Get("metadata.ownerReferences"); refs != nil {
			c.Errorf("got the owners %v", refs)
		}
		c.same("the owner", c.setOf("a")+" KopfClusterExample.kopf.dev  true", parentOf(c.Get("a")))
		c.Delete("a")
		c.WaitFor("the end of both", func() bool { return !c.Exists("a") && !wide.Exists(name) })
	})
	c.Run(t, "RC-46 an owner in no namespace is the owner of its children in namespaces by reference", func(c *C) {
		name, wide := c.Unique("wide"), c.Of("kopf.dev/v1", "KopfClusterExample")
		r := &kopf.Registry{}
		r.OnReconcile("kopfclusterexamples", func(_ context.Context, r *kopf.Reconcile) error {
			if r.Name() == name {
				m := desiredMap("x", nil)
				m["metadata"].(map[string]any)["namespace"] = c.Namespace
				r.Desired(m, nil)
			}
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r)
		owner := wide.Create(name, nil)
		c.Cleanup(func() { _ = c.Client.Delete(contextWithout(c.Context()), wide.Ref(name), nil) })
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		refs, _ := c.configMaps().Get("x").Get("metadata.ownerReferences").([]any)
		if len(refs) != 1 || refs[0].(map[string]any)["uid"] != owner.UID() {
			c.Errorf("got the owners %v", refs)
		}
		if got := wide.Get(name); len(got.Finalizers())+len(got.Labels()) > 0 {
			c.Errorf("got the owner %v", got.Map())
		}
	})
	c.Run(t, "RC-47 the owner says where its members are, before they are made, and its definition that it can", func(c *C) {
		one, two := c.namespace("one"), c.namespace("two")
		op, _ := c.parenting(byTargets, nil, in(one, two))
		c.Create("a", targets(one, two, c.Namespace))
		c.WaitFor("the children", func() bool { return c.configMaps().In(two).Exists("a") && c.configMaps().Exists("a") })
		owner := c.Get("a")
		c.same("the owner", c.setOf("a")+" ConfigMap "+one+","+two+" true", parentOf(owner))
		if tooling, _ := owner.Annotation(applyset.ToolingAnnotation); tooling != "kopf/"+kopf.Version {
			c.Errorf("got the tooling %q", tooling)
		}
		if label, _ := c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition").Get("kopfexamples.kopf.dev").Label(applyset.ParentTypeLabel); label != "true" {
			c.Errorf("got the label %q on the definition", label)
		}
		stored := false
		for _, q := range op.Wire.Writes() {
			if strings.Contains(q.Path, "/kopfexamples/") {
				stored = strings.Contains(q.Body, one) && strings.Contains(q.Body, two) && strings.Contains(q.Body, "Finalizer")
			}
			if strings.Contains(q.Path, "/configmaps/") && !stored {
				c.Errorf("the child %s was applied before its owner has said so", q.Path)
			}
		}
	})
	c.Run(t, "RC-T7 the last member of a namespace is pruned, and the owner says less after that", func(c *C) {
		one, two := c.namespace("one"), c.namespace("two")
		op, l := c.parenting(byTargets, nil, in(one, two))
		c.Create("a", targets(one, two))
		c.WaitFor("the children", func() bool { return c.configMaps().In(one).Exists("a") && c.configMaps().In(two).Exists("a") })
		c.Pass(time.Second)
		c.expect(l, "a") // the operator's own annotations on the owner are no change
		c.Patch("a", targets(two))
		c.WaitFor("the end of one", func() bool { return !c.configMaps().In(one).Exists("a") })
		c.WaitFor("the smaller set", func() bool { return parentOf(c.Get("a")) == c.setOf("a")+" ConfigMap "+two+" true" })
		c.Patch("a", targets())
		c.WaitFor("the end of the other", func() bool { return !c.configMaps().In(two).Exists("a") })
		c.WaitFor("the end of the set", func() bool { return parentOf(c.Get("a")) == "   false" })
		c.Pass(2 * time.Second)
		if n := len(l.all()); n != 3 {
			c.Errorf("got %d calls, want 3", n)
		}
		n := len(op.Wire.Writes())
		c.Pass(2 * time.Second)
		c.nothingWritten(op, n)
	})
	c.Run(t, "RC-47 a pruned member that does not go yet stays in the set", func(c *C) {
		other := c.namespace("other")
		c.parenting(byTargets, nil, in(other))
		c.Create("a", targets(other))
		members := c.configMaps().In(other)
		c.WaitFor("the child", func() bool { return members.Exists("a") })
		members.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		c.Pass(time.Second)
		c.Patch("a", targets())
		c.WaitFor("the deletion", func() bool { return members.Get("a").Deleting() })
		c.Pass(2 * time.Second)
		c.same("the owner", c.setOf("a")+" ConfigMap "+other+" true", parentOf(c.Get("a")))
		members.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.WaitFor("the end of the set", func() bool { return parentOf(c.Get("a")) == "   false" })
	})
	c.Run(t, "RC-47 neither the owner nor its members make a request when nothing differs, also after a restart", func(c *C) {
		other := c.namespace("other")
		op, _ := c.parenting(byTargets, nil, in(other))
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		c.Pass(2 * time.Second)
		n := len(op.Wire.Writes())
		c.Patch("a", map[string]any{"spec": map[string]any{"other": 1}})
		c.Pass(2 * time.Second)
		c.nothingWritten(op, n)
		op.Stop()
		op, l := c.parenting(byTargets, nil, in(other))
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		c.Pass(2 * time.Second)
		c.nothingWritten(op, 0)
	})
	c.Run(t, "RC-47 changes of a member call its owner, and are put right, also after a restart", func(c *C) {
		other := c.namespace("other")
		op, _ := c.parenting(byTargets, nil, in(other))
		c.Create("a", spec(map[string]any{"targets": []any{other}, "text": "ours"}))
		members := c.configMaps().In(other)
		text := func() string { return members.Get("a").View("data").String("text") }
		c.WaitFor("the child", func() bool { return members.Exists("a") })
		for range 2 {
			c.Pass(2 * time.Second)
			members.Patch("a", map[string]any{"data": map[string]any{"text": "theirs"}})
			c.WaitFor("the mend", func() bool { return text() == "ours" })
			members.Delete("a")
			c.WaitFor("the new child", func() bool { return members.Exists("a") })
			op.Stop()
			var l *calls
			op, l = c.parenting(byTargets, nil, in(other))
			c.WaitFor("the call", func() bool { return len(l.all()) > 0 })
		}
	})
	c.Run(t, "RC-47 a set of another tooling is an error, and nothing is applied", func(c *C) {
		other := c.namespace("other")
		op, _ := c.parenting(byTargets, nil, in(other))
		object := targets(other)
		object["metadata"] = map[string]any{"labels": map[string]any{applyset.IDLabel: c.setOf("a")}, "annotations": map[string]any{
			applyset.ToolingAnnotation: "kubectl/v1.36.3", applyset.GroupKindsAnnotation: "Secret", applyset.NamespacesAnnotation: ""}}
		before := c.Create("a", object)
		c.WaitFor("the error", func() bool {
			return slices.ContainsFunc(op.Logs.Find("Handler 'reconcile' failed"), func(l Line) bool { return strings.Contains(fmt.Sprint(l), "kubectl/v1.36.3") })
		})
		c.Pass(2 * time.Second)
		c.nothingWritten(op, 0)
		if now := c.Get("a"); now.ResourceVersion() != before.ResourceVersion() {
			c.Errorf("the owner was changed: %v", now.Map())
		}
		c.Delete("a")
		c.WaitFor("the end", func() bool { return !c.Exists("a") })
	})
	c.Run(t, "RC-47 change handlers take what the owner says of its set for no change", func(c *C) {
		other := c.namespace("other")
		l := &calls{}
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("%v", ch.Diff())
			return nil
		}, &kopf.ChangeOptions{ID: "update"})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error { return byTargets(r) }, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r, in(other))
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		c.Pass(2 * time.Second)
		c.expect(l)
	})
	c.Run(t, "RC-40 an object elsewhere that is no member is left alone, unless it is adopted, and a member of another set always", func(c *C) {
		other := c.namespace("other")
		members := c.configMaps().In(other)
		members.Create("a", map[string]any{"data": map[string]any{"theirs": "1"}})
		members.Create("b", map[string]any{"metadata": map[string]any{"labels": map[string]any{applyset.PartOfLabel: "applyset-of-another-tool-v1"}}})
		var adopt atomic.Bool
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			m := desiredMap(r.Name(), map[string]any{"ours": "2"})
			m["metadata"].(map[string]any)["namespace"] = other
			r.Desired(m, &kopf.DesiredOptions{Adopt: adopt.Load()})
			return nil
		}, nil, in(other))
		c.Create("a", nil)
		c.WaitFor("the error", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		c.same("the data", map[string]any{"theirs": "1"}, members.Get("a").Get("data"))
		adopt.Store(true)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the adoption", func() bool { return members.Get("a").View("data").String("ours") == "2" })
		c.Create("b", nil)
		c.WaitFor("the error", func() bool {
			return slices.ContainsFunc(op.Logs.Find("Handler 'reconcile' failed"), func(l Line) bool { return strings.Contains(fmt.Sprint(l), "applyset-of-another-tool-v1") })
		})
		if members.Get("b").Has("data") {
			c.Error("a member of another set was changed")
		}
	})
	c.Run(t, "RC-43 Keep elsewhere is no member, and stays when its owner goes", func(c *C) {
		other := c.namespace("other")
		c.parenting(func(r *kopf.Reconcile) error {
			m := desiredMap("kept", nil)
			m["metadata"].(map[string]any)["namespace"] = other
			r.Desired(m, &kopf.DesiredOptions{Keep: true})
			return nil
		}, nil, in(other))
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("kept") })
		c.same("the labels", map[string]string{}, c.configMaps().In(other).Get("kept").Labels())
		c.same("the owner", "   false", parentOf(c.Get("a")))
		c.Delete("a")
		c.Pass(2 * time.Second)
		if !c.configMaps().In(other).Exists("kept") {
			c.Error("it is gone")
		}
	})
	c.Run(t, "RC-43 a member that is to be kept from now on is not pruned, and leaves the set", func(c *C) {
		other := c.namespace("other")
		c.parenting(func(r *kopf.Reconcile) error {
			m := desiredMap("kept", nil)
			m["metadata"].(map[string]any)["namespace"] = other
			r.Desired(m, &kopf.DesiredOptions{Keep: r.Spec().Bool("keep")})
			return nil
		}, nil, in(other))
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("kept") })
		first := c.configMaps().In(other).Get("kept").UID()
		c.Patch("a", spec(map[string]any{"keep": true}))
		c.WaitFor("the end of the set", func() bool { return parentOf(c.Get("a")) == "   false" })
		c.same("the uid", first, c.configMaps().In(other).Get("kept").UID())
		c.same("the labels", map[string]string{}, c.configMaps().In(other).Get("kept").Labels())
		c.Delete("a")
		c.Pass(2 * time.Second)
		c.same("the uid", first, c.configMaps().In(other).Get("kept").UID())
	})
	c.Run(t, "RC-43 a child elsewhere that is not to be kept any more is a member from now on", func(c *C) {
		other := c.namespace("other")
		c.parenting(func(r *kopf.Reconcile) error {
			m := desiredMap("kept", nil)
			m["metadata"].(map[string]any)["namespace"] = other
			r.Desired(m, &kopf.DesiredOptions{Keep: r.Spec().Bool("keep")})
			return nil
		}, nil, in(other))
		c.Create("a", spec(map[string]any{"keep": true}))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("kept") })
		first := c.configMaps().In(other).Get("kept").UID()
		c.Pass(2 * time.Second)
		c.Patch("a", spec(map[string]any{"keep": false}))
		c.WaitFor("the set", func() bool {
			return c.configMaps().In(other).Get("kept").Labels()["applyset.kubernetes.io/part-of"] == c.setOf("a")
		})
		c.same("the uid", first, c.configMaps().In(other).Get("kept").UID())
		c.Delete("a")
		c.WaitFor("the end", func() bool { return !c.configMaps().In(other).Exists("kept") })
	})
	c.Run(t, "RC-37 a namespace that the operator does not serve fails the handler, and so does the label of a set", func(c *C) {
		for want, change := range map[string]func(metadata map[string]any){
			"want one that the operator serves": func(m map[string]any) { m["namespace"] = "elsewhere" },
			"invalid label":                     func(m map[string]any) { m["labels"] = map[string]any{applyset.PartOfLabel: "applyset-x-v1"} },
		} {
			c.Run2(want, func(r *kopf.Reconcile) {
				m := desiredMap("x", nil)
				change(m["metadata"].(map[string]any))
				r.Desired(m, nil)
			})
		}
	})
	c.Run(t, "RC-35 the labels of an owner that is in a set itself do not make its children members", func(c *C) {
		c.parenting(bySize, nil)
		c.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{applyset.PartOfLabel: "applyset-x-v1", "x": "1"}}, "spec": map[string]any{"size": 1}})
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		c.same("the labels", map[string]string{"x": "1"}, c.configMaps().Get("a-0").Labels())
	})
	c.Run(t, "RC-T6 the owner goes when its members are gone, and the handler is not called for that", func(c *C) {
		one, two := c.namespace("one"), c.namespace("two")
		op, _ := c.parenting(byTargets, nil, in(one, two))
		c.Create("a", targets(one, two))
		c.Create("b", targets(one))
		held := c.configMaps().In(two)
		c.WaitFor("the children", func() bool { return held.Exists("a") && c.configMaps().In(one).Exists("b") })
		held.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		op.Stop()
		c.Delete("a") // otherwise a handler that cannot compute anything would block it permanently
		_, l := c.parenting(func(r *kopf.Reconcile) error {
			if r.Name() == "a" {
				return errors.New("the spec makes no sense any more")
			}
			return byTargets(r)
		}, nil, in(one, two))
		c.WaitFor("the end of one", func() bool { return !c.configMaps().In(one).Exists("a") })
		c.Pass(2 * time.Second)
		if !c.Exists("a") {
			c.Error("the owner has gone before its child")
		}
		held.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.WaitFor("the end of the owner", func() bool { return !c.Exists("a") })
		if !c.Exists("b") || !c.configMaps().In(one).Exists("b") {
			c.Error("another owner or its child is gone")
		}
		c.expect(l, "b")
	})
	c.Run(t, "RC-48 members are found where the handler does not own their kind any more", func(c *C) {
		other := c.namespace("other")
		op, _ := c.parenting(byTargets, nil, in(other))
		c.Create("a", targets(other))
		members := c.configMaps().In(other)
		c.WaitFor("the child", func() bool { return members.Exists("a") })
		op.Stop()
		members.Create("copy", map[string]any{"metadata": map[string]any{"labels": map[string]any{applyset.PartOfLabel: c.setOf("a")}}})
		c.parenting(func(*kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{Owns: []kopf.Selector{"secrets"}}, func(*kopf.Operator) {})
		c.Pass(time.Second)
		if !members.Exists("a") {
			c.Error("the child of a kind that is not owned any more is gone")
		}
		c.Delete("a")
		c.WaitFor("the end of both", func() bool { return !c.Exists("a") && !members.Exists("a") })
		if !members.Exists("copy") {
			c.Error("an object that has only the label is gone")
		}
	})
	c.Run(t, "RC-48 deletion handlers go first, and once, and the members after them", func(c *C) {
		other := c.namespace("other")
		members := c.configMaps().In(other)
		l := &calls{}
		registry := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnDelete(Examples, func(context.Context, *kopf.Change) error {
				l.add("%t", members.Exists("a"))
				return nil
			}, &kopf.ChangeOptions{ID: "delete"})
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error { return byTargets(r) }, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
			return r
		}
		op := c.Operator(registry(), in(other))
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return members.Exists("a") })
		members.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		c.Delete("a")
		c.WaitFor("the deletion of the child", func() bool { return members.Get("a").Deleting() })
		c.Pass(time.Second)
		op.Stop()
		c.Operator(registry(), in(other))
		c.Pass(time.Second)
		members.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.WaitFor("the end", func() bool { return !c.Exists("a") && !members.Exists("a") })
		c.expect(l, "true")
	})
	c.Run(t, "RC-48 without the permission to list them, the owner stays until there is one", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		other := c.namespace("other")
		op, _ := c.parenting(byTargets, nil, in(other))
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		var forbidden atomic.Bool
		forbidden.Store(true)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if forbidden.Load() && strings.Contains(q.Path, "labelSelector=") {
				return Answer(http.StatusForbidden, "Forbidden", "not allowed"), nil
			}
			return nil, nil
		})
		c.Delete("a")
		c.Pass(time.Hour)
		if !c.Exists("a") || !c.configMaps().In(other).Exists("a") {
			c.Error("the owner has gone")
		}
		if n := len(op.Logs.Find("Deleting children in other namespaces failed")); n < 100 || n > 150 {
			c.Errorf("got %d lines in an hour", n)
		}
		forbidden.Store(false)
		c.WaitFor("the end", func() bool { return !c.Exists("a") && !c.configMaps().In(other).Exists("a") })
	})
	c.Run(t, "RC-48 nothing is left wherever the program is killed", func(c *C) {
		c.OnlyInBubble("it takes many runs")
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				if !c.killedElsewhere(at, after) {
					break
				}
			}
		}
	})
	c.Run(t, "RC-T7 a namespace that is not wanted any more stays while something wanted is in it", func(c *C) {
		name := c.Unique("own")
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			if r.Spec().Bool("namespace") {
				r.Desired(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}, nil)
			}
			switch {
			case r.Spec().Bool("content"):
				m := desiredMap("x", nil)
				m["metadata"].(map[string]any)["namespace"] = name
				r.Desired(m, nil)
			case !r.Spec().Bool("namespace"):
				r.NoChildren()
			}
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"namespaces", "configmaps"}}, in(name))
		c.Create("a", spec(map[string]any{"namespace": true, "content": true}))
		namespaces := c.Of("v1", "Namespace")
		c.WaitFor("the content", func() bool { return namespaces.Exists(name) && c.configMaps().In(name).Exists("x") })
		c.Patch("a", spec(map[string]any{"namespace": false}))
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("Leaving a namespace that is not desired any more")) > 0 })
		if namespaces.Get(name).Deleting() {
			c.Error("the namespace is deleted with what is wanted in it")
		}
		c.Patch("a", spec(map[string]any{"content": false}))
		c.WaitFor("the deletion", func() bool { return !namespaces.Exists(name) || namespaces.Get(name).Deleting() })
	})
	c.Run(t, "RC-48 what another client removes from the owner of a set is stored again", func(c *C) {
		other := c.namespace("other")
		c.parenting(byTargets, nil, in(other))
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		before := parentOf(c.Get("a"))
		c.Patch("a", map[string]any{"metadata": map[string]any{"labels": nil, "annotations": nil, "finalizers": nil}})
		c.WaitFor("the set", func() bool { return parentOf(c.Get("a")) == before })
		c.Delete("a")
		c.WaitFor("the end", func() bool { return !c.Exists("a") })
		if c.configMaps().In(other).Exists("a") {
			c.Error("the child is left")
		}
	})
	c.Run(t, "RC-54 a client that removes it again and again slows the operator down", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		other := c.namespace("other")
		op, _ := c.parenting(byTargets, nil, in(other))
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		for began := time.Now(); time.Since(began) < time.Hour; c.Pass(500 * time.Millisecond) {
			if _, is := c.Get("a").Label(applyset.IDLabel); is {
				c.Patch("a", map[string]any{"metadata": map[string]any{"labels": nil, "annotations": nil}})
			}
		}
		if n := len(op.Wire.Writes()); n > 300 {
			c.Errorf("got %d writes in an hour", n)
		}
		if n := len(op.Logs.Find("again and again")); n != 1 {
			c.Errorf("got %d warnings, want 1", n)
		}
	})
	c.Run(t, "RC-48 members of a kind that is missing for a moment, as when an API server starts, are not left", func(c *C) {
		c.OnlyInBubble("the discovery has to be incomplete")
		var missing atomic.Bool
		other := c.namespace("other")
		c.Define(c.gadgets())
		start := func() *Running {
			desired, opts := c.toGadgets()
			op, _ := c.parenting(desired, opts, in(other), through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
				resp, err := base.RoundTrip(q)
				if err == nil && missing.Load() && q.URL.Path == "/apis" {
					err = withoutGroup(resp, c.Unique("leaf")+".dev")
				}
				return resp, err
			}))
			return op
		}
		op := start()
		c.Create("a", spec(map[string]any{"namespace": other}))
		c.WaitFor("the child", func() bool { return c.gadget().In(other).Exists("x") })
		c.Pass(time.Second)
		op.Stop()
		c.Delete("a")
		missing.Store(true)
		start()
		c.Pass(2 * time.Second)
		missing.Store(false)
		c.WaitFor("the end", func() bool { return !c.Exists("a") })
		if c.gadget().In(other).Exists("x") {
			c.Error("the child is left")
		}
	})
})

// killedElsewhere kills an operator at a write while it creates, moves and deletes children in other namespaces, and starts another one. It reports
// whether there was such a write.
func (c *C) killedElsewhere(at int, after bool) (killed bool) {
	c.Helper()
	id := fmt.Sprintf("%d-%t", at, after)
	one, two := c.namespace("one-"+id), c.namespace("two-"+id)
	name := "a-" + id
	op, _ := c.parenting(byTargets, nil, in(one, two))
	op.Wire.CutAt(at, after)
	where := func(namespace string) *Kind { return c.configMaps().In(namespace) }
	// step waits until a condition holds, and starts another operator if the first one is killed.
	step := func(holds func() bool) {
		c.Helper()
		for range 500 {
			c.Pass(20 * time.Millisecond)
			if op.Wire.Dead() && !killed {
				killed = true
				op.Crash()
				op, _ = c.parenting(byTargets, nil, in(one, two))
			}
			if holds() {
				return
			}
			c.Pass(time.Second)
		}
		c.Fatalf("killed at write %d (after it: %t), it does not go on", at, after)
	}
	c.Create(name, targets(one))
	step(func() bool { return where(one).Exists(name) })
	c.Patch(name, targets(two))
	step(func() bool { return where(two).Exists(name) && !where(one).Exists(name) })
	step(func() bool { return parentOf(c.Get(name)) == c.setOf(name)+" ConfigMap "+two+" true" })
	c.Delete(name)
	step(func() bool { return !c.Exists(name) })
	if where(one).Exists(name) || where(two).Exists(name) {
		c.Errorf("killed at write %d (after it: %t), a child is left", at, after)
	}
	op.Stop()
	return killed
}

// withoutGroup removes a group from a response about all groups.
func withoutGroup(resp *http.Response, group string) error {
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	for _, key := range []string{"items", "groups"} { // the two formats of such responses
		if all, ok := answer[key].([]any); ok {
			answer[key] = slices.DeleteFunc(all, func(one any) bool { return strings.Contains(fmt.Sprint(one), group) })
		}
	}
	data, err := json.Marshal(answer)
	_ = resp.Body.Close() // already read
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	resp.Header.Del("Content-Length")
	return err
}
