package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that values which are known only once are never lost, in 9-defects.md.

// tunnels is an API that returns the credentials of a tunnel only when it creates the tunnel.
type tunnels struct{ created atomic.Int64 }

func (s *tunnels) create() (id, credentials string) {
	n := s.created.Add(1)
	return fmt.Sprint("tunnel-", n), fmt.Sprint("credentials-", n)
}

// refusingApplies answers the first applies of config maps with 403.
func refusingApplies(times int64) (fault func(*Request) (*http.Response, error)) {
	var n atomic.Int64
	return func(q *Request) (*http.Response, error) {
		if q.Method == http.MethodPatch && strings.Contains(q.Path, "/configmaps/") && n.Add(1) <= times {
			return Answer(http.StatusForbidden, "Forbidden", "no"), nil
		}
		return nil, nil
	}
}

// credentials are those in the child.
func (c *C) credentials() string { return c.configMaps().Get("x").View("data").String("credentials") }

var _ = Suite("reconcile_once", func(t *testing.T, c *C) {
	c.Run(t, "DF-86 a refused apply of a child with Once stores nothing, so the next call makes the value again", func(c *C) {
		api := &tunnels{}
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			id, credentials := r.Status().String("tunnel"), ""
			if id == "" {
				id, credentials = api.create()
				r.Patch.Set("status.tunnel", id)
			}
			r.Desired(desiredMap("x", map[string]any{"credentials": credentials}), &kopf.DesiredOptions{Once: true})
			return nil
		}, nil, wired(refusingApplies(1)))
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.WaitFor("the id", func() bool { return c.Get("a").Status().String("tunnel") == "tunnel-2" })
		c.same("the credentials", "credentials-2", c.credentials())
		if lines := op.Logs.Find("Not storing the patch of a call"); len(lines) != 1 || !strings.HasSuffix(lines[0].Attrs["child"], "/x") {
			c.Errorf("got the lines %v", lines)
		}
	})
	c.Run(t, "DF-86 an error of the handler stores nothing while a child with Once is missing", func(c *C) {
		api := &tunnels{}
		var failed atomic.Bool
		c.parenting(func(r *kopf.Reconcile) error {
			id, credentials := r.Status().String("tunnel"), ""
			if id == "" {
				id, credentials = api.create()
				r.Patch.Set("status.tunnel", id)
			}
			r.Desired(desiredMap("x", map[string]any{"credentials": credentials}), &kopf.DesiredOptions{Once: true})
			if !failed.Swap(true) {
				return errOops
			}
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.same("the credentials", "credentials-2", c.credentials())
	})
	c.Run(t, "DF-86 a failed call stores its patch when the child with Once exists", func(c *C) {
		c.parenting(func(r *kopf.Reconcile) error {
			child := r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Once: true})
			if r.Patch.Set("status.seen", child.Exists()); child.Exists() {
				return errOops
			}
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the first status", func() bool { return c.Get("a").Status().Has("seen") })
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the status of the failed call", func() bool { return c.Get("a").Status().Bool("seen") })
	})
	c.Run(t, "DF-86 Create is called if the child is missing, and its fields are merged", func(c *C) {
		api := &tunnels{}
		_, l := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", map[string]any{"declared": "yes"}), &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				id, credentials := api.create()
				r.Patch.Set("status.tunnel", id)
				return map[string]any{"data": map[string]any{"credentials": credentials}}, nil
			}})
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the id", func() bool { return c.Get("a").Status().String("tunnel") == "tunnel-1" })
		c.same("the data", map[string]any{"declared": "yes", "credentials": "credentials-1"}, c.configMaps().Get("x").View("data").Map())
		n := len(l.all())
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("another call", func() bool { return len(l.all()) > n })
		c.Pass(2 * time.Second)
		c.same("the number of tunnels", int64(1), api.created.Load())
		c.configMaps().Delete("x")
		c.WaitFor("another tunnel", func() bool { return c.Get("a").Status().String("tunnel") == "tunnel-2" })
		c.same("the credentials", "credentials-2", c.credentials())
	})
	c.Run(t, "DF-86 what the operator could not store before it was killed is read from the child", func(c *C) {
		api := &tunnels{}
		handle := func(r *kopf.Reconcile) error {
			child := r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				id, credentials := api.create()
				r.Patch.Set("status.tunnel", id)
				return map[string]any{"data": map[string]any{"id": id, "credentials": credentials}}, nil
			}})
			if child.Exists() && r.Status().String("tunnel") == "" {
				var stored struct{ Data map[string]string }
				if err := child.Get(c.Context(), &stored); err != nil {
					return err
				}
				r.Patch.Set("status.tunnel", stored.Data["id"])
			}
			return nil
		}
		var refused atomic.Int64
		first, _ := c.parenting(handle, nil, wired(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && strings.Contains(q.Path, "/kopfexamples/") {
				refused.Add(1)
				return nil, errors.New("killed")
			}
			return nil, nil
		}))
		c.Create("a", nil)
		c.WaitFor("the patch that is lost", func() bool { return refused.Load() > 0 })
		first.Crash()
		c.same("the child", "credentials-1", c.credentials())
		c.parenting(handle, nil)
		c.WaitFor("the id", func() bool { return c.Get("a").Status().String("tunnel") == "tunnel-1" })
		c.same("the number of tunnels", int64(1), api.created.Load())
	})
	c.Run(t, "DF-86 what Create sets is not stored if the API server refuses the child", func(c *C) {
		api := &tunnels{}
		c.parenting(func(r *kopf.Reconcile) error {
			r.Patch.Set("status.other", "stored")
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				id, credentials := api.create()
				r.Patch.Set("status.tunnel", id)
				return desiredMap("x", map[string]any{"credentials": credentials}), nil
			}})
			return nil
		}, nil, wired(refusingApplies(2)))
		c.Create("a", nil)
		c.WaitFor("the id", func() bool { return c.Get("a").Status().Has("tunnel") })
		c.same("the id", "tunnel-3", c.Get("a").Status().String("tunnel"))
		c.same("the credentials", "credentials-3", c.credentials())
	})
	c.Run(t, "DF-86 an error of Create fails the call, and stores nothing", func(c *C) {
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				r.Patch.Set("status.tunnel", "half")
				return nil, errors.New("no tunnels today")
			}})
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("two calls", func() bool { return len(l.all()) > 1 })
		lines := op.Logs.Find("Handler 'reconcile' failed")
		if len(lines) == 0 || !strings.Contains(lines[0].Attrs["error"], "no tunnels today") || c.configMaps().Exists("x") || c.Get("a").Status().Has("tunnel") {
			c.Errorf("got the lines %v, and the status %v", lines, c.Get("a").Status())
		}
	})
	c.Run(t, "DF-86 Create is not called for a child that its stream has not shown", func(c *C) {
		c.OnlyInBubble("the stream has to be late")
		api := &tunnels{}
		late := &lateStream{plural: "configmaps"}
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				id, credentials := api.create()
				r.Patch.Set("status.tunnel", id)
				return map[string]any{"data": map[string]any{"credentials": credentials}}, nil
			}})
			return nil
		}, nil, late.of)
		c.Pass(time.Second)
		late.held.Store(true)
		var lost atomic.Bool
		op.Wire.Lose(func(q *Request) bool {
			return q.Method == http.MethodPatch && strings.Contains(q.Path, "/configmaps/x") && !lost.Swap(true)
		})
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(10 * time.Second)
		late.held.Store(false)
		c.Pass(time.Minute)
		c.same("the number of tunnels", int64(1), api.created.Load())
		c.same("the credentials", "credentials-1", c.credentials())
	})
	c.Run(t, "DF-86 Create cannot return another object", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Create: func(context.Context) (any, error) { return desiredMap("y", nil), nil }})
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the failure", func() bool {
			return len(op.Logs.Find("failed permanently: ConfigMap "+c.Namespace+"/x: the option Create returned a")) == 1
		})
		if c.configMaps().Exists("x") || c.configMaps().Exists("y") {
			c.Error("a child was made")
		}
	})
	notMadeYet(t, c)
	c.Run(t, "DF-41 a panic of Create fails that child only", func(c *C) {
		var n atomic.Int64
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				switch n.Add(1) {
				case 1:
					panic("oops")
				case 2:
					runtime.Goexit()
				}
				return map[string]any{}, nil
			}})
			r.Desired(desiredMap("y", nil), nil)
			return nil
		}, &kopf.ReconcileOptions{Backoff: 100 * time.Millisecond})
		c.Create("a", nil)
		c.WaitFor("the other child", func() bool { return c.configMaps().Exists("y") })
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		for _, text := range []string{"panic: oops", "runtime.Goexit was called"} {
			if !slices.ContainsFunc(op.Logs.All(), func(l Line) bool {
				return strings.Contains(l.Attrs["error"], "ConfigMap "+c.Namespace+"/x: "+text)
			}) {
				c.Errorf("no line names the child and %q", text)
			}
		}
	})
})

// notMadeYet checks calls that succeed without creating a child with Once.
func notMadeYet(t *testing.T, c *C) {
	for _, why := range []string{"waits for another one", "is in a call without changes", "is still being deleted"} {
		c.Run(t, "DF-86 a value that is known only once is stored when its child is made, though the child "+why, func(c *C) {
			k, api := c.statuses(), &tunnels{}
			r := &kopf.Registry{}
			r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error {
				r.SpecChanged()
				after := []*kopf.Child{r.Desired(desiredMap("first", nil), &kopf.DesiredOptions{Ready: func(b *kopf.Body) (bool, string) {
					return b.View("data").Has("ok"), "not ok"
				}})}
				if why != "waits for another one" {
					after = nil
				}
				id, credentials := r.Status().String("tunnel"), ""
				if id == "" {
					id, credentials = api.create()
					r.Patch.Set("status.tunnel", id)
				}
				r.Desired(desiredMap("x", map[string]any{"credentials": credentials}), &kopf.DesiredOptions{Once: true, After: after})
				if why == "is in a call without changes" && !r.Spec().Bool("ok") {
					return kopf.Unchanged
				}
				return nil
			}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}, Conditions: true})
			c.Operator(r)
			k.Create("a", nil)
			status := func() kopf.View { return k.Get("a").Status() }
			if why == "is still being deleted" {
				c.WaitFor("the first id", func() bool { return status().String("tunnel") == "tunnel-1" })
				c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/theirs"}}})
				c.configMaps().Delete("x")
				c.Pass(2 * time.Second)
				k.PatchStatus("a", map[string]any{"status": map[string]any{"tunnel": nil}})
				k.Patch("a", spec(map[string]any{"ok": true}))
				c.Pass(2 * time.Second)
				c.same("the id", "", status().String("tunnel"))
				c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"finalizers": nil}})
			} else {
				c.WaitFor("the conditions", func() bool { return status().Has("conditions") })
				c.Pass(2 * time.Second)
				c.same("the id", "", status().String("tunnel"))
				c.same("the digest", "", k.Get("a").Annotations()["kopf.zalando.org/reconciled-spec"])
				c.same("the generation", k.Get("a").Get("metadata.generation"), status().Get("observedGeneration"))
				k.Patch("a", spec(map[string]any{"ok": true}))
				if why == "waits for another one" {
					c.configMaps().Patch("first", map[string]any{"data": map[string]any{"ok": "1"}})
				}
			}
			last := func() string { return fmt.Sprint("tunnel-", api.created.Load()) }
			c.WaitFor("the id", func() bool { return status().Has("tunnel") && status().String("tunnel") == last() })
			c.same("the credentials", strings.Replace(last(), "tunnel", "credentials", 1), c.credentials())
		})
	}
}
