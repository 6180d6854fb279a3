package contract

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how the replicas of one operator work with other operators, in 7-availability.md: they are one peer.

var _ = ClusterSuite("leader_election_peering", func(t *testing.T, c *C) {
	c.Run(t, "HA-45 the holder alone keeps one record, under the name of the Lease, and it stays over a takeover", func(c *C) {
		table := c.meet()
		var l calls
		a := c.Replica(creating(&l, "a"), as("pod-a"))
		c.leads(a)
		b := c.Replica(creating(&l, "b"), as("pod-b"))
		c.WaitFor("the record", func() bool { return len(table.seats("default")) == 1 })
		c.same("the identities", []string{c.Namespace + "/" + leaseName}, table.seats("default"))
		a.Crash()
		c.leads(b)
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return l.count("b creates x") == 1 })
		c.Pass(2 * time.Second)
		c.same("the identities after a takeover", []string{c.Namespace + "/" + leaseName}, table.seats("default"))
		b.Stop()
		c.same("the identities after the end, where no replica knows of others", []string{c.Namespace + "/" + leaseName}, table.seats("default"))
	})
	c.Run(t, "HA-45 all replicas obey the records of others", func(c *C) {
		table := c.meet()
		var l calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		b := c.Replica(creating(&l, "b"))
		table.sit("boss", rival(100, 3600))
		c.paused(a, 1)
		c.paused(b, 1)
		c.Create("x", nil)
		c.Pass(3 * time.Second)
		c.expect(&l)
		a.Stop()
		c.leads(b)
		c.Pass(3 * time.Second)
		c.expect(&l)
		table.sit("boss", nil)
		c.going(b, 1)
		c.WaitFor("the handling", func() bool { return l.count("b creates x") == 1 })
	})
	c.Run(t, "HA-14 a replica that stands by writes nothing", func(c *C) {
		table := c.meet()
		var l calls
		registry := func(name string) *kopf.Registry {
			r := creating(&l, name)
			r.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "delete"})
			r.OnTimer(Examples, func(_ context.Context, timer *kopf.Timer) error {
				timer.Patch.Set("status.ticks", timer.Status().Int("ticks")+1)
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Second})
			return r
		}
		a := c.Replica(registry("a"))
		c.leads(a)
		b := c.Replica(registry("b"))
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().Int("ticks") > 3 })
		c.Patch("x", map[string]any{"spec": map[string]any{"size": 5}})
		c.Pass(5 * time.Second)
		c.Delete("x")
		c.WaitFor("the end", func() bool { return !c.Exists("x") })
		c.Pass(2 * time.Second)
		if writes := b.Wire.Requests("POST", "PUT", "PATCH", "DELETE"); len(writes) > 0 {
			c.Errorf("the replica that stands by has written: %v", writes)
		}
		c.same("the identities in the peering object", []string{c.Namespace + "/" + leaseName}, table.seats("default"))
	})
	c.Run(t, "HA-T10 replicas do not pause each other", func(c *C) {
		table := c.meet()
		var l calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		b := c.Replica(creating(&l, "b"))
		c.Pass(5 * time.Second)
		for _, op := range []*Running{a, b} {
			if lines := op.Logs.Find("Pausing"); len(lines) > 0 {
				c.Errorf("a replica pauses: %v", lines)
			}
		}
		c.same("the identities in the peering object", []string{c.Namespace + "/" + leaseName}, table.seats("default"))
	})
	c.Run(t, "HA-46 another operator sees one peer, which pauses it, and none when all replicas are gone", func(c *C) {
		table := c.meet()
		var l, others calls
		short := func(op *kopf.Operator) { op.Settings.Peering.Lifetime = 5 * time.Second }
		a := c.Replica(creating(&l, "a"), short)
		c.leads(a)
		b := c.Replica(creating(&l, "b"), short)
		other := c.Operator(creating(&others, "other"), as("other"), func(op *kopf.Operator) { op.Settings.Peering.Priority = -1 })
		c.paused(other, 1)
		c.WaitFor("the records", func() bool { return len(table.seats("default")) == 2 })
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return l.count("a creates x") == 1 })
		b.Stop()
		c.Pass(2 * time.Second)
		c.expect(&others)
		a.Stop()
		c.going(other, 1)
		c.Create("y", nil)
		c.WaitFor("the handling by the other", func() bool { return others.count("other creates y") == 1 })
	})
	c.Run(t, "HA-45 an operator of a lower priority does not work while one replica takes the place of another", func(c *C) {
		c.meet()
		var l, others calls
		a := c.Replica(creating(&l, "a"))
		c.leads(a)
		b := c.Replica(creating(&l, "b"))
		other := c.Operator(creating(&others, "other"), as("other"), func(op *kopf.Operator) { op.Settings.Peering.Priority = -1 })
		c.paused(other, 1)
		c.Pass(3 * time.Second)
		a.Stop()
		c.Create("x", nil)
		c.leads(b)
		c.WaitFor("the handling", func() bool { return l.count("b creates x") == 1 })
		c.Pass(3 * time.Second)
		c.expect(&others)
	})
	c.Run(t, "HA-45 a replica that leads again does not pause for its own record", func(c *C) {
		c.meet()
		a := c.Replica(creating(&calls{}, "a"), func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/kopfpeerings/") {
					time.Sleep(5 * time.Millisecond) // the event arrives before the response
				}
				return resp, err
			})}
		})
		c.leads(a)
		c.OnlyInBubble("the record has to expire")
		c.intrude(300)
		c.loses(a, 1)
		before := len(rounds(a))
		c.leadsAgain(a, 2)
		c.Pass(5 * time.Second)
		if lines, now := a.Logs.Find("Pausing"), rounds(a); len(lines) > 0 || len(now) != before {
			c.Errorf("got the lines %v, and the requests %v after the regain, want none", lines, now[before:])
		}
	})
	c.Run(t, "HA-47 a pause keeps the Lease, and so does a missing peering object that is mandatory", func(c *C) {
		c.OnlyInBubble("it takes longer than a Lease")
		table := c.meet()
		var l calls
		a := c.Replica(creating(&l, "a"), mandatory)
		c.leads(a)
		holder := c.holder()
		c.Replica(creating(&l, "b"), mandatory)
		table.sit("boss", rival(100, 3600))
		c.paused(a, 1)
		c.Pass(time.Minute)
		if now := c.holder(); now != holder {
			c.Errorf("the holder %q has become %q in a pause", holder, now)
		}
		table.Delete("default")
		c.Pass(time.Minute)
		if now := c.holder(); now != holder {
			c.Errorf("the holder %q has become %q without the peering object", holder, now)
		}
		table.Create("default", nil)
		c.going(a, 1)
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return l.count("a creates x") == 1 })
	})
})
