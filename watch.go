package kopf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
)

// bookmark is the type of events that have only a resource version.
const bookmark EventType = "BOOKMARK"

// stream returns the stream of a resource in a namespace, "" for all, or of one named object there. It uses the settings and the logger of the client.
func (c *Client) stream(r Resource, namespace, name string, h watchstream.Handler) *watchstream.Stream {
	return &watchstream.Stream{
		Server: &streamRequests{c, r.path(namespace, "", ""), name}, Handler: h, Settings: (*watchstream.Settings)(&c.source.Watching), Resource: r.Name(), Namespace: namespace, Log: c.log,
	}
}

// streamRequests sends the requests of a stream.
type streamRequests struct {
	client *Client
	path   string
	name   string // of the only watched object; "" for all
}

// query adds the field selector of the watched object.
func (s *streamRequests) query(q url.Values) url.Values {
	if s.name != "" {
		q.Set("fieldSelector", apirequest.NameSelector(s.name))
	}
	return q
}

// Page implements [watchstream.Server].
func (s *streamRequests) Page(ctx context.Context, page *rawjson.ListPage, size int) error {
	p := pager{client: s.client, path: s.path, query: s.query(url.Values{}), size: size, once: true, page: page}
	return p.next(ctx)
}

// Watch implements [watchstream.Server].
func (s *streamRequests) Watch(ctx context.Context, query url.Values, opened func(), take func(*rawjson.Frame) error, refresh func() error) error {
	return s.client.scanWatch(ctx, s.path, s.query(query), opened, take, refresh)
}

// Failure implements [watchstream.Server].
func (s *streamRequests) Failure(err error) watchstream.Failure {
	var api *APIError
	if !errtype.As(err, &api) {
		return watchstream.Failure{}
	}
	tooLarge := slices.ContainsFunc(api.Causes, func(c ErrorCause) bool { return c.Reason == "ResourceVersionTooLarge" })
	watched := api.Method == watchMethod
	return watchstream.Failure{
		Answered: true, Code: api.Code, Watched: watched, RetryAfter: api.RetryAfter, TooLarge: tooLarge,
		Proxy: !watched && !strings.HasPrefix(api.Header.Get("Content-Type"), "application/json"),
	}
}

// streamed returns a watch event or a list item with a copy of the bytes. The type of a list item is "", and it may lack its kind.
func streamed(t string, o *rawjson.Header, raw []byte, meta *typeMeta) RawEvent {
	if t == string(Listed) {
		return RawEvent{Type: Listed, Body: listedBody(o, raw, meta)}
	}
	return RawEvent{Type: EventType(t), Body: outlined(o, bytes.Clone(raw[:o.End]), 0)}
}

// watch sends one watch request, and passes on its events until it ends. After a change of credentials, it continues from the last event. It ends instead if
// it began without a version, because it would miss deletions.
func (c *Client) watch(ctx context.Context, r Resource, namespace string, query url.Values, handle func(RawEvent) error) error {
	ordered, seen, last := query.Has("resourceVersion"), false, query.Get("resourceVersion")
	return c.scanWatch(ctx, r.path(namespace, "", ""), query, nil, func(f *rawjson.Frame) error {
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

// scanWatch is watch for callers that read the headers first. It reuses the buffer. It calls opened, if not nil, when the server accepts the request. It
// calls refresh, if not nil, to update the query before a repetition with other credentials.
func (c *Client) scanWatch(ctx context.Context, path string, query url.Values, opened func(), handle func(*rawjson.Frame) error, refresh func() error) error {
	query.Set("watch", "true")
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

// eventOf makes an event with a copy of the bytes.
func eventOf(f *rawjson.Frame) RawEvent {
	return RawEvent{Type: EventType(f.Type), Body: outlined(&f.Object, bytes.Clone(f.Raw[:f.Object.End]), 0)}
}

// watchMethod is the method in errors that came as events.
const watchMethod = "WATCH"

// statusOf returns the error in an event of a watch.
func statusOf(status *Body, path string) error {
	v := View{raw: status.raw}
	return &APIError{
		Code: int(v.Int("code")), Reason: v.String("reason"), Message: v.String("message"), Method: watchMethod, Path: path,
		RetryAfter: apirequest.RetryAfterDuration(v.Float("details.retryAfterSeconds")),
	}
}

// EventType is the type of a watch event.
type EventType string

// The types of watch events. Listed is the type of the items of a list. A list comes before the changes: at the start, and whenever a watch could not
// continue.
const (
	Listed   EventType = ""         // the object existed at the time of the list
	Added    EventType = "ADDED"    // the object was created since
	Modified EventType = "MODIFIED" // the object has changed in any field
	Deleted  EventType = "DELETED"  // the object is gone; its body is the last known one
)

// RawEvent is an event from the API server.
type RawEvent struct {
	Type    EventType // the kind of change
	Body    *Body     // the object after that
	initial bool      // whether it is of the first list of its resource, or from the time before this replica leads
}
