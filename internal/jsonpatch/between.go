package jsonpatch

import (
	"maps"
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Between returns the merge patch that changes in a stored object what has changed from before to after, nil if nothing has. What the stored object has in addition stays,
// also in the items of lists. None of them is changed.
func Between(before, after, stored map[string]any) map[string]any {
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
		case !has || now == nil:
			put(key, nil)
		case rawjson.AsMap(now) != nil && (rawjson.AsMap(old) != nil || !had):
			if inner := Between(rawjson.AsMap(old), rawjson.AsMap(now), rawjson.AsMap(stored[key])); inner != nil {
				put(key, inner)
			} else if rawjson.AsMap(stored[key]) == nil {
				put(key, map[string]any{})
			}
		default:
			put(key, between(old, now, stored[key]))
		}
	}
	return patch
}

// between returns what a stored value becomes by a change. It never is a part of the arguments that could be changed with them.
func between(before, after, stored any) any {
	old, _ := before.([]any)
	now, isList := after.([]any)
	has, _ := stored.([]any)
	switch {
	case isList:
		return listBetween(old, now, has)
	case rawjson.AsMap(before) != nil && rawjson.AsMap(after) != nil && rawjson.AsMap(stored) != nil:
		return rawjson.Merge(rawjson.Clone(stored), Between(rawjson.AsMap(before), rawjson.AsMap(after), rawjson.AsMap(stored)))
	}
	return rawjson.Clone(after)
}

// listBetween changes in a stored list what has changed from before to after. Items are the same if they are equal, are named the same, or else are at the same index.
func listBetween(before, after, stored []any) []any {
	was := pairs(after, before)   // of each item, the index of what it was
	kept := pairs(before, stored) // of each former item, the index of what is stored of it
	result := make([]any, 0, len(after))
	for i, item := range after {
		switch j := was[i]; {
		case j < 0:
			result = append(result, rawjson.Clone(item))
		case kept[j] >= 0:
			result = append(result, between(before[j], item, stored[kept[j]]))
		case !rawjson.Equal(before[j], item): // another client has removed what was changed here
			result = append(result, rawjson.Clone(item))
		}
	}
	for k, item := range stored { // what other clients have added
		if !slices.Contains(kept, k) && !slices.ContainsFunc(result, func(r any) bool { return rawjson.Equal(r, item) || sameName(r, item) == 1 }) {
			result = append(result, rawjson.Clone(item))
		}
	}
	return result
}

// pairs returns the index in others of each item, -1 for those that are not there. No two items have the same one.
func pairs(items, others []any) []int {
	at, taken := slices.Repeat([]int{-1}, len(items)), make([]bool, len(others))
	for _, same := range []func(i, j int) bool{
		func(i, j int) bool { return i == j && rawjson.Equal(items[i], others[j]) },
		func(i, j int) bool { return rawjson.Equal(items[i], others[j]) },
		func(i, j int) bool { return sameName(items[i], others[j]) == 1 },
		func(i, j int) bool { return i == j && sameName(items[i], others[j]) == 0 },
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

// names are the fields by which the items of lists are told apart.
var names = []string{"name", "type", "key", "id", "uid"}

// sameName compares the names of two items: 1 if they are the same, -1 if they differ, and 0 if there is none.
func sameName(a, b any) int {
	first, second := rawjson.AsMap(a), rawjson.AsMap(b)
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

// HasList reports whether a merge patch replaces a list, which may have been changed by others meanwhile.
func HasList(patch map[string]any) bool {
	for value := range maps.Values(patch) {
		if _, list := value.([]any); list || HasList(rawjson.AsMap(value)) {
			return true
		}
	}
	return false
}
