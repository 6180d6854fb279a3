package contract

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how kopf writes the conditions that handlers set: their transition times, and the requests for them.

var _ = Suite("change_conditions", func(t *testing.T, c *C) {
	steadyConditions(t, c)
	changingConditions(t, c)
	wrongConditions(t, c)
	failingConditions(t, c)
})

// conditionsOf returns the types of an object's conditions with their statuses, reasons, generations, and transition times.
func (c *C) conditionsOf(name string) string {
	var all []string
	for _, v := range c.statuses().Get(name).Status().Views("conditions") {
		all = append(all, fmt.Sprintf("%s=%s/%s@%d since %s", v.String("type"), v.String("status"), v.String("reason"), v.Int("observedGeneration"), v.String("lastTransitionTime")))
	}
	return strings.Join(all, ", ")
}

// everySecond runs a timer on objects with a status.
func (c *C) everySecond(fn func(tm *kopf.Timer)) *Running {
	r := &kopf.Registry{}
	r.OnTimer(statusExamples, func(_ context.Context, tm *kopf.Timer) error {
		fn(tm)
		return nil
	}, &kopf.TimerOptions{ID: "every-second", Interval: time.Second, WithoutFinalizer: true})
	return c.Operator(r)
}

// withConditions creates an object with conditions.
func (c *C) withConditions(conditions ...any) {
	c.statuses().Create("a", sized(1))
	c.statuses().PatchStatus("a", map[string]any{"status": map[string]any{"conditions": conditions}})
}

const longAgo = "2001-02-03T04:05:06Z"

func storedCondition(conditionType, status string) map[string]any {
	return map[string]any{"type": conditionType, "status": status, "reason": "Made", "message": "", "observedGeneration": 1, "lastTransitionTime": longAgo}
}

func steadyConditions(t *testing.T, c *C) {
	ready := kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Made"}
	waiting := kopf.Condition{Type: "Ready", Status: kopf.ConditionFalse, Reason: "Waiting"}
	for name, conditions := range map[string][]kopf.Condition{
		"is as it is stored":                      {ready},
		"is set twice":                            {ready, ready},
		"is as it is stored at the end of a call": {waiting, ready},
	} {
		c.Run(t, "RC-59 a condition that "+name+" makes no request", func(c *C) {
			c.OnlyInBubble("it takes a minute")
			c.withConditions(storedCondition("Other", "False"), storedCondition("Ready", "True"))
			op := c.everySecond(func(tm *kopf.Timer) {
				for _, condition := range conditions {
					tm.Patch.SetCondition(condition)
				}
			})
			c.Pass(time.Minute)
			if writes := op.Wire.Writes(); len(writes) > 0 {
				c.Errorf("got %d writes, such as %s, want none", len(writes), writes[0].Body)
			}
			const want = "Other=False/Made@1 since " + longAgo + ", Ready=True/Made@1 since " + longAgo
			if got := c.conditionsOf("a"); got != want {
				c.Errorf("got the conditions %s, want %s", got, want)
			}
		})
	}
}

func changingConditions(t *testing.T, c *C) {
	c.Run(t, "RC-59 the time of a transition changes with the status alone, and the conditions of others stay", func(c *C) {
		c.OnlyInBubble("times have whole seconds")
		c.withConditions(storedCondition("Ready", "True"), storedCondition("Other", "False"))
		var calls, changed atomic.Int64
		c.everySecond(func(tm *kopf.Timer) {
			call := calls.Add(1)
			condition := kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: fmt.Sprint("Made", call)}
			if call > 10 {
				condition.Status = kopf.ConditionFalse
			}
			if call == 11 {
				changed.Store(time.Now().Unix())
			}
			tm.Patch.SetCondition(condition)
		})
		c.WaitFor("other reasons", func() bool { return calls.Load() == 10 })
		c.Pass(100 * time.Millisecond)
		if got, want := c.conditionsOf("a"), "Ready=True/Made10@1 since "+longAgo+", Other=False/Made@1 since "+longAgo; got != want {
			c.Errorf("got the conditions %s, want %s", got, want)
		}
		c.WaitFor("another status", func() bool { return calls.Load() == 20 })
		c.Pass(100 * time.Millisecond)
		since := time.Unix(changed.Load(), 0).UTC().Format(time.RFC3339)
		if got, want := c.conditionsOf("a"), "Ready=False/Made20@1 since "+since+", Other=False/Made@1 since "+longAgo; got != want {
			c.Errorf("got the conditions %s, want %s", got, want)
		}
	})
	c.Run(t, "RC-59 of several handlers that set a condition, the last one counts, also for its time", func(c *C) {
		c.withConditions(storedCondition("Ready", "True"))
		r := &kopf.Registry{}
		for i, status := range []kopf.ConditionStatus{kopf.ConditionFalse, kopf.ConditionUnknown, kopf.ConditionTrue} {
			r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error {
				ch.Patch.SetCondition(kopf.Condition{Type: "Ready", Status: status, Reason: fmt.Sprint("Made", i)})
				return nil
			}, named(kopf.HandlerID(fmt.Sprint("create-", i))))
		}
		c.Operator(r)
		c.WaitFor("the condition", func() bool { return strings.Contains(c.conditionsOf("a"), "Ready=True/Made2") })
		if got, want := c.conditionsOf("a"), "Ready=True/Made2@1 since "+longAgo; got != want {
			c.Errorf("got the conditions %s, want %s", got, want)
		}
	})
}

func wrongConditions(t *testing.T, c *C) {
	for what, tt := range map[string]struct {
		condition kopf.Condition
		message   string
	}{
		"type":       {kopf.Condition{Type: "Is ready", Status: kopf.ConditionTrue, Reason: "Made"}, `invalid type "Is ready" of a condition: want`},
		"status":     {kopf.Condition{Type: "Ready", Status: "true", Reason: "Made"}, `invalid status "true" of the condition Ready: want`},
		"reason":     {kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "1"}, `invalid reason "1" of the condition Ready: want`},
		"generation": {kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Made", ObservedGeneration: -1}, "invalid observedGeneration -1 of the condition Ready: want"},
	} {
		c.Run(t, "RC-59 a condition with a bad "+what+" fails its handler, and is not sent", func(c *C) {
			c.withConditions(storedCondition("Ready", "False"))
			op := c.everySecond(func(tm *kopf.Timer) { tm.Patch.SetCondition(tt.condition) })
			op.waitLogged(c, "failed permanently")
			if lines := op.Logs.Find(tt.message); len(lines) != 1 || lines[0].Level != slog.LevelError {
				c.Errorf("got the lines %v, want one error with %q", op.Logs.Find("failed"), tt.message)
			}
			if got, want := c.conditionsOf("a"), "Ready=False/Made@1 since "+longAgo; got != want {
				c.Errorf("got the conditions %s, want %s", got, want)
			}
			if writes := op.Wire.Writes(); len(writes) > 0 {
				c.Errorf("got %d writes, such as %s, want none", len(writes), writes[0].Body)
			}
		})
	}
}

func failingConditions(t *testing.T, c *C) {
	set := func(p *kopf.Patch) error {
		p.SetCondition(kopf.Condition{Type: "Ready", Status: "Maybe", Reason: "Made"})
		p.SetCondition(kopf.Condition{Type: "Working", Status: kopf.ConditionFalse, Reason: "Failed"})
		p.Set("status.y", make(chan int))
		p.Transform(func(map[string]any) error { panic("no function") })
		return kopf.Temporary(errOops, time.Minute)
	}
	for kind, register := range map[string]func(*kopf.Registry){
		"change": func(r *kopf.Registry) {
			r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error { return set(ch.Patch) }, named("h"))
		},
		"timer": func(r *kopf.Registry) {
			r.OnTimer(statusExamples, func(_ context.Context, tm *kopf.Timer) error { return set(tm.Patch) },
				&kopf.TimerOptions{ID: "h", Interval: time.Minute, WithoutFinalizer: true})
		},
		"reconcile": func(r *kopf.Registry) {
			r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error { return set(r.Patch) }, &kopf.ReconcileOptions{ID: "h"})
		},
	} {
		c.Run(t, "DF-53 the log names the invalid parts of the patch of a failed "+kind+" handler, and the others are stored", func(c *C) {
			r := &kopf.Registry{}
			register(r)
			op := c.Operator(r)
			c.statuses().Create("a", sized(1))
			c.WaitFor("the valid condition", func() bool { return strings.Contains(c.conditionsOf("a"), "Working=False/Failed@1") })
			lines := op.Logs.Find("failed temporarily: oops")
			if len(lines) == 0 || lines[0].Level != slog.LevelWarn || !strings.Contains(lines[0].Message, `invalid status "Maybe" of the condition Ready`) {
				c.Errorf("got the lines %+v, want a warning that names the condition", op.Logs.Find("failed"))
			}
			if strings.Contains(c.conditionsOf("a"), "Ready") {
				c.Errorf("got the conditions %s", c.conditionsOf("a"))
			}
		})
	}
	c.Run(t, "DF-53 the message of a condition is shortened in the middle", func(c *C) {
		c.statuses().Create("a", sized(1))
		op := c.everySecond(func(tm *kopf.Timer) {
			tm.Patch.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Made", Message: "begin " + strings.Repeat("x", 40_000) + " end"})
		})
		c.WaitFor("the condition", func() bool { return c.conditionsOf("a") != "" })
		c.Pass(5 * time.Second)
		got := c.statuses().Get("a").Status().Views("conditions")[0].String("message")
		if len(got) != 32768 || !strings.HasPrefix(got, "begin xxx") || !strings.HasSuffix(got, "xxx end") || !strings.Contains(got, "x...x") {
			c.Errorf("got a message of %d bytes: %.20s", len(got), got)
		}
		if n := len(op.Wire.Writes()); n != 1 {
			c.Errorf("got %d writes, want 1, because the stored message does not change", n)
		}
	})
}
