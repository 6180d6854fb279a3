package kopf

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// This file holds back requests that would flood the API server: more than so many in a second, and all while the server
// asks for patience. It runs on the goroutines of the requests.

// maxPatience is the longest pause that a server can impose.
const maxPatience = 10 * time.Minute

// maxBurst keeps the arithmetic of a bucket within the range of durations.
const maxBurst = 1_000_000_000

// flow is a token bucket (https://en.wikipedia.org/wiki/Token_bucket) that the server can close for a while. Requests go in the order in which they
// come.
type flow struct {
	rate  int // of tokens in a second
	burst int // how many can be saved
	log   *slog.Logger

	mu     sync.Mutex // guards following
	next   time.Time  // when the next token comes if none was saved; the further back, the more are saved
	closed time.Time  // until when nobody may go
	told   time.Time  // when it was last told that requests are held back
}

// newFlow returns what lets so many requests go, nil if there is no limit.
func newFlow(s *NetworkingSettings, log *slog.Logger) *flow {
	if s.RequestRate <= 0 {
		return nil
	}
	return &flow{rate: s.RequestRate, burst: min(max(s.RequestBurst, 1), maxBurst), log: log}
}

// wait returns when the next request may go, or the context has ended.
func (f *flow) wait(ctx context.Context) error {
	if f == nil {
		return nil
	}
	return sleep(ctx, f.take(time.Now()))
}

// take takes a token, and tells how long to wait for it.
func (f *flow) take(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	each := time.Second / time.Duration(f.rate)
	saved := time.Duration(f.burst-1) * each
	if full := now.Add(-saved); f.next.Before(full) {
		f.next = full
	}
	pause := max(f.next.Sub(now), f.closed.Sub(now), 0)
	f.next = f.next.Add(each)
	if pause > time.Second && now.Sub(f.told) > time.Minute {
		f.told = now
		f.log.Warn(fmt.Sprintf("Requests are held back for %s, not to flood the API server.", pause.Round(time.Millisecond)), "rate", f.rate, "burst", f.burst)
	}
	return pause
}

// close holds back all requests for a while, because the server has too much to do.
func (f *flow) close(d time.Duration) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if until := time.Now().Add(d); until.After(f.closed) {
		f.closed = until
	}
}
