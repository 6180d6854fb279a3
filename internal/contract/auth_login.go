package contract

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how operators log in, in 3-admission-auth-client.md.

var _ = Suite("auth_login", func(t *testing.T, c *C) {
	loginOptions(t, c)
	loginRounds(t, c)
	loginLogs(t, c)
})

// entry has the login handlers of an operator, and the connection that they return.
type entry struct {
	registry kopf.Registry
	calls    calls
	began    time.Time
	mu       sync.Mutex
	way      *kopf.ConnectionInfo // guarded by mu; nil before the operator is made
}

func newEntry() *entry { return &entry{began: time.Now()} }

// door configures the operator to log in.
func (e *entry) door(op *kopf.Operator) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.way, op.Connection = op.Connection, nil
}

// info returns a connection to the server.
func (e *entry) info() *kopf.ConnectionInfo {
	e.mu.Lock()
	defer e.mu.Unlock()
	info := *e.way
	return &info
}

// login registers a handler that counts its calls. It returns the errors one after another, and then the result of give.
func (e *entry) login(name kopf.HandlerID, opts kopf.ActivityOptions, give func() *kopf.ConnectionInfo, errs ...error) {
	opts.ID = name
	e.registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
		e.calls.add("%s %d after %s", name, l.Retry, time.Since(e.began).Round(time.Millisecond))
		if l.Retry < len(errs) {
			return nil, errs[l.Retry]
		}
		return give(), nil
	}, &opts)
}

func nobody() *kopf.ConnectionInfo { return nil }

// fails runs an operator whose login fails, and returns its error.
func (e *entry) fails(c *C) (*Wire, *Logs, error) {
	c.Helper()
	op, wire, logs := c.operatorOn(&e.registry)
	e.door(op)
	return wire, logs, op.Run(c.Context())
}

func loginOptions(t *testing.T, c *C) {
	c.Run(t, "AC-56 a login handler gets the settings, the memo, its parameter, and which attempt it is", func(c *C) {
		c.OnlyInBubble("it waits")
		e := newEntry()
		settings := kopf.NewSettings()
		var own *kopf.Settings // of the run
		e.registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			a.Memo().Store("password", "sesame")
			own = a.Settings
			return nil
		}, id("startup"))
		var attempts []kopf.Attempt
		e.registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
			if word, _ := l.Memo().Load("password"); word != "sesame" || l.Settings != own || l.Param != "param" || l.Logger == nil {
				c.Errorf("got %+v and the memo of %v", l, word)
			}
			if attempts = append(attempts, l.Attempt); len(attempts) < 3 {
				return nil, errOops
			}
			return e.info(), nil
		}, &kopf.ActivityOptions{ID: "login", Param: "param", Backoff: 7 * time.Second})
		c.Operator(&e.registry, e.door, func(op *kopf.Operator) { op.Settings = settings })
		for i, a := range attempts {
			if pause := time.Duration(7*i) * time.Second; a.Retry != i || a.Runtime != pause || !a.Started.Equal(e.began) {
				c.Errorf("attempt %d: got %+v, want one after %s", i, a, pause)
			}
		}
		if len(attempts) != 3 {
			c.Errorf("got %d attempts, want 3", len(attempts))
		}
	})
	for _, tt := range []struct {
		name string
		opts kopf.ActivityOptions
		want []string
		why  string
	}{
		{"retries", kopf.ActivityOptions{Retries: 2, Backoff: time.Second}, []string{"login 0 after 0s", "login 1 after 1s"}, "used up its 2 attempts"},
		{"timeout", kopf.ActivityOptions{Timeout: 9 * time.Second, Backoff: 4 * time.Second}, []string{"login 0 after 0s", "login 1 after 4s", "login 2 after 8s"}, "out of time after"},
		{"errors", kopf.ActivityOptions{Errors: kopf.ErrorsPermanent}, []string{"login 0 after 0s"}, "oops"},
	} {
		c.Run(t, "AC-56 a login handler has the option "+tt.name, func(c *C) {
			c.OnlyInBubble("it waits")
			e := newEntry()
			e.login("login", tt.opts, nobody, slices.Repeat([]error{errOops}, 10)...)
			_, _, err := e.fails(c)
			if failed := (*kopf.LoginError)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), tt.why) || !strings.Contains(err.Error(), "'login'") {
				c.Errorf("got %v, want a login error with %q", err, tt.why)
			}
			if got := e.calls.all(); !slices.Equal(got, tt.want) {
				c.Errorf("got the calls %q, want %q", got, tt.want)
			}
		})
	}
	c.Run(t, "AC-62 the built-in logins can be called by own handlers", func(c *C) {
		const file = `{apiVersion: v1, kind: Config, current-context: one,
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: v, namespace: inside}}],
clusters: [{name: c, cluster: {server: 'https://server.test'}}], users: [{name: u, user: {token: t1}}, {name: v, user: {token: t2}}]}`
		path := filepath.Join(c.TempDir(), "config")
		c.writeFile(path, []byte(file))
		e := newEntry()
		e.registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
			info, err := kopf.LoginWithKubeconfig(ctx, l)
			if err != nil {
				return nil, err
			}
			if info.Server != "https://server.test" || info.Token != "t2" || info.DefaultNamespace != "inside" {
				c.Errorf("got %s, %q, %q", info.Server, string(info.Token), info.DefaultNamespace)
			}
			if info, err := kopf.LoginWithServiceAccount(ctx, l); info != nil || err != nil {
				c.Errorf("got %v and %v outside of a pod", info, err)
			}
			return e.info(), nil
		}, id("login"))
		c.Operator(&e.registry, e.door, func(op *kopf.Operator) { op.Kubeconfig, op.KubeContext = path, "two" })
	})
}

func loginRounds(t *testing.T, c *C) {
	c.Run(t, "AC-57 all handlers are called in order, and those that fail for a while again, before any is used", func(c *C) {
		c.OnlyInBubble("it waits")
		e := newEntry()
		e.login("first", kopf.ActivityOptions{}, nobody, kopf.Temporary(errOops, 5*time.Second))
		e.login("second", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo { return e.info() })
		e.login("third", kopf.ActivityOptions{}, nobody, errOops)
		op := c.Operator(&e.registry, e.door)
		if got, want := e.calls.all(), []string{"first 0 after 0s", "second 0 after 0s", "third 0 after 0s", "first 1 after 5s", "third 1 after 1m0s"}; !slices.Equal(got, want) {
			c.Errorf("got the calls %q, want %q", got, want)
		}
		if first := op.Wire.Requests()[0]; first.Time.Sub(e.began) != time.Minute {
			c.Errorf("the first request was made after %s", first.Time.Sub(e.began))
		}
	})
	c.Run(t, "AC-57 a login is tried for ever", func(c *C) {
		c.OnlyInBubble("it waits")
		e := newEntry()
		e.login("login", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo { return e.info() }, slices.Repeat([]error{errOops}, 1000)...)
		ctx, cancel := context.WithTimeout(c.Context(), 500*time.Minute+time.Second)
		defer cancel()
		op, _, _ := c.operatorOn(&e.registry)
		e.door(op)
		if err := op.Run(ctx); err != nil {
			c.Errorf("got %v", err)
		}
		if n := len(e.calls.all()); n != 501 {
			c.Errorf("got %d calls in 500 minutes, want 501", n)
		}
	})
	c.Run(t, "AC-58 one that has failed for good fails the login, whatever the others have given", func(c *C) {
		e := newEntry()
		e.login("good", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo { return e.info() })
		e.login("bad", kopf.ActivityOptions{}, nobody, kopf.Permanent(errors.New("the vault is sealed")))
		e.login("last", kopf.ActivityOptions{}, nobody)
		wire, logs, err := e.fails(c)
		if failed := (*kopf.LoginError)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "login handler 'bad': the vault is sealed") {
			c.Errorf("got %v", err)
		}
		if n := e.calls.count("last 0"); n != 1 || len(wire.Requests()) > 0 {
			c.Errorf("got %d calls of the last one, want 1, and %d requests, want none", n, len(wire.Requests()))
		}
		if lines := logs.Find("Initial authentication has failed"); len(lines) != 1 || lines[0].Level != slog.LevelDebug || !strings.Contains(lines[0].Attrs["error"], "the vault is sealed") {
			c.Errorf("got the lines %+v", lines)
		}
	})
	c.Run(t, "AC-58 nothing is a result, too", func(c *C) {
		e := newEntry()
		e.login("nobody", kopf.ActivityOptions{}, nobody)
		e.login("somebody", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo { return e.info() })
		e.registry.OnCreate(Examples, ready, named("create"))
		op := c.Operator(&e.registry, e.door)
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		if lines := op.Logs.Find("Activity 'nobody' succeeded."); len(lines) != 1 {
			c.Errorf("got the lines %+v", lines)
		}
	})
}

// messages returns the messages that contain the text, with their levels.
func (l *Logs) messages(text string) (all []string) {
	for _, line := range l.Find(text) {
		all = append(all, line.Level.String()+" "+line.Message)
	}
	return all
}

func loginLogs(t *testing.T, c *C) {
	c.Run(t, "AC-59 logins are told of, and credentials have the ids of their handlers", func(c *C) {
		e := newEntry()
		token := 0
		e.registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
			info := e.info()
			token++
			info.Priority = token // so that they differ
			return info, nil
		}, id("vault"))
		e.registry.OnCreate(Examples, ready, named("create"))
		op := c.Operator(&e.registry, e.door)
		want := []string{"INFO Initial authentication has been initiated.", "INFO Initial authentication has finished."}
		if got := op.Logs.messages("authentication"); !slices.Equal(got, want) {
			c.Errorf("got %q, want %q", got, want)
		}
		var refused atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && refused.CompareAndSwap(false, true) { // the handling waits for it
				return Answer(401, "Unauthorized", "who are you?"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		want = append(want, "INFO Re-authentication has been initiated.", "INFO Re-authentication has finished.")
		if got := op.Logs.messages("uthentication"); !slices.Equal(got, want) {
			c.Errorf("got %q, want %q", got, want)
		}
		if lines := op.Logs.Find("The API server refuses the credentials; logging in again"); len(lines) != 1 || lines[0].Attrs["login"] != "vault" {
			c.Errorf("got the lines %+v, want one with the id", lines)
		}
	})
	c.Run(t, "AC-59 a login that fails later is warned of", func(c *C) {
		e := newEntry()
		calls := 0
		e.registry.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) {
			if calls++; calls == 2 {
				return nil, kopf.Permanent(errors.New("the vault is sealed"))
			}
			return e.info(), nil
		}, id("vault"))
		e.registry.OnCreate(Examples, ready, named("create"))
		op := c.Operator(&e.registry, e.door)
		var refused atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && refused.CompareAndSwap(false, true) {
				return Answer(401, "Unauthorized", "who are you?"), nil
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		if lines := op.Logs.Find("Re-authentication has failed"); len(lines) != 1 || lines[0].Level != slog.LevelWarn || lines[0].Attrs["help"] != "K922" {
			c.Errorf("got the lines %+v", lines)
		}
	})
	c.Run(t, "AC-59 a login without any result is a failure", func(c *C) {
		e := newEntry()
		e.login("nobody", kopf.ActivityOptions{}, nobody)
		wire, logs, err := e.fails(c)
		const why = "no credentials were retrieved from the login handlers"
		if failed := (*kopf.LoginError)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), why) {
			c.Errorf("got %v", err)
		}
		lines := logs.Find("Initial authentication has failed")
		if len(lines) != 1 || lines[0].Level != slog.LevelDebug || !strings.Contains(lines[0].Attrs["error"], why) || len(wire.Requests()) > 0 {
			c.Errorf("got the lines %+v and %d requests", lines, len(wire.Requests()))
		}
	})
}
