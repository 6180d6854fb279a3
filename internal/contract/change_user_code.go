package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that an error in a user-defined storage, transformation or predicate delays only its own object, whichever goroutine runs the code.

// faultyDiffBase is a storage of the last-handled configuration with faults for some objects.
type faultyDiffBase struct {
	kopf.AnnotationsDiffBaseStorage
	build func(body *kopf.Body)
}

func (s *faultyDiffBase) Build(body *kopf.Body, fields []kopf.FieldPath) *kopf.Essence {
	s.build(body)
	return s.AnnotationsDiffBaseStorage.Build(body, fields)
}

// faultyProgress is a storage of progress with faults for some objects.
type faultyProgress struct {
	kopf.SmartProgressStorage
	store func(body *kopf.Body)
	fetch func(id kopf.HandlerID) // nil for no fault
}

func (s *faultyProgress) Fetch(id kopf.HandlerID, body *kopf.Body) (*kopf.ProgressRecord, error) {
	if s.fetch != nil {
		s.fetch(id)
	}
	return s.SmartProgressStorage.Fetch(id, body)
}

func (s *faultyProgress) Store(id kopf.HandlerID, r *kopf.ProgressRecord, body *kopf.Body, patch *kopf.Patch) {
	s.store(body)
	s.SmartProgressStorage.Store(id, r, body, patch)
}

// absent is an error type whose nil pointer is not a nil error, and has no text.
type absent struct{ text string }

func (e *absent) Error() string { return e.text }

var _ = Suite("change_user_code", func(t *testing.T, c *C) {
	transforming(t, c)
	c.Run(t, "DF-10 a progress storage that panics while another handler runs costs its object a pause", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var broken atomic.Bool
		broken.Store(true)
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("first"), named("first"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("second")
			time.Sleep(10 * time.Second)
			return nil
		}, named("second"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.ProgressStorage = &faultyProgress{store: func(body *kopf.Body) {
				if body.Name() == "a" && broken.Load() {
					panic("a storage with a mistake")
				}
			}}
		})
		c.Create("a", nil)
		c.Create("b", nil)
		c.Pass(5 * time.Second)
		c.Pass(time.Minute)
		c.handled("b")
		broken.Store(false)
		c.Pass(time.Hour)
		c.handled("a")
	})
	c.Run(t, "DF-10 what a handler of events has left is stored after a storage has panicked", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var broken atomic.Bool
		broken.Store(true)
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if l.add("event"); l.count("event") == 1 {
				e.Patch.Set("status.seen", true)
			}
			return nil
		}, watchedAs("event"))
		r.OnCreate(Examples, l.handler("create"), named("create"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(*kopf.Body) {
				if broken.Load() {
					panic("a storage with a mistake")
				}
			}}
		})
		c.Create("a", nil)
		c.Pass(time.Second)
		broken.Store(false)
		c.Pass(time.Hour)
		c.handled("a")
		if !c.Get("a").Status().Bool("seen") {
			c.Errorf("the object is %s after the calls %q", c.Get("a").LogValue(), l.all())
		}
	})
	for _, id := range []kopf.HandlerID{"handling-state", "first", "second", "third"} {
		c.Run(t, "DF-10 a change amid a handling is not lost when a storage panics at the record of "+string(id), func(c *C) {
			c.OnlyInBubble("the pauses are long")
			var l calls
			var down, broken atomic.Bool
			down.Store(true)
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("first"), named("first"))
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
				if down.Load() {
					return kopf.Temporary(errors.New("it is down"), time.Minute)
				}
				return nil
			}, named("second"))
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
				l.add("update to %d", ch.Spec().Int("x"))
				return nil
			}, named("third"))
			faulty := func(op *kopf.Operator) {
				op.Settings.Persistence.ProgressStorage = &faultyProgress{store: func(*kopf.Body) {}, fetch: func(of kopf.HandlerID) {
					if of == id && broken.Load() {
						panic("a storage with a mistake")
					}
				}}
			}
			op := c.Operator(r, faulty)
			c.Create("a", spec(map[string]any{"x": 1}))
			c.Pass(10 * time.Second)
			op.Stop()
			c.Patch("a", spec(map[string]any{"x": 2}))
			broken.Store(true)
			c.Operator(r, faulty)
			c.Pass(10 * time.Second)
			broken.Store(false)
			down.Store(false)
			c.Pass(time.Hour)
			c.handled("a")
			c.expect(&l, "first create 0", "update to 2")
		})
	}
	c.Run(t, "DF-10 a diff-base storage that panics at a change during an interruptible handler costs its object a pause", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create %s", ch.Name())
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * time.Second):
				return nil
			}
		}, interruptible("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(body *kopf.Body) {
				if body.Spec().Has("bad") {
					panic("a storage with a mistake")
				}
			}}
		})
		c.Create("a", nil)
		c.Pass(time.Second)
		c.Patch("a", spec(map[string]any{"bad": true}))
		c.Create("b", nil)
		c.Pass(time.Minute)
		c.handled("b")
		c.Patch("a", spec(map[string]any{"bad": nil, "x": 1}))
		c.Pass(time.Hour)
		c.handled("a")
	})
	c.Run(t, "DF-10 a diff-base storage that blocks at a change during an interruptible handler holds up no other object", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		door := newDoorway()
		defer door.let()
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create %s", ch.Name())
			if ch.Name() != "a" {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				return nil
			}
		}, interruptible("create"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(body *kopf.Body) {
				if body.Spec().Has("slow") {
					door.pass(context.Background())
				}
			}}
		})
		c.Create("a", nil)
		c.Pass(100 * time.Millisecond)
		c.Patch("a", spec(map[string]any{"slow": true}))
		c.Pass(time.Second)
		for n := range 3 {
			c.Create(fmt.Sprint("b", n), nil)
		}
		c.Pass(10 * time.Second)
		if n := l.count("create b"); n != 3 {
			c.Errorf("while one object waits for its storage, %d of 3 other ones are handled", n)
		}
		door.let()
		c.Pass(time.Hour)
		c.handled("a")
	})
	c.Run(t, "DF-10 a predicate of a daemon that blocks holds up no pause of the others", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		peers := c.meet()
		door := newDoorway()
		defer door.let()
		var running atomic.Int64
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", When: func(d *kopf.Daemon) bool {
			if d.Name() == "a" {
				door.pass(context.Background())
			}
			return true
		}})
		c.Operator(r, as("one"))
		c.Create("b", nil)
		c.Create("c", nil)
		c.Pass(time.Second)
		c.Create("a", nil)
		c.Pass(time.Second)
		if n := running.Load(); n != 2 {
			c.Fatalf("%d daemons run", n)
		}
		peers.sit("rival", rival(100, 3600))
		c.Pass(time.Minute)
		if n := running.Load(); n != 0 {
			c.Errorf("a minute after the operator was to pause, %d daemons run", n)
		}
	})
	c.Run(t, "DF-10 a diff-base storage that panics after a permanent failure of a timer costs its object a pause, not the process", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var broken atomic.Bool
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			broken.Store(true)
			return kopf.Permanent(errOops)
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Minute})
		r.OnCreate(Examples, ready, named("create"))
		c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(body *kopf.Body) {
				if body.Name() == "a" && broken.Load() {
					panic("a storage with a mistake")
				}
			}}
		})
		c.Create("a", nil)
		c.Pass(10 * time.Second)
		c.Create("b", nil)
		c.WaitFor("the other object", func() bool { return c.isReady("b") })
	})
	c.Run(t, "DF-10 a predicate of resources that blocks holds up no namespace", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		door := newDoorway()
		defer door.let()
		var asked atomic.Int64
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create %s", ch.Namespace())
			return nil
		}, &kopf.ChangeOptions{ID: "create", Where: func(kopf.Resource) bool {
			if asked.Load() > 0 {
				door.pass(context.Background())
			}
			return true
		}})
		c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "*"} })
		c.Pass(time.Minute)
		asked.Store(1)
		c.Define(c.gadgets()) // triggers another discovery
		c.Pass(time.Minute)
		inside := *c
		inside.Namespace = c.Unique("new")
		c.Of("v1", "Namespace").Create(inside.Namespace, nil)
		inside.Of("kopf.dev/v1", "KopfExample").Create("a", nil)
		c.Pass(time.Minute)
		if l.count("create "+inside.Namespace) != 1 {
			c.Errorf("the calls are %q", l.all())
		}
	})
	c.Run(t, "DF-10 a nil pointer of an error type is an error like others", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l calls
		fail := func(name string) error {
			l.add("%s", name)
			var none *absent
			return none
		}
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return fail("create") }, &kopf.ChangeOptions{ID: "create", Retries: 3})
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return fail("event") }, watchedAs("event"))
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return fail("timer") }, &kopf.TimerOptions{ID: "timer", Interval: time.Hour, Retries: 3})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(24 * time.Hour)
		c.handled("a")
		if l.count("create") != 3 || l.count("timer") != 3 {
			c.Errorf("with three attempts each, the calls are %q", l.all())
		}
	})
})

// overlapMeter counts the calls of transformations while a handler runs.
type overlapMeter struct {
	running         atomic.Bool
	calls, overlaps atomic.Int32
}

func (b *overlapMeter) work(d time.Duration) {
	b.running.Store(true)
	time.Sleep(d) // the work of a handler, in a leaf
	b.running.Store(false)
}

func (b *overlapMeter) transform(object map[string]any) error {
	if b.calls.Add(1); b.running.Load() {
		b.overlaps.Add(1)
	}
	object["spec"].(map[string]any)["y"] = 1
	return nil
}

func transforming(t *testing.T, c *C) {
	c.Run(t, "DF-43 a function of Transform does not run while the next handler runs", func(c *C) {
		var b overlapMeter
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(b.transform)
			return nil
		}, named("first"))
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
			b.work(3 * time.Second)
			return nil
		}, named("second"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		if got := c.Get("a").Spec().Int("y"); b.calls.Load() == 0 || b.overlaps.Load() > 0 || got != 1 {
			c.Errorf("the function was called %d times, %d times during a handler, and the object has %d", b.calls.Load(), b.overlaps.Load(), got)
		}
	})
	for _, interruptible := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-43 a function of Transform of an executed sub-handler does not run while its parent goes on, interruptible %v", interruptible), func(c *C) {
			c.OnlyInBubble("requests fail")
			var b overlapMeter
			var refused, parents atomic.Int32
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				ch.Subhandler("sub", func(_ context.Context, sub *kopf.Change) error {
					sub.Patch.Transform(b.transform)
					return nil
				}, nil)
				if err := ch.Execute(ctx); err != nil {
					return err
				}
				parents.Add(1)
				b.work(30 * time.Second)
				return nil
			}, &kopf.ChangeOptions{ID: "parent", Interruptible: interruptible})
			c.Operator(r, wired(func(req *Request) (*http.Response, error) {
				if req.Method == http.MethodPatch && refused.Add(1) == 1 {
					return Answer(http.StatusServiceUnavailable, "", ""), nil
				}
				return nil, nil
			}))
			c.Create("a", sized(1))
			c.Pass(5 * time.Second)
			c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}})
			c.Pass(time.Minute)
			c.handled("a")
			if refused.Load() == 0 || parents.Load() == 0 || b.calls.Load() == 0 || b.overlaps.Load() > 0 {
				c.Errorf("the function was called %d times, %d times during %d calls of the parent", b.calls.Load(), b.overlaps.Load(), parents.Load())
			}
		})
	}
	c.Run(t, "DF-43 a function of Transform of an earlier attempt does not run while a handler runs", func(c *C) {
		c.OnlyInBubble("requests fail")
		var b overlapMeter
		var refused atomic.Int32
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(b.transform)
			return nil
		}, named("first"))
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if b.work(10 * time.Second); ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Second)
			}
			return nil
		}, named("second"))
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && refused.Add(1) <= 6 {
				return Answer(http.StatusServiceUnavailable, "", ""), nil
			}
			return nil, nil
		}))
		c.Create("a", sized(1))
		c.Pass(time.Hour)
		c.handled("a")
		if refused.Load() < 6 || b.overlaps.Load() > 0 {
			c.Errorf("the function was called %d times, %d times during a handler", b.calls.Load(), b.overlaps.Load())
		}
	})
}
