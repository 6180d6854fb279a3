package kopf

import (
	"slices"
	"strconv"
	"strings"
)

func applyStrategicMerge(kind string, original, patch map[string]any) (map[string]any, error) {
	return mergeJSON(original, any(patch)).(map[string]any), nil
}

// applyJSONPatch applies a JSON patch (RFC 6902).
func applyJSONPatch(doc any, ops []byte) (any, error) {
	v, err := decodeJSON(ops)
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil, badRequest("error decoding patch: %v", err)
	}
	refused := &statusError{422, "Invalid", "the server rejected our request due to an error in our request", map[string]any{}}
	for _, o := range list {
		op := asMap(o)
		path, _ := op["path"].(string)
		keys := strings.Split(path, "/")[1:]
		for i, k := range keys {
			keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(k)
		}
		if doc, ok = patchAt(doc, keys, op); !ok {
			return nil, refused
		}
	}
	return doc, nil
}

func patchAt(doc any, keys []string, op map[string]any) (any, bool) {
	if len(keys) == 0 {
		switch op["op"] {
		case "test":
			return doc, equalJSON(doc, op["value"])
		case "remove":
			return nil, false
		}
		return cloneJSON(op["value"]), true
	}
	key, last := keys[0], len(keys) == 1
	switch d := doc.(type) {
	case map[string]any:
		old, has := d[key]
		switch {
		case last && op["op"] == "remove":
			delete(d, key)
			return d, has
		case !has && !(last && op["op"] == "add"):
			return nil, false
		}
		v, ok := patchAt(old, keys[1:], op)
		d[key] = v
		return d, ok
	case []any:
		i, err := strconv.Atoi(key)
		if key == "-" {
			i, err = len(d), nil
		}
		switch {
		case err != nil || i < 0 || i > len(d):
			return nil, false
		case last && op["op"] == "add":
			return slices.Insert(d, i, cloneJSON(op["value"])), true
		case i == len(d):
			return nil, false
		case last && op["op"] == "remove":
			return slices.Delete(d, i, i+1), true
		}
		v, ok := patchAt(d[i], keys[1:], op)
		d[i] = v
		return d, ok
	}
	return nil, false
}
