package rawjson

import "bytes"

// Differences calls note for each difference between two decoded values, in the order of their paths. An absent value or a null is nil. Objects are compared by
// key, lists and scalars as a whole. The path is reused after the call.
func Differences(before, after any, note func(path []string, before, after any)) {
	differences(nil, before, after, note)
}

func differences(path []string, before, after any, note func(path []string, before, after any)) {
	switch a, b := AsMap(before), AsMap(after); {
	case before == nil && after == nil:
	case a != nil && b != nil:
		for _, key := range UnionKeys(a, b) {
			differences(append(path, key), a[key], b[key], note)
		}
	case before == nil || after == nil || !Equal(before, after):
		note(path, before, after)
	}
}

// DifferencesIn is [Differences] for two values in JSON. It does not decode equal bytes.
func DifferencesIn(before, after []byte, note func(path []string, before, after any)) {
	differencesIn(nil, before, after, note)
}

func differencesIn(path []string, before, after []byte, note func(path []string, before, after any)) {
	const deep = 64 // beyond it, another scan of each level costs more than decoding
	if bytes.Equal(before, after) {
		return
	}
	if len(before) == 0 || len(after) == 0 || before[0] != '{' || after[0] != '{' || len(path) > deep {
		differences(path, DecodeOrNil(before), DecodeOrNil(after), note)
		return
	}
	a, b := RawMembers(before), RawMembers(after)
	for key, value := range b {
		if old, ok := a[key]; ok && bytes.Equal(old, value) {
			delete(a, key)
			delete(b, key)
		}
	}
	for _, key := range UnionKeys(a, b) {
		differencesIn(append(path, key), a[key], b[key], note)
	}
}
