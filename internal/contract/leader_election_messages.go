package contract

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which messages the log and the handlers get about a loss of the Lease, in 7-availability.md.

var _ = Suite("leader_election_messages", func(t *testing.T, c *C) {
	stops := func(c *C, a *Running) {
		c.leads(a)
		c.Create("x", nil)
		c.Pass(time.Second)
		c.intrude(2)
		c.loses(a, 1)
		c.Pass(time.Second)
		if lines := a.Logs.Find("because the operator stops"); len(lines) > 0 {
			c.Errorf("got the line %q, but the operator does not stop", lines[0].Message)
		}
		if lines := a.Logs.Find("will try again"); len(lines) > 0 {
			c.Errorf("got the line %q, but the next leader calls the handler", lines[0].Message)
		}
		if lines := a.Logs.Find("because this replica has lost the Lease"); len(lines) != 1 {
			c.Errorf("got %d lines that say why the handler was cut off", len(lines))
		}
	}
	c.Run(t, "HA-12 the log says why a handler is cut off that returns the error of its context", func(c *C) {
		c.OnlyInBubble("a Lease is to be lost")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, _ *kopf.Change) error { <-ctx.Done(); return ctx.Err() }, &kopf.ChangeOptions{ID: "create"})
		stops(c, c.Replica(r))
	})
	c.Run(t, "HA-12 the log says why a handler is cut off whose request is refused", func(c *C) {
		c.OnlyInBubble("a Lease is to be lost")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			<-ctx.Done()
			return ch.Client.Create(context.WithoutCancel(ctx), map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": ch.Namespace()}}, nil)
		}, &kopf.ChangeOptions{ID: "create"})
		stops(c, c.Replica(r))
	})
	c.Run(t, "HA-12 the log says why a handler of the leading's start is cut off", func(c *C) {
		c.OnlyInBubble("a Lease is to be lost")
		r := &kopf.Registry{}
		r.OnStartedLeading(func(ctx context.Context, _ *kopf.Activity) error { <-ctx.Done(); return ctx.Err() }, &kopf.ActivityOptions{ID: "started"})
		stops(c, c.Replica(r))
	})
	c.Run(t, "HA-12 a replica that has lost the Lease amid a handler does not take the next leader for another operator", func(c *C) {
		c.OnlyInBubble("a Lease is to be lost")
		creates := func(takes time.Duration) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error { time.Sleep(takes); return nil }, &kopf.ChangeOptions{ID: "create"})
			return r
		}
		a := c.Replica(creates(time.Minute))
		c.leads(a)
		c.Create("x", map[string]any{"spec": map[string]any{"size": 1}})
		c.Pass(time.Second)
		b := c.Replica(creates(0))
		c.Pass(time.Second)
		barred(a)
		c.leads(b)
		c.Pass(2 * time.Minute)
		if lines := a.Logs.Find("Another operator"); len(lines) > 0 {
			c.Errorf("got the line %q about the next leader, with the hint %q", lines[0].Message, lines[0].Attrs["hint"])
		}
	})
	c.Run(t, "HA-21 daemons and timers see why they are to stop at a loss", func(c *C) {
		c.OnlyInBubble("a Lease is to be lost")
		var l calls
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			for d.Sleep(time.Hour) {
			}
			l.add("%s, lost %t", d.StopReason(), errors.Is(context.Cause(ctx), kopf.ErrLeadershipLost))
			return nil
		}, &kopf.DaemonOptions{ID: "daemon"})
		r.OnTimer(Examples, func(ctx context.Context, timer *kopf.Timer) error {
			<-ctx.Done()
			l.add("%s, lost %t", timer.StopReason(), errors.Is(context.Cause(ctx), kopf.ErrLeadershipLost))
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Hour})
		a := c.Replica(r)
		c.leads(a)
		for _, name := range []string{"u", "v", "w", "x", "y", "z"} {
			c.Create(name, nil)
		}
		c.Pass(10 * time.Second)
		c.intrude(2)
		c.loses(a, 1)
		c.Pass(time.Second)
		if got := l.count("OperatorPausing, lost true"); got != 12 || len(l.all()) != 12 {
			c.Errorf("got %q", l.all())
		}
	})
})
