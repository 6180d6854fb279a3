package essence

import (
	"bytes"
	"slices"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Comparer compares objects with the last-handled states that are stored on them. It reuses its buffers, so it is not safe for concurrent use.
type Comparer struct {
	Annotation string     // the annotation that stores the state; "" if the status stores it
	Prefixes   []string   // of the annotations that belong to this operator
	Keys       []string   // annotations of this operator that an idle object may have
	Field      []string   // path in the status that stores the state; nil if an annotation stores it
	Transient  [][]string // fields of the status that an idle object does not have

	now, before []byte
	comparer    rawjson.UnorderedComparer
}

// SameAsStored reports whether the tracked part of an object equals the state that is stored on the object.
func (c *Comparer) SameAsStored(o *rawjson.Header, raw []byte) bool {
	stored, ok := c.write(o, raw, o.Labels.Of(raw), o.Annotations.Of(raw))
	if !ok {
		return false
	}
	c.before = bytes.TrimSpace(rawjson.AppendUnquoted(c.before[:0], stored))
	if bytes.Equal(c.now, c.before) {
		return true
	}
	return c.comparer.Equal(c.now, c.before) // other clients may store spaces or another order
}

// Now returns the tracked part of the object that was compared last. The next comparison overwrites the bytes.
func (c *Comparer) Now() []byte { return c.now }

// write writes the tracked part of an object to the buffer, in its stored form, and returns the stored state, in quotes. It reports false if the object has a
// member that it does not know.
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

// appendNext appends a comma, unless the object is still empty, and a key.
func appendNext(b, quoted []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(b, quoted...)
}

// annotate appends the annotations of the user, and returns the stored state from the annotations of the operator.
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

// owner says who owns an annotation.
type owner int

const (
	ownerUser     owner = iota // tracked
	ownerKopf                  // kopf or kubectl; not tracked
	ownerDiffBase              // the annotation that stores the last-handled state
	ownerProgress              // handler progress: handling has not finished, so the object needs a cycle
	ownerOther                 // a marker of another operator whose annotations may have been read already: the object needs a cycle
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

// storedIn returns the stored state, in quotes. It reports false if there is no such state, if two are stored, or if the status has a transient field.
func (c *Comparer) storedIn(status, stored []byte) ([]byte, bool) {
	if c.Field != nil {
		switch inStatus, ok := rawjson.Find(status, c.Field[1:]...); {
		case ok && stored != nil:
			return nil, false // kopf has to remove one of the two
		case ok:
			stored = inStatus
		}
	}
	if !rawjson.IsQuoted(stored) {
		return nil, false
	}
	if status != nil {
		for _, field := range c.Transient {
			if left, ok := rawjson.Find(status, field[1:]...); ok && string(left) != "{}" { // the last record leaves {}
				return nil, false
			}
		}
	}
	return stored, true
}
