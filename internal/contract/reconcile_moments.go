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

// This suite proves what triggers reconcile handlers in unusual situations: when watches expire, namespaces are added, workers are busy, and children
// change unexpectedly.

// byNote maps a watched config map to the object in its key "owner".
func byNote(namespace string) func(*kopf.Watched) []kopf.ObjectReference {
	return func(w *kopf.Watched) []kopf.ObjectReference {
		return []kopf.ObjectReference{{Namespace: namespace, Name: w.Body.View("data").String("owner")}}
	}
}

func about(owner string) map[string]any {
	return map[string]any{"data": map[string]any{"owner": owner}}
}

// expired ends the watches of a plural. The server answers the next ones that their version is too old, the given number of times.
func expired(op *Running, plural string, meanwhile func()) {
	var once, lists atomic.Bool
	op.Wire.Fault(func(q *Request) (*http.Response, error) {
		if q.Method != http.MethodGet || !strings.Contains(q.Path, "/"+plural+"?") || lists.Load() {
			return nil, nil
		}
		if !strings.Contains(q.Path, "watch=true") {
			lists.Store(!strings.HasSuffix(q.Path, "limit=1")) // otherwise only the version is read
			return nil, nil
		}
		if !once.Swap(true) {
			meanwhile()
		}
		return Answer(http.StatusGone, "Expired", "too old resource version"), nil
	})
	op.Wire.Drop()
}

var _ = Suite("reconcile_moments", func(t *testing.T, c *C) {
	for name, named := range map[string]bool{"for the objects that it names": true, "for all objects": false} {
		c.Run(t, "RC-12 a watched object that is made while its watch has expired is noticed "+name, func(c *C) {
			c.OnlyInBubble("watches are made to expire")
			var l reconciles
			w := kopf.Watch{Of: "configmaps"}
			if named {
				w.Objects = byNote(c.Namespace)
			}
			op := c.Reconciled(&l, &kopf.ReconcileOptions{Watches: []kopf.Watch{w}})
			c.Create("a", nil)
			c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
			c.Pass(time.Minute)
			expired(op, "configmaps", func() { c.configMaps().Create("x", about("a")) })
			c.Pass(time.Hour)
			c.same("the calls", []string{"a First", "a Watched"}, l.all())
		})
	}
	c.Run(t, "RC-12 an object that comes to fit the labels of a watch is noticed", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l reconciles
		c.configMaps().Create("x", about("a"))
		c.Create("a", nil)
		c.Reconciled(&l, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", Labels: kopf.Match{"about": "things"}, Objects: byNote(c.Namespace)}}})
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		c.Pass(time.Minute)
		c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"about": "things"}}})
		c.Pass(time.Hour)
		c.same("the calls", []string{"a First", "a Watched"}, l.all())
	})
	c.Run(t, "RC-12 so is one in a namespace that has just come", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l reconciles
		c.Create("a", nil)
		other := c.Unique("other")
		late := &lateStream{plural: "namespaces"}
		c.Reconciled(&l, &kopf.ReconcileOptions{Watches: []kopf.Watch{{Of: "configmaps", Objects: byNote(c.Namespace)}}}, in(other), late.of)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
		c.Pass(time.Minute)
		late.held.Store(true)
		c.namespace("other")
		c.configMaps().In(other).Create("x", about("a"))
		late.held.Store(false)
		c.Pass(time.Hour)
		c.same("the calls", []string{"a First", "a Watched"}, l.all())
		c.configMaps().In(other).Patch("x", map[string]any{"data": map[string]any{"more": "1"}})
		c.Pass(time.Minute)
		if n := l.count("a Watched"); n == 0 {
			c.Error("the namespace is not watched at all")
		}
	})
	c.Run(t, "RC-25 a call that waits for a worker does not begin in a pause", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		table := c.meet()
		l, r, end := &calls{}, &kopf.Registry{}, make(chan struct{})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s", r.Name())
			<-end
			return nil
		}, nil)
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Execution.MaxWorkers = 1 })
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Create("b", nil)
		c.Pass(time.Second)
		table.sit("boss", rival(100, 600))
		c.paused(op, 1)
		c.Pass(5 * time.Second)
		close(end)
		c.Pass(time.Minute)
		c.same("the calls before the end of the pause", []string{"a"}, l.all())
	})
	c.Run(t, "a call that has waited for a worker gets the newest state", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		l, r, end := &calls{}, &kopf.Registry{}, make(chan struct{})
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("%s %d", r.Name(), r.Spec().Int("size"))
			if r.Name() == "a" {
				<-end
			}
			return nil
		}, nil)
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Execution.MaxWorkers = 1 })
		c.Create("a", nil)
		c.WaitFor("the first call", func() bool { return len(l.all()) == 1 })
		c.Create("b", spec(map[string]any{"size": 1}))
		c.Pass(time.Second)
		c.Patch("b", spec(map[string]any{"size": 2}))
		c.Pass(time.Hour)
		close(end)
		c.Pass(time.Minute)
		c.same("the calls", []string{"a 0", "b 2"}, l.all())
	})
	c.Run(t, "RC-44 an adopted object is made anew if a field of it is immutable", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		c.configMaps().Create("x", map[string]any{"data": map[string]any{"text": "theirs"}, "immutable": true})
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			if r.Name() == "a" {
				r.Desired(desiredMap("x", map[string]any{"text": "ours"}), &kopf.DesiredOptions{Adopt: true, Recreate: true})
			}
			return nil
		}, nil)
		c.Create("a", nil)
		c.Pass(time.Minute)
		c.Create("b", nil) // an unrelated object
		c.Pass(time.Minute)
		if !slices.Contains(l.all(), "b") {
			c.Errorf("got the calls %v: the handler is not called any more for any object", l.all())
		}
		c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"finalizers": nil}}) // as the garbage collector does
		c.Pass(time.Minute)
		c.same("the text of the child", "ours", c.configMaps().Get("x").View("data").String("text"))
		for _, line := range op.Logs.Find("panic") {
			c.Errorf("got the line %v", line)
		}
	})
	c.Run(t, "children are served in another version while their owners are called", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		c.Define(c.gadgets())
		source, other := &kopf.Source{}, c.namespace("other")
		op, l := c.parenting(func(r *kopf.Reconcile) error {
			r.Desired(map[string]any{"apiVersion": c.Unique("leaf") + ".dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": r.Name(), "namespace": other}}, nil)
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{kopf.Selector("gadgets." + c.Unique("leaf") + ".dev")}, Sources: []*kopf.Source{source}}, in(other))
		for i := range 10 {
			c.Create(fmt.Sprint("a", i), nil)
		}
		c.WaitFor("the children", func() bool { return len(c.gadget().In(other).List()) == 10 })
		c.Pass(time.Minute)
		var ends atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for !ends.Load() {
				source.TriggerAll()
				time.Sleep(time.Millisecond)
			}
		}()
		c.setVersions(crdVersion("v1", true, true), crdVersion("v2", true, false))
		c.WaitFor("the other version", func() bool { return len(op.Logs.Find("Serving the resource in another version")) > 0 })
		c.Pass(100 * time.Millisecond)
		ends.Store(true)
		<-ended
		c.Pass(time.Minute)
		if len(l.all()) < 20 {
			c.Errorf("got %d calls only", len(l.all()))
		}
	})
})
