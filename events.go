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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file posts Kubernetes events, one after another, on a goroutine that begins with the first of them. Nobody waits for it
// but the end of the operator. What cannot be posted in time is lost, counted, and told in the log.

const (
	eventsWaiting  = 1024             // how many events may wait to be posted
	eventDeadline  = 5 * time.Second  // for one event
	eventsDraining = 5 * time.Second  // for all that wait when the operator ends
	eventsAlike    = 10 * time.Minute // how long the repetitions of an event are added to it
	eventsBurst    = 25               // events about one object at once
	eventsRefill   = 5 * time.Minute  // until there may be one more
	eventsKnown    = 4096             // objects and events that are remembered
	eventsTold     = time.Minute      // between two log lines on lost events
)

// eventSink posts the events of an operator.
type eventSink struct {
	settings *PostingSettings
	client   *Client
	log      *slog.Logger
	meter    *metrics.Metrics

	mu     sync.Mutex // guards following
	queue  chan *posting
	closed bool
	ctx    context.Context // of the requests
	end    context.CancelFunc
	done   chan struct{} // closed when nothing is posted any more

	// The goroutine's.
	series  map[eventKey]*happened
	buckets map[ObjectReference]*bucket
	lost    int64 // that were told in the log
	told    time.Time

	createsOnly bool // whether events may not be patched
}

// eventKey is what repetitions of an event have in common.
type eventKey struct {
	ref                   ObjectReference
	kind, reason, message string
}

// posting is an event that is to be posted.
type posting struct {
	eventKey
	at time.Time
}

// happened is an event that was posted, and how often it has happened.
type happened struct {
	namespace, name string
	count           int
	at              time.Time // of the last one
}

// bucket says how many events about an object may be posted: one in each time of refilling, and some at once.
type bucket struct {
	used  float64
	since time.Time
}

// post takes an event, if events of its level are posted and its object can have any.
func (p *eventSink) post(level int, ref ObjectReference, kind, reason, message string) {
	if !p.settings.Enabled || level < p.settings.Level {
		return
	}
	if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == "Event" && (ref.APIVersion == "v1" || group == "events.k8s.io") {
		return // events about events have no end
	}
	if ref.Kind == "" || ref.Name == "" {
		p.refuse(reason, errNameless)
		return
	}
	ev := &posting{eventKey{ref, kind, cut.Bytes(reason, 128), cut.Middle(message, maxEventMessage)}, time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.meter.Add(metrics.EventsLost, 1)
		return
	}
	if p.queue == nil {
		p.queue, p.done = make(chan *posting, eventsWaiting), make(chan struct{})
		p.ctx, p.end = context.WithCancel(context.Background())
		go p.run()
	}
	select {
	case p.queue <- ev:
	default:
		p.meter.Add(metrics.EventsLost, 1)
	}
}

// refuse tells why there is no event.
func (p *eventSink) refuse(reason string, err error) {
	p.log.Warn("There is nothing to post an event about.", "reason", reason, "error", err)
}

// listens tells the lowest level of log lines that are posted, too.
func (p *eventSink) listens() (int, bool) {
	return p.settings.Level, p.settings.Loggers && p.settings.Enabled
}

// stop posts what waits, within a time or until the context ends, and takes nothing more.
func (p *eventSink) stop(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	queue := p.queue
	p.mu.Unlock()
	if queue == nil {
		return
	}
	close(queue)
	ctx, cancel := context.WithTimeout(ctx, eventsDraining)
	defer cancel()
	defer context.AfterFunc(ctx, p.end)()
	<-p.done
	p.end()
}

// run posts events until there will be no more.
func (p *eventSink) run() {
	defer close(p.done)
	p.series, p.buckets = make(map[eventKey]*happened), make(map[ObjectReference]*bucket)
	for ev := range p.queue {
		if p.ctx.Err() != nil {
			p.meter.Add(metrics.EventsLost, 1)
			continue
		}
		p.handle(ev)
		if time.Since(p.told) >= eventsTold {
			p.warnLost()
		}
	}
	p.warnLost()
}

// warnLost logs how many events were lost since it was told last.
func (p *eventSink) warnLost() {
	if lost := p.meter.Load(metrics.EventsLost); lost > p.lost {
		p.log.Warn("Some events could not be posted in time, or were too many about one object; they are lost.", "events", lost-p.lost)
		p.lost, p.told = lost, time.Now()
	}
}

// handle posts an event, or adds it to the one that it repeats.
func (p *eventSink) handle(ev *posting) {
	p.forget()
	before := p.series[ev.eventKey]
	if before != nil && ev.at.Sub(before.at) > eventsAlike {
		before = nil
	}
	if before != nil {
		before.count++
		before.at = ev.at
	}
	if !p.allow(ev) {
		if before == nil {
			p.meter.Add(metrics.EventsLost, 1)
		}
		return // the count of an event that is happened is sent with a later one
	}
	ctx, cancel := context.WithTimeoutCause(p.ctx, eventDeadline, fmt.Errorf("not within %s", eventDeadline))
	defer cancel()
	if before != nil && !p.createsOnly {
		err := p.repeat(ctx, before)
		switch StatusCode(err) {
		case http.StatusForbidden: // as the rights of operators of the original are
			p.createsOnly = true
		case http.StatusNotFound: // it has expired
		default:
			if err != nil {
				p.fail(ev, err)
			}
			return
		}
	}
	namespace, err := p.namespace(ctx, ev.ref)
	name := p.settings.EventNamePrefix + strconv.FormatUint(rand.Uint64(), 36)
	if err == nil {
		_, err = p.client.body(ctx, &request{
			method: http.MethodPost, path: eventsPath(namespace), contentType: "application/json", body: p.event(ev, namespace, name), named: true,
		})
	}
	if err != nil && StatusCode(err) != http.StatusConflict { // by its name, it is there already: the answer to an earlier attempt was lost
		p.fail(ev, err)
		return
	}
	p.meter.Add(metrics.EventsPosted, 1)
	p.series[ev.eventKey] = &happened{namespace: namespace, name: name, count: 1, at: ev.at}
}

func (p *eventSink) fail(ev *posting, err error) {
	p.meter.Add(metrics.EventsLost, 1)
	p.lost++ // it is told here
	attrs := []any{"object", ev.ref, "type", ev.kind, "reason", ev.reason, "message", ev.message}
	var api *APIError
	if errors.As(err, &api) {
		attrs = append(attrs, "code", api.Code)
	}
	p.log.Warn("Failed to post an event.", append(attrs, "error", err)...)
}

func eventsPath(namespace string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/events"
}

// namespace returns where an event about an object belongs.
func (p *eventSink) namespace(ctx context.Context, ref ObjectReference) (string, error) {
	if ref.Namespace != "" {
		return ref.Namespace, nil
	}
	info, err := p.client.ConnectionInfo(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(info.DefaultNamespace, "default"), nil
}

// event returns what is posted.
func (p *eventSink) event(ev *posting, namespace, name string) []byte {
	now := ev.at.UTC().Format(iso8601.Layout)
	about := namespace
	if ev.ref.Namespace == "" && (namespace == "default" || namespace == "kube-system") {
		about = "" // or kubectl would not find it
	}
	var o rawjson.Object
	for _, field := range [...][2]string{
		{"metadata.namespace", namespace}, {"metadata.name", name}, {"metadata.generateName", p.settings.EventNamePrefix},
		{"action", "Action?"}, {"type", ev.kind}, {"reason", ev.reason}, {"message", ev.message},
		{"reportingComponent", p.settings.ReportingComponent}, {"reportingInstance", p.settings.ReportingInstance},
		{"source.component", p.settings.ReportingComponent},
		{"involvedObject.apiVersion", ev.ref.APIVersion}, {"involvedObject.kind", ev.ref.Kind}, {"involvedObject.name", ev.ref.Name},
		{"involvedObject.uid", ev.ref.UID}, {"involvedObject.namespace", about},
		{"firstTimestamp", now}, {"lastTimestamp", now}, {"eventTime", now},
	} {
		if field[1] != "" {
			o.Set(rawjson.AppendString(nil, field[1]), strings.Split(field[0], ".")...)
		}
	}
	return o.AppendTo(nil)
}

// repeat adds what has happened since to an event that was posted.
func (p *eventSink) repeat(ctx context.Context, before *happened) error {
	patch := fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, before.count, before.at.UTC().Format(iso8601.Layout))
	_, err := p.client.body(ctx, &request{
		method: http.MethodPatch, path: eventsPath(before.namespace) + "/" + url.PathEscape(before.name),
		contentType: "application/merge-patch+json", body: patch,
	})
	if err == nil {
		p.meter.Add(metrics.EventsMerged, 1)
	}
	return err
}

// allow tells whether there may be one more request about an object.
func (p *eventSink) allow(ev *posting) bool {
	b := p.buckets[ev.ref]
	if b == nil {
		b = &bucket{since: ev.at}
		p.buckets[ev.ref] = b
	}
	b.used = max(b.used-float64(ev.at.Sub(b.since))/float64(eventsRefill), 0)
	b.since = ev.at
	if b.used > eventsBurst-1 {
		return false
	}
	b.used++
	return true
}

// forget keeps the memory of events within bounds.
func (p *eventSink) forget() {
	if len(p.series) >= eventsKnown {
		clear(p.series)
	}
	if len(p.buckets) >= eventsKnown {
		clear(p.buckets)
	}
}

// maxEventMessage is the longest message that the API server takes, in bytes.
const maxEventMessage = 1024
