package inspection

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
)

// State is the handling state of an object.
type State string

// The states.
const (
	Handled  State = "Handled"  // unchanged since the last handling
	Changed  State = "Changed"  // changed since then, and no handler has begun
	Handling State = "Handling" // handlers have begun, without an error
	Retrying State = "Retrying" // a handler has failed and will be retried
	Failed   State = "Failed"   // a handler has failed permanently for this change
	Deleting State = "Deleting" // it has a deletion timestamp
	Paused   State = "Paused"   // the operator pauses for a peer, and the object needs handling
	Unknown  State = "Unknown"  // no operator has stored anything on it
)

// failing reports whether a handler fails in this state.
func (s State) failing() bool { return s == Retrying || s == Failed }

// Status is the handling status of an object for one operator. The names of its fields in JSON are stable.
type Status struct {
	Object
	Operator   string          `json:"operator"` // prefix of the operator's annotations
	State      State           `json:"state"`
	Done       int             `json:"done"`               // finished handlers of this change
	All        int             `json:"all"`                // all handlers of this change, as far as known
	Attempts   int             `json:"attempts,omitempty"` // largest number of one handler
	Next       *time.Time      `json:"nextAttempt,omitempty"`
	Error      string          `json:"error,omitempty"` // last error
	Created    time.Time       `json:"creationTimestamp,omitzero"`
	Finalizers []string        `json:"finalizers,omitempty"` // blocking its deletion
	PausedFor  string          `json:"pausedFor,omitempty"`
	Handlers   []HandlerStatus `json:"handlers,omitempty"`
	From       string          `json:"from,omitempty"`     // "conditions" if that is all that the operator stores
	Problems   []string        `json:"problems,omitempty"` // damaged values

	OneOfSeveral bool     `json:"-"` // other operators have stored something, too
	Reconciles   []string `json:"-"` // the handlers that share the conditions, if the state is from these
}

// HandlerStatus is the progress of one handler.
type HandlerStatus struct {
	ID       string     `json:"id"`
	State    State      `json:"state"` // Handled after success
	Purpose  string     `json:"purpose,omitempty"`
	Attempts int        `json:"attempts"`
	Started  *time.Time `json:"started,omitempty"`
	Next     *time.Time `json:"nextAttempt,omitempty"`
	Error    string     `json:"error,omitempty"`
	Stopped  time.Time  `json:"-"` // zero while it is in progress
	Former   bool       `json:"-"` // it failed in an earlier handling
}

// Failing reports whether handlers fail, including those of a deletion, and those of a paused operator.
func (s *Status) Failing() bool {
	return s.State.failing() || slices.ContainsFunc(s.Handlers, func(h HandlerStatus) bool { return h.State.failing() })
}

// Facts are known about an object in addition to the handler progress.
type Facts struct {
	Stored   bool // the object was ever handled
	Changed  bool // it has changed since
	Deleting bool
}

// Conclude sets the fields that follow from the progress and the facts.
func (s *Status) Conclude(f Facts) {
	if s.State = Unknown; f.Stored {
		s.State = Handled
	}
	if f.Changed {
		s.State = Changed
	}
	done, all := 0, 0
	handling := f.Changed || f.Deleting || slices.ContainsFunc(s.Handlers, func(h HandlerStatus) bool { return !h.Former })
	for _, h := range s.Handlers {
		if !h.Former || !handling {
			all++
			if h.State == Handled || h.State == Failed {
				done++
			}
		}
		s.Attempts = max(s.Attempts, h.Attempts)
		if h.Next != nil && (s.Next == nil || h.Next.Before(*s.Next)) {
			s.Next = h.Next
		}
		s.State = worst(s.State, h.State)
	}
	s.Error = s.lastError(f.Deleting)
	s.Done, s.All = max(s.Done, done), max(s.All, all)
	switch {
	case f.Deleting:
		s.State = Deleting
	case s.PausedFor != "" && s.State != Handled && s.State != Unknown:
		s.State = Paused
	}
}

// lastError returns the error of a handler in retry, otherwise of the last one that failed
// permanently. Only handlers of deletions block a deletion.
func (s *Status) lastError(deleting bool) string {
	var last *HandlerStatus
	for i := range s.Handlers {
		h := &s.Handlers[i]
		if h.Error != "" && h.State.failing() && (!deleting || h.Purpose == "delete") && (last == nil || h.isLater(last)) {
			last = h
		}
	}
	if last == nil {
		return ""
	}
	return last.Error
}

// isLater reports whether a handler failed after another one, as far as known.
func (h *HandlerStatus) isLater(other *HandlerStatus) bool {
	if h.State != other.State {
		return h.State == Retrying
	}
	return h.Stopped.After(other.Stopped)
}

// worst returns the state of an object whose handlers have two states.
func worst(a, b State) State {
	if b == Handled { // one of several with progress
		b = Handling
	}
	order := []State{Unknown, Handled, Changed, Handling, Retrying, Failed}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// Condition is a status condition of an object.
type Condition struct {
	Type, Status, Reason, Message string
	ObservedGeneration            int64
}

// FromConditions sets the fields from the conditions of an object without any stored progress. It reports whether the conditions were sufficient.
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
	case said.ObservedGeneration > 0 && said.ObservedGeneration < generation: // they describe an older generation
		s.State, s.Done = Changed, 0
	case s.State != Handled:
		s.Error = strings.TrimSuffix(strings.TrimPrefix(said.Reason+": "+said.Message, ": "), ": ")
	}
	return true
}

// row returns the table cells of a status, with errors of limited length.
func (s *Status) row(now time.Time, withKind bool, limit int) []string {
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
	case s.From != "" && s.State != Handled:
		failure = strings.TrimSuffix("by its "+s.From+": "+failure, ": ")
	case len(s.Problems) > 0 && failure == "":
		failure = s.Problems[0]
	}
	return []string{s.Namespace, name, string(s.State), fraction(s.Done, s.All), count(s.Attempts), until(s.Next, now), cut.Middle(failure, limit), age(s.Created, now)}
}

// handlerRows returns the table cells of the handlers, shown below their object.
func (s *Status) handlerRows(now time.Time) (rows [][]string) {
	for i := range s.Handlers {
		rows = append(rows, s.Handlers[i].row(now))
	}
	if len(s.Reconciles) > 0 {
		shared := HandlerStatus{ID: strings.Join(s.Reconciles, ", "), State: s.State, Purpose: "reconcile", Error: s.Error}
		rows = append(rows, shared.row(now))
	}
	return rows
}

func (h *HandlerStatus) row(now time.Time) []string {
	state := string(h.State)
	if h.State == Handled {
		state = "Succeeded"
	}
	started := time.Time{}
	if h.Started != nil {
		started = *h.Started
	}
	return []string{"", "  " + h.ID, "  " + state, h.Purpose, count(h.Attempts), until(h.Next, now), cut.Middle(h.Error, maxWideError), age(started, now)}
}

// The maximum lengths of errors in tables, in bytes. Longer ones are cut in the middle, because the
// reason is often at the end, after a path.
const (
	maxError     = 100
	maxWideError = 2048 // more than handlers store, and less than conditions may have
)

// Digest identifies the printed values of an object.
type Digest [sha256.Size]byte

// DigestOf returns the digest of an object's statuses.
func DigestOf(all []*Status) Digest {
	data, _ := json.Marshal(all) // cannot fail for these types
	return sha256.Sum256(data)
}
