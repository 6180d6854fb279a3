package apiserver

import (
	"maps"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/selector"
	"github.com/kopf-go/kopf/internal/apiserver/table"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Two groups serve the same events, with other names of fields. They are stored as those of the core group. See
// https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/

// eventFields are the fields whose names differ: in the core group, and in events.k8s.io.
var eventFields = [...][2]string{
	{"message", "note"},
	{"involvedObject", "regarding"},
	{"source", "deprecatedSource"},
	{"firstTimestamp", "deprecatedFirstTimestamp"},
	{"lastTimestamp", "deprecatedLastTimestamp"},
	{"count", "deprecatedCount"},
	{"reportingComponent", "reportingController"},
}

// isNewEvents reports whether the kind is that of events in events.k8s.io.
func (k *kindInfo) isNewEvents() bool { return k.resource.Group == "events.k8s.io" }

// newEvent returns a stored event in the form of events.k8s.io.
func newEvent(raw []byte) []byte {
	object := unstructured.View(raw).Map()
	for _, names := range eventFields {
		rename(object, names[0], names[1])
	}
	object["apiVersion"] = "events.k8s.io/v1"
	raw, _ = rawjson.Encode(object) // it was JSON
	return raw
}

// storeNewEvent converts an event of events.k8s.io to the stored form.
func storeNewEvent(object map[string]any) {
	for _, names := range eventFields {
		rename(object, names[1], names[0])
	}
	object["apiVersion"] = "v1"
}

// toStorage converts an object to the version in which it is stored.
func (a *apiRequest) toStorage(object map[string]any) error {
	k := a.kind
	if k.isNewEvents() {
		storeNewEvent(object)
	}
	if k.isOldAutoscaler() {
		storeOldAutoscaler(object)
	}
	if k.stored == nil || k.stored == k {
		return nil
	}
	converted, err := a.inVersion(object, k.storage)
	if err != nil {
		return err
	}
	clear(object)
	maps.Copy(object, converted)
	return nil
}

// tableOf returns a table of objects. Events have the cells of the core group in both groups.
func (k *kindInfo) tableOf(objects []map[string]any, includeObject string) map[string]any {
	if !k.isNewEvents() {
		return table.New(k.tableColumns(), objects, includeObject, time.Now())
	}
	stored := make([]map[string]any, len(objects))
	for i, object := range objects {
		stored[i] = maps.Clone(object)
		storeNewEvent(stored[i])
	}
	rows := table.New(k.tableColumns(), stored, includeObject, time.Now())
	if includeObject == "Object" {
		list, _ := rows["rows"].([]any)
		for i, row := range list {
			rawjson.AsMap(row)["object"] = objects[i]
		}
	}
	return rows
}

func rename(object map[string]any, from, to string) {
	if v, ok := object[from]; ok {
		delete(object, from)
		object[to] = v
	}
}

// selectNewEvents replaces the fields of events.k8s.io in a selector by those of the stored events.
func selectNewEvents(fields []selector.Requirement) error {
	for i, r := range fields {
		head, rest, nested := strings.Cut(r.Key, ".")
		switch {
		case head == "regarding" && nested:
			fields[i].Key = "involvedObject." + rest
		case r.Key == "reportingController":
			fields[i].Key = "reportingComponent"
		case r.Key != "reason" && r.Key != "type" && head != "metadata":
			return apierrors.BadRequest("field label not supported: %s", r.Key)
		}
	}
	return nil
}
