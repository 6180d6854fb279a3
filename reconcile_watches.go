package kopf

import (
	"hash/maphash"
	"slices"

	"github.com/kopf-go/kopf/internal/safecall"
)

// This file calls the owners for changes of the objects that a reconcile handler watches.

// watchedKey identifies a watched object.
type watchedKey struct {
	reactor *reactor
	spec    *followSpec
	key     string
}

// watchedState is the state of a watched object that matches the labels and the predicate.
type watchedState struct {
	refs   []ObjectReference // that the option Objects has returned
	digest uint64            // of the fields in the option Fields; 0 without it
}

// notify implements [reconcileRunner].
func (rc *reconciler) notify(c *cycle) {
	for _, f := range c.served.follows {
		if !f.spec.owns {
			rc.notifyWatch(c, f)
		}
	}
	c.entry.last.notified = true
}

// notifyWatch triggers the handlers for the objects that a watched object refers to, now and before.
func (rc *reconciler) notifyWatch(c *cycle, f *follow) {
	e, o := c.entry, c.object(c.event.Body)
	key := watchedKey{c.reactor, f.spec, e.key}
	rc.mu.Lock()
	before, known := rc.watched[key]
	rc.mu.Unlock()
	fits := c.event.Type != Deleted && rc.mayWatch(f, o)
	var now watchedState
	if fits && len(f.spec.fields) > 0 {
		if now.digest = rc.digestOf(o.Body, f.spec.fields); known && now.digest == before.digest {
			return
		}
	}
	if fits && f.spec.watch.Objects != nil {
		now.refs, fits = rc.objectsOf(f, o)
	}
	rc.mu.Lock()
	if delete(rc.watched, key); fits {
		rc.watched[key] = now
	}
	rc.mu.Unlock()
	if !known && (!fits || c.event.initial) { // the end of the list triggers all objects
		return
	}
	reason := Trigger{TriggerWatched, e.ref()}
	if f.spec.watch.Objects == nil {
		rc.triggerAll(f.handler, reason, true)
		return
	}
	done := make(map[objectName]bool, len(now.refs))
	for _, ref := range slices.Concat(before.refs, now.refs) {
		if name := (objectName{ref.Namespace, ref.Name}); !done[name] {
			done[name] = true
			rc.trigger(f.handler, ref, reason)
		}
	}
}

// digestOf returns a digest of some fields of an object.
func (rc *reconciler) digestOf(b *Body, fields []FieldPath) uint64 {
	var sum maphash.Hash
	sum.SetSeed(rc.seed)
	addFields(&sum, b, fields)
	return sum.Sum64()
}

// mayWatch reports whether the labels and the predicate of a watch match an object. A panic counts as
// false.
func (rc *reconciler) mayWatch(f *follow, o Object) (may bool) {
	labels, when := &filters{labels: f.spec.labels}, f.spec.watch.When
	if !f.hasPredicate() {
		may = labels.fitsMeta(&o, nil)
	} else {
		rc.ask(f, o, "Labels", func(w *Watched) { may = labels.fitsMeta(&w.Object, nil) })
	}
	if may && when != nil {
		may = false // after a panic, too
		rc.ask(f, o, "When", func(w *Watched) { may = when(w) })
	}
	return may
}

// objectsOf returns the objects that a watched object refers to. After a panic, it is not known.
func (rc *reconciler) objectsOf(f *follow, o Object) (refs []ObjectReference, known bool) {
	known = rc.ask(f, o, "Objects", func(w *Watched) { refs = f.spec.watch.Objects(w) })
	return refs, known
}

// ask calls a function of a watch, and reports whether it has returned. It logs the first panic.
func (rc *reconciler) ask(f *follow, o Object, option string, call func(*Watched)) (returned bool) {
	o.Patch, o.Param, o.Client = newPatch(nil, &o.Resource, o.Body), f.handler.param, nil
	err := safecall.Do(func() error {
		call(&Watched{o})
		return nil
	})
	if err == nil {
		return true
	}
	f.handler.filters.panicked.Do(func() {
		rc.log.Error("A function of a watch panicked; the object counts as missing", "option", option,
			handlerKey, f.handler.id, "error", err, "stack", string(safecall.StackOf(err)), "help", "K715")
	})
	return false
}
