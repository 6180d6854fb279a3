package watchstream

import (
	"net/http"
	"strconv"
	"time"
)

// stage is the progress of a stream since its start or reconnection. A failure is over when a later stage is reached. Thus a stream with working lists and
// failing watches is never reported as healthy.
type stage int

const (
	toList stage = iota
	toOpen
	toWatch // until the first event
	toHear  // it may be quiet
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
		s.failedStage = min(s.stage, toWatch)
	}
	if kind == s.failure {
		return
	}
	s.failure = kind
	s.Meter.Denied(kind == strconv.Itoa(http.StatusForbidden))
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
	if next >= toWatch && s.failed == nil {
		s.setHealthyLocked(true)
	}
}

// begun records the start of a watch request.
func (s *Stream) begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begunAt = time.Now()
}

// opened records that the watch is open.
func (s *Stream) opened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begunAt = time.Now()
	if l := s.listing; l != nil {
		if l.watching = true; !l.complete {
			return
		}
	}
	s.advanceLocked(toWatch)
}

// quiet records that the open watch has lived without an event, as most do.
func (s *Stream) quiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage == toWatch && !s.begunAt.IsZero() {
		s.advanceLocked(toHear)
	}
}

// lived reports whether the last watch has lasted for longer than a limit, since the server
// accepted it.
func (s *Stream) lived(limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lived := !s.begunAt.IsZero() && time.Since(s.begunAt) > limit
	s.begunAt = time.Time{}
	return lived
}
