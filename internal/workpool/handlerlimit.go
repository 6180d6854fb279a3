package workpool

import (
	"time"
)

// HandlerLimit is how many handlers may run at the same time. A nil one has no limit.
type HandlerLimit struct{ tokens chan struct{} }

// NewHandlerLimit returns a limit of so many handlers, nil for none.
func NewHandlerLimit(maxWorkers int) *HandlerLimit {
	if maxWorkers <= 0 {
		return nil
	}
	return &HandlerLimit{tokens: make(chan struct{}, maxWorkers)}
}

// Acquire waits for a token, and reports whether it got one before the channel was closed. Tokens are given in the order in which they
// were asked for. Meanwhile, the worker is not active, and another one may be.
func (l *HandlerLimit) Acquire(done <-chan struct{}, early <-chan time.Time, w *Limiter) (acquired, waited bool) {
	if l == nil {
		return true, false
	}
	select {
	case l.tokens <- struct{}{}:
		return true, false
	default:
	}
	w.Release()
	defer w.Acquire()
	select {
	case l.tokens <- struct{}{}:
		return true, true
	case <-early:
	case <-done:
	}
	return false, true
}

// Release gives a token back.
func (l *HandlerLimit) Release() {
	if l != nil {
		<-l.tokens
	}
}
