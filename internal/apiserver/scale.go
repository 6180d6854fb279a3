package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file knows the subresource scale of the in-memory API server: the number of replicas of an object, wherever its
// kind keeps it.

// scaleOf returns the scale of an object, as the subresource shows it.
func (a *apiRequest) scaleOf(object map[string]any) map[string]any {
	meta := rawjson.AsMap(object["metadata"])
	about := map[string]any{}
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		if v, ok := meta[key]; ok {
			about[key] = v
		}
	}
	at := func(key string) any {
		path := textIn(a.kind.scale, key)
		v, _ := rawjson.Lookup(object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
		return v
	}
	scale := map[string]any{"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": about, "spec": map[string]any{}, "status": map[string]any{"replicas": json.Number("0")}}
	if n, ok := at("specReplicasPath").(json.Number); ok && n != "0" {
		scale["spec"] = map[string]any{"replicas": n}
	}
	status := rawjson.AsMap(scale["status"])
	if n, ok := at("statusReplicasPath").(json.Number); ok {
		status["replicas"] = n
	}
	switch selector := at("labelSelectorPath").(type) {
	case string:
		status["selector"] = selector
	case map[string]any:
		var parts []string
		labels := rawjson.AsMap(selector["matchLabels"])
		for _, k := range slices.Sorted(maps.Keys(labels)) {
			parts = append(parts, fmt.Sprintf("%s=%v", k, labels[k]))
		}
		status["selector"] = strings.Join(parts, ",")
	}
	return scale
}

// replicas is where the kind keeps the number of replicas.
func (a *apiRequest) replicas() []string {
	path := textIn(a.kind.scale, "specReplicasPath")
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}

// unscalable tells why an object is no scale, "" if it is one.
func unscalable(scale map[string]any) string {
	n := rawjson.AsMap(scale["spec"])["replicas"]
	if typ := typeOf(n); n != nil && typ != "integer" {
		return fmt.Sprintf("json: cannot unmarshal %s into Go struct field ScaleSpec.spec.replicas of type int32", typ)
	}
	return ""
}

// scaled returns the live object with the number of replicas of a scale.
func (a *apiRequest) scaled(live, scale map[string]any) (map[string]any, error) {
	n, ok := rawjson.AsMap(scale["spec"])["replicas"].(json.Number)
	if !ok {
		n = "0"
	}
	if strings.HasPrefix(n.String(), "-") && a.kind.crd == nil {
		return nil, (&kindInfo{resource: apiResource{Group: "autoscaling", Kind: "Scale"}}).invalid(a.name,
			[]fieldError{{typ: "FieldValueInvalid", field: "spec.replicas", value: n, detail: "must be greater than or equal to 0"}})
	}
	whole := rawjson.Clone(live).(map[string]any)
	old, _ := rawjson.Lookup(live, a.replicas()...)
	putAt(whole, n, a.replicas()...)
	a.manageScale(whole, !rawjson.Equal(old, n))
	return whole, nil
}

// unscaled returns what is applied to the object itself when a scale is applied.
func (a *apiRequest) unscaled(scale map[string]any) map[string]any {
	object := map[string]any{"apiVersion": a.kind.apiVersion(), "kind": a.kind.resource.Kind, "metadata": scale["metadata"]}
	if n := rawjson.AsMap(scale["spec"])["replicas"]; n != nil {
		putAt(object, n, a.replicas()...)
	}
	return object
}

// manageScale notes who has set the number of replicas. As in kube-apiserver, whoever had set it through the object itself gets a
// second entry for it, without a time; the two become one at the next change.
func (a *apiRequest) manageScale(object map[string]any, changed bool) {
	o := a.managed()
	path := a.replicas()
	for i, key := range path {
		path[i] = "f:" + key
	}
	parents, scales := managersOf(object), make(managers)
	for k, m := range parents {
		if m.fields.has(path) {
			scales[k.ofScale()] = m
		}
	}
	if n, _ := rawjson.Lookup(object, a.replicas()...); changed && rawjson.Equal(n, json.Number("0")) {
		scales = make(managers) // a zero is not written, so that nobody has set it
	} else if changed && len(scales) > 0 {
		scales = managers{o.key().ofScale(): nil}
	}
	only := &fieldSet{}
	only.insert(path)
	all := make(managers)
	for k, m := range parents {
		if _, same := scales[k]; same || !m.fields.has(path) {
			delete(scales, k)
			all[k] = m
		} else if rest := m.fields.minus(only); !rest.empty() {
			all[k] = &managed{m.apiVersion, m.time, rest}
		}
	}
	for k := range scales {
		all[k] = &managed{apiVersion: o.apiVersion, fields: only}
	}
	all.store(object)
}

// ofScale is the key of an entry in the managedFields of a scale.
func (k managerKey) ofScale() managerKey {
	if k.operation == "Update" {
		k.apiVersion = "autoscaling/v1"
	}
	return k
}

// checkScale tells what is wrong with the numbers of a custom resource that its scale shows.
func (a *apiRequest) checkScale(object map[string]any) []fieldError {
	if a.kind.crd == nil || a.kind.scale == nil {
		return nil
	}
	keys := []string{"specReplicasPath", "statusReplicasPath", "labelSelectorPath"}
	if a.subresource == "status" {
		keys = keys[1:]
	}
	var faults []fieldError
	for _, key := range keys {
		path := textIn(a.kind.scale, key)
		if path == "" {
			continue
		}
		v, found, blocked := reach(object, strings.Split(strings.TrimPrefix(path, "."), "."))
		typ, want, detail := typeOf(v), "", ""
		var value any = json.Number("0")
		if key == "labelSelectorPath" {
			value = ""
		}
		switch n, _ := v.(json.Number); {
		case blocked:
			want = "map[string]interface{}"
		case !found:
		case key == "labelSelectorPath":
			if typ != "string" {
				want = "string"
			}
		case typ != "integer" || strings.Contains(n.String(), "."):
			want = "int64"
		case strings.HasPrefix(n.String(), "-"):
			value, detail = n, "should be a non-negative integer"
		}
		if want != "" {
			detail = fmt.Sprintf("%s accessor error: %v is of the type %s, expected %s", path, v, unstructuredType(v), want)
		}
		if detail != "" {
			faults = withFault(faults, "FieldValueInvalid", path, value, detail)
		}
	}
	return faults
}

// reach follows a path through objects, and tells whether there is something, or what is in its way.
func reach(v any, path []string) (at any, found, blocked bool) {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return v, false, true
		}
		if v, ok = m[key]; !ok {
			return nil, false, false
		}
	}
	return v, true, false
}

// unstructuredType names the type that a value has when it is decoded into nothing in particular.
func unstructuredType(v any) string {
	switch typ := typeOf(v); typ {
	case "null":
		return "<nil>"
	case "boolean":
		return "bool"
	case "integer", "number":
		return "float64"
	case "array":
		return "[]interface {}"
	case "object":
		return "map[string]interface {}"
	default:
		return typ
	}
}

// putAt sets the value at a path of keys, making the maps on the way.
func putAt(object map[string]any, value any, keys ...string) {
	last := len(keys) - 1
	for _, key := range keys[:last] {
		next := rawjson.AsMap(object[key])
		if next == nil {
			next = make(map[string]any)
			object[key] = next
		}
		object = next
	}
	object[keys[last]] = value
}
