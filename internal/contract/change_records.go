package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what kopf stores on objects during and after their handling, and by which requests, in 1-change-handling.md.

var _ = Suite("change_records", func(t *testing.T, c *C) {
	storing(t, c)
	superseding(t, c)
	patching(t, c)
	budget(t, c)
})

func storing(t *testing.T, c *C) {
	c.Run(t, "CH-124 records of all selected handlers are stored while the handling goes on", func(c *C) {
		r := &kopf.Registry{}
		var l calls
		r.OnCreate(Examples, l.handler("one"), named("one"))
		r.OnCreate(Examples, l.handler("two", kopf.Temporary(errOops, time.Hour)), named("two"))
		r.OnCreate(Examples, l.handler("three", kopf.Temporary(errOops, time.Hour)), named("three"))
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the records", func() bool { return len(records(c.Get("a"))) == 3 })
		c.WaitFor("the third attempt", func() bool { return l.count("three") == 1 })
		var record struct {
			Success bool
			Retries int
			Purpose string
			Message string
		}
		c.WaitFor("the second record", func() bool {
			text, _ := c.Get("a").Annotation("kopf.zalando.org/two")
			return json.Unmarshal([]byte(text), &record) == nil && record.Retries == 1
		})
		if record.Success || record.Purpose != "create" || record.Message != "oops" {
			c.Errorf("got the record %+v", record)
		}
	})
	c.Run(t, "CH-166 nothing but the last handled state is left", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("one", kopf.Temporary(errOops, 10*time.Millisecond)), named("one"))
		r.OnCreate(Examples, l.handler("two"), named("two"))
		c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		if keys := body.Annotations(); len(keys) != 1 {
			c.Errorf("got the annotations %v, want only %s", keys, diffBase)
		}
	})
	c.Run(t, "CH-148 the last handled state is the essence as compact JSON with a newline", func(c *C) {
		r := &kopf.Registry{}
		var l calls
		r.OnCreate(Examples, l.handler("h"), named("h"))
		c.Operator(r)
		c.Create("a", map[string]any{"spec": map[string]any{"x": 1}, "metadata": map[string]any{"labels": map[string]any{"l": "v"}}})
		got, _ := c.handled("a").Annotation(diffBase)
		if want := `{"spec":{"x":1},"metadata":{"labels":{"l":"v"}}}` + "\n"; got != want {
			c.Errorf("got %q, want %q", got, want)
		}
	})
	c.Run(t, "CH-154 results go to the status under the handler's id", func(c *C) {
		examples := c.Of("kopf.dev/v1", "KopfStatusExample")
		r := &kopf.Registry{}
		r.OnCreate("kopfstatusexamples", func(ctx context.Context, ch *kopf.Change) error {
			ch.SetResult(map[string]any{"message": "hello"})
			return nil
		}, named("create_fn"))
		op := c.Operator(r)
		examples.Create("a", nil)
		c.WaitFor("the result", func() bool { return examples.Get("a").Status().String("create_fn.message") == "hello" })
		c.WaitFor("the second request", func() bool { return len(op.Wire.Writes()) == 2 })
	})
	for kind, plural := range map[string]kopf.Selector{"KopfExample": Examples, "KopfStatusExample": statusExamples} {
		c.Run(t, "DF-82 the result of a "+kind+" has no null in a map in a list, as the original stores it", func(c *C) {
			examples := c.Of("kopf.dev/v1", kind)
			r := &kopf.Registry{}
			r.OnCreate(plural, func(_ context.Context, ch *kopf.Change) error {
				ch.SetResult(map[string]any{"gone": nil, "list": []any{nil, map[string]any{"a": nil, "b": []any{map[string]any{"c": nil, "d": 1}}}}})
				return nil
			}, named("h"))
			op := c.Operator(r)
			examples.Create("a", nil)
			c.WaitFor("the result", func() bool { return examples.Get("a").Has("status.h") })
			if got, want := fmt.Sprint(examples.Get("a").Get("status.h")), "map[list:[<nil> map[b:[map[d:1]]]]]"; got != want {
				c.Errorf("got the result %s, want %s", got, want)
			}
			if lines := op.Logs.Find("The API server dropped fields"); len(lines) > 0 {
				c.Errorf("got the lines %v", lines)
			}
		})
	}
	c.Run(t, "CH-155 failed attempts have no results", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("called")
			ch.SetResult("x")
			return kopf.Permanent(errOops)
		}, named("h"))
		c.Operator(r)
		c.Create("a", nil)
		if c.handled("a").Has("status.h") {
			c.Error("a failed handler has a result")
		}
	})
	c.Run(t, "CH-164 a restart continues at the next attempt", func(c *C) {
		c.OnlyInBubble("the delay is long")
		var l calls
		r := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("one"), named("one"))
			r.OnCreate(Examples, l.handler("two", kopf.Temporary(errOops, time.Minute)), named("two"))
			return r
		}
		op := c.Operator(r())
		c.Create("a", nil)
		c.Pass(5 * time.Second)
		op.Crash()
		c.Operator(r())
		c.Pass(2 * time.Minute)
		c.expect(&l, "one create 0", "two create 0", "two create 1")
	})
}

func superseding(t *testing.T, c *C) {
	c.Run(t, "CH-162 a deletion takes the place of an unfinished creation", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create", kopf.Temporary(errOops, time.Hour)), named("create"))
		r.OnDelete(Examples, l.handler("delete", kopf.Temporary(errOops, 2*time.Second)), named("delete"))
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the record", func() bool { return slices.Contains(records(c.Get("a")), "create") })
		c.Delete("a")
		c.WaitFor("the records of the deletion alone", func() bool { return slices.Equal(records(c.Get("a")), []string{"delete"}) })
		c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
		c.expect(&l, "create create 0", "delete delete 0", "delete delete 1")
	})
	c.Run(t, "CH-T1 a change during a long handling reaches the handlers that were done", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		note := func(name string, delay time.Duration) kopf.ChangeFunc {
			return func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s %d", name, ch.Spec().Int("x"))
				if ch.Spec().Int("x") == 2 && delay > 0 && ch.Retry == 0 {
					return kopf.Temporary(errOops, delay)
				}
				return nil
			}
		}
		r.OnUpdate(Examples, note("a", 0), named("a"))
		r.OnUpdate(Examples, note("b", 500*time.Millisecond), named("b"))
		c.Operator(r)
		c.Create("o", spec(map[string]any{"x": 1}))
		c.handled("o")
		c.Patch("o", spec(map[string]any{"x": 2}))
		c.WaitFor("the first attempt of b", func() bool { return l.count("b 2") == 1 })
		c.Patch("o", spec(map[string]any{"x": 3}))
		c.WaitFor("a to see the last state", func() bool { return l.count("a 3") == 1 })
		c.WaitFor("the last state to count as handled", func() bool {
			got, _ := c.Get("o").Annotation(diffBase)
			return strings.Contains(got, `"x":3`)
		})
	})
	c.Run(t, "CH-169 sub-handlers are called after their parent, each once", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("parent")
			for _, item := range ch.Spec().Strings("items") {
				ch.Subhandler(kopf.HandlerID(item), func(ctx context.Context, sub *kopf.Change) error {
					l.add("%s %d", item, sub.Retry)
					if item == "two" && sub.Retry == 0 {
						return kopf.Temporary(errOops, 50*time.Millisecond)
					}
					sub.SetResult(item)
					return nil
				}, nil)
			}
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"items": []any{"one", "two", "three"}}))
		body := c.handled("a")
		c.expect(&l, "parent", "one 0", "two 0", "three 0", "parent", "two 1")
		for _, item := range []string{"one", "two", "three"} {
			if got := body.Status().View(kopf.Path("create/" + item)).String(""); got != item {
				c.Errorf("the result of %s is %q", item, got)
			}
		}
	})
}

func patching(t *testing.T, c *C) {
	c.Run(t, "CH-177 what handlers and the framework change is one patch", func(c *C) {
		r := &kopf.Registry{}
		for _, id := range []string{"one", "two", "three"} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				ch.Patch.Set(kopf.Path("status", "seen", id), "x")
				ch.SetResult(id)
				return nil
			}, named(kopf.HandlerID(id)))
		}
		op := c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		if n := len(op.Wire.Writes()); n != 1 {
			c.Errorf("there were %d requests, want 1: %q", n, patches(op))
		}
		if body.Status().View("seen").Len() != 3 || body.Status().Len() != 4 {
			c.Errorf("got the status %v", body.Status().Map())
		}
	})
	c.Run(t, "later handlers see what earlier ones have left", func(c *C) {
		got := make(chan string, 1)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.phase", "Half")
			ch.SetResult(1)
			return nil
		}, named("one"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			got <- ch.Status().String("phase") + ch.Status().String("one")
			return nil
		}, named("two"))
		c.Operator(r)
		c.Create("a", nil)
		if text := <-got; text != "Half1" {
			c.Errorf("the second handler has seen %q", text)
		}
	})
	c.Run(t, "CH-184 transformations are guarded by the version", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(func(object map[string]any) error {
				s := object["spec"].(map[string]any)
				s["list"] = append(s["list"].([]any), "more")
				return nil
			})
			return nil
		}, named("h"))
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"list": []any{"one"}}))
		body := c.handled("a")
		if got := body.Spec().Strings("list"); !slices.Equal(got, []string{"one", "more"}) {
			c.Errorf("got the list %q", got)
		}
		if all := patches(op); !strings.HasPrefix(all[0], `application/json-patch+json [{"op":"test","path":"/metadata/resourceVersion"`) {
			c.Errorf("got the patches %q", all)
		}
	})
	c.Run(t, "CH-191 what the server does not take over is warned of", func(c *C) {
		c.Define(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "closeds." + c.Unique("x") + ".example.com"},
			"spec": map[string]any{
				"group": c.Unique("x") + ".example.com", "scope": "Namespaced", "names": map[string]any{"plural": "closeds", "kind": "Closed", "singular": "closed", "listKind": "ClosedList"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object"}}}}}},
			},
		})
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("closeds."+c.Unique("x")+".example.com"), func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.phase", "Ready")
			return nil
		}, named("h"))
		op := c.Operator(r)
		c.Of(c.Unique("x")+".example.com/v1", "Closed").Create("a", nil)
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("The API server dropped fields of a patch")) == 1 })
	})
	c.Run(t, "CH-T2 a handler of events that always says the same writes once", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			e.Patch.Set("status.seen", true)
			return nil
		}, &kopf.EventOptions{ID: "event"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the status", func() bool { return c.Get("a").Has("status.seen") })
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Second)
		if n := len(op.Wire.Writes()); n != 1 {
			c.Errorf("there were %d writes, want 1", n)
		}
	})
	c.Run(t, "a patch that the server refuses fails its handler, and no other one", func(c *C) {
		r := &kopf.Registry{}
		var l calls
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("metadata.labels.bad", "not a label!")
			return nil
		}, named("bad"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("good")
			ch.SetResult("fine")
			return nil
		}, named("good"))
		op := c.Operator(r)
		c.Create("a", nil)
		if got := c.handled("a").Status().String("good"); got != "fine" {
			c.Errorf("the result of the good handler is %q", got)
		}
		c.expect(&l, "good")
		if len(op.Logs.Find("'bad' failed permanently")) != 1 {
			c.Error("the refusal is not in the log")
		}
	})
}

// budget checks the number of requests for one object: creation, update, restart, deletion.
func budget(t *testing.T, c *C) {
	for _, test := range []struct {
		name     string
		result   bool // whether the handlers have results, for a status subresource
		deletion bool // whether there is a handler of deletions
		want     [4]int
	}{
		{"without results", false, false, [4]int{1, 1, 0, 0}},
		{"with results in a status subresource", true, false, [4]int{2, 2, 0, 0}},
		{"with a finalizer", false, true, [4]int{2, 1, 0, 1}},
	} {
		c.Run(t, "the budget of requests "+test.name, func(c *C) {
			examples := c.Of("kopf.dev/v1", "KopfStatusExample")
			var l calls
			handle := func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s", ch.Reason)
				if test.result {
					ch.SetResult(map[string]any{"x": ch.Spec().Int("x")})
				}
				return nil
			}
			registry := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnCreate("kopfstatusexamples", handle, named("h"))
				r.OnUpdate("kopfstatusexamples", handle, named("h"))
				if test.deletion {
					r.OnDelete("kopfstatusexamples", handle, named("h"))
				}
				return r
			}
			stored := func(x string) func() bool {
				return func() bool {
					text, _ := examples.Get("a").Annotation(diffBase)
					return strings.Contains(text, `"x":`+x)
				}
			}
			var got [4]int
			op := c.Operator(registry())
			seen := func() int { c.Pass(time.Second); return len(op.Wire.Writes()) }
			examples.Create("a", spec(map[string]any{"x": 1}))
			c.WaitFor("the creation", stored("1"))
			got[0] = seen()
			examples.Patch("a", spec(map[string]any{"x": 2}))
			c.WaitFor("the update", stored("2"))
			got[1] = seen() - got[0]
			op.Stop()
			op = c.Operator(registry())
			got[2] = seen()
			examples.Delete("a")
			c.WaitFor("the end of the object", func() bool { return !examples.Exists("a") })
			got[3] = seen() - got[2]
			if got != test.want {
				c.Errorf("creation, update, restart and deletion took %v writes, want %v", got, test.want)
			}
		})
	}
}
