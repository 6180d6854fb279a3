package metrics

import (
	"strconv"
	"time"
)

// Live is what the counters show at one time, for the live page. The names of its fields in JSON are stable.
type Live struct {
	Memory     int64 `json:"memoryBytes"` // 0 if it is not known
	Goroutines int   `json:"goroutines"`
	Daemons    int64 `json:"daemons"`
	Timers     int64 `json:"timers"`
	Peers      int64 `json:"peers"`     // other operators that are alive
	Conflicts  int64 `json:"conflicts"` // times that the handling of an object began to be slowed down, because of update conflicts
	Throttled  int64 `json:"throttledMilliseconds"`

	Handlers     []LiveHandler     `json:"handlers"`
	Requests     []LiveRequests    `json:"requests"`
	Certificates []LiveCertificate `json:"certificates,omitempty"`
	Children     []LiveChildren    `json:"children,omitempty"`
}

// LiveHandler is what is known of a handler, with its sub-handlers or without.
type LiveHandler struct {
	ID        string  `json:"id"` // "…/*" for the sub-handlers
	Running   int     `json:"running"`
	Succeeded int64   `json:"succeeded"`
	Retried   int64   `json:"retried"`
	Failed    int64   `json:"failed"`
	P50       float64 `json:"p50Seconds"` // of the durations of its calls, estimated
	P99       float64 `json:"p99Seconds"`
}

// LiveRequests are requests to the API server.
type LiveRequests struct {
	Verb  string `json:"verb"`
	Code  string `json:"code"` // "<error>" without an answer
	Count int64  `json:"count"`
}

// LiveCertificate is a certificate that is in use.
type LiveCertificate struct {
	Purpose string    `json:"purpose"` // client or webhooks
	End     time.Time `json:"end"`
}

// LiveChildren are the children of one kind.
type LiveChildren struct {
	Resource    string `json:"resource"`
	Ready       int64  `json:"ready"`
	NotReady    int64  `json:"notReady"`
	Terminating int64  `json:"terminating"`
}

// LiveResource is what is known of a resource.
type LiveResource struct {
	Resource string    `json:"resource"`
	Objects  int64     `json:"objects"`
	Failed   int64     `json:"failed"`  // objects for which a handler has failed permanently
	Working  int       `json:"working"` // objects that are worked on
	Waiting  int       `json:"waiting"` // objects that wait for a worker
	Oldest   time.Time `json:"oldestWaiting,omitzero"`
	Delayed  int       `json:"delayed"` // objects that are due later
	Restarts int64     `json:"streamRestarts"`
}

// Live returns what the counters show now.
func (m *Metrics) Live() Live {
	memory, _ := process()
	l := Live{
		Memory: int64(memory), Goroutines: m.state.Goroutines(), Daemons: m.Load(Daemons), Timers: m.Load(Timers), Peers: m.Load(Peers), Conflicts: m.Load(WriteConflicts),
		Throttled: m.Load(Throttled) / int64(time.Millisecond), Handlers: []LiveHandler{}, Requests: []LiveRequests{},
	}
	for _, id := range m.ids {
		h := m.handlers[id]
		if l.Handlers = append(l.Handlers, h.live(id)); h.subs.durations.nanos.Load() > 0 {
			l.Handlers = append(l.Handlers, h.subs.live(id+"/*"))
		}
	}
	m.mu.Lock()
	for _, r := range m.requests {
		one := LiveRequests{Verb: r.verb, Code: strconv.Itoa(r.code), Count: r.n[0].Load()}
		if r.code == 0 {
			one.Code = "<error>"
		}
		l.Requests = append(l.Requests, one)
	}
	for i, c := range m.certificates {
		if c == nil {
			continue
		}
		if end := c.End(); !end.IsZero() {
			l.Certificates = append(l.Certificates, LiveCertificate{[...]string{"client", "webhooks"}[i], end})
		}
	}
	section := m.reconciling
	m.mu.Unlock()
	if section != nil {
		l.Children = section.live()
	}
	return l
}

// live returns what is known of a handler.
func (h *Handler) live(id string) LiveHandler {
	running, _, _ := h.running.look(time.Now())
	return LiveHandler{
		ID: id, Running: running, Succeeded: h.results[Success].Load(), Retried: h.results[Retry].Load(), Failed: h.results[Failure].Load(),
		P50: h.durations.quantile(0.5), P99: h.durations.quantile(0.99),
	}
}

// Live returns what is known of the resource.
func (r *Resource) Live(now time.Time) LiveResource {
	l := LiveResource{Resource: r.name, Objects: r.counters[Objects].Load(), Failed: r.counters[Failed].Load(), Restarts: r.counters[Restarts].Load()}
	var age float64
	if l.Waiting, age, _ = r.queue.waiting.look(now); l.Waiting > 0 {
		l.Oldest = now.Add(-time.Duration(age * 1e9)).UTC()
	}
	l.Working, _, _ = r.queue.working.look(now)
	return l
}

// Live returns when something has come last on the stream while it works, zero if it does not, and how often it was connected anew.
func (s *Stream) Live() (last time.Time, restarts int64) {
	if s == nil {
		return time.Time{}, 0
	}
	if nanos := s.last.Load(); nanos != 0 {
		last = time.Unix(0, nanos).UTC()
	}
	return last, s.restarts.Load()
}

// quantile estimates a quantile of the durations in seconds, as if they were spread evenly within each bucket; those beyond the last bound count as the bound.
func (h *histogram) quantile(q float64) float64 {
	var counts [len(bounds) + 1]float64
	total := 0.0
	for i := range counts {
		counts[i] = load(&h.buckets[i])
		total += counts[i]
	}
	below, lower := 0.0, 0.0
	for i, bound := range bounds {
		if wanted := q*total - below; counts[i] > 0 && wanted <= counts[i] {
			return lower + (bound-lower)*wanted/counts[i]
		}
		below, lower = below+counts[i], bound
	}
	if total == 0 {
		return 0
	}
	return lower
}
