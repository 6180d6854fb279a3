package kopf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file knows the changes that are going to be made to an object: as a merge
// patch (RFC 7396), as functions that transform the object, and as a JSON patch (RFC 6902).
// It computes and never sends.

// Patch is what a handler wants to be changed in its object. It is sent after the handler has
// returned, together with what other handlers and the framework itself have to change. It
// starts empty, without the object's data in it, and does not change the body that
// the handler sees. A Patch is not safe for concurrent use.
type Patch struct {
	merge      map[string]any
	transforms []func(object map[string]any)
	err        error // of the first value that is not JSON

	adds, removes []string // finalizers, which are guarded by themselves, and not by the version
}

// Set sets the field at a path to a value that encoding/json can encode: objects are
// merged with what is there, all else replaces it, and nil removes the field. A
// value that cannot be encoded fails the handler.
func (p *Patch) Set(path FieldPath, value any) { p.SetPath(value, path.Keys()...) }

// SetPath is [Patch.Set] for a path of keys that may contain dots.
func (p *Patch) SetPath(value any, keys ...string) {
	v, err := rawjson.Normalize(value)
	if err != nil {
		p.fail(fmt.Errorf("the patch of %q: %w", strings.Join(keys, "."), err))
		return
	}
	p.put(v, keys...)
}

// Remove removes the field at a path.
func (p *Patch) Remove(path FieldPath) { p.put(nil, path.Keys()...) }

// Merge merges an RFC 7396 merge patch of the whole object into p.
func (p *Patch) Merge(patch map[string]any) {
	v, err := rawjson.Normalize(patch)
	if err != nil {
		p.fail(fmt.Errorf("the patch: %w", err))
		return
	}
	p.merge = combineMerges(p.merge, rawjson.AsMap(v))
}

// Transform adds a function that changes the object in place, for what a merge
// patch cannot express, such as one item of a list. It gets a fresh copy of the whole object as decoded by
// encoding/json with numbers as json.Number. It can be called several times, on
// newer and newer states, so it must look before it changes.
func (p *Patch) Transform(change func(object map[string]any)) {
	p.transforms = append(p.transforms, change)
}

// Get returns what the patch sets at a path so far, and whether it says anything about it. A
// nil that it says is a removal.
func (p *Patch) Get(path FieldPath) (any, bool) { return rawjson.Lookup(any(p.merge), path.Keys()...) }

// Map returns a copy of the merge patch, without the transformations.
func (p *Patch) Map() map[string]any {
	m, _ := rawjson.Clone(p.merge).(map[string]any)
	return m
}

// Empty tells whether there is nothing to change.
func (p *Patch) Empty() bool { return len(p.merge) == 0 && len(p.transforms) == 0 && !p.finalizes() }

// finalizes reports whether the patch adds or removes finalizers on the framework's own account.
func (p *Patch) finalizes() bool { return len(p.adds)+len(p.removes) > 0 }

// versioned reports whether the patch can be computed only for one version of the object.
func (p *Patch) versioned() bool {
	_, lists := rawjson.Lookup(any(p.merge), "metadata", "finalizers")
	return len(p.transforms) > 0 || lists && p.finalizes()
}

// Clear forgets all changes.
func (p *Patch) Clear() { *p = Patch{} }

// JSONPatch returns the whole patch as the operations of a JSON patch (RFC 6902) that
// turns the body into what the patch makes of it; none if a transformation panics.
func (p *Patch) JSONPatch(body *Body) []PatchOperation {
	after, err := p.apply(body)
	if err != nil {
		return nil
	}
	return diffPatch(body.Map(), after)
}

// try tells whether the patch can be made of the body: whether all its values are JSON, and
// no transformation panics.
func (p *Patch) try(body *Body) error {
	if p.err != nil || len(p.transforms) == 0 {
		return p.err
	}
	_, err := p.apply(body)
	return err
}

// applied returns the body as the patch leaves it, for those who come next.
func (p *Patch) applied(body *Body) *Body {
	if p.Empty() {
		return body
	}
	object, err := p.apply(body)
	if err != nil {
		return body
	}
	b, err := NewBody(object)
	if err != nil {
		return body
	}
	return b
}

func (p *Patch) apply(body *Body) (object map[string]any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &transformError{v}
		}
	}()
	object = body.Map()
	if len(p.merge) > 0 {
		object, _ = rawjson.Merge(object, any(p.merge)).(map[string]any)
	}
	for _, transform := range p.transforms {
		transform(object)
	}
	for _, f := range p.removes {
		removeFinalizer(object, f)
	}
	for _, f := range p.adds {
		addFinalizer(object, f)
	}
	return object, nil
}

// transformError tells that a transformation has panicked.
type transformError struct{ value any }

func (e *transformError) Error() string {
	return fmt.Sprintf("a transformation has panicked: %v", e.value)
}

// sides returns what the patch touches of an object, before and after it; functions may touch everything.
func (p *Patch) sides(body *Body) (before, after map[string]any, err error) {
	if p.versioned() {
		after, err = p.apply(body)
		return body.Map(), after, err
	}
	before = rawjson.AsMap(decodeLike(body.raw, p.merge))
	after, _ = rawjson.Merge(rawjson.Clone(before), any(p.merge)).(map[string]any)
	return before, after, nil
}

func (p *Patch) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// put sets a decoded value, replacing whatever is in the way, so that a null or a scalar that
// was set at a parent does not lose it (CH-T49).
func (p *Patch) put(value any, keys ...string) {
	if len(keys) == 0 {
		m, ok := value.(map[string]any)
		if !ok {
			p.fail(fmt.Errorf("the patch of the whole object must be an object, not %s", rawjson.KindOf(value)))
			return
		}
		p.merge = combineMerges(p.merge, m)
		return
	}
	if p.merge == nil {
		p.merge = make(map[string]any)
	}
	m := p.merge
	for _, key := range keys[:len(keys)-1] {
		next, ok := m[key].(map[string]any)
		if !ok {
			next = make(map[string]any)
			m[key] = next
		}
		m = next
	}
	last := keys[len(keys)-1]
	if old, ok := m[last].(map[string]any); ok {
		if v, ok := value.(map[string]any); ok {
			m[last] = combineMerges(old, v)
			return
		}
	}
	m[last] = value
}

// forget takes the value at a path out of the merge patch, and the parents that it leaves empty.
func (p *Patch) forget(keys ...string) { forgetIn(p.merge, keys) }

func forgetIn(m map[string]any, keys []string) {
	if len(keys) == 1 {
		delete(m, keys[0])
		return
	}
	if next, ok := m[keys[0]].(map[string]any); ok {
		if forgetIn(next, keys[1:]); len(next) == 0 {
			delete(m, keys[0])
		}
	}
}

// combineMerges returns the merge patch that does what first and then second would do.
func combineMerges(first, second map[string]any) map[string]any {
	if first == nil {
		first = make(map[string]any, len(second))
	}
	for k, v := range second {
		a, ok := first[k].(map[string]any)
		if b, is := v.(map[string]any); ok && is {
			first[k] = combineMerges(a, b)
		} else {
			first[k] = rawjson.Clone(v)
		}
	}
	return first
}

// decodeLike decodes of a raw value what a model has keys for, on each level, and everything where the model has no keys. A patch
// touches little of an object, and the rest is not worth decoding.
func decodeLike(raw []byte, model any) any {
	m := rawjson.AsMap(model)
	if m == nil || len(raw) == 0 || raw[0] != '{' {
		v, err := rawjson.Decode(raw)
		if err != nil {
			return nil
		}
		return v
	}
	like := make(map[string]any, len(m))
	_ = rawjson.EachMember(raw, func(quoted, value []byte) bool { // which is well-formed, as it came from the API server
		for key, sub := range m {
			if rawjson.QuotedIs(quoted, key) {
				like[key] = decodeLike(value, sub)
			}
		}
		return true
	})
	return like
}

// effectiveMerge returns the part of a merge patch that changes something in the object, nil if
// nothing does: a patch without effect is not worth a request (CH-T2).
func effectiveMerge(object, patch map[string]any) map[string]any {
	var effective map[string]any
	for k, v := range patch {
		old, present := object[k]
		sub, isMap := v.(map[string]any)
		switch oldMap, wasMap := old.(map[string]any); {
		case v == nil && !present:
			continue
		case isMap && wasMap:
			if sub = effectiveMerge(oldMap, sub); sub == nil {
				continue
			}
			v = sub
		case v != nil && present && rawjson.Equal(old, v):
			continue
		}
		if effective == nil {
			effective = make(map[string]any)
		}
		effective[k] = v
	}
	return effective
}

// unapplied returns what of a merge patch is not so in the response to it: what the schema has
// dropped, and what somebody else has changed at the same time. What the response has besides does not
// matter, nor whether a list or a map of the metadata that was emptied is there.
func unapplied(patch map[string]any, response *Body) Diff {
	if appliedTo(response.raw, patch) {
		return nil
	}
	return slices.DeleteFunc(leftDiff(patch, response.raw), func(item DiffItem) bool {
		return item.New == nil && onlyRemoves(item.Old) || len(item.Path) == 2 && item.Path[0] == "metadata" && rawjson.IsEmpty(item.Old) && rawjson.IsEmpty(item.New) &&
			slices.Contains([]string{"annotations", "labels", "finalizers"}, item.Path[1])
	})
}

// onlyRemoves reports whether a value in a merge patch removes what is there, and adds nothing.
func onlyRemoves(v any) bool {
	m, ok := v.(map[string]any)
	for _, sub := range m {
		if !onlyRemoves(sub) {
			return false
		}
	}
	return v == nil || ok && len(m) > 0
}

// appliedTo tells whether a value is what the patch wants it to be, as far as that can be seen without decoding it.
func appliedTo(raw []byte, patch any) bool {
	switch v := patch.(type) {
	case nil:
		return rawjson.IsNull(raw)
	case bool, json.Number:
		return fmt.Sprint(v) == string(raw)
	case string:
		return rawjson.IsQuoted(raw) && string(rawjson.AppendUnquoted(make([]byte, 0, len(raw)), raw)) == v
	case map[string]any:
		for key, want := range v {
			if got, _ := rawjson.Find(raw, key); !appliedTo(got, want) {
				return false
			}
		}
		return len(raw) > 0 && raw[0] == '{'
	}
	return false
}

// leftDiff is [diffJSON] of the keys that before has, on each level.
func leftDiff(before map[string]any, after []byte) Diff {
	return appendDiff(nil, nil, before, decodeLike(after, before))
}

// PatchOperation is one operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	Op    string `json:"op"`             // add, remove, replace, move, copy, or test
	Path  string `json:"path"`           // a JSON pointer (RFC 6901)
	From  string `json:"from,omitempty"` // of move and copy, a JSON pointer
	Value any    `json:"value"`          // of add, replace and test
}

// MarshalJSON writes the value only for the operations that have one, even if it is null.
func (o PatchOperation) MarshalJSON() ([]byte, error) { return json.Marshal(o.members()) }

func (o PatchOperation) members() map[string]any {
	m := map[string]any{"op": o.Op, "path": o.Path}
	switch o.Op {
	case "add", "replace", "test":
		m["value"] = o.Value
	case "move", "copy":
		m["from"] = o.From
	}
	return m
}

// decoded returns the operations as decoded JSON, which is quicker to encode.
func decoded(ops []PatchOperation) []any {
	all := make([]any, len(ops))
	for i, o := range ops {
		all[i] = o.members()
	}
	return all
}

// pointer returns the JSON pointer (RFC 6901) of a path of keys.
func pointer(keys ...string) string {
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

// mergeOps returns the operations that do to an object what a merge patch does, also if others change the object meanwhile:
// a list is replaced as a whole, and a map is added only where there is still none, as it would replace that of another client.
func mergeOps(ops []PatchOperation, at string, object, patch map[string]any) []PatchOperation {
	for _, key := range rawjson.UnionKeys(patch, nil) {
		path := at + pointer(key)
		old, was := object[key]
		sub, isMap := patch[key].(map[string]any)
		oldMap, wasMap := old.(map[string]any)
		switch {
		case patch[key] == nil && was:
			ops = append(ops, PatchOperation{Op: "remove", Path: path})
		case patch[key] == nil, !isMap && was && rawjson.Equal(old, patch[key]):
		case isMap && wasMap:
			ops = mergeOps(ops, path, oldMap, sub)
		case isMap:
			ops = append(ops, PatchOperation{Op: "test", Path: path, Value: old},
				PatchOperation{Op: "add", Path: path, Value: rawjson.Merge(nil, any(sub))})
		case was:
			ops = append(ops, PatchOperation{Op: "replace", Path: path, Value: patch[key]})
		default:
			ops = append(ops, PatchOperation{Op: "add", Path: path, Value: patch[key]})
		}
	}
	return ops
}

// finalizerOps returns the operations that add and remove the finalizers, each guarded by what it depends on, so that nothing else
// that others change meanwhile is in their way.
func (p *Patch) finalizerOps(body *Body) (ops []PatchOperation) {
	const path = "/metadata/finalizers"
	list := body.Finalizers()
	for i, f := range slices.Backward(list) {
		if slices.Contains(p.removes, f) {
			item := path + "/" + strconv.Itoa(i)
			ops = append(ops, PatchOperation{Op: "test", Path: item, Value: f}, PatchOperation{Op: "remove", Path: item})
		}
	}
	added := slices.DeleteFunc(slices.Clone(p.adds), func(f string) bool { return slices.Contains(list, f) })
	if len(added) == 0 {
		return ops
	}
	// Nothing can be added to an object that is being deleted, and nothing is to be there twice.
	ops = append(ops, PatchOperation{Op: "test", Path: "/metadata/deletionTimestamp"})
	if len(list) == 0 {
		return append(ops, PatchOperation{Op: "test", Path: path}, PatchOperation{Op: "add", Path: path, Value: added})
	}
	ops = append(ops, PatchOperation{Op: "test", Path: path, Value: list})
	for _, f := range added {
		ops = append(ops, PatchOperation{Op: "add", Path: path + "/-", Value: f})
	}
	return ops
}

// guardOps puts before each operation a test that the value at its path is still what it was. The operations are those of
// wholeDiffPatch.
func guardOps(before any, ops []PatchOperation) (all []PatchOperation) {
	for _, op := range ops {
		old, _ := rawjson.Lookup(before, keysOf(op.Path)...)
		all = append(all, PatchOperation{Op: "test", Path: op.Path, Value: old}, op)
	}
	return all
}

// keysOf returns the path of keys of a JSON pointer.
func keysOf(pointer string) []string {
	keys := strings.Split(pointer, "/")[1:]
	for i, key := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
	}
	return keys
}

// diffPatch returns the operations that turn one decoded value into another, in
// the order of their paths. They have indices of lists in them, and so are good for that very value alone.
func diffPatch(before, after any) []PatchOperation { return appendOps(nil, "", before, after, false) }

// wholeDiffPatch is diffPatch with lists replaced as a whole.
func wholeDiffPatch(before, after any) []PatchOperation {
	return appendOps(nil, "", before, after, true)
}

func appendOps(ops []PatchOperation, at string, before, after any, whole bool) []PatchOperation {
	if a, b := rawjson.AsMap(before), rawjson.AsMap(after); a != nil && b != nil {
		for _, key := range rawjson.UnionKeys(a, b) {
			path := at + pointer(key)
			old, was := a[key]
			now, is := b[key]
			switch {
			case !is:
				ops = append(ops, PatchOperation{Op: "remove", Path: path})
			case !was:
				ops = append(ops, PatchOperation{Op: "add", Path: path, Value: now})
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
	return append(ops, PatchOperation{Op: "replace", Path: at, Value: after})
}

// appendListOps compares lists after cutting off what they begin and end with in common.
func appendListOps(ops []PatchOperation, at string, a, b []any) []PatchOperation {
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
		ops = append(ops, PatchOperation{Op: "remove", Path: at + "/" + strconv.Itoa(start+i)})
	}
	for i := both; i < len(b); i++ {
		ops = append(ops, PatchOperation{Op: "add", Path: at + "/" + strconv.Itoa(start+i), Value: b[i]})
	}
	return ops
}

// addFinalizer and removeFinalizer are transformations of an object.

func addFinalizer(object map[string]any, finalizer string) {
	meta := rawjson.AsMap(object["metadata"])
	list, _ := meta["finalizers"].([]any)
	if meta != nil && !slices.Contains(list, any(finalizer)) {
		meta["finalizers"] = append(slices.Clone(list), any(finalizer))
	}
}

func removeFinalizer(object map[string]any, finalizer string) {
	meta := rawjson.AsMap(object["metadata"])
	list, _ := meta["finalizers"].([]any)
	if !slices.Contains(list, any(finalizer)) {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == any(finalizer) })
	if len(rest) == 0 {
		delete(meta, "finalizers")
	} else {
		meta["finalizers"] = rest
	}
}
