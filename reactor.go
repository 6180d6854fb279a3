package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/firstlisting"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/stopper"
)

// This file reconciles the objects of one resource: the events of an object become one cause, the cause calls
// handlers, and what they leave becomes one patch. The functions of a cycle run on the goroutine of the
// object's worker, except for the flush, which a timer can start too; the others on those of streams, tasks and the observer.

// reactor handles the objects of one resource.
type reactor struct {
	*environment
	queue     *queue
	indexer   indexRunner // nil if there are no indices at all
	daemons   taskRunner  // nil if there are neither daemons nor timers
	began     time.Time   // what the clock begins with
	discovery discoverer
	warned    boundedset.Set
	listing   firstlisting.Listing
	others    sync.Once // warns of another operator

	statusDrops atomic.Bool     // a status has not kept the state of its object; stays so until the operator restarts
	unreadable  atomic.Bool     // an object could not be read when its stream was late, and none could be since
	requests    context.Context // of the requests: ends a little after that of the handlers, so that what is done can be stored

	served atomic.Pointer[resolved]
	handed *Client // what handlers get
}

func (r *reactor) resource() Resource { return r.served.Load().resource }

// serve has the reactor handle what there is of its resource from now on.
func (r *reactor) serve(what *resolved) {
	r.queue.setServed(len(what.indices)+len(what.follows) > 0, !what.callsHandlers(), len(what.reconciles) > 0) // first, so that new handlers wait
	if before := r.served.Load(); before == nil || !what.sameHandlers(before) {
		what.since = time.Now()
	} else if before != what {
		what.since = before.since
	}
	r.served.Store(what)
}

func (r *reactor) trackedState(b *Body) *Essence { return r.served.Load().track(b) }

func (r *reactor) wake(e *entry) { r.queue.wake(e) }

func (r *reactor) setLive(e *entry, live *atomic.Pointer[Body]) bool { return r.queue.setLive(e, live) }

func (r *reactor) unsetLive(e *entry, live *atomic.Pointer[Body]) { r.queue.unsetLive(e, live) }

func (r *reactor) warnings() *boundedset.Set { return &r.warned }

// clock returns for how long the reactor has worked. Unlike the time of the day, it is never set back.
func (r *reactor) clock() time.Duration { return time.Since(r.began) }

// enqueue takes an event of a stream.
func (r *reactor) enqueue(ev RawEvent, from *source) {
	served := r.served.Load()
	served.counts.Received(string(ev.Type))
	r.queue.add(ev, from, len(served.events) > 0)
}

// forget forgets an object that is not served any more.
func (r *reactor) forget(e *entry) {
	if r.indexer != nil {
		r.indexer.drop(e.key, r.served.Load().indices)
	}
	if r.daemons != nil {
		r.daemons.forget(e, stopper.FiltersMismatch)
	}
	if r.reconciler != nil {
		r.reconciler.forget(r, e)
	}
}

// newest returns the newest event of an object: of those that have come, or one with what is known of it otherwise; its body is nil if nothing is known.
func (r *reactor) newest(e *entry, events []RawEvent) RawEvent {
	if len(events) > 0 {
		return events[len(events)-1]
	}
	newest := RawEvent{Type: Modified, Body: e.state.body, initial: true}
	if e.state.live != nil {
		if live := e.state.live.Load(); live != nil && (newest.Body == nil || apirequest.NewerVersion(live.version, newest.Body.version)) {
			newest.Body = live
		}
	}
	return newest
}

// index takes the newest state of an object over into the indices. It is due again when what has failed is to be tried again.
func (r *reactor) index(e *entry, events []RawEvent, at epoch) result {
	served := r.served.Load()
	newest := r.newest(e, events)
	if e.state.answers = nil; livepage.Included && r.looks != nil {
		e.state.answers = make(answers)
	}
	if len(served.indices)+len(served.follows) == 0 || newest.Body == nil {
		return result{}
	}
	defer r.queue.synced(e)
	if len(served.follows) > 0 && len(events) > 0 { // after the indices, which the handlers of others may read that are called for it
		defer r.reconciler.follow(r, e, newest, at)
	}
	if len(served.indices) == 0 {
		return result{}
	}
	if newest.Type == Deleted {
		r.indexer.drop(e.key, served.indices)
		return result{}
	}
	e.state.memory.see(r.memo)
	o := r.object(e, served, newest.Body, objectLogger(r.log, newest.Body.Reference()))
	wait := r.indexer.index(e.key, served.indices, &o, &e.state.unindexed)
	if !r.queue.serves(e, at) { // it was forgotten meanwhile
		r.indexer.drop(e.key, served.indices)
	}
	return result{}.requeueWithin(wait, newest.Body)
}

// reconcile processes the events of an object that have come since the last time.
func (r *reactor) reconcile(e *entry, events []RawEvent, at epoch) result {
	newest := r.newest(e, events)
	if newest.Body == nil {
		return result{} // woken for what was done meanwhile
	}
	e.state.memory.see(r.memo)
	e.state.handling.begin(at.term)
	if len(events) > 0 && apirequest.NewerVersion(newest.Body.version, e.last.expected) {
		e.last.expected = ""
	}
	c := r.cycle(e, newest, at)
	c.writes.patches = e.pendingPatches()
	ended, span := false, c.trace()
	defer func() {
		e.state.answers = nil
		endSpan(span, nil)
		if !ended { // code of the user has panicked, or ours
			c.stopFlush()
			c.keepPatches()
		}
	}()
	for _, ev := range events {
		c.callEventHandlers(ev)
	}
	if len(c.served.follows) > 0 && len(events) > 0 {
		r.reconciler.notify(c)
	}
	done := c.reconcile()
	if len(c.served.reconciles) > 0 {
		done = r.reconciler.requeue(c, done)
	}
	ended = true
	c.countFailing()
	return done
}

// superseded reports whether the operator has paused since the newest event of the object has come, or has not served the object meanwhile. Nothing
// is started then: another operator may work on the object, and a listing will show what it is then.
func (c *cycle) superseded() bool { return !c.reactor.queue.current(c.entry, c.epoch) }

// spawnTasks starts and stops the daemons and timers of the object, and reports whether they need it to be held.
func (c *cycle) spawnTasks() bool {
	if len(c.served.tasks) == 0 {
		return false
	}
	if c.served.idle {
		c.states.essence = c.track(c.event.Body)
	}
	o := c.object(c.event.Body)
	return c.reactor.daemons.spawn(c.entry, c.served.tasks, &o, c.states.essence)
}

// cycle is the work on one state of an object. It runs on the goroutine of the object's worker.
type cycle struct {
	reactor  *reactor
	entry    *entry
	served   *resolved
	event    RawEvent // the newest
	epoch    epoch
	handlers context.Context // of the handlers: ends with the term, or when the operator has waited long enough
	log      *slog.Logger
	sender   sender
	states   cycleStates
	conflict cycleConflict
	decided  decision.Action
	ran      bool   // whether its reconcile handlers were looked at
	cause    Change // of the handlers, with the old and new state of the whole object, copied for each; without a reason before they are collected

	mu       sync.Mutex // guards following, which the timer shares that stores what has finished
	known    *Body      // the newest state of the object that a request has shown
	progress cycleProgress
	writes   cycleWrites
	planned  plannedFlush
}

// servedFor returns what is served for an object, with the place where the state of that is kept.
func (r *reactor) servedFor(body *Body) *resolved {
	served := r.served.Load()
	if served.annotated == nil || !r.statusDrops.Load() && (!served.unread || served.persistence.inStatus(body)) {
		return served
	}
	annotated := *served
	annotated.persistence = served.annotated
	return &annotated
}

func (r *reactor) cycle(e *entry, newest RawEvent, at epoch) *cycle {
	c := &cycle{reactor: r, entry: e, served: r.servedFor(newest.Body), event: newest, epoch: at, log: objectLogger(r.log, newest.Body.Reference()), known: newest.Body}
	if e.state.body != nil && newest.Type == Modified && apirequest.NewerVersion(e.state.body.version, newest.Body.version) {
		c.known = e.state.body // what our own patches have made of it; the event is from before them
	}
	c.sender = sender{client: r.client, resource: c.served.resource, log: c.log, discovery: r.discovery, warned: &r.warned, lenient: c.known.deleting && e.state.retry.conflicts >= manyConflicts, state: c.served.persistence}
	c.handlers, c.sender.ctx = r.contexts(at)
	c.conflict.first, c.conflict.recent = !e.state.handling.inProgress, c.wasPatchedRecently()
	return c
}

// knownBody returns the newest state of the object that a request has shown.
func (c *cycle) knownBody() *Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// latest returns the newest state of the object: that of the last request, or of an event that has come since.
func (c *cycle) latest() *Body {
	known := c.knownBody()
	if body := c.reactor.queue.newest(c.entry); body != nil && apirequest.NewerVersion(body.version, known.version) {
		return body
	}
	return known
}

// setKnown takes a state that a request has shown for the newest one.
func (c *cycle) setKnown(before, now *Body) {
	c.mu.Lock()
	c.known = now
	c.mu.Unlock()
	c.notePatched(before, now)
}

// request makes the requests of one patch, and reports whether there were any.
func (c *cycle) request(patch *Patch) (sent bool, err error) {
	before := c.latest()
	now, err := c.sender.request(before, patch)
	if sent = now != before; sent {
		c.setKnown(before, now)
	}
	if errors.Is(err, errStateDropped) && !c.reactor.statusDrops.Swap(true) {
		c.log.Warn("The API server drops the state from the status; keeping it in annotations until the operator restarts", "help", "K409", "resource", c.served.resource.Name(),
			"hint", "keep the field in the schema of the status: kopf: {type: object, x-kubernetes-preserve-unknown-fields: true}")
	}
	return sent, err
}

// notePatched notes that our own patch is to come back before the handlers may trust what the stream shows.
func (c *cycle) notePatched(before, after *Body) {
	e, timeout := c.entry, c.served.persistence.ConsistencyTimeout
	if after.version != before.version {
		if e.last.expectedUntil = c.reactor.clock() + timeout; timeout > 0 {
			e.last.expected = after.version
		}
	}
	if e.state.end.goneVersion = ""; after.deleting && len(before.Finalizers()) > 0 && len(after.Finalizers()) == 0 { // others end without any, by and by
		e.state.end.goneVersion = after.version
		if apirequest.NewerVersion(before.version, after.version) { // API servers answer with the version of a cached state, which can be older than the one that they removed
			e.state.end.goneVersion = before.version
		}
	}
}

// callEventHandlers calls the handlers of raw events for one event.
func (c *cycle) callEventHandlers(ev RawEvent) {
	r := c.reactor
	for _, h := range c.served.events {
		if c.superseded() {
			return
		}
		e := &WatchEvent{Object: c.object(ev.Body), Type: ev.Type}
		if !h.matchesEvent(e, e.answers.to(h, e.Body, false)) {
			continue
		}
		if acquired, _ := r.limiter.AcquireHandler(c.handlers.Done(), nil, true, true); !acquired {
			return
		}
		e.Patch, e.Param, e.Logger = newPatch(c.served.persistence, ev.Body), h.param, handlerLogger(c.log, h.id)
		call := call{handler: h, noun: "Handler", log: c.log, meter: r.meter.Handler(string(h.id), false), settings: r.settings, replica: r.replica, leader: r.leader, limiter: r.limiter, started: time.Now(), object: &e.Object, entry: c.entry, calls: r.calls}
		_, err := call.invoke(c.handlers, func(ctx context.Context, _ Attempt) error {
			e.Logger = tracedLogger(ctx, e.Logger)
			r.queue.setRunning(c.entry, h.id)
			defer r.queue.setRunning(c.entry, "")
			err := safecall.Do(func() error { return h.event(ctx, e) })
			return errors.Join(err, e.Patch.check())
		})
		r.limiter.ReleaseHandler()
		if !e.Patch.Empty() {
			c.writes.patches = append(c.writes.patches, &handlerPatch{id: h.id, patch: e.Patch, succeeded: err == nil})
		} else if err == nil { // which is not worth a line for each event
			c.log.Debug("Handler '"+string(h.id)+"' succeeded.", handlerAttr(h.id))
		}
	}
}

func (c *cycle) object(body *Body) Object { return c.reactor.object(c.entry, c.served, body, c.log) }

// object makes what handlers get of an object.
func (r *reactor) object(e *entry, served *resolved, body *Body, log *slog.Logger) Object {
	o := r.argument(body, log)
	o.Resource, o.Patch, o.memory, o.answers = served.resource, newPatch(served.persistence, body), &e.state.memory, e.state.answers // filters may look at it
	return o
}

func (r *reactor) argument(body *Body, log *slog.Logger) Object {
	served := r.served.Load()
	fence := r.leader.number()
	return Object{
		Resource: served.resource, Body: body, Patch: newPatch(served.persistence, body), Logger: log, Client: r.handed.during(fence), Indices: r.indices, fence: fence, events: r.events,
	}
}

// reconcile does all but the handlers of raw events, and returns when the object is due again.
func (c *cycle) reconcile() result {
	e := c.entry
	c.decided = c.decide()
	if c.decided.Kind == decision.Confirm {
		_, err := c.sender.get(c.known)
		if errors.Is(err, errGone) { // the event was only late
			return c.requeue(-1, err)
		}
		if err != nil && StatusCode(err) != codeForbidden { // where it cannot be known, it is there
			return c.requeue(0, err)
		}
		e.state.end.goneVersion = ""
		c.decided = c.decide()
	}
	if c.decided.Kind != decision.Handle { // of which the handlers are not known yet
		c.note(nil)
	}
	switch c.decided.Kind {
	case decision.Drop:
		return c.drop()
	case decision.End:
		if c.reactor.daemons != nil {
			c.reactor.daemons.forget(e, stopper.ResourceDeleted)
		}
		if c.reactor.reconciler != nil {
			c.reactor.reconciler.forget(c.reactor, e)
		}
		c.log.Debug("Deleted, really deleted, and we are notified.")
		return result{gone: true}
	case decision.Pause:
		c.keepPatches()
		return result{requeue: true, requeueAfter: c.decided.Wait, body: c.event.Body}
	}
	return c.requeue(c.act())
}

// drop leaves everything to what will be begun later.
func (c *cycle) drop() result {
	if c.event.Type != Deleted && c.handlers.Err() == nil {
		c.savePending()
	}
	return result{unreported: c.event.Type == Deleted}
}

// keepPatches keeps what is to be sent for a later cycle.
func (c *cycle) keepPatches() {
	c.writes.patches = coalesce(c.writes.patches)
	c.savePending()
}

// requeue returns when the object is due again after an action: at the given time, or only if something changes if that is negative.
func (c *cycle) requeue(wait time.Duration, err error) result {
	e := c.entry
	switch {
	case err != nil && errors.Is(context.Cause(c.handlers), ErrLeadershipLost):
		c.log.Debug("Dropping changes, because another replica may work on the object")
		c.awaitCutOff()
		return result{}
	case errors.Is(err, errGone):
		if c.reactor.daemons != nil { // which the deletion is to stop, unless its event is late
			c.reactor.daemons.forget(e, stopper.ResourceDeleted)
		}
		c.log.Debug("Dropping changes, because the object is gone")
		e.state.handling.pendingFlush, e.state.end.goneVersion = nil, c.latest().version // what the stream shows of it up to now is from before
		return result{}
	case overflows(err) && !c.event.Body.Deleting(): // whose handlers go on with what is in memory, for nothing of it is to stay
		c.log.Error("The state of the object is too large to be stored; its handlers are not called again until it changes", "help", "K405", "error", err,
			"hint", "all annotations of an object may have 262144 bytes: use Settings.Persistence.Storage = kopf.InStatus, or IgnoredFields of the DiffBaseStorage")
		e.state.handling.overflow, e.state.handling.pendingFlush, e.state.handling.seen = c.states.essence.digest(), nil, nil
		return result{}
	case err != nil:
		c.savePending()
		return c.throttle(err)
	}
	e.state.retry.errors, e.state.retry.conflicts = 0, 0
	if len(c.writes.deferred) > 0 {
		return c.deferPatches().requeueWithin(wait, c.known)
	}
	c.endConflict() // which the action may have taken no look at
	if w := e.state.conflict; wait < 0 && w != nil && !w.Slowed() {
		return result{requeue: true, requeueAfter: w.Remaining(), forgetConflict: true}
	} else if wait < 0 {
		wait = w.Remaining() // to tell the end
	}
	return result{}.requeueWithin(wait, c.known)
}

// reason returns what has happened to the object.
func (c *cycle) reason() Reason { return Reason(c.decided.Reason) }

// act does what was decided. It returns after what time the object is due again, negative if only an event can change anything.
func (c *cycle) act() (time.Duration, error) {
	e, p := c.entry.state, c.served.persistence
	switch c.decided.Kind {
	case decision.BackOff:
		c.keepPatches()
		c.noteDelay(c.decided.Wait, "update conflicts with another client slow the handling down")
		return c.decided.Wait, nil
	case decision.RemoveLegacy:
		c.log.Debug("Removing the finalizers of an older operator")
		return -1, c.write(&Patch{changes: objectpatch.Changes{Removes: p.LegacyFinalizers}})
	case decision.AddFinalizer:
		c.log.Debug("Adding the finalizer, thus preventing the actual deletion.")
		return -1, c.write(&Patch{changes: objectpatch.Changes{Adds: []string{p.Finalizer}}})
	case decision.RemoveFinalizer:
		c.log.Debug("Removing the finalizer, as there are no handlers that need it.")
		return -1, c.write(&Patch{changes: objectpatch.Changes{Removes: []string{p.Finalizer}}})
	case decision.DeleteMembers:
		if wait, gone := c.membersGone(); !gone {
			return wait, c.write(nil)
		}
		return -1, c.write(&Patch{changes: objectpatch.Changes{Removes: []string{p.Finalizer}}})
	case decision.Skip:
		c.entry.last.failed = false // whichever handler that was, it is not for the object any more
		return c.thenReconcile(-1, c.write(nil))
	case decision.Await:
		return c.decided.Wait, c.write(nil)
	case decision.Refetch:
		return c.refetch()
	case decision.Unchanged:
		c.log.Debug("No tracked field has changed; skipping handlers", "reason", c.reason())
		e.handling.pendingFlush, e.handling.seen = nil, nil // what was to be stored belonged to a cause that is over
		return c.thenReconcile(-1, c.write(nil))
	case decision.Handle:
		return c.thenReconcile(c.handle())
	}
	return -1, nil
}

// outdated reports whether the state is from before our own patch, which is not back yet.
func (c *cycle) outdated() bool {
	return c.entry.last.expected != "" && !apirequest.NewerVersion(c.event.Body.version, c.entry.last.expected)
}

// refetch reads the newest state of the object, and lets the next cycle work on that. While the object cannot be read, its handlers wait for
// the stream: what is known is from before our own patch, and they would be called again for what they have done.
func (c *cycle) refetch() (time.Duration, error) {
	known, timeout := c.known, c.served.persistence.ConsistencyTimeout
	c.log.Debug("The watch stream has not shown our patch in time; reading the object", "version", c.event.Body.version)
	body, err := c.sender.get(known)
	c.entry.last.expectedUntil = c.reactor.clock() + timeout
	switch {
	case errors.Is(err, errGone):
		c.entry.last.expected = ""
		return -1, errGone
	case err != nil:
		c.warnUnreadable(err)
		return cmp.Or(timeout, time.Second), c.write(nil)
	}
	c.reactor.unreadable.Store(false)
	c.setKnown(known, body)
	c.entry.state.handling.readIn = c.reactor.leader.number()
	c.entry.last.expected = body.version // and what the stream shows of earlier states is outdated, too
	return 0, c.write(nil)
}

// warnUnreadable warns that the objects of the resource cannot be read, once until one could be.
func (c *cycle) warnUnreadable(err error) {
	const message = "Reading the object failed, and the watch stream is late; its handlers wait until the stream has caught up"
	switch {
	case c.reactor.requests.Err() != nil:
	case c.reactor.unreadable.Swap(true):
		c.log.Debug(message, "error", err)
	case StatusCode(err) == codeForbidden:
		c.log.Warn(message, "help", "K121", "error", err, "hint", "grant the permission to get "+c.served.resource.Name())
	default:
		c.log.Warn(message, "help", "K121", "error", err)
	}
}

var reasonTitles = map[Reason]string{
	ReasonCreate: "Creation", ReasonUpdate: "Updating", ReasonDelete: "Deletion", ReasonResume: "Resuming",
}

// handle calls the handlers of the cause and sends what they leave.
func (c *cycle) handle() (time.Duration, error) {
	cause, e := &c.cause, c.entry
	c.prepareHandling()
	superseded := c.collectHandlers()
	for _, reason := range []Reason{ReasonCreate, ReasonUpdate, ReasonResume, ReasonDelete} {
		if t := superseded[reason]; t != nil && c.reason() != reasonNoop {
			cause.Logger.Info(fmt.Sprintf("%s is superseded by the %s: %d succeeded; %d failed; %d unfinished.", reasonTitles[reason], strings.ToLower(reasonTitles[c.reason()]), t.succeeded, t.failed, t.unfinished))
		}
	}
	if top, chosen := c.chooseHandlers(); len(top) > 0 {
		cause.Logger.Debug(reasonTitles[c.reason()]+" is in progress.", "body", cause.Resource.loggable(c.event.Body))
		if c.reason() == ReasonUpdate {
			cause.Logger.Debug("Detected differences", "diff", cause.Resource.loggable(lazyDiff(cause.diff)))
		}
		e.state.handling.inProgress = true
		if e.state.handling.pendingFlush != nil {
			c.planFlush(max(c.reactor.settings.Execution.FlushAfter, time.Second))
		}
		c.runChosen(c.handlers, chosen)
	}
	c.stopFlush()
	if err := c.flushFailure(); err != nil {
		return 0, err
	}
	done, wait := c.handlersDone(time.Now())
	if !done {
		return c.postpone(wait)
	}
	if wait, released := c.released(); !released {
		e.state.handling.pendingFlush = nil
		return wait, c.flush(false) // so that the handlers are not called again for that
	}
	storesBase := c.storesBase()
	c.detectOtherOperator(storesBase)
	err := c.flush(true)
	if overflows(err) && c.states.seen != nil && !c.states.seen.essence.Equal(c.states.essence) {
		if c.callAgain() {
			return 0, nil
		}
		c.states.seen = nil // none of those that have seen it is for the object any more
		storesBase, err = c.storesBase(), c.flush(true)
	}
	if err != nil {
		return 0, err
	}
	if c.reason() != reasonNoop {
		e.last.failed = false
	}
	if top := c.topHandlers(); len(top) > 0 {
		e.last.failed = c.logProcessed() > 0
	}
	if storesBase {
		e.last.baseDigest, e.last.baseStoredAt = c.handledState().digest(), c.reactor.clock()
	}
	e.last.handled, e.state.handling.deleteHandled, e.state.handling.pendingFlush, e.state.handling.seen = true, c.reason() == ReasonDelete, nil, nil
	e.state.handling.inProgress = c.reason() != ReasonDelete && c.leavesRecords()
	if c.reason() == ReasonDelete {
		c.log.Debug("Removing the finalizer, thus allowing the actual deletion.")
	} else if c.known.version == c.event.Body.version {
		c.log.Debug("Handling is finished, with nothing to store")
	}
	return -1, nil
}

// released reports whether nothing else than handlers of the deletion holds an object, if it is being deleted. Otherwise, it returns when to look again.
func (c *cycle) released() (wait time.Duration, released bool) {
	if c.reason() != ReasonDelete {
		return 0, true
	}
	if len(c.served.tasks) > 0 && !c.reactor.daemons.waitIdle(c.entry, c.reactor.settings.Background.InstantExitTimeout) {
		return -1, false // the end of the last task will wake the object
	}
	return c.membersGone()
}

// logProcessed logs the sum of a handling: as its successes, unless there are failures. It returns how many there are.
func (c *cycle) logProcessed() (failed int) {
	succeeded, failed := c.count()
	level := slog.LevelInfo
	if failed == 0 {
		level = c.reactor.successes.Level()
	}
	c.cause.Logger.Log(c.handlers, level, fmt.Sprintf("%s is processed: %d succeeded; %d failed.", reasonTitles[c.reason()], succeeded, failed))
	return failed
}

// postpone stores the progress of handlers that are not all finished. It returns when they are to be called again.
func (c *cycle) postpone(wait time.Duration) (time.Duration, error) {
	attempted := c.progress.attempts > 0
	if !attempted && c.handlers.Err() != nil {
		return -1, nil // what the end of the operator has cut off leaves nothing behind
	}
	if !attempted && c.superseded() {
		c.savePending()
		return -1, nil // nor does a pause
	}
	switch err := c.flush(false); {
	case overflows(err):
		c.log.Warn("The progress of the handlers is too large to be stored together with the last handled state; it is lost if the operator restarts before they have finished", "help", "K406", "error", err)
		c.savePending()
	case err != nil:
		return 0, err
	default:
		c.entry.state.handling.pendingFlush, c.entry.state.handling.seen = nil, c.states.seen
	}
	if !attempted && wait <= 0 { // a lifecycle that chooses nothing is not to be called in a loop
		wait = time.Second
	}
	return wait, nil
}

// prepareHandling notes the cause, and what is still to be sent.
func (c *cycle) prepareHandling() {
	cause := &c.cause
	cause.Reason, cause.Logger = c.reason(), postedLogger(c.log, c.event.Body.Reference(), c.reactor.events)
	cause.Old, cause.New = c.states.before.View(), c.states.essence.View()
	cause.diff = sync.OnceValue(func() Diff { return diffJSON(valueOf(c.states.before), valueOf(c.states.essence)) })
	if u := c.entry.state.handling.pendingFlush; u != nil {
		c.writes.succeeded = slices.Clone(u.succeeded)
	}
	c.writes.body, c.planned.turn = c.event.Body, make(chan struct{}, 1)
	for _, p := range c.writes.patches {
		c.writes.unapplied = append(c.writes.unapplied, p.patch)
	}
}

// loadProgress returns the record of a handler, nil if there is none.
func (c *cycle) loadProgress(id HandlerID) (*ProgressRecord, error) {
	if u := c.entry.state.handling.pendingFlush; u != nil && u.records[id] != nil {
		return u.records[id], nil
	}
	if c.states.copied {
		return nil, nil
	}
	record, err := c.served.persistence.ProgressStorage.Fetch(id, c.event.Body)
	if record != nil && c.states.recordsOutdated && record.Purpose != ReasonDelete { // only what is to be purged with it is known
		record = &ProgressRecord{Subrefs: record.Subrefs}
	}
	return record, err
}

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
	handled, stopped := c.states.essence.bytes(), make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			events, arrived := c.reactor.queue.pendingEvents(c.entry)
			outdated := false
			err := safecall.Do(func() error {
				outdated = slices.ContainsFunc(events, func(ev RawEvent) bool { return c.outdates(ev, handled) })
				return nil
			})
			if err != nil {
				c.log.Error("Checking whether to interrupt the handler panicked; the handler continues", "help", "K313", "error", err, "stack", string(safecall.StackOf(err)))
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
	if apirequest.NewerVersion(c.event.Body.version, body.version) { // a late stream shows what was before the object was read
		return false
	}
	now := c.track(body)
	return !now.Equal(essenceIn(handled)) && !now.Equal(c.track(c.bodyNow()))
}

// collectHandlers finds the handlers of the cause, and those whose records are only to be cleaned up. It returns the
// reasons of older causes that this one supersedes, with how far they had come.
func (c *cycle) collectHandlers() (superseded map[Reason]*handlerCounts) {
	now := time.Now()
	c.states.recordsOutdated, c.states.differ = c.recordsOutdated(), c.served.persistence.statesDiffer(c.event.Body)
	c.progress.purge = c.progress.purge || c.states.copied || c.states.recordsOutdated || c.states.differ
	saved := c.savedState()
	c.states.unseen = c.unseen(saved)
	switch { // before the records are read, as storages may panic
	case saved == nil:
	case c.states.unseen != nil:
		c.renewSubs(now)
	case saved.essence == nil: // only the digest is known, which is that of the object
		c.states.seen = &handlingState{essence: c.states.essence, base: saved.base, since: saved.since}
	default:
		c.states.seen = saved
	}
	collected := make(map[HandlerID]bool)
	note := func(p *progress) {
		collected[p.handler.id] = true
		if foreign := p.stored && p.purpose != "" && p.purpose != c.reason(); foreign {
			if superseded == nil {
				superseded = make(map[Reason]*handlerCounts)
			}
			if superseded[p.purpose] == nil {
				superseded[p.purpose] = &handlerCounts{}
			}
			superseded[p.purpose].add(p.storedRecord())
			c.progress.purge = c.progress.purge || !p.selected
		}
	}
	for _, h := range selectHandlers(c.served.changes, &c.cause, c.decided.Initial) {
		note(c.addProgress(h, nil, true, now))
	}
	for _, h := range c.served.changes {
		if collected[h.id] {
			continue
		}
		if record, err := c.loadProgress(h.id); err == nil && record != nil {
			note(c.addProgress(h, nil, false, now))
		}
	}
	return superseded
}

// count returns how many handlers of the cause have succeeded and failed.
func (c *cycle) count() (succeeded, failed int) {
	for _, p := range c.progress.all {
		if p.parent == nil && (p.selected || p.purpose == c.reason() || p.purpose == "") {
			if p.record.Success {
				succeeded++
			} else if p.record.Failure {
				failed++
			}
		}
	}
	return succeeded, failed
}
