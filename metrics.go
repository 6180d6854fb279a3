package kopf

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// This file counts what an operator does, and writes the counts in the text format of Prometheus. Counting is a few atomic additions,
// on any goroutine; only requests to the API server, which are rare and slow beside that, take a lock. Nothing is kept for an object,
// so a page is as long for ten thousand objects as for one.

// counter is a number of things that have happened, or that are there.
type counter struct{ n atomic.Int64 }

// metrics are the counters of one operator. A nil one counts nothing.
type metrics struct {
	pending    counter // objects that are worked on, or wait for that
	posted     counter // Kubernetes events
	merged     counter
	lost       counter
	daemons    counter // that run now
	timers     counter
	logins     counter
	loggedIn   atomic.Bool
	paused     func() bool // nil if it never does
	peers      func() int  // nil without peers
	goroutines func() int
	memory     func() int64                  // in bytes, 0 if that is not known
	handlers   map[HandlerID]*handlerMetrics // not changed after the start
	ids        []HandlerID                   // its keys in order
	mu         sync.Mutex                    // guards following
	requests   map[requestKind]int64
	resources  []*resourceMetrics // by name
}

// requestKind is what requests to the API server are counted by.
type requestKind struct {
	verb string
	code int // of the response, 0 if there was none
}

type countedRequests struct {
	requestKind
	n int64
}

// resourceMetrics are the counters of one resource. Nil ones count nothing.
type resourceMetrics struct {
	name     string
	events   [len(eventNames)]counter
	objects  counter // that are known
	restarts counter // of its streams
	streams  counter // that are to be open
	well     counter // that have listed their objects, and whose last connection has worked
}

// eventNames are the types of events that are counted.
var eventNames = [...]EventType{Listed, Added, Modified, Deleted}

// received counts an event from a stream.
func (r *resourceMetrics) received(t EventType) {
	if r == nil {
		return
	}
	for i, name := range eventNames {
		if name == t {
			r.events[i].n.Add(1)
		}
	}
}

// restarted counts a connection of a stream after its first one.
func (r *resourceMetrics) restarted() {
	if r != nil {
		r.restarts.n.Add(1)
	}
}

// stream counts streams that begin, or end if n is -1.
func (r *resourceMetrics) stream(n int64) {
	if r != nil {
		r.streams.n.Add(n)
	}
}

// working counts streams that work, or do not any more if n is -1.
func (r *resourceMetrics) working(n int64) {
	if r != nil {
		r.well.n.Add(n)
	}
}

// known counts objects that appear, or vanish if n is -1.
func (r *resourceMetrics) known(n int64) {
	if r != nil {
		r.objects.n.Add(n)
	}
}

// waiting counts objects that are begun to be worked on, or are done with if n is -1.
func (m *metrics) waiting(n int64) {
	if m != nil {
		m.pending.n.Add(n)
	}
}

// result is how an attempt of a handler has ended.
type result int

const (
	resultSuccess result = iota
	resultRetry          // to be tried again
	resultFailure        // for good
	resultIgnored
	resultWaiting // for sub-handlers
	resultCancelled
)

var resultNames = [...]string{"success", "retry", "failure", "ignored", "waiting", "cancelled"}

// handlerBounds are the upper bounds of the buckets of durations, in seconds.
var handlerBounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}

// handlerMetrics are the counters of one handler.
type handlerMetrics struct {
	results [len(resultNames)]counter
	buckets [len(handlerBounds) + 1]counter
	nanos   counter // of all attempts
	subs    *handlerMetrics
}

// ended counts an attempt that has taken so many nanoseconds.
func (h *handlerMetrics) ended(r result, nanos int64) {
	if h == nil {
		return
	}
	h.results[r].n.Add(1)
	h.nanos.n.Add(nanos)
	h.buckets[bucketOf(float64(nanos)/1e9)].n.Add(1)
}

func bucketOf(seconds float64) int {
	for i, bound := range handlerBounds {
		if seconds <= bound {
			return i
		}
	}
	return len(handlerBounds)
}

// handler returns the counters of a handler, or of its sub-handlers.
func (m *metrics) handler(id HandlerID, sub bool) *handlerMetrics {
	if m == nil {
		return nil
	}
	h := m.handlers[id]
	if h != nil && sub {
		return h.subs
	}
	return h
}

// know makes counters for handlers; those of the same id share them. Sub-handlers are counted together, for each of their parents.
func (m *metrics) know(ids []HandlerID) {
	m.handlers = make(map[HandlerID]*handlerMetrics)
	for _, id := range ids {
		if m.handlers[id] == nil {
			m.handlers[id] = &handlerMetrics{subs: &handlerMetrics{}}
			m.ids = append(m.ids, id)
		}
	}
	slices.Sort(m.ids)
}

// resource returns the counters of a resource.
func (m *metrics) resource(name string) *resourceMetrics {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := slices.BinarySearchFunc(m.resources, name, func(r *resourceMetrics, name string) int { return strings.Compare(r.name, name) })
	if !found {
		m.resources = slices.Insert(m.resources, i, &resourceMetrics{name: name})
	}
	return m.resources[i]
}

// request counts a request to the API server. The code is 0 if there was no response.
func (m *metrics) request(verb string, code int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests == nil {
		m.requests = make(map[requestKind]int64)
	}
	m.requests[requestKind{verb, code}]++
}

// lose counts an event that could not be posted.
func (m *metrics) lose() { m.lost.n.Add(1) }

// lostEvents returns how many events could not be posted so far.
func (m *metrics) lostEvents() int64 { return m.lost.n.Load() }

// streams returns how many streams there are to be, and how many of them are well.
func (m *metrics) streams() (all, well int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.resources {
		all += r.streams.n.Load()
		well += r.well.n.Load()
	}
	return all, well
}

// page is a page of metrics in the making.
type page struct{ b []byte }

// family begins a family of metrics.
func (p *page) family(name, kind, help string) {
	p.b = append(p.b, "# HELP kopf_"+name+" "+help+"\n# TYPE kopf_"+name+" "+kind+"\n"...)
}

// sample adds a value. Labels come in pairs.
func (p *page) sample(name string, value float64, labels ...string) {
	p.b = append(append(p.b, "kopf_"...), name...)
	for i := 0; i+1 < len(labels); i += 2 {
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		p.b = append(append(append(p.b, open), labels[i]...), `="`...)
		p.b = append(append(p.b, labelEscapes.Replace(labels[i+1])...), '"')
	}
	if len(labels) > 0 {
		p.b = append(p.b, '}')
	}
	p.b = append(p.b, ' ')
	p.b = strconv.AppendFloat(p.b, value, 'g', -1, 64)
	p.b = append(p.b, '\n')
}

// labelEscapes are those of the text format in the values of labels.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// single adds a family with one value.
func (p *page) single(name, kind, help string, value int64) {
	p.family(name, kind, help)
	p.sample(name, float64(value))
}

// writeTo writes the page.
func (m *metrics) writeTo(w io.Writer) error {
	p := &page{b: make([]byte, 0, 16<<10)}
	p.ofHandlers(m)
	p.ofResources(m)
	p.ofOperator(m)
	_, err := w.Write(p.b)
	return err
}

// each calls a function for each handler, sub-handlers included, that was called at least once.
func (m *metrics) each(do func(id string, h *handlerMetrics)) {
	for _, id := range m.ids {
		h := m.handlers[id]
		do(string(id), h)
		for i := range h.subs.results {
			if h.subs.results[i].n.Load() > 0 {
				do(string(id)+"/*", h.subs)
				break
			}
		}
	}
}

func (p *page) ofHandlers(m *metrics) {
	p.family("handler_attempts_total", "counter", "Attempts of handlers by how they have ended.")
	m.each(func(id string, h *handlerMetrics) {
		for i, name := range resultNames {
			p.sample("handler_attempts_total", float64(h.results[i].n.Load()), "handler", id, "outcome", name)
		}
	})
	p.family("handler_retries_total", "counter", "Attempts of handlers that are followed by another one, because of an error.")
	m.each(func(id string, h *handlerMetrics) {
		p.sample("handler_retries_total", float64(h.results[resultRetry].n.Load()), "handler", id)
	})
	p.family("handler_duration_seconds", "histogram", "How long attempts of handlers have taken.")
	m.each(func(id string, h *handlerMetrics) {
		var count int64
		for i := range h.buckets {
			bound := math.Inf(1)
			if i < len(handlerBounds) {
				bound = handlerBounds[i]
			}
			count += h.buckets[i].n.Load()
			p.sample("handler_duration_seconds_bucket", float64(count), "handler", id, "le", strconv.FormatFloat(bound, 'g', -1, 64))
		}
		p.sample("handler_duration_seconds_sum", float64(h.nanos.n.Load())/1e9, "handler", id)
		p.sample("handler_duration_seconds_count", float64(count), "handler", id)
	})
}

func (p *page) ofResources(m *metrics) {
	m.mu.Lock() // for a moment, not while the page is written
	resources, requests := slices.Clone(m.resources), make([]countedRequests, 0, len(m.requests))
	for kind, n := range m.requests {
		requests = append(requests, countedRequests{kind, n})
	}
	m.mu.Unlock()
	p.family("watch_events_total", "counter", "Events received from the streams of resources; LISTED are the objects of listings.")
	for _, r := range resources {
		for i, t := range eventNames {
			if t == Listed {
				t = "LISTED"
			}
			p.sample("watch_events_total", float64(r.events[i].n.Load()), "resource", r.name, "type", string(t))
		}
	}
	each := func(metric, kind, help string, of func(*resourceMetrics) *counter) {
		p.family(metric, kind, help)
		for _, r := range resources {
			p.sample(metric, float64(of(r).n.Load()), "resource", r.name)
		}
	}
	each("watch_restarts_total", "counter", "Connections of streams after their first ones.", func(r *resourceMetrics) *counter { return &r.restarts })
	each("watch_streams", "gauge", "Streams that are to be open.", func(r *resourceMetrics) *counter { return &r.streams })
	each("watch_streams_well", "gauge", "Streams that work.", func(r *resourceMetrics) *counter { return &r.well })
	each("objects", "gauge", "Objects that are known.", func(r *resourceMetrics) *counter { return &r.objects })
	p.family("api_requests_total", "counter", "Requests to the API server by verb and code; the code 0 means that there was no answer.")
	slices.SortFunc(requests, func(a, b countedRequests) int {
		if c := strings.Compare(a.verb, b.verb); c != 0 {
			return c
		}
		return a.code - b.code
	})
	for _, r := range requests {
		p.sample("api_requests_total", float64(r.n), "verb", r.verb, "code", strconv.Itoa(r.code))
	}
}

func (p *page) ofOperator(m *metrics) {
	p.single("queue_depth", "gauge", "Objects that are being worked on, or wait for that.", m.pending.n.Load())
	p.family("background_tasks", "gauge", "Daemons and timers of all objects that have not ended.")
	p.sample("background_tasks", float64(m.daemons.n.Load()), "kind", "daemon")
	p.sample("background_tasks", float64(m.timers.n.Load()), "kind", "timer")
	p.family("kubernetes_events_total", "counter", "Kubernetes events by what has become of them.")
	p.sample("kubernetes_events_total", float64(m.posted.n.Load()), "outcome", "posted")
	p.sample("kubernetes_events_total", float64(m.merged.n.Load()), "outcome", "merged")
	p.sample("kubernetes_events_total", float64(m.lost.n.Load()), "outcome", "lost")
	p.single("logins_total", "counter", "Logins that have succeeded.", m.logins.n.Load())
	if m.peers != nil {
		p.single("peers", "gauge", "Other operators in the peering objects that are alive.", int64(m.peers()))
	}
	paused := int64(0)
	if m.paused != nil && m.paused() {
		paused = 1
	}
	p.single("paused", "gauge", "Whether the operator pauses in favour of others.", paused)
	if m.goroutines != nil {
		p.single("goroutines", "gauge", "Goroutines of the process.", int64(m.goroutines()))
	}
	if bytes := m.residentMemory(); bytes > 0 {
		p.single("resident_memory_bytes", "gauge", "Memory of the process.", bytes)
	}
}

func (m *metrics) residentMemory() int64 {
	if m.memory == nil {
		return 0
	}
	return m.memory()
}
