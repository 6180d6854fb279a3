package manifest

import (
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// AddFinalizer adds a finalizer to an object, if missing.
func AddFinalizer(object map[string]any, finalizer string) {
	meta := rawjson.AsMap(object["metadata"])
	list, _ := meta["finalizers"].([]any)
	if meta != nil && !slices.Contains(list, any(finalizer)) {
		meta["finalizers"] = append(slices.Clone(list), any(finalizer))
	}
}

// RemoveFinalizer removes a finalizer from an object.
func RemoveFinalizer(object map[string]any, finalizer string) {
	meta := rawjson.AsMap(object["metadata"])
	list, _ := meta["finalizers"].([]any)
	if !slices.Contains(list, any(finalizer)) {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == any(finalizer) })
	if len(rest) == 0 {
		delete(meta, "finalizers")
	} else {
		meta["finalizers"] = rest
	}
}
