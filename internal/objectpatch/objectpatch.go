// Package objectpatch is about what is to be changed in an object: by merge patches, by transformations of the whole object, and in its finalizers. It computes what becomes of the object, and what
// is to be sent for that.
package objectpatch

import (
	"fmt"
	"slices"

	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Object is an object in JSON, and the stanzas in it; nil for those that it does not have.
type Object struct{ Raw, Metadata, Spec, Status []byte }

// field returns the bytes of a field at the top of the object. It is known where the stanzas are, so nothing is looked through for them.
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

// Changes are what is to be changed in an object. They are applied in this order: early transformations, Merge, the other transformations, Last, Removes, Adds. The zero value changes nothing.
type Changes struct {
	Merge      map[string]any
	Transforms []Transformation
	Last       map[string]any

	Adds, Removes []string // finalizers, which are guarded by themselves, and not by the version
}

// Empty reports whether there is nothing to change.
func (c *Changes) Empty() bool {
	return len(c.Merge)+len(c.Transforms)+len(c.Last) == 0 && !c.Finalizes()
}

// Finalizes reports whether finalizers are added or removed, other than by a patch of the list.
func (c *Changes) Finalizes() bool { return len(c.Adds)+len(c.Removes) > 0 }

// Versioned reports whether the changes can be computed only for one version of the object.
func (c *Changes) Versioned() bool {
	_, lists := rawjson.Lookup(any(c.Merge), "metadata", "finalizers")
	return len(c.Transforms) > 0 || lists && c.Finalizes()
}

// Replaces reports whether a transformation comes before what is merged.
func (c *Changes) Replaces() bool { return slices.ContainsFunc(c.Transforms, isEarly) }

// Touches reports whether the changes are about a field.
func (c *Changes) Touches(path []string) bool {
	return jsonpatch.Touches(c.Merge, path) || len(c.Transforms) > 0 || c.Finalizes() && path[0] == "metadata.finalizers" // transformations are sent for a version
}

// Holds reports whether an object is as the changes make it, as far as that can be seen without decoding it.
func (c *Changes) Holds(o *Object) bool {
	return !c.Finalizes() && !slices.ContainsFunc(c.Transforms, func(t Transformation) bool { return !t.Holds(o) }) && o.has(c.Merge) && o.has(c.Last)
}

// has reports whether the object is as a merge patch makes it.
func (o *Object) has(merge map[string]any) bool {
	for key, want := range merge {
		if !jsonpatch.IsApplied(o.field(key), want) {
			return false
		}
	}
	return true
}

// Put sets a decoded value in the merge patch, replacing whatever is in the way, so that a null or a scalar that was set at a parent does not lose it (CH-T49). There is at least one key.
func (c *Changes) Put(value any, keys ...string) {
	if c.Merge == nil {
		c.Merge = make(map[string]any)
	}
	jsonpatch.Put(c.Merge, value, keys...)
}

// Drop takes the value at a path out of the merge patch, and the parents that it leaves empty.
func (c *Changes) Drop(keys ...string) { jsonpatch.DropValueIn(c.Merge, keys) }

// Replace sets the field at the keys, of which there is at least one, without anything of what is there now. What was set below it before is dropped, and what is set there later is added.
func (c *Changes) Replace(value any, keys ...string) {
	for i := 1; i < len(keys); i++ { // what was removed above comes before
		if old, ok := rawjson.Lookup(any(c.Merge), keys[:i]...); ok && rawjson.AsMap(old) == nil {
			c.Drop(keys[:i]...)
			c.Transforms = append(c.Transforms, &replacement{keys[:i], old})
			break
		}
	}
	c.Drop(keys...)
	c.Transforms = append(c.Transforms, &replacement{keys, value})
}

// Append adds what is to be changed after these changes by later ones, but for finalizers. What they replace is dropped from the merge patch.
func (c *Changes) Append(later *Changes) {
	for _, t := range later.Transforms {
		if r, ok := t.(*replacement); ok {
			c.Drop(r.keys...)
		}
	}
	c.Merge, c.Transforms = jsonpatch.CombineMerges(c.Merge, later.Merge), append(c.Transforms, later.Transforms...)
}

// Apply returns a decoded object, which it changes, as the changes leave it. What kept returns, it has in any case whatever the transformations have made of it; that is called if there are
// any. It fails with a [TransformError].
func (c *Changes) Apply(object map[string]any, o *Object, kept func() map[string]any) (changed map[string]any, err error) {
	at := 0
	defer func() {
		if v := recover(); v != nil {
			err = &TransformError{At: at, panicked: v}
		}
	}()
	var own map[string]any
	if len(c.Transforms) > 0 {
		own = kept()
	}
	for _, early := range []bool{true, false} {
		for i, t := range c.Transforms {
			if isEarly(t) != early {
				continue
			}
			at = i
			if err := t.Apply(object, o); err != nil {
				return nil, &TransformError{At: i, err: err}
			}
		}
		if early && len(c.Merge) > 0 {
			object, _ = rawjson.Merge(object, any(c.Merge)).(map[string]any)
		}
	}
	object, _ = rawjson.Merge(rawjson.Merge(object, any(own)), any(c.Last)).(map[string]any)
	for _, f := range c.Removes {
		manifest.RemoveFinalizer(object, f)
	}
	for _, f := range c.Adds {
		manifest.AddFinalizer(object, f)
	}
	return object, nil
}

// Model returns a model for [jsonpatch.DecodeLike] of the part of an object that the changes read and change, which is little of it but for functions, and so not worth decoding the rest. It is nil if
// that can be anything.
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

// TransformError means that a transformation has failed, or has panicked.
type TransformError struct {
	At       int // which one
	err      error
	panicked any
}

// Error returns what has gone wrong.
func (e *TransformError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("a transformation has panicked: %v", e.panicked)
}

// Unwrap returns the error of the transformation, nil if it has panicked.
func (e *TransformError) Unwrap() error { return e.err }
