package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// This suite proves how kopf posts the Kubernetes events of handlers.

var _ = ClusterSuite("events", func(t *testing.T, c *C) {
	postingCalls(t, c)
	postingForms(t, c)
	postingLogs(t, c)
	postingTroubles(t, c)
})

// posts runs an operator whose creation handler posts events. It returns the operator when the object "a" is handled.
func (c *C) posts(post func(ch *kopf.Change), adjust ...func(*kopf.Operator)) *Running {
	c.Helper()
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		post(ch)
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	op := c.Operator(r, adjust...)
	c.Create("a", nil)
	c.handled("a")
	return op
}

// kubeEvent is a posted event.
type kubeEvent struct {
	Path, Type, Reason, Message string
	About                       map[string]string
	raw                         map[string]any
}

func (p kubeEvent) String() string { return p.Type + " " + p.Reason + ": " + p.Message }

// takeName removes the unique name of an event, and reports whether there was one.
func (p kubeEvent) takeName(prefix string) bool {
	meta, _ := p.raw["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	delete(meta, "name")
	return strings.HasPrefix(name, prefix) && len(name) > len(prefix)+6
}

// posted returns the events that the operator has posted so far: those with the reason Logging, or the others.
func (r *Running) posted(logging bool) []kubeEvent {
	var all []kubeEvent
	for _, q := range r.Wire.Requests("POST") {
		if !strings.HasSuffix(q.Path, "/events") {
			continue
		}
		var p kubeEvent
		if err := json.Unmarshal([]byte(q.Body), &p.raw); err != nil {
			r.c.Fatal(err)
		}
		text := func(key string) string { s, _ := p.raw[key].(string); return s }
		p.Path, p.Type, p.Reason, p.Message = q.Path, text("type"), text("reason"), text("message")
		p.About = map[string]string{}
		about, _ := p.raw["involvedObject"].(map[string]any)
		for key, value := range about {
			p.About[key] = fmt.Sprint(value)
		}
		if (p.Reason == "Logging") == logging {
			all = append(all, p)
		}
	}
	return all
}

// wantPosted waits until that number of events is posted, and compares them.
func (r *Running) wantPosted(want ...string) []kubeEvent {
	r.c.Helper()
	r.c.WaitFor("the events", func() bool { return len(r.posted(false)) >= len(want) })
	r.Stop() // so that no event can follow
	all := r.posted(false)
	var got []string
	for _, p := range all {
		got = append(got, p.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.c.Fatalf("events (-want +got):\n%s", diff)
	}
	return all
}

type brokenVolume struct{ name string }

func (e *brokenVolume) Error() string { return "volume " + e.name + " is broken" }

func postingCalls(t *testing.T, c *C) {
	c.Run(t, "OP-98 there are calls for each type, about the own object and about others", func(c *C) {
		type meta struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		}
		type pod struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   meta   `json:"metadata"`
		}
		op := c.posts(func(ch *kopf.Change) {
			ch.PostEvent("Custom", "R0", "M0")
			ch.PostInfo("R1", "M1")
			ch.PostWarning("R2", "M2")
			ch.PostError("R3", "M3", errors.New("E3"))
			var none *kopf.Body
			ch.PostInfo("R4", "M4",
				map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "map", "namespace": c.Namespace}}, none,
				[]any{&pod{"v1", "Pod", meta{"struct", c.Namespace}}, nil, []kopf.ObjectReference{c.Ref("reference")}}, ch.Body)
			ch.PostInfo("R5", "M5", none)
			ch.PostInfo("R6", "M6", "text")
		})
		all := op.wantPosted("Custom R0: M0", "Normal R1: M1", "Warning R2: M2", "Error R3: M3 E3", "Normal R4: M4", "Normal R4: M4", "Normal R4: M4", "Normal R4: M4")
		var got []string
		for _, p := range all {
			got = append(got, p.About["kind"]+" "+p.About["name"])
		}
		own := "KopfExample a"
		if diff := cmp.Diff([]string{own, own, own, own, "Pod map", "Pod struct", "KopfExample reference", own}, got); diff != "" {
			c.Errorf("what the events are about (-want +got):\n%s", diff)
		}
		if n := len(op.Logs.Find("Cannot post an event: invalid object")); n != 1 {
			c.Errorf("%d warnings on what is no object, want 1", n)
		}
	})
	c.Run(t, "OP-99 an error gives its reason and its message", func(c *C) {
		c.posts(func(ch *kopf.Change) {
			err := &brokenVolume{"v"}
			ch.PostError("", "", err)
			ch.PostError("", "Oh:", err)
			ch.PostError("Why", "", err)
			ch.PostError("Why", "only this", nil)
		}).wantPosted("Error brokenVolume: volume v is broken", "Error brokenVolume: Oh: volume v is broken", "Error Why: volume v is broken", "Error Why: only this")
	})
	everything := func(ch *kopf.Change) {
		ch.PostEvent("Custom", "R", "M")
		ch.PostInfo("R", "M")
		ch.PostWarning("R", "M")
		ch.PostError("R", "M", nil)
	}
	c.Run(t, "OP-100 events below the level of the settings are not posted", func(c *C) {
		c.posts(everything, func(op *kopf.Operator) { op.Settings.Posting.Level = slog.LevelWarn }).
			wantPosted("Custom R: M", "Warning R: M", "Error R: M")
	})
	c.Run(t, "OP-T17 nothing is posted if that is switched off, warnings neither", func(c *C) {
		c.posts(everything, func(op *kopf.Operator) { op.Settings.Posting.Enabled = false }).wantPosted()
	})
	c.Run(t, "OP-101 handlers of all kinds about objects can post", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added || e.Type == kopf.Listed {
				e.PostInfo("Event", "M")
			}
			return nil
		}, &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			done := make(chan struct{})
			go func() {
				defer close(done)
				ch.PostInfo("Goroutine", "M")
			}()
			<-done
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.PostInfo("Daemon", "M")
			return nil
		}, &kopf.DaemonOptions{ID: "daemon"})
		r.OnTimer(Examples, func(ctx context.Context, d *kopf.Timer) error {
			d.PostInfo("Timer", "M")
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Hour})
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			if i.Body.ResourceVersion() != "" && len(i.Body.Finalizers()) == 0 {
				i.PostInfo("Index", "M")
			}
			return map[string]string{"a": "b"}, nil
		}, &kopf.IndexOptions{ID: "index"})
		op := c.Operator(r)
		c.Create("a", nil)
		seen := map[string]bool{}
		c.WaitFor("an event of each handler", func() bool {
			for _, p := range op.posted(false) {
				seen[p.Reason] = p.About["name"] == "a"
			}
			return len(seen) == 5
		})
		if diff := cmp.Diff(map[string]bool{"Event": true, "Goroutine": true, "Daemon": true, "Timer": true, "Index": true}, seen); diff != "" {
			c.Errorf("the reasons (-want +got):\n%s", diff)
		}
	})
	c.Run(t, "OP-102 handlers do not wait for their events, which are posted in their order", func(c *C) {
		release := make(chan struct{})
		handled := make(chan int, 1)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			for i := range 5 {
				ch.PostInfo("R", fmt.Sprint(i))
			}
			handled <- 1
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(r)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if strings.HasSuffix(q.Path, "/events") {
				<-release
			}
			return nil, nil
		})
		c.Create("a", nil)
		<-handled
		c.handled("a")
		if n := len(op.posted(false)); n > 1 {
			c.Errorf("%d events are posted at once", n)
		}
		close(release)
		op.wantPosted("Normal R: 0", "Normal R: 1", "Normal R: 2", "Normal R: 3", "Normal R: 4")
	})
}

func postingForms(t *testing.T, c *C) {
	c.Run(t, "OP-105 an event refers to its object", func(c *C) {
		op := c.posts(func(ch *kopf.Change) { ch.PostInfo("R", "M") })
		body := c.Get("a")
		want := map[string]string{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "namespace": c.Namespace, "uid": body.UID()}
		if diff := cmp.Diff(want, op.wantPosted("Normal R: M")[0].About); diff != "" {
			c.Errorf("(-want +got):\n%s", diff)
		}
	})
	c.Run(t, "OP-106 the request has exactly these fields", func(c *C) {
		began := time.Now().Add(-time.Millisecond)
		op := c.posts(func(ch *kopf.Change) {
			ch.PostInfo("R", "M", kopf.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", Namespace: c.Namespace})
		})
		p := op.wantPosted("Normal R: M")[0]
		at, _ := p.raw["eventTime"].(string)
		when, err := time.Parse("2006-01-02T15:04:05.000000-07:00", at)
		if err != nil || !strings.HasSuffix(at, "+00:00") || when.Before(began) || when.After(time.Now()) {
			c.Errorf("the time is %q: %v", at, err)
		}
		if !p.takeName("kopf-event-") {
			c.Errorf("the name is not one of a kind: %v", p.raw["metadata"])
		}
		want := map[string]any{
			"metadata": map[string]any{"namespace": c.Namespace, "generateName": "kopf-event-"}, "action": "Action?", "type": "Normal", "reason": "R", "message": "M",
			"reportingComponent": "kopf", "reportingInstance": "dev", "source": map[string]any{"component": "kopf"},
			"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": c.Namespace},
			"firstTimestamp": at, "lastTimestamp": at, "eventTime": at,
		}
		if diff := cmp.Diff(want, p.raw); diff != "" {
			c.Errorf("(-want +got):\n%s", diff)
		}
		if want := "/api/v1/namespaces/" + c.Namespace + "/events"; p.Path != want {
			c.Errorf("posted to %s, want %s", p.Path, want)
		}
		for _, q := range op.Wire.Requests("POST") {
			if q.Path == p.Path && (q.ContentType != "application/json" || q.Code != http.StatusCreated) {
				c.Errorf("the type is %q, the answer %d", q.ContentType, q.Code)
			}
		}
	})
	c.Run(t, "OP-48 the settings name the operator in its events", func(c *C) {
		p := c.posts(func(ch *kopf.Change) { ch.PostInfo("R", "M") }, func(op *kopf.Operator) {
			op.Settings.Posting.ReportingComponent = "example.com/volumes"
			op.Settings.Posting.ReportingInstance = "pod-1"
			op.Settings.Posting.EventNamePrefix = "volumes-"
		}).wantPosted("Normal R: M")[0]
		if !p.takeName("volumes-") {
			c.Errorf("the name is not one of a kind: %v", p.raw["metadata"])
		}
		want := []any{"example.com/volumes", "pod-1", map[string]any{"component": "example.com/volumes"}, map[string]any{"namespace": c.Namespace, "generateName": "volumes-"}}
		if diff := cmp.Diff(want, []any{p.raw["reportingComponent"], p.raw["reportingInstance"], p.raw["source"], p.raw["metadata"]}); diff != "" {
			c.Errorf("(-want +got):\n%s", diff)
		}
	})
	cluster := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfClusterExample", Name: "x"}
	c.Run(t, "OP-107 events about objects outside of namespaces go to the one of the credentials", func(c *C) {
		p := c.posts(func(ch *kopf.Change) { ch.PostInfo("R", "M", cluster) }, func(op *kopf.Operator) { op.Connection.DefaultNamespace = c.Namespace }).wantPosted("Normal R: M")[0]
		if want := "/api/v1/namespaces/" + c.Namespace + "/events"; p.Path != want || p.About["namespace"] != c.Namespace {
			c.Errorf("posted to %s about %v, want %s", p.Path, p.About, want)
		}
	})
	c.Run(t, "OP-T21 in the default namespace they are about no namespace, so that kubectl finds them", func(c *C) {
		op := c.posts(func(ch *kopf.Change) { ch.PostInfo("R", "M", cluster) })
		p := op.wantPosted("Normal R: M")[0]
		if _, is := p.About["namespace"]; is || p.Path != "/api/v1/namespaces/default/events" {
			c.Errorf("posted to %s about %v", p.Path, p.About)
		}
		for _, q := range op.Wire.Requests("POST") {
			if q.Path == p.Path && q.Code != http.StatusCreated {
				c.Errorf("the answer is %d", q.Code)
			}
		}
	})
	c.Run(t, "OP-108 the middle is cut out of long messages", func(c *C) {
		long := strings.Repeat("a", 600) + strings.Repeat("b", 600)
		exact := strings.Repeat("c", 1024)
		c.posts(func(ch *kopf.Change) {
			ch.PostInfo("R", long)
			ch.PostInfo("R", exact)
		}).wantPosted("Normal R: "+strings.Repeat("a", 511)+"..."+strings.Repeat("b", 510), "Normal R: "+exact)
	})
	c.Run(t, "OP-T18 messages are cut by bytes, between characters", func(c *C) {
		op := c.posts(func(ch *kopf.Change) { ch.PostInfo("R", strings.Repeat("я", 600)) })
		op.wantPosted("Normal R: " + strings.Repeat("я", 255) + "..." + strings.Repeat("я", 255))
		for _, q := range op.Wire.Requests("POST") {
			if q.Code != http.StatusCreated {
				c.Errorf("the answer is %d", q.Code)
			}
		}
	})
	c.Run(t, "OP-109 nothing is posted about events", func(c *C) {
		c.posts(func(ch *kopf.Change) {
			ch.PostInfo("R", "M", kopf.ObjectReference{APIVersion: "v1", Kind: "Event", Name: "e", Namespace: c.Namespace})
			ch.PostInfo("R", "M", kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Event", Name: "e", Namespace: c.Namespace})
		}).wantPosted("Normal R: M")
	})
	c.Run(t, "OP-T22 nor about those of the newer group", func(c *C) {
		c.posts(func(ch *kopf.Change) {
			ch.PostInfo("R", "M", kopf.ObjectReference{APIVersion: "events.k8s.io/v1", Kind: "Event", Name: "e", Namespace: c.Namespace})
		}).wantPosted()
	})
	c.Run(t, "OP-T19 times have six digits, also in the first moment of a second", func(c *C) {
		c.OnlyInBubble("the clock has to show a whole second")
		op := c.posts(func(ch *kopf.Change) {
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			ch.PostInfo("R", "M")
		})
		if at := fmt.Sprint(op.wantPosted("Normal R: M")[0].raw["eventTime"]); !strings.HasSuffix(at, ".000000+00:00") {
			c.Errorf("the time is %s", at)
		}
	})
	c.Run(t, "OP-T20 long reasons are cut, and any type is taken", func(c *C) {
		op := c.posts(func(ch *kopf.Change) { ch.PostEvent("Whatever", strings.Repeat("R", 200), "M") })
		op.wantPosted("Whatever " + strings.Repeat("R", 128) + ": M")
		for _, q := range op.Wire.Requests("POST") {
			if q.Code != http.StatusCreated {
				c.Errorf("the answer is %d", q.Code)
			}
		}
	})
}

func postingLogs(t *testing.T, c *C) {
	loud := func(level slog.Level) func(*kopf.Operator) {
		return func(op *kopf.Operator) {
			op.Settings.Posting.Loggers, op.Settings.Posting.Level = true, level
		}
	}
	c.Run(t, "OP-103 messages of handlers' loggers are posted if that is wanted", func(c *C) {
		op := c.posts(func(ch *kopf.Change) {
			ch.Logger.Debug("debug")
			ch.Logger.Info("info", "size", 5)
			ch.Logger.With("name", "x").Warn("warning")
			ch.Logger.Error("error", "error", errors.New("oh"))
			ch.Logger.Log(ctx(), slog.LevelError+4, "fatal")
			ch.Logger.Log(ctx(), slog.LevelError+8, "beyond")
		}, loud(slog.LevelInfo))
		want := []string{
			"Normal Logging: info  size=5", "Warning Logging: warning  name=x", "Error Logging: error  error=oh", "Fatal Logging: fatal", "ERROR+8 Logging: beyond",
			"Normal Logging: Handler 'create' succeeded.", "Normal Logging: Creation is processed: 1 succeeded; 0 failed.",
		}
		op.wantLogged(want...)
	})
	c.Run(t, "OP-103 a posted message ends with its code", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return kopf.Permanent(errors.New("too large")) }, named("create"))
		op := c.Operator(r, loud(slog.LevelError))
		c.Create("a", nil)
		op.wantLogged("Error Logging: Handler 'create' failed permanently: too large  help=K305")
	})
	c.Run(t, "OP-104 messages of the framework's own work are not posted, nor those of handlers of events", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			e.Logger.Error("event")
			return nil
		}, &kopf.EventOptions{ID: "event"})
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			i.Logger.Error("index")
			return nil, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "delete"})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.Logger.Info("daemon")
			<-ctx.Done()
			return ctx.Err()
		}, &kopf.DaemonOptions{ID: "daemon"})
		op := c.Operator(r, loud(slog.LevelDebug))
		c.Create("a", nil)
		// The daemon runs before the finalizer is there. If the object were deleted in between, nothing would block its deletion.
		c.WaitFor("the daemon", func() bool { return len(op.Logs.Find("daemon")) > 1 })
		c.held("a")
		c.Delete("a")
		c.WaitFor("the end of the object", func() bool { return !c.Exists("a") })
		op.wantLogged("Debug Logging: Daemon 'daemon' is invoked.", "Normal Logging: daemon", "Debug Logging: Deletion is in progress.", "Debug Logging: Handler 'delete' is invoked.",
			"Normal Logging: Handler 'delete' succeeded.", "Debug Logging: Daemon 'daemon' was cancelled.", "Normal Logging: Daemon 'daemon' succeeded.", "Normal Logging: Deletion is processed: 1 succeeded; 0 failed.")
	})
}

func ctx() context.Context { return context.Background() }

// wantLogged stops the operator and compares the posted log lines, without bodies of objects, in any order.
func (r *Running) wantLogged(want ...string) {
	r.c.Helper()
	r.c.WaitFor("the posted log lines", func() bool { return len(r.posted(true)) >= len(want) })
	r.Stop()
	left := map[string]int{}
	for _, line := range want {
		left[line]++
	}
	for _, p := range r.posted(true) {
		line, _, _ := strings.Cut(p.String(), "  body=")
		if left[line]--; left[line] < 0 {
			r.c.Errorf("posted, and not wanted: %s", line)
		}
	}
	for line, n := range left {
		if n > 0 {
			r.c.Errorf("not posted: %s", line)
		}
	}
}

func postingTroubles(t *testing.T, c *C) {
	c.Run(t, "OP-111 an event that is refused is told in the log and forgotten", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.PostInfo("R", "refused")
			ch.PostInfo("R", "M")
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(r)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if strings.HasSuffix(q.Path, "/events") && strings.Contains(q.Body, "refused") {
				return Answer(http.StatusUnprocessableEntity, "Invalid", "we do not like it"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.handled("a")
		op.wantPosted("Normal R: refused", "Normal R: M")
		lines := op.Logs.Find("Posting an event failed")
		if len(lines) != 1 || lines[0].Level != slog.LevelWarn || lines[0].Attrs["code"] != "422" || lines[0].Attrs["message"] != "refused" ||
			!strings.Contains(lines[0].Attrs["error"], "we do not like it") {
			c.Errorf("the log tells %+v", lines)
		}
	})
	broken := func(c *C, fault func(n int) (*http.Response, error), adjust ...func(*kopf.Operator)) *Running {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.PostInfo("R", ch.Name())
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(r, adjust...)
		n := 0
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if !strings.HasSuffix(q.Path, "/events") {
				return nil, nil
			}
			n++
			return fault(n)
		})
		return op
	}
	c.Run(t, "OP-T14 no error of posting ends the poster or the operator", func(c *C) {
		op := broken(c, func(n int) (*http.Response, error) {
			switch n {
			case 1:
				return nil, errors.New("the socket is gone")
			case 2:
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil // an invalid response
			case 3:
				return nil, context.DeadlineExceeded
			}
			return nil, nil
		}, func(op *kopf.Operator) { op.Settings.Networking.ErrorBackoffs = nil }) // without retries
		for _, name := range []string{"a", "b", "c", "d"} {
			c.Create(name, nil)
			c.handled(name)
			c.WaitFor("the request", func() bool { return len(op.posted(false)) == len(c.List()) })
		}
		op.wantPosted("Normal R: a", "Normal R: b", "Normal R: c", "Normal R: d")
		if n := len(op.Logs.Find("Posting an event failed")); n != 3 {
			c.Errorf("%d failures are told, want 3", n)
		}
	})
	c.Run(t, "OP-T15 events that cannot be posted do not hold up others for long, and do not pile up", func(c *C) {
		c.OnlyInBubble("it waits")
		const all = 3000
		began := time.Now()
		var second time.Duration
		stuck := make(chan struct{})
		defer close(stuck)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			began = time.Now()
			for i := range all {
				ch.PostInfo("R", fmt.Sprint(i), kopf.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint("p", i), Namespace: c.Namespace})
			}
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(r)
		n := 0
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if !strings.HasSuffix(q.Path, "/events") {
				return nil, nil
			}
			if n++; n == 1 {
				return Answer(http.StatusTooManyRequests, "TooManyRequests", "slow down"), nil
			}
			if second == 0 && !strings.Contains(q.Body, `"message":"0"`) && !strings.Contains(q.Body, `"message": "0"`) {
				second = time.Since(began)
			}
			if second == 0 {
				return Answer(http.StatusTooManyRequests, "TooManyRequests", "slow down"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.Pass(2 * time.Minute)
		if second <= time.Second || second > 10*time.Second {
			c.Errorf("the next event was posted after %s, want 5s, and the patience that the server has asked for", second)
		}
		created := 0
		for _, q := range op.Wire.Requests("POST") {
			if strings.HasSuffix(q.Path, "/events") && q.Code == http.StatusCreated {
				created++
			}
		}
		if created < 1000 || created > 1030 {
			c.Errorf("%d of %d events are posted, want about 1024: those that the queue holds", created, all)
		}
		op.Stop()
		lost := 0
		for _, line := range op.Logs.Find("Lost events that could not be posted in time, or were too many for one object") {
			n := 0
			fmt.Sscan(line.Attrs["events"], &n)
			lost += n
		}
		if lost+created+1 != all {
			c.Errorf("%d events are told to be lost, and %d posted, of %d", lost, created, all)
		}
	})
	c.Run(t, "OP-T16 the events of the last handlers and daemons are posted at the exit", func(c *C) {
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			d.PostInfo("Begins", "M")
			<-ctx.Done()
			for i := range 10 {
				d.PostInfo("Ends", fmt.Sprint(i))
			}
			return ctx.Err()
		}, &kopf.DaemonOptions{ID: "daemon"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the daemon", func() bool { return len(op.posted(false)) == 1 })
		op.Stop()
		posted := op.posted(false)
		if len(posted) != 11 || posted[10].Message != "9" {
			c.Errorf("%d events are posted, want 11", len(posted))
		}
	})
	c.Run(t, "OP-T16 draining has an end", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			for i := range 20 {
				ch.PostInfo("R", fmt.Sprint(i))
			}
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(r)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if strings.HasSuffix(q.Path, "/events") {
				return Answer(http.StatusTooManyRequests, "TooManyRequests", "slow down"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.handled("a")
		began := time.Now()
		op.Stop()
		if passed := time.Since(began); passed < 4*time.Second || passed > 7*time.Second {
			c.Errorf("the end took %s, want 5s", passed)
		}
	})
	c.Run(t, "a failing handler does not flood", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.PostWarning("Failing", "always the same")
			return kopf.Temporary(errors.New("not yet"), time.Minute)
		}, &kopf.ChangeOptions{ID: "create", Timeout: 10*time.Minute + time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		op.wantPosted("Warning Failing: always the same",
			`Warning HandlerFailed: Handler 'create' failed permanently: handler "create" is out of time after 10m0s, because the next attempt in 1m0s would exceed its Timeout of 10m1s: not yet`)
		events := slices.DeleteFunc(c.Of("v1", "Event").List(), func(e *kopf.Body) bool { return e.View("").String("reason") != "Failing" })
		if len(events) != 1 || events[0].View("").Int("count") != 11 {
			c.Errorf("the events are %v, want one that has happened 11 times", events)
		}
	})
	c.Run(t, "an object gets a limited number of different events", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			for i := 0; ctx.Err() == nil; i++ {
				d.PostWarning("Failing", fmt.Sprint(i))
				d.Sleep(time.Second)
			}
			return nil
		}, &kopf.DaemonOptions{ID: "daemon"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(time.Hour)
		op.Stop()
		if n := len(op.posted(false)); n < 25+11 || n > 25+13 {
			c.Errorf("%d events in an hour, want 25 at once and one in 5 minutes", n)
		}
	})
	c.Run(t, "an event whose answers are lost is there once, and counted right", func(c *C) {
		c.OnlyInBubble("it waits")
		lost := map[string]int{}
		op := c.posts(func(ch *kopf.Change) {
			for range 3 {
				ch.PostInfo("R", "M")
			}
		}, func(op *kopf.Operator) {
			op.Settings.Networking.ErrorBackoffs = []time.Duration{time.Second, time.Second}
		})
		op.Wire.Lose(func(q *Request) bool {
			if !strings.Contains(q.Path, "/events") {
				return false
			}
			lost[q.Method]++
			return lost[q.Method] <= 2
		})
		c.Create("b", nil)
		c.handled("b")
		c.Pass(20 * time.Second)
		op.Stop()
		var counts []int64
		for _, e := range c.Of("v1", "Event").List() {
			if e.View("involvedObject").String("name") == "b" {
				counts = append(counts, e.View("").Int("count"))
			}
		}
		if len(counts) != 1 || counts[0] != 3 {
			c.Errorf("the events have the counts %v, want one with 3", counts)
		}
		if lines := op.Logs.Find("Posting an event failed"); len(lines) > 0 {
			c.Errorf("it is said that events are lost: %v", lines)
		}
	})
	c.Run(t, "who may not patch events posts them again", func(c *C) {
		c.OnlyInBubble("the rights are those of a fault")
		op := c.posts(func(ch *kopf.Change) {
			for range 3 {
				ch.PostInfo("R", "M")
			}
		}, func(op *kopf.Operator) {
			next := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(q *http.Request) (*http.Response, error) {
				if q.Method == http.MethodPatch && strings.Contains(q.URL.Path, "/events/") {
					return Answer(http.StatusForbidden, "Forbidden", "no"), nil
				}
				return next.RoundTrip(q)
			})}
		})
		op.wantPosted("Normal R: M", "Normal R: M", "Normal R: M")
	})
}
