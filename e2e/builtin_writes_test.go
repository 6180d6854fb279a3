package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestBuiltinWrites sends writes to both servers whose results are odd.
func TestBuiltinWrites(t *testing.T) {
	compareSequences(t, judge(t, ownCluster(t, nil)), []sequence{writtenStatuses, statusManagers, emptyLists, writtenNumbers(), lengths()})
}

// service is all that differs in an answer about a service.
var service = []string{"spec", "status", "metadata.managedFields"}

var writtenStatuses = sequence{"statuses of missing services", []call{
	{"PUT", services + "/miss/status", asJSON, `{"metadata": {"name": "miss"}, "spec": {"ports": [{"port": 80}]}}`, service},
	{"GET", services + "/miss", "", "", service},
	{"PUT", services + "/full/status", asJSON, `{"metadata": {"name": "full", "labels": {"a": "b"}}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}`, service},
	{"PUT", services + "/bad/status", asJSON, `{"metadata": {"name": "bad"}}`, nil},
	{"PATCH", services + "/none/status", asMerge, `{"spec": {"ports": [{"port": 80}]}}`, nil},
	{"PATCH", services + "/applied/status?fieldManager=m", asApply, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "applied"}, "spec": {"ports": [{"port": 80}]}}`, service},
	{"PUT", pods + "/miss/status", asJSON, `{"metadata": {"name": "miss"}}`, nil},
	{"PUT", deployments + "/miss/status", asJSON, `{"metadata": {"name": "miss"}}`, nil},
}}

var statusManagers = sequence{"managers of metadata", []call{
	{"POST", quotas, asJSON, `{"metadata": {"name": "q", "labels": {"a": "1"}}, "spec": {}}`, managed},
	{"PUT", quotas + "/q/status", asJSON, `{"metadata": {"name": "q", "labels": {"a": "2", "b": "3"}, "finalizers": ["a/b"]}}`, managed},
	{"PATCH", quotas + "/q/status?fieldManager=m", asMerge, `{"metadata": {"labels": {"c": "4"}, "finalizers": null}}`, managed},
	{"POST", deployments, asJSON, `{"metadata": {"name": "m", "labels": {"a": "1"}}, "spec": {` + workload + `}}`, managed},
	{"PATCH", deployments + "/m/status?fieldManager=m", asMerge, `{"metadata": {"labels": {"a": "2"}}}`, managed},
	{"PATCH", deployments + "/m/status?fieldManager=m", asMerge, `{"metadata": {"labels": {"a": "2"}, "annotations": {"a": "2"}}}`, managed},
	{"PATCH", pods + "/none/status?fieldManager=m", asMerge, `{}`, nil},
}}

// managed is what is compared of objects whose managers matter.
var managed = []string{"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.managedFields"}

var emptyLists = sequence{"empty lists", []call{
	{"POST", clusterRoles, asJSON, `{"metadata": {"name": "empty"}, "rules": []}`, []string{"rules", "metadata.managedFields"}},
	{"PUT", clusterRoles + "/empty", asJSON, `{"metadata": {"name": "empty"}, "rules": []}`, []string{"rules", "metadata.managedFields"}},
	{"POST", clusterRoles, asJSON, `{"metadata": {"name": "null"}, "rules": null}`, []string{"rules", "metadata.managedFields"}},
	{"PUT", clusterRoles + "/null", asJSON, `{"metadata": {"name": "null"}, "rules": []}`, []string{"rules", "metadata.managedFields"}},
	{"POST", endpointSlices, asJSON, `{"metadata": {"name": "empty"}, "addressType": "IPv4", "endpoints": [], "ports": []}`, []string{"endpoints", "ports", "metadata.managedFields"}},
	{"PUT", endpointSlices + "/empty", asJSON, `{"metadata": {"name": "empty"}, "addressType": "IPv4", "endpoints": null}`, []string{"endpoints", "ports", "metadata.managedFields"}},
	{"POST", newAutoscalers, asJSON, scaled("up", `{"scaleUp": {"policies": []}}`), nil},
	{"POST", newAutoscalers, asJSON, scaled("down", `{"scaleDown": {"policies": [], "selectPolicy": "Disabled"}}`), nil},
	{"POST", newAutoscalers, asJSON, scaled("null", `{"scaleUp": {"policies": null}}`), []string{"spec"}},
}}

const (
	services       = "/api/v1/namespaces/default/services"
	clusterRoles   = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	endpointSlices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
)

// scaled returns an autoscaler with a behavior.
func scaled(name, behavior string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "behavior": %s}}`, name, behavior)
}

// writtenNumbers writes numbers in all forms.
func writtenNumbers() sequence {
	const path = "/apis/example.com/v1/namespaces/default/numbers"
	calls := []call{
		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, `{"metadata": {"name": "numbers.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "numbers", "kind": "Number"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
			"i": {"type": "integer"}, "n": {"type": "number", "maximum": 2e30}, "e": {"type": "number", "enum": [1.0, 2.5]}, "d": {"type": "number", "default": 1.0, "minimum": 1e0}}}}}}}]}}`, []string{"spec"}},
		{"GET", path, "", "", []string{settles}},
	}
	for i, spec := range []string{
		`"i": 1.0`, `"i": 1e3`, `"i": 1.5`, `"i": -0`, `"i": 9223372036854775807`, `"i": 9223372036854775808`, `"n": 1.50`, `"n": 1e21`, `"n": 1e-7`, `"n": 0.000001`, `"n": -0.0`, `"n": 1e400`, `"n": 3e30`,
		`"n": 12345678901234567890`, `"e": 1`, `"e": 2.50`, `"x": [1.0, {"a": 1e2}]`, `"x": 9007199254740993.0`, `"x": 5e-324`, `"x": 1.7976931348623157e308`,
	} {
		calls = append(calls, call{"POST", path, asJSON, fmt.Sprintf(`{"apiVersion": "example.com/v1", "kind": "Number", "metadata": {"name": "n%d"}, "spec": {%s}}`, i, spec), []string{"spec"}})
	}
	for _, n := range []string{"1.0", "1e3", "2.50", "-0.0"} {
		calls = append(calls,
			call{"PATCH", path + "/n0", asMerge, `{"spec": {"x": ` + n + `}}`, []string{"spec"}},
			call{"PATCH", path + "/n0", asJSONPatch, `[{"op": "add", "path": "/spec/y", "value": ` + n + `}]`, []string{"spec"}},
			call{"PATCH", path + "/applied?fieldManager=m", asApply, `{"apiVersion": "example.com/v1", "kind": "Number", "metadata": {"name": "applied"}, "spec": {"x": ` + n + `}}`, []string{"spec", onlyCode}})
	}
	calls = append(calls, call{"POST", deployments, asJSON, `{"metadata": {"name": "numbers"}, "spec": {"replicas": -0, ` + workload + `}}`, []string{"spec.replicas"}})
	for _, n := range []string{"1.0", "1e3", "2.50"} {
		calls = append(calls,
			call{"PATCH", deployments + "/numbers", asMerge, `{"spec": {"replicas": ` + n + `}}`, []string{"spec.replicas", onlyCode}},
			call{"PATCH", deployments + "/numbers", asStrategic, `{"spec": {"replicas": ` + n + `}}`, []string{"spec.replicas", onlyCode}},
			call{"PATCH", deployments + "/numbers?fieldManager=m&force=true", asApply, `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "numbers"}, "spec": {"replicas": ` + n + `}}`, []string{"spec.replicas", onlyCode}})
	}
	calls = append(calls, // in YAML, it is a text
		call{"PATCH", path + "/n0", asMerge, `{"spec": {"x": 1e400}}`, nil},
		call{"PATCH", path + "/n0", asJSONPatch, `[{"op": "add", "path": "/spec/y", "value": 1e400}]`, nil},
		call{"PATCH", deployments + "/numbers", asStrategic, `{"spec": {"replicas": 1e400}}`, nil})
	return sequence{"numbers", calls}
}

// lengths writes what is too short or too long by the limits of a schema.
func lengths() sequence {
	const path = "/apis/example.com/v1/namespaces/default/lengths"
	values := map[string][2]string{"Items": {`[]`, `["a", "b", "c"]`}, "Properties": {`{}`, `{"a": "b", "c": "d", "e": "f"}`}, "Length": {`""`, `"abc"`}}
	types := map[string]string{"Items": `"type": "array", "items": {"type": "string"}`, "Properties": `"type": "object", "additionalProperties": {"type": "string"}`, "Length": `"type": "string"`}
	var properties []string
	var calls []call
	for _, what := range []string{"Items", "Properties", "Length"} {
		for i, limit := range []string{"min", "max"} {
			for n := range 3 {
				name := fmt.Sprint(limit, what, n)
				properties = append(properties, fmt.Sprintf(`%q: {%s, %q: %d}`, name, types[what], limit+what, n))
				calls = append(calls, call{"POST", path, asJSON, fmt.Sprintf(`{"apiVersion": "example.com/v1", "kind": "Length", "metadata": {"name": "l"}, "spec": {%q: %s}}`, name, values[what][i]), nil})
			}
		}
	}
	return sequence{"lengths", append([]call{
		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, `{"metadata": {"name": "lengths.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "lengths", "kind": "Length"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {` + strings.Join(properties, ", ") + `}}}}}}]}}`, nil},
		{"GET", path, "", "", []string{settles}},
	}, calls...)}
}
