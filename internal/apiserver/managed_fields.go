package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file keeps account of who has set which fields of the objects in the in-memory API server, in
// metadata.managedFields, in the same terms as kube-apiserver.
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management

// fieldSet is a set of fields: those that are in it by themselves, and those below them. A field
// is spelt as in managedFields: f:name, k:{"name":"x"}, or v:"x".
type fieldSet struct {
	members  map[string]bool
	children map[string]*fieldSet
}

// empty tells whether there is nothing in the set.
func (s *fieldSet) empty() bool { return s == nil || len(s.members) == 0 && len(s.children) == 0 }

// insert puts a path into the set.
func (s *fieldSet) insert(path []string) {
	for _, step := range path[:len(path)-1] {
		s = s.child(step)
	}
	if s.members == nil {
		s.members = make(map[string]bool)
	}
	s.members[path[len(path)-1]] = true
}

// child returns what is below a step, which is there from then on.
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

// has tells whether a path is in the set by itself.
func (s *fieldSet) has(path []string) bool {
	for _, step := range path[:len(path)-1] {
		if s = s.children[step]; s == nil {
			return false
		}
	}
	return s.members[path[len(path)-1]]
}

// union returns what is in any of the two sets.
func (s *fieldSet) union(o *fieldSet) *fieldSet {
	u := &fieldSet{}
	for _, set := range []*fieldSet{s, o} {
		if set != nil {
			set.each(nil, u.insert)
		}
	}
	return u
}

// minus returns what is in s and not in o.
func (s *fieldSet) minus(o *fieldSet) *fieldSet { return s.filter(o, false) }

// and returns what is in both sets.
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

// each calls visit with every path of the set, in order. The path is good only during the call.
func (s *fieldSet) each(at []string, visit func(path []string)) {
	for _, m := range slices.Sorted(maps.Keys(s.members)) {
		visit(append(at, m))
	}
	for _, c := range slices.Sorted(maps.Keys(s.children)) {
		s.children[c].each(append(at, c), visit)
	}
}

// withNamed returns the set with the fields that contain others in it, if the type knows them by name.
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

// encode returns the set as it stands in fieldsV1.
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

// fieldType is what is known of the type of a field by its schema, which is nil if nothing is.
type fieldType struct {
	schema *schema
	root   bool // whether it is a whole object
}

// atomic tells whether a field is owned as one; set, whether a list's items are told apart by all they are, and keys, by what else they are.
func (t fieldType) atomic() bool { return t.schema != nil && t.schema.mapType == "atomic" }

func (t fieldType) set() bool { return t.schema != nil && t.schema.listType == "set" }

func (t fieldType) keys() []string {
	if t.schema == nil || t.schema.listType != "map" {
		return nil
	}
	return t.schema.listKeys
}

// rootType is the type of the objects that the request is about.
func (o managedOptions) rootType() fieldType {
	s := o.schema
	if s == nil {
		group, version, ok := strings.Cut(o.apiVersion, "/")
		if !ok {
			group, version = "", o.apiVersion
		}
		if t := typeOfKind(group, version, o.kind); t != nil {
			s = t.schema
		}
	}
	return fieldType{schema: s, root: true}
}

// field returns the type of a field, and whether the type knows it by name.
func (t fieldType) field(key string) (fieldType, bool) {
	switch {
	case t.root && key == "metadata":
		return typeOfSchema(namedTypes()["ObjectMeta"].schema), true
	case t.root && (key == "apiVersion" || key == "kind"):
		return fieldType{}, true
	case t.schema == nil:
		return fieldType{}, false
	}
	if child := t.schema.properties[key]; child != nil {
		return typeOfSchema(child), true
	}
	if t.schema.additional != nil {
		return typeOfSchema(t.schema.additional), false
	}
	return fieldType{}, false
}

func typeOfSchema(s *schema) fieldType { return fieldType{schema: s, root: s.embedded} }

// item returns the type of the items of a list.
func (t fieldType) item() fieldType {
	if t.schema != nil && t.schema.items != nil {
		return typeOfSchema(t.schema.items)
	}
	return fieldType{}
}

// associative tells whether the items of a list are fields of their own.
func (t fieldType) associative() bool { return t.set() || len(t.keys()) > 0 }

// step spells an item of a list, and tells whether it can.
func (t fieldType) step(item any) (string, bool) {
	if t.set() {
		data, err := rawjson.Encode(item)
		return "v:" + string(data), err == nil
	}
	m := rawjson.AsMap(item)
	key := make(map[string]any)
	inner := t.item().schema
	for _, k := range t.keys() {
		if v, ok := m[k]; ok {
			key[k] = v
		} else if inner != nil && inner.properties[k] != nil {
			if p := inner.properties[k]; p.hasFallback {
				key[k] = p.fallback
			} else if inner.builtin != nil { // the types of kube-apiserver are never without
				key[k] = map[string]any{"string": "", "integer": json.Number("0")}[p.typ]
			}
		}
	}
	if len(key) == 0 {
		return "", false
	}
	data, err := rawjson.Encode(key)
	return "k:" + string(data), err == nil
}

// steps returns the items of a list by their spelling; ok is false if they cannot be told apart.
func (t fieldType) steps(list []any) (order []string, items map[string]any, ok bool) {
	items = make(map[string]any, len(list))
	for _, item := range list {
		step, fine := t.step(item)
		if _, twice := items[step]; !fine || twice {
			return nil, nil, false
		}
		items[step] = item
		order = append(order, step)
	}
	return order, items, true
}

// appliedFields returns the fields that an applied configuration is about.
func appliedFields(object map[string]any, t fieldType) *fieldSet {
	set := &fieldSet{}
	collectFields(set, nil, t, object)
	return set
}

func collectFields(set *fieldSet, at []string, t fieldType, v any) {
	switch v := v.(type) {
	case map[string]any:
		if t.atomic() {
			set.insert(at)
			return
		}
		for key, e := range v {
			child, known := t.field(key)
			path := append(slices.Clip(at), "f:"+key)
			if m, is := e.(map[string]any); e == nil || is && len(m) == 0 || !known {
				set.insert(path)
			}
			collectFields(set, path, child, e)
		}
		return
	case []any:
		if order, items, ok := t.steps(v); ok && t.associative() {
			for _, step := range order {
				path := append(slices.Clip(at), step)
				set.insert(path)
				if !t.set() {
					collectFields(set, path, t.item(), items[step])
				}
			}
			return
		}
	}
	set.insert(at)
}

// comparison is what differs between two states of an object.
type comparison struct{ added, modified, removed *fieldSet }

func compareFields(before, after map[string]any, o managedOptions) *comparison {
	c := &comparison{&fieldSet{}, &fieldSet{}, &fieldSet{}}
	var a, b any // without a type, if there is nothing
	if before != nil {
		a = before
	}
	if after != nil {
		b = after
	}
	c.walk(nil, o.rootType(), a, b, before != nil, after != nil)
	return c
}

func (c *comparison) leaf(at []string, a, b any, hasA, hasB bool) {
	switch {
	case len(at) == 0:
	case !hasA:
		c.added.insert(at)
	case !hasB:
		c.removed.insert(at)
	case !rawjson.Equal(a, b):
		c.modified.insert(at)
	}
}

func (c *comparison) walk(at []string, t fieldType, a, b any, hasA, hasB bool) {
	ma, mb := rawjson.AsMap(a), rawjson.AsMap(b)
	la, isA := a.([]any)
	lb, isB := b.([]any)
	switch {
	case !t.atomic() && (ma != nil || a == nil) && (mb != nil || b == nil) && len(ma)+len(mb) > 0:
		for _, key := range rawjson.UnionKeys(ma, mb) {
			child, _ := t.field(key)
			x, inA := ma[key]
			y, inB := mb[key]
			c.walk(append(slices.Clip(at), "f:"+key), child, x, y, inA, inB)
		}
	case !t.atomic() && t.associative() && (isA || a == nil) && (isB || b == nil) && len(la)+len(lb) > 0 && c.walkList(at, t, la, lb):
	case !t.atomic() && hasA && hasB && a != nil && b != nil && len(ma)+len(mb) > 0: // a map has come or gone
		c.walk(at, t, ma, nil, true, true)
		c.walk(at, t, nil, mb, true, true)
		c.modified.insert(at)
		return
	default:
		c.leaf(at, a, b, hasA, hasB)
		return
	}
	if hasA != hasB { // the container itself came or went with what is in it
		c.leaf(at, nil, nil, hasA, hasB)
	}
}

func (c *comparison) walkList(at []string, t fieldType, la, lb []any) bool {
	orderA, itemsA, okA := t.steps(la)
	orderB, itemsB, okB := t.steps(lb)
	if !okA || !okB {
		return false
	}
	for _, step := range append(orderA, orderB...) {
		a, inA := itemsA[step]
		b, inB := itemsB[step]
		path := append(slices.Clip(at), step)
		if t.set() {
			c.leaf(path, a, b, inA, inB)
		} else {
			c.walk(path, t.item(), a, b, inA, inB)
		}
	}
	return true
}

// ignoredFields belong to the server, whoever sends them.
var ignoredFields = func() *fieldSet {
	s := &fieldSet{}
	for _, path := range []string{
		"apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace", "metadata.creationTimestamp", "metadata.selfLink", "metadata.uid",
		"metadata.generation", "metadata.managedFields", "metadata.resourceVersion",
	} {
		keys := strings.Split(path, ".")
		for i, k := range keys {
			keys[i] = "f:" + k
		}
		s.insert(keys)
	}
	return s
}()

// managedOptions says who changes an object, and how.
type managedOptions struct {
	manager     string
	apiVersion  string
	subresource string
	operation   string // Apply or Update
	now         time.Time
	schema      *schema
	kind        string
	hasStatus   bool // whether the status is a subresource
}

// reset takes out of a set what the request cannot change, because it belongs to another subresource.
func (o managedOptions) reset(s *fieldSet) {
	drop := func(step string) {
		delete(s.children, step)
		delete(s.members, step)
	}
	switch {
	case o.kind == "Namespace" && o.subresource == "": // they are the server's own
		drop("f:spec")
		drop("f:status")
	case o.hasStatus && o.subresource == "":
		drop("f:status")
	case o.subresource == "status":
		drop("f:metadata")
		drop("f:spec")
	}
}

// managerKey tells the entries of managedFields apart.
type managerKey struct{ manager, operation, apiVersion, subresource string }

// key is that of the entry that is changed.
func (o managedOptions) key() managerKey {
	k := managerKey{o.manager, o.operation, o.apiVersion, o.subresource}
	if o.operation == "Apply" {
		k.apiVersion = ""
	}
	return k
}

// managers are the entries of managedFields.
type managers map[managerKey]*managed

type managed struct {
	apiVersion string
	time       string
	fields     *fieldSet
}

func managersOf(object map[string]any) managers {
	all := make(managers)
	list, _ := rawjson.AsMap(object["metadata"])["managedFields"].([]any)
	for _, e := range list {
		m := rawjson.AsMap(e)
		k := managerKey{textIn(m, "manager"), textIn(m, "operation"), textIn(m, "apiVersion"), textIn(m, "subresource")}
		if k.operation == "Apply" {
			k.apiVersion = ""
		}
		all[k] = &managed{textIn(m, "apiVersion"), textIn(m, "time"), decodeFields(rawjson.AsMap(m["fieldsV1"]))}
	}
	return all
}

// store writes the entries to an object, in the order in which kube-apiserver has them.
func (all managers) store(object map[string]any) {
	meta := rawjson.AsMap(object["metadata"])
	delete(meta, "managedFields")
	keys := make([]managerKey, 0, len(all))
	for k, m := range all {
		if !m.fields.empty() {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	slices.SortStableFunc(keys, func(a, b managerKey) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(all[a].time, all[b].time), cmp.Compare(a.manager, b.manager),
			cmp.Compare(all[a].apiVersion, all[b].apiVersion), cmp.Compare(a.subresource, b.subresource))
	})
	list := make([]any, 0, len(keys))
	for _, k := range keys {
		m := all[k]
		entry := map[string]any{
			"manager": k.manager, "operation": k.operation, "apiVersion": m.apiVersion, "fieldsType": "FieldsV1", "fieldsV1": m.fields.encode(),
		}
		if m.time != "" {
			entry["time"] = m.time
		}
		if k.subresource != "" {
			entry["subresource"] = k.subresource
		}
		list = append(list, entry)
	}
	meta["managedFields"] = list
}

// maxUpdateManagers is how many entries of updates an object has; older ones are thrown together.
const maxUpdateManagers = 10

func (all managers) cap() {
	var updates []managerKey
	for k, m := range all {
		if k.operation == "Update" && !m.fields.empty() {
			updates = append(updates, k)
		}
	}
	if len(updates) <= maxUpdateManagers {
		return
	}
	slices.SortStableFunc(updates, func(a, b managerKey) int {
		return cmp.Compare(all[a].time+"\x00"+a.manager, all[b].time+"\x00"+b.manager)
	})
	for _, k := range updates[:len(updates)-maxUpdateManagers+1] {
		old := all[k]
		delete(all, k)
		ancient := managerKey{"ancient-changes", "Update", old.apiVersion, ""}
		if m := all[ancient]; m != nil {
			m.fields = m.fields.union(old.fields)
			m.time = old.time
		} else {
			all[ancient] = old
		}
	}
}

// updateManagedFields notes who has set the fields that differ from the live object, which is nil for a new one. An
// object whose fields were never accounted for stays so, and one that does not fit its type loses its account.
func updateManagedFields(live, updated map[string]any, o managedOptions) {
	meta := rawjson.AsMap(updated["metadata"])
	list, _ := meta["managedFields"].([]any)
	reset := meta["managedFields"] != nil && (len(list) == 0 || len(list) == 1 && len(rawjson.AsMap(list[0])) == 0)
	all := managersOf(updated)
	if o.subresource != "" || len(all) == 0 && !reset {
		all = managersOf(live)
	}
	delete(meta, "managedFields")
	if live != nil && len(all) == 0 || o.rootType().typeError(updated, true) != "" {
		return
	}
	c := compareFields(live, updated, o)
	for _, set := range []*fieldSet{c.added, c.modified, c.removed} {
		o.reset(set)
	}
	taken := c.added.union(c.modified).minus(ignoredFields)
	lost := taken.union(c.removed)
	for k, m := range all {
		if m.fields = m.fields.minus(lost); m.fields.empty() {
			delete(all, k)
		}
	}
	if !taken.empty() {
		mine := &managed{apiVersion: o.apiVersion, time: timestamp(o.now), fields: taken}
		if old := all[o.key()]; old != nil {
			mine.fields = taken.union(old.fields)
		}
		all[o.key()] = mine
	}
	all.cap()
	all.store(updated)
}

// keepTimes leaves the account of fields as it was if nothing but its times has changed in an object.
func keepTimes(live, object map[string]any) {
	old, _ := rawjson.AsMap(live["metadata"])["managedFields"].([]any)
	now, _ := rawjson.AsMap(object["metadata"])["managedFields"].([]any)
	timeless := func(a, b any) bool {
		a, b = rawjson.Clone(a), rawjson.Clone(b)
		delete(rawjson.AsMap(a), "time")
		delete(rawjson.AsMap(b), "time")
		return rawjson.Equal(a, b)
	}
	if len(now) == 0 || !slices.EqualFunc(old, now, timeless) {
		return
	}
	var a, b = maps.Clone(live), maps.Clone(object)
	for _, m := range []map[string]any{a, b} {
		meta := maps.Clone(rawjson.AsMap(m["metadata"]))
		delete(meta, "managedFields")
		m["metadata"] = meta
	}
	if rawjson.Equal(a, b) {
		rawjson.AsMap(object["metadata"])["managedFields"] = old
	}
}

// spelling returns a path for people: .spec.containers[name="x"].image
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
			for i, k := range slices.Sorted(maps.Keys(key)) {
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
