package kindschema

import (
	"fmt"
	"testing"
)

func TestKeeps(t *testing.T) {
	const preserving = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	for _, tt := range []struct {
		name, properties string
		want             bool
	}{
		{"a status that takes all", `"status":` + preserving, true},
		{"a field for us", `"status":{"type":"object","properties":{"phase":{"type":"string"},"kopf":` + preserving + `}}`, true},
		{"a status that takes all, with a field that does not", `"status":{"x-kubernetes-preserve-unknown-fields":true,"properties":{"kopf":{"type":"object"}}}`, false},
		{"a closed status", `"status":{"type":"object","properties":{"phase":{"type":"string"}}}`, false},
		{"no status", `"spec":` + preserving, false},
		{"a map of anything", `"status":{"type":"object","additionalProperties":true}`, true},
		{"a map of objects that take all", `"status":{"type":"object","additionalProperties":` + preserving + `}`, true},
		{"a map of texts", `"status":{"type":"object","additionalProperties":{"type":"string"}}`, false},
		{"a map of nothing", `"status":{"type":"object","additionalProperties":false}`, false},
		{"a status that is described elsewhere", `"status":{"$ref":"#/components/schemas/Status"}`, false},
		{"nonsense", `"status":[]`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			document := fmt.Sprintf(`{"components":{"schemas":{
				"other":{"x-kubernetes-group-version-kind":[{"group":"kopf.dev","kind":"Other","version":"v1"}],"x-kubernetes-preserve-unknown-fields":true},
				"dev.kopf.v1.Widget":{"type":"object","properties":{%s},"x-kubernetes-group-version-kind":[{"group":"kopf.dev","kind":"Widget","version":"v1"}]}}}}`, tt.properties)
			if keeps, found := Keeps([]byte(document), "kopf.dev", "v1", "Widget", "status", "kopf"); keeps != tt.want || !found {
				t.Errorf("got %t, found %t; want %t", keeps, found, tt.want)
			}
			if _, found := Keeps([]byte(document), "kopf.dev", "v2", "Widget", "status", "kopf"); found {
				t.Error("a kind of another version is found")
			}
		})
	}
	for _, document := range []string{``, `{}`, `[]`, `{"components":{"schemas":[`, `<html>`} {
		if _, found := Keeps([]byte(document), "", "v1", "Pod", "status"); found {
			t.Errorf("a kind is found in %q", document)
		}
	}
}

func TestPath(t *testing.T) {
	if got := Path("", "v1"); got != "/openapi/v3/api/v1" {
		t.Errorf("got %s", got)
	}
	if got := Path("kopf.dev", "v1"); got != "/openapi/v3/apis/kopf.dev/v1" {
		t.Errorf("got %s", got)
	}
}
