package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// stored does what controllers do in real clusters after an object was stored: it serves or deletes
// a CRD, furnishes or empties a namespace, lets volumes go, and collects garbage.
func (s *Server) stored(k *kindInfo, i *store.Item) {
	s.collectStored(k, i)
	switch k.resource.Plural + "." + k.resource.Group {
	case "customresourcedefinitions.apiextensions.k8s.io":
		if unstructured.View(i.Raw).Has("metadata.deletionTimestamp") {
			s.endDefinition(i)
		} else {
			s.establish(i)
		}
	case "namespaces.":
		s.makeAccount(i.Name)
		s.endNamespace(i)
	case "persistentvolumeclaims.", "persistentvolumes.":
		s.releaseStorage(k, i)
	case "pods.":
		s.releaseClaims(i)
	}
}

// removed does what controllers do in real clusters after an object was deleted: it stops serving a
// CRD, goes on deleting the CRD or the namespace of the object, and collects its dependents.
func (s *Server) removed(k *kindInfo, i *store.Item) {
	s.collectRemoved(k, i) // first, as long as the kind of the owner is known
	switch {
	case k.resource.Plural == "customresourcedefinitions" && k.crd == nil:
		s.rebuild()
		return
	case k.crd != nil:
		name := fmt.Sprint(rawjson.AsMap(k.crd["metadata"])["name"])
		definitions := s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
		if d := s.db.Get(definitions.collection(), name); d != nil && unstructured.View(d.Raw).Has("metadata.deletionTimestamp") {
			s.endDefinition(d)
		}
	}
	switch {
	case k.is("serviceaccounts", "") && i.Name == "default":
		s.makeAccount(i.Namespace)
	case k.is("pods", ""):
		s.releaseClaims(i)
	}
	if k.resource.Namespaced {
		if ns := s.db.Get("namespaces.", i.Namespace); ns != nil {
			s.endNamespace(ns)
		}
	}
}

// servedSince returns since which version of the store the objects of a kind were stored by its schema, given the version of its CRD.
func (s *Server) servedSince(k *kindInfo, version uint64) uint64 {
	before := s.kindOf(k.apiVersion(), k.resource.Kind)
	if before != nil && before.crd != nil && rawjson.Equal(rawjson.AsMap(before.crd["metadata"])["generation"], rawjson.AsMap(k.crd["metadata"])["generation"]) {
		return before.since
	}
	return version
}

// rebuild updates the kinds that are served.
func (s *Server) rebuild() {
	served := slices.Clone(builtinKinds())
	definitions, _ := s.db.List("customresourcedefinitions.apiextensions.k8s.io")
	for _, d := range definitions {
		kinds, err := kindsOf(d.Object())
		for _, k := range kinds {
			k.since = s.servedSince(k, d.Version)
		}
		if err != nil {
			s.opts.Logger.Error("A resource definition cannot be served.", "name", d.Name, "error", err)
			continue
		}
		served = append(served, kinds...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = served
}

// establish serves a CRD, and sets its status.
func (s *Server) establish(i *store.Item) {
	s.rebuild()
	definitions := s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
	r := &apiRequest{server: s, kind: definitions, verb: "patch", name: i.Name, subresource: "status", manager: "kube-apiserver"}
	_, err := r.changeObject(func(live map[string]any) (map[string]any, error) {
		status := rawjson.AsMap(live["status"])
		if status == nil {
			status = make(map[string]any)
			live["status"] = status
		}
		spec := rawjson.AsMap(live["spec"])
		status["acceptedNames"] = rawjson.Clone(spec["names"])
		if status["conditions"] == nil {
			now := unstructured.Timestamp(time.Now())
			status["conditions"] = []any{
				map[string]any{"type": "NamesAccepted", "status": "True", "lastTransitionTime": now, "reason": "NoConflicts", "message": "no conflicts found"},
				map[string]any{"type": "Established", "status": "True", "lastTransitionTime": now, "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
			}
		}
		stored, _ := status["storedVersions"].([]any)
		versions, _ := spec["versions"].([]any)
		for _, v := range versions {
			if version := rawjson.AsMap(v); version["storage"] == true && !slices.Contains(stored, version["name"]) {
				stored = append(stored, version["name"])
			}
		}
		status["storedVersions"] = stored
		return live, nil
	})
	if err != nil {
		s.opts.Logger.Error("A resource definition cannot be established.", "name", i.Name, "error", err)
	}
}

// definitionFinalizer blocks the deletion of a CRD until its objects are gone.
const definitionFinalizer = "customresourcecleanup.apiextensions.k8s.io"

// endDefinition deletes the objects of a CRD that is marked for deletion, and then the CRD.
func (s *Server) endDefinition(d *store.Item) {
	object := d.Object()
	finalizers, _ := rawjson.AsMap(object["metadata"])["finalizers"].([]any)
	if !slices.Contains(finalizers, any(definitionFinalizer)) {
		return
	}
	kinds, err := kindsOf(object)
	if err != nil || len(kinds) == 0 {
		return
	}
	s.empty(kinds[0], "")
	if left, _ := s.db.List(kinds[0].collection()); len(left) > 0 {
		return
	}
	definitions := s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
	r := &apiRequest{server: s, kind: definitions, verb: "patch", name: d.Name, manager: "kube-apiserver"}
	_, err = r.changeObject(func(live map[string]any) (map[string]any, error) {
		manifest.RemoveFinalizer(live, definitionFinalizer)
		return live, nil
	})
	if e := (*apierrors.StatusError)(nil); err != nil && (!errors.As(err, &e) || e.Code != 404) {
		s.opts.Logger.Error("A resource definition cannot be removed.", "name", d.Name, "error", err)
	}
}

// namespaceFinalizer is the finalizer in the spec of a namespace that blocks its deletion until it is empty.
const namespaceFinalizer = "kubernetes"

// endNamespace deletes the objects in a namespace that is marked for deletion, and then the
// namespace.
func (s *Server) endNamespace(i *store.Item) {
	object := i.Object()
	finalizers, _ := rawjson.AsMap(object["spec"])["finalizers"].([]any)
	if rawjson.AsMap(object["metadata"])["deletionTimestamp"] == nil || !slices.Contains(finalizers, any(namespaceFinalizer)) {
		return
	}
	done := make(map[string]bool)
	left := 0
	for _, k := range s.kinds() {
		if !k.resource.Namespaced || k.postedOnly || done[k.collection()] {
			continue
		}
		done[k.collection()] = true
		s.empty(k, i.Name)
		items, _ := s.db.List(k.collection())
		for _, rest := range items {
			if rest.Namespace == i.Name {
				left++
			}
		}
	}
	if s.db.Get("namespaces.", i.Name) == nil {
		return // deleting the last object has deleted it
	}
	r := &apiRequest{server: s, kind: s.kindOf("v1", "Namespace"), verb: "patch", name: i.Name, manager: "kube-controller-manager", subresource: "status"}
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
	if e := (*apierrors.StatusError)(nil); err != nil && (!errors.As(err, &e) || e.Code != 404) {
		s.opts.Logger.Error("A namespace cannot be removed.", "name", i.Name, "error", err)
	}
}

// mapAt returns the map at a key of an object, which it makes if there is none.
func mapAt(object map[string]any, key string) map[string]any {
	m := rawjson.AsMap(object[key])
	if m == nil {
		m = make(map[string]any)
		object[key] = m
	}
	return m
}

// namespaceEnd returns the conditions of a terminating namespace with a number of objects left.
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

// empty deletes all objects of a kind, in one namespace or everywhere.
func (s *Server) empty(k *kindInfo, namespace string) {
	items, _ := s.db.List(k.collection())
	for _, i := range items {
		if namespace != "" && i.Namespace != namespace || unstructured.View(i.Raw).Has("metadata.deletionTimestamp") {
			continue
		}
		r := &apiRequest{server: s, kind: k.inStorage(), verb: "delete", name: i.Name, namespace: i.Namespace, manager: "kube-controller-manager"}
		err := r.deleteObject(deleteOptions{PropagationPolicy: "Background"})
		if e := (*apierrors.StatusError)(nil); err != nil && (!errors.As(err, &e) || e.Code != 404) {
			s.opts.Logger.Error("An object cannot be deleted with its namespace or definition.", "kind", k.resource.Kind, "object", i.Key, "error", err)
		}
	}
}
