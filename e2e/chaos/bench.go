// Package chaos tries to break an operator: it runs one on a real control plane, lets requests, servers, credentials, clocks and the
// operator itself fail while people work with its objects, and then compares what has become of each object with what was promised.
package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// Options tell what is tried.
type Options struct {
	// Seed decides what goes wrong with which request, what becomes of each call of a handler, and what people do.
	Seed uint64
	// Duration is how long things go wrong. What comes after, until all is settled, is not in it.
	Duration time.Duration
	// Objects is the number of names that people use. Defaults to 300.
	Objects int
	// Log is told what is being done. Defaults to silence.
	Log io.Writer
}

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
	cluster  *cluster.Cluster
	counts   *tally
	logins   *logins
	proxy    *proxy
	history  *History
	writers  *writers
	operator *supervisor
}

// Run makes one run. An error means that the bench itself has failed; what the operator does wrong stands in the report.
func Run(ctx context.Context, opts Options) (*Report, error) {
	if opts.Objects == 0 {
		opts.Objects = 300
	}
	if opts.Log == nil {
		opts.Log = io.Discard
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
	return report, nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.opts.Log, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// open starts all that a run needs.
func (b *bench) open(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "kopf-chaos-"); err != nil {
		return err
	}
	if b.cluster, err = cluster.Start(ctx, nil); err != nil {
		return err
	}
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
	ca := filepath.Join(b.dir, "ca.crt")
	config := kubeconfig(b.proxy.server.URL, ca, binary)
	for path, data := range map[string][]byte{ca: b.cluster.CA(), filepath.Join(b.dir, "kubeconfig"): []byte(config)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	b.history = newHistory(b.cluster.EtcdURL(), "/registry/"+group+"/widgets/")
	b.writers = &writers{cluster: b.cluster, objects: b.opts.Objects, pace: writerPace}
	b.operator = &supervisor{binary: binary, dir: b.dir, seed: b.opts.Seed}
	return nil
}

// prepare makes the kinds that the run works with, and waits until they are served.
func (b *bench) prepare(ctx context.Context) error {
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	peeringDefinition := `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusterkopfpeerings.kopf.dev"},
		"spec": {"group": "kopf.dev", "scope": "Cluster", "names": {"plural": "clusterkopfpeerings", "singular": "clusterkopfpeering", "kind": "ClusterKopfPeering"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`
	for _, d := range []string{definition, peeringDefinition} {
		if _, err := b.cluster.Request(ctx, http.MethodPost, definitions, []byte(d)); err != nil {
			return err
		}
	}
	for _, path := range []string{collection, "/apis/kopf.dev/v1/clusterkopfpeerings"} {
		for {
			_, err := b.cluster.Request(ctx, http.MethodGet, path, nil)
			if err == nil {
				break
			}
			if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
				return err
			}
		}
	}
	_, err := b.cluster.Request(ctx, http.MethodPost, "/apis/kopf.dev/v1/clusterkopfpeerings",
		[]byte(`{"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "chaos"}}`))
	return err
}

func (b *bench) close() {
	if b.operator != nil && b.operator.cmd != nil {
		b.operator.finish()
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
	_ = os.RemoveAll(b.dir) // a folder of temporary files
}

// run goes through the stages of a run.
func (b *bench) run(ctx context.Context) (*Report, error) {
	following, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { b.history.follow(following) })
	if err := b.operator.start(); err != nil {
		return nil, err
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
	b.say("seed %d: all objects are deleted", b.opts.Seed)
	last, violations, err := b.settle(ctx, func(e *Evidence) []Violation { return e.judgeEmpty(before) }, true)
	if err != nil {
		return nil, err
	}
	report.Violations = append(report.Violations, violations...)
	b.operator.finish()
	report.Violations = append(report.Violations, b.remains(ctx)...)
	report.evidence, report.last = evidence, last
	b.fill(report)
	return report, nil
}

// steadyCensus is that of an operator that has just started and is at rest.
func (b *bench) steadyCensus(ctx context.Context) (*journal.Census, error) {
	for range 100 {
		pause(ctx, 200*time.Millisecond)
		if b.proxy.requests.of("GET watch") < 3 { // of the definitions, the peering, and the objects
			continue
		}
		pause(ctx, time.Second)
		if census, err := b.operator.census(ctx); err == nil {
			return census, nil
		}
	}
	log, _ := os.ReadFile(b.operator.log())
	return nil, fmt.Errorf("the operator does not start:\n%s", log)
}

// trouble lets people work and things go wrong, for the time of the run.
func (b *bench) trouble(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Duration)
	defer cancel()
	b.proxy.setRate(faultRate)
	defer b.proxy.setRate(0)
	var group sync.WaitGroup
	for i := range writerCount {
		group.Go(func() { b.writers.write(ctx, rand.New(rand.NewPCG(b.opts.Seed, uint64(i)))) })
	}
	err := b.disrupt(ctx, rand.New(rand.NewPCG(b.opts.Seed, 1000)))
	cancel()
	group.Wait()
	b.logins.calm()
	b.proxy.dark.Store(false)
	return err
}

// settle waits until there is nothing to complain of that may yet pass, or for a long time, and returns what it is then.
func (b *bench) settle(ctx context.Context, judge func(*Evidence) []Violation, remove bool) (*Evidence, []Violation, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	b.writers.release(ctx, b.history, remove)
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

// gather takes everything that there is to judge.
func (b *bench) gather(ctx context.Context) (*Evidence, error) {
	e := &Evidence{Time: time.Now(), Versions: b.history.versions()}
	var err error
	if e.Census, err = b.operator.census(ctx); err != nil {
		return nil, err
	}
	if e.Journal, err = journal.Read(filepath.Join(b.dir, "journal")); err != nil {
		return nil, err
	}
	if e.Children, err = b.children(ctx); err != nil {
		return nil, err
	}
	if e.Events, err = b.events(ctx); err != nil {
		return nil, err
	}
	b.operator.mu.Lock()
	defer b.operator.mu.Unlock()
	e.Ends = append(e.Ends, b.operator.strange...)
	e.Lost = b.history.err
	e.Writes = b.proxy.written()
	return e, b.operator.err
}

// children are what the handlers have made: the values in the config maps, by their names.
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

// events are the Kubernetes events, by the objects that they are about, as often as they say that they have happened.
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

// remains are the complaints about what an operator leaves that was stopped in order.
func (b *bench) remains(ctx context.Context) []Violation {
	var all []Violation
	peers, err := b.peers(ctx)
	if err != nil || len(peers) > 0 {
		all = append(all, Violation{Rule: "nothing is left", Text: fmt.Sprint("the peering has records after the end: ", peers, err)})
	}
	b.operator.mu.Lock()
	defer b.operator.mu.Unlock()
	for _, end := range b.operator.strange {
		all = append(all, Violation{Rule: "the operator goes on", Text: "a process has ended: " + end})
	}
	return all
}
