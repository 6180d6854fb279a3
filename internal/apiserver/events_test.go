package apiserver

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// TestEventTables prints an event of events.k8s.io in tables of both groups.
func TestEventTables(t *testing.T) {
	s := New(Options{})
	send := func(method, path, body string) map[string]any {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		object, err := rawjson.DecodeObject(w.Body.Bytes())
		if err != nil || w.Code >= 400 {
			t.Fatalf("%s %s is answered with %d %s", method, path, w.Code, w.Body)
		}
		return object
	}
	const newEvents, core = "/apis/events.k8s.io/v1/namespaces/default/events", "/api/v1/namespaces/default/events"
	send("POST", newEvents, `{"metadata":{"name":"e","namespace":"default"},"regarding":{"kind":"Pod","name":"p","namespace":"default"},"reason":"R","note":"some note","type":"Normal","action":"A",
		"reportingController":"example.com/c","reportingInstance":"i","eventTime":"2026-01-02T03:04:05.000006Z"}`)
	rowOf := func(table map[string]any) map[string]any {
		rows, _ := table["rows"].([]any)
		if len(rows) != 1 {
			t.Fatalf("there are %d rows", len(rows))
		}
		return rawjson.AsMap(rows[0])
	}
	want, got := rowOf(send("GET", core, "")), rowOf(send("GET", newEvents, ""))
	if diff := cmp.Diff(want["cells"], got["cells"]); diff != "" {
		t.Errorf("the cells (-core +events.k8s.io):\n%s", diff)
	}
	if text := strings.Join(texts(got["cells"]), "|"); !strings.Contains(text, "pod/p") || !strings.Contains(text, "some note") {
		t.Errorf("the cells are %s", text)
	}
	for path, field := range map[string]string{newEvents + "/e": "note", core + "/e": "message"} {
		object := rawjson.AsMap(rowOf(send("GET", path+"?includeObject=Object", ""))["object"])
		if object[field] != "some note" {
			t.Errorf("the object in the table of %s has no %s: %v", path, field, object)
		}
	}
}

// texts returns the strings in a list.
func texts(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}
