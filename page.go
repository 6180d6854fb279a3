package kopf

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file provides the data of the live page. It runs on the goroutines of the page's viewers, and does nothing without the page.

// livePage implements [livepage.Source] for an operator.
type livePage struct {
	*observer
	started time.Time
}

// servePage serves the live page if the settings enable it. It must be called before the first reactor is made.
func (o *observer) servePage(r *run) error {
	settings := o.settings.Process.Page
	if !livepage.Included && (settings.Enabled || o.settings.Process.Decisions > 0) {
		return errors.New("this operator was built with the tag noembed, which leaves the live page and decisions out: build it with the tag livepage, too, or without Settings.Process.Page and Decisions")
	}
	if !livepage.Included || !settings.Enabled {
		return nil
	}
	if r.probes == nil {
		return errors.New("the live page is served by the liveness endpoint: want one, such as http://127.0.0.1:8080/healthz")
	}
	var reviewer livepage.Reviewer
	if settings.TokenReview {
		reviewer = inspectionServer{discovering: discovering{o.client.withoutFence()}} // standby replicas also have a page
	}
	log := o.log.With(slog.String("activity", "page"))
	auth, err := livepage.NewAuth(settings.TokenFile, reviewer, log)
	if err != nil {
		return err
	}
	o.calls = livepage.NewCalls(settings.Stacks)
	return r.probes.server.ServePage(&livepage.Server{Source: &livePage{o, time.Now().UTC()}, Calls: o.calls, Auth: auth, Hosts: slices.Clone(settings.Hosts)})
}

// checkPage returns an error about flags of the live page with which the operator can't start. The
// settings of functions of Configure and of start-up handlers may protect the page as well.
func checkPage(registry *Registry, endpoint, tokenFile string, reviewed bool) error {
	address, path, err := httplimit.SplitEndpoint(endpoint)
	if err == nil && livepage.Serves(path) {
		return livepage.PathError(path)
	}
	if err != nil || tokenFile != "" {
		return errors.Join(err, livepage.CheckToken(tokenFile))
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || reviewed || len(registry.settingsFrom(0)) > 0 || len(registry.activities(kindStartup)) > 0 {
		return err
	}
	if ip := net.ParseIP(host); ip != nil {
		number, _ := strconv.Atoi(port) // the flag was checked
		return livepage.CheckAddress(&net.TCPAddr{IP: ip, Port: number}, nil)
	}
	return nil
}

// Fill implements [livepage.Source].
func (p *livePage) Fill(s *livepage.State) {
	m := p.meter
	s.Operator, s.Version, s.Started, s.Ready, s.LoggedIn, s.PausedFor, s.Live = filepath.Base(os.Args[0]), Version, p.started, m.Ready.Load(), m.LoggedIn.Load(), p.pauser.Blockers(), m.Live()
	if e := m.Election.Load(); e != nil {
		s.Election = &livepage.Election{Lease: e.Lease, Leading: e.Leading(), Holder: e.Holder()}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Cluster = p.cluster
	for _, name := range rawjson.SortedKeys(p.resources) {
		served := p.resources[name]
		q := served.reactor.queue
		resource := q.known.Live(s.Time)
		resource.Delayed = q.delays()
		s.Resources = append(s.Resources, resource)
		for _, namespace := range rawjson.SortedKeys(served.streams) {
			s.Streams = append(s.Streams, served.streams[namespace].stream.Live())
		}
	}
}

// Sample implements [livepage.Source].
func (p *livePage) Sample() livepage.Sample {
	m := p.meter
	s := livepage.Sample{Succeeded: m.Total(metrics.Success), Failed: m.Total(metrics.Retry) + m.Total(metrics.Failure)}
	for _, r := range p.reactors(func(string, Resource) bool { return true }) {
		s.Waiting += r.queue.known.Live(time.Now()).Waiting
	}
	return s
}

// reactors returns the reactors of the fitting resources, sorted by the names of these.
func (p *livePage) reactors(fits func(name string, r Resource) bool) (all []*reactor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range rawjson.SortedKeys(p.resources) {
		if r := p.resources[name].reactor; fits(name, r.resource()) {
			all = append(all, r)
		}
	}
	return all
}

// delays returns the number of objects that are due later.
func (q *queue) delays() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.delayed
}

// Object implements [livepage.Source]. The resource is a plural, with or without the group, or a kind.
func (p *livePage) Object(o *livepage.ObjectState) bool {
	found := p.reactors(func(name string, r Resource) bool {
		return name == o.Resource || r.Plural == o.Resource || r.Plural+"."+r.Group == o.Resource || strings.EqualFold(r.Kind, o.Resource)
	})
	for _, r := range found {
		if e := r.queue.named(o.Object.Namespace, o.Object.Name); e != nil {
			o.Resource, o.Object, o.Key = r.resource().Name(), *e.ref().inspected(), e.key
			o.State = r.queue.stateOf(e)
			o.Decisions = r.decisions(e)
			if p.looks == nil {
				o.Notes = append(o.Notes, "No decisions are kept: Settings.Process.Decisions is how many")
			}
			return true
		}
	}
	return false
}

// Search implements [livepage.Source].
func (p *livePage) Search(text string, into *livepage.ObjectList) {
	text = strings.ToLower(text)
	for _, r := range p.reactors(func(string, Resource) bool { return true }) {
		resource := r.resource()
		name, kind := resource.Name(), strings.ToLower(resource.Kind)
		r.queue.each(func(e *entry) bool {
			fullName := strings.ToLower(e.namespace.name + "/" + e.name)
			if strings.Contains(name+"/"+fullName, text) || strings.Contains(kind+" "+strings.TrimPrefix(fullName, "/"), text) {
				into.Add(livepage.ObjectRow{Object: *e.ref().inspected(), Resource: name, State: e.workState()})
			}
			return true
		})
	}
}

// named returns the object with a name, nil if there is none.
func (q *queue) named(namespace, name string) (found *entry) {
	q.each(func(e *entry) bool {
		if e.name == name && e.namespace.name == namespace {
			found = e
		}
		return found == nil
	})
	return found
}

// each calls a function for the present objects until it returns false, with the lock of the queue. It
// does not block the workers, even with many objects.
func (q *queue) each(next func(*entry) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, e := range q.entries {
		if e.presence == present && !next(e) {
			return
		}
		if n++; n%1000 == 0 {
			q.mu.Unlock()
			q.mu.Lock()
		}
	}
}

// stateOf returns the state of the work on an object.
func (q *queue) stateOf(e *entry) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.workState()
}

// workState returns the state of the work on the object. The caller holds the lock of the queue.
func (e *entry) workState() string {
	switch {
	case e.state == nil:
	case e.state.work.working && e.state.work.turn == nil:
		return "working"
	case e.state.work.working, e.state.work.blocked:
		return "waiting"
	case e.state.work.timer != nil && !e.state.work.forgetting:
		return "delayed"
	}
	return "idle"
}

// decisions returns the last decisions about an object, the newest first.
func (r *reactor) decisions(e *entry) (all []livepage.Decision) {
	served := r.served.Load()
	handlers := served.handlers()
	for _, look := range r.looks.Of(e.key) {
		a, outlook := look.Action(), inspection.Outlook{Wait: look.Action().Wait}
		d := livepage.Decision{Time: look.At().UTC(), Cause: string(a.Reason)}
		verdicts := look.Verdicts()
		if look.At().Before(served.since) { // the verdicts are for former handlers
			verdicts = nil
		}
		for i, v := range verdicts {
			if i < len(handlers) {
				d.Handlers = append(d.Handlers, livepage.Verdict{Handler: string(handlers[i].id), Verdict: v.String()})
			}
			if i < len(served.changes) && (v == decision.Called || v == decision.After || v == decision.Delayed) {
				outlook.Handlers++
				outlook.Due += map[bool]int{true: 1}[v == decision.Called]
			}
			outlook.Others = outlook.Others || i >= len(served.changes) && v == decision.Called
			outlook.Done = outlook.Done || i < len(served.changes) && (v == decision.Succeeded || v == decision.Failed)
		}
		if outlook.Done = outlook.Done && outlook.Handlers == 0; outlook.Done {
			outlook.Handlers = 1
		}
		d.Decision = inspection.Decision(a, outlook)
		all = append(all, d)
	}
	return all
}

// inspected returns the reference for commands and the live page.
func (r ObjectReference) inspected() *inspection.Object {
	return &inspection.Object{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

// live reports the start of a call to the live page.
func (a *call) live() *livepage.Running {
	if !livepage.Included || a.calls == nil || a.entry == nil {
		return nil
	}
	kind := livepage.Apart
	switch h := a.handler; {
	case h.kind == kindDaemon:
		kind = livepage.Endless
	case h.kind < kindDaemon && h.kind != kindEvent, h.kind == kindSub, h.kind == kindReconcile:
		kind = livepage.Ordinary
	}
	return a.calls.Begin(a.entry.key, a.entry.ref().inspected(), string(a.handler.id), kind)
}

// settle reports the handlers in retry of an object to the live page, except for daemons and timers.
func (c *cycle) settle(ids []string) {
	if !livepage.Included || c.reactor.calls == nil {
		return
	}
	var all []*livepage.Retry
	for _, p := range c.progress.all {
		if r := p.record; p.selected && r.fails() {
			all = append(all, &livepage.Retry{Object: c.entry.ref().inspected(), Handler: string(p.handler.id), Attempts: r.Retries, Next: r.Delayed.UTC(), Error: *r.Message})
		}
	}
	c.reactor.calls.Settle(c.entry.key, ids, all)
}

// noteDelay reports to the live page why the next cycle of the object is delayed, if no handler has caused that.
func (c *cycle) noteDelay(delay time.Duration, why string) {
	if livepage.Included && c.reactor.calls != nil {
		c.reactor.calls.Pause(c.entry.key, c.entry.ref().inspected(), time.Now().Add(delay), why)
	}
}
