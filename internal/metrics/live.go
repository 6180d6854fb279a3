package metrics

import (
	"strconv"
	"time"
)

// Live is a snapshot of the counters for the live page. The names of its fields in JSON are stable.
type Live struct {
	Memory     int64 `json:"memoryBytes"` // 0 if unknown
	Goroutines int   `json:"goroutines"`
	Daemons    int64 `json:"daemons"`
	Timers     int64 `json:"timers"`
	Peers      int64 `json:"peers"`     // other operators that are alive
	Conflicts  int64 `json:"conflicts"` // how often kopf began to slow down the handling of an object because of update conflicts
	Throttled  int64 `json:"throttledMilliseconds"`

	Handlers     []LiveHandler     `json:"handlers"`
	Requests     []LiveRequests    `json:"requests"`
	Certificates []LiveCertificate `json:"certificates,omitempty"`
	Children     []LiveChildren    `json:"children,omitempty"`
}

// LiveHandler holds the counters of a handler, alone or with its sub-handlers.
type LiveHandler struct {
	ID        string  `json:"id"` // "…/*" for the sub-handlers
	Running   int     `json:"running"`
	Succeeded int64   `json:"succeeded"`
	Retried   int64   `json:"retried"`
	Failed    int64   `json:"failed"`
	P50       float64 `json:"p50Seconds"` // estimated from the durations of its calls
	P99       float64 `json:"p99Seconds"`
}

// LiveRequests counts requests to the API server.
type LiveRequests struct {
	Verb  string `json:"verb"`
	Code  string `json:"code"` // "<error>" without an answer
	Count int64  `json:"count"`
}

// LiveCertificate is a certificate in use.
type LiveCertificate struct {
	Purpose string    `json:"purpose"` // client or webhooks
	End     time.Time `json:"end"`
}

// LiveChildren counts the child objects of one kind.
type LiveChildren struct {
	Resource    string `json:"resource"`
	Ready       int64  `json:"ready"`
	NotReady    int64  `json:"notReady"`
	Terminating int64  `json:"terminating"`
}

// LiveResource holds the counters of a resource.
type LiveResource struct {
	Resource string    `json:"resource"`
	Objects  int64     `json:"objects"`
	Failed   int64     `json:"failed"`  // objects with a permanently failed handler
	Working  int       `json:"working"` // objects with a worker
	Waiting  int       `json:"waiting"` // objects waiting for a worker
	Oldest   time.Time `json:"oldestWaiting,omitzero"`
	Delayed  int       `json:"delayed"` // objects with a later due time
	Restarts int64     `json:"streamRestarts"`
}

// Live returns a snapshot of the counters.
func (m *Metrics) Live() Live {
	memory, _ := process()
	l := Live{
		Memory: int64(memory), Goroutines: m.state.Goroutines(), Daemons: m.Load(Daemons), Timers: m.Load(Timers), Peers: m.Load(Peers), Conflicts: m.Load(WriteConflicts),
		Throttled: m.Load(Throttled) / int64(time.Millisecond), Handlers: []LiveHandler{}, Requests: []LiveRequests{},
	}
	handlers := m.handlers.Load()
	for _, id := range handlers.ids {
		h := handlers.byID[id]
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

// live returns a snapshot of the handler's counters.
func (h *Handler) live(id string) LiveHandler {
	running, _, _ := h.running.look(time.Now())
	return LiveHandler{
		ID: id, Running: running, Succeeded: h.results[Success].Load(), Retried: h.results[Retry].Load(), Failed: h.results[Failure].Load(),
		P50: h.durations.quantile(0.5), P99: h.durations.quantile(0.99),
	}
}

// Live returns a snapshot of the resource's counters.
func (r *Resource) Live(now time.Time) LiveResource {
	l := LiveResource{Resource: r.name, Objects: r.counters[Objects].Load(), Failed: r.counters[Failed].Load(), Restarts: r.counters[Restarts].Load()}
	var age float64
	if l.Waiting, age, _ = r.queue.waiting.look(now); l.Waiting > 0 {
		l.Oldest = now.Add(-time.Duration(age * 1e9)).UTC()
	}
	l.Working, _, _ = r.queue.working.look(now)
	return l
}

// Live returns the time of the last event on the stream, or zero if the stream does not work, and the number of reconnections.
func (s *Stream) Live() (last time.Time, restarts int64) {
	if s == nil {
		return time.Time{}, 0
	}
	if nanos := s.last.Load(); nanos != 0 {
		last = time.Unix(0, nanos).UTC()
	}
	return last, s.restarts.Load()
}

// quantile estimates a quantile of the durations in seconds. It assumes an even spread within each bucket, and nothing beyond the last bound.
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
