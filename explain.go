package kopf

import (
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
	"github.com/kopf-go/kopf/internal/pauser"
)

// This file explains what an operator does with an object, and why: a cycle decides that, as for an object that a stream brings, and what it has decided is told. No handler is called, and
// nothing is changed.

// inspector makes cycles for objects that no stream has brought.
type inspector struct {
	settings *Settings
	client   *Client // that predicates get; nil without a cluster
	notes    *inspection.Notes
	running  bool // whether to suppose that the daemons of an object that is being deleted still run
}

// cycle returns a cycle that decides about an object and does nothing. The flag listed says that the operator has just started.
func (i *inspector) cycle(what *resolved, body *Body, listed bool) *cycle {
	log := slog.New(i.notes)
	r := &reactor{
		environment: &environment{settings: i.settings, lifecycle: AllAtOnce, log: log, memo: &Memo{}, pauser: &pauser.Pauser{}, events: idleEvents{}, handlers: context.Background(), indices: newIndices(&Registry{handlers: what.indices})},
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

// idleTasks stands for daemons and timers where none of them runs, or all daemons do that are for the object: timers between two calls end at once.
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

// idleReconciler stands for reconcile handlers where none of them runs.
type idleReconciler struct{ reconcileRunner }

// isParent implements [reconcileRunner].
func (idleReconciler) isParent(c *cycle) bool {
	return isParentOf(c.event.Body, setID(c.event.Body.Reference(), c.served.resource))
}

// idleEvents stands for what posts events where none are posted.
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
		x.Notes = append(x.Notes, i.notes.Messages()...)
		return x
	}
	for range 3 { // each step leads to another one, or to the handlers
		c.decided = c.decide()
		step, patch := "", &Patch{}
		switch c.decided.Kind {
		case decision.RemoveLegacy:
			step, patch.removes = "the finalizers of an older operator are removed: "+strings.Join(storage.LegacyFinalizers, ", "), storage.LegacyFinalizers
		case decision.AddFinalizer:
			step, patch.adds = "the finalizer "+storage.Finalizer+" is added", []string{storage.Finalizer}
		case decision.RemoveFinalizer:
			step, patch.removes = "the finalizer "+storage.Finalizer+" is removed, because no handler needs it", []string{storage.Finalizer}
		}
		if step == "" {
			break
		}
		x.Steps = append(x.Steps, step)
		c = i.cycle(what, patch.applied(c.event.Body), listed)
	}
	if gone := c.event.Body; gone.Deleting() && len(gone.Finalizers()) == 0 {
		c.event.Type, c.decided = Deleted, decision.Action{Kind: decision.End, Reason: decision.Gone}
		if len(x.Steps) > 0 { // it was there before
			c.event.Type = Modified
		}
	}
	c.explain(x)
	x.Notes = append(x.Notes, i.notes.Messages()...)
	return x
}

// compare tells what has happened to an object that the program has no handlers for.
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

// explainChanges tells the differences to the last handled state.
func (c *cycle) explainChanges(x *inspection.Explanation) {
	if c.decided.Reason != decision.Update {
		return
	}
	for _, d := range diffJSON(valueOf(c.states.before), valueOf(c.states.essence)) {
		old, now := c.served.resource.loggable(d.Old), c.served.resource.loggable(d.New)
		x.Changes = append(x.Changes, inspection.Change{Operation: string(d.Operation), Field: string(Path(d.Path...)), Old: old, New: now})
	}
}

// explain tells what was decided.
func (c *cycle) explain(x *inspection.Explanation) {
	if c.decided.Kind == decision.Handle {
		c.prepareHandling()
		c.collectHandlers()
		if s := c.states.seen; s != nil && s.essence != nil && c.reason() != ReasonDelete && !s.essence.Equal(c.states.essence) {
			x.Notes = append(x.Notes, "Handlers that have finished have seen another state of the object. It is noted as handled at the end, and then handlers are called for what has changed since")
		}
	}
	chosen := c.chooseDue(c.topHandlers())
	x.Cause, x.Decision = string(c.decided.Reason), c.explainDecision(chosen)
	c.explainChanges(x)
	for _, h := range c.served.handlers() {
		of := inspection.Handler{ID: string(h.id), Kind: kindNames[h.kind], Registered: path.Base(h.registered.where)}
		switch {
		case h.kind < kindDaemon && h.kind != kindEvent:
			c.explainChange(h, chosen, &of)
		default:
			c.explainObserver(h, &of)
		}
		x.Handlers = append(x.Handlers, of)
	}
}

// explainDecision says what is to be done with the object, as one sentence without its end.
func (c *cycle) explainDecision(chosen []*progress) string {
	switch a := c.decided; a.Kind {
	case decision.End:
		return "nothing: no finalizer holds the object, so that it is gone"
	case decision.Skip:
		return "nothing: no handler of changes is for the object"
	case decision.DeleteMembers:
		return "the children without an owner reference are deleted before the object may go"
	case decision.Handle:
		done, wait := c.handlersDone(time.Now())
		switch what := causeNames[Reason(a.Reason)]; {
		case done && len(c.topHandlers()) == 0:
			return "no handler is for the " + what + ", which is noted as handled"
		case done:
			return "all handlers for the " + what + " have finished, which is noted"
		case len(chosen) == 0:
			return "nothing now: the next attempt for the " + what + " is in " + inspection.Age(wait)
		default:
			return "the handlers for the " + what + " are called"
		}
	case decision.Unchanged:
		switch a.Reason {
		case decision.Free:
			return "nothing: the object is being deleted, and the operator does not hold it"
		case decision.Resume:
			return "nothing: the object is as it was last handled, and no handler is called when the operator starts"
		}
		return "nothing: the object is as it was last handled"
	}
	return "nothing now"
}

// causeNames are what has happened, in sentences.
var causeNames = map[Reason]string{ReasonCreate: "creation", ReasonUpdate: "update", ReasonDelete: "deletion", ReasonResume: "resuming", reasonNoop: "change that was taken back"}

// explainChange tells whether a handler of changes is called.
func (c *cycle) explainChange(h *handler, chosen []*progress, of *inspection.Handler) {
	why, cause := &mismatch{}, c.cause
	if p := c.findProgress(h.id); p != nil && p.selected && p.handler.isIn([]*handler{h}) {
		c.explainProgress(p, chosen, of)
		return
	}
	switch cause.Old, cause.New = c.states.before.View(), c.states.essence.View(); {
	case !h.preMatchesFor(&cause, why):
		of.Why = c.explainMismatch(h, why, &cause)
	case c.decided.Kind != decision.Handle:
		of.Why = strings.TrimPrefix(c.explainDecision(chosen), "nothing: ")
	case !h.matchesFor(&cause, c.decided.Initial, why):
		of.Why = c.explainMismatch(h, why, &cause)
	default:
		of.Why = "another handler with the same id and function is called"
	}
}

// explainProgress tells whether a handler that is for the cause is called now.
func (c *cycle) explainProgress(p *progress, chosen []*progress, of *inspection.Handler) {
	h, r, now := p.handler, p.record, time.Now()
	of.Attempts = r.Retries
	if r.Message != nil && !r.waits() {
		of.Error = *r.Message
	}
	ago := func(t time.Time) string { return inspection.Age(now.Sub(t)) + " ago" }
	counted := r.Retries
	if r.waits() {
		counted = 0
	}
	due, wait := p.due(now)
	limit := h.exhausted(counted, now.Sub(r.Started), nil)
	switch {
	case r.Success:
		of.Why = "has succeeded " + ago(r.Stopped)
	case r.Failure:
		of.Why = "has failed for good " + ago(r.Stopped) + ": " + of.Error
	case !due:
		of.Next, of.Why = &r.Delayed, "the next attempt is in "+inspection.Age(wait)
		if r.waits() {
			of.Why = "waits for its sub-handlers; it is called again in " + inspection.Age(wait)
		} else if of.Error != "" {
			of.Why += ", after the error: " + of.Error
		}
	case limit != nil:
		of.Why = "fails for good without a call: " + limit.Error()
	case !slices.Contains(chosen, p):
		of.Why = "waits for " + string(chosen[0].handler.id)
	case p.otherCause != nil && r.Retries == 0:
		of.Called, of.Why = true, "is called again, because it has not seen the last change"
	case r.Retries > 0:
		of.Called, of.Why = true, strings.TrimSuffix(fmt.Sprintf("is called again, after %d attempts", r.Retries), map[bool]string{true: "s"}[r.Retries == 1])
	default:
		of.Called, of.Why = true, "is for the "+causeNames[c.reason()]
	}
}

// explainObserver tells whether a handler is for the object that is none of changes.
func (c *cycle) explainObserver(h *handler, of *inspection.Handler) {
	why, o := &mismatch{}, c.object(c.event.Body)
	fits := false
	if h.kind == kindEvent {
		fits = h.matchesEvent(&WatchEvent{Object: o, Type: c.event.Type}, why)
	} else {
		fits = h.matchesObjectFor(&o, why)
	}
	switch of.Called = fits; {
	case !fits:
		of.Why = c.explainMismatch(h, why, &Change{Object: o})
	case h.kind == kindEvent:
		of.Why = "is called for each event of the object"
	case c.event.Type == Deleted:
		of.Called, of.Why = false, strings.TrimPrefix(c.explainDecision(nil), "nothing: ")
	case h.kind == kindIndex:
		of.Why = "the object is indexed"
	case o.Body.Deleting():
		of.Called, of.Why = false, "the object is being deleted"
	case h.kind == kindDaemon:
		of.Why = "runs for the object"
	case h.kind == kindTimer:
		of.Why = h.task.describe()
	default:
		of.Why = "is called when the object changes, or what it owns or watches, and when it asks for that"
	}
}

// describe says when a timer is called.
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

// explainMismatch says which filter of a handler the object does not fit.
func (c *cycle) explainMismatch(h *handler, m *mismatch, cause *Change) string {
	field, was := strings.Join(h.field, "."), " is "
	subject := map[filterPart]string{partLabel: "label " + m.key, partAnnotation: "annotation " + m.key, partField: field, partOld: field, partNew: field}[m.part]
	if m.part == partOld {
		was = " was "
	}
	predicate := h.placeOf(m)
	switch {
	case m.panicked != nil:
		return fmt.Sprintf("%s has panicked: %v", predicate, m.panicked)
	case m.part == partReason:
		return fmt.Sprintf("is called for each %s, and this is the %s", map[handlerKind]string{kindCreate: "creation", kindUpdate: "update", kindDelete: "deletion", kindResume: "resuming"}[h.kind], causeNames[cause.Reason])
	case m.part == partWhen:
		return predicate + " is false"
	case m.part == partChange:
		return field + " has not changed"
	}
	value := "absent"
	if m.got.Has("") {
		value = inspection.Value(c.served.resource.loggable(m.got.Get("")))
	}
	switch {
	case m.want.predicate != nil:
		return predicate + " is false for " + subject + ", which" + was + value
	case m.want.marker == Absent:
		return subject + was + value + ", and is to be absent"
	case m.want.marker == Present:
		return subject + was + value + ", and is to be present"
	}
	return subject + was + value + ", " + inspection.Value(c.served.resource.loggable(m.want.literal)) + " is wanted"
}

// placeOf says which predicate a filter is, by the place of its function, unless it is one that this package has made of others.
func (h *handler) placeOf(m *mismatch) string {
	var fn any
	switch {
	case m.want != nil && m.want.predicate != nil:
		fn = m.want.predicate
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

// explainReview tells whether a handler of admission is asked about the object.
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

// operations names the operations that a handler of admission is asked about.
func (h *handler) operations() string {
	var all []string
	for _, op := range []Operation{OperationCreate, OperationUpdate, OperationDelete, OperationConnect} {
		if h.coversOperation(op, h.admission.subresource) {
			all = append(all, string(op))
		}
	}
	return strings.TrimSuffix(strings.Join(all, ", ")+" of the subresource "+h.admission.subresource, " of the subresource ")
}

// describe tells when a handler is called, and what it leaves on objects.
func (h *handler) describe(r Resource) inspection.HandlerCondition {
	d := inspection.HandlerCondition{ID: string(h.id), Kind: kindNames[h.kind], Registered: path.Base(h.registered.where)}
	for _, c := range h.filters.labels {
		d.Filters = append(d.Filters, "label "+c.key+c.criterion.describe(r))
	}
	for _, c := range h.filters.annotations {
		d.Filters = append(d.Filters, "annotation "+c.key+c.criterion.describe(r))
	}
	f := &h.filters
	if field := strings.Join(h.field, "."); field != "" {
		for _, one := range []struct {
			what string
			want *criterion
		}{{field, f.value}, {"the former value of " + field, f.old}, {"the new value of " + field, f.new}} {
			if one.want != nil {
				d.Filters = append(d.Filters, one.what+one.want.describe(r))
			}
		}
		if f.value == nil && f.old == nil && f.new == nil {
			d.Filters = append(d.Filters, field)
		}
	}
	if f.when != nil || f.whenEvent != nil || f.whenObject != nil || h.admission != nil && h.admission.when != nil {
		d.Filters = append(d.Filters, strings.TrimPrefix(h.placeOf(&mismatch{}), "the "))
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
		for _, key := range h.changes.keys[:1] {
			d.Stores = append(d.Stores, "progress in the annotation "+key)
		}
	}
	if h.changes.change != nil || h.background() {
		d.Stores = append(d.Stores, "results in status."+string(h.id))
	}
	return d
}

// describe tells what a value must be.
func (c *criterion) describe(r Resource) string {
	switch {
	case c.predicate != nil:
		return " by " + "a predicate"
	case c.marker != 0:
		return " " + strings.ToLower(c.marker.String())
	}
	return " = " + inspection.Value(r.loggable(c.literal))
}
