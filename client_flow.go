package kopf

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// This file holds back requests that would flood the API server: more than so many in a second, and all while the server
// has too much to do. It runs on the goroutines of the requests.

// maxPatience is the longest pause that a server can impose.
const maxPatience = 10 * time.Minute

// maxGap is the longest pause that is made on our own account while the server refuses everything.
const maxGap = time.Minute

// maxBurst keeps the arithmetic of a bucket within the range of durations.
const maxBurst = 1_000_000_000

// refusalsLeft is how many 503 in a row are left alone, if they do not say when to come back: extensions of the API server that are down
// answer so, and the rest of it is well.
const refusalsLeft = 2

// flow is a token bucket (https://en.wikipedia.org/wiki/Token_bucket) that the server can close for a while. Requests go in the order in which they
// come. After a refusal, they go one by one, with gaps that are halved by each answer that is none.
type flow struct {
	rate  int // of tokens in a second
	burst int // how many can be saved
	log   *slog.Logger
	gaps  []time.Duration // after the refusals in a row
	exact bool            // whether a wish of the server counts even if our own pause is longer

	mu      sync.Mutex // guards following
	next    time.Time  // when the next token comes if none was saved; the further back, the more are saved
	closed  time.Time  // until when nobody may go
	told    time.Time  // when it was last told that requests are held back
	gap     time.Duration
	refused int           // answers in a row that were refusals
	pauses  int           // that were made for them
	renewed chan struct{} // closed when what was said to those who wait counts no more
}

// newFlow returns what lets so many requests go, nil if there is no limit.
func newFlow(s *NetworkingSettings, log *slog.Logger) *flow {
	if s.RequestRate <= 0 {
		return nil
	}
	return &flow{
		rate: s.RequestRate, burst: min(max(s.RequestBurst, 1), maxBurst), log: log,
		gaps: s.ErrorBackoffs, exact: s.EnforceRetryAfter, renewed: make(chan struct{}),
	}
}

// wait returns when the next request may go, or the context has ended.
func (f *flow) wait(ctx context.Context) error {
	if f == nil {
		return nil
	}
	for {
		pause, renewed := f.take(time.Now())
		if pause <= 0 {
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-renewed:
		case <-ctx.Done():
			t.Stop()
			f.giveBack(renewed)
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

// take takes a token, and tells how long to wait for it, unless that is renewed.
func (f *flow) take(now time.Time) (pause time.Duration, renewed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	each, saved := f.eachLocked(), time.Duration(0)
	if f.gap == 0 {
		saved = time.Duration(f.burst-1) * each
	}
	if full := now.Add(-saved); f.next.Before(full) {
		f.next = full
	}
	pause = max(f.next.Sub(now), f.closed.Sub(now), 0)
	f.next = f.next.Add(each)
	if pause > time.Second && now.Sub(f.told) > time.Minute {
		f.told = now
		f.log.Warn(fmt.Sprintf("Requests are held back for %s, not to flood the API server.", pause.Round(time.Millisecond)),
			"rate", f.rate, "burst", f.burst, "refused", f.refused)
	}
	return pause, f.renewed
}

// eachLocked returns the time between two tokens.
func (f *flow) eachLocked() time.Duration { return max(time.Second/time.Duration(f.rate), f.gap) }

// giveBack takes the token back of somebody who does not wait for it any more.
func (f *flow) giveBack(renewed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed == renewed {
		f.next = f.next.Add(-f.eachLocked())
	}
}

// renewLocked has all who wait take other tokens, the first of which comes then.
func (f *flow) renewLocked(next time.Time) {
	f.next = next
	close(f.renewed)
	f.renewed = make(chan struct{})
}

// hold holds back all requests for a while, because the server wishes it.
func (f *flow) hold(wish time.Duration) {
	if f == nil || wish <= 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if until := time.Now().Add(wish); until.After(f.closed) {
		f.closed = until
		f.renewLocked(until) // nothing is saved for then
	}
}

// answered notes the answer to a request. While the server refuses all of them, it gets fewer and fewer; when it does not any more, they
// come faster and faster.
func (f *flow) answered(sent time.Time, code int, wish time.Duration) {
	if f == nil || code == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, late := time.Now(), sent.Before(f.closed)
	if code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		if f.refused, f.pauses = 0, 0; f.gap > 0 && !late {
			if f.gap /= 2; f.gap <= time.Second/time.Duration(f.rate) {
				f.gap = 0
			}
			f.renewLocked(now.Add(f.eachLocked()))
		}
		return
	}
	f.refused++
	own := f.ownLocked(f.pauses)
	switch {
	case code == http.StatusServiceUnavailable && wish == 0 && f.refused <= refusalsLeft:
		return
	case late: // it was on its way when the pause began
		own = 0
	default:
		f.pauses++
		f.gap = own
	}
	if wish > 0 && f.exact {
		own = 0
	}
	if until := now.Add(max(wish, own)); until.After(f.closed) {
		f.closed = until
		f.renewLocked(until)
	}
}

// ownLocked returns the pause after a number of pauses that have not helped: those between the attempts of a request, and then twice as long each
// time. It differs a little each time, so that operators that were refused together do not come back together.
func (f *flow) ownLocked(pauses int) time.Duration {
	last := time.Second
	if n := len(f.gaps); n > 0 {
		last = f.gaps[min(pauses, n-1)]
		pauses = max(pauses-n+1, 0)
	}
	if last < maxGap {
		last = min(max(last, time.Millisecond)<<min(pauses, 20), maxGap)
	}
	return last + time.Duration(rand.Int64N(int64(last)/10+1))
}
