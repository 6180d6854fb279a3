package rules

import (
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// checkSelector checks a label selector.
func (n *node) checkSelector() {
	n.child("matchLabels").checkLabels()
	for _, requirement := range n.child("matchExpressions").items() {
		values := requirement.child("values")
		if operator := requirement.child("operator"); !requirement.checkOperator(values) {
			operator.invalidText("not a valid selector operator")
		}
		requirement.child("key").format(QualifiedName)
		for _, value := range values.items() {
			value.format(LabelValue)
		}
	}
}

// checkOperator checks that a requirement has values if its operator needs them, and reports whether the operator is known.
func (n *node) checkOperator(values *node) bool {
	switch n.string("operator") {
	case "In", "NotIn":
		if isEmpty(values.value) {
			values.required("must be specified when `operator` is 'In' or 'NotIn'")
		}
	case "Exists", "DoesNotExist":
		if !isEmpty(values.value) {
			values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	default:
		return false
	}
	return true
}

// format checks a text, also an empty one.
func (n *node) format(wrong format) {
	for _, detail := range wrong(n.text()) {
		n.invalidText(detail)
	}
}

// selects reports whether a selector selects labels, and whether it is valid. A missing one selects nothing.
func (n *node) selects(labels map[string]any) (selects, valid bool) {
	if n.value == nil {
		return false, true
	}
	before := len(n.run.faults)
	n.checkSelector()
	valid = len(n.run.faults) == before
	n.run.faults = n.run.faults[:before]
	if !valid {
		return false, false
	}
	for key, value := range rawjson.AsMap(n.child("matchLabels").value) {
		if !rawjson.Equal(labels[key], value) || labels[key] == nil {
			return false, true
		}
	}
	for _, requirement := range n.child("matchExpressions").items() {
		value, has := labels[requirement.string("key")]
		text, _ := value.(string)
		in := has && slices.Contains(requirement.child("values").texts(), text)
		switch requirement.string("operator") {
		case "In":
			selects = in
		case "NotIn":
			selects = !in
		case "Exists":
			selects = has
		default:
			selects = !has
		}
		if !selects {
			return false, true
		}
	}
	return true, true
}

// selectsAll reports whether a selector exists and has no requirements.
func (n *node) selectsAll() bool {
	return n.value != nil && isEmpty(n.child("matchLabels").value) && isEmpty(n.child("matchExpressions").value)
}
