package kopf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file follows the objects of a resource: it lists them, and watches their changes for as long as it is
// asked to, through all that can happen to a connection.

// bookmark is the type of events that only show how far the server has come.
const bookmark EventType = "BOOKMARK"

// stream is the events of one resource in one namespace. The caller runs it on a goroutine of its own; the handler
// is called on that, and on the one of a listing, but never by both at once.
type stream struct {
	client    *Client
	resource  Resource
	namespace string // "" for all
	name      string // of the one object that is followed; "" for all
	settings  *WatchingSettings
	logger    *slog.Logger
	meter     *metrics.Stream // nil for none; its resource counts the restarts
	handler   streamHandler
	overlaps  bool // whether changes are watched while the pages of a listing still come; otherwise after the last one

	version  string   // where to go on from, "" to list
	newest   string   // the newest version of all that were seen
	received bool     // whether anything came since the last connection was made
	unpaged  bool     // whether to list all at once, because pages have expired
	listing  *listing // the one whose further pages come, or came last; nil if there was only one page

	mu          sync.Mutex // guards all below, and calls of the handler
	stage       stage      // how far it has come
	failure     string     // the kind of failure that was logged last
	failed      error      // the last failure, nil if it is over
	failedStage stage      // how far it had come then
	openedAt    time.Time  // when the watch was opened that is open, or was last; zero again when that was looked at
	healthy     bool       // whether the objects are watched, or were without failure since
}

// listing is the pages of a list after the first one, which come on a goroutine of their own.
type listing struct {
	ctx  context.Context // ends when the listing has failed, with the error as its cause, or is not wanted any more
	fail context.CancelCauseFunc
	done chan struct{} // closed by the goroutine
	// The stream's, under its lock.
	complete bool
	watching bool // whether the watch is open
}

// streamHandler is what a stream hands everything over to. Handlers that want but a part of it embed [ignoreStream].
type streamHandler interface {
	// admit waits until the stream may be open, and returns a context for how long; each time, it begins with a listing.
	admit(context.Context) (inner context.Context, release func())
	// onListing notes that a listing begins.
	onListing()
	// skip is called before onEvent, and reports whether no more than the header of an object is wanted, with bytes that are used again afterwards.
	skip(t EventType, h *rawjson.Header, raw []byte) bool
	// onEvent takes an item of the listing, of type Listed, or a change.
	onEvent(RawEvent)
	// throttle waits, after each page of a listing, until most of what it has brought is under way, for a limited time. Other methods may be called
	// meanwhile.
	throttle(ctx context.Context, limit time.Duration)
	// onListed notes that the listing is complete: what was not in it is gone.
	onListed()
	// onListError notes that the server has answered a listing with an error once more.
	onListError(error)
	// onRestored notes that the server has an older history than before, as after a restore from a backup. Another listing follows.
	onRestored()
	// onStatus notes that something does not work, or works again if there is no error.
	onStatus(error)
	// onEnd notes that nothing comes any more.
	onEnd()
}

// ignoreStream is a [streamHandler] that lets a stream be open always, and ignores all that it brings.
type ignoreStream struct{}

func (ignoreStream) admit(ctx context.Context) (context.Context, func()) { return ctx, func() {} }
func (ignoreStream) onListing()                                          {}
func (ignoreStream) skip(EventType, *rawjson.Header, []byte) bool        { return false }
func (ignoreStream) onEvent(RawEvent)                                    {}
func (ignoreStream) throttle(context.Context, time.Duration)             {}
func (ignoreStream) onListed()                                           {}
func (ignoreStream) onListError(error)                                   {}
func (ignoreStream) onRestored()                                         {}
func (ignoreStream) onStatus(error)                                      {}
func (ignoreStream) onEnd()                                              {}

// stage is how far a stream has come since it was begun or reconnected. A failure is over when a later one is reached, so that
// a stream whose listings work and whose watches do not is not reported as healthy in between.
type stage int

const (
	toList stage = iota
	toOpen
	toWatch
)

// relistAfter is the number of failures in a row, of those that another version may mend, after which all is listed anew.
const relistAfter = 5

// run lists and watches until the context ends, whenever it is admitted.
func (s *stream) run(ctx context.Context) {
	defer s.handler.onEnd()
	defer s.setHealthy(false)
	for ctx.Err() == nil {
		inner, release := s.handler.admit(ctx)
		s.version = ""
		s.follow(inner)
		s.setHealthy(false)
		release()
	}
}

// follow lists and watches until the context ends.
func (s *stream) follow(ctx context.Context) {
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
			s.logger.Debug("The watch stream has expired; listing again", "resource", s.resource.Name(), "namespace", s.namespace)
			s.setHealthy(false)
			if s.version, err = "", nil; relists == 0 { // the server answers, whatever was before; what it has forgotten is missing meanwhile
				idle = 0
			}
			relists++
		} else {
			s.report(err)
		}
		if !listed && StatusCode(err) != 0 {
			s.mu.Lock()
			s.handler.onListError(err)
			s.mu.Unlock()
		}
		if refusals++; !refused(err) {
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
		s.meter.Restart()
	}
}

// listAndWatch goes on with the stream until it breaks off, and reports whether the objects were listed.
func (s *stream) listAndWatch(ctx context.Context) (listed bool, err error) {
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
func (s *stream) finishListing(ctx context.Context) error {
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

func (s *stream) setStage(now stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage = now
}

// setHealthy notes whether the stream works.
func (s *stream) setHealthy(healthy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setHealthyLocked(healthy)
}

func (s *stream) setHealthyLocked(healthy bool) {
	if s.healthy == healthy {
		return
	}
	s.healthy = healthy
	s.meter.Works(healthy)
}

// refused reports whether the server does not like what it is asked for, rather than being out of order: only then is a
// listing of any use, and all streams listing at once would be the last thing that a server needs after an outage.
func refused(err error) bool {
	var api *APIError
	if !errors.As(err, &api) {
		return errors.Is(err, rawjson.ErrUnreadable)
	}
	return api.Method == watchMethod || api.Code < 500 && api.Code != http.StatusTooManyRequests
}

// maxUnanswered is the longest pause while the server does not answer at all, so that an outage is not much longer for the operator than for the server.
const maxUnanswered = 10 * time.Second

// pause is how long to wait before the next connection: longer and longer while nothing comes.
func (s *stream) pause(idle int, err error) time.Duration {
	pause := s.settings.ReconnectBackoff
	if err == nil && idle <= 1 {
		return pause
	}
	pause = s.backoff(idle)
	e := (*APIError)(nil)
	if answered := errors.As(err, &e); err != nil && !answered {
		pause = min(pause, max(maxUnanswered, s.settings.ReconnectBackoff))
	}
	pause += time.Duration(rand.Int64N(int64(pause)/5 + 1))
	if e != nil {
		pause = max(pause, e.RetryAfter)
	}
	return pause
}

// backoff is the pause after a number of connections in a row on which nothing came.
func (s *stream) backoff(idle int) time.Duration {
	return min(max(s.settings.ReconnectBackoff, 10*time.Millisecond)<<min(idle-1, 12), max(time.Minute, s.settings.ReconnectBackoff))
}

// outdated reports whether the server has forgotten the version to go on from, or has never known it, as after a restore from a backup.
func (s *stream) outdated(err error) bool {
	var api *APIError
	unknown := errors.As(err, &api) && slices.ContainsFunc(api.Causes, func(c ErrorCause) bool { return c.Reason == "ResourceVersionTooLarge" })
	return unknown || StatusCode(err) == http.StatusGone
}

// report logs a failure when it begins, and its end.
func (s *stream) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLocked(err)
}

// reportLocked logs a failure when it begins, and its end, which is not before the objects are listed. Failures with the same code are one: their
// texts may differ in the ports of connections.
func (s *stream) reportLocked(err error) {
	if err == nil && s.listing != nil && !s.listing.complete {
		return
	}
	kind := ""
	if s.failed = err; err != nil {
		s.setHealthyLocked(false)
		kind = strconv.Itoa(StatusCode(err))
		s.failedStage = s.stage
	}
	if kind == s.failure {
		return
	}
	s.failure = kind
	where := []any{"resource", s.resource.Name()}
	if s.namespace != "" {
		where = append(where, "namespace", s.namespace)
	}
	if err != nil {
		s.logger.Warn("Watching objects failed; retrying", append(where, "error", err)...)
	} else {
		s.logger.Info("Watching objects again", where...)
	}
	s.handler.onStatus(err)
}

// advanceLocked notes that the stream has come so far.
func (s *stream) advanceLocked(next stage) {
	if s.stage = next; s.failedStage < next {
		s.reportLocked(nil)
	}
	s.setHealthyLocked(next == toWatch || s.healthy)
}

// opened notes that changes are watched.
func (s *stream) opened() {
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
func (s *stream) lived(limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lived := !s.openedAt.IsZero() && time.Since(s.openedAt) > limit
	s.openedAt = time.Time{}
	return lived
}

// query is what the server is asked for in all requests.
func (s *stream) query() url.Values {
	if s.name == "" {
		return url.Values{}
	}
	return url.Values{"fieldSelector": {"metadata.name=" + apirequest.FieldValue.Replace(s.name)}}
}

// list hands over all objects, or the first page of them while the others are to follow, and notes the version to watch from.
func (s *stream) list(ctx context.Context) error {
	s.handler.onListing()
	size := s.settings.PageSize
	if s.unpaged {
		size = 0
	}
	meta := s.resource.typeMeta()
	pages := s.client.newPager(s.resource, s.namespace, s.query(), size, true, func(o *rawjson.Header, raw []byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.handler.skip(Listed, o, raw) {
			s.handler.onEvent(RawEvent{Type: Listed, Body: listedBody(o, raw, meta)})
		}
		if ctx.Err() != nil {
			return errStopped
		}
		return nil
	})
	if err := pages.next(ctx); err != nil {
		return err
	}
	version := pages.page.Version
	if s.unpaged = false; s.older(version) {
		s.logger.Warn("The resource versions of the API server have gone back, as after a restore from a backup; listing again",
			"resource", s.resource.Name(), "namespace", s.namespace, "version", version, "before", s.newest)
		s.newest = version
		s.handler.onRestored()
		return s.list(ctx)
	}
	if !pages.more() || !s.overlaps {
		if err := s.listRest(ctx, pages); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.completeLocked()
	} else {
		l := &listing{done: make(chan struct{})}
		l.ctx, l.fail = context.WithCancelCause(ctx)
		s.listing = l
		go s.listAside(l, pages)
	}
	s.version, s.newest = version, version
	return nil
}

// listAside hands over the pages after the first one.
func (s *stream) listAside(l *listing, pages *pager) {
	defer close(l.done)
	err := s.listRest(l.ctx, pages)
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
func (s *stream) completeLocked() {
	s.advanceLocked(toOpen)
	s.handler.onListed()
}

// endListing ends the listing whose pages still come, if there is one.
func (s *stream) endListing() {
	if s.listing != nil {
		s.listing.fail(errStopped)
		<-s.listing.done
		s.listing = nil
	}
}

// older reports whether a version is from before one that the server has sent: listings are never, unless the server has lost a part of its history.
func (s *stream) older(version string) bool {
	return s.newest != version && apirequest.NewerVersion(s.newest, version)
}

// maxThrottle is how long a listing may wait for the objects that it has brought. Later than a few minutes after its beginning, the API server
// does not know its further pages any more.
const maxThrottle = 2 * time.Minute

// listRest hands over the pages after the first one, as fast as the handler can take them.
func (s *stream) listRest(ctx context.Context, pages *pager) error {
	for left := maxThrottle; pages.more(); {
		begun := time.Now()
		s.handler.throttle(ctx, left)
		left -= time.Since(begun)
		if err := pages.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// errInactive ends a watch on which nothing came for too long, not even a bookmark.
var errInactive = errors.New("nothing came for too long")

// watch hands over the changes until the watch ends. That it ends is normal.
func (s *stream) watch(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if s.listing != nil {
		defer context.AfterFunc(s.listing.ctx, func() { end(errStopped) })()
	}
	if t := s.settings.ClientTimeout; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, errStopped)
		defer cancel()
	}
	q := s.query()
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", s.version)
	if t := s.settings.ServerTimeout; t > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(int64(apirequest.WholeSeconds(t)/time.Second), 10))
	}
	alive := func() {}
	if t := s.settings.InactivityTimeout; t > 0 {
		timer := time.AfterFunc(t, func() { end(errInactive) })
		defer timer.Stop()
		alive = func() { timer.Reset(t) }
	}
	err := s.client.scanWatch(ctx, s.resource, s.namespace, q, s.opened, func(f *rawjson.Frame) error {
		alive()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reportLocked(nil)
		s.received = true
		s.meter.Came(f.Type == string(bookmark))
		if version := f.Object.ResourceVersion.Of(f.Raw); version != nil {
			s.version = rawjson.Unquote(version)
		}
		typ := EventType(f.Type)
		if typ == bookmark && s.older(s.version) {
			return errRestored
		}
		s.newest = s.version
		switch typ {
		case Added, Modified, Deleted:
			if !s.handler.skip(typ, &f.Object, f.Raw) {
				s.handler.onEvent(eventOf(f))
			}
		case bookmark:
		default:
			s.logger.Warn("Ignoring an unsupported event type", "type", f.Type, "resource", s.resource.Name())
		}
		return nil
	}, func() error {
		q.Set("resourceVersion", s.version)
		return nil
	})
	var api *APIError
	if cause := context.Cause(ctx); cause != nil && (err == nil || !errors.As(err, &api)) {
		err = cause // transports have errors of their own for it, or end the answer
	}
	switch {
	case errors.Is(err, errRestored):
		s.endListing() // of the history that is gone
		s.version = ""
		return nil
	case errors.Is(err, errInactive):
		s.logger.Debug("The watch stream is inactive; reconnecting", "resource", s.resource.Name(), "namespace", s.namespace)
		return nil
	case errors.Is(err, errStopped), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, rawjson.ErrBrokenFrame):
		return nil // the connection is lost: it goes on with the next one
	case err != nil && !errors.As(err, &api) && s.received:
		return nil // likewise
	}
	return err
}

// errRestored ends a watch whose server has an older history than before.
var errRestored = errors.New("the server has an older history than before")

// watch makes one watch request and hands over its events until it ends. When it is made once more with other credentials, it goes on
// from the last event. Without a version to begin with, it ends instead: it would begin anew, without what was deleted meanwhile.
func (c *Client) watch(ctx context.Context, r Resource, namespace string, query url.Values, handle func(RawEvent) error) error {
	ordered, seen, last := query.Has("resourceVersion"), false, query.Get("resourceVersion")
	return c.scanWatch(ctx, r, namespace, query, nil, func(f *rawjson.Frame) error {
		if version := f.Object.ResourceVersion.Of(f.Raw); version != nil {
			last = rawjson.Unquote(version)
		}
		seen = true
		return handle(eventOf(f))
	}, func() error {
		if seen && !ordered {
			return errors.New("the watch has ended, because the credentials of its connection were replaced")
		}
		if ordered {
			query.Set("resourceVersion", last)
		}
		return nil
	})
}

// scanWatch is watch for callers that want the outlines first, in bytes that are used again afterwards. It returns when the request is
// let in, and asks for the query to be brought up to date before the request is repeated with other credentials, unless the functions are nil.
func (c *Client) scanWatch(ctx context.Context, r Resource, namespace string, query url.Values, opened func(), handle func(*rawjson.Frame) error, refresh func() error) error {
	query.Set("watch", "true")
	path := r.URL(url.PathEscape(namespace), "", "")
	return c.do(ctx, &request{method: http.MethodGet, path: path, query: query, refresh: refresh, stream: true, read: func(answer io.Reader) error {
		if opened != nil {
			opened()
		}
		var f rawjson.Frame
		return rawjson.ReadFrames(answer, func(line []byte) error {
			if err := f.Scan(line); err != nil {
				return err
			}
			if f.Type == "ERROR" {
				return statusOf(outlined(&f.Object, f.Raw, 0), path)
			}
			if f.Type != string(bookmark) && f.Object.Name.To == 0 {
				return fmt.Errorf("%w: an event with an object is expected, not one of something without a name", rawjson.ErrUnreadable)
			}
			return handle(&f)
		})
	}})
}

// eventOf makes an event with bytes of its own.
func eventOf(f *rawjson.Frame) RawEvent {
	return RawEvent{Type: EventType(f.Type), Body: outlined(&f.Object, bytes.Clone(f.Raw[:f.Object.End]), 0)}
}

// watchMethod marks errors that came as events.
const watchMethod = "WATCH"

// statusOf returns the error that a watch has ended with.
func statusOf(status *Body, path string) error {
	v := View{raw: status.raw}
	return &APIError{
		Code: int(v.Int("code")), Reason: v.String("reason"), Message: v.String("message"), Method: watchMethod, Path: path,
		RetryAfter: apirequest.RetryAfterDuration(v.Float("details.retryAfterSeconds")),
	}
}

// EventType is the type of a watch event.
type EventType string

// The types of watch events. Listed is the type of the items of a listing, which come
// before the changes: at the start, and whenever a watch could not go on from where it was.
const (
	Listed   EventType = ""         // the object was there when the listing was made
	Added    EventType = "ADDED"    // the object was created since
	Modified EventType = "MODIFIED" // the object has changed, in whatever
	Deleted  EventType = "DELETED"  // the object is gone; its body is the last one that was known
)

// RawEvent is an event as it came from the API server.
type RawEvent struct {
	Type    EventType // what has happened
	Body    *Body     // the object after that
	initial bool      // whether it is of the first listing of its resource, or of the time before this replica works
}
