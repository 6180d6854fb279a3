package workpool

import (
	"context"
	"sync"
)

// Firsts runs the first of equal tasks to its end before the others begin, because they may then be unnecessary. The zero value is ready to use.
type Firsts struct {
	mu      sync.Mutex               // guards following
	running map[string]chan struct{} // closed at the end of the first task
}

// Begin waits until no equal task is running, or the context ends. A worker in the context is not active while it waits, because the running task may have to
// become active again after a delay. The caller must call end at the end of the task.
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
