package e2e

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/promises"
)

// The examples as they are deployed: static binaries that run as separate processes with the real API server, and are killed and restarted.

var binaries struct {
	mu   sync.Mutex
	dir  string
	done map[string]error
}

// example builds an example as documented, once for all tests, and returns its path.
func example(t *testing.T, name string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "kopf-examples-")
		if err != nil {
			t.Fatal(err)
		}
		binaries.dir, binaries.done = dir, map[string]error{}
	}
	path := filepath.Join(binaries.dir, name)
	if _, ok := binaries.done[name]; !ok {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "./examples/"+name)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			binaries.done[name] = fmt.Errorf("%w\n%s", err, out)
		} else {
			binaries.done[name] = nil
		}
	}
	if err := binaries.done[name]; err != nil {
		t.Fatalf("building %s: %v", name, err)
	}
	return path
}

// operator is a process.
type operator struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  promises.Buffer
	done chan struct{}
}

// start starts a command with only the given environment, and kills it at the end of the test.
func start(t *testing.T, cmd *exec.Cmd, env ...string) *operator {
	t.Helper()
	op := &operator{t: t, cmd: cmd, done: make(chan struct{})}
	if env == nil {
		env = []string{}
	}
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &op.log, &op.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its result is in its state
		close(op.done)
	}()
	t.Cleanup(func() {
		op.kill()
		if t.Failed() {
			t.Logf("the log of the operator:\n%s", op.log.String())
		}
	})
	return op
}

// startExample runs an example as the administrator of a cluster.
func startExample(t *testing.T, c *cluster.Cluster, name string, args ...string) *operator {
	t.Helper()
	return start(t, exec.Command(example(t, name), append([]string{"run"}, args...)...), "KUBECONFIG="+c.Kubeconfig())
}

func (op *operator) kill() {
	_ = op.cmd.Process.Kill() // it may have ended
	<-op.done
}

// stop interrupts the operator, and checks that it ends soon and without an error.
func (op *operator) stop() {
	op.t.Helper()
	if err := op.cmd.Process.Signal(os.Interrupt); err != nil {
		op.t.Fatal(err)
	}
	if code := op.wait(20 * time.Second); code != 0 {
		op.t.Errorf("the operator has ended with the code %d", code)
	}
}

// wait returns the exit code.
func (op *operator) wait(patience time.Duration) int {
	op.t.Helper()
	select {
	case <-op.done:
		return op.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		op.t.Fatalf("the operator still runs after %s", patience)
		return 0
	}
}

func (op *operator) waitForLog(text string) {
	op.t.Helper()
	eventually(op.t, "a log line with "+text, func() bool { return strings.Contains(op.log.String(), text) })
}

const exampleObject = `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": %q}, "spec": {"duration": "1m", "field": "value", "items": ["item1"]}}`

// exampleCluster returns a cluster with the kind of the examples.
func exampleCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := ownCluster(t, nil)
	c.Kubectl(t, "apply", "-f", "../examples/crd.yaml")
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/kopfexamples.kopf.dev")
	return c
}

func status(t *testing.T, c *cluster.Cluster, name, path string) string {
	t.Helper()
	return c.Kubectl(t, "get", "kopfexample", name, "-o", "jsonpath={"+path+"}")
}

func TestOperator(t *testing.T) {
	t.Parallel()
	c := exampleCluster(t)

	t.Run("applied, changed, deleted", func(t *testing.T) {
		c.Kubectl(t, "apply", "-f", "../examples/obj.yaml")
		op := startExample(t, c, "01-minimal")
		eventually(t, "the greeting", func() bool { return status(t, c, "kopf-example-1", ".status.create_fn.message") == "hello world" })
		if table := c.Kubectl(t, "get", "kopfexamples"); !strings.Contains(table, "hello world") {
			t.Errorf("kubectl shows no greeting:\n%s", table)
		}
		c.Kubectl(t, "patch", "kopfexample", "kopf-example-1", "--type=merge", `--patch={"spec": {"duration": "2m"}}`)
		c.Kubectl(t, "delete", "kopfexample", "kopf-example-1", "--timeout=30s")
		op.stop()
	})

	t.Run("killed between attempts", func(t *testing.T) {
		c.KubectlInput(t, fmt.Sprintf(exampleObject, "killed"), "apply", "-f", "-")
		first := startExample(t, c, "03-exceptions")
		first.waitForLog("this is not the time yet")
		eventually(t, "the record of an attempt", func() bool {
			return strings.Contains(status(t, c, "killed", `.metadata.annotations`), "retries")
		})
		first.kill()
		second := startExample(t, c, "03-exceptions")
		eventually(t, "the end of all handlers", func() bool {
			notes := status(t, c, "killed", `.metadata.annotations`)
			return strings.Contains(notes, "last-handled-configuration") && !strings.Contains(notes, "kopf.zalando.org/waiting")
		})
		second.stop()
		all := first.log.String() + second.log.String()
		if n := strings.Count(all, "the object makes no sense"); n != 1 {
			t.Errorf("the hopeless handler was called %d times", n)
		}
		if n := strings.Count(second.log.String(), "this is not the time yet"); n != 0 {
			t.Errorf("the waiting handler has begun again after the crash")
		}
	})

	t.Run("the API server restarts", func(t *testing.T) {
		op := startExample(t, c, "01-minimal")
		c.KubectlInput(t, fmt.Sprintf(exampleObject, "before"), "apply", "-f", "-")
		eventually(t, "the greeting", func() bool { return status(t, c, "before", ".status.create_fn.message") != "" })
		if err := c.Restart(t.Context(), cluster.APIServer); err != nil {
			t.Fatal(err)
		}
		c.KubectlInput(t, fmt.Sprintf(exampleObject, "after"), "apply", "-f", "-")
		eventually(t, "the next greeting", func() bool { return status(t, c, "after", ".status.create_fn.message") != "" })
		op.stop()
		if n := strings.Count(op.log.String(), "[default/before] Here is a new object"); n != 1 {
			t.Errorf("the object of before was handled %d times", n)
		}
	})

	t.Run("etcd is killed", func(t *testing.T) {
		op := startExample(t, c, "01-minimal")
		op.waitForLog("")
		c.Kill(cluster.Etcd)
		if err := c.Launch(t.Context(), cluster.Etcd); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the API server to work again", func() bool {
			_, err := c.TryKubectl(fmt.Sprintf(exampleObject, "revived"), "apply", "-f", "-")
			return err == nil
		})
		eventually(t, "the greeting", func() bool { return status(t, c, "revived", ".status.create_fn.message") != "" })
		op.stop()
	})

	t.Run("in an empty root folder", func(t *testing.T) {
		cmd := inEmptyRoot(t, example(t, "01-minimal"), c.Kubeconfig())
		c.KubectlInput(t, fmt.Sprintf(exampleObject, "rooted"), "apply", "-f", "-")
		op := start(t, cmd, "KUBECONFIG=/kubeconfig")
		eventually(t, "the greeting", func() bool { return status(t, c, "rooted", ".status.create_fn.message") != "" })
		op.stop()
	})
}

// TestTrouble checks the error of an operator that cannot start, or cannot work: the reason, in one line.
func TestTrouble(t *testing.T) {
	t.Parallel()
	c := exampleCluster(t)
	ctx := t.Context()
	nobody, err := c.NewUser(ctx, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	closed := closedPort(t)
	other := ownAuthority(t)
	tests := []struct {
		name   string
		config string // the kubeconfig; none if empty
		args   []string
		words  []string // in one line of the log
		ends   bool     // whether it exits, with a code
	}{
		{"no login", "", nil, []string{"no login", "KUBECONFIG", "serviceaccount"}, true},
		{"refused connection", kubeconfig("https://"+closed, "insecure-skip-tls-verify: true", "x"), nil, []string{"connection refused", closed}, false},
		{"wrong authority", kubeconfig(c.URL(), "certificate-authority-data: "+other, "x"), nil, []string{"certificate signed by unknown authority"}, true},
		{"refused token", kubeconfig(c.URL(), "insecure-skip-tls-verify: true", "wrong"), nil, []string{"401", "nauthorized"}, false},
		{"no right to list", string(mustRead(t, nobody.Kubeconfig)), nil, []string{"403", `cannot list resource \"kopfexamples\"`}, false},
		{"contradicting options", string(admin), []string{"--all-namespaces", "--namespace=x"}, []string{"--all-namespaces", "exclude each other"}, true},
		{"unknown option", string(admin), []string{"--nonsense"}, []string{"--nonsense"}, true},
		{"unknown context", string(admin), []string{"--context=none"}, []string{`"none"`}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if test.config != "" {
				path := filepath.Join(t.TempDir(), "config")
				if err := os.WriteFile(path, []byte(test.config), 0o600); err != nil {
					t.Fatal(err)
				}
				env = []string{"KUBECONFIG=" + path}
			}
			op := start(t, exec.Command(example(t, "01-minimal"), append([]string{"run"}, test.args...)...), env...)
			if test.ends {
				if code := op.wait(30 * time.Second); code == 0 {
					t.Errorf("the exit code is 0")
				}
			}
			told := func() bool { return lineWith(op.log.String(), test.words...) }
			if test.ends && !told() {
				t.Errorf("no line has all of %q", test.words)
			} else if !test.ends {
				eventually(t, fmt.Sprintf("a line with all of %q", test.words), told)
			}
		})
	}
	t.Run("unknown resource", func(t *testing.T) {
		c.Kubectl(t, "delete", "crd", "kopfexamples.kopf.dev")
		op := startExample(t, c, "01-minimal")
		eventually(t, "a line about the resource", func() bool { return lineWith(op.log.String(), "kopfexamples", "WARN") })
		c.Kubectl(t, "apply", "-f", "../examples/crd.yaml")
		c.Kubectl(t, "wait", "--for=condition=Established", "crd/kopfexamples.kopf.dev")
		eventually(t, "an object can be made", func() bool {
			_, err := c.TryKubectl(fmt.Sprintf(exampleObject, "late"), "apply", "-f", "-")
			return err == nil
		})
		eventually(t, "the greeting", func() bool { return status(t, c, "late", ".status.create_fn.message") != "" })
		op.stop()
	})
}

func lineWith(log string, words ...string) bool {
	for line := range strings.Lines(log) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return true
		}
	}
	return false
}

func kubeconfig(server, trust, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: %q, %s}}]
users: [{name: a, user: {token: %q}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`, server, trust, token)
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// closedPort returns an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// ownAuthority returns a certificate, in base64 of PEM, that has signed nothing.
func ownAuthority(t *testing.T) string {
	t.Helper()
	ca, err := cluster.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(ca)
}

// TestBinary measures the smallest example, including all of kopf, as it is built for a release: without cgo, symbols and debugging information.
func TestBinary(t *testing.T) {
	path := example(t, "01-minimal")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 14_000_000 // bytes, with the embedded server
	t.Logf("the smallest example has %d bytes", info.Size())
	if info.Size() >= limit {
		t.Errorf("the smallest example has %d bytes, want less than %d", info.Size(), limit)
	}
	// The binary contains the names of functions for stack traces.
	for name, want := range map[string]bool{"kopf.(*Operator).": true, "kopf.(*WebhookServer).": false, "kopf.(*WebhookNgrokTunnel).": false} {
		if got := bytes.Contains(mustRead(t, path), []byte(name)); got != want {
			t.Errorf("the functions of %s are in it: %t, want %t", name, got, want)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP || program.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is not static: it has %s", program.Type)
		}
	}
}

func TestModules(t *testing.T) {
	cmd := exec.Command("go", "list", "-m", "all")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	if len(got) != 3 || got[0] != "github.com/kopf-go/kopf" || got[1] != "github.com/google/go-cmp" {
		t.Errorf("the module depends on more than go-cmp:\n%s", out)
	}
	cmd = exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	cmd.Dir = ".."
	if out, err = cmd.Output(); err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if path != "github.com/kopf-go/kopf" && !strings.HasPrefix(path, "github.com/kopf-go/kopf/internal/") {
			t.Errorf("the package imports more than the standard library: %s", path)
		}
	}
}

// TestClusterRestarts checks an assumption of the tests: a killed server restarts with its data.
func TestClusterRestarts(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, nil)
	c.Kubectl(t, "create", "configmap", "kept", "--from-literal=a=b")
	c.Kill(cluster.APIServer)
	if _, err := c.Request(t.Context(), http.MethodGet, "/readyz", nil); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a killed API server answers: %v", err)
	}
	if err := c.Launch(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if got := c.Kubectl(t, "get", "configmap", "kept", "-o", "jsonpath={.data.a}"); got != "b" {
		t.Errorf("got %q, want %q", got, "b")
	}
}
