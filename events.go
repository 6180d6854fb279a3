package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/kopf-go/kopf/internal/eventsink"
	"github.com/kopf-go/kopf/internal/metrics"
)

// eventSink posts the events of an operator.
type eventSink struct {
	*eventsink.Sink
	settings *PostingSettings
	log      *slog.Logger
}

func newEventSink(settings *PostingSettings, client *Client, log *slog.Logger, meter *metrics.Metrics) *eventSink {
	source := eventsink.Source{Component: settings.ReportingComponent, Instance: settings.ReportingInstance, NamePrefix: settings.EventNamePrefix}
	return &eventSink{eventsink.New(eventClient{client}, source, log, meter), settings, log}
}

// post posts an event, if the settings and the object allow it.
func (e *eventSink) post(level slog.Level, ref ObjectReference, kind, reason, message string) {
	if !e.settings.Enabled || level < e.settings.Level {
		return
	}
	if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == "Event" && (ref.APIVersion == "v1" || group == "events.k8s.io") {
		return // events about events would never end
	}
	if ref.Kind == "" || ref.Name == "" {
		e.reject(reason, errNameless)
		return
	}
	e.Post(eventsink.Event{Object: eventsink.Object(ref), Type: kind, Reason: reason, Message: message})
}

// reject logs why kopf does not post an event.
func (e *eventSink) reject(reason string, err error) {
	e.log.Warn("Cannot post an event: invalid object", "reason", reason, "error", err, "help", "K1108")
}

// logLevel returns the lowest level of log lines that are also posted.
func (e *eventSink) logLevel() (slog.Level, bool) {
	return e.settings.Level, e.settings.Loggers && e.settings.Enabled
}

// stop posts the waiting events until the timeout or the end of the context, and rejects new ones.
func (e *eventSink) stop(ctx context.Context) {
	if e != nil {
		e.Stop(ctx)
	}
}

// eventClient sends the requests of events.
type eventClient struct{ client *Client }

// CreateEvent implements [eventsink.API].
func (c eventClient) CreateEvent(ctx context.Context, namespace, name string, event []byte) (code int, err error) {
	return c.send(ctx, &request{method: http.MethodPost, path: eventsPath(namespace), contentType: "application/json", body: event, named: true})
}

// PatchEvent implements [eventsink.API].
func (c eventClient) PatchEvent(ctx context.Context, namespace, name string, patch []byte) (code int, err error) {
	path := eventsPath(namespace) + "/" + url.PathEscape(name)
	return c.send(ctx, &request{method: http.MethodPatch, path: path, contentType: "application/merge-patch+json", body: patch})
}

func (c eventClient) send(ctx context.Context, r *request) (code int, err error) {
	if _, err = c.client.body(ctx, r); errors.Is(err, ErrLeadershipLost) {
		err = eventsink.ErrNotLeading
	}
	return StatusCode(err), err
}

// DefaultNamespace implements [eventsink.API].
func (c eventClient) DefaultNamespace(ctx context.Context) (string, error) {
	info, err := c.client.ConnectionInfo(ctx)
	if err != nil {
		return "", err
	}
	return info.DefaultNamespace, nil
}

func eventsPath(namespace string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/events"
}

// The types of Kubernetes events. You can also use other strings.
const (
	EventNormal  = "Normal"  // of PostInfo
	EventWarning = "Warning" // of PostWarning
	EventError   = "Error"   // of PostError
)

// eventRecorder posts the events of handlers.
type eventRecorder interface {
	// post posts an event, depending on its level.
	post(level slog.Level, ref ObjectReference, kind, reason, message string)
	// reject logs why kopf does not post an event.
	reject(reason string, err error)
	// logLevel returns the lowest level of log lines that are also posted, and whether any are.
	logLevel() (level slog.Level, ok bool)
}

// levelAny is the level of events that do not depend on the level setting.
const levelAny slog.Level = 1 << 30

// PostEvent posts a Kubernetes event about the object of the handler, or about the objects in the last arguments: each one a [Body], an [ObjectReference], a
// map, a struct, or a slice of them. It skips nil. It posts in the background, in order, so it neither waits nor fails. kopf logs errors. The reason is a
// CamelCase word of at most 128 bytes, and the message has at most 1024. kopf shortens longer ones. Settings.Posting.Level is the lowest level of events of the
// types Normal, Warning and Error. Settings.Posting.Enabled turns all types on or off.
//
// kopf counts repetitions in the first event. An object gets 25 events at once, and then one in 5 minutes. kopf drops more. An Object that you make yourself
// posts nothing.
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
	for _, subject := range eventsink.Subjects(about) {
		if ref, err := subjectOf(subject); err != nil {
			o.events.reject(reason, err)
		} else {
			o.events.post(level, ref, kind, reason, message)
		}
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

// PostError posts an event of the type Error. The message is followed by the text of the error. The default reason is the name of the error's type. See
// [Object.PostEvent].
func (o *Object) PostError(reason, message string, err error, about ...any) {
	if err != nil {
		message = strings.TrimSpace(message + " " + err.Error())
		if reason == "" {
			reason = typeName(err)
		}
	}
	o.PostEvent(EventError, reason, message, about...)
}

// postFailure posts that a handler has failed permanently, so that users of the object see it without the log.
func (o *Object) postFailure(noun string, id HandlerID, err error) {
	o.postFailed(fmt.Sprintf("%s '%s' failed permanently: %s", noun, id, failureText(err)))
}

// postRefusal posts that the API server has refused the patch of a handler that goes on.
func (o *Object) postRefusal(noun string, id HandlerID, err error) {
	o.postFailed(fmt.Sprintf("%s '%s' failed: its patch was refused: %s", noun, id, err))
}

func (o *Object) postFailed(message string) {
	if o == nil || o.events == nil { // of a handler without an object
		return
	}
	o.events.post(slog.LevelError, o.Body.Reference(), EventWarning, "HandlerFailed", message)
}

// typeName returns the name of an error's type, without its package.
func typeName(err error) string {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// subjectOf returns the reference to an object that an event is about.
func subjectOf(v any) (ref ObjectReference, err error) {
	switch x := v.(type) {
	case *Body:
		return x.Reference(), nil
	case ObjectReference:
		return x, nil
	}
	switch reflect.TypeOf(v).Kind() {
	case reflect.Pointer, reflect.Map, reflect.Struct:
		body, err := NewBody(v)
		if err != nil {
			return ref, err
		}
		return body.Reference(), nil
	}
	return ref, fmt.Errorf("invalid object %v of an event: want a body, a reference, a map or a struct", v)
}

// errNameless is the error for objects that events cannot refer to.
var errNameless = errors.New("the object has no kind or no name")
