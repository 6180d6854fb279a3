package kopf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
)

// resetServer reads whole requests, or only their beginning, and resets their connections. It counts them.
func resetServer(t *testing.T, whole bool) (url string, requests *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests = &atomic.Int64{}
	serve := func(conn net.Conn) {
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 16))
		requests.Add(1)
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset, not an orderly end
		if whole {
			_, _ = conn.Read(make([]byte, 64<<10))
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return "http://" + listener.Addr().String(), requests
}

func TestClientNetworkErrors(t *testing.T) {
	pod := func(size int) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"generateName": "p-", "namespace": "ns", "annotations": map[string]any{"filler": strings.Repeat("x", size)},
		}}
	}
	closed := func(t *testing.T) (string, *atomic.Int64) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return "http://" + listener.Addr().String(), &atomic.Int64{}
	}
	read := func(t *testing.T) (string, *atomic.Int64) { return resetServer(t, true) }
	cut := func(t *testing.T) (string, *atomic.Int64) { return resetServer(t, false) }
	for _, tt := range []struct {
		name     string
		server   func(*testing.T) (string, *atomic.Int64)
		call     func(*Client) error
		requests int64
		retried  bool
	}{
		{"DF-36 a creation whose answer was cut off is not repeated", read, func(c *Client) error { return c.Create(t.Context(), pod(1), nil) }, 1, false},
		{"DF-36 a creation that was cut off itself is not repeated", cut, func(c *Client) error { return c.Create(t.Context(), pod(16<<20), nil) }, 1, false},
		{"DF-36 a creation without a connection is repeated", closed, func(c *Client) error { return c.Create(t.Context(), pod(1), nil) }, 0, true},
		{"DF-36 a read whose answer was cut off is repeated", read, func(c *Client) error { return c.Get(t.Context(), podRef, &Body{}, nil) }, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, requests := tt.server(t)
			settings := NewSettings()
			settings.Networking.ErrorBackoffs = []time.Duration{0}
			var logged strings.Builder
			login := func(context.Context) (map[string]*connection.Info, error) {
				return map[string]*connection.Info{"login": {Server: url}}, nil
			}
			c := newLoginClient(login, settings, slog.New(slog.NewTextHandler(&logged, nil)))
			c.kinds.Set([]discovery.Resource{discovery.Resource(testPods)})
			defer c.close()
			err := tt.call(c)
			if network := (*net.OpError)(nil); !errors.As(err, &network) && !errors.Is(err, io.EOF) {
				t.Errorf("got the error %v (%T), want one of the network", err, err)
			}
			if n := requests.Load(); n != tt.requests {
				t.Errorf("%d requests were sent, want %d", n, tt.requests)
			}
			if retried := strings.Contains(logged.String(), "will retry"); retried != tt.retried {
				t.Errorf("it was retried: %v, want %v:\n%s", retried, tt.retried, &logged)
			}
		})
	}
}

func TestClientEviction(t *testing.T) {
	for _, tt := range []struct {
		name, subresource string
		want              time.Duration
	}{
		{"DF-36 a refused eviction holds back no other request", "eviction", 0},
		{"DF-36 any other refused request holds back all", "binding", time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						answer{code: http.StatusTooManyRequests, header: "Retry-After: 60"}.serve(w, r)
						return
					}
					answer{text: podText}.serve(w, r)
				}), func(s *Settings) { s.Networking.ErrorBackoffs = nil })
				object := map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": "p", "namespace": "ns"}}
				opts := &WriteOptions{Subresource: tt.subresource, Of: ObjectReference{APIVersion: "v1", Kind: "Pod"}}
				if err := c.Create(t.Context(), object, opts); StatusCode(err) != http.StatusTooManyRequests {
					t.Fatalf("got %v, want a refusal", err)
				}
				began := time.Now()
				if err := c.Get(t.Context(), podRef, &Body{}, nil); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(began); got != tt.want {
					t.Errorf("another request has waited %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// rotatingServer refuses the first token after rotate. Each of its watches has one event, and stays open.
type rotatingServer struct {
	mu       sync.Mutex
	rotated  bool
	versions []string // with which watches have begun
}

func (s *rotatingServer) rotate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotated = true
}

func (s *rotatingServer) watched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.versions)
}

func (s *rotatingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refused := s.rotated && r.Header.Get("Authorization") == "Bearer one"
	watch := r.URL.Query().Get("watch") == "true"
	if watch && !refused {
		s.versions = append(s.versions, r.URL.Query().Get("resourceVersion"))
	}
	version := 10 * (len(s.versions))
	s.mu.Unlock()
	switch {
	case refused:
		w.WriteHeader(http.StatusUnauthorized)
	case watch:
		fmt.Fprintf(w, `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns","resourceVersion":"%d"}}}`+"\n", version)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // a response that ends properly when it is interrupted would be no failure
	case strings.HasSuffix(r.URL.Path, "/pods"):
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`)
	default:
		_, _ = io.WriteString(w, podText)
	}
}

// client returns a client that logs in with the token "one" first, then with "two".
func (s *rotatingServer) client(t *testing.T) *Client {
	logins := 0
	own := &http.Client{Transport: &apiserver.Transport{Handler: s}}
	c := newLoginClient(func(context.Context) (map[string]*connection.Info, error) {
		logins++
		return map[string]*connection.Info{"login": {Server: "http://server.test", HTTPClient: own, Token: []string{"one", "two"}[min(logins, 2)-1]}}, nil
	}, NewSettings(), slog.New(slog.DiscardHandler))
	c.kinds.Set([]discovery.Resource{discovery.Resource(testPods)})
	t.Cleanup(c.close)
	return c
}

func TestWatchGoesOnWithOtherCredentials(t *testing.T) {
	for _, tt := range []struct {
		name  string
		watch func(ctx context.Context, c *Client, seen func())
		want  []string
		calls int64
	}{
		{"DF-36 a stream", func(ctx context.Context, c *Client, seen func()) {
			c.stream(testPods, "", "", &seenStream{seen: seen}).Run(ctx)
		}, []string{"5", "10"}, 2},
		{"DF-36 a watch of a version", func(ctx context.Context, c *Client, seen func()) {
			for range c.Watch(ctx, ObjectReference{APIVersion: "v1", Kind: "Pod"}, &ListOptions{ResourceVersion: "3"}) {
				seen()
			}
		}, []string{"3", "10"}, 2},
		{"DF-36 a watch without a version ends, for it would miss deletions", func(ctx context.Context, c *Client, seen func()) {
			for _, err := range c.Watch(ctx, ObjectReference{APIVersion: "v1", Kind: "Pod"}, nil) {
				if seen(); err != nil && !strings.Contains(err.Error(), "the watch has ended") {
					t.Error(err)
				}
			}
		}, []string{""}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &rotatingServer{}
				c := s.client(t)
				ctx, cancel := context.WithCancel(t.Context())
				var events atomic.Int64
				var all sync.WaitGroup
				all.Go(func() { tt.watch(ctx, c, func() { events.Add(1) }) })
				synctest.Wait()
				s.rotate()
				if err := c.Get(ctx, podRef, &Body{}, nil); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got := s.watched(); !slices.Equal(got, tt.want) {
					t.Errorf("watched from the versions %q, want %q", got, tt.want)
				}
				if n := events.Load(); n != tt.calls {
					t.Errorf("got %d events and errors, want %d", n, tt.calls)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// seenStream reports each event.
type seenStream struct {
	watchstream.Ignore
	seen func()
}

func (h *seenStream) OnEvent(string, *rawjson.Header, []byte) { h.seen() }
