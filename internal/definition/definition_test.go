package definition

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/structschema"
)

type Widget struct {
	Meta
	Spec   widgetSpec   `json:"spec"`
	Status widgetStatus `json:"status,omitzero"`
}

type widgetSpec struct {
	Size  int32             `json:"size" column:"Size" selectable:"true"`
	Parts []part            `json:"parts,omitempty" listKey:"name"`
	More  map[string]part   `json:"more,omitempty"`
	Any   anything          `json:"any,omitempty"`
	Texts map[string]string `json:"texts,omitempty"`
}

type widgetStatus struct {
	Size     int32  `json:"size,omitempty"`
	Selector string `json:"selector,omitempty"`
	Phase    string `json:"phase,omitempty" column:"Phase" doc:"how it is"`
}

type part struct {
	Name string `json:"name"`
}

type anything []byte

func (anything) OpenAPI() map[string]any {
	return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
}

func describe(pointer any) (d structschema.Description) {
	if s, ok := pointer.(*anything); ok {
		d.Schema = s.OpenAPI()
	}
	return d
}

func widget(o Options) (*Definition, error) {
	return Of(reflect.TypeFor[Widget](), reflect.TypeFor[Meta](), describe, o)
}

func TestOf(t *testing.T) {
	d, err := widget(Options{Group: "example.com", Version: "v1", ShortNames: []string{"wi"}, Categories: []string{"all"}, Cluster: true, Description: "A widget.",
		Scale: &Scale{Replicas: "spec.size", StatusReplicas: "status.size", Selector: "status.selector"}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"metadata":   `{"name":"widgets.example.com"}`,
		"spec.names": `{"categories":["all"],"kind":"Widget","listKind":"WidgetList","plural":"widgets","shortNames":["wi"],"singular":"widget"}`,
		"spec.scope": `"Cluster"`,
	} {
		if got, _ := rawjson.Find(d.JSON, strings.Split(path, ".")...); string(got) != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	for _, want := range []string{
		`"subresources":{"scale":{"labelSelectorPath":".status.selector","specReplicasPath":".spec.size","statusReplicasPath":".status.size"},"status":{}}`,
		`"additionalPrinterColumns":[{"format":"int32","jsonPath":".spec.size","name":"Size","type":"integer"},{"description":"how it is","jsonPath":".status.phase","name":"Phase","type":"string"},{"jsonPath":".metadata.creationTimestamp","name":"Age","type":"date"}]`,
		`"selectableFields":[{"jsonPath":".spec.size"}]`,
		`{"openAPIV3Schema":{"description":"A widget.",`,
	} {
		if !strings.Contains(string(d.JSON), want) {
			t.Errorf("got %s, want %s in it", d.JSON, want)
		}
	}
	if err := apiserver.New(apiserver.Options{RefuseUnsupported: true}).Apply(d.JSON); err != nil {
		t.Errorf("the embedded server: %v", err)
	}
	for range 10 { // the iteration order of maps is random
		again, err := widget(Options{Group: "example.com", Version: "v1", ShortNames: []string{"wi"}, Categories: []string{"all"}, Cluster: true, Description: "A widget.",
			Scale: &Scale{Replicas: "spec.size", StatusReplicas: "status.size", Selector: "status.selector"}})
		if err != nil || string(again.JSON) != string(d.JSON) {
			t.Fatalf("got another definition of the same type: %s, %v", again.JSON, err)
		}
	}
}

func TestRefused(t *testing.T) {
	right := func(change func(*Options)) Options {
		o := Options{Group: "example.com", Version: "v1", Scale: &Scale{Replicas: "spec.size", StatusReplicas: "status.size"}}
		change(&o)
		return o
	}
	for _, tt := range []struct {
		want   string
		change func(*Options)
	}{
		{`invalid Group ""`, func(o *Options) { o.Group = "" }},
		{`invalid Group "example"`, func(o *Options) { o.Group = "example" }},
		{`this one is protected`, func(o *Options) { o.Group = "web.k8s.io" }},
		{`invalid Version "1"`, func(o *Options) { o.Version = "1" }},
		{`invalid Kind "my kind"`, func(o *Options) { o.Kind = "my kind" }},
		{`invalid ListKind "Widget"`, func(o *Options) { o.ListKind = "Widget" }},
		{`invalid Plural "Widgets"`, func(o *Options) { o.Plural = "Widgets" }},
		{`invalid Singular "a b"`, func(o *Options) { o.Singular = "a b" }},
		{`invalid name "A" in ShortNames`, func(o *Options) { o.ShortNames = []string{"A"} }},
		{`the name "a" is twice in Categories`, func(o *Options) { o.Categories = []string{"a", "a"} }},
		{`invalid path "" in the field Replicas of the Scale`, func(o *Options) { o.Scale.Replicas = "" }},
		{`invalid path "spec.none" in the field Replicas`, func(o *Options) { o.Scale.Replicas = "spec.none" }},
		{`invalid path "status.size" in the field Replicas of the Scale: want that of a field below spec`, func(o *Options) { o.Scale.Replicas = "status.size" }},
		{`invalid path "status.phase" in the field StatusReplicas of the Scale: want the field to be of the type integer, got string`, func(o *Options) { o.Scale.StatusReplicas = "status.phase" }},
		{`invalid path "metadata.name" in the field Selector`, func(o *Options) { o.Scale.Selector = "metadata.name" }},
	} {
		if _, err := widget(right(tt.change)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q in it", err, tt.want)
		}
	}
	type columns struct {
		A string `json:"a" column:"A"`
		B string `json:"b" column:"A"`
	}
	if _, err := Of(reflect.TypeFor[struct {
		Meta
		Spec columns `json:"spec"`
	}](), reflect.TypeFor[Meta](), describe, Options{Group: "example.com", Version: "v1", Kind: "X"}); err == nil || !strings.Contains(err.Error(), `two columns are named "A": those of the fields spec.a and spec.b`) {
		t.Errorf("got %v", err)
	}
	fields := make([]reflect.StructField, 9)
	for i := range fields {
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: reflect.TypeFor[string](), Tag: `selectable:"true"`}
	}
	many := reflect.StructOf([]reflect.StructField{{Name: "Spec", Type: reflect.StructOf(fields), Tag: `json:"spec"`}, {Name: "Meta", Type: reflect.TypeFor[Meta](), Anonymous: true}})
	if _, err := Of(many, reflect.TypeFor[Meta](), describe, Options{Group: "example.com", Version: "v1", Kind: "X"}); err == nil || !strings.Contains(err.Error(), `9 fields have the tag "selectable"`) {
		t.Errorf("got %v", err)
	}
}

// Meta is a metadata type that reflect.StructOf can embed.
type Meta struct{}

func TestTooLarge(t *testing.T) {
	field := reflect.StructField{Name: "F", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`doc:"` + strings.Repeat("x", tooLarge) + `"`)}
	large := reflect.StructOf([]reflect.StructField{{Name: "Spec", Type: reflect.StructOf([]reflect.StructField{field}), Tag: `json:"spec"`}, {Name: "Meta", Type: reflect.TypeFor[Meta](), Anonymous: true}})
	d, err := Of(large, reflect.TypeFor[Meta](), describe, Options{Group: "example.com", Version: "v1", Kind: "X"})
	if err != nil || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "kubectl apply may refuse it without --server-side") {
		t.Errorf("TD-21: got %+v, %v", d, err)
	}
}

func TestPlural(t *testing.T) {
	for _, words := range []string{
		"website websites", "policy policies", "gateway gateways", "class classes", "box boxes", "branch branches", "dish dishes", "database databases", "key keys", "proxy proxies", "ingress ingresses", "y ys",
	} {
		one, many, _ := strings.Cut(words, " ")
		if got := Plural(one); got != many {
			t.Errorf("TD-24: got %s of %s, want %s", got, one, many)
		}
	}
}

func TestDifference(t *testing.T) {
	d, err := widget(Options{Group: "example.com", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	served := func(version, schema string) string {
		return fmt.Sprintf(`{"spec":{"versions":[{"name":"v0","served":false},{"name":%q,"served":true,"schema":{"openAPIV3Schema":%s}}]}}`, version, schema)
	}
	const preserving = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	for _, tt := range []struct{ name, served, want string }{
		{"the same", string(d.JSON), ""},
		{"a schema that keeps all", served("v1", preserving), ""},
		{"another version", served("v2", preserving), "it serves the versions v2, but not v1"},
		{"nothing", `{}`, "it serves the versions (none), but not v1"},
		{"no status", served("v1", `{"type":"object","properties":{"spec":`+preserving+`}}`), "its schema drops the fields status"},
		{"fields of it", served("v1", `{"properties":{"status":`+preserving+`,"spec":{"type":"object","properties":{"size":{},"parts":{"items":{"properties":{}}},"more":{"additionalProperties":{"type":"object"}},"any":{"type":"object"},"texts":{"type":"object"}}}}}`),
			"its schema drops the fields spec.any, spec.more[*].name, spec.parts[].name, spec.texts[*]"},
		{"other types", served("v1", `{"properties":{"status":{"type":"object","properties":{"size":{"type":"string"},"phase":{},"selector":{"type":"string"}}},"spec":{"properties":{"size":{"type":"integer"},"parts":{"type":"object"},"any":`+preserving+`,"more":{"additionalProperties":{"properties":{"name":{"type":"boolean"}}}},"texts":{"additionalProperties":{"type":"string"}}}}}}`),
			"its schema has other types for the fields spec.more[*].name (boolean, want string), spec.parts (object, want array), status.size (string, want integer)"},
		{"many", served("v1", `{"properties":{"spec":{"type":"object"},"status":{"properties":{}}}}`), "its schema drops the fields spec.any, spec.more, spec.parts, spec.size, spec.texts and 3 more"},
		{"a map for all", served("v1", `{"properties":{"status":{"additionalProperties":{"type":"string"}},"spec":{"additionalProperties":true}}}`), ""},
	} {
		t.Run("TD-29 "+tt.name, func(t *testing.T) {
			if got := d.Difference([]byte(tt.served)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzDifference checks that no definition of a cluster causes a panic.
func FuzzDifference(f *testing.F) {
	d, err := widget(Options{Group: "example.com", Version: "v1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(d.JSON))
	f.Add(`{"spec":{"versions":[{"name":"v1","served":true,"schema":{"openAPIV3Schema":{"properties":{"spec":[]}}}}]}}`)
	f.Add(`{"spec":{"versions":[{"name":"v1","served":true}`)
	f.Fuzz(func(t *testing.T, served string) { d.Difference([]byte(served)) })
}
