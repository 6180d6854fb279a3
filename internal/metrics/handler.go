package metrics

import (
	"sync/atomic"
	"time"
)

// Result is how an attempt of a handler has ended.
type Result int

// The results of attempts, in the order of the page.
const (
	Success Result = iota
	Retry          // to be tried again
	Failure        // permanent
	Ignored
	Waiting // for sub-handlers
	Cancelled
	results
)

// String returns the result as the page and the audit have it.
func (r Result) String() string {
	return [...]string{"success", "retry", "failure", "ignored", "waiting", "cancelled"}[r]
}

// Kind is what is expected of the calls of a handler.
type Kind int

// The kinds of handlers.
const (
	Ordinary  Kind = iota
	Endless        // its calls are to last: how long they do says nothing
	Reconcile      // it is a controller, in the words of other libraries
)

// Described is a handler that is counted.
type Described struct {
	ID   string
	Kind Kind
}

// Handler holds the counters of one handler. Nil counts nothing.
type Handler struct {
	kind      Kind
	results   [results]atomic.Int64
	durations histogram
	succeeded atomic.Int64 // when the last success was, in nanoseconds since 1970; 0 if there was none
	panics    atomic.Int64
	settled   [2]atomic.Int64 // calls of a reconcile handler that have not failed, and those of them that have asked for another call
	running   ages
	subs      *Handler
}

// Call is one attempt under way.
type Call struct {
	handler *Handler
	begun   time.Time
	place   int32
}

// Begin counts an attempt that begins.
//
//go:noinline
func (h *Handler) Begin(now time.Time) Call {
	if h == nil {
		return Call{}
	}
	return Call{h, now, h.running.begin(now)}
}

// End counts the end of the attempt.
func (c Call) End(r Result, panicked bool) {
	h := c.handler
	if h == nil {
		return
	}
	now := time.Now()
	h.running.end(c.place)
	h.results[r].Add(1)
	h.durations.observe(now.Sub(c.begun))
	if r == Success {
		h.succeeded.Store(now.UnixNano())
	}
	if panicked {
		h.panics.Add(1)
	}
}

// Settled counts a call of a reconcile handler that has not failed, and may have asked for another one.
func (h *Handler) Settled(again bool) {
	if h != nil {
		h.settled[int(Number(again))].Add(1)
	}
}
