package contract

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that replicas compete for a Lease with electors that follow the rules of client-go, in 7-availability.md. The e2e tests use
// client-go itself.

// elector follows the rules of client-go. It takes a Lease without a holder, or one whose record has not changed for its lease duration. It renews
// the Lease, and empties it at the end.
type elector struct {
	c                *C
	identity         string
	period, duration time.Duration
	work             *workers
	leading          atomic.Bool
	dies             atomic.Bool // whether it leaves the Lease unchanged at the end
	end              context.CancelFunc
	running          sync.WaitGroup
}

// workers counts the holders of one Lease.
type workers struct{ now, most atomic.Int32 }

func (w *workers) begin() {
	if n := w.now.Add(1); n > w.most.Load() {
		w.most.Store(n)
	}
}

func (w *workers) finish() { w.now.Add(-1) }

// electorLease is a Lease in the format of an elector.
type electorLease struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		HolderIdentity       string `json:"holderIdentity"`
		LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
		AcquireTime          string `json:"acquireTime"`
		RenewTime            string `json:"renewTime"`
		LeaseTransitions     int    `json:"leaseTransitions"`
	} `json:"spec"`
}

// elector starts an elector with the durations of the replicas.
func (c *C) elector(identity string, work *workers) *elector {
	r := &elector{c: c, identity: identity, work: work, period: 2 * time.Second, duration: 15 * time.Second}
	if !c.InBubble() {
		r.period, r.duration = 500*time.Millisecond, 3*time.Second
	}
	ctx, cancel := context.WithCancel(c.Context())
	r.end = cancel
	r.running.Go(func() { r.run(ctx) })
	c.Cleanup(r.stop)
	return r
}

// stop ends the elector, which empties the Lease if it is the holder.
func (r *elector) stop() {
	r.end()
	r.running.Wait()
}

// run tries to get the Lease or to renew it in each RetryPeriod.
func (r *elector) run(ctx context.Context) {
	var seen electorLease
	var seenAt time.Time
	for await := time.NewTicker(r.period); ctx.Err() == nil; {
		lease := electorLease{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Metadata: map[string]any{"name": leaseName, "namespace": r.c.Namespace}}
		err := r.c.Client.Get(ctx, r.c.leases().Ref(leaseName), &lease, nil)
		if lease.Spec != seen.Spec {
			seen, seenAt = lease, time.Now()
		}
		valid := time.Since(seenAt) < time.Duration(lease.Spec.LeaseDurationSeconds)*time.Second
		if holder := lease.Spec.HolderIdentity; kopf.IgnoreNotFound(err) == nil && (holder == r.identity || holder == "" || !valid) {
			r.write(ctx, &lease, r.identity, r.duration)
		}
		select {
		case <-await.C:
		case <-ctx.Done():
			await.Stop()
		}
	}
	if !r.leading.Swap(false) {
		return
	}
	r.work.finish()
	if ctx := context.WithoutCancel(ctx); !r.dies.Load() && r.c.Client.Get(ctx, r.c.leases().Ref(leaseName), &seen, nil) == nil {
		r.write(ctx, &seen, "", time.Second)
	}
}

// write writes the record of a holder, if the Lease has not changed since it was read.
func (r *elector) write(ctx context.Context, lease *electorLease, holder string, duration time.Duration) {
	spec, now := &lease.Spec, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	_, exists := lease.Metadata["resourceVersion"]
	if holder != "" && spec.HolderIdentity != holder {
		spec.AcquireTime = now
		if exists {
			spec.LeaseTransitions++
		}
	}
	spec.HolderIdentity, spec.LeaseDurationSeconds, spec.RenewTime = holder, int(duration/time.Second), now
	write := r.c.Client.Update
	if !exists {
		write = r.c.Client.Create
	}
	if write(ctx, lease, nil) == nil && holder != "" && !r.leading.Swap(true) {
		r.work.begin()
	}
}

var _ = Suite("leader_election_rivals", func(t *testing.T, c *C) {
	// A replica of kopf counts as a worker while it holds the Lease.
	ours := func(c *C, work *workers) *Running {
		r := creating(&calls{}, "ours")
		r.OnStartedLeading(func(context.Context, *kopf.Activity) error { work.begin(); return nil }, &kopf.ActivityOptions{ID: "started"})
		r.OnStoppedLeading(func(context.Context, *kopf.Activity) error { work.finish(); return nil }, &kopf.ActivityOptions{ID: "stopped"})
		return c.Replica(r)
	}
	c.Run(t, "HA-3 an elector by the rules of client-go and a replica take the Lease from each other, and honour the release", func(c *C) {
		work, longer := &workers{}, 20*time.Second // longer than an unrenewed Lease lasts
		if !c.InBubble() {
			longer = 5 * time.Second
		}
		soon := func(what string, began time.Time) {
			c.Helper()
			if passed := time.Since(began); c.late(passed, 3*time.Second) {
				c.Errorf("%s came %s after the release, which it has not honoured", what, passed)
			}
		}
		theirs := c.elector("theirs-0", work)
		c.WaitFor("the first leader", theirs.leading.Load)
		for i := range 3 {
			replica := ours(c, work)
			c.Pass(longer)
			if len(replica.Logs.Find("Became the leader")) > 0 {
				c.Fatal("the replica has taken a Lease that is renewed")
			}
			began := time.Now()
			theirs.stop()
			c.leads(replica)
			soon("the replica", began)
			theirs = c.elector(fmt.Sprint("theirs-", i+1), work)
			c.Pass(longer)
			if theirs.leading.Load() {
				c.Fatal("the elector has taken a Lease that is renewed")
			}
			began = time.Now()
			replica.Stop()
			c.WaitFor("the elector", theirs.leading.Load)
			soon("the elector", began)
		}
		theirs.stop()
		if got := c.leases().Get(leaseName).Spec(); got.Int("leaseTransitions") != 6 || got.String("holderIdentity") != "" {
			c.Errorf("got the Lease %v, want 6 transitions, and no holder", got.Map())
		}
		if n := work.most.Load(); n != 1 {
			c.Errorf("%d have worked at once", n)
		}
	})
	c.Run(t, "HA-3 an elector by the rules of client-go and a replica take over from each other when one has died", func(c *C) {
		c.OnlyInBubble("times are compared")
		work := &workers{}
		theirs := c.elector("theirs-0", work)
		c.WaitFor("the first leader", theirs.leading.Load)
		replica := ours(c, work)
		c.Pass(5 * time.Second)
		theirs.dies.Store(true)
		began := time.Now()
		theirs.stop()
		c.leads(replica)
		if passed := time.Since(began); passed < 12*time.Second || passed > 18*time.Second {
			c.Errorf("the replica has taken over after %s, want the 15 s of the record since its last renewal", passed)
		}
		theirs = c.elector("theirs-1", work)
		c.Pass(5 * time.Second)
		began = time.Now()
		replica.Crash()
		c.WaitFor("the elector", theirs.leading.Load)
		if passed := time.Since(began); passed < 12*time.Second || passed > 18*time.Second {
			c.Errorf("the elector has taken over after %s, want the 15 s of the record since its last renewal", passed)
		}
	})
})
