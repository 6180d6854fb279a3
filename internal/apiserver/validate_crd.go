package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// This file checks the resource definitions that are given to the in-memory API server, so that what it takes is
// also taken by real ones.

// checkDefinition tells what is wrong with a resource definition.
func checkDefinition(object map[string]any) []fieldError {
	spec := rawjson.AsMap(object["spec"])
	names := rawjson.AsMap(spec["names"])
	var faults []fieldError
	group := textIn(spec, "group")
	plural := textIn(names, "plural")
	if want := plural + "." + group; rawjson.AsMap(object["metadata"])["name"] != want {
		faults = withFault(faults, "FieldValueInvalid", "metadata.name", rawjson.AsMap(object["metadata"])["name"],
			`must be spec.names.plural+"."+spec.group`)
	}
	for _, name := range [...]struct{ field, text string }{
		{"spec.group", group}, {"spec.names.plural", plural}, {"spec.names.kind", textIn(names, "kind")},
	} {
		if name.text == "" {
			faults = withFault(faults, "FieldValueRequired", name.field, nil, "")
		}
	}
	if scope := spec["scope"]; scope == nil {
		faults = withFault(faults, "FieldValueRequired", "spec.scope", nil, "")
	} else if scope != "Namespaced" && scope != "Cluster" {
		faults = withFault(faults, "FieldValueNotSupported", "spec.scope", scope, `supported values: "Cluster", "Namespaced"`)
	}
	if spec["preserveUnknownFields"] == true {
		faults = withFault(faults, "FieldValueInvalid", "spec.preserveUnknownFields", true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")
	}
	faults = withFaults(faults, checkVersions(spec))
	slices.SortStableFunc(faults, func(a, b fieldError) int { return cmp.Compare(a.field, b.field) })
	return faults
}

func checkVersions(spec map[string]any) []fieldError {
	var faults []fieldError
	versions, _ := spec["versions"].([]any)
	stored := 0
	for i, v := range versions {
		version := rawjson.AsMap(v)
		if version["storage"] == true {
			stored++
		}
		at := fmt.Sprintf("spec.versions[%d]", i)
		if name, _ := version["name"].(string); !validation.IsDNSLabel(name) {
			faults = withFault(faults, "FieldValueInvalid", at+".name", version["name"], labelRule)
		}
		// A definition of one version is told of its faults as if they were those of all versions.
		schemaAt, columnsAt, scaleAt := at+".schema.openAPIV3Schema", at+".additionalPrinterColumns", at+".subresources.scale"
		if len(versions) == 1 {
			schemaAt, columnsAt, scaleAt = "spec.validation.openAPIV3Schema", "spec.additionalPrinterColumns", "spec.subresources.scale"
		}
		open := rawjson.AsMap(rawjson.AsMap(version["schema"])["openAPIV3Schema"])
		if open == nil {
			faults = withFault(faults, "FieldValueRequired", at+".schema.openAPIV3Schema", nil, "schemas are required")
		} else {
			faults = withFaults(faults, checkStructure(open, schemaAt, true, 0))
			if _, err := compileSchema(open); err != nil {
				faults = withFault(faults, "FieldValueInvalid", schemaAt, "schema", err.Error())
			}
		}
		faults = withFaults(faults, checkColumns(version, columnsAt))
		if scale := rawjson.AsMap(rawjson.AsMap(version["subresources"])["scale"]); scale != nil {
			for _, key := range []string{"specReplicasPath", "statusReplicasPath"} {
				if path, _ := scale[key].(string); path == "" {
					faults = withFault(faults, "FieldValueRequired", scaleAt+"."+key, nil, "")
				}
			}
		}
	}
	if stored != 1 {
		faults = withFault(faults, "FieldValueInvalid", "spec.versions", json.Number(fmt.Sprint(stored)), "must have exactly one version marked as storage version")
	}
	return faults
}

func checkColumns(version map[string]any, at string) []fieldError {
	var faults []fieldError
	list, _ := version["additionalPrinterColumns"].([]any)
	for i, v := range list {
		column := rawjson.AsMap(v)
		here := fmt.Sprintf("%s[%d]", at, i)
		if typ, _ := column["type"].(string); !slices.Contains([]string{"integer", "number", "string", "boolean", "date"}, typ) {
			faults = withFault(faults, "FieldValueRequired", here+".type", nil, "must be one of boolean,date,integer,number,string")
		}
		if path, _ := column["jsonPath"].(string); path == "" {
			faults = withFault(faults, "FieldValueRequired", here+".JSONPath", nil, "")
		}
	}
	return faults
}

// checkStructure tells what is wrong with the structure of a schema: types that are missing or unknown, lists of
// nothing, and defaults of another type.
func checkStructure(s map[string]any, at string, root bool, depth int) []fieldError {
	if depth > maxSchemaDepth {
		return nil // which compileSchema refuses
	}
	var faults []fieldError
	typ := textIn(s, "type")
	free := s["x-kubernetes-int-or-string"] == true || s["x-kubernetes-preserve-unknown-fields"] == true
	known := []string{"array", "boolean", "integer", "number", "object", "string"}
	switch {
	case root && typ != "object":
		faults = withFault(faults, "FieldValueInvalid", at+".type", typ, "must be object at the root")
	case typ == "" && !free:
		faults = withFault(faults, "FieldValueRequired", at+".type", nil, "must not be empty for specified object fields")
	case typ != "" && !slices.Contains(known, typ):
		faults = withFault(faults, "FieldValueNotSupported", at+".type", typ, `supported values: "array", "boolean", "integer", "number", "object", "string"`)
	case typ == "array" && rawjson.AsMap(s["items"]) == nil:
		faults = withFault(faults, "FieldValueRequired", at+".items", nil, "must be specified")
	}
	if value, ok := s["default"]; ok {
		if compiled, err := compileSchema(s); err == nil {
			check := &schemaValidator{}
			check.value(compiled, value, at+".default")
			faults = withFaults(faults, check.faults)
		}
	}
	for key, child := range rawjson.AsMap(s["properties"]) {
		if m := rawjson.AsMap(child); m != nil && !(root && (key == "metadata" || key == "apiVersion" || key == "kind")) {
			faults = withFaults(faults, checkStructure(m, at+".properties["+key+"]", false, depth+1))
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if m := rawjson.AsMap(s[key]); m != nil {
			faults = withFaults(faults, checkStructure(m, at+"."+key, false, depth+1))
		}
	}
	return faults
}
