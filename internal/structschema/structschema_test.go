package structschema

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Meta replaces the metadata type of the public package.
type Meta struct{}

var options = Options{Meta: reflect.TypeFor[Meta](), Describe: describe}

type described struct{}

func (described) describe() Description {
	return Description{Schema: map[string]any{"type": "string", "format": "x"}}
}

type chosen string

func (chosen) Enum() []string { return []string{"b", "a"} }

// Chosen is exported for embedding.
type Chosen = chosen

// protocol is an enum of bytes.
type protocol uint8

func (p protocol) MarshalText() ([]byte, error) { return []byte{'0' + byte(p)}, nil }

func (p *protocol) UnmarshalText(text []byte) error { *p = protocol(text[0] - '0'); return nil }

// pointerText and pointerKey have pointer methods.
type pointerText int

func (*pointerText) MarshalText() ([]byte, error) { return nil, nil }

func (*pointerText) UnmarshalText([]byte) error { return nil }

type pointerJSON int

func (*pointerJSON) MarshalJSON() ([]byte, error) { return nil, nil }

type pointerKey struct{ A string }

func (*pointerKey) MarshalText() ([]byte, error) { return nil, nil }

type color string

type colored string

func (colored) Enum() []color { return []color{"red", "blue"} }

type numbered string

func (numbered) Enum() []int { return []int{1} }

type protobufEnum int32

func (p protobufEnum) Enum() *protobufEnum { return &p }

// OtherRuled is embedded.
type OtherRuled struct {
	B string `json:"b"`
}

func (OtherRuled) describe() Description { return Description{Rules: []Rule{{Rule: "self.b != ''"}}} }

type outerRuled struct{ ruled }

func (outerRuled) describe() Description { return Description{Rules: []Rule{{Rule: "true"}}} }

type ruled struct {
	A string `json:"a"`
}

func (ruled) describe() Description {
	return Description{Rules: []Rule{{Rule: "self.a != ''", Message: "no"}}}
}

type panicking struct{}

func (*panicking) describe() Description { panic("never") }

// These types resemble those of k8s.io/apimachinery.
type likeTime struct{ time.Time }

func (likeTime) OpenAPISchemaType() []string { return []string{"string"} }
func (likeTime) OpenAPISchemaFormat() string { return "date-time" }

type likeQuantity struct{ json.Marshaler }

func (*likeQuantity) UnmarshalJSON([]byte) error { return nil }

func (likeQuantity) OpenAPISchemaType() []string   { return []string{"string"} }
func (likeQuantity) OpenAPISchemaFormat() string   { return "" }
func (likeQuantity) OpenAPIV3OneOfTypes() []string { return []string{"string", "number"} }

type likeIntOrString struct{ json.Marshaler }

func (*likeIntOrString) UnmarshalJSON([]byte) error { return nil }

func (likeIntOrString) OpenAPISchemaType() []string   { return []string{"string"} }
func (likeIntOrString) OpenAPISchemaFormat() string   { return "int-or-string" }
func (likeIntOrString) OpenAPIV3OneOfTypes() []string { return []string{"integer", "string"} }

type likeJSON struct {
	json.Marshaler
	json.Unmarshaler
}

func (likeJSON) OpenAPISchemaType() []string { return nil }

func describe(pointer any) Description {
	if d, ok := pointer.(interface{ describe() Description }); ok {
		return d.describe()
	}
	return Description{}
}

type base struct {
	A string `json:"a"`
	B string `json:"b"`
}

type tree struct {
	Children []tree `json:"children"`
}

type item struct {
	Name string `json:"name"`
	Port int    `json:"port,omitempty"`
	Host string `json:"host,omitempty" default:"x"`
	Tags []int  `json:"tags"`
}

type inner struct {
	X int32  `json:"x,omitempty" default:"1"`
	Y string `json:"y,omitempty" default:"why"`
}

// kindWith returns a kind with one spec field F of a type with a tag.
func kindWith(t reflect.Type, tag string) reflect.Type {
	spec := reflect.StructOf([]reflect.StructField{{Name: "F", Type: t, Tag: reflect.StructTag(tag)}})
	return reflect.StructOf([]reflect.StructField{
		{Name: "Meta", Type: reflect.TypeFor[Meta](), Anonymous: true},
		{Name: "Spec", Type: spec, Tag: `json:"spec"`},
	})
}

// schemaOf returns the schema of the field, and the kind.
func schemaOf(t reflect.Type, tag string) (string, *Kind, error) {
	k, err := Of(kindWith(t, tag), options)
	if err != nil {
		return "", nil, err
	}
	v, _ := rawjson.Lookup(any(k.Schema), "properties", "spec", "properties", "f")
	text, err := rawjson.Encode(v)
	return string(text), k, err
}

func TestSchemas(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		tag   string
		want  string
	}{
		{"TD-10 bool", false, ``, `{"type":"boolean"}`},
		{"TD-10 string", "", ``, `{"type":"string"}`},
		{"TD-10 int", 0, ``, `{"type":"integer"}`},
		{"TD-10 int8", int8(0), ``, `{"maximum":127,"minimum":-128,"type":"integer"}`},
		{"TD-10 int16", int16(0), ``, `{"maximum":32767,"minimum":-32768,"type":"integer"}`},
		{"TD-10 int32", int32(0), ``, `{"format":"int32","type":"integer"}`},
		{"TD-10 int64", int64(0), ``, `{"format":"int64","type":"integer"}`},
		{"TD-10 uint", uint(0), ``, `{"minimum":0,"type":"integer"}`},
		{"TD-10 uint16", uint16(0), ``, `{"maximum":65535,"minimum":0,"type":"integer"}`},
		{"TD-10 uint32", uint32(0), ``, `{"format":"int64","maximum":4294967295,"minimum":0,"type":"integer"}`},
		{"TD-10 uint64", uint64(0), ``, `{"format":"int64","minimum":0,"type":"integer"}`},
		{"TD-10 narrower than the type", uint16(0), `exclusiveMinimum:"1" maximum:"9"`, `{"exclusiveMinimum":true,"maximum":9,"minimum":1,"type":"integer"}`},
		{"TD-10 bytes in an array", [2]byte{}, ``, `{"items":{"maximum":255,"minimum":0,"type":"integer"},"type":"array"}`},
		{"TD-10 bytes that are texts", []protocol{}, ``, `{"items":{"type":"string"},"type":"array"}`},
		{"TD-10 a text by the method of the pointer", new(pointerText), ``, `{"type":"string"}`},
		{"TD-10 texts by the method of the pointer in a map", map[string]*pointerText{}, ``, `{"additionalProperties":{"type":"string"},"type":"object"}`},
		{"TD-10 bytes", []byte(nil), ``, `{"format":"byte","type":"string"}`},
		{"TD-10 time", time.Time{}, ``, `{"format":"date-time","type":"string"}`},
		{"TD-10 text marshaler", netip.Addr{}, ``, `{"type":"string"}`},
		{"TD-10 slice", []string(nil), ``, `{"items":{"type":"string"},"type":"array"}`},
		{"TD-10 array", [2]bool{}, ``, `{"items":{"type":"boolean"},"type":"array"}`},
		{"TD-10 map", map[chosen][]int(nil), ``, `{"additionalProperties":{"items":{"type":"integer"},"type":"array"},"type":"object"}`},
		{"TD-10 map with keys that are texts", map[netip.Addr]bool(nil), ``, `{"additionalProperties":{"type":"boolean"},"type":"object"}`},
		{"TD-10 pointer", (**int)(nil), ``, `{"type":"integer"}`},
		{"TD-10 struct", base{}, ``, `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"],"type":"object"}`},
		{"TD-10 embedded", struct {
			base
			B int    `json:"b"`
			C string `json:"-"`
			d int
		}{}, ``, `{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"],"type":"object"}`},
		{"TD-10 embedded with a name", struct {
			base  `json:"base"`
			Inner inner `json:"inner"`
		}{}, ``, `{"properties":{"base":{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"],"type":"object"},"inner":{"default":{},"properties":{"x":{"default":1,"format":"int32","type":"integer"},"y":{"default":"why","type":"string"}},"type":"object"}},"required":["base"],"type":"object"}`},
		{"TD-11 float", 0.5, `type:"number"`, `{"type":"number"}`},
		{"TD-11 floats", []float32(nil), `each:"type=number,maximum=0.5"`, `{"items":{"maximum":0.5,"type":"number"},"type":"array"}`},
		{"TD-13 nullable", (*string)(nil), `nullable:"true"`, `{"nullable":true,"type":"string"}`},
		{"TD-14 numbers", 0, `minimum:"-1" exclusiveMaximum:"10" multipleOf:"2" enum:"2, 4" format:"int32" example:"4" default:"2" doc:"text"`,
			`{"default":2,"description":"text","enum":[2,4],"example":4,"exclusiveMaximum":true,"format":"int32","maximum":10,"minimum":-1,"multipleOf":2,"type":"integer"}`},
		{"TD-14 strings", "", `minLength:"1" maxLength:"3" pattern:"^[a-z,]+$" enum:"a,b" format:"hostname" nullable:"false"`, `{"enum":["a","b"],"format":"hostname","maxLength":3,"minLength":1,"pattern":"^[a-z,]+$","type":"string"}`},
		{"TD-14 lists", []string{}, `minItems:"1" maxItems:"3" listType:"set"`, `{"items":{"type":"string"},"maxItems":3,"minItems":1,"type":"array","x-kubernetes-list-type":"set"}`},
		{"TD-14 maps", map[string]string{}, `minProperties:"1" maxProperties:"3" mapType:"atomic"`, `{"additionalProperties":{"type":"string"},"maxProperties":3,"minProperties":1,"type":"object","x-kubernetes-map-type":"atomic"}`},
		{"TD-14 rule", "", `maxLength:"3" rule:"self != 'x'" message:"no x"`, `{"maxLength":3,"type":"string","x-kubernetes-validations":[{"message":"no x","rule":"self != 'x'"}]}`},
		{"TD-15 each", []string{}, `each:"maxLength=63,pattern=^[a-z,]{1,2}=?$,enum=a,b"`, `{"items":{"enum":["a","b"],"maxLength":63,"pattern":"^[a-z,]{1,2}=?$","type":"string"},"type":"array"}`},
		{"TD-15 each value of a map", map[string]int{}, `each:"minimum=1"`, `{"additionalProperties":{"minimum":1,"type":"integer"},"type":"object"}`},
		{"TD-16 default of a struct", inner{}, `json:"f,omitzero" default:"{\"x\":3}"`, `{"default":{"x":3},"properties":{"x":{"default":1,"format":"int32","type":"integer"},"y":{"default":"why","type":"string"}},"type":"object"}`},
		{"TD-16 default of a list", []string{}, `default:"[\"a\"]"`, `{"default":["a"],"items":{"type":"string"},"type":"array"}`},
		{"TD-16 default of a list that Go writes as null", []string{}, `json:"f" default:"[]"`, `{"default":[],"items":{"type":"string"},"type":"array"}`},
		{"TD-16 default of a quantity", likeQuantity{}, `json:"f,omitzero" default:"0.5"`, `{"anyOf":[{"type":"integer"},{"type":"string"}],"default":"0.5","pattern":` + quoted(QuantityPattern) + `,"x-kubernetes-int-or-string":true}`},
		{"TD-16 default of a port", likeIntOrString{}, `json:"f,omitzero" default:"80"`, `{"anyOf":[{"type":"integer"},{"type":"string"}],"default":80,"x-kubernetes-int-or-string":true}`},
		{"TD-16 default of a port with a name", likeIntOrString{}, `json:"f,omitzero" default:"true"`, `{"anyOf":[{"type":"integer"},{"type":"string"}],"default":"true","x-kubernetes-int-or-string":true}`},
		{"TD-16 default of a text that looks like JSON", "", `default:"1"`, `{"default":"1","type":"string"}`},
		{"TD-16 no default of a pointer's fields", (*inner)(nil), ``, `{"properties":{"x":{"default":1,"format":"int32","type":"integer"},"y":{"default":"why","type":"string"}},"type":"object"}`},
		{"TD-17 Enum", chosen(""), ``, `{"enum":["b","a"],"type":"string"}`},
		{"TD-17 Enum of items", []chosen{}, ``, `{"items":{"enum":["b","a"],"type":"string"},"type":"array"}`},
		{"TD-17 Enum of a named list", colored(""), ``, `{"enum":["red","blue"],"type":"string"}`},
		{"TD-17 an enum that is embedded", struct {
			Chosen
			B string `json:"b,omitempty"`
		}{}, ``, `{"properties":{"Chosen":{"enum":["b","a"],"type":"string"},"b":{"type":"string"}},"required":["Chosen"],"type":"object"}`},
		{"TD-17 the enum of a protocol buffer", protobufEnum(0), ``, `{"format":"int32","type":"integer"}`},
		{"TD-17 Rules of embedded structs", struct {
			ruled
			OtherRuled
		}{}, ``, `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"],"type":"object","x-kubernetes-validations":[{"message":"no","rule":"self.a != ''"},{"rule":"self.b != ''"}]}`},
		{"TD-17 Rules of an embedded struct with a name", struct {
			ruled `json:"inner"`
		}{}, ``, `{"properties":{"inner":{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object","x-kubernetes-validations":[{"message":"no","rule":"self.a != ''"}]}},"required":["inner"],"type":"object"}`},
		{"TD-17 Rules of an embedded struct and more", outerRuled{}, ``, `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object","x-kubernetes-validations":[{"rule":"true"},{"message":"no","rule":"self.a != ''"}]}`},
		{"TD-8 an embedded metav1.Time", struct{ likeTime }{}, ``, `{"format":"date-time","type":"string"}`},
		{"TD-17 Rules", ruled{}, ``, `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object","x-kubernetes-validations":[{"message":"no","rule":"self.a != ''"}]}`},
		{"TD-18 listKey", []item{}, `listKey:"name,host"`, `{"items":{"properties":{"host":{"default":"x","type":"string"},"name":{"type":"string"},"port":{"type":"integer"},"tags":{"items":{"type":"integer"},"type":"array"}},"required":["name","tags"],"type":"object"},"type":"array","x-kubernetes-list-map-keys":["name","host"],"x-kubernetes-list-type":"map"}`},
		{"TD-20 Schema", described{}, `maxLength:"5"`, `{"format":"x","maxLength":5,"type":"string"}`},
		{"TD-8 metav1.Time", likeTime{}, ``, `{"format":"date-time","type":"string"}`},
		{"TD-8 resource.Quantity", map[string]likeQuantity{}, ``, `{"additionalProperties":{"anyOf":[{"type":"integer"},{"type":"string"}],"pattern":` + quoted(QuantityPattern) + `,"x-kubernetes-int-or-string":true},"type":"object"}`},
		{"TD-8 intstr.IntOrString", (*likeIntOrString)(nil), ``, `{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}`},
		{"TD-8 apiextensions JSON", likeJSON{}, ``, `{"x-kubernetes-preserve-unknown-fields":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tag := tt.tag
			if !strings.Contains(tag, "json:") {
				tag = `json:"f,omitempty" protobuf:"bytes,1" ` + tag
			}
			got, k, err := schemaOf(reflect.TypeOf(tt.value), tag)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if faults := schema.Check(k.Schema, "schema", k.HasStatus); len(faults) > 0 {
				t.Errorf("TD-9 the schema is not structural: %s", faults[0].Message())
			}
		})
	}
}

func quoted(text string) string {
	data, _ := rawjson.Encode(text)
	return string(data)
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		tag   string
		want  string // part of the error
	}{
		{"TD-11 float64", 0.5, ``, `spec.f: the type float64 is not exact: want an integer, kopf.Quantity, or the tag type:"number"`},
		{"TD-11 interface", []any{}, ``, `spec.f[]: the type interface {} has no schema: want kopf.AnyJSON`},
		{"TD-11 channel", make(chan int), ``, `spec.f: the type chan int cannot be in JSON`},
		{"TD-11 function", map[string]func(){}, ``, `spec.f[*]: the type func() cannot be in JSON`},
		{"TD-11 keys", map[int]string{}, ``, `spec.f: the type map[int]string has keys of the type int: want strings`},
		{"TD-11 itself", tree{}, ``, `spec.f.children[]: the type structschema.tree contains itself`},
		{"TD-11 complex", 1i, ``, `spec.f: the type complex128 cannot be in JSON`},
		{"TD-10 time.Duration", time.Second, ``, `spec.f: the type time.Duration is a number of nanoseconds in JSON: want kopf.Duration`},
		{"own JSON", struct{ json.Marshaler }{}, ``, `makes its own JSON: want a method Schema() kopf.Schema on it`},
		{"raw JSON", json.RawMessage{}, ``, `spec.f: the type json.RawMessage has no schema: want kopf.AnyJSON`},
		{"a number as a text", json.Number(""), ``, `makes its own JSON`},
		{"an embedded pointer", struct{ *base }{}, ``, `spec.f.base: an embedded pointer is not supported`},
		{"an embedded struct with a tag", struct {
			base `doc:"x"`
		}{}, ``, `spec.f.base: the tag "doc" does not fit: the struct is embedded`},
		{"two of a name", reflect.Zero(reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[string](), Tag: `json:"x"`}, {Name: "B", Type: reflect.TypeFor[string](), Tag: `json:"x"`}, // rejected by vet in a struct type
		})).Interface(), ``, `spec.f.x: two fields have this name`},
		{"TD-12 required and omitted", "", `required:"true"`, `spec.f: the tag required:"true" contradicts omitempty`},
		{"TD-14 maxLength of a number", 1, `maxLength:"1"`, `spec.f: the tag "maxLength" does not fit: want it on string, got integer`},
		{"TD-14 minimum of a text", "", `minimum:"1"`, `want it on integer or number, got string`},
		{"TD-14 no number", "", `maxLength:"x"`, `spec.f: invalid tag maxLength:"x": want a whole number`},
		{"TD-14 a fraction", 1, `minimum:"0.5"`, `want a whole number, got "0.5"`},
		{"TD-14 two bounds", 1, `minimum:"1" exclusiveMinimum:"0"`, `want one bound only`},
		{"TD-14 multiple of nothing", 1, `multipleOf:"0"`, `want a number above zero`},
		{"TD-14 nothing between", "", `minLength:"3" maxLength:"2"`, `the tag minLength:"3" is above maxLength:"2"`},
		{"TD-14 bad pattern", "", `pattern:"("`, `missing closing )`},
		{"TD-14 twice in an enum", "", `enum:"a,a"`, `"a" is there twice`},
		{"TD-14 bad list type", []int{}, `listType:"map"`, `want set or atomic`},
		{"TD-14 bad nullable", "", `nullable:"yes"`, `want true or false`},
		{"TD-14 bad required", "", `required:"no"`, `want true or false`},
		{"TD-14 another type", 1, `type:"string"`, `want integer, the type of the field in Go`},
		{"TD-14 a tag in other letters", "", `maxlength:"1"`, `invalid tag "maxlength": want "maxLength"`},
		{"TD-14 the word of a marker of controller-gen", "", `printcolumn:"Size"`, `invalid tag "printcolumn": want "column"`},
		{"TD-14 letters in the wrong place", "", `minLenght:"1"`, `invalid tag "minLenght": want "minLength"`},
		{"TD-14 twice", "", `doc:"a" doc:"b"`, `the tag "doc" is there twice`},
		{"TD-14 no tag", "", `doc: "x"`, `want name:"value", separated by spaces`},
		{"TD-14 a message alone", "", `message:"x"`, `the tag "message" needs the tag "rule"`},
		{"TD-14 an empty rule", "", `rule:" "`, `a rule is empty`},
		{"TD-14 a field that is not there", "", `json:"-" maxLength:"1"`, `the field is not in JSON, but has the tag "maxLength"`},
		{"TD-14 a field that is not exported", struct {
			size int `minimum:"1"`
		}{}, ``, `spec.f.size: the field is not exported, so it is not in JSON, but it has the tag "minimum"`},
		{"TD-14 a field that is not exported, with a name", reflect.Zero(reflect.StructOf([]reflect.StructField{
			{Name: "size", PkgPath: "x", Type: reflect.TypeFor[int](), Tag: `json:"size"`}, // vet would reject it in a struct type
		})).Interface(), ``, `spec.f.size: the field is not exported, so it is not in JSON, but it has the tag "json"`},
		{"TD-14 json twice", "", `json:"f" json:"g"`, `spec.F: the tag "json" is there twice`},
		{"TD-14 a name that encoding/json ignores", "", `json:"it's"`, `spec.F: invalid name "it's" in the tag json`},
		{"TD-14 a picture as a name", "", `json:"🚀"`, `spec.F: invalid name "🚀" in the tag json`},
		{"TD-14 an option that is none", "", `json:"f,omitemtpy"`, `spec.F: invalid tag json:"f,omitemtpy": encoding/json has no option "omitemtpy": want omitempty or omitzero`},
		{"TD-14 inline without embedding", inner{}, `json:",inline"`, `the option "inline" of the tag json does not fit: want it on an embedded struct`},
		{"TD-14 an unknown format", "", `format:"hostnam"`, `spec.f: invalid tag format:"hostnam": want a format that API servers know`},
		{"TD-14 a format of another type", 1, `format:"hostname"`, `want a format that API servers know`},
		{"TD-10 a number that Go cannot hold", int32(0), `maximum:"3000000000"`, `spec.f: the number 3000000000 in the tags is beyond the type int32: want -2147483648 to 2147483647`},
		{"TD-10 a negative number of an unsigned type", uint32(0), `minimum:"-3"`, `the number -3 in the tags is beyond the type uint32: want 0 to 4294967295`},
		{"TD-10 an enum that Go cannot hold", int8(0), `enum:"1,200"`, `the number 200 in the tags is beyond the type int8`},
		{"TD-10 a map of texts by the method of the pointer", map[string]pointerText{}, ``, `spec.f[*]: the method MarshalText of the type structschema.pointerText is on its pointer`},
		{"TD-10 an array of them in a map", map[string][1]pointerText{}, ``, `spec.f[*][]: the method MarshalText of the type structschema.pointerText is on its pointer`},
		{"TD-10 a map of JSON by the method of the pointer", map[string]pointerJSON{}, ``, `spec.f[*]: the method MarshalJSON of the type structschema.pointerJSON is on its pointer`},
		{"TD-10 keys by the method of the pointer", map[pointerKey]string{}, ``, `spec.f: the type map[structschema.pointerKey]string has keys of the type structschema.pointerKey: want strings`},
		{"TD-15 a misspelled constraint", []string{}, `each:"pattern=^a$,maxLen=3"`, `"maxLen" is no constraint: want "maxLength"`},
		{"the option string", 1, `json:"f,string"`, `want a string type`},
		{"TD-15 no constraints", []string{}, `each:"doc=x"`, `want constraints as in`},
		{"TD-15 no items", "", `each:"maxLength=1"`, `want it on a list or a map`},
		{"TD-15 misfit", []int{}, `each:"maxLength=1"`, `spec.f[]: the tag "maxLength" does not fit`},
		{"TD-16 wrong type", 1, `default:"x"`, `invalid tag default:"x": want a number`},
		{"TD-16 no JSON", []string{}, `default:"x"`, `invalid tag default:"x": want JSON`},
		{"TD-16 no boolean", false, `default:"yes"`, `invalid tag default:"yes": want true or false`},
		{"TD-16 not in Go", netip.Addr{}, `default:"localhost"`, `invalid tag default:"localhost": ParseAddr`},
		{"TD-16 a default that Go overwrites", 1, `json:"f" default:"1"`, `spec.f: the tag "default" needs the option omitempty in the tag json`},
		{"TD-16 a default of a struct that Go overwrites", inner{}, `json:"f" default:"{}"`, `spec.f: the tag "default" needs the option omitzero in the tag json`},
		{"DF-70 omitempty of a struct", inner{}, `json:"f,omitempty" default:"{}"`, `spec.f: the tag "default" needs the option omitzero in the tag json`},
		{"DF-70 omitempty of a time", time.Time{}, `json:"f,omitempty" default:"2020-01-01T00:00:00Z"`, `needs the option omitzero`},
		{"DF-70 omitempty of an array", [2]int{}, `json:"f,omitempty" default:"[1,2]"`, `needs the option omitzero`},
		{"DF-70 no option of an array", [2]int{}, `json:"f" default:"[1,2]"`, `needs the option omitzero`},
		{"DF-70 not required, with omitempty of a struct", inner{}, `json:"f,omitempty" required:"false" default:"{}"`, `needs the option omitzero`},
		{"DF-65 null in an enum", new(string), `nullable:"true" enum:"a,b"`, `spec.f: null cannot be allowed together with an enum`},
		{"DF-65 null in the enum of a type", new(chosen), `nullable:"true"`, `null cannot be allowed together with an enum`},
		{"DF-65 null in the enum of items", []*string{}, `each:"nullable=true,enum=a,b"`, `spec.f[]: null cannot be allowed together with an enum`},
		{"DF-71 a type that only writes JSON", onlyJSON{}, ``, `spec.f: the type structschema.onlyJSON has the method MarshalJSON, but not UnmarshalJSON, so its JSON cannot be read`},
		{"DF-71 a type that only writes text", onlyText{}, ``, `has the method MarshalText, but not UnmarshalText`},
		{"DF-71 a type that only reads text", onlyReads(0), ``, `has the method UnmarshalText, but not MarshalText`},
		{"DF-71 such a type in a map", map[string]*onlyText{}, ``, `spec.f[*]: the type structschema.onlyText has the method MarshalText`},
		{"DF-71 pointers as keys", map[*netip.Addr]string{}, ``, `has keys of the type *netip.Addr: want strings`},
		{"DF-71 keys that only write text", map[onlyText]string{}, ``, `has keys of the type structschema.onlyText: want strings`},
		{"DF-71 an enum that the type refuses", netip.Addr{}, `enum:"10.0.0.1,localhost"`, `the type netip.Addr cannot hold the value localhost of the enum`},
		{"TD-16 no value", 1, `default:"null"`, `want a value`},
		{"TD-16 invalid", 1, `minimum:"2" default:"1"`, `spec.f: invalid tag default:"1": value: Invalid value: 1: value in body should be greater than or equal to 2`},
		{"TD-16 unknown field", inner{}, `default:"{\"z\":1}"`, `want no field "value.z"`},
		{"TD-16 not in the enum", chosen(""), `default:"z"`, `Unsupported value: "z"`},
		{"TD-17 Enum twice", []chosen{}, `each:"enum="`, `want values, separated by commas`},
		{"TD-17 Enum of nothing", "", `enum:""`, `spec.f: invalid tag enum:"": want values, separated by commas`},
		{"TD-17 Enum of numbers", numbered(""), ``, `spec.f: the method Enum does not fit: want Enum() []string`},
		{"TD-20 an embedded type that describes itself", struct {
			described
			B string `json:"b"`
		}{}, ``, `spec.f: the embedded type structschema.described describes itself, but only its fields are in the JSON: want a name in the tag json`},
		{"TD-17 a panic", panicking{}, ``, `spec.f: a method of the type structschema.panicking that describes it has panicked: never`},
		{"TD-18 no such key", []item{}, `listKey:"id"`, `the items have no field "id"`},
		{"TD-18 optional key", []item{}, `listKey:"port"`, `the field "port" of the items can be left out`},
		{"TD-18 key of a list", []item{}, `listKey:"tags"`, `the field "tags" of the items is array: want a scalar`},
		{"TD-18 both", []item{}, `listKey:"name" listType:"set"`, `the tag "listKey" contradicts "listType"`},
		{"TD-18 items without fields", []string{}, `listKey:"name"`, `the tag "listKey" does not fit: the items are no structs`},
		{"TD-18 a set of structs", []item{}, `listType:"set"`, `invalid tag listType:"set": the items are structs or maps, which are no set: want the tag listKey`},
		{"TD-18 a set with null", []*string{}, `listType:"set" each:"nullable=true"`, `invalid tag listType:"set": the items can be null`},
		{"TD-18 a key that is null", []struct {
			Name *string `json:"name" nullable:"true"`
		}{}, `listKey:"name"`, `the field "name" of the items can be null`},
		{"TD-19 in a list without keys", []string{}, `each:"rule=self == oldSelf,maxLength=3"`, `names oldSelf in a list whose items have no keys`},
		{"TD-26 a column of a list", []string{}, `column:"F"`, `want it on a string, a number, a boolean or a time`},
		{"TD-26 no name", "", `column:""`, `want the name of the column`},
		{"TD-26 bad priority", "", `column:"F" priority:"high"`, `want a whole number that is not negative`},
		{"TD-26 a priority beyond 32 bits", "", `column:"F" priority:"3000000000"`, `want a whole number that is not negative, of at most 32 bits`},
		{"TD-26 selectable with a dot in its name", "", `json:"a.b,omitempty" selectable:"true"`, `spec.a.b: the tags "column" and "selectable" do not fit: no path can name "spec.a.b"`},
		{"TD-26 a column with a bracket in its name", "", `json:"a[b,omitempty" column:"A"`, `no path can name "spec.a[b"`},
		{"TD-26 priority alone", "", `priority:"1"`, `the tag "priority" needs the tag "column"`},
		{"TD-26 selectable list", []string{}, `selectable:"true"`, `want it on a string, an integer or a boolean`},
		{"TD-27 a column in a list", []struct {
			A string `json:"a" column:"A"`
		}{}, ``, `spec.f[].a: the tags "column" and "selectable" do not fit in a list or a map`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tag := tt.tag
			if !strings.Contains(tag, "json:") {
				tag = `json:"f,omitempty" ` + tag
			}
			if _, _, err := schemaOf(reflect.TypeOf(tt.value), tag); tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// onlyJSON, onlyText and onlyReads are encoded in one direction.
type onlyJSON struct{}

func (onlyJSON) MarshalJSON() ([]byte, error) { return []byte(`"x"`), nil }

func (onlyJSON) describe() Description {
	return Description{Schema: map[string]any{"type": "string"}}
}

type onlyText struct{}

func (onlyText) MarshalText() ([]byte, error) { return []byte("x"), nil }

type onlyReads int

func (*onlyReads) UnmarshalText([]byte) error { return nil }

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind any
		want string
	}{
		{"no struct", 1, "int is no struct: want a struct with structschema.Meta embedded"},
		{"no metadata", struct{}{}, "has no structschema.Meta"},
		{"named metadata", struct{ M Meta }{}, `M, in JSON "M", is structschema.Meta`},
		{"another field", struct {
			Meta
			Data string `json:"data"`
		}{}, `Data, in JSON "data", is string`},
		{"a spec that is no struct", struct {
			Meta
			Spec map[string]string `json:"spec"`
		}{}, `Spec, in JSON "spec", is map[string]string`},
		{"a spec without its name", struct {
			Meta
			Spec base
		}{}, `Spec, in JSON "Spec", is structschema.base`},
		{"a spec that is a time", struct {
			Meta
			Spec time.Time `json:"spec"`
		}{}, "spec: the type time.Time is string in JSON: want an object"},
	} {
		t.Run("TD-1 "+tt.name, func(t *testing.T) {
			if _, err := Of(reflect.TypeOf(tt.kind), options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
	t.Run("TD-1 a pointer", func(t *testing.T) {
		if _, err := Of(reflect.TypeFor[*struct{ Meta }](), options); err == nil || !strings.Contains(err.Error(), "is a pointer: want the struct struct {") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("TD-1 metadata alone", func(t *testing.T) {
		k, err := Of(reflect.TypeFor[struct{ Meta }](), options)
		if err != nil || k.HasStatus || k.Schema["required"] != nil {
			t.Errorf("got %+v, %v", k, err)
		}
	})
}

func TestRequired(t *testing.T) {
	type spec struct {
		Plain    string `json:"plain"`
		Empty    string `json:"empty,omitempty"`
		Zero     inner  `json:"zero,omitzero"`
		Default  string `json:"default,omitempty" default:"x"`
		Optional string `json:"optional" required:"false"`
		Both     string `json:"both" default:"x" required:"true"`
		Lifted   inner  `json:"lifted"`
		Kept     inner  `json:"kept" required:"true"`
		Pointer  *inner `json:"pointer"`
	}
	got, _, err := schemaOf(reflect.TypeFor[spec](), `json:"f"`)
	if want := `"required":["both","kept","plain","pointer"],"type":"object"}`; err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("TD-12: got %s, %v, want %s at the end", got, err, want)
	}
}

// In a status, only fields with the tag and list keys are required, because several clients write it, and older versions have omitted fields.
func TestRequiredInStatus(t *testing.T) {
	type room struct {
		Name  string `json:"name"`
		Lamps int    `json:"lamps"`
		Inner base   `json:"inner"`
	}
	type status struct {
		N     int             `json:"n"`
		Must  int             `json:"must" required:"true"`
		Inner base            `json:"inner"`
		Rooms []room          `json:"rooms" listKey:"name"`
		Map   map[string]base `json:"map"`
	}
	k, err := Of(reflect.TypeFor[struct {
		Meta
		Spec   base   `json:"spec"`
		Status status `json:"status"`
	}](), options)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]any)
	var walk func(path string, s map[string]any)
	walk = func(path string, s map[string]any) {
		if s["required"] != nil {
			got[path] = s["required"]
		}
		for name, p := range rawjson.AsMap(s["properties"]) {
			walk(path+"."+name, rawjson.AsMap(p))
		}
		for _, key := range []string{"items", "additionalProperties"} {
			if inner := rawjson.AsMap(s[key]); inner != nil {
				walk(path+"[]", inner)
			}
		}
	}
	walk("", k.Schema)
	want := map[string]any{"": []any{"spec"}, ".spec": []any{"a", "b"}, ".status": []any{"must"}, ".status.rooms[]": []any{"name"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("TD-12: required fields (-want +got)\n%s", diff)
	}
	if _, err := Of(reflect.TypeFor[struct {
		Meta
		Status status `json:"status" required:"true"`
	}](), options); err == nil || !strings.Contains(err.Error(), `status: the tag required:"true" does not fit`) {
		t.Errorf("TD-12: got %v", err)
	}
}

// A misspelled tag name is an error. The tags of other packages are ignored.
func TestMisspelledTags(t *testing.T) {
	for _, name := range strings.Fields("minimun maximun minmum patern colum columns defalt defaults enums require listKeys selectible rules nulable maxLen docs min-length description min max immutable jsn josn MinLength example_ Doc") {
		if _, _, err := schemaOf(reflect.TypeFor[string](), `json:"f" `+name+`:"1"`); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("spec.F: invalid tag %q: want ", name)) {
			t.Errorf("TD-14: the tag %s: got %v, want a refusal", name, err)
		}
	}
	for _, name := range strings.Fields("yaml xml bson db validate form mapstructure protobuf protobuf_key protobuf_val protobuf_oneof patchStrategy patchMergeKey env gorm toml query header uri binding role text") {
		if _, _, err := schemaOf(reflect.TypeFor[string](), `json:"f" `+name+`:"1"`); err != nil {
			t.Errorf("TD-14: the tag %s: got %v", name, err)
		}
	}
}

// FuzzDurationPattern checks that the pattern accepts what time.ParseDuration accepts, except out-of-range durations.
func FuzzDurationPattern(f *testing.F) {
	pattern := regexp.MustCompile(DurationPattern)
	for _, seed := range []string{"5m0s", "-1.5h", ".5s", "1.s", "0", "+0", "", "-", ".", "1", "tomorrow", "1h 2m", "3µs", "3μs", "01h", "1e3s", "0h", "00", "9999999999999h", "2700000h", "1m1m"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := time.ParseDuration(text)
		if matches := pattern.MatchString(text); matches == (err == nil) {
			return
		} else if matches && len(text) >= len("2562048h") {
			return // it may be out of range
		}
		t.Errorf("TD-20: of %q, time.ParseDuration says %v, and the pattern the opposite", text, err)
	})
}

func TestImmutable(t *testing.T) {
	type deep struct {
		Class string `json:"class,omitempty" maxLength:"9" rule:"self == oldSelf" message:"fixed"`
		Zone  string `json:"zone" maxLength:"9" rule:" oldSelf==self "`
	}
	type spec struct {
		Deep  *deep           `json:"deep,omitempty"`
		Fixed deep            `json:"fixed" rule:"self == oldSelf"`
		In    string          `json:"in,omitempty" maxLength:"9" rule:"self == oldSelf"`
		Map   map[string]deep `json:"map,omitempty" maxProperties:"3"`
	}
	_, k, err := schemaOf(reflect.TypeFor[spec](), `json:"a-b,omitempty"`)
	if err != nil {
		t.Fatal(err)
	}
	rules := func(path ...string) (all []string) {
		v, _ := rawjson.Lookup(any(k.Schema), path...)
		list, _ := v.([]any)
		for _, r := range list {
			all = append(all, rawjson.AsMap(r)["rule"].(string))
		}
		return all
	}
	const validations = "x-kubernetes-validations"
	for _, tt := range []struct {
		path []string
		want []string
	}{
		{[]string{"properties", "spec", "properties", "a-b", "properties", "deep", validations}, []string{"!has(oldSelf.class) || has(self.class)"}},
		{[]string{"properties", "spec", "properties", "a-b", validations}, []string{
			"!has(oldSelf.deep) || !has(oldSelf.deep.class) || has(self.deep)", "!has(oldSelf.deep) || has(self.deep)", "!has(oldSelf.__in__) || has(self.__in__)",
		}},
		{[]string{"properties", "spec", validations}, []string{
			"!has(oldSelf.a__dash__b) || !has(oldSelf.a__dash__b.deep) || !has(oldSelf.a__dash__b.deep.class) || has(self.a__dash__b)",
			"!has(oldSelf.a__dash__b) || !has(oldSelf.a__dash__b.deep) || has(self.a__dash__b)",
			"!has(oldSelf.a__dash__b) || has(self.a__dash__b)",
			"!has(oldSelf.a__dash__b) || !has(oldSelf.a__dash__b.__in__) || has(self.a__dash__b)",
		}},
		{[]string{validations}, nil},
	} {
		if diff := cmp.Diff(tt.want, rules(tt.path...)); diff != "" {
			t.Errorf("TD-19: the rules at %v (-want +got)\n%s", tt.path, diff)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		tag   string
		want  string
	}{
		{"a text", "", `rule:"self != ''"`, "spec.f has a rule, but no maxLength: "},
		{"a list", []string{}, `rule:"true"`, "spec.f has a rule, but no maxItems: "},
		{"a map", map[string]string{}, `rule:"true"`, "spec.f has a rule, but no maxProperties: "},
		{"in a list", []ruled{}, ``, "spec.f[] has a rule, but spec.f has no maximum: "},
		{"in a list with a maximum", []ruled{}, `maxItems:"3"`, ""},
		{"a text with a maximum", "", `rule:"true" maxLength:"3"`, ""},
		{"an enum", chosen(""), `rule:"true"`, ""},
		{"a struct", ruled{}, ``, ""},
	} {
		t.Run("TD-T2 "+tt.name, func(t *testing.T) {
			_, k, err := schemaOf(reflect.TypeOf(tt.value), `json:"f,omitempty" `+tt.tag)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(k.Warnings, "\n"); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestColumns(t *testing.T) {
	type deeper struct {
		At time.Time `json:"a.t" column:"At" doc:"when"`
	}
	type spec struct {
		Size  int32   `json:"size" column:"Size" priority:"1" selectable:"true"`
		Ready bool    `json:"ready" column:"Ready"`
		Deep  *deeper `json:"deep"`
	}
	_, k, err := schemaOf(reflect.TypeFor[spec](), `json:"f"`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Column{
		{Name: "Size", Type: "integer", Format: "int32", Path: ".spec.f.size", Priority: 1}, {Name: "Ready", Type: "boolean", Path: ".spec.f.ready"},
		{Name: "At", Type: "date", Path: `.spec.f.deep.a\.t`, Description: "when"},
	}
	if diff := cmp.Diff(want, k.Columns); diff != "" {
		t.Errorf("TD-26: columns (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{".spec.f.size"}, k.Selectable); diff != "" {
		t.Errorf("TD-26: selectable fields (-want +got)\n%s", diff)
	}
}

func TestDecode(t *testing.T) {
	type spec struct {
		Size  int32           `json:"size"`
		Times []time.Time     `json:"times"`
		Names map[string]base `json:"names"`
		Addr  netip.Addr      `json:"addr"`
		Any   any             `json:"any"`
	}
	type object struct {
		Spec spec `json:"spec"`
	}
	for _, tt := range []struct{ raw, want string }{
		{`{"spec":{"size":"x"}}`, `spec.size: want int32, got "x"`},
		{`{"spec":{"size":12345678901}}`, `spec.size: want int32, got 12345678901`},
		{`{"spec":{"times":["2026-01-01T00:00:00Z","x"]}}`, `spec.times[1]: parsing time`},
		{`{"spec":{"names":{"n":{"a":[]}}}}`, `spec.names.n.a: want string, got []`},
		{`{"spec":{"addr":"x"}}`, `spec.addr: ParseAddr("x")`},
		{`{"spec":[]}`, `spec: want structschema.spec, got []`},
		{`[]`, `want structschema.object, got []`},
		{`{`, `unexpected end of JSON input`},
	} {
		var o object
		if err := Decode([]byte(tt.raw), &o, false); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("TD-2: of %s, got %v, want %q", tt.raw, err, tt.want)
		}
	}
	var o object
	if err := Decode([]byte(`{"spec":{"size":1,"any":9007199254740993}}`), &o, false); err != nil || o.Spec.Any != json.Number("9007199254740993") {
		t.Errorf("TD-6: got %v, %v", o.Spec.Any, err)
	}
}

// FuzzTags checks that no tag causes a panic, and that each accepted schema is structural.
func FuzzTags(f *testing.F) {
	for _, tag := range []string{
		`json:"f,omitempty" minimum:"1" exclusiveMaximum:"5"`, `json:"f" each:"maxLength=63,pattern=^[a-z]+$" listType:"set"`, `default:"{\"x\":2}" example:"1"`, `rule:"self == oldSelf" message:"no"`,
		`listKey:"name,host" maxItems:"3"`, `column:"F" priority:"1" selectable:"true"`, `nullable:"true" required:"true" type:"number"`, `format:"date-time" enum:"a,b"`, `mapType:"atomic" minProperties:"1"`,
	} {
		for i := range fuzzed {
			f.Add(tag, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, tag string, which uint8) {
		typ := fuzzed[int(which)%len(fuzzed)]
		k, err := Of(kindWith(typ, tag), options)
		if err != nil {
			return
		}
		if _, err := schema.Compile(k.Schema); err != nil {
			t.Errorf("the schema of %s with %s does not compile: %v", typ, tag, err)
		}
	})
}

var fuzzed = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[float64](), reflect.TypeFor[time.Time](), reflect.TypeFor[[]string](), reflect.TypeFor[[]item](),
	reflect.TypeFor[map[string]int](), reflect.TypeFor[inner](), reflect.TypeFor[*inner](), reflect.TypeFor[chosen](), reflect.TypeFor[ruled](), reflect.TypeFor[described](), reflect.TypeFor[likeQuantity](), reflect.TypeFor[[][]string](),
}

// FuzzDecode checks that a value that does not fit causes an error with a path, and no panic.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"children":[{"children":1}]}`, `{"a":{"b":[1,"x"]}}`, `{"name":1,"port":"x","tags":[1,2.5]}`, `{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, target := range []any{&tree{}, &item{}, &map[string]map[string][]int{}, &struct{ A *base }{}} {
			_ = Decode([]byte(raw), target, false)
		}
	})
}

// The error of a field without a tag, whose name matches in any case, has its path.
func TestDecodeUntagged(t *testing.T) {
	var v struct {
		Spec struct{ Size int } `json:"spec"`
	}
	err := Decode([]byte(`{"spec":{"size":"abc"}}`), &v, false)
	if want := `spec.Size: want int, got "abc"`; err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
}
