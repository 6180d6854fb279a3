package inspection

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// State is how far the handling of an object is.
type State string

// The states.
const (
	Handled  State = "Handled"  // it is as it was last handled
	Changed  State = "Changed"  // it differs from that, and no handler has begun
	Handling State = "Handling" // handlers have begun, without an error
	Retrying State = "Retrying" // a handler has failed, and is called again
	Failed   State = "Failed"   // a handler has failed permanently in this handling
	Deleting State = "Deleting" // its deletion was asked for
	Paused   State = "Paused"   // the operator pauses for a peer, and has something to do
	Unknown  State = "Unknown"  // no operator has stored anything
)

// failing reports whether a handler fails in this state.
func (s State) failing() bool { return s == Retrying || s == Failed }

// Status is how far an operator is with an object. The names of its fields in JSON are stable.
type Status struct {
	Object
	Operator   string          `json:"operator"` // the prefix of what the operator has stored
	State      State           `json:"state"`
	Done       int             `json:"done"`               // handlers of this handling that have finished
	All        int             `json:"all"`                // handlers of this handling, as far as they are known
	Attempts   int             `json:"attempts,omitempty"` // of the handler with the most
	Next       *time.Time      `json:"nextAttempt,omitempty"`
	Error      string          `json:"error,omitempty"` // the last one
	Created    time.Time       `json:"creationTimestamp,omitzero"`
	Finalizers []string        `json:"finalizers,omitempty"` // that hold it, if its deletion was asked for
	PausedFor  string          `json:"pausedFor,omitempty"`
	Handlers   []HandlerStatus `json:"handlers,omitempty"`
	From       string          `json:"from,omitempty"`     // "conditions" if the operator stores nothing else
	Problems   []string        `json:"problems,omitempty"` // what is damaged of what is stored

	OneOfSeveral bool `json:"-"` // whether other operators have stored something on the object, too
}

// HandlerStatus is the record of one handler.
type HandlerStatus struct {
	ID       string     `json:"id"`
	State    State      `json:"state"` // Handled if it has succeeded
	Purpose  string     `json:"purpose,omitempty"`
	Attempts int        `json:"attempts"`
	Started  *time.Time `json:"started,omitempty"`
	Next     *time.Time `json:"nextAttempt,omitempty"`
	Error    string     `json:"error,omitempty"`
}

// Failing reports whether handlers fail, also those of a deletion, and those of an operator that pauses.
func (s *Status) Failing() bool {
	return s.State.failing() || slices.ContainsFunc(s.Handlers, func(h HandlerStatus) bool { return h.State.failing() })
}

// Facts are what is known of an object besides the records of its handlers.
type Facts struct {
	Stored   bool // whether the object was handled ever
	Changed  bool // whether it differs from that
	Deleting bool
}

// Conclude fills in what follows from the records and the facts.
func (s *Status) Conclude(f Facts) {
	if s.State = Unknown; f.Stored {
		s.State = Handled
	}
	if f.Changed {
		s.State = Changed
	}
	done := 0
	for _, h := range s.Handlers {
		if s.Attempts = max(s.Attempts, h.Attempts); h.State == Handled || h.State == Failed {
			done++
		}
		if h.Next != nil && (s.Next == nil || h.Next.Before(*s.Next)) {
			s.Next = h.Next
		}
		s.State = worst(s.State, h.State)
	}
	for _, h := range s.Handlers {
		if h.State == s.State && s.Error == "" {
			s.Error = h.Error
		}
	}
	s.Done, s.All = max(s.Done, done), max(s.All, done, len(s.Handlers))
	switch {
	case f.Deleting:
		s.State = Deleting
	case s.PausedFor != "" && s.State != Handled && s.State != Unknown:
		s.State = Paused
	}
}

// worst returns the state of an object with handlers in two states.
func worst(a, b State) State {
	if b == Handled { // one of several, as there are records
		b = Handling
	}
	order := []State{Unknown, Handled, Changed, Handling, Retrying, Failed}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// Condition is one of an object's conditions.
type Condition struct {
	Type, Status, Reason, Message string
	ObservedGeneration            int64
}

// FromConditions fills in what the conditions say of an object on which nothing else is stored, and reports whether they say anything.
func (s *Status) FromConditions(conditions []Condition, generation int64) bool {
	find := func(kind string) *Condition {
		i := slices.IndexFunc(conditions, func(c Condition) bool { return c.Type == kind })
		if i < 0 {
			return nil
		}
		return &conditions[i]
	}
	ready, reconciling, stalled := find("Ready"), find("Reconciling"), find("Stalled")
	isTrue := func(c *Condition) bool { return c != nil && c.Status == "True" }
	said := ready
	switch {
	case isTrue(stalled):
		s.State, said = Failed, stalled
	case ready == nil:
		return false
	case isTrue(reconciling) && reconciling.Reason == "Retrying":
		s.State, said = Retrying, reconciling
	case ready.Status == "True":
		s.State, s.Done = Handled, 1
	default:
		s.State = Handling
	}
	s.From, s.All = "conditions", 1
	switch {
	case said.ObservedGeneration > 0 && said.ObservedGeneration < generation: // they are of an older state
		s.State, s.Done = Changed, 0
	case s.State != Handled:
		s.Error = strings.TrimSuffix(strings.TrimPrefix(said.Reason+": "+said.Message, ": "), ": ")
	}
	return true
}

// row returns the cells of a status.
func (s *Status) row(now time.Time, withKind bool) []string {
	name := s.Name
	if withKind {
		name = strings.ToLower(s.Kind) + "/" + name
	}
	if s.OneOfSeveral {
		name += " (" + s.Operator + ")"
	}
	failure := s.Error
	switch {
	case s.State == Deleting:
		failure = strings.TrimSuffix("held by "+cmp.Or(strings.Join(s.Finalizers, ", "), "nothing")+": "+s.Error, ": ")
	case s.State == Paused:
		failure = "for " + s.PausedFor
	case s.From != "":
		failure = strings.TrimSuffix("by its "+s.From+": "+failure, ": ")
	case len(s.Problems) > 0 && failure == "":
		failure = s.Problems[0]
	}
	return []string{s.Namespace, name, string(s.State), fraction(s.Done, s.All), count(s.Attempts), until(s.Next, now), cutError(failure), age(s.Created, now)}
}

// handlerRow returns the cells of a handler below its object.
func (h *HandlerStatus) row(now time.Time) []string {
	state := string(h.State)
	if h.State == Handled {
		state = "Succeeded"
	}
	started := time.Time{}
	if h.Started != nil {
		started = *h.Started
	}
	return []string{"", "  " + h.ID, "  " + state, h.Purpose, count(h.Attempts), until(h.Next, now), cutError(h.Error), age(started, now)}
}

// maxError is the length at which errors are cut in tables, in bytes.
const maxError = 100

// Digest differs if anything that is shown of an object does.
type Digest [sha256.Size]byte

// DigestOf returns the digest of an object's statuses.
func DigestOf(all []*Status) Digest {
	data, _ := json.Marshal(all) // which holds for what it is made of
	return sha256.Sum256(data)
}
