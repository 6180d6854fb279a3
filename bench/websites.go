package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/bench/replay"
)

// This file has the jobs for operators that create other objects: a website for each widget, or pages alone. They run on a real control plane, because its
// defaults, versions, and managed fields of children matter.

const websitesName = "websites"

// collections are the paths of the children, and of those that may be deleted.
var collections = []string{"/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/services?fieldSelector=metadata.name%21%3Dkubernetes"}

// websitesPlace is a real place whose operators create children.
type websitesPlace struct {
	*realPlace
	pages int // the current number for each object
}

func (*websitesPlace) name() string { return websitesName }

func (p *websitesPlace) open(ctx context.Context, v variant, dir string, j job) (server, error) {
	if p.pages != j.pages {
		if err := p.renew(ctx, 0); err != nil {
			return nil, err
		}
		p.pages = j.pages
	}
	if err := os.Setenv("BENCH_PAGES", strconv.Itoa(j.pages)); err != nil {
		return nil, err
	}
	s, err := p.realPlace.open(ctx, v, dir, j)
	if err != nil {
		return nil, err
	}
	w := &websitesServer{realServer: s.(*realServer)}
	w.before, err = p.requestsOfChildren(ctx)
	return w, err
}

var childMetric = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*resource="(?:configmaps|deployments|services)",.*)\} (\S+)$`)

// requestsOfChildren returns the numbers of requests for the kinds of the children, except lists and watches, which the server itself sends, too.
func (p *websitesPlace) requestsOfChildren(ctx context.Context) (map[string]int, error) {
	data, err := p.cluster.Request(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	all, err := countVerbs(childMetric, data)
	delete(all, "list")
	delete(all, "watch")
	return all, err
}

// websitesServer is the real server during one run.
type websitesServer struct {
	*realServer
	before map[string]int // the earlier requests for children
	drifts int
}

func (s *websitesServer) Requests(ctx context.Context) (map[string]int, error) {
	all, err := s.realServer.Requests(ctx)
	if err != nil {
		return nil, err
	}
	now, err := (&websitesPlace{realPlace: s.realPlace}).requestsOfChildren(ctx)
	for verb, n := range now {
		all[verb] += n - s.before[verb]
	}
	all["patch"] -= s.drifts
	return all, err
}

// drift has another client change the pages of websites, one after the other. It returns the times until the operator has restored them.
func (s *websitesServer) drift(ctx context.Context, o *operator, count, perSecond int) ([]time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	d := &driftWatch{since: map[string]time.Time{}}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	body, err := s.watchPages(ctx)
	if err != nil {
		return nil, err
	}
	watching.Go(func() {
		defer body.Close()
		d.read(body)
	})
	s.drifts += count
	err = atRate(ctx, count, perSecond, func(from, count int) error {
		return atOnce(count, func(i int) error {
			return s.mergeAt(ctx, collections[0]+"/"+replay.Name(from+i), `{"data":{"index.html":"`+drifted+`"}}`)
		})
	})
	if err != nil {
		return nil, err
	}
	err = waitFor(ctx, o, func() (bool, error) { return len(d.all()) == count, d.ended() })
	return d.all(), err
}

// drifted is the page of the other client.
const drifted = "Another client was here."

// watchPages starts a watch of all config maps.
func (s *websitesServer) watchPages(ctx context.Context) (io.ReadCloser, error) {
	list, err := s.cluster.Request(ctx, http.MethodGet, collections[0]+"?limit=1", nil)
	if err != nil {
		return nil, err
	}
	var meta struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(list, &meta); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cluster.URL()+collections[0]+"?watch=true&resourceVersion="+meta.Metadata.ResourceVersion, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.cluster.HTTPClient().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the watch is answered with %s", resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}

// driftWatch records the changes of pages, and when they are restored.
type driftWatch struct {
	mu    sync.Mutex // guards all below
	since map[string]time.Time
	took  []time.Duration
	err   error // the error that has ended the watch
}

// read processes the events of a watch until it ends.
func (d *driftWatch) read(body io.Reader) {
	for lines := bufio.NewReaderSize(body, 64<<10); ; {
		text, err := lines.ReadBytes('\n')
		d.mu.Lock()
		if err != nil {
			d.err = fmt.Errorf("the watch of pages has ended: %w", err)
			d.mu.Unlock()
			return
		}
		_, rest, _ := bytes.Cut(text, []byte(`"name":"`)) // the name in its metadata comes first
		name, _, _ := strings.Cut(string(rest[:min(len(rest), 64)]), `"`)
		if bytes.Contains(text, []byte(drifted)) {
			d.since[name] = time.Now()
		} else if since, ok := d.since[name]; ok {
			d.took = append(d.took, time.Since(since))
			delete(d.since, name)
		}
		d.mu.Unlock()
	}
}

func (d *driftWatch) all() []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.took)
}

func (d *driftWatch) ended() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// making measures the creation of websites for many new objects.
func making(count int) job {
	j := backlog(count)
	j.kind, j.name = parenting, fmt.Sprintf("%d websites are made", count)
	return j
}

// remaking starts an operator with websites that it has created before.
func remaking(count int) job {
	j := restart(count)
	j.kind, j.name = reparenting, fmt.Sprintf("restart over %d websites", count)
	return j
}

// mending has another client change the page of each website once, at a rate. p50 and p99 are the times from such a change until the page is restored, as
// seen by another client.
func mending(count, perSecond int) job {
	return job{kind: repairing, name: fmt.Sprintf("%d of their pages are changed, %d a second", count, perSecond), unit: count, count: count, handled: true, changed: true, do: func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		r := result{cpu: -o.cpu()}
		took, err := s.(*websitesServer).drift(ctx, o, count, perSecond)
		t := tailOf(took)
		r.p50, r.p99 = t.p50, t.p99
		return r, err
	}}
}

// childless starts an operator without objects.
func childless() job {
	return job{kind: unparented, name: "no objects", unit: 1, do: waitForIt}
}

// pages starts an operator with objects that have many pages each. One operator has created the pages for all.
func pages(owners, each int) job {
	j := restart(owners)
	j.kind, j.name, j.unit = reparentingPages, fmt.Sprintf("restart over %d pages of %d objects", owners*each, owners), owners*each
	j.pages, j.shared, j.do = each, true, waitForIt
	return j
}

func waitForIt(ctx context.Context, s server, o *operator) (result, error) {
	return result{}, waitForWatch(ctx, s, o)
}

// onWebsites runs the jobs about children, each once, because they take long.
func (o *options) onWebsites(ctx context.Context, b *bench) error {
	p, err := startReal(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	p.besides = collections
	some := *b
	some.dir = filepath.Join(b.dir, websitesName)
	some.operators = slices.DeleteFunc(slices.Clone(b.operators), func(v variant) bool { return v.writes > 1 || v.workers == 1 })
	groups := [][]job{{making(1000), remaking(1000), mending(1000, 50)}, {remaking(10_000)}, {childless()}, {pages(10_000, 10)}}
	for _, jobs := range groups {
		if len(jobs) == 1 {
			some.rounds = 1 // more rounds would take too long
		}
		if jobs = o.wanted(jobs); len(jobs) == 0 {
			continue
		}
		if err := some.do(ctx, &websitesPlace{realPlace: p}, [][]job{jobs}); err != nil {
			return fmt.Errorf("%w\n%s", err, p.cluster.Logs())
		}
	}
	b.findings = some.findings
	return nil
}
