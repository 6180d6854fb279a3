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

// This suite proves what an operator keeps for an object, in memory and by the ids of its handlers, and how filters affect that, in 1-change-handling.md.

var _ = Suite("change_memory", func(t *testing.T, c *C) {
	remembering(t, c)
	resuming(t, c)
	sieving(t, c)
	idling(t, c)
})

// forget removes the recorded calls.
func (l *calls) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

func remembering(t *testing.T, c *C) {
	c.Run(t, "CH-13 what is stored belongs to the id of the handler, whatever its function is called", func(c *C) {
		var l calls
		first, second, third := &kopf.Registry{}, &kopf.Registry{}, &kopf.Registry{}
		soon := kopf.Temporary(errOops, 20*time.Millisecond)
		first.OnCreate(Examples, l.handler("first", soon, kopf.Temporary(errOops, time.Second)), named("pinned"))
		second.OnCreate(Examples, l.handler("second", nil, nil, kopf.Temporary(errOops, time.Second)), named("pinned"))
		third.OnCreate(Examples, l.handler("third"), named("renamed"))
		op := c.Operator(first)
		c.Create("a", nil)
		c.expect(&l, "first create 0", "first create 1")
		c.WaitFor("the record", func() bool {
			return strings.Contains(c.Get("a").Annotations()["kopf.zalando.org/pinned"], `"retries":2`)
		})
		op.Stop()
		op = c.Operator(second)
		c.expect(&l, "first create 0", "first create 1", "second create 2")
		c.WaitFor("the record", func() bool {
			return strings.Contains(c.Get("a").Annotations()["kopf.zalando.org/pinned"], `"retries":3`)
		})
		op.Stop()
		c.Operator(third)
		c.expect(&l, "first create 0", "first create 1", "second create 2", "third create 0")
	})
	c.Run(t, "CH-72 a memo is a copy of the operator's, made when the object is first seen, and lost at the end", func(c *C) {
		var l calls
		type shared struct{ visits atomic.Int64 }
		var global *kopf.Memo
		registry := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
				global = a.Memo()
				global.Store("early", "x")
				global.Store("shared", &shared{})
				return nil
			}, id("startup"))
			r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
				m := e.Memo()
				early, _ := m.Load("early")
				_, late := m.Load("late")
				own, _ := m.Load("own")
				common, _ := m.Load("shared")
				l.add("%s: early=%v late=%t own=%v visits=%d", e.Name(), early, late, own, common.(*shared).visits.Add(1))
				m.Store("early", "changed")
				m.Store("own", e.Name())
				return nil
			}, &kopf.EventOptions{ID: "event"})
			return r
		}
		op := c.Operator(registry())
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.expect(&l, "a: early=x late=false own=<nil> visits=1")
		global.Store("late", true)
		c.Patch("a", sized(1))
		c.WaitFor("the second event", func() bool { return len(l.all()) == 2 })
		c.Create("b", nil)
		c.expect(&l, "a: early=x late=false own=<nil> visits=1", "a: early=changed late=false own=a visits=2", "b: early=x late=true own=<nil> visits=3")
		op.Stop()
		c.Delete("b")
		l.forget()
		c.Operator(registry(), func(op *kopf.Operator) { op.Memo = nil })
		c.expect(&l, "a: early=x late=false own=<nil> visits=1")
	})
}

// resumer returns a registry whose handlers record their calls.
func resumer(l *calls, resume ...error) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnCreate(Examples, l.handler("create"), named("create"))
	r.OnUpdate(Examples, l.handler("update"), named("update"))
	r.OnResume(Examples, l.handler("resume", resume...), named("resume"))
	return r
}

// settled creates an object that was handled by an operator that no longer runs.
func (c *C) settled(name string, fields map[string]any) {
	c.Helper()
	var l calls
	op := c.Operator(resumer(&l))
	c.Create(name, fields)
	c.handled(name)
	op.Stop()
}

// restored returns a handled object of a size, as a backup would contain it.
func restored(n int) map[string]any {
	object := sized(n)
	object["metadata"] = map[string]any{"annotations": map[string]any{diffBase: fmt.Sprintf(`{"spec":{"x":%d}}`, n)}}
	return object
}

func resuming(t *testing.T, c *C) {
	c.Run(t, "CH-73 an object was there before if a listing has shown it first", func(c *C) {
		c.settled("a", sized(1))
		var l calls
		c.Operator(resumer(&l))
		c.expect(&l, "resume resume 0")
		c.Create("b", sized(1))
		c.expect(&l, "resume resume 0", "create create 0")
		c.handled("b")
		c.Patch("b", sized(2))
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		c.handled("b")
		c.Pass(time.Second)
		c.expect(&l, "resume resume 0", "create create 0", "update update 0")
		// A restored object has its last-handled configuration. It is nevertheless new.
		c.Create("c", restored(1))
		c.Pass(time.Second)
		c.Patch("c", sized(2))
		c.WaitFor("the update", func() bool { return l.count("update") == 2 })
		c.handled("c")
		c.expect(&l, "resume resume 0", "create create 0", "update update 0", "update update 0")
	})
	c.Run(t, "CH-73 a later listing does not change that", func(c *C) {
		c.OnlyInBubble("the watch is to be lost")
		var l calls
		var lost atomic.Bool
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("event %q %d", e.Type, e.Spec().Int("x"))
			return nil
		}, &kopf.EventOptions{ID: "event"})
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			switch {
			case !strings.Contains(req.Path, "/kopfexamples?") || !lost.Load():
				return nil, nil
			case strings.Contains(req.Path, "watch=true"):
				lost.Store(false)
				return Answer(410, "Expired", "too old"), nil
			}
			return Answer(503, "ServiceUnavailable", "not now"), nil
		}))
		c.Pass(time.Second)        // after the initial list
		c.Create("a", restored(1)) // only the stream shows that it is new
		c.expect(&l, `event "ADDED" 1`)
		lost.Store(true)
		op.Wire.Drop()
		c.Patch("a", sized(2))
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		c.handled("a")
		if got := l.all()[:3]; !slices.Equal(got, []string{`event "ADDED" 1`, fmt.Sprintf("event %q 2", kopf.Listed), "update update 0"}) || l.count("resume") != 0 {
			c.Errorf("got %q, want a listed state that is updated and not resumed", l.all())
		}
	})
	c.Run(t, "CH-74 an object that was handled once is not resumed any more", func(c *C) {
		for _, end := range []error{nil, kopf.Permanent(errOops)} {
			name := map[bool]string{true: "a", false: "b"}[end == nil]
			c.settled(name, sized(1))
			var l calls
			op := c.Operator(resumer(&l, end), func(op *kopf.Operator) {})
			c.WaitFor("the resuming", func() bool { return l.count("resume") > 0 })
			c.Pass(time.Second)
			l.forget()
			c.Patch(name, sized(2))
			c.WaitFor("the update", func() bool { return l.count("update") == 1 })
			c.handled(name)
			c.expect(&l, "update update 0")
			op.Stop()
		}
	})
	c.Run(t, "CH-74 no handlers to select are a handling, too", func(c *C) {
		c.settled("a", sized(1))
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		r.OnResume(Examples, l.handler("resume"), &kopf.ChangeOptions{ID: "resume", Labels: kopf.Match{"on": kopf.Present}})
		op := c.Operator(r)
		c.WaitFor("the first look at the object", func() bool { return len(op.Logs.All()) > 0 })
		c.Pass(time.Second)
		c.Patch("a", labelled("on", "yes"))
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		c.handled("a")
		c.expect(&l, "update update 0")
	})
	c.Run(t, "CH-75 an object is to be resumed through the finalizer, all retries, and what comes meanwhile", func(c *C) {
		c.settled("a", sized(1))
		var l calls
		soon := kopf.Temporary(errOops, 1500*time.Millisecond)
		r := resumer(&l, soon, soon)
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r)
		c.expect(&l, "resume resume 0")
		if !holds(c.Get("a")) {
			c.Error("the object was resumed before the finalizer was added")
		}
		c.WaitFor("the second attempt", func() bool { return l.count("resume resume 1") == 1 })
		c.Patch("a", sized(2))
		c.WaitFor("the third attempt", func() bool { return l.count("resume update 2") == 1 })
		c.handled("a")
		c.expect(&l, "resume resume 0", "resume resume 1", "update update 0", "resume update 2")
	})
}

func sieving(t *testing.T, c *C) {
	c.Run(t, "CH-52 filters are asked several times, and what they do to the patch is lost", func(c *C) {
		var l calls
		var asked atomic.Int64
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("asked %t", asked.Load() > 1)
			if !ch.Patch.Empty() {
				c.Error("the handler gets what its filter has put into the patch")
			}
			return nil
		}, &kopf.ChangeOptions{ID: "create", When: func(ch *kopf.Change) bool {
			asked.Add(1)
			ch.Patch.Set("status.change", "left by a filter")
			return true
		}})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if !e.Patch.Empty() {
				c.Error("the handler of events gets what its filter has put into the patch")
			}
			return nil
		}, &kopf.EventOptions{ID: "event", When: func(e *kopf.WatchEvent) bool {
			e.Patch.Set("status.event", "left by a filter")
			return true
		}})
		op := c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		c.Pass(time.Second)
		c.expect(&l, "asked true")
		if body.Has("status") || len(op.Wire.Writes()) != 1 {
			c.Errorf("got the status %v after %d writes, want none after one", body.Status(), len(op.Wire.Writes()))
		}
	})
	c.Run(t, "CH-56 of an object that no handler of changes is for, only the others are told", func(c *C) {
		c.settled("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"on": "yes"}}})
		c.Patch("a", unlabelled("on"))
		before := c.Get("a")
		var l calls
		on := func(id kopf.HandlerID) *kopf.ChangeOptions {
			return &kopf.ChangeOptions{ID: id, Labels: kopf.Match{"on": kopf.Present}}
		}
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), on("create"))
		r.OnUpdate(Examples, l.handler("update"), on("update"))
		r.OnResume(Examples, l.handler("resume"), on("resume"))
		r.OnDelete(Examples, l.handler("delete"), on("delete"))
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("event")
			return nil
		}, &kopf.EventOptions{ID: "event", Labels: kopf.Match{"on": kopf.Absent}})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("daemon")
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true, Labels: kopf.Match{"on": kopf.Absent}})
		index := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{i.Name(): "indexed"}, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if got := index.Get(e, "a"); !slices.Equal(got, []string{"indexed"}) {
				c.Errorf("the index has %q", got)
			}
			return nil
		}, &kopf.EventOptions{ID: "look", Labels: kopf.Match{"on": kopf.Absent}})
		op := c.Operator(r)
		c.expect(&l, "event", "daemon")
		c.Pass(time.Second)
		if got := c.Get("a").ResourceVersion(); got != before.ResourceVersion() || len(op.Wire.Writes()) > 0 {
			c.Errorf("the object was written to: %q", patches(op))
		}
		for _, line := range op.Logs.All() {
			others := slices.ContainsFunc([]string{"'event'", "'look'", "'daemon'", "'index'"}, func(name string) bool { return strings.Contains(line.Message, name) })
			if line.Attrs["object"] != "" && !others {
				c.Errorf("the log tells of the object: %q", line.Message)
			}
		}
		// It was not handled yet, so it is resumed as soon as a handler matches.
		c.Patch("a", labelled("on", "yes"))
		c.WaitFor("the resuming", func() bool { return l.count("resume") == 1 })
		c.Pass(time.Second)
		c.expect(&l, "event", "daemon", "resume resume 0")
	})
	c.Run(t, "CH-T41 filters are asked at the deletion, too: what does not match any more is released", func(c *C) {
		var l calls
		on := map[string]any{"metadata": map[string]any{"labels": map[string]any{"on": "yes"}}}
		registry := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnDelete(Examples, l.handler("delete"), &kopf.ChangeOptions{ID: "delete", Labels: kopf.Match{"on": kopf.Present}})
			return r
		}
		op := c.Operator(registry())
		for _, name := range []string{"stays", "leaves"} {
			c.Create(name, on)
			c.handled(name)
		}
		op.Stop()
		for _, name := range []string{"stays", "leaves"} {
			c.Delete(name)
		}
		c.Patch("leaves", unlabelled("on"))
		c.Operator(registry())
		c.gone("leaves")
		c.gone("stays")
		c.expect(&l, "delete delete 0") // for the object that has kept its label
	})
}

// lines returns the messages about an object, except those about patches.
func (op *Running) lines(name string) []string {
	var all []string
	for _, line := range op.Logs.All() {
		if strings.Contains(line.Attrs["object"], name) && !strings.HasPrefix(line.Message, "Patching") {
			all = append(all, fmt.Sprintf("%s %s %s", line.Level, line.Message, line.Attrs["reason"]))
		}
	}
	return all
}

func idling(t *testing.T, c *C) {
	// quiet checks that the operator has processed an object, and that the only result is one debug line.
	quiet := func(c *C, op *Running, l *calls, name, word string, lines, writes int) {
		c.Helper()
		c.WaitFor("the line", func() bool { return len(op.lines(name)) > lines })
		c.Pass(time.Second)
		got := op.lines(name)[lines:]
		if len(got) != 1 || !strings.HasPrefix(got[0], slog.LevelDebug.String()) || !strings.Contains(got[0], word) {
			c.Errorf("got the lines %q, want one of debugging about %q", got, word)
		}
		if n := len(op.Wire.Writes()) - writes; n != 0 {
			c.Errorf("there were %d writes: %q", n, patches(op)[writes:])
		}
		c.expect(l)
	}
	registry := func(l *calls) *kopf.Registry {
		r := resumer(l)
		r.OnField(Examples, "spec", l.handler("field"), named("field"))
		return r
	}
	c.Run(t, "CH-90 what is not tracked is a line of debugging", func(c *C) {
		var l calls
		op := c.Operator(registry(&l))
		c.Create("a", sized(1))
		c.handled("a")
		c.Pass(time.Second)
		l.forget()
		lines, writes := len(op.lines("a")), len(op.Wire.Writes())
		c.Patch("a", map[string]any{"status": map[string]any{"by": "another"}})
		quiet(c, op, &l, "a", "noop", lines, writes)
	})
	c.Run(t, "CH-90 an object that is being deleted without us is a line of debugging", func(c *C) {
		var l calls
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
		defer c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.Delete("a")
		op := c.Operator(registry(&l))
		quiet(c, op, &l, "a", "free", 0, 0)
	})
	c.Run(t, "CH-90 an object that is gone is a line of debugging", func(c *C) {
		var l calls
		op := c.Operator(registry(&l))
		c.Create("a", sized(1))
		c.handled("a")
		c.Pass(time.Second)
		l.forget()
		lines, writes := len(op.lines("a")), len(op.Wire.Writes())
		c.Delete("a")
		quiet(c, op, &l, "a", "Deleted", lines, writes)
	})
}
