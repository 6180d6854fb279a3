package connshare

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"
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
