package rawjson

// A merge patch (RFC 7396) is a decoded object, which may also contain values of these two types. JSON has no notation for them, so they are replaced before
// the patch is sent.

// Exact is an object in a merge patch that replaces the present value as a whole, instead of merging with it. It contains decoded JSON without nulls.
type Exact map[string]any

// Existing is an object in a merge patch that changes an object. It has no effect if there is no object in its place.
type Existing map[string]any

// PatchFields returns the fields of an object of any type in a merge patch, nil for other values.
func PatchFields(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case Existing:
		return v
	case Exact:
		return v
	}
	return nil
}

// Merge applies a merge patch to a decoded value and returns the result. It changes the maps of the target in place, but not the patch.
func Merge(target, patch any) any {
	t, isMap := target.(map[string]any)
	var fields map[string]any
	switch p := patch.(type) {
	case map[string]any:
		fields = p
	case Existing:
		if !isMap {
			return target
		}
		fields = p
	case Exact:
		return Clone(map[string]any(p))
	default:
		return Clone(patch)
	}
	if !isMap {
		t = make(map[string]any, len(fields))
	}
	for k, v := range fields {
		old, present := t[k]
		if v == nil {
			delete(t, k)
		} else if _, existing := v.(Existing); present || !existing {
			t[k] = Merge(old, v)
		}
	}
	return t
}

// PruneLists removes the null members of maps in lists, at any depth, as the API server does with a merge patch. A null in a
// list remains.
func PruneLists(v any) { pruneLists(v, false) }

func pruneLists(v any, inList bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if inList && member == nil {
				delete(v, key)
				continue
			}
			pruneLists(member, inList)
		}
	case []any:
		for _, item := range v {
			pruneLists(item, true)
		}
	}
}
