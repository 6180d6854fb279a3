package apiserver

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// TestAnswersOfKubeAPIServer checks responses of kube-apiserver to rare paths, methods and parameters.
func TestAnswersOfKubeAPIServer(t *testing.T) {
	const cm = "/api/v1/namespaces/default/configmaps"
	s := New(Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Apply([]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")); err != nil {
		t.Fatal(err)
	}
	const noResource, noMethod = `"message":"the server could not find the requested resource"`, `"reason":"MethodNotAllowed"`
	for _, tt := range []struct {
		method, path string
		code         int
		want         string // in the answer
	}{
		{"GET", "/version/", 200, `"gitVersion"`},
		{"POST", "/version", 405, noMethod},
		{"POST", "/api", 405, noMethod},
		{"DELETE", "/api/v1", 405, noMethod},
		{"HEAD", "/apis/apps/v1", 405, ""},
		{"POST", "/apis", 200, `"APIGroupList"`}, // the aggregator answers
		{"GET", "/api/v2", 404, noResource},
		{"GET", "/apis/apps/v2", 404, noResource},
		{"GET", "/apis/apps/v1/nothing", 404, noResource},
		{"GET", "/apis/unknown.example.com/v1/nothing", 404, "404 page not found"},
		{"GET", "/api/v1/bindings", 404, noResource},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews/a", 404, noResource},
		{"GET", cm + "/%2e%2e", 400, `Name parameter invalid: \"..\": may not be '..'`},
		{"DELETE", cm + "/a%25b", 400, `may not contain '%'`},
		{"GET", cm + "?limit=", 400, `strconv.ParseInt: parsing \"\": invalid syntax`},
		{"GET", cm + "?timeoutSeconds=99999999999999999999", 400, "value out of range"},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s %s is answered with %d, want %d and %q: %s", tt.method, tt.path, w.Code, tt.code, tt.want, w.Body)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", cm+"/a?resourceVersion=99999", nil))
	if after := w.Header().Get("Retry-After"); w.Code != 504 || after != "1" {
		t.Errorf("a version that is not there yet is answered with %d, and Retry-After %q", w.Code, after)
	}
	r := httptest.NewRequest("GET", cm+"/a", nil)
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	w = httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 406 || !strings.Contains(w.Body.String(), "the requested object is not a list (*core.ConfigMap)") {
		t.Errorf("one object as a list is answered with %d: %s", w.Code, w.Body)
	}
}

// TestObjectsOfWrongForm checks objects that were accepted although kube-apiserver refuses them, or the other way around.
func TestObjectsOfWrongForm(t *testing.T) {
	const cm = "/api/v1/namespaces/default/configmaps"
	s := New(Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Apply([]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {b: c}}")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, contentType, body string
		code                            int
		want                            string
	}{
		{"POST", cm, "application/json", `{"apiVersion":5,"metadata":{"name":"b"}}`, 400, "apiVersion: a string is expected, not a number"},
		{"PUT", cm + "/a", "application/json", `{"kind":{},"metadata":{"name":"a"}}`, 400, "kind: a string is expected, not an object"},
		{"POST", cm, "application/json", `{"metadata":{"name":"b","generation":-1}}`, 422, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"},
		{"PATCH", cm + "/a", "application/strategic-merge-patch+json", `{"metadata":{"managedFields":[]}}`, 200, `"name":"a"`},
		{"PATCH", cm + "/a", "application/strategic-merge-patch+json", `{"kind":"Secret","apiVersion":"v2","metadata":{"managedFields":[]}}`, 200, `"kind":"ConfigMap"`},
		{"PATCH", cm + "/a", "application/strategic-merge-patch+json", `{"kind":5}`, 422, `FieldValueInvalid`},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(tt.method, tt.path+"?dryRun=All", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.contentType)
		s.ServeHTTP(w, r)
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) || w.Code == 200 && strings.Contains(w.Body.String(), "managedFields") {
			t.Errorf("%s is answered with %d, want %d and %q: %s", tt.body, w.Code, tt.code, tt.want, w.Body)
		}
	}
}

// TestEndOfInitialEvents checks that a watch with bookmarks gets one after all objects, even if it did not set sendInitialEvents.
func TestEndOfInitialEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which a watch of a second takes no time
		s := New(Options{Logger: slog.New(slog.DiscardHandler)})
		for query, want := range map[string]int{"": 1, "&resourceVersion=0": 1, "&resourceVersion=1": 0, "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan": 0} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/namespaces?watch=1&allowWatchBookmarks=true&timeoutSeconds=1"+query, nil))
			if got := strings.Count(w.Body.String(), `"k8s.io/initial-events-end":"true"`); got != want {
				t.Errorf("%q: %d ends of the initial events, want %d: %s", query, got, want, w.Body)
			}
		}
	})
}
