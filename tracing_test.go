package kopf

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
)

// noSpans is a tracer that must never be called.
type noSpans struct{}

func (noSpans) Start(ctx context.Context, name string, _ ...slog.Attr) (context.Context, Span) {
	panic(fmt.Sprintf("a span %q was begun", name))
}

// sampledOut traces a cycle, a call, and a request: with a tracer that samples none, or without one.
func sampledOut(t testing.TB, tracer Tracer) func() {
	spans, compare := untraced(t, tracer)
	return func() {
		compare()
		spans()
	}
}

// untraced returns the functions of sampledOut: that begins the spans, and that compares the object.
func untraced(t testing.TB, tracer Tracer) (spans, compare func()) {
	settings := NewSettings()
	settings.Tracing.Tracer, settings.Tracing.Ratio = tracer, 0
	settings.Persistence.untracked = settings.Tracing.untracked()
	persistence := settings.Persistence.resolve(true)
	body, ctx := busy(t, false), t.Context()
	c := &cycle{reactor: &reactor{environment: &environment{settings: settings}}}
	c.event.Body = body
	a, client, r := &call{settings: settings, handler: &handler{}}, &Client{clientCore: &clientCore{source: settings}}, &request{}
	spans = func() {
		c.trace()
		inner, _ := a.trace(ctx)
		client.trace(inner, r)
	}
	return spans, func() { essenceOf(body, nil, persistence) }
}

func TestSampledOut(t *testing.T) {
	t.Run("OB-45 a cycle that is sampled out allocates no more", func(t *testing.T) {
		without := testing.AllocsPerRun(100, sampledOut(t, nil))
		if with := testing.AllocsPerRun(100, sampledOut(t, noSpans{})); with > without {
			t.Errorf("got %v allocations with a tracer, want at most the %v without one", with, without)
		}
	})
	t.Run("OB-T8 without a tracer, which is the default, nothing is allocated for traces", func(t *testing.T) {
		spans, _ := untraced(t, NewSettings().Tracing.Tracer)
		if got := testing.AllocsPerRun(100, spans); got > 0 {
			t.Errorf("got %v allocations", got)
		}
	})
}

// BenchmarkSampledOut compares an unsampled cycle with one without a tracer: OB-45 allows 200 ns more.
func BenchmarkSampledOut(b *testing.B) {
	for name, tracer := range map[string]Tracer{"without a tracer": nil, "sampled out": noSpans{}} {
		b.Run(name, func(b *testing.B) {
			run := sampledOut(b, tracer)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
