// Package applyset implements the ApplySet specification: labels and annotations on the objects of a set and on their parent, by which other tools find the
// objects and their set in any namespace.
//
// See https://github.com/kubernetes/enhancements/tree/master/keps/sig-cli/3659-kubectl-apply-prune
package applyset

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/validation"
)

// The labels of the specification.
const (
	IDLabel         = "applyset.kubernetes.io/id"             // on a parent: the ID of its set
	PartOfLabel     = "applyset.kubernetes.io/part-of"        // on a member: the ID of its set
	ParentTypeLabel = "applyset.kubernetes.io/is-parent-type" // on the definition of a kind with parents; its value is ParentType
)

// ParentType is the value of [ParentTypeLabel].
const ParentType = "true"

// The annotations of the specification, all on the parent.
const (
	ToolingAnnotation    = "applyset.kubernetes.io/tooling"               // the tool that manages the set
	GroupKindsAnnotation = "applyset.kubernetes.io/contains-group-kinds"  // kinds of the members
	NamespacesAnnotation = "applyset.kubernetes.io/additional-namespaces" // namespaces of members, in addition to that of the parent
)

// toolingName is the name of the tool in all versions.
const toolingName = "kopf"

// maxQuoted is the maximum length of a quoted value in an error, in bytes.
const maxQuoted = 100

// ID returns the ID of the set of a parent. The namespace is "" for cluster-scoped kinds, and the group is "" for core kinds. It is stored on objects, so the
// algorithm must never change.
func ID(name, namespace, kind, group string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{name, namespace, kind, group}, ".")))
	return idPrefix + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

const idPrefix = "applyset-"

// IsID reports whether a text is the ID of a set, rather than the uid of an object.
func IsID(text string) bool { return strings.HasPrefix(text, idPrefix) }

// Tooling returns the value of [ToolingAnnotation] for a version of kopf.
func Tooling(version string) string { return toolingName + "/" + version }

// IsOwnTooling reports whether a value of [ToolingAnnotation] is that of any kopf version. The version follows the last slash.
func IsOwnTooling(tooling string) bool {
	name := tooling
	if at := strings.LastIndexByte(tooling, '/'); at >= 0 {
		name = tooling[:at]
	}
	return name == toolingName
}

// GroupKind is a kind in all versions. The group is "" for core kinds.
type GroupKind struct{ Group, Kind string }

// String returns the kind as in the annotation, such as "Deployment.apps" or "Secret".
func (gk GroupKind) String() string {
	if gk.Group == "" {
		return gk.Kind
	}
	return gk.Kind + "." + gk.Group
}

// FormatGroupKinds returns the value of [GroupKindsAnnotation] for kinds, sorted and without duplicates.
func FormatGroupKinds(kinds []GroupKind) string {
	texts := make([]string, len(kinds))
	for i, gk := range kinds {
		texts[i] = gk.String()
	}
	return join(texts)
}

// ParseGroupKinds returns the sorted kinds in a value of [GroupKindsAnnotation]. After an error, the list may be incomplete.
func ParseGroupKinds(annotation string) ([]GroupKind, error) {
	var kinds []GroupKind
	for _, text := range split(annotation) {
		kind, group, grouped := strings.Cut(text, ".")
		if !validation.IsDNSLabel(strings.ToLower(kind)) || grouped && !validation.IsDNSSubdomain(group) {
			return nil, fmt.Errorf("invalid kind %q in the annotation %s: want a kind and its group, such as Deployment.apps", cut.Middle(text, maxQuoted), GroupKindsAnnotation)
		}
		kinds = append(kinds, GroupKind{group, kind})
	}
	return kinds, nil
}

// FormatNamespaces returns the value of [NamespacesAnnotation] for namespaces, without that of the parent.
func FormatNamespaces(namespaces []string, parent string) string {
	return join(slices.DeleteFunc(slices.Clone(namespaces), func(namespace string) bool { return namespace == parent }))
}

// ParseNamespaces returns the sorted namespaces in a value of [NamespacesAnnotation]. After an error, the list may be incomplete.
func ParseNamespaces(annotation string) ([]string, error) {
	namespaces := split(annotation)
	for _, namespace := range namespaces {
		if !validation.IsDNSLabel(namespace) {
			return nil, fmt.Errorf("invalid namespace %q in the annotation %s: want a DNS label", cut.Middle(namespace, maxQuoted), NamespacesAnnotation)
		}
	}
	return namespaces, nil
}

// join joins the distinct texts, sorted and without the empty one.
func join(texts []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(texts)))
	return strings.Join(slices.DeleteFunc(sorted, func(text string) bool { return text == "" }), ",")
}

// split splits texts that join has joined.
func split(joined string) []string {
	if joined == "" {
		return nil
	}
	return slices.Compact(slices.Sorted(strings.SplitSeq(joined, ",")))
}
