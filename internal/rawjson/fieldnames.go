package rawjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// This file decodes JSON into structs with case-sensitive names of fields. encoding/json accepts
// a name in any case, and the last one of the text wins.

// Unmarshal is [json.Unmarshal] with case-sensitive names of fields, as everywhere in Kubernetes.
// A field without a tag accepts its name in any case, as in encoding/json.
func Unmarshal(data []byte, target any) error {
	return json.Unmarshal(ExactNames(data, target), target)
}

// ExactNames returns JSON that encoding/json decodes into the target with case-sensitive names of
// fields. It returns the data itself if no name differs from a field only by its case. Types
// with a method that decodes them, and fields of interface types, get their part unchanged.
func ExactNames(data []byte, target any) []byte {
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return data // an error of encoding/json
	}
	for v = v.Elem(); v.Kind() == reflect.Interface; v = v.Elem().Elem() {
		if inner := v.Elem(); inner.Kind() != reflect.Pointer || inner.IsNil() {
			return data // encoding/json decodes into a pointer in there, and replaces any other value
		}
	}
	h := nameHider{data: data, hidden: data}
	h.value(SkipSpace(data, 0), v.Type())
	return h.hidden
}

// nameHider hides the misspelled names in JSON.
type nameHider struct {
	data   []byte
	hidden []byte // the data, or a copy of it with hidden names
}

// value hides the names in the value at data[i], and returns the index after the value. It returns
// len(data) for malformed JSON, about which the decoder returns an error.
func (h *nameHider) value(i int, t reflect.Type) int {
	l := layoutOf(t)
	if i < len(h.data) {
		switch open := h.data[i]; {
		case open == '{' && (l.fields != nil || l.values != nil):
			return h.members(i, l)
		case open == '[' && l.items != nil:
			return h.items(i, l.items)
		}
	}
	return h.skip(i)
}

func (h *nameHider) skip(i int) int {
	end, err := SkipValue(h.data, i)
	if err != nil {
		return len(h.data)
	}
	return end
}

func (h *nameHider) members(i int, l *layout) int {
	w := MemberReader{Data: h.data, At: i}
	for w.Next() {
		inner := l.values
		if l.fields != nil {
			var misspelled bool
			if inner, misspelled = l.field(string(w.Name())); misspelled {
				h.hide(w.Key)
			}
		}
		if inner == nil {
			w.At = h.skip(w.At)
		} else {
			w.At = h.value(w.At, inner)
		}
	}
	if w.Err != nil {
		return len(h.data)
	}
	return w.At
}

func (h *nameHider) items(i int, t reflect.Type) int {
	i = SkipSpace(h.data, i+1)
	for i < len(h.data) && h.data[i] != ']' {
		if i = SkipSpace(h.data, h.value(i, t)); i < len(h.data) && h.data[i] == ',' {
			i = SkipSpace(h.data, i+1)
		}
	}
	return min(i+1, len(h.data))
}

// hide replaces a name by commas, which no name of a field can contain. The length stays the same.
func (h *nameHider) hide(quoted Range) {
	if &h.hidden[0] == &h.data[0] {
		h.hidden = bytes.Clone(h.data)
	}
	for i := quoted.From + 1; i < quoted.To-1; i++ {
		h.hidden[i] = ','
	}
}

// layout is the part of a type that decides about the names in its JSON. It is empty for types
// that decode themselves, and for those without names.
type layout struct {
	fields map[string]jsonField // of a struct
	values reflect.Type         // of a map
	items  reflect.Type         // of a list
}

// field returns the type of the field with a name, or nil if there is none. A misspelled name
// differs from that in the tag of a field only by its case. The name of a field without a tag is
// one of Go, whose case Kubernetes does not know.
func (l *layout) field(name string) (t reflect.Type, misspelled bool) {
	if f, ok := l.fields[name]; ok {
		return f.typ, false
	}
	for own, f := range l.fields {
		if !strings.EqualFold(own, name) {
			continue
		}
		if f.tagged {
			return nil, true
		}
		t = f.typ
	}
	return t, false
}

var layouts sync.Map // of *layout by reflect.Type

func layoutOf(t reflect.Type) *layout {
	if known, ok := layouts.Load(t); ok {
		return known.(*layout)
	}
	known, _ := layouts.LoadOrStore(t, newLayout(t))
	return known.(*layout)
}

func newLayout(t reflect.Type) *layout {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	pointer := reflect.PointerTo(t)
	if pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &layout{}
	}
	switch t.Kind() {
	case reflect.Struct:
		return &layout{fields: jsonFields(t)}
	case reflect.Map:
		return &layout{values: withNames(t.Elem())}
	case reflect.Slice, reflect.Array:
		return &layout{items: withNames(t.Elem())}
	}
	return &layout{}
}

// withNames returns the type, or nil if its values have no names.
func withNames(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer:
		return t
	}
	return nil
}

// jsonField is a candidate for a name.
type jsonField struct {
	typ    reflect.Type // nil if several fields hide each other
	depth  int          // of embedding
	tagged bool         // whether the name is that of a tag
}

// jsonFields returns the fields of a struct by their names in JSON. As in
// encoding/json, outer fields hide embedded ones, and tags win.
func jsonFields(t reflect.Type) map[string]jsonField {
	all, visited := make(map[string]jsonField), make(map[reflect.Type]bool)
	level := []reflect.Type{t}
	for depth := 0; len(level) > 0; depth++ {
		var next []reflect.Type
		for _, t := range level {
			next = append(next, addFields(all, t, depth)...)
			visited[t] = true
		}
		level = level[:0]
		for _, t := range next {
			if !visited[t] {
				level = append(level, t)
			}
		}
	}
	maps.DeleteFunc(all, func(_ string, f jsonField) bool { return f.typ == nil })
	return all
}

// addFields adds the fields of one struct, and returns the types of the structs embedded in it.
func addFields(all map[string]jsonField, t reflect.Type, depth int) (embedded []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		of := f.Type
		if of.Name() == "" && of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !(f.Anonymous && of.Kind() == reflect.Struct) {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		tagged := isFieldName(name)
		switch {
		case !tagged && f.Anonymous && of.Kind() == reflect.Struct:
			embedded = append(embedded, of)
			continue
		case !tagged:
			name = f.Name
		}
		offer(all, name, jsonField{f.Type, depth, tagged})
	}
	return embedded
}

// offer stores a field unless a known one hides it. Equal ones hide each other.
func offer(all map[string]jsonField, name string, f jsonField) {
	known, ok := all[name]
	switch {
	case !ok || f.depth == known.depth && f.tagged && !known.tagged:
		all[name] = f
	case f.depth == known.depth && f.tagged == known.tagged:
		known.typ = nil
		all[name] = known
	}
}

// isFieldName reports whether encoding/json takes a name in a tag.
func isFieldName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}
