package kopf

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/flapping"
	"github.com/kopf-go/kopf/internal/metrics"
)

// This file makes snapshots of objects for the decisions of internal/decision, which are pure functions. The prefilter makes the same snapshots from the
// bytes of an event. It also detects update conflicts, which slow the handling down.

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

// cycleConflict is the state of a cycle for the detection of update conflicts.
type cycleConflict struct {
	first   bool // whether there was no handling before
	recent  bool // whether the operator's last patch is recent
	counted bool // whether the cycle has repeated its former changes
}

// conflictBackoff returns the delay of an object whose fields change again and again: the operator and another client alternate, or the operator reacts to
// its own changes.
func (c *cycle) conflictBackoff() time.Duration {
	c.endConflict()
	if w := c.entry.state.conflict; w != nil && !c.event.Body.deleting {
		return w.Pause()
	}
	return 0
}

// endConflict ends the update conflict if its time is over.
func (c *cycle) endConflict() {
	if w := c.entry.state.conflict; w.Remaining() == 0 {
		if c.entry.state.conflict = nil; w.Slowed() {
			c.log.Info("The update conflict is over")
		}
	}
}

// wasPatchedRecently reports whether the operator has recently changed more than its own data on the object.
func (c *cycle) wasPatchedRecently() bool {
	return c.entry.last.changedByUs && c.reactor.clock()-c.entry.last.expectedUntil < flapping.Window-c.served.persistence.ConsistencyTimeout
}

// detectConflict checks whether the last changes repeat former ones, because another client has reverted those, or because of the operator's own changes.
func (c *cycle) detectConflict(before *Body, patches []*handlerPatch, sent *Patch) {
	e, settings := c.entry, &c.reactor.settings.Queueing
	e.last.changedByUs = e.last.changedByUs || len(patches) > 0 || e.last.handled // the first finalizer does not count
	if e.state.conflict == nil {
		if !c.conflict.recent || settings.FlappingRounds <= 0 {
			return
		}
		e.state.conflict = flapping.New()
	}
	old, now := c.conflictFields(before), c.conflictFields(c.knownBody())
	diff := diffJSON(old, now)
	var changes []flapping.Change
	for _, item := range diff {
		changes = append(changes, flapping.Change{Path: item.Path, New: item.New, Ours: sent.changes.Touches(item.Path)})
	}
	repeats := c.conflict.first || slices.ContainsFunc(patches, func(p *handlerPatch) bool { return !p.change })
	found, foreign := e.state.conflict.Observe(old, now, changes, repeats)
	if len(found) == 0 || c.conflict.counted { // handlers may change a field several times in one cycle
		return
	}
	c.conflict.counted = true
	if first := e.state.conflict.Count(settings.FlappingRounds, settings.FlappingPause); first {
		var conflicting Diff
		for _, i := range found {
			conflicting = append(conflicting, diff[i])
		}
		c.reportConflict(before, conflicting, foreign)
	}
}

// conflictFields returns the fields of the object without kopf's own data, and the finalizers.
func (c *cycle) conflictFields(body *Body) map[string]any {
	fields := essenceOf(body, []FieldPath{"status"}, c.served.persistence).Map()
	fields["metadata.finalizers"] = body.Get("metadata.finalizers")
	return fields
}

// reportConflict warns of fields that change again and again, and names the writers.
func (c *cycle) reportConflict(before *Body, conflicting Diff, foreign bool) {
	fields := ""
	for _, item := range conflicting {
		fields += " " + strings.Join(item.Path, ".")
	}
	reason, text, writers := "ChangedByItself", "The operator changes these fields again and again because of its own changes:", ""
	if foreign {
		writers = strings.Join(flapping.Writers(before.Get("metadata.managedFields"), conflicting[0].Path), ", ")
		reason, text = "ChangedBack", "The operator and "+cmp.Or(writers, "another client")+" change these fields in turns:"
	}
	text += fields + ". The handling of the object is slowed down while that goes on."
	var values Diff // confidential in Secrets
	if r := c.served.resource; r.Group != "" || r.Plural != "secrets" {
		values = conflicting
	}
	c.reactor.meter.Add(metrics.WriteConflicts, 1)
	c.log.Warn("Fields of the object are changed again and again; slowing down its handling", "fields", strings.TrimSpace(fields), "managers", writers, "differences", values, "help", "K401")
	c.reactor.events.post(slog.LevelWarn, before.Reference(), EventWarning, reason, text)
}
