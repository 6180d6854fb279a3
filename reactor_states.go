package kopf

import "time"

// This file compares the object of a cycle with the state in which it was last handled. It runs on the goroutine of the object's worker.

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
		c.log.Warn("The last-handled configuration is damaged; handling all fields as changed", "error", err)
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
		c.log.Warn("The last handled state was removed from the object twice, each time right after it was stored: the object counts as handled until the operator restarts, and then as new",
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
		c.states.storedOutdated = p.tracked(c.event.Body, c.states.stored, c.states.before, now).explains(now, c.states.before, c.states.essence)
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
