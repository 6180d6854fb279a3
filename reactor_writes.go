package kopf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file sends what a cycle leaves: the handler patches, their records, the last handled
// state and the finalizer, in as few requests as it takes. It runs on the goroutine of the object's worker, and
// on that of the timer that stores what has finished while another handler runs.

// cycleWrites is what a cycle has still to send.
type cycleWrites struct {
	patches   []*handlerPatch // in the order of the calls
	deferred  []*handlerPatch // of handlers of raw events, which could not be stored
	body      *Body           // the object with the patches applied, but for the following
	unapplied []*Patch
	succeeded []HandlerID // whose success is to be logged when it is stored
	failure   error       // why the last flush between two handlers has failed; nil again when a later one has not
}

// plannedFlush stores what has finished while another handler runs.
type plannedFlush struct {
	turn     chan struct{}  // holds a token while one is under way, for there is one at a time
	timer    *time.Timer    // nil if none is planned
	timers   sync.WaitGroup // those planned or under way
	stopped  bool           // whether none may be planned: the worker sends what is left
	failures int            // in a row
}

// flushLater plans to store what has finished, so that a crash repeats little of it. If storing has just failed, it does not wait: nothing
// more is begun before it is known whether anything can be stored.
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

// flushBetween stores what has finished between two handlers, and stops the handling if it fails: but for what is too large beside the last handled
// state, which goes with the end of the handling.
func (c *cycle) flushBetween() {
	err := c.tryFlush()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes.failure = err; overflows(err) {
		c.writes.failure = nil
	}
}

// planFlush plans a flush, unless one is planned. One that fails is planned again, after growing pauses, for as long as handlers run.
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
	c.tryFlush()
}

// tryFlush stores what has finished so far, and plans to do so again if it fails.
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
	if conflict := (*conflictError)(nil); !errors.As(err, &conflict) {
		c.log.Warn("Storing the progress failed while handlers run; retrying", "help", "K407", "delay", pause, "error", err)
	}
	c.planFlush(pause)
	return err
}

// stopFlush calls the planned flush off, or waits for the one under way. None is planned after it.
func (c *cycle) stopFlush() {
	c.mu.Lock()
	if c.planned.timer != nil && c.planned.timer.Stop() {
		c.planned.timers.Done()
	}
	c.planned.timer, c.planned.stopped = nil, true
	c.mu.Unlock()
	c.planned.timers.Wait()
}

// write sends the patches that no handling is concerned with, together with what the framework changes itself, which may be nil.
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

// logStored logs the success of handlers whose outcome is stored now: of raw events, by their patches, and of changes.
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

// flush sends what has finished so far, and cleans up if the handling is over.
func (c *cycle) flush(ending bool) error {
	c.planned.turn <- struct{}{}
	defer func() { <-c.planned.turn }()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		return nil
	}
	w := &c.writes
	c.progress.purge, w.failure = false, nil
	w.patches = w.patches[len(patches):]
	w.body, w.unapplied = c.known, nil
	for _, p := range w.patches {
		w.unapplied = append(w.unapplied, p.patch)
	}
	succeeded = slices.DeleteFunc(succeeded, func(id HandlerID) bool { return !slices.Contains(w.succeeded, id) })
	w.succeeded = slices.DeleteFunc(w.succeeded, func(id HandlerID) bool { return slices.Contains(succeeded, id) })
	return succeeded
}

// sendEach sends each patch alone. Those that are taken are emptied, and those that are refused permanently as well, whose handlers fail; the others
// keep their refusals. An error that is about no patch stops it.
func (c *cycle) sendEach(patches []*handlerPatch) error {
	for _, p := range patches {
		if p.patch.Empty() {
			continue
		}
		_, err := c.request(p.patch)
		var refused *patchRefusedError
		var failed *objectpatch.TransformError
		transforming := errors.As(err, &failed)
		switch {
		case err == nil:
			p.patch, p.refusals, p.refusal = &Patch{}, 0, nil
			c.logStored([]*handlerPatch{p}, nil)
		case !refusesPart(err):
			return err
		case errors.As(err, &refused), transforming && permanent(failed), (isDenied(err) || transforming || !p.change) && p.refusals+1 >= maxRefusals:
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
		c.log.Error("Dropped the patch of a handler, because it could not be stored before the end of the object", "help", "K505", handlerKey, p.id, "error", p.refusal)
		c.mu.Lock()
		c.writes.succeeded = slices.DeleteFunc(c.writes.succeeded, func(id HandlerID) bool { return id == p.id && p.change })
		c.mu.Unlock()
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

// deferEventPatches reports whether all else is to be sent without the patches of handlers of raw events, because an answer says that a patch with them cannot be stored now, and notes that of them.
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
			c.writes.deferred = append(c.writes.deferred, p)
		}
	}
}

// failRefused fails the handler of a part that the API server does not take, in this handling or in what is kept of an earlier one.
func (c *cycle) failRefused(p *handlerPatch, err error) {
	switch u := c.entry.state.handling.pendingFlush; {
	case len(c.progress.all) > 0:
		c.failHandler(p, err)
		return
	case p.change && u != nil:
		c.log.Error(fmt.Sprintf("Handler '%s' failed permanently: its patch was refused: %v", p.id, err), handlerAttr(p.id), "help", "K306")
		if record := u.records[p.id]; record != nil {
			record.failRefused(err)
		}
		u.succeeded = slices.DeleteFunc(u.succeeded, func(id HandlerID) bool { return id == p.id })
	default:
		c.log.Error("The API server refused the patch of a handler", "help", "K605", handlerKey, p.id, "error", err)
		p.reconciled.patchRefused()
	}
	p.succeeded = false
}

// refusesPart reports whether a transformation has failed, or the API server may have refused something in a patch, and would take all else: it is
// neither overloaded, nor has the object, its version or the credentials been refused.
func refusesPart(err error) bool {
	var refused *patchRefusedError
	var conflict *conflictError
	var failed *objectpatch.TransformError
	switch {
	case errors.As(err, &refused), errors.As(err, &failed):
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
	} else {
		c.storeProgress(fresh, own)
	}
	p.ProgressStorage.Touch("", fresh, own)
	p.bind(fresh, own)
	return slices.Clone(c.writes.patches), own, slices.Clone(c.writes.succeeded)
}

// recorded returns the ids of all handlers that may have a record on the object.
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
		for _, record := range c.served.persistence.recordsOf(h.id, c.event.Body) { // which do not count, and so are not loaded
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

// leavesRecords reports whether the handling has ended, but records of it are on the object, which a request has stored whose answer was lost: since
// the last one that was answered. They are removed with the next event.
func (c *cycle) leavesRecords() bool {
	if c.entry.state.retry.errors+c.planned.failures == 0 {
		return false
	}
	known := c.knownBody()
	return slices.ContainsFunc(c.recorded(), func(id HandlerID) bool {
		record, _ := c.served.persistence.ProgressStorage.Fetch(id, known) // what is damaged does not count
		return record != nil
	})
}

// handledState returns the state that counts as handled after the handling: the oldest one that
// a handler has seen in it, so that no change is lost for it (CH-T1).
func (c *cycle) handledState() *Essence {
	if c.states.seen != nil {
		return c.states.seen.essence
	}
	return c.states.essence
}

// storesBase reports whether the end of the handling stores another state than is stored already. That of an object that goes is of no use.
func (c *cycle) storesBase() bool {
	return c.reason() != ReasonDelete && (c.states.before == nil || c.states.storedOutdated || !c.handledState().Equal(c.states.before))
}

// detectOtherOperator warns, once, if another operator has handled the object while our handlers ran: what is stored as handled has changed then, and not by us, who are
// about to store it.
// Peers take turns, and so overlap for a moment.
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
		c.log.Warn("Another operator handles the same objects", "help", "K402", "resource", c.served.resource.Name(),
			"hint", "let only one of them work, by a peering object, or give each its own prefix and finalizer in Settings.Persistence")
	})
}

// storeBase stores the state that counts as handled from now on.
func (c *cycle) storeBase(fresh *Body, own *Patch) {
	if !c.storesBase() {
		return
	}
	p, state := c.served.persistence, c.handledState()
	if withOthers := p.withOthers(c.event.Body, c.served.fields); withOthers != nil && state == c.states.essence {
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
	c.storeRenewed(fresh, own)
	if keeps && c.states.seen != nil {
		c.storeSeen(fresh, own)
	}
	storage.Flush()
}

// storeRenewed stores the records of sub-handlers that are to run again, but whose parents have not run yet.
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

// storeSeen stores what the finished handlers have seen, or its digest, unless that takes more than half of the space that is left. With the
// digest, a crash makes the finished handlers run again if the object changes before the others finish; with nothing, they miss that change.
func (c *cycle) storeSeen(fresh *Body, own *Patch) {
	storage := c.served.persistence.recordPlace() // what is in another one stays next to the records there
	storage.Purge(handlingID, fresh, own)
	patches := []*Patch{own}
	for _, p := range c.writes.patches {
		patches = append(patches, p.patch)
	}
	size := annotationsSize(fresh, patches...)
	for _, record := range []*ProgressRecord{c.states.seen.record(c.states.stored), c.states.seen.shortRecord()} {
		storage.Store(handlingID, record, fresh, own)
		if annotationsSize(fresh, patches...) <= (size+annotationsLimit)/2 {
			return
		}
		storage.Purge(handlingID, fresh, own)
	}
}

// send sends the patches together with what the framework itself has to change.
func (c *cycle) send(patches []*handlerPatch, own *Patch) error {
	before := c.latest()
	total, late := c.combine(before, patches, own)
	sent, err := c.request(total)
	if err != nil {
		return err
	}
	if len(own.changes.Removes) == 0 || len(c.knownBody().Finalizers()) > 0 { // the object stays, in the latter case for others
		if _, err := c.request(late); err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	for _, p := range patches {
		p.refusals, p.refusal = 0, nil
	}
	if (len(patches) > 0 || own.changes.Finalizes()) && sent {
		c.detectConflict(before, patches, total)
	}
	return nil
}

// combine returns one patch of all, and what is to be cleaned up later.
func (c *cycle) combine(body *Body, patches []*handlerPatch, own *Patch) (total, late *Patch) {
	total, late = &Patch{changes: objectpatch.Changes{Adds: own.changes.Adds, Removes: own.changes.Removes}, persistence: c.served.persistence}, &Patch{}
	all, merge := &total.changes, own.changes.Merge
	for _, p := range patches {
		all.Merge = jsonpatch.CombineMerges(all.Merge, p.patch.changes.Merge)
		all.Transforms = append(all.Transforms, p.patch.changes.Transforms...)
	}
	_, inStatus := merge["status"]
	if part := c.cleanedLate(own); part != "" {
		merge, late.changes.Merge = maps.Clone(merge), map[string]any{part: merge[part]}
		delete(merge, part)
	}
	total.keepOwnStatus(body, inStatus)
	if all.Transforms = append(all.Transforms, own.changes.Transforms...); len(all.Transforms) > 0 {
		all.Last = merge
	} else {
		all.Merge = jsonpatch.CombineMerges(all.Merge, merge)
	}
	return total, late
}

// cleanedLate returns the stanza that is to be cleaned up by a request of its own, "" for none: a status, which would be the first one to be sent, until the finalizer
// is removed, or until the state is in annotations; and annotations, if it is not known before whether the status keeps the state. Until then, what is there says which handlers have finished.
func (c *cycle) cleanedLate(own *Patch) string {
	apart := slices.Contains(c.served.resource.Subresources, "status")
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

// deferPatches saves the patches of handlers of raw events that could not be stored for a later cycle.
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
	c.log.Warn("Storing the patch of a handler failed; it will be stored later", "help", "K604", handlerKey, c.writes.deferred[0].id, "error", c.writes.deferred[0].refusal)
	return result{}.requeueWithin(backoffDelay(refusals-1), c.knownBody())
}

// savePending saves what could not be sent for the next cycle.
func (c *cycle) savePending() {
	defer func() { // what was stored, or is not to be stored any more, has been emptied
		u := c.entry.state.handling.pendingFlush
		u.patches = slices.DeleteFunc(append(c.writes.deferred, u.patches...), func(p *handlerPatch) bool { return p.patch.Empty() && !p.succeeded })
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
		if len(c.progress.all) > 0 { // or else a storage has panicked before it was known what they have seen
			c.noteSeen()
			c.entry.state.handling.seen = c.states.seen
		}
	}
	c.entry.state.handling.pendingFlush = u
}

// pendingFlush is what could not be sent, and the records of handlers that are to be called again: it is sent with the next cycle instead of calling the
// handlers again that have finished.
type pendingFlush struct {
	patches   []*handlerPatch
	succeeded []HandlerID // whose success is to be logged
	records   map[HandlerID]*ProgressRecord
	base      uint64 // the digest of the last handled state that the object had when the records were made
}

func (u *pendingFlush) empty() bool { return len(u.patches)+len(u.succeeded)+len(u.records) == 0 }

// cycleConflict is what a cycle knows of write conflicts.
type cycleConflict struct {
	first   bool // whether no handling was under way
	recent  bool // whether our last patch was not long ago
	counted bool // whether the cycle has changed again what it had changed before
}

// conflictBackoff returns how long the handling of the object is put off because the operator and another client change the same fields alternately, or the
// operator does because of its own changes.
func (c *cycle) conflictBackoff() time.Duration {
	c.endConflict()
	if w := c.entry.state.conflict; w != nil && !c.event.Body.deleting {
		return w.Pause()
	}
	return 0
}

// endConflict forgets the write conflict if it is over.
func (c *cycle) endConflict() {
	if w := c.entry.state.conflict; w.Remaining() == 0 {
		if c.entry.state.conflict = nil; w.Slowed() {
			c.log.Info("The update conflict is over")
		}
	}
}

// wasPatchedRecently reports whether the operator has changed more of the object lately than what it keeps there itself.
func (c *cycle) wasPatchedRecently() bool {
	return c.entry.last.changedByUs && c.reactor.clock()-c.entry.last.expectedUntil < flapping.Window-c.served.persistence.ConsistencyTimeout
}

// detectConflict checks whether what was just changed had been changed back, or was changed because of our own change.
func (c *cycle) detectConflict(before *Body, patches []*handlerPatch, sent *Patch) {
	e, settings := c.entry, &c.reactor.settings.Queueing
	e.last.changedByUs = e.last.changedByUs || len(patches) > 0 || e.last.handled // the first finalizer is nothing special
	if e.state.conflict == nil {
		if !c.conflict.recent || settings.FightRounds <= 0 {
			return
		}
		e.state.conflict = flapping.New()
	}
	old, now := c.conflictFields(before), c.conflictFields(c.knownBody())
	diff := diffJSON(old, now)
	var changes []flapping.Change
	for _, item := range diff {
		changes = append(changes, flapping.Change{Path: item.Path, New: item.New, Ours: sent.changes.Touches(item.Path)})
	}
	repeats := c.conflict.first || slices.ContainsFunc(patches, func(p *handlerPatch) bool { return !p.change })
	found, foreign := e.state.conflict.Observe(old, now, changes, repeats)
	if len(found) == 0 || c.conflict.counted { // handlers may change a field several times in one cycle
		return
	}
	c.conflict.counted = true
	if first := e.state.conflict.Count(settings.FightRounds, settings.FightPause); first {
		var conflicting Diff
		for _, i := range found {
			conflicting = append(conflicting, diff[i])
		}
		c.reportConflict(before, conflicting, foreign)
	}
}

// conflictFields returns what of the object does not belong to the framework, and the finalizers.
func (c *cycle) conflictFields(body *Body) map[string]any {
	fields := essenceOf(body, []FieldPath{"status"}, c.served.persistence).Map()
	fields["metadata.finalizers"] = body.Get("metadata.finalizers")
	return fields
}

// reportConflict warns of fields that are changed again and again, and names the writers.
func (c *cycle) reportConflict(before *Body, conflicting Diff, foreign bool) {
	fields := ""
	for _, item := range conflicting {
		fields += " " + strings.Join(item.Path, ".")
	}
	reason, text, writers := "ChangedByItself", "The operator changes these fields again and again because of its own changes:", ""
	if foreign {
		writers = strings.Join(flapping.Writers(before.Get("metadata.managedFields"), conflicting[0].Path), ", ")
		reason, text = "ChangedBack", "The operator and "+cmp.Or(writers, "another client")+" change these fields in turns:"
	}
	text += fields + ". The handling of the object is slowed down while that goes on."
	var values Diff // which are confidential
	if r := c.served.resource; r.Group != "" || r.Plural != "secrets" {
		values = conflicting
	}
	c.reactor.meter.Add(metrics.WriteConflicts, 1)
	c.log.Warn("Fields of the object are changed again and again; slowing down its handling", "help", "K401", "fields", strings.TrimSpace(fields), "managers", writers, "differences", values)
	c.reactor.events.post(slog.LevelWarn, before.Reference(), EventWarning, reason, text)
}

// coalesce joins the patches of the same handler of raw events that follow each other, so that those which wait do not pile up.
func coalesce(patches []*handlerPatch) (all []*handlerPatch) {
	for i, p := range patches {
		if i > 0 && p.id == patches[i-1].id && !p.change && !patches[i-1].change && len(p.patch.changes.Transforms)+len(patches[i-1].patch.changes.Transforms) == 0 {
			p.patch.changes.Merge = jsonpatch.CombineMerges(patches[i-1].patch.changes.Merge, p.patch.changes.Merge)
			p.succeeded, p.refusals = p.succeeded || patches[i-1].succeeded, max(p.refusals, patches[i-1].refusals)
			all = all[:len(all)-1]
		}
		all = append(all, p)
	}
	return all
}

// throttle logs an error that is not of a handler, and pauses the object. Nothing is lost: the newest
// state is handled again after the pause (CH-T3, CH-T4).
func (c *cycle) throttle(err error) result {
	e := c.entry
	if c.reactor.requests.Err() != nil {
		return result{}
	}
	delays := c.reactor.settings.Queueing.ErrorDelays
	if conflict := (*conflictError)(nil); errors.As(err, &conflict) {
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

// retryConflict has the object handled again with its newest state: at once after the first conflict, and after growing pauses, which
// no event ends, after more in a row.
func (c *cycle) retryConflict(err error) result {
	e := c.entry
	delay := time.Duration(0)
	if e.state.retry.conflicts > 0 {
		delay = backoffDelay(e.state.retry.conflicts - 1)
		e.state.retry.pausedUntil = time.Now().Add(delay)
	}
	if e.state.retry.conflicts++; e.state.retry.conflicts == manyConflicts {
		c.log.Warn("Other clients change the object before it can be patched; patching it less often", "help", "K603", "conflicts", e.state.retry.conflicts, "error", err)
	} else {
		c.log.Debug("Another client has changed the object meanwhile; waiting for its newest state", "error", err)
	}
	return result{requeue: true, requeueAfter: delay, body: c.knownBody()}
}

// backoffDelay is how long to wait before something is tried again that has failed so often before.
func backoffDelay(failures int) time.Duration {
	return min(time.Second<<min(failures, 5), 30*time.Second)
}

// rediscover has the resources discovered again.
func (r *reactor) rediscover() { r.discovery.rediscover() }
