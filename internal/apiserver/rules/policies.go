package rules

import (
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func policyFunctions() map[string]function {
	return map[string]function{
		"nonResourceURLs": nonResourceURLs,
		"roleRef":         roleRef,
		"bothBudgets":     bothBudgets,
		"replicaRange":    replicaRange,
		"groupVersion":    groupVersion,
		"metricSource":    metricSource,
		"zeroReplicas":    zeroReplicas,
		"roleSelector":    roleSelector,
	}
}

func nonResourceURLs(n *node, _ string, _ []string) {
	rule := n.parent
	if namespaced := rule.parent.parent.at("metadata.namespace").value != nil; namespaced {
		n.invalid("namespaced rules cannot apply to non-resource URLs")
	}
	if !isEmpty(rule.child("apiGroups").value) || !isEmpty(rule.child("resources").value) || !isEmpty(rule.child("resourceNames").value) {
		n.invalid("rules cannot apply to both regular resources and non-resource URLs")
	}
}

func roleRef(n *node, _ string, _ []string) {
	if n.run.update && !rawjson.Equal(n.value, n.old) {
		n.report(field.Invalid(n.path, goForm(n.value, `APIGroup="" Kind="" Name=""`), "cannot change roleRef"))
	}
}

func bothBudgets(n *node, detail string, _ []string) {
	n.report(field.Invalid(n.path, goForm(n.value, "MinAvailable Selector MaxUnavailable UnhealthyPodEvictionPolicy"), detail))
}

func replicaRange(n *node, detail string, _ []string) {
	least, most := n.child("minReplicas"), n.child("maxReplicas")
	if limit := least.number(); least.value != nil && most.number() < limit || least.value == nil && most.number() < 1 {
		most.invalidNumber(detail)
	}
}

// groupVersion checks the API version of a reference. It may lack a group only if the object is a source of metrics.
func groupVersion(n *node, _ string, _ []string) {
	text, ref := n.text(), n.parent
	if old := rawjson.AsMap(ref.old); n.run.update && rawjson.Equal(old["apiVersion"], n.value) && rawjson.Equal(old["kind"], ref.child("kind").value) {
		return
	}
	switch grouped := strings.Contains(text, "/"); {
	case strings.Count(text, "/") > 1:
		n.invalidText("unexpected GroupVersion string: " + text)
	case !grouped && !strings.HasSuffix(ref.path, "describedObject") && ref.string("kind") != "ReplicationController":
		n.invalidText("apiVersion must specify API group")
	}
}

// metricSources are the sources by the types of metrics, in the order of the checks.
var metricSources = [][2]string{{"object", "Object"}, {"external", "External"}, {"pods", "Pods"}, {"resource", "Resource"}, {"containerResource", "ContainerResource"}}

// metricSource requires the source for the type of a metric, and no other.
func metricSource(n *node, _ string, _ []string) {
	expected, found := "", 0
	for _, source := range metricSources {
		f := n.child(source[0])
		if f.value != nil {
			if found++; found == 1 {
				f.apply(source[1] + "MetricSource")
			}
		}
		if n.string("type") == source[1] {
			expected = source[0]
		}
	}
	if expected == "" {
		kind := n.child("type")
		kind.unsupported("ContainerResource", "External", "Object", "Pods", "Resource")
	} else if !n.has(expected) {
		n.child(expected).required("must populate information for the given metric source")
	}
	if found == 1 {
		return
	}
	for _, source := range metricSources {
		if f := n.child(source[0]); f.value != nil && source[0] != expected {
			f.forbidden("must populate the given metric source only")
		}
	}
}

// zeroReplicas requires a metric that exists without pods, if the minimum is zero replicas.
func zeroReplicas(n *node, _ string, _ []string) {
	metrics := n.child("metrics")
	if least := n.child("minReplicas"); least.value == nil || least.number() != 0 {
		return
	}
	for _, metric := range metrics.items() {
		if kind := metric.string("type"); kind == "Object" || kind == "External" {
			return
		}
	}
	metrics.forbidden("must specify at least one Object or External metric to support scaling to zero replicas")
}

// roleSelector checks a selector of roles. Its errors are also reported for the selector as a whole.
func roleSelector(n *node, _ string, _ []string) {
	before := len(n.run.faults)
	n.checkSelector()
	if len(n.run.faults) > before {
		n.report(field.Invalid(n.path, nil, "invalid label selector."))
	}
}
