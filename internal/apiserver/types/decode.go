package types

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/quantity"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Decode gives an object the form that it has after it was decoded into its Go type and encoded again. It drops unknown fields, and empty ones that
// the type omits. It writes amounts, times and bytes in their canonical form. It returns the sorted paths of the unknown fields. The object must not
// have a [DecodeError].
func (t *Type) Decode(object map[string]any) (unknown []string) {
	d := &decoder{}
	d.object(t, object)
	slices.Sort(d.unknown)
	return d.unknown
}

// Store gives an object the form that it has after it was stored. Protocol Buffers have no empty lists, so lists that are not omitted become null.
// Until then they are lists with managers.
func (t *Type) Store(object map[string]any) { (&decoder{stored: true}).object(t, object) }

// decoder decodes an object.
type decoder struct {
	stored  bool // whether the result is the stored form
	unknown []string
	at      []step // the current place; paths are rarely needed, and would be the slowest part
}

// step is a key on the path to a value, or an index in a list.
type step struct {
	key   string
	index int // negative for a key
}

// below decodes a value at a key, or at an index, of the current place.
func (d *decoder) below(key string, index int, decode func(*decoder, *Field, any) any, f *Field, v any) any {
	d.at = append(d.at, step{key, index})
	v = decode(d, f, v)
	d.at = d.at[:len(d.at)-1]
	return v
}

// path returns the path of a field at the current place.
func (d *decoder) path(name string) string {
	var b strings.Builder
	for _, s := range d.at {
		if s.index < 0 {
			b.WriteString("." + s.key)
		} else {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	return strings.TrimPrefix(b.String()+"."+name, ".")
}

func (d *decoder) object(t *Type, object map[string]any) {
	for key, v := range object {
		f := t.byName[key]
		if f == nil {
			delete(object, key)
			d.unknown = append(d.unknown, d.path(key))
			continue
		}
		if v = d.below(key, -1, (*decoder).field, f, v); f.omits(v) {
			delete(object, key)
		} else {
			object[key] = v
		}
	}
	for _, f := range t.always {
		if _, ok := object[f.Name]; !ok {
			object[f.Name] = d.field(f, nil)
		}
	}
}

// field decodes the value of a field: a single value, a list or a map.
func (d *decoder) field(f *Field, v any) any {
	switch v := v.(type) {
	case nil:
		if f.List || f.Map || f.Pointer || !f.Always {
			return nil
		}
	case map[string]any:
		if !f.Map {
			break
		}
		for key, e := range v {
			if f.List {
				v[key] = d.below(key, -1, (*decoder).list, f, e)
			} else {
				v[key] = d.below(key, -1, (*decoder).value, f, e)
			}
		}
		return v
	case []any:
		if f.List {
			return d.list(f, v)
		}
	}
	return d.value(f, v)
}

func (d *decoder) list(f *Field, v any) any {
	list, _ := v.([]any)
	for i, e := range list {
		list[i] = d.below("", i, (*decoder).value, f, e)
	}
	if list == nil || len(list) == 0 && f.Always && !f.inJSON && d.stored {
		return nil
	}
	return list
}

// value decodes a single value. A null is a zero value.
func (d *decoder) value(f *Field, v any) any {
	text, isText := v.(string)
	switch f.Type {
	case "", "string":
		return text
	case "bool":
		return v == true
	case "int", "long", "number":
		if v == nil || v == json.Number("-0") {
			return json.Number("0")
		}
		return v
	case "bytes":
		data, _ := base64.StdEncoding.DecodeString(text) // already checked
		return base64.StdEncoding.EncodeToString(data)
	case "Time", "MicroTime":
		if !isText || text == "" {
			return nil
		}
		return canonicalTime(f.Type, text)
	case "Quantity":
		return canonicalQuantity(v)
	case "IntOrString":
		if v == nil {
			return json.Number("0")
		}
		return v
	case "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray":
		return d.schemaOr(f, v)
	}
	if f.Ref == nil || f.Ref.Scalar != "" { // any JSON
		return v
	}
	object := rawjson.AsMap(v)
	if object == nil {
		object = make(map[string]any)
	}
	d.object(f.Ref, object)
	return object
}

// schemaOr decodes a field of a CRD that is a schema or an alternative.
func (d *decoder) schemaOr(f *Field, v any) any {
	switch v := v.(type) {
	case map[string]any:
		d.object(Named("JSONSchemaProps"), v)
	case []any:
		for i, e := range v {
			d.below("", i, (*decoder).schemaOr, f, e)
		}
	}
	return v
}

// omits reports whether the field is omitted if it has a value.
func (f *Field) omits(v any) bool {
	if f.Always {
		return false
	}
	if v == nil || f.Pointer || f.Type == "ManagedFieldsEntry" || f.Type == "HPAScalingPolicy" { // an empty list resets the managers, and is not a missing list of policies
		return v == nil
	}
	if number, ok := v.(json.Number); ok {
		return number == "0" || number == "-0"
	}
	return v == "" || v == false || rawjson.IsEmpty(v)
}

// canonicalTime returns a time in the format of the type.
func canonicalTime(typ, text string) any {
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil || t.IsZero():
		return nil
	case typ == "MicroTime":
		return t.UTC().Format(microTime)
	}
	return unstructured.Timestamp(t)
}

// microTime is the format of times with microseconds.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// canonicalQuantity returns the canonical form of an amount, which may be a number.
func canonicalQuantity(v any) any {
	q, err := quantity.Parse(quantityText(v))
	if err != nil {
		return "0"
	}
	return q.String()
}

// quantityText returns the text of an amount.
func quantityText(v any) string {
	if number, ok := v.(json.Number); ok {
		return number.String()
	}
	text, _ := v.(string)
	return strings.TrimSpace(text)
}
