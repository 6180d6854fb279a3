package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which state kopf keeps for handlers, in memory and on the objects, and which arguments they get, in 4-operator-and-kits.md.

var _ = Suite("operator_state", func(t *testing.T, c *C) {
	memos(t, c)
	stores(t, c)
	telling(t, c)
	continuity(t, c)
})

func memos(t *testing.T, c *C) {
	c.Run(t, "OP-143 a memo is a store, and what is not there is told", func(c *C) {
		m := &kopf.Memo{}
		if v, there := m.Load("key"); v != nil || there {
			c.Errorf("got %v, %t of an empty memo", v, there)
		}
		m.Store("key", 1)
		m.Store("key", nil)
		if v, there := m.Load("key"); v != nil || !there {
			c.Errorf("got %v, %t, want nothing that is there", v, there)
		}
		m.Delete("key")
		if _, there := m.Load("key"); there {
			c.Error("it is still there")
		}
	})
	c.Run(t, "OP-144 the operator's memo is the one that is given, or a new one, for all activities", func(c *C) {
		for _, given := range []*kopf.Memo{nil, {}} {
			var memos []*kopf.Memo
			r := &kopf.Registry{}
			keep := func(ctx context.Context, a *kopf.Activity) error {
				memos = append(memos, a.Memo())
				return nil
			}
			r.OnStartup(keep, id("startup"))
			r.OnCleanup(keep, id("cleanup"))
			e := newEntry()
			r.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
				memos = append(memos, l.Memo())
				return e.info(), nil
			}, id("login"))
			c.Operator(r, e.door, func(op *kopf.Operator) { op.Memo = given }).Stop()
			if len(memos) != 3 || memos[0] == nil || memos[1] != memos[0] || memos[2] != memos[0] || given != nil && memos[0] != given {
				c.Errorf("got the memos %p, given was %p", memos, given)
			}
		}
	})
	c.Run(t, "OP-145 the memo of an object is a copy of the operator's, made at first sight", func(c *C) {
		var l calls
		shared := &calls{}
		memo := &kopf.Memo{}
		memo.Store("value", 1)
		memo.Store("pointer", shared)
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			value, _ := e.Memo().Load("value")
			pointer, _ := e.Memo().Load("pointer")
			pointer.(*calls).add("%s", e.Name())
			_, own := e.Memo().Load("own")
			l.add("%s %v own=%t", e.Name(), value, own)
			e.Memo().Store("own", true)
			return nil
		}, watchedAs("event"))
		c.Operator(r, func(op *kopf.Operator) { op.Memo = memo })
		c.Pass(time.Second)
		c.Create("a", nil)
		c.expect(&l, "a 1 own=false")
		memo.Store("value", 2)
		c.Patch("a", sized(1))
		c.expect(&l, "a 1 own=false", "a 1 own=true")
		c.Create("b", nil)
		c.expect(&l, "a 1 own=false", "a 1 own=true", "b 2 own=false")
		if got := shared.all(); !slices.Equal(got, []string{"a", "a", "b"}) {
			c.Errorf("what is behind the pointer has seen %q", got)
		}
		if _, own := memo.Load("own"); own {
			c.Error("the object's memo is the operator's")
		}
	})
	c.Run(t, "OP-146 a type of the user's is copied, and shared where it is a pointer", func(c *C) {
		type mine struct {
			n      int
			shared *calls
		}
		var l calls
		r := &kopf.Registry{}
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			*kopf.MemoOf[mine](a) = mine{n: 5, shared: &l}
			return nil
		}, id("startup"))
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			m := kopf.MemoOf[mine](e)
			m.n++
			m.shared.add("%s %d", e.Name(), m.n)
			return nil
		}, watchedAs("event"))
		c.Operator(r)
		c.Pass(time.Second)
		c.Create("a", nil)
		c.expect(&l, "a 6")
		c.Patch("a", sized(1))
		c.expect(&l, "a 6", "a 7")
		c.Create("b", nil)
		c.expect(&l, "a 6", "a 7", "b 6")
	})
	c.Run(t, "OP-147 a review of a creation has a memo of its own, others have that of the object", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			e.Memo().Store("known", true)
			l.add("event")
			return nil
		}, watchedAs("event"))
		r.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error {
			_, known := a.Memo().Load("known")
			_, reviewed := a.Memo().Load("reviewed")
			a.Memo().Store("reviewed", true)
			l.add("%s known=%t reviewed=%t", a.Operation, known, reviewed)
			return nil
		}, &kopf.AdmissionOptions{ID: "validate"})
		s, _ := c.Reviewed(r)
		body := c.Create("a", nil)
		c.WaitFor("the event", func() bool { return l.count("event") == 1 })
		object := body.Map()
		for _, operation := range []string{"CREATE", "CREATE", "UPDATE", "UPDATE"} {
			if _, err := s.review(c.Context(), &kopf.ReviewRequest{Body: c.reviewOf(map[string]any{"operation": operation, "object": object, "oldObject": object})}); err != nil {
				c.Fatal(err)
			}
		}
		c.expect(&l, "event", "CREATE known=false reviewed=false", "CREATE known=false reviewed=false", "UPDATE known=true reviewed=false", "UPDATE known=true reviewed=true")
	})
	c.Run(t, "OP-147 what only reviews have shown is remembered for ten minutes, and not without a limit", func(c *C) {
		c.NotShort("the reviews are many")
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		times := 0
		r.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error {
			n, _ := a.Memo().Load("n")
			times, _ = n.(int)
			a.Memo().Store("n", times+1)
			return nil
		}, &kopf.AdmissionOptions{ID: "validate"})
		s, _ := c.Reviewed(r)
		seen := func(uid string) int { // the number of calls before
			object := map[string]any{"metadata": map[string]any{"name": uid, "namespace": c.Namespace, "uid": uid}}
			if _, err := s.review(c.Context(), &kopf.ReviewRequest{Body: c.reviewOf(map[string]any{"operation": "UPDATE", "object": object, "oldObject": object})}); err != nil {
				c.Fatal(err)
			}
			return times
		}
		if a, b := seen("a"), seen("a"); a != 0 || b != 1 {
			c.Errorf("got %d and %d", a, b)
		}
		time.Sleep(9 * time.Minute)
		if n := seen("a"); n != 2 {
			c.Errorf("after nine minutes: got %d, want 2", n)
		}
		time.Sleep(11 * time.Minute)
		if n := seen("a"); n != 0 {
			c.Errorf("after eleven minutes without a review: got %d, want 0", n)
		}
		for n := range 10_000 {
			seen(fmt.Sprint("u", n))
		}
		if n := seen("u5"); n != 1 {
			c.Errorf("one of those that are remembered: got %d, want 1", n)
		}
		if a, b := seen("beyond"), seen("beyond"); a != 0 || b != 0 {
			c.Errorf("one beyond the limit: got %d and %d, want 0", a, b)
		}
		time.Sleep(20 * time.Minute)
		if a, b := seen("beyond"), seen("beyond"); a != 0 || b != 1 {
			c.Errorf("when there is room again: got %d and %d", a, b)
		}
	})
	c.Run(t, "OP-148 memos are nowhere but in memory", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			_, known := e.Memo().Load("known")
			e.Memo().Store("known", true)
			l.add("%t", known)
			return nil
		}, watchedAs("event"))
		op := c.Operator(r)
		c.Pass(time.Second)
		c.Create("a", nil)
		c.Patch("a", sized(1))
		c.expect(&l, "false", "true")
		if n := len(op.Wire.Writes()); n > 0 {
			c.Errorf("%d requests were made that write", n)
		}
		op.Stop()
		c.Operator(r)
		c.expect(&l, "false", "true", "false")
	})
}

func stores(t *testing.T, c *C) {
	// indexed runs an operator with an index of the values in the objects. The returned function changes an object and returns the content of the index.
	indexed := func(c *C) (steps func(name string, object map[string]any) map[string][]string, op *Running) {
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			switch i.Spec().String("do") {
			case "nothing":
				return nil, nil
			case "clear":
				return map[string]string{}, nil
			case "fail":
				return nil, kopf.Permanent(errOops)
			case "oops":
				return nil, errOops
			}
			return map[string]string{i.Spec().String("key"): i.Name()}, nil
		}, &kopf.IndexOptions{ID: "index", Labels: kopf.Match{"out": kopf.Absent}})
		views := make(chan map[string][]string, 100)
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			all := maps.Collect(x.All(e))
			for _, values := range all {
				slices.Sort(values)
			}
			if len(all) != x.Len(e) {
				c.Errorf("got %d keys of %d", len(all), x.Len(e))
			}
			for key, values := range all {
				if !x.Has(e, key) || len(x.Get(e, key)) != len(values) || len(values) == 0 {
					c.Errorf("the key %q: %v, %v, %t", key, values, x.Get(e, key), x.Has(e, key))
				}
			}
			views <- all
			return nil
		}, watchedAs("event"))
		op = c.Operator(r)
		c.Pass(time.Second)
		return func(name string, object map[string]any) map[string][]string {
			c.Apply(name, object)
			return <-views
		}, op
	}
	keyed := func(key string) map[string]any { return spec(map[string]any{"key": key, "do": nil}) }
	doing := func(what string) map[string]any { return spec(map[string]any{"do": what}) }
	same := func(c *C, what string, got map[string][]string, want string) {
		c.Helper()
		if fmt.Sprint(got) != want {
			c.Errorf("%s: got %v, want %s", what, got, want)
		}
	}
	c.Run(t, "OP-149 an index has keys with values, and no empty ones", func(c *C) {
		step, _ := indexed(c)
		same(c, "one", step("a", keyed("x")), "map[x:[a]]")
		same(c, "two of a key", step("b", keyed("x")), "map[x:[a b]]")
		same(c, "another key", step("b", keyed("y")), "map[x:[a] y:[b]]")
		same(c, "the last of a key", step("a", keyed("y")), "map[y:[a b]]")
	})
	c.Run(t, "OP-150 nothing keeps what was there, and an empty mapping removes it", func(c *C) {
		step, _ := indexed(c)
		step("a", keyed("x"))
		same(c, "nothing", step("a", doing("nothing")), "map[x:[a]]")
		same(c, "an empty one", step("a", doing("clear")), "map[]")
	})
	c.Run(t, "OP-151 errors that count, mismatches and deletions remove the values", func(c *C) {
		step, _ := indexed(c)
		step("a", keyed("x"))
		same(c, "an arbitrary error", step("a", doing("oops")), "map[x:[a]]")
		same(c, "a permanent one", step("a", doing("fail")), "map[]")
		step("b", keyed("y"))
		same(c, "a mismatch", step("b", labelled("out", "yes")), "map[]")
	})
	c.Run(t, "OP-152 a namesake is another object, and indices are there from the start", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{i.UID(): i.Name()}, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			l.add("at the start %v, %d keys", a.Indices.IDs(), x.Len(a))
			return nil
		}, id("startup"))
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added {
				l.add("%d keys, own %v", x.Len(e), x.Get(e, e.UID()))
			}
			return nil
		}, watchedAs("event"))
		c.Operator(r)
		c.Pass(time.Second)
		c.Create("a", nil)
		c.WaitFor("the first one", func() bool { return len(l.all()) == 2 })
		c.Delete("a")
		c.Pass(time.Second)
		c.Create("a", nil)
		c.expect(&l, "at the start [index], 0 keys", "1 keys, own [a]", "1 keys, own [a]")
	})
	c.Run(t, "OP-153 all handlers read all indices", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{"key": i.Name()}, nil
		}, &kopf.IndexOptions{ID: "index"})
		read := func(who string, h kopf.HandlerArgument, indices kopf.Indices) error {
			l.add("%s %v %v", who, x.Get(h, "key"), indices.Get("index", "key"))
			return nil
		}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error { return read("event", e, e.Indices) }, watchedAs("event"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return read("create", ch, ch.Indices) }, named("create"))
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { return read("daemon", d, d.Indices) }, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true})
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error { return read("timer", t, t.Indices) }, &kopf.TimerOptions{ID: "timer", WithoutFinalizer: true})
		r.OnCleanup(func(ctx context.Context, a *kopf.Activity) error { return read("cleanup", a, a.Indices) }, id("cleanup"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.WaitFor("the background", func() bool { return l.count("daemon") == 1 && l.count("timer") == 1 })
		op.Stop()
		for _, who := range []string{"event", "create", "daemon", "timer", "cleanup"} {
			if l.count(who+" [a] [a]") == 0 {
				c.Errorf("%s: got %q", who, l.all())
			}
		}
	})
}

func telling(t *testing.T, c *C) {
	c.Run(t, "OP-154 handlers get what they need, by names", func(c *C) {
		object := []string{"Resource", "Body", "Patch", "Logger", "Client", "Indices", "Param"}
		methods := []string{"Name", "Namespace", "UID", "Spec", "Status", "Meta", "Labels", "Annotations", "Memo", "Decode"}
		attempt := []string{"Retry", "Started", "Runtime"}
		for _, tt := range []struct {
			argument any
			fields   []string
			methods  []string
		}{
			{&kopf.Indexing{}, slices.Concat(object, attempt), methods},
			{&kopf.WatchEvent{}, append(slices.Clone(object), "Type"), methods},
			{&kopf.Change{}, slices.Concat(object, attempt, []string{"Reason", "Old", "New"}), append(slices.Clone(methods), "Diff", "Subhandler", "Execute", "SetResult", "PostEvent")},
			{&kopf.Daemon{}, slices.Concat(object, attempt), append(slices.Clone(methods), "SetResult", "PostEvent", "Stopping", "StopReason")},
			{&kopf.Timer{}, slices.Concat(object, attempt), append(slices.Clone(methods), "SetResult", "PostEvent")},
			{&kopf.Admission{}, append(slices.Clone(object), "Operation", "Subresource", "DryRun", "UserInfo", "Request", "Old", "New"), append(slices.Clone(methods), "Diff", "Warn")},
			{&kopf.Activity{}, slices.Concat(attempt, []string{"Settings", "Logger", "Client", "Indices", "Param"}), []string{"Memo"}},
			{&kopf.Login{}, slices.Concat(attempt, []string{"Settings", "Logger", "Param"}), []string{"Memo"}},
			{&kopf.Probe{}, []string{"Settings", "Logger", "Client", "Indices", "Param"}, []string{"Memo"}},
		} {
			typ := reflect.TypeOf(tt.argument)
			for _, name := range tt.fields {
				if _, ok := typ.Elem().FieldByName(name); !ok {
					c.Errorf("%s has no field %s", typ, name)
				}
			}
			for _, name := range tt.methods {
				if _, ok := typ.MethodByName(name); !ok {
					c.Errorf("%s has no method %s", typ, name)
				}
			}
		}
	})
	c.Run(t, "OP-155 callbacks of filters get the value, or what the handler would get", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		look := func(what string) func(v *kopf.FieldValue) bool {
			return func(v *kopf.FieldValue) bool {
				l.add("%s %v %t of %s", what, v.Value, v.Present, v.Object.Name())
				return true
			}
		}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, &kopf.ChangeOptions{
			ID: "create", Labels: kopf.Match{"l": look("label")}, Annotations: kopf.Match{"n": look("annotation")}, Field: "spec.x", Value: look("field"),
			When: func(ch *kopf.Change) bool { l.add("when %s %s", ch.Name(), ch.Reason); return true },
		})
		c.Operator(r)
		c.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "1"}}, "spec": map[string]any{"x": 5}})
		c.handled("a")
		for _, want := range []string{"label 1 true of a", "annotation <nil> false of a", "field 5 true of a", "when a create"} {
			if l.count(want) == 0 {
				c.Errorf("got %q, want %q among them", l.all(), want)
			}
		}
	})
	c.Run(t, "OP-156 each reason to stop has a name of its own", func(c *C) {
		all := []kopf.StopReason{kopf.StopFiltersMismatch, kopf.StopResourceDeleted, kopf.StopOperatorPausing, kopf.StopOperatorExiting}
		for _, reason := range all {
			if text := (&kopf.DaemonStopped{Reason: reason}).Error(); text != "the daemon is asked to stop: "+string(reason) || strings.Contains(string(reason), " ") {
				c.Errorf("got %q", text)
			}
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != 4 {
			c.Errorf("some of %q are the same", all)
		}
	})
}

func continuity(t *testing.T, c *C) {
	c.Run(t, "OP-163 all state is on the objects", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { ch.SetResult("made"); return nil }, named("done"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return kopf.Temporary(errOops, time.Hour) }, named("waits"))
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("delete"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.WaitFor("the records", func() bool { _, ok := c.Get("a").Annotation("kopf.zalando.org/waits"); return ok })
		op.Stop()
		b := c.Get("a")
		record, _ := b.Annotation("kopf.zalando.org/waits")
		var stored struct {
			Retries int
			Purpose string
			Delayed string
		}
		if err := json.Unmarshal([]byte(record), &stored); err != nil || stored.Retries != 1 || stored.Purpose != "create" || stored.Delayed == "" {
			c.Errorf("got the record %s, %v", record, err)
		}
		if b.Status().String("done") != "made" || !holds(b) {
			c.Errorf("got the status %v and the finalizers %v", b.Status().Map(), b.Finalizers())
		}
		if _, ok := b.Annotation(diffBase); ok {
			c.Error("the last handled state is stored before all is handled")
		}
	})
	c.Run(t, "OP-164 after a restart, what is done is not done again, and the rest goes on", func(c *C) {
		var l calls
		registry := func(fails bool) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("done"), named("done"))
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("failed")
				return kopf.Permanent(errOops)
			}, named("failed"))
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("waits %d", ch.Retry)
				if fails {
					return kopf.Temporary(errOops, 100*time.Millisecond)
				}
				return nil
			}, &kopf.ChangeOptions{ID: "waits"})
			return r
		}
		op := c.Operator(registry(true))
		c.Create("a", nil)
		c.WaitFor("the records", func() bool { _, ok := c.Get("a").Annotation("kopf.zalando.org/waits"); return ok })
		op.Stop()
		retries := l.count("waits")
		c.Operator(registry(false))
		c.handled("a")
		if l.count("done") != 1 || l.count("failed") != 1 || l.count("waits") != retries+1 || l.count(fmt.Sprintf("waits %d", retries)) != 1 {
			c.Errorf("got the calls %q", l.all())
		}
	})
	c.Run(t, "OP-165 what has changed meanwhile is one difference", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("update %v", ch.Diff())
			return nil
		}, named("update"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.Create("b", nil)
		c.handled("a")
		c.handled("b")
		op.Stop()
		for n := 2; n < 6; n++ {
			c.Patch("a", sized(n))
		}
		c.Delete("b")
		if !c.Exists("b") {
			c.Error("the object has not waited for its operator")
		}
		c.Operator(r)
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		c.gone("b")
		if l.count("update [change spec.x: 1 -> 5]") != 1 || l.count("delete delete 0") != 1 {
			c.Errorf("got the calls %q", l.all())
		}
	})
	c.Run(t, "OP-166 sub-handlers are tracked on their own while the parent is called again", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("parent")
			ch.Subhandler("one", func(ctx context.Context, ch *kopf.Change) error { l.add("one"); return nil }, nil)
			ch.Subhandler("two", func(ctx context.Context, ch *kopf.Change) error {
				l.add("two %d", ch.Retry)
				if ch.Retry < 2 {
					return kopf.Temporary(errOops, 10*time.Millisecond)
				}
				return nil
			}, nil)
			return nil
		}, named("parent"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		if l.count("one") != 1 || l.count("two") != 3 || l.count("parent") != 3 {
			c.Errorf("got the calls %q", l.all())
		}
		found := false
		for _, req := range op.Wire.Writes() {
			found = found || strings.Contains(req.Body, `kopf.zalando.org/parent.two`)
		}
		if !found {
			c.Error("the sub-handler has no record of its own")
		}
	})
	c.Run(t, "OP-167 what was done in one cycle is done again in the next, unless a filter says otherwise", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("always"); return nil }, &kopf.ChangeOptions{ID: "always", Field: "spec.x"})
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("once")
			ch.Patch.SetPath("yes", "metadata", "annotations", "example.com/once")
			return nil
		}, &kopf.ChangeOptions{ID: "once", Field: "spec.x", Annotations: kopf.Match{"example.com/once": kopf.Absent}})
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		c.Operator(r)
		c.Create("a", sized(0))
		c.handled("a")
		for n := 1; n <= 3; n++ {
			c.Patch("a", sized(n))
			c.WaitFor("the handling", func() bool { return l.count("always") == n })
			c.WaitFor("its end", func() bool {
				base, _ := c.Get("a").Annotation(diffBase)
				return strings.Contains(base, fmt.Sprintf(`"x":%d`, n))
			})
		}
		if l.count("once") != 1 {
			c.Errorf("got the calls %q", l.all())
		}
	})
}
