package contract

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the traceparent of another client on an object is a link and nothing else:
// its changes are no work, and no trace continues it.

const traceAnnotation = "tracing.k8s.io/traceparent"

// foreignTrace is the trace of the clients in this suite. foreignParent returns one of its spans.
const foreignTrace = "b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7"

func foreignParent(span int) string { return fmt.Sprintf("00-%s-%016x-01", foreignTrace, span) }

// withParent returns the fields of an object with a traceparent, or without one if it is nil.
func withParent(value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{traceAnnotation: value}}}
}

var _ = Suite("traces_links", func(t *testing.T, c *C) {
	c.Run(t, "OB-T7 a traceparent that another client writes causes no handling, no conflict and no write", func(c *C) {
		c.OnlyInBubble("it waits")
		var tracer traceTracer
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		r.OnField(Examples, "metadata.annotations", l.handler("field"), named("field"))
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("reconcile %s", r.Name())
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile"})
		first := c.Operator(r, tracer.attach)
		c.Create("a", withParent(foreignParent(1)))
		c.Create("b", nil)
		c.handled("a")
		c.handled("b")
		c.Pass(time.Minute)
		writes, called := len(first.Wire.Writes()), l.all()
		touch := func() {
			for span := range 50 {
				for _, name := range []string{"a", "b"} {
					if c.Patch(name, withParent(foreignParent(span+2))); span%10 == 9 {
						c.Patch(name, withParent(nil))
					}
				}
				c.Pass(time.Duration(span) * time.Second)
			}
			c.Pass(time.Hour)
		}
		touch()
		c.same("the calls", called, l.all())
		if n := len(first.Wire.Writes()); n != writes {
			c.Errorf("got %d writes for traceparents: %q", n-writes, patches(first)[writes:])
		}
		first.Stop()
		touch() // while no operator runs
		second := c.Operator(r, tracer.attach)
		c.Pass(time.Hour)
		for _, call := range l.all()[len(called):] {
			if !strings.HasPrefix(call, "resume ") && !strings.HasPrefix(call, "reconcile ") { // as after each restart
				c.Errorf("after a restart, there is the call %q", call)
			}
		}
		if all := patches(second); len(all) > 0 {
			c.Errorf("after a restart, there are the writes %q", all)
		}
		c.Patch("a", sized(1))
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		wantNoRefusals(c, first, second)
	})
	c.Run(t, "OB-T7 a traceparent that another client writes during a handling neither conflicts with it nor is lost", func(c *C) {
		c.OnlyInBubble("it waits")
		var tracer traceTracer
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			for span := range 5 {
				c.Patch("a", withParent(foreignParent(span+2)))
				time.Sleep(time.Second)
			}
			ch.Patch.Set("status.phase", "Ready")
			return nil
		}, named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		op := c.Operator(r, tracer.attach)
		c.Create("a", withParent(foreignParent(1)))
		c.handled("a")
		c.Pass(time.Hour)
		if got := c.Get("a").Annotations()[traceAnnotation]; got != foreignParent(6) || !c.isReady("a") {
			c.Errorf("the object has the traceparent %s and the status %s, want %s", got, c.Get("a").Status().String("phase"), foreignParent(6))
		}
		c.same("the calls", []string{"create"}, l.all())
		wantNoRefusals(c, op)
	})
	c.Run(t, "OB-T7 a change months later is a trace of its own, which links to that of the annotation", func(c *C) {
		c.OnlyInBubble("it takes months")
		var tracer traceTracer
		r := &kopf.Registry{}
		get := func(ctx context.Context, ch *kopf.Change) error {
			return ch.Client.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}, nil, nil)
		}
		r.OnCreate(Examples, get, named("create"))
		r.OnUpdate(Examples, get, named("update"))
		first := c.Operator(r, tracer.attach)
		c.Create("a", withParent(foreignParent(1)))
		c.handled("a")
		c.Pass(time.Minute)
		creation := tracer.traceOf(c, "create")
		first.Stop()
		time.Sleep(100 * 24 * time.Hour)
		second := c.Operator(r, tracer.attach)
		c.Patch("a", sized(1)) // by a client that does not trace: the annotation stays
		c.WaitFor("the update", func() bool { return tracer.has("update") })
		c.Pass(time.Minute)
		if update := tracer.traceOf(c, "update"); update == creation || creation == foreignTrace || update == foreignTrace {
			c.Errorf("the creation is in the trace %s, the update in %s, that of the client is %s", creation, update, foreignTrace)
		}
		tracer.check(c)
		for _, op := range []*Running{first, second} {
			for _, q := range op.Wire.Requests() {
				if strings.Contains(q.TraceParent, foreignTrace) {
					c.Errorf("%s %s continues the trace of the client", q.Method, q.Path)
				}
			}
		}
	})
})

// wantNoRefusals fails if the server has refused a request of the operators.
func wantNoRefusals(c *C, operators ...*Running) {
	c.Helper()
	for _, op := range operators {
		for _, q := range op.Wire.Requests() {
			if q.Code >= http.StatusBadRequest {
				c.Errorf("%s %s: %d", q.Method, q.Path, q.Code)
			}
		}
	}
}

// traceTracer is a tracer whose spans without a parent begin traces of their own.
type traceTracer struct {
	mu    sync.Mutex // guards following
	spans []*traceSpan
}

type traceSpan struct {
	tracer              *traceTracer
	name, trace, parent string
	link                string
	number              int
	began, ended        time.Time
}

func (t *traceTracer) attach(o *kopf.Operator) { o.Settings.Tracing.Tracer = t }

// Start implements [kopf.Tracer].
func (t *traceTracer) Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, kopf.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &traceSpan{tracer: t, name: name, parent: kopf.TraceParent(ctx), number: len(t.spans) + 1, began: time.Now()}
	s.trace = fmt.Sprintf("%032x", s.number)
	if parts := strings.Split(s.parent, "-"); len(parts) == 4 {
		s.trace = parts[1]
	}
	for _, a := range attrs {
		if a.Key == "kopf.link" {
			s.link = a.Value.String()
		}
	}
	t.spans = append(t.spans, s)
	return ctx, s
}

// End implements [kopf.Span].
func (s *traceSpan) End(error) {
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	s.ended = time.Now()
}

// TraceParent implements [kopf.Span].
func (s *traceSpan) TraceParent() string { return fmt.Sprintf("00-%s-%016x-01", s.trace, s.number) }

// has reports whether a span has started.
func (t *traceTracer) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spans {
		if s.name == name {
			return true
		}
	}
	return false
}

// traceOf returns the trace of the only span with a name.
func (t *traceTracer) traceOf(c *C, name string) (trace string) {
	c.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spans {
		if s.name == name {
			if trace != "" {
				c.Errorf("there are two spans %s", name)
			}
			trace = s.trace
		}
	}
	return trace
}

// check fails unless all traces begin with a span that links to the client, and end soon.
func (t *traceTracer) check(c *C) {
	c.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	began := make(map[string]time.Time)
	for _, s := range t.spans {
		if s.parent == "" {
			began[s.trace] = s.began
			if s.link != foreignParent(1) {
				c.Errorf("the span %s links to %q, want %s", s.name, s.link, foreignParent(1))
			}
		}
		if start, ok := began[s.trace]; !ok || s.ended.IsZero() || s.ended.Sub(start) > time.Minute {
			c.Errorf("the span %s of the trace %s, since %s, has ended at %s", s.name, s.trace, start, s.ended)
		}
	}
}
