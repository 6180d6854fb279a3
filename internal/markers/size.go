package markers

// MergeAnnotations changes annotations as a merge patch does; what is neither a text nor null becomes empty.
func MergeAnnotations(all map[string]string, changes map[string]any) {
	for key, value := range changes {
		text, _ := value.(string)
		if all[key] = text; value == nil {
			delete(all, key)
		}
	}
}

// Size returns the size of annotations as Kubernetes limits it.
func Size(all map[string]string) int {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	return size
}
