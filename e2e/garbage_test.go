package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// TestGarbageCollection deletes owners on both servers, and compares the effects on their dependents.
func TestGarbageCollection(t *testing.T) {
	served, err := kopf.NewAPIServer(nil).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	for _, e := range []*endpoint{
		judge(t, theCluster(t)), {name: "in memory", url: served.URL, client: &http.Client{}},
	} {
		t.Run(e.name, func(t *testing.T) { collectGarbage(t, e) })
	}
}

// family is a set of objects in a namespace of one server, some of which own others.
type family struct {
	*testing.T
	*endpoint
	namespace string
	seen      *sightings
}

func (f *family) path(name string) string {
	return "/api/v1/namespaces/" + f.namespace + "/configmaps/" + name
}

// add creates a config map with existing owners.
func (f *family) add(name, finalizers string, owners ...string) {
	f.Helper()
	var references []string
	for _, owner := range owners {
		references = append(references, f.reference(owner, "ConfigMap", "{uid:ConfigMap:"+owner+"}"))
	}
	f.create(name, finalizers, references...)
}

func (f *family) reference(name, kind, uid string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": %q, "name": %q, "uid": %q, "blockOwnerDeletion": true}`, kind, name, uid)
}

func (f *family) create(name, finalizers string, references ...string) {
	f.Helper()
	f.do(&request{method: "POST", path: "/api/v1/namespaces/" + f.namespace + "/configmaps", contentType: asJSON,
		body: fmt.Sprintf(`{"metadata": {"name": %q, "finalizers": [%s], "ownerReferences": [%s]}}`, name, finalizers, strings.Join(references, ", "))})
}

// do sends a request that must succeed.
func (f *family) do(r *request) {
	f.Helper()
	if got, err := f.send(f.Context(), r, f.seen); err != nil || got.Code >= 300 {
		f.Fatalf("%s: %s: %v %v", f.name, r, err, got)
	}
}

func (f *family) remove(name, policy string) {
	f.Helper()
	f.do(&request{method: "DELETE", path: f.path(name) + "?propagationPolicy=" + policy})
}

func (f *family) release(name string) {
	f.Helper()
	f.do(&request{method: "PATCH", path: f.path(name), contentType: asMerge, body: `{"metadata": {"finalizers": null}}`})
}

// get returns the metadata of an object, nil if there is none.
func (f *family) get(name string) map[string]any {
	f.Helper()
	got, err := f.send(f.Context(), &request{method: "GET", path: f.path(name)}, f.seen)
	if err != nil {
		f.Fatal(err)
	}
	if got.Code == http.StatusNotFound {
		return nil
	}
	meta, _ := got.Body.(map[string]any)["metadata"].(map[string]any)
	return meta
}

func (f *family) gone(names ...string) {
	f.Helper()
	for _, name := range names {
		eventually(f.T, name+" is gone from "+f.name, func() bool { return f.get(name) == nil })
	}
}

// owned waits until an object has that number of owners and is not being deleted.
func (f *family) owned(name string, owners int) {
	f.Helper()
	eventually(f.T, fmt.Sprintf("%s has %d owners on %s", name, owners, f.name), func() bool {
		meta := f.get(name)
		list, _ := meta["ownerReferences"].([]any)
		return meta != nil && meta["deletionTimestamp"] == nil && len(list) == owners
	})
}

func collectGarbage(t *testing.T, e *endpoint) {
	begin := func(t *testing.T, namespace string) *family {
		e.mustSend(t, &request{method: "POST", path: "/api/v1/namespaces", contentType: asJSON, body: `{"metadata": {"name": "` + namespace + `"}}`})
		return &family{t, e, namespace, newSightings()}
	}
	t.Run("in the background", func(t *testing.T) {
		f := begin(t, "gc-background")
		f.add("owner", "")
		f.add("other", "")
		f.add("child", "", "owner")
		f.add("grandchild", "", "child")
		f.add("shared", "", "owner", "other")
		f.remove("owner", "Background")
		f.gone("owner", "child", "grandchild")
		f.owned("shared", 1)
		f.remove("other", "Background")
		f.gone("shared")
	})
	t.Run("in the foreground", func(t *testing.T) {
		f := begin(t, "gc-foreground")
		f.add("owner", "")
		f.add("child", `"example.com/f"`, "owner")
		f.add("grandchild", "", "child")
		f.remove("owner", "Foreground")
		f.gone("grandchild")
		eventually(t, "the child is being deleted", func() bool { return f.get("child")["deletionTimestamp"] != nil })
		if owner := f.get("owner"); owner == nil || owner["deletionTimestamp"] == nil {
			t.Errorf("the owner is %v, want to be there until its child is gone", owner)
		}
		f.release("child")
		f.gone("child", "owner")
	})
	t.Run("in a circle", func(t *testing.T) {
		f := begin(t, "gc-circle")
		f.add("a", "")
		f.add("b", "", "a")
		f.do(&request{method: "PATCH", path: f.path("a"), contentType: asMerge, body: `{"metadata": {"ownerReferences": [` + f.reference("b", "ConfigMap", "{uid:ConfigMap:b}") + `]}}`})
		f.remove("a", "Foreground")
		f.gone("a", "b")
	})
	t.Run("orphans", func(t *testing.T) {
		f := begin(t, "gc-orphans")
		f.add("owner", "")
		f.add("child", "", "owner")
		f.remove("owner", "Orphan")
		f.gone("owner")
		f.owned("child", 0)
	})
	t.Run("owners that are not there", func(t *testing.T) {
		f := begin(t, "gc-absent")
		f.create("child", "", f.reference("owner", "ConfigMap", "9d3f3a5e-1111-4222-8333-444455556666"))
		f.gone("child")
		f.add("owner", "")
		f.create("child", "", f.reference("owner", "ConfigMap", "9d3f3a5e-1111-4222-8333-444455556666"))
		f.gone("child") // the owner is another object of that name
		f.create("kept", "", f.reference("owner", "Unknown", "{uid:ConfigMap:owner}"))
		f.remove("owner", "Background")
		f.gone("owner")
		f.owned("kept", 1)
	})
}
