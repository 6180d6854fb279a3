// Package watchstream follows the objects of a resource: it lists them, and watches their changes for as long as it is asked to, through all that can happen to a connection.
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

// The types of events that are handed over. Those of the items of a listing have none.
const (
	listed   = ""
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK" // only shows how far the server has come, and is not handed over
)

// Stream is the events of one resource in one namespace. The caller runs it on a goroutine of its own; the handler is called on that, and on the one of a listing, but never by
// both at once. The exported fields are not changed once it runs.
type Stream struct {
	Server    Server
	Handler   Handler
	Settings  *Settings
	Resource  string // its name, in messages
	Namespace string // "" for all
	Log       *slog.Logger
	Meter     *metrics.Stream // nil for none; its resource counts the restarts
	Overlaps  bool            // whether changes are watched while the pages of a listing still come; otherwise after the last one

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

// Settings are those of the streams of an operator.
type Settings struct {
	ServerTimeout     time.Duration // how long the server is asked to keep a watch open; 0 leaves it to the server
	ClientTimeout     time.Duration // the longest life of a watch; 0 for no limit
	ConnectTimeout    time.Duration // of those who make the connections
	ReconnectBackoff  time.Duration // the pause before a watch is opened again, at first
	InactivityTimeout time.Duration // the silence after which a watch is taken for dead; 0 for never
	PageSize          int           // of a listing; 0 for all at once
}

// Server makes the requests of a stream.
type Server interface {
	// Page reads the first page of a listing, or the one after that which was read into the page last, of so many objects at most, 0 for all.
	Page(ctx context.Context, page *rawjson.ListPage, size int) error
	// Watch watches until the watch ends. It calls opened when the request is let in, take for each event, in bytes that are used again afterwards, and refresh, to bring the query
	// up to date, before the request is repeated with other credentials. An event of the type ERROR ends it with an error.
	Watch(ctx context.Context, query url.Values, opened func(), take func(*rawjson.Frame) error, refresh func() error) error
	// Failure returns what is to be known of an error.
	Failure(err error) Failure
}

// Failure is what a stream has to know of an error of its server. The zero value is one of the connection.
type Failure struct {
	Answered   bool          // whether it is an answer
	Code       int           // of the answer
	Watched    bool          // whether it came as an event of a watch
	RetryAfter time.Duration // how long the server wants not to be asked again; 0 if it has not said
	TooLarge   bool          // whether the server has never known the version to go on from
}

// Handler is what a stream hands everything over to. Those that want but a part of it embed [Ignore].
type Handler interface {
	// Admit waits until the stream may be open, and returns a context for how long; each time, it begins with a listing.
	Admit(context.Context) (inner context.Context, release func())
	// OnListing notes that a listing begins.
	OnListing()
	// OnEvent takes a change, or an item of the listing, whose type is "": where the parts of the object are in the bytes that begin with it. Both are used again afterwards.
	OnEvent(t string, h *rawjson.Header, raw []byte)
	// Throttle waits, after each page of a listing, until most of what it has brought is under way, for a limited time. Other methods may be called
	// meanwhile.
	Throttle(ctx context.Context, limit time.Duration)
	// OnListed notes that the listing is complete: what was not in it is gone.
	OnListed()
	// OnListError notes that the server has answered a listing with an error once more.
	OnListError(error)
	// OnRestored notes that the server has an older history than before, as after a restore from a backup. Another listing follows.
	OnRestored()
	// OnStatus notes that something does not work, or works again if there is no error.
	OnStatus(error)
	// OnEnd notes that nothing comes any more.
	OnEnd()
}

// Ignore is a [Handler] that lets a stream be open always, and ignores all that it brings.
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
func (Ignore) OnListed() {}

// OnListError implements [Handler].
func (Ignore) OnListError(error) {}

// OnRestored implements [Handler].
func (Ignore) OnRestored() {}

// OnStatus implements [Handler].
func (Ignore) OnStatus(error) {}

// OnEnd implements [Handler].
func (Ignore) OnEnd() {}

// Live returns what the live page shows of the stream.
func (s *Stream) Live() livepage.Stream {
	last, restarts := s.Meter.Live()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := livepage.Stream{Resource: s.Resource, Namespace: s.Namespace, Open: s.stage == toWatch, Listed: s.healthy, LastEvent: last, Restarts: restarts}
	if s.failed != nil {
		l.Error = s.failed.Error()
	}
	return l
}
