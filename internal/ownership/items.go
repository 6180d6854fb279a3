package ownership

import (
	"encoding/json"
	"strconv"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// element is an element below a list in the fields.
type element struct {
	name  []byte // keys of an item, as an object, or an item of a set
	at    int    // index of its own fields
	count int    // number of its keys
	done  bool   // an item was found for it
}

// items compares a list that is not empty.
func (w *walker) items(list []any, at int, path uint64) (end int, ok bool) {
	start := len(w.text)
	defer func() { w.text = w.text[:start] }()
	var room [8]element
	elements, kind, owned, end := w.elements(room[:0], at)
	switch {
	case end < 0:
		return 0, false
	case len(elements) == 0:
		return end, w.ends(list, path)
	case kind == index:
		w.unsure = w.unsure || !w.learns // only entries of updates have indices
		return end, !w.learns
	case len(elements) != len(list):
		return 0, false
	}
	if owned {
		w.teach(below(path, listKey), false)
	}
	if kind == member {
		return end, sameSet(list, elements)
	}
	return end, w.keyed(list, elements, below(path, itemKey))
}

// elements reads the elements below a list. The end is negative if their kinds differ, or if they cannot be below a list.
func (w *walker) elements(all []element, at int) (found []element, kind byte, owned bool, end int) {
	r := rawjson.MemberReader{Data: w.data, At: at}
	for r.Next() {
		is, name := w.element(&r)
		switch {
		case is == self:
			owned = true
		case is == unknown:
		case is == field, kind != 0 && is != kind:
			return nil, 0, false, -1
		default:
			kind = is
			all = append(all, element{name: name, at: r.At})
		}
		if !skip(&r) {
			return nil, 0, false, -1
		}
	}
	if r.Err != nil {
		return nil, 0, false, -1
	}
	return all, kind, owned, r.At
}

// sameSet reports whether the items of a set are the elements.
func sameSet(list []any, elements []element) bool {
	if len(list) > shortList {
		return sameLongSet(list, elements)
	}
	for i, item := range list {
		at := i // the order is usually the same
		for elements[at].done || !sameScalar(item, elements[at].name) {
			if at = (at + 1) % len(elements); at == i {
				return false
			}
		}
		elements[at].done = true
	}
	return true
}

// sameLongSet is sameSet without quadratic time.
func sameLongSet(list []any, elements []element) bool {
	left := make(map[string]int, len(elements))
	for _, e := range elements {
		left[string(appendRawScalar(nil, e.name))]++
	}
	for _, item := range list {
		text := string(appendScalar(nil, item))
		if left[text] == 0 {
			return false
		}
		left[text]--
	}
	return true
}

// keyed compares the items of a list with the elements that have their keys. An item with all keys belongs to the element with the same ones. Other items have
// default keys, which are equal for all items, but unknown.
func (w *walker) keyed(list []any, elements []element, path uint64) bool {
	most := 0
	for i := range elements {
		elements[i].count = countMembers(elements[i].name)
		most = max(most, elements[i].count)
	}
	m := newMatcher(list)
	for count := most; count > 0; count-- { // an item with one more key agrees with all keys of an element with one less
		for i := range elements {
			e := &elements[i]
			if e.count != count {
				continue
			}
			if item := m.exact(e); item != nil {
				e.done = true
				if _, ok := w.fields(item, e.name, e.at, path); !ok {
					return false
				}
			}
		}
	}
	return w.defaulted(m, elements, path)
}

// defaulted matches the items with default keys to the remaining elements. Items with a single candidate come first.
func (w *walker) defaulted(m *matcher, elements []element, path uint64) bool {
	for m.left > 0 {
		progress := false
		for i, item := range m.items {
			if m.taken[i] {
				continue
			}
			e, several := onlyElement(item, elements)
			if e == nil {
				return false
			}
			if several {
				continue
			}
			progress, e.done = true, true
			m.take(i)
			if _, ok := w.fields(item, e.name, e.at, path); !ok {
				return false
			}
		}
		if !progress {
			w.unsure = true
			return !w.learns
		}
	}
	return true
}

// onlyElement returns the first remaining element that agrees with an item, or nil, and whether there are several.
func onlyElement(item map[string]any, elements []element) (found *element, several bool) {
	for i := range elements {
		if e := &elements[i]; !e.done && agree(item, e.name) >= 0 {
			if found != nil {
				return found, true
			}
			found = e
		}
	}
	return found, false
}

func countMembers(object []byte) int {
	n := 0
	_ = rawjson.EachMember(object, func(_, _ []byte) bool { // malformed members are not counted
		n++
		return true
	})
	return n
}

// agree returns how many of the keys an item has. It returns -1 if a value differs, or if the item is not a map.
func agree(item map[string]any, keys []byte) int {
	n := 0
	err := rawjson.EachMember(keys, func(quoted, value []byte) bool {
		own, has := memberOf(item, quoted)
		switch {
		case !has:
		case sameScalar(own, value):
			n++
		default:
			n = -1
			return false
		}
		return true
	})
	if err != nil || item == nil {
		return -1
	}
	return n
}

func memberOf(item map[string]any, quoted []byte) (value any, ok bool) {
	if text := rawjson.PlainText(quoted); text != nil {
		value, ok = item[string(text)]
		return value, ok
	}
	value, ok = item[rawjson.Unquote(quoted)]
	return value, ok
}

// sameScalar reports whether a decoded value equals the one in the bytes.
func sameScalar(value any, raw []byte) bool {
	switch v := value.(type) {
	case string:
		return rawjson.IsQuoted(raw) && rawjson.QuotedIs(raw, v)
	case json.Number:
		return string(v) == string(raw) || sameNumber(string(v), raw)
	case bool:
		return string(raw) == strconv.FormatBool(v)
	case nil:
		return string(raw) == "null"
	}
	return false
}

// sameNumber reports whether two numbers are the same float64: the API server converts all numbers in the names of elements.
func sameNumber(a string, raw []byte) bool {
	if len(a) < exactDigits && len(raw) < exactDigits && rawjson.IsDigits(a) && rawjson.IsDigits(string(raw)) {
		return false // the caller has compared the texts
	}
	x, err := strconv.ParseFloat(a, 64)
	y, malformed := floatOf(raw)
	return err == nil && malformed == nil && x == y
}

// exactDigits is the number of digits up to which all integers are exact in a float64.
const exactDigits = 15

func floatOf(raw []byte) (float64, error) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, rawjson.ErrMalformed // a notation that only Go accepts
	}
	return strconv.ParseFloat(string(raw), 64)
}

// appendScalar and appendRawScalar append equal bytes exactly for values that are equal by sameScalar.
func appendScalar(b []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return append(append(b, '"'), v...)
	case json.Number:
		return appendRawScalar(b, []byte(v))
	}
	return appendCanonical(b, value)
}

func appendRawScalar(b, raw []byte) []byte {
	if rawjson.IsQuoted(raw) {
		return rawjson.AppendUnquoted(append(b, '"'), raw)
	}
	if f, err := floatOf(raw); err == nil {
		return strconv.AppendFloat(b, f, 'g', -1, 64)
	}
	return append(b, raw...)
}

// matcher finds the items of a list by their keys.
type matcher struct {
	items []map[string]any
	taken []bool
	left  int
	next  int // expected index of the next item

	keys   []string         // of the first element
	places map[string][]int // item indices by the values of these keys; nil for short lists
}

// shortList is the length up to which a linear search is used.
const shortList = 32

func newMatcher(list []any) *matcher {
	m := &matcher{items: make([]map[string]any, len(list)), taken: make([]bool, len(list)), left: len(list)}
	for i, item := range list {
		m.items[i], _ = item.(map[string]any)
	}
	return m
}

func (m *matcher) take(i int) {
	m.taken[i] = true
	m.left--
	m.next = (i + 1) % len(m.items)
}

// exact takes the item that has all keys of an element, and returns it, or nil.
func (m *matcher) exact(e *element) map[string]any {
	if len(m.items) > shortList {
		if places, ok := m.placesOf(e); ok {
			return m.exactIn(e, places)
		}
	}
	for range m.items {
		if item := m.takeExact(e, m.next); item != nil {
			return item
		}
		m.next = (m.next + 1) % len(m.items)
	}
	return nil
}

func (m *matcher) exactIn(e *element, places []int) map[string]any {
	for _, i := range places {
		if item := m.takeExact(e, i); item != nil {
			return item
		}
	}
	return nil
}

func (m *matcher) takeExact(e *element, i int) map[string]any {
	if m.taken[i] || agree(m.items[i], e.name) < e.count {
		return nil
	}
	m.take(i)
	return m.items[i]
}

// placesOf returns the indices of the items that can have the keys of an element, if the element has the same keys as the first one.
func (m *matcher) placesOf(e *element) (places []int, ok bool) {
	if m.places == nil {
		m.keys = rawjson.Keys(e.name)
		m.places = make(map[string][]int, len(m.items))
		for i, item := range m.items {
			var values []byte
			for _, key := range m.keys {
				values = append(appendScalar(values, item[key]), ',')
			}
			m.places[string(values)] = append(m.places[string(values)], i)
		}
	}
	var values []byte
	n := 0
	_ = rawjson.EachMember(e.name, func(quoted, value []byte) bool { // malformed members are ignored
		if ok = n < len(m.keys) && rawjson.QuotedIs(quoted, m.keys[n]); ok {
			values = append(appendRawScalar(values, value), ',')
			n++
		}
		return ok
	})
	return m.places[string(values)], ok && n == len(m.keys)
}
