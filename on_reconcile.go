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

// This file is where reconcile handlers are registered, with their options.

// ReconcileOptions are the options of reconcile handlers. Zero values mean the defaults.
type ReconcileOptions struct {
	// ID names the handler in logs and metrics. Defaults to the name of the function. Nothing is stored under it.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Labels and Annotations say which ones the object must have. Default to any.
	Labels, Annotations Match
	// When says whether the object is to be reconciled, by looking at all of it. Defaults to always.
	When func(*Reconcile) bool
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
	// Fields are the paths of fields whose changes call the handler, in addition to those of the spec, the labels and the annotations: fields of the status or the metadata. Defaults to none.
	Fields []FieldPath
	// Owns are the kinds of the children: changes of these call the handler of their owner, and only these can be given to [Reconcile.Desired]. Defaults to none.
	Owns []Selector
	// Watches are other kinds whose changes call the handler. Defaults to none.
	Watches []Watch
	// Sources call the handler from elsewhere. Defaults to none.
	Sources []*Source
	// Resync is how long after a success the handler is called again at the latest, or up to a tenth later. Zero means never.
	Resync time.Duration
	// Debounce is how long nothing must have happened before the handler is called for what has; but it never waits for more than ten times that. Defaults to none.
	Debounce time.Duration
	// Errors says what becomes of errors that are neither temporary nor permanent. Defaults to [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout is how long one call may take: then its context ends, and the call has failed. Zero means no limit.
	Timeout time.Duration
	// Backoff is the pause after the first error that is neither temporary nor permanent. It is doubled with each further one in a row, up to the MaxBackoff, and is up to a fifth shorter or longer. Defaults to 1 s.
	Backoff time.Duration
	// MaxBackoff is the longest pause after an error that is neither temporary nor permanent. Defaults to 1 min, or to the Backoff if that is longer.
	MaxBackoff time.Duration
	// Conditions keeps the conditions Ready, Reconciling and Stalled, and observedGeneration, in the status of the object. Defaults to false.
	Conditions bool
	// Manager is the field manager of the children. Defaults to "kopf-" with the plural and the group of the object, such as "kopf-kopfexamples.kopf.dev". Another one does not remove the fields and the children of the one before.
	Manager string
}

// Watch is a kind whose changes call a reconcile handler of another kind.
type Watch struct {
	// Of selects the kind.
	Of Selector
	// Labels say which ones an object of the kind must have. Defaults to any.
	Labels Match
	// Objects returns which objects to reconcile for an object of the kind. It is called for each change; those that it returned for the object before are
	// reconciled as well. The UID of a reference is not looked at, nor is its APIVersion or Kind. Nil means all objects of the handler.
	Objects func(*Watched) []ObjectReference
}

// OnReconcile registers a reconcile handler in the default registry. See [Registry.OnReconcile].
func OnReconcile(s Selector, fn ReconcileFunc, opts *ReconcileOptions) {
	must(kindReconcile, DefaultRegistry().onReconcile(s, fn, opts))
}

// OnReconcile registers a function that makes things as an object wants them. It is called when the object is seen first, also after a restart, when the object or what belongs
// to it has changed, and when it has asked for that; never for an object that is being deleted. It panics as [Registry.OnEvent] does.
func (r *Registry) OnReconcile(s Selector, fn ReconcileFunc, opts *ReconcileOptions) {
	must(kindReconcile, r.onReconcile(s, fn, opts))
}

// The defaults of [ReconcileOptions].
const (
	defaultReconcileBackoff    = time.Second
	defaultReconcileMaxBackoff = time.Minute
)

// reconcileSpec is what only reconcile handlers have.
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
}

// followSpec is a kind that a reconcile handler owns or watches.
type followSpec struct {
	selector discovery.Selector
	owns     bool
	labels   []keyCriterion
	watch    Watch // none for owned kinds
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

// check completes what is followed, and returns what is wrong with the options.
func (s *reconcileSpec) check(o *ReconcileOptions) error {
	err := validation.NotNegative([]string{"Resync", "Debounce", "Timeout", "Backoff", "MaxBackoff"}, o.Resync, o.Debounce, o.Timeout, o.Backoff, o.MaxBackoff)
	if err != nil {
		return err
	}
	if err := validation.Interval(s.resync); err != nil {
		return fmt.Errorf("invalid option Resync %w", err)
	}
	if s.maxBackoff < s.backoff {
		return fmt.Errorf("invalid option MaxBackoff %s: want at least the Backoff, %s", s.maxBackoff, s.backoff)
	}
	if len(s.manager) > 128 {
		return fmt.Errorf("invalid option Manager %q: want at most 128 bytes", s.manager)
	}
	for _, path := range s.fields {
		if keys := path.Keys(); len(keys) == 0 || slices.Contains(keys, "") {
			return fmt.Errorf("invalid path %q in the option Fields: want keys joined by dots, as in \"status.phase\"", path)
		}
	}
	if slices.Contains(s.sources, nil) {
		return errors.New("invalid option Sources: want no nil")
	}
	return s.checkFollows(o)
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
		s.follows = append(s.follows, f)
	}
	for _, watch := range o.Watches {
		f, err := newFollow("Watches", watch.Of)
		if err != nil {
			return err
		}
		if f.labels, err = newMatch("label", watch.Labels); err != nil {
			return fmt.Errorf("the watch of %q: %w", watch.Of, err)
		}
		f.watch = watch
		s.follows = append(s.follows, f)
	}
	return nil
}

// newFollow reads the selector of a kind that is owned or watched.
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

// Source calls reconcile handlers for what happens elsewhere than in the cluster: it is an element of the option Sources of as many handlers as are concerned. Its zero value is ready to
// use. It is safe for concurrent use, also before the operator starts and after it has ended, when it does nothing.
type Source struct {
	mu      sync.Mutex // guards following
	targets map[*sourceTarget]struct{}
}

// sourceTarget is a handler in an operator that runs.
type sourceTarget struct {
	owners  triggerer
	handler *handler
}

// triggerer has reconcile handlers called. It is an interface so that programs without them are linked without what calls them.
type triggerer interface {
	trigger(h *handler, ref ObjectReference, reason Trigger)
	triggerAll(h *handler, reason Trigger, routine bool)
}

// Trigger has the handlers called for one object, which is named by its namespace and name. It does not wait. Several triggers before the next call are one. An object that is not there, or that the handlers are not for, is none.
func (s *Source) Trigger(ref ObjectReference) {
	for _, t := range s.all() {
		t.owners.trigger(t.handler, ref, Trigger{Reason: TriggerSource})
	}
}

// TriggerAll has the handlers called for all their objects. It does not wait.
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

// attach adds a handler, until the returned function is called.
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
