package jsonpatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// CombineMerges returns the merge patch with the effect of first and then second. It changes first, but shares nothing with second.
func CombineMerges(first, second map[string]any) map[string]any {
	if first == nil {
		first = make(map[string]any, len(second))
	}
	for key, change := range second {
		add(first, key, change)
	}
	return first
}

// add adds a later change of a field to a merge patch.
func add(patch map[string]any, key string, change any) {
	earlier, changed := patch[key]
	_, existing := change.(rawjson.Existing)
	fields := rawjson.PatchFields(change)
	if _, exact := change.(rawjson.Exact); !changed || exact || fields == nil {
		patch[key] = clonePatch(change)
		return
	}
	switch earlier := earlier.(type) {
	case map[string]any:
		CombineMerges(earlier, fields)
	case rawjson.Existing:
		if CombineMerges(earlier, fields); !existing {
			patch[key] = map[string]any(earlier)
		}
	case rawjson.Exact:
		rawjson.Merge(map[string]any(earlier), fields)
	default: // a null, a scalar or a list, so the present object is gone
		if !existing {
			patch[key] = rawjson.Exact(rawjson.AsMap(rawjson.Merge(nil, change)))
		}
	}
}

// clonePatch copies a value of a merge patch.
func clonePatch(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return CombineMerges(nil, v)
	case rawjson.Existing:
		return rawjson.Existing(CombineMerges(nil, v))
	case rawjson.Exact:
		return rawjson.Exact(rawjson.AsMap(rawjson.Clone(map[string]any(v))))
	}
	return rawjson.Clone(v)
}

// Plain returns a copy of a value of a merge patch in plain JSON, without the difference between the types of objects.
func Plain(v any) any {
	fields := rawjson.PatchFields(v)
	if fields == nil {
		return rawjson.Clone(v)
	}
	plain := make(map[string]any, len(fields))
	for key, value := range fields {
		plain[key] = Plain(value)
	}
	return plain
}

// Lookup returns the change of the field at a path of keys, and reports whether the merge patch has one.
func Lookup(patch map[string]any, keys ...string) (v any, ok bool) {
	v = patch
	for _, key := range keys {
		if v, ok = rawjson.PatchFields(v)[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// Merges reports whether a value of a merge patch merges with a present object.
func Merges(v any) bool { return changedFields(v) != nil }

// changedFields returns the fields of an object in a merge patch, nil if the patch replaces the value as a whole.
func changedFields(v any) map[string]any {
	if _, exact := v.(rawjson.Exact); exact {
		return nil
	}
	return rawjson.PatchFields(v)
}

// DecodeLike decodes only the keys of a raw value that a model has, on each level, and everything where the model has no keys. A patch touches only a small
// part of an object.
func DecodeLike(raw []byte, model any) any {
	m := changedFields(model)
	if m == nil || len(raw) == 0 || raw[0] != '{' {
		v, err := rawjson.Decode(raw)
		if err != nil {
			return nil
		}
		return v
	}
	like := make(map[string]any, len(m))
	_ = rawjson.EachMember(raw, func(quoted, value []byte) bool { // well-formed, as it came from the API server
		for key, sub := range m {
			if rawjson.QuotedIs(quoted, key) {
				like[key] = DecodeLike(value, sub)
			}
		}
		return true
	})
	return like
}

// Union returns a model for [DecodeLike] with the keys of both models. A value without keys in one of them covers everything below it.
func Union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = make(map[string]any, len(b))
	}
	for key, sub := range b {
		old, present := all[key]
		if oldMap, newMap := changedFields(old), changedFields(sub); oldMap != nil && newMap != nil {
			all[key] = Union(oldMap, newMap)
		} else if !present || oldMap != nil {
			all[key] = sub
		}
	}
	return all
}

// EffectiveMerge returns the part of a merge patch that changes the object, or nil: a patch without effect needs no request (CH-T2). An [rawjson.Exact]
// remains only where it replaces an object, and no [rawjson.Existing] remains.
func EffectiveMerge(object, patch map[string]any) map[string]any {
	var effective map[string]any
	for key, change := range patch {
		old, present := object[key]
		if change, changes := effectiveChange(old, present, change); changes {
			if effective == nil {
				effective = make(map[string]any)
			}
			effective[key] = change
		}
	}
	return effective
}

// effectiveChange returns the part of a change that changes a value, if there is any.
func effectiveChange(old any, present bool, change any) (effective any, changes bool) {
	object, isObject := old.(map[string]any)
	switch change := change.(type) {
	case nil:
		return nil, present
	case rawjson.Exact:
		if !isObject {
			return map[string]any(change), true
		}
		return change, !rawjson.Equal(object, map[string]any(change))
	case rawjson.Existing:
		if !isObject {
			return nil, false
		}
		part := EffectiveMerge(object, change)
		return part, part != nil
	case map[string]any:
		if !isObject {
			return changeOfNone(change), true
		}
		part := EffectiveMerge(object, change)
		return part, part != nil
	}
	return change, !present || !rawjson.Equal(old, change) && !rawjson.Equal(old, withoutItemNulls(change))
}

// withoutItemNulls returns a list without the nulls of objects in it, and other values as they are. API servers drop
// these nulls when they apply a merge patch, so that the object has them only after a JSON patch.
func withoutItemNulls(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	items := make([]any, len(list))
	for i, item := range list {
		items[i] = withoutNulls(item)
	}
	return items
}

// withoutNulls returns a value without the nulls of objects in it.
func withoutNulls(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return withoutItemNulls(value)
	}
	members := make(map[string]any, len(object))
	for key, v := range object {
		if v != nil {
			members[key] = withoutNulls(v)
		}
	}
	return members
}

// changeOfNone returns a merge patch for a place where there is no object.
func changeOfNone(patch map[string]any) map[string]any {
	changes := make(map[string]any, len(patch))
	for key, change := range patch {
		switch change := change.(type) {
		case rawjson.Existing:
		case rawjson.Exact:
			changes[key] = map[string]any(change)
		case map[string]any:
			changes[key] = changeOfNone(change)
		default:
			changes[key] = change
		}
	}
	return changes
}

// ReplacesObjects reports whether a merge patch replaces objects as a whole, which RFC 7396 cannot express.
func ReplacesObjects(patch any) bool {
	if _, exact := patch.(rawjson.Exact); exact {
		return true
	}
	for _, change := range rawjson.PatchFields(patch) {
		if ReplacesObjects(change) {
			return true
		}
	}
	return false
}

// IsApplied reports whether a value has the changes of the patch already, as far as that is visible without decoding it.
func IsApplied(raw []byte, patch any) bool {
	switch v := patch.(type) {
	case nil:
		return len(raw) == 0
	case bool, json.Number:
		return fmt.Sprint(v) == string(raw)
	case string:
		return rawjson.IsQuoted(raw) && string(rawjson.AppendUnquoted(make([]byte, 0, len(raw)), raw)) == v
	case map[string]any:
		return isObject(raw) && areApplied(raw, v)
	case rawjson.Existing:
		return !isObject(raw) || areApplied(raw, v)
	case rawjson.Exact:
		return isObject(raw) && rawjson.Equal(rawjson.DecodeOrNil(raw), map[string]any(v))
	}
	return false
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func areApplied(raw []byte, fields map[string]any) bool {
	for key, want := range fields {
		if got, _ := rawjson.Find(raw, key); !IsApplied(got, want) {
			return false
		}
	}
	return true
}

// DropValueIn removes the change of a field from a merge patch, and the parents that it leaves empty.
func DropValueIn(patch map[string]any, keys []string) {
	if len(keys) == 1 {
		delete(patch, keys[0])
		return
	}
	next := patch[keys[0]]
	fields := rawjson.PatchFields(next)
	if fields == nil {
		return
	}
	if DropValueIn(fields, keys[1:]); len(fields) == 0 && changedFields(next) != nil {
		delete(patch, keys[0])
	}
}

// Touches reports whether a merge patch affects a field.
func Touches(patch map[string]any, field []string) bool {
	for _, key := range field {
		v, ok := patch[key]
		if !ok {
			return false
		}
		if patch = changedFields(v); patch == nil {
			break
		}
	}
	return true
}

// OnlyRemoves reports whether a value in a merge patch only removes values.
func OnlyRemoves(v any) bool {
	fields := changedFields(v)
	for _, sub := range fields {
		if !OnlyRemoves(sub) {
			return false
		}
	}
	return v == nil || len(fields) > 0
}

// TakeBadTexts removes invalid metadata from a merge patch, and returns the first error. The API server accepts only strings as labels and annotations, and
// keys with dots are easily mistaken for paths.
func TakeBadTexts(patch map[string]any) (first error) {
	for {
		keys, err := badText(patch)
		if err == nil {
			return first
		}
		if first == nil {
			first = err
		}
		DropValueIn(patch, keys)
	}
}

// badText returns the keys of invalid metadata, and an error.
func badText(patch map[string]any) (keys []string, err error) {
	metadata := rawjson.PatchFields(patch["metadata"])
	if value, ok := patch["metadata"]; ok && metadata == nil {
		return []string{"metadata"}, fmt.Errorf("the patch sets the whole metadata to %s: want an object with some of its fields", rawjson.KindOf(value))
	}
	for _, kind := range []struct{ field, setter string }{{"annotations", "SetAnnotation"}, {"labels", "SetLabel"}} {
		texts := rawjson.PatchFields(metadata[kind.field])
		for _, key := range rawjson.SortedKeys(texts) {
			keys := []string{"metadata", kind.field, key}
			if strings.ContainsRune(key, utf8.RuneError) {
				return keys, fmt.Errorf("the key %q in metadata.%s is not UTF-8: want letters, digits, and ./_-", key, kind.field)
			}
			switch value := texts[key].(type) {
			case nil:
			case string:
				if kind.field == "labels" && strings.ContainsRune(value, utf8.RuneError) {
					return keys, fmt.Errorf("the label %q is %q, which is not UTF-8: want letters, digits, and ._-", key, value)
				}
			case map[string]any, rawjson.Existing, rawjson.Exact:
				full := []string{key}
				for inner := rawjson.PatchFields(value); len(inner) == 1; {
					next := rawjson.SortedKeys(inner)[0]
					full, inner = append(full, next), rawjson.PatchFields(inner[next])
				}
				dotted := strings.Join(full, ".")
				return keys, fmt.Errorf("the patch of %q goes deeper than a key of metadata.%s: use %s(%q, value), or Remove(kopf.Path(\"metadata\", %q, %q)), for a key with dots",
					"metadata."+kind.field+"."+dotted, kind.field, kind.setter, dotted, kind.field, dotted)
			default:
				return keys, fmt.Errorf("the patch sets %q in metadata.%s to %v: want a string, as by %s(%q, value)", key, kind.field, value, kind.setter, key)
			}
		}
	}
	return nil, nil
}

// Without returns the fields of an object that another one lacks, on each level.
func Without(object, other map[string]any) map[string]any {
	rest := make(map[string]any)
	for key, value := range object {
		theirs, ok := other[key]
		if !ok {
			rest[key] = value
			continue
		}
		if inner := Without(rawjson.AsMap(value), rawjson.AsMap(theirs)); len(inner) > 0 && rawjson.AsMap(theirs) != nil {
			rest[key] = inner
		}
	}
	return rest
}

// Hollows reports whether a merge patch changes a map of an object to one that has only empty maps.
func Hollows(object []byte, patch map[string]any, path []string) bool {
	changes, _ := Lookup(patch, path...)
	raw, ok := rawjson.Find(object, path...)
	return ok && rawjson.PatchFields(changes) != nil && rawjson.IsHollow(rawjson.Merge(rawjson.DecodeOrNil(raw), changes))
}

// Put adds a later change of the field at a path to a merge patch. A value replaces a null or a scalar at a parent, so that they do not hide it (CH-T49). An
// object is merged. A null removes the field, and has no effect without a parent. It requires at least one key.
func Put(patch map[string]any, value any, keys ...string) {
	removes := value == nil
	for len(keys) > 1 {
		next, ok := patch[keys[0]].(map[string]any)
		if !ok {
			break
		}
		patch, keys = next, keys[1:]
	}
	for _, key := range slices.Backward(keys[1:]) {
		if fields := map[string]any{key: value}; removes {
			value = rawjson.Existing(fields)
		} else {
			value = fields
		}
	}
	add(patch, keys[0], value)
}
