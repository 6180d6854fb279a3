package kopf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file sends the results of a cycle: patches, records, the last-handled configuration and the finalizer, in as few requests as possible. It runs on the
// goroutine of the object's worker, or on that of the timer that stores results while another handler runs.

// cycleWrites are the unsent results of a cycle.
type cycleWrites struct {
	patches   []*handlerPatch // in the order of the calls
	deferred  []*handlerPatch // of event handlers, which could not be stored
	body      *Body           // the object with the patches applied, except for the following
	unapplied []*Patch
	succeeded []HandlerID // whose success is logged when it is stored
	failure   error       // of the last flush between two handlers; nil after a success
}

// plannedFlush stores the results of finished handlers while another handler runs.
type plannedFlush struct {
	turn     chan struct{}  // holds a token during a flush, because there is one at a time
	timer    *time.Timer    // nil if no flush is planned
	timers   sync.WaitGroup // the planned and running flushes
	stopped  bool           // whether to plan no more: the worker sends the rest
	failures int            // in a row
}

// flushLater plans a flush, so that a crash repeats little work. After a failure, it flushes at once, and no handler starts before the next success.
func (c *cycle) flushLater() {
	c.mu.Lock()
	failing := c.planned.failures > 0
	c.mu.Unlock()
	if failing {
		c.flushBetween()
	} else {
		c.planFlush(c.reactor.settings.Execution.FlushAfter)
	}
}

// flushBetween flushes between two handlers. A failure stops the handling, unless the state is too large while the last-handled configuration is also stored.
// The end of the handling stores such a state.
func (c *cycle) flushBetween() {
	err := c.tryFlush()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes.failure = err; overflows(err) {
		c.writes.failure = nil
	}
}

// transforms reports whether unsent patches have functions of users. A flush calls them, so it must not happen while a handler
// runs: they may share data.
func (c *cycle) transforms() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.writes.patches, func(p *handlerPatch) bool {
		return slices.ContainsFunc(p.patch.changes.Transforms, isTransformFunc)
	})
}

// planFlush plans a flush, unless one is planned.
func (c *cycle) planFlush(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.planned.timer != nil || c.planned.stopped {
		return
	}
	c.planned.timers.Add(1)
	c.planned.timer = time.AfterFunc(after, c.flushNow)
}

// flushNow is a planned flush.
func (c *cycle) flushNow() {
	defer c.planned.timers.Done()
	c.mu.Lock()
	c.planned.timer = nil
	c.mu.Unlock()
	if !c.transforms() { // otherwise, the worker flushes after the running handler
		c.tryFlush()
	}
}

// tryFlush flushes, and plans a retry after a failure, with growing delays.
func (c *cycle) tryFlush() error {
	err := c.flush(false)
	c.mu.Lock()
	pause := backoffDelay(c.planned.failures)
	if c.planned.failures++; err == nil {
		c.planned.failures = 0
	}
	c.mu.Unlock()
	if err == nil || errors.Is(err, errGone) {
		return err
	}
	if conflict := (*conflictError)(nil); !errtype.As(err, &conflict) {
		c.log.Warn("Storing the progress failed while handlers run; retrying", "delay", pause, "error", err, "help", "K407")
	}
	c.planFlush(pause)
	return err
}

// stopFlush cancels the planned flush, or waits for the running one. No flush is planned afterwards.
func (c *cycle) stopFlush() {
	c.mu.Lock()
	if c.planned.timer != nil && c.planned.timer.Stop() {
		c.planned.timers.Done()
	}
	c.planned.timer, c.planned.stopped = nil, true
	c.mu.Unlock()
	c.planned.timers.Wait()
}

// write sends the patches outside of a handling, together with kopf's own changes, which may be nil.
func (c *cycle) write(own *Patch) error {
	patches := c.writes.patches
	if own == nil && len(patches) == 0 && c.entry.state.handling.pendingFlush == nil {
		return nil
	}
	own = cmp.Or(own, &Patch{})
	err := c.send(patches, own)
	switch {
	case refusesPart(err) && slices.ContainsFunc(patches, (*handlerPatch).isOpen):
		if err = c.sendEach(patches); err == nil {
			if _, err = c.request(own); err == nil {
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
	c.writes.patches = nil
	if h := &c.entry.state.handling; h.pendingFlush != nil {
		if h.pendingFlush.patches = nil; h.pendingFlush.empty() {
			h.pendingFlush = nil
		}
	}
	return nil
}

// logStored logs the success of handlers whose results are now stored: event handlers with their patches, and change handlers.
func (c *cycle) logStored(patches []*handlerPatch, changes []HandlerID) {
	for _, p := range patches {
		if p.succeeded && p.refusal == nil {
			p.succeeded = false
			c.reactor.logSuccess(c.log, "Handler", p.id)
		}
	}
	for _, id := range changes {
		c.reactor.logSuccess(c.cause.Logger, "Handler", id)
	}
}

// flush sends the results so far, and removes the records at the end of the handling. After the last event, it repeats a
// conflicting write with the newest state, because no further cycle would.
func (c *cycle) flush(ending bool) error {
	c.planned.turn <- struct{}{}
	defer func() { <-c.planned.turn }()
	err := c.flushOnce(ending)
	for attempt := 1; attempt < manyConflicts && c.refreshAfter(err); attempt++ {
		err = c.flushOnce(ending)
	}
	return err
}

// refreshAfter reads the newest state of the object after a conflict that no later cycle resolves, and reports whether it did.
func (c *cycle) refreshAfter(err error) bool {
	var conflict *conflictError
	if !errtype.As(err, &conflict) || !c.reactor.queue.hasEnded() {
		return false
	}
	body, err := c.sender.get(c.knownBody())
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = body
	return true
}

func (c *cycle) flushOnce(ending bool) error {
	var patches []*handlerPatch
	var succeeded []HandlerID
	err := safecall.Do(func() error { // a storage of the user may panic, perhaps on the goroutine of a timer
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

// finishFlush records the result of a flush, and returns the successful handlers without refused patches.
func (c *cycle) finishFlush(patches []*handlerPatch, succeeded []HandlerID, err error) []HandlerID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		return nil
	}
	w := &c.writes
	c.progress.purge, w.failure = false, nil
	w.patches = w.patches[len(patches):]
	c.noteStoredLocked()
	succeeded = slices.DeleteFunc(succeeded, func(id HandlerID) bool { return !slices.Contains(w.succeeded, id) })
	w.succeeded = slices.DeleteFunc(w.succeeded, func(id HandlerID) bool { return slices.Contains(succeeded, id) })
	return succeeded
}

// sendEach sends each patch alone, and empties stored ones. Permanent refusals also empty them and fail their handlers. Other refusals are kept. An error
// that does not concern the patch ends it.
func (c *cycle) sendEach(patches []*handlerPatch) error {
	for _, p := range patches {
		if !p.isOpen() {
			continue
		}
		if err := c.sendAlone(p); err != nil {
			return err
		}
	}
	return nil
}

// sendAlone sends one patch. The conditions of a refused one follow at once, because they show the failure.
func (c *cycle) sendAlone(p *handlerPatch) error {
	total, late := c.combine([]*handlerPatch{p}, &Patch{})
	_, err := c.request(total)
	c.dropStoredStatus([]*handlerPatch{p}, err)
	if err == nil {
		if _, err = c.request(late); err != nil {
			c.keepConditions([]*handlerPatch{p})
		}
	}
	var refused *patchRefusedError
	var failed *objectpatch.TransformError
	transforming := errtype.As(err, &failed)
	switch {
	case err == nil:
		p.refusals, p.refusal = 0, nil
		c.emptyPatch(p, objectpatch.Changes{})
		c.logStored([]*handlerPatch{p}, nil)
	case !refusesPart(err):
		return err
	case errtype.As(err, &refused), transforming && permanent(failed), (isDenied(err) || transforming || !p.change) && p.refusals+1 >= maxRefusals:
		conditions := c.failRefused(p, err)
		p.refusals, p.refusal = 0, nil
		if c.emptyPatch(p, conditions); p.isOpen() {
			return c.sendAlone(p)
		}
	default:
		p.refusals, p.refusal = p.refusals+1, err
	}
	return nil
}

// sendRecords sends kopf's own changes after the single patches. The records contain all successes, so they wait for patches with temporary refusals. The end
// of a deletion waits only for the second refusal.
func (c *cycle) sendRecords(patches []*handlerPatch, ending bool) error {
	refusal := firstRefusal(patches)
	waiting := slices.ContainsFunc(patches, func(p *handlerPatch) bool { return p.change && p.refusals == 1 && p.refusal != nil })
	if refusal != nil && (waiting || !ending || c.reason() != ReasonDelete) {
		return refusal
	}
	_, own, _ := c.outgoing(ending)
	if _, err := c.request(own); err != nil || refusal == nil {
		return err
	}
	for _, p := range patches {
		if p.refusal == nil {
			continue
		}
		c.log.Error("Dropped the patch of a handler, because it could not be stored before the end of the object", handlerKey, p.id, "error", p.refusal, "help", "K505")
		c.mu.Lock()
		c.writes.succeeded = slices.DeleteFunc(c.writes.succeeded, func(id HandlerID) bool { return id == p.id && p.change })
		c.mu.Unlock()
		p.refusal, p.succeeded = nil, false
		c.emptyPatch(p, objectpatch.Changes{})
	}
	return nil
}

// emptyPatch empties a patch that needs no more requests, except for conditions.
func (c *cycle) emptyPatch(p *handlerPatch, conditions objectpatch.Changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.patch, p.conditions = &Patch{}, conditions
}

// keepConditions keeps only the conditions of patches, after everything else of them was stored. Sent again, it would overwrite later
// changes by other clients.
func (c *cycle) keepConditions(patches []*handlerPatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range patches {
		p.patch = &Patch{}
	}
	c.noteStoredLocked()
}

// dropStoredStatus drops the status of patches after an error that says that it was stored.
func (c *cycle) dropStoredStatus(patches []*handlerPatch, err error) {
	var stored *statusStoredError
	if !errtype.As(err, &stored) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range patches {
		rest := *p.patch
		rest.changes = rest.changes.WithoutStatus()
		p.patch = &rest
	}
	c.noteStoredLocked()
}

// noteStoredLocked makes handlers see the newest state with the patches that are left.
func (c *cycle) noteStoredLocked() {
	w := &c.writes
	w.body, w.unapplied = c.known, nil
	for _, p := range w.patches {
		w.unapplied = append(w.unapplied, p.patch)
	}
}

// firstRefusal returns the first temporary refusal of a change handler's patch, nil if there is none.
func firstRefusal(patches []*handlerPatch) error {
	for _, p := range patches {
		if p.change && p.refusal != nil {
			return p.refusal
		}
	}
	return nil
}

// changePatches returns the patches of change handlers.
func changePatches(patches []*handlerPatch) []*handlerPatch {
	return slices.DeleteFunc(slices.Clone(patches), func(p *handlerPatch) bool { return !p.change })
}

// deferEventPatches reports whether to send the other patches without those of event handlers, because of a refusal. It records the refusal for those.
func (c *cycle) deferEventPatches(err error, patches []*handlerPatch) bool {
	var conflict *conflictError
	if StatusCode(err) == 0 || errtype.As(err, &conflict) || len(changePatches(patches)) == len(patches) {
		return false
	}
	for _, p := range patches {
		if !p.change && p.isOpen() {
			p.refusals, p.refusal = p.refusals+1, err
		}
	}
	return true
}

// collectDeferred defers refused patches of event handlers to a later cycle, because no other work depends on them.
func (c *cycle) collectDeferred(patches []*handlerPatch) {
	for _, p := range patches {
		if p.refusal != nil {
			c.writes.deferred = append(c.writes.deferred, p)
		}
	}
}

// failRefused fails the handler of a refused patch, in this handling or in the saved state of an earlier one. It returns the
// conditions to store instead of the patch.
func (c *cycle) failRefused(p *handlerPatch, err error) (conditions objectpatch.Changes) {
	log := withStack(c.log, err)
	switch u := c.entry.state.handling.pendingFlush; {
	case p.refused == nil && len(c.progress.all) > 0:
		c.failHandler(p, err)
		return conditions
	case p.change && u != nil:
		log.Error(fmt.Sprintf("Handler '%s' failed permanently: its patch was refused: %v", p.id, err), handlerAttr(p.id), "help", "K306")
		o := c.object(c.event.Body)
		o.postFailure("Handler", p.id, fmt.Errorf("its patch was refused: %w", err))
		if record := u.records[p.id]; record != nil {
			record.failRefused(err)
		}
		u.succeeded = slices.DeleteFunc(u.succeeded, func(id HandlerID) bool { return id == p.id })
	default:
		if errtype.As(err, new(*objectpatch.TransformError)) {
			log.Error("Dropped the patch of a handler, because its transformation failed", handlerKey, p.id, "error", err, "help", "K614")
		} else {
			log.Error("The API server refused the patch of a handler", handlerKey, p.id, "error", err, "help", "K605")
		}
		if p.refused != nil {
			conditions = p.refused(c, p, err)
		}
	}
	p.succeeded = false
	return conditions
}

// withStack adds the stack of a panic to a logger.
func withStack(log *slog.Logger, err error) *slog.Logger {
	if stack := safecall.StackOf(err); stack != nil {
		return log.With("stack", string(stack))
	}
	return log
}

// refusesPart reports whether a transformation has failed, or the API server may have refused a part of a patch and would accept the rest. Overload does not
// count, nor do refusals of the object, its version or the credentials.
func refusesPart(err error) bool {
	var refused *patchRefusedError
	var conflict *conflictError
	var failed *objectpatch.TransformError
	switch {
	case errtype.As(err, &refused), errtype.As(err, &failed):
		return true
	case errtype.As(err, &conflict):
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

// outgoing returns the patches to send, kopf's own changes, and the handlers whose success they store.
func (c *cycle) outgoing(ending bool) ([]*handlerPatch, *Patch, []HandlerID) {
	fresh := c.latest()
	p := c.served.persistence
	c.mu.Lock()
	defer c.mu.Unlock()
	own := &Patch{}
	if ending && c.reason() == ReasonDelete {
		own.changes.Removes = []string{p.Finalizer}
	}
	if ending || c.progress.purge {
		for _, id := range c.recorded() {
			p.ProgressStorage.Purge(id, fresh, own)
		}
		p.ProgressStorage.Flush()
	}
	if c.states.copied {
		purgeEssence(p.DiffBaseStorage, fresh, own)
	} else if s, ok := p.DiffBaseStorage.(*SmartDiffBaseStorage); ok && c.states.differ {
		s.purgeOther(fresh, own)
	}
	purgeEssence(siblingStorage(p.DiffBaseStorage, formerKey), fresh, own)
	if ending {
		c.storeBase(fresh, own)
		c.storeNext(fresh, own)
		c.storeFailures(fresh, own)
	} else {
		c.storeProgress(fresh, own)
	}
	p.ProgressStorage.Touch("", fresh, own)
	p.bind(fresh, own)
	return slices.Clone(c.writes.patches), own, slices.Clone(c.writes.succeeded)
}

// recorded returns the IDs of all handlers that may have a record on the object.
func (c *cycle) recorded() []HandlerID {
	ids := append(make([]HandlerID, 0, len(c.served.changes)+len(c.progress.all)+1), handlingID)
	add := func(id HandlerID) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, h := range c.served.changes {
		add(h.id)
		if !c.states.copied && !c.states.differ {
			continue
		}
		for _, record := range c.served.persistence.recordsOf(h.id, c.event.Body) { // invalid ones, which were not loaded
			for _, sub := range record.Subrefs {
				add(HandlerID(sub))
			}
		}
	}
	for _, p := range c.progress.all {
		add(p.handler.id)
		for _, sub := range p.record.Subrefs {
			add(HandlerID(sub))
		}
	}
	return ids
}

// leavesRecords reports whether records remain after the end of the handling: a request has stored them, and its response was lost. The next event removes
// them.
func (c *cycle) leavesRecords() bool {
	if c.entry.state.retry.errors+c.planned.failures == 0 {
		return false
	}
	known := c.knownBody()
	return slices.ContainsFunc(c.recorded(), func(id HandlerID) bool {
		record, _ := c.served.persistence.ProgressStorage.Fetch(id, known) // damaged records do not count
		return record != nil
	})
}

// handledState returns the new last-handled configuration. If handlers have not seen the current state, it is the oldest
// one that they have seen, so that they miss no change (CH-T1).
func (c *cycle) handledState() *Essence {
	return cmp.Or(c.behind(), c.states.essence)
}

// storesBase reports whether the end of the handling changes the last-handled configuration. A deleted object needs none.
func (c *cycle) storesBase() bool {
	return c.reason() != ReasonDelete && (c.states.before == nil || c.states.storedOutdated || !c.handledState().Equal(c.states.before))
}

// detectOtherOperator warns, once, if another operator has handled the object at the same time. Its last-handled configuration has then changed, but not by
// this operator, which is about to store it. Peers may overlap for a moment, so they do not count.
func (c *cycle) detectOtherOperator(storesBase bool) {
	latest := c.latest()
	if !storesBase || c.handlers.Err() != nil || latest.version == c.event.Body.version || c.reactor.meter.Load(metrics.Peers) > 0 {
		return
	}
	stored, err := storedEssence(latest, c.served.persistence)
	if err != nil || stored == nil || bytes.Equal(stored.bytes(), c.states.stored) || stored.digest() == c.entry.last.baseDigest {
		return
	}
	c.reactor.others.Do(func() {
		c.log.Warn("Another operator handles the same objects", "resource", c.served.resource.Name(),
			"hint", "let only one of them work, by a peering object, or give each its own prefix and finalizer in Settings.Persistence", "help", "K402")
	})
}

// storeBase stores the last-handled configuration.
func (c *cycle) storeBase(fresh *Body, own *Patch) {
	if !c.storesBase() {
		return
	}
	p, state := c.served.persistence, c.handledState()
	if withOthers := p.withOthers(c.event.Body, c.served.fields); withOthers != nil && state == c.states.essence {
		p.DiffBaseStorage.Store(withOthers, fresh, own)
		if annotationsSize(fresh, own) <= annotationsLimit { // otherwise, it omits the data of other operators
			state = withOthers
		}
	}
	p.DiffBaseStorage.Store(state, fresh, own)
	p.track(p.trackingOf(c.served.fields), state, fresh, own)
}

// storeFailures stores which handlers have failed permanently, with the last-handled configuration that the patch leaves.
// Failures that do not fit into the annotations are only in the log.
func (c *cycle) storeFailures(fresh *Body, own *Patch) {
	if c.reason() == ReasonDelete {
		return
	}
	storage, failed := c.served.persistence.ProgressStorage, c.failedNow()
	known, err := storage.Fetch(failedID, fresh)
	if len(failed) == 0 && known == nil && err == nil {
		return
	}
	record := failed.record(c.storedAfter(fresh, own))
	if record != nil && known != nil && !record.changedFrom(known) && !c.states.storedOutdated { // otherwise it may have to move
		return
	}
	storage.Purge(failedID, fresh, own)
	if record != nil {
		c.storeWithin(annotationsLimit, failedID, record, fresh, own)
	}
	storage.Flush()
}

// storeWithin stores a record in the selected place, and reports whether the annotations do not exceed a limit then.
// Otherwise it does not store the record.
func (c *cycle) storeWithin(limit int, id HandlerID, record *ProgressRecord, fresh *Body, own *Patch) bool {
	storage := c.served.persistence.recordPlace()
	storage.Store(id, record, fresh, own)
	if c.sizeWith(fresh, own) <= limit {
		return true
	}
	storage.Purge(id, fresh, own)
	return false
}

// sizeWith returns the size of the annotations with kopf's own changes and those of handlers.
func (c *cycle) sizeWith(fresh *Body, own *Patch) int {
	patches := []*Patch{own}
	for _, p := range c.writes.patches {
		patches = append(patches, p.patch)
	}
	return annotationsSize(fresh, patches...)
}

// storeProgress stores the changed records, and the state that the finished handlers have seen.
func (c *cycle) storeProgress(fresh *Body, own *Patch) {
	storage := c.served.persistence.ProgressStorage
	keeps := c.reason() != ReasonDelete
	if keeps {
		c.noteSeen()
	}
	for _, p := range c.progress.all {
		if keeps && p.selected && p.record.finished() {
			p.refer(handlingID)
		}
	}
	for _, p := range c.progress.all {
		if !p.selected {
			continue
		}
		stored, err := storage.Fetch(p.handler.id, fresh)
		if c.progress.purge || err != nil || stored == nil || p.record.changedFrom(stored) {
			storage.Store(p.handler.id, p.record, fresh, own)
		}
	}
	c.storeLapsed(fresh, own)
	c.storeRenewed(fresh, own)
	if keeps && c.states.seen != nil {
		c.storeSeen(c.states.seen, c.states.stored, fresh, own)
	}
	storage.Flush()
}

// storeLapsed replaces the records of unfinished handlers that do not match now. They disappear, except for the references to
// sub-handlers.
func (c *cycle) storeLapsed(fresh *Body, own *Patch) {
	storage := c.served.persistence.ProgressStorage
	for id, record := range c.progress.lapsed {
		storage.Purge(id, fresh, own)
		if len(record.Subrefs) > 0 {
			storage.Store(id, record, fresh, own)
		}
	}
}

// storeRenewed stores the reset records of sub-handlers whose parents have not run yet.
func (c *cycle) storeRenewed(fresh *Body, own *Patch) {
	if c.entry.state.handling.pendingFlush == nil {
		return
	}
	storage := c.served.persistence.ProgressStorage
	for id, record := range c.entry.state.handling.pendingFlush.records {
		if slices.ContainsFunc(c.progress.all, func(p *progress) bool { return p.handler.id == id }) {
			continue
		}
		if stored, err := storage.Fetch(id, fresh); err == nil && stored != nil && record.changedFrom(stored) {
			storage.Store(id, record, fresh, own)
		}
	}
}

// storedAfter returns the last-handled configuration that a patch leaves on the object.
func (c *cycle) storedAfter(fresh *Body, own *Patch) []byte {
	base, err := storedEssence(own.applied(fresh), c.served.persistence)
	if err != nil {
		return c.states.stored
	}
	return base.bytes()
}

// send sends the patches together with kopf's own changes.
func (c *cycle) send(patches []*handlerPatch, own *Patch) error {
	before := c.latest()
	total, late := c.combine(patches, own)
	sent, err := c.request(total)
	if err != nil {
		c.dropStoredStatus(patches, err)
		return err
	}
	if len(own.changes.Removes) == 0 || len(c.knownBody().Finalizers()) > 0 { // the object remains, perhaps because of finalizers of other clients
		if _, err := c.request(late); err != nil && !errors.Is(err, errGone) {
			c.keepConditions(patches)
			return err
		}
	}
	for _, p := range patches {
		p.refusals, p.refusal = 0, nil
	}
	if (len(patches) > 0 || own.changes.Finalizes()) && sent {
		total.changes.Append(&late.changes)
		c.detectConflict(before, patches, total)
	}
	return nil
}

// combine combines all patches to one, and returns the changes that must follow later: removals, and conditions that the status would show before the other
// request of a patch may be refused.
func (c *cycle) combine(patches []*handlerPatch, own *Patch) (total, late *Patch) {
	total = &Patch{changes: objectpatch.Changes{Adds: own.changes.Adds, Removes: own.changes.Removes}, persistence: c.served.persistence}
	late = &Patch{persistence: c.served.persistence}
	all, merge := &total.changes, own.changes.Merge
	for _, p := range patches {
		changes := &p.patch.changes
		switch apart := c.served.resource.hasStatus(); {
		case p.conditions.Empty():
		case apart && !(late.changes.Empty() && changes.InStatus()):
			late.changes.Append(&p.conditions)
		default:
			whole := p.whole()
			changes = &whole
		}
		all.Combine(changes)
	}
	if part := c.cleanedLate(own); part != "" {
		late.changes.PutLast(map[string]any{part: merge[part]})
		merge = maps.Clone(merge)
		delete(merge, part)
	}
	all.Transforms = append(all.Transforms, own.changes.Transforms...)
	all.PutLast(merge)
	return total, late
}

// cleanedLate returns the stanza whose state a second request must remove, "" for none. Until then, the records show which handlers have finished. A status
// subresource would be sent first, so it waits for the removal of the finalizer, or for the state in annotations. Annotations wait if the status may drop the
// state.
func (c *cycle) cleanedLate(own *Patch) string {
	apart := c.served.resource.hasStatus()
	status, inStatus := own.changes.Merge["status"]
	meta, inMeta := own.changes.Merge["metadata"]
	switch p := c.served.persistence; {
	case apart && inStatus && (len(own.changes.Removes) > 0 || p.leavesStatus() && jsonpatch.OnlyRemoves(status)):
		return "status"
	case !apart && inMeta && jsonpatch.OnlyRemoves(meta) && len(p.statusFields()) > 0:
		return "metadata"
	}
	return ""
}

// deferPatches saves the refused patches of event handlers for a later cycle.
func (c *cycle) deferPatches() result {
	e := c.entry
	if e.state.handling.pendingFlush == nil {
		e.state.handling.pendingFlush = &pendingFlush{}
	}
	refusals := 0
	e.state.handling.pendingFlush.patches = coalesce(append(c.writes.deferred, e.state.handling.pendingFlush.patches...))
	for _, p := range e.state.handling.pendingFlush.patches {
		refusals = max(refusals, p.refusals)
	}
	if p := c.writes.deferred[0]; errtype.As(p.refusal, new(*objectpatch.TransformError)) {
		c.log.Warn("A transformation of a patch failed; it will be called again", handlerKey, p.id, "error", p.refusal, "help", "K613")
	} else {
		c.log.Warn("Storing the patch of a handler failed; it will be stored later", handlerKey, p.id, "error", p.refusal, "help", "K604")
	}
	return result{}.requeueWithin(backoffDelay(refusals-1), c.knownBody())
}

// savePending saves the unsent results for the next cycle.
func (c *cycle) savePending() {
	defer func() { // stored and dropped patches are empty
		u := c.entry.state.handling.pendingFlush
		u.patches = slices.DeleteFunc(append(c.writes.deferred, u.patches...), func(p *handlerPatch) bool { return !p.isOpen() && !p.succeeded })
		if u.empty() {
			c.entry.state.handling.pendingFlush = nil
		}
	}()
	u := &pendingFlush{patches: c.writes.patches}
	if old := c.entry.state.handling.pendingFlush; old != nil { // with the records of sub-handlers whose parents have not run
		u.records, u.base, u.succeeded = old.records, old.base, old.succeeded
	}
	if c.cause.Reason != "" {
		u.base, u.succeeded = c.storedDigest(), c.writes.succeeded
		if u.records == nil {
			u.records = make(map[HandlerID]*ProgressRecord)
		}
		for _, p := range c.progress.all {
			u.records[p.handler.id] = p.record
		}
		maps.Copy(u.records, c.progress.lapsed)
		if len(c.progress.all) > 0 { // otherwise a storage has panicked before
			c.noteSeen()
			c.entry.state.handling.seen = c.states.seen
		}
	}
	c.entry.state.handling.pendingFlush = u
}

// pendingFlush has unsent results, and records of handlers to call again. The next cycle sends it, instead of calling finished handlers again.
type pendingFlush struct {
	patches   []*handlerPatch
	succeeded []HandlerID // whose success is logged when it is stored
	records   map[HandlerID]*ProgressRecord
	base      uint64 // the digest of the last-handled configuration at the time of the records
}

func (u *pendingFlush) empty() bool { return len(u.patches)+len(u.succeeded)+len(u.records) == 0 }

// throttle logs an error outside of handlers, and delays the object. Afterwards, kopf handles the newest state, so nothing is lost (CH-T3, CH-T4).
func (c *cycle) throttle(err error) result {
	e := c.entry
	if c.reactor.requests.Err() != nil {
		return result{}
	}
	delays := c.reactor.settings.Queueing.ErrorDelays
	if conflict := (*conflictError)(nil); errtype.As(err, &conflict) {
		return c.retryConflict(err)
	}
	attrs := []any{"error", err}
	if StatusCode(err) == codeForbidden && !isDenied(err) {
		attrs = append(attrs, "hint", "grant the permission to patch "+c.served.resource.Name()+" and its status")
	}
	if len(delays) == 0 {
		c.log.Error("Processing of the object failed; repeating it with the next event", append(attrs, "help", "K309")...)
		return result{}
	}
	delay := delays[min(e.state.retry.errors, len(delays)-1)]
	e.state.retry.errors, e.state.retry.pausedUntil = e.state.retry.errors+1, time.Now().Add(delay)
	c.noteDelay(delay, err.Error())
	c.log.Error("Processing of the object failed; repeating it", append(attrs, "delay", delay, "help", "K308")...)
	return result{requeue: true, requeueAfter: delay, body: c.knownBody()}
}

// manyConflicts is how many conflicts in a row lead to a warning.
const manyConflicts = 5

// retryConflict makes the object due with its newest state: at once after the first conflict, and after growing delays, which no event ends, after more in a
// row.
func (c *cycle) retryConflict(err error) result {
	e := c.entry
	delay := time.Duration(0)
	if e.state.retry.conflicts > 0 {
		delay = backoffDelay(e.state.retry.conflicts - 1)
		e.state.retry.pausedUntil = time.Now().Add(delay)
	}
	if e.state.retry.conflicts++; e.state.retry.conflicts == manyConflicts {
		c.log.Warn("Other clients change the object before it can be patched; patching it less often", "conflicts", e.state.retry.conflicts, "error", err, "help", "K603")
	} else {
		c.log.Debug("Another client has changed the object meanwhile; waiting for its newest state", "error", err)
	}
	return result{requeue: true, requeueAfter: delay, body: c.knownBody()}
}

// backoffDelay returns the delay after a number of earlier failures.
func backoffDelay(failures int) time.Duration {
	return min(time.Second<<min(failures, 5), 30*time.Second)
}

// rediscover requests a discovery.
func (r *reactor) rediscover() { r.discovery.rediscover() }
