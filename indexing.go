package kopf

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/index"
	"github.com/kopf-go/kopf/internal/metrics"
)

// This file fills the indices, and keeps all other handlers waiting until they are full for the first time. An object is
// indexed on the goroutine of its worker; the gate is opened by whoever brings the last missing piece.

// indexEngine is what the reactor wants of indices.
type indexEngine interface {
	// index takes the newest state of an object over into the indices, and tells how long to wait for another attempt after an
	// error; negative if there is none to wait for.
	index(owner string, handlers []*handler, o *Object, failures *map[HandlerID]*ProgressRecord) time.Duration
	// drop takes an object out of the indices.
	drop(owner string, handlers []*handler)
}

// startIndexing gives the reactor the engine. Only registries with indices know of it, so that the binaries of all other operators are
// without it.
func (indexStarter) startIndexing(x *indexer) indexEngine { return x }

// indexer fills the indices from the objects of one resource.
type indexer struct {
	settings *Settings
	indices  Indices
	meter    *metrics.Metrics
	handlers context.Context // of the functions
}

func (x *indexer) index(owner string, handlers []*handler, o *Object, failures *map[HandlerID]*ProgressRecord) time.Duration {
	again := time.Duration(-1)
	for _, h := range handlers {
		data := x.indices.data[h.id]
		if !h.matchesObject(o) {
			if !x.elsewhere(handlers, h, o) {
				data.Drop(owner)
			}
			continue
		}
		p := progress{handler: h, record: (*failures)[h.id]}
		if p.record != nil {
			due, wait := p.due(time.Now())
			if !due {
				if !p.record.finished() && (again < 0 || wait < again) {
					again = wait
				}
				continue
			}
		}
		if wait := x.attempt(owner, data, p, o, failures); wait >= 0 && (again < 0 || wait < again) {
			again = wait
		}
	}
	return again
}

// elsewhere tells whether another function of the same index is for the object.
func (x *indexer) elsewhere(handlers []*handler, h *handler, o *Object) bool {
	for _, other := range handlers {
		if other != h && other.id == h.id && other.matchesObject(o) {
			return true
		}
	}
	return false
}

// attempt calls a function once.
func (x *indexer) attempt(owner string, data index.Data, p progress, o *Object, failures *map[HandlerID]*ProgressRecord) time.Duration {
	h, now := p.handler, time.Now()
	record := p.record
	if record == nil {
		record = &ProgressRecord{Started: now}
	}
	runtime := now.Sub(record.Started)
	var values any
	err := h.exhausted(record.Retries, runtime, nil)
	out := outcome{final: true, err: err}
	if err == nil {
		o.Logger.Debug(fmt.Sprintf("Indexer '%s' is invoked.", h.id))
		values, err = x.call(o, h, record, runtime)
		out = h.decide(err, record.Retries, time.Since(record.Started), &x.settings.Execution)
	}
	x.meter.Handler(string(h.id), false).Ended(out.result(err), int64(time.Since(now)))
	if err == nil {
		o.Logger.Debug(fmt.Sprintf("Indexer '%s' succeeded.", h.id))
		delete(*failures, h.id)
		if values != nil {
			data.Put(owner, values)
		}
		return -1
	}
	logOutcome(x.handlers, o.Logger, "Indexer", h.id, out, err)
	if out.err == nil { // ignored
		return -1
	}
	data.Drop(owner)
	record.apply(out, time.Now())
	if *failures == nil {
		*failures = make(map[HandlerID]*ProgressRecord)
	}
	(*failures)[h.id] = record
	if out.final {
		return -1
	}
	return max(out.delay, 0)
}

func (x *indexer) call(o *Object, h *handler, record *ProgressRecord, runtime time.Duration) (values any, err error) {
	ctx := x.handlers
	if h.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, record.Started.Add(h.timeout))
		defer cancel()
	}
	i := &Indexing{Object: *o, Attempt: Attempt{Retry: record.Retries, Started: record.Started, Runtime: runtime}}
	i.Patch, i.Param = &Patch{}, h.param
	err = call(func() error {
		values, err = h.indexing.call(ctx, i)
		return err
	})
	return values, err
}

func (x *indexer) drop(owner string, handlers []*handler) {
	for _, h := range handlers {
		x.indices.data[h.id].Drop(owner)
	}
}

// gate keeps the handlers of objects waiting while indices are being filled. It is closed as long as anything is
// missing: a listing that is not complete, or a listed object that is not indexed.
type gate struct {
	mu      sync.Mutex // guards following
	missing int
	queues  map[*queue]bool // to be released when it opens
}

func (g *gate) closed() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.missing > 0
}

// add closes the gate until as many calls of done.
func (g *gate) add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing++
}

// done opens the gate when nothing is missing any more.
func (g *gate) done() {
	g.mu.Lock()
	var waiting []*queue
	if g.missing--; g.missing == 0 {
		for q := range g.queues {
			waiting = append(waiting, q)
		}
	}
	g.mu.Unlock()
	for _, q := range waiting {
		q.release()
	}
}

// serve adds a queue to those that wait, or takes it away.
func (g *gate) serve(q *queue, waits bool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queues == nil {
		g.queues = make(map[*queue]bool)
	}
	if waits {
		g.queues[q] = true
	} else {
		delete(g.queues, q)
	}
}

// maxListings is how often the listing of an indexed resource may fail until the handlers go on without it.
const maxListings = 5

// listingPass is what one stream owes to the gate: its first complete listing.
type listingPass struct {
	gate     *gate
	log      *slog.Logger
	what     string
	handlers []*handler

	failures int
	done     bool
}

// listed tells the gate that the listing is complete.
func (p *listingPass) listed() {
	if !p.done {
		p.done = true
		p.gate.done()
	}
}

// refused counts the refusals of the listing, and gives up at last: an operator that does nothing at all is worse than an index with a
// gap.
func (p *listingPass) refused(err error) {
	if p.done {
		return
	}
	if p.failures++; p.failures < maxListings {
		return
	}
	var ids []string
	for _, h := range p.handlers {
		ids = append(ids, string(h.id))
	}
	p.log.Warn("The listing of an indexed resource fails again and again: handlers are called now, although indices are incomplete.",
		"resource", p.what, "indices", strings.Join(ids, ", "), "error", err)
	p.listed()
}
