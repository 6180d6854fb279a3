package apiserver

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// Objects that are too large for etcd are refused as kube-apiserver refuses them. The tests in e2e find the same limits on a real server.
func TestSizes(t *testing.T) {
	const (
		bigs     = "/apis/example.com/v1/namespaces/default/bigs"
		merge    = "application/merge-patch+json"
		apply    = "application/apply-patch+yaml"
		tooLarge = `"message":"etcdserver: request is too large"`
		fits     = maxStoreRequest - 330 // with the other fields, the key and its envelope, and without managedFields
	)
	s := New(Options{})
	if err := s.Apply([]byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: bigs.example.com}, spec: {group: example.com, scope: Namespaced,
		names: {plural: bigs, kind: Big}, versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`)); err != nil {
		t.Fatal(err)
	}
	big := func(name string, n int) string {
		return `{"apiVersion":"example.com/v1","kind":"Big","metadata":{"name":"` + name + `"},"spec":{"d":"` + strings.Repeat("x", n) + `"}}`
	}
	patch := func(field string, n int) string {
		return `{"` + field + `":{"d":"` + strings.Repeat("x", n) + `"}}`
	}
	pod := func(n int) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b","args":["` + strings.Repeat("x", n) + `"]}]}}`
	}
	for i, tt := range []struct {
		method, path, contentType, body string
		code                            int
		has, lacks                      string
	}{
		{"POST", bigs, "", big("a", 1_000_000), 201, "managedFields", ""},
		{"POST", bigs, "", big("b", fits), 201, "", "managedFields"},
		{"POST", bigs, "", big("c", fits+200), 500, tooLarge, `"reason"`},
		{"POST", bigs + "?dryRun=All", "", big("c", fits+200), 201, "managedFields", ""},
		{"GET", bigs + "/c", "", "", 404, "", ""},
		{"PATCH", bigs + "/a", merge, patch("spec", fits+200), 500, tooLarge, ""},
		{"PATCH", bigs + "/a/status", merge, patch("status", 1_000_000), 500, tooLarge, ""},
		{"PATCH", bigs + "/a?fieldManager=m&force=true", apply, big("a", fits+200), 500, tooLarge, ""},
		{"GET", bigs + "/a", "", "", 200, "managedFields", `"status"`},
		{"POST", bigs, "", big("c", 3_000_000), 500, "trying to send message larger than max (3000", ""},
		{"POST", bigs, "", big("c", 3<<20), 413, "Request entity too large: limit is 3145728", ""},
		{"POST", "/api/v1/namespaces/default/pods", "", pod(maxStoreRequest - 2000), 201, "", ""},
		{"PATCH", "/api/v1/namespaces/default/pods/p/status", merge, `{"status":{"message":"` + strings.Repeat("x", 3000) + `"}}`, 500, tooLarge, ""},
	} {
		t.Run(fmt.Sprintf("%d %s %s", i, tt.method, tt.path), func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			if tt.contentType != "" {
				r.Header.Set("Content-Type", tt.contentType)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			answer := w.Body.String()
			if w.Code != tt.code || !strings.Contains(answer, tt.has) || tt.lacks != "" && strings.Contains(answer, tt.lacks) {
				t.Errorf("the answer is %d %.400s, want %d with %q and without %q", w.Code, answer, tt.code, tt.has, tt.lacks)
			}
		})
	}
}
