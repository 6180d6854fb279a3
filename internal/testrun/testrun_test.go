package testrun

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type function func(context.Context) error

func (f function) Run(ctx context.Context) error { return f(ctx) }

func TestTask(t *testing.T) {
	failure := errors.New("on purpose")
	for _, tt := range []struct {
		name                string
		run                 function
		ready               bool
		await, stop, finish string // texts in errors; "" for none
		cause               error  // cause of the context; nil for any other
	}{
		{"in good order", func(ctx context.Context) error { <-ctx.Done(); return nil }, true, "", "", "", ErrStopped},
		{"fails at once", func(context.Context) error { return failure }, false, "on purpose", "on purpose", "", failure},
		{"fails at the end", func(ctx context.Context) error { <-ctx.Done(); return failure }, true, "", "on purpose", "", failure},
		{"ends early", func(context.Context) error { return nil }, false, "without being told", "without being told", "", nil},
		{"never starts", func(ctx context.Context) error { <-ctx.Done(); return nil }, false, "still starting", "", "", ErrStopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				task := Start(t.Context(), tt.run, time.Minute)
				ready := make(chan struct{})
				if tt.ready {
					close(ready)
				}
				for _, step := range []struct {
					name string
					err  error
					want string
				}{{"await", task.Await(ready), tt.await}, {"stop", task.Stop(), tt.stop}, {"finish", task.Finish(), tt.finish}} {
					if (step.err != nil) != (step.want != "") || step.err != nil && !strings.Contains(step.err.Error(), step.want) {
						t.Errorf("%s: got %v, want %q", step.name, step.err, step.want)
					}
				}
				if cause := context.Cause(task.Context()); tt.cause != nil && cause != tt.cause {
					t.Errorf("got the cause %v, want %v", cause, tt.cause)
				}
			})
		})
	}
}

func TestTaskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		task := Start(t.Context(), function(func(context.Context) error { <-end; return nil }), time.Minute)
		if err := task.Finish(); err == nil || !strings.Contains(err.Error(), "still running 1m0s") {
			t.Errorf("got %v", err)
		}
		close(end)
	})
}
