package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/manifest"
)

// stale is the kubeconfig of a server that does not run.
const stale = `{"apiVersion":"v1","clusters":[{"cluster":{"server":"http://127.0.0.1:1"},"name":"kopf"}],"current-context": "kopf"}`

// start starts a server in a folder.
func start(t *testing.T, folder string) (*Server, error) {
	t.Helper()
	t.Chdir(folder)
	return Start(DefaultAddress, nil, nil)
}

func TestKubeconfigFile(t *testing.T) {
	t.Run("DF-20 a link is not followed", func(t *testing.T) {
		dir := t.TempDir()
		target, path := filepath.Join(dir, "target"), filepath.Join(dir, KubeconfigName)
		writeFile(t, target, stale)
		if err := os.Symlink(target, path); err != nil {
			t.Skip(err)
		}
		if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "in the way") {
			t.Errorf("got %v, want the link to be in the way", err)
		}
		listener, err := apiserver.New(apiserver.Options{}).Listen(DefaultAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if err := listener.WriteKubeconfig(path); err != nil {
			t.Error(err)
		}
		if data, _ := os.ReadFile(target); string(data) != stale {
			t.Errorf("the file that the link leads to has become %q", data)
		}
	})
	t.Run("DF-20 a file that was left is replaced, not written to", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, KubeconfigName)
		writeFile(t, path, stale)
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		left, err := os.Open(path) // as its owner may have
		if err != nil {
			t.Fatal(err)
		}
		defer left.Close()
		before, _ := left.Stat()
		server, err := start(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(server.Kubeconfig); err != nil || os.SameFile(before, after) || after.Mode().Perm() != 0o600 {
			t.Errorf("got the same file: %t, mode %s, error %v", os.SameFile(before, after), after.Mode(), err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("got left %v", files)
		}
	})
	t.Run("DF-20 the file of a server that runs is not taken over", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, KubeconfigName)
		first, err := start(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), first.URL+", which is running: stop it, or start this one in another folder") {
			t.Errorf("got %v, want an error that names %s", err, first.URL)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("the file has become %q", after)
		}
		_ = first.listener.Close() // like a killed server, which leaves the file
		second, err := start(t, dir)
		if err != nil {
			t.Fatalf("the file of a server that has stopped: %v", err)
		}
		first.remove()
		if after, _ := os.ReadFile(path); !bytes.Contains(after, []byte(second.URL)) {
			t.Error("the first server has removed the file of the second one")
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		t.Chdir(t.TempDir())
		first, err := Start(TLSPrefix+DefaultAddress, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(first.Kubeconfig)
		if err != nil || !strings.HasPrefix(first.URL, "https://") || !strings.Contains(string(data), `"certificate-authority-data"`) {
			t.Errorf("at %s, the kubeconfig is %q, error %v", first.URL, data, err)
		}
		if _, err := Start(TLSPrefix+DefaultAddress, nil, nil); err == nil || !strings.Contains(err.Error(), first.URL+", which is running") {
			t.Errorf("got %v, want an error that names %s", err, first.URL)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("what is refused leaves nothing", func(t *testing.T) {
		dir := t.TempDir()
		t.Chdir(dir)
		if _, err := Start(DefaultAddress, nil, []manifest.File{{Path: "x.yaml", Data: []byte("kind: X")}}); err == nil || !strings.HasPrefix(err.Error(), "x.yaml: ") {
			t.Errorf("bad manifests: got %v", err)
		}
		if _, err := Start("127.0.0.1:1x", nil, nil); err == nil {
			t.Error("it listens nowhere")
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("got left %v", files)
		}
	})
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
