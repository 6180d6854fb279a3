package contract

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that text that is not UTF-8 is stored once, and reported with its path.

var _ = ClusterSuite("change_texts", func(t *testing.T, c *C) {
	const text = "caf\xe9\xe8"
	for name, test := range map[string]struct {
		set   func(p *kopf.Patch)
		field string // in the log; "" for none
	}{
		"a value of the status": {func(p *kopf.Patch) { p.Set("status.text", text) }, "status.text"},
		"a value of the spec":   {func(p *kopf.Patch) { p.Set("spec.text", text) }, "spec.text"},
		"a value in a merge patch": {func(p *kopf.Patch) {
			p.Merge(spec(map[string]any{"text": text}))
		}, "field:spec "},
		"an annotation": {func(p *kopf.Patch) { p.SetAnnotation("text", text) }, "metadata.annotations.text"},
		"a key":         {func(p *kopf.Patch) { p.Set("status.map", map[string]any{text: 1}) }, "status.map"},
		"a key of a path": {func(p *kopf.Patch) {
			p.SetPath("v", "status", text)
		}, "status.caf\ufffd\ufffd"},
		"a replaced map":  {func(p *kopf.Patch) { p.Replace("status.all", map[string]any{"text": text}) }, "status.all"},
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
			if test.field != "" && (len(lines) == 0 || !strings.Contains(fmt.Sprint(lines[0]), test.field)) {
				c.Errorf("got the lines %v, want the field %s", lines, test.field)
			}
		})
	}
})
