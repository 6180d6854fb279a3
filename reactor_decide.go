package kopf

import "time"

// This file decides what is to be done with an object, and does nothing of it. The worker of an object asks it, and the prefilter, on the
// goroutine of the stream, for objects that are idle.

// snapshot is what a decision depends on. It is observed in stages, because the later ones cost something.
type snapshot struct {
	stage observationStage // up to which the fields are known

	eventFacts
	taskFacts
	stateFacts
}

// observationStage is how much is known of an object.
type observationStage int

const (
	eventObserved observationStage = iota
	tasksObserved
	stateObserved
)

// eventFacts are known from the newest event and what is remembered of the object.
type eventFacts struct {
	superseded bool          // whether nothing of the event counts any more
	stopping   bool          // whether the operator begins nothing any more
	deleted    bool          // whether the object is gone
	deleting   bool          // whether it is being deleted
	errorPause time.Duration // left of the pause after an error
	released   bool          // whether the operator has removed the last finalizer, and the event is from before that
	recreated  bool          // the same, but the event is from after that
	finalized  bool          // whether it has the operator's finalizer
	legacy     bool          // whether it has a finalizer of an older operator
}

// taskFacts are known when the daemons and timers of the object have begun or were asked to stop.
type taskFacts struct {
	held    bool          // whether they need the finalizer
	backoff time.Duration // left of the slowing down after write conflicts
}

// stateFacts are known when the object was compared with what was last handled of it.
type stateFacts struct {
	relevant       bool          // whether handlers of changes are for it
	required       bool          // whether one of them needs the finalizer
	optionalDelete bool          // whether one of them is for deletions without needing the finalizer
	tooLarge       bool          // whether its state was too large to be stored
	outdated       bool          // whether it is from before our own patch
	awaited        time.Duration // for how long that is awaited to come back
	stored         bool          // whether it was handled ever
	changed        bool          // whether it differs from that
	initial        bool          // whether it was there before the operator, and was not handled since
	resumes        bool          // whether a handler may be called for that, or a record be left
	inProgress     bool          // whether a handling has begun that may have left records
	storedOutdated bool          // whether what is stored is of other fields than those that are tracked now
	deleteHandled  bool          // whether its deletion was handled
}

// matched notes that a handler of changes is for the object.
func (s *stateFacts) matched(h *handler) {
	s.relevant = true
	s.required = s.required || h.kind == kindDelete && !h.optional
	s.optionalDelete = s.optionalDelete || h.kind == kindDelete && h.optional
}

// action is what is to be done with an object.
type action struct {
	kind    actionKind
	wait    time.Duration // of actionPause, actionBackOff and actionAwait
	reason  Reason        // why, of actionHandle and actionUnchanged
	initial bool          // of these, whether handlers of the resuming are called with the others
}

// actionKind is the kind of an action.
type actionKind int

const (
	actionObserve         actionKind = iota // more is to be known first
	actionDrop                              // nothing: what is begun later will see what has become of it
	actionEnd                               // all that is known of the object ends with it
	actionIgnore                            // nothing: the event is late, and what was still to be sent is pointless
	actionConfirm                           // ask whether the object is really there again
	actionPause                             // nothing, until a pause after an error is over
	actionBackOff                           // nothing, until a pause after write conflicts is over
	actionRemoveLegacy                      // remove the finalizers of an older operator
	actionAddFinalizer                      // add the operator's
	actionRemoveFinalizer                   // remove it
	actionSkip                              // nothing: no handler of changes is for the object, or can be
	actionAwait                             // nothing, until our own patch has come back
	actionRefetch                           // ask for the object, because our own patch has not come back in time
	actionUnchanged                         // nothing: the object is as it was handled
	actionHandle                            // call the handlers of the reason
)

// decide returns what is to be done with an object of which so much is known: the first rule that fits.
func decide(s *snapshot) action {
	switch {
	case s.superseded:
		return action{kind: actionDrop}
	case s.deleted:
		return action{kind: actionEnd, reason: ReasonGone}
	case s.errorPause > 0:
		return action{kind: actionPause, wait: s.errorPause}
	case s.stopping:
		return action{kind: actionDrop}
	case s.released:
		return action{kind: actionIgnore}
	case s.recreated:
		return action{kind: actionConfirm}
	case s.legacy:
		return action{kind: actionRemoveLegacy}
	case s.stage < tasksObserved:
		return action{kind: actionObserve}
	case s.backoff > 0:
		return action{kind: actionBackOff, wait: s.backoff}
	case s.stage < stateObserved:
		return action{kind: actionObserve}
	}
	required := s.required || s.held
	switch {
	case required && !s.finalized && !s.deleting:
		return action{kind: actionAddFinalizer}
	case !required && s.finalized:
		return action{kind: actionRemoveFinalizer}
	case !s.relevant, s.tooLarge && !s.deleting:
		return action{kind: actionSkip}
	case s.outdated && s.awaited > 0:
		return action{kind: actionAwait, wait: s.awaited}
	case s.outdated:
		return action{kind: actionRefetch}
	}
	return s.handle()
}

// handle returns what is to be done with an object that handlers of changes are for, and which is up to date.
func (s *snapshot) handle() action {
	reason, initial := s.reason()
	unchanged := false
	switch {
	case reason == ReasonFree && s.optionalDelete && !s.deleteHandled:
		reason = ReasonDelete // another client holds the object, so there is time for handlers that need not hold it
	case reason == ReasonFree:
		unchanged = true
	case reason == ReasonNoop: // a change was taken back, whose records are to go, or a state is to be renewed
		unchanged = !s.inProgress && !s.storedOutdated
	case reason == ReasonResume:
		unchanged = !s.resumes
	}
	if unchanged {
		return action{kind: actionUnchanged, reason: reason, initial: initial}
	}
	return action{kind: actionHandle, reason: reason, initial: initial}
}

// reason returns what has happened to the object, and whether handlers of the resuming are called with the others: a creation is never mixed
// with a resuming.
func (s *snapshot) reason() (reason Reason, initial bool) {
	switch {
	case s.deleted:
		return ReasonGone, s.initial
	case s.deleting && !s.finalized:
		return ReasonFree, s.initial
	case s.deleting:
		return ReasonDelete, s.initial
	case !s.stored:
		return ReasonCreate, false
	case s.changed:
		return ReasonUpdate, s.initial
	case s.initial:
		return ReasonResume, true
	}
	return ReasonNoop, false
}
