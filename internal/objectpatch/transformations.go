package objectpatch

import (
	"slices"

	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Transformation changes an object. The argument o is the object before all changes.
type Transformation interface {
	Apply(object map[string]any, o *Object) error
	// Touched returns a model for [jsonpatch.DecodeLike] of the fields that it reads or changes, or nil if they are unknown.
	Touched() map[string]any
	// Holds reports whether nothing changes, as far as that is visible without decoding the object.
	Holds(o *Object) bool
}

// replacement replaces the field at the keys, or removes it for nil. It precedes the merge patch.
type replacement struct {
	keys  []string
	value any
}

// isEarly reports whether a transformation precedes the merge patch.
func isEarly(t Transformation) bool {
	_, ok := t.(*replacement)
	return ok
}

// Apply implements [Transformation].
func (r *replacement) Apply(object map[string]any, _ *Object) error {
	value := rawjson.Clone(r.value)
	if status := rawjson.AsMap(value); status != nil && len(r.keys) == 1 && r.keys[0] == "status" {
		if conditions, ok := rawjson.AsMap(object["status"])["conditions"]; ok && status["conditions"] == nil {
			status["conditions"] = conditions
		}
	}
	manifest.Replace(object, r.keys, value)
	return nil
}

// Touched implements [Transformation].
func (r *replacement) Touched() map[string]any { return r.patch(nil) }

// set returns the merge patch that sets the fields of the value.
func (r *replacement) set() map[string]any {
	patch := make(map[string]any)
	jsonpatch.Put(patch, r.value, r.keys...)
	return patch
}

// patch returns a merge patch of the field.
func (r *replacement) patch(value any) map[string]any {
	for _, key := range slices.Backward(r.keys) {
		value = map[string]any{key: value}
	}
	return rawjson.AsMap(value)
}

// Holds implements [Transformation].
func (r *replacement) Holds(*Object) bool { return false }

// mergeChange is a merge patch that follows the transformations of earlier handlers.
type mergeChange map[string]any

// Apply implements [Transformation].
func (m mergeChange) Apply(object map[string]any, _ *Object) error {
	rawjson.Merge(object, map[string]any(m))
	return nil
}

// Touched implements [Transformation].
func (m mergeChange) Touched() map[string]any { return m }

// Holds implements [Transformation].
func (m mergeChange) Holds(o *Object) bool { return o.has(m) }

// ConditionChange is a transformation that sets a condition. It follows the merge patch.
type ConditionChange struct{ Condition manifest.Condition }

// Apply implements [Transformation]. It also compares with the stored condition, because several handlers may set it in one patch, and the last one wins.
func (c *ConditionChange) Apply(object map[string]any, o *Object) error {
	stored, _ := rawjson.ValueAt(o.Status, "conditions").([]any)
	return manifest.SetCondition(object, stored, c.Condition)
}

// Touched implements [Transformation].
func (c *ConditionChange) Touched() map[string]any {
	return map[string]any{"status": map[string]any{"conditions": nil}, "metadata": map[string]any{"generation": nil}}
}

// Holds implements [Transformation].
func (c *ConditionChange) Holds(o *Object) bool {
	conditions, _ := rawjson.Find(o.Status, "conditions")
	return c.Condition.IsIn(conditions, rawjson.ScalarAt(o.Metadata, "generation"))
}

// FinalizersChange is a transformation that removes and adds finalizers, and keeps all others.
type FinalizersChange struct{ Removes, Adds []string }

// Apply implements [Transformation].
func (f *FinalizersChange) Apply(object map[string]any, _ *Object) error {
	for _, one := range f.Removes {
		manifest.RemoveFinalizer(object, one)
	}
	for _, one := range f.Adds {
		manifest.AddFinalizer(object, one)
	}
	return nil
}

// Touched implements [Transformation].
func (f *FinalizersChange) Touched() map[string]any {
	return map[string]any{"metadata": map[string]any{"finalizers": nil}}
}

// Holds implements [Transformation].
func (f *FinalizersChange) Holds(o *Object) bool {
	raw, _ := rawjson.Find(o.Metadata, "finalizers")
	stored := rawjson.StringsAt(raw)
	isStored := func(one string) bool { return slices.Contains(stored, one) }
	return !slices.ContainsFunc(f.Removes, isStored) && !slices.ContainsFunc(f.Adds, func(one string) bool { return !isStored(one) })
}

// StatusChange is a transformation that applies the changes of a status struct.
type StatusChange struct{ jsonpatch.Change }

// AddTo adds the change and the changed conditions to c, without the fields that c changes already. The change becomes a merge patch, or a transformation if it
// depends on fields that other clients may change at the same time. The argument stored is the stored status.
func (s *StatusChange) AddTo(c *Changes, stored map[string]any, conditions []Transformation) {
	status, removed := c.Merge["status"]
	fields := rawjson.PatchFields(status)
	s.WithoutMerged(fields)
	_, own := fields["conditions"]
	for _, t := range c.Transforms {
		if r, ok := t.(*replacement); ok && r.keys[0] == "status" {
			s.Without(r.keys[1:]...)
			own = own || len(r.keys) == 1 || r.keys[1] == "conditions"
		}
	}
	if removed = removed && fields == nil; removed || own {
		conditions = nil
	}
	if removed || len(s.Patch(stored))+len(conditions) == 0 {
		return
	}
	s.AddUnstored(stored)
	if s.Replaces() {
		c.Transforms = slices.Insert(c.Transforms, 0, Transformation(s))
	} else if change := s.Patch(stored); len(change) > 0 {
		c.Merge = jsonpatch.CombineMerges(c.Merge, map[string]any{"status": change}) // of other fields
	}
	c.Transforms = slices.Insert(c.Transforms, 0, conditions...)
}

// Apply implements [Transformation].
func (s *StatusChange) Apply(object map[string]any, _ *Object) error {
	if change := s.Patch(rawjson.AsMap(object["status"])); len(change) > 0 {
		object["status"] = rawjson.Merge(object["status"], change)
	}
	return nil
}

// Touched implements [Transformation].
func (s *StatusChange) Touched() map[string]any { return map[string]any{"status": nil} }

// Holds implements [Transformation].
func (s *StatusChange) Holds(o *Object) bool { return len(s.Patch(rawjson.Map(o.Status))) == 0 }
