// Package metrics counts the activities of an operator, and writes the counts in the text formats of Prometheus and OpenMetrics: under its own names, and
// under the names that dashboards for controller-runtime use.
//
// Counting takes a few atomic additions, on any goroutine. Only slower activities, such as requests and calls of handlers, take a lock. There is no counter
// of a single object, so the page for ten thousand objects is as long as for one. A gauge is either computed for each page, or decremented by its owner: see
// [Pass], [Call], [Stream] and [Failing].
package metrics

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Count names a counter of an operator.
type Count int

// The counters of an operator.
const (
	Queued       Count = iota // objects that have a worker or wait for one
	Daemons                   // running
	Timers                    // running
	EventsPosted              // Kubernetes events
	EventsMerged
	EventsLost
	WriteConflicts // how often kopf began to slow down the handling of an object because of a hot loop
	Logins         // successful logins
	Peers          // other operators that are alive
	Terms          // times that this replica became the leader
	Throttled      // nanoseconds that requests have waited for the client's rate limits
	operatorCounts
)

// Metrics holds the counters of one operator. Nil counts nothing.
type Metrics struct {
	LoggedIn atomic.Bool // reports whether the last login succeeded
	Ready    atomic.Bool // reports whether the operator has started

	Election atomic.Pointer[Election] // nil without leader election, and before the login

	state    State
	counters [operatorCounts]atomic.Int64
	handlers atomic.Pointer[handlerTable]

	mu           sync.Mutex // guards following
	unserved     []string   // why no handler of objects can be served; nil if some can be
	requests     []*requests
	methods      []*requests // the same, by method
	verbs        []*requests // the same, by verb, without watches
	resources    []*Resource
	reconciling  section // nil without reconcile handlers
	certificates [purposes]Certificate
	limit        int // of concurrent calls
	host         string
}

// Election is a leader election among replicas.
type Election struct {
	Lease   string        // name
	Leading func() bool   // reports whether this replica is the leader
	Holder  func() string // returns the identity of the leader, as far as this replica knows
	Reached func() bool   // reports whether this replica has ever read the Lease, so that it can take over
}

// handlerTable has the counters of the handlers. It does not change.
type handlerTable struct {
	ids  []string // in the order of registration
	byID map[string]*Handler
}

// State holds values that are computed for each page instead of counted.
type State struct {
	Version    string      // of the framework
	Go         string      // version of Go
	Paused     func() bool // reports whether the operator pauses
	Goroutines func() int  // of the process
	Log        *slog.Logger
}

// requests counts the requests to the API server with one verb and one status code, 0 without a response.
type requests struct {
	verb string
	code int
	n    [1]atomic.Int64
	took histogram
}

// New returns counters for handlers. Handlers with equal ids share them. The sub-handlers of each parent share one set of counters.
func New(state State, handlers []Described) *Metrics {
	m := &Metrics{state: state}
	m.handlers.Store(&handlerTable{byID: make(map[string]*Handler)})
	m.Extend(handlers)
	return m
}

// Extend adds counters for the handlers that have none.
func (m *Metrics) Extend(handlers []Described) {
	m.mu.Lock()
	defer m.mu.Unlock()
	present := m.handlers.Load()
	next := &handlerTable{ids: slices.Clip(present.ids), byID: maps.Clone(present.byID)}
	for _, d := range handlers {
		h := next.byID[d.ID]
		if h == nil {
			h = &Handler{subs: &Handler{}}
			next.byID[d.ID], next.ids = h, append(next.ids, d.ID)
		}
		h.kind.Store(max(h.kind.Load(), int32(d.Kind)))
	}
	m.handlers.Store(next)
}

// Add adds to a counter. It is not inlined because that makes the binary smaller.
//
//go:noinline
func (m *Metrics) Add(c Count, n int64) {
	if m != nil {
		m.counters[c].Add(n)
	}
}

// Load returns the value of a counter.
func (m *Metrics) Load(c Count) int64 { return m.counters[c].Load() }

// Paused reports whether the operator pauses.
func (m *Metrics) Paused() bool { return m.state.Paused() }

// StandsBy reports whether another replica is the leader.
func (m *Metrics) StandsBy() bool {
	e := m.Election.Load()
	return e != nil && !e.Leading()
}

// Total returns how many attempts of all handlers ended with a result.
func (m *Metrics) Total(r Result) (n int64) {
	for _, h := range m.handlers.Load().byID {
		n += h.results[r].Load() + h.subs.results[r].Load()
	}
	return n
}

// Handler returns the counters of a handler, or those of its sub-handlers.
func (m *Metrics) Handler(id string, sub bool) *Handler {
	if m == nil {
		return nil
	}
	h := m.handlers.Load().byID[id]
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

// Drop removes the counters of a resource that is gone from the pages.
func (m *Metrics) Drop(name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resources = slices.DeleteFunc(m.resources, func(r *Resource) bool { return r.name == name })
}

// Request counts a request to the API server at a host, and its duration. The code is 0 without a response.
func (m *Metrics) Request(host, verb string, code int, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host = host
	count(&m.requests, verb, code)
	if verb == "WATCH" { // long-running, and a GET by its method
		count(&m.methods, "GET", code)
		return
	}
	count(&m.methods, verb, code)
	count(&m.verbs, verb, 0).took.observe(took)
}

// count increments the counter for a verb and a code.
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

// SetReconciling adds the children, and the reconcile handlers as controllers, to each page.
func (m *Metrics) SetReconciling(r Reconciler) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reconciling = reconciling{r}
}

// SetLimits sets the limits that the page shows: concurrent objects of one resource, and concurrent calls of handlers. 0 means no limit.
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

// Purpose is the purpose of a certificate.
type Purpose int

// The purposes of certificates, in the order of the page.
const (
	ForClient Purpose = iota // for the client of the API server
	ForWebhooks
	purposes
)

// Certificate is a certificate that the operator uses.
type Certificate interface {
	// End returns the expiration time, or zero if it is unknown.
	End() time.Time
}

// SetCertificate adds the expiration time of a certificate to each page.
func (m *Metrics) SetCertificate(p Purpose, c Certificate) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.certificates[p] = c
	}
}

// SetUnserved sets why no handler of objects can be served, nil if some can be.
func (m *Metrics) SetUnserved(reasons []string) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.unserved = reasons
	}
}

// Unserved returns the reasons of SetUnserved, which the caller must not change.
func (m *Metrics) Unserved() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unserved
}

// Denied returns the names of the resources with streams that the operator may not open, sorted.
func (m *Metrics) Denied() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.resources {
		if r.denied() {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}

// IsReady reports whether the operator works. A replica that is paused or on standby is ready to take over. A replica that has never reached the Lease is
// not ready: a rolling update must not replace working replicas with it. The same holds while no handler can be served.
func (m *Metrics) IsReady() bool {
	all, working := m.AllStreams()
	e := m.Election.Load()
	reached := e == nil || e.Reached()
	return m.Ready.Load() && m.LoggedIn.Load() && reached && (m.Paused() || all == working && len(m.Unserved()) == 0)
}

// AllStreams returns the number of open watch streams of all resources, and how many of them work.
func (m *Metrics) AllStreams() (all, working int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.resources {
		all += r.counters[Streams].Load()
		working += r.counters[Working].Load()
	}
	return all, working
}
