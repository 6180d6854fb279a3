package kopf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/certs"
	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/installation"
)

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
			if got := certs.ClusterHost(tt.cert); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// apiServerNamed returns the context of an operator, and its log. The API server has a certificate for the name, and the version.
func apiServerNamed(t *testing.T, name, version string, trusted bool) (context.Context, *bytes.Buffer) {
	t.Helper()
	pair, err := certs.SelfSigned([]string{name, "127.0.0.1"}, time.Now())
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
	return withOperator(t.Context(), client, slog.New(handler), webhookSharing{}), log
}

// firstAnnounced serves until the first announcement.
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

func TestClusterAuto(t *testing.T) {
	for _, tt := range []struct {
		name, certificate, version string
		trusted                    bool
		want, log                  string
	}{
		{"AC-55 the host of the cluster is announced", "minikube", "v1.30.0", true, "host.minikube.internal", `level=DEBUG msg="Detected the kind of the cluster" host=host.minikube.internal`},
		{"AC-54 the version of k3s is enough", "other", "v1.30.0+k3s1", true, "host.k3d.internal", `level=DEBUG msg="Detected the kind of the cluster" host=host.k3d.internal`},
		{"AC-55 unknown clusters have a plain server", "other", "v1.30.0", true, "localhost", `level=DEBUG msg="The kind of the cluster is unknown; running a plain webhook server"`},
		{"AC-55 wrong certificates have a plain server", "minikube", "v1.30.0", false, "localhost", `level=WARN msg="Detecting the kind of the cluster failed"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, log := apiServerNamed(t, tt.certificate, tt.version, tt.trusted)
			config := firstAnnounced(t, ctx, &WebhookServer{Cluster: ClusterAuto})
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
		if config := firstAnnounced(t, ctx, &WebhookServer{Cluster: ClusterAuto, Host: "10.0.0.1"}); !strings.HasPrefix(config.URL, "https://10.0.0.1:") {
			t.Errorf("the URL is %s", config.URL)
		}
	})
	t.Run("AC-55 without an operator there is a plain server", func(t *testing.T) {
		if config := firstAnnounced(t, t.Context(), &WebhookServer{Cluster: ClusterAuto}); !strings.HasPrefix(config.URL, "https://localhost:") {
			t.Errorf("the URL is %s", config.URL)
		}
	})
}

// TestWebhookServerHTTP2 uses HTTP/2, as API servers do.
func TestWebhookServerHTTP2(t *testing.T) {
	if strings.HasPrefix(runtime.Version(), "go1.25") {
		t.Skip("all HTTP/2 servers of Go 1.25 share a pool of channels, also between bubbles: golang/go#75674")
	}
	const limit = 1500 * time.Millisecond // for receiving a request
	type sender func(path string, body io.Reader) (int, string)
	run := func(t *testing.T, test func(t *testing.T, send sender, entered <-chan struct{}, stop func() error)) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := newPipes()
			configs, served := make(chan WebhookClientConfig, 1), make(chan error, 1)
			entered := make(chan struct{})
			server := &WebhookServer{Listener: l, ReadTimeout: limit, MaxBodyBytes: 1000, Logger: slog.New(slog.DiscardHandler)}
			go func() {
				served <- server.Serve(ctx, func(_ context.Context, r *ReviewRequest) ([]byte, error) {
					if r.Handler == "slow" {
						close(entered)
						time.Sleep(limit + time.Second)
					}
					return r.Body, nil
				}, func(config WebhookClientConfig) { configs <- config })
			}()
			config := next(t, configs)
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(config.CABundle)
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }
			defer transport.CloseIdleConnections()
			test(t, func(path string, body io.Reader) (int, string) {
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
			}, entered, func() error {
				cancel()
				return <-served
			})
		})
	}
	t.Run("AC-12 a body that is too large is refused", func(t *testing.T) {
		run(t, func(t *testing.T, send sender, _ <-chan struct{}, stop func() error) {
			if code, _ := send("", strings.NewReader(strings.Repeat("x", 1001))); code != 413 {
				t.Errorf("got %d", code)
			}
			if err := stop(); err != nil {
				t.Errorf("the server has returned %v", err)
			}
		})
	})
	t.Run("AC-41 senders who are too slow are let go", func(t *testing.T) {
		run(t, func(t *testing.T, send sender, _ <-chan struct{}, stop func() error) {
			body, rest := io.Pipe()
			began := time.Now()
			if code, text := send("", body); code != 408 || !strings.Contains(text, "the review has not come within 1.5s") {
				t.Errorf("got %d %q", code, text)
			}
			if took := time.Since(began); took != limit {
				t.Errorf("the answer came after %s, want %s", took, limit)
			}
			_ = rest.Close()
			if err := stop(); err != nil {
				t.Errorf("the server has returned %v", err)
			}
		})
	})
	t.Run("AC-41 reviews under way are answered at the end", func(t *testing.T) {
		run(t, func(t *testing.T, send sender, entered <-chan struct{}, stop func() error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				if code, text := send("/slow", strings.NewReader("{}")); code != 200 || text != "{}" {
					t.Errorf("got %d %q", code, text)
				}
			}()
			<-entered
			if err := stop(); err != nil {
				t.Errorf("the server has returned %v", err)
			}
			<-done
		})
	})
}

// The program ngrok of these tests is the test binary itself, with an environment variable. It names a folder for the program's arguments, which also has a
// file with the requested behavior.

const ngrokVariable = "KOPF_TEST_NGROK"

func init() {
	dir := os.Getenv(ngrokVariable)
	if dir == "" {
		return
	}
	if err := fakeNgrok(dir); err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"lvl": "eror", "msg": "terminating", "err": err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// fakeNgrok opens no tunnel, but reports one. The address contains the number of the start.
func fakeNgrok(dir string) error {
	if credtransport.FileExists(filepath.Join(dir, "fail")) {
		return errors.New("authentication failed")
	}
	starts, err := filepath.Glob(filepath.Join(dir, "start-*"))
	if err != nil {
		return err
	}
	told := strings.Join(append(os.Args[1:], "token "+os.Getenv("NGROK_AUTHTOKEN")), "\n")
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("start-", len(starts))), []byte(told), 0o600); err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt)
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	polls := 0
	go http.Serve(api, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if polls++; r.URL.Path != "/api/tunnels" || polls == 1 { // the first poll finds none
			fmt.Fprint(w, `{"tunnels":[]}`)
			return
		}
		fmt.Fprintf(w, `{"tunnels":[{"public_url":"http://plain.example"},{"public_url":"https://tunnel-%d.example"}]}`, len(starts))
	}))
	fmt.Println("no JSON")
	fmt.Printf("{\"lvl\":\"info\",\"msg\":\"starting web service\",\"obj\":\"web\",\"addr\":%q}\n", api.Addr())
	for {
		select {
		case <-asked:
			return os.WriteFile(filepath.Join(dir, "interrupted"), nil, 0o600)
		case <-time.After(20 * time.Millisecond):
		}
		if os.Remove(filepath.Join(dir, "die")) == nil {
			return errors.New("the tunnel is gone")
		}
	}
}

// tunnel runs a tunnel with the fake program. Its announcements arrive through the channel.
func tunnel(t *testing.T, ctx context.Context, server AdmissionServer, review ReviewFunc) (announced <-chan WebhookClientConfig, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	configs, served := make(chan WebhookClientConfig, 10), make(chan error, 1)
	go func() {
		served <- server.Serve(ctx, review, func(config WebhookClientConfig) { configs <- config })
		close(configs)
	}()
	return configs, func() error {
		cancel()
		return <-served
	}
}

// next returns the next announcement.
func next(t *testing.T, announced <-chan WebhookClientConfig) WebhookClientConfig {
	t.Helper()
	select {
	case config := <-announced:
		return config
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is announced")
		return WebhookClientConfig{}
	}
}

func ngrokProgram(t *testing.T) (binary, dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs processes")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	t.Setenv(ngrokVariable, dir)
	return binary, dir
}

// startedWith returns the arguments of one of the program's starts.
func startedWith(t *testing.T, dir string, n int) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("start-", n)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

func TestWebhookNgrokTunnel(t *testing.T) {
	t.Run("AC-53 the public address leads to the local server", func(t *testing.T) {
		binary, dir := ngrokProgram(t)
		server := &WebhookNgrokTunnel{Path: "/hooks/", Token: "mine", Region: "eu", Binary: binary, Logger: slog.New(slog.DiscardHandler)}
		announced, stop := tunnel(t, t.Context(), server, func(_ context.Context, r *ReviewRequest) ([]byte, error) {
			return []byte(r.Handler), nil
		})
		config := next(t, announced)
		if config.URL != "https://tunnel-0.example/hooks" || config.CABundle != nil || config.Service != nil {
			t.Errorf("announced: %+v", config)
		}
		told := startedWith(t, dir, 0)
		local := told[len(told)-2]
		want := []string{"http", "--log=stdout", "--log-format=json", "--region=eu", local, "token mine"}
		if !slices.Equal(told, want) || !strings.HasPrefix(local, "http://127.0.0.1:") {
			t.Errorf("the program was told %q, want %q", told, want)
		}
		resp, err := http.Post(local+"/hooks/fn", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || string(text) != "fn" {
			t.Errorf("got %d %q", resp.StatusCode, text)
		}
		if err := stop(); err != nil {
			t.Errorf("the server has returned %v", err)
		}
		if runtime.GOOS != "windows" && !credtransport.FileExists(filepath.Join(dir, "interrupted")) {
			t.Error("the program has not been asked to end")
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(local, "http://")); err == nil {
			t.Error("the local server still listens")
		}
	})
	t.Run("AC-53 a tunnel that ends is opened again", func(t *testing.T) {
		binary, dir := ngrokProgram(t)
		announced, stop := tunnel(t, t.Context(), &WebhookNgrokTunnel{Binary: binary, Logger: slog.New(slog.DiscardHandler)}, nil)
		for n := range 2 {
			if config := next(t, announced); config.URL != fmt.Sprintf("https://tunnel-%d.example", n) {
				t.Errorf("announced: %+v", config)
			}
			if n == 0 {
				if err := os.WriteFile(filepath.Join(dir, "die"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if first, second := startedWith(t, dir, 0), startedWith(t, dir, 1); !slices.Equal(first, second) {
			t.Errorf("the program was told %q, then %q", first, second)
		}
		if err := stop(); err != nil {
			t.Errorf("the server has returned %v", err)
		}
	})
	t.Run("AC-53 a program that fails ends the server with its words", func(t *testing.T) {
		binary, dir := ngrokProgram(t)
		if err := os.WriteFile(filepath.Join(dir, "fail"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := (&WebhookNgrokTunnel{Binary: binary}).Serve(t.Context(), nil, func(WebhookClientConfig) { t.Error("something is announced") })
		if want := "ngrok has ended: authentication failed"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("AC-53 a program that is not there ends the server", func(t *testing.T) {
		err := (&WebhookNgrokTunnel{Binary: filepath.Join(t.TempDir(), "ngrok")}).Serve(t.Context(), nil, nil)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWebhookAutoTunnel(t *testing.T) {
	t.Run("AC-55 no tunnel is used where the host is known", func(t *testing.T) {
		ctx, _ := apiServerNamed(t, "k3s", "v1.30.0", true)
		config := firstAnnounced(t, ctx, &WebhookAutoTunnel{Path: "hooks", Binary: "none"})
		if !strings.HasPrefix(config.URL, "https://host.k3d.internal:") || !strings.HasSuffix(config.URL, "/hooks") || config.CABundle == nil {
			t.Errorf("announced: %+v", config)
		}
	})
	t.Run("AC-55 a tunnel is used where it is not", func(t *testing.T) {
		binary, _ := ngrokProgram(t)
		ctx, log := apiServerNamed(t, "other", "v1.30.0", true)
		announced, stop := tunnel(t, ctx, &WebhookAutoTunnel{Path: "hooks", Binary: binary}, nil)
		if config := next(t, announced); config.URL != "https://tunnel-0.example/hooks" {
			t.Errorf("announced: %+v", config)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if want := `level=DEBUG msg="The kind of the cluster is unknown; using an ngrok tunnel"`; !strings.Contains(log.String(), want) {
			t.Errorf("the log does not tell %s:\n%s", want, log)
		}
	})
}

// TestOwnAdmissionServers proves that kopf keeps a server that embeds one of kopf, also a nil one, and replaces only its own.
func TestOwnAdmissionServers(t *testing.T) {
	type audited struct{ *WebhookServer }
	inCluster := &WebhookServer{Port: 9443, Service: &ServiceReference{Name: "x", Namespace: "y"}, AuthoritySecret: "z"}
	localServer, auditedServer, unset := &WebhookServer{Port: 8443}, &audited{inCluster}, &audited{}
	for name, one := range map[string]struct {
		server AdmissionServer
		want   AdmissionServer // nil for another one
		port   int
	}{
		"kopf's":              {server: inCluster, port: 9443},
		"kopf's, local":       {server: localServer, want: localServer, port: 8443},
		"a nil one":           {server: (*WebhookServer)(nil), want: (*WebhookServer)(nil)},
		"embedding":           {server: auditedServer, want: auditedServer, port: 9443},
		"embedding a nil one": {server: unset, want: unset},
	} {
		settings := NewSettings()
		settings.Admission.Server = one.server
		model := &installation.Model{
			Webhooks: &installation.Webhooks{Port: one.port, Configuration: settings.Admission.Managed},
		}
		if one.port == 9443 {
			model.Name = "x"
		}
		if !settings.Admission.fits(model) {
			t.Errorf("%s: does not fit the manifests", name)
		}
		if _, secret, err := settings.Admission.authority(); secret != "" != (one.port == 9443) || err != nil {
			t.Errorf("%s: got the Secret %q, %v", name, secret, err)
		}
		r := &run{Operator: Operator{Settings: settings, Logger: slog.New(slog.DiscardHandler), local: true}}
		r.serveLocally()
		if got := settings.Admission.Server; one.want != nil && got != one.want || one.want == nil && got == one.server {
			t.Errorf("%s: got the server %+v", name, got)
		}
	}
}
