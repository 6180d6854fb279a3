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

// This suite proves that event handlers get a deletion once, whatever happens in the meantime: pauses, relists, and the deletion of the namespace or
// of the CRD.

var _ = Suite("events_ends", func(t *testing.T, c *C) {
	gadgets := func(c *C) kopf.Selector { return kopf.Selector("gadgets.v1." + c.Unique("leaf") + ".dev") }
	both := func(c *C) {
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
	}
	// events returns a registry that records the events. Its handlers take some time for each type.
	events := func(l *calls, s kopf.Selector, takes map[kopf.EventType]time.Duration) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnEvent(s, func(_ context.Context, e *kopf.WatchEvent) error {
			l.add("%s %s", e.Type, e.Name())
			time.Sleep(takes[e.Type])
			return nil
		}, watchedAs("event"))
		return r
	}
	deleted := func(l *calls) (n int) { return l.count("DELETED a") }

	c.Run(t, "a deletion that is being reported is not reported again by a listing", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		var expired atomic.Bool
		op := c.Operator(events(&l, Examples, map[kopf.EventType]time.Duration{kopf.Deleted: time.Hour}), wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "/kopfexamples?") && strings.Contains(req.Path, "watch=true") && expired.CompareAndSwap(true, false) {
				return Answer(410, "Expired", "too old resource version"), nil
			}
			return nil, nil
		}))
		c.Create("a", nil)
		c.Pass(time.Minute)
		c.Delete("a")
		c.Pass(time.Minute)
		for range 3 {
			expired.Store(true)
			op.Wire.Drop()
			c.Pass(time.Minute)
		}
		c.Pass(24 * time.Hour)
		if n := deleted(&l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, l.all())
		}
	})
	c.Run(t, "a deletion that is being reported is not reported again when the definition is gone", func(c *C) {
		c.OnlyInBubble("it takes hours")
		c.Define(c.gadgets())
		var l calls
		c.Operator(events(&l, gadgets(c), map[kopf.EventType]time.Duration{kopf.Deleted: time.Minute}))
		c.gadget().Create("a", nil)
		c.Pass(time.Minute)
		c.gadget().Delete("a")
		c.Pass(time.Second)
		c.definitions().Delete("gadgets." + c.Unique("leaf") + ".dev")
		c.Pass(24 * time.Hour)
		if n := deleted(&l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, l.all())
		}
	})
	c.Run(t, "a deletion that is being reported is not reported again when the namespace is gone", func(c *C) {
		c.OnlyInBubble("it takes hours")
		p := c.pair(false)
		c.Operator(events(&p.l, Examples, map[kopf.EventType]time.Duration{kopf.Deleted: time.Minute}), func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*"} })
		p.inside.Create("a", nil)
		c.Pass(time.Minute)
		p.namespaces.Delete(p.space)
		c.Pass(24 * time.Hour)
		if n := deleted(&p.l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, p.l.all())
		}
	})
	c.Run(t, "a deletion that is being reported is not reported again when the version comes back", func(c *C) {
		c.OnlyInBubble("it takes hours")
		both(c)
		var l calls
		c.Operator(events(&l, gadgets(c), map[kopf.EventType]time.Duration{kopf.Deleted: 10 * time.Minute}))
		c.gadget().Create("a", nil)
		c.Pass(time.Minute)
		c.gadget().Delete("a")
		c.Pass(time.Second)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(2 * time.Hour)
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(24 * time.Hour)
		if n := deleted(&l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, l.all())
		}
	})
	c.Run(t, "a deletion that has come with a change is reported, though the operator pauses while that is reported", func(c *C) {
		c.OnlyInBubble("it takes hours")
		k := c.meet()
		var l calls
		op := c.Operator(events(&l, Examples, map[kopf.EventType]time.Duration{kopf.Added: time.Minute, kopf.Modified: time.Hour}), as("one"))
		c.Pass(time.Minute)
		c.Create("a", sized(1))
		c.Pass(time.Second)
		c.Patch("a", sized(2))
		c.Delete("a")
		c.Pass(5 * time.Minute)
		k.sit("two", rival(100, 4*3600))
		c.Pass(24 * time.Hour)
		if len(op.Logs.Find("Pausing the watch-stream")) == 0 {
			c.Fatal("no pause")
		}
		if n := deleted(&l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, l.all())
		}
	})
	c.Run(t, "a deletion is reported to all handlers, though the operator pauses while it is reported to the first", func(c *C) {
		c.OnlyInBubble("it takes hours")
		k := c.meet()
		var l calls
		r := events(&l, Examples, map[kopf.EventType]time.Duration{kopf.Deleted: time.Hour})
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			l.add("second %s", e.Type)
			return nil
		}, watchedAs("second"))
		c.Operator(r, as("one"))
		c.Pass(time.Minute)
		c.Create("a", sized(1))
		c.Pass(time.Second)
		c.Delete("a")
		c.Pass(time.Minute)
		k.sit("two", rival(100, 4*3600))
		c.Pass(24 * time.Hour)
		if n := l.count("second DELETED"); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, l.all())
		}
	})
	for _, rejoin := range []bool{false, true} {
		name := "what has gone with its namespace while the operator paused is reported after the pause"
		if rejoin {
			name += ", control without a pause"
		}
		c.Run(t, name, func(c *C) {
			c.OnlyInBubble("it takes hours")
			p := c.pair(false)
			k := c.meet()
			c.Operator(events(&p.l, Examples, nil), as("one"), func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*"} })
			p.inside.Create("a", nil)
			c.Pass(time.Minute)
			if !rejoin {
				k.sit("two", rival(100, 600))
			}
			c.Pass(time.Second)
			p.namespaces.Delete(p.space)
			c.Pass(24 * time.Hour)
			if n := deleted(&p.l); n != 1 {
				c.Errorf("the deletion was reported %d times: %q", n, p.l.all())
			}
		})
	}
	c.Run(t, "what has gone with its namespace is reported after the handler that still runs, though the operator pauses meanwhile", func(c *C) {
		c.OnlyInBubble("it takes hours")
		p := c.pair(false)
		k := c.meet()
		var down atomic.Bool
		op := c.Operator(events(&p.l, Examples, map[kopf.EventType]time.Duration{kopf.Added: 2 * time.Hour}), as("one"),
			func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*"} }, wired(func(req *Request) (*http.Response, error) {
				if down.Load() && strings.Contains(req.Path, "/kopfexamples?") {
					return nil, errCut
				}
				return nil, nil
			}))
		c.Pass(time.Minute)
		p.inside.Create("a", nil)
		c.Pass(time.Minute)
		down.Store(true)
		op.Wire.Drop()
		p.namespaces.Delete(p.space)
		c.Pass(10 * time.Minute)
		down.Store(false)
		k.sit("two", rival(100, 600))
		c.Pass(24 * time.Hour)
		if n := deleted(&p.l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, p.l.all())
		}
	})
	c.Run(t, "an object that a restore brings back is handled, though the handler that had it still runs", func(c *C) {
		c.OnlyInBubble("the answers are made up")
		both(c)
		var l calls
		var stage atomic.Int32 // 0 there, 1 gone, 2 back
		r := &kopf.Registry{}
		r.OnCreate(gadgets(c), func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			time.Sleep(3 * time.Hour)
			return nil
		}, named("create"))
		r.OnUpdate(gadgets(c), func(_ context.Context, ch *kopf.Change) error {
			l.add("update %d", ch.Spec().Int("x"))
			return nil
		}, named("update"))
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if stage.Load() == 1 && strings.Contains(req.Path, "/gadgets?") && !strings.Contains(req.Path, "watch=true") {
				return document(`{"kind":"GadgetList","apiVersion":"` + c.Unique("leaf") + `.dev/v1","metadata":{"resourceVersion":"1"},"items":[]}`), nil
			}
			if stage.Load() == 1 && strings.Contains(req.Path, "/gadgets?") {
				return Answer(503, "ServiceUnavailable", "later"), nil
			}
			return nil, nil
		}))
		c.gadget().Create("a", sized(1))
		c.Pass(time.Minute)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(10 * time.Minute)
		stage.Store(1)
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(10 * time.Minute)
		stage.Store(2)
		op.Wire.Drop()
		c.Of(c.Unique("leaf")+".dev/v2", "Gadget").Patch("a", sized(2))
		c.Pass(24 * time.Hour)
		if l.count("create") != 1 || l.count("update 2") != 1 || !strings.Contains(c.gadget().Get("a").Annotations()[diffBase], `"x":2`) {
			c.Errorf("the calls are %q, and the state is %q", slices.Clone(l.all()), c.gadget().Get("a").Annotations()[diffBase])
		}
	})
	c.Run(t, "what has gone with its definition is reported, though the definition's deletion was seen by a listing only", func(c *C) {
		c.OnlyInBubble("the streams are cut")
		c.Define(c.gadgets())
		var l calls
		var down, expired atomic.Bool
		op := c.Operator(events(&l, gadgets(c), nil), wired(func(req *Request) (*http.Response, error) {
			if down.Load() {
				return nil, errCut
			}
			if expired.Load() && strings.Contains(req.Path, "/customresourcedefinitions?") && strings.Contains(req.Path, "watch=true") {
				expired.Store(false)
				return Answer(410, "Expired", "too old resource version"), nil
			}
			return nil, nil
		}))
		c.gadget().Create("a", nil)
		c.Pass(time.Minute)
		down.Store(true)
		op.Wire.Drop()
		c.definitions().Delete("gadgets." + c.Unique("leaf") + ".dev")
		c.Pass(time.Minute)
		expired.Store(true)
		down.Store(false)
		c.Pass(24 * time.Hour)
		if expired.Load() {
			c.Fatal("no watch was refused")
		}
		if n := deleted(&l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, l.all())
		}
	})
	c.Run(t, "what has gone with its definition while the operator paused is reported after the pause, and not when the kind is defined again", func(c *C) {
		c.OnlyInBubble("it takes hours")
		c.Define(c.gadgets())
		k := c.meet()
		var l calls
		c.Operator(events(&l, gadgets(c), nil), as("one"))
		c.gadget().Create("a", nil)
		c.Pass(time.Minute)
		k.sit("two", rival(100, 600))
		c.Pass(time.Second)
		c.definitions().Delete("gadgets." + c.Unique("leaf") + ".dev")
		c.Pass(24 * time.Hour)
		if n := deleted(&l); n != 1 {
			c.Errorf("the deletion was reported %d times: %q", n, l.all())
		}
		c.Define(c.gadgets()) // a day later
		c.gadget().Create("a", nil)
		c.Pass(time.Hour)
		if n := deleted(&l); n != 1 {
			c.Errorf("with the second definition, the deletion was reported %d times: %q", n, l.all())
		}
	})
	c.Run(t, "all that has gone with its definition is reported, though there is an index", func(c *C) {
		c.OnlyInBubble("the streams are cut")
		c.Define(c.gadgets())
		var l calls
		var down atomic.Bool
		r := events(&l, gadgets(c), nil)
		kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{"all": i.Name()}, nil
		}, &kopf.IndexOptions{ID: "names"})
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if down.Load() && strings.Contains(req.Path, "/gadgets?") {
				return nil, errCut
			}
			return nil, nil
		}))
		for n := range 60 {
			c.gadget().Create(fmt.Sprint("a", n), nil)
		}
		c.Pass(time.Minute)
		down.Store(true)
		op.Wire.Drop()
		c.definitions().Delete("gadgets." + c.Unique("leaf") + ".dev")
		c.Pass(24 * time.Hour)
		if n := l.count("DELETED"); n != 60 {
			c.Errorf("%d deletions were reported, want 60", n)
		}
	})
})
