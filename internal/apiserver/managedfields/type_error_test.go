package managedfields

import (
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// TestTypeError checks the errors of kube-apiserver about applied objects.
func TestTypeError(t *testing.T) {
	source, err := rawjson.DecodeObject([]byte(`{"type":"object","properties":{"spec":{"type":"object","properties":{
		"n":{"type":"integer"},"m":{"type":"object","properties":{"a":{"type":"string"}}},
		"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
		"map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","l"],"items":{"type":"object","properties":{"k":{"type":"string"},"l":{"type":"integer"},"v":{"type":"object"}}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		`{"n":"x"}`:             `.spec.n: expected numeric (int or float), got string`,
		`{"n":true}`:            `.spec.n: expected numeric (int or float), got bool`,
		`{"m":5}`:               `.spec.m: expected map, got 5`,
		`{"set":5}`:             `.spec.set: expected list, got 5`,
		`{"set":["a/b","a/b"]}`: `.spec.set: duplicate entries for key [="a/b"]`,
		`{"map":[{"k":"a","l":1},{"l":1,"k":"a"}]}`: `.spec.map: duplicate entries for key [k="a",l=1]`,
		`{"map":[{"k":"a","v":"b"}]}`:               `.spec.map[k="a"].v: expected map, got b`,
		`{"map":[{"v":{}}]}`:                        `.spec.map: element 0: associative list with keys has an element that omits all key fields ["k" "l"] (and doesn't have default values for any key fields)`,
		`{"map":[null]}`:                            `.spec.map: element 0: associative list with keys may not have a null element`,
	} {
		object, err := rawjson.DecodeObject([]byte(`{"spec":` + spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := (Options{Schema: s}).TypeError(object, false); got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}
