package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/correlator"
	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file posts Kubernetes events, one after another, on a goroutine that begins with the first of them. Nothing waits for it
// but the end of the operator. What cannot be posted in time is lost, counted, and logged.

const (
	maxEventMessage     = 1024            // the longest message that the API server takes, in bytes
	eventQueueSize      = 1024            // how many events may wait to be posted
	eventTimeout        = 5 * time.Second // for one event
	eventDrainTimeout   = 5 * time.Second // for all that wait when the operator ends
	lostWarningInterval = time.Minute     // between two log lines on lost events
)

// eventSink posts the events of an operator.
type eventSink struct {
	settings *PostingSettings
	client   *Client
	log      *slog.Logger
	meter    *metrics.Metrics

	mu     sync.Mutex // guards following
	queue  chan *queuedEvent
	closed bool
	ctx    context.Context // of the requests
	end    context.CancelFunc
	done   chan struct{} // closed when nothing is posted any more

	// The goroutine's.
	correlator *correlator.Correlator
	lost       int64 // that were logged
	warnedAt   time.Time

	createsOnly bool // whether events may not be patched
}

// queuedEvent is an event that is to be posted.
type queuedEvent struct {
	correlator.Event
	at time.Time
}

// post takes an event, if events of its level are posted and its object can have any.
func (e *eventSink) post(level slog.Level, ref ObjectReference, kind, reason, message string) {
	if !e.settings.Enabled || level < e.settings.Level {
		return
	}
	if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == "Event" && (ref.APIVersion == "v1" || group == "events.k8s.io") {
		return // events about events have no end
	}
	if ref.Kind == "" || ref.Name == "" {
		e.reject(reason, errNameless)
		return
	}
	ev := &queuedEvent{correlator.Event{
		Object: correlator.Object(ref), Type: kind, Reason: cut.Bytes(reason, 128), Message: cut.Middle(message, maxEventMessage),
	}, time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.meter.Add(metrics.EventsLost, 1)
		return
	}
	if e.queue == nil {
		e.queue, e.done = make(chan *queuedEvent, eventQueueSize), make(chan struct{})
		e.ctx, e.end = context.WithCancel(context.Background())
		go e.run()
	}
	select {
	case e.queue <- ev:
	default:
		e.meter.Add(metrics.EventsLost, 1)
	}
}

// reject returns why there is no event.
func (e *eventSink) reject(reason string, err error) {
	e.log.Warn("Cannot post an event: invalid object", "reason", reason, "error", err)
}

// logLevel returns the lowest level of log lines that are posted, too.
func (e *eventSink) logLevel() (slog.Level, bool) {
	return e.settings.Level, e.settings.Loggers && e.settings.Enabled
}

// stop posts what waits, within a time or until the context ends, and takes nothing more.
func (e *eventSink) stop(ctx context.Context) {
	if e == nil {
		return
	}
	e.mu.Lock()
	e.closed = true
	queue := e.queue
	e.mu.Unlock()
	if queue == nil {
		return
	}
	close(queue)
	ctx, cancel := context.WithTimeout(ctx, eventDrainTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, e.end)()
	<-e.done
	e.end()
}

// run posts events until there will be no more.
func (e *eventSink) run() {
	defer close(e.done)
	e.correlator = correlator.New()
	for ev := range e.queue {
		if e.ctx.Err() != nil {
			e.meter.Add(metrics.EventsLost, 1)
			continue
		}
		e.handle(ev)
		if time.Since(e.warnedAt) >= lostWarningInterval {
			e.warnLost()
		}
	}
	e.warnLost()
}

// warnLost logs how many events were lost since the last warning.
func (e *eventSink) warnLost() {
	if lost := e.meter.Load(metrics.EventsLost); lost > e.lost {
		e.log.Warn("Lost events that could not be posted in time, or were too many for one object", "events", lost-e.lost)
		e.lost, e.warnedAt = lost, time.Now()
	}
}

// handle posts an event, or adds it to the one that it repeats.
func (e *eventSink) handle(ev *queuedEvent) {
	before, allowed := e.correlator.Correlate(ev.Event, ev.at)
	if !allowed {
		if before == nil {
			e.meter.Add(metrics.EventsLost, 1)
		}
		return // the count of an event that is posted already is sent with a later one
	}
	ctx, cancel := context.WithTimeoutCause(e.ctx, eventTimeout, fmt.Errorf("not within %s", eventTimeout))
	defer cancel()
	if before != nil && !e.createsOnly {
		err := e.repeat(ctx, before)
		switch StatusCode(err) {
		case http.StatusForbidden: // as the rights of operators of the original are
			e.createsOnly = true
		case http.StatusNotFound: // it has expired
		default:
			if err != nil {
				e.fail(ev, err)
			}
			return
		}
	}
	namespace, err := e.namespace(ctx, ev.Object.Namespace)
	name := e.settings.EventNamePrefix + strconv.FormatUint(rand.Uint64(), 36)
	if err == nil {
		_, err = e.client.body(ctx, &request{
			method: http.MethodPost, path: eventsPath(namespace), contentType: "application/json", body: e.event(ev, namespace, name), named: true,
		})
	}
	if err != nil && StatusCode(err) != http.StatusConflict { // by its name, it is there already: the answer to an earlier attempt was lost
		e.fail(ev, err)
		return
	}
	e.meter.Add(metrics.EventsPosted, 1)
	e.correlator.Add(ev.Event, &correlator.Posted{Namespace: namespace, Name: name, Count: 1, At: ev.at})
}

func (e *eventSink) fail(ev *queuedEvent, err error) {
	e.meter.Add(metrics.EventsLost, 1)
	e.lost++                               // it is logged here
	if errors.Is(err, ErrLeadershipLost) { // another replica works, and tells of what it does
		return
	}
	attrs := []any{"object", ObjectReference(ev.Object), "type", ev.Type, "reason", ev.Reason, "message", ev.Message}
	var api *APIError
	if errors.As(err, &api) {
		attrs = append(attrs, "code", api.Code)
	}
	e.log.Warn("Posting an event failed", append(attrs, "error", err)...)
}

func eventsPath(namespace string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/events"
}

// namespace returns where an event about an object in a namespace, or in none, belongs.
func (e *eventSink) namespace(ctx context.Context, of string) (string, error) {
	if of != "" {
		return of, nil
	}
	info, err := e.client.ConnectionInfo(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(info.DefaultNamespace, "default"), nil
}

// event returns what is posted.
func (e *eventSink) event(ev *queuedEvent, namespace, name string) []byte {
	now := ev.at.UTC().Format(iso8601.Layout)
	about := namespace
	if ev.Object.Namespace == "" && (namespace == "default" || namespace == "kube-system") {
		about = "" // or kubectl would not find it
	}
	var o rawjson.Object
	for _, field := range [...][2]string{
		{"metadata.namespace", namespace}, {"metadata.name", name}, {"metadata.generateName", e.settings.EventNamePrefix},
		{"action", "Action?"}, {"type", ev.Type}, {"reason", ev.Reason}, {"message", ev.Message},
		{"reportingComponent", e.settings.ReportingComponent}, {"reportingInstance", e.settings.ReportingInstance},
		{"source.component", e.settings.ReportingComponent},
		{"involvedObject.apiVersion", ev.Object.APIVersion}, {"involvedObject.kind", ev.Object.Kind}, {"involvedObject.name", ev.Object.Name},
		{"involvedObject.uid", ev.Object.UID}, {"involvedObject.namespace", about},
		{"firstTimestamp", now}, {"lastTimestamp", now}, {"eventTime", now},
	} {
		if field[1] != "" {
			o.Set(rawjson.AppendString(nil, field[1]), strings.Split(field[0], ".")...)
		}
	}
	return o.AppendTo(nil)
}

// repeat adds what has happened since to an event that was posted.
func (e *eventSink) repeat(ctx context.Context, before *correlator.Posted) error {
	patch := fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, before.Count, before.At.UTC().Format(iso8601.Layout))
	_, err := e.client.body(ctx, &request{
		method: http.MethodPatch, path: eventsPath(before.Namespace) + "/" + url.PathEscape(before.Name),
		contentType: "application/merge-patch+json", body: patch,
	})
	if err == nil {
		e.meter.Add(metrics.EventsMerged, 1)
	}
	return err
}

// The types of Kubernetes events. Any other text is taken as well.
const (
	EventNormal  = "Normal"  // of PostInfo
	EventWarning = "Warning" // of PostWarning
	EventError   = "Error"   // of PostError
)

// eventRecorder takes the events that handlers post.
type eventRecorder interface {
	// post takes an event. The level decides whether it is posted at all.
	post(level slog.Level, ref ObjectReference, kind, reason, message string)
	// reject logs why there is no event about something.
	reject(reason string, err error)
	// logLevel returns the lowest level of log lines that are posted too, and whether any are.
	logLevel() (level slog.Level, ok bool)
}

// levelAny is the level of events that are posted if any are.
const levelAny slog.Level = 1 << 30

// PostEvent posts a Kubernetes event about the object of the handler, or instead about others: about an object as a [Body], an [ObjectReference],
// a map or a struct, or about each one in a slice of them; nil ones are passed over. It never waits and never fails: events are posted in
// the background, in their order, and what goes wrong with them is logged. The reason is a word in CamelCase of at most 128 bytes, the
// message a sentence of at most 1024; more is cut out. Events of the types Normal, Warning and Error are posted from
// Settings.Posting.Level up, as if they were logged; those of other types always, if Settings.Posting.Enabled.
//
// Repetitions are counted by the first event instead of posting it again, and an object gets 25 events at once, then one in 5
// minutes; more are dropped. An Object that was made by hand posts nothing.
func (o *Object) PostEvent(kind, reason, message string, about ...any) {
	level := levelAny
	switch kind {
	case EventNormal:
		level = slog.LevelInfo
	case EventWarning:
		level = slog.LevelWarn
	case EventError:
		level = slog.LevelError
	}
	if o.events == nil {
		return
	}
	if about == nil {
		o.events.post(level, o.Body.Reference(), kind, reason, message)
		return
	}
	for _, other := range about {
		o.postAbout(reflect.ValueOf(other), func(ref ObjectReference, err error) {
			if err != nil {
				o.events.reject(reason, err)
				return
			}
			o.events.post(level, ref, kind, reason, message)
		})
	}
}

// PostInfo posts an event of the type Normal. See [Object.PostEvent].
func (o *Object) PostInfo(reason, message string, about ...any) {
	o.PostEvent(EventNormal, reason, message, about...)
}

// PostWarning posts an event of the type Warning. See [Object.PostEvent].
func (o *Object) PostWarning(reason, message string, about ...any) {
	o.PostEvent(EventWarning, reason, message, about...)
}

// PostError posts an event of the type Error about an error. The text of the error follows the message, if there is one; an empty
// reason is replaced by the name of the error's type. See [Object.PostEvent].
func (o *Object) PostError(reason, message string, err error, about ...any) {
	if err != nil {
		message = strings.TrimSpace(message + " " + err.Error())
		if reason == "" {
			reason = typeName(err)
		}
	}
	o.PostEvent(EventError, reason, message, about...)
}

// typeName returns the name of an error's type, without its package.
func typeName(err error) string {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// postAbout finds the objects in a value, and has each of them posted about.
func (o *Object) postAbout(v reflect.Value, post func(ObjectReference, error)) {
	if !v.IsValid() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return
		}
	}
	switch x := v.Interface().(type) {
	case *Body:
		post(x.Reference(), nil)
		return
	case ObjectReference:
		post(x, nil)
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		o.postAbout(v.Elem(), post)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			o.postAbout(v.Index(i), post)
		}
	case reflect.Pointer, reflect.Map, reflect.Struct:
		body, err := NewBody(v.Interface())
		if err != nil {
			post(ObjectReference{}, err)
			return
		}
		post(body.Reference(), nil)
	default:
		post(ObjectReference{}, fmt.Errorf("invalid object %v of an event: want a body, a reference, a map or a struct", v.Interface()))
	}
}

// errNameless is why there is no event about an object.
var errNameless = errors.New("the object has no kind or no name")
