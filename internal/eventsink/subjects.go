package eventsink

import "reflect"

// Subjects returns what is in values that an event is about: the items of slices and arrays, however these are nested, and all else as it is. What is nil is left out.
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
