package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// The directives of strategic merge patches.
const (
	patchDirective   = "$patch"                    // in maps and in items of lists: delete or replace
	retainDirective  = "$retainKeys"               // the keys to keep
	deletesDirective = "$deleteFromPrimitiveList/" // before the name of a list: the scalars to remove
	orderDirective   = "$setElementOrder/"         // before the name of a list: the order of its items
)

// Errors with the code 400 or 422. All other invalid patches are refused with the code 500, as in kube-apiserver. They are functions, because the
// linker would keep initialized variables in programs without the server, too.

func errDeletes() error     { return apierrors.BadRequest("invalid patch format of primitive list") }
func errRetain() error      { return apierrors.BadRequest("invalid patch format of retainKeys") }
func errOrder() error       { return apierrors.BadRequest("invalid patch format of setElementOrder list") }
func errListOfLists() error { return apierrors.PatchRejected() }

// patchFault refuses an invalid patch.
func patchFault(format string, args ...any) error {
	return apierrors.New(500, "", fmt.Sprintf(format, args...), nil)
}

// ApplyStrategicMerge applies a strategic merge patch to an object of a built-in kind, which has a schema, and returns the result. It changes both in place.
// It merges lists by the keys in the schema. Keys and items of the patch that begin with "$" are directives. Errors are an [apierrors.StatusError].
//
// See https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md
func ApplyStrategicMerge(t *schema.Schema, original, patch map[string]any) (map[string]any, error) {
	merged, err := mergeStrategic(t, original, patch)
	var refused *apierrors.StatusError
	if err != nil && !errtype.As(err, &refused) {
		err = patchFault("%v", err)
	}
	asTyped(t, merged)
	return merged, err
}

// asTyped removes values that a built-in type cannot have and that the patch may have added: nulls, empty lists, and directives.
func asTyped(t *schema.Schema, v any) {
	if t == nil || t.PreserveUnknown {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			child := t.Properties[key]
			list, isList := e.([]any)
			switch {
			case child == nil && t.Additional == nil && isDirective(key):
				delete(v, key)
			case child != nil && (e == nil || isList && len(list) == 0 && child.Type == "array") && !slices.Contains(t.Required, key):
				delete(v, key)
			case child != nil:
				asTyped(child, e)
			default:
				asTyped(t.Additional, e)
			}
		}
	case []any:
		for _, e := range v {
			asTyped(t.Items, e)
		}
	}
}

func isDirective(key string) bool {
	return key == patchDirective || key == retainDirective || strings.HasPrefix(key, deletesDirective) || strings.HasPrefix(key, orderDirective)
}

// mergeStrategic merges a patch into a map. The type is nil if it is unknown.
func mergeStrategic(t *schema.Schema, original, patch map[string]any) (map[string]any, error) {
	if directive, ok := patch[patchDirective]; ok {
		switch directive {
		case "replace":
			delete(patch, patchDirective)
			return patch, nil
		case "delete":
			return map[string]any{}, nil
		}
		return nil, patchFault("unknown patch type: %v in map: %v", directive, patch)
	}
	if original == nil {
		original = make(map[string]any)
	}
	if err := retainKeys(original, patch); err != nil {
		return nil, err
	}
	if err := orderLists(t, original, patch); err != nil {
		return nil, err
	}
	for _, key := range rawjson.SortedKeys(patch) {
		value := patch[key]
		name, deletes := strings.CutPrefix(key, deletesDirective)
		if !deletes && strings.HasPrefix(key, strings.TrimSuffix(deletesDirective, "/")) {
			return nil, errDeletes()
		}
		if err := mergeField(t, original, name, value, deletes); err != nil {
			return nil, err
		}
	}
	return original, nil
}

// mergeField merges one value of a patch into a map.
func mergeField(t *schema.Schema, original map[string]any, name string, value any, deletes bool) error {
	if value == nil {
		delete(original, name)
		return nil
	}
	old := original[name]
	oldMap, wasMap := old.(map[string]any)
	newMap, isMap := value.(map[string]any)
	oldList, wasList := old.([]any)
	newList, isList := value.([]any)
	var err error
	switch {
	case wasMap && isMap:
		var child *schema.Schema
		if child, err = patchedField(t, name); err != nil {
			return err
		}
		if child.Rules().Replace {
			original[name] = newMap
			return nil
		}
		original[name], err = mergeStrategic(child, oldMap, newMap)
	case wasList && isList:
		var child *schema.Schema
		if child, err = patchedField(t, name); err != nil {
			return err
		}
		original[name], err = mergeLists(child, oldList, newList, deletes)
	case deletes: // there is no list to delete from
	default:
		unstructured.DropNulls(value)
		if clean, keep := withoutDirectives(value); keep {
			original[name] = clean
		} else {
			delete(original, name)
		}
	}
	return err
}

// patchedField returns the type of a field, nil if the fields have no types.
func patchedField(t *schema.Schema, name string) (*schema.Schema, error) {
	switch {
	case t == nil || t.PreserveUnknown:
		return nil, nil
	case t.Additional != nil:
		return nil, patchFault("merging an object in json but data type is not struct, instead is: map")
	case t.Properties[name] != nil:
		return t.Properties[name], nil
	}
	return nil, patchFault("unable to find api field in struct %s for the json field %q", t.Rules().Name, name)
}

// retainKeys removes the keys that are not in the directive $retainKeys.
func retainKeys(original, patch map[string]any) error {
	wanted, ok := patch[retainDirective]
	if !ok {
		return nil
	}
	delete(patch, retainDirective)
	list, ok := wanted.([]any)
	if !ok {
		return errRetain()
	}
	for key, v := range patch {
		directive := strings.HasPrefix(key, deletesDirective) || strings.HasPrefix(key, orderDirective)
		if v != nil && !directive && !slices.Contains(unstructured.Texts(list), key) {
			return errRetain()
		}
	}
	maps.DeleteFunc(original, func(key string, _ any) bool { return !slices.Contains(unstructured.Texts(list), key) })
	return nil
}

// orderLists merges the lists for which the patch specifies an order, and removes them from the patch.
func orderLists(t *schema.Schema, original, patch map[string]any) error {
	for _, key := range rawjson.SortedKeys(patch) {
		if !strings.HasPrefix(key, strings.TrimSuffix(orderDirective, "/")) {
			continue
		}
		name, ok := strings.CutPrefix(key, orderDirective)
		if !ok {
			return errOrder()
		}
		order, ok := patch[key].([]any)
		if !ok {
			return patchFault("expected a []interface {}, but received a %s", goTypeName(patch[key]))
		}
		delete(patch, key)
		if err := orderList(t, original, patch, name, order); err != nil {
			return err
		}
	}
	return nil
}

func orderList(t *schema.Schema, original, patch map[string]any, name string, order []any) error {
	old, isOld := original[name].([]any)
	if original[name] != nil && !isOld {
		return patchFault("expected a []interface {}, but received a %s", goTypeName(original[name]))
	}
	added, isNew := patch[name].([]any)
	if _, there := patch[name]; there && !isNew {
		return patchFault("expected a []interface {}, but received a %s", goTypeName(patch[name]))
	}
	child, err := patchedField(t, name)
	if err != nil {
		return err
	}
	key := child.Rules().MergeKey
	if err := followsOrder(added, order, key); err != nil {
		return err
	}
	merged := old
	switch {
	case !isOld && !isNew:
		return nil
	case len(old)+len(added) == 0:
		return patchFault("no elements in any of the given slices")
	case !isOld:
		clean, _ := withoutDirectives(any(added))
		merged = clean.([]any)
	case isNew:
		if merged, err = mergeLists(child, old, added, false); err != nil {
			return err
		}
	}
	delete(patch, name)
	original[name], err = arrange(merged, order, old, key)
	return err
}

// followsOrder returns an error if the items of a patch are not in the order that the patch specifies.
func followsOrder(list, order []any, key string) error {
	if len(order) == 0 {
		return nil
	}
	rest := slices.Clone(list)
	if key != "" {
		rest = slices.DeleteFunc(rest, func(item any) bool { return rawjson.AsMap(item)[patchDirective] == "delete" })
	}
	for _, at := range order {
		for len(rest) > 0 && rawjson.AsMap(rest[0])[patchDirective] != nil {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return nil
		}
		same, err := sameKey(rest[0], at, key)
		if err != nil {
			return err
		}
		if same {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		return patchFault("The order in patch list:\n%v\n doesn't match %s list:\n%v\n", list, strings.TrimSuffix(orderDirective, "/"), order)
	}
	return nil
}

// goTypeName returns the Go type of a value in kube-apiserver.
func goTypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "%!s(<nil>)"
	case json.Number:
		if schema.IsWhole(v) {
			return "int64"
		}
		return "float64"
	}
	return fmt.Sprintf("%T", v)
}

// mergeKeyOf returns the identity of an item of a list: the value of the key, or the item itself if there is no key.
func mergeKeyOf(item any, key string) (any, error) {
	m, ok := item.(map[string]any)
	switch {
	case key == "" && !ok:
		return item, nil
	case key == "":
		return nil, patchFault("cannot merge lists without merge key for struct")
	case !ok:
		return nil, patchFault("expected a map[string]interface {}, but received a %s", goTypeName(item))
	}
	v, ok := m[key]
	if !ok {
		return nil, patchFault("map: %v does not contain declared merge key: %s", m, key)
	}
	return v, nil
}

func sameKey(a, b any, key string) (bool, error) {
	x, err := mergeKeyOf(a, key)
	if err != nil {
		return false, err
	}
	y, err := mergeKeyOf(b, key)
	return sameText(x, y), err
}

// mergeLists merges a list of a patch into a list of an object.
func mergeLists(t *schema.Schema, old, added []any, deletes bool) ([]any, error) {
	if !t.Rules().Merge && !deletes {
		return added, nil
	}
	if len(old)+len(added) == 0 {
		return old, nil
	}
	all := slices.Concat(old, added)
	kind := goName(all[0])
	for _, item := range all {
		if goName(item) != kind || item == nil {
			return nil, patchFault("list element types are not identical: %v", []any{old, added})
		}
	}
	switch {
	case kind == "array":
		return nil, errListOfLists()
	case kind == "object":
		return mergeItems(t, old, added)
	case deletes:
		return slices.DeleteFunc(slices.Clone(old), func(item any) bool { return slices.Contains(added, item) }), nil
	}
	var both []any
	for _, item := range all {
		if !slices.Contains(both, item) {
			both = append(both, item)
		}
	}
	return arrange(both, added, old, "")
}

// mergeItems merges lists of objects by their key. It changes the old list in place. If the patch specifies an order, an item that replaces a deleted
// one counts as an old item, as in kube-apiserver.
func mergeItems(t *schema.Schema, old, added []any) ([]any, error) {
	var item *schema.Schema
	if t != nil {
		item = t.Items
	}
	key := t.Rules().MergeKey
	if key == "" {
		return nil, patchFault("cannot merge lists without merge key for struct")
	}
	old, added, err := followDirectives(old, added, key)
	if err != nil {
		return nil, err
	}
	merged := old
	for _, v := range added {
		if _, err := mergeKeyOf(v, key); err != nil {
			return nil, err
		}
		i := indexOfKey(merged, v, key)
		if i < 0 {
			merged = append(merged, v)
			continue
		}
		if merged[i], err = mergeStrategic(item, rawjson.AsMap(merged[i]), rawjson.AsMap(v)); err != nil {
			return nil, err
		}
	}
	return arrange(merged, added, old, key)
}

// followDirectives applies the items of a patch that are directives. It returns the rest of the list, and the other items.
func followDirectives(old, added []any, key string) (rest, plain []any, err error) {
	replace := false
	for _, v := range added {
		m := rawjson.AsMap(v)
		switch m[patchDirective] {
		case nil:
			plain = append(plain, v)
		case "delete":
			if _, err := mergeKeyOf(v, key); err != nil {
				return nil, nil, err
			}
			for i := indexOfKey(old, v, key); i >= 0; i = indexOfKey(old, v, key) {
				old = append(old[:i], old[i+1:]...)
			}
		case "replace":
			replace = true
		case "merge":
			return nil, nil, patchFault("merging lists cannot yet be specified in the patch")
		default:
			return nil, nil, patchFault("unknown patch type: %v in map: %v", m[patchDirective], m)
		}
	}
	if replace {
		return append([]any{}, plain...), nil, nil
	}
	return old, plain, nil
}

// indexOfKey returns the index of the item with the same key as another item, -1 if there is none.
func indexOfKey(list []any, item any, key string) int {
	return slices.IndexFunc(list, func(v any) bool {
		same, err := sameKey(v, item, key)
		return err == nil && same
	})
}

// arrange sorts the items in the order of the patch, with the others between them, about where they were.
func arrange(items, patched, before []any, key string) ([]any, error) {
	for _, v := range slices.Concat(items, patched) {
		if _, err := mergeKeyOf(v, key); err != nil {
			return nil, err
		}
	}
	rank := func(order []any) func(a, b any) int {
		return func(a, b any) int {
			i, j := indexOfKey(order, a, key), indexOfKey(order, b, key)
			if i < 0 || j < 0 { // as in kube-apiserver, items without an order come first
				return -1
			}
			return i - j
		}
	}
	var known, others []any
	for _, v := range items {
		if indexOfKey(patched, v, key) >= 0 {
			known = append(known, v)
		} else {
			others = append(others, v)
		}
	}
	slices.SortStableFunc(known, rank(patched))
	slices.SortStableFunc(others, rank(before))
	all := make([]any, 0, len(items))
	for len(known) > 0 && len(others) > 0 {
		i, j := indexOfKey(before, others[0], key), indexOfKey(before, known[0], key)
		if i >= 0 && j >= 0 && i < j {
			all, others = append(all, others[0]), others[1:]
		} else {
			all, known = append(all, known[0]), known[1:]
		}
	}
	return append(append(all, known...), others...), nil
}

// withoutDirectives returns a value without the parts that have directives, and reports whether anything remains.
func withoutDirectives(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v[patchDirective]; ok {
			return nil, false
		}
		for key, e := range v {
			if clean, keep := withoutDirectives(e); keep {
				v[key] = clean
			} else {
				delete(v, key)
			}
		}
		return v, true
	case []any:
		kept := make([]any, 0, len(v))
		for _, e := range v {
			if clean, keep := withoutDirectives(e); keep {
				kept = append(kept, clean)
			}
		}
		return kept, true
	}
	return v, true
}
