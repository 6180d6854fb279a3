package kopf

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// This file knows the indices: how they are registered, what they hold, and how they are read. The
// engine fills them; handlers read them on goroutines of their own.

// IndexFunc tells what an object contributes to an index: a value for each of some keys. A nil map leaves what the object
// has contributed before; an empty one takes it back. It is called for each event of the object, and before all other handlers.
type IndexFunc[K comparable, V any] func(ctx context.Context, i *Indexing) (map[K]V, error)

// Indexing is what functions of indices get. What they put into the Patch is not sent.
type Indexing struct {
	Object
	Attempt
}

// IndexOptions are the options of indices. Zero values mean the defaults.
type IndexOptions struct {
	// ID names the index. Several functions can fill one index if they have the same ID and return the same types. Defaults to the name of
	// the function.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Labels and Annotations say which ones the object must have. Default to any.
	Labels, Annotations Match
	// When says whether the object is to be indexed, by looking at all of it. Defaults to always.
	When func(*Indexing) bool
	// Field is the path of a field that must be present. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*Value) bool. Defaults to Present.
	Value any
	// Param is handed to the function as it is. Defaults to nil.
	Param any
	// Errors says what becomes of errors that are neither temporary nor permanent. Defaults to [ErrorsIgnored]: they are logged, and
	// what the object has contributed before stays. After the others it does not.
	Errors ErrorsMode
	// Timeout is the time for all attempts until a success. Zero means no limit.
	Timeout time.Duration
	// Retries is the number of attempts until a success. Zero means no limit.
	Retries int
	// Backoff is the pause after an error in the mode [ErrorsTemporary]. Defaults to [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
}

// Holder is the argument of any handler. It knows the operator that the call belongs to.
type Holder interface {
	// Memo returns the memo of the object, or of the operator where there is no object.
	Memo() *Memo
	indexes() Indices
}

// Index maps keys to the values of all objects that have contributed one. It is filled
// for all objects that exist before any handler of objects is called, and kept right afterwards. One Index serves all operators that
// run on its registry: each of them has its own content, found by the argument of the handler.
//
// An Index is safe for concurrent use. What it returns is shared and must not be changed.
type Index[K comparable, V any] struct{ id HandlerID }

// OnIndex registers an index in the default registry. See [OnIndexIn].
func OnIndex[K comparable, V any](s Selector, fn IndexFunc[K, V], opts *IndexOptions) *Index[K, V] {
	i, err := newIndex(DefaultRegistry(), s, fn, opts)
	must(kindIndex, err)
	return i
}

// OnIndexIn registers an index of the objects of the selected resources in a registry. It panics as [Registry.OnEvent]
// does, and if functions with other types fill the same index.
func OnIndexIn[K comparable, V any](r *Registry, s Selector, fn IndexFunc[K, V], opts *IndexOptions) *Index[K, V] {
	i, err := newIndex(r, s, fn, opts)
	must(kindIndex, err)
	return i
}

func newIndex[K comparable, V any](r *Registry, s Selector, fn IndexFunc[K, V], opts *IndexOptions) (*Index[K, V], error) {
	spec := &indexing{
		types: reflect.TypeFor[map[K]V](),
		fill:  func() indexData { return &indexValues[K, V]{} },
		call: func(ctx context.Context, i *Indexing) (any, error) {
			values, err := fn(ctx, i)
			if values == nil {
				return nil, err
			}
			return values, err
		},
	}
	id, err := r.onIndex(s, fn, spec, opts)
	return &Index[K, V]{id: id}, err
}

// indexing is what only indices have. The types of keys and values are known inside of the functions.
type indexing struct {
	types reflect.Type
	fill  func() indexData
	call  func(ctx context.Context, i *Indexing) (any, error)
}

func (r *Registry) onIndex(s Selector, fn any, spec *indexing, opts *IndexOptions) (HandlerID, error) {
	o := IndexOptions{}
	if opts != nil {
		o = *opts
	}
	h := &handler{
		kind: kindIndex, field: o.Field.Keys(), param: o.Param, indexing: spec,
		errors: cmp.Or(o.Errors, ErrorsIgnored), timeout: o.Timeout, retries: o.Retries, backoff: o.Backoff,
	}
	if when := o.When; when != nil {
		h.filters.whenObject = func(o *Object) bool { return when(&Indexing{Object: *o}) }
	}
	err := r.addObjectHandler(h, s, o.Where, o.ID, fn, o.Labels, o.Annotations, o.Value)
	return h.id, err
}

// Get returns the values under a key, one of each object that has contributed one, in no order; nil if there are none.
func (i *Index[K, V]) Get(h Holder, key K) []V {
	if data := i.of(h); data != nil {
		return data.get(key)
	}
	return nil
}

// Has reports whether there are values under a key.
func (i *Index[K, V]) Has(h Holder, key K) bool {
	data := i.of(h)
	return data != nil && data.has(key)
}

// Len returns the number of keys.
func (i *Index[K, V]) Len(h Holder) int {
	if data := i.of(h); data != nil {
		return data.len()
	}
	return 0
}

// All goes over the keys and their values, in no order, as they were when it began.
func (i *Index[K, V]) All(h Holder) iter.Seq2[K, []V] { return maps.All(i.all(h)) }

func (i *Index[K, V]) all(h Holder) map[K][]V {
	if data := i.of(h); data != nil {
		return data.all()
	}
	return nil
}

func (i *Index[K, V]) of(h Holder) *indexValues[K, V] {
	data, _ := h.indexes().data[i.id].(*indexValues[K, V])
	return data
}

// Indices are all indices of an operator by their ids, for those who do not know the types.
type Indices struct{ data map[HandlerID]indexData }

// newIndices makes empty indices for all that are registered.
func newIndices(r *Registry) Indices {
	all := Indices{make(map[HandlerID]indexData)}
	for _, h := range r.activities(kindIndex) {
		if all.data[h.id] == nil {
			all.data[h.id] = h.indexing.fill()
		}
	}
	return all
}

// IDs returns the ids of the indices, in order.
func (i Indices) IDs() []HandlerID { return slices.Sorted(maps.Keys(i.data)) }

// Get returns the values under a key of an index; nil if there are none, or no such index.
func (i Indices) Get(id HandlerID, key any) []any {
	if data := i.data[id]; data != nil {
		return data.lookup(key)
	}
	return nil
}

// All goes over the keys and values of an index as they were when it began; there are none if there is no such index.
func (i Indices) All(id HandlerID) iter.Seq2[any, []any] {
	if data := i.data[id]; data != nil {
		return data.each
	}
	return func(func(any, []any) bool) {}
}

// indexData is the content of an index of one operator.
type indexData interface {
	// put replaces what an owner has contributed, by a map of the right type.
	put(owner string, values any)
	drop(owner string)
	lookup(key any) []any
	each(yield func(any, []any) bool)
}

// indexValues is the content of an index. What was handed out to readers is never changed again. A change costs the same however large
// the index is, and however many values are under its key: it is the next reader of the key who pays for a new copy of them, once.
type indexValues[K comparable, V any] struct {
	mu       sync.RWMutex // guards following
	entries  map[K]*indexEntry[V]
	owned    map[string][]indexPlace[K]
	snapshot map[K][]V // as it was handed out, nil since the last change
}

// indexEntry is what is under one key: the values, and whose they are.
type indexEntry[V any] struct {
	owners []string
	values []V
	shared []V // the values as they were handed out, nil since the last change
}

// indexPlace is where a value of an owner is.
type indexPlace[K comparable] struct {
	key K
	at  int
}

func (v *indexValues[K, V]) put(owner string, values any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	wanted := values.(map[K]V)
	kept := make([]indexPlace[K], 0, len(wanted))
	for _, p := range v.owned[owner] {
		if value, ok := wanted[p.key]; ok {
			v.entries[p.key].values[p.at], v.entries[p.key].shared = value, nil
			kept = append(kept, p)
		} else {
			v.remove(p)
		}
	}
	for key, value := range wanted {
		if slices.ContainsFunc(kept, func(p indexPlace[K]) bool { return p.key == key }) {
			continue
		}
		if v.entries == nil {
			v.entries, v.owned = make(map[K]*indexEntry[V]), make(map[string][]indexPlace[K])
		}
		e := v.entries[key]
		if e == nil {
			e = &indexEntry[V]{}
			v.entries[key] = e
		}
		kept = append(kept, indexPlace[K]{key, len(e.values)})
		e.owners, e.values, e.shared = append(e.owners, owner), append(e.values, value), nil
	}
	if v.snapshot = nil; len(kept) > 0 {
		v.owned[owner] = kept
	} else {
		delete(v.owned, owner)
	}
}

func (v *indexValues[K, V]) drop(owner string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.owned[owner] {
		v.remove(p)
		v.snapshot = nil
	}
	delete(v.owned, owner)
}

// remove takes one value away, and puts the last one of its key in its place.
func (v *indexValues[K, V]) remove(p indexPlace[K]) {
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

func (v *indexValues[K, V]) get(key K) []V {
	v.mu.RLock()
	e := v.entries[key]
	if e == nil || e.shared != nil {
		defer v.mu.RUnlock()
		if e == nil {
			return nil
		}
		return e.shared
	}
	v.mu.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shareLocked(key)
}

func (v *indexValues[K, V]) shareLocked(key K) []V {
	e := v.entries[key]
	if e == nil {
		return nil
	}
	if e.shared == nil {
		e.shared = slices.Clip(slices.Clone(e.values))
	}
	return e.shared
}

func (v *indexValues[K, V]) has(key K) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.entries[key] != nil
}

func (v *indexValues[K, V]) len() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.entries)
}

func (v *indexValues[K, V]) all() map[K][]V {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snapshot == nil {
		v.snapshot = make(map[K][]V, len(v.entries))
		for key := range v.entries {
			v.snapshot[key] = v.shareLocked(key)
		}
	}
	return v.snapshot
}

func (v *indexValues[K, V]) lookup(key any) []any {
	k, ok := key.(K)
	if !ok {
		return nil
	}
	return anySlice(v.get(k))
}

func (v *indexValues[K, V]) each(yield func(any, []any) bool) {
	for key, values := range v.all() {
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
