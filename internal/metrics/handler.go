package metrics

import (
	"sync/atomic"
	"time"
)

// Result is the result of an attempt of a handler.
type Result int

// The results of attempts, in the order of the page.
const (
	Success Result = iota
	Retry          // retried later
	Failure        // permanent
	Ignored
	Waiting // for sub-handlers
	Cancelled
	results
)

// String returns the label value of the result, on the page and in the audit log.
func (r Result) String() string {
	return [...]string{"success", "retry", "failure", "ignored", "waiting", "cancelled"}[r]
}

// Kind says how the calls of a handler are counted.
type Kind int

// The kinds of handlers.
const (
	Ordinary  Kind = iota
	Endless        // long-running by design: the durations of its calls are not counted
	Reconcile      // counted as a controller of controller-runtime
)

// Described is a handler to count.
type Described struct {
	ID   string
	Kind Kind
}

// Handler holds the counters of one handler. Nil counts nothing.
type Handler struct {
	kind      atomic.Int32 // the greatest Kind of the handlers with the ID
	results   [results]atomic.Int64
	durations histogram
	succeeded atomic.Int64 // time of the last success, in nanoseconds since 1970; 0 if there was none
	panics    atomic.Int64
	settled   [2]atomic.Int64 // successful calls of a reconcile handler, and the calls among them that requested another call
	running   ages
	subs      *Handler
}

// Call is one running attempt.
type Call struct {
	handler *Handler
	begun   time.Time
	place   int32
}

// Begin counts the start of an attempt.
//
//go:noinline
func (h *Handler) Begin(now time.Time) Call {
	if h == nil {
		return Call{}
	}
	return Call{h, now, h.running.begin(now)}
}

// End counts the end of the attempt. The success of a reconcile handler is counted by [Handler.Count] instead, because its patch may still be refused.
func (c Call) End(r Result, panicked bool) {
	h := c.handler
	if h == nil {
		return
	}
	now := time.Now()
	h.running.end(c.place)
	if h.durations.observe(now.Sub(c.begun)); r != Success || Kind(h.kind.Load()) != Reconcile {
		h.Count(r, now)
	}
	if panicked {
		h.panics.Add(1)
	}
}

// Count counts the result of an attempt.
func (h *Handler) Count(r Result, now time.Time) {
	if h == nil {
		return
	}
	if h.results[r].Add(1); r == Success {
		h.succeeded.Store(now.UnixNano())
	}
}

// Settled counts a successful call of a reconcile handler. The flag says whether the call requested another one.
func (h *Handler) Settled(again bool) {
	if h != nil {
		h.settled[int(Number(again))].Add(1)
	}
}
