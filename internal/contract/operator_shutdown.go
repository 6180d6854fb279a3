package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that an operator shuts down within its time limits, regardless of user functions.

var _ = ClusterSuite("operator_shutdown", func(t *testing.T, c *C) {
	// endsWithin runs an operator for a minute, cancels it, and returns its error after the shutdown, which must be within the limit.
	endsWithin := func(c *C, limit time.Duration, op *kopf.Operator) error {
		c.Helper()
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- op.Run(ctx) }()
		c.Pass(time.Minute)
		cancel()
		began := time.Now()
		select {
		case err := <-ended:
			if took := time.Since(began); took > limit {
				c.Errorf("the operator has ended after %s, want at most %s", took, limit)
			}
			return err
		case <-time.After(24 * time.Hour):
			c.Errorf("the operator has not ended within a day")
			return nil
		}
	}
	for _, tt := range []struct {
		name  string
		limit time.Duration
		left  string // a part of the log line with the name of the remaining function
		stuck func(c *C, registry *kopf.Registry, op *kopf.Operator, stuck <-chan struct{})
	}{
		{"a first login", 10 * time.Second, "handler of the login 'stuck'", func(_ *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			op.Connection = nil
			r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) { <-stuck; return nil, nil }, id("stuck"))
		}},
		{"a later login", 20 * time.Second, "handler of the login 'stuck'", func(c *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			c.meet()
			var refused atomic.Bool
			info, next := *op.Connection, op.Connection.HTTPClient.Transport
			info.HTTPClient = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				if refused.Load() {
					return Answer(http.StatusUnauthorized, "Unauthorized", "the token has expired"), nil
				}
				return next.RoundTrip(req)
			})}
			op.Connection = nil
			time.AfterFunc(30*time.Second, func() { refused.Store(true) })
			r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) {
				if refused.Load() {
					<-stuck
				}
				return &info, nil
			}, id("stuck"))
			r.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_ = a.Client.Get(ctx, c.Ref("a"), &kopf.Body{}, nil) // it starts the login
				return nil
			}, id("cleanup"))
		}},
		{"a start-up handler", 10 * time.Second, "handler of the startup 'stuck'", func(_ *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			r.OnStartup(func(context.Context, *kopf.Activity) error { <-stuck; return nil }, id("stuck"))
		}},
		{"a clean-up handler", 11 * time.Minute, "handler of the cleanup 'stuck'", func(_ *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			r.OnCleanup(func(context.Context, *kopf.Activity) error { <-stuck; return nil }, id("stuck"))
		}},
		{"a clean-up handler that always fails", 11 * time.Minute, "", func(_ *C, r *kopf.Registry, op *kopf.Operator, _ <-chan struct{}) {
			r.OnCleanup(func(context.Context, *kopf.Activity) error { return errors.New("not yet") }, id("failing"))
		}},
		{"a probe", 10 * time.Second, "Some probes did not return", func(_ *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			p := newPipe()
			probed(p, "http://:8080/healthz")(op)
			r.OnProbe(func(context.Context, *kopf.Probe) (any, error) { <-stuck; return nil, nil }, &kopf.ProbeOptions{ID: "stuck", Timeout: 24 * time.Hour})
			time.AfterFunc(59*time.Second, func() { p.ask(http.MethodGet, "/healthz") })
		}},
		{"a handler of paths for debugging", 10 * time.Second, "Some requests to the liveness endpoint did not return", func(_ *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			p := newPipe()
			probed(p, "http://:8080/healthz")(op)
			op.Settings.Process.Debug = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck })
			time.AfterFunc(30*time.Second, func() { p.ask(http.MethodGet, "/debug/stuck") })
		}},
		{"an admission server", 2 * time.Minute, "The admission server did not return", func(_ *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			op.Settings.Admission.Server = stuckServer{stuck}
			r.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "check"})
		}},
		{"Ready", 10 * time.Second, "The function Ready", func(_ *C, r *kopf.Registry, op *kopf.Operator, stuck <-chan struct{}) {
			op.Ready = func() { <-stuck }
		}},
	} {
		c.Run(t, fmt.Sprintf("DF-19 the operator ends although it waits for %s that does not end", tt.name), func(c *C) {
			c.OnlyInBubble("it waits")
			registry := &kopf.Registry{}
			registry.OnCreate(Examples, ready, named("create"))
			op, _, logs := c.operatorOn(registry)
			op.Settings = kopf.NewSettings()
			stuck := make(chan struct{})
			tt.stuck(c, registry, op, stuck)
			_ = endsWithin(c, tt.limit, op)
			if lines := logs.Find("abandoning"); tt.left != "" && (len(lines) != 1 || !strings.Contains(lines[0].Message+lines[0].Attrs["function"], tt.left)) {
				c.Errorf("got the lines %+v, want one with %q", lines, tt.left)
			}
			close(stuck)
			c.Pass(time.Minute)
		})
	}
	c.Run(t, "DF-19 the operator does not wait for a retry that a handler wants while it shuts down", func(c *C) {
		c.OnlyInBubble("it takes a minute")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
			time.Sleep(63 * time.Second) // until after the beginning of the shutdown, regardless of its context
			return kopf.Temporary(errOops, time.Hour)
		}, named("create"))
		op := &kopf.Operator{Registry: r, Namespaces: []string{c.Namespace}, Connection: c.ConnectionInfo(), Settings: kopf.NewSettings()}
		op.Settings.Queueing.ExitTimeout = 10 * time.Second
		c.Create("a", nil)
		if err := endsWithin(c, 10*time.Second, op); err != nil {
			c.Errorf("got %v", err)
		}
	})
	c.Run(t, "DF-19 clean-up handlers that do not finish fail the operator, and say so", func(c *C) {
		c.OnlyInBubble("it waits")
		registry := &kopf.Registry{}
		registry.OnCleanup(func(context.Context, *kopf.Activity) error { return errors.New("not yet") }, id("failing"))
		op, _, _ := c.operatorOn(registry)
		op.Settings = kopf.NewSettings()
		op.Settings.Process.UltimateExitingTimeout = 90 * time.Second
		err := endsWithin(c, 91*time.Second, op)
		if err == nil || !strings.Contains(err.Error(), "1m30s") || !errors.Is(err, context.DeadlineExceeded) {
			c.Errorf("got %v, want an error that tells the limit", err)
		}
	})
})

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// stuckServer is an admission server that ignores its canceled context.
type stuckServer struct{ stuck <-chan struct{} }

func (s stuckServer) Serve(context.Context, kopf.ReviewFunc, func(kopf.WebhookClientConfig)) error {
	<-s.stuck
	return nil
}
