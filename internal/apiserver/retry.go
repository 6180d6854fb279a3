package apiserver

import (
	"sync"
	"time"
	"weak"
)

// The controllers of a cluster try again what has failed, such as the deletion of an object that a webhook cannot convert. This server does the work of controllers on the goroutines of
// requests, and tries again what has failed there on a timer.

const (
	firstRetry  = time.Second
	lastRetry   = time.Minute
	maxAttempts = 20 // then the next request about the object goes on
)

// retries are what is tried again later. They end with the server: a timer does not keep it in memory.
type retries struct {
	mu      sync.Mutex // guards following
	pending map[objectKey]*retry
}

// retry is one object that is tried again. Its entry stays until the last of its attempts has ended, so there is at most one attempt at a time.
type retry struct {
	attempts int
	timed    bool            // whether its timer runs
	running  bool            // whether an attempt runs
	next     func(s *Server) // what is tried after that attempt, nil if nothing has failed since it began
}

// tryLater calls a function later that tries again what has failed for an object. The time between two attempts doubles. If the function fails, it calls tryLater.
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
	case r.running: // the attempt itself has failed, or a request meanwhile
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

// tryNow tries again what has failed for an object, and forgets it unless it has failed again.
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
