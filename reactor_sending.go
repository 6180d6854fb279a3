package kopf

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file sends what a cycle leaves: the parts of the handlers, their records, the last handled
// state and the finalizer, in as few requests as it takes. It runs on the goroutine of the object's worker, and
// on that of the timer that stores what has finished while another handler runs.

// flushLater plans to store what has finished, so that a crash repeats little of it.
func (c *cycle) flushLater() {
	c.timing.Lock()
	defer c.timing.Unlock()
	if c.timer != nil {
		return
	}
	c.timers.Add(1)
	c.timer = time.AfterFunc(c.settings.Execution.FlushAfter, func() {
		defer c.timers.Done()
		c.timing.Lock()
		c.timer = nil
		c.timing.Unlock()
		c.flush(false)
	})
}

// stopTimer calls the planned flush off, or waits for the one under way.
func (c *cycle) stopTimer() {
	c.timing.Lock()
	if c.timer != nil && c.timer.Stop() {
		c.timers.Done()
	}
	c.timer = nil
	c.timing.Unlock()
	c.timers.Wait()
}

// change sends the parts that no handling is concerned with, and changes the object's finalizers if a function for
// that is given.
func (c *cycle) change(finalizers func(object map[string]any, finalizer string)) error {
	own := c.finalizing(finalizers)
	err := c.send(c.parts, own)
	if refused := (*patchRefusedError)(nil); errors.As(err, &refused) && len(c.parts) > 0 {
		for _, p := range c.parts {
			if err = c.request(p.patch); errors.As(err, &refused) {
				c.log.Error(fmt.Sprintf("The patch of handler '%s' was refused: %v", p.id, err))
			} else if err != nil {
				return err
			}
		}
		c.parts = nil
		err = c.request(own)
	}
	if err != nil {
		return err
	}
	if c.parts = nil; c.slot.unsent != nil {
		c.slot.unsent.parts = nil
	}
	return nil
}

func (c *cycle) finalizing(change func(object map[string]any, finalizer string)) *Patch {
	own := &Patch{}
	if change != nil {
		own.Transform(func(object map[string]any) { change(object, c.settings.Persistence.Finalizer) })
	}
	return own
}

// flush sends what has finished so far, and cleans up if the handling is over.
func (c *cycle) flush(ending bool) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	x := c.x
	if err := x.failure(); err != nil {
		return err
	}
	parts, own := c.outgoing(ending)
	err := c.send(parts, own)
	if refused := (*patchRefusedError)(nil); errors.As(err, &refused) && len(parts) > 0 {
		err = c.sendOneByOne(parts, ending)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.broken = err
		return err
	}
	c.purge = false
	x.parts = x.parts[len(parts):]
	x.body, x.later = c.known(), nil
	for _, p := range x.parts {
		x.later = append(x.later, p.patch)
	}
	return nil
}

// sendOneByOne finds the parts that the API server refuses and fails their handlers; all else
// goes on without them.
func (c *cycle) sendOneByOne(parts []*part, ending bool) error {
	for _, p := range parts {
		err := c.request(p.patch)
		if refused := (*patchRefusedError)(nil); errors.As(err, &refused) {
			c.x.refuse(p, err)
		} else if err != nil {
			return err
		}
	}
	_, own := c.outgoing(ending)
	return c.request(own)
}

// outgoing returns the parts to send, and what is to be stored and cleaned up with them.
func (c *cycle) outgoing(ending bool) ([]*part, *Patch) {
	fresh := c.known()
	x, p := c.x, &c.settings.Persistence
	x.mu.Lock()
	defer x.mu.Unlock()
	own := &Patch{}
	if ending && c.reason == ReasonDelete {
		own = c.finalizing(removeFinalizer)
	}
	if ending || c.purge {
		for _, id := range c.recorded() {
			p.ProgressStorage.Purge(id, fresh, own)
		}
		p.ProgressStorage.Flush()
	}
	if c.copied {
		purgeEssence(p.DiffBaseStorage, fresh, own)
	}
	if ending {
		c.storeBase(fresh, own)
	} else {
		c.storeProgress(fresh, own)
	}
	p.ProgressStorage.Touch("", fresh, own)
	p.bind(fresh, own)
	return slices.Clone(x.parts), own
}

// recorded returns the ids of all handlers that may have a record on the object.
func (c *cycle) recorded() []HandlerID {
	ids := make([]HandlerID, 0, len(c.served.changes)+len(c.x.all))
	add := func(id HandlerID) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, h := range c.served.changes {
		add(h.id)
		if !c.copied {
			continue
		}
		if record, _ := c.settings.Persistence.ProgressStorage.Fetch(h.id, c.event.Body); record != nil { // of another object, and so not loaded
			for _, sub := range record.Subrefs {
				add(HandlerID(sub))
			}
		}
	}
	for _, p := range c.x.all {
		add(p.handler.id)
		for _, sub := range p.record.Subrefs {
			add(HandlerID(sub))
		}
	}
	return ids
}

// base returns the state that counts as handled after the handling: the oldest one that
// a handler has seen in it, so that no change is lost for it (CH-T1).
func (c *cycle) base() *Essence {
	if c.carried != nil {
		return c.carried
	}
	return c.essence
}

// stores tells whether the end of the handling stores another state than is stored already.
func (c *cycle) stores() bool { return c.before == nil || c.renewed || !c.base().Equal(c.before) }

// storeBase stores the state that counts as handled from now on.
func (c *cycle) storeBase(fresh *Body, own *Patch) {
	storage := c.settings.Persistence.DiffBaseStorage
	if c.stores() {
		storage.Store(c.base(), fresh, own)
		p := &c.settings.Persistence
		p.track(p.trackingOf(c.served.fields), fresh, own)
	}
	purgeEssence(carriedStorage(storage), fresh, own)
}

// storeProgress stores the records that differ from those on the object, and beside them the state
// that the finished handlers have seen.
func (c *cycle) storeProgress(fresh *Body, own *Patch) {
	storage := c.settings.Persistence.ProgressStorage
	finished := false
	for _, p := range c.x.all {
		if !p.selected {
			continue
		}
		finished = finished || p.record.finished()
		stored, err := storage.Fetch(p.handler.id, fresh)
		if c.purge || err != nil || stored == nil || p.record.changedFrom(stored) {
			storage.Store(p.handler.id, p.record, fresh, own)
		}
	}
	storage.Flush()
	if finished && c.reason != ReasonDelete {
		if c.carried == nil {
			c.carried = c.essence
		}
		carriedStorage(c.settings.Persistence.DiffBaseStorage).Store(c.carried, fresh, own)
	}
}

// send sends the parts together with what the framework itself has to change.
func (c *cycle) send(parts []*part, own *Patch) error {
	total := &Patch{}
	for _, p := range parts {
		total.merge = combineMerges(total.merge, p.patch.merge)
		total.transforms = append(total.transforms, p.patch.transforms...)
	}
	total.merge = combineMerges(total.merge, own.merge)
	total.transforms = append(total.transforms, own.transforms...)
	before := c.known()
	if err := c.request(total); err != nil {
		return err
	}
	if len(parts)+len(own.transforms) > 0 && c.known() != before {
		c.contest(before, parts, total)
	}
	return nil
}
