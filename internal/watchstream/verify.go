package watchstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// errRestored ends a watch of a server that was restored to an older history.
var errRestored = errors.New("the server has an older history than before")

// older reports whether a resource version precedes one that the server has sent. A list is never
// older, unless the server has lost a part of its history.
func older(version, newest string) bool {
	return newest != version && apirequest.NewerVersion(newest, version)
}

// maxSilence is the time without an event after which the server may have been replaced without a
// failure, if it sends bookmarks. API servers send one each minute.
const maxSilence = 70 * time.Second

// doubtSilence has the next watch verify the history after a silence, also over several watches
// that proxies have ended early.
func (s *Stream) doubtSilence() {
	limit := maxSilence
	if t := s.Settings.InactivityTimeout; t > 0 {
		limit = min(limit, t)
	}
	if !s.heard.IsZero() && time.Since(s.heard) >= limit {
		s.unverified, s.heard = true, time.Time{}
	}
}

// startVerifying verifies the history of an unverified server while its watch is open. It ends the
// watch if the history is older than before. The caller must call stop when the watch has ended.
func (s *Stream) startVerifying(ctx context.Context, end context.CancelCauseFunc) (stop func()) {
	if !s.unverified {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func(newest string) {
		defer close(done)
		version, err := s.presentVersion(ctx)
		switch {
		case err != nil: // unverified until the next watch
		case older(version, newest):
			end(errRestored)
		default:
			s.unverified = false
		}
	}(s.newest)
	return func() {
		cancel()
		<-done
	}
}

// maxVerifyPause is the maximum backoff while the server refuses to list one object.
const maxVerifyPause = 5 * time.Minute

// presentVersion returns the present resource version of the server. It lists one object, until the
// server permits it. A server with an older history keeps a watch silent until its versions have
// caught up, and the objects that were changed until then would be missed.
func (s *Stream) presentVersion(ctx context.Context) (string, error) {
	for pause := time.Duration(0); ; {
		jitter := rand.N(max(pause/4, time.Second)) // many streams reconnect at once after an outage
		if err := await.Sleep(ctx, pause+jitter); err != nil {
			return "", err
		}
		page := &rawjson.ListPage{Take: func(*rawjson.Header, []byte) error { return nil }}
		err := s.Server.Page(ctx, page, 1)
		if err == nil {
			return page.Version, nil
		}
		pause = min(max(4*pause, time.Second), maxVerifyPause)
		pause = max(pause, s.Server.Failure(err).RetryAfter)
	}
}
