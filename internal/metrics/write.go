package metrics

import (
	"io"
	"strconv"
	"time"
)

// TextOnly reports whether only the text format is possible, because functions of users write in it.
func TextOnly() bool {
	u := users.Load()
	return u != nil && (*u).textOnly()
}

// Write writes all metrics as a page, in OpenMetrics or in the text format.
func (m *Metrics) Write(w io.Writer, open bool) error {
	m.mu.Lock() // only briefly, not while the page is written
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

// view is the input of a page.
type view struct {
	*Metrics
	now          time.Time
	idle         bool // whether another operator or replica is active, so that waiting objects are normal
	resources    []*Resource
	lists        [3][]*requests
	reconciling  section
	certificates [purposes]Certificate
	limit        int
	host         string
}

// section is an optional part of the page.
type section interface {
	write(v *view, p *page)
	live() []LiveChildren
}

// stamp converts nanoseconds since 1970 to whole seconds, and 0 to none.
func stamp(nanos int64) float64 {
	if nanos == 0 {
		return none
	}
	return float64(nanos / 1e9)
}

// ofHandlers returns the rows of the handlers, and the number of attempts that will be retried.
func (v *view) ofHandlers() (all []*row, retries float64) {
	handlers := v.handlers.Load()
	for _, id := range handlers.ids {
		h := handlers.byID[id]
		all = append(all, h.row(id, v.now))
		if retries += load(&h.results[Retry]); h.subs.durations.nanos.Load() > 0 {
			all = append(all, h.subs.row(id+"/*", v.now))
		}
	}
	return all, retries
}

// row returns the row of one handler.
func (h *Handler) row(id string, now time.Time) *row {
	_, oldest, _ := h.running.look(now)
	if Kind(h.kind.Load()) == Endless {
		oldest = none
	}
	r := newRow(id, "", h.results[:], stamp(h.succeeded.Load()), oldest)
	for i := Ignored; i < results; i++ { // few handlers have these results
		if r.numbers[i] == 0 {
			r.numbers[i] = none
		}
	}
	r.histograms = []*histogram{&h.durations}
	return r
}

// ofResources returns the rows of the resources and of their failing handlers, and the longest wait of an object. On standby, all counts of failures are 0.
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

// ofRequests returns the rows of the requests. The second argument replaces the code of requests without a response.
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

// ofOperator returns the row of the operator.
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

// end returns the expiration time of a certificate.
func (v *view) end(p Purpose) float64 {
	if c := v.certificates[p]; c != nil {
		if end := c.End(); !end.IsZero() {
			return seconds(end)
		}
	}
	return none
}
