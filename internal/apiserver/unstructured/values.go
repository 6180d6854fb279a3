// Package unstructured reads objects without Go types, decoded or as bytes.
package unstructured

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// View is the bytes of an object, or of a part of it. Paths are keys joined by dots. A backslash
// precedes a dot that is part of a key.
type View []byte

// View returns the part at a path, nil if there is none.
func (v View) View(path string) View {
	raw, _ := rawjson.Find(v, rawjson.SplitPath(path)...)
	return raw
}

// Has reports whether there is a value at a path. A null is a value.
func (v View) Has(path string) bool {
	_, ok := rawjson.Find(v, rawjson.SplitPath(path)...)
	return ok
}

// Get returns the decoded value at a path, nil if there is none.
func (v View) Get(path string) any { return rawjson.ValueAt(v, rawjson.SplitPath(path)...) }

// String returns the scalar at a path as text, "" if there is none.
func (v View) String(path string) string { return rawjson.ScalarAt(v, rawjson.SplitPath(path)...) }

// Int returns the whole number at a path, 0 if there is none.
func (v View) Int(path string) int64 { return rawjson.IntAt(v, rawjson.SplitPath(path)...) }

// Len returns the number of keys of an object.
func (v View) Len() int { return len(rawjson.Keys(v)) }

// Map returns the decoded object.
func (v View) Map() map[string]any { return rawjson.Map(v) }

// Text returns the string at a key of an object, "" if there is none.
func Text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// Word returns a string or a number as text, "" for all other values.
func Word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// Whole returns an integer, 0 for all other values.
func Whole(v any) int64 {
	number, _ := v.(json.Number)
	n, _ := number.Int64()
	return n
}

// Texts returns the strings of a list.
func Texts(v any) []string {
	var all []string
	list, _ := v.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// Timestamp returns a time in the format of Kubernetes, with whole seconds.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// DropNulls removes the keys whose value is null, at any depth.
func DropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, e any) bool { return e == nil })
		for _, e := range v {
			DropNulls(e)
		}
	case []any:
		for _, e := range v {
			DropNulls(e)
		}
	}
}

// GroupVersionKind returns a group, a version and a kind as fields of an API document.
func GroupVersionKind(group, version, kind string) map[string]any {
	return map[string]any{"group": group, "version": version, "kind": kind}
}
