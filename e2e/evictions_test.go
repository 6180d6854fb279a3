package e2e

import "testing"

const (
	pods    = "/api/v1/namespaces/default/pods"
	budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
)

// TestEvictions compares the results of evictions on both servers.
func TestEvictions(t *testing.T) {
	t.Parallel()
	compareSequences(t, judge(t, ownCluster(t, nil)), []sequence{evictions})
}

const eviction = `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "e"}}`

var evictions = sequence{"evictions", []call{
	{"POST", pods + "/e/eviction", asJSON, eviction, nil},
	{"POST", pods, asJSON, runningPod, nil},
	{"POST", pods + "/e/eviction", asJSON, `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}`, nil},
	{"POST", pods + "/e/eviction", asJSON, eviction, []string{"status"}}, // it is pending
	{"GET", pods + "/e", "", "", []string{"status"}},
	{"PATCH", pods + "/e", asMerge, `{"metadata": {"finalizers": null}}`, nil},
	{"GET", pods + "/e", "", "", nil},

	{"POST", pods, asJSON, runningPod, nil},
	{"PATCH", pods + "/e/status", asMerge, `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`, nil},
	{"POST", budgets, asJSON, `{"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"l": "1"}}}}`, nil},
	{"POST", pods + "/e/eviction", asJSON, eviction, nil},
	{"PATCH", budgets + "/b/status", asMerge, `{"status": {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1}}`, nil},
	{"POST", pods + "/e/eviction", asJSON, eviction, nil},
	{"PATCH", budgets + "/b/status", asMerge, `{"status": {"currentHealthy": 2}}`, nil},
	{"POST", pods + "/e/eviction", asJSON, eviction, nil},
	{"PATCH", budgets + "/b/status", asMerge, `{"status": {"disruptionsAllowed": 1}}`, nil},
	{"POST", pods + "/e/eviction?dryRun=All", asJSON, `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "e"}, "deleteOptions": {"dryRun": ["All"]}}`, []string{"status"}},
	{"GET", budgets + "/b", "", "", []string{"status"}},
	{"POST", budgets, asJSON, `{"metadata": {"name": "second"}, "spec": {"minAvailable": 1, "selector": {}}}`, nil},
	{"POST", pods + "/e/eviction", asJSON, eviction, nil},
	{"DELETE", budgets + "/second", "", "", nil},
	{"POST", pods + "/e/eviction", asJSON, eviction, []string{"status"}},
	{"GET", pods + "/e", "", "", []string{"status", "metadata.finalizers"}},
	{"GET", budgets + "/b", "", "", []string{"status"}},
	{"POST", pods + "/e/eviction", asJSON, eviction, []string{"status"}}, // it is being deleted
}}

const runningPod = `{"metadata": {"name": "e", "labels": {"l": "1"}, "finalizers": ["example.com/f"]}, "spec": {"containers": [{"name": "a", "image": "b"}]}}`
