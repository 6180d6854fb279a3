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

// This file knows which objects of one resource are there, who works on them, and when
// they are due again. An object has one worker at most: a goroutine that lives while there is something
// to do. An idle object is an entry without a worker, and without its body.

// queueHandler works on the objects of a queue, on the goroutines of their workers.
type queueHandler interface {
	// index takes over what has come of an object into what others look at. All that is listed at first is indexed before any object is reconciled.
	index(e *entry, events []RawEvent, at epoch) result
	// reconcile takes the events of an object, the oldest first.
	reconcile(e *entry, events []RawEvent, at epoch) result
	// forget notes that an object is not served any more.
	forget(e *entry)
}

// queue hands the events of each object to its worker, one after another.
type queue struct {
	handler      queueHandler
	pauser       *pauser.Pauser
	leader       *leadership       // without whose term nothing is reconciled
	barrier      *syncBarrier      // that the objects have to wait for; nil for none
	joinsBarrier bool              // whether others wait for the objects that are listed
	exempt       bool              // whether the objects do not wait for the barrier themselves
	routine      bool              // whether what is listed can wait for what has changed
	limit        *workpool.Slots   // of active workers; nil for no limit
	limiter      *workpool.Limiter // which all queues share
	log          *slog.Logger
	meter        *metrics.Metrics
	known        *metrics.Resource
	calls        *livepage.Calls // of the live page, nil without it

	workers sync.WaitGroup // workers, and timers that are going to start one

	mu         sync.Mutex // guards following, and the fields of all entries that belong to the queue
	entries    map[string]*entry
	typeMeta   *typeMeta             // of the newest object
	namespaces map[string]*namespace // of all objects
	listings   uint64                // that were begun
	listed     bool                  // whether one of them was complete
	closed     bool
	delayed    int // objects that are due later
}

// epoch is a time of the work on one object: while the operator does not pause, the object is served, and this replica is the one that works. Whatever belongs
// to an epoch that is over is dropped: an event, a decision, a handler that is to begin. The end of a term drops no events: they wait for the next one.
type epoch struct {
	pause  uint32 // the pauser's
	served uint32 // how often the object was forgotten before
	term   uint32 // the leadership's, of what a worker does
}

// current reports whether an epoch of an object is not over.
func (q *queue) current(e *entry, at epoch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return at == epoch{q.pauser.Epoch(), e.served, q.leader.term()}
}

// serves reports whether an object was not forgotten in the epoch or since.
func (q *queue) serves(e *entry, at epoch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return at.served == e.served
}

// result is what a worker leaves: when the object is due again, and the body to go on with then.
type result struct {
	requeue        bool
	requeueAfter   time.Duration
	body           *Body
	gone           bool // whether the object is not there any more
	forgetConflict bool // whether only the write conflict is to be forgotten then
	routine        bool // whether it is due then for nothing that is urgent
	unreported     bool // whether nothing was done, because the epoch is over: a deletion is still to be reported
}

// requeueWithin makes the object due in the given time at the latest, unless that is negative.
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

// namespace is one that there are objects in, so that its name is there once.
type namespace struct {
	name    string
	objects int
	from    *source // the one that has shown the newest of them
}

// entry is one object: what is remembered of it while it is idle, and its state while it is active. There is one for a uid at any time, as long as
// anything is to be remembered of it.
type entry struct {
	// These are set once, but for the type and listed; all else is the queue's, under its lock.
	key, name string
	namespace *namespace
	typeMeta  atomic.Pointer[typeMeta] // workers of other objects read it
	hasUID    bool                     // whether the key is its uid
	listed    bool                     // whether it was there before the operator

	presence       presence
	reportDeletion bool   // whether its deletion is to be reported, which may happen while it is not served; false again when it is
	served         uint32 // how often it was forgotten: an epoch with another number is over

	state      *objectState // nil while there is nothing on it
	version    string       // the newest one seen
	listing    uint64       // the last listing that showed it
	epoch      epoch        // in which the newest event came
	memorySeen bool         // whether it was seen with a memo of the operator that had nothing in it

	last  handlingMark // the worker's, while there is one, and the queue's otherwise
	child *child       // what reconcile handlers of other kinds know of it, under the lock of their reconciler; nil if it is no child
}

// presence is whether an object is there to be worked on.
type presence uint8

const (
	present           presence = iota
	unserved                   // forgotten: nothing is begun for it, and its next event makes it present again; kept while anything is remembered of it
	deletionPending            // forgotten, and gone since: its worker is to report only that
	deletionReporting          // the same while the worker reports it
	gone                       // it is taken away as soon as its worker and its tasks have ended
)

// ref returns the reference to the object.
func (e *entry) ref() ObjectReference {
	meta := e.typeMeta.Load()
	ref := ObjectReference{APIVersion: meta.apiVersion, Kind: meta.kind, Namespace: e.namespace.name, Name: e.name}
	if e.hasUID {
		ref.UID = e.key
	}
	return ref
}

// releaseIdleLocked drops the state of an object with which nothing is under way.
func (e *entry) releaseIdleLocked() {
	if e.state != nil && e.presence == present && e.state.idle() {
		e.memorySeen, e.state = e.state.memory.seen, nil
	}
}

// activateLocked makes sure that the object has a state.
func (e *entry) activateLocked() {
	if e.state == nil {
		e.state = &objectState{memory: memory{seen: e.memorySeen}}
	}
}

// pendingPatches returns the handler patches that are still to be sent.
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

// add adds an event of a source. What was seen already in this epoch, and what is older than that in any, is dropped; only
// the newest event is kept if all are not needed.
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
		return // it is not known, or the listing has already reported its deletion
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

// setServed notes whether others wait for the objects that are listed, whether these do not wait themselves, and whether what is listed can wait for what has changed.
func (q *queue) setServed(joinsBarrier, exempt, routine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.joinsBarrier, q.exempt, q.routine = joinsBarrier, exempt, routine
}

// joinBarrierLocked has the others wait for an object that is listed.
func (q *queue) joinBarrierLocked(e *entry) {
	e.activateLocked()
	if e.state.work.inBarrier = q.joinsBarrier && e.listed; e.state.work.inBarrier {
		q.barrier.add()
	}
}

// addEntryLocked adds an object.
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

// removeLocked takes an object away that has no worker, as soon as it has no tasks either.
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

// releaseLocked reduces an object that has no worker to what is to be remembered of it.
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

// setVersion notes that the objects are seen in another version of their resource from now on.
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

// uncountLocked counts an object off that is gone, or not served any more.
func (q *queue) uncountLocked(e *entry) {
	q.known.Add(metrics.Objects, -1)
	q.setFailedLocked(e, false)
	if livepage.Included {
		q.calls.Forget(e.key)
	}
}

// setFailed counts an object, as long as it is served, that a handler has failed permanently for, or counts it off.
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

// empty reports whether there are no objects, nor anything that runs or is remembered for those that were forgotten.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries) == 0
}

// addEventLocked gives an event of an object to its worker, which has come in an epoch of the pauser.
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

// pendingEvents returns the events of an object that its worker has not taken, and what is closed when another one comes. Only the worker, and what
// it waits for, may ask.
func (q *queue) pendingEvents(e *entry) (events []RawEvent, arrived <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state.work.arrived == nil {
		e.state.work.arrived = make(chan struct{})
	}
	return slices.Clone(e.state.work.events), e.state.work.arrived
}

// unsetLive ends what setLive has begun, unless it has begun anew.
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

// setLive gives daemons and timers of an object its newest state until unsetLive, and reports whether the object is still served.
func (q *queue) setLive(e *entry, live *atomic.Pointer[Body]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.presence != present {
		return false
	}
	e.state.live = live
	return true
}

// memoryOf returns what is remembered of an object, nil if it is not known.
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

// synced takes an object out of the initial-sync barrier.
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

// releaseBlocked lets the objects go on that have waited until they may pass.
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

// wake has an object looked at again.
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

// wakeLocked makes sure that a worker looks at the entry.
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
	if q.delayed--; e.state.work.timer.Stop() {
		q.workers.Done()
	}
	e.state.work.timer = nil
}

// worker does what is to be done for one object, and ends when there is nothing more.
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

// enter has a worker wait for its turn among the active ones.
func (q *queue) enter(e *entry) *workpool.Turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.turn = q.limit.Enter(!e.state.work.routine)
	e.state.work.entered = true
	return e.state.work.turn
}

// processNext works on the events that have come, and reports whether there may be more to do.
func (q *queue) processNext(e *entry) bool {
	events, at, ok := q.get(e)
	if !ok {
		return false
	}
	if !q.counts(e, at) { // the listing after the pause will show what has become of it
		return q.done(e, result{unreported: true})
	}
	var r result
	blocked := false
	err := safecall.Do(func() error {
		indexed := q.handler.index(e, events, at)
		switch {
		case q.barrier != nil && !q.counts(e, at): // it has ended while the indices were filled
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
			case q.endsStandingBy(e, events): // which it did not when this began
				q.handler.forget(e)
				r = result{gone: true}
			default:
				r, blocked = indexed, true
			}
		}
		return nil
	})
	if err != nil { // a fault of our own must neither end the operator nor forget the object
		q.setRunning(e, "")
		q.log.Error("Processing of the object panicked; repeating it", "help", "K310", "object", e.ref(), "error", err, "stack", string(safecall.StackOf(err)))
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

// get takes the events of an object for its worker, with their epoch. If there is nothing to be done, the worker has ended.
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
		at.pause = q.pauser.Epoch() // a pause since then does not matter, for no listing will show it
	}
	at.term, events = q.leader.term(), e.state.work.events
	e.state.work.events, e.state.work.woken, e.state.work.blocked = nil, false, false
	e.state.work.turn, e.state.work.entered = nil, false
	return events, at, true
}

// blocks reports whether an object has to wait until the barrier opens, or this replica works. What is not served any more does not.
func (q *queue) blocks(e *entry) bool {
	leads := q.leader.leads()
	if leads && !q.barrier.closed() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.presence == present && !(q.exempt && leads)
}

// block gives the events back that have to wait for the barrier or the next term, and reports whether there is more to do now.
func (q *queue) block(e *entry, events []RawEvent, at epoch, r result) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at.served != e.served {
		return true // it was forgotten meanwhile
	}
	if e.presence != present { // of which only the deletion is left to be reported
		return q.doneLocked(e, result{unreported: true})
	}
	newer := len(e.state.work.events) > 0
	if !q.leader.leads() || at.term != q.leader.term() {
		return q.blockForTermLocked(e, events, r)
	}
	if r.body != nil || len(events) > 0 { // otherwise, it was due again with the body that is known
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

// done makes the object idle, or reports that the worker has more to do.
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
		if r.gone = true; r.unreported { // until the pause is over
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
	if !q.leader.leads() && !e.state.work.blocked { // the term has ended in the last moment
		r = result{}
	}
	q.addAfterLocked(e, r)
	return false
}

// endWorkerLocked notes that the worker of an object has ended.
func (q *queue) endWorkerLocked(e *entry) {
	e.state.work.working, e.state.work.turn, e.state.work.entered, e.state.work.routine = false, nil, false, e.state.work.routine && e.state.work.blocked
	if !q.leader.leads() && e.presence == present && !e.state.work.blocked { // the term has ended in the last moment
		q.standByLocked(e, nil)
		return
	}
	q.releaseLocked(e)
}

// addAfterLocked ends the work on an object until something happens, or its time comes.
func (q *queue) addAfterLocked(e *entry, r result) {
	if !r.requeue || q.closed || e.presence != present {
		q.endWorkerLocked(e)
		return
	}
	e.state.work.working, e.state.work.turn, e.state.work.entered, e.state.work.routine = false, nil, false, r.routine
	q.workers.Add(1)
	q.delayed++
	q.known.Add(metrics.Delays, 1)
	var t *time.Timer
	t = time.AfterFunc(max(r.requeueAfter, 0), func() { q.fire(e, &t, r.forgetConflict) })
	e.state.work.timer = t
}

// fire wakes an object whose time has come.
func (q *queue) fire(e *entry, t **time.Timer, quiet bool) {
	defer q.workers.Done()
	q.mu.Lock() // which also orders the reading of the timer after its setting
	defer q.mu.Unlock()
	if e.state == nil || e.state.work.timer != *t || q.closed || e.presence != present {
		return // an event was quicker
	}
	q.delayed--
	if e.state.work.timer = nil; quiet {
		e.state.conflict = nil
		e.releaseIdleLocked()
		return
	}
	e.state.work.woken = true
	q.wakeLocked(e)
}

// hasNewer reports whether an event newer than a version waits for the entry's worker.
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

// newest returns the newest state among the events of an object that its worker has not taken, nil if there is none.
func (q *queue) newest(e *entry) *Body {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(e.state.work.events); n > 0 && e.state.work.events[n-1].Type != Deleted {
		return e.state.work.events[n-1].Body
	}
	return nil
}

// setRunning notes which handler of an object runs now, "" for none.
func (q *queue) setRunning(e *entry, id HandlerID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.running = id
}

// close takes no more events, and calls off all delays. Workers go on with what they have.
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

// wait waits for the workers to end, until the context does. It returns the
// objects whose workers still run, with the handlers that hold them.
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

// typeMeta is what most objects of a resource have in common.
type typeMeta struct{ apiVersion, kind string }
