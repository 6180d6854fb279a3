package index

import (
	"fmt"
	"math"
	"reflect"
)

// keyError returns the error for a key that does not equal itself. It names the part of the key.
func keyError(key any) error {
	const text = "invalid key %+v of an index: want a value that equals itself"
	path, _ := nan(reflect.ValueOf(key))
	if path == "" {
		return fmt.Errorf(text, key)
	}
	return fmt.Errorf(text+", unlike its part %s", key, path)
}

// nan returns the path of the first NaN in a value, which is what makes it unequal to itself. It
// returns "" for the value itself.
func nan(v reflect.Value) (path string, found bool) {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return "", math.IsNaN(v.Float())
	case reflect.Complex64, reflect.Complex128:
		return "", math.IsNaN(real(v.Complex())) || math.IsNaN(imag(v.Complex()))
	case reflect.Interface:
		return nan(v.Elem())
	case reflect.Array:
		for i := range v.Len() {
			if path, found = nan(v.Index(i)); found {
				return join(fmt.Sprintf("[%d]", i), path), true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path, found = nan(v.Field(i)); found && name != "_" { // Go does not compare that
				return join(name, path), true
			}
		}
	}
	return "", false
}

// join appends the path of a part to that of its parent.
func join(parent, part string) string {
	if part == "" || part[0] == '[' {
		return parent + part
	}
	return parent + "." + part
}
