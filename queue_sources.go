package kopf

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// This file has the sources of a queue: the streams, and the triggers of reconcile handlers. Streams call it on their goroutines, and decide which of their
// events still count. Triggers come from children, watched objects and sources, on any goroutine.

// source is one stream of the resource's events.
type source struct {
	namespace string // "" for all

	// The queue's, under its lock.
	pause              uint32    // the pauser's epoch in which the stream was opened
	listing            uint64    // the number of the newest list, higher than those of all earlier lists of any source
	closed             bool      // whether its further events do not count
	received           time.Time // time of the last event
	newest             uint64    // the newest version since the newest list began; 0 for none, or if versions are no numbers
	fence, predecessor uint64    // of a term, and the last version of an earlier leader; 0 if that is unknown
	// deleted are the objects that were deleted during the list, which may still contain them; nil without a list.
	deleted map[string]struct{}
}

// covers reports whether the stream shows the objects of a namespace.
func (from *source) covers(namespace string) bool {
	return from.namespace == "" || from.namespace == namespace
}

// overtook reports whether an item of the list is older than a change of the same object since the list began.
func (from *source) overtook(e *entry, t EventType) bool {
	return t == Listed && from.deleted != nil && e.listing == from.listing
}

// lists reports whether the first event of an object means that it existed before the operator: an item of the list, or an earlier change.
func (from *source) lists(t EventType) bool {
	return t == Listed || t == Modified && from.deleted != nil
}

// receivedLocked records the arrival of an event.
func (q *queue) receivedLocked(from *source, t EventType, version uint64) {
	if from.received = time.Now(); t != Listed && version > from.newest {
		from.newest = version
	}
}

// awaits returns how long to wait for the stream to show a version of an object: as long as older versions arrive, with gaps up to the timeout.
func (q *queue) awaits(e *entry, version string, timeout time.Duration) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	awaited, err := strconv.ParseUint(version, 10, 64)
	from := e.namespace.from
	switch {
	case err != nil, from == nil, from.closed, from.newest >= awaited:
		return 0
	}
	return timeout - time.Since(from.received)
}

// staleLocked reports whether events of a source do not count: it was closed, or the operator has paused since it was opened. The list after the pause will
// show the objects.
func (q *queue) staleLocked(from *source) bool {
	return q.closed || from.closed || from.pause != q.pauser.Epoch()
}

// openSource opens a source in an epoch of the pauser.
func (q *queue) openSource(from *source, pause uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.pause = pause
}

// beginListing begins a list of a source.
func (q *queue) beginListing(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if from.listing == 0 { // the first list contains the work of earlier leaders
		from.fence, from.predecessor = q.leader.number(), 0
	}
	q.listings++
	from.listing, from.newest, from.deleted = q.listings, 0, map[string]struct{}{}
}

// closeSource makes further events of a source invalid.
func (q *queue) closeSource(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.closed = true
}

// forgetVersions forgets the versions of a source's objects, because the API server has an older history now.
func (q *queue) forgetVersions(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if from.closed || from.namespace != "" && e.namespace.name != from.namespace {
			continue
		}
		if e.version = ""; e.state != nil {
			e.state.work.indexed = ""
		}
		if e.state == nil || !e.state.work.working {
			if e.last.expected = ""; e.state != nil {
				e.state.body, e.state.end.goneVersion = nil, "" // the list will have the current state
			}
		}
	}
}

// lookupIdle returns an object, nil if it is unknown. The result idle means that its event needs no worker so far: the object is idle, apart from awaiting
// the operator's own patch, which this may be. The result initial means that it existed before the operator, and was not handled since. The result seen means
// that the event is a repetition or does not count.
func (q *queue) lookupIdle(t EventType, key, version []byte, from *source) (e *entry, idle, initial, seen bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.staleLocked(from) {
		return nil, false, false, true
	}
	q.receivedLocked(from, t, apirequest.VersionNumber(string(version)))
	if e = q.entries[string(key)]; e == nil {
		_, deleted := from.deleted[string(key)]
		return nil, true, from.lists(t) || !q.leader.leads(), deleted
	}
	if from.overtook(e, t) {
		return e, false, false, true
	}
	if now := string(version); e.presence == present && apirequest.NewerVersion(e.version, now) && (e.epoch.pause == from.pause || e.version != now) {
		e.listing = max(e.listing, from.listing)
		return e, false, false, true
	}
	idle = q.idleAtLocked(e, string(version))
	return e, idle, idle && e.listed && !e.last.handled, false
}

// updateIdle stores the newest state of an object without a worker. The entry is nil for an unknown object. It fails if another goroutine was faster.
func (q *queue) updateIdle(e *entry, t EventType, ref ObjectReference, version string, from *source, change func(*entry)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.staleLocked(from) || q.entries[ref.UID] != e || e != nil && !q.idleAtLocked(e, version) {
		return false
	}
	if e != nil && e.state != nil { // another replica has handled the waiting events
		e.state.work.events, e.state.work.blocked, e.state.body = nil, false, nil
	}
	if e == nil {
		e = q.addEntryLocked(ref.UID, ref, from.lists(t) || !q.leader.leads())
		e.memorySeen = true
	}
	e.version, e.listing, e.epoch = version, max(e.listing, from.listing), epoch{pause: from.pause, served: e.served}
	e.namespace.from, e.last.expected = from, ""
	e.releaseIdleLocked()
	change(e)
	return true
}

// triggers are the pending triggers of an object, which the worker has not taken yet.
type triggers struct {
	pending []pendingTrigger
	running context.CancelCauseFunc // ends the context of the running handler when the object is deleted; nil if none runs
}

// pendingTrigger is a trigger of one handler.
type pendingTrigger struct {
	handler *handler
	reason  Trigger
	at      time.Time
	routine bool // whether urgent work elsewhere goes first
}

// maxTriggers limits the distinct triggers for one handler.
const maxTriggers = 16

// trigger triggers a reconcile handler for an object. It skips unknown objects and those without a first look, which will be called anyway or do not match.
func (q *queue) trigger(key string, h *handler, reason Trigger) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		q.triggerLocked(e, h, reason, false)
	}
}

// wakeKey makes an object due if it is known.
func (q *queue) wakeKey(key string) {
	q.mu.Lock()
	e := q.entries[key]
	q.mu.Unlock()
	if e != nil {
		q.wake(e)
	}
}

// triggerAll triggers a handler for all objects. With routine, they wait for more urgent objects.
func (q *queue) triggerAll(h *handler, reason Trigger, routine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		q.triggerLocked(e, h, reason, routine)
	}
}

// classLocked sets whether an object is urgent. An urgent worker that waits for its turn moves up.
func (q *queue) classLocked(e *entry, routine bool) {
	w := &e.state.work
	if idle := !w.working && !w.woken && len(w.events) == 0 && w.timer == nil; routine && !idle {
		return
	}
	if w.routine = routine; routine || w.turn == nil {
		return
	}
	if w.entered {
		q.limit.Hurry(w.turn)
	} else {
		q.limiter.Hurry(w.turn)
	}
}

func (q *queue) triggerLocked(e *entry, h *handler, reason Trigger, routine bool) {
	if q.closed || e.presence != present || e.state == nil || e.state.work.triggers == nil {
		return
	}
	t := e.state.work.triggers
	known := 0
	for _, p := range t.pending {
		if p.handler == h {
			known++
		}
		if p.handler == h && p.reason == reason {
			known = maxTriggers
			break
		}
	}
	if known < maxTriggers {
		t.pending = append(t.pending, pendingTrigger{h, reason, time.Now(), routine})
	} else {
		t.pending[slices.IndexFunc(t.pending, func(p pendingTrigger) bool { return p.handler == h })].at = time.Now()
	}
	q.classLocked(e, routine)
	e.state.work.woken = true
	q.wakeLocked(e)
}

// takeTriggers returns the pending triggers. Later ones are kept from the first call on.
func (q *queue) takeTriggers(e *entry) []pendingTrigger {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state.work.triggers == nil {
		e.state.work.triggers = &triggers{}
	}
	pending := e.state.work.triggers.pending
	e.state.work.triggers.pending = nil
	return pending
}

// dropTriggers drops the triggers of an object that no reconcile handler matches.
func (q *queue) dropTriggers(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.triggers = nil
}

// setReconciling sets the function to call when the object is deleted, nil for none.
func (q *queue) setReconciling(e *entry, deleted context.CancelCauseFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := e.state.work.triggers; t != nil {
		t.running = deleted
	}
}

// endReconcilingLocked ends the context of a running reconcile handler when its object is deleted.
func (w *workState) endReconcilingLocked(ev RawEvent) {
	if (ev.Type == Deleted || ev.Body.deleting) && w.triggers != nil && w.triggers.running != nil {
		w.triggers.running(ErrSuperseded)
	}
}

// wakeReconciled makes all objects with reconcile handlers due.
func (q *queue) wakeReconciled() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if !q.closed && e.presence == present && e.state != nil && e.state.work.triggers != nil {
			e.state.work.woken = true
			q.wakeLocked(e)
		}
	}
}

// deletes reports whether the deletion of an object waits for its worker.
func (q *queue) deletes(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(e.state.work.events, func(ev RawEvent) bool { return ev.Type == Deleted || ev.Body.deleting })
}
