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

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
)

// This file makes the requests of the streams that follow the objects of a resource, which internal/watchstream keeps going through all that can happen to a connection, and
// those of the watches of users.

// bookmark is the type of events that only show how far the server has come.
const bookmark EventType = "BOOKMARK"

// stream returns the stream of a resource in a namespace, "" for all, or of one object of a name there. It uses the settings and the logger of the client.
func (c *Client) stream(r Resource, namespace, name string, h watchstream.Handler) *watchstream.Stream {
	return &watchstream.Stream{
		Server: &streamRequests{c, r.path(namespace, "", ""), name}, Handler: h, Settings: (*watchstream.Settings)(&c.source.Watching), Resource: r.Name(), Namespace: namespace, Log: c.log,
	}
}

// streamRequests makes the requests of a stream.
type streamRequests struct {
	client *Client
	path   string
	name   string // of the one object that is followed; "" for all
}

// query adds to what the server is asked for which object is followed.
func (s *streamRequests) query(q url.Values) url.Values {
	if s.name != "" {
		q.Set("fieldSelector", "metadata.name="+apirequest.FieldValue.Replace(s.name))
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
	if !errors.As(err, &api) {
		return watchstream.Failure{}
	}
	tooLarge := slices.ContainsFunc(api.Causes, func(c ErrorCause) bool { return c.Reason == "ResourceVersionTooLarge" })
	return watchstream.Failure{Answered: true, Code: api.Code, Watched: api.Method == watchMethod, RetryAfter: api.RetryAfter, TooLarge: tooLarge}
}

// streamed returns what a stream has brought, with bytes of its own: a change, or an item of a listing, whose type is "" and which may lack what all items have in common.
func streamed(t string, o *rawjson.Header, raw []byte, meta *typeMeta) RawEvent {
	if t == string(Listed) {
		return RawEvent{Type: Listed, Body: listedBody(o, raw, meta)}
	}
	return RawEvent{Type: EventType(t), Body: outlined(o, bytes.Clone(raw[:o.End]), 0)}
}

// watch makes one watch request and hands over its events until it ends. When it is made once more with other credentials, it goes on
// from the last event. Without a version to begin with, it ends instead: it would begin anew, without what was deleted meanwhile.
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

// scanWatch is watch for callers that want the outlines first, in bytes that are used again afterwards. It returns when the request is
// let in, and asks for the query to be brought up to date before the request is repeated with other credentials, unless the functions are nil.
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
