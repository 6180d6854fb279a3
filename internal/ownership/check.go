package ownership

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Verdict is what a check has found out.
type Verdict int

const (
	// Unknown is that the entry does not tell.
	Unknown Verdict = iota
	// Owned is that the object is as it was applied.
	Owned
	// Drifted is that it is not, or was applied with another configuration.
	Drifted
)

// Checker checks objects. It learns which maps and lists are atomic: the entry of a manager names those as a whole, and looks the same where others have taken all that is below. Its
// zero value is ready to use. It is safe for concurrent use.
type Checker struct {
	mu       sync.Mutex // guards following
	seed     maphash.Seed
	seeded   bool
	atomic   map[place]bool
	accepted map[uint64]struct{}
}

// place is a map or a list in the objects of a kind.
type place struct {
	kind, path string
	list       bool
}

// maxAccepted bounds what is remembered of configurations that the check cannot tell anything of.
const maxAccepted = 10000

// Learn takes the fields of the manager that an apply of the configuration has led to.
func (k *Checker) Learn(c *Configuration, fields []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.learn(c.kind, "", c.owned, fields)
}

func (k *Checker) learn(kind, path string, value any, fields []byte) {
	found := membersOf(fields)
	switch v := value.(type) {
	case map[string]any:
		if len(v) > 0 && path != "" {
			k.note(place{kind, path, false}, len(found) == 0)
		}
		for _, m := range found {
			if name, ok := strings.CutPrefix(m.key, "f:"); ok && v[name] != nil {
				k.learn(kind, path+"\x00"+name, v[name], m.fields)
			}
		}
	case []any:
		if len(v) > 0 {
			k.note(place{kind, path, true}, len(found) == 0)
		}
		for _, m := range found {
			keys, ok := itemKeys(m.key)
			if !ok {
				continue
			}
			for _, item := range v {
				if o, ok := item.(map[string]any); ok && fits(o, keys) {
					k.learn(kind, path+"\x00*", o, m.fields)
				}
			}
		}
	}
}

// maxPlaces bounds what is learnt, as the keys of maps are in it.
const maxPlaces = 10000

// note notes whether a map or a list is atomic.
func (k *Checker) note(p place, atomic bool) {
	if k.atomic == nil || len(k.atomic) >= maxPlaces {
		k.atomic = make(map[place]bool)
	}
	k.atomic[p] = atomic
}

// Accept has a configuration counted as owned with those fields from now on: an apply has changed nothing, and the check still cannot tell.
func (k *Checker) Accept(c *Configuration, fields []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.accepted == nil || len(k.accepted) >= maxAccepted {
		k.accepted = make(map[uint64]struct{})
	}
	k.accepted[k.sum(c, fields)] = struct{}{}
}

func (k *Checker) sum(c *Configuration, fields []byte) uint64 {
	if !k.seeded {
		k.seed, k.seeded = maphash.MakeSeed(), true
	}
	var h maphash.Hash
	h.SetSeed(k.seed)
	h.WriteString(c.kind + "\x00" + c.digest + "\x00") // which never fails, as the following
	h.Write(fields)
	return h.Sum64()
}

// Check reports whether an object is as the configuration was applied: by the digest in its annotation, the fields that the manager has applied of it, and the version of those.
func (k *Checker) Check(c *Configuration, digest string, fields []byte, apiVersion string) Verdict {
	version, _, _ := strings.Cut(c.kind, " ")
	if digest != c.digest || fields == nil || apiVersion != version {
		return Drifted
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	verdict := k.check(c.kind, "", c.owned, fields)
	if verdict == Owned {
		return Owned
	}
	if _, ok := k.accepted[k.sum(c, fields)]; ok {
		return Owned
	}
	return verdict
}

// check compares what is wanted at a path with the fields that are owned there.
func (k *Checker) check(kind, path string, value any, fields []byte) Verdict {
	found := membersOf(fields)
	if len(found) == 0 {
		return k.whole(kind, path, value)
	}
	switch v := value.(type) {
	case map[string]any:
		if len(found) != len(v) {
			return Drifted
		}
		verdict := Owned
		for _, m := range found {
			name, ok := strings.CutPrefix(m.key, "f:")
			if !ok || v[name] == nil {
				return Drifted
			}
			if verdict = worse(verdict, k.check(kind, path+"\x00"+name, v[name], m.fields)); verdict == Drifted {
				return Drifted
			}
		}
		return verdict
	case []any:
		if strings.HasPrefix(found[0].key, "v:") {
			return checkSet(v, found)
		}
		return k.checkItems(kind, path, v, found)
	}
	return Drifted
}

// worse returns the verdict of two parts.
func worse(a, b Verdict) Verdict {
	if a == Drifted || b == Drifted {
		return Drifted
	}
	return min(a, b)
}

// whole is check where the entry names nothing below: a scalar, an atomic map or list, or one of which others have taken all.
func (k *Checker) whole(kind, path string, value any) Verdict {
	var list bool
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return Owned
		}
	case []any:
		if list = true; len(v) == 0 {
			return Owned
		}
	default:
		return Owned
	}
	atomic, known := k.atomic[place{kind, path, list}]
	switch {
	case path == ownerReference:
		return Owned
	case !known && hasSchema(kind) && !strings.HasSuffix(path, "\x00*"):
		return Owned // if others had taken all below, nothing would be left of it
	case !known:
		return Unknown
	case atomic:
		return Owned
	}
	return Drifted
}

// ownerReference is where owner references are, which are atomic in all kinds.
const ownerReference = "\x00metadata\x00ownerReferences\x00*"

// groups are the API groups of Kubernetes itself. All fields of their kinds have a type, while a definition can have fields that keep anything: of these, something is left in the entry when
// others have taken all below.
var groups = []string{
	"admissionregistration.k8s.io", "apps", "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
	"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
}

// hasSchema reports whether all fields of a kind are known to have a type.
func hasSchema(kind string) bool {
	version, _, _ := strings.Cut(kind, " ")
	group, _, grouped := strings.Cut(version, "/")
	_, found := slices.BinarySearch(groups, group)
	return !grouped || found
}

// checkSet is check for a list that is a set.
func checkSet(wanted []any, found []member) Verdict {
	values := make(map[string]bool, len(wanted))
	for _, value := range wanted {
		raw, err := rawjson.Encode(value)
		if err != nil {
			return Unknown
		}
		values[string(raw)] = true
	}
	if len(values) != len(found) {
		return Drifted
	}
	for _, m := range found {
		text, ok := strings.CutPrefix(m.key, "v:")
		value, err := rawjson.Decode([]byte(text))
		if !ok || err != nil {
			return Unknown
		}
		raw, err := rawjson.Encode(value)
		if err != nil {
			return Unknown
		}
		if !values[string(raw)] {
			return Drifted
		}
	}
	return Owned
}

// checkItems is check for a list whose items have keys. What an item lacks of its keys is a default.
func (k *Checker) checkItems(kind, path string, wanted []any, found []member) Verdict {
	if len(found) != len(wanted) {
		return Drifted
	}
	type item struct {
		keys map[string]any
		used bool
	}
	items := make([]item, len(found))
	for i, m := range found {
		keys, ok := itemKeys(m.key)
		if !ok {
			return Unknown
		}
		items[i].keys = keys
	}
	verdict := Owned
	for _, value := range wanted {
		o, ok := value.(map[string]any)
		if !ok {
			return Drifted
		}
		fit := -1
		for i := range items {
			if items[i].used || !fits(o, items[i].keys) {
				continue
			}
			if fit >= 0 {
				return Unknown // which of them, depends on a default
			}
			fit = i
		}
		if fit < 0 {
			return Drifted
		}
		items[fit].used = true
		verdict = worse(verdict, k.check(kind, path+"\x00*", withKeys(o, items[fit].keys, found[fit].fields), found[fit].fields))
		if verdict == Drifted {
			return Drifted
		}
	}
	return verdict
}

// withKeys returns an item with those of its keys that it lacks, as far as the manager owns them.
func withKeys(item, keys map[string]any, fields []byte) map[string]any {
	whole := item
	for name, value := range keys {
		if _, has := item[name]; has {
			continue
		}
		if _, owned := rawjson.Find(fields, "f:"+name); !owned {
			continue
		}
		if len(whole) == len(item) {
			whole = make(map[string]any, len(item)+len(keys))
			for name, value := range item {
				whole[name] = value
			}
		}
		whole[name] = value
	}
	return whole
}

// fits reports whether an item has the given keys, or lacks them.
func fits(item, keys map[string]any) bool {
	for name, value := range keys {
		if have, has := item[name]; has && !rawjson.Equal(have, value) {
			return false
		}
	}
	return true
}

// member is one of the fields below another one.
type member struct {
	key    string // with its prefix
	fields []byte
}

// membersOf returns the fields below another one, without the one that stands for that itself.
func membersOf(fields []byte) (all []member) {
	rawjson.EachMember(fields, func(quoted, value []byte) bool { // what is no object has none
		if key := rawjson.Unquote(quoted); key != "." {
			all = append(all, member{key, value})
		}
		return true
	})
	return all
}

// itemKeys returns the keys of an item of a list.
func itemKeys(key string) (keys map[string]any, ok bool) {
	text, ok := strings.CutPrefix(key, "k:")
	if !ok {
		return nil, false
	}
	keys, err := rawjson.DecodeObject([]byte(text))
	return keys, err == nil && len(keys) > 0
}
