package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite hands objects over during their handling, in both directions: from the recorded states of Kopf for Python to kopf, and from kopf, which
// must leave the same state as Kopf for Python.

var _ = Suite("interop_handover", func(t *testing.T, c *C) {
	for _, tr := range traces() {
		for i, step := range tr.Steps {
			if len(step.Requests) > 0 && step.touch() == "" {
				c.Run(t, fmt.Sprintf("CH-220 what is left is the original's to the byte: %s, step %d", tr.Name, i), func(c *C) {
					c.OnlyInBubble("the clock is set")
					tr.leave(c, i)
				})
			}
			if _, there := tr.state(i)["metadata"].(map[string]any)["deletionTimestamp"]; !there && len(step.Log) > 0 {
				c.Run(t, fmt.Sprintf("CH-219 what is taken over goes on: %s, after step %d", tr.Name, i), func(c *C) {
					c.OnlyInBubble("the clock is set")
					tr.takeOver(c, i)
				})
			}
		}
	}
	understanding(t, c)
	agreeing(t, c)
})

// leave has an operator do one step of Kopf for Python at the same moment, and compares the resulting object.
func (tr *trace) leave(c *C, number int) {
	step := tr.Steps[number]
	kind, on := tr.kind(c)
	tr.bring(c, kind, tr.stateBefore(number))
	c.at(step.Now)
	before := plain(kind.Get("a").Map())
	e := tr.expected(number, &clock{}, before)
	op, _, reel := tr.operator(c, on, asOriginal)
	reel.cutAfter(len(e.requests), op.Wire)
	c.at(step.end())
	op.Crash()
	frames := reel.all()
	if len(frames) != len(e.requests) {
		c.Fatalf("got %d requests, want %d", len(frames), len(e.requests))
	}
	for n, want := range e.requests {
		c.compare(fmt.Sprintf("request %d", n), kind, want, frames[n])
	}
	left := frames[len(frames)-1].after
	if original, ok := step.After.(map[string]any); ok && tr.script.user[number] == nil { // the user's changes do not come from kopf
		want := tr.comparable(original)
		tr.carry(number, want)
		c.same("the object", tr.comparable(want), tr.comparable(left))
	}
	for key := range annotations(left) {
		if strings.Contains(key, "/touch-dummy") {
			c.Errorf("the leftover %s was not removed", key)
		}
	}
}

// stateBefore returns the object before a step of Kopf for Python: with the changes of the user.
func (tr *trace) stateBefore(number int) map[string]any {
	object := plain(tr.state(number - 1))
	if number > 0 && tr.Steps[number-1].Log == nil { // the user deletes the object in that step
		object["metadata"].(map[string]any)["deletionTimestamp"] = "2020-01-01T00:00:00Z"
	}
	return object
}

// takeOver gives an operator the object after a step of Kopf for Python, and checks that it does the remaining work, and nothing else.
func (tr *trace) takeOver(c *C, number int) {
	kind, on := tr.kind(c)
	tr.bring(c, kind, tr.state(number))
	c.at(tr.Steps[number].end())
	op, s, _ := tr.operator(c, on)
	for i := number; i < len(tr.Steps); i++ {
		if act := tr.script.user[i]; act != nil && !(i == number && tr.Steps[i].touchesSpec(tr)) {
			c.at(tr.Steps[i].end())
			act(c, kind)
		}
	}
	c.at(tr.Steps[len(tr.Steps)-1].Now.Add(10 * time.Minute))
	op.Stop()
	attempts := map[string]int{}
	var want []string
	for i, step := range tr.Steps {
		for _, id := range step.invoked() {
			if i > number && id != universe { // its calls depend on the number of cycles (CH-106)
				want = append(want, fmt.Sprint(id, " ", attempts[id]))
			}
			attempts[id]++
		}
	}
	if resumed := slices.IndexFunc(tr.Steps, func(s *traceStep) bool { return s.logs("processed(updating") }); attempts["resume_fn"] > 0 && number >= resumed {
		want = []string{"resume_fn 0", "resume_fn 1", "resume_fn 2"} // it resumes again, as at each start
	}
	got := slices.DeleteFunc(s.calls.all(), func(call string) bool { return strings.HasPrefix(call, universe+" ") })
	c.same("the calls", want, got)
	tr.checkEnd(c, kind)
}

// touchesSpec reports whether the recorded state after the step already contains the change of the user.
func (s *traceStep) touchesSpec(tr *trace) bool {
	after, ok := s.After.(map[string]any)
	return ok && encoded(after["spec"]) != encoded(tr.Before["spec"])
}

// understanding proves that kopf reads records and states in any form.
func understanding(t *testing.T, c *C) {
	long := strings.Repeat("x", 47) // too long for the first version of keys, and for one of the recorded ids
	const prefix = "kopf.zalando.org/"
	const record = `{"started":"2000-01-01T00:00:00.000000+00:00","delayed":"2000-01-01T00:00:30.500000+00:00","purpose":"create","retries":2,"success":false,"failure":false,"message":"né"}`
	for _, test := range []struct{ name, key, text string }{
		{"CH-219 under the second key", prefix + long, record},
		{"CH-219 under the first key, which is shorter", prefix + shortened(long), record},
		{"CH-129 under both keys, of which the second counts", prefix + long, record},
		{"CH-143 under the first key, beside a null", prefix + shortened(long), record},
		{"CH-221 keys in another order", prefix + long, `{"message":"né","failure":false,"success":false,"retries":2,"purpose":"create","delayed":"2000-01-01T00:00:30.500000+00:00","started":"2000-01-01T00:00:00.000000+00:00"}`},
		{"CH-221 escaped characters", prefix + long, strings.ReplaceAll(record, "é", `\u00e9`)},
		{"CH-221 spaces and a newline", prefix + long, " " + strings.NewReplacer(":\"", ": \"", ",", " , ").Replace(record) + "\n"},
		{"CH-126 nulls and unknown keys", prefix + long, strings.Replace(record, "{", `{"stopped":null,"subrefs":null,"more":{"a":[1]},`, 1)},
		{"CH-123 missing falses", prefix + long, strings.Replace(record, `,"success":false,"failure":false`, "", 1)},
		{"CH-121 no purpose", prefix + long, strings.Replace(record, `"purpose":"create",`, "", 1)},
		{"CH-T20 times in UTC as Z", prefix + long, strings.ReplaceAll(record, "+00:00", "Z")},
		{"CH-120 times in another zone", prefix + long, strings.Replace(record, "2000-01-01T00:00:30.500000+00:00", "2000-01-01T02:00:30.500000+02:00", 1)},
		{"CH-120 times of the basic form", prefix + long, strings.Replace(record, "2000-01-01T00:00:30.500000+00:00", "20000101T000030.5Z", 1)},
		{"CH-T22 times without a zone", prefix + long, strings.ReplaceAll(record, "+00:00", "")},
		{"CH-141 in the status", "", record},
	} {
		c.Run(t, test.name+" is read", func(c *C) {
			c.OnlyInBubble("the clock is set")
			fields := spec(map[string]any{"x": 1})
			if test.key == "" {
				fields["status"] = map[string]any{"kopf": map[string]any{"progress": map[string]any{long: decoded(test.text)}}}
			} else {
				notes := map[string]any{test.key: test.text}
				switch id, _, _ := strings.Cut(test.name, " "); id {
				case "CH-129":
					notes[prefix+shortened(long)] = strings.Replace(record, `"retries":2`, `"retries":7`, 1)
				case "CH-143":
					notes[prefix+long] = "null"
				}
				fields["metadata"] = map[string]any{"annotations": notes}
			}
			c.Create("a", fields)
			r := &kopf.Registry{}
			began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			var l calls
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				l.add("%d %s %s", ch.Retry, ch.Started.UTC().Format(time.RFC3339Nano), time.Since(began))
				if ch.Retry == 2 {
					return temporary("naïve", time.Minute)
				}
				return nil
			}, named(kopf.HandlerID(long)))
			c.Operator(r)
			c.Pass(time.Until(began.Add(time.Minute)))
			// kopf writes the one form that Kopf for Python leaves unchanged (CH-220), under both keys.
			want := `{"started":"2000-01-01T00:00:00.000000+00:00","delayed":"2000-01-01T00:01:30.500000+00:00","purpose":"create","retries":3,"success":false,"failure":false,"message":"na\u00efve"}`
			for _, key := range []string{long, shortened(long)} {
				if got, _ := c.Get("a").Annotation(prefix + key); got != want {
					c.Errorf("%s: got %s, want %s", key, got, want)
				}
			}
			c.Pass(10 * time.Minute)
			c.expect(&l, "2 2000-01-01T00:00:00Z 30.5s", "3 2000-01-01T00:00:00Z 1m30.5s")
			body := c.handled("a")
			if len(body.Annotations()) != 1 || body.Status().View("kopf.progress").Len() != 0 {
				c.Errorf("got the annotations %v and the status %v", body.Annotations(), body.Status().Map())
			}
		})
	}
	const base = `{"spec":{"text":"né","list":[1,{"a":1.0}],"x":{"b":1,"a":2}},"metadata":{"labels":{"l":"v"}}}`
	for _, test := range []struct {
		name, text      string
		touched, marked bool
	}{
		{name: "with a newline", text: base + "\n"},
		{name: "without a newline", text: base},
		{name: "with escaped characters", text: strings.ReplaceAll(base, "é", `\u00e9`) + "\n"},
		{name: "with keys in another order", text: `{"metadata":{"labels":{"l":"v"}},"spec":{"x":{"a":2,"b":1},"list":[1,{"a":1.0}],"text":"né"}}` + "\n"},
		{name: "with spaces", text: strings.NewReplacer(":", ": ", ",", ", ").Replace(base) + "\n"},
		{name: "beside a leftover of a touch", text: base, touched: true},
		{name: "beside a marker that is not needed", text: base, marked: true},
	} {
		c.Run(t, "CH-221 a state "+test.name+" is no change", func(c *C) {
			fields := spec(decoded(base).(map[string]any)["spec"].(map[string]any))
			notes := map[string]any{diffBase: test.text}
			if test.touched {
				notes[prefix+"touch-dummy"] = "2021-01-01T00:00:13.423456+00:00"
			}
			if test.marked {
				notes[prefix+"kopf-managed"] = "yes"
			}
			fields["metadata"] = map[string]any{"labels": map[string]any{"l": "v"}, "annotations": notes}
			c.Create("a", fields)
			r := &kopf.Registry{}
			var l calls
			r.OnCreate(Examples, l.handler("create"), named("create"))
			r.OnUpdate(Examples, l.handler("update"), named("update"))
			op := c.Operator(r)
			over := func() bool {
				return len(op.Logs.Find("No tracked field has changed; skipping handlers"))+len(op.Logs.Find("Handling is finished, with nothing to store")) > 0
			}
			c.WaitFor("the end of the handling", over)
			c.Pass(time.Second)
			if got := l.all(); len(got) > 0 {
				c.Errorf("got the calls %q", got)
			}
			var want []string
			if test.touched { // kopf removes it (CH-196)
				want = []string{`application/merge-patch+json {"metadata":{"annotations":{"kopf.zalando.org/touch-dummy":null},"uid":"` + c.Get("a").UID() + `"}}`}
			}
			if got := patches(op); !slices.Equal(got, want) {
				c.Errorf("got the patches %q, want %q", got, want)
			}
		})
	}
}

// shortened returns the name that old versions gave the annotation of an id.
func shortened(id string) string {
	for _, row := range section[struct{ ID, V1, Prefix string }]("annotation_keys") {
		if row.ID == id && row.Prefix == "kopf.zalando.org" {
			return strings.TrimPrefix(row.V1, row.Prefix+"/")
		}
	}
	return id
}

// section parses rows of the recorded vectors.
func section[T any](name string) []T {
	var sections map[string]json.RawMessage
	var rows []T
	if err := json.Unmarshal(golden, &sections); err != nil {
		panic(err) // they are valid
	}
	if err := json.Unmarshal(sections[name], &rows); err != nil {
		panic(err)
	}
	return rows
}

// agreeing proves which settings must be the same on both sides, and what happens if they differ.
func agreeing(t *testing.T, c *C) {
	for _, test := range []struct {
		name   string
		adjust func(r *kopf.Registry, l *calls, p *kopf.PersistenceSettings)
		want   []string
	}{
		{"the same on both sides is no change", func(*kopf.Registry, *calls, *kopf.PersistenceSettings) {}, nil},
		{"another prefix is a creation", func(_ *kopf.Registry, _ *calls, p *kopf.PersistenceSettings) {
			p.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: "other.example.com", IgnoredFields: []kopf.FieldPath{"spec.noise"}}
		}, []string{"create create 0", "phase create 0"}},
		{"other ignored fields are a change", func(_ *kopf.Registry, _ *calls, p *kopf.PersistenceSettings) {
			p.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{}
		}, []string{"update update 0"}},
		{"other tracked fields are a change", func(r *kopf.Registry, l *calls, _ *kopf.PersistenceSettings) {
			r.OnField(Examples, "status.more", l.handler("more"), named("more"))
		}, []string{"update update 0", "more update 0"}},
	} {
		c.Run(t, "CH-218 "+test.name, func(c *C) {
			c.Create("a", map[string]any{
				"metadata": map[string]any{"finalizers": []any{finalizer}, "annotations": map[string]any{diffBase: `{"spec":{"x":1},"status":{"phase":"Ready"}}` + "\n"}},
				"spec":     map[string]any{"x": 1, "noise": 5},
				"status":   map[string]any{"phase": "Ready", "more": 1, "kopf": map[string]any{"dummy": "x"}},
			})
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			r.OnUpdate(Examples, l.handler("update"), named("update"))
			r.OnField(Examples, "status.phase", l.handler("phase"), named("phase"))
			r.OnDelete(Examples, l.handler("delete"), named("delete"))
			op := c.Operator(r, func(op *kopf.Operator) {
				op.Settings.Persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{IgnoredFields: []kopf.FieldPath{"spec.noise"}}
				test.adjust(r, &l, &op.Settings.Persistence)
			})
			over := func() bool {
				return len(op.Logs.Find("No tracked field has changed; skipping handlers"))+len(op.Logs.Find("Handling is finished, with nothing to store")) > 0
			}
			c.WaitFor("the end of the handling", over)
			c.Pass(time.Second)
			c.expect(&l, test.want...)
			if writes := len(op.Wire.Writes()); test.want == nil && writes > 0 {
				c.Errorf("there are %d requests, want none", writes)
			}
		})
	}
	c.Run(t, "CH-161 what has succeeded is not called again for a cause that supersedes another", func(c *C) {
		c.OnlyInBubble("the delays are long")
		c.Create("a", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{diffBase: `{"spec":{"x":1}}` + "\n"}}, "spec": map[string]any{"x": 1},
		})
		var l calls
		r := &kopf.Registry{}
		r.OnResume(Examples, l.handler("one"), named("one"))
		r.OnResume(Examples, l.handler("two", temporary("oops", time.Minute)), named("two"))
		r.OnUpdate(Examples, l.handler("update"), named("update"))
		c.Operator(r)
		c.Pass(20 * time.Second)
		c.Patch("a", spec(map[string]any{"x": 2}))
		c.Pass(5 * time.Minute)
		c.expect(&l, "one resume 0", "two resume 0", "update update 0", "two update 1")
		if got, _ := c.handled("a").Annotation(diffBase); got != `{"spec":{"x":2}}`+"\n" {
			c.Errorf("got the state %s", got)
		}
	})
	for _, test := range []struct{ name, zone string }{
		{"CH-T20 the record of the present handler survives the purge of older ones", "+00:00"},
		{"CH-162 as does a record that looks otherwise", "Z"},
	} {
		c.Run(t, test.name, func(c *C) {
			c.OnlyInBubble("the clock is set")
			record := func(purpose, more string) string {
				return strings.ReplaceAll(`{"started":"2000-01-01T00:00:00.000000+00:00",`+more+`"purpose":"`+purpose+`","retries":1,"success":false,"failure":false}`, "+00:00", test.zone)
			}
			c.Create("a", map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{
					diffBase:                     `{"spec":{"x":1}}` + "\n",
					"kopf.zalando.org/create_fn": record("create", ""),
					"kopf.zalando.org/update_fn": record("update", `"delayed":"2000-01-01T00:10:00.000000+00:00",`),
					"kopf.zalando.org/unknown":   record("create", ""), // of another operator
				}},
				"spec": map[string]any{"x": 2},
			})
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create_fn"), named("create_fn"))
			r.OnUpdate(Examples, l.handler("update_fn"), named("update_fn"))
			op := c.Operator(r)
			c.Pass(time.Minute)
			want := map[string]string{
				diffBase:                     `{"spec":{"x":1}}` + "\n",
				"kopf.zalando.org/update_fn": `{"started":"2000-01-01T00:00:00.000000+00:00","delayed":"2000-01-01T00:10:00.000000+00:00","purpose":"update","retries":1,"success":false,"failure":false}`,
				"kopf.zalando.org/unknown":   record("create", ""),
			}
			c.same("the annotations", want, c.Get("a").Annotations())
			if got := op.Wire.Writes(); len(got) != 1 {
				c.Errorf("got the requests %v, want one", got)
			}
			c.Pass(10 * time.Minute)
			c.expect(&l, "update_fn update 1")
			c.same("the annotations in the end", map[string]string{diffBase: `{"spec":{"x":2}}` + "\n", "kopf.zalando.org/unknown": record("create", "")}, c.Get("a").Annotations())
		})
	}
	c.Run(t, "a state that was kept for a handling which the original has finished is not used again", func(c *C) {
		c.OnlyInBubble("the delays are long")
		c.Create("a", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{
				diffBase:                         `{"spec":{"x":1}}` + "\n",
				"kopf.zalando.org/handling-base": `{"spec":{"x":1}}` + "\n", // of the previous handling
				"kopf.zalando.org/one":           `{"started":"2000-01-01T00:00:00.000000+00:00","stopped":"2000-01-01T00:00:00.000000+00:00","purpose":"update","retries":1,"success":true,"failure":false}`,
				"kopf.zalando.org/two":           `{"started":"2000-01-01T00:00:00.000000+00:00","purpose":"update","retries":0,"success":false,"failure":false}`,
			}},
			"spec": map[string]any{"x": 2},
		})
		var l calls
		r := &kopf.Registry{}
		r.OnUpdate(Examples, l.handler("one"), named("one"))
		r.OnUpdate(Examples, l.handler("two"), named("two"))
		c.Operator(r)
		c.Pass(time.Minute)
		c.expect(&l, "two update 0")
		if notes := c.handled("a").Annotations(); len(notes) != 1 || notes[diffBase] != `{"spec":{"x":2}}`+"\n" {
			c.Errorf("got the annotations %v", notes)
		}
	})
}
