package decision

import (
	"hash/maphash"
	"sync"
	"time"
)

// Verdict is what a look at an object has come to for one handler.
type Verdict uint8

// The verdicts. There are no more than fit into four bits.
const (
	Unlooked     Verdict = iota // the decision did not depend on the handler
	Called                      // it is called, or for the object, if it is none of changes
	Succeeded                   // it has finished before
	Failed                      // it has failed permanently, or has used up its attempts
	Delayed                     // its next attempt is later
	After                       // another handler is called before it
	OtherCause                  // it is for another cause
	ByLabel                     // a label does not fit
	ByAnnotation                // an annotation does not fit
	ByField                     // the value of its field does not fit
	NotChanged                  // its field has not changed
	ByOldValue                  // the former value of its field does not fit
	ByNewValue                  // the new value of its field does not fit
	ByPredicate                 // its predicate is false
	Panicked                    // a predicate of it has panicked
	NotNow                      // nothing is called for the object
)

var verdictTexts = [...]string{"", "called", "has succeeded", "has failed permanently", "its next attempt is later", "waits for another handler", "for another cause", "a label does not fit", "an annotation does not fit",
	"the value of its field does not fit", "its field has not changed", "the former value of its field does not fit", "the new value of its field does not fit", "its predicate is false", "its predicate has panicked", "nothing is called now"}

// String returns the verdict for people.
func (v Verdict) String() string { return verdictTexts[v&15] }

// maxVerdicts is how many handlers are kept of one look.
const maxVerdicts = 80

// Look is what one look at an object has come to. It has 64 bytes, and refers to nothing.
type Look struct {
	at     int64  // in nanoseconds since 1970
	object uint64 // a hash of its key
	wait   uint32 // in milliseconds
	kind   uint8
	reason uint8
	n      uint8 // of the verdicts
	quick  bool
	all    [maxVerdicts / 2]byte // two verdicts each
}

// At returns when the look was.
func (l *Look) At() time.Time { return time.Unix(0, l.at) }

// Action returns the decision.
func (l *Look) Action() Action {
	return Action{Kind: Kind(l.kind), Reason: reasons[l.reason], Wait: time.Duration(l.wait) * time.Millisecond}
}

// Quick reports whether the bytes of the event alone have shown that there is nothing to do.
func (l *Look) Quick() bool { return l.quick }

// Verdicts returns what has become of the handlers, in their order; of those beyond the first ones nothing is kept.
func (l *Look) Verdicts() []Verdict {
	all := make([]Verdict, l.n)
	for i := range all {
		all[i] = Verdict(l.all[i/2] >> (4 * (i % 2)) & 15)
	}
	return all
}

// reasons are all that there are, to be kept as numbers.
var reasons = [...]Reason{"", Create, Update, Delete, Resume, Noop, Free, Gone}

// Looks keeps the last decisions about objects. It is for any goroutine; nil keeps none.
type Looks struct {
	limit int
	seed  maphash.Seed

	mu   sync.Mutex // guards following
	ring []Look     // grows up to the limit, and takes no more than that
	next int        // the oldest, when it is full
}

// NewLooks returns what keeps so many decisions; nil for none.
func NewLooks(limit int) *Looks {
	if limit <= 0 {
		return nil
	}
	return &Looks{limit: limit, seed: maphash.MakeSeed()}
}

// Add keeps a decision about the object with a key. The look is quick if there are no verdicts because the bytes of the event have sufficed.
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

// Of returns the decisions about the object with a key, the newest first.
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
