package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/schedule"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file calls handlers: single attempts with their errors, limits and panics, and all handlers of a cause in the order of a lifecycle. It runs on the
// goroutine of the object's worker.

// PendingHandler describes a handler to a [Lifecycle] that could call it now.
type PendingHandler struct {
	ID      HandlerID // of the handler, with its field
	Retries int       // the number of earlier attempts
	Started time.Time // when the first attempt became possible
}

// Lifecycle selects and orders the handlers for this cycle. It gets the handlers that are due, in the order of registration, and returns some or all of them.
// The others are due in the next cycle.
type Lifecycle func(pending []PendingHandler) []PendingHandler

// AllAtOnce calls all handlers in the order of registration. It is the default.
func AllAtOnce(pending []PendingHandler) []PendingHandler { return pending }

// OneByOne calls the first handler.
func OneByOne(pending []PendingHandler) []PendingHandler { return pending[:1] }

// Randomized calls one handler, chosen at random.
func Randomized(pending []PendingHandler) []PendingHandler {
	i := rand.IntN(len(pending))
	return pending[i : i+1]
}

// Shuffled calls all handlers in a random order.
func Shuffled(pending []PendingHandler) []PendingHandler {
	rand.Shuffle(len(pending), func(i, j int) { pending[i], pending[j] = pending[j], pending[i] })
	return pending
}

// ASAP calls the handler with the fewest attempts so far, as Kopf for Python does by default.
func ASAP(pending []PendingHandler) []PendingHandler {
	first := 0
	for i, p := range pending {
		if p.Retries < pending[first].Retries {
			first = i
		}
	}
	return pending[first : first+1]
}

// outcome is the result of one attempt of a handler.
type outcome struct {
	final     bool          // whether the handler is finished
	err       error         // nil on success, and for an ignored error
	delay     time.Duration // before the next attempt; zero or negative for none
	waiting   bool          // whether it waits for its sub-handlers, which is not an error
	cancelled bool          // whether its context was canceled: the attempt does not count
}

// call is one attempt of a handler of any kind.
type call struct {
	handler  *handler
	noun     string // of its kind, in log lines
	log      *slog.Logger
	meter    *metrics.Handler
	settings *Settings
	replica  string            // the identity of the operator
	object   *Object           // nil for none
	cause    Reason            // of change handlers
	children *desiredSet       // of reconcile handlers
	leader   *leadership       // the call needs its term; nil for no election
	limiter  *workpool.Limiter // of the worker that runs the handler; nil if there is none, or if it has released its place
	retries  int               // number of earlier attempts
	waited   bool              // whether the last attempt only waited for sub-handlers, so that attempts do not count towards the limit
	started  time.Time         // when the first attempt became possible
	entry    *entry            // of the object; nil if no watch stream has it
	calls    *livepage.Calls   // of the live page, nil without it
}

// invoke calls a function of the user, unless the handler has exhausted its limits. It logs errors, and callers log successes when they are stored. The
// function may be slow, so the worker releases its place meanwhile.
func (a *call) invoke(ctx context.Context, fn func(context.Context, Attempt) error) (o outcome, err error) {
	h, began := a.handler, time.Now()
	counted, live, found := a.meter.Begin(began), a.live(), a.found()
	attempt := Attempt{Retry: a.retries, Started: a.started, Runtime: began.Sub(a.started)}
	retries := a.retries
	if a.waited {
		retries = 0
	}
	if err = h.exhausted(retries, attempt.Runtime, 0, nil); err != nil {
		o = outcome{final: true, err: err}
	} else if err = a.leader.check(); err != nil {
		o = outcome{cancelled: true}
	} else {
		a.log.DebugContext(ctx, a.noun+" '"+string(h.id)+"' is invoked.", handlerAttr(h.id))
		inner, span := a.trace(ctx)
		regain := a.limiter.Yield()
		err = safecall.Do(func() error {
			if livepage.Included {
				live.Enter()
			}
			return fn(inner, attempt)
		})
		regain()
		if a.object != nil && a.object.Patch != nil {
			a.object.Patch.settle(handlerLogger(a.log, h.id), &h.patchWarnings)
		}
		o = h.outcome(err, a.retries, time.Since(a.started), &a.settings.Execution)
		if id, _, sampled := traceIDs(inner); sampled {
			counted.Traced(id)
		}
		endSpan(span, err)
	}
	a.audit(ctx, found, o, err, began)
	counted.End(o.result(err), safecall.StackOf(err) != nil)
	if livepage.Included {
		live.End(!o.final && o.err != nil, a.retries+1, time.Now().Add(o.delay), err)
	}
	if err != nil && !(o.cancelled && h.once()) { // otherwise the error does not matter any more
		logOutcome(ctx, a.log, a.noun, h.id, o, err)
	}
	if o.final && o.err != nil && !h.once() {
		a.object.postFailure(a.noun, h.id, o.err)
	}
	return o, err
}

// cancelledError is the error of a call that was interrupted by the end of its context. The call does not count.
type cancelledError struct{ err error }

func (e *cancelledError) Error() string { return e.err.Error() }

func (e *cancelledError) Unwrap() error { return e.err }

// result returns the result for the metrics, given the error of the attempt.
func (o outcome) result(err error) metrics.Result {
	switch {
	case o.cancelled:
		return metrics.Cancelled
	case o.waiting:
		return metrics.Waiting
	case !o.final:
		return metrics.Retry
	case o.err != nil:
		return metrics.Failure
	case err != nil:
		return metrics.Ignored
	}
	return metrics.Success
}

// once reports whether kopf makes only one attempt, whatever the result: a client waits for the response, or the next event calls the handler anyway.
func (h *handler) once() bool {
	return h.kind == kindEvent || h.kind == kindProbe || h.kind == kindValidate || h.kind == kindMutate
}

// exhausted returns an error if the handler has reached its limits, or will have after a delay.
func (h *handler) exhausted(retries int, runtime, delay time.Duration, cause error) error {
	switch {
	case h.once():
	case h.retry.timeout > 0 && runtime+delay >= h.retry.timeout:
		return &HandlerTimeoutError{ID: h.id, Runtime: runtime, Timeout: h.retry.timeout, Delay: delay, Err: cause}
	case h.retry.retries > 0 && retries >= h.retry.retries:
		return &HandlerRetriesError{ID: h.id, Retries: retries, Err: cause}
	}
	return nil
}

// outcome converts the result of an attempt to its outcome. It takes the number of earlier attempts, and the runtime at the end of the attempt.
func (h *handler) outcome(err error, retries int, runtime time.Duration, s *ExecutionSettings) outcome {
	var temporary *TemporaryError
	var permanent *PermanentError
	var waits *waitsForSubhandlers
	var cancelled *cancelledError
	switch {
	case err == nil, h.kind == kindEvent:
		return outcome{final: true}
	case errtype.As(err, &waits):
		return outcome{delay: waits.delay, waiting: true}
	case errtype.As(err, &cancelled):
		return outcome{cancelled: true}
	case h.once():
		return outcome{final: true, err: err}
	case errtype.As(err, &permanent):
		return outcome{final: true, err: err}
	case errtype.As(err, &temporary):
		return h.retryOutcome(err, s.retryDelay(cmp.Or(temporary.Delay, DefaultRetryDelay), retries), retries, runtime)
	case h.retry.errors == ErrorsPermanent:
		return outcome{final: true, err: err}
	case h.retry.errors == ErrorsIgnored:
		return outcome{final: true}
	}
	delay := h.retry.backoff
	if h.reconcile != nil {
		return outcome{err: err, delay: schedule.Backoff(h.reconcile.backoff, h.reconcile.maxBackoff, retries)}
	}
	if delay == 0 {
		delay = s.DefaultBackoff
	}
	return h.retryOutcome(err, s.retryDelay(delay, retries), retries, runtime)
}

// minRetryDelay is the delay between attempts below which they count as quick.
const minRetryDelay = time.Second

// retryDelay returns the delay of the next attempt. It slows down a handler that has made many quick attempts.
func (s *ExecutionSettings) retryDelay(delay time.Duration, retries int) time.Duration {
	if s.QuickRetries <= 0 || delay >= minRetryDelay || retries < s.QuickRetries {
		return delay
	}
	return schedule.Slowdown(retries - s.QuickRetries)
}

// retryOutcome is the outcome of a retryable error. If the next attempt would exceed a limit, the handler fails now.
func (h *handler) retryOutcome(err error, delay time.Duration, retries int, runtime time.Duration) outcome {
	if limit := h.exhausted(retries+1, runtime, max(delay, 0), err); limit != nil {
		return outcome{final: true, err: limit}
	}
	return outcome{err: err, delay: delay}
}

// apply records the outcome of an attempt.
func (r *ProgressRecord) apply(o outcome, now time.Time) {
	r.Retries++
	r.Delayed, r.Message = time.Time{}, nil
	if !o.final && (o.delay > 0 || o.waiting) {
		r.Delayed = now.Add(max(o.delay, 0))
	}
	if o.final {
		r.Success, r.Failure = o.err == nil, o.err != nil
		if r.Stopped.Before(now) { // that of an unfinished handler is from its last handling
			r.Stopped = now
		}
	}
	if text := ""; o.waiting {
		text = waitingMessage
		r.Message = &text
	} else if o.err != nil {
		text = cut.End(failureText(o.err), maxMessage)
		r.Message = &text
	}
}

// failureText returns the text of an error for people, with the last error of a handler that has reached its limits.
func failureText(err error) string {
	var timeout *HandlerTimeoutError
	var retries *HandlerRetriesError
	var last error
	switch {
	case errtype.As(err, &timeout):
		last = timeout.Err
	case errtype.As(err, &retries):
		last = retries.Err
	}
	if last == nil {
		return err.Error()
	}
	return err.Error() + ": " + last.Error()
}

// maxMessage limits the length of a stored error message, in bytes, because all annotations of an object together are limited to 256 KiB.
const maxMessage = 1024

// progress is the progress of one handler in a cycle.
type progress struct {
	handler    *handler
	parent     *progress
	record     *ProgressRecord
	stored     bool            // whether the record was on the object
	purpose    Reason          // of the stored record
	selected   bool            // whether the handler matches the cause; others are only cleaned up
	otherCause *ProgressRecord // the stored record of another cause, nil if it counts for this one
	earlier    bool            // whether the handler finished before this cycle
}

// storedRecord returns the record as it was stored.
func (p *progress) storedRecord() *ProgressRecord {
	if p.otherCause != nil {
		return p.otherCause
	}
	return p.record
}

// belongsTo reports whether the stored record fits a reason.
func (p *progress) belongsTo(reason Reason) bool { return p.purpose == "" || p.purpose == reason }

// refer adds a record to purge together with that of the top-level handler, as operators in Python do.
func (p *progress) refer(id HandlerID) {
	for p.parent != nil {
		p = p.parent
	}
	p.record.addSubref(id)
}

// parentID returns the ID of the parent handler, "" if there is none.
func (p *progress) parentID() HandlerID {
	if p.parent == nil {
		return ""
	}
	return p.parent.handler.id
}

// due reports whether the handler is due, and otherwise the time until it is.
func (p *progress) due(now time.Time) (bool, time.Duration) {
	if p.record.finished() {
		return false, 0
	}
	wait := p.record.Delayed.Sub(now)
	return p.record.Delayed.IsZero() || wait <= 0, max(wait, 0)
}

// cycleProgress is the progress of the handlers in a cycle.
type cycleProgress struct {
	all      []*progress                   // in the order in which they were selected, sub-handlers included
	attempts int                           // made in this cycle
	purge    bool                          // whether to purge records of a superseded cause
	lapsed   map[HandlerID]*ProgressRecord // the new records of unfinished handlers that do not match now
}

// addProgress adds a handler that is selected or must be cleaned up.
func (c *cycle) addProgress(h *handler, parent *progress, selected bool, now time.Time) *progress {
	p := &progress{handler: h, parent: parent, selected: selected}
	record, err := c.loadProgress(h.id)
	if err != nil {
		c.cause.Logger.Warn("The stored progress of a handler is damaged; beginning again", "handler", h.id, "error", err, "help", "K307")
	}
	if p.stored = record != nil; !p.stored {
		record = &ProgressRecord{Started: now, Purpose: c.cause.Reason}
	}
	if record.Started.IsZero() { // records of older versions may lack it
		record.Started = now
	}
	if p.record, p.purpose = record, record.Purpose; selected {
		other := !p.belongsTo(c.cause.Reason)
		if record.finished() && (other || c.states.unseen != nil) && !c.joinsResume(p) { // it finished before the last change
			p.otherCause = record
			p.record = &ProgressRecord{Started: now, Subrefs: record.Subrefs}
		}
		p.record.Purpose = c.cause.Reason
	}
	p.earlier = p.record.finished()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress.all = append(c.progress.all, p)
	return p
}

// lapse resets an unfinished handler that does not match now, and its unfinished sub-handlers.
// If it matches again later, its timeout and its attempts begin again. Finished sub-handlers remain finished.
func (c *cycle) lapse(id HandlerID) {
	record, err := c.loadProgress(id)
	if err != nil || record == nil {
		return
	}
	c.lapseRecord(id, record)
	for _, ref := range record.Subrefs { // of all levels
		if !strings.HasPrefix(ref, string(id)+"/") {
			continue
		}
		if sub, err := c.loadProgress(HandlerID(ref)); err == nil && sub != nil {
			c.lapseRecord(HandlerID(ref), sub)
		}
	}
}

func (c *cycle) lapseRecord(id HandlerID, record *ProgressRecord) {
	if record.finished() || record.Started.IsZero() { // or it has lapsed before
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.progress.lapsed == nil {
		c.progress.lapsed = make(map[HandlerID]*ProgressRecord)
	}
	c.progress.lapsed[id] = &ProgressRecord{Stopped: record.Stopped, Purpose: record.Purpose, Subrefs: record.Subrefs}
}

// lapseAll resets all unfinished handlers of an object that matches none. It returns the patch for
// that, nil if there is nothing to reset.
func (c *cycle) lapseAll() *Patch {
	for _, h := range c.served.changes {
		c.lapse(h.id)
	}
	if len(c.progress.lapsed) == 0 {
		return nil
	}
	if u := c.entry.state.handling.pendingFlush; u != nil && u.records != nil {
		maps.Copy(u.records, c.progress.lapsed)
	}
	own := &Patch{}
	c.storeLapsed(c.latest(), own)
	c.served.persistence.ProgressStorage.Flush()
	return own
}

// renew resets the handlers that finished before this cycle, with their sub-handlers, so that kopf calls them again. It returns the new records of the
// sub-handlers, and whether there are any such handlers.
func (c *cycle) renew(now time.Time) (subs map[HandlerID]*ProgressRecord, found bool) {
	subs = make(map[HandlerID]*ProgressRecord)
	for _, p := range c.progress.all {
		if !p.selected || !p.earlier || c.joinsResume(p) {
			continue
		}
		c.renewBelow(p.handler.id, p.record, now, subs)
		found = true
		for ; p != nil; p = p.parent { // a sub-handler needs its parent to run
			p.record = &ProgressRecord{Started: now, Purpose: c.cause.Reason, Subrefs: p.record.Subrefs}
		}
	}
	return subs, found
}

// renewBelow resets the finished sub-handlers of a handler.
func (c *cycle) renewBelow(parent HandlerID, record *ProgressRecord, now time.Time, subs map[HandlerID]*ProgressRecord) {
	for _, ref := range record.Subrefs {
		id := HandlerID(ref)
		if !strings.HasPrefix(ref, string(parent)+"/") { // a reference to the kept state, or an edited record
			continue
		}
		stored, err := c.loadProgress(id)
		if err != nil || stored == nil {
			continue
		}
		if stored.finished() {
			subs[id] = &ProgressRecord{Started: now, Purpose: c.cause.Reason, Subrefs: stored.Subrefs}
		}
		c.renewBelow(id, stored, now, subs)
	}
}

// joinsResume reports whether a handler, or its parent, does not match the cause, and is called only because the object resumes.
func (c *cycle) joinsResume(p *progress) bool {
	for p.parent != nil {
		p = p.parent
	}
	return c.cause.Reason != ReasonResume && !slices.ContainsFunc(c.served.changes, func(o *handler) bool {
		return o.id == p.handler.id && o.matches(&c.cause, false)
	})
}

// runChosen calls handlers one after another. It stops early when a newer event should be handled first.
func (c *cycle) runChosen(ctx context.Context, chosen []*progress) {
	for i, p := range chosen {
		if !c.acquire(ctx, p, i > 0) {
			return
		}
		o := c.attempt(ctx, p)
		c.release(p)
		if last := i == len(chosen)-1; o.cancelled || last {
			continue // the end of the cycle sends the last one
		}
		if !o.final || o.err != nil || c.reactor.settings.Execution.FlushAfter <= 0 || c.transforms() {
			c.flushBetween()
		} else {
			c.flushLater()
		}
	}
}

// acquire waits for a place to run a handler, and reports whether to call it then. Sub-handlers run in the place of their parent.
func (c *cycle) acquire(ctx context.Context, p *progress, begun bool) bool {
	if p.parent == nil {
		began := time.Now()
		acquired, waited := c.reactor.limiter.AcquireHandler(ctx.Done(), nil, true, true)
		if !acquired {
			return false
		}
		begun = begun || waited // the object may have changed by now
		c.excludeWait(p, time.Since(began))
	}
	if ctx.Err() != nil || c.flushFailure() != nil || p.parent == nil && (c.superseded() || begun && c.reactor.queue.hasNewer(c.entry, c.knownBody().version)) {
		c.release(p)
		return false
	}
	return true
}

// excludeWait excludes the wait for a place from the handler's timeout. Otherwise, a handler could fail before its first call.
func (c *cycle) excludeWait(p *progress, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.record.Retries == 0 {
		p.record.Started = p.record.Started.Add(waited)
	}
}

func (c *cycle) release(p *progress) {
	if p.parent == nil {
		c.reactor.limiter.ReleaseHandler()
	}
}

func (c *cycle) flushFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes.failure
}

// chooseDue returns the due handlers of a group, in the order of the lifecycle.
func (c *cycle) chooseDue(group []*progress) []*progress {
	now := time.Now()
	byID := make(map[HandlerID]*progress)
	var pending []PendingHandler
	for _, p := range group {
		if due, _ := p.due(now); due {
			byID[p.handler.id] = p
			pending = append(pending, PendingHandler{ID: p.handler.id, Retries: p.record.Retries, Started: p.record.Started})
		}
	}
	if len(pending) == 0 {
		return nil
	}
	var chosen []*progress
	for _, next := range c.ordered(pending) {
		if p := byID[next.ID]; p != nil {
			chosen = append(chosen, p)
			delete(byID, next.ID) // a lifecycle may return duplicates
		}
	}
	return chosen
}

// ordered returns the handlers that the lifecycle selects. If it panics, these are all.
func (c *cycle) ordered(pending []PendingHandler) (chosen []PendingHandler) {
	err := safecall.Do(func() error {
		chosen = c.reactor.lifecycle(slices.Clone(pending))
		return nil
	})
	if err != nil {
		c.cause.Logger.Error("The lifecycle panicked; calling all due handlers in the order of registration",
			"error", err, "stack", string(safecall.StackOf(err)), "help", "K323")
		return pending
	}
	return chosen
}

// attempt calls one handler once, unless its limits forbid it, and records the outcome.
func (c *cycle) attempt(ctx context.Context, p *progress) outcome {
	h, r := p.handler, c.reactor
	call := call{
		handler: h, noun: "Handler", log: c.cause.Logger, meter: c.meterOf(p), settings: r.settings, replica: r.replica,
		leader: r.leader, retries: p.record.Retries, waited: p.record.waits(), started: p.record.Started, object: &c.cause.Object, cause: c.reason(), entry: c.entry, calls: r.calls,
	}
	if p.parent == nil { // the worker has a place only for top-level handlers
		call.limiter = r.limiter
	}
	var arg *Change
	o, err := call.invoke(ctx, func(ctx context.Context, a Attempt) error {
		arg = c.argument(p, a)
		arg.Logger, call.object = tracedLogger(ctx, arg.Logger), &arg.Object
		r.queue.setRunning(c.entry, h.id)
		defer r.queue.setRunning(c.entry, p.parentID())
		return c.callHandler(ctx, p, arg)
	})
	if o.cancelled {
		return o
	}
	c.progress.attempts++
	c.noteOutcome(p, o, arg)
	if err == nil {
		c.mu.Lock()
		c.writes.succeeded = append(c.writes.succeeded, h.id)
		c.mu.Unlock()
	}
	return o
}

// meterOf returns the counters of a handler. Sub-handlers share one for their top-level handler.
func (c *cycle) meterOf(p *progress) *metrics.Handler {
	sub := p.parent != nil
	for p.parent != nil {
		p = p.parent
	}
	return c.reactor.meter.Handler(string(p.handler.id), sub)
}

// interruptible returns a context that ends early for Interruptible handlers. The caller must call release.
func (c *cycle) interruptible(ctx context.Context, h *handler) (inner context.Context, release func()) {
	if !h.changes.interruptible {
		return ctx, func() {}
	}
	inner, end := context.WithCancelCause(ctx)
	stop := c.listen(func() { end(ErrSuperseded) })
	return inner, func() {
		stop()
		end(nil)
	}
}

// argument makes the argument of one handler: its own patch, and the object with the patches so far.
func (c *cycle) argument(p *progress, a Attempt) *Change {
	arg := c.cause
	arg.Body = c.bodyNow()
	arg.Patch = newPatch(c.served.persistence, &c.served.resource, arg.Body)
	arg.Param = p.handler.param
	arg.Attempt = a
	arg.handler, arg.Logger = p.handler, handlerLogger(arg.Logger, p.handler.id)
	p.handler.narrow(&arg)
	return &arg
}

// callHandler calls the handler, and then the sub-handlers that it has registered.
func (c *cycle) callHandler(ctx context.Context, p *progress, arg *Change) error {
	interruptible, release := c.interruptible(ctx, p.handler)
	defer release()
	inner, cancel := p.handler.withDeadline(interruptible, p.record.Started)
	defer cancel()
	subs := &subhandlers{cycle: c, parent: p}
	defer func() { subs.closed = true }()
	arg.subs = subs
	err := safecall.Recover(func() error { return p.handler.changes.change(inner, arg) }) // it may panic with the error of its context
	err = withPatchError(err, errors.Join(arg.check(p.handler.id), arg.Patch.try(arg.Body)))
	if err == nil && len(subs.waiting) > 0 {
		err = subs.runRest(inner, arg)
	}
	if err == nil {
		subs.warnDropped(arg.Logger)
	}
	if c.reactor.leader.lost(c.handlers, err) || err != nil && interruptible.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrSuperseded)) {
		return &cancelledError{err}
	}
	return err
}

// withDeadline returns a context that ends at the handler's timeout.
func (h *handler) withDeadline(ctx context.Context, started time.Time) (context.Context, context.CancelFunc) {
	if h.retry.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, started.Add(h.retry.timeout))
}

// noteOutcome records an outcome and the handler's patch. The argument is nil if the handler was not called.
func (c *cycle) noteOutcome(p *progress, o outcome, arg *Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.record.apply(o, time.Now())
	if arg == nil {
		return
	}
	if o.final && o.err == nil && arg.result != nil {
		arg.Patch.put(arg.result, "status", string(p.handler.id))
	}
	if !arg.Patch.Empty() {
		c.writes.patches = append(c.writes.patches, &handlerPatch{id: p.handler.id, patch: arg.Patch, change: true})
		c.writes.unapplied = append(c.writes.unapplied, arg.Patch)
	}
}

// bodyNow returns the object with the patches so far.
func (c *cycle) bodyNow() *Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, patch := range c.writes.unapplied {
		c.writes.body = patch.applied(c.writes.body)
	}
	c.writes.unapplied = nil
	return c.writes.body
}

// handlersDone reports whether all selected handlers are finished, and otherwise the time until the next one is due.
func (c *cycle) handlersDone(now time.Time) (bool, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return remaining(c.topHandlers(), now)
}

func remaining(group []*progress, now time.Time) (bool, time.Duration) {
	done, wait := true, time.Duration(-1)
	for _, p := range group {
		if p.record.finished() {
			continue
		}
		done = false
		if _, w := p.due(now); wait < 0 || w < wait {
			wait = w
		}
	}
	return done, wait
}

// topHandlers returns the selected handlers, without sub-handlers.
func (c *cycle) topHandlers() []*progress {
	var top []*progress
	for _, p := range c.progress.all {
		if p.selected && p.parent == nil {
			top = append(top, p)
		}
	}
	return top
}

// findProgress returns the progress of a handler, nil if it is not in the cycle.
func (c *cycle) findProgress(id HandlerID) *progress {
	for _, p := range c.progress.all {
		if p.handler.id == id {
			return p
		}
	}
	return nil
}

// failHandler fails a handler whose patch the API server has refused.
func (c *cycle) failHandler(p *handlerPatch, err error) {
	log := withStack(c.cause.Logger, err)
	log.Error(fmt.Sprintf("Handler '%s' failed permanently: its patch was refused: %v", p.id, err), handlerAttr(p.id), "help", "K306")
	c.cause.postFailure("Handler", p.id, fmt.Errorf("its patch was refused: %w", err))
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.findProgress(p.id); q != nil && p.change {
		q.record.failRefused(err)
	}
	p.succeeded = false
	c.writes.succeeded = slices.DeleteFunc(c.writes.succeeded, func(id HandlerID) bool { return id == p.id && p.change })
}

// failRefused marks the handler as failed because of its refused patch.
func (r *ProgressRecord) failRefused(err error) {
	text := cut.End("its patch was refused: "+err.Error(), maxMessage)
	r.Success, r.Failure, r.Message = false, true, &text
	r.Delayed, r.Stopped = time.Time{}, time.Now()
}

// logSuccess logs the success of a handler. At hundreds per second, it uses the level DEBUG.
func (e *environment) logSuccess(log *slog.Logger, noun string, id HandlerID) {
	log.Log(e.handlers, e.successes.Count(), noun+" '"+string(id)+"' succeeded.", handlerAttr(id))
}

// logOutcome logs the outcome of an unsuccessful attempt. For arbitrary errors, it includes all details.
func logOutcome(ctx context.Context, log *slog.Logger, noun string, id HandlerID, o outcome, err error) {
	name, handler := noun+" '"+string(id)+"'", handlerAttr(id)
	var denied *AdmissionError
	switch {
	case noun == webhookNoun && errtype.As(err, &denied):
		log.InfoContext(ctx, name+" failed with a denial: "+err.Error(), handler) // a denial is its purpose
	case o.cancelled && (errors.Is(err, ErrLeadershipLost) || errors.Is(context.Cause(ctx), ErrLeadershipLost)):
		log.WarnContext(ctx, name+" was cancelled, because this replica has lost the Lease. The next leader calls it again.", handler, "help", "K317")
	case o.cancelled && ctx.Err() == nil:
		log.InfoContext(ctx, name+" was interrupted, because the object was changed or deleted meanwhile.", handler)
	case o.cancelled:
		log.WarnContext(ctx, name+" was cancelled, because the operator stops. It will be called again.", handler, "help", "K318")
	case o.waiting:
		log.DebugContext(ctx, name+" waits for its sub-handlers.", handler, "delay", o.delay)
	default:
		logFailure(ctx, log.With(handler), name, o, err)
	}
}

// logFailure logs why an attempt has failed, and what kopf does next. The level is ERROR only if a human must act.
func logFailure(ctx context.Context, log *slog.Logger, name string, o outcome, err error) {
	var temporary *TemporaryError
	var permanent *PermanentError
	switch {
	case errtype.As(err, &permanent):
		log.ErrorContext(ctx, name+" failed permanently: "+err.Error(), "help", "K305")
	case o.final && errtype.As(o.err, &permanent) && o.err != err:
		log.ErrorContext(ctx, name+" failed permanently: "+o.err.Error(), "error", err, "help", "K305")
	case errtype.As(err, &temporary):
		log.WarnContext(ctx, name+" failed temporarily: "+err.Error(), "delay", o.delay, "help", "K302")
	default:
		attrs, level := []any{"error", err}, slog.LevelWarn
		if stack := safecall.StackOf(err); stack != nil {
			attrs, level = append(attrs, "stack", string(stack)), slog.LevelError
		}
		consequence, help := fmt.Sprintf("will try again in %s.", o.delay.Round(time.Millisecond)), "K301"
		if o.final && o.err == nil {
			consequence, help = "will ignore it.", "K303"
		} else if o.final {
			level, consequence, help = slog.LevelError, "will stop now.", "K304"
		}
		log.Log(ctx, level, name+" failed with an exception and "+consequence, append(attrs, "help", help)...)
	}
}

// subhandlers are the sub-handlers that one attempt of a handler registers.
type subhandlers struct {
	cycle   *cycle
	parent  *progress
	waiting []*handler // registered, and not yet run
	known   []*handler // run or not
	closed  bool       // whether the parent has returned
	settlers
}

// waitsForSubhandlers is the result of a handler with unfinished sub-handlers.
type waitsForSubhandlers struct{ delay time.Duration }

func (e *waitsForSubhandlers) Error() string { return "some sub-handlers are not finished" }

// register adds a sub-handler to run later.
func (s *subhandlers) register(id HandlerID, fn ChangeFunc, opts *ChangeOptions, reason Reason) {
	if s.closed {
		panic("kopf: a sub-handler can be registered only while its parent runs")
	}
	h, err := newSubhandler(s.parent.handler, reason, id, fn, opts)
	if err != nil {
		panic("kopf: Subhandler: " + err.Error())
	}
	for _, other := range s.known {
		if key, shared := sharedKey(h.changes.keys, other.changes.keys); h.id == other.id {
			panic(fmt.Sprintf("kopf: the sub-handler %q is registered twice", h.id))
		} else if shared {
			panic(fmt.Sprintf("kopf: the sub-handlers %q and %q would share their progress, which is stored as %q: give one of them another id", other.id, h.id, key))
		}
	}
	s.known = append(s.known, h)
	s.waiting = append(s.waiting, h)
}

// execute runs the sub-handlers that are registered so far.
func (s *subhandlers) execute(ctx context.Context) error {
	if s.closed {
		return errors.New("sub-handlers can be executed only while their parent runs")
	}
	err := s.run(ctx)
	s.cycle.bodyNow() // now, because the parent goes on
	return err
}

// runRest runs the sub-handlers that were not executed yet. They may also change the patch of their
// parent, which keeps its valid parts.
func (s *subhandlers) runRest(ctx context.Context, parent *Change) error {
	unfinished := s.run(ctx)
	if err := errors.Join(s.settle(), parent.Patch.try(parent.Body)); err != nil {
		return err
	}
	return unfinished
}

func (s *subhandlers) run(ctx context.Context) error {
	c, now := s.cycle, time.Now()
	var group []*progress
	cause := c.cause
	cause.Body = c.bodyNow()
	selected := selectHandlers(s.waiting, &cause, c.decided.Initial)
	for _, h := range selected {
		group = append(group, c.addProgress(h, s.parent, true, now))
	}
	for _, h := range s.waiting {
		if !slices.Contains(selected, h) {
			c.lapse(h.id)
		}
	}
	s.waiting = nil
	c.mu.Lock()
	for p := s.parent; p != nil; p = p.parent {
		for _, q := range group {
			p.record.addSubref(q.handler.id)
		}
	}
	c.mu.Unlock()
	c.runChosen(ctx, c.chooseDue(group))
	if done, delay := remaining(group, time.Now()); !done {
		return &waitsForSubhandlers{delay: delay}
	}
	return nil
}

// warnDropped warns of unfinished sub-handlers that the last call of the parent has not registered again.
func (s *subhandlers) warnDropped(log *slog.Logger) {
	var dropped []string
	for _, ref := range s.parent.record.Subrefs {
		covers := func(h *handler) bool { return ref == string(h.id) || strings.HasPrefix(ref, string(h.id)+"/") }
		if !strings.HasPrefix(ref, string(s.parent.handler.id)+"/") || slices.ContainsFunc(s.known, covers) {
			continue
		}
		record, err := s.cycle.loadProgress(HandlerID(ref))
		if err == nil && record != nil && record.owed(s.cycle.reason()) {
			dropped = append(dropped, ref)
		}
	}
	if len(dropped) > 0 {
		log.Warn("Unfinished sub-handlers were not registered again, and are dropped",
			"subhandlers", strings.Join(dropped, ", "), "help", "K311")
	}
}

// subhandling registers and runs the sub-handlers of a running handler.
type subhandling interface {
	register(id HandlerID, fn ChangeFunc, opts *ChangeOptions, reason Reason)
	execute(ctx context.Context) error
	then(settle func() error)
}
