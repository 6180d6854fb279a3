package watchstream

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// refused reports whether the server has rejected the request, rather than failed to process it. Only then can a list help. After an outage, lists of all
// streams at once would overload the server.
func (s *Stream) refused(err error) bool {
	f := s.Server.Failure(err)
	if !f.Answered {
		return errors.Is(err, rawjson.ErrUnreadable) || errors.Is(err, errEmpty)
	}
	return f.Watched || f.Code < 500 && f.Code != http.StatusTooManyRequests
}

// code returns the status code of an error, or 0 without a response.
func (s *Stream) code(err error) int { return s.Server.Failure(err).Code }

// maxDown is the maximum backoff while the server is down, so that an outage does not last much longer for the operator than for the server.
const maxDown = 10 * time.Second

// down reports whether the server has not responded, also if a load balancer or another proxy has
// reported that in its place. A server that asks for a pause by such a code is not down.
func (s *Stream) down(err error) bool {
	f := s.Server.Failure(err)
	switch f.Code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return f.Proxy
	}
	return err != nil && !f.Answered && !errors.Is(err, errEmpty)
}

// pause returns the backoff before the next connection. It grows while no events arrive.
func (s *Stream) pause(err error) time.Duration {
	pause := s.Settings.ReconnectBackoff
	if err == nil && s.idle <= 1 {
		return pause
	}
	pause = s.backoff(s.idle)
	if s.down(err) {
		pause = min(pause, max(maxDown, s.Settings.ReconnectBackoff))
	}
	pause += time.Duration(rand.Int64N(int64(pause)/5 + 1))
	return max(pause, s.Server.Failure(err).RetryAfter)
}

// backoff returns the backoff after a number of connections in a row without an event.
func (s *Stream) backoff(idle int) time.Duration {
	return min(max(s.Settings.ReconnectBackoff, 10*time.Millisecond)<<min(idle-1, 12), max(time.Minute, s.Settings.ReconnectBackoff))
}

// quietAfter returns the time after which a watch without an event counts as quiet, not as empty.
// It is shorter than the life that the settings allow it.
func (s *Stream) quietAfter() time.Duration {
	limit := s.backoff(s.idle + 1)
	for _, life := range []time.Duration{
		s.Settings.ServerTimeout, s.Settings.ClientTimeout, s.Settings.InactivityTimeout,
	} {
		if life > 0 {
			limit = min(limit, life/2)
		}
	}
	return limit
}

// outdated reports whether the server does not know the resource version, because it has expired, or after a restore from a backup.
func (s *Stream) outdated(err error) bool {
	f := s.Server.Failure(err)
	return f.TooLarge || f.Code == http.StatusGone
}
