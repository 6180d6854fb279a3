// Package logsampler keeps the log readable while an operator handles hundreds of objects per second: it counts the successes, and logs their number
// periodically.
package logsampler

import (
	"log/slog"
	"sync"
	"time"
)

// limit is the number of successes per second that are logged individually.
const limit = 100

// Period is the interval between two sums, while there are too many successes to log individually.
const Period = 10 * time.Second

// Sampler chooses the level of messages about single successes. Nil logs all of them at [slog.LevelInfo].
type Sampler struct {
	log *slog.Logger

	mu      sync.Mutex  // guards following
	second  time.Time   // start of the current second
	count   int         // successes in that second
	timer   *time.Timer // for the next sum; nil while successes are logged individually
	summed  int         // successes not yet logged
	stopped bool
}

// New returns a sampler that logs sums to log.
func New(log *slog.Logger) *Sampler { return &Sampler{log: log} }

// Count counts a success, and returns the level of its message.
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

// Level returns the level of further messages about a counted success.
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

// sum logs the number of successes in a period. It stops the sums when there are few successes again.
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

// Stop logs the last sum. Afterwards, each success is logged individually.
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
