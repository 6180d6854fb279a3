package connshare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// dialing delays connections and responses.
type dialing struct{ dial, answer time.Duration }

func (d *dialing) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := sleep(req.Context(), d.dial); err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	return &http.Response{}, sleep(req.Context(), d.answer)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestTransport(t *testing.T) {
	for _, tt := range []struct {
		name    string
		next    dialing
		timeout time.Duration // of the last request
		want    []time.Duration
		err     error
	}{
		{"one after another", dialing{100 * time.Millisecond, 0}, time.Minute, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond}, nil},
		{"with answers that take long", dialing{100 * time.Millisecond, time.Minute}, time.Hour, []time.Duration{time.Minute + 100*time.Millisecond, time.Minute + 200*time.Millisecond, time.Minute + 300*time.Millisecond}, nil},
		{"with connections that take long", dialing{5 * time.Second, 0}, time.Minute, []time.Duration{5 * time.Second, 6 * time.Second, 6 * time.Second}, nil},
		{"with a request that gives up", dialing{5 * time.Second, 0}, 500 * time.Millisecond, []time.Duration{500 * time.Millisecond, 5 * time.Second, 6 * time.Second}, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, begun := New(&tt.next), time.Now()
				took, failed := make(chan time.Duration, 3), make(chan error, 3)
				for i := range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					if i == 2 {
						ctx, cancel = context.WithTimeout(t.Context(), tt.timeout)
					}
					defer cancel()
					go func() {
						req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://x", nil)
						_, err := transport.RoundTrip(req)
						if err != nil {
							failed <- err
						}
						took <- time.Since(begun)
					}()
					synctest.Wait()
				}
				for _, want := range tt.want {
					if got := <-took; got != want {
						t.Errorf("a request took %v, want %v", got, want)
					}
				}
				var err error
				if len(failed) > 0 {
					err = <-failed
				}
				if !errors.Is(err, tt.err) {
					t.Errorf("got %v, want %v", err, tt.err)
				}
			})
		})
	}
}

// TestTracesOfCallers sends requests with and without a trace of the caller. All its functions are called, also those of a trace that was added to another one.
func TestTracesOfCallers(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	transport := New(http.DefaultTransport)
	for _, traces := range []int{0, 1, 2} {
		var got []string
		ctx := t.Context()
		for i := range traces {
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				GetConn:              func(string) { got = append(got, fmt.Sprint("get ", i)) },
				GotConn:              func(httptrace.GotConnInfo) { got = append(got, fmt.Sprint("got ", i)) },
				GotFirstResponseByte: func() { got = append(got, fmt.Sprint("response ", i)) },
			})
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		want := [][]string{nil, {"get 0", "got 0", "response 0"}, {"get 1", "get 0", "got 1", "got 0", "response 1", "response 0"}}[traces]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls of %d traces (-want +got)\n%s", traces, diff)
		}
	}
}

// TestTurnEndsWithTheConnection sends a request while another one, which has its connection, waits for its response.
func TestTurnEndsWithTheConnection(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			close(arrived)
			<-answer
		}
	}))
	t.Cleanup(s.Close)
	transport := New(http.DefaultTransport)
	first := make(chan error, 1)
	send := func(path string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	go func() { first <- send("/first") }()
	<-arrived
	if len(transport.turn) != 0 {
		t.Error("a request that has its connection still holds the turn")
	}
	if err := send("/second"); err != nil {
		t.Error(err)
	}
	close(answer)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
