package watchstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// listing reads the pages of a list after the first one, on its own goroutine.
type listing struct {
	ctx  context.Context // canceled with the error of the list, or when the list is not needed any more
	fail context.CancelCauseFunc
	done chan struct{} // closed by the goroutine
	// Guarded by the stream's lock.
	complete bool
	watching bool // the watch is open
}

// relistAfter is the number of failures in a row after which the stream lists again. Only failures count that another resource version may fix.
const relistAfter = 5

// Run lists and watches until the context ends, whenever the handler admits it.
func (s *Stream) Run(ctx context.Context) {
	defer s.Handler.OnEnd()
	defer s.setHealthy(false)
	for ctx.Err() == nil {
		inner, release := s.Handler.Admit(ctx)
		s.version = ""
		s.follow(inner)
		s.setHealthy(false)
		release()
	}
}

// follow lists and watches until the context ends.
func (s *Stream) follow(ctx context.Context) {
	defer s.endListing()
	s.idle = 0
	refusals, relists := 0, 0
	for ctx.Err() == nil {
		listed, err := s.listAndWatch(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.received && listed {
			s.idle, refusals, relists = 0, 0, 0
		}
		lived := s.lived(s.quietAfter())
		if lived {
			relists = 0
		}
		if !s.received && isEmpty(err, lived) {
			err = errEmpty
		}
		s.received = false
		outdated := s.outdated(err)
		if outdated {
			s.unpaged = !listed // otherwise the pages of a long list might expire again and again
			s.Log.Debug("The watch stream has expired; listing again", "resource", s.Resource, "namespace", s.Namespace)
			s.setHealthy(false)
			if s.version, err = "", nil; relists == 0 { // the server responds: list at once, as events are missing since that version
				s.idle = 0
			}
			relists++
		}
		if refusals++; !s.refused(err) {
			refusals = 0
		} else if refusals%relistAfter == 0 {
			s.version = ""
		}
		if errors.Is(err, errEmpty) && refusals < relistAfter {
			err = nil // servers and proxies end watches at once while they restart
		}
		if !outdated {
			s.report(err)
		}
		if !listed && s.code(err) != 0 {
			s.mu.Lock()
			s.Handler.OnListError(err)
			s.mu.Unlock()
		}
		if s.idle++; err == nil && lived {
			s.idle = 1 // a quiet watch is not idle
		}
		if await.Sleep(ctx, s.pause(err)) != nil {
			return
		}
		s.Meter.Restart()
	}
}

// listAndWatch runs the stream until it fails or ends, and reports whether the objects were listed.
func (s *Stream) listAndWatch(ctx context.Context) (listed bool, err error) {
	if s.version == "" {
		if err := s.finishListing(ctx); err != nil {
			return false, err
		}
		s.setStage(toList)
		if err := s.list(ctx); err != nil {
			return false, err
		}
	}
	s.setStage(toOpen)
	err = s.watch(ctx)
	if s.listing == nil {
		return true, err
	}
	s.mu.Lock()
	s.listing.watching = false
	s.mu.Unlock()
	if s.listing.ctx.Err() != nil {
		s.version = ""
		return false, s.finishListing(ctx)
	}
	return true, err
}

// finishListing waits for the remaining pages of a list, even if a relist follows. Otherwise, a watch that fails again and again would prevent the later pages
// forever. It returns the error of the list.
func (s *Stream) finishListing(ctx context.Context) error {
	if s.listing == nil {
		return nil
	}
	select {
	case <-s.listing.done:
	case <-ctx.Done():
	}
	err := context.Cause(s.listing.ctx)
	s.endListing()
	if err != nil {
		s.setStage(toList)
	}
	return err
}

// list reads all objects, or the first page while the others follow, and stores the resource version to watch from.
func (s *Stream) list(ctx context.Context) error {
	s.Handler.OnListing()
	size := s.Settings.PageSize
	if s.unpaged {
		size = 0
	}
	page := &rawjson.ListPage{Take: func(o *rawjson.Header, raw []byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Handler.OnEvent(listed, o, raw)
		if ctx.Err() != nil {
			return errStopped
		}
		return nil
	}}
	if err := s.Server.Page(ctx, page, size); err != nil {
		return err
	}
	version := page.Version
	s.unpaged, s.unverified, s.heard = false, false, time.Time{}
	if older(version, s.newest) {
		s.Log.Warn("The resource versions of the API server have gone back, as after a restore from a backup; listing again",
			"resource", s.Resource, "namespace", s.Namespace, "version", version, "before", s.newest, "help", "K123")
		s.newest = version
		s.Handler.OnRestored()
		return s.list(ctx)
	}
	if page.Next == "" || !s.Overlaps {
		if err := s.listRest(ctx, page, size); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.completeLocked(version)
	} else {
		l := &listing{done: make(chan struct{})}
		l.ctx, l.fail = context.WithCancelCause(ctx)
		s.listing = l
		go s.listAside(l, page, size)
	}
	s.version, s.newest = version, version
	return nil
}

// listAside reads the pages after the first one.
func (s *Stream) listAside(l *listing, page *rawjson.ListPage, size int) {
	defer close(l.done)
	version := page.Version
	err := s.listRest(l.ctx, page, size)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		l.fail(err)
		return
	}
	if l.ctx.Err() != nil {
		return
	}
	l.complete = true
	if s.completeLocked(version); l.watching {
		s.advanceLocked(toHear)
	}
}

// completeLocked records that all objects have been passed to the handler.
func (s *Stream) completeLocked(version string) {
	s.advanceLocked(toOpen)
	s.Handler.OnListed(version)
}

// endListing cancels the list whose pages are still being read, if any.
func (s *Stream) endListing() {
	if s.listing != nil {
		s.listing.fail(errStopped)
		<-s.listing.done
		s.listing = nil
	}
}

// maxThrottle limits how long a list waits for the processing of its objects. A few minutes after the start of a list, the API server no longer serves its
// further pages.
const maxThrottle = 2 * time.Minute

// listRest reads the pages after the first one, at the pace of the handler.
func (s *Stream) listRest(ctx context.Context, page *rawjson.ListPage, size int) error {
	for left := maxThrottle; page.Next != ""; {
		begun := time.Now()
		s.Handler.Throttle(ctx, left)
		left -= time.Since(begun)
		if err := s.Server.Page(ctx, page, size); err != nil {
			return err
		}
	}
	return nil
}

// errStopped ends a list or a watch that is not needed any more.
var errStopped = errors.New("stopped")

// errInactive ends a watch without any event for too long, not even a bookmark.
var errInactive = errors.New("nothing came for too long")

// errEmpty is the failure of watches that end before their first event, again and again, so that
// the stream is deaf. The objects are listed again, which also shows their changes.
var errEmpty = errors.New("the watches end at once, without any event")

// isEmpty reports whether a watch without an event has ended too early: at once, or in the middle
// of its first event, which the next watch would begin with again.
func isEmpty(err error, lived bool) bool {
	return err == nil && !lived || errors.Is(err, rawjson.ErrBrokenFrame)
}

// watch passes the watch events to the handler until the watch ends. The end of a watch is no error.
func (s *Stream) watch(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if s.listing != nil {
		defer context.AfterFunc(s.listing.ctx, func() { end(errStopped) })()
	}
	if t := s.Settings.ClientTimeout; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, errStopped)
		defer cancel()
	}
	q := url.Values{"allowWatchBookmarks": {"true"}, "resourceVersion": {s.version}}
	if t := s.Settings.ServerTimeout; t > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(int64(apirequest.WholeSeconds(t)/time.Second), 10))
	}
	alive := func() {}
	if t := s.Settings.InactivityTimeout; t > 0 {
		timer := time.AfterFunc(t, func() { end(errInactive) })
		defer timer.Stop()
		alive = func() { timer.Reset(t) }
	}
	quiet := func() {}
	defer func() { quiet() }()
	s.doubtSilence()
	accepted, stopVerifying := false, func() {}
	s.begun()
	err := s.Server.Watch(ctx, q, func() {
		quiet() // of a request before it was repeated
		s.opened()
		timer := time.AfterFunc(s.quietAfter(), s.quiet)
		quiet = func() { timer.Stop() }
		stopVerifying()
		accepted, stopVerifying = true, s.startVerifying(ctx, end)
	}, func(f *rawjson.Frame) error {
		if !isKnown(f.Type) {
			if !s.unsupported {
				s.Log.Warn("Ignoring an unsupported event type", "type", f.Type, "resource", s.Resource, "help", "K125")
			}
			s.unsupported = true
			return nil
		}
		alive()
		return s.take(f)
	}, func() error {
		q.Set("resourceVersion", s.version)
		return nil
	})
	stopVerifying()
	if err != nil && !accepted && s.code(err) != http.StatusTooManyRequests {
		s.unverified = true
	}
	return s.ended(err, context.Cause(ctx))
}

// ended handles the end of a watch, which has a cause if the stream itself has ended it. It returns
// nil if the next watch continues, or if another list follows.
func (s *Stream) ended(err, cause error) error {
	answered := s.Server.Failure(err).Answered
	if cause != nil && !answered {
		err = cause // transports return other errors for it, or end the response
	}
	switch {
	case errors.Is(err, errRestored):
		s.endListing() // its history is lost
		s.version, s.idle = "", 0
		return nil
	case errors.Is(err, errInactive):
		s.Log.Debug("The watch stream is inactive; reconnecting", "resource", s.Resource, "namespace", s.Namespace)
		return nil
	case errors.Is(err, errStopped), errors.Is(err, io.ErrUnexpectedEOF):
		return nil // the connection is lost; the next one continues
	case err != nil && !answered && s.received:
		return nil // the same
	}
	return err
}

// isKnown reports whether a type of events is supported. Other events are no sign of life.
func isKnown(t string) bool {
	return t == added || t == modified || t == deleted || t == bookmark
}

// take handles a watch event of a known type.
func (s *Stream) take(f *rawjson.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing == nil || s.listing.complete {
		s.advanceLocked(toHear)
	}
	s.Meter.Came(f.Type == bookmark)
	if f.Type == bookmark || !s.heard.IsZero() {
		s.heard = time.Now()
	}
	before := s.version
	if version := f.Object.ResourceVersion.Of(f.Raw); version != nil {
		s.version = rawjson.Unquote(version)
	}
	if s.version != before { // servers that ignore the version repeat an old event in each watch
		s.received = true
	}
	if f.Type == bookmark && older(s.version, s.newest) {
		return errRestored
	}
	s.newest = s.version
	if f.Type != bookmark {
		s.Handler.OnEvent(f.Type, &f.Object, f.Raw)
	}
	return nil
}
