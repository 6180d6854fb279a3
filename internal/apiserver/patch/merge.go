package patch

import "github.com/kopf-go/kopf/internal/rawjson"

// ApplyMerge applies a JSON merge patch to a decoded object, and returns the result. It changes the object in place, but not the patch. As in
// kube-apiserver, it also drops nulls from the objects in the lists of a patch, which RFC 7396 keeps. It keeps them if such a list replaces an object.
func ApplyMerge(object, patch map[string]any) map[string]any {
	for key, change := range patch {
		if change == nil {
			delete(object, key)
			continue
		}
		inner, isObject := object[key].(map[string]any)
		changes, changesObject := change.(map[string]any)
		switch {
		case isObject && changesObject:
			object[key] = ApplyMerge(inner, changes)
		case isObject:
			object[key] = rawjson.Clone(change)
		default:
			object[key] = withoutNulls(change)
		}
	}
	return object
}

// withoutNulls returns a copy of a value without the members of objects that are null, at any depth. Nulls that are items of lists stay.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, value := range v {
			if value != nil {
				object[key] = withoutNulls(value)
			}
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = withoutNulls(item)
		}
		return list
	}
	return v
}
