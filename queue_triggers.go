package kopf

import (
	"context"
	"slices"
	"time"
)

// This file knows the reasons to call the reconcile handlers of an object that come from elsewhere than its own events: from its children, from what it watches, and from
// sources. They come on any goroutine, and are taken by the object's worker.

// triggers are the reasons that the worker of an object has not taken yet.
type triggers struct {
	pending []pendingTrigger
	running context.CancelCauseFunc // ends the context of the handler that runs, when the object is deleted; nil if none runs
}

// pendingTrigger is a reason to call one handler.
type pendingTrigger struct {
	handler *handler
	reason  Trigger
	at      time.Time
	routine bool // whether it can wait for what is urgent elsewhere
}

// maxTriggers is how many reasons for one handler are told apart.
const maxTriggers = 16

// trigger has a reconcile handler called for an object, unless it is not known, or was never looked at: then it is going to be called anyway, or does not match.
func (q *queue) trigger(key string, h *handler, reason Trigger) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		q.triggerLocked(e, h, reason, false)
	}
}

// wakeKey has an object looked at again, if it is known.
func (q *queue) wakeKey(key string) {
	q.mu.Lock()
	e := q.entries[key]
	q.mu.Unlock()
	if e != nil {
		q.wake(e)
	}
}

// triggerAll is trigger for all objects, which can wait for the reasons that some objects have, if that is said.
func (q *queue) triggerAll(h *handler, reason Trigger, routine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		q.triggerLocked(e, h, reason, routine)
	}
}

// classLocked notes that an object is due for something, which is urgent or not. A worker that waits for its turn then waits among the urgent ones.
func (q *queue) classLocked(e *entry, routine bool) {
	w := &e.state.work
	if idle := !w.working && !w.woken && len(w.events) == 0 && w.timer == nil; routine && !idle {
		return
	}
	if w.routine = routine; routine || w.turn == nil {
		return
	}
	if w.entered {
		q.limit.Hurry(w.turn)
	} else {
		q.limiter.Hurry(w.turn)
	}
}

func (q *queue) triggerLocked(e *entry, h *handler, reason Trigger, routine bool) {
	if q.closed || e.presence != present || e.state == nil || e.state.work.triggers == nil {
		return
	}
	t := e.state.work.triggers
	known := 0
	for _, p := range t.pending {
		if p.handler == h {
			known++
		}
		if p.handler == h && p.reason == reason {
			known = maxTriggers
			break
		}
	}
	if known < maxTriggers {
		t.pending = append(t.pending, pendingTrigger{h, reason, time.Now(), routine})
	} else {
		t.pending[slices.IndexFunc(t.pending, func(p pendingTrigger) bool { return p.handler == h })].at = time.Now()
	}
	q.classLocked(e, routine)
	e.state.work.woken = true
	q.wakeLocked(e)
}

// takeTriggers returns the reasons that have come. From the first time on, others are kept until the next one.
func (q *queue) takeTriggers(e *entry) []pendingTrigger {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state.work.triggers == nil {
		e.state.work.triggers = &triggers{}
	}
	pending := e.state.work.triggers.pending
	e.state.work.triggers.pending = nil
	return pending
}

// dropTriggers has no reasons kept any more for an object that no reconcile handler is for.
func (q *queue) dropTriggers(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state.work.triggers = nil
}

// setReconciling has a function called when the object is deleted, nil for none.
func (q *queue) setReconciling(e *entry, deleted context.CancelCauseFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := e.state.work.triggers; t != nil {
		t.running = deleted
	}
}

// endReconcilingLocked ends the context of a reconcile handler that runs for an object that is deleted.
func (w *workState) endReconcilingLocked(ev RawEvent) {
	if (ev.Type == Deleted || ev.Body.deleting) && w.triggers != nil && w.triggers.running != nil {
		w.triggers.running(ErrSuperseded)
	}
}

// wakeReconciled has all objects looked at again that reconcile handlers are for.
func (q *queue) wakeReconciled() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if !q.closed && e.presence == present && e.state != nil && e.state.work.triggers != nil {
			e.state.work.woken = true
			q.wakeLocked(e)
		}
	}
}

// deletes reports whether the deletion of an object waits for its worker.
func (q *queue) deletes(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(e.state.work.events, func(ev RawEvent) bool { return ev.Type == Deleted || ev.Body.deleting })
}
