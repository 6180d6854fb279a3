package kopf

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The keys in testdata/keys are one key, encrypted by OpenSSL 3.0 in many ways with the password "secret".

func readKey(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "keys", name+".pem"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecryptKey(t *testing.T) {
	cert := certificateFor(t, readKey(t, "plain"))
	for _, tt := range []struct{ name, password, err string }{
		{"plain", "", ""},
		{"plain", "needless", ""},
		{"aes128-sha1", "secret", ""},
		{"aes192-sha512", "secret", ""},
		{"aes256-sha256", "secret", ""},
		{"aes256-sha384", "secret", ""},
		{"des3", "secret", ""},
		{"one-iteration", "secret", ""},
		{"legacy-aes256", "secret", ""},
		{"legacy-des3", "secret", ""},
		{"aes256-sha256", "wrong", errKeyPassword.Error()},
		{"legacy-aes256", "wrong", errKeyPassword.Error()},
		{"aes256-sha256", "", "the key is encrypted, and no password is given"},
		{"legacy-aes256", "", "the key is encrypted, and no password is given"},
		{"scrypt", "secret", "the encrypted key: the key derivation 1.3.6.1.4.1.11591.4.11 is not supported, only PBKDF2"},
		{"pbes1", "secret", "the encrypted key: the scheme 1.2.840.113549.1.12.1.3 is not supported, only PBES2"},
	} {
		t.Run("AC-46 "+tt.name+" with "+tt.password, func(t *testing.T) {
			got, err := decryptKeyPEM(readKey(t, tt.name), tt.password)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tls.X509KeyPair(cert, got); err != nil { // also if it is another key
				t.Fatal(err)
			}
		})
	}
	t.Run("AC-46 no wrong password is taken for the right one", func(t *testing.T) {
		for i := range 1000 {
			if _, err := decryptKeyPEM(readKey(t, "one-iteration"), fmt.Sprint("wrong ", i)); err != errKeyPassword {
				t.Fatalf("the password %d: %v", i, err)
			}
		}
	})
	t.Run("AC-46 parameters before the key do not matter", func(t *testing.T) {
		parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 1, 1}})
		got, err := decryptKeyPEM(append(parameters, readKey(t, "aes128-sha1")...), "secret")
		if err != nil || !bytes.Equal(got, readKey(t, "plain")) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// certificateFor returns PEM of a certificate of a key, signed by itself.
func certificateFor(t testing.TB, key []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(key)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "a"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.(crypto.Signer).Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestParseEncryptedKey(t *testing.T) {
	block, _ := pem.Decode(readKey(t, "aes256-sha256"))
	change := func(old, young string) []byte { return bytes.Replace(block.Bytes, []byte(old), []byte(young), 1) }
	for _, tt := range []struct {
		name string
		der  []byte
		want string
	}{
		{"nothing", nil, "asn1: syntax error: sequence truncated"},
		{"cut off", block.Bytes[:40], "asn1: syntax error: data truncated"},
		{"something more", append(block.Bytes[:len(block.Bytes):len(block.Bytes)], 0), "there is something after its end"},
		{"negative iterations", change("\x02\x02\x08\x00", "\x02\x02\x88\x00"), "-30720 iterations are not between 1 and 10000000"},
		{"another cipher", change("\x60\x86\x48\x01\x65\x03\x04\x01\x2a", "\x60\x86\x48\x01\x65\x03\x04\x01\x2e"), "the cipher 2.16.840.1.101.3.4.1.46 is not supported, only AES and Triple DES in CBC mode"},
		{"another hash", change("\x2a\x86\x48\x86\xf7\x0d\x02\x09", "\x2a\x86\x48\x86\xf7\x0d\x02\x06"), "the pseudo-random function 1.2.840.113549.2.6 is not supported, only HMAC with SHA-1 and SHA-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseEncryptedKey(tt.der)
			if got := fmt.Sprint(err); tt.want != "" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzEncryptedKey(f *testing.F) {
	for _, name := range []string{"aes128-sha1", "des3", "one-iteration", "scrypt", "pbes1"} {
		block, _ := pem.Decode(readKey(f, name))
		f.Add(block.Bytes)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		key, err := parseEncryptedKey(der)
		if err != nil || key.iterations > 10000 {
			return
		}
		if plain, err := key.decrypt("secret"); err == nil {
			if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
				t.Errorf("what is decrypted is no key: %v", err)
			}
		}
	})
}

func TestHostOfCertificate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cert *x509.Certificate
		want string
	}{
		{"AC-54 no certificate tells nothing", nil, ""},
		{"AC-54 others tell nothing", &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, Issuer: pkix.Name{CommonName: "kubernetes"}}, ""},
		{"AC-54 the name k3s", &x509.Certificate{Subject: pkix.Name{CommonName: "k3s"}}, "host.k3d.internal"},
		{"AC-54 the organization k3s", &x509.Certificate{Subject: pkix.Name{CommonName: "a", Organization: []string{"k3s"}}}, "host.k3d.internal"},
		{"AC-54 an issuer of k3s", &x509.Certificate{Issuer: pkix.Name{CommonName: "k3s-server-ca@1"}}, "host.k3d.internal"},
		{"AC-54 an issuer like k3s", &x509.Certificate{Issuer: pkix.Name{CommonName: "my-k3s-ca"}}, ""},
		{"AC-54 the name minikube", &x509.Certificate{Subject: pkix.Name{CommonName: "minikube"}}, "host.minikube.internal"},
		{"AC-54 the issuer of Minikube", &x509.Certificate{Issuer: pkix.Name{CommonName: "minikubeCA"}}, "host.minikube.internal"},
		{"AC-54 a name of Docker Desktop", &x509.Certificate{DNSNames: []string{"kubernetes", "docker-for-desktop"}}, "host.docker.internal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hostOfCertificate(tt.cert); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// apiServerNamed returns the context of an operator whose API server has a certificate for a name, and says its version, and where its log goes to.
func apiServerNamed(t *testing.T, name, version string, trusted bool) (context.Context, *bytes.Buffer) {
	t.Helper()
	pair, err := newSelfSigned([]string{name, "127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" || r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("an unexpected request: %s, authorization %q", r.URL, r.Header.Get("Authorization"))
		}
		fmt.Fprintf(w, `{"gitVersion":%q}`, version)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*pair}}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)
	info := &ConnectionInfo{Server: server.URL, Token: "token"}
	if trusted {
		info.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw})
	}
	client, err := NewClient(info, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.close)
	log := &bytes.Buffer{}
	handler := slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	return withOperator(t.Context(), client, slog.New(handler)), log
}

// firstAnnounced serves until something is announced.
func firstAnnounced(t *testing.T, ctx context.Context, server AdmissionServer) WebhookClientConfig {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var first WebhookClientConfig
	err := server.Serve(ctx, nil, func(config WebhookClientConfig) {
		first = config
		stop()
	})
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func TestWebhookAutoServer(t *testing.T) {
	for _, tt := range []struct {
		name, certificate, version string
		trusted                    bool
		want, log                  string
	}{
		{"AC-55 the host of the cluster is announced", "minikube", "v1.30.0", true, "host.minikube.internal", "its API server reaches this machine as host.minikube.internal"},
		{"AC-54 the version of k3s is enough", "other", "v1.30.0+k3s1", true, "host.k3d.internal", "its API server reaches this machine as host.k3d.internal"},
		{"AC-55 unknown clusters have a plain server", "other", "v1.30.0", true, "localhost", "level=DEBUG msg=\"The kind of the cluster is not known; running a simple webhook server.\""},
		{"AC-55 wrong certificates have a plain server", "minikube", "v1.30.0", false, "localhost", "level=WARN msg=\"The kind of the cluster cannot be detected.\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, log := apiServerNamed(t, tt.certificate, tt.version, tt.trusted)
			config := firstAnnounced(t, ctx, &WebhookAutoServer{Port: 0})
			if !strings.HasPrefix(config.URL, "https://"+tt.want+":") {
				t.Errorf("the URL is %s, want the host %s", config.URL, tt.want)
			}
			if !strings.Contains(log.String(), tt.log) {
				t.Errorf("the log does not tell %s:\n%s", tt.log, log)
			}
		})
	}
	t.Run("AC-55 an explicit host wins", func(t *testing.T) {
		ctx, _ := apiServerNamed(t, "k3s", "v1.30.0", true)
		if config := firstAnnounced(t, ctx, &WebhookAutoServer{Host: "10.0.0.1"}); !strings.HasPrefix(config.URL, "https://10.0.0.1:") {
			t.Errorf("the URL is %s", config.URL)
		}
	})
	t.Run("AC-55 without an operator there is a plain server", func(t *testing.T) {
		if config := firstAnnounced(t, t.Context(), &WebhookAutoServer{}); !strings.HasPrefix(config.URL, "https://localhost:") {
			t.Errorf("the URL is %s", config.URL)
		}
	})
}

// TestWebhookServerHTTP2 uses the protocol of API servers, which bubbles cannot, with real time.
func TestWebhookServerHTTP2(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	configs, served := make(chan WebhookClientConfig, 1), make(chan error, 1)
	entered := make(chan struct{})
	server := &WebhookServer{Addr: "127.0.0.1", ReadTimeout: 300 * time.Millisecond, MaxBodyBytes: 1000, Logger: slog.New(slog.DiscardHandler)}
	go func() {
		served <- server.Serve(ctx, func(_ context.Context, r *ReviewRequest) ([]byte, error) {
			if r.Handler == "slow" {
				close(entered)
				time.Sleep(time.Second) // longer than a request may take to come
			}
			return r.Body, nil
		}, func(config WebhookClientConfig) { configs <- config })
	}()
	config := next(t, configs)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CABundle)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	send := func(path string, body io.Reader) (int, string) {
		resp, err := (&http.Client{Transport: transport}).Post(config.URL+path, "application/json", body)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.ProtoMajor != 2 {
			t.Errorf("the protocol is %s", resp.Proto)
		}
		return resp.StatusCode, string(text)
	}
	t.Run("AC-12 a body that is too large is refused", func(t *testing.T) {
		if code, _ := send("", strings.NewReader(strings.Repeat("x", 1001))); code != 413 {
			t.Errorf("got %d", code)
		}
	})
	t.Run("AC-41 senders who are too slow are let go", func(t *testing.T) {
		body, rest := io.Pipe()
		defer rest.Close()
		if code, text := send("", body); code != 408 || !strings.Contains(text, "the review has not come within 300ms") {
			t.Errorf("got %d %q", code, text)
		}
	})
	t.Run("AC-41 reviews under way are answered at the end", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if code, text := send("/slow", strings.NewReader("{}")); code != 200 || text != "{}" {
				t.Errorf("got %d %q", code, text)
			}
		}()
		<-entered
		stop()
		<-done
		if err := <-served; err != nil {
			t.Errorf("the server has returned %v", err)
		}
	})
}
