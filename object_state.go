package kopf

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/essence"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/progressrecord"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file holds the state that kopf keeps in memory for each object: for the work on it, for its handlers, and after its deletion or the end of serving it.
// It also compares an object with its last-handled configuration, on the goroutine of the object's worker.

// handlingMark is the state of an idle object that outlives its cycles.
type handlingMark struct {
	handled         bool          // whether a handling has ended since it was listed, or the prefilter has found nothing to resume; until it is forgotten
	changedByUs     bool          // whether the operator has changed it, apart from its own records; until it is forgotten
	failed          bool          // whether a change handler has failed permanently in the last handling; until it is forgotten
	counted         bool          // whether the object counts as permanently failed: the queue's, under its lock, also while there is a worker
	unmatched       bool          // whether no handler matched it at the last look, without a worker; false again with the next event for a worker
	notified        bool          // whether watching handlers were notified of it; until it is forgotten
	trackingCurrent bool          // whether the stored configuration was made of the currently tracked fields
	baseDigest      uint64        // the digest of the configuration that was last stored
	baseStoredAt    time.Duration // its time, by the reactor's clock
	expected        string        // the version that the stream must show next: of the operator's last patch, or of a read object; "" afterwards
	expectedUntil   time.Duration // the deadline for that, by the reactor's clock; it also gives the age of the operator's last patch
}

// objectState is the state of the work on an object, grouped by its owners. It is dropped when all of it is idle.
type objectState struct {
	work      workState
	live      *atomic.Pointer[Body] // the newest state for daemons and timers, from the first check for them until the object is gone or forgotten; nil before
	memory    memory
	handling  objectHandling
	retry     objectRetry
	end       objectEnd
	reconcile *objectReconcile              // of the reconcile handlers: as long as one matches the object; nil otherwise
	conflict  *flapping.Tracker             // the worker's, nil unless the object is changed again and again, or may be
	unindexed map[HandlerID]*ProgressRecord // the indexer's, on the worker: failed attempts, until it is indexed; after a permanent failure, until it is gone or forgotten
	failing   metrics.Failing               // the worker's: the handlers that are in retry after an error; nil for none
	body      *Body                         // the worker's, only while the object is due later
	answers   answers                       // the worker's: of filters, from the indices to the end of a cycle; nil if no decisions are kept
}

// workState belongs to the queue, under its lock.
type workState struct {
	events     []RawEvent     // not yet taken by the worker: from add to get, or until the object is forgotten
	working    bool           // whether there is a worker: from its start to its end
	woken      bool           // whether it is due without an event, until the worker takes it
	blocked    bool           // whether its events wait for the barrier, until a worker takes them
	inBarrier  bool           // whether the barrier waits for it, until it is indexed, gone or forgotten
	memoShared bool           // whether admission handlers may use its memo, which ends with the object
	deleted    bool           // whether the newest event is its deletion; false again if its worker could not report that
	timer      *time.Timer    // of addAfterLocked, until it fires or an event comes; nil otherwise
	forgetting bool           // whether the timer only forgets a write conflict, so that the object is idle
	running    HandlerID      // the running handler, for messages at shutdown; "" for none
	arrived    chan struct{}  // closed when an event comes; nil if no running handler is Interruptible
	routine    bool           // whether urgent work elsewhere may go first: until the worker ends, or urgent work comes
	turn       *workpool.Turn // the turn for which its worker waits to be started, or to enter; nil if it does not wait
	entered    bool
	triggers   *triggers // of the reconcile handlers: from the first check for them until none matches the object; nil otherwise
	indexed    string    // the version of the indexed response to a patch, until the stream shows it; "" otherwise
}

func (w *workState) idle() bool {
	return len(w.events) == 0 && !w.working && !w.woken && !w.blocked && !w.inBarrier && !w.memoShared && w.timer == nil && w.arrived == nil && w.triggers == nil && w.indexed == ""
}

// objectHandling is the state of the handling of changes between cycles. It belongs to the worker.
type objectHandling struct {
	inProgress    bool            // whether it has begun and may have stored records: until it has ended, and the object has none
	deleteHandled bool            // whether the handling of the deletion has ended, until another one has: finalizers of other clients delay the deletion
	lostBase      time.Duration   // when the configuration that another client removed was stored, before kopf stored it again: until the object is gone or forgotten; 0 for never
	baseStripped  bool            // whether another client has removed it again: as long
	overflow      uint64          // the digest of a state that was too large to store, 0 for none: until the object has another one
	pendingFlush  *pendingFlush   // the state that could not be sent: until it is sent, or obsolete
	term          uint32          // of the last cycle; the other fields are invalid in another term, because another replica may have worked
	readIn        uint64          // the fence of the term in which it was read, because another replica may have handled it before; 0 for none
	seen          *handlingStates // by the finished handlers of the current handling; nil if none has finished, or there is no handling
}

func (h *objectHandling) idle() bool {
	return !h.inProgress && !h.deleteHandled && h.lostBase == 0 && !h.baseStripped && h.overflow == 0 && h.pendingFlush == nil && h.seen == nil
}

// begin begins a cycle in a term. In a new term, it drops the former state, except for the knowledge about other clients.
func (h *objectHandling) begin(term uint32) {
	if h.term != term {
		*h = objectHandling{term: term, lostBase: h.lostBase, baseStripped: h.baseStripped}
	}
}

// objectRetry counts failures that handlers have not caused. It belongs to the worker, and ends with the first successful cycle, or with the first event of
// the deletion.
type objectRetry struct {
	errors      int       // in a row
	conflicts   int       // in a row, of the operator's patches with changes of other clients
	pausedUntil time.Time // the time of the next attempt; zero if it is not paused
}

func (r *objectRetry) idle() bool { return r.errors+r.conflicts == 0 && r.pausedUntil.IsZero() }

// objectEnd is the state of an object's deletion. It belongs to the worker.
type objectEnd struct {
	deleting    bool   // whether a cycle has seen the deletion, and has reset the retries for it; it may be lost with the state
	rounds      int    // number of deletion requests in a row for children without an owner reference; it may restart at 0
	goneVersion string // the version in which it was gone, or awaits only its removal; "" otherwise, or when it turns out to exist
}

func (e *objectEnd) idle() bool { return e.goneVersion == "" }

// idle reports whether there is no state to keep for the object.
func (o *objectState) idle() bool {
	return o.work.idle() && o.live == nil && !o.memory.used() && o.handling.idle() && o.retry.idle() && o.end.idle() && o.reconcile == nil && o.conflict == nil && len(o.unindexed) == 0 && o.failing == nil && o.body == nil
}

// setIndexed records the version of an object in the indices. It matters if it is of a response that
// the stream has not shown yet.
func (q *queue) setIndexed(e *entry, version string, at epoch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.indexed = ""
	known := e.version != "" // otherwise the API server has an older history now
	if known && at.served == e.served && apirequest.VersionNumber(version) != 0 && !apirequest.NewerVersion(e.version, version) {
		e.state.work.indexed = version
	}
}

// isIndexed reports whether the indices have a newer state of an object than a version.
func (q *queue) isIndexed(e *entry, version string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	indexed := e.state.work.indexed
	return indexed != version && apirequest.NewerVersion(indexed, version)
}

// sweep adds the deletions that happened while no stream was open: of objects that the complete list of a source does not contain. It reports whether the
// list is valid.
func (q *queue) sweep(from *source) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.deleted = nil
	if q.staleLocked(from) {
		return false
	}
	for _, e := range q.entries {
		switch {
		case from.namespace != "" && e.namespace.name != from.namespace:
		case e.presence == unserved:
			q.reportDeletionLocked(e, from.pause)
		case e.presence == present && e.listing < from.listing && (e.state == nil || !e.state.work.deleted):
			q.addDeletedLocked(e, from.pause)
		}
	}
	q.listed = true
	return true
}

// addDeletedLocked adds a deletion event that no stream has sent.
func (q *queue) addDeletedLocked(e *entry, pause uint32) {
	ref := e.ref()
	body, err := NewBody(map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind,
		"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace, "uid": ref.UID, "resourceVersion": e.version},
	})
	if err == nil { // strings can always be encoded
		q.addEventLocked(e, RawEvent{Type: Deleted, Body: body}, pause)
	}
}

// forget drops the objects of a namespace, or all, because they are not served any more. It keeps objects with a busy worker, so that no second worker starts
// even if they are served again. It also keeps those whose deletions must be reported, and those with unsent state.
func (q *queue) forget(namespace string, report bool) {
	q.mu.Lock()
	var forgotten []*entry
	missing := 0
	for _, e := range q.entries {
		if namespace != "" && e.namespace.name != namespace || e.presence != present {
			continue
		}
		forgotten = append(forgotten, e)
		q.uncountLocked(e)
		if e.state != nil && e.state.work.inBarrier {
			e.state.work.inBarrier = false
			missing++
		}
		if e.state != nil && e.state.work.deleted { // its worker reports the deletion, now or next
			q.reportOnlyLocked(e)
			continue
		}
		e.presence, e.reportDeletion = unserved, report
		e.served++
		if e.state != nil {
			q.stopTimerLocked(e)
			e.state.work.events, e.state.work.woken, e.state.work.indexed = nil, false, ""
		}
		if e.state == nil || !e.state.work.working {
			q.releaseUnservedLocked(e)
		}
	}
	q.mu.Unlock()
	for range missing {
		q.barrier.done()
	}
	for _, e := range forgotten {
		q.forgetHandled(e)
	}
}

// forgetHandled drops what the handler keeps about an object. A panic must not end the operator,
// because no worker runs this.
func (q *queue) forgetHandled(e *entry) {
	err := safecall.Do(func() error {
		q.handler.forget(e)
		return nil
	})
	if err != nil {
		q.log.Error("Forgetting the object panicked; continuing with the others", "object", e.ref(),
			"error", err, "stack", string(safecall.StackOf(err)), "help", "K320")
	}
}

// reportOnlyLocked makes the worker of a deleted object report the deletion, and nothing else.
func (q *queue) reportOnlyLocked(e *entry) {
	if len(e.state.work.events) == 0 { // the worker has taken the event
		e.presence = deletionReporting
		return
	}
	e.served++
	e.presence, e.epoch.served = deletionPending, e.served
	q.wakeLocked(e) // it need not wait for the barrier any more
}

// releaseUnservedLocked reduces an unserved object without a worker to the state to keep: its tasks, its unsent state, and the expected version of the
// operator's patch. If there is none, and no deletion to report, it removes the object.
func (q *queue) releaseUnservedLocked(e *entry) {
	e.memorySeen, e.last = false, handlingMark{expected: e.last.expected, expectedUntil: e.last.expectedUntil}
	if e.state != nil {
		e.state = e.state.remember(e.hasUID)
	}
	if !e.reportDeletion && e.state == nil && (e.last.expected == "" || !e.hasUID) {
		q.removeLocked(e)
	}
}

// remember returns the state to keep of a forgotten object, nil if there is none: running tasks and, with unsent, the unsent state.
func (o *objectState) remember(unsent bool) *objectState {
	o.failing.Clear()
	var kept objectHandling
	if h := &o.handling; unsent {
		kept = objectHandling{pendingFlush: h.pendingFlush, seen: h.seen, overflow: h.overflow, inProgress: h.pendingFlush != nil || h.seen != nil, term: h.term}
	}
	if o.live != nil { // its tasks share the memory
		o.work, o.handling, o.retry, o.end, o.reconcile, o.conflict, o.unindexed, o.body = workState{}, kept, objectRetry{}, objectEnd{}, nil, nil, nil, nil
		return o
	}
	if kept.idle() {
		return nil
	}
	return &objectState{handling: kept}
}

// serveAgainLocked serves a forgotten object again. If its worker is still running, all its state remains.
func (q *queue) serveAgainLocked(e *entry, listed bool) {
	if e.state == nil || !e.state.work.working {
		e.listed = listed
		q.joinBarrierLocked(e)
	}
	e.presence, e.reportDeletion = present, false
	q.known.Add(metrics.Objects, 1)
}

// reportDeletions reports the deletions of forgotten objects that are gone, in a namespace or in all. During a pause, it does nothing.
func (q *queue) reportDeletions(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pause := q.pauser.Epoch()
	if q.closed || pauser.IsPause(pause) {
		return
	}
	for _, e := range q.entries {
		if e.presence == unserved && (namespace == "" || e.namespace.name == namespace) {
			q.reportDeletionLocked(e, pause)
		}
	}
}

// reportDeletionLocked drops a forgotten object that is gone, and reports its deletion if required.
func (q *queue) reportDeletionLocked(e *entry, pause uint32) {
	switch {
	case e.reportDeletion:
		e.presence, e.reportDeletion = deletionPending, false
		q.addDeletedLocked(e, pause)
	case e.state != nil && e.state.work.working:
		e.presence = gone // the end of its worker removes it
	default:
		q.removeLocked(e)
	}
}

// unservedNamespaces returns the namespaces of forgotten objects that are not served now.
func (q *queue) unservedNamespaces(served map[string]bool) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var found []string
	for _, e := range q.entries {
		if namespace := e.namespace.name; e.presence == unserved && !served[namespace] && !slices.Contains(found, namespace) {
			found = append(found, namespace)
		}
	}
	return found
}

// fails reports whether kopf retries the handler after an error.
func (r *ProgressRecord) fails() bool { return !r.finished() && r.Message != nil && !r.waits() }

// failedID is the ID of a record without a handler. Its message has the records of the handlers that failed permanently in
// the last handling, for people and for the commands that report on objects. Handlers are called regardless of it.
const failedID HandlerID = markers.FailedHandlers

// failures are the records of handlers that failed permanently.
type failures map[string]*progressrecord.Record

// failuresOn returns the failures of the last handling of an object. There are none if another operator has handled the
// object since. The stored last-handled configuration is nil if it is unknown.
func failuresOn(body *Body, storage ProgressStorage, stored []byte) failures {
	record, err := storage.Fetch(failedID, body)
	if err != nil || record == nil || record.Message == nil {
		return nil
	}
	base, failed, err := progressrecord.ParseFailures(*record.Message)
	if err != nil || stored != nil && base != essence.StoredDigest(stored) {
		return nil // a damaged record would be replaced at the end of the next handling
	}
	return failed
}

// record returns the record that stores the failures with their last-handled configuration, nil if there are none.
func (f failures) record(stored []byte) *ProgressRecord {
	if len(f) == 0 {
		return nil
	}
	message := progressrecord.FailuresMessage(cmp.Or(essence.StoredDigest(stored), essence.NoBase), f)
	record := &ProgressRecord{Failure: true, Message: &message}
	for _, one := range f {
		if record.Stopped.Before(one.Stopped) {
			record.Stopped = one.Stopped
		}
	}
	return record
}

// failedNow returns the failures of the object after this handling: those of its handlers, and earlier ones of others.
func (c *cycle) failedNow() failures {
	failed := c.failedBefore()
	note := func(id HandlerID, record *ProgressRecord) {
		if delete(failed, string(id)); !record.Failure {
			return
		}
		if failed == nil {
			failed = make(failures)
		}
		failed[string(id)] = record.encodable()
	}
	for _, p := range c.progress.all {
		if !p.selected && !p.belongsTo(c.reason()) {
			continue
		}
		note(p.handler.id, p.record)
		for _, ref := range p.record.Subrefs {
			id := HandlerID(ref)
			if !strings.HasPrefix(ref, string(p.handler.id)+"/") || c.findProgress(id) != nil {
				continue
			}
			if sub, _ := c.loadProgress(id); sub != nil { // damaged records count as none
				note(id, sub)
			}
		}
	}
	return failed
}

// failedBefore returns the failures of earlier handlings that remain after this one: those after which no handler of
// a change has succeeded. If a change calls no handler, such as kopf's own patch of a label, it hides no failure.
func (c *cycle) failedBefore() failures {
	if c.reason() == ReasonCreate || c.reason() == ReasonDelete {
		return nil
	}
	failed := failuresOn(c.event.Body, c.served.persistence.ProgressStorage, c.states.stored)
	if c.reason() == ReasonUpdate {
		maps.DeleteFunc(failed, func(_ string, record *progressrecord.Record) bool {
			return c.succeededAfter(record.Stopped)
		})
	}
	return failed
}

// succeededAfter reports whether a handler has succeeded that was selected for its change after a failure. Otherwise, it
// may have seen the change of the failure, whose rest is handled now.
func (c *cycle) succeededAfter(failure time.Time) bool {
	return slices.ContainsFunc(c.topHandlers(), func(p *progress) bool {
		return p.record.Success && !p.record.Started.Before(failure) && !c.joinsResume(p)
	})
}

// storedDigest returns the digest of the object's last-handled configuration, 0 if there is none.
func (c *cycle) storedDigest() uint64 {
	if c.states.stored == nil {
		return 0
	}
	return essenceIn(c.states.stored).digest()
}

// renewSubs resets the sub-handlers that have finished for a state of which only the digest is known. They run again when their parents run.
func (c *cycle) renewSubs(now time.Time) {
	subs := make(map[HandlerID]*ProgressRecord)
	for _, h := range c.served.changes {
		if record, err := c.loadProgress(h.id); err == nil && record != nil {
			c.renewBelow(h.id, record, now, subs)
		}
	}
	if len(subs) == 0 {
		return
	}
	if c.entry.state.handling.pendingFlush == nil {
		c.entry.state.handling.pendingFlush = &pendingFlush{base: c.storedDigest(), records: make(map[HandlerID]*ProgressRecord)}
	}
	maps.Copy(c.entry.state.handling.pendingFlush.records, subs)
}

// callAgain resets the handlers that finished before this cycle for another state, which is too large to store. They cannot be called for the difference
// later, so they are called for the current state. It returns false if there are none.
func (c *cycle) callAgain() bool {
	subs, found := c.renew(time.Now())
	if !found {
		return false
	}
	c.log.Debug("The state that the finished handlers have seen is too large to be stored; calling them again")
	c.states.seen = nil
	c.savePending()
	for id, record := range subs {
		if c.entry.state.handling.pendingFlush.records[id] == nil || c.entry.state.handling.pendingFlush.records[id].finished() {
			c.entry.state.handling.pendingFlush.records[id] = record
		}
	}
	return true
}

// memory holds the memo of one object. It is created at its first use, because most objects never need one.
type memory struct {
	mu   sync.Mutex // guards following
	seen bool
	memo *Memo
}

// see copies the operator's memo when the object is first seen. Later changes of that do not reach the object.
func (m *memory) see(operators *Memo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.seen && !operators.empty() {
		m.memo = operators.copy()
	}
	m.seen = true
}

// used reports whether the memo has values.
func (m *memory) used() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memo != nil
}

func (m *memory) get() *Memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memo == nil {
		m.memo = &Memo{}
	}
	return m.memo
}

// cycleStates are the states of the object that the cycle compares.
type cycleStates struct {
	essence         *Essence        // of the event's body
	before          *Essence        // of the last-handled configuration
	stored          []byte          // the last-handled configuration as it is stored, nil for none
	storedOutdated  bool            // whether it differs only because other fields are tracked
	copied          bool            // whether the stored state is a copy of another object's
	differ          bool            // whether the object also has another stored state, which does not count
	recordsOutdated bool            // whether the records on the object are of another state
	seen            *handlingStates // by the finished handlers of this handling
	next            *handlingStates // of the handlers that are not called for the rest of the change; nil if all handlers have seen the same
	digested        *Body           // the object of the digest
	digest          uint64
	unseen          *handlingStates // the state whose finished handlers are called again, nil for none
}

// compareWithBase reads the tracked fields and the last-handled configuration of the object.
func (c *cycle) compareWithBase() {
	p := c.served.persistence
	body := c.event.Body
	if c.states.essence == nil {
		c.states.essence = c.track(body)
	}
	if c.states.copied = p.copied(body); c.states.copied {
		c.log.Info("The object is a copy of another one, with its stored state; handling it as a new one")
		return
	}
	before, err := storedEssence(body, p)
	if err != nil { // the object was handled, but its configuration at that time is unknown
		c.log.Warn("The last-handled configuration is damaged; handling all fields as changed", "error", err, "help", "K404")
		before = &Essence{}
	}
	c.states.stored = before.bytes()
	if u := c.entry.state.handling.pendingFlush; u != nil && u.base != before.digest() {
		u.records, u.succeeded = nil, nil // the patch that ended the handling has succeeded, though its response was lost
	}
	if before == nil {
		before = c.baseFromMemory()
	}
	c.states.before = dropOthers(before, body)
}

// baseLossWindow is the time in which a controller that resets annotations removes a stored configuration. People who remove it to repeat the creation are
// slower.
const baseLossWindow = 10 * time.Second

// baseFromMemory returns the last-handled configuration if it was removed from the object right after it was stored. Controllers that know only their own
// annotations do that, and the creation would be handled again without end (CH-T25). After the first removal, kopf stores it again. From the second removal
// on, it uses the one in memory.
func (c *cycle) baseFromMemory() *Essence {
	e := c.entry
	if c.outdated() {
		return nil // the operator's own patch is not back yet
	}
	h, lost := &e.state.handling, e.last.baseStoredAt
	switch {
	case h.baseStripped:
	case lost == 0 || h.lostBase != lost && c.reactor.clock()-lost > baseLossWindow:
		return nil
	case h.lostBase == 0, h.lostBase == lost: // the latter if it could not be stored again yet
		if h.lostBase == 0 {
			c.log.Info("The last handled state was removed from the object right after it was stored, and is stored once more")
		}
		h.lostBase, c.states.storedOutdated, e.last.trackingCurrent = lost, true, true
	default:
		c.log.Warn("The last handled state was removed from the object twice, each time right after it was stored: the object counts as handled until the operator restarts, and then as new",
			"hint", "a client that replaces all annotations, or the whole status, has to keep what others store there", "help", "K403")
		h.baseStripped = true
	}
	if c.states.essence.digest() == e.last.baseDigest {
		return c.states.essence
	}
	return &Essence{}
}

// digest returns the digest of the tracked fields of an object. It caches the last one, because a cycle needs it repeatedly.
func (c *cycle) digest(body *Body) uint64 {
	if c.states.digested != body {
		c.states.digested, c.states.digest = body, c.track(body).digest()
	}
	return c.states.digest
}

func (c *cycle) track(body *Body) *Essence { return c.served.track(body) }

// track returns the tracked fields of an object.
func (r *resolved) track(body *Body) *Essence {
	return dropOthers(essenceOf(body, r.fields, r.persistence), body)
}

// retrack ignores differences that exist only because other fields were tracked when the configuration was stored. Otherwise, a new handler would make all
// objects look changed. The tracked fields never change while the operator runs, so it checks each object once.
func (c *cycle) retrack() {
	if c.entry.last.trackingCurrent {
		return
	}
	p := c.served.persistence
	misplaced := c.states.before != nil && p.misplaced(c.event.Body)
	if c.states.before != nil && !c.states.before.Equal(c.states.essence) {
		now := p.trackingOf(c.served.fields)
		then := p.tracked(c.event.Body, c.states.stored, c.states.before, now)
		c.states.storedOutdated = c.states.before.in().DiffersOnlyBy(then, now, c.states.essence.in())
	} else {
		c.states.storedOutdated = misplaced
	}
	c.entry.last.trackingCurrent = !c.states.storedOutdated && !misplaced // a misplaced one moves at the end of the handling, and its next event ends that
	if c.states.storedOutdated {
		c.log.Debug("Renewing the last-handled configuration, because other fields are tracked or it is kept elsewhere now")
		c.states.before = c.states.essence
	}
}

func valueOf(e *Essence) any {
	if e == nil {
		return nil
	}
	return e.Map()
}
