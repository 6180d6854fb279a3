package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// Operators as a whole: how they run and stop, and which namespaces they serve.

var _ = ClusterSuite("operator_start", func(t *testing.T, c *C) {
	c.Run(t, "OP-19 start-up handlers have the last word over settings", func(c *C) {
		registry, settings := &kopf.Registry{}, kopf.NewSettings()
		settings.Persistence.Finalizer = "example.com/first"
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			if a.Settings == settings || a.Settings.Persistence.Finalizer != "example.com/first" {
				c.Error("the handler does not get a copy of the operator's settings")
			}
			a.Settings.Persistence.Finalizer = "example.com/last"
			return nil
		}, id("configure"))
		registry.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "delete"})
		c.Operator(registry, func(op *kopf.Operator) { op.Settings = settings })
		c.Create("a", nil)
		c.WaitFor("the finalizer", func() bool { return fmt.Sprint(c.Get("a").Finalizers()) == "[example.com/last]" })
	})
	c.Run(t, "OP-20 both scopes are an error", func(c *C) {
		op, _, _ := c.operatorOn(&kopf.Registry{})
		op.Clusterwide = true
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), "not both") {
			c.Errorf("got %v", err)
		}
	})
	c.Run(t, "OP-22 it is ready once the start-up handlers have succeeded", func(c *C) {
		registry, calls := &kopf.Registry{}, &journal{}
		registry.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
			time.Sleep(100 * time.Millisecond)
			calls.add("startup ends")
			return nil
		}, id("startup"))
		c.Operator(registry, func(op *kopf.Operator) { op.Ready = func() { calls.add("ready") } })
		calls.want(c, "startup ends", "ready")
	})
	c.Run(t, "OP-23 operators in one process share nothing", func(c *C) {
		calls := &journal{}
		for _, name := range []string{"one", "two"} {
			registry := &kopf.Registry{}
			registry.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
				if _, seen := e.Memo().Load("seen"); !seen {
					calls.add(name)
				}
				e.Memo().Store("seen", true)
				return nil
			}, &kopf.EventOptions{ID: "event"})
			c.Operator(registry)
		}
		c.Create("a", nil)
		c.WaitFor("both operators", func() bool { return len(calls.all()) == 2 })
	})
	c.Run(t, "OP-T3 the end of one operator does not end another one", func(c *C) {
		first, second := &kopf.Registry{}, &kopf.Registry{}
		second.OnCreate(Examples, ready, &kopf.ChangeOptions{ID: "create"})
		one := c.Operator(first)
		c.Operator(second)
		one.Stop()
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
	})
	c.Run(t, "OP-27 the start is told with the version", func(c *C) {
		logs := c.Operator(&kopf.Registry{}).Logs
		for text, level := range map[string]slog.Level{"Starting operator": slog.LevelDebug, "Operator started": slog.LevelInfo} {
			if lines := logs.Find(text); len(lines) != 1 || lines[0].Level != level || lines[0].Attrs["version"] != kopf.Version {
				c.Errorf("got %+v", lines)
			}
		}
	})
	c.Run(t, "OP-39 handlers may finish, but not for ever", func(c *C) {
		c.OnlyInBubble("it waits")
		registry, calls := &kopf.Registry{}, &journal{}
		registry.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			select {
			case <-ctx.Done():
				calls.add(ch.Name() + " is cut off")
				return ctx.Err()
			case <-time.After(time.Duration(ch.Spec().Int("seconds")) * time.Second):
				calls.add(ch.Name() + " ends")
				return nil
			}
		}, &kopf.ChangeOptions{ID: "create"})
		operator := c.Operator(registry)
		c.Create("short", map[string]any{"spec": map[string]any{"seconds": 1}})
		c.Create("long", map[string]any{"spec": map[string]any{"seconds": 10}})
		c.Pass(time.Millisecond)
		began := time.Now()
		operator.Stop()
		if took := time.Since(began); took != 2*time.Second {
			c.Errorf("the exit took %s, want 2s", took)
		}
		calls.want(c, "short ends", "long is cut off")
		if progress, ok := c.Get("long").Annotation("kopf.zalando.org/create"); ok && strings.Contains(progress, `"retries":1`) {
			c.Errorf("the attempt has left a trace: %s", progress)
		}
		c.Operator(registry)
		c.WaitFor("the long one, again", func() bool { return len(calls.all()) == 3 })
	})
})

var _ = ClusterSuite("operator_scope", func(t *testing.T, c *C) {
	c.Run(t, "OP-62 a cluster-wide operator does not ask for namespaces", func(c *C) {
		c.OnlyInBubble("other leaves have objects too")
		registry := &kopf.Registry{}
		registry.OnCreate(Examples, ready, &kopf.ChangeOptions{ID: "create"})
		operator := c.Operator(registry, func(op *kopf.Operator) { op.Namespaces = nil })
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		for _, r := range operator.Wire.Requests("GET") {
			if strings.HasPrefix(r.Path, "/api/v1/namespaces?") || strings.Contains(r.Path, "/namespaces/") {
				c.Errorf("it asks for %s", r.Path)
			}
		}
	})
	c.Run(t, "OP-64 resources outside of namespaces are served once", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnCreate("kopfclusterexamples.v1.kopf.dev", ready, &kopf.ChangeOptions{ID: "create", When: func(ch *kopf.Change) bool {
			return strings.HasPrefix(ch.Name(), c.Namespace)
		}})
		operator := c.Operator(registry)
		kind, name := c.Of("kopf.dev/v1", "KopfClusterExample"), c.Unique("a")
		kind.Create(name, nil)
		defer kind.Delete(name)
		c.WaitFor("the handling", func() bool { return kind.Get(name).Status().String("phase") == "Ready" })
		if n := watches(operator, "/apis/kopf.dev/v1/kopfclusterexamples"); n != 1 {
			c.Errorf("got %d watches, want 1", n)
		}
	})
	c.Run(t, "OP-65 namespaces come and go", func(c *C) {
		registry, calls := &kopf.Registry{}, &journal{}
		registry.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			calls.add(ch.Namespace())
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		c.Operator(registry, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "-*"} })
		c.Create("unserved", nil)
		namespaces := c.Of("v1", "Namespace")
		later := c.Unique("later")
		namespaces.Create(later, nil)
		defer namespaces.Delete(later)
		object := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "a", "namespace": later}}
		if err := c.Client.Create(c.Context(), object, nil); err != nil {
			c.Fatal(err)
		}
		c.WaitFor("the handling in the new namespace", func() bool { return len(calls.all()) > 0 })
		calls.want(c, later)
	})
	c.Run(t, "OP-66 without the right to list namespaces, exact names are served", func(c *C) {
		registry := &kopf.Registry{}
		registry.OnCreate(Examples, ready, &kopf.ChangeOptions{ID: "create"})
		operator := c.Operator(registry, func(op *kopf.Operator) {
			op.Namespaces = []string{c.Namespace, "pattern-*"}
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(r *Request) (*http.Response, error) {
				if strings.HasPrefix(r.Path, "/api/v1/namespaces?") {
					return Answer(403, "Forbidden", "namespaces is forbidden"), nil
				}
				return nil, nil
			})
		})
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		warned := false
		for _, line := range operator.Logs.Find("Serving only the namespaces given by exact names, because namespaces are not listed") {
			warned = warned || line.Level == slog.LevelWarn
		}
		if !warned {
			c.Error("there is no warning")
		}
	})
	c.Run(t, "OP-67 a resource that is missing is waited for", func(c *C) {
		c.OnlyInBubble("definitions are seen by all leaves")
		registry := &kopf.Registry{}
		registry.OnCreate("latecomers.v1.example.com", ready, &kopf.ChangeOptions{ID: "create"})
		operator := c.Operator(registry)
		if len(operator.Logs.Find("latecomers")) == 0 {
			c.Error("there is no warning")
		}
		c.Define(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "latecomers.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced",
				"names": map[string]any{"plural": "latecomers", "kind": "Latecomer", "singular": "latecomer", "listKind": "LatecomerList"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			},
		})
		late := c.Of("example.com/v1", "Latecomer")
		late.Create("a", nil)
		c.WaitFor("the handling", func() bool { return late.Get("a").Status().String("phase") == "Ready" })
	})
	c.Run(t, "OP-T12 a refused discovery is not repeated", func(c *C) {
		op, wire, _ := c.operatorOn(&kopf.Registry{})
		op.Registry.OnCreate(Examples, ready, &kopf.ChangeOptions{ID: "create"})
		wire.Fault(func(r *Request) (*http.Response, error) { return Answer(403, "Forbidden", "nothing for you"), nil })
		began := time.Now()
		err := op.Run(c.Context())
		if kopf.StatusCode(err) != 403 || errors.Is(err, context.Canceled) {
			c.Errorf("got %v, want the refusal", err)
		}
		if took := time.Since(began); c.late(took, time.Second) {
			c.Errorf("it took %s", took)
		}
	})
})

// ready is a handler that sets a phase in the status.
func ready(ctx context.Context, ch *kopf.Change) error {
	ch.Patch.Set("status.phase", "Ready")
	return nil
}

// isReady reports whether the handler ready has handled an example.
func (c *C) isReady(name string) bool { return c.Get(name).Status().String("phase") == "Ready" }

// watches counts the watch requests of an operator for a path.
func watches(operator *Running, path string) int {
	n := 0
	for _, r := range operator.Wire.Requests("GET") {
		if strings.HasPrefix(r.Path, path+"?") && strings.Contains(r.Path, "watch=true") {
			n++
		}
	}
	return n
}
