package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// An update that would create an object becomes an update if another request creates the object in the meantime.
func TestUpdateThatCreates(t *testing.T) {
	const endpoints = "/api/v1/namespaces/default/endpoints"
	object := func(label string) string { return fmt.Sprintf(`{"metadata":{"name":"e","labels":{"by":%q}}}`, label) }
	s := New(Options{})
	asked := 0
	url, end := s.HandleReviews(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			if code, text := send(s, "PUT", endpoints+"/e", "", object("other")); code != 201 {
				t.Errorf("the other request is answered with %d %s", code, text)
			}
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":true}}`, rawjson.StringAt(body, "request", "uid"))
	}))
	defer end()
	if code, text := send(s, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "", `{"metadata":{"name":"h"},"webhooks":[{"name":"h.example.com","sideEffects":"None",
		"admissionReviewVersions":["v1"],"clientConfig":{"url":"`+url+`"},"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":["endpoints"]}]}]}`); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	code, text := send(s, "PUT", endpoints+"/e", "", object("mine"))
	if code != 200 || !strings.Contains(text, `"by":"mine"`) || asked != 2 {
		t.Errorf("it is answered with %d %s after %d reviews, want 200 after 2", code, text, asked)
	}
}

// The resource version 0 means none.
func TestResourceVersionZero(t *testing.T) {
	const (
		configs = "/api/v1/namespaces/default/configmaps"
		things  = "/apis/example.com/v1/namespaces/default/things"
	)
	s := fuzzedServer(t)
	object := func(version string) string {
		return fmt.Sprintf(`{"metadata":{"name":"c","resourceVersion":%q}}`, version)
	}
	thing := func(version string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"c","resourceVersion":%q}}`, version)
	}
	for _, tt := range []struct {
		method, path, contentType, body string
		code                            int
	}{
		{"POST", configs, jsonType, object("7"), 500},
		{"POST", configs, jsonType, object("0"), 201},
		{"PUT", configs + "/c", jsonType, object("0"), 200},
		{"PUT", configs + "/c", jsonType, object("00"), 200},
		{"PATCH", configs + "/c", mergeType, object("0"), 200},
		{"PUT", configs + "/c", jsonType, object("1"), 409},
		{"PUT", configs + "/c", jsonType, object("99999999999999999999"), 500},
		{"POST", things, jsonType, thing("0"), 201},
		{"PUT", things + "/c", jsonType, thing("0"), 422},
		{"PATCH", things + "/c", mergeType, thing("0"), 422},
	} {
		if code, text := send(s, tt.method, tt.path, tt.contentType, tt.body); code != tt.code {
			t.Errorf("%s %s %s is answered with %d %s, want %d", tt.method, tt.path, tt.body, code, text, tt.code)
		}
	}
}
