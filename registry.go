package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/funcid"
	"github.com/kopf-go/kopf/internal/index"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/rights"
	"github.com/kopf-go/kopf/internal/validation"
)

// This file knows which handlers are registered, and which of them concern a resource. A registry is
// filled before the operator runs, and only read afterwards.

type handlerKind uint8

const (
	kindEvent handlerKind = iota
	kindCreate
	kindUpdate
	kindDelete
	kindResume
	kindField
	kindDaemon
	kindTimer
	kindIndex
	kindReconcile
	kindSub
	kindStartup
	kindCleanup
	kindStartedLeading
	kindStoppedLeading
	kindLogin
	kindProbe
	kindValidate
	kindMutate
)

var kindNames = [...]string{"OnEvent", "OnCreate", "OnUpdate", "OnDelete", "OnResume", "OnField", "OnDaemon", "OnTimer", "OnIndex", "OnReconcile", "Subhandler", "OnStartup", "OnCleanup", "OnStartedLeading", "OnStoppedLeading", "OnLogin", "OnProbe", "OnValidate", "OnMutate"}

// handler is one registered function with all its options.
type handler struct {
	id         HandlerID
	kind       handlerKind
	selector   discovery.Selector
	field      []string
	retry      retryPolicy
	changes    changeSpec
	activities activitySpec // of the operator itself
	registered registration
	param      any
	filters    filters
	event      EventFunc
	task       *taskSpec  // of daemons and timers
	indexing   *indexSpec // of indices
	reconcile  *reconcileSpec
	admission  *admissionSpec
}

// registration is what was registered, and where.
type registration struct {
	fn    funcid.ID
	where string // in the source
}

// activitySpec is what only handlers of activities and probes have: one of these.
type activitySpec struct {
	activity ActivityFunc
	login    LoginFunc
	probe    ProbeFunc
}

// changeSpec is what only handlers of changes have.
type changeSpec struct {
	change        ChangeFunc
	optional      bool
	deleted       bool
	interruptible bool
	needsChange   bool
	keys          []string // of the annotations with its progress, under the default prefix
}

// retryPolicy is what the options say of failures.
type retryPolicy struct {
	errors  ErrorsMode
	timeout time.Duration
	retries int
	backoff time.Duration
}

// Registry holds the handlers of an operator. Its zero value is empty and ready to use. It is safe for concurrent use;
// handlers registered while an operator runs are not noticed by it, with a warning in its log.
type Registry struct {
	mu       sync.Mutex // guards following
	handlers []*handler
	defined  definedKinds              // nil for none
	needs    []rights.Declaration      // of handlers by their clients
	late     map[*lateWarning]struct{} // of the operators that run, and have not warned yet
}

// lateWarning warns of a handler that was registered too late for an operator.
type lateWarning struct{ log *slog.Logger }

// begin returns a registry with the handlers for an operator that begins to serve them. Until the end is called, it is warned of the first one that comes later.
func (r *Registry) begin(log *slog.Logger) (served *Registry, end func()) {
	w := &lateWarning{log}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late == nil {
		r.late = make(map[*lateWarning]struct{})
	}
	r.late[w] = struct{}{}
	return &Registry{handlers: slices.Clone(r.handlers), defined: r.defined, needs: r.needs}, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.late, w)
	}
}

// warnLate warns that a handler that was registered is not called by operators that run already. Those of logins, clean-ups and the leading are looked for when they are due.
func (r *Registry) warnLate(h *handler) {
	switch h.kind {
	case kindLogin, kindCleanup, kindStartedLeading, kindStoppedLeading:
		return
	}
	r.mu.Lock()
	late := r.late
	r.late = nil
	r.mu.Unlock()
	for w := range late {
		w.log.Warn("A handler was registered while the operator runs; it is not called before the operator is started again", "help", "K102", "handler", string(h.id), "registered", h.registered.where,
			"hint", "register handlers before the operator runs, or in a start-up handler")
	}
}

var defaultRegistry struct {
	mu sync.Mutex // guards registry
	*Registry
}

// DefaultRegistry returns the registry that the package's functions register in, and operators without a Registry serve.
func DefaultRegistry() *Registry {
	defaultRegistry.mu.Lock()
	defer defaultRegistry.mu.Unlock()
	if defaultRegistry.Registry == nil {
		defaultRegistry.Registry = &Registry{}
	}
	return defaultRegistry.Registry
}

// SetDefaultRegistry replaces the registry that [DefaultRegistry] returns, and in which the functions of the package register. Nil means a new one, made at
// the next use. Operators that run already keep theirs.
func SetDefaultRegistry(r *Registry) {
	defaultRegistry.mu.Lock()
	defer defaultRegistry.mu.Unlock()
	defaultRegistry.Registry = r
}

// add registers a handler, or returns why it cannot.
func (r *Registry) add(h *handler) error {
	if err := r.append(h); err != nil {
		return err
	}
	r.warnLate(h)
	return nil
}

func (r *Registry) append(h *handler) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.handlers {
		if err := h.conflict(other); err != nil {
			return err
		}
	}
	r.handlers = append(r.handlers, h)
	return nil
}

// conflict returns why two handlers cannot live together: they would share their progress on the objects.
func (h *handler) conflict(other *handler) error {
	sameIndex := h.kind == kindIndex && other.kind == kindIndex && h.id == other.id
	if sameIndex && funcid.IsPlace(string(h.id)) && h.registered.fn != other.registered.fn {
		return fmt.Errorf("the index %q is of the same function literal as that registered at %s: give one of them an ID", h.id, other.registered.where)
	}
	if sameIndex && h.indexing.types != other.indexing.types {
		return fmt.Errorf("the index %q has keys and values of other types than that registered at %s: give one of them another ID", h.id, other.registered.where)
	}
	if h.kind != other.kind && (h.kind >= kindStartup || other.kind >= kindStartup) || h.kind < kindStartup && h.selector.Text != other.selector.Text {
		return nil
	}
	return h.clash(other)
}

// clash returns why two handlers cannot be called for one resource.
func (h *handler) clash(other *handler) error {
	if h.reconcile != nil && other.reconcile != nil {
		return h.reconcile.clash(h, other)
	}
	if h.stateless() || other.stateless() || h.background() != other.background() || h.id == other.id && h.registered.fn == other.registered.fn {
		return nil
	}
	key, shared := sharedKey(h.changes.keys, other.changes.keys)
	if !shared || h.id == other.id && !h.overlaps(other) {
		return nil // the latter as for one id that is created by one function and updated by another
	}
	why := ""
	switch {
	case h.id != other.id:
		why = fmt.Sprintf(" as %q", key)
	case h.registered.fn.Code == other.registered.fn.Code:
		why = "; they are two closures of one function, or a method of two receivers (one of a value is a new function each time it is named: keep it in a variable to register it twice)"
	}
	return fmt.Errorf("the handler %q is in conflict with the handler %q registered at %s: they would share their progress on the objects, which is stored under the id%s; give one of them another ID", h.id, other.id, other.registered.where, why)
}

// sharedKey returns a key that is among both.
func sharedKey(keys, others []string) (key string, shared bool) {
	for _, key := range keys {
		if slices.Contains(others, key) {
			return key, true
		}
	}
	return "", false
}

// overlaps reports whether the two handlers can be called for one cause: handlers of fields are called for any,
// and handlers of resuming alongside those of updates and deletions.
func (h *handler) overlaps(other *handler) bool {
	if h.kind == other.kind || h.background() || h.kind == kindField || other.kind == kindField {
		return true
	}
	resumes, rest := h, other
	if other.kind == kindResume {
		resumes, rest = other, h
	}
	return resumes.kind == kindResume && (rest.kind == kindUpdate || rest.kind == kindDelete && resumes.changes.deleted)
}

// transient reports whether nothing is stored or served under the handler's id, which only the log and the program itself see then.
func (h *handler) transient() bool {
	return h.kind == kindEvent || h.kind == kindIndex || h.kind == kindReconcile || h.kind >= kindStartup && h.admission == nil
}

// stateless reports whether nothing is remembered under the handler's id.
func (h *handler) stateless() bool {
	return h.kind == kindEvent || h.kind == kindIndex || h.kind == kindReconcile || h.admission != nil
}

// stateful reports whether something is stored on the objects for the handler: its progress, or the finalizer.
func (h *handler) stateful() bool { return !h.stateless() }

// background reports whether the handler is a daemon or a timer: what is remembered of those is not on the object.
func (h *handler) background() bool { return h.task != nil }

// checkID returns what is wrong with an id that is going to be a part of the names of annotations.
func checkID(id HandlerID) error {
	if !validation.IsName(string(id), "-_./<>") {
		return fmt.Errorf("invalid handler id %q: want letters, digits, '-', '_', '.' and '/', with a letter or digit at both ends", id)
	}
	return nil
}

// functionID returns the name of the handler's function.
func (h *handler) functionID() (HandlerID, error) {
	name, symbol := h.registered.fn.Name()
	switch {
	case name != "":
		return HandlerID(name), nil
	case symbol == "":
		return "", errors.New("the function has no name: give the handler an ID")
	}
	use := "ids are stored on the objects"
	if h.admission != nil {
		use = "ids are in the paths that webhooks are served at"
	}
	return "", fmt.Errorf("the name %q of the function was made by the compiler, and %s: give the handler an ID", symbol, use)
}

// newSubhandler makes a handler that is registered by another one while it runs for a reason.
func newSubhandler(parent *handler, reason Reason, id HandlerID, fn ChangeFunc, opts *ChangeOptions) (*handler, error) {
	o := optionsOf(opts)
	if o.ID == "" {
		o.ID = id
	}
	if o.Where != nil {
		return nil, fmt.Errorf("the sub-handler %q cannot have the option Where: its resource is that of its parent", o.ID)
	}
	needsChange := parent.kind == kindUpdate || parent.kind == kindField || parent.changes.needsChange
	h, err := newChange(kindSub, "", o.Field, fn, &o)
	if err != nil {
		return nil, err
	}
	if (o.Old != nil || o.New != nil) && !needsChange {
		return nil, fmt.Errorf("the sub-handler %q cannot have Old or New, because its parent %q is not called for differences", o.ID, parent.id)
	}
	h.changes.needsChange = needsChange
	h.name(parent.id + "/" + h.id)
	return h, checkID(h.id)
}

// selectHandlers returns the handlers that a cause is for, each function once under one id.
func selectHandlers(owned []*handler, c *Change, initial bool) []*handler {
	var selected []*handler
	for _, h := range owned {
		if !h.isIn(selected) && h.matchesFor(c, initial, c.answers.to(h, c.Body, false)) {
			selected = append(selected, h)
		}
	}
	return selected
}

// resolved is what the handlers want of one resource.
type resolved struct {
	resource        Resource
	events, changes []*handler
	tasks, indices  []*handler
	reconciles      []*reconciling
	follows         []*follow   // what reconcile handlers of other resources own or watch of this one
	idle            bool        // whether a timer wants to know when the object has changed
	fields          []FieldPath // that the handlers are about, as part of what is tracked
	counts          *metrics.Resource
	persistence     *PersistenceSettings // with storages
	annotated       *PersistenceSettings // with storages for objects whose status does not keep the state; nil if persistence is for all
	unread          bool                 // whether the schema could not be read, so that the state of objects stays where it is
	since           time.Time            // when these handlers were served first
}

// callsHandlers reports whether there is more to do with the objects than to index them, and to remember whose children they are.
func (r *resolved) callsHandlers() bool {
	return len(r.events)+len(r.changes)+len(r.tasks)+len(r.reconciles) > 0 || slices.ContainsFunc(r.follows, func(f *follow) bool { return !f.spec.owns })
}

// snapshot returns the handlers as they are now.
func (r *Registry) snapshot() []*handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.handlers)
}

// serving reports whether there are handlers of objects.
func (r *Registry) serving() bool {
	return slices.ContainsFunc(r.snapshot(), func(h *handler) bool { return h.kind < kindSub || h.admission != nil })
}

// first returns the first one of the handlers that are of a family, nil if there are none.
func (r *Registry) first(family func(*handler) bool) *handler {
	all := r.snapshot()
	if i := slices.IndexFunc(all, family); i >= 0 {
		return all[i]
	}
	return nil
}

// isIn reports whether the same function is among some handlers, under the same id.
func (h *handler) isIn(all []*handler) bool {
	return slices.ContainsFunc(all, func(o *handler) bool { return o.id == h.id && o.registered.fn == h.registered.fn })
}

// activities returns the handlers of one activity of the operator, each function once under one id.
func (r *Registry) activities(kind handlerKind) []*handler {
	var all []*handler
	for _, h := range r.snapshot() {
		if h.kind == kind && !h.isIn(all) {
			all = append(all, h)
		}
	}
	return all
}

// groups returns the API groups that the handlers name, or nil if one of them can be for any group.
func (r *Registry) groups() []string {
	groups := []string{}
	for _, h := range r.snapshot() {
		if h.kind >= kindSub && h.admission == nil {
			continue
		}
		for _, selector := range append(h.followed(), h.selector) {
			if !selector.HasGroup {
				return nil
			}
			if !slices.Contains(groups, selector.Group) {
				groups = append(groups, selector.Group)
			}
		}
	}
	slices.Sort(groups)
	return groups
}

// resolve finds the resources that each handler is for, and warns of those that cannot be served. Of groups whose discovery has failed, it does not say
// what they lack.
func (r *Registry) resolve(found []discovery.Resource, failed map[string]error) (served map[string]*resolved, warnings []string) {
	served = make(map[string]*resolved)
	for _, h := range r.snapshot() {
		if h.kind >= kindSub {
			continue
		}
		resources, problems := h.resources(found)
		if len(resources) == 0 && h.selector.HasGroup && failed[h.selector.Group] != nil && !slices.ContainsFunc(found, h.selector.Matches) {
			continue
		}
		for _, warning := range problems {
			if !slices.Contains(warnings, warning) {
				warnings = append(warnings, warning)
			}
		}
		for _, resource := range resources {
			name := resource.Name()
			what := served[name]
			if what == nil {
				what = &resolved{resource: Resource(resource)}
				served[name] = what
			}
			if err := what.clash(h); err != nil {
				warnings = append(warnings, fmt.Sprintf("The handler registered at %s is not called for %s: %v", h.registered.where, name, err))
				continue
			}
			what.add(h)
		}
	}
	if h := r.first((*handler).followsOthers); h != nil {
		for _, warning := range h.reconcile.engine.resolve(served, found, failed) {
			if !slices.Contains(warnings, warning) {
				warnings = append(warnings, warning)
			}
		}
	}
	return served, append(warnings, versionWarnings(served)...)
}

// versionWarnings names the handlers for several versions of one resource. The objects are the same, and so are their finalizer and annotations, which one version
// cannot tell from those of the other.
func versionWarnings(served map[string]*resolved) (warnings []string) {
	versions := make(map[string]*resolved) // the first one of each resource
	for _, name := range rawjson.SortedKeys(served) {
		r := served[name]
		key := r.resource.Plural + "." + r.resource.Group
		first := versions[key]
		if first == nil {
			versions[key] = r
			continue
		}
		a, b := first.handlers(), r.handlers()
		if slices.ContainsFunc(slices.Concat(a, b), (*handler).stateful) {
			warnings = append(warnings, fmt.Sprintf("Handlers for two versions of one resource share what is stored on its objects, so that some may not be called: "+
				"%q registered at %s and %q registered at %s. Select the same version for both.", a[0].selector.Text, a[0].registered.where, b[0].selector.Text, b[0].registered.where))
		}
	}
	return warnings
}

// handlers returns all handlers of the resource, those that store something on the objects first.
func (r *resolved) handlers() []*handler {
	return slices.Concat(r.changes, r.tasks, r.events, r.indices, r.reconcileHandlers())
}

// sameHandlers reports whether the same handlers are for the resource as before.
func (r *resolved) sameHandlers(before *resolved) bool {
	added := func(f *follow) bool { return !slices.ContainsFunc(before.follows, f.same) }
	return slices.Equal(r.handlers(), before.handlers()) && len(r.follows) == len(before.follows) && !slices.ContainsFunc(r.follows, added)
}

// clash returns why a handler cannot be called alongside those that were registered earlier, by selectors that are written otherwise.
func (r *resolved) clash(h *handler) error {
	for _, other := range slices.Concat(r.changes, r.tasks, r.reconcileHandlers()) {
		if err := h.clash(other); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolved) add(h *handler) {
	switch h.kind {
	case kindEvent:
		r.events = append(r.events, h)
	case kindDaemon, kindTimer:
		r.tasks = append(r.tasks, h)
		r.idle = r.idle || h.task.idle > 0
	case kindIndex:
		r.indices = append(r.indices, h)
		return
	case kindReconcile:
		r.reconciles = append(r.reconciles, &reconciling{handler: h, manager: cmp.Or(h.reconcile.manager, r.resource.fieldManager())})
		return
	default:
		r.changes = append(r.changes, h)
	}
	if len(h.field) > 0 {
		if path := Path(h.field...); !slices.Contains(r.fields, path) {
			r.fields = append(r.fields, path)
		}
	}
}

// resources returns the resources that a handler is for, and warnings why it is for none or not for some.
func (h *handler) resources(found []discovery.Resource) (able []discovery.Resource, warnings []string) {
	fit, problem := h.selected(found)
	if problem != "" {
		return nil, []string{problem}
	}
	return h.selector.Servable(fit, found, h.kind != kindEvent && h.kind != kindIndex && h.kind != kindReconcile, string(h.id))
}

// selected returns the resources that the selector fits. A predicate that panics fits none: it must not end the operator.
func (h *handler) selected(found []discovery.Resource) (fit []discovery.Resource, problem string) {
	defer func() {
		if v := recover(); v != nil {
			fit, problem = nil, fmt.Sprintf("The option Where of handler %q has panicked, and the handler is not called: %v", h.id, v)
		}
	}()
	return h.selector.Select(found), ""
}

// indexSpec is what only indices have. The types of keys and values are known inside of the functions.
type indexSpec struct {
	runner newIndexRunner
	types  reflect.Type
	fill   func() index.Data
	call   func(ctx context.Context, i *Indexing) (any, error)
}

// admissionSpec is what only handlers of admission have.
type admissionSpec struct {
	runner         newReviewRunner
	call           AdmissionFunc
	operations     []Operation // none means all
	subresource    string
	persistent     bool
	sideEffects    bool
	ignoreFailures bool
	when           func(*Admission) bool
}

// setOperations checks the operations, and keeps each once.
func (a *admissionSpec) setOperations(operations []Operation) error {
	if operations != nil && len(operations) == 0 {
		return errors.New("invalid option Operations []: want at least one, or nil for all")
	}
	for _, op := range operations {
		switch op {
		case OperationCreate, OperationUpdate, OperationDelete, OperationConnect:
		default:
			return fmt.Errorf("invalid operation %q: want CREATE, UPDATE, DELETE or CONNECT", op)
		}
		if !slices.Contains(a.operations, op) {
			a.operations = append(a.operations, op)
		}
	}
	return nil
}

// taskSpec is what only daemons and timers have.
type taskSpec struct {
	runner           newTaskRunner
	daemon           DaemonFunc
	timer            TimerFunc
	delay, jitter    time.Duration
	delayOf          func(*Object) time.Duration
	interval         time.Duration
	idle             time.Duration
	sharp            bool
	backoff          time.Duration // of the cancellation
	timeout          time.Duration
	pollInterval     time.Duration
	withoutFinalizer bool // whether the object is not held for it
}

// check returns what is wrong with the times of the options.
func (s *taskSpec) check() error {
	err := validation.NotNegative([]string{"InitialDelay", "Jitter", "Interval", "Idle", "CancellationBackoff", "CancellationTimeout", "CancellationPolling"},
		s.delay, s.jitter, s.interval, s.idle, s.backoff, s.timeout, s.pollInterval)
	if err != nil {
		return err
	}
	if err := validation.Interval(s.interval); err != nil {
		return fmt.Errorf("invalid option Interval %w", err)
	}
	if s.delay != 0 && s.delayOf != nil {
		return fmt.Errorf("the option InitialDelay %s cannot be combined with InitialDelayFunc", s.delay)
	}
	return nil
}
