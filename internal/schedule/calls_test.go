package schedule

import (
	"testing"
	"time"
)

func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		i      Interval
		begin  []int // seconds, of the calls
		end    int   // of the last call
		failed bool
		next   time.Time
		ended  bool
	}{
		{"a daemon", Interval{}, []int{0}, 5, false, time.Time{}, true},
		{"an interval", Interval{Every: 10 * time.Second}, []int{0}, 5, false, at(15), false},
		{"a sharp interval", Interval{Every: 10 * time.Second, Sharp: true}, []int{0, 13}, 14, false, at(20), false},
		{"a sharp interval, at its end", Interval{Every: 10 * time.Second, Sharp: true}, []int{0}, 10, false, at(20), false},
		{"only after changes", Interval{Idle: time.Second}, []int{0}, 5, false, time.Time{}, false},
		{"a failure", Interval{Every: 10 * time.Second}, []int{0}, 5, true, time.Time{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Calls
			for _, seconds := range tt.begin {
				c.Begin(at(seconds))
			}
			c.End(tt.failed, tt.i, at(tt.end))
			if !c.Next.Equal(tt.next) || c.Ended != tt.ended {
				t.Errorf("got the next call at %v, ended %t, want %v, %t", c.Next, c.Ended, tt.next, tt.ended)
			}
			if tt.next.IsZero() {
				if c.Wait(at(tt.end)) != Never || c.IsDue(at(tt.end)) {
					t.Error("a call is due, and is to wait for a change")
				}
			} else if c.IsDue(tt.next.Add(-1)) || !c.IsDue(tt.next) || c.Wait(tt.next.Add(-time.Second)) != time.Second || c.Wait(tt.next.Add(1)) != 0 {
				t.Errorf("it is not due at %v, or is before", tt.next)
			}
		})
	}
}

func TestCallsRetry(t *testing.T) {
	var c Calls
	c.Begin(at(0))
	c.Retry(time.Minute, at(5))
	c.Begin(at(65))
	if c.Retries != 1 || !c.Started.Equal(at(0)) || !c.Called.Equal(at(65)) || !c.IsDue(at(65)) {
		t.Errorf("got %+v after an attempt", c)
	}
	c.Retry(-time.Second, at(66))
	if !c.Next.Equal(at(66)) || c.Retries != 2 {
		t.Errorf("got %+v after an attempt that is to be repeated at once", c)
	}
	c.End(false, Interval{Every: time.Second}, at(70))
	if c.Begin(at(71)); c.Retries != 0 || !c.Started.Equal(at(71)) {
		t.Errorf("got %+v after a success", c)
	}
}
