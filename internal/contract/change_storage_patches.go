package contract

import (
	"context"
	"maps"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that changes by handlers to the whole status keep the stored state, and that the end of a deletion removes nothing too early.

var _ = Suite("change_storage_patches", func(t *testing.T, c *C) {
	for name, setting := range map[string]func(*kopf.Operator){"in annotations": inAnnotations, "in the status": inStatus} {
		overwriting(t, c, name, setting)
		removing(t, c, name, setting)
		finishing(t, c, name, setting)
		mutating(t, c, name, setting)
	}
	describing(t, c)
	replacingIgnored(t, c)
})

func overwriting(t *testing.T, c *C, name string, setting func(*kopf.Operator)) {
	for what, change := range map[string]func(p *kopf.Patch){
		"a transformation sets": func(p *kopf.Patch) {
			p.Transform(func(o map[string]any) error {
				o["status"] = map[string]any{"phase": "ready"}
				return nil
			})
		},
		"a transformation removes": func(p *kopf.Patch) {
			p.Transform(func(o map[string]any) error { delete(o, "status"); return nil })
		},
		"a handler replaces": func(p *kopf.Patch) { p.Replace("status", map[string]any{"phase": "ready"}) },
		"a handler removes":  func(p *kopf.Patch) { p.Remove("status") },
		"with its annotations is replaced": func(p *kopf.Patch) {
			p.Replace("metadata.annotations", map[string]string{"mine": "x"})
			p.Replace("status.phase", "ready")
		},
	} {
		c.Run(t, "a status that "+what+" keeps the state, "+name, func(c *C) {
			c.OnlyInBubble("minutes")
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("create %d", ch.Retry)
				change(ch.Patch)
				if ch.Retry == 0 {
					return kopf.Temporary(errOops, time.Minute)
				}
				return nil
			}, named("create"))
			op := c.Operator(r, setting)
			c.statuses().Create("a", sized(1))
			c.Pass(10 * time.Minute)
			op.Stop()
			c.Operator(r, setting)
			c.Pass(10 * time.Minute)
			c.expect(&l, "create 0", "create 1")
		})
		c.Run(t, "a status that "+what+" in a timer keeps the state, "+name, func(c *C) {
			c.OnlyInBubble("minutes")
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("create")
				return nil
			}, named("create"))
			r.OnTimer(statusExamples, func(ctx context.Context, tm *kopf.Timer) error {
				change(tm.Patch)
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: time.Minute, InitialDelay: 30 * time.Second})
			c.Operator(r, setting)
			c.statuses().Create("a", sized(1))
			c.Pass(10 * time.Minute)
			c.expect(&l, "create")
		})
	}
	c.Run(t, "what a timer sets in a status that it has replaced is there, "+name, func(c *C) {
		r := &kopf.Registry{}
		r.OnTimer(statusExamples, func(ctx context.Context, tm *kopf.Timer) error {
			tm.Patch.Replace("status", map[string]any{"phase": "seen"})
			tm.Patch.Set("status.more", "also")
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Hour})
		c.Operator(r, setting)
		c.statuses().Create("a", sized(1))
		c.WaitFor("both fields", func() bool {
			status := c.statuses().Get("a").Status()
			return status.String("phase") == "seen" && status.String("more") == "also"
		})
	})
}

func removing(t *testing.T, c *C, name string, setting func(*kopf.Operator)) {
	remove := func(p *kopf.Patch) { p.Remove("status") }
	phaseless := func(c *C) {
		c.WaitFor("the removal", func() bool { return c.statuses().Get("a").Status().String("phase") == "" })
	}
	c.Run(t, "a handler that removes the status removes all of its own, "+name, func(c *C) {
		r := &kopf.Registry{}
		r.OnUpdate(statusExamples, func(ctx context.Context, ch *kopf.Change) error { remove(ch.Patch); return nil }, named("update"))
		c.Operator(r, setting)
		c.statuses().Create("a", sized(1))
		c.kept("a", setting)
		c.statuses().PatchStatus("a", map[string]any{"status": map[string]any{"phase": "old"}})
		c.statuses().Patch("a", sized(2))
		phaseless(c)
		c.kept("a", setting)
	})
	c.Run(t, "a timer that removes the status removes all of its own, "+name, func(c *C) {
		c.OnlyInBubble("the timer is late")
		r := &kopf.Registry{}
		r.OnCreate(statusExamples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		r.OnTimer(statusExamples, func(ctx context.Context, tm *kopf.Timer) error { remove(tm.Patch); return nil },
			&kopf.TimerOptions{ID: "timer", Interval: time.Hour, InitialDelay: time.Minute})
		c.Operator(r, setting)
		c.statuses().Create("a", sized(1))
		c.kept("a", setting)
		c.statuses().PatchStatus("a", map[string]any{"status": map[string]any{"phase": "old"}})
		c.Pass(2 * time.Minute)
		phaseless(c)
		c.kept("a", setting)
	})
}

func finishing(t *testing.T, c *C, name string, setting func(*kopf.Operator)) {
	deleting := func(l *calls) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnDelete(statusExamples, l.handler("one"), named("one"))
		r.OnDelete(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("two %d", ch.Retry)
			if ch.Retry < 2 {
				return kopf.Temporary(errOops, time.Minute)
			}
			return nil
		}, named("two"))
		return r
	}
	c.Run(t, "a crash before the finalizer is removed repeats no handler that had finished long before, "+name, func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		var refuse atomic.Bool
		op := c.Operator(deleting(&l), setting, wired(func(q *Request) (*http.Response, error) {
			if refuse.Load() && q.Method == http.MethodPatch && !onStatus(q) {
				return Answer(500, "InternalError", "not now"), nil
			}
			return nil, nil
		}))
		c.statuses().Create("a", sized(1))
		c.WaitFor("the finalizer", func() bool { return len(c.statuses().Get("a").Finalizers()) > 0 })
		c.Pass(time.Second)
		c.statuses().Delete("a")
		c.Pass(90 * time.Second)
		c.expect(&l, "one delete 0", "two 0", "two 1")
		refuse.Store(true)
		c.Pass(61 * time.Second)
		op.Crash()
		c.Operator(deleting(&l), setting)
		c.Pass(10 * time.Minute)
		if n := l.count("one"); n != 1 {
			c.Errorf("the handler that had finished two minutes before was called %d times: %q", n, l.all())
		}
	})
	c.Run(t, "the records of a deletion are removed from an object that others hold, "+name, func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		op := c.Operator(deleting(&l), setting)
		c.statuses().Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}, "spec": map[string]any{"size": 1}})
		c.WaitFor("the finalizer", func() bool { return len(c.statuses().Get("a").Finalizers()) == 2 })
		c.statuses().Delete("a")
		c.Pass(10 * time.Minute)
		c.expect(&l, "one delete 0", "two 0", "two 1", "two 2")
		body := c.statuses().Get("a")
		if got := body.Finalizers(); len(got) != 1 || len(records(body)) > 0 || body.Status().View("kopf.progress").Len() > 0 {
			c.Errorf("left are the finalizers %q and the records of %v", got, body.Map())
		}
		if lines := op.Logs.Find("Deletion is processed: 2 succeeded; 0 failed."); len(lines) != 1 {
			c.Errorf("got %+v", lines)
		}
	})
}

// mutating checks that the state survives a webhook that replaces the status, for a kind whose status is no subresource.
func mutating(t *testing.T, c *C, name string, setting func(*kopf.Operator)) {
	for what, change := range map[string]func(*kopf.Patch){
		"replaces": func(p *kopf.Patch) { p.Replace("status", map[string]any{"phase": "changed"}) },
		"removes":  func(p *kopf.Patch) { p.Remove("status") },
	} {
		c.Run(t, "a webhook that "+what+" the status keeps the state, "+name, func(c *C) {
			c.OnlyInBubble("it is about the in-memory server")
			server := newJudged(c)
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			r.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error {
				if a.Spec().Int("x") == 2 {
					change(a.Patch)
				}
				return nil
			}, &kopf.AdmissionOptions{ID: "mutate", Operations: []kopf.Operation{kopf.OperationUpdate}})
			op := &kopf.Operator{Registry: r, Settings: kopf.NewSettings(), Connection: server.ConnectionInfo(), Namespaces: []string{c.Namespace}}
			setting(op)
			op.Settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "leaf.kopf.dev"}
			client, err := kopf.NewClient(server.ConnectionInfo(), nil)
			if err != nil {
				c.Fatal(err)
			}
			first := kopf.NewRunner(c, op, nil)
			c.Pass(time.Second)
			object := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "a", "namespace": c.Namespace}}
			if err := client.Create(c.Context(), maps.Clone(object), nil); err != nil {
				c.Fatal(err)
			}
			c.Pass(time.Minute)
			if _, err := client.Patch(c.Context(), object, sized(2), nil); err != nil {
				c.Fatal(err)
			}
			c.Pass(time.Minute)
			if err := first.Stop(); err != nil {
				c.Fatal(err)
			}
			kopf.NewRunner(c, op, nil)
			c.Pass(time.Minute)
			c.expect(&l, "create create 0")
		})
	}
}

// describing checks the conditions of an object whose status is replaced, or changes concurrently.
func describing(t *testing.T, c *C) {
	ready := kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Made"}
	condition := func(c *C, name, kind string) kopf.View {
		for _, v := range c.statuses().Get(name).Status().Views("conditions") {
			if v.String("type") == kind {
				return v
			}
		}
		return kopf.View{}
	}
	c.Run(t, "a condition is about the generation that its handler has got", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
			if _, err := c.Client.Patch(ctx, ch.Body.Reference(), sized(2), nil); err != nil {
				return err
			}
			ch.Patch.SetCondition(ready)
			return nil
		}, named("create"))
		c.Operator(r)
		c.statuses().Create("a", sized(1))
		c.WaitFor("the condition", func() bool { return condition(c, "a", "Ready").String("status") == "True" })
		if got := condition(c, "a", "Ready").Int("observedGeneration"); got != 1 {
			c.Errorf("the condition is about the generation %d, and its handler has got the first one", got)
		}
	})
	c.Run(t, "a status that is replaced keeps the conditions, and since when they have their status", func(c *C) {
		c.OnlyInBubble("the time of a transition has whole seconds")
		var l calls
		handle := func(_ context.Context, ch *kopf.Change) error {
			l.add("size %d", ch.Spec().Int("x"))
			ch.Patch.SetCondition(ready)
			ch.Patch.Replace("status", struct {
				Phase string `json:"phase"`
			}{"done"})
			return nil
		}
		r := &kopf.Registry{}
		r.OnCreate(statusExamples, handle, named("create"))
		r.OnUpdate(statusExamples, handle, named("update"))
		c.Operator(r)
		c.statuses().Create("a", sized(1))
		c.WaitFor("the condition", func() bool { return condition(c, "a", "Ready").String("status") == "True" })
		since := condition(c, "a", "Ready").String("lastTransitionTime")
		c.statuses().PatchStatus("a", map[string]any{"status": map[string]any{"old": true, "conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": "Made", "message": "", "lastTransitionTime": since},
			map[string]any{"type": "Other", "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": since},
		}}})
		c.Pass(time.Minute)
		c.statuses().Patch("a", sized(2))
		c.WaitFor("the update", func() bool { return l.count("size 2") == 1 && !c.statuses().Get("a").Status().Has("old") })
		if got := condition(c, "a", "Ready").String("lastTransitionTime"); got != since {
			c.Errorf("the condition is as it is since %s, want %s", got, since)
		}
		if condition(c, "a", "Other").String("reason") != "Theirs" {
			c.Errorf("the conditions are %v", c.statuses().Get("a").Status().Get("conditions"))
		}
	})
}

func replacingIgnored(t *testing.T, c *C) {
	for name, setting := range map[string]func(*kopf.Operator){"in annotations": inAnnotations, "in the status": inStatus} {
		c.Run(t, "a status that is replaced loses what the value leaves out, be it tracked or not, "+name, func(c *C) {
			r := &kopf.Registry{}
			r.OnUpdate(statusExamples, func(ctx context.Context, ch *kopf.Change) error {
				ch.Patch.Replace("status", map[string]any{"phase": "new"})
				return nil
			}, named("update"))
			c.Operator(r, setting, func(op *kopf.Operator) {
				op.Settings.Persistence.DiffBaseStorage = &kopf.SmartDiffBaseStorage{IgnoredFields: []kopf.FieldPath{"status.heartbeat"}}
			})
			c.statuses().Create("a", sized(1))
			c.kept("a", setting)
			c.statuses().PatchStatus("a", map[string]any{"status": map[string]any{"heartbeat": "old", "other": "old"}})
			c.statuses().Patch("a", sized(2))
			c.WaitFor("the phase", func() bool { return c.statuses().Get("a").Status().String("phase") == "new" })
			if status := c.kept("a", setting).Status(); status.Has("heartbeat") || status.Has("other") {
				c.Errorf("the status is %s", status)
			}
		})
	}
}
