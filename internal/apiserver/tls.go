package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// The validity of the certificates of a listener. They are never renewed: they end with the listener.
const (
	certificateLife = 365 * 24 * time.Hour
	clockSkew       = time.Hour // the tolerated delay of clients' clocks
)

// authority is the certificate authority of one listener. Its key is not kept, so that it signs no other certificate.
type authority struct {
	pem  []byte // its certificate, which clients trust
	leaf tls.Certificate
}

// newAuthority creates an authority, and a certificate for the names of this machine, a host, and an address. The server does not send the
// certificate of the authority, because some clients refuse authorities in that place.
func newAuthority(host string, address net.Addr) (*authority, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kopf-ca"}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: keyID(),
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	addNames(leaf, host, address)
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %q: %w", host, err)
	}
	return &authority{
		pem:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		leaf: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

// keyID returns a random identifier of a key. It lets clients distinguish authorities of the same name.
func keyID() []byte {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // which never fails
	return id
}

// addNames adds the host of a listener, and its address: all addresses of this machine, if it listens on all of them.
func addNames(leaf *x509.Certificate, host string, address net.Addr) {
	if host != "" && net.ParseIP(host) == nil {
		leaf.DNSNames = append(leaf.DNSNames, host)
	}
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return
	}
	leaf.IPAddresses = append(leaf.IPAddresses, tcp.IP)
	if tcp.IP.IsUnspecified() {
		all, _ := net.InterfaceAddrs() // without them, there are fewer names
		for _, a := range all {
			if network, ok := a.(*net.IPNet); ok {
				leaf.IPAddresses = append(leaf.IPAddresses, network.IP)
			}
		}
	}
}
