// Package webhookca holds a certificate authority that several replicas of a program share by a Secret: each of them serves with a certificate
// of its own, and clients trust all of these by one bundle.
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

// The keys of the Secret's data.
const (
	BundleKey     = "ca.crt"     // all authorities to be trusted: the signer, the next one, and former ones until they expire
	SignerKey     = "signer.crt" // the authority that signs
	SignerPrivate = "signer.key"
	NextKey       = "next.crt" // the one that signs next, while clients learn to trust it
	NextPrivate   = "next.key"
)

// Keys returns all of them.
func Keys() []string { return []string{BundleKey, SignerKey, SignerPrivate, NextKey, NextPrivate} }

// The lives of certificates. Authorities and leaves with shorter lives are renewed before the last quarter and the last third of these.
const (
	life        = 365 * 24 * time.Hour
	earlier     = 90 * 24 * time.Hour // a next authority is made so long before the end of the signer: time for an operator that is not running
	leafLife    = 30 * 24 * time.Hour
	leafEarlier = 10 * 24 * time.Hour
	clockSkew   = 5 * time.Minute // by which clocks of other machines may be late
)

// Data is the data of the Secret, with private keys in it.
type Data map[string][]byte

// Format prints no more than that there is something, whatever the verb: there are private keys in it.
func (d Data) Format(f fmt.State, _ rune) { printNumber(f, len(d), "keys of a Secret") }

func printNumber(w io.Writer, n int, of string) {
	_, _ = fmt.Fprintf(w, "{%d %s}", n, of) // a text takes everything
}

// Authority is what is in the Secret. It is never changed: the methods return others.
type Authority struct {
	signer  *issuer
	next    *issuer             // nil while there is none
	trusted []*x509.Certificate // with those of the signer and the next one
}

// Format prints how many certificates are trusted, whatever the verb: there are private keys in it.
func (a *Authority) Format(f fmt.State, _ rune) { printNumber(f, len(a.trusted), "authorities") }

// issuer is a certificate that signs others, and its key.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newIssuer makes one. The time in its name tells people which is which, and its end tells programs.
func newIssuer(name string, now time.Time) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	at := "@" + strconv.FormatInt(now.Unix(), 10) + "-" + strings.ToLower(rand.Text()[:6])
	name = name[:min(len(name), 64-len(at))] // the limit of common names in RFC 5280
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

// makeAuthority makes one with a single certificate, named after the Secret.
func makeAuthority(name string, now time.Time) (*Authority, error) {
	signer, err := newIssuer(name, now)
	if err != nil {
		return nil, err
	}
	return &Authority{signer: signer, trusted: []*x509.Certificate{signer.cert}}, nil
}

// Parse reads the data of a Secret. Errors name the key of the data, and show nothing of what is there.
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

// Data returns what is stored.
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

// Bundle returns PEM of all that is to be trusted.
func (a *Authority) Bundle() []byte {
	var b bytes.Buffer
	for _, cert := range a.trusted {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return b.Bytes()
}

// Issue makes a certificate of a server with names and addresses, and a key that nothing else has. It does not outlive the signer.
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

// renewLeafAt returns when a certificate is to be replaced by a longer one, zero if there can be no longer one.
func (a *Authority) renewLeafAt(leaf *x509.Certificate) time.Time {
	if !leaf.NotAfter.Before(a.signer.cert.NotAfter) {
		return time.Time{}
	}
	return leaf.NotAfter.Add(-min(leafEarlier, leaf.NotAfter.Sub(leaf.NotBefore)/3))
}

// rotateAt returns when a next authority is to be made.
func (i *issuer) rotateAt() time.Time {
	return i.cert.NotAfter.Add(-min(earlier, i.cert.NotAfter.Sub(i.cert.NotBefore)/4))
}

func (i *issuer) expired(now time.Time) bool { return i != nil && expired(i.cert, now) }

func expired(cert *x509.Certificate, now time.Time) bool { return !now.Before(cert.NotAfter) }

// withNext returns one with a next authority, unless there is one, and without those that have expired.
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

// current returns one without what has expired, but with the signer in any case.
func (a *Authority) current(now time.Time) *Authority {
	b := &Authority{signer: a.signer, next: a.next}
	if b.next.expired(now) {
		b.next = nil
	}
	for _, cert := range a.trusted {
		if !expired(cert, now) || cert.Equal(a.signer.cert) {
			b.trusted = append(b.trusted, cert)
		}
	}
	return b
}

// promoted returns one that the next authority signs for. The former one is trusted until it expires.
func (a *Authority) promoted(now time.Time) *Authority {
	return (&Authority{signer: a.next, trusted: a.trusted}).current(now)
}
