// Package ratelimit delays requests that would overload the API server. It limits all requests per second, delays all of them while the server is overloaded,
// and delays those of one API group while that is unavailable. It runs on the goroutines of the requests.
package ratelimit

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBackoff is the maximum backoff, without a Retry-After, while the server rejects all requests.
const maxBackoff = time.Minute

// maxBurst avoids overflows of durations.
const maxBurst = 1_000_000_000

// refusalsLeft is the number of responses 503 in a row, without a Retry-After, that cause no delay: unavailable extension API servers send them while the
// others work.
const refusalsLeft = 2

// Config has the limits.
type Config struct {
	Rate     int             // per second; zero means no limit
	Burst    int             // requests at once after an idle time
	Backoffs []time.Duration // after consecutive rejections
	Exact    bool            // a Retry-After also replaces a longer backoff
}

// Limiter has the rate limiters of a client: one for all requests, and one for each API group that responds with 503. Such a response does not concern other
// groups, which other servers may serve: extension API servers, or pods behind a proxy. Only if several groups are rejected at the same time, the response
// counts as one of the API server itself.
type Limiter struct {
	all    *bucket
	config Config // of the group limiters
	log    *slog.Logger

	mu      sync.Mutex         // guards refused
	refused map[string]*bucket // by group
}

// maxGroups is the maximum number of idle group limiters.
const maxGroups = 100

// New returns a limiter, or nil if there is no limit.
func New(c Config, log *slog.Logger) *Limiter {
	all := newBucket(c, log)
	if all == nil {
		return nil
	}
	l := &Limiter{all: all, config: c, log: log, refused: make(map[string]*bucket)}
	l.config.Rate, l.config.Burst = maxBurst, maxBurst // no limit
	return l
}

// groupOf returns the prefix of a path that identifies the server: up to the API group, or up to a proxy.
func groupOf(path string) string {
	const proxy = "/proxy"
	if i := strings.Index(path, proxy+"/"); i >= 0 {
		return path[:i+len(proxy)]
	} else if strings.HasSuffix(path, proxy) {
		return path
	}
	slashes := 0
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if slashes++; slashes == 3 { // such as /apis/apps/v1 and /api/v1/pods
			return path[:i]
		}
	}
	return path
}

// proxied reports whether a group is behind a proxy.
func proxied(group string) bool { return strings.HasSuffix(group, "/proxy") }

// bucketOf returns the limiter of a group, or nil.
func (l *Limiter) bucketOf(group string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[group]
}

// noneRefused reports whether no group is being rejected.
func (l *Limiter) noneRefused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.refused) == 0
}

// Wait waits until a request may be sent, or the context ends.
func (l *Limiter) Wait(ctx context.Context, path string) error {
	if l == nil {
		return nil
	}
	if !l.noneRefused() {
		if err := l.bucketOf(groupOf(path)).wait(ctx); err != nil {
			return err
		}
	}
	return l.all.wait(ctx)
}

// Hold delays requests for a Retry-After: those of the group for 503, and all for 429.
func (l *Limiter) Hold(path string, code int, pause time.Duration) {
	if l == nil || pause <= 0 {
		return
	}
	if !ofGroup(path, code) {
		l.all.applyRetryAfter(pause)
		return
	}
	l.bucketFor(groupOf(path)).applyRetryAfter(pause)
}

// ofGroup reports whether a rejection concerns only one group. The API server itself responds with 429 when it is overloaded.
func ofGroup(path string, code int) bool {
	return code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests && proxied(groupOf(path))
}

// bucketFor returns the limiter of a group, and creates it if missing.
func (l *Limiter) bucketFor(group string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.refused[group]
	if r == nil {
		if len(l.refused) >= maxGroups {
			maps.DeleteFunc(l.refused, func(_ string, r *bucket) bool { return r.idle() })
		}
		r = newBucket(l.config, l.log.With("group", group))
		l.refused[group] = r
	}
	return r
}

// Answered records the response to a request.
func (l *Limiter) Answered(path string, sent time.Time, code int, pause time.Duration) {
	if l == nil || code == 0 {
		return
	}
	group := groupOf(path)
	if ofGroup(path, code) {
		if r := l.bucketFor(group); !proxied(group) && l.othersRefused(r) { // only one limiter backs off at a time
			r.deferBackoff(pause)
			l.all.answered(sent, code, 0)
		} else {
			r.answered(sent, code, pause)
		}
		return
	}
	if code != http.StatusTooManyRequests {
		l.recovered(group, sent, code)
	}
	l.all.answered(sent, code, pause)
}

// recovered records a response that is not a rejection, and removes an idle group limiter.
func (l *Limiter) recovered(group string, sent time.Time, code int) {
	if l.noneRefused() {
		return
	}
	r := l.bucketOf(group)
	if r == nil {
		return
	}
	r.answered(sent, code, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.idle() {
		delete(l.refused, group)
	}
}

// othersRefused reports whether other groups of the API server are being rejected, too.
func (l *Limiter) othersRefused(own *bucket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for group, r := range l.refused {
		if r != own && !proxied(group) && r.isRefusing() {
			return true
		}
	}
	return false
}

// bucket is a token bucket (https://en.wikipedia.org/wiki/Token_bucket) that the server can close for a while. Requests keep their order. After a rejection,
// they are sent one by one, with delays that each successful response halves.
type bucket struct {
	rate     int // tokens per second
	burst    int // maximum number of saved tokens
	log      *slog.Logger
	backoffs []time.Duration // after consecutive rejections
	exact    bool            // a Retry-After also replaces a longer backoff

	mu       sync.Mutex // guards following
	next     time.Time  // time of the next token if none is saved; the earlier, the more are saved
	closed   time.Time  // no request may be sent before
	warnedAt time.Time  // last warning about delayed requests
	backoff  time.Duration
	refused  int           // consecutive rejections
	last     time.Time     // time of the last response
	pauses   int           // number of backoffs for them
	renewed  chan struct{} // closed when the tokens of waiting requests become invalid
}

// newBucket returns a bucket, or nil if there is no limit.
func newBucket(c Config, log *slog.Logger) *bucket {
	if c.Rate <= 0 {
		return nil
	}
	return &bucket{
		rate: c.Rate, burst: min(max(c.Burst, 1), maxBurst), log: log,
		backoffs: c.Backoffs, exact: c.Exact, renewed: make(chan struct{}),
	}
}

// wait waits until the next request may be sent, or the context ends.
func (r *bucket) wait(ctx context.Context) error {
	if r == nil {
		return nil
	}
	for {
		pause, renewed := r.reserve(time.Now())
		if pause <= 0 {
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-renewed:
		case <-ctx.Done():
			t.Stop()
			r.cancel(renewed)
			return context.Cause(ctx)
		}
		t.Stop()
		select {
		case <-renewed:
		default:
			return nil
		}
	}
}

// reserve takes a token, and returns the time to wait for it, unless renewed is closed before.
func (r *bucket) reserve(now time.Time) (pause time.Duration, renewed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	each, saved := r.intervalLocked(), time.Duration(0)
	if r.backoff == 0 {
		saved = time.Duration(r.burst-1) * each
	}
	if full := now.Add(-saved); r.next.Before(full) {
		r.next = full
	}
	pause = max(r.next.Sub(now), r.closed.Sub(now), 0)
	r.next = r.next.Add(each)
	if pause > time.Second && now.Sub(r.warnedAt) > time.Minute {
		r.warnedAt = now
		attrs := []any{"refused", r.refused}
		if r.rate < maxBurst {
			attrs = append(attrs, "rate", r.rate, "burst", r.burst)
		}
		r.log.Warn("Throttling requests to the API server", append(attrs, "delay", pause.Round(time.Millisecond), "help", "K801")...)
	}
	return pause, r.renewed
}

// intervalLocked returns the time between two tokens.
func (r *bucket) intervalLocked() time.Duration {
	return max(time.Second/time.Duration(r.rate), r.backoff)
}

// isRefusing reports whether requests are rejected or delayed. A rejection expires if there is no request for longer than the longest backoff.
func (r *bucket) isRefusing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return now.Before(r.closed) || r.refused > 0 && now.Before(r.last.Add(2*maxBackoff))
}

// idle reports whether nothing is delayed, and no new request would be. While a request waits, responses arrive.
func (r *bucket) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return !now.Before(r.closed) && (r.refused == 0 && r.backoff == 0 || !now.Before(r.last.Add(2*maxBackoff)))
}

// deferBackoff records a rejection for which the limiter of all requests backs off. The group's limiter applies only a Retry-After.
func (r *bucket) deferBackoff(pause time.Duration) {
	r.applyRetryAfter(pause)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.refused++
	if r.last = now; r.backoff > 0 {
		r.backoff = 0
		r.renewLocked(now)
	}
}

// cancel returns the token of a request that stops waiting.
func (r *bucket) cancel(renewed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewed == renewed {
		r.next = r.next.Add(-r.intervalLocked())
	}
}

// renewLocked makes all waiting requests take new tokens, the first of which is due at a time.
func (r *bucket) renewLocked(next time.Time) {
	r.next = next
	close(r.renewed)
	r.renewed = make(chan struct{})
}

// applyRetryAfter delays all requests for a Retry-After.
func (r *bucket) applyRetryAfter(requested time.Duration) {
	if r == nil || requested <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backoff == 0 { // else all would be sent at once then, and their rejections would be ignored as late ones
		r.backoff = r.backoffLocked(0)
	}
	if until := time.Now().Add(requested); until.After(r.closed) {
		r.closed = until
		r.renewLocked(until) // no tokens are saved
	}
}

// answered records the response to a request. While the server rejects requests, they become slower. Afterwards, they become faster.
func (r *bucket) answered(sent time.Time, code int, requested time.Duration) {
	if r == nil || code == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, late := time.Now(), sent.Before(r.closed)
	r.last = now
	if code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		if r.refused, r.pauses = 0, 0; r.backoff > 0 && !late {
			if r.backoff /= 2; r.backoff <= time.Second/time.Duration(r.rate) {
				r.backoff = 0
			}
			r.renewLocked(now.Add(r.intervalLocked()))
		}
		return
	}
	r.refused++
	own := r.backoffLocked(r.pauses)
	switch {
	case code == http.StatusServiceUnavailable && requested == 0 && r.refused <= refusalsLeft:
		return
	case late: // the request was sent before the backoff began
		own = 0
	default:
		r.pauses++
		r.backoff = own
	}
	if requested > 0 && r.exact {
		own = 0
	}
	if until := now.Add(max(requested, own)); until.After(r.closed) {
		r.closed = until
		r.renewLocked(until)
	}
}

// backoffLocked returns the next backoff after a number of them: first the delays between attempts of a request, and then twice as long each time. It includes
// jitter, so that operators that were rejected together do not return together.
func (r *bucket) backoffLocked(pauses int) time.Duration {
	last := time.Second
	if n := len(r.backoffs); n > 0 {
		last = r.backoffs[min(pauses, n-1)]
		pauses = max(pauses-n+1, 0)
	}
	if last < maxBackoff {
		last = min(max(last, time.Millisecond)<<min(pauses, 20), maxBackoff)
	}
	return last + time.Duration(rand.Int64N(int64(last)/10+1))
}
