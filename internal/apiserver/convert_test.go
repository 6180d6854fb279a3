package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hostConverter is a webhook that splits the field hostPort of version v1 into host and port of version v2. Some labels of an object make it fail.
type hostConverter struct {
	server *Server // the webhook sends a request to it first, as webhooks may do
	sizes  []int   // of the reviews
	broken atomic.Bool
}

func (h *hostConverter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.broken.Load() {
		http.Error(w, "broken", 500)
		return
	}
	if h.server != nil {
		h.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/apis/example.com/v1/namespaces/default/hosts", http.NoBody))
	}
	var review struct {
		APIVersion string
		Request    struct {
			UID, DesiredAPIVersion string
			Objects                []map[string]any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	h.sizes = append(h.sizes, len(review.Request.Objects))
	response := map[string]any{"uid": review.Request.UID, "result": map[string]any{"status": "Success"}}
	for _, object := range review.Request.Objects {
		object["apiVersion"] = review.Request.DesiredAPIVersion
		convertHost(object, strings.HasSuffix(review.Request.DesiredAPIVersion, "/v2"))
		if meta := object["metadata"].(map[string]any); meta["labels"] != nil {
			breakConversion(response, object, fmt.Sprint(meta["labels"].(map[string]any)["break"]))
		}
	}
	if response["convertedObjects"] == nil {
		response["convertedObjects"] = review.Request.Objects
	}
	json.NewEncoder(w).Encode(map[string]any{"kind": "ConversionReview", "apiVersion": review.APIVersion, "response": response})
}

func convertHost(object map[string]any, split bool) {
	spec, _ := object["spec"].(map[string]any)
	if split {
		if host, port, ok := strings.Cut(fmt.Sprint(spec["hostPort"]), ":"); ok {
			maps.Copy(spec, map[string]any{"host": host, "port": port})
		}
		delete(spec, "hostPort")
	} else if spec["host"] != nil {
		spec["hostPort"] = fmt.Sprint(spec["host"], ":", spec["port"])
		delete(spec, "host")
		delete(spec, "port")
	}
}

// breakConversion makes a response invalid in one way.
func breakConversion(response, object map[string]any, way string) {
	meta := object["metadata"].(map[string]any)
	switch way {
	case "refuse":
		response["result"] = map[string]any{"status": "Failure", "message": "no such host"}
	case "silent":
		response["result"] = map[string]any{"status": "Failure"}
	case "few":
		response["convertedObjects"] = []any{}
	case "uid":
		meta["uid"] = "u"
	case "name":
		meta["name"] = "other"
	case "version":
		object["apiVersion"] = "example.com/v3"
	case "kind":
		object["kind"] = "Other"
	case "metadata":
		meta["finalizers"], meta["annotations"] = []any{"example.com/f"}, map[string]any{"a": "b"}
	case "labels":
		meta["labels"] = map[string]any{"a b": "c"}
	case "number":
		meta["labels"] = map[string]any{"a": 1}
	case "unknown":
		object["spec"].(map[string]any)["unknown"] = true
	}
}

const hostDefinition = `{"metadata":{"name":"hosts.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"hosts","kind":"Host"},
	"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v7","REVIEW"],"clientConfig":{"url":"URL"}}},"versions":[
	{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"hostPort":{"type":"string"}}}}}}},
	{"name":"v2","served":true,"storage":false,"selectableFields":[{"jsonPath":".spec.port"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
		"host":{"type":"string"},"port":{"type":"string"}}}}}}}]}}`

// newHosts returns a server with a definition whose objects are converted by a webhook.
func newHosts(t *testing.T, review string) (*Server, *hostConverter) {
	t.Helper()
	s, h := New(Options{}), &hostConverter{}
	url, end := s.HandleReviews(h)
	t.Cleanup(end)
	definition := strings.NewReplacer("URL", url, "REVIEW", review).Replace(hostDefinition)
	if code, text := send(s, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", definition); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	return s, h
}

// send sends a request to a server, and returns its code and its body.
func send(s *Server, method, path, contentType, body string) (int, string) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if contentType == "" {
		contentType = "application/json"
	}
	r.Header.Set("Content-Type", contentType)
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const hostsV1, hostsV2 = "/apis/example.com/v1/namespaces/default/hosts", "/apis/example.com/v2/namespaces/default/hosts"

func host(version, name, label, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Host","metadata":{"name":%q,"labels":{"break":%q}},"spec":%s}`, version, name, label, spec)
}

func TestConversion(t *testing.T) {
	const merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
	for _, review := range []string{"v1", "v1beta1"} {
		t.Run(review, func(t *testing.T) {
			s, h := newHosts(t, review)
			h.server = s // no lock may be held while the webhook is called
			for _, step := range []struct {
				method, path, contentType, body string
				code                            int
				has                             string
			}{
				{"POST", hostsV1, "", host("v1", "a", "", `{"hostPort":"a:1"}`), 201, `"hostPort":"a:1"`},
				{"GET", hostsV2 + "/a", "", "", 200, `"spec":{"host":"a","port":"1"}`},
				{"POST", hostsV2, "", host("v2", "b", "", `{"host":"b","port":"2"}`), 201, `"spec":{"host":"b","port":"2"}`},
				{"GET", hostsV1 + "/b", "", "", 200, `"spec":{"hostPort":"b:2"}`},
				{"PATCH", hostsV2 + "/a", merge, `{"spec":{"port":"3"}}`, 200, `"spec":{"host":"a","port":"3"}`},
				{"GET", hostsV1 + "/a", "", "", 200, `"spec":{"hostPort":"a:3"}`},
				{"PUT", hostsV1 + "/a", "", host("v1", "a", "", `{"hostPort":"a:4"}`), 422, "metadata.resourceVersion"},
				{"PATCH", hostsV2 + "/c?fieldManager=m", apply, host("v2", "c", "", `{"host":"c","port":"5"}`), 201, `"port":"5"`},
				{"PATCH", hostsV2 + "/c?fieldManager=m", apply, host("v2", "c", "", `{"host":"c","port":"6"}`), 200, `"port":"6"`},
				{"GET", hostsV2 + "?fieldSelector=spec.port%3D6", "", "", 200, `"spec":{"host":"c","port":"6"}`},
				{"GET", hostsV2 + "?fieldSelector=spec.port%3D7", "", "", 200, `"items":[]`},
				{"DELETE", hostsV2 + "/c", "", "", 200, "Success"},
			} {
				code, text := send(s, step.method, step.path, step.contentType, step.body)
				if code != step.code || !strings.Contains(text, step.has) {
					t.Errorf("%s %s %s: %d %s, want %d with %s", step.method, step.path, step.body, code, text, step.code, step.has)
				}
			}
			h.sizes = nil
			if code, text := send(s, "GET", hostsV2, "", ""); code != 200 || strings.Count(text, `"host":`) != 2 || !slices.Equal(h.sizes, []int{2}) {
				t.Errorf("a list is answered with %d %s after reviews of %d objects, want one of 2", code, text, h.sizes)
			}
			h.sizes = nil
			if code, text := send(s, "GET", hostsV2+"?limit=1", "", ""); code != 200 || !strings.Contains(text, `"remainingItemCount":1`) || !slices.Equal(h.sizes, []int{1, 1}) {
				t.Errorf("a page is answered with %d %s after reviews of %d objects, want two of 1", code, text, h.sizes)
			}
			h.sizes = nil
			if code, _ := send(s, "GET", hostsV1, "", ""); code != 200 || len(h.sizes) > 0 {
				t.Errorf("a list in the stored version is answered with %d after %d reviews, want none", code, len(h.sizes))
			}
		})
	}
}

func TestConversionFails(t *testing.T) {
	const what = "conversion webhook for example.com/v1, Kind=Host "
	for way, want := range map[string]string{
		"refuse":   what + "failed: no such host",
		"silent":   what + "failed: response.result.status was 'Failure', not 'Success'",
		"few":      what + "returned 0 objects, expected 1",
		"uid":      what + "returned invalid object: must have the same UID: ",
		"name":     what + "returned invalid object: must have the same name: uid != other",
		"version":  what + "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
		"kind":     what + "returned invalid object at index 0: invalid kind (expected Host, received Other)",
		"labels":   what + `returned invalid metadata: metadata.labels: Invalid value: \"a b\": name part must consist of`,
		"number":   what + "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
		"metadata": `"annotations":{"a":"b"}`,
		"unknown":  `"spec":{"host":"a","port":"1"}`,
	} {
		t.Run(way, func(t *testing.T) {
			s, _ := newHosts(t, "v1")
			if code, text := send(s, "POST", hostsV1, "", host("v1", "uid", way, `{"hostPort":"a:1"}`)); code != 201 {
				t.Fatalf("%d %s", code, text)
			}
			code, text := send(s, "GET", hostsV2+"/uid", "", "")
			if wrong := strings.HasPrefix(want, what); (code == 500) != wrong || !strings.Contains(text, want) || strings.Contains(text, "finalizers") {
				t.Errorf("it is answered with %d %s, want %s", code, text, want)
			}
			if code, text := send(s, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hosts.example.com", "", ""); code != 200 {
				t.Errorf("the definition is deleted with %d %s", code, text)
			}
			if code, _ := send(s, "GET", hostsV1, "", ""); code != 404 {
				t.Errorf("the objects are still there: %d", code)
			}
		})
	}
}

// Watches send converted objects, and wait for a webhook that fails.
func TestConversionOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newHosts(t, "v1")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", "http://x"+hostsV2+"?watch=1&labelSelector=break%3Dnever", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&Transport{s}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		lines := bufio.NewReader(answer.Body)
		expect := func(want ...string) {
			t.Helper()
			line, err := lines.ReadString('\n')
			for _, text := range want {
				if err != nil || !strings.Contains(line, text) {
					t.Errorf("the event is %s (%v), want %s", line, err, text)
				}
			}
		}
		send(s, "POST", hostsV1, "", host("v1", "a", "never", `{"hostPort":"a:1"}`))
		expect(`"ADDED"`, `"spec":{"host":"a","port":"1"}`)
		h.broken.Store(true)
		send(s, "PATCH", hostsV1+"/a", "application/merge-patch+json", `{"spec":{"hostPort":"a:2"}}`)
		time.Sleep(10 * conversionRetry)
		h.broken.Store(false)
		expect(`"MODIFIED"`, `"spec":{"host":"a","port":"2"}`)
		send(s, "PATCH", hostsV1+"/a", "application/merge-patch+json", `{"metadata":{"labels":null}}`)
		expect(`"DELETED"`, `"spec":{"host":"a","port":"2"}`)
		cancel()
		io.Copy(io.Discard, lines)
	})
}
