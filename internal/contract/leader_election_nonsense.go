package contract

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that replicas handle a Lease that a user has written, clocks with errors, and invalid responses, in 7-availability.md.

// edit changes fields of the Lease as a user.
func (c *C) edit(fields map[string]any) {
	c.leases().Patch(leaseName, map[string]any{"spec": fields})
}

// answeringLeases replaces the responses to requests for the Lease by the results of a function.
func answeringLeases(answer func(req *http.Request, resp *http.Response) *http.Response) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		base := op.Connection.HTTPClient.Transport
		op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err != nil || !strings.Contains(req.URL.Path, "/leases") {
				return resp, err
			}
			return answer(req, resp), nil
		})}
	}
}

// working returns handlers that record when they begin and end to work on an object.
func working(l *calls, name string) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error {
		l.add("%s begins", name)
		<-ctx.Done()
		l.add("%s ends", name)
		return nil
	}, &kopf.DaemonOptions{ID: "daemon"})
	return r
}

var _ = Suite("leader_election_nonsense", func(t *testing.T, c *C) {
	c.Run(t, "HA-7 a Lease whose transitions can't be counted on is taken nevertheless", func(c *C) {
		lease := c.foreign("other", 1, time.Now())
		lease["spec"].(map[string]any)["leaseTransitions"] = 1<<31 - 1
		c.leases().Create(leaseName, lease)
		c.leads(c.Replica(creating(&calls{}, "a")))
		if got := c.leases().Get(leaseName).Spec().Int("leaseTransitions"); got != 1<<31-1 {
			c.Errorf("got %d transitions, want as many as a Lease can hold", got)
		}
	})
	c.Run(t, "HA-6 a Lease without a holder is taken after a LeaseDuration, whatever else is in it", func(c *C) {
		c.OnlyInBubble("times are compared")
		for name, spec := range map[string]map[string]any{
			"empty":        {},
			"transitions":  {"leaseTransitions": 41},
			"from-the-end": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "9999-12-31T23:59:59.999999Z", "acquireTime": "0001-01-01T00:00:00.000000Z"},
		} {
			c.leases().Create(name, map[string]any{"spec": spec})
			began := time.Now()
			a := c.Replica(creating(&calls{}, name), func(op *kopf.Operator) { op.Settings.LeaderElection.Name = name })
			c.leads(a)
			if passed := time.Since(began); passed < 15*time.Second || passed > 16*time.Second {
				c.Errorf("the Lease %s was taken after %s, want a LeaseDuration", name, passed)
			}
			if got, _ := spec["leaseTransitions"].(int); c.leases().Get(name).Spec().Int("leaseTransitions") != int64(got)+1 {
				c.Errorf("got the Lease %v from %v, want one more transition", c.leases().Get(name).Spec().Map(), spec)
			}
			a.Stop()
		}
	})
	c.Run(t, "HA-26 what a person writes into the Lease of a leader is mended by the next renewal", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		for _, fields := range []map[string]any{
			{"leaseDurationSeconds": 1}, {"leaseDurationSeconds": 1<<31 - 1}, {"renewTime": "9999-12-31T23:59:59.999999Z"}, {"leaseTransitions": 1<<31 - 1}, {"leaseDurationSeconds": nil, "renewTime": nil, "acquireTime": nil, "leaseTransitions": nil},
		} {
			c.edit(fields)
			c.Pass(3 * time.Second)
			spec := c.leases().Get(leaseName).Spec()
			if renewed, err := time.Parse(time.RFC3339, spec.String("renewTime")); err != nil || time.Since(renewed) > 3*time.Second || spec.Int("leaseDurationSeconds") != 15 || spec.String("holderIdentity") == "" {
				c.Errorf("got the Lease %v after the edit %v", spec.Map(), fields)
			}
		}
		if n := len(a.Logs.Find("Lost the leadership")); n > 0 {
			c.Errorf("the Lease was lost %d times", n)
		}
	})
	c.Run(t, "HA-T1 a Lease whose duration a person shortens does not make two replicas work at once", func(c *C) {
		c.OnlyInBubble("it is a matter of seconds")
		var l calls
		var away atomic.Bool
		a := c.Replica(working(&l, "a"), refusingWhile(&away, "/leases"))
		c.leads(a)
		b := c.Replica(working(&l, "b"), func(op *kopf.Operator) { op.Settings.LeaderElection.RetryPeriod = 500 * time.Millisecond })
		c.Create("x", nil)
		c.Pass(11 * time.Second) // until the other one has seen the last renewal
		away.Store(true)         // the leader does not see it before it gives up
		c.edit(map[string]any{"leaseDurationSeconds": 1})
		c.leads(b)
		c.Pass(time.Second)
		c.same("the calls", []string{"a begins", "a ends", "b begins"}, l.all())
	})
	c.Run(t, "HA-5 a candidate honours a duration that the holder itself has shortened", func(c *C) {
		c.OnlyInBubble("times are compared")
		c.leases().Create(leaseName, c.foreign("other", 3600, time.Now()))
		a := c.Replica(creating(&calls{}, "a"))
		c.Pass(time.Minute)
		c.leases().Patch(leaseName, c.foreign("other", 2, time.Now()))
		began := time.Now()
		c.leads(a)
		if passed := time.Since(began); passed > 6*time.Second {
			c.Errorf("the Lease was taken after %s, want 2 s after its last renewal and a RetryPeriod", passed)
		}
	})
	c.Run(t, "HA-22 an answer that is not the Lease as it was written does not make a leader", func(c *C) {
		c.OnlyInBubble("the server has to answer nonsense")
		for what, body := range map[string]string{
			"an empty object":  `{}`,
			"a page of HTML":   `<html>log in</html>`,
			"another's Lease":  `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x","resourceVersion":"999999"},"spec":{"holderIdentity":"another"}}`,
			"one of no server": `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x"},"spec":{"holderIdentity":"a"}}`,
		} {
			var nonsense atomic.Bool
			nonsense.Store(true)
			a := c.Replica(creating(&calls{}, "a"), answeringLeases(func(req *http.Request, resp *http.Response) *http.Response {
				if nonsense.Load() && req.Method != http.MethodGet {
					_ = resp.Body.Close()
					resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
				}
				return resp
			}))
			c.Pass(time.Minute)
			if n := len(a.Logs.Find("Became the leader")); n > 0 {
				c.Errorf("%s as an answer has made a leader", what)
			}
			if n := len(a.Logs.Find("Standing for the Lease failed")); n == 0 {
				c.Errorf("%s as an answer was not logged", what)
			}
			nonsense.Store(false)
			c.leads(a)
			nonsense.Store(true)
			c.loses(a, 1)
			if got := a.Logs.Find("Lost the leadership")[0].Attrs["reason"]; got == "" || strings.Contains(got, "has not run in time") {
				c.Errorf("got the reason %q for the loss by %s", got, what)
			}
			nonsense.Store(false)
			c.leadsAgain(a, 2)
			a.Stop()
			c.leases().Delete(leaseName)
		}
	})
	c.Run(t, "HA-21 a replica leads again after refusals of all kinds", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		s := &refusingLeases{}
		s.off.Store(true)
		var l calls
		a := c.Replica(creating(&l, "a"), s.of)
		c.leads(a)
		for i, code := range []int{http.StatusConflict, http.StatusGone, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusNotFound, http.StatusUnprocessableEntity} {
			s.code = code
			s.off.Store(false)
			c.loses(a, i+1)
			c.Pass(time.Minute)
			s.off.Store(true)
			began := time.Now()
			c.leadsAgain(a, i+2)
			if passed := time.Since(began); passed > 3*time.Second {
				c.Errorf("after answers of %d, it took %s to lead again", code, passed)
			}
		}
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return l.count("a creates x") == 1 })
	})
})
