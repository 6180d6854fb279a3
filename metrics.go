package kopf

import (
	"io"
	"strconv"
	"sync"
	"sync/atomic"
)

// This file counts what an operator does, and writes the counts in the text format of Prometheus. Counting is a few atomic additions,
// on any goroutine; only requests to the API server, which are rare and slow compared with that, take a lock. Nothing is kept for an object,
// so a page is as long for ten thousand objects as for one.

// counter is a number of things that have happened, or that are there.
type counter struct{ n atomic.Int64 }

// metrics are the counters of one operator. A nil one counts nothing.
type metrics struct {
	pending        counter // objects that are worked on, or wait for that
	posted         counter // Kubernetes events
	merged         counter
	lost           counter
	daemons        counter // that have not ended
	timers         counter
	logins         counter
	peers          counter // other operators that are alive
	writeConflicts counter
	loggedIn       atomic.Bool                   // whether the last login has succeeded
	ready          atomic.Bool                   // whether the operator has started
	paused         func() bool                   // whether it pauses now
	goroutines     func() int                    // of the process
	memory         func() int64                  // of the process in bytes, 0 if that is not known
	handlers       map[HandlerID]*handlerMetrics // not changed after the start
	ids            []HandlerID                   // its keys, in the order of registration

	mu        sync.Mutex // guards following
	requests  []*requestMetrics
	resources []*resourceMetrics
}

// requestMetrics is the number of requests to the API server with a verb and the code of the response, 0 if there was none.
type requestMetrics struct {
	verb string
	code int
	n    atomic.Int64
}

// resourceMetrics are the counters of one resource. Nil ones count nothing.
type resourceMetrics struct {
	name     string
	events   [len(eventNames)]counter
	objects  counter // that are known
	restarts counter // of its streams
	streams  counter // that are to be open
	healthy  counter // that have listed their objects, and whose last connection has worked
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
		r.healthy.n.Add(n)
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

// attemptResult is how an attempt of a handler has ended.
type attemptResult int

const (
	resultSuccess attemptResult = iota
	resultRetry                 // to be tried again
	resultFailure               // permanently
	resultIgnored
	resultWaiting // for sub-handlers
	resultCancelled
	attemptResults
)

// handlerBounds are the upper bounds of the buckets of durations, in seconds.
var handlerBounds = [...]float64{0.005, 0.025, 0.1, 0.5, 1, 5, 10, 60, 300}

// handlerMetrics are the counters of one handler.
type handlerMetrics struct {
	results [attemptResults]counter
	buckets [len(handlerBounds) + 1]counter
	nanos   counter // of all attempts
	subs    *handlerMetrics
}

// ended counts an attempt that has taken so many nanoseconds.
func (h *handlerMetrics) ended(r attemptResult, nanos int64) {
	if h == nil {
		return
	}
	h.results[r].n.Add(1)
	h.nanos.n.Add(nanos)
	h.buckets[bucketOf(float64(nanos)/1e9)].n.Add(1)
}

// bucketOf returns the index of the bucket of a duration.
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

// register makes counters for handlers; those of the same id share them. Sub-handlers are counted together, for each of their parents.
func (m *metrics) register(ids []HandlerID) {
	m.handlers = make(map[HandlerID]*handlerMetrics)
	for _, id := range ids {
		if m.handlers[id] == nil {
			m.handlers[id] = &handlerMetrics{subs: &handlerMetrics{}}
			m.ids = append(m.ids, id)
		}
	}
}

// resource returns the counters of a resource.
func (m *metrics) resource(name string) *resourceMetrics {
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
	r := &resourceMetrics{name: name}
	m.resources = append(m.resources, r)
	return r
}

// request counts a request to the API server. The code is 0 if there was no response.
func (m *metrics) request(verb string, code int) {
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
	r := &requestMetrics{verb: verb, code: code}
	r.n.Add(1)
	m.requests = append(m.requests, r)
}

// eventLost counts an event that could not be posted.
func (m *metrics) eventLost() { m.lost.n.Add(1) }

// writeConflict counts an object whose handling begins to be slowed down, because its fields are changed again and again.
func (m *metrics) writeConflict() {
	if m != nil {
		m.writeConflicts.n.Add(1)
	}
}

// lostEvents returns how many events could not be posted so far.
func (m *metrics) lostEvents() int64 { return m.lost.n.Load() }

// streaming returns how many streams there are to be, and how many of them are well.
func (m *metrics) streaming() (all, healthy int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.resources {
		all += r.streams.n.Load()
		healthy += r.healthy.n.Load()
	}
	return all, healthy
}

// The page, by parts that are repeated for each handler, each resource, or not at all. A dollar stands for the name of what
// the part is about, and each percent sign for the next number.
const (
	attemptsHead = `# HELP kopf_handler_attempts_total Attempts of handlers by how they have ended.
# TYPE kopf_handler_attempts_total counter
`
	attemptsPart = `kopf_handler_attempts_total{handler="$",outcome="success"} %
kopf_handler_attempts_total{handler="$",outcome="retry"} %
kopf_handler_attempts_total{handler="$",outcome="failure"} %
kopf_handler_attempts_total{handler="$",outcome="ignored"} %
kopf_handler_attempts_total{handler="$",outcome="waiting"} %
kopf_handler_attempts_total{handler="$",outcome="cancelled"} %
`
	durationsHead = `# HELP kopf_handler_duration_seconds How long the attempts of handlers have taken.
# TYPE kopf_handler_duration_seconds histogram
`
	durationsPart = `kopf_handler_duration_seconds_bucket{handler="$",le="0.005"} %
kopf_handler_duration_seconds_bucket{handler="$",le="0.025"} %
kopf_handler_duration_seconds_bucket{handler="$",le="0.1"} %
kopf_handler_duration_seconds_bucket{handler="$",le="0.5"} %
kopf_handler_duration_seconds_bucket{handler="$",le="1"} %
kopf_handler_duration_seconds_bucket{handler="$",le="5"} %
kopf_handler_duration_seconds_bucket{handler="$",le="10"} %
kopf_handler_duration_seconds_bucket{handler="$",le="60"} %
kopf_handler_duration_seconds_bucket{handler="$",le="300"} %
kopf_handler_duration_seconds_bucket{handler="$",le="+Inf"} %
kopf_handler_duration_seconds_sum{handler="$"} %
kopf_handler_duration_seconds_count{handler="$"} %
`
	eventsHead = `# HELP kopf_watch_events_total Events received from the API server; those of the type LISTED are the objects of listings.
# TYPE kopf_watch_events_total counter
`
	eventsPart = `kopf_watch_events_total{resource="$",type="LISTED"} %
kopf_watch_events_total{resource="$",type="ADDED"} %
kopf_watch_events_total{resource="$",type="MODIFIED"} %
kopf_watch_events_total{resource="$",type="DELETED"} %
`
	restartsHead = `# HELP kopf_watch_restarts_total Connections of streams after their first ones.
# TYPE kopf_watch_restarts_total counter
`
	restartsPart = `kopf_watch_restarts_total{resource="$"} %
`
	streamsHead = `# HELP kopf_watch_streams Streams that are to be open, and those that are, or were so far without trouble.
# TYPE kopf_watch_streams gauge
`
	streamsPart = `kopf_watch_streams{resource="$",state="wanted"} %
kopf_watch_streams{resource="$",state="working"} %
`
	objectsHead = `# HELP kopf_objects Objects that are known.
# TYPE kopf_objects gauge
`
	objectsPart = `kopf_objects{resource="$"} %
`
	requestsHead = `# HELP kopf_api_requests_total Requests to the API server by verb and code of the answer; 0 means that there was none.
# TYPE kopf_api_requests_total counter
`
	requestsPart = `kopf_api_requests_total{verb="$",code="%"} %
`
	operatorPart = `# HELP kopf_handler_retries_total Attempts of handlers that had an error, and are followed by another attempt.
# TYPE kopf_handler_retries_total counter
kopf_handler_retries_total %
# HELP kopf_queue_depth Objects that are being worked on, or wait for that.
# TYPE kopf_queue_depth gauge
kopf_queue_depth %
# HELP kopf_background_tasks Daemons and timers of all objects that have not ended.
# TYPE kopf_background_tasks gauge
kopf_background_tasks{kind="daemon"} %
kopf_background_tasks{kind="timer"} %
# HELP kopf_kubernetes_events_total Kubernetes events about objects by what has become of them.
# TYPE kopf_kubernetes_events_total counter
kopf_kubernetes_events_total{outcome="posted"} %
kopf_kubernetes_events_total{outcome="merged"} %
kopf_kubernetes_events_total{outcome="lost"} %
# HELP kopf_fights_total Times that the handling of an object began to be slowed down, because its fields were changed again and again.
# TYPE kopf_fights_total counter
kopf_fights_total %
# HELP kopf_logins_total Logins that have succeeded.
# TYPE kopf_logins_total counter
kopf_logins_total %
# HELP kopf_peers Other operators that are alive in the peering objects.
# TYPE kopf_peers gauge
kopf_peers %
# HELP kopf_paused Whether the operator pauses in favour of others.
# TYPE kopf_paused gauge
kopf_paused %
# HELP kopf_goroutines Goroutines of the process.
# TYPE kopf_goroutines gauge
kopf_goroutines %
# HELP kopf_resident_memory_bytes Memory of the process; 0 if the system does not tell.
# TYPE kopf_resident_memory_bytes gauge
kopf_resident_memory_bytes %
`
)

// page is a page of metrics in the making.
type page []byte

// add adds a part with the name and the numbers of what it is about.
func (p *page) add(part, name string, numbers ...float64) {
	b := *p
	for _, c := range []byte(part) {
		switch c {
		case '$':
			b = appendLabel(b, name)
		case '%':
			b = strconv.AppendFloat(b, numbers[0], 'g', -1, 64)
			numbers = numbers[1:]
		default:
			b = append(b, c)
		}
	}
	*p = b
}

// appendLabel appends the value of a label, with the escapes of the format.
func appendLabel(b []byte, value string) []byte {
	for _, c := range []byte(value) {
		switch c {
		case '\n':
			b = append(b, '\\', 'n')
			continue
		case '\\', '"':
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return b
}

// write writes all counts as a page.
func (m *metrics) write(w io.Writer) error {
	m.mu.Lock() // for a moment, not while the page is written
	resources, requests := m.resources, m.requests
	m.mu.Unlock()
	p := make(page, 0, 16<<10)
	retries := m.writeHandlers(&p)
	heads := [...]string{eventsHead, restartsHead, streamsHead, objectsHead}
	for i, part := range [...]string{eventsPart, restartsPart, streamsPart, objectsPart} {
		p.add(heads[i], "")
		for _, r := range resources {
			p.add(part, r.name, r.numbers(i)...)
		}
	}
	p.add(requestsHead, "")
	for _, r := range requests {
		p.add(requestsPart, r.verb, float64(r.code), float64(r.n.Load()))
	}
	paused := 0.
	if m.paused() {
		paused = 1
	}
	p.add(operatorPart, "", retries, m.pending.float(), m.daemons.float(), m.timers.float(), m.posted.float(), m.merged.float(), m.lost.float(),
		m.writeConflicts.float(), m.logins.float(), m.peers.float(), paused, float64(m.goroutines()), float64(m.memory()))
	_, err := w.Write(p)
	return err
}

// writeHandlers adds the counts of all handlers, and returns how many attempts are followed by another one.
func (m *metrics) writeHandlers(p *page) (retries float64) {
	p.add(attemptsHead, "")
	m.each(func(id string, h *handlerMetrics) {
		retries += h.results[resultRetry].float()
		p.add(attemptsPart, id, floats(h.results[:])...)
	})
	p.add(durationsHead, "")
	m.each(func(id string, h *handlerMetrics) {
		numbers := floats(h.buckets[:])
		for i := 1; i < len(numbers); i++ {
			numbers[i] += numbers[i-1]
		}
		p.add(durationsPart, id, append(numbers, h.nanos.float()/1e9, numbers[len(numbers)-1])...)
	})
	return retries
}

// each calls a function for each handler, and for its sub-handlers together if there are any.
func (m *metrics) each(do func(id string, h *handlerMetrics)) {
	for _, id := range m.ids {
		h := m.handlers[id]
		do(string(id), h)
		if h.subs.nanos.n.Load() > 0 {
			do(string(id)+"/*", h.subs)
		}
	}
}

// numbers returns what is in the parts about resources.
func (r *resourceMetrics) numbers(part int) []float64 {
	switch part {
	case 0:
		return floats(r.events[:])
	case 1:
		return []float64{r.restarts.float()}
	case 2:
		return []float64{r.streams.float(), r.healthy.float()}
	}
	return []float64{r.objects.float()}
}

func (c *counter) float() float64 { return float64(c.n.Load()) }

func floats(counters []counter) []float64 {
	all := make([]float64, len(counters))
	for i := range counters {
		all[i] = counters[i].float()
	}
	return all
}
