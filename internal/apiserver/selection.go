package apiserver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/selector"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// selection selects the objects of a list or a watch.
type selection struct {
	request   *apiRequest
	namespace string
	name      string
	labels    []selector.Requirement
	fields    []selector.Requirement
}

// places reports whether the selection includes the namespace and the name of an object, regardless of its content.
func (s *selection) places(i *store.Item) bool {
	return i != nil && (s.namespace == "" || i.Namespace == s.namespace) && (s.name == "" || i.Name == s.name)
}

// byContent reports whether the selection depends on the content of objects.
func (s *selection) byContent() bool { return len(s.labels)+len(s.fields) > 0 }

// converted is [apiRequest.converted] for the objects with a selected namespace and name. The others stay unchanged.
func (s *selection) converted(items []*store.Item) ([]*store.Item, error) {
	if s.request.kind.conversion == nil {
		return items, nil
	}
	all := slices.Clone(items)
	var at []int
	var chosen []*store.Item
	for i, item := range items {
		if s.places(item) {
			at, chosen = append(at, i), append(chosen, item)
		}
	}
	chosen, err := s.request.converted(chosen...)
	for n, item := range chosen {
		all[at[n]] = item
	}
	return all, err
}

// has reports whether an object is selected.
func (s *selection) has(i *store.Item) bool {
	if !s.places(i) {
		return false
	}
	for _, r := range s.labels {
		raw, ok := rawjson.Find(i.Raw, "metadata", "labels", r.Key)
		if !r.Matches(rawjson.Unquote(raw), ok) {
			return false
		}
	}
	raw := i.Raw
	if len(s.fields) > 0 && s.request.kind.crd != nil {
		raw = s.request.sent(raw) // with the defaults that clients see
	}
	for _, r := range s.fields {
		if !r.Matches(selectedValue(raw, r.Key), true) {
			return false
		}
	}
	return true
}

// selectedValue returns the value of a selectable field.
func selectedValue(raw []byte, key string) string {
	object := unstructured.View(raw)
	if key == "source" { // of an event
		return cmp.Or(object.String("source.component"), object.String("reportingComponent"))
	}
	return cmp.Or(rawjson.ScalarAt(raw, strings.Split(key, ".")...), unsetFields[key])
}

// unsetFields are the values of missing selectable fields.
var unsetFields = map[string]string{"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}

// selection parses the selectors of a list or a watch, and checks the other options.
func (a *apiRequest) selection() (*selection, error) {
	s := &selection{request: a, namespace: a.namespace, name: a.name}
	for _, key := range []string{"limit", "timeoutSeconds"} {
		if _, err := a.number(key); err != nil {
			return nil, err
		}
	}
	var err error
	if s.labels, err = selector.ParseLabels(a.query.Get("labelSelector")); err != nil {
		return nil, err
	}
	if s.fields, err = selector.ParseFields(a.query.Get("fieldSelector")); err != nil {
		return nil, err
	}
	if a.kind.isNewEvents() {
		if err := selectNewEvents(s.fields); err != nil {
			return nil, err
		}
	}
	switch a.verb {
	case "list":
		err = a.checkList()
	case "watch":
		err = a.checkWatch()
	}
	if err != nil {
		return nil, err
	}
	return s, a.checkFields(s)
}

// checkFields refuses selectors of fields that are not selectable.
func (a *apiRequest) checkFields(s *selection) error {
	for _, r := range s.fields {
		known := slices.Contains(a.kind.selectable, r.Key) || r.Key == "metadata.name" || r.Key == "metadata.namespace" && a.kind.resource.Namespaced
		ofKind := func(field string) bool { return strings.HasPrefix(field, a.kind.resource.Plural+" ") }
		if !known && (a.kind.crd != nil || slices.ContainsFunc(selectableFields, ofKind) && !slices.Contains(selectableFields, a.kind.resource.Plural+" "+r.Key)) {
			return apierrors.BadRequest("field label not supported: %s", r.Key)
		}
		if !known && !slices.Contains(selectableFields, a.kind.resource.Plural+" "+r.Key) {
			return apierrors.BadRequest("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", r.Key)
		}
	}
	return nil
}

// selectableFields are the selectable fields of built-in kinds, each after its resource. In addition, all kinds have the name and the namespace.
var selectableFields = []string{
	"pods spec.nodeName", "pods spec.restartPolicy", "pods spec.schedulerName", "pods spec.serviceAccountName", "pods spec.hostNetwork",
	"pods status.phase", "pods status.podIP", "pods status.podIPs", "pods status.nominatedNodeName",
	"events involvedObject.kind", "events involvedObject.namespace", "events involvedObject.name", "events involvedObject.uid",
	"events involvedObject.apiVersion", "events involvedObject.resourceVersion", "events involvedObject.fieldPath", "events reason",
	"events reportingComponent", "events source", "events type",
	"secrets type", "services spec.clusterIP", "services spec.type", "certificatesigningrequests spec.signerName", "resourceslices spec.driver", "resourceslices spec.nodeName",
	"namespaces status.phase",
	"nodes spec.unschedulable",
	"jobs status.successful",
	"replicationcontrollers status.replicas",
}
