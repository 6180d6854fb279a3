package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// adverse is a server for requests and webhook responses that are malformed.
type adverse struct {
	*testing.T
	server *Server
}

func (a adverse) do(method, path, contentType, body string) (int, string) {
	a.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	a.server.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// want sends a request, and checks the code and a part of the answer.
func (a adverse) want(method, path, contentType, body string, code int, has string) {
	a.Helper()
	if got, answer := a.do(method, path, contentType, body); got != code || !strings.Contains(answer, has) {
		a.Errorf("%s %s %.200s: %d %.400s, want %d with %s", method, path, body, got, answer, code, has)
	}
}

// mutateBy adds a webhook that patches config maps, after it has called a function.
func (a adverse) mutateBy(patch string, during func()) {
	a.Helper()
	url, end := a.server.HandleReviews(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			a.Error(err)
		}
		during()
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"patchType":"JSONPatch","patch":%q}}`,
			review.Request.UID, base64.StdEncoding.EncodeToString([]byte(patch)))
	}))
	a.Cleanup(end)
	a.want("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", jsonType, fmt.Sprintf(`{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com",
		"clientConfig":{"url":%q},"admissionReviewVersions":["v1"],"sideEffects":"None","rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]}]}`, url), 201, "")
}

const (
	jsonType   = "application/json"
	mergeType  = "application/merge-patch+json"
	applyType  = "application/apply-patch+yaml"
	coreOf     = "/api/v1/namespaces/default/"
	deployOne  = `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}}}`
	configOne  = coreOf + "configmaps/c"
	appliedOne = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"2"}}`
)

func TestAdverse(t *testing.T) {
	for name, test := range map[string]func(a adverse){
		"types of subresources": func(a adverse) {
			a.want("POST", "/apis/apps/v1/namespaces/default/deployments", jsonType, deployOne, 201, "")
			const scale = "/apis/apps/v1/namespaces/default/deployments/d/scale"
			a.want("PUT", scale, jsonType, `{"metadata":{"name":"d"},"spec":{"replicas":"3"}}`, 400, "of type int32")
			a.want("PATCH", scale, mergeType, `{"spec":{"replicas":99999999999}}`, 422, "number 99999999999")
			a.want("PUT", "/api/v1/namespaces/kube-node-lease/finalize", jsonType, `{"metadata":{"name":"kube-node-lease"},"spec":{"finalizers":"x"}}`, 400, "NamespaceSpec.spec.finalizers")
			a.want("POST", coreOf+"pods", jsonType, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}]}}`, 201, "")
			a.want("POST", coreOf+"pods/p/binding", jsonType, `{"metadata":{"name":"p","labels":{"a":5}},"target":{"name":"n"}}`, 400, "ObjectMeta.metadata.labels")
		},
		"a JSON patch that copies without end": func(a adverse) {
			a.want("POST", coreOf+"configmaps", jsonType, `{"metadata":{"name":"c"},"data":{"a":"`+strings.Repeat("x", 1000)+`"}}`, 201, "")
			var copies []string
			for i := range 30 {
				copies = append(copies, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/%d"}`, i))
			}
			a.want("PATCH", configOne, "application/json-patch+json", "["+strings.Join(copies, ",")+"]", 422, "the server rejected our request")
		},
		"patches of webhooks": func(a adverse) {
			a.mutateBy(`[{"op":"add","path":"/metadata/labels","value":{"a":5}}]`, func() {})
			a.want("POST", coreOf+"configmaps", jsonType, `{"metadata":{"name":"c"}}`, 500, "cannot unmarshal number")
		},
		"a webhook that renames": func(a adverse) {
			a.mutateBy(`[{"op":"add","path":"/metadata/name","value":"other"}]`, func() {})
			a.want("POST", coreOf+"configmaps", jsonType, `{"metadata":{"name":"c"}}`, 201, `"name":"other"`)
			a.want("GET", coreOf+"configmaps/other", "", "", 200, "")
		},
		"an object that appears during an apply": func(a adverse) {
			created := false
			a.mutateBy(`[]`, func() {
				if !created {
					created = true
					a.want("POST", coreOf+"configmaps", jsonType, `{"metadata":{"name":"c"},"data":{"a":"1"}}`, 201, "")
				}
			})
			a.want("PATCH", configOne+"?fieldManager=m", applyType, appliedOne, 200, `"data":{"a":"1","b":"2"}`)
		},
		"an object that goes during an apply": func(a adverse) {
			a.want("POST", coreOf+"configmaps", jsonType, `{"metadata":{"name":"c"},"data":{"a":"1"}}`, 201, "")
			a.mutateBy(`[]`, func() { a.do("DELETE", configOne, "", "") })
			a.want("PATCH", configOne+"?fieldManager=m", applyType, appliedOne, 201, `"data":{"b":"2"}`)
		},
		"a namespace that goes during a creation": func(a adverse) {
			a.mutateBy(`[]`, func() { a.do("DELETE", "/api/v1/namespaces/kube-node-lease", "", "") })
			a.want("POST", "/api/v1/namespaces/kube-node-lease/configmaps", jsonType, `{"metadata":{"name":"c"}}`, 404, "")
			a.want("GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dc", "", "", 200, `"items":[]`)
		},
		"objects of every cluster": func(a adverse) {
			a.want("DELETE", "/api/v1/namespaces/default", "", "", 403, "this namespace may not be deleted")
			a.want("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", "", "", 403, "cannot be deleted")
			a.want("DELETE", coreOf+"services/kubernetes", "", "", 200, "")
			a.want("GET", coreOf+"services/kubernetes", "", "", 200, serverService)
		},
		"ports of one service": func(a adverse) {
			a.want("POST", coreOf+"services", jsonType, `{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81,"nodePort":30086}]}}`, 201, "30086")
			a.want("POST", coreOf+"services", jsonType, `{"metadata":{"name":"h"},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30086,"ports":[{"port":80}]}}`, 500, "already allocated")
		},
		"a service that is applied twice": func(a adverse) {
			for range 2 {
				if err := a.server.Apply([]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"NodePort","clusterIP":"10.96.0.10","ports":[{"port":80,"nodePort":30080}]}}`)); err != nil {
					a.Error(err)
				}
			}
		},
		"a conversion by a service without a port": func(a adverse) {
			a.want("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", jsonType, `{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
				"names":{"plural":"things","kind":"Thing"},"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"w","namespace":"c"}},"conversionReviewVersions":["v1"]}},
				"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, 201, `"port":443`)
		},
		"unknown operations of webhooks": func(a adverse) {
			a.want("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", jsonType, `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":"https://127.0.0.1:1/"},
				"admissionReviewVersions":["v1"],"sideEffects":"None","rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["Create"],"resources":["pods"]}]}]}`, 422,
				`webhooks[0].rules[0].operations[0]: Unsupported value: \"Create\"`)
		},
	} {
		t.Run(name, func(t *testing.T) { test(adverse{t, New(Options{})}) })
	}
}

// TestManyFaults checks that an object with many errors does not lead to a large answer.
func TestManyFaults(t *testing.T) {
	var unknown, twice strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&unknown, `"f%d":1,`, i)
		fmt.Fprintf(&twice, `"k%d":"","k%d":"",`, i, i)
	}
	for _, body := range []string{
		fmt.Sprintf(`{%s"metadata":{"name":"a"}}`, unknown.String()),
		fmt.Sprintf(`{"metadata":{"name":"b"},"data":{%s"z":""}}`, twice.String()),
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", coreOf+"configmaps", strings.NewReader(body))
		r.Header.Set("Content-Type", jsonType)
		New(Options{}).ServeHTTP(w, r)
		if n := len(strings.Join(w.Header()["Warning"], "")); w.Code != 201 || n == 0 || n > 3*maxWarnings {
			t.Errorf("%d, with warnings of %d bytes, want 201 with some, and at most %d", w.Code, n, 3*maxWarnings)
		}
		if rawjson.StringAt(w.Body.Bytes(), "kind") != "ConfigMap" {
			t.Errorf("the answer is %.200s", w.Body)
		}
	}
}

// Requests with small errors are refused or accepted as kube-apiserver does. The tests in e2e compare the messages.
func TestAdverseDetails(t *testing.T) {
	const (
		configs     = "/api/v1/namespaces/default/configmaps"
		accounts    = "/api/v1/namespaces/default/serviceaccounts"
		deployments = "/apis/apps/v1/namespaces/default/deployments"
		patchType   = "application/json-patch+json"
	)
	s := New(Options{})
	for _, tt := range []struct {
		method, path, contentType, body string
		code                            int
		has                             string
	}{
		{"POST", configs, jsonType, `{"metadata":{"name":"c"}}`, 201, ""},
		{"PATCH", configs + "/c", mergeType, `{"kind":null}`, 200, `"kind":"ConfigMap"`},
		{"DELETE", configs + "/c?dryRun=All&propagationPolicy=", "", "", 422, "Unsupported value"},
		{"DELETE", configs + "/c?dryRun=All&propagationPolicy=&orphanDependents=true", "", "", 422, "cannot be both set"},
		{"DELETE", configs + "/c?dryRun=All&gracePeriodSeconds=", "", "", 400, "invalid syntax"},
		{"DELETE", configs + "/c", jsonType, `{"dryRun":["All"],"propagationPolicy":""}`, 422, "Unsupported value"},
		{"DELETE", configs + "/c", jsonType, `{"dryRun":["All"],"propagationPolicy":null}`, 200, ""},
		{"POST", deployments, jsonType, deployOne, 201, ""},
		{"PATCH", deployments + "/d/scale", mergeType, `{"metadata":{"name":"other"}}`, 400, "does not match the name on the URL"},
		{"PATCH", deployments + "/d/scale", patchType, `[{"op":"replace","path":"/kind","value":"X"}]`, 422, ""},
		{"PATCH", deployments + "/d/scale", mergeType, `{"kind":null,"spec":{"replicas":4}}`, 200, `"replicas":4`},
		{"POST", accounts, jsonType, `{"metadata":{"name":"t"}}`, 201, ""},
		{"POST", "/api/v1/namespaces/default/pods", jsonType, `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"t","containers":[{"name":"a","image":"b"}]}}`, 201, ""},
		{"POST", accounts + "/t/token", jsonType, `{"spec":{"expirationSeconds":5000000000}}`, 422, "larger than 2^32 seconds"},
		{"POST", accounts + "/t/token", jsonType, `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}`, 201, ""},
		{"POST", accounts + "/t/token", jsonType, `{"spec":{"boundObjectRef":{"kind":"Pod","name":"x"}}}`, 404, ""},
		{"POST", accounts + "/default/token", jsonType, `{"spec":{"boundObjectRef":{"kind":"Pod","name":"p"}}}`, 400, "different serviceaccount"},
		{"POST", accounts + "/t/token", jsonType, `{"spec":{"boundObjectRef":{"kind":"X","apiVersion":"v1","name":"x"}}}`, 400, "cannot bind token to object of type /v1, Kind=X"},
	} {
		if code, text := send(s, tt.method, tt.path, tt.contentType, tt.body); code != tt.code || !strings.Contains(text, tt.has) {
			t.Errorf("%s %s %s: %d %s, want %d and %q", tt.method, tt.path, tt.body, code, text, tt.code, tt.has)
		}
	}
}
