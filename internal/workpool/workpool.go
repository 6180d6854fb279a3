// Package workpool limits how many workers work on objects at the same time. Ten thousand new objects need no ten thousand goroutines, most of
// which would wait for the API server with all that they hold: the objects wait as they came, and the listings that bring more
// of them wait, too. A worker that runs a function of a user, or pauses, does not count, so that no other one waits for those.
package workpool

import (
	"context"
	"sync"
	"time"
)

// Limiter limits the numbers of active workers and of handlers that run. A nil Limiter does not.
type Limiter struct {
	limit    int
	handlers *Slots // of handlers that run; nil for no limit

	mu      sync.Mutex // guards following
	working int
	waiting []chan struct{} // workers that want to be active again, the first one first
	backlog turns           // workers that are to be started
	drained []chan struct{} // closed when the backlog is short
}

// New returns a limit of so many active workers, and of so many handlers, if that is not zero.
func New(workers, handlers int) *Limiter {
	l := &Limiter{limit: workers}
	if handlers > 0 {
		l.handlers = NewSlots(handlers)
	}
	return l
}

// Start has a function run as an active worker, on a goroutine of its own or on that of one that has ended, as soon as the limit allows: at once, or as the
// returned turn. When the function returns, another worker may be active.
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

// work runs one worker after the other, for as long as any wait, on one goroutine: its stack has grown to what they need.
func (l *Limiter) work(run func()) {
	defer func() {
		if run != nil { // it has ended the goroutine
			l.Release()
		}
	}()
	for run != nil {
		run()
		run = l.next()
	}
}

// Hurry makes the start of a worker urgent, if it waits.
func (l *Limiter) Hurry(t *Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backlog.hurry(t)
}

// Release lets another worker be active: one that waits in Acquire, or one that has not started.
func (l *Limiter) Release() {
	if l == nil {
		return
	}
	if run := l.next(); run != nil {
		go l.work(run)
	}
}

// next lets a worker go on that waits in Acquire, or returns one that is to be started, nil if there is none.
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

// yieldAfter is how long a function of a user may take before its worker is not active any more: most take less than it costs to let another one begin.
const yieldAfter = time.Millisecond

// Yield has the worker not be active any more if the returned function is not called soon, which waits then until it may be active again.
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

// AcquireHandler waits until a handler may run, and reports whether that was before one of the channels was closed or sent. Handlers run in the order in which they have asked, the urgent ones first. If it is asked for on the goroutine of an active worker, that is not active while it waits, and another one
// may be.
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

// maxBacklog is how many workers may still wait to be started when more objects are listed.
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

// NewContext returns a context for the requests of workers, which are not active while they pause.
func NewContext(ctx context.Context, l *Limiter) context.Context {
	return context.WithValue(ctx, contextKey{}, l)
}

// FromContext returns the limit of the worker that makes a request, nil if there is none.
func FromContext(ctx context.Context) *Limiter {
	l, _ := ctx.Value(contextKey{}).(*Limiter)
	return l
}
