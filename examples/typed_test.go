package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// TestTyped checks that an operator whose kind is a struct is one file, and needs no manifests on the embedded server.
func TestTyped(t *testing.T) {
	if testing.Short() {
		t.Skip("links an example")
	}
	t.Run("TD-7 one file", func(t *testing.T) {
		files, err := os.ReadDir("20-typed")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := f.Name(); name != "main.go" && name != "main_test.go" {
				t.Errorf("there is the file %s", name)
			}
		}
	})
	t.Run("TD-28 without --apply", func(t *testing.T) {
		folder, program := t.TempDir(), filepath.Join(t.TempDir(), "operator.exe")
		if out, err := exec.Command("go", "build", "-o", program, "./20-typed").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command(program, "run", "--embedded")
		cmd.Dir = folder
		var stderr strings.Builder // read when the process has ended
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		deadline := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer deadline.Stop()
		handled := handlesWebsite(t, filepath.Join(folder, "kopf.kubeconfig"))
		if cmd.Process.Signal(os.Interrupt) != nil { // Windows has no such signal
			_ = cmd.Process.Kill()
		}
		if err := cmd.Wait(); !handled || err != nil && runtime.GOOS != "windows" {
			t.Errorf("handled: %t, the end: %v\n%s", handled, err, &stderr)
		}
	})
}

// handlesWebsite creates a website as soon as the server runs, and reports whether the operator handles it.
func handlesWebsite(t *testing.T, kubeconfig string) bool {
	for range 600 {
		info, err := kopf.LoginWithKubeconfig(t.Context(), &kopf.Login{Kubeconfig: kubeconfig})
		if err != nil || info == nil { // it is not written yet
			time.Sleep(100 * time.Millisecond) // polls a file of another process
			continue
		}
		client, err := kopf.NewClient(info, nil)
		if err != nil {
			t.Error(err)
			return false
		}
		site := map[string]any{"apiVersion": "example.com/v1", "kind": "Website", "metadata": map[string]any{"name": "a", "namespace": "default"}, "spec": map[string]any{"html": "hello"}}
		if err := client.Create(t.Context(), site, nil); err != nil {
			t.Error(err)
			return false
		}
		_, err = kopf.WaitFor(t.Context(), client, site, "to be handled", func(object *kopf.Body) bool { return object != nil && object.Status().Int("bytes") == 5 })
		if err != nil {
			t.Error(err)
		}
		return err == nil
	}
	return false
}
