package contract

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the differences of a state in the status, and how it moves between the status and annotations.

var _ = Suite("change_storage", func(t *testing.T, c *C) {
	c.Run(t, "Settings.Persistence.Storage: InStatus takes one request for all that a handling leaves", func(c *C) {
		op := c.Operator(withResults(&calls{}), inStatus)
		c.statuses().Create("a", sized(1))
		body := c.kept("a", inStatus)
		if got := writesOf(op); !slices.Equal(got, []string{"/status"}) {
			c.Errorf("the creation has taken %q", got)
		}
		if body.Status().Int("size") != 1 || body.Status().String("create") != "made" {
			c.Errorf("the status is %s", body.Status())
		}
		for key := range body.Annotations() {
			c.Errorf("there is the annotation %s", key)
		}
		c.statuses().Patch("a", sized(2))
		c.WaitFor("the update", func() bool { return c.statuses().Get("a").Status().Int("size") == 2 })
		if got := writesOf(op); !slices.Equal(got, []string{"/status", "/status"}) {
			c.Errorf("the update has taken %q", got[1:])
		}
		op.Stop()
		op = c.Operator(withResults(&calls{}), inStatus)
		c.Pass(time.Second)
		if got := writesOf(op); len(got) > 0 {
			c.Errorf("a restart has taken %q", got)
		}
	})
	c.Run(t, "InStatus keeps the progress over a crash, and leaves nothing of it", func(c *C) {
		var l calls
		registry := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, l.handler("one"), named("one"))
			r.OnCreate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("two %d", ch.Retry)
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, 2*time.Second)
				}
				return nil
			}, named("two"))
			return r
		}
		op := c.Operator(registry(), inStatus)
		c.statuses().Create("a", nil)
		c.WaitFor("the record", func() bool { return c.statuses().Get("a").Status().Has("kopf.progress.two") })
		op.Crash()
		c.Operator(registry(), inStatus)
		body := c.kept("a", inStatus)
		c.expect(&l, "one create 0", "two 0", "two 1")
		if left := body.Status().View("kopf.progress"); len(left.Map()) > 0 {
			c.Errorf("of the handling, there is %s", left)
		}
	})
	c.Run(t, "InStatus takes objects over that have their state in annotations, and moves it when they are handled", func(c *C) {
		var l calls
		op := c.Operator(withResults(&l))
		c.statuses().Create("a", sized(1))
		c.kept("a", inAnnotations)
		op.Stop()
		op = c.Operator(withResults(&l), inStatus)
		c.Pass(time.Second)
		if got := writesOf(op); len(got) > 0 {
			c.Errorf("the takeover has taken %q", got)
		}
		c.statuses().Patch("a", sized(2))
		c.kept("a", inStatus)
		if got := writesOf(op); !slices.Equal(got, []string{"/status", ""}) {
			c.Errorf("the first update has taken %q", got)
		}
		c.statuses().Patch("a", sized(3))
		c.WaitFor("the update", func() bool { return c.statuses().Get("a").Status().Int("size") == 3 })
		c.Pass(time.Second)
		if got := writesOf(op); len(got) != 3 {
			c.Errorf("the second update has taken %q", got[2:])
		}
		c.expect(&l, "create 1", "update 2", "update 3")
	})
	c.Run(t, "InStatus goes on with a handling whose records are in annotations", func(c *C) {
		var l calls
		registry := func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, l.handler("one"), named("one"))
			r.OnCreate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("two %d", ch.Retry)
				if ch.Retry < 2 {
					return kopf.Temporary(errOops, time.Second)
				}
				return nil
			}, named("two"))
			return r
		}
		op := c.Operator(registry())
		c.statuses().Create("a", nil)
		c.WaitFor("the record", func() bool { return c.statuses().Get("a").Annotations()["kopf.zalando.org/two"] != "" })
		op.Crash()
		c.Operator(registry(), inStatus)
		c.kept("a", inStatus)
		c.expect(&l, "one create 0", "two 0", "two 1", "two 2")
		c.WaitFor("no annotations", func() bool { return len(c.statuses().Get("a").Annotations()) == 0 }) // this takes a separate request
	})
	c.Run(t, "InAnnotations takes objects back, and moves their state at once", func(c *C) {
		var l calls
		op := c.Operator(withResults(&l), inStatus)
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
		op.Stop()
		op = c.Operator(withResults(&l))
		c.kept("a", inAnnotations)
		c.Pass(time.Second)
		op.Stop()
		if c.statuses().Get("a").Status().Has("kopf.last-handled-configuration") {
			c.Error("the state is in the status, too")
		}
		op = c.Operator(withResults(&l), func(op *kopf.Operator) { // they read only the annotations of an operator in Python
			op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{}
		})
		c.Pass(time.Second)
		if got := writesOf(op); len(got) > 0 {
			c.Errorf("that has taken %q", got)
		}
		c.expect(&l, "create 1")
	})
	c.Run(t, "InStatus leaves the state of kinds in annotations whose schema does not keep it, and says what to add", func(c *C) {
		selector, kind := c.closed()
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(selector, l.handler("create"), named("create"))
		op := c.Operator(r, inStatus)
		kind.Create("a", nil)
		c.WaitFor("the state", func() bool { return kind.Get("a").Annotations()[diffBase] != "" })
		c.WaitFor("the warning", func() bool { return len(warned(op, "does not keep the field")) > 0 })
		lines := warned(op, "does not keep the field")
		if len(lines) != 1 || !strings.Contains(lines[0].Message, "add to the properties of its status: kopf: {type: object, x-kubernetes-preserve-unknown-fields: true}") {
			c.Errorf("got the warnings %v", lines)
		}
		c.Pass(time.Minute)
		c.expect(&l, "create create 0")
	})
	c.Run(t, "InStatus waits for schemas that are not published yet, with the state in annotations", func(c *C) {
		c.OnlyInBubble("the schemas are to be late")
		began := time.Now()
		c.Operator(withResults(&calls{}), inStatus, wired(func(req *Request) (*http.Response, error) {
			if strings.HasPrefix(req.Path, "/openapi/") && time.Since(began) < 3*time.Second {
				return Answer(404, "NotFound", "asked for"), nil
			}
			return nil, nil
		}))
		c.statuses().Create("a", sized(1))
		c.kept("a", inAnnotations)
		c.Pass(10 * time.Second)
		c.statuses().Create("b", sized(1))
		c.kept("b", inStatus)
		c.statuses().Patch("a", sized(2))
		c.kept("a", inStatus)
	})
	c.Run(t, "InStatus believes in the status where the schemas must not be read", func(c *C) {
		c.Operator(withResults(&calls{}), inStatus, wired(func(req *Request) (*http.Response, error) {
			if strings.HasPrefix(req.Path, "/openapi/") {
				return Answer(403, "Forbidden", "asked for"), nil
			}
			return nil, nil
		}))
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
	})
	c.Run(t, "one line at the start recommends InStatus where it may be of use", func(c *C) {
		for name, want := range map[string]int{"kopfstatusexamples.v1.kopf.dev": 1, "kopfexamples.v1.kopf.dev": 0, "pods": 0} {
			for _, setting := range []func(*kopf.Operator){inAnnotations, inStatus} {
				r := &kopf.Registry{}
				r.OnUpdate(kopf.Selector(name), func(context.Context, *kopf.Change) error { return nil }, named("update"))
				op := c.Operator(r, setting)
				if got := len(op.Logs.Find("Storing the state of objects in annotations")); got != want {
					c.Errorf("for %s, there are %d lines, want %d", name, got, want)
				}
				op.Stop()
				want = 0 // with InStatus
			}
		}
	})
	c.Run(t, "no schemas are read without InStatus", func(c *C) {
		op := c.Operator(withResults(&calls{}))
		c.statuses().Create("a", sized(1))
		c.kept("a", inAnnotations)
		for _, q := range op.Wire.Requests(http.MethodGet) {
			if strings.HasPrefix(q.Path, "/openapi/") {
				c.Errorf("there was a request to %s", q.Path)
			}
		}
	})
	c.Run(t, "the second request is not made where the first can carry all, or nothing is left for it", func(c *C) {
		r := &kopf.Registry{}
		fn := func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.phase", "ready")
			return nil
		}
		r.OnCreate(Examples, fn, named("create"))
		r.OnCreate(statusExamples, fn, named("create"))
		r.OnUpdate(statusExamples, fn, named("update")) // it changes nothing anymore
		op := c.Operator(r)
		c.Create("a", sized(1)) // its status is no subresource
		c.handled("a")
		if got := writesOf(op); !slices.Equal(got, []string{""}) {
			c.Errorf("without a subresource, the creation has taken %q", got)
		}
		c.statuses().Create("b", sized(1))
		c.kept("b", inAnnotations)
		c.statuses().Patch("b", sized(2))
		c.WaitFor("the update", func() bool { return strings.Contains(c.statuses().Get("b").Annotations()[diffBase], "2") })
		if got := writesOf(op); !slices.Equal(got, []string{"", "/status", "", ""}) {
			c.Errorf("with one, the creation and an update have taken %q", got[1:])
		}
	})
})

func inStatus(op *kopf.Operator) { op.Settings.Persistence.Storage = kopf.InStatus }

func inAnnotations(op *kopf.Operator) { op.Settings.Persistence.Storage = kopf.InAnnotations }

// withResults returns handlers that set the status and return results.
func withResults(l *calls) *kopf.Registry {
	r := &kopf.Registry{}
	handler := func(ctx context.Context, ch *kopf.Change) error {
		l.add("%s %d", ch.Reason, ch.Spec().Int("x"))
		ch.Patch.Set("status.size", ch.Spec().Int("x"))
		ch.SetResult("made")
		return nil
	}
	r.OnCreate(statusExamples, handler, named("create"))
	r.OnUpdate(statusExamples, handler, named("update"))
	return r
}

// kept waits until the state of a status example is only in the place of a setting.
func (c *C) kept(name string, setting func(*kopf.Operator)) *kopf.Body {
	c.Helper()
	op := &kopf.Operator{Settings: kopf.NewSettings()}
	setting(op)
	var body *kopf.Body
	c.WaitFor("the state of "+name, func() bool {
		body = c.statuses().Get(name)
		inStatus, annotated := body.Status().Has("kopf.last-handled-configuration"), body.Annotations()[diffBase] != ""
		return inStatus == (op.Settings.Persistence.Storage == kopf.InStatus) && annotated != inStatus
	})
	return body
}

// writesOf returns the subresources of an operator's writing requests, in order.
func writesOf(op *Running) (all []string) {
	for _, q := range op.Wire.Writes() {
		subresource := ""
		if onStatus(&q) {
			subresource = "/status"
		}
		all = append(all, subresource)
	}
	return all
}

// closed defines a kind whose status keeps only the declared fields.
func (c *C) closed() (kopf.Selector, *Kind) {
	c.Helper()
	return c.kindWithStatus(true, map[string]any{"type": "object", "properties": map[string]any{"phase": map[string]any{"type": "string"}}})
}

// kindWithStatus defines a kind with a schema of its status, which may be a subresource.
func (c *C) kindWithStatus(subresource bool, status map[string]any) (kopf.Selector, *Kind) {
	c.Helper()
	subresources := map[string]any{}
	if subresource {
		subresources["status"] = map[string]any{}
	}
	plural, kind := strings.ReplaceAll(c.Unique("closed"), "-", "")+"s", "Closed"+strings.ReplaceAll(c.Namespace, "-", "")
	c.Define(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": subresources,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"status": status}}},
			}},
		},
	})
	return kopf.Selector(plural + ".v1.example.com"), c.Of("example.com/v1", kind)
}
