package cluster

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"
)

// This file creates the certificate authority of a cluster, the server's certificate, and those of users. Their common name is the user and their
// organizations are the groups.

// Authority signs certificates.
type Authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
}

// Identity is a certificate with its key, both in PEM.
type Identity struct{ Cert, Key []byte }

const validity = 30 * 24 * time.Hour

// NewAuthority creates an authority that no client trusts yet. It returns an error if it cannot create the key or the certificate.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "cluster-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, certPEM: encodePEM("CERTIFICATE", der)}, nil
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() []byte { return bytes.Clone(a.certPEM) }

// Issue creates a certificate for a user, or for a server on loopback, with a validity.
func (a *Authority) Issue(name string, groups []string, server bool, validity time.Duration) (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if server {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Identity{Cert: encodePEM("CERTIFICATE", der), Key: encodePEM("EC PRIVATE KEY", keyDER)}, nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (i *Identity) httpClient(a *Authority) *http.Client {
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		panic(err) // it was just created
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		ForceAttemptHTTP2: true,
	}}
}

func (i *Identity) kubeconfig(server string, a *Authority) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: kopf
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: kopf
  user: {client-certificate-data: %s, client-key-data: %s}
contexts:
- name: kopf
  context: {cluster: kopf, user: kopf, namespace: default}
current-context: kopf
`, server, encode(a.certPEM), encode(i.Cert), encode(i.Key))
}

// NewCA returns the certificate, in PEM, of an unrelated authority.
func NewCA() ([]byte, error) {
	a, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	return a.certPEM, nil
}
