package schedule

import "time"

// Never is the waiting time of a task without a due time.
const Never = time.Duration(-1)

// Interval has the timer options of a task. It is zero for daemons.
type Interval struct {
	Every time.Duration // 0 for calls only after changes of the object
	Idle  time.Duration // how long the object must have been unchanged; 0 for no condition
	Sharp bool          // calls are on the grid of the first one, not an interval after the end of the previous one
}

// Calls tracks the calls of a task of an object, a daemon or a timer. Its zero value is a task without calls.
type Calls struct {
	Retries int       // attempts since the last success
	Started time.Time // start of the first of these attempts; zero before it
	Called  time.Time // start of the last call; zero before it
	Next    time.Time // due time of the next call; zero if it depends on changes of the object
	Ended   bool      // there are no more calls

	first time.Time // first call of all: the grid of sharp timers
}

// Begin records the start of a call.
func (c *Calls) Begin(now time.Time) {
	if c.Called = now; c.first.IsZero() {
		c.first = now
	}
	if c.Started.IsZero() {
		c.Started = now
	}
}

// Retry records the end of a call to be retried after a delay.
func (c *Calls) Retry(delay time.Duration, now time.Time) {
	c.Retries++
	c.Next = now.Add(max(delay, 0))
}

// End records the end of a call without a retry, and schedules the next one. Without an interval, or after a failure, there is none.
func (c *Calls) End(failed bool, i Interval, now time.Time) {
	c.Retries, c.Started = 0, time.Time{}
	switch {
	case failed || i.Every == 0 && i.Idle == 0:
		c.Ended, c.Next = true, time.Time{}
	case i.Every == 0:
		c.Next = time.Time{}
	case i.Sharp:
		c.Next = now.Add(i.Every - now.Sub(c.first)%i.Every)
	default:
		c.Next = now.Add(i.Every)
	}
}

// IsDue reports whether the next call is due.
func (c *Calls) IsDue(now time.Time) bool { return hasCome(c.Next, now) }

// Wait returns the time until the next call, or [Never] if it depends on changes.
func (c *Calls) Wait(now time.Time) time.Duration {
	if c.Next.IsZero() {
		return Never
	}
	return max(c.Next.Sub(now), 0)
}
