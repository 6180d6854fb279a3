package apiserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A definition that another finalizer holds stays when it is deleted together with its last object.
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
