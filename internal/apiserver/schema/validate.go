package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Validate returns the errors in an object. For a change, with an old object, it returns only the errors in changed values. See
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-ratcheting
func (s *Schema) Validate(obj, old map[string]any) []field.Error {
	v := &validator{}
	v.logic(s, obj, "")
	v.object(s, obj, previous{old, old != nil}, "", true)
	slices.SortStableFunc(v.faults, func(a, b field.Error) int { return cmp.Compare(sortedAs(a), sortedAs(b)) })
	return v.faults
}

// sortedAs returns the path for sorting an error.
func sortedAs(f field.Error) string {
	if rest, ok := strings.CutPrefix(f.Detail, `"`); f.Path == nowhere && ok {
		path, _, _ := strings.Cut(rest, `"`)
		return path
	}
	if f.Path == nowhere {
		return f.Detail[strings.LastIndex(f.Detail, " ")+1:]
	}
	return f.Path
}

// ValidateStatus returns the errors in the status of an object. The details omit the prefix "status" of its fields.
func (s *Schema) ValidateStatus(obj, old map[string]any) []field.Error {
	status, ok := obj["status"]
	if !ok || s.Properties["status"] == nil {
		return nil
	}
	v := &validator{}
	v.value(s.Properties["status"], status, previous{old, old != nil}.at("status"), "")
	for i, f := range v.faults {
		v.faults[i].Path = strings.TrimSuffix("status."+f.Path, ".")
	}
	return v.faults
}

// validator collects errors.
type validator struct {
	faults  []field.Error
	checked int // the number of values, including nested ones
}

// previous is a value of the old object, if there is one.
type previous struct {
	value any
	there bool
}

// at returns the value at a key of an object.
func (p previous) at(key string) previous {
	value, there := rawjson.AsMap(p.value)[key]
	return previous{value, there}
}

// item returns the item of the old list that corresponds to an item of the new one. Only lists with keys have such items.
func (p previous) item(s *Schema, now any) previous {
	list, _ := p.value.([]any)
	if s.ListType != "map" {
		return previous{}
	}
	i := slices.IndexFunc(list, func(e any) bool { return s.sameItem(e, now) })
	if i < 0 {
		return previous{}
	}
	return previous{list[i], true}
}

func (v *validator) fault(typ, at string, value any, format string, args ...any) {
	v.faults = append(v.faults, field.Error{Reason: typ, Path: at, Value: value, Detail: fmt.Sprintf(format, args...)})
}

func (v *validator) value(s *Schema, value any, old previous, at string) {
	if s == nil || old.there && rawjson.Equal(value, old.value) {
		return
	}
	v.checked++
	if value == nil {
		if !s.nullable && s.Type != "" {
			v.fault(field.ReasonTypeInvalid, at, "null", `%s in body must be of type %s: "null"`, at, s.Type)
		}
		v.choice(s, nil, at)
		return
	}
	typ := TypeOf(value)
	switch {
	case s.IntOrString:
		if typ != "integer" && typ != "string" {
			v.fault(field.ReasonTypeInvalid, at, typ, "%s in body must be of type integer,string: %q", at, typ)
			return
		}
	case s.Type != "" && s.Type != typ && !(s.Type == "number" && typ == "integer"):
		v.wrongType(s, typ, at)
		return
	}
	v.logic(s, value, at)
	switch value := value.(type) {
	case map[string]any:
		v.object(s, value, old, at, s.Embedded)
	case []any:
		v.list(s, value, old, at)
	case string:
		v.text(s, value, at)
	case json.Number:
		v.number(s, value, at)
	}
	v.choice(s, value, at)
}

// wrongType adds the errors of a value of the wrong type.
func (v *validator) wrongType(s *Schema, typ, at string) {
	if s.Type != "integer" || typ != "number" {
		v.fault(field.ReasonTypeInvalid, at, typ, "%s in body must be of type %s: %q", at, s.Type, typ)
		return
	}
	want := "integer"
	if format := numberFormat(s); format != "" {
		want, typ = format, "float64"
	}
	v.fault(field.ReasonTypeInvalid, at, typ, "%s in body must be of type %s: %q", at, want, typ)
	v.wrongNumber(s, at)
}

// nowhere is the path in the errors of numbers, whose details contain the path.
const nowhere = "<nil>"

func (v *validator) wrongNumber(s *Schema, at string) {
	format := "(default format)"
	if f := numberFormat(s); f != "" {
		format = "with format " + f
	}
	v.fault(field.ReasonInvalid, nowhere, "", "Checked value must be of type %s %s in %s", s.Type, format, at)
}

// numberFormat returns the checked format of numbers, "" if there is none.
func numberFormat(s *Schema) string {
	if s.Format != "" && s.Type != "string" && KnownFormat(s.Type, s.Format) {
		return s.Format
	}
	return ""
}

func (v *validator) object(s *Schema, obj map[string]any, old previous, at string, root bool) {
	v.length(s, 4, len(obj), at, "properties")
	for _, key := range s.Required {
		if _, ok := obj[key]; !ok {
			v.faults = append(v.faults, field.Required(strings.TrimPrefix(at+"."+key, "."), ""))
		}
	}
	for _, key := range rawjson.UnionKeys(obj, nil) {
		if root && (key == "apiVersion" || key == "kind" || key == "metadata") {
			continue
		}
		if child := s.Properties[key]; child != nil {
			v.value(child, obj[key], old.at(key), strings.TrimPrefix(at+"."+key, "."))
		} else if s.Additional != nil {
			v.value(s.Additional, obj[key], old.at(key), strings.TrimPrefix(at+"."+key, "."))
		}
	}
}

func (v *validator) list(s *Schema, list []any, old previous, at string) {
	v.length(s, 2, len(list), at, "items")
	for i, e := range list {
		v.value(s.Items, e, old.item(s, e), at+"["+strconv.Itoa(i)+"]")
	}
	if s.ListType != "set" && s.ListType != "map" && !s.unique {
		return
	}
	for i, e := range list {
		if slices.ContainsFunc(list[:i], func(other any) bool { return s.sameItem(e, other) }) {
			v.fault(field.ReasonDuplicate, at+"["+strconv.Itoa(i)+"]", s.itemKey(e), "")
		}
	}
}

// length checks one pair of limits, which begins at an index of the lengths.
func (v *validator) length(s *Schema, first, n int, at, noun string) {
	number := json.Number(strconv.Itoa(n))
	if least := s.lengths[first]; least != nil && n < *least {
		v.fault(field.ReasonInvalid, at, number, "%s in body should have at least %d %s", at, *least, noun)
	}
	if most := s.lengths[first+1]; most != nil && n > *most {
		v.faults = append(v.faults, field.TooMany(at, n, *most))
	}
}

func (v *validator) text(s *Schema, text, at string) {
	least, most := s.lengths[0], s.lengths[1]
	switch n := utf8.RuneCountInString(text); { // kube-apiserver reports only the first of these
	case most != nil && n > *most:
		v.fault(field.ReasonTooLong, at, text, "may not be more than %s", field.Count(*most, "byte"))
	case least != nil && n < *least:
		v.fault(field.ReasonInvalid, at, text, "%s in body should be at least %d chars long", at, *least)
	case s.pattern != nil && !s.pattern.MatchString(text):
		v.fault(field.ReasonInvalid, at, text, "%s in body should match '%s'", at, s.pattern)
	}
	if (s.Type == "" || s.Type == "string") && !fitsFormat(s.Format, text) {
		v.fault(field.ReasonTypeInvalid, at, text, "%s in body must be of type %s: %q", at, s.Format, text)
	}
}

func (v *validator) number(s *Schema, n json.Number, at string) {
	f, err := n.Float64()
	if err != nil {
		return
	}
	if m := s.multipleOf; m != nil && *m != 0 && math.Mod(f, *m) != 0 {
		v.fault(field.ReasonInvalid, at, n, "%s in body should be a multiple of %v", at, *m)
	}
	if b := s.maximum; b != nil && (f > b.value || b.exclusive && f == b.value) {
		v.fault(field.ReasonInvalid, at, n, "%s in body should be less than %s%s", at, orEqual(b), b.text)
	}
	if b := s.minimum; b != nil && (f < b.value || b.exclusive && f == b.value) {
		v.fault(field.ReasonInvalid, at, n, "%s in body should be greater than %s%s", at, orEqual(b), b.text)
	}
	switch i, err := n.Int64(); {
	case s.Type == "integer" && s.Format == "int32" && err == nil && int64(int32(i)) != i, s.Type == "number" && s.Format == "float" && math.Abs(f) > math.MaxFloat32:
		v.wrongNumber(s, at)
	}
}

// choice checks the enum. It never allows null, not even one that contains null.
func (v *validator) choice(s *Schema, value any, at string) {
	same := func(e any) bool { return value != nil && rawjson.Equal(e, value) }
	if len(s.enum) == 0 || slices.ContainsFunc(s.enum, same) {
		return
	}
	var all []string
	for _, e := range s.enum {
		text := unstructured.Word(e)
		if text == "" {
			data, _ := rawjson.Encode(e) // it was JSON
			text = string(data)
		}
		all = append(all, strconv.Quote(text))
	}
	v.fault(field.ReasonNotSupported, at, value, "supported values: %s", strings.Join(all, ", "))
}

// logic checks anyOf, oneOf, allOf and not.
func (v *validator) logic(s *Schema, value any, at string) {
	wrong := func(format string, args ...any) {
		v.fault(field.ReasonInvalid, nowhere, "", strconv.Quote(at)+" must "+format, args...)
	}
	if fits, closest := alternatives(s.anyOf, value, at); len(s.anyOf) > 0 && fits == 0 {
		wrong("validate at least one schema (anyOf)")
		v.faults = append(v.faults, closest...)
	}
	switch fits, closest := alternatives(s.oneOf, value, at); {
	case len(s.oneOf) == 0:
	case fits == 0:
		wrong("validate one and only one schema (oneOf). Found none valid")
		v.faults = append(v.faults, closest...)
	case fits > 1:
		wrong("validate one and only one schema (oneOf). Found %d valid alternatives", fits)
	}
	fits := 0
	for _, child := range s.allOf {
		inner := &validator{}
		if inner.value(child, value, previous{}, at); len(inner.faults) == 0 {
			fits++
		}
		v.faults = append(v.faults, inner.faults...)
	}
	switch {
	case fits == 0 && fits < len(s.allOf):
		wrong("validate all the schemas (allOf). None validated")
	case fits < len(s.allOf):
		wrong("validate all the schemas (allOf)")
	}
	if s.not != nil {
		if fits, _ := alternatives([]*Schema{s.not}, value, at); fits == 1 {
			wrong("not validate the schema (not)")
		}
	}
}

// alternatives returns the number of schemas that a value fits, and the errors of the closest other schema. That is the first one of those that
// declare the most values.
func alternatives(all []*Schema, value any, at string) (fits int, closest []field.Error) {
	most := 0
	for _, child := range all {
		inner := &validator{}
		inner.value(child, value, previous{}, at)
		if len(inner.faults) == 0 {
			fits++
		} else if inner.checked > most {
			most, closest = inner.checked, inner.faults
		}
	}
	return fits, closest
}

// TypeOf returns the name of a value's type in OpenAPI.
func TypeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if IsWhole(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// IsWhole reports whether a number is an integer, in any notation.
func IsWhole(n json.Number) bool {
	if _, err := n.Int64(); err == nil {
		return true
	}
	f, err := n.Float64()
	return err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// sameItem reports whether two items of a list have equal keys, or are equal if the list has no keys.
func (s *Schema) sameItem(a, b any) bool {
	return rawjson.Equal(s.itemKey(a), s.itemKey(b))
}

func (s *Schema) itemKey(v any) any {
	m := rawjson.AsMap(v)
	if s.ListType != "map" || m == nil {
		return v
	}
	key := make(map[string]any)
	for _, k := range s.ListKeys {
		if value, ok := m[k]; ok {
			key[k] = value
		} else if s.Items != nil && s.Items.Properties[k] != nil && s.Items.Properties[k].HasDefault {
			key[k] = s.Items.Properties[k].Default
		}
	}
	return key
}

func orEqual(b *bound) string {
	if b.exclusive {
		return ""
	}
	return "or equal to "
}

// FitsScalar reports whether a scalar has the type of the schema for managedFields: all numbers are one type, and a field with a format accepts any scalar.
func (s *Schema) FitsScalar(v any) bool {
	typ := TypeOf(v)
	switch s.Type {
	case "object", "array":
		return false
	case "string":
		return typ == "string" || s.Format != "" && s.Format != "byte"
	case "integer", "number":
		return typ == "integer" || typ == "number"
	case "boolean":
		return typ == "boolean"
	}
	return true
}
