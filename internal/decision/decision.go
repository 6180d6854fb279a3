// Package decision decides what is to be done with an object. The decision is a function of what is known of the object: the object's worker observes
// that in a cycle, and the prefilter in the bytes of an event.
package decision

import "time"

// Reason is what has happened to an object. The reasons are those of kopf.Reason, and some for which no handler is called.
type Reason string

// The reasons.
const (
	Create Reason = "create" // the object was never handled before
	Update Reason = "update" // it differs from what was last handled
	Delete Reason = "delete" // it is marked for deletion, and a finalizer blocks that
	Resume Reason = "resume" // it was there before the operator, and has not changed since it was last handled

	Noop Reason = "noop" // nothing that we track has changed
	Free Reason = "free" // marked for deletion, and no longer held by our finalizer
	Gone Reason = "gone" // deleted
)

// Snapshot is what a decision depends on. It is observed in stages, because the later ones cost something.
type Snapshot struct {
	Stage Stage // up to which the fields are known

	EventFacts
	TaskFacts
	StateFacts
}

// Stage is how much is known of an object.
type Stage int

// The stages.
const (
	EventObserved Stage = iota
	TasksObserved
	StateObserved
)

// EventFacts are known from the newest event and what is remembered of the object.
type EventFacts struct {
	Superseded bool          // whether nothing of the event counts any more
	Stopping   bool          // whether the operator begins nothing any more
	Deleted    bool          // whether the event says that the object is gone
	Deleting   bool          // whether it is being deleted
	ErrorPause time.Duration // left of the pause after an error
	Released   bool          // whether the object is known to have gone, as the operator has removed the last finalizer, and the event is from before that
	Recreated  bool          // the same, but the event is from after that
	Finalized  bool          // whether it has the operator's finalizer
	Legacy     bool          // whether it has a finalizer of an older operator
	Predates   bool          // whether another replica may have handled it since
}

// TaskFacts are known when the daemons and timers of the object have begun or were asked to stop.
type TaskFacts struct {
	Held    bool          // whether they need the finalizer
	Members bool          // whether the object has children without an owner reference, which are to be deleted before it goes
	Backoff time.Duration // left of the slowing down after write conflicts
}

// StateFacts are known when the object was compared with what was last handled of it.
type StateFacts struct {
	Relevant       bool          // whether handlers of changes are for it
	Required       bool          // whether one of them needs the finalizer
	OptionalDelete bool          // whether one of them is for deletions without needing the finalizer
	TooLarge       bool          // whether its state was too large to be stored
	Outdated       bool          // whether it is from before our own patch
	Awaited        time.Duration // for how long that is awaited to come back
	Stored         bool          // whether it was handled ever
	Changed        bool          // whether it differs from that
	Initial        bool          // whether it was there before the operator, and was not handled since
	Resumes        bool          // whether a handler may be called for that, or a record be left
	InProgress     bool          // whether a handling has begun that may have left records
	StoredOutdated bool          // whether what is stored is of other fields than those that are tracked now
	DeleteHandled  bool          // whether its deletion was handled
}

// Action is what is to be done with an object.
type Action struct {
	Kind    Kind
	Wait    time.Duration // of Pause, BackOff and Await
	Reason  Reason        // why, of Handle, Unchanged and End
	Initial bool          // of these, whether handlers of the resuming are called with the others
}

// Kind is the kind of an action.
type Kind int

// The kinds of actions.
const (
	Observe         Kind = iota // more is to be known first
	Drop                        // nothing: what is begun later will see what has become of it
	End                         // all that is known of the object ends with it
	Ignore                      // nothing: the event is late, and what was still to be sent is pointless
	Confirm                     // ask whether the object is really there again
	Pause                       // nothing, until a pause after an error is over
	BackOff                     // nothing, until a pause after write conflicts is over
	RemoveLegacy                // remove the finalizers of an older operator
	AddFinalizer                // add the operator's
	RemoveFinalizer             // remove it
	DeleteMembers               // delete the children that have no owner reference, and let the object go when they are gone
	Skip                        // nothing: no handler of changes is for the object, or can be
	Await                       // nothing, until our own patch has come back
	Refetch                     // ask for the object, because our own patch has not come back in time
	Unchanged                   // nothing: the object is as it was handled
	Handle                      // call the handlers of the reason
)

// Decide returns what is to be done with an object of which so much is known: the first rule that fits.
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

// handle returns what is to be done with an object that handlers of changes are for, and which is up to date.
func (s *Snapshot) handle() Action {
	reason, initial := s.Reason()
	unchanged := false
	switch {
	case reason == Free && s.OptionalDelete && !s.DeleteHandled:
		reason = Delete // another client holds the object, so there is time for handlers that need not hold it
	case reason == Free:
		unchanged = true
	case reason == Noop: // a change was taken back, whose records are to go, or a state is to be renewed
		unchanged = !s.InProgress && !s.StoredOutdated
	case reason == Resume:
		unchanged = !s.Resumes
	}
	if unchanged {
		return Action{Kind: Unchanged, Reason: reason, Initial: initial}
	}
	a := Action{Kind: Handle, Reason: reason, Initial: initial}
	if reason == Resume { // of which another replica stores nothing
		return a
	}
	return s.current(a)
}

// current returns an action that changes the object, or that it is to be asked for before that, because it may be of another state.
func (s *Snapshot) current(a Action) Action {
	if s.Predates {
		return Action{Kind: Refetch}
	}
	return a
}

// Reason returns what has happened to the object, and whether handlers of the resuming are called with the others: a creation is never mixed
// with a resuming.
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
