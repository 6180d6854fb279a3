package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to stored progress when the cause changes, and how it is stored, in 1-change-handling.md.

func purposing(t *testing.T, c *C) {
	c.Run(t, "CH-121 a record without a purpose fits every cause", func(c *C) {
		var l calls
		c.Create("a", map[string]any{"metadata": handledBefore(`{}`, map[string]string{
			"done": `{"started":"2020-01-01T00:00:00.000000+00:00","retries":1,"success":true,"failure":false}`,
			"half": `{"started":"2020-01-01T00:00:00.000000+00:00","retries":2,"success":false,"failure":false}`,
		}), "spec": map[string]any{"x": 1}})
		r := &kopf.Registry{}
		r.OnUpdate(Examples, l.handler("done"), named("done"))
		r.OnUpdate(Examples, l.handler("half"), named("half"))
		op := c.Operator(r)
		c.handled("a")
		c.expect(&l, "half update 2")
		if n := len(op.Logs.Find("is superseded")); n != 0 {
			c.Error("a record without a purpose was taken for one of another cause")
		}
	})
	c.Run(t, "CH-158 a cycle loads, runs, stores and finishes", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("quick"), named("quick"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("slow %d", ch.Retry)
			if ch.Retry < 2 {
				return kopf.Temporary(errOops, time.Minute)
			}
			ch.SetResult("done")
			return nil
		}, named("slow"))
		c.Operator(r)
		c.Create("a", nil)
		for attempt, want := range []string{"1 1 slow", "1 2 slow"} {
			c.WaitFor("an attempt", func() bool { return l.count("slow") == attempt+1 })
			c.Pass(time.Second)
			body := c.Get("a")
			got := fmt.Sprint(c.record(body, "quick")["retries"], " ", c.record(body, "slow")["retries"], " slow")
			if _, stored := body.Annotation(diffBase); got != want || stored || body.Status().Len() > 0 {
				c.Errorf("after attempt %d, got %q, want %q, without the stored state and the result", attempt, got, want)
			}
		}
		body := c.handled("a")
		c.expect(&l, "quick create 0", "slow 0", "slow 1", "slow 2")
		if got := body.Status().String("slow"); got != "done" {
			c.Errorf("the result is %q", got)
		}
	})
	c.Run(t, "CH-159 only selected handlers are waited for", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore(`{}`, map[string]string{
			"passive": recordOf("update", 3, false, "2100-01-01T00:00:00.000000+00:00"),
		}), "spec": map[string]any{"x": 1}})
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, l.handler("passive"), &kopf.ChangeOptions{ID: "passive", Labels: kopf.Match{"no": kopf.Present}})
		r.OnUpdate(Examples, l.handler("active"), named("active"))
		c.Operator(r)
		c.handled("a")
		c.expect(&l, "active update 0")
	})
	c.Run(t, "CH-T8 records of handlers that have dropped out of the filters do not survive", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%d", ch.Retry)
			return kopf.Temporary(errOops, time.Hour)
		}, &kopf.ChangeOptions{ID: "update", Labels: kopf.Match{"on": "yes"}})
		c.Operator(r)
		c.Create("a", labelled("on", "yes"))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the attempt", func() bool { return len(l.all()) == 1 })
		c.Patch("a", labelled("on", "no"))
		c.handled("a") // and no record remains
		c.Patch("a", labelled("on", "yes"))
		c.expect(&l, "0", "0")
	})
	c.Run(t, "CH-160 it is told when a cause supersedes another, and how far that had come", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore("", map[string]string{
			"one": recordOf("create", 1, true, ""), "two": recordOf("create", 1, false, "2100-01-01T00:00:00.000000+00:00"),
			"three": `{"started":"2020-01-01T00:00:00.000000+00:00","purpose":"create","retries":1,"success":false,"failure":true}`,
		})})
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{finalizer}}})
		c.Delete("a")
		var l calls
		r := &kopf.Registry{}
		for _, id := range []string{"one", "two", "three"} {
			r.OnCreate(Examples, l.handler(id), named(kopf.HandlerID(id)))
		}
		r.OnDelete(Examples, l.handler("delete"), named("delete"))
		op := c.Operator(r)
		c.gone("a")
		c.expect(&l, "delete delete 0")
		lines := op.Logs.Find("Creation is superseded by the deletion: 1 succeeded; 1 failed; 1 unfinished.")
		if len(lines) != 1 || lines[0].Level != slog.LevelInfo {
			c.Errorf("got the lines %v, want one that says so", op.Logs.Find("superseded"))
		}
	})
	c.Run(t, "CH-161 a handler that is selected for the new cause goes on with its record", func(c *C) {
		c.OnlyInBubble("the delays are long")
		c.Create("a", map[string]any{"metadata": handledBefore(`{}`, map[string]string{
			"half": recordOf("resume", 2, false, ""), "done": recordOf("resume", 1, true, ""),
		}), "spec": map[string]any{"x": 1}})
		var l calls
		half := func(ctx context.Context, ch *kopf.Change) error {
			l.add("half %s %d %d", ch.Reason, ch.Retry, ch.Started.Year())
			if ch.Retry == 2 {
				return kopf.Temporary(errOops, time.Minute)
			}
			return nil
		}
		done := l.handler("done")
		r := &kopf.Registry{}
		r.OnResume(Examples, half, named("half"))
		r.OnUpdate(Examples, half, named("half"))
		r.OnResume(Examples, done, named("done")) // the change does not concern it (DF-16)
		c.Operator(r)
		c.WaitFor("the attempt", func() bool { return len(l.all()) == 1 })
		c.Pass(time.Second)
		for id, want := range map[string]string{"half": "update 3 false", "done": "update 1 true"} {
			record := c.record(c.Get("a"), id)
			if got := fmt.Sprintf("%v %v %v", record["purpose"], record["retries"], record["success"]); got != want {
				c.Errorf("the record %s is %s, want %s", id, got, want)
			}
			if got := record["started"]; got != "2020-01-01T00:00:00.000000+00:00" {
				c.Errorf("the record %s begins at %v, which is not what was stored", id, got)
			}
		}
		c.handled("a")
		c.expect(&l, "half update 2 2020", "half update 3 2020")
	})
	c.Run(t, "CH-163 a change meanwhile keeps the cause, and handlers see the whole difference", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		note := func(name string, delay time.Duration) kopf.ChangeFunc {
			return func(ctx context.Context, ch *kopf.Change) error {
				l.add("%s %s %d old %v new %v", name, ch.Reason, ch.Retry, ch.Old.Get("spec.x"), ch.New.Get("spec.x"))
				if ch.Retry == 0 && delay > 0 {
					return kopf.Temporary(errOops, delay)
				}
				return nil
			}
		}
		r := &kopf.Registry{}
		r.OnCreate(Examples, note("c", time.Minute), named("c"))
		r.OnUpdate(Examples, note("u", time.Minute), named("u"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Second)
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 3}))
		c.Pass(time.Second)
		c.Patch("a", spec(map[string]any{"x": 4}))
		c.handled("a")
		c.expect(&l, "c create 0 old <nil> new 1", "c create 1 old <nil> new 2", "u update 0 old 2 new 3", "u update 1 old 2 new 4")
	})
	c.Run(t, "CH-T20 records of the current cause survive the purge of those of a superseded one", func(c *C) {
		c.OnlyInBubble("the delays are long")
		c.Create("a", map[string]any{"metadata": handledBefore(`{}`, map[string]string{
			"old": `{"started":"2020-01-01T00:00:00Z","purpose":"create","retries":1}`,
			"now": `{"started":"1999-12-31T00:00:00Z","delayed":"2000-01-01T02:00:00Z","purpose":"update","retries":4}`,
		}), "spec": map[string]any{"x": 1}})
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("old"), named("old"))
		r.OnUpdate(Examples, l.handler("now"), named("now"))
		op := c.Operator(r)
		c.Pass(time.Hour)
		body := c.Get("a")
		if got := fmt.Sprint(records(body)); got != "[now]" {
			c.Errorf("got the records %s after the first cycle, want that of the current cause alone", got)
		}
		if got := fmt.Sprint(c.record(body, "now")["retries"]); got != "4" {
			c.Errorf("the record has %s retries, want 4", got)
		}
		if n := len(op.Wire.Writes()); n != 1 {
			c.Errorf("the purge took %d requests, want 1", n)
		}
		c.handled("a")
		c.expect(&l, "now update 4")
	})
	c.Run(t, "CH-165 the counts at the end include all records of the cause, and no sub-handlers", func(c *C) {
		c.Create("a", map[string]any{"metadata": handledBefore(`{}`, map[string]string{
			"same": recordOf("update", 1, true, ""), "other": recordOf("create", 1, true, ""),
			"none": `{"started":"2020-01-01T00:00:00.000000+00:00","retries":1,"success":false,"failure":true}`,
		}), "spec": map[string]any{"x": 1}})
		var l calls
		never := kopf.Match{"no": kopf.Present}
		r := &kopf.Registry{}
		r.OnUpdate(Examples, l.handler("same"), &kopf.ChangeOptions{ID: "same", Labels: never})
		r.OnUpdate(Examples, l.handler("none"), &kopf.ChangeOptions{ID: "none", Labels: never})
		r.OnCreate(Examples, l.handler("other"), named("other"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Subhandler("sub", l.handler("sub"), nil)
			return nil
		}, named("now"))
		op := c.Operator(r)
		c.handled("a")
		op.waitLogged(c, "is processed")
		if lines := op.Logs.Find("Updating is processed: 2 succeeded; 1 failed."); len(lines) != 1 || lines[0].Level != slog.LevelInfo {
			c.Errorf("got the lines %v, want 2 succeeded and 1 failed", op.Logs.Find("processed"))
		}
	})
}

// ownStorage is a user-defined storage. It keeps the records in memory, and records its calls.
type ownStorage struct {
	mu      sync.Mutex
	records map[string]*kopf.ProgressRecord
	asked   calls
}

func (s *ownStorage) key(id kopf.HandlerID, body *kopf.Body) string {
	return body.UID() + " " + string(id)
}

func (s *ownStorage) Fetch(id kopf.HandlerID, body *kopf.Body) (*kopf.ProgressRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.add("fetch %s", id)
	if r := s.records[s.key(id, body)]; r != nil {
		own := *r
		return &own, nil
	}
	return nil, nil
}

func (s *ownStorage) Store(id kopf.HandlerID, record *kopf.ProgressRecord, body *kopf.Body, patch *kopf.Patch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.add("store %s", id)
	own := *record
	s.records[s.key(id, body)] = &own
}

func (s *ownStorage) Purge(id kopf.HandlerID, body *kopf.Body, patch *kopf.Patch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.add("purge %s", id)
	delete(s.records, s.key(id, body))
}

func (s *ownStorage) Touch(value string, body *kopf.Body, patch *kopf.Patch) {
	s.asked.add("touch %q", value)
}

func (s *ownStorage) Clear(essence *kopf.Essence) {
	s.asked.add("clear")
	if err := essence.Set("spec.mine", nil); err != nil {
		s.asked.add("clear failed")
	}
}

func (s *ownStorage) Flush() { s.asked.add("flush") }

func keeping(t *testing.T, c *C) {
	c.Run(t, "CH-147 a storage of the user's own keeps the progress", func(c *C) {
		var l calls
		s := &ownStorage{records: map[string]*kopf.ProgressRecord{}}
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h", kopf.Temporary(errOops, time.Millisecond)), named("h"))
		r.OnUpdate(Examples, l.handler("u"), named("u"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Persistence.ProgressStorage = s })
		c.Create("a", spec(map[string]any{"mine": "x"}))
		c.handled("a")
		c.expect(&l, "h create 0", "h create 1")
		for _, asked := range []string{"fetch h", "store h", "purge h", `touch ""`, "clear", "flush"} {
			if s.asked.count(asked) == 0 {
				c.Errorf("the storage was never asked to %s: %q", asked, s.asked.all())
			}
		}
		all := s.asked.all()
		for i, asked := range all {
			if strings.HasPrefix(asked, "store") && strings.HasPrefix(all[min(i+1, len(all)-1)], "fetch") {
				c.Errorf("there is no flush between a round of stores and what follows: %q", all)
			}
		}
		if len(s.records) != 0 {
			c.Errorf("the records %v are left", s.records)
		}
		c.Patch("a", spec(map[string]any{"mine": "y"})) // the storage excludes the field from the tracked ones
		c.Pass(500 * time.Millisecond)
		if n := l.count("u "); n != 0 {
			c.Errorf("the update handler was called %d times for what the storage keeps", n)
		}
		for _, w := range op.Wire.Writes() {
			if strings.Contains(w.Body, "kopf.zalando.org/h") {
				c.Errorf("the record is on the object, too: %s", w.Body)
			}
		}
	})
	c.Run(t, "CH-152 the state at the beginning of the last cycle is stored at the end, if it is another", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.New.Get("spec.x") != nil && ch.Old.Get("spec.x") == nil {
				ch.Patch.Set("spec.y", 1)
			}
			l.add("update")
			return nil
		}, named("update"))
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("both updates", func() bool { return l.count("update") == 2 })
		c.handled("a")
		var bases []string
		for _, w := range op.Wire.Writes() {
			var patch struct {
				Metadata struct{ Annotations map[string]any }
			}
			if json.Unmarshal([]byte(w.Body), &patch) == nil && patch.Metadata.Annotations[diffBase] != nil {
				bases = append(bases, strings.TrimSpace(fmt.Sprint(patch.Metadata.Annotations[diffBase])))
			}
		}
		if got, want := fmt.Sprint(bases), `[{} {"spec":{"x":1}} {"spec":{"x":1,"y":1}}]`; got != want {
			c.Errorf("got the stored states %s, want %s", got, want)
		}
		op.Stop()
		again := c.Operator(r)
		c.WaitFor("the resuming", func() bool { return l.count("resume") == 1 })
		c.Pass(300 * time.Millisecond)
		if got := again.Wire.Writes(); len(got) > 0 {
			c.Errorf("the same state was stored again: %v", got)
		}
	})
	c.Run(t, "CH-153 another storage makes objects look new, unless the old one is kept beside it", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		own := &kopf.AnnotationsDiffBaseStorage{Prefix: "example.com"}
		first := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		first.Stop()
		both := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = kopf.MultiDiffBaseStorage{own, &kopf.AnnotationsDiffBaseStorage{}}
		})
		c.Pass(500 * time.Millisecond)
		c.expect(&l, "create create 0")
		both.Stop()
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Persistence.DiffBaseStorage = own })
		c.expect(&l, "create create 0", "create create 0")
	})
	c.Run(t, "CH-157 what the schema drops is warned of", func(c *C) {
		name := strings.ReplaceAll(c.Unique("pruned"), "-", "")
		kind := "P" + name
		c.Define(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name + "s.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": name + "s", "kind": kind},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"status": map[string]any{"type": "object", "properties": map[string]any{"known": map[string]any{"type": "string"}}}},
				}}}},
			},
		})
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector(name+"s.v1.example.com"), func(ctx context.Context, ch *kopf.Change) error {
			ch.SetResult("lost")
			ch.Patch.Set("status.known", "kept")
			return nil
		}, named("h"))
		op := c.Operator(r)
		k := c.Of("example.com/v1", kind)
		k.Create("a", nil)
		c.WaitFor("the status", func() bool { return k.Get("a").Status().String("known") == "kept" })
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("The API server dropped fields of a patch")) == 1 })
		line := op.Logs.Find("The API server dropped fields of a patch")[0]
		if line.Level != slog.LevelWarn || !strings.Contains(line.Attrs["differences"], "lost") || strings.Contains(line.Attrs["differences"], "kept") {
			c.Errorf("got the line %v, want a warning about the lost result", line)
		}
	})
	c.Run(t, "CH-167 an object is handled when its handling ends, also if there was nothing to call", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		r.OnUpdate(Examples, l.handler("update"), &kopf.ChangeOptions{ID: "update", Labels: kopf.Match{"no": kopf.Present}})
		c.Create("a", map[string]any{"metadata": handledBefore(`{"spec":{"x":1}}`, nil), "spec": map[string]any{"x": 2}})
		c.Operator(r)
		c.WaitFor("the stored state", func() bool { base, _ := c.Get("a").Annotation(diffBase); return strings.Contains(base, `"x":2`) })
		c.expect(&l, "resume update 0") // merged into the update
		c.Patch("a", spec(map[string]any{"x": 3}))
		c.WaitFor("the stored state", func() bool { base, _ := c.Get("a").Annotation(diffBase); return strings.Contains(base, `"x":3`) })
		c.expect(&l, "resume update 0") // and no second time
	})
	c.Run(t, "CH-168 what is finished within one cycle leaves no record", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("one"), named("one"))
		r.OnCreate(Examples, l.handler("two", kopf.Permanent(errOops)), named("two"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		got := patches(op)
		if len(got) != 1 || strings.Contains(got[0], "kopf.zalando.org/one") || strings.Contains(got[0], "kopf.zalando.org/two") || !strings.Contains(got[0], diffBase) {
			c.Errorf("got the patches %q, want one with the stored state and no records", got)
		}
	})
}
