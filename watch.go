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
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file follows the objects of a resource: it lists them, and then watches their changes for as long as it is
// asked to, through all that can happen to a connection.

// bookmark is the type of events that only show how far the server has come.
const bookmark EventType = "BOOKMARK"

// stream is the events of one resource in one namespace. The caller runs it on a goroutine of its own; the handler
// is called on that.
type stream struct {
	client    *Client
	resource  Resource
	namespace string // "" for all
	settings  *WatchingSettings
	logger    *slog.Logger
	meter     *metrics.Resource // nil for none
	handler   streamHandler

	version     string // where to go on from, "" to list
	newest      string // the newest version of all that were seen
	received    bool   // whether anything came since the last connection was made
	unpaged     bool   // whether to list all at once, because pages have expired
	stage       stage  // how far it has come
	failure     string // the kind of failure that was logged last
	failedStage stage  // how far it had come then
	healthy     bool   // whether the objects are watched, or were without failure since
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
	// throttle waits, after each page of a listing, until most of what it has brought is under way, for a limited time.
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
	idle, refusals := 0, 0
	for ctx.Err() == nil {
		var err error
		begun := time.Now()
		if s.stage = toOpen; s.version == "" {
			s.stage = toList
			err = s.list(ctx)
		} else {
			err = s.watch(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if s.received {
			idle, refusals = 0, 0
		}
		s.received = false
		if s.outdated(err) {
			s.unpaged = s.stage == toList // or the pages of a long listing might expire for ever
			s.logger.Debug("The watch is too old to go on; listing again.", "resource", s.resource.Name(), "namespace", s.namespace)
			s.version, err = "", nil
		}
		s.reportStatus(err)
		if s.stage == toList && StatusCode(err) != 0 {
			s.handler.onListError(err)
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
		s.meter.Add(metrics.Restarts, 1)
	}
}

// setHealthy notes whether the stream works.
func (s *stream) setHealthy(healthy bool) {
	if s.healthy == healthy {
		return
	}
	n := int64(1)
	if s.healthy = healthy; !healthy {
		n = -1
	}
	s.meter.Add(metrics.Working, n)
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

// pause is how long to wait before the next connection: longer and longer while nothing comes.
func (s *stream) pause(idle int, err error) time.Duration {
	pause := s.settings.ReconnectBackoff
	if err == nil && idle <= 1 {
		return pause
	}
	pause = s.backoff(idle)
	pause += time.Duration(rand.Int64N(int64(pause)/5 + 1))
	if e := (*APIError)(nil); errors.As(err, &e) {
		pause = max(pause, e.RetryAfter)
	}
	return pause
}

// backoff is the pause after a number of connections in a row on which nothing came.
func (s *stream) backoff(idle int) time.Duration {
	return min(max(s.settings.ReconnectBackoff, 10*time.Millisecond)<<min(idle-1, 12), time.Minute)
}

// outdated reports whether the server has forgotten the version to go on from, or has never known it, as after a restore from a backup.
func (s *stream) outdated(err error) bool {
	var api *APIError
	unknown := errors.As(err, &api) && slices.ContainsFunc(api.Causes, func(c ErrorCause) bool { return c.Reason == "ResourceVersionTooLarge" })
	return unknown || StatusCode(err) == http.StatusGone
}

// reportStatus logs a failure when it begins, and its end. Failures with the same code are one: their
// texts may differ in the ports of connections.
func (s *stream) reportStatus(err error) {
	kind := ""
	if err != nil {
		s.setHealthy(false)
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
		s.logger.Warn("The objects cannot be watched now; trying again.", append(where, "error", err)...)
	} else {
		s.logger.Info("The objects are watched again.", where...)
	}
	s.handler.onStatus(err)
}

// advance notes that the stream has come so far.
func (s *stream) advance(next stage) {
	if s.stage = next; s.failedStage < next {
		s.reportStatus(nil)
	}
	s.setHealthy(next == toWatch || s.healthy)
}

// list hands over all objects, and notes the version to watch from.
func (s *stream) list(ctx context.Context) error {
	s.handler.onListing()
	size := s.settings.PageSize
	if s.unpaged {
		size = 0
	}
	version, err := s.client.scanList(ctx, s.resource, s.namespace, url.Values{}, size, true, func(o *rawjson.Header, raw []byte) error {
		if !s.handler.skip(Listed, o, raw) {
			s.handler.onEvent(RawEvent{Type: Listed, Body: listedBody(o, raw, s.resource)})
		}
		if ctx.Err() != nil {
			return errStopped
		}
		return nil
	}, s.pageThrottle())
	if err != nil {
		return err
	}
	if s.unpaged = false; s.older(version) {
		s.logger.Warn("The API server has an older history than before, as after a restore from a backup. All is listed again.",
			"resource", s.resource.Name(), "namespace", s.namespace, "version", version, "before", s.newest)
		s.newest = version
		s.handler.onRestored()
		return s.list(ctx)
	}
	s.version, s.newest = version, version
	s.advance(toOpen)
	s.handler.onListed()
	return s.watch(ctx)
}

// older reports whether a version is from before one that the server has sent: listings are never, unless the server has lost a part of its history.
func (s *stream) older(version string) bool {
	return s.newest != version && newerVersion(s.newest, version)
}

// maxThrottle is how long a listing may wait for the objects that it has brought. Later than a few minutes after its beginning, the API server
// does not know its further pages any more.
const maxThrottle = 2 * time.Minute

// pageThrottle returns what is done between the pages of one listing.
func (s *stream) pageThrottle() func(context.Context) {
	left := maxThrottle
	return func(ctx context.Context) {
		begun := time.Now()
		s.handler.throttle(ctx, left)
		left -= time.Since(begun)
	}
}

// errInactive ends a watch on which nothing came for too long, not even a bookmark.
var errInactive = errors.New("nothing came for too long")

// watch hands over the changes until the watch ends. That it ends is normal.
func (s *stream) watch(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if t := s.settings.ClientTimeout; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, errStopped)
		defer cancel()
	}
	q := url.Values{"allowWatchBookmarks": {"true"}, "resourceVersion": {s.version}}
	if t := s.settings.ServerTimeout; t > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(int64((t+time.Second-1)/time.Second), 10))
	}
	alive := func() {}
	if t := s.settings.InactivityTimeout; t > 0 {
		timer := time.AfterFunc(t, func() { end(errInactive) })
		defer timer.Stop()
		alive = func() { timer.Reset(t) }
	}
	err := s.client.scanWatch(ctx, s.resource, s.namespace, q, func() { s.advance(toWatch) }, func(f *rawjson.Frame) error {
		alive()
		s.reportStatus(nil)
		s.received = true
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
			s.logger.Warn("Ignoring an unsupported event type.", "type", f.Type, "resource", s.resource.Name())
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
		s.version = ""
		return nil
	case errors.Is(err, errInactive):
		s.logger.Debug("The watch is inactive, reconnecting.", "resource", s.resource.Name(), "namespace", s.namespace)
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
				return statusOf(outlined(&f.Object, f.Raw), path)
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
	return RawEvent{Type: EventType(f.Type), Body: outlined(&f.Object, bytes.Clone(f.Raw[:f.Object.End]))}
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
	Type EventType // what has happened
	Body *Body     // the object after that
}
