package managedfields

import (
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// comparison is the fields that differ between two states of an object.
type comparison struct{ added, modified, removed *fieldSet }

func (c *comparison) leaf(at []string, a, b any, hasA, hasB bool) {
	switch {
	case len(at) == 0:
	case !hasA:
		c.added.insert(at)
	case !hasB:
		c.removed.insert(at)
	case !rawjson.Equal(a, b):
		c.modified.insert(at)
	}
}

func (c *comparison) walk(at []string, t fieldType, a, b any, hasA, hasB bool) {
	ma, mb := rawjson.AsMap(a), rawjson.AsMap(b)
	la, isA := a.([]any)
	lb, isB := b.([]any)
	switch {
	case !t.atomic() && (ma != nil || a == nil) && (mb != nil || b == nil) && len(ma)+len(mb) > 0:
		for _, key := range rawjson.UnionKeys(ma, mb) {
			child, _ := t.field(key)
			x, inA := ma[key]
			y, inB := mb[key]
			c.walk(append(slices.Clip(at), "f:"+key), child, x, y, inA, inB)
		}
	case !t.atomic() && t.associative() && (isA || a == nil) && (isB || b == nil) && len(la)+len(lb) > 0 && c.walkList(at, t, la, lb):
	case !t.atomic() && hasA && hasB && a != nil && b != nil && len(ma)+len(mb) > 0: // a map was added or removed
		c.walk(at, t, ma, nil, true, true)
		c.walk(at, t, nil, mb, true, true)
		c.modified.insert(at)
		return
	default:
		c.leaf(at, a, b, hasA, hasB)
		return
	}
	if hasA != hasB { // the container itself was added or removed with its content
		c.leaf(at, nil, nil, hasA, hasB)
	}
}

func (c *comparison) walkList(at []string, t fieldType, la, lb []any) bool {
	orderA, itemsA, okA := t.steps(la)
	orderB, itemsB, okB := t.steps(lb)
	if !okA || !okB {
		return false
	}
	seen := make(map[string]bool, len(orderA))
	for _, step := range append(orderA, orderB...) {
		if !seen[step] {
			seen[step] = true
			c.walkItems(append(slices.Clip(at), step), t, itemsA[step], itemsB[step])
		}
	}
	return true
}

// walkItems compares the items with a step. Several of them are one field, and no manager owns fields below it.
func (c *comparison) walkItems(path []string, t fieldType, a, b []any) {
	switch {
	case len(a) > 1 && len(b) > 1:
		c.leaf(path, a, b, true, true)
	case len(a) > 1:
		c.walkItem(path, t, nil, b)
		c.removed.insert(path)
	case len(b) > 1:
		c.walkItem(path, t, a, nil)
		c.added.insert(path)
	default:
		c.walkItem(path, t, a, b)
	}
}

// walkItem compares an item with another one. Either may be missing.
func (c *comparison) walkItem(path []string, t fieldType, a, b []any) {
	var x, y any
	if len(a) > 0 {
		x = a[0]
	}
	if len(b) > 0 {
		y = b[0]
	}
	switch {
	case len(a)+len(b) == 0:
	case t.set():
		c.leaf(path, x, y, len(a) > 0, len(b) > 0)
	default:
		c.walk(path, t.item(), x, y, len(a) > 0, len(b) > 0)
	}
}

// compareFields compares two states of an object. A missing state is nil.
func compareFields(before, after map[string]any, o Options) *comparison {
	c := &comparison{&fieldSet{}, &fieldSet{}, &fieldSet{}}
	var a, b any // an untyped nil for a missing state
	if before != nil {
		a = before
	}
	if after != nil {
		b = after
	}
	c.walk(nil, o.rootType(), a, b, before != nil, after != nil)
	return c
}

// appliedFields returns the fields in an applied configuration.
func appliedFields(object map[string]any, t fieldType) *fieldSet {
	set := &fieldSet{}
	collectFields(set, nil, t, object)
	return set
}

func collectFields(set *fieldSet, at []string, t fieldType, v any) {
	switch v := v.(type) {
	case map[string]any:
		if t.atomic() {
			set.insert(at)
			return
		}
		for key, e := range v {
			child, known := t.field(key)
			path := append(slices.Clip(at), "f:"+key)
			if m, is := e.(map[string]any); e == nil || is && len(m) == 0 || !known {
				set.insert(path)
			}
			collectFields(set, path, child, e)
		}
		return
	case []any:
		if order, items, ok := t.steps(v); ok && t.associative() {
			for _, step := range order {
				path := append(slices.Clip(at), step)
				set.insert(path)
				if !t.set() && len(items[step]) == 1 {
					collectFields(set, path, t.item(), items[step][0])
				}
			}
			return
		}
	}
	set.insert(at)
}
