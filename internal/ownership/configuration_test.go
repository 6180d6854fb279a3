package ownership

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestNew(t *testing.T) {
	type port struct {
		Port int    `json:"port"`
		Name string `json:"name,omitempty"`
	}
	object := map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "a", "annotations": map[string]string{"b": "<c>", annotation: "old"}},
		"spec":     map[string]any{"ports": []port{{Port: 80}, {443, "s"}}, "more": []map[string]any{{"n": json.Number("1e3")}}, "f": 1.5, "none": nil},
	}
	c, err := New(object, annotation)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"v1","kind":"Service","metadata":{"annotations":{"b":"<c>","example.com/applied":"` + c.Digest() + `"},"name":"a"},` +
		`"spec":{"f":1.5,"more":[{"n":1e3}],"none":null,"ports":[{"port":80},{"name":"s","port":443}]}}`
	if diff := cmp.Diff(want, string(c.JSON(nil))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := object["metadata"].(map[string]any)["annotations"].(map[string]string)[annotation]; got != "old" {
		t.Errorf("the annotation of the object itself is %q", got)
	}
	if len(c.Digest()) != 20 || strings.Trim(c.Digest(), "0123456789abcdef") != "" {
		t.Errorf("the digest is %q", c.Digest())
	}
}

func TestDigest(t *testing.T) {
	base := configure(t, `"spec":{"a":1,"b":[1000,2.5],"c":{"d":null}}`)
	for _, same := range []string{
		`"spec":{"c":{"d":null},"b":[1e3,25e-1],"a":1.0}`,
		`"spec" : {"a": 1, "b": [1000.0, 2.50], "c": {"d": null}}`,
	} {
		if got := configure(t, same).Digest(); got != base.Digest() {
			t.Errorf("%s has another digest than the same in other words", same)
		}
	}
	seen := map[string]string{base.Digest(): "the first one"}
	for _, other := range []string{
		`"spec":{"a":"1","b":[1000,2.5],"c":{"d":null}}`,
		`"spec":{"a":true,"b":[1000,2.5],"c":{"d":null}}`,
		`"spec":{"a":1,"b":[2.5,1000],"c":{"d":null}}`,
		`"spec":{"a":1,"b":[1000,2.5],"c":{}}`,
		`"spec":{"a":1,"b":[[1000],2.5],"c":{"d":null}}`,
		`"spec":{"a":1,"b":[1000,2.5],"c":{"d":null}},"status":{}`,
		`"spec":{"a":9007199254740992}`,
		`"spec":{"a":9007199254740993}`,
		`"spec":{"a":1e400}`,
		`"spec":{"a":1e401}`,
	} {
		digest := configure(t, other).Digest()
		if seen[digest] != "" {
			t.Errorf("%s has the digest of %s", other, seen[digest])
		}
		seen[digest] = other
	}
}

func TestStringData(t *testing.T) {
	secret := func(stanzas string) *Configuration {
		return parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}`+stanzas+`}`)
	}
	for stanzas, want := range map[string]string{
		`,"stringData":{"a":"1","b":"ü"},"data":{"b":"Mg==","c":"Mw=="}`: `{"a":"MQ==","b":"w7w=","c":"Mw=="}`,
		`,"stringData":{"a":"1"},"data":null`:                            `{"a":"MQ=="}`,
		`,"stringData":{}`:                                               ``,
		`,"stringData":null,"data":{}`:                                   `{}`,
	} {
		got := secret(stanzas).JSON(nil)
		data, _ := rawjson.Find(got, "data")
		if _, left := rawjson.Find(got, "stringData"); string(data) != want || left {
			t.Errorf("%s becomes %s, want the data %s alone", stanzas, got, want)
		}
	}
	if secret(`,"stringData":{"a":"1"}`).Digest() != secret(`,"data":{"a":"MQ=="}`).Digest() {
		t.Error("the same data have two digests")
	}
	other := parse(t, `{"apiVersion":"example.com/v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"a":"1"}}`)
	if _, kept := rawjson.Find(other.JSON(nil), "stringData"); !kept {
		t.Error("the stringData of another kind are gone")
	}
}

func TestWrongObjects(t *testing.T) {
	for want, object := range map[string]map[string]any{
		`invalid apiVersion, null: want a string that is not empty`:        {"kind": "A", "metadata": map[string]any{"name": "a"}},
		`invalid kind, a number: want a string that is not empty`:          {"apiVersion": "v1", "kind": 1, "metadata": map[string]any{"name": "a"}},
		`invalid metadata, null: want an object`:                           {"apiVersion": "v1", "kind": "A"},
		`invalid metadata.name, a string: want a string that is not empty`: {"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": ""}},
		`invalid metadata.annotations, a list: want an object of strings`:  {"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a", "annotations": []any{}}},
		`invalid metadata.annotations["b"], a number: want a string`:       {"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a", "annotations": map[string]any{"b": 1}}},
		`invalid metadata.managedFields: want none in an apply configuration`: {"apiVersion": "v1", "kind": "A", "metadata": map[string]any{
			"name": "a", "managedFields": []any{}}},
		`invalid stringData, a list: want an object of strings`: {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"}, "stringData": []any{}},
		`invalid stringData["b"], a number: want a string`:      {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"}, "stringData": map[string]any{"b": 1}},
		`invalid data, a string: want an object of strings`:     {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"}, "stringData": map[string]any{"b": "1"}, "data": "x"},
		`encoding the object: json: unsupported value: NaN`:     {"apiVersion": "v1", "kind": "A", "spec": math.NaN()},
	} {
		if _, err := New(object, annotation); err == nil || err.Error() != want {
			t.Errorf("%v: the error is %v, want %s", object, err, want)
		}
	}
	if _, err := New(map[string]any{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}}, ""); err == nil {
		t.Error("an annotation without a name is taken")
	}
}

func TestFieldsOf(t *testing.T) {
	entry := func(more string) string {
		return `{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}` + more + `}`
	}
	for managed, want := range map[string]string{
		`[` + entry(``) + `]`:                                                           `{"f:a":{}} v1`,
		`[` + entry(`,"subresource":""`) + `]`:                                          `{"f:a":{}} v1`,
		`[` + entry(`,"subresource":"status"`) + `]`:                                    ` `,
		`[` + entry(`,"operation":"Update"`) + `]`:                                      ` `,
		`[` + entry(`,"manager":"other"`) + `]`:                                         ` `,
		`[` + entry(`,"fieldsType":"FieldsV2"`) + `]`:                                   ` `,
		`[` + entry(`,"manager":"\u006d"`) + `]`:                                        `{"f:a":{}} v1`,
		`[` + entry(`,"manager":1`) + `]`:                                               ` `,
		`[` + entry(``) + `,` + entry(`,"apiVersion":"v2","fieldsV1":{"f:b":{}}`) + `]`: `{"f:b":{}} v2`,
		`[` + entry(`,"operation":"Update","apiVersion":"v2"`) + `, ` + entry(``) + `]`: `{"f:a":{}} v1`,
		`[{"manager":"m","operation":"Apply"}]`:                                         ` `,
		`[{}]`:                                                                          ` `, `[]`: ` `, `null`: ` `, ``: ` `, `{}`: ` `, `[1,"a",null]`: ` `, `[{"manager"`: ` `,
	} {
		fields, apiVersion := FieldsOf([]byte(managed), "m")
		if got := string(fields) + " " + apiVersion; got != want {
			t.Errorf("%s has the fields %s, want %s", managed, got, want)
		}
	}
}

// FuzzFieldsOf reads arbitrary input.
func FuzzFieldsOf(f *testing.F) {
	f.Add(`[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}]`)
	f.Add(`[{"manager":"m","operation":"Apply","fieldsV1":`)
	f.Fuzz(func(t *testing.T, managed string) {
		c := configure(t, `"spec":{"a":[{"b":1}]}`)
		fields, apiVersion := FieldsOf([]byte(managed), "m")
		(&Checker{}).Check(c, c.Digest(), fields, apiVersion)
	})
}
