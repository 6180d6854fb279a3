package kopf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// mustChange registers a change handler, and returns it.
func mustChange(t testing.TB, kind handlerKind, field FieldPath, o ChangeOptions) *handler {
	t.Helper()
	if o.ID == "" {
		o.ID = "fn"
	}
	if kind != kindField {
		o.Field = field
	}
	r := &Registry{}
	if err := r.onChange(kind, "things", field, noChange, &o); err != nil {
		t.Fatal(err)
	}
	return r.handlers[0]
}

// cause makes a change from tracked fields in JSON; "" is none.
func cause(t testing.TB, reason Reason, old, now string) *Change {
	t.Helper()
	body := now
	if body == "" {
		body = "{}"
	}
	c := &Change{Object: Object{Body: mustBody(t, body), Logger: slog.New(slog.DiscardHandler)}, Reason: reason, Old: View{raw: []byte(old)}, New: View{raw: []byte(now)}}
	before, after := c.Old, c.New
	c.diff = func() Diff { return diffJSON(before.Get(""), after.Get("")) }
	return c
}

type filterRow struct {
	Decorator string
	Filters   map[string]string
	Reason    Reason
	Old, New  *string
	OldObject json.RawMessage `json:"old_object"`
	Selected  bool
	Counts    bool `json:"counts_for_stealth_and_finalizers"`
	Gets      *struct {
		Old, New any
		Diff     [][]any
	} `json:"handler_gets"`
}

func (r filterRow) kind() handlerKind {
	return map[string]handlerKind{"create": kindCreate, "update": kindUpdate, "delete": kindDelete, "resume": kindResume, "field": kindField}[r.Decorator]
}

func (r filterRow) options() ChangeOptions {
	of := func(name string) any {
		switch text, given := r.Filters[name]; {
		case !given:
			return nil
		case text == "@present":
			return Present
		case text == "@absent":
			return Absent
		case strings.HasPrefix(text, "@callable"):
			return func(v *FieldValue) bool { return v.Present && v.Value == "x" }
		default:
			return text
		}
	}
	return ChangeOptions{Value: of("value"), Old: of("old"), New: of("new")}
}

func (r filterRow) cause(t testing.TB) *Change {
	essence := func(value *string) string {
		if value == nil {
			return `{"spec":{}}`
		}
		return fmt.Sprintf(`{"spec":{"field":%q}}`, *value)
	}
	old := essence(r.Old)
	if string(r.OldObject) == "null" {
		old = ""
	}
	return cause(t, r.Reason, old, essence(r.New))
}

// id returns the ID of the row's statement.
func (r filterRow) id() string {
	switch {
	case r.Decorator == "field" && r.Reason != ReasonUpdate:
		return "CH-99"
	case r.Decorator == "resume":
		return "CH-100"
	case r.Filters["old"] != "" || r.Filters["new"] != "":
		return "CH-49"
	case r.Filters["value"] == "" && r.Decorator == "create":
		return "CH-44"
	case r.Filters["value"] == "":
		return "CH-48"
	case r.Filters["value"][0] == '@':
		return "CH-45"
	}
	return "CH-47"
}

// deviates reports whether the row shows CH-T14: the old value has called a handler that does not compare states.
func (r filterRow) deviates() bool {
	v, back := r.Filters["value"], r.Decorator == "update" || r.Decorator == "field"
	return r.Counts && !back && (v == "x" && (r.New == nil || *r.New != "x") || v == "@absent" && r.New != nil)
}

func TestFieldFilters(t *testing.T) {
	rows, deviating := golden[filterRow](t, "field_filters"), 0
	for i, r := range rows {
		name := fmt.Sprintf("golden: row %d, %s in %s with %v", i, r.Decorator, r.Reason, r.Filters)
		h := mustChange(t, r.kind(), "spec.field", r.options())
		initial := r.Decorator == "resume" || r.Reason == ReasonResume
		if r.deviates() {
			deviating++
			t.Run("CH-T14 "+name, func(t *testing.T) {
				if c := r.cause(t); h.matches(c, initial) || h.preMatches(c) {
					t.Error("the old value has let the handler in")
				}
			})
			continue
		}
		t.Run(r.id()+" "+name, func(t *testing.T) {
			if got := h.matches(r.cause(t), initial); got != r.Selected {
				t.Errorf("selected: %t, want %t", got, r.Selected)
			}
		})
		t.Run("CH-55 "+name, func(t *testing.T) {
			if got := h.preMatches(r.cause(t)); got != r.Counts {
				t.Errorf("of interest: %t, want %t", got, r.Counts)
			}
		})
		if r.Gets == nil {
			continue
		}
		t.Run("CH-87 "+name, func(t *testing.T) {
			c := r.cause(t)
			h.narrow(c)
			var diff [][]any
			for _, item := range c.Diff() {
				path := []any{}
				for _, key := range item.Path {
					path = append(path, key)
				}
				diff = append(diff, []any{string(item.Operation), path, item.Old, item.New})
			}
			got := []any{c.Old.Get(""), c.New.Get(""), diff}
			want := []any{r.Gets.Old, r.Gets.New, r.Gets.Diff}
			if len(r.Gets.Diff) == 0 {
				want[2] = [][]any(nil)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
	if len(rows) != 255 || deviating != 4 {
		t.Errorf("%d rows, of which %d deviate; want 255 and 4", len(rows), deviating)
	}
}

func TestFieldPresence(t *testing.T) {
	h := mustChange(t, kindCreate, "spec.a.b", ChangeOptions{})
	literal := mustChange(t, kindCreate, "spec.a.b", ChangeOptions{Value: map[string]any{"n": 1, "l": []int{1, 2}}})
	null := mustChange(t, kindCreate, "spec.a.b", ChangeOptions{Value: json.RawMessage("null")})
	for _, tt := range []struct {
		name string
		h    *handler
		now  string
		want bool
	}{
		{"CH-44 a null is there", h, `{"spec":{"a":{"b":null}}}`, true},
		{"CH-44 an empty text is there", h, `{"spec":{"a":{"b":""}}}`, true},
		{"CH-44 absent", h, `{"spec":{"a":{}}}`, false},
		{"CH-T18 through a list", h, `{"spec":{"a":[{"b":1}]}}`, false},
		{"CH-T18 through a scalar", h, `{"spec":{"a":"b"}}`, false},
		{"CH-T18 through a null", h, `{"spec":{"a":null}}`, false},
		{"CH-8 a list is no way", mustChange(t, kindCreate, "spec.a.0", ChangeOptions{}), `{"spec":{"a":[1]}}`, false},
		{"CH-8 a key with dots", mustChange(t, kindCreate, Path("spec", "a.b/c"), ChangeOptions{}), `{"spec":{"a.b/c":1}}`, true},
		{"CH-45 deeply equal", literal, `{"spec":{"a":{"b":{"l":[1.0,2],"n":1}}}}`, true},
		{"CH-45 not deeply equal", literal, `{"spec":{"a":{"b":{"l":[1],"n":1}}}}`, false},
		{"CH-45 null is a value", null, `{"spec":{"a":{"b":null}}}`, true},
		{"CH-45 null is not absence", null, `{"spec":{"a":{}}}`, false},
		{"CH-45 true is not 1", mustChange(t, kindCreate, "spec.x", ChangeOptions{Value: true}), `{"spec":{"x":1}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.h.matches(cause(t, ReasonCreate, "", tt.now), false); got != tt.want {
				t.Errorf("%s: %t, want %t", tt.now, got, tt.want)
			}
		})
	}
}

func TestValuePredicates(t *testing.T) {
	var seen []FieldValue
	look := func(v *FieldValue) bool { seen = append(seen, *v); return true }
	h := mustChange(t, kindUpdate, "spec.x", ChangeOptions{Old: look, New: look})
	c := cause(t, ReasonUpdate, `{"spec":{}}`, `{"spec":{"x":[1]}}`)
	h.matches(c, false)
	t.Run("CH-T15 absence is told", func(t *testing.T) {
		want := []FieldValue{{Object: &c.Object}, {Value: []any{json.Number("1")}, Present: true, Object: &c.Object}}
		same := func(a, b FieldValue) bool {
			return rawjson.Equal(a.Value, b.Value) && a.Present == b.Present && a.Object == b.Object
		}
		if !slices.EqualFunc(want, seen, same) {
			t.Errorf("got %+v, want %+v", seen, want)
		}
	})
	seen = nil
	h = mustChange(t, kindUpdate, "spec.x", ChangeOptions{Value: look})
	h.preMatches(c)
	t.Run("CH-47 the new value goes first", func(t *testing.T) {
		if len(seen) != 1 || !seen[0].Present {
			t.Errorf("the predicate got %+v, want the new value alone", seen)
		}
	})
}

func TestMetadataFilters(t *testing.T) {
	body := `{"metadata":{"labels":{"a":"1","empty":"","x.io/y":"2"},"annotations":{"n":"3"}},"spec":{}}`
	absent := func(v *FieldValue) bool { return !v.Present && v.Value == nil }
	one := func(v *FieldValue) bool { return v.Present && v.Value == "1" }
	type text string
	for _, tt := range []struct {
		name                string
		labels, annotations Match
		want                bool
	}{
		{"CH-42 equal", Match{"a": "1"}, nil, true},
		{"CH-42 a text of another type", Match{"a": text("1")}, nil, true},
		{"CH-42 unequal", Match{"a": "2"}, nil, false},
		{"CH-42 missing", Match{"b": "1"}, nil, false},
		{"CH-42 present", Match{"a": Present}, nil, true},
		{"CH-42 the empty text is present", Match{"empty": Present}, nil, true},
		{"CH-42 not present", Match{"b": Present}, nil, false},
		{"CH-42 absent", Match{"b": Absent}, nil, true},
		{"CH-42 not absent", Match{"empty": Absent}, nil, false},
		{"CH-42 a key with dots", Match{"x.io/y": "2"}, nil, true},
		{"CH-42 a predicate", Match{"a": one}, nil, true},
		{"CH-42 a predicate that is false", Match{"empty": one}, nil, false},
		{"CH-42 a predicate for what is absent", Match{"b": absent}, nil, true},
		{"CH-42 all of them", Match{"a": "1", "b": Present}, nil, false},
		{"CH-42 annotations", nil, Match{"n": "3"}, true},
		{"CH-42 annotations are no labels", nil, Match{"a": "1"}, false},
		{"CH-41 both must fit", Match{"a": "1"}, Match{"n": "4"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := mustChange(t, kindCreate, "", ChangeOptions{Labels: tt.labels, Annotations: tt.annotations})
			c := cause(t, ReasonCreate, "", body)
			if got := h.matches(c, false); got != tt.want {
				t.Errorf("matches: %t, want %t", got, tt.want)
			}
			if got := h.preMatches(c); got != tt.want {
				t.Errorf("of interest: %t, want %t", got, tt.want)
			}
		})
	}
	t.Run("CH-43 the object as it is", func(t *testing.T) {
		h := mustChange(t, kindUpdate, "", ChangeOptions{Labels: Match{"a": "1"}})
		c := cause(t, ReasonUpdate, body, `{"metadata":{"labels":{"a":"2"}}}`)
		if h.matches(c, false) {
			t.Error("the labels of the old object have been looked at")
		}
	})
}

func TestFilterOrder(t *testing.T) {
	var order []string
	stop := ""
	step := func(name string) func(*FieldValue) bool {
		return func(*FieldValue) bool { order = append(order, name); return name != stop }
	}
	h := mustChange(t, kindUpdate, "spec.x", ChangeOptions{
		Labels: Match{"l": step("label")}, Annotations: Match{"a": step("annotation")}, Old: step("old"), New: step("new"),
		When: func(c *Change) bool {
			order = append(order, "when")
			if c.Reason != ReasonUpdate || !c.Old.Has("spec.x") || len(c.Diff()) != 1 || len(c.Diff()[0].Path) != 2 {
				t.Error("CH-51: the predicate has not got the whole change")
			}
			return true
		},
	})
	all := []string{"label", "annotation", "old", "new", "when"}
	for i, name := range append(all, "nothing") {
		t.Run("CH-41 until "+name, func(t *testing.T) {
			order, stop = nil, name
			got := h.matches(cause(t, ReasonUpdate, `{"spec":{"x":1}}`, `{"spec":{"x":2}}`), false)
			if want := all[:min(i+1, len(all))]; !slices.Equal(order, want) || got != (i >= 4) {
				t.Errorf("got %v (%t), want %v", order, got, want)
			}
		})
	}
	t.Run("CH-51 when sees the whole change", func(t *testing.T) {
		order, stop = nil, ""
		h.matches(cause(t, ReasonUpdate, `{"spec":{"x":1}}`, `{"spec":{"x":2}}`), false)
		if order[len(order)-1] != "when" {
			t.Errorf("the predicate was not asked: %v", order)
		}
	})
	t.Run("CH-55 neither reason nor difference count", func(t *testing.T) {
		order = nil
		sole := mustChange(t, kindDelete, "", ChangeOptions{})
		if !sole.preMatches(cause(t, ReasonCreate, "", `{}`)) || sole.matches(cause(t, ReasonCreate, "", `{}`), false) {
			t.Error("a handler of deletions is to make an object of interest, and not to be called, at creation")
		}
	})
}

func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kind    handlerKind
		options ChangeOptions
		initial bool
		want    string // the reasons
	}{
		{"CH-99 creation", kindCreate, ChangeOptions{}, true, "create"},
		{"CH-99 update", kindUpdate, ChangeOptions{}, true, "update"},
		{"CH-99 deletion", kindDelete, ChangeOptions{}, true, "delete"},
		{"CH-9 field without a field", kindField, ChangeOptions{}, false, "create update delete resume"},
		{"CH-100 resuming", kindResume, ChangeOptions{}, true, "update resume"},
		{"CH-100 resuming of deleted objects", kindResume, ChangeOptions{IncludeDeleted: true}, true, "update delete resume"},
		{"CH-100 not initial", kindResume, ChangeOptions{IncludeDeleted: true}, false, ""},
		{"CH-101 never with creations", kindResume, ChangeOptions{}, true, "update resume"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := mustChange(t, tt.kind, "", tt.options)
			var all []string
			for _, reason := range []Reason{ReasonCreate, ReasonUpdate, ReasonDelete, ReasonResume, reasonNoop, Reason(decision.Free), Reason(decision.Gone)} {
				if h.matches(cause(t, reason, `{}`, `{}`), tt.initial) {
					all = append(all, string(reason))
				}
			}
			if got := strings.Join(all, " "); got != tt.want {
				t.Errorf("called for %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEventFilters(t *testing.T) {
	r := &Registry{}
	err := r.onEvent("things", noEvent, &EventOptions{ID: "e", Field: "status.x", Value: 1, Labels: Match{"a": Present},
		When: func(e *WatchEvent) bool { return e.Type != Deleted }})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		kind EventType
		body string
		want bool
	}{
		{"CH-46 fits", Added, `{"metadata":{"labels":{"a":""}},"status":{"x":1.0}}`, true},
		{"CH-46 another value", Added, `{"metadata":{"labels":{"a":""}},"status":{"x":2}}`, false},
		{"CH-46 another label", Added, `{"status":{"x":1}}`, false},
		{"CH-46 another event", Deleted, `{"metadata":{"labels":{"a":""}},"status":{"x":1}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &WatchEvent{Object: Object{Body: mustBody(t, tt.body), Logger: slog.New(slog.DiscardHandler)}, Type: tt.kind}
			if got := r.handlers[0].matchesEvent(e, nil); got != tt.want {
				t.Errorf("matches: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestCombinators(t *testing.T) {
	yes, no := func(*Change) bool { return true }, func(*Change) bool { return false }
	never := func(*Change) bool { t.Error("the rest was looked at"); return true }
	for name, tt := range map[string]struct {
		f    func(*Change) bool
		want bool
	}{
		"Not": {Not(no), true}, "Not of true": {Not(yes), false},
		"All": {All(yes, yes), true}, "All but one": {All(yes, no, never), false}, "All of none": {All[Change](), true},
		"Any": {Any(no, yes, never), true}, "Any of false ones": {Any(no, no), false}, "Any of none": {Any[Change](), false},
		"None": {None(no, no), true}, "None but one": {None(no, yes, never), false}, "None of none": {None[Change](), true},
	} {
		t.Run("CH-53 "+name, func(t *testing.T) {
			if got := tt.f(&Change{}); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
	t.Run("CH-53 of values", func(t *testing.T) {
		big := func(v *FieldValue) bool { return v.Present }
		h := mustChange(t, kindCreate, "spec.x", ChangeOptions{Value: All(big, Not(big))})
		if h.matches(cause(t, ReasonCreate, "", `{"spec":{"x":1}}`), false) {
			t.Error("both a predicate and its contrary were true")
		}
	})
}

func TestPredicatePanics(t *testing.T) {
	h := mustChange(t, kindCreate, "", ChangeOptions{ID: "careless", When: func(*Change) bool { panic("oh no") }})
	t.Run("CH-T48 logged once for a handler, and no match", func(t *testing.T) {
		var log bytes.Buffer
		for range 3 {
			c := cause(t, ReasonCreate, "", `{}`)
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if h.matches(c, false) || h.preMatches(c) {
				t.Error("a filter that panics has let the object in")
			}
		}
		if got := strings.Count(log.String(), "\n"); got != 1 || !strings.Contains(log.String(), "careless") || !strings.Contains(log.String(), "oh no") {
			t.Errorf("got %d lines of log, want one that names the handler and the panic:\n%s", got, log.String())
		}
	})
}
