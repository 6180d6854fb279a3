// Package stopper stops background functions in steps: it signals the stop, cancels their contexts, and finally abandons them.
package stopper

import (
	"context"
	"sync"
	"time"
)

// Set is the set of reasons to stop a function, and of the steps reached. Items are only ever added.
type Set uint8

// The reasons to stop a function, and the steps.
const (
	FiltersMismatch Set = 1 << iota
	ResourceDeleted
	OperatorPausing
	OperatorExiting
	Signalled // the CancellationBackoff has begun: the function is signaled, its context is still valid
	Cancelled // its context is canceled
	Abandoned // it has not returned in time, and is not waited for any more
	Done      // it has returned, or was not running
)

// Has reports whether all items are in the set.
func (s Set) Has(all Set) bool { return s&all == all }

// Stopper signals a function to stop, and cancels its context. A nil Stopper, as in arguments made by hand, never does.
type Stopper struct {
	mu     sync.Mutex // guards following
	set    Set
	since  time.Time               // of the first item
	done   chan struct{}           // created on demand
	cancel context.CancelCauseFunc // cancels the context of the running attempt, if any
	cause  error                   // of End
}

// IsSet reports whether the function must stop.
func (s *Stopper) IsSet() bool { return s.Get() != 0 }

// Get returns the reasons to stop and the steps, or zero.
func (s *Stopper) Get() Set {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// Stopping returns a channel that is closed when the function must stop.
func (s *Stopper) Stopping() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.set != 0 {
			close(s.done)
		}
	}
	return s.done
}

// Sleep sleeps, and reports whether the function may continue: it must not stop, and its call is not over.
func (s *Stopper) Sleep(d time.Duration, over <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.Stopping():
		return false
	case <-over:
		return false
	case <-t.C:
	}
	select {
	case <-over: // at the same moment
		return false
	default:
		return !s.IsSet()
	}
}

// Add adds reasons, and reports whether they are the first ones.
func (s *Stopper) Add(reasons Set, now time.Time) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.set == 0; first {
		s.since = now
		if s.done != nil {
			close(s.done)
		}
	}
	s.set |= reasons
	return first
}

// Age returns the time since the first signal to stop.
func (s *Stopper) Age(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.since)
}

// End cancels the contexts of the running attempt and of later ones, with a cause.
func (s *Stopper) End(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set |= Cancelled
	if s.cause = cause; s.cancel != nil {
		s.cancel(cause)
	}
}

// Attempt returns the context of one attempt. The caller must call the returned function at the end of the attempt.
func (s *Stopper) Attempt(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	release := func() {}
	if !deadline.IsZero() {
		ctx, release = context.WithDeadline(ctx, deadline)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	if s.set.Has(Cancelled) {
		cancel(s.cause)
	}
	return ctx, func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		cancel(nil)
		release()
	}
}
