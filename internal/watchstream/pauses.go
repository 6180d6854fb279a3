package watchstream

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// refused reports whether the server does not like what it is asked for, rather than being out of order: only then is a
// listing of any use, and all streams listing at once would be the last thing that a server needs after an outage.
func (s *Stream) refused(err error) bool {
	f := s.Server.Failure(err)
	if !f.Answered {
		return errors.Is(err, rawjson.ErrUnreadable)
	}
	return f.Watched || f.Code < 500 && f.Code != http.StatusTooManyRequests
}

// code returns the code of the answer that is an error, 0 if there is no answer.
func (s *Stream) code(err error) int { return s.Server.Failure(err).Code }

// maxUnanswered is the longest pause while the server does not answer at all, so that an outage is not much longer for the operator than for the server.
const maxUnanswered = 10 * time.Second

// pause is how long to wait before the next connection: longer and longer while nothing comes.
func (s *Stream) pause(idle int, err error) time.Duration {
	pause := s.Settings.ReconnectBackoff
	if err == nil && idle <= 1 {
		return pause
	}
	pause = s.backoff(idle)
	f := s.Server.Failure(err)
	if err != nil && !f.Answered {
		pause = min(pause, max(maxUnanswered, s.Settings.ReconnectBackoff))
	}
	pause += time.Duration(rand.Int64N(int64(pause)/5 + 1))
	return max(pause, f.RetryAfter)
}

// backoff is the pause after a number of connections in a row on which nothing came.
func (s *Stream) backoff(idle int) time.Duration {
	return min(max(s.Settings.ReconnectBackoff, 10*time.Millisecond)<<min(idle-1, 12), max(time.Minute, s.Settings.ReconnectBackoff))
}

// outdated reports whether the server has forgotten the version to go on from, or has never known it, as after a restore from a backup.
func (s *Stream) outdated(err error) bool {
	f := s.Server.Failure(err)
	return f.TooLarge || f.Code == http.StatusGone
}
