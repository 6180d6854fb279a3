// Package objectpatch computes changed objects and the requests for the changes: merge patches, transformations of the whole object, and finalizers.
package objectpatch

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
)

// Object is an object in JSON, with the bytes of its stanzas, nil for absent ones.
type Object struct{ Raw, Metadata, Spec, Status []byte }

// field returns the bytes of a field at the top of the object. It does not search for the known stanzas.
func (o *Object) field(key string) (raw []byte) {
	switch key {
	case "metadata":
		return o.Metadata
	case "spec":
		return o.Spec
	case "status":
		return o.Status
	}
	raw, _ = rawjson.Find(o.Raw, key)
	return raw
}

// Changes are changes to an object, applied in this order: early transformations, Merge, other transformations, Last, Removes, Adds. Zero means no change.
type Changes struct {
	Merge      map[string]any // a merge patch, see [rawjson.Merge]
	Transforms []Transformation
	Last       map[string]any

	Adds, Removes []string // finalizers; they have their own guards, not the resource version
}

// Empty reports whether there are no changes.
func (c *Changes) Empty() bool {
	return len(c.Merge)+len(c.Transforms)+len(c.Last) == 0 && !c.Finalizes()
}

// Finalizes reports whether finalizers are added or removed, not counting a patch of the whole list.
func (c *Changes) Finalizes() bool { return len(c.Adds)+len(c.Removes) > 0 }

// Versioned reports whether the changes can be computed only for one resource version.
func (c *Changes) Versioned() bool {
	_, lists := jsonpatch.Lookup(c.Merge, "metadata", "finalizers")
	return len(c.Transforms) > 0 || lists && c.Finalizes() || c.Replaces()
}

// Replaces reports whether the changes replace an object as a whole, in a transformation or in the merge patch. Their parts cannot be sent one after another.
func (c *Changes) Replaces() bool {
	return slices.ContainsFunc(c.Transforms, isEarly) || jsonpatch.ReplacesObjects(c.Merge) || slices.ContainsFunc(keptFields, c.clears)
}

// keptFields are the objects that keep some of their fields, whatever the changes do.
var keptFields = [][]string{{"status"}, {"metadata", "annotations"}}

// WithoutStatus returns the changes without the merge patch of the status, which was stored. Changes that replace whole
// objects stay as they are, because their parts belong together.
func (c *Changes) WithoutStatus() Changes {
	rest := *c
	if _, ok := c.Merge["status"]; ok && !c.Replaces() {
		rest.Merge = maps.Clone(c.Merge)
		delete(rest.Merge, "status")
	}
	return rest
}

// Touches reports whether the changes affect a field. Transformations count as changes of any field, because they apply to one resource version.
func (c *Changes) Touches(path []string) bool {
	return jsonpatch.Touches(c.Merge, path) || jsonpatch.Touches(c.Last, path) || len(c.Transforms) > 0 || c.Finalizes() && path[0] == "metadata.finalizers"
}

// InStatus reports whether the changes are known to concern the status alone.
func (c *Changes) InStatus() bool {
	if c.Finalizes() || !onlyStatus(c.Merge) || !onlyStatus(c.Last) {
		return false
	}
	return !slices.ContainsFunc(c.Transforms, func(t Transformation) bool {
		switch t := t.(type) {
		case *ConditionChange, *StatusChange:
			return false
		case *replacement:
			return t.keys[0] != "status"
		case mergeChange:
			return !onlyStatus(t)
		}
		return true
	})
}

// onlyStatus reports whether a merge patch changes nothing but the status.
func onlyStatus(merge map[string]any) bool {
	_, ok := merge["status"]
	return len(merge) == 0 || len(merge) == 1 && ok
}

// Holds reports whether the object has the changes already, as far as that is visible without decoding it.
func (c *Changes) Holds(o *Object) bool {
	return !c.Finalizes() && !slices.ContainsFunc(c.Transforms, func(t Transformation) bool { return !t.Holds(o) }) && o.has(c.Merge) && o.has(c.Last)
}

// has reports whether the object has the changes of a merge patch already.
func (o *Object) has(merge map[string]any) bool {
	for key, want := range merge {
		if !jsonpatch.IsApplied(o.field(key), want) {
			return false
		}
	}
	return true
}

// Joined returns the changes with Last as a part of the merge patch, unless other changes come between
// them. Without Last, the requests may do without a resource version.
func (c *Changes) Joined() Changes {
	joined := *c
	if len(c.Last) > 0 && len(c.Transforms) == 0 && !c.Replaces() {
		joined.Merge = jsonpatch.CombineMerges(jsonpatch.CombineMerges(nil, c.Merge), c.Last)
		joined.Last = nil
	}
	return joined
}

// PutLast adds changes to Last, which transformations cannot change.
func (c *Changes) PutLast(merge map[string]any) {
	if len(merge) > 0 {
		c.Last = jsonpatch.CombineMerges(c.Last, merge)
	}
}

// Put sets a decoded value in the merge patch. It replaces a null or a scalar at a parent, which would hide the value (CH-T49). At least one key is required.
func (c *Changes) Put(value any, keys ...string) {
	if c.Merge == nil {
		c.Merge = make(map[string]any)
	}
	jsonpatch.Put(c.Merge, value, keys...)
}

// Drop removes the value at a path from the merge patch, and the parents that it leaves empty.
func (c *Changes) Drop(keys ...string) { jsonpatch.DropValueIn(c.Merge, keys) }

// Replace sets the field at the keys, at least one, and drops its present value. Earlier changes below it are dropped, and later ones are added to it.
func (c *Changes) Replace(value any, keys ...string) {
	for i := 1; i < len(keys); i++ { // an earlier replacement of a parent comes first
		if old, ok := jsonpatch.Lookup(c.Merge, keys[:i]...); ok && !jsonpatch.Merges(old) {
			c.forget(keys[:i])
			c.Transforms = append(c.Transforms, &replacement{keys[:i], jsonpatch.Plain(old)})
			break
		}
	}
	c.forget(keys)
	c.Transforms = append(c.Transforms, &replacement{keys, value})
}

// forget removes the value at a path from the merge patch. It leaves the parents, which the merge patch may create.
func (c *Changes) forget(keys []string) {
	if parent, ok := jsonpatch.Lookup(c.Merge, keys[:len(keys)-1]...); ok {
		delete(rawjson.PatchFields(parent), keys[len(keys)-1])
	}
}

// Append adds later changes, except finalizers.
func (c *Changes) Append(later *Changes) {
	for _, t := range later.Transforms {
		if r, ok := t.(*replacement); ok {
			c.Replace(r.value, r.keys...)
		} else {
			c.Transforms = append(c.Transforms, t)
		}
	}
	c.Merge = jsonpatch.CombineMerges(c.Merge, later.Merge)
	c.PutLast(later.Last)
}

// Combine adds the later changes of another handler, except finalizers. They have the last word, also over transformations of earlier handlers. Unlike
// [Changes.Append], it keeps the fields, such as results, that earlier handlers set in a field which the later one replaces, unless the new value has them.
func (c *Changes) Combine(later *Changes) {
	inTurn := slices.ContainsFunc(c.Transforms, func(t Transformation) bool { return !isEarly(t) })
	for _, t := range later.Transforms {
		if r, ok := t.(*replacement); ok {
			if kept := c.replaceMost(r); inTurn && (r.value != nil || !kept) {
				c.Transforms = append(c.Transforms, mergeChange(r.set()))
			}
		}
	}
	if inTurn && len(later.Merge) > 0 {
		c.Transforms = append(c.Transforms, mergeChange(later.Merge))
	} else {
		c.Merge = jsonpatch.CombineMerges(c.Merge, later.Merge)
	}
	for _, t := range later.Transforms {
		if !isEarly(t) {
			c.Transforms = append(c.Transforms, t)
		}
	}
	c.PutLast(later.Last)
}

// replaceMost replaces a field, and keeps the fields of its object that the merge patch sets and the new value does not have. It reports whether there may be
// some.
func (c *Changes) replaceMost(r *replacement) (kept bool) {
	earlier, _ := jsonpatch.Lookup(c.Merge, r.keys...)
	c.Replace(r.value, r.keys...)
	value := rawjson.AsMap(r.value)
	fields := rawjson.PatchFields(earlier)
	if kept = fields != nil && (value != nil || r.value == nil); kept {
		c.Put(withoutFields(fields, value), r.keys...)
	}
	return kept
}

// withoutFields returns the changes of a merge patch without those of fields that a value has.
func withoutFields(patch, value map[string]any) map[string]any {
	left := make(map[string]any)
	for key, change := range patch {
		other, has := value[key]
		fields, object := rawjson.PatchFields(change), rawjson.AsMap(other)
		if !has {
			left[key] = change
		} else if fields != nil && object != nil {
			left[key] = withoutFields(fields, object)
		}
	}
	return jsonpatch.CombineMerges(nil, left)
}

// clears reports whether the merge patch removes or replaces the object in a field as a whole.
func (c *Changes) clears(keys []string) bool {
	v, ok := jsonpatch.Lookup(c.Merge, keys...)
	_, exact := v.(rawjson.Exact)
	return ok && (v == nil || exact)
}

// mergeKeeping returns the merge patch. If it clears a kept field, it leaves the fields in kept, unless it sets them.
func (c *Changes) mergeKeeping(kept map[string]any) map[string]any {
	merge := c.Merge
	for _, keys := range keptFields {
		v, _ := rawjson.Lookup(any(kept), keys...)
		fields := rawjson.AsMap(v)
		if len(fields) == 0 || !c.clears(keys) {
			continue
		}
		set, _ := jsonpatch.Lookup(merge, keys...)
		all := rawjson.Merge(rawjson.Clone(fields), rawjson.PatchFields(set))
		merge = jsonpatch.CombineMerges(nil, merge)
		jsonpatch.Put(merge, rawjson.Exact(rawjson.AsMap(all)), keys...)
	}
	return merge
}

// Apply applies the changes to a decoded object, in place, and returns it. Whatever transformations and removals of whole objects do, the object keeps the
// fields that kept returns. Apply calls kept only if there are some of these. It returns a [TransformError] if a transformation fails.
func (c *Changes) Apply(object map[string]any, o *Object, kept func() map[string]any) (changed map[string]any, err error) {
	call, at := safecall.Recover, 0
	if slices.ContainsFunc(c.Transforms, func(t Transformation) bool { return t.Touched() == nil }) {
		call = safecall.Do // because it is a function of the user
	}
	err = call(func() (err error) {
		changed, err = c.apply(object, o, kept, &at)
		return err
	})
	if err != nil {
		return nil, &TransformError{At: at, err: err}
	}
	return changed, nil
}

// apply is Apply without its error. It stores the index of each transformation before it calls that.
func (c *Changes) apply(object map[string]any, o *Object, kept func() map[string]any, at *int) (map[string]any, error) {
	var own map[string]any
	if len(c.Transforms) > 0 || slices.ContainsFunc(keptFields, c.clears) {
		own = kept()
	}
	for _, early := range []bool{true, false} {
		for i, t := range c.Transforms {
			if isEarly(t) != early {
				continue
			}
			*at = i
			if err := t.Apply(object, o); err != nil {
				return nil, err
			}
		}
		if early && len(c.Merge) > 0 {
			object, _ = rawjson.Merge(object, c.mergeKeeping(own)).(map[string]any)
		}
	}
	if len(c.Transforms) > 0 {
		object, _ = rawjson.Merge(object, any(own)).(map[string]any)
	}
	object, _ = rawjson.Merge(object, any(c.Last)).(map[string]any)
	for _, f := range c.Removes {
		manifest.RemoveFinalizer(object, f)
	}
	for _, f := range c.Adds {
		manifest.AddFinalizer(object, f)
	}
	return object, nil
}

// Model returns a model for [jsonpatch.DecodeLike] of the part of the object that the changes read and change. The rest is usually large, and need not be
// decoded. Model returns nil if that part is unknown, because of a function.
func (c *Changes) Model() map[string]any {
	model := jsonpatch.Union(c.Merge, c.Last)
	if c.Finalizes() {
		model = jsonpatch.Union(model, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	}
	for _, t := range c.Transforms {
		part := t.Touched()
		if part == nil {
			return nil
		}
		model = jsonpatch.Union(model, part)
	}
	return model
}

// TransformError is the failure or the panic of a transformation.
type TransformError struct {
	At  int // index of the transformation
	err error
}

// Error implements [error].
func (e *TransformError) Error() string {
	if p := (*safecall.PanicError)(nil); errtype.As(e.err, &p) {
		return fmt.Sprintf("a transformation has panicked: %v", p.Value)
	}
	return e.err.Error()
}

// Unwrap returns the error of the transformation, a [safecall.PanicError] if it panicked.
func (e *TransformError) Unwrap() error { return e.err }
