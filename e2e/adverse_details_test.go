package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestAdverseDetails compares values that are almost usual: versions of 0, empty options, nulls in lists, and out-of-range ports.
func TestAdverseDetails(t *testing.T) {
	const (
		accounts = "/api/v1/namespaces/default/serviceaccounts"
		scale    = deployments + "/sc/scale"
		things   = "/apis/example.com/v1/namespaces/default/as"
	)
	ports := func(name string, n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"name":"p%d","port":%d}`, i, i+1)
		}
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":"NodePort","ports":[%s]}}`, name, strings.Join(all, ","))
	}
	compareSequences(t, judge(t, plainCluster(t)), []sequence{
		{"versions 0", []call{
			{"POST", configmaps, asJSON, `{"metadata":{"name":"rv","resourceVersion":"0"}}`, nil},
			{"PUT", configmaps + "/rv", asJSON, `{"metadata":{"name":"rv","resourceVersion":"0"}}`, nil},
			{"PUT", configmaps + "/rv", asJSON, `{"metadata":{"name":"rv","resourceVersion":"00"}}`, nil},
			{"PATCH", configmaps + "/rv", asMerge, `{"metadata":{"resourceVersion":"0"}}`, nil},
			{"PUT", configmaps + "/rv", asJSON, `{"metadata":{"name":"rv","resourceVersion":"99999999999999999999"}}`, nil},
		}},
		{"nulls", []call{
			{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, `{"metadata": {"name": "as.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`, nil},
			{"GET", things, "", "", []string{settles}},
			{"POST", things, asJSON, `{"apiVersion":"example.com/v1","kind":"A","metadata":{"name":"a"},"o":{"x":1}}`, nil},
			{"PATCH", things + "/a", asMerge, `{"l":[{"k":"b","v":null},{"m":{"n":null}},null,[{"p":null}]]}`, []string{"l"}},
			{"PATCH", things + "/a", asMerge, `{"o":[{"k":null}]}`, []string{"o"}},
			{"PATCH", things + "/a", asMerge, `{"metadata":{"resourceVersion":"0"}}`, nil},
			{"POST", configmaps, asJSON, `{"metadata":{"name":"null"}}`, nil},
			{"PATCH", configmaps + "/null", asMerge, `{"kind":null}`, nil},
		}},
		{"unknown fields and other places", []call{
			{"POST", configmaps, asJSON, `{"metadata":{"name":"placed"}}`, nil},
			{"PATCH", configmaps + "/placed", asJSONPatch, `[{"op":"add","path":"/x","value":1},{"op":"remove","path":"/metadata/name"}]`, nil},
			{"PATCH", configmaps + "/placed", asMerge, `{"x":1,"metadata":{"name":"other"}}`, nil},
			{"PATCH", configmaps + "/placed", asMerge, `{"x":1,"metadata":{"namespace":"other"}}`, nil},
			{"PATCH", configmaps + "/placed?fieldValidation=Strict", asMerge, `{"x":1,"metadata":{"name":"other"}}`, nil},
		}},
		{"scales", []call{
			{"POST", deployments, asJSON, `{"metadata":{"name":"sc"},"spec":{"replicas":2,` + workload + `}}`, nil},
			{"PATCH", scale, asMerge, `{"metadata":{"name":"other"}}`, nil},
			{"PATCH", scale, asJSONPatch, `[{"op":"remove","path":"/metadata"}]`, []string{onlyCode}},
			{"PATCH", scale, asJSONPatch, `[{"op":"replace","path":"/kind","value":"X"}]`, []string{onlyCode}},
			{"PATCH", scale, asMerge, `{"kind":null,"spec":{"replicas":4}}`, []string{"spec"}},
		}},
		{"deletions", []call{
			{"POST", configmaps, asJSON, `{"metadata":{"name":"d"}}`, nil},
			{"DELETE", configmaps + "/d?dryRun=All&propagationPolicy=", "", "", nil},
			{"DELETE", configmaps + "/d?dryRun=All&propagationPolicy=&orphanDependents=true", "", "", nil},
			{"DELETE", configmaps + "/d?dryRun=All&gracePeriodSeconds=", "", "", nil},
			{"DELETE", configmaps + "/d", asJSON, `{"dryRun":["All"],"propagationPolicy":""}`, nil},
			{"DELETE", configmaps + "/d", asJSON, `{"dryRun":["All"],"propagationPolicy":null}`, nil},
		}},
		{"tokens", []call{
			{"POST", accounts, asJSON, `{"metadata":{"name":"t"}}`, nil},
			{"POST", pods, asJSON, `{"metadata":{"name":"other"},"spec":{"serviceAccountName":"default","containers":[{"name":"a","image":"b"}]}}`, nil},
			{"POST", accounts + "/t/token", asJSON, `{"spec":{"expirationSeconds":5000000000}}`, nil},
			{"POST", accounts + "/t/token", asJSON, `{"spec":{"boundObjectRef":{"kind":"Pod","name":"x"}}}`, nil},
			{"POST", accounts + "/t/token", asJSON, `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"other"}}}`, nil},
			{"POST", accounts + "/t/token", asJSON, `{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"x"}}}`, nil},
			{"POST", accounts + "/t/token", asJSON, `{"spec":{"boundObjectRef":{"kind":"X","apiVersion":"v1","name":"x"}}}`, nil},
		}},
		{"ports", []call{
			{"POST", services, asJSON, ports("more", 2769), []string{onlyCode}},
			{"POST", services, asJSON, ports("many", 2768), []string{onlyCode}},
			{"POST", services, asJSON, ports("one", 1), nil},
			{"POST", services, asJSON, `{"metadata":{"name":"health"},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","allocateLoadBalancerNodePorts":false,"ports":[{"port":80}]}}`, nil},
		}},
	})
}
