package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what arguments daemons and timers get, in 2-background.md.

var _ = Suite("background_arguments", func(t *testing.T, c *C) {
	optioning(t, c)
	attending(t, c)
	trying(t, c)
	flagging(t, c)
})

// fieldsOf returns the names of the fields of a struct, sorted.
func fieldsOf(v any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// panicOf returns the message of the panic of a registration, "" if there is none.
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

// once is a timer that counts its call.
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
		close(write) // before the operator has received the change
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
