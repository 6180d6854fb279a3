package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that handlers list their children from memory, in 9-defects.md.

// listed keeps the last list of children that a handler has seen.
type listed struct {
	mu  sync.Mutex // guards all below
	all []string
}

func (l *listed) set(children []*kopf.Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
	for _, child := range children {
		l.all = append(l.all, fmt.Sprintf("%s %s %t %s", child.Reference().Kind, child.Reference().Name, child.Ready(), child.Reason()))
	}
}

func (l *listed) get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "; ")
}

// readsSince returns the operator's reads in the namespace of the leaf since a number of requests.
func (c *C) readsSince(op *Running, since int) (all []string) {
	for _, q := range op.Wire.Requests()[since:] {
		if q.Method == http.MethodGet && strings.Contains(q.Path, "/"+c.Namespace+"/") && !strings.Contains(q.Path, "watch=") {
			all = append(all, q.Path)
		}
	}
	return all
}

// createByClient creates a child of the handled object by the client.
func createByClient(ctx context.Context, r *kopf.Reconcile, name string) error {
	child := desiredMap(name, nil)
	if err := r.Adopt(child, nil); err != nil {
		return err
	}
	return r.Client.Create(ctx, child, nil)
}

var _ = Suite("reconcile_list", func(t *testing.T, c *C) {
	c.Run(t, "DF-89 children are listed without a request, with those of other clients, also after a restart", func(c *C) {
		l := &listed{}
		run := func() *Running {
			op, _ := c.parenting(func(r *kopf.Reconcile) error {
				err := bySize(r)
				l.set(r.Children("configmaps"))
				return err
			}, nil)
			return op
		}
		owner := c.Create("a", spec(map[string]any{"size": 2}))
		c.configMaps().Create("alone", nil)
		c.configMaps().Create("by-hand", map[string]any{"metadata": map[string]any{"ownerReferences": []any{
			map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "uid": owner.UID(), "controller": true},
		}}})
		op := run()
		c.WaitFor("the first call", func() bool { return l.get() == "ConfigMap by-hand true " })
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-1") })
		n := len(op.Wire.Requests())
		c.Patch("a", spec(map[string]any{"other": 1}))
		want := "ConfigMap a-0 true ; ConfigMap a-1 true ; ConfigMap by-hand true "
		c.WaitFor("the children", func() bool { return l.get() == want })
		c.same("the reads", 0, len(c.readsSince(op, n)))
		op.Stop()
		l.set(nil)
		run()
		c.WaitFor("the children after the restart", func() bool { return l.get() == want })
	})
	c.Run(t, "DF-89 what a handler creates by the client is listed at once, also while the stream is late", func(c *C) {
		c.OnlyInBubble("the stream has to be late")
		late := &lateStream{plural: "configmaps"}
		_, calls := c.parenting(func(r *kopf.Reconcile) error {
			r.Patch.Set("status.calls", r.Status().Int("calls")+1)
			for i := len(r.Children("configmaps")); i < 5; i++ {
				if err := createByClient(context.Background(), r, fmt.Sprintf("x-%d-%d", r.Status().Int("calls"), i)); err != nil {
					return err
				}
				if n := len(r.Children("configmaps")); n != i+1 {
					t.Errorf("got %d children after %d creations", n, i+1)
				}
			}
			return nil
		}, &kopf.ReconcileOptions{Fields: []kopf.FieldPath{"spec.round"}}, late.of)
		c.Pass(time.Second)
		late.held.Store(true)
		c.Create("a", nil)
		for i := range 10 {
			c.Pass(300 * time.Millisecond)
			c.Patch("a", spec(map[string]any{"round": i}))
		}
		late.held.Store(false)
		c.Pass(10 * time.Second)
		if n := len(c.configMaps().List()); n != 5 || len(calls.all()) < 5 {
			c.Errorf("got %d children after %d calls, want 5", n, len(calls.all()))
		}
	})
	c.Run(t, "DF-89 what a handler deletes by the client is Terminating at once", func(c *C) {
		c.OnlyInBubble("the stream has to be late")
		late := &lateStream{plural: "configmaps"}
		l := &listed{}
		c.parenting(func(r *kopf.Reconcile) error {
			children := r.Children("configmaps")
			if len(children) == 0 {
				if err := createByClient(context.Background(), r, "x"); err != nil {
					return err
				}
			}
			if r.Spec().Bool("delete") && len(children) > 0 && children[0].Reason() != "Terminating" {
				if err := r.Client.Delete(context.Background(), children[0].Reference(), nil); err != nil {
					return err
				}
			}
			l.set(r.Children("configmaps"))
			return nil
		}, nil, late.of)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return l.get() == "ConfigMap x true " })
		c.Pass(time.Second)
		late.held.Store(true)
		c.Patch("a", spec(map[string]any{"delete": true}))
		c.WaitFor("the deletion", func() bool { return l.get() == "ConfigMap x false Terminating" })
		c.Patch("a", spec(map[string]any{"delete": false}))
		c.Pass(time.Second)
		late.held.Store(false)
		c.WaitFor("another one", func() bool { return l.get() == "ConfigMap x true " && c.configMaps().Exists("x") })
	})
	c.Run(t, "DF-89 a child that is gone before the answer to its creation is not listed for ever", func(c *C) {
		c.OnlyInBubble("the answer has to be late")
		l := &listed{}
		gone := false
		c.parenting(func(r *kopf.Reconcile) error {
			if !gone {
				gone = true
				if err := createByClient(context.Background(), r, "x"); err != nil {
					return err
				}
			}
			l.set(r.Children("configmaps"))
			return nil
		}, nil, func(op *kopf.Operator) {
			op.Connection.HTTPClient = &http.Client{Transport: lateAnswers{op.Connection.HTTPClient.Transport, func(q *http.Request) {
				if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/configmaps") {
					time.Sleep(time.Second)
					c.configMaps().Delete("x")
					time.Sleep(time.Second)
				}
			}}}
		})
		c.Create("a", nil)
		c.Pass(5 * time.Second)
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.Pass(5 * time.Second)
		c.same("the children", "", l.get())
	})
	c.Run(t, "DF-89 a change of a child by the client still calls the handler", func(c *C) {
		_, calls := c.parenting(func(r *kopf.Reconcile) error {
			if len(r.Children("configmaps")) == 0 {
				return createByClient(context.Background(), r, "x")
			}
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("a call for the new child", func() bool { return len(calls.all()) == 2 })
	})
	c.Run(t, "DF-89 children in other namespaces are listed", func(c *C) {
		other := c.namespace("other")
		l := &listed{}
		c.parenting(func(r *kopf.Reconcile) error {
			m := desiredMap("x", nil)
			m["metadata"].(map[string]any)["namespace"] = other
			r.Desired(m, nil)
			r.Desired(desiredMap("y", nil), nil)
			l.set(r.Children("configmaps"))
			return nil
		}, nil, in(other))
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("y") })
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("both", func() bool { return len(strings.Split(l.get(), ";")) == 2 })
	})
	c.Run(t, "DF-89 a kind that the handler does not own is a mistake, and a missing kind has no children", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			if n := len(r.Children("missings.example.com")); n > 0 {
				t.Errorf("got %d children of a missing kind", n)
			}
			r.Children("secrets")
			return kopf.Unchanged
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps", "missings.example.com"}})
		c.Create("a", nil)
		c.WaitFor("the failure", func() bool {
			return len(op.Logs.Find(`failed permanently: invalid argument "secrets" of Children`)) == 1
		})
	})
	lateListed(t, c)
})

// lateListed checks lists of children while late events show earlier states.
func lateListed(t *testing.T, c *C) {
	run := func(name string, step func(c *C, r *kopf.Reconcile, child *kopf.Child), check func(c *C, child *kopf.Child), want int) {
		c.Run(t, name, func(c *C) {
			c.OnlyInBubble("the stream has to be late")
			done, after := false, 0
			c.parenting(func(r *kopf.Reconcile) error {
				switch all := r.Children("configmaps"); {
				case r.Spec().Int("size") == 1 && len(all) == 0:
					return createByClient(context.Background(), r, "x")
				case r.Spec().Int("size") == 1 || len(all) == 0 && !done:
				case !done:
					done = true
					step(c, r, all[0])
					check(c, only(r.Children("configmaps")))
				default:
					after++
					check(c, only(all))
				}
				return nil
			}, nil, through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
				if strings.HasSuffix(q.URL.Path, "/configmaps") {
					base = &lateStreams{base, 3 * time.Second}
				}
				return base.RoundTrip(q)
			}))
			c.Create("a", size(1))
			c.Pass(time.Minute)
			c.configMaps().Patch("x", map[string]any{"data": map[string]any{"by": "another client"}})
			c.Pass(time.Second)
			c.Patch("a", size(2))
			c.Pass(time.Minute)
			if !done || after != want {
				c.Errorf("the child was changed: %t, and %d calls followed, want %d", done, after, want)
			}
		})
	}
	run("DF-89 a child that a handler has deleted stays Terminating while late events show it alive", func(c *C, r *kopf.Reconcile, child *kopf.Child) {
		if err := r.Client.Delete(context.Background(), child.Reference(), nil); err != nil {
			c.Fatal(err)
		}
	}, func(c *C, child *kopf.Child) {
		if child != nil && child.Reason() != "Terminating" {
			c.Errorf("the child is alive: %q", child.Reason())
		}
	}, 2)
	run("DF-89 a child that a handler has released is not listed, also while late events show its owner", func(c *C, r *kopf.Reconcile, child *kopf.Child) {
		change := map[string]any{"metadata": map[string]any{"ownerReferences": nil}}
		if _, err := r.Client.Patch(context.Background(), child.Reference(), change, nil); err != nil {
			c.Fatal(err)
		}
	}, func(c *C, child *kopf.Child) {
		if child != nil {
			c.Errorf("the child is still listed")
		}
	}, 1)
}

// only returns the child in a list, nil for an empty list.
func only(children []*kopf.Child) *kopf.Child {
	if len(children) == 0 {
		return nil
	}
	return children[0]
}
