package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file calls handlers: one attempt of one handler with its errors, limits and panics, and
// all the handlers of one cause in the order of a lifecycle, sub-handlers
// included. It keeps their progress in records and knows nothing of how those are stored or sent. It runs on the
// goroutine of the object's worker.

// PendingHandler is what a [Lifecycle] knows of a handler that could be called now.
type PendingHandler struct {
	ID      HandlerID // of the handler, with its field
	Retries int       // the attempts that were made before
	Started time.Time // when the first attempt became possible
}

// Lifecycle chooses which of the handlers that could be called now are called in this
// cycle, and in what order. It gets them in the order of registration and
// returns some or all of them. Those left out get their turn in a next cycle.
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

// outcome is how one attempt of a handler has ended.
type outcome struct {
	final     bool          // whether the handler is finished
	err       error         // nil on success, and for an error that is to be ignored
	delay     time.Duration // before the next attempt; none if it is not positive
	waiting   bool          // whether it waits for its sub-handlers, which is not an error
	cancelled bool          // whether its context was ended: as if it had not been called
}

// result is what is counted of the outcome of an attempt that has ended with an error.
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

// exhausted reports whether a handler may not be called any more by its own limits.
func (h *handler) exhausted(retries int, runtime time.Duration, cause error) error {
	switch {
	case h.timeout > 0 && runtime >= h.timeout:
		return &HandlerTimeoutError{ID: h.id, Runtime: runtime, Err: cause}
	case h.retries > 0 && retries >= h.retries:
		return &HandlerRetriesError{ID: h.id, Retries: retries, Err: cause}
	}
	return nil
}

// outcome turns what a handler has returned in an attempt into its outcome.
// It gets the attempts that were made before, and the runtime when the attempt ended.
func (h *handler) outcome(err error, retries int, runtime time.Duration, s *ExecutionSettings) outcome {
	var temporary *TemporaryError
	var permanent *PermanentError
	switch {
	case err == nil:
		return outcome{final: true}
	case errors.As(err, &permanent):
		return outcome{final: true, err: err}
	case errors.As(err, &temporary):
		return h.retryOutcome(err, s.retryDelay(temporary.Delay, retries), retries, runtime)
	case h.errors == ErrorsPermanent:
		return outcome{final: true, err: err}
	case h.errors == ErrorsIgnored:
		return outcome{final: true}
	}
	delay := h.backoff
	if delay == 0 {
		delay = s.DefaultBackoff
	}
	return h.retryOutcome(err, s.retryDelay(delay, retries), retries, runtime)
}

// minRetryDelay is how soon an attempt follows another one for both to count as quick.
const minRetryDelay = time.Second

// retryDelay is the delay of the next attempt after so many before this one, which is not to be in a hurry for ever.
func (s *ExecutionSettings) retryDelay(delay time.Duration, retries int) time.Duration {
	if s.QuickRetries <= 0 || delay >= minRetryDelay || retries < s.QuickRetries {
		return delay
	}
	return min(minRetryDelay<<min(retries-s.QuickRetries, 10), time.Minute)
}

// retryOutcome is the outcome of an error that is worth another attempt, unless it would come too
// late or be one too many: then the handler fails now.
func (h *handler) retryOutcome(err error, delay time.Duration, retries int, runtime time.Duration) outcome {
	if limit := h.exhausted(retries+1, runtime+max(delay, 0), err); limit != nil {
		return outcome{final: true, err: limit}
	}
	return outcome{err: err, delay: delay}
}

// apply notes the outcome of an attempt that ended now.
func (r *ProgressRecord) apply(o outcome, now time.Time) {
	r.Retries++
	r.Delayed, r.Message = time.Time{}, nil
	if !o.final && (o.delay > 0 || o.waiting) {
		r.Delayed = now.Add(max(o.delay, 0))
	}
	if o.final {
		r.Success, r.Failure = o.err == nil, o.err != nil
		if r.Stopped.IsZero() {
			r.Stopped = now
		}
	}
	if text := ""; o.waiting {
		text = waitingMessage
		r.Message = &text
	} else if o.err != nil {
		text = cut.End(o.err.Error(), maxMessage)
		r.Message = &text
	}
}

// waitingMessage is what is stored in place of an error while sub-handlers are waited for. It is what the original stores.
const waitingMessage = "None"

// maxMessage is the longest text of an error that is stored on an object, in bytes: the annotations of an object
// may have 256 KiB in all, and no one reads that much.
const maxMessage = 1024

// progress is one handler in a handling: its record, and whether it takes part.
type progress struct {
	handler    *handler
	parent     *progress
	record     *ProgressRecord
	stored     bool            // whether the record was on the object
	purpose    Reason          // of the record as it was stored
	selected   bool            // whether the handler fits the cause; others are only cleaned up
	otherCause *ProgressRecord // what it has done for another cause, nil if that counts for this one
	earlier    bool            // whether it has finished before this cycle
}

// storedRecord returns the record as it was stored.
func (p *progress) storedRecord() *ProgressRecord {
	if p.otherCause != nil {
		return p.otherCause
	}
	return p.record
}

// refer names a record that is to be purged with that of the handler, as operators in Python do it: for the first of its parents.
func (p *progress) refer(id HandlerID) {
	for p.parent != nil {
		p = p.parent
	}
	p.record.addSubref(id)
}

// parentID returns the id of the handler that runs when this one does not: that of its parent, if there is one.
func (p *progress) parentID() HandlerID {
	if p.parent == nil {
		return ""
	}
	return p.parent.handler.id
}

// due reports whether the handler could be called now, and otherwise how long it has to wait.
func (p *progress) due(now time.Time) (bool, time.Duration) {
	if p.record.finished() {
		return false, 0
	}
	wait := p.record.Delayed.Sub(now)
	return p.record.Delayed.IsZero() || wait <= 0, max(wait, 0)
}

// execution is the work on one cause: the handlers of an object with their progress, and what
// they have left to be sent. The worker's goroutine runs it; the lock is for the timer that flushes.
type execution struct {
	cycle      *cycle // that the execution is a part of
	cause      Change // with Old and New of the whole object, copied for each handler
	initial    bool
	registered []*handler     // of the resource
	unseen     *handlingState // whose finished handlers are called again, nil for none

	attempts int // made in this cycle

	mu        sync.Mutex // guards following
	all       []*progress
	patches   []*handlerPatch
	body      *Body // with the patches applied, but for the following
	unapplied []*Patch
	broken    error // why the last flush between two handlers has failed; nil again when a later one has not

	succeeded []HandlerID // whose success is to be logged when it is stored
}

// add notes a handler that takes part or is to be cleaned up.
func (e *execution) add(h *handler, parent *progress, selected bool, now time.Time) *progress {
	p := &progress{handler: h, parent: parent, selected: selected}
	record, err := e.cycle.loadProgress(h.id)
	if err != nil {
		e.cause.Logger.Warn("The stored progress of a handler is damaged and counts as none.", "handler", h.id, "error", err)
	}
	if p.stored = record != nil; !p.stored {
		record = &ProgressRecord{Started: now, Purpose: e.cause.Reason}
	}
	if record.Started.IsZero() { // a record of an older version may lack it
		record.Started = now
	}
	if p.record, p.purpose = record, record.Purpose; selected {
		other := p.purpose != "" && p.purpose != e.cause.Reason
		if record.finished() && (other || e.unseen.of(record)) && !e.joinsResume(p) { // it has not seen what has changed since
			p.otherCause = record
			p.record = &ProgressRecord{Started: now, Subrefs: record.Subrefs}
		}
		p.record.Purpose = e.cause.Reason
	}
	p.earlier = p.record.finished()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, p)
	return p
}

// renew has the handlers called again that have finished before this cycle, with their sub-handlers. It returns the records of
// these, which are in no progress yet, and whether there are any such handlers.
func (e *execution) renew(now time.Time) (subs map[HandlerID]*ProgressRecord, found bool) {
	subs = make(map[HandlerID]*ProgressRecord)
	for _, p := range e.all {
		if !p.selected || !p.earlier || e.joinsResume(p) {
			continue
		}
		e.renewBelow(p.handler.id, p.record, now, subs)
		found = true
		for ; p != nil; p = p.parent { // a sub-handler runs when its parent does
			p.record = &ProgressRecord{Started: now, Purpose: e.cause.Reason, Subrefs: p.record.Subrefs}
		}
	}
	return subs, found
}

// renewBelow makes new records of the sub-handlers of a handler that have finished: of all, or for the unseen state, if there is one.
func (e *execution) renewBelow(parent HandlerID, record *ProgressRecord, now time.Time, subs map[HandlerID]*ProgressRecord) {
	for _, ref := range record.Subrefs {
		id := HandlerID(ref)
		if !strings.HasPrefix(ref, string(parent)+"/") { // it is the state that is kept, or the record was edited
			continue
		}
		stored, err := e.cycle.loadProgress(id)
		if err != nil || stored == nil {
			continue
		}
		if stored.finished() && (e.unseen == nil || e.unseen.of(stored)) {
			subs[id] = &ProgressRecord{Started: now, Purpose: e.cause.Reason, Subrefs: stored.Subrefs}
		}
		e.renewBelow(id, stored, now, subs)
	}
}

// joinsResume reports whether a handler, or its parent, is not for the cause itself, but called with it because the object resumes.
func (e *execution) joinsResume(p *progress) bool {
	for p.parent != nil {
		p = p.parent
	}
	return e.cause.Reason != ReasonResume && !slices.ContainsFunc(e.registered, func(o *handler) bool {
		return o.id == p.handler.id && o.matches(&e.cause, false)
	})
}

// run calls those of the group that are due, in the order of the lifecycle. It
// stops early when something newer is to be handled first.
func (e *execution) run(ctx context.Context, group []*progress) {
	chosen := e.chooseDue(group)
	for i, p := range chosen {
		if !e.acquire(ctx, p, i > 0) {
			return
		}
		o := e.attempt(ctx, p)
		e.release(p)
		if last := i == len(chosen)-1; o.cancelled || last {
			continue // the end of the cycle sends it
		}
		if !o.final || o.err != nil || p.parent != nil || e.cycle.settings.Execution.FlushAfter <= 0 {
			e.cycle.flushBetween()
		} else {
			e.cycle.flushLater()
		}
	}
}

// acquire waits until a handler may run, and reports whether it is to be called then. Sub-handlers run with the token of their parent.
func (e *execution) acquire(ctx context.Context, p *progress, begun bool) bool {
	if p.parent == nil {
		began := time.Now()
		acquired, waited := e.cycle.limit.Acquire(ctx.Done(), nil, e.cycle.queue.workerLimit)
		if !acquired {
			return false
		}
		begun = begun || waited // the object can be another one by now
		e.excludeWait(p, time.Since(began))
	}
	if ctx.Err() != nil || e.failure() != nil || p.parent == nil && (e.cycle.superseded(e.cycle.entry) || begun && e.cycle.interrupted()) {
		e.release(p)
		return false
	}
	return true
}

// excludeWait keeps the time that a handler has waited for its first call out of its timeout: it would fail without having been called.
func (e *execution) excludeWait(p *progress, waited time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.record.Retries == 0 {
		p.record.Started = p.record.Started.Add(waited)
	}
}

// release lets the next handler run.
func (e *execution) release(p *progress) {
	if p.parent == nil {
		e.cycle.limit.Release()
	}
}

func (e *execution) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken
}

func (e *execution) chooseDue(group []*progress) []*progress {
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
	for _, next := range e.cycle.lifecycle(pending) {
		if p := byID[next.ID]; p != nil {
			chosen = append(chosen, p)
			delete(byID, next.ID) // a lifecycle that repeats itself calls nothing twice
		}
	}
	return chosen
}

// attempt calls one handler once, unless its limits forbid it, and notes the outcome.
func (e *execution) attempt(ctx context.Context, p *progress) outcome {
	h, started := p.handler, time.Now()
	log := e.cause.Logger
	e.attempts++
	runtime := started.Sub(p.record.Started)
	retries := p.record.Retries
	if p.record.waits() { // calls for the sake of sub-handlers are not the parent's failures
		retries = 0
	}
	if err := h.exhausted(retries, runtime, nil); err != nil {
		o := outcome{final: true, err: err}
		e.finish(p, o, nil)
		e.meterOf(p).Ended(metrics.Failure, 0)
		logOutcome(ctx, log, "Handler", h.id, o, err)
		return o
	}
	c := e.change(p, runtime)
	log.DebugContext(ctx, "Handler '"+string(h.id)+"' is invoked.")
	e.cycle.setRunning(h.id)
	inner, release := e.interruptible(ctx, h)
	err := e.call(inner, p, c)
	ended := inner.Err() != nil
	release()
	e.cycle.setRunning(p.parentID())
	var waits *waitsForSubhandlers
	var o outcome
	switch {
	case errors.As(err, &waits):
		o = outcome{delay: waits.delay, waiting: true}
	case err != nil && ended && (errors.Is(err, context.Canceled) || errors.Is(err, ErrSuperseded)):
		o = outcome{cancelled: true}
		e.attempts--
	default:
		o = h.outcome(err, p.record.Retries, time.Since(p.record.Started), &e.cycle.settings.Execution)
	}
	e.finish(p, o, c)
	e.meterOf(p).Ended(o.result(err), int64(time.Since(started)))
	if o.cancelled && ctx.Err() == nil {
		log.InfoContext(ctx, fmt.Sprintf("Handler '%s' was interrupted, because the object was changed or deleted meanwhile.", h.id))
		return o
	}
	if err == nil {
		e.mu.Lock()
		e.succeeded = append(e.succeeded, h.id)
		e.mu.Unlock()
		return o
	}
	logOutcome(ctx, log, "Handler", h.id, o, err)
	return o
}

// meterOf returns the counters of a handler; sub-handlers are counted together for the first of their parents.
func (e *execution) meterOf(p *progress) *metrics.Handler {
	sub := p.parent != nil
	for p.parent != nil {
		p = p.parent
	}
	return e.cycle.meter.Handler(string(p.handler.id), sub)
}

// interruptible makes the context of a handler, which ends early if the handler wants that. What ends must be released.
func (e *execution) interruptible(ctx context.Context, h *handler) (inner context.Context, release func()) {
	if !h.interruptible {
		return ctx, func() {}
	}
	inner, end := context.WithCancelCause(ctx)
	stop := e.cycle.listen(func() { end(ErrSuperseded) })
	return inner, func() {
		stop()
		end(nil)
	}
}

// change makes what one handler gets: its own patch, and the object with the patches so far.
func (e *execution) change(p *progress, runtime time.Duration) *Change {
	c := e.cause
	c.Body = e.bodyNow()
	c.Patch = &Patch{}
	c.Param = p.handler.param
	c.Attempt = Attempt{Retry: p.record.Retries, Started: p.record.Started, Runtime: runtime}
	c.handler = p.handler
	p.handler.narrow(&c)
	return &c
}

// call calls the handler's function and then the sub-handlers that it has registered.
func (e *execution) call(ctx context.Context, p *progress, c *Change) error {
	if h := p.handler; h.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, p.record.Started.Add(h.timeout))
		defer cancel()
	}
	subs := &subhandlers{execution: e, parent: p}
	c.subs = subs
	err := safecall.Do(func() error { return p.handler.change(ctx, c) })
	if err == nil {
		err = errors.Join(c.err, c.Patch.try(c.Body))
	}
	if err == nil {
		err = subs.runRest(ctx)
	}
	subs.closed = true
	return err
}

// finish notes an outcome and keeps what the attempt wants to change.
func (e *execution) finish(p *progress, o outcome, c *Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.cancelled {
		return
	}
	p.record.apply(o, time.Now())
	if c == nil {
		return
	}
	if o.final && o.err == nil && c.result != nil {
		c.Patch.put(c.result, "status", string(p.handler.id))
	}
	if !c.Patch.Empty() {
		e.patches = append(e.patches, &handlerPatch{id: p.handler.id, patch: c.Patch, change: true})
		e.unapplied = append(e.unapplied, c.Patch)
	}
}

// bodyNow returns the object with the patches so far.
func (e *execution) bodyNow() *Body {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, patch := range e.unapplied {
		e.body = patch.applied(e.body)
	}
	e.unapplied = nil
	return e.body
}

// done reports whether all selected handlers are finished, and otherwise how long the
// nearest of them has to wait.
func (e *execution) done(now time.Time) (bool, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return remaining(e.top(), now)
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

// top returns the selected handlers that are not sub-handlers.
func (e *execution) top() []*progress {
	var top []*progress
	for _, p := range e.all {
		if p.selected && p.parent == nil {
			top = append(top, p)
		}
	}
	return top
}

// find returns the progress of a handler, nil if it does not take part.
func (e *execution) find(id HandlerID) *progress {
	for _, p := range e.all {
		if p.handler.id == id {
			return p
		}
	}
	return nil
}

// failRefused fails a handler whose patch the API server does not take.
func (e *execution) failRefused(p *handlerPatch, err error) {
	e.cause.Logger.Error(fmt.Sprintf("Handler '%s' failed permanently: its patch was refused: %v", p.id, err))
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := e.find(p.id); q != nil && p.change {
		q.record.failRefused(err)
	}
	p.succeeded = false
	e.succeeded = slices.DeleteFunc(e.succeeded, func(id HandlerID) bool { return id == p.id && p.change })
}

// failRefused makes the record that of a handler whose patch the API server does not take.
func (r *ProgressRecord) failRefused(err error) {
	text := cut.End("its patch was refused: "+err.Error(), maxMessage)
	r.Success, r.Failure, r.Message = false, true, &text
	r.Delayed, r.Stopped = time.Time{}, time.Now()
}

// logOutcome logs how an attempt has ended: the error in full if it is an arbitrary one.
func logOutcome(ctx context.Context, log *slog.Logger, noun string, id HandlerID, o outcome, err error) {
	name := noun + " '" + string(id) + "'"
	switch {
	case o.cancelled:
		log.WarnContext(ctx, name+" was cancelled, because the operator stops. It will be called again.")
	case o.waiting:
		log.DebugContext(ctx, name+" waits for its sub-handlers.", "delay", o.delay)
	case err == nil:
		log.InfoContext(ctx, name+" succeeded.")
	default:
		logFailure(ctx, log, name, o, err)
	}
}

// logFailure logs why an attempt has failed, and what will come of it.
func logFailure(ctx context.Context, log *slog.Logger, name string, o outcome, err error) {
	var temporary *TemporaryError
	var permanent *PermanentError
	switch {
	case errors.As(err, &permanent):
		log.ErrorContext(ctx, name+" failed permanently: "+err.Error())
	case o.final && errors.As(o.err, &permanent) && o.err != err:
		log.ErrorContext(ctx, name+" failed permanently: "+o.err.Error(), "error", err)
	case errors.As(err, &temporary):
		log.ErrorContext(ctx, name+" failed temporarily: "+err.Error(), "delay", o.delay)
	default:
		attrs := []any{"error", err}
		if stack := safecall.StackOf(err); stack != nil {
			attrs = append(attrs, "stack", string(stack))
		}
		consequence := fmt.Sprintf("will try again in %s.", o.delay)
		if o.final && o.err == nil {
			consequence = "will ignore it."
		} else if o.final {
			consequence = "will stop now."
		}
		log.ErrorContext(ctx, name+" failed with an exception and "+consequence, attrs...)
	}
}

// subhandlers are the sub-handlers that one attempt of a handler has registered.
type subhandlers struct {
	execution *execution
	parent    *progress
	waiting   []*handler // registered, and not yet run
	known     []*handler // run or not
	closed    bool       // whether the parent has returned
}

// waitsForSubhandlers is the outcome of a handler some of whose sub-handlers are not finished.
type waitsForSubhandlers struct{ delay time.Duration }

func (e *waitsForSubhandlers) Error() string { return "some sub-handlers are not finished" }

// register notes a sub-handler, to be run later.
func (s *subhandlers) register(id HandlerID, fn ChangeFunc, opts *ChangeOptions, reason Reason) {
	if s.closed {
		panic("kopf: a sub-handler can be registered only while its parent runs")
	}
	h, err := newSubhandler(s.parent.handler, reason, id, fn, opts)
	if err != nil {
		panic("kopf: Subhandler: " + err.Error())
	}
	for _, other := range s.known {
		if key, shared := sharedKey(h.keys, other.keys); h.id == other.id {
			panic(fmt.Sprintf("kopf: the sub-handler %q is registered twice", h.id))
		} else if shared {
			panic(fmt.Sprintf("kopf: the sub-handlers %q and %q would share their progress, which is stored as %q: give one of them another id", other.id, h.id, key))
		}
	}
	s.known = append(s.known, h)
	s.waiting = append(s.waiting, h)
}

// execute runs what was registered so far.
func (s *subhandlers) execute(ctx context.Context) error {
	if s.closed {
		return errors.New("sub-handlers can be executed only while their parent runs")
	}
	return s.run(ctx)
}

// runRest runs what was registered and not executed.
func (s *subhandlers) runRest(ctx context.Context) error {
	if len(s.waiting) == 0 {
		return nil
	}
	return s.run(ctx)
}

func (s *subhandlers) run(ctx context.Context) error {
	e, now := s.execution, time.Now()
	var group []*progress
	cause := e.cause
	cause.Body = e.bodyNow()
	for _, h := range selectHandlers(s.waiting, &cause, e.initial) {
		group = append(group, e.add(h, s.parent, true, now))
	}
	s.waiting = nil
	e.mu.Lock()
	for p := s.parent; p != nil; p = p.parent {
		for _, q := range group {
			p.record.addSubref(q.handler.id)
		}
	}
	e.mu.Unlock()
	e.run(ctx, group)
	if done, delay := remaining(group, time.Now()); !done {
		return &waitsForSubhandlers{delay: delay}
	}
	return nil
}

// changedFrom reports whether writing the record would change what is stored, given as it was read.
func (r *ProgressRecord) changedFrom(stored *ProgressRecord) bool {
	c := *r
	c.stored = stored.stored
	return c.changed()
}

// waits reports whether the last call was one that waits for its sub-handlers.
func (r *ProgressRecord) waits() bool {
	return len(r.Subrefs) > 0 && r.Message != nil && *r.Message == waitingMessage
}

// addSubref notes a sub-handler whose record is to be purged with this one.
func (r *ProgressRecord) addSubref(id HandlerID) {
	if i, found := slices.BinarySearch(r.Subrefs, string(id)); !found {
		r.Subrefs = slices.Insert(r.Subrefs, i, string(id))
	}
}

// subhandling registers the sub-handlers of a running handler, and runs them.
type subhandling interface {
	register(id HandlerID, fn ChangeFunc, opts *ChangeOptions, reason Reason)
	execute(ctx context.Context) error
}
