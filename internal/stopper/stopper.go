// Package stopper asks functions that run in the background to stop, in steps: it tells them, ends their contexts, and gives them up.
package stopper

import (
	"context"
	"sync"
	"time"
)

// Set is why a function is asked to stop, and how far that has come. Items are only ever added.
type Set uint8

// The reasons to stop a function, and the steps of that.
const (
	FiltersMismatch Set = 1 << iota
	ResourceDeleted
	OperatorPausing
	OperatorExiting
	Signalled // the time of the CancellationBackoff is running: the function is asked, its context goes on
	Cancelled // its context has ended
	Abandoned // it has not returned in time, and is not waited for any more
	Done      // it has returned, or was not running
)

// Has reports whether all items are there.
func (s Set) Has(all Set) bool { return s&all == all }

// Stopper asks a function to stop, and ends its context. Nil ones, as of arguments that were made by hand, never do.
type Stopper struct {
	mu     sync.Mutex // guards following
	set    Set
	since  time.Time               // of the first item
	done   chan struct{}           // nil until it is asked for
	cancel context.CancelCauseFunc // ends the context of the attempt under way, if there is one
	cause  error                   // of End
}

// IsSet reports whether the function is asked to stop.
func (s *Stopper) IsSet() bool { return s.Get() != 0 }

// Get returns why the function is asked to stop, and how far that has come; zero if it is not.
func (s *Stopper) Get() Set {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// Stopping returns a channel that is closed when the function is asked to stop.
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

// Sleep waits for a time, and reports whether the function may go on: whether it is not asked to stop, and its call is not over.
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

// Age returns how long ago the function was first asked to stop.
func (s *Stopper) Age(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.since)
}

// End ends the context of the attempt under way, and of those to come, for a cause.
func (s *Stopper) End(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set |= Cancelled
	if s.cause = cause; s.cancel != nil {
		s.cancel(cause)
	}
}

// Attempt makes the context of one attempt. The function that it returns is called when that is over.
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
