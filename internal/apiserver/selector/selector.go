// Package selector parses label selectors and field selectors, and matches them.
package selector

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Requirement is one requirement of a selector.
type Requirement struct {
	Key    string
	op     string // =, !=, in, notin, exists, !exists, >, <
	values []string
}

// Matches reports whether a value meets the requirement. If the key is missing, present is false.
func (r Requirement) Matches(value string, present bool) bool {
	switch r.op {
	case "=":
		return present && value == r.values[0]
	case "!=":
		return !present || value != r.values[0]
	case "in":
		return present && slices.Contains(r.values, value)
	case "notin":
		return !present || !slices.Contains(r.values, value)
	case "exists":
		return present
	case "!exists":
		return !present
	}
	a, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !present {
		return false
	}
	b, _ := strconv.ParseInt(r.values[0], 10, 64) // ParseLabels has checked it
	return r.op == ">" && a > b || r.op == "<" && a < b
}

// MatchesLabels reports whether the labels of an object match a selector with matchLabels and matchExpressions. An unknown operator matches nothing.
func MatchesLabels(selector, object map[string]any) bool {
	labels := rawjson.AsMap(rawjson.AsMap(object["metadata"])["labels"])
	for key, want := range rawjson.AsMap(selector["matchLabels"]) {
		if v, ok := labels[key]; !ok || v != want {
			return false
		}
	}
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		m := rawjson.AsMap(e)
		operator := unstructured.Text(m, "operator")
		r := Requirement{values: unstructured.Texts(m["values"])}
		r.Key = unstructured.Text(m, "key")
		switch operator {
		case "In", "NotIn", "Exists":
			r.op = strings.ToLower(operator)
		case "DoesNotExist":
			r.op = "!exists"
		default:
			return false
		}
		if value, ok := labels[r.Key].(string); !r.Matches(value, ok) {
			return false
		}
	}
	return true
}
