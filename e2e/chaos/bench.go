// Package chaos tries to break an operator. It runs the operator on a real control plane while clients change its objects. Meanwhile requests, servers,
// credentials, clocks and the operator itself fail. In the end, it checks the guarantees for each object.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// Options configure a run.
type Options struct {
	// Seed determines the fault of each request, the outcome of each call of a handler, and the changes by clients.
	Seed uint64
	// Duration is the time in which faults happen. It does not include the time until the operator has settled afterwards.
	Duration time.Duration
	// Objects is the number of names for objects. Default: 300.
	Objects int
	// Replicas is the number of replicas of the operator. If there are several, they elect a leader by a Lease. Default: 1.
	Replicas int
	// Families are the kinds of faults, of [Families]. Default: all, without those of replicas if there is only one.
	Families []string
	// Log gets progress messages. Default: none.
	Log io.Writer
	// Keep keeps the folder of a run with violations, for its logs. The log contains its path. Default: false.
	Keep bool
}

func (o *Options) has(family string) bool { return slices.Contains(o.Families, family) }

// The shape of a run.
const (
	writerCount = 4
	writerPace  = 250 * time.Millisecond
	faultRate   = 0.12
	settleTime  = 150 * time.Second

	complaintAfter = 20 * time.Second
)

type bench struct {
	opts     *Options
	dir      string
	kept     bool // whether the folder is kept after the run
	cluster  *cluster.Cluster
	counts   *tally
	logins   *logins
	proxy    *proxy
	history  *History
	writers  *writers
	replicas *replicas
	leases   *History    // the history of the Lease; nil without an election
	tenant   *supervisor // nil if no namespaces are added and removed
	trusted  []byte      // the content of the authority's file
	rooms    rooms
	contests []Contest

	mu        sync.Mutex // guards all below
	rotations []Rotation
}

// Run makes one run. An error means that the bench itself has failed. Errors of the operator are in the report.
func Run(ctx context.Context, opts Options) (*Report, error) {
	if opts.Objects == 0 {
		opts.Objects = 300
	}
	opts.Replicas = max(1, opts.Replicas)
	if opts.Families == nil {
		opts.Families = slices.DeleteFunc(Families(), func(name string) bool { return name == replicated && opts.Replicas == 1 })
	}
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	if unknown := slices.DeleteFunc(slices.Clone(opts.Families), func(name string) bool { return slices.Contains(Families(), name) }); len(unknown) > 0 {
		return nil, fmt.Errorf("there are no faults of the sorts %q, but %q", unknown, Families())
	}
	if opts.has(replicated) && opts.Replicas == 1 {
		return nil, errors.New("the faults of replicas take several")
	}
	b := &bench{opts: &opts, counts: newTally()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return nil, fmt.Errorf("seed %d: %w", opts.Seed, err)
	}
	report, err := b.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", opts.Seed, err)
	}
	report.Missing = opts.missing(report.Faults)
	if b.kept = opts.Keep && len(report.Violations) > 0; b.kept {
		b.say("seed %d: the logs are in %s", opts.Seed, b.dir)
	}
	return report, nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.opts.Log, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// open starts all servers of a run.
func (b *bench) open(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "kopf-chaos-"); err != nil {
		return err
	}
	options := &cluster.Options{}
	if b.opts.has("namespaces") {
		options.Controllers = []string{"namespace-controller"}
	}
	if b.opts.has("children") {
		if options.APIServerArgs, err = b.auditArgs(); err != nil {
			return err
		}
	}
	if b.cluster, err = cluster.Start(ctx, options); err != nil {
		return err
	}
	b.writers = &writers{cluster: b.cluster, objects: b.opts.Objects, pace: writerPace}
	b.writers.version.Store("v1")
	b.rooms.removed = map[string]time.Time{}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if b.proxy, err = newProxy(b.cluster, b.opts.Seed, b.counts); err != nil {
		return err
	}
	if b.logins, err = newLogins(b.dir, b.cluster.Authority(), b.counts); err != nil {
		return err
	}
	b.proxy.logins = b.logins
	binary := filepath.Join(b.dir, "operator")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/kopf-go/kopf/e2e/chaos/operator").CombinedOutput(); err != nil {
		return fmt.Errorf("building the operator: %w\n%s", err, out)
	}
	b.trusted = b.cluster.CA()
	if err := b.writeCA(b.trusted); err != nil {
		return err
	}
	b.history = newHistory(b.cluster.EtcdURL(), "/registry/"+group+"/")
	if b.opts.Replicas > 1 {
		b.leases = newHistory(b.cluster.EtcdURL(), leasePrefix)
		b.leases.decode = decodeLease
	}
	b.openOperators(binary)
	return nil
}

// openOperators creates the supervisors of the operators, and starts none of them yet.
func (b *bench) openOperators(binary string) {
	b.replicas = &replicas{make: func() *supervisor {
		s := &supervisor{binary: binary, args: []string{"--all-namespaces", "--peering=chaos", "--priority=10"}, replica: b.opts.Replicas > 1}
		if s.replica {
			s.args = append(s.args, "--leader-elect="+leaseName, "--leader-elect-namespace="+namespace)
		}
		return b.equip(s)
	}}
	for range b.opts.Replicas {
		s := b.replicas.make()
		s.counter = &b.replicas.counter
		b.replicas.active = append(b.replicas.active, s)
	}
	if b.opts.has("namespaces") {
		b.tenant = b.equip(&supervisor{binary: binary, role: tenantRole, args: []string{"--namespace=" + roomPrefix + "*", "--peering=default", "--priority=10"}})
		b.tenant.counter = &atomic.Int64{}
	}
}

// equip gives a supervisor the settings of the run.
func (b *bench) equip(s *supervisor) *supervisor {
	s.dir, s.seed, s.families = b.dir, b.opts.Seed, b.opts.Families
	s.prepare = func(run int) (string, error) {
		path, url := s.file("kubeconfig"), b.proxy.server.URL
		switch {
		case s.role != "":
			url += "/" + s.role
		case s.replica:
			path, url = fmt.Sprint(path, "-", run), url+processPath+strconv.Itoa(run)
		}
		return path, os.WriteFile(path, []byte(kubeconfig(url, filepath.Join(b.dir, "ca.crt"), s.binary)), 0o600)
	}
	return s
}

// supervisors returns those of all operators.
func (b *bench) supervisors() []*supervisor {
	var all []*supervisor
	if b.replicas != nil {
		all = b.replicas.running()
	}
	if b.tenant != nil {
		all = append(all, b.tenant)
	}
	return all
}

// prepare creates the kinds of the run, waits until they are served, and creates the initial objects.
func (b *bench) prepare(ctx context.Context) error {
	for _, k := range kinds {
		b.writers.do(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", k.manifest())
	}
	for _, k := range kinds {
		for {
			_, err := b.cluster.Request(ctx, http.MethodGet, k.collection(), nil)
			if err == nil {
				break
			}
			if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
				return err
			}
		}
	}
	b.writers.do(ctx, http.MethodPost, "/apis/kopf.dev/v1/clusterkopfpeerings",
		map[string]any{"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": map[string]any{"name": "chaos"}})
	if b.opts.has("namespaces") {
		b.openRoom(ctx, lobby, 2)
	}
	return nil
}

func (b *bench) close() {
	for _, s := range b.supervisors() {
		if s.cmd != nil {
			s.finish()
		}
	}
	if b.proxy != nil {
		b.proxy.server.CloseClientConnections()
		b.proxy.server.Close()
	}
	if b.logins != nil {
		b.logins.stop()
	}
	if b.cluster != nil {
		b.cluster.Stop()
	}
	if !b.kept {
		_ = os.RemoveAll(b.dir) // a folder of temporary files
	}
}

// run runs the stages.
func (b *bench) run(ctx context.Context) (*Report, error) {
	following, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { b.history.follow(following) })
	if b.leases != nil {
		group.Go(func() { b.leases.follow(following) })
	}
	for _, s := range b.supervisors() {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	before, err := b.steadyCensus(ctx)
	if err != nil {
		return nil, err
	}
	b.say("seed %d: things go wrong for %s", b.opts.Seed, b.opts.Duration)
	if err := b.trouble(ctx); err != nil {
		return nil, err
	}
	b.say("seed %d: all is well again, and is to settle", b.opts.Seed)
	if err := os.WriteFile(filepath.Join(b.dir, "calm"), nil, 0o600); err != nil {
		return nil, err
	}
	report := &Report{Seed: b.opts.Seed}
	settled := time.Now()
	evidence, violations, err := b.settle(ctx, (*Evidence).judge, false)
	if err != nil {
		return nil, err
	}
	report.Settled, report.Violations = time.Since(settled), violations
	b.say("seed %d: one thing goes wrong at a time", b.opts.Seed)
	if err := b.trials(ctx); err != nil {
		return nil, err
	}
	b.say("seed %d: all objects are deleted", b.opts.Seed)
	last, violations, err := b.settle(ctx, func(e *Evidence) []Violation { return e.judgeEmpty(before) }, true)
	if err != nil {
		return nil, err
	}
	report.Violations = append(report.Violations, violations...)
	for _, s := range b.supervisors() {
		s.finish()
	}
	report.Violations = append(report.Violations, b.remains(ctx)...)
	last.inside(b.counts)
	report.evidence, report.last = evidence, last
	b.fill(report)
	return report, nil
}

// steadyCensus returns the census of an operator that is idle after its start.
func (b *bench) steadyCensus(ctx context.Context) (*journal.Census, error) {
	for range 100 {
		pause(ctx, 200*time.Millisecond)
		if b.proxy.requests.of("GET watch") < 3 { // for CRDs, the peering, and the objects
			continue
		}
		pause(ctx, time.Second)
		if census, _, err := b.censuses(ctx); err == nil {
			return census, nil
		}
	}
	log, _ := os.ReadFile(b.replicas.first().log())
	return nil, fmt.Errorf("the operator does not start:\n%s", log)
}

// trouble runs the clients and the faults, for the duration of the run. At its end, processes keep running for a while: a new one would not have the
// possibly wrong state of the old one.
func (b *bench) trouble(ctx context.Context) error {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.opts.Duration)
	defer cancel()
	subjects := map[string]func(context.Context, *rand.Rand) error{
		"definitions": b.moveVersions,
		"refusals":    b.refuse,
		"large":       b.writeLarge,
		"namespaces":  b.moveRooms,
		"authorities": b.rotateAuthorities,
		"children":    b.meddle,
		replicated: func(ctx context.Context, random *rand.Rand) error {
			return b.shuffleReplicas(ctx, random, started.Add(b.opts.Duration-min(b.opts.Duration/3, lastPeace)))
		},
	}
	if b.opts.has(basic) {
		b.proxy.setRate(faultRate)
		subjects[basic] = func(ctx context.Context, random *rand.Rand) error {
			return b.disrupt(ctx, random, started.Add(b.opts.Duration-min(b.opts.Duration/3, lastPeace)))
		}
	}
	b.proxy.extensionDown.Store(true)
	errs := make(chan error, len(subjects))
	var group sync.WaitGroup
	for i := range writerCount {
		group.Go(func() { b.writers.write(ctx, rand.New(rand.NewPCG(b.opts.Seed, uint64(i)))) })
	}
	for i, name := range slices.Sorted(maps.Keys(subjects)) {
		if b.opts.has(name) {
			group.Go(func() {
				if err := subjects[name](ctx, rand.New(rand.NewPCG(b.opts.Seed, uint64(1000+i)))); err != nil {
					errs <- fmt.Errorf("%s: %w", name, err)
					cancel()
				}
			})
		}
	}
	group.Wait()
	b.proxy.setRate(0)
	b.proxy.extensionDown.Store(false)
	b.logins.calm()
	b.proxy.dark.Store(false)
	close(errs)
	return <-errs
}

// lastPeace is the time before the end in which no process is ended.
const lastPeace = 20 * time.Second

// trials run faults that must not overlap with others, one at a time.
func (b *bench) trials(ctx context.Context) error {
	if b.opts.has("authorities") {
		if err := b.rotateAuthority(ctx, false); err != nil {
			return err
		}
	}
	if b.opts.has("contests") {
		b.contest(ctx, rand.New(rand.NewPCG(b.opts.Seed, 2000)))
	}
	return nil
}

// settle waits until there are no violations that may yet pass, with a long timeout, and returns the remaining ones.
func (b *bench) settle(ctx context.Context, judge func(*Evidence) []Violation, remove bool) (*Evidence, []Violation, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	b.writers.release(ctx, b.history, remove)
	b.releaseGardens(ctx, remove)
	for began := time.Now(); ; {
		evidence, err := b.gather(context.WithoutCancel(ctx))
		if err != nil && ctx.Err() != nil {
			return nil, nil, err
		}
		if err == nil {
			if violations := judge(evidence); ctx.Err() != nil || !slices.ContainsFunc(violations, Violation.passes) {
				return evidence, violations, nil
			} else if time.Since(began) > complaintAfter {
				began = time.Now()
				b.say("seed %d: %d complaints are left, such as: %s", b.opts.Seed, len(violations), violations[slices.IndexFunc(violations, Violation.passes)])
			}
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// gather collects all evidence.
func (b *bench) gather(ctx context.Context) (*Evidence, error) {
	e := &Evidence{Time: time.Now(), Versions: b.history.versions("widgets"), Tickets: b.history.versions("tickets"), Contests: slices.Clone(b.contests)}
	var err error
	if e.Census, e.Standbys, err = b.censuses(ctx); err != nil {
		return nil, err
	}
	if e.Journal, err = journal.Read(b.replicas.first().journal()); err != nil {
		return nil, err
	}
	if e.Children, err = b.children(ctx); err != nil {
		return nil, err
	}
	b.collect(ctx)
	if e.Gardens, err = b.gardens(ctx); err != nil {
		return nil, err
	}
	if e.Events, err = b.events(ctx); err != nil {
		return nil, err
	}
	if err := b.tenantEvidence(ctx, e); err != nil {
		return nil, err
	}
	e.Writes = b.proxy.written()
	b.proxy.mu.Lock()
	e.KeepAlives, e.Outages = slices.Clone(b.proxy.renewals), slices.Clone(b.proxy.outages)
	b.proxy.mu.Unlock()
	b.mu.Lock()
	e.Rotations = slices.Clone(b.rotations)
	b.mu.Unlock()
	b.history.mu.Lock()
	e.Lost = b.history.err
	b.history.mu.Unlock()
	e.Processes = b.replicas.lives()
	b.leaseEvidence(e)
	var failed []error
	for _, s := range b.everSupervised() {
		ends, err := s.ends()
		e.Ends, failed = append(e.Ends, ends...), append(failed, err)
	}
	return e, errors.Join(failed...)
}

// children returns the children by handlers: the values in the config maps, by their names.
func (b *bench) children(ctx context.Context) (map[string]string, error) {
	data, err := b.cluster.Request(ctx, http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps?labelSelector=of", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, item := range list.Items {
		all[item.Metadata.Name] = item.Data["value"]
	}
	return all, nil
}

// events returns the Kubernetes events, by their objects, each as often as its count.
func (b *bench) events(ctx context.Context) (map[string][]string, error) {
	data, err := b.cluster.Request(ctx, http.MethodGet, "/api/v1/namespaces/"+namespace+"/events", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata       struct{ Name, CreationTimestamp string }
			InvolvedObject struct{ Kind, UID string }
			Reason         string
			EventTime      string
			Count          int
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, item := range list.Items {
		if item.InvolvedObject.Kind == "Widget" && item.Reason == "Made" {
			for range max(1, item.Count) {
				all[item.InvolvedObject.UID] = append(all[item.InvolvedObject.UID], item.Metadata.Name+" of "+item.EventTime)
			}
		}
	}
	return all, nil
}

// remains returns the violations about an operator's leftovers after an orderly shutdown.
func (b *bench) remains(ctx context.Context) []Violation {
	var all []Violation
	peers, err := b.peers(ctx)
	if b.opts.Replicas > 1 { // replicas leave their record to the next leader
		peers = slices.DeleteFunc(peers, func(id string) bool { return id == namespace+"/"+leaseName })
	}
	if err != nil || len(peers) > 0 {
		all = append(all, Violation{Rule: leftovers, Text: fmt.Sprint("the peering has records after the end: ", peers, err)})
	}
	for _, s := range b.everSupervised() {
		ends, _ := s.ends() // no process is started anymore
		for _, end := range ends {
			all = append(all, Violation{Rule: goesOn, Text: "a process has ended: " + end})
		}
	}
	return all
}
