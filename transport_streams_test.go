package kopf_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kopf-go/kopf"
)

// TestConnections runs an operator in two hundred namespaces. Its server allows as many streams on a connection as kube-apiserver does by default.
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
	kopf.NewRunner(t, &kopf.Operator{Registry: registry, Namespaces: []string{"ns-*"}, Connection: &kopf.ConnectionInfo{Server: s.URL, InsecureSkipTLSVerify: true}}, nil)
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

// TestConnectionsOfRequests sends concurrent requests to a server that responds when all of them have arrived.
func TestConnectionsOfRequests(t *testing.T) {
	const count = 8
	for _, tt := range []struct {
		name, protocol string
		connections    int
		call           func(ctx context.Context, c *kopf.Client, name string) error
	}{
		{"reads share one", "HTTP/2.0", 1, func(ctx context.Context, c *kopf.Client, name string) error {
			return c.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}, &kopf.Body{}, nil)
		}},
		{"writes have one each", "HTTP/1.1", count, func(ctx context.Context, c *kopf.Client, name string) error {
			_, err := c.Patch(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}, map[string]any{"data": nil}, nil)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := kopf.NewAPIServer(nil)
			for i := range count {
				if err := api.Apply(fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c-%d, namespace: default}}", i)); err != nil {
					t.Fatal(err)
				}
			}
			var mu sync.Mutex // guards following
			var protocols []string
			from, arrived, all := map[string]bool{}, 0, make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/configmaps/") {
					mu.Lock()
					protocols, from[r.RemoteAddr] = append(protocols, r.Proto), true
					if arrived++; arrived%count == 0 {
						close(all)
						all = make(chan struct{})
						mu.Unlock()
					} else {
						wait := all
						mu.Unlock()
						<-wait
					}
				}
				api.ServeHTTP(w, r)
			}))
			s.EnableHTTP2 = true
			s.StartTLS()
			t.Cleanup(s.Close)
			c, err := kopf.NewClient(&kopf.ConnectionInfo{Server: s.URL, InsecureSkipTLSVerify: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // the later ones reuse the first connections
				var calls sync.WaitGroup
				for i := range count {
					calls.Go(func() {
						if err := tt.call(t.Context(), c, fmt.Sprintf("c-%d", i)); err != nil {
							t.Error(err)
						}
					})
				}
				calls.Wait()
			}
			slices.Sort(protocols)
			if got := slices.Compact(protocols); len(got) != 1 || got[0] != tt.protocol || len(from) != tt.connections {
				t.Errorf("the requests came by %q on %d connections, want %q on %d", got, len(from), tt.protocol, tt.connections)
			}
		})
	}
}
