package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves that moving the state to another place neither loses a change nor repeats a finished one: during a handling, after a crash
// between the two requests for it, and if the place changes again before the move is complete.

var _ = Suite("change_storage_crashes", func(t *testing.T, c *C) {
	movedInHandlings(t, c)
	movedByCrashes(t, c)
	for seed := range proof.Rounds(2, 8) {
		c.Run(t, fmt.Sprintf("CH-148 no change is lost while the place changes again and again, seed %d", seed), func(c *C) { movingTurns(c, uint64(seed), false) })
		c.Run(t, fmt.Sprintf("CH-148 no change is lost while the place changes again and again with crashes between requests, seed %d", seed), func(c *C) { movingTurns(c, uint64(seed), true) })
	}
})

func movedInHandlings(t *testing.T, c *C) {
	c.Run(t, "CH-141 going to the status and back in the middle of a handling repeats no finished handler", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		reg := func() *kopf.Registry {
			return twice(&l, func(r *kopf.Registry, fn kopf.ChangeFunc, o *kopf.ChangeOptions) { r.OnCreate(statusExamples, fn, o) }, time.Minute, 10*time.Minute)
		}
		op := c.Operator(reg())
		c.statuses().Create("a", sized(1))
		c.Pass(10 * time.Second)
		op.Stop()
		op = c.Operator(reg(), inStatus)
		c.Pass(2 * time.Minute)
		op.Stop()
		c.Operator(reg())
		c.Pass(30 * time.Minute)
		c.expect(&l, "one 0", "two 0", "one 1", "two 1")
		if status := c.kept("a", inAnnotations).Status(); len(status.View("kopf.progress").Map()) > 0 {
			c.Errorf("of the handling, there is %s", status)
		}
	})
	c.Run(t, "CH-161 a deletion whose handler has finished another handling elsewhere counts its attempts", func(c *C) {
		c.OnlyInBubble("minutes")
		for first, second := range map[string]func(*kopf.Operator){"a": inStatus, "b": inAnnotations} {
			var l calls
			reg := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnDelete(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
					l.add("delete %d", ch.Retry)
					if ch.Retry < 2 {
						return kopf.Temporary(errOops, time.Minute)
					}
					return nil
				}, named("fn"))
				r.OnUpdate(statusExamples, l.handler("fn"), named("fn"))
				r.OnUpdate(statusExamples, func(context.Context, *kopf.Change) error { return kopf.Temporary(errOops, time.Hour) }, named("slow"))
				r.OnDelete(statusExamples, func(context.Context, *kopf.Change) error { return nil }, named("slow"))
				return r
			}
			op := c.Operator(reg(), map[string]func(*kopf.Operator){"a": inAnnotations, "b": inStatus}[first])
			c.statuses().Create(first, sized(1))
			c.Pass(10 * time.Second)
			c.statuses().Patch(first, sized(2))
			c.Pass(10 * time.Second)
			op.Stop()
			c.statuses().Delete(first)
			op = c.Operator(reg(), second)
			c.Pass(10 * time.Minute)
			op.Stop()
			c.expect(&l, "fn update 0", "delete 0", "delete 1", "delete 2")
		}
	})
	c.Run(t, "CH-148 a state that was left in the status on the way back does not count when the place changes again", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		reg := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnUpdate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("quick %d->%d", ch.Old.Int("spec.x"), ch.New.Int("spec.x"))
				return nil
			}, named("quick"))
			r.OnUpdate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, 20*time.Second)
				}
				return nil
			}, named("slow"))
			return r
		}
		op := c.Operator(reg(), inStatus)
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
		op.Stop()
		c.statuses().Patch("a", sized(2))
		op = c.Operator(reg(), inAnnotations)
		c.Pass(10 * time.Second)
		c.statuses().Patch("a", sized(3)) // the slow handler gets it
		c.Pass(15 * time.Second)
		c.statuses().Patch("a", sized(4)) // and this one in the next handling
		c.Pass(5 * time.Second)
		op.Stop()
		c.Operator(reg(), inStatus)
		c.Pass(10 * time.Minute)
		c.expect(&l, "quick 1->2", "quick 2->3", "quick 3->4")
	})
}

func movedByCrashes(t *testing.T, c *C) {
	c.Run(t, "CH-148 a crash between the two requests that end a takeover loses no change that comes before the restart", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		reg := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnUpdate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("one %d", ch.Spec().Int("x"))
				return nil
			}, named("one"))
			r.OnUpdate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("two %d %d", ch.Spec().Int("x"), ch.Retry)
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, time.Minute)
				}
				return nil
			}, named("two"))
			return r
		}
		op := c.Operator(reg())
		c.statuses().Create("a", sized(1))
		c.Pass(10 * time.Second)
		c.statuses().Patch("a", sized(2))
		c.Pass(10 * time.Second)
		op.Stop()
		var refuse atomic.Bool
		refuse.Store(true)
		op = c.Operator(reg(), inStatus, refusingObjects(&refuse))
		c.Pass(90 * time.Second)
		op.Crash()
		c.statuses().Patch("a", sized(3))
		c.Operator(reg(), inStatus)
		c.Pass(30 * time.Minute)
		c.expect(&l, "one 2", "two 2 0", "two 2 1", "one 3", "two 3 0", "two 3 1")
		if left := c.kept("a", inStatus).Annotations(); len(left) > 0 {
			c.Errorf("there are the annotations %v", left)
		}
	})
	for _, created := range []bool{true, false} {
		c.Run(t, fmt.Sprintf("CH-148 a crash between the two requests of handing back repeats no handler of long before: of a creation %t", created), func(c *C) {
			c.OnlyInBubble("minutes")
			var l calls
			reg := func() *kopf.Registry {
				return twice(&l, func(r *kopf.Registry, fn kopf.ChangeFunc, o *kopf.ChangeOptions) {
					if created {
						r.OnCreate(statusExamples, fn, o)
					} else {
						r.OnUpdate(statusExamples, fn, o)
					}
				}, time.Second, 2*time.Minute)
			}
			op := c.Operator(reg(), inStatus)
			c.statuses().Create("a", sized(1))
			if !created {
				c.kept("a", inStatus)
				c.statuses().Patch("a", sized(2))
			}
			c.Pass(90 * time.Second)
			op.Stop()
			c.expect(&l, "one 0", "two 0", "one 1")
			var refuse atomic.Bool
			refuse.Store(true)
			op = c.Operator(reg(), refusingObjects(&refuse))
			c.Pass(5 * time.Minute)
			op.Crash()
			op = c.Operator(reg())
			c.Pass(30 * time.Minute)
			c.expect(&l, "one 0", "two 0", "one 1", "two 1", "two 1")
			c.kept("a", inAnnotations)
			op.Stop()
			op = c.Operator(reg())
			c.Pass(time.Minute)
			if writes := writesOf(op); len(writes) > 0 {
				c.Errorf("a restart takes %q", writes)
			}
		})
	}
	c.Run(t, "CH-148 a crash before the status is cleaned up leaves no state and no records there", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		reg := func() *kopf.Registry {
			return twice(&l, func(r *kopf.Registry, fn kopf.ChangeFunc, o *kopf.ChangeOptions) { r.OnCreate(statusExamples, fn, o) }, time.Second, 2*time.Minute)
		}
		op := c.Operator(reg(), inStatus)
		c.statuses().Create("a", sized(1))
		c.Pass(90 * time.Second)
		op.Stop()
		op = c.Operator(reg(), wired(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && onStatus(q) {
				return Answer(500, "InternalError", "not now"), nil
			}
			return nil, nil
		}))
		c.WaitFor("the annotation", func() bool { return c.statuses().Get("a").Annotations()[diffBase] != "" })
		c.Pass(time.Second)
		op.Crash()
		c.Operator(reg())
		c.WaitFor("the end of the records", func() bool { return len(c.statuses().Get("a").Status().View("kopf.progress").Map()) == 0 })
		c.expect(&l, "one 0", "two 0", "one 1", "two 1")
	})
}

// twice returns two handlers that succeed in their second attempts, after delays.
func twice(l *calls, on func(*kopf.Registry, kopf.ChangeFunc, *kopf.ChangeOptions), pauses ...time.Duration) *kopf.Registry {
	r := &kopf.Registry{}
	for i, name := range []kopf.HandlerID{"one", "two"} {
		on(r, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s %d", name, ch.Retry)
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, pauses[i])
			}
			return nil
		}, named(name))
	}
	return r
}

// refusingObjects refuses the patches of objects themselves, but not those of their status, as a server may do during its shutdown.
func refusingObjects(on *atomic.Bool) func(*kopf.Operator) {
	return wired(func(q *Request) (*http.Response, error) {
		if on.Load() && q.Method == http.MethodPatch && !onStatus(q) {
			return Answer(500, "InternalError", "not now"), nil
		}
		return nil, nil
	})
}

// sightings records the values of a growing field spec.x that handlers have seen.
type sightings struct {
	c    *C
	mu   sync.Mutex // guards seen
	seen map[string]int64
}

// registry returns handlers of the field that need more and more attempts. None may be called with an old state that is newer than the last one that
// it has seen.
func (s *sightings) registry() *kopf.Registry {
	r := &kopf.Registry{}
	for i, name := range []string{"quick", "slow", "slower"} {
		r.OnField(statusExamples, "spec.x", func(ctx context.Context, ch *kopf.Change) error {
			if ch.Retry < i {
				return kopf.Temporary(errOops, time.Duration(i)*20*time.Second)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			ch.Patch.Set(kopf.FieldPath("status."+name), ch.New.Int(""))
			if old, ok := ch.Old.Get("").(json.Number); ok && s.seen[name] > 0 {
				if n, err := old.Int64(); err != nil || n > s.seen[name] {
					s.c.Errorf("%s is called for %s->%d, but has seen %d last", name, old, ch.New.Int(""), s.seen[name])
				}
			}
			s.seen[name] = int64(ch.Spec().Int("x"))
			return nil
		}, named(kopf.HandlerID(name)))
	}
	return r
}

// movingTurns runs operators with either place one after another. They end at random times, while an object changes. For a crash, their requests for
// the status or for the object are refused from some time on. In the end, all handlers must have seen the last change.
func movingTurns(c *C, seed uint64, crash bool) {
	c.OnlyInBubble("minutes")
	g := rand.New(rand.NewPCG(seed, 0))
	pass := func() { c.Pass(time.Duration(g.IntN(90_000)) * time.Millisecond) }
	s, x := &sightings{c: c, seen: map[string]int64{}}, 1
	change := func() {
		x++
		c.statuses().Patch("a", sized(x))
	}
	c.statuses().Create("a", sized(x))
	for range 30 {
		setting := inAnnotations
		if g.IntN(2) == 0 {
			setting = inStatus
		}
		var refused atomic.Int32
		op := c.Operator(s.registry(), setting, wired(func(q *Request) (*http.Response, error) {
			if n := refused.Load(); q.Method == http.MethodPatch && (n == 1 && onStatus(q) || n == 2 && !onStatus(q)) {
				return Answer(500, "InternalError", "not now"), nil
			}
			return nil, nil
		}))
		for range g.IntN(3) {
			pass()
			change()
		}
		if crash {
			refused.Store(g.Int32N(3))
		}
		if pass(); crash {
			op.Crash()
		} else {
			op.Stop()
		}
		if g.IntN(3) == 0 {
			change()
		}
	}
	c.Operator(s.registry(), inStatus)
	c.Pass(10 * time.Minute)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range []string{"quick", "slow", "slower"} {
		if s.seen[name] != int64(x) {
			c.Errorf("%s has seen %d last, want %d", name, s.seen[name], x)
		}
	}
}
