// Package workpool limits the number of concurrently active workers. Ten thousand new objects do not need ten thousand goroutines, most of which would wait for
// the API server and retain memory. Instead, the objects wait in order, and the lists that deliver more of them wait, too. A worker that runs a user's
// function, or that waits, does not count, so that the others do not wait for it.
package workpool

import (
	"context"
	"sync"
	"time"
)

// Limiter limits the number of active workers and of running handlers. A nil Limiter has no limits.
type Limiter struct {
	limit    int
	handlers *Slots // for running handlers; nil for no limit

	mu      sync.Mutex // guards following
	working int
	waiting []chan struct{} // workers waiting to become active again, in order
	backlog turns           // workers to be started
	drained []chan struct{} // closed when the backlog is short
}

// New returns a limiter for a number of active workers, and for a number of handlers, if not zero.
func New(workers, handlers int) *Limiter {
	l := &Limiter{limit: workers}
	if handlers > 0 {
		l.handlers = NewSlots(handlers)
	}
	return l
}

// Start runs a function as an active worker, on a new goroutine or on one of a worker that has ended. It does so as soon as the limit allows: immediately, or
// when the returned turn may proceed. When the function returns, another worker may become active.
func (l *Limiter) Start(urgent bool, run func()) *Turn {
	if l == nil {
		go run()
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.working >= l.limit {
		t := &Turn{run: run, urgent: urgent}
		l.backlog.push(t)
		return t
	}
	l.working++
	go l.work(run)
	return nil
}

// work runs waiting workers, one after another, on one goroutine, whose stack has already grown.
func (l *Limiter) work(run func()) {
	defer func() {
		if run != nil { // it ended the goroutine
			l.Release()
		}
	}()
	for run != nil {
		run()
		run = l.next()
	}
}

// Hurry makes the start of a waiting worker urgent.
func (l *Limiter) Hurry(t *Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backlog.hurry(t)
}

// Release lets another worker become active: one that waits in Acquire, or a new one.
func (l *Limiter) Release() {
	if l == nil {
		return
	}
	if run := l.next(); run != nil {
		go l.work(run)
	}
}

// next wakes a worker that waits in Acquire, or returns one to be started, or nil.
func (l *Limiter) next() (run func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		return nil
	}
	if l.working > l.limit || l.backlog.waiting == 0 {
		l.working--
		return nil
	}
	run = l.backlog.pop().run
	if l.backlog.waiting <= maxBacklog {
		for _, waits := range l.drained {
			close(waits)
		}
		l.drained = nil
	}
	return run
}

// Acquire waits until the worker may be active again.
func (l *Limiter) Acquire() {
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.working < l.limit {
		l.working++
		l.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	<-turn
}

// yieldAfter is how long a user's function may run before its worker becomes inactive: most functions take less time than the switch to another worker.
const yieldAfter = time.Millisecond

// Yield makes the worker inactive, unless the caller soon calls the returned function, which waits until the worker may be active again.
func (l *Limiter) Yield() (regain func()) {
	if l == nil {
		return func() {}
	}
	yielding := time.AfterFunc(yieldAfter, l.Release)
	return func() {
		if !yielding.Stop() {
			l.Acquire()
		}
	}
}

// AcquireHandler waits until a handler may run, and reports whether that was before one of the channels was ready. Urgent handlers come first, and then in
// order. If the caller is an active worker, it is inactive while it waits, and another one may be active.
func (l *Limiter) AcquireHandler(done <-chan struct{}, early <-chan time.Time, active, urgent bool) (acquired, waited bool) {
	if l == nil || l.handlers == nil {
		return true, false
	}
	t := l.handlers.Enter(urgent)
	select {
	case <-t.Ready():
		return true, false
	default:
	}
	if active {
		l.Release()
		defer l.Acquire()
	}
	select {
	case <-t.Ready():
		return true, true
	case <-early:
	case <-done:
	}
	l.handlers.Leave(t)
	return false, true
}

// ReleaseHandler lets the next handler run.
func (l *Limiter) ReleaseHandler() {
	if l != nil && l.handlers != nil {
		l.handlers.Release()
	}
}

// maxBacklog is the number of waiting workers up to which more objects are listed.
const maxBacklog = 100

// WaitBacklog waits until the backlog is short, for a limited time.
func (l *Limiter) WaitBacklog(ctx context.Context, limit time.Duration) {
	if l == nil || limit <= 0 {
		return
	}
	l.mu.Lock()
	if l.backlog.waiting <= maxBacklog {
		l.mu.Unlock()
		return
	}
	drained := make(chan struct{})
	l.drained = append(l.drained, drained)
	l.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-drained:
	case <-t.C:
	case <-ctx.Done():
	}
}

type contextKey struct{}

// NewContext returns a context for the requests of workers, which are inactive while they wait.
func NewContext(ctx context.Context, l *Limiter) context.Context {
	return context.WithValue(ctx, contextKey{}, l)
}

// FromContext returns the limiter of the worker that makes a request, or nil.
func FromContext(ctx context.Context) *Limiter {
	l, _ := ctx.Value(contextKey{}).(*Limiter)
	return l
}
