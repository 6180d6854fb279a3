package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to states that move to another place, and with schemas that are temporarily unreadable.

var _ = Suite("change_storage_moves", func(t *testing.T, c *C) {
	c.Run(t, "CH-148 a crash between the two requests of moving back loses no state", func(c *C) {
		var l calls
		op := c.Operator(withResults(&l), inStatus)
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
		op.Stop()
		op = c.Operator(withResults(&l), wired(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && !onStatus(q) {
				return Answer(500, "InternalError", "not now"), nil
			}
			return nil, nil
		}))
		c.WaitFor("the first request", func() bool { return len(writesOf(op)) > 0 })
		c.Pass(time.Second)
		op.Crash()
		c.Operator(withResults(&l))
		c.kept("a", inAnnotations)
		c.expect(&l, "create 1")
	})
	c.Run(t, "CH-148 a schema that does not keep the field of a name of one's own", func(c *C) {
		c.OnlyInBubble("it waits for what does not happen")
		plural := "keepers"
		c.Define(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": "Keeper"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
						"status": map[string]any{"type": "object", "properties": map[string]any{
							"kopf": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
						}},
					}}},
				}},
			},
		})
		kind := c.Of("example.com/v1", "Keeper")
		var l calls
		reg := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(kopf.Selector(plural+".v1.example.com"), l.handler("create"), named("create"))
			return r
		}
		own := func(op *kopf.Operator) {
			inStatus(op)
			op.Settings.Persistence.ProgressStorage = &kopf.SmartProgressStorage{Name: "mine"}
			op.Settings.Persistence.DiffBaseStorage = &kopf.SmartDiffBaseStorage{Name: "mine"}
		}
		op := c.Operator(reg(), own)
		kind.Create("a", nil)
		c.Pass(time.Minute)
		for range 5 {
			kind.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": c.Unique("x")}}})
			c.Pass(time.Minute)
		}
		op.Stop()
		c.Operator(reg(), own)
		c.Pass(time.Minute)
		c.expect(&l, "create create 0")
	})
	c.Run(t, "CH-148 a read of the schema that fails moves nothing", func(c *C) {
		c.OnlyInBubble("faults")
		var fails atomic.Bool
		op := c.Operator(withResults(&calls{}), inStatus, wired(func(q *Request) (*http.Response, error) {
			if strings.HasPrefix(q.Path, "/openapi/") && fails.Load() {
				return Answer(503, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		}))
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
		before := len(writesOf(op))
		fails.Store(true)
		c.defineOther("one")
		c.Pass(time.Second)
		c.statuses().Patch("a", map[string]any{"status": map[string]any{"other": "x"}})
		c.statuses().Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
		c.Pass(time.Second)
		fails.Store(false)
		c.Pass(time.Minute)
		if got := writesOf(op)[before:]; len(got) > 0 {
			c.Errorf("a failed read has taken the requests %q; annotations %v", got, c.statuses().Get("a").Annotations())
		}
	})
	c.Run(t, "CH-148 a read of the schema that fails at a start moves nothing, and new states go to annotations until it succeeds", func(c *C) {
		c.OnlyInBubble("faults")
		var l calls
		op := c.Operator(withResults(&l), inStatus)
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
		op.Stop()
		var fails atomic.Bool
		fails.Store(true)
		op = c.Operator(withResults(&l), inStatus, wired(func(q *Request) (*http.Response, error) {
			if strings.HasPrefix(q.Path, "/openapi/") && fails.Load() {
				return Answer(503, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		}))
		c.Pass(5 * time.Minute)
		if got := writesOf(op); len(got) > 0 {
			c.Errorf("the failed read has taken the requests %q", got)
		}
		c.statuses().Patch("a", sized(2))
		c.Pass(time.Minute)
		c.statuses().Create("b", sized(3))
		c.Pass(time.Minute)
		c.kept("a", inStatus)
		c.kept("b", inAnnotations)
		fails.Store(false)
		c.Pass(5 * time.Minute)
		c.statuses().Patch("b", sized(4))
		c.kept("b", inStatus)
		c.expect(&l, "create 1", "update 2", "create 3", "update 4")
	})
	for _, apart := range []bool{true, false} {
		c.Run(t, fmt.Sprintf("CH-148 a status that drops the state is noticed though the schema must not be read, as a subresource %t", apart), func(c *C) {
			droppedStates(c, apart)
		})
	}
	c.Run(t, "CH-148 a read of the schema that fails in the middle of a handling repeats no handler", func(c *C) {
		c.OnlyInBubble("faults")
		var fails atomic.Bool
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("one %d", ch.Retry)
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, 3*time.Second)
			}
			return nil
		}, named("one"))
		r.OnCreate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("two %d", ch.Retry)
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, 30*time.Second)
			}
			return nil
		}, named("two"))
		c.Operator(r, inStatus, wired(func(q *Request) (*http.Response, error) {
			if strings.HasPrefix(q.Path, "/openapi/") && fails.Load() {
				return Answer(503, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		}))
		c.statuses().Create("a", sized(1))
		c.WaitFor("the record", func() bool { return c.statuses().Get("a").Status().Has("kopf.progress.two") })
		c.Pass(time.Second)
		fails.Store(true)
		c.defineOther("two")
		c.Pass(3 * time.Second)
		fails.Store(false)
		c.Pass(5 * time.Minute)
		c.expect(&l, "one 0", "two 0", "one 1", "two 1")
	})
	c.Run(t, "CH-148 a schema that is published late is noticed", func(c *C) {
		c.OnlyInBubble("faults")
		began := time.Now()
		c.Operator(withResults(&calls{}), inStatus, wired(func(req *Request) (*http.Response, error) {
			if strings.HasPrefix(req.Path, "/openapi/") && time.Since(began) < 20*time.Second {
				return Answer(404, "NotFound", "asked for"), nil
			}
			return nil, nil
		}))
		c.Pass(time.Hour)
		c.statuses().Create("b", sized(1))
		c.kept("b", inStatus)
	})
	for _, forbidden := range []bool{false, true} {
		name := "CH-148 a kind of Kubernetes itself keeps its state in annotations, without a warning"
		if forbidden {
			name = "CH-148 a kind of Kubernetes itself keeps its state in annotations, though the schemas must not be read"
		}
		c.Run(t, name, func(c *C) {
			c.OnlyInBubble("the schemas are made up")
			var l calls
			registry := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnCreate(kopf.Selector("ingresses.v1.networking.k8s.io"), l.handler("create"), named("create"))
				return r
			}
			wire := wired(func(q *Request) (*http.Response, error) {
				if forbidden && strings.HasPrefix(q.Path, "/openapi/") {
					return Answer(403, "Forbidden", "asked for"), nil
				}
				if strings.HasPrefix(q.Path, "/openapi/v3/apis/networking.k8s.io/v1") { // as in kube-apiserver
					return document(`{"openapi":"3.0.0","components":{"schemas":{"io.k8s.api.networking.v1.Ingress":{"type":"object","properties":{` +
						`"spec":{"allOf":[{"$ref":"#/components/schemas/io.k8s.api.networking.v1.IngressSpec"}],"default":{}},` +
						`"status":{"allOf":[{"$ref":"#/components/schemas/io.k8s.api.networking.v1.IngressStatus"}],"default":{}}},` +
						`"x-kubernetes-group-version-kind":[{"group":"networking.k8s.io","kind":"Ingress","version":"v1"}]}}}}`), nil
				}
				return nil, nil
			})
			op := c.Operator(registry(), inStatus, wire)
			c.Of("networking.k8s.io/v1", "Ingress").Create("a", map[string]any{"spec": map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "x", "port": map[string]any{"number": 80}}}}})
			c.Pass(time.Minute)
			for _, w := range warned(op, "") {
				c.Errorf("it warns: %s", w.Message)
			}
			op.Stop()
			c.Operator(registry(), inStatus, wire)
			c.Pass(time.Minute)
			c.expect(&l, "create create 0")
			body := c.Of("networking.k8s.io/v1", "Ingress").Get("a")
			if body.Annotations()[diffBase] == "" {
				c.Errorf("the state is not in the annotations, but in the status, which kube-apiserver would not keep: %s", body.Status())
			}
		})
	}
	c.Run(t, "CH-148 a state that is too large for annotations stays in the status on the way back", func(c *C) {
		c.OnlyInBubble("it waits for what does not happen")
		var l calls
		op := c.Operator(withResults(&l), inStatus)
		c.statuses().Create("a", spec(map[string]any{"x": 1, "text": strings.Repeat("x", 300<<10)}))
		c.kept("a", inStatus)
		op.Stop()
		for range 2 {
			op = c.Operator(withResults(&l))
			c.Pass(time.Minute)
			op.Stop()
		}
		c.Operator(withResults(&l), inStatus)
		c.Pass(time.Minute)
		c.expect(&l, "create 1")
		c.kept("a", inStatus)
	})
})

// droppedStates has a kind whose status keeps only declared fields, and an object with a state in annotations.
func droppedStates(c *C, apart bool) {
	c.OnlyInBubble("minutes")
	selector, kind := c.kindWithStatus(apart, map[string]any{"type": "object", "properties": map[string]any{"phase": map[string]any{"type": "string"}}})
	var l calls
	reg := func() *kopf.Registry {
		r := &kopf.Registry{}
		for i, name := range []kopf.HandlerID{"one", "two"} {
			r.OnCreate(selector, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s %s %d", ch.Name(), name, ch.Retry)
				if ch.Retry < i {
					return kopf.Temporary(errOops, time.Minute)
				}
				return nil
			}, named(name))
		}
		r.OnUpdate(selector, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s update", ch.Name())
			return nil
		}, named("update"))
		return r
	}
	labeled := func(name string) {
		kind.Patch(name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": c.Unique("x")}}})
	}
	op := c.Operator(reg())
	kind.Create("a", nil)
	c.Pass(10 * time.Minute)
	op.Stop()
	forbidden := wired(func(q *Request) (*http.Response, error) {
		if strings.HasPrefix(q.Path, "/openapi/") {
			return Answer(403, "Forbidden", "asked for"), nil
		}
		return nil, nil
	})
	op = c.Operator(reg(), inStatus, forbidden)
	labeled("a")
	c.WaitFor("the update", func() bool { return l.count("a update") == 1 })
	c.Pass(time.Minute)
	kind.Create("b", nil)
	c.Pass(10 * time.Minute)
	labeled("b")
	c.Pass(10 * time.Minute)
	if got := warned(op, "The API server drops the state from the status"); len(got) != 1 {
		c.Errorf("it warns %d times, want once", len(got))
	}
	op.Stop()
	c.Operator(reg(), inStatus, forbidden)
	c.Pass(10 * time.Minute)
	c.expect(&l, "a one 0", "a two 0", "a two 1", "a update", "b one 0", "b two 0", "b two 1", "b update")
}
