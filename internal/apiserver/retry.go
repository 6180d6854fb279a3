package apiserver

import (
	"sync"
	"time"
	"weak"
)

// The controllers of a cluster retry failed work, such as the deletion of an object that a webhook cannot convert. This server does the work of
// controllers on the goroutines of requests, and retries failed work on a timer.

const (
	firstRetry  = time.Second
	lastRetry   = time.Minute
	maxAttempts = 20 // afterwards, only the next request about the object continues the work
)

// retries are the scheduled retries. They end with the server: a timer does not keep the server in memory.
type retries struct {
	mu      sync.Mutex // guards following
	pending map[objectKey]*retry
}

// retry is the state of one object. Its entry stays until its last attempt has ended, so there is at most one attempt at a time.
type retry struct {
	attempts int
	timed    bool            // whether its timer runs
	running  bool            // whether an attempt runs
	next     func(s *Server) // the function to call after that attempt, nil if nothing has failed since it began
}

// tryLater schedules a retry of failed work for an object. The delay doubles with each attempt. If the function fails, it calls tryLater.
func (s *Server) tryLater(object objectKey, try func(s *Server)) {
	s.retries.mu.Lock()
	defer s.retries.mu.Unlock()
	r := s.retries.pending[object]
	if r == nil {
		r = &retry{}
		if s.retries.pending == nil {
			s.retries.pending = make(map[objectKey]*retry)
		}
		s.retries.pending[object] = r
	}
	switch {
	case r.attempts >= maxAttempts || r.timed:
	case r.running: // the attempt itself failed, or a concurrent request
		r.next = try
	default:
		s.startTimerLocked(object, r, try)
	}
}

// startTimerLocked starts the timer of the next attempt. The caller holds the lock.
func (s *Server) startTimerLocked(object objectKey, r *retry, try func(s *Server)) {
	delay := min(firstRetry<<min(r.attempts, 10), lastRetry)
	r.attempts++
	r.timed = true
	server := weak.Make(s)
	time.AfterFunc(delay, func() {
		if s := server.Value(); s != nil {
			s.tryNow(object, r, try)
		}
	})
}

// tryNow retries failed work for an object, and forgets the object unless the attempt fails.
func (s *Server) tryNow(object objectKey, r *retry, try func(s *Server)) {
	s.retries.mu.Lock()
	r.timed, r.running = false, true
	s.retries.mu.Unlock()
	try(s)
	s.retries.mu.Lock()
	defer s.retries.mu.Unlock()
	next := r.next
	r.running, r.next = false, nil
	if next == nil {
		delete(s.retries.pending, object)
		return
	}
	s.startTimerLocked(object, r, next)
}
