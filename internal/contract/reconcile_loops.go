package contract

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
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
})
