package ownership

import (
	"hash/maphash"
	"math/bits"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// walker walks a configuration and the fieldsV1 of an entry in parallel, without decoding the fields.
//
// Their format is defined in sigs.k8s.io/structured-merge-diff, fieldpath/serialize.go. Members of maps are f:<key>, items of lists are k:<keys>, or v:<value>
// in sets, and "." means that the manager owns the map, list or item itself, too. An entry names a map with a fixed set of fields only if something below is
// owned, so that such maps vanish with the last owned field.
type walker struct {
	data   []byte
	known  map[uint64]bool // see kindFacts.ends
	learns bool            // the fields come from the response to an apply
	learnt map[uint64]bool // new facts from that response
	unsure bool            // the result depends on unknown or changing facts
	text   []byte          // unquoted names of the elements from the root to the present one
}

// walk reports whether the fields match the configuration, as far as known.
func (w *walker) walk(c *Configuration) bool {
	_, ok := w.fields(c.object, nil, 0, rootPath)
	return ok
}

// Paths are hashes of the keys from the root, and of one of these values for a level of a list. A value without a schema can be a map in one object and a list
// in another, so facts about lists have their own paths.
const (
	rootPath uint64 = 0
	itemKey         = "\x00item"
	listKey         = "\x00list"
	emptyKey        = "\x00empty list"
	mapKey          = "\x00map"
)

var (
	metadataPath = below(rootPath, "metadata")
	// references is the path of the items of metadata.ownerReferences, which are atomic in all kinds.
	references = below(below(metadataPath, "ownerReferences"), itemKey)
)

func below[T string | []byte](path uint64, key T) uint64 {
	return (bits.RotateLeft64(path, 23) ^ maphash.String(seed, string(key))) * 0x9e3779b97f4a7c15
}

// value compares a value with the fields at an index, and returns the index after them. It returns false at the first difference.
func (w *walker) value(value any, at int, path uint64) (end int, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) > 0 {
			return w.fields(v, nil, at, path)
		}
	case []any:
		if len(v) > 0 {
			return w.items(v, at, path)
		}
		w.teach(below(path, emptyKey), false)
	}
	return w.leaf(at)
}

// leaf compares a value without values below it.
func (w *walker) leaf(at int) (end int, ok bool) {
	r := rawjson.MemberReader{Data: w.data, At: at}
	for r.Next() {
		if kind, _ := w.element(&r); kind != self && kind != unknown {
			return 0, false
		}
		if !skip(&r) {
			return 0, false
		}
	}
	return r.At, r.Err == nil
}

// The kinds of path elements.
const (
	self    = '.'
	field   = 'f'
	keys    = 'k'
	member  = 'v'
	index   = 'i'
	unknown = 0 // of a later version; kube-apiserver ignores it, too
)

// element returns the kind and the name of the present element. The name is valid until the text is truncated.
func (w *walker) element(r *rawjson.MemberReader) (kind byte, name []byte) {
	quoted := r.Key.Of(w.data)
	text := rawjson.PlainText(quoted)
	if text == nil {
		start := len(w.text)
		w.text = rawjson.AppendUnquoted(w.text, quoted)
		text = w.text[start:]
	}
	switch {
	case string(text) == ".":
		return self, nil
	case len(text) < 2 || text[1] != ':':
		return unknown, nil
	}
	switch text[0] {
	case field, keys, member, index:
		return text[0], text[2:]
	}
	return unknown, nil
}

// skip moves past the value of a member.
func skip(r *rawjson.MemberReader) bool {
	end, err := rawjson.SkipValue(r.Data, r.At)
	r.At = end
	return err == nil
}

// fields compares a map that is not empty. The keys of a list item are those in the name of its element.
func (w *walker) fields(value map[string]any, itemKeys []byte, at int, path uint64) (end int, ok bool) {
	r := rawjson.MemberReader{Data: w.data, At: at}
	named, owned, start := 0, false, len(w.text)
	for r.Next() {
		kind, name := w.element(&r)
		child, has := any(nil), false
		switch kind {
		case field:
			if child, has = value[string(name)]; has && !isStripped(path, name) {
				named++
				r.At, ok = w.value(child, r.At, below(path, name))
			} else {
				ok = isDefaulted(itemKeys, string(name)) && skip(&r)
			}
		case self, unknown:
			owned = owned || kind == self
			ok = skip(&r)
		default:
			return 0, false
		}
		if !ok {
			return 0, false
		}
		w.text = w.text[:start]
	}
	if r.Err != nil {
		return 0, false
	}
	switch {
	case named == 0:
		ok = w.ends(value, path)
	case named < len(value) && (path != rootPath && path != metadataPath || named < countNameable(value, path)):
		ok = w.unnamed(value, at, path)
	}
	if owned && named > 0 {
		w.teach(path, false)
	}
	return r.At, ok
}

// countNameable returns the number of members of a map that entries can name.
func countNameable(value map[string]any, path uint64) (n int) {
	for key := range value {
		if !isStripped(path, key) {
			n++
		}
	}
	return n
}

// isDefaulted reports whether a field is a key of an item. The item may lack it, because keys may have defaults.
func isDefaulted(itemKeys []byte, name string) bool {
	if itemKeys == nil {
		return false
	}
	_, ok := rawjson.Find(itemKeys, name)
	return ok
}

// ends reports whether fields may end at a map or a list that is not empty, because it is atomic.
func (w *walker) ends(value any, path uint64) bool {
	switch v := value.(type) {
	case []any:
		path = below(path, listKey)
	case map[string]any:
		if path == rootPath {
			return false // at least the annotation is below
		}
		if !alwaysNamed(v) && (w.learns || !w.known[path]) {
			w.teach(below(path, mapKey), false)
			return w.missingMembers(v, path)
		}
	}
	return path == references || w.ask(path)
}

// alwaysNamed reports whether an entry always names something below a value that is not atomic.
func alwaysNamed(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) > 0
	case map[string]any:
		for _, child := range v {
			if alwaysNamed(child) {
				return true
			}
		}
		return len(v) == 0
	}
	return true
}

// unnamed reports whether no entry names the members of a map that the fields at an index omit.
func (w *walker) unnamed(value map[string]any, at int, path uint64) bool {
	named := make(map[string]bool, len(value))
	r := rawjson.MemberReader{Data: w.data, At: at}
	start := len(w.text)
	for r.Next() && skip(&r) {
		if kind, name := w.element(&r); kind == field {
			named[string(name)] = true
		}
		w.text = w.text[:start]
	}
	for key, child := range value {
		if !named[key] && !isStripped(path, key) && !w.missing(child, below(path, key), path == rootPath && key == "status") {
			return false
		}
	}
	return true
}

// missing reports whether an entry may omit a value. It always omits an empty list with keys, and a status that is a subresource. It omits a map of which it
// omits all members, unless the map is atomic or a member of a map without a fixed set of fields.
func (w *walker) missing(value any, path uint64, status bool) bool {
	if status {
		return w.ask(path)
	}
	switch v := value.(type) {
	case []any:
		return len(v) == 0 && w.ask(below(path, emptyKey))
	case map[string]any:
		return len(v) > 0 && w.missingMembers(v, path) && w.ask(below(path, mapKey))
	}
	return false
}

// missingMembers reports whether an entry may omit all members of a map.
func (w *walker) missingMembers(value map[string]any, path uint64) bool {
	for key, child := range value {
		if !w.missing(child, below(path, key), false) {
			return false
		}
	}
	return true
}

// ask reports whether entries end at a path, or omit it, although the configuration continues. It returns true if that is unknown.
func (w *walker) ask(path uint64) bool {
	if w.learns {
		w.teach(path, true)
		return true
	}
	ends, known := w.known[path]
	w.unsure = w.unsure || !known
	return ends || !known
}

// teach stores a fact from the response to an apply.
func (w *walker) teach(path uint64, ends bool) {
	if !w.learns {
		return
	}
	before, known := w.learnt[path]
	if !known {
		before, known = w.known[path]
	}
	if known && before == ends {
		return
	}
	if w.unsure = w.unsure || known; w.learnt == nil {
		w.learnt = make(map[uint64]bool)
	}
	w.learnt[path] = ends
}
