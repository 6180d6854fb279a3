package apiserver

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file stores the objects of the in-memory API server, with their history for those who
// watch. An object is stored as the bytes that are sent; what is stored is never changed, only replaced, so it is
// shared by all who read. The functions are called on the goroutines of the requests.

// item is one object in one state.
type item struct {
	key       string // namespace/name, or the name alone
	namespace string
	name      string
	version   uint64
	raw       []byte // compact JSON
}

// object decodes the item, for those who are going to change it.
func (i *item) object() map[string]any { return unstructured.View(i.raw).Map() }

// change is one step in the history of a collection.
type change struct {
	typ    watchEvent
	now    *item
	before *item // nil for creations
}

// collection is all objects of one group and resource, in whatever version they are asked for.
type collection struct {
	objects map[string]*item
	sorted  []*item  // by key; nil when it must be made anew. Never changed
	history []change // by version
	oldest  uint64   // the version before the first change in the history
	changed chan struct{}
}

// database is all objects of a server.
type database struct {
	mu          sync.RWMutex // guards everything in here
	version     uint64
	compacted   uint64                 // the version up to which everything is forgotten
	collections map[string]*collection // by plural.group
	limit       int                    // of each history
	snapshots   []snapshot             // for the pages of lists, newest last
}

// snapshot is a list as it was at its first page.
type snapshot struct {
	version uint64
	where   *collection
	items   []*item
}

// maxSnapshots is the number of lists that can be read page by page at the same time.
const maxSnapshots = 64

func newDatabase(limit int) *database {
	return &database{version: 1, collections: make(map[string]*collection), limit: limit}
}

// collection returns a collection, made when first asked for. The caller holds the lock for writing, or has made it before.
func (d *database) collectionLocked(name string) *collection {
	c := d.collections[name]
	if c == nil {
		c = &collection{objects: make(map[string]*item), changed: make(chan struct{}), oldest: d.compacted}
		d.collections[name] = c
	}
	return c
}

func (d *database) collection(name string) *collection {
	d.mu.RLock()
	c := d.collections[name]
	d.mu.RUnlock()
	if c != nil {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.collectionLocked(name)
}

// get returns an object, nil if there is none.
func (d *database) get(name, key string) *item {
	c := d.collection(name)
	d.mu.RLock()
	defer d.mu.RUnlock()
	return c.objects[key]
}

// put stores an object in place of what is there, which must be before; nil means that there must be nothing. It gives
// the object its version. It tells whether it could.
func (d *database) put(name, key string, before *item, object map[string]any) (*item, bool, error) {
	c := d.collection(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.objects[key] != before {
		return nil, false, nil
	}
	now, err := d.nextLocked(key, object)
	if err != nil {
		return nil, false, err
	}
	typ := modified
	if before == nil {
		typ = added
	}
	c.objects[key] = now
	d.recordLocked(c, change{typ, now, before})
	return now, true, nil
}

// remove deletes an object, which must be before. The object is its last state, and gets a version of its own.
func (d *database) remove(name, key string, before *item, object map[string]any) (*item, bool, error) {
	c := d.collection(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.objects[key] != before {
		return nil, false, nil
	}
	last, err := d.nextLocked(key, object)
	if err != nil {
		return nil, false, err
	}
	delete(c.objects, key)
	d.recordLocked(c, change{deleted, last, before})
	return last, true, nil
}

func (d *database) nextLocked(key string, object map[string]any) (*item, error) {
	meta := rawjson.AsMap(object["metadata"])
	meta["resourceVersion"] = strconv.FormatUint(d.version+1, 10)
	raw, err := rawjson.Encode(object)
	if err != nil {
		return nil, err
	}
	d.version++
	namespace := unstructured.Text(meta, "namespace")
	name := unstructured.Text(meta, "name")
	return &item{key: key, namespace: namespace, name: name, version: d.version, raw: raw}, nil
}

func (d *database) recordLocked(c *collection, step change) {
	c.sorted = nil
	c.history = append(c.history, step)
	if len(c.history) > d.limit {
		drop := len(c.history) - d.limit/2
		c.oldest = c.history[drop-1].now.version
		c.history = slices.Clone(c.history[drop:])
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// compact forgets the history of all collections.
func (d *database) compact() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version++ // so that a version from before is certainly too old
	d.compacted = d.version
	for _, c := range d.collections {
		c.history, c.oldest = nil, d.version
		close(c.changed)
		c.changed = make(chan struct{})
	}
	d.snapshots = nil
}

// list returns all objects of a collection by their keys, and the version that this is the state of.
func (d *database) list(name string) ([]*item, uint64) {
	c := d.collection(name)
	d.mu.RLock()
	items, version := c.sorted, d.version
	d.mu.RUnlock()
	if items != nil {
		return items, version
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return c.sortedLocked(), d.version
}

func (c *collection) sortedLocked() []*item {
	if c.sorted == nil {
		c.sorted = make([]*item, 0, len(c.objects))
		for _, i := range c.objects {
			c.sorted = append(c.sorted, i)
		}
		slices.SortStableFunc(c.sorted, func(a, b *item) int { return cmp.Compare(a.key, b.key) })
	}
	return c.sorted
}

// at returns the list as it was at a version, and whether the history goes back so far.
func (d *database) at(name string, version uint64) ([]*item, bool) {
	steps, _, _, known := d.since(name, version)
	if !known {
		return nil, false
	}
	if len(steps) == 0 {
		items, _ := d.list(name)
		return items, true
	}
	c := d.collection(name)
	d.mu.RLock()
	defer d.mu.RUnlock()
	objects := maps.Clone(c.objects)
	for i := len(c.history) - 1; i >= 0 && c.history[i].now.version > version; i-- {
		step := c.history[i]
		if step.before == nil {
			delete(objects, step.now.key)
		} else {
			objects[step.before.key] = step.before
		}
	}
	return (&collection{objects: objects}).sortedLocked(), true
}

// keep keeps a list for its further pages.
func (d *database) keep(name string, version uint64, items []*item) {
	c := d.collection(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshots = append(d.snapshots, snapshot{version, c, items})
	if len(d.snapshots) > maxSnapshots {
		d.snapshots = slices.Delete(d.snapshots, 0, 1)
	}
}

// snapshot returns a list that was kept, and whether there is one.
func (d *database) snapshot(name string, version uint64) ([]*item, bool) {
	c := d.collection(name)
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, s := range d.snapshots {
		if s.version == version && s.where == c {
			return s.items, true
		}
	}
	return nil, false
}

// since returns the changes after a version, the newest version of all, and what is closed at the next change. The flag tells
// whether the history goes back so far.
func (d *database) since(name string, version uint64) (steps []change, now uint64, next <-chan struct{}, known bool) {
	c := d.collection(name)
	d.mu.RLock()
	defer d.mu.RUnlock()
	if version < c.oldest {
		return nil, d.version, c.changed, false
	}
	i, _ := slices.BinarySearchFunc(c.history, version+1, func(s change, v uint64) int { return cmp.Compare(s.now.version, v) })
	return c.history[i:len(c.history):len(c.history)], d.version, c.changed, true
}

// now returns the newest version.
func (d *database) now() uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.version
}

// watchEvent is the type of an event of a watch.
type watchEvent string

const (
	added         watchEvent = "ADDED"
	modified      watchEvent = "MODIFIED"
	deleted       watchEvent = "DELETED"
	eventBookmark watchEvent = "BOOKMARK" // carries a version alone, from which a watch can go on
)
