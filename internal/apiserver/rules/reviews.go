package rules

import (
	"maps"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func reviewFunctions() map[string]function {
	return map[string]function{
		"emptyMetadata":     emptyMetadata,
		"reviewedUser":      reviewedUser,
		"reviewedNamespace": reviewedNamespace,
		"nonResources":      nonResources,
		"noAttributes":      noAttributes,
		"reviewSelector":    reviewSelector,
	}
}

// emptyMetadata refuses metadata of a review, which is not stored. Its namespace comes from the address.
func emptyMetadata(n *node, detail string, _ []string) {
	meta := maps.Clone(rawjson.AsMap(n.value))
	delete(meta, "namespace")
	maps.DeleteFunc(meta, func(_ string, value any) bool { return isEmpty(value) })
	if len(meta) > 0 {
		n.invalid(detail)
	}
}

func reviewedUser(n *node, detail string, _ []string) {
	if user := n.child("user"); user.text() == "" && isEmpty(n.child("groups").value) {
		user.invalidText(detail)
	}
}

func reviewedNamespace(n *node, detail string, _ []string) {
	if space := n.child("namespace"); space.text() != n.parent.parent.string("metadata.namespace") {
		space.invalidText(detail)
	}
}

func nonResources(n *node, detail string, _ []string) {
	n.report(field.Invalid(n.path, goForm(n.value, `Path="" Verb=""`), detail))
}

func noAttributes(n *node, detail string, _ []string) { n.invalid(detail) }

// reviewSelector checks a selector for the fields or labels of the objects under review.
func reviewSelector(n *node, _ string, _ []string) {
	raw, requirements := n.child("rawSelector"), n.child("requirements")
	switch {
	case raw.text() != "" && !isEmpty(requirements.value):
		raw.invalidText("may not specified at the same time as requirements")
	case raw.text() == "" && isEmpty(requirements.value):
		requirements.required("when " + n.path + " is specified, requirements or rawSelector is required")
	}
	ofLabels := strings.HasSuffix(n.path, "labelSelector")
	for _, requirement := range requirements.items() {
		key, values := requirement.child("key"), requirement.child("values")
		if !ofLabels && key.text() == "" {
			key.required("must be specified")
		}
		requirement.checkOperator(values) // a review allows others
		if !ofLabels {
			continue
		}
		key.format(QualifiedName)
		for _, value := range values.items() {
			value.format(LabelValue)
		}
	}
}
