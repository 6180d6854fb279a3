package kopf

import (
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// This file knows the streams that a queue is filled from: which of what they bring still counts, and what they can be trusted to bring yet. Its functions run on the
// goroutines of the streams.

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
	number, _ := strconv.ParseUint(string(version), 10, 64)
	q.receivedLocked(from, t, number)
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
