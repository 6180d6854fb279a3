package apiserver

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// guard is a webhook that refuses the changes of controllers until the test opens it.
type guard struct {
	mu    sync.Mutex // guards following
	code  int        // the code of its refusals
	open  bool
	asked []string // operations and names, by users
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID, Operation, Name string
			UserInfo             struct{ Username string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ask := review.Request
	if text := ask.UserInfo.Username + " " + ask.Operation + " " + ask.Name; !slices.Contains(g.asked, text) {
		g.asked = append(g.asked, text)
	}
	allowed := g.open || ask.UserInfo.Username == "kopf"
	fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%t,"status":{"code":%d}}}`, ask.UID, allowed, g.code)
}

// The server calls admission webhooks for the changes of its controllers, with their service accounts as users. It retries refused changes.
func TestControllersAskWebhooks(t *testing.T) {
	const maps, spaces = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces"
	const collector, ender = "system:serviceaccount:kube-system:generic-garbage-collector ", "system:serviceaccount:kube-system:namespace-controller "
	for _, tt := range []struct {
		what, remove, left string
		code               int
		asked              []string
	}{
		{"dependents", maps + "/owner?propagationPolicy=Background", maps + "/dependent", 403, []string{collector + "DELETE dependent"}},
		{"dependents with a conflict", maps + "/owner?propagationPolicy=Background", maps + "/dependent", 409, []string{collector + "DELETE dependent"}},
		{"dependents that are not found", maps + "/owner?propagationPolicy=Background", maps + "/dependent", 404, []string{collector + "DELETE dependent"}},
		{"owners that wait", maps + "/owner?propagationPolicy=Foreground", maps + "/owner", 403, []string{collector + "DELETE dependent", collector + "UPDATE owner"}},
		{"orphans", maps + "/owner?propagationPolicy=Orphan", maps + "/owner", 403, []string{collector + "UPDATE dependent", collector + "UPDATE owner"}},
		{"namespaces", spaces + "/mine", spaces + "/mine", 404, []string{ender + "DELETE inside"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := New(Options{Logger: slog.New(slog.DiscardHandler)}), &guard{code: tt.code}
				url, end := s.HandleReviews(g)
				defer end()
				c := caller{t, s}
				c.call("POST", spaces, `{"metadata":{"name":"mine"}}`)
				c.call("POST", "/api/v1/namespaces/mine/configmaps", `{"metadata":{"name":"inside"}}`)
				owner := c.call("POST", maps, `{"metadata":{"name":"owner"}}`)
				c.call("POST", maps, `{"metadata":{"name":"dependent","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"`+owner.String("metadata.uid")+`","blockOwnerDeletion":true}]}}`)
				c.call("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":"`+url+`"},
					"admissionReviewVersions":["v1"],"sideEffects":"None","rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]}]}`)
				c.call("DELETE", tt.remove, "")
				time.Sleep(10 * time.Second)
				c.call("GET", tt.left, "")
				g.mu.Lock()
				g.open = true
				g.mu.Unlock()
				time.Sleep(lastRetry)
				synctest.Wait()
				if code, answer := c.send("GET", tt.left, ""); code != 404 {
					t.Errorf("it is still there: %d %s", code, answer)
				}
				for _, want := range tt.asked {
					if !slices.Contains(g.asked, want) {
						t.Errorf("the webhook was asked %q, want %q among it", g.asked, want)
					}
				}
				if len(s.retries.pending) > 0 {
					t.Errorf("still to be tried again: %v", s.retries.pending)
				}
			})
		})
	}
}
