package jsonpatch

import (
	"maps"
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// ListKeys names the fields that identify the items of lists, in a value and below it. Nil names none.
type ListKeys struct {
	Keys   []string             // for the items, if the value is a list
	Items  *ListKeys            // for values in the items of a list or in the values of a map
	Fields map[string]*ListKeys // for values in the fields of a struct
}

func (k *ListKeys) field(name string) *ListKeys {
	switch {
	case k == nil:
		return nil
	case k.Fields[name] != nil:
		return k.Fields[name]
	}
	return k.Items
}

func (k *ListKeys) items() *ListKeys {
	if k == nil {
		return nil
	}
	return k.Items
}

// Between returns the merge patch that makes the change from before to after in a stored object, or nil without a change. Additional values of the stored
// object stay, also in the items of lists and in removed fields. It changes none of its arguments.
func Between(before, after, stored map[string]any, keys *ListKeys) map[string]any {
	var patch map[string]any
	put := func(key string, value any) {
		if patch == nil {
			patch = make(map[string]any)
		}
		patch[key] = value
	}
	for _, key := range rawjson.UnionKeys(before, after) {
		old, had := before[key]
		now, has := after[key]
		switch {
		case had && has && rawjson.Equal(old, now):
		case !has:
			left := rest(old, stored[key], keys.field(key))
			if rawjson.AsMap(left) != nil {
				left = Between(rawjson.AsMap(old), nil, rawjson.AsMap(stored[key]), keys.field(key))
			}
			put(key, left)
		case rawjson.AsMap(now) != nil && (rawjson.AsMap(old) != nil || !had):
			if inner := Between(rawjson.AsMap(old), rawjson.AsMap(now), rawjson.AsMap(stored[key]), keys.field(key)); inner != nil {
				put(key, inner)
			} else if rawjson.AsMap(stored[key]) == nil {
				put(key, map[string]any{})
			}
		default:
			put(key, between(old, now, stored[key], keys.field(key)))
		}
	}
	return patch
}

// rest returns the rest of a stored value after removing everything that was in before, or nil if nothing is left.
func rest(before, stored any, keys *ListKeys) any {
	if old, isList := before.([]any); isList {
		if has, _ := stored.([]any); len(has) > 0 {
			if left := listBetween(old, nil, has, keys); len(left) > 0 {
				return left
			}
		}
		return nil
	}
	old, has := rawjson.AsMap(before), rawjson.AsMap(stored)
	left := make(map[string]any)
	for key, value := range has {
		if was, had := old[key]; had {
			value = rest(was, value, keys.field(key))
		}
		if value != nil {
			left[key] = value
		}
	}
	if len(left) == 0 || old == nil {
		return nil
	}
	return left
}

// between returns a stored value after a change. The result never shares anything with the arguments.
func between(before, after, stored any, keys *ListKeys) any {
	old, _ := before.([]any)
	now, isList := after.([]any)
	has, _ := stored.([]any)
	switch {
	case isList:
		return listBetween(old, now, has, keys)
	case rawjson.AsMap(before) != nil && rawjson.AsMap(after) != nil && rawjson.AsMap(stored) != nil:
		return rawjson.Merge(rawjson.Clone(stored), Between(rawjson.AsMap(before), rawjson.AsMap(after), rawjson.AsMap(stored), keys))
	}
	return rawjson.Clone(after)
}

// listBetween makes the change from before to after in a stored list. Two items are the same if they are equal, have the same keys or names, or else the same
// index.
func listBetween(before, after, stored []any, keys *ListKeys) []any {
	was := pairs(after, before, keys)   // for each item, its index in before
	kept := pairs(before, stored, keys) // for each item of before, its index in stored
	result := make([]any, 0, len(after))
	for i, item := range after {
		switch j := was[i]; {
		case j < 0:
			result = append(result, rawjson.Clone(item))
		case kept[j] >= 0:
			result = append(result, between(before[j], item, stored[kept[j]], keys.items()))
		case !rawjson.Equal(before[j], item): // another client has removed the changed item
			result = append(result, rawjson.Clone(item))
		}
	}
	for k, item := range stored { // items added by other clients
		if !slices.Contains(kept, k) && !slices.ContainsFunc(result, func(r any) bool { return rawjson.Equal(r, item) || sameItem(r, item, keys) == 1 }) {
			result = append(result, rawjson.Clone(item))
		}
	}
	return result
}

// pairs returns the index in others for each item, or -1. Each index occurs only once.
func pairs(items, others []any, keys *ListKeys) []int {
	at, taken := slices.Repeat([]int{-1}, len(items)), make([]bool, len(others))
	for _, same := range []func(i, j int) bool{
		func(i, j int) bool { return i == j && rawjson.Equal(items[i], others[j]) },
		func(i, j int) bool { return rawjson.Equal(items[i], others[j]) },
		func(i, j int) bool { return sameItem(items[i], others[j], keys) == 1 },
		func(i, j int) bool { return i == j && sameItem(items[i], others[j], keys) == 0 },
	} {
		for i := range items {
			for j := range others {
				if at[i] < 0 && !taken[j] && same(i, j) {
					at[i], taken[j] = j, true
				}
			}
		}
	}
	return at
}

// names are the usual fields that identify the items of lists without keys.
var names = []string{"name", "type", "key", "id", "uid"}

// sameItem compares the keys of two items, or else their names. It returns 1 if they are equal, -1 if they differ, and 0 if there are none.
func sameItem(a, b any, keys *ListKeys) int {
	first, second := rawjson.AsMap(a), rawjson.AsMap(b)
	if keys != nil && len(keys.Keys) > 0 && first != nil && second != nil {
		if slices.ContainsFunc(keys.Keys, func(key string) bool { return !rawjson.Equal(first[key], second[key]) }) {
			return -1
		}
		return 1
	}
	for _, key := range []string{"kind", "namespace"} { // references may have equal names
		if x, y := first[key], second[key]; x != nil && y != nil && !rawjson.Equal(x, y) {
			return -1
		}
	}
	for _, key := range names {
		x, ok := first[key].(string)
		y, both := second[key].(string)
		if ok && both && x == y {
			return 1
		}
		if ok || both {
			return -1
		}
	}
	return 0
}

// Change is a change that a function made to a part of an object.
type Change struct {
	Before, After map[string]any
	Keys          *ListKeys
}

// Patch returns the merge patch of the change for a stored object. See [Between].
func (c *Change) Patch(stored map[string]any) map[string]any {
	return Between(c.Before, c.After, stored, c.Keys)
}

// AddUnstored extends the change by all values that were not stored before. A struct has such values in addition: the zero values of required fields.
func (c *Change) AddUnstored(stored map[string]any) {
	c.Before, _ = common(c.Before, stored).(map[string]any)
}

// common returns the values of v whose keys or indices are in other as well.
func common(v, other any) any {
	switch v := v.(type) {
	case map[string]any:
		has, both := rawjson.AsMap(other), make(map[string]any)
		for key, value := range v {
			if there, ok := has[key]; ok {
				both[key] = common(value, there)
			}
		}
		return both
	case []any:
		has, _ := other.([]any)
		both := make([]any, 0, len(v))
		for i, value := range v {
			if i < len(has) {
				both = append(both, common(value, has[i]))
			}
		}
		return both
	}
	return v
}

// Replaces reports whether the change depends on the stored object: it replaces lists, or removes maps to which other clients may have added values.
func (c *Change) Replaces() bool { return replaces(c.Before, c.After) }

func replaces(before, after map[string]any) bool {
	for _, key := range rawjson.UnionKeys(before, after) {
		old, now := before[key], after[key]
		_, was := old.([]any)
		_, list := now.([]any)
		inner, left := rawjson.AsMap(old), rawjson.AsMap(now)
		switch {
		case rawjson.Equal(old, now):
		case was || list || inner != nil && left == nil || replaces(inner, left):
			return true
		}
	}
	return false
}

// Without drops a field from the change. Without keys, it drops everything.
func (c *Change) Without(keys ...string) {
	if len(keys) == 0 {
		c.Before, c.After = nil, nil
		return
	}
	for _, m := range []map[string]any{c.Before, c.After} {
		for _, key := range keys[:len(keys)-1] {
			m = rawjson.AsMap(m[key])
		}
		delete(m, keys[len(keys)-1])
	}
}

// WithoutMerged drops the fields of a merge patch from the change.
func (c *Change) WithoutMerged(merge map[string]any, at ...string) {
	for key, value := range merge {
		path := append(slices.Clip(at), key)
		if inner := rawjson.PatchFields(value); inner != nil {
			c.WithoutMerged(inner, path...)
		} else {
			c.Without(path...)
		}
	}
}

// Paths returns the changed fields of the first two levels, except the field but and the fields below it.
func (c *Change) Paths(but string) []string {
	paths := make(map[string]any)
	for key, value := range c.Patch(c.Before) {
		if key == but {
			continue
		}
		inner := rawjson.AsMap(value)
		for name := range inner {
			paths[key+"."+name] = nil
		}
		if len(inner) == 0 {
			paths[key] = nil
		}
	}
	return slices.Sorted(maps.Keys(paths))
}
