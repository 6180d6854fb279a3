//go:build !noembed

package kopf

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKubeconfigFile(t *testing.T) {
	const stale = `{"apiVersion":"v1","clusters":[{"cluster":{"server":"http://127.0.0.1:1"},"name":"kopf"}],"current-context": "kopf"}`
	t.Run("DF-20 a link is not followed", func(t *testing.T) {
		dir := t.TempDir()
		target, path := write(t, filepath.Join(dir, "target"), stale), filepath.Join(dir, embeddedKubeconfig)
		if err := os.Symlink(target, path); err != nil {
			t.Skip(err)
		}
		if _, err := writeKubeconfig(listening(t), path); err == nil || !strings.Contains(err.Error(), "in the way") {
			t.Errorf("got %v, want the link to be in the way", err)
		}
		if err := listening(t).WriteKubeconfig(path); err != nil {
			t.Error(err)
		}
		if data, _ := os.ReadFile(target); string(data) != stale {
			t.Errorf("the file that the link leads to has become %q", data)
		}
	})
	t.Run("DF-20 a file that was left is replaced, not written to", func(t *testing.T) {
		path := write(t, filepath.Join(t.TempDir(), embeddedKubeconfig), stale)
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		left, err := os.Open(path) // as its owner may have
		if err != nil {
			t.Fatal(err)
		}
		defer left.Close()
		before, _ := left.Stat()
		remove, err := writeKubeconfig(listening(t), path)
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(path)
		if err != nil || os.SameFile(before, after) || after.Mode().Perm() != 0o600 {
			t.Errorf("got the same file: %t, mode %s, error %v", os.SameFile(before, after), after.Mode(), err)
		}
		remove()
		if files, _ := os.ReadDir(filepath.Dir(path)); len(files) > 0 {
			t.Errorf("got left %v", files)
		}
	})
	t.Run("DF-20 the file of a server that runs is not taken over", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), embeddedKubeconfig)
		first, second := listening(t), listening(t)
		remove, err := writeKubeconfig(first, path)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		if _, err := writeKubeconfig(second, path); err == nil || !strings.Contains(err.Error(), first.URL) {
			t.Errorf("got %v, want an error that names %s", err, first.URL)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("the file has become %q", after)
		}
		_ = first.Close()
		if _, err := writeKubeconfig(second, path); err != nil {
			t.Errorf("the file of a server that has stopped: %v", err)
		}
		remove()
		if after, _ := os.ReadFile(path); !bytes.Contains(after, []byte(second.URL)) {
			t.Error("the first server has removed the file of the second one")
		}
	})
}
