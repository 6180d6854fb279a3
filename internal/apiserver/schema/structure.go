package schema

import (
	"slices"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// CheckStructure returns what is wrong with the structure of a schema at a path: types that are
// missing or unknown, lists without items, and defaults that do not fit.
func CheckStructure(s map[string]any, at string, root bool, depth int) []field.Error {
	if depth > maxSchemaDepth {
		return nil // Compile refuses it
	}
	var faults []field.Error
	typ := unstructured.Text(s, "type")
	free := s["x-kubernetes-int-or-string"] == true || s["x-kubernetes-preserve-unknown-fields"] == true
	known := []string{"array", "boolean", "integer", "number", "object", "string"}
	switch {
	case root && typ != "object":
		faults = append(faults, field.Invalid(at+".type", typ, "must be object at the root"))
	case typ == "" && !free:
		faults = append(faults, field.Required(at+".type", "must not be empty for specified object fields"))
	case typ != "" && !slices.Contains(known, typ):
		faults = append(faults, field.NotSupported(at+".type", typ, `supported values: "array", "boolean", "integer", "number", "object", "string"`))
	case typ == "array" && rawjson.AsMap(s["items"]) == nil:
		faults = append(faults, field.Required(at+".items", "must be specified"))
	}
	if value, ok := s["default"]; ok {
		if compiled, err := Compile(s); err == nil {
			check := &validator{}
			check.value(compiled, value, previous{}, at+".default")
			faults = append(faults, check.faults...)
		}
	}
	for key, child := range rawjson.AsMap(s["properties"]) {
		if m := rawjson.AsMap(child); m != nil && !(root && (key == "metadata" || key == "apiVersion" || key == "kind")) {
			faults = append(faults, CheckStructure(m, at+".properties["+key+"]", false, depth+1)...)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if m := rawjson.AsMap(s[key]); m != nil {
			faults = append(faults, CheckStructure(m, at+"."+key, false, depth+1)...)
		}
	}
	return faults
}
