package inspection

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/progressrecord"
)

// Criterion is a condition for a value.
type Criterion struct {
	Literal   any
	Present   bool   // any value
	Absent    bool   // no value
	Predicate string // place of a predicate function; "" for none
}

// String returns the condition, to follow the name of the value.
func (c Criterion) String() string {
	switch {
	case c.Predicate != "":
		return " by " + c.Predicate
	case c.Present:
		return " present"
	case c.Absent:
		return " absent"
	}
	return " = " + Value(c.Literal)
}

// Filtered is a value that a filter rejects.
type Filtered struct {
	Subject string // such as "label env"
	Before  bool   // the value before the change
	Value   any
	Present bool // there is a value
	Want    Criterion
}

// String returns a sentence with the value and its condition.
func (f Filtered) String() string {
	is := f.Subject + " is "
	if f.Before {
		is = f.Subject + " was "
	}
	value := "absent"
	if f.Present {
		value = Value(f.Value)
	}
	switch {
	case f.Want.Predicate != "":
		return f.Want.Predicate + " is false for " + f.Subject + ", which" + strings.TrimPrefix(is, f.Subject) + value
	case f.Want.Present:
		return is + value + ", and is to be present"
	case f.Want.Absent:
		return is + value + ", and is to be absent"
	}
	return is + value + ", " + Value(f.Want.Literal) + " is wanted"
}

// CauseName returns the cause as part of a sentence.
func CauseName(r decision.Reason) string {
	switch r {
	case decision.Create:
		return "creation"
	case decision.Update:
		return "update"
	case decision.Delete:
		return "deletion"
	case decision.Resume:
		return "resuming"
	}
	return "change that was taken back"
}

// Outlook says how the change handlers of an object continue.
type Outlook struct {
	Handlers int           // all that match
	Due      int           // to call now
	Done     bool          // all have finished
	Wait     time.Duration // until the next attempt, if none is due
	Others   bool          // whether other handlers are called
}

// Decision describes the action for an object, as a sentence without its full stop.
func Decision(a decision.Action, o Outlook) string {
	switch a.Kind {
	case decision.End:
		return "nothing: no finalizer holds the object, so that it is gone"
	case decision.Skip:
		if o.Others {
			return "no change handler matches the object, and other handlers are called"
		}
		return "nothing: no change handler matches the object"
	case decision.DeleteMembers:
		return "the children without an owner reference are deleted before the object may go"
	case decision.Drop, decision.Ignore, decision.Confirm:
		return "nothing: the event is outdated"
	case decision.Pause:
		return "nothing, until the pause after an error is over in " + Age(a.Wait)
	case decision.BackOff:
		return "nothing, until the pause after update conflicts is over in " + Age(a.Wait)
	case decision.RemoveLegacy, decision.RemoveFinalizer:
		return "a finalizer is removed"
	case decision.AddFinalizer:
		return "the finalizer is added before any handler is called"
	case decision.Await:
		return "nothing, until the last patch of the operator has come back"
	case decision.Refetch:
		return "the object is read, because the watch stream is late"
	case decision.Unchanged:
		switch a.Reason {
		case decision.Free:
			return "nothing: the object is being deleted, and the operator does not hold it"
		case decision.Resume:
			return "nothing: the object is as it was last handled, and no handler is called when the operator starts"
		}
		return "nothing: the object is as it was last handled"
	case decision.Handle:
		switch what := CauseName(a.Reason); {
		case o.Handlers == 0:
			return "no handler matches the " + what + ", so only the last handled state is stored"
		case o.Done:
			return "all handlers for the " + what + " have finished, so the last handled state is stored"
		case o.Due == 0:
			return "nothing now: the next attempt for the " + what + " is in " + Age(o.Wait)
		default:
			return "the handlers for the " + what + " are called"
		}
	}
	return "nothing now"
}

// Progress is the progress of one handler of the change.
type Progress struct {
	Success, Failure bool
	Stopped          time.Time
	Waiting          bool          // waits for its sub-handlers
	Wait             time.Duration // delay; 0 for now
	Exhausted        error         // why there is no further attempt
	After            string        // the handler that the lifecycle calls first; "" if this one is called now
	Renewed          bool          // finished for an earlier state
	Cause            decision.Reason
}

// verdict returns the kind of the reason why a handler is called or not.
func (p *Progress) verdict() decision.Verdict {
	switch {
	case p.Success:
		return decision.Succeeded
	case p.Failure, p.Wait <= 0 && p.Exhausted != nil:
		return decision.Failed
	case p.Wait > 0:
		return decision.Delayed
	case p.After != "":
		return decision.After
	}
	return decision.Called
}

// Explain sets whether and why a handler is called, from its attempts and its error.
func (h *Handler) Explain(p Progress, now time.Time) {
	ago := Age(now.Sub(p.Stopped)) + " ago"
	h.Verdict = p.verdict()
	switch {
	case p.Success:
		h.Why = "has succeeded " + ago
	case p.Failure:
		h.Why = "has failed permanently " + ago + ": " + h.Error
	case p.Wait > 0 && p.Waiting:
		h.Why = "waits for its sub-handlers; it is called again in " + Age(p.Wait)
	case p.Wait > 0:
		if h.Why = "the next attempt is in " + Age(p.Wait); h.Error != "" {
			h.Why += ", after the error: " + h.Error
		}
	case p.Exhausted != nil:
		h.Why = "fails permanently without a call: " + p.Exhausted.Error()
	case p.After != "":
		h.Why = "waits for " + p.After
	case p.Renewed:
		h.Called, h.Why = true, "is called again, because it has not seen the last change"
	case h.Attempts > 0:
		h.Called, h.Why = true, "is called again, after "+attempts(h.Attempts)
	default:
		h.Called, h.Why = true, "is for the "+CauseName(p.Cause)
	}
}

// AddFailures adds the handlers that failed permanently in the last handling, and are not called now.
func (e *Explanation) AddFailures(failed map[string]*progressrecord.Record, now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		r, message := failed[id], ""
		if r.Message != nil {
			message = *r.Message
		}
		ago := Age(now.Sub(r.Stopped)) + " ago"
		i := slices.IndexFunc(e.Handlers, func(h Handler) bool { return h.ID == id && !h.Called && h.Attempts == 0 })
		if i >= 0 {
			h := &e.Handlers[i]
			h.Attempts, h.Error = r.Retries, message
			h.Why = "has failed permanently " + ago + ": " + message + "; now: " + h.Why
		}
		e.Notes = append(e.Notes, "The last call of "+id+" failed permanently "+ago+". The next change that succeeds ends this state: "+message)
	}
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}
