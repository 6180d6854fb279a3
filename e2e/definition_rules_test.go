package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The cases of the in-memory server's unit tests, with the responses of a real server.
const serverTestdata = "../internal/apiserver/testdata/"

// TestDefinitionRules has both servers check CRDs that are valid, or invalid in one way.
func TestDefinitionRules(t *testing.T) {
	base, err := os.ReadFile(serverTestdata + "definitions_base.json")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(serverTestdata + "definitions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	for line := range bytes.Lines(lines) {
		if bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		var c struct {
			Field, Version, Spec, Metadata map[string]any
			Versions                       []any
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		var object any
		if err := json.Unmarshal(base, &object); err != nil {
			t.Fatal(err)
		}
		if c.Field != nil {
			object = changed(object, []any{"spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec"}, map[string]any{"type": "object", "properties": map[string]any{"f": c.Field}})
		}
		for key, v := range c.Version {
			object = changed(object, []any{"spec", "versions", 0, key}, v)
		}
		for key, v := range c.Spec {
			object = changed(object, []any{"spec", key}, v)
		}
		for key, v := range c.Metadata {
			object = changed(object, []any{"metadata", key}, v)
		}
		if c.Versions != nil {
			object = changed(object, []any{"spec", "versions"}, c.Versions)
		}
		calls = append(calls, call{"POST", definitionsPath + "?dryRun=All", asJSON, encode(object), []string{"spec.names"}})
	}
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"definitions", calls}})
}

const tokensPath = "/apis/example.com/v1/namespaces/default/tokens"

// TestDefinitionFormats sends values of all formats, and nested objects, to both servers.
func TestDefinitionFormats(t *testing.T) {
	lines, err := os.ReadFile(serverTestdata + "formats.txt")
	if err != nil {
		t.Fatal(err)
	}
	properties := map[string]string{
		"int32": `{"type": "integer", "format": "int32"}`, "int64": `{"type": "integer", "format": "int64"}`, "integer": `{"type": "integer"}`,
		"float": `{"type": "number", "format": "float"}`, "double": `{"type": "number", "format": "double"}`, "number": `{"type": "number", "format": "int32"}`,
		"whole":   `{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}`,
		"partial": `{"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}`,
		"list":    `{"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}`,
	}
	var calls []call
	try := func(property, value string) {
		body := fmt.Sprintf(`{"apiVersion": "example.com/v1", "kind": "Token", "metadata": {"name": "a"}, "spec": {%q: %s}}`, property, value)
		calls = append(calls, call{"POST", tokensPath + "?dryRun=All", asJSON, body, []string{"spec", warnings}})
	}
	for line := range bytes.Lines(lines) {
		if words := strings.SplitN(strings.TrimSpace(string(line)), " ", 3); words[0] != "#" {
			properties["f-"+words[0]] = fmt.Sprintf(`{"type": "string", "format": %q}`, words[0])
			try("f-"+words[0], words[2])
		}
	}
	for _, property := range []string{"int32", "int64", "integer", "float", "double", "number"} {
		for _, value := range []string{"1", "1.5", "2147483648", "-2147483649", "1099511627776", "1e+39", "1e+300"} {
			try(property, value)
		}
	}
	for _, property := range []string{"whole", "partial"} {
		for _, value := range embeddedObjects {
			try(property, value)
		}
	}
	try("list", `[{"kind": "A"}]`)
	try("list", `[{"apiVersion": "v1", "kind": "A", "metadata": {"nope": 1}}]`)
	var all []string
	for name, schema := range properties {
		all = append(all, fmt.Sprintf("%q: %s", name, schema))
	}
	slices.Sort(all)
	definition := `{"metadata": {"name": "tokens.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "tokens", "kind": "Token"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {` + strings.Join(all, ",") + `}}}}}}]}}`
	calls = slices.Insert(calls, 0, call{"POST", definitionsPath, asJSON, definition, []string{"spec.names"}}, call{"GET", tokensPath, "", "", []string{"kind", settles}})
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"formats", calls}})
}

// embeddedObjects are objects for fields with x-kubernetes-embedded-resource.
var embeddedObjects = []string{
	`{}`, `{"apiVersion": "v1"}`, `{"apiVersion": "v1", "kind": "A"}`, `{"apiVersion": "v1", "kind": ""}`, `{"apiVersion": 1, "kind": "A"}`, `{"apiVersion": "v1", "kind": 2}`,
	`{"apiVersion": "a/b/c", "kind": "A"}`, `{"apiVersion": "v1", "kind": "a b"}`, `{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "nope": 1, "labels": {"a": "b"}}}`,
	`{"apiVersion": "v1", "kind": "A", "metadata": {"name": 1}}`, `{"apiVersion": "v1", "kind": "A", "metadata": "x"}`, `{"apiVersion": "v1", "kind": "A", "metadata": null, "spec": {"x": 1}}`,
	`{"apiVersion": "v1", "kind": "A", "metadata": {"labels": {"a b": "c"}}}`, `{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a/b"}}`,
	`{"apiVersion": "v1", "kind": "A", "metadata": {"namespace": "A B"}}`, `{"apiVersion": "v1", "kind": "A", "metadata": {"generateName": "c%d"}}`, `{"apiVersion": "v1", "kind": "A", "metadata": {"name": "."}}`,
	`{"apiVersion": "v1", "kind": "A", "metadata": {"finalizers": ["a b"]}}`, `{"apiVersion": "v1", "kind": "A", "metadata": {"creationTimestamp": null, "name": ""}}`,
}
