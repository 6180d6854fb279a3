package kopf

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"strings"
	"unique"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/ownership"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file follows owned and watched kinds for reconcile handlers, and keeps a small state of each child. It runs on the goroutines of the workers of those
// objects, and on those of the streams.

// follow is a resource that a reconcile handler owns or watches.
type follow struct {
	handler *handler
	spec    *followSpec
	owner   Resource // the resource of the handler
	manager string   // of the children
}

// followed returns the selectors of the owned and watched kinds.
func (h *handler) followed() (all []discovery.Selector) {
	if h.reconcile == nil {
		return nil
	}
	for _, f := range h.reconcile.follows {
		all = append(all, f.selector)
	}
	return all
}

// followsOthers reports whether the handler owns or watches other kinds.
func (h *handler) followsOthers() bool { return h.reconcile != nil && len(h.reconcile.follows) > 0 }

// resolve implements [reconcileEngine].
func (engine) resolve(served map[string]*resolved, found []discovery.Resource, failed map[string]error) (warnings []string) {
	for _, name := range rawjson.SortedKeys(served) {
		owner := served[name]
		for _, rec := range owner.reconciles {
			for _, spec := range rec.handler.reconcile.follows {
				r, warning := spec.selector.Followable(found, string(rec.handler.id))
				switch {
				case spec.selector.HasGroup && failed[spec.selector.Group] != nil && !slices.ContainsFunc(found, spec.selector.Matches):
				case warning != "":
					warnings = append(warnings, warning)
				case spec.owns && isOwned(served, owner, rec.handler, Resource(r)):
					warnings = append(warnings, fmt.Sprintf("The handler %q does not own %s, because another one of the same objects does: they would delete each other's children.", rec.handler.id, r.Name()))
				default:
					followResource(served, owner, rec, spec, Resource(r))
				}
			}
		}
	}
	return warnings
}

// isOwned reports whether another handler of the same objects owns a resource, in any version.
func isOwned(served map[string]*resolved, owner *resolved, h *handler, r Resource) bool {
	for _, what := range served {
		if what.resource.isVersionOf(r) && slices.ContainsFunc(what.follows, func(f *follow) bool {
			return f.spec.owns && f.owner.isVersionOf(owner.resource) && !h.isIn([]*handler{f.handler})
		}) {
			return true
		}
	}
	return false
}

func followResource(served map[string]*resolved, owner *resolved, rec *reconciling, spec *followSpec, r Resource) {
	what := served[r.Name()]
	if what == nil {
		what = &resolved{resource: r}
		served[r.Name()] = what
	}
	what.follows = append(what.follows, &follow{rec.handler, spec, owner.resource, rec.manager})
	if spec.owns {
		rec.owns = append(rec.owns, r)
	}
}

func (f *follow) same(o *follow) bool { return f.handler == o.handler && f.spec == o.spec }

// keepFollowing implements [reconcileRunner].
func (rc *reconciler) keepFollowing() {
	o := rc.observer
	for name, served := range o.resources {
		before := served.reactor.served.Load()
		for _, f := range before.follows {
			owner := o.resources[f.owner.Name()]
			if owner == nil || owner.closed || o.isGivenUp(owner) || o.wanted[f.owner.Name()] != nil {
				continue
			}
			what := o.wanted[name]
			if what == nil {
				what = &resolved{resource: before.resource, counts: before.counts, persistence: before.persistence, annotated: before.annotated, unread: before.unread}
			}
			if !slices.ContainsFunc(what.follows, f.same) {
				kept := *what
				kept.follows = append(slices.Clone(what.follows), f)
				o.wanted[name] = &kept
			}
		}
	}
}

// concerns reports whether an object may be a child, or a watched one. It calls no functions of users.
func (f *follow) concerns(b *Body) bool {
	if !f.spec.owns {
		return (&filters{labels: f.spec.labels}).fitsMeta(&Object{Body: b}, nil)
	}
	return f.controller(b.of(b.owners)) != nil || f.keeps(b)
}

// keeps reports whether the handler's field manager has applied an object without an owner reference.
func (f *follow) keeps(b *Body) bool {
	if _, wanted := b.Annotation(wantedAnnotation); !wanted {
		return false
	}
	managed := b.of(b.managers)
	fields, _ := ownership.FieldsOf(managed, f.manager)
	return fields != nil
}

// setOf returns the ID of the set that the handler's field manager has added an object to; "" for none.
func (f *follow) setOf(b *Body) string {
	id, _ := b.Label(applyset.PartOfLabel)
	managed := b.of(b.managers)
	return ownership.SetOf(id, managed, f.manager)
}

// keptKey returns the key of the family of a child without an owner.
func keptKey(r Resource, namespace, name string) string {
	return r.Plural + "." + r.Group + "/" + namespace + "/" + name
}

// hasPredicate reports whether a label has a predicate of the user.
func (f *follow) hasPredicate() bool {
	return slices.ContainsFunc(f.spec.labels, keyCriterion.hasPredicate)
}

// controller returns the quoted UID of the controller in the references, if it is of the handler's kind; otherwise nil.
func (f *follow) controller(references []byte) (uid []byte) {
	return ownership.ControllerOfKind(references, f.owner.Group, f.owner.Kind)
}

// family has the children of one owner, those of its set, or one child without an owner reference because of Keep.
type family struct {
	key   string // the UID of the owner, the ID of its set, or the result of [keptKey]
	owner string // its UID; "" for a set; for a kept child, that of the object whose handler wanted it last, "" before
	few   []*child
	many  map[objectName][]*child // instead of few, for more than maxFew; those of several kinds can have one name
}

// applying collects the events of children while they are applied, because events can come before responses.
type applying struct {
	own   map[uint64]bool // the versions after kopf's own writes
	shown []shownChild
	early map[earlyChild]bool // the same children
	// left has the versions of the events in which objects were deleted, or have left their family, by
	// their UIDs. Deletions have the maximum.
	left map[string]uint64
}

// shownChild is a state of a child in an event.
type shownChild struct {
	child   *child
	ref     ObjectReference
	version uint64
}

// earlyChild is a child with the version in an event.
type earlyChild struct {
	child   *child
	version uint64
}

// show adds a state of a child.
func (a *applying) show(c *child, ref ObjectReference, version uint64) {
	a.shown = append(a.shown, shownChild{c, ref, version})
	a.early[earlyChild{c, version}] = true
}

// child is the state of an owned object. It is small because there are many.
type child struct {
	entry   *entry // nil before its first event
	family  *family
	version uint64        // the newest one known
	digest  uint64        // of the annotation with the digest of the applied configuration
	kind    uint16        // index in the kinds of the reconciler
	mine    uint16        // of the same digest at kopf's own last apply: a difference shows another applier, except for one in 65,536
	applied bool          // whether the handler's field manager has applied it as a desired child
	owned   bool          // whether it matches the applied configuration
	ready   bool          // by its status
	going   bool          // whether it is being deleted
	more    *childDetails // nil for none
}

// childKind is shared by the children of a kind.
type childKind struct {
	reactor *reactor // of the children
	follow  *follow
}

// childDetails is the state that few children need.
type childDetails struct {
	unseen   *ObjectReference  // of a written child; nil after the first event
	fields   string            // of the handler's field manager, with their version, until the child is found to match
	own      uint64            // the version after kopf's last write, until its event; 0 for none
	written  uint64            // the same for a write of a handler's client, which calls the handler
	reason   string            // why it is not ready, by its status
	conflict *flapping.Tracker // since the first change of applied fields by another client
	custom   *customReady      // the last result of the user's readiness function
	pruned   bool              // whether kopf has deleted it as unwanted, until it is wanted again
	seen     uint64            // the digest of what triggers the handler, with the option ChildFields; 0 without it
}

// customReady is the result of the user's readiness function for the versions of a child and its owner.
type customReady struct {
	version uint64
	owner   string
	ready   bool
	reason  string
}

// details returns the details of the child, and creates them if necessary.
func (c *child) details() *childDetails {
	if c.more == nil {
		c.more = &childDetails{}
	}
	return c.more
}

// trim drops empty details.
func (c *child) trim() {
	if c.more != nil && *c.more == (childDetails{}) {
		c.more = nil
	}
}

func (c *child) ref() ObjectReference {
	if c.entry == nil {
		return *c.more.unseen
	}
	return c.entry.ref()
}

// newest returns the newest version that an event or an answer has shown; 0 for none.
func (c *child) newest() uint64 {
	if c.more == nil {
		return c.version
	}
	return max(c.version, c.more.written)
}

func (c *child) uid() string {
	if c.entry == nil {
		return c.more.unseen.UID
	}
	return c.entry.key
}

func (c *child) name() objectName {
	if c.entry == nil {
		return objectName{c.more.unseen.Namespace, c.more.unseen.Name}
	}
	return objectName{c.entry.namespace.name, c.entry.name}
}

// is reports whether the child has the name.
func (rc *reconciler) is(c *child, r Resource, namespace, name string) bool {
	if !rc.kinds[c.kind].reactor.resource().isVersionOf(r) {
		return false
	}
	return c.name() == objectName{namespace, name}
}

// reason returns why the child is not ready by its status, "" if it is.
func (c *child) reason() string {
	if c.more == nil {
		return ""
	}
	return c.more.reason
}

// wantedAnnotation has the digest of the applied configuration. It must never change, because all children would be applied again.
const (
	wantedAnnotation = markers.DefaultPrefix + "/" + wantedName
	wantedName       = "wanted"
)

// show stores a state of the child, with the fields of the handler's field manager, and whether it matches the applied configuration.
func (rc *reconciler) show(c *child, b *Body, fields []byte, apiVersion string, owned bool) {
	digest, wanted := b.Annotation(wantedAnnotation) // missing in applies of other clients with the same manager
	version := apirequest.VersionNumber(b.version)
	c.going = b.deleting || c.going && version >= c.version // a deletion is final, unless the API server was restored from a backup
	r, reason, kept := rc.kinds[c.kind].reactor.resource(), "", ""
	c.ready, reason = b.ready(r.Group, r.Kind)
	c.applied, c.owned, c.version, c.digest = fields != nil && wanted, owned, version, maphash.String(rc.seed, digest)
	if fields != nil && !owned {
		kept = unique.Make(apiVersion + "\n" + string(fields)).Value() // many children have the same
	}
	if c.more != nil || reason != "" || kept != "" {
		more := c.details()
		more.reason, more.fields = reason, kept
		c.trim()
	}
}

// showEvent stores the state of the child in an event.
func (rc *reconciler) showEvent(c *child, b *Body) {
	managed := b.of(b.managers)
	fields, apiVersion := ownership.FieldsOf(managed, rc.kinds[c.kind].follow.manager)
	rc.show(c, b, fields, apiVersion, false)
}

// setOwned records that a child matches the applied configuration, and drops its fields.
func (c *child) setOwned() {
	if c.owned = true; c.more != nil {
		c.more.fields = ""
		c.trim()
	}
}

// follow implements [reconcileRunner].
func (rc *reconciler) follow(r *reactor, e *entry, ev RawEvent, at epoch) {
	follows := r.served.Load().follows
	if len(follows) == 0 || ev.Body == nil {
		return
	}
	key, by := familyOf(r.resource(), follows, ev)
	changed, left := rc.note(r, e, by, key, ev)
	if !r.queue.serves(e, at) { // the object was forgotten meanwhile
		rc.forgetChild(r, e)
	}
	for _, c := range changed {
		rc.triggerOwner(c, e.ref())
	}
	if left != "" {
		rc.wakeParent(left)
	}
}

// note handles an event. It returns the changed children, whose owners are triggered, and the set that a pruned child has left.
func (rc *reconciler) note(r *reactor, e *entry, by *follow, key string, ev RawEvent) (changed []*child, left string) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	version := apirequest.VersionNumber(ev.Body.version)
	if ev.Type == Deleted { // perhaps before the response to the apply, without earlier events
		rc.noteLeftLocked(e, math.MaxUint64)
		version = 0 // in a list, it has the version of kopf's own write before
	}
	before := e.child
	if before == nil { // its first event may be a later change
		before = rc.unseen[e.key]
	}
	if before != nil && ev.Type != Deleted && before.isOutdated(ev.Body) {
		return nil, ""
	}
	if before != nil && (by == nil || before.family.key != key) {
		rc.noteLeftLocked(e, version)
		rc.removeLocked(before)
		if e.child = nil; before.more == nil || !before.more.pruned || ev.Type != Deleted {
			changed = append(changed, before)
		} else if applyset.IsID(before.family.key) {
			left = before.family.key
		}
	}
	if by != nil {
		shown := rc.showLocked(r, e, by, key, ev.Body)
		if rc.fieldsChangedLocked(e.child, by, ev.Body) && shown {
			changed = append(changed, e.child)
		}
	}
	return slices.DeleteFunc(changed, func(c *child) bool {
		all := rc.applying[c.family.key]
		for _, a := range all {
			a.show(c, e.ref(), version)
		}
		return len(all) > 0
	}), left
}

// noteLeftLocked records, for the writes under way, that an object has left its family.
func (rc *reconciler) noteLeftLocked(e *entry, version uint64) {
	for a := range rc.writing {
		a.left[e.key] = max(a.left[e.key], version)
	}
}

// beginApplying delays the events of some families until endApplying. Owners of the same name share a set, so both may be applied at the same time.
func (rc *reconciler) beginApplying(keys []string) *applying {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	came := &applying{own: make(map[uint64]bool), early: make(map[earlyChild]bool), left: make(map[string]uint64)}
	rc.writing[came] = struct{}{}
	for _, key := range keys {
		rc.applying[key] = append(rc.applying[key], came)
	}
	return came
}

// endApplying triggers the handler for the delayed events, except for kopf's own writes.
func (rc *reconciler) endApplying(keys []string, came *applying) {
	rc.dropApplying(keys, came)
	for _, s := range came.shown {
		if s.version == 0 || !came.own[s.version] {
			rc.triggerOwner(s.child, s.ref)
		}
	}
}

func (rc *reconciler) dropApplying(keys []string, came *applying) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	delete(rc.writing, came)
	for _, key := range keys {
		if rc.applying[key] = slices.DeleteFunc(rc.applying[key], func(a *applying) bool { return a == came }); len(rc.applying[key]) == 0 {
			delete(rc.applying, key)
		}
	}
}

// familyOf returns the key of an object's family, and the follow that makes it a child; nothing for deleted objects and for others.
func familyOf(r Resource, follows []*follow, ev RawEvent) (key string, by *follow) {
	if ev.Type == Deleted {
		return "", nil
	}
	references := ev.Body.of(ev.Body.owners)
	for _, f := range follows {
		if !f.spec.owns {
			continue
		}
		if owner := rawjson.Unquote(f.controller(references)); owner != "" {
			return owner, f
		}
	}
	for _, f := range follows {
		if !f.spec.owns || !f.keeps(ev.Body) {
			continue
		}
		if id := f.setOf(ev.Body); id != "" {
			return id, f
		}
		return keptKey(r, ev.Body.Namespace(), ev.Body.Name()), f
	}
	return "", nil
}

// showLocked handles an event of a child, and reports whether it differs from the result of kopf's own write.
func (rc *reconciler) showLocked(r *reactor, e *entry, by *follow, key string, b *Body) bool {
	c, version := e.child, apirequest.VersionNumber(b.version)
	if c == nil {
		c = rc.unseen[b.uid]
		delete(rc.unseen, b.uid)
	}
	if c == nil {
		c = &child{entry: e, kind: rc.kindLocked(r, by), family: rc.familyLocked(key)}
		c.family.addLocked(c)
		e.child = c
		rc.showEvent(c, b)
		return true
	}
	c.entry, e.child, c.kind = e, c, rc.kindLocked(r, by)
	own := uint64(0)
	if c.more != nil {
		own, c.more.unseen = c.more.own, nil
	}
	switch {
	case version != 0 && (version == own || version == c.version):
		if version == own {
			c.more.own = 0
		}
		c.trim()
		return false
	case version != 0 && version < c.version && own != 0: // between kopf's read and its write; without a write, the API server was restored from a backup
		return true
	}
	c.details().own, c.more.written = 0, 0
	rc.showEvent(c, b)
	return true
}

// isOutdated reports whether a handler's client has changed the child since a state of it. The event
// of that change will call the handler.
func (c *child) isOutdated(b *Body) bool {
	version := apirequest.VersionNumber(b.version)
	return version != 0 && c.more != nil && version < c.more.written
}

// fieldsChangedLocked reports whether the fields of a child that trigger the handler differ from those
// of its last event. Without the option ChildFields, these are all.
func (rc *reconciler) fieldsChangedLocked(c *child, by *follow, b *Body) bool {
	if len(by.spec.fields) == 0 {
		return true
	}
	var sum maphash.Hash
	sum.SetSeed(rc.seed)
	applied, apiVersion := ownership.FieldsOf(b.of(b.managers), by.manager)
	digest, _ := b.Annotation(wantedAnnotation)
	maphash.WriteComparable(&sum, [2]string{apiVersion, digest})
	maphash.WriteComparable(&sum, string(applied))
	maphash.WriteComparable(&sum, c.going)
	maphash.WriteComparable(&sum, c.reason())
	addFields(&sum, b, by.spec.fields)
	before, now := c.details().seen, max(1, sum.Sum64())
	c.details().seen = now
	return now != before
}

// kindLocked returns the index of the shared kind for the children of a reactor. It reuses those of
// reactors that were dropped, because a definition may come and go often.
func (rc *reconciler) kindLocked(r *reactor, by *follow) uint16 {
	for i, k := range rc.kinds {
		if k.reactor == r && k.follow.handler == by.handler && k.follow.spec == by.spec {
			k.follow = by
			return uint16(i)
		}
	}
	for i, k := range rc.kinds {
		if rc.reactors[k.reactor] == nil {
			rc.kinds[i] = &childKind{r, by}
			return uint16(i)
		}
	}
	rc.kinds = append(rc.kinds, &childKind{r, by})
	return uint16(len(rc.kinds) - 1)
}

func (rc *reconciler) handlerOfLocked(c *child) *handler { return rc.kinds[c.kind].follow.handler }

// maxFew limits the children of a family that are searched one by one.
const maxFew = 16

// addLocked adds a child. It avoids spare capacity, because most families do not grow.
func (f *family) addLocked(c *child) {
	if f.many == nil && len(f.few) < maxFew {
		all := make([]*child, len(f.few)+1)
		copy(all, f.few)
		all[len(f.few)] = c
		f.few = all
		return
	}
	if f.many == nil {
		f.many = make(map[objectName][]*child)
		for _, c := range f.few {
			f.many[c.name()] = append(f.many[c.name()], c)
		}
		f.few = nil
	}
	f.many[c.name()] = append(f.many[c.name()], c)
}

// dropLocked removes a child, and reports whether the family is empty then.
func (f *family) dropLocked(c *child) (empty bool) {
	isIt := func(o *child) bool { return o == c }
	if f.many == nil {
		f.few = slices.DeleteFunc(f.few, isIt)
		return len(f.few) == 0
	}
	name := c.name()
	if f.many[name] = slices.DeleteFunc(f.many[name], isIt); len(f.many[name]) == 0 {
		delete(f.many, name)
	}
	return len(f.many) == 0
}

// named returns the children of a family that may have a name. They are all children of a small family.
func (f *family) named(name objectName) []*child {
	switch {
	case f == nil:
		return nil
	case f.many == nil:
		return f.few
	}
	return f.many[name]
}

// all returns the children of a family, none for nil. The family must not change meanwhile.
func (f *family) all() iter.Seq[*child] {
	return func(yield func(*child) bool) {
		if f == nil {
			return
		}
		for _, c := range f.few {
			if !yield(c) {
				return
			}
		}
		for _, same := range f.many {
			for _, c := range same {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// memberLocked returns the child of a family with a name and a UID, nil if there is none.
func (rc *reconciler) memberLocked(key string, name objectName, uid string) *child {
	for _, c := range rc.families[key].named(name) {
		if c.uid() == uid {
			return c
		}
	}
	return nil
}

// familyLocked returns the family with a key, and creates it if necessary.
func (rc *reconciler) familyLocked(key string) *family {
	f := rc.families[key]
	if f == nil {
		f = newFamily(key)
		rc.families[f.key] = f
	}
	return f
}

func newFamily(key string) *family {
	f := &family{key: strings.Clone(key)}
	if !strings.Contains(key, "/") && !applyset.IsID(key) {
		f.owner = f.key
	}
	return f
}

func (rc *reconciler) removeLocked(c *child) {
	f := c.family
	if c.entry == nil {
		delete(rc.unseen, c.uid())
	}
	if f.dropLocked(c) && rc.families[f.key] == f {
		delete(rc.families, f.key)
	}
}

// moveLocked moves a child to another family.
func (rc *reconciler) moveLocked(c *child, key string) {
	if f := c.family; f.dropLocked(c) && rc.families[f.key] == f {
		delete(rc.families, f.key)
	}
	c.family = rc.familyLocked(key)
	c.family.addLocked(c)
}

// forgetChild forgets an unserved object without triggering its owner, because it may still exist. The
// next list of its namespace triggers all owners.
func (rc *reconciler) forgetChild(r *reactor, e *entry) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if e.child != nil {
		rc.removeLocked(e.child)
		e.child = nil
		rc.forgetNamespaceLocked(r, e.namespace.name)
	}
	for _, f := range r.served.Load().follows {
		key := watchedKey{r, f.spec, e.key}
		if _, watched := rc.watched[key]; watched {
			delete(rc.watched, key)
			rc.forgetNamespaceLocked(r, e.namespace.name)
		}
	}
}

// CountChildren implements [metrics.Reconciler].
func (rc *reconciler) CountChildren() metrics.Children {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	all := make(metrics.Children)
	for _, f := range rc.families {
		for c := range f.all() {
			all.Add(rc.kinds[c.kind].reactor.served.Load().counts, c.ready, c.going)
		}
	}
	return all
}

// isChild implements [reconcileRunner].
func (rc *reconciler) isChild(e *entry) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return e.child != nil
}

// triggerOwner triggers the handlers that own the kind of a child, for its owner. It also wakes the parent of a set, which may wait for the deletion of the
// child.
func (rc *reconciler) triggerOwner(c *child, ref ObjectReference) {
	rc.mu.Lock()
	key, uid, follows := c.family.key, c.family.owner, rc.kinds[c.kind].reactor.served.Load().follows
	if applyset.IsID(key) {
		uid = rc.parents[key]
	}
	rc.mu.Unlock()
	for _, r := range rc.allReactors() {
		for _, f := range follows {
			if f.spec.owns && f.owner.isVersionOf(r.resource()) {
				r.queue.trigger(uid, f.handler, Trigger{TriggerChild, ref})
			}
		}
	}
	rc.wakeParent(key)
}

// kindOfLocked returns the index of the shared kind for the children of a handler in a resource.
func (rc *reconciler) kindOfLocked(h *handler, r Resource) uint16 {
	for owner := range rc.reactors {
		if !owner.resource().isVersionOf(r) {
			continue
		}
		for _, f := range owner.served.Load().follows {
			if f.handler == h && f.spec.owns {
				return rc.kindLocked(owner, f)
			}
		}
	}
	return 0
}

// redefine implements [reconcileRunner].
func (rc *reconciler) redefine(definition *Body) {
	spec := definition.Spec()
	rawjson.EachItem(spec.View("versions").raw, func(version []byte) bool { // anything but a list has no versions
		rc.checker.Forget(spec.String("group")+"/"+rawjson.StringAt(version, "name"), spec.String("names.kind"))
		return true
	})
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for r, known := range rc.reactors {
		if have := r.resource(); have.Plural+"."+have.Group == definition.Name() {
			known.labelled = false
		}
	}
}
