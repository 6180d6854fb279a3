package kopf

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/index"
)

// This file fills the indices. Other handlers wait until all objects are indexed for the first time. The object's worker runs the index functions.

// indexRunner indexes the objects of one resource. It is an interface so that programs without indices are linked without the indexer.
type indexRunner interface {
	index(owner string, handlers []*handler, o *Object, failures *map[HandlerID]*ProgressRecord) time.Duration
	drop(owner string, handlers []*handler)
}

type newIndexRunner func(*observer) indexRunner

type indexer struct{ *environment }

func newIndexer(o *observer) indexRunner { return &indexer{&o.environment} }

func (i *indexer) index(owner string, handlers []*handler, o *Object, failures *map[HandlerID]*ProgressRecord) time.Duration {
	retryIn := time.Duration(-1)
	for _, h := range handlers {
		data := i.indices.data[h.id]
		if !h.matchesObject(o) {
			if !i.elsewhere(handlers, h, o) {
				data.Drop(owner)
			}
			continue
		}
		p := progress{handler: h, record: (*failures)[h.id]}
		if p.record != nil {
			due, wait := p.due(time.Now())
			if !due {
				if !p.record.finished() && (retryIn < 0 || wait < retryIn) {
					retryIn = wait
				}
				continue
			}
		}
		if wait := i.attempt(owner, data, p, o, failures); wait >= 0 && (retryIn < 0 || wait < retryIn) {
			retryIn = wait
		}
	}
	return retryIn
}

// elsewhere reports whether another function of the same index matches the object.
func (i *indexer) elsewhere(handlers []*handler, h *handler, o *Object) bool {
	for _, other := range handlers {
		if other != h && other.id == h.id && other.matchesObject(o) {
			return true
		}
	}
	return false
}

// attempt calls a function once, and returns the delay of the next attempt, negative for none.
func (i *indexer) attempt(owner string, data index.Data, p progress, o *Object, failures *map[HandlerID]*ProgressRecord) time.Duration {
	h, record := p.handler, p.record
	if record == nil {
		record = &ProgressRecord{Started: time.Now()}
	}
	call := call{
		handler: h, noun: "Indexer", log: o.Logger, meter: i.meter.Handler(string(h.id), false), settings: i.settings, replica: i.replica,
		limiter: i.limiter, retries: record.Retries, started: record.Started, object: o,
	}
	out, err := call.invoke(i.handlers, func(ctx context.Context, a Attempt) error {
		ctx, cancel := h.withDeadline(ctx, record.Started)
		defer cancel()
		arg := &Indexing{Object: *o, Attempt: a}
		arg.Patch, arg.Param, arg.Logger = newPatch(nil, &o.Resource, o.Body), h.param, handlerLogger(o.Logger, h.id)
		values, err := h.indexing.call(ctx, arg)
		if err != nil || values == nil {
			return err
		}
		return data.Put(owner, values)
	})
	if err == nil {
		o.Logger.Debug(fmt.Sprintf("Indexer '%s' succeeded.", h.id), handlerAttr(h.id))
		delete(*failures, h.id)
		return -1
	}
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

func (i *indexer) drop(owner string, handlers []*handler) {
	for _, h := range handlers {
		i.indices.data[h.id].Drop(owner)
	}
}

// syncBarrier delays the handlers of objects during the initial indexing. It is closed while a list is incomplete, or a listed object is not indexed.
type syncBarrier struct {
	mu      sync.Mutex // guards following
	missing int
	queues  map[*queue]bool // to release when it opens
}

func (s *syncBarrier) closed() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missing > 0
}

// add closes the barrier until a matching call of done.
func (s *syncBarrier) add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing++
}

// done opens the barrier if nothing is missing any more.
func (s *syncBarrier) done() {
	s.mu.Lock()
	var waiting []*queue
	if s.missing--; s.missing == 0 {
		for q := range s.queues {
			waiting = append(waiting, q)
		}
	}
	s.mu.Unlock()
	for _, q := range waiting {
		q.releaseBlocked()
	}
}

// serve adds or removes a waiting queue.
func (s *syncBarrier) serve(q *queue, waits bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = make(map[*queue]bool)
	}
	if waits {
		s.queues[q] = true
	} else {
		delete(s.queues, q)
	}
}

// maxListings is the number of failed lists of an indexed resource after which handlers no longer wait for it.
const maxListings = 5

// listingSync makes the barrier wait for the first complete list of one stream.
type listingSync struct {
	barrier  *syncBarrier
	log      *slog.Logger
	resource string
	handlers []*handler
	follows  []*follow // that continue to wait

	failures int
	done     bool
}

// synced records that the list is complete.
func (l *listingSync) synced() {
	if !l.done {
		l.done = true
		l.barrier.done()
	}
}

// failed counts failed lists, and finally opens the barrier: an incomplete index is better than an operator that does nothing.
func (l *listingSync) failed(err error) {
	if l.done {
		return
	}
	if l.failures++; l.failures < maxListings {
		return
	}
	var ids []string
	for _, h := range l.handlers {
		ids = append(ids, string(h.id))
	}
	if len(ids) > 0 {
		l.log.Warn("Listing an indexed resource fails repeatedly; calling handlers with incomplete indices",
			"resource", l.resource, "indices", strings.Join(ids, ", "), "error", err, "help", "K117")
	}
	if ids = nil; len(l.follows) > 0 {
		for _, f := range l.follows {
			ids = append(ids, string(f.handler.id))
		}
		l.log.Warn("Listing an owned or watched resource fails repeatedly; its reconcile handlers wait for it",
			"resource", l.resource, "handlers", strings.Join(ids, ", "), "error", err, "hint", "grant the permissions to list and watch "+l.resource, "help", "K702")
	}
	l.synced()
}

// Index is an in-memory index of objects: it maps keys to the values that [OnIndex] handlers return. It has the values of all existing objects before kopf
// calls other handlers, and kopf keeps it up to date. Each operator of the registry has its own content, which the argument of the handler selects.
//
// An Index is safe for concurrent use. Do not change the values that it returns.
type Index[K comparable, V any] struct{ id HandlerID }

// Get returns the values under a key, at most one of each object, in no particular order. It returns nil if there are none.
func (i *Index[K, V]) Get(h HandlerArgument, key K) []V {
	if data := i.of(h); data != nil {
		return data.Get(key)
	}
	return nil
}

// Has reports whether there are values under a key.
func (i *Index[K, V]) Has(h HandlerArgument, key K) bool {
	data := i.of(h)
	return data != nil && data.Has(key)
}

// Len returns the number of keys.
func (i *Index[K, V]) Len(h HandlerArgument) int {
	if data := i.of(h); data != nil {
		return data.Len()
	}
	return 0
}

// All iterates over a snapshot of the keys and their values, in no particular order.
func (i *Index[K, V]) All(h HandlerArgument) iter.Seq2[K, []V] { return maps.All(i.all(h)) }

func (i *Index[K, V]) all(h HandlerArgument) map[K][]V {
	if data := i.of(h); data != nil {
		return data.All()
	}
	return nil
}

func (i *Index[K, V]) of(h HandlerArgument) *index.Values[K, V] {
	data, _ := h.indexes().data[i.id].(*index.Values[K, V])
	return data
}

// Indices are the indices of an operator by their IDs, without their types. Prefer [Index].
type Indices struct{ data map[HandlerID]index.Data }

// newIndices makes empty indices for all registered index handlers.
func newIndices(r *Registry) Indices { return Indices{}.extended(r) }

// extended returns the indices, with empty ones for the index handlers that were registered since.
func (i Indices) extended(r *Registry) Indices {
	all := Indices{make(map[HandlerID]index.Data)}
	maps.Copy(all.data, i.data)
	for _, h := range r.activities(kindIndex) {
		if all.data[h.id] == nil {
			all.data[h.id] = h.indexing.fill()
		}
	}
	return all
}

// IDs returns the sorted IDs of the indices.
func (i Indices) IDs() []HandlerID { return slices.Sorted(maps.Keys(i.data)) }

// Get returns the values under a key of an index. It returns nil if there are none, or no index of that ID.
func (i Indices) Get(id HandlerID, key any) []any {
	if data := i.data[id]; data != nil {
		return data.Lookup(key)
	}
	return nil
}

// All iterates over a snapshot of the keys and values of an index. It yields nothing if there is no index of that ID.
func (i Indices) All(id HandlerID) iter.Seq2[any, []any] {
	if data := i.data[id]; data != nil {
		return data.Each
	}
	return func(func(any, []any) bool) {}
}
