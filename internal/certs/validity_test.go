package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair writes a certificate with its key to a folder, and returns the options with the files.
func writePair(t *testing.T, dir string, from time.Time) Options {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(from.Unix()), NotBefore: from, NotAfter: from.Add(90 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{"hooks.ns.svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CheckInterval: time.Minute, RenewalOverlap: time.Minute}
	for path, block := range map[string]*pem.Block{o.CertFile: {Type: "CERTIFICATE", Bytes: der}, o.KeyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// begin checks the certificates until a time, and returns the beginning of the one that is served then.
func begin(t *testing.T, c *Certificates, from, until time.Time) time.Time {
	t.Helper()
	for at := from; at.Before(until); at = at.Add(c.Wait(at)) {
		if c.Check(at) {
			c.Announced(c.Bundle(), at)
		}
	}
	config, err := c.ServerConfig().GetConfigForClient(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.NotBefore
}

func TestNotYetValid(t *testing.T) {
	now, later := time.Now().Truncate(time.Second), time.Now().Truncate(time.Second).Add(48*time.Hour)
	var log bytes.Buffer
	logged := func(t *testing.T, message string, number int) {
		t.Helper()
		n := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, message) {
				n++
				if strings.Count(line, "T") < 3 || !strings.Contains(line, " now=") { // those of the line, of the certificate, and of the clock
					t.Errorf("got the line %q, want both times", line)
				}
			}
		}
		if n != number {
			t.Errorf("got %d lines %q in %q, want %d", n, message, &log, number)
		}
	}
	start := func(t *testing.T, o Options, at time.Time) *Certificates {
		t.Helper()
		log.Reset()
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		c, err := Start(o, at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("DF-64 files that are not valid yet replace valid ones when they are", func(t *testing.T) {
		dir := t.TempDir()
		c := start(t, writePair(t, dir, now.Add(-time.Hour)), now)
		writePair(t, dir, later)
		if got := begin(t, c, now, now.Add(5*time.Minute)); got.After(now) {
			t.Errorf("the certificate that is served begins at %s, and it is %s", got, now)
		}
		logged(t, "Renewing the certificate of the webhook server failed; keeping the old one", 1)
		if got := begin(t, c, later, later.Add(5*time.Minute)); !got.Equal(later) {
			t.Errorf("the certificate that is served begins at %s, want %s", got, later)
		}
	})
	t.Run("DF-64 files that are not valid yet are served if there are no others, with a line", func(t *testing.T) {
		dir := t.TempDir()
		c := start(t, writePair(t, dir, later), now)
		logged(t, "The certificate of the webhook server is not valid now; API servers refuse it", 1)
		writePair(t, dir, now.Add(-time.Hour))
		if got := begin(t, c, now, now.Add(2*time.Minute)); got.After(now) {
			t.Errorf("the certificate that is served begins at %s, and it is %s", got, now)
		}
	})
	t.Run("DF-64 a self-signed certificate is replaced after the clock was set back", func(t *testing.T) {
		c := start(t, Options{Names: []string{"a"}, RenewalOverlap: time.Minute}, later)
		if got := begin(t, c, now, now.Add(24*time.Hour)); got.After(now.Add(24 * time.Hour)) {
			t.Errorf("a day later, the certificate that is served begins at %s, and it is %s", got, now.Add(24*time.Hour))
		}
		logged(t, "The clock was set back; replacing the certificate of the webhook server, which is not valid yet", 1)
	})
}

// TestNextExpiresWhileItWaits does not announce a certificate before it ends.
func TestNextExpiresWhileItWaits(t *testing.T) {
	now, dir := time.Now().Truncate(time.Second), t.TempDir()
	o := writePair(t, dir, now.Add(-89*24*time.Hour))
	next, _ := os.ReadFile(o.CertFile)
	nextKey, _ := os.ReadFile(o.KeyFile)
	writePair(t, dir, now.Add(-time.Hour))
	o.Log = slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	c, err := Start(o, now)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(o.CertFile, next, 0o600) // valid for a day
	_ = os.WriteFile(o.KeyFile, nextKey, 0o600)
	if !c.Check(now.Add(time.Minute)) {
		t.Fatal("there is nothing to announce")
	}
	for at := now.Add(2 * time.Minute); at.Before(now.Add(25 * time.Hour)); at = at.Add(time.Minute) {
		c.Check(at) // the API server refuses writes for a day
	}
	c.Announced(c.Bundle(), now.Add(25*time.Hour))
	if got := begin(t, c, now.Add(25*time.Hour), now.Add(26*time.Hour)); !got.Equal(now.Add(-time.Hour)) {
		t.Errorf("an expired certificate from %s replaces a valid one", got)
	}
}

// TestWaitAfterFailure removes a file while a self-signed certificate is due.
func TestWaitAfterFailure(t *testing.T) {
	now := time.Now()
	file := t.TempDir() + "/ca.crt"
	data := writePair(t, t.TempDir(), now)
	pem, _ := os.ReadFile(data.CertFile)
	_ = os.WriteFile(file, pem, 0o600)
	c, err := Start(Options{Names: []string{"a"}, VerifyCAFile: file, CheckInterval: time.Minute, RenewalOverlap: time.Minute, Log: slog.New(slog.DiscardHandler)}, now)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(file)
	later := now.Add(336 * 24 * time.Hour)
	c.Check(later)
	if wait := c.Wait(later); wait < time.Second {
		t.Errorf("the next look is after %s", wait)
	}
}
