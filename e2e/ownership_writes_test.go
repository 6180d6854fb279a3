package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// The foreign writes of TestOwnership.

// foreignWrite is a request by another client.
type foreignWrite struct {
	what        string
	method      string
	subresource string
	manager     string
	force       bool
	contentType string
	body        any
}

func (w *foreignWrite) path(object string) string {
	path := object + w.subresource + "?fieldManager=" + w.manager
	if w.force {
		path += "&force=true"
	}
	return path
}

// String describes the write without the managed fields of the whole object, whose times and order differ between servers.
func (w *foreignWrite) String() string {
	body := w.body
	if w.method == "PUT" {
		body = rawjson.Clone(body)
		delete(body.(map[string]any)["metadata"].(map[string]any), "managedFields")
	}
	return fmt.Sprintf("%s: %s %s", w.what, w.path(""), encode(body))
}

// foreignWriter creates random writes to an object.
type foreignWriter struct {
	*rand.Rand
	kind    *childKind
	applied map[string]any // the applied configuration
	live    map[string]any
}

// next returns a random write, nil if there is none for this object.
func (w *foreignWriter) next() *foreignWrite {
	switch n := w.IntN(40); {
	case n == 0:
		return w.reset()
	case n == 1:
		return w.patch("remove managed fields", map[string]any{"metadata": map[string]any{"managedFields": nil}})
	case n == 2:
		return w.put("put the same", rawjson.Clone(w.live).(map[string]any))
	case n == 3:
		return w.reorder()
	case n == 4:
		return w.duplicate()
	case n == 5:
		return w.status()
	case n == 6 && w.kind.scalable:
		scale := w.patch("scale", map[string]any{"spec": map[string]any{"replicas": 1 + w.IntN(3)}})
		scale.subresource = "/scale"
		return scale
	case n == 7:
		return w.applyInOurName()
	case n < 12:
		return w.metadata()
	}
	return w.change()
}

// patch returns a merge patch.
func (w *foreignWriter) patch(what string, body any) *foreignWrite {
	return &foreignWrite{what: what, method: "PATCH", manager: w.manager(), contentType: asMerge, body: body}
}

// manager returns another manager in most cases. Updates by the operator's own manager are foreign, too.
func (w *foreignWriter) manager() string { return []string{"other", "else", childManager}[w.IntN(3)] }

func (w *foreignWriter) put(what string, object map[string]any) *foreignWrite {
	if w.IntN(2) > 0 {
		delete(object["metadata"].(map[string]any), "managedFields")
	}
	return &foreignWrite{what: what, method: "PUT", manager: "other", contentType: asJSON, body: object}
}

// reset removes the managed fields, in one of the two ways.
func (w *foreignWriter) reset() *foreignWrite {
	if w.IntN(2) > 0 {
		return w.patch("reset managed fields", map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
	}
	object := rawjson.Clone(w.live).(map[string]any)
	object["metadata"].(map[string]any)["managedFields"] = []any{}
	return &foreignWrite{what: "reset managed fields", method: "PUT", manager: "other", contentType: asJSON, body: object}
}

func (w *foreignWriter) status() *foreignWrite {
	body := map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": strconv.Itoa(w.IntN(3))}}, "status": map[string]any{"observedGeneration": w.IntN(9)}}
	if w.IntN(2) > 0 {
		body["spec"] = w.live["spec"]
	}
	write := w.patch("status", body)
	if w.kind.status {
		write.subresource = "/status"
	}
	return write
}

// applyInOurName applies another configuration, or an extended one, with the operator's manager.
func (w *foreignWriter) applyInOurName() *foreignWrite {
	what, object := "apply something else in our name", w.kind.object(childName, nil)
	if w.IntN(2) > 0 {
		what, object = "apply more in our name", rawjson.Clone(w.applied).(map[string]any)
	}
	object["metadata"].(map[string]any)["labels"] = map[string]any{"more": strconv.Itoa(w.IntN(3))}
	return &foreignWrite{what: what, method: "PATCH", manager: childManager, force: true, contentType: asApply, body: object}
}

// metadata changes or removes labels, annotations or owner references.
func (w *foreignWriter) metadata() *foreignWrite {
	text := []any{nil, "1", "2", "other"}[w.IntN(4)]
	changed := map[string]any{}
	switch w.IntN(5) {
	case 0:
		changed["labels"] = map[string]any{"l": text}
	case 1:
		changed["labels"] = map[string]any{"foreign": text}
	case 2:
		changed["annotations"] = map[string]any{childAnnotation: text}
	case 3:
		changed["annotations"] = nil
	case 4:
		changed["ownerReferences"] = nil
	}
	return w.patch("merge metadata", map[string]any{"metadata": changed})
}

// change changes one place of the object, in one of several kinds of requests.
func (w *foreignWriter) change() *foreignWrite {
	changed := rawjson.Clone(w.live).(map[string]any)
	delete(changed["metadata"].(map[string]any), "managedFields")
	path, ok := w.mutate(changed)
	if !ok {
		return nil
	}
	switch w.IntN(6) {
	case 0, 1:
		return w.put("put", changed)
	case 2:
		return w.patch("merge", partOf(changed, path, true))
	case 3:
		write := w.patch("merge", partOf(changed, path, true))
		if w.kind.builtin {
			write.what, write.contentType = "strategic merge", asStrategic
		}
		return write
	case 4:
		return w.jsonPatch(changed, path)
	}
	body := partOf(changed, path, false)
	maps.Copy(body, w.kind.object(childName, nil))
	return &foreignWrite{what: "apply", method: "PATCH", manager: []string{"rival", "rival", "another"}[w.IntN(3)], force: w.IntN(3) > 0, contentType: asApply, body: body}
}

func (w *foreignWriter) jsonPatch(changed map[string]any, path []any) *foreignWrite {
	pointer := ""
	for _, step := range path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(step))
	}
	operation := map[string]any{"op": "remove", "path": pointer}
	if value, has := at(changed, path); has {
		operation["op"], operation["value"] = "replace", value
		if _, had := at(w.live, path); !had {
			operation["op"] = "add"
		}
	}
	return &foreignWrite{what: "json patch", method: "PATCH", manager: w.manager(), contentType: asJSONPatch, body: []any{operation}}
}

// at returns the value at a path of keys and indices.
func at(value any, path []any) (any, bool) {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			key, _ := step.(string)
			child, ok := v[key]
			if !ok {
				return nil, false
			}
			value = child
		case []any:
			i, _ := step.(int)
			if i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// partOf returns the part of an object that is at a path, or the nearest list on the path. A missing member becomes a null, or is omitted.
func partOf(object map[string]any, path []any, nulls bool) map[string]any {
	key := path[0].(string)
	value, has := object[key]
	switch below, ok := value.(map[string]any); {
	case !has && nulls:
		return map[string]any{key: nil}
	case !has:
		return map[string]any{}
	case ok && len(path) > 1:
		return map[string]any{key: partOf(below, path[1:], nulls)}
	}
	return map[string]any{key: value}
}

// pathsBelow returns the paths to all values below a value.
func pathsBelow(value any, here []any) (all [][]any) {
	add := func(step, child any) {
		path := append(slices.Clip(here), step)
		all = append(append(all, path), pathsBelow(child, path)...)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range rawjson.SortedKeys(v) {
			add(key, v[key])
		}
	case []any:
		for i, item := range v {
			add(i, item)
		}
	}
	return all
}

// content returns the object without the parts that these writes do not change.
func content(object map[string]any) map[string]any {
	object = maps.Clone(object)
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(object, key)
	}
	return object
}

// mutate changes, adds or removes a value, and returns its path.
func (w *foreignWriter) mutate(object map[string]any) (path []any, ok bool) {
	all := pathsBelow(content(object), nil)
	if len(all) == 0 {
		return nil, false
	}
	path = all[w.IntN(len(all))]
	value, _ := at(object, path)
	if w.kind.schema != nil && w.IntN(3) == 0 {
		if s := schemaAt(w.kind.schema, path); s != nil {
			return path, put(object, path, (&valueMaker{w.Rand}).value(s))
		}
	}
	if w.IntN(5) == 0 {
		return removed(object, path)
	}
	switch v := value.(type) {
	case bool:
		return path, put(object, path, !v)
	case string:
		return path, put(object, path, []string{v, v + "x", "2", ""}[w.IntN(4)])
	case []any:
		if len(v) == 0 {
			return nil, false
		}
		return path, put(object, path, append(slices.Clone(v), w.otherThan(v[w.IntN(len(v))])))
	case map[string]any:
		path = append(path, []string{"new", "a", "b", "x.y/z"}[w.IntN(4)])
		return path, put(object, path, w.similar(v))
	case nil:
		return nil, false
	}
	return path, put(object, path, w.IntN(100))
}

// similar returns a value like one in a map.
func (w *foreignWriter) similar(v map[string]any) any {
	for _, key := range rawjson.SortedKeys(v) {
		return w.otherThan(v[key])
	}
	return "new"
}

// otherThan returns a copy with another value in it.
func (w *foreignWriter) otherThan(value any) any {
	switch v := rawjson.Clone(value).(type) {
	case string:
		return v + "y"
	case map[string]any:
		for _, key := range []string{"name", "containerPort", "port", "key"} {
			if old, ok := v[key]; ok {
				v[key] = w.otherThan(old)
				return v
			}
		}
		return v
	case bool:
		return !v
	case nil, []any:
		return v
	}
	return w.IntN(50)
}

// put sets the value at a path.
func put(object any, path []any, value any) bool {
	parent, _ := at(object, path[:len(path)-1])
	switch p := parent.(type) {
	case map[string]any:
		p[path[len(path)-1].(string)] = value
	case []any:
		p[path[len(path)-1].(int)] = value
	}
	return true
}

// removed removes the value at a path, and returns the path of the change: the list if it was an item.
func removed(object any, path []any) ([]any, bool) {
	parent, _ := at(object, path[:len(path)-1])
	switch p := parent.(type) {
	case map[string]any:
		delete(p, path[len(path)-1].(string))
	case []any:
		list, i := path[:len(path)-1], path[len(path)-1].(int)
		return list, put(object, list, slices.Delete(slices.Clone(p), i, i+1))
	}
	return path, true
}

// schemaAt returns the schema of a value, nil if it has none.
func schemaAt(s map[string]any, path []any) map[string]any {
	for _, step := range path {
		next, _ := s["items"].(map[string]any)
		if key, ok := step.(string); ok {
			properties, _ := s["properties"].(map[string]any)
			if next, ok = properties[key].(map[string]any); !ok {
				next, _ = s["additionalProperties"].(map[string]any)
			}
		}
		if s = next; s == nil {
			return nil
		}
	}
	return s
}

// anyList returns the path of a list with a minimum number of items, nil if there is none.
func (w *foreignWriter) anyList(object map[string]any, items int) []any {
	var all [][]any
	for _, path := range pathsBelow(content(object), nil) {
		value, _ := at(object, path)
		if list, ok := value.([]any); ok && len(list) >= items {
			all = append(all, path)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.IntN(len(all))]
}

// reorder changes the order of a list.
func (w *foreignWriter) reorder() *foreignWrite {
	object := rawjson.Clone(w.live).(map[string]any)
	path := w.anyList(object, 2)
	if path == nil {
		return nil
	}
	list, _ := at(object, path)
	slices.Reverse(list.([]any))
	return w.put("reorder", object)
}

// duplicate adds an existing item to a list again.
func (w *foreignWriter) duplicate() *foreignWrite {
	object := rawjson.Clone(w.live).(map[string]any)
	path := w.anyList(object, 1)
	if path == nil {
		return nil
	}
	list, _ := at(object, path)
	put(object, path, append(list.([]any), rawjson.Clone(list.([]any)[0])))
	return w.put("duplicate", object)
}
