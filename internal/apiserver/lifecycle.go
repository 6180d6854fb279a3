package apiserver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// stored does the work of controllers in real clusters after an object was stored. It serves or deletes a CRD, creates the objects of a namespace or
// empties it, removes the finalizers of unused volumes, and collects garbage.
func (s *Server) stored(k *kindInfo, i *store.Item) {
	s.collectStored(k, i)
	switch k.collection() {
	case definitionsCollection:
		s.acceptNames(i)
		if unstructured.View(i.Raw).Has("metadata.deletionTimestamp") {
			s.endDefinition(i.Name)
		}
	case "namespaces.":
		s.makeAccount(i.Name)
		s.endNamespace(i.Name)
	case "persistentvolumeclaims.", "persistentvolumes.":
		s.releaseStorage(k, i)
		s.releaseClasses()
	case "volumeattributesclasses.storage.k8s.io":
		s.releaseStorage(k, i)
	case "pods.":
		s.releaseClaims(i)
	}
}

// removed does the work of controllers in real clusters after an object was deleted. It stops serving a CRD, continues the deletion of the object's
// CRD or namespace, and collects the object's dependents.
func (s *Server) removed(k *kindInfo, i *store.Item) {
	s.collectRemoved(k, i) // first, while the kind of the owner is known
	switch {
	case k.isDefinitions():
		s.acceptNames(i)
		return
	case k.crd != nil:
		name := fmt.Sprint(rawjson.AsMap(k.crd["metadata"])["name"])
		definitions := s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
		if d := s.db.Get(definitions.collection(), name); d != nil && unstructured.View(d.Raw).Has("metadata.deletionTimestamp") {
			s.endDefinition(d.Name)
		}
	}
	switch {
	case k.is("serviceaccounts", "") && i.Name == "default":
		s.makeAccount(i.Namespace)
	case k.is("pods", ""):
		s.releaseClaims(i)
	case k.is("persistentvolumeclaims", ""), k.is("persistentvolumes", ""):
		s.releaseClasses()
	case k.is("services", "") && i.Namespace == "default" && i.Name == "kubernetes":
		s.makeServerService()
	}
	if k.resource.Namespaced {
		s.endNamespace(i.Namespace)
	}
}

// namespaceFinalizer is the finalizer in the spec of a namespace that blocks its deletion until the namespace is empty.
const namespaceFinalizer = "kubernetes"

// endNamespace deletes the objects in a namespace that is marked for deletion, and then the
// namespace.
func (s *Server) endNamespace(name string) {
	if !s.isEnding(name) {
		return
	}
	s.process(objectKey{"namespaces.", name}, func() {
		if s.isEnding(name) && !s.emptyNamespace(name) {
			s.tryLater(objectKey{"namespaces.", name}, func(s *Server) { s.endNamespace(name) })
		}
	})
}

// isEnding reports whether a namespace is marked for deletion, and must be emptied.
func (s *Server) isEnding(name string) bool {
	i := s.db.Get("namespaces.", name)
	if i == nil || !isDeleted(i.Raw) {
		return false
	}
	finalizers, _ := rawjson.AsMap(i.Object()["spec"])["finalizers"].([]any)
	return slices.Contains(finalizers, any(namespaceFinalizer))
}

// emptyNamespace does it, and reports whether it succeeded. Objects with finalizers may remain.
func (s *Server) emptyNamespace(name string) bool {
	all := true
	done := make(map[string]bool)
	left := 0
	for _, k := range s.kinds() {
		if !k.resource.Namespaced || k.postedOnly || done[k.collection()] {
			continue
		}
		done[k.collection()] = true
		all = s.empty(k, name) && all
		items, _ := s.db.List(k.collection())
		for _, rest := range items {
			if rest.Namespace == name {
				left++
			}
		}
	}
	if s.db.Get("namespaces.", name) == nil {
		return true // deleting the last object has deleted it
	}
	r := &apiRequest{server: s, kind: s.kindOf("v1", "Namespace"), verb: "patch", name: name, manager: "kube-controller-manager", subresource: "status"}
	change := func(live map[string]any) (map[string]any, error) {
		if status := mapAt(live, "status"); status["conditions"] == nil {
			status["conditions"] = namespaceEnd(left)
		}
		return live, nil
	}
	if left == 0 {
		r.subresource = "finalize"
		change = func(live map[string]any) (map[string]any, error) {
			spec := mapAt(live, "spec")
			finalizers, _ := spec["finalizers"].([]any)
			spec["finalizers"] = slices.DeleteFunc(finalizers, func(f any) bool { return f == namespaceFinalizer })
			return live, nil
		}
	}
	_, err := r.changeObject(change)
	if e := (*apierrors.StatusError)(nil); err != nil && (!errtype.As(err, &e) || e.Code != 404) {
		s.opts.Logger.Error("A namespace cannot be removed", "name", name, "error", err)
		return false
	}
	return all
}

// mapAt returns the map at a key of an object. It adds one if there is none.
func mapAt(object map[string]any, key string) map[string]any {
	m := rawjson.AsMap(object[key])
	if m == nil {
		m = make(map[string]any)
		object[key] = m
	}
	return m
}

// namespaceEnd returns the conditions of a terminating namespace, given the number of remaining objects.
func namespaceEnd(left int) []any {
	now := unstructured.Timestamp(time.Now())
	var conditions []any
	for _, c := range [][4]string{
		{"NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"},
		{"NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"},
		{"NamespaceDeletionContentFailure", "False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"},
		{"NamespaceContentRemaining", "True", "SomeResourcesRemain", "Some resources are remaining: %d instances"},
		{"NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: %d instances"},
	} {
		message := strings.Replace(c[3], "%d", strconv.Itoa(left), 1)
		conditions = append(conditions, map[string]any{"type": c[0], "status": c[1], "reason": c[2], "message": message, "lastTransitionTime": now})
	}
	return conditions
}

// empty deletes all objects of a kind, in one namespace or everywhere, and reports whether that succeeded for all.
func (s *Server) empty(k *kindInfo, namespace string) bool {
	all := true
	items, _ := s.db.List(k.collection())
	for _, listed := range items {
		if namespace != "" && listed.Namespace != namespace {
			continue
		}
		i := s.db.Get(k.collection(), listed.Key)
		if i == nil || isDeleted(i.Raw) { // deleted with its owner, for example
			continue
		}
		r := &apiRequest{server: s, kind: k.inStorage(), verb: "delete", name: i.Name, namespace: i.Namespace, manager: "kube-controller-manager"}
		if namespace != "" { // in real clusters, too, custom resources are deleted with their CRD without requests
			r.ctx, r.controller = context.Background(), "namespace-controller"
		}
		err := r.deleteObject(deleteOptions{PropagationPolicy: "Background"})
		if err != nil && s.db.Get(k.collection(), i.Key) != nil {
			s.opts.Logger.Error("An object cannot be deleted with its namespace or definition", "kind", k.resource.Kind, "object", i.Key, "error", err)
			all = false
		}
	}
	return all
}
