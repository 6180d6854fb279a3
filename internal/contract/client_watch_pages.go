package contract

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the operator watches changes while it still reads the pages of a list.

var _ = Suite("client_watch_pages", func(t *testing.T, c *C) {
	c.Run(t, "AC-109 changes are handled before the listing is complete, and what it shows of before them does not count", func(c *C) {
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			c.Create(name, map[string]any{"spec": map[string]any{"x": 1}})
		}
		l, hold := &calls{}, newPageHold()
		c.Operator(l.changesOf(), pagesOf(2), wired(hold.fault))
		c.WaitFor("the first page", func() bool { return len(l.all()) == 2 })
		c.Patch("a", map[string]any{"spec": map[string]any{"x": 2}})
		c.Delete("b")
		c.Patch("e", map[string]any{"spec": map[string]any{"x": 2}})
		c.Delete("f")
		c.Create("g", map[string]any{"spec": map[string]any{"x": 1}})
		during := []string{"a create 1", "a update 2", "b create 1", "b delete 1", "e create 2", "g create 1"}
		c.WaitFor("the changes", func() bool { return len(l.all()) == len(during) })
		if got := slices.Sorted(slices.Values(l.all())); !slices.Equal(got, during) {
			c.Errorf("while pages are held, called were %q, want %q", got, during)
		}
		close(hold.open)
		all := append(during, "c create 1", "d create 1")
		c.WaitFor("all pages", func() bool { return len(l.all()) == len(all) })
		c.Pass(10 * time.Second)
		slices.Sort(all)
		if got := slices.Sorted(slices.Values(l.all())); !slices.Equal(got, all) {
			c.Errorf("called were %q, want %q", got, all)
		}
	})
	c.Run(t, "AC-109 what changes before the listing shows it counts as there before, and is resumed", func(c *C) {
		l := &calls{}
		for _, name := range []string{"a", "b", "c", "d"} {
			c.Create(name, map[string]any{"spec": map[string]any{"x": 1}})
		}
		op := c.Operator(l.changesOf())
		c.WaitFor("the creations", func() bool { return len(l.all()) == 4 })
		c.Pass(10 * time.Second)
		op.Stop()
		l.forget()

		hold := newPageHold()
		c.Operator(l.changesOf(), pagesOf(2), wired(hold.fault))
		c.WaitFor("the first page", func() bool { return len(l.all()) == 2 })
		c.Patch("d", map[string]any{"metadata": map[string]any{"labels": map[string]any{"of": "others"}}})
		c.Patch("d", map[string]any{"metadata": map[string]any{"labels": map[string]any{"of": nil}}})
		c.WaitFor("the third", func() bool { return l.count("d ") > 0 })
		close(hold.open)
		c.WaitFor("all", func() bool { return l.count("c ") > 0 })
		c.Pass(10 * time.Second)
		for _, name := range []string{"a", "b", "c", "d"} {
			if n := l.count(name + " resumed"); n != 1 {
				c.Errorf("%s was resumed %d times: %q", name, n, l.all())
			}
		}
	})
	c.Run(t, "AC-109 what is deleted before the listing shows it does not appear", func(c *C) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			c.Create(name, map[string]any{"spec": map[string]any{"x": 1}})
		}
		l, hold, r := &calls{}, newPageHold(), &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("%s created", ch.Name()); return nil }, &kopf.ChangeOptions{ID: "create"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type != kopf.Modified {
				l.add("%s seen %s", e.Name(), e.Type)
			}
			return nil
		}, watchedAs("event"))
		c.Operator(r, pagesOf(2), wired(hold.fault))
		c.WaitFor("the first page", func() bool { return l.count("a created")+l.count("b created") == 2 })
		c.Delete("b")
		c.Delete("d")
		c.WaitFor("the deletion", func() bool { return l.count("b seen DELETED") == 1 })
		close(hold.open)
		c.WaitFor("the last page", func() bool { return l.count("e created") == 1 })
		c.Pass(10 * time.Second)
		if n := l.count("d "); n > 0 {
			c.Errorf("the deleted object appears: %q", l.all())
		}
		if n := l.count("b "); n != 3 {
			c.Errorf("the object that was deleted after it was listed has %d calls of three: %q", n, l.all())
		}
	})
	c.Run(t, "AC-109 a page that expires has all listed again, and nothing is handled twice", func(c *C) {
		for _, name := range []string{"a", "b", "c", "d"} {
			c.Create(name, map[string]any{"spec": map[string]any{"x": 1}})
		}
		l, hold := &calls{}, newPageHold()
		hold.answer = func() *http.Response {
			return Answer(http.StatusGone, "Expired", "The provided continue parameter is too old")
		}
		c.Operator(l.changesOf(), pagesOf(2), wired(hold.fault))
		c.WaitFor("the first page", func() bool { return len(l.all()) == 2 })
		c.Delete("a")
		c.Delete("d")
		c.WaitFor("the deletion", func() bool { return len(l.all()) == 3 })
		close(hold.open)
		c.WaitFor("all", func() bool { return len(l.all()) == 4 })
		c.Patch("b", map[string]any{"spec": map[string]any{"x": 2}})
		c.WaitFor("the next change", func() bool { return len(l.all()) == 5 })
		c.Pass(10 * time.Second)
		want := []string{"a create 1", "a delete 1", "b create 1", "b update 2", "c create 1"}
		if got := slices.Sorted(slices.Values(l.all())); !slices.Equal(got, want) {
			c.Errorf("called were %q, want %q", got, want)
		}
	})
	for _, events := range []bool{false, true} { // with handlers of events, the operator keeps unseen objects in memory until their deletion is certain
		for _, patched := range []bool{false, true} {
			c.Run(t, fmt.Sprintf("AC-109 an object of a kind that comes back is resumed, though it changes before its page comes; handlers of events %v, changed %v", events, patched), func(c *C) {
				c.OnlyInBubble("the namespaces are hidden for a while")
				var hidden atomic.Bool
				var l calls
				hold := newPageHold()
				var holds atomic.Bool
				r := &kopf.Registry{}
				if events {
					r.OnEvent(Examples, ignore, watchedAs("event"))
				}
				r.OnResume(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("%s resumed", ch.Name()); return nil }, named("resume"))
				r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
				op := c.Operator(r, pagesOf(1), wired(func(q *Request) (*http.Response, error) {
					if hidden.Load() && (q.Path == "/api" || q.Path == "/apis") { // a starting API server has none of the kinds for a minute
						return document(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}`), nil
					}
					if holds.Load() {
						return hold.fault(q)
					}
					return nil, nil
				}))
				c.Pass(time.Second)
				for _, name := range []string{"a", "b", "c"} {
					c.Create(name, sized(1))
				}
				c.Pass(time.Minute)
				hidden.Store(true)
				c.defineOther("hide")
				c.Pass(5 * time.Minute)
				if len(op.Logs.Find("The resource is gone; not serving it any more")) == 0 {
					c.Errorf("it is still served")
				}
				l.forget()
				holds.Store(true)
				hidden.Store(false)
				c.defineOther("show")
				c.WaitFor("the first page", func() bool { return l.count("a resumed") == 1 })
				if patched {
					c.Patch("c", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
				}
				c.Pass(time.Second)
				close(hold.open)
				c.Pass(time.Hour)
				for _, name := range []string{"a", "b", "c"} {
					if n := l.count(name + " resumed"); n != 1 {
						c.Errorf("%s was resumed %d times: %q", name, n, l.all())
					}
				}
			})
		}
	}
})

// changesOf records all changes, with sizes.
func (l *calls) changesOf() *kopf.Registry {
	r := &kopf.Registry{}
	note := func(ctx context.Context, ch *kopf.Change) error {
		l.add("%s %s %d", ch.Name(), ch.Reason, ch.Spec().Int("x"))
		return nil
	}
	r.OnCreate(Examples, note, &kopf.ChangeOptions{ID: "note"})
	r.OnUpdate(Examples, note, &kopf.ChangeOptions{ID: "note"})
	r.OnDelete(Examples, note, &kopf.ChangeOptions{ID: "note"})
	r.OnResume(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("%s resumed", ch.Name()); return nil }, &kopf.ChangeOptions{ID: "resume"})
	return r
}

// pagesOf sets the page size.
func pagesOf(size int) func(*kopf.Operator) {
	return func(op *kopf.Operator) { op.Settings.Watching.PageSize = size }
}

// pageHold blocks the pages after the first one until it is open.
type pageHold struct {
	open   chan struct{}
	answer func() *http.Response // the response to the first blocked request; nil to pass it on
	held   atomic.Bool
}

func newPageHold() *pageHold { return &pageHold{open: make(chan struct{})} }

func (h *pageHold) fault(q *Request) (*http.Response, error) {
	if !strings.Contains(q.Path, "/kopfexamples?") || !strings.Contains(q.Path, "continue=") {
		return nil, nil
	}
	<-h.open
	if h.answer != nil && h.held.CompareAndSwap(false, true) {
		return h.answer(), nil
	}
	return nil, nil
}

// defineOther defines another kind, which triggers another discovery.
func (c *C) defineOther(name string) {
	c.Define(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name + "s.others.example.com"},
		"spec": map[string]any{
			"group": "others.example.com", "scope": "Namespaced", "names": map[string]any{"plural": name + "s", "kind": "Other" + name},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	})
}
