// Package watchstream follows the objects of a resource: it lists and watches them until its context ends, through all failures of connections.
package watchstream

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// The types of events passed to the handler. The items of a list have the type "".
const (
	listed   = ""
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK" // shows only the server's resource version; not passed to the handler
)

// Stream follows one resource in one namespace. The caller runs it on a goroutine. The handler is called on that goroutine and on that of a list, but never
// concurrently. The exported fields must not change after the start.
type Stream struct {
	Server    Server
	Handler   Handler
	Settings  *Settings
	Resource  string // name for messages
	Namespace string // "" for all namespaces
	Log       *slog.Logger
	Meter     *metrics.Stream // nil for none; its resource counts the restarts
	Overlaps  bool            // watch while the pages of the list are still being read, not only after the last one

	version  string // to continue from; "" to list
	newest   string // newest resource version seen
	received bool   // an event with another version has arrived on the last connection
	// unverified says that the server may have another history than before: from a failed connection
	// or silence to the next response to a list.
	unverified bool
	// heard is the time of the last event, on any connection. It is zero until the first bookmark since
	// the last list or silence, because only bookmarks come regularly.
	heard       time.Time
	unsupported bool     // an event of an unsupported type was logged
	idle        int      // number of connections in a row without an event
	unpaged     bool     // list all objects at once, because pages have expired
	listing     *listing // the last list with several pages; nil if there was only one page

	mu          sync.Mutex // guards the following, and calls of the handler
	stage       stage      // how far it has come
	failure     string     // kind of the failure that was logged last
	failed      error      // last failure; nil if it is over
	failedStage stage      // stage at the last failure
	begunAt     time.Time  // start of the present or last watch; zero after its evaluation
	healthy     bool       // the watch works, or has not failed since it did
}

// Settings are the settings of an operator's streams.
type Settings struct {
	ServerTimeout     time.Duration // requested duration of a watch; 0 for the server's default
	ClientTimeout     time.Duration // maximum duration of a watch; 0 for no limit
	ConnectTimeout    time.Duration // used by the creator of the connections
	ReconnectBackoff  time.Duration // initial delay before the next watch
	InactivityTimeout time.Duration // time without events after which a watch counts as dead; 0 for never
	PageSize          int           // of a list; 0 for all objects at once
}

// Server performs the requests of a stream.
type Server interface {
	// Page reads the first page of a list, or the page after the one in page. The size limits the number of objects, 0 means all.
	Page(ctx context.Context, page *rawjson.ListPage, size int) error
	// Watch watches until the watch ends. It calls opened when the server accepts the request, and take for each event. The bytes are reused after each call of
	// take. It calls refresh to update the query before it repeats the request with other credentials. An event of type ERROR ends the watch with an error.
	Watch(ctx context.Context, query url.Values, opened func(), take func(*rawjson.Frame) error, refresh func() error) error
	// Failure classifies an error.
	Failure(err error) Failure
}

// Failure describes an error of the server. The zero value is a connection error.
type Failure struct {
	Answered   bool          // there was a response
	Code       int           // of the response
	Watched    bool          // the error was a watch event
	RetryAfter time.Duration // as requested by the server; 0 without a request
	TooLarge   bool          // the server has never known the resource version
	Proxy      bool          // the response is no JSON, and thus not of the server
}

// Handler receives the events of a stream. Types that need only some of them embed [Ignore].
type Handler interface {
	// Admit waits until the stream may open, and returns a context for its duration. Each admission begins with a list.
	Admit(context.Context) (inner context.Context, release func())
	// OnListing handles the start of a list.
	OnListing()
	// OnEvent handles a watch event, or an item of a list with the type "". The header has the places in raw, which begins with the object. Both are reused
	// after the call.
	OnEvent(t string, h *rawjson.Header, raw []byte)
	// Throttle waits, after each page of a list, until most of its objects are being processed, for a limited time. Other methods may be called concurrently.
	Throttle(ctx context.Context, limit time.Duration)
	// OnListed handles the end of a list with a resource version: objects missing in it are deleted.
	OnListed(version string)
	// OnListError handles another list that the server has answered with an error.
	OnListError(error)
	// OnRestored handles a server that was restored to an older history, as from a backup. Another list follows.
	OnRestored()
	// OnStatus handles a failure, or its end if the error is nil.
	OnStatus(error)
	// OnEnd handles the end of the stream.
	OnEnd()
}

// Ignore is a [Handler] that admits the stream at once, and ignores all events.
type Ignore struct{}

// Admit implements [Handler].
func (Ignore) Admit(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

// OnListing implements [Handler].
func (Ignore) OnListing() {}

// OnEvent implements [Handler].
func (Ignore) OnEvent(string, *rawjson.Header, []byte) {}

// Throttle implements [Handler].
func (Ignore) Throttle(context.Context, time.Duration) {}

// OnListed implements [Handler].
func (Ignore) OnListed(string) {}

// OnListError implements [Handler].
func (Ignore) OnListError(error) {}

// OnRestored implements [Handler].
func (Ignore) OnRestored() {}

// OnStatus implements [Handler].
func (Ignore) OnStatus(error) {}

// OnEnd implements [Handler].
func (Ignore) OnEnd() {}

// Live returns the state of the stream for the live page.
func (s *Stream) Live() livepage.Stream {
	last, restarts := s.Meter.Live()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := livepage.Stream{Resource: s.Resource, Namespace: s.Namespace, Open: s.stage >= toWatch, Listed: s.healthy, LastEvent: last, Restarts: restarts}
	if s.failed != nil {
		l.Error = s.failed.Error()
	}
	return l
}
