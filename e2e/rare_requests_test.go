package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestRareRequests compares the responses to requests that the embedded server handled differently from kube-apiserver.
func TestRareRequests(t *testing.T) {
	t.Parallel()
	const (
		ns    = "/api/v1/namespaces/rare-requests"
		cm    = ns + "/configmaps"
		apply = "application/apply-patch+yaml"
		crds  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	)
	applied := func(value string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned"},"data":{"a":"` + value + `"}}`
	}
	onlyA := cm + "?timeoutSeconds=1&fieldSelector=metadata.name=a"
	all := []sequence{
		{"prepare", []call{
			{"POST", "/api/v1/namespaces", asJSON, `{"metadata":{"name":"rare-requests"}}`, nil},
			{"POST", cm, asJSON, `{"metadata":{"name":"a","labels":{"x":"1"}}}`, nil},
			{"POST", cm, asJSON, `{"metadata":{"name":"b","labels":{"x":"1"}}}`, nil},
			{"GET", cm + "?labelSelector=x", "", "", []string{"kind"}},
		}},
		// The client for Python sends watch=True, force=True and orphanDependents=False.
		{"watch=True", []call{{"GET", onlyA + "&watch=True", "", "", []string{"type", "kind"}}}},
		{"watch=yes and an empty one", []call{
			{"GET", onlyA + "&watch=yes", "", "", []string{"type", "kind"}},
			{"GET", onlyA + "&watch", "", "", []string{"type", "kind"}},
		}},
		{"sendInitialEvents=True", []call{{"GET", onlyA + "&watch=true&sendInitialEvents=True&resourceVersionMatch=NotOlderThan", "", "", []string{"type"}}}},
		{"force=True", []call{
			{"PATCH", cm + "/owned?fieldManager=one", apply, applied("1"), []string{"data"}},
			{"PATCH", cm + "/owned?fieldManager=two&force=True", apply, applied("2"), []string{"data"}},
		}},
		{"orphanDependents=False", []call{
			{"POST", ns + "/pods", asJSON, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}]}}`, nil},
			{"DELETE", ns + "/pods/p?dryRun=All&orphanDependents=False", "", "", []string{"metadata.finalizers"}},
		}},
		{"limit of a list from the cache", []call{
			{"GET", cm + "?labelSelector=x&resourceVersion=0&limit=1", "", "", []string{"items", "metadata.continue"}},
			{"GET", cm + "?labelSelector=x&resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=1", "", "", []string{"items", "metadata.continue"}},
		}},
		{"limit of a list of a version", []call{
			{"GET", cm + "?labelSelector=x&resourceVersion=1&limit=1", "", "", []string{"code", "items"}},
			{"GET", cm + "?labelSelector=x&resourceVersion=1&resourceVersionMatch=NotOlderThan&limit=1", "", "", []string{"code", "items"}},
			{"GET", cm + "?resourceVersion=1&limit=1&continue=x", "", "", []string{onlyCode}},
		}},
		{"initial events of a version that is not there yet", []call{
			{"GET", onlyA + "&watch=true&resourceVersion=99999999&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", "", "", []string{"type", "object.code"}},
		}},
		{"a token for pages in a watch", []call{{"GET", onlyA + "&watch=true&continue=x", "", "", nil}}},
		{"a parameter for watches in a GET of one object", []call{{"GET", cm + "/a?watch=true&timeoutSeconds=1", "", "", []string{"type", "kind"}}}},
		{"selectable fields", []call{
			{"GET", ns + "/pods?fieldSelector=spec.hostNetwork=false", "", "", []string{"items"}},
			{"GET", ns + "/pods?fieldSelector=status.podIPs=x", "", "", nil},
			{"GET", ns + "/services?fieldSelector=spec.clusterIP=None", "", "", nil},
			{"GET", ns + "/services?fieldSelector=spec.type=ClusterIP", "", "", nil},
			{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=spec.signerName=a", "", "", nil},
			{"GET", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.driver=a", "", "", nil},
		}},
		{"one port on nodes for two ports of a service", []call{
			{"POST", ns + "/services", asJSON, `{"metadata":{"name":"s1"},"spec":{"type":"NodePort","ports":[{"name":"a","port":53,"protocol":"TCP","nodePort":30053},{"name":"b","port":54,"protocol":"UDP","nodePort":30053}]}}`, nil},
		}},
		{"a definition that ends", []call{
			{"POST", crds, asJSON, `{"metadata":{"name":"us.attack.io"},"spec":{"group":"attack.io","scope":"Namespaced","names":{"plural":"us","kind":"U"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, nil},
			{"GET", "/apis/attack.io/v1/us", "", "", []string{settles}},
			{"DELETE", crds + "/us.attack.io?dryRun=All", "", "", []string{"metadata.generation", "metadata.deletionGracePeriodSeconds"}},
		}},
		{"preconditions of an eviction that a budget does not allow", []call{
			{"POST", ns + "/pods", asJSON, `{"metadata":{"name":"e","labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}`, nil},
			{"PATCH", ns + "/pods/e/status", asMerge, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, nil},
			{"POST", "/apis/policy/v1/namespaces/rare-requests/poddisruptionbudgets", asJSON, `{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}`, nil},
			{"POST", ns + "/pods/e/eviction", asJSON, `{"metadata":{"name":"e"},"deleteOptions":{"preconditions":{"uid":"x"}}}`, nil},
		}},
		{"HEAD", []call{{"HEAD", cm + "/a", "", "", []string{onlyCode}}}},
	}
	compareSequences(t, judge(t, ownCluster(t, nil)), all)
}

// TestLongGenerateName compares the generated names for a long prefix: they have at most 63 bytes on a real server.
func TestLongGenerateName(t *testing.T) {
	for _, server := range []*endpoint{judge(t, plainCluster(t)), embedded(t)} {
		got, err := server.send(t.Context(), &request{method: "POST", path: configmaps, contentType: asJSON, body: `{"metadata":{"generateName":"` + strings.Repeat("g", 70) + `"}}`}, newSightings())
		if err != nil {
			t.Fatal(err)
		}
		meta, _ := got.Body.(map[string]any)["metadata"].(map[string]any)
		if name := fmt.Sprint(meta["name"]); len(name) != 63 {
			t.Errorf("%s: the name has %d bytes: %s", server.name, len(name), name)
		}
		// The name of a Service may only have 63 bytes: with a long prefix, only a real server can create it.
		got, err = server.send(t.Context(), &request{method: "POST", path: services, contentType: asJSON, body: `{"metadata":{"generateName":"` + strings.Repeat("g", 60) + `"},"spec":{"ports":[{"port":80}]}}`}, newSightings())
		if err != nil || got.Code != 201 {
			t.Errorf("%s: a service: %v %v", server.name, got.Code, got.Body)
		}
	}
}

// TestPortsOfServiceUpdates compares whether TCP and UDP ports of the same number get one node port when an update adds them.
func TestPortsOfServiceUpdates(t *testing.T) {
	t.Parallel()
	var same []bool
	for _, server := range []*endpoint{judge(t, ownCluster(t, nil)), embedded(t)} {
		server.send(t.Context(), &request{method: "DELETE", path: services + "/dns"}, newSightings())
		server.mustSend(t, &request{method: "POST", path: services, contentType: asJSON, body: `{"metadata":{"name":"dns"},"spec":{"ports":[{"name":"t","port":53,"protocol":"TCP"},{"name":"u","port":53,"protocol":"UDP"}]}}`})
		got := server.mustSend(t, &request{method: "PATCH", path: services + "/dns", contentType: asMerge, body: `{"spec":{"type":"NodePort"}}`})
		ports := got.Body.(map[string]any)["spec"].(map[string]any)["ports"].([]any)
		same = append(same, ports[0].(map[string]any)["nodePort"] == ports[1].(map[string]any)["nodePort"])
	}
	if same[0] != same[1] {
		t.Errorf("one port for both: %t on kube-apiserver, %t in memory", same[0], same[1])
	}
}

// TestTransformations compares the versions and groups of tables and of metadata.
func TestTransformations(t *testing.T) {
	servers := []*endpoint{judge(t, plainCluster(t)), embedded(t)}
	for _, accept := range []string{
		"application/json;as=Table;g=meta.k8s.io;v=v2", "application/json;as=Table;g=meta.k8s.io;v=v2,application/json",
		"application/json;as=Table;g=other;v=v1",
	} {
		var answers []string
		for _, server := range servers {
			got, err := server.send(t.Context(), &request{method: "GET", path: configmaps, accept: accept}, newSightings())
			if err != nil {
				t.Fatal(err)
			}
			body := got.Body.(map[string]any)
			answers = append(answers, fmt.Sprint(got.Code, " ", body["apiVersion"], " ", body["kind"]))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s: %s on kube-apiserver, %s in memory", accept, answers[0], answers[1])
		}
	}
}
