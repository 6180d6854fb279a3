package e2e

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Valid and invalid CRDs, with a dry run on both servers. The embedded server must refuse each CRD that the real one refuses.

func TestDefinitions(t *testing.T) {
	real := judge(t, theCluster(t))
	ours := embedded(t)
	base := definition("things", "Thing", "Namespaced", `"subresources": {"status": {}}`, `{"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}`)
	tests := []struct {
		name  string
		path  []any // of the changed value
		value any   // the new value; nil removes it
	}{
		{"as it should be", []any{"metadata", "labels"}, map[string]any{"a": "b"}},
		{"no kind", []any{"kind"}, nil},
		{"no scope", []any{"spec", "scope"}, nil},
		{"wrong scope", []any{"spec", "scope"}, "Everywhere"},
		{"no group", []any{"spec", "group"}, nil},
		{"group without a dot", []any{"spec", "group"}, "example"},
		{"group in capitals", []any{"spec", "group"}, "Example.com"},
		{"another name", []any{"metadata", "name"}, "others.example.com"},
		{"no plural", []any{"spec", "names", "plural"}, nil},
		{"plural in capitals", []any{"spec", "names", "plural"}, "Things"},
		{"no singular", []any{"spec", "names", "singular"}, nil},
		{"no kind of objects", []any{"spec", "names", "kind"}, nil},
		{"own kind of lists", []any{"spec", "names", "listKind"}, "Things"},
		{"no versions", []any{"spec", "versions"}, []any{}},
		{"bad version", []any{"spec", "versions", 0, "name"}, "one point zero"},
		{"not stored", []any{"spec", "versions", 0, "storage"}, false},
		{"not served", []any{"spec", "versions", 0, "served"}, false},
		{"no schema", []any{"spec", "versions", 0, "schema"}, nil},
		{"schema without type", []any{"spec", "versions", 0, "schema", "openAPIV3Schema"}, map[string]any{}},
		{"schema of a string", []any{"spec", "versions", 0, "schema", "openAPIV3Schema", "type"}, "string"},
		{"unknown type", []any{"spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "type"}, "thing"},
		{"array without items", []any{"spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec"}, map[string]any{"type": "array"}},
		{"default of another type", []any{"spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "properties", "size", "default"}, "one"},
		{"columns", []any{"spec", "versions", 0, "additionalPrinterColumns"}, []any{map[string]any{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}}},
		{"column of no type", []any{"spec", "versions", 0, "additionalPrinterColumns"}, []any{map[string]any{"name": "Size", "jsonPath": ".spec.size"}}},
		{"column of no path", []any{"spec", "versions", 0, "additionalPrinterColumns"}, []any{map[string]any{"name": "Size", "type": "integer", "jsonPath": ""}}},
		{"scale without paths", []any{"spec", "versions", 0, "subresources", "scale"}, map[string]any{}},
		{"unknown field", []any{"spec", "unknown"}, 1},
		{"keeps unknown fields", []any{"spec", "preserveUnknownFields"}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var object any
			if err := json.Unmarshal([]byte(base), &object); err != nil {
				t.Fatal(err)
			}
			object = changed(object, test.path, test.value)
			r := &request{method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All",
				contentType: "application/json", body: encode(object)}
			want, err := real.send(t.Context(), r, newSightings())
			if err != nil {
				t.Fatal(err)
			}
			got, err := ours.send(t.Context(), r, newSightings())
			if err != nil {
				t.Fatal(err)
			}
			if !sameRefusal(want, got) {
				t.Errorf("(-real +embedded)\n%s", cmp.Diff(want, got))
			}
		})
	}
}

// sameRefusal reports whether the code and the reason are equal, and the embedded server reports some of the fields that the real one reports, and no
// others.
func sameRefusal(want, got *response) bool {
	wantReason, wantFields := refusal(want)
	gotReason, gotFields := refusal(got)
	if want.Code != got.Code || wantReason != gotReason || len(wantFields) > 0 != (len(gotFields) > 0) {
		return false
	}
	for field := range gotFields {
		if !wantFields[field] {
			return false
		}
	}
	return true
}

func refusal(r *response) (reason any, fields map[any]bool) {
	body, _ := r.Body.(map[string]any)
	details, _ := body["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	fields = map[any]bool{}
	for _, cause := range causes {
		fields[cause.(map[string]any)["field"]] = true
	}
	return body["reason"], fields
}

// changed sets or removes one field of a JSON value.
func changed(value any, path []any, to any) any {
	if len(path) == 0 {
		return to
	}
	switch v := value.(type) {
	case []any:
		v[path[0].(int)] = changed(v[path[0].(int)], path[1:], to)
		return v
	case map[string]any:
		key := path[0].(string)
		if len(path) == 1 && to == nil {
			delete(v, key)
		} else {
			v[key] = changed(v[key], path[1:], to)
		}
		return v
	}
	return changed(map[string]any{}, path, to)
}
