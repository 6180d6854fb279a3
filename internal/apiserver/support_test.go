package apiserver

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

// What has no effect here is warned of in the answer, and once in the log, or refused.
func TestUnsupported(t *testing.T) {
	const (
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		hooks       = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	)
	definition := func(extra, schema string) string {
		return `{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced",` + extra + `"names":{"plural":"things","kind":"Thing"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` + schema + `}}}}]}}`
	}
	for _, tt := range []struct{ name, path, body, want string }{
		{"rules", definitions, definition("", `{"type":"object","x-kubernetes-validations":[{"rule":"self.a == 1"}],"properties":{"a":{"type":"integer"}}}`),
			"spec.versions[0].schema.openAPIV3Schema.properties.spec.x-kubernetes-validations"},
		{"rules of a property default", definitions, definition("", `{"type":"object","properties":{"default":{"type":"integer","x-kubernetes-validations":[{"rule":"self == 1"}]}}}`),
			"spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.default.x-kubernetes-validations"},
		{"conversion", definitions, definition(`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://example.com"}}},`, `{"type":"object"}`),
			"spec.conversion.strategy"},
		{"conditions", hooks, `{"metadata":{"name":"h"},"webhooks":[{"name":"h.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1"},
			"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}],"matchConditions":[{"name":"c","expression":"true"}]}]}`, "webhooks[0].matchConditions"},
		{"nothing", definitions, definition("", `{"type":"object","default":{"x-kubernetes-validations":[1]}}`), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			s := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for _, path := range []string{tt.path + "?dryRun=All", tt.path} {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(tt.body)))
				if warning := w.Header().Get("Warning"); w.Code != 201 || !strings.Contains(warning, tt.want) || (tt.want == "") != (warning == "") {
					t.Errorf("%s is answered with %d and the warning %q, want 201 and %q: %s", path, w.Code, warning, tt.want, w.Body)
				}
			}
			if got, want := strings.Count(log.String(), "level=WARN"), min(len(tt.want), 1); got != want {
				t.Errorf("%d warnings are logged, want %d:\n%s", got, want, &log)
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
