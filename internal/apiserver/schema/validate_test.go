package schema

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// TestValidate checks responses of kube-apiserver to values that violate limits and combinations of schemas.
func TestValidate(t *testing.T) {
	const fields = `"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"object","properties":{"d":{"type":"string"}}}}`
	for _, tt := range []struct {
		schema, value string
		want          []string
	}{
		{`{"type":"string","minLength":3,"maxLength":5,"pattern":"^a"}`, `"bbbbbb"`, []string{`v: Too long: may not be more than 5 bytes`}},
		{`{"type":"string","minLength":3,"maxLength":5,"pattern":"^a"}`, `"b"`, []string{`v: Invalid value: "b": v in body should be at least 3 chars long`}},
		{`{"type":"integer","minimum":2,"multipleOf":3,"enum":[3,6]}`, `1`, []string{`v: Invalid value: 1: v in body should be a multiple of 3`,
			`v: Invalid value: 1: v in body should be greater than or equal to 2`, `v: Unsupported value: 1: supported values: "3", "6"`}},
		{`{"type":"object",` + fields + `,"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, []string{
			`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found none valid`, `v.a: Required value`}},
		{`{"type":"object",` + fields + `,"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":1}`, []string{
			`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives`}},
		{`{"type":"object",` + fields + `,"anyOf":[{"required":["a"]},{"properties":{"c":{"properties":{"d":{"minLength":3}}}},"required":["b"]}]}`, `{"c":{"d":"x"}}`, []string{
			`<nil>: Invalid value: "": "v" must validate at least one schema (anyOf)`, `v.b: Required value`, `v.c.d: Invalid value: "x": v.c.d in body should be at least 3 chars long`}},
		{`{"type":"object",` + fields + `,"allOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, []string{
			`<nil>: Invalid value: "": "v" must validate all the schemas (allOf). None validated`, `v.a: Required value`, `v.b: Required value`}},
		{`{"type":"object",` + fields + `,"allOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1}`, []string{
			`<nil>: Invalid value: "": "v" must validate all the schemas (allOf)`, `v.b: Required value`}},
		{`{"type":"object",` + fields + `,"not":{"required":["a"]}}`, `{"a":1}`, []string{`<nil>: Invalid value: "": "v" must not validate the schema (not)`}},
	} {
		source, err := rawjson.DecodeObject([]byte(`{"type":"object","properties":{"v":` + tt.schema + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		object, err := rawjson.DecodeObject([]byte(`{"v":` + tt.value + `}`))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range s.Validate(object, nil) {
			got = append(got, f.Message())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s with %s (-want +got)\n%s", tt.schema, tt.value, diff)
		}
	}
}
