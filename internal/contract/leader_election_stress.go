package contract

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves the guarantees for replicas under all faults: each change is handled, stored work is not repeated, tasks run at the leader, and
// replicas write only with the Lease.

var _ = ClusterSuite("leader_election_stress", func(t *testing.T, c *C) {
	for seed := range proof.Rounds(4, 12) {
		c.Run(t, fmt.Sprint("HA-15 faults at random, seed ", seed), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			stressReplicas(c, uint64(seed))
		})
	}
})

// stressedReplica is a replica with temporary faults.
type stressedReplica struct {
	*Running
	name   string
	barred atomic.Bool
	flaky  atomic.Bool
}

// stressReplicas adds faults of all kinds to two or three replicas.
func stressReplicas(c *C, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) }
	var l calls
	peers := seed%3 == 0
	var table *Kind
	if peers {
		table = c.meet()
	}
	indexed, tasks, predicate := seed%2 == 0, seed%4 < 2, seed%5 == 0
	running := sync.Map{} // daemons by replica/object
	registry := func(name string) *kopf.Registry {
		r := &kopf.Registry{}
		when := func(*kopf.Change) bool { return true }
		if !predicate {
			when = nil
		}
		handle := func(what string) kopf.ChangeFunc {
			return func(ctx context.Context, ch *kopf.Change) error {
				select {
				case <-time.After(time.Duration(draw(400)) * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if draw(10) == 0 {
					return kopf.Temporary(errors.New("later"), time.Duration(draw(3000))*time.Millisecond)
				}
				l.add("%s %s %s %d", what, ch.Name(), name, ch.Spec().Int("size"))
				ch.Patch.Set("status.size", ch.Spec().Int("size"))
				return nil
			}
		}
		r.OnCreate(Examples, handle("create"), &kopf.ChangeOptions{ID: "create", When: when})
		r.OnUpdate(Examples, handle("update"), &kopf.ChangeOptions{ID: "update", When: when})
		r.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "delete"})
		if indexed {
			kopf.OnIndexIn(r, Examples, func(_ context.Context, x *kopf.Indexing) (map[string]string, error) {
				return map[string]string{x.Name(): "there"}, nil
			}, &kopf.IndexOptions{ID: "names"})
		}
		if tasks {
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				running.Store(name+"/"+d.Name(), true)
				defer running.Delete(name + "/" + d.Name())
				<-ctx.Done()
				return nil
			}, &kopf.DaemonOptions{ID: "daemon"})
			r.OnTimer(Examples, func(ctx context.Context, d *kopf.Timer) error {
				running.Store("tick/"+d.Name(), time.Now())
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: 5 * time.Second})
		}
		return r
	}
	count := 0
	start := func() *stressedReplica {
		count++
		r := &stressedReplica{name: fmt.Sprint("r", count)}
		r.Running = c.Replica(registry(r.name), func(op *kopf.Operator) {
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(q *Request) (*http.Response, error) {
				time.Sleep(time.Duration(draw(20000)) * time.Microsecond)
				lease := strings.Contains(q.Path, "/leases")
				if lease && r.barred.Load() {
					return nil, errors.New("connection refused")
				}
				if r.flaky.Load() && draw(4) == 0 {
					switch draw(3) {
					case 0:
						return Answer(http.StatusInternalServerError, "InternalError", "oops"), nil
					case 1:
						return Answer(http.StatusConflict, "Conflict", "again"), nil
					default:
						return nil, errors.New("connection reset")
					}
				}
				return nil, nil
			})
		})
		return r
	}
	replicas := []*stressedReplica{start(), start()}
	if seed%2 == 1 {
		replicas = append(replicas, start())
	}
	var all []*stressedReplica
	all = append(all, replicas...)
	objects := map[string]int{}
	step := func() {
		r := replicas[draw(len(replicas))]
		switch k := draw(20); {
		case k < 5:
			name := fmt.Sprint("x", len(objects))
			objects[name] = draw(1000)
			c.Create(name, map[string]any{"spec": map[string]any{"size": objects[name]}})
		case k < 9:
			for name := range objects {
				if objects[name] >= 0 {
					objects[name] = 1000 + draw(100000)
					c.Patch(name, map[string]any{"spec": map[string]any{"size": objects[name]}})
					break
				}
			}
		case k < 10:
			for name := range objects {
				if objects[name] >= 0 {
					objects[name] = -1
					c.Delete(name)
					break
				}
			}
		case k < 12:
			if c.leases().Exists(leaseName) {
				c.intrude(1 + draw(4))
			}
		case k < 14:
			r.barred.Store(!r.barred.Load())
		case k < 15:
			r.flaky.Store(!r.flaky.Load())
		case k < 16:
			r.Wire.Drop()
		case k < 17:
			if c.leases().Exists(leaseName) {
				c.leases().Delete(leaseName)
			}
		case k < 18:
			i := draw(len(replicas))
			if draw(2) == 0 {
				replicas[i].Stop()
			} else {
				replicas[i].Crash()
			}
			replicas[i] = start()
			all = append(all, replicas[i])
		case k < 19 && peers:
			table.sit("boss", rival(100, 1+draw(20)))
		case peers:
			table.sit("boss", nil)
		}
	}
	for range 60 {
		step()
		c.Pass(time.Duration(draw(4000)) * time.Millisecond)
	}
	for _, r := range replicas {
		r.barred.Store(false)
		r.flaky.Store(false)
	}
	if peers {
		table.sit("boss", nil)
	}
	c.Pass(6 * time.Minute)
	for name, size := range objects {
		if size < 0 {
			if c.Exists(name) {
				c.Errorf("%s was not let go", name)
			}
			continue
		}
		if got := c.Get(name).Status().Int("size"); got != int64(size) {
			c.Errorf("%s has the size %d, but %d was handled; calls %q", name, size, got, l.all())
		}
	}
	before := len(l.all())
	var leader *stressedReplica
	for _, r := range replicas {
		if n := len(r.Logs.Find("Became the leader")) - len(r.Logs.Find("Lost the leadership")); n == 1 {
			leader = r
		}
	}
	if leader == nil {
		c.Fatal("there is no leader")
	}
	if tasks {
		for name, size := range objects {
			if size < 0 {
				continue
			}
			if _, ok := running.Load(leader.name + "/" + name); !ok {
				c.Errorf("the daemon of %s does not run", name)
			}
			if at, ok := running.Load("tick/" + name); !ok || time.Since(at.(time.Time)) > 10*time.Second {
				c.Errorf("the timer of %s does not tick", name)
			}
		}
	}
	c.Pass(5 * time.Minute)
	if now := l.all(); len(now) != before {
		c.Errorf("handled again: %q", now[before:])
	}
	for _, r := range all {
		began, lost := r.Logs.Find("Became the leader"), r.Logs.Find("Lost the leadership")
		_, others := leaseWrites(r.Running)
		for _, w := range others {
			in := false
			for i, b := range began {
				in = in || !w.Time.Before(b.Time) && (i >= len(lost) || !w.Time.After(lost[i].Time))
			}
			if !in && !strings.Contains(w.Path, "/events") {
				c.Errorf("%s has written out of its terms: %s %s", r.name, w.Method, w.Path)
			}
		}
	}
}
