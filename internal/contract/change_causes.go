package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how kopf derives causes from changes, and calls of handlers from causes, in 1-change-handling.md.

const (
	finalizer = "kopf.zalando.org/KopfFinalizerMarker"
	diffBase  = "kopf.zalando.org/last-handled-configuration"
)

var errOops = errors.New("oops")

// calls records the calls of handlers as "id reason retry".
type calls struct {
	mu   sync.Mutex
	list []string
}

func (l *calls) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf(format, args...))
}

func (l *calls) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *calls) count(prefix string) int {
	n := 0
	for _, call := range l.all() {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

// handler returns a handler that records its calls. It returns the given errors one after another, and then nil.
func (l *calls) handler(name string, errs ...error) kopf.ChangeFunc {
	return func(ctx context.Context, ch *kopf.Change) error {
		l.add("%s %s %d", name, ch.Reason, ch.Retry)
		if ch.Retry < len(errs) {
			return errs[ch.Retry]
		}
		return nil
	}
}

func named(id kopf.HandlerID) *kopf.ChangeOptions { return &kopf.ChangeOptions{ID: id} }

// expect waits until exactly these calls were recorded.
func (c *C) expect(l *calls, want ...string) {
	c.Helper()
	c.WaitFor(fmt.Sprintf("the calls %q", want), func() bool { return len(l.all()) >= len(want) })
	if got := l.all(); !slices.Equal(got, want) {
		c.Fatalf("got the calls %q, want %q", got, want)
	}
}

// handled waits until the operator has handled the current state of an object.
func (c *C) handled(name string) *kopf.Body {
	c.Helper()
	var body *kopf.Body
	c.WaitFor("the end of the handling of "+name, func() bool {
		body = c.Get(name)
		_, ok := body.Annotation(diffBase)
		return ok && len(records(body)) == 0
	})
	return body
}

// records returns the ids of the handlers with a progress record on the object.
func records(body *kopf.Body) []string {
	var ids []string
	for key := range body.Annotations() {
		if id, ok := strings.CutPrefix(key, "kopf.zalando.org/"); ok && !slices.Contains([]string{"last-handled-configuration", "handling-base", "handling-state", "failed-handlers", "tracked-fields", "handled-uid"}, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func spec(fields map[string]any) map[string]any { return map[string]any{"spec": fields} }

// patches returns the media types and bodies of the patches of an operator.
func patches(op *Running) []string {
	var all []string
	for _, r := range op.Wire.Writes() {
		all = append(all, r.ContentType+" "+r.Body)
	}
	return all
}

var _ = Suite("change_causes", func(t *testing.T, c *C) {
	declaring(t, c)
	detecting(t, c)
	finalizing(t, c)
	retrying(t, c)
})

func declaring(t *testing.T, c *C) {
	c.Run(t, "CH-5 one function can be declared several times", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		fn := l.handler("fn")
		r.OnCreate(Examples, fn, named("fn"))
		r.OnUpdate(Examples, fn, named("fn"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.expect(&l, "fn create 0", "fn update 0")
	})
	c.Run(t, "CH-6 handlers run in the order of declaration", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("b"), named("b"))
		r.OnField(Examples, "spec.x", l.handler("f"), named("f"))
		r.OnCreate(Examples, l.handler("a"), named("a"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.expect(&l, "b create 0", "f create 0", "a create 0")
	})
	c.Run(t, "CH-14 one function under one id is called once in a cause", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		fn := l.handler("fn")
		r.OnUpdate(Examples, fn, named("fn"))
		r.OnUpdate(Examples, fn, named("fn"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.WaitFor("the update", func() bool { return l.count("fn update") > 0 })
		c.Pass(time.Second)
		c.expect(&l, "fn update 0")
	})
	c.Run(t, "CH-50 sub-handlers of a creation cannot look at differences", func(c *C) {
		r := &kopf.Registry{}
		caught := make(chan any, 1)
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			defer func() { caught <- recover() }()
			ch.Subhandler("sub", func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{Field: "spec.x", Old: 1})
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", nil)
		if v := <-caught; v == nil || !strings.Contains(fmt.Sprint(v), "Old or New") {
			c.Errorf("got the panic %v, want one about Old and New", v)
		}
	})
}

func detecting(t *testing.T, c *C) {
	c.Run(t, "CH-88 creation, update, deletion are told apart", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for kind, on := range map[string]func(kopf.Selector, kopf.ChangeFunc, *kopf.ChangeOptions){"create": r.OnCreate, "update": r.OnUpdate, "delete": r.OnDelete} {
			on(Examples, l.handler(kind), named(kopf.HandlerID(kind)))
		}
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		c.Delete("a")
		c.expect(&l, "create create 0", "update update 0", "delete delete 0")
	})
	c.Run(t, "CH-91 objects found at the start without a stored state are created", func(c *C) {
		var l calls
		c.Create("a", nil)
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		c.Operator(r)
		c.handled("a")
		c.expect(&l, "create create 0")
	})
	c.Run(t, "CH-100 resuming mixes into an update", func(c *C) {
		var l calls
		r := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnUpdate(Examples, l.handler("update"), named("update"))
			r.OnResume(Examples, l.handler("resume"), named("resume"))
			return r
		}
		op := c.Operator(r())
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		op.Stop()
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Operator(r())
		c.expect(&l, "update update 0", "resume update 0")
	})
	c.Run(t, "CH-99 field handlers run on creation, and on updates of the field alone", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnField(Examples, "spec.x", func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s %s->%s", ch.Reason, ch.Old.String(""), ch.New.String(""))
			return nil
		}, named("f"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"y": 1}))
		c.WaitFor("the first update", func() bool { return l.count("update update") == 1 })
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.expect(&l, "create ->1", "update update 0", "update 1->2", "update update 0")
	})
	c.Run(t, "CH-87 old, new and diff are narrowed to the field", func(c *C) {
		got := make(chan string, 1)
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			got <- fmt.Sprint(ch.Old.Get(""), ch.New.Get(""), ch.Diff())
			return nil
		}, &kopf.ChangeOptions{ID: "u", Field: "spec.x"})
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": map[string]any{"y": 1}, "z": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": map[string]any{"y": 2}, "z": 2}))
		if want, text := "map[y:1] map[y:2] [change y: 1 -> 2]", <-got; text != want {
			c.Errorf("got %q, want %q", text, want)
		}
	})
	c.Run(t, "CH-57 an object that starts to match is created", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"on": kopf.Present}})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Second)
		if n := len(op.Wire.Writes()); n > 0 {
			c.Errorf("an object of no interest was written to %d times", n)
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"on": ""}}})
		c.expect(&l, "create create 0")
	})
	c.Run(t, "CH-70 handlers of events see each event, once", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("%s %d", e.Type, e.Spec().Int("x"))
			return errOops
		}, &kopf.EventOptions{ID: "event"})
		c.Operator(r)
		c.Pass(time.Second) // after the initial list
		c.Create("a", spec(map[string]any{"x": 1}))
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Delete("a")
		c.expect(&l, "ADDED 1", "MODIFIED 2", "DELETED 2")
	})
}

func finalizing(t *testing.T, c *C) {
	c.Run(t, "CH-94 the finalizer is added in a cycle of its own", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%v", ch.Body.Finalizers())
			return nil
		}, named("create"))
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r)
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
		c.expect(&l, "[example.com/other "+finalizer+"]")
	})
	c.Run(t, "CH-95 the object is released when its deletion handlers are done", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("delete", kopf.Temporary(errOops, 100*time.Millisecond)), named("delete"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Delete("a")
		c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
		c.expect(&l, "delete delete 0", "delete delete 1")
	})
	c.Run(t, "CH-T40 a permanent error of a deletion handler releases the object", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("delete", kopf.Permanent(errOops)), named("delete"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Delete("a")
		c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
	})
	c.Run(t, "CH-58 the finalizer goes when nothing needs it any more", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("delete"), &kopf.ChangeOptions{ID: "delete", Labels: kopf.Match{"keep": "yes"}})
		c.Operator(r)
		c.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"keep": "yes"}}})
		c.WaitFor("the finalizer", func() bool { return slices.Contains(c.Get("a").Finalizers(), finalizer) })
		c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"keep": nil}}})
		c.WaitFor("the end of the finalizer", func() bool { return len(c.Get("a").Finalizers()) == 0 })
	})
	c.Run(t, "CH-98 other finalizers stay", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		c.Operator(r)
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/one", "example.com/two"}}})
		c.handled("a")
		c.Delete("a")
		c.WaitFor("the release", func() bool { return !slices.Contains(c.Get("a").Finalizers(), finalizer) })
		if got := c.Get("a").Finalizers(); !slices.Equal(got, []string{"example.com/one", "example.com/two"}) {
			c.Errorf("got the finalizers %q", got)
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	})
	c.Run(t, "CH-97 objects that are being deleted without our finalizer are left alone", func(c *C) {
		var l calls
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/one"}}})
		c.Delete("a")
		r := &kopf.Registry{}
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		op := c.Operator(r)
		c.Pass(time.Second)
		if n := len(op.Wire.Writes()) + len(l.all()); n > 0 {
			c.Errorf("there were %d writes and calls", n)
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	})
}

func retrying(t *testing.T, c *C) {
	c.Run(t, "CH-111 a temporary error is retried after its delay", func(c *C) {
		c.OnlyInBubble("the delay is long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h", kopf.Temporary(errOops, 10*time.Minute)), named("h"))
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(10*time.Minute - 2*time.Second)
		c.expect(&l, "h create 0")
		c.Pass(3 * time.Second)
		c.expect(&l, "h create 0", "h create 1")
	})
	c.Run(t, "CH-112 a permanent error is not retried", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h", kopf.Permanent(errOops)), named("h"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Pass(time.Second)
		c.expect(&l, "h create 0")
	})
	c.Run(t, "CH-113 other errors are retried after the backoff", func(c *C) {
		c.OnlyInBubble("the backoff is long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h", errOops), named("h"))
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(58 * time.Second)
		c.expect(&l, "h create 0")
		c.Pass(4 * time.Second)
		c.expect(&l, "h create 0", "h create 1")
	})
	c.Run(t, "CH-114 retries limit the calls", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		soon := kopf.Temporary(errOops, 10*time.Millisecond)
		r.OnCreate(Examples, l.handler("h", soon, soon, soon, soon, soon), &kopf.ChangeOptions{ID: "h", Retries: 3})
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "h create 0", "h create 1", "h create 2")
	})
	c.Run(t, "CH-108 the timeout ends the attempts", func(c *C) {
		c.OnlyInBubble("the timeout is long")
		var l calls
		r := &kopf.Registry{}
		again := kopf.Temporary(errOops, 40*time.Second)
		r.OnCreate(Examples, l.handler("h", again, again, again, again), &kopf.ChangeOptions{ID: "h", Timeout: 100 * time.Second})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(10 * time.Minute)
		c.expect(&l, "h create 0", "h create 1", "h create 2")
		c.handled("a")
	})
	c.Run(t, "CH-115 a handler is told of its attempts", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%d %s %v", ch.Retry, ch.Runtime.Round(time.Second), ch.Param)
			if ch.Retry < 2 {
				return kopf.Temporary(errOops, 30*time.Second)
			}
			return nil
		}, &kopf.ChangeOptions{ID: "h", Param: "p"})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(2 * time.Minute)
		c.expect(&l, "0 0s p", "1 30s p", "2 1m0s p")
	})
	c.Run(t, "CH-118 a permanent failure lasts for one change", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		fail := func(ctx context.Context, ch *kopf.Change) error {
			l.add("%d", ch.Spec().Int("x"))
			return kopf.Permanent(errOops)
		}
		r.OnUpdate(Examples, fail, named("h"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.WaitFor("the first failure", func() bool { return l.count("2") == 1 })
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 3}))
		c.expect(&l, "2", "3")
	})
	c.Run(t, "CH-T13 the context ends with the timeout", func(c *C) {
		c.OnlyInBubble("the timeout is long")
		ended := make(chan time.Duration, 1)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			began := time.Now()
			<-ctx.Done()
			ended <- time.Since(began)
			return ctx.Err()
		}, &kopf.ChangeOptions{ID: "h", Timeout: time.Hour})
		c.Operator(r)
		c.Create("a", nil)
		if d := (<-ended).Round(time.Second); d != time.Hour {
			c.Errorf("the context has ended after %s, want 1h", d)
		}
		c.handled("a")
	})
	c.Run(t, "a panic is an arbitrary error", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%d", ch.Retry)
			if ch.Retry == 0 {
				panic("boom")
			}
			return nil
		}, &kopf.ChangeOptions{ID: "h", Backoff: 10 * time.Millisecond})
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "0", "1")
		if len(op.Logs.Find("failed with an exception and will try again")) != 1 {
			c.Error("the panic is not in the log")
		}
	})
}
