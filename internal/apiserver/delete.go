package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/protobuf"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// This file deletes the objects of the in-memory API server, and does what follows from changes of namespaces and of
// resource definitions. Real clusters leave some of that to controllers; here it is done at once.

// deleteOptions is what a client says about a deletion.
type deleteOptions struct {
	GracePeriodSeconds *int64
	PropagationPolicy  string
	OrphanDependents   *bool
	DryRun             []string
	Preconditions      struct{ UID, ResourceVersion *string }
}

func (a *apiRequest) deleteOptions() (deleteOptions, error) {
	var o deleteOptions
	if len(a.body) > 0 {
		var object map[string]any
		var err error
		switch media := a.raw.Header.Get("Content-Type"); {
		case strings.Contains(media, "protobuf"):
			object, err = protobuf.Decode(a.body)
		case strings.Contains(media, "yaml"):
			var all []map[string]any
			if all, err = yaml.ParseManifests(a.body); err == nil && len(all) == 1 {
				object = all[0]
			}
		default:
			object, err = rawjson.DecodeObject(a.body)
		}
		if err != nil {
			return o, apierrors.BadRequest("the delete options are unrecognized: %v", err)
		}
		data, err := rawjson.Encode(object)
		if err != nil {
			return o, err
		}
		if err := json.Unmarshal(data, &o); err != nil {
			return o, apierrors.BadRequest("the delete options are unrecognized: %v", err)
		}
	}
	if p := a.query.Get("propagationPolicy"); p != "" {
		o.PropagationPolicy = p
	}
	a.dryRun = a.dryRun || slices.Contains(o.DryRun, "All")
	if p := o.PropagationPolicy; p != "" && !slices.Contains([]string{"Orphan", "Background", "Foreground"}, p) {
		return o, invalidOptions("DeleteOptions", field.NotSupported("propagationPolicy", p, `supported values: "Foreground", "Background", "Orphan", "nil"`))
	}
	return o, nil
}

func (a *apiRequest) delete(w http.ResponseWriter, r *http.Request) error {
	o, err := a.deleteOptions()
	if err != nil {
		return err
	}
	last, gone, err := a.deleteStored(o)
	if err != nil {
		return err
	}
	if !gone || a.kind.returnsGone {
		return a.answerItem(w, r, 200, last.raw)
	}
	details := a.kind.about(a.name)
	details["uid"] = rawjson.StringAt(last.raw, "metadata", "uid")
	a.server.write(w, r, 200, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success", "details": details})
	return nil
}

func (a *apiRequest) deleteObject(o deleteOptions) error {
	_, _, err := a.deleteStored(o)
	return err
}

// deleteStored deletes an object, or marks it for deletion if something holds it.
func (a *apiRequest) deleteStored(o deleteOptions) (last *item, gone bool, err error) {
	collection := a.kind.collection()
	for {
		before := a.server.db.get(collection, a.key())
		if before == nil {
			return nil, false, a.kind.notFound(a.name)
		}
		live := before.object()
		if err := a.precondition(o, live); err != nil {
			return nil, false, err
		}
		if err := a.admit(live, nil, true); err != nil {
			return nil, false, err
		}
		if err := a.admit(live, nil, false); err != nil {
			return nil, false, err
		}
		object := a.mark(live, o)
		if a.dryRun {
			raw, err := rawjson.Encode(object)
			return &item{key: before.key, raw: raw, version: before.version}, released(object), err
		}
		var ok bool
		switch {
		case released(object):
			if rawjson.AsMap(live["metadata"])["deletionTimestamp"] == nil {
				object = live // it was never marked
			}
			last, ok, err = a.server.db.remove(collection, a.key(), before, object)
			gone = true
		case rawjson.Equal(object, live):
			return before, false, nil
		default:
			last, ok, err = a.server.db.put(collection, a.key(), before, object)
		}
		if err != nil {
			return nil, false, err
		}
		if ok && gone {
			a.server.removed(a.kind, last)
			return last, true, nil
		} else if ok {
			a.server.stored(a.kind, last)
			if a.server.db.get(collection, a.key()) == nil {
				return last, a.kind.resource.Plural != "namespaces", nil
			}
			return last, false, nil
		}
	}
}

func (a *apiRequest) precondition(o deleteOptions, live map[string]any) error {
	meta := rawjson.AsMap(live["metadata"])
	if want := o.Preconditions.UID; want != nil && *want != meta["uid"] {
		return a.kind.deletionConflict(a.name, fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *want, meta["uid"]))
	}
	if want := o.Preconditions.ResourceVersion; want != nil && *want != meta["resourceVersion"] {
		return a.kind.deletionConflict(a.name, fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *want, meta["resourceVersion"]))
	}
	return nil
}

// mark returns the object as it is when marked for deletion.
func (a *apiRequest) mark(live map[string]any, o deleteOptions) map[string]any {
	object := rawjson.Clone(live).(map[string]any)
	meta := rawjson.AsMap(object["metadata"])
	policy := o.PropagationPolicy
	if o.OrphanDependents != nil && *o.OrphanDependents {
		policy = "Orphan"
	}
	finalizers, _ := meta["finalizers"].([]any)
	if policy != "" { // which takes the place of what was wished before
		finalizers = slices.DeleteFunc(finalizers, func(f any) bool { return f == "orphan" || f == "foregroundDeletion" })
		delete(meta, "finalizers")
	}
	switch policy {
	case "Orphan":
		finalizers = append(finalizers, "orphan")
	case "Foreground":
		finalizers = append(finalizers, "foregroundDeletion")
	}
	if a.kind.resource.Plural == "customresourcedefinitions" && !slices.Contains(finalizers, any(definitionFinalizer)) && meta["deletionTimestamp"] == nil {
		finalizers = append(finalizers, definitionFinalizer)
	}
	if len(finalizers) > 0 {
		meta["finalizers"] = finalizers
	}
	if meta["deletionTimestamp"] != nil {
		return object
	}
	meta["deletionTimestamp"] = unstructured.Timestamp(time.Now())
	meta["deletionGracePeriodSeconds"] = json.Number("0")
	if a.kind.generation {
		raiseGeneration(object)
	}
	if a.kind.resource.Plural == "namespaces" {
		delete(meta, "deletionGracePeriodSeconds")
		object["status"] = map[string]any{"phase": "Terminating"}
	}
	return object
}

func (a *apiRequest) deleteCollection(w http.ResponseWriter, r *http.Request) error {
	o, err := a.deleteOptions()
	if err != nil {
		return err
	}
	sel, err := a.selection()
	if err != nil {
		return err
	}
	items, version := a.server.db.list(a.kind.collection())
	var deleted []*item
	for _, i := range items {
		if !sel.has(i) {
			continue
		}
		one := *a
		one.verb, one.name, one.namespace = "delete", i.name, i.namespace
		err := one.deleteObject(o)
		if e := (*apierrors.StatusError)(nil); errors.As(err, &e) && e.Code == 404 {
			continue
		} else if err != nil {
			return err
		}
		deleted = append(deleted, i)
	}
	a.server.write(w, r, 200, a.answer(asObjects, deleted, a.listMeta(version)))
	return nil
}

// suffix returns the end of a generated name.
func (s *Server) suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	s.mu.Lock()
	s.uid++
	n := s.uid * 7919
	s.mu.Unlock()
	var b [5]byte
	for i := range b {
		b[i] = alphabet[n%uint64(len(alphabet))]
		n /= uint64(len(alphabet))
	}
	return string(b[:])
}

// definitionFinalizer holds a resource definition until its objects are gone.
const definitionFinalizer = "customresourcecleanup.apiextensions.k8s.io"

// initialize gives a new object of a built-in kind what the server always gives it.
func (k *kindInfo) initialize(object map[string]any) {
	meta := rawjson.AsMap(object["metadata"])
	name := unstructured.Text(meta, "name")
	switch k.resource.Plural + "." + k.resource.Group {
	case "namespaces.":
		labels := rawjson.AsMap(meta["labels"])
		if labels == nil {
			labels = make(map[string]any)
			meta["labels"] = labels
		}
		labels["kubernetes.io/metadata.name"] = name
		object["spec"] = map[string]any{"finalizers": []any{"kubernetes"}}
		object["status"] = map[string]any{"phase": "Active"}
	case "customresourcedefinitions.apiextensions.k8s.io":
		spec := rawjson.AsMap(object["spec"])
		names := rawjson.AsMap(spec["names"])
		kind := unstructured.Text(names, "kind")
		if names != nil && unstructured.IsEmpty(names["listKind"]) {
			names["listKind"] = kind + "List"
		}
		if names != nil && (names["singular"] == nil || names["singular"] == "") {
			names["singular"] = strings.ToLower(kind)
		}
		if spec != nil && spec["conversion"] == nil {
			spec["conversion"] = map[string]any{"strategy": "None"}
		}
	case "secrets.":
		if object["type"] == nil {
			object["type"] = "Opaque"
		}
		encodeStringData(object)
	}
}

// stored does what follows from a stored object.
func (s *Server) stored(k *kindInfo, i *item) {
	switch k.resource.Plural + "." + k.resource.Group {
	case "customresourcedefinitions.apiextensions.k8s.io":
		if unstructured.View(i.raw).Has("metadata.deletionTimestamp") {
			s.endDefinition(i)
		} else {
			s.establish(i)
		}
	case "namespaces.":
		s.endNamespace(i)
	}
}

// removed does what follows from the end of an object.
func (s *Server) removed(k *kindInfo, i *item) {
	switch {
	case k.resource.Plural == "customresourcedefinitions" && k.crd == nil:
		s.rebuild()
		return
	case k.crd != nil:
		name := fmt.Sprint(rawjson.AsMap(k.crd["metadata"])["name"])
		definitions := s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
		if d := s.db.get(definitions.collection(), name); d != nil && unstructured.View(d.raw).Has("metadata.deletionTimestamp") {
			s.endDefinition(d)
		}
	}
	if k.resource.Namespaced {
		if ns := s.db.get("namespaces.", i.namespace); ns != nil {
			s.endNamespace(ns)
		}
	}
}

// rebuild finds out anew which kinds are served.
func (s *Server) rebuild() {
	served := slices.Clone(builtinKinds())
	definitions, _ := s.db.list("customresourcedefinitions.apiextensions.k8s.io")
	for _, d := range definitions {
		kinds, err := kindsOf(d.object())
		if err != nil {
			s.opts.Logger.Error("A resource definition cannot be served.", "name", d.name, "error", err)
			continue
		}
		served = append(served, kinds...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = served
}

// establish serves a resource definition, and says so in its status.
func (s *Server) establish(i *item) {
	s.rebuild()
	definitions := s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
	r := &apiRequest{server: s, kind: definitions, verb: "patch", name: i.name, subresource: "status", manager: "kube-apiserver"}
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
		s.opts.Logger.Error("A resource definition cannot be established.", "name", i.name, "error", err)
	}
}

// endDefinition deletes the objects of a resource definition that is marked for deletion, and then the definition itself.
func (s *Server) endDefinition(d *item) {
	object := d.object()
	finalizers, _ := rawjson.AsMap(object["metadata"])["finalizers"].([]any)
	if !slices.Contains(finalizers, any(definitionFinalizer)) {
		return
	}
	kinds, err := kindsOf(object)
	if err != nil || len(kinds) == 0 {
		return
	}
	s.empty(kinds[0], "")
	if left, _ := s.db.list(kinds[0].collection()); len(left) > 0 {
		return
	}
	definitions := s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
	r := &apiRequest{server: s, kind: definitions, verb: "patch", name: d.name, manager: "kube-apiserver"}
	_, err = r.changeObject(func(live map[string]any) (map[string]any, error) {
		meta := rawjson.AsMap(live["metadata"])
		list, _ := meta["finalizers"].([]any)
		if meta["finalizers"] = slices.DeleteFunc(slices.Clone(list), func(f any) bool { return f == definitionFinalizer }); len(list) <= 1 {
			delete(meta, "finalizers")
		}
		return live, nil
	})
	if e := (*apierrors.StatusError)(nil); err != nil && (!errors.As(err, &e) || e.Code != 404) {
		s.opts.Logger.Error("A resource definition cannot be removed.", "name", d.name, "error", err)
	}
}

// empty deletes all objects of a kind, in one namespace or everywhere.
func (s *Server) empty(k *kindInfo, namespace string) {
	items, _ := s.db.list(k.collection())
	for _, i := range items {
		if namespace != "" && i.namespace != namespace || unstructured.View(i.raw).Has("metadata.deletionTimestamp") {
			continue
		}
		r := &apiRequest{server: s, kind: k, verb: "delete", name: i.name, namespace: i.namespace, manager: "kube-controller-manager"}
		err := r.deleteObject(deleteOptions{})
		if e := (*apierrors.StatusError)(nil); err != nil && (!errors.As(err, &e) || e.Code != 404) {
			s.opts.Logger.Error("An object cannot be deleted with its namespace or definition.", "kind", k.resource.Kind, "object", i.key, "error", err)
		}
	}
}

// endNamespace deletes what is in a namespace that is marked for deletion, and then the namespace itself.
func (s *Server) endNamespace(i *item) {
	object := i.object()
	finalizers, _ := rawjson.AsMap(object["spec"])["finalizers"].([]any)
	if rawjson.AsMap(object["metadata"])["deletionTimestamp"] == nil || len(finalizers) == 0 {
		return
	}
	done := make(map[string]bool)
	left := 0
	for _, k := range s.kinds() {
		if !k.resource.Namespaced || k.postedOnly || done[k.collection()] {
			continue
		}
		done[k.collection()] = true
		s.empty(k, i.name)
		items, _ := s.db.list(k.collection())
		for _, rest := range items {
			if rest.namespace == i.name {
				left++
			}
		}
	}
	if s.db.get("namespaces.", i.name) == nil {
		return // the last of them has ended it already
	}
	r := &apiRequest{server: s, kind: s.kindOf("v1", "Namespace"), verb: "patch", name: i.name, manager: "kube-controller-manager", subresource: "status"}
	change := func(live map[string]any) (map[string]any, error) {
		if rawjson.AsMap(live["status"])["conditions"] == nil {
			rawjson.AsMap(live["status"])["conditions"] = namespaceEnd(left)
		}
		return live, nil
	}
	if left == 0 {
		r.subresource = "finalize"
		change = func(live map[string]any) (map[string]any, error) {
			rawjson.AsMap(live["spec"])["finalizers"] = []any{}
			return live, nil
		}
	}
	_, err := r.changeObject(change)
	if e := (*apierrors.StatusError)(nil); err != nil && (!errors.As(err, &e) || e.Code != 404) {
		s.opts.Logger.Error("A namespace cannot be removed.", "name", i.name, "error", err)
	}
}

// namespaceEnd are the conditions of a namespace in which something is left.
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
