package e2e

import (
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func pointer[T any](v T) *T { return &v }

// schemaOfAll has a field of each form that a schema can have.
var schemaOfAll = apiextensions.JSONSchemaProps{
	Type: "object", Required: []string{"spec"}, Description: "All of it.", ExternalDocs: &apiextensions.ExternalDocumentation{URL: "https://example.com", Description: "More."},
	Properties: map[string]apiextensions.JSONSchemaProps{
		"spec": {Type: "object", Default: &apiextensions.JSON{Raw: []byte(`{"size":1}`)}, Properties: map[string]apiextensions.JSONSchemaProps{
			"size":     {Type: "integer", Format: "int64", Minimum: pointer(0.0), Maximum: pointer(1e9), ExclusiveMinimum: true, MultipleOf: pointer(1.0), Default: &apiextensions.JSON{Raw: []byte(`1`)}},
			"text":     {Type: "string", MinLength: pointer(int64(0)), MaxLength: pointer(int64(9)), Pattern: "^a", Enum: []apiextensions.JSON{{Raw: []byte(`"a"`)}, {Raw: []byte(`"ab"`)}}, Nullable: true},
			"flag":     {Type: "boolean", Default: &apiextensions.JSON{Raw: []byte(`false`)}, Example: &apiextensions.JSON{Raw: []byte(`true`)}},
			"port":     {XIntOrString: true},
			"free":     {Type: "object", XPreserveUnknownFields: pointer(true)},
			"texts":    {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensions.JSONSchemaProps{Type: "string"}}, MaxProperties: pointer(int64(3))},
			"any":      {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true}},
			"choice":   {Type: "string", OneOf: []apiextensions.JSONSchemaProps{{Pattern: "a"}, {Pattern: "b"}}, Not: &apiextensions.JSONSchemaProps{Pattern: "c"}},
			"atomic":   {Type: "object", XMapType: pointer("atomic"), Properties: map[string]apiextensions.JSONSchemaProps{"a": {Type: "string"}}},
			"resource": {Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: pointer(true)},
			"parts": {Type: "array", XListType: pointer("map"), XListMapKeys: []string{"name"}, MaxItems: pointer(int64(5)), Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{
				Type: "object", Required: []string{"name"}, Properties: map[string]apiextensions.JSONSchemaProps{"name": {Type: "string"}}}}},
		}},
		"status": {Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"replicas": {Type: "integer"}, "selector": {Type: "string"}}},
	},
}

// TestDefinitionsInProtobuf creates a CRD as generated clients do, on both servers.
func TestDefinitionsInProtobuf(t *testing.T) {
	definition := &apiextensions.CustomResourceDefinition{
		ObjectMeta: meta.ObjectMeta{Name: "wholes.example.com", Labels: map[string]string{"a": "b"}},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "wholes", Kind: "Whole", ShortNames: []string{"wh"}, Categories: []string{"all"}},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Deprecated: true, DeprecationWarning: pointer("old"),
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &schemaOfAll},
				Subresources: &apiextensions.CustomResourceSubresources{
					Status: &apiextensions.CustomResourceSubresourceStatus{},
					Scale:  &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.replicas", LabelSelectorPath: pointer(".status.selector")},
				},
				AdditionalPrinterColumns: []apiextensions.CustomResourceColumnDefinition{{Name: "Size", Type: "integer", JSONPath: ".spec.size", Priority: 1}},
				SelectableFields:         []apiextensions.SelectableField{{JSONPath: ".spec.text"}},
			}},
		},
	}
	raw, err := definition.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, Raw: raw}
	body, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"a definition with all forms of schemas", []call{
		{"POST", definitionsPath, "application/vnd.kubernetes.protobuf", "k8s\x00" + string(body), []string{"metadata.name", "metadata.labels", "spec"}},
		{"GET", "/apis/example.com/v1/wholes", "", "", []string{"kind", settles}},
	}}})
}
