package apiserver

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/protobuf"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/selector"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestServedNames(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:8001": true, "localhost": true, "LocalHost.:1": true, "a.localhost:1": true, "[::1]:1": true, "[::1]": true, "10.0.0.1": true, "": true,
		"example.com": false, "example.com:8001": false, "127.0.0.1.example.com": false, "localhost.example.com:1": false, "xlocalhost": false,
	} {
		if got := isLocalName(host); got != want {
			t.Errorf("%q is local: %t, want %t", host, got, want)
		}
	}
	for address, names := range map[string][]string{"127.0.0.1:0": {"example.com"}, "0.0.0.0:0": nil} {
		var log bytes.Buffer
		served, err := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(served.URL, "http://"))
		for _, name := range []string{"localhost", "example.com"} {
			req, _ := http.NewRequest("GET", "http://127.0.0.1:"+port+"/version", nil)
			req.Host = name
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			refused := len(names) > 0 && names[0] == name
			if (resp.StatusCode == 403) != refused {
				t.Errorf("on %s, a request to %s gives %d", address, name, resp.StatusCode)
			}
		}
		if warned := strings.Contains(log.String(), "can be reached from other machines"); warned != (names == nil) {
			t.Errorf("on %s, there is a warning: %t", address, warned)
		}
		_ = served.Close()
	}
}

func TestBadAnswer(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"a Status", `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"because"}`, "because"},
		{"no Status", `{"kind":"AdmissionReview","message":"because"}`, "the server could not find the requested resource"},
		{"no JSON", "because", "the server could not find the requested resource"},
	} {
		if got := badAnswer(404, []byte(tt.body)); got.Error() != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestDepth gives everything that reads nested text more of it than any stack would hold.
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
