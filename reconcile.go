package kopf

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/kindschema"
	"github.com/kopf-go/kopf/internal/kstatus"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/ownership"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/schedule"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file calls the due reconcile handlers of an object, on the goroutine of its worker, after its change handlers. It also maintains the conditions of the
// option Conditions, by the rules of kstatus. The triggers are in queue_sources.go and reconcile_follow.go, the children in children.go.

// reconcileRunner calls reconcile handlers. It is an interface so that programs without any are linked without its implementation.
type reconcileRunner interface {
	// begin attaches the sources until the returned function is called.
	begin(*Registry) (end func())
	// serve adds a reactor, until its end.
	serve(*reactor)
	// drop removes a reactor that has no objects left.
	drop(*reactor)
	// follow handles an event of an owned kind. It does not keep the body.
	follow(*reactor, *entry, RawEvent, epoch)
	// isChild reports whether an object was a child at the last event.
	isChild(*entry) bool
	// notify handles an event of a watched kind.
	notify(*cycle)
	// run calls the due handlers of an object, and sends their patches.
	run(*cycle) error
	// requeue adds the due time of the handlers to the result of a cycle.
	requeue(*cycle, result) result
	// forget is called when an object is gone, or not served any more.
	forget(*reactor, *entry)
	// beginList is called at the beginning of a list.
	beginList(*reactor, *source)
	// endList is called at the end of a list with a resource version.
	endList(r *reactor, from *source, version uint64)
	// forgetVersions is called when the API server has an older history than before.
	forgetVersions(*source)
	// unfollow is called at the end of a stream.
	unfollow(*source)
	// keepFollowing keeps following the resources of handlers whose own resource is missing, but not given up.
	keepFollowing()
	// redefine is called when the definition of a kind has changed.
	redefine(definition *Body)
	// isParent reports whether an object has stored that it has children without an owner reference.
	isParent(*cycle) bool
	// stalled reports whether a handler has failed permanently for the object, and waits for a change.
	stalled(*cycle, *handler) bool
	writeRecorder
	// deleteMembers deletes those children, and reports whether all are gone. Otherwise, it returns the delay of the next check, unless a child wakes the
	// object.
	deleteMembers(*cycle) (wait time.Duration, gone bool)
}

// reconcileEngine prepares reconcile handlers before the work on objects. It is an interface for the same reason.
type reconcileEngine interface {
	runner(*observer) reconcileRunner
	// resolve finds the owned and watched resources, and returns warnings about missing ones.
	resolve(served map[string]*resolved, found []discovery.Resource, failed map[string]error) (warnings []string)
	// locate checks whether the status can keep the conditions, and returns warnings if it cannot.
	locate(ctx context.Context, o *observer, what *resolved, documents map[string][]byte) (warnings []string)
}

// engine implements [reconcileEngine].
type engine struct{}

// reconciling is a reconcile handler of one resource.
type reconciling struct {
	handler *handler
	manager string     // the field manager of the children
	owns    []Resource // existing ones

	conditions, generation bool // whether the status keeps the conditions of the handler, and the observed generation
}

// reconcileHandlers returns the reconcile handlers of the resource.
func (r *resolved) reconcileHandlers() (all []*handler) {
	for _, rec := range r.reconciles {
		all = append(all, rec.handler)
	}
	return all
}

// clash returns why one resource cannot have both reconcile handlers.
func (s *reconcileSpec) clash(h, other *handler) error {
	if h.id == other.id && h.registered.fn == other.registered.fn {
		return nil
	}
	for _, f := range s.follows {
		if f.owns && slices.ContainsFunc(other.reconcile.follows, func(o *followSpec) bool { return o.owns && o.selector.Text == f.selector.Text }) {
			return fmt.Errorf("the handler %q owns %s, as the handler %q does that was registered at %s: they would delete each other's children; let one of them own the kind", h.id, f.selector.Text, other.id, other.registered.where)
		}
	}
	return nil
}

// schedule returns the settings of the handler's schedule.
func (s *reconcileSpec) schedule(settings *Settings) schedule.Config {
	return schedule.Config{Debounce: s.debounce, Resync: s.resync, QuickRetries: settings.Execution.QuickRetries}
}

// reconciler calls the reconcile handlers of one operator.
type reconciler struct {
	*environment
	seed maphash.Seed

	mu       sync.Mutex // guards following
	reactors map[*reactor]*reconciled
	families map[string]*family // the children, by the UIDs of their owners
	unseen   map[string]*child  // children without an event so far, by their UIDs
	kinds    []*childKind
	streams  map[*source]*followedStream
	listed   map[*reactor]map[string]bool // reactors with a complete list so far, with the namespaces that were forgotten since
	watched  map[watchedKey]watchedState
	parents  map[string]string      // the UIDs of the parents of sets, by the IDs of the sets
	applying map[string][]*applying // by the keys of the families whose children are applied
	writing  map[*applying]struct{} // all of them, and writes of the clients of handlers

	observer *observer

	checker  ownership.Checker
	teaching workpool.Firsts // the kinds of the first applied children, for whose results the others wait
}

// reconciled is the state of one resource with reconcile handlers.
type reconciled struct {
	keys     map[objectName]string // of the entries
	labelled bool                  // whether the definition has the label of parents, or cannot have it
}

// objectName is the namespace and the name of an object.
type objectName struct{ namespace, name string }

// runner implements [reconcileEngine].
func (engine) runner(o *observer) reconcileRunner {
	rc := &reconciler{
		environment: &o.environment, seed: maphash.MakeSeed(), reactors: make(map[*reactor]*reconciled), families: make(map[string]*family), unseen: make(map[string]*child),
		streams: make(map[*source]*followedStream), listed: make(map[*reactor]map[string]bool), watched: make(map[watchedKey]watchedState),
		parents: make(map[string]string), applying: make(map[string][]*applying), writing: make(map[*applying]struct{}), observer: o,
	}
	o.meter.SetReconciling(rc)
	return rc
}

// begin implements [reconcileRunner].
func (rc *reconciler) begin(g *Registry) (end func()) {
	var ends []func()
	for _, h := range g.activities(kindReconcile) {
		for _, s := range h.reconcile.sources {
			ends = append(ends, s.attach(&sourceTarget{rc, h}))
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// serve implements [reconcileRunner].
func (rc *reconciler) serve(r *reactor) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.reactors[r] == nil {
		rc.reactors[r] = &reconciled{keys: make(map[objectName]string)}
	}
}

// drop implements [reconcileRunner].
func (rc *reconciler) drop(r *reactor) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for _, c := range rc.unseen {
		if rc.kinds[c.kind].reactor == r {
			rc.removeLocked(c)
		}
	}
	maps.DeleteFunc(rc.watched, func(key watchedKey, _ watchedState) bool { return key.reactor == r })
	delete(rc.listed, r)
	delete(rc.reactors, r)
}

// forget implements [reconcileRunner].
func (rc *reconciler) forget(r *reactor, e *entry) {
	rc.forgetChild(r, e)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	name := objectName{e.namespace.name, e.name}
	if known := rc.reactors[r]; known != nil && known.keys[name] == e.key {
		delete(known.keys, name)
	}
	if len(rc.parents) > 0 {
		if id := setID(e.ref(), r.resource()); rc.parents[id] == e.key {
			delete(rc.parents, id)
		}
	}
}

// know records the name of an object.
func (rc *reconciler) know(r *reactor, e *entry) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if known := rc.reactors[r]; known != nil {
		known.keys[objectName{e.namespace.name, e.name}] = e.key
	}
}

// trigger triggers a handler for a named object.
func (rc *reconciler) trigger(h *handler, ref ObjectReference, reason Trigger) {
	type target struct {
		queue *queue
		key   string
	}
	var targets []target
	serves, fits := false, false
	rc.mu.Lock()
	for r, known := range rc.reactors {
		if what := r.served.Load(); h.isIn(what.reconcileHandlers()) {
			serves = true
			fits = fits || what.resource.Namespaced == (ref.Namespace != "")
		}
		if key, ok := known.keys[objectName{ref.Namespace, ref.Name}]; ok {
			targets = append(targets, target{r.queue, key})
		}
	}
	rc.mu.Unlock()
	for _, t := range targets {
		t.queue.trigger(t.key, h, reason)
	}
	if serves && !fits {
		rc.warnScope(h, ref, reason)
	}
}

// warnScope warns, once for each handler, of a reference that can be none of its objects.
func (rc *reconciler) warnScope(h *handler, ref ObjectReference, reason Trigger) {
	h.reconcile.outOfScope.Do(func() {
		rc.log.Warn("A reference triggers no object, because of its namespace", handlerKey, h.id, "trigger", reason.Reason,
			"namespace", ref.Namespace, "name", ref.Name, "hint", "set the namespace for a namespaced kind, and none for others", "help", "K720")
	})
}

// triggerAll triggers a handler for all its objects.
func (rc *reconciler) triggerAll(h *handler, reason Trigger, routine bool) {
	for _, r := range rc.allReactors() {
		r.queue.triggerAll(h, reason, routine)
	}
}

func (rc *reconciler) allReactors() (all []*reactor) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for r := range rc.reactors {
		all = append(all, r)
	}
	return all
}

// objectReconcile is the state of the reconcile handlers of an object. It belongs to the worker.
type objectReconcile struct{ states []*reconcileState }

// reconcileState is the state of one handler for one object. It exists as long as the handler matches and the object is served.
type reconcileState struct {
	handler *handler
	called  bool   // whether it was called in the epoch
	left    bool   // whether children that no handler has declared were logged
	epoch   epoch  // of the last call
	digest  uint64 // of the relevant fields of the object, including later changes of the handlers

	triggers []Trigger // since the last call began
	schedule schedule.Schedule
	scope    *applyset.Scope // of the children without an owner reference at the last success; nil before that in the epoch

	remade map[string]*flapping.Tracker // creations of children that were deleted lately, by [Child.nameKey]; nil for none
}

// stateOf returns the state of a handler, nil if there is none.
func (o *objectReconcile) stateOf(h *handler) *reconcileState {
	for _, s := range o.states {
		if s.handler == h {
			return s
		}
	}
	return nil
}

// note adds a trigger.
func (s *reconcileState) note(t Trigger) {
	if len(s.triggers) < maxTriggers && !slices.Contains(s.triggers, t) {
		s.triggers = append(s.triggers, t)
	}
}

// noteChange makes the handler due at once, regardless of failures.
func (s *reconcileState) noteChange(reason TriggerReason, now time.Time, routine bool) {
	s.schedule.NoteChange(now, routine)
	s.note(Trigger{Reason: reason})
}

// noteTimes adds the triggers of the times that are over.
func (s *reconcileState) noteTimes(now time.Time) {
	retry, requeue, resync := s.schedule.Come(now)
	if retry {
		s.note(Trigger{Reason: TriggerRetry})
	}
	if requeue {
		s.note(Trigger{Reason: TriggerRequeue})
	}
	if resync {
		s.note(Trigger{Reason: TriggerResync})
	}
}

// thenReconcile calls the reconcile handlers after all other work on an object.
func (c *cycle) thenReconcile(wait time.Duration, err error) (time.Duration, error) {
	if err != nil || len(c.served.reconciles) == 0 {
		return wait, err
	}
	return wait, c.reactor.reconciler.run(c)
}

// run implements [reconcileRunner].
func (rc *reconciler) run(c *cycle) error {
	if c.ran = true; c.latest().deleting {
		return nil
	}
	rc.observe(c)
	known := c.entry.state.reconcile
	if known == nil {
		return nil
	}
	for _, rec := range c.served.reconciles {
		s := known.stateOf(rec.handler)
		if s == nil || !s.isDue(rc.settings) {
			continue
		}
		if !rc.mayCall(c, rec.handler) {
			return nil
		}
		if err := rc.call(c, rec, s); err != nil {
			return err
		}
	}
	return rc.settleMembers(c)
}

// mayCall reports whether the state of an object is still valid, and the lists of the followed kinds are complete.
func (rc *reconciler) mayCall(c *cycle, h *handler) bool {
	return !c.superseded() && c.handlers.Err() == nil && !c.reactor.queue.deletes(c.entry) && rc.synced(h)
}

func (s *reconcileState) isDue(settings *Settings) bool {
	now := time.Now()
	if !s.schedule.IsDue(s.handler.reconcile.schedule(settings), now) {
		return false
	}
	s.noteTimes(now)
	return true
}

// observe finds the matching handlers of the object, and adds the triggers since their last calls.
func (rc *reconciler) observe(c *cycle) {
	pending, now := c.reactor.queue.takeTriggers(c.entry), time.Now()
	body, known := c.latest(), c.entry.state.reconcile
	o := c.object(body)
	var states []*reconcileState
	for _, rec := range c.served.reconciles {
		h := rec.handler
		if slices.ContainsFunc(states, func(s *reconcileState) bool { return rec.handler.isIn([]*handler{s.handler}) }) || !o.fits(h) {
			continue
		}
		var s *reconcileState
		if known != nil {
			s = known.stateOf(h)
		}
		digest := rc.digest(c, h, body)
		switch {
		case s == nil:
			s = &reconcileState{handler: h}
			s.noteChange(TriggerFirst, now, c.entry.listed)
		case s.called && s.epoch != c.epoch:
			s.called, s.scope = false, nil
			s.noteChange(TriggerFirst, now, true)
		case s.digest != digest:
			s.noteChange(TriggerChanged, now, false)
		}
		s.digest = digest
		states = append(states, s)
	}
	if len(states) == 0 {
		c.entry.state.reconcile = nil
		c.reactor.queue.dropTriggers(c.entry)
		return
	}
	if known == nil {
		known = &objectReconcile{}
		c.entry.state.reconcile = known
	}
	rc.know(c.reactor, c.entry) // each time, because it may have been forgotten since
	known.states = states
	known.note(pending)
}

// note adds the pending triggers.
func (o *objectReconcile) note(pending []pendingTrigger) {
	for _, p := range pending {
		if s := o.stateOf(p.handler); s != nil {
			s.schedule.Note(p.at, p.routine)
			s.note(p.reason)
		}
	}
}

// digest returns a digest of the relevant fields of an object.
func (rc *reconciler) digest(c *cycle, h *handler, body *Body) uint64 {
	digest := c.digest(body)
	if len(h.reconcile.fields) == 0 {
		return digest
	}
	var sum maphash.Hash
	sum.SetSeed(rc.seed)
	maphash.WriteComparable(&sum, digest)
	addFields(&sum, body, h.reconcile.fields)
	return sum.Sum64()
}

// addFields adds the fields of an object to a digest.
func addFields(sum *maphash.Hash, body *Body, fields []FieldPath) {
	for _, path := range fields {
		raw, _ := body.find(path.Keys()...)
		maphash.WriteComparable(sum, len(raw))
		sum.Write(raw) // it never fails
	}
}

// failing adds the handlers in retry, and reports whether one has failed permanently.
func (o *objectReconcile) failing(ids []string) (all []string, failed bool) {
	if o == nil {
		return ids, false
	}
	for _, s := range o.states {
		if failed = failed || s.schedule.Stalled(); s.schedule.Failures > 0 {
			ids = append(ids, string(s.handler.id))
		}
	}
	return ids, failed
}

// stalled implements [reconcileRunner].
func (rc *reconciler) stalled(c *cycle, h *handler) bool {
	known := c.entry.state.reconcile
	if known == nil {
		return false
	}
	s := known.stateOf(h)
	return s != nil && s.epoch == c.epoch && s.schedule.Stalled() &&
		s.schedule.Due(h.reconcile.schedule(rc.settings)).IsZero() && s.digest == rc.digest(c, h, c.latest())
}

// requeue implements [reconcileRunner].
func (rc *reconciler) requeue(c *cycle, r result) result {
	known := c.entry.state.reconcile
	if known == nil || r.gone || r.unreported {
		return r
	}
	if r.body == nil {
		r.body = c.knownBody()
	}
	if r.body.deleting || c.superseded() || !c.ran && r.requeue && !r.forgetConflict { // other work comes first
		return r
	}
	soonest := minRetryDelay // the obstacle of this cycle may remain
	if c.ran {
		soonest = 0
	}
	for _, s := range known.states {
		at := s.schedule.Due(s.handler.reconcile.schedule(rc.settings))
		if at.IsZero() || !rc.synced(s.handler) {
			continue
		}
		r.forgetConflict = false // it would only end the conflict, without calling the handlers
		if wait := max(time.Until(at), soonest); !r.requeue || wait < r.requeueAfter {
			r.routine = s.schedule.IsRoutine(at)
			r = r.requeueWithin(wait, r.body)
		}
	}
	return r
}

// call calls a handler once, sends its patch, and schedules the next call.
func (rc *reconciler) call(c *cycle, rec *reconciling, s *reconcileState) error {
	h := rec.handler
	acquired, _ := rc.limiter.AcquireHandler(c.handlers.Done(), nil, true, !s.schedule.Routine())
	if !acquired {
		return nil
	}
	if !rc.mayCall(c, h) { // any more, after the wait
		rc.limiter.ReleaseHandler()
		return nil
	}
	c.entry.state.reconcile.note(c.reactor.queue.takeTriggers(c.entry)) // such as from a list that has just ended
	body := c.latest()
	log := postedLogger(c.log, body.Reference(), rc.events)
	o := c.reactor.object(c.entry, c.served, body, log)
	o.Param, o.Logger = h.param, handlerLogger(log, h.id)
	arg := &Reconcile{Object: o, Triggers: s.triggers, requeueAfter: -1, spec: &specRecord{served: c.served, handler: h}}
	desired := &desiredSet{reconciler: rc, reconciling: rec, cycle: c, client: o.Client, owner: body, log: o.Logger, set: setID(body.Reference(), c.served.resource), state: s, triggers: s.triggers}
	arg.desired = desired
	early := s.schedule.IsEarly(time.Now())
	s.begin(c.epoch, rc.digest(c, h, body))
	began := time.Now()
	call := call{handler: h, noun: "Handler", log: log, meter: rc.meter.Handler(string(h.id), false), settings: rc.settings, replica: rc.replica, leader: rc.leader, retries: s.schedule.Failures, started: began, object: &arg.Object, children: desired, entry: c.entry, calls: rc.calls}
	out, err := call.invoke(c.handlers, func(ctx context.Context, a Attempt) error {
		arg.Attempt, arg.Logger = a, tracedLogger(ctx, arg.Logger)
		c.reactor.queue.setRunning(c.entry, h.id)
		defer c.reactor.queue.setRunning(c.entry, "")
		return rc.invoke(ctx, c, rec, arg, desired)
	})
	rc.limiter.ReleaseHandler()
	if err == nil {
		s.scope = desired.scope()
	}
	u := &calledReconcile{reconciler: rc, reconciling: rec, state: s, call: &call, early: early, requeueAfter: arg.requeueAfter, outcome: out, err: err, counted: err != nil}
	defer u.end() // after the patch, whose refusal fails the call
	if errors.Is(err, errGone) {
		return errGone
	}
	if !arg.Patch.Empty() && desired.losesOnce() {
		arg.Patch = newPatch(c.served.persistence, &c.served.resource, body)
	}
	return rc.send(c, u, arg.Patch, body, desired)
}

// begin records the start of a call.
func (s *reconcileState) begin(at epoch, digest uint64) {
	s.called, s.epoch, s.digest = true, at, digest
	s.triggers = nil
	s.schedule.Begin()
}

// calledReconcile is a call of a reconcile handler whose patch is not stored yet. It fails if the patch is refused.
type calledReconcile struct {
	*reconciler
	*reconciling
	state        *reconcileState
	call         *call
	early        bool
	requeueAfter time.Duration
	outcome      outcome
	err          error
	counted      bool                // whether the metrics have the result
	changes      objectpatch.Changes // that the object is expected to have
	ended        time.Time           // zero before
}

// end schedules the next call, and counts the result.
func (u *calledReconcile) end() {
	s, o, now := &u.state.schedule, u.outcome, time.Now()
	end := schedule.Call{
		Cancelled: o.cancelled, Failed: o.err != nil, Final: o.final, Early: u.early, Delay: o.delay, RequeueAfter: u.requeueAfter,
	}
	s.End(end, u.handler.reconcile.schedule(u.settings), now)
	if errors.Is(u.err, errGone) { // the deletion will come, unless the object turns out to exist
		s.RetryAt(now.Add(u.handler.reconcile.maxBackoff))
	}
	if !u.counted {
		u.call.meter.Count(o.result(u.err), now)
	}
	if o.err == nil && !o.cancelled && u.ended.IsZero() {
		u.call.meter.Settled(u.requeueAfter >= 0)
	}
	u.counted, u.ended = true, now
}

// refused fails the call because its patch, or that of its conditions alone, was refused, perhaps some time after its end. It returns the conditions for that.
// Nothing happens if there was a later call, which has made its own patch.
func (u *calledReconcile) refused(c *cycle, p *handlerPatch, err error) objectpatch.Changes {
	s := &u.state.schedule
	known := c.entry.state.reconcile
	current := known != nil && known.stateOf(u.handler) == u.state && (u.ended.IsZero() || u.ended.Equal(s.Ended()))
	if u.changes = (objectpatch.Changes{}); !current || u.outcome.cancelled {
		return u.changes
	}
	if u.outcome.err == nil {
		u.fail(c, fmt.Errorf("its patch was refused: %w", err))
	}
	if !p.patch.Empty() {
		u.changes = u.conditions(c, "")
	} else if u.outcome.final { // nothing else would update the conditions
		s.RetryAt(time.Now().Add(u.handler.reconcile.maxBackoff))
	}
	return u.changes
}

// fail turns the success of the call into a failure.
func (u *calledReconcile) fail(c *cycle, err error) {
	h := u.handler
	u.outcome = h.outcome(err, u.call.retries, time.Since(u.call.started), &u.settings.Execution)
	switch o := u.call.object; {
	case u.outcome.err == nil: // ignored
		return
	case u.outcome.final:
		o.postFailure("Handler", h.id, err)
	case u.call.retries == 0: // the first failure in a row
		o.postRefusal("Handler", h.id, errors.Unwrap(err))
	}
	if u.err, u.counted = err, false; !u.ended.IsZero() {
		u.state.schedule.Revoke(u.call.retries)
		u.early, u.requeueAfter = false, -1
		u.end()
	}
}

// errCallTimeout is the cause of a context that ends at the Timeout.
var errCallTimeout = errors.New("the call has used up its Timeout")

// invoke calls the function, and applies the children.
func (rc *reconciler) invoke(traced context.Context, c *cycle, rec *reconciling, arg *Reconcile, desired *desiredSet) error {
	h := rec.handler
	ctx, cancel := context.WithCancelCause(traced)
	defer cancel(nil)
	if h.reconcile.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, h.reconcile.timeout, errCallTimeout)
		defer stop()
	}
	c.reactor.queue.setReconciling(c.entry, cancel)
	defer c.reactor.queue.setReconciling(c.entry, nil)
	if c.reactor.queue.deletes(c.entry) { // its event came before
		return &cancelledError{ErrSuperseded}
	}
	err := safecall.Recover(func() error {
		defer rc.limiter.Yield()()
		return h.reconcile.call(ctx, arg)
	})
	switch {
	case err == nil:
		err = desired.applyAll(workpool.NewContext(ctx, rc.limiter))
	case isUnchanged(err):
		desired.kept = true
		err = desired.err
	}
	err = withPatchError(err, errors.Join(arg.resulting.check(h.id), arg.Patch.try(arg.Body)))
	if err == nil && arg.result != nil {
		err = arg.storeResult(h)
	}
	if err == nil && arg.spec.used {
		err = arg.spec.store(arg.Body, arg.Patch)
	}
	switch cause := context.Cause(ctx); {
	case err == nil:
	case cause == errCallTimeout && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the call has not ended within its Timeout of %s: %w", h.reconcile.timeout, err)
	case errors.Is(cause, ErrSuperseded), rc.leader.lost(c.handlers, err):
		return &cancelledError{err}
	case c.handlers.Err() != nil && errors.Is(err, context.Canceled):
		return &cancelledError{err}
	}
	return err
}

// storeResult adds the result to the patch. The name of a function literal, which has a line number, is not stored.
func (r *Reconcile) storeResult(h *handler) error {
	if checkID(h.id) != nil {
		return Permanent(fmt.Errorf("the result of the function literal at %s is stored under the handler's ID: give the handler an ID", h.registered.where))
	}
	r.Patch.put(r.result, "status", string(h.id))
	return nil
}

// specRecord is the stored digest of an object's spec at the last success of a handler. It is next to
// the last-handled configuration, with those of the other reconcile handlers.
type specRecord struct {
	served  *resolved
	handler *handler
	used    bool // whether the handler has called SpecChanged in this call
}

func (s *specRecord) storage() DiffBaseStorage {
	return siblingStorage(s.served.persistence.DiffBaseStorage, markers.Reconciled)
}

// stored returns the digests by the IDs of the handlers. A damaged record has none.
func (s *specRecord) stored(body *Body) map[string]any {
	e, err := s.storage().Fetch(body)
	if err != nil {
		return nil
	}
	return e.Map()
}

// digest returns the digest of the spec of an object. It contains the UID, because another object may
// be a copy with the record.
func (s *specRecord) digest(body *Body) string {
	e := essenceOf(body, nil, s.served.persistence)
	e.Remove("metadata")
	uid, _ := rawjson.Encode(body.UID()) // a string, so there is no error
	e.in().Set(uid, "metadata", "uid")
	return e.in().SortedDigest()
}

func (s *specRecord) changed(body *Body) bool {
	s.used = true
	return s.stored(body)[string(s.handler.id)] != s.digest(body)
}

// store adds the digest to the patch of a successful call, which may change the spec itself. It drops
// those of former handlers.
func (s *specRecord) store(body *Body, patch *Patch) error {
	if checkID(s.handler.id) != nil {
		return Permanent(fmt.Errorf("the digest of the spec for the function literal at %s is stored under the handler's ID: give the handler an ID", s.handler.registered.where))
	}
	before, after := s.stored(body), body
	if !patch.Empty() {
		after = patch.applied(body)
	}
	digest := s.digest(after)
	if before[string(s.handler.id)] == digest {
		return nil
	}
	digests := &Essence{}
	for _, rec := range s.served.reconciles {
		id := string(rec.handler.id)
		text, _ := before[id].(string)
		if rec.handler == s.handler {
			text = digest
		}
		if raw, _ := rawjson.Encode(text); text != "" {
			digests.in().Set(raw, id)
		}
	}
	var own Patch
	s.storage().Store(digests, body, &own)
	patch.changes.PutLast(own.changes.Merge) // where no transformation, such as of a condition, restores the stored one
	return nil
}

// send sends the patch of a call, with the conditions. Its own changes do not trigger the handlers again.
func (rc *reconciler) send(c *cycle, u *calledReconcile, own *Patch, seen *Body, desired *desiredSet) error {
	patch := &handlerPatch{id: u.handler.id, patch: own, succeeded: u.err == nil, refused: u.refused}
	patch.conditions = u.conditions(c, desired.waiting())
	if !patch.isOpen() {
		if u.err == nil {
			c.log.Debug("Handler '"+string(u.handler.id)+"' succeeded.", handlerAttr(u.handler.id))
		}
		return nil
	}
	known := c.entry.state.reconcile
	before := make(map[*handler]uint64, len(known.states))
	for _, s := range known.states {
		before[s.handler] = rc.digest(c, s.handler, seen)
	}
	u.changes = patch.whole()
	expected := sync.OnceValue(func() *Body { // lazily, because most patches change no relevant fields
		return (&Patch{changes: u.changes, persistence: c.served.persistence}).applied(seen)
	})
	c.writes.patches = append(c.writes.patches, patch)
	err := c.write(nil)
	for _, s := range known.states { // also after an error: the conditions may be refused alone
		now := rc.digest(c, s.handler, c.knownBody())
		if s.digest == before[s.handler] && now != s.digest && now == rc.digest(c, s.handler, expected()) {
			s.digest = now
		}
	}
	return err
}

// locate implements [reconcileEngine].
func (engine) locate(ctx context.Context, o *observer, what *resolved, documents map[string][]byte) (warnings []string) {
	for _, rec := range what.reconciles {
		if !rec.handler.reconcile.conditions {
			continue
		}
		r := what.resource
		o.lostField(ctx, r, nil, documents) // reads the document
		document := documents[schemaPath(r)]
		keeps, known := kindschema.Keeps(document, r.Group, r.Version, r.Kind, "status", "conditions")
		if rec.conditions = keeps || !known; !rec.conditions {
			warnings = append(warnings, fmt.Sprintf("The status of %s does not keep the field \"conditions\", so the handler %q keeps no conditions. If its definition is yours, add to the properties of its status: "+
				"conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}, or to the status of its struct: "+
				"Conditions []kopf.Condition `json:\"conditions,omitempty\" listKey:\"type\"`", r.Name(), rec.handler.id))
		}
		keeps, known = kindschema.Keeps(document, r.Group, r.Version, r.Kind, "status", "observedGeneration")
		rec.generation = rec.conditions && (keeps || !known) && r.hasStatus()
	}
	return warnings
}

// conditions returns the conditions for the result of the call, and a text about a child that is not ready.
func (u *calledReconcile) conditions(c *cycle, waiting string) objectpatch.Changes {
	body := u.call.object.Body
	patch := newPatch(c.served.persistence, &c.served.resource, body)
	if !u.reconciling.conditions || u.outcome.cancelled {
		return patch.changes
	}
	var failure error
	if u.outcome.err != nil {
		failure = u.err
	}
	for _, c := range kstatus.Conditions(failure, u.outcome.final, waiting) {
		patch.SetCondition(Condition{Type: c.Type, Status: ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message})
	}
	if u.generation {
		patch.Set("status.observedGeneration", body.View("metadata").Int("generation"))
	}
	return patch.changes
}

// waiting returns a text about the first child that is not ready, "" if there is none.
func (d *desiredSet) waiting() string {
	for _, c := range d.wanted {
		if !c.state.ready {
			return fmt.Sprintf("%s %s: %s", c.ref.Kind, c.ref.Name, c.state.reason)
		}
	}
	if !d.kept {
		return ""
	}
	former := d.former()
	d.reconciler.mu.Lock()
	defer d.reconciler.mu.Unlock()
	for _, k := range former {
		ready, reason := k.ready, k.reason()
		if custom := k.custom(); custom != nil {
			ready, reason = custom.ready, custom.reason
		}
		if !ready {
			return fmt.Sprintf("%s %s: %s", k.ref().Kind, k.ref().Name, reason)
		}
	}
	return ""
}
