// Package essence computes the tracked part of objects. It compares objects with their last-handled states as bytes, without decoding or allocating.
package essence

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/fnv"
	"strconv"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Essence is the tracked part of an object: a JSON object that keeps the order of its keys. A nil Essence is null. It is not safe for concurrent use.
type Essence struct {
	raw     []byte          // the whole text; nil if it must be written from root
	foreign bool            // another client wrote raw, so it may not be compact
	root    *rawjson.Object // the parsed form; nil until needed
}

// Of wraps JSON that kopf has written. It keeps the bytes.
func Of(raw []byte) *Essence { return &Essence{raw: raw} }

// Parse reads a stored state, or returns nil if null is stored. It keeps the bytes.
func Parse(data []byte) (*Essence, error) {
	data = bytes.TrimSpace(data)
	if string(data) == "null" {
		return nil, nil
	}
	if !json.Valid(data) {
		_, err := rawjson.Decode(data) // returns the error
		return nil, err
	}
	if data[0] != '{' {
		return nil, errors.New("an object is expected")
	}
	return &Essence{raw: data, foreign: true}, nil
}

// Source is an object, split into the parts that [Build] reads.
type Source struct {
	Raw                 []byte // the whole object
	Metadata, Status    []byte // nil for none
	Labels, Annotations []byte // without those that kopf ignores; nil for none
}

// Build computes the tracked part of an object, which still includes the annotations of kopf's storages. The fields are those of the handlers. A field that
// is absent or unreachable adds nothing (CH-T18).
func Build(s *Source, fields [][]string) *Essence {
	meta := rawjson.NewObject()
	root := rawjson.ParseObjectExcept(s.Raw, func(key string) bool {
		return key == "apiVersion" || key == "kind" || key == "metadata" || key == "status"
	})
	if s.Labels != nil {
		meta.Put("labels", s.Labels)
	}
	if s.Annotations != nil {
		rest, _ := markers.FilterMembers(s.Annotations, markers.FindManaged(s.Annotations).Own)
		meta.Put("annotations", rest)
	}
	if len(meta.Members) > 0 {
		root.Members = append(root.Members, rawjson.Member{Key: "metadata", Nested: meta})
	}
	e := &Essence{root: root}
	for _, field := range fields {
		e.restore(s, field)
	}
	e.DropEmpty()
	return e
}

// restore copies a field from the object if [Build] may have left it out. Build copies all stanzas except those below as a whole.
func (e *Essence) restore(s *Source, keys []string) {
	if len(keys) == 0 {
		return
	}
	switch {
	case keys[0] == "metadata" && len(keys) == 1:
		rest, _ := markers.FilterMembers(s.Metadata, markers.VolatileMeta)
		e.root.Put("metadata", rest)
	case keys[0] == "metadata" && (keys[1] == "resourceVersion" || keys[1] == "managedFields"): // kopf changes them with each patch (CH-T30)
	case keys[0] == "metadata", keys[0] == "status", keys[0] == "apiVersion", keys[0] == "kind":
		if raw, ok := s.find(keys); ok {
			e.root.Set(raw, keys...)
		}
	}
}

func (s *Source) find(keys []string) ([]byte, bool) {
	switch keys[0] {
	case "metadata":
		raw, ok := rawjson.Find(s.Metadata, keys[1:]...)
		return raw, ok && s.Metadata != nil
	case "status":
		raw, ok := rawjson.Find(s.Status, keys[1:]...)
		return raw, ok && s.Status != nil
	}
	return rawjson.Find(s.Raw, keys...)
}

// Text returns the stored form: compact, in pure ASCII, with the keys in their order. The caller must not modify it.
func (e *Essence) Text() []byte {
	if e == nil {
		return []byte("null")
	}
	if e.foreign && e.raw != nil {
		e.raw, e.foreign = rawjson.AppendCompact(make([]byte, 0, len(e.raw)), e.raw), false
	}
	return e.Bytes()
}

// Bytes returns the JSON in the form that is available, compact or not. It returns nil for a nil receiver.
func (e *Essence) Bytes() []byte {
	if e == nil {
		return nil
	}
	if e.raw == nil {
		root := e.object() // empty for the zero value
		e.raw, e.foreign = root.AppendTo(make([]byte, 0, root.Size())), false
	}
	return e.raw
}

// Digest returns a short hash of the JSON, for comparisons.
func (e *Essence) Digest() uint64 {
	if e == nil {
		return 0
	}
	return sum(e.Bytes())
}

func sum(data []byte) uint64 {
	h := fnv.New64a()
	h.Write(data) // it never fails
	return h.Sum64()
}

// StoredText returns a stored state in the form in which kopf writes it, or nil for nil.
func StoredText(stored []byte) []byte {
	if stored == nil {
		return nil
	}
	return (&Essence{raw: stored, foreign: true}).Text()
}

// StoredDigest returns a short hash of a stored state, or "" for nil. Spaces and escapes do not change the hash.
func StoredDigest(stored []byte) string {
	if stored == nil {
		return ""
	}
	return strconv.FormatUint(sum(StoredText(stored)), 16)
}

// SortedDigest returns a short hash that does not depend on the order of the keys.
func (e *Essence) SortedDigest() string {
	data, _ := json.Marshal(rawjson.Map(e.Bytes())) // cannot fail, the input is JSON
	return StoredDigest(data)
}

// object returns the parsed form. A caller that changes it must set raw to nil.
func (e *Essence) object() *rawjson.Object {
	if e.root == nil {
		e.root = rawjson.ParseObject(e.raw)
	}
	return e.root
}

// Has reports whether a stanza is present.
func (e *Essence) Has(stanza string) bool { return e.object().Index(stanza) >= 0 }

// Set sets the field at the keys to a value in JSON, and creates the missing parents. It reports false without keys, or if a parent is not an object.
func (e *Essence) Set(value []byte, keys ...string) bool {
	if len(keys) == 0 || !e.object().Set(value, keys...) {
		return false
	}
	e.raw = nil
	return true
}

// Remove removes the field at the keys, and the parents that it leaves empty.
func (e *Essence) Remove(keys ...string) {
	if e.object().Remove(keys...) {
		e.raw = nil
	}
}

// DropAnnotations removes the annotations with matching keys.
func (e *Essence) DropAnnotations(fits func(key []byte) bool) {
	if markers.DropAnnotations(e.object(), fits) {
		e.raw = nil
	}
}

// DropEmpty removes empty stanzas.
func (e *Essence) DropEmpty() {
	if markers.DropEmpty(e.object()) {
		e.raw = nil
	}
}

// Equal reports whether there are no differences. Null equals absent, and 1 equals 1.0.
func (e *Essence) Equal(other *Essence) bool {
	a, b, equal := e.Bytes(), other.Bytes(), true
	if !bytes.Equal(a, b) {
		rawjson.DifferencesIn(a, b, func([]string, any, any) { equal = false })
	}
	return equal
}

// DiffersOnlyBy reports whether e and after differ only because the tracked fields have changed from then to now.
func (e *Essence) DiffersOnlyBy(then, now Tracking, after *Essence) bool {
	differing := then.Differing(now)
	if len(differing) == 0 {
		return false
	}
	a, b := Of(bytes.Clone(e.Bytes())), Of(bytes.Clone(after.Bytes()))
	for _, field := range differing {
		keys := rawjson.SplitPath(field)
		a.Remove(keys...)
		b.Remove(keys...)
	}
	for _, field := range then.Common(now) { // a wider field must not hide a narrower one
		keys, equal := rawjson.SplitPath(field), true
		rawjson.Differences(rawjson.ValueAt(e.Bytes(), keys...), rawjson.ValueAt(after.Bytes(), keys...), func([]string, any, any) { equal = false })
		if !equal {
			return false
		}
	}
	return a.Equal(b)
}
