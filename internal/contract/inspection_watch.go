package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the command status can watch, and when it ends.

var _ = SerialSuite("inspection_watch", func(t *testing.T, c *C) {
	watchingStatus(t, c)
	watchingInTrouble(t, c)
})

func watchingStatus(t *testing.T, c *C) {
	c.Run(t, "OB-1 --watch goes on, prints what changes, and ends with the context", func(c *C) {
		r := c.one()
		c.Create("a", nil)
		ctx, stop := context.WithCancel(c.Context())
		before := kopf.DefaultRegistry()
		defer kopf.SetDefaultRegistry(before)
		kopf.SetDefaultRegistry(r)
		var out lockedBuffer
		done := make(chan int, 1)
		go func() {
			done <- kopf.Command(ctx, []string{"status", "kex", "-n", c.Namespace, "--watch", "-o", "json"}, &out, c.Output())
		}()
		states := func() (all []string) {
			for line := range strings.Lines(out.String()) {
				var s statusLine
				if err := json.Unmarshal([]byte(line), &s); err != nil {
					c.Fatalf("%v in %s", err, line)
				}
				all = append(all, s.Name+" "+s.State)
			}
			return all
		}
		wait := func(want ...string) {
			c.Helper()
			c.WaitFor(fmt.Sprintf("%q", want), func() bool { return len(states()) >= len(want) })
			c.same("the lines", want, states())
		}
		wait("a Unknown")
		c.Patch("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, nil)})
		wait("a Unknown", "a Changed")
		c.Patch("a", map[string]any{"spec": map[string]any{"x": 1}})
		wait("a Unknown", "a Changed", "a Handled")
		c.Patch("a", map[string]any{"status": map[string]any{"x": 1}}) // not part of the output
		c.Create("b", nil)
		wait("a Unknown", "a Changed", "a Handled", "b Unknown")
		c.Delete("b")
		c.Pass(time.Second)
		stop()
		if code := <-done; code != 0 {
			c.Errorf("got the exit code %d", code)
		}
	})
	c.Run(t, "OB-1 --watch fails if it may not watch, and goes on after a broken stream", func(c *C) {
		c.OnlyInBubble("the server has to refuse")
		wire := &Wire{base: c.info.HTTPClient.Transport}
		c.info.HTTPClient = &http.Client{Transport: wire}
		ctx, stop := context.WithCancel(c.Context())
		defer stop()
		before := kopf.DefaultRegistry()
		defer kopf.SetDefaultRegistry(before)
		kopf.SetDefaultRegistry(c.one())
		var out, errs lockedBuffer
		done := make(chan int, 1)
		go func() { done <- kopf.Command(ctx, []string{"status", "kex", "-n", c.Namespace, "-w"}, &out, &errs) }()
		c.Create("a", nil)
		c.WaitFor("the object", func() bool { return strings.Contains(out.String(), " a ") })
		wire.Drop()
		c.Create("b", nil)
		c.WaitFor("the next object", func() bool { return strings.Contains(out.String(), " b ") })
		wire.Fault(func(q *Request) (*http.Response, error) {
			if strings.Contains(q.Path, "/kopfexamples") {
				return Answer(http.StatusForbidden, "Forbidden", "you may not"), nil
			}
			return nil, nil
		})
		wire.Drop()
		if code := <-done; code != 1 || !strings.Contains(errs.String(), "you may not") {
			c.Errorf("got the exit code %d and %q", code, errs.String())
		}
	})
}

func watchingInTrouble(t *testing.T, c *C) {
	c.Run(t, "OB-9 --watch says once that the server is out of order, and goes on", func(c *C) {
		c.OnlyInBubble("the server has to be out of order")
		wire := &Wire{base: c.info.HTTPClient.Transport}
		c.info.HTTPClient = &http.Client{Transport: wire}
		w := c.watchStatus(c.one())
		c.Create("a", nil)
		c.WaitFor("the object", func() bool { return strings.Contains(w.out.String(), " a ") })
		var code atomic.Int32
		wire.Fault(func(q *Request) (*http.Response, error) {
			if n := int(code.Load()); n > 0 {
				return Answer(n, "Trouble", "not now"), nil
			} else if n < 0 {
				return nil, errors.New("no route to host")
			}
			return nil, nil
		})
		for _, trouble := range []int32{503, 429, 500, -1} {
			said := strings.Count(w.errs.String(), "Watching kopfexamples.v1.kopf.dev failed; trying again: ")
			code.Store(trouble)
			wire.Drop()
			c.Pass(5 * time.Minute)
			if now := strings.Count(w.errs.String(), "failed; trying again: "); now != said+1 {
				c.Errorf("after %d, it was said %d times: %s", trouble, now-said, w.errs.String())
			}
			code.Store(0)
			c.Patch("a", spec(map[string]any{"x": trouble}))
			c.Create(fmt.Sprint("b", said), nil)
			c.WaitFor("the next object", func() bool { return strings.Contains(w.out.String(), fmt.Sprint(" b", said)) })
		}
		if code := w.end(); code != 0 {
			c.Errorf("got the exit code %d", code)
		}
	})
	c.Run(t, "OB-9 --watch ends when the credentials have expired and no login helps", func(c *C) {
		c.OnlyInBubble("the server has to refuse")
		wire := &Wire{base: c.info.HTTPClient.Transport}
		c.info.HTTPClient = &http.Client{Transport: wire}
		w := c.watchStatus(c.one())
		c.Create("a", nil)
		c.WaitFor("the object", func() bool { return strings.Contains(w.out.String(), " a ") })
		wire.Fault(func(*Request) (*http.Response, error) {
			return Answer(http.StatusUnauthorized, "Unauthorized", "the token has expired"), nil
		})
		wire.Drop()
		if code := <-w.done; code != 1 || !strings.Contains(w.errs.String(), "myoperator status: ") && !strings.Contains(w.errs.String(), "status: ") {
			c.Errorf("got the exit code %d and %q", code, w.errs.String())
		}
	})
	c.Run(t, "OB-9 --watch ends when its output is closed", func(c *C) {
		c.OnlyInBubble("it waits")
		before := kopf.DefaultRegistry()
		defer kopf.SetDefaultRegistry(before)
		kopf.SetDefaultRegistry(c.one())
		c.Create("a", nil)
		var errs lockedBuffer
		code := kopf.Command(c.Context(), []string{"status", "kex", "-n", c.Namespace, "-w"}, closedWriter{}, &errs)
		if code != 1 || !strings.Contains(errs.String(), "closed") {
			c.Errorf("got the exit code %d and %q", code, errs.String())
		}
	})
	c.Run(t, "OB-4 --watch shows pauses that begin and end meanwhile", func(c *C) {
		c.OnlyInBubble("it waits")
		k := c.meet()
		w := c.watchStatus(c.one())
		states := func() (all []string) {
			for _, line := range strings.Split(strings.TrimSpace(w.out.String()), "\n")[1:] {
				all = append(all, strings.Fields(line)[2])
			}
			return all
		}
		c.Create("a", map[string]any{"metadata": handledBefore(`{}`, nil), "spec": map[string]any{"x": 1}})
		c.Pass(time.Minute)
		k.sit("boss", rival(100, 3600))
		c.Pass(time.Minute)
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Pass(time.Minute)
		k.sit("boss", nil)
		c.Pass(time.Minute)
		c.Patch("a", spec(map[string]any{"x": 3}))
		c.Pass(time.Minute)
		c.same("the states", []string{"Changed", "Paused", "Changed"}, states())
		w.end()
	})
	c.Run(t, "OB-8 a peering object that is not there is asked for once, and not for each object", func(c *C) {
		c.OnlyInBubble("the requests are counted")
		wire := &Wire{base: c.info.HTTPClient.Transport}
		c.meet()
		for i := range 100 {
			c.Create(fmt.Sprint("a", i), nil)
		}
		c.info.HTTPClient = &http.Client{Transport: wire}
		code, table, stderr := c.inspect(c.Context(), c.one(), "status", "kex", "-n", c.Namespace, "--peering", "missing")
		if n := len(wire.Requests()); code != 0 || n > 20 || strings.Count(table, "\n") != 101 || strings.Count(stderr, `there is no peering object "missing"`) != 1 {
			c.Errorf("got %d requests for 100 objects, and %d: %s%s", n, code, table, stderr)
		}
	})
	c.Run(t, "OB-8 --watch reports once that a peering object is not there", func(c *C) {
		c.OnlyInBubble("it waits")
		c.meet()
		w := c.watchStatus(c.one(), "--peering", "missing")
		c.Create("a", nil)
		for i := range 3 {
			c.Pass(time.Minute)
			c.Patch("a", spec(map[string]any{"x": i}))
		}
		c.Pass(time.Minute)
		if n := strings.Count(w.errs.String(), `there is no peering object "missing"`); n != 1 {
			c.Errorf("it was reported %d times, want once: %s", n, w.errs.String())
		}
		w.end()
	})
}

// statusWatching is a running command status --watch.
type statusWatching struct {
	out, errs lockedBuffer
	done      chan int
	stop      context.CancelFunc
}

// watchStatus starts the command status --watch.
func (c *C) watchStatus(r *kopf.Registry, args ...string) *statusWatching {
	c.changesProcess()
	w := &statusWatching{done: make(chan int, 1)}
	ctx, stop := context.WithCancel(c.Context())
	w.stop = stop
	before := kopf.DefaultRegistry()
	c.Cleanup(func() { kopf.SetDefaultRegistry(before) })
	kopf.SetDefaultRegistry(r)
	go func() {
		w.done <- kopf.Command(ctx, append([]string{"status", "kex", "-n", c.Namespace, "-w"}, args...), &w.out, &w.errs)
	}()
	return w
}

// end stops the command, and returns its exit code.
func (w *statusWatching) end() int {
	w.stop()
	return <-w.done
}

// closedWriter accepts no writes.
type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }
