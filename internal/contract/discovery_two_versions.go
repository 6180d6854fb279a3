package contract

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how handlers for two versions of one resource work.

var _ = Suite("discovery_two_versions", func(t *testing.T, c *C) {
	version := func(name string) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": name == "v2",
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}
	}
	movers := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "movers.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "versions": []any{version("v1"), version("v2")},
			"names": map[string]any{"plural": "movers", "kind": "Mover", "singular": "mover", "listKind": "MoverList"},
		},
	}
	event := func(context.Context, *kopf.WatchEvent) error { return nil }
	c.Run(t, "DF-29 handlers for two versions of one resource are warned of, once, with their selectors", func(c *C) {
		c.OnlyInBubble("definitions are seen by all leaves")
		c.Define(movers)
		for name, register := range map[string]func(*kopf.Registry){
			"two handlers of changes": func(r *kopf.Registry) {
				r.OnCreate("movers.v1.example.com", ready, named("one"))
				r.OnCreate("movers.v2.example.com", ready, named("two"))
			},
			"a timer and an event handler, whose reactor removes the finalizer": func(r *kopf.Registry) {
				r.OnTimer("movers.v1.example.com", (&ticker{}).once, nil)
				r.OnEvent("movers.v2.example.com", event, &kopf.EventOptions{ID: "e"})
			},
			"an exact version and the preferred one": func(r *kopf.Registry) {
				r.OnCreate("movers.v1.example.com", ready, named("one"))
				r.OnCreate("movers", ready, named("two"))
			},
		} {
			r := &kopf.Registry{}
			register(r)
			op := c.Operator(r)
			c.Define(definition(c.Unique("others"), "Other", "Namespaced", nil)) // triggers another discovery
			c.Pass(time.Hour)
			lines := op.Logs.Find("two versions of one resource")
			if len(lines) != 1 || lines[0].Level != slog.LevelWarn || !strings.Contains(lines[0].Message, `"movers.v1.example.com"`) ||
				!strings.Contains(lines[0].Message, `"movers`) || strings.Count(lines[0].Message, "discovery_two_versions.go:") != 2 {
				c.Errorf("%s: got the lines %+v, want one warning that names both handlers", name, lines)
			}
			op.Stop()
			ref := kopf.ObjectReference{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: c.Unique("others") + ".kopf.dev"}
			if err := c.Client.Delete(c.Context(), ref, nil); err != nil {
				c.Fatal(err)
			}
		}
	})
	c.Run(t, "DF-29 handlers that share nothing are not warned of", func(c *C) {
		c.OnlyInBubble("definitions are seen by all leaves")
		c.Define(movers)
		r := &kopf.Registry{}
		r.OnEvent("movers.v1.example.com", event, &kopf.EventOptions{ID: "e1"})
		r.OnEvent("movers.v2.example.com", event, &kopf.EventOptions{ID: "e2"})
		r.OnCreate(Examples, ready, named("one"))
		r.OnCreate("kopfstatusexamples.v1.kopf.dev", ready, named("two"))
		if lines := c.Operator(r).Logs.Find("two versions of one resource"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
})
