package judges

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// This file runs the processes that compete for the Lease.

// place runs one process after the other.
type place struct {
	name   string
	binary string
	config rivalry.Config
	proxy  *rivalProxy
	output string // the file of their logs

	mu      sync.Mutex // guards following
	runs    int
	cmd     *exec.Cmd
	ended   chan struct{}
	freezes []freeze
}

// freeze is a time in which a process was suspended.
type freeze struct {
	Identity string
	From, To time.Time
}

// start starts a process, and returns its identity.
func (p *place) start(t testing.TB) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs++
	config := p.config
	config.Identity, config.Server = p.identity(), p.proxy.server.URL
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(p.output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(p.binary)
	cmd.Env = append(os.Environ(), rivalry.Variable+"="+string(data))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = cluster.EndsWithParent()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // its result is in its log
		close(ended)
	}()
	return config.Identity
}

// identity returns that of the running process. The lock is held.
func (p *place) identity() string { return fmt.Sprintf("%s.%d", p.name, p.runs) }

// current returns the identity of the running process, or of the last one.
func (p *place) current() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity()
}

// running reports whether the process has not ended.
func (p *place) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal ends the process, and waits until it has ended.
func (p *place) signal(s syscall.Signal) {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s) // or it has just ended
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill() // likewise
		<-ended
	}
}

// freeze suspends the process for a while.
func (p *place) freeze(d time.Duration) {
	p.mu.Lock()
	cmd := p.cmd
	f := freeze{Identity: p.identity(), From: time.Now().Round(0)}
	p.mu.Unlock()
	_ = cmd.Process.Signal(syscall.SIGSTOP) // or it has just ended
	// The duration of the fault:
	time.Sleep(d)
	f.To = time.Now().Round(0)
	_ = cmd.Process.Signal(syscall.SIGCONT) // likewise
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freezes = append(p.freezes, f)
}

// acts reads the journal.
func (p *place) acts(t testing.TB) []rivalry.Act {
	t.Helper()
	data, err := os.ReadFile(p.config.Journal)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	var all []rivalry.Act
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var a rivalry.Act
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v: %s", p.config.Journal, err, lines.Bytes())
		}
		all = append(all, a)
	}
	return all
}

// contest is one Lease with all competing processes.
type contest struct {
	dir      string
	to       upstream
	places   []*place
	first    uint64     // the initial version of the Lease
	mu       sync.Mutex // guards following
	exchange []exchange
}

// electionTimes are the durations of the election.
type electionTimes struct{ lease, renew, retry time.Duration }

var shortTimes = electionTimes{3 * time.Second, 2 * time.Second, 500 * time.Millisecond}

// newContest prepares the objects on the API server.
func newContest(t testing.TB, to upstream) *contest {
	t.Helper()
	c := &contest{dir: t.TempDir(), to: to}
	for _, object := range []string{
		`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "` + rivalry.Result + `"}}`,
		`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "work", "labels": {"` + rivalry.Label + `": "yes"}}}`,
		`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", "labels": {"` + rivalry.Label + `": "yes"}}}`,
	} {
		if err := rivalry.Create(t.Context(), to.client, to.url+rivalry.MapsPath, []byte(object)); err != nil {
			t.Fatal(err)
		}
	}
	lease := `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "` + rivalry.Lease + `", "labels": {"team": "web"}, "annotations": {"note": "keep"}}}`
	if err := rivalry.Create(t.Context(), to.client, to.url+rivalry.LeasesPath, []byte(lease)); err != nil {
		t.Fatal(err)
	}
	c.first = c.lease(t).version()
	t.Cleanup(func() {
		c.end()
		if t.Failed() {
			for _, p := range c.places {
				data, _ := os.ReadFile(p.output) // or it was never started
				t.Logf("the log of %s:\n%s", p.name, data[max(0, len(data)-6000):])
			}
		}
	})
	return c
}

// add adds a place for processes.
func (c *contest) add(name, kind, binary string, times electionTimes, adjust func(*rivalry.Config)) *place {
	p := &place{name: name, binary: binary, output: filepath.Join(c.dir, name+".log")}
	p.config = rivalry.Config{Kind: kind, Journal: filepath.Join(c.dir, name+".journal"),
		LeaseDuration: times.lease, RenewDeadline: times.renew, RetryPeriod: times.retry}
	if adjust != nil {
		adjust(&p.config)
	}
	p.proxy = newRivalProxy(c.to, uint64(len(c.places)), func(x exchange) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.exchange = append(c.exchange, x)
	})
	c.places = append(c.places, p)
	return p
}

// end ends all processes.
func (c *contest) end() {
	for _, p := range c.places {
		p.signal(syscall.SIGKILL)
		p.proxy.close()
	}
}

// clear ends all processes, and removes the objects, for another contest on the same server.
func (c *contest) clear(t testing.TB) {
	t.Helper()
	c.end()
	c.places = nil
	for _, name := range []string{"/work", "/more"} { // they have the finalizer of kopf
		if err := rivalry.Patch(t.Context(), c.to.client, c.to.url+rivalry.MapsPath+name, []byte(`{"metadata": {"finalizers": null}}`), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{rivalry.LeasePath, rivalry.ResultPath, rivalry.MapsPath + "/work", rivalry.MapsPath + "/more"} {
		if err := rivalry.Delete(t.Context(), c.to.client, c.to.url+path); err != nil {
			t.Fatal(err)
		}
	}
}

// holder returns the place whose process is in the Lease, nil if there is none.
func (c *contest) holder(t testing.TB) *place {
	t.Helper()
	lease := c.lease(t)
	identity := processOf(lease.Spec.HolderIdentity)
	i := slices.IndexFunc(c.places, func(p *place) bool { return p.current() == identity })
	if i < 0 {
		return nil
	}
	return c.places[i]
}

// lease reads the Lease without a proxy.
func (c *contest) lease(t testing.TB) *objectState {
	t.Helper()
	var data bytes.Buffer
	if err := rivalry.Get(t.Context(), c.to.client, c.to.url+rivalry.LeasePath, &data); err != nil {
		if strings.Contains(err.Error(), "404") {
			return &objectState{}
		}
		t.Fatal(err)
	}
	lease := &objectState{}
	if err := json.Unmarshal(data.Bytes(), lease); err != nil {
		t.Fatal(err)
	}
	return lease
}

// history returns the history of the contest.
func (c *contest) history(t testing.TB) *rivalHistory {
	t.Helper()
	h := &rivalHistory{ours: map[string]bool{}, first: c.first}
	c.mu.Lock()
	h.exchanges = slices.Clone(c.exchange)
	c.mu.Unlock()
	for _, p := range c.places {
		h.acts = append(h.acts, p.acts(t)...)
		p.mu.Lock()
		h.freezes = append(h.freezes, p.freezes...)
		for n := range p.runs {
			h.ours[fmt.Sprintf("%s.%d", p.name, n+1)] = p.config.Kind == rivalry.Ours
		}
		p.mu.Unlock()
	}
	return h
}

// works waits until a process has begun to work, and returns the time.
func (c *contest) works(t testing.TB, p *place) time.Time {
	t.Helper()
	identity := p.current()
	// The loop polls the records of a process.
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		for _, a := range p.acts(t) {
			if a.Identity == identity && a.Kind == rivalry.Step {
				return a.At
			}
		}
	}
	t.Fatalf("%s has not begun to work within a minute", identity)
	return time.Time{}
}

// processOf returns the process of an identity in the Lease: kopf appends eight digits to its identity.
func processOf(identity string) string {
	process, _, _ := strings.Cut(identity, "_")
	return process
}
