package contract

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to a state in the status that other clients remove, or that a kind cannot keep.

var _ = Suite("change_storage_kinds", func(t *testing.T, c *C) {
	keptStates(t, c)
	lostSchemas(t, c)
	copiedStates(t, c)
})

func keptStates(t *testing.T, c *C) {
	c.Run(t, "CH-T25 InStatus stores the state once more that a client has taken away with the whole status", func(c *C) {
		c.OnlyInBubble("it waits for what does not happen")
		var l calls
		op := c.Operator(withResults(&l), inStatus)
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
		replace := func() { c.statuses().PatchStatus("a", map[string]any{"status": map[string]any{"kopf": nil}}) }
		c.Pass(2 * time.Second)
		replace()
		c.Pass(time.Minute)
		c.kept("a", inStatus)
		if lines := op.Logs.Find("and is stored once more"); len(lines) != 1 {
			c.Errorf("got the lines %v, want one", lines)
		}
		op.Stop()
		op = c.Operator(withResults(&l), inStatus)
		c.statuses().Patch("a", sized(2))
		for range 3 {
			c.Pass(2 * time.Second)
			replace()
		}
		c.Pass(time.Minute)
		if n := len(warned(op, "was removed from the object twice, each time right after it was stored")); n != 1 {
			c.Errorf("there are %d warnings, want one", n)
		}
		c.expect(&l, "create 1", "update 2")
	})
	c.Run(t, "CH-191 the warning about fields that are not taken over has the values that were sent and stored", func(c *C) {
		selector, kind := c.closed()
		r := &kopf.Registry{}
		r.OnCreate(selector, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.first", "one")
			return nil
		}, named("h"))
		op := c.Operator(r)
		kind.Create("a", nil)
		c.WaitFor("the warning", func() bool { return len(warned(op, "The API server dropped fields of a patch")) == 1 })
		if got := warned(op, "The API server dropped fields of a patch")[0].Attrs["differences"]; got != `[status.first: sent "one", stored nothing]` {
			c.Errorf("got the differences %s", got)
		}
	})
}

// lostSchemas proves what happens for kinds whose schemas do not keep the state.
func lostSchemas(t *testing.T, c *C) {
	preserving := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	with := func(more map[string]any) map[string]any {
		status := map[string]any{"type": "object", "properties": map[string]any{"kopf": preserving, "phase": map[string]any{"type": "string"}}}
		maps.Copy(status, more)
		return status
	}
	for _, tt := range []struct {
		name        string
		subresource bool
		status      map[string]any
		warning     string
	}{
		{"InStatus leaves the state of kinds in annotations whose status requires a field", true, with(map[string]any{"required": []any{"phase"}}),
			`requires the field "status.phase", without which nothing else can be stored there`},
		{"InStatus leaves the state of kinds in annotations whose field does not keep all, and says so", true,
			map[string]any{"type": "object", "properties": map[string]any{"kopf": map[string]any{"type": "object", "properties": map[string]any{"progress": preserving}}}},
			`does not keep all of the field "kopf"`},
		{"InStatus warns of no kinds that it would save nothing for", false, map[string]any{"type": "object"}, ""},
	} {
		c.Run(t, tt.name, func(c *C) {
			selector, kind := c.kindWithStatus(tt.subresource, tt.status)
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(selector, l.handler("create"), named("create"))
			op := c.Operator(r, inStatus)
			kind.Create("a", nil)
			c.WaitFor("the state", func() bool { return kind.Get("a").Annotations()[diffBase] != "" })
			c.expect(&l, "create create 0")
			op.Stop()
			lines := warned(op, "so the state of its objects is kept in annotations")
			if tt.warning == "" && len(lines) > 0 || tt.warning != "" && (len(lines) != 1 || !strings.Contains(lines[0].Message, tt.warning)) {
				c.Errorf("got the warnings %v, want %q", lines, tt.warning)
			}
		})
	}
	c.Run(t, "InStatus warns when a schema stops keeping the state", func(c *C) {
		c.OnlyInBubble("the definition is changed")
		selector, kind := c.kindWithStatus(true, with(nil))
		r := &kopf.Registry{}
		r.OnCreate(selector, (&calls{}).handler("create"), named("create"))
		op := c.Operator(r, inStatus)
		kind.Create("a", nil)
		c.WaitFor("the state", func() bool { return kind.Get("a").Status().Has("kopf.last-handled-configuration") })
		const text = "The schema of the status does not keep the state any more"
		if n := len(warned(op, text)); n != 0 {
			c.Errorf("there are %d warnings before that", n)
		}
		plural, _, _ := strings.Cut(string(selector), ".")
		c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition").patchVersions(plural+".example.com", map[string]any{"type": "object"})
		c.WaitFor("the warning", func() bool { return len(warned(op, text)) > 0 })
		c.Pass(time.Minute)
		if n := len(warned(op, text)); n != 1 {
			c.Errorf("there are %d warnings, want one", n)
		}
	})
}

// copiedStates proves that the state includes the uid, and that moving it back leaves nothing empty in the status.
func copiedStates(t *testing.T, c *C) {
	ignoring := func(op *kopf.Operator) { op.Settings.Persistence.IgnoreCopies = true }
	c.Run(t, "CH-T24 InStatus keeps the uid next to the state, in the same request", func(c *C) {
		var l calls
		op := c.Operator(withResults(&l), inStatus, ignoring)
		c.statuses().Create("a", sized(1))
		body := c.kept("a", inStatus)
		if got := writesOf(op); len(got) != 1 || got[0] != "/status" {
			c.Errorf("the creation has taken %q", got)
		}
		if body.Status().String("kopf.handled-uid") != body.UID() || len(body.Annotations()) > 0 {
			c.Errorf("the status is %s, the annotations are %v", body.Status(), body.Annotations())
		}
		c.statuses().Create("b", sized(1))
		c.kept("b", inStatus)
		c.expect(&l, "create 1", "create 1")
		op.Stop()
		c.statuses().PatchStatus("b", map[string]any{"status": map[string]any{"kopf": body.Status().View("kopf").Map()}}) // as for a restored backup
		op = c.Operator(withResults(&l), inStatus, ignoring)
		c.expect(&l, "create 1", "create 1", "create 1")
		c.WaitFor("the own uid", func() bool { b := c.statuses().Get("b"); return b.Status().String("kopf.handled-uid") == b.UID() })
		op.Stop()
		c.Operator(withResults(&l), ignoring) // back to annotations
		for _, name := range []string{"a", "b"} {
			c.kept(name, inAnnotations)
			c.WaitFor("the end of the move", func() bool { return !c.statuses().Get(name).Status().Has("kopf") })
			if body := c.statuses().Get(name); body.Annotations()["kopf.zalando.org/handled-uid"] != body.UID() {
				c.Errorf("the annotations are %v", body.Annotations())
			}
		}
		c.expect(&l, "create 1", "create 1", "create 1")
	})
	c.Run(t, "CH-148 nothing empty is left in the status of an object whose state was moved back, also in the middle of a handling", func(c *C) {
		r := func() *kopf.Registry {
			r := withResults(&calls{})
			r.OnUpdate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, 2*time.Second)
				}
				return nil
			}, named("slow"))
			return r
		}
		op := c.Operator(r(), inStatus)
		c.statuses().Create("a", sized(1))
		c.kept("a", inStatus)
		c.statuses().Patch("a", sized(2))
		c.WaitFor("the record", func() bool { return c.statuses().Get("a").Status().Has("kopf.progress.slow") })
		op.Crash()
		c.Operator(r())
		c.kept("a", inAnnotations)
		c.WaitFor("the end of the move", func() bool { return !c.statuses().Get("a").Status().Has("kopf") })
		if status := c.statuses().Get("a").Status(); status.String("create") != "made" {
			c.Errorf("the status is %s", status)
		}
	})
}

// patchVersions changes the schema of the status in a CRD.
func (k *Kind) patchVersions(name string, status map[string]any) {
	version := k.Get(name).Get("spec.versions").([]any)[0].(map[string]any)
	version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"status": status}}}
	k.Patch(name, spec(map[string]any{"versions": []any{version}}))
}
