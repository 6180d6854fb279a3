package connection

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// TestUpgrade sends a request that turns its connection into one for another protocol, as those of "kubectl exec" do.
func TestUpgrade(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(rw, "echo "+line)
		_ = rw.Flush()
		_, _ = rw.ReadByte() // until the client closes the connection
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, protocol := range []string{"websocket", "SPDY/3.1"} {
		t.Run(protocol, func(t *testing.T) {
			store := NewStore(func(context.Context) (map[string]*Info, error) {
				return map[string]*Info{"a": {Server: s.URL, InsecureSkipTLSVerify: true}}, nil
			})
			t.Cleanup(func() { store.Close() })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", protocol)
			resp, err := store.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			conn, ok := resp.Body.(io.ReadWriteCloser)
			if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
				t.Fatalf("got %s with a body of type %T, want one to write to", resp.Status, resp.Body)
			}
			if _, err := io.WriteString(conn, "hello\n"); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, len("echo hello\n"))
			if _, err := io.ReadFull(conn, line); string(line) != "echo hello\n" {
				t.Errorf("got %q, %v", line, err)
			}
			store.Close()
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("the connection is open although the store is closed")
			}
		})
	}
}

// TestBodyOfFailedRequest sends a body whose author waits until it is read or closed.
func TestBodyOfFailedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGate("a").store("a")
		store.Close()
		r, w := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://turnstile/x", r)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := io.WriteString(w, "text")
			done <- err
		}()
		if _, err := store.Send(req); err == nil {
			t.Error("a closed store has sent a request")
		}
		synctest.Wait()
		select {
		case err := <-done:
			if err == nil {
				t.Error("the body was read")
			}
		default:
			t.Error("the body was not closed")
			r.Close()
		}
	})
}
