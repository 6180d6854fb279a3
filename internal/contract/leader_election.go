package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the election among replicas of one operator, in 7-availability.md: the Lease, a standby replica, and the handover of the work
// from one replica to another. On the real server, the durations are short.

var _ = Suite("leader_election", func(t *testing.T, c *C) {
	leases(t, c)
	leaseTimes(t, c)
	leaseTroubles(t, c)
	standingBy(t, c)
})

// leaseName is the name of the Lease of all leaves, in their own namespaces.
const leaseName = "website-operator"

// elects enables the election for an operator.
func (c *C) elects(op *kopf.Operator) {
	s := &op.Settings.LeaderElection
	s.Name, s.Namespace = leaseName, c.Namespace
	if !c.InBubble() {
		s.LeaseDuration, s.RenewDeadline, s.RetryPeriod = 3*time.Second, 2*time.Second, 500*time.Millisecond
	}
}

// Replica starts one of several replicas of an operator.
func (c *C) Replica(registry *kopf.Registry, adjust ...func(*kopf.Operator)) *Running {
	c.Helper()
	return c.Operator(registry, append([]func(*kopf.Operator){c.elects}, adjust...)...)
}

// leases is the kind of the Lease.
func (c *C) leases() *Kind { return c.Of("coordination.k8s.io/v1", "Lease") }

// holder returns the holder of the Lease, "" if it is released or missing.
func (c *C) holder() string {
	if !c.leases().Exists(leaseName) {
		return ""
	}
	return c.leases().Get(leaseName).Spec().String("holderIdentity")
}

// foreign returns a Lease of another elector.
func (c *C) foreign(holder string, seconds int, renewed time.Time) map[string]any {
	at := renewed.UTC().Format("2006-01-02T15:04:05.000000Z")
	return map[string]any{"spec": map[string]any{"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": at, "renewTime": at, "leaseTransitions": 7}}
}

// creating returns the handlers of a replica, which record their calls.
func creating(l *calls, name string) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		l.add("%s creates %s", name, ch.Name())
		ch.Patch.Set("status.by", name)
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
		l.add("%s updates %s", name, ch.Name())
		return nil
	}, &kopf.ChangeOptions{ID: "update"})
	return r
}

// leads waits until a replica is the leader.
func (c *C) leads(op *Running) {
	c.Helper()
	op.waitLogged(c, "Became the leader")
}

// leaseWrites returns the writing requests of a replica: those for the Lease, and all others.
func leaseWrites(op *Running) (leases, others []Request) {
	for _, r := range op.Wire.Writes() {
		if strings.Contains(r.Path, "/leases") {
			leases = append(leases, r)
		} else {
			others = append(others, r)
		}
	}
	return leases, others
}

func leases(t *testing.T, c *C) {
	c.Run(t, "HA-1 without an election, no Lease is used", func(c *C) {
		var l calls
		op := c.Operator(creating(&l, "a"))
		c.Create("x", nil)
		c.WaitFor("the handling", func() bool { return c.Get("x").Status().String("by") == "a" })
		c.Pass(10 * time.Second)
		for _, r := range op.Wire.Requests() {
			if strings.Contains(r.Path, "leases") || strings.Contains(r.Path, "coordination.k8s.io") {
				c.Errorf("got %s %s, want no request for a Lease", r.Method, r.Path)
			}
		}
	})
	c.Run(t, "HA-2 the record is that of client-go, and what others keep in the Lease stays", func(c *C) {
		c.leases().Create(leaseName, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"team": "web"}, "annotations": map[string]any{"note": "keep"}},
			"spec":     map[string]any{"preferredHolder": "somewhere", "strategy": "OldestEmulationVersion"},
		})
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		c.Pass(3 * time.Second)
		lease := c.leases().Get(leaseName)
		spec := lease.Spec()
		if got := []string{lease.Labels()["team"], lease.Annotations()["note"], spec.String("preferredHolder"), spec.String("strategy")}; !slices.Equal(got, []string{"web", "keep", "somewhere", "OldestEmulationVersion"}) {
			c.Errorf("got %q left of what others keep in the Lease", got)
		}
		micro := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
		for _, field := range []kopf.FieldPath{"acquireTime", "renewTime"} {
			if got := spec.String(field); !micro.MatchString(got) {
				c.Errorf("got the %s %q, want a time with six digits of the fraction", field, got)
			}
		}
		if got := spec.Int("leaseDurationSeconds"); got != 15 && c.InBubble() {
			c.Errorf("got a duration of %d seconds, want 15", got)
		}
		if spec.String("acquireTime") >= spec.String("renewTime") {
			c.Errorf("got %q and %q, want a renewal after the acquisition", spec.String("acquireTime"), spec.String("renewTime"))
		}
	})
	c.Run(t, "HA-5 the times in the record mean nothing to a candidate", func(c *C) {
		for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
			name := map[bool]string{true: "fast", false: "slow"}[off > 0]
			k := c.leases()
			k.Create(name, c.foreign("other", 4, time.Now().Add(off)))
			began := time.Now()
			a := c.Replica(creating(&calls{}, name), func(op *kopf.Operator) { op.Settings.LeaderElection.Name = name })
			c.leads(a)
			if passed := time.Since(began); passed < 4*time.Second || c.late(passed, 7*time.Second) {
				c.Errorf("with a %s clock, the Lease was taken after %s, want its 4 s without a renewal", name, passed)
			}
			a.Stop()
		}
	})
	c.Run(t, "HA-6 a released Lease is taken at once, a missing one is made, and conflicts are no errors", func(c *C) {
		k := c.leases()
		k.Create(leaseName, c.foreign("", 1, time.Now()))
		a := c.Replica(creating(&calls{}, "a"))
		var conflicts atomic.Int32
		c.leads(a)
		a.Stop()
		k.Delete(leaseName)
		b := c.Replica(creating(&calls{}, "b"), func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport.(*Wire)
			base.Fault(func(r *Request) (*http.Response, error) {
				if strings.Contains(r.Path, "/leases") && r.Method != http.MethodGet && conflicts.Add(1) <= 2 {
					return Answer(http.StatusConflict, "AlreadyExists", "another one was quicker"), nil
				}
				return nil, nil
			})
		})
		c.leads(b)
		for _, line := range b.Logs.All() {
			if line.Level > 0 {
				c.Errorf("got the line %q at level %s, want no complaint", line.Message, line.Level)
			}
		}
		if conflicts.Load() < 3 {
			c.Errorf("got %d attempts, want one more after each conflict", conflicts.Load())
		}
	})
	c.Run(t, "HA-7 the transitions count the acquisitions, and a release keeps them", func(c *C) {
		k := c.leases()
		transitions := func() int64 { return k.Get(leaseName).Spec().Int("leaseTransitions") }
		want := func(when string, n int64) {
			c.Helper()
			if got := transitions(); got != n {
				c.Errorf("%s, got %d transitions, want %d", when, got, n)
			}
		}
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		want("after the creation", 0)
		c.Pass(5 * time.Second)
		want("after renewals", 0)
		a.Stop()
		want("after the release", 0)
		b := c.Replica(creating(&calls{}, "b"))
		c.leads(b)
		want("after the next acquisition", 1)
		b.Crash()
		d := c.Replica(creating(&calls{}, "d"))
		c.leads(d)
		want("after a takeover", 2)
	})
	c.Run(t, "HA-8 two processes with one identity are two candidates", func(c *C) {
		var l calls
		a := c.Replica(creating(&l, "a"), as("pod-1"))
		c.leads(a)
		first := c.holder()
		if !regexp.MustCompile(`^pod-1_\d{8}$`).MatchString(first) {
			c.Errorf("got the holder %q, want pod-1_ and eight digits", first)
		}
		a.Crash()
		b := c.Replica(creating(&l, "b"), as("pod-1"))
		c.Pass(time.Second)
		if len(b.Logs.Find("Became the leader")) > 0 {
			c.Error("a restarted pod takes itself for the holder")
		}
		c.leads(b)
		if second := c.holder(); second == first {
			c.Errorf("got the holder %q twice", second)
		}
	})
	c.Run(t, "HA-T5 replicas with one identity do not all lead", func(c *C) {
		var l calls
		a := c.Replica(creating(&l, "a"), as("same"))
		b := c.Replica(creating(&l, "b"), as("same"))
		c.Pass(20 * time.Second)
		if n := len(a.Logs.Find("Became the leader")) + len(b.Logs.Find("Became the leader")); n != 1 {
			c.Errorf("got %d leaders, want one", n)
		}
	})
}

func leaseTimes(t *testing.T, c *C) {
	c.Run(t, "HA-4 the times have to fit each other: LeaseDuration, RenewDeadline, RetryPeriod", func(c *C) {
		for _, bad := range [][3]time.Duration{{10, 10, 2}, {15, 2400 * time.Millisecond / time.Second, 2}, {15, 10, 10}, {15, 10, 0}, {0, 0, 0}} {
			r := &kopf.Registry{}
			op := &kopf.Operator{Registry: r, Settings: kopf.NewSettings(), Namespaces: []string{c.Namespace}, Connection: c.ConnectionInfo()}
			s := &op.Settings.LeaderElection
			s.Name, s.LeaseDuration, s.RenewDeadline, s.RetryPeriod = leaseName, bad[0]*time.Second, bad[1]*time.Second, bad[2]*time.Second
			err := op.Run(c.Context())
			for _, value := range []time.Duration{s.LeaseDuration, s.RenewDeadline, s.RetryPeriod} {
				if err == nil || !strings.Contains(err.Error(), value.String()) || !strings.Contains(err.Error(), "LeaderElection") {
					c.Errorf("got the error %v, want one with %s", err, value)
				}
			}
		}
	})
	c.Run(t, "HA-4 the Name and the Namespace have to be names", func(c *C) {
		for _, bad := range [][2]string{
			{"Website", ""}, {"a/b", ""}, {"-a", ""}, {strings.Repeat("a", 254), ""}, {"a..b", ""}, {"fine", "Bad"}, {"fine", "a.b"}, {"fine", strings.Repeat("a", 64)}, {"", "fine"},
		} {
			op := &kopf.Operator{Registry: &kopf.Registry{}, Settings: kopf.NewSettings(), Namespaces: []string{c.Namespace}, Connection: c.ConnectionInfo()}
			s := &op.Settings.LeaderElection
			s.Name, s.Namespace = bad[0], bad[1]
			wrong := bad[1]
			if wrong == "" {
				wrong = bad[0]
			}
			if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", wrong)) {
				c.Errorf("got the error %v, want one with %q", err, wrong)
			}
		}
	})
	c.Run(t, "HA-4 times that no Lease can hold, or that have lost their unit, are refused", func(c *C) {
		const p = "invalid Settings.LeaderElection: "
		for want, times := range map[string][3]time.Duration{
			p + "LeaseDuration 15ns: want at least 1ms (did you mean 15*time.Second?)":                                             {15, 10, 2},
			p + "RetryPeriod 2ns: want at least 1ms (did you mean 2*time.Second?)":                                                 {15 * time.Second, 10 * time.Second, 2},
			p + "LeaseDuration 596523h14m8s: want at most 2147483647 seconds, which is all that a Lease can hold":                  {(1 << 31) * time.Second, 10 * time.Second, 2 * time.Second},
			p + "RetryPeriod 2562047h47m16.854775807s: want at most 2147483647 seconds, which is all that a Lease can hold":        {15 * time.Second, 10 * time.Second, 1<<63 - 1},
			p + "LeaseDuration 15s, RenewDeadline 20s, RetryPeriod 2s: want LeaseDuration > RenewDeadline > 1.2 × RetryPeriod > 0": {15 * time.Second, 20 * time.Second, 2 * time.Second},
		} {
			for _, name := range []string{leaseName, ""} { // without a name, there is no election, but the same error
				c.refuses(want, func(s *kopf.Settings) {
					l := &s.LeaderElection
					l.Name, l.LeaseDuration, l.RenewDeadline, l.RetryPeriod = name, times[0], times[1], times[2]
				})
			}
		}
	})
	c.Run(t, "HA-1 it is warned of times of an election without its name", func(c *C) {
		const line = "There is no leader election"
		a := c.Operator(creating(&calls{}, "a"), func(op *kopf.Operator) { op.Settings.LeaderElection.LeaseDuration = time.Minute })
		if lines := a.Logs.Find(line); len(lines) != 1 || lines[0].Level != slog.LevelWarn {
			c.Errorf("got the lines %v, want one warning", lines)
		}
		b := c.Operator(creating(&calls{}, "b"))
		if lines := b.Logs.Find(line); len(lines) > 0 {
			c.Errorf("got the lines %v of an operator that has the defaults", lines)
		}
	})
	c.Run(t, "HA-4 a start-up handler may name the Lease whose namespace is given", func(c *C) {
		r := creating(&calls{}, "a")
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			a.Settings.LeaderElection.Name = "named-later"
			return nil
		}, &kopf.ActivityOptions{ID: "configure"})
		c.leads(c.Replica(r, func(op *kopf.Operator) { op.Settings.LeaderElection.Name = "" }))
		if !c.leases().Exists("named-later") {
			c.Error("the Lease is not there")
		}
	})
	c.Run(t, "HA-11 the holder writes once a RetryPeriod, and a candidate reads as often", func(c *C) {
		c.OnlyInBubble("it takes a minute")
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		before := len(a.Wire.Requests())
		b := c.Replica(creating(&calls{}, "b"))
		c.Pass(time.Minute)
		count := func(op *Running, method string) (n int) {
			requests := op.Wire.Requests()
			if op == a {
				requests = requests[before:]
			}
			for _, r := range requests {
				if strings.Contains(r.Path, "/leases") && (method == "" || r.Method == method) {
					n++
				}
			}
			return n
		}
		if got, all := count(a, "PUT"), count(a, ""); got < 29 || got > 31 || all > got+2 {
			c.Errorf("got %d renewals and %d requests of the holder in a minute, want 30", got, all)
		}
		if got, all := count(b, "GET"), count(b, ""); got < 25 || got > 31 || all != got {
			c.Errorf("got %d reads and %d requests of the candidate in a minute, want 25 to 30", got, all)
		}
	})
	c.Run(t, "HA-20 several operators in one process have elections of their own: Namespace and Name", func(c *C) {
		var l calls
		named := func(name string) func(*kopf.Operator) {
			return func(op *kopf.Operator) {
				op.Settings.LeaderElection.Name = name
				op.Settings.LeaderElection.Namespace = c.Namespace
			}
		}
		a := c.Replica(creating(&l, "a"), named("one"))
		b := c.Replica(creating(&l, "b"), named("two"))
		c.leads(a)
		c.leads(b)
		if !c.leases().Exists("one") || !c.leases().Exists("two") {
			c.Error("there are not two Leases")
		}
	})
	c.Run(t, "HA-31 an old candidate leaves a released Lease to a fresher one", func(c *C) {
		c.OnlyInBubble("it takes a quarter of an hour")
		for range 10 {
			old := c.Replica(creating(&calls{}, "holder"))
			c.leads(old)
			second := c.Replica(creating(&calls{}, "second"))
			c.Pass(11 * time.Minute)
			fresh := c.Replica(creating(&calls{}, "fresh")) // a rolling update starts a new replica before it stops an old one
			c.Pass(3 * time.Second)
			old.Stop()
			c.leads(fresh)
			second.Stop()
			if n := len(second.Logs.Find("Became the leader")); n > 0 {
				c.Errorf("the old replica has become the leader %d times", n)
			}
			fresh.Stop()
		}
	})
	c.Run(t, "HA-31 an old candidate takes a released Lease that no fresher one takes", func(c *C) {
		c.OnlyInBubble("it takes a quarter of an hour")
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		b := c.Replica(creating(&calls{}, "b"))
		c.Pass(11 * time.Minute)
		began := time.Now()
		a.Stop()
		c.leads(b)
		if passed := time.Since(began); passed > 6*time.Second {
			c.Errorf("it took %s", passed)
		}
	})
}

func leaseTroubles(t *testing.T, c *C) {
	c.Run(t, "HA-9 nothing delays the requests for the Lease", func(c *C) {
		c.OnlyInBubble("the server has to hang")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			var all []error
			for i := range 50 {
				all = append(all, ch.Client.Create(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("m%d", i), "namespace": ch.Namespace()}}, nil))
			}
			return errors.Join(all...)
		}, &kopf.ChangeOptions{ID: "create"})
		a := c.Replica(r, func(op *kopf.Operator) {
			n := &op.Settings.Networking
			n.RequestRate, n.RequestBurst, n.MaxInFlight = 1, 1, 1
		})
		a.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPost && strings.Contains(q.Path, "/configmaps") {
				time.Sleep(20 * time.Second)
				answer := Answer(http.StatusTooManyRequests, "TooManyRequests", "slow down")
				answer.Header.Set("Retry-After", "60")
				return answer, nil
			}
			return nil, nil
		})
		c.leads(a)
		c.Create("x", nil)
		c.Pass(10 * time.Minute)
		if lines := a.Logs.Find("Lost the leadership"); len(lines) > 0 {
			c.Errorf("the Lease was lost: %v", lines)
		}
	})
	c.Run(t, "HA-T6 own load does not starve the renewals", func(c *C) {
		var l calls
		a := c.Replica(creating(&l, "a"), func(op *kopf.Operator) { op.Settings.Networking.MaxInFlight = 1 })
		c.leads(a)
		for i := range 200 {
			c.Create(fmt.Sprintf("x%d", i), nil)
		}
		c.WaitFor("the handling", func() bool { return len(l.all()) == 200 })
		if lines := a.Logs.Find("Lost the leadership"); len(lines) > 0 {
			c.Errorf("the Lease was lost: %v", lines)
		}
	})
	c.Run(t, "HA-10 without the right to use Leases, the start fails with the rule to add", func(c *C) {
		op, wire, _ := c.operatorOn(creating(&calls{}, "a"))
		op.Settings = kopf.NewSettings()
		c.elects(op)
		wire.Fault(func(q *Request) (*http.Response, error) {
			if strings.Contains(q.Path, "/leases") {
				return Answer(http.StatusForbidden, "Forbidden", "leases is forbidden"), nil
			}
			return nil, nil
		})
		err := op.Run(c.Context())
		for _, word := range []string{"coordination.k8s.io", "leases", "create", "update", "get", c.Namespace + "/" + leaseName} {
			if err == nil || !strings.Contains(err.Error(), word) {
				c.Errorf("got the error %v, want one with %q", err, word)
			}
		}
	})
	c.Run(t, "HA-10 a refusal later is a renewal that has failed", func(c *C) {
		c.OnlyInBubble("it takes as long as a Lease")
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		var forbidden atomic.Bool
		a.Wire.Fault(func(q *Request) (*http.Response, error) {
			if forbidden.Load() && strings.Contains(q.Path, "/leases") {
				return Answer(http.StatusForbidden, "Forbidden", "leases is forbidden"), nil
			}
			return nil, nil
		})
		forbidden.Store(true)
		c.Pass(5 * time.Second)
		if n := len(a.Logs.Find("Lost the leadership")); n > 0 {
			c.Error("the Lease was lost by one refusal")
		}
		c.Pass(10 * time.Second)
		if n := len(a.Logs.Find("Lost the leadership")); n != 1 {
			c.Errorf("the Lease was lost %d times, want once", n)
		}
		forbidden.Store(false)
		c.WaitFor("the leading again", func() bool { return len(a.Logs.Find("Became the leader")) == 2 })
	})
	c.Run(t, "HA-12 an event at the Lease and the log tell who leads", func(c *C) {
		a := c.Replica(creating(&calls{}, "a"), as("pod-a"))
		c.leads(a)
		b := c.Replica(creating(&calls{}, "b"), as("pod-b"))
		c.Pass(3 * time.Second)
		holder := c.holder()
		if lines := b.Logs.Find("Standing by"); len(lines) != 1 || lines[0].Attrs["holder"] != holder {
			c.Errorf("got the lines %v of the candidate, want one that names %s", lines, holder)
		}
		a.Stop()
		c.leads(b)
		next := b.Logs.Find("Became the leader")[0]
		if next.Attrs["lease"] != c.Namespace+"/"+leaseName || next.Attrs["vacant"] == "" {
			c.Errorf("got the attributes %v, want the Lease and for how long it was vacant", next.Attrs)
		}
		c.WaitFor("the events", func() bool {
			var messages []string
			for _, e := range c.Of("v1", "Event").List() {
				if e.Get("involvedObject.kind") == "Lease" && e.Get("involvedObject.name") == leaseName && e.Get("involvedObject.uid") == c.leases().Get(leaseName).UID() && e.Get("reason") == "LeaderElection" {
					messages = append(messages, fmt.Sprint(e.Get("message")))
				}
			}
			slices.Sort(messages)
			return slices.Equal(messages, []string{holder + " became leader", holder + " stopped leading", c.holder() + " became leader"})
		})
	})
}

func standingBy(t *testing.T, c *C) {
	c.Run(t, "HA-13 each replica starts, indexes and is probed; one handles", func(c *C) {
		var l calls
		registry := func(name string) *kopf.Registry {
			r := creating(&l, name)
			r.OnStartup(func(context.Context, *kopf.Activity) error { l.add("%s starts", name); return nil }, &kopf.ActivityOptions{ID: "startup"})
			kopf.OnIndexIn(r, Examples, func(_ context.Context, x *kopf.Indexing) (map[string]string, error) {
				l.add("%s indexes %s", name, x.Name())
				return map[string]string{x.Name(): "there"}, nil
			}, &kopf.IndexOptions{ID: "names"})
			r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error { l.add("%s sees %s", name, e.Name()); return nil }, &kopf.EventOptions{ID: "event"})
			return r
		}
		a := c.Replica(registry("a"))
		c.leads(a)
		c.Replica(registry("b"))
		c.Create("x", nil)
		c.WaitFor("the indexing on both", func() bool { return l.count("b indexes x") > 0 && l.count("a creates x") == 1 })
		c.Pass(3 * time.Second)
		for _, never := range []string{"b creates", "b updates", "b sees"} {
			if n := l.count(never); n > 0 {
				c.Errorf("got %d of %q, want none", n, never)
			}
		}
		if l.count("a starts") != 1 || l.count("b starts") != 1 {
			c.Errorf("got the calls %q, want a start of each", l.all())
		}
	})
	c.Run(t, "HA-18 a replica that stands by is alive and ready, and tells who leads", func(c *C) {
		c.OnlyInBubble("the endpoint is a pipe")
		a := c.Replica(creating(&calls{}, "a"))
		c.leads(a)
		p := newPipe()
		b := c.Replica(creating(&calls{}, "b"), probed(p, "http://0.0.0.0:1234/healthz"))
		c.Pass(3 * time.Second)
		wantAnswer(c, "liveness", p.ask("GET", "/healthz"), "200 {}")
		if got := p.ask("GET", "/readyz"); got.code != http.StatusOK {
			c.Errorf("got the readiness %v, want 200", got)
		}
		var told struct {
			Leading bool
			Holder  string
		}
		read := func() {
			c.Helper()
			if err := json.Unmarshal([]byte(p.ask("GET", "/readyz?holder").body), &told); err != nil {
				c.Error(err)
			}
		}
		if read(); told.Leading || told.Holder != c.holder() {
			c.Errorf("got %v, want the holder %s", told, c.holder())
		}
		metric := `leader_election_master_status{name="` + leaseName + `"} `
		if page := p.ask("GET", "/metrics").body; !strings.Contains(page, metric+"0") {
			c.Errorf("the metrics do not have %q", metric+"0")
		}
		a.Stop()
		c.leads(b)
		if read(); !told.Leading || told.Holder != c.holder() {
			c.Errorf("got %v, want the holder %s", told, c.holder())
		}
		if page := p.ask("GET", "/metrics").body; !strings.Contains(page, metric+"1") {
			c.Errorf("the metrics do not have %q", metric+"1")
		}
	})
	c.Run(t, "HA-T2 a replica that stands by does not block a rollout", func(c *C) {
		c.OnlyInBubble("the endpoint is a pipe")
		c.leads(c.Replica(creating(&calls{}, "a")))
		p := newPipe()
		c.Replica(creating(&calls{}, "b"), probed(p, "http://0.0.0.0:1234/healthz"))
		c.WaitFor("the readiness", func() bool { return p.ask("GET", "/readyz").code == http.StatusOK })
	})
}
