package apiserver

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// The garbage collector deletes the dependents of deleted owners, as the controller of that name does in real clusters. It has no goroutine: it works
// on the goroutine of the request that has stored or removed an object, before the request is answered. See
// https://kubernetes.io/docs/concepts/architecture/garbage-collection/

const (
	foregroundFinalizer = "foregroundDeletion"
	orphanFinalizer     = "orphan"
)

// objectKey is the place of an object in the store.
type objectKey struct{ collection, key string }

// ownerReference is one owner in an object's metadata.
type ownerReference struct {
	APIVersion, Kind, Name, UID string
	BlockOwnerDeletion          bool
}

// collector has the owner references of all objects.
type collector struct {
	mu         sync.Mutex                     // guards following
	owners     map[objectKey][]ownerReference // of each object that has some
	dependents map[string]map[objectKey]bool  // by the uids of their owners
}

func newCollector() *collector {
	return &collector{owners: make(map[objectKey][]ownerReference), dependents: make(map[string]map[objectKey]bool)}
}

// update replaces the owners of an object by the current ones. It returns the previous ones, and whether they have changed. It reads the object from
// the store, because concurrent requests may arrive here in another order than they have changed it.
func (c *collector) update(db *store.Store, object objectKey) (before []ownerReference, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var owners []ownerReference
	if item := db.Get(object.collection, object.key); item != nil {
		owners = ownersOf(item.Raw)
	}
	before = c.owners[object]
	if slices.Equal(before, owners) {
		return nil, false
	}
	for _, o := range before {
		if delete(c.dependents[o.UID], object); len(c.dependents[o.UID]) == 0 {
			delete(c.dependents, o.UID)
		}
	}
	delete(c.owners, object)
	if len(owners) > 0 {
		c.owners[object] = owners
	}
	for _, o := range owners {
		if c.dependents[o.UID] == nil {
			c.dependents[o.UID] = make(map[objectKey]bool)
		}
		c.dependents[o.UID][object] = true
	}
	return before, true
}

// of returns the dependents of an owner, sorted.
func (c *collector) of(uid string) []objectKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.dependents[uid]), func(a, b objectKey) int {
		return strings.Compare(a.collection+" "+a.key, b.collection+" "+b.key)
	})
}

// collectStored does the work of the garbage collector after an object was stored.
func (s *Server) collectStored(k *kindInfo, i *store.Item) {
	if s.collector == nil {
		return
	}
	object := objectKey{k.collection(), i.Key}
	if before, changed := s.collector.update(s.db, object); changed {
		s.collect(object)
		s.finishDeletions(before, i.Namespace)
	}
	if isDeleted(i.Raw) {
		s.finishDeletion(object)
	}
}

// collectRemoved does the work of the garbage collector after an object was removed.
func (s *Server) collectRemoved(k *kindInfo, i *store.Item) {
	if s.collector == nil {
		return
	}
	s.collector.update(s.db, objectKey{k.collection(), i.Key})
	for _, dependent := range s.collector.of(rawjson.StringAt(i.Raw, "metadata", "uid")) {
		s.collect(dependent)
	}
	s.finishDeletions(ownersOf(i.Raw), i.Namespace)
}

// finishDeletions finishes the deletion of owners that may have waited for an object in a namespace.
func (s *Server) finishDeletions(owners []ownerReference, namespace string) {
	for _, o := range owners {
		if kind := s.kindOf(o.APIVersion, o.Kind); kind != nil {
			s.finishDeletion(objectKey{kind.collection(), kind.keyIn(namespace, o.Name)})
		}
	}
}

// keyIn returns the key of an object of the kind, with the namespace if the kind is namespaced.
func (k *kindInfo) keyIn(namespace, name string) string {
	if k.resource.Namespaced {
		return namespace + "/" + name
	}
	return name
}

// collect deletes an object if all of its owners are gone or wait for its deletion. If only some are gone, it removes the references to them.
func (s *Server) collect(object objectKey) {
	for !s.tryCollect(object) {
	}
}

// tryCollect does it for the newest state of the object. It reports false if the object has changed in the meantime.
func (s *Server) tryCollect(object objectKey) (done bool) {
	item := s.db.Get(object.collection, object.key)
	if item == nil || isDeleted(item.Raw) {
		return true
	}
	var gone, waiting []string // uids
	solid := false
	for _, o := range ownersOf(item.Raw) {
		switch owner, known := s.owner(item, o); {
		case !known:
			solid = true
		case owner == nil:
			gone = append(gone, o.UID)
		case isDeleted(owner.Raw) && hasFinalizer(owner.Raw, foregroundFinalizer):
			waiting = append(waiting, o.UID)
		default:
			solid = true
		}
	}
	uid := rawjson.StringAt(item.Raw, "metadata", "uid")
	switch {
	case len(gone)+len(waiting) == 0:
		return true
	case solid:
		if !s.removeOwners(object, append(gone, waiting...)) {
			s.collectLater(object)
		}
		return true
	case len(waiting) > 0 && len(s.collector.of(uid)) > 0:
		return s.deleteDependent(object, item, "Foreground")
	case hasFinalizer(item.Raw, orphanFinalizer):
		return s.deleteDependent(object, item, "Orphan")
	case hasFinalizer(item.Raw, foregroundFinalizer):
		return s.deleteDependent(object, item, "Foreground")
	}
	return s.deleteDependent(object, item, "Background")
}

// owner returns an owner of an object, nil if there is none. It is unknown if the owner's kind is not served, or if a cluster-scoped object refers to
// a namespaced owner.
func (s *Server) owner(dependent *store.Item, o ownerReference) (owner *store.Item, known bool) {
	k := s.kindOf(o.APIVersion, o.Kind)
	if k == nil || k.resource.Namespaced && dependent.Namespace == "" {
		return nil, false
	}
	owner = s.db.Get(k.collection(), k.keyIn(dependent.Namespace, o.Name))
	if owner != nil && rawjson.StringAt(owner.Raw, "metadata", "uid") != o.UID {
		return nil, true
	}
	return owner, true
}

// finishDeletion removes the finalizer of a deleted owner that waited until its dependents were deleted or orphaned.
func (s *Server) finishDeletion(object objectKey) {
	if owner := s.db.Get(object.collection, object.key); owner != nil && isDeleted(owner.Raw) {
		s.process(objectKey{"collected " + object.collection, object.key}, func() { s.finishDeletionNow(object) })
	}
}

// finishDeletionNow does it. Its changes and deletions lead to calls of finishDeletion for the same owner.
func (s *Server) finishDeletionNow(object objectKey) {
	owner := s.db.Get(object.collection, object.key)
	if owner == nil || !isDeleted(owner.Raw) {
		return
	}
	uid := rawjson.StringAt(owner.Raw, "metadata", "uid")
	switch {
	case hasFinalizer(owner.Raw, orphanFinalizer):
		orphaned := true
		for _, dependent := range s.collector.of(uid) {
			if item := s.db.Get(dependent.collection, dependent.key); item != nil && hasOwner(item.Raw, uid) {
				orphaned = s.removeOwners(dependent, []string{uid}) && orphaned
			}
		}
		if !orphaned { // otherwise the dependents that still refer to the owner would be deleted with it
			s.collectLater(object)
			return
		}
		s.removeFinalizer(object, orphanFinalizer)
	case hasFinalizer(owner.Raw, foregroundFinalizer):
		for _, dependent := range s.collector.of(uid) {
			s.collect(dependent)
		}
		if !s.isBlocked(uid) {
			s.removeFinalizer(object, foregroundFinalizer)
		}
	}
}

// isBlocked reports whether dependents block the deletion of their owner. In a cycle of dependents that are all being deleted, none of them blocks.
func (s *Server) isBlocked(uid string) bool {
	for _, dependent := range s.collector.of(uid) {
		item := s.db.Get(dependent.collection, dependent.key)
		if item == nil || isDeleted(item.Raw) && hasFinalizer(item.Raw, foregroundFinalizer) && s.dependsOn(uid, rawjson.StringAt(item.Raw, "metadata", "uid"), map[string]bool{}) {
			continue
		}
		if slices.ContainsFunc(ownersOf(item.Raw), func(o ownerReference) bool { return o.UID == uid && o.BlockOwnerDeletion }) {
			return true
		}
	}
	return false
}

// dependsOn reports whether an object depends on an owner, directly or through other owners.
func (s *Server) dependsOn(uid, owner string, seen map[string]bool) bool {
	for _, dependent := range s.collector.of(owner) {
		item := s.db.Get(dependent.collection, dependent.key)
		if item == nil {
			continue
		}
		found := rawjson.StringAt(item.Raw, "metadata", "uid")
		if found == uid {
			return true
		}
		if !seen[found] {
			seen[found] = true
			if s.dependsOn(uid, found, seen) {
				return true
			}
		}
	}
	return false
}

// byCollector returns a request of the garbage collector for an object, nil if its kind is not served anymore.
func (s *Server) byCollector(verb string, object objectKey) *apiRequest {
	for _, k := range s.kinds() {
		if k.collection() != object.collection {
			continue
		}
		namespace, name, namespaced := strings.Cut(object.key, "/")
		if !namespaced {
			namespace, name = "", object.key
		}
		return &apiRequest{
			server: s, kind: k.inStorage(), verb: verb, namespace: namespace, name: name, manager: "kube-controller-manager",
			ctx: context.Background(), controller: "generic-garbage-collector",
		}
	}
	return nil
}

// deleteDependent deletes an object in a given state. It reports false if the object has changed since.
func (s *Server) deleteDependent(object objectKey, item *store.Item, policy string) (done bool) {
	r := s.byCollector("delete", object)
	if r == nil {
		return true
	}
	version := strconv.FormatUint(item.Version, 10)
	o := deleteOptions{PropagationPolicy: policy}
	o.Preconditions.ResourceVersion = &version
	err := r.deleteObject(o)
	if e := (*apierrors.StatusError)(nil); errtype.As(err, &e) && e.Code == 409 && s.db.Get(object.collection, object.key) != item { // or a webhook has refused it
		return false
	}
	if !s.logCollected(object, err) {
		s.collectLater(object)
	}
	return true
}

// collectLater retries the deletion of an object or of its finalizer, which a webhook may have refused.
func (s *Server) collectLater(object objectKey) {
	s.tryLater(objectKey{"collected " + object.collection, object.key}, func(s *Server) {
		s.collect(object)
		s.finishDeletion(object)
	})
}

// removeOwners removes references to owners, and reports whether it succeeded.
func (s *Server) removeOwners(object objectKey, uids []string) bool {
	return s.edit(object, func(live map[string]any) {
		meta := rawjson.AsMap(live["metadata"])
		owners, _ := meta["ownerReferences"].([]any)
		owners = slices.DeleteFunc(owners, func(o any) bool { return slices.Contains(uids, unstructured.Text(rawjson.AsMap(o), "uid")) })
		if meta["ownerReferences"] = owners; len(owners) == 0 {
			delete(meta, "ownerReferences")
		}
	})
}

func (s *Server) removeFinalizer(object objectKey, finalizer string) {
	if !s.edit(object, func(live map[string]any) { manifest.RemoveFinalizer(live, finalizer) }) {
		s.collectLater(object)
	}
}

func (s *Server) edit(object objectKey, change func(live map[string]any)) bool {
	r := s.byCollector("patch", object)
	if r == nil {
		return true
	}
	_, err := r.changeObject(func(live map[string]any) (map[string]any, error) {
		change(live)
		return live, nil
	})
	return s.logCollected(object, err)
}

// logCollected logs a failure to collect an object, and reports whether there was none. A conflict with another request is no failure.
func (s *Server) logCollected(object objectKey, err error) bool {
	if err == nil || s.db.Get(object.collection, object.key) == nil {
		return true
	}
	s.opts.Logger.Error("Collecting a dependent failed", "resource", object.collection, "object", object.key, "error", err)
	return false
}

func isDeleted(raw []byte) bool { return rawjson.StringAt(raw, "metadata", "deletionTimestamp") != "" }

func hasFinalizer(raw []byte, finalizer string) bool {
	list, _ := rawjson.Find(raw, "metadata", "finalizers")
	found := false
	_ = rawjson.EachItem(list, func(item []byte) bool { // it is JSON
		found = rawjson.Unquote(item) == finalizer
		return !found
	})
	return found
}

// hasOwner reports whether an object refers to an owner.
func hasOwner(raw []byte, uid string) bool {
	return slices.ContainsFunc(ownersOf(raw), func(o ownerReference) bool { return o.UID == uid })
}

// ownersOf returns the owners in an object's metadata.
func ownersOf(raw []byte) (all []ownerReference) {
	list, _ := rawjson.Find(raw, "metadata", "ownerReferences")
	_ = rawjson.EachItem(list, func(item []byte) bool { // it is JSON
		blocks, _ := rawjson.Find(item, "blockOwnerDeletion")
		all = append(all, ownerReference{
			APIVersion: rawjson.StringAt(item, "apiVersion"), Kind: rawjson.StringAt(item, "kind"), Name: rawjson.StringAt(item, "name"),
			UID: rawjson.StringAt(item, "uid"), BlockOwnerDeletion: string(blocks) == "true",
		})
		return true
	})
	return all
}
