package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// FieldAt returns the schema of the field at a path such as ".spec.color", and the keys of the path. Keys in brackets are quoted: ".spec['a.b']".
func FieldAt(s map[string]any, path string, brackets bool) (found map[string]any, keys []string, err error) {
	for path != "" {
		key := ""
		switch {
		case path[0] == '[' && !brackets:
			return nil, nil, errors.New("array notation is not allowed")
		case path[0] == '[':
			key, path, err = quotedKey(path[1:])
		case path[0] == '.':
			end := strings.IndexAny(path[1:], ".[]")
			if end < 0 {
				end = len(path) - 1
			}
			if end == 0 && len(path) > 1 {
				end = 1 // the delimiter itself is the key
			}
			key, path = path[1:1+end], path[1+end:]
			if key == "" {
				err = errors.New("unexpected end of JSON path")
			}
		default:
			end := strings.IndexAny(path, ".[]")
			if end < 0 {
				end = len(path)
			}
			err = fmt.Errorf("expected [ or . but got: %s", path[:max(end, 1)])
		}
		if err != nil {
			return nil, nil, err
		}
		if s, err = fieldOf(s, key); err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
	}
	return s, keys, nil
}

// fieldOf returns the schema of a field of an object.
func fieldOf(s map[string]any, key string) (map[string]any, error) {
	child := rawjson.AsMap(s["additionalProperties"])
	if properties := rawjson.AsMap(s["properties"]); len(properties) > 0 {
		child = rawjson.AsMap(properties[key])
	}
	if child == nil {
		return nil, errors.New("does not refer to a valid field")
	}
	return child, nil
}

// quotedKey returns the key in brackets at the beginning of a path, and the rest. The opening bracket is cut off already.
func quotedKey(path string) (key, rest string, err error) {
	if path == "" {
		return "", "", errors.New("unexpected end of JSON path")
	}
	if path[0] != '\'' {
		return "", "", fmt.Errorf("expected single quoted string but got %s", path[:max(strings.IndexAny(path, ".[]"), 1)])
	}
	for i := 1; i < len(path); i++ {
		if path[i] != '\'' || path[i-1] == '\\' {
			continue
		}
		if rest := path[i+1:]; !strings.HasPrefix(rest, "]") {
			return "", "", errors.New("unexpected end of JSON path")
		}
		return strings.ReplaceAll(path[1:i], `\'`, `'`), path[i+2:], nil
	}
	return "", "", errors.New("unexpected end of JSON path")
}
