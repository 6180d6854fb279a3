package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that kopf does not process an object repeatedly while its reconcile handlers are due and cannot be called yet.

// looks counts how often an operator processes objects. It creates a logger each time. If that is too often, it lets time pass, so that the loop ends.
type looks struct {
	slog.Handler
	n *atomic.Int64
}

// of counts for an operator.
func (l *looks) of(op *kopf.Operator) {
	l.Handler, l.n = op.Logger.Handler(), &atomic.Int64{}
	op.Logger = slog.New(l)
}

// WithAttrs counts the processing of an object.
func (l *looks) WithAttrs(attrs []slog.Attr) slog.Handler {
	if l.n.Add(1) > 10_000 {
		time.Sleep(time.Second) // otherwise the clock of the bubble would not move in a hot loop
	}
	return &looks{l.Handler.WithAttrs(attrs), l.n}
}

var _ = Suite("reconcile_loops", func(t *testing.T, c *C) {
	c.Run(t, "RC-29 an object whose patch cannot be sent waits for the end of the pause", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		l := &looks{}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.Patch.Set("status.retry", r.Retry)
			r.RequeueAfter(100 * time.Millisecond)
			return nil
		}, nil)
		op := c.Operator(r, l.of)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch {
				return nil, errors.New("the network is down")
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.Pass(time.Hour)
		if n := l.n.Load(); n > 500 {
			c.Errorf("it was looked at %d times", n)
		}
	})
	c.Run(t, "RC-29 an object that has gone, as its patch has shown, waits for its stream", func(c *C) {
		c.OnlyInBubble("the stream has to be late")
		l, late := &looks{}, &lateStream{plural: "kopfexamples"}
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			time.Sleep(time.Second)
			r.Patch.Set("status.phase", "x")
			r.RequeueAfter(100 * time.Millisecond)
			return nil
		}, nil)
		c.Operator(r, l.of, late.of)
		c.Create("a", nil)
		c.Pass(100 * time.Millisecond)
		late.held.Store(true)
		c.Delete("a")
		c.Pass(time.Minute)
		late.held.Store(false)
		if n := l.n.Load(); n > 500 {
			c.Errorf("it was looked at %d times", n)
		}
	})
	remadeChildren(t, c)
	foreignWrites(t, c)
	unseenWrites(t, c)
})

// remadeChildren checks children that are deleted as often as kopf makes them.
func remadeChildren(t *testing.T, c *C) {
	for name, finalizers := range map[string][]any{"is gone": nil, "is being deleted": {"example.com/theirs"}} {
		c.Run(t, "DF-93 the child of an owner that "+name+" is not made again, though the stream of the owner is silent", func(c *C) {
			c.OnlyInBubble("the stream has to be late")
			late := &lateStream{plural: "kopfexamples"}
			c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": finalizers}, "spec": map[string]any{"size": 1}})
			op, l := c.parenting(bySize, nil, late.of)
			c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
			c.Pass(time.Second)
			late.held.Store(true)
			n := len(applies(op))
			c.Delete("a")
			for range 600 {
				if c.configMaps().Exists("a-0") {
					c.configMaps().Delete("a-0")
				}
				c.Pass(100 * time.Millisecond)
			}
			if got := len(applies(op)) - n; got > 0 {
				c.Errorf("got %d applies of the child in a minute, want none", got)
			}
			calls := len(l.all())
			if calls > 5 {
				c.Errorf("got %d calls in a minute", calls)
			}
			late.held.Store(false)
			c.Pass(time.Minute)
			if got := len(l.all()); got != calls {
				c.Errorf("got %d calls after the deletion has come, want none", got-calls)
			}
		})
	}
	c.Run(t, "DF-93 a child that another client deletes again and again is made ever more slowly, and at last", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		op, _ := c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 2}))
		c.WaitFor("the children", func() bool { return c.configMaps().Exists("a-1") })
		for range 6000 {
			if c.configMaps().Exists("a-0") {
				c.configMaps().Delete("a-0")
			}
			c.Pass(100 * time.Millisecond)
		}
		if n := len(applies(op)); n > 30 {
			c.Errorf("got %d applies in ten minutes", n)
		}
		if lines := op.Logs.Find("Another client deletes a child again and again; slowing down"); len(lines) != 1 {
			c.Errorf("got %d warnings, want 1", len(lines))
		}
		c.Pass(2 * time.Minute)
		if !c.configMaps().Exists("a-0") {
			c.Error("the child is missing")
		}
		n := len(applies(op))
		c.configMaps().Delete("a-0")
		c.Pass(time.Second)
		if got := len(applies(op)) - n; got != 1 {
			c.Errorf("got %d applies after one deletion long afterwards, want 1 at once", got)
		}
	})
}

// foreignWrites checks that the answers to applies do not hide what another client has written just before them.
func foreignWrites(t *testing.T, c *C) {
	deployment := func(r *kopf.Reconcile) *kopf.Child { // after a restart, only an apply can judge it
		labels := map[string]any{"app": r.Name()}
		return r.Desired(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{
			"replicas": 0, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}}},
		}}, nil)
	}
	configMap := func(r *kopf.Reconcile) *kopf.Child {
		return r.Desired(desiredMap(r.Name(), map[string]any{"text": r.Spec().String("text")}), nil)
	}
	for _, tt := range []struct {
		name, apiVersion, kind string
		owns                   kopf.Selector
		child                  func(r *kopf.Reconcile) *kopf.Child
		change                 map[string]any // nil for none
	}{
		{"of nothing", "apps/v1", "Deployment", "deployments.apps", deployment, nil},
		{"of a change", "v1", "ConfigMap", "configmaps", configMap, spec(map[string]any{"text": "other"})},
	} {
		c.Run(t, "DF-50 what another client writes just before an apply "+tt.name+" calls the handler", func(c *C) {
			kind := c.Of(tt.apiVersion, tt.kind)
			var seen calls
			operator := func(adjust ...func(*kopf.Operator)) *Running {
				op, _ := c.parenting(func(r *kopf.Reconcile) error {
					var body kopf.Body
					if child := tt.child(r); child.Exists() && child.Get(context.Background(), &body) == nil {
						theirs, _ := body.Annotation("example.com/theirs")
						seen.add("theirs %s", theirs)
					}
					return nil
				}, &kopf.ReconcileOptions{Owns: []kopf.Selector{tt.owns}}, adjust...)
				return op
			}
			c.Create("a", spec(map[string]any{"text": "x"}))
			op := operator()
			c.WaitFor("the child", func() bool { return kind.Exists("a") })
			c.Pass(2 * time.Second)
			op.Stop()
			var n atomic.Int32
			operator(wired(func(q *Request) (*http.Response, error) {
				if path, _, _ := strings.Cut(q.Path, "?"); q.Method == http.MethodPatch && strings.HasSuffix(path, "s/a") && !strings.Contains(path, "kopfexamples") {
					kind.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/theirs": fmt.Sprint(n.Add(1))}}})
				}
				return nil, nil
			}))
			c.WaitFor("a call", func() bool { return len(seen.all()) > 0 })
			if c.Pass(2 * time.Second); tt.change != nil {
				c.Patch("a", tt.change)
			}
			c.WaitFor("an apply", func() bool { return n.Load() > 0 })
			c.Pass(2 * time.Second)
			if all, want := seen.all(), fmt.Sprintf("theirs %d", n.Load()); all[len(all)-1] != want {
				c.Errorf("the calls have seen %q, want %q at last", all, want)
			}
			if n.Load() > 2 {
				c.Errorf("got %d applies, want 2 at most", n.Load())
			}
		})
	}
}

// withoutEvents answers the watches of a kind with silent streams until the returned function is
// called. A new list follows.
func (w *Wire) withoutEvents(plural string) (end func()) {
	const silent, expired, over = 0, 1, 2
	var mode atomic.Int32
	stream, events := io.Pipe()
	w.Fault(func(q *Request) (*http.Response, error) {
		switch path, query, _ := strings.Cut(q.Path, "?"); {
		case !strings.HasSuffix(path, "/"+plural) || !strings.Contains(query, "watch=true"):
		case mode.Load() == silent:
			resp := document("")
			resp.Body = stream
			return resp, nil
		case mode.CompareAndSwap(expired, over):
			return Answer(http.StatusGone, "Expired", "too old resource version"), nil
		}
		return nil, nil
	})
	w.Drop()
	return func() {
		mode.Store(expired)
		_ = events.Close() // it never fails
	}
}

// unseenWrites checks that answers to applies do not hide what another client has written before
// them. No event shows it, and the new list shows the version of the answer.
func unseenWrites(t *testing.T, c *C) {
	claim := func(r *kopf.Reconcile) map[string]any {
		labels := map[string]any{"size": fmt.Sprint(r.Spec().Int("size"))}
		return map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": r.Name(), "labels": labels},
			"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
		}
	}
	configMap := func(r *kopf.Reconcile) map[string]any {
		m := desiredMap(r.Name(), nil)
		m["metadata"].(map[string]any)["labels"] = map[string]any{"size": fmt.Sprint(r.Spec().Int("size"))}
		delete(m, "data")
		return m
	}
	bound := map[string]any{"status": map[string]any{"phase": "Bound"}}
	data := map[string]any{"data": map[string]any{"theirs": "x"}}
	volume := map[string]any{"spec": map[string]any{"volumeName": "pv-1"}}
	annotated := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"pv.kubernetes.io/bind-completed": "yes"}}}
	for _, tt := range []struct {
		name, kind string
		owns       kopf.Selector
		child      func(r *kopf.Reconcile) map[string]any
		fields     []kopf.FieldPath
		write      func(k *Kind)
		again      int // further calls, and applies that find another version than the known one
	}{
		{"the status", "PersistentVolumeClaim", "persistentvolumeclaims", claim, nil, func(k *Kind) { k.PatchStatus("a", bound) }, 1},
		{"the status of a child with ChildFields", "PersistentVolumeClaim", "persistentvolumeclaims", claim,
			[]kopf.FieldPath{"status.phase"}, func(k *Kind) { k.PatchStatus("a", bound) }, 1},
		{"the data", "ConfigMap", "configmaps", configMap, nil, func(k *Kind) { k.Patch("a", data) }, 1},
		{"an annotation", "PersistentVolumeClaim", "persistentvolumeclaims", claim, nil, func(k *Kind) { k.Patch("a", annotated) }, 1},
		{"an annotation of a child with ChildFields", "PersistentVolumeClaim", "persistentvolumeclaims", claim,
			[]kopf.FieldPath{"metadata.annotations"}, func(k *Kind) { k.Patch("a", annotated) }, 1},
		{"a field next to those of kopf", "PersistentVolumeClaim", "persistentvolumeclaims", claim, nil, func(k *Kind) { k.Patch("a", volume) }, 1},
		{"nothing", "PersistentVolumeClaim", "persistentvolumeclaims", claim, []kopf.FieldPath{"spec.resources", "metadata.labels.size"}, func(*Kind) {}, 0},
	} {
		c.Run(t, "DF-50 an apply does not hide that another client has written "+tt.name+", though the new list shows its answer", func(c *C) {
			c.OnlyInBubble("the stream has to lose events")
			k := c.Of("v1", tt.kind)
			var seen calls
			op, _ := c.parenting(func(r *kopf.Reconcile) error {
				var body kopf.Body
				if child := r.Desired(tt.child(r), nil); child.Exists() && child.Get(context.Background(), &body) == nil {
					seen.add("%t %v %v", child.Ready(), body.Get("status.phase"), body.Get("data"))
				}
				return nil
			}, &kopf.ReconcileOptions{Owns: []kopf.Selector{tt.owns}, ChildFields: map[kopf.Selector][]kopf.FieldPath{tt.owns: tt.fields}})
			c.Create("a", size(1))
			c.WaitFor("the child", func() bool { return k.Exists("a") })
			c.Pass(time.Minute)
			hear := op.Wire.withoutEvents(string(tt.owns))
			c.Pass(time.Minute)
			seen.forget()
			var applies atomic.Int64
			op.Wire.Fault(func(q *Request) (*http.Response, error) {
				if q.Method == http.MethodPatch && strings.Contains(q.Path, "/"+string(tt.owns)+"/") {
					applies.Add(1)
				}
				return nil, nil
			})
			tt.write(k)
			c.Patch("a", size(2))
			c.WaitFor("the apply", func() bool { return k.Get("a").Labels()["size"] == "2" })
			c.Pass(time.Second)
			hear()
			c.Pass(time.Minute)
			if n := len(seen.all()); n != 1+tt.again {
				c.Errorf("got the calls %q, want %d", seen.all(), 1+tt.again)
			}
			if n := applies.Load(); n != int64(1+tt.again) {
				c.Errorf("got %d applies, want %d", n, 1+tt.again)
			}
		})
	}
}
