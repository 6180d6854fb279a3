package kopf

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// This file knows what a queue is filled from: the streams, which of what they bring still counts, and what they can be trusted to bring yet, on the goroutines of the streams; and the reasons to call the reconcile
// handlers of an object that come from elsewhere than its own events, from its children, from what it watches, and from sources. These come on any goroutine, and are taken by the object's worker.

// source is one stream of the resource's events.
type source struct {
	namespace string // "" for all

	// The queue's, under its lock.
	pause              uint32    // the pauser's epoch in which the stream is open
	listing            uint64    // the newest listing, by a number that is higher than those of all listings before, of whatever source
	closed             bool      // whether nothing counts that still comes of it
	received           time.Time // when something came last
	newest             uint64    // the newest version that came since the newest listing began; 0 for none, or if versions are no numbers
	fence, predecessor uint64    // of a term, and the version up to which another replica may have worked before it; 0 if that is not known
	// deleted are the objects that went while the listing goes on, which may still show them; nil when there is no listing.
	deleted map[string]struct{}
}

// overtook reports whether an item of the listing is older than a change that has shown the object since the listing began.
func (from *source) overtook(e *entry, t EventType) bool {
	return t == Listed && from.deleted != nil && e.listing == from.listing
}

// lists reports whether an event that shows an object first shows that it was there before the operator: an item of the listing, or a change
// that is seen before it.
func (from *source) lists(t EventType) bool {
	return t == Listed || t == Modified && from.deleted != nil
}

// receivedLocked notes that an object has come of a source.
func (q *queue) receivedLocked(from *source, t EventType, version uint64) {
	if from.received = time.Now(); t != Listed && version > from.newest {
		from.newest = version
	}
}

// awaits returns for how long the stream of an object is still trusted to show a version of it: as long as it brings older things, with pauses up to the
// timeout.
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

// staleLocked reports whether nothing counts that comes of a source, because it was closed, or the operator pauses or has paused since it was opened:
// the listing after the pause will show what has become of the objects.
func (q *queue) staleLocked(from *source) bool {
	return q.closed || from.closed || from.pause != q.pauser.Epoch()
}

// openSource notes that a source is opened in an epoch of the pauser.
func (q *queue) openSource(from *source, pause uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.pause = pause
}

// beginListing notes that a source begins a listing.
func (q *queue) beginListing(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if from.listing == 0 { // what another replica has done before the present term is in the listing
		from.fence, from.predecessor = q.leader.number(), 0
	}
	q.listings++
	from.listing, from.newest, from.deleted = q.listings, 0, map[string]struct{}{}
}

// closeSource makes sure that nothing counts any more that still comes of a source.
func (q *queue) closeSource(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.closed = true
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
		if e.state == nil || !e.state.work.working {
			if e.last.expected = ""; e.state != nil {
				e.state.body, e.state.end.goneVersion = nil, "" // the listing will bring what there is now
			}
		}
	}
}

// lookupIdle returns an object, nil if it is not known, and whether an event of it can be taken without a worker: nothing is under way with
// the object, except that our own patch is to come back, which this may be. It also reports whether the object was there before the operator and was not
// handled since, and whether the event was seen already or does not count, which needs nothing more.
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

// updateIdle takes the newest state of an object without a worker. The entry is nil if the object was not known. It fails if another goroutine was
// quicker.
func (q *queue) updateIdle(e *entry, t EventType, ref ObjectReference, version string, from *source, change func(*entry)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.staleLocked(from) || q.entries[ref.UID] != e || e != nil && !q.idleAtLocked(e, version) {
		return false
	}
	if e != nil && e.state != nil { // another replica has handled what has waited
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

// triggers are the reasons that the worker of an object has not taken yet.
type triggers struct {
	pending []pendingTrigger
	running context.CancelCauseFunc // ends the context of the handler that runs, when the object is deleted; nil if none runs
}

// pendingTrigger is a reason to call one handler.
type pendingTrigger struct {
	handler *handler
	reason  Trigger
	at      time.Time
	routine bool // whether it can wait for what is urgent elsewhere
}

// maxTriggers is how many reasons for one handler are told apart.
const maxTriggers = 16

// trigger has a reconcile handler called for an object, unless it is not known, or was never looked at: then it is going to be called anyway, or does not match.
func (q *queue) trigger(key string, h *handler, reason Trigger) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		q.triggerLocked(e, h, reason, false)
	}
}

// wakeKey has an object looked at again, if it is known.
func (q *queue) wakeKey(key string) {
	q.mu.Lock()
	e := q.entries[key]
	q.mu.Unlock()
	if e != nil {
		q.wake(e)
	}
}

// triggerAll is trigger for all objects, which can wait for the reasons that some objects have, if that is said.
func (q *queue) triggerAll(h *handler, reason Trigger, routine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		q.triggerLocked(e, h, reason, routine)
	}
}

// classLocked notes that an object is due for something, which is urgent or not. A worker that waits for its turn then waits among the urgent ones.
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

// takeTriggers returns the reasons that have come. From the first time on, others are kept until the next one.
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

// dropTriggers has no reasons kept any more for an object that no reconcile handler is for.
func (q *queue) dropTriggers(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.triggers = nil
}

// setReconciling has a function called when the object is deleted, nil for none.
func (q *queue) setReconciling(e *entry, deleted context.CancelCauseFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := e.state.work.triggers; t != nil {
		t.running = deleted
	}
}

// endReconcilingLocked ends the context of a reconcile handler that runs for an object that is deleted.
func (w *workState) endReconcilingLocked(ev RawEvent) {
	if (ev.Type == Deleted || ev.Body.deleting) && w.triggers != nil && w.triggers.running != nil {
		w.triggers.running(ErrSuperseded)
	}
}

// wakeReconciled has all objects looked at again that reconcile handlers are for.
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
