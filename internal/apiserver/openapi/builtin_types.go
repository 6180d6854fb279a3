package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// builtinSchema returns the schema of a built-in kind.
func (d *document) builtinSchema(k *Kind) map[string]any {
	s := d.typeSchema(types.OfKind(k.Group, k.Version, k.Kind))
	d.addTypes(s)
	if meta := rawjson.AsMap(rawjson.AsMap(s["properties"])["metadata"]); meta != nil {
		meta["description"] = metadataText
	}
	return s
}

// typeSchema returns the schema of a type.
func (d *document) typeSchema(t *types.Type) map[string]any {
	about := t.Description()
	s := map[string]any{"type": "object"}
	if about.Text != "" {
		s["description"] = about.Text
	}
	if t.Scalar == "any" {
		delete(s, "type")
	} else if t.Scalar != "" {
		s["type"] = t.Scalar
	}
	if t.Format != "" {
		s["format"] = t.Format
	}
	properties := make(map[string]any, len(t.Fields))
	var required []any
	for i := range t.Fields {
		f := &t.Fields[i]
		p := d.fieldSchema(f)
		if text := about.Fields[f.Name]; text != "" {
			p["description"] = text
		}
		properties[f.Name] = p
		if f.Required {
			required = append(required, f.Name)
		}
	}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if required != nil {
		s["required"] = required
	}
	if t.Atomic {
		s["x-kubernetes-map-type"] = "atomic"
	}
	return s
}

func (d *document) fieldSchema(f *types.Field) map[string]any {
	p := d.valueSchema(f)
	if f.List {
		p = map[string]any{"type": "array", "items": itemOf(f, p)}
	}
	ref, isRef := p["$ref"]
	switch {
	case f.Map:
		p = map[string]any{"type": "object", "additionalProperties": itemOf(f, p)}
	case f.List:
		describeList(p, f)
	case isRef: // a reference cannot have siblings
		p = map[string]any{"allOf": []any{map[string]any{"$ref": ref}}}
	}
	if f.MapType != "" {
		p["x-kubernetes-map-type"] = f.MapType
	}
	if f.Retain {
		p["x-kubernetes-patch-strategy"] = strings.TrimPrefix(fmt.Sprint(p["x-kubernetes-patch-strategy"], ",retainKeys"), "<nil>,")
	}
	if f.Replace {
		p["x-kubernetes-patch-strategy"] = "replace"
	}
	if v := defaultOf(f, isRef); v != nil {
		p["default"] = v
	}
	return p
}

// defaultOf returns the default of a field: its own, or an empty value where the field is never omitted.
func defaultOf(f *types.Field, isRef bool) any {
	switch {
	case f.Default != "":
		switch f.Type {
		case "", "string":
			return strings.Trim(f.Default, `"`)
		}
		return json.RawMessage(f.Default)
	case !f.Always || f.Pointer || f.List || f.Map:
		return nil
	case isRef && f.Ref.Scalar == "":
		return map[string]any{}
	}
	switch f.Type {
	case "", "string":
		return ""
	case "int", "long", "number":
		return json.Number("0")
	case "bool":
		return false
	}
	return nil
}

// describeList adds the merge strategy of a list.
func describeList(p map[string]any, f *types.Field) {
	switch {
	case !f.ByKeys:
		p["x-kubernetes-list-type"] = "atomic"
	case len(f.Keys) == 0:
		p["x-kubernetes-list-type"] = "set"
	default:
		keys := make([]any, len(f.Keys))
		for i, key := range f.Keys {
			keys[i] = key
		}
		p["x-kubernetes-list-type"], p["x-kubernetes-list-map-keys"] = "map", keys
	}
	if f.Merge {
		p["x-kubernetes-patch-strategy"] = "merge"
	}
	if f.MergeKey != "" {
		p["x-kubernetes-patch-merge-key"] = f.MergeKey
	}
}

// itemOf returns the schema of the items of a list or a map of a field.
func itemOf(f *types.Field, s map[string]any) map[string]any {
	if f.Ref != nil && f.Ref.Scalar != "" {
		return s
	}
	return itemSchema(s)
}

// itemSchema adds the default for items of lists and maps to a schema.
func itemSchema(s map[string]any) map[string]any {
	if ref, ok := s["$ref"]; ok {
		return map[string]any{"allOf": []any{map[string]any{"$ref": ref}}, "default": map[string]any{}}
	}
	switch {
	case s["type"] == "string" && s["format"] == nil:
		s["default"] = ""
	case s["type"] == "integer":
		s["default"] = json.Number("0")
	case s["type"] == "boolean":
		s["default"] = false
	}
	return s
}

// valueSchema returns the schema of one value of a field, also if the field is a list or a map of such values.
func (d *document) valueSchema(f *types.Field) map[string]any {
	if typ, format, scalar := types.ScalarWord(f.Type); scalar {
		s := map[string]any{"type": typ}
		if format != "" {
			s["format"] = format
		}
		return s
	}
	d.require(f.Ref.FullName)
	return d.ref(f.Ref.FullName)
}

// require adds the schema of a type and the schemas it refers to, if they are missing.
func (d *document) require(name string) {
	if d.schemas[name] != nil {
		return
	}
	d.schemas[name] = map[string]any{} // for types that refer to themselves
	s := d.typeSchema(types.Named(name))
	switch short := name[strings.LastIndexByte(name, '.')+1:]; short {
	case "Quantity":
		s["oneOf"] = []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}
		d.asOneOf(s)
	case "IntOrString":
		s["oneOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		d.asOneOf(s)
	case "DeleteOptions", "Status":
		s["x-kubernetes-group-version-kind"] = []any{unstructured.GroupVersionKind("", "v1", short)}
	case "Scale":
		s["x-kubernetes-group-version-kind"] = []any{unstructured.GroupVersionKind("autoscaling", "v1", short)}
	}
	d.schemas[name] = s
}

// asOneOf removes the keys that version 3 does not allow next to alternatives, or the alternatives in version 2.
func (d *document) asOneOf(s map[string]any) {
	if d.prefix == refPrefixV2 {
		delete(s, "oneOf")
		return
	}
	delete(s, "type")
}
