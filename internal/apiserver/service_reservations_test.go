package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// If two services request the same address or port at the same time, one gets it. The webhook sends the second request while the first one waits for
// its answer.
func TestServicesAtTheSameTime(t *testing.T) {
	const services = "/api/v1/namespaces/default/services"
	body := func(name, spec string) string { return fmt.Sprintf(`{"metadata":{"name":%q},"spec":%s}`, name, spec) }
	type step struct{ method, path, body string }
	for _, tt := range []struct {
		what          string
		first, second step
		allowed       bool // whether the webhook allows the first one
		code          int  // of the second request
		after         int  // of the second request after the first one was answered
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

// Each service decodes only the services that have changed since the last one, and still knows the values of all.
func TestUsesOfServices(t *testing.T) {
	const services = "/api/v1/namespaces/default/services"
	s := New(Options{})
	check := func(step, method, path, body string, code int) {
		t.Helper()
		if got, text := send(s, method, path, "", body); got != code {
			t.Errorf("%s: %d %s, want %d", step, got, text, code)
		}
	}
	body := func(name string, port int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%d}]}}`, name, port)
	}
	check("first", "POST", services, body("a", 30001), 201)
	check("used", "POST", services, body("b", 30001), 422)
	check("own", "PUT", services+"/a", body("a", 30001), 200)
	check("changed", "PUT", services+"/a", body("a", 30002), 200)
	check("given up", "POST", services, body("b", 30001), 201)
	check("new", "PUT", services+"/b", body("b", 30002), 422)
	check("deleted", "DELETE", services+"/a", "", 200)
	check("after the deletion", "PUT", services+"/b", body("b", 30002), 200)
	s.Compact()
	check("after the end of the history", "POST", services, body("c", 30002), 422)
	check("given up before", "POST", services, body("c", 30001), 201)

	check("another", "POST", services, body("d", 30003), 201)
	kept := s.reservations.byService["default/c"]
	check("one more", "POST", services, body("e", 30004), 201)
	if now := s.reservations.byService["default/c"]; len(kept) == 0 || &now[0] != &kept[0] {
		t.Errorf("a service that has not changed is decoded again: %v, %v", kept, now)
	}
}

// When all node ports are taken, including those for explicit requests, the next service is refused.
func TestNoPortsLeft(t *testing.T) {
	const services = "/api/v1/namespaces/default/services"
	s := New(Options{})
	body := func(name, typ string, n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"name":"p%d","port":%d}`, i, i+1)
		}
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s,"ports":[%s]}}`, name, typ, strings.Join(all, ","))
	}
	const nodes, balanced = `"type":"NodePort"`, `"type":"LoadBalancer","externalTrafficPolicy":"Local","allocateLoadBalancerNodePorts":false`
	for _, tt := range []struct {
		name, typ string
		ports     int
		code      int
		has       string
	}{
		{"more", nodes, lastPort - firstPort + 2, 500, "failed to allocate a nodePort: range is full"},
		{"many", nodes, lastPort - firstPort + 1, 201, ""},
		{"one", nodes, 1, 500, "failed to allocate a nodePort: range is full"},
		{"health", balanced, 1, 500, "failed to allocate a HealthCheck NodePort 0: range is full"},
	} {
		if code, text := send(s, "POST", services, "", body(tt.name, tt.typ, tt.ports)); code != tt.code || !strings.Contains(text, tt.has) || strings.Contains(text, `"nodePort":0`) {
			t.Errorf("%s: %d %.300s, want %d and %q", tt.name, code, text, tt.code, tt.has)
		}
	}
}
