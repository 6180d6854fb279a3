package apiserver

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The server refuses unsupported fields, or warns of them in the response, and once in the log.
func TestUnsupported(t *testing.T) {
	const (
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		hooks       = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	)
	definition := func(schema string) string {
		return `{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` + schema + `}}}}]}}`
	}
	for _, tt := range []struct{ name, path, body, want string }{
		{"rules", definitions, definition(`{"type":"object","x-kubernetes-validations":[{"rule":"self.a == 1"}],"properties":{"a":{"type":"integer"}}}`),
			"spec.versions[0].schema.openAPIV3Schema.properties.spec.x-kubernetes-validations"},
		{"rules of a property default", definitions, definition(`{"type":"object","properties":{"default":{"type":"integer","x-kubernetes-validations":[{"rule":"self == 1"}]}}}`),
			"spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.default.x-kubernetes-validations"},
		{"many rules", definitions, definition(`{"type":"object","x-kubernetes-validations":[{"rule":"true"}],"properties":{"a":{"type":"integer","x-kubernetes-validations":[{"rule":"self == 1"}]},"b":{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self == 1"}]}}}}`),
			"rules in CEL are not evaluated by this server, and 2 more places have some"},
		{"conditions", hooks, `{"metadata":{"name":"h"},"webhooks":[{"name":"h.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1"},
			"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}],"matchConditions":[{"name":"c","expression":"true"}]}]}`, "webhooks[0].matchConditions"},
		{"nothing", definitions, definition(`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":{"x-kubernetes-validations":[1]}}`), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			s := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for i, path := range []string{tt.path + "?dryRun=All", tt.path} {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(tt.body)))
				if warning := w.Header().Get("Warning"); w.Code != 201 || !strings.Contains(warning, tt.want) || (tt.want == "") != (warning == "") {
					t.Errorf("%s is answered with %d and the warning %q, want 201 and %q: %s", path, w.Code, warning, tt.want, w.Body)
				}
				if got, want := strings.Count(log.String(), "level=WARN"), min(len(tt.want), i); got != want { // none for a dry run
					t.Errorf("after %s, %d warnings are logged, want %d:\n%s", path, got, want, &log)
				}
			}
			strict := New(Options{RefuseUnsupported: true})
			w := httptest.NewRecorder()
			strict.ServeHTTP(w, httptest.NewRequest("POST", tt.path, strings.NewReader(tt.body)))
			if want := map[bool]int{true: 201, false: 422}[tt.want == ""]; w.Code != want || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("the strict server answers %d %s, want %d", w.Code, w.Body, want)
			}
		})
	}
}

// Kinds without an effect are served, and the responses contain a warning.
func TestUnenforcedKinds(t *testing.T) {
	const core = "/api/v1/namespaces/default/"
	for _, tt := range []struct{ path, body, field string }{
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{"metadata":{"name":"a"},"spec":{"validations":[{"expression":"true"}]}}`, "spec"},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", `{"metadata":{"name":"a"},"spec":{"policyName":"p","validationActions":["Deny"]}}`, "spec"},
		{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", `{"metadata":{"name":"a"},"spec":{"reinvocationPolicy":"Never"}}`, "spec"},
		{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", `{"metadata":{"name":"a"},"spec":{"policyName":"p"}}`, "spec"},
		{"/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.example.com"},"spec":{"group":"example.com","version":"v1","service":{"name":"a","namespace":"default"}}}`, "spec.service"},
		{"/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.example.com"},"spec":{"group":"example.com","version":"v1"}}`, ""},
		{"/apis/certificates.k8s.io/v1/certificatesigningrequests", `{"metadata":{"name":"a"},"spec":{"signerName":"kubernetes.io/kubelet-serving"}}`, "spec.signerName"},
		{"/apis/certificates.k8s.io/v1/certificatesigningrequests", `{"metadata":{"name":"a"},"spec":{"signerName":"example.com/s"}}`, ""},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", `{"metadata":{"name":"a"},"spec":{"priorityLevelConfiguration":{"name":"p"}}}`, "spec"},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", `{"metadata":{"name":"a"},"spec":{"type":"Exempt"}}`, "spec"},
		{core + "limitranges", `{"metadata":{"name":"a"},"spec":{"limits":[{"type":"Pod"}]}}`, "spec.limits"},
		{core + "resourcequotas", `{"metadata":{"name":"a"},"spec":{"hard":{"pods":"1"}}}`, "spec.hard"},
		{core + "resourcequotas", `{"metadata":{"name":"a"}}`, ""},
		{"/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"x"}}`, "status.authenticated"},
		{"/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"spec":{"user":"a","nonResourceAttributes":{"path":"/","verb":"get"}}}`, "status.allowed"},
		{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get"}}}`, ""},
		{"/apis/storage.k8s.io/v1/csidrivers", `{"metadata":{"name":"a"},"spec":{}}`, ""},
		{"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `{"metadata":{"name":"a"},"spec":{"podSelector":{}}}`, ""},
	} {
		t.Run(tt.path, func(t *testing.T) {
			for _, refuse := range []bool{false, true} {
				var log bytes.Buffer
				s := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), RefuseUnsupported: refuse})
				if err := s.Apply([]byte("{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}")); err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("POST", tt.path, strings.NewReader(tt.body)))
				code := 201
				if refuse && tt.field != "" {
					code = 422
				}
				if w.Code != code {
					t.Fatalf("%s is answered with %d, want %d: %s", tt.body, w.Code, code, w.Body)
				}
				said := w.Header().Get("Warning") + log.String()
				if refuse {
					said = w.Body.String()
				}
				if tt.field != "" && !strings.Contains(said, tt.field) || tt.field == "" && (w.Header().Get("Warning") != "" || log.Len() > 0) {
					t.Errorf("the answer is %q, %q and %q, want %q in it", w.Header().Get("Warning"), log.String(), w.Body, tt.field)
				}
			}
		})
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", strings.NewReader(`{"spec":{"resourceAttributes":{"verb":"get"}}}`))
	r.Header.Set("Impersonate-User", "me") // as kubectl auth can-i --as=me
	New(Options{Logger: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
	if warning := strings.Join(w.Header().Values("Warning"), ""); w.Code != 201 || !strings.Contains(warning, "status.allowed") {
		t.Errorf("the review of another user's access is answered with %d and the warning %q", w.Code, warning)
	}
	w = httptest.NewRecorder()
	New(Options{}).ServeHTTP(w, httptest.NewRequest("POST", core+"serviceaccounts/none/token", strings.NewReader(`{}`)))
	if w.Code != 404 {
		t.Errorf("the token of a missing account is answered with %d, want 404: %s", w.Code, w.Body)
	}
}

// The server refuses impersonation, or warns of it. It refuses a request without a user as a real server does.
func TestImpersonation(t *testing.T) {
	for _, tt := range []struct {
		header, value, warning string
		refuse                 bool
		code                   int
	}{
		{"Impersonate-User", "me", "impersonation has no effect on this server", false, 200},
		{"Impersonate-User", "me", "", true, 422},
		{"Impersonate-User", "", "", true, 200},
		{"Impersonate-Group", "g", "", false, 400},
		{"Impersonate-Uid", "g", "", false, 400},
		{"Impersonate-Extra-A", "", "", false, 400},
		{"Impersonate-Group", "", "", false, 200},
	} {
		var log bytes.Buffer
		s := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), RefuseUnsupported: tt.refuse})
		for range 2 {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/api/v1/namespaces", http.NoBody)
			r.Header.Set(tt.header, tt.value)
			s.ServeHTTP(w, r)
			if warning := w.Header().Get("Warning"); w.Code != tt.code || !strings.Contains(warning, tt.warning) || (warning == "") != (tt.warning == "") {
				t.Errorf("%+v is answered with %d and the warning %q: %s", tt, w.Code, warning, w.Body)
			}
		}
		if got, want := strings.Count(log.String(), "level=WARN"), min(1, len(tt.warning)); got != want {
			t.Errorf("%+v: %d lines of the log, want %d", tt, got, want)
		}
	}
}
