package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Prune removes the fields that the schema does not declare from an object. It returns their paths,
// sorted.
func (s *Schema) Prune(obj map[string]any) (unknown []string) {
	s.pruneObject(obj, "", true, &unknown)
	slices.Sort(unknown)
	return unknown
}

func (s *Schema) pruneValue(v any, at string, unknown *[]string) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		s.pruneObject(v, at, s.Embedded, unknown)
	case []any:
		for i, e := range v {
			s.Items.pruneValue(e, at+"["+strconv.Itoa(i)+"]", unknown)
		}
	}
}

func (s *Schema) pruneObject(obj map[string]any, at string, root bool, unknown *[]string) {
	for key, v := range obj {
		path := strings.TrimPrefix(at+"."+key, ".")
		switch child := s.Properties[key]; {
		case s.Embedded && key == "metadata":
			if v == nil {
				obj[key] = make(map[string]any)
			}
			pruneMetadata(rawjson.AsMap(v), path, unknown)
		case root && (key == "apiVersion" || key == "kind" || key == "metadata"):
		case child != nil:
			child.pruneValue(v, path, unknown)
		case s.Additional != nil:
			s.Additional.pruneValue(v, path, unknown)
		case s.PreserveUnknown || s.AnyAdditional:
		default:
			delete(obj, key)
			*unknown = append(*unknown, path)
		}
	}
}

// MetaFields are all fields of the metadata.
var MetaFields = []string{
	"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "managedFields",
}

// pruneMetadata prunes the metadata of an embedded object, and drops empty fields.
func pruneMetadata(meta map[string]any, at string, unknown *[]string) {
	for key, v := range meta {
		if rawjson.IsEmpty(v) || v == "" {
			delete(meta, key)
		}
		if !slices.Contains(MetaFields, key) {
			delete(meta, key)
			*unknown = append(*unknown, at+"."+key)
		}
	}
}

// ApplyDefaults adds the defaults of missing fields to an object.
func (s *Schema) ApplyDefaults(obj map[string]any) { s.defaults(obj, false) }

// ReplaceNulls adds the defaults of missing fields to an object, too, but keeps nulls that have no default.
func (s *Schema) ReplaceNulls(obj map[string]any) { s.defaults(obj, true) }

func (s *Schema) defaults(v any, keepNulls bool) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for key, child := range s.Properties {
			old, ok := v[key]
			switch unset := ok && old == nil && !child.nullable; {
			case child.HasDefault && (!ok || unset):
				v[key] = rawjson.Clone(child.Default)
			case unset && !keepNulls: // a null counts as missing
				delete(v, key)
			}
		}
		for key, e := range v {
			if child := s.Properties[key]; child != nil {
				child.defaults(e, keepNulls)
				continue
			}
			if e == nil && s.Additional != nil && !s.Additional.nullable {
				if s.Additional.HasDefault {
					v[key] = rawjson.Clone(s.Additional.Default)
				} else if !keepNulls {
					delete(v, key)
				}
				continue
			}
			s.Additional.defaults(e, keepNulls)
		}
	case []any:
		for _, e := range v {
			s.Items.defaults(e, keepNulls)
		}
	}
}
