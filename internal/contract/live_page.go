package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what the live page of a running operator shows, and who may read it.

var _ = Suite("live_page", func(t *testing.T, c *C) {
	livePageShows(t, c)
	livePageHour(t, c)
	livePageObjects(t, c)
	livePageAccess(t, c)
})

// paged gives an operator an endpoint with the live page.
func paged(p *pipe, adjust ...func(*kopf.PageSettings)) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		op.LivenessEndpoint, op.LivenessListener = "http://operator.example/healthz", p
		op.Settings.Process.Page.Enabled = true
		for _, f := range adjust {
			f(&op.Settings.Process.Page)
		}
	}
}

// page is the JSON of the page.
type page struct {
	Version   string
	Ready     bool
	PausedFor string
	Handlers  []struct {
		ID                         string
		Running, Succeeded, Failed int
		P50Seconds                 float64
	}
	Resources []struct {
		Resource                           string
		Objects, Working, Waiting, Delayed int
	}
	Streams []struct {
		Resource, Namespace, Error string
		Open, Listed               bool
		LastEvent                  time.Time
		Restarts                   int
	}
	Requests []struct {
		Verb, Code string
		Count      int
	}
	Calls, Retries, Running, Records []pageRow
	State, Resource                  string
	Operator, Cluster                string
	Objects                          []struct {
		Object          struct{ Kind, Namespace, Name string }
		Resource, State string
	}
	Notes     []string
	Decisions []struct {
		Decision, Cause string
		Handlers        []struct{ Handler, Verdict string }
	}
	Omitted map[string]int
	raw     string
}

// pageRow is a call, or a handler with a due retry.
type pageRow struct {
	Object      struct{ Kind, Namespace, Name string }
	Handler     string
	Attempts    int
	Since       time.Time
	NextAttempt time.Time
	Error       string
	Stack       string
}

// get sends a request with headers, and returns the response.
func (p *pipe) get(path string, headers ...string) answer {
	ours, theirs := net.Pipe()
	defer ours.Close()
	select {
	case p.conns <- theirs:
	case <-p.closed:
		return answer{}
	}
	request := "GET " + path + " HTTP/1.1\r\nConnection: close\r\n"
	if !strings.Contains(strings.Join(headers, " "), "Host:") {
		headers = append(headers, "Host: localhost")
	}
	go fmt.Fprintf(ours, "%s%s\r\n\r\n", request, strings.Join(headers, "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(body), resp.Header}
}

// page requests the JSON of the page.
func (p *pipe) page(c *C, path string) page {
	c.Helper()
	a := p.get(path)
	got := page{raw: a.body}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.code != 200 {
		c.Fatalf("%s: %s: %v", path, a, err)
	}
	return got
}

func livePageShows(t *testing.T, c *C) {
	c.Run(t, "OB-18 the page is off by default", func(c *C) {
		p := newPipe()
		c.Operator(&kopf.Registry{}, probed(p, "http://0.0.0.0/healthz"))
		for _, path := range []string{"/", "/api/v1/state", "/api/v1/events"} {
			wantAnswer(c, path, p.get(path), "404 404: Not Found")
		}
	})
	c.Run(t, "OB-18 the page is served alongside the probes and the metrics", func(c *C) {
		p := newPipe()
		c.Operator(&kopf.Registry{}, paged(p))
		if a := p.get("/"); a.code != 200 || !strings.Contains(a.body, "<title>Operator</title>") {
			c.Errorf("the page: %s", a)
		}
		wantAnswer(c, "the probes", p.get("/healthz", "Host: x"), "200 {}")
		if a := p.get("/metrics", "Host: x"); a.code != 200 {
			c.Errorf("the metrics: %s", a)
		}
	})
	c.Run(t, "OB-20 it shows streams, queues, handlers, running calls, and objects in retry", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			switch ch.Name() {
			case "slow":
				return sleep(ctx, time.Hour)
			case "bad":
				return kopf.Temporary(errors.New("the database is down"), time.Hour)
			case "worse":
				return kopf.Temporary(errors.New("no"), 10*time.Minute)
			}
			return nil
		}, named("create"))
		r.OnUpdate(Examples, ready, named("update"))
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return kopf.Temporary(errors.New("late"), 30*time.Minute) }, &kopf.TimerOptions{ID: "timer", Interval: time.Hour, WithoutFinalizer: true, Labels: kopf.Match{"timed": "yes"}})
		r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error {
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true})
		for _, name := range []string{"slow", "bad", "worse", "good"} {
			c.Create(name, nil)
		}
		c.Create("timed", map[string]any{"metadata": map[string]any{"labels": map[string]any{"timed": "yes"}}})
		c.Operator(r, paged(p))
		c.Pass(5 * time.Second)
		got := p.page(c, "/api/v1/state")
		if got.Version != kopf.Version || !got.Ready || got.PausedFor != "" {
			c.Errorf("got %+v", got)
		}
		if len(got.Calls) != 1 || got.Calls[0].Object.Name != "slow" || got.Calls[0].Object.Kind != "KopfExample" || got.Calls[0].Handler != "create" || time.Since(got.Calls[0].Since).Round(time.Second) != 5*time.Second {
			c.Errorf("the calls are %+v", got.Calls)
		}
		if len(got.Retries) != 3 || got.Retries[0].Object.Name != "worse" || got.Retries[1].Handler != "timer" || got.Retries[2].Object.Name != "bad" ||
			got.Retries[2].Error != "the database is down" || got.Retries[2].Attempts != 1 || time.Until(got.Retries[2].NextAttempt).Round(time.Minute) != time.Hour {
			c.Errorf("in retry are %+v", got.Retries)
		}
		if len(got.Resources) != 1 || got.Resources[0].Objects != 5 || got.Resources[0].Working != 1 || got.Resources[0].Waiting != 0 || got.Resources[0].Delayed != 2 {
			c.Errorf("the resources are %+v", got.Resources)
		}
		if len(got.Streams) != 1 || !got.Streams[0].Open || !got.Streams[0].Listed || got.Streams[0].Namespace != c.Namespace || got.Streams[0].LastEvent.IsZero() {
			c.Errorf("the streams are %+v", got.Streams)
		}
		for _, h := range got.Handlers {
			if h.ID == "create" && (h.Running != 1 || h.Succeeded != 2 || h.P50Seconds <= 0) || h.ID == "daemon" && h.Running != 5 {
				c.Errorf("the handler is %+v", h)
			}
		}
		if len(got.Handlers) != 4 || len(got.Requests) == 0 {
			c.Errorf("the handlers are %+v, the requests %+v", got.Handlers, got.Requests)
		}
		c.Delete("bad")
		c.Pass(2 * time.Second)
		if got := p.page(c, "/api/v1/state"); len(got.Retries) != 2 {
			c.Errorf("an object that is gone is still in retry: %+v", got.Retries)
		}
		c.Pass(15 * time.Minute)
		if got := p.page(c, "/api/v1/state"); got.Retries[0].Object.Name != "worse" || got.Retries[0].Attempts != 2 {
			c.Errorf("after another attempt: %+v", got.Retries)
		}
	})
	c.Run(t, "OB-20 it shows what is wrong with a stream, and requests that fail", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r, paged(p))
		op.denyPatches(func(*Request) bool { return true }, func() *http.Response { return Answer(403, "Forbidden", "no rights") })
		c.Create("a", nil)
		c.Pass(time.Minute)
		got := p.page(c, "/api/v1/state")
		if len(got.Retries) != 1 || got.Retries[0].Handler != "" || !strings.Contains(got.Retries[0].Error, "no rights") {
			c.Errorf("in retry are %+v", got.Retries)
		}
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if strings.Contains(q.Path, "watch=") || q.Method == "GET" {
				return Answer(500, "InternalError", "broken"), nil
			}
			return nil, nil
		})
		op.Wire.Drop()
		c.Pass(time.Minute)
		got = p.page(c, "/api/v1/state")
		if s := got.Streams[0]; s.Open || s.Listed || !strings.Contains(s.Error, "broken") || s.Restarts == 0 {
			c.Errorf("the stream is %+v", s)
		}
	})
	c.Run(t, "OB-22 it shows nothing of what objects contain", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return kopf.Temporary(errors.New("the reason"), time.Hour) }, named("create"))
		const secret = "hunter2"
		c.Create("a", map[string]any{"spec": map[string]any{"password": secret}, "metadata": map[string]any{"annotations": map[string]any{"x": secret}, "labels": map[string]any{"y": secret}}})
		c.Operator(r, paged(p, func(s *kopf.PageSettings) { s.Stacks = true }), func(op *kopf.Operator) { op.Settings.Process.Decisions = 100 })
		c.Pass(time.Second)
		for _, path := range []string{"/api/v1/state", "/?plain", "/api/v1/objects/kopfexamples.v1.kopf.dev/" + c.Namespace + "/a?stack"} {
			if a := p.get(path); a.code != 200 || strings.Contains(a.body, secret) || !strings.Contains(a.body, "the reason") {
				c.Errorf("%s shows %s", path, a)
			}
		}
	})
	c.Run(t, "OB-23 it has no effects: looking at it makes no request, and calls nothing", func(c *C) {
		c.OnlyInBubble("it counts requests")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		c.Create("a", nil)
		op := c.Operator(r, paged(p))
		c.Pass(time.Minute)
		before := len(op.Wire.Requests())
		for range 10 {
			p.page(c, "/api/v1/state")
			p.page(c, "/api/v1/objects/KopfExample/"+c.Namespace+"/a?stack")
			p.get("/")
			c.Pass(time.Second)
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			if a := p.ask(method, "/api/v1/state"); a.code != 405 {
				c.Errorf("%s: %s", method, a)
			}
		}
		if after := len(op.Wire.Requests()); after != before {
			c.Errorf("%d requests", after-before)
		}
	})
	c.Run(t, "OB-25 events end with the operator, which does not wait for viewers", func(c *C) {
		c.OnlyInBubble("it measures the time")
		p := newPipe()
		op := c.Operator(&kopf.Registry{}, paged(p))
		done := make(chan answer)
		go func() { done <- p.get("/api/v1/events") }()
		c.Pass(10 * time.Second)
		began := time.Now()
		op.Stop()
		if a := <-done; a.code != 200 || !strings.Contains(a.body, "event: state") || time.Since(began) > 100*time.Millisecond {
			c.Errorf("after %s: %s", time.Since(began), a)
		}
	})
}

// livePageHour proves the plot of the last hour, and the title.
func livePageHour(t *testing.T, c *C) {
	c.Run(t, "DF-73 the page has the work of the last hour, and names the operator and the cluster", func(c *C) {
		c.OnlyInBubble("it takes hours")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if ch.Name() == "bad" {
				return kopf.Permanent(errOops)
			}
			return nil
		}, named("create"))
		op := c.Operator(r, paged(p))
		c.Pass(2 * time.Hour)
		for _, name := range []string{"a", "b", "bad"} {
			c.Create(name, nil)
		}
		c.Pass(time.Minute)
		var got struct {
			IntervalSeconds            int
			Waiting, Succeeded, Failed []int
		}
		history := func() string {
			a := p.get("/api/v1/history")
			if err := json.Unmarshal([]byte(a.body), &got); err != nil {
				c.Fatalf("%s: %v", a, err)
			}
			sum := func(all []int) (n int) {
				for _, one := range all {
					n += one
				}
				return n
			}
			return fmt.Sprint(got.IntervalSeconds, len(got.Waiting), len(got.Succeeded), len(got.Failed), sum(got.Succeeded), sum(got.Failed))
		}
		c.same("the last hour", "30 120 120 120 2 1", history())
		c.Pass(time.Hour)
		c.same("the next hour", "30 120 120 120 0 0", history())
		state := p.page(c, "/api/v1/state")
		if state.Operator == "" || strings.Contains(state.Operator, "/") || state.Cluster != "apiserver.local" {
			c.Errorf("the operator is %q of the cluster %q", state.Operator, state.Cluster)
		}
		op.Stop()
	})
}

func livePageObjects(t *testing.T, c *C) {
	c.Run(t, "DF-73 objects can be searched and listed, with their states", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if ch.Name() == "shop" {
				return kopf.Temporary(errOops, time.Hour)
			}
			return nil
		}, named("create"))
		c.Operator(r, paged(p))
		for _, name := range []string{"shop", "home", "workshop"} {
			c.Create(name, nil)
		}
		c.Pass(time.Minute)
		for query, want := range map[string]string{
			"": "home idle, shop delayed, workshop idle", "SHOP": "shop delayed, workshop idle", "/shop": "shop delayed",
			"kopfexample+" + c.Namespace + "/home": "home idle", "kopfexamples.v1.kopf.dev/" + c.Namespace + "/h": "home idle", "zz": "",
		} {
			var got []string
			for _, o := range p.page(c, "/api/v1/objects?q="+query).Objects {
				if got = append(got, o.Object.Name+" "+o.State); o.Object.Kind != "KopfExample" || o.Object.Namespace != c.Namespace || o.Resource != "kopfexamples.v1.kopf.dev" {
					c.Errorf("the object is %+v", o)
				}
			}
			c.same("the objects for "+query, want, strings.Join(got, ", "))
		}
		c.Delete("shop")
		c.Pass(time.Minute)
		if n := len(p.page(c, "/api/v1/objects").Objects); n != 2 {
			c.Errorf("there are %d objects, want 2", n)
		}
	})
	c.Run(t, "DF-73 an object is idle as soon as its update is handled", func(c *C) {
		c.OnlyInBubble("it is the same everywhere")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.seen", ch.Spec().Int("x"))
			return nil
		}, &kopf.ChangeOptions{ID: "update", Field: "spec.x"})
		op := c.Operator(r, paged(p))
		c.Create("a", sized(1))
		c.Pass(time.Minute)
		for size := range 2 { // the second patch soon after the first one
			c.Patch("a", sized(2+size))
			c.Pass(time.Second)
		}
		if n := len(op.Logs.Find("Updating is processed")); n != 2 {
			c.Fatalf("the update handler was called %d times", n)
		}
		if got := p.page(c, "/api/v1/objects?q=a").Objects; len(got) != 1 || got[0].State != "idle" {
			c.Errorf("got %+v", got)
		}
	})
	c.Run(t, "DF-73 an object is shown whatever the settings, with lists that are never null", func(c *C) {
		c.OnlyInBubble("it waits")
		c.Create("a", nil)
		for _, decisions := range []int{0, 10} {
			p := newPipe()
			r := &kopf.Registry{}
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
			op := c.Operator(r, paged(p, func(s *kopf.PageSettings) { s.Stacks = decisions > 0 }),
				func(op *kopf.Operator) { op.Settings.Process.Decisions = decisions })
			c.Pass(time.Second)
			for _, path := range []string{"", "?stack"} {
				got := p.page(c, "/api/v1/objects/KopfExample/"+c.Namespace+"/a"+path)
				for _, list := range []string{"running", "records", "decisions"} {
					if !strings.Contains(got.raw, `"`+list+`":[`) {
						c.Errorf("the object has no list %s: %s", list, got.raw)
					}
				}
			}
			op.Stop()
		}
	})
	c.Run(t, "OB-21 an object has its decisions, records, and running handlers with their stacks", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				return kopf.Temporary(errors.New("not yet"), time.Minute)
			}
			return waitInHandler(ctx)
		}, named("create"))
		r.OnCreate(Examples, ready, &kopf.ChangeOptions{ID: "other", Labels: kopf.Match{"env": "prod"}})
		c.Create("a", nil)
		c.Operator(r, paged(p, func(s *kopf.PageSettings) { s.Stacks = true }), func(op *kopf.Operator) { op.Settings.Process.Decisions = 100 })
		c.Pass(2 * time.Second)
		path := "/api/v1/objects/kopfexamples.v1.kopf.dev/" + c.Namespace + "/a"
		got := p.page(c, path)
		if got.State != "delayed" || len(got.Records) != 1 || got.Records[0].Error != "not yet" || got.Records[0].Attempts != 1 || len(got.Running) != 0 {
			c.Errorf("between the attempts: %s", got.raw)
		}
		if n := len(got.Decisions); n == 0 || got.Decisions[0].Decision != "nothing now: the next attempt for the creation is in 60s" || got.Decisions[n-1].Decision != "the handlers for the creation are called" ||
			fmt.Sprint(got.Decisions[n-1].Handlers) != "[{create called} {other a label does not fit}]" {
			c.Errorf("the decisions are %+v", got.Decisions)
		}
		c.Pass(time.Minute)
		got = p.page(c, path+"?stack")
		if got.State != "working" || len(got.Running) != 1 || !strings.Contains(got.Running[0].Stack, "waitInHandler") {
			c.Errorf("during an attempt: %s", got.raw)
		}
		if got = p.page(c, path); got.Running[0].Stack != "" {
			c.Errorf("a stack that was not asked for: %s", got.raw)
		}
		for _, resource := range []string{"kopfexamples", "kopfexamples.kopf.dev", "kopfexample"} {
			if got = p.page(c, "/api/v1/objects/"+resource+"/"+c.Namespace+"/a"); got.Resource != "kopfexamples.v1.kopf.dev" {
				c.Errorf("by the name %s: %s", resource, got.raw)
			}
		}
		for _, wrong := range []string{"/api/v1/objects/kopfexamples.v1.kopf.dev/" + c.Namespace + "/x", "/api/v1/objects/x/" + c.Namespace + "/a", "/api/v1/objects/kopfexamples.v1.kopf.dev/other/a"} {
			if a := p.get(wrong); a.code != 404 || !strings.Contains(a.String(), "knows no object") {
				c.Errorf("%s: %s", wrong, a)
			}
		}
	})
	c.Run(t, "OB-21 a decision about reconcile handlers alone says whether they are called", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		var fails atomic.Bool
		r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error {
			if fails.Load() {
				return kopf.Permanent(errors.New("never"))
			}
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile"})
		c.Create("a", nil)
		c.Operator(r, paged(p), func(op *kopf.Operator) { op.Settings.Process.Decisions = 100 })
		path := "/api/v1/objects/kopfexamples.v1.kopf.dev/" + c.Namespace + "/a"
		for n, want := range []string{
			"no change handler matches the object, and other handlers are called [{reconcile called}]",
			"nothing: no change handler matches the object [{reconcile has failed permanently}]",
		} {
			c.Pass(2 * time.Second)
			fails.Store(n > 0)
			c.Patch("a", spec(map[string]any{"size": n + 1}))
			c.Pass(2 * time.Second)
			c.Patch("a", map[string]any{"status": map[string]any{"seen": n}}) // changes nothing for handlers
			c.Pass(2 * time.Second)
			got := p.page(c, path)
			if text := fmt.Sprint(got.Decisions[0].Decision, " ", got.Decisions[0].Handlers); text != want {
				c.Errorf("got the decision %q, want %q", text, want)
			}
		}
	})
	c.Run(t, "OB-17 without Decisions, none are kept, and the page of an object says so", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		c.Create("a", nil)
		op := c.Operator(r, paged(p))
		op.waitLogged(c, "Creation is processed")
		got := p.page(c, "/api/v1/objects/KopfExample/"+c.Namespace+"/a?stack")
		if len(got.Decisions) != 0 || len(got.Notes) != 2 || !strings.Contains(got.Notes[0], "Settings.Process.Decisions") || !strings.Contains(got.Notes[1], "--page-stacks") {
			c.Errorf("got %s", got.raw)
		}
	})
	c.Run(t, "OB-17 decisions from before other handlers came are not taken for theirs", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		category := c.Unique("category")
		r.OnCreate(kopf.Category(category), func(context.Context, *kopf.Change) error { return nil }, named("category"))
		r.OnCreate(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), func(context.Context, *kopf.Change) error { return nil }, named("own"))
		c.Define(c.gadgets())
		c.gadget().Create("a", nil)
		c.Operator(r, paged(p), func(op *kopf.Operator) { op.Settings.Process.Decisions = 100 })
		c.Pass(time.Minute)
		c.definitions().Patch("gadgets."+c.Unique("leaf")+".dev", map[string]any{"spec": map[string]any{"names": map[string]any{"categories": []any{category}}}})
		c.Pass(time.Minute)
		c.gadget().Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Minute)
		all := p.page(c, "/api/v1/objects/Gadget/"+c.Namespace+"/a").Decisions
		if len(all) < 2 || len(all[len(all)-1].Handlers) != 0 || all[len(all)-1].Cause != "create" || len(all[1].Handlers) != 2 {
			c.Errorf("got %+v, want the first one without handlers, and the later ones with two", all)
		}
	})
	c.Run(t, "OB-17 what the prefilter drops is a decision, too", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnUpdate(Examples, ready, named("update"))
		c.Create("a", nil)
		c.Operator(r, paged(p), func(op *kopf.Operator) { op.Settings.Process.Decisions = 3 })
		c.Pass(time.Second)
		for range 5 {
			c.Patch("a", map[string]any{"status": map[string]any{"x": time.Now().String()}})
			c.Pass(time.Second)
		}
		got := p.page(c, "/api/v1/objects/KopfExample/"+c.Namespace+"/a")
		if len(got.Decisions) != 3 || got.Decisions[0].Decision != "nothing: the object is as it was last handled" || len(got.Decisions[0].Handlers) != 0 {
			c.Errorf("the decisions are %+v", got.Decisions)
		}
	})
}

// waitInHandler is a function that the test finds in a stack.
func waitInHandler(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// sleep waits until the time has passed, or the context is canceled.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func livePageAccess(t *testing.T, c *C) {
	c.Run(t, "OB-24 on other addresses than loopback, the start fails without a token", func(c *C) {
		listen := func(address string, adjust ...func(*kopf.PageSettings)) error {
			op := &kopf.Operator{Registry: &kopf.Registry{}, Settings: kopf.NewSettings(), LivenessEndpoint: "http://" + address + "/healthz", Connection: c.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
			op.Settings.Process.Page.Enabled = true
			for _, f := range adjust {
				f(&op.Settings.Process.Page)
			}
			op.LivenessListener = &addressed{newPipe(), address}
			ctx, cancel := context.WithTimeout(c.Context(), time.Second)
			defer cancel()
			return op.Run(ctx)
		}
		if err := listen("0.0.0.0:8080"); err == nil || !strings.Contains(err.Error(), "the live page can be reached from other hosts at 0.0.0.0:8080") {
			c.Errorf("without a token: %v", err)
		}
		token := filepath.Join(c.TempDir(), "token")
		if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
			c.Fatal(err)
		}
		for what, f := range map[string]func(*kopf.PageSettings){"a token": func(s *kopf.PageSettings) { s.TokenFile = token }, "reviews": func(s *kopf.PageSettings) { s.TokenReview = true }} {
			if err := listen("0.0.0.0:8080", f); err != nil {
				c.Errorf("with %s: %v", what, err)
			}
		}
		if err := listen("127.0.0.1:8080"); err != nil {
			c.Errorf("on loopback: %v", err)
		}
		if err := listen("127.0.0.1:8080", func(s *kopf.PageSettings) { s.TokenFile = token + "x" }); err == nil {
			c.Error("a token that is not there is no error")
		}
	})
	c.Run(t, "OB-24 there is no page without an endpoint, or at the path of the probes", func(c *C) {
		for endpoint, want := range map[string]string{"": "want one, such as http://127.0.0.1:8080/healthz", "http://127.0.0.1:80": `the path "/" of the liveness endpoint is one of the live page`} {
			op := &kopf.Operator{Registry: &kopf.Registry{}, Settings: kopf.NewSettings(), LivenessEndpoint: endpoint, LivenessListener: newPipe(), Connection: c.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
			op.Settings.Process.Page.Enabled = true
			ctx, cancel := context.WithTimeout(c.Context(), time.Second)
			defer cancel()
			if err := op.Run(ctx); err == nil || !strings.Contains(err.Error(), want) {
				c.Errorf("at %q: %v", endpoint, err)
			}
		}
	})
	c.Run(t, "OB-24 the API server decides by reviews, and without the right to ask there are no viewers", func(c *C) {
		p := newPipe()
		op := c.Operator(&kopf.Registry{}, paged(p, func(s *kopf.PageSettings) { s.TokenReview = true }))
		asked := map[string]string{}
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if !strings.Contains(q.Path, "reviews") {
				return nil, nil
			}
			asked[q.Path] = q.Body
			switch {
			case strings.Contains(q.Body, "forbidden"):
				return Answer(403, "Forbidden", "no rights"), nil
			case strings.Contains(q.Path, "token"):
				return reviewAnswer(map[string]any{"status": map[string]any{"authenticated": strings.Contains(q.Body, "good"), "user": map[string]any{"username": "alice"}}}), nil
			}
			return reviewAnswer(map[string]any{"status": map[string]any{"allowed": true}}), nil
		})
		for token, want := range map[string]int{"good": 200, "bad": 401, "forbidden": 503} {
			a := p.get("/api/v1/state", "Authorization: Bearer "+token)
			if a.code != want || want == 401 && !strings.Contains(a.String(), "or its account has no permission to get /kopf-page") {
				c.Errorf("with the token %s: %s, want %d", token, a, want)
			}
		}
		if !strings.Contains(asked["/apis/authorization.k8s.io/v1/subjectaccessreviews"], `"path":"/kopf-page"`) {
			c.Errorf("asked was %v", asked)
		}
		op.waitLogged(c, "Asking the API server about a token for the live page failed")
	})
	c.Run(t, "DF-84 the event stream of a viewer ends when the API server does not allow its token any more", func(c *C) {
		c.OnlyInBubble("kopf keeps a decision of the API server for a minute")
		p := newPipe()
		op := c.Operator(&kopf.Registry{}, paged(p, func(s *kopf.PageSettings) { s.TokenReview = true }))
		var revoked, down atomic.Bool
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			switch {
			case !strings.Contains(q.Path, "reviews"):
				return nil, nil
			case down.Load():
				return Answer(403, "Forbidden", "no rights"), nil
			case strings.Contains(q.Path, "token"):
				return reviewAnswer(map[string]any{"status": map[string]any{
					"authenticated": !revoked.Load(), "user": map[string]any{"username": "alice"}}}), nil
			}
			return reviewAnswer(map[string]any{"status": map[string]any{"allowed": true}}), nil
		})
		var ended atomic.Int64
		began := time.Now()
		go func() {
			p.get("/api/v1/events", "Authorization: Bearer good")
			ended.Store(int64(time.Since(began)))
		}()
		c.Pass(10 * time.Minute)
		down.Store(true)
		c.Pass(10 * time.Minute)
		if ended.Load() != 0 {
			c.Fatalf("the stream has ended after %s, though the token is allowed", time.Duration(ended.Load()))
		}
		down.Store(false)
		revoked.Store(true)
		c.Pass(2 * time.Minute)
		if ended.Load() == 0 {
			c.Error("the stream outlives its token")
		}
	})
	c.Run(t, "OB-23 the host is an address, localhost, that of the endpoint, or as given", func(c *C) {
		p := newPipe()
		c.Operator(&kopf.Registry{}, paged(p, func(s *kopf.PageSettings) { s.Hosts = []string{"given.example"} }))
		for host, want := range map[string]int{"operator.example": 200, "given.example:8080": 200, "10.0.0.1": 200, "localhost:80": 200, "evil.example": 421} {
			if a := p.get("/api/v1/state", "Host: "+host); a.code != want {
				c.Errorf("at %s: %s, want %d", host, a, want)
			}
		}
	})
}

// addressed is a listener that reports another address.
type addressed struct {
	*pipe
	address string
}

func (l *addressed) Addr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", l.address) // the host is an IP address
	return a
}

// reviewAnswer returns the response to a review.
func reviewAnswer(object map[string]any) *http.Response {
	data, _ := json.Marshal(object) // it always succeeds
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(data)))}
}
