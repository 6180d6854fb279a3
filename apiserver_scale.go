package kopf

import (
	"encoding/json"
	"fmt"
	"strings"
)

// This file knows the subresource scale of the in-memory API server: the number of replicas of an object, wherever its
// kind keeps it.

// scaleOf returns the scale of an object, as the subresource shows it.
func (a *apiRequest) scaleOf(object map[string]any) map[string]any {
	meta := asMap(object["metadata"])
	about := map[string]any{}
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		if v, ok := meta[key]; ok {
			about[key] = v
		}
	}
	at := func(key string) any {
		path, _ := a.kind.scale[key].(string)
		v, _ := lookupJSON(object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
		return v
	}
	scale := map[string]any{"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": about, "spec": map[string]any{}, "status": map[string]any{"replicas": json.Number("0")}}
	if n, ok := at("specReplicasPath").(json.Number); ok && n != "0" {
		scale["spec"] = map[string]any{"replicas": n}
	}
	status := asMap(scale["status"])
	if n, ok := at("statusReplicasPath").(json.Number); ok {
		status["replicas"] = n
	}
	switch selector := at("labelSelectorPath").(type) {
	case string:
		status["selector"] = selector
	case map[string]any:
		var parts []string
		for _, k := range unionKeys(asMap(selector["matchLabels"]), nil) {
			parts = append(parts, fmt.Sprintf("%s=%v", k, asMap(selector["matchLabels"])[k]))
		}
		status["selector"] = strings.Join(parts, ",")
	}
	return scale
}

// scaled returns the live object with the number of replicas of a scale.
func (a *apiRequest) scaled(live, scale map[string]any) (map[string]any, error) {
	n, ok := asMap(scale["spec"])["replicas"].(json.Number)
	if v := asMap(scale["spec"])["replicas"]; !ok && v != nil {
		return nil, &statusError{422, "Invalid", fmt.Sprintf(" \"\" is invalid: patch: Invalid value: a number of replicas is expected, not %s", jsonKind(v)), map[string]any{
			"causes": []any{map[string]any{"reason": "FieldValueInvalid", "field": "patch", "message": "Invalid value: a number is expected"}}}}
	}
	if !ok {
		n = "0"
	}
	if strings.HasPrefix(n.String(), "-") {
		return nil, (&kindInfo{resource: Resource{Group: "autoscaling", Kind: "Scale"}}).invalid(a.name,
			[]fieldError{{typ: "FieldValueInvalid", field: "spec.replicas", value: n, detail: "must be greater than or equal to 0"}})
	}
	whole := cloneJSON(live).(map[string]any)
	path, _ := a.kind.scale["specReplicasPath"].(string)
	p := &Patch{merge: whole}
	p.put(n, strings.Split(strings.TrimPrefix(path, "."), ".")...)
	return whole, nil
}
