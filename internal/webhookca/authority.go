// Package webhookca manages a certificate authority that the replicas of a program share in a Secret. Each replica serves with its own certificate, and one CA
// bundle verifies them all.
package webhookca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/certs"
)

// The keys in the data of the Secret.
const (
	BundleKey     = "ca.crt"     // all trusted CA certificates: the signer, the next one, and former ones until they expire
	SignerKey     = "signer.crt" // CA certificate that signs
	SignerPrivate = "signer.key"
	NextKey       = "next.crt" // CA certificate that signs next, when clients trust it
	NextPrivate   = "next.key"
)

// Keys returns all keys.
func Keys() []string { return []string{BundleKey, SignerKey, SignerPrivate, NextKey, NextPrivate} }

// The lifetimes of certificates. Shorter ones are renewed before the last quarter of the lifetime for CA certificates, and the last third for leaf
// certificates.
const (
	life        = 365 * 24 * time.Hour
	earlier     = 90 * 24 * time.Hour // the next CA certificate is created this long before the signer expires, which leaves time for a stopped operator
	leafLife    = 30 * 24 * time.Hour
	leafEarlier = 10 * 24 * time.Hour
	clockSkew   = 5 * time.Minute // tolerated delay of other machines' clocks
)

// Data is the data of the Secret, including private keys.
type Data map[string][]byte

// Format prints only the number of keys, for each verb, to conceal the private keys.
func (d Data) Format(f fmt.State, _ rune) { printNumber(f, len(d), "keys of a Secret") }

func printNumber(w io.Writer, n int, of string) {
	_, _ = fmt.Fprintf(w, "{%d %s}", n, of) // the writer does not fail
}

// Authority is the content of the Secret. It is immutable: the methods return new ones.
type Authority struct {
	signer  *issuer
	next    *issuer             // nil if there is none
	trusted []*x509.Certificate // including the signer and the next one
}

// Format prints only the number of trusted certificates, for each verb, to conceal the private keys.
func (a *Authority) Format(f fmt.State, _ rune) { printNumber(f, len(a.trusted), "authorities") }

// issuer is a CA certificate with its key.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newIssuer creates an issuer. The time in its name is for people, and its expiration for programs.
func newIssuer(name string, now time.Time) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	at := "@" + strconv.FormatInt(now.Unix(), 10) + "-" + strings.ToLower(rand.Text()[:6])
	name = name[:min(len(name), 64-len(at))] // limit of common names in RFC 5280
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name + at},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &issuer{cert, key}, err
}

// makeAuthority creates an authority with one certificate, named after the Secret.
func makeAuthority(name string, now time.Time) (*Authority, error) {
	signer, err := newIssuer(name, now)
	if err != nil {
		return nil, err
	}
	return &Authority{signer: signer, trusted: []*x509.Certificate{signer.cert}}, nil
}

// Parse parses the data of a Secret. Errors name the key of the data, but never show its content.
func Parse(data Data) (*Authority, error) {
	a := &Authority{}
	var err error
	if a.trusted, err = parseBundle(data[BundleKey]); err != nil {
		return nil, fmt.Errorf("the key %q: %w", BundleKey, err)
	}
	if a.signer, err = a.parseIssuer(data, SignerKey, SignerPrivate); err != nil {
		return nil, err
	}
	if len(data[NextKey])+len(data[NextPrivate]) > 0 {
		a.next, err = a.parseIssuer(data, NextKey, NextPrivate)
	}
	return a, err
}

var errMissing = errors.New("it is missing or empty")

func parseBundle(data []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := bytes.TrimSpace(data); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("it is not PEM of certificates")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return nil, err
		case !cert.IsCA:
			return nil, errors.New("there is a certificate in it that is not of an authority")
		case !slices.ContainsFunc(all, cert.Equal):
			all = append(all, cert)
		}
	}
	if all == nil {
		return nil, errMissing
	}
	return all, nil
}

func (a *Authority) parseIssuer(data Data, certKey, privateKey string) (*issuer, error) {
	for _, key := range []string{certKey, privateKey} {
		if len(bytes.TrimSpace(data[key])) == 0 {
			return nil, fmt.Errorf("the key %q: %w", key, errMissing)
		}
	}
	found, err := parseBundle(data[certKey])
	switch {
	case err != nil:
		return nil, fmt.Errorf("the key %q: %w", certKey, err)
	case len(found) != 1:
		return nil, fmt.Errorf("the key %q: it has %d certificates, want one", certKey, len(found))
	case found[0].KeyUsage != 0 && found[0].KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, fmt.Errorf("the key %q: the certificate may not sign others", certKey)
	case !slices.ContainsFunc(a.trusted, found[0].Equal):
		return nil, fmt.Errorf("the key %q: the certificate is not among those of %q", certKey, BundleKey)
	}
	pair, err := tls.X509KeyPair(data[certKey], data[privateKey])
	if err != nil {
		return nil, fmt.Errorf("the key %q: it is no private key of the certificate in %q: %w", privateKey, certKey, err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key %q: its private key cannot sign", privateKey)
	}
	return &issuer{found[0], signer}, nil
}

// Data returns the data for the Secret.
func (a *Authority) Data() (Data, error) {
	data := Data{BundleKey: a.Bundle()}
	err := a.signer.store(data, SignerKey, SignerPrivate)
	if err == nil && a.next != nil {
		err = a.next.store(data, NextKey, NextPrivate)
	}
	return data, err
}

func (i *issuer) store(data Data, certKey, privateKey string) error {
	der, err := x509.MarshalPKCS8PrivateKey(i.key)
	if err != nil {
		return err
	}
	data[certKey] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw})
	data[privateKey] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return nil
}

// Bundle returns the CA bundle in PEM.
func (a *Authority) Bundle() []byte {
	var b bytes.Buffer
	for _, cert := range a.trusted {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return b.Bytes()
}

// Issue issues a server certificate for names and addresses, with a new key. It expires no later than the signer.
func (a *Authority) Issue(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(leafLife),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if signer := a.signer.cert; template.NotAfter.After(signer.NotAfter) {
		template.NotAfter = signer.NotAfter
	}
	if signer := a.signer.cert; template.NotBefore.Before(signer.NotBefore) {
		template.NotBefore = signer.NotBefore
	}
	certs.SetNames(template, names)
	der, err := x509.CreateCertificate(rand.Reader, template, a.signer.cert, key.Public(), a.signer.key)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %q: %w", names, err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// renewLeafAt returns the renewal time of a certificate, or zero if a new one could not last longer.
func (a *Authority) renewLeafAt(leaf *x509.Certificate) time.Time {
	if !leaf.NotAfter.Before(a.signer.cert.NotAfter) {
		return time.Time{}
	}
	return leaf.NotAfter.Add(-min(leafEarlier, leaf.NotAfter.Sub(leaf.NotBefore)/3))
}

// rotateAt returns when the next CA certificate is created.
func (i *issuer) rotateAt() time.Time {
	return i.cert.NotAfter.Add(-min(earlier, i.cert.NotAfter.Sub(i.cert.NotBefore)/4))
}

func (i *issuer) invalid(now time.Time) bool { return i != nil && invalid(i.cert, now) }

// invalid reports whether a certificate has expired, or was made by a machine whose clock was wrong.
func invalid(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotAfter) || certs.TooEarly(cert, now)
}

// withNext returns an authority with a next CA certificate, unless there is one, and without invalid ones.
func (a *Authority) withNext(name string, now time.Time) (*Authority, error) {
	b := a.current(now)
	if b.next != nil {
		return b, nil
	}
	next, err := newIssuer(name, now)
	if err != nil {
		return nil, err
	}
	b.next, b.trusted = next, append(b.trusted, next.cert)
	return b, nil
}

// current returns the authority without invalid certificates, except the signer.
func (a *Authority) current(now time.Time) *Authority {
	b := &Authority{signer: a.signer, next: a.next}
	if b.next.invalid(now) {
		b.next = nil
	}
	for _, cert := range a.trusted {
		if !invalid(cert, now) || cert.Equal(a.signer.cert) {
			b.trusted = append(b.trusted, cert)
		}
	}
	return b
}

// promoted returns the authority with the next CA certificate as the signer. The former signer stays trusted until it expires.
func (a *Authority) promoted(now time.Time) *Authority {
	return (&Authority{signer: a.next, trusted: a.trusted}).current(now)
}
