package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Of two services that ask for the same address or port at the same time, one gets it. The webhook sends the second request while the first one waits for its answer.
func TestServicesAtTheSameTime(t *testing.T) {
	const services = "/api/v1/namespaces/default/services"
	body := func(name, spec string) string { return fmt.Sprintf(`{"metadata":{"name":%q},"spec":%s}`, name, spec) }
	type step struct{ method, path, body string }
	for _, tt := range []struct {
		what          string
		first, second step
		allowed       bool // whether the webhook lets the first one be stored
		code          int  // of the second request
		after         int  // of the second request when the first one has been answered
	}{
		{"an address", step{"POST", services, body("a", `{"clusterIP":"10.96.0.50","ports":[{"port":80}]}`)}, step{"POST", services, body("b", `{"clusterIP":"10.96.0.50","ports":[{"port":80}]}`)}, true, 422, 422},
		{"an address that is given up", step{"POST", services, body("a", `{"clusterIP":"10.96.0.50","ports":[{"port":80}]}`)}, step{"POST", services, body("b", `{"clusterIP":"10.96.0.50","ports":[{"port":80}]}`)}, false, 422, 201},
		{"a dry run", step{"POST", services + "?dryRun=All", body("a", `{"clusterIP":"10.96.0.50","ports":[{"port":80}]}`)}, step{"POST", services, body("b", `{"clusterIP":"10.96.0.50","ports":[{"port":80}]}`)}, true, 201, 422},
		{"another address", step{"POST", services, body("a", `{"clusterIP":"10.96.0.50","ports":[{"port":80}]}`)}, step{"POST", services, body("b", `{"clusterIP":"10.96.0.51","ports":[{"port":80}]}`)}, true, 201, 422},
		{"the next address", step{"POST", services, body("a", `{"ports":[{"port":80}]}`)}, step{"POST", services, body("b", `{"clusterIP":"10.96.1.0","ports":[{"port":80}]}`)}, true, 422, 422},
		{"the address that would be next", step{"POST", services, body("a", `{"clusterIP":"10.96.1.0","ports":[{"port":80}]}`)}, step{"POST", services, body("b", `{"ports":[{"port":80}]}`)}, true, 201, 409},
		{"a port", step{"POST", services, body("a", `{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}`)}, step{"POST", services, body("b", `{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}`)}, true, 422, 422},
		{"a port of a change", step{"PUT", services + "/c", body("c", `{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}`)}, step{"POST", services, body("b", `{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}`)}, true, 422, 422},
		{"a port of a refused change", step{"PUT", services + "/c", body("c", `{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}`)}, step{"POST", services, body("b", `{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}`)}, false, 422, 201},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := New(Options{})
			var asked atomic.Bool
			url, end := s.HandleReviews(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var review struct{ Request struct{ UID string } }
				if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
					t.Error(err)
				}
				allowed := true
				if asked.CompareAndSwap(false, true) { // it is the first one
					if code, text := send(s, tt.second.method, tt.second.path, "", tt.second.body); code != tt.code || code == 422 && !strings.Contains(text, "already allocated") {
						t.Errorf("meanwhile, the second service is answered with %d %s, want %d", code, text, tt.code)
					}
					allowed = tt.allowed
				}
				fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%t}}`, review.Request.UID, allowed)
			}))
			defer end()
			if code, text := send(s, "POST", services, "", body("c", `{"ports":[{"port":80}],"clusterIP":"10.96.0.9"}`)); code != 201 {
				t.Fatal(text)
			}
			if code, text := send(s, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "", `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com",
				"clientConfig":{"url":"`+url+`"},"admissionReviewVersions":["v1"],"sideEffects":"None","rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["services"]}]}]}`); code != 201 {
				t.Fatal(text)
			}
			if code, text := send(s, tt.first.method, tt.first.path, "", tt.first.body); (code < 300) != tt.allowed {
				t.Errorf("the first service is answered with %d %s", code, text)
			}
			if code, text := send(s, tt.second.method, tt.second.path, "", tt.second.body); code != tt.after {
				t.Errorf("afterwards, the second service is answered with %d %s, want %d", code, text, tt.after)
			}
			if len(s.reservations.taken) > 0 {
				t.Errorf("reserved afterwards: %v", s.reservations.taken)
			}
		})
	}
}
