package structschema

import (
	"reflect"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/jsonpatch"
)

// ListKeys returns by what the items of the lists in a type are told apart, by the tags listKey of its fields; nil if there are none.
func ListKeys(t reflect.Type) *jsonpatch.ListKeys { return listKeysIn(t, nil) }

// listKeysIn knows the types around, which are no part of what is in them.
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
		fields, _ := fieldsOf(t, 0, place{}) // those that there are: what is wrong with others, Define has told
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
