package apiserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A CRD with another finalizer remains when it is deleted together with its last object.
func TestDefinitionKeepsOtherFinalizers(t *testing.T) {
	s := New(Options{})
	if err := s.Apply([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com, finalizers: [example.com/hold]}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: a, namespace: default}
`)); err != nil {
		t.Fatal(err)
	}
	do := func(method string) (int, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com", http.NoBody))
		return w.Code, w.Body.String()
	}
	do("DELETE")
	if code, text := do("GET"); code != 200 || !strings.Contains(text, `"finalizers":["example.com/hold"]`) {
		t.Errorf("the answer is %d %.300s, want the definition with its other finalizer", code, text)
	}
}

// An object that cannot be deleted is tried once, and once more because the others have gone in the meantime, regardless of their number.
func TestEndOnce(t *testing.T) {
	const definition, namespace = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hosts.example.com", "/api/v1/namespaces/default-2"
	for _, deleted := range []string{definition, namespace} {
		t.Run(deleted, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newHosts(t, "v1")
				request := func(method, path, body string, want int) string {
					t.Helper()
					code, text := send(s, method, path, "", body)
					if code != want {
						t.Fatalf("%s %s: %d %s, want %d", method, path, code, text, want)
					}
					return text
				}
				add := func(version, hosts, name string) {
					t.Helper()
					request("POST", strings.Replace(hosts, "default", "default-2", 1), host(version, name, "", `{}`), 201)
				}
				request("POST", "/api/v1/namespaces", `{"metadata":{"name":"default-2"}}`, 201)
				add("v1", hostsV1, "old")
				object := request("GET", definition, "", 200) // from now on, objects are stored in the other version
				object = strings.NewReplacer(`"storage":true`, `"storage":false`, `"storage":false`, `"storage":true`).Replace(object)
				request("PUT", definition, object, 200)
				for i := range 50 {
					add("v2", hostsV2, fmt.Sprint("new-", i))
				}
				h.broken.Store(true)
				var log bytes.Buffer
				s.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
				request("DELETE", deleted, "", 200)
				if n := strings.Count(log.String(), "An object cannot be deleted"); n < 1 || n > 2 {
					t.Errorf("deleting the object that cannot be converted is tried %d times, want at most 2", n)
				}
				if items, _ := s.db.List("hosts.example.com"); len(items) != 1 {
					t.Errorf("%d objects are left, want 1", len(items))
				}
				h.broken.Store(false)
				time.Sleep(lastRetry)
				synctest.Wait()
				request("GET", deleted, "", 404)
				if left := len(s.processing.dirty) + len(s.retries.pending); left > 0 {
					t.Errorf("%d objects are still worked on", left)
				}
			})
		})
	}
}

// At the end of a namespace, objects that were deleted with their owner are not deleted a second time.
func TestEndOfOwners(t *testing.T) {
	o := objects{T: t, server: New(Options{}), namespace: "mine"}
	send(o.server, "POST", "/api/v1/namespaces", "", `{"metadata":{"name":"mine"}}`)
	o.add("a-owner", "")
	var reviews []string
	reviewDependents(t, o.server, func(name string) bool {
		reviews = append(reviews, name)
		return true
	})
	o.add("child", `"example.com/f"`, "a-owner")
	send(o.server, "DELETE", "/api/v1/namespaces/mine", "", "")
	o.want("child:1!")
	if len(reviews) != 1 {
		t.Errorf("the reviews are %s, want one", reviews)
	}
	o.do("PATCH", "/child", "application/merge-patch+json", `{"metadata":{"finalizers":null}}`)
	if code, text := send(o.server, "GET", "/api/v1/namespaces/mine", "", ""); code != 404 {
		t.Errorf("the namespace is answered with %d %s, want 404", code, text)
	}
}
