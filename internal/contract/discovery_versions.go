package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how an operator reacts when the versions of a custom resource are added and removed.

var _ = Suite("discovery_versions", func(t *testing.T, c *C) {
	movingVersions(t, c)
	handlersOfVersions(t, c)
	unservedVersions(t, c)
})

// crdVersion returns a version for the CRD of [C.gadgets].
func crdVersion(name string, served, storage bool) map[string]any {
	return map[string]any{"name": name, "served": served, "storage": storage,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
}

// setVersions replaces the versions of the gadgets.
func (c *C) setVersions(versions ...any) {
	c.Helper()
	c.definitions().Patch("gadgets."+c.Unique("leaf")+".dev", map[string]any{"spec": map[string]any{"versions": versions}})
}

// census counts the concurrent functions of each object.
type census struct {
	mu      sync.Mutex
	running map[string]int
	most    int
}

func (s *census) enter(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = make(map[string]int)
	}
	s.running[name]++
	s.most = max(s.most, s.running[name])
}

func (s *census) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[name]--
}

// now returns the number of running functions, and the maximum number of concurrent ones for one object.
func (s *census) now() (all, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.running {
		all += n
	}
	return all, s.most
}

func movingVersions(t *testing.T, c *C) {
	c.Run(t, "DF-1 a new preferred version keeps indices complete, daemons single, and changes handled once", func(c *C) {
		c.Define(c.gadgets())
		gadgets := kopf.Selector("gadgets." + c.Unique("leaf") + ".dev")
		var l calls
		var daemons census
		var holder atomic.Pointer[kopf.WatchEvent]
		r := &kopf.Registry{}
		names := kopf.OnIndexIn(r, gadgets, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{"all": i.Name()}, nil
		}, &kopf.IndexOptions{ID: "names"})
		r.OnEvent(gadgets, func(ctx context.Context, e *kopf.WatchEvent) error { holder.Store(e); return nil }, watchedAs("event"))
		r.OnCreate(gadgets, func(ctx context.Context, ch *kopf.Change) error { return nil }, named("create"))
		r.OnResume(gadgets, func(ctx context.Context, ch *kopf.Change) error { l.add("resume %s", ch.Name()); return nil }, named("resume"))
		r.OnUpdate(gadgets, func(ctx context.Context, ch *kopf.Change) error {
			l.add("update %s in %s to %d", ch.Name(), ch.Resource.Version, ch.Spec().Int("x"))
			time.Sleep(500 * time.Millisecond)
			return nil
		}, named("update"))
		r.OnDaemon(gadgets, func(ctx context.Context, d *kopf.Daemon) error {
			daemons.enter(d.Name())
			defer daemons.leave(d.Name())
			<-ctx.Done()
			return nil
		}, daemonID("daemon"))
		c.Operator(r)
		for n := range 3 {
			c.gadget().Create(fmt.Sprint("a", n), nil)
		}
		indexed := func() int {
			e := holder.Load()
			if e == nil {
				return 0
			}
			return len(names.Get(e, "all"))
		}
		c.WaitFor("the daemons", func() bool { n, _ := daemons.now(); return n == 3 && indexed() == 3 })
		c.setVersions(crdVersion("v1", true, true), crdVersion("v2", true, false))
		c.Pass(time.Second)
		c.gadget().Patch("a0", sized(1))
		c.WaitFor("the update", func() bool { return l.count("update a0") > 0 })
		if c.InBubble() {
			c.Pass(time.Hour)
		} else {
			c.Pass(2 * time.Second)
		}
		c.gadget().Patch("a1", sized(1)) // in the new version of the streams
		c.WaitFor("the update in the new version", func() bool { return l.count("update a1 in v2") > 0 })
		c.setVersions(crdVersion("v1", true, true)) // and back
		c.gadget().Patch("a2", sized(1))
		c.WaitFor("the update afterwards", func() bool { return l.count("update a2") > 0 })
		if c.InBubble() {
			c.Pass(24 * time.Hour)
		} else {
			c.Pass(2 * time.Second)
		}
		if n := indexed(); n != 3 {
			c.Errorf("the index has %d of 3 objects", n)
		}
		if n := l.count("update"); n != 3 || l.count("resume") > 0 {
			c.Errorf("three changes were handled so: %q", l.all())
		}
		if n, most := daemons.now(); n != 3 || most != 1 {
			c.Errorf("%d daemons run for 3 objects, and up to %d for one of them at the same time", n, most)
		}
		c.gadget().Delete("a0")
		c.WaitFor("the end of the object in the index", func() bool { return indexed() == 2 })
		c.WaitFor("the end of its daemon", func() bool { n, _ := daemons.now(); return n == 2 })
	})
	c.Run(t, "DF-1 objects that go while the streams move are not kept", func(c *C) {
		c.OnlyInBubble("requests are held up")
		c.Define(c.gadgets())
		gadgets := kopf.Selector("gadgets." + c.Unique("leaf") + ".dev")
		var holder atomic.Pointer[kopf.WatchEvent]
		r := &kopf.Registry{}
		names := kopf.OnIndexIn(r, gadgets, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{"all": i.Name()}, nil
		}, &kopf.IndexOptions{ID: "names"})
		r.OnEvent(gadgets, func(ctx context.Context, e *kopf.WatchEvent) error { holder.Store(e); return nil }, watchedAs("event"))
		var down, expired atomic.Bool
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			switch {
			case down.Load():
				return nil, errCut
			case strings.Contains(req.Path, "/gadgets?") && strings.Contains(req.Path, "watch=true") && expired.CompareAndSwap(true, false):
				return Answer(410, "Expired", "too old resource version"), nil
			}
			return nil, nil
		}))
		for n := range 3 {
			c.gadget().Create(fmt.Sprint("a", n), nil)
		}
		for range 3 { // until the old streams have listed several times
			expired.Store(true)
			op.Wire.Drop()
			c.Pass(time.Minute)
		}
		down.Store(true)
		op.Wire.Drop()
		c.gadget().Delete("a1") // no stream of the old version will report it
		c.setVersions(crdVersion("v1", false, true), crdVersion("v2", true, false))
		c.Pass(time.Second)
		down.Store(false)
		c.Pass(time.Hour)
		if got := names.Get(holder.Load(), "all"); len(got) != 2 {
			c.Errorf("an hour after one of three objects has gone, the index has %q", got)
		}
	})
}

func handlersOfVersions(t *testing.T, c *C) {
	c.Run(t, "DF-1 a retry that is due while the objects are being listed in another version is not lost", func(c *C) {
		c.OnlyInBubble("requests are held up")
		c.Define(c.gadgets())
		gadgets := kopf.Selector("gadgets." + c.Unique("leaf") + ".dev")
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, gadgets, nameIndex, &kopf.IndexOptions{ID: "names"})
		r.OnCreate(gadgets, func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			ch.SetResult("done")
			return nil
		}, named("create"))
		var patched atomic.Int32
		var late atomic.Bool
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			switch {
			case req.Method == http.MethodPatch && patched.Add(1) == 1: // as if the version was not served
				return Answer(404, "", "404 page not found"), nil
			case late.Load() && strings.Contains(req.Path, "/v2/") && strings.Contains(req.Path, "/gadgets?"):
				return nil, errCut
			}
			return nil, nil
		}))
		c.gadget().Create("a", sized(1))
		c.WaitFor("the first patch", func() bool { return patched.Load() == 1 })
		late.Store(true)
		c.setVersions(crdVersion("v1", false, true), crdVersion("v2", true, false))
		c.Pass(time.Minute)
		if patched.Load() != 1 {
			c.Fatal("the object was handled before all objects were listed")
		}
		late.Store(false)
		c.Pass(time.Hour)
		if got := c.Of(c.Unique("leaf")+".dev/v2", "Gadget").Get("a"); got.Status().String("create") != "done" || l.count("create") != 1 {
			c.Errorf("the object is %s after the calls %q", got.LogValue(), l.all())
		}
	})
	c.Run(t, "DF-1 an index of one version alone has no other handler wait when the objects are served in another one", func(c *C) {
		c.OnlyInBubble("requests are held up")
		c.Define(c.gadgets())
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, kopf.Selector("gadgets.v1."+c.Unique("leaf")+".dev"), nameIndex, &kopf.IndexOptions{ID: "names"})
		r.OnCreate(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), l.handler("gadget"), named("create"))
		r.OnCreate(Examples, l.handler("example"), named("create"))
		var down atomic.Bool
		op := c.Operator(r, wired(func(*Request) (*http.Response, error) {
			if down.Load() {
				return nil, errCut
			}
			return nil, nil
		}))
		down.Store(true)
		op.Wire.Drop()
		c.gadget().Create("a", sized(1)) // the first list in the new version contains it
		c.setVersions(crdVersion("v1", false, true), crdVersion("v2", true, false))
		c.Pass(time.Second)
		down.Store(false)
		c.Pass(time.Hour)
		c.Create("b", nil)
		c.Pass(time.Hour)
		if l.count("gadget") != 1 || l.count("example") != 1 {
			c.Errorf("the calls are %q, want one for each of two new objects", l.all())
		}
	})
	c.Run(t, "DF-1 a definition that changes before the first list of definitions is noticed", func(c *C) {
		c.OnlyInBubble("requests are held up")
		c.Define(c.gadgets())
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), l.handler("gadget"), named("create"))
		var down atomic.Bool
		down.Store(true)
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if down.Load() && strings.Contains(req.Path, "/customresourcedefinitions") {
				return nil, errCut
			}
			return nil, nil
		}))
		c.setVersions(crdVersion("v1", false, true), crdVersion("v2", true, false))
		c.Pass(100 * time.Millisecond)
		down.Store(false)
		c.Pass(time.Minute)
		c.Of(c.Unique("leaf")+".dev/v2", "Gadget").Create("a", sized(1))
		c.Pass(time.Minute)
		if l.count("gadget") != 1 {
			c.Errorf("the calls are %q, want one", l.all())
		}
	})
	c.Run(t, "DF-1 a definition that changes between the first discovery and the first list of definitions is noticed", func(c *C) {
		c.OnlyInBubble("a request is held up")
		c.Define(c.gadgets())
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), l.handler("gadget"), named("create"))
		var once sync.Once
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "/customresourcedefinitions") {
				once.Do(func() { c.setVersions(crdVersion("v1", false, true), crdVersion("v2", true, false)) })
			}
			return nil, nil
		}))
		c.Pass(time.Minute)
		c.Of(c.Unique("leaf")+".dev/v2", "Gadget").Create("a", sized(1))
		c.Pass(time.Minute)
		if l.count("gadget") != 1 {
			c.Errorf("the calls are %q, want one", l.all())
		}
	})
	c.Run(t, "DF-84 a definition that is deleted between the first discovery and the first list of definitions is noticed", func(c *C) {
		c.OnlyInBubble("a request is held up")
		c.Define(c.gadgets())
		group := c.Unique("leaf") + ".dev"
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("gadgets."+group), ready, named("create"))
		var once sync.Once
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "/customresourcedefinitions") {
				once.Do(func() { c.definitions().Delete("gadgets." + group) })
			}
			return nil, nil
		}))
		c.Pass(time.Minute)
		if n := len(op.Logs.Find("The resource is gone; not serving it any more")); n != 1 {
			c.Errorf("got %d lines, want one", n)
		}
		list := fmt.Sprintf("/apis/%s/v1/namespaces/%s/gadgets", group, c.Namespace)
		asked := op.asked(list)
		c.Pass(10 * time.Minute)
		if again := op.asked(list) - asked; again > 0 {
			c.Errorf("the resource that is gone was asked for %d times", again)
		}
	})
	c.Run(t, "DF-1 the objects of another version are in its index, and not in that of the former one", func(c *C) {
		c.OnlyInBubble("the versions move to and fro")
		c.Define(c.gadgets())
		var l calls
		var holder atomic.Pointer[kopf.WatchEvent]
		r := &kopf.Registry{}
		indices := make(map[string]*kopf.Index[string, string])
		for _, version := range []string{"v1", "v2"} {
			indices[version] = kopf.OnIndexIn(r, kopf.Selector("gadgets."+version+"."+c.Unique("leaf")+".dev"), nameIndex, &kopf.IndexOptions{ID: kopf.HandlerID(version)})
		}
		gadgets := kopf.Selector("gadgets." + c.Unique("leaf") + ".dev")
		r.OnEvent(gadgets, func(ctx context.Context, e *kopf.WatchEvent) error { holder.Store(e); return nil }, watchedAs("event"))
		r.OnCreate(gadgets, l.handler("create"), named("create"))
		c.Operator(r)
		c.gadget().Create("a", sized(1))
		c.Pass(time.Hour)
		expect := func(when string, v1, v2 int) {
			c.Helper()
			e := holder.Load()
			if a, b := indices["v1"].Len(e), indices["v2"].Len(e); a != v1 || b != v2 {
				c.Errorf("%s, the indices of v1 and v2 have %d and %d objects, want %d and %d", when, a, b, v1, v2)
			}
		}
		expect("before", 1, 0)
		c.setVersions(crdVersion("v1", false, true), crdVersion("v2", true, false))
		c.Pass(time.Hour)
		expect("in v2", 0, 1)
		c.setVersions(crdVersion("v1", true, true), crdVersion("v2", false, false))
		c.Pass(time.Hour)
		expect("in v1 again", 1, 0)
		if l.count("create") != 1 {
			c.Errorf("the calls are %q, want one creation", l.all())
		}
	})
	c.Run(t, "DF-1 the children of a kind that comes later are known, though their own kind is served before for other handlers", func(c *C) {
		c.OnlyInBubble("the versions come and go")
		versions := func(v2 bool) { c.setVersions(crdVersion("v1", true, true), crdVersion("v2", v2, false)) }
		c.Define(c.gadgets())
		versions(true)
		children := func(n int) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnReconcile(kopf.Selector("gadgets.v2."+c.Unique("leaf")+".dev"), func(_ context.Context, r *kopf.Reconcile) error {
				for i := range n {
					r.Desired(desiredMap(fmt.Sprint(r.Name(), "-", i), nil), nil)
				}
				return nil
			}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
			r.OnEvent("configmaps", func(context.Context, *kopf.WatchEvent) error { return nil }, watchedAs("event"))
			return r
		}
		c.gadget().Create("a", nil)
		former := c.Operator(children(2))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-0") && c.configMaps().Exists("a-1") })
		former.Stop()
		versions(false)
		c.Operator(children(1))
		c.Pass(time.Hour)
		versions(true)
		c.Pass(time.Hour)
		if c.configMaps().Exists("a-1") {
			c.Error("a child that is not wanted any more is still there")
		}
		c.configMaps().Delete("a-0")
		c.Pass(time.Hour)
		if !c.configMaps().Exists("a-0") {
			c.Error("a child that was deleted has not come back")
		}
	})
	for _, others := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-1 the kind of the children goes on to be followed while that of their owners is missing for a moment; other handlers are for it: %t", others), func(c *C) {
			c.OnlyInBubble("a version is away for an exact time")
			versions := func(v2 bool) { c.setVersions(crdVersion("v1", true, true), crdVersion("v2", v2, false)) }
			c.Define(c.gadgets())
			versions(true)
			var l calls
			r := &kopf.Registry{}
			r.OnReconcile(kopf.Selector("gadgets.v2."+c.Unique("leaf")+".dev"), func(_ context.Context, r *kopf.Reconcile) error {
				r.Desired(desiredMap(r.Name(), nil), nil)
				return nil
			}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
			if others {
				r.OnResume("configmaps", l.handler("resume"), named("resume"))
			}
			c.configMaps().Create("other", nil)
			op := c.Operator(r)
			c.gadget().Create("a", nil)
			c.Pass(time.Hour)
			listings := func() (n int) {
				for _, q := range op.Wire.Requests("GET") {
					if strings.Contains(q.Path, "/configmaps?") && !strings.Contains(q.Path, "watch=true") {
						n++
					}
				}
				return n
			}
			before := listings()
			versions(false)
			c.Pass(500 * time.Millisecond)
			if len(op.Logs.Find("Unresolved resources")) == 0 {
				c.Fatal("the version was not missed")
			}
			c.configMaps().Delete("a")
			versions(true)
			c.Pass(time.Hour)
			if n := listings(); n != before || l.count("resume") > 1 {
				c.Errorf("the children were listed %d times anew, and resumed: %q", n-before, l.all())
			}
			if !c.configMaps().Exists("a") {
				c.Error("a child that was deleted meanwhile has not come back")
			}
		})
	}
}

// nameIndex is an index of the names of objects.
func nameIndex(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
	return map[string]string{i.Name(): i.Name()}, nil
}

func unservedVersions(t *testing.T, c *C) {
	for _, when := range []string{"ends", "waits for its retry"} {
		c.Run(t, "what has succeeded while its version was not served is stored when that is served again, and a handler that "+when+" is not called again for it", func(c *C) {
			c.OnlyInBubble("it takes hours")
			c.Define(c.gadgets(func(spec, _ map[string]any) {
				spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
			}))
			gadgets := kopf.Selector("gadgets.v1." + c.Unique("leaf") + ".dev")
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(gadgets, func(ctx context.Context, ch *kopf.Change) error {
				l.add("first")
				time.Sleep(time.Hour)
				ch.SetResult("done")
				return nil
			}, named("first"))
			r.OnCreate(gadgets, func(ctx context.Context, ch *kopf.Change) error {
				if l.add("second"); when != "ends" && ch.Retry == 0 {
					return kopf.Temporary(errOops, time.Hour)
				}
				return nil
			}, named("second"))
			c.Operator(r)
			c.gadget().Create("a", sized(1))
			c.Pass(time.Minute)
			c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
			c.Pass(2 * time.Hour)
			c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
			c.Pass(24 * time.Hour)
			if l.count("first") != 1 {
				c.Errorf("the calls are %q, want one of the first handler", l.all())
			}
			if got := c.gadget().Get("a"); got.Status().String("first") != "done" || len(records(got)) > 0 || !got.Has("metadata.annotations") {
				c.Errorf("got %s", got.LogValue())
			}
		})
	}
	c.Run(t, "a listing from before the own patch makes no handler run again when a version is served again", func(c *C) {
		c.OnlyInBubble("the listing is held up")
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("gadgets.v1."+c.Unique("leaf")+".dev"), func(ctx context.Context, ch *kopf.Change) error {
			if l.add("create"); l.count("create") == 1 {
				time.Sleep(30 * time.Minute)
			}
			return nil
		}, named("create"))
		var late atomic.Bool
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if !strings.Contains(req.Path, "/gadgets?") || strings.Contains(req.Path, "watch=true") || !late.CompareAndSwap(true, false) {
				return nil, nil
			}
			object := encoded(c.gadget().Get("a").Map())
			time.Sleep(4 * time.Minute) // until after the handler and its patch
			return document(`{"kind":"GadgetList","apiVersion":"` + c.Unique("leaf") + `.dev/v1","metadata":{"resourceVersion":"1"},"items":[` + object + `]}`), nil
		}))
		c.gadget().Create("a", sized(1))
		c.Pass(time.Minute)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(27 * time.Minute)
		late.Store(true)
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(24 * time.Hour)
		if got := l.all(); late.Load() || len(got) != 1 || len(op.Wire.Requests("PATCH")) == 0 {
			c.Errorf("the calls are %q", got)
		}
	})
	c.Run(t, "what has succeeded while its version was not served is stored even if the change was taken back", func(c *C) {
		c.OnlyInBubble("it takes hours")
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		gadgets := kopf.Selector("gadgets.v1." + c.Unique("leaf") + ".dev")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(gadgets, l.handler("create"), named("create"))
		r.OnUpdate(gadgets, func(ctx context.Context, ch *kopf.Change) error {
			if l.add("update to %d", ch.Spec().Int("x")); ch.Spec().Int("x") == 2 {
				time.Sleep(time.Hour)
				ch.SetResult("done")
			}
			return nil
		}, named("update"))
		c.Operator(r)
		c.gadget().Create("a", sized(1))
		c.Pass(time.Minute)
		c.gadget().Patch("a", sized(2))
		c.Pass(time.Minute)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(2 * time.Hour)
		c.Of(c.Unique("leaf")+".dev/v2", "Gadget").Patch("a", sized(1))
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(24 * time.Hour)
		c.expect(&l, "create create 0", "update to 2", "update to 1")
		if got := c.gadget().Get("a"); got.Status().String("update") != "done" || len(records(got)) > 0 {
			c.Errorf("got %s", got.LogValue())
		}
	})
	c.Run(t, "what has gone while its version was not served leaves nothing to be stored", func(c *C) {
		c.OnlyInBubble("it takes hours")
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("gadgets.v1."+c.Unique("leaf")+".dev"), func(ctx context.Context, ch *kopf.Change) error {
			l.add("create")
			time.Sleep(2 * time.Hour)
			return nil
		}, named("create"))
		op := c.Operator(r)
		v2 := c.Of(c.Unique("leaf")+".dev/v2", "Gadget")
		v2.Create("a", sized(1))
		c.Pass(time.Minute)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(time.Hour)
		v2.Delete("a")
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(24 * time.Hour)
		for range 3 {
			v2.Create("a", sized(2))
			c.Pass(24 * time.Hour)
			v2.Delete("a")
			c.Pass(time.Hour)
		}
		if l.count("create") != 4 || len(op.Logs.Find("The processing of the object has failed")) > 1 {
			c.Errorf("the calls are %q", l.all())
		}
	})
	c.Run(t, "DF-14 what comes of an object that is served again waits for the handler that still runs, and is not lost", func(c *C) {
		c.OnlyInBubble("it takes hours")
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		var l calls
		var running census
		r := &kopf.Registry{}
		r.OnEvent(kopf.Selector("gadgets.v1."+c.Unique("leaf")+".dev"), func(ctx context.Context, e *kopf.WatchEvent) error {
			running.enter(e.Name())
			defer running.leave(e.Name())
			if e.Type == kopf.Deleted {
				l.add("deleted")
				return nil
			}
			if l.add("%d", e.Spec().Int("x")); l.count("1") == 1 && e.Spec().Int("x") == 1 {
				time.Sleep(2 * time.Hour)
			}
			return nil
		}, watchedAs("event"))
		c.Operator(r)
		c.gadget().Create("a", sized(1))
		c.Pass(10 * time.Second)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(time.Hour)
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(time.Minute)
		c.gadget().Patch("a", sized(2))
		c.Pass(24 * time.Hour)
		if _, most := running.now(); most != 1 || l.count("2") != 1 || l.count("deleted") > 0 {
			c.Errorf("%d calls for one object were under way at once: %q, want one of 2, and none of a deletion", most, l.all())
		}
	})
	c.Run(t, "DF-14 a daemon of an object that is served again starts though another one has not ended yet", func(c *C) {
		c.OnlyInBubble("it takes hours")
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		gadgets := kopf.Selector("gadgets.v1." + c.Unique("leaf") + ".dev")
		var l calls
		var running census
		r := &kopf.Registry{}
		r.OnEvent(gadgets, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Spec().Int("x") == 2 && l.count("event") == 0 {
				l.add("event")
				time.Sleep(time.Hour) // the object is served again in the meantime
			}
			return nil
		}, watchedAs("event"))
		for _, id := range []string{"quick", "slow"} {
			r.OnDaemon(gadgets, func(ctx context.Context, d *kopf.Daemon) error {
				running.enter(id)
				defer running.leave(id)
				<-ctx.Done()
				if id == "slow" && l.count("slow") == 0 {
					l.add("slow")
					time.Sleep(6 * time.Hour)
				}
				return nil
			}, daemonID(kopf.HandlerID(id)))
		}
		c.Operator(r)
		c.gadget().Create("a", sized(1))
		c.Pass(time.Minute)
		c.gadget().Patch("a", sized(2))
		c.Pass(time.Minute)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(10 * time.Minute)
		if n, _ := running.now(); n != 1 {
			c.Fatalf("while the version is not served, %d daemons run, want the slow one", n)
		}
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(2 * time.Hour)
		if n, most := running.now(); n != 2 || most != 1 {
			c.Errorf("%d daemons run after the object is served again, and up to %d of one handler, want both, and one of each", n, most)
		}
		c.Pass(24 * time.Hour)
	})
	for _, gap := range []time.Duration{time.Minute, time.Hour} {
		c.Run(t, fmt.Sprintf("DF-14 a version that is not served for %s never has two calls at once for one object", gap), func(c *C) {
			c.OnlyInBubble("it takes hours")
			c.Define(c.gadgets(func(spec, _ map[string]any) {
				spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
			}))
			gadgets := kopf.Selector("gadgets.v1." + c.Unique("leaf") + ".dev")
			var creations, daemons census
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(gadgets, func(ctx context.Context, ch *kopf.Change) error {
				l.add("create")
				creations.enter(ch.Name())
				defer creations.leave(ch.Name())
				time.Sleep(2 * time.Hour)
				return nil
			}, named("create"))
			r.OnUpdate(gadgets, func(ctx context.Context, ch *kopf.Change) error {
				l.add("update to %d", ch.Spec().Int("x"))
				creations.enter(ch.Name())
				defer creations.leave(ch.Name())
				return nil
			}, named("update"))
			r.OnDaemon(gadgets, func(ctx context.Context, d *kopf.Daemon) error {
				l.add("daemon")
				daemons.enter(d.Name())
				defer daemons.leave(d.Name())
				<-ctx.Done()
				if l.count("daemon") == 1 {
					time.Sleep(90 * time.Minute) // it takes a while to end
				}
				return nil
			}, daemonID("daemon"))
			c.Operator(r)
			c.gadget().Create("a", sized(1))
			c.Pass(10 * time.Second)
			if l.count("daemon") != 1 || l.count("create") != 1 {
				c.Fatalf("the calls before are %q", l.all())
			}
			c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
			c.Pass(gap)
			c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
			c.Pass(time.Second)
			c.gadget().Patch("a", sized(2))
			c.Pass(24 * time.Hour)
			if _, most := creations.now(); most != 1 {
				c.Errorf("%d calls for one object were under way at once: %q", most, l.all())
			}
			if n, most := daemons.now(); n != 1 || most != 1 {
				c.Errorf("%d daemons run for one object, and up to %d have at the same time", n, most)
			}
			if l.count("create") != 1 || l.count("update to 2") != 1 {
				c.Errorf("the calls are %q, want one creation and one update to 2", l.all())
			}
		})
	}
}
