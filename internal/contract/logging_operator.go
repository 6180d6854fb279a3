package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the messages about the operator as a whole: its start, the discovered resources, the handled objects, and other operators on the
// same objects.

var _ = Suite("logging_operator", func(t *testing.T, c *C) {
	bordering(t, c)
	bursting(t, c)
	attributing(t, c)
	sendingTasks(t, c)
	overlapping(t, c)
})

func bordering(t *testing.T, c *C) {
	c.Run(t, "one line for the start, one for the first listing, and one for the exit", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		first := c.Operator(r)
		line := first.Logs.Find("Operator started")
		if len(line) != 1 || line[0].Level != slog.LevelInfo {
			c.Fatalf("got %+v", line)
		}
		attrs := line[0].Attrs
		info, err := c.Client.ConnectionInfo(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		for key, want := range map[string]string{
			"version": kopf.Version, "server": info.Server, "namespaces": c.Namespace, "resources": "kopfexamples.v1.kopf.dev", "handlers": "1",
		} {
			if attrs[key] != want {
				c.Errorf("%s is %q, want %q", key, attrs[key], want)
			}
		}
		if !strings.HasPrefix(attrs["serverVersion"], "v1.") {
			c.Errorf("the version of the server is %q", attrs["serverVersion"])
		}
		for _, name := range []string{"a", "b"} {
			c.Create(name, nil)
			c.handled(name)
		}
		first.Stop()
		if line := first.Logs.Find("Operator stopped"); len(line) != 1 || line[0].Attrs["succeeded"] != "2" || line[0].Attrs["failed"] != "0" || line[0].Attrs["uptime"] == "" {
			c.Errorf("got %+v", line)
		}
		c.Create("c", nil)
		second := c.Operator(r)
		c.handled("c")
		c.Patch("a", sized(2)) // a change after the list
		c.Pass(time.Second)
		lines := second.Logs.Find("Listed objects")
		if len(lines) != 1 || lines[0].Level != slog.LevelInfo {
			c.Fatalf("got %+v", lines)
		}
		if a := lines[0].Attrs; a["objects"] != "3" || a["upToDate"] != "2" || a["toHandle"] != "1" || a["resource"] != "kopfexamples.v1.kopf.dev" || a["duration"] == "" || a["unmatched"] != "" {
			c.Errorf("got %+v", a)
		}
	})
	c.Run(t, "objects that no handler is for are neither up to date nor to handle", func(c *C) {
		label := func(value string) map[string]any {
			return map[string]any{"metadata": map[string]any{"labels": map[string]any{"mine": value}}}
		}
		c.Create("a", label("yes"))
		c.Create("b", label("no"))
		c.Create("c", label("no"))
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"mine": "yes"}})
		for _, want := range []string{"0 2 1", "1 2 0"} { // before and after the handling
			op := c.Operator(r)
			c.handled("a")
			c.WaitFor("the line", func() bool { return len(op.Logs.Find("Listed objects")) == 1 })
			a := op.Logs.Find("Listed objects")[0].Attrs
			if got := a["upToDate"] + " " + a["unmatched"] + " " + a["toHandle"]; got != want || a["objects"] != "3" {
				c.Errorf("got %s of %s up to date, unmatched and to handle, want %s of 3", got, a["objects"], want)
			}
			op.Stop()
		}
	})
	c.Run(t, "the listings of all namespaces are one line", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate("secrets", func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"none": "x"}})
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, "default", "kube-system"} })
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Listed objects")) > 0 })
		c.Pass(time.Second)
		if lines := op.Logs.Find("Listed objects"); len(lines) != 1 {
			c.Errorf("got %+v", lines)
		}
		if line := op.Logs.Find("Operator started")[0]; line.Attrs["namespaces"] != c.Namespace+",default,kube-system" {
			c.Errorf("got %+v", line.Attrs)
		}
	})
	c.Run(t, "a namespace that goes before it is listed does not keep the line from the others", func(c *C) {
		c.OnlyInBubble("namespaces go slowly elsewhere")
		namespaces, gone := c.Of("v1", "Namespace"), c.Unique("goes")
		namespaces.Create(gone, nil)
		c.Create("a", nil)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, gone} }, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "/namespaces/"+gone+"/kopfexamples") {
				return Answer(http.StatusInternalServerError, "InternalError", "asked for"), nil
			}
			return nil, nil
		}))
		c.handled("a")
		if lines := op.Logs.Find("Listed objects"); len(lines) > 0 {
			c.Errorf("got %+v before the second namespace is listed", lines)
		}
		namespaces.Delete(gone)
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Listed objects")) > 0 })
		c.Pass(time.Minute)
		if lines := op.Logs.Find("Listed objects"); len(lines) != 1 || lines[0].Attrs["objects"] != "1" {
			c.Errorf("got %+v, want one line", lines)
		}
	})
}

func bursting(t *testing.T, c *C) {
	c.Run(t, "hundreds of successes in a second are counted instead of logged one by one", func(c *C) {
		c.OnlyInBubble("the number in a second depends on the machine")
		const objects = 400
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		for i := range objects {
			c.Create(fmt.Sprintf("o%d", i), nil)
		}
		op := c.Operator(r)
		for i := range objects {
			c.handled(fmt.Sprintf("o%d", i))
		}
		c.Pass(15 * time.Second)
		c.Create("later", nil)
		c.handled("later")
		alone := 0
		for _, line := range op.Logs.Find("'create' succeeded.") {
			if line.Level == slog.LevelInfo {
				alone++
			}
		}
		counted := 0
		for _, line := range op.Logs.Find("Handlers succeeded") {
			n := 0
			if _, err := fmt.Sscan(line.Attrs["count"], &n); err != nil || line.Level != slog.LevelInfo {
				c.Errorf("got %+v", line)
			}
			counted += n
		}
		if alone+counted != objects+1 || counted < objects/2 {
			c.Errorf("%d successes have a line and %d are counted, of %d", alone, counted, objects+1)
		}
		if all := op.Logs.Find("'create' succeeded."); len(all) != objects+1 {
			c.Errorf("%d lines with those for debugging, want %d", len(all), objects+1)
		}
		if sums := op.Logs.Find("Creation is processed"); len(sums) != objects+1 || sums[len(sums)-1].Level != slog.LevelInfo || sums[objects/2].Level != slog.LevelDebug {
			c.Errorf("%d sums", len(sums))
		}
	})
	c.Run(t, "each success has a line if events are made of lines, and only then", func(c *C) {
		c.OnlyInBubble("the number in a second depends on the machine")
		const objects = 300
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		for i := range objects {
			c.Create(fmt.Sprintf("o%d", i), nil)
		}
		for _, posting := range []bool{true, false} {
			op := c.Operator(r, prefixed(fmt.Sprintf("posting-%t.dev", posting)), func(op *kopf.Operator) {
				op.Settings.Posting.Loggers, op.Settings.Posting.Enabled, op.Settings.Posting.Level = true, posting, slog.LevelError
			})
			c.WaitFor("the handling", func() bool { return len(op.Logs.Find("'create' succeeded.")) == objects })
			c.Pass(15 * time.Second)
			alone := 0
			for _, line := range op.Logs.Find("'create' succeeded.") {
				if line.Level == slog.LevelInfo {
					alone++
				}
			}
			if all := alone == objects; all != posting || (len(op.Logs.Find("Handlers succeeded")) > 0) == posting {
				c.Errorf("with posting %t, %d of %d successes have a line", posting, alone, objects)
			}
			op.Stop()
		}
	})
}

func attributing(t *testing.T, c *C) {
	c.Run(t, "JSON lines have the handler and the operator, and lines for people have not", func(c *C) {
		r := &kopf.Registry{}
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error { a.Logger.Info("hello startup"); return nil }, id("startup"))
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error { e.Logger.Info("hello event"); return nil }, watchedAs("event"))
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { ch.Logger.Info("hello create"); return nil }, named("create"))
		r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error { tm.Logger.Info("hello timer"); return nil }, &kopf.TimerOptions{ID: "timer", Interval: time.Hour})
		r.OnDaemon(Examples, func(_ context.Context, d *kopf.Daemon) error { d.Logger.Info("hello daemon"); return nil }, &kopf.DaemonOptions{ID: "daemon"})
		kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			i.Logger.Info("hello index")
			return nil, nil
		}, &kopf.IndexOptions{ID: "index"})
		ids := []string{"startup", "event", "create", "timer", "daemon", "index"}
		for i, format := range []kopf.LogFormat{kopf.LogJSON, kopf.LogPlain} {
			var b lockedBuffer
			op := c.Operator(r, func(op *kopf.Operator) {
				op.Identity = "me"
				op.Logger = slog.New(kopf.NewLogHandler(&kopf.LogOptions{Format: format, Output: &b, Verbose: true}))
			})
			name := fmt.Sprint("a", i)
			c.Create(name, nil)
			c.WaitFor("all handlers", func() bool {
				for _, id := range ids {
					if !strings.Contains(b.String(), "hello "+id) {
						return false
					}
				}
				return strings.Contains(b.String(), "Creation is processed")
			})
			op.Stop()
			if format == kopf.LogPlain {
				for _, unwanted := range []string{"handler=", "operator="} {
					if strings.Contains(b.String(), unwanted) {
						c.Errorf("there is %q in\n%s", unwanted, b.String())
					}
				}
				continue
			}
			for text := range strings.Lines(b.String()) {
				var line struct{ Message, Handler, Operator string }
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					c.Fatal(err)
				}
				want := ""
				for _, id := range ids {
					if line.Message == "hello "+id || strings.Contains(line.Message, "'"+id+"'") {
						want = id
					}
				}
				if line.Handler != want || line.Operator != "me" || strings.Count(text, `"handler`) > 1 {
					c.Errorf("want the handler %q of the operator me in %s", want, text)
				}
			}
		}
	})
}

// sendingTasks proves the attributes of messages about the patches of timers.
func sendingTasks(t *testing.T, c *C) {
	c.Run(t, "JSON lines about the patches of timers have the handler once, and lines for people have it", func(c *C) {
		c.OnlyInBubble("requests are refused")
		for _, format := range []kopf.LogFormat{kopf.LogJSON, kopf.LogPlain} {
			var b lockedBuffer
			r := &kopf.Registry{}
			r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
				tm.Patch.Set("status.at", time.Now().String())
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Minute, WithoutFinalizer: true})
			op := c.Operator(r, func(op *kopf.Operator) {
				op.Logger = slog.New(kopf.NewLogHandler(&kopf.LogOptions{Format: format, Output: &b, Verbose: true}))
			})
			var code atomic.Int64
			op.denyPatches(func(*Request) bool { return code.Load() > 0 }, func() *http.Response {
				return Answer(int(code.Load()), "Refused", "no")
			})
			name := fmt.Sprint("a", int(format))
			c.Create(name, nil)
			for _, answer := range []int64{0, 503, 422} {
				code.Store(answer)
				c.Pass(5 * time.Minute)
			}
			op.Stop()
			c.Delete(name)
			for _, want := range []string{"Timer 'timer' succeeded.", "K605", "K606"} {
				found := 0
				for text := range strings.Lines(b.String()) {
					if !strings.Contains(text, want) {
						continue
					}
					found++
					if n := strings.Count(text, `"handler":`); format == kopf.LogJSON && n != 1 {
						c.Errorf("the handler is %d times in %s", n, text)
					}
					if format == kopf.LogPlain && !strings.Contains(text, "timer") {
						c.Errorf("there is no handler in %s", text)
					}
				}
				if found == 0 {
					c.Errorf("there is no line with %s in\n%s", want, b.String())
				}
			}
		}
	})
}

func overlapping(t *testing.T, c *C) {
	registry := func(fn kopf.ChangeFunc) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnCreate(Examples, fn, named("create"))
		r.OnUpdate(Examples, fn, named("update"))
		return r
	}
	const warning = "Another operator handles the same objects"
	// both has two operators handle two objects, the second one later than the first, and returns the second one.
	both := func(c *C, adjust ...func(*kopf.Operator)) *Running {
		var l calls
		first, door := newDoorway(), newDoorway()
		defer first.let()
		defer door.let()
		handling := func(door *doorway) *kopf.Registry {
			return registry(func(ctx context.Context, ch *kopf.Change) error { l.add("begun"); door.pass(ctx); return nil })
		}
		c.Operator(handling(first))
		slow := c.Operator(handling(door), adjust...)
		for _, name := range []string{"a", "b"} {
			c.Create(name, nil)
		}
		c.WaitFor("both to have begun", func() bool { return l.count("begun") == 4 })
		first.let()
		for _, name := range []string{"a", "b"} {
			c.WaitFor("the first operator", func() bool { _, ok := c.Get(name).Annotation(diffBase); return ok })
		}
		c.Pass(time.Second)
		door.let()
		c.WaitFor("the second operator", func() bool { return len(slow.Logs.Find("Creation is processed")) == 2 })
		return slow
	}
	c.Run(t, "an operator that handles the same objects with the same storages is noticed, once", func(c *C) {
		if lines := both(c).Logs.Find(warning); len(lines) != 1 || lines[0].Level != slog.LevelWarn || !strings.Contains(lines[0].Attrs["hint"], "peering") {
			c.Errorf("got %+v", lines)
		}
	})
	c.Run(t, "an operator with storages of its own is none of them", func(c *C) {
		if lines := both(c, prefixed("example.com")).Logs.Find(warning); len(lines) > 0 {
			c.Errorf("got %+v", lines)
		}
	})
	c.Run(t, "what is changed while a handler runs is no other operator", func(c *C) {
		door := newDoorway()
		defer door.let()
		var l calls
		op := c.Operator(registry(func(ctx context.Context, ch *kopf.Change) error { l.add("x"); door.pass(ctx); return nil }))
		c.Create("a", sized(1))
		c.WaitFor("the handler", func() bool { return l.count("x") == 1 })
		c.Patch("a", sized(2))
		c.Pass(time.Second)
		door.let()
		c.WaitFor("the update", func() bool { return len(op.Logs.Find("Updating is processed")) == 1 })
		if lines := op.Logs.Find(warning); len(lines) > 0 {
			c.Errorf("got %+v", lines)
		}
	})
}
