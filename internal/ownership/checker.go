package ownership

import (
	"hash/maphash"
	"sync"
)

// Result is the result of a check.
type Result int

// The results of a check.
const (
	Unknown Result = iota // only an apply can show whether anything differs
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

// Checker checks objects. It caches facts about the schema of each kind that managed fields do not show: which maps and lists are atomic, so that an entry
// stops there, and which fields no entry ever names. The zero value is ready to use, and safe for concurrent use. Its memory is bounded.
type Checker struct {
	mu    sync.RWMutex            // guards all below
	kinds map[typeMeta]*kindFacts // from responses to applies
	facts int                     // number of facts of all kinds
}

type typeMeta struct{ apiVersion, kind string }

// kindFacts are the facts about a kind.
type kindFacts struct {
	ends     map[uint64]bool     // by path hash: entries end there, though the configuration continues
	accepted map[uint64]struct{} // hashes of digests and fields that count as owned
	vanish   map[uint64]struct{} // by path hash: empty maps that objects do not keep, though entries name them
}

// maxFacts is the maximum number of facts of all kinds, of about 20 bytes each. Beyond it, all are dropped, and learned again.
const maxFacts = 1 << 16

// seed prevents clients from provoking hash collisions.
var seed = maphash.MakeSeed()

// Learn learns facts about the kind from the response to an apply, and returns the later result of [Checker.Check]. The fields and the apiVersion must come
// from that response, in which no other writer can have taken a field.
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
	if same && !w.unsure && len(fields) > 0 && apiVersion == c.apiVersion { // the common case, without a second pass
		return Owned
	}
	return k.Check(c, c.digest, fields, apiVersion)
}

// note stores facts about the kind.
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

// Accept stores that an apply of the configuration results in these fields. Use it if the check is inconclusive even after such an apply.
func (k *Checker) Accept(c *Configuration, fields []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pair := pairHash(c, fields)
	if _, known := k.factsOf(c).accepted[pair]; !known {
		k.grow(c).accepted[pair] = struct{}{}
	}
}

// Forget drops the facts about a kind whose definition has changed.
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

// Check reports whether an object is as an apply of the configuration leaves it, from the digest in its annotation and from the result of [FieldsOf] for its
// managed fields.
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

// pairHash returns a hash of a configuration and fields.
func pairHash(c *Configuration, fields []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(c.digest) // never fails
	_, _ = h.Write(fields)
	return h.Sum64()
}
