package markers

// MergeAnnotations applies a merge patch to annotations. Values that are neither strings nor null become empty.
func MergeAnnotations(all map[string]string, changes map[string]any) {
	for key, value := range changes {
		text, _ := value.(string)
		if all[key] = text; value == nil {
			delete(all, key)
		}
	}
}

// Size returns the size of annotations, by the rules of the Kubernetes limit.
func Size(all map[string]string) int {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	return size
}
