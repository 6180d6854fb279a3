package contract

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// This suite kills operators, like kill -9, before and after each of their writing requests. It proves that the next operator leaves the same objects
// as an uninterrupted one.

var _ = Suite("stress_crashes", func(t *testing.T, c *C) {
	for _, p := range plays {
		p.perform(t, c)
	}
})

// play is the life of one object, in acts.
type play struct {
	name     string
	kind     string // of the object; KopfExample by default
	register func(s *stage)
	acts     []act
}

// act changes the object, and reports when the change is completely handled.
type act struct {
	change func(k *Kind)
	done   func(body *kopf.Body) bool // nil means that the object must be gone
}

// stage runs a play: with one operator, and another one after that was killed.
type stage struct {
	c        *C
	kind     *Kind
	registry *kopf.Registry
	wire     *Wire // the wire of the operator with the handlers
	selector kopf.Selector
	pause    time.Duration
	calls    *calls
}

// handler returns a handler that records its successes. It fails in the given number of attempts.
func (s *stage) handler(name string, failures int, do func(ch *kopf.Change)) kopf.ChangeFunc {
	return func(ctx context.Context, ch *kopf.Change) error {
		if s.wire.Dead() { // the process is dead, too, and does nothing anymore
			<-ctx.Done()
			return ctx.Err()
		}
		if ch.Retry < failures {
			return kopf.Temporary(errOops, s.pause)
		}
		do(ch)
		s.calls.add("%s %s %d", name, ch.Reason, ch.Spec().Int("size"))
		return nil
	}
}

var plays = []play{
	{
		name: "two handlers and a finalizer",
		register: func(s *stage) {
			result := func(ch *kopf.Change) {
				ch.SetResult(map[string]any{"size": ch.Spec().Int("size")})
				ch.Patch.Set("metadata.labels.seen", fmt.Sprint(ch.Spec().Int("size")))
			}
			status := func(ch *kopf.Change) { ch.Patch.Set("status.second", ch.Spec().Int("size")) }
			s.registry.OnCreate(s.selector, s.handler("one", 0, result), named("one"))
			s.registry.OnCreate(s.selector, s.handler("two", 1, status), named("two"))
			s.registry.OnUpdate(s.selector, s.handler("one", 0, result), &kopf.ChangeOptions{ID: "one", Field: "spec.size"})
			s.registry.OnUpdate(s.selector, s.handler("two", 1, status), &kopf.ChangeOptions{ID: "two", Field: "spec.size"})
			s.registry.OnDelete(s.selector, s.handler("three", 0, result), named("three"))
			s.registry.OnDelete(s.selector, s.handler("four", 1, status), named("four"))
		},
		acts: []act{created(1), resized(2), deleted},
	},
	{
		name: "results in a status that is a subresource",
		kind: "KopfStatusExample",
		register: func(s *stage) {
			result := func(ch *kopf.Change) { ch.SetResult(map[string]any{"size": ch.Spec().Int("size")}) }
			s.registry.OnCreate(s.selector, s.handler("one", 1, result), named("one"))
			s.registry.OnUpdate(s.selector, s.handler("two", 0, result), &kopf.ChangeOptions{ID: "two", Field: "spec.size"})
		},
		acts: []act{created(1), resized(2)},
	},
	{
		name: "sub-handlers of two levels",
		register: func(s *stage) {
			leaf := func(name string, failures int) kopf.ChangeFunc {
				return s.handler(name, failures, func(ch *kopf.Change) { ch.SetResult(ch.Spec().Int("size")) })
			}
			parent := func(ctx context.Context, ch *kopf.Change) error {
				ch.Subhandler("a", leaf("a", 1), nil)
				ch.Subhandler("b", func(ctx context.Context, inner *kopf.Change) error {
					inner.Subhandler("c", leaf("c", 1), nil)
					inner.Subhandler("d", leaf("d", 0), nil)
					return nil
				}, nil)
				return nil
			}
			s.registry.OnCreate(s.selector, parent, named("parent"))
			s.registry.OnUpdate(s.selector, parent, &kopf.ChangeOptions{ID: "parent", Field: "spec.size"})
		},
		acts: []act{created(1), resized(2)},
	},
	{
		name: "a daemon and a timer",
		register: func(s *stage) {
			status := func(ch *kopf.Change) { ch.Patch.Set("status.size", ch.Spec().Int("size")) }
			s.registry.OnDaemon(s.selector, func(ctx context.Context, d *kopf.Daemon) error {
				<-ctx.Done()
				d.Patch.Set("status.ended", true)
				return nil
			}, &kopf.DaemonOptions{ID: "daemon", CancellationTimeout: time.Second})
			s.registry.OnTimer(s.selector, func(ctx context.Context, t *kopf.Timer) error {
				if s.wire.Dead() {
					<-ctx.Done()
					return ctx.Err()
				}
				t.SetResult(map[string]any{"ticked": true})
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Hour})
			s.registry.OnCreate(s.selector, s.handler("create", 1, status), named("create"))
			s.registry.OnUpdate(s.selector, s.handler("update", 1, status), &kopf.ChangeOptions{ID: "update", Field: "spec.size"})
			s.registry.OnDelete(s.selector, s.handler("delete", 1, status), named("delete"))
		},
		acts: []act{ticked(1), ticked(2), deleted},
	},
	{
		name: "causes that supersede each other",
		register: func(s *stage) {
			status := func(ch *kopf.Change) { ch.Patch.Set("status.size", ch.Spec().Int("size")) }
			s.registry.OnCreate(s.selector, s.handler("create", 0, status), named("create"))
			s.registry.OnCreate(s.selector, func(ctx context.Context, ch *kopf.Change) error {
				if ch.Spec().Int("size") < 2 && !s.wire.Dead() { // it never succeeds before the update
					return kopf.Temporary(errOops, time.Second)
				}
				return s.handler("late", 0, status)(ctx, ch)
			}, named("late"))
			s.registry.OnUpdate(s.selector, s.handler("update", 0, status), &kopf.ChangeOptions{ID: "update", Field: "spec.size"})
			s.registry.OnUpdate(s.selector, func(ctx context.Context, ch *kopf.Change) error {
				return kopf.Temporary(errOops, time.Hour) // only the deletion ends it
			}, &kopf.ChangeOptions{ID: "never", Field: "spec.never"})
			s.registry.OnDelete(s.selector, s.handler("delete", 1, status), named("delete"))
		},
		acts: []act{
			{change: toSize(1), done: func(b *kopf.Body) bool { return b.Status().Int("size") == 1 && slices.Contains(records(b), "late") }},
			resized(2),
			{
				change: func(k *Kind) { k.Patch("a", spec(map[string]any{"never": true})) },
				done:   func(b *kopf.Body) bool { return len(records(b)) > 0 },
			},
			deleted,
		},
	},
}

func toSize(size int) func(*Kind) {
	return func(k *Kind) { k.Apply("a", spec(map[string]any{"size": size})) }
}

// created and resized are handled when the stored state is that of the object, and nothing else is stored.
func created(size int) act { return resized(size) }

func resized(size int) act {
	return act{change: toSize(size), done: func(b *kopf.Body) bool {
		base, _ := b.Annotation(diffBase)
		seen, labelled := b.Label("seen")
		return strings.Contains(base, fmt.Sprintf(`"size":%d`, size)) && len(records(b)) == 0 && (!labelled || strings.Contains(base, fmt.Sprintf(`"seen":%q`, seen)))
	}}
}

// ticked is like resized, and waits for a call of the timer, too.
func ticked(size int) act {
	a := resized(size)
	handled := a.done
	a.done = func(b *kopf.Body) bool { return handled(b) && b.Status().Bool("timer.ticked") && holds(b) }
	return a
}

var deleted = act{change: func(k *Kind) { k.Delete("a") }}

// perform runs the play once for each writing request and point of the crash.
func (p *play) perform(t *testing.T, c *C) {
	var wanted []map[string]any
	total := 0
	c.Run(t, p.name+": nobody is killed", func(c *C) {
		var op *Running
		wanted, op = p.once(c, 0, false)
		total = len(op.Wire.Writes())
		if total < len(p.acts) {
			c.Fatalf("%d requests that write in %d acts", total, len(p.acts))
		}
	})
	for n := 1; n <= total; n++ {
		for _, after := range []bool{false, true} {
			c.Run(t, fmt.Sprintf("%s: killed at request %d of %d, answered %t", p.name, n, total, after), func(c *C) {
				got, _ := p.once(c, n, after)
				if diff := cmp.Diff(wanted, got); diff != "" {
					c.Errorf("the object after each act (-never killed +killed):\n%s", diff)
				}
			})
		}
	}
}

// once runs the play, and returns the object after each act, and the first operator.
func (p *play) once(c *C, n int, after bool) (states []map[string]any, first *Running) {
	s := &stage{c: c, kind: c.Kind, selector: Examples, pause: 30 * time.Millisecond, calls: &calls{}}
	if p.kind != "" {
		s.kind, s.selector = c.Of("kopf.dev/v1", p.kind), kopf.Selector(strings.ToLower(p.kind)+"s.v1.kopf.dev")
	}
	first = s.operator(p)
	op := first
	if n > 0 {
		op.Wire.CutAt(n, after)
	}
	for _, a := range p.acts {
		a.change(s.kind)
		c.WaitFor("the end of an act", func() bool {
			if op.Wire.Dead() {
				op.Crash()
				op = s.operator(p)
			}
			if a.done == nil {
				return !s.kind.Exists("a")
			}
			return a.done(s.kind.Get("a"))
		})
		states = append(states, p.state(s.kind, a))
	}
	s.check()
	return states, first
}

func (s *stage) operator(p *play) *Running {
	s.c.Helper()
	own := *s
	own.registry = &kopf.Registry{}
	own.wire = &Wire{} // never dead
	p.register(&own)
	op := s.c.Operator(own.registry, func(op *kopf.Operator) {
		own.wire = op.Connection.HTTPClient.Transport.(*Wire)
		op.Settings.Queueing.ExitTimeout = 0 // a dead process does not wait
		op.Settings.Networking.ErrorBackoffs = nil
	})
	return op
}

// state returns the object without the fields that depend on the time of a write.
func (p *play) state(k *Kind, a act) map[string]any {
	if a.done == nil {
		return nil
	}
	object := k.Get("a").Map()
	meta, _ := object["metadata"].(map[string]any)
	for _, key := range []string{"uid", "namespace", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(meta, key)
	}
	annotations, _ := meta["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(key string, _ any) bool { return key != diffBase })
	return object
}

// check checks that no handler was called again after its success was stored. A success in the last request before the crash may be repeated, for all
// handlers of one flush.
func (s *stage) check() {
	s.c.Helper()
	times := map[string]int{}
	for _, call := range s.calls.all() {
		if times[call]++; times[call] > 2 {
			s.c.Errorf("%q has succeeded %d times", call, times[call])
		}
	}
	repeated := 0
	for _, n := range times {
		repeated += n - 1
	}
	if repeated > 2 {
		s.c.Errorf("%d successes were repeated: %q", repeated, s.calls.all())
	}
}
