package kopf

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// termHandler counts the reconciliations of each object, by term.
type termHandler struct {
	q    *queue
	mu   sync.Mutex
	seen map[string]uint32
}

func (h *termHandler) index(*entry, []RawEvent, epoch) result { return result{} }
func (h *termHandler) reconcile(e *entry, events []RawEvent, at epoch) result {
	if !h.q.current(e, at) {
		return result{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[e.key] = at.term
	return result{}
}
func (h *termHandler) forget(*entry) {}

// A new term handles an event that the worker has taken when the term begins.
func TestEventsAtTheBeginningOfATerm(t *testing.T) {
	lost := 0
	const rounds, objects = 100, 200
	for round := range rounds {
		l := &leadership{}
		l.standby.Block("standby", true)
		h := &termHandler{seen: make(map[string]uint32)}
		q := newQueue(0, slog.New(slog.DiscardHandler), h)
		h.q, q.leader = q, l
		from := &source{}
		var events []RawEvent
		for i := range objects {
			events = append(events, versionedPod(t, Added, "ns", fmt.Sprint("u", i), fmt.Sprint(round+1)))
		}
		var began atomic.Bool
		var tasks sync.WaitGroup
		tasks.Go(func() {
			for i, ev := range events {
				if i == objects/2 {
					began.Store(true)
				}
				q.add(ev, from, false)
			}
		})
		tasks.Go(func() {
			for !began.Load() {
				runtime.Gosched()
			}
			l.standby.Block("standby", false)
			q.releaseBlocked()
		})
		tasks.Wait()
		q.workers.Wait()
		h.mu.Lock()
		lost += objects - len(h.seen)
		h.mu.Unlock()
	}
	if lost > 0 {
		t.Errorf("%d of %d objects are never handled", lost, rounds*objects)
	}
}

// liveHandler handles objects with waiting timers. They have a live state, and must be reconciled once in each term.
type liveHandler struct {
	q    *queue
	mu   sync.Mutex
	seen map[string]int
}

func (h *liveHandler) index(*entry, []RawEvent, epoch) result { return result{} }
func (h *liveHandler) reconcile(e *entry, events []RawEvent, at epoch) result {
	body := new(atomic.Pointer[Body])
	if len(events) > 0 {
		body.Store(events[len(events)-1].Body)
		h.q.setLive(e, body)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.q.current(e, at) {
		h.seen[e.key]++
	}
	return result{}
}
func (h *liveHandler) forget(*entry) {}

// An object whose worker ends together with the term is woken in the next one, so that its timers start again.
func TestWorkersAtTheEndOfATerm(t *testing.T) {
	missed := 0
	const rounds, objects = 100, 200
	for round := range rounds {
		l := &leadership{}
		h := &liveHandler{seen: make(map[string]int)}
		q := newQueue(0, slog.New(slog.DiscardHandler), h)
		h.q, q.leader = q, l
		from := &source{}
		var events []RawEvent
		for i := range objects {
			events = append(events, versionedPod(t, Added, "ns", fmt.Sprint("u", i), fmt.Sprint(round+1)))
		}
		var began atomic.Bool
		var tasks sync.WaitGroup
		tasks.Go(func() {
			for i, ev := range events {
				if i == objects/2 {
					began.Store(true)
				}
				q.add(ev, from, false)
			}
		})
		tasks.Go(func() {
			for !began.Load() {
				runtime.Gosched()
			}
			l.standby.Block("standby", true)
			q.standBy()
		})
		tasks.Wait()
		q.workers.Wait()
		h.mu.Lock()
		clear(h.seen)
		h.mu.Unlock()
		l.standby.Block("standby", false)
		q.releaseBlocked()
		q.workers.Wait()
		missed += objects - len(h.seen)
	}
	if missed > 0 {
		t.Errorf("%d of %d objects were not looked at in the next term", missed, rounds*objects)
	}
}
