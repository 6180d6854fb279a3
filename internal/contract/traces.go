package contract

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the spans of an operator, and how it propagates them.

var _ = Suite("traces", func(t *testing.T, c *C) {
	c.Run(t, "OB-34 OB-40 OB-41 cycles, handlers and requests are spans, which requests carry", func(c *C) {
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
	for _, sampled := range []bool{true, false} {
		c.Run(t, fmt.Sprintf("OB-43 log lines of a handler have the ids of its trace and its span: %t", sampled), func(c *C) {
			var tracer recordingTracer
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { ch.Logger.Info("Working"); return nil }, named("create"))
			op := c.Operator(r, tracer.attach, func(o *kopf.Operator) {
				if !sampled {
					o.Settings.Tracing.Ratio = 0
				}
			})
			c.Create("a", nil)
			c.handled("a")
			lines := op.Logs.Find("Working")
			if len(lines) != 1 {
				c.Fatalf("got %d lines", len(lines))
			}
			for key, digits := range map[string]int{"trace_id": 32, "span_id": 16} {
				if id := lines[0].Attrs[key]; sampled && len(id) != digits || !sampled && id != "" {
					c.Errorf("the attribute %s is %q", key, id)
				}
			}
		})
	}
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
	tracesOfStrangers(t, c)
	tracesWithoutSpans(t, c)
	tracesWithAll(t, c)
})

// tracesOfStrangers checks traceparents from other programs.
func tracesOfStrangers(t *testing.T, c *C) {
	c.Run(t, "OB-41 OB-43 the flag of a traceparent is a bit, and what is no traceparent is not there", func(c *C) {
		var tracer recordingTracer
		r := &kopf.Registry{}
		r.OnValidate(Examples, func(_ context.Context, a *kopf.Admission) error { a.Logger.Info("Validating"); return nil }, &kopf.AdmissionOptions{ID: "v"})
		s, op := c.Reviewed(r, tracer.attach)
		const ids = "-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
		for _, tt := range []struct {
			header string
			traced bool
		}{
			{"00" + ids + "01", true}, {"00" + ids + "00", false}, {"00" + ids + "03", true}, {"00" + ids + "02", false}, {"cc" + ids + "01-more", true},
			{"00" + ids + "01-more", false}, {"ff" + ids + "01", false}, {"00" + strings.ToUpper(ids) + "01", false}, {"cc" + ids + "01-" + strings.Repeat("a", 1<<20), false}, {"-01", false}, {"", false},
		} {
			before := len(tracer.all())
			if _, err := s.raw(c, &kopf.ReviewRequest{Handler: "v", Body: c.reviewOf(nil), Header: http.Header{"Traceparent": {tt.header}}}); err != nil {
				c.Fatal(err)
			}
			if traced := len(tracer.all()) > before; traced != tt.traced {
				c.Errorf("with the traceparent %.80q: traced is %t, want %t", tt.header, traced, tt.traced)
			}
		}
		tracer.set("03") // for the spans themselves
		if _, err := s.raw(c, &kopf.ReviewRequest{Handler: "v", Body: c.reviewOf(nil), Header: http.Header{"Traceparent": {"00" + ids + "03"}}}); err != nil {
			c.Fatal(err)
		}
		lines := op.Logs.Find("Validating")
		if last := lines[len(lines)-1]; last.Attrs["trace_id"] == "" {
			c.Errorf("got the line %v, want one with a trace", last)
		}
	})
	c.Run(t, "OB-42 what is no traceparent is neither linked to nor copied", func(c *C) {
		c.OnlyInBubble("it waits")
		var tracer recordingTracer
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, nil)
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r, tracer.attach)
		const annotation = "tracing.k8s.io/traceparent"
		c.Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: strings.Repeat("x", 1<<17)}}})
		c.Pass(time.Second)
		if got, ok := c.configMaps().Get("a").Annotations()[annotation]; ok {
			c.Errorf("the child has an annotation of %d bytes", len(got))
		}
		for _, s := range tracer.all() {
			if link, ok := s.attrs["kopf.link"]; ok {
				c.Errorf("%v links to %d bytes", s, len(link))
			}
		}
	})
}

// tracesWithoutSpans checks broken tracers, and clients without one.
func tracesWithoutSpans(t *testing.T, c *C) {
	for _, broken := range []struct {
		name   string
		tracer kopf.Tracer
	}{
		{"panics at the start", &brokenTracer{start: true}}, {"panics at the end", &brokenTracer{end: true}}, {"panics when asked", &brokenTracer{parent: "panic"}},
		{"returns nonsense", &brokenTracer{parent: "a\nHost: b"}}, {"makes no spans", &brokenTracer{without: true}},
	} {
		c.Run(t, "OB-38 a tracer that "+broken.name+" stops nothing", func(c *C) {
			c.OnlyInBubble("it waits")
			r := &kopf.Registry{}
			events, calls := 0, 0
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { events++; return nil }, &kopf.EventOptions{ID: "event"})
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				calls++
				return ch.Client.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}, nil, nil)
			}, named("create"))
			p := newPipe()
			op := c.Operator(r, func(o *kopf.Operator) {
				o.Settings.Tracing.Tracer, o.Settings.Execution.MaxWorkers = broken.tracer, 1
			}, paged(p))
			c.Create("a", nil)
			c.handled("a")
			if events == 0 || calls != 1 {
				c.Errorf("got %d events and %d calls, want some and one", events, calls)
			}
			if got := p.page(c, "/api/v1/state"); len(got.Calls) > 0 || got.Handlers[0].Running+got.Handlers[1].Running > 0 {
				c.Errorf("still running are %+v of %+v", got.Calls, got.Handlers)
			}
			b := broken.tracer.(*brokenTracer)
			if lines := op.Logs.Find("The tracer panicked; going on without it"); (len(lines) > 0) != (b.start || b.end || b.parent == "panic") {
				c.Errorf("got the lines %v", lines)
			}
		})
	}
	c.Run(t, "OB-38 a client of one's own without a tracer can be used in a span, and sends it", func(c *C) {
		c.OnlyInBubble("it waits")
		var tracer recordingTracer
		r := &kopf.Registry{}
		own, err := kopf.NewClient(c.ConnectionInfo(), nil)
		if err != nil {
			c.Fatal(err)
		}
		r.OnCreate(Examples, func(ctx context.Context, _ *kopf.Change) error {
			return own.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}, nil, nil)
		}, named("create"))
		op := c.Operator(r, tracer.attach)
		c.Create("a", nil)
		c.handled("a")
		if lines := op.Logs.Find("Handler 'create' failed"); len(lines) > 0 {
			c.Errorf("got %v", lines)
		}
		for _, s := range tracer.all() {
			if s.name == "GET" {
				c.Errorf("got the span %v of a client without a tracer", s)
			}
		}
	})
}

// tracesWithAll checks tracers together with all other observability features.
func tracesWithAll(t *testing.T, c *C) {
	c.Run(t, "OB-17 OB-28 OB-38 with a tracer, an audit, decisions and the page, handlers are called as without", func(c *C) {
		c.OnlyInBubble("it waits")
		attempts := func(observed bool) (all []string) {
			p := newPipe()
			var log auditLog
			op := c.Operator(troubled(), paged(p), func(o *kopf.Operator) {
				if o.Settings.Process.Page.Enabled = observed; observed {
					o.Settings.Process.Decisions, o.Settings.Process.Page.Stacks, o.Settings.Tracing.Tracer = 100, true, &recordingTracer{}
					log.attach(o)
				}
			})
			c.Pass(time.Second)
			for _, h := range []string{"change", "timer", "reconcile"} {
				for _, how := range []string{"again", "permanently"} {
					annotations := map[string]any{"kopf.zalando.org/explain": "", "tracing.k8s.io/traceparent": traceParent(7)}
					c.Create(how+"-"+h, map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{h: how}})
				}
			}
			c.Pass(150 * time.Second)
			for _, h := range []string{"change", "timer", "reconcile"} {
				c.Patch("again-"+h, spec(map[string]any{h: nil}))
				c.Patch("permanently-"+h, spec(map[string]any{h: nil}))
			}
			c.Pass(10 * time.Second)
			for line := range strings.Lines(p.get("/metrics", "Host: x").body) {
				if strings.HasPrefix(line, "kopf_handler_attempts_total{") {
					all = append(all, strings.TrimSpace(line))
				}
			}
			for _, h := range []string{"change", "timer", "reconcile"} {
				c.Delete("again-" + h)
				c.Delete("permanently-" + h)
			}
			c.Pass(time.Second)
			op.Stop()
			if calls := log.calls(); observed && len(calls) == 0 {
				c.Error("the audit is empty")
			}
			return all
		}
		c.same("the attempts", attempts(false), attempts(true))
	})
}

// brokenTracer is a tracer with faults, and its span.
type brokenTracer struct {
	start, end, without bool
	parent              string // "panic" if the method panics
}

// Start implements [kopf.Tracer].
func (b *brokenTracer) Start(ctx context.Context, _ string, _ ...slog.Attr) (context.Context, kopf.Span) {
	if b.start {
		panic("no span")
	}
	if b.without {
		return nil, nil
	}
	return ctx, b
}

// End implements [kopf.Span].
func (b *brokenTracer) End(error) {
	if b.end {
		panic("no end")
	}
}

// TraceParent implements [kopf.Span].
func (b *brokenTracer) TraceParent() string {
	if b.parent == "panic" {
		panic("no parent")
	}
	return b.parent
}

// traceParent returns a sampled traceparent.
func traceParent(id int) string { return fmt.Sprintf("00-%032x-%016x-01", 1, id) }

// recordingTracer keeps its spans.
type recordingTracer struct {
	mu    sync.Mutex // guards following, and the states of the spans
	spans []*recordedSpan
	flags string // the flags of the next spans, "01" if empty
}

type recordedSpan struct {
	tracer       *recordingTracer
	id           int
	name, parent string
	flags        string
	attrs        map[string]string
	ended        int
}

func (t *recordingTracer) attach(o *kopf.Operator) { o.Settings.Tracing.Tracer = t }

// Start implements [kopf.Tracer]. It finds the parent only by the traceparent.
func (t *recordingTracer) Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, kopf.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &recordedSpan{tracer: t, id: len(t.spans) + 1, name: name, parent: "none", flags: cmp.Or(t.flags, "01"), attrs: make(map[string]string)}
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

// set sets the flags of the next spans.
func (t *recordingTracer) set(flags string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flags = flags
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
func (s *recordedSpan) TraceParent() string {
	return strings.TrimSuffix(traceParent(s.id), "01") + s.flags
}

// String returns the span and its parent.
func (s *recordedSpan) String() string { return s.name + " in " + s.parent }
