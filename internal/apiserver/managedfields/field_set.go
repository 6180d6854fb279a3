package managedfields

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// fieldSet is a set of fields: its members, and sets of fields below some of them. The steps of a path have the format of managedFields: f:name,
// k:{"name":"x"}, or v:"x".
type fieldSet struct {
	members  map[string]bool
	children map[string]*fieldSet
}

// empty reports whether the set is empty.
func (s *fieldSet) empty() bool { return s == nil || len(s.members) == 0 && len(s.children) == 0 }

// insert adds a path to the set.
func (s *fieldSet) insert(path []string) {
	for _, step := range path[:len(path)-1] {
		s = s.child(step)
	}
	if s.members == nil {
		s.members = make(map[string]bool)
	}
	s.members[path[len(path)-1]] = true
}

// child returns the set below a step. It adds the set if there is none.
func (s *fieldSet) child(step string) *fieldSet {
	if s.children == nil {
		s.children = make(map[string]*fieldSet)
	}
	c := s.children[step]
	if c == nil {
		c = &fieldSet{}
		s.children[step] = c
	}
	return c
}

// has reports whether the set contains the path itself.
func (s *fieldSet) has(path []string) bool {
	for _, step := range path[:len(path)-1] {
		if s = s.children[step]; s == nil {
			return false
		}
	}
	return s.members[path[len(path)-1]]
}

// union returns the fields that are in either set.
func (s *fieldSet) union(o *fieldSet) *fieldSet {
	u := &fieldSet{}
	for _, set := range []*fieldSet{s, o} {
		if set != nil {
			set.each(nil, u.insert)
		}
	}
	return u
}

// minus returns the fields that are in s and not in o.
func (s *fieldSet) minus(o *fieldSet) *fieldSet { return s.filter(o, false) }

// and returns the fields that are in both sets.
func (s *fieldSet) and(o *fieldSet) *fieldSet { return s.filter(o, true) }

func (s *fieldSet) filter(o *fieldSet, in bool) *fieldSet {
	f := &fieldSet{}
	if s == nil {
		return f
	}
	s.each(nil, func(path []string) {
		if (o != nil && o.has(path)) == in {
			f.insert(path)
		}
	})
	return f
}

// each calls visit with every path of the set, in order. The path is valid only during the call.
func (s *fieldSet) each(at []string, visit func(path []string)) {
	for _, m := range rawjson.SortedKeys(s.members) {
		visit(append(at, m))
	}
	for _, c := range rawjson.SortedKeys(s.children) {
		s.children[c].each(append(at, c), visit)
	}
}

// withNamed returns the set with the parents of its fields, as far as the type declares the parents by name.
func (s *fieldSet) withNamed(t fieldType) *fieldSet {
	w := &fieldSet{members: maps.Clone(s.members)}
	for step, c := range s.children {
		child := fieldType{}
		if key, ok := strings.CutPrefix(step, "f:"); ok {
			known := false
			if child, known = t.field(key); known && !c.empty() {
				w.insert([]string{step})
			}
		} else if strings.HasPrefix(step, "k:") {
			child = t.item()
		}
		*w.child(step) = *c.withNamed(child)
	}
	return w
}

// encode returns the set in the form of fieldsV1.
func (s *fieldSet) encode() map[string]any {
	m := make(map[string]any, len(s.members)+len(s.children))
	for step := range s.members {
		m[step] = map[string]any{}
	}
	for step, c := range s.children {
		if c.empty() {
			continue
		}
		inner := c.encode()
		if s.members[step] {
			inner["."] = map[string]any{}
		}
		m[step] = inner
	}
	return m
}

// ignored are the fields that belong to the server, and have no managers. They are made on first use: programs without the server import the package,
// too, and the linker would keep the code that makes them at the start.
var ignored struct {
	once   sync.Once
	fields *fieldSet
}

func ignoredFields() *fieldSet {
	ignored.once.Do(func() {
		ignored.fields = &fieldSet{}
		for _, path := range []string{
			"apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace", "metadata.creationTimestamp", "metadata.selfLink", "metadata.uid",
			"metadata.generation", "metadata.managedFields", "metadata.resourceVersion",
		} {
			keys := strings.Split(path, ".")
			for i, k := range keys {
				keys[i] = "f:" + k
			}
			ignored.fields.insert(keys)
		}
	})
	return ignored.fields
}

func decodeFields(m map[string]any) *fieldSet {
	s := &fieldSet{}
	for step, v := range m {
		inner := rawjson.AsMap(v)
		if step == "." {
			continue
		}
		if len(inner) == 0 || inner["."] != nil {
			s.insert([]string{step})
		}
		if len(inner) > 0 {
			if c := decodeFields(inner); !c.empty() {
				*s.child(step) = *c
			}
		}
	}
	return s
}

// spelling returns a path for messages: .spec.containers[name="x"].image
func spelling(path []string) string {
	var b strings.Builder
	for _, step := range path {
		kind, rest, _ := strings.Cut(step, ":")
		switch kind {
		case "f":
			b.WriteString("." + rest)
		case "v":
			b.WriteString("[=" + rest + "]")
		case "k":
			var key map[string]json.RawMessage
			if json.NewDecoder(bytes.NewReader([]byte(rest))).Decode(&key) != nil {
				continue
			}
			b.WriteString("[")
			for i, k := range rawjson.SortedKeys(key) {
				if i > 0 {
					b.WriteString(",")
				}
				b.WriteString(k + "=" + string(key[k]))
			}
			b.WriteString("]")
		}
	}
	return b.String()
}
