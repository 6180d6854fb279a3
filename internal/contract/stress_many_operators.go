package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite tries to find several operators that work at the same time. They start, stop and crash at random times, on slow connections, while
// objects are created and changed. Each seed is another sequence of events.

const rivalLag = 100 * time.Millisecond // the maximum for a request, its response, or an event

var _ = Suite("stress_many_operators", func(t *testing.T, c *C) {
	for seed := range proof.Rounds(5, 25) {
		c.Run(t, fmt.Sprintf("no handler starts where a living record is known that blocks it, seed %d", seed), func(c *C) {
			c.OnlyInBubble("the time is told exactly")
			compete(c, rand.New(rand.NewPCG(uint64(seed), 1)))
		})
	}
})

// contest is one sequence of events.
type contest struct {
	*C
	began time.Time

	mu       sync.Mutex // guards following
	random   *rand.Rand
	records  map[string][]life // on the server, by the identity
	notes    []string
	failures []string
}

// life is the time of a record on the server: until it is removed, or would expire without a renewal.
type life struct {
	priority   int
	begin, end time.Time
}

// contestant is an operator with the information that it got from the server.
type contestant struct {
	*contest
	id       string
	priority int
	next     http.RoundTripper

	mu      sync.Mutex // guards following
	dead    bool       // whether it has crashed: its calls do not count anymore
	version int
	known   map[string]map[string]any // the records of the other operators
	told    time.Time
}

func (x *contest) rand(most time.Duration) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Duration(x.random.Int64N(int64(most)))
}

func (x *contest) chance(percent int) bool { return x.rand(100) < time.Duration(percent) }

// RoundTrip delays a request and its response, and records the information about the peers.
func (o *contestant) RoundTrip(req *http.Request) (*http.Response, error) {
	peering := strings.Contains(req.URL.Path, "kopfpeerings")
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body) // it is in memory
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	pass(req.Context(), o.rand(rivalLag))
	resp, err := o.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if peering && req.Method == http.MethodPatch && resp.StatusCode == http.StatusOK {
		o.written(body)
	}
	if strings.Contains(req.URL.RawQuery, "watch=true") {
		resp.Body = o.slow(resp.Body, peering)
		return resp, nil
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // already read
	if err != nil {
		return nil, err
	}
	pass(req.Context(), o.rand(rivalLag))
	if req.Context().Err() != nil {
		return nil, req.Context().Err()
	}
	if peering {
		o.learn(data)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// slow delays the lines of a stream, in their order.
func (o *contestant) slow(body io.ReadCloser, peering bool) io.ReadCloser {
	r, w := io.Pipe()
	var group sync.WaitGroup
	type event struct {
		line []byte
		due  time.Time
	}
	events := make(chan event, 10000)
	group.Go(func() {
		defer close(events)
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			events <- event{line, time.Now().Add(o.rand(rivalLag))}
		}
	})
	group.Go(func() {
		for e := range events {
			time.Sleep(time.Until(e.due)) // the delay of an event
			if peering {
				o.learn(e.line)
			}
			_, _ = w.Write(e.line) // the reader may be closed
		}
		_ = w.Close() // it never fails
	})
	return &laggingBody{r, body, &group}
}

// written records the life of the own record on the server.
func (o *contestant) written(patch []byte) {
	var p struct {
		Status map[string]*struct {
			Priority, Lifetime int
			Lastseen           time.Time
		}
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		o.Error(err)
	}
	record, own := p.Status[o.id]
	o.contest.mu.Lock()
	defer o.contest.mu.Unlock()
	lives := o.records[o.id]
	now := time.Now()
	switch {
	case !own:
	case record == nil:
		if len(lives) > 0 {
			lives[len(lives)-1].end = now
		}
	default:
		end := record.Lastseen.Add(time.Duration(record.Lifetime) * time.Second)
		if len(lives) > 0 && lives[len(lives)-1].end.After(now) {
			lives[len(lives)-1].end = end
		} else {
			o.records[o.id] = append(lives, life{o.priority, now, end})
		}
	}
}

// learn records the information that the operator gets at this moment.
func (o *contestant) learn(data []byte) {
	var doc struct {
		Object *json.RawMessage
		Items  []json.RawMessage
	}
	if json.Unmarshal(data, &doc) != nil {
		return
	}
	switch {
	case doc.Object != nil:
		data = *doc.Object
	case doc.Items != nil && len(doc.Items) == 0:
		return
	case doc.Items != nil:
		data = doc.Items[0]
	}
	var object struct {
		Metadata struct{ ResourceVersion string }
		Status   map[string]map[string]any
	}
	if json.Unmarshal(data, &object) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	version, _ := strconv.Atoi(object.Metadata.ResourceVersion)
	if version <= o.version {
		return
	}
	o.version, o.known, o.told = version, object.Status, time.Now()
}

// starts records that a handler starts, and fails if it must not.
func (o *contestant) starts(what string) {
	now := time.Now()
	o.mu.Lock()
	known, told, dead := o.known, o.told, o.dead
	o.mu.Unlock()
	if dead {
		return
	}
	for id, record := range known {
		priority, _ := record["priority"].(float64)
		lifetime, _ := record["lifetime"].(float64)
		seen, _ := record["lastseen"].(string)
		at, _ := time.Parse(time.RFC3339, seen)
		alive := at.Add(time.Duration(lifetime) * time.Second).After(now)
		if id != o.id && alive && int(priority) >= o.priority && now.After(told) {
			o.fail("%s starts in %s (%d) at %s, which knows since %s of %s (%v)", what, o.id, o.priority, now.Sub(o.began), told.Sub(o.began), id, record)
		}
	}
	o.contest.mu.Lock()
	defer o.contest.mu.Unlock()
	o.notes = append(o.notes, fmt.Sprintf("%s %s %s", now.Sub(o.began), o.id, what))
	for id, lives := range o.records {
		for _, l := range lives {
			// Opening a stream takes a list, its response, a request and an event.
			if id != o.id && l.priority >= o.priority && now.After(l.begin.Add(4*rivalLag)) && now.Before(l.end) {
				o.failures = append(o.failures, fmt.Sprintf("%s starts in %s (%d) at %s, beside %s (%d) since %s", what, o.id, o.priority, now.Sub(o.began), id, l.priority, l.begin.Sub(o.began)))
			}
		}
	}
}

func (x *contest) fail(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failures = append(x.failures, fmt.Sprintf(format, args...))
}

// registry returns handlers of all kinds, which take some time, and sometimes fail.
func (o *contestant) registry() *kopf.Registry {
	r := &kopf.Registry{}
	change := func(name string) kopf.ChangeFunc {
		return func(ctx context.Context, ch *kopf.Change) error {
			o.starts(name)
			pass(ctx, o.rand(300*time.Millisecond))
			if ch.Retry < 3 && o.chance(20) {
				return kopf.Temporary(errOops, o.rand(2*time.Second))
			}
			return nil
		}
	}
	for _, name := range []string{"first", "second"} {
		r.OnCreate(Examples, change(name), named(kopf.HandlerID(name)))
		r.OnUpdate(Examples, change(name), named(kopf.HandlerID(name)))
	}
	r.OnEvent(Examples, func(ctx context.Context, _ *kopf.WatchEvent) error {
		o.starts("event")
		pass(ctx, o.rand(50*time.Millisecond))
		return nil
	}, &kopf.EventOptions{ID: "event"})
	r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
		o.starts("daemon")
		<-ctx.Done()
		pass(context.Background(), o.rand(100*time.Millisecond))
		return nil
	}, daemonID("daemon"))
	r.OnTimer(Examples, func(ctx context.Context, _ *kopf.Timer) error {
		o.starts("timer")
		pass(ctx, o.rand(50*time.Millisecond))
		return nil
	}, &kopf.TimerOptions{ID: "timer", Interval: 200 * time.Millisecond})
	return r
}

// live runs the life of an operator: it starts, works and ends.
func (o *contestant) live(least, more time.Duration) {
	pass(o.Context(), o.rand(2*time.Second))
	op := o.Operator(o.registry(), as(o.id), func(op *kopf.Operator) {
		o.next = op.Connection.HTTPClient.Transport
		op.Connection.HTTPClient = &http.Client{Transport: o}
		op.Settings.Peering.Priority = o.priority
		op.Settings.Peering.Lifetime = 12 * time.Second
		op.Settings.Execution.FlushAfter = o.rand(time.Second)
	})
	pass(o.Context(), least+o.rand(more))
	if o.chance(30) {
		o.mu.Lock()
		o.dead = true
		o.mu.Unlock()
		op.Crash()
	} else if err := op.Err(); err != nil {
		o.fail("%s has failed: %v", o.id, err)
	}
}

func compete(c *C, random *rand.Rand) {
	table := c.meet()
	x := &contest{C: c, random: random, records: make(map[string][]life), began: time.Now()}
	var group sync.WaitGroup
	for i := range 2 + random.IntN(2) {
		group.Go(func() {
			for life := range 3 {
				o := &contestant{contest: x, id: fmt.Sprintf("op%d-%d", i, life), priority: int(x.rand(3))}
				o.live(0, 20*time.Second)
			}
		})
	}
	for n := range 20 {
		time.Sleep(x.rand(2 * time.Second))
		c.Create(fmt.Sprintf("a%d", n), nil)
		if n > 0 {
			c.Patch(fmt.Sprintf("a%d", int(x.rand(time.Duration(n)))), sized(n))
		}
	}
	group.Wait()
	last := &contestant{contest: x, id: "last", priority: 5}
	group.Go(func() { last.live(time.Minute, time.Second) })
	for n := range 20 {
		name := fmt.Sprintf("a%d", n)
		c.WaitFor("the end of the handling of "+name, func() bool {
			_, ok := c.Get(name).Annotation(diffBase)
			return ok && !slices.ContainsFunc(records(c.Get(name)), func(id string) bool { return id == "first" || id == "second" })
		})
	}
	group.Wait()
	if got := table.seats("default"); len(got) > 1 {
		c.Errorf("the records %q are left", got)
	}
	for i, failure := range x.failures {
		if i < 5 {
			c.Error(failure)
		}
	}
	if len(x.notes) < 100 {
		c.Errorf("only %d handlers were called", len(x.notes))
	}
}
