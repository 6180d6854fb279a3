package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves how the command status reports objects, in 8-operations.md.

var _ = SerialSuite("inspection_status", func(t *testing.T, c *C) {
	readingOnly(t, c)
	stating(t, c)
	statingConditions(t, c)
	statingVectors(t, c)
	statingMany(t, c)
	statingExits(t, c)
})

// fails returns a handler that returns an error.
func fails(err error) kopf.ChangeFunc {
	return func(context.Context, *kopf.Change) error { return err }
}

// moment returns a time in the format of records.
func moment(after time.Duration) string {
	return time.Now().Add(after).UTC().Format("2006-01-02T15:04:05.000000+00:00")
}

// progressOf returns a record with the given fields and the usual ones.
func progressOf(fields map[string]any) string {
	r := map[string]any{"started": moment(-time.Minute), "purpose": "create", "retries": 1, "success": false, "failure": false}
	maps.Copy(r, fields)
	return encoded(r)
}

// one returns a registry with a handler of creations and one of updates.
func (c *C) one() *kopf.Registry {
	return c.handlersFor(func(r *kopf.Registry) {
		r.OnCreate(Examples, noChange, named("create"))
		r.OnCreate(Examples, noChange, named("second"))
		r.OnUpdate(Examples, noChange, named("update"))
	})
}

func readingOnly(t *testing.T, c *C) {
	c.Run(t, "OB-1 status only reads, calls no handlers, and needs no operator", func(c *C) {
		c.OnlyInBubble("the requests are to be seen")
		wire := &Wire{base: c.info.HTTPClient.Transport}
		c.Create("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, map[string]string{"create": progressOf(nil)}), "spec": map[string]any{"x": 2}})
		before := c.Get("a")
		c.info.HTTPClient = &http.Client{Transport: wire}
		r := c.handlersFor(func(r *kopf.Registry) {
			unwanted := func(context.Context, *kopf.Activity) error { c.Error("an activity was called"); return nil }
			r.OnStartup(unwanted, &kopf.ActivityOptions{ID: "startup"})
			r.OnCleanup(unwanted, &kopf.ActivityOptions{ID: "cleanup"})
			handler := func(context.Context, *kopf.Change) error { c.Error("a handler was called"); return nil }
			r.OnCreate(Examples, handler, named("create"))
			r.OnUpdate(Examples, handler, named("update"))
			kopf.OnIndexIn(r, Examples, func(context.Context, *kopf.Indexing) (map[string]string, error) {
				c.Error("an index was filled")
				return nil, nil
			}, &kopf.IndexOptions{ID: "index"})
		})
		for _, args := range [][]string{{"status"}, {"status", "kex"}, {"status", "-A"}, {"status", "kex", "a", "-o", "wide"}, {"status", "--failed"}, {"explain", "kex"}, {"explain", "kex", "a", "--event", "deleted"}} {
			if args[1:] == nil || args[len(args)-1] != "-A" {
				args = append(args, "-n", c.Namespace)
			}
			c.inspected(r, args...)
		}
		for _, q := range wire.Requests() {
			if q.Method != http.MethodGet {
				c.Errorf("got the request %s %s", q.Method, q.Path)
			}
		}
		if after := c.Get("a"); after.ResourceVersion() != before.ResourceVersion() || len(wire.Requests()) == 0 {
			c.Error("the object was changed, or nothing was asked")
		}
	})
	c.Run(t, "OB-2 without a kind, the kinds that there are handlers for", func(c *C) {
		clusterwide := c.Of("kopf.dev/v1", "KopfClusterExample")
		name := c.Unique("b")
		c.Create("a", nil)
		c.statuses().Create("c", nil)
		clusterwide.Create(name, nil)
		defer clusterwide.Delete(name)
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, noChange, named("create"))
			r.OnDaemon("kopfclusterexamples", func(ctx context.Context, _ *kopf.Daemon) error { <-ctx.Done(); return nil }, daemonID("daemon"))
			r.OnEvent("kopfstatusexamples", func(context.Context, *kopf.WatchEvent) error { return nil }, eventID("events"))
		})
		var got []string
		for _, s := range c.status(r) {
			if s.Name == "a" && s.Namespace == c.Namespace || s.Name == name {
				got = append(got, s.Kind)
			}
		}
		c.same("the kinds", []string{"KopfClusterExample", "KopfExample"}, got)
		table := c.inspected(r, "status", "-n", c.Namespace)
		if !strings.Contains(table, "kopfexample/a ") || !strings.Contains(table, "kopfclusterexample/"+name) {
			c.Errorf("got no kinds before the names: %s", table)
		}
	})
	c.Run(t, "OB-2 without handlers of a kind, status and explain say that start-up handlers may have some", func(c *C) {
		c.Create("a", nil)
		const note = "This command calls no start-up handlers, so it does not know the handlers that they register"
		late := c.handlersFor(func(r *kopf.Registry) {
			r.OnStartup(func(context.Context, *kopf.Activity) error { panic("called") }, &kopf.ActivityOptions{ID: "startup"})
			r.OnCreate("secrets", noChange, named("known"))
		})
		for _, command := range []string{"status kex", "explain kex", "explain kex a"} {
			for name, r := range map[string]*kopf.Registry{"start-up handlers": late, "": c.handlersFor(nil)} {
				args := append(strings.Fields(command), "-n", c.Namespace)
				_, stdout, stderr := c.inspect(c.Context(), r, args...)
				if got := strings.Contains(stdout+stderr, note); got != (name != "") {
					c.Errorf("%s with %q: got the note %v in %s%s", command, name, got, stdout, stderr)
				}
			}
		}
		if text := c.inspected(late, "explain", "secrets"); strings.Contains(text, note) {
			c.Errorf("a kind with handlers: got %s", text)
		}
		_, _, stderr := c.inspect(c.Context(), c.handlersFor(func(r *kopf.Registry) {
			r.OnStartup(func(context.Context, *kopf.Activity) error { panic("called") }, &kopf.ActivityOptions{ID: "startup"})
		}), "status")
		if !strings.Contains(stderr, note) || !strings.Contains(stderr, "there are no handlers for any kind of the cluster") {
			c.Errorf("without any handlers: got %s", stderr)
		}
	})
	c.Run(t, "OB-2 a kind whose definition is not in the cluster is named, with what to do", func(c *C) {
		group := c.Unique("absent.example.com")
		r := c.handlersFor(func(r *kopf.Registry) {
			kopf.DefineIn[site](r, &kopf.Definition{Group: group, Version: "v1", Kind: "Absent"})
			r.OnCreate(kopf.Selector("absents."+group), noChange, named("create"))
		})
		for command, want := range map[string]string{
			"status absent":    "the CRD of absents.v1." + group + `, which this operator defines, is not in the cluster: apply the output of the command "manifests`,
			"explain absent a": "the CRD of absents.v1." + group,
			"status":           "no kind that has change handlers, reconcile handlers, daemons or timers is in the cluster: apply its CRD",
		} {
			if code, _, stderr := c.inspect(c.Context(), r, strings.Fields(command)...); code != 1 || !strings.Contains(stderr, want) {
				c.Errorf("%s: got %d, %s", command, code, stderr)
			}
		}
	})
	c.Run(t, "OB-2 the command without handlers tells of any operator by what it has stored", func(c *C) {
		none := c.handlersFor(nil)
		c.Create("ours", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, nil), "spec": map[string]any{"x": 1}})
		c.Create("marked", map[string]any{"spec": map[string]any{"x": 2}, "metadata": map[string]any{"annotations": map[string]any{
			"my-op.example.com/kopf-managed": "yes", "my-op.example.com/last-handled-configuration": `{"spec":{"x":1}}`,
			"my-op.example.com/create_fn": progressOf(map[string]any{"purpose": "update", "message": "oops", "delayed": moment(time.Hour)}),
		}}})
		c.Create("unmarked", map[string]any{"spec": map[string]any{"x": 1}, "metadata": map[string]any{"annotations": map[string]any{"kopf.example.com/last-handled-configuration": `{"spec":{"x":1}}`}}})
		c.Create("both", map[string]any{"spec": map[string]any{"x": 1}, "metadata": map[string]any{"annotations": map[string]any{
			"a.example.com/kopf-managed": "yes", "a.example.com/last-handled-configuration": `{"spec":{"x":1}}`, "kopf.zalando.org/last-handled-configuration": `{"spec":{"x":3}}`,
		}}})
		c.Create("in-status", map[string]any{"spec": map[string]any{"x": 1}, "status": map[string]any{"kopf": map[string]any{
			"last-handled-configuration": `{"spec":{"x":1}}`, "progress": map[string]any{"create/fn": map[string]any{"started": moment(-time.Minute), "retries": 2, "success": false, "failure": true, "message": "never"}},
		}}})
		var got []string
		for _, s := range c.status(none, "kex") {
			line := s.Name + " " + s.Operator + " " + s.State
			for _, h := range s.Handlers {
				line += fmt.Sprintf(" %s %s %d %s", h.ID, h.State, h.Attempts, h.Error)
			}
			got = append(got, line)
		}
		c.same("the states", []string{
			"both a.example.com Handled", "both kopf.zalando.org Changed", "in-status kopf.zalando.org Failed create/fn Failed 2 never", "marked my-op.example.com Retrying create_fn Retrying 1 oops",
			"ours kopf.zalando.org Handled", "unmarked kopf.example.com Handled",
		}, got)
		if s := c.stateOf(none, "kex", "both", "--prefix", "a.example.com"); s.Operator != "a.example.com" {
			c.Errorf("got the operator %s", s.Operator)
		}
		table := c.inspected(none, "status", "kex", "-n", c.Namespace)
		for name, want := range map[string]bool{"both (a.example.com) ": true, "both (kopf.zalando.org) ": true, "ours (": false} {
			if strings.Contains(table, name) != want {
				c.Errorf("got %q: %v, want %v, in %s", name, !want, want, table)
			}
		}
	})
	c.Run(t, "OB-3 a line for each object and operator, and in the wide table one for each handler", func(c *C) {
		long := strings.Repeat("very ", 50) + "long"
		c.Create("a", map[string]any{"metadata": handledBefore("", map[string]string{
			"create": progressOf(map[string]any{"retries": 3, "message": "oops, " + long, "delayed": moment(10 * time.Minute)}),
			"second": progressOf(map[string]any{"success": true, "stopped": moment(0)}),
		})})
		c.Create("new", nil)
		c.Pass(2 * time.Second)
		lines := strings.Split(c.inspected(c.one(), "status", "kex", "-n", c.Namespace), "\n")
		c.same("the titles", []string{"NAMESPACE", "NAME", "STATE", "DONE", "ATTEMPTS", "NEXT", "ERROR", "AGE"}, strings.Fields(lines[0]))
		cells := strings.Fields(lines[1])
		c.same("the line", []string{c.Namespace, "a", "Retrying", "1/2", "3", "in", "9m57s", "oops,"}, append(cells[:6:6], "9m57s", cells[7]))
		if !strings.Contains(lines[1], "...") || !strings.Contains(lines[1], "very long ") || strings.Contains(lines[1], long) || len(lines[1]) > 250 {
			c.Errorf("the error is not cut in the middle: %q", lines[1])
		}
		wide := c.inspected(c.one(), "status", "kex", "a", "-n", c.Namespace, "-o", "wide")
		lines = strings.Split(wide, "\n")
		if strings.Count(wide, "oops, "+long) != 2 {
			c.Errorf("the error is cut in the wide table: %s", wide)
		}
		if len(lines) != 5 || !strings.Contains(lines[2], "create ") || !strings.Contains(lines[2], "Retrying") || !strings.Contains(lines[3], "second ") || !strings.Contains(lines[3], "Succeeded") {
			c.Errorf("got %s", wide)
		}
		for _, format := range []string{"json", "yaml"} {
			if text := c.inspected(c.one(), "status", "kex", "a", "-n", c.Namespace, "-o", format); !strings.Contains(text, long) {
				c.Errorf("the error is cut in %s", format)
			}
		}
	})
	c.Run(t, "OB-3 sub-handlers have their ids", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				ch.Subhandler("a", noChange, nil)
				ch.Subhandler("b", fails(kopf.Temporary(errors.New("not yet"), time.Hour)), nil)
				return nil
			}, named("parent"))
		})
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the records", func() bool { return len(records(c.Get("a"))) == 3 })
		op.Stop()
		s := c.stateOf(r, "kex")
		var got []string
		for _, h := range s.Handlers {
			got = append(got, h.ID+" "+h.State)
		}
		c.same("the handlers", []string{"parent Handling", "parent/a Handled", "parent/b Retrying"}, got)
	})
}

func eventID(id kopf.HandlerID) *kopf.EventOptions { return &kopf.EventOptions{ID: id} }

func stating(t *testing.T, c *C) {
	const handled = `{"spec":{"x":1}}`
	tests := []struct {
		state   string
		essence string
		records map[string]map[string]any
		x       int
		more    func(s *statusLine) string
	}{
		{"Handled", handled, nil, 1, nil},
		{"Changed", handled, nil, 2, nil},
		{"Handling", "", map[string]map[string]any{"create": {"success": true, "stopped": "now"}, "second": {"retries": 0}}, 1, func(s *statusLine) string { return fmt.Sprint(s.Done, s.All) }},
		{"Retrying", "", map[string]map[string]any{"create": {"success": true, "stopped": "now"}, "second": {"message": "oops", "retries": 7}}, 1, func(s *statusLine) string { return fmt.Sprint(s.Attempts, s.Error) }},
		{"Failed", handled, map[string]map[string]any{"update": {"failure": true, "message": "never", "purpose": "update"}}, 2, func(s *statusLine) string { return s.Error }},
		{"Unknown", "", nil, 1, nil},
	}
	want := map[string]string{"Handling": "1 2", "Retrying": "7oops", "Failed": "never"}
	for _, tt := range tests {
		c.Run(t, "OB-4 the state "+tt.state, func(c *C) {
			stored := map[string]string{}
			for id, fields := range tt.records {
				if fields["stopped"] == "now" {
					fields = maps.Clone(fields)
					fields["stopped"] = moment(0)
				}
				stored[id] = progressOf(fields)
			}
			c.Create("a", map[string]any{"metadata": handledBefore(tt.essence, stored), "spec": map[string]any{"x": tt.x}})
			s := c.stateOf(c.one(), "kex")
			if s.State != tt.state || s.Operator != "kopf.zalando.org" || s.Name != "a" || s.Namespace != c.Namespace || s.UID == "" {
				c.Errorf("got %+v", s)
			}
			if got := ""; tt.more != nil {
				if got = tt.more(&s); got != want[tt.state] {
					c.Errorf("got %q, want %q", got, want[tt.state])
				}
			}
		})
	}
	c.Run(t, "OB-4 the state Deleting, with what holds the object", func(c *C) {
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{finalizer, "example.com/hold"}, "annotations": map[string]any{
			"kopf.zalando.org/delete": progressOf(map[string]any{"purpose": "delete", "message": "stuck", "delayed": moment(time.Hour)}),
		}}})
		defer c.replace("a", "/metadata/finalizers", []any{})
		c.Delete("a")
		r := c.handlersFor(func(r *kopf.Registry) { r.OnDelete(Examples, noChange, named("delete")) })
		s := c.stateOf(r, "kex")
		c.same("the state", []any{"Deleting", []string{finalizer, "example.com/hold"}, "stuck"}, []any{s.State, s.Finalizers, s.Error})
		if table := c.inspected(r, "status", "kex", "-n", c.Namespace); !strings.Contains(table, "held by "+finalizer+", example.com/hold: stuck") {
			c.Errorf("got %s", table)
		}
		if failed := c.status(r, "kex", "--failed"); len(failed) != 1 {
			c.Error("the deletion does not count as failing")
		}
	})
	c.Run(t, "OB-4 the state Paused", func(c *C) {
		k := c.meet()
		c.Create("a", nil)
		c.Create("b", map[string]any{"metadata": handledBefore(handled, nil), "spec": map[string]any{"x": 1}})
		c.Create("c", map[string]any{"metadata": handledBefore(handled, nil), "spec": map[string]any{"x": 2}})
		k.sit("boss", rival(100, 3600))
		states := func(args ...string) (all []string) {
			for _, s := range c.status(c.one(), append([]string{"kex"}, args...)...) {
				all = append(all, s.Name+" "+s.State)
				if s.State == "Paused" && !strings.Contains(s.PausedFor, "boss") {
					c.Errorf("got a pause for %q", s.PausedFor)
				}
			}
			return all
		}
		c.same("in the pause", []string{"a Unknown", "b Handled", "c Paused"}, states())
		c.same("with a higher priority", []string{"a Unknown", "b Handled", "c Changed"}, states("--priority", "101"))
		code, table, stderr := c.inspect(c.Context(), c.one(), "status", "kex", "-n", c.Namespace, "--peering", "other")
		missing := `there is no peering object "other": the operator pauses until it exists`
		if code != 0 || !strings.Contains(table, `for the mandatory peering object "other", which does not exist`) || strings.Count(stderr, missing) != 1 {
			c.Errorf("by another peering object: %d, %s%s", code, table, stderr)
		}
		k.sit("boss", rivalSeen(100, 10, time.Now().Add(-time.Minute)))
		c.same("with a dead record", []string{"a Unknown", "b Handled", "c Changed"}, states())
		k.sit("one", rival(0, 3600))
		c.same("with one record of the priority", []string{"a Unknown", "b Handled", "c Changed"}, states())
		k.sit("boss", rival(0, 3600))
		c.same("with two records of the priority", []string{"a Unknown", "b Handled", "c Paused"}, states("--priority", "0"))
	})
	c.Run(t, "OB-6 damaged records are shown as such", func(c *C) {
		c.Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			"kopf.zalando.org/create": "{", "kopf.zalando.org/second": "[]", "kopf.zalando.org/other": `{"started": 5}`, "kopf.zalando.org/last-handled-configuration": "{{",
		}}})
		c.Create("b", nil)
		all := c.status(c.one(), "kex")
		if len(all) != 2 || len(all[0].Problems) < 3 || len(all[1].Problems) > 0 {
			c.Errorf("got %+v", all)
		}
		for _, id := range []string{"create", "second", "other"} {
			if !strings.Contains(strings.Join(all[0].Problems, "\n"), id) {
				c.Errorf("the record of %s is not among %q", id, all[0].Problems)
			}
		}
		if x := c.explain(c.one(), "kex", "a", "-n", c.Namespace); !strings.Contains(strings.Join(x.Notes, "\n"), "damaged") {
			c.Errorf("got the notes %q", x.Notes)
		}
	})
	c.Run(t, "OB-6 what others keep under the prefix is no record", func(c *C) {
		c.Create("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/settings": `{"color":"red"}`, "kopf.zalando.org/explain": "{}"}}})
		if s := c.stateOf(c.one(), "kex"); s.State != "Unknown" || len(s.Handlers)+len(s.Problems) > 0 {
			c.Errorf("got %+v", s)
		}
	})
	c.Run(t, "OB-6 texts of errors do not reach the terminal as they are", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore("", map[string]string{"create": progressOf(map[string]any{"message": "\x1b[2J\x1b]0;x\a\u009b31m\r\n\x7f", "delayed": moment(time.Hour)})})})
		for _, args := range [][]string{{"status"}, {"status", "-o", "wide"}, {"status", "-o", "json"}, {"status", "-o", "yaml"}, {"explain", "kex", "a"}, {"explain", "kex", "a", "-o", "json"}} {
			c.plain(c.inspected(c.one(), append(args, "-n", c.Namespace)...))
		}
	})
	c.Run(t, "OB-6 an object of 1 MB", func(c *C) {
		big := strings.Repeat("x", 1<<20)
		c.Create("a", map[string]any{"metadata": handledBefore(handled, nil), "spec": map[string]any{"x": 1, "big": big}})
		if s := c.stateOf(c.one(), "kex"); s.State != "Changed" {
			c.Errorf("got %+v", s)
		}
		if text := c.inspected(c.one(), "explain", "kex", "a", "-n", c.Namespace); len(text) > 2000 || !strings.Contains(text, "spec.big is") {
			c.Errorf("got %d bytes: %.2000s", len(text), text)
		}
	})
}

// plain fails the test if a text has control characters for terminals, except ends of lines.
func (c *C) plain(text string) {
	c.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) }); i >= 0 {
		c.Errorf("got the character %q in %q", text[i:i+1], text)
	}
}

func statingConditions(t *testing.T, c *C) {
	reconciled := func(c *C, err error) *kopf.Registry {
		return c.handlersFor(func(r *kopf.Registry) {
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return err }, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
		})
	}
	for state, err := range map[string]error{"Handled": nil, "Retrying": errors.New("not yet"), "Failed": kopf.Permanent(errors.New("never"))} {
		c.Run(t, "OB-7 reconcile handlers tell by conditions that the object is "+state, func(c *C) {
			r := reconciled(c, err)
			op := c.Operator(r)
			c.Create("a", nil)
			c.WaitFor("the conditions", func() bool { _, reason, _ := condition(c.Get("a"), "Ready"); return reason != "" })
			op.Stop()
			s := c.stateOf(r, "kex")
			c.same("the state", []any{state, "conditions"}, []any{s.State, s.From})
			table := c.inspected(r, "status", "kex", "-n", c.Namespace)
			if strings.Contains(table, "by its conditions") != (err != nil) || err != nil && !strings.Contains(table, err.Error()) {
				c.Errorf("got %s", table)
			}
			wide := strings.Split(c.inspected(r, "status", "kex", "-n", c.Namespace, "-o", "wide"), "\n")
			if cells := strings.Fields(wide[2]); len(wide) != 4 || len(cells) < 3 || cells[0] != "reconcile" || cells[2] != "reconcile" || err != nil && !strings.Contains(wide[2], err.Error()) {
				c.Errorf("there is no line for the reconcile handler in %q", wide)
			}
			if failed := c.status(r, "--failed"); len(failed) > 0 != (err != nil) {
				c.Errorf("--failed has %d objects", len(failed))
			}
		})
	}
	conditions := func(ready, reason string, generation int) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": "as it is", "observedGeneration": generation}}}
	}
	c.Run(t, "OB-7 --failed names the handlers that store nothing, because they might fail, too", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "silent"})
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil },
				&kopf.ReconcileOptions{ID: "telling", Conditions: true})
			r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return nil },
				&kopf.TimerOptions{ID: "timer", Interval: time.Hour})
			r.OnCreate(Examples, noChange, named("create"))
		})
		_, _, stderr := c.inspect(c.Context(), r, "status", "kex", "-n", c.Namespace, "--failed", "--exit-code")
		if want := ": silent of kopfexamples.v1.kopf.dev, timer of kopfexamples.v1.kopf.dev. "; !strings.Contains(stderr, want) {
			c.Errorf("got %q, want the text %q", stderr, want)
		}
		for _, args := range [][]string{{"status", "kex", "-n", c.Namespace}, {"status", "configmaps", "-n", c.Namespace, "--failed"}} {
			if _, _, stderr := c.inspect(c.Context(), r, args...); strings.Contains(stderr, "store nothing") {
				c.Errorf("%q: got %q", args, stderr)
			}
		}
		_, _, stderr = c.inspect(c.Context(), reconciled(c, nil), "status", "kex", "-n", c.Namespace, "--failed")
		c.same("the output with conditions", "No objects found.\n", stderr)
	})
	c.Run(t, "OB-7 conditions of an older generation", func(c *C) {
		k := c.statuses()
		k.Create("a", map[string]any{"spec": map[string]any{"x": 1}})
		k.PatchStatus("a", map[string]any{"status": conditions("True", "Succeeded", 1)})
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnReconcile("kopfstatusexamples", func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile"})
		})
		c.same("the state", "Handled", c.stateOf(r, "ksx").State)
		k.Patch("a", map[string]any{"spec": map[string]any{"x": 2}})
		c.same("the state after a change", "Changed", c.stateOf(r, "ksx").State)
		k.PatchStatus("a", map[string]any{"status": conditions("False", "ChildNotReady", 2)})
		s := c.stateOf(r, "ksx")
		c.same("the state later", []any{"Handling", "ChildNotReady: as it is"}, []any{s.State, s.Error})
	})
	c.Run(t, "OB-7 conditions besides handlers of changes, and those of others", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, nil), "spec": map[string]any{"x": 1}, "status": conditions("False", "Waiting", 0)})
		c.Create("b", map[string]any{"status": conditions("False", "Waiting", 0)})
		states := func(r *kopf.Registry) (all []string) {
			for _, s := range c.status(r, "kex") {
				all = append(all, s.Name+" "+s.State+" "+s.From)
			}
			return all
		}
		both := c.handlersFor(func(r *kopf.Registry) {
			r.OnDelete(Examples, noChange, named("delete"))
			r.OnReconcile(Examples, func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile", Conditions: true})
		})
		c.same("with reconcile handlers", []string{"a Handling conditions", "b Handling conditions"}, states(both))
		c.same("without them", []string{"a Handled ", "b Unknown "}, states(c.one()))
		c.same("where it is not known", []string{"a Handled ", "b Handling conditions"}, states(c.handlersFor(nil)))
	})
}

// statingVectors compares the states with the decisions of the operator for all golden vectors.
func statingVectors(t *testing.T, c *C) {
	var vectors struct {
		Causes []struct {
			Event             string
			DeletionTimestamp bool
			Finalizers        []any
			StoredEssence     string `json:"stored_essence"`
			Initial           bool   `json:"initial_in"`
			Reason            string
		} `json:"cause_detection"`
		Essences []struct {
			Name          string
			Config        any
			Body, Essence map[string]any
		}
	}
	if err := json.Unmarshal(golden, &vectors); err != nil {
		t.Fatal(err)
	}
	c.Run(t, "OB-5 the state is the verdict of the operator for all causes", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnCreate(Examples, noChange, named("create"))
			r.OnUpdate(Examples, noChange, named("update"))
			r.OnResume(Examples, noChange, named("resume"))
			r.OnDelete(Examples, noChange, named("delete"))
		})
		rows := 0
		for i, row := range vectors.Causes {
			if row.Event == "DELETED" || row.DeletionTimestamp && len(row.Finalizers) == 0 { // no server has such objects
				continue
			}
			name := fmt.Sprintf("cause-%d", i)
			essence := map[string]string{"absent": "", "same": `{"spec":{"x":1}}`, "different": `{"spec":{"x":2}}`}[row.StoredEssence]
			meta := handledBefore(essence, nil)
			meta["finalizers"] = row.Finalizers
			c.Create(name, map[string]any{"metadata": meta, "spec": map[string]any{"x": 1}})
			if row.DeletionTimestamp {
				c.Delete(name)
			}
			event := map[bool]string{true: "resumed", false: "updated"}[row.Initial]
			if x := c.explain(r, "kex", name, "-n", c.Namespace, "--event", event); x.Cause != row.Reason {
				c.Errorf("%+v: the cause is %q", row, x.Cause)
			}
			want := map[string]string{"create": "Unknown", "update": "Changed", "noop": "Handled", "resume": "Handled", "delete": "Deleting", "free": "Deleting"}[row.Reason]
			if s := c.stateOf(r, "kex", name); s.State != want {
				c.Errorf("%+v: the state is %s, want %s", row, s.State, want)
			}
			rows++
			if row.DeletionTimestamp {
				c.replace(name, "/metadata/finalizers", []any{})
			}
		}
		if rows < 36 {
			c.Errorf("got only %d rows", rows)
		}
	})
	c.Run(t, "OB-5 the state is the verdict on all essences", func(c *C) {
		c.OnlyInBubble("no real server has such objects")
		rows := 0
		for _, row := range vectors.Essences {
			prefix, config := "kopf.zalando.org", encoded(row.Config)
			if _, after, ok := strings.Cut(config, "prefix="); ok {
				prefix, _, _ = strings.Cut(after, ")")
			}
			var tracked struct {
				Fields  []kopf.FieldPath `json:"fields_of_registered_handlers"`
				Ignored []string         `json:"ignored_fields"`
			}
			_ = json.Unmarshal([]byte(config), &tracked) // or it has no fields
			if tracked.Ignored != nil {
				c.Logf("%s: it cannot be seen on objects which fields are ignored", row.Name)
				continue
			}
			r := c.handlersFor(func(r *kopf.Registry) {
				for _, field := range tracked.Fields {
					r.OnField(Examples, field, noChange, named("field"))
				}
			})
			for essence, want := range map[string]string{encoded(row.Essence): "Handled", `{"spec":{"other":"one"}}`: "Changed"} {
				object := plain(row.Body)
				meta, _ := object["metadata"].(map[string]any)
				if meta == nil {
					meta = map[string]any{}
				}
				all, _ := meta["annotations"].(map[string]any)
				if all == nil {
					all = map[string]any{}
				}
				all[prefix+"/last-handled-configuration"] = essence
				maps.DeleteFunc(all, func(key string, _ any) bool { // ignore the records
					return strings.HasPrefix(key, prefix+"/") && !strings.HasSuffix(key, "-configuration") && !strings.HasSuffix(key, "-managed")
				})
				meta["annotations"], meta["name"], object["metadata"] = all, "x", meta
				if status, _ := object["status"].(map[string]any); status != nil {
					kopf, _ := status["kopf"].(map[string]any)
					if delete(kopf, "progress"); strings.Contains(config, `"diffbase":"status"`) {
						kopf["last-handled-configuration"] = essence
						delete(all, prefix+"/last-handled-configuration")
					}
				}
				objects := c.listing(1, func(int) any { return object })
				if s := c.stateOf(r, "kex", "--prefix", prefix); s.State != want || objects.pages() != 1 {
					c.Errorf("%s with the essence %s: the state is %s, want %s", row.Name, essence, s.State, want)
				}
			}
			rows++
		}
		if rows != 13 {
			c.Errorf("got only %d rows", rows)
		}
	})
	for i, tr := range traces() {
		c.Run(t, fmt.Sprintf("OB-5 the states that the original has left, life %d", i+1), func(c *C) {
			c.OnlyInBubble("the clock is that of the vectors")
			kind, on := tr.kind(c)
			r := c.handlersFor(func(r *kopf.Registry) { tr.script.handlers(r, on, &scene{}) })
			for step := -1; step < len(tr.Steps); step++ {
				if step >= 0 && tr.Steps[step].Now.After(time.Now()) {
					c.at(tr.Steps[step].end())
				}
				state := tr.state(step)
				tr.bring(c, kind, state)
				if !kind.Exists("a") { // it has no finalizer
					continue
				}
				s := c.stateOf(r, string(on), "a")
				x := c.explain(r, string(on), "a", "-n", c.Namespace)
				stored := strings.Contains(encoded(state), "last-handled-configuration")
				var fits bool
				switch x.Cause {
				case "create":
					fits = !stored && (s.State == "Unknown" || s.State == "Handling" || s.State == "Retrying")
				case "update":
					fits = stored && slices.Contains([]string{"Changed", "Handling", "Retrying", "Failed"}, s.State)
				case "delete", "free":
					fits = s.State == "Deleting"
				case "noop", "": // or a change was reverted
					fits = s.State == "Handled" || s.State == "Handling" || s.State == "Retrying" || s.State == "Unknown"
				}
				if !fits {
					c.Errorf("after the step %d, the state is %s, and the cause %q", step, s.State, x.Cause)
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

// listing replaces a server with many objects. It creates its lists on request.
type listing struct {
	base   http.RoundTripper
	total  int
	object func(i int) any
	asked  []url.Values
	accept []string
	onPage func(n int)
}

// listing replaces the lists of KopfExamples by the results of a function.
func (c *C) listing(total int, object func(i int) any) *listing {
	base := c.transport()
	if l, ok := base.(*listing); ok {
		base = l.base
	}
	l := &listing{base: base, total: total, object: object}
	c.info.HTTPClient = &http.Client{Transport: l}
	return l
}

func (l *listing) pages() int { return len(l.asked) }

// RoundTrip answers a list, and passes on all other requests.
func (l *listing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, "/kopfexamples") || req.URL.Query().Get("watch") != "" {
		return l.base.RoundTrip(req)
	}
	query := req.URL.Query()
	l.asked, l.accept = append(l.asked, query), append(l.accept, req.Header.Get("Accept"))
	if l.onPage != nil {
		l.onPage(len(l.asked))
	}
	from, _ := strconv.Atoi(query.Get("continue")) // "" is the first page
	limit, _ := strconv.Atoi(query.Get("limit"))
	to := l.total
	meta := map[string]any{"resourceVersion": "1"}
	if limit > 0 && from+limit < l.total {
		to = from + limit
		meta["continue"] = strconv.Itoa(to)
	}
	items := make([]any, 0, to-from)
	for i := from; i < to; i++ {
		items = append(items, l.object(i))
	}
	data, err := json.Marshal(map[string]any{"kind": "KopfExampleList", "apiVersion": "kopf.dev/v1", "metadata": meta, "items": items})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)),
	}, nil
}

// printed is the output of a command. It records how much was printed at the request of each page.
type printed struct {
	lines int
	bytes int
}

func (p *printed) Write(data []byte) (int, error) {
	p.lines += bytes.Count(data, []byte("\n"))
	p.bytes += len(data)
	return len(data), nil
}

func statingMany(t *testing.T, c *C) {
	total := proof.Rounds(5_000, 100_000)
	record := func(c *C) func(i int) any {
		failed, other := progressOf(map[string]any{"message": "oops", "delayed": moment(time.Hour)}), strings.Repeat("x", 500)
		return func(i int) any {
			annotations := map[string]any{diffBase: `{"spec":{"x":1}}`}
			if i%100 == 0 {
				annotations["kopf.zalando.org/create"] = failed
			}
			return map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "spec": map[string]any{"x": 1, "other": other},
				"metadata": map[string]any{"name": fmt.Sprintf("object-%d", i), "namespace": c.Namespace, "uid": strconv.Itoa(i), "resourceVersion": "1", "annotations": annotations,
					"managedFields": []any{map[string]any{"manager": "kopf", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}, "f:status": map[string]any{"f:x": map[string]any{}}}}}}}
		}
	}
	for _, format := range []string{"table", "json", "yaml"} {
		c.Run(t, "OB-8 many objects come in pages, from the first one on, in little memory: "+format, func(c *C) {
			c.NotShort("the objects are many")
			c.OnlyInBubble("they would have to be made")
			l := c.listing(total, record(c))
			var out printed
			var after []int
			var heap uint64
			l.onPage = func(page int) {
				after = append(after, out.lines)
				if page%5 == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					heap = max(heap, m.HeapAlloc)
				}
			}
			before := kopf.DefaultRegistry()
			defer kopf.SetDefaultRegistry(before)
			kopf.SetDefaultRegistry(c.one())
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			code := kopf.Command(c.Context(), []string{"status", "kex", "-n", c.Namespace, "-o", format}, &out, c.Output())
			if code != 0 || l.pages() != total/500 || out.lines < total || after[0] != 0 || after[1] < 500 || after[len(after)-1] < total-501 {
				c.Errorf("got the exit code %d, %d pages and %d lines, %d of them after the first page", code, l.pages(), out.lines, after[1])
			}
			if grown := int64(heap) - int64(m.HeapAlloc); grown > 8<<20 {
				c.Errorf("the heap has grown by %d bytes", grown)
			} else {
				c.Logf("the heap has grown by %d bytes", grown)
			}
		})
	}
	c.Run(t, "OB-8 for --failed, metadata suffice where the storages are annotations", func(c *C) {
		c.OnlyInBubble("the requests are to be seen")
		l := c.listing(1000, record(c))
		if failed := c.status(c.one(), "--failed"); len(failed) != 10 {
			c.Errorf("got %d objects", len(failed))
		}
		if len(l.accept) != 2 || !strings.Contains(l.accept[0], "PartialObjectMetadataList") {
			c.Errorf("got lists of %q", l.accept)
		}
	})
	c.Run(t, "OB-8 for --failed, whole objects are read where the storages are in the status", func(c *C) {
		r := c.handlersFor(func(r *kopf.Registry) {
			r.OnStartup(func(_ context.Context, a *kopf.Activity) error {
				a.Settings.Persistence.Storage = kopf.InStatus
				return nil
			}, &kopf.ActivityOptions{ID: "settings"})
			r.OnCreate("kopfstatusexamples", fails(kopf.Temporary(errors.New("not yet"), time.Hour)), named("create"))
		})
		k := c.statuses()
		op := c.Operator(r)
		k.Create("a", nil)
		c.WaitFor("the record", func() bool { return k.Get("a").Has("status.kopf.progress.create") })
		op.Stop()
		if s := c.stateOf(r, "--failed"); s.State != "Retrying" || s.Error != "not yet" {
			c.Errorf("got %+v", s)
		}
	})
}

func statingExits(t *testing.T, c *C) {
	broken := func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore("", map[string]string{"create": progressOf(map[string]any{"message": "oops"})})})
	}
	tests := []struct {
		name string
		code int
		args string
	}{
		{"objects that fail, and were not asked for", 0, "status kex"},
		{"objects that fail, without the option", 0, "status kex --failed"},
		{"objects that fail", 3, "status kex --failed --exit-code"},
		{"one object that fails", 3, "status kex a --failed --exit-code"},
		{"no objects that fail", 0, "status ksx --failed --exit-code"},
		{"no objects", 0, "status ksx"},
		{"a kind that is not there", 1, "status nosuch"},
		{"an object that is not there", 1, "status kex nosuch"},
		{"an object that is not there, for a check", 1, "status kex nosuch --failed --exit-code"},
		{"a selector that the server refuses", 1, "status kex -l a=b=c"},
		{"a wrong option", 2, "status kex --nope"},
		{"a check of nothing", 2, "status kex --exit-code"},
	}
	for _, tt := range tests {
		c.Run(t, "OB-9 "+tt.name, func(c *C) {
			broken(c)
			code, stdout, stderr := c.inspect(c.Context(), c.one(), append(strings.Fields(tt.args), "-n", c.Namespace)...)
			if code != tt.code || (code == 1 || code == 2) != (stdout == "" && stderr != "") && stdout != "" {
				c.Errorf("got the exit code %d, want %d: %s%s", code, tt.code, stdout, stderr)
			}
			c.plain(stderr)
		})
	}
	c.Run(t, "OB-9 no cluster", func(c *C) {
		c.OnlyInBubble("it is the same everywhere")
		c.info.HTTPClient = &http.Client{Transport: tripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") })}
		for _, command := range []string{"status kex", "status", "explain kex a", "explain kex"} {
			code, stdout, stderr := c.inspect(c.Context(), c.one(), strings.Fields(command)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "connection refused") {
				c.Errorf("%s: got the exit code %d: %s%s", command, code, stdout, stderr)
			}
		}
	})
	c.Run(t, "OB-9 a refusal in the middle of the pages", func(c *C) {
		c.OnlyInBubble("the server has to refuse")
		l := c.listing(2000, func(i int) any {
			return map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": fmt.Sprint("a", i), "namespace": c.Namespace}}
		})
		c.info.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("continue") == "1000" {
				return Answer(http.StatusGone, "Expired", "too old"), nil
			}
			return l.RoundTrip(req)
		})}
		code, stdout, stderr := c.inspect(c.Context(), c.one(), "status", "kex", "--failed", "--exit-code", "-n", c.Namespace)
		if code != 1 || !strings.Contains(stderr, "too old") {
			c.Errorf("got the exit code %d: %s%s", code, stdout, stderr)
		}
	})
}
