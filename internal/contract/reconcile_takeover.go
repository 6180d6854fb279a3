package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to the children of a former operator, in 9-defects.md.

// controlled returns fields with the reference to a controller.
func controlled(owner *kopf.Body, fields map[string]any) map[string]any {
	fields["metadata"] = map[string]any{"ownerReferences": []any{
		map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": owner.Name(), "uid": owner.UID(), "controller": true},
	}}
	return fields
}

// byNames wants a config map for each name in the spec, with the given options.
func byNames(opts *kopf.DesiredOptions) func(r *kopf.Reconcile) error {
	return func(r *kopf.Reconcile) error {
		names := r.Spec().Strings("names")
		if len(names) == 0 {
			r.NoChildren()
		}
		for _, name := range names {
			r.Desired(desiredMap(name, map[string]any{"ours": "1"}), opts)
		}
		return nil
	}
}

func inNames(names ...any) map[string]any { return spec(map[string]any{"names": names}) }

var _ = Suite("reconcile_takeover", func(t *testing.T, c *C) {
	for name, opts := range map[string]*kopf.DesiredOptions{"with Once": {Once: true}, "without Once": nil} {
		c.Run(t, "DF-87 a declared child of a former operator is deleted when it is not declared any more, "+name, func(c *C) {
			owner := c.Create("a", inNames("x"))
			c.configMaps().Create("x", controlled(owner, map[string]any{"data": map[string]any{"theirs": "1"}}))
			op, l := c.parenting(byNames(opts), nil)
			c.WaitFor("the mark", func() bool { _, ok := c.configMaps().Get("x").Annotation("kopf.zalando.org/wanted"); return ok })
			want := map[string]any{"theirs": "1"}
			if opts == nil {
				want["ours"] = "1"
			}
			c.same("the data", want, c.configMaps().Get("x").View("data").Map())
			c.Pass(2 * time.Second)
			n, calls := len(op.Wire.Writes()), len(l.all())
			c.Patch("a", spec(map[string]any{"other": 1}))
			c.WaitFor("another call", func() bool { return len(l.all()) > calls })
			c.Pass(time.Second)
			c.nothingWritten(op, n)
			c.Patch("a", inNames())
			c.WaitFor("the end of the child", func() bool { return !c.configMaps().Exists("x") })
			if lines := op.Logs.Find("Leaving children"); len(lines) > 0 {
				c.Errorf("got the lines %v", lines)
			}
		})
	}
	c.Run(t, "DF-87 the mark removes no field that the manager has applied before", func(c *C) {
		owner := c.Create("a", inNames("x"))
		child := controlled(owner, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"password": "1"}})
		child["metadata"].(map[string]any)["name"], child["metadata"].(map[string]any)["namespace"] = "x", c.Namespace
		if err := c.Client.Apply(c.Context(), child, &kopf.WriteOptions{FieldManager: "kopf-kopfexamples.kopf.dev"}); err != nil {
			c.Fatal(err)
		}
		c.parenting(byNames(&kopf.DesiredOptions{Once: true}), nil)
		c.WaitFor("the mark", func() bool { _, ok := c.configMaps().Get("x").Annotation("kopf.zalando.org/wanted"); return ok })
		c.same("the data", map[string]any{"password": "1"}, c.configMaps().Get("x").View("data").Map())
		c.Patch("a", inNames())
		c.WaitFor("the end of the child", func() bool { return !c.configMaps().Exists("x") })
	})
	c.Run(t, "DF-87 children that are left over are named once, with what to do", func(c *C) {
		owner := c.Create("a", inNames("x"))
		for i := range 12 {
			c.configMaps().Create(fmt.Sprintf("old-%02d", i), controlled(owner, map[string]any{}))
		}
		op, l := c.parenting(byNames(nil), nil)
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Leaving children")) > 0 })
		calls := len(l.all())
		c.Patch("a", inNames("x", "y"))
		c.WaitFor("another call", func() bool { return len(l.all()) > calls && c.configMaps().Exists("y") })
		c.Pass(time.Second)
		lines := op.Logs.Find("Leaving children")
		if len(lines) != 1 || lines[0].Attrs["children"] != "12" || strings.Count(lines[0].Attrs["names"], "ConfigMap "+c.Namespace+"/old-") != 10 || lines[0].Attrs["hint"] == "" {
			c.Errorf("got the lines %v", lines)
		}
		if n := len(c.configMaps().List()); n < 14 {
			c.Errorf("%d objects are left, want 14", n)
		}
	})
	c.Run(t, "DF-87 children that the handler lists itself are not named", func(c *C) {
		owner := c.Create("a", inNames("x"))
		c.configMaps().Create("own", controlled(owner, map[string]any{}))
		op, _ := c.parenting(func(r *kopf.Reconcile) error {
			r.Children("configmaps")
			return byNames(nil)(r)
		}, nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(2 * time.Second)
		if lines := op.Logs.Find("Leaving children"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
})
