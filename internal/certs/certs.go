// Package certs manages the certificate of a server, and the CA bundle for its clients. The certificate comes from files, which are read again when they
// change, or is self-signed. The package also decrypts private keys.
//
// Everything runs on the goroutine of the server, except lookups by handshakes.
package certs

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/metrics"
)

// The lifetime of self-signed certificates.
const (
	selfSignedLife = 365 * 24 * time.Hour
	renewEarlier   = 30 * 24 * time.Hour // before the expiration
	clockSkew      = 5 * time.Minute     // tolerated delay of API servers' clocks
	longestCheck   = 12 * time.Hour      // between two looks at the clock, which can be set
	retryInterval  = time.Minute         // after a renewal that has failed
)

// Source provides certificates that are signed by a certificate authority shared with other processes.
type Source interface {
	// Certificate returns the certificate to serve now, and the CA bundle in PEM. The bundle changes before the certificates do.
	Certificate(now time.Time) (*tls.Certificate, []byte, error)
	// Changed receives a token when a certificate or a bundle has changed.
	Changed() <-chan struct{}
	// Announced records that a CA bundle has been announced.
	Announced(bundle []byte)
}

// Options describe the certificates of a server. Without files and without certificates in TLSConfig, the source provides the certificate. Without a source,
// the certificate is self-signed. Log is required.
type Options struct {
	CertFile, KeyFile string // certificate and key; both or none
	Password          string // for an encrypted key
	CAFile, CADump    string // CA bundle, and the file to write it to
	CAData            []byte // CA bundle in PEM
	VerifyCAFile      string // CA certificates for client certificates
	VerifyCAPath      string // a folder of such files
	VerifyCAData      []byte // such CA certificates in PEM
	VerifyMode        tls.ClientAuthType
	TLSConfig         *tls.Config   // base configuration
	Insecure          bool          // serve without TLS
	Names             []string      // of a self-signed certificate
	CheckInterval     time.Duration // between two checks of the files; negative for none
	RenewalOverlap    time.Duration // how long the old certificate is served after the new one was announced
	Source            Source        // nil for none
	Log               *slog.Logger
	Meter             *metrics.Metrics // nil for none
}

// MakesOwn reports whether the server needs a certificate and none is given.
func (o *Options) MakesOwn() bool { return !o.Insecure && o.CertFile == "" && !o.ready() }

// Certificates are the certificates of a server, with their renewal.
type Certificates struct {
	Options

	current   *servedIdentity
	next      *servedIdentity // not served yet; nil for none
	switchAt  time.Time       // when next becomes current; zero until clients trust it, and the end of current is unknown
	former    []byte          // bundle before the last switch, which other replicas may need; nil for none
	dropAt    time.Time       // when former is dropped
	own       *tls.Certificate
	complaint string            // last error about the files, logged once
	partial   [sha256.Size]byte // source of an inconsistent set at the last check; zero if it was consistent
	shown     atomic.Pointer[tls.Config]
}

// servedIdentity is a certificate configuration with its CA bundle.
type servedIdentity struct {
	config *tls.Config // nil without TLS
	bundle []byte      // PEM; nil for the API server's default roots
	source [sha256.Size]byte
	begin  time.Time // of the certificate
	end    time.Time // of the certificate; zero if unknown
	fits   bool      // the bundle verifies the certificate
}

// valid reports whether the certificate is valid, as far as known.
func (id *servedIdentity) valid(now time.Time) bool {
	return id.end.IsZero() || !now.Before(id.begin) && now.Before(id.end)
}

// TooEarly reports whether a certificate begins in the future, even for clocks that are a little ahead: the clock was wrong when it was made, or is now.
func TooEarly(cert *x509.Certificate, now time.Time) bool {
	return cert.NotBefore.After(now.Add(clockSkew))
}

// Start loads or creates the first certificate.
func Start(o Options, now time.Time) (*Certificates, error) {
	c := &Certificates{Options: o}
	first, err := c.load(now)
	if err != nil {
		return nil, err
	}
	c.use(first)
	c.warn(first, now)
	return c, c.dump()
}

// warn warns that a certificate to serve is not valid.
func (c *Certificates) warn(id *servedIdentity, now time.Time) {
	if !id.valid(now) {
		c.Log.Warn("The certificate of the webhook server is not valid now; API servers refuse it",
			"notBefore", id.begin, "notAfter", id.end, "now", now, "help", "K1018")
	}
}

func (c *Certificates) use(id *servedIdentity) {
	c.current, c.next = id, nil
	c.shown.Store(id.config)
	c.Meter.SetCertificate(metrics.ForWebhooks, id)
}

// End implements [metrics.Certificate].
func (id *servedIdentity) End() time.Time { return id.end }

// Bundle returns the CA bundle. While a certificate is being replaced, it has both the old and the new one.
func (c *Certificates) Bundle() []byte {
	if c.current.bundle == nil || c.next != nil && c.next.bundle == nil {
		return c.current.bundle
	}
	bundle := join(c.former, c.current.bundle)
	if c.next != nil {
		bundle = join(bundle, c.next.bundle)
	}
	return bundle
}

// Needed returns what clients must trust of the bundle: that of the next certificate, if there is one.
func (c *Certificates) Needed() []byte {
	if c.next != nil {
		return c.next.bundle
	}
	return c.current.bundle
}

// join returns a bundle with the contents of two. The first one may be nil.
func join(first, second []byte) []byte {
	switch {
	case first == nil:
		return second
	case bytes.Contains(first, bytes.TrimSpace(second)):
		return first
	}
	return slices.Concat(bytes.TrimRight(first, "\n"), []byte("\n"), second)
}

// Wait returns the time until the next check.
func (c *Certificates) Wait(now time.Time) time.Duration {
	wait := longestCheck
	if c.CheckInterval > 0 && c.hasFiles() {
		wait = c.CheckInterval
	}
	if c.next != nil && !c.switchAt.IsZero() {
		wait = min(wait, c.switchAt.Sub(now))
	}
	if c.former != nil {
		wait = min(wait, c.dropAt.Sub(now))
	}
	if c.own != nil {
		due := c.own.Leaf.NotAfter.Add(-renewEarlier).Sub(now)
		if c.complaint != "" { // the last attempt has failed
			due = max(due, c.CheckInterval, retryInterval)
		}
		wait = min(wait, due)
	}
	return max(wait, time.Millisecond)
}

// Changed receives a token if a check is due earlier.
func (c *Certificates) Changed() <-chan struct{} {
	if c.Source == nil {
		return nil
	}
	return c.Source.Changed()
}

// Check performs the due checks, and reports whether there is a bundle to announce.
func (c *Certificates) Check(now time.Time) bool {
	switch {
	case c.next != nil && !c.next.valid(now) && c.current.valid(now): // it has expired while it waited
		c.next = nil
	case c.next != nil && !c.switchAt.IsZero() && !now.Before(c.switchAt):
		if c.hasFiles() && c.RenewalOverlap > 0 {
			c.former, c.dropAt = c.current.bundle, now.Add(formerOverlaps*c.RenewalOverlap)
		}
		c.use(c.next)
	case c.former != nil && !now.Before(c.dropAt):
		c.former = nil
	case !c.renew(now):
		return false
	}
	if err := c.dump(); err != nil {
		c.Log.Warn("Writing the CA bundle of the webhooks failed", "error", err, "help", "K1010")
	}
	return true
}

// renew loads a new certificate. It keeps the old one until the new one is complete and its clients trust it.
func (c *Certificates) renew(now time.Time) bool {
	id, err := c.load(now)
	if err == nil && id.source != c.current.source && !id.valid(now) && c.current.valid(now) {
		err = fmt.Errorf("the new certificate has expired at %s", id.end.Format(time.RFC3339))
		if now.Before(id.begin) {
			err = fmt.Errorf("the new certificate is not valid before %s", id.begin.Format(time.RFC3339))
		}
	}
	if err != nil {
		if err.Error() != c.complaint {
			c.Log.Warn("Renewing the certificate of the webhook server failed; keeping the old one", "error", err, "now", now, "help", "K1009")
		}
		c.complaint = err.Error()
		return false
	}
	c.complaint = ""
	switch {
	case c.next != nil && id.source == c.next.source:
		return false
	case id.source == c.current.source:
		changed := c.next != nil
		c.next = nil
		return changed
	}
	if c.current.fits && !id.fits && id.source != c.partial {
		c.partial = id.source // perhaps some files have not been written yet
		return false
	}
	c.partial = [sha256.Size]byte{}
	c.Log.Debug("Renewed the certificate of the webhook server")
	c.warn(id, now)
	if c.Source != nil || !c.current.valid(now) ||
		c.current.bundle == nil || id.bundle == nil || bytes.Equal(id.bundle, c.current.bundle) {
		c.use(id)
		return true
	}
	c.next, c.switchAt = id, c.current.end // until it is announced
	return true
}

// formerOverlaps is how many times the overlap the bundle keeps the former certificates after the new one is
// served. The files of other replicas, such as of Secrets in pods, change up to some minutes later.
const formerOverlaps = 5

// Announced must be called when clients trust the bundle. After the overlap, the new certificate is served.
func (c *Certificates) Announced(bundle []byte, now time.Time) {
	if c.Source != nil {
		c.Source.Announced(bundle)
	}
	c.switchAt = now.Add(max(c.RenewalOverlap, 0))
	if !c.current.valid(c.switchAt) {
		c.switchAt = now
		if c.current.valid(now) {
			c.switchAt = c.current.end
		}
	}
}

// dump writes the CA bundle to a file, atomically.
func (c *Certificates) dump() error {
	if c.CADump == "" || c.Bundle() == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(c.CADump), ".ca-*")
	if err != nil {
		return err
	}
	_, err = f.Write(c.Bundle())
	err = cmp.Or(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.CADump)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error matters
	}
	return err
}

func (c *Certificates) hasFiles() bool {
	return c.CertFile != "" || c.CAFile != "" || c.VerifyCAFile != "" || c.VerifyCAPath != ""
}

// ready reports whether the given TLS configuration has certificates.
func (o *Options) ready() bool {
	t := o.TLSConfig
	return t != nil && o.CertFile == "" && (len(t.Certificates) > 0 || t.GetCertificate != nil || t.GetConfigForClient != nil)
}

// load reads all files, or creates a self-signed certificate, and creates a configuration.
func (c *Certificates) load(now time.Time) (*servedIdentity, error) {
	files, err := c.read()
	if err != nil {
		return nil, err
	}
	id := &servedIdentity{bundle: files.trusted}
	var shown *tls.Certificate
	switch {
	case c.Insecure:
	case c.CertFile != "":
		if shown, err = files.pair(c.Password); err != nil {
			return nil, fmt.Errorf("the certificate in %q with the key in %q: %w", c.CertFile, c.KeyFile, err)
		}
		if id.bundle == nil {
			id.bundle = files.certificate
		}
	case !c.ready() && c.Source != nil:
		if shown, id.bundle, err = c.Source.Certificate(now); err != nil {
			return nil, err
		}
	case !c.ready():
		early := c.own != nil && TooEarly(c.own.Leaf, now)
		if early {
			c.Log.Warn("The clock was set back; replacing the certificate of the webhook server, which is not valid yet",
				"notBefore", c.own.Leaf.NotBefore, "now", now, "help", "K1019")
		}
		if c.own == nil || early || !now.Before(c.own.Leaf.NotAfter.Add(-renewEarlier)) {
			if c.own, err = SelfSigned(c.Names, now); err != nil {
				return nil, err
			}
		}
		shown = c.own
		id.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown.Leaf.Raw})
	}
	sum := sha256.New()
	parts := [][]byte{files.certificate, files.key, id.bundle, files.clients}
	if shown != nil {
		parts = append(parts, shown.Leaf.Raw)
	}
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	id.source = [sha256.Size]byte(sum.Sum(nil))
	if !c.Insecure {
		id.config, err = c.configure(shown, files.clients)
	}
	if shown != nil {
		id.begin, id.end, id.fits = shown.Leaf.NotBefore, shown.Leaf.NotAfter, vouches(id.bundle, shown)
	}
	return id, err
}

// vouches reports whether a CA certificate in a bundle has signed a certificate.
func vouches(bundle []byte, shown *tls.Certificate) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range shown.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := shown.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: shown.Leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// fileContents are the contents of the files at one time.
type fileContents struct {
	certificate, key []byte
	trusted          []byte // CA bundle for the API server
	clients          []byte // CA certificates for client certificates
}

func (c *Certificates) read() (*fileContents, error) {
	files := &fileContents{}
	if len(c.CAData) > 0 {
		files.trusted = c.CAData
	}
	var err error
	for _, f := range []struct {
		path string
		into *[]byte
	}{{c.CertFile, &files.certificate}, {c.KeyFile, &files.key}, {c.CAFile, &files.trusted}, {c.VerifyCAFile, &files.clients}} {
		if f.path == "" || *f.into != nil {
			continue
		}
		if *f.into, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
	}
	files.clients = slices.Concat(files.clients, []byte("\n"), c.VerifyCAData)
	if c.VerifyCAPath != "" {
		more, err := readFolder(c.VerifyCAPath)
		if err != nil {
			return nil, err
		}
		files.clients = slices.Concat(files.clients, []byte("\n"), more)
	}
	return files, nil
}

// readFolder returns the contents of all files in a folder, ordered by name.
func readFolder(path string) ([]byte, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		if stat, err := os.Stat(name); err != nil || !stat.Mode().IsRegular() {
			continue // a folder, or a broken link
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = slices.Concat(all, data, []byte("\n"))
	}
	return all, nil
}

func (f *fileContents) pair(password string) (*tls.Certificate, error) {
	key, err := DecryptKey(f.key, password)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(f.certificate, key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	return &pair, err
}

// configure returns the TLS configuration with a certificate; nil keeps the given certificates.
func (c *Certificates) configure(shown *tls.Certificate, clients []byte) (*tls.Config, error) {
	config := &tls.Config{}
	if c.TLSConfig != nil {
		config = c.TLSConfig.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.SessionTicketsDisabled = true // a resumed session would outlive the CA certificates
	if len(config.NextProtos) == 0 {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	if shown != nil {
		config.Certificates, config.GetCertificate, config.GetConfigForClient = []tls.Certificate{*shown}, nil, nil
	}
	if len(c.VerifyCAFile)+len(c.VerifyCAPath)+len(c.VerifyCAData) > 0 {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(clients) {
			return nil, errors.New("there are no certificates of authorities to verify those of clients with")
		}
		config.ClientAuth = max(config.ClientAuth, tls.VerifyClientCertIfGiven)
	}
	if c.VerifyMode != tls.NoClientCert {
		config.ClientAuth = c.VerifyMode
	}
	return config, nil
}

// ServerConfig returns the configuration for a listener. It always uses the current certificate.
func (c *Certificates) ServerConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config := c.shown.Load()
		if config.GetConfigForClient != nil {
			if theirs, err := config.GetConfigForClient(hello); theirs != nil || err != nil {
				return theirs, err
			}
		}
		return config, nil
	}}
}

// SelfSigned creates a self-signed certificate for names and addresses. The first name is the subject.
func SelfSigned(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(selfSignedLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	SetNames(template, names)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %q: %w", names, err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// SetNames puts names and addresses into a certificate. It adds addresses as names, too, for clients that check only names. It omits unspecified addresses.
func SetNames(cert *x509.Certificate, names []string) {
	var addresses []string
	for _, name := range names {
		plain, _, _ := strings.Cut(strings.Trim(name, "[]"), "%") // a zone is valid on this machine only
		ip := net.ParseIP(plain)
		switch {
		case ip == nil && name != "" && !slices.Contains(cert.DNSNames, name):
			cert.DNSNames = append(cert.DNSNames, name)
		case ip != nil && !ip.IsUnspecified() && !slices.Contains(addresses, ip.String()):
			cert.IPAddresses = append(cert.IPAddresses, ip)
			addresses = append(addresses, ip.String())
		}
	}
	cert.DNSNames = append(cert.DNSNames, addresses...)
	if len(cert.DNSNames) > 0 && len(cert.DNSNames[0]) <= 64 { // limit of common names in RFC 5280
		cert.Subject = pkix.Name{CommonName: cert.DNSNames[0]}
	}
}
