package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how the command explain describes handlers and objects, in 8-operations.md.

var _ = SerialSuite("inspection_explain", func(t *testing.T, c *C) {
	explainingFilters(t, c)
	explainingProgress(t, c)
	explainingEvents(t, c)
	explainingLives(t, c)
	explainingFiles(t, c)
	explainingPredicates(t, c)
	explainingElse(t, c)
	explainingKinds(t, c)
	explainingSecrets(t, c)
	explainingNonsense(t, c)
})

// reasons fails the test if handlers have other reasons.
func (c *C) reasons(x *explained, want map[string]string) {
	c.Helper()
	for id, why := range want {
		if got := x.why(id); got != why {
			c.Errorf("%s: got %q, want %q", id, got, why)
		}
	}
}

func explainingFilters(t *testing.T, c *C) {
	c.Run(t, "OB-11 the first reason why not, with what is wanted and what is there", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			update := func(id kopf.HandlerID, o kopf.ChangeOptions) {
				o.ID = id
				r.OnUpdate(Examples, noChange, &o)
			}
			update("label", kopf.ChangeOptions{Labels: kopf.Match{"env": "prod"}, Field: "spec.none"})
			update("no-label", kopf.ChangeOptions{Labels: kopf.Match{"team": kopf.Present}})
			update("absent-label", kopf.ChangeOptions{Labels: kopf.Match{"env": kopf.Absent}})
			update("first-label", kopf.ChangeOptions{Labels: kopf.Match{"z": "z", "a": "a"}})
			update("annotation", kopf.ChangeOptions{Annotations: kopf.Match{"note": "x"}})
			update("field", kopf.ChangeOptions{Field: "spec.same"})
			update("no-field", kopf.ChangeOptions{Field: "spec.none"})
			update("value", kopf.ChangeOptions{Field: "spec.size", Value: 7})
			update("old", kopf.ChangeOptions{Field: "spec.size", Old: 7})
			update("new", kopf.ChangeOptions{Field: "spec.size", New: 7})
			update("fits", kopf.ChangeOptions{Field: "spec.size", Old: 1, New: 2, Labels: kopf.Match{"env": "dev"}})
			r.OnCreate(Examples, noChange, named("create"))
			r.OnResume(Examples, noChange, named("resume"))
			r.OnDelete(Examples, noChange, &kopf.ChangeOptions{ID: "delete", WithoutFinalizer: true})
			r.OnField(Examples, "spec.same", noChange, named("same"))
			r.OnField(Examples, "spec.size", noChange, named("size"))
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event", Field: "spec.size", Value: 3})
			r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return nil }, &kopf.TimerOptions{ID: "timer", Idle: time.Minute, Interval: time.Hour, WithoutFinalizer: true})
			r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return nil }, &kopf.TimerOptions{ID: "once", Idle: time.Minute, WithoutFinalizer: true})
		})
		meta := handledBefore(`{"metadata":{"labels":{"env":"dev"}},"spec":{"same":1,"size":1}}`, nil)
		meta["labels"] = map[string]any{"env": "dev"}
		c.Create("a", map[string]any{"metadata": meta, "spec": map[string]any{"same": 1, "size": 2}})
		x := c.explain(r, "kex", "a", "-n", c.Namespace)
		c.reasons(x, map[string]string{
			"label/spec.none":    `not called: label env is "dev", "prod" is wanted`,
			"no-label":           "not called: label team is absent, and is to be present",
			"absent-label":       `not called: label env is "dev", and is to be absent`,
			"first-label":        `not called: label a is absent, "a" is wanted`,
			"annotation":         `not called: annotation note is absent, "x" is wanted`,
			"field/spec.same":    "not called: spec.same has not changed",
			"no-field/spec.none": "not called: spec.none is absent, and is to be present",
			"value/spec.size":    "not called: spec.size is 2, 7 is wanted",
			"old/spec.size":      "not called: spec.size was 1, 7 is wanted",
			"new/spec.size":      "not called: spec.size is 2, 7 is wanted",
			"fits/spec.size":     "called: is for the update",
			"create":             "not called: is called for each creation, and this is the update",
			"resume":             "not called: is called for each resuming, and this is the update",
			"delete":             "not called: is called for each deletion, and this is the update",
			"same/spec.same":     "not called: spec.same has not changed",
			"size/spec.size":     "called: is for the update",
			"event/spec.size":    "not called: spec.size is 2, 3 is wanted",
			"timer":              "called: is called every 1h0m0s, when the object was idle for 1m0s",
			"once":               "called: is called once after each change, when the object was idle for 1m0s",
		})
		c.same("the cause", []any{"update", "the handlers for the update are called"}, []any{x.Cause, x.Decision})
		c.same("the changes", `[{"Operation":"change","Field":"spec.size","Old":1,"New":2}]`, encoded(x.Changes))
		for _, h := range x.Handlers {
			if !strings.HasPrefix(h.Registered, "inspection_explain.go:") {
				c.Errorf("%s is registered at %s", h.ID, h.Registered)
			}
		}
		text := c.inspected(r, "explain", "kex", "a", "-n", c.Namespace)
		for _, want := range []string{"Object:   KopfExample " + c.Namespace + "/a\n", "Cause:    update\n", "  spec.size is 2, and was 1\n", `label env is "dev", "prod" is wanted`} {
			if !strings.Contains(text, want) {
				c.Errorf("there is no %q in %s", want, text)
			}
		}
	})
}

func explainingProgress(t *testing.T, c *C) {
	c.Run(t, "OB-11 how far handlers have come", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			for _, id := range []kopf.HandlerID{"new", "done", "failed", "later", "again", "twice", "waits"} {
				r.OnCreate(Examples, noChange, named(id))
			}
			r.OnCreate(Examples, noChange, &kopf.ChangeOptions{ID: "retries", Retries: 2})
			r.OnCreate(Examples, noChange, &kopf.ChangeOptions{ID: "timeout", Timeout: time.Minute})
		})
		c.Create("a", map[string]any{"metadata": handledBefore("", map[string]string{
			"done":    progressOf(map[string]any{"success": true, "stopped": moment(-10 * time.Second)}),
			"failed":  progressOf(map[string]any{"failure": true, "stopped": moment(-10 * time.Second), "message": "never"}),
			"later":   progressOf(map[string]any{"delayed": moment(40 * time.Second), "message": "oops"}),
			"again":   progressOf(map[string]any{"delayed": moment(-time.Second), "message": "oops"}),
			"twice":   progressOf(map[string]any{"retries": 2}),
			"waits":   progressOf(map[string]any{"delayed": moment(40 * time.Second), "message": "None", "subrefs": []string{"waits/sub"}}),
			"retries": progressOf(map[string]any{"retries": 2, "message": "oops"}),
			"timeout": progressOf(map[string]any{"started": moment(-time.Hour), "message": "oops"}),
		})})
		x := c.explain(r, "kex", "a", "-n", c.Namespace)
		age := map[bool]string{true: "40s", false: "39s"}[c.InBubble()]
		want := map[string]string{
			"new":     "called: is for the creation",
			"done":    "not called: has succeeded 10s ago",
			"failed":  "not called: has failed permanently 10s ago: never",
			"later":   "not called: the next attempt is in " + age + ", after the error: oops",
			"again":   "called: is called again, after 1 attempt",
			"twice":   "called: is called again, after 2 attempts",
			"waits":   "not called: waits for its sub-handlers; it is called again in " + age,
			"retries": `not called: fails permanently without a call: handler "retries" has failed 2 times`,
		}
		delete(want, "retries")
		c.reasons(x, want)
		for _, id := range []string{"retries", "timeout"} {
			if !strings.HasPrefix(x.why(id), "not called: fails permanently without a call: ") {
				c.Errorf("%s: %s", id, x.why(id))
			}
		}
	})
	c.Run(t, "OB-T3 all reasons of a change are there at once", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnField(Examples, "spec.x", noChange, named("x"))
			r.OnField(Examples, "spec.y", noChange, named("y"))
			r.OnField(Examples, "metadata.labels.z", noChange, named("z"))
		})
		meta := handledBefore(`{"spec":{"x":1,"y":1}}`, nil)
		meta["labels"] = map[string]any{"z": "1"}
		c.Create("a", map[string]any{"metadata": meta, "spec": map[string]any{"x": 2}})
		x := c.explain(r, "kex", "a", "-n", c.Namespace)
		c.same("the called ones", []string{"x/spec.x", "y/spec.y", "z/metadata.labels.z"}, x.called())
		if len(x.Changes) != 3 {
			c.Errorf("got the changes %v", x.Changes)
		}
	})
}

func explainingEvents(t *testing.T, c *C) {
	all := func(c *C) *kopf.Registry {
		return c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, noChange, named("create"))
			r.OnUpdate(Examples, noChange, named("update"))
			r.OnResume(Examples, noChange, named("resume"))
			r.OnDelete(Examples, noChange, named("delete"))
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event", When: func(e *kopf.WatchEvent) bool { return e.Type != kopf.Modified }})
		})
	}
	tests := []struct{ event, cause, called string }{
		{"", "noop", ""}, {"updated", "noop", ""}, {"created", "create", "create"}, {"resumed", "resume", "resume"}, {"deleted", "delete", "delete"},
	}
	for _, tt := range tests {
		c.Run(t, "OB-11 what is supposed to have happened: "+tt.event, func(c *C) {
			meta := handledBefore(`{"spec":{"x":1}}`, map[string]string{})
			meta["finalizers"] = []any{finalizer}
			c.Create("a", map[string]any{"metadata": meta, "spec": map[string]any{"x": 1}})
			defer c.replace("a", "/metadata/finalizers", []any{})
			args := []string{"kex", "a", "-n", c.Namespace}
			if tt.event != "" {
				args = append(args, "--event", tt.event)
			}
			x := c.explain(all(c), args...)
			called := slices.DeleteFunc(x.called(), func(id string) bool { return id == "event" })
			c.same("the cause", tt.cause+" "+tt.called, x.Cause+" "+strings.Join(called, " "))
		})
	}
	c.Run(t, "OB-11 steps before that", func(c *C) {
		c.Create("a", nil)
		x := c.explain(all(c), "kex", "a", "-n", c.Namespace)
		c.same("the steps", []string{"the finalizer " + finalizer + " is added"}, x.Steps)
		c.same("the handlers", []string{"create"}, x.called())
		c.Create("b", map[string]any{"metadata": map[string]any{"finalizers": []any{finalizer}}})
		x = c.explain(c.one(), "kex", "b", "-n", c.Namespace)
		c.same("the steps without handlers of deletions", []string{"the finalizer " + finalizer + " is removed, because no handler needs it"}, x.Steps)
		c.same("the handlers", []string{"create", "second"}, x.called())
	})
	c.Run(t, "OB-11 an object that nothing holds goes without a call", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnDelete(Examples, noChange, &kopf.ChangeOptions{ID: "delete", WithoutFinalizer: true})
		})
		c.Create("a", nil)
		x := c.explain(r, "kex", "a", "-n", c.Namespace, "--event", "deleted")
		c.same("the decision", "nothing: no finalizer holds the object, so that it is gone", x.Decision)
		c.same("the handlers", []string(nil), x.called())
	})
	c.Run(t, "OB-11 reconcile handlers alone, with the error in the conditions", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile"})
		})
		c.Create("a", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Stalled", "status": "True", "reason": "Failed", "message": "no such plan"}}}})
		x := c.explain(r, "kex", "a", "-n", c.Namespace)
		c.same("the decision", "no change handler matches the object, and other handlers are called", x.Decision)
		c.same("the notes", []string{"The conditions of the object say Failed: no such plan"}, x.Notes)
		c.same("in another namespace", `nothing: the namespace "`+c.Namespace+`" is not served by team-*`, c.explain(r, "kex", "a", "-n", c.Namespace, "--serves", "team-*").Decision)
	})
	c.Run(t, "OB-11 a reconcile handler that failed permanently is not called before a change", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnReconcile(statusExamples, func(context.Context, *kopf.Reconcile) error { return nil },
				&kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
		})
		k := c.statuses()
		k.Create("a", nil)
		for _, tt := range []struct {
			kind, reason, why, note string
		}{
			{"Stalled", "Failed", "not called: has failed permanently, and is called when ", "The conditions of the object say Failed: no"},
			{"Reconciling", "Retrying", "called: is called when ", "The conditions of the object say Retrying: no"},
		} {
			stated := func(kind, status string) map[string]any {
				return map[string]any{"type": kind, "status": status, "reason": tt.reason, "message": "no", "lastTransitionTime": "2020-01-01T00:00:00Z"}
			}
			k.PatchStatus("a", map[string]any{"status": map[string]any{"conditions": []any{stated(tt.kind, "True"), stated("Ready", "False")}}})
			x := c.explain(r, "kopfstatusexamples", "a", "-n", c.Namespace)
			if !strings.HasPrefix(x.why("reconcile"), tt.why) {
				c.Errorf("%s: got %q", tt.kind, x.why("reconcile"))
			}
			c.same("the notes", []string{tt.note}, x.Notes)
		}
	})
	c.Run(t, "OB-11 without handlers, what has changed", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, nil), "spec": map[string]any{"x": 2}})
		x := c.explain(c.handlersFor(nil), "kex", "a", "-n", c.Namespace)
		if x.Cause != "update" || len(x.Changes) != 1 || !strings.Contains(x.Decision, "this program has no handlers for kopfexamples.v1.kopf.dev") {
			c.Errorf("got %+v", x)
		}
	})
}

// explainingLives compares the output of explain for the states of Kopf for Python with the handlers that Kopf for Python called next.
func explainingLives(t *testing.T, c *C) {
	for i, tr := range traces() {
		c.Run(t, fmt.Sprintf("OB-12 objects of the original are explained as it then acted, life %d", i+1), func(c *C) {
			c.OnlyInBubble("the clock is that of the vectors")
			kind, on := tr.kind(c)
			r := c.handlersFor(func(r *kopf.Registry) { tr.script.handlers(r, on, &scene{}) })
			for step := -1; step+1 < len(tr.Steps); step++ {
				next := tr.Steps[step+1]
				state := tr.state(step)
				if next.Event.Type != nil && *next.Event.Type == "DELETED" || next.Now.Before(time.Now()) {
					continue
				}
				c.at(next.Now)
				tr.bring(c, kind, state)
				for at := step; at >= 0; at-- { // the user's changes at the end of the step with this state
					if user := tr.script.user[at]; user != nil && kind.Exists("a") {
						user(c, kind)
					}
					if _, changed := tr.Steps[at].After.(map[string]any); changed {
						break
					}
				}
				if !kind.Exists("a") {
					continue
				}
				args := []string{string(on), "a", "-n", c.Namespace}
				if tr.script.prefix != "" {
					args = append(args, "--prefix", tr.script.prefix)
				}
				if tr.Steps[0].Event.Type == nil && (step < 0 || strings.Contains(encoded(state), "zalando.org/resume_fn")) { // the object existed before the operator
					args = append(args, "--event", "resumed")
				}
				x := c.explain(r, args...)
				called := slices.DeleteFunc(next.invoked(), func(id string) bool { return strings.Contains(id, "/") }) // sub-handlers
				for _, id := range called {
					if !strings.HasPrefix(x.why(id), "called: ") {
						c.Errorf("before the step %d, the original called %s, and explained is: %s", step+1, id, x.why(id))
					}
				}
				if waits := len(called) == 0 && len(x.called()) > 0 && len(x.Steps) == 0; waits && !tr.followed(step+1, x.called()) {
					c.Errorf("before the step %d, the original called nothing, and explained is %q", step+1, x.called())
				}
				if len(kind.Get("a").Finalizers()) > 0 {
					kind.replace("a", "/metadata/finalizers", []any{})
				}
				if kind.Exists("a") {
					kind.Delete("a")
				}
			}
		})
	}
}

// followed reports whether Kopf for Python has called one of the handlers in the next step with calls, at most two events later. Steps without calls store.
func (tr *trace) followed(step int, ids []string) bool {
	from := tr.Steps[step].Now
	for _, s := range tr.Steps[step:] {
		if called := s.invoked(); len(called) > 0 {
			return slices.Contains(ids, called[0]) && s.Now.Sub(from) <= 2*streamLag
		}
	}
	return false
}

func explainingFiles(t *testing.T, c *C) {
	const now, then = `{apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: a, namespace: x, labels: {env: dev}}, spec: {size: 2}}`, `{apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: a, namespace: x}, spec: {size: 1}}`
	write := func(c *C, text string) string {
		path := filepath.Join(c.TempDir(), "object.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			c.Fatal(err)
		}
		return path
	}
	noCluster := func(c *C) {
		c.info.HTTPClient = &http.Client{Transport: tripper(func(q *http.Request) (*http.Response, error) {
			c.Errorf("got the request %s", q.URL)
			return nil, errors.New("there is no cluster")
		})}
	}
	c.Run(t, "OB-13 a change in files, without a cluster", func(c *C) {
		noCluster(c)
		x := c.explain(c.one(), "--file", write(c, now), "--old", write(c, then))
		c.same("the cause", "update update", x.Cause+" "+strings.Join(x.called(), " "))
		c.same("the changes", `[{"Operation":"add","Field":"metadata","Old":null,"New":{"labels":{"env":"dev"}}},{"Operation":"change","Field":"spec.size","Old":1,"New":2}]`, encoded(x.Changes))
		x = c.explain(c.one(), "--file", write(c, now))
		c.same("without the former state", "create create second", x.Cause+" "+strings.Join(x.called(), " "))
		x = c.explain(c.one(), "--file", write(c, now), "--old", write(c, now))
		c.same("the same", "noop ", x.Cause+" "+strings.Join(x.called(), " "))
		x = c.explain(c.one(), "--file", write(c, now), "--old", write(c, then), "--serves", "y*")
		c.same("another namespace", `nothing: the namespace "x" is not served by y*`, x.Decision)
		x = c.explain(c.one(), "--file", write(c, now), "--old", write(c, then), "--serves", "y*", "--serves", "x")
		c.same("this namespace", "update", strings.Join(x.called(), " "))
	})
	c.Run(t, "OB-13 an object of the cluster as it is to be compared with a file", func(c *C) {
		c.Create("a", map[string]any{"spec": map[string]any{"size": 2}})
		old := c.file(c.Kind.object("a", map[string]any{"spec": map[string]any{"size": 1}}))
		x := c.explain(c.one(), "kex", "a", "-n", c.Namespace, "--old", old)
		c.same("the cause", "update update", x.Cause+" "+strings.Join(x.called(), " "))
	})
	c.Run(t, "OB-13 definitions name the plurals", func(c *C) {
		noCluster(c)
		r := c.handlersFor(func(r *kopf.Registry) { r.OnCreate("geese", noChange, named("create")) })
		goose := write(c, "apiVersion: example.com/v1\nkind: Goose\nmetadata: {name: a, namespace: x}\n")
		x := c.explain(r, "--file", goose)
		if len(x.Handlers) > 0 || !strings.Contains(strings.Join(x.Notes, "\n"), "--definitions") {
			c.Errorf("got %+v", x)
		}
		d := definition("geese", "Goose", "Namespaced", nil)
		d["metadata"].(map[string]any)["name"], d["spec"].(map[string]any)["group"] = "geese.example.com", "example.com"
		x = c.explain(r, "--file", goose, "--definitions", c.file(d))
		c.same("with the definition", "create", strings.Join(x.called(), " "))
	})
	c.Run(t, "OB-13 fields without a value are absent from JSON", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile"})
		})
		c.Create("a", nil)
		c.Of("v1", "ConfigMap").Create("a", nil)
		for _, args := range [][]string{{"kex"}, {"kex", "a"}, {"configmaps"}, {"configmaps", "a"}} {
			text := c.inspected(r, append([]string{"explain", "-o", "json", "-n", c.Namespace}, args...)...)
			if strings.Contains(text, `: ""`) || strings.Contains(text, ": null") || strings.Contains(text, ": []") {
				c.Errorf("%q: got %s", args, text)
			}
		}
	})
	c.Run(t, "OB-13 the names in JSON are stable", func(c *C) {
		noCluster(c)
		text := c.inspected(c.one(), "explain", "-o", "json", "--file", write(c, now), "--old", write(c, then))
		for _, key := range []string{"object", "operator", "cause", "decision", "changes", "operation", "field", "old", "new", "handlers", "id", "kind", "registered", "called", "why", "notes"} {
			if !strings.Contains(text, `"`+key+`": `) {
				c.Errorf("there is no %q in %s", key, text)
			}
		}
	})
	broken := []struct{ name, file, old, want string }{
		{"no file", "nope.yaml", "", "nope.yaml"},
		{"nothing in it", "", "", "has 0 objects: want one"},
		{"two objects", now + "\n---\n" + then, "", "has 2 objects: want one"},
		{"no YAML", "{", "", ""},
		{"no object", "[1, 2]", "", ""},
		{"no name", "{apiVersion: v1, kind: Pod, metadata: {namespace: x}}", "", "want a whole object"},
		{"no kind", "{apiVersion: v1, metadata: {name: x}}", "", ""},
		{"odd metadata", "{apiVersion: v1, kind: Pod, metadata: [1]}", "", ""},
		{"another object", now, strings.Replace(then, "name: a", "name: b", 1), "want another state of"},
		{"another kind", now, strings.Replace(then, "KopfExample", "Other", 1), "want another state of"},
		{"another group", now, strings.Replace(then, "kopf.dev/v1", "example.com/v1", 1), "want another state of"},
		{"two old objects", now, now + "\n---\n" + then, "has 2 objects: want one"},
		{"a broken old one", now, "{", ""},
	}
	for _, tt := range broken {
		c.Run(t, "OB-13 files that cannot be explained: "+tt.name, func(c *C) {
			c.OnlyInBubble("it is the same everywhere")
			noCluster(c)
			file := tt.file
			if tt.name != "no file" {
				file = write(c, tt.file)
			}
			args := []string{"explain", "--file", file}
			if tt.old != "" {
				args = append(args, "--old", write(c, tt.old))
			}
			code, stdout, stderr := c.inspect(c.Context(), c.one(), args...)
			if code == 0 || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "panic") {
				c.Errorf("got the exit code %d: %s%s", code, stdout, stderr)
			}
			c.plain(stderr)
		})
	}
}

func explainingPredicates(t *testing.T, c *C) {
	c.Run(t, "OB-14 predicates are called, their panics are shown, and handlers are not called", func(c *C) {
		asked := 0
		r := c.handlersFor(func(r *kopf.Registry) {
			handler := func(context.Context, *kopf.Change) error { c.Error("a handler was called"); return nil }
			r.OnCreate(Examples, handler, &kopf.ChangeOptions{ID: "when", When: func(*kopf.Change) bool { asked++; return false }})
			r.OnCreate(Examples, handler, &kopf.ChangeOptions{ID: "panics", When: func(*kopf.Change) bool { panic("boo\x1b[2J") }})
			r.OnCreate(Examples, handler, &kopf.ChangeOptions{ID: "label", Labels: kopf.Match{"env": func(*kopf.FieldValue) bool { return false }}})
			r.OnCreate(Examples, handler, &kopf.ChangeOptions{ID: "value", Field: "spec.size", Value: func(v *kopf.FieldValue) bool { return v.Value.(map[string]any)["x"] == 1 }})
			r.OnCreate(Examples, handler, &kopf.ChangeOptions{ID: "true", When: func(ch *kopf.Change) bool { return ch.Spec().Int("size") == 5 }})
			r.OnCreate(Examples, handler, &kopf.ChangeOptions{ID: "combined", When: kopf.Not(func(*kopf.Change) bool { return true })})
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event", When: func(*kopf.WatchEvent) bool { panic("nil map") }})
			r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { c.Error("a daemon was started"); return nil }, &kopf.DaemonOptions{ID: "daemon", When: func(*kopf.Daemon) bool { return false }})
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile", When: func(*kopf.Reconcile) bool { return false }})
			r.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "validate", When: func(*kopf.Admission) bool { return false }})
		})
		c.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"env": "dev"}}, "spec": map[string]any{"size": 5}})
		x := c.explain(r, "kex", "a", "-n", c.Namespace)
		if asked == 0 {
			c.Error("the predicate was not called")
		}
		for id, want := range map[string]string{
			"when": "not called: the predicate of inspection_explain.go:*is false", "panics": "not called: the predicate of inspection_explain.go:* has panicked: boo",
			"label":           `not called: the predicate of inspection_explain.go:*is false for label env, which is "dev"`,
			"value/spec.size": "not called: the predicate of inspection_explain.go:* has panicked: interface conversion", "true": "called: is for the creation",
			"combined": "not called: the predicate of the handler registered at inspection_explain.go:* is false",
			"event":    "not called: the predicate of inspection_explain.go:* has panicked: nil map", "daemon": "not called: the predicate of * is false",
			"reconcile": "not called: the predicate of * is false", "validate": "not called: the predicate of * is false",
		} {
			before, after, _ := strings.Cut(want, "*")
			if got := x.why(id); !strings.HasPrefix(got, before) || !strings.Contains(got, after) {
				c.Errorf("%s: got %q, want %q", id, got, want)
			}
		}
		c.plain(c.inspected(r, "explain", "kex", "a", "-n", c.Namespace))
	})
}

func explainingElse(t *testing.T, c *C) {
	ask := func(c *C, args ...string) *explained {
		return c.explain(c.one(), append([]string{"kex", "a", "-n", c.Namespace}, args...)...)
	}
	c.Run(t, "OB-15 the namespace is not served", func(c *C) {
		c.Create("a", nil)
		c.same("the decision", fmt.Sprintf("nothing: the namespace %q is not served by team-*,!team-b", c.Namespace), ask(c, "--serves", "team-*,!team-b").Decision)
		c.same("no handler is called", []string(nil), ask(c, "--serves", "team-*").called())
		c.same("one that is served", []string{"create", "second"}, ask(c, "--serves", "team-*", "--serves", c.Namespace).called())
	})
	c.Run(t, "OB-15 a delay is not the reason where no attempt follows it", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore("", map[string]string{"create": progressOf(map[string]any{"message": "oops", "delayed": moment(time.Hour)})})})
		want := fmt.Sprintf("not called: the namespace %q is not served by team-*; otherwise, the next attempt is in 60m, after the error: oops", c.Namespace)
		if got := ask(c, "--serves", "team-*").why("create"); c.InBubble() && got != want || !strings.HasPrefix(got, want[:60]) {
			c.Errorf("got %q, want %q", got, want)
		}
	})
	c.Run(t, "OB-15 the operator pauses for a peer", func(c *C) {
		k := c.meet()
		c.Create("a", nil)
		c.same("without a peer", []string{"create", "second"}, ask(c).called())
		k.sit("boss", rival(100, 3600))
		x := ask(c)
		c.same("the decision", `nothing: the operator pauses for boss, which has the priority 100 in the peering object "default"`, x.Decision)
		c.same("no handler is called", []string(nil), x.called())
		c.same("with a higher priority", []string{"create", "second"}, ask(c, "--priority", "200").called())
	})
	c.Run(t, "OB-15 two operators with the same priority pause, and so does one without its mandatory peering object", func(c *C) {
		k := c.meet()
		c.Create("a", nil)
		k.sit("one", rival(0, 3600))
		c.same("one record, which may be that of the operator", []string{"create", "second"}, ask(c).called())
		k.sit("two", rival(0, 3600))
		x := ask(c)
		c.same("the decision", `nothing: the operator pauses for operators with the same priority 0 in the peering object "default": one, two`, x.Decision)
		c.same("no handler is called", []string(nil), x.called())
		c.same("with a higher priority", []string{"create", "second"}, ask(c, "--priority", "1").called())
		x = ask(c, "--peering", "other")
		c.same("without the object", `nothing: the operator pauses for the mandatory peering object "other", which does not exist`, x.Decision)
		c.same("without the object, no handler is called", []string(nil), x.called())
	})
	c.Run(t, "OB-15 no replica, or another one, holds the Lease", func(c *C) {
		c.Create("a", nil)
		lease := func(holder string, renewed time.Time) {
			c.leases().Apply(leaseName, c.foreign(holder, 15, renewed))
		}
		args := []string{"--leader-elect", leaseName, "--leader-elect-namespace", c.Namespace}
		c.same("without a Lease", fmt.Sprintf("nothing: no replica holds the Lease %q, which does not exist", leaseName), ask(c, args...).Decision)
		lease("replica-1", time.Now())
		x := ask(c, args...)
		c.same("the handlers", []string{"create", "second"}, x.called())
		if notes := strings.Join(x.Notes, "\n"); !strings.Contains(notes, fmt.Sprintf("The Lease %q is held by replica-1", leaseName)) {
			c.Errorf("got the notes %q", notes)
		}
		lease("replica-1", time.Now().Add(-time.Hour))
		c.same("with an old one", fmt.Sprintf("nothing: no replica holds the Lease %q", leaseName), ask(c, args...).Decision)
	})
	c.Run(t, "DF-78 explain looks for the Lease where the operator has it, not in the namespace of the object", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, noChange, named("create"))
		r.Configure(func(s *kopf.Settings) { s.LeaderElection.Name = leaseName })
		r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) {
			info := c.ConnectionInfo()
			info.DefaultNamespace = c.Namespace
			return info, nil
		}, id("login"))
		c.leases().Apply(leaseName, c.foreign("replica-1", 15, time.Now()))
		c.Create("a", nil)
		elsewhere := c.namespace("b")
		c.Of("kopf.dev/v1", "KopfExample").In(elsewhere).Create("a", nil)
		for _, namespace := range []string{c.Namespace, elsewhere} {
			x := c.explain(r, "kex", "a", "-n", namespace)
			if notes := strings.Join(x.Notes, "\n"); !strings.Contains(notes, "is held by replica-1") {
				c.Errorf("in %s: got the notes %q", namespace, notes)
			}
		}
	})
	c.Run(t, "OB-15 a right is missing", func(c *C) {
		c.Create("a", nil)
		account := c.lackingRight("patch")
		x := ask(c, "--service-account", account)
		c.same("the decision", "nothing: the account "+account+" has no permission to patch kopfexamples.kopf.dev", x.Decision)
		c.same("no handler is called", []string(nil), x.called())
		c.same("without any right", "nothing: the account x/nobody has no permission to list, watch or patch kopfexamples.kopf.dev", ask(c, "--service-account", "x/nobody").Decision)
	})
	c.Run(t, "OB-15 the API server in memory warns that it checks no permissions", func(c *C) {
		c.OnlyInBubble("a real server checks them")
		c.Create("a", nil)
		want := []string{"The API server warns: status.allowed: permissions are not checked by this server, which allows everything"}
		c.same("the notes", want, ask(c, "--service-account", "default/nobody").Notes)
	})
	c.Run(t, "OB-15 rights cannot be asked about", func(c *C) {
		c.OnlyInBubble("the server has to refuse")
		c.Create("a", nil)
		base := c.info.HTTPClient.Transport
		c.info.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "subjectaccessreviews") {
				return Answer(http.StatusForbidden, "Forbidden", "you may not ask"), nil
			}
			return base.RoundTrip(req)
		})}
		x := ask(c, "--service-account", "default/operator")
		if notes := strings.Join(x.Notes, "\n"); !strings.Contains(notes, "the permissions (RBAC) of default/operator cannot be checked") || !strings.Contains(notes, "you may not ask") {
			c.Errorf("got the notes %q", notes)
		}
	})
	c.Run(t, "OB-15 a resource that cannot be watched or patched", func(c *C) {
		c.OnlyInBubble("no kind of a real server is so")
		c.Create("a", nil)
		for verb, warning := range map[string]string{"watch": "Non-watchable", "patch": "Non-patchable"} {
			c.lackingVerb(verb)
			x := ask(c)
			if notes := strings.Join(x.Notes, "\n"); !strings.Contains(notes, warning) || !strings.Contains(notes, "kopfexamples.v1.kopf.dev") || len(x.called()) > 0 {
				c.Errorf("without %s: got the notes %q, and %q are called", verb, notes, x.called())
			}
		}
	})
	c.Run(t, "OB-15 a resource that is not there, or is one of several", func(c *C) {
		other := definition("kopfexamples", "KopfExample", "Namespaced", nil)
		other["metadata"].(map[string]any)["name"], other["spec"].(map[string]any)["group"] = "kopfexamples.example.com", "example.com"
		delete(other["spec"].(map[string]any)["names"].(map[string]any), "shortNames")
		c.Define(other)
		defer c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", "kopfexamples.example.com")
		c.Create("a", nil)
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate("kopfexamples", noChange, named("ambiguous"))
			r.OnCreate("nosuch.example.com", noChange, named("unresolved"))
		})
		x := c.explain(r, "kopfexamples.kopf.dev", "a", "-n", c.Namespace)
		notes := strings.Join(x.Notes, "\n")
		if !strings.Contains(notes, "Ambiguous resources will not be served") || !strings.Contains(notes, "Unresolved resources cannot be served") || len(x.called()) > 0 {
			c.Errorf("got the notes %q, and %q are called", notes, x.called())
		}
	})
	c.Run(t, "OB-15 indices are waited for", func(c *C) {
		c.Create("a", nil)
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, noChange, named("create"))
			kopf.OnIndexIn(r, "secrets", func(context.Context, *kopf.Indexing) (map[string]string, error) { return nil, nil }, &kopf.IndexOptions{ID: "passwords"})
		})
		if notes := strings.Join(c.explain(r, "kex", "a", "-n", c.Namespace).Notes, "\n"); !strings.Contains(notes, "passwords") {
			c.Errorf("got the notes %q", notes)
		}
	})
}

// lackingRight creates an account with the permissions to list, watch and patch KopfExamples, except one of them. The server of a bubble checks no
// permissions, so a transport replaces its responses.
func (c *C) lackingRight(lacking string) (account string) {
	c.Helper()
	if c.InBubble() {
		base := c.info.HTTPClient.Transport
		c.info.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(req.URL.Path, "/subjectaccessreviews") {
				return base.RoundTrip(req)
			}
			data, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			review := decoded(string(data)).(map[string]any)
			allowed := !strings.Contains(string(data), fmt.Sprintf("%q:%q", "verb", lacking)) && strings.Contains(string(data), `"user":"system:serviceaccount:`+c.Namespace+`:operator"`)
			review["status"] = map[string]any{"allowed": allowed}
			return withBody(Answer(http.StatusCreated, "", ""), encoded(review)), nil
		})}
		return c.Namespace + "/operator"
	}
	verbs := slices.DeleteFunc([]any{"list", "watch", "patch"}, func(verb any) bool { return verb == lacking })
	c.Of("v1", "ServiceAccount").Create("operator", nil)
	c.Of("rbac.authorization.k8s.io/v1", "Role").Create("operator", map[string]any{"rules": []any{map[string]any{"apiGroups": []any{"kopf.dev"}, "resources": []any{"kopfexamples"}, "verbs": verbs}}})
	c.Of("rbac.authorization.k8s.io/v1", "RoleBinding").Create("operator", map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "operator", "namespace": c.Namespace}},
	})
	return c.Namespace + "/operator"
}

// lackingVerb removes a verb of KopfExamples from discovery.
func (c *C) lackingVerb(verb string) {
	base := c.transport()
	if l, ok := base.(*doctoredDiscovery); ok {
		base = l.base
	}
	c.info.HTTPClient = &http.Client{Transport: &doctoredDiscovery{base, verb}}
}

// doctoredDiscovery removes a verb from the responses of discovery.
type doctoredDiscovery struct {
	base http.RoundTripper
	verb string
}

// RoundTrip sends the request, and changes the response.
func (d *doctoredDiscovery) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.base.RoundTrip(req)
	if err != nil || !strings.HasPrefix(req.URL.Path, "/api") || strings.Count(strings.Trim(req.URL.Path, "/"), "/") > 2 {
		return resp, err
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // already read
	if err != nil {
		return nil, err
	}
	for _, text := range []string{fmt.Sprintf(",%q", d.verb), fmt.Sprintf("%q,", d.verb)} {
		data = []byte(strings.ReplaceAll(string(data), text, ""))
	}
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(string(data))), int64(len(data))
	resp.Header.Del("Content-Length")
	return resp, nil
}

func explainingKinds(t *testing.T, c *C) {
	c.Run(t, "OB-16 the handlers of a kind, with their places, filters, limits, and what they store where", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, noChange, &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"env": "prod", "team": kopf.Present}, Timeout: time.Hour, Retries: 3, Backoff: time.Minute})
			r.OnUpdate(Examples, noChange, &kopf.ChangeOptions{ID: "resize", Field: "spec.size", Old: 1, New: kopf.Absent})
			r.OnDelete(Examples, noChange, named("delete"))
			r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { return nil }, &kopf.DaemonOptions{ID: "daemon", Annotations: kopf.Match{"note": func(*kopf.FieldValue) bool { return true }}})
			r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, eventID("event"))
			r.OnValidate(Examples, func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "validate", Operations: []kopf.Operation{kopf.OperationCreate, kopf.OperationDelete}})
			r.OnCreate("secrets", noChange, named("other"))
		})
		text := c.inspected(r, "explain", "kex")
		for _, want := range [][]string{
			{"create", "OnCreate", `label env = "prod"; label team present`, "timeout 1h0m0s, 3 attempts, backoff 1m0s", "progress in the annotation kopf.zalando.org/create, results in status.create", "inspection_explain.go:"},
			{"resize/spec.size", "OnUpdate", "the former value of spec.size = 1; the new value of spec.size absent", "progress in the annotation kopf.zalando.org/resize.spec.size"},
			{"delete", "OnDelete", "finalizer"}, {"daemon", "OnDaemon", "annotation note by the predicate of ", "finalizer"}, {"event", "OnEvent"}, {"validate", "OnValidate", "CREATE, DELETE"},
		} {
			at := strings.Index(text, "\n"+want[0]+" ")
			if at < 0 {
				c.Errorf("there is no %s in %s", want[0], text)
				continue
			}
			line, _, _ := strings.Cut(text[at+1:], "\n")
			for _, part := range want {
				if !strings.Contains(line, part) {
					c.Errorf("there is no %q in %s", part, line)
				}
			}
		}
		if strings.Contains(text, "other") {
			c.Error("the handler of another kind is there")
		}
		if text := c.inspected(r, "explain", "pods"); text != "There are no handlers for pods.v1.\n" {
			c.Errorf("got %q", text)
		}
		if text := c.inspected(r, "explain", "kex", "-o", "json"); !strings.Contains(text, `"resource": "kopfexamples.v1.kopf.dev"`) {
			c.Errorf("got %s", text)
		}
	})
	for want, set := range map[string]func(*kopf.PersistenceSettings){
		"progress in the annotation kopf.example.com/create": func(p *kopf.PersistenceSettings) {
			p.ProgressStorage = &kopf.AnnotationsProgressStorage{Prefix: "kopf.example.com"}
		},
		"progress in the annotation smart.example.com/create": func(p *kopf.PersistenceSettings) {
			p.ProgressStorage = &kopf.SmartProgressStorage{Prefix: "smart.example.com"}
		},
		"progress in the annotation first.example.com/create": func(p *kopf.PersistenceSettings) {
			p.ProgressStorage = kopf.MultiProgressStorage{&kopf.SmartProgressStorage{Prefix: "first.example.com"}, &kopf.SmartProgressStorage{}}
		},
		"progress in the field status.kopf.progress.create": func(p *kopf.PersistenceSettings) { p.Storage = kopf.InStatus },
		"progress in a storage of the program": func(p *kopf.PersistenceSettings) {
			p.ProgressStorage = struct{ kopf.ProgressStorage }{&kopf.SmartProgressStorage{}}
		},
	} {
		c.Run(t, "OB-16 by the settings of Configure, a handler of the kind stores its "+want, func(c *C) {
			r := c.handlersFor(func(r *kopf.Registry) {
				r.Configure(func(s *kopf.Settings) { set(&s.Persistence) })
				r.OnCreate(statusExamples, noChange, named("create"))
			})
			if text := c.inspected(r, "explain", "kopfstatusexamples"); !strings.Contains(text, " "+want+", ") {
				c.Errorf("there is no %q in %s", want, text)
			}
		})
	}
}

func explainingSecrets(t *testing.T, c *C) {
	c.Run(t, "OB-14 what secrets hold is not shown", func(c *C) {
		const value, former, wanted = "dG9wc2VjcmV0MQ==", "dG9wc2VjcmV0Mg==", "dG9wc2VjcmV0Mw=="
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnUpdate("secrets", noChange, named("any"))
			r.OnUpdate("secrets", noChange, &kopf.ChangeOptions{ID: "value", Field: "data.password", Value: wanted})
			r.OnUpdate("secrets", noChange, &kopf.ChangeOptions{ID: "old", Field: "data.password", Old: wanted})
			r.OnUpdate("secrets", noChange, &kopf.ChangeOptions{ID: "predicate", Field: "data.password", Value: func(*kopf.FieldValue) bool { return false }})
			r.OnEvent("secrets", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event", Field: "data.password", Value: wanted})
			r.OnUpdate("secrets", noChange, &kopf.ChangeOptions{ID: "label", Labels: kopf.Match{"token": wanted}})
		})
		meta := handledBefore(`{"data":{"password":"`+former+`","gone":"`+former+`"}}`, nil)
		meta["labels"] = map[string]any{"token": former[:8]}
		c.Of("v1", "Secret").Create("s", map[string]any{"metadata": meta, "data": map[string]any{"password": value}})
		for _, args := range []string{"explain secrets s", "explain secrets s -o json", "explain secrets s --event created", "explain secrets s --event deleted -o json", "explain secrets", "explain secrets -o json",
			"status secrets s -o wide", "status secrets s -o json", "status secrets s -o yaml"} {
			text := c.inspected(r, append(strings.Fields(args), "-n", c.Namespace)...)
			for _, secret := range []string{value, former, wanted, former[:8]} {
				if strings.Contains(text, secret) {
					c.Errorf("%s shows %s", args, secret)
				}
			}
		}
		if x := c.explain(r, "secrets", "s", "-n", c.Namespace); len(x.Changes) < 2 || x.Cause != "update" {
			c.Errorf("got %+v", x)
		}
	})
}

func explainingNonsense(t *testing.T, c *C) {
	tests := []struct {
		args, want string
		code       int
	}{
		{"explain", "explain needs a kind", 2},
		{"explain kex a b", `unexpected argument "b"`, 2},
		{"explain kex a --event renamed", "created, updated, deleted or resumed", 2},
		{"explain kex --old x.yaml", "--old needs an object to compare", 2},
		{"explain kex a --file x.yaml", `unexpected argument "kex"`, 2},
		{"explain --file - --old -", "cannot both be standard input", 2},
		{"explain --file x --old y --event created", "use one of them", 2},
		{"explain kex a --definitions x.yaml", "it needs --file", 2},
		{"explain --file x --service-account a/b", "--file explains an object without a cluster", 2},
		{"explain --file x -n a", "--file explains an object without a cluster", 2},
		{"explain --file x --peering a", "--file explains an object without a cluster", 2},
		{"explain kex --event deleted", "need the name of an object", 2},
		{"explain kex --serves a", "need the name of an object", 2},
		{"status kex --page-port 99", "they need --live", 2},
		{"status kex --pods a=b", "they need --live", 2},
		{"status --live --peering a", "it does not go together with --prefix, --peering and --priority", 2},
		{"explain kex a --service-account operator", "default/website-operator", 2},
		{"explain kex a --service-account A/b", "default/website-operator", 2},
		{"explain kex a --prefix a/b", "want the prefix of annotations", 2},
		{"explain kex a --serves [x", "--serves", 2},
		{"explain kex a --failed", "--failed", 2},
		{"explain kex a -o wide", "text or json", 2},
		{"explain kex a --priority high", "whole number", 2},
		{"status kex a b", `unexpected argument "b"`, 2},
		{"status kex a -A", "does not go together", 2},
		{"status -A -n x", "exclude each other", 2},
		{"status kex a -l x=y", "does not go together", 2},
		{"status --watch --failed --exit-code", "--watch runs until you stop it", 2},
		{"status --watch -o yaml", "not yaml", 2},
		{"status -o xml", "table, wide, json", 2},
		{"status --file x", "--file", 2},
		{"status -n Upper", "--namespace", 2},
		{"explain kopfexample.kopf.dev.v1.extra a", "there is no kind", 1},
		{"explain kopfexampels a", "kopfexamples", 1},
		{"explain Ä a", "", 1},
		{"explain *.kopf.dev a", "", 1},
		{"status *", "", 1},
		{"explain kex a", "not found", 1},
		{"explain kex a/b", "", 1},
		{"explain kex/a/b", "", 1},
		{"explain /a", "want a kind and a name", 2},
		{"status kex/", "want a kind and a name", 2},
		{"status kex/a -A", "does not go together", 2},
		{"status --live kex/a", `unexpected argument "kex"`, 2},
		{"status --live -o yaml", `invalid value "yaml"`, 2},
		{"status --live --failed", "does not go together", 2},
		{"explain kex ..", "", 1},
		{"status kex Ä", "", 1},
		{"explain kex a -n nosuch", "not found", 1},
		{"explain kex a --kubeconfig nope", "nope", 1},
	}
	for _, tt := range tests {
		c.Run(t, "OB-9 nonsense: "+tt.args, func(c *C) {
			c.OnlyInBubble("it is the same everywhere")
			r := c.one()
			if strings.Contains(tt.args, "--kubeconfig") {
				r = &kopf.Registry{}
			}
			code, stdout, stderr := c.inspect(c.Context(), r, strings.Fields(tt.args)...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "panic") || stderr == "" {
				c.Errorf("got the exit code %d, want %d with %q: %s%s", code, tt.code, tt.want, stdout, stderr)
			}
			c.plain(stderr)
		})
	}
	c.Run(t, "OB-9 a kind that is any of several", func(c *C) {
		other := definition("kopfexamples", "KopfExample", "Namespaced", nil)
		other["metadata"].(map[string]any)["name"], other["spec"].(map[string]any)["group"] = "kopfexamples.example.com", "example.com"
		delete(other["spec"].(map[string]any)["names"].(map[string]any), "shortNames")
		c.Define(other)
		defer c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", "kopfexamples.example.com")
		for _, command := range []string{"status kopfexamples", "explain kopfexample a"} {
			code, stdout, stderr := c.inspect(c.Context(), c.one(), strings.Fields(command)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "kopfexamples.v1.example.com") || !strings.Contains(stderr, "write the group as well") {
				c.Errorf("%s: got the exit code %d: %s%s", command, code, stdout, stderr)
			}
		}
		c.inspected(c.one(), "status", "kopfexamples.kopf.dev", "-n", c.Namespace)
	})
	c.Run(t, "OB-11 options may come before and after the kind and the name", func(c *C) {
		c.Create("a", nil)
		want := c.inspected(c.one(), "explain", "kex", "a", "-n", c.Namespace)
		c.same("before", want, c.inspected(c.one(), "explain", "-n", c.Namespace, "kex", "a"))
		c.same("between", want, c.inspected(c.one(), "explain", "kex", "-n", c.Namespace, "a"))
		c.same("by another name", want, c.inspected(c.one(), "explain", "-n", c.Namespace, "KopfExample", "a"))
		c.same("in one word", want, c.inspected(c.one(), "explain", "-n", c.Namespace, "kex/a"))
	})
}
