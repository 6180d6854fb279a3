package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reedsDefinition returns a CRD with the given names.
func reedsDefinition(plural, names string) string {
	return fmt.Sprintf(`{"metadata": {"name": "%[1]s.example.org"}, "spec": {"group": "example.org", "scope": "Namespaced", "names": {"plural": "%[1]s", %[2]s}, "versions": [
		{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`, plural, names)
}

const (
	reedsCRD  = definitionsPath + "/reeds.example.org"
	rushesCRD = definitionsPath + "/rushes.example.org"
	reeds     = "/apis/example.org/v1/namespaces/default/reeds"
)

// TestDefinitionNames creates two CRDs of a group with the same names, and CRDs in the groups of Kubernetes, on both servers.
func TestDefinitionNames(t *testing.T) {
	state := []string{"status", settles}
	const sedges = definitionsPath + "/sedges.x.k8s.io"
	protected := strings.ReplaceAll(reedsDefinition("sedges", `"kind": "Sedge"`), "example.org", "x.k8s.io")
	annotated := strings.Replace(protected, `"metadata": {`, `"metadata": {"annotations": {"api-approved.kubernetes.io": "unapproved, a test"}, `, 1)
	compareSequences(t, judge(t, plainCluster(t)), []sequence{
		{"names of two definitions", []call{
			{"POST", definitionsPath, asJSON, reedsDefinition("reeds", `"kind": "Reed", "shortNames": ["re"], "singular": "reedling"`), []string{"status", "spec.names"}},
			{"GET", reedsCRD, "", "", state},
			{"POST", definitionsPath, asJSON, reedsDefinition("rushes", `"kind": "Reed", "shortNames": ["re", "ru"], "categories": ["grass"]`), []string{"status", "spec.names"}},
			{"GET", rushesCRD, "", "", state},
			{"GET", "/apis/example.org/v1/rushes", "", "", []string{"kind"}},
			{"GET", "/apis/example.org/v1", "", "", []string{"resources", settles}},
			{"PATCH", reedsCRD, asMerge, `{"spec": {"names": {"shortNames": ["other"]}}}`, []string{"spec.names"}},
			{"GET", reedsCRD, "", "", state},
			{"GET", rushesCRD, "", "", state},
			{"PATCH", reedsCRD, asMerge, `{"spec": {"names": {"shortNames": ["ru"]}}}`, []string{"spec.names"}},
			{"GET", reedsCRD, "", "", state},
			{"DELETE", reedsCRD, "", "", []string{"status.conditions", "metadata.finalizers"}},
			{"GET", rushesCRD, "", "", state},
			{"GET", "/apis/example.org/v1/rushes", "", "", []string{"kind", settles}},
			{"POST", definitionsPath, asJSON, reedsDefinition("reeds", `"kind": "Bulrush", "singular": "rushes", "listKind": "ReedList"`), []string{"spec.names"}},
			{"GET", reedsCRD, "", "", state},
			{"DELETE", reedsCRD, "", "", []string{"status.conditions"}},
			{"GET", reedsCRD, "", "", []string{settles}},
		}},
		{"approval", []call{
			{"POST", definitionsPath, asJSON, protected, nil},
			{"POST", definitionsPath, asJSON, annotated, []string{"spec.names"}},
			{"GET", sedges, "", "", []string{"status.acceptedNames", settles}}, // the conditions come in any order
			{"PATCH", sedges, asMerge, `{"metadata": {"annotations": {"api-approved.kubernetes.io": "https://example.com/approval"}}}`, []string{"metadata.annotations"}},
			{"GET", sedges, "", "", []string{"status.acceptedNames", settles}}, // the conditions come in any order
			{"PATCH", sedges, asMerge, `{"metadata": {"annotations": {"api-approved.kubernetes.io": "yes"}}}`, nil},
			{"PATCH", sedges, asMerge, `{"metadata": {"annotations": null}}`, nil},
		}},
	})
}

// TestDefinitionDeletion deletes a CRD while an object has a finalizer, on both servers.
func TestDefinitionDeletion(t *testing.T) {
	t.Parallel()
	object := func(name, more string) string {
		return fmt.Sprintf(`{"apiVersion": "example.org/v1", "kind": "Reed", "metadata": {"name": %q%s}}`, name, more)
	}
	compareSequences(t, judge(t, ownCluster(t, nil)), []sequence{{"deletion", []call{
		{"POST", definitionsPath, asJSON, reedsDefinition("reeds", `"kind": "Reed"`), nil},
		{"GET", reeds, "", "", []string{"kind", settles}},
		{"POST", reeds, asJSON, object("a", ""), nil},
		{"POST", reeds, asJSON, object("held", `, "finalizers": ["example.com/hold"]`), nil},
		{"DELETE", reedsCRD, "", "", []string{"status.conditions", "metadata.finalizers"}},
		{"GET", reedsCRD, "", "", []string{"status", settles}},
		{"GET", reeds + "/a", "", "", []string{settles}},
		{"POST", reeds, asJSON, object("b", ""), []string{settles}},
		{"PATCH", reeds + "/b?fieldManager=m", asApply, object("b", ""), nil},
		{"PATCH", reeds + "/held", asMerge, `{"metadata": {"labels": {"a": "b"}}}`, []string{"metadata.labels"}},
		{"PATCH", reeds + "/held", asMerge, `{"metadata": {"finalizers": null}}`, []string{"metadata.finalizers"}},
		{"GET", reedsCRD, "", "", []string{settles}},
		{"GET", reeds, "", "", []string{settles}},
	}}})
}

// TestDefinitionWatches changes and deletes a CRD during watches of its objects, and compares how the watches of both servers end.
func TestDefinitionWatches(t *testing.T) {
	t.Parallel()
	var seen [2][]string
	for i, server := range []*endpoint{judge(t, ownCluster(t, nil)), embedded(t)} {
		server.mustSend(t, &request{method: "POST", path: definitionsPath, contentType: asJSON, body: reedsDefinition("reeds", `"kind": "Reed"`)})
		listed := func() bool {
			got, err := server.send(t.Context(), &request{method: "GET", path: reeds}, newSightings())
			return err == nil && got.Code == http.StatusOK
		}
		eventually(t, "the list", listed)
		server.mustSend(t, &request{method: "POST", path: reeds, contentType: asJSON, body: `{"apiVersion": "example.org/v1", "kind": "Reed", "metadata": {"name": "a"}}`})
		version := server.versionOf(t, reeds)

		first := server.watchEvents(t, reeds+"?watch=1", 1)
		server.mustSend(t, &request{method: "PATCH", path: reedsCRD, contentType: asMerge, body: `{"metadata": {"labels": {"a": "b"}}}`}) // it does not end the watch
		server.mustSend(t, &request{method: "PATCH", path: reeds + "/a", contentType: asMerge, body: `{"metadata": {"labels": {"a": "b"}}}`})
		server.mustSend(t, &request{method: "PATCH", path: reedsCRD, contentType: "application/json-patch+json",
			body: `[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties", "value": {"spec": {"type": "object"}}}]`})
		seen[i] = append(seen[i], "changed", <-first)

		eventually(t, "the list after the change", listed)
		seen[i] = append(seen[i], "resumed", <-server.watchEvents(t, reeds+"?watch=1&resourceVersion="+version, 0))
		second := server.watchEvents(t, reeds+"?watch=1", 1)
		server.mustSend(t, &request{method: "DELETE", path: reedsCRD})
		seen[i] = append(seen[i], "deleted", <-second)
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("the watches differ (-real +in memory):\n%s", diff)
	}
}

// versionOf returns the version of a list.
func (e *endpoint) versionOf(t *testing.T, path string) string {
	t.Helper()
	resp, err := e.client.Get(e.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list.Metadata.ResourceVersion
}

// watchEvents watches until the server ends the watch, and then sends the events as one text. It returns after the first events.
func (e *endpoint) watchEvents(t *testing.T, path string, first int) <-chan string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	var resp *http.Response
	eventually(t, "the watch", func() bool { // a real server may have to rebuild its cache
		if resp, err = e.client.Do(req); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
		}
		return resp.StatusCode == http.StatusOK
	})
	all, lines := make(chan string, 1), bufio.NewReader(resp.Body)
	var texts []string
	next := func() bool {
		line, err := lines.ReadString('\n')
		var event struct {
			Type   string
			Object struct {
				Code     int
				Metadata struct{ Name string }
			}
		}
		if err != nil || json.Unmarshal([]byte(line), &event) != nil {
			texts = append(texts, fmt.Sprint(err))
			return false
		}
		if event.Type != "BOOKMARK" {
			texts = append(texts, strings.TrimSpace(fmt.Sprintln(event.Type, event.Object.Metadata.Name, event.Object.Code)))
		}
		return true
	}
	for range first {
		next()
	}
	go func() {
		defer resp.Body.Close()
		for next() {
		}
		all <- strings.Join(texts, ", ")
	}()
	return all
}
