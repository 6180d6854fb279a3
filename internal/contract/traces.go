package contract

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which spans there are, and what they are handed on to.

var _ = Suite("traces", func(t *testing.T, c *C) {
	c.Run(t, "OB-34 OB-40 OB-41 OB-43 cycles, handlers and requests are spans, which requests and log lines carry", func(c *C) {
		c.OnlyInBubble("it waits")
		var tracer recordingTracer
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.secret", "of the object")
			ch.Logger.Info("Working")
			return ch.Client.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}, nil, nil)
		}, named("create"))
		p := newPipe()
		op := c.Operator(r, tracer.attach, probed(p, "http://0.0.0.0/healthz"))
		c.Create("a", nil)
		c.handled("a")
		spans := tracer.all()
		for _, want := range []string{"handle kopfexamples in none", "create in handle kopfexamples", "GET in create", "PATCH in handle kopfexamples"} {
			if !slices.ContainsFunc(spans, func(s *recordedSpan) bool { return s.name+" in "+s.parent == want }) {
				c.Errorf("there is no span %s in %v", want, spans)
			}
		}
		carried := make(map[string]bool)
		for _, request := range op.Wire.Requests() {
			carried[request.TraceParent] = true
		}
		for _, s := range spans {
			if s.name == "GET" || s.name == "PATCH" {
				if !carried[s.TraceParent()] {
					c.Errorf("no request has the traceparent %s of %s", s.TraceParent(), s.name)
				}
			}
			if s.ended != 1 {
				c.Errorf("the span %s has ended %d times, want once", s.name, s.ended)
			}
			if strings.Contains(fmt.Sprint(s.attrs), "of the object") {
				c.Errorf("the span has contents: %v", s.attrs)
			}
		}
		at := slices.IndexFunc(spans, func(s *recordedSpan) bool { return s.name == "create" })
		exemplar := fmt.Sprintf(`# {trace_id="%032x"}`, 1)
		if page := p.askFor("/metrics", "application/openmetrics-text;version=1.0.0").body; !strings.Contains(page, exemplar) {
			c.Errorf("no metric has the exemplar %s", exemplar)
		}
		lines := op.Logs.Find("Working")
		if want := fmt.Sprintf("%016x", spans[at].id); len(lines) != 1 || lines[0].Attrs["span_id"] != want {
			c.Errorf("got the lines %v, want one with the span %s", lines, want)
		}
	})
	c.Run(t, "OB-42 an annotation is linked to, copied to children, and no change", func(c *C) {
		c.OnlyInBubble("it waits")
		var tracer recordingTracer
		updates := 0
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(context.Context, *kopf.Change) error { updates++; return nil }, named("update"))
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, nil)
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r, tracer.attach)
		const annotation = "tracing.k8s.io/traceparent"
		traced := func(id int) map[string]any {
			return map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: traceParent(id)}}}
		}
		c.Create("a", traced(7))
		c.Pass(time.Second)
		c.Patch("a", traced(8))
		c.Pass(time.Second)
		if updates != 0 {
			c.Errorf("got %d calls for another traceparent, want none", updates)
		}
		for _, id := range []int{7, 8} {
			linked := func(s *recordedSpan) bool { return s.attrs["kopf.link"] == traceParent(id) && s.parent == "none" }
			if !slices.ContainsFunc(tracer.all(), linked) {
				c.Errorf("no span links to %s", traceParent(id))
			}
		}
		child := c.configMaps().Get("a")
		if got := child.Annotations()[annotation]; got != traceParent(7) && got != traceParent(8) {
			c.Errorf("the child has the traceparent %q", got)
		}
	})
	c.Run(t, "OB-38 OB-45 nothing is traced that is not sampled", func(c *C) {
		c.OnlyInBubble("it waits")
		var tracer recordingTracer
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if parent := kopf.TraceParent(ctx); parent != "" {
				return kopf.Permanent(fmt.Errorf("got the traceparent %s", parent))
			}
			return nil
		}, named("create"))
		c.Operator(r, tracer.attach, func(o *kopf.Operator) { o.Settings.Tracing.Ratio = 0 })
		c.Create("a", nil)
		c.handled("a")
		if all := tracer.all(); len(all) > 0 {
			c.Errorf("got the spans %v, want none", all)
		}
	})
})

// traceParent returns a traceparent that is sampled.
func traceParent(id int) string { return fmt.Sprintf("00-%032x-%016x-01", 1, id) }

// recordingTracer keeps its spans.
type recordingTracer struct {
	mu    sync.Mutex // guards spans, and what has become of them
	spans []*recordedSpan
}

type recordedSpan struct {
	tracer       *recordingTracer
	id           int
	name, parent string
	attrs        map[string]string
	ended        int
}

func (t *recordingTracer) attach(o *kopf.Operator) { o.Settings.Tracing.Tracer = t }

// Start implements [kopf.Tracer]. The parent is found by the traceparent alone.
func (t *recordingTracer) Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, kopf.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &recordedSpan{tracer: t, id: len(t.spans) + 1, name: name, parent: "none", attrs: make(map[string]string)}
	for _, other := range t.spans {
		if other.TraceParent() == kopf.TraceParent(ctx) {
			s.parent = other.name
		}
	}
	for _, a := range attrs {
		s.attrs[a.Key] = a.Value.String()
	}
	t.spans = append(t.spans, s)
	return ctx, s
}

func (t *recordingTracer) all() []*recordedSpan {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.spans)
}

// End implements [kopf.Span].
func (s *recordedSpan) End(error) {
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	s.ended++
}

// TraceParent implements [kopf.Span].
func (s *recordedSpan) TraceParent() string { return traceParent(s.id) }

// String returns the span and the one that it is in.
func (s *recordedSpan) String() string { return s.name + " in " + s.parent }
