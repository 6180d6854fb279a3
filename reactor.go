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
	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/essence"
	"github.com/kopf-go/kopf/internal/firstlisting"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/stopper"
)

// This file reconciles the objects of one resource: events become a cause, the cause calls handlers, and their changes become one patch. A cycle runs on the
// goroutine of the object's worker, except for the flush, which a timer can also start.

// reactor handles the objects of one resource.
type reactor struct {
	*environment
	queue     *queue
	indexer   indexRunner // nil without indices
	daemons   taskRunner  // nil without daemons and timers
	began     time.Time   // the zero of the clock
	discovery discoverer
	warned    boundedset.Set
	listing   firstlisting.Listing
	others    sync.Once // warns of another operator

	statusDrops atomic.Bool     // a status has dropped the state of its object; stays so until the operator restarts
	unreadable  atomic.Bool     // an object could not be read when its stream was late, and no reading has succeeded since
	requests    context.Context // of the requests: ends shortly after that of the handlers, so that results can be stored

	served atomic.Pointer[resolved]
	handed *Client // the handlers' client
}

func (r *reactor) resource() Resource { return r.served.Load().resource }

// serve sets the handlers and the resource from now on.
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

// clock returns the time since the reactor was made. Unlike the wall clock, it is never set back.
func (r *reactor) clock() time.Duration { return time.Since(r.began) }

// enqueue adds an event of a stream.
func (r *reactor) enqueue(ev RawEvent, from *source) {
	served := r.served.Load()
	served.counts.Received(string(ev.Type))
	r.queue.add(ev, from, len(served.events) > 0)
}

func (r *reactor) forget(e *entry) {
	if r.daemons != nil {
		r.daemons.forget(e, stopper.FiltersMismatch)
	}
	if r.reconciler != nil {
		r.reconciler.forget(r, e)
	}
	if r.indexer != nil { // at the end, because the keys and values of users may panic
		r.indexer.drop(e.key, r.served.Load().indices)
	}
}

// newest returns the newest of the events, or an event with the known state of the object. Its body is nil if there is none.
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

// index indexes the newest state of an object. The object is due again for the next attempt of a failed function.
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
	if len(served.follows) > 0 && len(events) > 0 { // after the indices, because the triggered handlers may read them
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
	body := newest.Body
	if r.queue.isIndexed(e, body.version) { // the event is late, after the response to the operator's own patch
		if body = e.state.body; body == nil || r.queue.isIndexed(e, body.version) {
			return result{}
		}
	}
	r.queue.setIndexed(e, body.version, at)
	o := r.object(e, served, body, objectLogger(r.log, body.Reference()))
	wait := r.indexer.index(e.key, served.indices, &o, &e.state.unindexed)
	if !r.queue.serves(e, at) { // the object was forgotten meanwhile
		r.indexer.drop(e.key, served.indices)
	}
	return result{}.requeueWithin(wait, body)
}

// reconcile handles the pending events of an object.
func (r *reactor) reconcile(e *entry, events []RawEvent, at epoch) result {
	newest := r.newest(e, events)
	if newest.Body == nil {
		return result{} // woken for work that is already done
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
		if !ended { // the user's code or kopf has panicked
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

// superseded reports whether the operator has paused since the newest event, or has stopped serving the object. Nothing new starts then: another operator may
// work on the object, and a list will show its state.
func (c *cycle) superseded() bool { return !c.reactor.queue.current(c.entry, c.epoch) }

// spawnTasks starts and stops the daemons and timers of the object, and reports whether they need the finalizer.
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
	handlers context.Context // of the handlers: ends with the term, or when the operator stops waiting for them
	log      *slog.Logger
	sender   sender
	states   cycleStates
	conflict cycleConflict
	decided  decision.Action
	ran      bool   // whether its reconcile handlers were checked
	cause    Change // of the handlers, with the old and new state of the whole object, copied for each; without a reason before their selection

	mu       sync.Mutex // guards following, also used by the timer of flushes
	known    *Body      // the newest state of the object in a response
	progress cycleProgress
	writes   cycleWrites
	planned  plannedFlush
}

// servedFor returns the handlers and settings for an object, which may need another storage than its kind.
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
		c.known = e.state.body // the result of the operator's own patches, which the event predates
	}
	c.sender = sender{client: r.client, resource: c.served.resource, log: c.log, discovery: r.discovery, warned: &r.warned, lenient: c.known.deleting && e.state.retry.conflicts >= manyConflicts, state: c.served.persistence}
	c.handlers, c.sender.ctx = r.contexts(at)
	c.conflict.first, c.conflict.recent = !e.state.handling.inProgress, c.wasPatchedRecently()
	return c
}

func (c *cycle) knownBody() *Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// latest returns the newest state of the object: of the last response, or of a later event.
func (c *cycle) latest() *Body {
	known := c.knownBody()
	if body := c.reactor.queue.newest(c.entry); body != nil && apirequest.NewerVersion(body.version, known.version) {
		return body
	}
	return known
}

// setKnown sets the newest state in a response.
func (c *cycle) setKnown(before, now *Body) {
	c.mu.Lock()
	c.known = now
	c.mu.Unlock()
	c.notePatched(before, now)
}

// request sends one patch, and reports whether there were any requests.
func (c *cycle) request(patch *Patch) (sent bool, err error) {
	before := c.latest()
	now, err := c.sender.request(before, patch)
	if sent = now != before; sent {
		c.setKnown(before, now)
	}
	if errors.Is(err, errStateDropped) && !c.reactor.statusDrops.Swap(true) {
		c.log.Warn("The API server drops the state from the status; keeping it in annotations until the operator restarts", "resource", c.served.resource.Name(),
			"hint", "keep the field in the schema of the status: kopf: {type: object, x-kubernetes-preserve-unknown-fields: true}", "help", "K409")
	}
	return sent, err
}

// notePatched records the operator's own patch. Handlers wait until the stream shows it.
func (c *cycle) notePatched(before, after *Body) {
	e, timeout := c.entry, c.served.persistence.ConsistencyTimeout
	if after.version != before.version {
		if e.last.expectedUntil = c.reactor.clock() + timeout; timeout > 0 {
			e.last.expected = after.version
		}
	}
	if e.state.end.goneVersion = ""; after.deleting && len(before.Finalizers()) > 0 && len(after.Finalizers()) == 0 { // others are removed without another event
		e.state.end.goneVersion = after.version
		if apirequest.NewerVersion(before.version, after.version) { // the response to a removal can have the version of an older cached state
			e.state.end.goneVersion = before.version
		}
	}
}

// callEventHandlers calls the event handlers for one event.
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
		e.Patch, e.Param, e.Logger = newPatch(c.served.persistence, &c.served.resource, ev.Body), h.param, handlerLogger(c.log, h.id)
		call := call{handler: h, noun: "Handler", log: c.log, meter: r.meter.Handler(string(h.id), false), settings: r.settings, replica: r.replica, leader: r.leader, limiter: r.limiter, started: time.Now(), object: &e.Object, entry: c.entry, calls: r.calls}
		_, err := call.invoke(c.handlers, func(ctx context.Context, _ Attempt) error {
			e.Logger = tracedLogger(ctx, e.Logger)
			r.queue.setRunning(c.entry, h.id)
			defer r.queue.setRunning(c.entry, "")
			err := safecall.Recover(func() error { return h.event(ctx, e) })
			return errors.Join(err, e.Patch.check())
		})
		r.limiter.ReleaseHandler()
		if !e.Patch.Empty() {
			c.writes.patches = append(c.writes.patches, &handlerPatch{id: h.id, patch: e.Patch, succeeded: err == nil})
		} else if err == nil { // too frequent for a log line
			c.log.Debug("Handler '"+string(h.id)+"' succeeded.", handlerAttr(h.id))
		}
	}
}

func (c *cycle) object(body *Body) Object { return c.reactor.object(c.entry, c.served, body, c.log) }

// object makes the common argument of handlers.
func (r *reactor) object(e *entry, served *resolved, body *Body, log *slog.Logger) Object {
	o := r.argument(body, log)
	o.Resource, o.Patch, o.memory, o.answers = served.resource, newPatch(served.persistence, &served.resource, body), &e.state.memory, e.state.answers // filters may use it
	return o
}

func (r *reactor) argument(body *Body, log *slog.Logger) Object {
	served := r.served.Load()
	fence := r.leader.number()
	return Object{
		Resource: served.resource, Body: body, Patch: newPatch(served.persistence, &served.resource, body), Logger: log, Client: r.handed.during(fence), Indices: r.indices, fence: fence, events: r.events,
	}
}

// reconcile does all work except for event handlers, and returns when the object is due again.
func (c *cycle) reconcile() result {
	e := c.entry
	c.decided = c.decide()
	if c.decided.Kind == decision.Confirm {
		_, err := c.sender.get(c.known)
		if errors.Is(err, errGone) { // the event was only late
			return c.requeue(-1, err)
		}
		if err != nil && StatusCode(err) != codeForbidden { // without the permission to read, it assumes that the object exists
			return c.requeue(0, err)
		}
		e.state.end.goneVersion = ""
		c.decided = c.decide()
	}
	if c.decided.Kind != decision.Handle { // the handlers are not known yet
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

// drop ends the cycle, and leaves the work to a later one.
func (c *cycle) drop() result {
	if c.event.Type != Deleted && c.handlers.Err() == nil {
		c.savePending()
	}
	return result{unreported: c.event.Type == Deleted}
}

// keepPatches saves unsent patches for a later cycle.
func (c *cycle) keepPatches() {
	c.writes.patches = coalesce(c.writes.patches)
	c.savePending()
}

// requeue returns when the object is due again after an action: after the given time, or at the next event if that is negative.
func (c *cycle) requeue(wait time.Duration, err error) result {
	e := c.entry
	switch {
	case err != nil && errors.Is(context.Cause(c.handlers), ErrLeadershipLost):
		c.log.Debug("Dropping changes, because another replica may work on the object")
		c.awaitCutOff()
		return result{}
	case errors.Is(err, errGone):
		if c.reactor.daemons != nil { // the deletion stops them, and its event may be late
			c.reactor.daemons.forget(e, stopper.ResourceDeleted)
		}
		c.log.Debug("Dropping changes, because the object is gone")
		e.state.handling.pendingFlush, e.state.end.goneVersion = nil, c.latest().version // the stream has only shown earlier states so far
		return result{}
	case overflows(err) && !c.event.Body.Deleting(): // its handlers continue with the state in memory, because nothing of it will remain
		c.log.Error("The state of the object is too large to be stored; its handlers are not called again until it changes", "error", err,
			"hint", "all annotations of an object may have 262144 bytes: use Settings.Persistence.Storage = kopf.InStatus, or IgnoredFields of the DiffBaseStorage", "help", "K405")
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
	c.endConflict() // the action may not have checked it
	if w := e.state.conflict; wait < 0 && w != nil && !w.Slowed() {
		return result{requeue: true, requeueAfter: w.Remaining(), forgetConflict: true}
	} else if wait < 0 {
		wait = w.Remaining() // to log the end
	}
	return result{}.requeueWithin(wait, c.known)
}

// reason returns the reason of the change.
func (c *cycle) reason() Reason { return Reason(c.decided.Reason) }

// act carries out the decision. It returns the time until the object is due again, negative for the next event.
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
		c.entry.last.failed = false   // the failed handler does not match the object any more
		if e.handling.overflow == 0 { // otherwise, handlers may match, but wait until the state fits
			return c.thenReconcile(-1, c.write(c.lapseAll()))
		}
		return c.thenReconcile(-1, c.write(nil))
	case decision.Await:
		return c.decided.Wait, c.write(nil)
	case decision.Refetch:
		return c.refetch()
	case decision.Unchanged:
		c.log.Debug("No tracked field has changed; skipping handlers", "reason", c.reason())
		e.handling.pendingFlush, e.handling.seen = nil, nil // the unsent state belonged to an ended cause
		return c.thenReconcile(-1, c.write(nil))
	case decision.Handle:
		return c.thenReconcile(c.handle())
	}
	return -1, nil
}

// outdated reports whether the state predates the operator's own patch, which the stream has not shown yet.
func (c *cycle) outdated() bool {
	return c.entry.last.expected != "" && !apirequest.NewerVersion(c.event.Body.version, c.entry.last.expected)
}

// refetch reads the newest state of the object for the next cycle. If that fails, the handlers wait for the stream. The known state predates the operator's
// own patch, and would repeat finished handlers.
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
	c.entry.last.expected = body.version // earlier states in the stream are outdated, too
	return 0, c.write(nil)
}

// warnUnreadable warns that objects of the resource cannot be read, once until the next success.
func (c *cycle) warnUnreadable(err error) {
	const message = "Reading the object failed, and the watch stream is late; its handlers wait until the stream has caught up"
	switch {
	case c.reactor.requests.Err() != nil:
	case c.reactor.unreadable.Swap(true):
		c.log.Debug(message, "error", err)
	case StatusCode(err) == codeForbidden:
		c.log.Warn(message, "error", err, "hint", "grant the permission to get "+c.served.resource.Name(), "help", "K121")
	default:
		c.log.Warn(message, "error", err, "help", "K121")
	}
}

var reasonTitles = map[Reason]string{
	ReasonCreate: "Creation", ReasonUpdate: "Updating", ReasonDelete: "Deletion", ReasonResume: "Resuming",
}

// handle calls the handlers of the cause, and sends their results.
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
		if e.state.handling.pendingFlush != nil && c.transforms() {
			c.flushBetween()
		} else if e.state.handling.pendingFlush != nil {
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
		return wait, c.flush(false) // so that the handlers are not called again for the change
	}
	storesBase := c.storesBase()
	c.detectOtherOperator(storesBase)
	err := c.flush(true)
	if overflows(err) && c.behind() != nil {
		if c.callAgain() {
			return 0, nil
		}
		c.states.seen = nil // none of the handlers that have seen it matches the object any more
		storesBase, err = c.storesBase(), c.flush(true)
	}
	if err != nil {
		return 0, err
	}
	failed := c.failedNow()
	e.last.failed = len(failed) > 0
	c.logUnmatched()
	if len(c.topHandlers()) > 0 {
		c.logProcessed(failed)
	}
	if storesBase {
		e.last.baseDigest, e.last.baseStoredAt = c.handledState().digest(), c.reactor.clock()
	}
	h := &e.state.handling
	e.last.handled, h.deleteHandled, h.pendingFlush, h.seen = true, c.reason() == ReasonDelete, nil, c.states.next
	h.inProgress = c.reason() != ReasonDelete && (h.seen != nil || c.leavesRecords())
	if c.reason() == ReasonDelete {
		c.log.Debug("Removing the finalizer, thus allowing the actual deletion.")
	} else if c.known.version == c.event.Body.version {
		c.log.Debug("Handling is finished, with nothing to store")
	}
	return -1, nil
}

// released reports whether the object is not being deleted, or only delete handlers block the deletion. Otherwise, it returns when to check again.
func (c *cycle) released() (wait time.Duration, released bool) {
	if c.reason() != ReasonDelete {
		return 0, true
	}
	if len(c.served.tasks) > 0 && !c.reactor.daemons.waitIdle(c.entry, c.reactor.settings.Background.InstantExitTimeout) {
		return -1, false // the end of the last task wakes the object
	}
	return c.membersGone()
}

// logUnmatched logs the handlers that have begun, and did not match any more when the others had finished.
func (c *cycle) logUnmatched() {
	for _, p := range c.progress.all {
		if !p.selected && p.belongsTo(c.reason()) && !p.record.finished() && p.record.Retries > 0 {
			c.cause.Logger.Info("Handler '"+string(p.handler.id)+"' is not called again for this change, because its filters do not match any more", handlerAttr(p.handler.id))
		}
	}
}

// logProcessed logs the summary of a handling, at the level of successes unless there are failures.
// The counts are those of top-level handlers, and the failures are also those of sub-handlers, and of
// earlier handlings.
func (c *cycle) logProcessed(permanent failures) {
	succeeded, failed := c.count()
	level, log := slog.LevelInfo, c.cause.Logger
	if len(permanent) > 0 {
		log = log.With("failed", cut.End(strings.Join(rawjson.SortedKeys(permanent), ", "), maxMessage))
	} else if failed == 0 {
		level = c.reactor.successes.Level()
	}
	log.Log(c.handlers, level, fmt.Sprintf("%s is processed: %d succeeded; %d failed.", reasonTitles[c.reason()], succeeded, failed))
}

// postpone stores the progress of unfinished handlers. It returns when to call them again.
func (c *cycle) postpone(wait time.Duration) (time.Duration, error) {
	attempted := c.progress.attempts > 0
	if !attempted && c.handlers.Err() != nil {
		return -1, nil // work that the shutdown has interrupted leaves no state
	}
	if !attempted && c.superseded() {
		c.savePending()
		return -1, nil // the same holds for a pause
	}
	switch err := c.flush(false); {
	case overflows(err):
		c.log.Warn("The progress of the handlers is too large to be stored together with the last handled state; it is lost if the operator restarts before they have finished", "error", err, "help", "K406")
		c.savePending()
	case err != nil:
		return 0, err
	default:
		c.entry.state.handling.pendingFlush, c.entry.state.handling.seen = nil, c.states.seen
	}
	if !attempted && wait <= 0 { // a lifecycle that selects no handler must not run in a hot loop
		wait = time.Second
	}
	return wait, nil
}

// prepareHandling sets the cause and the unsent patches.
func (c *cycle) prepareHandling() {
	cause := &c.cause
	cause.Reason, cause.Logger = c.reason(), postedLogger(c.log, c.event.Body.Reference(), c.reactor.events)
	cause.Old = cause.Body.viewOf(c.states.before.bytes())
	cause.New = cause.Body.viewOf(c.states.essence.bytes())
	cause.diff = sync.OnceValue(func() Diff { return diffJSON(valueOf(c.states.before), valueOf(c.states.essence)) })
	if u := c.entry.state.handling.pendingFlush; u != nil {
		c.writes.succeeded = slices.Clone(u.succeeded)
	}
	c.writes.body, c.planned.turn = c.event.Body, make(chan struct{}, 1)
	for _, p := range c.writes.patches {
		c.writes.unapplied = append(c.writes.unapplied, p.patch)
	}
}

func (c *cycle) loadProgress(id HandlerID) (*ProgressRecord, error) {
	if u := c.entry.state.handling.pendingFlush; u != nil && u.records[id] != nil {
		return u.records[id], nil
	}
	if c.states.copied {
		return nil, nil
	}
	record, err := c.served.persistence.ProgressStorage.Fetch(id, c.event.Body)
	if record != nil && c.states.recordsOutdated && record.Purpose != ReasonDelete { // only its references to purge are still valid
		record = &ProgressRecord{Subrefs: record.Subrefs}
	}
	return record, err
}

// handlerCounts counts handlers by their progress.
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

// listen calls a function when an event makes the current call obsolete, until stop is called. It checks events on a separate goroutine, because that calls
// functions of users.
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
				c.log.Error("Checking whether to interrupt the handler panicked; the handler continues", "error", err, "stack", string(safecall.StackOf(err)), "help", "K313")
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

// outdates reports whether an event makes the current call obsolete: the object is deleted or being deleted, or its state differs both from the handled one
// and from the handlers' own changes.
func (c *cycle) outdates(ev RawEvent, handled []byte) bool {
	body := ev.Body
	if ev.Type == Deleted || body.Deleting() && !c.event.Body.Deleting() {
		return true
	}
	if apirequest.NewerVersion(c.event.Body.version, body.version) { // a late stream shows states from before the read
		return false
	}
	now := c.track(body)
	c.mu.Lock()
	ours := c.writes.body
	c.mu.Unlock()
	return !now.Equal(essenceIn(handled)) && !now.Equal(c.track(ours))
}

// collectHandlers selects the handlers of the cause, and those whose records must be cleaned up. It returns the reasons of superseded causes, with the
// progress of their handlers.
func (c *cycle) collectHandlers() (superseded map[Reason]*handlerCounts) {
	now := time.Now()
	c.states.recordsOutdated, c.states.differ = c.recordsOutdated(), c.served.persistence.statesDiffer(c.event.Body)
	c.progress.purge = c.progress.purge || c.states.copied || c.states.recordsOutdated || c.states.differ
	saved := c.savedStates()
	c.states.unseen = c.unseen(saved)
	switch { // before the records are read, because storages may panic
	case saved == nil:
	case c.states.unseen != nil:
		c.renewSubs(now)
	case saved.all[0].State == nil: // only its digest is known, and it equals that of the object
		saved.all[0] = essence.Seen{State: c.states.essence.in()}
		c.states.seen = saved
	default:
		c.states.seen = saved
	}
	collected := make(map[HandlerID]bool)
	note := func(p *progress) {
		collected[p.handler.id] = true
		if p.stored && !p.belongsTo(c.reason()) {
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
			p := c.addProgress(h, nil, false, now)
			if note(p); p.belongsTo(c.reason()) { // otherwise, it is purged
				c.lapse(h.id)
			}
		}
	}
	return superseded
}

// count returns how many handlers of the cause have succeeded and failed.
func (c *cycle) count() (succeeded, failed int) {
	for _, p := range c.progress.all {
		if p.parent == nil && (p.selected || p.belongsTo(c.reason())) {
			if p.record.Success {
				succeeded++
			} else if p.record.Failure {
				failed++
			}
		}
	}
	return succeeded, failed
}
