package contract

import (
	"context"
	"errors"
	"fmt"
	"go/token"
	"iter"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how an operator starts and shuts down, in 4-operator-and-kits.md.

var _ = SerialSuite("operator_lifecycle", func(t *testing.T, c *C) {
	activityOptions(t, c)
	startOrder(t, c)
	stopOrder(t, c)
})

func activityOptions(t *testing.T, c *C) {
	c.Run(t, "OP-2 the options of start-up, clean-up and logins are the same", func(c *C) {
		c.OnlyInBubble("it waits")
		for _, kind := range []string{"startup", "cleanup", "login"} {
			var l calls
			opts := &kopf.ActivityOptions{ID: "it", Param: "param", Retries: 2, Backoff: 3 * time.Second}
			note := func(param any, retry int, runtime time.Duration) error {
				l.add("%v %d after %s", param, retry, runtime)
				return errOops
			}
			r := &kopf.Registry{}
			activity := func(ctx context.Context, a *kopf.Activity) error { return note(a.Param, a.Retry, a.Runtime) }
			switch kind {
			case "startup":
				r.OnStartup(activity, opts)
			case "cleanup":
				r.OnCleanup(activity, opts)
			case "login":
				r.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
					return nil, note(l.Param, l.Retry, l.Runtime)
				}, opts)
			}
			op, _, _ := c.operatorOn(r)
			if kind == "login" {
				op.Connection = nil
			}
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			err := op.Run(ctx)
			cancel()
			if err == nil || !strings.Contains(err.Error(), "'it'") {
				c.Errorf("%s: got %v", kind, err)
			}
			if got, want := l.all(), []string{"param 0 after 0s", "param 1 after 3s"}; !slices.Equal(got, want) {
				c.Errorf("%s: got the calls %q, want %q", kind, got, want)
			}
		}
	})
	c.Run(t, "OP-3 the id is the name of the function, and a function is called once under it", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		noted = &l
		r.OnStartup(noteStartup, nil)
		r.OnStartup(noteStartup, nil)
		r.OnStartup(noteStartup, id("another"))
		text := panicOf(func() { r.OnStartup(func(context.Context, *kopf.Activity) error { return nil }, id("another")) })
		if !strings.Contains(text, `the handler "another" is in conflict with the handler "another" registered at`) {
			c.Errorf("another function under the same id: %s", text)
		}
		op := c.Operator(r)
		c.expect(&l, "startup", "startup")
		want := []string{"INFO Activity 'noteStartup' succeeded.", "INFO Activity 'another' succeeded."}
		if got := op.Logs.messages("succeeded"); !slices.Equal(got, want) {
			c.Errorf("got the lines %q, want %q", got, want)
		}
	})
	c.Run(t, "OP-9 what logins return is kept by their ids", func(c *C) {
		e := newEntry()
		e.registry.OnCreate(Examples, ready, named("create"))
		for _, name := range []kopf.HandlerID{"low", "high", "none"} {
			e.login(name, kopf.ActivityOptions{}, func() *kopf.ConnectionInfo {
				if name == "none" {
					return nil
				}
				info := e.info()
				info.Priority = map[kopf.HandlerID]int{"low": 1, "high": 2}[name]
				return info
			})
		}
		// The server refuses the credentials one after another, in the order of their priorities.
		op := c.Operator(&e.registry, e.door)
		var refused atomic.Int64
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && refused.Add(1) <= 2 {
				return Answer(401, "Unauthorized", "not you"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		var ids []string
		for _, line := range op.Logs.Find("The API server refuses the credentials; logging in again") {
			ids = append(ids, line.Attrs["login"])
		}
		if want := []string{"high", "low"}; !slices.Equal(ids, want) {
			c.Errorf("refused were %q, want %q", ids, want)
		}
	})
	c.Run(t, "OP-10 activities are logged by their ids, and never posted", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			a.Logger.Info("from inside")
			if a.Retry == 0 {
				return kopf.Temporary(errOops, time.Second)
			}
			return nil
		}, id("it"))
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Posting.Loggers, op.Settings.Posting.Level = true, slog.LevelDebug
		})
		want := []string{
			"DEBUG Activity 'it' is invoked.", "WARN Activity 'it' failed temporarily: oops", "DEBUG Activity 'it' is invoked.", "INFO Activity 'it' succeeded.",
		}
		if got := op.Logs.messages("Activity 'it'"); !slices.Equal(got, want) {
			c.Errorf("got the lines %q, want %q", got, want)
		}
		if lines := op.Logs.Find("from inside"); len(lines) != 2 || lines[0].Attrs["activity"] != "startup" {
			c.Errorf("got the lines %+v", lines)
		}
		c.Pass(time.Minute)
		if posts := op.Wire.Requests("POST"); len(posts) > 0 {
			c.Errorf("got %d posts", len(posts))
		}
	})
	c.Run(t, "OP-16 the built-in logins apply where no login is registered, in any registry", func(c *C) {
		c.OnlyInBubble("it sets variables")
		c.TB.Setenv("HOME", c.TempDir())
		c.TB.Setenv("KUBECONFIG", path.Join(c.TempDir(), "nothing"))
		c.TB.Setenv("KUBERNETES_SERVICE_HOST", "")
		op, _, _ := c.operatorOn(&kopf.Registry{})
		op.Connection = nil
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), "nothing does not exist") {
			c.Errorf("got %v, want the places that were looked at", err)
		}
		e := newEntry()
		e.login("own", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo { return e.info() })
		c.Operator(&e.registry, e.door)
		if got := e.calls.count("own"); got != 1 {
			c.Errorf("the own login was called %d times", got)
		}
	})
}

// noted has the calls of noteStartup, which must be a named function.
var noted *calls

func noteStartup(context.Context, *kopf.Activity) error {
	noted.add("startup")
	return nil
}

func startOrder(t *testing.T, c *C) {
	c.Run(t, "OP-18 all parameters are optional", func(c *C) {
		c.OnlyInBubble("it serves the whole cluster")
		op := &kopf.Operator{Connection: c.ConnectionInfo()} // it logs to the default logger of package slog
		ctx, cancel := context.WithCancel(c.Context())
		op.Ready = cancel
		if err := op.Run(ctx); err != nil {
			c.Errorf("got %v", err)
		}
		want := []string{
			"Clusterwide", "Connection", "Identity", "KubeContext", "Kubeconfig", "Lifecycle", "LivenessEndpoint", "LivenessListener", "Logger", "Memo", "Namespaces",
			"Peering", "Ready", "Registry", "Settings",
		}
		got := slices.DeleteFunc(fieldsOf(kopf.Operator{}), func(name string) bool { return !token.IsExported(name) })
		c.same("the parameters", want, got)
	})
	c.Run(t, "OP-28 start-up handlers come first, then all else", func(c *C) {
		c.OnlyInBubble("it waits")
		var l calls
		r := eventful()
		r.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			time.Sleep(time.Minute)
			l.add("startup")
			return nil
		}, id("startup"))
		began := time.Now()
		op := c.Operator(r, func(op *kopf.Operator) { op.Ready = func() { l.add("ready") } })
		c.expect(&l, "startup", "ready")
		if first := op.Wire.Requests()[0]; first.Time.Sub(began) != time.Minute {
			c.Errorf("the first request was made after %s", first.Time.Sub(began))
		}
	})
	c.Run(t, "OP-29 a login that hangs does not keep the probes from answering", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		e := newEntry()
		e.registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
			wantAnswer(c, "liveness", p.ask("GET", "/healthz"), "200 {}")
			return e.info(), nil
		}, id("login"))
		c.Operator(&e.registry, e.door, probed(p, "http://0.0.0.0/healthz"))
	})
	c.Run(t, "OP-30 the first scan is for the groups that handlers name", func(c *C) {
		op := c.Operator(eventful(), alone, canned(map[string]string{
			"/apis": classicGroups("kopf.dev v1 v1", "other.dev v1 v1"), "/apis/kopf.dev/v1": examplesDoc, "/apis/other.dev/v1": kinds(),
		}))
		c.WaitFor("the watch", func() bool { return op.served("kopf.dev", "kopfexamples") })
		if got, want := op.discoveries(), []string{"/apis", "/apis/kopf.dev/v1"}; !slices.Equal(got, want) {
			c.Errorf("got the requests %q, want %q", got, want)
		}
	})
	c.Run(t, "OP-31 each resource has a stream in each namespace", func(c *C) {
		other := c.Unique("other")
		c.Of("v1", "Namespace").Create(other, nil)
		defer c.Of("v1", "Namespace").Delete(other)
		op := c.Operator(eventful(), func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, other} })
		for _, space := range []string{c.Namespace, other} {
			path := fmt.Sprintf("/apis/kopf.dev/v1/namespaces/%s/kopfexamples", space)
			c.WaitFor("the watch", func() bool { watched, lists := op.queries(path); return len(watched) == 1 && lists == 1 })
		}
	})
	c.Run(t, "OP-32 handlers wait until all indices are full, once", func(c *C) {
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, "kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, i *kopf.Indexing) (map[string]int64, error) {
			return map[string]int64{i.Name(): 1}, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("event %s, %d indexed", e.Name(), len(slices.Collect(keysOf(e.Indices.All("index")))))
			return nil
		}, watchedAs("event"))
		c.Create("a", nil)
		c.Of("kopf.dev/v1", "KopfStatusExample").Create("b", nil)
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "/kopfstatusexamples?") && !strings.Contains(req.Path, "watch=true") {
				door.pass(c.Context())
			}
			return nil, nil
		}))
		c.Pass(time.Second)
		c.expect(&l)
		door.let()
		c.expect(&l, "event a, 1 indexed")
		c.Create("c", nil)
		c.expect(&l, "event a, 1 indexed", "event c, 1 indexed")
	})
	c.Run(t, "OP-34 an operator ends with the error of what it cannot be without", func(c *C) {
		r := eventful()
		r.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "check"})
		op, _, logs := c.operatorOn(r)
		op.Settings = kopf.NewSettings()
		op.Settings.Admission.Server = brokenServer{}
		if err := op.Run(c.Context()); !errors.Is(err, errOops) {
			c.Errorf("got %v, want the error of the server", err)
		}
		if lines := logs.messages("Stopping operator"); len(lines) > 0 {
			c.Errorf("an operator that has failed logs %q", lines)
		}
	})
	c.Run(t, "OP-T2 a stream that fails is opened again, and readiness tells of it", func(c *C) {
		c.OnlyInBubble("it waits")
		var l calls
		var broken atomic.Bool
		p := newPipe()
		r := &kopf.Registry{}
		r.OnEvent(Examples, sizes(&l, time.Now()), watchedAs("event"))
		op := c.Operator(r, probed(p, "http://0.0.0.0/healthz"), wired(func(req *Request) (*http.Response, error) {
			if broken.Load() && strings.Contains(req.Path, "/kopfexamples?") {
				return Answer(500, "InternalError", "etcd is away"), nil
			}
			return nil, nil
		}))
		c.Pass(time.Second)
		broken.Store(true)
		op.Wire.Drop()
		c.Pass(10 * time.Minute)
		if got := p.ask("GET", "/readyz"); got.code != 503 || !strings.Contains(got.body, `"working":0`) {
			c.Errorf("readiness tells %s", got)
		}
		broken.Store(false)
		c.Create("a", sized(1))
		c.WaitFor("the event", func() bool { return l.count("") == 1 })
		c.WaitFor("readiness", func() bool { return p.ask("GET", "/readyz").code == 200 })
	})
}

// brokenServer is a webhook server that fails.
type brokenServer struct{}

func (brokenServer) Serve(context.Context, kopf.ReviewFunc, func(kopf.WebhookClientConfig)) error {
	return errOops
}

func keysOf(all iter.Seq2[any, []any]) iter.Seq[any] {
	return func(yield func(any) bool) {
		for key := range all {
			if !yield(key) {
				return
			}
		}
	}
}

func stopOrder(t *testing.T, c *C) {
	for _, how := range []string{"OP-38 daemons end before clean-up handlers run, and connections after them", "OP-44 the end of the context of a program around it is the same"} {
		c.Run(t, how, func(c *C) {
			var l calls
			r := &kopf.Registry{}
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				<-ctx.Done()
				l.add("daemon, %s", d.StopReason())
				return nil
			}, daemonID("daemon"))
			r.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
				_, err := a.Client.Resources(ctx) // the connection still works
				l.add("cleanup, %v", err)
				return nil
			}, id("cleanup"))
			op, wire, logs := c.operatorOn(r)
			ctx, cancel := context.WithCancelCause(c.Context())
			defer cancel(nil)
			ended := make(chan error, 1)
			go func() { ended <- op.Run(ctx) }()
			c.Create("a", nil)
			c.WaitFor("the daemon", func() bool { return len(logs.Find("Daemon 'daemon' is invoked.")) == 1 })
			c.held("a")
			cancel(errors.New("the program around it ends"))
			if err := <-ended; err != nil {
				c.Errorf("got %v", err)
			}
			c.expect(&l, "daemon, OperatorExiting", "cleanup, <nil>")
			n := len(wire.Requests())
			wire.Drop()
			c.Pass(time.Second)
			if more := len(wire.Requests()) - n; more > 0 {
				c.Errorf("%d requests were made after the end", more)
			}
		})
	}
	c.Run(t, "OP-40 all daemons are stopped at once, each with its own patience", func(c *C) {
		c.OnlyInBubble("it waits")
		r := &kopf.Registry{}
		for _, name := range []kopf.HandlerID{"one", "two"} {
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				time.Sleep(time.Hour) // it ignores its context
				return nil
			}, &kopf.DaemonOptions{ID: name, CancellationBackoff: 5 * time.Second, CancellationTimeout: 3 * time.Second})
		}
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("both daemons", func() bool { return len(op.Logs.Find("is invoked.")) == 2 })
		c.held("a")
		began := time.Now()
		if err := op.Err(); err != nil {
			c.Errorf("got %v", err)
		}
		if took := time.Since(began).Round(time.Second); took != 8*time.Second {
			c.Errorf("the exit took %s, want 8s", took)
		}
		if lines := op.Logs.messages("Leaving it orphaned"); len(lines) != 2 || !strings.HasPrefix(lines[0], "WARN") {
			c.Errorf("got the lines %q", lines)
		}
		time.Sleep(2 * time.Hour) // until they end
	})
	for pattern, want := range map[string]bool{"leaf": true, "le*": true, "l??f": true, " leaf ": true, "*, !le*": false, "!leaf": false, "!other": true, "other,leaf": false, "*,!le*,leaf": true} {
		c.Run(t, fmt.Sprintf("OP-63 whether %q serves the namespace leaf", pattern), func(c *C) {
			c.OnlyInBubble("its namespace has that name")
			op := c.Operator(eventful(), func(op *kopf.Operator) { op.Namespaces = []string{pattern} })
			c.Pass(time.Second)
			if got := op.served("kopf.dev", "kopfexamples"); got != want {
				c.Errorf("got %t, want %t", got, want)
			}
		})
	}
}
