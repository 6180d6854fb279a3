package contract

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the log reports success only for stored outcomes, and the correct cause otherwise.

var _ = Suite("change_logging", func(t *testing.T, c *C) {
	successes(t, c)
	taskSuccesses(t, c)
	unappliedFields(t, c)
})

func successes(t *testing.T, c *C) {
	c.Run(t, "DF-31 a handler whose patch is refused has not succeeded, and the sum says so", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("metadata.labels.bad", "not a label!")
			return nil
		}, named("bad"))
		r.OnCreate(Examples, ready, named("good"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.WaitFor("the sum", func() bool { return len(op.Logs.Find("Creation is processed")) > 0 })
		if n := len(op.Logs.Find("Creation is processed: 1 succeeded; 1 failed.")); n != 1 {
			c.Errorf("the sum is %v", op.Logs.Find("Creation is processed"))
		}
		if good, bad := len(op.Logs.Find("Handler 'good' succeeded")), len(op.Logs.Find("Handler 'bad' succeeded")); good != 1 || bad != 0 {
			c.Errorf("the good handler has succeeded %d times, and the bad one %d times", good, bad)
		}
	})
	c.Run(t, "DF-31 success is logged once, when it is stored, however long that takes", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r)
		began := time.Now()
		op.denyPatches(func(*Request) bool { return time.Since(began) < 2*time.Minute }, func() *http.Response { return Answer(403, "Forbidden", "no") })
		c.Create("a", nil)
		c.Pass(time.Minute)
		if lines := append(op.Logs.Find("succeeded"), op.Logs.Find("is processed")...); len(lines) > 0 {
			c.Errorf("while nothing is stored, the log has %v", lines)
		}
		c.Pass(10 * time.Minute)
		if told, sum := len(op.Logs.Find("Handler 'create' succeeded.")), len(op.Logs.Find("Creation is processed: 1 succeeded; 0 failed.")); told != 1 || sum != 1 {
			c.Errorf("the success was told %d times, and the sum %d times", told, sum)
		}
	})
	c.Run(t, "DF-31 of an object that is gone, no success is logged", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.x", 1)
			return ch.Client.Delete(ctx, ch.Body.Reference(), nil)
		}, named("create"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("because the object is gone")) > 0 })
		if lines := append(op.Logs.Find("succeeded"), op.Logs.Find("is processed")...); len(lines) > 0 {
			c.Errorf("the log has %v", lines)
		}
	})
	c.Run(t, "DF-31 a handler of events has succeeded when its patch is stored", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if e.Name() == "bad" {
				e.Patch.Set("metadata.labels.bad", "not a label!")
			} else {
				e.Patch.Set("status.seen", true)
			}
			return nil
		}, watchedAs("event"))
		op := c.Operator(r)
		var refused atomic.Int64
		op.denyPatches(func(req *Request) bool { return strings.Contains(req.Path, "good") && refused.Add(1) <= 2 }, func() *http.Response { return Answer(403, "Forbidden", "no") })
		c.Create("bad", nil)
		c.WaitFor("the refusal", func() bool { return len(op.Logs.Find("The API server refused the patch of a handler")) == 1 })
		if lines := op.Logs.Find("succeeded"); len(lines) > 0 {
			c.Errorf("the log has %v", lines)
		}
		c.Create("good", nil)
		c.WaitFor("the first attempt, and that with the part alone", func() bool { return refused.Load() == 2 })
		if lines := op.Logs.Find("succeeded"); len(lines) > 0 {
			c.Errorf("the log has %v", lines)
		}
		c.WaitFor("the status", func() bool { return c.Get("good").Status().Bool("seen") })
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Handler 'event' succeeded.")) > 0 })
	})
}

func taskSuccesses(t *testing.T, c *C) {
	c.Run(t, "BG-31 a timer that sets what is there already succeeds at the debug level", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
			l.add("tick")
			tm.Patch.Set("status.phase", "Ready")
			tm.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"size": "S"}; return nil })
			return nil
		}, &kopf.TimerOptions{ID: "tick", Interval: time.Minute})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(5*time.Minute + time.Second)
		var levels []slog.Level
		for _, line := range op.Logs.Find("Timer 'tick' succeeded") {
			levels = append(levels, line.Level)
		}
		if want := slices.Concat([]slog.Level{slog.LevelInfo}, slices.Repeat([]slog.Level{slog.LevelDebug}, 5)); !slices.Equal(levels, want) || l.count("tick") != 6 {
			c.Errorf("got the levels %v of %d calls, want %v", levels, l.count("tick"), want)
		}
	})
	c.Run(t, "CH-215 a handler of events that changes nothing succeeds at the debug level", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if e.Name() == "b" {
				e.Patch.Set("status.seen", true)
			}
			return nil
		}, watchedAs("event"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.Create("b", nil)
		found := func(name string, level slog.Level) bool {
			return slices.ContainsFunc(op.Logs.Find("Handler 'event' succeeded."), func(l Line) bool { return l.Object.Name == name && l.Level == level })
		}
		c.WaitFor("the lines", func() bool { return found("a", slog.LevelDebug) && found("b", slog.LevelInfo) })
		if found("a", slog.LevelInfo) {
			c.Error("the success that has changed nothing is logged as information")
		}
	})
	c.Run(t, "DF-31 a timer has succeeded when its patch is stored, and not if that is refused", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
			if tm.Name() == "bad" {
				tm.Patch.Set("metadata.labels.bad", "not a label!")
			} else {
				tm.Patch.Set("status.seen", true)
			}
			return nil
		}, &kopf.TimerOptions{ID: "tick", Idle: time.Second, WithoutFinalizer: true})
		op := c.Operator(r)
		began := time.Now()
		op.denyPatches(func(req *Request) bool { return strings.Contains(req.Path, "good") && time.Since(began) < time.Minute }, func() *http.Response { return Answer(403, "Forbidden", "no") })
		c.Create("bad", nil)
		c.Create("good", nil)
		c.Pass(30 * time.Second)
		if lines := op.Logs.Find("Timer 'tick' succeeded"); len(lines) > 0 {
			c.Errorf("the log has %v", lines)
		}
		c.Pass(10 * time.Minute)
		if lines := op.Logs.Find("Timer 'tick' succeeded"); len(lines) != 1 || lines[0].Object.Name != "good" || !c.Get("good").Status().Bool("seen") {
			c.Errorf("the log has %v", lines)
		}
	})
}

func unappliedFields(t *testing.T, c *C) {
	for manager, blamed := range map[string]string{"rival": "rival", "kopf-go": ""} { // what a webhook changes in a patch belongs to the writer of the patch
		c.Run(t, "DF-31 what others have changed meanwhile is not blamed on the schema, or on kopf: "+manager, func(c *C) { proveBlame(c, manager, blamed) })
	}
}

func proveBlame(c *C, manager, blamed string) {
	k := c.Of("kopf.dev/v1", "KopfStatusExample")
	r := &kopf.Registry{}
	r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error {
		ch.Patch.Set("status.phase", "Ready")
		ch.Patch.Set("spec.seen", true)
		return nil
	}, named("create"))
	op := c.Operator(r, func(op *kopf.Operator) {
		op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, "seen") {
				_, err := c.Client.Patch(contextWithout(c.Context()), k.Ref("a"), map[string]any{"status": map[string]any{"phase": "Broken"}},
					&kopf.PatchOptions{Subresource: "status", FieldManager: manager})
				return nil, err
			}
			return nil, nil
		})
	})
	k.Create("a", sized(1))
	var lines []Line
	c.WaitFor("the warning", func() bool {
		lines = op.Logs.loud("a")
		return len(lines) > 0
	})
	if len(lines) != 1 || lines[0].Level != slog.LevelWarn || !strings.Contains(lines[0].Message, "changed by another client") || lines[0].Attrs["managers"] != blamed {
		c.Errorf("got the lines %v", lines)
	}
	if n := len(op.Logs.Find("schema")); n > 0 {
		c.Errorf("the schema is blamed %d times", n)
	}
}
