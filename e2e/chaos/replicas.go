package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file keeps several replicas of the operator running, and does to them what happens to replicas: they are replaced by newer ones, killed, frozen for
// longer than a Lease lasts, and cut off from the API server one by one.

const (
	replicaPrefix = "replica-" // begins the identities
	leaseName     = "chaos"
	leasePrefix   = "/registry/leases/" + namespace + "/"
	leaseDuration = 9 * time.Second // as the operator has it
)

// replicas are the processes of one operator. There is one if there is no election.
type replicas struct {
	make    func() *supervisor
	counter atomic.Int64 // of processes

	mu      sync.Mutex // guards all below
	active  []*supervisor
	retired []*supervisor
	frozen  []life
	deeds   []string // what was done to them
}

// running are those that are kept running.
func (r *replicas) running() []*supervisor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.active)
}

// ever are all that there have been.
func (r *replicas) ever() []*supervisor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.retired, r.active)
}

// first is one of them, for what they share.
func (r *replicas) first() *supervisor { return r.running()[0] }

// some is one of them by chance.
func (r *replicas) some(random *rand.Rand) *supervisor {
	all := r.running()
	return all[random.IntN(len(all))]
}

func (r *replicas) peak() int64 {
	var most int64
	for _, s := range r.ever() {
		s.mu.Lock()
		most = max(most, s.peak)
		s.mu.Unlock()
	}
	return most
}

func (r *replicas) lives() []life {
	var all []life
	for _, s := range r.ever() {
		all = append(all, s.lives()...)
	}
	slices.SortFunc(all, func(a, b life) int { return a.run - b.run })
	return all
}

// note notes what was done.
func (r *replicas) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deeds = append(r.deeds, time.Now().Format(clock)+" "+fmt.Sprintf(format, args...))
}

func (r *replicas) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.deeds)
}

// everSupervised are the supervisors of all operators that there have been.
func (b *bench) everSupervised() []*supervisor {
	all := b.replicas.ever()
	if b.tenant != nil {
		all = append(all, b.tenant)
	}
	return all
}

// censuses are those of the process that leads, or that there is, and of the others.
func (b *bench) censuses(ctx context.Context) (leading *journal.Census, others []*journal.Census, err error) {
	for _, s := range b.replicas.running() {
		census, err := s.census(ctx)
		if err != nil {
			return nil, nil, err
		}
		if b.opts.Replicas == 1 || census.Fence != 0 && leading == nil {
			leading = census
		} else {
			others = append(others, census)
		}
	}
	if leading == nil {
		return nil, nil, errors.New("no replica leads")
	}
	return leading, others, nil
}

// leader is the one that holds the Lease, one by chance if none does.
func (b *bench) leader(random *rand.Rand) *supervisor {
	if lease := b.leases.objects(leaseName)[leaseName]; lease != nil {
		run := runOf(lease.holder())
		for _, s := range b.replicas.running() {
			if s.number() == run {
				return s
			}
		}
	}
	return b.replicas.some(random)
}

// number is that of the process that runs.
func (s *supervisor) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// runOf is the process with an identity in an election, 0 if it is not one of the bench.
func runOf(identity string) int {
	text, _, _ := strings.Cut(strings.TrimPrefix(identity, replicaPrefix), "_")
	run, err := strconv.Atoi(text)
	if err != nil || !strings.HasPrefix(identity, replicaPrefix) {
		return 0
	}
	return run
}

// shuffleReplicas does one thing after another to the replicas until the context ends, and nothing after a time.
func (b *bench) shuffleReplicas(ctx context.Context, random *rand.Rand, peace time.Time) error {
	ways := []func(context.Context, *rand.Rand) error{b.replaceReplica, b.killLeader, b.freezeLeader, b.cutOff, b.holdBack}
	for n := 0; ; n++ {
		if n%len(ways) == 0 {
			random.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
		}
		pause(ctx, between(random, time.Second, 5*time.Second))
		if ctx.Err() != nil || time.Now().After(peace) {
			return nil
		}
		if err := ways[n%len(ways)](ctx, random); err != nil {
			return err
		}
	}
}

// replaceReplica is a step of a rolling update: one more process, and one of the others is stopped.
func (b *bench) replaceReplica(ctx context.Context, random *rand.Rand) error {
	b.counts.add(updatedReplica)
	old := b.replicas.some(random)
	if random.IntN(2) == 0 {
		old = b.leader(random)
	}
	s := b.replicas.make()
	s.counter = &b.replicas.counter
	if err := s.start(); err != nil {
		return err
	}
	b.replicas.mu.Lock()
	b.replicas.active = append(b.replicas.active, s)
	b.replicas.mu.Unlock()
	pause(ctx, between(random, time.Second, 3*time.Second))
	b.replicas.note("process %d is stopped, process %d is new", old.number(), s.number())
	b.replicas.retire(old) // or another fault could kill it while it stops
	old.end(syscall.SIGTERM, true)
	return nil
}

// retire has no further faults happen to a process.
func (r *replicas) retire(s *supervisor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = slices.DeleteFunc(r.active, func(o *supervisor) bool { return o == s })
	r.retired = append(r.retired, s)
}

func (b *bench) killLeader(_ context.Context, random *rand.Rand) error {
	b.counts.add(killedLeader)
	s := b.leader(random)
	b.replicas.note("process %d is killed", s.number())
	s.kill()
	return nil
}

// freezeLeader stops the process without its knowledge for longer than others wait, in most cases.
func (b *bench) freezeLeader(ctx context.Context, random *rand.Rand) error {
	b.counts.add(frozenLeader)
	s := b.leader(random)
	s.mu.Lock()
	process, run := s.cmd.Process, s.run
	s.mu.Unlock()
	from := time.Now()
	_ = process.Signal(syscall.SIGSTOP) // it may have ended
	pause(ctx, between(random, leaseDuration/2, 2*leaseDuration))
	to := time.Now()
	_ = process.Signal(syscall.SIGCONT) // likewise
	b.replicas.mu.Lock()
	b.replicas.frozen = append(b.replicas.frozen, life{run, span{from, to}})
	b.replicas.mu.Unlock()
	b.replicas.note("process %d was frozen from %s", run, from.Format(clock))
	return nil
}

// victim is the process that a partition is about.
func (b *bench) victim(random *rand.Rand) int {
	if random.IntN(3) == 0 {
		return b.replicas.some(random).number()
	}
	return b.leader(random).number()
}

// cutOff ends the connections of one replica, and refuses others for a while.
func (b *bench) cutOff(ctx context.Context, random *rand.Rand) error {
	b.counts.add(cutReplica)
	run, from := b.victim(random), time.Now()
	b.proxy.links.set(run, &link{cut: true})
	b.proxy.cutProcess(run)
	pause(ctx, between(random, leaseDuration/2, 2*leaseDuration))
	b.proxy.links.set(run, nil)
	b.replicas.note("process %d was cut off from %s", run, from.Format(clock))
	return nil
}

// holdBack has the requests of one replica, and the answers to them, arrive after a while, as a network does that loses packets: also what the
// replica does not wait for any more.
func (b *bench) holdBack(ctx context.Context, random *rand.Rand) error {
	b.counts.add(heldReplica)
	run, from := b.victim(random), time.Now()
	l := &link{held: make(chan struct{})}
	b.proxy.links.set(run, l)
	pause(ctx, between(random, leaseDuration/2, 3*leaseDuration))
	b.proxy.links.set(run, nil)
	close(l.held)
	b.replicas.note("requests of process %d were held back from %s", run, from.Format(clock))
	return nil
}
