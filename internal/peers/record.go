package peers

import (
	"time"

	"github.com/kopf-go/kopf/internal/peerrecord"
)

// Step is the next action of a keeper.
type Step struct {
	Action   Action
	Wait     time.Duration // for Idle: maximum time until the next step
	Question int           // for CheckNamespace: the argument of [Session.Checked]
}

// Action is the kind of a step.
type Action int

// The actions.
const (
	Idle           Action = iota // nothing
	CheckNamespace               // check whether the namespace of the missing object is being deleted
	Write                        // write the own record
	RemoveExpired                // remove the expired records of others
)

// standbyInterval is how often a replica in standby checks for due actions, unless it is woken.
const standbyInterval = time.Minute

// Next returns the next step. A replica that does not hold the Lease writes nothing.
func (s *Session) Next(now time.Time, holds bool) Step {
	wait := s.nextWrite.Sub(now)
	switch {
	case s.missingSeen != s.missingChecked:
		return Step{Action: CheckNamespace, Question: s.missingSeen}
	case !holds:
		return Step{Wait: standbyInterval}
	case wait <= 0:
		return Step{Action: Write}
	case len(s.expired) > 0:
		return Step{Action: RemoveExpired}
	}
	return Step{Wait: wait}
}

// Begin records the start of a write of the own record, and schedules its next renewal. Later changes in the object can make it due earlier.
func (s *Session) Begin(now time.Time) {
	s.attemptedAt, s.nextWrite, s.attempted = now, now.Add(peerrecord.Interval(s.Lifetime)), s.object
}

// Written records a successful write of the own record, with the state in the response.
func (s *Session) Written(now time.Time, state State) {
	s.renewedAt, s.writeErr = s.attemptedAt, nil
	if s.object == s.attempted {
		s.ForgetVersion() // the response is newer, because no other state was seen since the request
	}
	s.See(now, state)
}

// NotFound records that the write failed because there is no peering object.
func (s *Session) NotFound() {
	s.writeErr = nil
	s.Lost("", true)
}

// Failed records a failed write. If the error is transient, the duration says when to retry. Zero means no retry before the next renewal.
func (s *Session) Failed(err error, after time.Duration) {
	if s.writeErr == nil {
		s.Log.Warn("Writing our record to the peering object failed; retrying", "error", err, "help", "K207")
	}
	if s.writeErr, s.passing = err, after > 0; s.passing {
		s.schedule(s.attemptedAt.Add(after))
	}
}

// Renew schedules a write of the own record as soon as possible, and forgets the earlier writes.
func (s *Session) Renew(now time.Time) {
	s.renewedAt, s.writeErr = time.Time{}, nil
	s.schedule(now)
}

// schedule makes the next write due at a time, if it is not due earlier, but at most once a second.
func (s *Session) schedule(due time.Time) {
	if soonest := s.attemptedAt.Add(time.Second); due.Before(soonest) {
		due = soonest
	}
	if due.Before(s.nextWrite) {
		s.nextWrite = due
	}
}

// TakeExpired returns the identities of expired records, and the version of the object to remove them from. The version prevents the removal of a record that
// was renewed meanwhile.
func (s *Session) TakeExpired() (version string, identities []string) {
	if s.object != nil {
		version = s.object.Version
	}
	identities, s.expired = s.expired, nil
	return version, identities
}
