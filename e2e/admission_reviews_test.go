package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorder is an admission webhook that records the reviews.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

// newRecorder starts a webhook that allows all requests, with a warning at one of its paths.
func newRecorder(t *testing.T) *recorder {
	r := &recorder{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review struct{ Request map[string]any }
		json.NewDecoder(req.Body).Decode(&review)
		q := review.Request
		response := map[string]any{"uid": q["uid"], "allowed": true}
		switch req.URL.Path {
		case "/label", "/unlabel":
			patch := `[{"op":"add","path":"/metadata/labels","value":{"marked":"yes"}}]`
			if req.URL.Path == "/unlabel" {
				patch = `[{"op":"remove","path":"/metadata/labels"}]`
			}
			response["patch"], response["patchType"] = base64.StdEncoding.EncodeToString([]byte(patch)), "JSONPatch"
		case "/warn":
			response["warnings"] = []string{"mind the gap"}
		}
		line := func(key string) string { b, _ := json.Marshal(q[key]); return key + "=" + string(b) }
		text := strings.Join([]string{req.URL.Path, line("operation"), line("name"), line("namespace"), line("kind"), line("resource"), line("requestKind"), line("subResource"), line("dryRun"), line("options")}, " ")
		meta := func(key string) string {
			o, _ := q[key].(map[string]any)
			m, _ := o["metadata"].(map[string]any)
			if o == nil {
				return key + "=nil"
			}
			return fmt.Sprintf("%s=%v %v", key, o["kind"], m["name"])
		}
		r.mu.Lock()
		r.seen = append(r.seen, text+" "+meta("object")+" "+meta("oldObject"))
		r.mu.Unlock()
		json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// configuration returns a webhook configuration.
func (r *recorder) configuration(kind, ns, more string, paths ...string) string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}))
	var hooks []string
	for i, path := range paths {
		selector := ""
		if i > 0 {
			selector = more
		}
		hooks = append(hooks, fmt.Sprintf(`{"name":"h%d.example.com","clientConfig":{"url":"%s%s","caBundle":"%s"},"admissionReviewVersions":["v1"],"sideEffects":"None",%s
			"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"%s"}},
			"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["configmaps","pods","pods/*","deployments","deployments/*","serviceaccounts/token","horizontalpodautoscalers"]}]}`, i, r.URL, path, ca, selector, ns))
	}
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":%q},"webhooks":[%s]}`, kind, ns, strings.Join(hooks, ","))
}

// reviewServers are the servers to compare.
func reviewServers(t *testing.T) []*endpoint {
	return []*endpoint{judge(t, plainCluster(t)), embedded(t)}
}

// reviewed sends calls in a namespace with a recording webhook, and returns the reviews, and the warnings.
func reviewed(t *testing.T, server *endpoint, ns, kind, more string, paths []string, calls []call) (seen [][]string) {
	seenBy := newSightings()
	r := newRecorder(t)
	collection := map[bool]string{true: "mutating", false: "validating"}[strings.HasPrefix(kind, "Mutating")] + "webhookconfigurations"
	server.mustSend(t, &request{method: "POST", path: "/api/v1/namespaces", contentType: asJSON, body: `{"metadata":{"name":"` + ns + `"}}`})
	server.mustSend(t, &request{method: "POST", path: "/apis/admissionregistration.k8s.io/v1/" + collection, contentType: asJSON, body: r.configuration(kind, ns, more, paths...)})
	t.Cleanup(func() {
		server.send(t.Context(), &request{method: "DELETE", path: "/apis/admissionregistration.k8s.io/v1/" + collection + "/" + ns}, newSightings())
	})
	eventually(t, "the webhook is asked", func() bool {
		// The API server has no signal that it uses the configuration.
		time.Sleep(100 * time.Millisecond)
		server.send(t.Context(), &request{method: "POST", path: "/api/v1/namespaces/" + ns + "/configmaps?dryRun=All", contentType: asJSON, body: `{"metadata":{"name":"probe","labels":{"marked":"yes"}}}`}, seenBy)
		return len(r.take()) >= 1
	})
	time.Sleep(500 * time.Millisecond) // for the rest of the configuration, likewise
	for _, c := range calls {
		r.take()
		got, err := server.send(t.Context(), &request{method: c.method, path: strings.ReplaceAll(c.path, "NS", ns), contentType: c.contentType, body: c.body}, seenBy)
		if err != nil {
			t.Fatal(err)
		}
		all := r.take()
		slices.Sort(all)
		all = slices.Compact(all) // a real server calls again after its cache was late
		seen = append(seen, append([]string{fmt.Sprint(c.method, " ", c.path, " → ", got.Code, " ", got.Warnings)}, all...))
	}
	return seen
}

func compareReviews(t *testing.T, ns, kind, more string, paths []string, calls []call) {
	t.Helper()
	var seen [2][][]string
	for i, server := range reviewServers(t) {
		seen[i] = reviewed(t, server, ns, kind, more, paths, calls)
	}
	for i := range seen[0] {
		if diff := cmp.Diff(seen[0][i], seen[1][i]); diff != "" {
			t.Errorf("(-real +memory)\n%s", diff)
		}
	}
}

// TestReviewOptions compares the options of deletions in reviews: client-go sends them in the body.
func TestReviewOptions(t *testing.T) {
	const cm = "/api/v1/namespaces/NS/configmaps"
	compareReviews(t, "reviews-options", "ValidatingWebhookConfiguration", "", []string{"/see"}, []call{
		{"POST", cm + "?fieldManager=m&fieldValidation=Strict", asJSON, `{"metadata":{"name":"a"}}`, nil},
		{"POST", cm, asJSON, `{"metadata":{"name":"b"}}`, nil},
		{"POST", cm, asJSON, `{"metadata":{"name":"c"}}`, nil},
		{"PATCH", cm + "/a?fieldManager=m&force=true", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}`, nil},
		{"DELETE", cm + "/a", asJSON, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground","dryRun":["All"],"gracePeriodSeconds":3}`, nil},
		{"DELETE", cm + "/a?dryRun=All&gracePeriodSeconds=4", "", "", nil},
		{"DELETE", cm + "/a", asJSON, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, nil},
	})
}

// TestReviewCollection compares the reviews and the warnings when a collection is deleted.
func TestReviewCollection(t *testing.T) {
	const cm = "/api/v1/namespaces/NS/configmaps"
	compareReviews(t, "reviews-collection", "ValidatingWebhookConfiguration", "", []string{"/warn"}, []call{
		{"POST", cm, asJSON, `{"metadata":{"name":"b","labels":{"x":"y"}}}`, nil},
		{"POST", cm, asJSON, `{"metadata":{"name":"c","labels":{"x":"y"}}}`, nil},
		{"DELETE", cm + "?labelSelector=x", "", "", nil},
		{"DELETE", cm + "/missing", "", "", nil},
	})
}

// TestReviewSelectors compares the called webhooks when one changes the labels that the next one selects.
func TestReviewSelectors(t *testing.T) {
	const cm = "/api/v1/namespaces/NS/configmaps"
	compareReviews(t, "reviews-selectors", "MutatingWebhookConfiguration", `"objectSelector":{"matchLabels":{"marked":"yes"}},`, []string{"/label", "/see"}, []call{
		{"POST", cm, asJSON, `{"metadata":{"name":"a"}}`, nil},
	})
}

// TestReviewUnselected compares the called webhooks when one removes the labels that the next one selects.
func TestReviewUnselected(t *testing.T) {
	const cm = "/api/v1/namespaces/NS/configmaps"
	compareReviews(t, "reviews-unselected", "MutatingWebhookConfiguration", `"objectSelector":{"matchLabels":{"marked":"yes"}},`, []string{"/unlabel", "/see"}, []call{
		{"POST", cm, asJSON, `{"metadata":{"name":"a","labels":{"marked":"yes"}}}`, nil},
	})
}

// TestReviewSubresources compares the reviews of subresources.
func TestReviewSubresources(t *testing.T) {
	const pods, deployments = "/api/v1/namespaces/NS/pods", "/apis/apps/v1/namespaces/NS/deployments"
	const sa = "/api/v1/namespaces/NS/serviceaccounts"
	compareReviews(t, "reviews-subresources", "ValidatingWebhookConfiguration", "", []string{"/see"}, []call{
		{"POST", pods, asJSON, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}]}}`, nil},
		{"POST", pods + "/p/binding?dryRun=All", asJSON, `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, nil},
		{"POST", pods + "/p/binding", asJSON, `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, nil},
		{"PATCH", pods + "/p/status", asMerge, `{"status":{"phase":"Running"}}`, nil},
		{"POST", pods + "/p/eviction", asJSON, `{"metadata":{"name":"p"},"deleteOptions":{"dryRun":["All"]}}`, nil},
		{"POST", pods + "/p/eviction", asJSON, `{"metadata":{"name":"p"},"deleteOptions":{"gracePeriodSeconds":0}}`, nil},
		{"POST", deployments, asJSON, `{"metadata":{"name":"d"},"spec":{` + workload + `}}`, nil},
		{"PATCH", deployments + "/d/scale", asMerge, `{"spec":{"replicas":3}}`, nil},
		{"PATCH", deployments + "/d/status", asMerge, `{"status":{"replicas":3}}`, nil},
		{"PATCH", deployments + "/d", asMerge, `{}`, nil},
		{"POST", sa, asJSON, `{"metadata":{"name":"s"}}`, nil},
		{"POST", sa + "/s/token", asJSON, `{"spec":{}}`, nil},
	})
}
