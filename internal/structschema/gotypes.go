package structschema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file determines how encoding/json encodes Go types, the range of their numbers, and their descriptions.

// makesJSON reports whether a type has a method that encodes it as JSON, and makesText whether it has one that encodes it as text. Methods of the pointer
// count, because encoding/json calls them for addressable values.
func makesJSON(t reflect.Type) bool { return implements(t, reflect.TypeFor[json.Marshaler]()) }
func makesText(t reflect.Type) bool { return implements(t, reflect.TypeFor[encoding.TextMarshaler]()) }

func implements(t, of reflect.Type) bool {
	return t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(of)
}

func readsJSON(t reflect.Type) bool { return implements(t, reflect.TypeFor[json.Unmarshaler]()) }
func readsText(t reflect.Type) bool {
	return implements(t, reflect.TypeFor[encoding.TextUnmarshaler]())
}

// checkReading returns an error for a type that encoding/json cannot read from its own JSON.
func checkReading(t reflect.Type) error {
	const want = "so its JSON cannot be read: want both"
	switch own := readsJSON(t) || readsText(t); {
	case makesJSON(t) && !own:
		return fmt.Errorf("the type %s has the method MarshalJSON, but not UnmarshalJSON, "+want, t)
	case makesText(t) && !own:
		return fmt.Errorf("the type %s has the method MarshalText, but not UnmarshalText, "+want, t)
	case readsText(t) && !readsJSON(t) && !makesJSON(t) && !makesText(t) && t.Kind() != reflect.String:
		return fmt.Errorf("the type %s has the method UnmarshalText, but not MarshalText, "+want, t)
	}
	return nil
}

// isKey reports whether encoding/json writes and reads a type as the keys of maps.
func isKey(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && readsText(t)
}

// checkMethods returns an error for a type whose encoding differs between values and pointers.
func checkMethods(t reflect.Type) error {
	method := ""
	switch {
	case makesJSON(t) && !t.Implements(reflect.TypeFor[json.Marshaler]()):
		method = "MarshalJSON"
	case makesText(t) && !t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		method = "MarshalText"
	default:
		return nil
	}
	return fmt.Errorf("the method %s of the type %s is on its pointer, so encoding/json does not call it for values of a map: want it on the type itself, or pointers in the map", method, t)
}

// scalar returns the schema of a scalar type, or nil for other types.
func scalar(t reflect.Type, g tags) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case makesJSON(t) || t == reflect.TypeFor[time.Duration]() || t == reflect.TypeFor[json.Number]():
		return nil
	case makesText(t):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Uint, reflect.Uint8, reflect.Uint16:
		return map[string]any{"type": "integer"}
	case reflect.Int32:
		return map[string]any{"type": "integer", "format": "int32"}
	case reflect.Int64, reflect.Uint32, reflect.Uint64: // int32 would be too small for half of the values of uint32
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Float32, reflect.Float64:
		if g.values["type"] == "number" {
			return map[string]any{"type": "number"}
		}
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && !makesJSON(e) && !makesText(e) {
			return map[string]any{"type": "string", "format": "byte"}
		}
	}
	return nil
}

// rangeOf returns the smallest and largest number that both the type and the API server allow, and whether the schema needs them.
func rangeOf(k reflect.Kind) (least, most int64, needsLeast, needsMost bool) {
	switch k {
	case reflect.Int8:
		return math.MinInt8, math.MaxInt8, true, true
	case reflect.Int16:
		return math.MinInt16, math.MaxInt16, true, true
	case reflect.Int32:
		return math.MinInt32, math.MaxInt32, false, false // the format implies the range
	case reflect.Uint8:
		return 0, math.MaxUint8, true, true
	case reflect.Uint16:
		return 0, math.MaxUint16, true, true
	case reflect.Uint32:
		return 0, math.MaxUint32, true, true
	case reflect.Uint, reflect.Uint64:
		return 0, math.MaxInt64, true, false
	}
	return math.MinInt64, math.MaxInt64, false, false
}

// addRange adds the range of the type to a schema of integers, unless the tags limit it. Limits in tags must be within the range of the type.
func addRange(schema map[string]any, t reflect.Type) error {
	if schema["type"] != "integer" {
		return nil
	}
	least, most, needsLeast, needsMost := rangeOf(t.Kind())
	numbers, _ := schema["enum"].([]any)
	for _, v := range slices.Concat(numbers, []any{schema["minimum"], schema["maximum"], schema["multipleOf"]}) {
		n, isNumber := v.(json.Number)
		if i, err := n.Int64(); isNumber && (err != nil || i < least || i > most) {
			return fmt.Errorf("the number %s in the tags is beyond the type %s: want %d to %d", n, t, least, most)
		}
	}
	if needsLeast && schema["minimum"] == nil {
		schema["minimum"] = json.Number(fmt.Sprint(least))
	}
	if needsMost && schema["maximum"] == nil {
		schema["maximum"] = json.Number(fmt.Sprint(most))
	}
	return nil
}

// typeDescription is the description of a type by its methods, with its enum.
type typeDescription struct {
	Description
	enum []string
}

// descriptionOf returns the description of a type, and the rules of the structs inlined in it. A description promoted from an embedded type is ignored, unless
// the embedded type also provides the JSON encoding.
func (b *builder) descriptionOf(t reflect.Type) (typeDescription, error) {
	d, err := b.ownDescription(t)
	if err != nil || t.Kind() != reflect.Struct || makesJSON(t) || makesText(t) {
		return d, err
	}
	var gathered []Rule
	for i := range t.NumField() {
		f := t.Field(i)
		of := indirect(f.Type)
		if !f.Anonymous || of.Kind() == reflect.Interface {
			continue
		}
		promoted, err := b.ownDescription(of)
		if err != nil {
			return d, err
		}
		if reflect.DeepEqual(d.Schema, promoted.Schema) {
			d.Schema = nil
		}
		if slices.Equal(d.enum, promoted.enum) {
			d.enum = nil
		}
		if slices.Equal(d.Rules, promoted.Rules) {
			d.Rules = nil
		}
		read, err := newField(f)
		if err != nil || !read.inlines(true) || f.Type.Kind() != reflect.Struct {
			continue // fieldsOf returns the error
		}
		inner, err := b.descriptionOf(of)
		switch {
		case err != nil:
			return d, err
		case inner.Schema != nil && d.Schema == nil:
			return d, fmt.Errorf("the embedded type %s describes itself, but only its fields are in the JSON: want a name in the tag json, or a method Schema() kopf.Schema on the struct around it", of)
		}
		gathered = append(gathered, inner.Rules...)
	}
	for _, rule := range gathered {
		if !slices.Contains(d.Rules, rule) {
			d.Rules = append(slices.Clip(d.Rules), rule)
		}
	}
	return d, nil
}

// ownDescription returns the description by the methods of a type: those of kopf, or those of Kubernetes types.
func (b *builder) ownDescription(t reflect.Type) (d typeDescription, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a method of the type %s that describes it has panicked: %v", t, v)
		}
	}()
	pointer := reflect.New(t).Interface()
	d.Description = b.options.Describe(pointer)
	d.Atomic = d.Atomic || isAtomic(t)
	if d.enum, err = methodEnum(pointer); err != nil {
		return d, err
	}
	if err = checkDescribing(reflect.ValueOf(pointer)); err != nil {
		return d, err
	}
	switch {
	case d.Schema != nil:
	default:
		d.Schema = b.kubernetesType(t, pointer)
	}
	if d.Schema == nil {
		return d, nil
	}
	copied, err := rawjson.Normalize(d.Schema)
	if err != nil {
		return d, fmt.Errorf("the schema that the type %s describes: %w", t, err)
	}
	d.Schema = rawjson.AsMap(copied)
	return d, nil
}

// checkDescribing returns an error for a method Rules or Schema that was meant for kopf, but returns
// another type, so that it would have no effect. Other methods of these names are none of kopf's
// business. The names are constants for the linker, as in [methodEnum].
func checkDescribing(pointer reflect.Value) error {
	if of := resultOf(pointer.MethodByName("Rules")); of != nil && of.Kind() == reflect.Slice && of.String() != "[]kopf.Rule" {
		item := indirect(of.Elem())
		isRule := item.Kind() == reflect.String
		if item.Kind() == reflect.Struct {
			_, isRule = item.FieldByName("Rule")
		}
		if isRule {
			return fmt.Errorf("the method Rules returns %s, and has no effect: want Rules() []kopf.Rule", of)
		}
	}
	of := resultOf(pointer.MethodByName("Schema"))
	if of != nil && of.Kind() == reflect.Map && of.Key().Kind() == reflect.String && of.String() != "kopf.Schema" {
		return fmt.Errorf("the method Schema returns %s, and has no effect: want Schema() kopf.Schema", of)
	}
	return nil
}

// resultOf returns the type of the only result of a method without parameters, or nil.
func resultOf(method reflect.Value) reflect.Type {
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return nil
	}
	return method.Type().Out(0)
}

// methodEnum returns the result of a type's method Enum: a list of strings. Its name is a constant, so that the linker still removes other methods.
func methodEnum(pointer any) (values []string, err error) {
	if e, ok := pointer.(interface{ Enum() []string }); ok {
		return e.Enum(), nil
	}
	m := reflect.ValueOf(pointer).MethodByName("Enum")
	of := resultOf(m)
	if of == nil || of.Kind() != reflect.Slice {
		return nil, nil // another method, such as that of a protocol buffer enum
	}
	if of.Elem().Kind() != reflect.String {
		return nil, errors.New("the method Enum does not fit: want Enum() []string")
	}
	all := m.Call(nil)[0]
	for i := range all.Len() {
		values = append(values, all.Index(i).String())
	}
	return values, nil
}
