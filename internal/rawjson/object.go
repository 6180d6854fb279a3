package rawjson

import "slices"

// Object is a JSON object that keeps the order of its members, and the bytes of unchanged members.
type Object struct {
	Members []Member
	few     [4]Member // avoids another allocation for most objects
}

// Member is a key with the bytes of its value or, after a change below it, with the nested object.
type Member struct {
	Key    string
	raw    []byte
	Nested *Object
}

// NewObject returns an object without members.
func NewObject() *Object {
	o := &Object{}
	o.Members = o.few[:0]
	return o
}

// ParseObject reads the members of the object in raw. Other values have none.
func ParseObject(raw []byte) *Object { return ParseObjectExcept(raw, nil) }

// ParseObjectExcept is ParseObject without the keys for which except returns true. A nil function excludes nothing.
func ParseObjectExcept(raw []byte, except func(key string) bool) *Object {
	o := NewObject()
	var positions map[string]int                          // of all members; nil while they are few
	_ = EachMember(raw, func(quoted, value []byte) bool { // malformed members are ignored
		key := Key(quoted)
		switch {
		case except != nil && except(key):
			return true
		case len(o.Members) < fewMembers:
			o.Put(key, value)
			return true
		case positions == nil:
			positions = o.positions()
		}
		if i, ok := positions[key]; ok {
			o.Members[i].raw = value
		} else {
			positions[key] = len(o.Members)
			o.Members = append(o.Members, Member{Key: key, raw: value})
		}
		return true
	})
	return o
}

// fewMembers is the number of members up to which a linear search is used.
const fewMembers = 64

func (o *Object) positions() map[string]int {
	positions := make(map[string]int, 2*len(o.Members))
	for i, m := range o.Members {
		positions[m.Key] = i
	}
	return positions
}

// Index returns the index of a member, or -1.
func (o *Object) Index(key string) int {
	return slices.IndexFunc(o.Members, func(m Member) bool { return m.Key == key })
}

// Put sets a member. An existing member keeps its place.
func (o *Object) Put(key string, raw []byte) {
	if i := o.Index(key); i >= 0 {
		o.Members[i] = Member{Key: key, raw: raw}
		return
	}
	o.Members = append(o.Members, Member{Key: key, raw: raw})
}

// Delete removes a member, if it exists.
func (o *Object) Delete(key string) {
	if i := o.Index(key); i >= 0 {
		o.Members = slices.Delete(o.Members, i, i+1)
	}
}

// Child returns the object under key for changes, or nil if there is none.
func (o *Object) Child(key string) *Object {
	i := o.Index(key)
	if i < 0 {
		return nil
	}
	m := &o.Members[i]
	if m.Nested == nil {
		if len(m.raw) == 0 || m.raw[0] != '{' {
			return nil
		}
		m.Nested, m.raw = ParseObject(m.raw), nil
	}
	return m.Nested
}

// Set sets the bytes of the value at a path, and creates missing objects. It reports false if a parent is not an object.
func (o *Object) Set(raw []byte, path ...string) bool {
	for _, key := range path[:len(path)-1] {
		next := o.Child(key)
		if next == nil {
			if o.Index(key) >= 0 {
				return false
			}
			next = NewObject()
			o.Members = append(o.Members, Member{Key: key, Nested: next})
		}
		o = next
	}
	o.Put(path[len(path)-1], raw)
	return true
}

// Remove removes the value at a path, and then its empty parents. It reports whether that changed anything. As in Kopf for Python, it also removes parents that
// were empty before.
func (o *Object) Remove(path ...string) bool {
	if len(path) == 0 || o.Index(path[0]) < 0 {
		return false
	}
	if len(path) == 1 {
		o.Delete(path[0])
		return true
	}
	next := o.Child(path[0])
	if next == nil {
		return false
	}
	changed := next.Remove(path[1:]...)
	if len(next.Members) == 0 {
		o.Delete(path[0])
		return true
	}
	return changed
}

// IsEmpty reports whether the value under key is an empty object or null.
func (o *Object) IsEmpty(key string) bool {
	i := o.Index(key)
	if i < 0 {
		return false
	}
	m := &o.Members[i]
	if m.Nested != nil {
		return len(m.Nested.Members) == 0
	}
	return IsNull(m.raw) || len(m.raw) > 1 && m.raw[0] == '{' && m.raw[SkipSpace(m.raw, 1)] == '}'
}

// Raw returns the bytes of the value under key.
func (o *Object) Raw(key string) ([]byte, bool) {
	i := o.Index(key)
	if i < 0 {
		return nil, false
	}
	m := &o.Members[i]
	if m.Nested != nil {
		m.raw, m.Nested = m.Nested.AppendTo(nil), nil
	}
	return m.raw, true
}

// Size returns the approximate number of bytes that AppendTo appends.
func (o *Object) Size() int {
	n := 2
	for _, m := range o.Members {
		n += len(m.Key) + len(m.raw) + 4
		if m.Nested != nil {
			n += m.Nested.Size()
		}
	}
	return n
}

// AppendTo appends the object as compact JSON in pure ASCII.
func (o *Object) AppendTo(b []byte) []byte {
	b = append(b, '{')
	for i, m := range o.Members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, m.Key), ':')
		if m.Nested != nil {
			b = m.Nested.AppendTo(b)
		} else {
			b = AppendCompact(b, m.raw)
		}
	}
	return append(b, '}')
}
