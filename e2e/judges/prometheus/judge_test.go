package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"go.yaml.in/yaml/v3"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/metrics"
)

// recorded returns the pages of two hours of a busy operator.
var recorded = sync.OnceValue(func() func(t *testing.T) []page {
	var pages []page
	return func(t *testing.T) []page {
		if pages == nil {
			pages = record(t, sites(), 240, busy(t))
		}
		return pages
	}
})

// parse passes the samples of a page to take, and returns the types of its metrics.
func parse(t *testing.T, body []byte, contentType string, take func(labels.Labels, float64)) (types map[string]string) {
	t.Helper()
	p, err := textparse.New(body, contentType, nil, textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	types = make(map[string]string)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return types
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, body)
		}
		switch entry {
		case textparse.EntryType:
			name, kind := p.Type()
			types[string(name)] = string(kind)
		case textparse.EntrySeries:
			var l labels.Labels
			p.Labels(&l)
			_, _, v := p.Series()
			take(l, v)
			var e exemplar.Exemplar
			p.Exemplar(&e)
		}
	}
}

func TestParsers(t *testing.T) {
	pages := recorded()(t)
	last := pages[len(pages)-1]
	series := func(body []byte, contentType string) (all []string, types map[string]string) {
		types = parse(t, body, contentType, func(l labels.Labels, _ float64) { all = append(all, l.String()) })
		slices.Sort(all)
		return all, types
	}
	text, textTypes := series(last.text, "text/plain; version=0.0.4; charset=utf-8")
	t.Run("OB-31 its parser takes the page as text", func(t *testing.T) {
		if len(text) < 200 {
			t.Errorf("there are only %d series", len(text))
		}
		if n := len(slices.Compact(slices.Clone(text))); n != len(text) {
			t.Errorf("%d series are there twice", len(text)-n)
		}
	})
	t.Run("OB-34 its parser takes the page as OpenMetrics, with the same series", func(t *testing.T) {
		open, openTypes := series(last.open, "application/openmetrics-text; version=1.0.0; charset=utf-8")
		for i := range open { // the numbers in labels of histograms are floats there
			open[i] = regexp.MustCompile(`le="(\d+)\.0"`).ReplaceAllString(open[i], `le="$1"`)
		}
		for i := range text {
			text[i] = regexp.MustCompile(`le="(\d+)\.0"`).ReplaceAllString(text[i], `le="$1"`)
		}
		slices.Sort(open)
		slices.Sort(text)
		if !slices.Equal(open, text) {
			t.Errorf("the formats have %d and %d series", len(text), len(open))
		}
		for name, kind := range textTypes {
			if kind == "counter" {
				name = strings.TrimSuffix(name, "_total")
			}
			if openTypes[name] != kind {
				t.Errorf("%s is a %s, and a %s in OpenMetrics", name, kind, openTypes[name])
			}
		}
	})
}

// engine returns an engine for queries.
func engine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute})
}

// query returns the value of an expression at a time.
func query(t *testing.T, e *promql.Engine, q storage.Queryable, expr string, at time.Time) promql.Vector {
	t.Helper()
	one, err := e.NewInstantQuery(context.Background(), q, nil, expr, at)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer one.Close()
	result := one.Exec(context.Background())
	v, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(v)
}

// stored returns the pages in the storage of Prometheus, with the labels of the target.
func stored(t *testing.T, pages []page, contentType string) *teststorage.TestStorage {
	t.Helper()
	db := teststorage.New(t)
	for _, p := range pages {
		app := db.Appender(context.Background())
		body := p.text
		if strings.HasPrefix(contentType, "application/openmetrics-text") {
			body = p.open
		}
		parse(t, body, contentType, func(l labels.Labels, v float64) {
			b := labels.NewBuilder(l)
			for name, value := range map[string]string{"job": "web", "namespace": "ops", "pod": "web-0", "instance": "10.0.0.1:8080"} {
				b.Set(name, value)
			}
			if _, err := app.Append(0, b.Labels(), p.at.UnixMilli(), v); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		})
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// manifests returns the queries of the dashboard, and the rules, of the operator in this test.
func manifests(t *testing.T) (queries []string, rules []rulefmt.Rule, groups []byte) {
	t.Helper()
	before := kopf.DefaultRegistry()
	defer kopf.SetDefaultRegistry(before)
	kopf.SetDefaultRegistry(sites())
	var out, complaints bytes.Buffer
	if code := kopf.Command(t.Context(), []string{"manifests", "--name=web", "--replicas=2", "--only=dashboard,alerts"}, &out, &complaints); code != 0 {
		t.Fatal(complaints.String())
	}
	objects, err := kopf.ParseManifests(out.Bytes())
	if err != nil || len(objects) != 2 {
		t.Fatalf("got %d objects, %v", len(objects), err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(objects[0]["data"].(map[string]any)["web.json"].(string)), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	if groups, err = yaml.Marshal(objects[1]["spec"]); err != nil {
		t.Fatal(err)
	}
	all, errs := rulefmt.Parse(groups, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatalf("%v in\n%s", errs, groups)
	}
	return queries, all.Groups[0].Rules, groups
}

// kubebuilders are the queries of the two dashboards of Kubebuilder 5c400728 (grafana/v1-alpha).
var kubebuilders = []string{
	`rate(process_cpu_seconds_total{job="$job", namespace="$namespace", pod="$pod"}[5m]) * 100`,
	`process_resident_memory_bytes{job="$job", namespace="$namespace", pod="$pod"}`,
	`controller_runtime_active_workers{job="$job", namespace="$namespace"}`,
	`sum(rate(controller_runtime_reconcile_total{job="$job", namespace="$namespace"}[5m])) by (instance, pod)`,
	`sum(rate(controller_runtime_reconcile_errors_total{job="$job", namespace="$namespace"}[5m])) by (instance, pod)`,
	`workqueue_depth{job="$job", namespace="$namespace"}`,
	`histogram_quantile(0.50, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))`,
	`histogram_quantile(0.90, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))`,
	`histogram_quantile(0.99, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))`,
	`sum(rate(workqueue_adds_total{job="$job", namespace="$namespace"}[5m])) by (instance, name)`,
	`rate(workqueue_unfinished_work_seconds{job="$job", namespace="$namespace"}[5m])`,
	`histogram_quantile(0.50, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))`,
	`histogram_quantile(0.90, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))`,
	`histogram_quantile(0.99, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))`,
	`sum(rate(workqueue_retries_total{job="$job", namespace="$namespace"}[5m])) by (instance, name)`,
	`count by (job) (controller_runtime_reconcile_total{namespace=~"$namespace"})`, // the variables get their values from it
}

var variables = strings.NewReplacer("$job", "web", "$namespace", "ops", "$pod", "web-0", "$__rate_interval", "5m")

func TestDashboards(t *testing.T) {
	pages := recorded()(t)
	ours, _, _ := manifests(t)
	if len(ours) < 30 {
		t.Errorf("our dashboard has only %d queries", len(ours))
	}
	for _, format := range []string{"text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8"} {
		db, e := stored(t, pages, format), engine(t)
		for name, queries := range map[string][]string{"OB-35 ours": ours, "OB-31 those of Kubebuilder": kubebuilders} {
			t.Run(name+" from "+format[:strings.IndexByte(format, ';')], func(t *testing.T) {
				for _, q := range queries {
					t.Run("OB-T10 "+q, func(t *testing.T) {
						v := query(t, e, db, variables.Replace(q), pages[len(pages)-1].at)
						if len(v) == 0 {
							t.Error("it is empty")
						}
						numbers := 0
						for _, s := range v {
							if s.F == s.F {
								numbers++
							}
						}
						if numbers == 0 {
							t.Errorf("it has no number: %v", v)
						}
					})
				}
			})
		}
	}
}

// firing reports whether a rule fires at any time of a range, with one evaluation per minute as in Prometheus.
func firing(t *testing.T, e *promql.Engine, q storage.Queryable, rule rulefmt.Rule, from, to time.Time) bool {
	t.Helper()
	since := make(map[string]time.Time)
	for at := from; !at.After(to); at = at.Add(time.Minute) {
		now := make(map[string]time.Time)
		for _, s := range query(t, e, q, rule.Expr, at) {
			key := s.Metric.String()
			now[key] = at
			if before, pending := since[key]; pending {
				now[key] = before
			}
			if at.Sub(now[key]) >= time.Duration(rule.For) {
				return true
			}
		}
		since = now
	}
	return false
}

// alertCase has series for which an alert fires, and series for which it does not, by minutes from 1970 on. "@" is replaced by the labels of the target.
type alertCase struct{ fires, quiet []string }

const histogram = `kopf_handler_duration_seconds_bucket{@,handler="h",le="5"} 0+5x120
kopf_handler_duration_seconds_bucket{@,handler="h",le="30"} 0+5x120
kopf_handler_duration_seconds_bucket{@,handler="h",le="+Inf"} 0+5x120
`

const longHistogram = `kopf_handler_duration_seconds_bucket{@,handler="h",le="30"} 0x120
kopf_handler_duration_seconds_bucket{@,handler="h",le="300"} 0+5x120
kopf_handler_duration_seconds_bucket{@,handler="h",le="+Inf"} 0+5x120
`

var alertCases = map[string]alertCase{
	"KopfStreamDown": {
		fires: []string{"kopf_watch_streams{@,resource=\"r\",state=\"wanted\"} 2x120\nkopf_watch_streams{@,resource=\"r\",state=\"working\"} 1x120\nkopf_paused{@} 0x120"},
		quiet: []string{
			"kopf_watch_streams{@,resource=\"r\",state=\"wanted\"} 2x120\nkopf_watch_streams{@,resource=\"r\",state=\"working\"} 2x20 1x3 2x120\nkopf_paused{@} 0x120",
			"kopf_watch_streams{@,resource=\"r\",state=\"wanted\"} 2x120\nkopf_watch_streams{@,resource=\"r\",state=\"working\"} 0x120\nkopf_paused{@} 1x120",
		},
	},
	"KopfStreamSilent": {
		fires: []string{`kopf_watch_last_event_timestamp_seconds{@,resource="r"} 0x120`},
		quiet: []string{`kopf_watch_last_event_timestamp_seconds{@,resource="r"} 0+60x120`, `kopf_watch_last_event_timestamp_seconds{@,resource="r"} 0+60x20 1200x3 1440+60x100`},
	},
	"KopfQueueStuck":     {fires: []string{"kopf_queue_oldest_seconds{@} 0+60x120"}, quiet: []string{"kopf_queue_oldest_seconds{@} 240x120"}},
	"KopfHandlerFailing": {fires: []string{`kopf_objects_failing{@,resource="r",handler="h"} 1x120`}, quiet: []string{`kopf_objects_failing{@,resource="r",handler="h"} 0x10 3x10 0x100`}},
	"KopfObjectsFailed":  {fires: []string{`kopf_objects_failed{@,resource="r"} 0x10 1x100`}, quiet: []string{`kopf_objects_failed{@,resource="r"} 0x120`}},
	"KopfNoSuccess": {
		fires: []string{"kopf_handler_attempts_total{@,handler=\"h\",outcome=\"retry\"} 0+1x120\nkopf_handler_attempts_total{@,handler=\"h\",outcome=\"success\"} 7x120"},
		quiet: []string{
			"kopf_handler_attempts_total{@,handler=\"h\",outcome=\"retry\"} 0+1x120\nkopf_handler_attempts_total{@,handler=\"h\",outcome=\"success\"} 0x20 1x20 2x20 3x20 4x20 5x20",
			"kopf_handler_attempts_total{@,handler=\"h\",outcome=\"retry\"} 0x20 1x100\nkopf_handler_attempts_total{@,handler=\"h\",outcome=\"success\"} 7x120",
			"kopf_handler_attempts_total{@,handler=\"h\",outcome=\"cancelled\"} 0+1x120\nkopf_handler_attempts_total{@,handler=\"h\",outcome=\"success\"} 7x120",
		},
	},
	"KopfHandlerHangs": {
		fires: []string{"kopf_handler_running_seconds_max{@,handler=\"h\"} 0+60x120\n" + histogram, `kopf_handler_running_seconds_max{@,handler="h"} 0+60x120`},
		quiet: []string{"kopf_handler_running_seconds_max{@,handler=\"h\"} 500x120\n" + histogram, "kopf_handler_running_seconds_max{@,handler=\"h\"} 1200x120\n" + longHistogram},
	},
	"KopfFlapping":        {fires: []string{"kopf_flapping_total{@} 0x30 1x90"}, quiet: []string{"kopf_flapping_total{@} 3x120"}},
	"KopfCertificateEnds": {fires: []string{`kopf_certificate_expiry_timestamp_seconds{@,certificate="client"} 500000x120`}, quiet: []string{`kopf_certificate_expiry_timestamp_seconds{@,certificate="client"} 700000x120`}},
	"KopfThrottled":       {fires: []string{"kopf_api_throttled_seconds_total{@} 0+50x120"}, quiet: []string{"kopf_api_throttled_seconds_total{@} 0+5x120", "kopf_api_throttled_seconds_total{@} 0x20 0+50x5 250x90"}},
	"KopfNoLeader": {
		fires: []string{"leader_election_master_status{@,name=\"web\"} 1x10 0x100\nleader_election_master_status{&,name=\"web\"} 0x120"},
		quiet: []string{"leader_election_master_status{@,name=\"web\"} 1x10 0x100\nleader_election_master_status{&,name=\"web\"} 0x10 1x100"},
	},
	"KopfRestarts": {fires: []string{"process_start_time_seconds{@} 1x10 600x10 1200x10 1800x80"}, quiet: []string{"process_start_time_seconds{@} 1x10 600x110"}},
}

func TestAlerts(t *testing.T) {
	_, rules, _ := manifests(t)
	e := engine(t)
	target := strings.NewReplacer("@", `job="web",namespace="ops",pod="web-0",instance="10.0.0.1:8080"`, "&", `job="web",namespace="ops",pod="web-1",instance="10.0.0.2:8080"`)
	load := func(t *testing.T, series string) *teststorage.TestStorage {
		var b strings.Builder
		b.WriteString("load 1m\n")
		for line := range strings.Lines(strings.TrimSpace(target.Replace(series))) {
			b.WriteString("  " + line)
		}
		return promqltest.LoadedStorage(t, b.String()+"\n")
	}
	for _, rule := range rules {
		cases, known := alertCases[rule.Alert]
		if !known || len(cases.fires) == 0 || len(cases.quiet) == 0 {
			t.Errorf("there are no cases for %s", rule.Alert)
		}
		for want, all := range map[bool][]string{true: cases.fires, false: cases.quiet} {
			for i, series := range all {
				t.Run("OB-36 "+rule.Alert+" fires: "+strconv.FormatBool(want)+" "+strconv.Itoa(i), func(t *testing.T) {
					if got := firing(t, e, load(t, series), rule, time.Unix(0, 0), time.Unix(90*60, 0)); got != want {
						t.Errorf("it fires: %t, want %t, under\n%s", got, want, series)
					}
				})
			}
		}
	}
	if len(alertCases) != len(rules) {
		t.Errorf("there are cases for %d alerts, and %d alerts", len(alertCases), len(rules))
	}
}

func TestOperators(t *testing.T) {
	_, rules, _ := manifests(t)
	e := engine(t)
	fired := func(t *testing.T, pages []page) (names []string) {
		db := stored(t, pages, "text/plain; version=0.0.4; charset=utf-8")
		for _, rule := range rules {
			if firing(t, e, db, rule, pages[0].at, pages[len(pages)-1].at) {
				names = append(names, rule.Alert)
			}
		}
		slices.Sort(names)
		return names
	}
	t.Run("OB-36 an idle operator that is well fires none", func(t *testing.T) {
		registry := sites()
		object := map[string]any{"apiVersion": "example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "one", "namespace": "default"}, "spec": map[string]any{"mood": "well", "size": 2}}
		pages := record(t, registry, 480, func(ctx context.Context, step int, client *kopf.Client) {
			if step == 0 {
				if err := client.Apply(ctx, object, &kopf.WriteOptions{FieldManager: "judge", Force: true}); err != nil {
					t.Error(err)
				}
			}
		})
		if names := fired(t, pages); len(names) > 0 {
			t.Errorf("it fires %q; its last page is\n%s", names, pages[len(pages)-1].text)
		}
	})
	t.Run("OB-36 a busy operator some of whose handlers fail fires what that is", func(t *testing.T) {
		if names, want := fired(t, recorded()(t)), []string{"KopfHandlerFailing", "KopfObjectsFailed"}; !slices.Equal(names, want) {
			t.Errorf("it fires %q, want %q", names, want)
		}
	})
}

// FuzzCheck checks that the parser of Prometheus accepts each page of a user function that kopf accepts.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{"# TYPE a counter\na{b=\"c\"} 1 2\n", "a{b=\"\\n\",} NaN\n", "# HELP a\n#\n\na +Inf\n", "a 1e5 7\n", "# HELP a b\n # TYPE a gauge\n", "a{} 1\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if metrics.Check([]byte(text)) != nil {
			return
		}
		p, err := textparse.New([]byte(strings.TrimSuffix(text, "\n")+"\n"), "text/plain; version=0.0.4", nil, textparse.ParserOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for {
			entry, err := p.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if entry == textparse.EntrySeries {
				var l labels.Labels
				p.Labels(&l)
			}
		}
	})
}
