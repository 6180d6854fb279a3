package contract

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how kopf selects, calls and finishes the handlers of a cause, and the progress that it stores in the meantime, in 1-change-handling.md.

var _ = Suite("change_handlers", func(t *testing.T, c *C) {
	comparing(t, c)
	choosing(t, c)
	attempting(t, c)
	purposing(t, c)
	keeping(t, c)
})

// recordOf returns a record in the format of Kopf for Python.
func recordOf(purpose string, retries int, success bool, delayed string) string {
	d := "null"
	if delayed != "" {
		d = `"` + delayed + `"`
	}
	return fmt.Sprintf(`{"started":"2020-01-01T00:00:00.000000+00:00","delayed":%s,"purpose":%q,"retries":%d,"success":%t,"failure":false}`, d, purpose, retries, success)
}

// handledBefore returns the metadata of an object with a last-handled configuration and records.
func handledBefore(essence string, recorded map[string]string) map[string]any {
	annotations := map[string]any{}
	if essence != "" {
		annotations[diffBase] = essence + "\n"
	}
	for id, record := range recorded {
		annotations["kopf.zalando.org/"+id] = record
	}
	return map[string]any{"annotations": annotations}
}

func comparing(t *testing.T, c *C) {
	diffs := func(register func(r *kopf.Registry, fn kopf.ChangeFunc), change func(c *C)) func(c *C) (string, *kopf.Change) {
		return func(c *C) (string, *kopf.Change) {
			seen := make(chan *kopf.Change, 10)
			r := &kopf.Registry{}
			register(r, func(ctx context.Context, ch *kopf.Change) error {
				seen <- ch
				return nil
			})
			c.Operator(r)
			change(c)
			ch := <-seen
			var all []string
			for _, i := range ch.Diff() {
				all = append(all, fmt.Sprintf("%s %q %v %v", i.Operation, i.Path, i.Old, i.New))
			}
			return strings.Join(all, "; "), ch
		}
	}
	c.Run(t, "CH-84 a diff tells what was added, changed and removed, and where", func(c *C) {
		got, _ := diffs(func(r *kopf.Registry, fn kopf.ChangeFunc) {
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
			r.OnUpdate(Examples, fn, named("update"))
		}, func(c *C) {
			c.Create("a", spec(map[string]any{"changed": 1, "removed": "x", "deep": map[string]any{"kept": 1}}))
			c.handled("a")
			c.Patch("a", spec(map[string]any{"changed": 2, "removed": nil, "deep": map[string]any{"added": true}}))
		})(c)
		parts := strings.Split(got, "; ")
		slices.Sort(parts)
		want := []string{`add ["spec" "deep" "added"] <nil> true`, `change ["spec" "changed"] 1 2`, `remove ["spec" "removed"] x <nil>`}
		if !slices.Equal(parts, want) {
			c.Errorf("got the diff %q, want %q", parts, want)
		}
	})
	c.Run(t, "CH-86 the diff of a creation is the addition of everything", func(c *C) {
		got, ch := diffs(func(r *kopf.Registry, fn kopf.ChangeFunc) { r.OnCreate(Examples, fn, named("create")) },
			func(c *C) { c.Create("a", spec(map[string]any{"x": "y"})) })(c)
		if want := `add [] <nil> map[spec:map[x:y]]`; got != want {
			c.Errorf("got the diff %s, want %s", got, want)
		}
		if ch.Old.Len() != 0 || ch.New.String("spec.x") != "y" || len(ch.Diff()[0].Path) != 0 {
			c.Errorf("got old %v and new %v", ch.Old, ch.New)
		}
	})
	c.Run(t, "CH-T32 the removal of the last label is seen by who looks for the label", func(c *C) {
		got, ch := diffs(func(r *kopf.Registry, fn kopf.ChangeFunc) {
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
			r.OnField(Examples, "metadata.labels.x", func(ctx context.Context, ch *kopf.Change) error {
				if ch.Reason == kopf.ReasonCreate {
					return nil
				}
				return fn(ctx, ch)
			}, named("label"))
		}, func(c *C) {
			c.Create("a", labelled("x", "y"))
			c.handled("a")
			c.Patch("a", unlabelled("x"))
		})(c)
		if want := `remove [] y <nil>`; got != want {
			c.Errorf("got the diff %s, want %s", got, want)
		}
		if ch.Old.String("") != "y" || ch.New.Has("") {
			c.Errorf("got old %v and new %v", ch.Old, ch.New)
		}
	})
	c.Run(t, "CH-T16 handlers of fields are called in creations, updates and deletions, and are told which", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnField(Examples, "spec.x", l.handler("field"), named("field"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.WaitFor("the update", func() bool { return l.count("field update") == 1 })
		c.handled("a")
		c.Delete("a")
		c.gone("a")
		c.expect(&l, "field create 0", "field update 0", "delete delete 0") // the deletion changed nothing else
	})
}

func choosing(t *testing.T, c *C) {
	c.Run(t, "CH-92 the finalizer is one text among those of others", func(c *C) {
		r := &kopf.Registry{}
		r.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, named("delete"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Persistence.Finalizer = "example.com/mine" })
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/others"}}})
		c.WaitFor("the finalizer", func() bool { return len(c.Get("a").Finalizers()) == 2 })
		if got, want := fmt.Sprint(c.Get("a").Finalizers()), "[example.com/others example.com/mine]"; got != want {
			c.Errorf("got the finalizers %s, want %s", got, want)
		}
		c.Delete("a")
		c.WaitFor("the release", func() bool { return len(c.Get("a").Finalizers()) == 1 })
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.gone("a")
		op.Stop()
		if got := kopf.NewSettings().Persistence.Finalizer; got != "kopf.zalando.org/KopfFinalizerMarker" {
			c.Errorf("the default finalizer is %q", got)
		}
	})
	c.Run(t, "CH-93 objects are held for mandatory deletion handlers that match, and for daemons", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnDelete(Examples, l.handler("must"), &kopf.ChangeOptions{ID: "must", Labels: kopf.Match{"must": "yes"}})
		r.OnDelete(Examples, l.handler("may"), &kopf.ChangeOptions{ID: "may", WithoutFinalizer: true})
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", Labels: kopf.Match{"daemon": "yes"}})
		c.Operator(r)
		c.Create("none", nil)
		c.Create("must", labelled("must", "yes"))
		c.Create("daemon", labelled("daemon", "yes"))
		c.handled("none")
		c.held("must")
		c.held("daemon")
		if holds(c.Get("none")) {
			c.Error("the object is held for an optional handler")
		}
		c.Patch("must", labelled("must", "no"))
		c.WaitFor("the release", func() bool { return !holds(c.Get("must")) })
		for _, name := range []string{"none", "must", "daemon"} {
			c.Delete(name)
			c.gone(name)
		}
	})
	c.Run(t, "CH-T17 an optional deletion handler is called also if others hold the object", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("may", kopf.Temporary(errOops, time.Millisecond)), &kopf.ChangeOptions{ID: "may", WithoutFinalizer: true})
		r.OnDelete(Examples, l.handler("not"), &kopf.ChangeOptions{ID: "not", WithoutFinalizer: true, Labels: kopf.Match{"no": kopf.Present}})
		c.Operator(r)
		c.Create("held", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/others"}}})
		c.Create("free", nil)
		c.Delete("free")
		c.gone("free")
		c.Delete("held")
		c.expect(&l, "may delete 0", "may delete 1")
		c.WaitFor("the end of the records", func() bool { return len(records(c.Get("held"))) == 0 })
		c.Patch("held", spec(map[string]any{"x": 1}))
		c.Pass(500 * time.Millisecond)
		c.expect(&l, "may delete 0", "may delete 1") // and no third time
		c.Patch("held", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.gone("held")
	})
	c.Run(t, "CH-T34 the finalizers of an older operator are removed", func(c *C) {
		var l calls
		c.Create("old", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/legacy", "example.com/others"}}})
		c.Delete("old")
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Persistence.LegacyFinalizers = []string{"example.com/legacy"} })
		c.WaitFor("the removal", func() bool { return fmt.Sprint(c.Get("old").Finalizers()) == "[example.com/others]" })
		c.Create("new", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/legacy"}}})
		c.WaitFor("the exchange", func() bool { return fmt.Sprint(c.Get("new").Finalizers()) == "["+finalizer+"]" })
		c.Delete("new")
		c.gone("new")
		c.expect(&l, "delete delete 0")
		c.Patch("old", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	})
	c.Run(t, "CH-102 records of handlers that do not match now are known, and theirs alone", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore(`{}`, map[string]string{
			"mine": recordOf("update", 1, false, ""), "filtered": recordOf("update", 1, true, ""), "strange": recordOf("update", 1, true, ""),
		}), "spec": map[string]any{"x": 1}})
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("mine %d", ch.Retry)
			return nil
		}, named("mine"))
		r.OnUpdate(Examples, l.handler("filtered"), &kopf.ChangeOptions{ID: "filtered", Labels: kopf.Match{"no": kopf.Present}})
		op := c.Operator(r)
		c.WaitFor("the end", func() bool { return len(records(c.Get("a"))) < 3 })
		c.expect(&l, "mine 1")
		if got := fmt.Sprint(records(c.Get("a"))); got != "[strange]" {
			c.Errorf("the records %s are left, want that of nobody's handler alone", got)
		}
		if n := len(op.Logs.Find("2 succeeded; 0 failed")); n != 1 {
			c.Errorf("%d lines count both handlers, want 1", n)
		}
	})
	c.Run(t, "CH-103 a cause that nobody handles is done at once, and not told of", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, l.handler("update"), &kopf.ChangeOptions{ID: "update", Field: "spec.x"})
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"y": 2}))
		c.WaitFor("the stored state", func() bool { base, _ := c.Get("a").Annotation(diffBase); return strings.Contains(base, `"y":2`) })
		c.expect(&l, "create create 0")
		if got := op.Logs.Find("Updating is processed"); len(got) > 0 {
			c.Errorf("got the lines %v", got)
		}
	})
	c.Run(t, "CH-104 the lifecycle gets the handlers that are due, and says which run in what order", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		var mu sync.Mutex
		var offered []string
		running := 0
		r := &kopf.Registry{}
		for _, id := range []string{"a", "b", "c"} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				mu.Lock()
				if running++; running > 1 {
					c.Error("two handlers of an object run at the same time")
				}
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				l.add("%s %d", id, ch.Retry)
				if id == "b" && ch.Retry == 0 {
					return kopf.Temporary(errOops, time.Minute)
				}
				return nil
			}, named(kopf.HandlerID(id)))
		}
		c.Operator(r, func(op *kopf.Operator) {
			op.Lifecycle = func(pending []kopf.PendingHandler) []kopf.PendingHandler {
				var ids []string
				for _, p := range pending {
					ids = append(ids, fmt.Sprintf("%s%d", p.ID, p.Retries))
				}
				offered = append(offered, strings.Join(ids, ""))
				slices.Reverse(pending)
				return pending[:min(2, len(pending))]
			}
		})
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "c 0", "b 0", "a 0", "b 1")
		if got, want := fmt.Sprint(offered), "[a0b0c0 a0 b1]"; got != want {
			c.Errorf("the lifecycle was offered %s, want %s", got, want)
		}
	})
	c.Run(t, "CH-104 a lifecycle returns a handler twice, and one that does not exist", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"a", "b"} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s %d", id, ch.Retry)
				return kopf.Temporary(errOops, time.Second)
			}, &kopf.ChangeOptions{ID: id, Retries: 2})
		}
		c.Operator(r, func(op *kopf.Operator) {
			op.Lifecycle = func(pending []kopf.PendingHandler) []kopf.PendingHandler {
				return append([]kopf.PendingHandler{{ID: "unknown"}, pending[0]}, pending...)
			}
		})
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "a 0", "b 0", "a 1", "b 1")
	})
	c.Run(t, "CH-105 the lifecycles do what their names say", func(c *C) {
		pending := func() []kopf.PendingHandler {
			return []kopf.PendingHandler{{ID: "a", Retries: 2}, {ID: "b", Retries: 1}, {ID: "c", Retries: 1}}
		}
		ids := func(all []kopf.PendingHandler) string {
			text := ""
			for _, p := range all {
				text += string(p.ID)
			}
			return text
		}
		for name, test := range map[string]struct {
			lifecycle kopf.Lifecycle
			want      []string
		}{
			"all at once": {kopf.AllAtOnce, []string{"abc"}}, "one by one": {kopf.OneByOne, []string{"a"}}, "asap": {kopf.ASAP, []string{"b"}},
			"randomized": {kopf.Randomized, []string{"a", "b", "c"}}, "shuffled": {kopf.Shuffled, []string{"abc", "acb", "bac", "bca", "cab", "cba"}},
		} {
			seen := map[string]bool{}
			for range 1000 {
				seen[ids(test.lifecycle(pending()))] = true
			}
			if len(seen) != len(test.want) {
				c.Errorf("%s: got the choices %v, want %v", name, seen, test.want)
			}
			for _, want := range test.want {
				if !seen[want] {
					c.Errorf("%s: %q was never chosen", name, want)
				}
			}
		}
	})
	c.Run(t, "CH-107 handlers of events are all called, and sub-handlers are chosen by the lifecycle", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for _, id := range []string{"e1", "e2"} {
			r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
				if e.Type == kopf.Added || e.Type == kopf.Listed {
					l.add("%s", id)
				}
				return nil
			}, &kopf.EventOptions{ID: kopf.HandlerID(id)})
		}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("s1", func(context.Context, *kopf.Change) error { l.add("s1 in %d", ch.Retry); return nil }, nil)
			ch.Subhandler("s2", func(context.Context, *kopf.Change) error { l.add("s2 in %d", ch.Retry); return nil }, nil)
			return nil
		}, named("parent"))
		c.Operator(r, func(op *kopf.Operator) { op.Lifecycle = kopf.OneByOne })
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "e1", "e2", "s1 in 0", "s2 in 1")
	})
}

func attempting(t *testing.T, c *C) {
	c.Run(t, "CH-109 the runtime begins when the handler is selected, and goes on over restarts", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				time.Sleep(30 * time.Second)
			}
			return nil
		}, named("slow"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%d %s", ch.Retry, ch.Runtime.Round(time.Second))
			if ch.Retry < 2 {
				return kopf.Temporary(errOops, time.Minute)
			}
			return nil
		}, named("late"))
		first := c.Operator(r)
		c.Create("a", nil)
		c.Pass(40 * time.Second)
		first.Crash()
		c.Pass(10 * time.Minute)
		c.Operator(r)
		c.handled("a")
		if got := l.all(); len(got) != 3 || got[0] != "0 30s" || !strings.HasPrefix(got[1], "1 10m4") || !strings.HasPrefix(got[2], "2 11m4") {
			c.Errorf("got the attempts %q, want them after 30s, 10m40s and 11m40s", got)
		}
	})
	c.Run(t, "CH-T36 a handler that is out of time names its runtime, and the attempt that would be too late", func(c *C) {
		c.OnlyInBubble("the times are exact")
		r := &kopf.Registry{}
		for _, id := range []kopf.HandlerID{"first", "second"} { // one after the other
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
				time.Sleep(time.Second)
				return errOops
			}, &kopf.ChangeOptions{ID: id, Timeout: 2 * time.Second})
		}
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		for id, want := range map[string]string{
			"first":  `handler "first" is out of time after 1s, because the next attempt in 1m0s would exceed its Timeout of 2s`,
			"second": `handler "second" is out of time after 2s`,
		} {
			if lines := op.Logs.Find("'" + id + "' failed permanently: "); len(lines) != 1 || !strings.HasSuffix(lines[0].Message, want) {
				c.Errorf("got the lines %v, want one with %q", lines, want)
			}
		}
	})
	c.Run(t, "CH-T36 a handler can run out of time before it is called", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
			time.Sleep(time.Minute)
			return nil
		}, named("slow"))
		r.OnCreate(Examples, l.handler("late"), &kopf.ChangeOptions{ID: "late", Timeout: 30 * time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l)
		if lines := op.Logs.Find("'late' failed"); len(lines) != 1 || lines[0].Level != slog.LevelError {
			c.Errorf("got the lines %v, want one error", lines)
		}
	})
	c.Run(t, "CH-110 a handler that returns no error has succeeded, and its result is delivered", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("result %d", ch.Retry)
			ch.SetResult([]any{"x", 1})
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Millisecond)
			}
			return nil
		}, named("result"))
		r.OnCreate(Examples, l.handler("none"), named("none"))
		op := c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		c.expect(&l, "result 0", "none create 0", "result 1")
		if got := fmt.Sprint(body.Status().Map()); got != "map[result:[x 1]]" {
			c.Errorf("got the status %s, want the result alone", got)
		}
		delivered := 0
		for _, w := range op.Wire.Writes() {
			delivered += strings.Count(w.Body, `"result":[`)
		}
		if delivered != 1 {
			c.Errorf("the result was sent %d times, want once, with the success", delivered)
		}
	})
	c.Run(t, "CH-116 a running handler is interrupted only by the end of the operator", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("begins %d", ch.Retry)
			select {
			case <-ctx.Done():
				l.add("interrupted %v", ctx.Err())
				return ctx.Err()
			case <-time.After(time.Hour):
				return nil
			}
		}, named("create"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the call", func() bool { return l.count("begins") == 1 })
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Delete("a")
		c.Pass(10 * time.Minute)
		c.expect(&l, "begins 0")
		op.Stop()
		c.expect(&l, "begins 0", "interrupted context canceled")
		if lines := op.Logs.Find("'create' was cancelled"); len(lines) != 1 || lines[0].Level != slog.LevelWarn {
			c.Errorf("got the lines %v, want one warning", lines)
		}
		if got := records(c.Get("a")); len(got) > 0 {
			c.Errorf("the records %q were stored, want none", got)
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	})
	c.Run(t, "CH-127 a handler that is due and was not chosen is called in the next cycle at once", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		for _, id := range []string{"a", "b", "c"} {
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error { l.add("%s %s", id, time.Since(began)); return nil }, named(kopf.HandlerID(id)))
		}
		c.Operator(r, func(op *kopf.Operator) { op.Lifecycle = kopf.OneByOne })
		began = time.Now()
		c.Create("x", nil)
		c.handled("x")
		c.expect(&l, "a 0s", "b 0s", "c 0s")
	})
}
