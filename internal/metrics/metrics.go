// Package metrics counts what an operator does, and writes the counts in the text format of Prometheus.
//
// Counting is a few atomic additions, on any goroutine. Only requests to the API server, which are rare and slow compared with that, take
// a lock. There is no counter of a single object, so a page is as long for ten thousand objects as for one.
package metrics

import (
	"sync"
	"sync/atomic"
)

// Count names a counter of an operator.
type Count int

// The counters of an operator, in the order of the page.
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

	mu        sync.Mutex // guards following
	requests  []*requests
	resources []*Resource
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
	Paused     func() bool  // whether the operator pauses now
	Goroutines func() int   // of the process
	Memory     func() int64 // of the process in bytes, 0 if that is not known
}

// requests is the number of requests to the API server with a verb and the code of the response, 0 if there was none.
type requests struct {
	verb string
	code int
	n    atomic.Int64
}

// New returns counters for handlers with these ids; handlers of the same id share them. Sub-handlers are counted together, for each of
// their parents.
func New(state State, ids []string) *Metrics {
	m := &Metrics{state: state, handlers: make(map[string]*Handler)}
	for _, id := range ids {
		if m.handlers[id] == nil {
			m.handlers[id] = &Handler{subs: &Handler{}}
			m.ids = append(m.ids, id)
		}
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

// Request counts a request to the API server. The code is 0 if there was no response.
func (m *Metrics) Request(verb string, code int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		if r.code == code && r.verb == verb {
			r.n.Add(1)
			return
		}
	}
	r := &requests{verb: verb, code: code}
	r.n.Add(1)
	m.requests = append(m.requests, r)
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

// ResourceCount names a counter of a resource.
type ResourceCount int

// The counters of a resource, in the order of the page.
const (
	Restarts ResourceCount = iota // of its streams
	Streams                       // that are to be open
	Working                       // streams that have listed their objects, and whose last connection has worked
	Objects                       // that are known
	resourceCounts
)

// Resource holds the counters of one resource. Nil counts nothing.
type Resource struct {
	name     string
	counters [resourceCounts]atomic.Int64
	events   [len(eventTypes)]atomic.Int64
}

// eventTypes are the types of events that are counted. Objects of lists have none.
var eventTypes = [...]string{"", "ADDED", "MODIFIED", "DELETED"}

// Add adds to a counter.
//
//go:noinline
func (r *Resource) Add(c ResourceCount, n int64) {
	if r != nil {
		r.counters[c].Add(n)
	}
}

// Received counts an event from a stream.
func (r *Resource) Received(eventType string) {
	if r == nil {
		return
	}
	for i, t := range eventTypes {
		if t == eventType {
			r.events[i].Add(1)
		}
	}
}

// Result is how an attempt of a handler has ended.
type Result int

// The results of attempts, in the order of the page.
const (
	Success Result = iota
	Retry          // to be tried again
	Failure        // permanent
	Ignored
	Waiting // for sub-handlers
	Cancelled
	results
)

// handlerBounds are the upper bounds of the buckets of durations, in seconds.
var handlerBounds = [...]float64{0.005, 0.025, 0.1, 0.5, 1, 5, 10, 60, 300}

// Handler holds the counters of one handler. Nil counts nothing.
type Handler struct {
	results [results]atomic.Int64
	buckets [len(handlerBounds) + 1]atomic.Int64
	nanos   atomic.Int64 // of all attempts
	subs    *Handler
}

// Ended counts an attempt that has taken so many nanoseconds.
func (h *Handler) Ended(r Result, nanos int64) {
	if h == nil {
		return
	}
	h.results[r].Add(1)
	h.nanos.Add(nanos)
	h.buckets[bucketOf(float64(nanos)/1e9)].Add(1)
}

// bucketOf returns the place of the bucket of a duration.
func bucketOf(seconds float64) int {
	for i, bound := range handlerBounds {
		if seconds <= bound {
			return i
		}
	}
	return len(handlerBounds)
}
