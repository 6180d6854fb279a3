package main

import (
	"bytes"
	"encoding/json"
	"slices"
)

// reordered returns patches with another order of keys, and spaces, in strings that contain objects. Some programs change both in such strings.
func reordered(patches []json.RawMessage) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for _, patch := range patches {
		var value any
		if err := json.Unmarshal(patch, &value); err != nil {
			return nil, err
		}
		value, err := reorderedTexts(value)
		if err != nil {
			return nil, err
		}
		changed, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		all = append(all, changed)
	}
	return all, nil
}

// reorderedTexts changes the strings in a value.
func reorderedTexts(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key], err = reorderedTexts(inner); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, inner := range v {
			if v[i], err = reorderedTexts(inner); err != nil {
				return nil, err
			}
		}
	case string:
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(v), &object) != nil {
			return v, nil
		}
		text, err := backwards([]byte(v))
		return string(text), err
	}
	return value, nil
}

// backwards encodes a value with the keys of its objects in reverse order, and with spaces.
func backwards(text []byte) ([]byte, error) {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil && list != nil {
		items := make([][]byte, len(list))
		for i := range list {
			var err error
			if items[i], err = backwards(list[i]); err != nil {
				return nil, err
			}
		}
		return slices.Concat([]byte("["), bytes.Join(items, []byte(", ")), []byte("]")), nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return text, nil
	}
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range slices.Backward(keys) {
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		inner, err := backwards(object[key])
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteString(": ")
		b.Write(inner)
		if i > 0 {
			b.WriteString(", ")
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
