package kopf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/validation"
)

// ReconcileOptions are the options of reconcile handlers. Zero values mean the defaults.
type ReconcileOptions struct {
	// ID names the handler in logs and metrics, its result in the status, and its digest of the spec: see
	// [Reconcile.SpecChanged]. kopf stores nothing else under it. Default: the name of the function.
	ID HandlerID
	// Where narrows the selector to the resources for which the function returns true. Default: all resources.
	Where func(Resource) bool
	// Labels and Annotations are the labels and annotations that the object must have. Default: any.
	Labels, Annotations Match
	// When is a predicate for the object. It must be fast and change nothing. Default: always true.
	When func(*Reconcile) bool
	// Param is a value of yours, which kopf passes to the handler. Default: nil.
	Param any
	// Fields are paths of fields in the status or the metadata whose changes trigger the handler, in addition to the spec, the labels and the annotations.
	// Default: none.
	Fields []FieldPath
	// Owns are the kinds of the children. Their changes trigger the handler of their owner, and [Reconcile.Desired] accepts only these kinds. Default: none.
	Owns []Selector
	// ChildFields are the paths of the fields of a kind in Owns whose changes trigger the handler, such
	// as "status.phase". These changes of a child always trigger it: that another client creates it, that
	// it ends or leaves its owner, becomes ready or not, or that another client changes what kopf has
	// applied. kopf's own applies never trigger it. List the fields that the option Ready of
	// [DesiredOptions] reads. Default: all fields.
	ChildFields map[Selector][]FieldPath
	// Watches are other kinds whose changes trigger the handler. Default: none.
	Watches []Watch
	// Sources trigger the handler from elsewhere. Default: none.
	Sources []*Source
	// Resync is the longest time between a success and the next call, plus up to a tenth. Zero means no limit.
	Resync time.Duration
	// Debounce is the time without events before kopf calls the handler for earlier events. kopf waits at most ten times that. Default: none.
	Debounce time.Duration
	// Errors decides about errors that are neither temporary nor permanent. Default: [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout is the limit for one call. It cancels the context, and the call has then failed. Zero means no limit.
	Timeout time.Duration
	// Backoff is the delay after the first error that is neither temporary nor permanent. kopf doubles it with each further error in a row, up to MaxBackoff,
	// and randomly makes it up to a fifth shorter or longer. Default: 1 s.
	Backoff time.Duration
	// MaxBackoff is the longest delay after an error that is neither temporary nor permanent. Default: 1 min, or the Backoff if that is longer.
	MaxBackoff time.Duration
	// Conditions makes kopf maintain the conditions Ready, Reconciling and Stalled, and observedGeneration, in the status of the object. Default: false.
	Conditions bool
	// Manager is the field manager of the children. A different manager does not remove the fields and children of the former one. Default: "kopf-" with the
	// plural and the group of the object, such as "kopf-kopfexamples.kopf.dev". It has at most 128 bytes, and only printable characters.
	Manager string
}

// Watch is a kind whose changes trigger a reconcile handler of another kind.
type Watch struct {
	// Of selects the kind.
	Of Selector
	// Labels are the labels that an object of the kind must have. Default: any.
	Labels Match
	// Fields are the paths of the fields whose changes trigger the handler, such as "spec" or
	// "status.phase". Default: all fields. An object that appears, ends, or begins or ceases to match
	// the Labels and When always triggers it.
	Fields []FieldPath
	// When is a predicate for an object of the kind. An object for which it is false counts as missing.
	// It must be fast and change nothing. Default: always true.
	When func(*Watched) bool
	// Objects returns the objects to reconcile for an object of the kind. kopf calls it for each of these changes, and also reconciles the objects that it returned for
	// that object before. kopf ignores the UID, APIVersion and Kind of the references. A namespaced object needs its namespace. Nil means all objects of the
	// handler.
	Objects func(*Watched) []ObjectReference
}

// OnReconcile registers a reconcile handler in the default registry. See [Registry.OnReconcile].
func OnReconcile(s Selector, fn ReconcileFunc, opts *ReconcileOptions) {
	must(kindReconcile, DefaultRegistry().onReconcile(s, fn, opts))
}

// OnReconcile registers a handler that reconciles actual and desired state. kopf calls it when it sees an object for the first time, also after a restart.
// kopf calls it again when the object or one of its children has changed, and when the handler has requested a call. kopf does not call it for an object that
// is being deleted. It panics as [Registry.OnEvent] does.
func (r *Registry) OnReconcile(s Selector, fn ReconcileFunc, opts *ReconcileOptions) {
	must(kindReconcile, r.onReconcile(s, fn, opts))
}

// The defaults of [ReconcileOptions].
const (
	defaultReconcileBackoff    = time.Second
	defaultReconcileMaxBackoff = time.Minute
)

// reconcileSpec has the options of reconcile handlers only.
type reconcileSpec struct {
	engine              reconcileEngine
	call                ReconcileFunc
	fields              []FieldPath
	follows             []*followSpec // the owned kinds first
	sources             []*Source
	resync, debounce    time.Duration
	timeout             time.Duration
	backoff, maxBackoff time.Duration
	conditions          bool
	manager             string

	outOfScope sync.Once // logs the first reference that can be none of its objects
}

// followSpec is a kind that a reconcile handler owns or watches.
type followSpec struct {
	selector discovery.Selector
	owns     bool
	labels   []keyCriterion
	fields   []FieldPath // whose changes count; none for all
	watch    Watch       // none for owned kinds
}

func (r *Registry) onReconcile(s Selector, fn ReconcileFunc, opts *ReconcileOptions) error {
	o := optionsOf(opts)
	spec := &reconcileSpec{
		engine: engine{}, call: fn, fields: slices.Clone(o.Fields), sources: slices.Clone(o.Sources), resync: o.Resync, debounce: o.Debounce, timeout: o.Timeout,
		backoff: cmp.Or(o.Backoff, defaultReconcileBackoff), conditions: o.Conditions, manager: o.Manager,
	}
	spec.maxBackoff = cmp.Or(o.MaxBackoff, max(defaultReconcileMaxBackoff, spec.backoff))
	if err := spec.check(&o); err != nil {
		return err
	}
	h := &handler{
		kind: kindReconcile, param: o.Param, reconcile: spec,
		retry: retryPolicy{errors: cmp.Or(o.Errors, ErrorsTemporary), backoff: o.Backoff},
	}
	if when := o.When; when != nil {
		h.filters.whenObject = func(o *Object) bool { return when(&Reconcile{Object: *o}) }
	}
	return r.addObjectHandler(h, s, o.Where, o.ID, fn, o.Labels, o.Annotations, nil)
}

// check completes the followed kinds, and validates the options.
func (s *reconcileSpec) check(o *ReconcileOptions) error {
	err := validation.Durations([]string{"Resync", "Debounce", "Timeout", "Backoff", "MaxBackoff"}, o.Resync, o.Debounce, o.Timeout, o.Backoff, o.MaxBackoff)
	if err != nil {
		return err
	}
	if s.maxBackoff < s.backoff {
		return fmt.Errorf("invalid option MaxBackoff %s: want at least the Backoff, %s", s.maxBackoff, s.backoff)
	}
	if err := validation.FieldManager(s.manager); err != nil {
		return fmt.Errorf("invalid option Manager %w", err)
	}
	if err := checkPaths("Fields", s.fields); err != nil {
		return err
	}
	if slices.Contains(s.sources, nil) {
		return errors.New("invalid option Sources: want no nil")
	}
	return s.checkFollows(o)
}

// checkPaths validates the paths of an option.
func checkPaths(option string, paths []FieldPath) error {
	for _, path := range paths {
		keys := path.Keys()
		if len(keys) == 0 || slices.Contains(keys, "") {
			return fmt.Errorf("invalid path %q in the option %s: want keys joined by dots, as in \"status.phase\"", path, option)
		}
		if err := checkSteady(keys); err != nil {
			return fmt.Errorf("the option %s: %w", option, err)
		}
	}
	return nil
}

func (s *reconcileSpec) checkFollows(o *ReconcileOptions) error {
	for i, selector := range o.Owns {
		f, err := newFollow("Owns", selector)
		if err != nil {
			return err
		}
		if f.owns = true; slices.Contains(o.Owns[:i], selector) {
			return fmt.Errorf("invalid option Owns: the selector %q is there twice", selector)
		}
		f.fields = slices.Clone(o.ChildFields[selector])
		if err := checkPaths("ChildFields", f.fields); err != nil {
			return err
		}
		s.follows = append(s.follows, f)
	}
	for selector := range o.ChildFields {
		if !slices.Contains(o.Owns, selector) {
			return fmt.Errorf("invalid selector %q in the option ChildFields: want one of Owns", selector)
		}
	}
	for _, watch := range o.Watches {
		f, err := newFollow("Watches", watch.Of)
		if err != nil {
			return err
		}
		if f.labels, err = newMatch("label", watch.Labels); err != nil {
			return fmt.Errorf("the watch of %q: %w", watch.Of, err)
		}
		if err = checkPaths("Fields", watch.Fields); err != nil {
			return fmt.Errorf("the watch of %q: %w", watch.Of, err)
		}
		f.fields, f.watch = slices.Clone(watch.Fields), watch
		s.follows = append(s.follows, f)
	}
	return nil
}

// newFollow converts the selector of an owned or watched kind.
func newFollow(option string, s Selector) (*followSpec, error) {
	spec, err := s.spec(nil)
	if err != nil {
		return nil, fmt.Errorf("the option %s: %w", option, err)
	}
	if !spec.Specific() {
		return nil, fmt.Errorf("invalid selector %q in the option %s: want one of a single kind", s, option)
	}
	return &followSpec{selector: spec}, nil
}

// Source triggers reconcile handlers for events outside of the cluster. Add it to the option Sources of these handlers. Its zero value is ready to use. It
// is safe for concurrent use, also before the operator starts and after it has stopped, when it does nothing.
type Source struct {
	mu      sync.Mutex // guards following
	targets map[*sourceTarget]struct{}
}

// sourceTarget is a handler of a running operator.
type sourceTarget struct {
	owners  triggerer
	handler *handler
}

// triggerer triggers reconcile handlers. It is an interface so that programs without them are linked without its implementation.
type triggerer interface {
	trigger(h *handler, ref ObjectReference, reason Trigger)
	triggerAll(h *handler, reason Trigger, routine bool)
}

// Trigger calls the handlers for one object, named by its namespace and name. It does not wait. Several triggers before the next call are one. It has no
// effect for an object that does not exist or does not match. kopf logs the first reference without the namespace that the kind needs.
func (s *Source) Trigger(ref ObjectReference) {
	for _, t := range s.all() {
		t.owners.trigger(t.handler, ref, Trigger{Reason: TriggerSource})
	}
}

// TriggerAll calls the handlers for all their objects. It does not wait.
func (s *Source) TriggerAll() {
	for _, t := range s.all() {
		t.owners.triggerAll(t.handler, Trigger{Reason: TriggerSource}, false)
	}
}

func (s *Source) all() []*sourceTarget {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.targets))
}

// attach adds a handler until the returned function is called.
func (s *Source) attach(t *sourceTarget) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.targets == nil {
		s.targets = make(map[*sourceTarget]struct{})
	}
	s.targets[t] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.targets, t)
	}
}
