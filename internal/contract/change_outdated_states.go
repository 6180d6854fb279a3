package contract

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/await"
)

// This suite proves that handlers are never called with outdated states, whichever requests may read the object.

var _ = Suite("change_outdated_states", func(t *testing.T, c *C) {
	c.Run(t, "DF-27 without the right to get, a handler that has succeeded is not called again", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		for _, lag := range []time.Duration{8, 15, 40, 90} {
			for _, delay := range []time.Duration{1, 12, 30} {
				calls, op := c.lateOperator(slowly(lag*time.Second, nil), delay*time.Second, "get")
				name := fmt.Sprintf("lag%d-delay%d", lag, delay)
				c.Create(name, nil)
				c.Pass(15 * time.Minute)
				op.Stop()
				if got := calls.all(); !slices.Equal(got, []string{"one " + name, "two " + name, "two " + name}) {
					c.Errorf("with a lag of %ds and a delay of %ds, called were %q", lag, delay, got)
				}
				if c.Get(name).Annotations()["kopf.zalando.org/two"] != "" {
					c.Errorf("with a lag of %ds and a delay of %ds, the handling is not over", lag, delay)
				}
				if got := op.Logs.Find("Reading the object failed"); len(got) > 0 {
					c.Errorf("it warns of %v", got)
				}
			}
		}
	})
	c.Run(t, "DF-27 an object that cannot be read waits for the stream, and one warning names the remedy", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		calls, op := c.lateOperator(slowly(40*time.Second, nil), time.Second, "get", "list")
		c.Create("a", nil)
		c.Create("b", nil)
		c.Pass(15 * time.Minute)
		for _, name := range []string{"a", "b"} {
			got := slices.DeleteFunc(calls.all(), func(call string) bool { return !strings.HasSuffix(call, " "+name) })
			if !slices.Equal(got, []string{"one " + name, "two " + name, "two " + name}) {
				c.Errorf("called were %q", got)
			}
			if c.Get(name).Annotations()["kopf.zalando.org/two"] != "" {
				c.Errorf("the handling of %s is not over", name)
			}
		}
		warnings := warned(op, "Reading the object failed")
		if len(warnings) != 1 || !strings.Contains(warnings[0].Attrs["hint"], "permission to get kopfexamples") {
			c.Errorf("got the warnings %v, want one with the remedy", warnings)
		}
	})
	c.Run(t, "DF-27 an object that cannot be read is asked for again, and warned of again after a success", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		calls, op := c.lateOperator(slowly(90*time.Second, nil), time.Second)
		var began atomic.Value // the creation time of the last object
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodGet && strings.Contains(q.Path, "/kopfexamples/") && time.Since(began.Load().(time.Time)) < 200*time.Second {
				return Answer(500, "InternalError", "not now"), nil
			}
			return nil, nil
		})
		for i, name := range []string{"a", "b"} {
			began.Store(time.Now())
			c.Create(name, nil)
			c.Pass(10 * time.Minute) // the change of the first handler arrives after 180 seconds, and its success after 270
			if got := warned(op, "Reading the object failed"); len(got) != i+1 {
				c.Errorf("after the outage %d, got the warnings %v", i+1, got)
			}
		}
		c.expect(calls, "one a", "two a", "two a", "one b", "two b", "two b")
	})
	c.Run(t, "CH-202 an object is not asked for while its stream goes on", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		calls, op := c.lateOperator(lateBy(20*time.Second), 12*time.Second)
		c.Create("a", nil)
		c.Create("other", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/last-handled-configuration": "{}"}}})
		for i := range 60 { // of another object in the same stream
			c.Pass(time.Second)
			c.Patch("other", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/n": strconv.Itoa(i)}}})
		}
		c.Pass(time.Minute)
		got := slices.DeleteFunc(calls.all(), func(call string) bool { return !strings.HasSuffix(call, " a") })
		if !slices.Equal(got, []string{"one a", "two a", "two a"}) {
			c.Errorf("called were %q", got)
		}
		if n := reads(op, "a"); n > 0 {
			c.Errorf("the object was asked for %d times", n)
		}
	})
	c.Run(t, "CH-202 an object is asked for when its stream has passed our own patch without showing it", func(c *C) {
		c.OnlyInBubble("an event is to be lost")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			_, err := ch.Client.Patch(ctx, ch.Body.Reference(), spec(map[string]any{"x": 1}), nil)
			return err
		}, named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		op := c.Operator(r, slowly(0, func(line string) bool {
			return strings.Contains(line, "last-handled-configuration") && strings.Contains(line, `"name":"a"`)
		}))
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		for i := range 10 {
			c.Pass(time.Second)
			c.Create(fmt.Sprintf("b%d", i), nil)
		}
		if n := reads(op, "a"); n != 1 {
			c.Errorf("the object was asked for %d times, want once", n)
		}
	})
	c.Run(t, "DF-27 without the right to get, an object that went is not taken for one whose resource has lost a subresource", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		kind := c.Of("kopf.dev/v1", "KopfStatusExample")
		r := &kopf.Registry{}
		r.OnCreate("kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error {
			kind.Delete("a")
			ch.Patch.Set("status.phase", "Ready")
			return nil
		}, named("create"))
		op := c.Operator(r)
		op.Wire.Fault(refusingReads("get"))
		c.Pass(time.Second) // after the initial list
		kind.Create("a", nil)
		c.Pass(time.Minute)
		if got := warned(op, ""); len(got) > 0 {
			c.Errorf("it tells %v", got)
		}
	})
})

// lateOperator runs an operator with a delayed stream, and without the permission for some reads of single objects. Its first handler changes the
// object. The second one succeeds in its second attempt, after the delay.
func (c *C) lateOperator(stream func(*kopf.Operator), delay time.Duration, refused ...string) (*calls, *Running) {
	l := &calls{}
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		l.add("one %s", ch.Name())
		_, err := ch.Client.Patch(ctx, ch.Body.Reference(), spec(map[string]any{"x": 1}), nil)
		return err
	}, named("one"))
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		l.add("two %s", ch.Name())
		if ch.Retry == 0 {
			return kopf.Temporary(errOops, delay)
		}
		return nil
	}, named("two"))
	op := c.Operator(r, stream, func(op *kopf.Operator) { op.Settings.Networking.ErrorBackoffs = nil })
	op.Wire.Fault(refusingReads(refused...))
	c.Pass(time.Second) // after the initial list
	return l, op
}

// lateBy delays all events of watches.
func lateBy(lag time.Duration) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		op.Connection.HTTPClient = &http.Client{Transport: &lateStreams{op.Connection.HTTPClient.Transport, lag}}
	}
}

type lateStreams struct {
	next http.RoundTripper
	lag  time.Duration
}

// RoundTrip sends the request, and delays the events of a watch.
func (l *lateStreams) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if err != nil || !strings.Contains(req.URL.RawQuery, "watch=true") {
		return resp, err
	}
	r, w := io.Pipe()
	lines := make(chan lateLine, 10000)
	body := resp.Body
	go func() {
		defer close(lines)
		reader := bufio.NewReader(body)
		for err := error(nil); err == nil; {
			var line []byte
			line, err = reader.ReadBytes('\n')
			lines <- lateLine{line, time.Now()}
		}
	}()
	go func() {
		for line := range lines {
			if await.Sleep(req.Context(), time.Until(line.came.Add(l.lag))) != nil {
				break
			}
			_, _ = w.Write(line.text) // fails if the reader is closed
		}
		_ = w.Close() // it never fails
		_ = body.Close()
	}()
	resp.Body = r
	return resp, nil
}

type lateLine struct {
	text []byte
	came time.Time
}

// reads counts the requests for single objects whose names have a prefix.
func reads(op *Running, name string) (n int) {
	for _, q := range op.Wire.Requests(http.MethodGet) {
		if strings.Contains(q.Path, "examples/"+name) || strings.Contains(q.Path, "fieldSelector=metadata.name") {
			n++
		}
	}
	return n
}

// refusingReads refuses some reads of single objects, as an API server does for lack of a permission.
func refusingReads(ways ...string) func(*Request) (*http.Response, error) {
	return func(q *Request) (*http.Response, error) {
		if q.Method != http.MethodGet || strings.Contains(q.Path, "watch=true") || !strings.Contains(q.Path, "examples") {
			return nil, nil
		}
		path, query, _ := strings.Cut(q.Path, "?")
		way := "get"
		if strings.HasSuffix(path, "examples") {
			if way = "list"; !strings.Contains(query, "fieldSelector=metadata.name") {
				return nil, nil
			}
		}
		if !slices.Contains(ways, way) {
			return nil, nil
		}
		return Answer(403, "Forbidden", "cannot "+way), nil
	}
}

// warned returns the log lines that contain the text and have at least the level WARN.
func warned(op *Running, text string) []Line {
	return slices.DeleteFunc(op.Logs.Find(text), func(l Line) bool { return l.Level < slog.LevelWarn })
}
