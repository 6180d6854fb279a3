package stopper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stopper
		began, cause := time.Now(), errors.New("the operator exits")
		ctx, over := s.Attempt(t.Context(), time.Time{})
		if !s.Sleep(time.Second, ctx.Done()) || s.IsSet() {
			t.Fatal("a function that nothing asks to stop may go on")
		}
		time.AfterFunc(time.Second, func() { s.Add(OperatorExiting, began) })
		if s.Sleep(time.Minute, ctx.Done()) || time.Since(began) != 2*time.Second {
			t.Fatalf("the function slept for %s", time.Since(began))
		}
		<-s.Stopping() // also after the signal
		if s.Add(Signalled, time.Time{}) || s.Age(time.Now()) != 2*time.Second || !s.Get().Has(OperatorExiting|Signalled) || ctx.Err() != nil {
			t.Errorf("got %b since %s", s.Get(), s.Age(time.Now()))
		}
		s.End(cause)
		if context.Cause(ctx) != cause || !s.Get().Has(Cancelled) {
			t.Errorf("the context has ended because of %v", context.Cause(ctx))
		}
		over()
		next, over := s.Attempt(t.Context(), time.Time{})
		defer over()
		if context.Cause(next) != cause {
			t.Error("another attempt may go on")
		}
	})
}

func TestSleepOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stopper
		ctx, over := s.Attempt(t.Context(), time.Now().Add(time.Minute))
		defer over()
		if s.Sleep(time.Hour, ctx.Done()) || ctx.Err() != context.DeadlineExceeded {
			t.Errorf("it slept until %v", ctx.Err())
		}
		var none *Stopper
		if none.IsSet() || none.Stopping() != nil || !none.Sleep(time.Second, nil) {
			t.Error("an argument that was made by hand is asked to stop")
		}
	})
}
