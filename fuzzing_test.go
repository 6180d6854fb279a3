package kopf

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// These targets feed parsers of operators with data of strangers. Other targets are in the test file of their subject. Those of the embedded server are in
// internal/apiserver.

// FuzzRecord reads a foreign record on an object, and stores it again.
func FuzzRecord(f *testing.F) {
	f.Add(`{"started":"2020-12-31T23:59:59.123456+00:00","retries":3,"success":false,"failure":false,"message":"é","subrefs":["a/b","a/b","a"]}`)
	f.Add(`{"retries":9223372036854775807,"delayed":"9999-12-31T23:59:59-23:59","purpose":"create"}`)
	f.Add(`{"started":"0000-01-01T00:00:00+23:59","stopped":null,"unknown":[{}]}`)
	f.Add(`{"retries":-1}`)
	f.Add(`{"retries":10000000000}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		s := &SmartProgressStorage{}
		body, err := NewBody(map[string]any{"kind": "X", "metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/h": text}}})
		if err != nil {
			t.Fatal(err)
		}
		record, err := s.Fetch("h", body)
		if record == nil {
			return
		}
		if err != nil {
			t.Fatalf("%q gives both a record and %v", text, err)
		}
		if record.Retries < 0 || record.Retries+1 < 0 {
			t.Fatalf("%q has %d retries", text, record.Retries)
		}
		patch := &Patch{}
		record.Retries++
		s.Store("h", record, body, patch)
		stored, err := NewBody(rawjson.Merge(body.Map(), any(patch.Map())))
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Fetch("h", stored)
		if err != nil || again == nil {
			t.Fatalf("%q is stored as %v, which cannot be read: %v", text, patch.Map(), err)
		}
		if want := record.members(true).Encoded(); !bytes.Equal(again.members(true).Encoded(), want) {
			t.Errorf("%q is stored as %s, and read as %s", text, want, again.members(true).Encoded())
		}
		if again.changed() {
			t.Errorf("%q is stored and read, and would be stored again", text)
		}
		purge := &Patch{}
		s.Purge("h", stored, purge)
		gone, _ := NewBody(rawjson.Merge(stored.Map(), any(purge.Map())))
		if left, err := s.Fetch("h", gone); left != nil || err != nil {
			t.Errorf("%q is left: %v, %v", text, left, err)
		}
	})
}

// FuzzAnnotationKeys makes keys from the IDs of two handlers.
func FuzzAnnotationKeys(f *testing.F) {
	f.Add("create", "create/spec.field")
	f.Add(strings.Repeat("x", 100)+"/a", strings.Repeat("x", 100)+"/b")
	f.Add("ž<locals>", strings.Repeat("ž", 63))
	f.Fuzz(func(t *testing.T, one, two string) {
		if !utf8.ValidString(one) || !utf8.ValidString(two) {
			t.Skip() // IDs come from Go identifiers and JSON
		}
		a, b := annotationKeys("", one, nil, false), annotationKeys("", two, nil, false)
		for i, keys := range [][]string{a, b} {
			for _, key := range keys {
				name, ok := strings.CutPrefix(key, "kopf.zalando.org/")
				if !ok || utf8.RuneCountInString(name) > markers.MaxNameLength || strings.ContainsAny(name, "/<>") {
					t.Errorf("%q has the key %q", []string{one, two}[i], key)
				}
			}
		}
		if markers.ReplaceUnsafe(one) != markers.ReplaceUnsafe(two) && a[0] == b[0] {
			t.Errorf("%q and %q have the same key %q", one, two, a[0])
		}
	})
}

// FuzzPEM reads certificates and keys in PEM, or in base64 of PEM.
func FuzzPEM(f *testing.F) {
	f.Add([]byte("-----BEGIN X-----\nQUJD\n-----END X-----\n"))
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte("-----BEGIN X-----\nQUJD\n-----END X-----\n"))))
	f.Add([]byte("hunter2hunter2"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := credtransport.PemOf("the key", data)
		if err != nil {
			if len(data) > 8 && !strings.Contains("the key is neither PEM nor base64 of it has no in", string(data)) && strings.Contains(err.Error(), string(data)) {
				t.Errorf("%q is told: %v", data, err)
			}
			return
		}
		if block, _ := pem.Decode(text); block == nil {
			t.Errorf("%q gives %q, which is no PEM", data, text)
		}
		if again, err := credtransport.PemOf("the key", []byte(base64.StdEncoding.EncodeToString(text))); err != nil || !bytes.Equal(again, text) {
			t.Errorf("%q gives %q, and in base64 %q (%v)", data, text, again, err)
		}
		if pair, err := (&credtransport.CertificateSource{CertificateData: data, KeyData: data}).Get(); err == nil && len(pair.Certificate) == 0 {
			t.Errorf("%q gives an empty certificate", data)
		}
	})
}

// FuzzDiscovery reads the discovery documents of a server.
func FuzzDiscovery(f *testing.F) {
	f.Add([]byte(`{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced","verbs":["list"],"subresources":[{"subresource":"status"}]}]}]}]}`))
	f.Add([]byte(`{"kind":"APIGroupList","groups":[{"name":"g","versions":[{"version":"v1"}]}],"resources":[{"name":"a/status"},{"name":"/"},{"name":"a","kind":"A"}]}`))
	f.Add([]byte(`{"kind":"APIVersions","versions":["v1","../..",""],"resources":[{}]}`))
	f.Add([]byte(`{"items":7}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		n := 0
		client, err := NewClient(&ConnectionInfo{Server: "http://x", HTTPClient: &http.Client{Transport: fixedResponse(func(r *http.Request) *http.Response {
			if n++; n > 10_000 {
				t.Fatal("there is no end of requests")
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(doc)), Request: r}
		})}}, &NetworkingSettings{})
		if err != nil {
			t.Fatal(err)
		}
		client.log = slog.New(slog.DiscardHandler)
		defer client.close()
		found, _, err := client.discover(t.Context(), nil)
		if err != nil {
			return
		}
		for _, r := range found {
			if r.Plural == "" || strings.Contains(r.Plural, "/") {
				t.Errorf("%s has the resource %+v", doc, r)
			}
		}
	})
}

// fixedResponse answers requests without a network.
type fixedResponse func(*http.Request) *http.Response

func (f fixedResponse) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return f(r), nil
}

// FuzzView compares the fields of an object with those of the decoded object.
func FuzzView(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1e999999999}}`), "a.b")
	f.Add([]byte(`{"a":["x",1],"a":{"é":"\ud800"}}`), "a.é")
	f.Add([]byte(`{"n":18446744073709551617}`), "n")
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		decoded, err := rawjson.DecodeObject(data)
		v := View{raw: data}
		got, text, _, _, _ := v.Get(FieldPath(path)), v.String(FieldPath(path)), v.Int(FieldPath(path)), v.Float(FieldPath(path)), v.Strings(FieldPath(path))
		if err != nil || !utf8.Valid(data) {
			return
		}
		want, ok := rawjson.Lookup(any(decoded), FieldPath(path).Keys()...)
		if !rawjson.Equal(got, want) || v.Has(FieldPath(path)) != ok {
			t.Errorf("%s has %v at %q, want %v", data, got, path, want)
		}
		if s, isText := want.(string); isText && s != text {
			t.Errorf("%s has %q at %q, want %q", data, text, path, s)
		}
	})
}

// FuzzEndpoint parses the URL of the health endpoint.
func FuzzEndpoint(f *testing.F) {
	f.Add("http://0.0.0.0:8080/healthz")
	f.Add("http://[::1]/%2f?x#y")
	f.Add("http:opaque")
	f.Add("http://]")
	f.Fuzz(func(t *testing.T, endpoint string) {
		address, path, err := httplimit.SplitEndpoint(endpoint)
		if err != nil {
			return
		}
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			t.Errorf("%q is at %q: %v", endpoint, address, err)
		}
		if !strings.HasPrefix(path, "/") {
			t.Errorf("%q has the path %q", endpoint, path)
		}
	})
}
