package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves that operators limit their rate of requests, in 3-admission-auth-client.md.

var _ = Suite("client_rate_limit", func(t *testing.T, c *C) {
	// patches handles some new objects, and returns the times of their patches since the first one.
	patches := func(c *C, objects int, adjust ...func(*kopf.Operator)) (*Running, []time.Duration) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r, adjust...)
		c.Pass(time.Minute) // until the burst is available again after the start
		for n := range objects {
			c.Create(fmt.Sprint("a", n), nil)
		}
		c.WaitFor("the handling", func() bool { return len(op.Wire.Writes()) == objects })
		var times []time.Duration
		for _, req := range op.Wire.Writes() {
			times = append(times, req.Time.Sub(op.Wire.Writes()[0].Time))
		}
		return op, times
	}
	c.Run(t, "AC-83 what is too much in a second waits", func(c *C) {
		c.OnlyInBubble("it counts the milliseconds")
		_, times := patches(c, 50, func(op *kopf.Operator) {
			op.Settings.Networking.RequestRate, op.Settings.Networking.RequestBurst = 10, 5
		})
		for i, at := range times {
			if want := time.Duration(max(i-4, 0)) * 100 * time.Millisecond; at != want {
				c.Errorf("patch %d was sent after %s, want %s", i, at, want)
			}
		}
	})
	c.Run(t, "AC-83 it is told when requests wait", func(c *C) {
		c.OnlyInBubble("it counts the milliseconds")
		op, _ := patches(c, 50, func(op *kopf.Operator) {
			op.Settings.Networking.RequestRate, op.Settings.Networking.RequestBurst = 10, 5
		})
		if lines := op.Logs.Find("Throttling requests to the API server"); len(lines) != 1 || lines[0].Level != slog.LevelWarn || lines[0].Attrs["delay"] != "1.1s" {
			c.Errorf("got the lines %+v", lines)
		}
	})
	for name, adjust := range map[string]func(*kopf.Operator){
		"by default":      func(*kopf.Operator) {},
		"without a limit": func(op *kopf.Operator) { op.Settings.Networking.RequestRate = 0 },
	} {
		c.Run(t, "AC-83 ordinary work is not slowed "+name, func(c *C) {
			c.OnlyInBubble("it counts the milliseconds")
			if s := kopf.NewSettings().Networking; s.RequestRate != 1000 || s.RequestBurst != 20000 || s.MaxInFlight != 64 {
				c.Errorf("the defaults are %+v", s)
			}
			_, times := patches(c, 500, adjust)
			if last := times[len(times)-1]; last > 0 {
				c.Errorf("the last patch was sent after %s", last)
			}
		})
	}
	c.Run(t, "functions that take their time hold up no other object", func(c *C) {
		release := make(chan struct{})
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("sub", func(context.Context, *kopf.Change) error { return nil }, nil)
			err := ch.Execute(ctx)
			if strings.HasPrefix(ch.Name(), "slow") {
				<-release
			}
			return errors.Join(err, ready(ctx, ch))
		}, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Networking.MaxInFlight = 1 })
		c.Pass(time.Second) // after the initial list, which would be sorted by name
		for n := range 10 {
			c.Create(fmt.Sprint("slow", n), nil)
		}
		c.Create("quick", nil)
		handled := c.isReady
		c.WaitFor("the quick object", func() bool { return handled("quick") })
		if handled("slow0") {
			c.Errorf("the slow object was quick")
		}
		close(release)
		c.WaitFor("the slow objects", func() bool { return handled("slow0") && handled("slow9") })
		op.Stop()
	})
	// patience refuses the first patch with a Retry-After, and returns the times of the patches of two objects.
	patience := func(c *C, wish string) map[string][]time.Duration {
		r := &kopf.Registry{}
		var refused atomic.Int64
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			for ch.Name() == "b" && refused.Load() == 0 {
				time.Sleep(time.Millisecond) // it comes after the refusal
			}
			time.Sleep(time.Millisecond) // until the client has read the response, in a bubble
			return ready(ctx, ch)
		}, named("create"))
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if req.Method != http.MethodPatch || refused.Add(1) > 1 {
				return nil, nil
			}
			resp := Answer(429, "TooManyRequests", "slow down")
			resp.Header.Set("Retry-After", wish)
			return resp, nil
		}))
		c.Pass(time.Second)
		began := time.Now()
		c.Create("a", nil)
		c.Create("b", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") && c.isReady("b") })
		sent := map[string][]time.Duration{}
		for _, req := range op.Wire.Writes() {
			name := req.Path[strings.LastIndexByte(req.Path, '/')+1:]
			sent[name] = append(sent[name], req.Time.Sub(began).Truncate(time.Second))
		}
		return sent
	}
	for wish, want := range map[string]time.Duration{
		"7": 7 * time.Second, "31536000": 10 * time.Minute, "999999": 10 * time.Minute, "Fri, 31 Dec 2100 23:59:59 GMT": 10 * time.Minute,
	} {
		c.Run(t, "AC-86 while the server asks for patience, all requests wait, but not for ever: "+wish, func(c *C) {
			c.OnlyInBubble("it counts the seconds")
			want := map[string][]time.Duration{"a": {0, want}, "b": {want}}
			if diff := cmp.Diff(want, patience(c, wish)); diff != "" {
				c.Errorf("the patches (-want +got):\n%s", diff)
			}
		})
	}
})
