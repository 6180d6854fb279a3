package essence

import (
	"bytes"
	"slices"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Comparer compares objects with the states that are stored on them. It has buffers, and so is for one goroutine.
type Comparer struct {
	Annotation string     // that the state may be stored in; "" if it is in the status
	Prefixes   []string   // of annotations that are ours
	Keys       []string   // those of them that an idle object may have
	Field      []string   // of the status that the state may be stored in; nil if it is in an annotation
	Transient  [][]string // fields of the status that an idle object does not have

	now, before []byte
	comparer    rawjson.UnorderedComparer
}

// SameAsStored reports whether the essence of an object is the one that is stored on it.
func (c *Comparer) SameAsStored(o *rawjson.Header, raw []byte) bool {
	stored, ok := c.write(o, raw, o.Labels.Of(raw), o.Annotations.Of(raw))
	if !ok {
		return false
	}
	c.before = bytes.TrimSpace(rawjson.AppendUnquoted(c.before[:0], stored))
	if bytes.Equal(c.now, c.before) {
		return true
	}
	return c.comparer.Equal(c.now, c.before) // others store it with spaces, or in another order
}

// Now returns the essence of the object that was compared last, in bytes that are used again for the next one.
func (c *Comparer) Now() []byte { return c.now }

// write writes the essence of an object, as it would be stored, to the buffer, and returns what is stored, in quotes. It fails
// if there is anything on the object that it does not know.
func (c *Comparer) write(o *rawjson.Header, raw, labels, annotations []byte) (stored []byte, ok bool) {
	if o.OtherCount > rawjson.MaxOther {
		return nil, false
	}
	b := append(c.now[:0], '{')
	for i, part := range o.Other[:o.OtherCount] {
		key := part.Key.Of(raw)
		if !rawjson.IsPlain(key) || slices.ContainsFunc(o.Other[:i], func(other rawjson.HeaderMember) bool { return bytes.Equal(other.Key.Of(raw), key) }) {
			return nil, false
		}
		b = rawjson.AppendCompact(append(appendNext(b, key), ':'), part.Value.Of(raw))
	}
	beforeMeta := len(b)
	b = append(appendNext(b, []byte(`"metadata"`)), ':', '{')
	meta := len(b)
	if !rawjson.IsNull(labels) && labels[rawjson.SkipSpace(labels, 1)] != '}' {
		b = rawjson.AppendCompact(append(appendNext(b, []byte(`"labels"`)), ':'), labels)
	}
	b, stored, ok = c.annotate(b, annotations)
	if len(b) == meta {
		b = b[:beforeMeta]
	} else {
		b = append(b, '}')
	}
	c.now = append(b, '}')
	if !ok {
		return nil, false
	}
	return c.storedIn(o.Status.Of(raw), stored)
}

// appendNext appends the key of the next member of an object.
func appendNext(b, quoted []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(b, quoted...)
}

// annotate appends the annotations that are the user's, and returns what is stored in those that are ours.
func (c *Comparer) annotate(b, annotations []byte) (all, stored []byte, ok bool) {
	if rawjson.IsNull(annotations) {
		return b, nil, true
	}
	before := len(b)
	b = append(appendNext(b, []byte(`"annotations"`)), ':', '{')
	begin := len(b)
	w := rawjson.MemberReader{Data: annotations}
	for w.Next() {
		end, err := rawjson.SkipValue(annotations, w.At)
		key := rawjson.PlainText(w.Key.Of(annotations))
		if err != nil || key == nil {
			return b, nil, false
		}
		value := annotations[w.At:end]
		w.At = end
		switch c.ownerOf(key) {
		case ownerUser:
			b = rawjson.AppendCompact(append(appendNext(b, w.Key.Of(annotations)), ':'), value)
		case ownerDiffBase:
			stored = value
		case ownerProgress, ownerOther:
			return b, nil, false
		}
	}
	if len(b) == begin {
		return b[:before], stored, w.Err == nil
	}
	return append(b, '}'), stored, w.Err == nil
}

// owner is the kind of owner of an annotation.
type owner int

const (
	ownerUser     owner = iota // part of the essence
	ownerKopf                  // or kubectl's: no part of the essence
	ownerDiffBase              // that in which the essence is stored
	ownerProgress              // of a handling that is not over: a cycle is needed
	ownerOther                 // that which marks those of another operator, some of which may have been read already: a cycle is needed
)

func (c *Comparer) ownerOf(key []byte) owner {
	prefix, name, ok := bytes.Cut(key, []byte("/"))
	is := func(text string) bool { return text == string(prefix) }
	switch {
	case string(key) == markers.LastApplied:
		return ownerKopf
	case !ok:
		return ownerUser
	case slices.ContainsFunc(c.Prefixes, is):
		switch {
		case string(key) == c.Annotation:
			return ownerDiffBase
		case string(name) == markers.Managed, slices.ContainsFunc(c.Keys, func(k string) bool { return k == string(key) }):
			return ownerKopf
		}
		return ownerProgress
	case string(prefix) == markers.DefaultPrefix, bytes.HasSuffix(prefix, []byte("."+markers.DefaultPrefix)):
		return ownerKopf
	case string(name) == markers.Managed:
		return ownerOther
	}
	return ownerUser
}

// storedIn returns what is stored, in quotes, and whether there is nothing else in the status that is ours.
func (c *Comparer) storedIn(status, stored []byte) ([]byte, bool) {
	if c.Field != nil {
		switch inStatus, ok := rawjson.Find(status, c.Field[1:]...); {
		case ok && stored != nil:
			return nil, false // one of them is to be removed
		case ok:
			stored = inStatus
		}
	}
	if !rawjson.IsQuoted(stored) {
		return nil, false
	}
	if status != nil {
		for _, field := range c.Transient {
			if left, ok := rawjson.Find(status, field[1:]...); ok && string(left) != "{}" { // which the last record leaves
				return nil, false
			}
		}
	}
	return stored, true
}
