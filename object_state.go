package kopf

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/essence"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file knows what is remembered of an object: while it is worked on, while it is idle, of its handlers that have finished, and when it is
// gone or not served any more without an event for that. It also compares the object of a cycle with the state in which it was last handled, on the goroutine of
// the object's worker.

// handlingMark is what handlings, our own patches and the prefilter have left to know of an object while it is idle.
type handlingMark struct {
	handled         bool          // whether a handling has ended since it was listed, or the prefilter has found nothing to be resumed; ends when it is forgotten
	changedByUs     bool          // whether the operator has changed it, and not only kept its records there; ends when it is forgotten
	failed          bool          // whether a handler of changes has failed permanently in the last handling; ends when it is forgotten
	counted         bool          // whether the object is counted as one that a handler has failed permanently for: the queue's, under its lock, also while there is a worker
	unmatched       bool          // whether no handler was for it when it was seen last, without a worker; false again with the next event for a worker
	notified        bool          // whether those that watch it were notified of it; ends when it is forgotten
	trackingCurrent bool          // whether the stored state was made of the fields that are tracked now
	baseDigest      uint64        // the digest of what was last stored as handled
	baseStoredAt    time.Duration // when that was, by the reactor's clock
	expected        string        // the version that the stream has to show first: that of our last patch, or of the object that was got; "" if it has
	expectedUntil   time.Duration // until when that is awaited, by the reactor's clock: it tells how long ago our last patch was, too
}

// objectState is what is under way with an object, by its owners. It ends when nothing of it is.
type objectState struct {
	work      workState
	live      *atomic.Pointer[Body] // where daemons and timers find the newest state, from the first look for them until the object is gone or forgotten; nil before
	memory    memory
	handling  objectHandling
	retry     objectRetry
	end       objectEnd
	reconcile *objectReconcile              // of the reconcile handlers: as long as one is for the object; nil otherwise
	conflict  *flapping.Tracker             // the worker's, nil unless the object is changed again and again, or may be
	unindexed map[HandlerID]*ProgressRecord // the indexer's, on the worker: what went wrong with it, until it is indexed; if it never will be, until it is gone or forgotten
	failing   metrics.Failing               // the worker's: the handlers that it is counted for, because they are to be called again after an error; nil for none
	body      *Body                         // the worker's, only while the object is due later
	answers   answers                       // the worker's: of filters, from the indices to the end of a cycle; nil if no decisions are kept
}

// workState is the queue's, under its lock.
type workState struct {
	events     []RawEvent     // not yet taken by the worker: from add to get, or until the object is forgotten
	working    bool           // whether there is a worker: from its start to its end
	woken      bool           // whether it is due without an event, until the worker looks at it
	blocked    bool           // whether its events wait for the barrier, until a worker takes them
	inBarrier  bool           // whether the others wait for it, until it is indexed, gone or forgotten
	memoShared bool           // whether handlers of reviews may hold its memo, which ends with the object
	deleted    bool           // whether the newest event says that it is gone; false again if its worker could not report that
	timer      *time.Timer    // of addAfterLocked, until it fires or an event comes; nil otherwise
	running    HandlerID      // the handler that runs now, for messages at the exit; "" for none
	arrived    chan struct{}  // closed when an event comes; nil if no handler that runs wants to know
	routine    bool           // whether all that it is due for can wait for what is urgent elsewhere: until the worker ends, or something urgent comes
	turn       *workpool.Turn // with which its worker waits to be started, or to enter if that is set; nil if it does not wait
	entered    bool
	triggers   *triggers // of the reconcile handlers: from the first look at them until no one is for the object; nil otherwise
}

func (w *workState) idle() bool {
	return len(w.events) == 0 && !w.working && !w.woken && !w.blocked && !w.inBarrier && !w.memoShared && w.timer == nil && w.arrived == nil && w.triggers == nil
}

// objectHandling is what the handling of changes has left, from one cycle to the next. It is the worker's.
type objectHandling struct {
	inProgress    bool           // whether it has begun and may have left records: until it has ended, and none are on the object
	deleteHandled bool           // whether that of the deletion has ended, until that of anything else has: the object is held by others, and goes
	lostBase      time.Duration  // when what another client has removed was stored, and so is stored once more: until the object is gone or forgotten; 0 for never
	baseStripped  bool           // whether another client has removed that again: as long
	overflow      uint64         // the digest of a state that was too large to be stored, 0 for none: until the object has another one
	pendingFlush  *pendingFlush  // what could not be sent: until it is sent, or of no use any more
	term          uint32         // that of the last cycle, without which the rest counts for nothing: another replica may have gone on
	readIn        uint64         // the fence of the term in which it was read, because another replica may have handled it before; 0 for none
	seen          *handlingState // by the finished handlers of the handling under way; nil if none has finished, or nothing is under way
}

func (h *objectHandling) idle() bool {
	return !h.inProgress && !h.deleteHandled && h.lostBase == 0 && !h.baseStripped && h.overflow == 0 && h.pendingFlush == nil && h.seen == nil
}

// begin notes the term of a cycle that begins. What an earlier one has left is forgotten, but for what is known of other clients.
func (h *objectHandling) begin(term uint32) {
	if h.term != term {
		*h = objectHandling{term: term, lostBase: h.lostBase, baseStripped: h.baseStripped}
	}
}

// objectRetry is how often what is not the fault of handlers has failed. It is the worker's, and ends with the first cycle that does not fail, or with the
// first event of the deletion.
type objectRetry struct {
	errors      int       // in a row
	conflicts   int       // in a row, of our patches with changes by others
	pausedUntil time.Time // when it is tried again; zero if it is not paused
}

func (r *objectRetry) idle() bool { return r.errors+r.conflicts == 0 && r.pausedUntil.IsZero() }

// objectEnd is what is known of the end of an object. It is the worker's.
type objectEnd struct {
	deleting    bool   // whether a cycle has seen that it is being deleted, so that it has begun anew for that; nothing is lost if it ends with the state
	rounds      int    // how often its children without an owner reference were asked to go, in a row; the next round can begin anew
	goneVersion string // the version with which it was gone, or only its disappearance is awaited; "" otherwise, or when it turns out to be there
}

func (e *objectEnd) idle() bool { return e.goneVersion == "" }

// idle reports whether nothing is under way with the object.
func (o *objectState) idle() bool {
	return o.work.idle() && o.live == nil && !o.memory.used() && o.handling.idle() && o.retry.idle() && o.end.idle() && o.reconcile == nil && o.conflict == nil && len(o.unindexed) == 0 && o.failing == nil && o.body == nil
}

// sweep makes up the deletions that happened while no stream was open: of the objects of a source which its complete listing has not shown. It reports
// whether the listing counts.
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

// addDeletedLocked gives an object the event of its deletion, which no stream has brought.
func (q *queue) addDeletedLocked(e *entry, pause uint32) {
	ref := e.ref()
	body, err := NewBody(map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind,
		"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace, "uid": ref.UID, "resourceVersion": e.version},
	})
	if err == nil { // strings are always JSON
		q.addEventLocked(e, RawEvent{Type: Deleted, Body: body}, pause)
	}
}

// forget drops the objects of a namespace, or all, because they are not served any more. Those are kept with which a worker is not done, so that
// no other one can begin with them before, even if they are served again; those whose deletions are to be reported; and those
// with something that could not be sent.
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
		if e.state != nil && e.state.work.deleted { // which is being reported, or will be next
			q.reportOnlyLocked(e)
			continue
		}
		e.presence, e.reportDeletion = unserved, report
		e.served++
		if e.state != nil {
			q.stopTimerLocked(e)
			e.state.work.events, e.state.work.woken = nil, false
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
		q.handler.forget(e)
	}
}

// reportOnlyLocked has the worker of an object that has gone report that, and nothing else.
func (q *queue) reportOnlyLocked(e *entry) {
	if len(e.state.work.events) == 0 { // the worker has taken the event
		e.presence = deletionReporting
		return
	}
	e.served++
	e.presence, e.epoch.served = deletionPending, e.served
	q.wakeLocked(e) // it does not wait for the barrier any more
}

// releaseUnservedLocked reduces an object that is not served and has no worker to what is to be remembered of it: its tasks, what could not be sent, and which of
// our own patches is to come back. Without any of it, and unless its deletion is to be reported, the object is taken away.
func (q *queue) releaseUnservedLocked(e *entry) {
	e.memorySeen, e.last = false, handlingMark{expected: e.last.expected, expectedUntil: e.last.expectedUntil}
	if e.state != nil {
		e.state = e.state.remember(e.hasUID)
	}
	if !e.reportDeletion && e.state == nil && (e.last.expected == "" || !e.hasUID) {
		q.removeLocked(e)
	}
}

// remember returns what stays of the state when the object is forgotten, nil if nothing does: what runs, and what could not be sent, if that is wanted.
func (o *objectState) remember(unsent bool) *objectState {
	o.failing.Clear()
	var kept objectHandling
	if h := &o.handling; unsent {
		kept = objectHandling{pendingFlush: h.pendingFlush, seen: h.seen, overflow: h.overflow, inProgress: h.pendingFlush != nil || h.seen != nil, term: h.term}
	}
	if o.live != nil { // whose tasks share the memory
		o.work, o.handling, o.retry, o.end, o.reconcile, o.conflict, o.unindexed, o.body = workState{}, kept, objectRetry{}, objectEnd{}, nil, nil, nil, nil
		return o
	}
	if kept.idle() {
		return nil
	}
	return &objectState{handling: kept}
}

// serveAgainLocked makes an object present that was forgotten. If its worker has not ended since, nothing of it is forgotten.
func (q *queue) serveAgainLocked(e *entry, listed bool) {
	if e.state == nil || !e.state.work.working {
		e.listed = listed
		q.joinBarrierLocked(e)
	}
	e.presence, e.reportDeletion = present, false
	q.known.Add(metrics.Objects, 1)
}

// reportDeletions reports the deletions of the objects that were forgotten and are gone: all of a namespace, or of all. In a pause, it does nothing.
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

// reportDeletionLocked ends what is remembered of an object that was forgotten and is gone, and has that reported, if it is to be.
func (q *queue) reportDeletionLocked(e *entry, pause uint32) {
	switch {
	case e.reportDeletion:
		e.presence, e.reportDeletion = deletionPending, false
		q.addDeletedLocked(e, pause)
	case e.state != nil && e.state.work.working:
		e.presence = gone // its worker leaves nothing to be done
	default:
		q.removeLocked(e)
	}
}

// unservedNamespaces returns the namespaces of objects that were forgotten, but for those that are served.
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

// fails reports whether the handler is to be called again after an error.
func (r *ProgressRecord) fails() bool { return !r.finished() && r.Message != nil && !r.waits() }

// handlingID is the id of a record that is of no handler: its message is what the finished handlers of a handling have seen. These name it
// as if it were that of a sub-handler, so that the operator that finishes the handling, in Go or in Python, removes it with their records.
const handlingID HandlerID = markers.HandlingState

// handlingState is the oldest state that a finished handler of a handling has seen. It counts only in that handling.
type handlingState struct {
	essence *Essence  // nil if only its digest was stored
	digest  string    // that of the essence, if there is no essence
	base    string    // the digest of the last handled state that the object had then
	since   time.Time // when the newest of the handlers was selected that were finished then
}

// record returns the record that keeps the state, as what differs from the last handled one.
func (s *handlingState) record(stored []byte) *ProgressRecord {
	message := essence.SeenMessage(s.base, stored, s.essence.in())
	return &ProgressRecord{Started: s.since, Message: &message}
}

// shortRecord returns a record that keeps no more of the state than its digest, for objects whose annotations have no space for more.
func (s *handlingState) shortRecord() *ProgressRecord {
	message := essence.ShortSeenMessage(s.base, s.essence.in())
	return &ProgressRecord{Started: s.since, Message: &message}
}

// is reports whether the state is that of the essence.
func (s *handlingState) is(e *Essence) bool {
	if s.essence == nil {
		return e.in().SortedDigest() == s.digest
	}
	return s.essence.Equal(e)
}

// handlingStateOf returns what a record keeps, nil if it belongs to another last handled state.
func handlingStateOf(record *ProgressRecord, stored []byte) *handlingState {
	if record == nil || record.Message == nil {
		return nil
	}
	seen, digest, ok := essence.ReadSeen(*record.Message, stored)
	if !ok {
		return nil
	}
	return &handlingState{essence: (*Essence)(seen), digest: digest, base: essence.StoredDigest(stored), since: record.Started}
}

// of reports whether the state was kept for the handler of a finished record.
func (s *handlingState) of(record *ProgressRecord) bool {
	return s != nil && !record.Started.Truncate(time.Microsecond).After(s.since) // as it is stored
}

// savedState returns what the finished handlers of this handling have seen, as far as memory or the object keeps it, nil if there are none.
func (c *cycle) savedState() *handlingState {
	record, _ := c.served.persistence.ProgressStorage.Fetch(handlingID, c.event.Body) // what is damaged counts as none
	base := essence.StoredDigest(c.states.stored)
	for _, seen := range []*handlingState{c.entry.state.handling.seen, handlingStateOf(record, c.states.stored)} {
		switch {
		case seen == nil || seen.base != base || !c.finishedFor(seen): // of another handling, which another client has finished
		case c.states.before != nil && seen.is(c.states.before): // by handlers that this change is nothing to, such as those of the resuming
		default:
			return seen
		}
	}
	return nil
}

// recordsOutdated reports whether the records on the object are of another last handled state than it has, as what is kept with them names it. Their
// handling is over, or its end was cut off.
func (c *cycle) recordsOutdated() bool {
	record, _ := c.served.persistence.ProgressStorage.Fetch(handlingID, c.event.Body) // what is damaged counts as none
	if record == nil || record.Message == nil {
		return false
	}
	base, _, named := strings.Cut(*record.Message, " ")
	return named && base != cmp.Or(essence.StoredDigest(c.states.stored), essence.NoBase)
}

// finishedFor reports whether a handler or sub-handler has finished for the kept state.
func (c *cycle) finishedFor(seen *handlingState) bool {
	finished := func(record *ProgressRecord) bool { return record != nil && record.finished() && seen.of(record) }
	for _, h := range c.served.changes {
		record, _ := c.loadProgress(h.id) // what is damaged counts as none
		if finished(record) {
			return true
		}
		if record == nil {
			continue
		}
		for _, id := range record.Subrefs {
			if sub, _ := c.loadProgress(HandlerID(id)); finished(sub) {
				return true
			}
		}
	}
	return false
}

// unseen returns the kept state if it is not that of the object any more, and if there is only its digest, so that the finished handlers
// cannot be called for the difference later: they are called again now.
func (c *cycle) unseen(saved *handlingState) *handlingState {
	if saved == nil || saved.essence != nil || c.reason() == ReasonDelete || saved.is(c.states.essence) {
		return nil
	}
	return saved
}

// noteSeen notes what the handlers have seen that are finished, unless others have finished before.
func (c *cycle) noteSeen() {
	if c.states.seen != nil {
		return
	}
	for _, p := range c.progress.all {
		if !p.selected || !p.record.finished() {
			continue
		}
		if c.states.seen == nil {
			c.states.seen = &handlingState{essence: c.states.essence, base: essence.StoredDigest(c.states.stored)}
		}
		if since := p.record.Started.Truncate(time.Microsecond); since.After(c.states.seen.since) {
			c.states.seen.since = since
		}
	}
}

// storedDigest returns the digest of the last handled state that the object has, 0 if there is none.
func (c *cycle) storedDigest() uint64 {
	if c.states.stored == nil {
		return 0
	}
	return essenceIn(c.states.stored).digest()
}

// renewSubs has the sub-handlers called again that have finished for a state that only its digest is known of, whenever their parents run.
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

// callAgain has handlers called again, for the present state, which have finished before this cycle for another one. That one is too large to be
// stored as handled, so they cannot be called for the difference afterwards. It fails if there are none.
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

// memory holds the memo of one object. It is made when it is used first: most objects are never remembered anything of.
type memory struct {
	mu   sync.Mutex // guards following
	seen bool
	memo *Memo
}

// see is called when the object is first seen: what the operator's memo gets later does not reach the object.
func (m *memory) see(operators *Memo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.seen && !operators.empty() {
		m.memo = operators.copy()
	}
	m.seen = true
}

// used reports whether there is anything to remember.
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
	essence         *Essence       // of the event's body
	before          *Essence       // as it was last handled
	stored          []byte         // that as it is stored, nil for none
	storedOutdated  bool           // whether that differs only in the fields that are tracked
	copied          bool           // whether what is stored on the object is that of another one
	differ          bool           // whether there is another state on the object, which does not count
	recordsOutdated bool           // whether the records on the object are of another state
	seen            *handlingState // by the finished handlers of this handling
	digested        *Body          // the state that the digest is of
	digest          uint64
	unseen          *handlingState // whose finished handlers are called again, nil for none
}

// compareWithBase reads what is tracked of the object, now and as it was last handled.
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
	if err != nil { // the object was handled, but it is not known how it was then
		c.log.Warn("The last-handled configuration is damaged; handling all fields as changed", "help", "K404", "error", err)
		before = &Essence{}
	}
	c.states.stored = before.bytes()
	if u := c.entry.state.handling.pendingFlush; u != nil && u.base != before.digest() {
		u.records, u.succeeded = nil, nil // the patch that has ended the handling took effect, though its answer was lost
	}
	if before == nil {
		before = c.baseFromMemory()
	}
	c.states.before = dropOthers(before, body)
}

// baseLossWindow is the time within which the last handled state vanishes if another controller resets the annotations as soon as they change. People who
// remove it to have the object created again are slower.
const baseLossWindow = 10 * time.Second

// baseFromMemory returns how the object was last handled if that has vanished from it right after it was stored. Other controllers do so that know
// only their own annotations, and the creation would be handled again without end (CH-T25). It is stored once more, for clients that have done so once; from the
// second time on, what is in memory counts.
func (c *cycle) baseFromMemory() *Essence {
	e := c.entry
	if c.outdated() {
		return nil // our own patch is not back
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
		c.log.Warn("The last handled state was removed from the object twice, each time right after it was stored: the object counts as handled until the operator restarts, and then as new", "help", "K403",
			"hint", "a client that replaces all annotations, or the whole status, has to keep what others store there")
		h.baseStripped = true
	}
	if c.states.essence.digest() == e.last.baseDigest {
		return c.states.essence
	}
	return &Essence{}
}

// digest returns the digest of what is tracked of an object. A cycle asks for that of one state again and again.
func (c *cycle) digest(body *Body) uint64 {
	if c.states.digested != body {
		c.states.digested, c.states.digest = body, c.track(body).digest()
	}
	return c.states.digest
}

// track returns what is tracked of an object.
func (c *cycle) track(body *Body) *Essence { return c.served.track(body) }

// track returns what is tracked of an object.
func (r *resolved) track(body *Body) *Essence {
	return dropOthers(essenceOf(body, r.fields, r.persistence), body)
}

// retrack takes the differences for none that come from other fields being tracked than when the state was stored: all objects would
// look changed when a handler is added. The fields do not change while the operator runs, so it looks
// at each object once.
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
	c.entry.last.trackingCurrent = !c.states.storedOutdated && !misplaced // which moves at the end of the handling, and goes with the next event
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
