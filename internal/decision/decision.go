// Package decision decides how to handle an object. The decision is a pure function of a [Snapshot]. The object's worker takes the snapshot in a cycle, and the
// prefilter takes it from the bytes of an event.
package decision

import "time"

// Reason is the cause of a change. The reasons are those of kopf.Reason, and some for which no handler is called.
type Reason string

// The reasons.
const (
	Create Reason = "create" // never handled before
	Update Reason = "update" // changed since the last handling
	Delete Reason = "delete" // marked for deletion, which a finalizer blocks
	Resume Reason = "resume" // it existed before the operator started, and has not changed since the last handling

	Noop Reason = "noop" // no tracked field has changed
	Free Reason = "free" // marked for deletion, without kopf's finalizer
	Gone Reason = "gone" // deleted
)

// Snapshot is the input of a decision. It is taken in stages, because the later ones are expensive.
type Snapshot struct {
	Stage Stage // the fields up to this stage are set

	EventFacts
	TaskFacts
	StateFacts
}

// Stage says which fields of a snapshot are set.
type Stage int

// The stages.
const (
	EventObserved Stage = iota
	TasksObserved
	StateObserved
)

// EventFacts come from the newest event and from the memory of the object.
type EventFacts struct {
	Superseded bool          // the event is irrelevant now
	Stopping   bool          // the operator is shutting down
	Deleted    bool          // the object is deleted
	Deleting   bool          // the object is being deleted
	ErrorPause time.Duration // remaining backoff after an error
	Released   bool          // the operator has removed the last finalizer, and the event precedes that
	Recreated  bool          // the operator has removed the last finalizer, and the event follows that
	Finalized  bool          // it has kopf's finalizer
	Legacy     bool          // it has a legacy finalizer of the operator
	Predates   bool          // another replica may have handled it since
}

// TaskFacts are known after the daemons and timers of the object were started or stopped.
type TaskFacts struct {
	Held    bool          // they need the finalizer
	Members bool          // the object has children without an owner reference, which must be deleted first
	Backoff time.Duration // remaining backoff after write conflicts
}

// StateFacts are known after comparing the object with its last-handled state.
type StateFacts struct {
	Relevant       bool          // change handlers match it
	Required       bool          // one of them needs the finalizer
	OptionalDelete bool          // one of them is for deletions, but does not need the finalizer
	TooLarge       bool          // its state was too large to store
	Outdated       bool          // it precedes the operator's own patch
	Awaited        time.Duration // remaining time to wait for that patch
	Stored         bool          // it was handled before
	Changed        bool          // it has changed since the last handling
	Initial        bool          // it existed before the operator started, and was not handled since
	Resumes        bool          // a handler may be called for that, or progress may be left
	InProgress     bool          // handling has begun, and may have left progress
	StoredOutdated bool          // the stored state has other fields than the tracked ones
	DeleteHandled  bool          // its deletion was handled
}

// Action is the result of a decision.
type Action struct {
	Kind    Kind
	Wait    time.Duration // for Pause, BackOff and Await
	Reason  Reason        // for Handle, Unchanged and End
	Initial bool          // with Reason: resume handlers are called, too
}

// Kind is the kind of an action.
type Kind int

// The kinds of actions.
const (
	Observe         Kind = iota // more facts are needed
	Drop                        // nothing: a later cycle will handle it
	End                         // forget the object
	Ignore                      // nothing: the event is outdated, and pending writes are dropped
	Confirm                     // check whether the object exists again
	Pause                       // nothing until the backoff after an error is over
	BackOff                     // nothing until the backoff after write conflicts is over
	RemoveLegacy                // remove the legacy finalizers
	AddFinalizer                // add kopf's finalizer
	RemoveFinalizer             // remove kopf's finalizer
	DeleteMembers               // delete the children without an owner reference, and then remove the finalizer
	Skip                        // nothing: no change handler matches the object, or can
	Await                       // nothing until the operator's own patch has come back
	Refetch                     // read the object, because that patch has not come back in time
	Unchanged                   // nothing: the object was handled
	Handle                      // call the handlers for the reason
)

// Decide returns the action for a snapshot. The first matching rule wins.
func Decide(s *Snapshot) Action {
	switch {
	case s.Superseded:
		return Action{Kind: Drop}
	case s.Deleted:
		return Action{Kind: End, Reason: Gone}
	case s.ErrorPause > 0:
		return Action{Kind: Pause, Wait: s.ErrorPause}
	case s.Stopping:
		return Action{Kind: Drop}
	case s.Released:
		return Action{Kind: Ignore}
	case s.Recreated:
		return Action{Kind: Confirm}
	case s.Legacy:
		return s.current(Action{Kind: RemoveLegacy})
	case s.Stage < TasksObserved:
		return Action{Kind: Observe}
	case s.Backoff > 0:
		return Action{Kind: BackOff, Wait: s.Backoff}
	case s.Stage < StateObserved:
		return Action{Kind: Observe}
	}
	required := s.Required || s.Held || s.Members
	switch {
	case required && !s.Finalized && !s.Deleting:
		return s.current(Action{Kind: AddFinalizer})
	case !required && s.Finalized:
		return s.current(Action{Kind: RemoveFinalizer})
	case !s.Relevant && s.Members && s.Deleting && !s.Held:
		return s.current(Action{Kind: DeleteMembers})
	case !s.Relevant, s.TooLarge && !s.Deleting:
		return Action{Kind: Skip}
	case s.Outdated && s.Awaited > 0:
		return Action{Kind: Await, Wait: s.Awaited}
	case s.Outdated:
		return Action{Kind: Refetch}
	}
	return s.handle()
}

// handle returns the action for an object that is up to date and has change handlers.
func (s *Snapshot) handle() Action {
	reason, initial := s.Reason()
	unchanged := false
	switch {
	case reason == Free && s.OptionalDelete && !s.DeleteHandled:
		reason = Delete // another finalizer blocks the deletion, so there is time for optional handlers
	case reason == Free:
		unchanged = true
	case reason == Noop: // a change was reverted, so its progress must be removed, or the state must be stored again
		unchanged = !s.InProgress && !s.StoredOutdated
	case reason == Resume:
		unchanged = !s.Resumes
	}
	if unchanged {
		return Action{Kind: Unchanged, Reason: reason, Initial: initial}
	}
	a := Action{Kind: Handle, Reason: reason, Initial: initial}
	if reason == Resume { // for which another replica stores nothing
		return a
	}
	return s.current(a)
}

// current returns the action, or Refetch if the object may be outdated.
func (s *Snapshot) current(a Action) Action {
	if s.Predates {
		return Action{Kind: Refetch}
	}
	return a
}

// Reason returns the cause of the change, and whether resume handlers are called as well. A creation never includes resuming.
func (s *Snapshot) Reason() (reason Reason, initial bool) {
	switch {
	case s.Deleted:
		return Gone, s.Initial
	case s.Deleting && !s.Finalized:
		return Free, s.Initial
	case s.Deleting:
		return Delete, s.Initial
	case !s.Stored:
		return Create, false
	case s.Changed:
		return Update, s.Initial
	case s.Initial:
		return Resume, true
	}
	return Noop, false
}
