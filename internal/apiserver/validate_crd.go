package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// checkDefinition returns what is wrong with a CRD, so that the server accepts only what
// kube-apiserver accepts as well.
func checkDefinition(object map[string]any) []field.Error {
	spec := rawjson.AsMap(object["spec"])
	names := rawjson.AsMap(spec["names"])
	var faults []field.Error
	group := unstructured.Text(spec, "group")
	plural := unstructured.Text(names, "plural")
	if want := plural + "." + group; rawjson.AsMap(object["metadata"])["name"] != want {
		faults = append(faults, field.Invalid("metadata.name", rawjson.AsMap(object["metadata"])["name"], `must be spec.names.plural+"."+spec.group`))
	}
	for _, name := range [...]struct{ field, text string }{
		{"spec.group", group}, {"spec.names.plural", plural}, {"spec.names.kind", unstructured.Text(names, "kind")},
	} {
		if name.text == "" {
			faults = append(faults, field.Required(name.field, ""))
		}
	}
	if scope := spec["scope"]; scope == nil {
		faults = append(faults, field.Required("spec.scope", ""))
	} else if scope != "Namespaced" && scope != "Cluster" {
		faults = append(faults, field.NotSupported("spec.scope", scope, `supported values: "Cluster", "Namespaced"`))
	}
	if spec["preserveUnknownFields"] == true {
		faults = append(faults, field.Invalid("spec.preserveUnknownFields", true, "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	faults = append(faults, checkVersions(spec)...)
	slices.SortStableFunc(faults, func(a, b field.Error) int { return cmp.Compare(a.Path, b.Path) })
	return faults
}

func checkVersions(spec map[string]any) []field.Error {
	var faults []field.Error
	versions, _ := spec["versions"].([]any)
	stored := 0
	for i, v := range versions {
		version := rawjson.AsMap(v)
		if version["storage"] == true {
			stored++
		}
		at := fmt.Sprintf("spec.versions[%d]", i)
		if name, _ := version["name"].(string); !validation.IsDNSLabel(name) {
			faults = append(faults, field.Invalid(at+".name", version["name"], labelRule))
		}
		// If there is only one version, the paths of errors are those of all versions.
		schemaAt, columnsAt, scaleAt := at+".schema.openAPIV3Schema", at+".additionalPrinterColumns", at+".subresources.scale"
		if len(versions) == 1 {
			schemaAt, columnsAt, scaleAt = "spec.validation.openAPIV3Schema", "spec.additionalPrinterColumns", "spec.subresources.scale"
		}
		open := rawjson.AsMap(rawjson.AsMap(version["schema"])["openAPIV3Schema"])
		if open == nil {
			faults = append(faults, field.Required(at+".schema.openAPIV3Schema", "schemas are required"))
		} else {
			faults = append(faults, schema.CheckStructure(open, schemaAt, true, 0)...)
			if _, err := schema.Compile(open); err != nil {
				faults = append(faults, field.Invalid(schemaAt, "schema", err.Error()))
			}
		}
		faults = append(faults, checkColumns(version, columnsAt)...)
		if scale := rawjson.AsMap(rawjson.AsMap(version["subresources"])["scale"]); scale != nil {
			for _, key := range []string{"specReplicasPath", "statusReplicasPath"} {
				if path, _ := scale[key].(string); path == "" {
					faults = append(faults, field.Required(scaleAt+"."+key, ""))
				}
			}
		}
	}
	if stored != 1 {
		faults = append(faults, field.Invalid("spec.versions", json.Number(fmt.Sprint(stored)), "must have exactly one version marked as storage version"))
	}
	return faults
}

func checkColumns(version map[string]any, at string) []field.Error {
	var faults []field.Error
	list, _ := version["additionalPrinterColumns"].([]any)
	for i, v := range list {
		column := rawjson.AsMap(v)
		here := fmt.Sprintf("%s[%d]", at, i)
		if typ, _ := column["type"].(string); !slices.Contains([]string{"integer", "number", "string", "boolean", "date"}, typ) {
			faults = append(faults, field.Required(here+".type", "must be one of boolean,date,integer,number,string"))
		}
		if path, _ := column["jsonPath"].(string); path == "" {
			faults = append(faults, field.Required(here+".JSONPath", ""))
		}
	}
	return faults
}

// checkDefinitionChange returns what is wrong with the change of a CRD: its resource is another one if its names or its scope change, and the versions
// in which objects are stored cannot go.
func checkDefinitionChange(live, object map[string]any) []field.Error {
	if live == nil {
		return nil
	}
	var faults []field.Error
	old, spec := rawjson.AsMap(live["spec"]), rawjson.AsMap(object["spec"])
	oldNames, names := rawjson.AsMap(old["names"]), rawjson.AsMap(spec["names"])
	immutable := func(path string, before, now any) {
		if !rawjson.Equal(before, now) {
			faults = append(faults, field.Invalid(path, now, "field is immutable"))
		}
	}
	if isEstablished(live) {
		immutable("spec.scope", old["scope"], spec["scope"])
		immutable("spec.names.kind", oldNames["kind"], names["kind"])
	}
	immutable("spec.group", old["group"], spec["group"])
	immutable("spec.names.plural", oldNames["plural"], names["plural"])
	versions, _ := spec["versions"].([]any)
	for i, name := range unstructured.Texts(rawjson.AsMap(object["status"])["storedVersions"]) {
		if slices.ContainsFunc(versions, func(v any) bool { return rawjson.AsMap(v)["name"] == name }) {
			continue
		}
		faults = append(faults, field.Invalid(fmt.Sprintf("status.storedVersions[%d]", i), name, fmt.Sprintf(
			"missing from spec.versions; %s was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in %s and removes %s from status.storedVersions", name, name, name)))
	}
	return faults
}

func isEstablished(definition map[string]any) bool {
	conditions, _ := rawjson.AsMap(definition["status"])["conditions"].([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition := rawjson.AsMap(c)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}
