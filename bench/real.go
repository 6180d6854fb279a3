package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"

	"github.com/kopf-go/kopf/bench/replay"
)

// The names of the places.
const (
	replayName = "replay"
	realName   = "real"
)

const (
	widgets = "/apis/bench.kopf.dev/v1/namespaces/default/widgets"
	// many is the number of concurrent requests.
	many = 16
)

// definition is the CRD of the widgets, as the replaying server defines them.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.bench.kopf.dev"},` +
	`"spec":{"group":"bench.kopf.dev","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},` +
	`"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// realPlace is the place with a separate control plane. All runs use the same server. A run can also use the widgets of the previous one.
type realPlace struct {
	cluster *cluster.Cluster
	stop    context.CancelFunc // ends the watch
	besides []string           // the collections of other objects for the widgets
	watched sync.WaitGroup

	mu      sync.Mutex // guards following
	widgets []state
	there   int // the number of widgets
	handled int
	by      string // the operator that has handled all of them
	writes  int    // the number of writes for a handled object
	seen    func(answered, recorded time.Duration)

	rewatched int   // the number of restarts of the watch
	failed    error // the error that has ended it
}

// state is the state of a widget in the bench's own watch.
type state struct {
	there    bool
	size     string        // the desired size
	begun    time.Time     // when it was added or resized
	answered time.Duration // the time until the status had the size, or zero
	handled  time.Time     // when all writes for it were done, or zero
}

// startReal starts the control plane and its widgets.
func startReal(ctx context.Context, args ...string) (*realPlace, error) {
	c, err := cluster.Start(ctx, &cluster.Options{Log: os.Stderr, APIServerArgs: append(args,
		"--delete-collection-workers=16", "--etcd-compaction-interval=1m", // for the changes between the runs
	)})
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	p := &realPlace{cluster: c, stop: stop}
	if err := p.define(ctx); err != nil {
		p.close()
		return nil, err
	}
	p.watched.Go(func() {
		err := p.watch(watching)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failed = err
	})
	if err := p.warm(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// warm uses the server for a while before the measurements, because it is slow at first.
func (p *realPlace) warm(ctx context.Context) error {
	const count = 1000
	if err := p.renew(ctx, count); err != nil {
		return err
	}
	return atOnce(3*count, func(i int) error { return p.patch(ctx, i%count, i) })
}

func (*realPlace) name() string { return realName }

func (p *realPlace) close() {
	p.stop()
	p.watched.Wait()
	p.cluster.Stop()
}

// define creates the kind of the widgets, and waits until there are none of them.
func (p *realPlace) define(ctx context.Context) error {
	if _, err := p.cluster.Request(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(definition)); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		_, err := p.cluster.Request(ctx, http.MethodGet, widgets, nil)
		var status *cluster.StatusError
		if errors.As(err, &status) { // first it does not serve them, and then it initializes their storage
			return false, nil
		}
		return err == nil, err
	})
}

// until waits for a condition of the server.
func until(ctx context.Context, done func() (bool, error)) error {
	for limit := time.Now().Add(15 * time.Minute); time.Now().Before(limit); {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the server takes too long")
}

// watch watches all widgets. It does as little work as possible, because all programs share the machine. Nevertheless the server may end it as too slow.
func (p *realPlace) watch(ctx context.Context) error {
	for version := ""; ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.cluster.URL()+widgets+"?watch=true&timeoutSeconds=7200&resourceVersion="+version, nil)
		if err != nil {
			return err
		}
		resp, err := p.cluster.HTTPClient().Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.Join(fmt.Errorf("the watch is answered with %s", resp.Status), resp.Body.Close())
		}
		last, err := p.read(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if last != "" {
			version = last
		}
		p.mu.Lock()
		p.rewatched++
		p.mu.Unlock()
	}
}

// read processes all events of a watch, and returns the version of the last one when the server has ended it.
func (p *realPlace) read(body io.Reader) (version string, err error) {
	for lines := bufio.NewReaderSize(body, 64<<10); ; {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return version, nil
		}
		if err != nil {
			return version, err
		}
		if err := p.follow(text); err != nil {
			return version, err
		}
		_, rest, _ := bytes.Cut(text, []byte(`"resourceVersion":"`))
		version = string(rest[:bytes.IndexByte(rest, '"')])
	}
}

// follow processes an event. The searched texts occur only once in widgets.
func (p *realPlace) follow(event []byte) error {
	_, name, ok := bytes.Cut(event, []byte(`"name":"widget-`))
	if !ok {
		return fmt.Errorf("an event without a widget: %s", event)
	}
	i, err := strconv.Atoi(string(name[:bytes.IndexByte(name, '"')]))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.widgets) <= i {
		p.widgets = append(p.widgets, state{})
	}
	w := &p.widgets[i]
	if bytes.HasPrefix(event, []byte(`{"type":"DELETED"`)) {
		p.there--
		if !w.handled.IsZero() {
			p.handled--
		}
		*w = state{}
		return nil
	}
	_, rest, _ := bytes.Cut(event, []byte(`"spec":{`))
	spec, status, _ := bytes.Cut(rest, []byte(`"status":{`))
	if size := sizeIn(spec); !w.there || w.size != size {
		if !w.there {
			p.there++
		}
		if !w.handled.IsZero() {
			p.handled--
		}
		*w = state{there: true, size: size, begun: time.Now()}
	}
	if !w.handled.IsZero() || sizeIn(status) != w.size || !bytes.Contains(status, []byte(`"handled":true`)) {
		return nil
	}
	if w.answered == 0 {
		w.answered = time.Since(w.begun)
	}
	if p.writes > 1 && !bytes.Contains(event, []byte(`"annotations":{`)) {
		return nil
	}
	w.handled = time.Now()
	p.handled++
	if p.seen != nil {
		p.seen(w.answered, w.handled.Sub(w.begun))
	}
	return nil
}

// sizeIn returns the digits of the size.
func sizeIn(text []byte) string {
	_, size, _ := bytes.Cut(text, []byte(`"size":`))
	return string(size[:len(size)-len(bytes.TrimLeft(size, "0123456789"))])
}

// counts returns the number of widgets, and the number of handled ones.
func (p *realPlace) counts() (there, handled int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		err = fmt.Errorf("the bench does not see what happens: %w", p.failed)
	}
	return p.there, p.handled, err
}

func (p *realPlace) open(ctx context.Context, v variant, dir string, j job) (server, error) {
	count, handled := j.count, j.handled
	there, done, err := p.counts()
	if err != nil {
		return nil, err
	}
	reused := count > 0 && handled && there == count && done == count && (p.by == v.name || j.shared && p.writes == v.writes)
	p.mu.Lock()
	p.writes = v.writes
	p.mu.Unlock()
	if !reused {
		if err := p.renew(ctx, count); err != nil {
			return nil, err
		}
	}
	if handled && !reused {
		if err := p.handle(ctx, v, dir, count); err != nil {
			return nil, err
		}
	}
	p.by = v.name
	s := &realServer{realPlace: p}
	s.before, err = p.requests(ctx)
	return s, err
}

// renew deletes all widgets, and creates others.
func (p *realPlace) renew(ctx context.Context, count int) error {
	for _, collection := range append([]string{widgets}, p.besides...) {
		if _, err := p.cluster.Request(ctx, http.MethodDelete, collection, nil); err != nil {
			return err
		}
	}
	if err := p.waitFor(ctx, 0); err != nil {
		return err
	}
	p.mu.Lock()
	p.widgets = nil
	p.mu.Unlock()
	if err := atOnce(count, func(i int) error { return p.create(ctx, i) }); err != nil {
		return err
	}
	return p.waitFor(ctx, count)
}

func (p *realPlace) waitFor(ctx context.Context, count int) error {
	return until(ctx, func() (bool, error) {
		there, _, err := p.counts()
		return there == count, err
	})
}

func (p *realPlace) create(ctx context.Context, i int) error {
	body := `{"apiVersion":"bench.kopf.dev/v1","kind":"Widget","metadata":{"name":"` + replay.Name(i) + `"},"spec":` + replay.Spec(3) + `}`
	_, err := p.cluster.Request(ctx, http.MethodPost, widgets+"?fieldManager=bench", []byte(body))
	return err
}

// handle has an operator handle all widgets before the job.
func (p *realPlace) handle(ctx context.Context, v variant, dir string, count int) error {
	o, err := v.start(dir, p.cluster.Kubeconfig(), 0)
	if err != nil {
		return err
	}
	defer o.kill()
	if err := waitForHandled(ctx, &realServer{realPlace: p}, o, count); err != nil {
		return err
	}
	if err := o.settle(ctx); err != nil {
		return err
	}
	return o.stop()
}

// atOnce calls a function with all numbers below count, many concurrently, and returns the first error.
func atOnce(count int, f func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, many)
	for k := range many {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < count && errs[k] == nil; i = int(next.Add(1)) - 1 {
				errs[k] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

var (
	requestMetric = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*group="bench\.kopf\.dev",.*resource="widgets",.*)\} (\S+)$`)
	watchMetric   = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*group="bench\.kopf\.dev",.*resource="widgets",.*verb="WATCH".*\} (\S+)$`)
	etcdMetric    = regexp.MustCompile(`(?m)^apiserver_storage_list_fetched_objects_total\{.*resource="widgets"\} (\S+)$`)
	verbLabel     = regexp.MustCompile(`verb="(\w+)"`)
)

// requests returns the number of requests for widgets, except those of the bench's own watch. Watches count when they end.
func (p *realPlace) requests(ctx context.Context) (map[string]int, error) {
	data, err := p.cluster.Request(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	all, err := countVerbs(requestMetric, data)
	if err != nil {
		return nil, err
	}
	if m := etcdMetric.FindSubmatch(data); m != nil {
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("a metric that is not understood: %s", m[0])
		}
		all[listedFromEtcd] = int(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all["watch"] -= p.rewatched
	return all, nil
}

// countVerbs returns the sums of a metric of requests, by verb.
func countVerbs(metric *regexp.Regexp, data []byte) (map[string]int, error) {
	all := map[string]int{}
	for _, m := range metric.FindAllSubmatch(data, -1) {
		verb, n, err := verbLabel.FindSubmatch(m[1]), 0.0, error(nil)
		if n, err = strconv.ParseFloat(string(m[2]), 64); err != nil || verb == nil {
			return nil, fmt.Errorf("a metric that is not understood: %s", m[0])
		}
		all[strings.ToLower(string(verb[1]))] += int(n)
	}
	return all, nil
}

// watches returns the number of watches of widgets, including that of the bench.
func (p *realPlace) watches(ctx context.Context) (int, error) {
	data, err := p.cluster.Request(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, m := range watchMetric.FindAllSubmatch(data, -1) {
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return 0, err
		}
		sum += int(n)
	}
	return sum, nil
}

// realServer is the real server during one run.
type realServer struct {
	*realPlace
	before        map[string]int // requests
	adds, changes int            // requests of the bench
}

func (s *realServer) Kubeconfig() string { return s.cluster.Kubeconfig() }

func (s *realServer) Close() {}

func (s *realServer) Add(ctx context.Context) error {
	s.adds++
	return s.create(ctx, s.adds-1)
}

func (s *realServer) Change(ctx context.Context, from, count int) error {
	there, _, err := s.counts()
	if err != nil {
		return err
	}
	s.changes += count
	return atOnce(count, func(i int) error {
		i += from
		return s.patch(ctx, i%there, i+1)
	})
}

// patch changes the status of a widget.
func (p *realPlace) patch(ctx context.Context, i, tick int) error {
	return p.merge(ctx, replay.Name(i)+"/status", `{"status":{"tick":`+strconv.Itoa(tick)+`}}`)
}

func (p *realPlace) merge(ctx context.Context, path, patch string) error {
	return p.mergeAt(ctx, widgets+"/"+path, patch)
}

func (p *realPlace) mergeAt(ctx context.Context, path, patch string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, p.cluster.URL()+path+"?fieldManager=bench", strings.NewReader(patch))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := p.cluster.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("a change is answered with %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (s *realServer) Resize(ctx context.Context, from, count int) error {
	there, _, err := s.counts()
	if err != nil {
		return err
	}
	s.changes += count
	return atOnce(count, func(i int) error {
		i = (from + i) % there
		s.mu.Lock()
		size, err := strconv.Atoi(s.widgets[i].size)
		s.mu.Unlock()
		if err != nil {
			return err
		}
		return s.merge(ctx, replay.Name(i), `{"spec":{"size":`+strconv.Itoa(size+1)+`}}`)
	})
}

func (s *realServer) CPU() (etcd, all time.Duration) {
	etcd = cpuTime(s.cluster.ProcessID(cluster.Etcd))
	return etcd, etcd + cpuTime(s.cluster.ProcessID(cluster.APIServer))
}

func (s *realServer) OnHandled(f func(answered, recorded time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = f
}

func (s *realServer) Handled() (int, error) {
	_, handled, err := s.counts()
	return handled, err
}

// Watched returns no times, because the response times of a real server are unknown.
func (s *realServer) Watched(ctx context.Context) (time.Time, time.Duration, error) {
	if n, err := s.watches(ctx); n < 2 || err != nil {
		return time.Time{}, 0, err
	}
	return time.Now(), 0, nil
}

func (s *realServer) Requests(ctx context.Context) (map[string]int, error) {
	err := until(ctx, func() (bool, error) {
		n, err := s.watches(ctx)
		return n == 1, err
	})
	if err != nil {
		return nil, err
	}
	all, err := s.requests(ctx)
	for verb, n := range s.before {
		all[verb] -= n
	}
	all["post"] -= s.adds
	all["patch"] -= s.changes
	return all, err
}
