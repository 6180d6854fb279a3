// Package schedule decides when a reconcile handler is due for an object: for what has happened, after errors, and when a time has come. It also does so for daemons and timers.
package schedule

import (
	"math/rand/v2"
	"time"
)

// Config is what the options and settings say.
type Config struct {
	Debounce     time.Duration // for how long nothing must have happened, up to ten times as long after the first of what has; 0 for not at all
	Resync       time.Duration // after a success; 0 for never
	QuickRetries int           // how many calls in a row may fail before the pause after an error is over, until there are pauses after these, too; 0 for any number
}

// Schedule is when a handler is due for one object. Its zero value is of one that is never due.
type Schedule struct {
	Failures int // in a row

	first, latest time.Time // when the first and the latest of what has happened since the last call has come
	quick         int       // calls in a row that have failed before the pause was over
	stalled       bool      // whether the last call has failed permanently
	routine       bool      // whether what has come since the last call can wait for what is urgent elsewhere; if nothing has, whether that held for the last call
	ended         time.Time // when the last call has ended

	// When the handler is due without anything having happened; zero for never.
	retryAt, requeueAt, resyncAt time.Time
}

// Note notes that something has happened.
func (s *Schedule) Note(at time.Time, routine bool) {
	if s.routine = routine && (s.routine || !s.happened()); !s.happened() {
		s.first = at
	}
	s.latest = at
}

// NoteChange notes a change of the object, for which the handler is called whatever has failed before.
func (s *Schedule) NoteChange(at time.Time, routine bool) {
	s.Note(at, routine)
	s.Failures, s.quick, s.stalled, s.retryAt = 0, 0, false, time.Time{}
}

// happened reports whether anything has happened since the last call, other than that a time has come.
func (s *Schedule) happened() bool { return !s.first.IsZero() }

// Due returns when the handler is to be called, the zero time for never.
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

// IsDue reports whether the handler is to be called now.
func (s *Schedule) IsDue(c Config, now time.Time) bool {
	if at := s.Due(c); at.IsZero() || now.Before(at) {
		return false
	}
	s.routine = s.IsRoutine(now)
	return true
}

// IsRoutine reports whether all that the handler is due for then can wait for what is urgent elsewhere. Retries are of the class of the call before.
func (s *Schedule) IsRoutine(then time.Time) bool {
	return s.routine || !s.happened() && !hasCome(s.retryAt, then) && !hasCome(s.requeueAt, then)
}

// Stalled reports whether the last call has failed permanently.
func (s *Schedule) Stalled() bool { return s.stalled }

// Routine reports whether that held when the handler was found to be due.
func (s *Schedule) Routine() bool { return s.routine }

// Come returns which of the times have come.
func (s *Schedule) Come(now time.Time) (retry, requeue, resync bool) {
	return hasCome(s.retryAt, now), hasCome(s.requeueAt, now), hasCome(s.resyncAt, now)
}

// IsEarly reports whether the pause after an error is not over.
func (s *Schedule) IsEarly(now time.Time) bool { return now.Before(s.retryAt) }

// IsSettled reports whether the last call has not failed.
func (s *Schedule) IsSettled() bool { return s.Failures+s.quick == 0 && !s.stalled }

// Begin notes that the handler is called.
func (s *Schedule) Begin() {
	s.first, s.latest, s.requeueAt, s.resyncAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// Call is how a call of the handler has ended.
type Call struct {
	Cancelled    bool // as if it had not been made
	Failed       bool
	Final        bool          // whether a failed one is not to be repeated
	Early        bool          // whether it was made before the pause after an error was over: if it has failed, too, it changes nothing of that
	Delay        time.Duration // before a failed one is repeated
	RequeueAfter time.Duration // when the handler itself wants to be called again; negative if it does not say
}

// End notes how a call has ended, and when the handler is due again.
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

// RetryAt has the handler called again at a time.
func (s *Schedule) RetryAt(at time.Time) { s.retryAt = at }

// hasCome reports whether there is a time, which has come.
func hasCome(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// earliest returns the first of some times, of which zero ones are none.
func earliest(all ...time.Time) (first time.Time) {
	for _, t := range all {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// Slowdown returns how long to wait after attempts that come one right after another, when so many have come too many before.
func Slowdown(excess int) time.Duration { return min(time.Second<<min(excess, 10), time.Minute) }

// Backoff returns how long to wait after an error, when so many calls have failed before: about the base at first, and up to the limit.
func Backoff(base, limit time.Duration, failures int) time.Duration {
	pause := limit
	if failures < 30 && base<<failures>>failures == base {
		pause = min(base<<failures, limit)
	}
	return pause - pause/5 + rand.N(2*pause/5+1)
}
