// Package markers tells annotations and metadata that operators write from those of users.
package markers

import (
	"bytes"
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// The names that operators put on objects.
const (
	DefaultPrefix = "kopf.zalando.org"                                 // of annotations, where none is set
	LastHandled   = "last-handled-configuration"                       // the name of the annotation with the last handled state
	Managed       = "kopf-managed"                                     // the name of the annotation that marks a prefix as an operator's
	HandlingState = "handling-state"                                   // the name of the record with what the finished handlers of a handling have seen
	TrackedFields = "tracked-fields"                                   // the name of the annotation with what the last handled state was made of
	HandlingBase  = "handling-base"                                    // of version 0.1.0, which is not read any more, only removed
	HandledUID    = "handled-uid"                                      // the name of the annotation with the object that something was stored on
	LastApplied   = "kubectl.kubernetes.io/last-applied-configuration" // the annotation of kubectl
)

// IsReserved reports whether the name of an annotation of an operator is not that of a handler's record.
func IsReserved(name string) bool {
	switch name {
	case LastHandled, Managed, HandlingState, TrackedFields, HandlingBase, HandledUID, "touch-dummy":
		return true
	}
	return false
}

// HasPrefix reports whether a key of an annotation is under a prefix.
func HasPrefix(key []byte, prefix string) bool {
	n := len(prefix)
	return len(key) > n && key[n] == '/' && string(key[:n]) == prefix
}

// VolatileMeta reports whether metadata change with each patch, or with the object's identity.
func VolatileMeta(key []byte) bool {
	switch string(key) {
	case "resourceVersion", "managedFields", "generation", "uid":
		return true
	}
	return false
}

// Prefixes are the prefixes of annotations that operators like us have marked as theirs.
type Prefixes [][]byte

// FindManaged finds the prefixes that are marked.
func FindManaged(annotations []byte) Prefixes {
	return findPrefixes(annotations, func(_, name []byte) bool { return string(name) == Managed })
}

// FindUnmarked finds the prefixes of operators that are not marked, because they begin with "kopf.", but that have a last handled state.
func FindUnmarked(annotations []byte) Prefixes {
	return findPrefixes(annotations, func(prefix, name []byte) bool {
		return string(name) == LastHandled && bytes.HasPrefix(prefix, []byte("kopf.")) && string(prefix) != DefaultPrefix
	})
}

// AllPrefixes returns the prefixes under which operators have stored something on an object, in their order: the default one if there is nothing, or something in the status.
func AllPrefixes(annotations []byte, inStatus bool) []string {
	all := []string{}
	for _, p := range append(FindManaged(annotations), FindUnmarked(annotations)...) {
		all = append(all, string(p))
	}
	used := func(key []byte) bool { return HasPrefix(key, DefaultPrefix) }
	if _, found := FilterMembers(annotations, used); found || inStatus || len(all) == 0 {
		all = append(all, DefaultPrefix)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// findPrefixes finds the prefixes of annotations whose prefix and name fit.
func findPrefixes(annotations []byte, fits func(prefix, name []byte) bool) Prefixes {
	var found Prefixes
	_ = rawjson.EachMember(annotations, func(quoted, _ []byte) bool { // what is malformed is not there
		if prefix, name, ok := bytes.Cut(rawjson.Text(quoted), []byte("/")); ok && fits(prefix, name) {
			found = append(found, prefix)
		}
		return true
	})
	return found
}

// Under reports whether a key is under one of the prefixes.
func (p Prefixes) Under(key []byte) bool {
	return slices.ContainsFunc(p, func(prefix []byte) bool { return HasPrefix(key, string(prefix)) })
}

// Own reports whether a key is that of an operator like us, or of kubectl, and not of a user.
func (p Prefixes) Own(key []byte) bool {
	if string(key) == LastApplied {
		return true
	}
	prefix, _, ok := bytes.Cut(key, []byte("/"))
	return ok && (string(prefix) == DefaultPrefix || bytes.HasSuffix(prefix, []byte("."+DefaultPrefix)) || p.Under(key))
}

// FilterMembers returns the object in raw without the members whose keys fit, and whether there were any.
func FilterMembers(raw []byte, fits func(key []byte) bool) ([]byte, bool) {
	found := false
	_ = rawjson.EachMember(raw, func(quoted, _ []byte) bool { // what is malformed is not there
		found = fits(rawjson.Text(quoted))
		return !found
	})
	if !found {
		return raw, false
	}
	rest := append(make([]byte, 0, len(raw)), '{')
	_ = rawjson.EachMember(raw, func(quoted, value []byte) bool { // as above
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

// DropAnnotations takes the annotations of an object away whose keys fit, and reports whether there were any.
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

// DropEmpty takes the stanzas of an object away that are empty, in an order that lets the emptiness propagate, and reports whether there were any.
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

// Manages reports whether a manager, or any with "", was the last to change a field, as a list of managed fields has it.
func Manages(managedFields []byte, manager string, field ...string) (found bool) {
	path := []string{"fieldsV1"}
	for _, key := range field {
		path = append(path, "f:"+key)
	}
	_ = rawjson.EachItem(managedFields, func(entry []byte) bool { // what is malformed is not there
		_, owns := rawjson.Find(entry, path...)
		found = owns && (manager == "" || rawjson.StringAt(entry, "manager") == manager)
		return !found
	})
	return found
}

// Finalizers reports whether an operator's finalizer is in a list of JSON, and whether there is one of those that older operators had.
func Finalizers(list []byte, name string, others []string) (own, legacy bool) {
	_ = rawjson.EachItem(list, func(quoted []byte) bool { // what is malformed is not there
		text := rawjson.Text(quoted)
		own = own || string(text) == name
		legacy = legacy || slices.ContainsFunc(others, func(f string) bool { return f == string(text) })
		return true
	})
	return own, legacy
}
