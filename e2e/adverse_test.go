package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestAdverse sends malformed requests to both servers.
func TestAdverse(t *testing.T) {
	compareSequences(t, judge(t, plainCluster(t)), []sequence{adverseSubresources, adverseDeletions, adverseHooks, adverseCopies()})
}

var adverseSubresources = sequence{"types of subresources", []call{
	{"POST", deployments, asJSON, `{"metadata": {"name": "d"}, "spec": {` + workload + `}}`, nil},
	{"PUT", deployments + "/d/scale", asJSON, `{"metadata": {"name": "d"}, "spec": {"replicas": "3"}}`, nil},
	{"PUT", deployments + "/d/scale", asJSON, `{"metadata": {"name": "d"}, "spec": []}`, nil},
	{"PUT", deployments + "/d/scale", asJSON, `{"metadata": {"name": "d"}, "spec": {"replicas": 99999999999}}`, nil},
	{"PATCH", deployments + "/d/scale", asMerge, `{"spec": {"replicas": "3"}}`, nil},
	{"GET", deployments + "/d", "", "", []string{"spec.replicas"}},
	{"POST", pods, asJSON, `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}`, nil},
	{"POST", pods + "/p/binding", asJSON, `{"metadata": {"name": "p", "labels": {"a": 5}}, "target": {"name": "n"}}`, nil},
	{"PUT", "/api/v1/namespaces/default/finalize", asJSON, `{"metadata": {"name": "default"}, "spec": {"finalizers": "x"}}`, []string{onlyCode}},
}}

var adverseDeletions = sequence{"deletions of what every cluster has", []call{
	{"DELETE", "/api/v1/namespaces/default", "", "", nil},
	{"DELETE", "/api/v1/namespaces/kube-system", "", "", nil},
	{"DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", "", "", nil},
}}

var adverseHooks = sequence{"operations of webhooks", []call{
	{"POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", asJSON, hookFor(`["Create"]`), nil},
	{"POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", asJSON, hookFor(`["*", "CREATE"]`), nil},
}}

// hookFor returns the configuration of a webhook for operations.
func hookFor(operations string) string {
	return fmt.Sprintf(`{"metadata": {"name": "w"}, "webhooks": [{"name": "w.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "admissionReviewVersions": ["v1"], "sideEffects": "None",
		"rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": %s, "resources": ["things"]}]}]}`, operations)
}

// adverseCopies uses patches whose operations double an object.
func adverseCopies() sequence {
	var copies []string
	for i := range 30 {
		copies = append(copies, fmt.Sprintf(`{"op": "copy", "from": "/data", "path": "/data/%d"}`, i))
	}
	return sequence{"copies", []call{
		{"POST", configmaps, asJSON, `{"metadata": {"name": "copied"}, "data": {"a": "` + strings.Repeat("x", 1000) + `"}}`, nil},
		{"PATCH", configmaps + "/copied", asJSONPatch, "[" + strings.Join(copies, ",") + "]", nil},
	}}
}
