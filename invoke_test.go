package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The tests in this file check different ends of functions that are easily confused.

// linesOf creates, changes and deletes an object, and returns the lines about the handler "h".
func linesOf(t *testing.T, register func(*Registry)) string {
	t.Helper()
	var lines []string
	synctest.Test(t, func(t *testing.T) {
		w := live(t, false, func(_ *life, r *Registry) { register(r) })
		w.create(t)
		time.Sleep(2 * time.Second)
		w.set(t, "2")
		time.Sleep(2 * time.Second)
		w.delete(t)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for line := range strings.Lines(w.logged.String()) {
			if strings.Contains(line, "'h'") {
				line, _, _ = strings.Cut(line, " stack=")
				lines = append(lines, line)
			}
		}
	})
	return strings.Join(lines, "\n")
}

func TestInvoke(t *testing.T) {
	untilEnd := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return nil
		}
	}
	tests := []struct {
		name     string
		register func(r *Registry)
		want     string
		not      string
	}{
		{"a denial is an error like others if it is not of a review", func(r *Registry) {
			r.OnCreate("widgets", func(context.Context, *Change) error { return Deny("no", 403) }, &ChangeOptions{ID: "h"})
		}, "will try again in 1m0s", "denial"},
		{"a denial can be permanent", func(r *Registry) {
			r.OnCreate("widgets", func(context.Context, *Change) error { return Permanent(Deny("no", 403)) }, &ChangeOptions{ID: "h"})
		}, "failed permanently: no", "denial"},
		{"a handler that panics when it is interrupted is interrupted", func(r *Registry) {
			r.OnCreate("widgets", func(ctx context.Context, c *Change) error { panic(untilEnd(ctx)) }, &ChangeOptions{ID: "h", Interruptible: true})
		}, "was interrupted", "exception"},
		{"a daemon that panics when it is asked to stop has stopped", func(r *Registry) {
			r.OnDaemon("widgets", func(ctx context.Context, d *Daemon) error { panic(untilEnd(ctx)) }, &DaemonOptions{ID: "h"})
		}, "succeeded", "exception"},
		{"what is wrong with the patch of a function that panics is logged, too", func(r *Registry) {
			r.OnEvent("widgets", func(ctx context.Context, e *WatchEvent) error {
				e.Patch.Set("spec.fn", func() {})
				panic("oops")
			}, &EventOptions{ID: "h"})
		}, "unsupported type: func()", "succeeded"},
		{"a handler that waits for its sub-handlers when it is interrupted waits for them", func(r *Registry) {
			r.OnCreate("widgets", func(ctx context.Context, c *Change) error {
				c.Subhandler("s", func(context.Context, *Change) error { return Temporary(errors.New("not yet"), time.Minute) }, nil)
				return errors.Join(c.Execute(ctx), untilEnd(ctx))
			}, &ChangeOptions{ID: "h", Interruptible: true})
		}, "", "interrupted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := linesOf(t, tt.register)
			if !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
				t.Errorf("got these lines, want %q and not %q:\n%s", tt.want, tt.not, got)
			}
		})
	}
}

// TestPlannedFlush flushes between two handlers before a planned flush, which remains planned.
func TestPlannedFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := live(t, false, func(_ *life, r *Registry) {
			add := func(id HandlerID, takes time.Duration, err error) {
				r.OnCreate("widgets", func(context.Context, *Change) error {
					time.Sleep(takes)
					return err
				}, &ChangeOptions{ID: id})
			}
			add("a", 100*time.Millisecond, nil)                                        // plans a flush a second later
			add("b", 100*time.Millisecond, Temporary(errors.New("oops"), time.Second)) // is stored at once
			add("c", 100*time.Millisecond, nil)
			add("d", 900*time.Millisecond, nil)
		})
		began := time.Now()
		w.create(t)
		time.Sleep(1900 * time.Millisecond)
		var at []time.Duration
		for _, q := range w.server.Requests() {
			if q.Verb == "patch" {
				at = append(at, q.Time.Sub(began).Round(100*time.Millisecond))
			}
		}
		if want := []time.Duration{200 * time.Millisecond, 1100 * time.Millisecond, 1200 * time.Millisecond, 1300 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("there are patches at %s, want them at %s", at, want)
		}
	})
}

// TestSlowFlush ends a handler during the flush of earlier results. The next request follows afterwards, with the rest.
func TestSlowFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := live(t, false, func(_ *life, r *Registry) {
			add := func(id HandlerID, takes time.Duration, errs ...error) {
				r.OnCreate("widgets", func(_ context.Context, c *Change) error {
					time.Sleep(takes)
					c.Patch.Set(Path("status", string(id)), c.Retry+1)
					if c.Retry < len(errs) {
						return errs[c.Retry]
					}
					return nil
				}, &ChangeOptions{ID: id})
			}
			add("a", 100*time.Millisecond)
			add("b", 1500*time.Millisecond, Temporary(errors.New("oops"), time.Minute))
			add("c", 100*time.Millisecond)
		})
		w.server.Fail(APIServerFault{Verb: "patch", Times: 1, Delay: 2 * time.Second})
		began := time.Now()
		w.create(t)
		time.Sleep(10 * time.Second)
		var at []time.Duration
		for _, q := range w.server.Requests() {
			if q.Verb == "patch" {
				at = append(at, q.Time.Sub(began).Round(100*time.Millisecond))
			}
		}
		if want := []time.Duration{1100 * time.Millisecond, 3100 * time.Millisecond, 3200 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("there are patches at %s, want them at %s", at, want)
		}
		var object map[string]any
		if err := w.user.Get(t.Context(), lifeObject, &object, nil); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(object["status"]), "map[a:1 b:1 c:1]"; got != want {
			t.Errorf("the status is %s, want %s", got, want)
		}
	})
}
