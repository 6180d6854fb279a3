// Package index stores values that many owners contribute under keys, for concurrent readers.
package index

import (
	"slices"
	"sync"
)

// Data is an index of unknown types.
type Data interface {
	// Put replaces the contribution of an owner with a map of the right type. It changes nothing
	// and fails if a key does not equal itself, such as NaN, because nothing could find it again.
	Put(owner string, values any) error
	// Drop removes the contribution of an owner.
	Drop(owner string)
	// Lookup returns the values under a key, or nil if the key has another type.
	Lookup(key any) []any
	// Each calls yield for the keys and their values, as they were at the start, until yield returns false.
	Each(yield func(any, []any) bool)
}

// Values is an index. It is safe for concurrent use, and the zero value is empty. It never modifies values that readers have received.
//
// The cost of a change depends neither on the size of the index nor on the number of values under a key. Instead, the next reader of the key pays for a new
// copy of them, once.
type Values[K comparable, V any] struct {
	mu      sync.RWMutex // guards following
	entries map[K]*entry[V]
	owned   map[string][]place[K]
	whole   map[K][]V // as passed to readers; nil since the last change
}

// entry has the values under one key, and their owners.
type entry[V any] struct {
	owners []string
	values []V
	shared []V // values as passed to readers; nil since the last change
}

// place is the place of an owner's value.
type place[K comparable] struct {
	key K
	at  int
}

// Put replaces the contribution of an owner with a map[K]V. See [Data].
func (v *Values[K, V]) Put(owner string, values any) error {
	wanted := values.(map[K]V)
	for key := range wanted {
		if key != key {
			return keyError(key)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	kept := make([]place[K], 0, len(wanted))
	for _, p := range v.owned[owner] {
		if value, ok := wanted[p.key]; ok {
			v.entries[p.key].values[p.at], v.entries[p.key].shared = value, nil
			kept = append(kept, p)
		} else {
			v.remove(p)
		}
	}
	for key, value := range wanted {
		if slices.ContainsFunc(kept, func(p place[K]) bool { return p.key == key }) {
			continue
		}
		if v.entries == nil {
			v.entries, v.owned = make(map[K]*entry[V]), make(map[string][]place[K])
		}
		e := v.entries[key]
		if e == nil {
			e = &entry[V]{}
			v.entries[key] = e
		}
		kept = append(kept, place[K]{key, len(e.values)})
		e.owners, e.values, e.shared = append(e.owners, owner), append(e.values, value), nil
	}
	if v.whole = nil; len(kept) > 0 {
		v.owned[owner] = kept
	} else {
		delete(v.owned, owner)
	}
	return nil
}

// Drop removes the contribution of an owner.
func (v *Values[K, V]) Drop(owner string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.owned[owner] {
		v.remove(p)
		v.whole = nil
	}
	delete(v.owned, owner)
}

// remove removes a value, and moves the last one of its key to its place.
func (v *Values[K, V]) remove(p place[K]) {
	e := v.entries[p.key]
	last := len(e.values) - 1
	if last == 0 {
		delete(v.entries, p.key)
		return
	}
	e.shared = nil
	e.values[p.at], e.owners[p.at] = e.values[last], e.owners[last]
	for i, moved := range v.owned[e.owners[p.at]] {
		if moved.key == p.key && moved.at == last {
			v.owned[e.owners[p.at]][i].at = p.at
		}
	}
	clear(e.values[last:])
	clear(e.owners[last:])
	e.values, e.owners = e.values[:last], e.owners[:last]
}

// Get returns the values under a key, or nil. The caller must not modify them.
func (v *Values[K, V]) Get(key K) []V {
	if values, shared := v.shared(key); shared {
		return values
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.share(key)
}

// shared returns the values under a key if readers can have them without a copy. It panics for
// a key that is an interface with a slice, a map or a function, as any map does.
func (v *Values[K, V]) shared(key K) (values []V, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e := v.entries[key]
	if e == nil {
		return nil, true
	}
	return e.shared, e.shared != nil
}

// share returns the values under a key for readers. It needs the write lock.
func (v *Values[K, V]) share(key K) []V {
	e := v.entries[key]
	if e == nil {
		return nil
	}
	if e.shared == nil {
		e.shared = slices.Clip(slices.Clone(e.values))
	}
	return e.shared
}

// Has reports whether there are values under a key.
func (v *Values[K, V]) Has(key K) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.entries[key] != nil
}

// Len returns the number of keys.
func (v *Values[K, V]) Len() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.entries)
}

// All returns the keys and their values. The caller must not modify them.
func (v *Values[K, V]) All() map[K][]V {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.whole == nil {
		v.whole = make(map[K][]V, len(v.entries))
		for key := range v.entries {
			v.whole[key] = v.share(key)
		}
	}
	return v.whole
}

// Lookup returns the values under a key, or nil if it is not of the type K.
func (v *Values[K, V]) Lookup(key any) []any {
	k, ok := key.(K)
	if !ok {
		return nil
	}
	return anySlice(v.Get(k))
}

// Each calls yield for the keys and their values, as they were at the start, until yield returns false.
func (v *Values[K, V]) Each(yield func(any, []any) bool) {
	for key, values := range v.All() {
		if !yield(key, anySlice(values)) {
			return
		}
	}
}

func anySlice[V any](values []V) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}
