package kopf

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/funcid"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/structschema"
)

// This file makes handlers of functions that take the object as a struct. Programs without such functions are linked without all of it.

// TypedArgument is the argument of a handler that has an object: a [*Change], [*WatchEvent], [*Daemon], [*Timer], [*Reconcile], [*Admission] or [*Indexing].
type TypedArgument interface {
	HandlerArgument
	object() *Object
}

func (o *Object) object() *Object { return o }

// Typed makes a handler of a function that takes the object as a struct, too, such as one of a kind made by [Define]. It fits all families whose handlers have an object:
//
//	kopf.OnReconcile(websites.Selector(), kopf.Typed(reconcile), nil)
//
//	func reconcile(ctx context.Context, r *kopf.Reconcile, site *Website) error
//
// Each call gets a new struct, as the object was when the call began. When the function returns, also with an error, its changes of the struct's field Status are added to
// the Patch: only the differences, so fields that the struct does not have stay, and so do conditions and items of lists that others have changed meanwhile.
// What the function has put into the Patch itself wins. Changes of other fields are dropped, with a warning.
//
// An object that does not fit the struct fails the handler permanently. The handler has the name of the function, as if that was registered.
//
//go:noinline
func Typed[A TypedArgument, T any](fn func(ctx context.Context, arg A, object *T) error) func(context.Context, A) error {
	if fn == nil {
		return nil
	}
	t := newTyped(fn)
	return func(ctx context.Context, arg A) error {
		if isTypedQuestion(ctx) {
			return t
		}
		value := new(T)
		call, err := t.begin(arg.object(), value)
		if err != nil {
			return err
		}
		return call.end(fn(ctx, arg, value))
	}
}

// TypedIndex makes a function of an index of one that takes the object as a struct, too. See [Typed].
//
//go:noinline
func TypedIndex[K comparable, V, T any](fn func(ctx context.Context, i *Indexing, object *T) (map[K]V, error)) IndexFunc[K, V] {
	if fn == nil {
		return nil
	}
	t := newTyped(fn)
	return func(ctx context.Context, i *Indexing) (map[K]V, error) {
		if isTypedQuestion(ctx) {
			return nil, t
		}
		value := new(T)
		if _, err := t.begin(&i.Object, value); err != nil {
			return nil, err
		}
		return fn(ctx, i, value)
	}
}

// typed is a function that takes a struct. It is also the error by which its handler answers a [typedQuestion].
type typed struct {
	fn     any
	warned boundedset.Set // of the fields whose changes were dropped
}

// typedQuestion is the context of a call that asks a handler for the function that it was made of.
type typedQuestion struct{ context.Context }

func isTypedQuestion(ctx context.Context) bool {
	_, asks := ctx.(typedQuestion)
	return asks
}

func (t *typed) Error() string { return "the handler is of another function" }

// wrappedFunction returns the function that was given to [Typed] for a handler, and the handler itself if it is no such one. It is nil in programs without Typed.
var wrappedFunction atomic.Pointer[func(handler any) any]

func newTyped(fn any) *typed {
	unwrap := unwrapTyped
	wrappedFunction.CompareAndSwap(nil, &unwrap)
	return &typed{fn: fn}
}

func unwrapTyped(handler any) any {
	if _, symbol := funcid.Of(handler).Name(); !strings.HasPrefix(symbol, reflect.TypeFor[typed]().PkgPath()+".Typed") {
		return handler
	}
	fn := reflect.ValueOf(handler)
	question := reflect.ValueOf(typedQuestion{context.Background()})
	results := fn.Call([]reflect.Value{question, reflect.Zero(fn.Type().In(1))})
	t, _ := results[len(results)-1].Interface().(*typed) // what answers is always one
	return t.fn
}

// typedCall is one call of a function that takes a struct.
type typedCall struct {
	*typed
	object     *Object
	value      any            // the pointer to the struct
	before     map[string]any // what it was, as decoded JSON
	conditions []Condition    // what they were
}

// begin stores the object in a struct.
func (t *typed) begin(o *Object, value any) (*typedCall, error) {
	err := structschema.Decode(o.Body.raw, value)
	if err == nil {
		var before any
		before, err = rawjson.Normalize(value)
		call := &typedCall{typed: t, object: o, value: value, before: rawjson.AsMap(before)}
		call.conditions = slices.Clone(call.currentConditions())
		if err == nil {
			return call, nil
		}
	}
	return nil, Permanent(fmt.Errorf("%s %s does not fit the type %s: %w", o.Body.kind, o.Body.Reference(), reflect.TypeOf(value).Elem(), err))
}

// currentConditions returns the conditions in the status of the struct, nil if it has none of our type.
func (c *typedCall) currentConditions() []Condition {
	v := reflect.ValueOf(c.value).Elem()
	for _, name := range []string{"Status", "Conditions"} {
		if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
			return nil
		}
		field, _ := v.Type().FieldByName(name)
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag != strings.ToLower(name) {
			return nil
		}
		v = v.FieldByIndex(field.Index)
	}
	conditions, _ := v.Interface().([]Condition)
	return conditions
}

// end adds what has changed in the struct to the patch of the handler, and returns the error of the handler.
func (c *typedCall) end(failure error) error {
	normalized, err := rawjson.Normalize(c.value)
	if err != nil {
		return cmp.Or(failure, Permanent(fmt.Errorf("the status of the %T: %w", c.value, err)))
	}
	after := rawjson.AsMap(normalized)
	change := &statusChange{before: typedStatus(c.before), after: typedStatus(after)}
	conditions := c.changedConditions(change)
	change.addTo(c.object.Patch, c.object.Body, conditions)
	for path := range changedPaths(c.before, after) {
		if c.warned.Add(path) {
			c.object.Logger.Warn("A change of a typed object outside of its status was dropped", "field", path, "hint", "put it into the Patch")
		}
	}
	return failure
}

func typedStatus(object map[string]any) map[string]any {
	return maps.Clone(rawjson.AsMap(object["status"]))
}

// changedPaths returns the fields outside of the status that differ.
func changedPaths(before, after map[string]any) map[string]any {
	paths := make(map[string]any)
	for key, value := range jsonpatch.Between(before, after, before) {
		inner := rawjson.AsMap(value)
		for name := range inner {
			paths[key+"."+name] = nil
		}
		if len(inner) == 0 {
			paths[key] = nil
		}
	}
	maps.DeleteFunc(paths, func(path string, _ any) bool { return path == "status" || strings.HasPrefix(path, "status.") })
	return paths
}

// changedConditions returns the conditions that are new or differ, and leaves in the change those that are gone.
func (c *typedCall) changedConditions(change *statusChange) (changed []transformation) {
	now := c.currentConditions()
	if len(now)+len(c.conditions) == 0 {
		return nil
	}
	find := func(all []Condition, name string) (Condition, bool) {
		i := slices.IndexFunc(all, func(o Condition) bool { return o.Type == name })
		if i < 0 {
			return Condition{}, false
		}
		return all[i], true
	}
	var gone []any
	for i, old := range c.conditions {
		if _, stays := find(now, old.Type); !stays {
			gone = append(gone, change.before["conditions"].([]any)[i])
		}
	}
	delete(change.before, "conditions")
	delete(change.after, "conditions")
	if len(gone) > 0 {
		change.before["conditions"], change.after["conditions"] = gone, []any{}
	}
	for _, condition := range now {
		old, had := find(c.conditions, condition.Type)
		if had && old == condition {
			continue
		}
		if had && condition.ObservedGeneration == old.ObservedGeneration {
			condition.ObservedGeneration = 0 // for the present one
		}
		if had && condition.Status != old.Status && condition.LastTransitionTime.Equal(old.LastTransitionTime) {
			condition.LastTransitionTime = time.Time{} // for now
		}
		changed = append(changed, c.object.Patch.conditionChanges(condition)...)
	}
	return changed
}

// statusChange changes what a function has changed in the status of its struct.
type statusChange struct{ before, after map[string]any }

// addTo adds the change to the patch of the handler, but for what that has in it already: as a merge patch, or as a transformation if it changes lists, which other clients may change at
// the same time.
func (s *statusChange) addTo(p *Patch, body *Body, conditions []transformation) {
	s.withoutMerged(nil, rawjson.AsMap(p.merge["status"]))
	for _, t := range p.transforms {
		if r, ok := t.(*replacement); ok && r.keys[0] == "status" {
			s.without(r.keys[1:])
		}
	}
	change := jsonpatch.Between(s.before, s.after, body.Status().Map())
	switch status, ok := p.merge["status"]; {
	case len(change) == 0 || ok && rawjson.AsMap(status) == nil: // the handler removes the whole status
	case jsonpatch.HasList(change):
		p.transforms = slices.Insert(p.transforms, 0, transformation(s))
	default:
		p.merge = jsonpatch.CombineMerges(map[string]any{"status": change}, p.merge)
	}
	p.transforms = slices.Insert(p.transforms, 0, conditions...)
}

// without leaves out a field.
func (s *statusChange) without(keys []string) {
	if len(keys) == 0 {
		s.before, s.after = nil, nil
		return
	}
	for _, m := range []map[string]any{s.before, s.after} {
		for _, key := range keys[:len(keys)-1] {
			m = rawjson.AsMap(m[key])
		}
		delete(m, keys[len(keys)-1])
	}
}

// withoutMerged leaves out the fields of a merge patch.
func (s *statusChange) withoutMerged(at []string, merge map[string]any) {
	for key, value := range merge {
		path := append(slices.Clip(at), key)
		if inner := rawjson.AsMap(value); inner != nil {
			s.withoutMerged(path, inner)
		} else {
			s.without(path)
		}
	}
}

func (s *statusChange) apply(object map[string]any, _ *Body) error {
	status := rawjson.AsMap(object["status"])
	if change := jsonpatch.Between(s.before, s.after, status); len(change) > 0 {
		object["status"] = rawjson.Merge(object["status"], change)
	}
	return nil
}

func (s *statusChange) touched() map[string]any { return map[string]any{"status": nil} }

func (s *statusChange) holds(body *Body) bool {
	return len(jsonpatch.Between(s.before, s.after, body.Status().Map())) == 0
}
