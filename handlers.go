package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/stopper"
)

// ChangeFunc is a change handler. kopf calls it when an object is created, updated, deleted or resumed, or when one field changes. kopf serializes the
// calls for one object, and calls handlers of different objects concurrently.
//
// A nil error means success. After a [Temporary] error, kopf retries after its delay. After a [Permanent] error, it does not retry. The Errors option
// decides about any other error: by default, kopf retries after the Backoff. A panic counts as such an error.
//
// kopf cancels the context at the handler's Timeout, and at shutdown after [QueueingSettings.ExitTimeout]. If the handler is Interruptible, kopf also
// cancels it when the object is deleted or its tracked fields change.
type ChangeFunc func(ctx context.Context, c *Change) error

// EventFunc is an event handler. kopf calls it once for each watch event of an object, in order. It logs the error, and does not retry.
type EventFunc func(ctx context.Context, e *WatchEvent) error

// ActivityFunc is a handler of an activity of the operator: start-up, clean-up, or the start or end of leading.
type ActivityFunc func(ctx context.Context, a *Activity) error

// LoginFunc returns how to reach the API server. It returns nil without an error if it has no credentials, and kopf then uses the other login handlers. An
// error means that kopf retries as the options of the handler allow.
type LoginFunc func(ctx context.Context, l *Login) (*ConnectionInfo, error)

// Object is the part that the arguments of all handlers of objects have in common. It is embedded in [Change], [WatchEvent], [Daemon], [Timer],
// [Indexing], [Admission] and [Reconcile].
type Object struct {
	// Resource is the resource of the object, as the API server describes it.
	Resource Resource
	// Body is the object as kopf received it, read-only.
	Body *Body
	// Patch collects changes to the object, which kopf sends after the handler.
	Patch *Patch
	// Logger adds the reference of the object to each line.
	Logger *slog.Logger
	// Client sends requests to the API server with the operator's credentials.
	Client *Client
	// Indices are the operator's indices by their IDs. Use [Index.Get] to read them with their types.
	Indices Indices
	// Param is the Param option of the handler.
	Param any

	memory *memory
	fence  uint64                // of the term in which the handler was called; 0 without one
	events eventRecorder         // nil in a hand-made object
	live   *atomic.Pointer[Body] // the newest state, for handlers during whose calls it changes

	answers answers // of the filters, while kopf decides about the object; nil if they are not kept
}

// Latest returns the newest known state of the object. For daemons and timers, it follows the watch events during the call, and so do Spec, Status, Meta,
// Labels, Annotations and Decode. Body is the state when the call started. For all other handlers, Latest returns Body.
func (o *Object) Latest() *Body {
	if o.live != nil {
		return o.live.Load()
	}
	return o.Body
}

// Name returns the name of the object.
func (o *Object) Name() string { return o.Body.Name() }

// Namespace returns the namespace of the object, or "" if it is cluster-scoped.
func (o *Object) Namespace() string { return o.Body.Namespace() }

// UID returns the UID of the object.
func (o *Object) UID() string { return o.Body.UID() }

// Meta returns the metadata of the object.
func (o *Object) Meta() View { return o.Latest().Metadata() }

// Spec returns the spec of the object, empty if it has none.
func (o *Object) Spec() View { return o.Latest().Spec() }

// Status returns the status of the object, empty if it has none.
func (o *Object) Status() View { return o.Latest().Status() }

// Labels returns a copy of the labels of the object, never nil.
func (o *Object) Labels() map[string]string { return o.Latest().Labels() }

// Annotations returns a copy of the annotations of the object, never nil.
func (o *Object) Annotations() map[string]string { return o.Latest().Annotations() }

// Decode stores the object in the value that v points to, as [Body.Decode] does. It returns an error if a field has another type.
func (o *Object) Decode(v any) error { return o.Latest().Decode(v) }

// Memo returns the memo of the object, which keeps values in memory while the operator runs. Call it in the handler, and pass the [*Memo] to goroutines
// that outlive the handler: kopf keeps the memo of an idle object only if a handler has called Memo.
func (o *Object) Memo() *Memo {
	if o.memory == nil { // in a hand-made object
		o.memory = &memory{}
	}
	return o.memory.get()
}

func (o *Object) indexes() Indices { return o.Indices }

// WatchEvent is the argument of event handlers.
type WatchEvent struct {
	Object
	// Type is the type of the event, [Listed] for objects that existed before the operator started.
	Type EventType
}

// Change is the argument of change handlers, of their sub-handlers, and of their filters.
type Change struct {
	Object
	Attempt
	// Reason is the cause of the change. [OnResume] handlers get [ReasonResume], and [ReasonUpdate] or [ReasonDelete] if that happened while the operator was
	// down. [OnField] handlers get [ReasonCreate], [ReasonUpdate] or [ReasonDelete], and with an empty field also [ReasonResume].
	Reason Reason
	// Old and New are the tracked fields of the object as it was last handled and as it is now. For a handler with a Field, they are the old and new value of
	// the field. Old is empty on creation.
	Old, New View

	resulting
	handler *handler
	diff    func() Diff
	subs    subhandling
}

// resulting holds the result of a handler.
type resulting struct {
	result any
	err    error // of a result that is not JSON
}

func (r *resulting) set(value any, patch *Patch) {
	if r.result, _, r.err = patch.normalize(value, "result"); r.err != nil {
		r.err = Permanent(fmt.Errorf("the result: %w", r.err)) // the next attempt would return the same type
	}
	rawjson.PruneLists(r.result) // as the API server does for results that Kopf for Python sends
}

// check returns a permanent error for a result that cannot be stored under the handler's ID.
func (r *resulting) check(id HandlerID) error {
	_, isList := r.result.([]any)
	if id == "conditions" && r.result != nil && !isList && r.err == nil {
		return Permanent(errors.New("the result would replace status.conditions, the list of the object's conditions: give the handler another ID"))
	}
	return r.err
}

// Subhandler registers a sub-handler of the running handler. kopf calls it after the running handler has returned, or in [Change.Execute]. Its ID is the
// ID of the running handler, a slash, and the given ID. kopf does not call a sub-handler again after a success.
//
// While a sub-handler is unfinished, kopf calls the running handler again, which must register the same sub-handlers. Subhandler panics if an option is
// invalid, if the ID is taken, and if the handler has returned.
func (c *Change) Subhandler(id HandlerID, fn ChangeFunc, opts *ChangeOptions) {
	if c.subs == nil {
		panic("kopf: a sub-handler can be registered only by a handler of changes while it runs")
	}
	c.subs.register(id, fn, opts, c.Reason)
}

// Execute runs the sub-handlers that are registered so far, without waiting for the handler's return. It returns an error if some of them are unfinished,
// and the handler must return that error.
func (c *Change) Execute(ctx context.Context) error {
	if c.subs == nil {
		return errors.New("sub-handlers can be executed only by a handler of changes while it runs")
	}
	return c.subs.execute(ctx)
}

// Diff returns the differences between Old and New.
func (c *Change) Diff() Diff {
	if c.diff == nil {
		return nil
	}
	return c.diff()
}

// SetResult stores a value in the status of the object, under the handler's ID, when the handler succeeds. A map is merged with the current value. Other
// values replace it. Nil discards a result set earlier in this call. A value that encoding/json cannot encode fails the handler,
// as does a value other than a list under the ID "conditions", which is the list of the object's conditions.
// As in Kopf for Python, a null member of a map in a list is not stored.
func (c *Change) SetResult(value any) { c.resulting.set(value, c.Patch) }

// Activity is the argument of start-up, clean-up and leading handlers.
type Activity struct {
	Attempt
	// Settings are the settings of the operator. Start-up handlers can change them.
	Settings *Settings
	// Logger adds the name of the activity to each line.
	Logger *slog.Logger
	// Client sends requests to the API server. In start-up handlers, it logs in at its first use, with the networking settings of that moment.
	Client *Client
	// Indices are the operator's indices by their IDs, empty in start-up handlers. Use [Index.Get] to read them with their types.
	Indices Indices
	// Param is the Param option of the handler.
	Param any

	fence uint64 // of the term in which the handler was called; 0 without one
	memo  *Memo
}

func (a *Activity) indexes() Indices { return a.Indices }

// Memo returns the operator's memo, from which kopf copies the memos of objects.
func (a *Activity) Memo() *Memo { return a.memo }

// MemoOf returns the memo of an object or of the operator as a struct of your type. At first, the struct is the zero T, or a copy of the T in the
// operator's memo. The pointer is the same in each call for one object. T itself must be safe for concurrent use if daemons or timers share it with other
// handlers.
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

// Memo keeps values for an object or for the operator, in memory only. The memo of an object starts as a copy of the operator's memo, made when kopf first
// sees the object. The copies share values behind pointers. A Memo is safe for concurrent use.
type Memo struct {
	mu     sync.Mutex // guards values
	values map[any]any
}

// Load returns the value for a key, and reports whether it exists.
func (m *Memo) Load(key any) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, ok
}

// Store sets the value for a key.
func (m *Memo) Store(key, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = make(map[any]any)
	}
	m.values[key] = value
}

// Delete removes the value for a key.
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

// HandlerID names a handler. kopf stores it on the objects, so renaming a handler loses the progress of objects that kopf is handling at that moment.
type HandlerID string

// Reason is the cause of a change, for which kopf calls change handlers.
type Reason string

// The reasons of changes.
const (
	ReasonCreate Reason = "create" // the object was never handled before
	ReasonUpdate Reason = "update" // it differs from its last-handled configuration
	ReasonDelete Reason = "delete" // it is marked for deletion, and a finalizer blocks the deletion
	ReasonResume Reason = "resume" // it existed before the operator started, and has not changed since it was last handled
)

// reasonNoop means that no tracked field has changed, so that no handler is called.
const reasonNoop = Reason(decision.Noop)

// Attempt describes the current attempt of a handler that kopf retries after errors.
type Attempt struct {
	// Retry is the number of earlier attempts, 0 in the first attempt.
	Retry int
	// Started is the time when the first attempt was due.
	Started time.Time
	// Runtime is the time since Started.
	Runtime time.Duration
}

// Indexing is the argument of index functions. kopf does not send their Patch.
type Indexing struct {
	Object
	Attempt
}

// HandlerArgument is the argument of any handler. It refers to the operator of the call.
type HandlerArgument interface {
	// Memo returns the memo of the object, or of the operator if there is no object.
	Memo() *Memo
	indexes() Indices
}

// IndexFunc returns the values of an object in an index, by their keys. A nil map keeps the object's former values, and an empty map removes them. A key
// that does not equal itself, such as NaN, counts as an error of the function. kopf calls it for each watch event of the object, before all other handlers.
type IndexFunc[K comparable, V any] func(ctx context.Context, i *Indexing) (map[K]V, error)

// ProbeFunc reports the health of the operator. It returns a value for the response of the endpoint, which encoding/json must be able to encode, or nil
// for none. It returns an error if the operator is not healthy.
//
// kopf calls it for a request to the endpoint if the last result of all probes is more than 10 seconds old, and never concurrently. It makes one attempt.
type ProbeFunc func(ctx context.Context, p *Probe) (any, error)

// Probe is the argument of a [ProbeFunc].
type Probe struct {
	// Settings are the settings of the operator. Probes must not change them.
	Settings *Settings
	// Logger adds the name of the activity to each line.
	Logger *slog.Logger
	// Client sends requests to the API server with the operator's credentials.
	Client *Client
	// Indices are the operator's indices by their IDs. Use [Index.Get] to read them with their types.
	Indices Indices
	// Param is the Param option of the handler.
	Param any

	memo *Memo
}

func (p *Probe) indexes() Indices { return p.Indices }

// Memo returns the operator's memo, from which kopf copies the memos of objects.
func (p *Probe) Memo() *Memo { return p.memo }

// AdmissionFunc is an admission handler. A nil error admits the operation. Any other error denies it, with the text of the error, and with the code of
// [Deny] if there is one. kopf makes one attempt. It cancels the context a little before the API server stops waiting.
type AdmissionFunc func(ctx context.Context, a *Admission) error

// Admission is the argument of admission handlers. Body is the object as it will be stored, or as it was before a deletion. It may have no name and no UID
// yet. For a connection, it is the options of the request, such as a PodExecOptions. If the object has no metadata, Name and Namespace are those of the
// request. The API server applies the Patch of a mutating handler before it stores the object. kopf drops the Patch of a validating one. Retry is always 0,
// because a review has one attempt.
type Admission struct {
	Object
	Attempt
	// Operation is the operation that the API server reviews.
	Operation Operation
	// Subresource is the affected subresource, such as "status" or "scale". It is "" for the object itself.
	Subresource string
	// DryRun reports whether the API server will store nothing. The handler must then make no lasting changes elsewhere.
	DryRun bool
	// UserInfo is the user of the operation: username, uid, groups and extra.
	UserInfo View
	// Old and New are the whole objects before and after the operation, with their metadata, or empty if there is none. They are not limited to the Field of
	// the handler.
	Old, New View
	// Request is the HTTP request with its headers and its client certificate. It comes from the API server, not from the user.
	Request *ReviewRequest

	former   *Body // the old object, if there is a new one; nil otherwise
	warnings *[]string
}

// Warn adds a warning for the user, whether or not the operation is denied. kubectl prints it. API servers drop warnings with control characters or invalid
// UTF-8, so kopf replaces line ends, tabs and other control characters by spaces, and invalid bytes by U+FFFD. An empty text adds nothing. kopf cuts warnings
// of more than 256 characters at a word, because API servers cut them. They send about 4096 characters of warnings in a response.
func (a *Admission) Warn(text string) {
	if text = cut.Words(oneLine(text), maxWarning); a.warnings != nil && text != "" {
		*a.warnings = append(*a.warnings, text)
	}
}

// oneLine returns a text without control characters. A space replaces each group of them.
func oneLine(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	return strings.TrimSpace(strings.Join(strings.FieldsFunc(text, unicode.IsControl), " "))
}

// Diff returns the differences between Old and New, including those of the metadata.
func (a *Admission) Diff() Diff { return diffRaw(a.Old.raw, a.New.raw) }

// DaemonFunc is a daemon. kopf calls it on a goroutine of its own when it first sees the object, and runs it alongside other handlers as long as the
// object exists and matches. To stop it, kopf closes the channel of [Daemon.Stopping] and cancels the context.
//
// After a nil or [Permanent] error, kopf does not call it again for this object. After other errors, kopf retries as for change handlers. It sends the
// Patch when the function returns.
type DaemonFunc func(ctx context.Context, d *Daemon) error

// TimerFunc is a timer. kopf calls it periodically as long as the object exists and matches, and never concurrently for one object. It sends the Patch
// when the function returns.
//
// After a nil error, the next call follows after the interval. After a [Permanent] error, it follows when the object has changed. After other errors, kopf
// retries as for change handlers. kopf cancels the context when the timer must stop, and at the Timeout.
type TimerFunc func(ctx context.Context, t *Timer) error

// Daemon is the argument of daemons.
type Daemon struct {
	Object
	Attempt

	stopper *stopper.Stopper
	call    callContext
	resulting
}

// Stopping returns a channel that kopf closes when the daemon must stop. With a CancellationBackoff, kopf cancels the context that much later.
func (d *Daemon) Stopping() <-chan struct{} { return d.stopper.Stopping() }

// StopReason returns the reason for which the daemon must stop, or "" while it may run. If there are several reasons, it returns the most final one.
func (d *Daemon) StopReason() StopReason { return d.call.reason(d.stopper) }

// Sleep waits between two runs of a loop, and reports whether the daemon may continue. It returns false as soon as the daemon must stop, and at its
// Timeout.
func (d *Daemon) Sleep(duration time.Duration) bool { return d.stopper.Sleep(duration, d.call.over()) }

// SetResult stores a value in the status of the object, under the daemon's ID, when the call succeeds. See [Change.SetResult].
func (d *Daemon) SetResult(value any) { d.resulting.set(value, d.Patch) }

// Timer is the argument of timers.
type Timer struct {
	Object
	Attempt

	stopper *stopper.Stopper
	call    callContext
	resulting
}

// Stopping returns a channel that kopf closes when the timer must stop. kopf cancels the context at the same time.
func (t *Timer) Stopping() <-chan struct{} { return t.stopper.Stopping() }

// StopReason returns the reason for which the timer must stop, or "" while it may run. If there are several reasons, it returns the most final one.
func (t *Timer) StopReason() StopReason { return t.call.reason(t.stopper) }

// SetResult stores a value in the status of the object, under the timer's ID, when the call succeeds. See [Change.SetResult].
func (t *Timer) SetResult(value any) { t.resulting.set(value, t.Patch) }

// ReconcileFunc is a reconcile handler, which makes the actual state match the desired state. kopf calls it when the object or one of its children has
// changed, and never concurrently for one object. It should look at the current state, not at the reason of the call.
//
// kopf sends the Patch when the function returns, also after an error. After an error, kopf calls it again with exponential backoff. After a [Permanent]
// error, kopf waits until something has changed. kopf cancels the context when the object is deleted, with the cause [ErrSuperseded], and at the Timeout.
type ReconcileFunc func(ctx context.Context, r *Reconcile) error

// Reconcile is the argument of reconcile handlers.
type Reconcile struct {
	Object
	// Attempt counts the calls since the last success: Retry is the number of failed ones.
	Attempt
	// Triggers are the reasons of the call, at most a few of each kind. Use them for logs only.
	Triggers []Trigger

	requeueAfter time.Duration // negative for never
	desired      children      // nil in a hand-made argument
	spec         *specRecord   // nil in a hand-made argument
	resulting
}

// RequeueAfter makes kopf call the handler again after some time, also if it fails. The shortest of several times counts. The next call for any reason
// cancels it. A zero or negative duration means one second, to prevent a hot loop.
func (r *Reconcile) RequeueAfter(after time.Duration) {
	if after <= 0 {
		after = minRetryDelay
	}
	if r.requeueAfter < 0 || after < r.requeueAfter {
		r.requeueAfter = after
	}
}

// SpecChanged reports whether the spec is another one than in the last successful call that has also
// asked this. Use it before you change something outside of the cluster, which a call for a child, a
// watched object, a Resync or a restart should not repeat. It is true if there was no such call for
// the object yet, and in a hand-made argument.
//
// kopf stores a digest of the spec on the object when a call that has asked succeeds, unless it is
// stored already. All fields but the metadata and the status count as the spec, except for fields that
// are not tracked. A function literal needs an ID for that.
func (r *Reconcile) SpecChanged() bool { return r.spec == nil || r.spec.changed(r.Body) }

// SetCondition sets a condition of the object. See [Patch.SetCondition].
func (r *Reconcile) SetCondition(c Condition) { r.Patch.SetCondition(c) }

// SetResult stores a value in the status of the object, under the handler's ID, when the call succeeds. The same value causes no request. A function literal
// needs an ID for that. See [Change.SetResult].
func (r *Reconcile) SetResult(value any) { r.resulting.set(value, r.Patch) }

// Trigger is a reason for which kopf calls a reconcile handler.
type Trigger struct {
	// Reason is the type of the event.
	Reason TriggerReason
	// Object is the child or the watched object that has changed. It is empty for other reasons.
	Object ObjectReference
}

// String returns the reason, with the object if there is one.
func (t Trigger) String() string {
	if t.Object == (ObjectReference{}) {
		return string(t.Reason)
	}
	return string(t.Reason) + " " + t.Object.String()
}

// TriggerReason is the type of an event that triggers a reconcile handler.
type TriggerReason string

const (
	// TriggerFirst means that kopf sees the object for the first time in this process or since a pause, or that the object matches the filters now. It also
	// means that a kind now exists that the handler owns or watches.
	TriggerFirst TriggerReason = "First"
	// TriggerChanged means that the object has changed.
	TriggerChanged TriggerReason = "Changed"
	// TriggerChild means that a child has changed, is gone, or no longer belongs to the object.
	TriggerChild TriggerReason = "Child"
	// TriggerWatched means that an object of the Watches has changed.
	TriggerWatched TriggerReason = "Watched"
	// TriggerSource means that your code has triggered a [Source].
	TriggerSource TriggerReason = "Source"
	// TriggerRequeue means that the time of RequeueAfter is over.
	TriggerRequeue TriggerReason = "Requeue"
	// TriggerRetry means that the delay after an error is over.
	TriggerRetry TriggerReason = "Retry"
	// TriggerResync means that the time of the option Resync is over.
	TriggerResync TriggerReason = "Resync"
)

// Watched is the argument of the functions of a [Watch]: an object that has changed. It has no Patch and no Client.
type Watched struct{ Object }
