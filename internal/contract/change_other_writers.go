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

// This suite proves how operators work while other clients write to the same objects, in 1-change-handling.md.

var _ = Suite("change_other_writers", func(t *testing.T, c *C) {
	neighbours(t, c)
	copies(t, c)
	robbing(t, c)
	retracking(t, c)
	sharedFinalizers(t, c)
})

// prefixed sets an operator's annotation prefix.
func prefixed(prefix string) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		op.Settings.Persistence.ProgressStorage = &kopf.SmartProgressStorage{Prefix: prefix}
		op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: prefix}
	}
}

func neighbours(t *testing.T, c *C) {
	c.Run(t, "CH-T27 operators whose prefixes begin with kopf. do not take each other's annotations for changes", func(c *C) {
		var l calls
		registry := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler(name), named(kopf.HandlerID(name)))
			r.OnUpdate(Examples, l.handler(name), named(kopf.HandlerID(name)))
			return r
		}
		one := c.Operator(registry("one"), prefixed("kopf.one.com"))
		two := c.Operator(registry("two"), prefixed("kopf.two.com"))
		c.Create("a", sized(1))
		c.WaitFor("both", func() bool { return len(c.Get("a").Annotations()) == 2 })
		c.Pass(time.Second)
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.one.com/note": "x", "kopf.else.com/note": "y"}}})
		c.WaitFor("the updates by what only looks so", func() bool { return l.count("one update") == 1 && l.count("two update") == 1 })
		c.Pass(time.Second)
		for _, call := range []string{"one create", "two create", "one update", "two update"} {
			if n := l.count(call); n != 1 {
				c.Errorf("%d calls of %q, want 1: %q", n, call, l.all())
			}
		}
		for name, op := range map[string]*Running{"kopf.one.com": one, "kopf.two.com": two} {
			if n := len(op.Wire.Writes()); n != 2 {
				c.Errorf("the operator with the prefix %s has written %d times, want 2: %q", name, n, patches(op))
			}
			if n := len(op.Logs.Find(`the prefix "` + name + `" of annotations begins with "kopf."`)); n != 1 {
				c.Errorf("%d warnings of the prefix %s, want 1", n, name)
			}
		}
	})
	c.Run(t, "CH-T27 a state that was stored by an operator in Python counts as the same", func(c *C) {
		const essence = `{"spec":{"x":1},"metadata":{"annotations":{"kopf.one.com/last-handled-configuration":"{}"}}}`
		object := sized(1)
		object["metadata"] = map[string]any{"annotations": map[string]any{diffBase: essence, "kopf.one.com/last-handled-configuration": "{\"spec\":{}}\n"}}
		c.Create("a", object)
		var l calls
		op := c.Operator(resumer(&l))
		c.expect(&l, "resume resume 0")
		c.Pass(time.Second)
		if n := len(op.Wire.Writes()); n != 0 {
			c.Errorf("there were %d writes: %q", n, patches(op))
		}
	})
}

func copies(t *testing.T, c *C) {
	ignoring := func(op *kopf.Operator) { op.Settings.Persistence.IgnoreCopies = true }
	const bound = "kopf.zalando.org/handled-uid"
	c.Run(t, "CH-T24 a copy with the annotations of its original is created, if that is wished", func(c *C) {
		var l calls
		registry := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s create %d", ch.Name(), ch.Retry)
				ch.Subhandler("sub", func(ctx context.Context, sub *kopf.Change) error {
					l.add("%s sub %d", sub.Name(), sub.Retry)
					return nil
				}, nil)
				return nil
			}, named("create"))
			r.OnCreate(Examples, l.handler("other"), &kopf.ChangeOptions{ID: "other", Labels: kopf.Match{"other": kopf.Present}})
			r.OnUpdate(Examples, l.handler("update"), named("update"))
			r.OnResume(Examples, l.handler("resume"), named("resume"))
			return r
		}
		op := c.Operator(registry(), ignoring)
		original := c.Create("original", sized(1))
		c.WaitFor("the end", func() bool { return len(c.Get("original").Annotations()) == 2 })
		body := c.Get("original")
		if got := body.Annotations(); got[bound] != original.UID() || got[diffBase] == "" {
			c.Errorf("got the annotations %q, want the last state and the uid", got)
		}
		annotations := map[string]any{}
		for key, value := range body.Annotations() {
			annotations[key] = value
		}
		// As if the object was exported during its handling.
		annotations["kopf.zalando.org/create"] = `{"started":"2020-01-01T00:00:00.000000+00:00","purpose":"create","retries":7,"success":true,"failure":false,"subrefs":["create/sub","create/gone"]}`
		annotations["kopf.zalando.org/create.sub"] = recordOf("create", 7, true, "")
		annotations["kopf.zalando.org/create.gone"] = recordOf("create", 7, true, "")
		annotations["kopf.zalando.org/other"] = recordOf("create", 7, true, "")
		annotations["kopf.zalando.org/handling-base"] = `{"spec":{"x":7}}`
		export := sized(1)
		export["metadata"] = map[string]any{"annotations": annotations}
		copied := c.Create("copy", export)
		c.WaitFor("the end", func() bool {
			return c.Get("copy").Annotations()[bound] == copied.UID() && len(records(c.Get("copy"))) == 0
		})
		c.expect(&l, "original create 0", "original sub 0", "copy create 0", "copy sub 0")
		if got := c.Get("copy").Annotations(); len(got) != 2 || got[diffBase] != `{"spec":{"x":1}}`+"\n" {
			c.Errorf("got the annotations %q, want those of the copy alone", got)
		}
		op.Stop()
		l.forget()
		again := c.Operator(registry(), ignoring)
		c.WaitFor("the resuming", func() bool { return l.count("resume") == 2 })
		if n := len(again.Wire.Writes()); n != 0 {
			c.Errorf("%d writes follow a restart, want none: %q", n, patches(again))
		}
	})
	c.Run(t, "CH-T24 what was stored on the original of a copy goes with the first attempts", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create", kopf.Temporary(errOops, time.Second)), named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		c.Operator(r, ignoring)
		annotations := map[string]any{bound: "another", "kopf.zalando.org/update": recordOf("create", 7, true, ""), diffBase: `{"spec":{"x":1}}`}
		annotations["kopf.zalando.org/create"] = recordOf("create", 7, false, "2100-01-01T00:00:00.000000+00:00")
		object := sized(1)
		object["metadata"] = map[string]any{"annotations": annotations}
		c.Create("copy", object)
		c.WaitFor("the first record", func() bool { return fmt.Sprint(records(c.Get("copy"))) == "[create]" })
		if got := c.record(c.Get("copy"), "create")["retries"]; got != 1.0 {
			c.Errorf("the record has %v retries, want 1", got)
		}
		c.expect(&l, "create create 0", "create create 1")
	})
	c.Run(t, "CH-T24 what is stored without a uid counts, and copies do if nothing else is wished", func(c *C) {
		for i, adjust := range []func(*kopf.Operator){ignoring, func(*kopf.Operator) {}} {
			object := restored(1)
			if i == 1 {
				object["metadata"].(map[string]any)["annotations"].(map[string]any)[bound] = "another"
			}
			name := []string{"unbound", "copy"}[i]
			c.Create(name, object)
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			r.OnUpdate(Examples, l.handler("update"), named("update"))
			op := c.Operator(r, adjust)
			c.Pass(300 * time.Millisecond)
			if n := len(op.Wire.Writes()); n != 0 {
				c.Errorf("there are %d writes before there is anything to store: %q", n, patches(op))
			}
			c.Patch(name, sized(2))
			c.expect(&l, "update update 0")
			c.WaitFor("the last state", func() bool { return c.Get(name).Annotations()[diffBase] == `{"spec":{"x":2}}`+"\n" })
			if uid := c.Get(name).Annotations()[bound]; i == 0 && uid != c.Get(name).UID() {
				c.Errorf("the object is bound to %q", uid)
			}
			op.Stop()
			c.Delete(name)
		}
	})
}

func robbing(t *testing.T, c *C) {
	registry := func(l *calls) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("update %d->%d", ch.Old.Int("spec.x"), ch.New.Int("spec.x"))
			return nil
		}, named("update"))
		return r
	}
	reset := map[string]any{"metadata": map[string]any{"annotations": nil}}
	c.Run(t, "CH-T25 a controller that resets the annotations does not have the object created again and again", func(c *C) {
		var l calls
		op := c.Operator(registry(&l))
		c.Create("a", sized(1))
		for i := range 3 {
			c.handled("a")
			c.Pass(200 * time.Millisecond)
			n := len(op.Wire.Writes())
			c.Patch("a", reset)
			c.Pass(time.Second)
			c.Patch("a", map[string]any{"status": map[string]any{"n": i}})
			c.Pass(200 * time.Millisecond)
			if more, want := len(op.Wire.Writes())-n, map[int]int{0: 1}[i]; more != want { // it is stored once more
				c.Errorf("reset %d: the operator fights back with %d writes, want %d: %q", i, more, want, patches(op)[n:])
			}
			c.Patch("a", sized(i+2))
		}
		c.handled("a")
		c.expect(&l, "create create 0", "update 1->2", "update 0->3", "update 0->4")
		lines := op.Logs.Find("was removed from the object twice")
		if len(lines) != 1 || lines[0].Level != slog.LevelWarn || !strings.HasSuffix(lines[0].Attrs["object"], "a") {
			c.Errorf("got the lines %v, want one warning about the object", lines)
		}
	})
	c.Run(t, "CH-T25 a state from before it was stored is no reason to warn", func(c *C) {
		var l calls
		r := registry(&l)
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			c.Patch("a", map[string]any{"status": map[string]any{"by": "another"}})
			c.Patch("a", sized(2))
			time.Sleep(200 * time.Millisecond)
			return nil
		}, named("slow"))
		op := c.Operator(r, slowly(300*time.Millisecond, nil))
		c.Create("a", sized(1))
		c.expect(&l, "create create 0", "update 1->2")
		c.handled("a")
		c.Pass(300 * time.Millisecond)
		c.expect(&l, "create create 0", "update 1->2")
		if lines := op.Logs.Find("was removed from the object"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
	c.Run(t, "CH-T25 what is in memory counts as long as the operator runs", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		op := c.Operator(registry(&l))
		c.Create("a", sized(1))
		c.handled("a")
		for range 2 {
			c.Pass(9 * time.Second)
			c.Patch("a", reset)
		}
		c.Pass(time.Hour)
		c.Patch("a", map[string]any{"status": map[string]any{"by": "another"}})
		c.Pass(time.Hour)
		c.expect(&l, "create create 0")
		op.Stop()
		c.Operator(registry(&l))
		c.expect(&l, "create create 0", "create create 0")
	})
	c.Run(t, "CH-T25 a state that is removed once right after it was stored is stored once more", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		var refused atomic.Int32
		op := c.Operator(registry(&l), wired(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && refused.Add(-1) >= 0 {
				return Answer(500, "InternalError", "not now"), nil
			}
			return nil, nil
		}))
		c.Create("a", sized(1))
		c.handled("a")
		c.Pass(9 * time.Second)
		refused.Store(12) // more than the attempts of one request
		c.Patch("a", reset)
		c.Pass(time.Hour)
		if c.Get("a").Annotations()[diffBase] == "" {
			c.Error("the state is not stored again")
		}
		c.Patch("a", sized(2))
		c.Pass(time.Second)
		op.Stop()
		c.Operator(registry(&l))
		c.Pass(time.Second)
		c.expect(&l, "create create 0", "update 1->2")
	})
	c.Run(t, "CH-T25 an object whose state is removed later is created again", func(c *C) {
		c.OnlyInBubble("it takes a while")
		var l calls
		op := c.Operator(registry(&l))
		c.Create("a", sized(1))
		for range 3 {
			c.handled("a")
			c.Pass(11 * time.Second)
			c.Patch("a", reset)
			c.Pass(time.Second)
		}
		c.expect(&l, "create create 0", "create create 0", "create create 0", "create create 0")
		if lines := op.Logs.Find("was removed from the object"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
}

func retracking(t *testing.T, c *C) {
	const tracked = "kopf.zalando.org/tracked-fields"
	registry := func(l *calls, fields ...kopf.FieldPath) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		for _, field := range fields {
			r.OnField(Examples, field, func(ctx context.Context, ch *kopf.Change) error {
				l.add("field %s %v->%v", ch.Reason, ch.Old.Get(""), ch.New.Get(""))
				return nil
			}, named("field"))
		}
		return r
	}
	ignoring := func(fields ...kopf.FieldPath) func(op *kopf.Operator) {
		return func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{IgnoredFields: fields}
		}
	}
	object := map[string]any{"spec": map[string]any{"x": 1, "y": 1}, "status": map[string]any{"a": 1, "b": map[string]any{"c": 1}}}
	const plain, full = `{"spec":{"x":1,"y":1}}`, `{"spec":{"x":1,"y":1},"status":{"b":{"c":1}}}`
	// storedAs waits until the last-handled configuration and its tracked fields have these values.
	storedAs := func(c *C, name, state, fields string) {
		c.Helper()
		var got [2]string
		c.WaitFor("the state "+state, func() bool {
			annotations := c.Get(name).Annotations()
			note, _, _ := strings.Cut(strings.TrimSpace(annotations[tracked]), `,"state":`)
			got = [2]string{strings.TrimSpace(annotations[diffBase]), note + map[bool]string{true: "}"}[note != ""]}
			return got[0] == state
		})
		if got[1] != fields {
			c.Errorf("what is tracked is stored as %q, want %q", got[1], fields)
		}
	}
	c.Run(t, "CH-T28 another set of tracked fields makes no object look changed", func(c *C) {
		var l calls
		op := c.Operator(registry(&l))
		c.Create("a", object)
		storedAs(c, "a", plain, "")
		op.Stop()
		l.forget()
		for _, step := range []struct {
			fields, ignored []kopf.FieldPath
			state, tracked  string
			writes          int
		}{
			{[]kopf.FieldPath{"status.b"}, nil, full, `{"fields":["status.b"]}`, 1},
			{[]kopf.FieldPath{"status.b", "spec.x", "metadata.labels.l"}, nil, full, `{"fields":["status.b"]}`, 0},
			{[]kopf.FieldPath{"status.none"}, nil, plain, `{"fields":["status.none"]}`, 1},
			{nil, nil, plain, `{"fields":["status.none"]}`, 0},
			{nil, []kopf.FieldPath{"spec.y"}, `{"spec":{"x":1}}`, `{"ignored":["spec.y"]}`, 1},
			{[]kopf.FieldPath{"status.b.c"}, []kopf.FieldPath{"spec.y"}, `{"spec":{"x":1},"status":{"b":{"c":1}}}`, `{"fields":["status.b.c"],"ignored":["spec.y"]}`, 1},
			{[]kopf.FieldPath{"status.b"}, nil, full, `{"fields":["status.b"]}`, 1},
			{[]kopf.FieldPath{"metadata.labels.l", "metadata.annotations.a"}, nil, plain, "", 1},
		} {
			op := c.Operator(registry(&l, step.fields...), ignoring(step.ignored...))
			storedAs(c, "a", step.state, step.tracked)
			c.Pass(200 * time.Millisecond)
			if n := len(op.Wire.Writes()); n != step.writes {
				c.Errorf("%v without %v: %d writes, want %d: %q", step.fields, step.ignored, n, step.writes, patches(op))
			}
			op.Stop()
		}
		c.expect(&l)
	})
	c.Run(t, "CH-T28 what has really changed is told", func(c *C) {
		var l calls
		op := c.Operator(registry(&l, "status.b.c"))
		c.Create("a", object)
		storedAs(c, "a", full, `{"fields":["status.b.c"]}`)
		op.Stop()
		l.forget()
		c.Patch("a", map[string]any{"status": map[string]any{"b": map[string]any{"c": 2}}})
		op = c.Operator(registry(&l, "status.b")) // it is another field, and contains the changed one
		c.expect(&l, "update update 0", "field update map[c:1]->map[c:2]")
		storedAs(c, "a", `{"spec":{"x":1,"y":1},"status":{"b":{"c":2}}}`, `{"fields":["status.b"]}`)
		op.Stop()
		l.forget()
		c.Patch("a", sized(2))
		op = c.Operator(registry(&l))
		c.expect(&l, "update update 0")
		storedAs(c, "a", `{"spec":{"x":2,"y":1}}`, "")
		op.Stop()
		l.forget()
		op = c.Operator(registry(&l, "status.new"))
		c.Pass(200 * time.Millisecond)
		c.Patch("a", map[string]any{"status": map[string]any{"new": 1}}) // while the operator runs
		c.expect(&l, "update update 0", "field update <nil>->1")
		storedAs(c, "a", `{"spec":{"x":2,"y":1},"status":{"new":1}}`, `{"fields":["status.new"]}`)
		op.Stop()
		l.forget()
		c.Patch("a", map[string]any{"status": map[string]any{"new": nil}}) // while it does not run
		c.Operator(registry(&l, "status.new"))
		c.expect(&l, "update update 0", "field update 1-><nil>")
	})
	c.Run(t, "CH-T28 a field that others have tracked, too, is told of", func(c *C) {
		states := map[string]string{
			"changed": `{"spec":{"x":1},"status":{"a":1}}`, "dropped": `{"spec":{"x":2},"status":{"b":1}}`, "meta": `{"spec":{"x":1},"metadata":{"generateName":"m"}}`,
		}
		for name, state := range states {
			object := sized(1)
			object["metadata"] = handledBefore(state, nil)
			object["metadata"].(map[string]any)["generateName"] = "n"
			object["status"] = map[string]any{"a": 2}
			c.Create(name, object)
		}
		var l calls
		c.Operator(registry(&l, "status.a", "metadata.generateName"))
		c.WaitFor("the updates", func() bool { return l.count("update") == 3 })
		c.Pass(200 * time.Millisecond)
		for _, want := range []string{"field update 1->2", "field update <nil>->2", "field update m->n"} {
			if l.count(want) == 0 {
				c.Errorf("got the calls %q, want %q among them", l.all(), want)
			}
		}
	})
	c.Run(t, "CH-T28 it is looked for once, when an object is first seen", func(c *C) {
		object := sized(1)
		object["metadata"] = handledBefore(`{"spec":{"x":1}}`, nil)
		c.Create("a", object)
		var l calls
		r := registry(&l, "status.a")
		r.OnResume(Examples, l.handler("resume", kopf.Temporary(errOops, time.Second)), named("resume"))
		c.Operator(r)
		c.expect(&l, "resume resume 0")
		c.WaitFor("the record", func() bool { return slices.Contains(records(c.Get("a")), "resume") })
		c.Patch("a", map[string]any{"status": map[string]any{"a": 1}})
		c.WaitFor("the end", func() bool { return l.count("resume update 1") == 1 })
		if l.count("update update 0") != 1 || l.count("field update <nil>->1") != 1 {
			c.Errorf("got the calls %q, want those for the new value, too", l.all())
		}
		object["metadata"] = handledBefore(`{"spec":{"x":1},"status":{"b":7}}`, nil)
		c.Create("restored", object) // while the operator runs
		storedAs(c, "restored", `{"spec":{"x":1}}`, `{"fields":["status.a"]}`)
		if n := len(l.all()); n != 4 {
			c.Errorf("got the calls %q, want none for the one that was restored", l.all())
		}
	})
}

// sharedFinalizers proves the effect on the finalizers of others when a handler sets the list.
func sharedFinalizers(t *testing.T, c *C) {
	const first, mine, late = "example.com/first", "example.com/mine", "example.com/late"
	held := func(all ...any) map[string]any { return map[string]any{"metadata": map[string]any{"finalizers": all}} }
	for name, tt := range map[string]struct {
		set    func(p *kopf.Patch)
		want   []string // sorted
		warned bool
	}{
		"added": {func(p *kopf.Patch) {
			p.Set("metadata.finalizers", []string{first, mine})
		}, []string{first, late, mine, finalizer}, false},
		"replaced":     {func(p *kopf.Patch) { p.Set("metadata.finalizers", []string{mine}) }, []string{late, mine, finalizer}, true},
		"removed":      {func(p *kopf.Patch) { p.Remove("metadata.finalizers") }, []string{late, finalizer}, true},
		"merged":       {func(p *kopf.Patch) { p.Merge(held()) }, []string{late, finalizer}, true},
		"merged whole": {func(p *kopf.Patch) { p.Merge(held(first, finalizer)) }, []string{first, late, finalizer}, false},
		"transformed": {func(p *kopf.Patch) {
			p.Transform(func(object map[string]any) error {
				object["metadata"].(map[string]any)["finalizers"] = []any{late}
				return nil
			})
		}, []string{late, finalizer}, false},
	} {
		c.Run(t, "DF-8 finalizers that a handler has not seen stay, as does kopf's own: "+name, func(c *C) {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				c.Patch("a", held(first, finalizer, late))
				tt.set(ch.Patch)
				ch.Patch.Set("status.done", true)
				return nil
			}, named("create"))
			r.OnDelete(Examples, ready, named("delete"))
			op := c.Operator(r)
			c.Create("a", held(first))
			body := c.handled("a")
			if got := slices.Sorted(slices.Values(body.Finalizers())); !slices.Equal(got, tt.want) || !body.Status().Bool("done") {
				c.Errorf("got the finalizers %q of %s, want %q", got, body, tt.want)
			}
			lines := warned(op, "A patch removes finalizers of the object, whose owners may not have finished")
			if tt.warned != (len(lines) == 1) || tt.warned && !strings.Contains(fmt.Sprint(lines), first) {
				c.Errorf("got the warnings %v, want one: %t", lines, tt.warned)
			}
			c.Patch("a", held(finalizer))
			c.Delete("a")
			c.gone("a")
		})
	}
	c.Run(t, "DF-8 a timer that removes finalizers keeps kopf's own, and is warned of once", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(_ context.Context, x *kopf.Timer) error {
			l.add("timer")
			x.Patch.Remove("metadata.finalizers")
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Second})
		op := c.Operator(r)
		c.Create("a", held(first))
		c.WaitFor("three calls", func() bool { return l.count("timer") > 2 })
		if got := c.Get("a").Finalizers(); !slices.Equal(got, []string{finalizer}) {
			c.Errorf("got the finalizers %q", got)
		}
		if n := len(warned(op, "A patch removes finalizers")); n != 1 {
			c.Errorf("got %d warnings, want one", n)
		}
	})
}
