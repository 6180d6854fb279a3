package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/schedule"
	"github.com/kopf-go/kopf/internal/stopper"
)

// task is one daemon or timer of one object.
type task struct {
	object  *background
	memory  *memory // of the object
	handler *handler
	stopper stopper.Stopper

	functions, requests context.Context // of its function and its patches, of the term of its start

	// Owned by the object, under its lock.
	timer     *time.Timer // of the next step, while no goroutine runs
	due       time.Time
	stage     *time.Timer // of the next stage of stopping
	waiting   bool
	abandoned bool
	failing   metrics.Failing // the task itself, while it is in retry

	// Owned by the running goroutine.
	spawned bool
	calls   schedule.Calls
	pending *pendingWrite // nil if there is none; the last patch after the last call
	failed  *failure      // permanent, of its last call; before the first call, that of the replaced timer
}

// failure is a permanent failure of a daemon or a timer. That of a timer ends when another client changes the object.
type failure struct {
	times  int      // in a row, without a success in between
	states []uint64 // for a timer: the digests of the object during the call, and after each request of its patch; nil if unknown
	over   bool     // whether the handler does not match the object any more
}

// waits reports whether the handler starts again when the object changes.
func (f *failure) waits() bool { return f != nil && f.states != nil }

// maxTransforms limits the unsent transformations of a timer.
const maxTransforms = 100

func (t *task) name() string { return fmt.Sprintf("%s '%s'", t.noun(), t.handler.id) }

func (t *task) noun() string {
	if t.handler.kind == kindTimer {
		return "Timer"
	}
	return "Daemon"
}

// log returns the logger for messages that have the handler in their text alone.
func (t *task) log() *slog.Logger { return handlerLogger(t.objectLogger(), t.handler.id) }

// objectLogger returns the logger for messages that have the handler as an attribute of their own.
func (t *task) objectLogger() *slog.Logger {
	return objectLogger(t.object.engine.log, t.object.live.Load().Reference())
}

// waitLocked makes the task wait for a time or, if that is negative, for a change of the object.
func (t *task) waitLocked(wait time.Duration) {
	b := t.object
	if wait < 0 && b.changed.After(t.calls.Called) { // the change came during the call
		wait = max(t.handler.task.idle-time.Since(b.changed), 0)
	}
	t.waiting, t.due = true, time.Time{}
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

// fire runs the next steps of the task, until it must wait.
func (t *task) fire() {
	b := t.object
	b.mu.Lock()
	if !t.waiting || t.due.IsZero() || time.Now().Before(t.due) {
		b.mu.Unlock()
		return // stopped or delayed meanwhile
	}
	t.waiting = false
	b.mu.Unlock()
	for {
		wasStopping, wait, more := t.stopper.IsSet(), time.Minute, true
		err := safecall.Recover(func() error { // without another goroutine for each daemon
			wait, more = t.step()
			return nil
		})
		if err != nil { // a bug in kopf must not end the operator
			t.log().Error(t.name()+" has panicked outside of its function; it goes on in a minute.", "error", err, "stack", string(safecall.StackOf(err)), "help", "K319")
		}
		b.mu.Lock()
		if !more || t.stopper.IsSet() && t.pending == nil {
			t.endLocked()
			b.mu.Unlock()
			b.engine.owner.wake(b.entry)
			return
		}
		if wait != 0 && wasStopping == t.stopper.IsSet() { // otherwise the next step follows at once
			t.waitLocked(wait)
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}

// requestLocked requests the task to stop. A waiting task stops at once, and a running one in stages.
func (t *task) requestLocked(reason stopper.Set) {
	if first := t.stopper.Add(reason, time.Now()); !first {
		return
	}
	if t.waiting {
		t.waiting = false
		if t.timer != nil {
			t.timer.Stop()
		}
		if t.pending == nil {
			t.endLocked()
			return
		}
		t.waitLocked(0) // sends the last patch
	}
	if t.handler.task.backoff > 0 {
		t.stopper.Add(stopper.Signalled, time.Time{})
	} else {
		t.stopper.End(&DaemonStopped{reasonOf(t.stopper.Get())})
	}
	t.stage = time.AfterFunc(t.object.engine.settings.Background.InstantExitTimeout, t.escalate)
}

// endLocked removes the task. If it ended on its own, it does not start again, or only after a change of the object.
func (t *task) endLocked() {
	b, d := t.object, t.object.engine
	how, until := "on request", ""
	if ownExit := t.stopper.Add(stopper.Done, time.Now()); ownExit {
		how = "on its own"
		if b.ended == nil {
			b.ended = make(map[HandlerID]*failure)
		}
		if b.ended[t.handler.id] = t.failed; t.failed.waits() {
			until = " until its object changes"
		}
	}
	t.log().Debug(fmt.Sprintf("%s has exited %s and will not be retried or restarted%s.", t.name(), how, until))
	if t.stage != nil {
		t.stage.Stop()
	}
	b.tasks = slices.DeleteFunc(b.tasks, func(o *task) bool { return o == t })
	if t.failing.Clear(); livepage.Included {
		d.calls.Stop(b.entry.key, string(t.handler.id))
	}
	b.signalIdleLocked()
	b.forgetLocked()
	if t.abandoned {
		d.leader.abandon(-1)
	} else {
		t.count(-1)
		d.tasks.Done()
	}
}

// escalate enters the next stage of stopping by the time since the request: the signal, the cancellation of the context, or abandonment.
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
		b.engine.owner.wake(b.entry)
	}
}

// escalateLocked enters the current stage, and returns the delay of the next check; zero for none.
func (t *task) escalateLocked() time.Duration {
	h, reason, log := t.handler.task, t.stopper.Get(), t.log()
	if t.abandoned || reason.Has(stopper.Done) {
		return 0
	}
	age, timeout := t.stopper.Age(time.Now()), h.timeout
	if reason.Has(stopper.OperatorExiting) {
		timeout = h.exitTimeout(&t.object.engine.settings.Background)
	}
	if age < h.backoff {
		log.Debug(t.name() + " is signalled to exit gracefully.")
		return h.backoff - age
	}
	if limit := h.backoff + timeout; timeout > 0 && age >= limit {
		t.abandonLocked(log)
		return 0
	} else if t.stopper.End(&DaemonStopped{reasonOf(t.stopper.Get())}); timeout > 0 {
		log.Debug(t.name() + " is signalled to exit by force.")
		return limit - age
	}
	interval := t.pollInterval()
	const message = "Background handler is still exiting"
	log = t.objectLogger()
	if age < interval {
		log.Debug(message, handlerKey, t.handler.id, "nextCheck", interval)
	} else {
		log.Warn(message, handlerKey, t.handler.id, "since", age, "nextCheck", interval, "hint", "return when the context is done; the option CancellationTimeout limits the wait", "help", "K501")
	}
	return interval
}

func (t *task) pollInterval() time.Duration {
	if p := t.handler.task.pollInterval; p > 0 {
		return p
	}
	if p := t.object.engine.settings.Background.CancellationPolling; p > 0 {
		return p
	}
	return time.Minute
}

// abandonLocked stops waiting for the task.
func (t *task) abandonLocked(log *slog.Logger) {
	t.abandoned = true
	t.object.engine.leader.abandon(1)
	t.stopper.Add(stopper.Abandoned, time.Time{})
	log.Warn(t.name()+" did not exit in time. Leaving it orphaned.", "since", t.stopper.Age(time.Now()), "help", "K502")
	t.object.signalIdleLocked()
	t.failing.Clear()
	t.count(-1)
	t.object.engine.tasks.Done()
}

func (t *task) count(n int64) {
	if m := t.object.engine.meter; t.handler.kind == kindTimer {
		m.Add(metrics.Timers, n)
	} else {
		m.Add(metrics.Daemons, n)
	}
}

// step runs the next step. It returns the delay of the following one, and whether there is one.
func (t *task) step() (wait time.Duration, more bool) {
	last := t.calls.Ended || t.stopper.IsSet()
	if last {
		t.calls.Next = time.Time{}
	}
	if w := t.pending; w != nil && (last || time.Until(w.retryAt) <= 0) {
		t.resend(last)
		if !last && !t.calls.IsDue(time.Now()) {
			return t.wait(), true
		}
	}
	if last {
		return t.wait(), t.pending != nil
	}
	if !t.spawned {
		t.spawned = true
		if wait := t.initialDelay(); wait > 0 {
			return wait, true
		}
	}
	if wait := t.idleRemaining(); wait > 0 {
		return wait, true
	}
	if !t.acquire() {
		return 0, true // a stop was requested meanwhile, or a patch is due
	}
	if d := t.object.engine; d.pauser.Paused() || !d.leader.leads() {
		t.stopper.Add(stopper.OperatorPausing, time.Now()) // the request to stop is on its way
	}
	if wait := t.idleRemaining(); wait > 0 || t.stopper.IsSet() {
		t.release()
		return max(wait, 0), true
	}
	return t.attempt()
}

// wait returns the delay of the next call or of the next attempt to send a patch, whichever is shorter. It returns [schedule.Never] if the next call needs a
// change of the object.
func (t *task) wait() time.Duration {
	wait := t.calls.Wait(time.Now())
	if t.pending == nil {
		return wait
	}
	if again := max(time.Until(t.pending.retryAt), 0); wait < 0 || again < wait {
		return again
	}
	return wait
}

// acquire waits for a place to run a timer. It returns false if a stop is requested or a patch is due before. Daemons have no limit, because they run as long
// as they want.
func (t *task) acquire() bool {
	if t.handler.kind == kindDaemon {
		return true
	}
	var again <-chan time.Time
	if t.pending != nil {
		timer := time.NewTimer(max(time.Until(t.pending.retryAt), 0))
		defer timer.Stop()
		again = timer.C
	}
	acquired, _ := t.object.engine.limiter.AcquireHandler(t.stopper.Stopping(), again, false, true)
	return acquired
}

func (t *task) release() {
	if t.handler.kind != kindDaemon {
		t.object.engine.limiter.ReleaseHandler()
	}
}

// initialDelay returns the delay of the first call.
func (t *task) initialDelay() time.Duration {
	h := t.handler.task
	delay := h.delay
	if h.delayOf != nil {
		o := t.argument()
		err := safecall.Do(func() error {
			delay = h.delayOf(&o)
			return nil
		})
		if err != nil {
			t.objectLogger().Error("InitialDelayFunc panicked; beginning without a delay", handlerKey, t.handler.id, "error", err, "help", "K312")
		}
	}
	if h.jitter > 0 {
		delay += rand.N(h.jitter)
	}
	return delay
}

// idleRemaining returns how much longer the object must stay unchanged before the call.
func (t *task) idleRemaining() time.Duration {
	b := t.object
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.handler.task.idle - time.Since(b.changed)
}

func (t *task) argument() Object {
	b := t.object
	body := b.live.Load()
	ref := body.Reference()
	o := b.engine.owner.argument(body, postedLogger(objectLogger(b.engine.log, ref), ref, b.engine.events))
	o.Param, o.memory, o.live = t.handler.param, t.memory, &b.live
	return o
}

// attempt calls the function once, sends its patch, and returns the delay of the next step.
func (t *task) attempt() (wait time.Duration, more bool) {
	d, h := t.object.engine, t.handler
	t.calls.Begin(time.Now())
	o, w := t.argument(), t.pending
	if w == nil {
		w = &pendingWrite{patch: o.Patch}
	}
	w.patch.of = o.Patch.of
	o.Patch, t.pending = w.patch, nil
	log := o.Logger
	call := call{
		handler: h, noun: t.noun(), log: log, meter: d.meter.Handler(string(h.id), false), settings: d.settings, replica: d.replica,
		leader: d.leader, retries: t.calls.Retries, started: t.calls.Started, object: &o, entry: t.object.entry, calls: d.calls,
	}
	out, err := call.invoke(t.functions, func(ctx context.Context, a Attempt) error {
		log = tracedLogger(ctx, log)
		o.Logger = handlerLogger(log, h.id)
		return t.call(ctx, &o, a)
	})
	if errors.Is(context.Cause(t.functions), ErrLeadershipLost) { // the end of the term can end the function before the request to stop
		t.stopper.Add(stopper.OperatorPausing, time.Now())
	}
	t.release()
	if err == nil && o.Patch.Empty() {
		t.logSuccess(log, true)
	} else if err == nil {
		w.succeeded = true
	}
	if out.final {
		t.noteFailure(out, &o)
	}
	if !o.Patch.Empty() {
		t.sendPatch(w, log)
	}
	t.countFailing(out)
	return t.schedule(out)
}

// countFailing counts the object as failing while the task is in retry.
func (t *task) countFailing(out outcome) {
	t.object.mu.Lock()
	defer t.object.mu.Unlock()
	if t.failing.Clear(); !out.final && out.err != nil && !t.abandoned {
		t.failing.Set(t.object.engine.meter.Resource(t.object.engine.owner.resource().Name()), string(t.handler.id))
	}
}

// noteFailure records a permanent failure, for a timer with the state of the object.
func (t *task) noteFailure(out outcome, o *Object) {
	before := t.failed
	if t.failed = nil; out.err == nil {
		return
	}
	if t.failed = (&failure{times: 1}); t.handler.kind == kindDaemon {
		return
	}
	if before != nil {
		t.failed.times += before.times
	}
	err := safecall.Do(func() error { // it may call a storage of the user
		for _, patch := range []*Patch{{}, {changes: objectpatch.Changes{Merge: o.Patch.changes.Merge}}, o.Patch} {
			t.failed.states = append(t.failed.states, t.object.engine.owner.trackedState(patch.applied(o.Body)).digest())
		}
		return nil
	})
	if err != nil {
		t.failed.states = nil
		t.objectLogger().Error("Computing the state of the object panicked; the handler will not begin again when the object changes", handlerKey, t.handler.id, "error", err, "stack", string(safecall.StackOf(err)), "help", "K314")
	}
}

// logSuccess logs a successful call. For a timer that has changed nothing, it uses the level DEBUG.
func (t *task) logSuccess(log *slog.Logger, unchanged bool) {
	if t.handler.kind == kindTimer && unchanged {
		log.Debug(t.name()+" succeeded.", handlerAttr(t.handler.id))
		return
	}
	t.object.engine.logSuccess(log, t.noun(), t.handler.id)
}

// call calls the function with a context that ends at the request to stop, and at its timeout. An interrupted call counts as a success.
func (t *task) call(traced context.Context, o *Object, a Attempt) error {
	h := t.handler
	var deadline time.Time
	if h.retry.timeout > 0 {
		deadline = t.calls.Started.Add(h.retry.timeout)
	}
	ctx, release := t.stopper.Attempt(traced, deadline)
	defer release()
	var r *resulting
	err := safecall.Recover(func() error { // it may panic with the error of its context
		if h.kind == kindTimer {
			arg := &Timer{Object: *o, Attempt: a, stopper: &t.stopper, call: callContext{ctx}}
			r = &arg.resulting
			return h.task.timer(ctx, arg)
		}
		arg := &Daemon{Object: *o, Attempt: a, stopper: &t.stopper, call: callContext{ctx}}
		r = &arg.resulting
		return h.task.daemon(ctx, arg)
	})
	err = withPatchError(err, errors.Join(r.check(h.id), o.Patch.try(t.object.live.Load())))
	var stop *DaemonStopped // also the error of interrupted requests
	if err != nil && t.stopper.Get().Has(stopper.Cancelled) && (errors.Is(err, context.Canceled) || errtype.As(err, &stop)) {
		o.Logger.Debug(t.name() + " was cancelled.")
		return nil
	}
	if err == nil && r.result != nil {
		o.Patch.put(r.result, "status", string(h.id))
	}
	return err
}

// schedule schedules the next call after an attempt, and returns its delay.
func (t *task) schedule(out outcome) (wait time.Duration, more bool) {
	h, now := t.handler.task, time.Now()
	if out.final {
		t.calls.End(out.err != nil, schedule.Interval{Every: h.interval, Idle: h.idle, Sharp: h.sharp}, now)
	} else {
		t.calls.Retry(out.delay, now)
	}
	return t.wait(), !t.calls.Ended || t.pending != nil
}

// sendPatch sends a patch. After a failure, it keeps the patch for the next attempt or the next call, whichever comes first.
func (t *task) sendPatch(w *pendingWrite, log *slog.Logger) {
	b, d := t.object, t.object.engine
	ctx := t.requests
	if t.stopper.Get().Has(stopper.OperatorExiting) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, exitSendTimeout, fmt.Errorf("not within %s at the exit", exitSendTimeout))
		defer cancel()
	}
	s := &sender{client: d.client, ctx: ctx, resource: d.owner.resource(), log: handlerLogger(log, t.handler.id), discovery: d.owner, warned: d.owner.warnings()}
	err := w.send(s, log, b.live.Load(), t.handler.id)
	t.reportRefusal(w)
	if t.pending = nil; err == nil {
		if w.succeeded {
			w.succeeded = false
			t.logSuccess(log, !s.sent && w.attempts == 0)
		}
		return
	}
	if errors.Is(err, errGone) {
		log.Debug("Dropping a patch, because the object is gone", handlerKey, t.handler.id)
		return
	}
	if errors.Is(context.Cause(t.functions), ErrLeadershipLost) {
		log.Debug("Dropping a patch, because another replica may work on the object", handlerKey, t.handler.id)
		return
	}
	if w.outdated != "" {
		level, attrs := slog.LevelDebug, []any{handlerKey, t.handler.id, "attempts", w.attempts}
		if w.attempts == maxResends {
			level, attrs = slog.LevelWarn, append(attrs, "help", "K607")
		}
		log.Log(ctx, level, "The object has changed meanwhile; making the patch again for its newest state", attrs...)
	} else {
		log.Warn("Sending a patch failed; it will be sent again", handlerKey, t.handler.id, "error", err, "help", "K606")
	}
	if excess := len(w.patch.changes.Transforms) - maxTransforms; excess > 0 {
		log.Error("Dropped the oldest transformations of a patch that cannot be sent", handlerKey, t.handler.id, "dropped", excess, "help", "K608")
		w.patch.changes.Transforms = slices.Delete(w.patch.changes.Transforms, 0, excess)
	}
	w.retryAt = time.Now().Add(t.pause(w))
	t.pending = w
}

// reportRefusal posts that a part of the patch was refused and is lost. The schedule stays: the next call of a timer is due anyway.
func (t *task) reportRefusal(w *pendingWrite) {
	if w.refusal == nil {
		return
	}
	o := t.argument()
	o.postRefusal(t.noun(), t.handler.id, w.refusal)
}

// resend retries the unsent patch. It drops the last patch of a task after some time.
func (t *task) resend(last bool) {
	log, w := t.objectLogger(), t.pending
	t.sendPatch(w, log)
	if t.pending == nil || !last {
		return
	}
	if w.attempts <= maxResends && w.denials < 2 && t.requests.Err() == nil && !t.stopper.Get().Has(stopper.OperatorExiting) {
		return
	}
	log.Error("Dropped the last patch of a handler, because it could not be sent", handlerKey, t.handler.id, "help", "K609")
	t.pending = nil
}

// pause returns the delay before an unsent patch is sent again. After a conflict, it is a second, because the newest state ends the conflict.
func (t *task) pause(w *pendingWrite) time.Duration {
	if w.outdated != "" {
		return min(time.Second<<max(w.attempts-maxResends, 0), time.Minute)
	}
	delays := t.object.engine.settings.Queueing.ErrorDelays
	if len(delays) == 0 {
		return time.Minute
	}
	return max(delays[min(w.attempts, len(delays))-1], time.Millisecond)
}

// pendingWrite is an unsent patch of a task.
type pendingWrite struct {
	patch    *Patch
	attempts int       // number of failed ones in a row
	retryAt  time.Time // when the next one is due
	denials  int       // of a webhook or a policy, in a row
	outdated string    // the newest version in a response, if the last attempt was a conflict

	succeeded bool  // whether to log the success of a call when this is stored
	refusal   error // of a part that was dropped in the last attempt
}

// send sends the merge patch first, and then the transformations, which can conflict with changes of other clients. It drops refused parts and those that
// panic. The rest stays in the patch for the next attempt.
func (w *pendingWrite) send(s *sender, log *slog.Logger, known *Body, handler HandlerID) error {
	w.refusal = nil
	err := safecall.Do(func() (err error) { // it may call a storage of the user
		if known, err = w.refresh(s, known); err == nil {
			known, err = w.request(s, log, known, handler)
		}
		return err
	})
	if err == nil {
		return nil
	}
	w.attempts++
	if conflict := (*conflictError)(nil); errtype.As(err, &conflict) {
		w.outdated = known.version
	} else {
		w.outdated = ""
	}
	return err
}

// refresh reads the object if its known state predates the last conflict. During a pause and at shutdown, no stream shows it.
func (w *pendingWrite) refresh(s *sender, known *Body) (*Body, error) {
	if w.outdated == "" || apirequest.NewerVersion(known.version, w.outdated) {
		return known, nil
	}
	body, err := s.get(known)
	switch {
	case errors.Is(err, errGone):
		return known, errGone
	case err != nil:
		s.log.Debug("Reading the object failed; making the patch for its last known state", "error", err)
		return known, nil
	}
	return body, nil
}

func (w *pendingWrite) request(s *sender, log *slog.Logger, known *Body, handler HandlerID) (*Body, error) {
	w.patch.err = nil                // the function's attempt has already failed with it
	if !w.patch.changes.Replaces() { // a later merge would undo the replacement, and a removal the transformations
		var err error
		known, err = s.request(known, &Patch{changes: objectpatch.Changes{Merge: w.patch.changes.Merge}})
		if w.permanentlyRefused(log, handler, err) {
			err, w.succeeded, w.refusal = nil, false, err
		}
		if stored := (*statusStoredError)(nil); errtype.As(err, &stored) {
			w.patch.changes = w.patch.changes.WithoutStatus()
		}
		if err != nil {
			return known, err
		}
		w.patch.changes.Merge = nil
	}
	var err error
	if known, err = s.request(known, w.patch); w.permanentlyRefused(log, handler, err) {
		err, w.succeeded, w.refusal = nil, false, err
	}
	return known, err
}

// permanentlyRefused reports whether a retry of a patch is useless, and logs the reason.
func (w *pendingWrite) permanentlyRefused(log *slog.Logger, handler HandlerID, err error) bool {
	var refused *patchRefusedError
	var failed *objectpatch.TransformError
	if w.denials++; !isDenied(err) {
		w.denials = 0
	}
	switch {
	case errtype.As(err, &refused), w.denials >= maxRefusals:
		log.Error("The API server refused the patch of a handler", handlerKey, handler, "error", err, "help", "K605")
	case errtype.As(err, &failed):
		log = withStack(log, err)
		log.Error("Dropped the transformations of a patch", handlerKey, handler, "error", err, "help", "K610")
	default:
		return false
	}
	return true
}
