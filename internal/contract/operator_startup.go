package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that startup handlers can send requests to the API server.

var _ = Suite("operator_startup", func(t *testing.T, c *C) {
	c.Run(t, "a failure to start is told by the error alone, not in the log too", func(c *C) {
		for name, handler := range map[string]func(*kopf.Registry){
			"login": func(r *kopf.Registry) {
				r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) {
					return nil, kopf.Permanent(errors.New("no key"))
				}, nil)
			},
			"admission": func(r *kopf.Registry) { r.OnValidate(Examples, accept, nil) },
		} {
			r := &kopf.Registry{}
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, watchedAs("event"))
			handler(r)
			op, _, logs := c.operatorOn(r)
			if name == "login" {
				op.Connection = nil
			}
			if err := op.Run(c.Context()); err == nil {
				c.Fatalf("%s: it has started", name)
			}
			if stopped := logs.Find("Operator stopped"); len(stopped) > 0 {
				c.Errorf("%s: got %+v of an operator that has not started", name, stopped)
			}
		}
	})
	c.Run(t, "a handler that is registered while the operator runs is not called, and warned of once", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnStartup(func(context.Context, *kopf.Activity) error {
			r.OnCreate(Examples, l.handler("early"), named("early"))
			return nil
		}, id("startup"))
		op := c.Operator(r)
		const warning = "A handler was registered while the operator runs; it is not called before the operator is started again"
		if lines := op.Logs.Find(warning); len(lines) > 0 {
			c.Errorf("got %+v for a handler that a start-up handler has registered", lines)
		}
		for _, late := range []kopf.HandlerID{"late", "later"} {
			r.OnCreate(Examples, l.handler(string(late)), named(late))
		}
		c.Define(c.gadgets()) // triggers another discovery
		c.Pass(time.Minute)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "early create 0")
		if lines := op.Logs.Find(warning); len(lines) != 1 || lines[0].Level != slog.LevelWarn || lines[0].Attrs["handler"] != "late" || !strings.Contains(lines[0].Attrs["registered"], ".go:") {
			c.Errorf("got %+v, want one warning", lines)
		}
		op.Stop()
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, watchedAs("afterwards"))
		if lines := op.Logs.Find(warning); len(lines) != 1 {
			c.Errorf("got %+v after the end of the operator", lines)
		}
	})
	c.Run(t, "what a start-up handler registers is called and counted: start-up handlers, logins, probes and handlers of objects", func(c *C) {
		var l calls
		var info *kopf.ConnectionInfo
		p, r := newPipe(), &kopf.Registry{}
		r.OnStartup(func(context.Context, *kopf.Activity) error {
			r.OnStartup(func(context.Context, *kopf.Activity) error {
				l.add("second")
				r.OnCreate(Examples, l.handler("late"), named("late"))
				return nil
			}, id("second"))
			r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) { return info, nil }, id("login"))
			r.OnProbe(func(context.Context, *kopf.Probe) (any, error) { return "alive", nil }, &kopf.ProbeOptions{ID: "probe"})
			return nil
		}, id("first"))
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"), func(op *kopf.Operator) {
			info, op.Connection = op.Connection, nil
		})
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "second", "late create 0")
		wantAnswer(c, "the probe", p.ask("GET", "/healthz"), `200 {"probe":"alive"}`)
		page := p.ask("GET", "/metrics").body
		for _, handler := range []string{"first", "second", "login", "probe", "late"} {
			if !strings.Contains(page, `kopf_handler_attempts_total{handler="`+handler+`",outcome="success"} 1`) {
				c.Errorf("the metrics have no success of the handler %s:\n%s", handler, page)
			}
		}
	})
	c.Run(t, "what a start-up handler registers belongs to the run, and not to a failed attempt", func(c *C) {
		c.OnlyInBubble("the attempts are made later")
		var l calls
		r := &kopf.Registry{}
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { l.add("create %s", ch.Name()); return nil }, named("create"))
			r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error { l.add("event of %s", e.Name()); return nil }, watchedAs("event"))
			kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
				l.add("index of %s", i.Name())
				return nil, nil
			}, &kopf.IndexOptions{ID: "index"})
			switch a.Retry {
			case 0:
				return kopf.Temporary(errOops, time.Second)
			case 1:
				panic("oops")
			}
			return nil
		}, &kopf.ActivityOptions{ID: "startup", Backoff: time.Second})
		for _, name := range []string{"a", "b"} {
			op := c.Operator(r)
			c.Pass(time.Second)
			c.Create(name, nil)
			c.Pass(time.Second)
			op.Stop()
			for call, most := range map[string]int{"create ": 1, "index of ": 2, "event of ": 2} { // the second ones for kopf's patch
				if n := l.count(call + name); n < 1 || n > most {
					c.Errorf("%s%s: got %d calls, want at most %d, in %q", call, name, n, most, l.all())
				}
			}
			c.Delete(name)
		}
	})
	c.Run(t, "two operators with one registry each have what their own start-up handlers register", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			name := a.Settings.Posting.ReportingInstance
			r.OnStartup(l.activity("nested "+name), id("nested"))
			r.OnCleanup(l.activity("cleanup "+name), id("cleanup"))
			r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
				l.add("%s to %s", e.Name(), name)
				return nil
			}, watchedAs("event"))
			if a.Retry == 0 {
				return kopf.Temporary(errOops, 10*time.Millisecond)
			}
			return nil
		}, id("startup"))
		first := c.Operator(r, instance("first"))
		second := c.Operator(r, instance("second"))
		c.Create("a", nil)
		c.expectAll(&l, "nested first", "nested second", "a to first", "a to second")
		first.Stop()
		if lines := first.Logs.Find("A handler was registered while the operator runs"); len(lines) > 0 {
			c.Errorf("got %+v for handlers of the other operator", lines)
		}
		c.Create("b", nil)
		third := c.Operator(r, instance("third"))
		all := []string{
			"nested first", "nested second", "a to first", "a to second",
			"cleanup first", "b to second", "nested third", "a to third", "b to third",
		}
		c.expectAll(&l, all...)
		second.Stop()
		third.Stop()
		c.expectAll(&l, append(all, "cleanup second", "cleanup third")...)
	})
	c.Run(t, "operators with one registry call their start-up handlers one after another, and warn of a long wait", func(c *C) {
		c.OnlyInBubble("it waits for longer")
		var l calls
		r := &kopf.Registry{}
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			if a.Retry == 0 {
				l.add("begin")
				time.Sleep(15 * time.Second)
				r.OnCreate(Examples, l.handler("create"), named("create"))
				l.add("end")
				return kopf.Temporary(errOops, time.Hour)
			}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			l.add("again")
			return nil
		}, &kopf.ActivityOptions{ID: "startup", Timeout: 20 * time.Second})
		var ops sync.WaitGroup
		var logs [2]*Logs
		ctx, cancel := context.WithCancel(c.Context())
		for i := range logs {
			var op *kopf.Operator
			op, _, logs[i] = c.operatorOn(r)
			ops.Go(func() { _ = op.Run(ctx) })
		}
		c.Pass(time.Minute) // the time of the other one does not count
		c.expect(&l, "begin", "end", "begin", "end")
		cancel()
		ops.Wait()
		const warning = "Waiting for a start-up handler of another operator with the same registry"
		if n := len(logs[0].Find(warning)) + len(logs[1].Find(warning)); n != 1 {
			c.Errorf("got %d warnings, want one", n)
		}
	})
	c.Run(t, "a start-up handler cannot run another operator with its registry, which would wait for it", func(c *C) {
		var inner error
		r := &kopf.Registry{}
		r.OnStartup(func(ctx context.Context, _ *kopf.Activity) error {
			op, _, _ := c.operatorOn(r)
			inner = op.Run(ctx)
			return nil
		}, id("startup"))
		r.OnCreate(Examples, ready, named("create"))
		c.Operator(r)
		if inner == nil || !strings.Contains(inner.Error(), "with the same registry") {
			c.Errorf("got the error %v", inner)
		}
	})
	c.Run(t, "a kind that a start-up handler defines belongs to the run, and not to a failed attempt", func(c *C) {
		r := &kopf.Registry{}
		r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			kind := kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site"})
			r.OnCreate(kind.Selector(), ready, named("create"))
			r.Needs("pods", "get")
			if a.Retry == 0 {
				return kopf.Temporary(errOops, 10*time.Millisecond)
			}
			return nil
		}, id("startup"))
		for range 2 {
			c.Operator(r).Stop()
		}
	})
	c.Run(t, "DF-80 a function of Configure that is registered while the operator runs is not called, and warned of once", func(c *C) {
		for _, when := range []string{"in a start-up handler", "later"} {
			called := func(*kopf.Settings) { c.Errorf("%s: the function was called", when) }
			r := &kopf.Registry{}
			r.OnStartup(func(context.Context, *kopf.Activity) error {
				if when != "later" {
					r.Configure(called)
				}
				return nil
			}, id("startup"))
			op := c.Operator(r)
			r.Configure(called)
			const warning = "A function of Configure was registered while the operator runs; it is not called before the operator is started again"
			lines := op.Logs.Find(warning)
			if len(lines) != 1 || lines[0].Level != slog.LevelWarn || !strings.Contains(lines[0].Attrs["registered"], "operator_startup.go:") {
				c.Errorf("%s: got %+v, want one warning", when, lines)
			}
			op.Stop()
			r.Configure(func(*kopf.Settings) {})
			if lines := op.Logs.Find(warning); len(lines) != 1 {
				c.Errorf("%s: got %+v after the end of the operator", when, lines)
			}
		}
	})
	c.Run(t, "DF-32 a start-up handler has a client, with the connection that the operator was given", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			return a.Client.Create(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "made", "namespace": c.Namespace}}, nil)
		}, id("startup"))
		registry.OnCreate(Examples, ready, named("create"))
		c.Operator(registry)
		if err := c.Client.Get(c.Context(), kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "made", Namespace: c.Namespace}, &kopf.Body{}, nil); err != nil {
			c.Error(err)
		}
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
	})
	c.Run(t, "DF-32 the client of start-up handlers logs in at its first use, once for the whole operator", func(c *C) {
		e := newEntry()
		var kept *kopf.Client
		e.registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			e.calls.add("settings")
			a.Settings.Networking.TrustEnv = true
			return nil
		}, id("settings"))
		e.registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
			e.calls.add("login, trusting the environment: %t", l.TrustEnv)
			return e.info(), nil
		}, id("login"))
		e.registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			e.calls.add("use")
			kept = a.Client
			_, err := a.Client.Resources(ctx)
			return err
		}, id("use"))
		e.registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
			_, err := kept.Resources(ctx) // it continues to work
			return err
		}, id("cleanup"))
		e.registry.OnCreate(Examples, ready, named("create"))
		op := c.Operator(&e.registry, e.door)
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		c.expect(&e.calls, "settings", "use", "login, trusting the environment: true")
		op.Stop()
	})
	c.Run(t, "DF-32 the client has the settings of the moment of its first use, and that of the operator those after the start", func(c *C) {
		c.OnlyInBubble("it counts the seconds")
		var mu sync.Mutex
		took, refuse := map[string]time.Duration{}, false
		ask := func(ctx context.Context, what string, client *kopf.Client) {
			mu.Lock()
			refuse = true
			mu.Unlock()
			began := time.Now()
			_ = client.Get(ctx, c.Ref("none"), &kopf.Body{}, nil)
			mu.Lock()
			defer mu.Unlock()
			refuse, took[what] = false, time.Since(began).Truncate(time.Second)
		}
		registry := &kopf.Registry{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			a.Settings.Networking.ErrorBackoffs = []time.Duration{10 * time.Second}
			ask(ctx, "start", a.Client)
			a.Settings.Networking.ErrorBackoffs = []time.Duration{60 * time.Second}
			return nil
		}, id("startup"))
		registry.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ask(ctx, "operator", ch.Client)
			return ready(ctx, ch)
		}, named("create"))
		c.Operator(registry, wired(func(req *Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if refuse {
				return Answer(http.StatusInternalServerError, "InternalError", "asked for"), nil
			}
			return nil, nil
		}))
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		for what, want := range map[string][2]time.Duration{"start": {10 * time.Second, 30 * time.Second}, "operator": {60 * time.Second, 80 * time.Second}} {
			if got := took[what]; got < want[0] || got > want[1] {
				c.Errorf("%s: a request that fails was given up after %s, want %s", what, got, want)
			}
		}
	})
})

// instance names an operator for its handlers.
func instance(name string) func(*kopf.Operator) {
	return func(op *kopf.Operator) { op.Settings.Posting.ReportingInstance = name }
}

// activity is a handler of an activity that records its call.
func (l *calls) activity(name string) kopf.ActivityFunc {
	return func(context.Context, *kopf.Activity) error {
		l.add("%s", name)
		return nil
	}
}

// expectAll waits until exactly these calls were recorded, in any order.
func (c *C) expectAll(l *calls, want ...string) {
	c.Helper()
	c.WaitFor(fmt.Sprintf("the calls %q", want), func() bool { return len(l.all()) >= len(want) })
	c.same("the calls", slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(l.all())))
}
