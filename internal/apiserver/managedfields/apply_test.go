package managedfields

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// In each step, a manager applies a configuration. The expected result is the object without its managedFields, or the error.
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
		"values twice in a set stay": {`{"metadata":{"finalizers":["x.dev/a","x.dev/b","x.dev/b"]}}`, []step{
			{"m", `{"metadata":{"finalizers":["x.dev/a"]}}`, false, `{"metadata":{"finalizers":["x.dev/a","x.dev/b","x.dev/b"]}}`},
		}},
		"a list owned as a whole stays for its items": {owned, []step{
			{"kubectl", `{"spec":{"containers":[{"name":"a","image":"2"}]}}`, false, `{"metadata":{},"spec":{"containers":[{"image":"2","name":"a"}]}}`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var live map[string]any
			if tt.live != "" {
				live = mustObject(t, tt.live)
			}
			for _, s := range tt.steps {
				o := Options{Manager: s.manager, APIVersion: "v1", Operation: "Apply", Now: time.Unix(0, 0), Kind: "Pod"}
				applied, refused := Apply(live, mustObject(t, s.applied), o, s.force)
				if refused != nil {
					if refused.Message != s.want {
						t.Fatalf("%s is refused: %q, want %q", s.manager, refused.Message, s.want)
					}
					continue
				}
				live = applied
				shown := rawjson.Clone(live).(map[string]any)
				delete(rawjson.AsMap(shown["metadata"]), "managedFields")
				if diff := cmp.Diff(mustObject(t, s.want), shown); diff != "" {
					t.Fatalf("after %s applied (-want +got):\n%s", s.manager, diff)
				}
			}
		})
	}
}

// TestTwins compares sets that contain a value twice. That value is added and removed without the other values.
func TestTwins(t *testing.T) {
	finalizers := func(values string) map[string]any {
		return mustObject(t, `{"metadata":{"finalizers":[`+values+`]}}`)
	}
	text := func(s *fieldSet) string {
		raw, err := rawjson.Encode(s.encode())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	const b = `{"f:metadata":{"f:finalizers":{"v:\"b\"":{}}}}`
	for _, tt := range []struct{ before, after, added, modified, removed string }{
		{`"a"`, `"a","b","b"`, b, `{}`, `{}`},
		{`"a","b"`, `"a","b","b"`, b, `{}`, b},
		{`"a","b","b"`, `"a","b"`, b, `{}`, b},
		{`"a","b","b"`, `"a"`, `{}`, `{}`, b},
		{`"a","b","b"`, `"b","a","b"`, `{}`, `{}`, `{}`},
		{`"b","b"`, `"b","b","b"`, `{}`, b, `{}`},
	} {
		c := compareFields(finalizers(tt.before), finalizers(tt.after), Options{Manager: "m", APIVersion: "v1", Operation: "Update", Now: time.Unix(0, 0), Kind: "Pod"})
		if added, modified, removed := text(c.added), text(c.modified), text(c.removed); added != tt.added || modified != tt.modified || removed != tt.removed {
			t.Errorf("%s, then %s: added %s, modified %s, removed %s", tt.before, tt.after, added, modified, removed)
		}
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

// FuzzApply applies a configuration, then one of another manager, then the first one repeatedly.
func FuzzApply(f *testing.F) {
	f.Add(`{"spec":{"hostname":"x","containers":[{"name":"a","image":"1"},{"name":"b"}]}}`, `{"spec":{"containers":[{"name":"b","image":"2"}]}}`)
	f.Add(`{"spec":{"containers":[{},{}],"x":[[1],null]}}`, `{"metadata":{"labels":{"a":null},"managedFields":[{"fieldsV1":{"f:":7}}]},"spec":null}`)
	f.Add(`{"metadata":7}`, `{"metadata":{"annotations":[]}}`)
	f.Fuzz(func(t *testing.T, one, two string) {
		mine, err := rawjson.DecodeObject([]byte(one))
		if err != nil {
			t.Skip()
		}
		theirs, err := rawjson.DecodeObject([]byte(two))
		if err != nil {
			t.Skip()
		}
		for _, object := range []map[string]any{mine, theirs} {
			if meta, ok := object["metadata"]; ok && rawjson.AsMap(meta) == nil {
				t.Skip() // it is refused before
			}
		}
		by := func(manager string) Options {
			return Options{Manager: manager, APIVersion: "v1", Operation: "Apply", Now: time.Unix(0, 0), Kind: "Pod"}
		}
		apply := func(live, applied map[string]any, manager string) map[string]any {
			merged, refused := Apply(live, rawjson.Clone(applied).(map[string]any), by(manager), true)
			if refused != nil {
				t.Skip(refused.Message)
			}
			return merged
		}
		live := apply(apply(nil, mine, "m"), theirs, "n")
		live = apply(live, mine, "m")
		if again := apply(live, mine, "m"); !rawjson.Equal(again, live) {
			t.Errorf("%s and %s: applied once more, it changes (-before +after)\n%s", one, two, cmp.Diff(live, again))
		}
	})
}

// mustObject decodes an object from JSON.
func mustObject(t *testing.T, text string) map[string]any {
	t.Helper()
	object, err := rawjson.DecodeObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return object
}
