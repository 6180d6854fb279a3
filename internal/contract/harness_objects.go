package contract

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This file has the verbs for objects. They fail the test if the server refuses a request, so that a scenario is easy to read. Use C.Client for
// requests that may be refused.

// Kind is a kind of objects, in the namespace of a leaf, or cluster-scoped.
type Kind struct {
	c                *C
	apiVersion, kind string
	clusterwide      bool
}

// Of returns the verbs for another kind.
func (c *C) Of(apiVersion, kind string) *Kind {
	return &Kind{c: c, apiVersion: apiVersion, kind: kind, clusterwide: strings.Contains(kind, "Cluster") || kind == "Namespace" || kind == "CustomResourceDefinition"}
}

// Ref returns the reference of an object of the kind.
func (k *Kind) Ref(name string) kopf.ObjectReference {
	ref := kopf.ObjectReference{APIVersion: k.apiVersion, Kind: k.kind, Name: name, Namespace: k.c.Namespace}
	if k.clusterwide {
		ref.Namespace = ""
	}
	return ref
}

// object returns a whole object with the given fields.
func (k *Kind) object(name string, fields map[string]any) map[string]any {
	object := maps.Clone(fields)
	if object == nil {
		object = map[string]any{}
	}
	meta, _ := object["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = name
	if ref := k.Ref(name); ref.Namespace != "" {
		meta["namespace"] = ref.Namespace
	}
	object["apiVersion"], object["kind"], object["metadata"] = k.apiVersion, k.kind, meta
	return object
}

// Create creates an object with the given fields, such as "spec". It adds apiVersion, kind, name and namespace.
func (k *Kind) Create(name string, fields map[string]any) *kopf.Body {
	k.c.Helper()
	body := k.body(k.object(name, fields))
	if err := k.c.Client.Create(k.c.Context(), body, nil); err != nil {
		k.c.Fatalf("creating %s %q: %v", k.kind, name, err)
	}
	return body
}

// Apply sets the given fields of an object, and creates it if necessary. Other fields stay.
func (k *Kind) Apply(name string, fields map[string]any) *kopf.Body {
	k.c.Helper()
	if !k.Exists(name) {
		return k.Create(name, fields)
	}
	return k.Patch(name, fields)
}

// Get reads an object.
func (k *Kind) Get(name string) *kopf.Body {
	k.c.Helper()
	body := &kopf.Body{}
	if err := k.c.Client.Get(k.c.Context(), k.Ref(name), body, nil); err != nil {
		k.c.Fatalf("getting %s %q: %v", k.kind, name, err)
	}
	return body
}

// Exists reports whether an object exists.
func (k *Kind) Exists(name string) bool {
	k.c.Helper()
	err := k.c.Client.Get(k.c.Context(), k.Ref(name), &kopf.Body{}, nil)
	if err != nil && kopf.StatusCode(err) != http.StatusNotFound {
		k.c.Fatalf("getting %s %q: %v", k.kind, name, err)
	}
	return err == nil
}

// List reads all objects of the kind in the namespace of the leaf.
func (k *Kind) List() []*kopf.Body {
	k.c.Helper()
	var all []*kopf.Body
	for body, err := range k.c.Client.List(k.c.Context(), kopf.ObjectReference{APIVersion: k.apiVersion, Kind: k.kind}, &kopf.ListOptions{Namespace: k.Ref("").Namespace}) {
		if err != nil {
			k.c.Fatalf("listing %s: %v", k.kind, err)
		}
		all = append(all, body)
	}
	return all
}

// Patch changes fields of an object by a merge patch.
func (k *Kind) Patch(name string, fields any) *kopf.Body {
	k.c.Helper()
	return k.patch(name, fields, "")
}

// PatchStatus changes fields of an object by a merge patch of its subresource status.
func (k *Kind) PatchStatus(name string, fields any) *kopf.Body {
	k.c.Helper()
	return k.patch(name, fields, "status")
}

func (k *Kind) patch(name string, fields any, subresource string) *kopf.Body {
	k.c.Helper()
	body, err := k.c.Client.Patch(k.c.Context(), k.Ref(name), fields, &kopf.PatchOptions{Subresource: subresource})
	if err != nil {
		k.c.Fatalf("patching %s %q: %v", k.kind, name, err)
	}
	return body
}

// replace replaces a field of an object by a JSON patch. It can change items of lists.
func (k *Kind) replace(name, path string, value any) {
	k.c.Helper()
	patch := []map[string]any{{"op": "replace", "path": path, "value": value}}
	if _, err := k.c.Client.Patch(k.c.Context(), k.Ref(name), patch, &kopf.PatchOptions{Type: kopf.JSONPatch}); err != nil {
		k.c.Fatalf("patching %s %q: %v", k.kind, name, err)
	}
}

// Delete deletes an object, or only marks it if it has finalizers.
func (k *Kind) Delete(name string) {
	k.c.Helper()
	if err := k.c.Client.Delete(k.c.Context(), k.Ref(name), nil); err != nil {
		k.c.Fatalf("deleting %s %q: %v", k.kind, name, err)
	}
}

func (k *Kind) body(object map[string]any) *kopf.Body {
	k.c.Helper()
	body, err := kopf.NewBody(object)
	if err != nil {
		k.c.Fatalf("%s: %v", k.kind, err)
	}
	return body
}

// Define creates a CRD, or another cluster-scoped object, and deletes it after the leaf. It returns when objects of the new kind can be listed, which
// takes a real server a moment.
func (c *C) Define(object map[string]any) {
	c.Helper()
	body, err := kopf.NewBody(object)
	if err == nil {
		err = c.Client.Create(c.Context(), body, nil)
	}
	if err != nil {
		c.Fatalf("creating %s %q: %v", body.Kind(), body.Name(), err)
	}
	ref := body.Reference()
	c.Cleanup(func() {
		ctx := contextWithout(c.Context())
		if err := c.Client.Delete(ctx, ref, nil); err != nil && kopf.StatusCode(err) != http.StatusNotFound {
			c.Errorf("deleting %s %q: %v", ref.Kind, ref.Name, err)
		}
	})
	if ref.Kind == "CustomResourceDefinition" {
		c.WaitFor("the kind "+ref.Name+" is served", func() bool { return c.serves(body) })
	}
}

// suiteKinds are kinds that stay for the following leaves of a suite.
type suiteKinds struct {
	name    string
	client  *kopf.Client
	defined map[string]kopf.ObjectReference
}

// DefineForSuite defines a kind like [C.Define]. On a real server, where this takes seconds, the kind stays until the end of the
// suite, and the following leaves find it there.
func (c *C) DefineForSuite(definition map[string]any) {
	c.Helper()
	if c.InBubble() {
		c.Define(definition)
		return
	}
	body, err := kopf.NewBody(definition)
	if err != nil {
		c.Fatal(err)
	}
	if _, ok := c.suite.defined[body.Name()]; ok {
		return
	}
	if err := c.Client.Create(c.Context(), body, nil); err != nil {
		c.Fatalf("creating the kind %s: %v", body.Name(), err)
	}
	if c.suite.defined == nil {
		c.suite.defined = map[string]kopf.ObjectReference{}
	}
	c.suite.client, c.suite.defined[body.Name()] = c.Client, body.Reference()
	c.WaitFor("the kind "+body.Name()+" is served", func() bool { return c.serves(body) })
}

// remove deletes the kinds, and waits until they are gone.
func (s *suiteKinds) remove(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for name, ref := range s.defined {
		if err := s.client.Delete(ctx, ref, nil); err != nil {
			t.Errorf("deleting the kind %s: %v", name, err)
		}
		waitGone(ctx, t, s.client, ref)
	}
	s.defined = nil
}

// waitGone waits until an object is gone on a real server.
func waitGone(ctx context.Context, t testing.TB, client *kopf.Client, ref kopf.ObjectReference) {
	t.Helper()
	for range 300 {
		if err := client.Get(ctx, ref, &kopf.Body{}, nil); kopf.StatusCode(err) == http.StatusNotFound {
			return
		}
		time.Sleep(100 * time.Millisecond) // polls a real server
	}
	t.Errorf("%s %s does not go away", ref.Kind, ref.Name)
}

// undefine deletes an object of [C.Define], and waits until it is gone.
func (c *C) undefine(kind, apiVersion, name string) {
	c.Helper()
	k := c.Of(apiVersion, kind)
	k.Delete(name)
	c.WaitFor("the end of "+name, func() bool { return !k.Exists(name) })
}

// serves reports whether discovery contains the first served version of a CRD, and its objects can be listed.
func (c *C) serves(definition *kopf.Body) bool {
	resources, err := c.Client.Resources(c.Context())
	if err != nil {
		return false
	}
	group, plural := definition.Spec().String("group"), definition.Spec().String("names.plural")
	for _, r := range resources {
		if r.Group == group && r.Plural == plural {
			for _, err := range c.Client.List(c.Context(), r, nil) {
				if err != nil {
					return false
				}
			}
			return true
		}
	}
	return false
}

// Minor returns the minor version of Kubernetes that the server has.
func (c *C) Minor() int {
	c.Helper()
	client := &http.Client{Transport: c.transport()}
	defer client.CloseIdleConnections()
	resp, err := client.Get(c.info.Server + "/version")
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	var version struct {
		Minor int `json:",string"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&version); err != nil {
		c.Fatal(err)
	}
	return version.Minor
}
