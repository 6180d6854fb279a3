package kopf

import (
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/metrics"
)

// This file knows what becomes of objects that are gone, or not served any more, without an event that says so.

// sweep makes up the deletions that happened while no stream was open: of the objects of a source which its complete listing has not shown.
func (q *queue) sweep(from *source, round uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || from.closed {
		return
	}
	for _, s := range q.entries {
		if s.listing >= from.listing || from.namespace != "" && s.in.name != from.namespace || s.objectState != nil && s.deleted {
			continue
		}
		switch s.presence {
		case present:
			q.tellDeletedLocked(s, round)
		case unserved: // its worker leaves nothing to be done
			s.presence = gone
		}
	}
	q.concludeLocked(from.namespace, round)
}

// tellDeletedLocked gives an object the event of its deletion, which no stream has brought.
func (q *queue) tellDeletedLocked(s *entry, round uint64) {
	ref := s.ref()
	body, err := NewBody(map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind,
		"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace, "uid": ref.UID, "resourceVersion": s.version},
	})
	if err == nil { // strings are always JSON
		q.giveLocked(s, RawEvent{Type: Deleted, Body: body}, round)
	}
}

// absentee is an object that was forgotten because it is not served. It ends when the object is served again, or turns out to be gone.
type absentee struct {
	ref     ObjectReference
	version string
	tell    bool  // whether its deletion is to be told
	kept    *kept // nil if there is nothing
}

// kept is what is remembered of the work on an object while it is not served.
type kept struct {
	unsent        *unsent
	seen          *handlingState
	overflow      uint64
	expected      string
	expectedUntil time.Duration
}

// leaveLocked remembers what is still to be done of an object that is forgotten, if there is anything.
func (q *queue) leaveLocked(s *entry, tell bool) {
	was := absentee{ref: s.ref(), version: s.version, tell: tell}
	if working := s.objectState != nil && s.working; s.named && !working { // what its worker has is known when that ends
		k := kept{expected: s.expected, expectedUntil: s.expectedUntil}
		if s.objectState != nil {
			k.unsent, k.seen, k.overflow = s.unsent, s.seen, s.overflow
		}
		if k.unsent != nil || k.seen != nil || k.overflow != 0 || k.expected != "" {
			was.kept = &k
		}
	}
	if tell || was.kept != nil {
		q.absent[s.key] = was
	}
}

// takeUp gives an object that is served again what was remembered of it.
func (s *entry) takeUp(was absentee) {
	k := was.kept
	if k == nil {
		return
	}
	s.expected, s.expectedUntil = k.expected, k.expectedUntil
	if k.unsent != nil || k.seen != nil || k.overflow != 0 {
		s.activateLocked()
		s.unsent, s.seen, s.overflow, s.inProgress = k.unsent, k.seen, k.overflow, k.unsent != nil || k.seen != nil
	}
}

// conclude tells the deletions of the objects that were forgotten and are gone: all of a namespace, or of all.
func (q *queue) conclude(namespace string, round uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.concludeLocked(namespace, round)
	}
}

func (q *queue) concludeLocked(namespace string, round uint64) {
	for _, s := range q.entries {
		if s.presence == unserved && (namespace == "" || s.in.name == namespace) {
			s.presence = gone // its worker leaves nothing to be done
		}
	}
	for key, was := range q.absent {
		if namespace != "" && was.ref.Namespace != namespace {
			continue
		}
		delete(q.absent, key)
		if !was.tell {
			continue
		}
		s := q.entries[key]
		if s == nil {
			s = q.addLocked(key, was.ref, false)
			s.version = was.version
			q.known.Add(metrics.Objects, -1)
		}
		if s.presence != reporting {
			s.presence = ending
			q.tellDeletedLocked(s, round)
		}
	}
}

// leftNamespaces returns the namespaces of objects that were forgotten, but for those that are served.
func (q *queue) leftNamespaces(served map[string]bool) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []string
	for _, was := range q.absent {
		if space := was.ref.Namespace; !served[space] && !slices.Contains(left, space) {
			left = append(left, space)
		}
	}
	return left
}

// endLocked has the worker of an object that has gone tell that, and nothing else.
func (q *queue) endLocked(s *entry) {
	q.known.Add(metrics.Objects, -1)
	if s.presence = ending; len(s.events) == 0 { // the worker has taken the event
		s.presence = reporting
	}
}

// forget drops the objects of a namespace, or all, because they are not served any more. Those with workers are dropped when these end, so that
// no other worker can begin with them before, even if they are served again. Those are absent from then on whose deletions are to be told, and those
// with something that could not be sent.
func (q *queue) forget(namespace string, tell bool) {
	q.mu.Lock()
	var left []*entry
	for _, s := range q.entries {
		if namespace != "" && s.in.name != namespace || s.presence != present {
			continue
		}
		left = append(left, s)
		if s.objectState != nil && s.deleted { // which is being told, or will be next
			q.endLocked(s)
			continue
		}
		q.leaveLocked(s, tell)
		if s.objectState != nil {
			q.stopTimerLocked(s)
			s.events, s.woken = nil, false
		}
		if s.objectState != nil && s.working {
			q.dismissLocked(s, unserved)
		} else {
			q.dismissLocked(s, gone)
		}
	}
	q.mu.Unlock()
	for _, s := range left {
		q.passed(s)
		q.left(s)
	}
}
