package structschema

import (
	"reflect"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/jsonpatch"
)

// ListKeys returns the keys that identify the items of the lists in a type, from the listKey tags of its fields, or nil if there are none.
func ListKeys(t reflect.Type) *jsonpatch.ListKeys { return listKeysIn(t, nil) }

// listKeysIn does not descend into the types around, which ends recursion.
func listKeysIn(t reflect.Type, around []reflect.Type) *jsonpatch.ListKeys {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if slices.Contains(around, t) {
		return nil
	}
	around = append(slices.Clip(around), t)
	k := &jsonpatch.ListKeys{}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		k.Items = listKeysIn(t.Elem(), around)
	case reflect.Struct:
		fields, _ := fieldsOf(t, 0, place{}) // Of reports invalid fields
		for _, f := range fields {
			inner := listKeysIn(f.typ, around)
			if f.tags.has("listKey") {
				if inner == nil {
					inner = &jsonpatch.ListKeys{}
				}
				inner.Keys = strings.Split(f.tags.values["listKey"], ",")
			}
			if inner == nil {
				continue
			}
			if k.Fields == nil {
				k.Fields = make(map[string]*jsonpatch.ListKeys)
			}
			k.Fields[f.name] = inner
		}
	}
	if k.Items == nil && k.Fields == nil {
		return nil
	}
	return k
}
