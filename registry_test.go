package kopf

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/discovery"
)

func noChange(context.Context, *Change) error                  { return nil }
func otherChange(context.Context, *Change) error               { return nil }
func noEvent(context.Context, *WatchEvent) error               { return nil }
func noActivity(context.Context, *Activity) error              { return nil }
func otherActivity(context.Context, *Activity) error           { return nil }
func noLogin(context.Context, *Login) (*ConnectionInfo, error) { return nil, nil }
func create_fn(context.Context, *Change) error                 { return nil }
func update_fn(context.Context, *Change) error                 { return nil }
func sub(context.Context, *Change) error                       { return nil }
func fn(context.Context, *Change) error                        { return nil }
func genericChange[T any](context.Context, *Change) error      { return nil }
func genericMaker[T any]() ChangeFunc                          { return func(context.Context, *Change) error { return nil } }

type controller struct{}

func (controller) create(context.Context, *Change) error  { return nil }
func (*controller) update(context.Context, *Change) error { return nil }

type genericController[T any] struct{}

func (*genericController[T]) create(context.Context, *Change) error { return nil }
func (*genericController[T]) update(context.Context, *Change) error { return nil }

func TestHandlerIDs(t *testing.T) {
	for _, r := range golden[struct {
		Decorator, Function, Parent, ID string
		Option                          HandlerID `json:"id_option"`
		Field                           json.RawMessage
	}](t, "handler_ids") {
		id, field := "CH-11", FieldPath("")
		if keys := []string(nil); json.Unmarshal(r.Field, &keys) == nil {
			field = Path(keys...)
		} else if err := json.Unmarshal(r.Field, &field); err != nil && len(r.Field) > 0 {
			t.Fatal(err)
		}
		function := map[string]ChangeFunc{"create_fn": create_fn, "update_fn": update_fn, "fn": fn, "sub": sub}[r.Function]
		if function == nil { // a nested function, whose name the Go compiler makes
			function, r.Option = fn, HandlerID(r.Function)
		}
		var h *handler
		var err error
		switch g := (&Registry{}); r.Decorator {
		case "subhandler":
			id = "CH-12"
			h, err = newSubhandler(&handler{id: HandlerID(r.Parent), kind: kindCreate}, ReasonCreate, r.Option, function, nil)
		case "event":
			h, err = registered(g, g.onEvent("things", EventFunc(func(context.Context, *WatchEvent) error { return nil }), &EventOptions{ID: HandlerID(r.Function), Field: field}))
		case "field":
			h, err = registered(g, g.onChange(kindField, "things", field, function, &ChangeOptions{ID: r.Option}))
		default:
			kind := map[string]handlerKind{"create": kindCreate, "update": kindUpdate}[r.Decorator]
			h, err = registered(g, g.onChange(kind, "things", "", function, &ChangeOptions{ID: r.Option, Field: field}))
		}
		t.Run(id+" golden: "+r.ID, func(t *testing.T) {
			if err != nil {
				t.Fatal(err)
			}
			if string(h.id) != r.ID {
				t.Errorf("got %q, want %q", h.id, r.ID)
			}
		})
	}
}

func registered(r *Registry, err error) (*handler, error) {
	if err != nil {
		return nil, err
	}
	return r.handlers[len(r.handlers)-1], nil
}

func TestFunctionIDs(t *testing.T) {
	inner := func(context.Context, *Change) error { return nil }
	for _, tt := range []struct {
		name string
		fn   ChangeFunc
		want string // "" for an error
	}{
		{"a function", noChange, "noChange"},
		{"a method of a value", controller{}.create, "controller.create"},
		{"a method of a pointer", (&controller{}).update, "controller.update"},
		{"a function of a type parameter", genericChange[int], "genericChange"},
		{"a method of a generic type", (&genericController[int]{}).create, "genericController.create"},
		{"another method of a generic type", (&genericController[int]{}).update, "genericController.update"},
		{"an anonymous function", inner, ""},
		{"an anonymous function of a generic one", genericMaker[int](), ""},
		{"no function", nil, ""},
	} {
		t.Run("CH-15 "+tt.name, func(t *testing.T) {
			r := &Registry{}
			h, err := registered(r, r.onChange(kindCreate, "things", "", tt.fn, nil))
			switch {
			case tt.want == "" && err == nil:
				t.Errorf("the id is %q, want an error", h.id)
			case tt.want != "" && (err != nil || string(h.id) != tt.want):
				t.Errorf("got %+v, %v, want %q", h, err, tt.want)
			}
		})
	}
}

func TestIDValidation(t *testing.T) {
	for id, good := range map[HandlerID]bool{
		"a": true, "A9": true, "a/b.c-d_e": true, "outer.<locals>.inner": true, HandlerID(strings.Repeat("x", 300)): true,
		"with space": false, "lambda:x.py:1": false, "ключ": false, "-a": false, "a-": false, ".a": false, "a.": false, "a/": false, "/a": false,
		"_a": false, "a_": false, "<a": false, "a>": false, "a\n": false,
	} {
		t.Run(fmt.Sprintf("CH-T29 %q", id), func(t *testing.T) {
			err := (&Registry{}).onChange(kindCreate, "things", "", noChange, &ChangeOptions{ID: id})
			if (err == nil) != good {
				t.Errorf("%q: %v, want it good: %t", id, err, good)
			}
		})
	}
}

type sized struct{ n int }

func (s sized) create(_ context.Context, c *Change) error { c.SetResult(s.n); return nil }
func (s *sized) update(context.Context, *Change) error    { s.n++; return nil }

type genericSized[T any] struct{ v T }

func (g *genericSized[T]) update(context.Context, *Change) error { var zero T; g.v = zero; return nil }

func closure(n int) ChangeFunc {
	return func(context.Context, *Change) error { n++; return nil }
}

func TestConflicts(t *testing.T) {
	here, there, closed := &sized{1}, &sized{1}, closure(1)
	valued := ChangeFunc(here.create)
	type one struct {
		kind     handlerKind
		selector Selector
		id       HandlerID
		fn       ChangeFunc
	}
	for _, tt := range []struct {
		name          string
		first, second one
		good          bool
	}{
		{"CH-T11 one id for two functions", one{kindCreate, "a", "x", noChange}, one{kindCreate, "a", "x", otherChange}, false},
		{"CH-T11 ids that are stored alike", one{kindCreate, "a", "x/y", noChange}, one{kindCreate, "a", "x.y", otherChange}, false},
		{"CH-T11 ids that are stored alike, for two kinds", one{kindCreate, "a", "x<y", noChange}, one{kindUpdate, "a", "x_y", otherChange}, false},
		{"CH-T11 ids whose first 56 characters and hashes are the same", one{kindCreate, "a", HandlerID(strings.Repeat("x", 60) + "/024583"), noChange}, one{kindCreate, "a", HandlerID(strings.Repeat("x", 60) + "/120994"), otherChange}, false},
		{"CH-T11 ids that are stored alike in the first version", one{kindCreate, "a", HandlerID(strings.Repeat("y", 41) + "/000611"), noChange}, one{kindCreate, "a", HandlerID(strings.Repeat("y", 41) + "/178020"), otherChange}, false},
		{"CH-T11 an id that another one is shortened to", one{kindCreate, "a", HandlerID(strings.Repeat("x", 60) + "/024583"), noChange}, one{kindCreate, "a", HandlerID(strings.Repeat("x", 56) + "-EK84CQ"), otherChange}, false},
		{"CH-5 ids that are shortened otherwise", one{kindCreate, "a", HandlerID(strings.Repeat("x", 60) + "/024583"), noChange}, one{kindCreate, "a", HandlerID(strings.Repeat("x", 60) + "/024584"), otherChange}, true},
		{"CH-14 two closures of one literal", one{kindCreate, "a", "x", closure(1)}, one{kindCreate, "a", "x", closure(2)}, false},
		{"CH-14 one closure twice", one{kindUpdate, "a", "x", closed}, one{kindResume, "a", "x", closed}, true},
		{"CH-14 a method of two receivers", one{kindCreate, "a", "x", here.update}, one{kindCreate, "a", "x", there.update}, false},
		{"CH-14 a method of one receiver, named twice", one{kindUpdate, "a", "x", here.update}, one{kindResume, "a", "x", here.update}, true},
		{"CH-14 a promoted method of one receiver", one{kindUpdate, "a", "x", here.update}, one{kindResume, "a", "x", struct{ *sized }{here}.update}, true},
		{"CH-14 a method of two generic receivers", one{kindCreate, "a", "x", new(genericSized[int]).update}, one{kindCreate, "a", "x", new(genericSized[int]).update}, false},
		{"CH-14 a method of a value, named twice", one{kindUpdate, "a", "x", here.create}, one{kindResume, "a", "x", here.create}, false},
		{"CH-14 a method of a value in a variable", one{kindUpdate, "a", "x", valued}, one{kindResume, "a", "x", valued}, true},
		{"CH-14 a generic function twice", one{kindUpdate, "a", "x", genericChange[int]}, one{kindResume, "a", "x", genericChange[int]}, true},
		{"CH-14 two closures under two ids", one{kindCreate, "a", "x", closure(1)}, one{kindCreate, "a", "y", closure(2)}, true},
		{"CH-T11 ids of one function that are stored alike", one{kindCreate, "a", "x/y", noChange}, one{kindCreate, "a", "x.y", noChange}, false},
		{"CH-T11 one cause for a creation and a field", one{kindCreate, "a", "x", noChange}, one{kindField, "a", "x", otherChange}, false},
		{"CH-T11 one cause for an update and a resuming", one{kindUpdate, "a", "x", noChange}, one{kindResume, "a", "x", otherChange}, false},
		{"CH-T11 one cause for a resuming and an update", one{kindResume, "a", "x", noChange}, one{kindUpdate, "a", "x", otherChange}, false},
		{"CH-5 two functions for causes that never meet", one{kindCreate, "a", "x", noChange}, one{kindResume, "a", "x", otherChange}, true},
		{"CH-5 one id created and deleted", one{kindCreate, "a", "x", noChange}, one{kindDelete, "a", "x", otherChange}, true},
		{"CH-5 one function for two kinds", one{kindCreate, "a", "x", noChange}, one{kindResume, "a", "x", noChange}, true},
		{"CH-5 one function twice", one{kindCreate, "a", "x", noChange}, one{kindCreate, "a", "x", noChange}, true},
		{"CH-5 one id for two selectors", one{kindCreate, "a", "x", noChange}, one{kindCreate, "b", "x", otherChange}, true},
		{"CH-5 two ids", one{kindCreate, "a", "x", noChange}, one{kindCreate, "a", "y", otherChange}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Registry{}
			if err := r.onChange(tt.first.kind, tt.first.selector, "", tt.first.fn, &ChangeOptions{ID: tt.first.id}); err != nil {
				t.Fatal(err)
			}
			err := r.onChange(tt.second.kind, tt.second.selector, "", tt.second.fn, &ChangeOptions{ID: tt.second.id})
			if (err == nil) != tt.good {
				t.Fatalf("got %v, want it good: %t", err, tt.good)
			}
			if err != nil {
				for _, word := range []string{r.handlers[0].registered.where, strconv.Quote(string(tt.first.id)), strconv.Quote(string(tt.second.id)), "ID"} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%v: want %s", err, word)
					}
				}
			}
			if want := map[bool]int{true: 2, false: 1}[tt.good]; len(r.handlers) != want {
				t.Errorf("%d handlers are registered, want %d", len(r.handlers), want)
			}
		})
	}
}

func TestSubhandlers(t *testing.T) {
	update, creation := &handler{id: "up", kind: kindUpdate, changes: changeSpec{needsChange: true}}, &handler{id: "cr", kind: kindCreate}
	child, err := newSubhandler(update, ReasonUpdate, "child", noChange, &ChangeOptions{Field: "spec.x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		parent *handler
		id     HandlerID
		opts   *ChangeOptions
		want   string // "" for an error
	}{
		{"CH-12 a given id", creation, "a", nil, "cr/a"},
		{"CH-12 the name of the function", creation, "", nil, "cr/noChange"},
		{"CH-12 a field is not a part of it", creation, "a", &ChangeOptions{Field: "spec.x"}, "cr/a"},
		{"CH-12 recursively", child, "b", nil, "up/child/b"},
		{"CH-50 in an update", update, "a", &ChangeOptions{Field: "spec.x", Old: 1}, "up/a"},
		{"CH-50 in a creation", creation, "a", &ChangeOptions{Field: "spec.x", Old: 1}, ""},
		{"CH-50 below an update", child, "b", &ChangeOptions{Field: "spec.x", New: 1}, "up/child/b"},
		{"CH-7 without a field", update, "a", &ChangeOptions{Old: 1}, ""},
		{"CH-3 optional", creation, "a", &ChangeOptions{WithoutFinalizer: true}, ""},
		{"CH-3 resources", creation, "a", &ChangeOptions{Where: func(Resource) bool { return true }}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := newSubhandler(tt.parent, ReasonCreate, tt.id, noChange, tt.opts)
			if tt.want == "" && err == nil || tt.want != "" && (err != nil || string(h.id) != tt.want) {
				t.Errorf("got %+v, %v, want %q", h, err, tt.want)
			}
		})
	}
	t.Run("CH-50 a difference is wanted as by the parent", func(t *testing.T) {
		same := cause(t, ReasonUpdate, `{"spec":{"x":1}}`, `{"spec":{"x":1}}`)
		if child.matches(same, false) {
			t.Error("the field has not changed, and the sub-handler of an update is called")
		}
		of, err := newSubhandler(creation, ReasonCreate, "a", noChange, &ChangeOptions{Field: "spec.x"})
		if err != nil || !of.matches(same, false) {
			t.Errorf("the sub-handler of a creation is not called: %v", err)
		}
		below, err := newSubhandler(mustSub(t, update), ReasonUpdate, "b", noChange, &ChangeOptions{Field: "spec.x"})
		if err != nil || below.matches(same, false) {
			t.Errorf("a sub-handler of a sub-handler of an update is called without a difference: %v", err)
		}
	})
}

// mustSub makes a sub-handler without a field.
func mustSub(t *testing.T, parent *handler) *handler {
	t.Helper()
	h, err := newSubhandler(parent, ReasonUpdate, "plain", noChange, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestSelectHandlers(t *testing.T) {
	r := &Registry{}
	add := func(kind handlerKind, id HandlerID, fn ChangeFunc, param any) {
		t.Helper()
		if err := r.onChange(kind, "a", "", fn, &ChangeOptions{ID: id, Param: param}); err != nil {
			t.Fatal(err)
		}
	}
	add(kindField, "f", noChange, 0)
	add(kindUpdate, "x", noChange, 1)
	add(kindCreate, "c", otherChange, 2)
	add(kindResume, "x", noChange, 3)
	add(kindUpdate, "y", noChange, 4)
	add(kindUpdate, "z", otherChange, 5)
	var got []any
	for _, h := range selectHandlers(r.handlers, cause(t, ReasonUpdate, `{"a":1}`, `{"a":2}`), true) {
		got = append(got, h.param)
	}
	for _, id := range []string{"CH-6 in order of declaration", "CH-14 a function once under one id"} {
		t.Run(id, func(t *testing.T) {
			if diff := cmp.Diff([]any{0, 1, 4, 5}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// kind returns a resource with all verbs.
func kind(name string, verbs ...string) discovery.Resource {
	spec, _ := Selector(name).spec(nil)
	if verbs == nil {
		verbs = []string{"list", "watch", "patch"}
	}
	return discovery.Resource{Group: spec.Group, Version: spec.Version, Plural: spec.Name, Verbs: verbs, Preferred: true}
}

func TestResolve(t *testing.T) {
	change := func(s Selector) func(*Registry) {
		return func(g *Registry) { _ = g.onChange(kindCreate, s, "", noChange, &ChangeOptions{ID: "c"}) }
	}
	event := func(s Selector) func(*Registry) {
		return func(g *Registry) { _ = g.onEvent(s, noEvent, nil) }
	}
	pods, metrics := kind("pods.v1"), kind("pods.v1.metrics.k8s.io")
	one, two := kind("things.v1.one.dev"), kind("things.v1.two.dev")
	for _, tt := range []struct {
		name     string
		handlers []func(*Registry)
		found    []discovery.Resource
		want     string   // resource: events+changes
		warned   []string // words of the warnings, one text for each
	}{
		{"CH-27 the core group goes first", []func(*Registry){change("pods")}, []discovery.Resource{metrics, pods}, "pods.v1:0+1", nil},
		{"CH-T19 and also when others are for the rest", []func(*Registry){change("pods"), change("pods.metrics.k8s.io")}, []discovery.Resource{metrics, pods}, "pods.v1:0+1 pods.v1.metrics.k8s.io:0+1", nil},
		{"CH-27 the core group goes first, whatever else is asked of it", []func(*Registry){func(g *Registry) {
			_ = g.onEvent("pods", noEvent, &EventOptions{Where: func(r Resource) bool { return r.Plural == "pods" }})
		}}, []discovery.Resource{metrics, pods}, "pods.v1:1+0", nil},
		{"CH-24 a predicate against the core group", []func(*Registry){func(g *Registry) {
			_ = g.onEvent("pods", noEvent, &EventOptions{Where: func(r Resource) bool { return r.Group != "" }})
		}}, []discovery.Resource{metrics, pods}, "pods.v1.metrics.k8s.io:1+0", nil},
		{"CH-24 a predicate alone prefers nothing", []func(*Registry){func(g *Registry) {
			_ = g.onEvent("", noEvent, &EventOptions{Where: func(r Resource) bool { return r.Plural == "pods" }})
		}}, []discovery.Resource{metrics, pods}, "pods.v1:1+0 pods.v1.metrics.k8s.io:1+0", nil},
		{"CH-T11 one id for two functions by two selectors", []func(*Registry){change("things"), func(g *Registry) {
			_ = g.onChange(kindCreate, "things.one.dev", "", otherChange, &ChangeOptions{ID: "c"})
		}, change("things.v1.one.dev")}, []discovery.Resource{one}, "things.v1.one.dev:0+2", []string{"testing.go \"c\" things.v1.one.dev"}},
		{"CH-26 everything is many", []func(*Registry){event(Everything)}, []discovery.Resource{one, two, pods}, "pods.v1:1+0 things.v1.one.dev:1+0 things.v1.two.dev:1+0", nil},
		{"CH-37 ambiguous", []func(*Registry){change("things")}, []discovery.Resource{one, two}, "", []string{"things things.v1.one.dev things.v1.two.dev group"}},
		{"CH-T19 ambiguity is of the selector alone", []func(*Registry){change("things"), change("things.one.dev")}, []discovery.Resource{one, two}, "things.v1.one.dev:0+1", []string{"things.v1.two.dev"}},
		{"CH-38 unresolved", []func(*Registry){change("ghosts"), change("things")}, []discovery.Resource{one}, "things.v1.one.dev:0+1", []string{"ghosts"}},
		{"CH-38 told once", []func(*Registry){change("ghosts"), event("ghosts")}, nil, "", []string{"ghosts"}},
		{"CH-39 not watchable", []func(*Registry){event("things")}, []discovery.Resource{kind("things.v1.one.dev", "list", "patch")}, "", []string{"things.v1.one.dev"}},
		{"CH-39 not listable", []func(*Registry){event("things")}, []discovery.Resource{kind("things.v1.one.dev", "watch", "patch")}, "", []string{"things.v1.one.dev"}},
		{"CH-40 not patchable", []func(*Registry){change("things")}, []discovery.Resource{kind("things.v1.one.dev", "list", "watch")}, "", []string{"things.v1.one.dev"}},
		{"CH-40 events need no patches", []func(*Registry){event("things")}, []discovery.Resource{kind("things.v1.one.dev", "list", "watch")}, "things.v1.one.dev:1+0", nil},
		{"AC-T14 one handler that cannot does not hinder others", []func(*Registry){change("things"), event("things"), event("pods")}, []discovery.Resource{kind("things.v1.one.dev", "list", "watch"), kind("pods.v1", "list", "watch")}, "pods.v1:1+0 things.v1.one.dev:1+0", []string{"things.v1.one.dev"}},
		{"CH-39 both lacks are told", []func(*Registry){change(Everything)}, []discovery.Resource{kind("x.v1.a", "list"), kind("y.v1.a", "list", "watch")}, "", []string{"x.v1.a", "y.v1.a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &Registry{}
			for _, register := range tt.handlers {
				register(g)
			}
			served, warnings := g.resolve(slices.Clone(tt.found), nil)
			var all []string
			for _, name := range slices.Sorted(maps.Keys(served)) {
				all = append(all, fmt.Sprintf("%s:%d+%d", name, len(served[name].events), len(served[name].changes)))
			}
			if got := strings.Join(all, " "); got != tt.want {
				t.Errorf("served %q, want %q", got, tt.want)
			}
			if len(warnings) != len(tt.warned) {
				t.Fatalf("got the warnings %q, want %d", warnings, len(tt.warned))
			}
			for i, words := range tt.warned {
				for _, word := range strings.Fields(words) {
					if !strings.Contains(warnings[i], word) {
						t.Errorf("the warning %q does not tell of %q", warnings[i], word)
					}
				}
			}
			again, rest := g.resolve(slices.Clone(tt.found), nil)
			if len(again) != len(served) || !slices.Equal(rest, warnings) {
				t.Error("another resolution tells other things")
			}
		})
	}
}

func TestResolveMends(t *testing.T) {
	r := &Registry{}
	_ = r.onChange(kindCreate, "things", "", noChange, nil)
	one, two := kind("things.v1.one.dev"), kind("things.v1.two.dev")
	if served, _ := r.resolve([]discovery.Resource{one, two}, nil); len(served) != 0 {
		t.Fatal("an ambiguous selector is served")
	}
	t.Run("AC-T14 ambiguity ends with the namesake", func(t *testing.T) {
		if served, warnings := r.resolve([]discovery.Resource{one}, nil); served[one.Name()] == nil || len(warnings) != 0 {
			t.Errorf("got %v, %q", served, warnings)
		}
	})
}

func TestResolveWithPanics(t *testing.T) {
	g := &Registry{}
	_ = g.onChange(kindCreate, "", "", noChange, &ChangeOptions{ID: "careless", Where: func(r Resource) bool { panic("oh no") }})
	_ = g.onChange(kindCreate, "things", "", otherChange, nil)
	t.Run("CH-T48 a predicate for resources hinders no other handler", func(t *testing.T) {
		served, warnings := g.resolve([]discovery.Resource{kind("things.v1.one.dev"), kind("others.v1.one.dev")}, nil)
		if what := served["things.v1.one.dev"]; len(served) != 1 || what == nil || len(what.changes) != 1 {
			t.Errorf("served %v", served)
		}
		if text := strings.Join(warnings, "\n"); strings.Count(text, "oh no") != 1 || !strings.Contains(text, "careless") {
			t.Errorf("got the warnings %q, want one of the panic, with the handler", warnings)
		}
	})
}

func TestResolveFields(t *testing.T) {
	r := &Registry{}
	_ = r.onChange(kindCreate, "things", "", noChange, &ChangeOptions{ID: "a", Field: "status.x", Labels: Match{"never": "fits"}})
	_ = r.onChange(kindField, "things", "spec.y", noChange, &ChangeOptions{ID: "b"})
	_ = r.onChange(kindUpdate, "things", "", otherChange, &ChangeOptions{ID: "c", Field: "spec.y"})
	_ = r.onEvent("things", noEvent, &EventOptions{ID: "d", Field: Path("metadata", "annotations", "a.b/c")})
	_ = r.onChange(kindCreate, "others", "", noChange, &ChangeOptions{ID: "e", Field: "spec.z"})
	t.Run("CH-78 fields of all handlers of the resource", func(t *testing.T) {
		served, _ := r.resolve([]discovery.Resource{kind("things.v1.one.dev"), kind("others.v1.one.dev")}, nil)
		want := []FieldPath{"status.x", "spec.y", Path("metadata", "annotations", "a.b/c")}
		if diff := cmp.Diff(want, served["things.v1.one.dev"].fields); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestGroups(t *testing.T) {
	for _, tt := range []struct {
		name      string
		selectors []Selector
		want      []string
	}{
		{"CH-32 named", []Selector{"a.x.dev", "v1/pods", "b/v1/c", "d.x.dev"}, []string{"", "b", "x.dev"}},
		{"CH-32 one without", []Selector{"a.x.dev", "pods"}, nil},
		{"CH-32 a version is no group", []Selector{"pods.v1"}, nil},
		{"CH-32 all of a group", []Selector{"*.x.dev"}, []string{"x.dev"}},
		{"CH-32 everything", []Selector{Everything}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Registry{}
			for _, s := range tt.selectors {
				_ = r.onChange(kindCreate, s, "", noChange, nil)
			}
			_ = r.onActivity(kindStartup, noActivity, nil, nil)
			got := r.groups()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestActivities(t *testing.T) {
	r := &Registry{}
	for _, err := range []error{
		r.onActivity(kindStartup, noActivity, nil, nil),
		r.onActivity(kindLogin, nil, noLogin, nil),
		r.onActivity(kindCleanup, noActivity, nil, nil),
		r.onActivity(kindStartup, otherActivity, nil, &ActivityOptions{Param: 1, Errors: ErrorsPermanent, Retries: 2}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := r.activities(kindStartup)
	if len(got) != 2 || got[0].id != "noActivity" || got[1].param != 1 || got[1].retry.errors != ErrorsPermanent || got[1].retry.retries != 2 {
		t.Errorf("got %+v", got)
	}
	if got := r.activities(kindLogin); len(got) != 1 || got[0].activities.login == nil {
		t.Errorf("logins: %+v", got)
	}
}

func TestRegistryOfSeveralGoroutines(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r.OnCreate("things", noChange, &ChangeOptions{ID: HandlerID(fmt.Sprint("h", i))})
			r.resolve(nil, nil)
			r.groups()
		})
	}
	wg.Wait()
	if got := len(r.snapshot()); got != 8 {
		t.Errorf("%d handlers, want 8", got)
	}
}

// TestContentsOfAttempts checks that a run has what the attempts of its start-up handlers have registered, unless they have failed.
func TestContentsOfAttempts(t *testing.T) {
	r := &Registry{}
	run, other := r.forRun(), r.forRun()
	for _, succeeded := range []bool{false, true} {
		end := run.beginAttempt()
		if other.beginAttempt() != nil {
			t.Error("two runs call a start-up handler at the same time")
		}
		r.OnCreate("kopfexamples", noChange, nil)
		r.Needs("pods", "get")
		DefineIn[struct{ Meta }](r, &Definition{Group: "example.com", Version: "v1", Kind: "Thing"})
		end(succeeded)
		for name, c := range map[string]contents{"the operator": r.copied(), "the run": run.copied(), "another run": other.copied()} {
			want := 0
			if succeeded && name == "the run" {
				want = 1
			}
			if len(c.handlers) != want || len(c.needs) != want || len(c.defined) != want {
				t.Errorf("%s has %d handlers, %d needs and %d kinds after an attempt with success %t", name, len(c.handlers), len(c.needs), len(c.defined), succeeded)
			}
		}
	}
	r.OnUpdate("kopfexamples", noChange, nil)
	if n, others := len(run.snapshot()), len(other.snapshot()); n != 2 || others != 1 {
		t.Errorf("the runs have %d and %d handlers", n, others)
	}
}
