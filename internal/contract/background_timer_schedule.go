package contract

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves when timers run, to the millisecond, in 2-background.md.

var _ = Suite("background_timer_schedule", func(t *testing.T, c *C) {
	ticking(t, c)
	quieting(t, c)
	delivering(t, c)
})

// ticker keeps the times of calls since its start.
type ticker struct {
	calls
	began time.Time
}

func (k *ticker) tick(name string) { k.add("%s%s", name, time.Since(k.began).Round(time.Millisecond)) }

// timer returns a timer that takes some time. It returns the given errors one after another, and then succeeds.
func (k *ticker) timer(takes time.Duration, errs ...error) kopf.TimerFunc {
	n := 0
	return func(ctx context.Context, t *kopf.Timer) error {
		k.tick("")
		time.Sleep(takes) // the duration of the handler
		if n++; n <= len(errs) {
			return errs[n-1]
		}
		return nil
	}
}

// timing starts an operator with a timer, and creates an object when the clock starts.
func (c *C) timing(k *ticker, fn kopf.TimerFunc, opts kopf.TimerOptions) *Running {
	c.Helper()
	c.OnlyInBubble("the times are exact")
	r := &kopf.Registry{}
	opts.ID, opts.WithoutFinalizer = "t", true
	r.OnTimer(Examples, fn, &opts)
	op := c.Operator(r)
	c.Pass(time.Second) // after the initial list
	k.began = time.Now()
	c.Create("a", nil)
	return op
}

func ticking(t *testing.T, c *C) {
	c.Run(t, "BG-33 the first call follows the initial delay, and not the interval", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0), kopf.TimerOptions{Interval: time.Hour, InitialDelay: 10 * time.Second})
		c.Pass(2 * time.Hour)
		c.expect(&k.calls, "10s", "1h0m10s")
	})
	c.Run(t, "BG-34 the interval is between the end of a call and the beginning of the next", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(3*time.Second), kopf.TimerOptions{Interval: 10 * time.Second})
		c.Pass(40 * time.Second)
		c.expect(&k.calls, "0s", "13s", "26s", "39s")
	})
	c.Run(t, "BG-35 sharp calls stay on the grid, and those that would overlap are left out", func(c *C) {
		k := &ticker{}
		takes := []time.Duration{3 * time.Second, 12 * time.Second, 0, 20 * time.Second, 0}
		n := 0
		c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			time.Sleep(takes[min(n, len(takes)-1)])
			n++
			return nil
		}, kopf.TimerOptions{Interval: 10 * time.Second, Sharp: true})
		c.Pass(85 * time.Second)
		c.expect(&k.calls, "0s", "10s", "30s", "40s", "1m10s", "1m20s")
	})
	c.Run(t, "BG-T14 a failed attempt does not shift the grid", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(time.Second, kopf.Temporary(errOops, 3*time.Second)), kopf.TimerOptions{Interval: 10 * time.Second, Sharp: true})
		c.Pass(25 * time.Second)
		c.expect(&k.calls, "0s", "4s", "10s", "20s")
	})
	c.Run(t, "BG-36 a temporary error replaces the schedule, and a success begins a new series", func(c *C) {
		k := &ticker{}
		n := 0
		c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick(fmt.Sprintf("%d ", t.Retry))
			if n++; n%4 != 0 {
				return errOops
			}
			return nil
		}, kopf.TimerOptions{Interval: 10 * time.Second, Backoff: 5 * time.Second})
		c.Pass(45 * time.Second)
		c.expect(&k.calls, "0 0s", "1 5s", "2 10s", "3 15s", "0 25s", "1 30s", "2 35s", "3 40s")
	})
	c.Run(t, "BG-37 an error that is ignored counts as a success", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0, errOops, errOops), kopf.TimerOptions{Interval: 10 * time.Second, Errors: kopf.ErrorsIgnored})
		c.Pass(25 * time.Second)
		c.expect(&k.calls, "0s", "10s", "20s")
	})
	c.Run(t, "BG-T1 a timer that has failed for good is never called again", func(c *C) {
		for _, opts := range []kopf.TimerOptions{
			{Interval: time.Second}, {Interval: time.Second, Errors: kopf.ErrorsPermanent}, {Interval: time.Second, Retries: 1, Backoff: time.Second},
		} {
			k := &ticker{}
			err := errOops
			if opts.Errors == 0 && opts.Retries == 0 {
				err = kopf.Permanent(errOops)
			}
			op := c.timing(k, k.timer(0, err), opts)
			c.Pass(time.Hour)
			c.expect(&k.calls, "0s")
			if len(op.Logs.Find("has exited on its own")) != 1 {
				c.Error("the end is not told")
			}
			op.Stop()
			c.Delete("a")
		}
	})
	c.Run(t, "BG-44 without an interval there is one series", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0, kopf.Temporary(errOops, 5*time.Second)), kopf.TimerOptions{})
		c.Pass(time.Hour)
		c.expect(&k.calls, "0s", "5s")
	})
	c.Run(t, "BG-45 a timer that is asked to stop is not called again", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0), kopf.TimerOptions{Interval: time.Minute})
		c.Pass(90 * time.Second)
		c.Delete("a")
		c.Pass(time.Hour)
		c.expect(&k.calls, "0s", "1m0s")
	})
	c.Run(t, "BG-T15 jitter spreads the first calls", func(c *C) {
		c.OnlyInBubble("the times are exact")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			return nil
		}, &kopf.TimerOptions{ID: "t", Jitter: time.Minute, InitialDelay: time.Minute})
		c.Operator(r)
		k.began = time.Now()
		for i := range 20 {
			c.Create(fmt.Sprint("a", i), nil)
		}
		c.Pass(3 * time.Minute)
		all := k.all()
		slices.Sort(all)
		if len(all) != 20 || len(slices.Compact(all)) < 15 {
			c.Errorf("got the calls %q, want twenty at different times", all)
		}
		for _, at := range k.all() {
			if d, err := time.ParseDuration(at); err != nil || d < time.Minute || d > 2*time.Minute+time.Second {
				c.Errorf("a timer was called at %s, want between one and two minutes", at)
			}
		}
	})
	c.Run(t, "a day of ticks costs no patch, no request and no line above debug", func(c *C) {
		k := &ticker{}
		op := c.timing(k, k.timer(250*time.Millisecond), kopf.TimerOptions{Interval: time.Minute, Sharp: true})
		before, lines := len(op.Wire.Requests("PATCH", "POST", "PUT", "GET")), len(op.Logs.All())
		requests := func() int {
			n := 0
			for _, r := range op.Wire.Requests() {
				if !strings.Contains(r.Path, "watch=true") {
					n++
				}
			}
			return n
		}
		without := requests()
		c.Pass(23*time.Hour + 59*time.Minute + 30*time.Second)
		var want []string
		for i := range 24 * 60 {
			want = append(want, (time.Duration(i) * time.Minute).String())
		}
		if got := k.all(); !slices.Equal(got, want) {
			c.Errorf("%d calls, want %d, each at its minute", len(got), len(want))
		}
		if n := requests() - without; n != 0 {
			c.Errorf("%d requests were made by ticks (%d before)", n, before)
		}
		for _, line := range op.Logs.All()[lines:] {
			if line.Level > slog.LevelDebug {
				c.Errorf("got the line %v", line)
			}
		}
	})
}

func quieting(t *testing.T, c *C) {
	c.Run(t, "BG-39 a call needs the object to have been left alone", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0), kopf.TimerOptions{Idle: 10 * time.Second, Interval: time.Hour})
		for i := range 3 {
			c.Pass(6 * time.Second)
			c.Patch("a", spec(map[string]any{"x": i}))
		}
		c.Pass(time.Minute)
		c.expect(&k.calls, "28s")
	})
	c.Run(t, "BG-T13 the status does not count as a change, and neither do results of the timer", func(c *C) {
		k := &ticker{}
		fn := func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			t.SetResult(time.Since(k.began).String())
			return nil
		}
		c.timing(k, fn, kopf.TimerOptions{Idle: 10 * time.Second, Interval: 5 * time.Second})
		c.Pass(6 * time.Second)
		c.Patch("a", map[string]any{"status": map[string]any{"x": 1}})
		c.Pass(15 * time.Second)
		c.expect(&k.calls, "10s", "15s", "20s")
	})
	c.Run(t, "BG-42 after the quiet, calls go on by the interval until the next change", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0), kopf.TimerOptions{Idle: 10 * time.Second, Interval: 3 * time.Second})
		c.Pass(17 * time.Second)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(14 * time.Second)
		c.expect(&k.calls, "10s", "13s", "16s", "27s", "30s")
	})
	c.Run(t, "BG-43 without an interval there is one call after each change", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0), kopf.TimerOptions{Idle: 10 * time.Second})
		c.Pass(time.Hour)
		c.expect(&k.calls, "10s")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(5 * time.Second)
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Pass(time.Hour)
		c.expect(&k.calls, "10s", "1h0m15s")
	})
	c.Run(t, "BG-43 a change during a call is followed by another one", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(4*time.Second), kopf.TimerOptions{Idle: 10 * time.Second})
		c.Pass(12 * time.Second)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Hour)
		c.expect(&k.calls, "10s", "22s")
	})
	c.Run(t, "BG-43 a series of attempts is one call", func(c *C) {
		k := &ticker{}
		c.timing(k, k.timer(0, kopf.Temporary(errOops, 5*time.Second)), kopf.TimerOptions{Idle: 10 * time.Second})
		c.Pass(time.Hour)
		c.expect(&k.calls, "10s", "15s")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Hour)
		c.expect(&k.calls, "10s", "15s", "1h0m10s")
	})
	c.Run(t, "BG-T3 a timer that waits for a change can be stopped", func(c *C) {
		k := &ticker{}
		op := c.timing(k, k.timer(0), kopf.TimerOptions{Idle: time.Second})
		c.Pass(time.Minute)
		c.Delete("a")
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("has exited on request")) == 1 })
		c.expect(&k.calls, "1s")
	})
}

func delivering(t *testing.T, c *C) {
	c.Run(t, "BG-58 the patch of a call is sent when it ends, and conflicting transformations with the next one, if that is soon", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var refused atomic.Bool
		k := &ticker{}
		n := 0
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			n++
			k.tick(fmt.Sprintf("%t ", t.Patch.Empty()))
			if n == 1 {
				t.Patch.Set("status.merged", true)
				t.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"transformed": true}; return nil })
				return errOops
			}
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: time.Hour, Backoff: 500 * time.Millisecond, WithoutFinalizer: true})
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.ContentType == jsonPatch && refused.CompareAndSwap(false, true) {
				c.Patch("a", map[string]any{"status": map[string]any{"other": true}}) // another client wins the race
			}
			return nil, nil
		})
		c.Pass(time.Second)
		k.began = time.Now()
		c.Create("a", nil)
		c.Pass(100 * time.Millisecond)
		if body := c.Get("a"); !body.Status().Bool("merged") || body.Spec().Bool("transformed") {
			c.Errorf("after the first attempt, the object is %s", body.LogValue())
		}
		c.Pass(500 * time.Millisecond)
		if body := c.Get("a"); !body.Spec().Bool("transformed") {
			c.Errorf("after the second attempt, the object is %s", body.LogValue())
		}
		c.expect(&k.calls, "true 0s", "false 500ms")
	})
	c.Run(t, "BG-59 a result is merged into the status, and an error stores nothing", func(c *C) {
		k := &ticker{}
		n := 0
		c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			n++
			t.SetResult(map[string]any{fmt.Sprint("n", n): n})
			if n == 2 {
				return errOops
			}
			return nil
		}, kopf.TimerOptions{Interval: 10 * time.Second, Backoff: 10 * time.Second})
		c.Pass(25 * time.Second)
		if got := fmt.Sprint(c.Get("a").Status().Get("t")); got != "map[n1:1 n3:3]" {
			c.Errorf("got the result %s, want map[n1:1 n3:3]", got)
		}
	})
	c.Run(t, "BG-60 the patch of an object that has gone is dropped", func(c *C) {
		k := &ticker{}
		op := c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			t.Patch.Set("status.x", 1)
			return t.Client.Delete(ctx, t.Body.Reference(), nil)
		}, kopf.TimerOptions{Interval: time.Minute})
		c.Pass(time.Hour)
		for _, line := range op.Logs.All() {
			if line.Level > slog.LevelInfo {
				c.Errorf("got the line %v", line)
			}
		}
		c.expect(&k.calls, "0s")
	})
	c.Run(t, "BG-T2 a patch that cannot be sent is sent again, and the timer goes on", func(c *C) {
		k := &ticker{}
		op := c.timing(k, func(ctx context.Context, t *kopf.Timer) error {
			k.tick("")
			t.Patch.SetPath(true, "status", "at", time.Since(k.began).Round(time.Second).String())
			return nil
		}, kopf.TimerOptions{Interval: time.Minute})
		var refusals calls
		refusing(op, &refusals, func() bool { return len(refusals.all()) < 3 })
		c.Pass(150 * time.Second)
		c.expect(&k.calls, "0s", "1m0s", "2m0s")
		if got := c.Get("a").Status().View("at").Len(); got != 3 {
			c.Errorf("%d patches have come through, want 3", got)
		}
		if lines := op.Logs.Find("Sending a patch failed"); len(lines) != 3 || lines[0].Level != slog.LevelWarn {
			c.Errorf("got the lines %v, want three errors", lines)
		}
	})
}
