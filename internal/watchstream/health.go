package watchstream

import (
	"strconv"
	"time"
)

// stage is how far a stream has come since it was begun or reconnected. A failure is over when a later one is reached, so that
// a stream whose listings work and whose watches do not is not reported as healthy in between.
type stage int

const (
	toList stage = iota
	toOpen
	toWatch
)

// setStage notes how far the stream has come.
func (s *Stream) setStage(now stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage = now
}

// setHealthy notes whether the stream works.
func (s *Stream) setHealthy(healthy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setHealthyLocked(healthy)
}

func (s *Stream) setHealthyLocked(healthy bool) {
	if s.healthy == healthy {
		return
	}
	s.healthy = healthy
	s.Meter.Works(healthy)
}

// report logs a failure when it begins, and its end.
func (s *Stream) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLocked(err)
}

// reportLocked logs a failure when it begins, and its end, which is not before the objects are listed. Failures with the same code are one: their
// texts may differ in the ports of connections.
func (s *Stream) reportLocked(err error) {
	if err == nil && s.listing != nil && !s.listing.complete {
		return
	}
	kind := ""
	if s.failed = err; err != nil {
		s.setHealthyLocked(false)
		kind = strconv.Itoa(s.code(err))
		s.failedStage = s.stage
	}
	if kind == s.failure {
		return
	}
	s.failure = kind
	where := []any{"resource", s.Resource}
	if s.Namespace != "" {
		where = append(where, "namespace", s.Namespace)
	}
	if err != nil {
		s.Log.Warn("Watching objects failed; retrying", append(where, "error", err, "help", "K107")...)
	} else {
		s.Log.Info("Watching objects again", where...)
	}
	s.Handler.OnStatus(err)
}

// advanceLocked notes that the stream has come so far.
func (s *Stream) advanceLocked(next stage) {
	if s.stage = next; s.failedStage < next {
		s.reportLocked(nil)
	}
	s.setHealthyLocked(next == toWatch || s.healthy)
}

// opened notes that changes are watched.
func (s *Stream) opened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openedAt = time.Now()
	if l := s.listing; l != nil {
		if l.watching = true; !l.complete {
			return
		}
	}
	s.advanceLocked(toWatch)
}

// lived reports whether the watch that has ended was open for longer than a time.
func (s *Stream) lived(limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lived := !s.openedAt.IsZero() && time.Since(s.openedAt) > limit
	s.openedAt = time.Time{}
	return lived
}
