package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The embedded server describes the kinds that it serves like the real one.

func TestDiscovery(t *testing.T) {
	t.Parallel()
	real := judge(t, ownCluster(t, nil))
	ours := embedded(t)
	for _, server := range []*endpoint{real, ours} {
		server.prepare(t)
	}
	read := func(e *endpoint, path, accept string) map[string]any {
		t.Helper()
		got, err := e.send(t.Context(), &request{method: http.MethodGet, path: path, accept: accept}, newSightings())
		if err != nil || got.Code != http.StatusOK {
			t.Fatalf("%s: GET %s: %v %v", e.name, path, err, got)
		}
		document, _ := got.Body.(map[string]any)
		return document
	}
	same := func(what string, want, got map[string]any) {
		t.Helper()
		sortVerbs(want)
		sortVerbs(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-real +embedded):\n%s", what, diff)
		}
	}

	groups := read(ours, "/apis", "application/json")
	wantGroups := byKey(read(real, "/apis", "application/json")["groups"], "name")
	documents := []string{"/api/v1"}
	for name, group := range byKey(groups["groups"], "name") {
		want := wantGroups[name]
		if want == nil {
			t.Errorf("the group %q is no group of the real server", name)
			continue
		}
		wantVersions := byKey(want["versions"], "groupVersion")
		for version := range byKey(group["versions"], "groupVersion") {
			if wantVersions[version] == nil {
				t.Errorf("the real server does not serve %s", version)
				continue
			}
			documents = append(documents, "/apis/"+version)
		}
		if diff := cmp.Diff(want["preferredVersion"], group["preferredVersion"]); diff != "" {
			t.Errorf("the preferred version of %s (-real +embedded):\n%s", name, diff)
		}
		same("the group "+name, lacking(read(real, "/apis/"+name, ""), "versions"), lacking(read(ours, "/apis/"+name, ""), "versions"))
	}
	for _, path := range documents {
		got, want := read(ours, path, "application/json"), read(real, path, "application/json")
		same(path, lacking(want, "resources"), lacking(got, "resources"))
		wanted := byKey(want["resources"], "name")
		for name, resource := range byKey(got["resources"], "name") {
			same(path+" "+name, lacking(wanted[name], "storageVersionHash"), lacking(resource, "storageVersionHash"))
		}
	}
	for _, path := range []string{"/api", "/apis"} {
		const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		got, want := read(ours, path, aggregated), read(real, path, aggregated)
		same(path+", aggregated", lacking(want, "items"), lacking(got, "items"))
		wanted := aggregatedResources(want)
		for name, resource := range aggregatedResources(got) {
			same(path+", aggregated, "+name, wanted[name], resource)
		}
	}
}

// sortVerbs sorts the verbs of a resource, whose order differs between kinds.
func sortVerbs(resource map[string]any) {
	verbs, _ := resource["verbs"].([]any)
	slices.SortFunc(verbs, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// byKey converts a list of objects to a map.
func byKey(list any, key string) map[string]map[string]any {
	all := map[string]map[string]any{}
	items, _ := list.([]any)
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			name, _ := object[key].(string)
			all[name] = object
		}
	}
	return all
}

func lacking(object map[string]any, key string) map[string]any {
	out := map[string]any{}
	for k, v := range object {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// aggregatedResources returns the resources of an aggregated document, by group, version and name.
func aggregatedResources(document map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	groups, _ := document["items"].([]any)
	for _, group := range groups {
		g, _ := group.(map[string]any)
		meta, _ := g["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		for version, v := range byKey(g["versions"], "version") {
			for resource, r := range byKey(v["resources"], "resource") {
				key := name + "/" + version + "/" + resource
				for subresource, sub := range byKey(r["subresources"], "subresource") {
					all[key+"/"+subresource] = sub
				}
				all[key] = lacking(r, "subresources") // the real server has more of them
			}
		}
	}
	return all
}
