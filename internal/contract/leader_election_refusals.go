package contract

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what a replica logs and does when it cannot use the Lease, in 7-availability.md.

// refusingLeases refuses requests for the Lease while it is enabled.
type refusingLeases struct {
	code   int
	method string // the method of the refused requests, all if it is empty
	off    atomic.Bool
}

func (s *refusingLeases) of(op *kopf.Operator) {
	op.Connection.HTTPClient.Transport.(*Wire).Fault(func(q *Request) (*http.Response, error) {
		if s.off.Load() || !strings.Contains(q.Path, "/leases") || s.method != "" && q.Method != s.method {
			return nil, nil
		}
		if s.code == 0 {
			return nil, errors.New("connection refused")
		}
		return Answer(s.code, http.StatusText(s.code), "no, because of the test"), nil
	})
}

// rule returns the words of a message about a missing permission.
func (c *C) rule() []string {
	return []string{"Role", "coordination.k8s.io", "leases", "create", "get", "update", leaseName, c.Namespace}
}

// says checks that a text contains all words.
func (c *C) says(what, text string, words ...string) {
	c.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			c.Errorf("got the %s %q, want one with %q", what, text, word)
		}
	}
}

var _ = Suite("leader_election_refusals", func(t *testing.T, c *C) {
	const failing = "Standing for the Lease failed"
	c.Run(t, "HA-10 a missing namespace is named each minute, and the replica is not ready until there is one", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := newPipe()
		a := c.Replica(creating(&calls{}, "a"), probed(p, "http://0.0.0.0:1234/healthz"), func(op *kopf.Operator) { op.Settings.LeaderElection.Namespace = "later" })
		c.Pass(10*time.Minute + time.Second)
		lines := a.Logs.Find(failing)
		if n := len(lines); n < 8 || n > 11 {
			c.Errorf("got %d lines in ten minutes, want one a minute", n)
		}
		for _, line := range lines {
			c.says("hint", line.Attrs["hint"], "namespace", "later")
		}
		c.says("readiness", p.ask("GET", "/readyz").String(), "503", `"lease":false`)
		wantAnswer(c, "liveness", p.ask("GET", "/healthz"), "200 {}")
		c.Of("v1", "Namespace").Create("later", nil)
		c.leads(a)
		if got := p.ask("GET", "/readyz"); got.code != http.StatusOK {
			c.Errorf("got the readiness %v of the leader, want 200", got)
		}
	})
	c.Run(t, "HA-10 a replica that may not update the Lease says each minute which rule is missing", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		c.leases().Create(leaseName, c.foreign("other", 4, time.Now()))
		s := &refusingLeases{code: http.StatusForbidden, method: http.MethodPut}
		a := c.Replica(creating(&calls{}, "a"), s.of)
		c.Pass(10*time.Minute + 10*time.Second)
		lines := a.Logs.Find(failing)
		if n := len(lines); n < 8 || n > 11 {
			c.Errorf("got %d lines in ten minutes, want one a minute", n)
		}
		for _, line := range lines {
			c.says("hint", line.Attrs["hint"], c.rule()...)
		}
		s.off.Store(true)
		c.leads(a)
	})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		c.Run(t, "HA-10 a refusal of the first "+method+" ends the start with the rule to add", func(c *C) {
			op, wire, _ := c.operatorOn(creating(&calls{}, "a"))
			op.Settings = kopf.NewSettings()
			c.elects(op)
			op.Connection.HTTPClient = &http.Client{Transport: wire}
			(&refusingLeases{code: http.StatusForbidden, method: method}).of(op)
			err := op.Run(c.Context())
			if err == nil {
				c.Fatal("the operator has started")
			}
			c.says("error", err.Error(), c.rule()...)
		})
	}
	c.Run(t, "HA-10 a renewal that is refused says which rule is missing, and the loss says why it was refused", func(c *C) {
		c.OnlyInBubble("it takes as long as a Lease")
		s := &refusingLeases{code: http.StatusForbidden}
		s.off.Store(true)
		a := c.Replica(creating(&calls{}, "a"), s.of)
		c.leads(a)
		c.Pass(3 * time.Second)
		s.off.Store(false)
		c.loses(a, 1)
		for _, line := range a.Logs.Find("Renewing the Lease failed") {
			c.says("hint", line.Attrs["hint"], c.rule()...)
		}
		c.says("reason", a.Logs.Find("Lost the leadership")[0].Attrs["reason"], "no, because of the test")
	})
	c.Run(t, "HA-12 the reason for a loss is why the renewals have failed, also if the last one was cut off", func(c *C) {
		c.OnlyInBubble("it takes as long as a Lease")
		var failing atomic.Bool
		a := c.Replica(creating(&calls{}, "a"), func(op *kopf.Operator) {
			base, began := op.Connection.HTTPClient.Transport, time.Time{}
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				if !failing.Load() || !strings.Contains(req.URL.Path, "/leases") {
					return base.RoundTrip(req)
				}
				if began.IsZero() {
					began = time.Now()
				}
				if time.Since(began) < 5*time.Second {
					return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "etcd is away"), nil
				}
				<-req.Context().Done()
				return nil, req.Context().Err()
			})}
		})
		c.leads(a)
		failing.Store(true)
		c.loses(a, 1)
		c.says("reason", a.Logs.Find("Lost the leadership")[0].Attrs["reason"], "etcd is away")
	})
	c.Run(t, "HA-18 a replica that has reached the Lease once stays ready when that cannot be reached any more", func(c *C) {
		c.OnlyInBubble("the endpoint is a pipe")
		c.leads(c.Replica(creating(&calls{}, "a")))
		p, s := newPipe(), &refusingLeases{}
		s.off.Store(true)
		b := c.Replica(creating(&calls{}, "b"), probed(p, "http://0.0.0.0:1234/healthz"), s.of)
		c.Pass(3 * time.Second)
		s.off.Store(false)
		c.Pass(5 * time.Minute)
		if len(b.Logs.Find(failing)) == 0 {
			c.Error("it was not logged that the Lease cannot be reached")
		}
		if got := p.ask("GET", "/readyz"); got.code != http.StatusOK {
			c.Errorf("got the readiness %v, want 200: its webhooks are needed", got)
		}
	})
	c.Run(t, "HA-2 what others keep in a Lease that is deleted is in the one that its holder makes anew", func(c *C) {
		c.leases().Create(leaseName, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"team": "web"}, "annotations": map[string]any{"note": "keep"}},
			"spec":     map[string]any{"preferredHolder": "somewhere", "strategy": "OldestEmulationVersion"},
		})
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		before := c.leases().Get(leaseName)
		c.leases().Delete(leaseName)
		c.WaitFor("the Lease", func() bool { return c.leases().Exists(leaseName) })
		after := c.leases().Get(leaseName)
		for _, path := range append(c.foreignLeaseFields(), "spec.holderIdentity", "spec.acquireTime") {
			if before.Get(path) == nil || after.Get(path) != before.Get(path) {
				c.Errorf("got the %s %v in the next Lease, want %v", path, after.Get(path), before.Get(path))
			}
		}
		if before.UID() == after.UID() {
			c.Error("it is the same Lease")
		}
		if n := len(a.Logs.Find("Lost the leadership")); n > 0 {
			c.Error("the Lease was lost")
		}
	})
	c.Run(t, "HA-2 a release keeps what others have in the Lease", func(c *C) {
		c.leases().Create(leaseName, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"team": "web"}, "annotations": map[string]any{"note": "keep"}},
			"spec":     map[string]any{"preferredHolder": "somewhere", "strategy": "OldestEmulationVersion"},
		})
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		a.Stop()
		lease := c.leases().Get(leaseName)
		want := map[kopf.FieldPath]string{"metadata.labels.team": "web", "metadata.annotations.note": "keep", "spec.preferredHolder": "somewhere", "spec.strategy": "OldestEmulationVersion"}
		for _, path := range c.foreignLeaseFields() {
			if got := lease.Get(path); got != want[path] {
				c.Errorf("got the %s %v in the released Lease, want %q", path, got, want[path])
			}
		}
	})
})

// foreignLeaseFields returns the fields of a Lease that other clients set. Without the feature gate CoordinatedLeaderElection, kube-apiserver drops
// some of them.
func (c *C) foreignLeaseFields() []kopf.FieldPath {
	fields := []kopf.FieldPath{"metadata.labels.team", "metadata.annotations.note"}
	if c.InBubble() {
		fields = append(fields, "spec.preferredHolder", "spec.strategy")
	}
	return fields
}
