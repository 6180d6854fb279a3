// Package logsampler keeps the log readable while an operator handles hundreds of objects a second: successes are then counted, and their number
// is logged from time to time.
package logsampler

import (
	"log/slog"
	"sync"
	"time"
)

// limit is how many successes a second are logged one by one.
const limit = 100

// Period is how often successes are logged together, while there are more than can be logged one by one.
const Period = 10 * time.Second

// Sampler chooses the level of messages about single successes. Nil logs all of them at [slog.LevelInfo].
type Sampler struct {
	log *slog.Logger

	mu      sync.Mutex  // guards following
	second  time.Time   // when the current second began
	count   int         // of the successes in it
	timer   *time.Timer // of the next sum; nil while successes are logged one by one
	summed  int         // of the successes that are not logged yet, neither alone nor together
	stopped bool
}

// New returns a sampler that logs sums to log.
func New(log *slog.Logger) *Sampler { return &Sampler{log: log} }

// Count counts a success, and returns the level of the message about it.
func (s *Sampler) Count() slog.Level {
	if s == nil {
		return slog.LevelInfo
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.summed++
		return slog.LevelDebug
	}
	if now := time.Now(); now.Sub(s.second) >= time.Second {
		s.second, s.count = now, 0
	}
	if s.count++; s.count <= limit || s.stopped {
		return slog.LevelInfo
	}
	s.log.Info("Handlers succeed too often for a line each; logging their number instead", "period", Period)
	s.summed = 1
	s.timer = time.AfterFunc(Period, s.sum)
	return slog.LevelDebug
}

// Level returns the level of further messages about a success that was counted before.
func (s *Sampler) Level() slog.Level {
	if s == nil {
		return slog.LevelInfo
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// sum logs how many successes there were in a period, and ends the counting when they are few again.
func (s *Sampler) sum() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil { // stopped meanwhile
		return
	}
	if s.summed < limit*int(Period/time.Second) {
		s.timer = nil
	} else {
		s.timer.Reset(Period)
	}
	s.logSumLocked()
}

func (s *Sampler) logSumLocked() {
	if s.summed > 0 {
		s.log.Info("Handlers succeeded", "count", s.summed)
	}
	s.summed = 0
}

// Stop logs what was not logged yet. From then on, each success has its line.
func (s *Sampler) Stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.logSumLocked()
}
