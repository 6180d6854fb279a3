package eventsink

import "reflect"

// Subjects returns the objects of an event from values: the items of slices and arrays, at any depth, and all other values unchanged. It omits nil.
func Subjects(values []any) []any { return appendSubjects(nil, reflect.ValueOf(values)) }

func appendSubjects(all []any, v reflect.Value) []any {
	switch v.Kind() {
	case reflect.Invalid:
		return all
	case reflect.Interface:
		return appendSubjects(all, v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			all = appendSubjects(all, v.Index(i))
		}
		return all
	case reflect.Pointer, reflect.Map:
		if v.IsNil() {
			return all
		}
	}
	return append(all, v.Interface())
}
