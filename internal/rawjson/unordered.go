package rawjson

import "bytes"

// maxUnordered is how many members an object may have that is compared in another order: the time for that grows with the square.
const maxUnordered = 64

// EqualUnordered reports whether two values, both as [AppendCompact] writes them, are the same but for the order of the members of objects. It
// also reports false for objects of more than 64 members in another order, and for what is malformed.
func EqualUnordered(a, b []byte) bool {
	switch {
	case bytes.Equal(a, b):
		return true
	case len(a) != len(b) || len(a) == 0 || a[0] != b[0]:
		return false
	case a[0] == '{':
		return equalMembers(a, b)
	case a[0] == '[':
		return equalItems(a, b)
	}
	return false
}

func equalMembers(a, b []byte) bool {
	var others [maxUnordered]HeaderMember
	var taken [maxUnordered]bool
	count := 0
	if !eachCompact(b, func(m HeaderMember) bool {
		if count == maxUnordered {
			return false
		}
		others[count] = m
		count++
		return true
	}) {
		return false
	}
	found, next := 0, 0
	return eachCompact(a, func(m HeaderMember) bool {
		key := m.Key.Of(a)
		for range count { // the next one after the last found is the most likely one
			i := next
			if next++; next == count {
				next = 0
			}
			if taken[i] || !bytes.Equal(others[i].Key.Of(b), key) {
				continue
			}
			taken[i] = true
			found++
			return EqualUnordered(m.Value.Of(a), others[i].Value.Of(b))
		}
		return false
	}) && found == count
}

// eachCompact calls yield with the members of an object until that returns false. It reports whether it has come to the end.
func eachCompact(raw []byte, yield func(HeaderMember) bool) bool {
	w := MemberReader{Data: raw}
	for w.Next() {
		end, err := SkipValue(raw, w.At)
		if err != nil || !yield(HeaderMember{Key: w.Key, Value: Range{w.At, end}}) {
			return false
		}
		w.At = end
	}
	return w.Err == nil
}

func equalItems(a, b []byte) bool {
	i, j := 1, 1
	for i < len(a) && j < len(b) && a[i] != ']' && b[j] != ']' {
		m, err := SkipValue(a, i)
		n, err2 := SkipValue(b, j)
		if err != nil || err2 != nil || !EqualUnordered(a[i:m], b[j:n]) {
			return false
		}
		i, j = skipComma(a, m), skipComma(b, n)
	}
	return i < len(a) && j < len(b) && a[i] == b[j] && i == len(a)-1 && j == len(b)-1
}

func skipComma(raw []byte, i int) int {
	if i < len(raw) && raw[i] == ',' {
		return i + 1
	}
	return i
}
