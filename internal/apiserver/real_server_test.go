package apiserver

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAsRealServer sends the requests that the tests in e2e also send to a real server, and expects the same responses.
func TestAsRealServer(t *testing.T) {
	const (
		merge       = "application/merge-patch+json"
		core        = "/api/v1/namespaces/default/"
		requests    = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
		policies    = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
		newEvents   = "/apis/events.k8s.io/v1/namespaces/default/events"
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		things      = "/apis/example.com/v1/namespaces/default/things"
		beta        = "/apis/example.com/v1beta1/namespaces/default/things"
	)
	type step struct {
		method, path, contentType, body string
		code                            int
		has, lacks                      string
	}
	for name, steps := range map[string][]step{
		"secrets": {
			{"POST", core + "secrets", "", `{"metadata":{"name":"s"},"stringData":{"a":"one"}}`, 201, `"data":{"a":"b25l"}`, "stringData"},
			{"PUT", core + "secrets/s", "", `{"metadata":{"name":"s"},"stringData":{"a":"two"}}`, 200, `"data":{"a":"dHdv"}`, `"stringData"`},
			{"PATCH", core + "secrets/s", merge, `{"stringData":{"b":"one"}}`, 200, `"b":"b25l"`, `"stringData":{`},
			{"PATCH", core + "secrets/s", merge, `{"type":"example.com/t"}`, 422, "field is immutable", ""},
		},
		"types": {
			{"POST", core + "services", "", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":"80"}]}}`, 400, "cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32", ""},
			{"POST", core + "resourcequotas", "", `{"metadata":{"name":"q"},"spec":{"hard":{"memory":"1024Mi","pods":3}}}`, 201, `"hard":{"memory":"1Gi","pods":"3"}`, ""},
			{"PATCH", core + "resourcequotas/q", merge, `{"spec":{"hard":{"memory":"x"}}}`, 422, "quantities must match the regular expression", ""},
			{"PATCH", core + "resourcequotas/q?fieldValidation=Strict", merge, `{"spec":{"hrad":{}}}`, 422, `unknown field \"spec.hrad\"`, ""},
			{"PATCH", core + "resourcequotas/q", "application/strategic-merge-patch+json", `{"spec":{"hrad":{},"hard":{"memory":"2048Mi"}}}`, 200, `"hard":{"memory":"2Gi","pods":"3"}`, `"hrad":`},
			{"POST", core + "endpoints?fieldValidation=Strict", "", `{"b":1,"metadata":{"name":"e","a":1},"a":2}`, 400, `unknown field \"b\", unknown field \"metadata.a\", unknown field \"a\"`, ""},
		},
		"updates that create": {
			{"PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", "", `{"metadata":{"name":"l"}}`, 201, `"name":"l"`, ""},
			{"PUT", core + "configmaps/c", "", `{"metadata":{"name":"c"}}`, 404, "not found", ""},
		},
		"metadata through the status": {
			{"POST", "/apis/apps/v1/namespaces/default/deployments", "", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 201, "", ""},
			{"PATCH", "/apis/apps/v1/namespaces/default/deployments/d/status", merge, `{"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"}}}`, 200, `"annotations":{"a":"2"}`, `"labels":{"l"`},
		},
		"events of two groups": {
			{"POST", core + "events", "", `{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p","namespace":"default"},"message":"m","source":{"component":"c"}}`, 201, "", ""},
			{"GET", newEvents + "/e", "", "", 200, `"note":"m"`, `"message":`},
			{"GET", newEvents + "?fieldSelector=regarding.name%3Dp", "", "", 200, `"name":"e"`, ""},
			{"GET", newEvents + "?fieldSelector=regarding.name%3Dq", "", "", 200, `"items":[]`, ""},
			{"GET", core + "events?fieldSelector=source%3Dc", "", "", 200, `"message":"m"`, `"note":`},
			{"DELETE", newEvents + "/e", "", "", 200, "", ""},
			{"GET", core + "events/e", "", "", 404, "", ""},
		},
		"approvals": {
			{"POST", requests, "", `{"metadata":{"name":"a"},"spec":{"signerName":"example.com/s"}}`, 201, `"username":"kopf"`, `"conditions"`},
			{"PATCH", requests + "/a/approval", merge, `{"status":{"certificate":"eA==","conditions":[{"type":"Approved","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, 200, `"lastUpdateTime":"2`, "certificate\":\"eA"},
			{"PATCH", requests + "/a/approval", merge, `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"R"}]}}`, 200, `"lastTransitionTime":"2026-01-02T03:04:05Z"`, ""},
		},
		"kinds without an effect": {
			{"POST", policies, "", `{"metadata":{"name":"a"},"spec":{"validations":[{"expression":"true"}],"matchConstraints":{"resourceRules":[{"resources":["things"]}]}}}`, 201, `"failurePolicy":"Fail"`, ""},
			{"PATCH", policies + "/a/status", merge, `{"metadata":{"annotations":{"a":"b"}}}`, 200, `"matchPolicy":"Equivalent"`, `"annotations"`},
			{"PUT", policies + "/a", "", `{"metadata":{"name":"a"}}`, 422, "metadata.resourceVersion: Invalid value: 0: must be specified for an update", ""},
			{"PATCH", requests + "/none", merge, `{}`, 404, "", ""},
			{"POST", requests, "", `{"metadata":{"name":"b"},"spec":{"signerName":"example.com/s"}}`, 201, "", ""},
			{"PATCH", requests + "/b", merge, `{"spec":{"signerName":"example.com/t"},"metadata":{"labels":{"a":"b"}}}`, 200, `"signerName":"example.com/s"`, "example.com/t"},
			{"GET", "/api/v1/componentstatuses", "", "", 200, `"items":[]`, ""},
		},
		"namespaces": {
			{"POST", "/api/v1/namespaces", "", `{"metadata":{"name":"n"}}`, 201, "", ""},
			{"PUT", "/api/v1/namespaces/n", "", `{"metadata":{"name":"n"}}`, 200, `"kubernetes.io/metadata.name":"n"`, ""},
			{"POST", "/api/v1/namespaces/n/configmaps", "", `{"metadata":{"name":"c","finalizers":["example.com/f"]}}`, 201, "", ""},
			{"DELETE", "/api/v1/namespaces/n", "", "", 200, "", ""},
			{"PUT", "/api/v1/namespaces/n/status", "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, 422, "may only be 'Terminating'", ""},
			{"GET", "/api/v1/namespaces/n", "", "", 200, "NamespaceFinalizersRemaining", ""},
		},
		"evictions": {
			{"POST", core + "pods", "", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201, "", ""},
			{"POST", core + "pods/p/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},"deleteOptions":{"dryRun":["All"]}}`, 201, "", ""},
			{"POST", core + "pods/p/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},"deleteOptions":{"preconditions":{"uid":"other"}}}`, 409, "", ""},
			{"GET", core + "pods/p", "", "", 200, "", ""},
			{"PATCH", core + "pods/p/status", merge, `{"status":{"phase":"Running"}}`, 200, "Running", ""},
			{"POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "", `{"metadata":{"name":"b"},"spec":{"selector":{}}}`, 201, "", ""},
			{"POST", core + "pods/p/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`, 429, "is still being processed", ""},
			{"PATCH", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status", merge, `{"status":{"observedGeneration":1,"disruptionsAllowed":1}}`, 200, "", ""},
			{"POST", core + "pods/p/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`, 201, "", ""},
			{"GET", core + "pods/p", "", "", 404, "", ""},
			{"GET", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b", "", "", 200, `"disruptedPods":{"p":`, ""},
		},
		"bindings and tokens": {
			{"POST", core + "pods", "", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}]}}`, 201, "", ""},
			{"GET", core + "pods/p/log", "", "", 204, "", ""},
			{"POST", core + "pods/p/binding", "", `{"metadata":{"name":"q"},"target":{"name":"n"}}`, 400, "name in URL does not match name in Binding object", ""},
			{"POST", core + "pods/p/binding", "", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, 201, `"status":"Success"`, ""},
			{"POST", core + "bindings", "", `{"metadata":{"name":"p"},"target":{"name":"m"}}`, 409, `pod p is already assigned to node \"n\"`, ""},
			{"GET", core + "pods/p", "", "", 200, `"nodeName":"n"`, ""},
			{"GET", core + "pods/p/log", "", "", 404, `pods \"n\" not found`, ""},
			{"POST", core + "serviceaccounts/s/token", "", `{}`, 404, "", ""},
			{"POST", core + "serviceaccounts", "", `{"metadata":{"name":"s"}}`, 201, "", ""},
			{"POST", core + "serviceaccounts/s/token", "", `{}`, 201, `"kind":"TokenRequest"`, ""},
			{"POST", core + "serviceaccounts/s/token", "", `{"spec":{"expirationSeconds":10}}`, 422, "may not specify a duration less than 10 minutes", ""},
		},
		"options": {
			{"POST", core + "configmaps?fieldManager=" + strings.Repeat("m", 129), "", `{"metadata":{"name":"c"}}`, 422, "may not be more than 128 bytes", ""},
			{"GET", core + "configmaps/c?resourceVersion=abc", "", "", 500, "invalid syntax", ""},
		},
		"definitions": {
			{"POST", definitions, "", `{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[
				{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.size"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
					"color":{"type":"string"},"size":{"type":"integer"}}}}}}},
				{"name":"v1beta1","served":true,"storage":false,"deprecated":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"}}}}}}}]}}`, 201, "", ""},
			{"POST", things, "", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"color":"longcolor","size":5}}`, 201, "", "Warning"},
			{"GET", beta + "/a", "", "", 200, "v1beta1 Thing is deprecated; use example.com/v1 Thing", `"size":5`},
			{"GET", things + "?fieldSelector=spec.size%3D5", "", "", 200, `"name":"a"`, ""},
			{"GET", things + "?fieldSelector=spec.color%3Dred", "", "", 400, "field label not supported", ""},
			{"PATCH", definitions + "/things.example.com", merge, `{"spec":{"scope":"Cluster"}}`, 422, "field is immutable", ""},
			{"PATCH", definitions + "/things.example.com", "application/json-patch+json", `[
				{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/maxLength","value":3},
				{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added","value":{"type":"string","default":"d"}}]`, 200, "", ""},
			{"GET", things + "/a", "", "", 200, `"added":"d"`, ""},
			{"PATCH", definitions + "/things.example.com", "application/json-patch+json", `[{"op":"add","path":"/spec/versions/0/selectableFields/-","value":{"jsonPath":".spec.added"}}]`, 200, "", ""},
			{"GET", things + "?fieldSelector=spec.added%3Dd", "", "", 200, `"name":"a"`, ""},
			{"PATCH", things + "/a", merge, `{"spec":{"size":6}}`, 200, `"size":6`, ""},
			{"PATCH", things + "/a", merge, `{"spec":{"color":"otherlong"}}`, 422, "may not be more than 3 bytes", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{})
			for _, step := range steps {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(step.method, step.path, strings.NewReader(step.body))
				r.Header.Set("Content-Type", step.contentType)
				if step.contentType == "" {
					r.Header.Set("Content-Type", "application/json")
				}
				s.ServeHTTP(w, r)
				got := w.Body.String() + "Warning: " + w.Header().Get("Warning")
				got = strings.TrimSuffix(got, "Warning: ")
				if w.Code != step.code || !strings.Contains(got, step.has) || step.lacks != "" && strings.Contains(got, step.lacks) {
					t.Errorf("%s %s %.80s: %d %s, want %d with %q and without %q", step.method, step.path, step.body, w.Code, got, step.code, step.has, step.lacks)
				}
			}
		})
	}
}
