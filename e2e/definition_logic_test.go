package e2e

import "testing"

// TestSchemaLogic compares the errors of both servers about values that violate the limits, and the combinations of schemas, in a CRD.
func TestSchemaLogic(t *testing.T) {
	const (
		crds   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		values = "/apis/logic.example.com/v1/namespaces/default/values"
		fields = `"a": {"type": "integer"}, "b": {"type": "integer"}`
		schema = `{"type": "object", "not": {"required": ["forbidden"]}, "allOf": [{"properties": {"spec": {"required": ["s"]}}}, {"required": ["spec"]}], "properties": {"forbidden": {"type": "string"}, "spec": {"type": "object", "properties": {
			"s": {"type": "string", "minLength": 3, "maxLength": 5, "pattern": "^a", "format": "date", "enum": ["abc", "x"]},
			"n": {"type": "integer", "minimum": 2, "maximum": 10, "multipleOf": 3, "enum": [3, 6]},
			"l": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "string", "maxLength": 1, "anyOf": [{"minLength": 1}, {"pattern": "^b"}]}},
			"one": {"type": "object", "properties": {` + fields + `}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
			"any": {"type": "object", "properties": {` + fields + `}, "anyOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 3}}, "required": ["b"]}]},
			"all": {"type": "object", "properties": {` + fields + `}, "allOf": [{"required": ["a"]}, {"required": ["b"]}]},
			"not": {"type": "object", "properties": {` + fields + `}, "not": {"required": ["a"]}}
		}}}}`
		definition = `{"metadata": {"name": "values.logic.example.com"}, "spec": {"group": "logic.example.com", "scope": "Namespaced", "names": {"plural": "values", "kind": "Value"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": ` + schema + `}}]}}`
	)
	calls := []call{{"POST", crds, asJSON, definition, nil}, {"GET", values, "", "", []string{settles}}}
	for _, object := range []string{
		`"spec": {"s": "b"}`, `"spec": {"s": "bbbbbb"}`, `"spec": {"s": "bcd"}`, `"spec": {"n": 1}`, `"spec": {"n": 20}`, `"spec": {"n": 4}`, `"spec": {"l": ["aa"]}`, `"spec": {"l": ["aa", "", "b", "c"]}`,
		`"spec": {"one": {}}`, `"spec": {"one": {"a": 1, "b": 1}}`, `"spec": {"one": {"a": "x"}}`, `"spec": {"any": {}}`, `"spec": {"any": {"b": 1}}`, `"spec": {"any": {"a": 1}}`,
		`"spec": {"all": {}}`, `"spec": {"all": {"a": 1}}`, `"spec": {"all": {"a": "x"}}`, `"spec": {"not": {}}`, `"spec": {"not": {"a": "x"}}`, `"forbidden": "x"`, `"spec": {}`, `"x": 1`,
	} {
		calls = append(calls, call{"POST", values + "?dryRun=All", asJSON, `{"apiVersion": "logic.example.com/v1", "kind": "Value", "metadata": {"name": "v"}, ` + object + `}`, []string{causes}})
	}
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"logic", calls}})
}

// TestApplyErrors compares the errors of both servers about applied objects that do not fit their type.
func TestApplyErrors(t *testing.T) {
	const (
		crds  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		lists = "/apis/errors.example.com/v1/namespaces/default/lists"
		spec  = `{"type": "object", "properties": {"n": {"type": "integer"}, "f": {"type": "number"}, "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
			"map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"], "items": {"type": "object", "required": ["k", "l"], "properties": {"k": {"type": "string"}, "l": {"type": "integer"}, "v": {"type": "integer"}}}}}}`
		definition = `{"metadata": {"name": "lists.errors.example.com"}, "spec": {"group": "errors.example.com", "scope": "Namespaced", "names": {"plural": "lists", "kind": "Things"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ` + spec + `}}}}]}}`
	)
	calls := []call{{"POST", crds, asJSON, definition, nil}, {"GET", lists, "", "", []string{settles}}}
	for _, spec := range []string{
		`{"n": "x"}`, `{"n": true}`, `{"f": "1"}`, `{"f": false}`, `{"set": ["a/b", "c", "a/b"]}`, `{"map": [{"k": "a", "l": 1}, {"l": 1, "k": "a"}]}`, `{"map": [{"k": "a", "l": 1, "v": "x"}]}`,
		`{"map": [{"k": "a", "v": true}]}`, `{"map": [{"k": "a", "l": 1}, {"v": 1}]}`, `{"map": [null]}`, `{"map": [{"k": "a", "l": 1}, {"k": "a", "l": 2}]}`,
	} {
		calls = append(calls, call{"PATCH", lists + "/a?dryRun=All&fieldManager=a", "application/apply-patch+yaml",
			`{"apiVersion": "errors.example.com/v1", "kind": "Things", "metadata": {"name": "a"}, "spec": ` + spec + `}`, []string{"message"}})
	}
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"apply", calls}})
}
