// Package manifest changes objects before their creation: maps, or structs that encoding/json encodes as objects.
package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Child is an object to change: a map, or a struct.
type Child struct {
	Target map[string]any // nil for structs
	Typed  any            // pointer to the struct
	Before map[string]any // the decoded struct
	After  map[string]any // copy to be changed
}

// FromStruct returns the decoded JSON of a struct.
func FromStruct(typed any) (map[string]any, error) {
	data, err := json.Marshal(typed)
	if err != nil {
		return nil, fmt.Errorf("reading a %T: %w", typed, err)
	}
	value, err := rawjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading a %T: %w", typed, err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a %T is not an object: it reads as %s", typed, data)
	}
	return object, nil
}

// CloneMaps copies the maps of an object. It shares all other values, which are never changed. Labels and metadata of type map[string]string become maps of
// any.
func CloneMaps(object map[string]any) map[string]any {
	clone := make(map[string]any, len(object))
	for key, value := range object {
		switch value := value.(type) {
		case map[string]any:
			if value != nil {
				clone[key] = CloneMaps(value)
			}
		case map[string]string:
			texts := make(map[string]any, len(value))
			for k, text := range value {
				texts[k] = text
			}
			clone[key] = texts
		default:
			clone[key] = value
		}
	}
	return clone
}

// Write applies the changes to the object.
func (c *Child) Write() error {
	if c.Target != nil {
		clear(c.Target)
		for key, value := range c.After {
			c.Target[key] = value
		}
		return nil
	}
	document := c.After
	if _, whole := c.Typed.(json.Unmarshaler); !whole {
		document = Changes(c.Before, c.After) // so that fields without JSON stay unchanged
		// The list is cleared first, because items would be decoded into the old ones.
		if _, listed := rawjson.Lookup(document, "metadata", "ownerReferences"); listed {
			if err := json.Unmarshal([]byte(`{"metadata":{"ownerReferences":null}}`), c.Typed); err != nil {
				return fmt.Errorf("changing a %T: %w", c.Typed, err)
			}
		}
	}
	data, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(data, c.Typed)
	}
	if err != nil {
		return fmt.Errorf("changing a %T: %w", c.Typed, err)
	}
	result, err := FromStruct(c.Typed)
	if err != nil {
		return err
	}
	if lost := Changes(result, c.After); len(lost) > 0 {
		data, _ := json.Marshal(lost)
		return fmt.Errorf("a %T has no place for %s", c.Typed, data)
	}
	return nil
}

// Changes returns the values to merge into a struct, so that it encodes as the second object. Empty values count as absent.
func Changes(before, after map[string]any) map[string]any {
	merge := map[string]any{}
	for key, value := range after {
		if inner, ok := value.(map[string]any); ok {
			old, _ := before[key].(map[string]any)
			if sub := Changes(old, inner); len(sub) > 0 {
				merge[key] = sub
			}
			continue
		}
		list, isList := value.([]any)
		absent := before[key] == nil && (value == nil || value == "" || isList && len(list) == 0)
		if !absent && !rawjson.Equal(before[key], value) {
			merge[key] = value
		}
	}
	for key, value := range before {
		if _, isText := value.(string); isText && after[key] == nil && value != "" {
			merge[key] = ""
		}
	}
	return merge
}

// section returns a map in another one. It creates the map if it is absent or null.
func section(in map[string]any, key string) (map[string]any, error) {
	switch value := in[key].(type) {
	case nil:
		made := map[string]any{}
		in[key] = made
		return made, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("%s is a %T, not a map", key, value)
	}
}

// Lookup returns the value at a path. It reports false for null and for unreachable paths.
func Lookup(object map[string]any, keys []string) (any, bool) {
	part, ok := rawjson.Lookup(object, keys...)
	return part, ok && part != nil
}

// AppendChildren collects the objects in a value, at any depth. It rejects those of the read-only type.
func AppendChildren(children []Child, v reflect.Value, readOnly reflect.Type) ([]Child, error) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return children, nil
	case reflect.Slice, reflect.Array:
		var err error
		for i := 0; i < v.Len() && err == nil; i++ {
			item := v.Index(i)
			if item.Kind() == reflect.Struct && item.CanAddr() {
				item = item.Addr()
			}
			children, err = AppendChildren(children, item, readOnly)
		}
		return children, err
	case reflect.Map:
		plain := reflect.TypeFor[map[string]any]()
		if !v.CanConvert(plain) {
			break
		}
		if v.IsNil() {
			return children, nil
		}
		target := v.Convert(plain).Interface().(map[string]any)
		return append(children, Child{Target: target, After: CloneMaps(target)}), nil
	case reflect.Pointer:
		if v.IsNil() {
			return children, nil
		}
		if kind := v.Elem().Kind(); kind == reflect.Slice || kind == reflect.Array || kind == reflect.Interface {
			return AppendChildren(children, v.Elem(), readOnly)
		}
		if v.Type() == readOnly || v.Elem().Kind() != reflect.Struct {
			break
		}
		before, err := FromStruct(v.Interface())
		if err != nil {
			return nil, err
		}
		return append(children, Child{Typed: v.Interface(), Before: before, After: CloneMaps(before)}), nil
	}
	return nil, fmt.Errorf("a %s is not an object that can be changed; a map[string]any or a pointer to a struct is", v.Type())
}

// Replace sets the field at the keys, and creates missing parents; nil removes the field. It requires at least one key.
func Replace(object map[string]any, keys []string, value any) {
	for _, key := range keys[:len(keys)-1] {
		next := rawjson.AsMap(object[key])
		if next == nil {
			if value == nil {
				return
			}
			next = make(map[string]any)
			object[key] = next
		}
		object = next
	}
	if last := keys[len(keys)-1]; value == nil {
		delete(object, last)
	} else {
		object[last] = value
	}
}
