package ownership

import (
	"hash/maphash"
	"sync"
)

// Result is what a check has found.
type Result int

// The results of a check.
const (
	Unknown Result = iota // an apply has to show whether anything differs
	Owned                 // the object is as applied
	Drifted               // another configuration was applied last, or another client has changed, removed or taken over a field
)

// String returns the name of the constant.
func (r Result) String() string {
	switch r {
	case Owned:
		return "Owned"
	case Drifted:
		return "Drifted"
	}
	return "Unknown"
}

// Checker checks objects. It remembers of each kind what the schema says and managed fields do not: which maps and lists are atomic, so that an entry
// stops there, and which fields no entry ever names. The zero value is ready to use, and safe for concurrent use. Its memory is bounded.
type Checker struct {
	mu    sync.RWMutex            // guards all below
	kinds map[typeMeta]*kindFacts // as answers to applies have shown them
	facts int                     // how many there are in all kinds
}

type typeMeta struct{ apiVersion, kind string }

// kindFacts is what is known of a kind.
type kindFacts struct {
	ends     map[uint64]bool     // by the hash of a path: whether entries end there, though the configuration goes on
	accepted map[uint64]struct{} // hashes of digests and fields that count as owned
	vanish   map[uint64]struct{} // by the hash of a path: empty maps that objects do not keep, though entries name them
}

// maxFacts is how many facts of all kinds are kept. They cost about 20 bytes each. When there are more, all are forgotten, and learnt anew.
const maxFacts = 1 << 16

// seed makes the hashes of paths ones that no client can provoke a collision of.
var seed = maphash.MakeSeed()

// Learn takes from the answer to an apply what that shows of the kind, and returns what [Checker.Check] then finds. The fields and the apiVersion must be those
// of the answer itself, in which no other writer can have taken any of the fields.
func (k *Checker) Learn(c *Configuration, fields []byte, apiVersion string) Result {
	w := walker{data: fields, learns: true}
	k.mu.RLock()
	if facts := k.kinds[typeMeta{c.apiVersion, c.kind}]; facts != nil {
		w.known = facts.ends
	}
	same := w.walk(c)
	k.mu.RUnlock()
	if same {
		k.note(c, w.learnt)
	}
	if same && !w.unsure && len(fields) > 0 && apiVersion == c.apiVersion { // most answers, so that they are not gone through twice
		return Owned
	}
	return k.Check(c, c.digest, fields, apiVersion)
}

// note remembers facts of the kind.
func (k *Checker) note(c *Configuration, learnt map[uint64]bool) {
	if len(learnt) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	facts := k.factsOf(c)
	for path, ends := range learnt {
		if _, known := facts.ends[path]; !known {
			facts = k.grow(c)
		}
		facts.ends[path] = ends
	}
}

// Accept remembers that these fields are what an apply of the configuration leaves. It is for configurations about which the check cannot tell
// even after such an apply.
func (k *Checker) Accept(c *Configuration, fields []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pair := pairHash(c, fields)
	if _, known := k.factsOf(c).accepted[pair]; !known {
		k.grow(c).accepted[pair] = struct{}{}
	}
}

// Forget forgets a kind, whose definition has changed.
func (k *Checker) Forget(apiVersion, kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if facts := k.kinds[typeMeta{apiVersion, kind}]; facts != nil {
		k.facts -= len(facts.ends) + len(facts.accepted) + len(facts.vanish)
		delete(k.kinds, typeMeta{apiVersion, kind})
	}
}

// grow makes room for one more fact, and returns the facts of the kind.
func (k *Checker) grow(c *Configuration) *kindFacts {
	if k.facts == maxFacts {
		k.facts, k.kinds = 0, nil
	}
	k.facts++
	return k.factsOf(c)
}

func (k *Checker) factsOf(c *Configuration) *kindFacts {
	key := typeMeta{c.apiVersion, c.kind}
	facts := k.kinds[key]
	if facts == nil {
		facts = &kindFacts{ends: make(map[uint64]bool), accepted: make(map[uint64]struct{}), vanish: make(map[uint64]struct{})}
		if k.kinds == nil {
			k.kinds = make(map[typeMeta]*kindFacts)
		}
		k.kinds[key] = facts
	}
	return facts
}

// Check reports whether an object is as an apply of the configuration leaves it, by the digest in its annotation and by what [FieldsOf] has found
// in its managed fields.
func (k *Checker) Check(c *Configuration, digest string, fields []byte, apiVersion string) Result {
	if digest != c.digest || len(fields) == 0 || apiVersion != c.apiVersion {
		return Drifted
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	facts := k.kinds[typeMeta{c.apiVersion, c.kind}]
	w := walker{data: fields}
	if facts != nil {
		w.known = facts.ends
	}
	same := w.walk(c)
	if same && !w.unsure {
		return Owned
	}
	if facts != nil && len(facts.accepted) > 0 {
		if _, ok := facts.accepted[pairHash(c, fields)]; ok {
			return Owned
		}
	}
	if same {
		return Unknown
	}
	return Drifted
}

// pairHash returns a hash of a configuration and of fields.
func pairHash(c *Configuration, fields []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(c.digest) // it never fails
	_, _ = h.Write(fields)
	return h.Sum64()
}
