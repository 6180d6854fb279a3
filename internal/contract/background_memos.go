package contract

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the state that kopf keeps for objects in memory: indices outside of the handlers of objects, memos, and when kopf drops them, in
// 2-background.md.

var _ = ClusterSuite("background_memos", func(t *testing.T, c *C) {
	indexingMore(t, c)
	recalling(t, c)
	forgetting(t, c)
})

func indexingMore(t *testing.T, c *C) {
	c.Run(t, "BG-72 an index is there for all handlers, before the first of them", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, byColor, &kopf.IndexOptions{ID: "colors"})
		tell := func(who string, h kopf.HandlerArgument, all kopf.Indices) {
			l.add("%s %d %d %v", who, x.Len(h), len(all.Get("colors", "red")), all.IDs())
		}
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error { tell("startup", a, a.Indices); return nil }, id("startup"))
		r.OnCleanup(func(ctx context.Context, a *kopf.Activity) error { tell("cleanup", a, a.Indices); return nil }, id("cleanup"))
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error { tell("event", e, e.Indices); return nil }, &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { tell("create", ch, ch.Indices); return nil }, &kopf.ChangeOptions{
			ID: "create", When: func(ch *kopf.Change) bool { return x.Has(ch, "red") },
		})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { tell("daemon", d, d.Indices); return nil }, &kopf.DaemonOptions{
			ID: "daemon", WithoutFinalizer: true, When: func(d *kopf.Daemon) bool { return x.Has(d, "red") },
		})
		c.Create("a", colored("red"))
		op := c.Operator(r)
		c.handled("a")
		c.WaitFor("the daemon", func() bool { return l.count("daemon") == 1 })
		op.Stop()
		for who, want := range map[string]string{
			"startup": "startup 0 0 [colors]", "cleanup": "cleanup 1 1 [colors]", "event": "event 1 1 [colors]", "create": "create 1 1 [colors]", "daemon": "daemon 1 1 [colors]",
		} {
			if l.count(want) == 0 {
				c.Errorf("%s has seen another index than %q: %q", who, want, l.all())
			}
		}
	})
	c.Run(t, "BG-83 the attempts of an index count from the first failure", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		n := 0
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]int, error) {
			l.add("%d %s %t", x.Retry, x.Runtime, x.Started.Add(x.Runtime).Equal(time.Now()))
			if n++; n == 3 {
				return nil, nil
			}
			return nil, kopf.Temporary(errOops, time.Minute)
		}, &kopf.IndexOptions{ID: "x"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(150 * time.Second)
		c.expect(&l, "0 0s true", "1 1m0s true", "2 2m0s true")
		c.Patch("a", colored("red"))
		c.Pass(time.Second)
		c.expect(&l, "0 0s true", "1 1m0s true", "2 2m0s true", "0 0s true")
		op.Stop()
	})
	c.Run(t, "BG-84 what an index does to the patch is lost, and its messages are for debugging", func(c *C) {
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]int, error) {
			x.Patch.Set("status.indexed", true)
			return map[string]int{"n": 1}, nil
		}, &kopf.IndexOptions{ID: "x"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r)
		c.Create("a", nil)
		if body := c.handled("a"); body.Status().Has("indexed") {
			c.Error("the patch of an index was sent")
		}
		for _, line := range op.Logs.Find("Indexer 'x'") {
			if line.Level > slog.LevelDebug {
				c.Errorf("got the line %v above the debug level", line)
			}
		}
		if len(op.Logs.Find("Indexer 'x' succeeded.")) == 0 {
			c.Error("nothing is told of the index")
		}
	})
	c.Run(t, "BG-88 a listing that fails is tried again, and all handlers wait for it", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		configs := c.Of("v1", "ConfigMap")
		kopf.OnIndexIn(r, "v1/configmaps", func(ctx context.Context, x *kopf.Indexing) (map[string]bool, error) {
			l.add("index %s", x.Name())
			return map[string]bool{x.Name(): true}, nil
		}, &kopf.IndexOptions{ID: "x"})
		r.OnCreate(Examples, l.handler("create"), named("create"))
		configs.Create("config", nil)
		c.Create("a", nil)
		var broken atomic.Bool
		broken.Store(true)
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Networking.ErrorBackoffs = []time.Duration{time.Millisecond}
			op.Connection.HTTPClient = &http.Client{Transport: failing{op.Connection.HTTPClient.Transport, &broken, "/configmaps"}}
		})
		c.Pass(500 * time.Millisecond)
		c.expect(&l)
		broken.Store(false)
		c.handled("a")
		if all := l.all(); all[0] != "index config" || l.count("create") != 1 {
			c.Errorf("got the calls %q, want the index before the creation", all)
		}
		configs.Delete("config")
		op.Stop()
	})
	c.Run(t, "BG-90 activities do not wait for indices", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		hold := make(chan struct{})
		x := kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]int, error) {
			<-hold
			return map[string]int{"n": 1}, nil
		}, &kopf.IndexOptions{ID: "x"})
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error { l.add("startup %d", x.Len(a)); return nil }, id("startup"))
		r.OnCleanup(func(ctx context.Context, a *kopf.Activity) error { l.add("cleanup %d", x.Len(a)); return nil }, id("cleanup"))
		r.OnCreate(Examples, l.handler("create"), named("create"))
		c.Create("a", nil)
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ExitTimeout = 0 })
		c.Pass(200 * time.Millisecond)
		c.expect(&l, "startup 0")
		time.AfterFunc(100*time.Millisecond, func() { close(hold) })
		op.Stop()
		if l.count("create") != 0 || l.count("cleanup ") != 1 {
			c.Errorf("got the calls %q, want the activities alone", l.all())
		}
	})
	c.Run(t, "BG-92 nothing of an index is stored: another operator fills it anew", func(c *C) {
		var l calls
		registry := func() (*kopf.Registry, *kopf.Index[string, string]) {
			r := &kopf.Registry{}
			x := kopf.OnIndexIn(r, Examples, byColor, nil)
			reader(r, x, &l)
			return r, x
		}
		c.Create("a", colored("red"))
		r, _ := registry()
		first := c.Operator(r)
		c.ask(&l, "red=a")
		first.Stop()
		if writes := first.Wire.Writes(); len(writes) > 0 {
			c.Errorf("the index was stored: %q", patches(first))
		}
		c.Patch("a", colored("blue"))
		r, _ = registry()
		c.Operator(r)
		c.ask(&l, "blue=a")
	})
	c.Run(t, "BG-T11 the declared type decides what is a key, and not the value", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]map[string]any, error) {
			return map[string]map[string]any{x.Name(): x.Spec().Map()}, nil
		}, &kopf.IndexOptions{ID: "x"})
		reader(r, x, &l)
		c.Operator(r)
		c.ask(&l, "reader=map[ask:0]")
	})
}

// failing breaks the connections of requests for some paths.
type failing struct {
	next   http.RoundTripper
	broken *atomic.Bool
	path   string
}

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.broken.Load() && strings.Contains(r.URL.Path, f.path) {
		return nil, fmt.Errorf("the connection is broken on purpose")
	}
	return f.next.RoundTrip(r)
}

// mind is a memo of a user-defined type.
type mind struct {
	thoughts int
	shared   *sync.Map
}

func recalling(t *testing.T, c *C) {
	c.Run(t, "BG-93 the operator's memo is what the program has passed, for all activities", func(c *C) {
		var l calls
		memo := &kopf.Memo{}
		memo.Store("from", "program")
		r := &kopf.Registry{}
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			from, _ := a.Memo().Load("from")
			l.add("startup %v", from)
			a.Memo().Store("from", "startup")
			return nil
		}, id("startup"))
		r.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
			from, _ := a.Memo().Load("from")
			l.add("cleanup %v", from)
			return nil
		}, id("cleanup"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Memo = memo })
		op.Stop()
		c.expect(&l, "startup program", "cleanup startup")
		if from, _ := memo.Load("from"); from != "startup" {
			c.Errorf("the program's own memo has %v, want what the start-up has stored", from)
		}
	})
	c.Run(t, "BG-94 all handlers of an object share its memo, a copy of the operator's", func(c *C) {
		var l calls
		memo := &kopf.Memo{}
		memo.Store("early", "x")
		r := &kopf.Registry{}
		turn := func(who string, o *kopf.Object) {
			early, _ := o.Memo().Load("early")
			_, late := o.Memo().Load("late")
			n, _ := o.Memo().Load("n")
			count, _ := n.(int)
			o.Memo().Store("n", count+1)
			l.add("%s %s %v %t %d", o.Name(), who, early, late, count)
		}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { turn("create", &ch.Object); return nil }, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error { turn("update", &ch.Object); return nil }, named("update"))
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error { turn("timer", &t.Object); return nil },
			&kopf.TimerOptions{ID: "timer", WithoutFinalizer: true, Labels: kopf.Match{"tick": "yes"}})
		c.Operator(r, func(op *kopf.Operator) { op.Memo = memo })
		c.Create("a", nil)
		c.handled("a")
		memo.Store("late", true)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.expect(&l, "a create x false 0", "a update x false 1")
		c.Patch("a", labelled("tick", "yes"))
		c.WaitFor("the timer", func() bool { return l.count("a timer x false") == 1 })
		c.Create("b", nil)
		c.WaitFor("the other object", func() bool { return l.count("b create x true 0") == 1 })
	})
	c.Run(t, "BG-95 a memo can be a type of the user's, copied with its pointers", func(c *C) {
		var l calls
		memo := &kopf.Memo{}
		common := &sync.Map{}
		r := &kopf.Registry{}
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			m := kopf.MemoOf[mind](a)
			m.thoughts, m.shared = 5, common
			return nil
		}, id("startup"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			m := kopf.MemoOf[mind](ch)
			m.thoughts++
			m.shared.Store(ch.Name(), m.thoughts)
			l.add("%s %d %t", ch.Name(), m.thoughts, m.shared == common)
			return nil
		}, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Memo = memo })
		for _, name := range []string{"a", "b"} {
			c.Create(name, nil)
			c.handled(name)
		}
		c.expect(&l, "a 6 true", "b 6 true")
		op.Stop()
	})
	c.Run(t, "BG-96 a memo lives from the first sight of its object to its end", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			v, _ := e.Memo().Load("v")
			l.add("%s %v", strings.ToUpper(string(e.Type)), v)
			e.Memo().Store("v", "kept")
			return nil
		}, &kopf.EventOptions{ID: "event"})
		c.Operator(r)
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.expect(&l, "ADDED <nil>")
		c.Delete("a")
		c.expect(&l, "ADDED <nil>", "DELETED kept")
		c.Create("a", nil)
		c.expect(&l, "ADDED <nil>", "DELETED kept", "ADDED <nil>")
	})
	c.Run(t, "BG-97 pauses, mismatches and new listings keep the memo", func(c *C) {
		table := c.meet()
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			n, _ := e.Memo().Load("n")
			count, _ := n.(int)
			e.Memo().Store("n", count+1)
			l.add("%d", count)
			return nil
		}, &kopf.EventOptions{ID: "event", Labels: kopf.Match{"off": kopf.Absent}})
		op := c.Operator(r)
		c.Create("a", nil)
		c.expect(&l, "0")
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		table.sit("boss", nil)
		c.going(op, 1)
		c.expect(&l, "0", "1")
		c.Patch("a", labelled("off", "yes"))
		c.Patch("a", unlabelled("off"))
		c.WaitFor("the next event", func() bool { return l.count("2") == 1 })
	})
	c.Run(t, "BG-99 a memo can be used by all handlers of its object at the same time", func(c *C) {
		var done sync.WaitGroup
		r := &kopf.Registry{}
		const tasks = 4
		done.Add(tasks)
		for i := range tasks {
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				defer done.Done()
				for n := range 500 {
					d.Memo().Store(fmt.Sprint(i, n), n)
					d.Memo().Load(n)
					d.Memo().Delete(n)
				}
				return nil
			}, &kopf.DaemonOptions{ID: kopf.HandlerID(fmt.Sprint("d", i)), WithoutFinalizer: true})
		}
		stored := make(chan int, 1)
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			n := 0
			for i := range tasks {
				for j := range 500 {
					if v, ok := ch.Memo().Load(fmt.Sprint(i, j)); ok && v == j {
						n++
					}
				}
			}
			stored <- n
			return nil
		}, named("update"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		done.Wait()
		c.Patch("a", spec(map[string]any{"x": 1}))
		if n := <-stored; n != tasks*500 {
			c.Errorf("%d values are in the memo, want %d", n, tasks*500)
		}
	})
}

func forgetting(t *testing.T, c *C) {
	c.Run(t, "BG-100 what an operator knows of an object is its own: daemons, failures, pauses, and whether it was there before", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]int, error) {
			l.add("index %s %d", x.Name(), x.Retry)
			return nil, kopf.Permanent(errOops)
		}, &kopf.IndexOptions{ID: "x"})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { l.add("daemon %s", d.Name()); return nil }, daemonID("d"))
		r.OnResume(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("resume %s", ch.Name()); return nil }, named("resume"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("update %s", ch.Name()); return nil }, named("update"))
		c.settled("a", nil)
		op := c.Operator(r)
		c.Pass(time.Minute)
		for i := range 3 {
			c.Patch("a", spec(map[string]any{"x": i}))
			c.Pass(time.Minute)
		}
		for text, want := range map[string]int{"index a 0": 1, "index": 1, "daemon a": 1, "resume a": 1, "update a": 3} {
			if got := l.count(text); got != want {
				c.Errorf("%d calls %q, want %d: %q", got, text, want, l.all())
			}
		}
		op.Stop()
	})
	c.Run(t, "BG-101 all of it is forgotten when the object is gone", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, x *kopf.Indexing) (map[string]int, error) {
			l.add("index")
			return nil, kopf.Permanent(errOops)
		}, &kopf.IndexOptions{ID: "x"})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { l.add("daemon"); return nil }, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		op := c.Operator(r)
		for range 2 {
			c.Create("a", nil)
			c.Pass(time.Minute)
			c.Patch("a", spec(map[string]any{"x": 1}))
			c.Pass(time.Minute)
			c.Delete("a")
			c.Pass(time.Minute)
		}
		c.expect(&l, "index", "daemon", "index", "daemon")
		op.Stop()
	})
	c.Run(t, "BG-102 an object is resumed if a listing has shown it first", func(c *C) {
		var l calls
		c.settled("before", nil)
		r := &kopf.Registry{}
		r.OnResume(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("resume %s", ch.Name()); return nil }, named("resume"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("create %s", ch.Name()); return nil }, named("create"))
		c.Operator(r)
		c.expect(&l, "resume before")
		c.Create("after", nil)
		c.expect(&l, "resume before", "create after")
		c.Patch("after", spec(map[string]any{"x": 1}))
		c.Pass(time.Second)
		c.expect(&l, "resume before", "create after")
	})
	c.Run(t, "BG-103 a pause after an error stops no daemons, and they see what is new", func(c *C) {
		c.OnlyInBubble("the pause is long")
		var refused calls
		k := &ticker{}
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
			k.tick(fmt.Sprint(t.Spec().Int("x"), " "))
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: 10 * time.Second, WithoutFinalizer: true})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ErrorDelays = []time.Duration{time.Hour} })
		refusing(op, &refused, func() bool { return true })
		c.Pass(time.Second)
		k.began = time.Now()
		c.Create("a", spec(map[string]any{"x": 1}))
		c.Pass(15 * time.Second)
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Pass(10 * time.Second)
		c.expect(&k.calls, "1 0s", "1 10s", "2 20s")
		if len(refused.all()) != 1 {
			c.Errorf("%d requests were refused, want one before the pause", len(refused.all()))
		}
		op.Stop()
	})
}
