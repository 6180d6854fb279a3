package contract

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that a Lease that a user deletes or empties does not make two leaders.

var _ = Suite("leader_election_deleted", func(t *testing.T, c *C) {
	deleting := func(c *C) { c.leases().Delete(leaseName) }
	emptying := func(c *C) { c.edit(map[string]any{"holderIdentity": ""}) }
	for what, change := range map[string]func(c *C){"deleted": deleting, "emptied": emptying} {
		c.Run(t, "DF-40 the holder writes a Lease again that was "+what+", and a new replica stands by", func(c *C) {
			var l calls
			a := c.Replica(working(&l, "a"))
			c.leads(a)
			c.Create("x", nil)
			c.WaitFor("the work", func() bool { return l.count("a begins") == 1 })
			holder := c.holder()
			change(c)
			b := c.Replica(working(&l, "b"))
			b.waitLogged(c, "Standing by for the holder of the Lease")
			c.same("the calls", []string{"a begins"}, l.all())
			if got := c.holder(); got != holder {
				c.Errorf("got the holder %q, want %q", got, holder)
			}
			if n := len(a.Logs.Find("Lost the leadership")); n > 0 {
				c.Errorf("the Lease was lost %d times", n)
			}
		})
		c.Run(t, "DF-40 a new replica that finds a Lease "+what+" waits for a holder without a connection", func(c *C) {
			c.followsCut(change, 0)
		})
		c.Run(t, "DF-40 a running replica waits for the last renewal before the Lease was "+what, func(c *C) {
			c.OnlyInBubble("it is a matter of seconds")
			for late := range 20 {
				c.followsCut(change, 10*time.Second+time.Duration(late)*100*time.Millisecond)
			}
		})
	}
	c.Run(t, "DF-40 the very first start takes a LeaseDuration, and says why", func(c *C) {
		c.OnlyInBubble("times are compared")
		began := time.Now()
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		if passed := time.Since(began); passed < 15*time.Second || passed > 16*time.Second {
			c.Errorf("got the Lease after %s, want a LeaseDuration", passed)
		}
		lines := a.Logs.Find("Waiting before taking a Lease that was not released")
		if len(lines) != 1 || lines[0].Attrs["wait"] != "15s" || lines[0].Attrs["help"] != "K223" {
			c.Errorf("got the lines %+v, want one with the time", lines)
		}
	})
	c.Run(t, "DF-40 an emptied Lease is taken after the longer of both durations, a released one at once", func(c *C) {
		c.OnlyInBubble("times are compared")
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		for name, tt := range map[string]struct {
			seconds int
			want    time.Duration
		}{
			"longer":   {40, 40 * time.Second},
			"shorter":  {5, 15 * time.Second},
			"released": {1, 0},
		} {
			c.leases().Create(name, map[string]any{"spec": map[string]any{
				"holderIdentity": "", "leaseDurationSeconds": tt.seconds, "acquireTime": now, "renewTime": now,
			}})
			began := time.Now()
			a := c.Replica(creating(&calls{}, name), func(op *kopf.Operator) { op.Settings.LeaderElection.Name = name })
			c.leads(a)
			if passed := time.Since(began); passed < tt.want || passed > tt.want+time.Second {
				c.Errorf("the Lease %s was taken after %s, want %s", name, passed, tt.want)
			}
			a.Stop()
		}
	})
	c.Run(t, "DF-40 a Lease of a second, which looks released when it is emptied, is taken after that", func(c *C) {
		c.OnlyInBubble("times are compared")
		c.leases().Create(leaseName, c.foreign("", 1, time.Now()))
		began := time.Now()
		c.leads(c.Replica(creating(&calls{}, "a"), func(op *kopf.Operator) {
			s := &op.Settings.LeaderElection
			s.LeaseDuration, s.RenewDeadline, s.RetryPeriod = time.Second, 800*time.Millisecond, 300*time.Millisecond
		}))
		if passed := time.Since(began); passed < time.Second {
			c.Errorf("the Lease was taken after %s, want a second", passed)
		}
	})
})

// followsCut proves that a replica works after another one, whose Lease a user changes while it
// cannot reach the API server. The other replica starts after that, or some time before it.
func (c *C) followsCut(change func(c *C), before time.Duration) {
	c.Helper()
	var l calls
	var cut atomic.Bool
	tight := func(op *kopf.Operator) { // so that the last renewal matters
		if s := &op.Settings.LeaderElection; c.InBubble() {
			s.RenewDeadline = s.LeaseDuration - 100*time.Millisecond
		}
	}
	a := c.Replica(working(&l, "a"), refusingWhile(&cut, "/leases"), tight)
	c.leads(a)
	c.Create("x", nil)
	c.WaitFor("the work", func() bool { return l.count("a begins") == 1 })
	var b *Running
	if before > 0 {
		b = c.Replica(working(&l, "b"), tight)
		c.Pass(before)
	}
	cut.Store(true)
	change(c)
	if b == nil {
		b = c.Replica(working(&l, "b"), tight)
	}
	c.leads(b)
	c.WaitFor("the next work", func() bool { return l.count("b begins") == 1 })
	if got, want := l.all(), []string{"a begins", "a ends", "b begins"}; !slices.Equal(got, want) {
		c.Errorf("after %s, got the calls %q, want %q", before, got, want)
	}
	a.Stop()
	b.Stop()
	c.Delete("x")
	c.leases().Delete(leaseName)
}
