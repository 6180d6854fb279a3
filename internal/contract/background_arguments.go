package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what daemons and timers are given, what holds their objects, and how they are let go, in 2-background.md.

var _ = Suite("background_arguments", func(t *testing.T, c *C) {
	optioning(t, c)
	attending(t, c)
	trying(t, c)
	flagging(t, c)
	holding(t, c)
	leaving(t, c)
	saying(t, c)
})

// fieldsOf returns the names of the fields of a struct, sorted.
func fieldsOf(v any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// panicOf returns the text of the panic of a registration, "" if there is none.
func panicOf(register func()) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	register()
	return ""
}

func asked(ctx context.Context, d *kopf.Daemon) error {
	<-ctx.Done()
	return nil
}

func optioning(t *testing.T, c *C) {
	c.Run(t, "BG-1 a daemon needs no options, and can have these", func(c *C) {
		want := []string{
			"Annotations", "Backoff", "CancellationBackoff", "CancellationPolling", "CancellationTimeout", "Errors", "Field", "ID", "InitialDelay", "InitialDelayFunc",
			"Labels", "Param", "Retries", "Timeout", "Value", "When", "Where", "WithoutFinalizer",
		}
		c.same("the options of daemons", want, fieldsOf(kopf.DaemonOptions{}))
		r := &kopf.Registry{}
		r.OnDaemon(Examples, asked, nil)
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the daemon", func() bool { return len(op.Logs.Find("Daemon 'asked' is invoked.")) == 1 })
		op.Stop()
	})
	c.Run(t, "BG-2 a timer needs no options, and can have these", func(c *C) {
		want := []string{
			"Annotations", "Backoff", "Errors", "Field", "ID", "Idle", "InitialDelay", "InitialDelayFunc", "Interval", "Jitter", "Labels", "Param", "Retries", "Sharp",
			"Timeout", "Value", "When", "Where", "WithoutFinalizer",
		}
		c.same("the options of timers", want, fieldsOf(kopf.TimerOptions{}))
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnTimer(Examples, k.once, nil)
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the end of the timer", func() bool { return len(op.Logs.Find("Timer 'ticker.once' has exited on its own")) == 1 })
		if n := len(k.all()); n != 1 {
			c.Errorf("the timer was called %d times, want once", n)
		}
	})
	c.Run(t, "BG-3 an index needs no options, and can have these", func(c *C) {
		want := []string{"Annotations", "Backoff", "Errors", "Field", "ID", "Labels", "Param", "Retries", "Timeout", "Value", "When", "Where"}
		c.same("the options of indices", want, fieldsOf(kopf.IndexOptions{}))
	})
	c.Run(t, "BG-5 the id is the name or what is given, and the field, but for indices", func(c *C) {
		r := &kopf.Registry{}
		says := func(s *kopf.Daemon) error { s.SetResult("done"); return nil }
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { return says(d) }, &kopf.DaemonOptions{ID: "check", Field: "spec.size"})
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error { t.SetResult("done"); return nil }, &kopf.TimerOptions{ID: "tick", Field: "spec.size"})
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]string, error) {
			return map[string]string{x.Name(): "there"}, nil
		}, &kopf.IndexOptions{ID: "sizes", Field: "spec.size"})
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the results", func() bool { return c.Get("a").Status().Len() == 2 })
		status := c.Get("a").Status().Map()
		if status["check/spec.size"] != "done" || status["tick/spec.size"] != "done" {
			c.Errorf("got the status %v, want results by the ids with the field", status)
		}
		if n := len(op.Logs.Find("Indexer 'sizes' is invoked.")); n == 0 {
			c.Error("the index does not go by its own name")
		}
	})
	c.Run(t, "BG-6 a value needs a field, and filters need something to look for", func(c *C) {
		r := &kopf.Registry{}
		for what, register := range map[string]func(){
			"Value":  func() { r.OnDaemon(Examples, asked, &kopf.DaemonOptions{Value: 1}) },
			"value":  func() { r.OnTimer(Examples, (&ticker{}).once, &kopf.TimerOptions{Value: 1}) },
			"labels": func() { r.OnDaemon(Examples, asked, &kopf.DaemonOptions{Labels: kopf.Match{"x": nil}}) },
		} {
			if text := panicOf(register); !strings.Contains(strings.ToLower(text), strings.ToLower(strings.TrimSuffix(what, "s"))) {
				c.Errorf("a registration with wrong %s ends with %q, want a panic that names it", what, text)
			}
		}
		for _, options := range []any{kopf.DaemonOptions{}, kopf.TimerOptions{}, kopf.IndexOptions{}} {
			if names := fieldsOf(options); slices.Contains(names, "Old") || slices.Contains(names, "New") {
				c.Errorf("%T have filters for differences", options)
			}
		}
	})
	c.Run(t, "BG-7 a field is looked for in the whole object, the status included", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("present"), &kopf.DaemonOptions{ID: "present", Field: "status.phase"})
		r.OnDaemon(Examples, l.daemon("valued"), &kopf.DaemonOptions{ID: "valued", Field: "status.phase", Value: "Ready"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Second)
		c.expect(&l)
		c.Patch("a", map[string]any{"status": map[string]any{"phase": "New"}})
		c.expect(&l, "present begins 0")
		c.Patch("a", map[string]any{"status": map[string]any{"phase": "Ready"}})
		c.expect(&l, "present begins 0", "valued begins 0")
		op.Stop()
	})
	c.Run(t, "BG-8 messages tell what kind of handler it is", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { return kopf.Permanent(errOops) }, daemonID("d"))
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error { return kopf.Permanent(errOops) }, &kopf.TimerOptions{ID: "t"})
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]int, error) {
			return nil, kopf.Permanent(errOops)
		}, &kopf.IndexOptions{ID: "i"})
		op := c.Operator(r)
		c.Create("a", nil)
		for _, name := range []string{"Daemon 'd'", "Timer 't'", "Indexer 'i'"} {
			c.WaitFor("the failure of "+name, func() bool { return len(op.Logs.Find(name+" failed permanently: ")) == 1 })
		}
	})
	c.Run(t, "BG-9 daemons and timers are given all about their object and the attempt", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		tell := func(o *kopf.Object, a kopf.Attempt, stop kopf.StopReason, patch *kopf.Patch) {
			l.add("%s %s %s %t %d %t %s %v %t %t %t %t %d", o.Name(), o.Namespace(), o.Resource.Plural, o.UID() != "", o.Spec().Int("x"), o.Labels() != nil, o.Annotations()["n"],
				o.Param, stop != "", patch.Empty(), o.Memo() != nil && o.Logger != nil && o.Client != nil, a.Started.IsZero() || a.Runtime < 0, a.Retry)
		}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			tell(&d.Object, d.Attempt, d.StopReason(), d.Patch)
			return nil
		}, &kopf.DaemonOptions{ID: "d", Param: 7})
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			tell(&t.Object, t.Attempt, t.StopReason(), t.Patch)
			return nil
		}, &kopf.TimerOptions{ID: "t", Param: 7})
		c.Operator(r)
		c.Create("a", map[string]any{"spec": map[string]any{"x": 3}, "metadata": map[string]any{"annotations": map[string]any{"n": "4"}}})
		want := fmt.Sprintf("a %s kopfexamples true 3 true 4 7 false true true false 0", c.Namespace)
		c.expect(&l, want, want)
	})
}

// once is a timer that notes its call.
func (k *ticker) once(ctx context.Context, t *kopf.Timer) error {
	k.add("once")
	return nil
}

func attending(t *testing.T, c *C) {
	c.Run(t, "BG-13 nothing is spawned while the object pauses after an error", func(c *C) {
		c.OnlyInBubble("the pause is long")
		var l, refused calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}, WithoutFinalizer: true})
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ErrorDelays = []time.Duration{time.Minute} })
		refusing(op, &refused, func() bool { return len(refused.all()) < 1 })
		c.Pass(time.Second)
		c.Create("a", nil)
		c.WaitFor("the refusal", func() bool { return len(refused.all()) == 1 })
		c.Patch("a", labelled("run", "yes"))
		c.Pass(50 * time.Second)
		c.expect(&l)
		c.Pass(11 * time.Second)
		c.expect(&l, "d begins 0")
		op.Stop()
	})
	c.Run(t, "BG-19 at the end, a daemon sees the last state of its object", func(c *C) {
		last := make(chan string, 1)
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			last <- fmt.Sprint(d.Spec().Int("x"), d.Latest().Deleting())
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		c.Create("a", map[string]any{"spec": map[string]any{"x": 1}, "metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
		c.WaitFor("the daemon", func() bool { return len(op.Logs.Find("Daemon 'd' is invoked.")) == 1 })
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Delete("a")
		if got := <-last; got != "2 true" {
			c.Errorf("the daemon has seen %s, want 2 true", got)
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{}}})
		c.gone("a")
	})
	c.Run(t, "BG-21 each call begins with a patch of its own that is empty", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("%d %t", d.Retry, d.Patch.Empty())
			d.Patch.Set(kopf.Path("status", fmt.Sprint("n", d.Retry)), true)
			if d.Retry < 2 {
				return kopf.Temporary(errOops, time.Second)
			}
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Minute)
		c.expect(&l, "0 true", "1 true", "2 true")
		writes := op.Wire.Writes()
		if len(writes) != 3 {
			c.Fatalf("%d requests were made, want one after each attempt: %q", len(writes), patches(op))
		}
		for i, w := range writes {
			for n := range 3 {
				if has := strings.Contains(w.Body, fmt.Sprintf("n%d", n)); has != (n == i) {
					c.Errorf("the request after attempt %d is %s", i, w.Body)
				}
			}
		}
	})
	c.Run(t, "BG-23 the initial delay is computed of the object and the indices", func(c *C) {
		c.OnlyInBubble("the delay is long")
		k := &ticker{}
		r := &kopf.Registry{}
		delays := kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]time.Duration, error) {
			return map[string]time.Duration{x.Name(): time.Duration(x.Spec().Int("delay")) * time.Second}, nil
		}, &kopf.IndexOptions{ID: "delays"})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			k.tick("d ")
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true, InitialDelayFunc: func(o *kopf.Object) time.Duration { return delays.Get(o, o.Name())[0] }})
		c.Operator(r)
		c.Pass(time.Second)
		k.began = time.Now()
		c.Create("a", spec(map[string]any{"delay": 90}))
		c.Pass(time.Hour)
		c.expect(&k.calls, "d 1m30s")
	})
	c.Run(t, "BG-62 what a daemon stores is not waited for by the handlers of changes", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			k.tick("update ")
			return nil
		}, named("update"))
		write := make(chan struct{})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-write
			d.Patch.Set("status.mark", true)
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r, slowly(time.Second, func(line string) bool { return strings.Contains(line, `"mark":true`) }),
			func(op *kopf.Operator) { op.Settings.Persistence.ConsistencyTimeout = time.Hour })
		c.Pass(time.Second)
		c.Create("a", nil)
		c.handled("a")
		c.Pass(time.Minute)
		k.began = time.Now()
		c.Patch("a", spec(map[string]any{"x": 1}))
		close(write) // before the operator has seen the change
		c.WaitFor("the mark", func() bool { return c.Get("a").Status().Bool("mark") })
		c.Pass(time.Minute)
		c.expect(&k.calls, "update 1s")
		op.Stop()
	})
}

func trying(t *testing.T, c *C) {
	c.Run(t, "BG-4 without options, a daemon is tried for ever, a minute after each error", func(c *C) {
		c.OnlyInBubble("the delays are long")
		for _, backoff := range []time.Duration{0, 10 * time.Second} {
			k := &ticker{}
			r := &kopf.Registry{}
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				k.tick("")
				switch d.Retry {
				case 1:
					return kopf.Temporary(errOops, kopf.DefaultRetryDelay)
				case 2:
					return kopf.Temporary(errOops, kopf.Immediately)
				}
				return errOops
			}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
			op := c.Operator(r, func(op *kopf.Operator) {
				if backoff > 0 {
					op.Settings.Execution.DefaultBackoff = backoff
				}
			})
			c.Pass(time.Second)
			k.began = time.Now()
			name := fmt.Sprint("a", backoff.Seconds())
			c.Create(name, nil)
			c.Pass(24 * time.Hour)
			step := time.Minute
			if backoff > 0 {
				step = backoff
			}
			c.same("the first calls", []string{"0s", step.String(), (step + time.Minute).String(), (step + time.Minute).String(), (2*step + time.Minute).String()}, k.all()[:5])
			if want := int((24*time.Hour - time.Minute) / step); len(k.all()) < want {
				c.Errorf("%d calls in a day, want at least %d", len(k.all()), want)
			}
			op.Stop()
			c.Delete(name)
		}
	})
	c.Run(t, "BG-27 a permanent error ends a daemon for good", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("d %d", d.Retry)
			return kopf.Permanent(errOops)
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(24 * time.Hour)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(24 * time.Hour)
		c.expect(&l, "d 0")
		if lines := op.Logs.Find("Daemon 'd' failed permanently: oops"); len(lines) != 1 || lines[0].Level != slog.LevelError {
			c.Errorf("got the lines %v, want one error", lines)
		}
		if holds(c.Get("a")) {
			c.Error("the object is still held for the daemon")
		}
	})
	c.Run(t, "BG-T23 the context of an attempt ends with the timeout", func(c *C) {
		c.OnlyInBubble("the timeout is long")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			k.tick(fmt.Sprintf("%v stopped=%t ", errors.Is(ctx.Err(), context.DeadlineExceeded), d.StopReason() != ""))
			return ctx.Err()
		}, &kopf.DaemonOptions{ID: "d", Timeout: time.Minute, WithoutFinalizer: true})
		op := c.Operator(r)
		c.Pass(time.Second)
		k.began = time.Now()
		c.Create("a", nil)
		c.Pass(time.Hour)
		c.expect(&k.calls, "true stopped=false 1m0s")
		if n := len(op.Logs.Find("has exited on its own")); n != 1 {
			c.Errorf("the end is told %d times, want once", n)
		}
	})
	c.Run(t, "BG-30 waits are in memory: events do not shorten them, a request to stop ends them", func(c *C) {
		c.OnlyInBubble("the delays are long")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			k.tick("")
			return kopf.Temporary(errOops, time.Hour)
		}, daemonID("d"))
		op := c.Operator(r)
		c.Pass(time.Second)
		k.began = time.Now()
		c.Create("a", nil)
		for range 9 {
			c.Pass(10 * time.Minute)
			c.Patch("a", spec(map[string]any{"at": time.Since(k.began).String()}))
		}
		c.expect(&k.calls, "0s", "1h0m0s")
		before := time.Now()
		c.Delete("a")
		c.gone("a")
		if passed := time.Since(before); passed > time.Second {
			c.Errorf("the object has gone after %s, want at once", passed)
		}
		for _, w := range op.Wire.Writes() {
			if strings.Contains(w.Body, "annotations") || strings.Contains(w.Body, "status") {
				c.Errorf("something was stored about the attempts: %s", w.Body)
			}
		}
	})
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func flagging(t *testing.T, c *C) {
	c.Run(t, "BG-46 of several reasons to stop, the most final one is given", func(c *C) {
		var daemon *kopf.Daemon
		begun, release := make(chan struct{}), make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			daemon = d
			close(begun)
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}, CancellationBackoff: time.Hour})
		c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		<-begun
		c.held("a")
		if got := daemon.StopReason(); got != "" {
			c.Errorf("at first, the reason is %s", got)
		}
		c.Patch("a", labelled("run", "no"))
		c.WaitFor("the mismatch", func() bool { return daemon.StopReason() == kopf.StopFiltersMismatch })
		c.Delete("a")
		c.WaitFor("the deletion", func() bool { return daemon.StopReason() == kopf.StopResourceDeleted })
		close(release)
		c.gone("a")
		if got := daemon.StopReason(); got != kopf.StopResourceDeleted {
			c.Errorf("at the end, the reason is %s", got)
		}
	})
	c.Run(t, "BG-47 the flag can be looked at and waited for", func(c *C) {
		c.OnlyInBubble("the waits are long")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			k.tick(fmt.Sprint(isClosed(d.Stopping()), " ", d.StopReason() == "", " "))
			k.tick(fmt.Sprint(!d.Sleep(time.Minute), " "))
			k.tick(fmt.Sprint(!d.Sleep(time.Hour), " "))
			k.tick(fmt.Sprint(isClosed(d.Stopping()), " ", d.StopReason() == kopf.StopResourceDeleted, " "))
			return nil
		}, daemonID("d"))
		c.Operator(r)
		c.Pass(time.Second)
		k.began = time.Now()
		c.Create("a", nil)
		c.Pass(2 * time.Minute)
		c.Delete("a")
		c.gone("a")
		c.expect(&k.calls, "false true 0s", "false 1m0s", "true 2m0s", "true true 2m0s")
	})
	c.Run(t, "BG-48 a daemon that ends after a request has not ended for good, whatever it says", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("begins")
			<-ctx.Done()
			return kopf.Permanent(errOops)
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}})
		op := c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.expect(&l, "begins")
		c.Patch("a", labelled("run", "no"))
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("has exited on request")) == 1 })
		c.Patch("a", labelled("run", "yes"))
		c.expect(&l, "begins", "begins")
	})
	c.Run(t, "BG-50 timers have no stages: one that is still running is waited for", func(c *C) {
		c.OnlyInBubble("the wait is long")
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			time.Sleep(time.Hour)
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: time.Minute})
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		began := time.Now()
		c.Delete("a")
		c.gone("a")
		if passed := time.Since(began).Truncate(time.Minute); passed != time.Hour {
			c.Errorf("the object has gone after %s, want an hour", passed)
		}
		if n := len(op.Logs.Find("did not exit in time")) + len(op.Logs.Find("signalled to exit gracefully")); n > 0 {
			c.Errorf("%d lines tell of stages", n)
		}
	})
	c.Run(t, "BG-53 the stages go on from the first request", func(c *C) {
		c.OnlyInBubble("the stages are long")
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}, CancellationBackoff: 10 * time.Second, CancellationTimeout: 10 * time.Second})
		op := c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.held("a")
		c.Pass(time.Second)
		began := time.Now()
		c.Patch("a", labelled("run", "no"))
		c.Pass(8 * time.Second)
		c.Delete("a")
		c.gone("a")
		if passed := time.Since(began).Round(time.Second); passed != 20*time.Second {
			c.Errorf("the object has gone %s after the first request, want 20s", passed)
		}
		for _, text := range []string{"is signalled to exit gracefully", "is signalled to exit by force", "did not exit in time"} {
			if n := len(op.Logs.Find(text)); n != 1 {
				c.Errorf("%d lines with %q, want 1", n, text)
			}
		}
		close(release)
		c.Pass(time.Second)
	})
}

func holding(t *testing.T, c *C) {
	c.Run(t, "BG-63 an object is held while a daemon or a timer matches it", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, asked, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"kind": "daemon"}})
		r.OnTimer(Examples, (&ticker{}).once, &kopf.TimerOptions{ID: "t", Interval: time.Hour, Labels: kopf.Match{"kind": "timer"}})
		c.Operator(r)
		c.Create("other", labelled("kind", "none"))
		for _, kind := range []string{"daemon", "timer"} {
			c.Create(kind, labelled("kind", kind))
			c.held(kind)
			c.Patch(kind, labelled("kind", "none"))
			c.WaitFor("the release of the "+kind, func() bool { return !holds(c.Get(kind)) })
		}
		if holds(c.Get("other")) {
			c.Error("an object that nothing matches is held")
		}
	})
	c.Run(t, "BG-64 the finalizer is stored before the handlers of changes are called", func(c *C) {
		var l calls
		begun := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("daemon")
			close(begun)
			return asked(ctx, d)
		}, daemonID("d"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create held=%t", holds(ch.Body))
			return nil
		}, named("create"))
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, finalizer) {
				<-begun
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "daemon", "create held=true")
		first := op.Wire.Writes()[0]
		if !strings.Contains(first.Body, finalizer) || strings.Contains(first.Body, "last-handled-configuration") {
			c.Errorf("the first request is %s, want the finalizer alone", first.Body)
		}
	})
	c.Run(t, "BG-66 a deleted object goes when its deletion handlers are done and its daemons have ended", func(c *C) {
		c.OnlyInBubble("the daemon takes long")
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			time.Sleep(30 * time.Second)
			k.tick("daemon ")
			return nil
		}, daemonID("d"))
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			k.tick("delete ")
			return nil
		}, named("delete"))
		c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		k.began = time.Now()
		c.Delete("a")
		c.Pass(29 * time.Second)
		if !holds(c.Get("a")) {
			c.Error("the object is released before its daemon has ended")
		}
		c.gone("a")
		if passed := time.Since(k.began).Round(time.Second); passed != 30*time.Second {
			c.Errorf("the object has gone after %s, want 30s", passed)
		}
		c.expect(&k.calls, "delete 0s", "daemon 30s")
	})
	c.Run(t, "BG-67 an object whose daemon ends at once goes with one request", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, asked, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		before := len(op.Wire.Writes())
		c.Delete("a")
		c.gone("a")
		if after := op.Wire.Writes()[before:]; len(after) != 1 || !strings.Contains(after[0].Body, "finalizers") {
			c.Errorf("the deletion took the requests %v, want one", after)
		}
	})
	c.Run(t, "BG-T8 a daemon that does not match any more holds its object until it has ended", func(c *C) {
		var l calls
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			l.add("asked")
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}})
		c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.held("a")
		c.Patch("a", labelled("run", "no"))
		c.expect(&l, "asked")
		c.Pass(500 * time.Millisecond)
		if !holds(c.Get("a")) {
			c.Error("the object is released while its daemon runs")
		}
		close(release)
		c.WaitFor("the release", func() bool { return !holds(c.Get("a")) })
	})
	c.Run(t, "BG-T16 objects need not be held, and optional deletion handlers stay optional", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		r.OnTimer(Examples, (&ticker{}).once, &kopf.TimerOptions{ID: "t", Interval: time.Hour, WithoutFinalizer: true})
		r.OnDelete(Examples, l.handler("delete"), &kopf.ChangeOptions{ID: "delete", WithoutFinalizer: true})
		op := c.Operator(r)
		c.Create("a", nil)
		c.expect(&l, "d begins 0")
		c.handled("a")
		if holds(c.Get("a")) {
			c.Error("the object is held")
		}
		c.Delete("a")
		c.gone("a")
		c.expect(&l, "d begins 0", "d ends ResourceDeleted")
		op.Stop()
	})
}

func leaving(t *testing.T, c *C) {
	c.Run(t, "BG-T5 all of many daemons are stopped at the exit", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for i := range 8 {
			r.OnDaemon(Examples, l.daemon(fmt.Sprint("d", i)), &kopf.DaemonOptions{ID: kopf.HandlerID(fmt.Sprint("d", i)), WithoutFinalizer: true})
		}
		op := c.Operator(r)
		for _, name := range []string{"a", "b", "c"} {
			c.Create(name, nil)
		}
		c.WaitFor("all daemons", func() bool { return len(l.all()) == 24 })
		op.Stop()
		if n := l.count("d"); n != 48 {
			c.Errorf("%d beginnings and ends, want 48", n)
		}
	})
	c.Run(t, "BG-T6 a daemon that does not end in a pause is told of once", func(c *C) {
		c.OnlyInBubble("the pause is long")
		table := c.meet()
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", CancellationBackoff: 5 * time.Second, CancellationTimeout: 5 * time.Second, WithoutFinalizer: true})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the daemon", func() bool { return len(op.Logs.Find("Daemon 'd' is invoked.")) == 1 })
		table.sit("boss", rival(100, 36000))
		c.paused(op, 1)
		c.Pass(time.Hour)
		for _, text := range []string{"is signalled to exit gracefully", "is signalled to exit by force", "did not exit in time"} {
			if n := len(op.Logs.Find(text)); n != 1 {
				c.Errorf("%d lines with %q in an hour, want 1", n, text)
			}
		}
		close(release)
		c.Pass(time.Second)
	})
	c.Run(t, "BG-T12 a daemon that matches again is spawned when the old one has ended, without another event", func(c *C) {
		var l calls
		release := make(chan struct{}, 1)
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("begins")
			<-ctx.Done()
			l.add("asked")
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"run": "yes"}})
		op := c.Operator(r)
		c.Create("a", labelled("run", "yes"))
		c.expect(&l, "begins")
		c.Patch("a", labelled("run", "no"))
		c.expect(&l, "begins", "asked")
		c.Patch("a", labelled("run", "yes"))
		c.Pass(500 * time.Millisecond)
		c.expect(&l, "begins", "asked")
		release <- struct{}{}
		c.expect(&l, "begins", "asked", "begins")
		release <- struct{}{}
		op.Stop()
	})
	c.Run(t, "BG-T17 a daemon that does not end is warned of with what to do", func(c *C) {
		c.OnlyInBubble("the waits are long")
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-release
			return nil
		}, &kopf.DaemonOptions{ID: "d", CancellationPolling: 20 * time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		c.Delete("a")
		c.Pass(70 * time.Second)
		lines := op.Logs.Find("Background handler is still exiting")
		if len(lines) != 4 || lines[0].Level != slog.LevelDebug || lines[1].Level != slog.LevelWarn || !strings.HasPrefix(lines[1].Attrs["since"], "20.") || !strings.HasPrefix(lines[3].Attrs["since"], "1m0.") || !strings.Contains(lines[1].Attrs["hint"], "CancellationTimeout") {
			c.Errorf("got the lines %v, want one each 20s, from the second one on warnings with the remedy", lines)
		}
		close(release)
		c.gone("a")
	})
	c.Run(t, "a daemon that ignores its context keeps no other object waiting", func(c *C) {
		var l calls
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			if d.Name() != "a" {
				return asked(ctx, d)
			}
			l.add("stuck")
			<-release
			return nil
		}, daemonID("d"))
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Delete("a")
		c.WaitFor("the deletion", func() bool { return l.count("delete") == 1 })
		c.Create("b", nil)
		c.handled("b")
		c.Delete("b")
		c.gone("b")
		if !c.Exists("a") || l.count("stuck") != 1 {
			c.Errorf("the object of the daemon that is stuck has gone: %q", l.all())
		}
		close(release)
		c.gone("a")
	})
	c.Run(t, "BG-T18 nothing is written while a daemon is waited for", func(c *C) {
		c.OnlyInBubble("the waits are long")
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-release
			return nil
		}, daemonID("d"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		c.Pass(time.Second)
		before := len(op.Wire.Writes())
		c.Delete("a")
		c.Pass(2 * time.Hour)
		if n := len(op.Wire.Writes()) - before; n != 0 {
			c.Errorf("%d requests were made in two hours of waiting: %q", n, patches(op)[before:])
		}
		close(release)
		c.gone("a")
	})
	c.Run(t, "BG-T19 timers that wait need no goroutines", func(c *C) {
		c.OnlyInBubble("only there it is known that all others wait")
		r := &kopf.Registry{}
		k := &ticker{}
		r.OnTimer(Examples, k.once, &kopf.TimerOptions{ID: "t", Interval: time.Hour, WithoutFinalizer: true})
		c.Operator(r)
		c.Pass(time.Minute)
		before := runtime.NumGoroutine()
		for i := range 200 {
			c.Create(fmt.Sprint("a", i), nil)
		}
		c.Pass(time.Minute)
		if n := len(k.all()); n != 200 {
			c.Fatalf("%d timers were called, want 200", n)
		}
		if n := runtime.NumGoroutine() - before; n > 20 {
			c.Errorf("200 waiting timers have %d goroutines", n)
		}
	})
}

func saying(t *testing.T, c *C) {
	c.Run(t, "BG-T24 a result that the schema prunes is told once, with what to do", func(c *C) {
		selector, kind := c.strict()
		r := &kopf.Registry{}
		var n atomic.Int64
		r.OnTimer(selector, func(ctx context.Context, t *kopf.Timer) error {
			t.Patch.Set("spec.unheard", n.Add(1))
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: 50 * time.Millisecond, WithoutFinalizer: true})
		op := c.Operator(r)
		kind.Create("a", spec(map[string]any{"size": 1}))
		kind.Create("b", spec(map[string]any{"size": 1}))
		c.WaitFor("some calls", func() bool { return len(op.Logs.Find("The API server dropped fields of a patch")) > 5 })
		warnings := 0
		for _, line := range op.Logs.Find("The API server dropped fields of a patch") {
			if line.Level == slog.LevelWarn {
				warnings++
				if !strings.Contains(line.Attrs["hint"], "x-kubernetes-preserve-unknown-fields") {
					c.Errorf("the line %q has no remedy", line.Message)
				}
			}
		}
		if warnings != 1 {
			c.Errorf("%d warnings, want one for the kind", warnings)
		}
		op.Stop()
	})
	c.Run(t, "BG-61 what the server does not take over of a daemon's patch is warned of", func(c *C) {
		selector, kind := c.strict()
		r := &kopf.Registry{}
		r.OnDaemon(selector, func(ctx context.Context, d *kopf.Daemon) error {
			d.Patch.Set("spec.unheard", 1)
			d.Patch.Set("spec.size", 2)
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		kind.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("The API server dropped fields of a patch")) == 1 })
		line := op.Logs.Find("The API server dropped fields of a patch")[0]
		if line.Level != slog.LevelWarn || !strings.Contains(line.Attrs["differences"], "unheard") || strings.Contains(line.Attrs["differences"], "size") {
			c.Errorf("got the line %v, want a warning about the one field", line)
		}
	})
	c.Run(t, "BG-T25 the last patch of a daemon is tried again when it was refused for a conflict", func(c *C) {
		var refusals calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"last": "word"}; return nil })
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.ContentType == jsonPatch && len(refusals.all()) < 2 {
				refusals.add("refused")
				c.Patch("a", map[string]any{"status": map[string]any{"beat": len(refusals.all())}}) // another client was quicker
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the last word", func() bool { return c.Get("a").Spec().String("last") == "word" })
		c.expect(&refusals, "refused", "refused")
	})
	c.Run(t, "BG-T25 the last patch is lost only after ten times, with an error", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var refusals calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.Patch.Set("status.last", "word")
			return nil
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		refusing(op, &refusals, func() bool { return true })
		c.Create("a", nil)
		c.Pass(24 * time.Hour)
		if n := len(refusals.all()); n != 11 {
			c.Errorf("the patch was sent %d times, want once and ten times more", n)
		}
		if lines := op.Logs.Find("Dropped the last patch of a handler, because it could not be sent"); len(lines) != 1 || lines[0].Level != slog.LevelError {
			c.Errorf("got the lines %v, want one error", lines)
		}
		op.Stop()
	})
}
