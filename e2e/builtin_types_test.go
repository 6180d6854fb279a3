package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestBuiltinTypes sends objects to both servers that do not fit the Go types of built-in kinds, or whose form the servers change.
func TestBuiltinTypes(t *testing.T) {
	all := []sequence{canonicalForms, unknownFields, schemasOfDefinitions}
	for _, kind := range wrongTypes {
		all = append(all, wrongSequence(kind.collection, kind.valid, kind.wrong))
	}
	compareSequences(t, judge(t, plainCluster(t)), all)
}

const (
	asStrategic = "application/strategic-merge-patch+json"
	asJSONPatch = "application/json-patch+json"
	asApply     = "application/apply-patch+yaml"
)

const (
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	leases      = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	quotas      = "/api/v1/namespaces/default/resourcequotas"
)

// wrongTypes are fragments of objects whose values have another type than the field. After a ~, the message has a Go type that is unknown in memory.
var wrongTypes = []struct {
	collection, valid string
	wrong             []string
}{
	{deployments, `{"spec": {` + workload + `}}`, []string{
		`{"spec": "x"}`, `{"spec": []}`, `{"spec": {"replicas": "three"}}`, `{"spec": {"replicas": 1.5}}`, `{"spec": {"paused": "yes"}}`,
		`{"spec": {"selector": []}}`, `{"spec": {"selector": {"matchLabels": {"a": 1}}}}`, `{"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}`,
		`{"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1.5}}}}`, `{"spec": {"template": {"spec": {"containers": {}}}}}`,
		`{"spec": {"template": {"spec": {"containers": ["x"]}}}}`, `{"spec": {"template": {"spec": {"containers": [{"name": 5}]}}}}`,
		`{"spec": {"template": {"spec": {"containers": [{"name": "a", "args": [1]}]}}}}`,
		`{"spec": {"template": {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": "http"}]}]}}}}`,
		`{"spec": {"template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "x"}}}]}}}}`,
		`{"spec": {"template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": true}}}]}}}}`,
		`{"spec": {"template": {"spec": {"containers": [{"name": "a", "resources": {"limits": []}}]}}}}`,
		`{"spec": {"template": {"spec": {"nodeSelector": {"a": {}}}}}}`, `{"spec": {"template": {"spec": {"activeDeadlineSeconds": "1"}}}}`,
		`{"spec": {"template": {"metadata": {"labels": {"a": true}}}}}`, `{"spec": {"template": {"metadata": {"creationTimestamp": "x"}}}}`,
		`{"metadata": {"labels": []}}`, `{"metadata": {"annotations": {"a": 1}}}`, `{"metadata": {"finalizers": "x"}}`, `{"status": {"replicas": "x"}}`,
	}},
	{leases, `{"spec": {"holderIdentity": "a"}}`, []string{
		`{"spec": {"leaseDurationSeconds": "x"}}`, `{"spec": {"renewTime": "2026-01-02T03:04:05Z"}}`, `{"spec": {"acquireTime": 5}}`, `{"spec": {"holderIdentity": 5}}`,
	}},
	{"/api/v1/namespaces/default/services", `{"spec": {"ports": [{"port": 80}]}}`, []string{
		`{"spec": {"ports": [{"port": "80"}]}}`, `{"spec": {"ports": [{"port": 80, "targetPort": []}]}}`, `{"spec": {"clusterIPs": "x"}}`, `{"spec": {"selector": "x"}}`,
	}},
	{"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `{"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}`, []string{
		`{"spec": {"maxReplicas": "1"}}`, `{"spec": {"scaleTargetRef": "x"}}`, `~{"spec": {"metrics": [{"type": 5}]}}`,
		`{"spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value", "averageValue": {}}}}]}}`,
	}},
	{"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"rules": []}`, []string{`{"rules": {}}`, `{"rules": [{"verbs": "get"}]}`}},
	{"/apis/batch/v1/namespaces/default/cronjobs", `{"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {` + runOnce + `}}}}`, []string{
		`{"spec": {"schedule": 5}}`, `{"spec": {"suspend": 1}}`, `{"spec": {"jobTemplate": {"spec": {"backoffLimit": "x"}}}}`,
	}},
	{"/api/v1/namespaces/default/secrets", `{"data": {"a": "eA=="}}`, []string{`{"data": {"a": "?"}}`, `{"data": {"a": 5}}`, `{"immutable": "x"}`, `~{"type": {}}`}},
	{quotas, `{"spec": {"hard": {"pods": "1"}}}`, []string{`{"spec": {"hard": {"pods": ""}}}`, `{"spec": {"hard": {"pods": "1x"}}}`, `{"spec": {"hard": {"pods": "1kk"}}}`, `{"spec": {"hard": ["pods"]}}`}},
}

// wrongSequence creates a valid object, and sends invalid ones in all kinds of requests.
func wrongSequence(collection, valid string, wrong []string) sequence {
	plural := collection[strings.LastIndex(collection, "/")+1:]
	one := collection + "/wrong"
	calls := []call{{"POST", collection, asJSON, named(valid, "wrong"), []string{"metadata.name"}}}
	for _, fragment := range wrong {
		fragment, unnamed := strings.CutPrefix(fragment, "~")
		var same []string
		if unnamed {
			same = []string{onlyCode}
		}
		object := fragment
		if !strings.HasPrefix(fragment, `{"metadata"`) {
			object = named(fragment, "wrong")
		}
		calls = append(calls,
			call{"POST", collection, asJSON, object, same},
			call{"PATCH", one, asMerge, fragment, same},
			call{"PATCH", one, asStrategic, fragment, []string{onlyCode}})
	}
	return sequence{"wrong types in " + plural, calls}
}

var canonicalForms = sequence{"canonical forms", []call{
	{"POST", deployments, asJSON, `{"metadata": {"name": "large"}, "spec": {"replicas": 99999999999}}`, nil},
	{"POST", quotas, asJSON, `{"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "0.5", "memory": "1024Mi", "pods": 3, "requests.cpu": "1500m", "limits.memory": "1.5Gi",
		"requests.memory": "1e3", "secrets": " 5 ", "requests.storage": "0.1Ki"}}}`, []string{"spec", "status"}},
	{"PATCH", quotas + "/q", asMerge, `{"spec": {"hard": {"cpu": 1.25, "memory": 1048576}}}`, []string{"spec"}},
	{"PATCH", quotas + "/q", asStrategic, `{"spec": {"hard": {"cpu": "2000m", "memory": "2048Ki", "pods": null}}}`, []string{"spec"}},
	{"PATCH", quotas + "/q?fieldManager=m&force=true", asApply, `{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"cpu": "3000m"}}}`, []string{"spec"}},
	{"POST", leases, asJSON, `{"metadata": {"name": "l"}, "spec": {"holderIdentity": null, "renewTime": "2026-01-02T05:04:05.000006+02:00", "leaseTransitions": 0}}`, []string{"spec"}},
	{"POST", secrets, asJSON, `{"metadata": {"name": "lines", "labels": {}, "annotations": null, "finalizers": []}, "data": {"a": "eA\n=="}, "immutable": false}`,
		[]string{"data", "immutable", "metadata.labels", "metadata.annotations", "metadata.finalizers"}},
	{"POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", asJSON, `{"metadata": {"name": "r"}, "rules": []}`, []string{"rules"}},
	{"POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", asJSON, `{"metadata": {"name": "r2"}}`, []string{"rules"}},
	{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", asJSON, `{"metadata": {"name": "c"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": []}]}`, []string{"rules"}},
	{"POST", configmaps, asJSON, `{"metadata": {"name": "c"}, "data": {"a": null, "b": ""}, "binaryData": {}}`, []string{"data", "binaryData"}},
	{"PATCH", configmaps + "/c", asMerge, `{"data": {"a": "x"}, "binaryData": {"d": "eA=="}, "immutable": null}`, []string{"data", "binaryData", "immutable"}},
	{"POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", asJSON, `{"metadata": {"name": "n"}, "spec": {"podSelector": null, "policyTypes": ["Ingress"], "ingress": []}}`, []string{"spec"}},
	{"POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", asJSON, `{"metadata": {"name": "n2"}, "spec": {"podSelector": {"matchLabels": {}}, "policyTypes": ["Ingress"], "ingress": [{"from": []}]}}`, []string{"spec"}},
	{"POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", asJSON, `{"metadata": {"name": "e"}, "addressType": "IPv4"}`, []string{"endpoints", "ports"}},
	{"POST", "/api/v1/namespaces/default/limitranges", asJSON, `{"metadata": {"name": "l"}, "spec": {"limits": null}}`, []string{"spec"}},
	{"POST", "/api/v1/namespaces/default/serviceaccounts", asJSON, `{"metadata": {"name": "s"}, "secrets": [], "imagePullSecrets": [{}]}`, []string{"secrets", "imagePullSecrets"}},
	{"POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", asJSON, `{"metadata": {"name": "p"}, "spec": {"minAvailable": 0, "selector": {"matchLabels": {"a": "b"}}}}`, []string{"spec", "status"}},
	{"POST", coreEvents, asJSON, `{"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}, "lastTimestamp": "2026-01-02T05:04:05.5+02:00", "reason": "r", "message": "m", "type": "Normal"}`,
		[]string{"firstTimestamp", "lastTimestamp", "eventTime", "source", "involvedObject", "reportingComponent", "reportingInstance", "series"}},
}}

var unknownFields = sequence{"unknown fields", unknownCalls()}

func unknownCalls() []call {
	const (
		one  = deployments + "/unknown"
		spec = `"template": {"metadata": {"labels": {"a": "b"}, "lables": {}}, "spec": {"containers": [{"name": "a", "image": "b", "imagePolicy": "x", "env": [{"name": "E", "vlaue": "x"}]}]}}`
	)
	object := `{"metadata": {"name": "unknown", "nam": "x"}, "spec": {"replicsa": 2, "selector": {"matchLabels": {"a": "b"}}, ` + spec + `}, "sepc": {}}`
	applied := strings.Replace(object, "{", `{"apiVersion": "apps/v1", "kind": "Deployment", `, 1)
	var calls []call
	for _, mode := range []string{"Strict", "Ignore", "Warn", ""} {
		query := "?fieldValidation=" + mode
		calls = append(calls,
			call{"POST", deployments + query, asJSON, object, []string{warnings, "spec.replicsa", "sepc"}},
			call{"POST", deployments, asJSON, `{"metadata": {"name": "unknown"}, "spec": {` + workload + `}}`, nil},
			call{"PUT", one + query, asJSON, object, []string{warnings, "spec.replicsa", "sepc"}},
			call{"PATCH", one + query, asMerge, `{"spec": {"replicsa": 2, "replicas": 2}, "sepc": {"a": 1}}`, []string{warnings, "spec.replicsa", "sepc"}},
			call{"PATCH", one + query, asJSONPatch, `[{"op": "add", "path": "/spec/replicsa", "value": 2}]`, []string{warnings, "spec.replicsa"}},
			call{"PATCH", one + query, asStrategic, `{"spec": {"replicsa": 2}}`, []string{warnings, "spec.replicsa"}},
			call{"PATCH", one + query + "&fieldManager=m&force=true", asApply, applied, []string{onlyCode}},
			call{"PATCH", one + "/status" + query, asMerge, `{"status": {"replcas": 2}}`, []string{warnings, "status.replcas"}},
			call{"DELETE", one, "", "", nil},
		)
	}
	for _, kind := range builtinObjects {
		if strings.Contains(kind.collection, "/namespaces/default/events") && strings.Contains(kind.collection, "events.k8s.io") {
			continue // eventTime has special rules
		}
		object := strings.Replace(named(kind.object, "unknown-fields"), "{", `{"fieldThatIsNot": 1, `, 1)
		calls = append(calls, call{"POST", kind.collection + "?fieldValidation=Strict", asJSON, object, nil}, call{"POST", kind.collection + "?dryRun=All", asJSON, object, []string{warnings, "fieldThatIsNot"}})
	}
	return calls
}

var schemasOfDefinitions = sequence{"unknown fields in definitions", []call{
	{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", asJSON, definitionWith(`"x-kubernetes-foo": true, "not": {"minLenght": 1}`), []string{warnings}},
	{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldValidation=Strict", asJSON, definitionWith(`"tpye": 1`), nil},
	{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, definitionWith(`"minItems": "x"`), nil},
	{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, definitionWith(`"nullable": 1`), nil},
}}

// definitionWith returns a definition with keys in the schema of a list.
func definitionWith(keys string) string {
	return fmt.Sprintf(`{"metadata": {"name": "things.types.example.com"}, "spec": {"group": "types.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string"}, %s}}}}}]}}`, keys)
}
