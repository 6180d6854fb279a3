package kopf

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/essence"
	"github.com/kopf-go/kopf/internal/firstlisting"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file filters out the events that need no work: most of those of a restart, of unhandled changes, and of the operator's own patches. It works on the
// bytes of an event, on the goroutine of the stream. It decodes no bodies, starts no workers, and adds unknown objects as idle entries. If the bytes do not
// suffice, the cycle in reactor.go decides, by the same function. The prefilter never calls functions of users, which can be slow.
//
// It skips an idle object that is not being deleted, has the finalizer only if it needs it, and equals its last-handled configuration.

// objectsHandler passes the objects of a resource to its reactor.
type objectsHandler struct {
	observerHandler
	reactor   *reactor
	resource  Resource
	meta      *typeMeta
	from      *source
	prefilter streamPrefilter
	sync      *listingSync // nil without indices

	counts firstlisting.Counts
}

func (h *objectsHandler) OnListing() {
	h.counts = firstlisting.Counts{}
	h.reactor.listing.Begin()
	h.reactor.queue.beginListing(h.from)
	if r := h.reactor.reconciler; r != nil {
		r.beginList(h.reactor, h.from)
	}
}

func (h *objectsHandler) OnEvent(t string, header *rawjson.Header, raw []byte) {
	skipped, unmatched := h.prefilter.skip(h.reactor, EventType(t), header, raw, h.from)
	if t == string(Listed) {
		h.counts.Add(skipped, unmatched)
	}
	if !skipped {
		h.reactor.enqueue(streamed(t, header, raw, h.meta), h.from)
	}
}

func (h *objectsHandler) Throttle(ctx context.Context, limit time.Duration) {
	h.o.limiter.WaitBacklog(ctx, limit)
}

func (h *objectsHandler) OnListed(version string) {
	h.reactor.listing.End(h.o.log, h.resource.Name(), h.from, h.counts)
	if !h.reactor.queue.sweep(h.from) {
		return
	}
	if h.sync != nil {
		h.sync.synced()
	}
	if r := h.reactor.reconciler; r != nil {
		r.endList(h.reactor, h.from, apirequest.VersionNumber(version))
	}
}

func (h *objectsHandler) OnListError(err error) {
	if h.sync != nil {
		h.sync.failed(err)
	}
}

func (h *objectsHandler) OnRestored() {
	h.reactor.queue.forgetVersions(h.from)
	if r := h.reactor.reconciler; r != nil {
		r.forgetVersions(h.from)
	}
}

func (h *objectsHandler) OnEnd() {
	if !h.reactor.queue.isClosed(h.from) { // the operator is stopping, so nothing more starts with an incomplete list
		return
	}
	if r := h.reactor.reconciler; r != nil {
		r.unfollow(h.from)
	}
	if h.sync != nil {
		h.sync.synced()
	}
}

// Admit waits until the operator does not pause for the resource and the namespace.
func (h *objectsHandler) Admit(ctx context.Context) (inner context.Context, release func()) {
	o, background := h.o, h.reactor.daemons
	what := strings.TrimSuffix(h.resource.Name()+" in "+h.from.namespace, " in ")
	if background != nil && o.pauser.Paused() { // without waiting for the peers of other namespaces
		background.pause(h.from.namespace)
	}
	o.peers.waitObserved(ctx)
	paused := false
	inner, epoch, release := o.pauser.WaitActive(ctx, func(blockers string) {
		paused = true
		o.log.Debug(fmt.Sprintf("Pausing the watch-stream for %s (blockers: %s).", what, blockers))
		if background != nil {
			background.pause(h.from.namespace)
		}
	})
	if paused {
		o.log.Debug("Resuming the watch-stream for " + what + ".")
	}
	h.reactor.queue.openSource(h.from, epoch)
	return inner, release
}

// prefilter checks the objects of one resource.
type prefilter struct {
	handlers         []*handler // change handlers
	others           []*handler // that can only be ruled out for an object
	follows          []*follow  // the same
	watched          bool       // whether some of them watch the objects, with functions of users
	apiVersion, kind string
	finalizer        string
	explained        []byte // the annotation of objects whose decisions are logged
	legacy           []string
	log              *slog.Logger
	counts           *metrics.Resource

	stored essence.Comparer

	// These are reused for each object.
	body   Body // without an identity, until it is followed
	change Change
}

// prefilter returns the prefilter of the resource, nil if only cycles can decide.
func (r *resolved) prefilter(log *slog.Logger) *prefilter {
	settings, others := r.persistence, slices.Concat(r.events, r.tasks, r.indices, r.reconcileHandlers())
	if settings.IgnoreCopies || r.resource.Kind == "ReplicaSet" || len(settings.trackingOf(r.fields).Fields) > 0 ||
		slices.ContainsFunc(r.changes, (*handler).needsCycle) || slices.ContainsFunc(others, (*handler).hasMetaPredicate) || slices.ContainsFunc(r.follows, (*follow).hasPredicate) {
		return nil
	}
	filter := &prefilter{handlers: r.changes, others: others, follows: r.follows, finalizer: settings.Finalizer, explained: []byte(settings.explainKey()), legacy: settings.LegacyFinalizers, log: log, counts: r.counts, apiVersion: r.resource.APIVersion(), kind: r.resource.Kind}
	filter.watched = slices.ContainsFunc(r.follows, func(f *follow) bool { return !f.spec.owns })
	if !filter.progress(settings.ProgressStorage) || !filter.base(settings.DiffBaseStorage) {
		return nil
	}
	return filter
}

// needsCycle reports whether a filter of the handler is a function of the user, or its field may be one of kopf's annotations.
func (h *handler) needsCycle() bool {
	f := &h.filters
	ours := len(h.field) > 1 && h.field[0] == "metadata" && h.field[1] == "annotations"
	return ours || f.when != nil || f.value.hasPredicate() || f.old.hasPredicate() || f.new.hasPredicate() || h.hasMetaPredicate()
}

// hasMetaPredicate reports whether a filter for the labels or the annotations is a function of the user.
func (h *handler) hasMetaPredicate() bool {
	for _, match := range [][]keyCriterion{h.filters.labels, h.filters.annotations} {
		for _, c := range match {
			if c.hasPredicate() {
				return true
			}
		}
	}
	return false
}

func (c *criterion) hasPredicate() bool { return c != nil && c.predicate != nil }

// progress sets the places of records, and reports whether they are known.
func (p *prefilter) progress(storage ProgressStorage) bool {
	status := func(s *StatusProgressStorage) bool {
		p.stored.Transient = append(p.stored.Transient, statusField(s.Field, s.Name, "progress"), s.touchField())
		return p.stored.Transient[0][0] == "status" && p.stored.Transient[1][0] == "status"
	}
	switch s := storage.(type) {
	case *AnnotationsProgressStorage:
		p.stored.Prefixes = append(p.stored.Prefixes, cmp.Or(s.Prefix, markers.DefaultPrefix))
	case *StatusProgressStorage:
		return status(s)
	case *SmartProgressStorage:
		p.stored.Prefixes = append(p.stored.Prefixes, cmp.Or(s.Prefix, markers.DefaultPrefix))
		return status(s.status())
	default:
		return false
	}
	return true
}

// base sets the places of the last-handled configuration, and reports whether they are known.
func (p *prefilter) base(storage DiffBaseStorage) bool {
	switch s := storage.(type) {
	case *AnnotationsDiffBaseStorage:
		keys := s.keys(nil)
		p.stored.Annotation = keys[0]
		p.stored.Prefixes = append(p.stored.Prefixes, cmp.Or(s.Prefix, markers.DefaultPrefix))
		p.stored.Keys = keys
		for _, key := range []string{trackedKey, markers.Reconciled} {
			p.stored.Keys = append(p.stored.Keys, s.withKey(key).(*AnnotationsDiffBaseStorage).keys(nil)...)
		}
		return len(keys) == 1 && len(s.IgnoredFields) == 0
	case *StatusDiffBaseStorage:
		p.stored.Field = s.field()
		p.stored.Transient = append(p.stored.Transient, s.withKey(formerKey).(*StatusDiffBaseStorage).field())
		return p.stored.Field[0] == "status" && len(p.stored.Field) > 1 && len(s.IgnoredFields) == 0
	case *SmartDiffBaseStorage:
		if s.inStatus {
			return p.base(s.annotations()) && p.base(s.status())
		}
		p.stored.Transient = append(p.stored.Transient, s.status().field()) // state there must move
		return p.base(s.annotations()) && s.status().field()[0] == "status"
	}
	return false
}

// streamPrefilter is the prefilter of one stream, with its own buffers.
type streamPrefilter struct {
	served *resolved // the source of the prefilter
	p      *prefilter
}

// skip reports whether an event needs no worker, and whether no handler matches the object.
func (s *streamPrefilter) skip(r *reactor, t EventType, o *rawjson.Header, raw []byte, from *source) (skipped, unmatched bool) {
	if now := r.served.Load(); now != s.served {
		s.served, s.p = now, now.prefilter(r.log)
	}
	if s.p == nil {
		return false, false
	}
	return r.skip(s.p, t, o, raw, from)
}

// skip reports whether an event needs no worker, and whether no handler matches the object.
func (r *reactor) skip(p *prefilter, t EventType, o *rawjson.Header, raw []byte, from *source) (skipped, unmatched bool) {
	uid, version := rawjson.PlainText(o.UID.Of(raw)), rawjson.PlainText(o.ResourceVersion.Of(raw))
	if t == Deleted || len(uid) == 0 || len(version) == 0 || !rawjson.IsNull(o.DeletionTimestamp.Of(raw)) {
		return false, false
	}
	e, idle, initial, seen := r.queue.lookupIdle(t, uid, version, from)
	if seen {
		p.counts.Received(string(t))
		return true, false
	}
	if !idle || e == nil && !r.memo.empty() || e != nil && !e.last.unmatched && len(p.others) > 0 {
		return false, false
	}
	followed := len(p.follows) > 0 && r.follows(p, e, o, raw)
	a := p.decide(o, raw, initial)
	if livepage.Included && r.looks != nil && bytes.Contains(o.Annotations.Of(raw), p.explained) || followed && p.watched || a.Kind != decision.Skip && a.Kind != decision.Unchanged {
		return false, false
	}
	handled := a.Kind == decision.Unchanged
	var ref ObjectReference
	if e == nil {
		ref = ObjectReference{APIVersion: p.apiVersion, Kind: p.kind, Namespace: rawjson.Unquote(o.Namespace.Of(raw)), Name: rawjson.Unquote(o.Name.Of(raw)), UID: string(uid)}
	} else {
		ref = e.ref()
	}
	var at epoch
	if !r.queue.updateIdle(e, t, ref, string(version), from, func(now *entry) {
		e, at = now, now.epoch
		e.last.unmatched = !handled
		e.last.trackingCurrent = e.last.trackingCurrent || handled
		e.last.handled = e.last.handled || handled && initial
		if !handled { // a handler that failed permanently does not match any more
			e.last.failed = false
			r.queue.setFailedLocked(e, false)
		}
	}) {
		return false, false
	}
	if p.counts.Received(string(t)); livepage.Included && r.looks != nil {
		r.looks.Add(string(uid), a, true, nil)
	}
	p.logSkip(ref, a)
	if followed {
		p.body.apiVersion, p.body.kind = ref.APIVersion, ref.Kind
		p.body.namespace, p.body.name, p.body.uid, p.body.version = ref.Namespace, ref.Name, ref.UID, string(version)
		r.reconciler.follow(r, e, RawEvent{Type: t, Body: &p.body}, at)
	}
	return true, !handled && !followed
}

// follows reports whether reconcile handlers of other kinds may follow an object.
func (r *reactor) follows(p *prefilter, e *entry, o *rawjson.Header, raw []byte) bool {
	p.body.outline(o, raw, 0)
	concerns := func(f *follow) bool { return f.concerns(&p.body) }
	return e != nil && (e.last.notified || r.reconciler.isChild(e)) || slices.ContainsFunc(p.follows, concerns)
}

// logSkip logs at the level DEBUG what a cycle would have logged.
func (p *prefilter) logSkip(ref ObjectReference, a decision.Action) {
	if a.Kind != decision.Unchanged || !p.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	log := objectLogger(p.log, ref)
	if a.Initial {
		log.Debug("Handling is finished, with nothing to store")
	} else {
		log.Debug("No tracked field has changed; skipping handlers", "reason", a.Reason)
	}
}

// decide returns the decision about an idle object, as far as its bytes show that. The flag initial means that it existed before the operator, and was not
// handled since.
func (p *prefilter) decide(o *rawjson.Header, raw []byte, initial bool) decision.Action {
	var s decision.Snapshot
	s.Finalized, s.Legacy = markers.Finalizers(o.Finalizers.Of(raw), p.finalizer, p.legacy)
	p.body.outline(o, raw, 0)
	c := &p.change
	*c = Change{Object: Object{Body: &p.body}}
	fits := func(h *handler) bool { return h.filters.fitsMeta(&c.Object, nil) }
	if slices.ContainsFunc(p.handlers, fits) || slices.ContainsFunc(p.others, fits) || s.Finalized && len(p.others) > 0 {
		if len(p.others) > 0 || !p.stored.SameAsStored(o, raw) {
			return decision.Action{Kind: decision.Observe}
		}
		s.Stored, s.Initial = true, initial
		c.Old, c.New, c.Reason = View{raw: p.stored.Now()}, View{raw: p.stored.Now()}, ReasonResume
		for _, h := range p.handlers {
			if h.preMatches(c) {
				matched(&s, h)
				s.Resumes = s.Resumes || initial && h.matches(c, true)
			}
		}
	}
	s.Stage = decision.StateObserved
	return decision.Decide(&s)
}
