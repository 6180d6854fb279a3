package openapi

import (
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
)

// completeKinds are the built-in kinds whose fields are all described.
var completeKinds = []string{"ConfigMap", "Secret", "Namespace", "ServiceAccount", "Lease"}

// builtinSchema returns the schema of a built-in kind. A kind without a description may have any
// fields.
func (d *document) builtinSchema(k *Kind) map[string]any {
	t := types.OfKind(k.Group, k.Version, k.Kind)
	if t == nil || t.Description() == nil {
		return map[string]any{"description": k.Kind + " is a kind of Kubernetes.", "type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	return d.typeSchema(t)
}

// typeSchema returns the schema of a type that has a description.
func (d *document) typeSchema(t *types.Type) map[string]any {
	about := t.Description()
	s := map[string]any{"description": about.Text, "type": "object"}
	if t.Scalar != "" {
		s["type"] = t.Scalar
	}
	if t.Format != "" {
		s["format"] = t.Format
	}
	properties := make(map[string]any, len(about.Fields))
	var required []any
	for _, f := range about.Fields {
		p := d.fieldSchema(&f)
		properties[f.Name] = p
		if f.Required {
			if p["type"] == "string" && p["format"] == nil {
				p["default"] = ""
			}
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
	switch ref, isRef := p["$ref"]; {
	case p["x-kubernetes-preserve-unknown-fields"] != nil: // a single value, a list or a map
	case f.List:
		p = map[string]any{"type": "array", "items": itemSchema(p)}
		describeList(p, f)
	case f.Map:
		p = map[string]any{"type": "object", "additionalProperties": itemSchema(p)}
	case isRef: // no description may be next to a reference
		p = map[string]any{"allOf": []any{map[string]any{"$ref": ref}}}
		if f.Name == "metadata" || f.Name == "spec" || f.Name == "status" || f.Name == "template" {
			p["default"] = map[string]any{}
		}
	}
	p["description"] = f.Description
	return p
}

// describeList adds how a list is merged.
func describeList(p map[string]any, f *types.Field) {
	switch {
	case !f.ByKeys:
		p["x-kubernetes-list-type"] = "atomic"
		return
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

// itemSchema adds the default that items of lists and maps have to a schema.
func itemSchema(s map[string]any) map[string]any {
	if ref, ok := s["$ref"]; ok {
		return map[string]any{"allOf": []any{map[string]any{"$ref": ref}}, "default": map[string]any{}}
	}
	if s["type"] == "string" && s["format"] == nil {
		s["default"] = ""
	}
	return s
}

// valueSchema returns the schema of one value of a field, which may hold a list or a map of such.
func (d *document) valueSchema(f *types.Field) map[string]any {
	switch f.Type {
	case "Quantity":
		return map[string]any{"oneOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}}
	case "IntOrString":
		return map[string]any{"oneOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}, "format": "int-or-string"}
	}
	if typ, format, scalar := types.ScalarWord(f.Type); scalar {
		s := map[string]any{"type": typ}
		if format != "" {
			s["format"] = format
		}
		return s
	}
	if f.Ref == nil || f.Ref.Description() == nil {
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	d.require(f.Ref.FullName)
	return d.ref(f.Ref.FullName)
}

// require adds the schema of a type, and those that it refers to, unless it is there.
func (d *document) require(name string) {
	if d.schemas[name] != nil {
		return
	}
	d.schemas[name] = map[string]any{} // for types that refer to themselves
	s := d.typeSchema(types.Named(name))
	switch short := name[strings.LastIndexByte(name, '.')+1:]; short {
	case "DeleteOptions", "Status":
		s["x-kubernetes-group-version-kind"] = []any{unstructured.GroupVersionKind("", "v1", short)}
	case "Scale":
		s["x-kubernetes-group-version-kind"] = []any{unstructured.GroupVersionKind("autoscaling", "v1", short)}
	}
	d.schemas[name] = s
}
