// Package ratelimit holds back requests that would overload the API server: more than so many in a second, all while the server
// has too much to do, and those of one API group while that is not served. It runs on the goroutines of the requests.
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

// maxBackoff is the longest pause that is made on our own account while the server refuses everything.
const maxBackoff = time.Minute

// maxBurst keeps the arithmetic of a bucket within the range of durations.
const maxBurst = 1_000_000_000

// refusalsLeft is how many 503 in a row are left alone, if they do not say when to come back: extensions of the API server that are down
// answer so, and the rest of it is well.
const refusalsLeft = 2

// Config is how many requests may go.
type Config struct {
	Rate     int             // in a second; zero means no limit
	Burst    int             // how many may go at once after a quiet time
	Backoffs []time.Duration // after the refusals in a row
	Exact    bool            // whether a pause that the server asks for counts even if our own pause is longer
}

// Limiter are the rate limiters of a client: one for all requests, and one for each API group whose requests are refused by 503. That says nothing
// of other groups, which other servers may serve: extensions of the API server, or the pods behind a proxy. Only when several are refused at
// the same time, it is taken for an answer of the API server itself.
type Limiter struct {
	all    *bucket
	config Config // of the limiters of groups
	log    *slog.Logger

	mu      sync.Mutex         // guards refused
	refused map[string]*bucket // by the group
}

// maxGroups is of how many groups limiters are kept that have nothing to hold back any more.
const maxGroups = 100

// New returns what lets so many requests go, nil if there is no limit.
func New(c Config, log *slog.Logger) *Limiter {
	all := newBucket(c, log)
	if all == nil {
		return nil
	}
	l := &Limiter{all: all, config: c, log: log, refused: make(map[string]*bucket)}
	l.config.Rate, l.config.Burst = maxBurst, maxBurst // which is no limit
	return l
}

// groupOf returns the beginning of a path that tells who answers: up to the API group, or up to a proxy.
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
		if slashes++; slashes == 3 { // as in /apis/apps/v1 and /api/v1/pods
			return path[:i]
		}
	}
	return path
}

// proxied reports whether a group is what is behind a proxy.
func proxied(group string) bool { return strings.HasSuffix(group, "/proxy") }

// bucketOf returns the limiter of a group, nil if there is none.
func (l *Limiter) bucketOf(group string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[group]
}

// noneRefused reports whether no group is refused.
func (l *Limiter) noneRefused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.refused) == 0
}

// Wait returns when a request may go, or the context has ended.
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

// Hold holds back requests for a while, because the server asks for it: those of the group for 503, and all for 429.
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

// ofGroup reports whether a refusal speaks for one group alone. The API server itself says 429 when it has too much to do.
func ofGroup(path string, code int) bool {
	return code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests && proxied(groupOf(path))
}

// bucketFor returns the limiter of a group, which is made if there is none.
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

// Answered notes the answer to a request.
func (l *Limiter) Answered(path string, sent time.Time, code int, pause time.Duration) {
	if l == nil || code == 0 {
		return
	}
	group := groupOf(path)
	if ofGroup(path, code) {
		if r := l.bucketFor(group); !proxied(group) && l.othersRefused(r) { // one limiter slows down at a time
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

// recovered notes an answer that is no refusal, and gives up the limiter of the group when it has nothing to hold back any more.
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

// othersRefused reports whether other groups of the API server are refused now, too.
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

// bucket is a token bucket (https://en.wikipedia.org/wiki/Token_bucket) that the server can close for a while. Requests go in the order in which they
// come. After a refusal, they go one by one, with pauses that are halved by each answer that is none.
type bucket struct {
	rate     int // of tokens in a second
	burst    int // how many can be saved
	log      *slog.Logger
	backoffs []time.Duration // after the refusals in a row
	exact    bool            // whether a pause that the server asks for counts even if our own pause is longer

	mu       sync.Mutex // guards following
	next     time.Time  // when the next token comes if none was saved; the further back, the more are saved
	closed   time.Time  // until when no request may go
	warnedAt time.Time  // when it was last told that requests are held back
	backoff  time.Duration
	refused  int           // answers in a row that were refusals
	last     time.Time     // when the last answer came
	pauses   int           // that were made for them
	renewed  chan struct{} // closed when what was said to those who wait counts no more
}

// newBucket returns what lets so many requests go, nil if there is no limit.
func newBucket(c Config, log *slog.Logger) *bucket {
	if c.Rate <= 0 {
		return nil
	}
	return &bucket{
		rate: c.Rate, burst: min(max(c.Burst, 1), maxBurst), log: log,
		backoffs: c.Backoffs, exact: c.Exact, renewed: make(chan struct{}),
	}
}

// wait returns when the next request may go, or the context has ended.
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

// reserve takes a token, and tells how long to wait for it, unless that is renewed.
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

// isRefusing reports whether requests are refused or held back. A refusal is forgotten if no request was made for longer than the longest pause.
func (r *bucket) isRefusing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return now.Before(r.closed) || r.refused > 0 && now.Before(r.last.Add(2*maxBackoff))
}

// idle reports whether nothing is held back, and no request would be. While a request waits, answers come.
func (r *bucket) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return !now.Before(r.closed) && (r.refused == 0 && r.backoff == 0 || !now.Before(r.last.Add(2*maxBackoff)))
}

// deferBackoff notes a refusal that the limiter of all requests makes its pauses for. Only a pause that the server asks for is the group's own.
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

// cancel takes the token back of a request that does not wait for it any more.
func (r *bucket) cancel(renewed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewed == renewed {
		r.next = r.next.Add(-r.intervalLocked())
	}
}

// renewLocked has all who wait take other tokens, the first of which comes then.
func (r *bucket) renewLocked(next time.Time) {
	r.next = next
	close(r.renewed)
	r.renewed = make(chan struct{})
}

// applyRetryAfter holds back all requests for a while, because the server asks for it.
func (r *bucket) applyRetryAfter(requested time.Duration) {
	if r == nil || requested <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backoff == 0 { // or all would come at once then, and their refusals would be of requests that were on their way when another pause began
		r.backoff = r.backoffLocked(0)
	}
	if until := time.Now().Add(requested); until.After(r.closed) {
		r.closed = until
		r.renewLocked(until) // nothing is saved for then
	}
}

// answered notes the answer to a request. While the server refuses all of them, it gets fewer and fewer; when it does not any more, they
// come faster and faster.
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
	case late: // it was on its way when the pause began
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

// backoffLocked returns the pause after a number of pauses that have not helped: those between the attempts of a request, and then twice as long each
// time. It differs a little each time, so that operators that were refused together do not come back together.
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
