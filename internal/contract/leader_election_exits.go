package contract

import (
	"context"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how the Lease is released at the shutdown if functions ignore their canceled contexts, in 7-availability.md.

var _ = Suite("leader_election_exits", func(t *testing.T, c *C) {
	// leaves has a replica shut down while one of its functions continues until the clean-up handlers run, or longer.
	leaves := func(c *C, register func(r *kopf.Registry, wait func()), returns bool) {
		began, goOn := make(chan struct{}), make(chan struct{})
		r := &kopf.Registry{}
		register(r, func() { close(began); <-goOn })
		r.OnCleanup(func(context.Context, *kopf.Activity) error {
			if returns {
				close(goOn)
				time.Sleep(time.Second)
			}
			return nil
		}, &kopf.ActivityOptions{ID: "cleanup"})
		a := c.Replica(r)
		c.leads(a)
		c.Create("x", nil)
		<-began
		holder := c.holder()
		done := make(chan struct{})
		go func() { defer close(done); _ = a.Err() }()
		c.Pass(time.Minute)
		switch now := c.holder(); {
		case returns && now != "":
			c.Errorf("got the holder %q, want the Lease to be released: the function has returned before. The log says: %v", now, a.Logs.Find("Leaving the Lease"))
		case !returns && now != holder:
			c.Errorf("got the holder %q, want the Lease not to be released: the function goes on", now)
		}
		if !returns {
			close(goOn)
		}
		<-done
	}
	handler := func(r *kopf.Registry, wait func()) {
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { wait(); return nil }, &kopf.ChangeOptions{ID: "create"})
	}
	daemon := func(r *kopf.Registry, wait func()) {
		r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { wait(); return nil }, &kopf.DaemonOptions{ID: "daemon"})
	}
	for _, returns := range []bool{true, false} {
		when := map[bool]string{true: "returns while the clean-up handlers run does not keep", false: "goes on after the clean-up handlers keeps"}[returns]
		c.Run(t, "HA-28 a handler that "+when+" the Lease from being released", func(c *C) {
			c.OnlyInBubble("it takes a minute")
			leaves(c, handler, returns)
		})
		c.Run(t, "HA-28 a daemon that "+when+" the Lease from being released", func(c *C) {
			c.OnlyInBubble("it takes a minute")
			leaves(c, daemon, returns)
		})
	}
})
