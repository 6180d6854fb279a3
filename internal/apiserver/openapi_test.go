package apiserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/openapi"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// documents returns the OpenAPI documents of the built-in kinds and of one CRD, by their version.
func documents(t *testing.T) map[string]map[string]any {
	t.Helper()
	crd := jsonValue(t, `{"status": {"acceptedNames": {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample", "listKind": "KopfExampleList"},
		"conditions": [{"type": "NamesAccepted", "status": "True"}]}, "spec": {"group": "kopf.dev", "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n"}},
		"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer", "description": "The number."}}}}}}}]}}`)
	custom, _, err := kindsOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	kinds := openAPIKinds(append(slices.Clone(builtinKinds()), custom...))
	all := map[string]map[string]any{"v2": openapi.V2(kinds)}
	for path := range rawjson.AsMap(openapi.V3Index(kinds)["paths"]) {
		_, groupVersion, _ := strings.Cut(path, "/")
		all[groupVersion] = openapi.V3(kinds, path)
	}
	return all
}

func jsonValue(t *testing.T, text string) map[string]any {
	t.Helper()
	m, err := rawjson.DecodeObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOpenAPIReferences(t *testing.T) {
	for name, document := range documents(t) {
		schemas, prefix := rawjson.AsMap(rawjson.AsMap(document["components"])["schemas"]), "#/components/schemas/"
		if name == "v2" {
			schemas, prefix = rawjson.AsMap(document["definitions"]), "#/definitions/"
		}
		var follow func(v any)
		follow = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if ref, ok := v["$ref"].(string); ok {
					short, ok := strings.CutPrefix(ref, prefix)
					if !ok || schemas[short] == nil {
						t.Errorf("%s: %s leads nowhere", name, ref)
					}
				}
				for _, e := range v {
					follow(e)
				}
			case []any:
				for _, e := range v {
					follow(e)
				}
			}
		}
		follow(document)
		for short, s := range schemas {
			typ := types.Named(short)
			if anything := typ != nil && len(typ.Fields) == 0; len(rawjson.AsMap(s)) < 2 && !anything {
				t.Errorf("%s: the schema %s is empty", name, short)
			}
		}
	}
}

// Clients look for a patch operation of the kind with a parameter named fieldValidation.
func TestOpenAPIPatchOperations(t *testing.T) {
	all := documents(t)
	for _, k := range builtinKinds() {
		if k.postedOnly {
			continue
		}
		found := false
		for _, path := range rawjson.AsMap(all[k.resource.APIVersion()]["paths"]) {
			op := rawjson.AsMap(rawjson.AsMap(path)["patch"])
			want := map[string]any{"group": k.resource.Group, "version": k.resource.Version, "kind": k.resource.Kind}
			if !rawjson.Equal(op["x-kubernetes-group-version-kind"], want) {
				continue
			}
			parameters, _ := op["parameters"].([]any)
			found = found || slices.ContainsFunc(parameters, func(p any) bool {
				return rawjson.AsMap(p)["name"] == "fieldValidation" && rawjson.AsMap(p)["in"] == "query"
			})
		}
		if !found {
			t.Errorf("%s: no patch operation takes fieldValidation", k.resource.Plural+"."+k.resource.Version+"."+k.resource.Group)
		}
	}
}

func TestOpenAPIOfDefinitions(t *testing.T) {
	d := documents(t)["kopf.dev/v1"]
	var ids []string
	for path, p := range rawjson.AsMap(d["paths"]) {
		for verb, op := range rawjson.AsMap(p) {
			if id, ok := rawjson.AsMap(op)["operationId"].(string); ok {
				ids = append(ids, verb+" "+path+" "+id)
			}
		}
	}
	slices.Sort(ids)
	const base = "/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples"
	want := []string{
		"delete " + base + " deleteKopfDevV1CollectionNamespacedKopfExample",
		"delete " + base + "/{name} deleteKopfDevV1NamespacedKopfExample",
		"get /apis/kopf.dev/v1/kopfexamples listKopfDevV1KopfExampleForAllNamespaces",
		"get " + base + " listKopfDevV1NamespacedKopfExample",
		"get " + base + "/{name} readKopfDevV1NamespacedKopfExample",
		"get " + base + "/{name}/scale readKopfDevV1NamespacedKopfExampleScale",
		"get " + base + "/{name}/status readKopfDevV1NamespacedKopfExampleStatus",
		"patch " + base + "/{name} patchKopfDevV1NamespacedKopfExample",
		"patch " + base + "/{name}/scale patchKopfDevV1NamespacedKopfExampleScale",
		"patch " + base + "/{name}/status patchKopfDevV1NamespacedKopfExampleStatus",
		"post " + base + " createKopfDevV1NamespacedKopfExample",
		"put " + base + "/{name} replaceKopfDevV1NamespacedKopfExample",
		"put " + base + "/{name}/scale replaceKopfDevV1NamespacedKopfExampleScale",
		"put " + base + "/{name}/status replaceKopfDevV1NamespacedKopfExampleStatus",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	spec, _ := rawjson.Lookup(any(d), "components", "schemas", "dev.kopf.v1.KopfExample", "properties", "spec", "properties", "n", "description")
	if spec != "The number." {
		t.Errorf("the description of a field: got %v, want that of the definition", spec)
	}
}

// When a document changes, the index refers to it by another URL, because clients cache documents.
func TestOpenAPIIndexChanges(t *testing.T) {
	url := func(kinds []*openapi.Kind) any {
		v, _ := rawjson.Lookup(openapi.V3Index(kinds), "paths", "apis/apps/v1", "serverRelativeURL")
		return v
	}
	var apps []*openapi.Kind
	for _, k := range openAPIKinds(builtinKinds()) {
		if k.Group == "apps" {
			apps = append(apps, k)
		}
	}
	if url(apps) != url(apps) || url(apps) == url(apps[1:]) || url(apps) == nil {
		t.Errorf("URLs: got %v, %v and %v for the same kinds twice, and for fewer", url(apps), url(apps), url(apps[1:]))
	}
}
