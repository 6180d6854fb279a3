package e2e

import (
	"strings"
	"testing"
)

// TestSizes sends objects around the limits of etcd to both servers.
func TestSizes(t *testing.T) {
	t.Parallel()
	const (
		bigs  = "/apis/example.com/v1/namespaces/default/bigs"
		pods  = "/api/v1/namespaces/default/pods"
		apply = "application/apply-patch+yaml"
		limit = 3 << 19
	)
	big := func(name string, n int) string {
		return `{"apiVersion": "example.com/v1", "kind": "Big", "metadata": {"name": "` + name + `"}, "spec": {"d": "` + strings.Repeat("x", n) + `"}}`
	}
	patch := func(field string, n int) string { return `{"` + field + `": {"d": "` + strings.Repeat("x", n) + `"}}` }
	pod := func(n int) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b", "args": ["` + strings.Repeat("x", n) + `"]}]}}`
	}
	name := []string{"metadata.name"}
	calls := []call{
		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, `{"metadata": {"name": "bigs.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "bigs", "kind": "Big"},
			"versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`, name},
		{"GET", bigs, "", "", []string{"kind", settles}},
		{"POST", bigs, asJSON, big("a", 1_000_000), name},
	}
	for n := limit - 340; n < limit; n += 20 { // all larger ones are refused with the same error
		calls = append(calls,
			call{"PATCH", bigs + "/a", asMerge, patch("spec", n), name},
			call{"POST", bigs, asJSON, big("b", n), name},
			call{"DELETE", bigs + "/b", asJSON, "", nil},
		)
	}
	calls = append(calls,
		call{"PATCH", bigs + "/a", asMerge, patch("spec", 1_000_000), name},
		call{"PATCH", bigs + "/a/status", asMerge, patch("status", 1_000_000), name},
		call{"PATCH", bigs + "/a?fieldManager=m&force=true", apply, big("a", limit), name},
		call{"PATCH", bigs + "/c?fieldManager=m", apply, big("c", limit), name},
		call{"POST", bigs + "?dryRun=All", asJSON, big("c", limit), name},
		call{"POST", bigs, asJSON, big("c", 3<<20), nil},
		call{"PATCH", bigs + "/a", asMerge, patch("spec", 3<<20), nil},
		call{"POST", pods, asJSON, pod(limit - 2000), name},
		call{"DELETE", pods + "/p?gracePeriodSeconds=0", asJSON, "", nil},
		call{"POST", pods, asJSON, pod(limit), name},
		call{"POST", pods, asJSON, pod(3 << 20), nil},
	)
	compareSequences(t, judge(t, ownCluster(t, nil)), []sequence{{"sizes", calls}})
}
