package schedule

import (
	"testing"
	"time"
)

// at returns a time, a number of seconds after an arbitrary one.
func at(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0) }

func TestDue(t *testing.T) {
	for name, tt := range map[string]struct {
		c    Config
		do   func(*Schedule, Config)
		want time.Time
	}{
		"never":                  {Config{}, func(*Schedule, Config) {}, time.Time{}},
		"at once":                {Config{}, func(s *Schedule, _ Config) { s.Note(at(1), true) }, at(1)},
		"when it is quiet":       {Config{Debounce: 2 * time.Second}, func(s *Schedule, _ Config) { s.Note(at(1), true); s.Note(at(2), true) }, at(4)},
		"when it is never quiet": {Config{Debounce: 2 * time.Second}, func(s *Schedule, _ Config) { s.Note(at(1), true); s.Note(at(20), true) }, at(21)},
		"after an error": {Config{}, func(s *Schedule, c Config) {
			s.End(Call{Failed: true, Delay: 5 * time.Second, RequeueAfter: -1}, c, at(1))
		}, at(6)},
		"not after a final error":    {Config{}, func(s *Schedule, c Config) { s.End(Call{Failed: true, Final: true, RequeueAfter: -1}, c, at(1)) }, time.Time{}},
		"not after a cancelled call": {Config{Resync: time.Hour}, func(s *Schedule, c Config) { s.End(Call{Cancelled: true, RequeueAfter: -1}, c, at(1)) }, time.Time{}},
		"when the handler wants it":  {Config{}, func(s *Schedule, c Config) { s.End(Call{RequeueAfter: 3 * time.Second}, c, at(1)) }, at(4)},
		"at once for a change, in spite of an error": {Config{}, func(s *Schedule, c Config) {
			s.End(Call{Failed: true, Delay: time.Minute, RequeueAfter: -1}, c, at(1))
			s.NoteChange(at(2), false)
		}, at(2)},
		"later after many quick errors": {Config{QuickRetries: 2}, func(s *Schedule, c Config) {
			s.End(Call{Failed: true, Delay: time.Hour, RequeueAfter: -1}, c, at(1))
			for i := range 4 {
				s.Note(at(2+i), true)
				s.Begin()
				s.End(Call{Failed: true, Early: true, RequeueAfter: -1}, c, at(2+i))
			}
			s.Note(at(6), true)
		}, at(9)},
	} {
		t.Run(name, func(t *testing.T) {
			var s Schedule
			tt.do(&s, tt.c)
			if got := s.Due(tt.c); !got.Equal(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !tt.want.IsZero() && (s.IsDue(tt.c, tt.want.Add(-1)) || !s.IsDue(tt.c, tt.want)) {
				t.Error("it is not due then, or is before")
			}
		})
	}
}

func TestResync(t *testing.T) {
	var s Schedule
	s.End(Call{RequeueAfter: -1}, Config{Resync: 100 * time.Second}, at(0))
	if due := s.Due(Config{}); due.Before(at(100)) || due.After(at(111)) {
		t.Errorf("due at %v", due)
	}
	if retry, requeue, resync := s.Come(at(111)); retry || requeue || !resync || !s.IsRoutine(at(111)) {
		t.Errorf("come are %t, %t, %t; routine %t", retry, requeue, resync, s.IsRoutine(at(111)))
	}
}

func TestRoutine(t *testing.T) {
	var s Schedule
	s.Note(at(0), true)
	if !s.IsDue(Config{}, at(0)) || !s.Routine() {
		t.Error("what can wait is urgent")
	}
	s.Note(at(1), false)
	if !s.IsDue(Config{}, at(1)) || s.Routine() {
		t.Error("what is urgent can wait")
	}
	s.Begin()
	s.End(Call{Failed: true, Delay: time.Second, RequeueAfter: -1}, Config{}, at(1))
	if s.IsSettled() || s.IsRoutine(at(2)) || !s.IsEarly(at(1)) || s.IsEarly(at(2)) {
		t.Errorf("after an error: settled %t, routine %t, early %t", s.IsSettled(), s.IsRoutine(at(2)), s.IsEarly(at(1)))
	}
	s.RetryAt(at(9))
	if got := s.Due(Config{}); !got.Equal(at(9)) {
		t.Errorf("due at %v", got)
	}
}

func TestPauses(t *testing.T) {
	for excess, want := range map[int]time.Duration{0: time.Second, 2: 4 * time.Second, 6: time.Minute, 1000: time.Minute} {
		if got := Slowdown(excess); got != want {
			t.Errorf("after %d: got %s, want %s", excess, got, want)
		}
	}
	for failures, want := range map[int]time.Duration{0: time.Second, 3: 8 * time.Second, 10: time.Minute, 100: time.Minute} {
		if got := Backoff(time.Second, time.Minute, failures); got < want*8/10 || got > want*12/10 {
			t.Errorf("after %d failures: got %s, want about %s", failures, got, want)
		}
	}
}
