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

// This file supervises several replicas of the operator, with typical faults: they are replaced by newer ones, killed, frozen for longer than the Lease
// duration, and disconnected from the API server one by one.

const (
	replicaPrefix = "replica-" // the prefix of the identities
	leaseName     = "chaos"
	leasePrefix   = "/registry/leases/" + namespace + "/"
	leaseDuration = 9 * time.Second // the setting of the operator
)

// replicas are the processes of one operator. Without an election, there is one.
type replicas struct {
	make    func() *supervisor
	counter atomic.Int64 // the number of the last process

	mu      sync.Mutex // guards all below
	active  []*supervisor
	retired []*supervisor
	frozen  []life
	deeds   []string // the actions on them
}

// running returns the running replicas.
func (r *replicas) running() []*supervisor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.active)
}

// ever returns all replicas, including stopped ones.
func (r *replicas) ever() []*supervisor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.retired, r.active)
}

// first returns one of them, for their common properties.
func (r *replicas) first() *supervisor { return r.running()[0] }

// some returns a random one of them.
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

// note records an action.
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

// everSupervised returns the supervisors of all operators, including stopped ones.
func (b *bench) everSupervised() []*supervisor {
	all := b.replicas.ever()
	if b.tenant != nil {
		all = append(all, b.tenant)
	}
	return all
}

// censuses returns those of the leader, or of the only process, and of the others.
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

// leader returns the replica with the Lease, a random one if there is none.
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

// number returns the number of the running process.
func (s *supervisor) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// runOf returns the process with an identity in an election, 0 if it is unknown.
func runOf(identity string) int {
	text, _, _ := strings.Cut(strings.TrimPrefix(identity, replicaPrefix), "_")
	run, err := strconv.Atoi(text)
	if err != nil || !strings.HasPrefix(identity, replicaPrefix) {
		return 0
	}
	return run
}

// shuffleReplicas runs one action after another on the replicas until the context is canceled. After the time peace, it does nothing.
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

// replaceReplica is a step of a rolling update: it starts one process, and stops another.
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
	b.replicas.retire(old) // so that no other fault kills it during its shutdown
	old.end(syscall.SIGTERM, true)
	return nil
}

// retire excludes a process from further faults.
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

// freezeLeader suspends the process by a signal, in most cases for longer than the Lease duration.
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

// victim returns the process for a partition.
func (b *bench) victim(random *rand.Rand) int {
	if random.IntN(3) == 0 {
		return b.replicas.some(random).number()
	}
	return b.leader(random).number()
}

// cutOff closes the connections of one replica, and refuses new ones for a while.
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

// holdBack delays the requests of one replica, and their responses, as a network with packet loss does. This includes canceled requests.
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
