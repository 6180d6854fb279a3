package metrics

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// newMetrics returns counters of a process that is not looked at.
func newMetrics(ids ...string) *Metrics {
	var all []Described
	for _, id := range ids {
		all = append(all, Described{ID: id})
	}
	return newMetricsOf(all...)
}

func newMetricsOf(handlers ...Described) *Metrics {
	return New(State{Version: "1", Go: "go1", Paused: func() bool { return false }, Goroutines: func() int { return 1 }}, handlers)
}

// write returns the page in a format.
func write(t testing.TB, m *Metrics, open bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b, open); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wantLines compares lines of a page.
func wantLines(t testing.TB, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, page)
		}
	}
}

// series returns the names and labels of a page, without the numbers.
func series(page string) (all []string) {
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	return all
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := newMetrics("create")
	r := m.Resource("kopfexamples.v1.kopf.dev")
	m.Request("h", "PATCH", 200, 0)
	for range 10 {
		m.Handler("create", false).Begin(time.Now())
		r.Queue().Begin()
	}
	s := r.Open()
	for name, count := range map[string]func(){
		"an event":             func() { r.Received("MODIFIED"); s.Came(false) },
		"an object":            func() { r.Add(Objects, 1) },
		"an object in work":    func() { m.Add(Queued, 1); r.Queue().Begin().End(false); m.Add(Queued, -1) },
		"a handler's attempt":  func() { m.Handler("create", false).Begin(time.Now()).End(Success, false) },
		"a sub-handler's":      func() { m.Handler("create", true).Begin(time.Now()).End(Success, false) },
		"an unknown handler's": func() { m.Handler("other", false).Begin(time.Now()).End(Success, false) },
		"a request":            func() { m.Request("h", "PATCH", 200, time.Second) },
		"all of it, by nil": func() {
			(*Metrics)(nil).Add(WriteConflicts, 1)
			(*Metrics)(nil).Handler("create", false).Begin(time.Now()).End(0, false)
			(*Metrics)(nil).Resource("r").Queue().Begin().End(true)
			(*Metrics)(nil).Resource("r").Open().Came(true)
			(*Resource)(nil).Received("ADDED")
		},
		"a stream":              func() { s.Restart(); s.Works(true); s.Works(false) },
		"a resource once again": func() { m.Resource("kopfexamples.v1.kopf.dev") },
	} {
		if n := testing.AllocsPerRun(100, count); n != 0 {
			t.Errorf("counting %s allocates %v times, want never", name, n)
		}
	}
}

func TestBuckets(t *testing.T) {
	for seconds, want := range map[float64]int{0: 0, 0.005: 0, 0.0051: 1, 1: 3, 300: 6, 301: 7} {
		if got := bucketOf(seconds); got != want {
			t.Errorf("%v s: bucket %d, want %d", seconds, got, want)
		}
	}
	for i, bound := range bounds {
		if got, err := strconv.ParseFloat(boundTexts[i], 64); err != nil || got != bound {
			t.Errorf("the bucket %d is %s, want %v", i, boundTexts[i], bound)
		}
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	wantLines(t, write(t, newMetrics("a\"b\\c\nd"), false), `kopf_handler_attempts_total{handler="a\"b\\c\nd",outcome="success"} 0`)
}

// TestPage counts each thing a different number of times, and looks for all of the numbers where they belong.
func TestPage(t *testing.T) {
	m := newMetricsOf(Described{ID: "h", Kind: Reconcile}, Described{ID: "d", Kind: Endless})
	for c := range operatorCounts {
		m.Add(c, int64(10+c))
	}
	m.Add(Throttled, 1e9-10-int64(Throttled))
	r := m.Resource("r")
	for c := range resourceCounts {
		r.Add(c, int64(20+c))
	}
	h := m.Handler("h", false)
	for i := range results {
		for range 10 + i {
			h.Begin(time.Now()).End(i, false)
		}
	}
	for range 10 {
		h.Count(Success, time.Now())
	}
	h.Begin(time.Now()).End(Failure, true)
	h.Settled(false)
	h.Settled(true)
	h.Settled(true)
	m.SetLimits(0, 30)
	m.Request("host:1", "GET", 200, time.Second)
	m.Request("host:1", "WATCH", 200, time.Hour)
	m.Request("host:1", "PATCH", 0, time.Second)
	counted := make(Children)
	for i, n := range []int{1, 2, 3} {
		for range n {
			counted.Add(r, i == 0, i == 2)
		}
	}
	m.SetReconciling(children(counted))
	for code, n := range map[int]int{200: 4, 409: 5, 422: 6, 500: 7} {
		for range n {
			r.Wrote(Apply, code, code == 200)
		}
	}
	r.Wrote(Delete, 0, false)
	m.SetCertificate(ForClient, certificate(100))
	page := write(t, m, false)
	wantLines(t, page, "kopf_queue_depth 10", `kopf_background_tasks{kind="daemon"} 11`, `kopf_background_tasks{kind="timer"} 12`,
		`kopf_kubernetes_events_total{outcome="posted"} 13`, `kopf_kubernetes_events_total{outcome="merged"} 14`, `kopf_kubernetes_events_total{outcome="lost"} 15`,
		"kopf_flapping_total 16", "kopf_logins_total 17", "kopf_peers 18", "kopf_api_throttled_seconds_total 1",
		`kopf_objects{resource="r"} 20`, `kopf_objects_failed{resource="r"} 21`,
		`kopf_watch_events_total{resource="r",type="LISTED"} 22`, `kopf_watch_events_total{resource="r",type="ADDED"} 23`, `kopf_watch_events_total{resource="r",type="MODIFIED"} 24`, `kopf_watch_events_total{resource="r",type="DELETED"} 25`,
		`kopf_watch_restarts_total{resource="r"} 26`, `kopf_watch_streams{resource="r",state="wanted"} 27`, `kopf_watch_streams{resource="r",state="working"} 28`,
		`workqueue_adds_total{name="r",controller="r"} 29`, `workqueue_retries_total{name="r",controller="r"} 30`,
		`kopf_handler_attempts_total{handler="h",outcome="success"} 10`, `kopf_handler_attempts_total{handler="h",outcome="retry"} 11`, `kopf_handler_attempts_total{handler="h",outcome="failure"} 13`,
		`kopf_handler_attempts_total{handler="h",outcome="ignored"} 13`, `kopf_handler_attempts_total{handler="h",outcome="waiting"} 14`, `kopf_handler_attempts_total{handler="h",outcome="cancelled"} 15`,
		"kopf_handler_retries_total 11", `kopf_handler_duration_seconds_count{handler="h"} 76`, `kopf_handler_running_seconds_max{handler="h"} 0`,
		`controller_runtime_reconcile_total{controller="h",result="success"} 1`, `controller_runtime_reconcile_total{controller="h",result="requeue_after"} 2`,
		`controller_runtime_reconcile_total{controller="h",result="error"} 24`, `controller_runtime_reconcile_total{controller="h",result="requeue"} 0`,
		`controller_runtime_reconcile_errors_total{controller="h"} 24`, `controller_runtime_terminal_reconcile_errors_total{controller="h"} 13`, `controller_runtime_reconcile_panics_total{controller="h"} 1`,
		`controller_runtime_max_concurrent_reconciles{controller="h"} 30`, `controller_runtime_reconcile_time_seconds_count{controller="h"} 76`,
		`kopf_api_requests_total{verb="GET",code="200"} 1`, `kopf_api_requests_total{verb="WATCH",code="200"} 1`, `kopf_api_requests_total{verb="PATCH",code="0"} 1`,
		`rest_client_requests_total{code="200",method="GET",host="host:1"} 2`, `rest_client_requests_total{code="<error>",method="PATCH",host="host:1"} 1`,
		`kopf_api_request_duration_seconds_bucket{verb="GET",le="1"} 1`, `kopf_api_request_duration_seconds_sum{verb="GET"} 1`,
		`kopf_children{resource="r",state="ready"} 1`, `kopf_children{resource="r",state="not_ready"} 2`, `kopf_children{resource="r",state="terminating"} 3`,
		`kopf_children_writes_total{resource="r",verb="apply",outcome="success"} 4`, `kopf_children_writes_total{resource="r",verb="apply",outcome="conflict"} 5`,
		`kopf_children_writes_total{resource="r",verb="apply",outcome="refused"} 6`, `kopf_children_writes_total{resource="r",verb="apply",outcome="error"} 7`,
		`kopf_children_writes_total{resource="r",verb="delete",outcome="error"} 1`,
		`kopf_certificate_expiry_timestamp_seconds{certificate="client"} 100`, `kopf_build_info{version="1",goversion="go1"} 1`, "kopf_standby 0", "kopf_paused 0", "kopf_goroutines 1",
	)
	for _, name := range []string{`kopf_handler_running_seconds_max{handler="d"}`, "leader_election_master_status{", "\nkopf_election_reached ", "\nkopf_election_terms_total ", `certificate="webhooks"`, `verb="WATCH",le=`, `last_success_timestamp_seconds{handler="d"}`} {
		if strings.Contains(page, name) {
			t.Errorf("there is %s in\n%s", name, page)
		}
	}
	leading := true
	m.Election.Store(&Election{Lease: "l", Leading: func() bool { return leading }, Reached: func() bool { return true }})
	wantLines(t, write(t, m, false), `leader_election_master_status{name="l"} 1`, "kopf_election_terms_total 19", "kopf_election_reached 1", "kopf_standby 0", `kopf_objects_failed{resource="r"} 21`)
	t.Run("OB-T5 a replica that stands by fails nothing", func(t *testing.T) {
		leading = false
		wantLines(t, write(t, m, false), `leader_election_master_status{name="l"} 0`, "kopf_standby 1", `kopf_objects_failed{resource="r"} 0`)
	})
}

// children are numbers of children.
type children Children

func (c children) CountChildren() Children { return Children(c) }

// certificate is an expiration time, in seconds since 1970.
type certificate int64

func (c certificate) End() time.Time { return time.Unix(int64(c), 0) }

func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics("h")
		r := m.Resource("r")
		old := m.Handler("h", false).Begin(time.Now())
		first, second := r.Queue(), Pass{}
		time.Sleep(10 * time.Second)
		second = r.Queue()
		young := m.Handler("h", false).Begin(time.Now())
		time.Sleep(5 * time.Second)
		wantLines(t, write(t, m, false), `kopf_handler_running_seconds_max{handler="h"} 15`, "kopf_queue_oldest_seconds 15", `workqueue_depth{name="r",controller="r"} 2`, `workqueue_adds_total{name="r",controller="r"} 2`)
		old.End(Success, false)
		first = first.Begin()
		wantLines(t, write(t, m, false), `kopf_handler_running_seconds_max{handler="h"} 5`, "kopf_queue_oldest_seconds 5", `workqueue_depth{name="r",controller="r"} 1`,
			`workqueue_queue_duration_seconds_sum{name="r",controller="r"} 15`, `workqueue_queue_duration_seconds_bucket{name="r",controller="r",le="5"} 0`, `workqueue_queue_duration_seconds_bucket{name="r",controller="r",le="300"} 1`)
		second = second.Begin()
		time.Sleep(time.Second)
		wantLines(t, write(t, m, false), "kopf_queue_oldest_seconds 0", `workqueue_unfinished_work_seconds{name="r",controller="r"} 2`, `workqueue_longest_running_processor_seconds{name="r",controller="r"} 1`)
		first = first.End(true)
		second.End(false)
		young.End(Retry, false)
		time.Sleep(time.Second)
		wantLines(t, write(t, m, false), `kopf_handler_running_seconds_max{handler="h"} 0`, "kopf_queue_oldest_seconds 1", `workqueue_depth{name="r",controller="r"} 1`, `workqueue_adds_total{name="r",controller="r"} 3`,
			`workqueue_work_duration_seconds_count{name="r",controller="r"} 2`, `workqueue_work_duration_seconds_sum{name="r",controller="r"} 2`, `workqueue_unfinished_work_seconds{name="r",controller="r"} 0`)
		first.Begin().End(false)
	})
	t.Run("in any order of the ends, and without a place too many", func(t *testing.T) {
		var a ages
		at := time.Unix(1000, 0)
		var places []int32
		for i := range 1000 {
			places = append(places, a.begin(at.Add(time.Duration(i)*time.Second)))
		}
		for i := 0; i < 1000; i += 2 {
			a.end(places[i])
		}
		if n, oldest, sum := a.look(at.Add(1000 * time.Second)); n != 500 || oldest != 999 || sum != 250000 {
			t.Errorf("got %d, %v, %v", n, oldest, sum)
		}
		for range 500 {
			a.begin(at)
		}
		if len(a.all) != 1001 {
			t.Errorf("there are %d places, want 1001", len(a.all))
		}
		a = ages{}
		for i := range places {
			places[i] = a.begin(at)
		}
		for _, i := range slices.Backward(places) {
			a.end(i)
		}
		if a.all != nil {
			t.Errorf("there are %d places when nothing goes on, want none", len(a.all))
		}
	})
}

func TestFailing(t *testing.T) {
	m := newMetrics("a", "b")
	r := m.Resource("r")
	var one, other Failing
	one.Set(r, "a", "b")
	other.Set(r, "a")
	wantLines(t, write(t, m, false), `kopf_objects_failing{resource="r",handler="a"} 2`, `kopf_objects_failing{resource="r",handler="b"} 1`)
	one.Set(r, "a")
	other.Clear()
	other.Clear()
	wantLines(t, write(t, m, false), `kopf_objects_failing{resource="r",handler="a"} 1`, `kopf_objects_failing{resource="r",handler="b"} 0`)
	one.Set(nil, "a")
	wantLines(t, write(t, m, false), `kopf_objects_failing{resource="r",handler="a"} 0`)
}

func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		r := m.Resource("r")
		quiet, busy := r.Open(), r.Open()
		const last = `kopf_watch_last_event_timestamp_seconds{resource="r"}`
		missing := func(why string) {
			t.Helper()
			if page := write(t, m, false); strings.Contains(page, last) {
				t.Errorf("%s: there is %s in\n%s", why, last, page)
			}
		}
		quiet.Works(true)
		busy.Works(true)
		quiet.Came(false)
		missing("without bookmarks")
		quiet.Came(true)
		busy.Came(true)
		begun := time.Now()
		time.Sleep(time.Hour)
		busy.Came(false)
		wantLines(t, write(t, m, false), last+" "+strconv.FormatFloat(float64(begun.Unix()), 'g', -1, 64), `kopf_watch_streams{resource="r",state="wanted"} 2`, `kopf_watch_streams{resource="r",state="working"} 2`)
		quiet.Works(false)
		wantLines(t, write(t, m, false), last+" "+strconv.FormatFloat(float64(time.Now().Unix()), 'g', -1, 64), `kopf_watch_streams{resource="r",state="working"} 1`)
		busy.Restart()
		busy.Works(false)
		missing("without a stream that works")
		busy.Close()
		quiet.Close()
		wantLines(t, write(t, m, false), `kopf_watch_streams{resource="r",state="wanted"} 0`, `kopf_watch_streams{resource="r",state="working"} 0`, `kopf_watch_restarts_total{resource="r"} 1`)
		if len(r.streams) != 0 {
			t.Errorf("%d streams are remembered", len(r.streams))
		}
	})
}

// TestSize makes the page of an operator with 50 handlers for 10 kinds, everything of which has happened.
func TestSize(t *testing.T) {
	var handlers []Described
	var kinds []string
	for i := range 10 {
		kinds = append(kinds, "sites"+strconv.Itoa(i)+".v1.example.com")
		for _, name := range []string{"create-site", "resize-site", "delete-site", "probe-site"} {
			handlers = append(handlers, Described{ID: name + strconv.Itoa(i)})
		}
		handlers = append(handlers, Described{ID: "reconcile-site" + strconv.Itoa(i), Kind: Reconcile})
	}
	busy := func(objects int) string {
		m := newMetricsOf(handlers...)
		counts := make(children)
		for i, d := range handlers {
			r := m.Resource(kinds[i/5])
			s := r.Open()
			s.Came(true)
			for range objects {
				r.Add(Objects, 1)
				c := m.Handler(d.ID, false).Begin(time.Now())
				c.End(Success, false)
				r.Queue().Begin().End(false)
				new(Failing).Set(r, d.ID)
				if i/5 < 3 {
					r.Wrote(Apply, 200, true)
					counts[r] = &[3]float64{1234, 123, 12}
				}
			}
		}
		for _, verb := range []string{"GET", "PUT", "POST", "PATCH", "DELETE", "WATCH"} {
			for _, code := range []int{0, 200, 409} {
				m.Request("kubernetes.default.svc", verb, code, time.Second)
			}
		}
		m.SetReconciling(counts)
		return write(t, m, false)
	}
	one, many := busy(1), busy(10_000)
	t.Run("OB-32 a page of 50 handlers for 10 kinds has at most 120 KB", func(t *testing.T) {
		t.Logf("%d bytes", len(many))
		if len(many) > 120_000 {
			t.Errorf("it has %d bytes", len(many))
		}
	})
	t.Run("OB-T1 ten thousand objects have the same series as one", func(t *testing.T) {
		if !slices.Equal(series(one), series(many)) {
			t.Errorf("one object has %d series, and ten thousand have %d", len(series(one)), len(series(many)))
		}
	})
}

func TestIsOpen(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/plain": false, "application/openmetrics-text": true, "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1": true,
		"application/openmetrics-text;q=0.2, text/plain;q=0.3": false, "application/openmetrics-text;q=0": false, "application/openmetrics-text; q=x": false, "text/html,application/openmetrics-text;q=0.1": true,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3": true,
	} {
		if got := IsOpen(accept); got != want {
			t.Errorf("%q: got %t, want %t", accept, got, want)
		}
	}
}

func TestOpenMetrics(t *testing.T) {
	m := newMetrics("h")
	c := m.Handler("h", false).Begin(time.Now())
	c.Traced(`a"b`)
	c.End(Success, false)
	page := write(t, m, true)
	wantLines(t, page, "# TYPE kopf_handler_attempts counter", `kopf_handler_attempts_total{handler="h",outcome="success"} 1`, "# TYPE kopf_queue_depth gauge", `kopf_handler_duration_seconds_bucket{handler="h",le="1.0"} 1`)
	if !strings.HasSuffix(page, "\n# EOF\n") || strings.Count(page, "# EOF") != 1 {
		t.Error("the page does not end with # EOF")
	}
	if n := strings.Count(page, ` # {trace_id="a\"b"} `); n != 1 || !strings.Contains(page, `le="0.005"} 1 # {trace_id=`) {
		t.Errorf("there are %d exemplars in\n%s", n, page)
	}
	if text := write(t, m, false); strings.Contains(text, "trace_id") || strings.Contains(text, "EOF") {
		t.Errorf("the text format has what is of the other one\n%s", text)
	}
}

// FuzzMetrics writes a page about resources of any name: no name makes another line.
func FuzzMetrics(f *testing.F) {
	f.Add("things.example.com", "fn/spec.x")
	f.Add("a\"} 1\nkopf_paused 1", "\\\n")
	f.Add("$&@", "=")
	f.Fuzz(func(t *testing.T, resource, id string) {
		lines := func(resource, id string) int {
			m := newMetricsOf(Described{ID: id, Kind: Reconcile})
			m.Resource(resource)
			m.SetReconciling(children{})
			page := write(t, m, false)
			for line := range strings.Lines(page) {
				if name, _, ok := strings.Cut(line, "{"); ok && strings.Contains(name, " ") {
					t.Errorf("the line %q", line)
				}
			}
			return strings.Count(page, "\n")
		}
		if got, want := lines(resource, id), lines("r", "h"); got != want {
			t.Errorf("%d lines with %q and %q, want %d", got, resource, id, want)
		}
	})
}

// TestExtendedKind proves that a reconcile handler is counted as a controller, also if it is registered later and another handler has its ID.
func TestExtendedKind(t *testing.T) {
	early := New(State{}, []Described{{ID: "website"}, {ID: "website", Kind: Reconcile}})
	late := New(State{}, []Described{{ID: "website"}})
	late.Extend([]Described{{ID: "website"}, {ID: "website", Kind: Reconcile}})
	for name, m := range map[string]*Metrics{"at first": early, "later": late} {
		if n := len((&view{Metrics: m}).controllers()); n != 1 {
			t.Errorf("registered %s: got %d controllers", name, n)
		}
	}
}
