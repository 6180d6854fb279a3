package credtransport

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLifetimeOfConnections ends the lifetime of connections while a response is read, and before a request. The requests themselves are not canceled.
func TestLifetimeOfConnections(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush() // so that the response has begun
		<-r.Context().Done()
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			transport, err := (&Connecting{HTTP2: http2, InsecureSkipVerify: true}).NewTransport(ctx)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: transport}
			resp, err := client.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if http2 != (resp.ProtoMajor == 2) {
				t.Fatalf("the response came by %s, want %s", resp.Proto, name)
			}
			cancel()
			if _, err := io.ReadAll(resp.Body); err == nil {
				t.Error("a response has ended without an error, want one of its closed connection")
			}
			if resp, err := client.Get(s.URL); err == nil {
				_ = resp.Body.Close()
				t.Error("a request got a response, though the lifetime of connections has ended")
			}
		})
	}
}
