package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file knows the structural schemas of resource definitions: it drops from objects what they do not know, adds
// their defaults, and tells what is wrong, in the words of kube-apiserver. A schema is compiled once and only read then.
// See https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/

// schema is one node of a compiled schema.
type schema struct {
	source      map[string]any // as it was written, for OpenAPI
	typ         string
	format      string
	nullable    bool
	preserve    bool // x-kubernetes-preserve-unknown-fields
	intOrString bool
	embedded    bool // an object with APIVersion, kind and metadata of its own
	properties  map[string]*schema
	additional  *schema // of the values of unknown keys, nil if there is none
	anything    bool    // additionalProperties: true
	items       *schema
	fallback    any // the default
	hasFallback bool
	required    []string
	enum        []any
	pattern     *regexp.Regexp
	minimum     *bound
	maximum     *bound
	multipleOf  *float64
	lengths     [6]*int // minLength, maxLength, minItems, maxItems, minProperties, maxProperties
	unique      bool
	listType    string // atomic, set or map
	listKeys    []string
	mapType     string
	builtin     *builtinRules // nil of custom resources
	allOf       []*schema
	anyOf       []*schema
	oneOf       []*schema
	not         *schema
}

type bound struct {
	value     float64
	text      string
	exclusive bool
}

var lengthKeys = [6]string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}

// maxSchemaDepth limits how deep schemas may be nested.
const maxSchemaDepth = 200

// compileSchema reads an OpenAPI schema as it stands in a resource definition.
func compileSchema(openAPIV3Schema map[string]any) (*schema, error) {
	return compileNode(openAPIV3Schema, 0)
}

func compileNode(source map[string]any, depth int) (*schema, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("the schema is nested deeper than %d levels", maxSchemaDepth)
	}
	s := &schema{source: source}
	s.typ = textIn(source, "type")
	s.format = textIn(source, "format")
	s.nullable, s.unique = source["nullable"] == true, source["uniqueItems"] == true
	s.preserve = source["x-kubernetes-preserve-unknown-fields"] == true
	s.intOrString = source["x-kubernetes-int-or-string"] == true
	s.embedded = source["x-kubernetes-embedded-resource"] == true
	s.listType, _ = source["x-kubernetes-list-type"].(string)
	s.mapType, _ = source["x-kubernetes-map-type"].(string)
	s.listKeys, s.required = texts(source["x-kubernetes-list-map-keys"]), texts(source["required"])
	s.enum, _ = source["enum"].([]any)
	s.fallback, s.hasFallback = source["default"]
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

func (s *schema) compileChildren(depth int) (err error) {
	if props := rawjson.AsMap(s.source["properties"]); props != nil {
		s.properties = make(map[string]*schema, len(props))
		for key, v := range props {
			if s.properties[key], err = compileNode(rawjson.AsMap(v), depth); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if s.additional, err = s.child("additionalProperties", depth); err != nil {
		return err
	}
	s.anything = s.source["additionalProperties"] == true
	if s.items, err = s.child("items", depth); err != nil {
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

// child compiles the schema that stands in a member, nil if there is none.
func (s *schema) child(key string, depth int) (*schema, error) {
	m := rawjson.AsMap(s.source[key])
	if m == nil {
		return nil, nil
	}
	return compileNode(m, depth)
}

// choices compiles the list of schemas that stands in a member.
func (s *schema) choices(key string, depth int) (all []*schema, err error) {
	list, _ := s.source[key].([]any)
	for _, v := range list {
		one, err := compileNode(rawjson.AsMap(v), depth)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// prune drops from an object what the schema does not know, and returns the paths of that.
func (s *schema) prune(obj map[string]any) (unknown []string) {
	s.pruneObject(obj, "", true, &unknown)
	slices.Sort(unknown)
	return unknown
}

func (s *schema) pruneValue(v any, at string, unknown *[]string) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		s.pruneObject(v, at, s.embedded, unknown)
	case []any:
		for i, e := range v {
			s.items.pruneValue(e, at+"["+strconv.Itoa(i)+"]", unknown)
		}
	}
}

func (s *schema) pruneObject(obj map[string]any, at string, root bool, unknown *[]string) {
	for key, v := range obj {
		path := strings.TrimPrefix(at+"."+key, ".")
		switch child := s.properties[key]; {
		case root && (key == "apiVersion" || key == "kind" || key == "metadata"):
		case child != nil:
			child.pruneValue(v, path, unknown)
		case s.additional != nil:
			s.additional.pruneValue(v, path, unknown)
		case s.preserve || s.anything:
		default:
			delete(obj, key)
			*unknown = append(*unknown, path)
		}
	}
}

// applyDefaults adds the defaults of what is missing.
func (s *schema) applyDefaults(obj map[string]any) { s.defaults(obj) }

func (s *schema) defaults(v any) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for key, child := range s.properties {
			old, ok := v[key]
			switch unset := ok && old == nil && !child.nullable && child.typ != ""; {
			case child.hasFallback && (!ok || unset):
				v[key] = rawjson.Clone(child.fallback)
			case unset: // a null means nothing there
				delete(v, key)
			}
		}
		for key, e := range v {
			if child := s.properties[key]; child != nil {
				child.defaults(e)
			} else {
				s.additional.defaults(e)
			}
		}
	case []any:
		for _, e := range v {
			s.items.defaults(e)
		}
	}
}

// fieldError is one thing that is wrong with an object.
type fieldError struct {
	typ    string // the reason, such as FieldValueInvalid
	field  string
	detail string
	value  any
}

// message returns the error in the words of kube-apiserver.
func (e fieldError) message() string {
	what, shown := "Invalid value", true
	switch e.typ {
	case "FieldValueRequired":
		what, shown = "Required value", false
	case "FieldValueForbidden":
		what, shown = "Forbidden", false
	case "FieldValueTooLong":
		what, shown = "Too long", false
	case "FieldValueTooMany":
		what = "Too many"
	case "FieldValueNotSupported":
		what = "Unsupported value"
	case "FieldValueDuplicate":
		what = "Duplicate value"
	}
	text := e.field + ": " + what
	if data, err := rawjson.Encode(e.value); shown && err == nil {
		text += ": " + string(data)
	} else if shown {
		text += fmt.Sprintf(": %v", e.value)
	}
	if e.detail != "" {
		text += ": " + e.detail
	}
	return text
}

// validate tells what is wrong with an object. The old one is nil for new objects.
func (s *schema) validate(obj, old map[string]any) []fieldError {
	v := &schemaValidator{}
	v.object(s, obj, "", true)
	slices.SortStableFunc(v.faults, func(a, b fieldError) int { return cmp.Compare(a.field, b.field) })
	return v.faults
}

// withFault adds to what is wrong. Inlined at each of its many callers, it would be a large part of the binary.
func withFault(faults []fieldError, typ, field string, value any, detail string) []fieldError {
	return append(faults, fieldError{typ: typ, field: field, value: value, detail: detail})
}

// withFaults adds all that another check has found, likewise.
func withFaults(faults, more []fieldError) []fieldError { return append(faults, more...) }

// validateStatus tells what is wrong with the status of an object alone. The messages name its fields without it.
func (s *schema) validateStatus(obj map[string]any) []fieldError {
	status, ok := obj["status"]
	if !ok || s.properties["status"] == nil {
		return nil
	}
	v := &schemaValidator{}
	v.value(s.properties["status"], status, "")
	for i, f := range v.faults {
		v.faults[i].field = strings.TrimSuffix("status."+f.field, ".")
	}
	return v.faults
}

// schemaValidator collects what is wrong.
type schemaValidator struct{ faults []fieldError }

func (v *schemaValidator) fault(typ, at string, value any, format string, args ...any) {
	v.faults = withFault(v.faults, typ, at, value, fmt.Sprintf(format, args...))
}

// typeOf returns the name of a value's type in OpenAPI.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if isWhole(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func isWhole(n json.Number) bool {
	if _, err := n.Int64(); err == nil {
		return true
	}
	f, err := n.Float64()
	return err == nil && f == math.Trunc(f) && math.Abs(f) < 1e300
}

func (v *schemaValidator) value(s *schema, value any, at string) {
	if s == nil {
		return
	}
	if value == nil {
		if !s.nullable && s.typ != "" {
			v.fault("FieldValueTypeInvalid", at, "null", `%s in body must be of type %s: "null"`, at, s.typ)
			v.choice(s, nil, at)
		}
		return
	}
	typ := typeOf(value)
	switch {
	case s.intOrString:
		if typ != "integer" && typ != "string" {
			v.fault("FieldValueTypeInvalid", at, typ, "%s in body must be of type integer,string: %q", at, typ)
			return
		}
	case s.typ != "" && s.typ != typ && !(s.typ == "number" && typ == "integer"):
		if s.typ == "integer" && typ == "number" {
			v.fault("FieldValueInvalid", "<nil>", "", "Checked value must be of type integer (default format) in %s", at)
		}
		v.fault("FieldValueTypeInvalid", at, typ, "%s in body must be of type %s: %q", at, s.typ, typ)
		return
	}
	switch value := value.(type) {
	case map[string]any:
		v.object(s, value, at, s.embedded)
	case []any:
		v.list(s, value, at)
	case string:
		v.text(s, value, at)
	case json.Number:
		v.number(s, value, at)
	}
	v.choice(s, value, at)
	v.logic(s, value, at)
}

func (v *schemaValidator) object(s *schema, obj map[string]any, at string, root bool) {
	v.length(s, 4, len(obj), at, obj, "properties")
	for _, key := range s.required {
		if _, ok := obj[key]; !ok {
			v.faults = withFault(v.faults, "FieldValueRequired", strings.TrimPrefix(at+"."+key, "."), nil, "")
		}
	}
	for _, key := range rawjson.UnionKeys(obj, nil) {
		if root && (key == "apiVersion" || key == "kind" || key == "metadata") {
			continue
		}
		if child := s.properties[key]; child != nil {
			v.value(child, obj[key], strings.TrimPrefix(at+"."+key, "."))
		} else if s.additional != nil {
			v.value(s.additional, obj[key], strings.TrimPrefix(at+"."+key, "."))
		}
	}
	if at == "" {
		v.logic(s, obj, at)
	}
}

func (v *schemaValidator) list(s *schema, list []any, at string) {
	v.length(s, 2, len(list), at, list, "items")
	for i, e := range list {
		v.value(s.items, e, at+"["+strconv.Itoa(i)+"]")
	}
	if s.listType != "set" && s.listType != "map" && !s.unique {
		return
	}
	for i, e := range list {
		if slices.ContainsFunc(list[:i], func(other any) bool { return s.sameItem(e, other) }) {
			v.fault("FieldValueDuplicate", at+"["+strconv.Itoa(i)+"]", s.itemKey(e), "")
		}
	}
}

// sameItem tells whether two items of a list are the same one: by their keys, or by all they are.
func (s *schema) sameItem(a, b any) bool {
	return rawjson.Equal(s.itemKey(a), s.itemKey(b))
}

func (s *schema) itemKey(v any) any {
	m := rawjson.AsMap(v)
	if s.listType != "map" || m == nil {
		return v
	}
	key := make(map[string]any)
	for _, k := range s.listKeys {
		if value, ok := m[k]; ok {
			key[k] = value
		} else if s.items != nil && s.items.properties[k] != nil && s.items.properties[k].hasFallback {
			key[k] = s.items.properties[k].fallback
		}
	}
	return key
}

// length checks one pair of limits.
func (v *schemaValidator) length(s *schema, first, n int, at string, value any, noun string) {
	if least := s.lengths[first]; least != nil && n < *least {
		v.fault("FieldValueInvalid", at, value, "%s in body should have at least %d %s", at, *least, noun)
	}
	if most := s.lengths[first+1]; most != nil && n > *most {
		v.fault("FieldValueTooMany", at, json.Number(strconv.Itoa(n)), "must have at most %d %s", *most, noun)
	}
}

func (v *schemaValidator) text(s *schema, text, at string) {
	n := utf8.RuneCountInString(text)
	if least := s.lengths[0]; least != nil && n < *least {
		v.fault("FieldValueInvalid", at, text, "%s in body should be at least %d chars long", at, *least)
	}
	if most := s.lengths[1]; most != nil && n > *most {
		v.fault("FieldValueTooLong", at, text, "may not be more than %d bytes", *most)
	}
	if s.pattern != nil && !s.pattern.MatchString(text) {
		v.fault("FieldValueInvalid", at, text, "%s in body should match '%s'", at, s.pattern)
	}
	if !fitsFormat(s.format, text) {
		v.fault("FieldValueInvalid", at, text, "%s in body must be of type %s: %q", at, s.format, text)
	}
}

// fitsFormat checks the formats that are common in resource definitions; others are not checked.
func fitsFormat(format, text string) bool {
	var err error
	switch format {
	case "date-time":
		_, err = time.Parse(time.RFC3339Nano, text)
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "duration":
		_, err = time.ParseDuration(text)
	case "ipv4":
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil && !a.Is4() {
			return false
		}
	case "ipv6":
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil && !a.Is6() {
			return false
		}
	case "cidr":
		_, err = netip.ParsePrefix(text)
	}
	return err == nil
}

func (v *schemaValidator) number(s *schema, n json.Number, at string) {
	f, err := n.Float64()
	if err != nil {
		return
	}
	if b := s.minimum; b != nil && (f < b.value || b.exclusive && f == b.value) {
		v.fault("FieldValueInvalid", at, n, "%s in body should be greater than %s%s", at, orEqual(b), b.text)
	}
	if b := s.maximum; b != nil && (f > b.value || b.exclusive && f == b.value) {
		v.fault("FieldValueInvalid", at, n, "%s in body should be less than %s%s", at, orEqual(b), b.text)
	}
	if m := s.multipleOf; m != nil && *m != 0 && math.Mod(f, *m) != 0 {
		v.fault("FieldValueInvalid", at, n, "%s in body should be a multiple of %v", at, *m)
	}
	if i, err := n.Int64(); s.format == "int32" && err == nil && int64(int32(i)) != i {
		v.fault("FieldValueInvalid", at, n, "%s in body must be of type int32: %q", at, "integer")
	}
}

func orEqual(b *bound) string {
	if b.exclusive {
		return ""
	}
	return "or equal to "
}

func (v *schemaValidator) choice(s *schema, value any, at string) {
	if len(s.enum) == 0 || slices.ContainsFunc(s.enum, func(e any) bool { return rawjson.Equal(e, value) }) {
		return
	}
	var all []string
	for _, e := range s.enum {
		data, _ := rawjson.Encode(e) // it was JSON
		all = append(all, string(data))
	}
	v.fault("FieldValueNotSupported", at, value, "supported values: %s", strings.Join(all, ", "))
}

// logic checks the combinations of schemas.
func (v *schemaValidator) logic(s *schema, value any, at string) {
	for _, child := range s.allOf {
		v.value(child, value, at)
	}
	fits := func(all []*schema) (n int) {
		for _, child := range all {
			inner := &schemaValidator{}
			if inner.value(child, value, at); len(inner.faults) == 0 {
				n++
			}
		}
		return n
	}
	shown := any("")
	if at != "" {
		shown = value
	}
	if len(s.anyOf) > 0 && fits(s.anyOf) == 0 {
		v.fault("FieldValueInvalid", at, shown, "%s in body must validate at least one schema (anyOf)", strings.TrimPrefix(at, "."))
	}
	if n := fits(s.oneOf); len(s.oneOf) > 0 && n != 1 {
		v.fault("FieldValueInvalid", at, shown, "%s in body must validate one and only one schema (oneOf). Found %s valid alternatives", at, countWord(n))
	}
	if s.not != nil && fits([]*schema{s.not}) == 1 {
		v.fault("FieldValueInvalid", at, shown, "%s in body must not validate the schema (not)", at)
	}
}

func countWord(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}
