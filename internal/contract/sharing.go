package contract

import (
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how operators live with others that write to the same objects, in 1-change-handling.md.

var _ = Suite("sharing", func(t *testing.T, c *C) { neighbours(t, c) })

// prefixed gives an operator an annotation prefix of its own.
func prefixed(prefix string) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		op.Settings.Persistence.ProgressStorage = &kopf.SmartProgressStorage{Prefix: prefix}
		op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: prefix}
	}
}

func neighbours(t *testing.T, c *C) {
	c.Run(t, "CH-T27 operators whose prefixes begin with kopf. do not take each other's annotations for changes", func(c *C) {
		var l calls
		registry := func(name string) *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler(name), named(kopf.HandlerID(name)))
			r.OnUpdate(Examples, l.handler(name), named(kopf.HandlerID(name)))
			return r
		}
		one := c.Operator(registry("one"), prefixed("kopf.one.com"))
		two := c.Operator(registry("two"), prefixed("kopf.two.com"))
		c.Create("a", sized(1))
		c.WaitFor("both", func() bool { return len(c.Get("a").Annotations()) == 2 })
		c.Pass(time.Second)
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.one.com/note": "x", "kopf.else.com/note": "y"}}})
		c.WaitFor("the updates by what only looks so", func() bool { return l.count("one update") == 1 && l.count("two update") == 1 })
		c.Pass(time.Second)
		for _, call := range []string{"one create", "two create", "one update", "two update"} {
			if n := l.count(call); n != 1 {
				c.Errorf("%d calls of %q, want 1: %q", n, call, l.all())
			}
		}
		for name, op := range map[string]*Running{"kopf.one.com": one, "kopf.two.com": two} {
			if n := len(op.Wire.Writes()); n != 2 {
				c.Errorf("the operator with the prefix %s has written %d times, want 2: %q", name, n, patches(op))
			}
			if n := len(op.Logs.Find(`the prefix "` + name + `" of annotations begins with "kopf."`)); n != 1 {
				c.Errorf("%d warnings of the prefix %s, want 1", n, name)
			}
		}
	})
	c.Run(t, "CH-T27 a state that was stored by an operator in Python counts as the same", func(c *C) {
		const essence = `{"spec":{"x":1},"metadata":{"annotations":{"kopf.one.com/last-handled-configuration":"{}"}}}`
		object := sized(1)
		object["metadata"] = map[string]any{"annotations": map[string]any{diffBase: essence, "kopf.one.com/last-handled-configuration": "{\"spec\":{}}\n"}}
		c.Create("a", object)
		var l calls
		op := c.Operator(resumer(&l))
		c.expect(&l, "resume resume 0")
		c.Pass(time.Second)
		if n := len(op.Wire.Writes()); n != 0 {
			c.Errorf("there were %d writes: %q", n, patches(op))
		}
	})
}
