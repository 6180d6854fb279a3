package metrics

import (
	"io"
	"strconv"
	"sync/atomic"
)

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
	// Its name is that of client-go, which dashboards know.
	electionPart = `# HELP leader_election_master_status Whether this replica is the leader, by the name of the Lease.
# TYPE leader_election_master_status gauge
leader_election_master_status{name="$"} %
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

// Write writes all counts as a page.
func (m *Metrics) Write(w io.Writer) error {
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
	numbers := append([]float64{retries}, floats(m.counters[:])...)
	p.add(operatorPart, "", append(numbers, number(m.state.Paused()), float64(m.state.Goroutines()), float64(m.state.Memory()))...)
	if e := m.Election.Load(); e != nil {
		p.add(electionPart, e.Lease, number(e.Leading()))
	}
	_, err := w.Write(p)
	return err
}

// number returns 1 for true.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// writeHandlers adds the counts of all handlers, and returns how many attempts are followed by another one.
func (m *Metrics) writeHandlers(p *page) (retries float64) {
	p.add(attemptsHead, "")
	m.each(func(id string, h *Handler) {
		retries += float64(h.results[Retry].Load())
		p.add(attemptsPart, id, floats(h.results[:])...)
	})
	p.add(durationsHead, "")
	m.each(func(id string, h *Handler) {
		numbers := floats(h.buckets[:])
		for i := 1; i < len(numbers); i++ {
			numbers[i] += numbers[i-1]
		}
		p.add(durationsPart, id, append(numbers, float64(h.nanos.Load())/1e9, numbers[len(numbers)-1])...)
	})
	return retries
}

// each calls a function for each handler, and for its sub-handlers together if there are any.
func (m *Metrics) each(do func(id string, h *Handler)) {
	for _, id := range m.ids {
		h := m.handlers[id]
		do(id, h)
		if h.subs.nanos.Load() > 0 {
			do(id+"/*", h.subs)
		}
	}
}

// numbers returns what is in the parts about resources.
func (r *Resource) numbers(part int) []float64 {
	switch part {
	case 0:
		return floats(r.events[:])
	case 1:
		return floats(r.counters[Restarts : Restarts+1])
	case 2:
		return floats(r.counters[Streams : Working+1])
	}
	return floats(r.counters[Objects : Objects+1])
}

func floats(counters []atomic.Int64) []float64 {
	all := make([]float64, len(counters))
	for i := range counters {
		all[i] = float64(counters[i].Load())
	}
	return all
}
