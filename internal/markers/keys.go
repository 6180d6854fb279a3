package markers

import (
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// AnnotationKeys returns the keys of annotations for an id under a prefix that ends with a slash, in the order in which
// they are read: those of both versions, or one where they are the same.
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
			available = max(0, n+available) // so it has always been with long prefixes
		}
		v1 = cut.Runes(name, available) + suffix
	}
	if v1 == v2 {
		return []string{prefix + v2}
	}
	return []string{prefix + v2, prefix + v1}
}

// ReplicaSetID returns the id that is used instead of another one on a replica set with owners: those of deployments get a mark, because Kubernetes copies the
// annotations of the deployments to them.
func ReplicaSetID(id string, ownerReferences []byte) string {
	owned := false
	_ = rawjson.EachItem(ownerReferences, func(owner []byte) bool { // what is malformed is not there
		owned = rawjson.StringAt(owner, "kind") == "Deployment"
		return !owned
	})
	if owned {
		return id + "-ofDRS"
	}
	return id
}
