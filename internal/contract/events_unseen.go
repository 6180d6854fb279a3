package contract

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that event handlers get deletions that no watch stream delivered, because nothing was served at that time.

var _ = Suite("events_unseen", func(t *testing.T, c *C) {
	// ends returns a registry that records the names of the objects in deletion events.
	ends := func(l *calls, selector kopf.Selector) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnEvent(selector, func(_ context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Deleted {
				l.add("%s/%s", e.Namespace(), e.Name())
			}
			return nil
		}, watchedAs("event"))
		return r
	}
	gadgets := func(c *C) kopf.Selector { return kopf.Selector("gadgets.v1." + c.Unique("leaf") + ".dev") }
	c.Run(t, "what has gone while its version was not served is reported when that is served again", func(c *C) {
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		var l calls
		op := c.Operator(ends(&l, gadgets(c)))
		v2 := c.Of(c.Unique("leaf")+".dev/v2", "Gadget")
		for _, name := range []string{"goes", "stays"} {
			v2.Create(name, nil)
		}
		c.WaitFor("the handling", func() bool { return len(op.Logs.Find("Handler 'event' succeeded")) >= 2 })
		for range 2 {
			closed := len(op.Logs.Find("The resource is gone; not serving it any more"))
			c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
			c.WaitFor("the end of the serving", func() bool { return len(op.Logs.Find("The resource is gone; not serving it any more")) > closed })
			if v2.Exists("goes") {
				v2.Delete("goes")
			}
			c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
			c.expect(&l, c.Namespace+"/goes")
		}
		v2.Delete("stays")
		c.expect(&l, c.Namespace+"/goes", c.Namespace+"/stays")
	})
	c.Run(t, "what has gone with its definition is reported, though no stream has brought it", func(c *C) {
		c.OnlyInBubble("the streams are cut")
		c.Define(c.gadgets(func(_, _ map[string]any) {}))
		var l calls
		var down atomic.Bool
		op := c.Operator(ends(&l, gadgets(c)), wired(func(req *Request) (*http.Response, error) {
			if down.Load() && strings.Contains(req.Path, "/gadgets?") {
				return nil, errCut
			}
			return nil, nil
		}))
		c.gadget().Create("a", nil)
		c.Pass(time.Second)
		down.Store(true)
		op.Wire.Drop()
		c.definitions().Delete("gadgets." + c.Unique("leaf") + ".dev")
		c.Pass(time.Hour)
		c.expect(&l, c.Namespace+"/a")
	})
	c.Run(t, "what has gone while no version was served is reported in the version that is served next", func(c *C) {
		c.OnlyInBubble("the streams are cut")
		c.Define(c.gadgets())
		var l calls
		var down atomic.Bool
		r := &kopf.Registry{}
		r.OnEvent(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), func(_ context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Deleted {
				l.add("%s of %s", e.Name(), e.Body.Reference().APIVersion)
			}
			return nil
		}, watchedAs("event"))
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if down.Load() && strings.Contains(req.Path, "/gadgets?") {
				return nil, errCut
			}
			return nil, nil
		}))
		c.gadget().Create("a", nil)
		c.Pass(time.Minute)
		c.setVersions(crdVersion("v1", false, true), crdVersion("v2", false, false))
		c.Pass(time.Hour)
		down.Store(true)
		c.setVersions(crdVersion("v1", false, true), crdVersion("v2", true, false))
		v2 := c.Of(c.Unique("leaf")+".dev/v2", "Gadget")
		c.Pass(time.Minute)
		v2.Delete("a")
		down.Store(false)
		c.Pass(time.Hour)
		c.expect(&l, "a of "+c.Unique("leaf")+".dev/v2")
	})
	for _, what := range []string{"definition", "namespace"} {
		c.Run(t, "what goes with its "+what+" while the operator pauses is not reported in the pause", func(c *C) {
			c.OnlyInBubble("it takes minutes")
			k, p := c.meet(), c.pair(false)
			c.Define(c.gadgets())
			r := ends(&p.l, gadgets(c))
			op := c.Operator(r, as("one"), func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*"} })
			p.inside.Of(c.Unique("leaf")+".dev/v1", "Gadget").Create("a", nil)
			c.Pass(time.Minute)
			k.sit("two", rival(100, 3600))
			c.Pass(time.Minute)
			if what == "definition" {
				c.definitions().Delete("gadgets." + c.Unique("leaf") + ".dev")
			} else {
				p.namespaces.Delete(p.space)
			}
			c.Pass(50 * time.Minute)
			if len(op.Logs.Find("Pausing the watch-stream")) == 0 || len(p.l.all()) > 0 {
				c.Errorf("while another operator works, the calls are %q", p.l.all())
			}
			c.Pass(time.Hour)
			p.namespaces.Create(c.Unique("third"), nil) // triggers another discovery of namespaces
			c.expect(&p.l, p.space+"/a")
		})
	}
	c.Run(t, "an object that comes back before the handler for it ends is served", func(c *C) {
		c.OnlyInBubble("the namespaces are hidden for a while, as by an API server that is restored")
		p := c.pair(false)
		var hidden atomic.Bool
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if p.l.add("%q", e.Type); len(p.l.all()) == 1 {
				time.Sleep(time.Hour)
			}
			return nil
		}, watchedAs("event"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*"} }, p.hiding(&hidden))
		c.Pass(time.Second)
		p.inside.Create("a", nil)
		c.Pass(time.Minute)
		hidden.Store(true)
		op.Wire.Drop()
		c.Pass(5 * time.Minute)
		hidden.Store(false)
		c.Pass(2 * time.Hour)
		p.inside.Patch("a", sized(1))
		c.Pass(time.Minute)
		c.expect(&p.l, `"ADDED"`, `"DELETED"`, `""`, `"MODIFIED"`)
	})
	c.Run(t, "what has gone with its namespace is not counted any more, though the operator paused before the handler for it ended", func(c *C) {
		c.OnlyInBubble("the streams are cut")
		k, p, pipe := c.meet(), c.pair(false), newPipe()
		var down atomic.Bool
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if e.Type != kopf.Deleted {
				time.Sleep(time.Hour)
			}
			return nil
		}, watchedAs("event"))
		op := c.Operator(r, as("one"), probed(pipe, "http://0.0.0.0/healthz"), func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*"} }, wired(func(req *Request) (*http.Response, error) {
			if down.Load() && strings.Contains(req.Path, p.space+"/kopfexamples?") {
				return nil, errCut
			}
			return nil, nil
		}))
		p.inside.Create("a", nil)
		c.Pass(time.Minute)
		known := func(n float64) {
			c.Helper()
			wantMetrics(c, pipe, map[string]float64{`kopf_objects{resource="kopfexamples.v1.kopf.dev"}`: n})
		}
		known(1)
		down.Store(true)
		op.Wire.Drop()
		p.namespaces.Delete(p.space)
		c.Pass(5 * time.Minute)
		k.sit("two", rival(100, 3600))
		c.paused(op, 1)
		c.Pass(5 * time.Hour)
		c.going(op, 1)
		known(0)
	})
	for _, handled := range []bool{false, true} {
		name := "what has gone with its namespace is reported, though no stream has brought it"
		if handled {
			name += ", and after the handler that still runs"
		}
		c.Run(t, name, func(c *C) {
			c.OnlyInBubble("the streams are cut")
			p, pipe := c.pair(false), newPipe()
			var down atomic.Bool
			r := ends(&p.l, Examples)
			if handled {
				r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
					if e.Type != kopf.Deleted {
						time.Sleep(time.Hour)
						p.l.add("end of %s", e.Name())
					}
					return nil
				}, watchedAs("slow"))
			}
			op := c.Operator(r, probed(pipe, "http://0.0.0.0/healthz"), func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*"} }, wired(func(req *Request) (*http.Response, error) {
				if down.Load() && strings.Contains(req.Path, "/kopfexamples?") {
					return nil, errCut
				}
				return nil, nil
			}))
			p.inside.Create("a", nil)
			c.Pass(time.Minute)
			down.Store(true)
			op.Wire.Drop()
			p.namespaces.Delete(p.space)
			c.Pass(2 * time.Hour)
			want := []string{p.space + "/a"}
			if handled {
				want = append([]string{"end of a"}, want...)
			}
			c.expect(&p.l, want...)
			wantMetrics(c, pipe, map[string]float64{`kopf_objects{resource="kopfexamples.v1.kopf.dev"}`: 0})
		})
	}
	c.Run(t, "what has gone while the operator paused and its version was not served is reported in the end", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		c.Define(c.gadgets(func(spec, _ map[string]any) {
			spec["versions"] = []any{crdVersion("v1", true, false), crdVersion("v2", true, true)}
		}))
		k := c.meet()
		var l calls
		op := c.Operator(ends(&l, gadgets(c)), as("one"))
		v2 := c.Of(c.Unique("leaf")+".dev/v2", "Gadget")
		v2.Create("a", nil)
		c.Pass(time.Minute)
		k.sit("two", rival(100, 600))
		c.Pass(time.Second)
		c.setVersions(crdVersion("v1", false, false), crdVersion("v2", true, true))
		c.Pass(time.Minute)
		v2.Delete("a")
		c.setVersions(crdVersion("v1", true, false), crdVersion("v2", true, true))
		c.Pass(time.Minute)
		if len(op.Logs.Find("Pausing the watch-stream")) == 0 || len(l.all()) > 0 {
			c.Errorf("while another operator works, the calls are %q", l.all())
		}
		c.Pass(time.Hour)
		c.expect(&l, c.Namespace+"/a")
	})
})

// hiding removes the other namespace from the lists of an operator while the flag is set.
func (p *namespacePair) hiding(hidden *atomic.Bool) func(*kopf.Operator) {
	return wired(func(req *Request) (*http.Response, error) {
		switch {
		case !hidden.Load() || !strings.HasPrefix(req.Path, "/api/v1/namespaces?"):
			return nil, nil
		case strings.Contains(req.Path, "watch=true"):
			return Answer(http.StatusGone, "Expired", "too old resource version"), nil
		default:
			return document(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"` + p.Namespace + `"}}]}`), nil
		}
	})
}
