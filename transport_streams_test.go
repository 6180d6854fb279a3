package kopf_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kopf-go/kopf"
)

// TestConnections runs an operator in two hundred namespaces against a server that takes as many streams on a connection as kube-apiserver does by default.
func TestConnections(t *testing.T) {
	const count, streamsEach = 200, 100
	api := kopf.NewAPIServer(nil)
	apply := func(text string) {
		t.Helper()
		if err := api.Apply([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	apply(definition)
	var namespaces, objects strings.Builder
	for i := range count {
		fmt.Fprintf(&namespaces, "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns-%03d}\n---\n", i)
		fmt.Fprintf(&objects, "apiVersion: kopf.dev/v1\nkind: KopfExample\nmetadata: {name: one, namespace: ns-%03d}\n---\n", i)
	}
	apply(namespaces.String())
	var connections atomic.Int64
	watched := make(chan struct{}, 10*count)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "true" && strings.Contains(r.URL.Path, "/namespaces/ns-") {
			watched <- struct{}{}
		}
		api.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streamsEach}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.TLS = &tls.Config{}
	s.StartTLS()
	t.Cleanup(s.Close)

	added := make(chan string, count)
	registry := &kopf.Registry{}
	registry.OnEvent("kopfexamples", func(ctx context.Context, e *kopf.WatchEvent) error {
		if e.Type == kopf.Added {
			added <- e.Namespace()
		}
		return nil
	}, &kopf.EventOptions{ID: "event"})
	kopf.NewRunner(t, &kopf.Operator{Registry: registry, Namespaces: []string{"ns-*"}, Connection: &kopf.ConnectionInfo{Server: s.URL, Insecure: true}}, nil)
	for range count {
		<-watched
	}
	apply(objects.String())
	seen := map[string]bool{}
	for len(seen) < count {
		seen[<-added] = true
	}
	if n, most := connections.Load(), int64(count/streamsEach+4); n > most {
		t.Errorf("%d streams took %d connections, want at most %d", count, n, most)
	} else {
		t.Logf("%d streams took %d connections", count, n)
	}
}
