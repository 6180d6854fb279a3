package unstructured

import (
	"maps"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// View reads parts of the bytes of an object. Paths are keys joined by dots; a dot inside of a key is preceded by a backslash.
type View []byte

func (v View) View(path string) View {
	raw, _ := rawjson.Find(v, rawjson.SplitPath(path)...)
	return raw
}

// Has reports whether there is a value at a path; a null is a value.
func (v View) Has(path string) bool {
	_, ok := rawjson.Find(v, rawjson.SplitPath(path)...)
	return ok
}

func (v View) Get(path string) any       { return rawjson.ValueAt(v, rawjson.SplitPath(path)...) }
func (v View) String(path string) string { return rawjson.ScalarAt(v, rawjson.SplitPath(path)...) }
func (v View) Int(path string) int64     { return rawjson.IntAt(v, rawjson.SplitPath(path)...) }
func (v View) Len() int                  { return len(rawjson.Keys(v)) }
func (v View) Map() map[string]any       { return rawjson.Map(v) }

// Text returns the text in a member of an object, "" if there is none.
func Text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
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

// Timestamp returns a moment as Kubernetes writes it.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// DropNulls removes the keys without a value from something that is new.
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

// GroupVersionKind names a kind in a version of its group, as documents do.
func GroupVersionKind(group, version, kind string) map[string]any {
	return map[string]any{"group": group, "version": version, "kind": kind}
}
