package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that reconcile handlers never use an incomplete list of children, and notice changes of children from before the watch.

// toGadgets wants the gadget "x", in the namespace in the spec, if there is one.
func (c *C) toGadgets() (func(r *kopf.Reconcile) error, *kopf.ReconcileOptions) {
	group := c.Unique("leaf") + ".dev"
	return func(r *kopf.Reconcile) error {
		metadata := map[string]any{"name": "x"}
		if namespace := r.Spec().String("namespace"); namespace != "" {
			metadata["namespace"] = namespace
		}
		r.Desired(map[string]any{"apiVersion": group + "/v1", "kind": "Gadget", "metadata": metadata}, nil)
		return nil
	}, &kopf.ReconcileOptions{Owns: []kopf.Selector{kopf.Selector("gadgets." + group)}}
}

// through sends the requests of an operator through a function, from the first one on.
func through(trip func(q *http.Request, base http.RoundTripper) (*http.Response, error)) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		base := op.Connection.HTTPClient.Transport
		op.Connection.HTTPClient = &http.Client{Transport: tripper(func(q *http.Request) (*http.Response, error) { return trip(q, base) })}
	}
}

// withoutAnswers blocks the operator's requests for a path until they are canceled.
func withoutAnswers(path string) func(*kopf.Operator) {
	return through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
		if strings.HasSuffix(q.URL.Path, path) {
			<-q.Context().Done()
			return nil, q.Context().Err()
		}
		return base.RoundTrip(q)
	})
}

// restored changes lists so that they contain a config map as it was before it was applied, with an older or a newer version. There are no events
// about it from then on.
func (c *C) restored(name, version string) func(*Request) (*http.Response, error) {
	object := c.configMaps().Get(name).Map()
	metadata := object["metadata"].(map[string]any)
	metadata["resourceVersion"], metadata["annotations"] = version, map[string]any{"kopf.zalando.org/wanted": "older"}
	object["data"] = map[string]any{"text": "old"}
	list, err := json.Marshal(map[string]any{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": version}, "items": []any{object}})
	if err != nil {
		c.Fatal(err)
	}
	var listed atomic.Bool
	return func(q *Request) (*http.Response, error) {
		switch {
		case !strings.Contains(q.Path, "/configmaps?"):
			return nil, nil
		case !strings.Contains(q.Path, "watch=true"):
			listed.Store(true)
			return document(string(list)), nil
		case !listed.Load():
			return Answer(http.StatusGone, "Expired", "too old resource version"), nil
		}
		resp := document("")
		resp.Body, _ = io.Pipe()
		return resp, nil
	}
}

var _ = Suite("reconcile_listings", func(t *testing.T, c *C) {
	c.Run(t, "RC-10 a call for a child finds that in the indices as it has become", func(c *C) {
		c.OnlyInBubble("the indexing takes its time")
		r, l := &kopf.Registry{}, &calls{}
		notes := kopf.OnIndexIn(r, "configmaps", func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			time.Sleep(time.Second)
			return map[string]string{"note": i.Body.View("data").String("note")}, nil
		}, &kopf.IndexOptions{ID: "notes"})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", map[string]any{"text": "one"}), nil)
			l.add("%v", notes.Get(r, "note"))
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Minute)
		c.configMaps().Patch("x", map[string]any{"data": map[string]any{"note": "new"}})
		c.Pass(time.Minute)
		if got := l.all(); got[len(got)-1] != "[new]" {
			c.Errorf("got the calls %q", got)
		}
	})
	for _, what := range []string{"owned", "watched", "indexed"} {
		c.Run(t, "RC-19 no call is made when the operator stops before what is "+what+" was listed", func(c *C) {
			c.OnlyInBubble("the listing does not end")
			r, l, opts := &kopf.Registry{}, &calls{}, &kopf.ReconcileOptions{}
			switch what {
			case "owned":
				opts.Owns = []kopf.Selector{"configmaps"}
			case "watched":
				opts.Watches = []kopf.Watch{{Of: "configmaps"}}
			case "indexed":
				kopf.OnIndexIn(r, "configmaps", func(_ context.Context, i *kopf.Indexing) (map[string]bool, error) {
					return map[string]bool{i.Name(): true}, nil
				}, &kopf.IndexOptions{ID: "names"})
			}
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				l.add("%s", r.Name())
				return nil
			}, opts)
			c.Create("a", nil)
			op := c.Operator(r, withoutAnswers("/configmaps"))
			c.Pass(time.Second)
			op.Stop()
			if got := l.all(); len(got) > 0 {
				c.Errorf("got the calls %v", got)
			}
		})
	}
	c.Run(t, "RC-19 a call that waits for a listing is made when that is not wanted any more", func(c *C) {
		c.OnlyInBubble("the listing fails for minutes")
		other := c.namespace("other")
		op, l := c.parenting(func(*kopf.Reconcile) error { return nil }, nil, in(other), through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
			if strings.Contains(q.URL.Path, "/"+other+"/configmaps") {
				return Answer(http.StatusForbidden, "Forbidden", "not allowed"), nil
			}
			return base.RoundTrip(q)
		}))
		c.Create("a", nil)
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("Listing an owned or watched resource fails repeatedly")) == 1 })
		c.Pass(time.Minute)
		if n := len(l.all()); n > 0 {
			c.Errorf("got %d calls before all was listed", n)
		}
		c.undefine("Namespace", "v1", other)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
	})
	for _, watched := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("RC-10 RC-12 what goes while its kind is listed anew for another handler calls those before (watched: %t)", watched), func(c *C) {
			c.OnlyInBubble("it has to go at the right moment")
			l, r, opts := &calls{}, &kopf.Registry{}, &kopf.ReconcileOptions{ID: "one"}
			if watched {
				opts.Watches = []kopf.Watch{{Of: "configmaps", Objects: func(*kopf.Watched) []kopf.ObjectReference { return []kopf.ObjectReference{c.Ref("a")} }}}
				c.configMaps().Create("x", nil)
			} else {
				opts.Owns = []kopf.Selector{"configmaps"}
			}
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				if l.add("%s", r.Name()); !watched {
					r.Desired(desiredMap("x", nil), nil)
				}
				return nil
			}, opts)
			r.OnReconcile(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), func(context.Context, *kopf.Reconcile) error { return nil },
				&kopf.ReconcileOptions{ID: "two", Watches: []kopf.Watch{{Of: "configmaps"}}})
			op := c.Operator(r)
			c.Create("a", nil)
			c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
			c.Pass(2 * time.Second)
			var gone atomic.Bool
			op.Wire.Fault(func(q *Request) (*http.Response, error) {
				if strings.Contains(q.Path, "/configmaps?") && !strings.Contains(q.Path, "watch=true") && !gone.Swap(true) {
					c.configMaps().Delete("x")
				}
				return nil, nil
			})
			c.Define(c.gadgets())
			c.WaitFor("the listing", gone.Load)
			c.WaitFor("another call", func() bool { return len(l.all()) > 1 })
			c.WaitFor("the child", func() bool { return watched || c.configMaps().Exists("x") })
		})
	}
	c.Run(t, "RC-10 a child that goes with its namespace, before its stream shows that, is made anew with the namespace", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		late, other := &lateStream{plural: "configmaps"}, c.namespace("other")
		c.parenting(byTargets, nil, in(other), late.of)
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		c.Pass(time.Second)
		late.held.Store(true)
		c.undefine("Namespace", "v1", other)
		c.Pass(10 * time.Second)
		late.held.Store(false)
		c.Pass(10 * time.Second)
		c.namespace("other")
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
	})
	for _, watched := range []bool{false, true} {
		what := map[bool]string{false: "a child", true: "a watched object"}[watched]
		c.Run(t, "DF-84 "+what+" that went with its namespace calls no owner when another namespace is listed", func(c *C) {
			c.OnlyInBubble("streams have to be late")
			late, other := &lateStream{plural: "configmaps"}, c.namespace("other")
			opts := &kopf.ReconcileOptions{}
			if watched {
				opts.Owns = []kopf.Selector{"secrets"}
				opts.Watches = []kopf.Watch{{Of: "configmaps", Objects: func(*kopf.Watched) []kopf.ObjectReference { return nil }}}
				c.configMaps().In(other).Create("b", nil)
			}
			_, l := c.parenting(byTargets, opts, in(other, c.Unique("third")), late.of)
			c.Create("a", nil)
			if !watched {
				c.Create("b", targets(other))
				c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("b") })
			}
			c.Pass(time.Second)
			late.held.Store(true)
			c.undefine("Namespace", "v1", other)
			c.Pass(10 * time.Second)
			late.held.Store(false)
			c.Pass(10 * time.Second)
			before := l.count("a")
			c.namespace("third")
			c.Pass(10 * time.Second)
			if n := l.count("a") - before; n > 0 {
				c.Errorf("got %d calls for an owner without children, want none", n)
			}
		})
	}
	c.Run(t, "RC-18 a child that no stream has shown goes with its definition, and is made anew with it", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		late, definition := &lateStream{plural: "gadgets"}, c.gadgets()
		c.Define(definition)
		desired, opts := c.toGadgets()
		c.parenting(desired, opts, late.of)
		c.Pass(time.Second)
		late.held.Store(true)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.gadget().Exists("x") })
		c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", "gadgets."+c.Unique("leaf")+".dev")
		c.Pass(time.Minute)
		late.held.Store(false)
		c.Pass(time.Minute)
		c.Define(definition)
		c.WaitFor("the new child", func() bool { return c.gadget().Exists("x") })
	})
	for what, version := range map[string]string{"older": "4", "newer": "400"} {
		c.Run(t, "RC-53 a child that is another one after a restore from a backup is put right, with versions that are "+what, func(c *C) {
			c.OnlyInBubble("it answers for the API server")
			op, _ := c.parenting(func(r *kopf.Reconcile) error {
				r.Desired(desiredMap("x", map[string]any{"text": "new"}), nil)
				return nil
			}, nil)
			c.Create("a", nil)
			c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
			c.Pass(time.Minute)
			before := len(applies(op))
			op.Wire.Fault(c.restored("x", version))
			op.Wire.Drop()
			c.Pass(time.Minute)
			if got := applies(op)[before:]; len(got) == 0 {
				c.Error("it was not applied")
			}
		})
	}
	c.Run(t, "RC-17 a Source calls it for an object that was listed anew for another handler during a call", func(c *C) {
		c.OnlyInBubble("it has to be listed at the right moment")
		l, r, source, end := &calls{}, &kopf.Registry{}, &kopf.Source{}, make(chan struct{})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			<-end
			return nil
		}, &kopf.ReconcileOptions{ID: "one", Sources: []*kopf.Source{source}})
		r.OnReconcile(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), func(context.Context, *kopf.Reconcile) error { return nil },
			&kopf.ReconcileOptions{ID: "two", Watches: []kopf.Watch{{Of: Examples}}})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Define(c.gadgets())
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("listing its objects anew")) > 0 })
		c.Pass(time.Minute)
		close(end)
		c.Pass(time.Minute)
		before := len(l.all())
		source.Trigger(c.Ref("a"))
		c.Pass(time.Minute)
		c.same("the calls for the trigger", []string{"a"}, l.all()[before:])
	})
	c.Run(t, "RC-10 a child that is indexed while its namespace goes is made anew with the namespace", func(c *C) {
		c.OnlyInBubble("the index has to be slow at the right moment")
		r, late, other := &kopf.Registry{}, &lateStream{plural: "configmaps"}, c.namespace("other")
		var slow atomic.Bool
		kopf.OnIndexIn(r, "configmaps", func(_ context.Context, i *kopf.Indexing) (map[string]bool, error) {
			if slow.Load() {
				time.Sleep(5 * time.Second)
			}
			return map[string]bool{i.Name(): true}, nil
		}, &kopf.IndexOptions{ID: "names"})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error { return byTargets(r) }, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}, Resync: time.Hour})
		c.Operator(r, in(other), late.of)
		c.Create("a", targets(other))
		c.WaitFor("the child", func() bool { return c.configMaps().In(other).Exists("a") })
		c.Pass(time.Minute)
		slow.Store(true)
		c.configMaps().In(other).Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}})
		c.Pass(time.Second)
		late.held.Store(true)
		c.undefine("Namespace", "v1", other)
		c.Pass(time.Minute)
		late.held.Store(false)
		slow.Store(false)
		c.Pass(time.Minute)
		c.namespace("other")
		c.Pass(3 * time.Hour)
		if !c.configMaps().In(other).Exists("a") {
			c.Error("it was not made anew")
		}
	})
})
