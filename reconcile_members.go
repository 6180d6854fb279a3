package kopf

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file handles children in other namespaces than their owner. They can have no owner reference, because the garbage collector would not find the owner,
// and would delete them. They are members of a set by the ApplySet specification, whose parent is the owner. The owner stores their namespaces and kinds
// before kopf creates them, so that they can always be found. It runs on the goroutine of the owner's worker.

// setID returns the ID of the set of an object.
func setID(ref ObjectReference, r Resource) string {
	return applyset.ID(ref.Name, ref.Namespace, r.Kind, r.Group)
}

// isForeignSet reports whether the object is the parent of another tool's set, and returns that tool.
func isForeignSet(b *Body) (tooling string, foreign bool) {
	tooling, ok := b.Annotation(applyset.ToolingAnnotation)
	return tooling, ok && !applyset.IsOwnTooling(tooling)
}

// isParentOf reports whether an object has stored that it is the parent of a set. A copy of a parent has the ID of another set.
func isParentOf(b *Body, set string) bool {
	id, _ := b.Label(applyset.IDLabel)
	_, foreign := isForeignSet(b)
	return id == set && !foreign
}

// storedScope returns the stored namespaces and kinds of an object's members. With an error, the scope may be incomplete.
func storedScope(b *Body) (applyset.Scope, error) {
	kinds, _ := b.Annotation(applyset.GroupKindsAnnotation)
	namespaces, _ := b.Annotation(applyset.NamespacesAnnotation)
	return applyset.ParseScope(kinds, namespaces)
}

// addMember adds a desired object to the owner's set.
func (d *desiredSet) addMember(object map[string]any) error {
	references, _ := rawjson.AsMap(object["metadata"])["ownerReferences"].([]any)
	for _, ref := range references {
		if rawjson.AsMap(ref)["uid"] == d.owner.UID() {
			return errors.New("invalid metadata.ownerReferences: want none to an owner in another namespace")
		}
	}
	return manifest.AddLabels(object, map[string]string{applyset.PartOfLabel: d.set}, true)
}

// scope returns the namespaces and kinds of the desired members.
func (d *desiredSet) scope() *applyset.Scope {
	s := applyset.Scope{}
	for _, c := range d.wanted {
		if c.member {
			s.Kinds = append(s.Kinds, applyset.GroupKind{Group: c.resource.Group, Kind: c.resource.Kind})
			s.Namespaces = append(s.Namespaces, c.ref.Namespace)
		}
	}
	s = s.Union(applyset.Scope{}) // sorted
	return &s
}

// storeScope adds the scope of the desired members to the stored one. It sends nothing if the owner already has it.
func (d *desiredSet) storeScope(ctx context.Context) error {
	wanted, rc := d.scope(), d.reconciler
	if wanted.IsEmpty() {
		return nil
	}
	latest := d.cycle.latest()
	if tooling, foreign := isForeignSet(latest); foreign {
		return fmt.Errorf("%s is the parent of a set of %q, which its children in other namespaces cannot be added to: remove its annotation %s if nothing else looks after the set", latest.Reference(), tooling, applyset.ToolingAnnotation)
	}
	if err := rc.labelDefinition(ctx, d.cycle); err != nil {
		return err
	}
	rc.noteParent(d.set, d.owner.UID())
	return rc.writeScope(d.cycle, func(stored applyset.Scope) applyset.Scope { return stored.Union(*wanted).Union(rc.scopeOf(d.set)) })
}

// noteParent records the parent of a set.
func (rc *reconciler) noteParent(set, uid string) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.parents[set] = uid
}

// scopeOf returns the scope of the known members of a set.
func (rc *reconciler) scopeOf(set string) (s applyset.Scope) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for k := range rc.families[set].all() {
		r := rc.kinds[k.kind].reactor.resource()
		s.Kinds = append(s.Kinds, applyset.GroupKind{Group: r.Group, Kind: r.Kind})
		s.Namespaces = append(s.Namespaces, k.ref().Namespace)
	}
	return s.Union(applyset.Scope{}) // sorted
}

// maxScopeConflicts limits the retries of storing a scope after update conflicts.
const maxScopeConflicts = 5

// writeScope changes the stored scope of an object, and adds the finalizer. After an update conflict, it starts from the newest state, so that no stored
// scope is lost.
func (rc *reconciler) writeScope(c *cycle, change func(stored applyset.Scope) applyset.Scope) (err error) {
	for range maxScopeConflicts {
		latest := c.latest()
		set := setID(latest.Reference(), c.served.resource)
		stored := applyset.Scope{}
		parent, damaged := isParentOf(latest, set), false
		if parent {
			stored, err = storedScope(latest)
			damaged = err != nil
		}
		scope := change(stored)
		held := scope.IsEmpty() || slices.Contains(latest.Finalizers(), c.served.persistence.Finalizer)
		if parent == !scope.IsEmpty() && held && !damaged && scope.Equal(stored) {
			return nil
		}
		patch := &Patch{}
		patch.Transform(func(object map[string]any) error { return scope.Store(object, set, Version) })
		if !scope.IsEmpty() {
			patch.changes.Adds = []string{c.served.persistence.Finalizer}
		}
		_, err = c.request(patch)
		if conflict := (*conflictError)(nil); !errtype.As(err, &conflict) {
			return err
		}
	}
	return err
}

// settleMembers reduces the stored scope to that of the existing members. It does so when all handlers have succeeded and former members are gone.
func (rc *reconciler) settleMembers(c *cycle) error {
	latest := c.latest()
	set := setID(latest.Reference(), c.served.resource)
	if _, foreign := isForeignSet(latest); foreign || latest.deleting || c.superseded() || c.handlers.Err() != nil {
		return nil
	}
	scope := rc.scopeOf(set)
	for _, s := range c.entry.state.reconcile.states {
		if s.scope == nil || !s.schedule.IsSettled() || !rc.synced(s.handler) {
			return nil
		}
		scope = scope.Union(*s.scope)
	}
	if !scope.IsEmpty() && !isParentOf(latest, set) {
		rc.noteRemoved(c)
	}
	return rc.writeScope(c, func(stored applyset.Scope) applyset.Scope {
		if rc.follows(c.served, stored) {
			return scope
		}
		return scope.Union(stored)
	})
}

// noteRemoved counts removals of the scope by another client. Repeated removals slow the handling down.
func (rc *reconciler) noteRemoved(c *cycle) {
	e, settings := c.entry.state, &rc.settings.Queueing
	if e.conflict == nil {
		e.conflict = flapping.New()
	}
	if settings.FlappingRounds > 0 && e.conflict.Count(settings.FlappingRounds, settings.FlappingPause) {
		c.log.Warn("Another client removes again and again where the children in other namespaces are; slowing down the handling of the object", "help", "K711")
	}
}

// follows reports whether kopf would see all members in the stored scope. An earlier operator may have owned more kinds, or served more namespaces.
func (rc *reconciler) follows(served *resolved, stored applyset.Scope) bool {
	owned := func(kind applyset.GroupKind) bool {
		return slices.ContainsFunc(served.reconciles, func(rec *reconciling) bool {
			return slices.ContainsFunc(rec.owns, func(r Resource) bool { return r.Group == kind.Group && r.Kind == kind.Kind })
		})
	}
	for _, kind := range stored.Kinds {
		if !owned(kind) {
			return false
		}
	}
	for _, namespace := range stored.Namespaces {
		if !rc.observer.serves(namespace) {
			return false
		}
	}
	return true
}

// wakeParent makes the parent of a set due.
func (rc *reconciler) wakeParent(set string) {
	rc.mu.Lock()
	uid := rc.parents[set]
	rc.mu.Unlock()
	if uid == "" {
		return
	}
	for _, r := range rc.allReactors() {
		r.queue.wakeKey(uid)
	}
}

// labelDefinition labels the definition of a kind whose objects are parents of sets, for other tools.
func (rc *reconciler) labelDefinition(ctx context.Context, c *cycle) error {
	r := c.served.resource
	rc.mu.Lock()
	known := rc.reactors[c.reactor]
	labelled := known.labelled
	rc.mu.Unlock()
	if labelled || isBuiltin(r) {
		return nil
	}
	name := r.Plural + "." + r.Group
	body, err := rc.client.object(ctx, definitionsResource, "", name)
	if err == nil {
		err = rc.labelParentType(ctx, body)
	}
	switch StatusCode(err) {
	case http.StatusForbidden:
		c.log.Warn("Labeling the custom resource definition failed; kubectl does not find the children of its objects in other namespaces", "error", err,
			"hint", "grant the permission to patch customresourcedefinitions, or add the label "+applyset.ParentTypeLabel+`: "true"`, "definition", name, "help", "K712")
	case http.StatusNotFound: // the kind is of an aggregated API server
	default:
		if err != nil {
			return fmt.Errorf("label the definition %s: %w", name, err)
		}
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	known.labelled = true
	return nil
}

// labelParentType labels a definition, unless it has the label.
func (rc *reconciler) labelParentType(ctx context.Context, definition *Body) error {
	if value, _ := definition.Label(applyset.ParentTypeLabel); value == applyset.ParentType {
		return nil
	}
	labels := map[string]any{applyset.ParentTypeLabel: applyset.ParentType}
	patch, err := rawjson.Encode(map[string]any{"metadata": map[string]any{"uid": definition.uid, "labels": labels}})
	if err == nil {
		_, err = rc.client.patchObject(ctx, definitionsResource, "", definition.name, "", string(MergePatch), patch)
	}
	return err
}

// isParent implements [reconcileRunner].
func (rc *reconciler) isParent(c *cycle) bool {
	for _, b := range []*Body{c.knownBody(), c.event.Body} { // an event may predate kopf's own patch
		if _, labelled := b.Label(applyset.IDLabel); !labelled {
			continue
		}
		if set := setID(b.Reference(), c.served.resource); isParentOf(b, set) {
			rc.noteParent(set, c.entry.key)
			return true
		}
	}
	return false
}

// isParent reports whether the object has stored that it has children without an owner reference.
func (c *cycle) isParent() bool {
	return len(c.served.reconciles) > 0 && c.reactor.reconciler.isParent(c)
}

// membersGone deletes the children without an owner reference, and reports whether all are gone. Otherwise, it returns the delay of the next check.
func (c *cycle) membersGone() (wait time.Duration, gone bool) {
	if !c.isParent() {
		return 0, true
	}
	return c.reactor.reconciler.deleteMembers(c)
}

// deleteMembers implements [reconcileRunner].
func (rc *reconciler) deleteMembers(c *cycle) (wait time.Duration, gone bool) {
	left, err := rc.tryDeleteMembers(c)
	end := &c.entry.state.end
	if err == nil && left == 0 {
		end.rounds = 0
		return 0, true
	}
	wait = backoffDelay(end.rounds)
	end.rounds++
	if err != nil && c.reactor.requests.Err() == nil {
		c.log.Warn("Deleting children in other namespaces failed; repeating it", "error", err, "delay", wait, "help", "K503")
	} else {
		c.log.Debug("Waiting for the end of children in other namespaces", "children", left)
	}
	return wait, false
}

// tryDeleteMembers deletes the children without an owner reference, and returns how many remain.
func (rc *reconciler) tryDeleteMembers(c *cycle) (left int, err error) {
	latest := c.latest()
	set := setID(latest.Reference(), c.served.resource)
	scope, err := storedScope(latest)
	if err != nil {
		c.log.Warn("The object has not stored properly where its children in other namespaces are; deleting those that are found", "error", err, "help", "K504")
	}
	scope = scope.Union(rc.scopeOf(set))
	var failures []error
	for _, kind := range scope.Kinds {
		r, err := rc.client.kinds.Preferred(c.sender.ctx, discovering{rc.client}, kind.Group, kind.Kind)
		if err != nil {
			failures = append(failures, err)
		}
		if r == nil { // the kind and its objects are gone, unless the kind is only missing for a moment, such as from a starting API server
			if c.entry.state.end.rounds < rediscoverReads {
				left++
			}
			continue
		}
		namespaces := scope.Namespaces
		if !r.Namespaced {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			n, err := rc.deleteMembersIn(c, Resource(*r), namespace, set)
			if left += n; err != nil {
				failures = append(failures, fmt.Errorf("%s in %q: %w", r.Name(), namespace, err))
			}
		}
	}
	return left, errors.Join(failures...)
}

// deleteMembersIn deletes the members of a set with a kind in a namespace, and returns how many remain.
func (rc *reconciler) deleteMembersIn(c *cycle, r Resource, namespace, set string) (left int, err error) {
	client := c.object(c.latest()).Client
	for range 2 { // most are gone at once
		left = 0
		deleted := false
		for body, err := range client.List(c.sender.ctx, r, &ListOptions{Namespace: namespace, LabelSelector: applyset.PartOfLabel + "=" + set}) {
			if err != nil {
				return left, err
			}
			if !rc.isMember(c, body) {
				continue
			}
			left++
			if body.Deleting() {
				continue
			}
			err := client.Delete(c.sender.ctx, body.Reference(), &DeleteOptions{Propagation: "Background", UID: body.UID()})
			rc.meter.Resource(r.Name()).Wrote(metrics.Delete, StatusCode(err), err == nil)
			if code := StatusCode(err); err != nil && code != http.StatusNotFound && code != http.StatusConflict { // otherwise it is gone, or another object has its name
				return left, err
			}
			c.log.Info("Deleted a child in another namespace, because its owner is being deleted", "kind", body.Kind(), "child", body.Reference())
			deleted = true
		}
		if !deleted {
			break
		}
	}
	return left, nil
}

// isMember reports whether a handler has applied an object with the label of a set. Other controllers copy labels, such as those of Services.
func (rc *reconciler) isMember(c *cycle, b *Body) bool {
	_, wanted := b.Annotation(wantedAnnotation)
	return wanted || slices.ContainsFunc(c.served.reconciles, func(rec *reconciling) bool { return (&desiredSet{reconciling: rec}).manages(b) })
}
