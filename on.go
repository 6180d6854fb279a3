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

// This file registers handlers, with a function and options for each family. The functions for admission handlers are elsewhere, so that only operators with
// such handlers link the webhook server.

// ChangeOptions are the options of change handlers. Zero values mean the defaults.
type ChangeOptions struct {
	// ID names the handler. kopf stores the handler's progress and result on the objects under it. kopf appends a slash and the path of the Field. IDs of
	// annotations that kopf stores, such as "handling-state", are reserved. Default: the name of the function.
	ID HandlerID
	// Where narrows the selector to the resources for which the function returns true. Default: all resources.
	Where func(Resource) bool
	// Labels and Annotations are the labels and annotations that the object must have. Default: any.
	Labels, Annotations Match
	// When is a predicate for the object and the change. It must be fast and change nothing. Default: always true.
	When func(*Change) bool
	// Field is the path of the handler's field. The field must exist. For update handlers, it must have changed. The handler's Old, New and Diff are those of
	// the field. Default: none.
	Field FieldPath
	// Value is the required value of the Field: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool. For update handlers, the old or the
	// new value must match. Default: [Present].
	Value any
	// Old and New are the required old and new values of the Field, in the forms of Value. Only update and field handlers have them, and not together with
	// Value. Default: any.
	Old, New any
	// Param is a value of yours, which kopf passes to the handler. Default: nil.
	Param any
	// Errors decides about errors that are neither temporary nor permanent. Default: [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout is the limit for all attempts together, from when the handler was first due, including downtime of the operator. The wait for
	// [ExecutionSettings.MaxWorkers] before the first attempt does not count. The Timeout also cancels the context of a running attempt. Zero means no limit.
	Timeout time.Duration
	// Retries is the limit of attempts, including the first one. Zero means no limit.
	Retries int
	// Backoff is the delay after an error that is neither temporary nor permanent. Default: [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
	// WithoutFinalizer makes OnDelete not add a finalizer. The handler then runs only if something else delays the deletion: another handler that needs the
	// finalizer, or the finalizer of another client. Default: false.
	WithoutFinalizer bool
	// IncludeDeleted makes OnResume also call the handler for objects that are being deleted. Default: false.
	IncludeDeleted bool
	// Interruptible cancels the handler's context, with the cause [ErrSuperseded], when the object is deleted or its tracked fields change. An attempt that
	// returns the error of its context then does not count: kopf drops its Patch, and calls the handlers for the new state. Default: false, so that changes
	// wait until the handler has returned.
	Interruptible bool
}

// EventOptions are the options of event handlers. Zero values mean the defaults.
type EventOptions struct {
	// ID names the handler in logs. kopf appends a slash and the path of the Field. Default: the name of the function.
	ID HandlerID
	// Where narrows the selector to the resources for which the function returns true. Default: all resources.
	Where func(Resource) bool
	// Labels and Annotations are the labels and annotations that the object must have. Default: any.
	Labels, Annotations Match
	// When is a predicate for the object and the event. It must be fast and change nothing. Default: always true.
	When func(*WatchEvent) bool
	// Field is the path of a field that must exist. Default: none.
	Field FieldPath
	// Value is the required value of the Field: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool. Default: [Present].
	Value any
	// Param is a value of yours, which kopf passes to the handler. Default: nil.
	Param any
}

// ActivityOptions are the options of start-up, clean-up, leading and login handlers. Zero values mean the defaults.
type ActivityOptions struct {
	// ID names the handler in logs. Default: the name of the function.
	ID HandlerID
	// Param is a value of yours, which kopf passes to the handler. Default: nil.
	Param any
	// Errors decides about errors that are neither temporary nor permanent. Default: [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout is the limit for all attempts together, from the start of the activity. It also cancels the context of a running attempt. Zero means no limit.
	Timeout time.Duration
	// Retries is the limit of attempts, including the first one. Zero means no limit.
	Retries int
	// Backoff is the delay after an error that is neither temporary nor permanent. Default: [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
}

// OnEvent registers an event handler in the default registry. See [Registry.OnEvent].
func OnEvent(s Selector, fn EventFunc, opts *EventOptions) {
	must(kindEvent, DefaultRegistry().onEvent(s, fn, opts))
}

// OnCreate registers a create handler in the default registry. See [Registry.OnCreate].
func OnCreate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindCreate, DefaultRegistry().onChange(kindCreate, s, "", fn, opts))
}

// OnUpdate registers an update handler in the default registry. See [Registry.OnUpdate].
func OnUpdate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindUpdate, DefaultRegistry().onChange(kindUpdate, s, "", fn, opts))
}

// OnDelete registers a delete handler in the default registry. See [Registry.OnDelete].
func OnDelete(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindDelete, DefaultRegistry().onChange(kindDelete, s, "", fn, opts))
}

// OnResume registers a resume handler in the default registry. See [Registry.OnResume].
func OnResume(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindResume, DefaultRegistry().onChange(kindResume, s, "", fn, opts))
}

// OnField registers a handler of one field in the default registry. See [Registry.OnField].
func OnField(s Selector, field FieldPath, fn ChangeFunc, opts *ChangeOptions) {
	must(kindField, DefaultRegistry().onChange(kindField, s, field, fn, opts))
}

// OnStartup registers a start-up handler in the default registry. See [Registry.OnStartup].
func OnStartup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartup, DefaultRegistry().onActivity(kindStartup, fn, nil, opts))
}

// OnCleanup registers a clean-up handler in the default registry. See [Registry.OnCleanup].
func OnCleanup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindCleanup, DefaultRegistry().onActivity(kindCleanup, fn, nil, opts))
}

// OnStartedLeading registers in the default registry a handler that kopf calls when this replica becomes the leader. See [Registry.OnStartedLeading].
func OnStartedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartedLeading, DefaultRegistry().onActivity(kindStartedLeading, fn, nil, opts))
}

// OnStoppedLeading registers in the default registry a handler that kopf calls when this replica stops leading. See [Registry.OnStoppedLeading].
func OnStoppedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStoppedLeading, DefaultRegistry().onActivity(kindStoppedLeading, fn, nil, opts))
}

// OnLogin registers a login handler in the default registry. See [Registry.OnLogin].
func OnLogin(fn LoginFunc, opts *ActivityOptions) {
	must(kindLogin, DefaultRegistry().onActivity(kindLogin, nil, fn, opts))
}

// OnEvent registers a handler that kopf calls for each watch event of the selected resources, in order. It panics if the selector or an option is invalid,
// or if the handler conflicts with another one. The panic names the line of the call.
func (r *Registry) OnEvent(s Selector, fn EventFunc, opts *EventOptions) {
	must(kindEvent, r.onEvent(s, fn, opts))
}

// OnCreate registers a handler that kopf calls when it sees an object of the selected resources for the first time. It panics as [Registry.OnEvent] does.
func (r *Registry) OnCreate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindCreate, r.onChange(kindCreate, s, "", fn, opts))
}

// OnUpdate registers a handler that kopf calls when an object of the selected resources differs from its last-handled configuration. It panics as
// [Registry.OnEvent] does.
func (r *Registry) OnUpdate(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindUpdate, r.onChange(kindUpdate, s, "", fn, opts))
}

// OnDelete registers a handler that kopf calls when an object of the selected resources is marked for deletion. A finalizer blocks the deletion until the
// handler has finished, unless WithoutFinalizer is set. It panics as [Registry.OnEvent] does.
func (r *Registry) OnDelete(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindDelete, r.onChange(kindDelete, s, "", fn, opts))
}

// OnResume registers a handler that kopf calls once for each object of the selected resources that existed before the operator started. It panics as
// [Registry.OnEvent] does.
func (r *Registry) OnResume(s Selector, fn ChangeFunc, opts *ChangeOptions) {
	must(kindResume, r.onChange(kindResume, s, "", fn, opts))
}

// OnField registers a handler that kopf calls when a field has changed, appeared or disappeared. That includes creations of objects with the field, and
// deletions together with which the field has changed. [Change.Reason] distinguishes them. An empty field means any change. It panics as
// [Registry.OnEvent] does.
func (r *Registry) OnField(s Selector, field FieldPath, fn ChangeFunc, opts *ChangeOptions) {
	must(kindField, r.onChange(kindField, s, field, fn, opts))
}

// OnStartup registers a handler that kopf calls before it does anything else, such as logging in. It panics as [Registry.OnEvent] does.
//
// The function can register handlers, also start-up handlers, and define kinds. They belong to the run, and kopf drops those of a failed attempt. Operators
// that run with one registry at the same time call their start-up handlers one after another.
func (r *Registry) OnStartup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartup, r.onActivity(kindStartup, fn, nil, opts))
}

// OnCleanup registers a handler that kopf calls at shutdown, after all other handlers have ended. Only admission handlers of one of several replicas may run
// at the same time and later, because the next leader does not wait for them. It panics as [Registry.OnEvent] does.
func (r *Registry) OnCleanup(fn ActivityFunc, opts *ActivityOptions) {
	must(kindCleanup, r.onActivity(kindCleanup, fn, nil, opts))
}

// OnStartedLeading registers a handler that kopf calls each time that this replica gets the Lease of [LeaderElectionSettings], before it handles any
// object. Objects wait until the handler has succeeded, while the replica holds the Lease. kopf cancels its context when the Lease is lost. If it fails
// permanently, the operator ends. Without leader election, kopf does not call it. It panics as [Registry.OnEvent] does.
func (r *Registry) OnStartedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStartedLeading, r.onActivity(kindStartedLeading, fn, nil, opts))
}

// OnStoppedLeading registers a handler that kopf calls when this replica has lost the Lease. At shutdown, kopf calls it before it releases the Lease,
// after the clean-up handlers.
//
// kopf calls the handler once each time that the replica has held the Lease, also if handlers of [Registry.OnStartedLeading] have failed, were canceled,
// or were not called. As with client-go, the handler must not assume that they have succeeded. None of them runs any more. After a loss, another replica
// may already be working, so the handler's Client rejects changes.
//
// The handler has 5 seconds, and kopf logs its error. A process that is killed does not call it, so do not depend on it. It panics as [Registry.OnEvent]
// does.
func (r *Registry) OnStoppedLeading(fn ActivityFunc, opts *ActivityOptions) {
	must(kindStoppedLeading, r.onActivity(kindStoppedLeading, fn, nil, opts))
}

// OnLogin registers a function that returns credentials for the API server, instead of the built-in logins. kopf calls it at the start, and again when the
// API server rejects the credentials. It panics as [Registry.OnEvent] does.
func (r *Registry) OnLogin(fn LoginFunc, opts *ActivityOptions) {
	must(kindLogin, r.onActivity(kindLogin, nil, fn, opts))
}

// must panics with the error and the place of the registration.
func must(kind handlerKind, err error) {
	if err != nil {
		panic(fmt.Sprintf("kopf: %s at %s: %v", kindNames[kind], callSite(), err))
	}
}

// optionsOf returns a copy of the options, or the defaults for nil.
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
	if slices.Contains(reservedIDs, h.id) { // IDs of sub-handlers contain a slash, so they cannot conflict
		return fmt.Errorf("the handler id %q is reserved for an annotation that kopf stores itself: give the handler another ID", h.id)
	}
	return r.add(h)
}

// reservedIDs are the names of kopf's own annotations, which the progress of a handler must not overwrite.
var reservedIDs = []HandlerID{
	handlingID, failedID, markers.LastHandled, trackedKey, formerKey, markers.Managed, defaultTouchKey, handledUIDKey,
	markers.Reconciled, wantedName, explainName,
}

// newChange makes a change handler.
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

// checkLimits validates the numbers of the options, and the field.
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
	return validation.Durations([]string{"Timeout", "Backoff"}, h.retry.timeout, h.retry.backoff)
}

// checkOptions rejects options that have no effect in handlers of this kind.
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

// identify sets the ID of the handler: the option or the name of the function, with the field.
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

// checkSteady refuses fields that change with every write, so that a handler would call itself.
func checkSteady(field []string) error {
	switch {
	case len(field) == 0 || field[0] != "metadata":
		return nil
	case len(field) == 1:
		return errors.New("the field \"metadata\" as a whole changes with every patch: " +
			"name the part that the handler is about, such as \"metadata.labels\"")
	case field[1] == "resourceVersion" || field[1] == "managedFields":
		return fmt.Errorf("the field %q changes with every write, and kopf does not track it: name another field",
			strings.Join(field, "."))
	}
	return nil
}

// filter converts the criteria of the options.
func (h *handler) filter(labels, annotations Match, value, old, now any) (err error) {
	f := &h.filters
	if err := checkSteady(h.field); err != nil {
		return err
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
	// ID is the key of the value in the response. Default: the name of the function.
	ID HandlerID
	// Param is a value of yours, which kopf passes to the handler. Default: nil.
	Param any
	// Timeout is the limit for one call. A call that takes longer has failed, and kopf does not call the probe again until it has returned. Default: 10 s.
	Timeout time.Duration
}

// OnProbe registers a health probe in the default registry. See [Registry.OnProbe].
func OnProbe(fn ProbeFunc, opts *ProbeOptions) { must(kindProbe, DefaultRegistry().onProbe(fn, opts)) }

// OnProbe registers a function that reports the health of the operator at the [Operator.LivenessEndpoint]. It panics as [Registry.OnEvent] does.
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
	// ID names the index. Several functions fill one index if they have the same ID and return the same types. Default: the name of the function.
	ID HandlerID
	// Where narrows the selector to the resources for which the function returns true. Default: all resources.
	Where func(Resource) bool
	// Labels and Annotations are the labels and annotations that the object must have. Default: any.
	Labels, Annotations Match
	// When is a predicate for the object. It must be fast and change nothing. Default: always true.
	When func(*Indexing) bool
	// Field is the path of a field that must exist. Default: none.
	Field FieldPath
	// Value is the required value of the Field: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool. Default: [Present].
	Value any
	// Param is a value of yours, which kopf passes to the function. Default: nil.
	Param any
	// Errors decides about errors that are neither temporary nor permanent. Default: [ErrorsIgnored], which logs the error and keeps the object's values.
	// Temporary and permanent errors remove them.
	Errors ErrorsMode
	// Timeout is the limit from the first attempt until a success. It also cancels the context of a running attempt. A restart of the operator resets it.
	// Zero means no limit.
	Timeout time.Duration
	// Retries is the limit of attempts until a success. Zero means no limit.
	Retries int
	// Backoff is the delay after an error in the mode [ErrorsTemporary]. Default: [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
}

// OnIndex registers an index in the default registry. See [OnIndexIn].
func OnIndex[K comparable, V any](s Selector, fn IndexFunc[K, V], opts *IndexOptions) *Index[K, V] {
	i, err := newIndex(DefaultRegistry(), s, fn, opts)
	must(kindIndex, err)
	return i
}

// OnIndexIn registers an index of the objects of the selected resources in a registry. It panics as [Registry.OnEvent] does, and if functions with other
// types fill the same index.
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

// Operation is an operation on an object that an admission webhook reviews.
type Operation string

// The operations of admission reviews.
const (
	OperationCreate  Operation = "CREATE"  // the creation of an object
	OperationUpdate  Operation = "UPDATE"  // any change, also a patch
	OperationDelete  Operation = "DELETE"  // a deletion, or the mark for it
	OperationConnect Operation = "CONNECT" // a connection, such as an exec into a pod
)

// maxWarning is the longest warning that API servers accept, in characters.
const maxWarning = 256

// AdmissionOptions are the options of admission handlers. Zero values mean the defaults.
type AdmissionOptions struct {
	// ID names the handler, and is part of the path of its webhook. kopf appends a slash and the path of the Field. Default: the name of the function.
	ID HandlerID
	// Where narrows the selector to the resources for which the function returns true. Default: all resources.
	Where func(Resource) bool
	// Operations are the operations that the handler reviews. Nil means all operations for [OnValidate], and all except DELETE for [OnMutate]. To mutate
	// deletions, list [OperationDelete] alone: next to other operations, it has no effect in mutating handlers.
	Operations []Operation
	// Subresource is the subresource that the handler reviews, such as "status" or "scale". "*" means the object itself and all of its subresources. Default:
	// only the object itself.
	Subresource string
	// Persistent keeps the handler in the managed configuration when the operator stops. The API server then rejects the operations until the operator is
	// back, or admits them with IgnoreFailures. Default: false.
	Persistent bool
	// SideEffects declares that the handler makes lasting changes elsewhere, unless [Admission.DryRun] is set. Default: false.
	SideEffects bool
	// IgnoreFailures makes the API server admit the operation if it gets no response. Default: false, so that it rejects the operation.
	IgnoreFailures bool
	// Timeout is the time that the API server waits for the response, at most 30 s, rounded up to whole seconds. kopf cancels the handler's context a little
	// earlier. Default: 30 s.
	Timeout time.Duration
	// Labels and Annotations are the labels and annotations that the object must have. kopf admits operations on other objects. An update calls the handler if
	// all filters match the new object, or all match the old object. So a change that removes a label is still reviewed. The options of a CONNECT have no
	// labels, and API servers never send their reviews to a handler with Labels. Default: any.
	Labels, Annotations Match
	// When is a predicate for the review. If the new object does not match, kopf evaluates all filters with the old object as the Body. If it panics, the
	// review fails. Default: always true.
	When func(*Admission) bool
	// Field is the path of a field that must exist. Default: none.
	Field FieldPath
	// Value is the required value of the Field: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool. Default: [Present].
	Value any
	// Param is a value of yours, which kopf passes to the handler. Default: nil.
	Param any
}

// admissionOperator is the interface of the operator for admission.
type admissionOperator interface {
	// serves reports whether the operator selects a namespace.
	serves(namespace string) bool
	// memoryOf returns the memory of an object, nil if there is none.
	memoryOf(resource, key string) *memory
	ender
}

// OnValidate registers a validating admission handler in the default registry. See [Registry.OnValidate].
func OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, DefaultRegistry().onAdmission(kindValidate, s, fn, opts))
}

// OnMutate registers a mutating admission handler in the default registry. See [Registry.OnMutate].
func OnMutate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindMutate, DefaultRegistry().onAdmission(kindMutate, s, fn, opts))
}

// OnValidate registers a handler that admits or denies operations on objects of the selected resources before they happen. It requires
// Settings.Admission.Server. It panics as [Registry.OnEvent] does.
func (r *Registry) OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, r.onAdmission(kindValidate, s, fn, opts))
}

// OnMutate registers a handler that changes objects of the selected resources before the API server stores them, by its Patch. It can also deny
// operations. It requires Settings.Admission.Server. It panics as [Registry.OnEvent] does.
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

// coversOperation reports whether a handler reviews an operation on an object or a subresource.
func (h *handler) coversOperation(op Operation, subresource string) bool {
	a := h.admission
	switch {
	case a.subresource != "*" && a.subresource != subresource:
		return false
	case op == OperationDelete && h.kind == kindMutate: // a deletion has no result to mutate, so the handler must list it explicitly
		return len(a.operations) == 1 && a.operations[0] == op
	}
	return a.operations == nil || slices.Contains(a.operations, op)
}

// fitsReview reports whether the filters of a handler match the new or the old object, as the object
// selectors of API servers do: a change can't avoid a handler by removing what its filters look for.
// They may panic.
func (h *handler) fitsReview(a *Admission, why *mismatch) bool {
	if h.fitsReviewOf(a, why) {
		return true
	}
	if a.former == nil {
		return false
	}
	before := *a
	before.Body = a.former
	return h.fitsReviewOf(&before, nil)
}

// fitsReviewOf reports whether the filters match the Body.
func (h *handler) fitsReviewOf(a *Admission, why *mismatch) bool {
	c := &Change{Object: a.Object}
	c.New = a.Body.viewOf(a.Body.raw)
	if !h.filters.fitsMeta(&a.Object, why) || !h.fitsValue(c, why) {
		return false
	}
	why.look(partWhen, "", nil, View{})
	return h.admission.when == nil || h.admission.when(a)
}
