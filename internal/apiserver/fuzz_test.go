package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/protobuf"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/selector"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// These targets fuzz the embedded API server.

const fuzzedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"plural":"things","singular":"thing","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
"additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.n"},{"name":"L","type":"date","jsonPath":".spec.l[?(@.a==\"b\")].c"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":1},"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],
"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"c":{"type":"string","format":"date-time"}}}}}},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// FuzzRequest sends arbitrary requests to the embedded server. It answers with a status and, except for some pages, with JSON, and keeps serving.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ method, target, media, accept, body string }{
		{"GET", "/api/v1/namespaces/default/pods?labelSelector=a%3Db,c+in+(d)&fieldSelector=metadata.name%3Da&limit=1", "", "", ""},
		{"GET", "/api/v1/pods?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1", "", "", ""},
		{"GET", "/apis/example.com/v1/things", "", "application/json;as=Table;g=meta.k8s.io;v=v1", ""},
		{"POST", "/apis/example.com/v1/namespaces/default/things?fieldValidation=Strict", "application/json", "", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"generateName":"b"},"spec":{"n":1}}`},
		{"PATCH", "/apis/example.com/v1/namespaces/default/things/a/status", "application/merge-patch+json", "", `{"status":{"n":null}}`},
		{"PATCH", "/apis/example.com/v1/namespaces/default/things/a?fieldManager=m&force=true", "application/apply-patch+yaml", "", "apiVersion: example.com/v1\nkind: Thing\nspec: {l: [{a: b}]}\n"},
		{"PATCH", "/apis/example.com/v1/namespaces/default/things/a", "application/json-patch+json", "", `[{"op":"move","from":"/spec","path":"/spec/n"},{"op":"add","path":"/spec/l/-","value":1}]`},
		{"PATCH", "/api/v1/namespaces/default", "application/strategic-merge-patch+json", "", `{"metadata":{"$retainKeys":["x"],"labels":{"$patch":"replace"}}}`},
		{"PUT", "/apis/example.com/v1/namespaces/default/things/a/scale", "application/json", "", `{"kind":"Scale","spec":{"replicas":-1}}`},
		{"POST", "/api/v1/namespaces", "application/vnd.kubernetes.protobuf", "", "k8s\x00\n\x0f\n\x02v1\x12\tNamespace"},
		{"DELETE", "/api/v1/namespaces/default/pods/a?propagationPolicy=x", "application/json", "", `{"gracePeriodSeconds":-1,"preconditions":{"uid":1}}`},
		{"DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com", "", "", ""},
		{"PUT", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com", "application/json", "", strings.Replace(fuzzedDefinition, ".spec.n\"}", ".spec.l[-9223372036854775808]\"}", 1)},
		{"GET", "/api/v1/namespaces/default/pods?continue=1.~&pretty=1", "", "", ""},
		{"GET", "/openapi/v3/apis/example.com/v1", "", "", ""},
		{"GET", "//api//v1/../%2e%2e/%00?a=%zz", "", "text/html;;", ""},
	} {
		f.Add(seed.method, seed.target, seed.media, seed.accept, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, method, target, media, accept string, body []byte) {
		u, err := url.Parse(target)
		if err != nil || method == "" {
			t.Skip()
		}
		s := fuzzedServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		if watch := u.Query().Get("watch"); watch == "1" || watch == "true" {
			cancel() // it would never end
		}
		defer cancel()
		w := httptest.NewRecorder()
		r := (&http.Request{Method: method, URL: u, Host: "x", Header: http.Header{"Content-Type": {media}, "Accept": {accept}, "User-Agent": {"fuzz/1"}}, Body: io.NopCloser(bytes.NewReader(body))}).WithContext(ctx)
		if media == "" {
			r.Header.Del("Content-Type")
		}
		s.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 {
			t.Fatalf("%s %q is answered with %d", method, target, w.Code)
		}
		if kind := w.Header().Get("Content-Type"); kind == "application/json" {
			for line := range bytes.Lines(w.Body.Bytes()) {
				if u.Query().Get("watch") != "" && !json.Valid(line) {
					t.Errorf("%s %q sends the line %q", method, target, line)
				}
			}
			if u.Query().Get("watch") == "" && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s %q is answered with %d %q", method, target, w.Code, w.Body)
			}
		}
		if status := (struct {
			Kind, Message string
			Code          int
		}{}); w.Code >= 400 && json.Unmarshal(w.Body.Bytes(), &status) == nil && status.Kind == "Status" && (status.Code != w.Code || status.Message == "") {
			t.Errorf("%s %q is answered with %d %s", method, target, w.Code, w.Body)
		}
		if w.Code == 500 {
			t.Errorf("%s %q fails: %s", method, target, w.Body)
		}
		afterwards := []string{"/api/v1/namespaces", "/apis/example.com/v1/things"}
		if strings.Contains(target, "customresourcedefinitions") {
			afterwards = append(afterwards, "/apis", "/openapi/v2")
		}
		for _, after := range afterwards {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", after, nil))
			if w.Code != 200 && w.Code != 404 || w.Code == 200 && !json.Valid(w.Body.Bytes()) {
				t.Errorf("after %s %q, %s gives %d %s", method, target, after, w.Code, w.Body)
			}
		}
	})
}

func fuzzedServer(t *testing.T) *Server {
	s := New(Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Apply([]byte(fuzzedDefinition + "\n---\n" + `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"l":[{"a":"b","c":"2020-01-01T00:00:00Z"}]}}`)); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDepth gives every parser of nested text more levels than a stack would hold.
func TestDepth(t *testing.T) {
	const depth = 100_000
	for name, text := range map[string]string{
		"lists": strings.Repeat("[", depth) + strings.Repeat("]", depth), "objects": strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		"open lists": strings.Repeat("[", depth), "open objects": strings.Repeat(`{"a":`, depth), "texts": strings.Repeat(`"\`, depth),
	} {
		for parser, parse := range map[string]func() error{
			"protobuf": func() error {
				_, err := protobuf.Decode(append([]byte("k8s\x00"), bytes.Repeat([]byte{0x0a, 0xff, 0xff, 0x03}, depth)...))
				return err
			},
			"label selectors": func() error { _, err := selector.ParseLabels(text); return errors.Join(err, rawjson.ErrMalformed) },
			"patterns": func() error {
				_, err := schema.Compile(map[string]any{"pattern": strings.NewReplacer("[", "(", "]", ")", "{", "(", "}", ")*").Replace(text)})
				return errors.Join(err, rawjson.ErrMalformed)
			},
			"paths": func() error { _ = unstructured.JSONPath(map[string]any{}, text); return rawjson.ErrMalformed },
		} {
			if err := parse(); err == nil {
				t.Errorf("%s takes %s nested %d times", parser, name, depth)
			}
		}
	}
}
