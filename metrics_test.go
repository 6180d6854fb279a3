package kopf

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestCountingAllocatesNothing(t *testing.T) {
	m := &metrics{}
	m.register([]HandlerID{"create"})
	r := m.resource("kopfexamples.v1.kopf.dev")
	m.request("PATCH", 200)
	for name, count := range map[string]func(){
		"an event":              func() { r.received(Modified) },
		"an object":             func() { r.known(1) },
		"an object in work":     func() { m.waiting(1); m.waiting(-1) },
		"a handler's attempt":   func() { m.handler("create", false).ended(resultSuccess, int64(time.Second)) },
		"a sub-handler's":       func() { m.handler("create", true).ended(resultSuccess, int64(time.Second)) },
		"an unknown handler's":  func() { m.handler("other", false).ended(resultSuccess, int64(time.Second)) },
		"a request":             func() { m.request("PATCH", 200) },
		"all of it, by nobody":  func() { (*metrics)(nil).handler("create", false).ended(0, 1); (*resourceMetrics)(nil).received(Added) },
		"a stream":              func() { r.stream(1); r.working(1); r.restarted() },
		"a resource once again": func() { m.resource("kopfexamples.v1.kopf.dev") },
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
	m := newMetrics(&Registry{}, nil)
	m.register([]HandlerID{"a\"b\\c\nd"})
	var b bytes.Buffer
	if err := m.write(&b); err != nil {
		t.Fatal(err)
	}
	if want := `kopf_handler_attempts_total{handler="a\"b\\c\nd",outcome="success"} 0` + "\n"; !strings.Contains(b.String(), want) {
		t.Errorf("there is no line %s in\n%s", want, b.String())
	}
}
