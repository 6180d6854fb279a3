package contract

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves that kopf calls a handler once for a difference, whatever changes while other handlers run.

var _ = Suite("change_once", func(t *testing.T, c *C) {
	calledOnce(t, c)
	calledOnceAfterReversals(t, c)
	timedAfterReversals(t, c)
	calledOnceBelow(t, c)
	calledOnceAcrossOperators(t, c)
	calledOnceAtStop(t, c)
	calledOnceAtRandom(t, c)
	calledOnceAtRandomReversals(t, c)
})

// step returns the change of a field that a handler is called for.
func step(ch *kopf.Change, field kopf.FieldPath) string {
	return fmt.Sprintf("%v->%v", ch.Old.Get(field), ch.New.Get(field))
}

func calledOnce(t *testing.T, c *C) {
	c.Run(t, "DF-46 handlers of fields are called once, also if another field changes while one of them runs", func(c *C) {
		c.OnlyInBubble("it depends on the moment")
		var l calls
		r := &kopf.Registry{}
		onField := func(id kopf.HandlerID, field kopf.FieldPath, takes time.Duration) {
			r.OnField(Examples, field, func(_ context.Context, ch *kopf.Change) error {
				if ch.Reason == kopf.ReasonUpdate {
					l.add("%s %s", id, step(ch, ""))
					time.Sleep(takes)
				}
				return nil
			}, named(id))
		}
		onField("first", "spec.x", time.Second)
		onField("second", "spec.x", 0)
		onField("third", "spec.y", 0)
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1, "y": 1}))
		c.Pass(time.Minute)
		before := len(op.Wire.Requests("PATCH"))
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Pass(500 * time.Millisecond)
		c.Patch("a", spec(map[string]any{"y": 2}))
		c.Pass(time.Minute)
		c.expect(&l, "first 1->2", "second 1->2", "third 1->2")
		c.handled("a")
		if n := len(op.Wire.Requests("PATCH")) - before; n > 3 {
			c.Errorf("got %d patches, want at most 3", n)
		}
	})
	c.Run(t, "DF-46 a handler that has seen the second change in its retry is not called for that again", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		delay := time.Hour
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
		c.Operator(stepwise(&l, &delay))
		c.Pass(time.Minute)
		delay = 0
		c.Patch("a", sized(3))
		c.Pass(2 * time.Hour)
		c.same("the calls", []string{"quick 1->2 0", "quick 2->3 0", "slow 1->2 0", "slow 1->3 1"}, slices.Sorted(slices.Values(l.all())))
		if got := c.handled("a").Annotations(); len(got) != 1 || got[diffBase] != `{"spec":{"x":3}}`+"\n" {
			c.Errorf("got the annotations %q", got)
		}
	})
	c.Run(t, "DF-46 three handlers that have seen three states are called for what each has not seen", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		for i, id := range []kopf.HandlerID{"first", "second", "third"} {
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if ch.Spec().Int("x") < int64(i+2) {
					return kopf.Temporary(errOops, time.Hour)
				}
				l.add("%s %s", id, step(ch, "spec.x"))
				return nil
			}, named(id))
		}
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
		c.Operator(r)
		for x := 3; x <= 4; x++ {
			c.Pass(time.Minute)
			c.Patch("a", sized(x))
			c.Pass(2 * time.Hour)
		}
		c.handled("a")
		c.expect(&l, "first 1->2", "second 1->3", "third 1->4", "first 2->4", "second 3->4")
	})
	c.Run(t, "DF-46 a change that is taken back reaches only the handlers that have seen it", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		failing := map[kopf.HandlerID]bool{"second": true, "third": true}
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"first", "second", "third"} {
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if failing[id] {
					return kopf.Temporary(errOops, time.Hour)
				}
				l.add("%s %s", id, step(ch, "spec.x"))
				return nil
			}, named(id))
		}
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
		c.Operator(r)
		for _, next := range []struct {
			x  int
			id kopf.HandlerID
		}{{3, "second"}, {2, "third"}} {
			c.Pass(10 * time.Minute)
			failing[next.id] = false
			c.Patch("a", sized(next.x))
			c.Pass(time.Hour)
		}
		c.handled("a")
		c.expect(&l, "first 1->2", "second 1->3", "third 1->2", "second 3->2")
	})
	c.Run(t, "DF-46 a handler that failed permanently is not called for that difference again either", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, l.handler("quick"), named("quick"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("failing %s", step(ch, "spec.x"))
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Hour)
			}
			return kopf.Permanent(errOops)
		}, named("failing"))
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
		c.Operator(r)
		c.Pass(time.Minute)
		c.Patch("a", sized(3))
		c.Pass(5 * time.Hour)
		c.expect(&l, "quick update 0", "failing 1->2", "failing 1->3", "quick update 0")
	})
}

// failingSteps returns update handlers that note their calls, and fail temporarily while they are down.
func failingSteps(l *calls, down map[kopf.HandlerID]bool, ids ...kopf.HandlerID) *kopf.Registry {
	r := &kopf.Registry{}
	for _, id := range ids {
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if down[id] {
				return kopf.Temporary(errOops, 30*time.Second)
			}
			l.add("%s %s", id, step(ch, "spec.x"))
			return nil
		}, named(id))
	}
	return r
}

func calledOnceAfterReversals(t *testing.T, c *C) {
	for _, restarts := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-46 a change that is made, taken back and made again is not lost, with restarts: %t", restarts), func(c *C) {
			c.OnlyInBubble("the delays are long")
			var l calls
			down := map[kopf.HandlerID]bool{"slow": true}
			r := failingSteps(&l, down, "quick", "slow")
			c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
			op := c.Operator(r)
			set := func(x int) {
				c.Patch("a", sized(x))
				c.Pass(5 * time.Second)
				if restarts {
					op.Stop()
					op = c.Operator(r)
				}
			}
			set(2) // quick succeeds
			down["quick"] = true
			set(1)
			set(2)
			clear(down)
			c.Pass(time.Hour)
			c.handled("a")
			c.expect(&l, "quick 1->2", "quick 1->2", "slow 1->2") // quick has tried 1, perhaps in part
			if got := c.Get("a").Annotations(); len(got) != 1 {
				c.Errorf("got the annotations %q, want only the last-handled configuration", got)
			}
		})
	}
	c.Run(t, "DF-46 a change that is taken back does not reach a handler that was not called for it", func(c *C) {
		c.OnlyInBubble("it depends on the moment")
		var l calls
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"first", "second"} {
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
				l.add("%s %s", id, step(ch, "spec.x"))
				time.Sleep(5 * time.Second)
				return nil
			}, named(id))
		}
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
		c.Operator(r)
		c.Patch("a", sized(2))
		c.Pass(2 * time.Second)
		c.Patch("a", sized(1))
		c.Pass(time.Hour)
		c.handled("a")
		c.expect(&l, "first 1->2", "first 2->1")
	})
	c.Run(t, "DF-46 a change that is taken back does not reach a handler that has seen the current state", func(c *C) {
		c.OnlyInBubble("it depends on the moment")
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("first %s", step(ch, "spec.x"))
			return nil
		}, named("first"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if ch.Spec().Int("x") == 2 && ch.Retry == 0 && ch.Old.Int("spec.x") == 1 {
				return kopf.Temporary(errOops, 10*time.Second)
			}
			l.add("second %s", step(ch, "spec.x"))
			time.Sleep(10 * time.Second)
			return nil
		}, named("second"))
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
		c.Operator(r)
		for _, x := range []int{2, 3, 2} {
			c.Patch("a", sized(x))
			c.Pass(8 * time.Second) // the second handler runs when x becomes 2 again
		}
		c.Pass(time.Hour)
		c.handled("a")
		c.expect(&l, "first 1->2", "second 1->3", "second 3->2")
	})
	c.Run(t, "DF-46 a change of two fields that is taken back in one of them reaches only the handlers that have seen it", func(c *C) {
		c.OnlyInBubble("it depends on the moment")
		var l calls
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"y", "z"} {
			r.OnField(Examples, kopf.FieldPath("spec."+id), func(_ context.Context, ch *kopf.Change) error {
				l.add("%s %s", id, step(ch, ""))
				return nil
			}, named(id))
		}
		r.OnUpdate(Examples, func(context.Context, *kopf.Change) error {
			time.Sleep(5 * time.Second)
			return nil
		}, named("all"))
		c.Create("a", handledByOriginal(`{"spec":{"y":1,"z":1}}`, spec(map[string]any{"y": 1, "z": 1})))
		c.Operator(r, func(o *kopf.Operator) {
			o.Lifecycle = func(all []kopf.PendingHandler) []kopf.PendingHandler { return all[len(all)-1:] }
		})
		c.Patch("a", spec(map[string]any{"y": 2}))
		c.Pass(2 * time.Second)
		c.Patch("a", spec(map[string]any{"y": 1, "z": 2}))
		c.Pass(time.Hour)
		c.handled("a")
		c.expect(&l, "z 1->2")
	})
	c.Run(t, "DF-46 a change that is made, taken back and made again is not lost for a sub-handler", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		down := map[kopf.HandlerID]bool{"slow": true}
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			for _, id := range []kopf.HandlerID{"quick", "slow"} {
				ch.Subhandler(id, func(_ context.Context, sub *kopf.Change) error {
					if down[id] {
						return kopf.Temporary(errOops, 30*time.Second)
					}
					l.add("%s %s", id, step(sub, "spec.x"))
					return nil
				}, nil)
			}
			return nil
		}, named("parent"))
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
		c.Operator(r)
		set := func(x int) {
			c.Patch("a", sized(x))
			c.Pass(5 * time.Second)
		}
		set(2)
		down["quick"] = true
		set(1)
		set(2)
		clear(down)
		c.Pass(time.Hour)
		c.handled("a")
		c.expect(&l, "quick 1->2", "quick 1->2", "slow 1->2") // quick has tried 1, perhaps in part
		if got := c.Get("a").Annotations(); len(got) != 1 {
			c.Errorf("got the annotations %q, want only the last-handled configuration", got)
		}
	})
}

func calledOnceBelow(t *testing.T, c *C) {
	c.Run(t, "DF-46 the rest of a change leaves no record of a sub-handler, and calls each once", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			for i, id := range []kopf.HandlerID{"one", "two"} {
				ch.Subhandler(id, func(_ context.Context, outer *kopf.Change) error {
					outer.Subhandler("inner", func(_ context.Context, sub *kopf.Change) error {
						if sub.Spec().Int("x") < int64(i+2) {
							return kopf.Temporary(errOops, time.Hour)
						}
						l.add("%s %s", id, step(sub, "spec.x"))
						return nil
					}, nil)
					return nil
				}, nil)
			}
			return nil
		}, named("parent"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("other %s", step(ch, "spec.x"))
			return nil
		}, named("other"))
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
		op := c.Operator(r)
		c.Pass(time.Minute)
		op.Crash()
		c.Patch("a", sized(3))
		c.Operator(r)
		c.Pass(3 * time.Hour)
		c.same("the calls", []string{"one 1->2", "one 2->3", "other 1->2", "other 2->3", "two 1->3"}, slices.Sorted(slices.Values(l.all())))
		if got := c.Get("a").Annotations(); len(got) != 1 {
			c.Errorf("got the annotations %q, want only the last-handled configuration", got)
		}
	})
}

func calledOnceAcrossOperators(t *testing.T, c *C) {
	c.Run(t, "DF-46 Kopf for Python calls only the handlers that have not seen the rest of the change", func(c *C) {
		c.OnlyInBubble("the operator has to stop at a moment")
		var l calls
		delay := time.Hour
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(2)))
		op := c.Operator(stepwise(&l, &delay))
		c.Pass(time.Minute)
		op.Wire.Fault(func(q *Request) (*http.Response, error) { // it crashes when it has stored the end of the first part
			if c.Get("a").Annotations()[diffBase] == `{"spec":{"x":2}}`+"\n" {
				return nil, errors.New("crashed")
			}
			return nil, nil
		})
		delay = 0
		c.Patch("a", sized(3))
		c.Pass(2 * time.Hour)
		op.Crash()
		if got := c.Get("a").Annotations(); len(got) != 3 || got["kopf.zalando.org/slow"] == "" {
			c.Fatalf("got the annotations %q, want the record of the handler that has seen the newest state", got)
		}
		l.forget()
		python := c.stepwiseOriginal(&l, &delay)
		python.finish(c)
		c.expect(&l, "quick 2->3 0")
		if got := c.Get("a").Annotations(); len(got) != 1 || got[diffBase] != `{"spec":{"x":3}}`+"\n" {
			c.Errorf("got the annotations %q", got)
		}
	})
}

func calledOnceAtRandom(t *testing.T, c *C) {
	for seed := range uint64(proof.Rounds(10, 100)) {
		c.Run(t, fmt.Sprintf("DF-46 each call continues where the last one of its handler has ended, seed %d", seed), func(c *C) {
			c.OnlyInBubble("it takes hours")
			k, selector, place := c.Kind, Examples, inAnnotations
			if seed%2 == 1 {
				k, selector, place = c.statuses(), statusExamples, inStatus
			}
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex // guards the following
			var failures []string
			last := map[kopf.HandlerID]int64{}
			r := &kopf.Registry{}
			for i := range 1 + random.IntN(4) {
				id := kopf.HandlerID(fmt.Sprint("h", i))
				own := rand.New(rand.NewPCG(seed, uint64(10+i))) // the handlers run at the same time
				last[id] = 1
				r.OnUpdate(selector, func(_ context.Context, ch *kopf.Change) error {
					time.Sleep(time.Duration(own.IntN(3)) * time.Second)
					mu.Lock()
					defer mu.Unlock()
					if own.IntN(3) == 0 {
						return kopf.Temporary(errOops, time.Duration(own.IntN(60))*time.Second)
					}
					if ch.Old.Int("spec.x") != last[id] || ch.New.Int("spec.x") <= last[id] {
						failures = append(failures, fmt.Sprintf("%s %s after %d", id, step(ch, "spec.x"), last[id]))
					}
					last[id] = ch.New.Int("spec.x")
					return nil
				}, named(id))
			}
			k.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
			patient := func(op *kopf.Operator) { op.Settings.Queueing.ExitTimeout = time.Minute }
			op := c.Operator(r, patient, place)
			for x := 2; x < 20; x++ {
				c.Pass(time.Duration(random.IntN(100)) * 100 * time.Millisecond)
				k.Patch("a", sized(x))
				if random.IntN(8) == 0 {
					op.Stop()
					op = c.Operator(r, patient, place)
				}
			}
			c.Pass(10 * time.Hour)
			if got := k.Get("a"); len(records(got)) != 0 || got.Status().Has("kopf.progress.h0") {
				c.Errorf("got the annotations %q and the status %v, want no progress", got.Annotations(), got.Status())
			}
			for _, id := range slices.Sorted(maps.Keys(last)) {
				if last[id] != 19 {
					c.Errorf("%s has seen only %d", id, last[id])
				}
			}
			if len(failures) > 0 {
				c.Errorf("got the calls %q", failures)
			}
		})
	}
}

func calledOnceAtRandomReversals(t *testing.T, c *C) {
	for seed := range uint64(proof.Rounds(20, 200)) {
		c.Run(t, fmt.Sprintf("DF-46 after reversals, no change is lost, and no handler is called for a state that it has seen, seed %d", seed), func(c *C) {
			c.OnlyInBubble("it takes hours")
			k, selector, place := c.Kind, Examples, inAnnotations
			if seed%2 == 1 {
				k, selector, place = c.statuses(), statusExamples, inStatus
			}
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex // guards the following
			var calls, failures []string
			last := map[kopf.HandlerID]int64{}
			tried := map[kopf.HandlerID]bool{} // whether it has failed since, perhaps in part
			r := &kopf.Registry{}
			for i := range 2 + random.IntN(3) {
				id := kopf.HandlerID(fmt.Sprint("h", i))
				own := rand.New(rand.NewPCG(seed, uint64(10+i))) // the handlers run at the same time
				last[id] = 1
				r.OnUpdate(selector, func(_ context.Context, ch *kopf.Change) error {
					time.Sleep(time.Duration(own.IntN(3)) * time.Second)
					mu.Lock()
					defer mu.Unlock()
					before, now := ch.Old.Int("spec.x"), ch.New.Int("spec.x")
					if own.IntN(3) == 0 {
						tried[id] = true
						return kopf.Temporary(errOops, time.Duration(1+own.IntN(5))*time.Second)
					}
					call := fmt.Sprintf("%s %s after %d", id, step(ch, "spec.x"), last[id])
					if calls = append(calls, call); !tried[id] && (before != last[id] || now == last[id]) {
						failures = append(failures, call)
					}
					last[id], tried[id] = now, false
					return nil
				}, named(id))
			}
			k.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
			settle := func(op *kopf.Operator) {
				op.Settings.Queueing.ExitTimeout = time.Minute
				if seed%3 == 1 {
					op.Lifecycle = kopf.OneByOne
				}
			}
			op := c.Operator(r, settle, place)
			x := 1
			for range 20 {
				c.Pass(time.Duration(random.IntN(40)) * 100 * time.Millisecond)
				stops := random.IntN(6) == 0
				if stops {
					op.Stop()
				}
				x = 1 + random.IntN(3)
				k.Patch("a", sized(x))
				if stops {
					op = c.Operator(r, settle, place)
				}
				mu.Lock()
				calls = append(calls, fmt.Sprint("x is ", x))
				mu.Unlock()
			}
			c.Pass(10 * time.Hour)
			if got := k.Get("a"); len(records(got)) != 0 || got.Status().Has("kopf.progress.h0") {
				c.Errorf("got the annotations %q and the status %v, want no progress", got.Annotations(), got.Status())
			}
			for _, id := range slices.Sorted(maps.Keys(last)) {
				if last[id] != int64(x) {
					c.Errorf("%s has seen %d last, and x is %d: %q", id, last[id], x, calls)
				}
			}
			if len(failures) > 0 {
				c.Errorf("got %q in %q", failures, calls)
			}
		})
	}
}

// timedAfterReversals checks the times of a handler that has tried a change that was taken back.
func timedAfterReversals(t *testing.T, c *C) {
	for _, tt := range []struct {
		name         string
		below, fails bool
	}{
		{name: "a handler"},
		{name: "a sub-handler", below: true},
		{name: "a handler that fails", fails: true},
	} {
		c.Run(t, "DF-46 after a change that is taken back, "+tt.name+" has its whole Timeout and its own times", func(c *C) {
			c.OnlyInBubble("the delays are long")
			var l calls
			var failed time.Time
			down := true
			slow := func(_ context.Context, ch *kopf.Change) error {
				if ch.Retry == 0 && (ch.Runtime > time.Second || time.Since(ch.Started) > time.Second) {
					l.add("slow was due at %s, %s ago", ch.Started, ch.Runtime)
				}
				if down {
					return kopf.Temporary(errOops, time.Minute)
				}
				if l.add("slow %s", step(ch, "spec.x")); tt.fails {
					failed = time.Now()
					return kopf.Permanent(errOops)
				}
				return nil
			}
			opts := &kopf.ChangeOptions{ID: "slow", Timeout: 30 * time.Minute}
			outer := &kopf.ChangeOptions{ID: "outer"}
			due := func(ch *kopf.Change) bool { return ch.Status().String("phase") == "go" }
			r := &kopf.Registry{}
			r.OnUpdate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("quick"))
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
				if ch.Spec().Int("x") == 2 {
					return kopf.Temporary(errOops, 10*time.Minute)
				}
				return nil
			}, named("waits"))
			if outer.When, opts.When = due, due; tt.below {
				opts.When = nil
				r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
					ch.Subhandler("slow", slow, opts)
					return nil
				}, outer)
			} else {
				r.OnUpdate(Examples, slow, opts)
			}
			c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
			c.Operator(r)
			c.Patch("a", sized(2))
			c.Pass(3 * time.Hour)
			c.Patch("a", map[string]any{"status": map[string]any{"phase": "go"}})
			c.Pass(2*time.Minute + 30*time.Second)
			c.Patch("a", sized(1))
			c.Pass(time.Minute)
			down = false
			c.Pass(time.Hour)
			c.handled("a")
			c.expect(&l, "slow 2->1")
			when := failed.UTC().Format("2006-01-02T15:04:05")
			if text, _ := c.Get("a").Annotation(failedKey); tt.fails && !strings.Contains(text, when) {
				c.Errorf("it failed at %s, but the record is %s", when, text)
			}
		})
	}
}

// calledOnceAtStop stops the operator while another client changes the object.
func calledOnceAtStop(t *testing.T, c *C) {
	for name, place := range map[string]func(*kopf.Operator){"annotations": inAnnotations, "the status": inStatus} {
		c.Run(t, "DF-46 a success is stored although another client changes the object while the operator stops, in "+name, func(c *C) {
			c.OnlyInBubble("the operator has to stop at a moment")
			k, selector := c.statuses(), statusExamples
			var l calls
			r := &kopf.Registry{}
			r.OnUpdate(selector, func(_ context.Context, ch *kopf.Change) error {
				l.add("h %s", step(ch, "spec.x"))
				ch.Patch.Transform(func(object map[string]any) error { // it requires the version that it was made for
					object["status"] = merged(object["status"], map[string]any{"seen": ch.New.Int("spec.x")})
					return nil
				})
				time.Sleep(2 * time.Second)
				return nil
			}, named("h"))
			k.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
			op := c.Operator(r, place)
			c.Pass(time.Minute)
			k.Patch("a", sized(2))
			c.Pass(500 * time.Millisecond)
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				op.Stop()
			}()
			c.Pass(500 * time.Millisecond)
			k.Patch("a", sized(3))
			<-stopped
			if got := k.Get("a").Status().Int("seen"); got != 2 {
				c.Errorf("got the status %v at the stop, want what the handler has seen", k.Get("a").Status())
			}
			c.Operator(r, place)
			c.Pass(time.Minute)
			c.expect(&l, "h 1->2", "h 2->3")
		})
	}
}
