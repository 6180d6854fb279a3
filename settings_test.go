package kopf

import (
	"reflect"
	"testing"
)

// TestSettingsClone proves that the copy for a run shares no list with the settings of the caller.
func TestSettingsClone(t *testing.T) {
	s := NewSettings()
	fillLists(reflect.ValueOf(s).Elem())
	own := s.clone()
	if !reflect.DeepEqual(s, own) {
		t.Errorf("got %+v, want %+v", own, s)
	}
	compareLists(t, "Settings", reflect.ValueOf(s).Elem(), reflect.ValueOf(own).Elem())
}

// fillLists gives each list in the settings an element.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillLists(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Interface, reflect.Pointer: // the default storages
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	}
}

// compareLists reports the lists, maps and storages that two settings share.
func compareLists(t *testing.T, name string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				compareLists(t, name+"."+f.Name, a.Field(i), b.Field(i))
			}
		}
	case reflect.Slice, reflect.Map, reflect.Pointer:
		if !a.IsNil() && a.UnsafePointer() == b.UnsafePointer() {
			t.Errorf("%s is shared", name)
		}
		if a.Kind() == reflect.Pointer && !a.IsNil() {
			compareLists(t, name, a.Elem(), b.Elem())
		}
	case reflect.Interface:
		if !a.IsNil() {
			compareLists(t, name, a.Elem(), b.Elem())
		}
	}
}
