// Package patch applies JSON patches, JSON merge patches and strategic merge patches to decoded objects, as
// kube-apiserver does.
package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// maxPatchOperations is the maximum number of operations in a JSON patch, as in kube-apiserver.
const maxPatchOperations = 10000

// operation is one step of a JSON patch.
type operation struct {
	op, path, from   string
	hasPath, hasFrom bool
	unescaped        bool // whether the operation has characters of HTML without escapes
	value            any  // nil for null and for a missing value
}

// ApplyJSON applies a JSON patch (RFC 6902) to a decoded document, and returns the result. It changes the document in place. Do not use the document
// after an error. As in kube-apiserver, replacing a missing key adds it, a missing key equals null, and negative indices count from the end. Errors
// are an [apierrors.StatusError].
func ApplyJSON(doc any, ops []byte) (any, error) {
	list, err := decodeOperations(ops)
	if err != nil {
		return nil, err
	}
	copied := 0
	for _, o := range list {
		if o.op == "copy" {
			if copied += o.size(doc); copied > maxCopied {
				return nil, apierrors.PatchRejected()
			}
		}
		after, ok := o.apply(doc)
		if !ok {
			return nil, apierrors.PatchRejected()
		}
		doc = after
	}
	return doc, nil
}

// decodeOperations decodes a JSON patch.
func decodeOperations(ops []byte) ([]operation, error) {
	v, err := rawjson.Decode(ops)
	if err != nil {
		return nil, apierrors.BadRequest("error decoding patch: %v", err)
	}
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, apierrors.BadRequest("error decoding patch: json: cannot unmarshal %s into Go value of type []handlers.jsonPatchOp", goName(v))
	}
	all := make([]operation, 0, len(list))
	texts := make([][]byte, 0, len(list))
	_ = rawjson.EachItem(ops, func(text []byte) bool { // it has been decoded
		texts = append(texts, text)
		return true
	})
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok && e != nil {
			return nil, apierrors.BadRequest("error decoding patch: json: cannot unmarshal %s into Go value of type handlers.jsonPatchOp", goName(e))
		}
		o := operation{value: m["value"]}
		for _, f := range [...]struct {
			key  string
			into *string
		}{{"op", &o.op}, {"path", &o.path}, {"from", &o.from}} {
			switch text := m[f.key].(type) {
			case nil:
			case string:
				*f.into = text
			default:
				return nil, apierrors.BadRequest("error decoding patch: json: cannot unmarshal %s into Go struct field jsonPatchOp.%s of type string", goName(text), f.key)
			}
		}
		o.hasPath, o.hasFrom = m["path"] != nil, m["from"] != nil
		o.unescaped = bytes.ContainsAny(texts[i], "<>&\u2028\u2029")
		all = append(all, o)
	}
	if len(all) > maxPatchOperations {
		return nil, apierrors.New(413, "RequestEntityTooLarge",
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(all)), nil)
	}
	return all, nil
}

// goName returns the name of a value's type in the errors of encoding/json.
func goName(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// maxCopied is the total number of bytes that the operations of a patch may copy, as in kube-apiserver.
const maxCopied = 3 << 20

// size returns the size of a copy in JSON, in bytes.
func (o operation) size(doc any) int {
	v, _ := valueAt(doc, o.steps(o.from, o.hasFrom))
	data, _ := rawjson.Encode(v) // it was JSON
	return len(data)
}

// apply returns the document after the operation, and reports whether the operation was possible.
func (o operation) apply(doc any) (any, bool) {
	switch o.op {
	case "add":
		return o.add(doc, o.value)
	case "remove":
		return changeAt(doc, o.steps(o.path, o.hasPath), func(at any, key string) (any, bool) {
			_, after, ok := takeOut(at, key)
			return after, ok
		})
	case "replace":
		return o.replace(doc)
	case "test":
		return doc, o.test(doc)
	case "copy":
		v, ok := valueAt(doc, o.steps(o.from, o.hasFrom))
		if !ok {
			return nil, false
		}
		return o.add(doc, rawjson.Clone(v))
	case "move":
		var taken any
		doc, ok := changeAt(doc, o.steps(o.from, o.hasFrom), func(at any, key string) (after any, ok bool) {
			taken, after, ok = takeOut(at, key)
			return after, ok
		})
		if !ok {
			return nil, false
		}
		return o.add(doc, taken)
	}
	return nil, false
}

// steps splits a JSON pointer. It ignores the text before the first slash, and returns nil without
// a slash.
func (o operation) steps(pointer string, there bool) []string {
	steps := strings.Split(pointer, "/")
	if !there || len(steps) < 2 {
		return nil
	}
	steps = steps[1:]
	for i, s := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return steps
}

func (o operation) add(doc, value any) (any, bool) {
	return changeAt(doc, o.steps(o.path, o.hasPath), func(at any, key string) (any, bool) {
		switch at := at.(type) {
		case map[string]any:
			at[key] = value
			return at, true
		case []any:
			if key == "-" {
				return append(at, value), true
			}
			i, ok := listIndex(key, len(at)+1)
			if !ok {
				return nil, false
			}
			return slices.Insert(at, i, value), true
		}
		return nil, false
	})
}

func (o operation) replace(doc any) (any, bool) {
	if o.hasPath && o.path == "" {
		_, isMap := o.value.(map[string]any)
		_, isList := o.value.([]any)
		return o.value, isMap || isList
	}
	return changeAt(doc, o.steps(o.path, o.hasPath), func(at any, key string) (any, bool) {
		switch at := at.(type) {
		case map[string]any:
			at[key] = o.value
			return at, true
		case []any:
			i, ok := listIndex(key, len(at))
			if ok {
				at[i] = o.value
			}
			return at, ok
		}
		return nil, false
	})
}

// test compares values as kube-apiserver does: by the text of its own encoder, which escapes characters of HTML.
func (o operation) test(doc any) bool {
	v, ok := doc, true
	if !o.hasPath || o.path != "" {
		v, ok = valueAt(doc, o.steps(o.path, o.hasPath))
	}
	return ok && sameText(v, o.value) && !(o.unescaped && hasHTML(v))
}

// hasHTML reports whether a text in a value has characters of HTML.
func hasHTML(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.ContainsAny(v, "<>&\u2028\u2029")
	case []any:
		return slices.ContainsFunc(v, hasHTML)
	case map[string]any:
		for _, item := range v {
			if hasHTML(item) {
				return true
			}
		}
	}
	return false
}

// sameText reports whether decoded values are equal. It compares numbers as text: 1 is not 1.0.
func sameText(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			if other, ok := b[key]; !ok || !sameText(v, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameText)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// changeAt changes the object or the list that contains the last step, and returns the whole
// document.
func changeAt(doc any, steps []string, change func(at any, key string) (any, bool)) (any, bool) {
	switch {
	case len(steps) == 0:
		return nil, false
	case len(steps) == 1:
		return change(doc, steps[0])
	}
	switch d := doc.(type) {
	case map[string]any:
		after, ok := changeAt(d[steps[0]], steps[1:], change)
		if ok {
			d[steps[0]] = after
		}
		return d, ok
	case []any:
		i, ok := listIndex(steps[0], len(d))
		if !ok {
			return nil, false
		}
		after, ok := changeAt(d[i], steps[1:], change)
		if ok {
			d[i] = after
		}
		return d, ok
	}
	return nil, false
}

// valueAt returns the value at a path. It is nil if only the last key is missing.
func valueAt(doc any, steps []string) (any, bool) {
	for i, step := range steps {
		switch d := doc.(type) {
		case map[string]any:
			doc = d[step]
		case []any:
			at, ok := listIndex(step, len(d))
			if !ok {
				return nil, false
			}
			doc = d[at]
		default:
			return nil, false
		}
		if doc == nil && i < len(steps)-1 {
			return nil, false
		}
	}
	return doc, len(steps) > 0
}

// takeOut removes a value from an object or a list, and returns both.
func takeOut(at any, key string) (taken, after any, ok bool) {
	switch at := at.(type) {
	case map[string]any:
		taken, ok = at[key]
		delete(at, key)
		return taken, at, ok
	case []any:
		i, ok := listIndex(key, len(at))
		if !ok {
			return nil, nil, false
		}
		taken = at[i]
		return taken, slices.Delete(at, i, i+1), true
	}
	return nil, nil, false
}

// listIndex parses an index into a list of n items.
func listIndex(key string, n int) (int, bool) {
	i, err := strconv.Atoi(key)
	if i < 0 {
		i += n
	}
	return i, err == nil && i >= 0 && i < n
}
