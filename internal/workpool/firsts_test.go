package workpool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFirsts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 0)
		ctx, cancel := context.WithCancel(NewContext(t.Context(), l))
		defer cancel()
		var f Firsts
		begun := make(chan error, 3)
		var first func()
		l.Start(true, func() {
			end, err := f.Begin(ctx, "a")
			first = end
			begun <- err
			l.Release() // as during a delay
			time.Sleep(time.Minute)
			l.Acquire()
			end()
		})
		synctest.Wait()
		for range 2 { // more than the limit
			l.Start(true, func() {
				end, err := f.Begin(ctx, "a")
				if err == nil {
					end()
				}
				begun <- err
			})
		}
		other, err := f.Begin(ctx, "b")
		if synctest.Wait(); err != nil || len(begun) != 1 {
			t.Fatalf("%d equal tasks have begun, want the first one alone, and another one with %v", len(begun), err)
		}
		other()
		time.Sleep(2 * time.Minute)
		if synctest.Wait(); len(begun) != 3 || first == nil {
			t.Fatalf("%d equal tasks have begun after the first one, want all 3", len(begun))
		}
		held, err := f.Begin(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		defer held()
		l.Start(true, func() {
			_, err := f.Begin(ctx, "a")
			begun <- err
		})
		synctest.Wait()
		for len(begun) > 0 {
			if err := <-begun; err != nil {
				t.Error(err)
			}
		}
		cancel()
		if err := <-begun; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v for a task that has waited until its context has ended, want %v", err, context.Canceled)
		}
	})
}
