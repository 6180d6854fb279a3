// Package testrun runs a task in the background of a test, until the end of the test.
package testrun

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrStopped is the cause of a task's context after a regular stop.
var ErrStopped = errors.New("the operator was stopped")

// Runnable is a task.
type Runnable interface {
	// Run runs until the context ends, and returns nil then.
	Run(ctx context.Context) error
}

// Task is a running task.
type Task struct {
	timeout  time.Duration // to become ready, and later to stop
	ctx      context.Context
	end      context.CancelCauseFunc // of ctx; its cause is the result of Run
	stop     context.CancelFunc
	err      error       // result of Run, after the end of ctx
	stopped  atomic.Bool // Stop was called
	reported atomic.Bool // the error was returned
}

// Start starts a task, with the values of a context. The timeout applies to becoming ready, and later to stopping.
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

// Await waits until the task is ready. It returns an error if the task ends before, or times out. Later calls of other methods do not return that error again.
func (t *Task) Await(ready <-chan struct{}) (err error) {
	timeout := time.NewTimer(t.timeout)
	defer timeout.Stop()
	select {
	case <-ready:
	case <-t.ctx.Done():
		select {
		case <-ready: // it was ready, and has ended; Finish reports that
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

// Context returns a context that ends with the task. Its cause is the result of Run, or [ErrStopped].
func (t *Task) Context() context.Context { return t.ctx }

// Stop stops the task, waits for its end, and returns the result of Run. It may be called several times.
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

// Finish stops the task, and returns its error, unless another call has returned it.
func (t *Task) Finish() error {
	reported := t.reported.Load()
	if err := t.Stop(); !reported {
		return err
	}
	return nil
}
