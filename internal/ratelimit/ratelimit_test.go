package ratelimit

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// slowed reports whether requests are sent one by one.
func (f *bucket) slowed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.backoff > 0
}

// TestRequestGroups tests which requests are delayed together. DF-7
func TestRequestGroups(t *testing.T) {
	t.Run("DF-7 a path tells who answers", func(t *testing.T) {
		for path, want := range map[string]string{
			"": "", "/version": "/version", "/apis": "/apis", "/api/v1": "/api/v1", "/apis/apps": "/apis/apps",
			"/api/v1/namespaces/a/pods/proxy-b": "/api/v1", "/apis/apps/v1": "/apis/apps", "/apis/apps/v2/deployments": "/apis/apps",
			"/api/v1/namespaces/a/services/b:80/proxy":          "/api/v1/namespaces/a/services/b:80/proxy",
			"/api/v1/namespaces/a/services/b:80/proxy/c/proxy/": "/api/v1/namespaces/a/services/b:80/proxy",
		} {
			if got := groupOf(path); got != want {
				t.Errorf("%q is of the group %q, want %q", path, got, want)
			}
		}
	})
	t.Run("DF-7 what a proxy refuses is no refusal of the API server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := New(limitConfig(), slog.New(slog.DiscardHandler))
			l.Answered("/api/v1/namespaces/a/pods/b/proxy/c", time.Now(), http.StatusTooManyRequests, time.Hour)
			for path, want := range map[string]time.Duration{"/api/v1/namespaces/a/pods/b": 0, "/api/v1/namespaces/a/pods/b/proxy/d": time.Hour} {
				began := time.Now()
				if err := l.Wait(t.Context(), path); err != nil || time.Since(began) != want {
					t.Errorf("a request for %s has waited for %s (%v), want %s", path, time.Since(began), err, want)
				}
			}
		})
	})
	for _, groups := range [][]string{{"/apis/a"}, {"/apis/a", "/apis/b"}} {
		t.Run(fmt.Sprintf("DF-7 it slows down other groups if several are refused: %d", len(groups)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(limitConfig(), slog.New(slog.DiscardHandler))
				for range 10 {
					for _, group := range groups {
						l.Answered(group+"/v1", time.Now(), http.StatusServiceUnavailable, 0)
						time.Sleep(time.Minute)
					}
				}
				if slowed := l.all.slowed(); slowed != (len(groups) > 1) {
					t.Errorf("all requests are slowed down: %t", slowed)
				}
				for l.all.slowed() || !l.noneRefused() { // all succeed again, and waiting requests are sent faster and faster
					for _, group := range groups {
						if err := l.Wait(t.Context(), group+"/v1"); err != nil {
							t.Fatal(err)
						}
						l.Answered(group+"/v1", time.Now(), http.StatusOK, 0)
					}
				}
			})
		})
	}
	t.Run("DF-7 groups that are refused no more are forgotten", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := New(limitConfig(), slog.New(slog.DiscardHandler))
			path := func(n int) string { return "/api/v1/namespaces/a/pods/p" + strconv.Itoa(n) + "/proxy/x" }
			l.Answered("/apis/down/v1", time.Now(), http.StatusServiceUnavailable, time.Hour)
			for n := range 10 * maxGroups {
				time.Sleep(time.Second)
				l.Answered(path(n), time.Now(), http.StatusServiceUnavailable, 0)
			}
			if l.all.refused > 0 {
				t.Error("what many pods refuse counts as refused by the API server")
			}
			if n := len(l.refused); n > 2*maxGroups {
				t.Errorf("%d groups are kept", n)
			}
			if l.bucketOf("/apis/down") == nil {
				t.Error("the group that is held back is forgotten, too")
			}
			n := len(l.refused)
			l.Answered(path(10*maxGroups-1), time.Now(), http.StatusOK, 0)
			if got := len(l.refused); got != n-1 {
				t.Errorf("%d groups are kept after a recovery, want one of %d less", got, n)
			}
		})
	})
}

// BenchmarkWait measures the cost of the limit for a request that need not wait. Run it with: go test -run xxx -bench Wait ./internal/ratelimit
func BenchmarkWait(b *testing.B) {
	c := limitConfig()
	c.Rate, c.Burst = 1e9, 1e9
	f := newBucket(c, slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		if err := f.wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// limitConfig returns the default configuration of a client.
func limitConfig() Config {
	return Config{Rate: 1000, Burst: 20000, Backoffs: []time.Duration{time.Second, time.Second, 2 * time.Second, 3 * time.Second}}
}
