// Package store keeps the objects of a server, and their history for watches. It keeps each object as the bytes of responses. The store replaces
// these and never changes them, so all readers share them.
package store

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Item is one object in one state.
type Item struct {
	Key       string // namespace/name, or the name alone
	Namespace string
	Name      string
	Version   uint64
	Raw       []byte // compact JSON
}

// Object decodes the item. The caller may change the result.
func (i *Item) Object() map[string]any { return unstructured.View(i.Raw).Map() }

// Change is one change in the history of a collection.
type Change struct {
	Type   ChangeType
	Now    *Item // the state after the change; for deletions, the last one
	Before *Item // nil for creations
}

// collection has all objects of one group and resource, in all their versions.
type collection struct {
	objects map[string]*Item
	sorted  []*Item  // sorted by key, as of the last list; nil if that is outdated. The slice itself never changes
	dirty   []string // the keys that have changed since then
	history []Change // by version
	bytes   int      // the size of the states in the history
	oldest  uint64   // the version before the first change in the history
	changed chan struct{}
}

// Store has all objects of a server. It is safe for concurrent use.
type Store struct {
	mu          sync.RWMutex // guards all other fields
	version     uint64
	compacted   uint64                 // the version up to which the history was dropped
	collections map[string]*collection // by plural.group
	limit       int                    // the maximum number of changes in each history
	bytes       int                    // of all histories
	snapshots   []*snapshot            // for the pages of lists, newest last
	kept        int                    // the bytes of all snapshots
}

// snapshot is a list in the state of its first page.
type snapshot struct {
	version uint64
	where   *collection
	items   []*Item
	readers int // those that have not read the last page
	bytes   int // of its states that are outdated, and not in a newer snapshot
}

// MaxHistoryBytes is the maximum total size of the states in all histories.
const MaxHistoryBytes = 64 << 20

// maxSnapshots is the maximum number of snapshots for pages. MaxSnapshotBytes is the maximum total size of the states that only snapshots keep.
const (
	maxSnapshots     = 64
	MaxSnapshotBytes = 32 << 20
	pointerBytes     = 8 // of each item in a list
)

// New returns an empty store. Its history has at most limit changes per collection, and at most [MaxHistoryBytes].
func New(limit int) *Store {
	return &Store{version: 1, collections: make(map[string]*collection), limit: limit}
}

// collectionLocked returns a collection. It adds a missing one, so the caller holds the lock for writing, unless the collection exists.
func (s *Store) collectionLocked(name string) *collection {
	c := s.collections[name]
	if c == nil {
		c = &collection{objects: make(map[string]*Item), changed: make(chan struct{}), oldest: s.compacted}
		s.collections[name] = c
	}
	return c
}

func (s *Store) collection(name string) *collection {
	s.mu.RLock()
	c := s.collections[name]
	s.mu.RUnlock()
	if c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collectionLocked(name)
}

// Get returns an object of a collection, nil if there is none.
func (s *Store) Get(name, key string) *Item {
	c := s.collection(name)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return c.objects[key]
}

// ErrTooLarge is the error about objects that exceed the limit.
var ErrTooLarge = errors.New("the object is too large")

// Put stores an object in place of before, which is nil for a new object, and sets its resourceVersion. It reports false if the stored object differs
// from before. It returns [ErrTooLarge] if the object has more bytes than the limit. 0 means no limit.
func (s *Store) Put(name, key string, before *Item, object map[string]any, limit int) (*Item, bool, error) {
	c := s.collection(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.objects[key] != before {
		return nil, false, nil
	}
	now, err := s.nextLocked(key, object)
	if err == nil && limit > 0 && len(now.Raw) > limit {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, false, err
	}
	typ := Modified
	if before == nil {
		typ = Added
	}
	c.objects[key] = now
	s.recordLocked(c, Change{typ, now, before})
	return now, true, nil
}

// Remove deletes an object. The parameter object is its last state, which gets a new resourceVersion. It reports false if the stored object differs
// from before.
func (s *Store) Remove(name, key string, before *Item, object map[string]any) (*Item, bool, error) {
	c := s.collection(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.objects[key] != before {
		return nil, false, nil
	}
	last, err := s.nextLocked(key, object)
	if err != nil {
		return nil, false, err
	}
	delete(c.objects, key)
	s.recordLocked(c, Change{Deleted, last, before})
	return last, true, nil
}

func (s *Store) nextLocked(key string, object map[string]any) (*Item, error) {
	meta := rawjson.AsMap(object["metadata"])
	meta["resourceVersion"] = strconv.FormatUint(s.version+1, 10)
	raw, err := rawjson.Encode(object)
	if err != nil {
		return nil, err
	}
	s.version++
	namespace := unstructured.Text(meta, "namespace")
	name := unstructured.Text(meta, "name")
	return &Item{Key: key, Namespace: namespace, Name: name, Version: s.version, Raw: raw}, nil
}

func (s *Store) recordLocked(c *collection, step Change) {
	c.touchLocked(step.Now.Key)
	c.history = append(c.history, step)
	c.bytes += len(step.Now.Raw)
	s.bytes += len(step.Now.Raw)
	if len(c.history) > s.limit {
		s.trimLocked(c, s.limit/2)
	}
	for s.bytes > MaxHistoryBytes {
		largest := c
		for _, other := range s.collections {
			if other.bytes > largest.bytes {
				largest = other
			}
		}
		s.trimLocked(largest, len(largest.history)/2)
	}
	s.countLocked(c, step.Before)
	close(c.changed)
	c.changed = make(chan struct{})
}

// touchLocked marks a key as changed for the next list.
func (c *collection) touchLocked(key string) {
	if c.sorted == nil {
		return
	}
	if c.dirty = append(c.dirty, key); len(c.dirty) > 100+len(c.objects)/16 { // sorting all keys takes no more time
		c.sorted, c.dirty = nil, nil
	}
}

// trimLocked drops all but the last changes of a history.
func (s *Store) trimLocked(c *collection, keep int) {
	drop := len(c.history) - keep
	for _, step := range c.history[:drop] {
		c.bytes -= len(step.Now.Raw)
		s.bytes -= len(step.Now.Raw)
	}
	c.oldest = c.history[drop-1].Now.Version
	c.history = slices.Clone(c.history[drop:])
}

// Compact drops the history of all collections.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++ // so that all earlier versions are too old
	s.compacted = s.version
	for _, c := range s.collections {
		c.history, c.bytes, c.oldest = nil, 0, s.version
		close(c.changed)
		c.changed = make(chan struct{})
	}
	s.snapshots, s.kept, s.bytes = nil, 0, 0
}

// List returns all objects of a collection, sorted by key, and the version of the list.
func (s *Store) List(name string) ([]*Item, uint64) {
	c := s.collection(name)
	s.mu.RLock()
	items, version, current := c.sorted, s.version, len(c.dirty) == 0
	s.mu.RUnlock()
	if items != nil && current {
		return items, version
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.sortedLocked(), s.version
}

// sortedLocked returns the objects by key. It sorts only those that have changed since the last call.
func (c *collection) sortedLocked() []*Item {
	if len(c.dirty) > 0 {
		c.sorted, c.dirty = c.mergedLocked(), nil
	}
	if c.sorted == nil {
		c.sorted = make([]*Item, 0, len(c.objects))
		for _, i := range c.objects {
			c.sorted = append(c.sorted, i)
		}
		slices.SortStableFunc(c.sorted, func(a, b *Item) int { return cmp.Compare(a.Key, b.Key) })
	}
	return c.sorted
}

// mergedLocked returns the sorted objects, merged with those that have changed since.
func (c *collection) mergedLocked() []*Item {
	slices.Sort(c.dirty)
	old, merged := c.sorted, make([]*Item, 0, len(c.objects))
	for _, key := range slices.Compact(c.dirty) {
		i, there := slices.BinarySearchFunc(old, key, func(item *Item, key string) int { return cmp.Compare(item.Key, key) })
		merged = append(merged, old[:i]...)
		if old = old[i:]; there {
			old = old[1:]
		}
		if now := c.objects[key]; now != nil {
			merged = append(merged, now)
		}
	}
	return append(merged, old...)
}

// At returns the list at a version, and reports whether the history goes back that far.
func (s *Store) At(name string, version uint64) ([]*Item, bool) {
	c := s.collection(name)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if version < c.oldest {
		return nil, false
	}
	if n := len(c.history); c.sorted != nil && len(c.dirty) == 0 && (n == 0 || c.history[n-1].Now.Version <= version) {
		return c.sorted, true
	}
	objects := maps.Clone(c.objects)
	for i := len(c.history) - 1; i >= 0 && c.history[i].Now.Version > version; i-- {
		step := c.history[i]
		if step.Before == nil {
			delete(objects, step.Now.Key)
		} else {
			objects[step.Before.Key] = step.Before
		}
	}
	return (&collection{objects: objects}).sortedLocked(), true
}

// Keep keeps a list for its next pages. Each reader that has called Keep must call [Store.Release]. If the lists are too many or too large, the store
// drops the oldest ones earlier.
func (s *Store) Keep(name string, version uint64, items []*Item) {
	c := s.collection(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.snapshotLocked(c, version); i >= 0 {
		s.snapshots[i].readers++
		return
	}
	kept := &snapshot{version: version, where: c, items: items, readers: 1}
	at, _ := slices.BinarySearchFunc(s.snapshots, version, func(o *snapshot, v uint64) int { return cmp.Compare(o.version, v) })
	newer := make(map[*Item]bool) // of newer snapshots, which count these states
	for _, o := range s.snapshots[at:] {
		if o.where == c {
			for _, item := range o.items {
				newer[item] = true
			}
		}
	}
	for _, item := range items {
		if c.objects[item.Key] != item && !newer[item] { // it was replaced before the store kept the list
			kept.bytes += len(item.Raw)
		}
	}
	s.snapshots = slices.Insert(s.snapshots, at, kept)
	s.kept += pointerBytes*len(items) + kept.bytes
	s.limitSnapshotsLocked()
}

// Release ends the use of a list by a reader that has read the last page.
func (s *Store) Release(name string, version uint64) {
	c := s.collection(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.snapshotLocked(c, version); i >= 0 {
		if s.snapshots[i].readers--; s.snapshots[i].readers == 0 {
			s.dropSnapshotLocked(i)
		}
	}
}

// snapshotLocked returns the index of the snapshot of a collection at a version, -1 if there is none.
func (s *Store) snapshotLocked(c *collection, version uint64) int {
	return slices.IndexFunc(s.snapshots, func(kept *snapshot) bool { return kept.version == version && kept.where == c })
}

// countLocked adds a replaced state to the size of the newest snapshot that contains it.
func (s *Store) countLocked(c *collection, old *Item) {
	if old == nil {
		return
	}
	if newest := s.newestLocked(c, len(s.snapshots)); newest != nil && newest.version >= old.Version {
		newest.bytes += len(old.Raw)
		s.kept += len(old.Raw)
		s.limitSnapshotsLocked()
	}
}

// newestLocked returns the last one of the first n snapshots that belongs to a collection, nil if there is none.
func (s *Store) newestLocked(c *collection, n int) *snapshot {
	for i := n - 1; i >= 0; i-- {
		if s.snapshots[i].where == c {
			return s.snapshots[i]
		}
	}
	return nil
}

// limitSnapshotsLocked drops the oldest snapshots if there are too many, or if they are too large.
func (s *Store) limitSnapshotsLocked() {
	for len(s.snapshots) > maxSnapshots || s.kept > MaxSnapshotBytes {
		s.dropSnapshotLocked(0)
	}
}

// dropSnapshotLocked drops a snapshot. An older one of the same collection may contain the same states. It counts them afterwards.
func (s *Store) dropSnapshotLocked(i int) {
	dropped := s.snapshots[i]
	s.kept -= pointerBytes * len(dropped.items)
	if older := s.newestLocked(dropped.where, i); older != nil {
		older.bytes += dropped.bytes
	} else {
		s.kept -= dropped.bytes
	}
	s.snapshots = slices.Delete(s.snapshots, i, i+1)
}

// Snapshot returns a list that was kept, and reports whether there is one.
func (s *Store) Snapshot(name string, version uint64) ([]*Item, bool) {
	c := s.collection(name)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i := s.snapshotLocked(c, version); i >= 0 {
		return s.snapshots[i].items, true
	}
	return nil, false
}

// Since returns the changes of a collection after a version, the newest version, and a channel that
// is closed at the next change. It reports whether the history goes back that far.
func (s *Store) Since(name string, version uint64) (steps []Change, now uint64, next <-chan struct{}, known bool) {
	c := s.collection(name)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if version < c.oldest {
		return nil, s.version, c.changed, false
	}
	i, _ := slices.BinarySearchFunc(c.history, version+1, func(step Change, v uint64) int { return cmp.Compare(step.Now.Version, v) })
	return c.history[i:len(c.history):len(c.history)], s.version, c.changed, true
}

// Now returns the newest version.
func (s *Store) Now() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// ChangeType is the type of a change in watch events.
type ChangeType string

// The types of changes.
const (
	Added    ChangeType = "ADDED"
	Modified ChangeType = "MODIFIED"
	Deleted  ChangeType = "DELETED"
)
