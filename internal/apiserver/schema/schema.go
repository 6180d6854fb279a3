// Package schema compiles the structural schemas of CRDs. A schema prunes an object, adds defaults
// to it, and validates it, with the error messages of kube-apiserver. A compiled schema is
// read-only.
//
// See
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Schema is one node of a compiled schema.
type Schema struct {
	Source          map[string]any // the source in the CRD, for OpenAPI
	Type            string
	Format          string
	nullable        bool
	PreserveUnknown bool // x-kubernetes-preserve-unknown-fields
	IntOrString     bool
	Embedded        bool // x-kubernetes-embedded-resource
	Properties      map[string]*Schema
	Additional      *Schema // for the values of keys that are not properties, nil if there is none
	AnyAdditional   bool    // additionalProperties: true
	Items           *Schema
	Default         any
	HasDefault      bool
	Required        []string
	enum            []any
	pattern         *regexp.Regexp
	minimum         *bound
	maximum         *bound
	multipleOf      *float64
	lengths         [6]*int // minLength, maxLength, minItems, maxItems, minProperties, maxProperties
	unique          bool
	ListType        string // atomic, set or map
	ListKeys        []string
	MapType         string
	Builtin         *BuiltinRules // nil in schemas of CRDs
	allOf           []*Schema
	anyOf           []*Schema
	oneOf           []*Schema
	not             *Schema
}

// bound is a minimum or a maximum.
type bound struct {
	value     float64
	text      string
	exclusive bool
}

var lengthKeys = [6]string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}

// maxSchemaDepth is the maximum depth of a schema.
const maxSchemaDepth = 200

// Compile compiles the openAPIV3Schema of a CRD. It returns an error if the schema is too deep, or has an invalid pattern.
func Compile(openAPIV3Schema map[string]any) (*Schema, error) {
	return compileNode(openAPIV3Schema, 0)
}

func compileNode(source map[string]any, depth int) (*Schema, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("the schema is nested deeper than %d levels", maxSchemaDepth)
	}
	s := &Schema{Source: source}
	s.Type = unstructured.Text(source, "type")
	s.Format = unstructured.Text(source, "format")
	s.nullable, s.unique = source["nullable"] == true, source["uniqueItems"] == true
	s.PreserveUnknown = source["x-kubernetes-preserve-unknown-fields"] == true
	s.IntOrString = source["x-kubernetes-int-or-string"] == true
	s.Embedded = source["x-kubernetes-embedded-resource"] == true
	s.ListType, _ = source["x-kubernetes-list-type"].(string)
	s.MapType, _ = source["x-kubernetes-map-type"].(string)
	s.ListKeys, s.Required = unstructured.Texts(source["x-kubernetes-list-map-keys"]), unstructured.Texts(source["required"])
	s.enum, _ = source["enum"].([]any)
	s.Default = source["default"]
	s.HasDefault = s.Default != nil
	for i, key := range lengthKeys {
		if n, ok := source[key].(json.Number); ok {
			if v, err := strconv.Atoi(n.String()); err == nil {
				s.lengths[i] = &v
			}
		}
	}
	s.minimum, s.maximum = boundOf(source, "minimum", "exclusiveMinimum"), boundOf(source, "maximum", "exclusiveMaximum")
	if n, ok := source["multipleOf"].(json.Number); ok {
		if v, err := n.Float64(); err == nil {
			s.multipleOf = &v
		}
	}
	if text, ok := source["pattern"].(string); ok {
		pattern, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", text, err)
		}
		s.pattern = pattern
	}
	return s, s.compileChildren(depth + 1)
}

func boundOf(source map[string]any, key, exclusive string) *bound {
	n, ok := source[key].(json.Number)
	if !ok {
		return nil
	}
	v, err := n.Float64()
	if err != nil {
		return nil
	}
	return &bound{v, n.String(), source[exclusive] == true}
}

func (s *Schema) compileChildren(depth int) (err error) {
	if props := rawjson.AsMap(s.Source["properties"]); props != nil {
		s.Properties = make(map[string]*Schema, len(props))
		for key, v := range props {
			if s.Properties[key], err = compileNode(rawjson.AsMap(v), depth); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if s.Additional, err = s.child("additionalProperties", depth); err != nil {
		return err
	}
	s.AnyAdditional = s.Source["additionalProperties"] == true
	if s.Items, err = s.child("items", depth); err != nil {
		return err
	}
	if s.not, err = s.child("not", depth); err != nil {
		return err
	}
	if s.allOf, err = s.choices("allOf", depth); err != nil {
		return err
	}
	if s.anyOf, err = s.choices("anyOf", depth); err != nil {
		return err
	}
	s.oneOf, err = s.choices("oneOf", depth)
	return err
}

// child compiles the schema at a key. It returns nil if there is none.
func (s *Schema) child(key string, depth int) (*Schema, error) {
	m := rawjson.AsMap(s.Source[key])
	if m == nil {
		return nil, nil
	}
	return compileNode(m, depth)
}

// choices compiles the list of schemas at a key.
func (s *Schema) choices(key string, depth int) (all []*Schema, err error) {
	list, _ := s.Source[key].([]any)
	for _, v := range list {
		one, err := compileNode(rawjson.AsMap(v), depth)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// BuiltinRules specify how strategic merge patches treat a field of a built-in kind.
type BuiltinRules struct {
	Name     string // the name of the type
	Package  string // the Go package of the type, such as v1
	Merge    bool   // whether the list is merged by the key of its items
	MergeKey string // "" for scalars
	Replace  bool   // whether the field is replaced as a whole
}

// Rules returns how strategic merge patches treat a field. A nil schema has no rules.
func (s *Schema) Rules() BuiltinRules {
	if s == nil || s.Builtin == nil {
		return BuiltinRules{}
	}
	return *s.Builtin
}
