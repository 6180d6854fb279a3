package contract

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves when kopf calls the handlers for the start and the end of leading, in 7-availability.md.

// slowLeader is a log that writes the message about the new leader slowly.
type slowLeader struct {
	slog.Handler
	takes time.Duration
}

func (s slowLeader) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "Became the leader" {
		time.Sleep(s.takes) // the duration of a slow log
	}
	return s.Handler.Handle(ctx, r)
}

func (s slowLeader) WithAttrs(attrs []slog.Attr) slog.Handler {
	return slowLeader{s.Handler.WithAttrs(attrs), s.takes}
}

// leading returns handlers for the start and the end of leading. They record their calls.
func leading(l *calls, started func(ctx context.Context) error) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(context.Context, *kopf.Change) error { l.add("creates"); return nil }, &kopf.ChangeOptions{ID: "create"})
	r.OnStartedLeading(func(ctx context.Context, _ *kopf.Activity) error {
		l.add("starts")
		err := started(ctx)
		l.add("has started")
		return err
	}, &kopf.ActivityOptions{ID: "started"})
	r.OnStoppedLeading(func(context.Context, *kopf.Activity) error { l.add("stops"); return nil }, &kopf.ActivityOptions{ID: "stopped"})
	return r
}

// tight sets durations of the election that differ little.
func tight(op *kopf.Operator) {
	s := &op.Settings.LeaderElection
	s.LeaseDuration, s.RenewDeadline, s.RetryPeriod = 501*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
}

var _ = Suite("leader_election_callbacks", func(t *testing.T, c *C) {
	c.Run(t, "HA-19 the leading does not start when the answer by which the Lease is got comes after its time", func(c *C) {
		c.OnlyInBubble("the server has to be slow")
		var l calls
		var slow atomic.Bool
		slow.Store(true)
		a := c.Replica(leading(&l, func(context.Context) error { return nil }), tight, func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				if !slow.Load() || !strings.Contains(req.URL.Path, "/leases") || req.Method == http.MethodGet {
					return base.RoundTrip(req)
				}
				resp, err := base.RoundTrip(req.WithContext(contextWithout(req.Context()))) // the response comes, however late
				time.Sleep(700 * time.Millisecond)
				return resp, err
			})}
		})
		c.Pass(time.Minute)
		c.same("the calls", nil, l.all())
		if lines := a.Logs.Find("Became the leader"); len(lines) > 0 {
			c.Errorf("the replica became the leader for no time at all, %d times", len(lines))
		}
		slow.Store(false)
		c.leads(a)
		c.WaitFor("the start", func() bool { return l.count("has started") == 1 })
		if former := a.Logs.Find("Became the leader")[0].Attrs["former"]; former != "" {
			c.Errorf("got the former holder %q, want none: it was this replica", former)
		}
	})
	c.Run(t, "HA-19 the leading does not start when the process has stood still until the end of the Lease", func(c *C) {
		c.OnlyInBubble("the process has to stand still")
		var l calls
		a := c.Replica(leading(&l, func(context.Context) error { return nil }), tight, func(op *kopf.Operator) {
			op.Logger = slog.New(slowLeader{op.Logger.Handler(), 600 * time.Millisecond})
		})
		c.Pass(time.Minute)
		if l.count("starts") > 0 {
			c.Errorf("got the calls %q, want no start after the end of the Lease", l.all())
		}
		if n := len(a.Logs.Find("Lost the leadership")); l.count("stops") != n || n == 0 {
			c.Errorf("got %d calls for the end of the leading, want one for each of %d losses", l.count("stops"), n)
		}
	})
	c.Run(t, "HA-19 the end of the leading is called once for each time, also if its start has failed for now", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		var l calls
		a := c.Replica(leading(&l, func(context.Context) error { return kopf.Temporary(errors.New("not yet"), time.Hour) }))
		c.leads(a)
		c.Create("x", nil)
		c.Pass(time.Minute)
		c.intrude(2)
		c.loses(a, 1)
		c.Pass(time.Second)
		c.same("the calls", []string{"starts", "has started", "stops"}, l.all())
		c.leadsAgain(a, 2)
		c.Pass(time.Second)
		a.Stop()
		c.same("the calls", []string{"starts", "has started", "stops", "starts", "has started", "stops"}, l.all())
	})
	c.Run(t, "HA-19 the end of the leading is called when its start has failed permanently and ends the operator", func(c *C) {
		var l calls
		op, _, _ := c.operatorOn(leading(&l, func(context.Context) error { return kopf.Permanent(errors.New("never")) }))
		op.Settings = kopf.NewSettings()
		c.elects(op)
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), "never") {
			c.Errorf("got the error %v, want that of the handler", err)
		}
		c.same("the calls", []string{"starts", "has started", "stops"}, l.all())
		if holder := c.holder(); holder != "" {
			c.Errorf("got the holder %q, want the Lease to be released", holder)
		}
	})
	c.Run(t, "HA-19 the end of the leading waits for its start, at a loss and at the exit", func(c *C) {
		c.OnlyInBubble("it takes seconds")
		for _, exit := range []bool{true, false} {
			var l calls
			a := c.Replica(leading(&l, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			}))
			c.WaitFor("the start", func() bool { return l.count("starts") == 1 })
			if exit {
				a.Stop()
			} else {
				c.intrude(600)
				c.loses(a, 1)
				c.Pass(3 * time.Second)
			}
			c.same("the calls with an exit: "+strconv.FormatBool(exit), []string{"starts", "has started", "stops"}, l.all())
		}
	})
	c.Run(t, "HA-19 neither is called by a replica that has only stood by", func(c *C) {
		var l calls
		c.leads(c.Replica(creating(&calls{}, "a")))
		b := c.Replica(leading(&l, func(context.Context) error { return nil }))
		c.Pass(2 * time.Second)
		b.Stop()
		c.same("the calls", nil, l.all())
	})
})
