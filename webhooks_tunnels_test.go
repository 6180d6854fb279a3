package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The program ngrok of these tests is this test's own binary, with a variable that makes it one: a folder to which it writes what
// it was told, and in which there is a file with what it should do.

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

// fakeNgrok opens no tunnel, but says so. The address has the number of the start in it.
func fakeNgrok(dir string) error {
	if fileExists(filepath.Join(dir, "fail")) {
		return errors.New("authentication failed")
	}
	starts, err := filepath.Glob(filepath.Join(dir, "start-*"))
	if err != nil {
		return err
	}
	args := strings.Join(append(os.Args[1:], "token "+os.Getenv("NGROK_AUTHTOKEN")), "\n")
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("start-", len(starts))), []byte(args), 0o600); err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	polls := 0
	go http.Serve(api, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if polls++; r.URL.Path != "/api/tunnels" || polls == 1 { // it takes a moment
			fmt.Fprint(w, `{"tunnels":[]}`)
			return
		}
		fmt.Fprintf(w, `{"tunnels":[{"public_url":"http://plain.example"},{"public_url":"https://tunnel-%d.example"}]}`, len(starts))
	}))
	fmt.Println("no JSON")
	fmt.Printf("{\"lvl\":\"info\",\"msg\":\"starting web service\",\"obj\":\"web\",\"addr\":%q}\n", api.Addr())
	for {
		select {
		case <-interrupted:
			return os.WriteFile(filepath.Join(dir, "interrupted"), nil, 0o600)
		case <-time.After(20 * time.Millisecond):
		}
		if os.Remove(filepath.Join(dir, "die")) == nil {
			return errors.New("the tunnel is gone")
		}
	}
}

// tunnel runs a tunnel through the fake program. What it announces comes through the channel.
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

// next returns what is announced next.
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

func ngrok(t *testing.T) (binary, dir string) {
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

// startedWith returns what the program was told at one of its starts.
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
		binary, dir := ngrok(t)
		server := &WebhookNgrokTunnel{Path: "/hooks/", Token: "mine", Region: "eu", Binary: binary, Logger: slog.New(slog.DiscardHandler)}
		announced, stop := tunnel(t, t.Context(), server, func(_ context.Context, r *ReviewRequest) ([]byte, error) {
			return []byte(r.Handler), nil
		})
		config := next(t, announced)
		if config.URL != "https://tunnel-0.example/hooks" || config.CABundle != nil || config.Service != nil {
			t.Errorf("announced: %+v", config)
		}
		args := startedWith(t, dir, 0)
		local := args[len(args)-2]
		want := []string{"http", "--log=stdout", "--log-format=json", "--region=eu", local, "token mine"}
		if !slices.Equal(args, want) || !strings.HasPrefix(local, "http://127.0.0.1:") {
			t.Errorf("the program was told %q, want %q", args, want)
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
		if runtime.GOOS != "windows" && !fileExists(filepath.Join(dir, "interrupted")) {
			t.Error("the program has not been asked to end")
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(local, "http://")); err == nil {
			t.Error("the local server still listens")
		}
	})
	t.Run("AC-53 a tunnel that ends is opened again", func(t *testing.T) {
		binary, dir := ngrok(t)
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
		binary, dir := ngrok(t)
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
		binary, _ := ngrok(t)
		ctx, log := apiServerNamed(t, "other", "v1.30.0", true)
		announced, stop := tunnel(t, ctx, &WebhookAutoTunnel{Path: "hooks", Binary: binary}, nil)
		if config := next(t, announced); config.URL != "https://tunnel-0.example/hooks" {
			t.Errorf("announced: %+v", config)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if want := `level=DEBUG msg="The kind of the cluster is not known; using an ngrok tunnel."`; !strings.Contains(log.String(), want) {
			t.Errorf("the log does not tell %s:\n%s", want, log)
		}
	})
}
