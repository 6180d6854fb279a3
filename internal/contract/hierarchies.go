package contract

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// This suite proves how kopf connects child objects with their owners.

// parent returns an owner with all fields that children copy. The argument is merged into its metadata, and nil removes a key.
func (c *C) parent(metadata map[string]any) *kopf.Body {
	c.Helper()
	meta := map[string]any{"name": "a", "namespace": "ns", "uid": "u-1", "labels": map[string]any{"app": "web", "tier": "front"}}
	for key, value := range metadata {
		if value == nil {
			delete(meta, key)
			continue
		}
		meta[key] = value
	}
	body, err := kopf.NewBody(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": meta})
	if err != nil {
		c.Fatal(err)
	}
	return body
}

// ofParent returns the owner reference of the parent.
func ofParent() map[string]any {
	return map[string]any{"controller": true, "blockOwnerDeletion": true, "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "uid": "u-1"}
}

// becomes fails the test unless an object has the expected content.
func (c *C) becomes(err error, got, want any) {
	c.Helper()
	if err != nil {
		c.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("(-want +got)\n%s", diff)
	}
}

// refused fails the test unless an error contains all the words.
func (c *C) refused(err error, words ...string) {
	c.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			c.Errorf("got the error %v, want one with %q", err, word)
		}
	}
}

// typedChild is a struct with the fields of a Kubernetes object.
type typedChild struct {
	Kind     string `json:"kind,omitempty"`
	Metadata struct {
		Name            string            `json:"name,omitempty"`
		GenerateName    string            `json:"generateName,omitempty"`
		Namespace       string            `json:"namespace,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
		OwnerReferences []typedOwner      `json:"ownerReferences,omitempty"`
	} `json:"metadata"`
	Unsaid string `json:"-"`
}

type typedOwner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller *bool  `json:"controller,omitempty"`
	Block      *bool  `json:"blockOwnerDeletion,omitempty"`
}

type object = map[string]any

func meta(fields object) object { return object{"metadata": fields} }

var _ = Suite("hierarchies", func(t *testing.T, c *C) {
	c.Run(t, "OP-122 objects come alone, in nested slices, as maps and as structs", func(c *C) {
		one, two, three := object{}, object{}, &typedChild{Unsaid: "kept"}
		three.Metadata.Name = "old"
		err := kopf.HarmonizeNaming(c.parent(nil), []any{one, nil, []object{two}, (*typedChild)(nil), [][]*typedChild{{three}}},
			&kopf.HierarchyOptions{Forced: true})
		want := &typedChild{Unsaid: "kept"}
		want.Metadata.GenerateName = "a-"
		c.becomes(err, []any{one, two, three}, []any{meta(object{"generateName": "a-"}), meta(object{"generateName": "a-"}), want})
		c.refused(kopf.HarmonizeNaming(c.parent(nil), typedChild{}, nil), "contract.typedChild is not an object that can be changed")
		c.refused(kopf.Label(c.parent(nil), &struct{ A string }{}, nil), "has no place for", "labels")
		first := object{}
		c.refused(kopf.Label(c.parent(nil), []any{first, 7}, nil), "a int is not an object")
		c.becomes(nil, first, object{})
	})
	c.Run(t, "OP-123 the owner is the object being handled", func(c *C) {
		registry := &kopf.Registry{}
		l := &calls{}
		registry.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			child := object{}
			err := ch.Adopt(child, &kopf.HierarchyOptions{Strict: true})
			owners := child["metadata"].(object)["ownerReferences"].([]any)
			if err == nil && owners[0].(object)["uid"] == ch.UID() && child["metadata"].(object)["name"] == "a" {
				l.add("adopted")
			}
			return err
		}, &kopf.ChangeOptions{ID: "create"})
		c.Operator(registry)
		c.Create("a", nil)
		c.expect(l, "adopted")
		c.refused(kopf.Adopt(nil, nil, nil), "no owner")
	})
	c.Run(t, "OP-124 a reference of an object has no empty fields", func(c *C) {
		full := c.parent(nil).Reference()
		c.becomes(nil, full, kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Name: "a", UID: "u-1", Namespace: "ns"})
		body, err := kopf.NewBody(c.parent(object{"namespace": nil}).Reference())
		if err != nil {
			c.Fatal(err)
		}
		c.becomes(nil, body.Map(), object{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "uid": "u-1"})
	})
	c.Run(t, "OP-125 an owner reference keeps what is false, and drops what is missing", func(c *C) {
		child := object{}
		err := kopf.AppendOwnerReference(c.parent(object{"name": nil}), child, &kopf.HierarchyOptions{NotController: true, NotBlocking: true})
		c.becomes(err, child, meta(object{"ownerReferences": []any{
			object{"controller": false, "blockOwnerDeletion": false, "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "uid": "u-1"}}}))
	})
	c.Run(t, "OP-126 an owner reference is appended once", func(c *C) {
		other, same := object{"uid": "u-2"}, object{"uid": "u-1", "name": "differs"}
		fresh, owned, present := object{}, meta(object{"ownerReferences": []any{other}}), meta(object{"ownerReferences": []any{same}})
		err := kopf.AppendOwnerReference(c.parent(nil), []object{fresh, owned, present}, nil)
		c.becomes(err, []object{fresh, owned, present}, []object{
			meta(object{"ownerReferences": []any{ofParent()}}),
			meta(object{"ownerReferences": []any{other, ofParent()}}),
			meta(object{"ownerReferences": []any{same}}),
		})
	})
	c.Run(t, "OP-127 all references with the uid are removed, and the list stays", func(c *C) {
		owned := meta(object{"ownerReferences": []any{object{"uid": "u-1"}, object{"uid": "u-2"}, ofParent()}})
		fresh, typed := object{}, &typedChild{}
		typed.Metadata.OwnerReferences = []typedOwner{{UID: "u-1", Name: "a"}, {UID: "u-2"}}
		err := kopf.RemoveOwnerReference(c.parent(nil), []any{owned, fresh, typed})
		want := &typedChild{}
		want.Metadata.OwnerReferences = []typedOwner{{UID: "u-2"}}
		c.becomes(err, []any{owned, fresh, typed}, []any{
			meta(object{"ownerReferences": []any{object{"uid": "u-2"}}}), meta(object{"ownerReferences": []any{}}), want})
	})
	c.Run(t, "OP-128 labels default to those of the owner, and replace others only when forced", func(c *C) {
		child := meta(object{"labels": object{"app": "mine"}})
		err := kopf.Label(c.parent(nil), child, nil)
		c.becomes(err, child, meta(object{"labels": object{"app": "mine", "tier": "front"}}))
		err = kopf.Label(c.parent(nil), child, &kopf.HierarchyOptions{Forced: true})
		c.becomes(err, child, meta(object{"labels": object{"app": "web", "tier": "front"}}))
		plain := object{"metadata": object{"labels": map[string]string{"app": "mine"}}}
		err = kopf.Label(c.parent(nil), plain, &kopf.HierarchyOptions{AddLabels: map[string]string{"x": "y"}})
		c.becomes(err, plain, meta(object{"labels": object{"app": "mine", "x": "y"}}))
		empty := object{}
		err = kopf.Label(c.parent(nil), empty, &kopf.HierarchyOptions{AddLabels: map[string]string{}})
		c.becomes(err, empty, meta(object{"labels": object{}}))
	})
	c.Run(t, "OP-129 nested structures are labelled besides the root", func(c *C) {
		child := object{"spec": object{"template": object{}, "a.b": object{}, "list": []any{object{}}}}
		err := kopf.Label(c.parent(nil), child, &kopf.HierarchyOptions{AddLabels: map[string]string{"x": "y"},
			Nested: []kopf.FieldPath{"spec.template", kopf.Path("spec", "a.b"), "spec.absent.deeper"}})
		labels := object{"labels": object{"x": "y"}}
		c.becomes(err, child, object{"metadata": labels, "spec": object{
			"template": meta(labels), "a.b": meta(labels), "list": []any{object{}}}})
		c.refused(kopf.Label(c.parent(nil), child, &kopf.HierarchyOptions{Nested: []kopf.FieldPath{"spec.list"}}), `"spec.list"`)
	})
	c.Run(t, "OP-130 objects are named after the owner unless they have names", func(c *C) {
		for _, tt := range []struct {
			options *kopf.HierarchyOptions
			in, out object
		}{
			{nil, object{}, object{"generateName": "a-"}},
			{&kopf.HierarchyOptions{Strict: true}, object{}, object{"name": "a"}},
			{&kopf.HierarchyOptions{Name: "b"}, object{}, object{"generateName": "b-"}},
			{nil, object{"name": nil}, object{"name": nil}},
			{&kopf.HierarchyOptions{Strict: true}, object{"generateName": ""}, object{"generateName": ""}},
			{&kopf.HierarchyOptions{Forced: true}, object{"name": "mine"}, object{"generateName": "a-"}},
			{&kopf.HierarchyOptions{Forced: true, Strict: true}, object{"generateName": "mine-"}, object{"name": "a"}},
		} {
			child := meta(tt.in)
			c.becomes(kopf.HarmonizeNaming(c.parent(nil), child, tt.options), child, meta(tt.out))
		}
	})
	c.Run(t, "OP-131 an owner without a name names nothing", func(c *C) {
		child := object{}
		c.refused(kopf.HarmonizeNaming(c.parent(object{"name": nil}), child, nil), "no name")
		c.becomes(nil, child, object{})
	})
	c.Run(t, "OP-132 a namespace is set where there is none, or when forced", func(c *C) {
		fresh, null, placed := object{}, meta(object{"namespace": nil}), meta(object{"namespace": "mine"})
		err := kopf.AdjustNamespace(c.parent(nil), []object{fresh, null, placed}, nil)
		ns := meta(object{"namespace": "ns"})
		c.becomes(err, []object{fresh, null, placed}, []object{ns, ns, meta(object{"namespace": "mine"})})
		err = kopf.AdjustNamespace(c.parent(nil), placed, &kopf.HierarchyOptions{Forced: true, Namespace: "other"})
		c.becomes(err, placed, meta(object{"namespace": "other"}))
	})
	c.Run(t, "OP-133 adopting does it all, and only labels go to nested structures", func(c *C) {
		child := object{"spec": object{"template": object{}}}
		err := kopf.Adopt(c.parent(nil), child, &kopf.HierarchyOptions{Nested: []kopf.FieldPath{"spec.template"}})
		labels := object{"app": "web", "tier": "front"}
		c.becomes(err, child, object{
			"metadata": object{"ownerReferences": []any{ofParent()}, "generateName": "a-", "namespace": "ns", "labels": labels},
			"spec":     object{"template": meta(object{"labels": labels})},
		})
	})
	c.Run(t, "OP-T40 what is nil or empty is not given", func(c *C) {
		child := object{}
		err := kopf.Adopt(c.parent(nil), child, &kopf.HierarchyOptions{AddLabels: nil, Name: "", Namespace: ""})
		c.becomes(err, child, meta(object{"ownerReferences": []any{ofParent()}, "generateName": "a-", "namespace": "ns",
			"labels": object{"app": "web", "tier": "front"}}))
	})
	c.Run(t, "OP-T41 an owner without a namespace leaves namespaces alone", func(c *C) {
		fresh, placed := object{}, meta(object{"namespace": "mine"})
		err := kopf.AdjustNamespace(c.parent(object{"namespace": nil}), []object{fresh, placed}, &kopf.HierarchyOptions{Forced: true})
		c.becomes(err, []object{fresh, placed}, []object{{}, meta(object{"namespace": "mine"})})
	})
	c.Run(t, "OP-T42 what cannot be entered on the way to a nested structure is skipped", func(c *C) {
		child := object{"null": nil, "text": "x", "list": []any{object{}}}
		err := kopf.Label(c.parent(nil), child, &kopf.HierarchyOptions{AddLabels: map[string]string{"x": "y"},
			Nested: []kopf.FieldPath{"null", "null.a", "text.a", "list.a"}})
		c.becomes(err, child, object{"metadata": object{"labels": object{"x": "y"}}, "null": nil, "text": "x", "list": []any{object{}}})
	})
	c.Run(t, "OP-T43 a second controller and an owner without a uid are refused", func(c *C) {
		child := meta(object{"ownerReferences": []any{object{"uid": "u-2", "kind": "Job", "name": "j", "controller": true}}})
		c.refused(kopf.AppendOwnerReference(c.parent(nil), child, nil), `Job "j" is the controller already`)
		if err := kopf.AppendOwnerReference(c.parent(nil), child, &kopf.HierarchyOptions{NotController: true}); err != nil {
			c.Error(err)
		}
		c.refused(kopf.AppendOwnerReference(c.parent(object{"uid": nil}), object{}, nil), "has no uid")
		c.refused(kopf.RemoveOwnerReference(c.parent(object{"uid": nil}), object{}), "has no uid")
	})
	c.Run(t, "OP-T44 a text is not an object", func(c *C) {
		c.refused(kopf.Label(c.parent(nil), []any{"text"}, nil), "a string is not an object")
		c.refused(kopf.Label(c.parent(nil), []byte("text"), nil), "a uint8 is not an object")
	})
	c.Run(t, "adopted children go with their owner", func(c *C) {
		if c.InBubble() {
			c.Skip("the embedded server has no garbage collector")
		}
		registry := &kopf.Registry{}
		registry.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			child := object{"apiVersion": "v1", "kind": "ConfigMap", "data": object{"key": "value"}}
			if err := ch.Adopt(child, &kopf.HierarchyOptions{Strict: true}); err != nil {
				return err
			}
			return ch.Client.Create(ctx, child, nil)
		}, &kopf.ChangeOptions{ID: "create"})
		c.Operator(registry)
		maps := c.Of("v1", "ConfigMap")
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return maps.Exists("a") })
		c.Delete("a")
		c.WaitFor("the end of the child", func() bool { return !maps.Exists("a") })
	})
})
