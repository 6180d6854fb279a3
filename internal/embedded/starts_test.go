package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver"
)

// TestStartWhileAnotherStops starts servers in a folder while another one stops there. They start, or name the running one. Its file, which disappears in
// between, causes no other error.
func TestStartWhileAnotherStops(t *testing.T) {
	t.Chdir(t.TempDir())
	path, err := filepath.Abs(KubeconfigName)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(stale)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			temporary := path + ".new"
			if err := os.WriteFile(temporary, text, 0o600); err != nil {
				t.Error(err)
			}
			if err := os.Rename(temporary, path); err != nil {
				t.Error(err)
			}
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 2000 {
		if err := apiserver.CheckKubeconfig(path); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	<-stopped
}

// TestStartsAtOnce starts two servers in one folder at the same time. The file is that of the last writer, and stays when the other one stops.
func TestStartsAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	for range 100 {
		var both [2]*Server
		var starts sync.WaitGroup
		for i := range both {
			starts.Go(func() {
				s, err := Start(DefaultAddress, nil, nil)
				if err != nil && !strings.Contains(err.Error(), "which is running") {
					t.Error(err)
				}
				both[i] = s
			})
		}
		starts.Wait()
		for i, s := range both {
			other := both[1-i]
			if s == nil || other == nil {
				continue
			}
			data, err := os.ReadFile(s.Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), `"`+s.URL+`"`) {
				if err := other.Close(); err != nil {
					t.Error(err)
				}
				both[1-i] = nil
				if now, err := os.ReadFile(s.Kubeconfig); err != nil || string(now) != string(data) {
					t.Errorf("the kubeconfig of the server that runs has become %q, %v", now, err)
				}
			}
		}
		for _, s := range both {
			if s != nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}
