package markers

import (
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// AnnotationKeys returns the annotation keys for an id, under a prefix that ends with a slash, in the order in which they are read. The keys of both versions
// may be equal.
func AnnotationKeys(prefix, id string, v2only bool) []string {
	name := ReplaceUnsafe(id)
	v2 := name
	if utf8.RuneCountInString(id) > MaxNameLength {
		suffix := HashSuffix(id)
		v2 = cut.Runes(name, MaxNameLength-len(suffix)) + suffix
	}
	if v2only {
		return []string{prefix + v2}
	}
	v1, available := name, MaxNameLength-utf8.RuneCountInString(prefix)
	if n := utf8.RuneCountInString(name); n > available {
		suffix := HashSuffix(name)
		if available -= len(suffix); available < 0 {
			available = max(0, n+available) // compatible with earlier versions for long prefixes
		}
		v1 = cut.Runes(name, available) + suffix
	}
	if v1 == v2 {
		return []string{prefix + v2}
	}
	return []string{prefix + v2, prefix + v1}
}

// ReplicaSetID returns the id to use on a ReplicaSet. If its owner is a Deployment, the id gets a mark, because Kubernetes copies the annotations of
// Deployments.
func ReplicaSetID(id string, ownerReferences []byte) string {
	owned := false
	_ = rawjson.EachItem(ownerReferences, func(owner []byte) bool { // malformed items are ignored
		owned = rawjson.StringAt(owner, "kind") == "Deployment"
		return !owned
	})
	if owned {
		return id + "-ofDRS"
	}
	return id
}
