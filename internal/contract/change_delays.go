package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves when operators wait: for delays, for watch events of their own patches, and for the backoff after errors.

// lagging delays the events of watches, and can drop some of them.
type lagging struct {
	next    http.RoundTripper
	lag     time.Duration
	swallow func(line string) bool
}

// RoundTrip sends the request. For a watch, it delays the body.
func (l *lagging) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if err != nil || !strings.Contains(req.URL.RawQuery, "watch=true") || !strings.Contains(req.URL.Path, "kopfexamples") {
		return resp, err
	}
	r, w := io.Pipe()
	body := resp.Body
	var group sync.WaitGroup
	group.Go(func() {
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 && (l.swallow == nil || !l.swallow(string(line))) {
				line, came := bytes.Clone(line), time.Now()
				time.Sleep(time.Until(came.Add(l.lag))) // the delay of an event
				if _, err := w.Write(line); err != nil {
					return
				}
			}
			if err != nil {
				w.CloseWithError(err)
				return
			}
		}
	})
	resp.Body = &laggingBody{r, body, &group}
	return resp, nil
}

type laggingBody struct {
	*io.PipeReader
	below io.Closer
	group *sync.WaitGroup
}

func (b *laggingBody) Close() error {
	_ = b.PipeReader.Close() // it never fails
	err := b.below.Close()
	b.group.Wait()
	return err
}

func slowly(lag time.Duration, swallow func(string) bool) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		op.Connection.HTTPClient = &http.Client{Transport: &lagging{next: op.Connection.HTTPClient.Transport, lag: lag, swallow: swallow}}
	}
}

func delaying(t *testing.T, c *C) {
	c.Run(t, "CH-193 the object is due with the first of its handlers", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		for _, delay := range []time.Duration{10 * time.Minute, 3 * time.Minute, 7 * time.Minute} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s at %s", delay, time.Since(began).Truncate(time.Second))
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, delay)
				}
				return nil
			}, named(kopf.HandlerID("in"+delay.String())))
		}
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "10m0s at 0s", "3m0s at 0s", "7m0s at 0s", "3m0s at 3m0s", "7m0s at 7m0s", "10m0s at 10m0s")
	})
	c.Run(t, "CH-194 a delay goes on over the event of the own patch, and over others", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s", time.Since(began).Truncate(time.Second))
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Hour)
			}
			return nil
		}, named("h"))
		c.Operator(r)
		c.Create("a", nil)
		c.Pass(20 * time.Minute)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.expect(&l, "0s", "1h0m0s")
	})
	c.Run(t, "DF-33 a delay does not end early when the object changes, and other handlers do not wait for it", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("x %s %d", time.Since(began).Truncate(time.Second), ch.Spec().Int("x"))
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, 10*time.Minute)
			}
			return nil
		}, &kopf.ChangeOptions{ID: "x", Field: "spec.x"})
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("y %s", time.Since(began).Truncate(time.Second))
			return nil
		}, &kopf.ChangeOptions{ID: "y", Field: "spec.y"})
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1, "y": 1}))
		c.handled("a")
		began = time.Now()
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Pass(time.Minute)
		c.Patch("a", spec(map[string]any{"x": 3, "y": 2}))
		c.Pass(time.Hour)
		c.expect(&l, "x 0s 2", "y 1m0s", "x 10m0s 3")
	})
	c.Run(t, "CH-T38 a long delay costs no request", func(c *C) {
		c.OnlyInBubble("the delays are long")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, 20*time.Hour)
			}
			return nil
		}, named("h"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(19 * time.Hour)
		if got := patches(op); len(got) != 1 {
			c.Errorf("got the patches %q, want the one of the failed attempt", got)
		}
		c.handled("a")
		if got := patches(op); len(got) != 2 {
			c.Errorf("got the patches %q, want two", got)
		}
	})
	c.Run(t, "CH-197 the value of a touch means nothing", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		for i := range 3 {
			c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/touch-dummy": fmt.Sprint(i)}}})
			c.Pass(300 * time.Millisecond)
		}
		c.expect(&l, "create create 0")
	})
	c.Run(t, "CH-199 a handling that has nothing to store says so, and nothing more", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		first := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		first.Stop()
		op := c.Operator(r)
		c.expect(&l, "create create 0", "resume resume 0")
		c.WaitFor("the log line", func() bool { return len(op.Logs.Find("Handling is finished, with nothing to store")) == 1 })
		if line := op.Logs.Find("Handling is finished, with nothing to store")[0]; line.Level != slog.LevelDebug {
			c.Errorf("the level is %s, want debug", line.Level)
		}
		if got := op.Wire.Writes(); len(got) > 0 {
			c.Errorf("got the requests %v", got)
		}
		if len(first.Logs.Find("Handling is finished, with nothing to store")) > 0 {
			c.Error("a handling that has stored something says that it had nothing to store")
		}
	})
	c.Run(t, "CH-200 our own patch has to come back, unless that is switched off", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		for timeout, want := range map[time.Duration]string{5 * time.Second: "4s", 0: "3s"} {
			var l calls
			var at atomic.Value // the start time
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { // another client changes it in the meantime
				_, err := ch.Client.Patch(ctx, ch.Body.Reference(), spec(map[string]any{"x": 1}), nil)
				time.Sleep(2 * time.Second)
				return err
			}, named("create"))
			r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s", time.Since(at.Load().(time.Time)).Round(100*time.Millisecond))
				return nil
			}, named("update"))
			op := c.Operator(r, slowly(time.Second, nil), func(op *kopf.Operator) { op.Settings.Persistence.ConsistencyTimeout = timeout })
			c.Pass(time.Second) // after the initial list
			at.Store(time.Now())
			c.Create(fmt.Sprintf("a%d", int(timeout.Seconds())), nil)
			c.Pass(20 * time.Second)
			if got := l.all(); len(got) == 0 || got[0] != want {
				c.Errorf("with a timeout of %s, the update was handled at %v, want %s", timeout, got, want)
			}
			op.Stop()
		}
	})
	c.Run(t, "CH-202 an outdated state is waited over, and the next one is handled", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		var l calls
		var at atomic.Value // the start time
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			_, err := ch.Client.Patch(ctx, ch.Body.Reference(), spec(map[string]any{"x": 1}), nil)
			time.Sleep(2 * time.Second)
			return err
		}, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("x=%d at %s", ch.Spec().Int("x"), time.Since(at.Load().(time.Time)).Round(100*time.Millisecond))
			return nil
		}, named("update"))
		c.Operator(r, slowly(time.Second, nil))
		c.Pass(time.Second) // after the initial list
		at.Store(time.Now())
		c.Create("a", nil)
		c.Pass(time.Minute)
		// The creation arrives at 1 s and is patched at 3 s, which arrives at 4 s. The state in between came at 2 s.
		c.expect(&l, "x=1 at 4s")
	})
	c.Run(t, "CH-202 states that a late stream shows after the object was read are outdated, too", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { l.add("create"); return nil }, named("create"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("update to %d", ch.Spec().Int("x"))
			return nil
		}, named("update"))
		op := c.Operator(r, slowly(20*time.Second, nil))
		c.Pass(time.Second) // after the initial list
		c.Create("a", spec(map[string]any{"x": 1}))
		for _, x := range []int{2, 3, 1} { // the last one is what the creation has handled
			c.Patch("a", spec(map[string]any{"x": x}))
		}
		c.Pass(10 * time.Minute)
		c.expect(&l, "create")
		if gets := op.Wire.Requests("GET"); !slices.ContainsFunc(gets, func(r Request) bool { return strings.HasSuffix(r.Path, "/kopfexamples/a") }) {
			c.Error("the object was not read")
		}
	})
	c.Run(t, "CH-T10 a newer state than the awaited one is as good", func(c *C) {
		c.OnlyInBubble("an event is to be lost")
		var l calls
		var own atomic.Value
		own.Store("none")
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		c.Operator(r, slowly(0, func(line string) bool {
			return strings.Contains(line, `"type":"MODIFIED"`) && !strings.Contains(line, `"x":1`)
		}))
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.handled("a")
		began := time.Now()
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		if passed := time.Since(began); passed > time.Second {
			c.Errorf("the update was handled after %s, want at once", passed)
		}
	})
	c.Run(t, "CH-203 the end of an object is not waited for", func(c *C) {
		c.OnlyInBubble("an event is to be lost")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		op := c.Operator(r, slowly(0, func(line string) bool { return strings.Contains(line, `"type":"MODIFIED"`) }),
			func(op *kopf.Operator) { op.Settings.Persistence.ConsistencyTimeout = time.Hour })
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.handled("a")
		began := time.Now()
		c.Delete("a")
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("Deleted, really deleted")) == 1 })
		c.Create("a", nil)
		c.handled("a")
		if passed := time.Since(began); passed > time.Minute {
			c.Errorf("the next object of the name was handled after %s", passed)
		}
		c.expect(&l, "create create 0", "create create 0")
	})
	c.Run(t, "CH-204 late events of an object that was let go do not start its handling again", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("one")
			_, err := ch.Client.Patch(ctx, ch.Body.Reference(), spec(map[string]any{"x": 1}), nil)
			time.Sleep(100 * time.Millisecond)
			return err
		}, named("one"))
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("two")
			return nil
		}, named("two"))
		c.Operator(r, slowly(time.Second, nil), func(op *kopf.Operator) { op.Settings.Execution.FlushAfter = 0 })
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.held("a")
		c.Delete("a")
		c.gone("a")
		c.Pass(time.Minute)
		c.expect(&l, "one", "two")
	})
	c.Run(t, "CH-200 what is stored counts, even if the stream is held up for longer than that", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		for name, readable := range map[string]bool{"a": true, "b": false} {
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("one")
				_, err := ch.Client.Patch(ctx, ch.Body.Reference(), spec(map[string]any{"x": 1}), nil)
				return err
			}, named("one"))
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("two")
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, time.Minute)
				}
				return nil
			}, named("two"))
			op := c.Operator(r, slowly(10*time.Second, nil)) // the change of the first handler arrives before the record of its success
			op.Wire.Fault(func(q *Request) (*http.Response, error) {
				if q.Method == http.MethodGet && strings.HasSuffix(q.Path, "/"+name) && !readable {
					return Answer(403, "Forbidden", "asked for"), nil
				}
				return nil, nil
			})
			c.Pass(time.Second) // after the initial list
			c.Create(name, nil)
			c.Pass(5 * time.Minute)
			op.Stop()
			if got := l.all(); !slices.Equal(got, []string{"one", "two", "two"}) || c.Get(name).Annotations()["kopf.zalando.org/two"] != "" {
				c.Errorf("readable is %t: called were %v", readable, got)
			}
		}
	})
	c.Run(t, "CH-161 a handling whose end is stored is over, though the answer was lost", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		handler := func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s x=%d", ch.Reason, ch.Spec().Int("x"))
			return nil
		}
		r.OnCreate(Examples, handler, named("h"))
		r.OnUpdate(Examples, handler, named("h"))
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Networking.ErrorBackoffs = nil
			op.Settings.Queueing.ErrorDelays = []time.Duration{3 * time.Second}
		})
		lost := make(chan struct{}, 1)
		n := 0
		op.Wire.Lose(func(q *Request) bool {
			if q.Method != http.MethodPatch || !strings.Contains(q.Body, "last-handled-configuration") {
				return false
			}
			if n++; n == 1 {
				lost <- struct{}{}
			}
			return n == 1
		})
		c.Create("a", spec(map[string]any{"x": 0}))
		<-lost
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the update", func() bool { return len(l.all()) > 1 })
		c.Pass(500 * time.Millisecond)
		c.expect(&l, "create x=0", "update x=1")
	})
	c.Run(t, "CH-161 records whose storing was not answered are removed after the end", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("one %d", ch.Retry)
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Second)
			}
			return nil
		}, named("one"))
		op := c.Operator(r, slowly(30*time.Second, nil), func(op *kopf.Operator) {
			op.Settings.Networking.ErrorBackoffs = nil
			op.Settings.Queueing.ErrorDelays = []time.Duration{2 * time.Second}
		})
		n := 0
		op.Wire.Lose(func(q *Request) bool {
			if q.Method == http.MethodPatch {
				n++
			}
			return q.Method == http.MethodPatch && n == 1
		})
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.Pass(5 * time.Minute)
		c.expect(&l, "one 0", "one 1")
		for key := range c.Get("a").Annotations() {
			if key != "kopf.zalando.org/last-handled-configuration" {
				c.Errorf("the annotation %s is left", key)
			}
		}
	})
	c.Run(t, "CH-204 nor if the answer to the last patch has an older version, and the object cannot be read for a while", func(c *C) {
		c.OnlyInBubble("versions are made up")
		for _, changed := range []bool{false, true} { // by another client, too late for the operator to receive it
			var l calls
			r := &kopf.Registry{}
			r.OnDelete(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("delete")
				ch.Patch.Set("status.phase", "going")
				if changed {
					c.statuses().Patch("a", spec(map[string]any{"x": 1}))
				}
				return nil
			}, named("delete"))
			op := c.Operator(r, lateBy(2*time.Second))
			var failing atomic.Bool
			op.Wire.Fault(func(q *Request) (*http.Response, error) {
				switch {
				case q.Method == http.MethodGet && strings.HasSuffix(q.Path, "/a") && failing.Load():
					return Answer(404, "", "404 page not found"), nil
				case q.Method == http.MethodPatch && strings.Contains(q.Body, `"op":"remove","path":"/metadata/finalizers`):
					failing.Store(true)
					time.AfterFunc(10*time.Second, func() { failing.Store(false) })
					return c.withVersion(q, "2"), nil
				}
				return nil, nil
			})
			c.Pass(5 * time.Second) // after the initial list
			c.statuses().Create("a", nil)
			c.Pass(10 * time.Second)
			c.statuses().Delete("a")
			c.Pass(2 * time.Minute)
			c.expect(&l, "delete")
			op.Stop()
		}
	})
	c.Run(t, "CH-204 nor do late events of an object that has gone meanwhile", func(c *C) {
		c.OnlyInBubble("the events are to be late")
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("delete")
			_, err := ch.Client.Patch(ctx, ch.Body.Reference(), spec(map[string]any{"x": 1}), nil)
			c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
			return err
		}, named("delete"))
		c.Operator(r, slowly(time.Second, nil))
		c.Pass(time.Second) // after the initial list
		c.Create("a", nil)
		c.held("a")
		c.Delete("a")
		c.gone("a")
		c.Pass(time.Minute)
		c.expect(&l, "delete")
	})
	c.Run(t, "an object is not taken for gone when its resource is not served for a moment", func(c *C) {
		for name, message := range map[string]string{"a": "the server could not find the requested resource", "b": ""} {
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			op := c.Operator(r)
			n := 0
			op.Wire.Fault(func(q *Request) (*http.Response, error) {
				if q.Method != http.MethodPatch || n > 0 {
					return nil, nil
				}
				if n++; message == "" { // as servers without the path answer
					return &http.Response{StatusCode: 404, Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("404 page not found\n"))}, nil
				}
				return Answer(404, "NotFound", message), nil
			})
			c.Create(name, nil)
			c.handled(name)
			op.Stop()
			c.expect(&l, "create create 0")
		}
	})
	c.Run(t, "CH-T9 of a burst of changes, the newest state is handled", func(c *C) {
		var l calls
		hold := make(chan struct{})
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			<-hold
			return nil
		}, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("x=%d", ch.Spec().Int("x"))
			return nil
		}, named("update"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the creation", func() bool { return len(op.Logs.Find("Handler 'create' is invoked")) == 1 })
		for i := range 20 {
			c.Patch("a", spec(map[string]any{"x": i + 1}))
		}
		c.Pass(500 * time.Millisecond)
		close(hold)
		c.WaitFor("the update", func() bool { return len(l.all()) > 0 })
		c.Pass(500 * time.Millisecond)
		c.expect(&l, "x=20")
	})
}

// refusing makes the API server refuse the patches of an operator as long as the function returns true, and records the times.
func refusing(op *Running, l *calls, refuses func() bool) {
	began := time.Now()
	op.Wire.Fault(func(req *Request) (*http.Response, error) {
		if req.Method == http.MethodPatch && refuses() {
			l.add("%s", time.Since(began).Truncate(time.Second))
			return Answer(403, "Forbidden", "asked for"), nil
		}
		return nil, nil
	})
}

func throttling(t *testing.T, c *C) {
	c.Run(t, "CH-206 after errors that are not of handlers, the object pauses longer and longer", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l, refused calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h"), named("h"))
		op := c.Operator(r)
		refusing(op, &refused, func() bool { return len(refused.all()) < 17 })
		c.Create("a", nil)
		c.WaitFor("the creation", func() bool { return l.count("h create 0") == 1 && len(refused.all()) == 17 })
		c.handled("a")
		want, at := []string{"0s"}, 0
		for _, delay := range []int{1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 610} {
			at += delay
			want = append(want, (time.Duration(at) * time.Second).String())
		}
		c.expect(&refused, want...)
		c.expect(&l, "h create 0")
		lines := op.Logs.Find("Processing of the object failed")
		if len(lines) != 17 || lines[0].Level != slog.LevelError || lines[0].Attrs["delay"] != "1s" || !strings.Contains(lines[0].Attrs["error"], "asked for") || !strings.Contains(lines[0].Attrs["hint"], "permission to patch kopfexamples") {
			c.Errorf("got the log lines %v, want 17 errors with the pause and the reason", lines)
		}
	})
	c.Run(t, "CH-207 events during a pause wait for its end, and the newest state is processed then", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l, refused calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("x=%d", ch.Spec().Int("x"))
			return nil
		}, named("update"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ErrorDelays = []time.Duration{time.Minute} })
		refusing(op, &refused, func() bool { return len(refused.all()) < 1 })
		c.Create("a", nil)
		c.WaitFor("the refusal", func() bool { return len(refused.all()) == 1 })
		before := len(op.Wire.Writes())
		for i := range 5 {
			c.Patch("a", spec(map[string]any{"x": i}))
			c.Pass(10 * time.Second)
		}
		if n := len(op.Wire.Writes()); n != before {
			c.Errorf("%d requests were made during the pause", n-before)
		}
		c.WaitFor("the update", func() bool { return l.count("x=") == 1 })
		c.expect(&l, "create create 0", "x=4")
		if lines := op.Logs.Find("Repeating the processing of the object after an error"); len(lines) != 1 || lines[0].Level != slog.LevelDebug {
			c.Errorf("got the log lines %v, want one at the debug level", lines)
		}
	})
	c.Run(t, "CH-208 a success ends the sequence of pauses", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l, refused calls
		var refuses atomic.Bool
		refuses.Store(true)
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		op := c.Operator(r)
		refusing(op, &refused, refuses.Load)
		c.Create("a", nil)
		c.WaitFor("four refusals", func() bool { return len(refused.all()) == 4 })
		refuses.Store(false)
		c.handled("a")
		refuses.Store(true)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("a refusal", func() bool { return len(refused.all()) == 5 })
		lines := op.Logs.Find("Processing of the object failed")
		if last := lines[len(lines)-1].Attrs["delay"]; last != "1s" {
			c.Errorf("the first pause after a success is told as %q, want 1s", last)
		}
		refuses.Store(false)
	})
	c.Run(t, "CH-T4 what a handler has left is sent again, and the handler is not called again", func(c *C) {
		var l, refused calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("h")
			ch.Patch.Set("status.left", true)
			return nil
		}, named("h"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ErrorDelays = []time.Duration{20 * time.Millisecond} })
		refusing(op, &refused, func() bool { return len(refused.all()) < 3 })
		c.Create("a", nil)
		if body := c.handled("a"); !body.Status().Bool("left") {
			c.Error("what the handler has left is lost")
		}
		c.expect(&l, "h")
	})
	c.Run(t, "CH-T5 errors are logged also without pauses", func(c *C) {
		var l, refused calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h"), named("h"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ErrorDelays = nil })
		refusing(op, &refused, func() bool { return len(refused.all()) < 1 })
		c.Create("a", nil)
		c.WaitFor("the log line", func() bool { return len(op.Logs.Find("Processing of the object failed")) == 1 })
		if line := op.Logs.Find("Processing of the object failed")[0]; line.Level != slog.LevelError || !strings.Contains(line.Attrs["error"], "asked for") {
			c.Errorf("got the log line %v, want an error that tells the reason", line)
		}
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.expect(&l, "h create 0")
	})
}

// withVersion sends the request of a patch, and returns a response with another version than that of the server.
func (c *C) withVersion(q *Request, version string) *http.Response {
	path, _, _ := strings.Cut(q.Path, "?")
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPatch, c.info.Server+path, strings.NewReader(q.Body))
	if err != nil {
		c.Error(err)
		return Answer(500, "InternalError", "asked for")
	}
	req.Header.Set("Content-Type", q.ContentType)
	resp, err := c.info.HTTPClient.Do(req)
	if err != nil {
		c.Error(err)
		return Answer(500, "InternalError", "asked for")
	}
	defer resp.Body.Close()
	var object map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&object); err != nil {
		c.Error(err)
	}
	object["metadata"].(map[string]any)["resourceVersion"] = version
	text, err := json.Marshal(object)
	if err != nil {
		c.Error(err)
	}
	return document(string(text))
}
