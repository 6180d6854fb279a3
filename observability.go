package kopf

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/kopf-go/kopf/internal/audit"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/traceparent"
)

// This file has the audit of calls, the spans of traces, the count of failing objects, and the metrics of users. The audit and the traces cost nothing if
// they are disabled.

// Tracer starts spans for the traces of an operator. docs/tracing.md has an adapter to OpenTelemetry. A Tracer must be safe for concurrent use.
type Tracer interface {
	// Start starts a span. Its parent is the span in the context, or else [TraceParent] of the context. Without both, it starts a new trace. The attributes
	// have names of OpenTelemetry's semantic conventions. The attribute "kopf.link" is the traceparent of a span to link to. kopf uses the returned context
	// inside the span, and traces nothing there if the span is nil. kopf logs panics of tracers and spans, and continues.
	Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, Span)
}

// Span is one operation in a trace: the handling of an object, a call of a handler, or a request. See [Tracer].
type Span interface {
	// End ends the span. The error is nil for success.
	End(err error)
	// TraceParent returns the W3C header "traceparent" of the span, for requests in it. For none, it returns "". kopf ignores invalid headers.
	TraceParent() string
}

// TracingSettings configure the traces of an operator. A trace shows the handlers and requests for an object.
type TracingSettings struct {
	// Tracer starts the spans. Default: nil, for no traces.
	Tracer Tracer
	// Ratio is the traced share of the handling of objects, from 0 to 1. kopf traces an admission review if the API server traces its request. Default: 1.
	Ratio float64
	// Annotation is the annotation with the traceparent of the client that has created or changed the object. Spans link to that. kopf copies it to desired
	// children, and ignores its changes. It has no effect without a Tracer. Empty means none. Default: "tracing.k8s.io/traceparent".
	Annotation string
}

// sampled returns the tracer if the current operation is traced, nil otherwise.
func (s *TracingSettings) sampled() Tracer {
	if s.Tracer == nil || s.Ratio < 1 && rand.Float64() >= s.Ratio {
		return nil
	}
	return s.Tracer
}

// untracked returns the annotation whose changes are ignored; "" for none.
func (s *TracingSettings) untracked() string {
	if s.Tracer == nil {
		return ""
	}
	return s.Annotation
}

// linkOf returns the traceparent in the annotation of an object, and whether it is valid. Users control its value.
func (s *TracingSettings) linkOf(body *Body) (link string, ok bool) {
	if link, ok = body.Annotation(s.Annotation); ok {
		_, ok = traceparent.Parse(link)
	}
	return link, ok
}

// link copies the annotation of the owner to a child, unless the child has one or must not have any.
func (s *TracingSettings) link(child map[string]any, owner *Body) {
	if s.Tracer == nil {
		return
	}
	if value, ok := s.linkOf(owner); ok {
		manifest.AddAnnotation(child, s.Annotation, value)
	}
}

// tracedKey is the context key for a span, or for the traceparent of another process.
type tracedKey struct{}

// TraceParent returns the W3C traceparent of the span in a context: that of the handler, or in an admission review that of the client. It returns "" without a
// span.
func TraceParent(ctx context.Context) string {
	switch v := ctx.Value(tracedKey{}).(type) {
	case Span:
		return v.TraceParent()
	case string:
		return v
	}
	return ""
}

// startSpan starts a span, and returns it with its context. Without a span, it returns the given context and nil.
func startSpan(ctx context.Context, t Tracer, log *slog.Logger, name string, attrs ...slog.Attr) (context.Context, Span) {
	s, inner := &guardedSpan{log: log}, ctx
	s.guard(func() { inner, s.span = t.Start(ctx, name, attrs...) })
	if s.span == nil || inner == nil {
		return ctx, nil
	}
	return context.WithValue(inner, tracedKey{}, Span(s)), s
}

// guardedSpan is a span of the user's tracer. It recovers panics, and drops values that are invalid in headers.
type guardedSpan struct {
	span Span // nil before the start
	log  *slog.Logger
}

// End implements [Span].
func (s *guardedSpan) End(err error) { s.guard(func() { s.span.End(err) }) }

// TraceParent implements [Span].
func (s *guardedSpan) TraceParent() (parent string) {
	s.guard(func() { parent = s.span.TraceParent() })
	if _, ok := traceparent.Parse(parent); !ok {
		return ""
	}
	return parent
}

// guard calls a function of the tracer.
func (s *guardedSpan) guard(call func()) {
	err := safecall.Do(func() error {
		call()
		return nil
	})
	if err != nil {
		s.log.Error("The tracer panicked; going on without it", "error", err, "stack", string(safecall.StackOf(err)), "help", "K1110")
	}
}

// endSpan ends a span, unless it is nil.
func endSpan(span Span, err error) {
	if span != nil {
		span.End(err)
	}
}

// within returns a context with the span of another context.
func within(ctx, traced context.Context) context.Context {
	if span, ok := traced.Value(tracedKey{}).(Span); ok {
		return context.WithValue(ctx, tracedKey{}, span)
	}
	return ctx
}

// trace starts the span of a cycle, the parent of those of its handlers and requests.
func (c *cycle) trace() Span {
	settings, body := &c.reactor.settings.Tracing, c.event.Body
	t := settings.sampled()
	if t == nil {
		return nil
	}
	attrs := objectAttrs(body.Reference(), c.served.resource)
	if link, ok := settings.linkOf(body); ok {
		attrs = append(attrs, slog.String("kopf.link", link))
	}
	ctx, span := startSpan(c.handlers, t, c.log, "handle "+c.served.resource.Plural, attrs...)
	c.handlers = ctx
	c.sender.ctx = within(c.sender.ctx, ctx)
	return span
}

// trace starts the span of a call, as a child of its cycle's, or without a parent for daemons and timers.
func (a *call) trace(ctx context.Context) (context.Context, Span) {
	t := a.settings.Tracing.Tracer
	if t == nil {
		return ctx, nil
	}
	var attrs []slog.Attr
	if _, traced := ctx.Value(tracedKey{}).(Span); !traced {
		if a.handler.task == nil || a.settings.Tracing.sampled() == nil {
			return ctx, nil
		}
		attrs = objectAttrs(a.object.Body.Reference(), a.object.Resource)
	}
	return startSpan(ctx, t, a.log, string(a.handler.id), append(attrs, slog.Int("kopf.attempt", a.retries+1))...)
}

// objectAttrs returns the attributes of a span about an object.
func objectAttrs(ref ObjectReference, r Resource) []slog.Attr {
	return []slog.Attr{slog.String("k8s.namespace.name", ref.Namespace), slog.String("k8s.object.kind", ref.Kind), slog.String("k8s.object.name", ref.Name), slog.String("k8s.object.uid", ref.UID), slog.String("k8s.resource.name", r.Name())}
}

// tracedLogger returns a logger with the IDs of the context's span, if that is sampled.
func tracedLogger(ctx context.Context, log *slog.Logger) *slog.Logger {
	if id, span, sampled := traceIDs(ctx); sampled {
		return log.With("trace_id", id, "span_id", span)
	}
	return log
}

// traceIDs returns the IDs of the context's trace and span, and whether they are sampled.
func traceIDs(ctx context.Context) (id, span string, sampled bool) {
	p, _ := traceparent.Parse(TraceParent(ctx))
	return p.TraceID, p.SpanID, p.Sampled
}

// traceReview starts the span of a review, as a child of the user's operation, if the API server traces its request.
func (s *reviewServer) traceReview(ctx context.Context, r *ReviewRequest, a *Admission) (context.Context, Span) {
	parent, t := r.Header.Get("Traceparent"), s.settings.Tracing.Tracer
	if p, _ := traceparent.Parse(parent); t == nil || !p.Sampled {
		return ctx, nil
	}
	attrs := append(objectAttrs(a.Body.Reference(), a.Resource), slog.String("kopf.operation", string(a.Operation)))
	return startSpan(context.WithValue(ctx, tracedKey{}, parent), t, a.Logger, "review "+a.Resource.Plural, attrs...)
}

// trace starts the span of a request, if another span contains it. The request carries its traceparent. Clients of users may have no tracer.
func (c *Client) trace(ctx context.Context, r *request) (context.Context, Span) {
	t := c.source.Tracing.Tracer
	if _, traced := ctx.Value(tracedKey{}).(Span); !traced || t == nil {
		return ctx, nil
	}
	return startSpan(ctx, t, c.log, r.method, slog.String("http.request.method", r.method), slog.String("url.path", r.path))
}

// found returns the object with the earlier changes in the same patch; nil if there are none, or no audit.
func (a *call) found() *Body {
	if a.settings.Process.Audit == nil || a.object == nil || a.object.Patch.Empty() {
		return nil
	}
	return a.object.Patch.applied(a.object.Body)
}

// audit reports a finished call before its results are stored. If found is nil, the call has found the body of the object.
func (a *call) audit(ctx context.Context, found *Body, o outcome, err error, began time.Time) {
	report := a.settings.Process.Audit
	if report == nil {
		return
	}
	c := &audit.Call{Began: began, Handler: string(a.handler.id), Kind: kindNames[a.handler.kind], Attempt: a.retries + 1, Outcome: o.result(err).String(), Err: err, Cause: string(a.cause), Replica: a.replica}
	if a.object != nil {
		body := a.object.Body
		ref := body.Reference()
		c.Object = &audit.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID, ResourceVersion: body.version, Generation: body.Metadata().Int("generation")}
		c.Fence = a.object.fence
		for _, d := range diffRaw(cmp.Or(found, body).raw, a.object.Patch.applied(body).raw) {
			c.AddFields(d.Path, d.Old, d.New)
		}
	}
	if a.children != nil {
		c.Applied, c.Deleted = a.children.applied, a.children.deleted
	}
	if failed := safecall.Do(func() error { return report(ctx, c.Record()) }); failed != nil {
		a.log.Error("Reporting a call to the audit failed", handlerKey, a.handler.id, "error", failed, "help", "K1109")
	}
}

// countFailing counts the object for the handlers in retry after an error, and for permanent failures.
func (c *cycle) countFailing() {
	e := c.entry
	var ids, subs []string
	for _, p := range c.progress.all {
		if p.selected && p.parent == nil {
			below := c.failingBelow(p.record)
			if subs = append(subs, below...); len(below) > 0 || p.record.fails() {
				ids = append(ids, string(p.handler.id))
			}
		}
	}
	ids, stalled := e.state.reconcile.failing(ids)
	looked := len(c.progress.all) > 0 || !e.state.handling.inProgress || c.decided.Kind == decision.Skip || c.decided.Kind == decision.Unchanged // in these cases, no handler is called again
	if looked && len(ids)+len(e.state.failing) > 0 && !c.superseded() {
		e.state.failing.Set(c.served.counts, ids...)
		c.settle(append(subs, ids...))
	}
	c.reactor.queue.setFailed(e, e.last.failed || stalled || len(c.served.tasks) > 0 && c.reactor.daemons.failed(e))
}

// failingBelow returns the sub-handlers in retry of a handler that waits for them.
func (c *cycle) failingBelow(r *ProgressRecord) (ids []string) {
	if r.finished() || !r.waits() {
		return nil
	}
	for _, ref := range r.Subrefs {
		id := HandlerID(ref)
		if id == handlingID {
			continue
		}
		var sub *ProgressRecord
		if p := c.findProgress(id); p != nil {
			sub = p.record
		} else {
			sub, _ = c.loadProgress(id) // a damaged one begins again
		}
		if sub != nil && sub.fails() {
			ids = append(ids, ref)
		}
	}
	return ids
}

// Counter is a metric that only grows, such as the number of sent e-mails. Each combination of label values is a series. See [NewCounter].
type Counter struct{ family *metrics.Family }

// Gauge is a metric that goes up and down, such as the length of a queue. Each combination of label values is a series. See [NewGauge].
type Gauge struct{ family *metrics.Family }

// Histogram is a metric that counts values, such as durations, in buckets. Each combination of label values is a series. See [NewHistogram].
type Histogram struct{ family *metrics.Family }

// NewCounter registers a counter, which all operators of the process serve at /metrics. The name ends with "_total", such as "emails_sent_total", and the help
// is a sentence. There are at most 8 labels, such as "provider", and 1,000 series. In further series, and for a wrong number of values, each label is "other".
// It panics on an invalid or a used name. The methods of a counter are safe for concurrent use.
func NewCounter(name, help string, labels ...string) *Counter {
	return &Counter{registerMetric(metrics.Counter, name, help, nil, labels)}
}

// NewGauge registers a gauge, such as "outbox_length". Limits and panics are those of [NewCounter].
func NewGauge(name, help string, labels ...string) *Gauge {
	return &Gauge{registerMetric(metrics.Gauge, name, help, nil, labels)}
}

// NewHistogram registers a histogram, such as "backup_size_bytes". The buckets are their upper bounds in rising order, at most 50. Without any, they are for
// durations in seconds, from 0.005 to 300. Limits and panics are those of [NewCounter].
func NewHistogram(name, help string, buckets []float64, labels ...string) *Histogram {
	return &Histogram{registerMetric(metrics.Histogram, name, help, buckets, labels)}
}

func registerMetric(kind metrics.Type, name, help string, buckets []float64, labels []string) *metrics.Family {
	where := callSite()
	f, err := metrics.Register(where, kind, name, help, buckets, labels)
	if err != nil {
		panic(fmt.Sprintf("kopf: metric at %s: %v", where, err))
	}
	return f
}

// Add adds a number to the series with these label values. It ignores negative numbers, NaN and infinities.
func (c *Counter) Add(n float64, values ...string) { c.family.Add(n, values) }

// Add adds a number, which can be negative, to the series with these label values.
func (g *Gauge) Add(n float64, values ...string) { g.family.Add(n, values) }

// Set sets the value of the series with these label values.
func (g *Gauge) Set(n float64, values ...string) { g.family.Set(n, values) }

// Observe counts a value in the series with these label values. It ignores NaN and infinities.
func (h *Histogram) Observe(n float64, values ...string) { h.family.Observe(n, values) }

// WriteMetrics registers a function that adds metrics of another library to /metrics, in the text format of Prometheus. kopf checks its output until it was
// valid once. Before that, and after an error of the function, kopf leaves the output out, and logs the reason with the line. It also leaves out metrics that
// it serves itself. The page is then always in the text format, never in OpenMetrics.
//
// kopf calls the function on any goroutine, one call at a time. The limits are 1 MiB and 3 seconds.
func WriteMetrics(write func(io.Writer) error) { metrics.RegisterWriter(callSite(), write) }
