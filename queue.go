package kopf

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file has the work queue of one resource. An object has one worker at most: a goroutine that runs while there is work. An idle object is an entry
// without a worker, and without its body.

// queueHandler handles the objects of a queue, on the goroutines of their workers.
type queueHandler interface {
	// index updates the indices with the events. All objects of the first lists are indexed before any is reconciled.
	index(e *entry, events []RawEvent, at epoch) result
	// reconcile handles the events of an object, the oldest first.
	reconcile(e *entry, events []RawEvent, at epoch) result
	// forget is called when an object is not served any more.
	forget(e *entry)
}

// queue passes the events of each object to its worker, one after another.
type queue struct {
	handler      queueHandler
	pauser       *pauser.Pauser
	leader       *leadership       // whose term is required to reconcile
	barrier      *syncBarrier      // that delays the objects; nil for none
	joinsBarrier bool              // whether the barrier waits for the listed objects
	exempt       bool              // whether the barrier does not delay these objects
	routine      bool              // whether listed objects can wait for changed ones
	limit        *workpool.Slots   // of active workers; nil for no limit
	limiter      *workpool.Limiter // shared by all queues
	log          *slog.Logger
	meter        *metrics.Metrics
	known        *metrics.Resource
	calls        *livepage.Calls // of the live page, nil without it

	workers sync.WaitGroup // workers, and timers that will start one

	mu         sync.Mutex // guards following, and the fields of all entries that belong to the queue
	entries    map[string]*entry
	typeMeta   *typeMeta             // of the newest object
	namespaces map[string]*namespace // of all objects
	listings   uint64                // that have begun
	listed     bool                  // whether one of them was complete
	closed     bool
	delayed    int // objects that are due later
}

// epoch is a period of the work on one object, in which the operator does not pause, the object is served, and this replica leads. Events, decisions and new
// calls of an earlier epoch are dropped. The end of a term drops no events: they wait for the next term.
type epoch struct {
	pause  uint32 // the pauser's
	served uint32 // number of times that the object was forgotten before
	term   uint32 // the leadership's, during the work
}

// current reports whether an epoch of an object is the current one.
func (q *queue) current(e *entry, at epoch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return at == epoch{q.pauser.Epoch(), e.served, q.leader.term()}
}

// serves reports whether the object was served without interruption since the epoch.
func (q *queue) serves(e *entry, at epoch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return at.served == e.served
}

// result is the result of a worker: the time when the object is due again, and the body for that.
type result struct {
	requeue        bool
	requeueAfter   time.Duration
	body           *Body
	gone           bool // whether the object does not exist any more
	forgetConflict bool // whether only to forget the write conflict then
	routine        bool // whether the object is not urgent then
	unreported     bool // whether the epoch has ended before the work: a deletion must still be reported
}

// requeueWithin makes the object due within the given time, unless that is negative.
func (r result) requeueWithin(wait time.Duration, body *Body) result {
	if wait < 0 {
		return r
	}
	r.forgetConflict = false
	if !r.requeue || wait < r.requeueAfter {
		r.requeue, r.requeueAfter = true, wait
	}
	if r.body == nil {
		r.body = body
	}
	return r
}

// namespace is a namespace with objects, which share its name.
type namespace struct {
	name    string
	objects int
	from    *source // the source of the newest event
}

// entry is one object. It has its state while it is active, and a few marks while it is idle. There is one entry per UID, as long as there is anything to
// keep.
type entry struct {
	// These are set once, except for the type and listed; the other fields are the queue's, under its lock.
	key, name string
	namespace *namespace
	typeMeta  atomic.Pointer[typeMeta] // workers of other objects read it
	hasUID    bool                     // whether the key is the UID
	listed    bool                     // whether it existed before the operator started

	presence       presence
	reportDeletion bool   // whether to report its deletion, perhaps while it is not served; false again afterwards
	served         uint32 // number of times it was forgotten: an epoch with another number is over

	state      *objectState // nil while it is idle
	version    string       // the newest one seen
	listing    uint64       // the last list that contained it
	epoch      epoch        // of the newest event
	memorySeen bool         // whether it was first seen when the operator's memo was empty

	last  handlingMark // the worker's, while there is one, and the queue's otherwise
	child *child       // the state for reconcile handlers of other kinds, under the lock of their reconciler; nil if it is no child
}

// presence is the serving state of an object.
type presence uint8

const (
	present           presence = iota
	unserved                   // forgotten, without new work: its next event makes it present again; kept while it has state
	deletionPending            // forgotten and deleted since: its worker only reports that
	deletionReporting          // the same while the worker reports it
	gone                       // removed as soon as its worker and its tasks have ended
)

func (e *entry) ref() ObjectReference {
	meta := e.typeMeta.Load()
	ref := ObjectReference{APIVersion: meta.apiVersion, Kind: meta.kind, Namespace: e.namespace.name, Name: e.name}
	if e.hasUID {
		ref.UID = e.key
	}
	return ref
}

// releaseIdleLocked drops the state of an idle object.
func (e *entry) releaseIdleLocked() {
	if e.state != nil && e.presence == present && e.state.idle() {
		e.memorySeen, e.state = e.state.memory.seen, nil
	}
}

// activateLocked ensures that the object has a state.
func (e *entry) activateLocked() {
	if e.state == nil {
		e.state = &objectState{memory: memory{seen: e.memorySeen}}
	}
}

// pendingPatches returns the handler patches to send.
func (e *entry) pendingPatches() []*handlerPatch {
	if e.state.handling.pendingFlush == nil {
		return nil
	}
	return slices.Clone(e.state.handling.pendingFlush.patches)
}

func newQueue(limit int, log *slog.Logger, handler queueHandler) *queue {
	q := &queue{handler: handler, log: log, entries: make(map[string]*entry), namespaces: make(map[string]*namespace)}
	if limit > 0 {
		q.limit = workpool.NewSlots(limit)
	}
	return q
}

// add adds an event of a source. It drops events that are older than the known version, and repetitions in the same epoch. Unless all is set, it keeps only
// the newest event.
func (q *queue) add(ev RawEvent, from *source, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.staleLocked(from) {
		return
	}
	number, _ := strconv.ParseUint(ev.Body.version, 10, 64)
	q.receivedLocked(from, ev.Type, number)
	key := ev.Body.key()
	e := q.entries[key]
	if ev.Type == Deleted && from.deleted != nil {
		from.deleted[strings.Clone(key)] = struct{}{}
	}
	switch _, deleted := from.deleted[key]; {
	case deleted && ev.Type == Listed:
		return
	case e == nil && ev.Type == Deleted:
		return // unknown, or the list has already reported its deletion
	case e == nil:
		e = q.addEntryLocked(key, ev.Body.Reference(), from.lists(ev.Type))
		q.joinBarrierLocked(e)
	case from.overtook(e, ev.Type):
		return
	case e.presence != present:
		q.serveAgainLocked(e, from.lists(ev.Type))
	case ev.Type != Deleted && apirequest.NewerVersion(e.version, ev.Body.version) && (e.epoch.pause == from.pause || e.version != ev.Body.version):
		e.listing = max(e.listing, from.listing)
		return
	}
	e.version, e.listing, e.namespace.from = ev.Body.version, max(e.listing, from.listing), from
	e.activateLocked()
	if e.state.live != nil {
		e.state.live.Store(ev.Body)
	}
	if !all {
		e.state.work.events = e.state.work.events[:0]
	}
	ev.initial = ev.Type == Listed && !q.listed || !q.leader.leads()
	q.addEventLocked(e, ev, from.pause)
}

// setServed sets whether the barrier waits for the listed objects, whether it does not delay them, and whether listed objects can wait for changed ones.
func (q *queue) setServed(joinsBarrier, exempt, routine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.joinsBarrier, q.exempt, q.routine = joinsBarrier, exempt, routine
}

// joinBarrierLocked makes the barrier wait for a listed object.
func (q *queue) joinBarrierLocked(e *entry) {
	e.activateLocked()
	if e.state.work.inBarrier = q.joinsBarrier && e.listed; e.state.work.inBarrier {
		q.barrier.add()
	}
}

func (q *queue) addEntryLocked(key string, ref ObjectReference, listed bool) *entry {
	if q.typeMeta == nil || q.typeMeta.apiVersion != ref.APIVersion || q.typeMeta.kind != ref.Kind {
		q.typeMeta = &typeMeta{ref.APIVersion, ref.Kind}
	}
	in := q.namespaces[ref.Namespace]
	if in == nil {
		in = &namespace{name: ref.Namespace}
		q.namespaces[ref.Namespace] = in
	}
	in.objects++
	e := &entry{key: key, namespace: in, name: ref.Name, hasUID: ref.UID != "", listed: listed}
	e.typeMeta.Store(q.typeMeta)
	q.entries[key] = e
	q.known.Add(metrics.Objects, 1)
	return e
}

// removeLocked removes an object without a worker, as soon as it has no tasks either.
func (q *queue) removeLocked(e *entry) {
	e.presence, e.last = gone, handlingMark{}
	if e.state != nil {
		e.state = e.state.remember(false)
	}
	if e.state != nil || q.entries[e.key] != e {
		return
	}
	delete(q.entries, e.key)
	if e.namespace.objects--; e.namespace.objects == 0 {
		delete(q.namespaces, e.namespace.name)
	}
}

// releaseLocked reduces an object without a worker to the state to keep.
func (q *queue) releaseLocked(e *entry) {
	switch e.presence {
	case present:
		e.releaseIdleLocked()
	case unserved:
		q.releaseUnservedLocked(e)
	case gone, deletionReporting:
		q.removeLocked(e)
	}
}

// setVersion sets the version of the resource in which the objects are seen from now on.
func (q *queue) setVersion(apiVersion, kind string, known *metrics.Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.typeMeta = &typeMeta{apiVersion, kind}
	var n, failed int64
	for _, e := range q.entries {
		if e.typeMeta.Store(q.typeMeta); e.presence == present {
			n++
		}
		if e.last.counted {
			failed++
		}
	}
	q.known.Add(metrics.Objects, -n)
	q.known.Add(metrics.Failed, -failed)
	q.known = known
	q.known.Add(metrics.Objects, n)
	q.known.Add(metrics.Failed, failed)
}

// uncountLocked removes an object from the counts, because it is gone or not served any more.
func (q *queue) uncountLocked(e *entry) {
	q.known.Add(metrics.Objects, -1)
	q.setFailedLocked(e, false)
	if livepage.Included {
		q.calls.Forget(e.key)
	}
}

// setFailed counts a served object after a permanent failure of a handler, or stops counting it.
func (q *queue) setFailed(e *entry, failed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setFailedLocked(e, failed && e.presence == present)
}

func (q *queue) setFailedLocked(e *entry, failed bool) {
	if e.last.counted != failed {
		e.last.counted = failed
		q.known.Add(metrics.Failed, 2*int64(metrics.Number(failed))-1)
	}
}

// empty reports whether there are no objects, not even forgotten ones with state.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries) == 0
}

// addEventLocked passes an event to the object's worker, with the pauser's epoch.
func (q *queue) addEventLocked(e *entry, ev RawEvent, pause uint32) {
	e.activateLocked()
	e.last.unmatched, e.state.work.deleted = false, ev.Type == Deleted
	q.classLocked(e, q.routine && ev.Type == Listed)
	e.epoch, e.state.work.events = epoch{pause: pause, served: e.served}, append(e.state.work.events, ev)
	if e.state.work.arrived != nil {
		close(e.state.work.arrived)
		e.state.work.arrived = nil
	}
	e.state.work.endReconcilingLocked(ev)
	q.wakeLocked(e)
}

// pendingEvents returns the events that the worker has not taken, and a channel that is closed at the next one. Only the worker may call it, or goroutines
// that it waits for.
func (q *queue) pendingEvents(e *entry) (events []RawEvent, arrived <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state.work.arrived == nil {
		e.state.work.arrived = make(chan struct{})
	}
	return slices.Clone(e.state.work.events), e.state.work.arrived
}

// unsetLive undoes setLive, unless setLive was called again.
func (q *queue) unsetLive(e *entry, live *atomic.Pointer[Body]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state == nil || e.state.live != live {
		return
	}
	if e.state.live = nil; !e.state.work.working {
		q.releaseLocked(e)
	}
}

// setLive stores the newest states of an object for its daemons and timers until unsetLive. It reports whether the object is still served.
func (q *queue) setLive(e *entry, live *atomic.Pointer[Body]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.presence != present {
		return false
	}
	e.state.live = live
	return true
}

// entryOf returns the entry of an object, nil if there is none.
func (q *queue) entryOf(key string) *entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.entries[key]
}

// memoryOf returns the memory of an object, nil if the object is unknown.
func (q *queue) memoryOf(key string) *memory {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil && e.presence == present {
		e.activateLocked()
		e.state.work.memoShared = true
		return &e.state.memory
	}
	return nil
}

// synced removes an object from the initial-sync barrier.
func (q *queue) synced(e *entry) {
	q.mu.Lock()
	inBarrier := e.state != nil && e.state.work.inBarrier
	if inBarrier {
		e.state.work.inBarrier = false
	}
	q.mu.Unlock()
	if inBarrier {
		q.barrier.done()
	}
}

// releaseBlocked wakes the objects that wait for the barrier or the term.
func (q *queue) releaseBlocked() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if e.state != nil && e.state.work.blocked && !e.state.work.working && !q.closed {
			e.state.work.woken = true
			q.wakeLocked(e)
		}
	}
}

// wake makes an object due.
func (q *queue) wake(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || e.presence != present || q.entries[e.key] != e {
		return
	}
	e.activateLocked()
	e.state.work.woken = true
	q.classLocked(e, false)
	q.wakeLocked(e)
}

// wakeLocked ensures that the object has a worker.
func (q *queue) wakeLocked(e *entry) {
	q.stopTimerLocked(e)
	if !e.state.work.working {
		e.state.work.working = true
		q.meter.Add(metrics.Queued, 1)
		q.workers.Add(1)
		waiting := q.known.Queue()
		e.state.work.turn = q.limiter.Start(!e.state.work.routine, func() { q.worker(e, waiting) })
	}
}

func (q *queue) stopTimerLocked(e *entry) {
	if e.state.work.timer == nil {
		return
	}
	if e.state.work.timer.Stop() {
		q.workers.Done()
	}
	q.dropTimerLocked(e)
}

// dropTimerLocked removes a timer that has fired or was stopped.
func (q *queue) dropTimerLocked(e *entry) {
	if !e.state.work.forgetting {
		q.delayed--
	}
	e.state.work.timer, e.state.work.forgetting = nil, false
}

// worker handles one object until there is no more work.
func (q *queue) worker(e *entry, waiting metrics.Pass) {
	defer q.workers.Done()
	defer q.meter.Add(metrics.Queued, -1)
	for more := true; more; {
		if q.limit != nil {
			q.limiter.Release()
			<-q.enter(e).Ready()
			q.limiter.Acquire()
		}
		working := waiting.Begin()
		more = q.processNext(e)
		waiting = working.End(more)
		if q.limit != nil {
			q.limit.Release()
		}
	}
}

// enter waits for a place among the active workers.
func (q *queue) enter(e *entry) *workpool.Turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.turn = q.limit.Enter(!e.state.work.routine)
	e.state.work.entered = true
	return e.state.work.turn
}

// processNext handles the pending events, and reports whether there may be more work.
func (q *queue) processNext(e *entry) bool {
	events, at, ok := q.get(e)
	if !ok {
		return false
	}
	if !q.counts(e, at) { // the list after the pause will show the object's state
		return q.done(e, result{unreported: true})
	}
	var r result
	blocked := false
	err := safecall.Do(func() error {
		indexed := q.handler.index(e, events, at)
		switch {
		case q.barrier != nil && !q.counts(e, at): // the epoch has ended during the indexing
			r = result{unreported: true}
		case q.endsStandingBy(e, events):
			q.handler.forget(e)
			r = result{gone: true}
		case q.blocks(e):
			r, blocked = indexed, true
		default:
			if r = q.handler.reconcile(e, events, at); indexed.requeue {
				r = r.requeueWithin(indexed.requeueAfter, indexed.body)
			}
			switch {
			case at.term == q.leader.term() || r.gone:
			case q.endsStandingBy(e, events): // another replica leads since the call
				q.handler.forget(e)
				r = result{gone: true}
			default:
				r, blocked = indexed, true
			}
		}
		return nil
	})
	if err != nil { // a bug in kopf must neither end the operator nor lose the object
		q.setRunning(e, "")
		q.log.Error("Processing of the object panicked; repeating it", "object", e.ref(), "error", err, "stack", string(safecall.StackOf(err)), "help", "K310")
		if len(events) > 0 {
			e.state.body = events[len(events)-1].Body
		}
		r = result{requeue: true, requeueAfter: time.Minute, body: e.state.body}
	}
	if blocked {
		return q.block(e, events, at, r)
	}
	return q.done(e, r)
}

// get takes the events of an object for its worker, with their epoch. If there is no work, it ends the worker.
func (q *queue) get(e *entry) (events []RawEvent, at epoch, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(e.state.work.events) == 0 && !e.state.work.woken {
		q.endWorkerLocked(e)
		return nil, epoch{}, false
	}
	if e.presence == deletionPending {
		e.presence = deletionReporting
	}
	if at = e.epoch; e.presence == deletionReporting && !q.pauser.Paused() {
		at.pause = q.pauser.Epoch() // a later pause does not matter, because no list will show the object
	}
	at.term, events = q.leader.term(), e.state.work.events
	e.state.work.events, e.state.work.woken, e.state.work.blocked = nil, false, false
	e.state.work.turn, e.state.work.entered = nil, false
	return events, at, true
}

// blocks reports whether an object must wait for the barrier or for the leadership. Unserved objects never do.
func (q *queue) blocks(e *entry) bool {
	leads := q.leader.leads()
	if leads && !q.barrier.closed() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.presence == present && !(q.exempt && leads)
}

// block returns events that must wait for the barrier or the next term, and reports whether there is more work now.
func (q *queue) block(e *entry, events []RawEvent, at epoch, r result) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at.served != e.served {
		return true // the object was forgotten meanwhile
	}
	if e.presence != present { // only its deletion remains to be reported
		return q.doneLocked(e, result{unreported: true})
	}
	newer := len(e.state.work.events) > 0
	if !q.leader.leads() || at.term != q.leader.term() {
		return q.blockForTermLocked(e, events, r)
	}
	if r.body != nil || len(events) > 0 { // otherwise, the known body is due again
		e.state.body = r.body
	}
	e.state.work.events, e.state.work.blocked = append(events, e.state.work.events...), true
	if newer || !q.barrier.closed() {
		e.state.work.woken = true
		return true
	}
	q.addAfterLocked(e, r)
	return false
}

// done makes the object idle, or reports that the worker has more work.
func (q *queue) done(e *entry, r result) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.doneLocked(e, r)
}

func (q *queue) doneLocked(e *entry, r result) bool {
	e.state.body, e.state.work.arrived = r.body, nil
	if r.unreported && len(e.state.work.events) == 0 {
		e.state.work.deleted = false
	}
	if e.presence == deletionReporting {
		if r.gone = true; r.unreported { // until the pause ends
			e.presence, e.reportDeletion, r.gone = unserved, true, false
		}
	}
	if len(e.state.work.events) > 0 {
		return true
	}
	if r.gone {
		if e.presence == present {
			q.uncountLocked(e)
		}
		e.presence = gone
	} else if e.presence == present && (e.state.work.woken || r.requeue && r.requeueAfter <= 0 && !q.closed) {
		e.state.work.woken = true
		return true
	}
	if !q.leader.leads() && !e.state.work.blocked { // the term has just ended
		r = result{}
	}
	q.addAfterLocked(e, r)
	return false
}

func (q *queue) endWorkerLocked(e *entry) {
	e.state.work.working, e.state.work.turn, e.state.work.entered, e.state.work.routine = false, nil, false, e.state.work.routine && e.state.work.blocked
	if !q.leader.leads() && e.presence == present && !e.state.work.blocked { // the term has just ended
		q.standByLocked(e, nil)
		return
	}
	q.releaseLocked(e)
}

// addAfterLocked ends the worker until the next event or the due time.
func (q *queue) addAfterLocked(e *entry, r result) {
	if !r.requeue || q.closed || e.presence != present {
		q.endWorkerLocked(e)
		return
	}
	e.state.work.working, e.state.work.turn, e.state.work.entered, e.state.work.routine = false, nil, false, r.routine
	q.workers.Add(1)
	if !r.forgetConflict {
		q.delayed++
		q.known.Add(metrics.Delays, 1)
	}
	var t *time.Timer
	t = time.AfterFunc(max(r.requeueAfter, 0), func() { q.fire(e, &t) })
	e.state.work.timer, e.state.work.forgetting = t, r.forgetConflict
}

// fire wakes an object at its due time.
func (q *queue) fire(e *entry, t **time.Timer) {
	defer q.workers.Done()
	q.mu.Lock() // also orders the timer's assignment before its use
	defer q.mu.Unlock()
	if e.state == nil || e.state.work.timer != *t || q.closed || e.presence != present {
		return // an event was faster
	}
	forgetting := e.state.work.forgetting
	if q.dropTimerLocked(e); forgetting {
		e.state.conflict = nil
		e.releaseIdleLocked()
		return
	}
	e.state.work.woken = true
	q.wakeLocked(e)
}

// hasNewer reports whether an event newer than a version waits for the worker.
func (q *queue) hasNewer(e *entry, version string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, ev := range e.state.work.events {
		if ev.Type == Deleted || ev.Body.version != version && apirequest.NewerVersion(ev.Body.version, version) {
			return true
		}
	}
	return false
}

// newest returns the newest state among the pending events of an object, nil if there is none.
func (q *queue) newest(e *entry) *Body {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(e.state.work.events); n > 0 && e.state.work.events[n-1].Type != Deleted {
		return e.state.work.events[n-1].Body
	}
	return nil
}

// setRunning sets the running handler of an object, "" for none.
func (q *queue) setRunning(e *entry, id HandlerID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.running = id
}

// close stops adding events, and cancels all delays. Workers finish their events.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, e := range q.entries {
		if e.state != nil {
			q.stopTimerLocked(e)
		}
	}
}

// hasEnded reports whether it adds no more events.
func (q *queue) hasEnded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// wait waits for the workers, until the context ends. It returns the objects of the remaining workers, with their running handlers.
func (q *queue) wait(ctx context.Context) []string {
	if await.For(ctx, &q.workers, 0) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []string
	for _, e := range q.entries {
		if e.state != nil && e.state.work.working {
			left = append(left, strings.TrimSuffix(e.ref().String()+" in handler "+string(e.state.work.running), " in handler "))
		}
	}
	return left
}

// typeMeta is shared by the objects of a resource.
type typeMeta struct{ apiVersion, kind string }
