// Package tracing has the adapter to OpenTelemetry that docs/tracing.md shows.
package tracing

import (
	"context"
	"log/slog"

	"github.com/kopf-go/kopf"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type tracer struct{ trace.Tracer }

func newTracer() kopf.Tracer { return tracer{otel.Tracer("kopf")} }

func (t tracer) Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, kopf.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": kopf.TraceParent(ctx)})
	}
	var options []trace.SpanStartOption
	for _, a := range attrs {
		if a.Key == "kopf.link" {
			linked := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": a.Value.String()})
			options = append(options, trace.WithLinks(trace.LinkFromContext(linked)))
			continue
		}
		options = append(options, trace.WithAttributes(attribute.String(a.Key, a.Value.String())))
	}
	ctx, s := t.Tracer.Start(ctx, name, options...)
	return ctx, span{s}
}

type span struct{ trace.Span }

func (s span) End(err error) {
	if err != nil {
		s.RecordError(err)
		s.SetStatus(codes.Error, err.Error())
	}
	s.Span.End()
}

func (s span) TraceParent() string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), s.Span), carrier)
	return carrier["traceparent"]
}
