package apiserver

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Each step is applied by a manager; what is wanted is the object without its managedFields, or the refusal.
func TestServerSideApply(t *testing.T) {
	type step struct {
		manager, applied string
		force            bool
		want             string
	}
	owned := `{"metadata":{"managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:containers":{".":{},` +
		`"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:image":{}}}}}}]},"spec":{"containers":[{"name":"a","image":"1"}]}}`
	for name, tt := range map[string]struct {
		live  string
		steps []step
	}{
		"new": {"", []step{{"m", `{"spec":{"hostname":"x"}}`, false, `{"metadata":{},"spec":{"hostname":"x"}}`}}},
		"fields no longer applied go": {"", []step{
			{"m", `{"spec":{"hostname":"x","subdomain":"y"}}`, false, `{"metadata":{},"spec":{"hostname":"x","subdomain":"y"}}`},
			{"m", `{"spec":{"hostname":"x"}}`, false, `{"metadata":{},"spec":{"hostname":"x"}}`},
		}},
		"unless others have them": {"", []step{
			{"m", `{"spec":{"hostname":"x","subdomain":"y"}}`, false, `{"metadata":{},"spec":{"hostname":"x","subdomain":"y"}}`},
			{"n", `{"spec":{"subdomain":"y"}}`, false, `{"metadata":{},"spec":{"hostname":"x","subdomain":"y"}}`},
			{"m", `{"spec":{"hostname":"x"}}`, false, `{"metadata":{},"spec":{"hostname":"x","subdomain":"y"}}`},
		}},
		"conflicts": {"", []step{
			{"m", `{"spec":{"hostname":"x"}}`, false, `{"metadata":{},"spec":{"hostname":"x"}}`},
			{"n", `{"spec":{"hostname":"z"}}`, false, `Apply failed with 1 conflict: conflict with "m": .spec.hostname`},
			{"n", `{"spec":{"hostname":"z"}}`, true, `{"metadata":{},"spec":{"hostname":"z"}}`},
		}},
		"several conflicts": {"", []step{
			{"m", `{"spec":{"hostname":"x","containers":[{"name":"a","image":"1"}]}}`, false, `{"metadata":{},"spec":{"hostname":"x","containers":[{"image":"1","name":"a"}]}}`},
			{"n", `{"spec":{"hostname":"z","containers":[{"name":"a","image":"2"}]}}`, false,
				"Apply failed with 2 conflicts: conflicts with \"m\":\n- .spec.hostname\n- .spec.containers[name=\"a\"].image"},
		}},
		"items by key": {"", []step{
			{"m", `{"spec":{"containers":[{"name":"a","image":"1"}]}}`, false, `{"metadata":{},"spec":{"containers":[{"image":"1","name":"a"}]}}`},
			{"n", `{"spec":{"containers":[{"name":"b","image":"2"}]}}`, false, `{"metadata":{},"spec":{"containers":[{"image":"1","name":"a"},{"image":"2","name":"b"}]}}`},
			{"m", `{"spec":{}}`, false, `{"metadata":{},"spec":{"containers":[{"image":"2","name":"b"}]}}`},
		}},
		"a list owned as a whole stays for its items": {owned, []step{
			{"kubectl", `{"spec":{"containers":[{"name":"a","image":"2"}]}}`, false, `{"metadata":{},"spec":{"containers":[{"image":"2","name":"a"}]}}`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var live map[string]any
			if tt.live != "" {
				live = jsonValue(t, tt.live)
			}
			for _, s := range tt.steps {
				o := applyOptions{managedOptions{manager: s.manager, apiVersion: "v1", operation: "Apply", now: time.Unix(0, 0), schema: podSchema(), kind: "Pod"}, s.force}
				applied, refused := serverSideApply(live, jsonValue(t, s.applied), o)
				if refused != nil {
					if refused.message != s.want {
						t.Fatalf("%s is refused: %q, want %q", s.manager, refused.message, s.want)
					}
					continue
				}
				live = applied
				shown := rawjson.Clone(live).(map[string]any)
				delete(rawjson.AsMap(shown["metadata"]), "managedFields")
				if diff := cmp.Diff(jsonValue(t, s.want), shown); diff != "" {
					t.Fatalf("after %s applied (-want +got):\n%s", s.manager, diff)
				}
			}
		})
	}
}

func TestInterleaved(t *testing.T) {
	for _, tt := range []struct{ live, applied, want string }{
		{"c", "b c", "b c"},
		{"a b", "c d b", "a c d b"},
		{"i k j", "k j i", "k j i"},
		{"a b c", "", "a b c"},
		{"", "a b", "a b"},
		{"a x b", "b a", "x b a"},
	} {
		if got := strings.Join(interleaved(strings.Fields(tt.live), strings.Fields(tt.applied)), " "); got != tt.want {
			t.Errorf("%q applied to %q makes %q, want %q", tt.applied, tt.live, got, tt.want)
		}
	}
}

// podSchema is what the server knows of pods.
func podSchema() *schema {
	for _, k := range builtinKinds() {
		if k.resource.Plural == "pods" {
			return k.schema
		}
	}
	return nil
}
