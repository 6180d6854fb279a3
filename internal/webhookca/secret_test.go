package webhookca

import (
	"strings"
	"testing"
)

func TestSecret(t *testing.T) {
	data := Data{BundleKey: []byte("a"), "other": []byte("b")}
	const want = `{"apiVersion":"v1","data":{"ca.crt":"YQ==","other":"Yg=="},"kind":"Secret","metadata":{"name":"s","namespace":"ns"},"type":"Opaque"}`
	raw, err := data.Secret("ns", "s")
	if err != nil || string(raw) != want {
		t.Errorf("got  %s, %v\nwant %s", raw, err, want)
	}
	if s, err := ParseSecret("7", raw); err != nil || s.Version != "7" || string(s.Data[BundleKey]) != "a" || len(s.Data) != 2 {
		t.Errorf("read as version %q with %d keys, %v", s.Version, len(s.Data), err)
	}
	const patch = `{"data":{"ca.crt":"YQ==","next.crt":null,"next.key":null,"signer.crt":null,"signer.key":null},"metadata":{"resourceVersion":"7"}}`
	if raw, err := data.Patch("7"); err != nil || string(raw) != patch {
		t.Errorf("got  %s, %v\nwant %s", raw, err, patch)
	}
	if _, err := ParseSecret("7", []byte(`{"data":{"signer.key":"secret!"}}`)); err == nil || strings.Contains(err.Error(), "secret!") {
		t.Errorf("got %v", err)
	}
}
