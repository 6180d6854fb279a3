package kopf

import (
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// This file decides what is to be done with an object. The decision is a function of what is known of the object: the object's worker observes
// that in a cycle, and the prefilter in the bytes of an event.

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
	deleted    bool          // whether the event says that the object is gone
	deleting   bool          // whether it is being deleted
	errorPause time.Duration // left of the pause after an error
	released   bool          // whether the object is known to have gone, as the operator has removed the last finalizer, and the event is from before that
	recreated  bool          // the same, but the event is from after that
	finalized  bool          // whether it has the operator's finalizer
	legacy     bool          // whether it has a finalizer of an older operator
	predates   bool          // whether another replica may have handled it since
}

// taskFacts are known when the daemons and timers of the object have begun or were asked to stop.
type taskFacts struct {
	held    bool          // whether they need the finalizer
	members bool          // whether the object has children without an owner reference, which are to be deleted before it goes
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
	s.required = s.required || h.kind == kindDelete && !h.changes.optional
	s.optionalDelete = s.optionalDelete || h.kind == kindDelete && h.changes.optional
}

// action is what is to be done with an object.
type action struct {
	kind    actionKind
	wait    time.Duration // of actionPause, actionBackOff and actionAwait
	reason  Reason        // why, of actionHandle, actionUnchanged and actionEnd
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
	actionDeleteMembers                     // delete the children that have no owner reference, and let the object go when they are gone
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
		return action{kind: actionEnd, reason: reasonGone}
	case s.errorPause > 0:
		return action{kind: actionPause, wait: s.errorPause}
	case s.stopping:
		return action{kind: actionDrop}
	case s.released:
		return action{kind: actionIgnore}
	case s.recreated:
		return action{kind: actionConfirm}
	case s.legacy:
		return s.current(action{kind: actionRemoveLegacy})
	case s.stage < tasksObserved:
		return action{kind: actionObserve}
	case s.backoff > 0:
		return action{kind: actionBackOff, wait: s.backoff}
	case s.stage < stateObserved:
		return action{kind: actionObserve}
	}
	required := s.required || s.held || s.members
	switch {
	case required && !s.finalized && !s.deleting:
		return s.current(action{kind: actionAddFinalizer})
	case !required && s.finalized:
		return s.current(action{kind: actionRemoveFinalizer})
	case !s.relevant && s.members && s.deleting && !s.held:
		return s.current(action{kind: actionDeleteMembers})
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
	case reason == reasonFree && s.optionalDelete && !s.deleteHandled:
		reason = ReasonDelete // another client holds the object, so there is time for handlers that need not hold it
	case reason == reasonFree:
		unchanged = true
	case reason == reasonNoop: // a change was taken back, whose records are to go, or a state is to be renewed
		unchanged = !s.inProgress && !s.storedOutdated
	case reason == ReasonResume:
		unchanged = !s.resumes
	}
	if unchanged {
		return action{kind: actionUnchanged, reason: reason, initial: initial}
	}
	a := action{kind: actionHandle, reason: reason, initial: initial}
	if reason == ReasonResume { // of which another replica stores nothing
		return a
	}
	return s.current(a)
}

// current returns an action that changes the object, or that it is to be asked for before that, because it may be of another state.
func (s *snapshot) current(a action) action {
	if s.predates {
		return action{kind: actionRefetch}
	}
	return a
}

// reason returns what has happened to the object, and whether handlers of the resuming are called with the others: a creation is never mixed
// with a resuming.
func (s *snapshot) reason() (reason Reason, initial bool) {
	switch {
	case s.deleted:
		return reasonGone, s.initial
	case s.deleting && !s.finalized:
		return reasonFree, s.initial
	case s.deleting:
		return ReasonDelete, s.initial
	case !s.stored:
		return ReasonCreate, false
	case s.changed:
		return ReasonUpdate, s.initial
	case s.initial:
		return ReasonResume, true
	}
	return reasonNoop, false
}

// decide observes the object as far as the decision needs it, and returns that.
func (c *cycle) decide() action {
	s := &snapshot{}
	c.observeEvent(s)
	a := decide(s)
	if a.kind == actionObserve {
		c.observeTasks(s)
		a = decide(s)
	}
	if a.kind == actionObserve {
		c.observeState(s)
		a = decide(s)
	}
	return a
}

// observeEvent notes what is known from the event and what is remembered of the object.
func (c *cycle) observeEvent(s *snapshot) {
	e, body := c.entry.state, c.event.Body
	s.superseded, s.deleted, s.stopping = c.superseded(), c.event.Type == Deleted, c.handlers.Err() != nil
	if s.superseded || s.deleted {
		return
	}
	if body.deleting && !e.end.deleting { // which waits for nothing that was wrong before
		e.end.deleting, e.retry.pausedUntil, e.retry.errors, e.retry.conflicts = true, time.Time{}, 0, 0
	}
	if s.errorPause = time.Until(e.retry.pausedUntil); s.errorPause <= 0 && !e.retry.pausedUntil.IsZero() {
		e.retry.pausedUntil = time.Time{}
		if e.retry.errors > 0 { // otherwise it was for conflicts
			c.log.Debug("Repeating the processing of the object after an error")
		}
	}
	s.predates = c.reactor.queue.predates(c.entry, body.version)
	p := c.served.persistence
	finalizers := body.Finalizers()
	s.deleting, s.finalized = body.Deleting(), slices.Contains(finalizers, p.Finalizer)
	s.legacy = slices.ContainsFunc(finalizers, func(f string) bool { return slices.Contains(p.LegacyFinalizers, f) })
	s.released = e.end.goneVersion != "" && apirequest.NewerVersion(e.end.goneVersion, body.version)
	s.recreated = e.end.goneVersion != "" && !s.released
}

// observeTasks has the daemons and timers of the object begin, or asks them to stop, and looks how write conflicts go on.
func (c *cycle) observeTasks(s *snapshot) {
	s.stage = tasksObserved
	s.held, s.members = c.spawnTasks(), c.isParent()
	s.backoff = c.conflictBackoff()
}

// maxAwaited is how long an object is not asked for while its stream goes on: a stream after a restore of the server from a backup would never bring what is
// awaited.
const maxAwaited = 2 * time.Minute

// observeState compares the object with what was last handled of it.
func (c *cycle) observeState(s *snapshot) {
	s.stage = stateObserved
	c.cause = Change{Object: c.object(c.event.Body)}
	c.matchHandlers(&c.cause, s)
	if !s.relevant {
		return
	}
	e := c.entry
	if s.tooLarge = e.state.handling.overflow != 0 && e.state.handling.overflow == c.states.essence.digest(); s.tooLarge {
		c.log.Debug("The state of the object is still too large to be stored")
	}
	if !s.tooLarge || s.deleting {
		e.state.handling.overflow = 0
	}
	if s.outdated = c.outdated(); s.outdated {
		timeout, left := c.served.persistence.ConsistencyTimeout, e.last.expectedUntil-c.reactor.clock()
		s.awaited = max(left, min(c.reactor.queue.awaits(e, e.last.expected, timeout), left-timeout+maxAwaited))
		return
	}
	c.retrack()
	s.stored, s.storedOutdated = c.states.before != nil, c.states.storedOutdated
	s.changed = s.stored && !s.deleting && !c.states.before.Equal(c.states.essence)
	s.initial, s.resumes = e.listed && !e.last.handled, true
	s.inProgress, s.deleteHandled = e.state.handling.inProgress, e.state.handling.deleteHandled
}

// matchHandlers notes whether any handler of changes is for the object, and what these need.
func (c *cycle) matchHandlers(cause *Change, s *snapshot) {
	if len(c.served.changes) == 0 {
		return
	}
	c.compareWithBase()
	cause.Old, cause.New = c.states.before.View(), c.states.essence.View()
	for _, h := range c.served.changes {
		if h.preMatches(cause) {
			s.matched(h)
		}
	}
}
