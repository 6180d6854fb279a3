package contract

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This file proves that Define refuses types and tags whose objects could not be stored or read, in 9-defects.md.

// writtenOnly can be written as text, but not read.
type writtenOnly struct{}

func (writtenOnly) MarshalText() ([]byte, error) { return []byte("x"), nil }

// siteKey can be written and read as a key of a map, but a pointer to it cannot be read.
type siteKey struct{ name string }

func (k siteKey) MarshalText() ([]byte, error) { return []byte(k.name), nil }

func (k *siteKey) UnmarshalText(text []byte) error {
	k.name = string(text)
	return nil
}

// defineSpec defines a kind with the given properties of its spec, in a group that only the leaf uses.
func (c *C) defineSpec(kind string, properties map[string]any) *Kind {
	c.Helper()
	group, plural := c.Unique("types.example.com"), strings.ToLower(kind)+"s"
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	c.Define(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": object(map[string]any{"spec": object(properties)})},
			}},
		},
	})
	return c.Of(group+"/v1", kind)
}

func impossibleTypes(t *testing.T, c *C) {
	c.Run(t, "DF-70 a default that Go would overwrite is a panic", func(c *C) {
		const want = `needs the option omitzero in the tag json`
		for what, problem := range map[string]string{
			"a struct": second(tried[of[struct {
				A siteCache `json:"a,omitempty" default:"{\"size\": 1}"`
			}]](nil)),
			"a time": second(tried[of[struct {
				A time.Time `json:"a,omitempty" default:"2020-01-01T00:00:00Z"`
			}]](nil)),
			"an array": second(tried[of[struct {
				A [2]int `json:"a,omitempty" default:"[1,2]"`
			}]](nil)),
			"a port": second(tried[of[struct {
				A kopf.IntOrString `json:"a,omitempty" default:"80"`
			}]](nil)),
		} {
			c.wants("the panic for "+what, problem, want)
		}
		type since struct {
			At   time.Time        `json:"at,omitzero" default:"2020-01-01T00:00:00Z"`
			Port kopf.IntOrString `json:"port,omitzero" default:"80"`
		}
		_, objects := definedAs[of[since]](c, &kopf.Registry{}, &kopf.Definition{Kind: "Since"})
		object := &of[since]{Meta: objects.meta("a")}
		if err := c.Client.Create(c.Context(), object, nil); err != nil {
			c.Fatal(err)
		}
		if object.Spec.At.Year() != 2020 || object.Spec.Port.Int != 80 {
			c.Errorf("got %+v, want the defaults", object.Spec)
		}
	})
	c.Run(t, "DF-65 null is no value of an enum", func(c *C) {
		const want = "null cannot be allowed together with an enum"
		for what, problem := range map[string]string{
			"a field": second(tried[of[struct {
				A *string `json:"a" nullable:"true" enum:"a,b"`
			}]](nil)),
			"a type": second(tried[of[struct {
				A *siteClass `json:"a" nullable:"true"`
			}]](nil)),
			"items": second(tried[of[struct {
				A []*string `json:"a" each:"nullable=true,enum=a,b"`
			}]](nil)),
		} {
			c.wants("the panic for "+what, problem, want)
		}
		text := map[string]any{"type": "string", "nullable": true, "enum": []any{"a", "b"}}
		withNull := map[string]any{"type": "string", "nullable": true, "enum": []any{"a", nil}}
		objects := c.defineSpec("Nullable", map[string]any{
			"plain": text, "listed": withNull, "items": map[string]any{"type": "array", "items": text},
			"free": map[string]any{"type": "string", "nullable": true},
		})
		objects.Create("a", spec(map[string]any{"free": nil, "plain": "a", "items": []any{"b"}}))
		objects.refused("plain", map[string]any{"plain": nil}, "spec.plain")
		objects.refused("listed", map[string]any{"listed": nil}, "spec.listed")
		objects.refused("items", map[string]any{"items": []any{nil}}, "spec.items[0]")
	})
	c.Run(t, "DF-71 a type that cannot be read back is a panic", func(c *C) {
		for problem, want := range map[string]string{
			second(tried[with[writtenOnly]](nil)):         "spec.field: the type contract.writtenOnly has the method MarshalText, but not UnmarshalText",
			second(tried[with[map[*siteKey]string]](nil)): "spec.field: the type map[*contract.siteKey]string has keys of the type *contract.siteKey",
			second(tried[of[struct {
				A kopf.IntOrString `json:"a,omitzero" default:"3000000000"`
			}]](nil)): "spec.a: invalid tag default:\"3000000000\": ",
		} {
			c.wants("the panic", problem, want)
		}
		_, objects := definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Site"})
		for _, port := range []int64{1 << 31, -1<<31 - 1} {
			objects.refused("a port beyond 32 bits", map[string]any{"ports": []any{map[string]any{"name": "a", "port": port}}}, "spec.ports[0].port")
		}
		objects.Create("a", spec(map[string]any{"ports": []any{map[string]any{"name": "a", "port": 1<<31 - 1}, map[string]any{"name": "b", "port": "http"}}}))
	})
	c.Run(t, "DF-84 a method for rules or a schema that returns another type is a panic", func(c *C) {
		const rules = "has no effect: want Rules() []kopf.Rule"
		for problem, want := range map[string]string{
			second(tried[of[textRules]](nil)):       "the method Rules returns []string, and " + rules,
			second(tried[of[namedRules]](nil)):      "the method Rules returns contract.ruleList, and " + rules,
			second(tried[of[pointerRules]](nil)):    "the method Rules returns []*kopf.Rule, and " + rules,
			second(tried[with[plainSchema]](nil)):   "the method Schema returns map[string]interface {}, and has no effect: want Schema() kopf.Schema",
			second(tried[with[*foreignRules]](nil)): "",
		} {
			if want == "" {
				c.same("the panic for methods with another meaning", "", problem)
			} else {
				c.wants("the panic", problem, want)
			}
		}
	})
	c.Run(t, "DF-66 one name for two kinds of a group is a panic", func(c *C) {
		things := &kopf.Definition{
			Group: "example.com", Version: "v1", Kind: "Thing", Plural: "things", ShortNames: []string{"th"},
		}
		for want, other := range map[string]*kopf.Definition{
			`the name "Thing" is also that of things.example.com`:     {Kind: "Thing", Plural: "thingies"},
			`the name "ThingList" is also that of things.example.com`: {Kind: "ThingList", ListKind: "X"},
			`the name "thing" is also that of things.example.com`:     {Kind: "Other", Singular: "thing"},
			`the name "th" is also that of things.example.com`:        {Kind: "Other", Plural: "th"},
			`the name "things" is also that of things.example.com`:    {Kind: "Other", ShortNames: []string{"things"}},
		} {
			r := &kopf.Registry{}
			kopf.DefineIn[site](r, things)
			other.Group, other.Version = "example.com", "v1"
			c.wants("the panic", second(triedIn[site](r, other)), want)
			other.Group = "example.org"
			c.same("the panic in another group", "", second(triedIn[site](r, other)))
		}
	})
	c.Run(t, "DF-66 Install names the conditions of a definition that is not established", func(c *C) {
		c.OnlyInBubble("it waits a minute")
		definedAs[site](c, &kopf.Registry{}, &kopf.Definition{Kind: "Thing", Plural: "things"})
		r := &kopf.Registry{}
		kopf.DefineIn[site](r, &kopf.Definition{
			Group: c.Unique("types.example.com"), Version: "v1", Kind: "Thing", Plural: "thingies", Install: true,
		})
		err := (&kopf.Operator{
			Registry: r, Connection: c.ConnectionInfo(), Namespaces: []string{c.Namespace},
			Logger: slog.New(slog.DiscardHandler),
		}).Run(c.Context())
		c.wants("the error", fmt.Sprint(err), "it is not established after 1m0s", "NamesAccepted is False", "already in use")
	})
}

// The following types have methods that resemble those for kopf.
type (
	textRules    struct{}
	namedRules   struct{}
	pointerRules struct{}
	plainSchema  struct{}
	foreignRules struct{}
	ruleList     []kopf.Rule
)

func (textRules) Rules() []string          { return []string{"true"} }
func (namedRules) Rules() ruleList         { return ruleList{{Rule: "true"}} }
func (pointerRules) Rules() []*kopf.Rule   { return []*kopf.Rule{{Rule: "true"}} }
func (plainSchema) Schema() map[string]any { return map[string]any{"type": "object"} }
func (*foreignRules) Rules() []int         { return nil }
func (*foreignRules) Schema() string       { return "public" }
