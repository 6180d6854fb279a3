package e2e

import "testing"

// TestDefinitionChanges changes a CRD that has objects, on both servers.
func TestDefinitionChanges(t *testing.T) {
	compareSequences(t, judge(t, plainCluster(t)), []sequence{definitionChanges})
}

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	leafsCRD        = definitionsPath + "/leafs.example.com"
	leafsV1         = "/apis/example.com/v1/namespaces/default/leafs"
	leafsBeta       = "/apis/example.com/v1beta1/namespaces/default/leafs"
	leafA           = leafsV1 + "/a"
)

const leafsDefinition = `{"metadata": {"name": "leafs.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
	"names": {"plural": "leafs", "singular": "leaf", "kind": "Leaf", "listKind": "LeafList"},
	"versions": [
		{"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}], "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {
				"color": {"type": "string"}, "size": {"type": "integer"}, "old": {"type": "string"},
				"parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "required": ["name"], "properties": {
					"name": {"type": "string"}, "text": {"type": "string"}}}},
				"plain": {"type": "array", "items": {"type": "string"}}}}}}}},
		{"name": "v1beta1", "served": true, "storage": false, "deprecated": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {"color": {"type": "string"}, "extra": {"type": "string", "default": "x"}}}}}}}
	]}}`

// tightened makes stored values invalid, and adds a default.
const tightened = `[
	{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/maxLength", "value": 3},
	{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/parts/items/properties/text/maxLength", "value": 3},
	{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/plain/items/maxLength", "value": 3},
	{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/old"},
	{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added", "value": {"type": "string", "default": "d"}}
]`

var definitionChanges = sequence{"a definition with objects", []call{
	{"POST", definitionsPath, asJSON, leafsDefinition, []string{"spec.names"}},
	{"GET", leafsV1, "", "", []string{"kind", settles}},
	{"GET", leafsBeta, "", "", []string{"kind", warnings, settles}},
	{"POST", leafsV1, asJSON, `{"apiVersion": "example.com/v1", "kind": "Leaf", "metadata": {"name": "a"}, "spec": {"color": "longcolor", "size": 5, "old": "o",
		"parts": [{"name": "p", "text": "longtext"}, {"name": "q", "text": "longtext"}], "plain": ["longtext", "t"]}}`, []string{"spec", warnings}},
	{"GET", leafsBeta + "/a", "", "", []string{"apiVersion", "spec", warnings}},
	{"GET", leafsV1 + "?fieldSelector=spec.color%3Dlongcolor", "", "", []string{"kind", "items"}},
	{"GET", leafsV1 + "?fieldSelector=spec.size%3D5,spec.color!%3Dred", "", "", []string{"kind", "items"}},
	{"GET", leafsV1 + "?fieldSelector=spec.color%3Dred", "", "", []string{"kind", "items"}},
	{"GET", leafsV1 + "?fieldSelector=spec.old%3Do", "", "", nil},
	{"GET", leafsBeta + "?fieldSelector=spec.color%3Dlongcolor", "", "", nil},
	{"PATCH", leafsCRD, asMerge, `{"spec": {"scope": "Cluster"}}`, nil},
	{"PATCH", leafsCRD, asMerge, `{"spec": {"names": {"kind": "Tree"}}}`, nil},
	{"PATCH", leafsCRD, "application/json-patch+json", `[{"op": "remove", "path": "/spec/versions/0"}, {"op": "replace", "path": "/spec/versions/0/storage", "value": true}]`, nil},
	{"PATCH", leafsCRD, "application/json-patch+json", tightened, []string{"metadata.generation"}},
	{"POST", leafsV1 + "?dryRun=All", asJSON, `{"apiVersion": "example.com/v1", "kind": "Leaf", "metadata": {"name": "b"}, "spec": {"color": "longcolor"}}`, []string{settles}},
	{"GET", leafA, "", "", []string{"spec"}},
	{"GET", leafsV1, "", "", []string{"items"}},
	{"PATCH", leafA, asMerge, `{"metadata": {"labels": {"a": "b"}}}`, []string{"metadata.labels", "spec"}},
	{"PATCH", leafA, asMerge, `{"spec": {"size": 6}}`, []string{"spec", "metadata.generation"}},
	{"PATCH", leafA, asMerge, `{"spec": {"color": "otherlong"}}`, nil},
	{"PATCH", leafA, asMerge, `{"spec": {"parts": [{"name": "q", "text": "longtext"}, {"name": "p", "text": "longtext"}, {"name": "r", "text": "t"}]}}`, []string{"spec"}},
	{"PATCH", leafA, asMerge, `{"spec": {"parts": [{"name": "q", "text": "otherlong"}]}}`, nil},
	{"PATCH", leafA, asMerge, `{"spec": {"plain": ["longtext", "u"]}}`, nil},
	{"PATCH", leafA, asMerge, `{"spec": {"color": "red", "plain": null}}`, []string{"spec"}},
}}
