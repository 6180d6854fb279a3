package workpool

import (
	"context"
	"sync"
)

// Firsts has the first one of equal tasks end before the others begin, which may have nothing to do any more then. The zero value is ready to use.
type Firsts struct {
	mu      sync.Mutex               // guards following
	running map[string]chan struct{} // closed when the first one has ended
}

// Begin begins a task: at once if there is no equal one, or when the first one has ended, unless the context ends before. The worker, if the context is of one, is not active
// while it waits: the first one may be in a pause, and has to become active again after that. The returned function is to be called at the end of the task.
func (f *Firsts) Begin(ctx context.Context, name string) (end func(), err error) {
	f.mu.Lock()
	running := f.running[name]
	if running == nil {
		defer f.mu.Unlock()
		if f.running == nil {
			f.running = make(map[string]chan struct{})
		}
		done := make(chan struct{})
		f.running[name] = done
		return func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.running, name)
			close(done)
		}, nil
	}
	f.mu.Unlock()
	l := FromContext(ctx)
	l.Release()
	defer l.Acquire()
	select {
	case <-running:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
