package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves the metrics about progress, and those with the names of controller-runtime and client-go, in 8-operations.md.

var _ = SerialSuite("metrics_standard", func(t *testing.T, c *C) {
	countingProgress(t, c)
	countingPauses(t, c)
	countingControllers(t, c)
	countingSeries(t, c)
	countingForUsers(t, c)
})

// contractSent is a user-defined metric. Metrics belong to the process, so it is registered once for all tests.
var contractSent = kopf.NewCounter("contract_sent_total", "What was sent.", "to")

func countingForUsers(t *testing.T, c *C) {
	c.Run(t, "OB-33 metrics of users are on the page, and OB-34 on that of OpenMetrics", func(c *C) {
		p := newPipe()
		c.Operator(&kopf.Registry{}, probed(p, "http://0.0.0.0/healthz"))
		before := p.ask("GET", "/metrics").body
		to := fmt.Sprint(operators.Load()) // another one in each run of the process
		contractSent.Add(1, to)
		wantMetrics(c, p, map[string]float64{`contract_sent_total{to="` + to + `"}`: 1})
		if strings.Contains(before, `contract_sent_total{to="`+to+`"`) {
			c.Error("it was there before")
		}
		a := p.askFor("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
		if a.kind != "application/openmetrics-text; version=1.0.0; charset=utf-8" || !strings.HasSuffix(a.body, "\n# EOF\n") || !strings.Contains(a.body, "# TYPE contract_sent counter\n") {
			c.Errorf("got %s\n%s", a.kind, a.body)
		}
	})
	c.Run(t, "OB-33 a bad name panics, and says where the other one is", func(c *C) {
		for name, register := range map[string]func(){
			`kopf: metric at internal/contract/metrics_standard.go:`:               func() { kopf.NewGauge("a-b", "") },
			`invalid name "contract_sent_total": a metric that was registered at `: func() { kopf.NewCounter("contract_sent_total", "") },
			`invalid label "le" of "contract_sizes"`:                               func() { kopf.NewHistogram("contract_sizes", "", nil, "le") },
		} {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); !strings.Contains(got, strings.TrimPrefix(name, "kopf: metric at internal/contract/")) || !strings.HasPrefix(got, "kopf: metric at ") {
						c.Errorf("got the panic %s, want %s", got, name)
					}
				}()
				register()
			}()
		}
	})
	c.Run(t, "OB-35 manifests prints a dashboard and alerts when they are asked for", func(c *C) {
		c.OnlyInBubble("it needs no cluster")
		objects := c.manifests(website, "--install-namespace=ops", "--only=dashboard,alerts")
		c.same("the objects", []string{"ConfigMap ops/web-dashboard", "PrometheusRule ops/web"}, titles(objects))
		c.same("the label for Grafana", "1", field(objects[0], "metadata.labels.grafana_dashboard"))
		text, _ := field(objects[0], "data").(map[string]any)["web.json"].(string)
		if !strings.Contains(text, `"title": "web"`) || strings.Contains(text, "leader_election") || strings.Contains(text, "controller_runtime") {
			c.Errorf("got the dashboard\n%s", text)
		}
		for _, o := range c.manifests(website, "--service-monitor") {
			if o["kind"] == "PrometheusRule" || o["kind"] == "ConfigMap" {
				c.Errorf("%s is there without being asked for", o["kind"])
			}
		}
	})
}

const examplesLabel = `{resource="kopfexamples.v1.kopf.dev"`

// failingOf returns the name of the metric with the number of objects for which a handler has a due retry.
func failingOf(handler string) string {
	return "kopf_objects_failing" + examplesLabel + `,handler="` + handler + `"}`
}

const failedExamples = "kopf_objects_failed" + examplesLabel + "}"

// troubled returns handlers that fail, each in one way, if the spec of the object requests it.
func troubled() *kopf.Registry { return troubledIf(nil) }

// troubledIf returns such handlers for objects with some labels.
func troubledIf(labels kopf.Match) *kopf.Registry {
	r := &kopf.Registry{}
	fails := func(o *kopf.Object, handler kopf.FieldPath) error {
		switch how := o.Spec().String(handler); how {
		case "again":
			return kopf.Temporary(errors.New("not yet"), time.Minute)
		case "permanently":
			return kopf.Permanent(errors.New("never"))
		}
		return nil
	}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { return fails(&ch.Object, "change") }, &kopf.ChangeOptions{ID: "change", Labels: labels})
	r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error { return fails(&ch.Object, "change") }, &kopf.ChangeOptions{ID: "change", Labels: labels})
	r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error { return fails(&tm.Object, "timer") }, &kopf.TimerOptions{ID: "timer", Interval: time.Minute, WithoutFinalizer: true, Labels: labels})
	r.OnReconcile(Examples, func(_ context.Context, rec *kopf.Reconcile) error { return fails(&rec.Object, "reconcile") }, &kopf.ReconcileOptions{ID: "reconcile", Labels: labels})
	return r
}

func countingProgress(t *testing.T, c *C) {
	c.Run(t, "OB-30 objects that are in retry, and that have failed permanently, are counted until that is over", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		c.Operator(troubled(), probed(p, "http://0.0.0.0/healthz"))
		handlers := []string{"change", "timer", "reconcile"}
		for _, h := range handlers {
			c.Create("again-"+h, spec(map[string]any{h: "again"}))
			c.Create("permanently-"+h, spec(map[string]any{h: "permanently"}))
			c.Create("gone-"+h, spec(map[string]any{h: "again"}))
			c.Create("lost-"+h, spec(map[string]any{h: "permanently"}))
		}
		c.Create("well", nil)
		c.Pass(150 * time.Second)
		want := map[string]float64{failedExamples: 6}
		for _, h := range handlers {
			want[failingOf(h)] = 2
		}
		wantMetrics(c, p, want)
		for _, h := range handlers {
			c.Delete("gone-" + h)
			c.Delete("lost-" + h)
			want[failingOf(h)] = 1
		}
		c.Pass(150 * time.Second)
		want[failedExamples] = 3
		wantMetrics(c, p, want)
		for _, h := range handlers {
			c.Patch("again-"+h, spec(map[string]any{h: nil}))
			c.Patch("permanently-"+h, spec(map[string]any{h: nil}))
			want[failingOf(h)] = 0
		}
		c.Pass(150 * time.Second)
		want[failedExamples] = 0
		wantMetrics(c, p, want)
	})
	for _, others := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("OB-20 OB-30 what has failed is over when the handler is not for the object any more; others are: %t", others), func(c *C) {
			c.OnlyInBubble("it waits")
			p := newPipe()
			r := troubledIf(kopf.Match{"on": "yes"})
			if others {
				r.OnUpdate(Examples, ready, named("other"))
			}
			c.Operator(r, paged(p))
			handlers := []string{"change", "timer", "reconcile"}
			on := func(value string) map[string]any {
				return map[string]any{"metadata": map[string]any{"labels": map[string]any{"on": value}}}
			}
			for _, h := range handlers {
				for _, how := range []string{"again", "permanently"} {
					c.Create(how+"-"+h, map[string]any{"metadata": on("yes")["metadata"], "spec": map[string]any{h: how}})
				}
			}
			c.Pass(10 * time.Second)
			if got := p.page(c, "/api/v1/state"); len(got.Retries) != 3 {
				c.Errorf("in retry are %+v", got.Retries)
			}
			wantMetrics(c, p, map[string]float64{failingOf("change"): 1, failingOf("timer"): 1, failingOf("reconcile"): 1, failedExamples: 3})
			for _, h := range handlers {
				c.Patch("again-"+h, on("no"))
				c.Patch("permanently-"+h, on("no"))
			}
			c.Pass(10 * time.Second)
			if got := p.page(c, "/api/v1/state"); len(got.Retries) != 0 {
				c.Errorf("in retry are %+v", got.Retries)
			}
			wantMetrics(c, p, map[string]float64{failingOf("change"): 0, failingOf("timer"): 0, failingOf("reconcile"): 0, failedExamples: 0})
			for _, h := range handlers {
				c.Patch("again-"+h, on("yes"))
				c.Patch("permanently-"+h, on("yes"))
			}
			c.Pass(10 * time.Second)
			wantMetrics(c, p, map[string]float64{failingOf("timer"): 1, failingOf("reconcile"): 1})
		})
	}
	c.Run(t, "OB-30 an object in retry for a sub-handler is counted for its parent", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Subhandler("outer", func(_ context.Context, outer *kopf.Change) error {
				outer.Subhandler("inner", func(_ context.Context, sub *kopf.Change) error {
					if sub.Retry < 2 {
						return kopf.Temporary(errors.New("not yet"), 10*time.Minute)
					}
					return nil
				}, nil)
				return nil
			}, nil)
			return nil
		}, named("parent"))
		c.Operator(r, paged(p))
		c.Create("a", nil)
		for range 3 {
			c.Pass(4 * time.Minute)
			wantMetrics(c, p, map[string]float64{failingOf("parent"): 1})
			c.Patch("a", map[string]any{"status": map[string]any{"seen": time.Now().String()}}) // no handler is called for it
			c.Pass(time.Second)
			wantMetrics(c, p, map[string]float64{failingOf("parent"): 1})
			if got := p.page(c, "/api/v1/state").Retries; len(got) != 1 || got[0].Handler != "parent/outer/inner" {
				c.Errorf("in retry are %+v", got)
			}
		}
		c.handled("a")
		wantMetrics(c, p, map[string]float64{failingOf("parent"): 0})
		if got := p.page(c, "/api/v1/state").Retries; len(got) != 0 {
			c.Errorf("in retry are %+v", got)
		}
	})
	c.Run(t, "OB-30 an object with a daemon that failed permanently has failed until it is gone", func(c *C) {
		c.OnlyInBubble("it waits")
		p, calls := newPipe(), 0
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error {
			calls++
			return kopf.Permanent(errors.New("broken"))
		}, &kopf.DaemonOptions{ID: "daemon"})
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		c.Create("a", nil)
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failedExamples: 1})
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failedExamples: 1})
		c.Delete("a")
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failedExamples: 0})
		if calls != 1 {
			c.Errorf("the daemon was called %d times", calls)
		}
	})
	c.Run(t, "OB-30 an object with a permanent failure has failed until a handler of a later change succeeds", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return kopf.Permanent(errors.New("never")) }, named("create"))
		r.OnField(Examples, "spec.y", func(context.Context, *kopf.Change) error { return nil }, named("y"))
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		c.Create("a", nil)
		c.handled("a")
		wantMetrics(c, p, map[string]float64{failedExamples: 1})
		c.Patch("a", map[string]any{"status": map[string]any{"phase": "seen"}}) // not a tracked change
		c.Pass(time.Second)
		wantMetrics(c, p, map[string]float64{failedExamples: 1})
		c.Patch("a", spec(map[string]any{"x": 1})) // no handler is for that
		c.Pass(time.Second)
		wantMetrics(c, p, map[string]float64{failedExamples: 1})
		c.Patch("a", spec(map[string]any{"y": 1}))
		c.Pass(time.Second)
		wantMetrics(c, p, map[string]float64{failedExamples: 0})
	})
	c.Run(t, "OB-30 objects in retry are counted at once after a restart", func(c *C) {
		c.OnlyInBubble("it waits")
		c.Create("a", spec(map[string]any{"change": "again"}))
		op := c.Operator(troubled())
		c.Pass(5 * time.Second)
		op.Stop()
		p := newPipe()
		c.Operator(troubled(), probed(p, "http://0.0.0.0/healthz"))
		c.Pass(time.Second)
		wantMetrics(c, p, map[string]float64{failingOf("change"): 1})
	})
	c.Run(t, "OB-30 the ages of what waits, of what runs, and of the last events and successes", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { time.Sleep(10 * time.Minute); return nil }, named("create"))
		r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error { <-ctx.Done(); return nil }, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true})
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"), func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 1 })
		for _, name := range []string{"a", "b", "c"} {
			c.Create(name, nil)
		}
		c.Pass(5 * time.Minute)
		wantMetrics(c, p, map[string]float64{
			`kopf_handler_running_seconds_max{handler="create"}`: 300, "kopf_queue_oldest_seconds": 300, `workqueue_depth{name="kopfexamples.v1.kopf.dev",controller="kopfexamples.v1.kopf.dev"}`: 2,
			`workqueue_longest_running_processor_seconds{name="kopfexamples.v1.kopf.dev",controller="kopfexamples.v1.kopf.dev"}`: 300,
		})
		c.Pass(time.Hour)
		page := p.ask("GET", "/metrics").body
		for _, name := range []string{"kopf_watch_last_event_timestamp_seconds" + examplesLabel, `kopf_handler_last_success_timestamp_seconds{handler="create"`, "kopf_build_info{version=\"" + kopf.Version, "process_start_time_seconds ", `kopf_api_request_duration_seconds_count{verb="PATCH"`} {
			if !strings.Contains(page, name) {
				c.Errorf("there is no %s in\n%s", name, page)
			}
		}
		if strings.Contains(page, `kopf_handler_running_seconds_max{handler="daemon"`) {
			c.Error("a daemon that runs counts as a long call")
		}
		wantMetrics(c, p, map[string]float64{`kopf_handler_running_seconds_max{handler="create"}`: 0, "kopf_queue_oldest_seconds": 0})
	})
	c.Run(t, "OB-T5 an operator that pauses, and a replica that stands by, do not look like an outage", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		c.Create("a", spec(map[string]any{"change": "again", "reconcile": "permanently"}))
		c.Replica(troubled(), probed(p, "http://0.0.0.0/healthz"))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failingOf("change"): 1, failedExamples: 1, "kopf_standby": 0, `leader_election_master_status{name="website-operator"}`: 1, "kopf_election_terms_total": 1, "kopf_election_reached": 1})
		c.leases().Patch(leaseName, c.foreign("another", 3600, time.Now()))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{
			failingOf("change"): 0, failedExamples: 0, "kopf_standby": 1, "kopf_queue_depth": 0, "kopf_queue_oldest_seconds": 0, `leader_election_master_status{name="website-operator"}`: 0,
			"kopf_watch_streams" + examplesLabel + `,state="working"}`: 1,
		})
		c.Delete("a")
		c.leases().Patch(leaseName, c.foreign("another", 1, time.Now()))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failingOf("change"): 0, failedExamples: 0, "kopf_standby": 0, "kopf_objects" + examplesLabel + "}": 0})
	})
}

func countingPauses(t *testing.T, c *C) {
	c.Run(t, "OB-T5 an operator that pauses does not look like an outage", func(c *C) {
		c.OnlyInBubble("it waits")
		table := c.meet()
		p := newPipe()
		c.Create("a", spec(map[string]any{"change": "again", "reconcile": "permanently", "timer": "again"}))
		op := c.Operator(troubled(), probed(p, "http://0.0.0.0/healthz"))
		c.Pass(30 * time.Second)
		wantMetrics(c, p, map[string]float64{failingOf("change"): 1, failingOf("timer"): 1, failedExamples: 1, "kopf_paused": 0})
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{failingOf("change"): 0, failingOf("timer"): 0, failedExamples: 0, "kopf_paused": 1, "kopf_queue_depth": 0, "kopf_queue_oldest_seconds": 0})
		if page := p.ask("GET", "/metrics").body; strings.Contains(page, "kopf_watch_last_event_timestamp_seconds{") {
			c.Errorf("there is a last event of streams that are closed\n%s", page)
		}
		table.sit("boss", nil)
		c.going(op, 1)
		c.Pass(2 * time.Minute)
		wantMetrics(c, p, map[string]float64{failingOf("change"): 1, failingOf("timer"): 1, failedExamples: 1, "kopf_paused": 0})
	})
}

func countingControllers(t *testing.T, c *C) {
	c.Run(t, "OB-31 reconcile handlers are controllers, and resources are queues", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		var calls atomic.Int64
		r.OnReconcile(Examples, func(ctx context.Context, rec *kopf.Reconcile) error {
			time.Sleep(2 * time.Second)
			switch calls.Add(1) {
			case 1:
				return errors.New("first")
			case 2:
				panic("second")
			case 3:
				rec.RequeueAfter(time.Second)
				return nil
			case 4:
				return kopf.Permanent(errors.New("never"))
			case 6:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile"})
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"), func(op *kopf.Operator) { op.Settings.Execution.MaxWorkers = 7 })
		c.Create("a", nil)
		c.Pass(5 * time.Minute)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Minute)
		const of, queue = `{controller="reconcile"`, `{name="kopfexamples.v1.kopf.dev",controller="kopfexamples.v1.kopf.dev"}`
		want := map[string]float64{
			"controller_runtime_reconcile_total" + of + `,result="success"}`: 1, "controller_runtime_reconcile_total" + of + `,result="requeue_after"}`: 1, "controller_runtime_reconcile_total" + of + `,result="error"}`: 3,
			"controller_runtime_reconcile_errors_total" + of + "}": 3, "controller_runtime_terminal_reconcile_errors_total" + of + "}": 1, "controller_runtime_reconcile_panics_total" + of + "}": 1,
			"controller_runtime_reconcile_time_seconds_count" + of + "}": 5, "controller_runtime_reconcile_time_seconds_sum" + of + "}": 10, "controller_runtime_active_workers" + of + "}": 0, "controller_runtime_max_concurrent_reconciles" + of + "}": 7,
			"workqueue_depth" + queue: 0, "workqueue_unfinished_work_seconds" + queue: 0,
		}
		wantMetrics(c, p, want)
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{"controller_runtime_active_workers" + of + "}": 1, "workqueue_unfinished_work_seconds" + queue: 60, "workqueue_longest_running_processor_seconds" + queue: 60})
		page := p.ask("GET", "/metrics").body
		for _, name := range []string{"workqueue_adds_total", "workqueue_retries_total", "workqueue_queue_duration_seconds_bucket", "workqueue_work_duration_seconds_bucket", `rest_client_requests_total{code="200",method="GET",host="`} {
			if !strings.Contains(page, name) {
				c.Errorf("there is no %s in\n%s", name, page)
			}
		}
	})
	c.Run(t, "OB-30 children are counted by what they are like, and the requests that write them", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		c.parenting(bySize, nil, probed(p, "http://0.0.0.0/healthz"))
		c.Create("a", spec(map[string]any{"size": 3, "text": "x"}))
		c.Pass(time.Minute)
		const maps = `{resource="configmaps.v1"`
		write := func(verb string) string {
			return "kopf_children_writes_total" + maps + `,verb="` + verb + `",outcome="success"}`
		}
		wantMetrics(c, p, map[string]float64{"kopf_children" + maps + `,state="ready"}`: 3, "kopf_children" + maps + `,state="not_ready"}`: 0, write("apply"): 3, write("delete"): 0})
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.Pass(time.Minute)
		wantMetrics(c, p, map[string]float64{"kopf_children" + maps + `,state="ready"}`: 1, "kopf_children" + maps + `,state="terminating"}`: 0, write("delete"): 2})
	})
}

func countingSeries(t *testing.T, c *C) {
	c.Run(t, "OB-32 thousands of objects have the same series as three", func(c *C) {
		c.NotShort("the objects are many")
		c.OnlyInBubble("it is about the page")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			switch ch.Spec().String("change") {
			case "again":
				return kopf.Temporary(errors.New("not yet"), time.Hour)
			case "permanently":
				return kopf.Permanent(errors.New("never"))
			}
			return nil
		}, named("change"))
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		create := func(from, to int) {
			for i := from; i < to; i++ {
				c.Create(fmt.Sprintf("name-%d", i), spec(map[string]any{"change": []string{"", "again", "permanently"}[i%3]}))
			}
			c.Pass(time.Minute)
		}
		series := func() (all []string) {
			for line := range strings.Lines(p.ask("GET", "/metrics").body) {
				if !strings.HasPrefix(line, "#") && !strings.Contains(line, `verb="WATCH"`) { // a slow test loses its watch stream, and opens another one
					all = append(all, line[:strings.LastIndexByte(line, ' ')])
				}
			}
			return all
		}
		objects := proof.Rounds(1_500, 10_000)
		create(0, 3)
		few := series()
		create(3, objects)
		if many := series(); !slices.Equal(few, many) {
			c.Errorf("three objects have the series\n%s\nand thousands\n%s", strings.Join(few, "\n"), strings.Join(many, "\n"))
		}
		wantMetrics(c, p, map[string]float64{"kopf_objects" + examplesLabel + "}": float64(objects), failingOf("change"): float64(objects / 3), failedExamples: float64(objects / 3)})
	})
}
