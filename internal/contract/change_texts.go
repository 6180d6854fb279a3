package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that text that is not UTF-8 is stored once, and reported once with its path.

// namedStatus is a typed object whose status has a text.
type namedStatus struct {
	kopf.ObjectMeta `json:"metadata"`
	Status          struct {
		Name string `json:"name,omitempty"`
	} `json:"status"`
}

var _ = ClusterSuite("change_texts", func(t *testing.T, c *C) {
	const text = "caf\xe9\xe8"
	for name, test := range map[string]struct {
		set   func(p *kopf.Patch)
		field string // in the log; "" for none
	}{
		"a value of the status": {func(p *kopf.Patch) { p.Set("status.text", text) }, "status.text"},
		"a value of the spec":   {func(p *kopf.Patch) { p.Set("spec.text", text) }, "spec.text"},
		"a value in a merge patch": {func(p *kopf.Patch) {
			p.Merge(spec(map[string]any{"texts": []string{"valid", text}}))
		}, "field:spec.texts.1 "},
		"an annotation": {func(p *kopf.Patch) { p.SetAnnotation("text", text) }, "metadata.annotations.text"},
		"a key":         {func(p *kopf.Patch) { p.Set("status.map", map[string]any{text: 1}) }, "field:status.map.caf\ufffd\ufffd "},
		"a key of a path": {func(p *kopf.Patch) {
			p.SetPath("v", "status", text)
		}, "status.caf\ufffd\ufffd"},
		"a replaced map":  {func(p *kopf.Patch) { p.Replace("status.all", map[string]any{"text": text}) }, "field:status.all.text "},
		"a replaced text": {func(p *kopf.Patch) { p.Replace("status.text", text) }, "status.text"},
		"a struct": {func(p *kopf.Patch) {
			p.Set("status.all", struct {
				Text string `json:"text"`
			}{text})
		}, "status.all"},
		"a condition": {func(p *kopf.Patch) {
			p.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "R", Message: text})
		}, "status.conditions.Ready.message"},
		"a transformation": {func(p *kopf.Patch) {
			p.Transform(func(object map[string]any) error {
				object["spec"].(map[string]any)["texts"] = []string{text}
				return nil
			})
		}, ""},
	} {
		c.Run(t, "DF-48 text that is not UTF-8 is stored once: "+name, func(c *C) {
			var l calls
			r := &kopf.Registry{}
			r.OnTimer(statusExamples, func(_ context.Context, x *kopf.Timer) error {
				l.add("timer")
				test.set(x.Patch)
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Second, WithoutFinalizer: true})
			op := c.Operator(r)
			k := c.Of("kopf.dev/v1", "KopfStatusExample")
			k.Create("a", spec(map[string]any{"x": 1}))
			c.WaitFor("three calls", func() bool { return len(l.all()) >= 3 })
			c.Pass(100 * time.Millisecond)
			if got := patches(op); len(got) != 1 {
				c.Errorf("got the patches %q, want one", got)
			}
			if stored := fmt.Sprint(k.Get("a").Map()); !strings.Contains(stored, "caf\ufffd\ufffd") {
				c.Errorf("the object is %s", stored)
			}
			for _, line := range op.Logs.Find("have other values now") {
				c.Errorf("no other client has changed the object, but the log has %v", line)
			}
			lines := op.Logs.Find("Text that is not UTF-8 was replaced in a patch")
			if test.field != "" && (len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]), test.field)) {
				c.Errorf("got the lines %v, want the field %s", lines, test.field)
			}
		})
	}
	for name, set := range map[string]struct {
		handler kopf.ChangeFunc
		field   string
	}{
		"a result": {func(_ context.Context, ch *kopf.Change) error {
			ch.SetResult([]string{text})
			return nil
		}, "field:result.0 "},
		"raw JSON": {func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.text", json.RawMessage(`"`+text+`"`))
			return nil
		}, "field:spec.text "},
		"a status struct": {kopf.Typed(func(_ context.Context, _ *kopf.Change, object *namedStatus) error {
			object.Status.Name = text
			return nil
		}), "field:status.name "},
		"a condition of a struct": {kopf.Typed(func(_ context.Context, _ *kopf.Change, object *conditionedStatus) error {
			object.Status.Conditions = []kopf.Condition{{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Fine", Message: text}}
			return nil
		}), "field:status.conditions.0.message "},
	} {
		c.Run(t, "DF-48 text that is not UTF-8 is reported: "+name, func(c *C) {
			r := &kopf.Registry{}
			r.OnCreate(Examples, set.handler, named("create"))
			op := c.Operator(r)
			c.Create("a", nil)
			stored := fmt.Sprint(c.handled("a").Map())
			lines := op.Logs.Find("Text that is not UTF-8 was replaced in a patch")
			if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines), set.field) || !strings.Contains(stored, "caf\ufffd\ufffd") {
				c.Errorf("got the lines %v, and the object %s", lines, stored)
			}
		})
	}
	for name, set := range map[string]func(p *kopf.Patch){
		"a label":                  func(p *kopf.Patch) { p.SetLabel("team", text) },
		"the key of a label":       func(p *kopf.Patch) { p.SetLabel(text, "a") },
		"the key of an annotation": func(p *kopf.Patch) { p.SetAnnotation(text, "a") },
		"a label in a merge": func(p *kopf.Patch) {
			p.Merge(map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": text}}})
		},
	} {
		c.Run(t, "DF-48 metadata that is not UTF-8, which no API server takes, fails the handler: "+name, func(c *C) {
			r := &kopf.Registry{}
			r.OnReconcile(Examples, func(_ context.Context, x *kopf.Reconcile) error {
				set(x.Patch)
				return nil
			}, &kopf.ReconcileOptions{ID: "sets"})
			op := c.Operator(r)
			c.Create("a", nil)
			op.waitLogged(c, "is not UTF-8: want")
			for _, q := range patches(op) {
				if strings.Contains(q, "\ufffd") {
					c.Errorf("got the patch %s", q)
				}
			}
		})
	}
	for name, child := range map[string]map[string]any{
		"a label":                  {"metadata": map[string]any{"name": "x", "labels": map[string]any{"team": text}}},
		"the key of an annotation": {"metadata": map[string]any{"name": "x", "annotations": map[string]any{text: "a"}}},
		"a key of the data":        {"metadata": map[string]any{"name": "x"}, "data": map[string]any{text: "a"}},
	} {
		c.Run(t, "DF-48 a child that is not UTF-8, which no API server takes, is not sent: "+name, func(c *C) {
			child["apiVersion"], child["kind"] = "v1", "ConfigMap"
			r := &kopf.Registry{}
			r.OnReconcile(Examples, func(_ context.Context, x *kopf.Reconcile) error {
				x.Desired(child, nil)
				return nil
			}, &kopf.ReconcileOptions{ID: "declares", Owns: []kopf.Selector{"v1/configmaps"}})
			op := c.Operator(r)
			c.Create("a", nil)
			op.waitLogged(c, "Handler 'declares' failed")
			if lines := op.Logs.Find("Handler 'declares' failed"); !strings.Contains(fmt.Sprint(lines), "want UTF-8") {
				c.Errorf("got the lines %v", lines)
			}
			if got := patches(op); len(got) > 0 {
				c.Errorf("got the patches %q, want none", got)
			}
		})
	}
	c.Run(t, "DF-48 the valid character U+FFFD is not reported", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.a", "\ufffd")
			ch.Patch.Set("spec.b", json.RawMessage(`"\ufffd"`))
			ch.Patch.Set("spec.c", []string{"\ufffd", `\ufffd`})
			return nil
		}, named("create"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		if lines := op.Logs.Find("Text that is not UTF-8"); len(lines) > 0 {
			c.Errorf("got %v", lines)
		}
	})
})

// conditionedStatus is an object with conditions.
type conditionedStatus struct {
	kopf.Meta
	Status struct {
		Conditions []kopf.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}
