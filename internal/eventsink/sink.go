// Package eventsink posts Kubernetes events, one after another, on a goroutine that starts with the first event. Only the shutdown of the operator waits for
// it. It drops events that it cannot post in time, counts them, and logs them.
package eventsink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

const (
	maxMessage          = 1024            // maximum size of a message in the API, in bytes
	queueSize           = 1024            // maximum number of queued events
	timeout             = 5 * time.Second // for one event
	drainTimeout        = 5 * time.Second // for all queued events at shutdown
	lostWarningInterval = time.Minute     // between two log lines about lost events
)

// API is the API for events.
type API interface {
	// CreateEvent creates an event. The code is the status code of an error, 0 without a response.
	CreateEvent(ctx context.Context, namespace, name string, event []byte) (code int, err error)
	// PatchEvent changes an event with a merge patch. It returns the same values.
	PatchEvent(ctx context.Context, namespace, name string, patch []byte) (code int, err error)
	// DefaultNamespace returns the namespace for events about cluster-scoped objects.
	DefaultNamespace(ctx context.Context) (string, error)
}

// ErrNotLeading is the error of an event that the leader posts instead. It is not logged.
var ErrNotLeading = errors.New("another replica leads")

// Source has the fields of all events of the operator.
type Source struct {
	Component, Instance, NamePrefix string
}

// Sink posts the events of an operator.
type Sink struct {
	api    API
	source Source
	log    *slog.Logger
	meter  *metrics.Metrics

	mu     sync.Mutex // guards following
	queue  chan *queuedEvent
	closed bool
	ctx    context.Context // of the requests
	end    context.CancelFunc
	done   chan struct{} // closed after the last request

	// Used only by the goroutine of run.
	correlator *correlator
	lost       int64 // lost events that were logged
	warnedAt   time.Time

	createsOnly bool // the operator may not patch events
}

// queuedEvent is an event to be posted.
type queuedEvent struct {
	Event
	at time.Time
}

// New returns a sink.
func New(api API, source Source, log *slog.Logger, meter *metrics.Metrics) *Sink {
	return &Sink{api: api, source: source, log: log, meter: meter}
}

// Post queues an event. It never blocks.
func (s *Sink) Post(e Event) {
	e.Reason, e.Message = cut.Bytes(e.Reason, 128), cut.Middle(e.Message, maxMessage)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.meter.Add(metrics.EventsLost, 1)
		return
	}
	if s.queue == nil {
		s.queue, s.done = make(chan *queuedEvent, queueSize), make(chan struct{})
		s.ctx, s.end = context.WithCancel(context.Background())
		go s.run()
	}
	select {
	case s.queue <- &queuedEvent{e, time.Now()}:
	default:
		s.meter.Add(metrics.EventsLost, 1)
	}
}

// Stop posts the queued events, for a limited time or until the context ends, and drops later ones.
func (s *Sink) Stop(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	queue := s.queue
	s.mu.Unlock()
	if queue == nil {
		return
	}
	close(queue)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, s.end)()
	<-s.done
	s.end()
}

// run posts events until Stop.
func (s *Sink) run() {
	defer close(s.done)
	s.correlator = newCorrelator()
	for e := range s.queue {
		if s.ctx.Err() != nil {
			s.meter.Add(metrics.EventsLost, 1)
			continue
		}
		s.handle(e)
		if time.Since(s.warnedAt) >= lostWarningInterval {
			s.warnLost()
		}
	}
	s.warnLost()
}

// warnLost logs the number of events lost since the last warning.
func (s *Sink) warnLost() {
	if lost := s.meter.Load(metrics.EventsLost); lost > s.lost {
		s.log.Warn("Lost events that could not be posted in time, or were too many for one object", "events", lost-s.lost, "help", "K1107")
		s.lost, s.warnedAt = lost, time.Now()
	}
}

// handle posts an event, or adds it to the event that it repeats.
func (s *Sink) handle(e *queuedEvent) {
	before, allowed := s.correlator.correlate(e.Event, e.at)
	if !allowed {
		if before == nil {
			s.meter.Add(metrics.EventsLost, 1)
		}
		return // a later repetition sends the count of a posted event
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, timeout, fmt.Errorf("not within %s", timeout))
	defer cancel()
	if before != nil && !s.createsOnly {
		code, err := s.repeat(ctx, before)
		switch code {
		case http.StatusForbidden: // such as the permissions of a Kopf for Python operator
			s.createsOnly = true
		case http.StatusNotFound: // the event has expired
		default:
			if err != nil {
				s.fail(e, code, err)
			}
			return
		}
	}
	s.create(ctx, e)
}

// create posts an event.
func (s *Sink) create(ctx context.Context, e *queuedEvent) {
	namespace, err := e.Object.Namespace, error(nil)
	if namespace == "" {
		namespace, err = s.api.DefaultNamespace(ctx)
		namespace = cmp.Or(namespace, "default")
	}
	name, code := s.source.NamePrefix+strconv.FormatUint(rand.Uint64(), 36), 0
	if err == nil {
		code, err = s.api.CreateEvent(ctx, namespace, name, s.encode(e, namespace, name))
	}
	if err != nil && code != http.StatusConflict { // on a conflict, the name exists: the response to an earlier attempt was lost
		s.fail(e, code, err)
		return
	}
	s.meter.Add(metrics.EventsPosted, 1)
	s.correlator.add(e.Event, &postedEvent{Namespace: namespace, Name: name, Count: 1, At: e.at})
}

func (s *Sink) fail(e *queuedEvent, code int, err error) {
	s.meter.Add(metrics.EventsLost, 1)
	s.lost++                           // already logged here
	if errors.Is(err, ErrNotLeading) { // the leader posts its own events
		return
	}
	attrs := []any{"object", e.Object, "type", e.Type, "reason", e.Reason, "message", e.Message}
	if code != 0 {
		attrs = append(attrs, "code", code)
	}
	s.log.Warn("Posting an event failed", append(attrs, "error", err, "help", "K1106")...)
}

// encode returns the JSON of an event.
func (s *Sink) encode(e *queuedEvent, namespace, name string) []byte {
	now := e.at.UTC().Format(iso8601.Layout)
	about := namespace
	if e.Object.Namespace == "" && (namespace == "default" || namespace == "kube-system") {
		about = "" // else kubectl would not find it
	}
	var o rawjson.Object
	for _, field := range [...][2]string{
		{"metadata.namespace", namespace}, {"metadata.name", name}, {"metadata.generateName", s.source.NamePrefix},
		{"action", "Action?"}, {"type", e.Type}, {"reason", e.Reason}, {"message", e.Message},
		{"reportingComponent", s.source.Component}, {"reportingInstance", s.source.Instance},
		{"source.component", s.source.Component},
		{"involvedObject.apiVersion", e.Object.APIVersion}, {"involvedObject.kind", e.Object.Kind}, {"involvedObject.name", e.Object.Name},
		{"involvedObject.uid", e.Object.UID}, {"involvedObject.namespace", about},
		{"firstTimestamp", now}, {"lastTimestamp", now}, {"eventTime", now},
	} {
		if field[1] != "" {
			o.Set(rawjson.AppendString(nil, field[1]), strings.Split(field[0], ".")...)
		}
	}
	return o.AppendTo(nil)
}

// repeat updates the count of a posted event.
func (s *Sink) repeat(ctx context.Context, before *postedEvent) (code int, err error) {
	patch := fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, before.Count, before.At.UTC().Format(iso8601.Layout))
	if code, err = s.api.PatchEvent(ctx, before.Namespace, before.Name, patch); err == nil {
		s.meter.Add(metrics.EventsMerged, 1)
	}
	return code, err
}
