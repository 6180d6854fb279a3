package kopf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// This file is server-side apply in the in-memory API server: a configuration is merged into the live object, fields
// that were applied before and are no longer are removed, and fields of others are refused unless forced.

// applyOptions says who applies, and whether by force.
type applyOptions struct {
	managedOptions
	force bool
}

// serverSideApply merges a configuration into the live object, which is nil if there is none. The result has its
// managedFields.
func serverSideApply(live map[string]any, applied map[string]any, o applyOptions) (map[string]any, *statusError) {
	base := map[string]any{}
	if live != nil {
		base = cloneJSON(live).(map[string]any)
	}
	all := managersOf(base)
	if live != nil && len(all) == 0 {
		whole := compareFields(nil, live, o.schema).added.minus(ignoredFields)
		all[managerKey{"before-first-apply", "Update", o.apiVersion, ""}] = &managed{apiVersion: o.apiVersion, fields: whole}
	}
	for _, object := range []map[string]any{base, applied} {
		if meta := asMap(object["metadata"]); meta != nil {
			delete(meta, "managedFields")
		}
	}
	merged, _ := mergeTyped(rootType(o.schema), any(cloneJSON(base)), any(applied)).(map[string]any)
	mine := appliedFields(applied, o.schema).minus(ignoredFields)
	o.reset(mine)
	before := &fieldSet{}
	if old := all[o.key()]; old != nil {
		before = old.fields
	}
	all[o.key()] = &managed{apiVersion: o.apiVersion, time: timestamp(o.now), fields: mine}
	dropUnowned(merged, before.minus(mine), all, o)
	c := compareFields(base, merged, o.schema)
	for _, set := range []*fieldSet{c.added, c.modified, c.removed} {
		o.reset(set)
	}
	if refused := all.disown(c, o); refused != nil {
		return nil, refused
	}
	if live != nil && equalJSON(base, merged) && before.equal(mine) {
		return cloneJSON(live).(map[string]any), nil
	}
	if merged["metadata"] == nil {
		merged["metadata"] = map[string]any{}
	}
	all.store(merged)
	return merged, nil
}

// disown takes from all other managers what was changed and what is gone, or tells of the conflicts.
func (all managers) disown(c *comparison, o applyOptions) *statusError {
	changed := c.added.union(c.modified)
	conflicts := make(map[managerKey]*fieldSet)
	for k, m := range all {
		if k == o.key() {
			continue
		}
		if both := m.fields.and(changed); !both.empty() {
			conflicts[k] = both
		}
	}
	if len(conflicts) > 0 && !o.force {
		return conflictOf(conflicts, all)
	}
	for k, m := range all {
		if k == o.key() {
			continue
		}
		if m.fields = m.fields.minus(changed).minus(c.removed); m.fields.empty() {
			delete(all, k)
		}
	}
	return nil
}

// conflictOf words the refusal of an apply.
func conflictOf(conflicts map[managerKey]*fieldSet, all managers) *statusError {
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
			causes = append(causes, map[string]any{"reason": "FieldManagerConflict", "message": "conflict with " + name, "field": f})
		}
		texts = append(texts, "conflicts with "+name+":\n- "+strings.Join(fields, "\n- "))
	}
	noun := "conflicts"
	if len(causes) == 1 {
		noun = "conflict"
		texts = []string{"conflict with " + names[0] + ": " + byManager[names[0]][0]}
	}
	return &statusError{409, "Conflict", fmt.Sprintf("Apply failed with %d %s: %s", len(causes), noun, strings.Join(texts, "\n")), map[string]any{"causes": causes}}
}

// mergeTyped merges a configuration into a live value: maps key by key, lists by the keys of their items where they have such, all
// else is replaced.
func mergeTyped(t *fieldType, live, applied any) any {
	switch b := applied.(type) {
	case map[string]any:
		a, ok := live.(map[string]any)
		if !ok || t.atomic {
			return cloneJSON(b)
		}
		for key, v := range b {
			child, _ := t.field(key)
			if old, is := a[key]; is {
				a[key] = mergeTyped(child, old, v)
			} else {
				a[key] = cloneJSON(v)
			}
		}
		return a
	case []any:
		a, ok := live.([]any)
		if !ok || !t.associative() {
			return cloneJSON(b)
		}
		orderA, itemsA, fineA := t.steps(a)
		orderB, itemsB, fineB := t.steps(b)
		if !fineA || !fineB {
			return cloneJSON(b)
		}
		merged := []any{}
		for _, step := range interleaved(orderA, orderB) {
			old, was := itemsA[step]
			switch v, is := itemsB[step]; {
			case !is:
				merged = append(merged, old)
			case was && !t.set:
				merged = append(merged, mergeTyped(t.item(), old, v))
			default:
				merged = append(merged, cloneJSON(v))
			}
		}
		return merged
	}
	return applied
}

// interleaved returns the steps of both lists, each once, as kube-apiserver orders the merged items: those applied in their order,
// and the live ones that are not applied about where they were, between those that are in both.
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
	take := func(step string) {
		all, done[step], applied = append(all, step), true, applied[1:]
		if len(shared) > 0 && shared[0] == step {
			shared = shared[1:]
		}
	}
	for len(live) > 0 || len(applied) > 0 {
		switch {
		case len(live) == 0:
			take(applied[0])
		case !inApplied[live[0]]:
			all, live = append(all, live[0]), live[1:]
		case len(applied) > 0 && live[0] == applied[0]:
			live = live[1:]
			take(applied[0])
		case done[live[0]], len(applied) > 0 && len(shared) > 0 && live[0] != shared[0]: // its turn was, or comes with the applied ones
			live = live[1:]
		case len(applied) > 0:
			take(applied[0])
		}
	}
	return all
}

// dropUnowned removes from an object the fields of a set of which no manager owns anything any more, be it only something below
// them: what the applying manager had may include a list as a whole, and what it has now only the items.
func dropUnowned(object map[string]any, gone *fieldSet, all managers, o applyOptions) {
	var paths [][]string
	gone.each(nil, func(path []string) {
		for _, m := range all {
			if ownsAt(m.fields, path) {
				return
			}
		}
		paths = append(paths, slices.Clone(path))
	})
	isItem := func(path []string) int {
		if strings.HasPrefix(path[len(path)-1], "f:") {
			return 0
		}
		return 1
	}
	slices.SortFunc(paths, func(a, b []string) int { // items first, as long as they still have their keys
		return cmp.Or(isItem(b)-isItem(a), len(b)-len(a))
	})
	for _, path := range paths {
		dropPath(rootType(o.schema), any(object), path)
	}
}

// ownsAt tells whether a set has a path, or anything below it.
func ownsAt(s *fieldSet, path []string) bool {
	if s.has(path) {
		return true
	}
	for _, step := range path {
		if s = s.children[step]; s == nil {
			return false
		}
	}
	return !s.empty()
}

// dropPath removes one field, and returns what is left of the value around it.
func dropPath(t *fieldType, v any, path []string) any {
	step, last := path[0], len(path) == 1
	switch v := v.(type) {
	case map[string]any:
		key := strings.TrimPrefix(step, "f:")
		old, ok := v[key]
		if !ok {
			return v
		}
		if last {
			if child, known := t.field(key); !known || isLeaf(old) || child.atomic || len(asMap(old)) == 0 {
				delete(v, key)
			}
			return v
		}
		child, _ := t.field(key)
		rest := dropPath(child, old, path[1:])
		v[key] = rest
		if m, is := rest.(map[string]any); is && len(m) == 0 {
			delete(v, key)
		} else if l, is := rest.([]any); is && len(l) == 0 {
			delete(v, key)
		}
		return v
	case []any:
		for i, item := range v {
			if s, ok := t.step(item); !ok || s != step {
				continue
			}
			if last {
				return slices.Delete(v, i, i+1)
			}
			v[i] = dropPath(t.item(), item, path[1:])
			return v
		}
	}
	return v
}

func isLeaf(v any) bool {
	_, m := v.(map[string]any)
	return !m
}
