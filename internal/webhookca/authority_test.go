package webhookca

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The contract suites test the lifetimes of authorities in Secrets, with webhook servers and an API server. These tests cover the content only.

func made(t testing.TB, now time.Time) *Authority {
	t.Helper()
	a, err := makeAuthority("hooks", now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func stored(t testing.TB, a *Authority) Data {
	t.Helper()
	data, err := a.Data()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAuthorityRoundTrip(t *testing.T) {
	now := time.Now()
	a := made(t, now)
	rotating, err := a.withNext("hooks", now)
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*Authority{"one": a, "two": rotating, "the former one": rotating.promoted(now)} {
		data := stored(t, a)
		read, err := Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(map[string][]byte(data), map[string][]byte(stored(t, read))); diff != "" {
			t.Errorf("%s: what was read is stored otherwise", name)
		}
	}
	if keys := slices.Sorted(maps.Keys(stored(t, rotating))); !slices.Equal(keys, slices.Sorted(slices.Values(Keys()))) {
		t.Errorf("the keys are %q", keys)
	}
}

func TestAuthorityIsNotPrinted(t *testing.T) {
	a := made(t, time.Now())
	data := stored(t, a)
	secret := strings.Split(string(data[SignerPrivate]), "\n")[1]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{a, data, Secret{Data: data}, &Secret{Data: data}} {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, secret) || strings.Contains(text, "PRIVATE") || strings.Contains(text, "0x") || len(text) > 60 {
				t.Errorf("%s of a %T shows %.100s", verb, value, text)
			}
		}
	}
}

func TestIssue(t *testing.T) {
	now := time.Now()
	a := made(t, now)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Bundle())
	issue := func(at time.Time) *x509.Certificate {
		t.Helper()
		leaf, err := a.Issue([]string{"hooks.ns.svc", "127.0.0.1", strings.Repeat("long.", 20) + "name"}, at)
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Leaf
	}
	leaf := issue(now)
	for _, name := range []string{"hooks.ns.svc", "127.0.0.1", strings.Repeat("long.", 20) + "name"} {
		for _, at := range []time.Time{now.Add(-4 * time.Minute), now, now.Add(29 * 24 * time.Hour)} {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at}); err != nil {
				t.Errorf("%s at %s: %v", name, at.Sub(now), err)
			}
		}
	}
	if leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("the certificate may do too much: %+v", leaf)
	}
	end := a.signer.cert.NotAfter
	if last := issue(end.Add(-time.Hour)); !last.NotAfter.Equal(end) || !a.renewLeafAt(last).IsZero() {
		t.Errorf("the last certificate ends at %s, and the authority at %s", last.NotAfter, end)
	}
	if early := issue(now.Add(-time.Hour)); early.NotBefore.Before(a.signer.cert.NotBefore) { // a late clock
		t.Errorf("a certificate begins %s before its authority", a.signer.cert.NotBefore.Sub(early.NotBefore))
	}
	if at := a.renewLeafAt(leaf); at.Sub(now).Round(time.Hour) != 20*24*time.Hour {
		t.Errorf("it is renewed after %s", at.Sub(now))
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct{ text, namespace, name string }{{"a", "", "a"}, {"ns/a.b", "ns", "a.b"}} {
		namespace, name, err := Split(tt.text)
		if err != nil || namespace != tt.namespace || name != tt.name {
			t.Errorf("%s: got %q, %q, %v", tt.text, namespace, name, err)
		}
	}
	for _, text := range []string{"", "/", "a/", "/a", "a/b/c", "A", "a.b/c", "../a", "a b"} {
		if _, _, err := Split(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func FuzzAuthority(f *testing.F) {
	now := time.Now()
	a := made(f, now)
	rotating, err := a.withNext("hooks", now)
	if err != nil {
		f.Fatal(err)
	}
	for _, a := range []*Authority{a, rotating} {
		data := stored(f, a)
		f.Add(data[BundleKey], data[SignerKey], data[SignerPrivate], data[NextKey], data[NextPrivate])
	}
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("x"), []byte("y"), []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, bundle, signer, private, next, nextPrivate []byte) {
		data := Data{BundleKey: bundle, SignerKey: signer, SignerPrivate: private, NextKey: next, NextPrivate: nextPrivate}
		a, err := Parse(data)
		if err != nil {
			if a == nil && len(private) > 100 && strings.Contains(err.Error(), string(private)) {
				t.Error("the error shows the private key")
			}
			return
		}
		again, err := Parse(stored(t, a))
		if err != nil || string(again.Bundle()) != string(a.Bundle()) {
			t.Errorf("what is stored is read otherwise: %v", err)
		}
	})
}
