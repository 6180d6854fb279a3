// Package eventsink posts Kubernetes events, one after another, on a goroutine that begins with the first of them. Nothing waits for it
// but the end of the operator. What cannot be posted in time is lost, counted, and logged.
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
	maxMessage          = 1024            // the longest message that the API server takes, in bytes
	queueSize           = 1024            // how many events may wait to be posted
	timeout             = 5 * time.Second // for one event
	drainTimeout        = 5 * time.Second // for all that wait when the operator ends
	lostWarningInterval = time.Minute     // between two log lines on lost events
)

// API is where events are posted.
type API interface {
	// CreateEvent creates an event. The code is that of the API server's refusal, 0 if it has not answered.
	CreateEvent(ctx context.Context, namespace, name string, event []byte) (code int, err error)
	// PatchEvent changes an event by a merge patch, in the same way.
	PatchEvent(ctx context.Context, namespace, name string, patch []byte) (code int, err error)
	// DefaultNamespace returns the namespace for events about objects that are in none.
	DefaultNamespace(ctx context.Context) (string, error)
}

// ErrNotLeading is the error of an event that another replica tells of; it is not logged.
var ErrNotLeading = errors.New("another replica leads")

// Source is what all events say of the operator.
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
	done   chan struct{} // closed when nothing is posted any more

	// The goroutine's.
	correlator *correlator
	lost       int64 // that were logged
	warnedAt   time.Time

	createsOnly bool // whether events may not be patched
}

// queuedEvent is an event that is to be posted.
type queuedEvent struct {
	Event
	at time.Time
}

// New returns a sink.
func New(api API, source Source, log *slog.Logger, meter *metrics.Metrics) *Sink {
	return &Sink{api: api, source: source, log: log, meter: meter}
}

// Post takes an event, and never waits.
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

// Stop posts what waits, within a time or until the context ends, and takes nothing more.
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

// run posts events until there will be no more.
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

// warnLost logs how many events were lost since the last warning.
func (s *Sink) warnLost() {
	if lost := s.meter.Load(metrics.EventsLost); lost > s.lost {
		s.log.Warn("Lost events that could not be posted in time, or were too many for one object", "help", "K1107", "events", lost-s.lost)
		s.lost, s.warnedAt = lost, time.Now()
	}
}

// handle posts an event, or adds it to the one that it repeats.
func (s *Sink) handle(e *queuedEvent) {
	before, allowed := s.correlator.correlate(e.Event, e.at)
	if !allowed {
		if before == nil {
			s.meter.Add(metrics.EventsLost, 1)
		}
		return // the count of an event that is posted already is sent with a later one
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, timeout, fmt.Errorf("not within %s", timeout))
	defer cancel()
	if before != nil && !s.createsOnly {
		code, err := s.repeat(ctx, before)
		switch code {
		case http.StatusForbidden: // as the rights of operators of the original are
			s.createsOnly = true
		case http.StatusNotFound: // it has expired
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
	if err != nil && code != http.StatusConflict { // by its name, it is there already: the answer to an earlier attempt was lost
		s.fail(e, code, err)
		return
	}
	s.meter.Add(metrics.EventsPosted, 1)
	s.correlator.add(e.Event, &postedEvent{Namespace: namespace, Name: name, Count: 1, At: e.at})
}

func (s *Sink) fail(e *queuedEvent, code int, err error) {
	s.meter.Add(metrics.EventsLost, 1)
	s.lost++                           // it is logged here
	if errors.Is(err, ErrNotLeading) { // another replica works, and tells of what it does
		return
	}
	attrs := []any{"object", e.Object, "type", e.Type, "reason", e.Reason, "message", e.Message}
	if code != 0 {
		attrs = append(attrs, "code", code)
	}
	s.log.Warn("Posting an event failed", append(attrs, "error", err, "help", "K1106")...)
}

// encode returns what is posted.
func (s *Sink) encode(e *queuedEvent, namespace, name string) []byte {
	now := e.at.UTC().Format(iso8601.Layout)
	about := namespace
	if e.Object.Namespace == "" && (namespace == "default" || namespace == "kube-system") {
		about = "" // or kubectl would not find it
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

// repeat adds what has happened since to an event that was posted.
func (s *Sink) repeat(ctx context.Context, before *postedEvent) (code int, err error) {
	patch := fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, before.Count, before.At.UTC().Format(iso8601.Layout))
	if code, err = s.api.PatchEvent(ctx, before.Namespace, before.Name, patch); err == nil {
		s.meter.Add(metrics.EventsMerged, 1)
	}
	return code, err
}
