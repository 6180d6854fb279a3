package applyset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Scope is the set of kinds and namespaces of the members of a set. A member of each kind can be in each namespace. The zero value is empty.
type Scope struct {
	Kinds      []GroupKind // sorted as in the annotation
	Namespaces []string    // sorted
}

// ParseScope returns the scope in the values of [GroupKindsAnnotation] and [NamespacesAnnotation]. With an error, it returns the valid part.
func ParseScope(kinds, namespaces string) (Scope, error) {
	var s Scope
	var failures []error
	for _, text := range split(kinds) {
		parsed, err := ParseGroupKinds(text)
		s.Kinds, failures = append(s.Kinds, parsed...), append(failures, err)
	}
	for _, text := range split(namespaces) {
		parsed, err := ParseNamespaces(text)
		s.Namespaces, failures = append(s.Namespaces, parsed...), append(failures, err)
	}
	return s, errors.Join(failures...)
}

// Add returns the scope with another member. The namespace is "" for cluster-scoped kinds.
func (s Scope) Add(kind GroupKind, namespace string) Scope {
	return s.Union(Scope{Kinds: []GroupKind{kind}, Namespaces: []string{namespace}})
}

// Union returns the scope of the members of both.
func (s Scope) Union(other Scope) Scope {
	s.Kinds = slices.Concat(s.Kinds, other.Kinds)
	slices.SortFunc(s.Kinds, func(a, b GroupKind) int { return strings.Compare(a.String(), b.String()) })
	s.Kinds = slices.Compact(s.Kinds)
	s.Namespaces = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Namespaces, other.Namespaces))))
	s.Namespaces = slices.DeleteFunc(s.Namespaces, func(namespace string) bool { return namespace == "" })
	return s
}

// Equal reports whether both scopes are equal.
func (s Scope) Equal(other Scope) bool {
	return slices.Equal(s.Kinds, other.Kinds) && slices.Equal(s.Namespaces, other.Namespaces)
}

// IsEmpty reports whether there are no members.
func (s Scope) IsEmpty() bool { return len(s.Kinds) == 0 }

// Store stores on an object that it is the parent of a set with members in the scope, or removes the labels and annotations of sets for an empty scope.
func (s Scope) Store(object map[string]any, id, version string) error {
	metadata := rawjson.AsMap(object["metadata"])
	namespace, _ := metadata["namespace"].(string)
	parts := map[string]map[string]string{
		"labels": {IDLabel: id},
		"annotations": {
			ToolingAnnotation: Tooling(version), GroupKindsAnnotation: FormatGroupKinds(s.Kinds), NamespacesAnnotation: FormatNamespaces(s.Namespaces, namespace),
		},
	}
	for part, entries := range parts {
		values, ok := metadata[part].(map[string]any)
		if !ok && metadata[part] != nil {
			return fmt.Errorf("invalid metadata.%s, %s: want an object", part, rawjson.KindOf(metadata[part]))
		}
		if !ok {
			values = make(map[string]any)
		}
		for key, value := range entries {
			if values[key] = value; s.IsEmpty() {
				delete(values, key)
			}
		}
		if metadata[part] = values; len(values) == 0 {
			delete(metadata, part)
		}
	}
	return nil
}

// WithoutOwn returns the labels and annotations of an object without those of a set that kopf manages.
func WithoutOwn(labels, annotations []byte) (otherLabels, otherAnnotations []byte) {
	if tooling, ok := rawjson.EntryAt(annotations, ToolingAnnotation); !ok || !IsOwnTooling(tooling) {
		return labels, annotations
	}
	labels, _ = markers.FilterMembers(labels, func(key []byte) bool { return string(key) == IDLabel })
	annotations, _ = markers.FilterMembers(annotations, func(key []byte) bool {
		return slices.Contains([]string{ToolingAnnotation, GroupKindsAnnotation, NamespacesAnnotation}, string(key))
	})
	return labels, annotations
}
