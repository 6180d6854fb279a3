package contract

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// This suite proves the metrics of an operator.

var _ = Suite("metrics", func(t *testing.T, c *C) {
	c.Run(t, "what is under way and what has happened is counted", func(c *C) {
		c.OnlyInBubble("the delays are long")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			time.Sleep(2 * time.Second)
			if ch.Retry == 0 {
				return kopf.Temporary(errors.New("not yet"), time.Minute)
			}
			ch.Subhandler("sub", func(context.Context, *kopf.Change) error { time.Sleep(time.Millisecond); return nil }, nil)
			ch.PostInfo("R", "M")
			return nil
		}, named("create"))
		r.OnUpdate(Examples, func(context.Context, *kopf.Change) error { return kopf.Permanent(errors.New("never")) }, named("update"))
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return errors.New("ignored") }, &kopf.EventOptions{ID: "event"})
		r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error {
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true})
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return nil }, &kopf.TimerOptions{ID: "timer", Interval: time.Hour, WithoutFinalizer: true})
		c.Create("a", nil)
		c.Create("b", nil)
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		c.Pass(time.Second)
		const kind = `{resource="kopfexamples.v1.kopf.dev"`
		wantMetrics(c, p, map[string]float64{
			"kopf_queue_depth": 2, "kopf_objects" + kind + "}": 2, `kopf_background_tasks{kind="daemon"}`: 2, `kopf_background_tasks{kind="timer"}`: 2,
			"kopf_watch_events_total" + kind + `,type="LISTED"}`: 2, "kopf_watch_streams" + kind + `,state="wanted"}`: 1, "kopf_watch_streams" + kind + `,state="working"}`: 1,
			"kopf_logins_total": 1, "kopf_paused": 0, "kopf_peers": 0,
		})
		c.handled("a")
		c.handled("b")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Delete("b")
		c.Pass(time.Second)
		wantMetrics(c, p, map[string]float64{
			"kopf_queue_depth": 0, "kopf_objects" + kind + "}": 1, `kopf_background_tasks{kind="daemon"}`: 1, `kopf_background_tasks{kind="timer"}`: 1,
			"kopf_watch_events_total" + kind + `,type="DELETED"}`:               1,
			`kopf_handler_attempts_total{handler="create",outcome="retry"}`:     2,
			`kopf_handler_attempts_total{handler="create",outcome="success"}`:   2,
			`kopf_handler_attempts_total{handler="create",outcome="failure"}`:   0,
			`kopf_handler_attempts_total{handler="create/*",outcome="success"}`: 2,
			`kopf_handler_attempts_total{handler="update",outcome="failure"}`:   1,
			`kopf_handler_attempts_total{handler="timer",outcome="success"}`:    2,
			`kopf_handler_attempts_total{handler="daemon",outcome="success"}`:   1,
			"kopf_handler_retries_total":                                        2,
			`kopf_handler_duration_seconds_bucket{handler="create",le="1"}`:     0,
			`kopf_handler_duration_seconds_bucket{handler="create",le="5"}`:     4,
			`kopf_handler_duration_seconds_bucket{handler="create",le="+Inf"}`:  4,
			`kopf_handler_duration_seconds_count{handler="create"}`:             4,
			`kopf_handler_duration_seconds_sum{handler="create"}`:               8.002,
			`kopf_kubernetes_events_total{outcome="posted"}`:                    3, // one of them of the failed update
			`kopf_kubernetes_events_total{outcome="lost"}`:                      0,
			`kopf_api_requests_total{verb="POST",code="201"}`:                   3,
		})
	})
	c.Run(t, "requests are counted by verb and code, and restarts of streams", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		refused := 0
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch {
				switch refused++; refused {
				case 1:
					return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
				case 2:
					return nil, errors.New("no answer")
				}
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.handled("a")
		op.Wire.Drop()
		c.Pass(time.Minute)
		const kind = `{resource="kopfexamples.v1.kopf.dev"`
		wantMetrics(c, p, map[string]float64{
			`kopf_api_requests_total{verb="PATCH",code="503"}`: 1, `kopf_api_requests_total{verb="PATCH",code="0"}`: 1, `kopf_api_requests_total{verb="PATCH",code="200"}`: 1,
			"kopf_watch_restarts_total" + kind + "}": 1, "kopf_watch_streams" + kind + `,state="working"}`: 1,
		})
	})
	c.Run(t, "DF-49 a resource whose definition was deleted has no series any more", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		group := c.Unique("leaf") + ".dev"
		gadgets := kopf.Selector("gadgets." + group)
		r.OnEvent(gadgets, func(context.Context, *kopf.WatchEvent) error { return nil }, watchedAs("event"))
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		has := func() bool { return strings.Contains(p.ask("GET", "/metrics").body, group) }
		for range 2 {
			c.Define(c.gadgets())
			c.gadget().Create("a", nil)
			c.WaitFor("the series", has)
			c.definitions().Delete(string(gadgets))
			c.WaitFor("the end of the series", func() bool { return !has() })
		}
	})
	c.Run(t, "lost events are counted", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		op := c.posts(func(ch *kopf.Change) {
			for i := range 30 {
				ch.PostInfo("R", strconv.Itoa(i))
			}
			ch.PostInfo("R", "0")
		}, probed(p, "http://0.0.0.0/healthz"))
		c.Pass(time.Second)
		wantMetrics(c, p, map[string]float64{`kopf_kubernetes_events_total{outcome="posted"}`: 25, `kopf_kubernetes_events_total{outcome="lost"}`: 5})
		c.Pass(2 * time.Minute)
		op.Stop()
		if lines := op.Logs.Find("Lost events that could not be posted in time, or were too many for one object"); len(lines) == 0 {
			c.Error("nobody is told of lost events")
		}
	})
	c.Run(t, "/debug/ is what the settings say, and nothing by default", func(c *C) {
		p := newPipe()
		c.Operator(&kopf.Registry{}, probed(p, "http://0.0.0.0/healthz"))
		if code := p.ask("GET", "/debug/pprof/").code; code != 404 {
			c.Errorf("by default: %d, want 404", code)
		}
		own := newPipe()
		r := &kopf.Registry{}
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			a.Settings.Process.Debug = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { w.Write([]byte("own " + q.Method + " " + q.URL.Path)) })
			return nil
		}, id("startup"))
		c.Operator(r, probed(own, "http://0.0.0.0/healthz"))
		wantAnswer(c, "with a handler", own.ask("POST", "/debug/pprof/x"), "200 own POST /debug/pprof/x")
		wantAnswer(c, "the liveness beside it", own.ask("GET", "/healthz"), "200 {}")
	})
	c.Run(t, "the page has the type of the text format, and labels are escaped", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) { return nil, nil }, &kopf.ProbeOptions{ID: `a/b`})
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		p.ask("GET", "/healthz")
		a := p.ask("GET", "/metrics")
		if a.code != 200 || a.kind != "text/plain; version=0.0.4; charset=utf-8" {
			c.Errorf("got %d %s", a.code, a.kind)
		}
		if a := p.ask("POST", "/metrics"); a.code != 405 {
			c.Errorf("POST: %d, want 405", a.code)
		}
		wantMetrics(c, p, map[string]float64{`kopf_handler_attempts_total{handler="a/b",outcome="success"}`: 1})
	})
})

// wantMetrics compares some of the metrics.
func wantMetrics(c *C, p *pipe, want map[string]float64) {
	c.Helper()
	page := p.ask("GET", "/metrics").body
	got := map[string]float64{}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(line, "#") {
			continue
		} else if value == "" {
			name, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		} else {
			name += "}"
		}
		if _, wanted := want[name]; wanted {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				c.Errorf("%s: %v", line, err)
			}
			got[name] = number
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("metrics (-want +got):\n%s\n%s", diff, page)
	}
}
