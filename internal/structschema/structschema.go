// Package structschema generates the structural schemas of custom resources from Go types, by reflection and struct tags. The output is deterministic. See
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
package structschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Rule is a rule in CEL. The public package has a copy of this type.
type Rule struct {
	Rule              string `json:"rule"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
	Reason            string `json:"reason,omitempty"`
	FieldPath         string `json:"fieldPath,omitempty"`
	OptionalOldSelf   bool   `json:"optionalOldSelf,omitempty"`
}

// Description is the description of a type by its methods. The zero value is that of a type without such methods.
type Description struct {
	Schema map[string]any // the complete schema
	Rules  []Rule
	Atomic bool // an object of it is replaced as a whole
}

// Describe returns the description of a type, given a pointer to its zero value.
type Describe func(pointer any) Description

// Kind is the schema of a kind, with its printer columns and selectable fields.
type Kind struct {
	Schema     map[string]any // decoded JSON
	Columns    []Column       // in the order of the fields
	Selectable []string       // JSON paths, in the order of the fields
	HasStatus  bool
	Warnings   []string
}

// Column is a printer column.
type Column struct {
	Name, Type, Format, Path, Description string
	Priority                              int
}

// Options are the options of a schema.
type Options struct {
	Meta     reflect.Type // of the embedded metadata
	Describe Describe
	// EmbeddedObjectMeta generates the fields of a nested metav1.ObjectMeta, as controller-gen's
	// option generateEmbeddedObjectMeta does. Without them, API servers drop its labels.
	EmbeddedObjectMeta bool
}

// Of returns the schema of a kind, from a struct that embeds the metadata type and has a spec and a
// status. Errors begin with the path of the field.
func Of(t reflect.Type, o Options) (*Kind, error) {
	b := &builder{options: o, kind: &Kind{}}
	if err := b.kindOf(t, o.Meta); err != nil {
		return nil, err
	}
	return b.kind, nil
}

type builder struct {
	options Options
	kind    *Kind
	open    []reflect.Type // types that contain the present one
}

// place is the place of a schema in the object.
type place struct {
	path       string // for messages
	json       string // for columns
	inside     bool   // in a list or a map, which JSON paths cannot enter
	unmatched  bool   // without a comparable old value: an item of a list without keys
	unbounded  string // the enclosing list or map without a maximum; "" for none
	noDefaults bool   // generate no default
	inStatus   bool   // in the status, where no field is required
	byValue    bool   // in a map value, which is not addressable for encoding/json
	keys       []any  // of the list that it is an item of
}

// field returns the place of a field.
func (p place) field(name string) place {
	p.keys = nil
	p.path = strings.TrimPrefix(p.path+"."+name, ".")
	p.json += "." + strings.ReplaceAll(name, ".", `\.`)
	return p
}

// fault prefixes an error with the path, unless it has one.
func (p place) fault(err error) error {
	if err == nil || errtype.As(err, new(*placedError)) {
		return err
	}
	return &placedError{p.path, err}
}

type placedError struct {
	path string
	err  error
}

func (e *placedError) Error() string { return e.path + ": " + e.err.Error() }

func (e *placedError) Unwrap() error { return e.err }

// kindOf makes the schema of the whole object.
func (b *builder) kindOf(t, meta reflect.Type) error {
	const want = "want a struct with %s embedded, and at most the fields spec and status of struct types"
	if t.Kind() == reflect.Pointer {
		return fmt.Errorf("%s is a pointer: want the struct %s", t, t.Elem())
	}
	if t.Kind() != reflect.Struct {
		return fmt.Errorf("%s is no struct: "+want, t, meta)
	}
	b.open = append(b.open, t)
	embedded := false
	own := make([]field, 0, 2)
	for i := range t.NumField() {
		f := t.Field(i)
		switch read, err := newField(f); {
		case err != nil:
			return (&place{path: f.Name}).fault(err)
		case f.Anonymous && f.Type == meta && read.name == f.Name:
			embedded = true
		case read.name == "":
		case read.name != "spec" && read.name != "status" || read.typ.Kind() != reflect.Struct:
			return fmt.Errorf("%s, in JSON %q, is %s: "+want, f.Name, read.name, f.Type, meta)
		default:
			own = append(own, read)
			b.kind.HasStatus = b.kind.HasStatus || read.name == "status"
		}
	}
	if !embedded {
		return fmt.Errorf("%s has no %s: "+want, t, meta, meta)
	}
	schema, guards, err := b.object(own, place{})
	if err != nil {
		return err
	}
	for _, name := range []string{"apiVersion", "kind"} {
		rawjson.AsMap(schema["properties"])[name] = map[string]any{"type": "string"}
	}
	rawjson.AsMap(schema["properties"])["metadata"] = map[string]any{"type": "object"}
	for _, f := range own {
		if s := rawjson.AsMap(rawjson.AsMap(schema["properties"])[f.name]); s["type"] != "object" {
			return fmt.Errorf("%s: the type %s is %s in JSON: want an object", f.name, f.typ, typeOf(s))
		}
	}
	d, err := b.descriptionOf(t)
	if err != nil {
		return err
	}
	b.kind.Schema = schema
	return place{path: t.Name()}.fault(b.addRules(schema, append(d.Rules, guards.rules...), place{path: t.Name()}))
}

// field is a field of a struct, as encoding/json encodes it.
type field struct {
	name  string // "" if it is not encoded
	typ   reflect.Type
	tags  tags
	depth int  // of embedding
	named bool // the tag has the name

	omitEmpty, omitZero bool // the options of the tag json
}

func newField(f reflect.StructField) (field, error) {
	t, err := readTags(string(f.Tag))
	if err != nil {
		return field{}, err
	}
	name, options, _ := strings.Cut(t.json, ",")
	all := strings.Split(options, ",")
	r := field{name: f.Name, typ: f.Type, tags: t, named: name != ""}
	r.omitEmpty, r.omitZero = slices.Contains(all, "omitempty"), slices.Contains(all, "omitzero")
	if name != "" {
		r.name = name
	}
	embedsStruct := f.Anonymous && indirect(f.Type).Kind() == reflect.Struct
	switch ignored := !f.IsExported() && !embedsStruct; {
	case ignored && (t.json != "" && t.json != "-" || len(t.values) > 0):
		return r, fmt.Errorf("the field is not exported, so it is not in JSON, but it has the tag %q", append(rawjson.SortedKeys(t.values), "json")[0])
	case t.json == "-" && len(t.values) > 0:
		return r, fmt.Errorf("the field is not in JSON, but has the tag %q", rawjson.SortedKeys(t.values)[0])
	case ignored || t.json == "-":
		r.name = ""
		return r, nil
	}
	return r, t.checkJSON(name, all, f.Anonymous)
}

// inlines reports whether the fields of an embedded struct belong to the enclosing struct.
func (f *field) inlines(embedded bool) bool { return embedded && !f.named && f.name != "" }

// indirect returns the type that a pointer points to, or any other type unchanged.
func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// fieldsOf returns the fields of a struct, with those of embedded structs, in order. As in encoding/json, outer fields hide deeper ones.
func fieldsOf(t reflect.Type, depth int, at place) (all []field, err error) {
	if depth > maxEmbedding {
		return nil, at.fault(fmt.Errorf("the type %s contains itself", t))
	}
	for i := range t.NumField() {
		f := t.Field(i)
		read, err := newField(f)
		read.depth = depth
		read.tags.addMarkers(t, f.Type, read.name)
		switch inlined := read.inlines(f.Anonymous); {
		case err != nil:
			return nil, at.field(f.Name).fault(err)
		case read.name == "":
		case inlined && f.Type.Kind() == reflect.Pointer:
			return nil, at.field(f.Name).fault(errors.New("an embedded pointer is not supported: want the struct itself, or a name in the tag json"))
		case inlined && f.Type.Kind() == reflect.Struct:
			if len(read.tags.values) > 0 {
				return nil, at.field(f.Name).fault(fmt.Errorf("the tag %q does not fit: the struct is embedded", rawjson.SortedKeys(read.tags.values)[0]))
			}
			inner, err := fieldsOf(f.Type, depth+1, at)
			if err != nil {
				return nil, err
			}
			all = append(all, inner...)
		default:
			all = append(all, read)
		}
	}
	return all, nil
}

// maxEmbedding is the maximum depth of embedded structs.
const maxEmbedding = 32

// dominant removes the hidden fields. It returns an error if two fields have the same name.
func dominant(all []field, at place) (seen []field, err error) {
	for _, f := range all {
		hidden := false
		for _, other := range all {
			if other.name != f.name {
				continue
			}
			hidden = hidden || other.depth < f.depth || other.depth == f.depth && other.named && !f.named
		}
		if !hidden && slices.ContainsFunc(seen, func(o field) bool { return o.name == f.name }) {
			return nil, at.field(f.name).fault(errors.New("two fields have this name"))
		}
		if !hidden {
			seen = append(seen, f)
		}
	}
	return seen, nil
}

// object returns the schema for the fields of a struct.
func (b *builder) object(fields []field, at place) (map[string]any, guards, error) {
	properties, required := make(map[string]any), []any{}
	var removals guards
	for _, f := range fields {
		here := at.field(f.name)
		if at.path == "" && f.name == "status" {
			here.noDefaults, here.inStatus = true, true
			if f.tags.values["required"] == "true" {
				return nil, guards{}, here.fault(errors.New(`the tag required:"true" does not fit: API servers take the status away from new objects`))
			}
		}
		schema, inner, err := b.schema(f.typ, f.tags, here)
		if err != nil {
			return nil, guards{}, here.fault(err)
		}
		if f.tags.values["required"] != "true" && f.typ.Kind() == reflect.Struct && !here.noDefaults && allHaveDefaults(schema) {
			if _, ok := schema["default"]; !ok {
				schema["default"] = emptyDefault(schema)
			}
		}
		isRequired, err := f.isRequired(schema, here.inStatus && !slices.Contains(at.keys, any(f.name)))
		if err == nil {
			_, present := schema["default"]
			err = removals.add(f.name, isRequired || present, inner)
		}
		if err != nil {
			return nil, guards{}, here.fault(err)
		}
		if isRequired {
			required = append(required, f.name)
		}
		properties[f.name] = schema
	}
	schema := map[string]any{"type": "object"}
	if len(properties) > 0 || at.path == "" {
		schema["properties"] = properties
	}
	if len(required) > 0 {
		slices.SortFunc(required, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		schema["required"] = required
	}
	return schema, removals, nil
}

// isOptional reports whether the options of the tag json allow to leave the field out, even if
// encoding/json never does for the type.
func (f *field) isOptional() bool { return f.omitEmpty || f.omitZero }

// omits reports whether encoding/json leaves the zero value out.
func (f *field) omits() bool { return f.omitZero || f.omitEmpty && canBeEmpty(f.typ) }

// canBeEmpty reports whether omitempty has an effect on a type.
func canBeEmpty(t reflect.Type) bool {
	return t.Kind() != reflect.Struct && (t.Kind() != reflect.Array || t.Len() == 0)
}

// isRequired reports whether the field is required. In a status, only the tag makes it required, because several clients write parts of the status.
func (f *field) isRequired(schema map[string]any, inStatus bool) (bool, error) {
	_, hasDefault := schema["default"]
	switch f.tags.values["required"] {
	case "true":
		if f.isOptional() {
			return false, errors.New(`the tag required:"true" contradicts omitempty or omitzero: the API server would refuse an object in which the field was left out`)
		}
		return true, nil
	case "false":
		return false, f.checkDefault(schema)
	}
	return !f.isOptional() && !hasDefault && !inStatus, f.checkDefault(schema)
}

// checkDefault returns an error for a default without effect. If null is not allowed, API servers replace null with the default, so the default has an effect.
func (f *field) checkDefault(schema map[string]any) error {
	isNil := slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, f.typ.Kind()) && schema["nullable"] != true
	if !f.tags.has("default") || f.omits() || isNil {
		return nil
	}
	option := "omitempty"
	if !canBeEmpty(f.typ) {
		option = "omitzero"
	}
	return fmt.Errorf(`the tag "default" needs the option %s in the tag json: without it, Go writes the zero value, and there is no default`, option)
}

// allHaveDefaults reports whether all fields have defaults, so that an empty object becomes complete.
func allHaveDefaults(schema map[string]any) bool {
	properties := rawjson.AsMap(schema["properties"])
	for _, p := range properties {
		if _, ok := rawjson.AsMap(p)["default"]; !ok {
			return false
		}
	}
	return len(properties) > 0
}

// emptyDefault returns the default of an object whose fields all have defaults. API servers check rules against this default without the nested defaults. If
// there are rules, it therefore includes them.
func emptyDefault(schema map[string]any) map[string]any {
	if schema["x-kubernetes-validations"] == nil {
		return map[string]any{}
	}
	return withDefaults(schema)
}

// withDefaults returns the object with all defaults.
func withDefaults(schema map[string]any) map[string]any {
	object := make(map[string]any)
	for name, property := range rawjson.AsMap(schema["properties"]) {
		p := rawjson.AsMap(property)
		value := p["default"]
		if of, isObject := value.(map[string]any); isObject && len(of) == 0 && p["properties"] != nil {
			value = withDefaults(p)
		}
		object[name] = value
	}
	return object
}

// schema returns the schema of a type with the tags of a field, and the rules that the enclosing struct needs.
func (b *builder) schema(t reflect.Type, g tags, at place) (map[string]any, guards, error) {
	for t.Kind() == reflect.Pointer {
		t, at.byValue = t.Elem(), false
	}
	if slices.Contains(b.open, t) {
		return nil, guards{}, fmt.Errorf("the type %s contains itself, which no schema can say: want kopf.AnyJSON or fewer levels", t)
	}
	b.open = append(b.open, t)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	d, err := b.descriptionOf(t)
	if err == nil && at.byValue {
		err = checkMethods(t)
	}
	if err != nil {
		return nil, guards{}, err
	}
	var inner guards
	schema := d.Schema
	if schema == nil {
		schema = scalar(t, g)
	}
	var keys []any
	if schema == nil {
		if keys, err = listKeys(g); err == nil {
			parts := at
			if keys != nil {
				parts.keys = keys
			}
			parts.unmatched = at.unmatched || t.Kind() != reflect.Struct && t.Kind() != reflect.Map && keys == nil || g.values["mapType"] == "atomic"
			schema, inner, err = b.composite(t, g, parts)
		}
		if err != nil {
			return nil, guards{}, err
		}
	}
	if err := checkReading(t); err != nil {
		return nil, guards{}, err
	}
	if d.Atomic {
		schema["x-kubernetes-map-type"] = "atomic"
	}
	if err := b.decorate(schema, t, d, g, keys, at); err != nil {
		return nil, guards{}, err
	}
	inner.rule(schema, g)
	return schema, inner, nil
}

// decorate adds the description of the type and the tags to a schema.
func (b *builder) decorate(schema map[string]any, t reflect.Type, d typeDescription, g tags, keys []any, at place) error {
	if len(g.each) > 0 && schema["items"] == nil && schema["additionalProperties"] == nil {
		return errors.New(`the tag "each" does not fit: want it on a list or a map`)
	}
	if len(d.enum) > 0 {
		if schema["type"] != "string" {
			return fmt.Errorf("the method Enum does not fit: want it on a string, got %s", typeOf(schema))
		}
		values, err := enumOf(schema, d.enum)
		if err != nil {
			return fmt.Errorf("the method Enum: %w", err)
		}
		schema["enum"] = values
	}
	err := g.apply(schema)
	if err == nil && d.Schema == nil {
		err = addRange(schema, t)
	}
	if err == nil {
		err = checkEnum(schema, t)
	}
	if err != nil {
		return err
	}
	if keys != nil {
		if err := putListKeys(schema, keys); err != nil {
			return err
		}
	}
	rules := d.Rules
	if g.has("rule") {
		rules = append(slices.Clip(rules), Rule{Rule: g.values["rule"], Message: g.values["message"]})
	}
	if err := b.addRules(schema, rules, at); err != nil {
		return err
	}
	if err := putValues(schema, t, g); err != nil {
		return err
	}
	return b.print(schema, g, at)
}

// checkEnum returns an error for an enum with which objects could not be stored or read.
func checkEnum(schema map[string]any, t reflect.Type) error {
	values, _ := schema["enum"].([]any)
	if len(values) > 0 && schema["nullable"] == true {
		return errors.New("null cannot be allowed together with an enum: API servers refuse it, " +
			"want omitempty, so that Go leaves nil out")
	}
	for _, v := range values {
		if err := fitsType(v, t); err != nil {
			return fmt.Errorf("the type %s cannot hold the value %v of the enum: %w", t, v, err)
		}
	}
	return nil
}

// DurationPattern is the pattern of durations: see [time.ParseDuration].
const DurationPattern = `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`

// composite returns the schema of a struct, a list or a map, or an error for other types.
func (b *builder) composite(t reflect.Type, g tags, at place) (map[string]any, guards, error) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return nil, guards{}, errors.New("the type time.Duration is a number of nanoseconds in JSON: want kopf.Duration, which is a text such as 5m0s")
	case t == reflect.TypeFor[json.RawMessage]():
		return nil, guards{}, errors.New("the type json.RawMessage has no schema: want kopf.AnyJSON")
	case makesJSON(t) || t == reflect.TypeFor[json.Number]():
		return nil, guards{}, fmt.Errorf("the type %s makes its own JSON: want a method Schema() kopf.Schema on it, or kopf.AnyJSON", t)
	}
	switch t.Kind() {
	case reflect.Struct:
		fields, err := fieldsOf(t, 0, at)
		if err == nil {
			fields, err = dominant(fields, at)
		}
		if err != nil {
			return nil, guards{}, err
		}
		return b.object(fields, at)
	case reflect.Slice, reflect.Array:
		schema, err := b.elements(t, g, at, "[]", "maxItems")
		return map[string]any{"type": "array", "items": schema}, guards{}, err
	case reflect.Map:
		if !isKey(t.Key()) {
			return nil, guards{}, fmt.Errorf("the type %s has keys of the type %s: want strings", t, t.Key())
		}
		schema, err := b.elements(t, g, at, "[*]", "maxProperties")
		return map[string]any{"type": "object", "additionalProperties": schema}, guards{}, err
	case reflect.Float32, reflect.Float64:
		return nil, guards{}, fmt.Errorf(`the type %s is not exact: want an integer, kopf.Quantity, or the tag type:"number"`, t)
	case reflect.Interface:
		return nil, guards{}, fmt.Errorf("the type %s has no schema: want kopf.AnyJSON", t)
	}
	return nil, guards{}, fmt.Errorf("the type %s cannot be in JSON: want bool, string, an integer, a struct, a list or a map", t)
}

// elements returns the schema of the items of a list, or of the values of a map.
func (b *builder) elements(t reflect.Type, g tags, at place, suffix, maximum string) (map[string]any, error) {
	if !g.has(maximum) && at.unbounded == "" {
		at.unbounded = at.path
	}
	at.path += suffix
	at.inside, at.byValue = true, at.byValue && t.Kind() == reflect.Array || t.Kind() == reflect.Map
	schema, _, err := b.schema(t.Elem(), g.items(), at)
	return schema, at.fault(err)
}

// pathSigns are the special characters in the paths of columns and selectable fields.
const pathSigns = ` ,[](){}$@?*'"`

// print adds the printer columns and selectable fields.
func (b *builder) print(schema map[string]any, g tags, at place) error {
	selectable, column := g.values["selectable"] == "true", g.has("column")
	if (selectable || column) && at.inside {
		return errors.New(`the tags "column" and "selectable" do not fit in a list or a map: no path leads there`)
	}
	if column && strings.ContainsAny(at.json, pathSigns) || selectable && strings.ContainsAny(at.json, pathSigns+`\`) {
		return fmt.Errorf("the tags \"column\" and \"selectable\" do not fit: no path can name %q", strings.ReplaceAll(at.path, `\`, ""))
	}
	typ, _ := schema["type"].(string)
	if schema["x-kubernetes-int-or-string"] == true {
		typ = "string"
	}
	if selectable {
		if typ != "string" && typ != "integer" && typ != "boolean" || schema["type"] == nil {
			return errors.New(`the tag "selectable" does not fit: want it on a string, an integer or a boolean`)
		}
		b.kind.Selectable = append(b.kind.Selectable, at.json)
	}
	if !column {
		return nil
	}
	format, _ := schema["format"].(string)
	if slices.Contains([]string{"date", "date-time"}, format) {
		typ, format = "date", ""
	}
	if !slices.Contains([]string{"string", "integer", "number", "boolean", "date"}, typ) {
		return errors.New(`the tag "column" does not fit: want it on a string, a number, a boolean or a time`)
	}
	c := Column{Name: g.values["column"], Type: typ, Format: format, Path: at.json}
	c.Description, _ = schema["description"].(string)
	if c.Name == "" {
		return errors.New(`invalid tag column:"": want the name of the column`)
	}
	if priority, ok := g.values["priority"]; ok {
		n, err := strconv.ParseUint(priority, 10, 31)
		if err != nil {
			return fmt.Errorf("invalid tag priority:%q: want a whole number that is not negative, of at most 32 bits", priority)
		}
		c.Priority = int(n)
	}
	b.kind.Columns = append(b.kind.Columns, c)
	return nil
}

// listKeys returns the keys that identify the items of a list, or nil.
func listKeys(g tags) (keys []any, err error) {
	if !g.has("listKey") {
		return nil, nil
	}
	if g.has("listType") {
		return nil, errors.New(`the tag "listKey" contradicts "listType": a list with keys is a map`)
	}
	for key := range strings.SplitSeq(g.values["listKey"], ",") {
		if slices.Contains(keys, any(key)) {
			return nil, fmt.Errorf("invalid tag listKey:%q: %q is there twice", g.values["listKey"], key)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// putListKeys sets the keys of a list's items.
func putListKeys(schema map[string]any, keys []any) error {
	items := rawjson.AsMap(schema["items"])
	required, _ := items["required"].([]any)
	for _, key := range keys {
		p := rawjson.AsMap(rawjson.AsMap(items["properties"])[key.(string)])
		_, hasDefault := p["default"]
		switch {
		case items["properties"] == nil:
			return errors.New("the tag \"listKey\" does not fit: the items are no structs")
		case p == nil:
			return fmt.Errorf("invalid tag listKey: the items have no field %q", key)
		case p["nullable"] == true:
			return fmt.Errorf("invalid tag listKey: the field %q of the items can be null", key)
		case !slices.Contains([]any{"string", "integer", "number", "boolean"}, p["type"]):
			return fmt.Errorf("invalid tag listKey: the field %q of the items is %s: want a scalar", key, typeOf(p))
		case !hasDefault && !slices.Contains(required, key):
			return fmt.Errorf("invalid tag listKey: the field %q of the items can be left out: want it required, or with a default", key)
		}
	}
	maps.Copy(schema, map[string]any{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
	return nil
}
