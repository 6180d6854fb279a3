package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves when former children are deleted, in 5-reconcile.md and 9-defects.md.

var _ = Suite("reconcile_pruning", func(t *testing.T, c *C) {
	c.Run(t, "DF-85 many children are named, and deleted, in the order of their names", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			switch {
			case r.Spec().Bool("none"):
				r.NoChildren()
			case r.Spec().Int("size") > 0:
				for i := range 30 {
					r.Desired(desiredMap(fmt.Sprintf("x-%02d", i), nil), nil)
				}
			}
			return nil
		}, nil)
		c.Create("a", size(1))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("x-29") })
		c.Patch("a", size(0))
		op.waitLogged(c, "Keeping all children")
		var names []string
		for i := range 10 {
			names = append(names, fmt.Sprintf("ConfigMap %s/x-%02d", c.Namespace, i))
		}
		c.same("the names", strings.Join(names, ", "), op.Logs.Find("Keeping all children")[0].Attrs["names"])
		c.Patch("a", spec(map[string]any{"none": true}))
		c.WaitFor("the deletions", func() bool { return !c.configMaps().Exists("x-29") })
		c.Pass(time.Second)
		deleted := op.Wire.Requests(http.MethodDelete)
		if len(deleted) != 30 || !slices.IsSortedFunc(deleted, func(a, b Request) int { return strings.Compare(a.Path, b.Path) }) {
			c.Errorf("got the deletions %v", deleted)
		}
	})
	c.Run(t, "DF-85 a call that declares no child deletes none, and the log names them", func(c *C) {
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			if r.Spec().Bool("early") {
				return kopf.IgnoreNotFound(r.Client.Get(context.Background(), kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.Namespace(), Name: "missing"}, &kopf.Body{}, nil))
			}
			return bySize(r)
		}, nil)
		c.Create("a", spec(map[string]any{"size": 2}))
		c.WaitFor("the children", func() bool { return len(c.configMaps().List()) == 2 })
		l.forget()
		c.Patch("a", spec(map[string]any{"early": true}))
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		c.Pass(2 * time.Second)
		if n := len(c.configMaps().List()); n != 2 {
			c.Errorf("%d children are left, want 2", n)
		}
		lines := op.Logs.Find("Keeping all children, because the handler has declared none")
		if len(lines) != 1 || !strings.Contains(lines[0].Attrs["hint"], "NoChildren") || !strings.Contains(lines[0].Attrs["names"], "ConfigMap "+c.Namespace+"/a-1") {
			c.Errorf("got the lines %v", lines)
		}
		c.Patch("a", spec(map[string]any{"early": false, "size": 0}))
		c.WaitFor("the end of the children", func() bool { return len(c.configMaps().List()) == 0 })
	})
	c.Run(t, "DF-85 Unchanged leaves all children as they are, and is a success", func(c *C) {
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			err := bySize(r)
			if r.Spec().Bool("early") {
				return fmt.Errorf("not yet: %w", kopf.Unchanged)
			}
			return err
		}, nil)
		c.Create("a", spec(map[string]any{"size": 2, "text": "x"}))
		c.WaitFor("the children", func() bool { return len(c.configMaps().List()) == 2 })
		c.Pass(2 * time.Second)
		l.forget()
		before := len(op.Wire.Writes())
		c.Patch("a", spec(map[string]any{"size": 1, "text": "y", "early": true}))
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		c.Pass(5 * time.Second)
		c.nothingWritten(op, before)
		if n := len(l.all()); n != 1 {
			c.Errorf("got %d calls, want 1", n)
		}
	})
	c.Run(t, "DF-85 Unchanged beside another error is that error", func(c *C) {
		for name, err := range map[string]error{
			"joined":    errors.Join(errOops, kopf.Unchanged),
			"temporary": kopf.Temporary(kopf.Unchanged, time.Hour),
			"permanent": kopf.Permanent(kopf.Unchanged),
		} {
			r := &kopf.Registry{}
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return err },
				&kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
			op := c.Operator(r)
			c.Create(name, nil)
			c.WaitFor("the failure: "+name, func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
			op.Stop()
			c.Delete(name)
		}
	})
	c.Run(t, "DF-85 children that stay without being declared count for the conditions", func(c *C) {
		examples := c.statuses()
		r := &kopf.Registry{}
		r.OnReconcile("kopfstatusexamples.v1.kopf.dev", func(_ context.Context, r *kopf.Reconcile) error {
			switch r.Spec().String("end") {
			case "early":
				return nil
			case "unchanged":
				return kopf.Unchanged
			}
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			}}, nil)
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"persistentvolumeclaims"}, Conditions: true})
		c.Operator(r)
		examples.Create("a", nil)
		c.WaitFor("the condition", func() bool { s, _, _ := condition(examples.Get("a"), "Ready"); return s == "False" })
		for _, end := range []string{"early", "unchanged"} {
			examples.Patch("a", spec(map[string]any{"end": end}))
			c.WaitFor("the call", func() bool {
				body := examples.Get("a")
				return body.Status().Int("observedGeneration") == body.Metadata().Int("generation")
			})
			if status, _, message := condition(examples.Get("a"), "Reconciling"); status != "True" || !strings.HasPrefix(message, "PersistentVolumeClaim a: ") {
				c.Errorf("got Reconciling %s %s after the end %q", status, message, end)
			}
		}
		c.Of("v1", "PersistentVolumeClaim").PatchStatus("a", map[string]any{"status": map[string]any{"phase": "Bound"}})
		c.WaitFor("the condition", func() bool { s, _, _ := condition(examples.Get("a"), "Ready"); return s == "True" })
	})
	c.Run(t, "DF-85 the option Ready of a child that stays decides", func(c *C) {
		examples := c.statuses()
		r := &kopf.Registry{}
		r.OnReconcile("kopfstatusexamples.v1.kopf.dev", func(_ context.Context, r *kopf.Reconcile) error {
			if r.Spec().Bool("early") {
				return nil
			}
			r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Ready: func(*kopf.Body) (bool, string) { return false, "Not yet" }})
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}, Conditions: true})
		c.Operator(r)
		examples.Create("a", nil)
		c.WaitFor("the condition", func() bool {
			_, _, m := condition(examples.Get("a"), "Reconciling")
			return m == "ConfigMap x: Not yet"
		})
		examples.Patch("a", spec(map[string]any{"early": true}))
		c.WaitFor("the call", func() bool {
			body := examples.Get("a")
			return body.Status().Int("observedGeneration") == body.Metadata().Int("generation")
		})
		if status, _, message := condition(examples.Get("a"), "Reconciling"); status != "True" || message != "ConfigMap x: Not yet" {
			c.Errorf("got Reconciling %s %s", status, message)
		}
	})
	c.Run(t, "DF-85 children after NoChildren are a mistake", func(c *C) {
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.NoChildren()
			r.Desired(desiredMap("x", nil), nil)
			return nil
		}, nil)
		c.Create("a", nil)
		c.WaitFor("the error", func() bool {
			return slices.ContainsFunc(op.Logs.Find("Handler 'reconcile' failed"), func(l Line) bool { return strings.Contains(fmt.Sprint(l), "NoChildren") })
		})
		if c.configMaps().Exists("x") {
			c.Error("it was applied")
		}
	})
	c.Run(t, "RC-56 a former child stays until its replacement is applied", func(c *C) {
		var ready atomic.Bool
		c.parenting(func(r *kopf.Reconcile) error {
			if r.Body.View("spec").String("version") == "1" {
				r.Desired(desiredMap("before", nil), nil)
				return nil
			}
			first := r.Desired(desiredMap("first", nil), &kopf.DesiredOptions{Ready: func(*kopf.Body) (bool, string) { return ready.Load(), "Not yet" }})
			r.Desired(desiredMap("replacement", nil), &kopf.DesiredOptions{After: []*kopf.Child{first}})
			return nil
		}, nil)
		c.Create("a", spec(map[string]any{"version": "1"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("before") })
		c.Patch("a", spec(map[string]any{"version": "2"}))
		c.WaitFor("the first", func() bool { return c.configMaps().Exists("first") })
		c.Pass(time.Second)
		if !c.configMaps().Exists("before") {
			c.Error("the child was deleted before its replacement was applied")
		}
		ready.Store(true)
		c.configMaps().Patch("first", map[string]any{"data": map[string]any{"x": "y"}})
		c.WaitFor("the replacement", func() bool { return c.configMaps().Exists("replacement") && !c.configMaps().Exists("before") })
	})
	unmetDeletions(t, c)
})

// unmetDeletions checks deletions that the API server has not carried out, though the child exists.
func unmetDeletions(t *testing.T, c *C) {
	for _, tt := range []struct {
		name            string
		code            int
		reason          string
		reads, recreate bool // whether the API server does not find the child for reads either, and whether kopf replaces it
	}{
		{"a former child that a deletion has not found is deleted later", http.StatusNotFound, "NotFound", false, false},
		{"a former child whose deletion has a conflict is deleted later", http.StatusConflict, "Conflict", false, false},
		{"a former child that was not found for a while is deleted later", http.StatusNotFound, "NotFound", true, false},
		{"a child with Recreate that a deletion has not found is replaced later", http.StatusNotFound, "NotFound", false, true},
		{"a child with Recreate that was not found for a while is replaced later", http.StatusNotFound, "NotFound", true, true},
	} {
		c.Run(t, "DF-89 "+tt.name, func(c *C) {
			c.OnlyInBubble("a request has to be refused")
			var deletions, reads atomic.Int64
			c.parenting(func(r *kopf.Reconcile) error {
				switch m := desiredMap("x", map[string]any{"size": fmt.Sprint(r.Spec().Int("size"))}); {
				case tt.recreate:
					m["immutable"] = true
					r.Desired(m, &kopf.DesiredOptions{Recreate: true})
				case r.Spec().Int("size") == 1:
					r.Desired(m, nil)
				default:
					r.NoChildren()
				}
				return nil
			}, nil, wired(func(q *Request) (*http.Response, error) {
				child := strings.Contains(q.Path, "/configmaps/x")
				deletes := child && q.Method == http.MethodDelete && deletions.Add(1) == 1
				misses := child && q.Method == http.MethodGet && tt.reads && reads.Add(1) == 1
				if deletes || misses {
					return Answer(tt.code, tt.reason, "the server could not find the requested resource"), nil
				}
				return nil, nil
			}))
			c.Create("a", size(1))
			c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
			c.Pass(time.Minute)
			c.Patch("a", size(2))
			c.Pass(time.Minute)
			if tt.reads { // an event has to show that it exists
				if deletions.Load() != 1 || !c.configMaps().Exists("x") {
					c.Errorf("got %d deletion requests, want 1", deletions.Load())
				}
				c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}})
				c.Pass(time.Minute)
			}
			if tt.recreate && c.configMaps().Get("x").Deleting() { // a garbage collector does this
				c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"finalizers": nil}})
				c.Pass(time.Minute)
			}
			exists := c.configMaps().Exists("x")
			if exists != tt.recreate || exists && c.configMaps().Get("x").View("data").String("size") != "2" {
				c.Errorf("the former child still exists after %d deletion requests", deletions.Load())
			}
		})
	}
}
