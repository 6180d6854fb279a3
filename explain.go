package kopf

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/funcid"
	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/pauser"
)

// This file explains what an operator does with an object, and why. A real cycle decides, and the explanation describes its decision. It calls no handlers
// and changes nothing.

// inspector makes cycles for objects outside of watch streams.
type inspector struct {
	settings *Settings
	client   *Client // for predicates; nil without a cluster
	notes    *inspection.Notes
	running  bool // whether to assume that daemons run for an object that is being deleted
}

// cycle returns a cycle that only decides about an object. The flag listed means that the operator has just started.
func (i *inspector) cycle(what *resolved, body *Body, listed bool) *cycle {
	log := slog.New(i.notes)
	r := &reactor{
		environment: &environment{settings: i.settings, lifecycle: AllAtOnce, log: log, memo: &Memo{}, pauser: &pauser.Pauser{}, events: idleEvents{}, handlers: context.Background(), indices: newIndices(&Registry{contents: contents{handlers: what.indices}})},
		began:       time.Now().Add(-1), requests: context.Background(), daemons: idleTasks{running: i.running}, handed: i.client,
	}
	r.reconciler = idleReconciler{}
	r.queue = newQueue(0, log, r)
	r.queue.pauser = r.pauser
	r.served.Store(what)
	e := &entry{key: body.key(), name: body.name, namespace: &namespace{name: body.namespace}, listed: listed, state: &objectState{}, version: body.version, hasUID: body.uid != ""}
	e.typeMeta.Store(what.resource.typeMeta())
	return r.cycle(e, RawEvent{Type: Modified, Body: body}, epoch{})
}

// idleTasks replaces daemons and timers. It assumes that none of them runs, or, with running, that all matching daemons do.
type idleTasks struct {
	taskRunner
	running bool
}

// spawn implements [taskRunner].
func (t idleTasks) spawn(_ *entry, handlers []*handler, o *Object, _ *Essence) (held bool) {
	return slices.ContainsFunc(handlers, func(h *handler) bool {
		return (t.running && h.kind == kindDaemon || !o.Body.Deleting()) && !h.task.withoutFinalizer && h.matchesObject(o)
	})
}

// idleReconciler replaces the reconcile handlers, none of which runs.
type idleReconciler struct{ reconcileRunner }

// isParent implements [reconcileRunner].
func (idleReconciler) isParent(c *cycle) bool {
	return isParentOf(c.event.Body, setID(c.event.Body.Reference(), c.served.resource))
}

// stalled implements [reconcileRunner]. Only the conditions tell, if they are of one handler.
func (idleReconciler) stalled(c *cycle, h *handler) bool {
	others := func(rec *reconciling) bool { return rec.handler != h && rec.handler.reconcile.conditions }
	if !h.reconcile.conditions || slices.ContainsFunc(c.served.reconciles, others) {
		return false
	}
	s := &inspection.Status{}
	readConditions(c.served.resource, c.event.Body, s)
	return s.State == inspection.Failed
}

// idleEvents posts no events.
type idleEvents struct{ eventRecorder }

// logLevel implements [eventRecorder].
func (idleEvents) logLevel() (slog.Level, bool) { return 0, false }

// explain returns what an operator does with an object of a resource.
func (i *inspector) explain(what *resolved, body *Body, listed bool) *inspection.Explanation {
	ref, storage := body.Reference(), what.persistence
	x := &inspection.Explanation{Object: inspection.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
	if prefixes := prefixesOf(storage.DiffBaseStorage); len(prefixes) > 0 {
		x.Operator = prefixes[0]
	}
	c := i.cycle(what, body, listed)
	if len(what.handlers()) == 0 {
		c.compare(x)
		c.explainFailures(x)
		x.Notes = append(x.Notes, i.notes.Messages()...)
		return x
	}
	for range 3 { // each step leads to another one, or to the handlers
		c.decided = c.decide()
		step, patch := "", &Patch{}
		switch c.decided.Kind {
		case decision.RemoveLegacy:
			step, patch.changes.Removes = "the finalizers of an older operator are removed: "+strings.Join(storage.LegacyFinalizers, ", "), storage.LegacyFinalizers
		case decision.AddFinalizer:
			step, patch.changes.Adds = "the finalizer "+storage.Finalizer+" is added", []string{storage.Finalizer}
		case decision.RemoveFinalizer:
			step, patch.changes.Removes = "the finalizer "+storage.Finalizer+" is removed, because no handler needs it", []string{storage.Finalizer}
		}
		if step == "" {
			break
		}
		x.Steps = append(x.Steps, step)
		c = i.cycle(what, patch.applied(c.event.Body), listed)
	}
	if gone := c.event.Body; gone.Deleting() && len(gone.Finalizers()) == 0 {
		c.event.Type, c.decided = Deleted, decision.Action{Kind: decision.End, Reason: decision.Gone}
		if len(x.Steps) > 0 { // it existed before the steps
			c.event.Type = Modified
		}
	}
	c.explain(x)
	c.explainFailures(x)
	x.Notes = append(x.Notes, i.notes.Messages()...)
	return x
}

// explainName is the name of the annotation that enables the log of decisions about an object.
const explainName = "explain"

// explainKey returns the annotation that enables the log of decisions about an object. It has the first prefix of the storage.
func (p *PersistenceSettings) explainKey() string {
	return append(prefixesOf(p.DiffBaseStorage), markers.DefaultPrefix)[0] + "/" + explainName
}

// note records the decision and the handlers to call. For objects with the annotation, it also logs them with the reasons.
func (c *cycle) note(chosen []*progress) {
	looks, x := c.reactor.looks, &inspection.Explanation{}
	if !livepage.Included || looks == nil {
		return
	}
	explained := c.decided.Kind == decision.Handle || c.decided.Kind == decision.Unchanged || c.decided.Kind == decision.Skip
	if explained {
		c.explainChosen(x, chosen)
	} else {
		x.Cause, x.Decision = string(c.decided.Reason), inspection.Decision(c.decided, inspection.Outlook{})
	}
	a := c.decided
	if a.Kind == decision.Handle {
		_, a.Wait = c.handlersDone(time.Now())
	}
	looks.Add(c.entry.key, a, false, x.Verdicts())
	if c.event.Body.Has(Path("metadata", "annotations", c.served.persistence.explainKey())) {
		c.log.Info("The decision about the object was made", "cause", x.Cause, "decision", x.Decision, "handlers", x.Summary())
	}
}

// chooseHandlers returns the handlers of the cause and those to call now, and records them.
func (c *cycle) chooseHandlers() (top, chosen []*progress) {
	top = c.topHandlers()
	chosen = c.chooseDue(top)
	c.note(chosen)
	return top, chosen
}

// compare explains the cause for an object without handlers.
func (c *cycle) compare(x *inspection.Explanation) {
	c.compareWithBase()
	c.retrack()
	s, body := &decision.Snapshot{}, c.event.Body
	s.Stored, s.Deleting, s.Finalized = c.states.before != nil, body.Deleting(), slices.Contains(body.Finalizers(), c.served.persistence.Finalizer)
	s.Changed = s.Stored && !c.states.before.Equal(c.states.essence)
	c.decided.Reason, _ = s.Reason()
	x.Cause, x.Decision = string(c.decided.Reason), "unknown: this program has no handlers for "+c.served.resource.Name()
	if c.decided.Reason == decision.Noop {
		x.Decision = "nothing: the object is as it was last handled"
	}
	c.explainChanges(x)
}

// explainChanges lists the differences to the last-handled configuration.
func (c *cycle) explainChanges(x *inspection.Explanation) {
	if c.decided.Reason != decision.Update {
		return
	}
	for _, d := range diffJSON(valueOf(c.states.before), valueOf(c.states.essence)) {
		old, now := c.served.resource.loggable(d.Old), c.served.resource.loggable(d.New)
		x.Changes = append(x.Changes, inspection.Change{Operation: string(d.Operation), Field: string(Path(d.Path...)), Old: old, New: now})
	}
}

// explain explains the decision.
func (c *cycle) explain(x *inspection.Explanation) {
	if c.decided.Kind == decision.Handle {
		c.prepareHandling()
		c.collectHandlers()
		if c.reason() != ReasonDelete && c.behind() != nil {
			x.Notes = append(x.Notes, "Some handlers have finished with an earlier state of the object. When all have finished, kopf calls handlers for what has changed since that state")
		}
	}
	c.explainChanges(x)
	c.explainChosen(x, c.chooseDue(c.topHandlers()))
}

// explainChosen explains the decision, with the handlers that the lifecycle has selected.
func (c *cycle) explainChosen(x *inspection.Explanation, chosen []*progress) {
	outlook := inspection.Outlook{Handlers: len(c.topHandlers()), Due: len(chosen)}
	outlook.Done, outlook.Wait = c.handlersDone(time.Now())
	x.Cause, x.Decision = string(c.decided.Reason), inspection.Decision(c.decided, outlook)
	for _, h := range c.served.handlers() {
		of := inspection.Handler{ID: string(h.id), Kind: kindNames[h.kind], Registered: path.Base(h.registered.where)}
		switch {
		case h.kind < kindDaemon && h.kind != kindEvent:
			c.explainChange(h, chosen, x.Decision, &of)
		default:
			c.explainObserver(h, &of)
		}
		x.Handlers = append(x.Handlers, of)
	}
	x.Conclude(c.decided)
}

// explainFailures adds the permanent failures of the last handling.
func (c *cycle) explainFailures(x *inspection.Explanation) {
	failed := failuresOn(c.event.Body, c.served.persistence.ProgressStorage, c.states.stored)
	if c.decided.Kind != decision.Skip { // otherwise, the handlers do not match the object any more
		x.AddFailures(failed, time.Now())
	}
}

// explainChange explains whether kopf calls a change handler.
func (c *cycle) explainChange(h *handler, chosen []*progress, decided string, of *inspection.Handler) {
	if p := c.findProgress(h.id); p != nil && p.selected && p.handler.isIn([]*handler{h}) {
		c.explainProgress(p, chosen, of)
		return
	}
	cause := c.cause
	cause.Old = cause.Body.viewOf(c.states.before.bytes())
	cause.New = cause.Body.viewOf(c.states.essence.bytes())
	why, known := cause.answers.of(h, cause.Body, true)
	if !known {
		h.preMatchesFor(&cause, why)
	}
	if why.fits && c.decided.Kind != decision.Handle {
		of.Verdict, of.Why = decision.NotNow, strings.TrimPrefix(decided, "nothing: ")
		return
	}
	if why.fits {
		if why, known = cause.answers.of(h, cause.Body, false); !known {
			h.matchesFor(&cause, c.decided.Initial, why)
		}
	}
	if of.Why, of.Verdict = "another handler with the same id and function is called", decision.After; !why.fits {
		of.Why, of.Verdict = c.explainMismatch(h, why, &cause), why.verdict()
	}
}

// explainProgress explains whether a handler that matches the cause is called now.
func (c *cycle) explainProgress(p *progress, chosen []*progress, of *inspection.Handler) {
	h, r, now := p.handler, p.record, time.Now()
	of.Attempts = r.Retries
	if r.Message != nil && !r.waits() {
		of.Error = *r.Message
	}
	state := inspection.Progress{Success: r.Success, Failure: r.Failure, Stopped: r.Stopped, Waiting: r.waits(), Renewed: p.otherCause != nil && r.Retries == 0, Cause: c.decided.Reason}
	counted := r.Retries
	if state.Waiting {
		counted = 0
	}
	if _, state.Wait = p.due(now); state.Wait > 0 && !r.finished() {
		of.Next = &r.Delayed
	}
	state.Exhausted = h.exhausted(counted, now.Sub(r.Started), 0, nil)
	if len(chosen) > 0 && !slices.Contains(chosen, p) {
		state.After = string(chosen[0].handler.id)
	}
	of.Explain(state, now)
}

// explainObserver explains whether another kind of handler matches the object.
func (c *cycle) explainObserver(h *handler, of *inspection.Handler) {
	o := c.object(c.event.Body)
	why, known := o.answers.of(h, o.Body, false)
	switch {
	case known:
	case why.kept && h.kind == kindEvent: // a running operator checks it only for events
		of.Why, of.Verdict = "is called for events, and none has come", decision.NotNow
		return
	case why.kept && (h.task != nil || h.reconcile != nil) && o.Body.Deleting(): // the cycle has not checked it either
		of.Why, of.Verdict = "the object is being deleted", decision.NotNow
		return
	case h.kind == kindEvent:
		h.matchesEvent(&WatchEvent{Object: o, Type: c.event.Type}, why)
	default:
		h.matchesObjectFor(&o, why)
	}
	switch of.Called, of.Verdict = why.fits, decision.Called; {
	case !why.fits:
		of.Why, of.Verdict = c.explainMismatch(h, why, &Change{Object: o}), why.verdict()
	case h.kind == kindEvent:
		of.Why = "is called for each event of the object"
	case c.event.Type == Deleted:
		of.Called, of.Verdict, of.Why = false, decision.NotNow, strings.TrimPrefix(inspection.Decision(c.decided, inspection.Outlook{}), "nothing: ")
	case h.kind == kindIndex:
		of.Why = "the object is indexed"
	case o.Body.Deleting():
		of.Called, of.Verdict, of.Why = false, decision.NotNow, "the object is being deleted"
	case h.kind == kindDaemon:
		of.Why = "runs for the object"
	case h.kind == kindTimer:
		of.Why = h.task.describe()
	case h.reconcile != nil && c.reactor.reconciler.stalled(c, h):
		of.Called, of.Verdict = false, decision.Failed
		of.Why = "has failed permanently, and is called when the object changes, or what it owns or watches"
	default:
		of.Why = "is called when the object changes, or what it owns or watches, and when it asks for that"
	}
}

// describe returns when a timer is called.
func (t *taskSpec) describe() string {
	switch {
	case t.interval > 0 && t.idle > 0:
		return "is called every " + t.interval.String() + ", when the object was idle for " + t.idle.String()
	case t.interval > 0:
		return "is called every " + t.interval.String()
	case t.idle > 0:
		return "is called once after each change, when the object was idle for " + t.idle.String()
	}
	return "is called once"
}

// verdict returns the kind of a mismatch.
func (m *mismatch) verdict() decision.Verdict {
	if m.panicked != nil {
		return decision.Panicked
	}
	return [...]decision.Verdict{decision.OtherCause, decision.ByLabel, decision.ByAnnotation, decision.ByField, decision.NotChanged, decision.ByOldValue, decision.ByNewValue, decision.ByPredicate}[m.part]
}

// explainMismatch names the filter that the object does not match.
func (c *cycle) explainMismatch(h *handler, m *mismatch, cause *Change) string {
	field := strings.Join(h.field, ".")
	switch {
	case m.panicked != nil:
		return fmt.Sprintf("%s has panicked: %v", h.placeOf(m.want), m.panicked)
	case m.part == partReason:
		called := map[handlerKind]Reason{kindCreate: ReasonCreate, kindUpdate: ReasonUpdate, kindDelete: ReasonDelete, kindResume: ReasonResume}[h.kind]
		return fmt.Sprintf("is called for each %s, and this is the %s", inspection.CauseName(decision.Reason(called)), inspection.CauseName(decision.Reason(cause.Reason)))
	case m.part == partWhen:
		return h.placeOf(nil) + " is false"
	case m.part == partChange:
		return field + " has not changed"
	}
	subject := map[filterPart]string{partLabel: "label " + m.key, partAnnotation: "annotation " + m.key}[m.part]
	r := c.served.resource
	f := inspection.Filtered{Subject: cmp.Or(subject, field), Before: m.part == partOld, Present: m.got.Has(""), Value: r.loggable(m.got.Get("")), Want: h.inspected(m.want, r)}
	return f.String()
}

// inspected returns a criterion of the handler for display.
func (h *handler) inspected(c *criterion, r Resource) inspection.Criterion {
	state := inspection.Criterion{Literal: r.loggable(c.literal), Present: c.marker == Present, Absent: c.marker == Absent}
	if c.predicate != nil {
		state.Predicate = h.placeOf(c)
	}
	return state
}

// placeOf returns the place of a predicate's function, unless this package has combined it of others.
func (h *handler) placeOf(c *criterion) string {
	var fn any
	switch {
	case c != nil && c.predicate != nil:
		fn = c.predicate
	case h.filters.when != nil:
		fn = h.filters.when
	case h.filters.whenEvent != nil:
		fn = h.filters.whenEvent
	case h.filters.whenObject != nil:
		fn = h.filters.whenObject
	}
	if fn != nil {
		if _, symbol := funcid.Of(fn).Name(); !strings.HasPrefix(symbol, reflect.TypeFor[handlerKind]().PkgPath()+".") {
			return "the predicate of " + funcid.Place(funcid.Of(fn).Code)
		}
	}
	return "the predicate of the handler registered at " + path.Base(h.registered.where)
}

// explainReview explains whether an admission handler is called for the object.
func (h *handler) explainReview(r Resource, body *Body, i *inspector) inspection.Handler {
	of := inspection.Handler{ID: string(h.id), Kind: kindNames[h.kind], Registered: path.Base(h.registered.where)}
	why, c := &mismatch{}, i.cycle(&resolved{resource: r, persistence: i.settings.Persistence.resolve(false)}, body, false)
	a := &Admission{Object: c.object(body)}
	fits := h.guarded(&Change{Object: a.Object}, why, func() bool { return h.fitsReview(a, why) })
	if of.Called = fits; fits {
		of.Why = "is asked about " + h.operations()
	} else {
		of.Why = c.explainMismatch(h, why, &Change{Object: a.Object})
	}
	return of
}

// operations names the operations of an admission handler.
func (h *handler) operations() string {
	var all []string
	for _, op := range []Operation{OperationCreate, OperationUpdate, OperationDelete, OperationConnect} {
		if h.coversOperation(op, h.admission.subresource) {
			all = append(all, string(op))
		}
	}
	return strings.TrimSuffix(strings.Join(all, ", ")+" of the subresource "+h.admission.subresource, " of the subresource ")
}

// describe returns the conditions of a handler, and the marks that it leaves on objects.
func (h *handler) describe(r Resource, p *PersistenceSettings) inspection.HandlerCondition {
	d := inspection.HandlerCondition{ID: string(h.id), Kind: kindNames[h.kind], Registered: path.Base(h.registered.where)}
	for _, c := range h.filters.labels {
		d.Filters = append(d.Filters, "label "+c.key+h.inspected(c.criterion, r).String())
	}
	for _, c := range h.filters.annotations {
		d.Filters = append(d.Filters, "annotation "+c.key+h.inspected(c.criterion, r).String())
	}
	f := &h.filters
	if field := strings.Join(h.field, "."); field != "" {
		for _, one := range []struct {
			what string
			want *criterion
		}{{field, f.value}, {"the former value of " + field, f.old}, {"the new value of " + field, f.new}} {
			if one.want != nil {
				d.Filters = append(d.Filters, one.what+h.inspected(one.want, r).String())
			}
		}
		if f.value == nil && f.old == nil && f.new == nil {
			d.Filters = append(d.Filters, field)
		}
	}
	if f.when != nil || f.whenEvent != nil || f.whenObject != nil || h.admission != nil && h.admission.when != nil {
		d.Filters = append(d.Filters, h.placeOf(nil))
	}
	if h.retry.timeout > 0 {
		d.Limits = append(d.Limits, "timeout "+h.retry.timeout.String())
	}
	if h.retry.retries > 0 {
		d.Limits = append(d.Limits, fmt.Sprintf("%d attempts", h.retry.retries))
	}
	if h.retry.backoff > 0 {
		d.Limits = append(d.Limits, "backoff "+h.retry.backoff.String())
	}
	if h.admission != nil {
		d.Filters = append(d.Filters, h.operations())
	}
	if h.kind == kindDelete && !h.changes.optional || h.task != nil && !h.task.withoutFinalizer {
		d.Stores = append(d.Stores, "finalizer")
	}
	if h.changes.change != nil {
		d.Stores = append(d.Stores, "progress in "+placeOfProgress(p.recordPlace(), h.id))
	}
	if h.changes.change != nil || h.background() {
		d.Stores = append(d.Stores, "results in status."+string(h.id))
	}
	return d
}

// placeOfProgress names the place of the progress of a handler, the first one for several storages.
func placeOfProgress(storage ProgressStorage, id HandlerID) string {
	switch s := storage.(type) {
	case *AnnotationsProgressStorage:
		return "the annotation " + s.keys(string(id), nil)[0]
	case *StatusProgressStorage:
		return "the field " + strings.Join(s.field(id), ".")
	case *SmartProgressStorage:
		return placeOfProgress(s.annotations(), id)
	case MultiProgressStorage:
		if len(s) > 0 {
			return placeOfProgress(s[0], id)
		}
	}
	return "a storage of the program"
}
