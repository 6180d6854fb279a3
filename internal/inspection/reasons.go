package inspection

import (
	"fmt"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/decision"
)

// Criterion is what a value has to be.
type Criterion struct {
	Literal   any
	Present   bool   // whether it only has to be there
	Absent    bool   // whether it has to be absent
	Predicate string // the place of a function that decides; "" for none
}

// String returns what a value has to be, after its name.
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

// Filtered is a value that a filter does not let pass.
type Filtered struct {
	Subject string // such as "label env"
	Before  bool   // whether it is the value of before the change
	Value   any
	Present bool // whether there is a value
	Want    Criterion
}

// String says what the value is, and what it has to be.
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

// CauseName returns what has happened, for a sentence.
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

// Outlook is how the handlers of changes go on that are for an object.
type Outlook struct {
	Handlers int           // that are for it
	Due      int           // that are called now
	Done     bool          // whether all have finished
	Wait     time.Duration // until the next attempt, if none is due
}

// Decision says what is to be done with an object, as a sentence without its end.
func Decision(a decision.Action, o Outlook) string {
	switch a.Kind {
	case decision.End:
		return "nothing: no finalizer holds the object, so that it is gone"
	case decision.Skip:
		return "nothing: no handler of changes is for the object"
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
			return "no handler is for the " + what + ", which is noted as handled"
		case o.Done:
			return "all handlers for the " + what + " have finished, which is noted"
		case o.Due == 0:
			return "nothing now: the next attempt for the " + what + " is in " + Age(o.Wait)
		default:
			return "the handlers for the " + what + " are called"
		}
	}
	return "nothing now"
}

// Progress is how far one handler is that is for the change.
type Progress struct {
	Success, Failure bool
	Stopped          time.Time
	Waiting          bool          // whether it waits for its sub-handlers
	Wait             time.Duration // until it is due; 0 for now
	Exhausted        error         // why it may not be called any more
	After            string        // the handler that is called before it by the lifecycle; "" if it is called now
	Renewed          bool          // whether it has finished for an earlier state
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

// Explain fills in whether a handler is called, and why, by its attempts and its error.
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

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}
