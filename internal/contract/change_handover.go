package contract

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves that the additional annotations of kopf never mislead Kopf for Python or kopf itself: 9-defects.md.

var _ = Suite("change_handover", func(t *testing.T, c *C) {
	appearing(t, c)
	handlingStates(t, c)
	roomy(t, c)
	neighbouring(t, c)
	pingPong(t, c)
})

// fieldRegistry has handlers of updates, and of fields, which record their calls.
func fieldRegistry(l *calls, fields ...kopf.FieldPath) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		l.add("update")
		return nil
	}, named("update"))
	for _, field := range fields {
		r.OnField(Examples, field, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s %v->%v", field, ch.Old.Get(""), ch.New.Get(""))
			return nil
		}, named(kopf.HandlerID(strings.ReplaceAll(string(field), ".", "-"))))
	}
	return r
}

func ignoringFields(fields ...kopf.FieldPath) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{IgnoredFields: fields}
	}
}

// handledByOriginal returns an object in a state that an operator in Python has handled.
func handledByOriginal(state string, fields map[string]any) map[string]any {
	object := map[string]any{"metadata": handledBefore(state, nil)}
	for key, value := range fields {
		object[key] = value
	}
	return object
}

func appearing(t *testing.T, c *C) {
	status := func(fields map[string]any) map[string]any { return map[string]any{"status": fields} }
	c.Run(t, "DF-22 a tracked field that has appeared while no operator ran is a change", func(c *C) {
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
		c.Patch("a", status(map[string]any{"ext": "two"}))
		var l calls
		c.Operator(fieldRegistry(&l, "status.ext"))
		c.expect(&l, "update", "status.ext <nil>->two")
	})
	c.Run(t, "DF-22 so it is after an operator has only seen the object at rest", func(c *C) {
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, sized(1)))
		var l calls
		op := c.Operator(fieldRegistry(&l, "status.ext", "metadata.generateName"))
		c.Pass(time.Second)
		op.Stop()
		c.Patch("a", status(map[string]any{"ext": "two"}))
		c.Operator(fieldRegistry(&l, "status.ext", "metadata.generateName"))
		c.expect(&l, "update", "status.ext <nil>->two")
	})
	c.Run(t, "DF-22 what is tracked no more is none", func(c *C) {
		c.Create("a", handledByOriginal(`{"spec":{"x":1},"status":{"ext":1},"metadata":{"generateName":"g"}}`, sized(1)))
		c.Patch("a", status(map[string]any{"ext": 2, "other": 1}))
		var l calls
		c.Operator(fieldRegistry(&l))
		c.WaitFor("the renewed state", func() bool { return c.Get("a").Annotations()[diffBase] == `{"spec":{"x":1}}`+"\n" })
		c.Pass(time.Second)
		c.expect(&l)
	})
	c.Run(t, "DF-22 a field that was ignored, as it seems, and is no more, is a change", func(c *C) {
		c.Create("a", handledByOriginal(`{"spec":{"x":1}}`, spec(map[string]any{"x": 1, "noise": 5})))
		var l calls
		c.Operator(fieldRegistry(&l))
		c.expect(&l, "update")
	})
	c.Run(t, "DF-23 a note of tracked fields is for the state that it was written with", func(c *C) {
		c.Create("a", map[string]any{"spec": map[string]any{"x": 1}})
		var l calls
		op := c.Operator(fieldRegistry(&l, "status.ext"))
		c.handled("a")
		c.Patch("a", status(map[string]any{"ext": 1}))
		c.expect(&l, "update", "status.ext <nil>->1")
		c.WaitFor("the note", func() bool { return c.Get("a").Annotations()["kopf.zalando.org/tracked-fields"] != "" })
		op.Stop()
		l.forget()
		// Kopf for Python takes over with an additional handler, and stores the fields that this one tracks.
		c.Patch("a", status(map[string]any{"other": 1}))
		c.Patch("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1},"status":{"ext":1,"other":1}}`, nil)})
		c.Patch("a", status(map[string]any{"other": 2}))
		c.Operator(fieldRegistry(&l, "status.ext", "status.other"))
		c.expect(&l, "update", "status.other 1->2")
	})
	c.Run(t, "DF-23 so is one of ignored fields", func(c *C) {
		c.Create("a", spec(map[string]any{"x": 1, "noise": 1}))
		var l calls
		op := c.Operator(fieldRegistry(&l), ignoringFields("spec.noise"))
		c.WaitFor("the note", func() bool { return c.Get("a").Annotations()["kopf.zalando.org/tracked-fields"] != "" })
		op.Stop()
		c.Patch("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1,"noise":1}}`, nil)})
		c.Patch("a", spec(map[string]any{"noise": 2}))
		c.Operator(fieldRegistry(&l))
		c.expect(&l, "update")
	})
	c.Run(t, "DF-23 what version 0.1.0 has noted counts for what it has stored", func(c *C) {
		const note = "kopf.zalando.org/tracked-fields"
		c.Create("a", spec(map[string]any{"x": 1, "noise": 1}))
		var l calls
		op := c.Operator(fieldRegistry(&l), ignoringFields("spec.noise"))
		c.WaitFor("the note", func() bool { return c.Get("a").Annotations()[note] != "" })
		op.Stop()
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{note: `{"ignored":["spec.noise"]}`}}})
		op = c.Operator(fieldRegistry(&l))
		c.WaitFor("the renewed state", func() bool { return strings.Contains(c.Get("a").Annotations()[diffBase], "noise") })
		c.Pass(time.Second)
		c.expect(&l)
		op.Stop()
		// It does not after Kopf for Python has stored another state.
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{note: `{"ignored":["spec.noise"]}`, diffBase: `{"spec":{"x":1,"noise":3}}`}}})
		c.Operator(fieldRegistry(&l))
		c.expect(&l, "update")
	})
}

// stepwise has two handlers of updates, one of which waits for the delay, and a handler of creations for each.
func stepwise(l *calls, delay *time.Duration) *kopf.Registry {
	r := &kopf.Registry{}
	quick := func(ctx context.Context, ch *kopf.Change) error {
		l.add("quick %v->%v %d", ch.Old.Get("spec.x"), ch.New.Get("spec.x"), ch.Retry)
		return nil
	}
	slow := func(ctx context.Context, ch *kopf.Change) error {
		l.add("slow %v->%v %d", ch.Old.Get("spec.x"), ch.New.Get("spec.x"), ch.Retry)
		if *delay > 0 {
			return kopf.Temporary(errOops, *delay)
		}
		return nil
	}
	for id, fn := range map[kopf.HandlerID]kopf.ChangeFunc{"quick": quick, "slow": slow} {
		r.OnCreate(Examples, fn, named("create-"+id))
		r.OnUpdate(Examples, fn, named(id))
	}
	return r
}

// stepwiseOriginal returns the same operator in Python.
func (c *C) stepwiseOriginal(l *calls, delay *time.Duration) *original {
	return &original{
		kind: c.Kind, name: "a", handlers: []originalHandler{{"create-quick", "create"}, {"create-slow", "create"}, {"quick", "update"}, {"slow", "update"}},
		call: func(id, reason string, retry int, old, now map[string]any) time.Duration {
			var before any
			if old != nil {
				before = old["spec"].(map[string]any)["x"]
			}
			id = strings.TrimPrefix(id, "create-")
			l.add("%s %v->%v %d", id, before, now["spec"].(map[string]any)["x"], retry)
			if id == "quick" {
				return 0
			}
			return *delay
		},
	}
}

// resumed changes the size of the object, starts an operator whose handlers succeed, and checks its calls, in any order.
func (c *C) resumed(l *calls, delay *time.Duration, size int, want ...string) {
	c.Helper()
	c.Patch("a", sized(size))
	*delay = 0
	l.forget()
	c.Operator(stepwise(l, delay))
	c.Pass(3 * time.Hour)
	c.same("the calls", want, slices.Sorted(slices.Values(l.all())))
}

func handlingStates(t *testing.T, c *C) {
	for _, created := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-24 what was kept of a handling counts in no other one, created=%t", created), func(c *C) {
			c.OnlyInBubble("the delays are long")
			var l calls
			delay := time.Hour
			python := c.stepwiseOriginal(&l, &delay)
			if c.Create("a", sized(0)); !created {
				delay = 0
				python.finish(c)
				c.Patch("a", sized(1))
				delay = time.Hour
			}
			l.forget()
			op := c.Operator(stepwise(&l, &delay)) // one has succeeded, the other waits
			c.WaitFor("the attempts", func() bool { return len(l.all()) == 2 })
			c.Pass(10 * time.Second)
			op.Crash()
			delay = 0
			c.Patch("a", sized(2))
			c.Pass(2 * time.Hour)
			python.finish(c) // Kopf for Python continues, and finishes it
			if got := c.Get("a").Annotations(); len(got) != 1 {
				c.Errorf("the original has left the annotations %q", got)
			}
			c.Patch("a", sized(3))
			python.cycle() // and starts the next one
			l.forget()
			c.Operator(stepwise(&l, &delay))
			c.Pass(time.Hour)
			c.expect(&l, "slow 2->3 0")
			if got := c.Get("a").Annotations(); len(got) != 1 || got[diffBase] != `{"spec":{"x":3}}`+"\n" {
				c.Errorf("got the annotations %q", got)
			}
		})
	}
	c.Run(t, "DF-24 nor where the original does not know the handlers whose records it is kept with", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		delay := time.Hour
		c.Create("a", handledByOriginal(`{"spec":{"x":0}}`, sized(1)))
		op := c.Operator(stepwise(&l, &delay))
		c.Pass(10 * time.Second)
		op.Crash()
		delay = 0
		python := c.stepwiseOriginal(&l, &delay)
		python.handlers = []originalHandler{{"slow", "update"}}
		c.Patch("a", sized(2))
		c.Pass(2 * time.Hour)
		python.finish(c)
		c.Patch("a", sized(3))
		l.forget()
		c.Operator(stepwise(&l, &delay))
		c.Pass(time.Hour)
		if got := l.all(); slices.ContainsFunc(got, func(call string) bool { return !strings.Contains(call, " 2->3 ") }) || l.count("slow") != 1 {
			c.Errorf("got the calls %q, want none with an older state", got)
		}
		if got := c.Get("a").Annotations(); len(got) != 1 || got[diffBase] != `{"spec":{"x":3}}`+"\n" {
			c.Errorf("got the annotations %q", got)
		}
	})
	c.Run(t, "DF-24 a handling that comes back half-way still tells the finished handlers of what has changed", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		delay := time.Hour
		python := c.stepwiseOriginal(&l, &delay)
		c.Create("a", handledByOriginal(`{"spec":{"x":0}}`, sized(1)))
		op := c.Operator(stepwise(&l, &delay))
		c.WaitFor("the attempts", func() bool { return len(l.all()) == 2 })
		c.Pass(10 * time.Second)
		op.Crash()
		c.Pass(2 * time.Hour)
		python.cycle() // the second attempt fails, too
		c.resumed(&l, &delay, 2, "quick 1->2 0", "slow 0->2 2")
	})
	c.Run(t, "DF-24 what version 0.1.0 has kept is not used, and goes", func(c *C) {
		object := handledByOriginal(`{"spec":{"x":1}}`, sized(3))
		notes := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		notes["kopf.zalando.org/handling-base"] = `{"spec":{"x":0}}` + "\n"
		notes["kopf.zalando.org/quick"] = recordOf("update", 1, true, "")
		c.Create("a", object)
		var l calls
		delay := time.Duration(0)
		c.Operator(stepwise(&l, &delay))
		c.handled("a")
		c.Pass(time.Second)
		c.expect(&l, "slow 1->3 0")
		if got := c.Get("a").Annotations(); len(got) != 1 || got[diffBase] != `{"spec":{"x":3}}`+"\n" {
			c.Errorf("got the annotations %q", got)
		}
	})
}

func roomy(t *testing.T, c *C) {
	padded := func(x int, letter string, size int) map[string]any {
		return spec(map[string]any{"pad": strings.Repeat(letter, size), "x": x})
	}
	state := func(object map[string]any) string { return encoded(object) }
	for _, test := range []struct {
		name   string
		object map[string]any
		state  string
	}{
		{"an update", padded(2, "p", 140<<10), state(padded(1, "p", 140<<10))},
		{"an update of all", padded(2, "q", 140<<10), state(padded(1, "p", 140<<10))},
		{"an update of nearly all that fits", padded(2, "p", 250<<10), state(padded(1, "p", 250<<10))},
		{"a creation", padded(2, "p", 200<<10), ""},
	} {
		c.Run(t, "DF-25 a large object is handled with all retries: "+test.name, func(c *C) {
			c.NotShort("the objects are large")
			c.OnlyInBubble("it takes hours")
			var l calls
			delay := time.Minute
			object := map[string]any{"spec": test.object["spec"], "metadata": handledBefore(test.state, nil)}
			c.Create("a", object)
			op := c.Operator(stepwise(&l, &delay))
			c.Pass(150 * time.Second)
			delay = 0
			c.Pass(time.Hour)
			if lines := op.Logs.Find("too large"); len(lines) > 0 {
				c.Errorf("got the lines %v", lines)
			}
			if quick, slow := l.count("quick"), l.count("slow"); quick != 1 || slow != 4 {
				c.Errorf("got the calls %q, want one and four", l.all())
			}
			if got := c.Get("a").Annotations(); len(got) != 1 || strings.TrimSpace(got[diffBase]) != state(test.object) {
				c.Errorf("%d annotations are left, and the state has %d bytes", len(got), len(got[diffBase]))
			}
			op.Stop()
			l.forget()
			c.Operator(stepwise(&l, &delay))
			c.Pass(time.Minute)
			c.expect(&l)
		})
	}
	c.Run(t, "DF-25 what has changed after a crash reaches the finished handlers of a large object, too", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		delay := time.Hour
		c.Create("a", handledByOriginal(state(padded(1, "p", 140<<10)), padded(2, "p", 140<<10)))
		op := c.Operator(stepwise(&l, &delay))
		c.Pass(time.Minute)
		op.Crash()
		c.resumed(&l, &delay, 3, "quick 2->3 0", "slow 1->3 1")
	})
	c.Run(t, "DF-25 what is not kept for want of room counts as long as the operator runs", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		delay := time.Hour
		c.Create("a", handledByOriginal(state(padded(1, "p", 140<<10)), padded(2, "q", 140<<10)))
		c.Operator(stepwise(&l, &delay))
		c.Pass(time.Minute)
		c.Patch("a", sized(3))
		delay = 0
		c.Pass(2 * time.Hour)
		c.same("the calls", []string{"quick 1->2 0", "quick 2->3 0", "slow 1->2 0", "slow 1->3 1"}, slices.Sorted(slices.Values(l.all())))
	})
	for _, test := range []struct {
		name   string
		change map[string]any // after the crash
		want   []string
	}{
		{"what has changed reaches the finished handlers", sized(3), []string{"quick 1->3 0", "slow 1->3 1"}},
		{"what has changed back reaches no handler", padded(1, "p", 140<<10), nil},
		{"what has not changed is not handled twice", nil, []string{"slow 1->2 1"}},
	} {
		c.Run(t, "DF-25 after a crash, without room for more than a digest: "+test.name, func(c *C) {
			c.OnlyInBubble("it takes hours")
			var l calls
			delay := time.Hour
			c.Create("a", handledByOriginal(state(padded(1, "p", 140<<10)), padded(2, "q", 140<<10)))
			op := c.Operator(stepwise(&l, &delay))
			c.Pass(time.Minute)
			op.Crash()
			if len(l.all()) != 2 {
				c.Fatalf("got the calls %q, want one of each handler", l.all())
			}
			if test.change != nil {
				c.Patch("a", test.change)
			}
			delay = 0
			l.forget()
			c.Operator(stepwise(&l, &delay))
			c.Pass(2 * time.Hour)
			got := l.all()
			slices.Sort(got)
			c.same("the calls", test.want, got)
			if got := c.Get("a").Annotations(); len(got) != 1 {
				c.Errorf("there are %d annotations, want one", len(got))
			}
		})
	}
	c.Run(t, "DF-25 handlers that have seen a state too large to be stored now are called again", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		delay := time.Hour
		c.Create("a", padded(1, "p", 170<<10))
		op := c.Operator(stepwise(&l, &delay))
		c.Pass(time.Minute)
		delay = 0
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"large": strings.Repeat("y", 100<<10)}}, "spec": map[string]any{"pad": nil, "x": 2}})
		c.Pass(2 * time.Hour)
		got := l.all()
		slices.Sort(got)
		c.same("the calls", []string{"quick <nil>->1 0", "quick <nil>->2 0", "slow <nil>->1 0", "slow <nil>->2 1"}, got)
		if lines := op.Logs.Find("The state of the object is too large to be stored; "); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
		if got := c.Get("a").Annotations(); len(got) != 2 || !strings.Contains(got[diffBase], `"x":2`) {
			c.Errorf("there are %d annotations", len(got))
		}
	})
	c.Run(t, "DF-25 a resume handler is not called again together with the update handlers that are", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		delay := time.Hour
		c.Create("a", handledByOriginal(`{"spec":{"x":0}}`, padded(1, "p", 170<<10)))
		r := stepwise(&l, &delay)
		r.OnResume(Examples, func(context.Context, *kopf.Change) error { l.add("resume"); return nil }, named("resume"))
		c.Operator(r)
		c.Pass(time.Minute)
		delay = 0
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"large": strings.Repeat("y", 100<<10)}}, "spec": map[string]any{"pad": nil, "x": 2}})
		c.Pass(2 * time.Hour)
		got := l.all()
		slices.Sort(got)
		c.same("the calls", []string{"quick 0->1 0", "quick 0->2 0", "resume", "slow 0->1 0", "slow 0->2 1"}, got)
	})
	c.Run(t, "DF-25 what we leave behind takes no room from the original", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		delay := time.Hour
		c.Create("a", padded(1, "p", 100<<10))
		op := c.Operator(stepwise(&l, &delay))
		c.Pass(time.Minute)
		op.Crash()
		python := c.stepwiseOriginal(&l, &delay)
		delay = 0
		c.Pass(2 * time.Hour)
		python.finish(c)
		if got := c.Get("a").Annotations(); len(got) != 1 {
			c.Errorf("there are %d annotations, want one", len(got))
		}
		c.Patch("a", padded(2, "q", 170<<10))
		python.finish(c)
		if got := c.Get("a").Annotations(); len(got) != 1 || len(got[diffBase]) < 170<<10 {
			c.Errorf("there are %d annotations, and the state has %d bytes", len(got), len(got[diffBase]))
		}
	})
	c.Run(t, "DF-25 what handlers want to annotate goes before what we would like to keep", func(c *C) {
		c.OnlyInBubble("it takes hours")
		c.Create("a", padded(1, "p", 120<<10))
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("quick"), named("quick"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("slow %d", ch.Retry)
			switch ch.Retry {
			case 1:
				ch.Patch.Set(kopf.Path("metadata", "annotations", "large"), strings.Repeat("y", 150<<10))
			case 2:
				ch.Patch.Set(kopf.Path("metadata", "annotations", "large"), nil)
				return nil
			}
			return kopf.Temporary(errOops, time.Hour)
		}, named("slow"))
		op := c.Operator(r)
		c.Pass(10 * time.Second)
		if !strings.Contains(encoded(c.Get("a").Annotations()), "handling-state") {
			c.Error("nothing is kept while there is room")
		}
		c.Pass(time.Hour)
		if got := c.Get("a").Annotations(); len(got["large"]) != 150<<10 {
			c.Errorf("the annotation of the handler has %d bytes: %v", len(got["large"]), op.Logs.Find("too large"))
		}
		c.Pass(time.Hour)
		c.expect(&l, "quick create 0", "slow 0", "slow 1", "slow 2")
	})
	for _, restart := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-5 an object that is too large to be stored is deleted like any other, restart=%t", restart), func(c *C) {
			c.OnlyInBubble("it takes hours")
			var l calls
			registry := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnCreate(Examples, l.handler("create"), named("create"))
				r.OnDelete(Examples, l.handler("delete", kopf.Temporary(errOops, time.Minute)), named("delete"))
				return r
			}
			op := c.Operator(registry())
			c.Create("big", map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"note": strings.Repeat("y", 20<<10)}},
				"spec":     map[string]any{"text": strings.Repeat("x", 250<<10)},
			})
			c.WaitFor("the error", func() bool { return len(op.Logs.Find("too large")) > 0 })
			if restart {
				op.Stop()
			}
			c.Delete("big")
			if restart {
				c.Operator(registry())
			}
			c.Pass(time.Hour)
			if c.Exists("big") {
				c.Errorf("an hour after its deletion, the object has the finalizers %v", c.Get("big").Finalizers())
			}
			c.expect(&l, "create create 0", "delete delete 0", "delete delete 1")
		})
	}
	c.Run(t, "DF-5 so is one that has no room for the progress of its deletion", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("one"), named("one"))
		r.OnDelete(Examples, l.handler("two", kopf.Temporary(errOops, time.Second), kopf.Temporary(errOops, time.Second)), named("two"))
		c.Operator(r)
		c.Create("full", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": strings.Repeat("y", 262<<10-6*1024-4)}}})
		c.WaitFor("the finalizer", func() bool { return len(c.Get("full").Finalizers()) == 1 })
		c.Delete("full")
		c.Pass(time.Hour)
		if c.Exists("full") {
			c.Errorf("an hour after its deletion, the object has the finalizers %v", c.Get("full").Finalizers())
		}
		c.expect(&l, "one delete 0", "two delete 0", "two delete 1", "two delete 2")
	})
}

func neighbouring(t *testing.T, c *C) {
	neighbour := func(last, note string) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.other.org/last-handled-configuration": last, "kopf.other.org/note": note}}}
	}
	for _, test := range []struct {
		name, prefix, want string
	}{
		{"as the original stores it", "kopf.zalando.org", `{"metadata":{"annotations":{"kopf.other.org/last-handled-configuration":"{}","kopf.other.org/note":"a"}},"spec":{"x":2}}`},
		{"as the original stores it, under a prefix that is marked", "my.example.com", `{"metadata":{"annotations":{"kopf.other.org/last-handled-configuration":"{}","kopf.other.org/note":"a"}},"spec":{"x":2}}`},
		{"without it, if the other one would store ours in turn", "kopf.mine.org", `{"spec":{"x":2}}`},
	} {
		c.Run(t, "DF-26 what an operator with an unmarked prefix has annotated is stored "+test.name, func(c *C) {
			object := neighbour("{}", "a")
			object["metadata"].(map[string]any)["annotations"].(map[string]any)[test.prefix+"/last-handled-configuration"] = `{"spec":{"x":1},"metadata":{"annotations":{"kopf.other.org/last-handled-configuration":"{}","kopf.other.org/note":"a"}}}`
			object["spec"] = map[string]any{"x": 1}
			c.Create("a", object)
			var l calls
			registry := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnUpdate(Examples, l.handler("update"), named("update"))
				return r
			}
			op := c.Operator(registry(), prefixed(test.prefix))
			c.Pass(time.Second)
			c.expect(&l) // the state that Kopf for Python has stored is no change
			c.Patch("a", sized(2))
			c.expect(&l, "update update 0")
			stored := func() string {
				return strings.TrimSpace(c.Get("a").Annotations()[test.prefix+"/last-handled-configuration"])
			}
			c.WaitFor("the state", func() bool { return strings.Contains(stored(), `"x":2`) })
			c.same("the state", decoded(test.want), decoded(stored()))
			before := len(op.Wire.Writes())
			c.Patch("a", neighbour(`{"spec":{"x":2}}`, "b"))
			c.Pass(time.Second)
			op.Stop()
			c.Operator(registry(), prefixed(test.prefix))
			c.Pass(time.Second)
			c.expect(&l, "update update 0")
			if n := len(op.Wire.Writes()); n != before {
				c.Errorf("what the other one writes has led to %d writes", n-before)
			}
		})
	}
	c.Run(t, "DF-26 what of others does not fit is left out", func(c *C) {
		object := neighbour(strings.Repeat("n", 100<<10), "a")
		object["spec"] = map[string]any{"pad": strings.Repeat("p", 100<<10)}
		c.Create("a", object)
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		op := c.Operator(r)
		c.WaitFor("the state", func() bool { return c.Get("a").Annotations()[diffBase] != "" })
		c.expect(&l, "create create 0")
		if got := c.Get("a").Annotations()[diffBase]; strings.Contains(got, "kopf.other.org") || len(op.Logs.Find("too large")) > 0 {
			c.Errorf("the state has %d bytes, with those of the other one", len(got))
		}
	})
}

// pingPong alternates between Kopf for Python and kopf at random, and stops each at any point, while a user changes the object.
func pingPong(t *testing.T, c *C) {
	for seed := range proof.Rounds(10, 60) {
		c.Run(t, fmt.Sprintf("DF-24 the original and ours take turns at random, seed %d", seed), func(c *C) {
			c.OnlyInBubble("the delays are long")
			g := &game{C: c, seed: uint64(seed), dice: rand.New(rand.NewPCG(uint64(seed), 24)), last: map[string]*move{}, fates: map[string]*rand.Rand{}}
			g.play()
		})
	}
}

// game is an object with two operators that alternate.
type game struct {
	*C
	seed uint64
	dice *rand.Rand // for the choices of the game

	mu     sync.Mutex // guards following, which handlers use, too
	theirs bool       // whether Kopf for Python runs
	x      int        // the newest state of the object
	last   map[string]*move
	fates  map[string]*rand.Rand // for the handlers, one each, so that the outcome of their calls does not depend on goroutines
	calm   bool                  // whether all handlers succeed
}

// move is the state of a handler.
type move struct {
	reason   string
	old, now int  // in its newest success
	oldest   int  // the newest state that it got as the old one
	theirs   bool // whether it has succeeded in Kopf for Python
	excused  bool // whether Kopf for Python has finished a handling without calling it for the latest changes
}

func (g *game) ids() []originalHandler {
	return []originalHandler{{"c1", "create"}, {"c2", "create"}, {"u1", "update"}, {"u2", "update"}, {"u3", "update"}}
}

// call is an attempt of a handler.
func (g *game) call(id, reason string, old, now int) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, fate := g.last[id], g.fates[id]
	if m == nil {
		m, fate = &move{old: -1, now: -1, oldest: -1}, rand.New(rand.NewPCG(g.seed, uint64(len(g.last))))
		g.last[id], g.fates[id] = m, fate
	}
	if old < m.oldest {
		g.Errorf("%s: old goes back from %d to %d", id, m.oldest, old)
	}
	m.oldest = old
	if m.reason == reason && m.old == old && m.now == now {
		g.Errorf("%s: called again for %d->%d", id, old, now)
	}
	if !g.calm && fate.IntN(3) == 0 {
		return time.Duration(1+fate.IntN(5)) * time.Second
	}
	*m = move{reason: reason, old: old, now: now, oldest: old, theirs: g.theirs}
	return 0
}

func (g *game) registry() *kopf.Registry {
	r := &kopf.Registry{}
	for _, h := range g.ids() {
		fn := func(ctx context.Context, ch *kopf.Change) error {
			old := -1
			if ch.Old.Has("spec.x") {
				old = int(ch.Old.Int("spec.x"))
			}
			if delay := g.call(h.id, h.reason, old, int(ch.New.Int("spec.x"))); delay > 0 {
				return kopf.Temporary(errOops, delay)
			}
			return nil
		}
		if h.reason == "create" {
			r.OnCreate(Examples, fn, named(kopf.HandlerID(h.id)))
		} else {
			r.OnUpdate(Examples, fn, named(kopf.HandlerID(h.id)))
		}
	}
	return r
}

func (g *game) change() {
	if g.dice.IntN(3) == 0 {
		g.mu.Lock()
		g.x++
		g.mu.Unlock()
		g.Patch("a", sized(g.x))
	}
}

// turn runs one of the two operators.
func (g *game) turn(theirs, calm bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.theirs, g.calm = theirs, calm
}

func (g *game) play() {
	g.Create("a", sized(0))
	python := &original{kind: g.Kind, name: "a", handlers: g.ids(), call: func(id, reason string, _ int, old, now map[string]any) time.Duration {
		before := -1
		if old != nil {
			before = int(old["spec"].(map[string]any)["x"].(float64))
		}
		return g.call(id, reason, before, int(now["spec"].(map[string]any)["x"].(float64)))
	}}
	for range 30 {
		g.change()
		theirs := g.dice.IntN(2) == 0
		if g.turn(theirs, false); theirs {
			for range 1 + g.dice.IntN(5) {
				if python.cycle() {
					g.excuse()
				}
				g.Pass(time.Duration(g.dice.IntN(4)) * time.Second)
				g.change()
			}
			continue
		}
		op := g.Operator(g.registry())
		for range 1 + g.dice.IntN(3) {
			g.Pass(time.Duration(g.dice.IntN(4)) * time.Second)
			g.change()
		}
		g.idle() // the outcomes are stored
		op.Crash()
	}
	g.turn(false, true)
	g.Operator(g.registry())
	g.Pass(time.Hour)
	notes := g.Get("a").Annotations()
	if want := fmt.Sprintf(`{"spec":{"x":%d}}`, g.x) + "\n"; len(notes) != 1 || notes[diffBase] != want {
		g.Errorf("got the annotations %q, want the state %s alone", notes, want)
	}
	for _, id := range []string{"u1", "u2", "u3"} {
		if m := g.last[id]; m != nil && m.now != g.x && !m.theirs && !m.excused {
			g.Errorf("%s: the newest state that it has handled is %d, want %d", id, m.now, g.x)
		}
	}
}

// excuse marks changes after a handler was finished, which Kopf for Python loses (CH-T1).
func (g *game) excuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.last {
		m.excused = m.excused || m.now < g.x
	}
}
