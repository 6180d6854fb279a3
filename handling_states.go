package kopf

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/essence"
	"github.com/kopf-go/kopf/internal/markers"
)

// This file keeps the states of an object that the finished handlers of a change have seen. If the object changes
// meanwhile, each handler is called only for a difference that is new to it: the last-handled configuration becomes the
// oldest of these states, and the records of handlers that have seen later ones stay. It runs on the goroutine of the object's worker, and
// on that of the flush.

// handlingID is the ID of a record without a handler, whose message is the state that finished handlers have seen. Their records refer to it as to a
// sub-handler, so the operator that finishes the handling, in Go or in Python, removes it with them.
const handlingID HandlerID = markers.HandlingState

// handlingStates are the states that the finished handlers of a handling have seen. They are valid only in that handling.
type handlingStates struct {
	all   []essence.Seen // oldest first, at least one
	base  string         // the digest of the object's last-handled configuration
	since time.Time      // the latest start of the finished handlers
}

// maxSeen limits the number of stored states. Handlers that have seen later ones count as if they had seen the last one.
const maxSeen = 8

// record returns the record that stores the first n states, as the difference to the last-handled configuration.
func (s *handlingStates) record(n int, stored []byte) *ProgressRecord {
	message := essence.SeenMessage(s.base, stored, s.all[:n])
	return &ProgressRecord{Started: s.since, Message: &message}
}

// shortRecord returns a record with only the digest of the oldest state, for objects whose annotations have no space for
// more.
func (s *handlingStates) shortRecord() *ProgressRecord {
	message := essence.ShortSeenMessage(s.base, s.all[0].State)
	return &ProgressRecord{Started: s.since, Message: &message}
}

// handlingStatesOf returns the stored states, nil if they belong to another last-handled configuration.
func handlingStatesOf(record *ProgressRecord, stored []byte) *handlingStates {
	if record == nil || record.Message == nil {
		return nil
	}
	all := essence.ReadSeen(*record.Message, stored)
	if all == nil {
		return nil
	}
	return &handlingStates{all: all, base: essence.StoredDigest(stored), since: record.Started}
}

// of returns the state that the handler of a finished record has seen.
func (s *handlingStates) of(record *ProgressRecord) *essence.Seen {
	i, ended := len(s.all)-1, storedTime(record.Stopped)
	for i > 0 && ended.Before(s.all[i].From) {
		i--
	}
	return &s.all[i]
}

// storedTime returns a time with the precision of the storage.
func storedTime(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// without returns the states that differ from another one and that the handlers of the records have seen, nil if there
// are none. It keeps the order.
func (s *handlingStates) without(other *Essence, finished []*ProgressRecord) *handlingStates {
	rest := &handlingStates{base: s.base, since: s.since}
	for i := range s.all {
		seen := &s.all[i]
		sees := func(record *ProgressRecord) bool { return s.of(record) == seen }
		if (other == nil || !seen.Is(other.in())) && slices.ContainsFunc(finished, sees) {
			rest.all = append(rest.all, *seen)
		}
	}
	if len(rest.all) == 0 {
		return nil
	}
	return rest
}

// savedStates returns the states that finished handlers of this handling have seen, from memory or from the object, nil if
// there are none.
func (c *cycle) savedStates() *handlingStates {
	record, _ := c.served.persistence.ProgressStorage.Fetch(handlingID, c.event.Body) // damaged records count as none
	base, finished := essence.StoredDigest(c.states.stored), []*ProgressRecord(nil)
	for _, saved := range []*handlingStates{c.entry.state.handling.seen, handlingStatesOf(record, c.states.stored)} {
		if saved == nil || saved.base != base { // of another handling, which another client has finished
			continue
		}
		if finished == nil {
			finished = c.finishedRecords()
		}
		began := func(record *ProgressRecord) bool { return !storedTime(record.Started).After(saved.since) }
		if !slices.ContainsFunc(finished, began) {
			continue
		}
		// The last-handled configuration was seen by handlers that this change does not concern, such as resume handlers.
		if saved = saved.without(c.states.before, finished); saved != nil {
			return saved
		}
	}
	return nil
}

// recordsOutdated reports whether the records on the object name another last-handled configuration than the stored one. Their handling is over, or its end
// was interrupted.
func (c *cycle) recordsOutdated() bool {
	record, _ := c.served.persistence.ProgressStorage.Fetch(handlingID, c.event.Body) // damaged records count as none
	if record == nil || record.Message == nil {
		return false
	}
	base, _, named := strings.Cut(*record.Message, " ")
	return named && base != cmp.Or(essence.StoredDigest(c.states.stored), essence.NoBase)
}

// hasSeen reports whether the time of a record shows which state its handler has seen: it has finished for that, or has
// tried a later one since, and is called again.
func (r *ProgressRecord) hasSeen() bool { return r.finished() || !r.Stopped.IsZero() }

// finishedRecords returns the stored records of handlers and sub-handlers that have finished, or had finished before the
// last-handled configuration became another one.
func (c *cycle) finishedRecords() (all []*ProgressRecord) {
	add := func(record *ProgressRecord) {
		if record != nil && record.hasSeen() {
			all = append(all, record)
		}
	}
	for _, h := range c.served.changes {
		record, _ := c.loadProgress(h.id) // damaged records count as none
		add(record)
		if record == nil {
			continue
		}
		for _, id := range record.Subrefs {
			sub, _ := c.loadProgress(HandlerID(id))
			add(sub)
		}
	}
	return all
}

// unseen returns the saved states if their digest alone is known, and is outdated. The finished handlers cannot be called
// for the difference later, so they are called again now.
func (c *cycle) unseen(saved *handlingStates) *handlingStates {
	if saved == nil || saved.all[0].State != nil || c.reason() == ReasonDelete || saved.all[0].Is(c.states.essence.in()) {
		return nil
	}
	return saved
}

// noteSeen notes that the handlers that have finished in this cycle have seen its state. Earlier ones of which nothing is
// known count as if they had seen it, too.
func (c *cycle) noteSeen() {
	var now []*ProgressRecord
	var started, last time.Time // of all finished handlers, and the latest end of the earlier ones
	found := false
	for _, p := range c.progress.all {
		if !p.record.finished() {
			continue
		}
		if p.earlier {
			last = latest(last, p.record.Stopped)
		} else if p.selected {
			now = append(now, p.record)
		}
		if p.selected {
			found, started = true, latest(started, p.record.Started)
		}
	}
	if !found {
		return
	}
	seen := c.states.seen
	if seen == nil {
		seen = &handlingStates{base: essence.StoredDigest(c.states.stored), all: []essence.Seen{{State: c.states.essence.in()}}}
		c.states.seen = seen
	}
	seen.since = latest(seen.since, started)
	if len(now) > 0 {
		seen.add(c.states.essence.in(), now, last)
	}
}

// add notes that handlers have seen a state. Their ends become later than those of earlier handlers, because the ends show
// which state a handler has seen, and the clocks of operators differ.
func (s *handlingStates) add(state *essence.Essence, finished []*ProgressRecord, last time.Time) {
	if !s.all[len(s.all)-1].Is(state) {
		from := latest(last, s.all[len(s.all)-1].From).Add(time.Microsecond)
		s.all = append(s.all, essence.Seen{State: state, From: from})
	}
	for _, record := range finished {
		record.Stopped = latest(record.Stopped, s.all[len(s.all)-1].From)
	}
}

// latest returns the later of two times, with the precision of the storage.
func latest(a, b time.Time) time.Time {
	if a, b = storedTime(a), storedTime(b); b.After(a) {
		return b
	}
	return a
}

// behind returns the oldest state that a finished handler has seen, and that differs from the current one; nil if there is
// none.
func (c *cycle) behind() *Essence {
	if c.states.seen == nil {
		return nil
	}
	for i := range c.states.seen.all {
		if seen := &c.states.seen.all[i]; !seen.Is(c.states.essence.in()) {
			return (*Essence)(seen.State)
		}
	}
	return nil
}

// storeSeen stores the states that the finished handlers have seen, or only older ones, or only the digest of the oldest
// one, in at most half of the free space. If only the digest is stored and the object changes after a crash, the finished
// handlers run again. Without it, they miss the change.
func (c *cycle) storeSeen(seen *handlingStates, stored []byte, fresh *Body, own *Patch) {
	c.served.persistence.recordPlace().Purge(handlingID, fresh, own) // records elsewhere keep their own state
	limit := (c.sizeWith(fresh, own) + annotationsLimit) / 2
	for n := min(len(seen.all), maxSeen); n > 0; n /= 2 {
		if c.storeWithin(limit, handlingID, seen.record(n, stored), fresh, own) {
			return
		}
	}
	c.storeWithin(limit, handlingID, seen.shortRecord(), fresh, own)
}

// storeNext keeps the records of the handlers that have seen a later state than the new last-handled configuration. So
// only the others are called for the rest of the change. If the records do not fit, all handlers are called.
func (c *cycle) storeNext(fresh *Body, own *Patch) {
	c.states.next = nil
	handled := c.behind()
	if handled == nil || c.reason() == ReasonDelete {
		return
	}
	c.noteSeen()
	records, finished := c.recordsBeyond(handled)
	next := c.states.seen.without(handled, finished)
	if next == nil {
		return
	}
	stored := c.storedAfter(fresh, own)
	next.base = essence.StoredDigest(stored)
	for _, record := range finished {
		next.since = latest(next.since, record.Started)
	}
	storage := c.served.persistence.ProgressStorage
	for id, record := range records {
		storage.Store(id, record, fresh, own)
	}
	c.storeSeen(next, stored, fresh, own)
	if c.states.next = next; c.sizeWith(fresh, own) > annotationsLimit {
		c.states.next = nil
		for id := range records {
			storage.Purge(id, fresh, own)
		}
		storage.Purge(handlingID, fresh, own)
	}
	storage.Flush()
}

// recordsBeyond returns the records for the rest of the change, and those of them that are finished: of the handlers that
// have seen another state than the given one. A handler whose sub-handler has seen that runs again, to call it.
func (c *cycle) recordsBeyond(handled *Essence) (records map[HandlerID]*ProgressRecord, finished []*ProgressRecord) {
	records = make(map[HandlerID]*ProgressRecord)
	now := time.Now()
	for _, h := range c.served.changes {
		if records[h.id] != nil || !h.handlesUpdates() {
			continue
		}
		family := c.familyAt(h, handled)
		for id, record := range family {
			kept := *record
			kept.Purpose = ReasonUpdate
			switch lags, below := c.lags(id, family, handled); {
			case !lags:
				finished = append(finished, &kept)
			case !below:
				continue
			default:
				kept = ProgressRecord{Started: now, Purpose: ReasonUpdate, Subrefs: record.Subrefs}
				if !c.states.seen.of(record).Is(handled.in()) {
					kept.Stopped = record.Stopped
					finished = append(finished, &kept)
				}
			}
			if records[id] = &kept; id == h.id {
				kept.Subrefs = slices.Clone(record.Subrefs)
				kept.addSubref(handlingID)
			}
		}
	}
	return records, finished
}

// familyAt returns the records of a handler and of its sub-handlers at the end of the handling, with the states that they
// have seen. It is nil if they miss no change without records, when the given state becomes the last-handled configuration.
//
// An unfinished handler has been compared with the current state, and needs no call for it. Without a record of that, it
// would count as having seen the given state. If the object returned to that state, the change would be lost.
func (c *cycle) familyAt(h *handler, handled *Essence) map[HandlerID]*ProgressRecord {
	family := map[HandlerID]*ProgressRecord{h.id: {}}
	if p := c.findProgress(h.id); p != nil && (p.selected || p.purpose != ReasonDelete && p.purpose != ReasonResume) {
		family = c.familyOf(p)
	}
	creates := c.reason() == ReasonCreate
	if creates && !family[h.id].finished() || len(family) == 1 && !family[h.id].hasSeen() && c.sameFor(h.id, handled) {
		return nil
	}
	for id, record := range family {
		switch {
		case record.hasSeen():
		case creates:
			delete(family, id)
		default:
			family[id] = c.comparedRecord(record)
		}
	}
	return family
}

// comparedRecord returns the record of a handler that was compared with the current state, instead of an unfinished one. If
// the handler has tried another state, perhaps in part, it is called once more.
func (c *cycle) comparedRecord(record *ProgressRecord) *ProgressRecord {
	seen, last := c.states.seen, time.Time{}
	if !seen.all[len(seen.all)-1].Is(c.states.essence.in()) {
		last = c.lastFinished()
	}
	compared := &ProgressRecord{Started: time.Now(), Subrefs: record.Subrefs}
	if record.Retries == 0 { // no call begins, so it is no success after a failure
		compared.Started, compared.Success = seen.since, true
	}
	seen.add(c.states.essence.in(), []*ProgressRecord{compared}, last)
	return compared
}

// lastFinished returns the latest end of all finished handlers and sub-handlers.
func (c *cycle) lastFinished() (last time.Time) {
	finished := c.finishedRecords()
	for _, p := range c.progress.all {
		if p.record.hasSeen() {
			finished = append(finished, p.record)
		}
	}
	for _, record := range finished {
		last = latest(last, record.Stopped)
	}
	return last
}

// sameFor reports whether a handler has a field, which is the same in the current state as in another one.
func (c *cycle) sameFor(id HandlerID, other *Essence) bool {
	before, now := other.View(), c.states.essence.View()
	return !slices.ContainsFunc(c.served.changes, func(h *handler) bool {
		return h.id == id && h.handlesUpdates() && h.fieldDiffers(before, now)
	})
}

// lags reports whether a handler of a family, or one of its sub-handlers, has seen nothing later than the given state. It
// also reports whether there are sub-handlers.
func (c *cycle) lags(id HandlerID, family map[HandlerID]*ProgressRecord, handled *Essence) (lags, below bool) {
	for other, record := range family {
		sub := strings.HasPrefix(string(other), string(id)+"/")
		if below = below || sub; sub || other == id {
			lags = lags || record.hasSeen() && c.states.seen.of(record).Is(handled.in())
		}
	}
	return lags, below
}

// handlesUpdates reports whether the handler may be called for an update.
func (h *handler) handlesUpdates() bool { return h.kind == kindUpdate || h.kind == kindField }

// familyOf returns the records of a handler and of its sub-handlers of all levels.
func (c *cycle) familyOf(p *progress) map[HandlerID]*ProgressRecord {
	family := map[HandlerID]*ProgressRecord{p.handler.id: p.record}
	for _, ref := range p.record.Subrefs {
		id := HandlerID(ref)
		if !strings.HasPrefix(ref, string(p.handler.id)+"/") {
			continue
		}
		if sub := c.findProgress(id); sub != nil {
			family[id] = sub.record
		} else if record, _ := c.loadProgress(id); record != nil { // damaged records count as none
			family[id] = record
		}
	}
	return family
}
