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
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/funcid"
	"github.com/kopf-go/kopf/internal/index"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/rights"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/validation"
)

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

// handler is one registered function with its options.
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

	patchWarnings boundedset.Set // the warnings about its patches that were logged
}

// registration is the identity and the place of a registered function.
type registration struct {
	fn    funcid.ID
	where string // the line of the registration
}

// activitySpec is the function of an activity or a probe: one of these.
type activitySpec struct {
	activity ActivityFunc
	login    LoginFunc
	probe    ProbeFunc
}

// changeSpec has the options of change handlers only.
type changeSpec struct {
	change        ChangeFunc
	optional      bool
	deleted       bool
	interruptible bool
	needsChange   bool
	keys          []string // annotation keys of its progress, under the default prefix
}

// retryPolicy has the options about errors.
type retryPolicy struct {
	errors  ErrorsMode
	timeout time.Duration
	retries int
	backoff time.Duration
}

// Registry holds the handlers of an operator. Its zero value is empty and ready to use. It is safe for concurrent use. A running operator ignores handlers
// that are registered later, and logs a warning.
type Registry struct {
	base *Registry // of the operator, whose contents a run has, too; nil if it is not that of a run

	mu sync.Mutex // guards following; that of a run is locked before that of its operator
	contents
	settings []settingsFunc // of Configure
	calling  *Registry      // of the run whose start-up handler is being called; nil for none

	lateHandlers, lateSettings lateWarnings
}

// contents are what programs register, except for settings.
type contents struct {
	handlers []*handler
	defined  []definedKind
	needs    []rights.Declaration // of handlers by their clients
}

// with returns the contents, and more of them.
func (c contents) with(more contents) contents {
	return contents{
		handlers: slices.Concat(c.handlers, more.handlers),
		defined:  slices.Concat(c.defined, more.defined),
		needs:    slices.Concat(c.needs, more.needs),
	}
}

// forRun returns the registry of a run: what start-up handlers register in it comes on top of the
// contents of the operator's registry.
func (r *Registry) forRun() *Registry { return &Registry{base: r} }

// target returns the registry to register in: that of a run while its start-up handler is called.
func (r *Registry) target() *Registry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.calling, r)
}

// all returns the contents of a locked registry.
func (r *Registry) all() contents {
	if r.base == nil {
		return r.contents
	}
	return r.base.copied().with(r.contents)
}

// copied returns a copy of the contents.
func (r *Registry) copied() contents {
	r.mu.Lock()
	defer r.mu.Unlock()
	return contents{}.with(r.all())
}

// beginAttempt begins an attempt of a start-up handler: until end is called, registrations in the
// operator's registry go to that of the run. The end drops those of a failed attempt. It returns nil
// during an attempt of another run, because a registration does not say for which run it is.
func (r *Registry) beginAttempt() (end func(succeeded bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.contents
	if !r.base.takeTurn(r) {
		return nil
	}
	return func(succeeded bool) {
		r.base.endTurn()
		r.mu.Lock()
		defer r.mu.Unlock()
		if !succeeded {
			r.contents = contents{}.with(before) // not with the same arrays, which snapshots share
		}
	}
}

func (r *Registry) takeTurn(run *Registry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calling != nil {
		return false
	}
	r.calling = run
	return true
}

func (r *Registry) endTurn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calling = nil
}

// settingsFunc is a function that sets settings, and the line of its registration.
type settingsFunc struct {
	set   func(*Settings)
	where string
}

// Configure registers a function in the default registry that sets the settings of operators. See [Registry.Configure].
func Configure(set func(*Settings)) { DefaultRegistry().addSettings(set, callSite()) }

// Configure registers a function that sets the settings of operators with this registry: the
// default ones, or [Operator.Settings]. kopf calls the functions in their order, once for each run,
// before the start-up handlers, and then the functions that these functions register. It also calls
// them for each other command of [Main], so that "status", "explain" and "manifests" have the same
// settings as the running operator. The flags of the command line take precedence. A running
// operator ignores functions that are registered later, and logs a warning. The function must not
// wait for anything. Configure panics if the function is nil.
func (r *Registry) Configure(set func(*Settings)) { r.addSettings(set, callSite()) }

func (r *Registry) addSettings(set func(*Settings), where string) {
	if set == nil {
		panic("kopf: Configure at " + where + ": the function is nil")
	}
	f := settingsFunc{set, where}
	r.mu.Lock()
	r.settings = append(r.settings, f)
	late := r.lateSettings.take()
	r.mu.Unlock()
	for w := range late {
		w.warnSettings(f)
	}
}

// mostNestedSettings limits the functions that the functions of [Registry.Configure] register.
const mostNestedSettings = 1000

// configure calls the functions of [Registry.Configure], and then those that these have registered.
// It returns their number. A panic of one is an error.
func (r *Registry) configure(settings *Settings) (called int, err error) {
	all := r.settingsFrom(0)
	limit := len(all) + mostNestedSettings
	for ; len(all) > 0; all = r.settingsFrom(called) {
		f := all[0]
		if called++; called > limit {
			return called, fmt.Errorf("the functions of Configure register one another without an end, the last one at %s", f.where)
		}
		err := safecall.Do(func() error {
			f.set(settings)
			return nil
		})
		if err != nil {
			return called, fmt.Errorf("the function of Configure at %s: %w", f.where, err)
		}
	}
	return called, nil
}

// settingsFrom returns the functions of [Registry.Configure] from an index.
func (r *Registry) settingsFrom(i int) []settingsFunc {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings[i:]
}

// lateWarning warns an operator of something that was registered too late for it.
type lateWarning struct{ log *slog.Logger }

func (w *lateWarning) warnSettings(f settingsFunc) {
	w.log.Warn("A function of Configure was registered while the operator runs; it is not called before the operator is started again", "registered", f.where,
		"hint", "call Configure before the operator runs; a start-up handler can change Activity.Settings", "help", "K102")
}

// lateWarnings are those of running operators that have not warned yet. They are guarded by the
// registry.
type lateWarnings map[*lateWarning]struct{}

// add adds the warning of an operator.
func (l *lateWarnings) add(w *lateWarning) {
	if *l == nil {
		*l = make(lateWarnings)
	}
	(*l)[w] = struct{}{}
}

// take returns the warnings, and removes them.
func (l *lateWarnings) take() lateWarnings {
	all := *l
	*l = nil
	return all
}

// warnLateSettings warns of the first function of [Registry.Configure] after the called ones that
// is registered before end is called.
func (r *Registry) warnLateSettings(log *slog.Logger, called int) (end func()) {
	w := &lateWarning{log}
	r.mu.Lock()
	late := r.settings[called:]
	if len(late) == 0 {
		r.lateSettings.add(w)
	}
	r.mu.Unlock()
	if len(late) > 0 {
		w.warnSettings(late[0])
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.lateSettings, w)
	}
}

// begin returns a copy of the registry of a starting run. Until end is called, the first later
// registration of a handler in the operator's registry logs a warning.
func (r *Registry) begin(log *slog.Logger) (served *Registry, end func()) {
	w := &lateWarning{log}
	b := r.base
	b.mu.Lock()
	b.lateHandlers.add(w)
	early := contents{}.with(b.contents)
	b.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Registry{contents: early.with(r.contents)}, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.lateHandlers, w)
	}
}

// warnLate warns that running operators do not call a new handler. Handlers of logins, clean-ups and leading are exempt, because operators look them up when
// they need them.
func (r *Registry) warnLate(h *handler) {
	switch h.kind {
	case kindLogin, kindCleanup, kindStartedLeading, kindStoppedLeading:
		return
	}
	r.mu.Lock()
	late := r.lateHandlers.take()
	r.mu.Unlock()
	for w := range late {
		w.log.Warn("A handler was registered while the operator runs; it is not called before the operator is started again", "handler", string(h.id), "registered", h.registered.where,
			"hint", "register handlers before the operator runs, or in a start-up handler", "help", "K102")
	}
}

var defaultRegistry struct {
	mu sync.Mutex // guards registry
	*Registry
}

// DefaultRegistry returns the registry of the package's functions, and of operators without a Registry.
func DefaultRegistry() *Registry {
	defaultRegistry.mu.Lock()
	defer defaultRegistry.mu.Unlock()
	if defaultRegistry.Registry == nil {
		defaultRegistry.Registry = &Registry{}
	}
	return defaultRegistry.Registry
}

// SetDefaultRegistry replaces the registry that [DefaultRegistry] returns, and in which the functions of the package register. Nil means a new one, made at
// the next use. Running operators keep their former registry.
func SetDefaultRegistry(r *Registry) {
	defaultRegistry.mu.Lock()
	defer defaultRegistry.mu.Unlock()
	defaultRegistry.Registry = r
}

// add registers a handler, or returns an error.
func (r *Registry) add(h *handler) error {
	r = r.target()
	if err := r.append(h); err != nil {
		return err
	}
	r.warnLate(h)
	return nil
}

func (r *Registry) append(h *handler) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.all().handlers {
		if err := h.conflict(other); err != nil {
			return err
		}
	}
	r.handlers = append(r.handlers, h)
	return nil
}

// conflict returns an error if two handlers would share their progress on the objects.
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

// clash returns an error if one resource cannot have both handlers.
func (h *handler) clash(other *handler) error {
	if h.reconcile != nil && other.reconcile != nil {
		return h.reconcile.clash(h, other)
	}
	if h.stateless() || other.stateless() || h.background() != other.background() || h.id == other.id && h.registered.fn == other.registered.fn {
		return nil
	}
	key, shared := sharedKey(h.changes.keys, other.changes.keys)
	if !shared || h.id == other.id && !h.overlaps(other) {
		return nil // the latter, for example, for one ID with different functions for creations and updates
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

// sharedKey returns a common key.
func sharedKey(keys, others []string) (key string, shared bool) {
	for _, key := range keys {
		if slices.Contains(others, key) {
			return key, true
		}
	}
	return "", false
}

// overlaps reports whether one cause can call both handlers. Field handlers are called for any cause, and resume handlers together with those of updates and
// deletions.
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

// transient reports whether nothing is stored or served under the handler's ID, so that only logs and the program see it.
func (h *handler) transient() bool {
	return h.kind == kindEvent || h.kind == kindIndex || h.kind == kindReconcile || h.kind >= kindStartup && h.admission == nil
}

// stateless reports whether kopf stores no state for the handler.
func (h *handler) stateless() bool {
	return h.kind == kindEvent || h.kind == kindIndex || h.kind == kindReconcile || h.admission != nil
}

// stateful reports whether kopf stores state for the handler on the objects: its progress, or the finalizer.
func (h *handler) stateful() bool { return !h.stateless() }

// background reports whether the handler is a daemon or a timer, whose state is not on the object.
func (h *handler) background() bool { return h.task != nil }

// checkID validates an ID that becomes a part of annotation names.
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

// newSubhandler makes a sub-handler of a running handler.
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

// selectHandlers returns the handlers that match a cause, each function once per ID.
func selectHandlers(owned []*handler, c *Change, initial bool) []*handler {
	var selected []*handler
	for _, h := range owned {
		if !h.isIn(selected) && h.matchesFor(c, initial, c.answers.to(h, c.Body, false)) {
			selected = append(selected, h)
		}
	}
	return selected
}

// resolved has the handlers and settings of one resource.
type resolved struct {
	resource        Resource
	events, changes []*handler
	tasks, indices  []*handler
	reconciles      []*reconciling
	follows         []*follow   // follows of this resource by reconcile handlers of other ones
	idle            bool        // whether a timer has the option Idle
	fields          []FieldPath // of the handlers, which are tracked, too
	counts          *metrics.Resource
	persistence     *PersistenceSettings // with storages
	annotated       *PersistenceSettings // with storages for objects whose status drops the state; nil if persistence is for all
	unread          bool                 // whether the schema could not be read, so that state stays in its place
	since           time.Time            // the start of serving these handlers
}

// callsHandlers reports whether the objects need more than indexing and following children.
func (r *resolved) callsHandlers() bool {
	return len(r.events)+len(r.changes)+len(r.tasks)+len(r.reconciles) > 0 || slices.ContainsFunc(r.follows, func(f *follow) bool { return !f.spec.owns })
}

// snapshot returns the current handlers.
func (r *Registry) snapshot() []*handler { return r.copied().handlers }

// serving reports whether there are handlers of objects.
func (r *Registry) serving() bool {
	return slices.ContainsFunc(r.snapshot(), func(h *handler) bool { return h.kind < kindSub || h.admission != nil })
}

// unknownHandlers returns a note for commands, which call no start-up handlers: these may register others. It is "" without any.
func (r *Registry) unknownHandlers() string {
	if len(r.activities(kindStartup)) == 0 {
		return ""
	}
	return "This command calls no start-up handlers, so it does not know the handlers that they register"
}

// first returns the first handler of a family, nil if there is none.
func (r *Registry) first(family func(*handler) bool) *handler {
	all := r.snapshot()
	if i := slices.IndexFunc(all, family); i >= 0 {
		return all[i]
	}
	return nil
}

// isIn reports whether the handlers contain the same function with the same ID.
func (h *handler) isIn(all []*handler) bool {
	return slices.ContainsFunc(all, func(o *handler) bool { return o.id == h.id && o.registered.fn == h.registered.fn })
}

// activities returns the handlers of one activity, each function once per ID.
func (r *Registry) activities(kind handlerKind) []*handler {
	var all []*handler
	for _, h := range r.snapshot() {
		if h.kind == kind && !h.isIn(all) {
			all = append(all, h)
		}
	}
	return all
}

// groups returns the API groups of all selectors, or nil if one of them matches any group.
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

// resolve finds the resources of each handler, and returns warnings about those that cannot be served. It does not warn of missing resources in groups whose
// discovery has failed.
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

// versionWarnings warns of handlers for several versions of one resource. These share the objects, with their finalizer and annotations.
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

// handlers returns all handlers of the resource, those with stored state first.
func (r *resolved) handlers() []*handler {
	return slices.Concat(r.changes, r.tasks, r.events, r.indices, r.reconcileHandlers())
}

// sameHandlers reports whether the resource has the same handlers as before.
func (r *resolved) sameHandlers(before *resolved) bool {
	added := func(f *follow) bool { return !slices.ContainsFunc(before.follows, f.same) }
	return slices.Equal(r.handlers(), before.handlers()) && len(r.follows) == len(before.follows) && !slices.ContainsFunc(r.follows, added)
}

// clash returns an error if a handler conflicts with earlier ones, whose selectors may differ.
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

// resources returns the resources of a handler, and warnings about unsuitable or missing ones.
func (h *handler) resources(found []discovery.Resource) (able []discovery.Resource, warnings []string) {
	fit, problem := h.selected(found)
	if problem != "" {
		return nil, []string{problem}
	}
	return h.selector.Servable(fit, found, h.kind != kindEvent && h.kind != kindIndex && h.kind != kindReconcile, string(h.id))
}

// selected returns the resources that match the selector. If a predicate panics, none match.
func (h *handler) selected(found []discovery.Resource) (fit []discovery.Resource, problem string) {
	err := safecall.Do(func() error {
		fit = h.selector.Select(found)
		return nil
	})
	if panicked, ok := err.(*safecall.PanicError); ok {
		const text = "The option Where of handler %q has panicked, and the handler is not called: %v"
		return nil, fmt.Sprintf(text, h.id, panicked.Value)
	}
	return fit, ""
}

// indexSpec has the options of indices only. The functions know the types of keys and values.
type indexSpec struct {
	runner newIndexRunner
	types  reflect.Type
	fill   func() index.Data
	call   func(ctx context.Context, i *Indexing) (any, error)
}

// admissionSpec has the options of admission handlers only.
type admissionSpec struct {
	runner         newReviewRunner
	call           AdmissionFunc
	operations     []Operation // none means all
	subresource    string
	persistent     bool
	sideEffects    bool
	ignoreFailures bool
	when           func(*Admission) bool
	patched        atomic.Bool // whether it is validating and has changed its Patch, which was logged
}

// setOperations validates and deduplicates the operations.
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

// taskSpec has the options of daemons and timers only.
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
	withoutFinalizer bool // whether it needs no finalizer
}

// exitTimeout returns how long an operator that stops waits for the task after the cancellation of
// its context; 0 for no limit.
func (s *taskSpec) exitTimeout(settings *BackgroundSettings) time.Duration {
	return cmp.Or(s.timeout, settings.ExitTimeout)
}

// check validates the durations of the options.
func (s *taskSpec) check() error {
	err := validation.Durations([]string{"InitialDelay", "Jitter", "Interval", "Idle", "CancellationBackoff", "CancellationTimeout", "CancellationPolling"},
		s.delay, s.jitter, s.interval, s.idle, s.backoff, s.timeout, s.pollInterval)
	if err != nil {
		return err
	}
	if s.delay != 0 && s.delayOf != nil {
		return fmt.Errorf("the option InitialDelay %s cannot be combined with InitialDelayFunc", s.delay)
	}
	return nil
}
