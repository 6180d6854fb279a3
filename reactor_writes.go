package kopf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file sends what a cycle leaves: the handler patches, their records, the last handled
// state and the finalizer, in as few requests as it takes. It runs on the goroutine of the object's worker, and
// on that of the timer that stores what has finished while another handler runs.

// flushLater plans to store what has finished, so that a crash repeats little of it. If storing has just failed, it does not wait: nothing
// more is begun before it is known whether anything can be stored.
func (c *cycle) flushLater() {
	c.timing.Lock()
	failing := c.failures > 0
	c.timing.Unlock()
	if failing {
		c.flushBetween()
	} else {
		c.planFlush(c.settings.Execution.FlushAfter)
	}
}

// flushBetween stores what has finished between two handlers, and stops the handling if it fails.
func (c *cycle) flushBetween() {
	err := c.tryFlush()
	c.execution.mu.Lock()
	c.execution.broken = err
	c.execution.mu.Unlock()
}

// planFlush plans a flush, unless one is planned. One that fails is planned again, after growing pauses, for as long as handlers run.
func (c *cycle) planFlush(after time.Duration) {
	c.timing.Lock()
	defer c.timing.Unlock()
	if c.timer != nil || c.flushed {
		return
	}
	c.timers.Add(1)
	c.timer = time.AfterFunc(after, c.flushNow)
}

// flushNow is a planned flush.
func (c *cycle) flushNow() {
	defer c.timers.Done()
	c.timing.Lock()
	c.timer = nil
	c.timing.Unlock()
	c.tryFlush()
}

// tryFlush stores what has finished so far, and plans to do so again if it fails.
func (c *cycle) tryFlush() error {
	err := c.flush(false)
	c.timing.Lock()
	pause := backoffDelay(c.failures)
	if c.failures++; err == nil {
		c.failures = 0
	}
	c.timing.Unlock()
	if err == nil || errors.Is(err, errGone) {
		return err
	}
	if conflict := (*conflictError)(nil); !errors.As(err, &conflict) {
		c.log.Warn(fmt.Sprintf("What has finished could not be stored yet; while other handlers run, it is tried again in %s.", pause), "error", err)
	}
	c.planFlush(pause)
	return err
}

// stopTimer calls the planned flush off, or waits for the one under way. None is planned after it.
func (c *cycle) stopTimer() {
	c.timing.Lock()
	if c.timer != nil && c.timer.Stop() {
		c.timers.Done()
	}
	c.timer, c.flushed = nil, true
	c.timing.Unlock()
	c.timers.Wait()
}

// change sends the patches that no handling is concerned with, together with what the framework changes itself, which may be nil.
func (c *cycle) change(own *Patch) error {
	if own == nil {
		own = &Patch{}
	}
	patches := c.eventPatches
	err := c.send(patches, own)
	switch {
	case refusesPart(err) && slices.ContainsFunc(patches, (*handlerPatch).isOpen):
		if err = c.sendEach(patches); err == nil {
			if err = c.request(own); err == nil {
				err = firstRefusal(patches)
			}
		}
	case c.deferEventPatches(err, patches):
		err = c.send(changePatches(patches), own)
	}
	if err != nil {
		return err
	}
	c.logStored(patches, nil)
	c.collectDeferred(patches)
	if c.eventPatches = nil; c.entry.pendingFlush != nil {
		c.entry.pendingFlush.patches = nil
	}
	return nil
}

// logStored logs the success of handlers whose outcome is stored now: of raw events, by their patches, and of changes.
func (c *cycle) logStored(patches []*handlerPatch, changes []HandlerID) {
	for _, p := range patches {
		if p.succeeded && p.refusal == nil {
			p.succeeded = false
			logOutcome(c.handlers, c.log, "Handler", p.id, outcome{final: true}, nil)
		}
	}
	for _, id := range changes {
		logOutcome(c.handlers, c.execution.cause.Logger, "Handler", id, outcome{final: true}, nil)
	}
}

// flush sends what has finished so far, and cleans up if the handling is over.
func (c *cycle) flush(ending bool) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	var patches []*handlerPatch
	var succeeded []HandlerID
	err := safecall.Do(func() error { // storages can be users', and this can be the goroutine of a timer
		var own *Patch
		patches, own, succeeded = c.outgoing(ending)
		err := c.send(patches, own)
		switch {
		case refusesPart(err) && slices.ContainsFunc(patches, (*handlerPatch).isOpen):
			if err = c.sendEach(patches); err == nil {
				err = c.sendRecords(patches, ending)
			}
		case c.deferEventPatches(err, patches):
			err = c.send(changePatches(patches), own)
		}
		return err
	})
	if succeeded = c.finishFlush(patches, succeeded, err); err != nil {
		return err
	}
	c.logStored(patches, succeeded)
	c.collectDeferred(patches)
	return nil
}

// finishFlush notes how a flush has ended, and returns those of the handlers that have succeeded whose patches were not refused.
func (c *cycle) finishFlush(patches []*handlerPatch, succeeded []HandlerID, err error) []HandlerID {
	e := c.execution
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		return nil
	}
	c.purge, e.broken = false, nil
	e.patches = e.patches[len(patches):]
	e.body, e.unapplied = c.known(), nil
	for _, p := range e.patches {
		e.unapplied = append(e.unapplied, p.patch)
	}
	succeeded = slices.DeleteFunc(succeeded, func(id HandlerID) bool { return !slices.Contains(e.succeeded, id) })
	e.succeeded = slices.DeleteFunc(e.succeeded, func(id HandlerID) bool { return slices.Contains(succeeded, id) })
	return succeeded
}

// sendEach sends each patch alone. Those that are taken are emptied, and those that are refused permanently as well, whose handlers fail; the others
// keep their refusals. An error that is about no patch stops it.
func (c *cycle) sendEach(patches []*handlerPatch) error {
	for _, p := range patches {
		if p.patch.Empty() {
			continue
		}
		err := c.request(p.patch)
		var refused *patchRefusedError
		switch {
		case err == nil:
			p.patch, p.refusals, p.refusal = &Patch{}, 0, nil
			c.logStored([]*handlerPatch{p}, nil)
		case !refusesPart(err):
			return err
		case errors.As(err, &refused), (isDenied(err) || !p.change) && p.refusals+1 >= maxRefusals:
			c.failRefused(p, err)
			p.patch, p.refusal = &Patch{}, nil
		default:
			p.refusals, p.refusal = p.refusals+1, err
		}
	}
	return nil
}

// sendRecords sends what goes with the patches that were sent alone: the records are of all that have succeeded, and so wait for those that are
// refused for now. An object that is let go does not wait for what is refused twice.
func (c *cycle) sendRecords(patches []*handlerPatch, ending bool) error {
	refusal := firstRefusal(patches)
	waiting := slices.ContainsFunc(patches, func(p *handlerPatch) bool { return p.change && p.refusals == 1 && p.refusal != nil })
	if refusal != nil && (waiting || !ending || c.reason != ReasonDelete) {
		return refusal
	}
	_, own, _ := c.outgoing(ending)
	if err := c.request(own); err != nil || refusal == nil {
		return err
	}
	for _, p := range patches {
		if p.refusal == nil {
			continue
		}
		c.log.Error(fmt.Sprintf("The patch of handler '%s' could not be stored before the end of the object, and is dropped.", p.id), "error", p.refusal)
		c.execution.mu.Lock()
		c.execution.succeeded = slices.DeleteFunc(c.execution.succeeded, func(id HandlerID) bool { return id == p.id && p.change })
		c.execution.mu.Unlock()
		p.patch, p.refusal, p.succeeded = &Patch{}, nil, false
	}
	return nil
}

// firstRefusal returns why the first patch of a handler of changes is refused for now, nil if none is.
func firstRefusal(patches []*handlerPatch) error {
	for _, p := range patches {
		if p.change && p.refusal != nil {
			return p.refusal
		}
	}
	return nil
}

// changePatches returns the patches without those of handlers of raw events.
func changePatches(patches []*handlerPatch) []*handlerPatch {
	return slices.DeleteFunc(slices.Clone(patches), func(p *handlerPatch) bool { return !p.change })
}

// deferEventPatches reports whether all else is to be sent without the patches of handlers of raw events, because an answer says that a patch with them cannot be
// stored now, and notes that of them.
func (c *cycle) deferEventPatches(err error, patches []*handlerPatch) bool {
	var conflict *conflictError
	if StatusCode(err) == 0 || errors.As(err, &conflict) || len(changePatches(patches)) == len(patches) {
		return false
	}
	for _, p := range patches {
		if !p.change && !p.patch.Empty() {
			p.refusals, p.refusal = p.refusals+1, err
		}
	}
	return true
}

// collectDeferred leaves the patches of handlers of raw events that could not be stored to a later cycle: nothing waits for them.
func (c *cycle) collectDeferred(patches []*handlerPatch) {
	for _, p := range patches {
		if p.refusal != nil {
			c.deferred = append(c.deferred, p)
		}
	}
}

// failRefused fails the handler of a part that the API server does not take, in this handling or in what is kept of an earlier one.
func (c *cycle) failRefused(p *handlerPatch, err error) {
	switch u := c.entry.pendingFlush; {
	case c.execution != nil && len(c.execution.all) > 0:
		c.execution.failRefused(p, err)
		return
	case p.change && u != nil:
		c.log.Error(fmt.Sprintf("Handler '%s' failed permanently: its patch was refused: %v", p.id, err))
		if record := u.records[p.id]; record != nil {
			record.failRefused(err)
		}
		u.succeeded = slices.DeleteFunc(u.succeeded, func(id HandlerID) bool { return id == p.id })
	default:
		c.log.Error(fmt.Sprintf("The patch of handler '%s' was refused: %v", p.id, err))
	}
	p.succeeded = false
}

// refusesPart reports whether the API server may have refused something in a patch, and would take all else: it is neither overloaded, nor
// has the object, its version or the credentials been refused.
func refusesPart(err error) bool {
	var refused *patchRefusedError
	var conflict *conflictError
	switch {
	case errors.As(err, &refused):
		return true
	case errors.As(err, &conflict):
		return false
	case isDenied(err):
		return true
	}
	switch code := StatusCode(err); code {
	case codeUnauthorized, codeNotFound, codeTimeout, codeTooMany:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// outgoing returns the patches to send, what is to be stored and cleaned up with them, and whose success is in that.
func (c *cycle) outgoing(ending bool) ([]*handlerPatch, *Patch, []HandlerID) {
	fresh := c.latest()
	e, p := c.execution, &c.settings.Persistence
	e.mu.Lock()
	defer e.mu.Unlock()
	own := &Patch{}
	if ending && c.reason == ReasonDelete {
		own.removes = []string{p.Finalizer}
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
	purgeEssence(siblingStorage(p.DiffBaseStorage, formerKey), fresh, own)
	if ending {
		c.storeBase(fresh, own)
	} else {
		c.storeProgress(fresh, own)
	}
	p.ProgressStorage.Touch("", fresh, own)
	p.bind(fresh, own)
	return slices.Clone(e.patches), own, slices.Clone(e.succeeded)
}

// recorded returns the ids of all handlers that may have a record on the object.
func (c *cycle) recorded() []HandlerID {
	ids := append(make([]HandlerID, 0, len(c.served.changes)+len(c.execution.all)+1), handlingID)
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
	for _, p := range c.execution.all {
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
	if c.seen != nil {
		return c.seen.essence
	}
	return c.essence
}

// storesBase reports whether the end of the handling stores another state than is stored already. That of an object that goes is of no use.
func (c *cycle) storesBase() bool {
	return c.reason != ReasonDelete && (c.before == nil || c.baseOutdated || !c.base().Equal(c.before))
}

// storeBase stores the state that counts as handled from now on.
func (c *cycle) storeBase(fresh *Body, own *Patch) {
	if !c.storesBase() {
		return
	}
	p, state := &c.settings.Persistence, c.base()
	if withOthers := p.withOthers(c.event.Body, c.served.fields); withOthers != nil && state == c.essence {
		p.DiffBaseStorage.Store(withOthers, fresh, own)
		if annotationsSize(fresh, own) <= annotationsLimit { // what of others does not fit is left out
			state = withOthers
		}
	}
	p.DiffBaseStorage.Store(state, fresh, own)
	p.track(p.trackingOf(c.served.fields), state, fresh, own)
}

// storeProgress stores the records that differ from those on the object, and with them the state
// that the finished handlers have seen.
func (c *cycle) storeProgress(fresh *Body, own *Patch) {
	storage := c.settings.Persistence.ProgressStorage
	keeps := c.reason != ReasonDelete
	if keeps {
		c.noteSeen()
	}
	for _, p := range c.execution.all {
		if !p.selected {
			continue
		}
		if keeps && p.record.finished() {
			p.refer(handlingID)
		}
	}
	for _, p := range c.execution.all {
		if !p.selected {
			continue
		}
		stored, err := storage.Fetch(p.handler.id, fresh)
		if c.purge || err != nil || stored == nil || p.record.changedFrom(stored) {
			storage.Store(p.handler.id, p.record, fresh, own)
		}
	}
	c.storeRenewed(fresh, own)
	if keeps && c.seen != nil {
		c.storeSeen(fresh, own)
	}
	storage.Flush()
}

// storeRenewed stores the records of sub-handlers that are to run again, but whose parents have not run yet.
func (c *cycle) storeRenewed(fresh *Body, own *Patch) {
	if c.entry.pendingFlush == nil {
		return
	}
	storage := c.settings.Persistence.ProgressStorage
	for id, record := range c.entry.pendingFlush.records {
		if slices.ContainsFunc(c.execution.all, func(p *progress) bool { return p.handler.id == id }) {
			continue
		}
		if stored, err := storage.Fetch(id, fresh); err == nil && stored != nil && record.changedFrom(stored) {
			storage.Store(id, record, fresh, own)
		}
	}
}

// storeSeen stores what the finished handlers have seen, or its digest, unless that takes more than half of the space that is left. With the
// digest, a crash makes the finished handlers run again if the object changes before the others finish; with nothing, they miss that change.
func (c *cycle) storeSeen(fresh *Body, own *Patch) {
	storage := c.settings.Persistence.ProgressStorage
	storage.Purge(handlingID, fresh, own)
	patches := []*Patch{own}
	for _, p := range c.execution.patches {
		patches = append(patches, p.patch)
	}
	size := annotationsSize(fresh, patches...)
	for _, record := range []*ProgressRecord{c.seen.record(c.stored), c.seen.shortRecord()} {
		storage.Store(handlingID, record, fresh, own)
		if annotationsSize(fresh, patches...) <= (size+annotationsLimit)/2 {
			return
		}
		storage.Purge(handlingID, fresh, own)
	}
}

// send sends the patches together with what the framework itself has to change.
func (c *cycle) send(patches []*handlerPatch, own *Patch) error {
	total := &Patch{adds: own.adds, removes: own.removes}
	for _, p := range patches {
		total.merge = jsonpatch.CombineMerges(total.merge, p.patch.merge)
		total.transforms = append(total.transforms, p.patch.transforms...)
	}
	total.merge = jsonpatch.CombineMerges(total.merge, own.merge)
	total.transforms = append(total.transforms, own.transforms...)
	before, sent := c.latest(), c.sent
	if err := c.request(total); err != nil {
		return err
	}
	for _, p := range patches {
		p.refusals, p.refusal = 0, nil
	}
	if (len(patches) > 0 || own.finalizes()) && c.sent > sent {
		c.detectConflict(before, patches, total)
	}
	return nil
}

// deferPatches saves the patches of handlers of raw events that could not be stored for a later cycle.
func (c *cycle) deferPatches() result {
	e := c.entry
	if e.pendingFlush == nil {
		e.pendingFlush = &pendingFlush{}
	}
	refusals := 0
	e.pendingFlush.patches = coalesce(append(c.deferred, e.pendingFlush.patches...))
	for _, p := range e.pendingFlush.patches {
		refusals = max(refusals, p.refusals)
	}
	c.log.Debug("What a handler of events has changed could not be stored yet.", "error", c.deferred[0].refusal)
	return result{}.requeueWithin(backoffDelay(refusals-1), c.known())
}

// savePending saves what could not be sent for the next cycle.
func (c *cycle) savePending() {
	defer func() { // what was stored, or is not to be stored any more, has been emptied
		u := c.entry.pendingFlush
		u.patches = slices.DeleteFunc(append(c.deferred, u.patches...), func(p *handlerPatch) bool { return p.patch.Empty() && !p.succeeded })
	}()
	u := &pendingFlush{patches: c.eventPatches}
	if old := c.entry.pendingFlush; old != nil {
		u.records, u.base, u.succeeded = old.records, old.base, old.succeeded
	}
	if e := c.execution; e != nil {
		u.base = c.storedDigest()
		u.patches, u.succeeded, u.records = e.patches, e.succeeded, make(map[HandlerID]*ProgressRecord)
		if old := c.entry.pendingFlush; old != nil { // with those of sub-handlers whose parents have not run
			maps.Copy(u.records, old.records)
		}
		for _, p := range e.all {
			u.records[p.handler.id] = p.record
		}
		c.noteSeen()
		c.entry.seen = c.seen
	}
	c.entry.pendingFlush = u
}

// pendingFlush is what could not be sent: it is sent with the next cycle instead of calling the
// handlers again.
type pendingFlush struct {
	patches   []*handlerPatch
	succeeded []HandlerID // whose success is to be logged
	records   map[HandlerID]*ProgressRecord
	base      uint64 // the digest of the last handled state that the object had when the records were made
}
