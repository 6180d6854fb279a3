// Package testrun runs something in the background of a test, until the test is over.
package testrun

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrStopped is the cause of the end of a task's context after it was stopped in good order.
var ErrStopped = errors.New("the operator was stopped")

// Runnable is what runs.
type Runnable interface {
	// Run runs until the context ends, and returns nil then.
	Run(ctx context.Context) error
}

// Task is something that runs in the background.
type Task struct {
	timeout  time.Duration // for it to become ready, and later to stop
	ctx      context.Context
	end      context.CancelCauseFunc // of ctx; its cause is what has been returned
	stop     context.CancelFunc
	err      error       // what has been returned, once ctx has ended
	stopped  atomic.Bool // Stop was called
	reported atomic.Bool // the error was returned
}

// Start starts a task, with the values of a context. It may take so long to become ready, and later to stop.
func Start(parent context.Context, r Runnable, timeout time.Duration) *Task {
	t := &Task{timeout: timeout}
	parent = context.WithoutCancel(parent)
	var ctx context.Context
	ctx, t.stop = context.WithCancel(parent)
	t.ctx, t.end = context.WithCancelCause(parent)
	go func() {
		t.err = r.Run(ctx)
		cause := t.err
		switch {
		case cause == nil && t.stopped.Load():
			cause = ErrStopped
		case cause == nil:
			t.err = errors.New("the operator has ended without being told to")
			cause = t.err
		}
		t.end(cause)
	}()
	return t
}

// Await waits until the task is ready. It fails if the task ends before that, or if it takes too long, which no later call reports then.
func (t *Task) Await(ready <-chan struct{}) (err error) {
	timeout := time.NewTimer(t.timeout)
	defer timeout.Stop()
	select {
	case <-ready:
	case <-t.ctx.Done():
		select {
		case <-ready: // it was ready, and has ended since, which is reported at the end
		default:
			err = t.err
		}
	case <-timeout.C:
		err = fmt.Errorf("still starting after %s", t.timeout)
	}
	if err != nil {
		t.reported.Store(true)
	}
	return err
}

// Context returns a context that ends with the task, for what that has returned, or for [ErrStopped].
func (t *Task) Context() context.Context { return t.ctx }

// Stop stops the task, waits until it has ended, and returns what it has returned. It may be called several times.
func (t *Task) Stop() error {
	t.stopped.Store(true)
	t.stop()
	timeout := time.NewTimer(t.timeout)
	defer timeout.Stop()
	select {
	case <-t.ctx.Done():
		t.reported.Store(true)
		return t.err
	case <-timeout.C:
		return fmt.Errorf("the operator is still running %s after it was told to stop", t.timeout)
	}
}

// Finish stops the task, and returns its error unless another call has returned that.
func (t *Task) Finish() error {
	reported := t.reported.Load()
	if err := t.Stop(); !reported {
		return err
	}
	return nil
}
