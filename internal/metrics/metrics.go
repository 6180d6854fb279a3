// Package metrics counts what an operator does, and writes the counts in the text formats of Prometheus and OpenMetrics: under names of its own, and under those that dashboards of operators
// made with controller-runtime know.
//
// Counting is a few atomic additions, on any goroutine. Only what is slow in comparison, such as requests and the calls of handlers, takes a lock. There is no counter of a single object, so a page
// has as many lines for ten thousand objects as for one. What goes up and down again is either looked up for each page, or has an owner that counts it off: see [Pass], [Call], [Stream] and [Failing].
package metrics

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Count names a counter of an operator.
type Count int

// The counters of an operator.
const (
	Queued       Count = iota // objects that are worked on, or wait for that
	Daemons                   // that have not ended
	Timers                    // that have not ended
	EventsPosted              // Kubernetes events
	EventsMerged
	EventsLost
	WriteConflicts // times that the handling of an object began to be slowed down, because its fields were changed again and again
	Logins         // that have succeeded
	Peers          // other operators that are alive
	Terms          // that this replica has worked for, in an election
	Throttled      // nanoseconds that requests have waited for the limits of the client
	operatorCounts
)

// Metrics are the counters of one operator. Nil ones count nothing.
type Metrics struct {
	LoggedIn atomic.Bool // whether the last login has succeeded
	Ready    atomic.Bool // whether the operator has started

	Election atomic.Pointer[Election] // nil without one, and before the operator has logged in

	state    State
	counters [operatorCounts]atomic.Int64
	handlers map[string]*Handler // not changed after the start
	ids      []string            // its keys, in the order of registration

	mu           sync.Mutex // guards following
	requests     []*requests
	methods      []*requests // the same by methods
	verbs        []*requests // the same by verbs, without watches
	resources    []*Resource
	reconciling  section // nil without reconcile handlers
	certificates [purposes]Certificate
	limit        int // of calls at the same time
	host         string
}

// Election is the leader election of several replicas.
type Election struct {
	Lease   string        // its name
	Leading func() bool   // whether this replica is the leader
	Holder  func() string // the identity of the one that is, as far as this replica knows
	Reached func() bool   // whether this replica has ever found out who is, so that it can take over
}

// State is what is looked up for each page instead of being counted.
type State struct {
	Version    string      // of the framework
	Go         string      // its version
	Paused     func() bool // whether the operator pauses now
	Goroutines func() int  // of the process
	Log        *slog.Logger
}

// requests are those to the API server with a verb and the code of the response, 0 if there was none.
type requests struct {
	verb string
	code int
	n    [1]atomic.Int64
	took histogram
}

// New returns counters for handlers; those of the same id share them. Sub-handlers are counted together, for each of their parents.
func New(state State, handlers []Described) *Metrics {
	m := &Metrics{state: state, handlers: make(map[string]*Handler)}
	for _, d := range handlers {
		h := m.handlers[d.ID]
		if h == nil {
			h = &Handler{subs: &Handler{}}
			m.handlers[d.ID] = h
			m.ids = append(m.ids, d.ID)
		}
		h.kind = max(h.kind, d.Kind)
	}
	return m
}

// Add adds to a counter. Programs are smaller where it is not copied to each place that counts.
//
//go:noinline
func (m *Metrics) Add(c Count, n int64) {
	if m != nil {
		m.counters[c].Add(n)
	}
}

// Load returns the value of a counter.
func (m *Metrics) Load(c Count) int64 { return m.counters[c].Load() }

// Paused reports whether the operator pauses now.
func (m *Metrics) Paused() bool { return m.state.Paused() }

// StandsBy reports whether another replica works.
func (m *Metrics) StandsBy() bool {
	e := m.Election.Load()
	return e != nil && !e.Leading()
}

// Total returns how many attempts of all handlers have ended with a result.
func (m *Metrics) Total(r Result) (n int64) {
	for _, h := range m.handlers {
		n += h.results[r].Load() + h.subs.results[r].Load()
	}
	return n
}

// Handler returns the counters of a handler, or of its sub-handlers.
func (m *Metrics) Handler(id string, sub bool) *Handler {
	if m == nil {
		return nil
	}
	h := m.handlers[id]
	if h != nil && sub {
		return h.subs
	}
	return h
}

// Resource returns the counters of a resource.
func (m *Metrics) Resource(name string) *Resource {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.resources {
		if r.name == name {
			return r
		}
	}
	r := &Resource{name: name}
	m.resources = append(m.resources, r)
	return r
}

// Request counts a request to the API server at a host, which has taken so long. The code is 0 if there was no response.
func (m *Metrics) Request(host, verb string, code int, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host = host
	count(&m.requests, verb, code)
	if verb == "WATCH" { // which lasts, and is a request with the method GET
		count(&m.methods, "GET", code)
		return
	}
	count(&m.methods, verb, code)
	count(&m.verbs, verb, 0).took.observe(took)
}

// count counts a request among others.
//
//go:noinline
func count(all *[]*requests, verb string, code int) *requests {
	var found *requests
	for _, r := range *all {
		if r.code == code && r.verb == verb {
			found = r
		}
	}
	if found == nil {
		found = &requests{verb: verb, code: code}
		*all = append(*all, found)
	}
	found.n[0].Add(1)
	return found
}

// SetReconciling has the children counted for each page, and the reconcile handlers shown as controllers.
func (m *Metrics) SetReconciling(r Reconciler) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reconciling = reconciling{r}
}

// SetLimits notes how many objects of a resource are worked on at the same time at most, and how many handlers are called; 0 for no limit.
func (m *Metrics) SetLimits(objects, handlers int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit = objects; objects <= 0 || handlers > 0 && handlers < objects {
		m.limit = max(handlers, 0)
	}
}

// Purpose is what a certificate is for.
type Purpose int

// The purposes of certificates, in the order of the page.
const (
	ForClient Purpose = iota // of the API server
	ForWebhooks
	purposes
)

// Certificate is one that the operator uses.
type Certificate interface {
	// End returns when it ends; the zero time if that is not known.
	End() time.Time
}

// SetCertificate has the end of a certificate looked up for each page.
func (m *Metrics) SetCertificate(p Purpose, c Certificate) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.certificates[p] = c
	}
}

// AllStreams returns how many streams of all resources are to be open, and how many of them work.
func (m *Metrics) AllStreams() (all, working int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.resources {
		all += r.counters[Streams].Load()
		working += r.counters[Working].Load()
	}
	return all, working
}
