// Package markers distinguishes the annotations and metadata of operators from those of users.
package markers

import (
	"bytes"
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// The names of annotations on objects.
const (
	DefaultPrefix  = "kopf.zalando.org"                                 // default prefix of annotations
	LastHandled    = "last-handled-configuration"                       // last-handled state
	Managed        = "kopf-managed"                                     // marks the prefix as an operator's
	HandlingState  = "handling-state"                                   // progress record with the states that the finished handlers have seen
	FailedHandlers = "failed-handlers"                                  // progress record with the errors of the handlers that failed permanently
	TrackedFields  = "tracked-fields"                                   // tracked fields of the last-handled state
	HandlingBase   = "handling-base"                                    // of version 0.1.0; removed, but not read any more
	HandledUID     = "handled-uid"                                      // uid of the object that the annotations belong to
	Reconciled     = "reconciled-spec"                                  // digests of the spec at the last success of reconcile handlers
	LastApplied    = "kubectl.kubernetes.io/last-applied-configuration" // of kubectl
)

// IsReserved reports whether the name of an operator's annotation does not belong to a handler.
func IsReserved(name string) bool {
	switch name {
	case LastHandled, Managed, HandlingState, FailedHandlers, TrackedFields, HandlingBase, HandledUID, Reconciled, "touch-dummy":
		return true
	}
	return false
}

// HasPrefix reports whether an annotation key has a prefix.
func HasPrefix(key []byte, prefix string) bool {
	n := len(prefix)
	return len(key) > n && key[n] == '/' && string(key[:n]) == prefix
}

// VolatileMeta reports whether a metadata field changes with each patch, or with the identity of the object.
func VolatileMeta(key []byte) bool {
	switch string(key) {
	case "resourceVersion", "managedFields", "generation", "uid":
		return true
	}
	return false
}

// Prefixes are the annotation prefixes that kopf operators have marked.
type Prefixes [][]byte

// FindManaged finds the marked prefixes.
func FindManaged(annotations []byte) Prefixes {
	return findPrefixes(annotations, func(_, name []byte) bool { return string(name) == Managed })
}

// FindUnmarked finds the prefixes of operators with a last-handled state but no mark, because they begin with "kopf.".
func FindUnmarked(annotations []byte) Prefixes {
	return findPrefixes(annotations, func(prefix, name []byte) bool {
		return string(name) == LastHandled && bytes.HasPrefix(prefix, []byte("kopf.")) && string(prefix) != DefaultPrefix
	})
}

// AllPrefixes returns the sorted prefixes under which operators have stored something on an object. The own prefix is one of them if there is no other, or if
// the status has something.
func AllPrefixes(annotations []byte, own string, inStatus bool) []string {
	all := []string{}
	for _, p := range append(FindManaged(annotations), FindUnmarked(annotations)...) {
		all = append(all, string(p))
	}
	used := func(key []byte) bool { return HasPrefix(key, DefaultPrefix) }
	if _, found := FilterMembers(annotations, used); found {
		all = append(all, DefaultPrefix)
	}
	if inStatus || len(all) == 0 {
		all = append(all, own)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// findPrefixes finds the prefixes of annotations for which the function returns true.
func findPrefixes(annotations []byte, fits func(prefix, name []byte) bool) Prefixes {
	var found Prefixes
	_ = rawjson.EachMember(annotations, func(quoted, _ []byte) bool { // malformed members are ignored
		if prefix, name, ok := bytes.Cut(rawjson.Text(quoted), []byte("/")); ok && fits(prefix, name) {
			found = append(found, prefix)
		}
		return true
	})
	return found
}

// Under reports whether a key has one of the prefixes.
func (p Prefixes) Under(key []byte) bool {
	return slices.ContainsFunc(p, func(prefix []byte) bool { return HasPrefix(key, string(prefix)) })
}

// Own reports whether a key belongs to a kopf operator or to kubectl, not to a user.
func (p Prefixes) Own(key []byte) bool {
	if string(key) == LastApplied {
		return true
	}
	prefix, _, ok := bytes.Cut(key, []byte("/"))
	return ok && (string(prefix) == DefaultPrefix || bytes.HasSuffix(prefix, []byte("."+DefaultPrefix)) || p.Under(key))
}

// FilterMembers returns the object in raw without the members with matching keys, and whether there were any.
func FilterMembers(raw []byte, fits func(key []byte) bool) ([]byte, bool) {
	found := false
	_ = rawjson.EachMember(raw, func(quoted, _ []byte) bool { // malformed members are ignored
		found = fits(rawjson.Text(quoted))
		return !found
	})
	if !found {
		return raw, false
	}
	rest := append(make([]byte, 0, len(raw)), '{')
	_ = rawjson.EachMember(raw, func(quoted, value []byte) bool { // the same
		if fits(rawjson.Text(quoted)) {
			return true
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, quoted...), ':'), value...)
		return true
	})
	return append(rest, '}'), true
}

// DropAnnotations removes the annotations with matching keys from an object, and reports whether there were any.
func DropAnnotations(o *rawjson.Object, fits func(key []byte) bool) bool {
	meta := o.Child("metadata")
	if meta == nil {
		return false
	}
	raw, _ := meta.Raw("annotations")
	rest, changed := FilterMembers(raw, fits)
	if changed {
		meta.Put("annotations", rest)
	}
	return changed
}

// DropEmpty removes empty stanzas from an object, innermost first, and reports whether there were any.
func DropEmpty(o *rawjson.Object) (dropped bool) {
	drop := func(o *rawjson.Object, key string) {
		if o.IsEmpty(key) {
			o.Delete(key)
			dropped = true
		}
	}
	if meta := o.Child("metadata"); meta != nil {
		drop(meta, "annotations")
		drop(meta, "labels")
	}
	drop(o, "metadata")
	drop(o, "status")
	return dropped
}

// Manages reports whether a manager, or any manager for "", was the last to change a field, from the managed fields.
func Manages(managedFields []byte, manager string, field ...string) (found bool) {
	path := []string{"fieldsV1"}
	for _, key := range field {
		path = append(path, "f:"+key)
	}
	_ = rawjson.EachItem(managedFields, func(entry []byte) bool { // malformed items are ignored
		_, owns := rawjson.Find(entry, path...)
		found = owns && (manager == "" || rawjson.StringAt(entry, "manager") == manager)
		return !found
	})
	return found
}

// Finalizers reports whether a JSON list has an operator's finalizer, and whether it has a legacy one.
func Finalizers(list []byte, name string, others []string) (own, legacy bool) {
	_ = rawjson.EachItem(list, func(quoted []byte) bool { // malformed items are ignored
		text := rawjson.Text(quoted)
		own = own || string(text) == name
		legacy = legacy || slices.ContainsFunc(others, func(f string) bool { return f == string(text) })
		return true
	})
	return own, legacy
}
