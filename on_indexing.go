package kopf

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/index"
)

// This file registers and reads indices. The engine fills them; handlers read them on goroutines of their own.

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
func OnIndexIn[K comparable, V any](g *Registry, s Selector, fn IndexFunc[K, V], opts *IndexOptions) *Index[K, V] {
	i, err := newIndex(g, s, fn, opts)
	must(kindIndex, err)
	return i
}

func newIndex[K comparable, V any](r *Registry, s Selector, fn IndexFunc[K, V], opts *IndexOptions) (*Index[K, V], error) {
	spec := &indexing{
		types: reflect.TypeFor[map[K]V](),
		fill:  func() index.Data { return &index.Values[K, V]{} },
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
	fill  func() index.Data
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
		return data.Get(key)
	}
	return nil
}

// Has reports whether there are values under a key.
func (i *Index[K, V]) Has(h Holder, key K) bool {
	data := i.of(h)
	return data != nil && data.Has(key)
}

// Len returns the number of keys.
func (i *Index[K, V]) Len(h Holder) int {
	if data := i.of(h); data != nil {
		return data.Len()
	}
	return 0
}

// All goes over the keys and their values, in no order, as they were when it began.
func (i *Index[K, V]) All(h Holder) iter.Seq2[K, []V] { return maps.All(i.all(h)) }

func (i *Index[K, V]) all(h Holder) map[K][]V {
	if data := i.of(h); data != nil {
		return data.All()
	}
	return nil
}

func (i *Index[K, V]) of(h Holder) *index.Values[K, V] {
	data, _ := h.indexes().data[i.id].(*index.Values[K, V])
	return data
}

// Indices are all indices of an operator by their ids, for those who do not know the types.
type Indices struct{ data map[HandlerID]index.Data }

// newIndices makes empty indices for all that are registered.
func newIndices(r *Registry) Indices {
	all := Indices{make(map[HandlerID]index.Data)}
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
		return data.Lookup(key)
	}
	return nil
}

// All goes over the keys and values of an index as they were when it began; there are none if there is no such index.
func (i Indices) All(id HandlerID) iter.Seq2[any, []any] {
	if data := i.data[id]; data != nil {
		return data.Each
	}
	return func(func(any, []any) bool) {}
}
