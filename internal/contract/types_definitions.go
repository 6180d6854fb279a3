package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how kopf generates CRDs from structs, and how a server applies them.

// site is the kind in most leaves. Its metadata is kopf.Meta.
type site struct {
	kopf.Meta `json:",inline"`
	Spec      siteSpec   `json:"spec"`
	Status    siteStatus `json:"status,omitzero"`
}

type siteSpec struct {
	HTML     string            `json:"html,omitempty" doc:"the page" maxLength:"1024" selectable:"true"`
	Replicas int32             `json:"replicas,omitempty" minimum:"0" maximum:"100" default:"1" column:"Replicas" doc:"how many pods"`
	Class    siteClass         `json:"class,omitempty" rule:"self == oldSelf" message:"the class cannot be changed"`
	Ports    []sitePort        `json:"ports,omitempty" listKey:"name" maxItems:"16"`
	Hosts    []string          `json:"hosts,omitempty" listType:"set" maxItems:"8" each:"maxLength=63,pattern=^[a-z]+([.][a-z]+){0,3}$"`
	Labels   map[string]string `json:"labels,omitempty" maxProperties:"8" each:"minLength=1"`
	Tuning   siteTuning        `json:"tuning"`
	Note     *string           `json:"note,omitempty" nullable:"true"`
}

type siteClass string

func (siteClass) Enum() []string { return []string{"small", "large"} }

type sitePort struct {
	Name string           `json:"name" maxLength:"15"`
	Port kopf.IntOrString `json:"port"`
}

type siteTuning struct {
	Cache siteCache `json:"cache"`
	Level int       `json:"level,omitempty" default:"3"`
}

func (siteTuning) Rules() []kopf.Rule {
	return []kopf.Rule{{Rule: "self.level < 9 || self.cache.size > 0", Message: "high levels need a cache"}}
}

type siteCache struct {
	Size int64 `json:"size,omitempty" default:"64"`
}

type siteStatus struct {
	URL        string           `json:"url,omitempty" column:"URL" priority:"1"`
	Replicas   int32            `json:"replicas,omitempty"`
	Conditions []kopf.Condition `json:"conditions,omitempty" listKey:"type"`
}

// definedAs defines a kind in a registry and on the server, in a group that only the leaf uses.
func definedAs[T any](c *C, r *kopf.Registry, d *kopf.Definition) (*kopf.DefinedKind, *Kind) {
	c.Helper()
	d.Group, d.Version = c.Unique("types.example.com"), "v1"
	defined := kopf.DefineIn[T](r, d)
	manifest := manifestOf(c, defined)
	c.Define(manifest)
	names := manifest["spec"].(map[string]any)["names"].(map[string]any)
	return defined, c.Of(d.Group+"/v1", fmt.Sprint(names["kind"]))
}

func manifestOf(c *C, k *kopf.DefinedKind) (manifest map[string]any) {
	c.Helper()
	if err := json.Unmarshal(k.Manifest(), &manifest); err != nil {
		c.Fatal(err)
	}
	return manifest
}

// tried defines a kind in a new registry, and returns the CRD without its group, or the panic of Define.
func tried[T any](d *kopf.Definition) (k *kopf.DefinedKind, problem string) {
	if d == nil {
		d = &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Thing"}
	}
	return triedIn[T](&kopf.Registry{}, d)
}

// triedIn is tried in a registry.
func triedIn[T any](r *kopf.Registry, d *kopf.Definition) (k *kopf.DefinedKind, problem string) {
	defer func() {
		if v := recover(); v != nil {
			problem = fmt.Sprint(v)
		}
	}()
	return kopf.DefineIn[T](r, d), ""
}

// of is a kind with a spec.
type of[Spec any] struct {
	kopf.Meta
	Spec Spec `json:"spec"`
}

// with is a kind whose spec has a field.
type with[Field any] struct {
	kopf.Meta
	Spec struct {
		Field Field `json:"field,omitempty"`
	} `json:"spec"`
}

// schemaOf returns a part of a kind's schema in JSON.
func schemaOf(c *C, k *kopf.DefinedKind, path ...string) string {
	c.Helper()
	body, err := kopf.ParseBody(k.Manifest())
	if err != nil {
		c.Fatal(err)
	}
	versions := body.Spec().Views("versions")
	data, _ := versions[0].View(kopf.Path(append([]string{"schema", "openAPIV3Schema"}, path...)...)).MarshalJSON()
	return string(data)
}

// wants fails unless the text contains all parts.
func (c *C) wants(what, text string, parts ...string) {
	c.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			c.Errorf("%s: got %q, want %q in it", what, text, part)
		}
	}
}

// refused tries to create an object, and fails unless the error of the server contains a field.
func (k *Kind) refused(what string, spec map[string]any, field string) {
	k.c.Helper()
	err := k.c.Client.Create(k.c.Context(), k.body(k.object("refused", map[string]any{"spec": spec})), nil)
	if kopf.StatusCode(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), field) {
		k.c.Errorf("%s: got %v, want a refusal that names %s", what, err, field)
	}
	if err == nil {
		k.Delete("refused")
	}
}

// nodes calls a function for all nested schemas.
func nodes(path string, schema map[string]any, each func(path string, schema map[string]any)) {
	each(path, schema)
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		nodes(path+"."+name, p.(map[string]any), each)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			nodes(path+"[]", inner, each)
		}
	}
}

type loop struct {
	Next *loop `json:"next"`
}

// everything is a spec with all types that have a schema.
type everything struct {
	Bool     bool                     `json:"bool"`
	Int      int                      `json:"int"`
	Int32    int32                    `json:"int32"`
	Uint64   uint64                   `json:"uint64"`
	Number   float64                  `json:"number" type:"number"`
	Bytes    []byte                   `json:"bytes"`
	Time     time.Time                `json:"time"`
	Duration kopf.Duration            `json:"duration"`
	List     []string                 `json:"list"`
	Map      map[siteClass]int        `json:"map"`
	Pointer  *sitePort                `json:"pointer"`
	Any      kopf.AnyJSON             `json:"any"`
	Quantity kopf.Quantity            `json:"quantity"`
	Amounts  map[string]kopf.Quantity `json:"amounts"`
	Port     kopf.IntOrString         `json:"port"`
	Selector kopf.LabelSelector       `json:"selector"`
	Of       kopf.ObjectReference     `json:"of"`
	Template kopf.EmbeddedObject      `json:"template"`
	sitePort
}

func valid() map[string]any {
	return map[string]any{
		"bool": true, "int": 1, "int32": 2, "uint64": 3, "number": 0.5, "bytes": "eA==", "time": "2026-01-02T03:04:05Z", "duration": "5m0s", "list": []any{"a"}, "map": map[string]any{"small": 1},
		"pointer": map[string]any{"name": "a", "port": 80}, "any": []any{1, "a", nil}, "quantity": "500m", "amounts": map[string]any{"cpu": 2, "memory": "1Gi"}, "port": "http",
		"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}, "matchExpressions": []any{map[string]any{"key": "a", "operator": "Exists"}}},
		"of":       map[string]any{"kind": "Pod", "name": "a"}, "name": "b", "template": map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"x": 1}},
	}
}

var _ = Suite("types_definitions", func(t *testing.T, c *C) {
	impossibleTypes(t, c)
	c.Run(t, "TD-1 Define is for structs with the metadata, a spec and a status", func(c *C) {
		for problem, want := range map[string]string{
			second(tried[int](nil)):                 "int is no struct: want a struct with kopf.Meta embedded, and at most the fields spec and status of struct types",
			second(tried[struct{}](nil)):            "has no kopf.Meta",
			second(tried[struct{ kopf.Meta }](nil)): "",
			second(tried[struct {
				kopf.Meta
				Data map[string]string `json:"data"`
			}](nil)): `Data, in JSON "data", is map[string]string: want a struct`,
			second(tried[struct {
				kopf.Meta
				Spec []string `json:"spec"`
			}](nil)): `Spec, in JSON "spec", is []string`,
		} {
			c.wants("the panic", problem, want)
			if want != "" {
				c.wants("the panic", problem, "kopf: Define[", "types_definitions.go:")
			}
		}
	})
	c.Run(t, "TD-9 each node of a schema has a type", func(c *C) {
		r := &kopf.Registry{}
		for _, k := range []*kopf.DefinedKind{kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site"}), kopf.DefineIn[of[everything]](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "All"})} {
			var schema map[string]any
			if err := json.Unmarshal([]byte(schemaOf(c, k)), &schema); err != nil {
				c.Fatal(err)
			}
			nodes("", schema, func(path string, node map[string]any) {
				if node["type"] == nil && node["x-kubernetes-int-or-string"] != true && node["x-kubernetes-preserve-unknown-fields"] != true {
					c.Errorf("%s has no type", path)
				}
			})
			c.same("the metadata", `{"type":"object"}`, schemaOf(c, k, "properties", "metadata"))
		}
	})
	c.Run(t, "TD-10 types of Go are types of schemas", func(c *C) {
		_, objects := definedAs[of[everything]](c, &kopf.Registry{}, &kopf.Definition{Kind: "Everything"})
		objects.Create("a", map[string]any{"spec": valid()})
		body := objects.Get("a")
		var decoded of[everything]
		if err := body.Decode(&decoded); err != nil {
			c.Fatal(err)
		}
		s := decoded.Spec
		if !s.Bool || s.Uint64 != 3 || string(s.Bytes) != "x" || s.Duration.Duration != 5*time.Minute || s.Map["small"] != 1 || s.Pointer.Port.Int != 80 || s.Name != "b" || s.Quantity != "500m" || s.Amounts["cpu"] != "2" {
			c.Errorf("got %+v", s)
		}
		for field, bad := range map[string]any{
			"bool": 1, "int": "x", "int32": 0.5, "number": "x", "bytes": "?", "time": "now", "list": "a", "map": map[string]any{"a": "b"}, "pointer": []any{}, "quantity": "lots", "duration": "tomorrow", "port": true, "name": 1,
		} {
			spec := valid()
			spec[field] = bad
			objects.refused(field, spec, "spec."+field)
		}
	})
	c.Run(t, "DF-88 a quantity can be a number beyond 32 bits, as for Kubernetes", func(c *C) {
		_, objects := definedAs[of[everything]](c, &kopf.Registry{}, &kopf.Definition{Kind: "Everything"})
		spec := valid()
		spec["amounts"] = map[string]any{"memory": 3_000_000_000}
		objects.Create("a", map[string]any{"spec": spec})
		var decoded of[everything]
		if err := objects.Get("a").Decode(&decoded); err != nil {
			c.Fatal(err)
		}
		if got := decoded.Spec.Amounts["memory"]; got != "3000000000" {
			c.Errorf("got %q", got)
		}
		spec["port"] = 3_000_000_000
		objects.refused("port", spec, "spec.port")
	})
	c.Run(t, "TD-10 what Go writes is taken and kept", func(c *C) {
		_, objects := definedAs[of[written]](c, &kopf.Registry{}, &kopf.Definition{Kind: "Written"})
		value := written{Protocols: []protocol{0, 1}, Texts: map[string]*pointerText{"a": new(pointerText)}, Large: 4_000_000_000, Small: -128}
		object := &of[written]{Spec: value}
		object.Meta = objects.meta("a")
		if err := c.Client.Create(c.Context(), object, nil); err != nil {
			c.Fatal(err)
		}
		data, err := json.Marshal(value)
		var wrote any
		if err == nil {
			err = json.Unmarshal(data, &wrote)
		}
		if err != nil {
			c.Fatal(err)
		}
		c.same("the spec", wrote, objects.Get("a").Spec().Map())
		out := map[string][]any{"large": {-1, 5_000_000_000}, "small": {128, -129}, "count": {-1}, "int32": {3_000_000_000}}
		if c.Minor() < 36 { // older versions do not check the format int32
			delete(out, "int32")
		}
		for field, bad := range out {
			for _, n := range bad {
				spec := map[string]any{"protocols": []any{}, "texts": map[string]any{}, "large": 1, "small": 1, "count": 1, "int32": 1, "any": 1}
				spec[field] = n
				objects.refused(fmt.Sprint(field, " ", n), spec, field)
			}
		}
	})
	c.Run(t, "TD-11 what no schema can say is a panic with the path", func(c *C) {
		for problem, want := range map[string]string{
			second(tried[with[float64]](nil)):                  "spec.field: the type float64 is not exact",
			second(tried[with[[]any]](nil)):                    "spec.field[]: the type interface {} has no schema: want kopf.AnyJSON",
			second(tried[with[chan int]](nil)):                 "spec.field: the type chan int cannot be in JSON",
			second(tried[with[map[string]func()]](nil)):        "spec.field[*]: the type func() cannot be in JSON",
			second(tried[with[map[int]string]](nil)):           "spec.field: the type map[int]string has keys of the type int: want strings",
			second(tried[with[loop]](nil)):                     "spec.field.next: the type contract.loop contains itself",
			second(tried[with[map[string]time.Duration]](nil)): "spec.field[*]: the type time.Duration is a number of nanoseconds in JSON: want kopf.Duration",
		} {
			c.wants("the panic", problem, want)
		}
		k, _ := tried[with[kopf.AnyJSON]](nil)
		c.same("any JSON", `{"nullable":true,"x-kubernetes-preserve-unknown-fields":true}`, schemaOf(c, k, "properties", "spec", "properties", "field"))
	})
	c.Run(t, "TD-12 a field is required unless it can be left out", func(c *C) {
		k, _ := tried[of[struct {
			Plain    string     `json:"plain"`
			Empty    string     `json:"empty,omitempty"`
			Zero     siteTuning `json:"zero,omitzero"`
			Default  string     `json:"default,omitempty" default:"x"`
			Optional string     `json:"optional" required:"false"`
			Both     string     `json:"both" default:"x" required:"true"`
		}]](nil)
		c.same("required", `["both","plain"]`, schemaOf(c, k, "properties", "spec", "required"))
	})
	c.Run(t, "TD-12 nothing of a status is required but by its tag", func(c *C) {
		k, objects := definedAs[always](c, &kopf.Registry{}, &kopf.Definition{Kind: "Always"})
		c.same("required", `["must"]`, schemaOf(c, k, "properties", "status", "required"))
		c.same("required of the items", `["name"]`, schemaOf(c, k, "properties", "status", "properties", "rooms", "items", "required"))
		if err := c.Client.Create(c.Context(), &always{Meta: objects.meta("a")}, nil); err != nil {
			c.Fatal(err)
		}
		objects.PatchStatus("a", map[string]any{"status": map[string]any{"must": 1, "rooms": []any{map[string]any{"name": "a"}}}})
		_, err := c.Client.Patch(c.Context(), objects.Ref("a"), map[string]any{"status": map[string]any{"must": nil}}, &kopf.PatchOptions{Subresource: "status"})
		c.wants("the refusal", fmt.Sprint(err), "status.must")
		_, problem := tried[struct {
			kopf.Meta
			Status siteStatus `json:"status" required:"true"`
		}](nil)
		c.wants("the panic", problem, `status: the tag required:"true" does not fit: API servers take the status away from new objects`)
	})
	c.Run(t, "TD-T1 a field that is required cannot be left out", func(c *C) {
		_, problem := tried[of[struct {
			Size int `json:"size,omitempty" required:"true"`
		}]](nil)
		c.wants("the panic", problem, `spec.size: the tag required:"true" contradicts omitempty or omitzero: the API server would refuse an object in which the field was left out`)
	})
	c.Run(t, "TD-13 null is allowed by the tag alone", func(c *C) {
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		objects.Create("a", spec(map[string]any{"note": nil, "tuning": map[string]any{}}))
		if body := objects.Get("a"); !body.Has("spec.note") {
			c.Errorf("got %s, want the null", indented(body))
		}
		objects.Create("b", spec(map[string]any{"html": nil}))
		if body := objects.Get("b"); body.Has("spec.html") {
			c.Errorf("got %s, want no null where it is not allowed", indented(body))
		}
	})
	c.Run(t, "TD-14 tags are constraints, and misfits are panics", func(c *C) {
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		objects.Create("a", spec(map[string]any{"html": "x", "replicas": 3, "class": "small", "ports": []any{map[string]any{"name": "a", "port": 1}}, "hosts": []any{"a.b"}, "labels": map[string]any{"a": "b"}}))
		for field, bad := range map[string]any{"html": strings.Repeat("x", 1025), "replicas": 101, "labels": map[string]any{"a": ""}, "hosts": []any{"A"}} {
			objects.refused(field, map[string]any{field: bad}, "spec."+field)
		}
		for problem, want := range map[string]string{
			second(tried[of[struct {
				A int `json:"a" maxLength:"3"`
			}]](nil)): `spec.a: the tag "maxLength" does not fit: want it on string, got integer`,
			second(tried[of[struct {
				A string `json:"a" maxLength:"long"`
			}]](nil)): `spec.a: invalid tag maxLength:"long": want a whole number`,
			second(tried[of[struct {
				A string `json:"a" pattern:"("`
			}]](nil)): "spec.a: invalid tag pattern",
			second(tried[of[struct {
				A string `json:"a" maxlength:"3"`
			}]](nil)): `spec.A: invalid tag "maxlength": want "maxLength"`,
			second(tried[of[struct {
				A string `json:"a" patern:"^a$"`
			}]](nil)): `spec.A: invalid tag "patern": want "pattern"`,
			second(tried[of[struct {
				A string `json:"a" format:"hostnam"`
			}]](nil)): `spec.a: invalid tag format:"hostnam": want a format that API servers know`,
			second(tried[of[struct {
				//lint:ignore SA5008 it is to be refused
				A string `json:"a,omitempty" yaml:"a" json:"b"`
			}]](nil)): `spec.A: the tag "json" is there twice`,
			second(tried[of[struct {
				//lint:ignore SA5008 it is to be refused
				A string `json:"a,omitemtpy"`
			}]](nil)): `spec.A: invalid tag json:"a,omitemtpy": encoding/json has no option "omitemtpy"`,
		} {
			c.wants("the panic", problem, want)
		}
	})
	c.Run(t, "TD-15 each is about the items", func(c *C) {
		k, _ := tried[site](nil)
		c.same("the hosts", `{"items":{"maxLength":63,"pattern":"^[a-z]+([.][a-z]+){0,3}$","type":"string"},"maxItems":8,"type":"array","x-kubernetes-list-type":"set"}`, schemaOf(c, k, "properties", "spec", "properties", "hosts"))
	})
	c.Run(t, "TD-16 defaults take effect, and are checked", func(c *C) {
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		objects.Create("a", spec(map[string]any{}))
		c.same("the spec", map[string]any{"replicas": 1, "tuning": map[string]any{"level": 3, "cache": map[string]any{"size": 64}}}, objects.Get("a").Spec().Map())
		_, problem := tried[of[struct {
			A int `json:"a,omitempty" maximum:"3" default:"4"`
		}]](nil)
		c.wants("the panic", problem, `spec.a: invalid tag default:"4": `, "should be less than or equal to 3")
		k, _ := tried[of[struct {
			CPU kopf.Quantity `json:"cpu,omitempty" default:"0.5"`
		}]](nil)
		c.wants("a quantity", schemaOf(c, k, "properties", "spec", "properties", "cpu"), `"default":"0.5"`)
		_, problem = tried[of[struct {
			Every kopf.Duration `json:"every,omitzero" default:"tomorrow"`
		}]](nil)
		c.wants("the panic", problem, `spec.every: invalid tag default:"tomorrow": `, "should match")
	})
	c.Run(t, "TD-17 methods give enums and rules", func(c *C) {
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		objects.refused("another class", map[string]any{"class": "medium"}, "spec.class")
		k, _ := tried[site](nil)
		c.wants("the schema", schemaOf(c, k, "properties", "spec", "properties", "class"), `"enum":["small","large"]`)
		c.wants("the schema", schemaOf(c, k, "properties", "spec", "properties", "tuning"), `"x-kubernetes-validations":[{"message":"high levels need a cache","rule":"self.level < 9 || self.cache.size > 0"}]`)
		if !c.InBubble() {
			objects.refused("a high level", map[string]any{"tuning": map[string]any{"level": 9, "cache": map[string]any{"size": 0}}}, "spec.tuning")
		}
	})
	c.Run(t, "TD-17 rules of embedded structs count, and promoted methods do not", func(c *C) {
		k, _ := tried[of[embedding]](nil)
		c.wants("the rules", schemaOf(c, k, "properties", "spec"), `"x-kubernetes-validations":[{"rule":"self.min <= self.max"},{"rule":"self.start <= self.end"}]`)
		k, problem := tried[of[embeddingNamed]](nil)
		if problem != "" {
			c.Fatal(problem)
		}
		c.same("the rules", "null", schemaOf(c, k, "properties", "spec", "x-kubernetes-validations"))
		c.wants("the rules of the field", schemaOf(c, k, "properties", "spec", "properties", "range"), `"rule":"self.min <= self.max"`)
		_, problem = tried[of[struct {
			describes
			Extra string `json:"extra,omitempty"`
		}]](nil)
		c.wants("the panic", problem, "the embedded type contract.describes describes itself, but only its fields are in the JSON")
	})
	c.Run(t, "TD-18 lists with keys are maps", func(c *C) {
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		objects.refused("one key twice", map[string]any{"ports": []any{map[string]any{"name": "a", "port": 1}, map[string]any{"name": "a", "port": 2}}}, "spec.ports")
		objects.refused("one item twice", map[string]any{"hosts": []any{"a", "a"}}, "spec.hosts")
		_, problem := tried[of[struct {
			A []struct {
				Name string `json:"name,omitempty"`
			} `json:"a" listKey:"name"`
		}]](nil)
		c.wants("the panic", problem, `spec.a: invalid tag listKey: the field "name" of the items can be left out: want it required, or with a default`)
	})
	c.Run(t, "TD-19 what cannot be changed cannot be removed", func(c *C) {
		k, _ := tried[site](nil)
		c.wants("the rules", schemaOf(c, k, "properties", "spec"), `"x-kubernetes-validations":[{"message":"the class cannot be changed","rule":"!has(oldSelf.class) || has(self.class)"}]`)
		if c.InBubble() {
			return // the embedded server does not evaluate the rules
		}
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		objects.Create("a", spec(map[string]any{"class": "small"}))
		for _, class := range []any{"large", nil} {
			_, err := c.Client.Patch(c.Context(), objects.Ref("a"), spec(map[string]any{"class": class}), nil)
			if err == nil || !strings.Contains(err.Error(), "the class cannot be changed") {
				c.Errorf("class %v: got %v, want a refusal", class, err)
			}
		}
	})
	c.Run(t, "TD-20 types describe themselves", func(c *C) {
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		objects.Create("a", spec(map[string]any{}))
		good := map[string]any{"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
		objects.PatchStatus("a", map[string]any{"status": map[string]any{"conditions": []any{good}}})
		for key, bad := range map[string]any{"type": "not ready", "status": "Maybe", "reason": "", "lastTransitionTime": "now", "observedGeneration": -1} {
			condition := map[string]any{"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z", key: bad}
			_, err := c.Client.Patch(c.Context(), objects.Ref("a"), map[string]any{"status": map[string]any{"conditions": []any{condition}}}, &kopf.PatchOptions{Subresource: "status"})
			if kopf.StatusCode(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), key) {
				c.Errorf("%s %v: got %v, want a refusal", key, bad, err)
			}
		}
		k, _ := tried[with[own]](nil)
		c.same("a type of the user", `{"format":"hostname","maxLength":9,"type":"string"}`, schemaOf(c, k, "properties", "spec", "properties", "field"))
		k, _ = tried[with[kopf.LabelSelector]](nil)
		c.wants("a selector", schemaOf(c, k, "properties", "spec", "properties", "field"), `"x-kubernetes-map-type":"atomic"`)
		k, _ = tried[with[kopf.EmbeddedObject]](nil)
		c.wants("an object", schemaOf(c, k, "properties", "spec", "properties", "field"), `"x-kubernetes-embedded-resource":true`)
	})
	c.Run(t, "TD-21 descriptions are tags, and large definitions are warned of", func(c *C) {
		k, _ := tried[site](&kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site", Description: "A site."})
		c.wants("the schema", schemaOf(c, k), `"description":"A site."`, `"description":"the page"`)
		c.OnlyInBubble("the definition is not stored")
		r := &kopf.Registry{}
		kopf.DefineIn[with[long]](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Long"})
		op := c.Operator(r)
		lines := op.Logs.Find("The definition of a kind may cause trouble")
		if len(lines) != 1 {
			c.Fatalf("got %d lines, want 1", len(lines))
		}
		c.wants("the warning", lines[0].Attrs["problem"], "bytes, more than 204800: kubectl apply may refuse it without --server-side")
	})
	c.Run(t, "TD-22 constraints are directly on their nodes", func(c *C) {
		for _, k := range []*kopf.DefinedKind{first(tried[site](nil)), first(tried[of[everything]](nil))} {
			if text := string(k.Manifest()); strings.Contains(text, "allOf") || strings.Contains(text, "oneOf") {
				c.Errorf("got %s", text)
			}
		}
	})
	c.Run(t, "TD-T2 rules on what has no maximum are warned of", func(c *C) {
		r := &kopf.Registry{}
		kopf.DefineIn[of[struct {
			Names []string `json:"names" rule:"self.all(n, n != '')"`
			Text  string   `json:"text" rule:"self != ''"`
			Short string   `json:"short" maxLength:"5" rule:"self != ''"`
			Items []struct {
				Text string `json:"text" maxLength:"5" rule:"self != ''"`
			} `json:"items"`
		}]](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Thing"})
		op := c.Operator(r)
		var got []string
		for _, line := range op.Logs.Find("The definition of a kind may cause trouble") {
			problem, _, _ := strings.Cut(line.Attrs["problem"], ":")
			got = append(got, problem)
			c.wants("the place", line.Attrs["defined"], "types_definitions.go:")
		}
		c.same("the warnings", []string{"spec.names has a rule, but no maxItems", "spec.text has a rule, but no maxLength", "spec.items[].text has a rule, but spec.items has no maximum"}, got)
	})
	c.Run(t, "TD-23 the same types have the same definition each time", func(c *C) {
		k := first(tried[site](nil))
		for range 20 {
			if again := first(tried[site](nil)); string(again.Manifest()) != string(k.Manifest()) {
				c.Fatalf("got %s and %s", k.Manifest(), again.Manifest())
			}
		}
	})
	c.Run(t, "TD-T9 definitions are as they were in the last release", func(c *C) {
		c.OnlyInBubble("it is the same on any server")
		r := &kopf.Registry{}
		kinds := []*kopf.DefinedKind{
			kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site", ShortNames: []string{"st"}, Categories: []string{"all"}, Description: "A site.", Scale: &kopf.Scale{Replicas: "spec.replicas", StatusReplicas: "status.replicas"}}),
			kopf.DefineIn[of[everything]](r, &kopf.Definition{Group: "example.com", Version: "v1beta1", Kind: "Everything", Cluster: true}),
		}
		for _, k := range kinds {
			path := filepath.Join("testdata", "definitions", strings.ReplaceAll(string(k.Selector()), "/", "_")+".json")
			got := indented(json.RawMessage(k.Manifest())) + "\n"
			want, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) && os.Getenv("KOPF_UPDATE_DEFINITIONS") != "" {
				err = os.WriteFile(path, []byte(got), 0o644)
				want = []byte(got)
			}
			if err != nil || string(want) != got {
				c.Errorf("%s: got %s, %v; if it is meant to differ, remove the file and set KOPF_UPDATE_DEFINITIONS=yes", path, got, err)
			}
		}
	})
	c.Run(t, "TD-24 names are English plurals, or as given", func(c *C) {
		for kind, want := range map[string]string{"Website": "websites", "Policy": "policies", "Gateway": "gateways", "Class": "classes", "Mailbox": "mailboxes", "Branch": "branches"} {
			k, _ := tried[site](&kopf.Definition{Group: "example.com", Version: "v1", Kind: kind})
			names := manifestOf(c, k)["spec"].(map[string]any)["names"]
			c.same("the names", map[string]any{"kind": kind, "listKind": kind + "List", "plural": want, "singular": strings.ToLower(kind)}, names)
		}
		k, _ := tried[site](&kopf.Definition{Group: "example.com", Version: "v1", Kind: "Person", Plural: "people", Singular: "human", ListKind: "People", ShortNames: []string{"pe"}, Categories: []string{"all"}, Cluster: true})
		c.same("the names", map[string]any{"kind": "Person", "listKind": "People", "plural": "people", "singular": "human", "shortNames": []any{"pe"}, "categories": []any{"all"}}, manifestOf(c, k)["spec"].(map[string]any)["names"])
		c.same("the scope", "Cluster", manifestOf(c, k)["spec"].(map[string]any)["scope"])
		c.same("the selector", kopf.Selector("example.com/v1/people"), k.Selector())
	})
	c.Run(t, "TD-25 the status is a subresource, and so is the scale", func(c *C) {
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site", Scale: &kopf.Scale{Replicas: "spec.replicas", StatusReplicas: "status.replicas"}})
		objects.Create("a", map[string]any{"spec": map[string]any{}, "status": map[string]any{"url": "x"}})
		if body := objects.Get("a"); body.Has("status.url") {
			c.Error("the status was stored with the object")
		}
		if _, err := c.Client.Patch(c.Context(), objects.Ref("a"), spec(map[string]any{"replicas": 7}), &kopf.PatchOptions{Subresource: "scale"}); err != nil {
			c.Error(err)
		}
		c.same("the replicas", 7, objects.Get("a").Spec().Int("replicas"))
		k, _ := tried[of[siteSpec]](nil)
		if strings.Contains(string(k.Manifest()), "subresources") {
			c.Errorf("got subresources without a status: %s", k.Manifest())
		}
	})
	c.Run(t, "TD-26 columns and selectable fields are tags", func(c *C) {
		k, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		version := manifestOf(c, k)["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		c.same("the columns", []any{
			map[string]any{"name": "Replicas", "type": "integer", "format": "int32", "jsonPath": ".spec.replicas", "description": "how many pods"},
			map[string]any{"name": "URL", "type": "string", "jsonPath": ".status.url", "priority": 1},
			map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
		}, version["additionalPrinterColumns"])
		objects.Create("a", spec(map[string]any{"html": "x"}))
		objects.Create("b", spec(map[string]any{"html": "y"}))
		var found []string
		for body, err := range c.Client.List(c.Context(), objects.Ref(""), &kopf.ListOptions{Namespace: c.Namespace, FieldSelector: "spec.html=y"}) {
			if err != nil {
				c.Fatal(err)
			}
			found = append(found, body.Name())
		}
		c.same("what is selected", []string{"b"}, found)
		_, problem := tried[of[struct {
			A string `json:"a,omitempty" column:"A" priority:"3000000000"`
		}]](nil)
		c.wants("the panic", problem, `spec.a: invalid tag priority:"3000000000": want a whole number that is not negative, of at most 32 bits`)
	})
	c.Run(t, "TD-27 paths lead to fields", func(c *C) {
		for problem, want := range map[string]string{
			second(tried[of[struct {
				A string `json:"a.b,omitempty" selectable:"true"`
			}]](nil)): `spec.a.b: the tags "column" and "selectable" do not fit: no path can name "spec.a.b"`,
			second(tried[site](&kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site", Scale: &kopf.Scale{Replicas: "spec.size", StatusReplicas: "status.replicas"}})): `invalid path "spec.size" in the field Replicas of the Scale`,
			second(tried[site](&kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site", Scale: &kopf.Scale{Replicas: "spec.replicas", StatusReplicas: "status.url"}})):  "want the field to be of the type integer, got string",
			second(tried[of[struct {
				A []sitePort `json:"a" listKey:"id"`
			}]](nil)): `spec.a: invalid tag listKey: the items have no field "id"`,
			second(tried[of[struct {
				A []struct {
					B string `json:"b" column:"B"`
				} `json:"a"`
			}]](nil)): `spec.a[].b: the tags "column" and "selectable" do not fit in a list or a map`,
			second(tried[of[struct {
				A []string `json:"a" selectable:"true"`
			}]](nil)): `spec.a: the tag "selectable" does not fit`,
		} {
			c.wants("the panic", problem, want)
		}
	})
})

// written is a spec with types that encoding/json encodes in special ways.
type written struct {
	Protocols []protocol              `json:"protocols"`
	Texts     map[string]*pointerText `json:"texts"`
	Large     uint32                  `json:"large"`
	Small     int8                    `json:"small"`
	Count     uint                    `json:"count"`
	Int32     int32                   `json:"int32"`
	Any       kopf.AnyJSON            `json:"any"`
}

// protocol is a typical enum in Go.
type protocol uint8

func (p protocol) MarshalText() ([]byte, error) { return []byte([]string{"TCP", "UDP"}[p]), nil }
func (p *protocol) UnmarshalText(text []byte) error {
	*p = 0
	if string(text) == "UDP" {
		*p = 1
	}
	return nil
}

// pointerText has its methods on the pointer.
type pointerText int

func (p *pointerText) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "n%d", *p), nil }
func (p *pointerText) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "n%d", p)
	return err
}

// always is a kind whose status is never omitted.
type always struct {
	kopf.Meta
	Spec   struct{} `json:"spec"`
	Status struct {
		N     int `json:"n"`
		Must  int `json:"must" required:"true"`
		Rooms []struct {
			Name  string `json:"name"`
			Lamps int    `json:"lamps"`
		} `json:"rooms" listKey:"name"`
	} `json:"status"`
}

type minMax struct {
	Min int `json:"min,omitempty"`
	Max int `json:"max,omitempty"`
}

func (minMax) Rules() []kopf.Rule { return []kopf.Rule{{Rule: "self.min <= self.max"}} }

type startEnd struct {
	Start int `json:"start,omitempty"`
	End   int `json:"end,omitempty"`
}

func (startEnd) Rules() []kopf.Rule { return []kopf.Rule{{Rule: "self.start <= self.end"}} }

type embedding struct {
	minMax
	startEnd
}

type embeddingNamed struct {
	minMax    `json:"range"`
	siteClass           // encoding/json ignores it
	Class     siteClass `json:"class,omitempty"`
}

// describes has its own schema.
type describes struct {
	A string `json:"a,omitempty"`
}

// Schema implements kopf.Schemer.
func (describes) Schema() kopf.Schema {
	return kopf.Schema{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}}
}

// meta returns the metadata of an object for structs.
func (k *Kind) meta(name string) kopf.Meta {
	ref := k.Ref(name)
	return kopf.Meta{APIVersion: ref.APIVersion, Kind: ref.Kind, ObjectMeta: kopf.ObjectMeta{Name: name, Namespace: ref.Namespace}}
}

// own has its own schema.
type own string

// Schema implements kopf.Schemer.
func (own) Schema() kopf.Schema {
	return kopf.Schema{"type": "string", "format": "hostname", "maxLength": 9}
}

// long has a long schema of its own.
type long string

// Schema implements kopf.Schemer.
func (long) Schema() kopf.Schema {
	return kopf.Schema{"type": "string", "description": strings.Repeat("long ", 50000)}
}

func first(k *kopf.DefinedKind, problem string) *kopf.DefinedKind {
	if problem != "" {
		panic(problem)
	}
	return k
}

func second(_ *kopf.DefinedKind, problem string) string { return problem }
