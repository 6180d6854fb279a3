package watchstream

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// listing is the pages of a list after the first one, which come on a goroutine of their own.
type listing struct {
	ctx  context.Context // ends when the listing has failed, with the error as its cause, or is not wanted any more
	fail context.CancelCauseFunc
	done chan struct{} // closed by the goroutine
	// The stream's, under its lock.
	complete bool
	watching bool // whether the watch is open
}

// relistAfter is the number of failures in a row, of those that another version may mend, after which all is listed anew.
const relistAfter = 5

// Run lists and watches until the context ends, whenever it is admitted.
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
	idle, refusals, relists := 0, 0, 0
	for ctx.Err() == nil {
		begun := time.Now()
		listed, err := s.listAndWatch(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.received && listed {
			idle, refusals, relists = 0, 0, 0
		}
		if s.lived(s.backoff(idle + 1)) {
			relists = 0
		}
		s.received = false
		if s.outdated(err) {
			s.unpaged = !listed // or the pages of a long listing might expire for ever
			s.Log.Debug("The watch stream has expired; listing again", "resource", s.Resource, "namespace", s.Namespace)
			s.setHealthy(false)
			if s.version, err = "", nil; relists == 0 { // the server answers, whatever was before; what it has forgotten is missing meanwhile
				idle = 0
			}
			relists++
		} else {
			s.report(err)
		}
		if !listed && s.code(err) != 0 {
			s.mu.Lock()
			s.Handler.OnListError(err)
			s.mu.Unlock()
		}
		if refusals++; !s.refused(err) {
			refusals = 0
		} else if refusals%relistAfter == 0 {
			s.version = ""
		}
		if idle++; err == nil && time.Since(begun) > s.backoff(idle) {
			idle = 1 // it has lived: quiet is not idle
		}
		if await.Sleep(ctx, s.pause(idle, err)) != nil {
			return
		}
		s.Meter.Restart()
	}
}

// listAndWatch goes on with the stream until it breaks off, and reports whether the objects were listed.
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

// finishListing waits for the pages of a listing that still come, even if all is to be listed once more: or a watch that is cut off again and again would
// keep the later pages from ever coming. It returns why the listing has failed.
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

// list hands over all objects, or the first page of them while the others are to follow, and notes the version to watch from.
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
	if s.unpaged = false; s.older(version) {
		s.Log.Warn("The resource versions of the API server have gone back, as after a restore from a backup; listing again", "help", "K123",
			"resource", s.Resource, "namespace", s.Namespace, "version", version, "before", s.newest)
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
		s.completeLocked()
	} else {
		l := &listing{done: make(chan struct{})}
		l.ctx, l.fail = context.WithCancelCause(ctx)
		s.listing = l
		go s.listAside(l, page, size)
	}
	s.version, s.newest = version, version
	return nil
}

// listAside hands over the pages after the first one.
func (s *Stream) listAside(l *listing, page *rawjson.ListPage, size int) {
	defer close(l.done)
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
	if s.completeLocked(); l.watching {
		s.advanceLocked(toWatch)
	}
}

// completeLocked notes that all objects are handed over.
func (s *Stream) completeLocked() {
	s.advanceLocked(toOpen)
	s.Handler.OnListed()
}

// endListing ends the listing whose pages still come, if there is one.
func (s *Stream) endListing() {
	if s.listing != nil {
		s.listing.fail(errStopped)
		<-s.listing.done
		s.listing = nil
	}
}

// older reports whether a version is from before one that the server has sent: listings are never, unless the server has lost a part of its history.
func (s *Stream) older(version string) bool {
	return s.newest != version && apirequest.NewerVersion(s.newest, version)
}

// maxThrottle is how long a listing may wait for the objects that it has brought. Later than a few minutes after its beginning, the API server
// does not know its further pages any more.
const maxThrottle = 2 * time.Minute

// listRest hands over the pages after the first one, as fast as the handler can take them.
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

// errStopped ends a listing or a watch that is not wanted any more.
var errStopped = errors.New("stopped")

// errInactive ends a watch on which nothing came for too long, not even a bookmark.
var errInactive = errors.New("nothing came for too long")

// watch hands over the changes until the watch ends. That it ends is normal.
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
	err := s.Server.Watch(ctx, q, s.opened, func(f *rawjson.Frame) error {
		alive()
		return s.take(f)
	}, func() error {
		q.Set("resourceVersion", s.version)
		return nil
	})
	answered := s.Server.Failure(err).Answered
	if cause := context.Cause(ctx); cause != nil && !answered {
		err = cause // transports have errors of their own for it, or end the answer
	}
	switch {
	case errors.Is(err, errRestored):
		s.endListing() // of the history that is gone
		s.version = ""
		return nil
	case errors.Is(err, errInactive):
		s.Log.Debug("The watch stream is inactive; reconnecting", "resource", s.Resource, "namespace", s.Namespace)
		return nil
	case errors.Is(err, errStopped), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, rawjson.ErrBrokenFrame):
		return nil // the connection is lost: it goes on with the next one
	case err != nil && !answered && s.received:
		return nil // likewise
	}
	return err
}

// take takes an event of the watch.
func (s *Stream) take(f *rawjson.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLocked(nil)
	s.received = true
	s.Meter.Came(f.Type == bookmark)
	if version := f.Object.ResourceVersion.Of(f.Raw); version != nil {
		s.version = rawjson.Unquote(version)
	}
	if f.Type == bookmark && s.older(s.version) {
		return errRestored
	}
	s.newest = s.version
	switch f.Type {
	case added, modified, deleted:
		s.Handler.OnEvent(f.Type, &f.Object, f.Raw)
	case bookmark:
	default:
		s.Log.Warn("Ignoring an unsupported event type", "help", "K125", "type", f.Type, "resource", s.Resource)
	}
	return nil
}

// errRestored ends a watch whose server has an older history than before.
var errRestored = errors.New("the server has an older history than before")
