package kopf

import (
	"bytes"
	"context"
	"log/slog"
	"slices"

	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file sees at a glance that there is nothing to do for an object, which holds for most events: those of a restart, of the changes that
// nobody handles, and of our own patches coming back. It looks at the bytes as they came in, on the goroutine of the stream: no body is made,
// nothing is decoded, no worker is started, and an object that was not known becomes an idle entry. What it does not
// understand it leaves to the cycle in reactor.go, which comes to the same end more slowly. It never calls functions of users, which could
// take their time.
//
// The way: the entry is idle, the object is neither deleted nor held by a finalizer that it should not have, or the other
// way round, and it is stored as handled what it is now: the essence is written to a buffer as it would be stored, what is stored is
// unquoted to another one, and the two are compared.

// glancer is what one resource's objects are looked at with.
type glancer struct {
	handlers         []*handler // of changes
	others           []*handler // of which can only be said that they are not for an object
	apiVersion, kind string
	finalizer        string
	legacy           []string
	log              *slog.Logger
	counts           *metrics.Resource

	annotation string     // that the essence is stored in; "" if it is in the status
	prefixes   []string   // of annotations that are ours
	keys       []string   // those of them that an object at rest may have
	field      []string   // of the status that the essence is stored in
	transient  [][]string // fields of the status that an object at rest does not have

	now, before []byte // buffers, as the following
	body        Body
	change      Change
}

// glancer returns what the objects are looked at with, nil if it takes more than a glance to see that there is nothing to do.
func (what *resolved) glancer(p *PersistenceSettings, log *slog.Logger) *glancer {
	others := slices.Concat(what.events, what.tasks, what.indices)
	if p.IgnoreCopies || what.resource.Kind == "ReplicaSet" || len(p.trackingOf(what.fields).Fields) > 0 ||
		slices.ContainsFunc(what.changes, (*handler).unusual) || slices.ContainsFunc(others, (*handler).asksMeta) {
		return nil
	}
	g := &glancer{handlers: what.changes, others: others, finalizer: p.Finalizer, legacy: p.LegacyFinalizers, log: log, counts: what.counts, apiVersion: what.resource.APIVersion(), kind: what.resource.Kind}
	if !g.progress(p.ProgressStorage) || !g.base(p.DiffBaseStorage) {
		return nil
	}
	return g
}

// unusual tells whether a filter of the handler is a function of the user's, or its field one of the annotations, which can be any, ours included.
func (h *handler) unusual() bool {
	f := &h.filters
	ours := len(h.field) > 1 && h.field[0] == "metadata" && h.field[1] == "annotations"
	return ours || f.when != nil || f.value.asks() || f.old.asks() || f.new.asks() || h.asksMeta()
}

// asksMeta tells whether a filter for the labels or the annotations is a function of the user's.
func (h *handler) asksMeta() bool {
	for _, match := range []map[string]*criterion{h.filters.labels, h.filters.annotations} {
		for _, c := range match {
			if c.asks() {
				return true
			}
		}
	}
	return false
}

func (c *criterion) asks() bool { return c != nil && c.predicate != nil }

// progress notes where records are kept, and tells whether that is known.
func (g *glancer) progress(storage ProgressStorage) bool {
	status := func(s *StatusProgressStorage) bool {
		g.transient = append(g.transient, statusField(s.Field, s.Name, "progress"), s.touchField())
		return g.transient[0][0] == "status" && g.transient[1][0] == "status"
	}
	switch s := storage.(type) {
	case *AnnotationsProgressStorage:
		g.prefixes = append(g.prefixes, orElse(s.Prefix, defaultPrefix))
	case *StatusProgressStorage:
		return status(s)
	case *SmartProgressStorage:
		g.prefixes = append(g.prefixes, orElse(s.Prefix, defaultPrefix))
		return status(s.status())
	default:
		return false
	}
	return true
}

// base notes where essences are kept, and tells whether that is known.
func (g *glancer) base(storage DiffBaseStorage) bool {
	switch s := storage.(type) {
	case *AnnotationsDiffBaseStorage:
		keys := s.keys(nil)
		g.annotation = keys[0]
		g.prefixes = append(g.prefixes, orElse(s.Prefix, defaultPrefix))
		g.keys = append(s.beside(trackedKey).(*AnnotationsDiffBaseStorage).keys(nil), keys...)
		return len(keys) == 1 && len(s.IgnoredFields) == 0
	case *StatusDiffBaseStorage:
		g.field = s.field()
		g.transient = append(g.transient, s.beside(formerKey).(*StatusDiffBaseStorage).field())
		return g.field[0] == "status" && len(g.field) > 1 && len(s.IgnoredFields) == 0
	}
	return false
}

// looker returns the function that a stream shows its events to first.
func (r *reactor) looker(from *source) func(t EventType, o *rawjson.Header, raw []byte, round uint64) bool {
	var served *resolved
	var g *glancer // has buffers, and so belongs to one stream
	return func(t EventType, o *rawjson.Header, raw []byte, round uint64) bool {
		if now := r.served.Load(); now != served {
			served, g = now, now.glancer(&r.settings.Persistence, r.log)
		}
		return g != nil && r.glance(g, t, o, raw, from, round)
	}
}

// glance tells whether an event is done with by a look at it.
func (r *reactor) glance(g *glancer, t EventType, o *rawjson.Header, raw []byte, from *source, round uint64) bool {
	uid, version := plainText(o.UID.Of(raw)), plainText(o.ResourceVersion.Of(raw))
	if t == Deleted || len(uid) == 0 || len(version) == 0 || !rawjson.IsNull(o.DeletionTimestamp.Of(raw)) || round != r.pauses.now() {
		return false
	}
	s, settled, seen := r.queue.settled(uid, version, from, round)
	if seen {
		g.counts.Received(string(t))
		return true
	}
	if !settled || s == nil && !r.memo.empty() || s != nil && !s.unwanted && len(g.others) > 0 {
		return false
	}
	initial := t == Listed
	if s != nil {
		initial = s.listed && !s.handled
	}
	verdict := g.look(o, raw, initial)
	if verdict == unclear {
		return false
	}
	var ref ObjectReference
	if s == nil {
		ref = ObjectReference{APIVersion: g.apiVersion, Kind: g.kind, Namespace: rawjson.Unquote(o.Namespace.Of(raw)), Name: rawjson.Unquote(o.Name.Of(raw)), UID: string(uid)}
	} else {
		ref = s.ref()
	}
	if !r.queue.take(s, t, ref, string(version), from, round, func(s *entry) {
		s.unwanted = verdict == unwanted
		s.tracked = s.tracked || verdict == unchanged
		s.handled = s.handled || verdict == unchanged && initial
	}) {
		return false
	}
	g.counts.Received(string(t))
	g.tell(ref, verdict, initial)
	return true
}

// plainText returns the text of a quoted string that means itself, nothing of others.
func plainText(quoted []byte) []byte {
	if !rawjson.IsQuoted(quoted) || !rawjson.IsPlain(quoted) {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

// verdict is what a glance has found.
type verdict int

const (
	unclear   verdict = iota
	unwanted          // no handler is for the object
	unchanged         // it is as it was when it was handled
)

// tell logs for debugging what a cycle would have logged.
func (g *glancer) tell(ref ObjectReference, v verdict, initial bool) {
	if v != unchanged || !g.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	log := objectLogger(g.log, ref)
	if initial {
		log.Debug("The handling is over, and there was nothing to store; the next change is awaited.")
	} else {
		log.Debug("Nothing has changed that is handled.", "reason", ReasonNoop)
	}
}

// look finds out whether there is anything to do for an object. The flag initial says that it was there before the operator and was not
// handled since.
func (g *glancer) look(o *rawjson.Header, raw []byte, initial bool) verdict {
	holds, fine := g.held(o.Finalizers.Of(raw))
	if !fine {
		return unclear
	}
	annotations, labels := o.Annotations.Of(raw), o.Labels.Of(raw)
	g.body = Body{raw: raw, meta: o.Metadata.Of(raw), labels: labels, annotations: annotations}
	c := &g.change
	*c = Change{Object: Object{Body: &g.body}}
	fits := func(h *handler) bool { return h.filters.fitsMeta(&c.Object) }
	if !holds && !slices.ContainsFunc(g.handlers, fits) && !slices.ContainsFunc(g.others, fits) {
		return unwanted
	}
	if len(g.others) > 0 {
		return unclear
	}
	stored, ok := g.essence(o, raw, labels, annotations)
	if !ok {
		return unclear
	}
	g.before = bytes.TrimSpace(rawjson.AppendUnquoted(g.before[:0], stored))
	if !bytes.Equal(g.now, g.before) {
		return unclear
	}
	c.Old, c.New, c.Reason = View{raw: g.now}, View{raw: g.now}, ReasonResume
	wanted, required := false, false
	for _, h := range g.handlers {
		if h.preMatches(c) {
			wanted = true
			required = required || h.kind == kindDelete && !h.optional
			if initial && h.matches(c, true) {
				return unclear // it is to be resumed
			}
		}
	}
	switch {
	case required != holds:
		return unclear
	case !wanted:
		return unwanted
	}
	return unchanged
}

// held tells whether our finalizer is on the object, and that there is none of an older operator.
func (g *glancer) held(finalizers []byte) (holds, fine bool) {
	fine = true
	_ = rawjson.EachItem(finalizers, func(quoted []byte) bool { // what is malformed is not there
		name := rawjson.Text(quoted)
		holds = holds || string(name) == g.finalizer
		fine = !slices.ContainsFunc(g.legacy, func(f string) bool { return f == string(name) })
		return fine
	})
	return holds, fine
}

// essence writes the essence of an object, as it would be stored, to the buffer, and returns what is stored, in quotes. It fails
// if there is anything on the object that it does not know.
func (g *glancer) essence(o *rawjson.Header, raw, labels, annotations []byte) (stored []byte, ok bool) {
	if o.OtherCount > rawjson.MaxOther {
		return nil, false
	}
	b := append(g.now[:0], '{')
	for i, part := range o.Other[:o.OtherCount] {
		key := part.Key.Of(raw)
		if !rawjson.IsPlain(key) || slices.ContainsFunc(o.Other[:i], func(other rawjson.HeaderMember) bool { return bytes.Equal(other.Key.Of(raw), key) }) {
			return nil, false
		}
		b = rawjson.AppendCompact(append(appendNext(b, key), ':'), part.Value.Of(raw))
	}
	whole := len(b)
	b = append(appendNext(b, []byte(`"metadata"`)), ':', '{')
	meta := len(b)
	if !rawjson.IsNull(labels) && labels[rawjson.SkipSpace(labels, 1)] != '}' {
		b = rawjson.AppendCompact(append(appendNext(b, []byte(`"labels"`)), ':'), labels)
	}
	b, stored, ok = g.annotate(b, annotations)
	if len(b) == meta {
		b = b[:whole]
	} else {
		b = append(b, '}')
	}
	g.now = append(b, '}')
	if !ok {
		return nil, false
	}
	return g.kept(o.Status.Of(raw), stored)
}

// appendNext appends the key of the next member of an object.
func appendNext(b, quoted []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(b, quoted...)
}

// annotate appends the annotations that are the user's, and returns what is stored in those that are ours.
func (g *glancer) annotate(b, annotations []byte) (all, stored []byte, ok bool) {
	if rawjson.IsNull(annotations) {
		return b, nil, true
	}
	before := len(b)
	b = append(appendNext(b, []byte(`"annotations"`)), ':', '{')
	begin := len(b)
	w := rawjson.MemberReader{Data: annotations}
	for w.Next() {
		end, err := rawjson.SkipValue(annotations, w.At)
		key := plainText(w.Key.Of(annotations))
		if err != nil || key == nil {
			return b, nil, false
		}
		value := annotations[w.At:end]
		w.At = end
		switch g.owner(key) {
		case users:
			b = rawjson.AppendCompact(append(appendNext(b, w.Key.Of(annotations)), ':'), value)
		case essences:
			stored = value
		case nobodys:
			return b, nil, false
		}
	}
	if len(b) == begin {
		return b[:before], stored, w.Err == nil
	}
	return append(b, '}'), stored, w.Err == nil
}

// owner tells whose an annotation is.
type owner int

const (
	users    owner = iota // part of the essence
	ours                  // or kubectl's: no part of the essence
	essences              // that in which the essence is stored
	nobodys               // of a handling that is not over: more than a glance is needed
)

func (g *glancer) owner(key []byte) owner {
	prefix, name, ok := bytes.Cut(key, []byte("/"))
	is := func(text string) bool { return text == string(prefix) }
	switch {
	case string(key) == lastAppliedKey:
		return ours
	case !ok:
		return users
	case slices.ContainsFunc(g.prefixes, is):
		switch {
		case string(key) == g.annotation:
			return essences
		case string(name) == managedMarker, slices.ContainsFunc(g.keys, func(k string) bool { return k == string(key) }):
			return ours
		}
		return nobodys
	case string(prefix) == defaultPrefix, bytes.HasSuffix(prefix, []byte("."+defaultPrefix)):
		return ours
	}
	return users // or another operator's, which are not in what is stored: then the cycle looks at it
}

// kept returns what is stored, in quotes, and whether there is nothing else in the status that is ours.
func (g *glancer) kept(status, stored []byte) ([]byte, bool) {
	if g.field != nil {
		stored, _ = rawjson.Find(status, g.field[1:]...)
	}
	if !rawjson.IsQuoted(stored) {
		return nil, false
	}
	if status != nil {
		for _, field := range g.transient {
			if _, ok := rawjson.Find(status, field[1:]...); ok {
				return nil, false
			}
		}
	}
	return stored, true
}
