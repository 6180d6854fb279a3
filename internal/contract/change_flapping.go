package contract

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that an operator detects a hot loop over a field, with another client or with itself. It logs the hot loop and slows down,
// without losing changes. It does not slow down other changes.

var _ = Suite("change_flapping", func(t *testing.T, c *C) {
	c.Run(t, "a handler that is called because of its own change without end is slowed down, and a warning says so", proveSelfFlapping)
	c.Run(t, "an event handler that changes the object at each event is slowed down, and a warning says so", proveEventFlapping)
	c.Run(t, "an operator that is in a conflict with another client is slowed down, and the other one is named", proveRivalry)
	c.Run(t, "two operators in a conflict are both slowed down, and when one gives up, nothing is lost", proveTwoOperators)
	c.Run(t, "an operator whose finalizer is removed again and again is slowed down, and a warning says so", proveFinalizerFlapping)
	c.Run(t, "a conflict between a handler and a timer of one operator is slowed down", proveTimerFlapping)
	c.Run(t, "a conflict delays no deletion", proveFlappingDeletion)
	c.Run(t, "an object that is let go is not looked at without end until its end is shown, when it was patched before", proveLateEnd)
	c.Run(t, "when a conflict is over, changes are handled at once again", proveFlappingEnd)
	c.Run(t, "a conflict is counted in the metrics", proveFlappingMetrics)
	c.Run(t, "the values of secrets in a conflict are not logged", proveSecretFlapping)
	c.Run(t, "a conflict can be logged without a pause, or not at all", proveFlappingSettings)
	for name, prove := range map[string]func(c *C){
		"many changes by somebody else":              proveQuickUser,
		"many handlers, one after another":           proveManyHandlers,
		"many sub-handlers, one after another":       proveManySubhandlers,
		"progress that a handler stores by itself":   proveOwnProgress,
		"a field that somebody else sets after ours": proveOtherFields,
	} {
		c.Run(t, name+" are no conflict", prove)
	}
})

// counting is an update handler whose change triggers the handler again.
func counting(_ context.Context, ch *kopf.Change) error {
	ch.Patch.Set("spec.counter", ch.Spec().Int("counter")+1)
	return nil
}

// setting is a handler that sets a field to its value.
func setting(field kopf.FieldPath, value any) kopf.ChangeFunc {
	return func(_ context.Context, ch *kopf.Change) error {
		time.Sleep(10 * time.Millisecond) // the duration of requests to real servers
		if got := ch.Body.Get(field); got != value {
			ch.Patch.Set(field, value)
		}
		return nil
	}
}

const slowedText = "The handling of the object is slowed down while that goes on."

// slowed returns the messages about hot loops.
func (op *Running) slowed() []Line {
	return op.Logs.Find("Fields of the object are changed again and again; slowing down its handling")
}

// wantFlapping waits until a hot loop over the fields is logged. It checks that it is logged once, with the managers of the other clients, if there are any.
func (op *Running) wantFlapping(c *C, fields, managers string) {
	c.Helper()
	c.WaitFor("the warning", func() bool { return len(op.slowed()) > 0 })
	c.Pass(time.Second)
	if got := op.slowed(); len(got) != 1 || got[0].Level != slog.LevelWarn || got[0].Attrs["fields"] != fields || got[0].Attrs["managers"] != managers {
		c.Errorf("got the lines %+v, want the fields %q and the managers %q", got, fields, managers)
	}
}

// wantSlow checks that the operator sent few patches in the ten minutes after the first rounds, but at least one if the loop continues.
func (op *Running) wantSlow(c *C, began time.Time, goesOn bool) {
	c.Helper()
	if !c.InBubble() {
		return
	}
	c.Pass(10*time.Minute - time.Since(began))
	minutes := make([]int, 10)
	for _, req := range op.Wire.Writes() {
		if at := int(req.Time.Sub(began) / time.Minute); !req.Time.Before(began) && at < 10 {
			minutes[at]++
		}
	}
	c.Logf("patches in each minute: %d", minutes)
	// The operator stores the last state as handled by an additional patch, if it changed nothing.
	if minutes[0] < 21 || minutes[0] > 2*(21+8) {
		c.Errorf("%d patches were sent in the first minute, want 21 to 58", minutes[0])
	}
	for minute, n := range minutes[2:] {
		if n > 4 || goesOn && n+minutes[minute+1] == 0 {
			c.Errorf("%d patches were sent in minute %d, want 1 to 4", n, minute+2)
		}
	}
}

// posted returns the reasons and messages of the events about an object.
func (c *C) posted(name string) (all []string) {
	for _, ev := range c.Of("v1", "Event").List() {
		if ev.View("involvedObject").String("name") == name {
			all = append(all, ev.View("").String("type")+" "+ev.View("").String("reason")+": "+ev.View("").String("message"))
		}
	}
	return all
}

func (c *C) wantPosted(name, want string) {
	c.Helper()
	c.WaitFor("the event", func() bool { return len(c.posted(name)) > 0 })
	if got := c.posted(name); len(got) != 1 || got[0] != "Warning "+want+" "+slowedText {
		c.Errorf("got the events %q, want %q", got, want)
	}
}

func proveSelfFlapping(c *C) {
	r := &kopf.Registry{}
	r.OnUpdate(Examples, counting, named("update"))
	r.OnCreate(Examples, ready, named("create"))
	op := c.Operator(r)
	c.Create("a", spec(map[string]any{"counter": 0}))
	c.handled("a")
	began := time.Now()
	c.Patch("a", spec(map[string]any{"counter": 1}))
	const want = "The operator changes these fields again and again because of its own changes: spec.counter."
	op.wantFlapping(c, "spec.counter", "")
	c.wantPosted("a", "ChangedByItself: "+want)
	op.wantSlow(c, began, true)
	if values := op.slowed()[0].Attrs["differences"]; !strings.Contains(values, "spec.counter") {
		c.Errorf("the values are told as %q", values)
	}
}

func proveEventFlapping(c *C) {
	r := &kopf.Registry{}
	n := 0
	r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
		n++
		e.Patch.Set("status.seen", n)
		return nil
	}, &kopf.EventOptions{ID: "event"})
	op := c.Operator(r)
	began := time.Now()
	c.Create("a", nil)
	op.wantFlapping(c, "status.seen", "")
	op.wantSlow(c, began, true)
}

// A competing client sets a field to its own value whenever it has another one, until the context is canceled.
func (c *C) rival(ctx context.Context, name, field string, value any) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		n := 0
		for ev, err := range c.Client.Watch(ctx, kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample"}, &kopf.ListOptions{Namespace: c.Namespace}) {
			if err != nil {
				return
			}
			if ev.Body.Name() == name && fmt.Sprint(ev.Body.Spec().Get(kopf.FieldPath(field))) != fmt.Sprint(value) {
				n++                                                                                                                                 // so that the change does not revert an earlier one
				_, _ = c.Client.Patch(ctx, c.Ref(name), spec(map[string]any{field: value, "rounds": n}), &kopf.PatchOptions{FieldManager: "rival"}) // it may be too late
			}
		}
	}()
	return done
}

// flap starts a hot loop between an operator and another client. The returned function ends it.
func flap(c *C, adjust ...func(*kopf.Operator)) (op *Running, end func()) {
	r := &kopf.Registry{}
	r.OnCreate(Examples, setting("spec.x", "ours"), named("create"))
	r.OnUpdate(Examples, setting("spec.x", "ours"), named("update"))
	op = c.Operator(r, adjust...)
	c.Create("a", spec(map[string]any{"x": "theirs", "y": 0}))
	ctx, cancel := context.WithCancel(c.Context())
	done := c.rival(ctx, "a", "x", "theirs")
	end = func() {
		cancel()
		<-done
	}
	c.Cleanup(end)
	return op, end
}

func proveRivalry(c *C) {
	began := time.Now()
	op, end := flap(c)
	want := "The operator and rival change these fields in turns: spec.x."
	op.wantFlapping(c, "spec.x", "rival")
	c.wantPosted("a", "ChangedBack: "+want)
	op.wantSlow(c, began, true)
	if values := op.slowed()[0].Attrs["differences"]; !strings.Contains(values, "change spec.x: theirs -> ours") {
		c.Errorf("the values are told as %q", values)
	}
	end()
	if c.InBubble() {
		c.Pass(2 * time.Minute)
	}
	c.WaitFor("our last word", func() bool { return c.Get("a").Spec().String("x") == "ours" })
}

func proveTwoOperators(c *C) {
	c.OnlyInBubble("the pauses are long")
	start := func(value string) *Running {
		r := &kopf.Registry{}
		r.OnUpdate(Examples, setting("spec.x", value), named("update"))
		r.OnField(Examples, "spec.y", func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set(kopf.Path("status", value), ch.New.Get(""))
			return nil
		}, named("field"))
		return c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: value + ".kopf.dev"}
			op.Settings.Persistence.ProgressStorage = &kopf.AnnotationsProgressStorage{Prefix: value + ".kopf.dev"}
		})
	}
	first, second := start("first"), start("second")
	c.Create("a", spec(map[string]any{"x": "", "y": 0}))
	c.Pass(time.Second)
	began := time.Now()
	c.Patch("a", spec(map[string]any{"x": "?"}))
	first.wantFlapping(c, "spec.x", "kopf-go")
	second.wantFlapping(c, "spec.x", "kopf-go")
	first.wantSlow(c, began, false) // one of them may find nothing to change
	second.wantSlow(c, began, false)
	c.Patch("a", spec(map[string]any{"y": 7}))
	second.Stop()
	c.Pass(3 * time.Minute)
	body := c.Get("a")
	if got := body.Spec().String("x"); got != "first" {
		c.Errorf("the field is %q at last", got)
	}
	if got := body.Status().String("first"); got != "7" {
		c.Errorf("the change during the conflict was handled as %q", got)
	}
}

func proveFinalizerFlapping(c *C) {
	c.OnlyInBubble("the pauses are long")
	r := &kopf.Registry{}
	r.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, named("delete"))
	op := c.Operator(r)
	began := time.Now()
	c.Create("a", nil)
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range c.Client.Watch(ctx, kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample"}, &kopf.ListOptions{Namespace: c.Namespace}) {
			if err == nil && len(ev.Body.Finalizers()) > 0 {
				_, _ = c.Client.Patch(ctx, c.Ref("a"), map[string]any{"metadata": map[string]any{"finalizers": nil}}, nil) // it may be too late
			}
		}
	}()
	defer func() { <-done }()
	defer cancel()
	op.wantFlapping(c, "metadata.finalizers", "")
	op.wantSlow(c, began, true)
}

func proveTimerFlapping(c *C) {
	c.OnlyInBubble("the pauses are long")
	r := &kopf.Registry{}
	r.OnUpdate(Examples, setting("spec.x", "handler"), named("update"))
	r.OnCreate(Examples, setting("spec.x", "handler"), named("create"))
	r.OnTimer(Examples, func(_ context.Context, t *kopf.Timer) error {
		t.Patch.Set("spec.x", "timer")
		return nil
	}, &kopf.TimerOptions{ID: "timer", Interval: 2 * time.Second})
	op := c.Operator(r)
	c.Create("a", nil)
	op.wantFlapping(c, "spec.x", "")
	c.Pass(5 * time.Minute)
	before := len(op.Wire.Writes())
	c.Pass(10 * time.Minute)
	if n := len(op.Wire.Writes()) - before; n > 40 {
		c.Errorf("%d patches were sent in ten minutes", n)
	}
}

func proveFlappingDeletion(c *C) {
	r := &kopf.Registry{}
	r.OnUpdate(Examples, counting, named("update"))
	var l calls
	r.OnDelete(Examples, l.handler("delete"), named("delete"))
	op := c.Operator(r)
	c.Create("a", nil)
	c.handled("a")
	c.Patch("a", spec(map[string]any{"counter": 1}))
	c.WaitFor("the warning", func() bool { return len(op.slowed()) > 0 })
	if c.InBubble() {
		c.Pass(2*time.Minute + 5*time.Second) // within a backoff of a minute
	}
	began := time.Now()
	c.Delete("a")
	c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
	if took := time.Since(began); c.InBubble() && took > time.Second {
		c.Errorf("the deletion has taken %s", took)
	}
	if l.count("delete") != 1 {
		c.Errorf("got the calls %q", l.all())
	}
}

func proveFlappingEnd(c *C) {
	c.OnlyInBubble("the pauses are long")
	op, end := flap(c)
	op.wantFlapping(c, "spec.x", "rival")
	c.Pass(10 * time.Minute)
	end()
	c.Pass(5 * time.Minute)
	if lines := op.Logs.messages("The update conflict is over"); len(lines) != 1 {
		c.Errorf("the end of the conflict is logged as %q", lines)
	}
	for n := range 5 {
		c.Patch("a", spec(map[string]any{"x": fmt.Sprint("user", n)}))
		c.Pass(time.Second)
		if got := c.Get("a").Spec().String("x"); got != "ours" {
			c.Errorf("the change %d is not handled: %q", n, got)
		}
	}
	c.Pass(time.Minute)
	c.rival(c.Context(), "a", "x", "theirs")
	c.Pass(time.Minute)
	if n := len(op.slowed()); n != 2 {
		c.Errorf("%d conflicts were logged, want 2", n)
	}
}

func proveFlappingMetrics(c *C) {
	c.OnlyInBubble("the pauses are long")
	p := newPipe()
	flap(c, probed(p, "http://0.0.0.0/healthz"))
	wantMetrics(c, p, map[string]float64{"kopf_flapping_total": 0})
	c.Pass(10 * time.Minute)
	wantMetrics(c, p, map[string]float64{"kopf_flapping_total": 1})
}

func proveSecretFlapping(c *C) {
	r := &kopf.Registry{}
	n := 0
	r.OnEvent("v1/secrets", func(_ context.Context, e *kopf.WatchEvent) error {
		if e.Name() == "a" {
			n++
			e.Patch.Set("data.key", base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "hidden%d", n)))
		}
		return nil
	}, &kopf.EventOptions{ID: "event"})
	op := c.Operator(r)
	c.Of("v1", "Secret").Create("a", nil)
	c.WaitFor("the warning", func() bool { return len(op.slowed()) > 0 })
	for _, line := range op.slowed() {
		if strings.Contains(fmt.Sprint(line), "hidden") || strings.Contains(fmt.Sprint(line), "aGlkZGVu") || line.Attrs["fields"] != "data.key" {
			c.Errorf("got the line %v", line)
		}
	}
}

func proveFlappingSettings(c *C) {
	c.OnlyInBubble("the rounds are counted")
	for _, test := range []struct {
		rounds int
		told   int
		pause  time.Duration
	}{{0, 0, time.Minute}, {7, 1, 0}} {
		updates, enough := 0, make(chan struct{})
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if updates++; updates == 100 {
				close(enough)
				return nil
			}
			return counting(ctx, ch)
		}, named("update"))
		name := fmt.Sprint("a", test.rounds)
		op := c.Operator(r, func(op *kopf.Operator) {
			if s := op.Settings.Queueing; s.FlappingRounds != 20 || s.FlappingPause != time.Minute {
				c.Errorf("the defaults are %+v", s)
			}
			op.Settings.Queueing.FlappingRounds, op.Settings.Queueing.FlappingPause = test.rounds, test.pause
		})
		c.Create(name, nil)
		c.Pass(time.Minute)
		began := time.Now()
		c.Patch(name, spec(map[string]any{"counter": 1}))
		<-enough
		if took := time.Since(began); took > time.Second {
			c.Errorf("with %d rounds, 100 updates have taken %s", test.rounds, took)
		}
		if n := len(op.slowed()); n != test.told {
			c.Errorf("with %d rounds, it was told %d times", test.rounds, n)
		}
		op.Stop()
	}
}

// wantPeace checks that no hot loop was logged.
func (op *Running) wantPeace(c *C) {
	c.Helper()
	if lines := op.slowed(); len(lines) > 0 {
		c.Errorf("it was told: %q", lines)
	}
}

func proveQuickUser(c *C) {
	r := &kopf.Registry{}
	r.OnCreate(Examples, ready, named("create"))
	r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
		ch.Patch.Set("status.seen", ch.Spec().Get("a"))
		ch.Patch.Set("metadata.annotations.seen", ch.Spec().String("a"))
		return nil
	}, named("update"))
	op := c.Operator(r)
	c.Create("a", nil)
	c.handled("a")
	for n := range 100 {
		c.Patch("a", spec(map[string]any{"a": n}))
		if c.InBubble() {
			c.Pass(20 * time.Millisecond)
			if got := c.Get("a").Status().String("seen"); got != fmt.Sprint(n) {
				c.Fatalf("the change %d is handled as %s", n, got)
			}
		}
	}
	c.WaitFor("the last change", func() bool { return c.Get("a").Status().String("seen") == "99" })
	op.wantPeace(c)
}

func proveManyHandlers(c *C) {
	const handlers = 40
	r := &kopf.Registry{}
	for n := range handlers {
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.progress", n)
			return nil
		}, named(kopf.HandlerID(fmt.Sprint("update", n))))
	}
	op := c.Operator(r, func(op *kopf.Operator) { op.Lifecycle = kopf.ASAP })
	c.Create("a", nil)
	c.handled("a")
	began := time.Now()
	c.Patch("a", spec(map[string]any{"a": 1}))
	c.WaitFor("all handlers", func() bool { return c.Get("a").Status().String("progress") == fmt.Sprint(handlers-1) })
	if took := time.Since(began); c.InBubble() && took > time.Second {
		c.Errorf("it has taken %s", took)
	}
	op.wantPeace(c)
}

func proveManySubhandlers(c *C) {
	const subs = 40
	r := &kopf.Registry{}
	r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
		for n := range subs {
			ch.Subhandler(kopf.HandlerID(fmt.Sprint("sub", n)), func(_ context.Context, ch *kopf.Change) error {
				ch.Patch.Set("status.progress", fmt.Sprint(ch.Spec().Int("a"), " ", n))
				return nil
			}, nil)
		}
		return nil
	}, named("update"))
	op := c.Operator(r)
	c.Create("a", nil)
	c.handled("a")
	for change := range 3 {
		c.Patch("a", spec(map[string]any{"a": change}))
		last := fmt.Sprint(change, " ", subs-1)
		c.WaitFor("all sub-handlers", func() bool { return c.Get("a").Status().String("progress") == last })
	}
	op.wantPeace(c)
}

func proveOwnProgress(c *C) {
	c.OnlyInBubble("it takes minutes")
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		ch.Patch.Set("status.attempt", ch.Retry)
		if ch.Retry == 100 {
			return nil
		}
		return kopf.Temporary(errOops, time.Second)
	}, named("create"))
	op := c.Operator(r)
	began := time.Now()
	c.Create("a", nil)
	c.handled("a")
	if took := time.Since(began).Round(10 * time.Second); took != 100*time.Second {
		c.Errorf("it has taken %s", took)
	}
	op.wantPeace(c)
}

// proveOtherFields has another client answer each change of the operator by a change of another field.
func proveOtherFields(c *C) {
	c.OnlyInBubble("it takes a minute")
	r := &kopf.Registry{}
	r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
		ch.Patch.Set("status.seen", ch.Spec().Get("n"))
		return nil
	}, named("update"))
	op := c.Operator(r)
	c.Create("a", nil)
	c.handled("a")
	for n := range 60 {
		c.Patch("a", spec(map[string]any{"n": n}))
		c.Pass(time.Second)
	}
	op.wantPeace(c)
}

// proveLateEnd delays the patch that removes the finalizer, and the stream. The delay is longer than the time in which two changes count as related.
func proveLateEnd(c *C) {
	c.OnlyInBubble("streams have to be late")
	s := &lateStream{plural: "kopfexamples"}
	var indexed atomic.Int64
	r := &kopf.Registry{}
	kopf.OnIndexIn(r, Examples, func(context.Context, *kopf.Indexing) (map[string]string, error) {
		if indexed.Add(1) > 100 {
			time.Sleep(time.Second) // otherwise the clock would not move
		}
		return nil, nil
	}, &kopf.IndexOptions{ID: "index"})
	r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { return nil }, &kopf.DaemonOptions{ID: "daemon", Labels: kopf.Match{"daemon": "yes"}})
	r.OnCreate(Examples, ready, named("create"))
	for _, id := range []kopf.HandlerID{"first", "second"} {
		r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error {
			time.Sleep(2 * time.Second) // so that the outcome of the first one is stored separately
			ch.SetResult("done")
			return nil
		}, named(id))
	}
	c.Operator(r, wired(func(q *Request) (*http.Response, error) {
		if q.Method == http.MethodPatch && strings.Contains(q.Body, "/metadata/finalizers/0") {
			s.held.Store(true)
			time.Sleep(15 * time.Second)
		}
		return nil, nil
	}), s.of)
	c.Create("a", nil)
	c.handled("a")
	c.Delete("a")
	c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
	before := indexed.Load()
	c.Pass(time.Minute)
	if n := indexed.Load() - before; n > 10 {
		c.Errorf("the object was looked at %d times in a minute", n)
	}
	s.held.Store(false)
	c.Pass(time.Hour)
}
