package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the conditions that reconcile handlers maintain.

// condition returns the status, the reason and the message of a condition of an object.
func condition(b *kopf.Body, name string) (status, reason, message string) {
	all, _ := b.Get("status.conditions").([]any)
	for _, one := range all {
		if c, _ := one.(map[string]any); c["type"] == name {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["reason"]), fmt.Sprint(c["message"])
		}
	}
	return "", "", ""
}

var _ = Suite("reconcile_conditions", func(t *testing.T, c *C) {
	c.Run(t, "RC-60 Conditions tells whether the children are ready, and what is waited for", func(c *C) {
		r := &kopf.Registry{}
		examples := c.statuses()
		r.OnReconcile("kopfstatusexamples.v1.kopf.dev", func(_ context.Context, r *kopf.Reconcile) error {
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}, nil)
			r.Patch.Set("status.phase", "x")
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"persistentvolumeclaims"}, Conditions: true})
		op := c.Operator(r)
		examples.Create("a", nil)
		c.WaitFor("the condition", func() bool { s, _, _ := condition(examples.Get("a"), "Ready"); return s == "False" })
		if status, reason, message := condition(examples.Get("a"), "Reconciling"); status != "True" || reason != "ChildNotReady" || !strings.HasPrefix(message, "PersistentVolumeClaim a: ") {
			c.Errorf("got Reconciling %s %s %s", status, reason, message)
		}
		n := len(patchesOf(op, "/kopfstatusexamples/a"))
		if n != 1 {
			c.Errorf("got %d patches, want one with the rest", n)
		}
		c.Of("v1", "PersistentVolumeClaim").PatchStatus("a", map[string]any{"status": map[string]any{"phase": "Bound"}})
		c.WaitFor("the condition", func() bool { s, _, _ := condition(examples.Get("a"), "Ready"); return s == "True" })
		if status, reason, _ := condition(examples.Get("a"), "Reconciling"); status != "False" || reason != "Succeeded" {
			c.Errorf("got Reconciling %s %s", status, reason)
		}
		if status, _, _ := condition(examples.Get("a"), "Stalled"); status != "False" {
			c.Errorf("got Stalled %s", status)
		}
		body := examples.Get("a")
		if body.Status().Int("observedGeneration") != body.Metadata().Int("generation") {
			c.Errorf("got the observed generation %d of %d", body.Status().Int("observedGeneration"), body.Metadata().Int("generation"))
		}
	})
	c.Run(t, "RC-60 errors are Reconciling, and permanent ones Stalled", func(c *C) {
		var err atomic.Pointer[error]
		fail := func(e error) { err.Store(&e) }
		fail(errors.New("not yet"))
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return *err.Load() }, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the condition", func() bool { s, _, m := condition(c.Get("a"), "Reconciling"); return s == "True" && m == "not yet" })
		fail(kopf.Permanent(errors.New("never")))
		c.WaitFor("the condition", func() bool { s, _, m := condition(c.Get("a"), "Stalled"); return s == "True" && m == "never" })
		if status, _, _ := condition(c.Get("a"), "Reconciling"); status != "False" {
			c.Errorf("got Reconciling %s", status)
		}
		fail(nil)
		c.Patch("a", spec(map[string]any{"size": 2}))
		c.WaitFor("the condition", func() bool { s, _, _ := condition(c.Get("a"), "Ready"); return s == "True" })
	})
	c.Run(t, "RC-6 conditions that may not be written are told of, and written when they may", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		op, _ := c.parenting(bySize, &kopf.ReconcileOptions{Conditions: true})
		var allowed atomic.Bool
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && strings.HasPrefix(q.Path, c.examplesPath()+"/a") && !allowed.Load() {
				return Answer(http.StatusForbidden, "Forbidden", "you may not"), nil
			}
			return nil, nil
		})
		c.Create("a", spec(map[string]any{"size": 1}))
		c.Pass(2 * time.Second)
		if lines := op.Logs.Find("Storing the patch of a handler failed"); len(lines) == 0 || lines[0].Level != slog.LevelWarn || lines[0].Attrs["handler"] != "reconcile" || !strings.Contains(lines[0].Attrs["error"], "you may not") {
			c.Errorf("got the lines %v, want a warning that names the handler and the refusal", lines)
		}
		c.Pass(time.Hour) // in which kopf gives up the patch more than once
		allowed.Store(true)
		c.Pass(5 * time.Minute)
		status, _, _ := condition(c.Get("a"), "Ready")
		c.same("the condition", "True", status)
	})
	c.Run(t, "RC-60 a refused patch is a failure in the conditions, in an event and in the metrics, with growing delays", func(c *C) {
		source, examples := &kopf.Source{}, c.statuses()
		var l calls
		var fine atomic.Bool
		r := &kopf.Registry{}
		r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("call %d", r.Retry)
			r.Patch.Set("status.phase", "x")
			if !fine.Load() {
				r.Patch.SetLabel("wrong", "not a label")
			}
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true, Sources: []*kopf.Source{source}, Backoff: 2 * time.Second})
		op := c.Operator(r)
		examples.Create("a", nil)
		failed := func() bool { s, _, _ := condition(examples.Get("a"), "Ready"); return s == "False" }
		c.WaitFor("the condition", failed)
		_, reason, message := condition(examples.Get("a"), "Reconciling")
		if reason != "Retrying" || !strings.HasPrefix(message, "its patch was refused: PATCH ") || !strings.Contains(message, "not a label") {
			c.Errorf("got the condition Reconciling %s %s", reason, message)
		}
		c.WaitFor("some retries", func() bool { return len(l.all()) >= 3 })
		c.same("the calls", []string{"call 0", "call 1", "call 2"}, l.all()[:3])
		if len(op.Logs.Find("'reconcile' succeeded")) > 0 {
			c.Error("a call with a refused patch is logged as a success")
		}
		since := examples.Get("a").Status().Views("conditions")[0].String("lastTransitionTime")
		c.WaitFor("the event", func() bool { return len(op.posted(false)) == 1 })
		if got := op.posted(false)[0]; got.Reason != "HandlerFailed" || !strings.HasPrefix(got.Message, "Handler 'reconcile' failed: its patch was refused: PATCH ") {
			c.Errorf("got the event %s", got)
		}
		c.Pass(3 * time.Second)
		if now := examples.Get("a").Status().Views("conditions")[0].String("lastTransitionTime"); now != since {
			c.Errorf("the condition has changed at %s, and again at %s", since, now)
		}
		fine.Store(true)
		c.WaitFor("the readiness", func() bool { return kopf.IsReady(examples.Get("a")) })
	})
	c.Run(t, "RC-60 the conditions are stored when the rest of the status is refused", func(c *C) {
		c.OnlyInBubble("the server has to refuse a value, and it takes minutes")
		examples := c.statuses()
		r := &kopf.Registry{}
		r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error {
			r.Patch.Set("status.phase", "wrong")
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true, MaxBackoff: 5 * time.Minute})
		page := newPipe()
		op := c.Operator(r, probed(page, "http://0.0.0.0/healthz"))
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && strings.Contains(q.Body, "wrong") && strings.HasSuffix(q.Path, "/status") {
				return Answer(http.StatusUnprocessableEntity, "Invalid", "want another phase"), nil
			}
			return nil, nil
		})
		examples.Create("a", nil)
		c.Pass(time.Hour)
		if status, reason, message := condition(examples.Get("a"), "Ready"); status != "False" || reason != "Failed" || !strings.Contains(message, "want another phase") {
			c.Errorf("got the condition Ready %s %s %s", status, reason, message)
		}
		if n := len(op.Logs.Find("The API server refused the patch of a handler")); n < 15 || n > 25 {
			c.Errorf("the patch was refused %d times in an hour, want a delay that grows to 5 minutes", n)
		} else {
			wantMetrics(c, page, map[string]float64{
				strings.Replace(failingOf("reconcile"), "kopfexamples", "kopfstatusexamples", 1): 1,
				`controller_runtime_reconcile_total{controller="reconcile",result="success"}`:    0,
				`controller_runtime_reconcile_errors_total{controller="reconcile"}`:              float64(n),
			})
		}
	})
	for name, set := range map[string]func(p *kopf.Patch){
		"a path":  func(p *kopf.Patch) { p.Set("status.conditions.0.type", "Ready") },
		"a value": func(p *kopf.Patch) { p.Set("status", map[string]any{"conditions": map[string]any{"type": "Ready"}}) },
	} {
		c.Run(t, "RC-60 conditions survive a patch that treats them as an object: "+name, func(c *C) {
			examples := c.statuses()
			r := &kopf.Registry{}
			r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error {
				set(r.Patch)
				return nil
			}, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
			op := c.Operator(r)
			examples.Create("a", nil)
			c.WaitFor("the condition", func() bool { s, _, _ := condition(examples.Get("a"), "Ready"); return s == "False" })
			status, _, message := condition(examples.Get("a"), "Stalled")
			if want := name == "a path"; (status == "True") != want || want && !strings.Contains(message, `"status.conditions" is a list`) {
				c.Errorf("got the condition Stalled %s %s", status, message)
			}
			if lines := op.Logs.Find("A transformation of a patch failed"); len(lines) > 0 {
				c.Errorf("got the lines %v, want no retries of the same patch", lines)
			}
		})
	}
	for name, code := range map[string]int{"in a conflict": 0, "by a rule": http.StatusForbidden, "by a broken webhook": http.StatusInternalServerError} {
		c.Run(t, "RC-60 a stored patch is not sent again when its conditions are refused "+name, func(c *C) { proveStoredOnce(c, code) })
	}
	c.Run(t, "RC-60 a stored status is not sent again when the rest of its patch is refused", proveStoredStatus)
	c.Run(t, "RC-11 the change of a stored patch calls nobody when its conditions are refused", proveStoredEcho)
	c.Run(t, "RC-60 a refused patch is a permanent failure with ErrorsPermanent", func(c *C) {
		examples, l := c.statuses(), calls{}
		r := &kopf.Registry{}
		r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error {
			l.add("call")
			r.Patch.SetLabel("wrong", "not a label")
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true, Errors: kopf.ErrorsPermanent})
		op := c.Operator(r)
		examples.Create("a", nil)
		c.WaitFor("the condition", func() bool { s, _, _ := condition(examples.Get("a"), "Stalled"); return s == "True" })
		c.WaitFor("the event", func() bool { return len(op.posted(false)) == 1 })
		c.Pass(3 * time.Second)
		c.expect(&l, "call")
		if got := op.posted(false)[0]; !strings.HasPrefix(got.Message, "Handler 'reconcile' failed permanently: its patch was refused") {
			c.Errorf("got the event %s", got)
		}
	})
	c.Run(t, "RC-60 at rest, the conditions make no requests", func(c *C) {
		source := &kopf.Source{}
		var l reconciles
		op := c.Reconciled(&l, &kopf.ReconcileOptions{Conditions: true, Sources: []*kopf.Source{source}})
		c.Create("a", nil)
		c.WaitFor("the condition", func() bool { s, _, _ := condition(c.Get("a"), "Ready"); return s == "True" })
		c.Pass(time.Second)
		n := len(writes(op))
		for range 3 {
			source.TriggerAll()
			c.Pass(2 * time.Second)
		}
		if got := len(writes(op)); got != n || len(l.all()) != 4 {
			c.Errorf("got %d writes for %d calls", got-n, len(l.all())-1)
		}
	})
	c.Run(t, "DF-54 conditions fit the object in a kind without the status subresource", func(c *C) {
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil },
			&kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
		op := c.Operator(r)
		c.Create("a", map[string]any{
			"spec": map[string]any{"size": 0},
			"status": map[string]any{"conditions": []any{map[string]any{ // of an older version
				"type": "Ready", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": 1,
				"lastTransitionTime": "2020-01-01T00:00:00Z",
			}}},
		})
		for size := range 3 {
			c.Patch("a", map[string]any{"spec": map[string]any{"size": size}})
			c.WaitFor("the readiness", func() bool { return kopf.IsReady(c.Get("a")) })
			c.Pass(time.Second)
			if b := c.Get("a"); !kopf.IsReady(b) {
				c.Errorf("the object is not ready any more: %s", b)
			}
			for _, one := range c.Get("a").Status().Views("conditions") {
				if one.Has("observedGeneration") {
					c.Errorf("got %s in an object of the generation %d", one, c.Get("a").Metadata().Int("generation"))
				}
			}
		}
		if n := len(patchesOf(op, "/kopfexamples/a")); n != 1 {
			c.Errorf("got %d patches, want one for the conditions", n)
		}
	})
	c.Run(t, "DF-54 an equal condition is not written in a kind without the status subresource", func(c *C) {
		r := &kopf.Registry{}
		var l calls
		r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
			l.add("timer")
			tm.Patch.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Works"})
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the condition", func() bool { return c.Get("a").Status().Has("conditions") })
		called := l.count("timer")
		c.WaitFor("a call with the condition, whose event may be late", func() bool { return l.count("timer") >= called+2 })
		n, called := len(patchesOf(op, "/kopfexamples/a")), l.count("timer")
		c.WaitFor("more calls", func() bool { return l.count("timer") >= called+3 })
		if m := len(patchesOf(op, "/kopfexamples/a")); m != n {
			c.Errorf("got %d patches more after %d calls", m-n, l.count("timer"))
		}
		if !kopf.IsReady(c.Get("a")) {
			c.Errorf("the object is not ready: %s", c.Get("a"))
		}
	})
})

// patchesOf returns the patches of an operator whose paths contain a text.
func patchesOf(op *Running, path string) (all []Request) {
	for _, q := range op.Wire.Requests("PATCH") {
		if p, _, _ := strings.Cut(q.Path, "?"); strings.HasSuffix(p, path) || strings.HasSuffix(p, path+"/status") {
			all = append(all, q)
		}
	}
	return all
}

// proveStoredOnce has a user change the field of a patch that is stored, while its conditions are refused with a code, or
// meet the user's change.
func proveStoredOnce(c *C, code int) {
	k := c.statuses()
	r := &kopf.Registry{}
	r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error {
		if r.Spec().Int("x") == 0 {
			r.Patch.Set("spec.x", 3) // a default
		}
		return nil
	}, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
	var refused atomic.Int64
	c.Operator(r, wired(func(req *Request) (*http.Response, error) {
		if req.Method != http.MethodPatch || !strings.HasSuffix(req.Path, "/a/status") || refused.Add(1) > 3 {
			return nil, nil
		}
		_, err := c.Client.Patch(contextWithout(c.Context()), k.Ref("a"), sized(4+int(refused.Load())), nil)
		if err != nil || code == 0 {
			return nil, err
		}
		return Answer(code, "Refused", "failed calling webhook"), nil
	}))
	k.Create("a", map[string]any{"spec": map[string]any{}})
	c.WaitFor("the condition", func() bool {
		_, reason, _ := condition(k.Get("a"), "Ready")
		return reason != "" && refused.Load() > 3
	})
	if x := k.Get("a").Spec().Int("x"); x < 5 {
		c.Errorf("the size of the user is %d now", x)
	}
}

// proveStoredStatus refuses the request for the object after that for its status was stored, and another client changes
// the status.
func proveStoredStatus(c *C) {
	set := func(p *kopf.Patch) {
		p.Set("status.phase", "Created")
		p.Set("spec.x", 3)
	}
	for name, register := range map[string]func(*kopf.Registry){
		"create": func(r *kopf.Registry) {
			r.OnCreate(statusExamples, func(_ context.Context, x *kopf.Change) error { set(x.Patch); return nil }, &kopf.ChangeOptions{ID: "fn"})
		},
		"daemon": func(r *kopf.Registry) {
			r.OnDaemon(statusExamples, func(_ context.Context, x *kopf.Daemon) error { set(x.Patch); return nil }, &kopf.DaemonOptions{ID: "fn", WithoutFinalizer: true})
		},
		"reconcile": func(r *kopf.Registry) {
			r.OnReconcile(statusExamples, func(_ context.Context, x *kopf.Reconcile) error {
				if x.Spec().Int("x") == 0 {
					set(x.Patch)
				}
				return nil
			}, &kopf.ReconcileOptions{ID: "fn"})
		},
	} {
		k := c.statuses()
		r := &kopf.Registry{}
		register(r)
		var refused atomic.Bool
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if req.Method != http.MethodPatch || !strings.HasSuffix(req.Path, "/"+name) || !strings.Contains(req.Body, `"x":3`) || refused.Swap(true) {
				return nil, nil
			}
			phase := map[string]any{"status": map[string]any{"phase": "Running"}}
			if _, err := c.Client.Patch(contextWithout(c.Context()), k.Ref(name), phase, &kopf.PatchOptions{Subresource: "status"}); err != nil {
				return nil, err
			}
			return Answer(http.StatusConflict, "Conflict", "the object has been modified"), nil
		}))
		k.Create(name, map[string]any{"spec": map[string]any{}})
		c.WaitFor("the rest", func() bool { return k.Get(name).Spec().Int("x") == 3 })
		c.Pass(time.Second)
		if phase := k.Get(name).Status().String("phase"); phase != "Running" {
			c.Errorf("%s: the status of the other client is %q now", name, phase)
		}
		op.Stop()
	}
}

// proveStoredEcho changes the status in a conflict with the conditions of a handler that has patched its object.
func proveStoredEcho(c *C) {
	k := c.statuses()
	r := &kopf.Registry{}
	var l calls
	r.OnReconcile(statusExamples, func(_ context.Context, r *kopf.Reconcile) error {
		l.add("%v", r.Triggers)
		if r.Spec().Int("x") == 0 {
			r.Patch.Set("spec.x", 3)
		}
		return nil
	}, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
	var met atomic.Bool
	c.Operator(r, wired(func(req *Request) (*http.Response, error) {
		if req.Method != http.MethodPatch || !strings.HasSuffix(req.Path, "/a/status") || met.Swap(true) {
			return nil, nil
		}
		phase := map[string]any{"status": map[string]any{"phase": "Running"}}
		_, err := c.Client.Patch(contextWithout(c.Context()), k.Ref("a"), phase, &kopf.PatchOptions{Subresource: "status"})
		return nil, err
	}))
	k.Create("a", map[string]any{"spec": map[string]any{}})
	c.WaitFor("the condition", func() bool {
		_, reason, _ := condition(k.Get("a"), "Ready")
		return reason != ""
	})
	c.Pass(2 * time.Second)
	for _, call := range l.all() {
		if strings.Contains(call, "Changed") {
			c.Errorf("the handler was called for its own change: %v", l.all())
		}
	}
}
