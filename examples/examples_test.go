// Package examples_test tests the examples on the in-memory API server, and limits their length.
package examples_test

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/promises"
)

// TestExamples runs each example on a separate API server.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("links all examples")
	}
	programs := promises.Build(t, "..")
	promises.PlayAll(t, "..", func(t *testing.T) *promises.World {
		server := kopf.NewAPIServer(nil)
		served, err := server.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = served.Close() }) // ignore the error
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		if err := served.WriteKubeconfig(kubeconfig); err != nil {
			t.Fatal(err)
		}
		return promises.NewWorld(t, "..", programs, kubeconfig, server.ConnectionInfo())
	})
}

// TestPromises checks that the promises belong to existing examples.
func TestPromises(t *testing.T) {
	names := strings.Join(promises.Names(t, ".."), " ") + " "
	for name := range promises.All {
		if !strings.Contains(names, name+" ") {
			t.Errorf("there is no example %s", name)
		}
	}
}

// long are the examples that need more than a screen: all the parts of a program, types, and everything.
var long = map[string]bool{"12-embedded": true, "13-hooks": true, "20-typed": true, "99-all-at-once": true}

// TestLessons checks that each example begins with its lesson, in a few sentences, and has a limited length.
func TestLessons(t *testing.T) {
	for _, name := range promises.Names(t, "..") {
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(name, "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			lesson := file.Doc.Text()
			if !strings.HasPrefix(lesson, "Command "+name+" ") {
				t.Errorf("its comment does not begin with its name: %q", lesson)
			}
			if n := strings.Count(strings.ReplaceAll(lesson, "\n", " ")+" ", ". "); n < 1 || n > 3 {
				t.Errorf("its lesson has %d sentences, want 1 to 3: %s", n, lesson)
			}
			lines := strings.Count(string(source), "\n")
			if limit := map[bool]int{false: 60, true: 100}[long[name]]; lines > limit {
				t.Errorf("it has %d lines, want at most %d", lines, limit)
			}
		})
	}
}

// TestEmbedded runs an example with the embedded API server, as in the README, and checks the remaining files.
func TestEmbedded(t *testing.T) {
	if testing.Short() {
		t.Skip("links an example")
	}
	folder := t.TempDir()
	program := filepath.Join(t.TempDir(), "operator.exe") // Windows requires the suffix
	if out, err := exec.Command("go", "build", "-o", program, "./01-minimal").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "run", "--embedded", "--apply", absolute(t, "crd.yaml"), "--apply", absolute(t, "obj.yaml"))
	cmd.Dir = folder
	var stdout, stderr strings.Builder // read when the process has ended
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer deadline.Stop()
	kubeconfig := filepath.Join(folder, "kopf.kubeconfig")
	seen := greeted(t, kubeconfig)
	if cmd.Process.Signal(os.Interrupt) != nil { // Windows has no such signal
		_ = cmd.Process.Kill()
	}
	err := cmd.Wait()
	if !seen {
		t.Errorf("the greeting is not seen:\n%s", &stderr)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err != nil {
		t.Errorf("the end: %v\n%s", err, &stderr)
	}
	if want := "export KUBECONFIG=" + kubeconfig + "\n"; stdout.String() != want {
		t.Errorf("stdout: got %q, want %q", &stdout, want)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("it leaves %v behind", left)
	}
}

// greeted reports whether the object gets its greeting, by the kubeconfig that the operator writes.
func greeted(t *testing.T, kubeconfig string) bool {
	for range 600 {
		info, err := kopf.LoginWithKubeconfig(t.Context(), &kopf.Login{Kubeconfig: kubeconfig})
		if err != nil || info == nil { // it is not written yet
			time.Sleep(100 * time.Millisecond)
			continue
		}
		client, err := kopf.NewClient(info, nil)
		if err != nil {
			t.Error(err)
			return false
		}
		ref := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: "kopf-example-1"}
		_, err = kopf.WaitFor(t.Context(), client, ref, "to be greeted", func(object *kopf.Body) bool {
			return object != nil && object.Status().String("create_fn.message") == "hello world"
		})
		if err != nil {
			t.Error(err)
		}
		return err == nil
	}
	return false
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// TestReadme checks that the README shows the first example unchanged.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("01-minimal/main.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?m)^\s*//.*\n`).ReplaceAllString(string(source), "")
	if !strings.Contains(string(readme), "```go\n"+code+"```") {
		t.Errorf("the README does not show 01-minimal without its comments:\n%s", code)
	}
	for _, file := range regexp.MustCompile(`(?:--apply|go run) (\S+)`).FindAllStringSubmatch(string(readme), -1) {
		if file[1] == "." {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", file[1])); err != nil {
			t.Errorf("a command of the README: %v", err)
		}
	}
}
