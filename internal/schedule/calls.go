package schedule

import "time"

// Never is how long a task waits for something else than the time.
const Never = time.Duration(-1)

// Interval is what the options of a task say of its calls. It is zero for daemons.
type Interval struct {
	Every time.Duration // 0 for only when the object has changed
	Idle  time.Duration // how long that must have been unchanged; 0 for any time
	Sharp bool          // whether the calls are on the grid that the first one has begun, and not an interval after the end of another one
}

// Calls is what the task of an object, a daemon or a timer, knows of its calls. Its zero value is of one that was not called yet.
type Calls struct {
	Retries int       // attempts since the last success
	Started time.Time // when the first of them began; zero before it
	Called  time.Time // when the last call began; zero before it
	Next    time.Time // when the next call is due; zero if that depends on changes of the object
	Ended   bool      // whether there is none

	first time.Time // of all calls: the grid of sharp timers
}

// Begin notes that a call begins.
func (c *Calls) Begin(now time.Time) {
	if c.Called = now; c.first.IsZero() {
		c.first = now
	}
	if c.Started.IsZero() {
		c.Started = now
	}
}

// Retry notes that a call has ended, and is to be repeated after a delay.
func (c *Calls) Retry(delay time.Duration, now time.Time) {
	c.Retries++
	c.Next = now.Add(max(delay, 0))
}

// End notes that a call has ended, and is not to be repeated, and when the next one is due. Without an interval, or after a failure, there is none.
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

// IsDue reports whether the time of the next call has come.
func (c *Calls) IsDue(now time.Time) bool { return hasCome(c.Next, now) }

// Wait returns how long to wait for the next call; [Never] if that depends on changes.
func (c *Calls) Wait(now time.Time) time.Duration {
	if c.Next.IsZero() {
		return Never
	}
	return max(c.Next.Sub(now), 0)
}
