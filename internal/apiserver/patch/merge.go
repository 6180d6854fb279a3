package patch

import "github.com/kopf-go/kopf/internal/rawjson"

// ApplyMerge applies a JSON merge patch to a decoded object, and returns the result. It changes the object in place, and the patch not. As in kube-apiserver, nulls are also left out of the
// objects in the lists of a patch, which RFC 7396 keeps as they are: but not if such a list takes the place of an object.
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
