package metrics

import (
	"io"
	"strconv"
	"time"
)

// TextOnly reports whether there can be no page of OpenMetrics: functions of users write in the text format.
func TextOnly() bool {
	u := users.Load()
	return u != nil && (*u).textOnly()
}

// Write writes all counts as a page, of OpenMetrics if that is wanted.
func (m *Metrics) Write(w io.Writer, open bool) error {
	m.mu.Lock() // for a moment, not while the page is written
	v := view{
		Metrics: m, now: time.Now(), resources: m.resources, lists: [...][]*requests{m.requests, m.methods, m.verbs}, limit: m.limit, host: m.host, reconciling: m.reconciling, certificates: m.certificates,
	}
	m.mu.Unlock()
	v.idle = m.Paused() || m.StandsBy()
	p := page{b: make([]byte, 0, 32<<10), open: open, log: m.state.Log}
	handlers, retries := v.ofHandlers()
	resources, failing, oldest := v.ofResources()
	p.table(handlerFamilies, handlers)
	p.table(failingFamilies, failing)
	p.table(resourceFamilies, resources)
	for i, text := range [...]string{requestFamilies, methodFamilies, verbFamilies} {
		p.table(text, v.ofRequests(v.lists[i], [...]string{"0", "<error>", ""}[i]))
	}
	p.table(operatorFamilies, []*row{v.ofOperator(retries, oldest)})
	if v.reconciling != nil {
		v.reconciling.write(&v, &p)
	}
	if u := users.Load(); u != nil {
		(*u).write(&p)
	}
	if open {
		p.text("# EOF\n")
	}
	_, err := w.Write(p.b)
	return err
}

// view is what a page is made of.
type view struct {
	*Metrics
	now          time.Time
	idle         bool // whether another operator or replica works, so that what waits here is no trouble
	resources    []*Resource
	lists        [3][]*requests
	reconciling  section
	certificates [purposes]Certificate
	limit        int
	host         string
}

// section is a part of the page that only some programs have.
type section interface {
	write(v *view, p *page)
	live() []LiveChildren
}

// stamp returns a number of nanoseconds since 1970 as one of whole seconds; none for 0.
func stamp(nanos int64) float64 {
	if nanos == 0 {
		return none
	}
	return float64(nanos / 1e9)
}

// ofHandlers returns what is known of handlers, and how many attempts are followed by another one.
func (v *view) ofHandlers() (all []*row, retries float64) {
	for _, id := range v.ids {
		h := v.handlers[id]
		all = append(all, h.row(id, v.now))
		if retries += load(&h.results[Retry]); h.subs.durations.nanos.Load() > 0 {
			all = append(all, h.subs.row(id+"/*", v.now))
		}
	}
	return all, retries
}

// row returns what is known of one handler.
func (h *Handler) row(id string, now time.Time) *row {
	_, oldest, _ := h.running.look(now)
	if h.kind == Endless {
		oldest = none
	}
	r := newRow(id, "", h.results[:], stamp(h.succeeded.Load()), oldest)
	for i := Ignored; i < results; i++ { // which few handlers know
		if r.numbers[i] == 0 {
			r.numbers[i] = none
		}
	}
	r.histograms = []*histogram{&h.durations}
	return r
}

// ofResources returns what is known of resources, of their handlers, and for how long the object waits that does for the longest time. While another operator or replica works, nothing
// fails here.
func (v *view) ofResources() (all, failing []*row, oldest float64) {
	for _, r := range v.resources {
		waiting, age, _ := r.queue.waiting.look(v.now)
		_, longest, unfinished := r.queue.working.look(v.now)
		oldest = max(oldest, age)
		one := newRow(r.name, "", r.counters[:], stamp(r.quiet()), float64(waiting), unfinished, longest)
		one.histograms = []*histogram{&r.queue.waits, &r.queue.works}
		r.mu.Lock()
		for _, f := range r.failing {
			failing = append(failing, newRow(r.name, f.handler, f.objects[:]))
		}
		r.mu.Unlock()
		if all = append(all, one); v.idle {
			one.numbers[Failed] = 0
		}
	}
	for i := range failing {
		if v.idle {
			failing[i].numbers[0] = 0
		}
	}
	return all, failing, oldest
}

// ofRequests returns what is known of requests, with a code for those without an answer.
func (v *view) ofRequests(list []*requests, unanswered string) (all []*row) {
	for _, r := range list {
		one := newRow(r.verb, strconv.Itoa(r.code), r.n[:])
		if r.code == 0 {
			one.names[1] = unanswered
		}
		one.names[2], one.histograms = v.host, []*histogram{&r.took}
		all = append(all, one)
	}
	return all
}

// ofOperator returns what is known of the operator as a whole.
func (v *view) ofOperator(retries, oldest float64) *row {
	lease, reached, leading := "", none, none
	e := v.Election.Load()
	if e != nil {
		lease, reached, leading = e.Lease, Number(e.Reached()), Number(e.Leading())
	}
	memory, cpu := process()
	known := memory
	if memory == 0 {
		known, cpu = none, none
	}
	one := newRow(lease, v.state.Go, v.counters[:], reached, leading, retries, oldest, Number(v.Paused()), Number(v.StandsBy()), 1, float64(v.state.Goroutines()), memory, seconds(began), known, cpu, v.end(ForClient), v.end(ForWebhooks))
	one.names[2] = v.state.Version
	if one.numbers[Throttled] /= 1e9; e == nil {
		one.numbers[Terms] = none
	}
	return one
}

// end returns when a certificate ends.
func (v *view) end(p Purpose) float64 {
	if c := v.certificates[p]; c != nil {
		if end := c.End(); !end.IsZero() {
			return seconds(end)
		}
	}
	return none
}
