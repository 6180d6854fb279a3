package contract

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves which certificates webhook servers use, which ones they accept, and that no change of certificates makes a review fail.

var _ = Suite("webhook_certificates", func(t *testing.T, c *C) {
	c.Run(t, "AC-46 a given certificate is shown", proveGiven)
	c.Run(t, "AC-46 a ready configuration of TLS is left alone", proveReady)
	c.Run(t, "AC-46 one without certificates gets one", proveUnready)
	c.Run(t, "AC-47 what is to be trusted is what was given, else the certificate", proveTrust)
	c.Run(t, "AC-47 what is to be trusted is written to a file", proveDump)
	c.Run(t, "AC-49 a certificate that signs itself has all names", proveSelfSigned)
	c.Run(t, "AC-49 a certificate that signs itself is replaced in time, and no review fails", proveLife)
	c.Run(t, "AC-50 clients are not asked for certificates", proveUnasked)
	c.Run(t, "AC-50 certificates of clients are verified", provePeers)
	c.Run(t, "AC-50 the authorities of clients can be in files of a folder, which are watched", proveFolder)
	c.Run(t, "AC-51 new files are served in place of the old ones", proveRenewal)
	c.Run(t, "AC-51 what cannot be announced yet is not shown yet", proveLateAnnouncement)
	c.Run(t, "AC-51 files that are missing or broken change nothing", proveBroken)
	c.Run(t, "AC-51 nothing changes without files", proveUnchanged)
	c.Run(t, "AC-44 TLS 1.2 is the least", proveVersions)
})

// Authority is a certificate authority.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	c    *C
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Authority creates an authority. In bubbles, it uses the time of the bubble.
func (c *C) Authority(name string) *Authority {
	c.Helper()
	a := &Authority{c: c}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return a
}

// sign creates a key and a certificate for it, valid for ten years unless the template has other dates.
func (a *Authority) sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.c.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.c.Fatal(err)
	}
	if parent == nil {
		parent, signer = template, key
	}
	template.BasicConstraintsValid = true
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().AddDate(10, 0, 0)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.c.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.c.Fatal(err)
	}
	return cert, key
}

// Issue returns a certificate for a server or a client, and its key, in PEM.
func (a *Authority) Issue(name string, adjust ...func(*x509.Certificate)) (cert, key []byte) {
	a.c.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, f := range adjust {
		f(template)
	}
	leaf, private := a.sign(template, a.cert, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.c.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// pairFiles are the files of a certificate and a key.
type pairFiles struct {
	c         *C
	cert, key string
}

func (c *C) pairFiles() *pairFiles {
	dir := c.TempDir()
	return &pairFiles{c, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
}

func (f *pairFiles) write(cert, key []byte) {
	f.c.Helper()
	f.c.writeFile(f.cert, cert)
	f.c.writeFile(f.key, key)
}

func (c *C) writeFile(path string, data []byte) {
	c.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		c.Fatal(err)
	}
}

// Shown returns the certificate of the server.
func (s *Served) Shown() *x509.Certificate {
	s.c.Helper()
	state, err := s.handshake(&tls.Config{InsecureSkipVerify: true})
	if err != nil {
		s.c.Fatal(err)
	}
	return state.PeerCertificates[0]
}

func (s *Served) handshake(conf *tls.Config) (tls.ConnectionState, error) {
	s.c.Helper()
	conn, err := s.listener.dial(s.c.Context(), "", "")
	if err != nil {
		s.c.Fatal(err)
	}
	client := tls.Client(conn, conf)
	defer client.Close()
	err = client.HandshakeContext(s.c.Context())
	return client.ConnectionState(), err
}

const hooksHost = "hooks.ns.svc"

// certified returns a server with a certificate and a key in files. A function changes it.
func certified(f *pairFiles, change func(*kopf.WebhookServer)) func(s *kopf.WebhookServer) {
	return func(s *kopf.WebhookServer) {
		s.Host, s.CertFile, s.KeyFile = hooksHost, f.cert, f.key
		if change != nil {
			change(s)
		}
	}
}

func proveGiven(c *C) {
	ca, files := c.Authority("CA"), c.pairFiles()
	files.write(ca.Issue(hooksHost))
	s := c.Serves(echo, secureServer(certified(files, func(s *kopf.WebhookServer) { s.CAData = ca.PEM })))
	if got := s.Shown(); got.Issuer.CommonName != "CA" || got.Subject.CommonName != hooksHost {
		c.Errorf("the certificate is %s by %s", got.Subject, got.Issuer)
	}
	if code, text := s.Post("/fn", "{}"); code != 200 || text != "<fn> {}" {
		c.Errorf("got %d %q", code, text)
	}
}

func proveReady(c *C) {
	ca := c.Authority("CA")
	pair, err := tls.X509KeyPair(ca.Issue(hooksHost))
	if err != nil {
		c.Fatal(err)
	}
	for name, conf := range map[string]*tls.Config{
		"certificates": {Certificates: []tls.Certificate{pair}},
		"a function":   {GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }},
		"another function": {GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{pair}}, nil
		}},
	} {
		s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) { s.Host, s.TLSConfig = hooksHost, conf }))
		if s.Last().CABundle != nil {
			c.Errorf("%s: announced: %+v", name, s.Last())
		}
		if code, text, err := post(s.Client(kopf.WebhookClientConfig{CABundle: ca.PEM}), s.Last().URL, "{}"); err != nil || code != 200 {
			c.Errorf("%s: got %d %q %v", name, code, text, err)
		}
		trusting := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) { s.Host, s.TLSConfig, s.CAData = hooksHost, conf, ca.PEM }))
		if code, text := trusting.Post("", "{}"); code != 200 {
			c.Errorf("%s and trust: got %d %q", name, code, text)
		}
	}
}

func proveUnready(c *C) {
	s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) {
		s.TLSConfig, s.CAData = &tls.Config{MinVersion: tls.VersionTLS13}, []byte("ignored")
	}))
	if code, text := s.Post("", "{}"); code != 200 {
		c.Errorf("got %d %q", code, text)
	}
	if _, err := s.handshake(&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		c.Error("the given configuration is not obeyed")
	}
}

func proveTrust(c *C) {
	ca, files := c.Authority("CA"), c.pairFiles()
	cert, key := ca.Issue(hooksHost)
	files.write(cert, key)
	data, file := []byte("data"), filepath.Join(c.TempDir(), "ca.crt")
	c.writeFile(file, []byte("file"))
	for _, tt := range []struct {
		name string
		make func(*kopf.WebhookServer)
		want string
	}{
		{"data", certified(files, func(s *kopf.WebhookServer) { s.CAData, s.CAFile = data, file }), "data"},
		{"file", certified(files, func(s *kopf.WebhookServer) { s.CAFile = file }), "file"},
		{"certificate", certified(files, nil), string(cert)},
		{"plain with data", func(s *kopf.WebhookServer) { s.Insecure, s.CAData = true, data }, "data"},
		{"plain with file", func(s *kopf.WebhookServer) { s.Insecure, s.CAFile = true, file }, "file"},
		{"plain", func(s *kopf.WebhookServer) { s.Insecure = true }, ""},
	} {
		s := c.Serves(echo, secureServer(tt.make))
		if got := string(s.Last().CABundle); got != tt.want {
			c.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func proveDump(c *C) {
	dump := filepath.Join(c.TempDir(), "dump.pem")
	for range 2 { // at each start
		s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) { s.CADump = dump }))
		got, err := os.ReadFile(dump)
		if err != nil || !bytes.Equal(got, s.Last().CABundle) || bytes.Contains(got, []byte("KEY")) {
			c.Errorf("the file is %q, %v; announced was %q", got, err, s.Last().CABundle)
		}
		if err := s.runner.Stop(); err != nil {
			c.Error(err)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(dump)); err != nil || len(entries) != 1 {
		c.Errorf("there are %v, %v", entries, err)
	}
	nowhere := filepath.Join(c.TempDir(), "none", "dump.pem")
	err := (&kopf.WebhookServer{Addr: "127.0.0.1", CADump: nowhere}).Serve(c.Context(), echo, func(kopf.WebhookClientConfig) { c.Error("it is announced") })
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Dir(nowhere)) {
		c.Errorf("a dump in no folder: %v", err)
	}
}

func proveSelfSigned(c *C) {
	for _, tt := range []struct {
		host, addr string
		more       []string
		subject    string
		dns, ips   []string
	}{
		{"", "", nil, "localhost", []string{"localhost"}, nil},
		{hooksHost, "", []string{"10.0.0.1", "other"}, hooksHost, []string{hooksHost, "localhost", "other", "10.0.0.1"}, []string{"10.0.0.1"}},
		{hooksHost, "0.0.0.0", []string{"0.0.0.0", "::", hooksHost}, hooksHost, []string{hooksHost, "127.0.0.1"}, []string{"127.0.0.1"}},
		{"10.0.0.2", "::", []string{"FD00:0:0::1"}, "10.0.0.2", []string{"10.0.0.2", "::1", "fd00::1"}, []string{"10.0.0.2", "::1", "fd00::1"}},
		{"10.0.0.2", "::", []string{"name"}, "name", []string{"name", "10.0.0.2", "::1"}, []string{"10.0.0.2", "::1"}},
	} {
		s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) {
			s.Host, s.Addr, s.ExtraSANs = tt.host, tt.addr, tt.more
			if tt.host == "" && !c.InBubble() {
				s.Host = "localhost" // the listener determines the address
			}
		}))
		cert := s.Shown()
		var ips []string
		for _, ip := range cert.IPAddresses {
			ips = append(ips, ip.String())
		}
		dns := cert.DNSNames
		if !c.InBubble() && tt.addr == "" { // that address again
			dns = slices.DeleteFunc(dns, func(name string) bool { return name == "127.0.0.1" })
			ips = slices.DeleteFunc(ips, func(ip string) bool { return ip == "127.0.0.1" })
			tt.dns = slices.DeleteFunc(tt.dns, func(name string) bool { return name == "localhost" && tt.host != "" })
		}
		want, got := fmt.Sprintf("%s %q %q", tt.subject, tt.dns, tt.ips), fmt.Sprintf("%s %q %q", cert.Subject.CommonName, dns, ips)
		if diff := cmp.Diff(want, got); diff != "" {
			c.Errorf("%q, %q (-want +got):\n%s", tt.host, tt.addr, diff)
		}
		if !cert.IsCA || cert.CheckSignatureFrom(cert) != nil || cert.KeyUsage&x509.KeyUsageCertSign == 0 || cert.KeyUsage&x509.KeyUsageDigitalSignature == 0 ||
			!slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}) {
			c.Errorf("it is good for %b, %v", cert.KeyUsage, cert.ExtKeyUsage)
		}
		if life := time.Until(cert.NotAfter).Round(time.Hour); life != 365*24*time.Hour || time.Since(cert.NotBefore) > time.Hour {
			c.Errorf("it is valid from %s to %s", cert.NotBefore, cert.NotAfter)
		}
	}
}

// proveLife lets API servers use new announcements at once or half a minute later, for two years. It checks more often in the last month of a certificate.
func proveLife(c *C) {
	c.OnlyInBubble("it takes two years")
	s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) { s.Host = hooksHost }))
	began, address := time.Now(), s.Last().URL
	shown := map[string]bool{}
	for time.Since(began) < 2*365*24*time.Hour {
		configs := []kopf.WebhookClientConfig{s.Last(), s.Before(30 * time.Second)}
		for _, config := range configs {
			if code, _, err := post(s.Client(config), config.URL, "{}"); err != nil || code != 200 {
				c.Fatalf("a review failed at %s: %d %v", time.Now(), code, err)
			}
		}
		cert := s.Shown()
		shown[string(cert.Raw)] = true
		left := time.Until(cert.NotAfter) - 30*24*time.Hour
		switch {
		case left < -5*time.Minute:
			c.Fatalf("the certificate is valid for only %s more", time.Until(cert.NotAfter))
		case left > time.Minute:
			c.Pass(min(10*24*time.Hour, left-time.Minute))
		default:
			c.Pass(10 * time.Second)
		}
	}
	if len(shown) != 3 || s.Last().URL != address {
		c.Errorf("there were %d certificates, want 3; the address is %s, and was %s", len(shown), s.Last().URL, address)
	}
	if n := bytes.Count(s.Last().CABundle, []byte("BEGIN CERTIFICATE")); n != 1 {
		c.Errorf("%d certificates are to be trusted, want 1", n)
	}
}

func proveUnasked(c *C) {
	s := c.Serves(echo, secureServer(nil))
	asked := false
	_, err := s.handshake(&tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return &tls.Certificate{}, nil
	}})
	if err != nil || asked {
		c.Errorf("asked: %t, %v", asked, err)
	}
}

func provePeers(c *C) {
	ca, stranger := c.Authority("clients"), c.Authority("clients")
	file := filepath.Join(c.TempDir(), "clients.crt")
	c.writeFile(file, ca.PEM)
	name := func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
		if r.Peer == nil {
			return []byte("nobody"), nil
		}
		return []byte(r.Peer.Subject.CommonName + " by " + r.Peer.Issuer.CommonName), nil
	}
	with := func(a *Authority) func(*tls.Config) {
		pair, err := tls.X509KeyPair(a.Issue("apiserver"))
		if err != nil {
			c.Fatal(err)
		}
		return func(conf *tls.Config) { // even if the server does not request it
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
	}
	without := func(*tls.Config) {}
	for _, tt := range []struct {
		name   string
		server func(*kopf.WebhookServer)
		client func(*tls.Config)
		want   string // empty if the connection fails
	}{
		{"optional, with", func(s *kopf.WebhookServer) { s.VerifyCAFile = file }, with(ca), "apiserver by clients"},
		{"optional by data, with", func(s *kopf.WebhookServer) { s.VerifyCAData = ca.PEM }, with(ca), "apiserver by clients"},
		{"optional, without", func(s *kopf.WebhookServer) { s.VerifyCAFile = file }, without, "nobody"},
		{"optional, with another", func(s *kopf.WebhookServer) { s.VerifyCAFile = file }, with(stranger), ""},
		{"required, with", func(s *kopf.WebhookServer) { s.VerifyCAFile, s.VerifyMode = file, tls.RequireAndVerifyClientCert }, with(ca), "apiserver by clients"},
		{"required, without", func(s *kopf.WebhookServer) { s.VerifyCAFile, s.VerifyMode = file, tls.RequireAndVerifyClientCert }, without, ""},
		{"unverified", func(s *kopf.WebhookServer) { s.VerifyMode = tls.RequestClientCert }, with(stranger), "nobody"},
	} {
		s := c.Serves(name, secureServer(tt.server))
		code, got, err := post(s.Client(s.Last(), tt.client), s.Last().URL, "{}")
		if tt.want == "" && err == nil || tt.want != "" && (err != nil || code != 200) || got != tt.want {
			c.Errorf("%s: got %d %q %v, want %q", tt.name, code, got, err, tt.want)
		}
	}
	err := c.tryServing(echo, secureServer(func(s *kopf.WebhookServer) { s.VerifyCAData = []byte("none") })).runner.Stop()
	if want := "webhook server: there are no certificates of authorities to verify those of clients with"; err == nil || !strings.Contains(err.Error(), want) {
		c.Errorf("without any: got %v, want %s", err, want)
	}
}

func proveFolder(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	first, second, dir := c.Authority("first"), c.Authority("second"), c.TempDir()
	c.writeFile(filepath.Join(dir, "1.pem"), bytes.TrimSpace(first.PEM))
	c.writeFile(filepath.Join(dir, "README"), []byte("about these files"))
	s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) {
		s.VerifyCAPath, s.VerifyMode = dir, tls.RequireAndVerifyClientCert
	}))
	accepted := func(a *Authority) bool {
		pair, err := tls.X509KeyPair(a.Issue("apiserver"))
		if err != nil {
			c.Fatal(err)
		}
		_, _, err = post(s.Client(s.Last(), func(conf *tls.Config) { conf.Certificates = []tls.Certificate{pair} }), s.Last().URL, "{}")
		return err == nil
	}
	if !accepted(first) || accepted(second) {
		c.Error("at first, the first one alone must be accepted")
	}
	bundle := s.Last().CABundle
	c.writeFile(filepath.Join(dir, "2.pem"), second.PEM)
	c.Pass(time.Minute)
	if !accepted(first) || !accepted(second) {
		c.Error("then, both must be accepted")
	}
	if err := os.Remove(filepath.Join(dir, "1.pem")); err != nil {
		c.Fatal(err)
	}
	c.Pass(time.Minute)
	if accepted(first) || !accepted(second) {
		c.Error("in the end, the second one alone must be accepted")
	}
	if !bytes.Equal(bundle, s.Last().CABundle) {
		c.Error("the server has made itself another certificate")
	}
}

func proveRenewal(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	old, young, files := c.Authority("old"), c.Authority("young"), c.pairFiles()
	trusted := filepath.Join(c.TempDir(), "ca.crt")
	dump := filepath.Join(c.TempDir(), "dump.crt")
	files.write(old.Issue(hooksHost))
	c.writeFile(trusted, old.PEM)
	s := c.Serves(echo, secureServer(certified(files, func(s *kopf.WebhookServer) {
		s.CAFile, s.CADump, s.FileCheckInterval = trusted, dump, 20*time.Second
	})))
	expect := func(when, issuer string, announced ...[]byte) {
		c.Helper()
		if got := s.Shown().Issuer.CommonName; got != issuer {
			c.Errorf("%s: the certificate is by %q, want %q", when, got, issuer)
		}
		var got [][]byte
		for _, config := range s.Announced() {
			got = append(got, config.CABundle)
			if config.URL != s.Last().URL {
				c.Errorf("%s: the address changes: %+v", when, config)
			}
		}
		if diff := cmp.Diff(announced, got); diff != "" {
			c.Errorf("%s: announced (-want +got):\n%s", when, diff)
		}
		if data, err := os.ReadFile(dump); err != nil || !bytes.Equal(data, announced[len(announced)-1]) {
			c.Errorf("%s: written is %q, %v", when, data, err)
		}
		if code, text := s.Post("/fn", "{}"); code != 200 {
			c.Errorf("%s: got %d %q", when, code, text)
		}
	}
	expect("at first", "old", old.PEM)
	serial := s.Shown().SerialNumber
	files.write(old.Issue(hooksHost)) // by the same authority
	c.Pass(19 * time.Second)
	expect("before it is looked at", "old", old.PEM)
	c.Pass(2 * time.Second)
	expect("with the same trust", "old", old.PEM, old.PEM)
	if s.Shown().SerialNumber.Cmp(serial) == 0 {
		c.Error("with the same trust: the old certificate is still shown")
	}
	files.write(young.Issue(hooksHost))
	c.writeFile(trusted, young.PEM)
	both := slices.Concat(old.PEM, young.PEM)
	c.Pass(20 * time.Second)
	expect("when it is to be trusted", "old", old.PEM, old.PEM, both)
	c.Pass(58 * time.Second)
	expect("while it becomes trusted", "old", old.PEM, old.PEM, both)
	c.Pass(2 * time.Second)
	expect("once it is trusted", "young", old.PEM, old.PEM, both, both) // other replicas may have the old files
	if lines := s.Logs.Find("Renewed the certificate of the webhook server"); len(lines) != 2 {
		c.Errorf("the log lines are %+v", lines)
	}
	third := c.Authority("third")
	c.writeFile(trusted, third.PEM) // the server reads the files before the others are written
	c.Pass(20 * time.Second)
	expect("with the authority alone", "young", old.PEM, old.PEM, both, both)
	files.write(third.Issue(hooksHost))
	c.Pass(20 * time.Second)
	all, next := slices.Concat(both, third.PEM), slices.Concat(young.PEM, third.PEM)
	expect("with all files", "young", old.PEM, old.PEM, both, both, all)
	c.Pass(time.Minute)
	expect("once that is trusted", "third", old.PEM, old.PEM, both, both, all, next)
	c.Pass(4 * time.Minute)
	expect("while replicas may have the old files", "third", old.PEM, old.PEM, both, both, all, next)
	c.Pass(time.Minute)
	expect("in the end", "third", old.PEM, old.PEM, both, both, all, next, third.PEM)
	c.writeFile(trusted, young.PEM) // and no others, for example behind a proxy
	c.Pass(40 * time.Second)
	expect("with another authority that stays", "third", old.PEM, old.PEM, both, both, all, next, third.PEM, slices.Concat(third.PEM, young.PEM))
}

func proveLateAnnouncement(c *C) {
	c.OnlyInBubble("it takes minutes")
	old, young, files := c.Authority("old"), c.Authority("young"), c.pairFiles()
	files.write(old.Issue(hooksHost))
	s := c.Serves(echo, secureServer(certified(files, nil)))
	s.Delay(10 * time.Minute) // as if the API server was down
	files.write(young.Issue(hooksHost))
	c.Pass(11*time.Minute + 59*time.Second)
	if got := s.Shown().Issuer.CommonName; got != "old" {
		c.Errorf("a moment before a minute after the announcement, the certificate is by %q", got)
	}
	c.Pass(2 * time.Second)
	if got := s.Shown().Issuer.CommonName; got != "young" {
		c.Errorf("a minute after the announcement, the certificate is by %q", got)
	}
	s.Delay(0)
	c.Pass(10 * time.Minute)
}

func proveBroken(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	ca, files := c.Authority("CA"), c.pairFiles()
	cert, key := ca.Issue(hooksHost)
	files.write(cert, key)
	s := c.Serves(echo, secureServer(certified(files, func(s *kopf.WebhookServer) { s.CAData = ca.PEM })))
	other, otherKey := ca.Issue(hooksHost)
	expired, expiredKey := ca.Issue(hooksHost, func(t *x509.Certificate) { t.NotAfter = time.Now().Add(-time.Minute) })
	serial := s.Shown().SerialNumber
	for i, tt := range []struct {
		name string
		do   func()
	}{
		{"missing", func() { _ = os.Remove(files.cert) }},
		{"empty", func() { files.write(cert, nil) }},
		{"cut off", func() { files.write(other[:len(other)/2], otherKey) }},
		{"halves of different pairs", func() { files.write(other, key) }},
		{"expired", func() { files.write(expired, expiredKey) }},
	} {
		tt.do()
		c.Pass(3 * time.Minute)
		if code, text := s.Post("/fn", "{}"); code != 200 || s.Shown().SerialNumber.Cmp(serial) != 0 || len(s.Announced()) != 1 {
			c.Errorf("%s: got %d %q; announced: %+v", tt.name, code, text, s.Announced())
		}
		if lines := s.Logs.Find("Renewing the certificate of the webhook server failed; keeping the old one"); len(lines) != i+1 { // once for each
			c.Errorf("%s: the log lines are %+v", tt.name, lines)
		}
	}
	files.write(other, otherKey)
	c.Pass(time.Minute)
	if s.Shown().SerialNumber.Cmp(serial) == 0 || len(s.Announced()) != 2 {
		c.Error("a good pair after all is not served")
	}
	if code, text := s.Post("/fn", "{}"); code != 200 {
		c.Errorf("got %d %q", code, text)
	}
}

func proveUnchanged(c *C) {
	c.OnlyInBubble("a day must pass")
	files := c.pairFiles()
	files.write(c.Authority("CA").Issue(hooksHost))
	for _, change := range []func(*kopf.WebhookServer){nil, certified(files, nil), func(s *kopf.WebhookServer) { s.Insecure = true }} {
		s := c.Serves(echo, secureServer(change))
		c.Pass(24 * time.Hour)
		if got := len(s.Announced()); got != 1 {
			c.Errorf("there were %d announcements, want 1", got)
		}
	}
	never := c.Serves(echo, secureServer(certified(files, func(s *kopf.WebhookServer) { s.FileCheckInterval = -1 })))
	files.write(c.Authority("CA").Issue(hooksHost))
	c.Pass(time.Hour)
	if got := len(never.Announced()); got != 1 {
		c.Errorf("without looking at the files, there were %d announcements, want 1", got)
	}
}

func proveVersions(c *C) {
	for _, conf := range []*tls.Config{nil, {MinVersion: tls.VersionTLS10}} {
		s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) { s.TLSConfig = conf }))
		for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
			_, err := s.handshake(&tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
			if (err == nil) != want {
				c.Errorf("%s: %v, want it to work: %t", tls.VersionName(version), err, want)
			}
		}
	}
}
