package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// This suite proves which messages handlers and the log get, in 1-change-handling.md.

var _ = ClusterSuite("change_messages", func(t *testing.T, c *C) {
	arguments(t, c)
	logging(t, c)
})

func arguments(t *testing.T, c *C) {
	c.Run(t, "CH-211 handlers get all that there is to know", func(c *C) {
		seen := make(chan map[string]string, 10)
		about := func(o *kopf.Object) map[string]string {
			return map[string]string{
				"resource": o.Resource.Name(), "name": o.Name(), "namespace": o.Namespace(), "uid": o.UID(), "param": fmt.Sprint(o.Param),
				"spec": o.Spec().String("x"), "meta": o.Meta().String("name"), "status": o.Status().String("y"), "label": o.Labels()["l"],
				"annotation": o.Annotations()["n"], "body": o.Body.Kind(), "memo": fmt.Sprint(o.Memo() != nil), "logger": fmt.Sprint(o.Logger != nil),
				"client": fmt.Sprint(o.Client != nil), "patch": fmt.Sprint(o.Patch.Empty()),
			}
		}
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added || e.Type == kopf.Listed {
				all := about(&e.Object)
				all["type"] = "new"
				seen <- all
			}
			return nil
		}, &kopf.EventOptions{ID: "event", Param: "P"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			all := about(&ch.Object)
			all["reason"], all["old"], all["new"], all["diff"] = string(ch.Reason), fmt.Sprint(ch.Old.Len()), ch.New.String("spec.x"), fmt.Sprint(len(ch.Diff()))
			all["retry"], all["started"] = fmt.Sprint(ch.Retry), fmt.Sprint(time.Since(ch.Started) < time.Minute)
			all["runtime"] = fmt.Sprint(ch.Runtime >= 0 && ch.Runtime < time.Minute)
			seen <- all
			return nil
		}, &kopf.ChangeOptions{ID: "create", Param: 7})
		c.Operator(r)
		body := c.Create("a", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"l": "L"}, "annotations": map[string]any{"n": "N"}},
			"spec":     map[string]any{"x": "X"}, "status": map[string]any{"y": "Y"},
		})
		common := map[string]string{
			"resource": "kopfexamples.v1.kopf.dev", "name": "a", "namespace": c.Namespace, "uid": body.UID(), "spec": "X", "meta": "a", "status": "Y", "label": "L",
			"annotation": "N", "body": "KopfExample", "memo": "true", "logger": "true", "client": "true", "patch": "true",
		}
		for _, own := range []map[string]string{
			{"param": "P", "type": "new"},
			{"param": "7", "reason": "create", "old": "0", "new": "X", "diff": "1", "retry": "0", "started": "true", "runtime": "true"},
		} {
			for k, v := range common {
				own[k] = v
			}
			if diff := cmp.Diff(own, <-seen); diff != "" {
				c.Errorf("what the handler got (-want +got):\n%s", diff)
			}
		}
	})
	c.Run(t, "CH-212 what is absent is empty, and the body is that of the event", func(c *C) {
		seen := make(chan string, 10)
		r := &kopf.Registry{}
		r.OnCreate("kopfclusterexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error {
			labels, annotations := ch.Labels(), ch.Annotations()
			seen <- fmt.Sprintf("%d %d %t %t %q %t", ch.Spec().Len(), ch.Status().Len(), labels != nil && len(labels) == 0, annotations != nil && len(annotations) == 0, ch.Namespace(), ch.Spec().Has("x"))
			m := ch.Body.Map()
			m["spec"] = "changed"
			seen <- fmt.Sprint(ch.Body.Has("spec"), " ", ch.Body.ResourceVersion() == ch.Meta().String("resourceVersion"))
			return nil
		}, named("create"))
		c.Operator(r)
		k := c.Of("kopf.dev/v1", "KopfClusterExample")
		name := c.Unique("empty")
		k.Create(name, nil)
		if got, want := <-seen, `0 0 true true "" false`; got != want {
			c.Errorf("got %s, want %s", got, want)
		}
		if got, want := <-seen, "false true"; got != want {
			c.Errorf("got %s, want %s: a copy was changed, and the body with it", got, want)
		}
		k.Delete(name)
	})
}

func logging(t *testing.T, c *C) {
	c.Run(t, "CH-214 messages about an object tell which one", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Logger.Info("from the handler")
			return nil
		}, named("create"))
		op := c.Operator(r)
		c.Create("a", nil)
		want := c.handled("a").Reference()
		op.waitLogged(c, "Creation is processed")
		if want.APIVersion == "" || want.Kind == "" || want.UID == "" || want.Namespace != c.Namespace {
			c.Fatalf("the object's reference is %+v", want)
		}
		for _, text := range []string{"from the handler", "'create' is invoked", "'create' succeeded", "Creation is processed", "Patching."} {
			lines := op.Logs.Find(text)
			if len(lines) != 1 {
				c.Errorf("%d lines with %q, want 1", len(lines), text)
				continue
			}
			if got := lines[0].Object; got != want {
				c.Errorf("the line %q is about %+v, want %+v", text, got, want)
			}
		}
	})
	c.Run(t, "CH-215 the levels tell how much a message matters", func(c *C) {
		c.OnlyInBubble("the delays are long")
		r := &kopf.Registry{}
		fails := func(errs ...error) kopf.ChangeFunc { return new(calls).handler("x", errs...) }
		r.OnCreate(Examples, fails(), named("fine"))
		r.OnCreate(Examples, fails(kopf.Temporary(errors.New("T"), time.Second)), named("temporary"))
		r.OnCreate(Examples, fails(kopf.Permanent(errors.New("P"))), named("permanent"))
		r.OnCreate(Examples, fails(errors.New("A")), &kopf.ChangeOptions{ID: "again", Backoff: time.Second})
		r.OnCreate(Examples, fails(errors.New("S")), &kopf.ChangeOptions{ID: "stopped", Errors: kopf.ErrorsPermanent})
		r.OnCreate(Examples, fails(errors.New("I")), &kopf.ChangeOptions{ID: "ignored", Errors: kopf.ErrorsIgnored})
		r.OnCreate(Examples, fails(errors.New("R"), errors.New("R")), &kopf.ChangeOptions{ID: "few", Retries: 1, Backoff: time.Second})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				panic("boom")
			}
			return nil
		}, &kopf.ChangeOptions{ID: "panics", Backoff: time.Second})
		r.OnUpdate(Examples, fails(), named("update"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the update", func() bool { return len(op.Logs.Find("Updating is processed")) == 1 })
		c.Patch("a", map[string]any{"status": map[string]any{"x": 1}})
		c.Pass(time.Second)
		for text, want := range map[string]slog.Level{
			"Handler 'fine' is invoked": slog.LevelDebug, "Handler 'fine' succeeded": slog.LevelInfo,
			"Handler 'temporary' failed temporarily: T": slog.LevelWarn, "Handler 'permanent' failed permanently: P": slog.LevelError,
			"Handler 'again' failed with an exception and will try again in 1s": slog.LevelWarn,
			"Handler 'stopped' failed with an exception and will stop now":      slog.LevelError,
			"Handler 'ignored' failed with an exception and will ignore it":     slog.LevelWarn,
			"Handler 'few' failed permanently":                                  slog.LevelError,
			"Handler 'panics' failed with an exception and will try again":      slog.LevelError,
			"Creation is in progress":                                           slog.LevelDebug, "Updating is in progress": slog.LevelDebug, "Detected differences": slog.LevelDebug,
			"Creation is processed": slog.LevelInfo, "No tracked field has changed; skipping handlers": slog.LevelDebug, "Patching.": slog.LevelDebug,
		} {
			lines := op.Logs.Find(text)
			if len(lines) == 0 {
				c.Errorf("there is no line %q", text)
				continue
			}
			for _, line := range lines {
				if line.Level != want {
					c.Errorf("the line %q is at level %s, want %s", text, line.Level, want)
				}
			}
		}
		for text, key := range map[string]string{
			"'panics' failed": "stack", "'again' failed": "error", "Creation is in progress": "body", "Patching.": "patch", "Detected differences": "diff",
		} {
			if lines := op.Logs.Find(text); len(lines) == 0 || lines[0].Attrs[key] == "" {
				c.Errorf("the line %q tells no %s", text, key)
			}
		}
		for _, text := range []string{"'temporary' failed", "'permanent' failed"} {
			if lines := op.Logs.Find(text); len(lines) == 0 || lines[0].Attrs["stack"] != "" {
				c.Errorf("the line %q has a stack, although the handler said what it meant", text)
			}
		}
	})
	c.Run(t, "CH-216 the causes are called by their names", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		for id, on := range map[kopf.HandlerID]func(kopf.Selector, kopf.ChangeFunc, *kopf.ChangeOptions){
			"create": r.OnCreate, "update": r.OnUpdate, "delete": r.OnDelete, "resume": r.OnResume,
		} {
			on(Examples, l.handler(string(id)), named(id))
		}
		first := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		first.Stop()
		op := c.Operator(r)
		c.WaitFor("the resuming", func() bool { return l.count("resume") == 1 })
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the update", func() bool { return l.count("update") == 1 })
		c.Delete("a")
		c.gone("a")
		for name, logs := range map[string]*Logs{"Creation": first.Logs, "Resuming": op.Logs, "Updating": op.Logs, "Deletion": op.Logs} {
			if n := len(logs.Find(name + " is processed: 1 succeeded; 0 failed.")); n != 1 {
				c.Errorf("the %s was told %d times, want once", name, n)
			}
		}
	})
	c.Run(t, "CH-217 the settings have their defaults", func(c *C) {
		s := kopf.NewSettings()
		delays := []time.Duration{1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610}
		for i := range delays {
			delays[i] *= time.Second
		}
		want := map[string]any{
			"finalizer": finalizer, "storage": kopf.InAnnotations, "progress": "*kopf.SmartProgressStorage", "diffbase": "*kopf.SmartDiffBaseStorage", "consistency": 5 * time.Second,
			"backoff": time.Minute, "workers": 0, "exit": 2 * time.Second, "delays": delays, "scanning.disabled": false, "posting.loggers": false,
		}
		got := map[string]any{
			"finalizer": s.Persistence.Finalizer, "storage": s.Persistence.Storage, "progress": fmt.Sprintf("%T", s.Persistence.ProgressStorage), "diffbase": fmt.Sprintf("%T", s.Persistence.DiffBaseStorage),
			"consistency": s.Persistence.ConsistencyTimeout, "backoff": s.Execution.DefaultBackoff, "workers": s.Queueing.WorkerLimit,
			"exit": s.Queueing.ExitTimeout, "delays": s.Queueing.ErrorDelays, "scanning.disabled": s.Scanning.Disabled, "posting.loggers": s.Posting.Loggers,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			c.Errorf("the defaults (-want +got):\n%s", diff)
		}
	})
}
