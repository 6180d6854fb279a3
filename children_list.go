package kopf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/ownership"
)

// This file lists the children of an object from memory. The memory has the watch events, and the
// writes of handlers before their events.

// Children returns the children of the object, from memory and without a request: all objects of a
// kind in the option Owns that the object controls, and its children in other namespaces, sorted by
// namespace and name. It includes what this operator has just written by [Reconcile.Desired] or by
// the Client of a handler, also before the watch event. A child that is being deleted is not ready,
// with the reason "Terminating". Children with the option Keep are missing. Another kind fails the
// handler.
func (r *Reconcile) Children(of Selector) []*Child {
	if r.desired == nil { // in a hand-made argument
		return nil
	}
	return r.desired.list(of)
}

// list implements [children].
func (d *desiredSet) list(of Selector) []*Child {
	kinds, err := d.ownedKinds(of)
	if err != nil {
		d.err = cmp.Or(d.err, err)
		return nil
	}
	rc := d.reconciler
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if d.listed == nil {
		d.listed = make(map[*child]bool)
	}
	var all []*Child
	for _, key := range []string{d.owner.UID(), d.set} {
		for k := range rc.families[key].all() {
			r := rc.kinds[k.kind].reactor.resource()
			if !slices.ContainsFunc(kinds, func(kind discovery.Resource) bool { return r.isVersionOf(Resource(kind)) }) {
				continue
			}
			c := &Child{set: d, resource: r, known: k, ref: k.ref(), state: k.state()}
			c.ref.UID = k.uid()
			all = append(all, c)
			d.listed[k] = true
		}
	}
	slices.SortFunc(all, func(a, b *Child) int {
		return cmp.Or(strings.Compare(a.ref.Namespace, b.ref.Namespace), strings.Compare(a.ref.Name, b.ref.Name))
	})
	return all
}

// ownedKinds returns the owned kinds that a selector selects. There is none if the API server does not have the kind.
func (d *desiredSet) ownedKinds(of Selector) ([]discovery.Resource, error) {
	spec, err := of.spec(nil)
	if err != nil {
		return nil, fmt.Errorf("the argument of Children: %w", err)
	}
	var owned []discovery.Resource
	for _, r := range d.reconciling.owns {
		owned = append(owned, discovery.Resource(r))
	}
	kinds := spec.Select(owned)
	declared := func(f *followSpec) bool { return f.owns && f.selector.Text == spec.Text }
	if len(kinds) == 0 && !slices.ContainsFunc(d.reconciling.handler.reconcile.follows, declared) {
		return nil, Permanent(fmt.Errorf("invalid argument %q of Children: want a kind of ReconcileOptions.Owns", of))
	}
	return kinds, nil
}

// state returns the state of the child that users see.
func (c *child) state() childState {
	if c.going {
		return childState{exists: true, reason: "Terminating"}
	}
	return childState{exists: true, ready: c.ready, reason: c.reason()}
}

// writeRecorder records the writes of handlers. It is an interface so that programs without
// reconcile handlers are linked without its implementation.
type writeRecorder interface {
	// beginWrite is called before a write. The returned function is called after it with the
	// written object, nil if there is none.
	beginWrite() (end func(*Body))
	// noteDeleted is called after the deletion of an object with a UID.
	noteDeleted(ObjectReference)
}

// beginWrite implements [writeRecorder].
func (rc *reconciler) beginWrite() (end func(*Body)) {
	write := rc.beginApplying(nil)
	return func(b *Body) {
		if b != nil {
			rc.noteWritten(b, write)
		}
		rc.endApplying(nil, write)
	}
}

// noteWritten records an object that a handler has written, if it is a child.
func (rc *reconciler) noteWritten(b *Body, write *applying) {
	if namespace := b.Namespace(); namespace != "" && !rc.observer.serves(namespace) {
		return // no event would show its end
	}
	for _, r := range rc.reactorsOf(b.Reference()) {
		if former := rc.noteWrittenIn(r, b, write); former != nil {
			rc.triggerOwner(former, b.Reference())
		}
	}
	if gone := rc.dropGone(b.Reference(), apirequest.VersionNumber(b.version)); gone != nil {
		rc.triggerOwner(gone, b.Reference())
	}
}

// noteWrittenIn records a written object of a kind. It returns a child with the family that the object
// has left, or that it is missing in again. An object that has left its owner is in the family "" until
// its event.
func (rc *reconciler) noteWrittenIn(r *reactor, b *Body, write *applying) (former *child) {
	key, by := familyOf(r.resource(), r.served.Load().follows, RawEvent{Type: Modified, Body: b})
	e := r.queue.entryOf(b.UID())
	rc.mu.Lock()
	defer rc.mu.Unlock()
	k, version := rc.childLocked(e, b.UID()), apirequest.VersionNumber(b.version)
	switch {
	case k == nil && by != nil && write.left[b.UID()] > version: // perhaps without an event that has called the owner
		return &child{family: newFamily(key), kind: rc.kindLocked(r, by)}
	case k == nil && by != nil:
		k = rc.addUnseenLocked(key, rc.kindLocked(r, by), b)
	case k == nil || k.version >= version:
		return nil
	case k.family.key != key:
		former = &child{family: k.family, kind: k.kind}
		rc.moveLocked(k, key)
	}
	if k == nil {
		return former
	}
	if k.details().written = version; by != nil {
		before := k.version // the event will call the handler
		fields, apiVersion := ownership.FieldsOf(b.of(b.managers), by.manager)
		rc.show(k, b, fields, apiVersion, false)
		k.version = before
	}
	return former
}

// childLocked returns the child with a UID, nil if there is none. The entry is nil before its event.
func (rc *reconciler) childLocked(e *entry, uid string) *child {
	if e != nil && e.child != nil {
		return e.child
	}
	return rc.unseen[uid]
}

// noteDeleted implements [writeRecorder].
func (rc *reconciler) noteDeleted(ref ObjectReference) {
	for _, r := range rc.reactorsOf(ref) {
		e := r.queue.entryOf(ref.UID)
		rc.mu.Lock()
		if k := rc.childLocked(e, ref.UID); k != nil {
			k.going = true
		}
		rc.mu.Unlock()
	}
}

// reactorsOf returns the reactors of a kind.
func (rc *reconciler) reactorsOf(ref ObjectReference) []*reactor {
	group, _, grouped := strings.Cut(ref.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return slices.DeleteFunc(rc.allReactors(), func(r *reactor) bool {
		have := r.resource()
		return have.Group != group || have.Kind != ref.Kind
	})
}
