// Package schedule decides when reconcile handlers, daemons and timers are due for an object: after triggers, after errors, and at fixed times.
package schedule

import (
	"math/rand/v2"
	"time"
)

// Config has the schedule options and settings.
type Config struct {
	Debounce     time.Duration // quiet time before a call, at most ten times that after the first trigger; 0 for none
	Resync       time.Duration // time after a success; 0 for never
	QuickRetries int           // failed calls in a row before their backoff is over until there is a delay for them, too; 0 for no limit
}

// Schedule decides when a handler is due for one object. Its zero value is never due.
type Schedule struct {
	Failures int // in a row

	first, latest time.Time // times of the first and the latest trigger since the last call
	quick         int       // failed calls in a row before the backoff was over
	stalled       bool      // the last call failed permanently
	routine       bool      // all triggers since the last call can wait for urgent work; without triggers, the value of the last call
	ended         time.Time // end of the last call

	// Due times without a trigger; zero for never.
	retryAt, requeueAt, resyncAt time.Time
}

// Note records a trigger.
func (s *Schedule) Note(at time.Time, routine bool) {
	if s.routine = routine && (s.routine || !s.happened()); !s.happened() {
		s.first = at
	}
	s.latest = at
}

// NoteChange records a change of the object, which resets the backoff and earlier failures.
func (s *Schedule) NoteChange(at time.Time, routine bool) {
	s.Note(at, routine)
	s.Failures, s.quick, s.stalled, s.retryAt = 0, 0, false, time.Time{}
}

// happened reports whether there was a trigger since the last call.
func (s *Schedule) happened() bool { return !s.first.IsZero() }

// Due returns when the handler is due, or zero for never.
func (s *Schedule) Due(c Config) time.Time {
	due := earliest(s.retryAt, s.requeueAt, s.resyncAt)
	if !s.happened() {
		return due
	}
	at := s.first
	if c.Debounce > 0 {
		at = earliest(s.latest.Add(c.Debounce), s.first.Add(10*c.Debounce))
	}
	if !s.retryAt.IsZero() && c.QuickRetries > 0 && s.quick >= c.QuickRetries {
		if pause := s.ended.Add(Slowdown(s.quick - c.QuickRetries)); at.Before(pause) {
			at = pause
		}
	}
	return earliest(due, at)
}

// IsDue reports whether the handler is due now.
func (s *Schedule) IsDue(c Config, now time.Time) bool {
	if at := s.Due(c); at.IsZero() || now.Before(at) {
		return false
	}
	s.routine = s.IsRoutine(now)
	return true
}

// IsRoutine reports whether everything due at a time can wait for urgent work. Retries keep the class of the call before.
func (s *Schedule) IsRoutine(then time.Time) bool {
	return s.routine || !s.happened() && !hasCome(s.retryAt, then) && !hasCome(s.requeueAt, then)
}

// Stalled reports whether the last call failed permanently.
func (s *Schedule) Stalled() bool { return s.stalled }

// Routine reports whether the last call was for routine work.
func (s *Schedule) Routine() bool { return s.routine }

// Come reports which of the times have come.
func (s *Schedule) Come(now time.Time) (retry, requeue, resync bool) {
	return hasCome(s.retryAt, now), hasCome(s.requeueAt, now), hasCome(s.resyncAt, now)
}

// IsEarly reports whether the backoff after an error is not over.
func (s *Schedule) IsEarly(now time.Time) bool { return now.Before(s.retryAt) }

// IsSettled reports whether the last call succeeded.
func (s *Schedule) IsSettled() bool { return s.Failures+s.quick == 0 && !s.stalled }

// Begin records the start of a call.
func (s *Schedule) Begin() {
	s.first, s.latest, s.requeueAt, s.resyncAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// Call is the result of a call of the handler.
type Call struct {
	Cancelled    bool // treated as if it was not made
	Failed       bool
	Final        bool          // a failed call is not retried
	Early        bool          // it was made before the backoff was over: its failure does not change the backoff
	Delay        time.Duration // before the retry of a failed call
	RequeueAfter time.Duration // requested by the handler; negative for no request
}

// End records the result of a call, and schedules the next one.
func (s *Schedule) End(call Call, c Config, now time.Time) {
	s.ended = now
	if call.RequeueAfter >= 0 {
		s.requeueAt = now.Add(call.RequeueAfter)
	}
	switch {
	case call.Cancelled:
	case call.Failed && call.Final:
		s.stalled, s.Failures, s.quick, s.retryAt = true, 0, 0, time.Time{}
	case call.Failed && call.Early:
		s.quick++
	case call.Failed:
		s.Failures++
		s.retryAt = now.Add(max(call.Delay, 0))
	default:
		s.stalled, s.Failures, s.quick, s.retryAt = false, 0, 0, time.Time{}
		if c.Resync > 0 {
			s.resyncAt = now.Add(c.Resync + rand.N(c.Resync/10+1))
		}
	}
}

// Ended returns the end of the last call.
func (s *Schedule) Ended() time.Time { return s.ended }

// Revoke forgets that the last call has succeeded, given the number of failures before it.
func (s *Schedule) Revoke(failures int) { s.Failures, s.resyncAt = failures, time.Time{} }

// RetryAt schedules another call at a time.
func (s *Schedule) RetryAt(at time.Time) { s.retryAt = at }

// hasCome reports whether a time is set and has come.
func hasCome(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// earliest returns the first of some times, ignoring zero ones.
func earliest(all ...time.Time) (first time.Time) {
	for _, t := range all {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// Slowdown returns the delay after a number of excess attempts that immediately followed each other.
func Slowdown(excess int) time.Duration { return min(time.Second<<min(excess, 10), time.Minute) }

// Backoff returns the delay after an error, given the number of earlier failures: it grows from about the base up to the limit.
func Backoff(base, limit time.Duration, failures int) time.Duration {
	pause := limit
	if failures < 30 && base<<failures>>failures == base {
		pause = min(base<<failures, limit)
	}
	return pause - pause/5 + rand.N(2*pause/5+1)
}
