package kopf

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file knows which objects of one resource are there, who works on them, and when
// they are due again. An object has one worker at most: a goroutine that lives while there is something
// to do. An idle object is an entry without a worker, and without its body.

// queueHandler works on the objects of a queue.
type queueHandler interface {
	// reconcile takes the events of an object, the oldest first. It runs on the object's worker.
	reconcile(e *entry, events []RawEvent) result
	// forget notes that an object is not served any more.
	forget(e *entry)
}

// queue hands the events of each object to its worker, one after another.
type queue struct {
	handler      queueHandler
	barrier      initialSync       // what the objects have to wait for; may be nil
	joinsBarrier bool              // whether others wait for the objects that are listed
	limit        chan struct{}     // holds a token for each active worker; nil for no limit
	limiter      *workpool.Limiter // which all queues share
	log          *slog.Logger
	meter        *metrics.Metrics
	known        *metrics.Resource

	workers sync.WaitGroup // workers, and timers that are going to start one

	mu         sync.Mutex // guards following, and the fields of all entries that belong to the queue
	entries    map[string]*entry
	typeMeta   *typeMeta               // of the newest object
	namespaces map[string]*namespace   // of all objects
	absent     map[string]absentObject // by the keys of objects that were forgotten, and of which something is still to be done
	listings   uint64                  // that were begun
	closed     bool
}

// result is what a worker leaves: when the object is due again, and the body to go on with then.
type result struct {
	requeue        bool
	requeueAfter   time.Duration
	body           *Body
	gone           bool       // whether the object is not there any more
	forgetConflict bool       // whether only the write conflict is to be forgotten then
	unreported     bool       // whether its deletion was not reported, because the operator pauses
	blocked        bool       // whether it has to wait until it may pass
	events         []RawEvent // that wait with it
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

// restoreAbsent gives an object that is served again what was remembered of it.
func (e *entry) restoreAbsent(was absentObject) {
	k := was.state
	if k == nil {
		return
	}
	e.last.expected, e.last.expectedUntil = k.expected, k.expectedUntil
	if k.pendingFlush != nil || k.seen != nil || k.overflow != 0 {
		e.activateLocked()
		e.state.pendingFlush, e.state.seen, e.state.overflow, e.state.inProgress = k.pendingFlush, k.seen, k.overflow, k.pendingFlush != nil || k.seen != nil
	}
}

// namespace is one that there are objects in, so that its name is there once.
type namespace struct {
	name    string
	objects int
}

// entry is one object: what is remembered of it while it is idle, and its state while it is active.
type entry struct {
	// What is above the state is set once; all else is the queue's, under its lock.
	key, name string
	namespace *namespace
	typeMeta  *typeMeta
	hasUID    bool // whether the key is its uid
	listed    bool // whether it was there before the operator

	state      *objectState // nil while there is nothing on it
	version    string       // the newest one seen
	listing    uint64       // the last listing that showed it
	epoch      uint64       // of the operator's work, in which the newest event came
	presence   presence
	memorySeen bool // whether it was seen with a memo of the operator that had nothing in it
	unmatched  bool // whether no handler was for it when it was seen last, without a worker

	last handlingMark // the worker's, while there is one, and the queue's otherwise
}

// presence reports whether an object is there to be worked on.
type presence uint8

const (
	present           presence = iota
	unserved                   // forgotten while its worker was at it: nothing is begun for it, and its next event makes it present again
	deletionPending            // forgotten, and gone since: its worker is to report only that
	deletionReporting          // the same while the worker reports it
	gone                       // deleted, or forgotten without a worker: it is in no queue any more when its worker ends
)

// ref returns the reference to the object.
func (e *entry) ref() ObjectReference {
	ref := ObjectReference{APIVersion: e.typeMeta.apiVersion, Kind: e.typeMeta.kind, Namespace: e.namespace.name, Name: e.name}
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
	if e.state.pendingFlush == nil {
		return nil
	}
	return slices.Clone(e.state.pendingFlush.patches)
}

// idleAt reports whether nothing is under way with the object, and no newer version of it is expected than this one. The caller holds the queue's lock.
func (e *entry) idleAt(version []byte) bool {
	return e.presence == present && (e.state == nil || e.state.idle()) && (e.last.expected == "" || newerVersion(string(version), e.last.expected))
}

func newQueue(limit int, log *slog.Logger, handler queueHandler) *queue {
	q := &queue{handler: handler, log: log, entries: make(map[string]*entry), namespaces: make(map[string]*namespace), absent: make(map[string]absentObject)}
	if limit > 0 {
		q.limit = make(chan struct{}, limit)
	}
	return q
}

// add adds an event of a source, which has come in an epoch of the operator's work. What was seen already in this epoch is dropped; only
// the newest event is kept if all are not needed.
func (q *queue) add(ev RawEvent, from *source, epoch uint64, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || from.closed {
		return
	}
	listing := from.listing
	key := ev.Body.key()
	e := q.entries[key]
	if e == nil {
		if ev.Type == Deleted {
			return // it is not known, or the listing has already reported its deletion
		}
		e = q.addEntryLocked(key, ev.Body.Reference(), ev.Type == Listed)
		e.activateLocked()
		if e.state.inBarrier = q.joinsBarrier && e.listed; e.state.inBarrier {
			q.barrier.add()
		}
	} else if e.presence != present { // it is served again, before its worker has ended
		e.presence = present
		delete(q.absent, key)
		q.known.Add(metrics.Objects, 1)
	} else if ev.Type != Deleted && newerVersion(e.version, ev.Body.version) && (e.epoch == epoch || e.version != ev.Body.version) {
		e.listing = max(e.listing, listing)
		return
	}
	e.version, e.listing = ev.Body.version, max(e.listing, listing)
	e.activateLocked()
	if e.state.live != nil {
		e.state.live.Store(ev.Body)
	}
	if !all {
		e.state.events = e.state.events[:0]
	}
	q.addEventLocked(e, ev, epoch)
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
	e := &entry{key: key, namespace: in, name: ref.Name, typeMeta: q.typeMeta, hasUID: ref.UID != "", listed: listed}
	q.entries[key] = e
	q.known.Add(metrics.Objects, 1)
	if was, ok := q.absent[key]; ok {
		delete(q.absent, key)
		e.restoreAbsent(was)
	}
	return e
}

// removeLocked notes that an object is not to be worked on any more, and takes it away as soon as it has no worker.
func (q *queue) removeLocked(e *entry, why presence) {
	if e.presence == present {
		e.presence = why
		q.known.Add(metrics.Objects, -1)
	}
	if e.state != nil && e.state.working || q.entries[e.key] != e {
		return
	}
	delete(q.entries, e.key)
	if e.namespace.objects--; e.namespace.objects == 0 {
		delete(q.namespaces, e.namespace.name)
	}
}

// source is one stream of the resource's events.
type source struct {
	namespace string // "" for all

	// The queue's, under its lock.
	listing uint64 // the newest listing, by a number that is higher than those of all listings before, of whatever source
	closed  bool   // whether nothing counts that still comes of it
}

// beginListing notes that a source begins a listing.
func (q *queue) beginListing(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.listings++
	from.listing = q.listings
}

// closeSource makes sure that nothing counts any more that still comes of a source.
func (q *queue) closeSource(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.closed = true
}

// setVersion notes that the objects are seen in another version of their resource from now on.
func (q *queue) setVersion(apiVersion, kind string, known *metrics.Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.typeMeta = &typeMeta{apiVersion, kind}
	n := int64(0)
	for _, e := range q.entries {
		if e.typeMeta = q.typeMeta; e.presence == present {
			n++
		}
	}
	for key, was := range q.absent {
		was.ref.APIVersion, was.ref.Kind = apiVersion, kind
		q.absent[key] = was
	}
	q.known.Add(metrics.Objects, -n)
	q.known = known
	q.known.Add(metrics.Objects, n)
}

// empty reports whether there are no objects, nor any that were forgotten and still have workers or deletions to be reported.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)+len(q.absent) == 0
}

// serves reports whether an object is still to be worked on: whether it was not forgotten while its worker was at it.
func (q *queue) serves(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.presence == present || e.presence == deletionReporting
}

// reportsDeletion reports whether the worker of an object only reports that it is gone.
func (q *queue) reportsDeletion(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.presence == deletionReporting
}

// forgetVersions forgets which versions of the objects of a source were seen, because the API server has an older history now.
func (q *queue) forgetVersions(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if from.closed || from.namespace != "" && e.namespace.name != from.namespace {
			continue
		}
		e.version = ""
		if e.state == nil || !e.state.working {
			if e.last.expected = ""; e.state != nil {
				e.state.body, e.state.goneVersion = nil, "" // the listing will bring what there is now
			}
		}
	}
}

// addEventLocked gives an event of an object to its worker.
func (q *queue) addEventLocked(e *entry, ev RawEvent, epoch uint64) {
	e.activateLocked()
	e.unmatched, e.state.deleted = false, ev.Type == Deleted
	e.epoch, e.state.events = epoch, append(e.state.events, ev)
	if e.state.arrived != nil {
		close(e.state.arrived)
		e.state.arrived = nil
	}
	q.wakeLocked(e)
}

// pendingEvents returns the events of an object that its worker has not taken, and what is closed when another one comes. Only the worker, and what
// it waits for, may ask.
func (q *queue) pendingEvents(e *entry) (events []RawEvent, arrived <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state.arrived == nil {
		e.state.arrived = make(chan struct{})
	}
	return slices.Clone(e.state.events), e.state.arrived
}

// setLive gives daemons and timers of an object its newest state, and reports whether the object is still served.
func (q *queue) setLive(e *entry, live *atomic.Pointer[Body]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.live = live
	return e.presence == present
}

// lookupIdle returns an object, nil if it is not known, and whether an event of it can be taken without a worker: nothing is under way with
// the object, except that our own patch is to come back, which this may be. It also reports whether the event was seen already, which needs
// nothing more.
func (q *queue) lookupIdle(key, version []byte, from *source, epoch uint64) (e *entry, idle, seen bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || from.closed {
		return nil, false, true
	}
	if e = q.entries[string(key)]; e == nil {
		return nil, q.absent[string(key)].state == nil, false
	}
	if now := string(version); e.presence == present && newerVersion(e.version, now) && (e.epoch == epoch || e.version != now) {
		e.listing = max(e.listing, from.listing)
		return e, false, true
	}
	return e, e.idleAt(version), false
}

// updateIdle takes the newest state of an object without a worker. The entry is nil if the object was not known. It fails if another goroutine was
// quicker.
func (q *queue) updateIdle(e *entry, t EventType, ref ObjectReference, version string, from *source, epoch uint64, change func(*entry)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || from.closed || q.entries[ref.UID] != e || e != nil && !e.idleAt([]byte(version)) {
		return false
	}
	if e == nil {
		e = q.addEntryLocked(ref.UID, ref, t == Listed)
		e.memorySeen = true
	}
	e.version, e.listing, e.epoch = version, max(e.listing, from.listing), epoch
	e.last.expected = ""
	e.releaseIdleLocked()
	change(e)
	return true
}

// memoryOf returns what is remembered of an object, nil if it is not known.
func (q *queue) memoryOf(key string) *memory {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		e.activateLocked()
		e.state.memoShared = true
		return &e.state.memory
	}
	return nil
}

// synced takes an object out of the initial-sync barrier.
func (q *queue) synced(e *entry) {
	q.mu.Lock()
	inBarrier := e.state != nil && e.state.inBarrier
	if inBarrier {
		e.state.inBarrier = false
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
		if e.state != nil && e.state.blocked && !e.state.working && !q.closed {
			e.state.woken = true
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
	e.state.woken = true
	q.wakeLocked(e)
}

// wakeLocked makes sure that a worker looks at the entry.
func (q *queue) wakeLocked(e *entry) {
	q.stopTimerLocked(e)
	if !e.state.working {
		e.state.working = true
		q.meter.Add(metrics.Queued, 1)
		q.workers.Add(1)
		q.limiter.Start(func() { go q.worker(e) })
	}
}

func (q *queue) stopTimerLocked(e *entry) {
	if e.state.timer != nil && e.state.timer.Stop() {
		q.workers.Done()
	}
	e.state.timer = nil
}

// worker does what is to be done for one object, and ends when there is nothing more.
func (q *queue) worker(e *entry) {
	defer q.workers.Done()
	defer q.limiter.Release()
	defer q.meter.Add(metrics.Queued, -1)
	for {
		if q.limit != nil {
			q.limiter.Release()
			q.limit <- struct{}{}
			q.limiter.Acquire()
		}
		r, more := q.processNext(e)
		if q.limit != nil {
			<-q.limit
		}
		if !more || !q.done(e, r) {
			return
		}
	}
}

// processNext takes the events that have come and works on them. It reports whether there was something to do.
func (q *queue) processNext(e *entry) (result, bool) {
	q.mu.Lock()
	events, woken := e.state.events, e.state.woken
	if e.presence == deletionPending {
		e.presence = deletionReporting
	}
	e.state.workEpoch = e.epoch
	e.state.events, e.state.woken, e.state.blocked = nil, false, false
	if len(events) == 0 && !woken {
		q.endWorkerLocked(e)
	}
	q.mu.Unlock()
	if len(events) == 0 && !woken {
		return result{}, false
	}
	var r result
	err := safecall.Do(func() error {
		r = q.handler.reconcile(e, events)
		return nil
	})
	if err != nil { // a fault of our own must neither end the operator nor forget the object
		q.setRunning(e, "")
		q.log.Error("The processing has panicked and will be repeated.", "object", e.ref(), "error", err, "stack", string(safecall.StackOf(err)))
		if len(events) > 0 {
			e.state.body = events[len(events)-1].Body
		}
		r = result{requeue: true, requeueAfter: time.Minute, body: e.state.body}
	}
	return r, true
}

// done makes the object idle, or reports that the worker has more to do.
func (q *queue) done(e *entry, r result) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.body, e.state.arrived = r.body, nil
	if r.unreported {
		e.state.deleted = false
	}
	if e.presence == deletionReporting {
		r.gone = true
		if r.unreported { // until the pause is over
			q.absent[e.key] = absentObject{ref: e.ref(), version: e.version, report: true}
		}
	}
	if r.blocked && e.presence == present {
		e.state.events, e.state.blocked = append(r.events, e.state.events...), true
		if len(e.state.events) == len(r.events) && q.barrier.closed() {
			q.requeueLocked(e, r)
			return false
		}
		e.state.woken = true
		return true
	}
	if len(e.state.events) > 0 {
		return true
	}
	if r.gone {
		q.removeLocked(e, gone)
	} else if e.presence == present && (e.state.woken || r.requeue && r.requeueAfter <= 0 && !q.closed) {
		e.state.woken = true
		return true
	}
	q.requeueLocked(e, r)
	return false
}

// endWorkerLocked notes that the worker of an object has ended.
func (q *queue) endWorkerLocked(e *entry) {
	if e.state.working = false; e.presence == unserved {
		q.rememberAbsentLocked(e, q.absent[e.key].report)
	}
	if e.presence != present {
		q.removeLocked(e, gone)
	}
	e.releaseIdleLocked()
}

// requeueLocked ends the work on an object until something happens, or its time comes.
func (q *queue) requeueLocked(e *entry, r result) {
	if !r.requeue || q.closed || e.presence != present {
		q.endWorkerLocked(e)
		return
	}
	e.state.working = false
	q.workers.Add(1)
	var t *time.Timer
	t = time.AfterFunc(max(r.requeueAfter, 0), func() { q.fire(e, &t, r.forgetConflict) })
	e.state.timer = t
}

// fire wakes an object whose time has come.
func (q *queue) fire(e *entry, t **time.Timer, quiet bool) {
	defer q.workers.Done()
	q.mu.Lock() // which also orders the reading of the timer after its setting
	defer q.mu.Unlock()
	if e.state == nil || e.state.timer != *t || q.closed || e.presence != present {
		return // an event was quicker
	}
	if e.state.timer = nil; quiet {
		e.state.conflict = nil
		e.releaseIdleLocked()
		return
	}
	e.state.woken = true
	q.wakeLocked(e)
}

// hasNewer reports whether an event newer than a version waits for the entry's worker.
func (q *queue) hasNewer(e *entry, version string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, ev := range e.state.events {
		if ev.Type == Deleted || ev.Body.version != version && newerVersion(ev.Body.version, version) {
			return true
		}
	}
	return false
}

// newest returns the newest state among the events of an object that its worker has not taken, nil if there is none.
func (q *queue) newest(e *entry) *Body {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(e.state.events); n > 0 && e.state.events[n-1].Type != Deleted {
		return e.state.events[n-1].Body
	}
	return nil
}

// setRunning notes which handler of an object runs now, "" for none.
func (q *queue) setRunning(e *entry, id HandlerID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.running = id
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
	if waitFor(ctx, &q.workers, 0) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []string
	for _, e := range q.entries {
		if e.state != nil && e.state.working {
			left = append(left, strings.TrimSuffix(e.ref().String()+" in handler "+string(e.state.running), " in handler "))
		}
	}
	return left
}

// typeMeta is what most objects of a resource have in common.
type typeMeta struct{ apiVersion, kind string }
