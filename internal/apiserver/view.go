package apiserver

import "github.com/kopf-go/kopf/internal/rawjson"

// view reads parts of the bytes of an object. Paths are keys joined by dots; a dot inside of a key is preceded by a backslash.
type view []byte

func (v view) View(path string) view {
	raw, _ := rawjson.Find(v, rawjson.SplitPath(path)...)
	return raw
}

// Has reports whether there is a value at a path; a null is a value.
func (v view) Has(path string) bool {
	_, ok := rawjson.Find(v, rawjson.SplitPath(path)...)
	return ok
}

func (v view) Get(path string) any       { return rawjson.ValueAt(v, rawjson.SplitPath(path)...) }
func (v view) String(path string) string { return rawjson.ScalarAt(v, rawjson.SplitPath(path)...) }
func (v view) Int(path string) int64     { return rawjson.IntAt(v, rawjson.SplitPath(path)...) }
func (v view) Len() int                  { return len(rawjson.Keys(v)) }
func (v view) Map() map[string]any       { return rawjson.Map(v) }
