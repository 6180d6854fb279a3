package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/funcid"
	"github.com/kopf-go/kopf/internal/index"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/validation"
)

// This file is where handlers are registered: a function for each family, with its options. What
// is wrong with a registration is a programmer's error, told by a panic with the line of the call.
// The functions that register handlers of admission are declared with their engine, so that only operators with such handlers link it.

// ChangeOptions are the options of handlers of changes. Zero values mean the defaults.
type ChangeOptions struct {
	// ID names the handler; it is stored on the objects. Defaults to the name of the function. A slash and the path of
	// the Field are appended. The names of annotations that kopf stores itself, such as "handling-state", are reserved.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Labels and Annotations say which ones the object must have. Default to any.
	Labels, Annotations Match
	// When says whether the object is to be handled, by looking at all of it. Defaults to always.
	When func(*Change) bool
	// Field is the path of the field that the handler is about: it must be present, and of a handler of
	// updates it must have changed. The handler's Old, New and Diff are those of the field. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool.
	// In handlers of updates, either the new value or the old one must fit. Defaults to Present.
	Value any
	// Old and New are what the Field must have been and must have become, in the forms of Value. They belong to handlers of updates and
	// of fields, and cannot be combined with Value. Default to anything.
	Old, New any
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
	// Errors says what becomes of errors that are neither temporary nor permanent. Defaults to [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout limits the time from when the handler was first due, over all attempts and restarts of the operator. The wait for
	// [ExecutionSettings.MaxWorkers] before the first attempt does not count. The context of the running attempt ends with the
	// Timeout. Zero means no limit.
	Timeout time.Duration
	// Retries is the number of attempts. Zero means no limit.
	Retries int
	// Backoff is the pause after an error that is neither temporary nor permanent. Defaults to
	// [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
	// WithoutFinalizer makes OnDelete add no finalizer. The handler then runs only if something else delays the deletion: another handler that
	// needs the finalizer, or the finalizers of others. Defaults to false.
	WithoutFinalizer bool
	// IncludeDeleted makes OnResume call the handler also for objects that are being deleted. Defaults to false.
	IncludeDeleted bool
	// Interruptible ends the handler's context, with the cause [ErrSuperseded], when the object is deleted or its tracked fields
	// change. An attempt that returns the error of its context then does not count: kopf drops its Patch, and calls the handlers
	// of the new state. Defaults to false: the change waits until the handler has returned.
	Interruptible bool
}

// EventOptions are the options of handlers of raw events. Zero values mean the defaults.
type EventOptions struct {
	// ID names the handler in logs. Defaults to the name of the function. A slash and the path of the Field are appended.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Labels and Annotations say which ones the object must have. Default to any.
	Labels, Annotations Match
	// When says whether the event is to be handled, by looking at all of it. Defaults to always.
	When func(*WatchEvent) bool
	// Field is the path of a field that must be present. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool.
	// Defaults to Present.
	Value any
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
}

// ActivityOptions are the options of handlers of the operator's own activities. Zero values mean the defaults.
type ActivityOptions struct {
	// ID names the handler in logs. Defaults to the name of the function.
	ID HandlerID
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
	// Errors says what becomes of errors that are neither temporary nor permanent. Defaults to [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout limits the time over all attempts, from the beginning of the activity. The context of the running attempt ends with the
	// Timeout. Zero means no limit.
	Timeout time.Duration
	// Retries is the number of attempts. Zero means no limit.
	Retries int
	// Backoff is the pause after an error that is neither temporary nor permanent. Defaults to
	// [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
}

// OnEvent registers a handler of raw events in the default registry. See [Registry.OnEvent].
func OnEvent(s Selector, fn EventFunc, opts *EventOptions) {
	must(kindEvent, DefaultRegistry().onEvent(s, fn, opts))
}

// OnCreate registers a handler of creations in the default registry. See [Registry.OnCreate].
func OnCreate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindCreate, DefaultRegistry().onChange(kindCreate, s, "", fn, opts))
}

// OnUpdate registers a handler of updates in the default registry. See [Registry.OnUpdate].
func OnUpdate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindUpdate, DefaultRegistry().onChange(kindUpdate, s, "", fn, opts))
}

// OnDelete registers a handler of deletions in the default registry. See [Registry.OnDelete].
func OnDelete(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindDelete, DefaultRegistry().onChange(kindDelete, s, "", fn, opts))
}

// OnResume registers a handler of resuming in the default registry. See [Registry.OnResume].
func OnResume(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindResume, DefaultRegistry().onChange(kindResume, s, "", fn, opts))
}

// OnField registers a handler of one field in the default registry. See [Registry.OnField].
func OnField(s Selector, field FieldPath, fn ChangeFunc, opts *ChangeOptions) {
	must(kindField, DefaultRegistry().onChange(kindField, s, field, fn, opts))
}

// OnStartup registers a handler of the operator's start in the default registry. See [Registry.OnStartup].
func OnStartup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartup, DefaultRegistry().onActivity(kindStartup, fn, nil, opts))
}

// OnCleanup registers a handler of the operator's end in the default registry. See [Registry.OnCleanup].
func OnCleanup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindCleanup, DefaultRegistry().onActivity(kindCleanup, fn, nil, opts))
}

// OnStartedLeading registers a handler that is called when this replica becomes the leader in the default registry. See [Registry.OnStartedLeading].
func OnStartedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartedLeading, DefaultRegistry().onActivity(kindStartedLeading, fn, nil, opts))
}

// OnStoppedLeading registers a handler that is called when this replica stops leading in the default registry. See [Registry.OnStoppedLeading].
func OnStoppedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStoppedLeading, DefaultRegistry().onActivity(kindStoppedLeading, fn, nil, opts))
}

// OnLogin registers a login in the default registry. See [Registry.OnLogin].
func OnLogin(fn LoginFunc, opts *ActivityOptions) {
	must(kindLogin, DefaultRegistry().onActivity(kindLogin, nil, fn, opts))
}

// OnEvent registers a handler that sees every event of the selected resources as it comes. It panics
// on a bad selector, bad options, or a conflict with another handler.
func (r *Registry) OnEvent(s Selector, fn EventFunc, opts *EventOptions) {
	must(kindEvent, r.onEvent(s, fn, opts))
}

// OnCreate registers a handler that is called when an object of the selected resources has appeared that was never
// handled before. It panics as [Registry.OnEvent] does.
func (r *Registry) OnCreate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindCreate, r.onChange(kindCreate, s, "", fn, opts))
}

// OnUpdate registers a handler that is called when an object of the selected resources differs from what was handled last.
// It panics as [Registry.OnEvent] does.
func (r *Registry) OnUpdate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindUpdate, r.onChange(kindUpdate, s, "", fn, opts))
}

// OnDelete registers a handler that is called when an object of the selected resources is marked for deletion. Objects are
// held by a finalizer until then, and until the handler is done, unless it is registered WithoutFinalizer. It panics as
// [Registry.OnEvent] does.
func (r *Registry) OnDelete(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindDelete, r.onChange(kindDelete, s, "", fn, opts))
}

// OnResume registers a handler that is called once for each object of the selected resources that was there before the
// operator has started. It panics as [Registry.OnEvent] does.
func (r *Registry) OnResume(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindResume, r.onChange(kindResume, s, "", fn, opts))
}

// OnField registers a handler that is called when a field has changed, appeared or vanished: in updates, on creations of
// objects with the field, and even on deletions if the field was changed with them. [Change.Reason] is which of these it is. An
// empty field means any change. It panics as [Registry.OnEvent] does.
func (r *Registry) OnField(s Selector, field FieldPath, fn ChangeFunc, opts *ChangeOptions) {
	must(kindField, r.onChange(kindField, s, field, fn, opts))
}

// OnStartup registers a handler that is called before the operator does anything else, such as logging
// in. It panics as [Registry.OnEvent] does.
func (r *Registry) OnStartup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartup, r.onActivity(kindStartup, fn, nil, opts))
}

// OnCleanup registers a handler that is called after the operator has done everything else. It panics as
// [Registry.OnEvent] does.
func (r *Registry) OnCleanup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindCleanup, r.onActivity(kindCleanup, fn, nil, opts))
}

// OnStartedLeading registers a handler that is called each time that this replica gets the Lease of [LeaderElectionSettings], before it handles any object. Objects
// wait until it has succeeded, while the replica holds the Lease. Its context ends when the Lease is lost. If it fails permanently, the operator ends. Without an election
// it is not called. It panics as [Registry.OnEvent] does.
func (r *Registry) OnStartedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartedLeading, r.onActivity(kindStartedLeading, fn, nil, opts))
}

// OnStoppedLeading registers a handler that is called when this replica has lost the Lease, and at the exit before it releases the Lease, after the clean-up handlers. It is
// called once each time that the replica has had the Lease, also if handlers of [Registry.OnStartedLeading] have failed, were cut off, or were not called any more: as with
// client-go, it must not assume that they have succeeded. None of them runs any more. After
// a loss, another replica may work already: the handler's Client changes nothing any more. It has 5 seconds. A process that dies
// does not call it, so nothing may depend on it. Its error is logged. It panics as [Registry.OnEvent] does.
func (r *Registry) OnStoppedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStoppedLeading, r.onActivity(kindStoppedLeading, fn, nil, opts))
}

// OnLogin registers a function that tells how to reach the API server, instead of the built-in logins. It is called at the
// start, and again when the server refuses what was told. It panics as [Registry.OnEvent] does.
func (r *Registry) OnLogin(fn LoginFunc, opts *ActivityOptions) {
	must(kindLogin, r.onActivity(kindLogin, nil, fn, opts))
}

// must panics with what is wrong and where.
func must(kind handlerKind, err error) {
	if err != nil {
		panic(fmt.Sprintf("kopf: %s at %s: %v", kindNames[kind], callSite(), err))
	}
}

// optionsOf returns a copy of options, which are the defaults if there are none.
func optionsOf[T any](options *T) (copied T) {
	if options != nil {
		copied = *options
	}
	return copied
}

// callSite returns the line outside of the package that has called it.
func callSite() string { return funcid.CallSite(reflect.TypeFor[handlerKind]().PkgPath()) }

func (r *Registry) onEvent(s Selector, fn EventFunc, opts *EventOptions) error {
	o := optionsOf(opts)
	spec, err := s.spec(o.Where)
	if err != nil {
		return err
	}
	h := &handler{kind: kindEvent, selector: spec, field: o.Field.Keys(), retry: retryPolicy{errors: ErrorsIgnored}, param: o.Param, event: fn}
	h.filters.whenEvent = o.When
	if err := h.identify(o.ID, fn); err != nil {
		return err
	}
	if err := h.filter(o.Labels, o.Annotations, o.Value, nil, nil); err != nil {
		return err
	}
	return r.add(h)
}

func (r *Registry) onChange(kind handlerKind, s Selector, field FieldPath, fn ChangeFunc, opts *ChangeOptions) error {
	o := optionsOf(opts)
	if kind != kindField {
		field = o.Field
	} else if o.Field != "" && o.Field != field {
		return fmt.Errorf("the handler has two fields, %q and %q", field, o.Field)
	}
	h, err := newChange(kind, s, field, fn, &o)
	if err != nil {
		return err
	}
	if slices.Contains(reservedIDs, h.id) { // no sub-handler has one of these: their ids have a slash
		return fmt.Errorf("the handler id %q is reserved for an annotation that kopf stores itself: give the handler another ID", h.id)
	}
	return r.add(h)
}

// reservedIDs are names of annotations, in which the progress of a handler would meet something else.
var reservedIDs = []HandlerID{handlingID, markers.LastHandled, trackedKey, formerKey, markers.Managed, defaultTouchKey, handledUIDKey}

// newChange makes a handler of changes of its options.
func newChange(kind handlerKind, s Selector, field FieldPath, fn ChangeFunc, o *ChangeOptions) (*handler, error) {
	h := &handler{
		kind: kind, field: field.Keys(), changes: changeSpec{change: fn, optional: o.WithoutFinalizer, deleted: o.IncludeDeleted, interruptible: o.Interruptible, needsChange: kind == kindUpdate || kind == kindField}, param: o.Param,
		retry: retryPolicy{errors: cmp.Or(o.Errors, ErrorsTemporary), timeout: o.Timeout, retries: o.Retries, backoff: o.Backoff},
	}
	h.filters.when = o.When
	var err error
	if kind != kindSub {
		if h.selector, err = s.spec(o.Where); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(h.checkLimits(), h.checkOptions(o)); err != nil {
		return nil, err
	}
	if err := h.identify(o.ID, fn); err != nil {
		return nil, err
	}
	return h, h.filter(o.Labels, o.Annotations, o.Value, o.Old, o.New)
}

func (r *Registry) onActivity(kind handlerKind, fn ActivityFunc, login LoginFunc, opts *ActivityOptions) error {
	o := optionsOf(opts)
	h := &handler{kind: kind, param: o.Param, retry: retryPolicy{errors: cmp.Or(o.Errors, ErrorsTemporary), timeout: o.Timeout, retries: o.Retries, backoff: o.Backoff}, activities: activitySpec{activity: fn, login: login}}
	if err := h.checkLimits(); err != nil {
		return err
	}
	var function any = fn
	if kind == kindLogin {
		function = login
	}
	if err := h.identify(o.ID, function); err != nil {
		return err
	}
	return r.add(h)
}

// checkLimits returns what is wrong with the numbers of the options, and with the field.
func (h *handler) checkLimits() error {
	switch {
	case slices.Contains(h.field, ""):
		return fmt.Errorf("the Field %q has an empty key; a dot is expected between two keys alone, as in \"spec.size\"", Path(h.field...))
	case h.retry.timeout < 0:
		return fmt.Errorf("the Timeout %s is negative; zero means no limit", h.retry.timeout)
	case h.retry.retries < 0:
		return fmt.Errorf("the number of Retries %d is negative; zero means no limit", h.retry.retries)
	case h.retry.backoff < 0:
		return fmt.Errorf("the Backoff %s is negative; zero means the default", h.retry.backoff)
	case h.retry.errors < 0 || h.retry.errors > ErrorsIgnored:
		return fmt.Errorf("the Errors mode %d is unknown", h.retry.errors)
	}
	return nil
}

// checkOptions returns which options mean nothing for a handler of this kind.
func (h *handler) checkOptions(o *ChangeOptions) error {
	name := kindNames[h.kind]
	switch {
	case o.WithoutFinalizer && h.kind != kindDelete:
		return fmt.Errorf("the option WithoutFinalizer belongs to OnDelete, not to %s", name)
	case o.IncludeDeleted && h.kind != kindResume:
		return fmt.Errorf("the option IncludeDeleted belongs to OnResume, not to %s", name)
	case (o.Old != nil || o.New != nil) && !h.changes.needsChange && h.kind != kindSub:
		return fmt.Errorf("the options Old and New belong to OnUpdate and OnField, not to %s", name)
	}
	return nil
}

// identify gives the handler its id: the option or the name of the function, with the field.
func (h *handler) identify(id HandlerID, fn any) error {
	if reflect.ValueOf(fn).IsNil() {
		return errors.New("the function is nil")
	}
	if unwrap := wrappedFunction.Load(); unwrap != nil {
		fn = (*unwrap)(fn)
	}
	h.registered.fn, h.registered.where = funcid.Of(fn), callSite()
	if id == "" {
		var err error
		id, err = h.functionID()
		if err != nil && h.transient() {
			h.name(HandlerID(funcid.Place(h.registered.fn.Code)))
			return nil
		}
		if err != nil {
			return err
		}
	}
	if len(h.field) > 0 && h.kind != kindSub && h.kind != kindIndex {
		id += HandlerID("/" + strings.Join(h.field, "."))
	}
	h.name(id)
	return checkID(id)
}

func (h *handler) name(id HandlerID) {
	h.id, h.changes.keys = id, annotationKeys("", string(id), nil, false)
}

// filter reads the criteria of the options.
func (h *handler) filter(labels, annotations Match, value, old, now any) (err error) {
	f := &h.filters
	if len(h.field) == 1 && h.field[0] == "metadata" {
		return errors.New("the field \"metadata\" as a whole changes with every patch: name the part that the handler is about, such as \"metadata.labels\"")
	}
	if len(h.field) == 0 && (value != nil || old != nil || now != nil) {
		return errors.New("the options Value, Old and New need a Field to look at")
	}
	if value != nil && (old != nil || now != nil) {
		return errors.New("the option Value cannot be combined with Old and New")
	}
	if f.labels, err = newMatch("label", labels); err != nil {
		return err
	}
	if f.annotations, err = newMatch("annotation", annotations); err != nil {
		return err
	}
	for _, c := range []struct {
		name   string
		option any
		into   **criterion
	}{{"Value", value, &f.value}, {"Old", old, &f.old}, {"New", now, &f.new}} {
		if *c.into, err = newCriterion(c.option); err != nil {
			return fmt.Errorf("the option %s: %w", c.name, err)
		}
	}
	return nil
}

// ProbeOptions are the options of probes. Zero values mean the defaults.
type ProbeOptions struct {
	// ID is the name of the value in the answer. Defaults to the name of the function.
	ID HandlerID
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
	// Timeout is the time for one call. One that takes longer has failed, and is not called again until it has returned. Defaults to 10 s.
	Timeout time.Duration
}

// OnProbe registers a probe of the operator in the default registry. See [Registry.OnProbe].
func OnProbe(fn ProbeFunc, opts *ProbeOptions) { must(kindProbe, DefaultRegistry().onProbe(fn, opts)) }

// OnProbe registers a function that tells how the operator is, for those who ask its [Operator.LivenessEndpoint]. It panics as
// [Registry.OnEvent] does.
func (r *Registry) OnProbe(fn ProbeFunc, opts *ProbeOptions) { must(kindProbe, r.onProbe(fn, opts)) }

func (r *Registry) onProbe(fn ProbeFunc, opts *ProbeOptions) error {
	o := optionsOf(opts)
	h := &handler{kind: kindProbe, param: o.Param, retry: retryPolicy{errors: ErrorsPermanent, timeout: o.Timeout}, activities: activitySpec{probe: fn}}
	if err := h.checkLimits(); err != nil {
		return err
	}
	if err := h.identify(o.ID, fn); err != nil {
		return err
	}
	return r.add(h)
}

// IndexOptions are the options of indices. Zero values mean the defaults.
type IndexOptions struct {
	// ID names the index. Several functions can fill one index if they have the same ID and return the same types. Defaults to the name of
	// the function.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Labels and Annotations say which ones the object must have. Default to any.
	Labels, Annotations Match
	// When says whether the object is to be indexed, by looking at all of it. Defaults to always.
	When func(*Indexing) bool
	// Field is the path of a field that must be present. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool.
	// Defaults to Present.
	Value any
	// Param is handed to the function as it is. Defaults to nil.
	Param any
	// Errors says what becomes of errors that are neither temporary nor permanent. Defaults to [ErrorsIgnored]: they are logged, and
	// what the object has contributed before stays. After the others it does not.
	Errors ErrorsMode
	// Timeout limits the time from the first attempt until a success, in memory only: a restart of the operator begins anew. The
	// context of the running attempt ends with the Timeout. Zero means no limit.
	Timeout time.Duration
	// Retries is the number of attempts until a success. Zero means no limit.
	Retries int
	// Backoff is the pause after an error in the mode [ErrorsTemporary]. Defaults to [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
}

// OnIndex registers an index in the default registry. See [OnIndexIn].
func OnIndex[K comparable, V any](s Selector, fn IndexFunc[K, V], opts *IndexOptions) *Index[K, V] {
	i, err := newIndex(DefaultRegistry(), s, fn, opts)
	must(kindIndex, err)
	return i
}

// OnIndexIn registers an index of the objects of the selected resources in a registry. It panics as [Registry.OnEvent]
// does, and if functions with other types fill the same index.
func OnIndexIn[K comparable, V any](g *Registry, s Selector, fn IndexFunc[K, V], opts *IndexOptions) *Index[K, V] {
	i, err := newIndex(g, s, fn, opts)
	must(kindIndex, err)
	return i
}

func newIndex[K comparable, V any](r *Registry, s Selector, fn IndexFunc[K, V], opts *IndexOptions) (*Index[K, V], error) {
	spec := &indexSpec{
		runner: newIndexer,
		types:  reflect.TypeFor[map[K]V](),
		fill:   func() index.Data { return &index.Values[K, V]{} },
		call: func(ctx context.Context, i *Indexing) (any, error) {
			values, err := fn(ctx, i)
			if values == nil {
				return nil, err
			}
			return values, err
		},
	}
	id, err := r.onIndex(s, fn, spec, opts)
	return &Index[K, V]{id: id}, err
}

func (r *Registry) onIndex(s Selector, fn any, spec *indexSpec, opts *IndexOptions) (HandlerID, error) {
	o := optionsOf(opts)
	h := &handler{
		kind: kindIndex, field: o.Field.Keys(), param: o.Param, indexing: spec,
		retry: retryPolicy{errors: cmp.Or(o.Errors, ErrorsIgnored), timeout: o.Timeout, retries: o.Retries, backoff: o.Backoff},
	}
	if when := o.When; when != nil {
		h.filters.whenObject = func(o *Object) bool { return when(&Indexing{Object: *o}) }
	}
	err := r.addObjectHandler(h, s, o.Where, o.ID, fn, o.Labels, o.Annotations, o.Value)
	return h.id, err
}

// Operation is what is about to happen to an object.
type Operation string

// The operations.
const (
	OperationCreate  Operation = "CREATE"  // a new object
	OperationUpdate  Operation = "UPDATE"  // a change of any kind, a patch as well
	OperationDelete  Operation = "DELETE"  // a deletion, or the mark for it
	OperationConnect Operation = "CONNECT" // a connection to it, such as an exec into a pod
)

// maxWarning is the longest warning that API servers pass on, in characters.
const maxWarning = 256

// AdmissionOptions are the options of handlers of admission. Zero values mean the defaults.
type AdmissionOptions struct {
	// ID names the handler; the API server asks for it by this id. Defaults to the name of the function. A slash and the path of the Field
	// are appended.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Operations are those that the handler is for. Nil means all of them for [OnValidate], and all except DELETE for [OnMutate].
	// To mutate deletions, list [OperationDelete] alone: next to other operations, it has no effect in mutating handlers.
	Operations []Operation
	// Subresource is the one that the handler is for, such as "status" or "scale"; "*" means the object itself and all of
	// its subresources. Defaults to the object itself alone.
	Subresource string
	// Persistent tells to leave the handler in the managed configuration when the operator stops: until it is back, the operations are
	// refused, or not looked at with IgnoreFailures. Defaults to false.
	Persistent bool
	// SideEffects tells that the handler does something that lasts, elsewhere, unless [Admission.DryRun]. Defaults to false.
	SideEffects bool
	// IgnoreFailures tells the API server to admit the operation when it gets no answer. Defaults to refuse it.
	IgnoreFailures bool
	// Timeout is how long the API server waits for the answer, up to 30 seconds; parts of a second are rounded up. The context of
	// the handler ends a little earlier. Defaults to 30 seconds.
	Timeout time.Duration
	// Labels and Annotations say which ones the object must have. Operations on others are admitted. Default to any.
	Labels, Annotations Match
	// When says whether the handler is to be called, by looking at all of the review. If it panics, the review fails. Defaults to always.
	When func(*Admission) bool
	// Field is the path of a field that must be present. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool.
	// Defaults to Present.
	Value any
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
}

// admissionOperator is the operator as admission sees it.
type admissionOperator interface {
	// serves reports whether the operator is for a namespace.
	serves(namespace string) bool
	// memoryOf returns what is remembered of an object, nil if nothing is.
	memoryOf(resource, key string) *memory
	ender
}

// OnValidate registers a validating handler in the default registry. See [Registry.OnValidate].
func OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, DefaultRegistry().onAdmission(kindValidate, s, fn, opts))
}

// OnMutate registers a mutating handler in the default registry. See [Registry.OnMutate].
func OnMutate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindMutate, DefaultRegistry().onAdmission(kindMutate, s, fn, opts))
}

// OnValidate registers a handler that admits or denies operations on objects of the selected resources before they happen. It needs
// Settings.Admission.Server. It panics as [Registry.OnEvent] does.
func (r *Registry) OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, r.onAdmission(kindValidate, s, fn, opts))
}

// OnMutate registers a handler that changes objects of the selected resources by its Patch before they are stored, and can deny
// operations, too. It needs Settings.Admission.Server. It panics as [Registry.OnEvent] does.
func (r *Registry) OnMutate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindMutate, r.onAdmission(kindMutate, s, fn, opts))
}

// maxReviewTime is the longest time that API servers wait for a review.
const maxReviewTime = 30 * time.Second

func (r *Registry) onAdmission(kind handlerKind, s Selector, fn AdmissionFunc, opts *AdmissionOptions) error {
	o := optionsOf(opts)
	h := &handler{kind: kind, field: o.Field.Keys(), param: o.Param, retry: retryPolicy{timeout: o.Timeout, errors: ErrorsPermanent}}
	rules := &admissionSpec{
		runner: newReviewServer, call: fn, subresource: o.Subresource, persistent: o.Persistent, sideEffects: o.SideEffects, ignoreFailures: o.IgnoreFailures, when: o.When,
	}
	h.admission = rules
	if h.retry.timeout > maxReviewTime {
		return fmt.Errorf("the Timeout %s is longer than API servers wait, which is %s", h.retry.timeout, maxReviewTime)
	}
	if !validation.IsName(o.Subresource, "-") && o.Subresource != "" && o.Subresource != "*" {
		return fmt.Errorf("the subresource %q is bad: a name such as \"status\", or \"*\", is expected", o.Subresource)
	}
	if err := rules.setOperations(o.Operations); err != nil {
		return err
	}
	return r.addObjectHandler(h, s, o.Where, o.ID, fn, o.Labels, o.Annotations, o.Value)
}

// coversOperation reports whether a handler is for an operation on a part of an object.
func (h *handler) coversOperation(op Operation, subresource string) bool {
	a := h.admission
	switch {
	case a.subresource != "*" && a.subresource != subresource:
		return false
	case op == OperationDelete && h.kind == kindMutate: // there is nothing to be changed, so that it must be meant
		return len(a.operations) == 1 && a.operations[0] == op
	}
	return a.operations == nil || slices.Contains(a.operations, op)
}

// fitsReview reports whether the filters of a handler fit. They may panic.
func (h *handler) fitsReview(a *Admission, why *mismatch) bool {
	c := &Change{Object: a.Object}
	c.New = View{raw: a.Body.raw}
	if !h.filters.fitsMeta(&a.Object, why) || !h.fitsValue(c, why) {
		return false
	}
	why.look(partWhen, "", nil, View{})
	return h.admission.when == nil || h.admission.when(a)
}
