package kopf

import "slices"

// This file knows JSON objects whose members keep their order, and their bytes as long as nobody changes them. It has no state and no goroutines.

// object is a JSON object that keeps the order of its members, and the bytes
// of those that nobody has changed.
type object struct {
	members []member
	few     [4]member // room for the members of most objects, so that they cost one allocation
}

// member is a key with either the bytes of its value or, once something below it was
// changed, the object it holds.
type member struct {
	key    string
	raw    []byte
	nested *object
}

func newObject() *object {
	o := &object{}
	o.members = o.few[:0]
	return o
}

// parseObject reads the members of the object in raw; there are none in any other value.
func parseObject(raw []byte) *object { return parseMembers(raw, nil) }

// parseMembers is parseObject without the members of some keys, if there is a function that tells which.
func parseMembers(raw []byte, but func(key string) bool) *object {
	o := newObject()
	var places map[string]int                             // of all members, nil while they are few
	_ = eachMember(raw, func(quoted, value []byte) bool { // what is malformed is not there
		key := keyOf(quoted)
		switch {
		case but != nil && but(key):
			return true
		case len(o.members) < fewMembers:
			o.put(key, value)
			return true
		case places == nil:
			places = o.places()
		}
		if i, ok := places[key]; ok {
			o.members[i].raw = value
		} else {
			places[key] = len(o.members)
			o.members = append(o.members, member{key: key, raw: value})
		}
		return true
	})
	return o
}

// fewMembers is up to how many members are gone through one by one.
const fewMembers = 64

func (o *object) places() map[string]int {
	places := make(map[string]int, 2*len(o.members))
	for i, m := range o.members {
		places[m.key] = i
	}
	return places
}

func (o *object) index(key string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
}

// put sets a member, in its old place if there is one.
func (o *object) put(key string, raw []byte) {
	if i := o.index(key); i >= 0 {
		o.members[i] = member{key: key, raw: raw}
		return
	}
	o.members = append(o.members, member{key: key, raw: raw})
}

func (o *object) drop(key string) {
	if i := o.index(key); i >= 0 {
		o.members = slices.Delete(o.members, i, i+1)
	}
}

// open returns the object under key to be changed, nil if there is none.
func (o *object) open(key string) *object {
	i := o.index(key)
	if i < 0 {
		return nil
	}
	m := &o.members[i]
	if m.nested == nil {
		if len(m.raw) == 0 || m.raw[0] != '{' {
			return nil
		}
		m.nested, m.raw = parseObject(m.raw), nil
	}
	return m.nested
}

// set puts the bytes of a value at a path, making the objects on the way. It tells
// whether it could: a value that is not an object stands in the way otherwise.
func (o *object) set(raw []byte, path ...string) bool {
	for _, key := range path[:len(path)-1] {
		next := o.open(key)
		if next == nil {
			if o.index(key) >= 0 {
				return false
			}
			next = newObject()
			o.members = append(o.members, member{key: key, nested: next})
		}
		o = next
	}
	o.put(path[len(path)-1], raw)
	return true
}

// remove takes the value at a path away, together with the parents that are empty then, and tells whether
// that changed anything. As in the original, the parents go also if they were empty before.
func (o *object) remove(path ...string) bool {
	if len(path) == 0 || o.index(path[0]) < 0 {
		return false
	}
	if len(path) == 1 {
		o.drop(path[0])
		return true
	}
	next := o.open(path[0])
	if next == nil {
		return false
	}
	changed := next.remove(path[1:]...)
	if len(next.members) == 0 {
		o.drop(path[0])
		return true
	}
	return changed
}

// hollow tells whether there is an empty object or a null under key.
func (o *object) hollow(key string) bool {
	i := o.index(key)
	if i < 0 {
		return false
	}
	m := &o.members[i]
	if m.nested != nil {
		return len(m.nested.members) == 0
	}
	return isNull(m.raw) || len(m.raw) > 1 && m.raw[0] == '{' && m.raw[skipSpace(m.raw, 1)] == '}'
}

// flat returns the bytes of the value under key.
func (o *object) flat(key string) ([]byte, bool) {
	i := o.index(key)
	if i < 0 {
		return nil, false
	}
	m := &o.members[i]
	if m.nested != nil {
		m.raw, m.nested = m.nested.appendTo(nil), nil
	}
	return m.raw, true
}

// size returns about how many bytes appendTo appends.
func (o *object) size() int {
	n := 2
	for _, m := range o.members {
		n += len(m.key) + len(m.raw) + 4
		if m.nested != nil {
			n += m.nested.size()
		}
	}
	return n
}

// appendTo appends the object as compact JSON in pure ASCII.
func (o *object) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, m := range o.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, m.key), ':')
		if m.nested != nil {
			b = m.nested.appendTo(b)
		} else {
			b = appendCompact(b, m.raw)
		}
	}
	return append(b, '}')
}
