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

// This suite proves that kopf stops working on objects that the operator does not serve anymore, and starts no new work on them.

var _ = Suite("change_gone_objects", func(t *testing.T, c *C) {
	// leaving has an operator serve namespaces by a pattern. One of them contains an object, and is deleted.
	leaving := func(c *C, r *kopf.Registry, adjust ...func(*kopf.Operator)) {
		c.Helper()
		c.Operator(r, append(adjust, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "*"} })...)
		namespaces, space := c.Of("v1", "Namespace"), c.Unique("comes")
		namespaces.Create(space, nil)
		c.Create("holder", nil)
		c.Pass(time.Second)
		inside := *c
		inside.Namespace = space
		inside.Of("kopf.dev/v1", "KopfExample").Create("a", nil)
		c.Pass(time.Second)
		namespaces.Delete(space)
		c.Pass(time.Hour)
		if namespaces.Exists(space) {
			c.Fatal("the namespace is still there")
		}
	}
	c.Run(t, "DF-13 no daemon and no timer begins for an object that has gone with its namespace", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		var l calls
		var running atomic.Int64
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Name() == "a" && e.Type == kopf.Added {
				time.Sleep(10 * time.Second)
			}
			return nil
		}, watchedAs("slow"))
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			if d.Name() != "a" {
				return nil
			}
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return nil
		}, daemonID("daemon"))
		r.OnTimer(Examples, func(ctx context.Context, d *kopf.Timer) error {
			if d.Name() == "a" {
				l.add("tick")
			}
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Minute})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { l.add("create %s", ch.Name()); return nil }, named("create"))
		leaving(c, r)
		if n := running.Load(); n > 0 || l.count("tick") > 0 || l.count("create a") > 0 {
			c.Errorf("an hour after the end of the object and of its namespace, %d daemons run, and the calls are %q", n, l.all())
		}
	})
	c.Run(t, "the error of a patch says nothing of a namespace that has the name of the object", func(c *C) {
		c.OnlyInBubble("the answer is one of an API server that does not serve the patched endpoint any more")
		space := c.Unique("same")
		c.Of("v1", "Namespace").Create(space, nil)
		inside := *c
		inside.Namespace = space
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{space} }, wired(func(req *Request) (*http.Response, error) {
			if req.Method != http.MethodPatch {
				return nil, nil
			}
			return notFound("kopfexamples", "kopf.dev", space), nil
		}))
		inside.Of("kopf.dev/v1", "KopfExample").Create(space, nil)
		c.Pass(time.Minute)
		lines := op.Logs.Find("Processing of the object failed")
		if len(lines) == 0 {
			c.Error("no patch has failed")
		}
		for _, line := range lines {
			if strings.Contains(line.Attrs["error"], "whose namespace is gone") {
				c.Errorf("got the line %v", line)
			}
		}
	})
	for _, what := range []string{"its storage", "a predicate"} {
		c.Run(t, "DF-13 no timer begins for an object that has gone with its namespace while it waited for "+what, func(c *C) {
			c.OnlyInBubble("it takes an hour")
			wait := func(object string, of string) {
				if object == "a" && of == what {
					time.Sleep(10 * time.Second)
				}
			}
			var l calls
			r := &kopf.Registry{}
			r.OnTimer(Examples, func(ctx context.Context, d *kopf.Timer) error {
				l.add("tick %s", d.Name())
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Minute, Idle: 5 * time.Second, When: func(d *kopf.Timer) bool {
				wait(d.Name(), "a predicate")
				return true
			}})
			leaving(c, r, func(op *kopf.Operator) {
				op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(body *kopf.Body) { wait(body.Name(), "its storage") }}
			})
			if l.count("tick holder") == 0 || l.count("tick a") > 0 {
				c.Errorf("an hour after the end of the object and of its namespace, the calls are %q", l.all())
			}
		})
	}
	c.Run(t, "an object whose namespace is gone is patched less and less often, and the error says how to have it finished", func(c *C) {
		c.OnlyInBubble("an API server has such objects after losing a kind for a moment while it deleted the namespace")
		r := &kopf.Registry{}
		r.OnDelete(Examples, ready, named("delete"))
		var gone atomic.Bool
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if !gone.Load() || req.Method != http.MethodPatch {
				return nil, nil
			}
			return notFound("namespaces", "", c.Namespace), nil
		}))
		c.Create("a", nil)
		c.held("a")
		gone.Store(true)
		before := len(op.Wire.Requests("PATCH"))
		c.Delete("a")
		c.Pass(time.Hour)
		if n := len(op.Wire.Requests("PATCH")) - before; n < 5 || n > 25 {
			c.Errorf("got %d requests in an hour, want at most 25", n)
		}
		if lines := op.Logs.Find("Processing of the object failed"); len(lines) == 0 || !strings.Contains(lines[0].Attrs["error"], "create the namespace") {
			c.Errorf("got the lines %v", lines)
		}
		gone.Store(false)
		c.gone("a")
	})
	c.Run(t, "DF-13 an object that has gone with its namespace while it was indexed is not in the index", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		var holder atomic.Pointer[kopf.WatchEvent]
		r := &kopf.Registry{}
		index := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			if i.Name() == "a" {
				time.Sleep(10 * time.Second)
			}
			return map[string]string{i.Name(): i.Namespace()}, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error { holder.Store(e); return nil }, watchedAs("event"))
		leaving(c, r)
		if got := index.Get(holder.Load(), "a"); len(got) > 0 {
			c.Errorf("an hour after the end of the object and of its namespace, the index has %q", got)
		}
	})
})
