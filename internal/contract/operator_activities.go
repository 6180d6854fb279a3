package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// The activities of the operator: its startup, its cleanup, its logins.

var _ = Suite("operator_activities", func(t *testing.T, c *C) {
	c.Run(t, "OP-1 settings are adjusted by start-up handlers", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			a.Settings.Persistence.Finalizer = "example.com/held"
			return nil
		}, id("configure"))
		registry.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "delete"})
		c.Operator(registry)
		c.Create("a", nil)
		c.WaitFor("the finalizer of the settings", func() bool { return slices.Contains(c.Get("a").Finalizers(), "example.com/held") })
	})
	c.Run(t, "OP-4 handlers run one after another in the order of their registration", func(c *C) {
		registry, calls := &kopf.Registry{}, &journal{}
		for _, name := range []string{"first", "second", "third"} {
			registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
				calls.add(name + " begins")
				time.Sleep(10 * time.Millisecond)
				calls.add(name + " ends")
				return nil
			}, id(name))
		}
		c.Operator(registry)
		calls.want(c, "first begins", "first ends", "second begins", "second ends", "third begins", "third ends")
	})
	c.Run(t, "OP-5 only unfinished handlers are called again, after their delay", func(c *C) {
		c.OnlyInBubble("it waits")
		registry, calls := &kopf.Registry{}, &journal{}
		began := time.Now()
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			calls.add("quick")
			return nil
		}, id("quick"))
		for name, delay := range map[string]time.Duration{"near": 10 * time.Second, "far": 30 * time.Second} {
			registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
				if a.Retry == 0 {
					return kopf.Temporary(errors.New("not yet"), delay)
				}
				calls.add(fmt.Sprint(name, " after ", time.Since(began)))
				return nil
			}, id(name))
		}
		c.Operator(registry)
		calls.want(c, "quick", "near after 10s", "far after 30s")
	})
	c.Run(t, "OP-6 an arbitrary error is retried after the default back-off", func(c *C) {
		c.OnlyInBubble("it waits")
		registry, began := &kopf.Registry{}, time.Now()
		var took time.Duration
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			took = time.Since(began)
			if a.Retry < 2 {
				return errors.New("something has gone wrong")
			}
			return nil
		}, id("startup"))
		c.Operator(registry)
		if took != 2*time.Minute {
			c.Errorf("the third attempt after %s, want 2m", took)
		}
	})
	c.Run(t, "OP-7 the number of attempts is limited", func(c *C) {
		c.OnlyInBubble("it waits")
		registry, calls := &kopf.Registry{}, &journal{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			calls.add(fmt.Sprint("attempt ", a.Retry))
			return errors.New("something has gone wrong")
		}, &kopf.ActivityOptions{ID: "startup", Retries: 3, Backoff: time.Second})
		_, _, err := c.runToEnd(registry)
		if out := (*kopf.HandlerRetriesError)(nil); !errors.As(err, &out) {
			c.Errorf("got %v, want an error about retries", err)
		}
		calls.want(c, "attempt 0", "attempt 1", "attempt 2")
	})
	c.Run(t, "OP-8 one failure neither stops the others nor is forgotten", func(c *C) {
		registry, calls := &kopf.Registry{}, &journal{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			return kopf.Permanent(errors.New("hopeless"))
		}, id("failing"))
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			calls.add("other")
			return nil
		}, id("other"))
		_, _, err := c.runToEnd(registry)
		if err == nil || !strings.Contains(err.Error(), "'failing'") || !strings.Contains(err.Error(), "hopeless") {
			c.Errorf("got %v, want the failure of the handler", err)
		}
		calls.want(c, "other")
	})
	c.Run(t, "OP-11 all activities get the operator's memo itself", func(c *C) {
		registry, memo, calls := &kopf.Registry{}, &kopf.Memo{}, &journal{}
		check := func(ctx context.Context, a *kopf.Activity) error {
			calls.add(fmt.Sprint(a.Memo() == memo))
			return nil
		}
		registry.OnStartup(check, id("startup"))
		registry.OnCleanup(check, id("cleanup"))
		c.Operator(registry, func(op *kopf.Operator) { op.Memo = memo }).Stop()
		calls.want(c, "true", "true")
	})
	c.Run(t, "OP-12 nothing is asked of the server before the start-up handlers have succeeded", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			return kopf.Permanent(errors.New("hopeless"))
		}, id("startup"))
		registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
			c.Error("there is nothing to clean up")
			return nil
		}, id("cleanup"))
		wire, _, err := c.runToEnd(registry)
		if requests := wire.Requests(); err == nil || len(requests) > 0 {
			c.Errorf("got %v and %d requests", err, len(requests))
		}
	})
	c.Run(t, "OP-T8 what has started is cleaned up even if another start has failed", func(c *C) {
		registry, calls := &kopf.Registry{}, &journal{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error { return nil }, id("good"))
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			return kopf.Permanent(errors.New("hopeless"))
		}, id("bad"))
		registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
			calls.add("cleanup")
			return nil
		}, id("cleanup"))
		if _, _, err := c.runToEnd(registry); err == nil {
			c.Error("the failure is forgotten")
		}
		calls.want(c, "cleanup")
	})
	c.Run(t, "OP-13 clean-up handlers come last, and can still ask the server", func(c *C) {
		registry, calls := &kopf.Registry{}, &journal{}
		working := make(chan struct{})
		registry.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			close(working)
			time.Sleep(100 * time.Millisecond)
			calls.add("handler ends")
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
			var body kopf.Body
			calls.add(fmt.Sprint("cleanup gets ", a.Client.Get(ctx, c.Ref("a"), &body, nil)))
			return nil
		}, id("cleanup"))
		operator := c.Operator(registry)
		c.Create("a", nil)
		<-working
		operator.Stop()
		calls.want(c, "handler ends", "cleanup gets <nil>")
	})
	c.Run(t, "OP-46 a stop during the start ends the handler, and cleans nothing up", func(c *C) {
		registry, calls := &kopf.Registry{}, &journal{}
		ctx, stop := context.WithCancel(c.Context())
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			stop()
			<-ctx.Done()
			calls.add("startup ends")
			return ctx.Err()
		}, id("startup"))
		registry.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
			calls.add("cleanup")
			return nil
		}, id("cleanup"))
		op, _, _ := c.operatorOn(registry)
		if err := op.Run(ctx); err != nil {
			c.Errorf("got %v, want an orderly end", err)
		}
		calls.want(c, "startup ends")
	})
})

var _ = Suite("operator_logins", func(t *testing.T, c *C) {
	c.Run(t, "OP-14 a login without a result ends the operator", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) { return nil, nil }, id("nobody"))
		op, _, _ := c.operatorOn(registry)
		op.Connection = nil
		err := op.Run(c.Context())
		if failed := (*kopf.LoginError)(nil); !errors.As(err, &failed) {
			c.Errorf("got %v, want a login error", err)
		}
	})
	c.Run(t, "OP-15 a login handler may have nothing to tell", func(c *C) {
		e := newEntry()
		e.login("nobody", kopf.ActivityOptions{}, nobody)
		e.login("somebody", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo { return e.info() })
		e.registry.OnCreate(Examples, ready, named("create"))
		c.Operator(&e.registry, e.door)
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
	})
	c.Run(t, "OP-T1 a login that fails for good ends the operator", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnLogin(func(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
			return nil, kopf.Permanent(errors.New("the vault is sealed"))
		}, id("vault"))
		op, _, _ := c.operatorOn(registry)
		op.Connection = nil
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), "the vault is sealed") {
			c.Errorf("got %v, want the failure of the login", err)
		}
	})
})

// id returns the options of an activity with only an id.
func id(name string) *kopf.ActivityOptions { return &kopf.ActivityOptions{ID: kopf.HandlerID(name)} }

// operatorOn returns an operator that the leaf itself runs, because it does not become ready.
func (c *C) operatorOn(registry *kopf.Registry) (*kopf.Operator, *Wire, *Logs) {
	wire, logs := &Wire{base: c.transport()}, &Logs{}
	op := &kopf.Operator{Registry: registry, Namespaces: []string{c.Namespace}, Connection: c.ConnectionInfo()}
	op.Connection.HTTPClient = &http.Client{Transport: wire}
	op.Logger = c.logger(logs)
	return op, wire, logs
}

// runToEnd runs an operator that ends by itself.
func (c *C) runToEnd(registry *kopf.Registry) (*Wire, *Logs, error) {
	c.Helper()
	op, wire, logs := c.operatorOn(registry)
	return wire, logs, op.Run(c.Context())
}

// journal records events, in order.
type journal struct {
	mu    sync.Mutex // guards notes
	notes []string
}

func (j *journal) add(note string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notes = append(j.notes, note)
}

// all returns the events so far.
func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.notes)
}

func (j *journal) want(c *C, notes ...string) {
	c.Helper()
	if got := j.all(); !slices.Equal(got, notes) {
		c.Errorf("what has happened: got %q, want %q", got, notes)
	}
}
