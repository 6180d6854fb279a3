// Package managedfields records in metadata.managedFields which manager has set which fields of an object. It also merges the configurations of
// server-side apply.
//
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
package managedfields

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Options describes a request that changes an object.
type Options struct {
	Manager     string
	APIVersion  string
	Subresource string
	Operation   string // Apply or Update
	Now         time.Time
	Schema      *schema.Schema
	Kind        string
	HasStatus   bool // whether the status is a subresource
	// StatusKeeps are the fields of the metadata that a request to the status keeps. If it is nil, the request keeps all of them.
	StatusKeeps []string
}

// reset removes the fields that the request cannot change from a set, because they belong to another subresource.
func (o Options) reset(s *fieldSet) {
	drop := func(step string) {
		delete(s.children, step)
		delete(s.members, step)
	}
	switch {
	case o.Kind == "Namespace" && o.Subresource == "": // the server sets them
		drop("f:spec")
		drop("f:status")
	case o.HasStatus && o.Subresource == "":
		drop("f:status")
	case o.Subresource == "status":
		drop("f:spec")
		if o.StatusKeeps == nil {
			drop("f:metadata")
		} else if meta := s.children["f:metadata"]; meta != nil {
			for _, key := range o.StatusKeeps {
				delete(meta.children, "f:"+key)
				delete(meta.members, "f:"+key)
			}
		}
	}
}

// entryKey identifies an entry of managedFields.
type entryKey struct{ manager, operation, apiVersion, subresource string }

// key returns the key of the entry that the request changes.
func (o Options) key() entryKey {
	k := entryKey{o.Manager, o.Operation, o.APIVersion, o.Subresource}
	if o.Operation == "Apply" {
		k.apiVersion = ""
	}
	return k
}

// managers are the entries of managedFields by their keys.
type managers map[entryKey]*entry

type entry struct {
	apiVersion string
	time       string
	fields     *fieldSet
}

func managersOf(object map[string]any) managers {
	all := make(managers)
	list, _ := rawjson.AsMap(object["metadata"])["managedFields"].([]any)
	for _, e := range list {
		m := rawjson.AsMap(e)
		k := entryKey{unstructured.Text(m, "manager"), unstructured.Text(m, "operation"), unstructured.Text(m, "apiVersion"), unstructured.Text(m, "subresource")}
		if k.operation == "Apply" {
			k.apiVersion = ""
		}
		all[k] = &entry{unstructured.Text(m, "apiVersion"), unstructured.Text(m, "time"), decodeFields(rawjson.AsMap(m["fieldsV1"]))}
	}
	return all
}

// store writes the entries to an object, in the order of kube-apiserver.
func (m managers) store(object map[string]any) {
	meta := rawjson.AsMap(object["metadata"])
	delete(meta, "managedFields")
	keys := make([]entryKey, 0, len(m))
	for k, e := range m {
		if !e.fields.empty() {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	slices.SortStableFunc(keys, func(a, b entryKey) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(m[a].time, m[b].time), cmp.Compare(a.manager, b.manager),
			cmp.Compare(m[a].apiVersion, m[b].apiVersion), cmp.Compare(a.subresource, b.subresource))
	})
	list := make([]any, 0, len(keys))
	for _, k := range keys {
		e := m[k]
		entry := map[string]any{
			"manager": k.manager, "operation": k.operation, "apiVersion": e.apiVersion, "fieldsType": "FieldsV1", "fieldsV1": e.fields.encode(),
		}
		if e.time != "" {
			entry["time"] = e.time
		}
		if k.subresource != "" {
			entry["subresource"] = k.subresource
		}
		list = append(list, entry)
	}
	meta["managedFields"] = list
}

// maxUpdateManagers is the maximum number of entries of updates. Older ones are merged.
const maxUpdateManagers = 10

// limitUpdates merges the oldest entries of updates if there are too many.
func (m managers) limitUpdates() {
	var updates []entryKey
	for k, e := range m {
		if k.operation == "Update" && !e.fields.empty() {
			updates = append(updates, k)
		}
	}
	if len(updates) <= maxUpdateManagers {
		return
	}
	slices.SortStableFunc(updates, func(a, b entryKey) int {
		return cmp.Compare(m[a].time+"\x00"+a.manager, m[b].time+"\x00"+b.manager)
	})
	for _, k := range updates[:len(updates)-maxUpdateManagers+1] {
		old := m[k]
		delete(m, k)
		ancient := entryKey{"ancient-changes", "Update", old.apiVersion, ""}
		if e := m[ancient]; e != nil {
			e.fields = e.fields.union(old.fields)
			e.time = old.time
		} else {
			m[ancient] = old
		}
	}
}

// Update sets the manager of the fields that differ from the live object, which is nil for a new object. If the live object has no managedFields, or
// the updated one does not fit its type, the result has none. Empty managedFields reset those of the live object. In custom resources, only a list
// with an empty entry does, because an empty list is omitted there earlier.
func Update(live, updated map[string]any, o Options) {
	meta := rawjson.AsMap(updated["metadata"])
	list, _ := meta["managedFields"].([]any)
	reset := meta["managedFields"] != nil && (len(list) == 0 && o.Schema == nil || len(list) == 1 && len(rawjson.AsMap(list[0])) == 0)
	all := managersOf(updated)
	if o.Subresource != "" || len(all) == 0 && !reset {
		all = managersOf(live)
	}
	delete(meta, "managedFields")
	if live != nil && len(all) == 0 || o.rootType().typeError(updated, true) != "" {
		return
	}
	if live == nil {
		live = o.nothing()
	}
	c := compareFields(live, updated, o)
	for _, set := range []*fieldSet{c.added, c.modified, c.removed} {
		o.reset(set)
	}
	taken := c.added.union(c.modified).minus(ignoredFields())
	lost := taken.union(c.removed)
	for k, m := range all {
		if m.fields = m.fields.minus(lost); m.fields.empty() {
			delete(all, k)
		}
	}
	if !taken.empty() {
		mine := &entry{apiVersion: o.APIVersion, time: unstructured.Timestamp(o.Now), fields: taken}
		if old := all[o.key()]; old != nil {
			mine.fields = taken.union(old.fields)
		}
		all[o.key()] = mine
	}
	all.limitUpdates()
	all.store(updated)
}

// KeepTimes restores the managedFields of the live object if only their times have changed.
func KeepTimes(live, object map[string]any) {
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

// UpdateScale sets the manager that has set the replicas through the scale of an object. Their number is at a path of keys. As in kube-apiserver, a
// manager that had set it through the object itself gets a second entry without a time. The next change merges the two entries.
func UpdateScale(object map[string]any, replicas []string, o Options, changed bool) {
	path := make([]string, len(replicas))
	for i, key := range replicas {
		path[i] = "f:" + key
	}
	parents, scales := managersOf(object), make(managers)
	for k, m := range parents {
		if m.fields.has(path) {
			scales[k.ofScale()] = m
		}
	}
	if n, _ := rawjson.Lookup(object, replicas...); changed && rawjson.Equal(n, json.Number("0")) {
		scales = make(managers) // zero is omitted, so no manager has set it
	} else if changed && len(scales) > 0 {
		scales = managers{o.key().ofScale(): nil}
	}
	only := &fieldSet{}
	only.insert(path)
	all := make(managers)
	for k, m := range parents {
		if _, same := scales[k]; same || !m.fields.has(path) {
			delete(scales, k)
			all[k] = m
		} else if rest := m.fields.minus(only); !rest.empty() {
			all[k] = &entry{m.apiVersion, m.time, rest}
		}
	}
	for k := range scales {
		all[k] = &entry{apiVersion: o.APIVersion, fields: only}
	}
	all.store(object)
}

// ofScale returns the key of the same entry in the managedFields of a scale.
func (k entryKey) ofScale() entryKey {
	if k.operation == "Update" {
		k.apiVersion = "autoscaling/v1"
	}
	return k
}
