package judges

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"

	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// This file adds faults of processes, networks and clocks while all compete for the Lease.

var (
	rivalsFor  = flag.Duration("judges.rivals", 30*time.Minute, "for how long the rivals compete under faults; a minute with -short, and with shorter times of the Lease")
	rivalsSeed = flag.Uint64("judges.rivals-seed", uint64(time.Now().UnixNano()), "which faults there are")
)

// TestRivalsUnderFaults has four processes compete for the Lease, with stops, kills, freezes, partitions and slow responses.
func TestRivalsUnderFaults(t *testing.T) {
	f := &rivalFaults{times: electionTimes{15 * time.Second, 10 * time.Second, 2 * time.Second}, duration: *rivalsFor, seed: *rivalsSeed}
	if testing.Short() {
		f.times, f.duration = shortTimes, time.Minute
	}
	t.Logf("the seed is %d", f.seed)
	c := newContest(t, realUpstream(t))
	binary := buildRival(t, "")
	for i, kind := range append(rivalKinds[:], [2]string{"ours too", rivalry.Ours}) {
		c.add(kind[0], kind[1], binary, f.times, func(r *rivalry.Config) {
			r.Skew, r.Unwinding = time.Duration(i)*10*time.Minute-15*time.Minute, f.times.retry/4
		})
	}
	f.run(t, c)
	v := c.history(t).judge()
	t.Logf("the faults: %v", f.counts)
	acquit(t, v)
}

// slowThenGone is a fault that finds processes that count from the response of a renewal.
const slowThenGone = "slow answers, then a partition"

// rivalFaults are the faults of one run.
type rivalFaults struct {
	times    electionTimes
	duration time.Duration
	seed     uint64
	only     string // the fault of each holder; all processes have all faults if it is empty

	counts map[string]int
}

// part returns a random fraction of the Lease duration, for freezes: in total, up to 25 seconds for a duration of 15.
func (f *rivalFaults) part(random *rand.Rand) time.Duration {
	return f.times.retry/2 + time.Duration(random.Int64N(int64(f.times.lease*5/3)))
}

// run adds faults until the time is over.
func (f *rivalFaults) run(t testing.TB, c *contest) {
	t.Helper()
	f.counts = map[string]int{}
	random := rand.New(rand.NewPCG(f.seed, 1))
	for _, p := range c.places {
		p.start(t)
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(stop)
	group.Go(func() { c.revive(t, f.times, stop) })
	group.Go(func() { c.change(t, f.times, stop) })
	var going sync.WaitGroup // faults with a duration
	defer going.Wait()
	for began := time.Now(); time.Since(began) < f.duration; {
		victim := c.places[random.IntN(len(c.places))]
		if holder := c.holder(t); holder != nil && (f.only != "" || random.IntN(3) > 0) {
			victim = holder
		}
		d, name := f.part(random), f.only
		if name == "" {
			name = []string{"stop", "kill", "freeze", "freeze", "partition", "slow answers", "slow requests", slowThenGone}[random.IntN(8)]
		}
		f.counts[name]++
		going.Go(func() { f.inflict(victim, name, d) })
		if name == slowThenGone && f.only != "" {
			time.Sleep(3 * f.times.lease) // another process must have the time to take the Lease
		}
		// The faults overlap by chance.
		time.Sleep(f.times.lease/3 + time.Duration(random.Int64N(int64(f.times.lease))))
	}
}

// inflict adds a fault to a process or its network.
func (f *rivalFaults) inflict(p *place, name string, d time.Duration) {
	patience := max(time.Second, f.times.renew/2) // the time that kopf waits for a response
	switch name {
	case "stop":
		p.signal(syscall.SIGTERM)
	case "kill":
		p.signal(syscall.SIGKILL)
	case "freeze":
		p.freeze(d)
	case "partition":
		p.proxy.partition(d)
	case "slow answers":
		p.proxy.slow(0, min(d, patience), 2*d)
	case "slow requests":
		p.proxy.slow(min(d, patience), 0, 2*d)
	case slowThenGone:
		p.proxy.slowThenPartition(patience*17/20, 2*patience, f.times.lease*5/4)
	}
}

// every calls a function at each tick, until the channel is closed.
func every(d time.Duration, stop <-chan struct{}, fn func(n int)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C:
			fn(n)
		}
	}
}

// revive restarts processes that have ended.
func (c *contest) revive(t testing.TB, times electionTimes, stop <-chan struct{}) {
	every(times.retry, stop, func(int) {
		for _, p := range c.places {
			if !p.running() {
				p.start(t)
			}
		}
	})
}

// change changes the objects that kopf handles.
func (c *contest) change(t testing.TB, times electionTimes, stop <-chan struct{}) {
	every(times.retry, stop, func(n int) {
		patch := fmt.Appendf(nil, `{"data": {"n": %q}}`, strconv.Itoa(n))
		if err := rivalry.Patch(t.Context(), c.to.client, c.to.url+rivalry.MapsPath+"/work", patch, io.Discard); err != nil {
			t.Error(err)
		}
	})
}
