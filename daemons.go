package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// This file runs daemons and timers. A task is one of them for one object: it has a goroutine while its function
// runs, and only a timer of the runtime while it waits. The object's worker starts tasks and asks them to stop; what they do in
// between is their own business, under the lock of their object.

// backgroundEngine is what the reactor wants of daemons and timers.
type backgroundEngine interface {
	// spawn starts and stops the tasks of an object, and tells whether it has to be held for any of them. What matters of
	// its state is given if there are timers that wait for the object to be idle.
	spawn(s *slot, handlers []*handler, o *Object, tracked *Essence) (held bool)
	// settle gives the tasks of an object a little time to end, and tells whether they have.
	settle(s *slot, limit time.Duration) bool
	leave(s *slot, reason StoppingReason)
	pause(namespace string)
	stop(reason StoppingReason)
	wait(ctx context.Context) (left []string)
}

// start completes an engine. It is a method of what only the registration of daemons and timers names, so that nobody else links any of this.
func (backgroundStarter) start(e *daemons) backgroundEngine { return e }

// daemons runs the tasks of the objects of one resource.
type daemons struct {
	settings *Settings
	client   *Client
	log      *slog.Logger
	events   postman
	meter    *metrics
	indices  Indices
	handlers context.Context // of the functions
	requests context.Context // of the patches
	resource func() Resource
	wake     func(*slot) // has an object looked at again
	follow   func(*slot, *atomic.Pointer[Body])
	pauses   *pausing
	outdated func() // told that the resource is not what it was
	told     *misses

	tasks sync.WaitGroup

	mu      sync.Mutex // guards following
	objects map[*slot]*background
	closed  bool
}

// background is what runs beside the handlers of one object.
type background struct {
	engine *daemons
	slot   *slot
	live   atomic.Pointer[Body] // the newest state

	mu      sync.Mutex // guards following, and in the tasks what is said to be the object's
	tasks   []*task
	over    []HandlerID   // that have ended without having been asked to
	digest  uint64        // of what was last known to matter
	changed time.Time     // when that was seen
	gone    bool          // whether the object is not there any more
	quiet   chan struct{} // closed when nothing holds the object any more; nil if nobody waits
}

// task is one daemon or timer of one object.
type task struct {
	object  *background
	handler *handler
	stopper Stopper

	// The object's, under its lock.
	timer     *time.Timer // of the next step, while the task is parked
	due       time.Time
	stage     *time.Timer // of the next stage of stopping
	parked    bool
	abandoned bool

	// The running goroutine's.
	spawned bool
	retries int
	started time.Time // of the first attempt since the last success
	first   time.Time // of all calls: the grid of sharp timers
	called  time.Time // the last call's beginning, zero before it
	next    time.Time // when the next call is due, zero if that depends on changes
	unsent  *Patch    // of the last attempt
	failed  int       // attempts to send it, in a row
	ended   bool      // whether only the patch is left to be sent
}

// never is how long a task waits for something else than the time.
const never = time.Duration(-1)

// of returns the background of an object, which is made at the first time.
func (e *daemons) of(s *slot, body *Body) *background {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.objects[s]
	if b == nil {
		b = &background{engine: e, slot: s, changed: time.Now()}
		b.live.Store(body)
		if e.objects == nil {
			e.objects = make(map[*slot]*background)
		}
		e.objects[s] = b
	}
	return b
}

func (e *daemons) spawn(s *slot, handlers []*handler, o *Object, tracked *Essence) (held bool) {
	b := e.of(s, o.Body)
	if s.live == nil {
		e.follow(s, &b.live)
	}
	if newerVersion(o.Body.version, b.live.Load().version) {
		b.live.Store(o.Body)
	}
	if tracked != nil {
		b.see(tracked.digest(), time.Now())
	}
	return b.adjust(handlers, o)
}

func (e *daemons) settle(s *slot, limit time.Duration) bool {
	e.mu.Lock()
	b := e.objects[s]
	e.mu.Unlock()
	return b == nil || b.settle(limit)
}

// leave stops all that runs for an object that is not there or not served any more.
func (e *daemons) leave(s *slot, reason StoppingReason) {
	e.mu.Lock()
	b := e.objects[s]
	e.mu.Unlock()
	if b == nil {
		return
	}
	b.stop(reason)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	b.leaveLocked()
}

// leaveLocked forgets an object that is gone, when nothing runs for it any more.
func (b *background) leaveLocked() {
	if !b.gone || len(b.tasks) > 0 {
		return
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	delete(b.engine.objects, b.slot)
}

// see notes a state of the object: if it differs in what matters from the one before, the timers' idle time begins anew.
func (b *background) see(digest uint64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.digest == digest {
		return
	}
	b.digest, b.changed = digest, now
	for _, t := range b.tasks {
		if t.parked && t.due.IsZero() { // it waits for a change
			t.parkLocked(t.handler.spawning.idle)
		}
	}
}

// adjust starts the tasks that an object is to have, and asks the others to stop. It tells whether the object has to be
// held for any of them.
func (b *background) adjust(handlers []*handler, o *Object) (held bool) {
	reason := FiltersMismatch
	if o.Body.Deleting() {
		reason = ResourceDeleted
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := make(map[HandlerID]bool, len(handlers))
	for _, h := range handlers {
		if reason == ResourceDeleted || wanted[h.id] || slices.Contains(b.over, h.id) || !h.matchesObject(o) {
			continue
		}
		wanted[h.id] = true
		held = held || !h.spawning.free
		if !slices.ContainsFunc(b.tasks, func(t *task) bool { return t.handler.id == h.id }) {
			b.spawnLocked(h)
		}
	}
	for _, t := range slices.Clone(b.tasks) {
		if !wanted[t.handler.id] {
			t.requestLocked(reason)
		}
	}
	return held || b.busyLocked()
}

// spawnLocked starts a task.
func (b *background) spawnLocked(h *handler) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	t := &task{object: b, handler: h}
	b.tasks = append(b.tasks, t)
	t.count(1)
	e.tasks.Add(1)
	t.parkLocked(0)
}

// busyLocked tells whether the object is held for tasks that have not ended.
func (b *background) busyLocked() bool {
	return slices.ContainsFunc(b.tasks, func(t *task) bool { return !t.abandoned && !t.handler.spawning.free })
}

// settle gives the tasks a little time to end after they were asked to: most of them do at once. It tells whether they have.
func (b *background) settle(limit time.Duration) bool {
	b.mu.Lock()
	if !b.busyLocked() {
		b.mu.Unlock()
		return true
	}
	quiet := make(chan struct{})
	b.quiet = quiet
	b.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-quiet:
		return true
	case <-t.C:
		return false
	}
}

// calmLocked tells those who wait that nothing holds the object any more.
func (b *background) calmLocked() {
	if b.quiet != nil && !b.busyLocked() {
		close(b.quiet)
		b.quiet = nil
	}
}

// stop asks all tasks of the object to stop.
func (b *background) stop(reason StoppingReason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range slices.Clone(b.tasks) {
		t.requestLocked(reason)
	}
}

// pause asks the tasks of the objects of a namespace, or of all, to stop until the operator works again.
func (e *daemons) pause(namespace string) {
	for _, b := range e.all() {
		if namespace == "" || namespace == b.slot.namespace {
			b.stop(OperatorPausing)
		}
	}
}

// stop asks the tasks of all objects to stop. If the operator is exiting, no new ones are started.
func (e *daemons) stop(reason StoppingReason) {
	e.mu.Lock()
	e.closed = e.closed || reason == OperatorExiting
	e.mu.Unlock()
	for _, b := range e.all() {
		b.stop(reason)
	}
}

func (e *daemons) all() []*background {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.objects))
}

// wait waits until all tasks have ended or are abandoned, and the context has not. It returns those left.
func (e *daemons) wait(ctx context.Context) (left []string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.tasks.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, b := range e.all() {
		b.mu.Lock()
		for _, t := range b.tasks {
			left = append(left, fmt.Sprintf("%s in %s", b.live.Load().Reference(), t.name()))
		}
		b.mu.Unlock()
	}
	return left
}

func (t *task) name() string {
	if t.handler.kind == kindTimer {
		return fmt.Sprintf("Timer '%s'", t.handler.id)
	}
	return fmt.Sprintf("Daemon '%s'", t.handler.id)
}

func (t *task) log() *slog.Logger {
	return objectLogger(t.object.engine.log, t.object.live.Load().Reference())
}

// parkLocked lets the task wait for a time, or, if it is negative, for a change of the object.
func (t *task) parkLocked(wait time.Duration) {
	b := t.object
	if wait < 0 && b.changed.After(t.called) { // it came during the call
		wait = max(t.handler.spawning.idle-time.Since(b.changed), 0)
	}
	t.parked, t.due = true, time.Time{}
	if wait < 0 {
		return
	}
	if t.due = time.Now().Add(wait); wait == 0 {
		go t.fire()
	} else if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
	} else {
		t.timer.Reset(wait)
	}
}

// fire does the next steps of the task, until there is something to wait for.
func (t *task) fire() {
	b := t.object
	b.mu.Lock()
	if !t.parked || t.due.IsZero() || time.Now().Before(t.due) {
		b.mu.Unlock()
		return // it was stopped or put off meanwhile
	}
	t.parked = false
	b.mu.Unlock()
	for {
		wait, more := t.step()
		b.mu.Lock()
		if !more || t.stopper.IsSet() && t.unsent == nil {
			t.endLocked()
			b.mu.Unlock()
			b.engine.wake(b.slot)
			return
		}
		if wait != 0 {
			t.parkLocked(wait)
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}

// requestLocked asks the task to stop: at once if it waits, and by and by if its function runs.
func (t *task) requestLocked(reason StoppingReason) {
	if first := t.stopper.add(reason, time.Now()); !first {
		return
	}
	if t.parked {
		t.parked = false
		if t.timer != nil {
			t.timer.Stop()
		}
		if t.unsent == nil {
			t.endLocked()
			return
		}
		t.parkLocked(0) // to send what is left
	}
	if t.handler.spawning.backoff > 0 {
		t.stopper.add(DaemonSignalled, time.Time{})
	} else {
		t.stopper.end()
	}
	t.stage = time.AfterFunc(t.object.engine.settings.Background.InstantExitTimeout, t.escalate)
}

// endLocked takes the task away. If it was not asked to stop, it is not started again.
func (t *task) endLocked() {
	b, e := t.object, t.object.engine
	how := "on request"
	if unasked := t.stopper.add(DaemonDone, time.Now()); unasked {
		how = "on its own"
		b.over = append(b.over, t.handler.id)
	}
	t.log().Debug(fmt.Sprintf("%s has exited %s and will not be retried or restarted.", t.name(), how))
	if t.stage != nil {
		t.stage.Stop()
	}
	b.tasks = slices.DeleteFunc(b.tasks, func(o *task) bool { return o == t })
	b.calmLocked()
	b.leaveLocked()
	if !t.abandoned {
		t.count(-1)
		e.tasks.Done()
	}
}

// escalate goes through the stages of stopping by the time since the task was asked: it is signalled, its context ends,
// it is abandoned.
func (t *task) escalate() {
	b := t.object
	b.mu.Lock()
	next := t.escalateLocked()
	if next > 0 {
		t.stage.Reset(next)
	}
	abandoned := t.abandoned
	b.mu.Unlock()
	if abandoned {
		b.engine.wake(b.slot)
	}
}

// escalateLocked enters the stage that the task is in by now, and tells when to look again; zero if there is no need.
func (t *task) escalateLocked() time.Duration {
	h, reason, log := t.handler.spawning, t.stopper.Reason(), t.log()
	if t.abandoned || reason.Has(DaemonDone) {
		return 0
	}
	age, timeout := t.stopper.age(time.Now()), h.timeout
	if timeout == 0 && reason.Has(OperatorExiting) {
		timeout = t.object.engine.settings.Background.ExitTimeout
	}
	if age < h.backoff {
		log.Debug(t.name() + " is signalled to exit gracefully.")
		return h.backoff - age
	}
	if limit := h.backoff + timeout; timeout > 0 && age >= limit {
		t.abandonLocked(log)
		return 0
	} else if t.stopper.end(); timeout > 0 {
		log.Debug(t.name() + " is signalled to exit by force.")
		return limit - age
	}
	polling := t.polling()
	message := fmt.Sprintf("%s is still exiting. The next check is in %s.", t.name(), polling)
	if age < polling {
		log.Debug(message)
	} else {
		log.Warn(message+" It does not look at its context; the option CancellationTimeout limits how long it is waited for.", "since", age)
	}
	return polling
}

func (t *task) polling() time.Duration {
	if p := t.handler.spawning.polling; p > 0 {
		return p
	}
	if p := t.object.engine.settings.Background.CancellationPolling; p > 0 {
		return p
	}
	return time.Minute
}

// abandonLocked gives up waiting for the task.
func (t *task) abandonLocked(log *slog.Logger) {
	t.abandoned = true
	t.stopper.add(DaemonAbandoned, time.Time{})
	log.Warn(t.name()+" did not exit in time. Leaving it orphaned.", "since", t.stopper.age(time.Now()))
	t.object.calmLocked()
	t.count(-1)
	t.object.engine.tasks.Done()
}

// count counts the task, or counts it off with -1.
func (t *task) count(n int64) {
	if m := t.object.engine.meter; t.handler.kind == kindTimer {
		m.timers.n.Add(n)
	} else {
		m.daemons.n.Add(n)
	}
}

// step does what is due, and tells how long to wait for the next step, or that there is none.
func (t *task) step() (wait time.Duration, more bool) {
	last := t.ended || t.stopper.IsSet()
	if t.unsent != nil && (last || t.failed > 0) {
		if sent := t.resend(last); !sent {
			return t.pause(), true
		}
		if t.next.IsZero() && !last {
			return never, true
		}
		if wait := time.Until(t.next); !last && wait > 0 {
			return wait, true
		}
	}
	if last {
		return 0, false
	}
	if !t.spawned {
		t.spawned = true
		if wait := t.initialDelay(); wait > 0 {
			return wait, true
		}
	}
	if wait := t.restless(); wait > 0 {
		return wait, true
	}
	if t.object.engine.pauses.paused() {
		t.stopper.add(OperatorPausing, time.Now()) // which it will be told anyway
	}
	if t.stopper.IsSet() {
		return 0, false
	}
	return t.attempt()
}

// initialDelay returns how long to wait before the first call.
func (t *task) initialDelay() time.Duration {
	h := t.handler.spawning
	delay := h.delay
	if h.delayOf != nil {
		o := t.argument()
		err := call(func() error {
			delay = h.delayOf(&o)
			return nil
		})
		if err != nil {
			t.log().Error(fmt.Sprintf("The option InitialDelayFunc of %s has panicked; there is no delay.", t.name()), "error", err)
		}
	}
	if h.jitter > 0 {
		delay += rand.N(h.jitter)
	}
	return delay
}

// restless returns how long the object has to stay unchanged until the timer may be called.
func (t *task) restless() time.Duration {
	b := t.object
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.handler.spawning.idle - time.Since(b.changed)
}

func (t *task) argument() Object {
	b := t.object
	body := b.live.Load()
	return Object{
		Resource: b.engine.resource(), Body: body, Patch: &Patch{}, Logger: postedLogger(t.log(), body.Reference(), b.engine.events), Client: b.engine.client,
		Indices: b.engine.indices, Param: t.handler.param, memory: &b.slot.memory, events: b.engine.events, live: &b.live,
	}
}

// attempt calls the function once, sends what it has left, and tells when the next step is due.
func (t *task) attempt() (wait time.Duration, more bool) {
	e, h, now := t.object.engine, t.handler, time.Now()
	if t.called = now; t.first.IsZero() {
		t.first = now
	}
	if t.started.IsZero() {
		t.started = now
	}
	o := t.argument()
	if t.unsent != nil {
		o.Patch, t.unsent = t.unsent, nil
	}
	var out outcome
	var err error
	if err = h.exhausted(t.retries, now.Sub(t.started), nil); err != nil {
		out = outcome{final: true, err: err}
	} else {
		o.Logger.Debug(t.name() + " is invoked.")
		var result any
		result, err = t.call(&o)
		var asked *DaemonStopped // which is what a request is cut off with, too
		stopped := err != nil && t.stopper.Reason().Has(DaemonCancelled) && (errors.Is(err, context.Canceled) || errors.As(err, &asked))
		out = h.decide(err, t.retries, time.Since(t.started), &e.settings.Execution)
		if stopped {
			out, err = outcome{final: true}, nil
			o.Logger.Debug(t.name() + " was cancelled.")
		} else if out.final && out.err == nil && err == nil && result != nil {
			o.Patch.put(result, "status", string(h.id))
		}
	}
	e.meter.handler(h.id, false).ended(out.result(err), int64(time.Since(now)))
	t.tell(o.Logger, out, err, o.Patch.Empty())
	if !o.Patch.Empty() {
		t.deliver(o.Patch, o.Logger)
	}
	return t.schedule(out)
}

// tell logs an outcome. A timer that has succeeded without changing anything is not worth a line.
func (t *task) tell(log *slog.Logger, out outcome, err error, empty bool) {
	if err == nil && t.handler.kind == kindTimer && empty {
		log.Debug(t.name() + " succeeded.")
		return
	}
	noun := "Daemon"
	if t.handler.kind == kindTimer {
		noun = "Timer"
	}
	logOutcome(t.object.engine.handlers, log, noun, t.handler.id, out, err)
}

// call calls the function with a context that ends when it is asked to stop, and at its timeout.
func (t *task) call(o *Object) (any, error) {
	h := t.handler
	var deadline time.Time
	if h.timeout > 0 {
		deadline = t.started.Add(h.timeout)
	}
	ctx, release := t.stopper.attempt(t.object.engine.handlers, deadline)
	defer release()
	a := Attempt{Retry: t.retries, Started: t.started, Runtime: time.Since(t.started)}
	var r *resulting
	err := call(func() error {
		if h.kind == kindTimer {
			arg := &Timer{Object: *o, Attempt: a, Stopped: &t.stopper}
			r = &arg.resulting
			return h.spawning.timer(ctx, arg)
		}
		arg := &Daemon{Object: *o, Attempt: a, Stopped: &t.stopper}
		r = &arg.resulting
		return h.spawning.daemon(ctx, arg)
	})
	if err == nil {
		err = joinErrors(r.err, o.Patch.try(t.object.live.Load()))
	}
	return r.result, err
}

// schedule tells how long to wait after an attempt that has ended so.
func (t *task) schedule(out outcome) (wait time.Duration, more bool) {
	h, now := t.handler.spawning, time.Now()
	switch {
	case !out.final:
		t.retries++
		wait = max(out.delay, 0)
	case t.handler.kind == kindDaemon || out.err != nil || h.interval == 0 && h.idle == 0:
		t.ended = true
	case h.interval == 0:
		wait = never
	case h.sharp:
		wait = h.interval - now.Sub(t.first)%h.interval
	default:
		wait = h.interval
	}
	if out.final {
		t.retries, t.started = 0, time.Time{}
	}
	if t.next = (time.Time{}); wait >= 0 {
		t.next = now.Add(wait)
	}
	if t.unsent == nil {
		return wait, !t.ended
	}
	if pause := t.pause(); t.ended || t.failed > 0 && (wait < 0 || pause < wait) {
		wait = pause
	}
	return wait, true
}

// deliver sends a patch: what can be merged first, then the transformations, which can conflict with what others
// do. What could not be sent is kept for the next attempt.
func (t *task) deliver(patch *Patch, log *slog.Logger) {
	b, e := t.object, t.object.engine
	ctx := e.requests
	if t.stopper.Reason().Has(OperatorExiting) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, exitStoring, errorf("not within %s at the exit", exitStoring))
		defer cancel()
	}
	s := &sender{client: e.client, ctx: ctx, resource: e.resource(), log: log, fresh: b.live.Load(), outdated: e.outdated, told: e.told}
	err := s.request(&Patch{merge: patch.merge})
	var refused *patchRefusedError
	if errors.As(err, &refused) {
		log.Error(fmt.Sprintf("The patch of %s was refused: %v", t.name(), err))
		err = nil
	}
	if err == nil {
		patch = &Patch{transforms: patch.transforms}
		err = s.request(patch)
	}
	var conflict *conflictError
	t.unsent = nil
	switch {
	case err == nil:
		t.failed = 0
	case errors.Is(err, errGone):
		log.Debug("The object is gone; the patch of " + t.name() + " is dropped.")
	case errors.As(err, &refused):
		log.Error(fmt.Sprintf("The patch of %s was refused: %v", t.name(), err))
	case errors.As(err, &conflict):
		t.unsent = patch
		log.Debug("The object was changed by somebody else meanwhile; the transformations of " + t.name() + " are kept for its next patch.")
	default:
		t.unsent = patch
		t.failed++
		log.Error(fmt.Sprintf("The patch of %s could not be sent; it is kept and will be sent again.", t.name()), "error", err)
	}
}

// exitStoring is how long one attempt at storing what a task has left may take when the operator stops. There are two.
const exitStoring = 2 * time.Second

// maxResends is how often the last patch of a task that has ended is sent again before it is given up.
const maxResends = 10

// resend sends again what could not be sent, and tells whether that is done. The last patch of a task is given up
// after some time.
func (t *task) resend(last bool) bool {
	log, before := t.log(), t.failed
	t.deliver(t.unsent, log)
	if t.unsent == nil {
		return true
	}
	if !last {
		return false
	}
	t.failed = max(t.failed, before+1) // also after a conflict
	if t.failed <= maxResends && t.object.engine.requests.Err() == nil && !t.stopper.Reason().Has(OperatorExiting) {
		return false
	}
	log.Error("The last patch of " + t.name() + " could not be sent and is lost.")
	t.unsent = nil
	return true
}

// pause is how long to wait before an unsent patch is sent again.
func (t *task) pause() time.Duration {
	delays := t.object.engine.settings.Queueing.ErrorDelays
	if len(delays) == 0 {
		return time.Minute
	}
	return delays[min(t.failed, len(delays)-1)]
}
