// Package await waits for a limited time.
package await

import (
	"context"
	"sync"
	"time"
)

// For waits for tasks until some time after the end of ctx, and reports whether they have ended.
func For(ctx context.Context, tasks *sync.WaitGroup, grace time.Duration) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tasks.Wait()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// Outlive returns a context that ends some time after the end of ctx.
func Outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	outliving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = Sleep(outliving, grace)
		cancel()
	})
	return outliving, func() {
		stop()
		cancel()
	}
}

// EndAfter returns a context that also ends some time after the end of another context.
func EndAfter(ctx, other context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, func() {
		_ = Sleep(ctx, grace)
		cancel()
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// Sleep sleeps. It returns the cause of the context if that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
