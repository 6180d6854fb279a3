package apiserver

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// The server handles options, duplicate keys, nulls and scales as a test in e2e found on a real server.
func TestOptions(t *testing.T) {
	const (
		merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
		stems        = "/apis/example.com/v1/namespaces/default/stems"
		configmaps   = "/api/v1/namespaces/default/configmaps"
	)
	s := New(Options{})
	for _, e := range []exchange{
		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", `{"metadata":{"name":"stems.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"stems","kind":"Stem"},"versions":[
			{"name":"v1","served":true,"storage":true,"subresources":{"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
			"n":{"type":"integer"},"color":{"type":"string","default":"red"},"plain":{"type":"string"},"any":{"x-kubernetes-preserve-unknown-fields":true}}}}}}}]}}`, 201, "", ""},
		{"POST", stems, "", `{"apiVersion":"example.com/v1","kind":"Stem","metadata":{"name":"a"},"spec":{"any":null}}`, 201, `"spec":{"color":"red"}`, ""},
		{"PATCH", stems + "/new?fieldManager=m&dryRun=All", apply, `{"apiVersion":"example.com/v1","kind":"Stem","metadata":{"name":"new"},"spec":{"color":null}}`, 201, `"color":"red"`, ""},
		{"PATCH", stems + "/new?fieldManager=m&dryRun=All", apply, `{"apiVersion":"example.com/v1","kind":"Stem","metadata":{"name":"new"},"spec":{"plain":null}}`, 422, "spec.plain in body must be of type string", ""},
		{"PATCH", stems + "/a/scale", merge, `{}`, 400, `the spec replicas field \".spec.n\" cannot be empty`, ""},
		{"PATCH", stems + "/a/scale", merge, `{"spec":{"replicas":null}}`, 200, "Scale", ""},
		{"PATCH", stems + "/a/scale", merge, `{}`, 200, "Scale", ""},
		{"GET", stems + "/a?resourceVersion=9999", "", "", 504, "Too large resource version: 9999, current: ", ""},
		{"GET", stems + "/a?resourceVersion=18446744073709551616", "", "", 500, "value out of range", ""},
		{"GET", stems + "?sendInitialEvents=true", "", "", 422, "sendInitialEvents is forbidden for list", ""},
		{"GET", stems + "?watch=1&resourceVersionMatch=Exact", "", "", 422, "is forbidden for watch unless sendInitialEvents is provided", ""},
		{"GET", stems + "?watch=1&resourceVersion=abc", "", "", 500, "invalid syntax", ""},
		{"DELETE", stems + "/a", "", `{"kind":"Nope"}`, 400, `no kind \"Nope\" is registered for version \"meta.k8s.io/v1\"`, ""},
		{"DELETE", stems + "/a", "", `{"gracePeriodSeconds":"x"}`, 400, "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64", ""},
		{"DELETE", stems + "/a", "", `{"orphanDependents":true,"propagationPolicy":"Orphan"}`, 422, "cannot be both set", ""},
		{"DELETE", stems + "/a?dryRun=X", "", `{"dryRun":["All"]}`, 200, "Success", ""},
		{"DELETE", stems + "/a?dryRun=All", "", `{}`, 200, "Success", ""}, // a body replaces the query
		{"GET", stems + "/a", "", "", 404, "", ""},
		{"POST", stems, "", `{"apiVersion":"example.com/v1","kind":"Stem","metadata":{"name":"b"}}`, 201, "", ""},
		{"POST", stems, "", `{"apiVersion":"example.com/v1","kind":"Stem","metadata":{"name":"c"}}`, 201, "", ""},
		{"DELETE", stems + "?limit=1", "", "", 200, `"remainingItemCount":1`, `"name":"c"`},
		{"GET", stems + "/c", "", "", 200, "", ""},
		{"POST", configmaps + "?fieldValidation=Strict", "", `{"metadata":{"name":"c"},"data":{"n":"1","n":"2"}}`, 400, `strict decoding error: duplicate field \"data.n\"`, ""},
		{"PATCH", configmaps + "/c?fieldManager=m&fieldValidation=Strict", apply, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\"},\n\"data\":{\"n\":\"1\",\n\"n\":\"2\"}}", 400, `line 3: key \"n\" already set in map`, ""},
		{"POST", configmaps + "?fieldValidation=Ignore", "", `{"metadata":{"name":"c"},"data":{"n":"1","n":"2"}}`, 201, `"data":{"n":"2"}`, ""},
	} {
		e.try(t, s)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", stems, strings.NewReader(`{"apiVersion":"example.com/v1","kind":"Stem","metadata":{"name":"d"},"spec":{"n":1,"n":2,"nope":1,"nope":2,"any":[{"q":1,"q":2,"q":3}]}}`)))
	want := []string{`299 - "duplicate field \"spec.n\""`, `299 - "duplicate field \"spec.nope\""`, `299 - "duplicate field \"spec.any[0].q\""`, `299 - "unknown field \"spec.nope\""`}
	if got := w.Header()["Warning"]; w.Code != 201 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d %s with the warnings\n%s\nwant\n%s", w.Code, w.Body, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
