package rawjson

import "bytes"

const (
	// maxDistance limits the distance of a member from its expected place, because the time grows with it.
	maxDistance = 64
	// maxDepth limits the depth of values.
	maxDepth = 100
)

// UnorderedComparer compares values in one pass over each. It reuses its buffers, so it is not safe for concurrent use.
type UnorderedComparer struct {
	a, b    []byte
	nodes   []node // all values in b; nested values follow their parent
	recoded []byte
}

// node is a value in b.
type node struct {
	key, value Range
	count      int  // of members or items
	next       int  // index after the last nested node
	taken      bool // a value in a matches it
}

// Equal reports whether two values are equal, whatever the order of their members and their notation. The argument a must be in the form of [AppendCompact].
// Equal reports false for malformed JSON and for a depth of more than 100. It also does so for members 64 or more places from the expected one, and for numbers
// in different notations.
func (c *UnorderedComparer) Equal(a, b []byte) bool {
	c.a, c.b, c.nodes = a, b, c.nodes[:0]
	end, ok := c.index(Range{}, SkipSpace(b, 0), 0)
	if !ok || SkipSpace(b, end) != len(b) {
		return false
	}
	end, ok = c.match(0, 0)
	return ok && end == len(a)
}

// index adds nodes for the value at b[i] and the values in it, and returns the index after it.
func (c *UnorderedComparer) index(key Range, i, depth int) (end int, ok bool) {
	if i >= len(c.b) || depth > maxDepth {
		return 0, false
	}
	at := len(c.nodes)
	c.nodes = append(c.nodes, node{key: key, value: Range{From: i}})
	count := 0
	switch c.b[i] {
	case '{':
		end, count, ok = c.indexAll(i, '}', depth)
	case '[':
		end, count, ok = c.indexAll(i, ']', depth)
	default:
		var err error
		end, err = SkipValue(c.b, i)
		ok = err == nil
	}
	n := &c.nodes[at]
	n.value.To, n.count, n.next = end, count, len(c.nodes)
	return end, ok
}

// indexAll adds nodes for the members or items of the value at b[i].
func (c *UnorderedComparer) indexAll(i int, closing byte, depth int) (end, count int, ok bool) {
	if i = SkipSpace(c.b, i+1); i < len(c.b) && c.b[i] == closing {
		return i + 1, 0, true
	}
	for {
		var key Range
		if closing == '}' {
			if i >= len(c.b) || c.b[i] != '"' {
				return 0, 0, false
			}
			after, err := skipString(c.b, i)
			key = Range{i, after}
			if i = SkipSpace(c.b, after); err != nil || i >= len(c.b) || c.b[i] != ':' {
				return 0, 0, false
			}
			i = SkipSpace(c.b, i+1)
		}
		if i, ok = c.index(key, i, depth+1); !ok {
			return 0, 0, false
		}
		count++
		switch i = SkipSpace(c.b, i); {
		case i >= len(c.b) || c.b[i] != closing && c.b[i] != ',':
			return 0, 0, false
		case c.b[i] == closing:
			return i + 1, count, true
		}
		i = SkipSpace(c.b, i+1)
	}
}

// match compares the value at a[i] with a node of b, and returns the index after the value.
func (c *UnorderedComparer) match(i, n int) (end int, ok bool) {
	value := c.nodes[n].value
	if i >= len(c.a) || c.a[i] != c.b[value.From] {
		return 0, false
	}
	switch c.a[i] {
	case '{':
		return c.matchMembers(i, n)
	case '[':
		return c.matchItems(i, n)
	}
	end, err := SkipValue(c.a, i)
	return end, err == nil && c.same(c.a[i:end], value.Of(c.b))
}

func (c *UnorderedComparer) matchMembers(i, n int) (end int, ok bool) {
	first, after := n+1, c.nodes[n].next
	next, left := first, c.nodes[n].count
	w := MemberReader{Data: c.a, At: i}
	for w.Next() {
		member := c.find(w.Key.Of(c.a), next, first, after, c.nodes[n].count)
		if member < 0 {
			return 0, false
		}
		c.nodes[member].taken = true
		if w.At, ok = c.match(w.At, member); !ok {
			return 0, false
		}
		next = c.nodes[member].next
		left--
	}
	return w.At, w.Err == nil && left == 0
}

// find returns the member with a key among count nodes, from first to before after, or -1. It begins its search at next.
func (c *UnorderedComparer) find(key []byte, next, first, after, count int) int {
	for range min(count, maxDistance) {
		if next == after {
			next = first
		}
		if m := &c.nodes[next]; !m.taken && c.same(key, m.key.Of(c.b)) {
			return next
		}
		next = c.nodes[next].next
	}
	return -1
}

func (c *UnorderedComparer) matchItems(i, n int) (end int, ok bool) {
	i++
	for item := n + 1; item < c.nodes[n].next; item = c.nodes[item].next {
		if i, ok = c.match(i, item); !ok || i >= len(c.a) {
			return 0, false
		}
		if c.a[i] == ',' {
			i++
		}
	}
	return i + 1, i < len(c.a) && c.a[i] == ']'
}

// same reports whether a scalar of a equals one of b, in any notation.
func (c *UnorderedComparer) same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if b[0] != '"' || IsPlain(b) {
		return false
	}
	c.recoded = AppendCompact(c.recoded[:0], b)
	return bytes.Equal(a, c.recoded)
}
