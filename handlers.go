package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/stopper"
)

// This file knows what handlers get, one type for each family of handlers, and how the reason of
// a change is detected. The types are filled by the reactor, and read on the goroutine of the object's worker.

// ChangeFunc handles a change of an object: its creation, update, deletion, resuming,
// or the change of one field. It is called on the goroutine of the object's worker: never twice at
// the same time for one object, and at the same time for different ones.
//
// A nil error means success. A [Temporary] error means another attempt after its
// delay, a [Permanent] one none, any other error is treated as the Errors option
// says: by default, another attempt after the Backoff. A panic counts as such an error.
//
// The context ends [QueueingSettings.ExitTimeout] after the operator has begun to stop, and at the handler's Timeout. If the
// handler is Interruptible, it also ends when the object is deleted or its tracked fields change.
type ChangeFunc func(ctx context.Context, c *Change) error

// EventFunc sees every event of an object as it comes, in order. It is called once for an
// event; its errors are logged and forgotten.
type EventFunc func(ctx context.Context, e *WatchEvent) error

// ActivityFunc is called when the operator starts or stops.
type ActivityFunc func(ctx context.Context, a *Activity) error

// LoginFunc returns how to reach the API server, or nil if it has nothing to tell.
type LoginFunc func(ctx context.Context, l *Login) (*ConnectionInfo, error)

// Object is what all handlers of objects get, embedded in the type of their family.
type Object struct {
	// Resource is the kind of the object, as the API server describes it.
	Resource Resource
	// Body is the object itself.
	Body *Body
	// Patch takes the changes to make to the object after the handler.
	Patch *Patch
	// Logger logs with the object's reference.
	Logger *slog.Logger
	// Client talks to the API server with the operator's credentials.
	Client *Client
	// Indices are the operator's indices. [Index.Get] reads them with their types.
	Indices Indices
	// Param is the Param option of the handler.
	Param any

	memory *memory
	fence  uint64                // of the term in which the handler was called; 0 without one
	events eventRecorder         // nil in an object that was made by hand
	live   *atomic.Pointer[Body] // the newest state, where that changes during the call

	answers answers // of the filters, while the object is decided about; nil if they are not kept
}

// Latest returns the newest state of the object that is known. For daemons and timers it follows the events while the
// function runs, and so do Spec, Status, Meta, Labels, Annotations and Decode; Body stays as it was when the
// call began. For all other handlers it is Body.
func (o *Object) Latest() *Body {
	if o.live != nil {
		return o.live.Load()
	}
	return o.Body
}

// Name returns the object's name.
func (o *Object) Name() string { return o.Body.Name() }

// Namespace returns the object's namespace, "" if it is not in one.
func (o *Object) Namespace() string { return o.Body.Namespace() }

// UID returns the object's unique id.
func (o *Object) UID() string { return o.Body.UID() }

// Meta returns the object's metadata.
func (o *Object) Meta() View { return o.Latest().Metadata() }

// Spec returns the object's spec, empty if it has none.
func (o *Object) Spec() View { return o.Latest().Spec() }

// Status returns the object's status, empty if it has none.
func (o *Object) Status() View { return o.Latest().Status() }

// Labels returns a copy of the object's labels, never nil.
func (o *Object) Labels() map[string]string { return o.Latest().Labels() }

// Annotations returns a copy of the object's annotations, never nil.
func (o *Object) Annotations() map[string]string { return o.Latest().Annotations() }

// Decode stores the object in the value that v points to, as [encoding/json.Unmarshal] does.
func (o *Object) Decode(v any) error { return o.Latest().Decode(v) }

// Memo returns the object's memo: what handlers remember of the object as long as the operator runs. Call it in the handler, and
// pass the [*Memo] to goroutines that outlive the handler. For an object that is idle, kopf keeps only a memo that a handler has
// asked for.
func (o *Object) Memo() *Memo {
	if o.memory == nil { // of an object that was made by hand
		o.memory = &memory{}
	}
	return o.memory.get()
}

func (o *Object) indexes() Indices { return o.Indices }

// WatchEvent is what handlers of raw events get.
type WatchEvent struct {
	Object
	// Type is the type of the event, [Listed] for objects that were there before the operator.
	Type EventType
}

// Change is what handlers of changes get, and also their sub-handlers and filters.
type Change struct {
	Object
	Attempt
	// Reason is what happened. Handlers of [OnResume] get [ReasonResume], and [ReasonUpdate] or [ReasonDelete] if that has happened
	// while the operator was down. Handlers of [OnField] get [ReasonCreate], [ReasonUpdate] or [ReasonDelete], and with an empty
	// field [ReasonResume], too.
	Reason Reason
	// Old and New are the tracked part of the object as it was last handled and as it is now; of a handler with
	// a Field, the field's values. Old is empty on creation.
	Old, New View

	resulting
	handler *handler
	diff    func() Diff
	subs    subhandling
}

// resulting takes the result of a handler.
type resulting struct {
	result any
	err    error // of a result that is not JSON
}

func (r *resulting) set(value any) {
	if r.result, r.err = rawjson.Normalize(value); r.err != nil {
		r.err = Permanent(fmt.Errorf("the result: %w", r.err)) // the next attempt would have one of the same type
	}
}

// Subhandler registers a sub-handler of the running handler. It is called after the running handler
// has returned, or in [Change.Execute]; its progress is kept under the id of the running handler, a
// slash, and the given id, and it is not called again when it has succeeded. While it is
// unfinished, the running handler is called again and has to register the same sub-handlers.
// It panics on the errors that registration panics on, and if the handler has returned.
func (c *Change) Subhandler(id HandlerID, fn ChangeFunc, opts *ChangeOptions) {
	if c.subs == nil {
		panic("kopf: a sub-handler can be registered only by a handler of changes while it runs")
	}
	c.subs.register(id, fn, opts, c.Reason)
}

// Execute runs the sub-handlers registered so far, instead of after the handler's return. An error means
// that some of them are not finished: the handler has to return it.
func (c *Change) Execute(ctx context.Context) error {
	if c.subs == nil {
		return errors.New("sub-handlers can be executed only by a handler of changes while it runs")
	}
	return c.subs.execute(ctx)
}

// Diff returns the differences from Old to New.
func (c *Change) Diff() Diff {
	if c.diff == nil {
		return nil
	}
	return c.diff()
}

// SetResult stores a value in the object's status, under the handler's id, when the
// handler succeeds: a map is merged with what is there, all else replaces it, and nil withdraws the result.
// A value that encoding/json cannot encode fails the handler.
func (c *Change) SetResult(value any) { c.resulting.set(value) }

// Activity is what handlers of the operator's own start and stop get.
type Activity struct {
	Attempt
	// Settings are the operator's, to be adjusted by start-up handlers.
	Settings *Settings
	// Logger logs under the activity's name.
	Logger *slog.Logger
	// Client talks to the API server. In start-up handlers, it logs in when it is used first, and has the networking settings of that moment.
	Client *Client
	// Indices are the operator's indices, empty in start-up handlers. [Index.Get] reads them with their types.
	Indices Indices
	// Param is the Param option of the handler.
	Param any

	fence uint64 // of the term in which the handler was called; 0 without one
	memo  *Memo
}

func (a *Activity) indexes() Indices { return a.Indices }

// Memo returns the operator's memo, from which the memos of objects are copied.
func (a *Activity) Memo() *Memo { return a.memo }

// MemoOf returns the memo of an object or of the operator as a struct of the user's own type. It
// is the zero T at first, or a copy of the T in the operator's memo. The pointer is always the same
// for one object; whether what it points to is safe for concurrent use is up to T.
func MemoOf[T any](holder HandlerArgument) *T {
	m, key := holder.Memo(), reflect.TypeFor[T]()
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.values[key]; ok {
		return v.(*T)
	}
	if m.values == nil {
		m.values = make(map[any]any)
	}
	v := new(T)
	m.values[key] = v
	return v
}

// Memo keeps what handlers want to remember of an object, or of the operator, in
// memory only. It begins as a copy of the operator's memo, made when the object is first seen; values
// behind pointers are shared with it. A Memo is safe for concurrent use.
type Memo struct {
	mu     sync.Mutex // guards values
	values map[any]any
}

// Load returns the value stored under key, and whether there is one.
func (m *Memo) Load(key any) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, ok
}

// Store stores a value under key.
func (m *Memo) Store(key, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = make(map[any]any)
	}
	m.values[key] = value
}

// Delete forgets the value stored under key.
func (m *Memo) Delete(key any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}

func (m *Memo) empty() bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values) == 0
}

// copy returns a memo with the same values; structs of [MemoOf] are copied.
func (m *Memo) copy() *Memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memo{}
	for k, v := range m.values {
		if c.values == nil {
			c.values = make(map[any]any, len(m.values))
		}
		if _, typed := k.(reflect.Type); typed {
			p := reflect.New(reflect.TypeOf(v).Elem())
			p.Elem().Set(reflect.ValueOf(v).Elem())
			v = p.Interface()
		}
		c.values[k] = v
	}
	return c
}

// HandlerID names a handler. It is stored on the objects, so a handler that is renamed
// loses the progress of the objects that are being handled at that moment.
type HandlerID string

// Reason is the reason for which change handlers are called.
type Reason string

// The reasons of changes.
const (
	ReasonCreate Reason = "create" // the object was never handled before
	ReasonUpdate Reason = "update" // it differs from what was last handled
	ReasonDelete Reason = "delete" // it is marked for deletion, and a finalizer blocks that
	ReasonResume Reason = "resume" // it was there before the operator, and has not changed since it was last handled
)

// reasonNoop is one for which no handler is called: nothing that we track has changed.
const reasonNoop = Reason(decision.Noop)

// Attempt is which attempt of a retried handler this is.
type Attempt struct {
	// Retry is the number of attempts that were made before, 0 in the first one.
	Retry int
	// Started is when the first attempt became possible.
	Started time.Time
	// Runtime is the time from Started until now.
	Runtime time.Duration
}

// Indexing is what functions of indices get. What they put into the Patch is not sent.
type Indexing struct {
	Object
	Attempt
}

// HandlerArgument is the argument of any handler. It knows the operator that the call belongs to.
type HandlerArgument interface {
	// Memo returns the memo of the object, or of the operator where there is no object.
	Memo() *Memo
	indexes() Indices
}

// IndexFunc tells what an object contributes to an index: a value for each of some keys. A nil map leaves what the object
// has contributed before; an empty one takes it back. It is called for each event of the object, and before all other handlers.
type IndexFunc[K comparable, V any] func(ctx context.Context, i *Indexing) (map[K]V, error)

// ProbeFunc tells something about the operator: a value for the answer of its endpoint, which has to be possible in JSON, or nil for none; or an
// error, if the operator is not well. It is called when the endpoint is asked, and the last answer of all probes is 10 seconds old; never
// twice at the same time. There is one attempt for an answer.
type ProbeFunc func(ctx context.Context, p *Probe) (any, error)

// Probe is what a [ProbeFunc] gets.
type Probe struct {
	// Settings are the operator's. They are not to be changed any more.
	Settings *Settings
	// Logger logs under the name of the activity.
	Logger *slog.Logger
	// Client talks to the API server with the operator's credentials.
	Client *Client
	// Indices are the operator's indices. [Index.Get] reads them with their types.
	Indices Indices
	// Param is the Param option of the handler.
	Param any

	memo *Memo
}

func (p *Probe) indexes() Indices { return p.Indices }

// Memo returns the operator's memo, from which the memos of objects are copied.
func (p *Probe) Memo() *Memo { return p.memo }

// AdmissionFunc decides about an operation before it happens, and may change the object of it. A nil error admits the operation; any error
// denies it, with the error's text, and with the code of [Deny] if there is one. There are no further attempts. The context
// ends a little before the API server stops waiting.
type AdmissionFunc func(ctx context.Context, a *Admission) error

// Admission is what handlers of admission get. Body is the object as it is going to be, or as it was if it is being deleted. It may have no
// name yet, and no uid. The Patch of a mutating handler is made to the object before it is stored; that of a validating one is dropped.
// Retry is always 0: a review has one attempt.
type Admission struct {
	Object
	Attempt
	// Operation is what is about to happen.
	Operation Operation
	// Subresource is the part of the object that the operation is about, such as "status" or "scale", "" for the object itself.
	Subresource string
	// DryRun tells that nothing will be stored, so that nothing that lasts must be done elsewhere either.
	DryRun bool
	// UserInfo is who asks for the operation, as the API server tells it: username, uid, groups and extra.
	UserInfo View
	// Old and New are the object before and after the operation, metadata and all; empty if there is none. They are not
	// narrowed to the Field of the handler.
	Old, New View
	// Request is the request of the API server with its headers and its certificate, which say nothing about the user.
	Request *ReviewRequest

	warnings *[]string
}

// Warn tells the user something, whether the operation is denied or not: kubectl prints it. API servers cut warnings of more than 256 characters;
// such are cut at a word.
func (a *Admission) Warn(text string) {
	if a.warnings != nil {
		*a.warnings = append(*a.warnings, cut.Words(text, maxWarning))
	}
}

// Diff returns the differences from Old to New, those of the metadata too.
func (a *Admission) Diff() Diff { return diffRaw(a.Old.raw, a.New.raw) }

// DaemonFunc runs alongside the handlers of an object, as long as the object exists and matches: it is called when the
// object is first seen, on a goroutine of its own, and asked to stop by its context and by Daemon.Stopping. When
// it returns nil or fails permanently, it is not called again for this object; after other errors it is,
// as handlers of changes are. What it has put into the Patch is sent when it returns.
type DaemonFunc func(ctx context.Context, d *Daemon) error

// TimerFunc is called again and again, as long as the object exists and matches, and never twice at the same time for
// one object. After a nil error it is called in the next interval, after a [Permanent] one not before the object has changed, and after others as handlers of
// changes are. The context ends when it is asked to stop, and at the Timeout. What it has put into the Patch is sent when it returns.
type TimerFunc func(ctx context.Context, t *Timer) error

// Daemon is what daemons get.
type Daemon struct {
	Object
	Attempt

	stopper *stopper.Stopper
	call    callContext
	resulting
}

// Stopping returns a channel that is closed when the daemon is asked to stop: with a CancellationBackoff, its context ends that much later.
func (d *Daemon) Stopping() <-chan struct{} { return d.stopper.Stopping() }

// StopReason returns why the daemon is asked to stop, and "" while it is not. If there are several reasons, it is the most final one.
func (d *Daemon) StopReason() StopReason { return d.call.reason(d.stopper) }

// Sleep waits between two runs of a loop, and reports whether there is to be another one: it returns false as soon as the daemon is asked to stop,
// and at its Timeout.
func (d *Daemon) Sleep(duration time.Duration) bool { return d.stopper.Sleep(duration, d.call.over()) }

// SetResult stores a value in the object's status, under the daemon's id, when the call succeeds. See [Change.SetResult].
func (d *Daemon) SetResult(value any) { d.resulting.set(value) }

// Timer is what timers get.
type Timer struct {
	Object
	Attempt

	stopper *stopper.Stopper
	call    callContext
	resulting
}

// Stopping returns a channel that is closed when the timer is asked to stop. Its context ends at the same time.
func (t *Timer) Stopping() <-chan struct{} { return t.stopper.Stopping() }

// StopReason returns why the timer is asked to stop, and "" while it is not. If there are several reasons, it is the most final one.
func (t *Timer) StopReason() StopReason { return t.call.reason(t.stopper) }

// SetResult stores a value in the object's status, under the timer's id, when the call succeeds. See [Change.SetResult].
func (t *Timer) SetResult(value any) { t.resulting.set(value) }

// ReconcileFunc makes things as the object wants them. It is called when the object or what belongs to it has changed, and never twice at the same time for one object. It should look at
// what there is, and not at why it was called. What it has put into the Patch is sent when it returns, also if it has failed. After an error it is called again, after growing
// pauses; after a [Permanent] one not before something has changed. The context ends when the object is deleted, with the cause [ErrSuperseded], and at the Timeout.
type ReconcileFunc func(ctx context.Context, r *Reconcile) error

// Reconcile is what reconcile handlers get.
type Reconcile struct {
	Object
	// Attempt is about the calls since the last success: Retry is how many have failed.
	Attempt
	// Triggers are the reasons of the call, for logs: what is to be done must not depend on them. There are at most a few of a kind.
	Triggers []Trigger

	requeueAfter time.Duration // negative for never
	desired      children      // nil in an argument that was made by hand
}

// RequeueAfter has the handler called again after some time, also if it fails. Of several times, the shortest counts. The next call, for whatever reason, forgets it. A
// duration that is not positive, as one until a time that has passed, means a second, so that the handler is not called without a pause.
func (r *Reconcile) RequeueAfter(after time.Duration) {
	if after <= 0 {
		after = minRetryDelay
	}
	if r.requeueAfter < 0 || after < r.requeueAfter {
		r.requeueAfter = after
	}
}

// SetCondition sets a condition of the object, as [Patch.SetCondition] does with the Patch.
func (r *Reconcile) SetCondition(c Condition) { r.Patch.SetCondition(c) }

// Trigger is a reason for which a reconcile handler is called.
type Trigger struct {
	// Reason is what has happened.
	Reason TriggerReason
	// Object is the child or the watched object that has changed; empty for other reasons.
	Object ObjectReference
}

// String returns the reason, with the object if there is one.
func (t Trigger) String() string {
	if t.Object == (ObjectReference{}) {
		return string(t.Reason)
	}
	return string(t.Reason) + " " + t.Object.String()
}

// TriggerReason is what has happened for a reconcile handler to be called.
type TriggerReason string

const (
	// TriggerFirst is that the object is seen first, by this process or since a pause, or matches the filters now, or that a kind is there now that the handler owns or watches.
	TriggerFirst TriggerReason = "First"
	// TriggerChanged is that the object has changed.
	TriggerChanged TriggerReason = "Changed"
	// TriggerChild is that a child has changed, is gone, or is not one any more.
	TriggerChild TriggerReason = "Child"
	// TriggerWatched is that an object of the Watches has changed.
	TriggerWatched TriggerReason = "Watched"
	// TriggerSource is that a [Source] was triggered.
	TriggerSource TriggerReason = "Source"
	// TriggerRequeue is that the time of RequeueAfter has come.
	TriggerRequeue TriggerReason = "Requeue"
	// TriggerRetry is that the pause after an error is over.
	TriggerRetry TriggerReason = "Retry"
	// TriggerResync is that the time of the option Resync has come.
	TriggerResync TriggerReason = "Resync"
)

// Watched is what the option Objects of a [Watch] gets: an object that has changed. The Patch and the Client are none.
type Watched struct{ Object }
