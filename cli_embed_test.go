//go:build !noembed

package kopf

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// embeddedProcess is an operator with --embedded in a separate process.
type embeddedProcess struct {
	*exec.Cmd
	stdout *bufio.Reader
	stderr bytes.Buffer // read after the end of the process
	export string       // its first line
	server string       // its URL
}

// startEmbedded starts an operator in a folder, and returns when its kubeconfig exists.
func startEmbedded(t *testing.T, folder string, args ...string) *embeddedProcess {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &embeddedProcess{Cmd: exec.CommandContext(t.Context(), program, append([]string{"run", "--embedded"}, args...)...)}
	p.Dir, p.Stderr = folder, &p.stderr
	p.Env = append(os.Environ(), "KOPF_TEST_OPERATOR=quick")
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	if p.export, err = p.stdout.ReadString('\n'); err != nil {
		_ = p.Wait()
		t.Fatalf("it has ended: %v\n%s", err, &p.stderr)
	}
	p.export = strings.TrimSuffix(p.export, "\n")
	data, err := os.ReadFile(filepath.Join(folder, "kopf.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), `"server": "`)
	p.server, _, _ = strings.Cut(rest, `"`)
	return p
}

// TestEmbeddedProcess checks the files that --embedded leaves for other processes, and those that it finds.
func TestEmbeddedProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	if testing.Short() {
		t.Skip("runs processes")
	}
	t.Run("the standard output can be evaluated, and the log says what to do", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "it's a $HOME")
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		p := startEmbedded(t, folder, "--apply", absolute(t, "examples/crd.yaml"))
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(p.stdout); err != nil || len(rest) > 0 {
			t.Errorf("after the first line, there is %q (%v)", rest, err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &p.stderr)
		}
		if want := "run the command in another terminal  command="; !strings.Contains(p.stderr.String(), want) || !strings.Contains(p.stderr.String(), p.server) {
			t.Errorf("got the log\n%swant %q and %s in it", &p.stderr, want, p.server)
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip(err)
		}
		got, err := exec.Command(bash, "-c", `eval "$1"; echo "$KUBECONFIG"`, "bash", p.export).Output()
		if want := filepath.Join(folder, "kopf.kubeconfig") + "\n"; err != nil || string(got) != want {
			t.Errorf("%s: got %q (%v), want %q", p.export, got, err, want)
		}
	})
	t.Run("the kubeconfig of a living server is not taken over", func(t *testing.T) {
		folder := t.TempDir()
		first := startEmbedded(t, folder)
		for _, args := range [][]string{nil, {"--listen", strings.TrimPrefix(first.server, "http://")}} {
			second := exec.CommandContext(t.Context(), first.Path, append([]string{"run", "--embedded"}, args...)...)
			second.Dir, second.Env = folder, first.Env
			out, err := second.CombinedOutput()
			want := "kopf.kubeconfig belongs to the embedded server at " + first.server + ", which is running: stop it, or start this one in another folder"
			if code := second.ProcessState.ExitCode(); err == nil || code != 1 || !strings.Contains(string(out), want) {
				t.Errorf("%q: got the exit code %d and %s, want %q", args, code, out, want)
			}
		}
		if data, err := os.ReadFile(filepath.Join(folder, "kopf.kubeconfig")); !strings.Contains(string(data), first.server) {
			t.Errorf("the kubeconfig of the first one has become %q (%v)", data, err)
		}
	})
	t.Run("the kubeconfig of a killed process is taken over, at the same address too", func(t *testing.T) {
		folder := t.TempDir()
		killed := startEmbedded(t, folder)
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = killed.Wait()
		if _, err := os.Stat(filepath.Join(folder, "kopf.kubeconfig")); err != nil {
			t.Errorf("it was not killed as hard as it should: %v", err)
		}
		next := startEmbedded(t, folder, "--listen", strings.TrimPrefix(killed.server, "http://"))
		if next.server != killed.server {
			t.Errorf("got a server at %s, want %s", next.server, killed.server)
		}
		if err := next.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		deadline := time.AfterFunc(time.Minute, func() { _ = next.Process.Kill() })
		defer deadline.Stop()
		if err := next.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &next.stderr)
		}
		if files, _ := os.ReadDir(folder); len(files) > 0 {
			t.Errorf("got left %v", files)
		}
	})
}

// absolute returns the absolute path of a file of this repository.
func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEmbeddedWebhooks(t *testing.T) {
	t.Run("DF-76 the settings of webhooks for a cluster, as the command manifests prints them, work with --embedded", serveEmbeddedWebhooks)
}

func serveEmbeddedWebhooks(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	definition := absolute(t, "examples/crd.yaml")
	t.Chdir(t.TempDir())
	before, logger := DefaultRegistry(), slog.Default()
	defer SetDefaultRegistry(before)
	defer slog.SetDefault(logger)
	r := &Registry{}
	r.OnValidate("kopfexamples", func(context.Context, *Admission) error { return Permanent(errors.New("the webhook was called")) }, &AdmissionOptions{ID: "check"})
	r.Configure(func(s *Settings) {
		s.Admission.Server = &WebhookServer{Port: port, Service: &ServiceReference{Name: "web"}, CertFile: "/certs/tls.crt", KeyFile: "/certs/tls.key"}
		s.Admission.Managed = "web.kopf.dev"
		s.Admission.ShutdownDelay = 0
		s.LeaderElection.Name = "web"
	})
	SetDefaultRegistry(r)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	var log bytes.Buffer
	go func() { ended <- Command(ctx, []string{"run", "--embedded", "--apply", definition}, io.Discard, &log) }()
	var last string
	// The server writes a kubeconfig when it is ready, and then the operator its webhooks.
	for began := time.Now(); !strings.Contains(last, "the webhook was called") && time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		last = createExample()
	}
	stop()
	if code := <-ended; code != 0 || !strings.Contains(last, "the webhook was called") {
		t.Errorf("got the exit code %d, and the answer %q\n%s", code, last, &log)
	}
	if !strings.Contains(log.String(), "Serving webhooks to the embedded API server on this machine") {
		t.Errorf("got the log %s", &log)
	}
}

// createExample creates an object on the server of the kubeconfig in the current folder, and returns the answer.
func createExample() string {
	data, err := os.ReadFile("kopf.kubeconfig")
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(data), `"server": "`)
	server, _, _ := strings.Cut(rest, `"`)
	object := strings.NewReader(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"generateName":"a-"}}`)
	answer, err := http.Post(server+"/apis/kopf.dev/v1/namespaces/default/kopfexamples", "application/json", object)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
