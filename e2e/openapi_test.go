package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOpenAPITypes compares the types of built-in kinds in the OpenAPI documents of both servers, without the descriptions.
func TestOpenAPITypes(t *testing.T) {
	servers := []*endpoint{judge(t, theCluster(t)), embedded(t)}
	get := func(i int, path string) map[string]any {
		answer, err := servers[i].send(t.Context(), &request{method: "GET", path: path}, newSightings())
		if err != nil {
			t.Fatal(err)
		}
		body, _ := answer.Body.(map[string]any)
		return body
	}
	at := func(m map[string]any, keys ...string) map[string]any {
		for _, key := range keys {
			m, _ = m[key].(map[string]any)
		}
		return m
	}
	index := at(get(1, "/openapi/v3"), "paths")
	if len(index) < 15 {
		t.Errorf("%d groups and versions have documents, want at least 15", len(index))
	}
	for path := range index {
		want, got := at(get(0, "/openapi/v3/"+path), "components", "schemas"), at(get(1, "/openapi/v3/"+path), "components", "schemas")
		for name, schema := range got {
			if want[name] == nil || strings.HasPrefix(name, "io.k8s.apimachinery") && !strings.HasSuffix(path, "apps/v1") {
				continue // these are in all documents
			}
			if short := name[strings.LastIndex(name, ".")+1:]; short == "DeleteOptions" || short == "PersistentVolumeClaim" { // they are kinds of other groups, too
				delete(at(want, name), "x-kubernetes-group-version-kind")
				delete(at(got, name), "x-kubernetes-group-version-kind")
			}
			if strings.HasSuffix(name, ".APIServiceSpec") { // it has a list type, but is no list in JSON
				delete(at(want, name, "properties", "caBundle"), "x-kubernetes-list-type")
			}
			if diff := cmp.Diff(undescribed(want[name]), undescribed(schema)); diff != "" {
				t.Errorf("%s: %s (-real +in memory):\n%s", path, name, diff)
			}
		}
	}
}

// undescribed returns a schema without descriptions.
func undescribed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if all, ok := v["allOf"].([]any); ok && len(all) == 1 && v["default"] == nil {
			return undescribed(all[0])
		}
		without := make(map[string]any)
		for key, e := range v {
			if list, isList := e.([]any); key == "required" && isList {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
			if _, isText := e.(string); (key != "description" || !isText) && key != "enum" && key != "x-kubernetes-unions" {
				without[key] = undescribed(e)
			}
		}
		return without
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = undescribed(e)
		}
		return list
	}
	return v
}
