package apiserver

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

const reedPath, reedsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/example.org/v1/namespaces/default/reeds"

// reedDefinition is a CRD with the given names.
func reedDefinition(plural, names string) string {
	return fmt.Sprintf(`{"metadata":{"name":"%[1]s.example.org"},"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"%[1]s",%[2]s},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, plural, names)
}

// exchange is a request, and the texts that its answer must and must not contain.
type exchange struct {
	method, path, contentType, body string
	code                            int
	has, lacks                      string
}

func (e *exchange) try(t *testing.T, s *Server) {
	t.Helper()
	code, text := send(s, e.method, e.path, e.contentType, e.body)
	if code != e.code || !strings.Contains(text, e.has) || e.lacks != "" && strings.Contains(text, e.lacks) {
		t.Errorf("%s %s %.80s: %d %s, want %d with %q and without %q", e.method, e.path, e.body, code, text, e.code, e.has, e.lacks)
	}
}

// If two CRDs request the same names, one is served. The other is served when the names are free.
func TestNamesInConflict(t *testing.T) {
	const merge, rushes = "application/merge-patch+json", reedPath + "/rushes.example.org"
	s := New(Options{})
	for _, e := range []exchange{
		{"POST", reedPath, "", reedDefinition("reeds", `"kind":"Reed","shortNames":["re"],"singular":"reedling"`), 201, `"acceptedNames":{"kind":"","plural":""},"conditions":null,"storedVersions":["v1"]`, ""},
		{"GET", reedPath + "/reeds.example.org", "", "", 200, `"type":"Established"`, "False"},
		{"POST", reedPath, "", reedDefinition("rushes", `"kind":"Reed","shortNames":["re","ru"]`), 201, "", ""},
		{"GET", rushes, "", "", 200, `"acceptedNames":{"kind":"","plural":"rushes","singular":"reed"}`, "True"},
		{"GET", rushes, "", "", 200, `"message":"\"ReedList\" is already in use","reason":"ListKindConflict","status":"False","type":"NamesAccepted"`, ""},
		{"GET", rushes, "", "", 200, `"reason":"NotAccepted","status":"False","type":"Established"`, ""},
		{"GET", "/apis/example.org/v1/rushes", "", "", 404, "", ""},
		{"PATCH", reedPath + "/reeds.example.org", merge, `{"spec":{"names":{"shortNames":null}}}`, 200, "", ""},
		{"GET", rushes, "", "", 200, `"shortNames":["re","ru"],"singular":"reed"`, "True"},
		{"PATCH", reedPath + "/reeds.example.org", merge, `{"spec":{"names":{"shortNames":["ru"]}}}`, 200, "", ""},
		{"GET", reedPath + "/reeds.example.org", "", "", 200, `"reason":"ShortNamesConflict","status":"False"`, ""},
		{"GET", "/apis/example.org/v1/reeds", "", "", 200, "ReedList", ""},
		{"DELETE", reedPath + "/reeds.example.org", "", "", 200, "InstanceDeletionPending", ""},
		{"GET", rushes, "", "", 200, `"acceptedNames":{"kind":"Reed","listKind":"ReedList","plural":"rushes"`, "False"},
		{"GET", "/apis/example.org/v1/rushes", "", "", 200, "ReedList", ""},
	} {
		e.try(t, s)
	}
}

// CRDs in the groups of Kubernetes need an approval.
func TestApproval(t *testing.T) {
	const merge, path = "application/merge-patch+json", reedPath + "/reeds.x.k8s.io"
	definition := strings.ReplaceAll(reedDefinition("reeds", `"kind":"Reed"`), "example.org", "x.k8s.io")
	annotated := strings.Replace(definition, `"metadata":{`, `"metadata":{"annotations":{"api-approved.kubernetes.io":"unapproved, a test"},`, 1)
	s := New(Options{})
	for _, e := range []exchange{
		{"POST", reedPath, "", definition, 422, "protected groups must have approval annotation", ""},
		{"POST", reedPath, "", annotated, 201, "", ""},
		{"GET", path, "", "", 200, `"message":"not approved: \"unapproved, a test\"","reason":"UnapprovedAnnotation","status":"False","type":"KubernetesAPIApprovalPolicyConformant"`, ""},
		{"PATCH", path, merge, `{"metadata":{"annotations":{"api-approved.kubernetes.io":"https://example.com/approval"}}}`, 200, "", ""},
		{"GET", path, "", "", 200, `"message":"approved in https://example.com/approval","reason":"ApprovedAnnotation","status":"True"`, ""},
		{"PATCH", path, merge, `{"metadata":{"annotations":null}}`, 422, "", ""},
	} {
		e.try(t, s)
	}
}

// A deleted CRD waits for objects with finalizers, and the server creates no new ones.
func TestDefinitionTerminates(t *testing.T) {
	const merge = "application/merge-patch+json"
	object := func(name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Reed","metadata":{"name":%q%s}}`, name, more)
	}
	s := New(Options{})
	for _, e := range []exchange{
		{"POST", reedPath, "", reedDefinition("reeds", `"kind":"Reed"`), 201, "", ""},
		{"POST", reedsPath, "", object("held", `,"finalizers":["example.com/hold"]`), 201, "", ""},
		{"DELETE", reedPath + "/reeds.example.org", "", "", 200, "InstanceDeletionPending", ""},
		{"GET", reedPath + "/reeds.example.org", "", "", 200, `"reason":"InstanceDeletionInProgress","status":"True","type":"Terminating"`, ""},
		{"POST", reedsPath, "", object("b", ""), 403, "create not allowed while custom resource definition is terminating", ""},
		{"PATCH", reedsPath + "/b?fieldManager=m", "application/apply-patch+yaml", object("b", ""), 403, "create not allowed", ""},
		{"PATCH", reedsPath + "/held", merge, `{"metadata":{"finalizers":null}}`, 200, "", "example.com/hold"},
		{"GET", reedPath + "/reeds.example.org", "", "", 404, "", ""},
		{"GET", reedsPath, "", "", 404, "", ""},
	} {
		e.try(t, s)
	}
}

// Watches end when the CRD changes outside of its metadata, and cannot begin at an earlier version.
func TestWatchesEndWithDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const merge = "application/merge-patch+json"
		s := New(Options{})
		watch := func(query string) *bufio.Reader {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://x"+reedsPath+"?watch=1"+query, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := (&Transport{s}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			context.AfterFunc(t.Context(), func() { answer.Body.Close() })
			return bufio.NewReader(answer.Body)
		}
		expect := func(lines *bufio.Reader, want ...string) {
			t.Helper()
			for _, text := range want {
				if line, err := lines.ReadString('\n'); !strings.Contains(line+fmt.Sprint(err), text) {
					t.Errorf("the watch has %s %v, want %s", line, err, text)
				}
			}
		}
		send(s, "POST", reedPath, "", reedDefinition("reeds", `"kind":"Reed"`))
		send(s, "POST", reedsPath, "", `{"apiVersion":"example.org/v1","kind":"Reed","metadata":{"name":"a"}}`)
		version := fmt.Sprint(s.db.Now())
		lines := watch("")
		send(s, "PATCH", reedPath+"/reeds.example.org", merge, `{"metadata":{"labels":{"a":"b"}}}`)
		send(s, "PATCH", reedsPath+"/a", merge, `{"metadata":{"labels":{"a":"b"}}}`)
		expect(lines, "ADDED", "MODIFIED")
		send(s, "PATCH", reedPath+"/reeds.example.org", merge, `{"spec":{"names":{"shortNames":["re"]}}}`)
		expect(lines, "EOF")
		expect(watch("&resourceVersion="+version), `"code":410`, "EOF")
		lines = watch("")
		send(s, "DELETE", reedPath+"/reeds.example.org", "", "")
		expect(lines, "ADDED", "DELETED", "EOF")
	})
}
