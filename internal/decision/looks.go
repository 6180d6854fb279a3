package decision

import (
	"hash/maphash"
	"sync"
	"time"
)

// Verdict is the part of a decision about one handler.
type Verdict uint8

// The verdicts. They must fit into four bits.
const (
	Unlooked     Verdict = iota // the decision did not depend on the handler
	Called                      // it is called; or, if it is not a change handler, it matches
	Succeeded                   // it has finished before
	Failed                      // it has failed permanently, or has no attempts left
	Delayed                     // its next attempt is later
	After                       // the lifecycle calls another handler first
	OtherCause                  // it is for another cause
	ByLabel                     // a label does not match
	ByAnnotation                // an annotation does not match
	ByField                     // the value of its field does not match
	NotChanged                  // its field has not changed
	ByOldValue                  // the old value of its field does not match
	ByNewValue                  // the new value of its field does not match
	ByPredicate                 // its predicate returned false
	Panicked                    // its predicate panicked
	NotNow                      // no handlers are called for the object
)

var verdictTexts = [...]string{"", "called", "has succeeded", "has failed permanently", "its next attempt is later", "waits for another handler", "for another cause", "a label does not fit", "an annotation does not fit",
	"the value of its field does not fit", "its field has not changed", "the former value of its field does not fit", "the new value of its field does not fit", "its predicate is false", "its predicate has panicked", "nothing is called now"}

// String returns the verdict as text.
func (v Verdict) String() string { return verdictTexts[v&15] }

// maxVerdicts is the maximum number of verdicts in a [Look].
const maxVerdicts = 80

// Look is a recorded decision. It has 64 bytes, and no pointers.
type Look struct {
	at     int64  // time in nanoseconds since 1970
	object uint64 // hash of the object's key
	wait   uint32 // in milliseconds
	kind   uint8
	reason uint8
	n      uint8 // number of verdicts
	quick  bool
	all    [maxVerdicts / 2]byte // two verdicts per byte
}

// At returns the time of the decision.
func (l *Look) At() time.Time { return time.Unix(0, l.at) }

// Action returns the action.
func (l *Look) Action() Action {
	return Action{Kind: Kind(l.kind), Reason: reasons[l.reason], Wait: time.Duration(l.wait) * time.Millisecond}
}

// Quick reports whether the prefilter made the decision, from the bytes of the event.
func (l *Look) Quick() bool { return l.quick }

// Verdicts returns the verdicts of the first handlers, in order.
func (l *Look) Verdicts() []Verdict {
	all := make([]Verdict, l.n)
	for i := range all {
		all[i] = Verdict(l.all[i/2] >> (4 * (i % 2)) & 15)
	}
	return all
}

// reasons are all reasons, to be stored as indices.
var reasons = [...]Reason{"", Create, Update, Delete, Resume, Noop, Free, Gone}

// Looks holds the last decisions about objects. It is safe for concurrent use. Nil records nothing.
type Looks struct {
	limit int
	seed  maphash.Seed

	mu   sync.Mutex // guards following
	ring []Look     // grows up to its limit, exactly
	next int        // index of the oldest, when it is full
}

// NewLooks returns a buffer for a number of decisions, or nil for 0.
func NewLooks(limit int) *Looks {
	if limit <= 0 {
		return nil
	}
	return &Looks{limit: limit, seed: maphash.MakeSeed()}
}

// Add records a decision about the object with a key. With quick, the prefilter made it, and there are no verdicts.
func (s *Looks) Add(key string, a Action, quick bool, verdicts []Verdict) {
	l := Look{at: time.Now().UnixNano(), object: maphash.String(s.seed, key), kind: uint8(a.Kind), quick: quick, wait: uint32(min(a.Wait.Milliseconds(), 1<<32-1))}
	for i, r := range reasons {
		if r == a.Reason {
			l.reason = uint8(i)
		}
	}
	for i, v := range verdicts[:min(len(verdicts), maxVerdicts)] {
		l.all[i/2] |= byte(v&15) << (4 * (i % 2))
		l.n++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < s.limit {
		if len(s.ring) == cap(s.ring) {
			s.ring = append(make([]Look, 0, min(s.limit, max(2*len(s.ring), 64))), s.ring...)
		}
		s.ring = append(s.ring, l)
		return
	}
	s.ring[s.next] = l
	s.next = (s.next + 1) % s.limit
}

// Of returns the decisions about the object with a key, newest first.
func (s *Looks) Of(key string) (all []Look) {
	if s == nil {
		return nil
	}
	object := maphash.String(s.seed, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ring {
		if l := &s.ring[(s.next+len(s.ring)-1-i)%len(s.ring)]; l.object == object {
			all = append(all, *l)
		}
	}
	return all
}
