package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/managedfields"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/table"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// scaleOf returns the scale subresource of an object.
func (a *apiRequest) scaleOf(object map[string]any) map[string]any {
	meta := rawjson.AsMap(object["metadata"])
	about := map[string]any{}
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		if v, ok := meta[key]; ok {
			about[key] = v
		}
	}
	at := func(key string) any {
		path := unstructured.Text(a.kind.scale, key)
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
		for _, k := range rawjson.SortedKeys(labels) {
			parts = append(parts, fmt.Sprintf("%s=%v", k, labels[k]))
		}
		status["selector"] = strings.Join(parts, ",")
	}
	return scale
}

// tableOfScale returns a scale as a table.
func (a *apiRequest) tableOfScale(scale map[string]any) map[string]any {
	rows := table.New(table.Columns("scale", a.kind.crd != nil, nil), []map[string]any{scale}, a.query.Get("includeObject"), time.Now())
	rows["metadata"] = map[string]any{"resourceVersion": rawjson.AsMap(scale["metadata"])["resourceVersion"]}
	return rows
}

// noReplicas marks a scale without replicas, so that the server recognizes a patch that does not set them.
const noReplicas = json.Number("-2147483648")

// markedScale returns the scale of an object for a patch.
func (a *apiRequest) markedScale(object map[string]any) map[string]any {
	scale := a.scaleOf(object)
	if _, ok := rawjson.Lookup(object, a.replicas()...); !ok && a.kind.crd != nil {
		rawjson.AsMap(scale["spec"])["replicas"] = noReplicas
	}
	return scale
}

// checkMarkedScale refuses a patched scale that still lacks replicas.
func (a *apiRequest) checkMarkedScale(scale map[string]any) error {
	if rawjson.AsMap(scale["spec"])["replicas"] == noReplicas {
		return apierrors.BadRequest("the spec replicas field %q cannot be empty", unstructured.Text(a.kind.scale, "specReplicasPath"))
	}
	return nil
}

// replicas returns the path of the replicas in objects of the kind.
func (a *apiRequest) replicas() []string {
	path := unstructured.Text(a.kind.scale, "specReplicasPath")
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}

// unscalable returns the reason why an object does not fit the Go type of a scale, "" if it fits.
func unscalable(scale map[string]any) string {
	return types.DecodeError(types.OfKind("autoscaling", "v1", "Scale").Schema, scale, "Scale")
}

// scaled returns the live object with the replicas of a scale.
func (a *apiRequest) scaled(live, scale map[string]any) (map[string]any, error) {
	n, ok := rawjson.AsMap(scale["spec"])["replicas"].(json.Number)
	if !ok {
		n = "0"
	}
	if strings.HasPrefix(n.String(), "-") && a.kind.crd == nil {
		return nil, (&kindInfo{resource: apiResource{Group: "autoscaling", Kind: "Scale"}}).invalid(a.name,
			[]field.Error{field.Invalid("spec.replicas", n, "must be greater than or equal to 0")})
	}
	whole := rawjson.Clone(live).(map[string]any)
	old, _ := rawjson.Lookup(live, a.replicas()...)
	putAt(whole, n, a.replicas()...)
	managedfields.UpdateScale(whole, a.replicas(), a.managed(), !rawjson.Equal(old, n))
	return whole, nil
}

// unscaled converts an applied scale to a configuration of the object itself.
func (a *apiRequest) unscaled(scale map[string]any) map[string]any {
	object := map[string]any{"apiVersion": a.kind.apiVersion(), "kind": a.kind.resource.Kind, "metadata": scale["metadata"]}
	if n := rawjson.AsMap(scale["spec"])["replicas"]; n != nil {
		putAt(object, n, a.replicas()...)
	}
	return object
}

// checkScale validates the fields of a custom resource that appear in its scale.
func (a *apiRequest) checkScale(object map[string]any) []field.Error {
	if a.kind.crd == nil || a.kind.scale == nil {
		return nil
	}
	keys := []string{"specReplicasPath", "statusReplicasPath", "labelSelectorPath"}
	if a.subresource == "status" {
		keys = keys[1:]
	}
	var faults []field.Error
	for _, key := range keys {
		path := unstructured.Text(a.kind.scale, key)
		if path == "" {
			continue
		}
		v, found, blocked := reach(object, strings.Split(strings.TrimPrefix(path, "."), "."))
		typ, want, detail := schema.TypeOf(v), "", ""
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
			faults = append(faults, field.Invalid(path, value, detail))
		}
	}
	return faults
}

// reach follows a path through objects. It returns the value and found, or, with blocked, a value on the path that is no object.
func reach(v any, path []string) (at any, found, blocked bool) {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if v == nil {
			return nil, false, false
		}
		if !ok {
			return v, false, true
		}
		if v, ok = m[key]; !ok {
			return nil, false, false
		}
	}
	return v, true, false
}

// unstructuredType returns the Go type of a value that is decoded into an any.
func unstructuredType(v any) string {
	switch typ := schema.TypeOf(v); typ {
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

// putAt sets the value at a path of keys, and adds missing objects.
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
