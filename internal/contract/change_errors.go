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

// This suite proves that kopf loses nothing when errors occur, in 1-change-handling.md.

var _ = Suite("change_errors", func(t *testing.T, c *C) { robust(t, c) })

func robust(t *testing.T, c *C) {
	c.Run(t, "CH-T3 an event whose processing has failed is processed again", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h"), named("h"))
		op := c.Operator(r)
		var failures atomic.Int64
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && failures.Add(1) <= 30 {
				return Answer(500, "InternalError", "asked for"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "h create 0") // and this does not call the handler again (CH-T4)
	})
	c.Run(t, "CH-T42 what was deleted while nobody watched is noticed", func(c *C) {
		c.OnlyInBubble("the watch is to be lost")
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("%s %s", e.Type, e.Name())
			return nil
		}, &kopf.EventOptions{ID: "event"})
		op := c.Operator(r)
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.Create("b", nil)
		c.WaitFor("both", func() bool { return len(l.all()) == 2 })
		var gone atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "watch=true") && strings.Contains(req.Path, "kopfexamples") && gone.CompareAndSwap(false, true) {
				return Answer(410, "Expired", "too old"), nil
			}
			return nil, nil
		})
		hold := make(chan struct{})
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "kopfexamples") {
				<-hold
			}
			return nil, nil
		})
		op.Wire.Drop()
		c.Pass(time.Second)
		c.Delete("a")
		close(hold)
		c.WaitFor("the deletion", func() bool { return l.count("DELETED a") == 1 })
		c.Pass(10 * time.Second)
		if n := l.count(" b"); n != 0 {
			c.Errorf("the object that has not changed was seen again %d times", n)
		}
	})
	c.Run(t, "one slow handler delays no other object", func(c *C) {
		release := make(chan struct{})
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Name() == "slow" {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			l.add("%s", ch.Name())
			return nil
		}, named("h"))
		c.Operator(r)
		c.Create("slow", nil)
		c.Create("quick", nil)
		c.handled("quick")
		c.expect(&l, "quick")
		close(release)
		c.handled("slow")
	})
	c.Run(t, "objects of other namespaces go on when a namespace is not served any more", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h", kopf.Temporary(errOops, time.Hour)), named("h"))
		spaces := c.Of("v1", "Namespace")
		spaces.Create("second", nil)
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, "second"} })
		c.Create("a", nil)
		c.Pass(time.Minute)
		spaces.Delete("second")
		c.WaitFor("the end of the namespace", func() bool { return !spaces.Exists("second") })
		c.handled("a")
		c.expect(&l, "h create 0", "h create 1")
		op.Stop()
	})
	c.Run(t, "CH-T21 damaged records count as none", func(c *C) {
		var l calls
		c.Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/h": "not json"}}})
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h"), named("h"))
		c.Operator(r)
		c.handled("a")
		c.expect(&l, "h create 0")
	})
	c.Run(t, "CH-T48 a predicate that panics does not match", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("bad"), &kopf.ChangeOptions{ID: "bad", When: func(*kopf.Change) bool { panic("boom") }})
		r.OnCreate(Examples, l.handler("good"), named("good"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "good create 0")
		if len(op.Logs.Find("A filter of a handler panicked")) != 1 {
			c.Error("the panic is not in the log, or more than once")
		}
	})
}
