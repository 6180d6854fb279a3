package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestBuiltinWrites sends writes with unusual results to both servers.
func TestBuiltinWrites(t *testing.T) {
	t.Parallel()
	compareSequences(t, judge(t, ownCluster(t, nil)), []sequence{writtenStatuses, statusManagers, emptyLists, writtenNumbers(), lengths(), labelKeys(), profiles(), volumeAttachments()})
}

// service has the compared fields of responses about services.
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

// managed has the compared fields of objects with relevant managers.
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
	calls = append(calls, // it is a string in YAML
		call{"PATCH", path + "/n0", asMerge, `{"spec": {"x": 1e400}}`, nil},
		call{"PATCH", path + "/n0", asJSONPatch, `[{"op": "add", "path": "/spec/y", "value": 1e400}]`, nil},
		call{"PATCH", deployments + "/numbers", asStrategic, `{"spec": {"replicas": 1e400}}`, nil})
	return sequence{"numbers", calls}
}

// lengths writes values that are too short or too long for a schema.
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

// labelKeys creates pods with label keys that are merged into selectors.
func labelKeys() sequence {
	spread := func(selector, keys string) string {
		return fmt.Sprintf(`"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": %s%s}]`, keys, selector)
	}
	affinity := func(kind, term string) string {
		term = `{"topologyKey": "zone", ` + term + `}`
		return fmt.Sprintf(`"affinity": {%q: {"requiredDuringSchedulingIgnoredDuringExecution": [%s], "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": %s}]}}`, kind, term, term)
	}
	const selector = `, "labelSelector": {"matchLabels": {"app": "x"}}`
	var calls []call
	for i, spec := range []string{
		spread(selector, `["rev"]`), spread(`, "labelSelector": {}`, `["rev", "none", "app"]`), spread("", `["rev"]`), spread(selector, `["app"]`), spread(`, "labelSelector": {"matchExpressions": [{"key": "rev", "operator": "Exists"}]}`, `["rev"]`),
		affinity("podAffinity", `"matchLabelKeys": ["rev", "none"]`+selector), affinity("podAntiAffinity", `"mismatchLabelKeys": ["rev"]`+selector),
		affinity("podAffinity", `"matchLabelKeys": ["rev"], "mismatchLabelKeys": ["rev"]`+selector), affinity("podAffinity", `"matchLabelKeys": ["rev"]`),
	} {
		calls = append(calls, call{"POST", pods, asJSON, fmt.Sprintf(`{"metadata": {"name": "keys-%d", "labels": {"app": "x", "rev": "1"}}, "spec": {%s, "containers": [{"name": "a", "image": "b"}]}}`, i, spec),
			[]string{"spec.topologySpreadConstraints", "spec.affinity", "metadata.managedFields"}})
	}
	calls = append(calls, call{"PATCH", pods + "/keys-0", asMerge, `{"metadata": {"labels": {"rev": "2"}}}`, []string{"spec.topologySpreadConstraints"}})
	calls = append(calls, call{"POST", deployments, asJSON, `{"metadata": {"name": "keys"}, "spec": {` + strings.Replace(workload, `"containers"`, spread(selector, `["a"]`)+`, "containers"`, 1) + `}}`, []string{"spec.template"}})
	return sequence{"keys of labels", calls}
}

// profiles creates pods and templates with annotations and fields of seccomp and AppArmor.
func profiles() sequence {
	field := map[string]string{
		"pod": `"securityContext": {"%[1]sProfile": {"type": "RuntimeDefault"}}, "containers": [{"name": "a", "image": "b"}]`, "none": `"containers": [{"name": "a", "image": "b"}]`,
		"container": `"containers": [{"name": "a", "image": "b", "securityContext": {"%[1]sProfile": {"type": "Localhost", "localhostProfile": "foo"}}}]`,
	}
	var calls []call
	for _, annotation := range []struct{ key, field string }{
		{"container.apparmor.security.beta.kubernetes.io/a", "appArmor"}, {"container.seccomp.security.alpha.kubernetes.io/a", "seccomp"}, {"seccomp.security.alpha.kubernetes.io/pod", "seccomp"},
	} {
		for _, value := range []string{"runtime/default", "docker/default", "unconfined", "localhost/foo", "localhost/", "localhost/ foo", ""} {
			for _, where := range []string{"none", "pod", "container"} {
				spec := strings.ReplaceAll(field[where], "%[1]s", annotation.field)
				meta := fmt.Sprintf(`"annotations": {%q: %q}`, annotation.key, value)
				name := fmt.Sprintf("profile-%d", len(calls))
				calls = append(calls, call{"POST", pods, asJSON, fmt.Sprintf(`{"metadata": {"name": %q, %s}, "spec": {%s}}`, name, meta, spec), []string{warnings, "spec.securityContext", "spec.containers"}},
					call{"POST", deployments, asJSON, fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}, %s}, "spec": {%s}}}}`, name, meta, spec),
						[]string{warnings, "spec.template"}})
			}
		}
	}
	return sequence{"profiles", calls}
}

// volumeAttachments writes volume attachments, and volume attributes classes.
func volumeAttachments() sequence {
	const classes, attachments = "/apis/storage.k8s.io/v1/volumeattributesclasses", "/apis/storage.k8s.io/v1/volumeattachments"
	const volume = `{"persistentVolumeName": "pv"}`
	inline := func(spec string) string { return `{"inlineVolumeSpec": {` + spec + `}}` }
	calls := []call{
		{"POST", classes, asJSON, `{"metadata": {"name": "c"}, "driverName": "example.com", "parameters": {"a": "b"}}`, []string{"driverName", "parameters", "metadata.finalizers"}},
		{"PATCH", classes + "/c", asMerge, `{"driverName": "example.org"}`, nil},
		{"PATCH", classes + "/c", asMerge, `{"driverName": "", "parameters": null}`, nil},
		{"PATCH", classes + "/c", asMerge, `{"metadata": {"labels": {"a": "b"}}}`, []string{"metadata.labels"}},
		{"POST", attachments, asJSON, `{"metadata": {"name": "a"}, "spec": {"attacher": "example.com", "nodeName": "n", "source": ` + volume + `}, "status": {"attached": true}}`, []string{"spec", "status"}},
		{"PATCH", attachments + "/a", asMerge, `{"spec": {"nodeName": "m"}}`, []string{onlyCode}},
		{"PATCH", attachments + "/a", asMerge, `{"metadata": {"labels": {"a": "b"}}}`, []string{"metadata.labels"}},
		{"PATCH", attachments + "/a/status", asMerge, `{"spec": {"nodeName": "m"}, "status": {"attached": true, "attachError": {"errorCode": -1, "message": "` + strings.Repeat("x", 2000) + `"}}}`, nil},
		{"PATCH", attachments + "/a/status", asMerge, `{"status": {"attached": true, "attachmentMetadata": {"a": "` + strings.Repeat("x", 300_000) + `"}}}`, nil},
		{"PATCH", attachments + "/a/status", asMerge, `{"spec": {"nodeName": "m"}, "status": {"attached": true, "detachError": {"errorCode": 1}}}`, []string{"spec", "status"}},
		{"POST", "/apis/storage.k8s.io/v1/storageclasses", asJSON, `{"metadata": {"name": "letters"}, "provisioner": "A b"}`, nil},
	}
	for i, class := range []string{`"parameters": {}`, `"driverName": "a"`, `"driverName": "A b", "parameters": {"a": "b"}`, `"driverName": "a.B/c", "parameters": {"a": "b"}`, `"driverName": "a", "parameters": {"": "b"}`, `"driverName": "a", "parameters": {"a": "` + strings.Repeat("x", 300_000) + `"}`} {
		calls = append(calls, call{"POST", classes, asJSON, fmt.Sprintf(`{"metadata": {"name": "class-%d"}, %s}`, i, class), nil})
	}
	for i, spec := range []string{
		`{}`, `{"attacher": "A b", "nodeName": "N n", "source": {"persistentVolumeName": "P v"}}`, `{"attacher": "a_b", "nodeName": "", "source": ` + volume + `}`, `{"attacher": "` + strings.Repeat("x", 70) + `", "nodeName": "n", "source": ` + volume + `}`,
		`{"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": ""}}`, `{"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "a", "inlineVolumeSpec": {}}}`,
		`{"attacher": "a", "nodeName": "n", "source": ` + inline(`"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}`) + `}`, `{"attacher": "a", "nodeName": "n", "source": ` + inline(`"csi": {"driver": "a b"}`) + `}`,
		`{"attacher": "a", "nodeName": "n", "source": ` + inline(`"accessModes": ["ReadWriteOnce"], "csi": {"driver": "a", "volumeHandle": "h"}`) + `}`,
		`{"attacher": "a", "nodeName": "n", "source": ` + inline(`"accessModes": ["ReadWriteOnce"], "csi": {"driver": "a", "volumeHandle": "h"}, "capacity": {"storage": "1Gi"}, "claimRef": {"name": "a"}, "storageClassName": "a", "nodeAffinity": {}`) + `}`,
	} {
		calls = append(calls, call{"POST", attachments, asJSON, fmt.Sprintf(`{"metadata": {"name": "attachment-%d"}, "spec": %s}`, i, spec), nil})
	}
	return sequence{"attachments of volumes", calls}
}
