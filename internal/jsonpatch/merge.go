package jsonpatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// CombineMerges returns the merge patch with the effect of first and then second.
func CombineMerges(first, second map[string]any) map[string]any {
	if first == nil {
		first = make(map[string]any, len(second))
	}
	for k, v := range second {
		a, ok := first[k].(map[string]any)
		if b, is := v.(map[string]any); ok && is {
			first[k] = CombineMerges(a, b)
		} else {
			first[k] = rawjson.Clone(v)
		}
	}
	return first
}

// DecodeLike decodes only the keys of a raw value that a model has, on each level, and everything where the model has no keys. A patch touches only a small
// part of an object.
func DecodeLike(raw []byte, model any) any {
	m := rawjson.AsMap(model)
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
		if oldMap, newMap := rawjson.AsMap(old), rawjson.AsMap(sub); oldMap != nil && newMap != nil {
			all[key] = Union(oldMap, newMap)
		} else if !present || oldMap != nil {
			all[key] = sub
		}
	}
	return all
}

// EffectiveMerge returns the part of a merge patch that changes the object, or nil: a patch without effect needs no request (CH-T2).
func EffectiveMerge(object, patch map[string]any) map[string]any {
	var effective map[string]any
	for k, v := range patch {
		old, present := object[k]
		sub, isMap := v.(map[string]any)
		switch oldMap, wasMap := old.(map[string]any); {
		case v == nil && !present:
			continue
		case isMap && wasMap:
			if sub = EffectiveMerge(oldMap, sub); sub == nil {
				continue
			}
			v = sub
		case v != nil && present && rawjson.Equal(old, v):
			continue
		}
		if effective == nil {
			effective = make(map[string]any)
		}
		effective[k] = v
	}
	return effective
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
		for key, want := range v {
			if got, _ := rawjson.Find(raw, key); !IsApplied(got, want) {
				return false
			}
		}
		return len(raw) > 0 && raw[0] == '{'
	}
	return false
}

func DropValueIn(m map[string]any, keys []string) {
	if len(keys) == 1 {
		delete(m, keys[0])
		return
	}
	if next, ok := m[keys[0]].(map[string]any); ok {
		if DropValueIn(next, keys[1:]); len(next) == 0 {
			delete(m, keys[0])
		}
	}
}

// Touches reports whether a merge patch affects a field.
func Touches(patch map[string]any, field []string) bool {
	for _, key := range field {
		v, ok := patch[key]
		if !ok {
			return false
		}
		if patch, ok = v.(map[string]any); !ok {
			break
		}
	}
	return true
}

// OnlyRemoves reports whether a value in a merge patch only removes values.
func OnlyRemoves(v any) bool {
	m, ok := v.(map[string]any)
	for _, sub := range m {
		if !OnlyRemoves(sub) {
			return false
		}
	}
	return v == nil || ok && len(m) > 0
}

// TakeBadTexts removes invalid labels and annotations from a merge patch, and returns the first error. The API server accepts only strings there, and keys with
// dots are easily mistaken for paths.
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

// badText returns the keys of an invalid label or annotation, and an error.
func badText(patch map[string]any) (keys []string, err error) {
	metadata := rawjson.AsMap(patch["metadata"])
	for _, kind := range []struct{ field, setter string }{{"annotations", "SetAnnotation"}, {"labels", "SetLabel"}} {
		texts := rawjson.AsMap(metadata[kind.field])
		for _, key := range rawjson.SortedKeys(texts) {
			keys := []string{"metadata", kind.field, key}
			switch value := texts[key].(type) {
			case nil, string:
			case map[string]any:
				full := []string{key}
				for inner := value; len(inner) == 1; {
					next := rawjson.SortedKeys(inner)[0]
					full, inner = append(full, next), rawjson.AsMap(inner[next])
				}
				return keys, fmt.Errorf("the patch of %q goes deeper than a key of metadata.%s: use %s(%q, value) for a key with dots",
					"metadata."+kind.field+"."+strings.Join(full, "."), kind.field, kind.setter, strings.Join(full, "."))
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
	changes, _ := rawjson.Lookup(any(patch), path...)
	raw, ok := rawjson.Find(object, path...)
	return ok && rawjson.AsMap(changes) != nil && rawjson.IsHollow(rawjson.Merge(rawjson.DecodeOrNil(raw), changes))
}

// Put sets a decoded value in a merge patch. It replaces a null or a scalar at a parent, so that they do not hide the value (CH-T49). It combines objects. It
// requires at least one key.
func Put(merge map[string]any, value any, keys ...string) {
	for _, key := range keys[:len(keys)-1] {
		next, ok := merge[key].(map[string]any)
		if !ok {
			next = make(map[string]any)
			merge[key] = next
		}
		merge = next
	}
	last := keys[len(keys)-1]
	old, both := merge[last].(map[string]any)
	if v, ok := value.(map[string]any); ok && both {
		value = CombineMerges(old, v)
	}
	merge[last] = value
}
