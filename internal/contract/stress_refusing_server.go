package contract

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves that an operator sends few requests to a server that refuses all of them, regardless of the number of objects, and recovers soon
// after the server. The limits are for all requests that the server gets.

var _ = Suite("stress_refusing_server", func(t *testing.T, c *C) {
	for name, refusal := range map[string]func() *http.Response{
		"429":                    func() *http.Response { return Answer(429, "TooManyRequests", "slow down") },
		"429 with a wish":        func() *http.Response { return wishing(429, "1") },
		"503":                    func() *http.Response { return Answer(503, "ServiceUnavailable", "not now") },
		"503 with a wish":        func() *http.Response { return wishing(503, "1") },
		"429 with a longer wish": func() *http.Response { return wishing(429, "90") },
	} {
		c.Run(t, "a server that refuses everything from the start is left in peace: "+name, func(c *C) { proveRefusedStart(c, refusal) })
		c.Run(t, "a server that refuses everything at rest is left in peace: "+name, func(c *C) { proveRefusedRest(c, refusal) })
		c.Run(t, "a server that refuses everything amid the work is left in peace: "+name, func(c *C) { proveRefusedWork(c, refusal) })
	}
	c.Run(t, "a refusal of all that is under way costs seconds", proveShortRefusal)
	c.Run(t, "an operator that is refused before it knows the resources ends soon", proveRefusedDiscovery)
	c.Run(t, "who does not wait any more takes nobody's turn", proveTurns)
	c.Run(t, "what was saved before a pause is not spent after it", proveSavings)
	c.Run(t, "an extension that is down slows nothing down", proveExtension)
})

// wishing returns a refusal with a Retry-After.
func wishing(code int, seconds string) *http.Response {
	resp := Answer(code, http.StatusText(code), "slow down")
	resp.Header.Set("Retry-After", seconds)
	return resp
}

// outage refuses all requests for a time, once it has begun.
type outage struct {
	refusal    func() *http.Response
	listing    bool // whether it begins with the first list of handled objects
	begin, end atomic.Int64
}

func (o *outage) start(length time.Duration) {
	o.end.Store(time.Now().Add(length).UnixNano())
	o.begin.Store(time.Now().UnixNano())
}

func (o *outage) fault(req *Request) (*http.Response, error) {
	if o.listing && o.begin.Load() == 0 && strings.Contains(req.Path, "/kopfexamples?") {
		o.start(refusedTime)
	}
	if at := req.Time.UnixNano(); o.begin.Load() != 0 && at >= o.begin.Load() && at < o.end.Load() {
		time.Sleep(100 * time.Millisecond) // so that no others come in the meantime
		return o.refusal(), nil
	}
	return nil, nil
}

// refusedObjects is the number of objects, which is above the limits for requests.
func refusedObjects() int { return proof.Rounds(200, 1000) }

const (
	refusedTime = time.Hour
	// refusedRequests and refusedStreams limit the requests in an hour of refusals. The former is for all objects together, including requests in
	// progress at the start, and the latter for the three streams together.
	refusedRequests = 64 + 80
	refusedStreams  = 3 * 80
	// refusedReturn is the time for a full recovery after such an hour.
	refusedReturn = 5 * time.Minute
)

// refused starts an operator of three resources.
func refused(c *C, o *outage, handled *atomic.Int64) *Running {
	r := &kopf.Registry{}
	for i, selector := range []kopf.Selector{Examples, "kopfstatusexamples.v1.kopf.dev", "v1/configmaps"} {
		r.OnUpdate(selector, func(ctx context.Context, ch *kopf.Change) error {
			handled.Add(1)
			return nil
		}, named(kopf.HandlerID(fmt.Sprint("update", i))))
		r.OnCreate(selector, func(ctx context.Context, ch *kopf.Change) error {
			handled.Add(1)
			return nil
		}, named(kopf.HandlerID(fmt.Sprint("create", i))))
	}
	return c.Operator(r, wired(o.fault))
}

// judge checks the number of requests that the server got during the refusals, and that they became less and less frequent.
func (o *outage) judge(c *C, op *Running) {
	c.Helper()
	requests, streams, late := 0, 0, 0
	for _, req := range op.Wire.Requests() {
		at := req.Time.UnixNano()
		switch {
		case at < o.begin.Load() || at >= o.end.Load():
		case strings.Contains(req.Path, "watch=true"):
			streams++
		default:
			if requests++; at >= o.begin.Load()+int64(refusedTime/2) {
				late++
			}
		}
	}
	c.Logf("%d requests and %d for streams while all were refused, %d of the former in the second half", requests, streams, late)
	if requests == 0 || requests > refusedRequests || streams > refusedStreams || late > 31 || late == 0 {
		c.Errorf("%d requests and %d for streams were made while all were refused, %d of the former in the second half; want 1 to %d, at most %d, and 31",
			requests, streams, late, refusedRequests, refusedStreams)
	}
}

// returns waits until the condition holds, and checks that this takes no more than the time limit after the outage.
func (o *outage) returns(c *C, what string, condition func() bool) {
	c.Helper()
	c.WaitFor(what, condition)
	took := time.Duration(time.Now().UnixNano() - o.end.Load())
	c.Logf("%s: %s after the outage", what, took)
	if took > refusedReturn {
		c.Errorf("%s: it has taken %s after the outage, want %s at most", what, took, refusedReturn)
	}
}

func proveRefusedStart(c *C, refusal func() *http.Response) {
	c.OnlyInBubble("it takes an hour")
	createMany(c, refusedObjects())
	var handled atomic.Int64
	o := &outage{refusal: refusal, listing: true}
	op := refused(c, o, &handled)
	o.returns(c, "all objects are handled", func() bool { return handled.Load() >= int64(refusedObjects()) })
	o.judge(c, op)
}

// proveShortRefusal refuses the current requests of many objects, for a second.
func proveShortRefusal(c *C) {
	c.OnlyInBubble("it counts the seconds")
	var handled atomic.Int64
	o := &outage{refusal: func() *http.Response { return Answer(429, "TooManyRequests", "slow down") }}
	op := refused(c, o, &handled)
	c.Pass(time.Minute)
	o.start(time.Second)
	createMany(c, 100)
	c.WaitFor("all objects are stored as handled", func() bool {
		for _, body := range c.List() {
			if _, ok := body.Annotation(diffBase); !ok {
				return false
			}
		}
		return true
	})
	if took := time.Duration(time.Now().UnixNano() - o.end.Load()); took > 30*time.Second {
		c.Errorf("it has taken %s", took)
	}
	if n := len(op.Wire.Writes()); n > 200 {
		c.Errorf("%d requests were made for 100 objects", n)
	}
}

func proveRefusedDiscovery(c *C) {
	c.OnlyInBubble("it takes a minute")
	r := &kopf.Registry{}
	r.OnCreate(Examples, ready, named("create"))
	wire := &Wire{base: c.transport()}
	wire.Fault(func(*Request) (*http.Response, error) { return Answer(429, "TooManyRequests", "slow down"), nil })
	op := &kopf.Operator{Registry: r, Namespaces: []string{c.Namespace}, Connection: c.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
	op.Connection.HTTPClient = &http.Client{Transport: wire}
	began := time.Now()
	if err := op.Run(c.Context()); kopf.StatusCode(err) != 429 {
		c.Errorf("the operator has ended with %v", err)
	}
	if took, n := time.Since(began), len(wire.Requests()); n > 10 || took > 2*time.Minute {
		c.Errorf("it has taken %s and %d requests", took, n)
	}
}

// createMany creates objects with short names.
func createMany(c *C, count int) {
	for n := range count {
		c.Create(fmt.Sprint("a", n), nil)
	}
}

func proveRefusedRest(c *C, refusal func() *http.Response) {
	c.OnlyInBubble("it takes an hour")
	createMany(c, refusedObjects())
	var handled atomic.Int64
	o := &outage{refusal: refusal}
	op := refused(c, o, &handled)
	c.WaitFor("all objects are handled", func() bool { return handled.Load() >= int64(refusedObjects()) })
	c.Pass(time.Minute)
	o.start(refusedTime)
	op.Wire.Drop()
	c.Pass(time.Second)
	c.Patch("a0", spec(map[string]any{"a": 1}))
	c.Pass(refusedTime - time.Second)
	o.returns(c, "the change is handled", func() bool { return handled.Load() > int64(refusedObjects()) })
	// Only streams remain, so there are fewer requests than during the work.
	requests := 0
	for _, req := range op.Wire.Requests() {
		if at := req.Time.UnixNano(); at >= o.begin.Load() && at < o.end.Load() {
			requests++
		}
	}
	if requests > refusedRequests+refusedStreams {
		c.Errorf("%d requests were made while all were refused", requests)
	}
}

func proveRefusedWork(c *C, refusal func() *http.Response) {
	c.OnlyInBubble("it takes an hour")
	var handled atomic.Int64
	o := &outage{refusal: refusal}
	op := refused(c, o, &handled)
	c.Pass(time.Minute)
	createMany(c, refusedObjects())
	c.WaitFor("all objects are created", func() bool { return handled.Load() >= int64(refusedObjects()) })
	c.Pass(time.Minute)
	o.start(refusedTime)
	for n := range refusedObjects() {
		c.Patch(fmt.Sprint("a", n), spec(map[string]any{"a": 1}))
	}
	c.Pass(refusedTime)
	stored := func() bool {
		for _, body := range c.List() {
			if base, _ := body.Annotation(diffBase); !strings.Contains(base, `{"a":1}`) {
				return false
			}
		}
		return true
	}
	o.returns(c, "all changes are stored as handled", stored)
	o.judge(c, op)
	if got := handled.Load(); got != 2*int64(refusedObjects()) {
		c.Errorf("the handlers were called %d times, want %d", got, 2*refusedObjects())
	}
}

// client returns a client with these settings, and its wire.
func (c *C) client(s kopf.NetworkingSettings) (*kopf.Client, *Wire) {
	c.Helper()
	wire := &Wire{base: c.transport()}
	info := c.ConnectionInfo()
	info.HTTPClient = &http.Client{Transport: wire}
	client, err := kopf.NewClient(info, &s)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(wire.CloseIdleConnections)
	return client, wire
}

func proveTurns(c *C) {
	c.OnlyInBubble("it counts the milliseconds")
	client, _ := c.client(kopf.NetworkingSettings{RequestRate: 1, RequestBurst: 1})
	c.Create("a", nil)
	get := func(ctx context.Context) error { return client.Get(ctx, c.Ref("a"), &kopf.Body{}, nil) }
	if err := get(c.Context()); err != nil {
		c.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if err := get(ctx); err == nil {
				c.Error("the request was made at once")
			}
		})
	}
	group.Wait()
	if err := get(c.Context()); err != nil {
		c.Fatal(err)
	}
	if took := time.Since(began); took != time.Second {
		c.Errorf("the request was made after %s, want 1s", took)
	}
}

func proveSavings(c *C) {
	c.OnlyInBubble("it counts the milliseconds")
	c.Create("a", nil)
	client, wire := c.client(kopf.NetworkingSettings{RequestRate: 10, RequestBurst: 100, ErrorBackoffs: []time.Duration{time.Second}})
	if err := client.Get(c.Context(), c.Ref("a"), &kopf.Body{}, nil); err != nil { // it discovers the kind, too
		c.Fatal(err)
	}
	before := len(wire.Requests())
	c.Pass(time.Minute) // until the burst is fully available
	var first atomic.Bool
	wire.Fault(func(*Request) (*http.Response, error) {
		if first.CompareAndSwap(false, true) {
			return wishing(429, "7"), nil
		}
		return nil, nil
	})
	began := time.Now()
	var group sync.WaitGroup
	for n := range 50 {
		group.Go(func() {
			time.Sleep(time.Duration(n) * time.Millisecond) // after the refusal, except for the first one
			if err := client.Get(c.Context(), c.Ref("a"), &kopf.Body{}, nil); err != nil {
				c.Error(err)
			}
		})
	}
	group.Wait()
	var times []time.Duration
	for _, req := range wire.Requests()[before:] {
		times = append(times, req.Time.Sub(began))
	}
	for i, at := range times[1:] {
		if at < 7*time.Second || i > 0 && at-times[i] < 100*time.Millisecond {
			c.Errorf("request %d was made after %s, %s after the one before", i+1, at, at-times[i])
		}
	}
	if last := times[len(times)-1]; last > 15*time.Second {
		c.Errorf("the last request was made after %s", last)
	}
	if len(times) != 51 {
		c.Errorf("%d requests were made, want 51", len(times))
	}
}

func proveExtension(c *C) {
	c.OnlyInBubble("it counts the milliseconds")
	c.Create("a", nil)
	client, wire := c.client(kopf.NetworkingSettings{RequestRate: 1000, RequestBurst: 1000})
	wire.Fault(func(req *Request) (*http.Response, error) {
		if strings.HasSuffix(req.Path, "/down") {
			return Answer(503, "ServiceUnavailable", "the extension is down"), nil
		}
		return nil, nil
	})
	began := time.Now()
	for range 20 {
		for range 2 {
			if err := client.Get(c.Context(), c.Ref("down"), &kopf.Body{}, nil); kopf.StatusCode(err) != 503 {
				c.Error(err)
			}
		}
		if err := client.Get(c.Context(), c.Ref("a"), &kopf.Body{}, nil); err != nil {
			c.Error(err)
		}
	}
	if took := time.Since(began); took > 0 {
		c.Errorf("it has taken %s", took)
	}
}
