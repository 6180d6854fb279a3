package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// definedKinds are the kinds of a CRD in one state.
type definedKinds struct {
	item   *store.Item
	served []*kindInfo
}

// rebuildLocked updates the served kinds, and ends the watches of those that are no longer served in the same form. The caller holds naming.
func (s *Server) rebuildLocked() {
	definitions, _ := s.db.List(definitionsCollection)
	var defined []*definedKinds
	served := slices.Clone(builtinKinds())
	for _, d := range definitions {
		i := slices.IndexFunc(s.defined, func(before *definedKinds) bool { return before.item.Key == d.Key })
		now := &definedKinds{item: d}
		switch {
		case i >= 0 && s.defined[i].item == d:
			now = s.defined[i]
		default:
			var err error
			if now.served, _, err = kindsOf(d.Object()); err != nil {
				s.opts.Logger.Error("A resource definition cannot be served", "name", d.Name, "error", err)
			}
			for _, k := range now.served {
				k.since, k.began = d.Version, s.db.Now()
				if i >= 0 {
					k.inherit(s.defined[i].served)
				}
			}
		}
		defined = append(defined, now)
		served = append(served, now.served...)
	}
	before := s.defined
	s.defined = defined
	s.mu.Lock()
	s.served = served
	s.mu.Unlock()
	for _, d := range before {
		for _, k := range d.served {
			if !slices.ContainsFunc(served, func(now *kindInfo) bool { return now.ended == k.ended }) {
				close(k.ended)
			}
		}
	}
}

// inherit copies the state of a kind if its CRD defines it as before: the version since which objects are stored, and the watches.
func (k *kindInfo) inherit(before []*kindInfo) {
	for _, old := range before {
		if old.resource.Version == k.resource.Version && rawjson.Equal(old.crd["spec"], k.crd["spec"]) && old.resource.Kind == k.resource.Kind && old.listKind == k.listKind &&
			rawjson.Equal(rawjson.AsMap(old.crd["metadata"])["uid"], rawjson.AsMap(k.crd["metadata"])["uid"]) {
			k.since, k.began, k.ended = old.since, old.began, old.ended
		}
	}
}

// definitionsCollection is the collection of CRDs in the store.
const definitionsCollection = "customresourcedefinitions.apiextensions.k8s.io"

// acceptNames accepts the names of a CRD that was created, changed or deleted. It then reconsiders the other CRDs in its group.
func (s *Server) acceptNames(i *store.Item) {
	s.naming.Lock()
	defer s.naming.Unlock()
	group := unstructured.View(i.Raw).String("spec.group")
	for again := true; again; {
		again = s.acceptNamesOf(i.Name, group)
		definitions, _ := s.db.List(definitionsCollection)
		for _, d := range definitions {
			if d.Name != i.Name && unstructured.View(d.Raw).String("spec.group") == group && s.acceptNamesOf(d.Name, group) {
				again = true
			}
		}
	}
	s.rebuildLocked()
}

// isNaming reports whether the server sends the request to accept names.
func (a *apiRequest) isNaming() bool {
	return a.ctx == nil && a.kind.isDefinitions() && a.subresource == "status" && a.manager == namingManager
}

// namingManager is the manager of the status of CRDs.
const namingManager = "kube-apiserver"

// acceptNamesOf accepts the names of one CRD that are free, and reports whether that has changed its status.
func (s *Server) acceptNamesOf(name, group string) (changed bool) {
	before := s.db.Get(definitionsCollection, name)
	if before == nil || hasItsNames(before.Object()) {
		return false
	}
	resources, kinds := s.takenNames(group)
	raw, err := s.changeDefinition(name, "status", func(live map[string]any) {
		status := mapAt(live, "status")
		requested := rawjson.AsMap(rawjson.AsMap(live["spec"])["names"])
		accepted, reason, message := acceptable(requested, rawjson.AsMap(status["acceptedNames"]), resources, kinds)
		status["acceptedNames"] = accepted
		if reason == "" {
			setCondition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
			if !isTrue(status, "Established") {
				setCondition(status, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
			}
		} else {
			setCondition(status, "NamesAccepted", "False", reason, message)
			if condition(status, "Established") == nil {
				setCondition(status, "Established", "False", "NotAccepted", "not all names are accepted")
			}
		}
		conformApproval(live, status)
	})
	if err != nil {
		s.opts.Logger.Error("A resource definition cannot be established", "name", name, "error", err)
		return false
	}
	return raw != nil && versionOf(raw) != before.Version
}

// hasItsNames reports whether a CRD has the names that it requests, and nothing is to be changed in its status.
func hasItsNames(live map[string]any) bool {
	spec, status := rawjson.AsMap(live["spec"]), rawjson.AsMap(live["status"])
	return rawjson.Equal(spec["names"], status["acceptedNames"]) && isTrue(status, "NamesAccepted") && !isProtected(unstructured.Text(spec, "group"))
}

// changeDefinition changes a CRD if it exists.
func (s *Server) changeDefinition(name, subresource string, change func(live map[string]any)) ([]byte, error) {
	r := &apiRequest{server: s, kind: s.kindOf("apiextensions.k8s.io/v1", "CustomResourceDefinition"), verb: "patch", name: name, subresource: subresource, manager: namingManager}
	raw, err := r.changeObject(func(live map[string]any) (map[string]any, error) {
		change(live)
		return live, nil
	})
	if e := (*apierrors.StatusError)(nil); errtype.As(err, &e) && e.Code == 404 {
		return nil, nil
	}
	return raw, err
}

// takenNames returns the accepted names of all CRDs of a group.
func (s *Server) takenNames(group string) (resources, kinds map[string]bool) {
	resources, kinds = make(map[string]bool), make(map[string]bool)
	definitions, _ := s.db.List(definitionsCollection)
	for _, d := range definitions {
		if unstructured.View(d.Raw).String("spec.group") != group {
			continue
		}
		names := rawjson.AsMap(rawjson.AsMap(d.Object()["status"])["acceptedNames"])
		for _, name := range append(unstructured.Texts(names["shortNames"]), unstructured.Text(names, "plural"), unstructured.Text(names, "singular")) {
			resources[name] = true
		}
		for _, key := range []string{"kind", "listKind"} {
			kinds[unstructured.Text(names, key)] = true
		}
	}
	return resources, kinds
}

// acceptable returns the accepted names of a CRD, given the requested ones, those accepted so far, and those that are taken. It returns a reason and
// a message if it cannot accept some.
func acceptable(requested, accepted map[string]any, resources, kinds map[string]bool) (names map[string]any, reason, message string) {
	names = map[string]any{"kind": "", "plural": ""}
	for key, v := range accepted {
		names[key] = v
	}
	inUse := func(name string) string { return fmt.Sprintf("%q is already in use", name) }
	one := func(key, conflict string, taken map[string]bool) {
		name := unstructured.Text(requested, key)
		if name != unstructured.Text(accepted, key) && taken[name] {
			reason, message = conflict, inUse(name)
			return
		}
		names[key] = name
	}
	one("plural", "PluralConflict", resources)
	one("singular", "SingularConflict", resources)
	var wrong []string
	own := unstructured.Texts(accepted["shortNames"])
	for _, name := range unstructured.Texts(requested["shortNames"]) {
		if text := inUse(name); !slices.Contains(own, name) && resources[name] && !slices.Contains(wrong, text) {
			wrong = append(wrong, text)
		}
	}
	if len(wrong) == 0 {
		keepOrDrop(names, "shortNames", requested["shortNames"])
	} else if reason, message = "ShortNamesConflict", strings.Join(wrong, ", "); len(wrong) > 1 {
		message = "[" + message + "]"
	}
	one("kind", "KindConflict", kinds)
	one("listKind", "ListKindConflict", kinds)
	keepOrDrop(names, "categories", requested["categories"])
	return names, reason, message
}

// keepOrDrop sets a key, or deletes it if the value is empty.
func keepOrDrop(object map[string]any, key string, value any) {
	if delete(object, key); !rawjson.IsEmpty(value) {
		object[key] = rawjson.Clone(value)
	}
}

// conformApproval sets the approval condition of CRDs in the groups of Kubernetes.
func conformApproval(live, status map[string]any) {
	if !isProtected(unstructured.Text(rawjson.AsMap(live["spec"]), "group")) {
		return
	}
	state, message := approvalOf(live)
	reason := map[string]string{"missing": "MissingAnnotation", "invalid": "InvalidAnnotation", "bypassed": "UnapprovedAnnotation", "approved": "ApprovedAnnotation"}[state]
	word := "False"
	if state == "approved" {
		word = "True"
	}
	setCondition(status, "KubernetesAPIApprovalPolicyConformant", word, reason, message)
}

// condition returns a condition of a status, nil if it has none of the type.
func condition(status map[string]any, typ string) map[string]any {
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c := rawjson.AsMap(c); c["type"] == typ {
			return c
		}
	}
	return nil
}

// isTrue reports whether a status has a condition that is true.
func isTrue(status map[string]any, typ string) bool {
	return condition(status, typ)["status"] == "True"
}

// setCondition sets a condition, with the time if its status changes.
func setCondition(status map[string]any, typ, word, reason, message string) {
	c := condition(status, typ)
	if c == nil {
		c = map[string]any{"type": typ}
		conditions, _ := status["conditions"].([]any)
		status["conditions"] = append(conditions, c)
	}
	if c["status"] != word {
		c["lastTransitionTime"] = unstructured.Timestamp(time.Now())
	}
	c["status"], c["reason"], c["message"] = word, reason, message
}

// defaultDefinition adds the defaults to a CRD.
func defaultDefinition(object map[string]any) {
	spec := rawjson.AsMap(object["spec"])
	names := rawjson.AsMap(spec["names"])
	kind := unstructured.Text(names, "kind")
	if names != nil && kind != "" && unstructured.Text(names, "listKind") == "" {
		names["listKind"] = kind + "List"
	}
	if names != nil && unstructured.Text(names, "singular") == "" {
		names["singular"] = strings.ToLower(kind)
	}
	if spec != nil && spec["conversion"] == nil {
		spec["conversion"] = map[string]any{"strategy": "None"}
	}
	if service, _ := rawjson.Lookup(spec["conversion"], "webhook", "clientConfig", "service"); rawjson.AsMap(service) != nil && rawjson.AsMap(service)["port"] == nil {
		rawjson.AsMap(service)["port"] = json.Number("443")
	}
}

// addStoredVersion adds the version in which the objects of a CRD are stored to the CRD's status.
func addStoredVersion(object map[string]any) {
	if stored := storedVersions(rawjson.AsMap(object["status"]), newDefinitionCheck(object).versions); len(stored) > 0 {
		mapAt(object, "status")["storedVersions"] = anys(stored)
	}
}

// definitionFinalizer blocks the deletion of a CRD as long as it has objects.
const definitionFinalizer = "customresourcecleanup.apiextensions.k8s.io"

// endDefinition deletes the objects of a CRD that is marked for deletion, and then the CRD.
func (s *Server) endDefinition(name string) {
	key := objectKey{definitionsCollection, name}
	s.process(key, func() {
		d := s.db.Get(definitionsCollection, name)
		if d == nil || !isDeleted(d.Raw) || !hasFinalizer(d.Raw, definitionFinalizer) {
			return
		}
		if !s.emptyDefinition(name, d.Object()) {
			s.tryLater(key, func(s *Server) { s.endDefinition(name) })
		}
	})
}

// emptyDefinition does it, and reports whether it succeeded. Objects with finalizers may remain.
func (s *Server) emptyDefinition(name string, object map[string]any) bool {
	change, subresource := func(live map[string]any) { manifest.RemoveFinalizer(live, definitionFinalizer) }, ""
	all := true
	if _, stored, err := kindsOf(object); err == nil && stored != nil {
		all = s.empty(stored, "")
		if left, _ := s.db.List(stored.collection()); len(left) > 0 {
			subresource = "status"
			change = func(live map[string]any) {
				setCondition(mapAt(live, "status"), "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
			}
		}
	}
	if _, err := s.changeDefinition(name, subresource, change); err != nil {
		s.opts.Logger.Error("A resource definition cannot be removed", "name", name, "error", err)
		return false
	}
	return all
}
