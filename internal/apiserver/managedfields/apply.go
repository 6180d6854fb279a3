package managedfields

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Apply merges a configuration into the live object, which is nil if there is none, and returns the
// result with its managedFields. Fields that the manager applied before and no longer applies are
// removed. Changes to fields of other managers are refused unless they are forced.
func Apply(live map[string]any, applied map[string]any, o Options, force bool) (map[string]any, *apierrors.StatusError) {
	merged, refused := o.merge(live, applied, force)
	if refused != nil {
		return nil, refused
	}
	notes := rawjson.AsMap(rawjson.AsMap(merged["metadata"])["annotations"])
	if text, _ := notes[lastAppliedAnnotation].(string); text != "" && o.Manager == kubectlManager {
		own := rawjson.Clone(applied).(map[string]any)
		if mine := rawjson.AsMap(rawjson.AsMap(own["metadata"])["annotations"]); mine != nil {
			if delete(mine, lastAppliedAnnotation); len(mine) == 0 {
				delete(rawjson.AsMap(own["metadata"]), "annotations")
			}
		}
		if data, err := rawjson.Encode(own); err == nil {
			notes[lastAppliedAnnotation] = string(data) + "\n"
		}
	}
	return merged, nil
}

// The manager of kubectl apply, and the annotation of client-side apply, which kube-apiserver updates with each apply of kubectl.
const (
	kubectlManager        = "kubectl"
	lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// merge is [Apply] without the annotation of kubectl.
func (o Options) merge(live, applied map[string]any, force bool) (map[string]any, *apierrors.StatusError) {
	base := map[string]any{}
	if live != nil {
		base = rawjson.Clone(live).(map[string]any)
	}
	all := managersOf(base)
	if live != nil && len(all) == 0 {
		c := compareFields(o.nothing(), live, o)
		whole := c.added.union(c.modified).minus(ignoredFields())
		o.reset(whole)
		all[entryKey{"before-first-apply", "Update", o.APIVersion, o.Subresource}] = &entry{apiVersion: o.APIVersion, time: unstructured.Timestamp(o.Now), fields: whole}
	}
	delete(rawjson.AsMap(base["metadata"]), "managedFields")
	delete(rawjson.AsMap(applied["metadata"]), "managedFields")
	t := o.rootType()
	merged, _ := mergeTyped(t, rawjson.Clone(base), any(applied), live != nil, true).(map[string]any)
	before, old := &fieldSet{}, all[o.key()]
	mine := &entry{apiVersion: o.APIVersion, fields: appliedFields(applied, t)}
	o.reset(mine.fields)
	if old != nil {
		before, mine.time = old.fields, old.time
	}
	all[o.key()] = mine
	if !before.empty() {
		merged = all.drop(t, merged, before)
	}
	c := compareFields(base, merged, o)
	for _, set := range []*fieldSet{c.added, c.modified, c.removed} {
		o.reset(set)
	}
	if refused := all.disown(c, o, base, force); refused != nil {
		return nil, refused
	}
	if mine.fields = mine.fields.minus(ignoredFields()); mine.fields.empty() {
		delete(all, o.key())
	}
	if live == nil || !rawjson.Equal(base, merged) {
		mine.time = unstructured.Timestamp(o.Now)
	}
	if o.Schema == nil || o.Schema.Builtin != nil {
		zeroNulls(t, merged)
		unstructured.DropNulls(merged)
	} else {
		unstructured.DropNulls(merged["metadata"])
	}
	if merged["metadata"] == nil {
		merged["metadata"] = map[string]any{}
	}
	all.store(merged)
	return merged, nil
}

// lastApplied returns the unchanged fields that kubectl set by client-side apply. kubectl may take ownership of them.
func (o Options) lastApplied(live map[string]any) *fieldSet {
	text, _ := rawjson.AsMap(rawjson.AsMap(live["metadata"])["annotations"])[lastAppliedAnnotation].(string)
	last, err := rawjson.DecodeObject([]byte(text))
	if err != nil || last["apiVersion"] != o.APIVersion {
		return &fieldSet{}
	}
	c := compareFields(last, live, o)
	return appliedFields(last, o.rootType()).minus(c.modified).minus(c.added).minus(c.removed)
}

// zeroNulls replaces the nulls in maps of strings by empty strings, as decoding to a Go type does.
func zeroNulls(t fieldType, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			child, known := t.field(key)
			if e == nil && !known && child.schema != nil && child.schema.Type == "string" {
				v[key] = ""
			}
			zeroNulls(child, e)
		}
	case []any:
		for _, e := range v {
			zeroNulls(t.item(), e)
		}
	}
}

// drop removes the fields that the manager applied before and no longer applies, unless other managers own them or fields below.
func (m managers) drop(t fieldType, merged map[string]any, before *fieldSet) map[string]any {
	owned := &fieldSet{}
	for _, e := range m {
		owned = owned.union(e.fields)
	}
	whole := appliedFields(merged, t).withNamed(t)
	left := rawjson.AsMap(without(t, any(merged), before.withNamed(t)))
	left = rawjson.AsMap(without(t, any(merged), whole.minus(appliedFields(left, t).withNamed(t).union(owned.withNamed(t)))))
	gone := whole.minus(appliedFields(left, t).withNamed(t)).and(before.withNamed(t))
	merged = rawjson.AsMap(without(t, any(merged), gone))
	if merged == nil {
		merged = make(map[string]any)
	}
	return merged
}

// disown removes the changed and removed fields from all other managers. Without force, it returns the conflicts instead, if there are any.
func (m managers) disown(c *comparison, o Options, live map[string]any, force bool) *apierrors.StatusError {
	changed := c.added.union(c.modified)
	conflicts := make(map[entryKey]*fieldSet)
	for k, e := range m {
		if k == o.key() {
			continue
		}
		if both := e.fields.and(changed); !both.empty() {
			conflicts[k] = both
		}
	}
	if o.Manager == kubectlManager && !force {
		upgraded := o.lastApplied(live)
		for k, set := range conflicts {
			if conflicts[k] = set.minus(upgraded); conflicts[k].empty() {
				delete(conflicts, k)
			}
		}
	}
	if len(conflicts) > 0 && !force {
		return conflictOf(conflicts, m)
	}
	for k, e := range m {
		if k == o.key() {
			continue
		}
		if e.fields = e.fields.minus(changed).minus(c.removed); e.fields.empty() {
			delete(m, k)
		}
	}
	return nil
}

// conflictOf returns the error of an apply with conflicts.
func conflictOf(conflicts map[entryKey]*fieldSet, all managers) *apierrors.StatusError {
	var causes []any
	byManager := make(map[string][]string)
	var names []string
	for k, set := range conflicts {
		name := fmt.Sprintf("%q", k.manager)
		if k.subresource != "" {
			name += fmt.Sprintf(" with subresource %q", k.subresource)
		}
		if k.operation == "Update" {
			name += " using " + all[k].apiVersion
		}
		names = append(names, name)
		set.each(nil, func(path []string) { byManager[name] = append(byManager[name], spelling(path)) })
	}
	slices.Sort(names)
	var texts []string
	for _, name := range names {
		fields := byManager[name]
		for _, f := range fields {
			causes = append(causes, apierrors.Cause("FieldManagerConflict", "conflict with "+name, f))
		}
		texts = append(texts, "conflicts with "+name+":\n- "+strings.Join(fields, "\n- "))
	}
	noun, list := "conflicts", strings.Join(texts, "\n")
	if len(causes) == 1 {
		noun, list = "conflict", "conflict with "+names[0]+": "+byManager[names[0]][0]
	}
	return apierrors.New(409, "Conflict", fmt.Sprintf("Apply failed with %d %s: %s", len(causes), noun, list), map[string]any{"causes": causes})
}

// mergeTyped merges a configuration into a live value: maps by their keys, and lists by the keys of their items, if these have any. It replaces all
// other values. Empty maps and lists stay only if nothing is merged into them.
func mergeTyped(t fieldType, live, applied any, isLive, isApplied bool) any {
	a, wasMap := live.(map[string]any)
	b, isMap := applied.(map[string]any)
	la, wasList := live.([]any)
	lb, isList := applied.([]any)
	switch {
	case t.atomic():
	case (isMap || !isApplied || applied == nil) && (wasMap || !isLive || live == nil) && len(a)+len(b) > 0:
		merged := make(map[string]any, len(a)+len(b))
		for _, key := range rawjson.UnionKeys(a, b) {
			child, _ := t.field(key)
			x, inA := a[key]
			y, inB := b[key]
			merged[key] = mergeTyped(child, x, y, inA, inB)
		}
		return merged
	case t.associative() && (isList || !isApplied || applied == nil) && (wasList || !isLive || live == nil) && len(la)+len(lb) > 0:
		if merged, ok := mergeAssociative(t, la, lb); ok {
			return merged
		}
	}
	if isApplied {
		return rawjson.Clone(applied)
	}
	return live
}

// mergeAssociative merges lists whose items have keys. It reports whether all items have them. An applied item replaces all live items with the same keys.
func mergeAssociative(t fieldType, live, applied []any) ([]any, bool) {
	orderA, itemsA, fineA := t.steps(live)
	orderB, itemsB, fineB := t.steps(applied)
	if !fineA || !fineB {
		return nil, false
	}
	merged := make([]any, 0, len(itemsA)+len(itemsB))
	for _, step := range interleaved(orderA, orderB) {
		var x, y any
		a, b := itemsA[step], itemsB[step]
		if len(b) > 0 {
			y = b[0]
		}
		if len(a) > 0 && (len(a) == 1 || len(b) == 0) {
			x = a[0]
		}
		if len(a) > 1 {
			itemsA[step] = a[1:]
		}
		merged = append(merged, mergeTyped(t.item(), x, y, len(a) > 0, len(b) > 0))
	}
	return merged, true
}

// interleaved returns the steps of both lists, those of applied items once, in the order of kube-apiserver. The applied items keep their order. The
// other live items stay about where they were, between the items that are in both lists.
func interleaved(live, applied []string) []string {
	inLive, inApplied, done := make(map[string]bool, len(live)), make(map[string]bool, len(applied)), make(map[string]bool, len(applied))
	for _, step := range live {
		inLive[step] = true
	}
	var shared []string
	for _, step := range applied {
		if inApplied[step] = true; inLive[step] {
			shared = append(shared, step)
		}
	}
	all := make([]string, 0, len(live)+len(applied))
	for len(live) > 0 || len(applied) > 0 {
		if len(live) > 0 {
			next := live[0]
			turn := len(applied) > 0 && applied[0] == next
			switch {
			case !inApplied[next]:
				all, live = append(all, next), live[1:]
				continue
			case turn:
				live = live[1:]
			case done[next], len(applied) > 0 && len(shared) > 0 && next != shared[0]: // it is there already, or follows as an applied one
				live = live[1:]
				continue
			}
		}
		step := applied[0]
		all, done[step], applied = append(all, step), true, applied[1:]
		if len(shared) > 0 && shared[0] == step {
			shared = shared[1:]
		}
	}
	return all
}

// without returns a value without the fields of a set, nil if nothing remains.
func without(t fieldType, v any, gone *fieldSet) any {
	switch v := v.(type) {
	case map[string]any:
		if t.atomic() || len(v) == 0 {
			return nil
		}
		left := make(map[string]any, len(v))
		for key, e := range v {
			step := "f:" + key
			if gone.members[step] {
				continue
			}
			if below := gone.children[step]; !below.empty() {
				child, _ := t.field(key)
				e = without(child, e, below)
			}
			left[key] = e
		}
		if len(left) == 0 {
			return nil
		}
		return left
	case []any:
		if !t.associative() || len(v) == 0 {
			return nil
		}
		var left []any
		for _, e := range v {
			step, _ := t.step(e)
			if gone.members[step] {
				continue
			}
			if below := gone.children[step]; !below.empty() {
				e = without(t.item(), e, below)
			}
			left = append(left, e)
		}
		if len(left) == 0 {
			return nil
		}
		return left
	}
	return v
}
