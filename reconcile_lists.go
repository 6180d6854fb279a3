package kopf

import (
	"iter"
	"slices"
)

// This file follows the lists of owned and watched kinds for reconcile handlers. A complete list shows
// which children are gone.

// followedStream is a stream of a followed kind.
type followedStream struct {
	reactor *reactor
	listing bool   // whether its list is incomplete
	version uint64 // of the last complete list; 0 before, and if versions are no numbers
}

// unfollow implements [reconcileRunner].
func (rc *reconciler) unfollow(from *source) {
	rc.mu.Lock()
	s := rc.streams[from]
	delete(rc.streams, from)
	rc.mu.Unlock()
	if s != nil && s.listing {
		rc.wakeAll()
	}
}

// synced reports whether the lists of all kinds that a handler follows are complete. An incomplete list does not show which objects are missing.
func (rc *reconciler) synced(h *handler) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for _, s := range rc.streams {
		if s.listing && slices.ContainsFunc(s.reactor.served.Load().follows, func(f *follow) bool { return f.handler == h }) {
			return false
		}
	}
	return true
}

// beginList implements [reconcileRunner].
func (rc *reconciler) beginList(r *reactor, from *source) {
	if len(r.served.Load().follows) == 0 {
		return
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.streams[from] == nil {
		rc.streams[from] = &followedStream{reactor: r}
	}
	rc.streams[from].listing = true
	for c := range rc.detailedLocked(r, from) {
		c.more.own, c.more.written = 0, 0 // the list contains earlier writes
		c.trim()
	}
}

// endList implements [reconcileRunner].
func (rc *reconciler) endList(r *reactor, from *source, version uint64) {
	served := r.served.Load()
	if len(served.follows) == 0 {
		return
	}
	gone, late := rc.noteListed(r, from, version)
	for _, c := range gone {
		rc.triggerOwner(c, c.ref())
	}
	if late { // perhaps the kind was missing at earlier calls
		for _, f := range served.follows {
			rc.triggerAll(f.handler, Trigger{Reason: TriggerFirst}, true)
		}
	}
	rc.mu.Lock() // last, so that waiting handlers are not called twice
	if s := rc.streams[from]; s != nil {
		s.listing = false
	}
	rc.mu.Unlock()
	rc.wakeAll()
}

// wakeAll wakes all objects whose handlers may have waited for a list.
func (rc *reconciler) wakeAll() {
	for _, r := range rc.allReactors() {
		r.queue.wakeReconciled()
	}
}

// noteListed handles the end of a list. It returns the children that are gone, and whether the list
// calls all owners.
func (rc *reconciler) noteListed(r *reactor, from *source, version uint64) (gone []*child, late bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if s := rc.streams[from]; s != nil {
		s.version = version
	}
	late = rc.completeLocked(r, from.namespace)
	for c := range rc.detailedLocked(r, from) {
		if c.more.unseen != nil && c.newest() <= version { // the list would contain it
			rc.removeLocked(c)
			gone = append(gone, c)
		}
	}
	return gone, late
}

// detailedLocked returns the children with details that a stream shows. They may be removed meanwhile.
func (rc *reconciler) detailedLocked(r *reactor, from *source) iter.Seq[*child] {
	return func(yield func(*child) bool) {
		for _, f := range rc.families {
			for _, c := range slices.Collect(f.all()) {
				of := rc.kinds[c.kind].reactor.resource()
				shown := of.isVersionOf(r.resource()) && from.covers(c.name().namespace)
				if c.more != nil && shown && !yield(c) {
					return
				}
			}
		}
	}
}

// dropGone forgets a written object again if it is no child by now. Its version is not newer than a
// list without it, and no event would show its deletion. Or a newer event has shown it in another
// family. It returns the child, nil if it still is one.
func (rc *reconciler) dropGone(ref ObjectReference, version uint64) *child {
	gone := slices.ContainsFunc(rc.reactorsOf(ref), func(r *reactor) bool {
		listed := rc.hasListed(r, ref.Namespace, version)
		e := r.queue.entryOf(ref.UID)
		if e == nil {
			return listed
		}
		rc.mu.Lock()
		defer rc.mu.Unlock()
		return e.child != nil && e.child.version > version
	})
	if !gone {
		return nil
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	c := rc.unseen[ref.UID]
	if c != nil {
		rc.removeLocked(c)
	}
	return c
}

// hasListed reports whether a complete list of a namespace is not older than a version.
func (rc *reconciler) hasListed(r *reactor, namespace string, version uint64) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for from, s := range rc.streams {
		if s.reactor == r && from.covers(namespace) && version != 0 && version <= s.version {
			return true
		}
	}
	return false
}

// forgetVersions implements [reconcileRunner].
func (rc *reconciler) forgetVersions(from *source) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	s := rc.streams[from]
	if s == nil {
		return
	}
	s.version = 0
	for c := range rc.detailedLocked(s.reactor, from) {
		if c.more.unseen != nil {
			c.version, c.more.written = 0, 0
		}
	}
}

// maxForgotten limits the remembered namespaces of a kind, because namespaces can come and go for ever.
const maxForgotten = 1000

// forgetNamespaceLocked records that objects of a namespace were forgotten. Of too many namespaces it
// records none: then the next list of the kind triggers all owners, as the first one does.
func (rc *reconciler) forgetNamespaceLocked(r *reactor, namespace string) {
	forgotten, listed := rc.listed[r]
	switch {
	case !listed:
	case forgotten == nil:
		rc.listed[r] = map[string]bool{namespace: true}
	case len(forgotten) >= maxForgotten && !forgotten[namespace]:
		delete(rc.listed, r)
	default:
		forgotten[namespace] = true
	}
}

// completeLocked records a complete list of a namespace, "" for all. It reports whether the owners need
// a call for what the list lacks: the kind may have been missing at their earlier calls, and forgotten
// objects may have gone. Objects in the list call their own owners.
func (rc *reconciler) completeLocked(r *reactor, namespace string) (late bool) {
	forgotten, listed := rc.listed[r]
	switch {
	case !listed:
		late = true
		rc.listed[r] = nil
	case namespace == "":
		late = len(forgotten) > 0
		rc.listed[r] = nil
	default:
		late = forgotten[namespace]
		delete(forgotten, namespace)
	}
	return late
}
