package metrics

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// newMetrics returns counters of a process that is not looked at.
func newMetrics(ids ...string) *Metrics {
	return New(State{Paused: func() bool { return false }, Goroutines: func() int { return 1 }, Memory: func() int64 { return 1 }}, ids)
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := newMetrics("create")
	r := m.Resource("kopfexamples.v1.kopf.dev")
	m.Request("PATCH", 200)
	for name, count := range map[string]func(){
		"an event":             func() { r.Received("MODIFIED") },
		"an object":            func() { r.Add(Objects, 1) },
		"an object in work":    func() { m.Add(Queued, 1); m.Add(Queued, -1) },
		"a handler's attempt":  func() { m.Handler("create", false).Ended(Success, int64(time.Second)) },
		"a sub-handler's":      func() { m.Handler("create", true).Ended(Success, int64(time.Second)) },
		"an unknown handler's": func() { m.Handler("other", false).Ended(Success, int64(time.Second)) },
		"a request":            func() { m.Request("PATCH", 200) },
		"all of it, by nil": func() {
			(*Metrics)(nil).Add(WriteConflicts, 1)
			(*Metrics)(nil).Handler("create", false).Ended(0, 1)
			(*Resource)(nil).Received("ADDED")
		},
		"a stream":              func() { r.Add(Streams, 1); r.Add(Working, 1); r.Add(Restarts, 1) },
		"a resource once again": func() { m.Resource("kopfexamples.v1.kopf.dev") },
	} {
		if n := testing.AllocsPerRun(100, count); n != 0 {
			t.Errorf("counting %s allocates %v times, want never", name, n)
		}
	}
}

func TestBuckets(t *testing.T) {
	for seconds, want := range map[float64]int{0: 0, 0.005: 0, 0.0051: 1, 1: 4, 300: 8, 301: 9} {
		if got := bucketOf(seconds); got != want {
			t.Errorf("%v s: bucket %d, want %d", seconds, got, want)
		}
	}
	for i, part := range strings.Split(durationsPart, "\n")[:len(handlerBounds)] {
		if got, want := strings.Contains(part, `le="`+floatText(handlerBounds[i])+`"`), true; got != want {
			t.Errorf("the bucket %d is %s", i, part)
		}
	}
}

func floatText(f float64) string {
	var p page
	p.add("%", "", f)
	return string(p)
}

func TestLabelsAreEscaped(t *testing.T) {
	m := newMetrics("a\"b\\c\nd")
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := `kopf_handler_attempts_total{handler="a\"b\\c\nd",outcome="success"} 0` + "\n"; !strings.Contains(b.String(), want) {
		t.Errorf("there is no line %s in\n%s", want, b.String())
	}
}

// TestPage counts each thing a different number of times, and looks for all of the numbers where they belong.
func TestPage(t *testing.T) {
	m := newMetrics()
	for c := range operatorCounts {
		m.Add(c, int64(10+c))
	}
	r := m.Resource("r")
	for c := range resourceCounts {
		r.Add(c, int64(20+c))
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"kopf_queue_depth 10", `kopf_background_tasks{kind="daemon"} 11`, `kopf_background_tasks{kind="timer"} 12`,
		`kopf_kubernetes_events_total{outcome="posted"} 13`, `kopf_kubernetes_events_total{outcome="merged"} 14`, `kopf_kubernetes_events_total{outcome="lost"} 15`,
		"kopf_fights_total 16", "kopf_logins_total 17", "kopf_peers 18",
		`kopf_watch_restarts_total{resource="r"} 20`, `kopf_watch_streams{resource="r",state="wanted"} 21`, `kopf_watch_streams{resource="r",state="working"} 22`,
		`kopf_objects{resource="r"} 23`,
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, b.String())
		}
	}
}

// FuzzMetrics writes a page about resources of any name: no name makes another line.
func FuzzMetrics(f *testing.F) {
	f.Add("things.example.com", "fn/spec.x")
	f.Add("a\"} 1\nkopf_paused 1", "\\\n")
	f.Fuzz(func(t *testing.T, resource, id string) {
		lines := func(resource, id string) int {
			m := newMetrics(id)
			m.Resource(resource)
			var page bytes.Buffer
			if err := m.Write(&page); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(page.String()) {
				if name, _, ok := strings.Cut(line, "{"); ok && strings.Contains(name, " ") {
					t.Errorf("the line %q", line)
				}
			}
			return strings.Count(page.String(), "\n")
		}
		if got, want := lines(resource, id), lines("r", "h"); got != want {
			t.Errorf("%d lines with %q and %q, want %d", got, resource, id, want)
		}
	})
}
