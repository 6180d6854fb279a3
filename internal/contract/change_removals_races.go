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

// This suite proves removals in patches while other clients and kopf itself write.

var _ = ClusterSuite("change_removals_races", func(t *testing.T, c *C) {
	removingOldState(t, c)
	removingConditions(t, c)
	removingHTML(t, c)
	removingWhatChanges(t, c)
	removingWhatAppears(t, c)
	removingInViews(t, c)
})

// removingWhatAppears has a client that adds the removed object while the request is on its way.
func removingWhatAppears(t *testing.T, c *C) {
	c.Run(t, "DF-38 a field below a removed one is stored alone, although another client adds the object meanwhile", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Remove("spec.a")
			ch.Patch.Set("spec.a.b", "2")
			return nil
		}, named("create"))
		op := c.Operator(r)
		var once atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, `"b":"2"`) && once.CompareAndSwap(false, true) {
				c.Patch("a", spec(map[string]any{"a": map[string]any{"old": "1"}}))
			}
			return nil, nil
		})
		c.Create("a", spec(map[string]any{"x": "1"}))
		c.handled("a")
		c.Pass(5 * time.Second)
		if got := fmt.Sprint(c.Get("a").Get("spec.a")); got != "map[b:2]" {
			c.Errorf("got %s by the patches %s; warnings %v", got, patches(op), op.Logs.Find("Fields of a patch"))
		}
	})
}

// removingOldState delays the request of a timer until kopf has stored its own state.
func removingOldState(t *testing.T, c *C) {
	for name, test := range map[string]struct {
		place kopf.Storage
		fill  func(*kopf.Patch)
	}{
		"the status, with the state in the status": {kopf.InStatus, func(p *kopf.Patch) {
			p.Remove("status")
			p.SetAnnotation("kubectl.kubernetes.io/last-applied-configuration", "tick")
		}},
		"the annotations, with the state in annotations": {kopf.InAnnotations, func(p *kopf.Patch) { p.Remove("metadata.annotations"); p.Set("status.tick", "1") }},
	} {
		c.Run(t, "DF-38 a timer that removes all of "+name+", does not bring back older state of kopf", func(c *C) {
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, l.handler("create"), named("create"))
			r.OnUpdate(statusExamples, func(_ context.Context, ch *kopf.Change) error {
				l.add("update %v", ch.Body.Get("spec.x"))
				return nil
			}, &kopf.ChangeOptions{ID: "update", Field: "spec.x"})
			var ticks atomic.Int32
			r.OnTimer(statusExamples, func(_ context.Context, x *kopf.Timer) error {
				if ticks.Add(1) > 1 {
					return nil
				}
				test.fill(x.Patch)
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Hour, InitialDelay: 5 * time.Second, WithoutFinalizer: true})
			op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Persistence.Storage = test.place })
			k := c.Of("kopf.dev/v1", "KopfStatusExample")
			held, release := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			op.Wire.Fault(func(req *Request) (*http.Response, error) {
				if req.Method == http.MethodPatch && strings.Contains(req.Body, "tick") && once.CompareAndSwap(false, true) {
					close(held)
					<-release
				}
				return nil, nil
			})
			k.Create("a", spec(map[string]any{"x": 1}))
			<-held // on its way
			k.Patch("a", spec(map[string]any{"x": 2}))
			c.WaitFor("the update", func() bool { return l.count("update 2") == 1 })
			c.Pass(2 * time.Second)
			close(release)
			c.WaitFor("the tick", func() bool {
				return strings.Contains(fmt.Sprint(k.Get("a").Annotations(), k.Get("a").Status().Map()), "tick")
			})
			c.Pass(10 * time.Second)
			if l.count("update") != 1 || l.count("create") != 1 {
				c.Errorf("the calls: %q; the patches: %s", l.all(), strings.Join(patches(op), "\n"))
			}
		})
	}
}

// removingConditions has a timer that rebuilds its status.
func removingConditions(t *testing.T, c *C) {
	for _, place := range []kopf.Storage{kopf.InStatus, kopf.InAnnotations} {
		c.Run(t, fmt.Sprintf("DF-38 a timer that removes the status and sets a condition sends nothing when nothing changes, with the state in place %v", place), func(c *C) {
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, l.handler("create"), named("create"))
			r.OnTimer(statusExamples, func(_ context.Context, x *kopf.Timer) error {
				l.add("timer")
				x.Patch.Remove("status")
				x.Patch.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Fine"})
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Second, WithoutFinalizer: true})
			op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Persistence.Storage = place })
			k := c.Of("kopf.dev/v1", "KopfStatusExample")
			k.Create("a", spec(map[string]any{"x": 1}))
			c.WaitFor("calls", func() bool { return l.count("timer") > 5 })
			n := len(patches(op))
			since := fmt.Sprint(k.Get("a").Get("status.conditions"))
			c.WaitFor("more calls", func() bool { return l.count("timer") > 10 })
			if m := len(patches(op)); m != n {
				c.Errorf("%d and then %d patches, the conditions %v and then %v:\n%s", n, m, since, k.Get("a").Get("status.conditions"), strings.Join(patches(op)[n:min(n+4, m)], "\n"))
			}
		})
	}
}

func removingHTML(t *testing.T, c *C) {
	for name, test := range map[string]struct {
		fill func(p *kopf.Patch)
		done func(b *kopf.Body) bool
	}{
		"a field that is removed and set": {func(p *kopf.Patch) { p.Remove("spec.a"); p.Set("spec.a.b", "2") }, func(b *kopf.Body) bool { return b.Get("spec.a.b") == "2" && b.Get("spec.a.command") == nil }},
		"all annotations":                 {func(p *kopf.Patch) { p.Remove("metadata.annotations") }, func(b *kopf.Body) bool { _, ok := b.Annotation("mine"); return !ok }},
	} {
		c.Run(t, "DF-38 the characters <, > and & do not matter for "+name, func(c *C) {
			r := &kopf.Registry{}
			r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error { test.fill(ch.Patch); return nil }, named("update"))
			k := c.Of("kopf.dev/v1", "KopfExample")
			op := c.Operator(r)
			k.Create("a", map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"mine": "https://example.com/?a=1&b=2"}},
				"spec":     map[string]any{"a": map[string]any{"command": "a < b && c > d"}},
			})
			c.handled("a")
			k.Patch("a", spec(map[string]any{"x": "1"}))
			c.Pass(5 * time.Second)
			if b := k.Get("a"); !test.done(b) {
				c.Errorf("the object is %v, the log has %v", b.Map(), append(op.Logs.Find("failed"), op.Logs.Find("refused")...))
			}
		})
	}
}

// removingWhatChanges has a client that changes another key of the removed object all the time.
func removingWhatChanges(t *testing.T, c *C) {
	c.Run(t, "DF-38 an object whose status another client changes all the time is deleted", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		r := &kopf.Registry{}
		r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Remove("status.a")
			ch.Patch.Set("status.a.b", "1")
			return nil
		}, named("delete"))
		op := c.Operator(r)
		k := c.Of("kopf.dev/v1", "KopfStatusExample")
		n := 0
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, `"b":"1"`) { // another client is faster each time
				n++
				k.PatchStatus("a", map[string]any{"status": map[string]any{"a": map[string]any{"beat": n}}})
			}
			return nil, nil
		})
		k.Create("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the finalizer", func() bool { return len(k.Get("a").Finalizers()) > 0 })
		k.PatchStatus("a", map[string]any{"status": map[string]any{"a": map[string]any{"old": 1}}})
		k.Delete("a")
		c.Pass(10 * time.Minute)
		if k.Exists("a") {
			c.Errorf("it still exists after %d attempts: %s", n, patches(op)[len(patches(op))-1])
		}
	})
}

// removingInViews proves that others see a removal as it will be stored.
func removingInViews(t *testing.T, c *C) {
	c.Run(t, "DF-38 the audit and the next handler show kopf's own state as kept when a handler removes all annotations", func(c *C) {
		var l auditLog
		var next string
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Remove("metadata.annotations"); return nil }, named("first"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			next = fmt.Sprint(ch.Body.Annotations())
			return nil
		}, named("second"))
		c.Operator(r, l.attach)
		c.Create("a", spec(map[string]any{"x": "1"}))
		c.handled("a")
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"mine": "1"}}})
		c.WaitFor("the removal", func() bool { _, ok := c.Get("a").Annotation("mine"); return !ok })
		c.handled("a")
		text := fmt.Sprint(l.calls())
		if strings.Contains(text, "kopf.zalando.org") || !strings.Contains(next, "kopf.zalando.org") {
			c.Errorf("the audit: %s; the next handler sees the annotations %s; stored %v", text, next, c.Get("a").Annotations())
		}
	})
}
