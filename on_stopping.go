package kopf

import (
	"context"
	"strings"
	"sync"
	"time"
)

// This file knows how a daemon or a timer is asked to stop: why, how far that has come, and how the
// function notices. The engine asks; the function reads on its own goroutine.

// StoppingReason says why a daemon or a timer is asked to stop, and how far that has come. It is a set: reasons are only
// ever added.
type StoppingReason uint8

const (
	// FiltersMismatch says that the object does not match the filters of the handler any more.
	FiltersMismatch StoppingReason = 1 << iota
	// ResourceDeleted says that the object is being deleted, or is gone.
	ResourceDeleted
	// OperatorPausing says that the operator gives way to another one.
	OperatorPausing
	// OperatorExiting says that the operator stops.
	OperatorExiting
	// DaemonSignalled says that the time of the CancellationBackoff is running: the function is asked, its context goes on.
	DaemonSignalled
	// DaemonCancelled says that the context of the function has ended.
	DaemonCancelled
	// DaemonAbandoned says that the function has not returned in time and is not waited for any more.
	DaemonAbandoned
	// DaemonDone says that the function has returned, or was not running.
	DaemonDone
)

var stoppingNames = [...]string{
	"FiltersMismatch", "ResourceDeleted", "OperatorPausing", "OperatorExiting",
	"DaemonSignalled", "DaemonCancelled", "DaemonAbandoned", "DaemonDone",
}

// Has reports whether all of the given reasons are in the set.
func (r StoppingReason) Has(reasons StoppingReason) bool { return r&reasons == reasons }

// String returns the names of the reasons with "|" between them, "" for none.
func (r StoppingReason) String() string {
	var names []string
	for i, name := range stoppingNames {
		if r.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// DaemonStopped is the cause, as of [context.Cause], for which the context of a daemon or timer has ended.
type DaemonStopped struct {
	// Reason is why it was asked to stop.
	Reason StoppingReason
}

// Error says why the daemon is asked to stop.
func (e *DaemonStopped) Error() string { return "the daemon is asked to stop: " + e.Reason.String() }

// Stopper tells a daemon or a timer whether it is asked to stop. Once it is, it always is.
// A Stopper is safe for concurrent use. That of a value that was made by hand is never set.
type Stopper struct {
	mu     sync.Mutex // guards following
	reason StoppingReason
	since  time.Time               // of the first reason
	done   chan struct{}           // nil until Done is called
	cancel context.CancelCauseFunc // ends the context of the attempt under way, if there is one
}

// IsSet reports whether the function is asked to stop.
func (s *Stopper) IsSet() bool { return s.Reason() != 0 }

// Reason returns why the function is asked to stop, and how far that has come; zero if it is not.
func (s *Stopper) Reason() StoppingReason {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Done returns a channel that is closed when the function is asked to stop, which can be earlier than the end of its context.
func (s *Stopper) Done() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.reason != 0 {
			close(s.done)
		}
	}
	return s.done
}

// Wait sleeps until the function is asked to stop, or for the given time, and reports whether it is asked to
// stop. It is how a daemon waits between two runs of its loop.
func (s *Stopper) Wait(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-s.Done():
		return true
	case <-t.C:
		return s.IsSet()
	}
}

// add adds reasons, and reports whether they are the first ones.
func (s *Stopper) add(reasons StoppingReason, now time.Time) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.reason == 0; first {
		s.since = now
		if s.done != nil {
			close(s.done)
		}
	}
	s.reason |= reasons
	return first
}

// age returns how long ago the function was first asked to stop.
func (s *Stopper) age(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.since)
}

// end ends the context of the attempt under way, and of those to come.
func (s *Stopper) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason |= DaemonCancelled
	if s.cancel != nil {
		s.cancel(&DaemonStopped{s.reason})
	}
}

// attempt makes the context of one attempt. The function that it returns is called when that is over.
func (s *Stopper) attempt(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	release := func() {}
	if !deadline.IsZero() {
		ctx, release = context.WithDeadline(ctx, deadline)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	if s.reason.Has(DaemonCancelled) {
		cancel(&DaemonStopped{s.reason})
	}
	return ctx, func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		cancel(nil)
		release()
	}
}
