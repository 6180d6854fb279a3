package watchstream

import (
	"strconv"
	"time"
)

// stage is the progress of a stream since its start or reconnection. A failure is over when a later stage is reached. Thus a stream with working lists and
// failing watches is never reported as healthy.
type stage int

const (
	toList stage = iota
	toOpen
	toWatch
)

// setStage sets the stage of the stream.
func (s *Stream) setStage(now stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage = now
}

// setHealthy sets whether the stream works.
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

// report logs the start and the end of a failure.
func (s *Stream) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLocked(err)
}

// reportLocked logs the start and the end of a failure. The end requires that the objects are listed. Failures with equal codes count as one, because their
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

// advanceLocked records that the stream has reached a stage.
func (s *Stream) advanceLocked(next stage) {
	if s.stage = next; s.failedStage < next {
		s.reportLocked(nil)
	}
	s.setHealthyLocked(next == toWatch || s.healthy)
}

// opened records that the watch is open.
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

// lived reports whether the last watch was open for longer than a limit.
func (s *Stream) lived(limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lived := !s.openedAt.IsZero() && time.Since(s.openedAt) > limit
	s.openedAt = time.Time{}
	return lived
}
