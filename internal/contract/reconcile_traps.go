package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite has pitfalls of other frameworks.

// desiredService returns a desired Service, to which the server adds fields.
func desiredService(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name}, "spec": map[string]any{"selector": map[string]any{"app": "x"}, "ports": []any{map[string]any{"port": 80}}}}
}

// desiredDeployment returns a desired Deployment, with quantities that the server normalizes.
func desiredDeployment(name string) map[string]any {
	container := map[string]any{"name": "main", "image": "x", "resources": map[string]any{"requests": map[string]any{"cpu": "1000m", "memory": "1024Mi"}}, "env": []any{map[string]any{"name": "A", "value": ""}}}
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name}, "spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}}, "strategy": map[string]any{},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}, "creationTimestamp": nil}, "spec": map[string]any{"containers": []any{container}}},
	}}
}

// lateAnswers delays the responses to some requests, after it has called a function.
type lateAnswers struct {
	next     http.RoundTripper
	answered func(*http.Request)
}

func (l lateAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	l.answered(r)
	return resp, err
}

var _ = Suite("reconcile_traps", func(t *testing.T, c *C) {
	c.Run(t, "RC-T1 what the server normalizes and sets by default leads to no applies", func(c *C) {
		source := &kopf.Source{}
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(desiredService("x"), nil)
			r.Desired(desiredDeployment("x"), nil)
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"services", "deployments.apps"}, Sources: []*kopf.Source{source}})
		c.Create("a", nil)
		c.WaitFor("the children", func() bool { return c.Of("v1", "Service").Exists("x") && c.Of("apps/v1", "Deployment").Exists("x") })
		c.Pass(time.Second)
		n := len(op.Wire.Writes())
		for range 5 {
			calls := len(l.all())
			source.TriggerAll()
			c.WaitFor("another call", func() bool { return len(l.all()) > calls })
			c.Pass(200 * time.Millisecond)
		}
		c.nothingWritten(op, n)
		if n > 3 {
			c.Errorf("got %d writes for two children", n)
		}
	})
	c.Run(t, "RC-T2 what is listed at first is called while others change all the time, and so are retries", func(c *C) {
		c.OnlyInBubble("the calls take as long as they take")
		const objects = 60
		var first, retried atomic.Int64
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(ctx context.Context, r *kopf.Reconcile) error {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			if strings.HasPrefix(r.Name(), "busy") {
				return nil
			}
			if r.Attempt.Retry == 0 {
				first.Add(1)
				return kopf.Temporary(fmt.Errorf("not yet"), 100*time.Millisecond)
			}
			retried.Add(1)
			return nil
		}, nil)
		for i := range objects {
			c.Create(fmt.Sprintf("a%02d", i), nil)
		}
		for i := range 5 {
			c.Create(fmt.Sprintf("busy%d", i), nil)
		}
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 1 })
		for round := range 1000 { // more changes than the time allows
			c.Patch(fmt.Sprintf("busy%d", round%5), spec(map[string]any{"round": round}))
			c.Pass(15 * time.Millisecond)
		}
		if first.Load() != objects || retried.Load() != objects {
			c.Errorf("of %d objects, %d were called and %d once more", objects, first.Load(), retried.Load())
		}
	})
	c.Run(t, "RC-T3 writes of the status call nothing, and deletions are not hidden", func(c *C) {
		examples := c.statuses()
		l := &calls{}
		r := &kopf.Registry{}
		r.OnReconcile("kopfstatusexamples.v1.kopf.dev", func(_ context.Context, r *kopf.Reconcile) error {
			l.add("call")
			r.Desired(desiredMap("x", nil), nil)
			r.Patch.Set("status.calls", len(l.all()))
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		r.OnDelete("kopfstatusexamples.v1.kopf.dev", func(context.Context, *kopf.Change) error {
			l.add("deletion")
			return nil
		}, &kopf.ChangeOptions{ID: "delete"})
		c.Operator(r)
		examples.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		for i := range 3 {
			examples.PatchStatus("a", map[string]any{"status": map[string]any{"theirs": i}})
		}
		c.Pass(2 * time.Second)
		c.expect(l, "call")
		c.configMaps().Delete("x") // its generation does not change
		c.WaitFor("the new child", func() bool { return len(l.all()) == 2 && c.configMaps().Exists("x") })
		examples.Delete("a")
		c.WaitFor("the end", func() bool { return !examples.Exists("a") })
		c.expect(l, "call", "call", "deletion")
	})
	c.Run(t, "RC-T4 streams that are late lead neither to doubles nor to wrong deletions", func(c *C) {
		c.OnlyInBubble("streams have to be late")
		late, own := &lateStream{plural: "configmaps"}, &lateStream{plural: "kopfexamples"}
		source := &kopf.Source{}
		op, _ := c.parenting(bySize, &kopf.ReconcileOptions{Sources: []*kopf.Source{source}}, late.of, own.of)
		c.Create("a", spec(map[string]any{"size": 1, "text": "x"}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		late.held.Store(true)
		c.Patch("a", spec(map[string]any{"size": 3}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-2") })
		uids := func() (all []string) {
			for _, b := range c.configMaps().List() {
				all = append(all, b.Name()+" "+b.UID())
			}
			return all
		}
		before, n := uids(), len(op.Wire.Writes())
		own.held.Store(true)
		for range 5 {
			source.TriggerAll()
			c.Pass(200 * time.Millisecond)
		}
		c.nothingWritten(op, n)
		own.held.Store(false)
		late.held.Store(false)
		c.Pass(2 * time.Second)
		c.same("the children", before, uids())
		late.held.Store(true)
		c.Patch("a", spec(map[string]any{"size": 4}))
		c.WaitFor("the fourth", func() bool { return c.configMaps().Exists("a-3") })
		c.Patch("a", spec(map[string]any{"size": 2})) // also for an object that no stream has shown
		c.WaitFor("the end of two", func() bool { return len(uids()) == 2 })
		late.held.Store(false)
		c.Pass(2 * time.Second)
		c.same("the children", before[:2], uids())
	})
	c.Run(t, "RC-T8 a condition that is set in each call keeps its time, and makes no requests", func(c *C) {
		examples, source, l, r := c.statuses(), &kopf.Source{}, &calls{}, &kopf.Registry{}
		r.OnReconcile("kopfstatusexamples.v1.kopf.dev", func(_ context.Context, r *kopf.Reconcile) error {
			l.add("call")
			r.SetCondition(kopf.Condition{Type: "Synced", Status: kopf.ConditionTrue, Reason: "Same"})
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Sources: []*kopf.Source{source}})
		op := c.Operator(r)
		examples.Create("a", nil)
		c.WaitFor("the condition", func() bool { s, _, _ := condition(examples.Get("a"), "Synced"); return s == "True" })
		before, n := examples.Get("a"), len(op.Wire.Writes())
		for range 3 {
			c.Pass(2 * time.Second)
			calls := len(l.all())
			source.TriggerAll()
			c.WaitFor("another call", func() bool { return len(l.all()) > calls })
		}
		c.Pass(time.Second)
		c.nothingWritten(op, n)
		c.same("the conditions", before.Get("status.conditions"), examples.Get("a").Get("status.conditions"))
	})
	c.Run(t, "RC-T9 a field that is not wanted any more goes, and the owner keeps the finalizers of others", func(c *C) {
		c.parenting(func(r *kopf.Reconcile) error {
			data := map[string]any{"always": "1"}
			if r.Spec().Bool("more") {
				data["more"] = "2"
			}
			r.Desired(desiredMap("x", data), nil)
			r.Patch.Set("status.more", r.Spec().Bool("more"))
			return nil
		}, nil)
		owner := spec(map[string]any{"more": true})
		owner["metadata"] = map[string]any{"finalizers": []any{"example.com/theirs"}}
		c.Create("a", owner)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Patch("a", spec(map[string]any{"more": false}))
		c.WaitFor("the end of the field", func() bool { return !c.configMaps().Get("x").Has("data.more") })
		c.WaitFor("the status", func() bool { return !c.Get("a").Status().Bool("more") })
		c.same("the data", map[string]any{"always": "1"}, c.configMaps().Get("x").Get("data"))
		c.same("the finalizers", []string{"example.com/theirs"}, c.Get("a").Finalizers())
		if managers := fmt.Sprint(c.configMaps().Get("x").Get("metadata.managedFields")); strings.Contains(managers, "Update") {
			c.Errorf("the child was updated: %s", managers)
		}
		if managers := fmt.Sprint(c.Get("a").Get("metadata.managedFields")); strings.Contains(managers, "operation:Apply") {
			c.Errorf("the owner was applied: %s", managers)
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	})
	c.Run(t, "RC-T10 who is dropped by what is watched is called as well, and knows why", func(c *C) {
		l := &calls{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			for _, t := range r.Triggers {
				l.add("%s %s %s", r.Name(), t.Reason, t.Object.Name)
			}
			return nil
		}, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", Objects: func(w *kopf.Watched) []kopf.ObjectReference {
			return []kopf.ObjectReference{{Namespace: w.Namespace(), Name: w.Body.View("data").String("to")}}
		}}}})
		c.configMaps().Create("link", map[string]any{"data": map[string]any{"to": "a"}})
		c.Create("a", nil)
		c.Create("b", nil)
		c.Operator(r)
		c.WaitFor("the first calls", func() bool { return len(l.all()) == 2 })
		l.forget()
		c.configMaps().Patch("link", map[string]any{"data": map[string]any{"to": "b"}})
		c.WaitFor("both calls", func() bool { return len(l.all()) == 2 })
		for _, want := range []string{"a Watched link", "b Watched link"} {
			if !strings.Contains(strings.Join(l.all(), "\n"), want) {
				c.Errorf("got the calls %v, want one %s", l.all(), want)
			}
		}
	})
	c.Run(t, "RC-42 a child that is gone before the answer to its apply has come is made again", func(c *C) {
		var made atomic.Int32
		c.parenting(bySize, nil, func(op *kopf.Operator) {
			op.Connection.HTTPClient.Transport = lateAnswers{op.Connection.HTTPClient.Transport, func(r *http.Request) {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/a-0") && made.Add(1) <= 2 {
					if made.Load() == 2 {
						time.Sleep(100 * time.Millisecond) // until the stream shows it
					}
					c.configMaps().Delete("a-0")
					time.Sleep(time.Second)
				}
			}}
		})
		c.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the child", func() bool { return made.Load() == 3 && c.configMaps().Exists("a-0") })
	})
})
