package kopf

import (
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/decision"
)

// This file makes snapshots of objects for the decisions of internal/decision, which are pure functions. The prefilter makes the same snapshots from the
// bytes of an event.

// decide makes the snapshot in stages, as far as the decision needs it, and returns the decision.
func (c *cycle) decide() decision.Action {
	s := &decision.Snapshot{}
	c.observeEvent(s)
	a := decision.Decide(s)
	if a.Kind == decision.Observe {
		c.observeTasks(s)
		a = decision.Decide(s)
	}
	if a.Kind == decision.Observe {
		c.observeState(s)
		a = decision.Decide(s)
	}
	return a
}

// observeEvent adds the facts from the event and from memory.
func (c *cycle) observeEvent(s *decision.Snapshot) {
	e, body := c.entry.state, c.event.Body
	s.Superseded, s.Deleted, s.Stopping = c.superseded(), c.event.Type == Deleted, c.handlers.Err() != nil
	if s.Superseded || s.Deleted {
		return
	}
	if body.deleting && !e.end.deleting { // a deletion waits for no earlier failures
		e.end.deleting, e.retry.pausedUntil, e.retry.errors, e.retry.conflicts = true, time.Time{}, 0, 0
	}
	if s.ErrorPause = time.Until(e.retry.pausedUntil); s.ErrorPause <= 0 && !e.retry.pausedUntil.IsZero() {
		e.retry.pausedUntil = time.Time{}
		if e.retry.errors > 0 { // otherwise the pause was for conflicts
			c.log.Debug("Repeating the processing of the object after an error")
		}
	}
	s.Predates = c.reactor.queue.predates(c.entry, body.version)
	p := c.served.persistence
	finalizers := body.Finalizers()
	s.Deleting, s.Finalized = body.Deleting(), slices.Contains(finalizers, p.Finalizer)
	s.Legacy = slices.ContainsFunc(finalizers, func(f string) bool { return slices.Contains(p.LegacyFinalizers, f) })
	s.Released = e.end.goneVersion != "" && apirequest.NewerVersion(e.end.goneVersion, body.version)
	s.Recreated = e.end.goneVersion != "" && !s.Released
}

// observeTasks starts and stops the daemons and timers of the object, and checks write conflicts.
func (c *cycle) observeTasks(s *decision.Snapshot) {
	s.Stage = decision.TasksObserved
	s.Held, s.Members = c.spawnTasks(), c.isParent()
	s.Backoff = c.conflictBackoff()
}

// maxAwaited is how long to wait for an expected version while the stream is active, before reading the object. After a restore of the API server from a
// backup, the version would never come.
const maxAwaited = 2 * time.Minute

// observeState compares the object with its last-handled configuration.
func (c *cycle) observeState(s *decision.Snapshot) {
	s.Stage = decision.StateObserved
	c.cause = Change{Object: c.object(c.event.Body)}
	c.matchHandlers(&c.cause, s)
	if !s.Relevant {
		return
	}
	e := c.entry
	if s.TooLarge = e.state.handling.overflow != 0 && e.state.handling.overflow == c.states.essence.digest(); s.TooLarge {
		c.log.Debug("The state of the object is still too large to be stored")
	}
	if !s.TooLarge || s.Deleting {
		e.state.handling.overflow = 0
	}
	if s.Outdated = c.outdated(); s.Outdated {
		timeout, left := c.served.persistence.ConsistencyTimeout, e.last.expectedUntil-c.reactor.clock()
		s.Awaited = max(left, min(c.reactor.queue.awaits(e, e.last.expected, timeout), left-timeout+maxAwaited))
		return
	}
	c.retrack()
	s.Stored, s.StoredOutdated = c.states.before != nil, c.states.storedOutdated
	s.Changed = s.Stored && !s.Deleting && !c.states.before.Equal(c.states.essence)
	s.Initial, s.Resumes = e.listed && !e.last.handled, true
	s.InProgress, s.DeleteHandled = e.state.handling.inProgress, e.state.handling.deleteHandled
}

// matched records that a change handler matches the object.
func matched(s *decision.Snapshot, h *handler) {
	s.Relevant = true
	s.Required = s.Required || h.kind == kindDelete && !h.changes.optional
	s.OptionalDelete = s.OptionalDelete || h.kind == kindDelete && h.changes.optional
}

// matchHandlers records whether any change handler matches the object, and their needs.
func (c *cycle) matchHandlers(cause *Change, s *decision.Snapshot) {
	if len(c.served.changes) == 0 {
		return
	}
	c.compareWithBase()
	cause.Old = cause.Body.viewOf(c.states.before.bytes())
	cause.New = cause.Body.viewOf(c.states.essence.bytes())
	for _, h := range c.served.changes {
		if h.preMatches(cause) {
			matched(s, h)
		}
	}
}
