// Package jsonpatch computes JSON patches (RFC 6902) and merge patches (RFC 7396) of decoded values. It does not apply or send them.
package jsonpatch

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`             // add, remove, replace, move, copy, or test
	Path  string `json:"path"`           // a JSON pointer (RFC 6901)
	From  string `json:"from,omitempty"` // of move and copy, a JSON pointer
	Value any    `json:"value"`          // of add, replace and test
}

// MarshalJSON writes the value only for operations that have one, even if it is null.
func (o Operation) MarshalJSON() ([]byte, error) { return json.Marshal(o.members()) }

func (o Operation) members() map[string]any {
	m := map[string]any{"op": o.Op, "path": o.Path}
	switch o.Op {
	case "add", "replace", "test":
		m["value"] = o.Value
	case "move", "copy":
		m["from"] = o.From
	}
	return m
}

// Values returns the operations as decoded JSON, which encodes faster.
func Values(ops []Operation) []any {
	all := make([]any, len(ops))
	for i, o := range ops {
		all[i] = o.members()
	}
	return all
}

// Pointer returns the JSON pointer (RFC 6901) of a path of keys.
func Pointer(keys ...string) string {
	var b strings.Builder
	for _, key := range keys {
		b.WriteByte('/')
		if strings.ContainsAny(key, "~/") {
			key = strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		}
		b.WriteString(key)
	}
	return b.String()
}

// AppendMerge appends the operations with the effect of an effective merge patch, without an [rawjson.Exact], also if other clients change the object meanwhile. It replaces lists as a
// whole. It adds a map only if there is none, because it would replace the map of another client.
func AppendMerge(ops []Operation, at string, object, patch map[string]any) []Operation {
	for _, key := range rawjson.UnionKeys(patch, nil) {
		path := at + Pointer(key)
		old, was := object[key]
		sub, isMap := patch[key].(map[string]any)
		oldMap, wasMap := old.(map[string]any)
		switch {
		case patch[key] == nil && was:
			ops = append(ops, Operation{Op: "remove", Path: path})
		case patch[key] == nil, !isMap && was && rawjson.Equal(old, patch[key]):
		case isMap && wasMap:
			ops = AppendMerge(ops, path, oldMap, sub)
		case isMap:
			ops = append(ops, Operation{Op: "test", Path: path, Value: old},
				Operation{Op: "add", Path: path, Value: rawjson.Merge(nil, any(sub))})
		case was:
			ops = append(ops, Operation{Op: "replace", Path: path, Value: patch[key]})
		default:
			ops = append(ops, Operation{Op: "add", Path: path, Value: patch[key]})
		}
	}
	return ops
}

// Guard adds a test before each operation: the value at its path must be unchanged. The operations must come from DiffWholeLists.
func Guard(before any, ops []Operation) (all []Operation) {
	for _, op := range ops {
		old, _ := rawjson.Lookup(before, keysOf(op.Path)...)
		all = append(all, Operation{Op: "test", Path: op.Path, Value: old}, op)
	}
	return all
}

// keysOf splits a JSON pointer into keys.
func keysOf(pointer string) []string {
	keys := strings.Split(pointer, "/")[1:]
	for i, key := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
	}
	return keys
}

// Diff returns the operations that turn one decoded value into another, ordered by path. They contain list indices, so they apply to that exact value only.
func Diff(before, after any) []Operation { return appendOps(nil, "", before, after, false) }

// DiffWholeLists is Diff with lists replaced as a whole.
func DiffWholeLists(before, after any) []Operation {
	return appendOps(nil, "", before, after, true)
}

func appendOps(ops []Operation, at string, before, after any, whole bool) []Operation {
	if a, b := rawjson.AsMap(before), rawjson.AsMap(after); a != nil && b != nil {
		for _, key := range rawjson.UnionKeys(a, b) {
			path := at + Pointer(key)
			old, was := a[key]
			now, is := b[key]
			switch {
			case !is:
				ops = append(ops, Operation{Op: "remove", Path: path})
			case !was:
				ops = append(ops, Operation{Op: "add", Path: path, Value: now})
			default:
				ops = appendOps(ops, path, old, now, whole)
			}
		}
		return ops
	}
	if a, ok := before.([]any); ok && !whole {
		if b, ok := after.([]any); ok {
			return appendListOps(ops, at, a, b)
		}
	}
	if rawjson.Equal(before, after) {
		return ops
	}
	return append(ops, Operation{Op: "replace", Path: at, Value: after})
}

// appendListOps compares lists without their common beginning and end.
func appendListOps(ops []Operation, at string, a, b []any) []Operation {
	start := 0
	for start < len(a) && start < len(b) && rawjson.Equal(a[start], b[start]) {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && rawjson.Equal(a[len(a)-1-end], b[len(b)-1-end]) {
		end++
	}
	a, b = a[start:len(a)-end], b[start:len(b)-end]
	both := min(len(a), len(b))
	for i := range both {
		ops = appendOps(ops, at+"/"+strconv.Itoa(start+i), a[i], b[i], false)
	}
	for i := len(a) - 1; i >= both; i-- {
		ops = append(ops, Operation{Op: "remove", Path: at + "/" + strconv.Itoa(start+i)})
	}
	for i := both; i < len(b); i++ {
		ops = append(ops, Operation{Op: "add", Path: at + "/" + strconv.Itoa(start+i), Value: b[i]})
	}
	return ops
}
