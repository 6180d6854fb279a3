package rules

import (
	"fmt"
	"slices"

	"github.com/kopf-go/kopf/internal/apiserver/field"
)

func affinityFunctions() map[string]function {
	return map[string]function{
		"oneValue":           oneValue,
		"affinityNamespaces": affinityNamespaces,
		"affinityLabelKeys":  affinityLabelKeys,
		"repeatedConstraint": repeatedConstraint,
		"minDomains":         minDomains,
		"spreadLabelKeys":    spreadLabelKeys,
	}
}

// oneValue requires a list of one value. It must be called for missing lists, too.
func oneValue(n *node, detail string, _ []string) {
	if len(n.items()) != 1 {
		n.required(detail)
	}
}

// affinityNamespaces checks the names of namespaces. Their errors have the path of another field.
func affinityNamespaces(n *node, _ string, _ []string) {
	for _, item := range n.items() {
		item.path = join(n.parent.path, "namespace")
		item.format(Label)
	}
}

func affinityLabelKeys(n *node, _ string, _ []string) {
	selector, match, mismatch := n.child("labelSelector"), n.child("matchLabelKeys"), n.child("mismatchLabelKeys")
	for _, list := range []*node{match, mismatch} {
		list.checkLabelKeys(selector)
	}
	selected := selector.child("matchLabels").sortedKeys()
	for _, expression := range selector.child("matchExpressions").items() {
		key := expression.string("key")
		if i := slices.Index(match.texts(), key); i >= 0 && slices.Contains(selected, key) {
			n.report(field.Invalid(fmt.Sprintf("%s[%d]", n.path, i), key, "exists in both matchLabelKeys and labelSelector"))
		}
		selected = append(selected, key)
	}
	for _, key := range match.items() {
		if slices.Contains(mismatch.texts(), key.text()) {
			key.invalidText("exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}

// checkLabelKeys checks the keys of labels that are added to a selector.
func (n *node) checkLabelKeys(selector *node) {
	switch {
	case isEmpty(n.value):
	case selector.value == nil:
		n.forbidden("must not be specified when labelSelector is not set")
	default:
		for _, key := range n.items() {
			key.format(QualifiedName)
		}
	}
}

func repeatedConstraint(n *node, _ string, _ []string) {
	key, action := n.string("topologyKey"), n.string("whenUnsatisfiable")
	for _, other := range n.parent.items()[n.index+1:] {
		if other.string("topologyKey") == key && other.string("whenUnsatisfiable") == action {
			n.report(field.Duplicate(n.path+".{topologyKey, whenUnsatisfiable}", fmt.Sprintf("{%v, %v}", key, action)))
			return
		}
	}
}

func minDomains(n *node, _ string, _ []string) {
	n.invalid("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not " + n.parent.string("whenUnsatisfiable"))
}

func spreadLabelKeys(n *node, _ string, _ []string) {
	keys, selector := n.child("matchLabelKeys"), n.child("labelSelector")
	keys.checkLabelKeys(selector)
	selected := selector.child("matchLabels").sortedKeys()
	for _, expression := range selector.child("matchExpressions").items() {
		key := expression.string("key")
		if i := slices.Index(keys.texts(), key); i >= 0 && slices.Contains(selected, key) {
			n.report(field.Invalid(fmt.Sprintf("%s[%d]", n.path, i), key, "exists in both matchLabelKeys and labelSelector"))
		}
		selected = append(selected, key)
	}
}
