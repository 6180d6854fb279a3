package contract

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves that kopf loses no object while the versions of its kind are added and removed, lists are delayed, and requests fail. All due
// work is done when the faults end.

var _ = Suite("stress_moving_versions", func(t *testing.T, c *C) {
	for _, replicas := range []int{1, 2} {
		for seed := range proof.Rounds(1, 5) {
			c.Run(t, fmt.Sprintf("DF-1 no object is lost while versions move and requests fail, with %d replicas and the seed %d", replicas, seed), func(c *C) {
				c.OnlyInBubble("requests are held up for minutes")
				proveVersionMoves(c, replicas, uint64(seed))
			})
		}
	}
})

// chance is a source of random numbers for several goroutines.
type chance struct {
	mu     sync.Mutex // guards random
	random *rand.Rand
	calm   atomic.Bool // whether faults have ended
}

// in reports true at random, once in the given number of times on average.
func (s *chance) in(times int) bool { return !s.calm.Load() && s.upTo(times) == 0 }

func (s *chance) upTo(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// fault makes a request about the gadgets fail, or wait.
func (s *chance) fault(q *Request) (*http.Response, error) {
	if !strings.Contains(q.Path, "/gadgets") {
		return nil, nil
	}
	if s.in(5) {
		time.Sleep(time.Duration(s.upTo(20_000)) * time.Millisecond) // a slow API server
	}
	switch {
	case s.in(8):
		return nil, errCut
	case s.in(12):
		return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
	case q.Method == http.MethodPatch && s.in(12):
		return Answer(http.StatusConflict, "Conflict", "it was changed"), nil
	case !strings.Contains(q.Path, "/gadgets?") && s.in(8): // as if the version was not served
		return Answer(http.StatusNotFound, "", "404 page not found"), nil
	case strings.Contains(q.Path, "watch=true") && s.in(8):
		return Answer(http.StatusGone, "Expired", "too old resource version"), nil
	}
	return nil, nil
}

// versionMoves is a kind whose versions are added and removed, with an operator for it.
type versionMoves struct {
	*C
	chance   *chance
	served   string // a served version, "" for none
	replicas []*movedReplica
	daemons  census
}

// movedReplica is a replica of the operator.
type movedReplica struct {
	*Running
	names  *kopf.Index[string, string]
	holder *kopf.Activity // for the calls with the names of objects
	barred atomic.Bool    // whether its requests for the Lease fail
}

func proveVersionMoves(c *C, replicas int, seed uint64) {
	m := &versionMoves{C: c, chance: &chance{random: rand.New(rand.NewPCG(seed, uint64(replicas)))}, served: "v1"}
	c.Define(c.gadgets(func(spec, _ map[string]any) { spec["versions"] = gadgetVersions(true, false) }))
	for range replicas {
		m.replicas = append(m.replicas, m.start(replicas > 1))
	}
	for range 80 {
		m.step()
		c.Pass(time.Duration(m.chance.upTo(4000)) * time.Millisecond)
	}
	m.chance.calm.Store(true)
	m.serve(true, true)
	c.Pass(time.Hour)
	m.judge()
	for _, o := range m.gadgets().List() {
		m.gadgets().Delete(o.Name())
	}
	c.Pass(time.Hour)
	m.judge()
	for _, o := range m.gadgets().List() {
		c.Errorf("the deletion has not ended: %s", o.LogValue())
	}
}

// gadgetVersions returns two versions with separate statuses.
func gadgetVersions(v1, v2 bool) []any {
	first, second := crdVersion("v1", v1, true), crdVersion("v2", v2, false)
	first["subresources"], second["subresources"] = map[string]any{"status": map[string]any{}}, map[string]any{"status": map[string]any{}}
	return []any{first, second}
}

// start starts a replica, or an operator without an election.
func (m *versionMoves) start(elects bool) *movedReplica {
	gadgets := kopf.Selector("gadgets." + m.Unique("leaf") + ".dev")
	r, op := &kopf.Registry{}, &movedReplica{}
	op.names = kopf.OnIndexIn(r, gadgets, nameIndex, &kopf.IndexOptions{ID: "names"})
	r.OnStartup(func(_ context.Context, a *kopf.Activity) error { op.holder = a; return nil }, nil)
	r.OnEvent(gadgets, func(context.Context, *kopf.WatchEvent) error { return nil }, watchedAs("event"))
	change := func(ctx context.Context, ch *kopf.Change) error {
		select {
		case <-time.After(time.Duration(m.chance.upTo(3)) * 3 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if m.chance.in(4) {
			return kopf.Temporary(errOops, 2*time.Second)
		}
		ch.SetResult(ch.Spec().Int("x"))
		return nil
	}
	r.OnCreate(gadgets, change, named("create"))
	r.OnUpdate(gadgets, change, named("update"))
	r.OnDelete(gadgets, change, named("delete"))
	r.OnDaemon(gadgets, func(ctx context.Context, d *kopf.Daemon) error {
		m.daemons.enter(d.UID())
		defer m.daemons.leave(d.UID())
		<-ctx.Done()
		return nil
	}, &kopf.DaemonOptions{ID: "daemon", Labels: kopf.Match{"daemon": "yes"}})
	adjust := []func(*kopf.Operator){wired(func(q *Request) (*http.Response, error) {
		if op.barred.Load() && !m.chance.calm.Load() && strings.Contains(q.Path, "/leases") {
			return nil, errCut
		}
		return m.chance.fault(q)
	})}
	if elects {
		adjust = append(adjust, m.elects)
	}
	op.Running = m.Operator(r, adjust...)
	op.Wire.Lose(func(q *Request) bool { return q.Method == http.MethodPatch && m.chance.in(12) })
	return op
}

// gadgets returns the verbs for the objects, in a served version.
func (m *versionMoves) gadgets() *Kind { return m.Of(m.Unique("leaf")+".dev/"+m.served, "Gadget") }

func (m *versionMoves) serve(v1, v2 bool) {
	m.setVersions(gadgetVersions(v1, v2)...)
	m.served = map[bool]string{true: "v1", false: "v2"}[v1]
	if !v1 && !v2 {
		m.served = ""
	}
}

// step makes one change as another client.
func (m *versionMoves) step() {
	name, replica := fmt.Sprint("a", m.chance.upTo(10)), m.replicas[m.chance.upTo(len(m.replicas))]
	switch n := m.chance.upTo(12); {
	case n == 0:
		replica.Wire.Drop()
	case n == 1:
		replica.barred.Store(!replica.barred.Load())
	case n <= 3:
		m.serve(m.chance.upTo(3) > 0, m.chance.upTo(3) > 0)
	case m.served == "":
	case !m.gadgets().Exists(name):
		m.gadgets().Create(name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"daemon": []string{"yes", "no"}[m.chance.upTo(2)]}}, "spec": map[string]any{"x": m.chance.upTo(1000)}})
	case n <= 5:
		m.gadgets().Delete(name)
	default:
		m.gadgets().Patch(name, sized(m.chance.upTo(1000)))
	}
}

// judge checks the final state of all objects.
func (m *versionMoves) judge() {
	m.Helper()
	var names []string
	wanted := 0
	for _, o := range m.gadgets().List() {
		names = append(names, o.Name())
		if o.Labels()["daemon"] == "yes" {
			wanted++
		}
		state, _ := o.Annotation(diffBase)
		if o.Deleting() || len(records(o)) > 0 || !strings.Contains(state, fmt.Sprintf(`"x":%d}`, o.Spec().Int("x"))) {
			m.Errorf("the object was not handled: %s", o.LogValue())
		}
		if x := o.Spec().Int("x"); o.Status().Int("create") != x && o.Status().Int("update") != x {
			m.Errorf("the result was not stored: %s", o.LogValue())
		}
	}
	for _, op := range m.replicas {
		if got := slices.Sorted(maps.Keys(maps.Collect(op.names.All(op.holder)))); !slices.Equal(got, names) {
			m.Errorf("the index has %q, want %q", got, names)
		}
	}
	if n, most := m.daemons.now(); n != wanted || most > 1 {
		m.Errorf("%d daemons run, and up to %d for one object at the same time; want one for each of %d", n, most, wanted)
	}
}
