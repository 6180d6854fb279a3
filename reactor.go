package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/safecall"
)

// This file reacts to the events of one resource: one event becomes a cause, the cause calls
// handlers, and what they leave becomes one patch. The functions run on the goroutine of the
// object's worker, except for the flush, which a timer can start too.

// reactor handles the objects of one resource.
type reactor struct {
	*environment
	queue     *queue
	indexer   *indexer     // nil if there are no indices at all
	barrier   *syncBarrier // nil if there are no indices at all
	daemons   *daemons     // nil if there are neither daemons nor timers
	began     time.Time    // what the clock begins with
	discovery discoverer
	warned    warnOnce

	unreadable atomic.Bool     // an object could not be read when its stream was late, and none could be since
	requests   context.Context // of the requests: ends a little after that of the handlers, so that what is done can be stored

	served atomic.Pointer[resolved]
}

func (r *reactor) resource() Resource { return r.served.Load().resource }

func (r *reactor) trackedState(b *Body) *Essence { return r.served.Load().track(b, r.settings) }

func (r *reactor) wake(e *entry) { r.queue.wake(e) }

func (r *reactor) setLive(e *entry, live *atomic.Pointer[Body]) bool { return r.queue.setLive(e, live) }

func (r *reactor) warnings() *warnOnce { return &r.warned }

// clock returns for how long the reactor has worked. Unlike the time of the day, it is never set back.
func (r *reactor) clock() time.Duration { return time.Since(r.began) }

// enqueue takes an event from a stream that was opened in an epoch of the operator's work.
func (r *reactor) enqueue(ev RawEvent, from *source, epoch uint64) {
	served := r.served.Load()
	served.counts.Received(string(ev.Type))
	if epoch != r.pauser.Epoch() {
		return // the listing after the pause will show what has become of it
	}
	r.queue.add(ev, from, epoch, len(served.events) > 0)
}

// forget forgets an object that is not served any more.
func (r *reactor) forget(e *entry) {
	if r.indexer != nil {
		r.indexer.drop(e.key, r.served.Load().indices)
	}
	if r.daemons != nil {
		r.daemons.forget(e, FiltersMismatch)
	}
}

// superseded reports whether the operator has paused since the newest event of the object has come, or does not serve the object any more. Nothing
// is started then: another operator may work on the object, and the listing after the pause will show what it is then.
func (r *reactor) superseded(e *entry) bool {
	return e.workEpoch != r.pauser.Epoch() || !r.queue.serves(e)
}

// reconcile processes the events of an object that have come since the last time.
func (r *reactor) reconcile(e *entry, events []RawEvent) result {
	if r.queue.reportsDeletion(e) && !r.pauser.Paused() {
		e.workEpoch = r.pauser.Epoch() // a pause since then does not matter, for no listing will show it
	}
	if r.superseded(e) {
		return result{unreported: true}
	}
	newest := RawEvent{Type: Modified, Body: e.body}
	if len(events) > 0 {
		newest = events[len(events)-1]
	} else if e.live != nil {
		if live := e.live.Load(); live != nil && (newest.Body == nil || newerVersion(live.version, newest.Body.version)) {
			newest.Body = live
		}
	}
	if newest.Body == nil {
		return result{} // woken for what was done meanwhile
	}
	e.memory.see(r.memo)
	if len(events) > 0 && newerVersion(newest.Body.version, e.last.expected) {
		e.last.expected = ""
	}
	c := r.cycle(e, newest)
	index := c.index()
	if r.barrier.closed() && !r.queue.reportsDeletion(e) {
		return result{blocked: true, events: events, requeue: index >= 0, requeueAfter: index, body: newest.Body}
	}
	return c.handleEvents(events).requeueWithin(index, newest.Body)
}

// handleEvents does all with the events but the indexing.
func (c *cycle) handleEvents(events []RawEvent) result {
	e := c.entry
	for _, ev := range events {
		c.callEventHandlers(ev)
	}
	if c.event.Type == Deleted && c.superseded(e) {
		return result{unreported: true}
	}
	if c.event.Type == Deleted {
		if c.daemons != nil {
			c.daemons.forget(e, ResourceDeleted)
		}
		c.log.Debug("Deleted, really deleted, and we are notified.")
		return result{gone: true}
	}
	if c.event.Body.deleting && !e.deleting { // which waits for nothing that was wrong before
		e.deleting, e.pausedUntil, e.errors, e.conflicts = true, time.Time{}, 0, 0
	}
	if wait := time.Until(e.pausedUntil); wait > 0 {
		c.eventPatches = coalesce(append(e.pendingPatches(), c.eventPatches...))
		c.savePending()
		return result{requeue: true, requeueAfter: wait, body: c.event.Body}
	} else if !e.pausedUntil.IsZero() {
		e.pausedUntil = time.Time{}
		if e.errors == 0 { // it was for conflicts
			return c.reconcile()
		}
		c.log.Info("The pause after an error is over; the processing of the object goes on.")
	}
	return c.reconcile()
}

// index takes the newest state of the object over into the indices, and returns when to try again what has failed.
func (c *cycle) index() time.Duration {
	handlers := c.served.indices
	if len(handlers) == 0 {
		return -1
	}
	defer c.queue.synced(c.entry)
	if c.event.Type == Deleted {
		c.indexer.drop(c.entry.key, handlers)
		return -1
	}
	o := c.object(c.event.Body)
	c.queue.workerLimit.Release() // while functions of users run
	defer c.queue.workerLimit.Acquire()
	wait := c.indexer.index(c.entry.key, handlers, &o, &c.entry.unindexed)
	if !c.queue.serves(c.entry) { // it was forgotten meanwhile
		c.indexer.drop(c.entry.key, handlers)
	}
	return wait
}

// spawnTasks starts and stops the daemons and timers of the object, and reports whether they need it to be held.
func (c *cycle) spawnTasks() bool {
	if len(c.served.tasks) == 0 {
		return false
	}
	if c.served.idle {
		c.essence = c.track(c.event.Body)
	}
	o := c.object(c.event.Body)
	return c.daemons.spawn(c.entry, c.served.tasks, &o, c.essence)
}

// cycle is the work on one state of an object.
type cycle struct {
	*reactor
	sender
	entry        *entry
	served       *resolved
	event        RawEvent
	log          *slog.Logger
	eventPatches []*handlerPatch // of the handlers of raw events

	essence        *Essence       // of the event's body
	before         *Essence       // as it was last handled
	stored         []byte         // that as it is stored, nil for none
	seen           *handlingState // by the finished handlers of this handling
	reason         Reason
	execution      *execution
	optionalDelete bool // whether a handler of deletions is interested that does not hold the object
	baseOutdated   bool // whether the stored state differs only in the fields that are tracked
	copied         bool // whether what is stored on the object is that of another one
	purge          bool // whether records of a superseded cause are to be purged

	firstCycle      bool // whether no handling was under way
	patchedRecently bool // whether our last patch was not long ago
	conflictCounted bool // whether the cycle has changed again what it had changed before

	sending sync.Mutex // one flush at a time
	timers  sync.WaitGroup

	timing  sync.Mutex  // guards following
	timer   *time.Timer // of the next flush, nil if none is planned
	flushed bool        // whether the handlers have returned, so that the cycle itself sends what is left

	failures int             // of flushes, in a row
	deferred []*handlerPatch // of handlers of raw events, which could not be stored
}

func (r *reactor) cycle(e *entry, newest RawEvent) *cycle {
	c := &cycle{reactor: r, entry: e, served: r.served.Load(), event: newest, log: objectLogger(r.log, newest.Body.Reference())}
	fresh := newest.Body
	if e.body != nil && newest.Type == Modified && newerVersion(e.body.version, fresh.version) {
		fresh = e.body // what our own patches have made of it; the event is from before them
	}
	c.sender = sender{client: r.client, ctx: r.requests, resource: c.served.resource, log: c.log, fresh: fresh, owner: c, warned: &r.warned, lenient: fresh.deleting && e.conflicts >= manyConflicts}
	c.firstCycle, c.patchedRecently = !e.inProgress, c.wasPatchedRecently()
	return c
}

// notePatched notes that our own patch is to come back before the handlers may trust what the stream shows.
func (c *cycle) notePatched(before, after *Body) {
	e, timeout := c.entry, c.settings.Persistence.ConsistencyTimeout
	if after.version != before.version {
		if e.last.expectedUntil = c.clock() + timeout; timeout > 0 {
			e.last.expected = after.version
		}
	}
	if e.goneVersion = ""; after.deleting && len(before.Finalizers()) > 0 && len(after.Finalizers()) == 0 { // others end without any, by and by
		e.goneVersion = after.version
	}
}

// waiting returns the newest state that has come as an event and waits to be handled, nil if none does.
func (c *cycle) waiting() *Body { return c.queue.newest(c.entry) }

// rediscover has the resources discovered again.
func (r *reactor) rediscover() { r.discovery.rediscover() }

// callEventHandlers calls the handlers of raw events for one event.
func (c *cycle) callEventHandlers(ev RawEvent) {
	for _, h := range c.served.events {
		if c.superseded(c.entry) {
			return
		}
		e := &WatchEvent{Object: c.object(ev.Body), Type: ev.Type}
		if !h.matchesEvent(e) {
			continue
		}
		if acquired, _ := c.limit.Acquire(c.handlers.Done(), nil, c.queue.workerLimit); !acquired {
			return
		}
		e.Patch, e.Param = &Patch{}, h.param
		c.log.Debug("Handler '" + string(h.id) + "' is invoked.")
		c.queue.setRunning(c.entry, h.id)
		began := time.Now()
		err := safecall.Do(func() error { return h.event(c.handlers, e) })
		c.queue.setRunning(c.entry, "")
		c.limit.Release()
		err = errors.Join(err, e.Patch.err)
		c.meter.Handler(string(h.id), false).Ended(outcome{final: true}.result(err), int64(time.Since(began)))
		if e.Patch.Empty() || err != nil {
			logOutcome(c.handlers, c.log, "Handler", h.id, outcome{final: true}, err)
		}
		if !e.Patch.Empty() {
			c.eventPatches = append(c.eventPatches, &handlerPatch{id: h.id, patch: e.Patch, succeeded: err == nil})
		}
	}
}

func (c *cycle) object(body *Body) Object {
	return Object{
		Resource: c.served.resource, Body: body, Logger: c.log, Client: c.reactor.client, memory: &c.entry.memory,
		Indices: c.indices, events: c.events,
		Patch: &Patch{}, // filters may look at it
	}
}

// reconcile does all but the handlers of raw events, and returns when the object is due again.
func (c *cycle) reconcile() result {
	e := c.entry
	if c.handlers.Err() != nil {
		return result{} // what is not begun at the exit is left to the next start
	}
	c.eventPatches = append(e.pendingPatches(), c.eventPatches...)
	if c.superseded(e) {
		c.savePending()
		return result{}
	}
	wait, err := c.decide()
	switch {
	case errors.Is(err, errGone):
		c.log.Debug("The object is gone; what was to be changed in it is dropped.")
		e.pendingFlush, e.goneVersion = nil, c.latest().version // what the stream shows of it up to now is from before
		return result{}
	case overflows(err) && !c.event.Body.Deleting(): // whose handlers go on with what is in memory, for nothing of it is to stay
		c.log.Error("The state of the object is too large to be stored: all annotations of an object together may have 262144 bytes. "+
			"Its handlers are not called again until it changes. Another DiffBaseStorage, or its IgnoredFields, help.", "error", err)
		e.overflow, e.pendingFlush, e.seen = c.essence.digest(), nil, nil
		return result{}
	case err != nil:
		c.savePending()
		return c.throttle(err)
	}
	e.errors, e.conflicts = 0, 0
	if len(c.deferred) > 0 {
		return c.deferPatches().requeueWithin(wait, c.known())
	}
	if w := e.conflict; wait < 0 && w != nil && w.backoff == 0 {
		return result{requeue: true, requeueAfter: w.remaining(), forgetConflict: true}
	} else if wait < 0 {
		wait = w.remaining() // to tell the end
	}
	return result{}.requeueWithin(wait, c.known())
}

// decide finds out what has happened to the object and does what is to be done. It returns after what
// time the object is due again, negative if only an event can change anything.
func (c *cycle) decide() (time.Duration, error) {
	e, body := c.entry, c.event.Body
	if gone, err := c.finalizerGone(); gone {
		return -1, err
	}
	if legacy := c.settings.Persistence.LegacyFinalizers; slices.ContainsFunc(body.Finalizers(), func(f string) bool { return slices.Contains(legacy, f) }) {
		c.log.Debug("Removing the finalizers of an older operator.")
		return -1, c.change(&Patch{removes: legacy})
	}
	cause := Change{Object: c.object(body)}
	cause.Logger = postedLogger(c.log, body.Reference(), c.events)
	heldByTasks := c.spawnTasks()
	if wait := c.conflictBackoff(); wait > 0 {
		c.eventPatches = coalesce(c.eventPatches)
		c.savePending()
		return wait, nil
	}
	relevant, required := c.matchHandlers(&cause)
	required = required || heldByTasks
	finalized := slices.Contains(body.Finalizers(), c.settings.Persistence.Finalizer)
	switch {
	case required && !finalized && !body.Deleting():
		c.log.Debug("Adding the finalizer, thus preventing the actual deletion.")
		return -1, c.change(&Patch{adds: []string{c.settings.Persistence.Finalizer}})
	case !required && finalized:
		c.log.Debug("Removing the finalizer, as there are no handlers that need it.")
		return -1, c.change(&Patch{removes: []string{c.settings.Persistence.Finalizer}})
	case !relevant:
		return -1, c.change(nil)
	}
	if e.overflow != 0 && e.overflow == c.essence.digest() && !body.Deleting() {
		c.log.Debug("The state of the object is still too large to be stored.")
		return -1, c.change(nil)
	}
	e.overflow = 0
	if c.outdated() {
		if wait := e.last.expectedUntil - c.clock(); wait > 0 {
			return wait, c.change(nil)
		}
		return c.refetch() // the stream is held up
	}
	c.detectCause()
	cause.Reason = c.reason
	cause.Old, cause.New = c.before.View(), c.essence.View()
	cause.diff = sync.OnceValue(func() Diff { return diffJSON(valueOf(c.before), valueOf(c.essence)) })
	switch c.reason {
	case ReasonNoop, ReasonFree:
		c.log.Debug("Nothing has changed that is handled.", "reason", c.reason)
		if c.reason == ReasonNoop && (e.inProgress || c.baseOutdated) {
			return c.runHandlers(&cause) // with no handlers: a change was taken back, whose records are to go, or a state is to be renewed
		}
		c.execution, e.pendingFlush, e.seen = nil, nil, nil // what was to be stored belonged to a cause that is over
		return -1, c.change(nil)
	}
	return c.runHandlers(&cause)
}

// finalizerGone reports whether the operator has removed the last finalizer of the object, and the object was not created anew since.
func (c *cycle) finalizerGone() (bool, error) {
	e := c.entry
	if e.goneVersion == "" || newerVersion(e.goneVersion, c.event.Body.version) {
		return e.goneVersion != "", nil
	}
	if _, err := c.get(c.known()); errors.Is(err, errGone) {
		return true, err // the event was only late
	}
	e.goneVersion = ""
	return false, nil
}

// outdated reports whether the state is from before our own patch, which is not back yet.
func (c *cycle) outdated() bool {
	return c.entry.last.expected != "" && !newerVersion(c.event.Body.version, c.entry.last.expected)
}

// refetch reads the newest state of the object, and lets the next cycle work on that. While the object cannot be read, its handlers wait for
// the stream: what is known is from before our own patch, and they would be called again for what they have done.
func (c *cycle) refetch() (time.Duration, error) {
	known, timeout := c.known(), c.settings.Persistence.ConsistencyTimeout
	c.log.Debug("The own patch has not come back in time; the object is asked for.", "version", c.event.Body.version)
	body, err := c.get(known)
	c.entry.last.expectedUntil = c.clock() + timeout
	switch {
	case errors.Is(err, errGone):
		c.entry.last.expected = ""
		return -1, errGone
	case err != nil:
		c.warnUnreadable(err)
		return timeout, c.change(nil)
	}
	c.unreadable.Store(false)
	c.setKnown(known, body)
	c.entry.last.expected = body.version // and what the stream shows of earlier states is outdated, too
	return 0, c.change(nil)
}

// warnUnreadable warns that the objects of the resource cannot be read, once until one could be.
func (c *cycle) warnUnreadable(err error) {
	const message = "The object cannot be read, and the stream is late: handlers of such objects wait until it has caught up."
	switch {
	case c.requests.Err() != nil:
	case c.unreadable.Swap(true):
		c.log.Debug(message, "error", err)
	case StatusCode(err) == codeForbidden:
		c.log.Warn(message+" Give the operator the permission to get "+c.served.resource.Name()+".", "error", err)
	default:
		c.log.Warn(message, "error", err)
	}
}

// matchHandlers reports whether any handler of changes is interested in the object, and whether one of them needs
// the finalizer.
func (c *cycle) matchHandlers(cause *Change) (relevant, required bool) {
	if len(c.served.changes) == 0 {
		return false, false
	}
	c.compareWithBase()
	cause.Old, cause.New = c.before.View(), c.essence.View()
	for _, h := range c.served.changes {
		if h.preMatches(cause) {
			relevant = true
			required = required || h.kind == kindDelete && !h.optional
			c.optionalDelete = c.optionalDelete || h.kind == kindDelete && h.optional
		}
	}
	return relevant, required
}

// compareWithBase reads what is tracked of the object, now and as it was last handled.
func (c *cycle) compareWithBase() {
	p := &c.settings.Persistence
	body := c.event.Body
	if c.essence == nil {
		c.essence = c.track(body)
	}
	if c.copied = p.copied(body); c.copied {
		c.log.Info("What is stored on the object is that of another one, which it is a copy of: it counts as new.")
		return
	}
	before, err := storedEssence(body, p)
	if err != nil { // the object was handled, but it is not known how it was then
		c.log.Warn("The stored last handled state is damaged: everything counts as changed.", "error", err)
		before = &Essence{}
	}
	c.stored = before.bytes()
	if u := c.entry.pendingFlush; u != nil && u.base != before.digest() {
		u.records, u.succeeded = nil, nil // the patch that has ended the handling took effect, though its answer was lost
	}
	if before == nil {
		before = c.baseFromMemory()
	}
	c.before = dropOthers(before, body)
}

// baseLossWindow is the time within which the last handled state vanishes if another controller resets the annotations as soon as they change. People who
// remove it to have the object created again are slower.
const baseLossWindow = 10 * time.Second

// baseFromMemory returns how the object was last handled if that has vanished from it right after it was stored. Other controllers do so that know
// only their own annotations, and the creation would be handled again without end (CH-T25). From then on, what is in memory counts.
func (c *cycle) baseFromMemory() *Essence {
	e := c.entry
	if c.outdated() {
		return nil // our own patch is not back
	}
	if !e.baseStripped && (e.last.baseStoredAt == 0 || c.clock()-e.last.baseStoredAt > baseLossWindow) {
		return nil
	}
	if !e.baseStripped {
		c.log.Warn("The last handled state was removed from the object right after it was stored. As long as the operator runs, the object counts as handled; " +
			"after a restart it will be created again. Whoever resets its annotations should keep those of others.")
		e.baseStripped = true
	}
	if c.essence.digest() == e.last.baseDigest {
		return c.essence
	}
	return &Essence{}
}

// track returns what is tracked of an object.
func (c *cycle) track(body *Body) *Essence { return c.served.track(body, c.settings) }

// track returns what is tracked of an object.
func (r *resolved) track(body *Body, s *Settings) *Essence {
	return dropOthers(essenceOf(body, r.fields, &s.Persistence), body)
}

// retrack takes the differences for none that come from other fields being tracked than when the state was stored: all objects would
// look changed when a handler is added. The fields do not change while the operator runs, so it looks
// at each object once.
func (c *cycle) retrack() {
	if c.entry.last.trackingCurrent {
		return
	}
	if c.before != nil && !c.before.Equal(c.essence) {
		p := &c.settings.Persistence
		now := p.trackingOf(c.served.fields)
		c.baseOutdated = p.tracked(c.event.Body, c.stored, c.before, now).explains(now, c.before, c.essence)
	}
	if c.entry.last.trackingCurrent = !c.baseOutdated; c.baseOutdated {
		c.log.Debug("The last handled state differs only in the fields that are tracked, and is renewed.")
		c.before = c.essence
	}
}

// detectCause finds the reason of the cause, and what earlier cycles of its handling have left.
func (c *cycle) detectCause() {
	initial := c.entry.listed && !c.entry.last.handled
	c.retrack()
	c.reason, initial = detectReason(c.event.Type, c.event.Body, c.settings.Persistence.Finalizer, c.before, c.essence, initial)
	if c.reason == ReasonFree && c.optionalDelete && !c.entry.deleteHandled {
		c.reason = ReasonDelete // another client holds the object, so there is time for handlers that need not hold it
	}
	c.execution = &execution{cycle: c, initial: initial, body: c.event.Body}
}

func valueOf(e *Essence) any {
	if e == nil {
		return nil
	}
	return e.Map()
}

var reasonTitles = map[Reason]string{
	ReasonCreate: "Creation", ReasonUpdate: "Updating", ReasonDelete: "Deletion", ReasonResume: "Resuming",
}

var reasonNames = map[Reason]string{
	ReasonCreate: "creation", ReasonUpdate: "updating", ReasonDelete: "deletion", ReasonResume: "resuming",
}

// runHandlers runs the handlers of the cause and sends what they leave.
func (c *cycle) runHandlers(cause *Change) (time.Duration, error) {
	e := c.execution
	c.prepareHandling(cause)
	superseded := c.collectHandlers(cause)
	if c.reason == ReasonNoop {
		superseded = nil
	}
	for _, reason := range []Reason{ReasonCreate, ReasonUpdate, ReasonResume, ReasonDelete} {
		if t := superseded[reason]; t != nil {
			cause.Logger.Info(fmt.Sprintf("%s is superseded by the %s: %d succeeded; %d failed; %d unfinished.", reasonTitles[reason], reasonNames[c.reason], t.succeeded, t.failed, t.unfinished))
		}
	}
	if top := e.top(); len(top) > 0 {
		cause.Logger.Debug(reasonTitles[c.reason]+" is in progress.", "body", cause.Resource.loggable(c.event.Body))
		if c.reason == ReasonUpdate {
			cause.Logger.Debug("The differences are these.", "diff", cause.Resource.loggable(lazyDiff(cause.diff)))
		}
		c.entry.inProgress = true
		if c.entry.pendingFlush != nil {
			c.planFlush(max(c.settings.Execution.FlushAfter, time.Second))
		}
		e.run(c.handlers, top)
	}
	c.stopTimer()
	if err := e.failure(); err != nil {
		return 0, err
	}
	done, wait := e.done(time.Now())
	if !done {
		return c.postpone(wait)
	}
	if c.reason == ReasonDelete && len(c.served.tasks) > 0 && !c.daemons.waitIdle(c.entry, c.settings.Background.InstantExitTimeout) {
		c.entry.pendingFlush = nil
		return -1, c.flush(false) // the end of the last task will wake the object
	}
	storesBase := c.storesBase()
	if err := c.flush(true); err != nil {
		if overflows(err) && c.callAgain() {
			return 0, nil
		}
		return 0, err
	}
	if top := e.top(); len(top) > 0 {
		succeeded, failed := c.count()
		cause.Logger.Info(fmt.Sprintf("%s is processed: %d succeeded; %d failed.", reasonTitles[c.reason], succeeded, failed))
	}
	if c.reason == ReasonDelete {
		c.log.Debug("Removing the finalizer, thus allowing the actual deletion.")
	}
	if storesBase {
		c.entry.last.baseDigest, c.entry.last.baseStoredAt = c.base().digest(), c.clock()
	}
	c.entry.last.handled, c.entry.deleteHandled, c.entry.inProgress, c.entry.pendingFlush, c.entry.seen = true, c.reason == ReasonDelete, false, nil, nil
	if c.reason != ReasonDelete && c.known().version == c.event.Body.version { // an object that goes has had its finalizer removed
		c.log.Debug("The handling is over, and there was nothing to store; the next change is awaited.")
	}
	return -1, nil
}

// postpone stores the progress of handlers that are not all finished. It returns when they are to be called again.
func (c *cycle) postpone(wait time.Duration) (time.Duration, error) {
	attempted := c.execution.attempts > 0
	if !attempted && c.handlers.Err() != nil {
		return -1, nil // what the end of the operator has cut off leaves nothing behind
	}
	if !attempted && c.superseded(c.entry) {
		c.savePending()
		return -1, nil // nor does a pause
	}
	if err := c.flush(false); err != nil {
		return 0, err
	}
	c.entry.pendingFlush, c.entry.seen = nil, c.seen
	if !attempted && wait <= 0 { // a lifecycle that chooses nothing is not to be called in a loop
		wait = time.Second
	}
	return wait, nil
}

// prepareHandling tells the execution its cause, and what is still to be sent.
func (c *cycle) prepareHandling(cause *Change) {
	e := c.execution
	e.cause, e.registered, e.patches, c.eventPatches = *cause, c.served.changes, c.eventPatches, nil
	if u := c.entry.pendingFlush; u != nil {
		e.succeeded = slices.Clone(u.succeeded)
	}
	for _, p := range e.patches {
		e.unapplied = append(e.unapplied, p.patch)
	}
}

// loadProgress returns the record of a handler, nil if there is none.
func (c *cycle) loadProgress(id HandlerID) (*ProgressRecord, error) {
	if u := c.entry.pendingFlush; u != nil && u.records[id] != nil {
		return u.records[id], nil
	}
	if c.copied {
		return nil, nil
	}
	return c.settings.Persistence.ProgressStorage.Fetch(id, c.event.Body)
}

// interrupted reports whether something newer waits than the echoes of the operator's own patches.
func (c *cycle) interrupted() bool { return c.queue.hasNewer(c.entry, c.known().version) }

// setRunning notes the handler that runs now, "" for none.
func (c *cycle) setRunning(id HandlerID) { c.queue.setRunning(c.entry, id) }

// handlerCounts counts handlers by how far they have come.
type handlerCounts struct{ succeeded, failed, unfinished int }

func (h *handlerCounts) add(r *ProgressRecord) {
	switch {
	case r.Success:
		h.succeeded++
	case r.Failure:
		h.failed++
	default:
		h.unfinished++
	}
}

// listen has a function called when an event makes what the handlers were called for a thing of the past, until what it returns is called.
// Whether it does is found out on a goroutine of the object's own, because functions of users have a say in it.
func (c *cycle) listen(onSuperseded func()) (stop func()) {
	handled, stopped := c.essence.bytes(), make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			events, arrived := c.queue.pendingEvents(c.entry)
			outdated := false
			err := safecall.Do(func() error {
				outdated = slices.ContainsFunc(events, func(ev RawEvent) bool { return c.outdates(ev, handled) })
				return nil
			})
			if err != nil {
				c.log.Error("It cannot be found out whether the handler is to be interrupted; it goes on.", "error", err, "stack", string(safecall.StackOf(err)))
				return
			}
			if outdated {
				onSuperseded()
				return
			}
			select {
			case <-arrived:
			case <-stopped:
				return
			}
		}
	})
	return func() {
		close(stopped)
		tasks.Wait()
	}
}

// outdates reports whether an event makes what the handlers were called for a thing of the past: the object is being deleted or gone, or
// is neither what it was when they were called, nor what they have made of it since.
func (c *cycle) outdates(ev RawEvent, handled []byte) bool {
	body := ev.Body
	if ev.Type == Deleted || body.Deleting() && !c.event.Body.Deleting() {
		return true
	}
	now := c.track(body)
	return !now.Equal(&Essence{raw: handled}) && !now.Equal(c.track(c.execution.bodyNow()))
}

// collectHandlers finds the handlers of the cause, and those whose records are only to be cleaned up. It returns the
// reasons of older causes that this one supersedes, with how far they had come.
func (c *cycle) collectHandlers(cause *Change) (superseded map[Reason]*handlerCounts) {
	e, now := c.execution, time.Now()
	c.purge = c.purge || c.copied
	saved := c.savedState()
	if e.unseen = c.unseen(saved); e.unseen != nil {
		c.renewSubs(now)
	}
	collected := make(map[HandlerID]bool)
	note := func(p *progress) {
		collected[p.handler.id] = true
		if foreign := p.stored && p.purpose != "" && p.purpose != c.reason; foreign {
			if superseded == nil {
				superseded = make(map[Reason]*handlerCounts)
			}
			if superseded[p.purpose] == nil {
				superseded[p.purpose] = &handlerCounts{}
			}
			superseded[p.purpose].add(p.storedRecord())
			c.purge = c.purge || !p.selected
		}
	}
	for _, h := range selectHandlers(c.served.changes, cause, e.initial) {
		note(e.add(h, nil, true, now))
	}
	for _, h := range c.served.changes {
		if collected[h.id] {
			continue
		}
		if record, err := c.loadProgress(h.id); err == nil && record != nil {
			note(e.add(h, nil, false, now))
		}
	}
	switch {
	case saved == nil || e.unseen != nil:
	case saved.essence == nil: // only the digest is known, which is that of the object
		c.seen = &handlingState{essence: c.essence, base: saved.base, since: saved.since}
	default:
		c.seen = saved
	}
	return superseded
}

// count returns how many handlers of the cause have succeeded and failed.
func (c *cycle) count() (succeeded, failed int) {
	for _, p := range c.execution.all {
		if p.parent == nil && (p.selected || p.purpose == c.reason || p.purpose == "") {
			if p.record.Success {
				succeeded++
			} else if p.record.Failure {
				failed++
			}
		}
	}
	return succeeded, failed
}
