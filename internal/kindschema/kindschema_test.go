package kindschema

import (
	"fmt"
	"strings"
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
			if o, found := FirstObstacle([]byte(document), "kopf.dev", "v1", "Widget", [][]string{{"status", "kopf", "progress"}}); o == (Obstacle{}) != tt.want || !found {
				t.Errorf("got %+v, found %t; want %t", o, found, tt.want)
			}
			if _, found := FirstObstacle([]byte(document), "kopf.dev", "v2", "Widget", [][]string{{"status", "kopf", "progress"}}); found {
				t.Error("a kind of another version is found")
			}
		})
	}
	for _, document := range []string{``, `{}`, `[]`, `{"components":{"schemas":[`, `<html>`} {
		if _, found := FirstObstacle([]byte(document), "", "v1", "Pod", [][]string{{"status", "kopf"}}); found {
			t.Errorf("a kind is found in %q", document)
		}
	}
}

func TestObstacle(t *testing.T) {
	const preserving = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	for _, tt := range []struct {
		name, status string
		field        []string
		want         Obstacle
		text         string
	}{
		{"nothing", `{}`, []string{"status", "kopf", "progress"}, Obstacle{Field: "kopf"}, `does not keep the field "kopf", so`},
		{"a part", `{"properties":{"kopf":{"type":"object","properties":{"progress":` + preserving + `}}}}`, []string{"status", "kopf", "progress"}, Obstacle{Field: "kopf", Declared: true}, `does not keep all of the field "kopf", so`},
		{"the status itself", `{}`, []string{"status", "mine"}, Obstacle{Field: "status", Declared: true}, `add to its status: x-kubernetes-preserve-unknown-fields: true`},
		{"a required field", `{"x-kubernetes-preserve-unknown-fields":true,"required":["kopf","size","phase"],"properties":{"phase":{"type":"string"},"size":{"default":1}}}`, []string{"status", "kopf", "progress"}, Obstacle{Required: "status.phase"}, `requires the field "status.phase"`},
		{"a required field further in", `{"properties":{"kopf":{"x-kubernetes-preserve-unknown-fields":true,"required":["x"]}}}`, []string{"status", "kopf", "progress"}, Obstacle{Required: "status.kopf.x"}, `requires the field "status.kopf.x"`},
		{"required elsewhere", `{"x-kubernetes-preserve-unknown-fields":true,"properties":{"other":{"required":["x"]}}}`, []string{"status", "kopf", "progress"}, Obstacle{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			document := fmt.Sprintf(`{"components":{"schemas":{"w":{"required":["spec"],"properties":{"status":%s},"x-kubernetes-group-version-kind":[{"group":"kopf.dev","kind":"Widget","version":"v1"}]}}}}`, tt.status)
			o, found := FirstObstacle([]byte(document), "kopf.dev", "v1", "Widget", [][]string{tt.field})
			if o != tt.want || !found {
				t.Errorf("got %+v, found %t; want %+v", o, found, tt.want)
			}
			if text := o.Warning("widgets"); !strings.Contains(text, tt.text) {
				t.Errorf("got the text %q, want %q", text, tt.text)
			}
		})
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
