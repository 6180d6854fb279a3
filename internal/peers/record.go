package peers

import (
	"time"

	"github.com/kopf-go/kopf/internal/peerrecord"
)

// Step is what is to be done next.
type Step struct {
	Action   Action
	Wait     time.Duration // of Idle: for how long, unless something changes
	Question int           // of CheckNamespace: for [Session.Checked]
}

// Action is what to do in a step.
type Action int

// The actions.
const (
	Idle           Action = iota // nothing
	CheckNamespace               // find out whether the namespace of the missing object is being deleted
	Write                        // write the own record
	RemoveExpired                // remove the records of others that are dead
)

// standbyInterval is how often a replica that stands by looks whether anything is due, without being woken.
const standbyInterval = time.Minute

// Next returns what is to be done next. A replica of the operator that does not hold the Lease of an election writes nothing.
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

// Begin begins an attempt to write the own record. Whatever comes of it, the next one is due when the record has to be renewed; what is seen meanwhile can bring that forward.
func (s *Session) Begin(now time.Time) {
	s.attemptedAt, s.nextWrite, s.attempted = now, now.Add(peerrecord.Interval(s.Lifetime)), s.object
}

// Written notes that the own record was written by the attempt, which was answered with a state of the object.
func (s *Session) Written(now time.Time, state State) {
	s.renewedAt, s.writeErr = s.attemptedAt, nil
	if s.object == s.attempted {
		s.ForgetVersion() // the answer is newer, because nothing else has been seen since it was asked for
	}
	s.See(now, state)
}

// NotFound notes that the own record was not written because there is no peering object.
func (s *Session) NotFound() {
	s.writeErr = nil
	s.Lost("", true)
}

// Failed notes that the own record was not written. If the server may well take it soon, it is tried again after a time; zero means that it will not.
func (s *Session) Failed(err error, after time.Duration) {
	if s.writeErr == nil {
		s.Log.Warn("Writing our record to the peering object failed; retrying", "help", "K207", "error", err)
	}
	if s.writeErr, s.passing = err, after > 0; s.passing {
		s.schedule(s.attemptedAt.Add(after))
	}
}

// Renew has the own record written as soon as possible, and forgets what is known of an earlier one.
func (s *Session) Renew(now time.Time) {
	s.renewedAt, s.writeErr = time.Time{}, nil
	s.schedule(now)
}

// schedule has the own record written at a time, if not before, but no more often than each second.
func (s *Session) schedule(due time.Time) {
	if soonest := s.attemptedAt.Add(time.Second); due.Before(soonest) {
		due = soonest
	}
	if due.Before(s.nextWrite) {
		s.nextWrite = due
	}
}

// TakeExpired returns whose records are dead, to be removed from the version of the object, unless one of them has shown a sign of life meanwhile: then the object has
// another one.
func (s *Session) TakeExpired() (version string, identities []string) {
	if s.object != nil {
		version = s.object.Version
	}
	identities, s.expired = s.expired, nil
	return version, identities
}
