package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what the audit of an operator reports.

var _ = Suite("audit", func(t *testing.T, c *C) {
	c.Run(t, "OB-28 each call that has ended is reported, with what it changes", func(c *C) {
		c.OnlyInBubble("it waits")
		var log auditLog
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			if ch.Retry == 0 {
				return kopf.Temporary(errors.New("not yet"), time.Second)
			}
			ch.Patch.Set("status.url", "secret value")
			ch.Patch.Set("status.phase", map[string]any{"name": "done"})
			return nil
		}, named("create"))
		r.OnUpdate(Examples, func(context.Context, *kopf.Change) error { return kopf.Permanent(errors.New("never")) }, named("update"))
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event", When: func(e *kopf.WatchEvent) bool { return e.Type == kopf.Deleted }})
		c.Operator(r, log.attach)
		c.Create("a", nil)
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.handled("a")
		c.Delete("a")
		c.Pass(time.Second)
		uid := c.uidOf(&log)
		c.same("the calls", []string{
			"create OnCreate create 1 retry [] not yet", "create OnCreate create 2 success [status.phase.name status.url] ", "update OnUpdate update 1 failure [] never", "event OnEvent  1 success [] ",
		}, log.calls())
		for _, line := range log.all() {
			if line.object["uid"] != uid || line.object["name"] != "a" || line.object["kind"] != "KopfExample" || line.object["resourceVersion"] == "" || line.attrs["replica"] == "" {
				c.Errorf("got the object %v, of %s", line.object, line.attrs["replica"])
			}
			if strings.Contains(fmt.Sprint(line.attrs), "secret value") {
				c.Errorf("the record has a value: %v", line.attrs)
			}
		}
	})
	c.Run(t, "OB-28 a handler that may not be called any more is reported with its object", func(c *C) {
		c.OnlyInBubble("it waits")
		var log auditLog
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return kopf.Permanent(errors.New("it was called")) }, &kopf.ChangeOptions{ID: "create", Retries: 2})
		c.Operator(r, log.attach)
		record := `{"started":"2000-01-01T00:00:00.000000+00:00","purpose":"create","retries":2,"success":false,"failure":false}`
		c.Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/create": record}}})
		c.handled("a")
		all := log.all()
		if len(all) != 1 || all[0].object["name"] != "a" || all[0].object["uid"] == "" || all[0].attrs["outcome"] != "failure" || strings.Contains(all[0].attrs["error"], "it was called") {
			c.Errorf("got %v, want one failure with the object and without a call", all)
		}
	})
	c.Run(t, "OB-28 the fields are those that the handler itself changes", func(c *C) {
		c.OnlyInBubble("it waits")
		var log auditLog
		r := &kopf.Registry{}
		for _, id := range []string{"one", "two"} {
			r.OnMutate(Examples, func(_ context.Context, a *kopf.Admission) error { a.Patch.Set(kopf.Path("spec", id), "x"); return nil }, &kopf.AdmissionOptions{ID: kopf.HandlerID(id)})
		}
		r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
			tm.Patch.Set(kopf.Path("status", "call-"+strconv.Itoa(len(log.all()))), "x")
			return nil
		}, &kopf.TimerOptions{ID: "timer", Interval: time.Minute, WithoutFinalizer: true})
		s, op := c.Reviewed(r, log.attach, func(o *kopf.Operator) { o.Settings.Networking.ErrorBackoffs = nil })
		op.Wire.Fault(func(q *Request) (*http.Response, error) { // the first change is not sent yet
			if q.Method == http.MethodPatch {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		})
		s.ask(c, "", nil)
		c.Create("a", nil)
		c.Pass(90 * time.Second)
		c.same("the calls", []string{"one OnMutate  1 success [spec.one] ", "two OnMutate  1 success [spec.two] ", "timer OnTimer  1 success [status.call-2] ", "timer OnTimer  1 success [status.call-3] "}, log.calls())
	})
	c.Run(t, "OB-28 children that were applied and deleted are reported", func(c *C) {
		c.OnlyInBubble("it waits")
		var log auditLog
		r := &kopf.Registry{}
		r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
			if r.Spec().Bool("page") {
				r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"}}, nil)
			} else {
				r.NoChildren()
			}
			return nil
		}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r, log.attach)
		c.Create("a", spec(map[string]any{"page": true}))
		c.Pass(time.Second)
		c.Patch("a", spec(map[string]any{"page": false}))
		c.Pass(time.Second)
		child := "ConfigMap " + c.Namespace + "/a"
		if all := log.all(); !strings.Contains(all[0].attrs["applied"], child) || !slices.ContainsFunc(all, func(l auditLine) bool { return strings.Contains(l.attrs["deleted"], child) }) {
			c.Errorf("got %v, want that %s is applied and deleted", all, child)
		}
	})
	c.Run(t, "OB-29 a call is reported before its outcome is stored", func(c *C) {
		c.OnlyInBubble("it looks at the object while the audit writes")
		var seen []string
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		c.Operator(r, func(o *kopf.Operator) {
			o.Settings.Process.Audit = func(context.Context, slog.Record) error {
				seen = append(seen, fmt.Sprint(c.Get("a").Annotations()))
				return nil
			}
		})
		c.Create("a", nil)
		c.handled("a")
		if len(seen) != 1 || strings.Contains(seen[0], "last-handled") {
			c.Errorf("got %v, want one report before anything is stored", seen)
		}
	})
	c.Run(t, "OB-28 an audit that fails or panics stops nothing", func(c *C) {
		c.OnlyInBubble("it waits")
		for _, report := range []func(context.Context, slog.Record) error{
			func(context.Context, slog.Record) error { return errors.New("the disk is full") }, func(context.Context, slog.Record) error { panic("oops") },
		} {
			r := &kopf.Registry{}
			calls := 0
			r.OnCreate(Examples, func(context.Context, *kopf.Change) error { calls++; return nil }, named("create"))
			op := c.Operator(r, func(o *kopf.Operator) { o.Settings.Process.Audit = report })
			c.Create("a", nil)
			c.handled("a")
			if calls != 1 {
				c.Errorf("got %d calls, want one", calls)
			}
			c.Delete("a")
			op.Stop()
		}
	})
})

// auditLog keeps what an audit reports.
type auditLog struct {
	mu    sync.Mutex // guards lines
	lines []auditLine
}

// auditLine is one line of the audit.
type auditLine struct{ attrs, object map[string]string }

func (l *auditLog) attach(o *kopf.Operator) {
	o.Settings.Process.Audit = func(_ context.Context, r slog.Record) error {
		line := auditLine{attrs: make(map[string]string), object: make(map[string]string)}
		r.Attrs(func(a slog.Attr) bool {
			if line.attrs[a.Key] = a.Value.String(); a.Key == "object" {
				for _, member := range a.Value.Group() {
					line.object[member.Key] = member.Value.String()
				}
			}
			return true
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
		return nil
	}
}

func (l *auditLog) all() []auditLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// calls returns the handlers, kinds, causes, attempts, outcomes, fields and errors of the lines.
func (l *auditLog) calls() (all []string) {
	for _, line := range l.all() {
		a := line.attrs
		fields := a["fields"]
		if fields == "" {
			fields = "[]"
		}
		all = append(all, strings.Join([]string{a["handler"], a["kind"], a["cause"], a["attempt"], a["outcome"], fields, a["error"]}, " "))
	}
	return all
}

// uidOf returns the uid in the first line.
func (c *C) uidOf(l *auditLog) string {
	c.Helper()
	all := l.all()
	if len(all) == 0 || all[0].object["uid"] == "" {
		c.Fatalf("got the records %v, want one with a uid first", all)
	}
	return all[0].object["uid"]
}
