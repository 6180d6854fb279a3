package kopf

import (
	"maps"
	"time"
)

// This file knows what the finished handlers of a handling have seen of the object, for no change to be lost that comes before the others
// finish. It runs on the goroutine of the object's worker.

// savedState returns what the finished handlers of this handling have seen, as far as memory or the object keeps it, nil if there are none.
func (c *cycle) savedState() *handlingState {
	record, _ := c.settings.Persistence.ProgressStorage.Fetch(handlingID, c.event.Body) // what is damaged counts as none
	base := stateDigest(c.stored)
	for _, seen := range []*handlingState{c.entry.seen, handlingStateOf(record, c.stored)} {
		switch {
		case seen == nil || seen.base != base || !c.finishedFor(seen): // of another handling, which another client has finished
		case c.before != nil && seen.is(c.before): // by handlers that this change is nothing to, such as those of the resuming
		default:
			return seen
		}
	}
	return nil
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
	if saved == nil || saved.essence != nil || c.reason == ReasonDelete || saved.is(c.essence) {
		return nil
	}
	return saved
}

// noteSeen notes what the handlers have seen that are finished, unless others have finished before.
func (c *cycle) noteSeen() {
	if c.seen != nil {
		return
	}
	for _, p := range c.execution.all {
		if !p.selected || !p.record.finished() {
			continue
		}
		if c.seen == nil {
			c.seen = &handlingState{essence: c.essence, base: stateDigest(c.stored)}
		}
		if since := p.record.Started.Truncate(time.Microsecond); since.After(c.seen.since) {
			c.seen.since = since
		}
	}
}

// storedDigest returns the digest of the last handled state that the object has, 0 if there is none.
func (c *cycle) storedDigest() uint64 {
	if c.stored == nil {
		return 0
	}
	return (&Essence{raw: c.stored}).digest()
}

// renewSubs has the sub-handlers called again that have finished for a state that only its digest is known of, whenever their parents run.
func (c *cycle) renewSubs(now time.Time) {
	subs := make(map[HandlerID]*ProgressRecord)
	for _, h := range c.served.changes {
		if record, err := c.loadProgress(h.id); err == nil && record != nil {
			c.execution.renewBelow(h.id, record, now, subs)
		}
	}
	if len(subs) == 0 {
		return
	}
	if c.entry.pendingFlush == nil {
		c.entry.pendingFlush = &pendingFlush{base: c.storedDigest(), records: make(map[HandlerID]*ProgressRecord)}
	}
	maps.Copy(c.entry.pendingFlush.records, subs)
}

// callAgain has handlers called again, for the present state, which have finished before this cycle for another one. That one is too large to be
// stored as handled, so they cannot be called for the difference afterwards. It fails if there are none.
func (c *cycle) callAgain() bool {
	if c.seen == nil || c.seen.essence.Equal(c.essence) {
		return false
	}
	subs, found := c.execution.renew(time.Now())
	if !found {
		return false
	}
	c.log.Debug("What the finished handlers have seen is too large to be stored; they are called again.")
	c.seen = nil
	c.savePending()
	for id, record := range subs {
		if c.entry.pendingFlush.records[id] == nil || c.entry.pendingFlush.records[id].finished() {
			c.entry.pendingFlush.records[id] = record
		}
	}
	return true
}
