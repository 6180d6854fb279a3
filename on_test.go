package kopf

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestOptionErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind handlerKind
		opts ChangeOptions
		want string // words of the error, "" for none
	}{
		{"CH-7 value without a field", kindUpdate, ChangeOptions{Value: 1}, "Field"},
		{"CH-7 old without a field", kindUpdate, ChangeOptions{Old: 1}, "Field"},
		{"CH-7 new without a field", kindUpdate, ChangeOptions{New: Absent}, "Field"},
		{"CH-7 value and old", kindUpdate, ChangeOptions{Field: "a", Value: 1, Old: 1}, "Value combined"},
		{"CH-7 value and new", kindUpdate, ChangeOptions{Field: "a", Value: 1, New: 1}, "Value combined"},
		{"CH-7 a label that is nil", kindUpdate, ChangeOptions{Labels: Match{"a": nil}}, "label \"a\" Present Absent"},
		{"CH-7 an annotation that is nil", kindUpdate, ChangeOptions{Annotations: Match{"a": nil}}, "annotation \"a\" Present Absent"},
		{"CH-7 a label with a key that no object has", kindUpdate, ChangeOptions{Labels: Match{"a b": "x"}}, "label \"a b\" key example.com/app"},
		{"CH-7 an annotation with a key that no object has", kindUpdate, ChangeOptions{Annotations: Match{"a/b/c": Present}}, "annotation \"a/b/c\" key"},
		{"CH-7 an annotation with an upper-case prefix", kindUpdate, ChangeOptions{Annotations: Match{"Example.com/x": Present}}, ""},
		{"CH-42 a label that is no text", kindUpdate, ChangeOptions{Labels: Match{"a": 1}}, "label \"a\" string"},
		{"CH-45 a function of another form", kindUpdate, ChangeOptions{Field: "a", Value: func(any) bool { return true }}, "Value func(*kopf.FieldValue) bool"},
		{"CH-45 a predicate that is nil", kindUpdate, ChangeOptions{Field: "a", Value: (func(*FieldValue) bool)(nil)}, "Value nil"},
		{"CH-42 a predicate that is nil", kindUpdate, ChangeOptions{Labels: Match{"a": (func(*FieldValue) bool)(nil)}}, "label \"a\""},
		{"CH-3 old of a creation", kindCreate, ChangeOptions{Field: "a", Old: 1}, "Old OnCreate"},
		{"CH-3 new of a deletion", kindDelete, ChangeOptions{Field: "a", New: 1}, "New OnDelete"},
		{"CH-3 old of a resuming", kindResume, ChangeOptions{Field: "a", Old: 1}, "Old OnResume"},
		{"CH-3 old and new of an update", kindUpdate, ChangeOptions{Field: "a", Old: 1, New: Absent}, ""},
		{"CH-3 an optional update", kindUpdate, ChangeOptions{WithoutFinalizer: true}, "WithoutFinalizer OnDelete"},
		{"CH-10 an optional deletion", kindDelete, ChangeOptions{WithoutFinalizer: true}, ""},
		{"CH-3 a deletion of deleted", kindDelete, ChangeOptions{IncludeDeleted: true}, "Deleted OnResume"},
		{"CH-3 a resuming of deleted", kindResume, ChangeOptions{IncludeDeleted: true}, ""},
		{"CH-2 a field with a dot before it", kindCreate, ChangeOptions{Field: ".spec.size"}, `".spec.size" empty key`},
		{"CH-2 a field with two dots", kindCreate, ChangeOptions{Field: "spec..size"}, `"spec..size" empty key`},
		{"CH-2 a negative timeout", kindCreate, ChangeOptions{Timeout: -1}, "Timeout negative"},
		{"CH-2 negative retries", kindCreate, ChangeOptions{Retries: -1}, "Retries -1 negative"},
		{"CH-2 a negative backoff", kindCreate, ChangeOptions{Backoff: -1}, "Backoff negative"},
		{"CH-2 a timeout without a unit", kindCreate, ChangeOptions{Timeout: 5}, "Timeout 5ns: want at least 1ms (did you mean 5*time.Second?)"},
		{"CH-2 a backoff without a unit", kindCreate, ChangeOptions{Backoff: 5}, "Backoff 5ns: want at least 1ms (did you mean 5*time.Second?)"},
		{"CH-2 an unknown mode", kindCreate, ChangeOptions{Errors: 7}, "Errors 7"},
		{"CH-T30 all metadata", kindUpdate, ChangeOptions{Field: "metadata"}, "metadata"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.ID = "x"
			err := (&Registry{}).onChange(tt.kind, "things", "", noChange, &tt.opts)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("no error, want one with %q", tt.want)
			}
			for _, word := range strings.Fields(tt.want) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error %q does not tell of %q", err, word)
				}
			}
		})
	}
	t.Run("CH-T30 all metadata of an event", func(t *testing.T) {
		if (&Registry{}).onEvent("things", noEvent, &EventOptions{Field: "metadata"}) == nil {
			t.Error("no error")
		}
	})
	t.Run("CH-29 a bad selector", func(t *testing.T) {
		if (&Registry{}).onChange(kindCreate, "", "", noChange, nil) == nil {
			t.Error("no error")
		}
	})
	t.Run("CH-8 two fields", func(t *testing.T) {
		if (&Registry{}).onChange(kindField, "things", "spec.a", noChange, &ChangeOptions{Field: "spec.b"}) == nil {
			t.Error("no error")
		}
	})
}

// TestTimerIntervals checks that a number without a unit, which would be nanoseconds, is rejected.
func TestTimerIntervals(t *testing.T) {
	for _, tt := range []struct {
		interval time.Duration
		want     string // "" for no error
	}{
		{10, "invalid option Interval 10ns: want at least 1ms (did you mean 10*time.Second?)"},
		{time.Millisecond - 1, "invalid option Interval 999.999µs: want at least 1ms"},
		{-1, "invalid option Interval -1ns: want no negative duration"},
		{0, ""},
		{time.Millisecond, ""},
	} {
		err := (&Registry{}).onTimer("things", func(context.Context, *Timer) error { return nil }, &TimerOptions{ID: "x", Interval: tt.interval})
		if got := fmt.Sprint(err); tt.want != "" && got != tt.want || tt.want == "" && err != nil {
			t.Errorf("%s: got %v, want %q", tt.interval, err, tt.want)
		}
	}
}

// TestFieldManagers checks that a field manager that each apply would fail with is rejected.
func TestFieldManagers(t *testing.T) {
	for manager, want := range map[string]string{
		"me":                     "",
		"a b\n":                  `invalid option Manager "a b\n": want at most 128 bytes, and printable characters only`,
		strings.Repeat("x", 129): "want at most 128 bytes",
	} {
		call := func(context.Context, *Reconcile) error { return nil }
		err := (&Registry{}).onReconcile("things", call, &ReconcileOptions{ID: "x", Manager: manager})
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: got %v, want %q", manager, err, want)
		}
	}
}

func TestOptionsOfHandlers(t *testing.T) {
	labels := Match{"a": "1"}
	opts := ChangeOptions{ID: "x", Param: 7, Errors: ErrorsPermanent, Timeout: time.Hour, Retries: 3, Backoff: time.Second, Labels: labels, Field: "spec.a", Value: []int{1}}
	before := opts
	r := &Registry{}
	r.OnUpdate("things", noChange, &opts)
	h := r.handlers[0]
	t.Run("CH-2 are kept", func(t *testing.T) {
		got := []any{h.param, h.retry.errors, h.retry.timeout, h.retry.retries, h.retry.backoff, strings.Join(h.field, " ")}
		if diff := cmp.Diff([]any{7, ErrorsPermanent, time.Hour, 3, time.Second, "spec a"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	if diff := cmp.Diff(before, opts, cmpopts.EquateComparable()); diff != "" {
		t.Errorf("the options were changed (-want +got)\n%s", diff)
	}
	labels["a"] = "2"
	opts.Value.([]int)[0] = 2
	c := cause(t, ReasonUpdate, `{"metadata":{"labels":{"a":"1"}},"spec":{}}`, `{"metadata":{"labels":{"a":"1"}},"spec":{"a":[1]}}`)
	if !h.matches(c, false) {
		t.Error("the handler is changed by what became of its options afterwards")
	}
	t.Run("CH-2 default to nothing", func(t *testing.T) {
		h := mustChange(t, kindCreate, "", ChangeOptions{})
		if h.retry.errors != ErrorsTemporary || h.retry.timeout != 0 || h.retry.retries != 0 || h.retry.backoff != 0 || h.param != nil || h.changes.optional {
			t.Errorf("got %+v", h)
		}
	})
	t.Run("CH-117 errors of raw events are ignored", func(t *testing.T) {
		r := &Registry{}
		r.OnEvent("things", noEvent, nil)
		if got := r.handlers[0].retry.errors; got != ErrorsIgnored {
			t.Errorf("got %v", got)
		}
	})
}

func TestRegistrationPanics(t *testing.T) {
	r := &Registry{}
	r.OnCreate("things", noChange, &ChangeOptions{ID: "x"})
	defer func() {
		text := fmt.Sprint(recover())
		if !strings.Contains(text, "OnCreate at ") || !strings.Contains(text, "registered at ") || !strings.Contains(text, `"x"`) {
			t.Errorf("the panic %q does not tell both places and the id", text)
		}
	}()
	r.OnCreate("things", otherChange, &ChangeOptions{ID: "x"})
}

func TestDefaultRegistry(t *testing.T) {
	before := DefaultRegistry()
	defer SetDefaultRegistry(before)
	own := &Registry{}
	SetDefaultRegistry(own)
	OnEvent("things", noEvent, nil)
	OnCreate("things", noChange, nil)
	OnUpdate("things", noChange, nil)
	OnDelete("things", noChange, nil)
	OnResume("things", noChange, nil)
	OnField("things", "spec.x", noChange, nil)
	OnStartup(noActivity, nil)
	OnCleanup(noActivity, nil)
	OnLogin(func(context.Context, *Login) (*ConnectionInfo, error) { return nil, nil }, &ActivityOptions{ID: "login"})
	var kinds []handlerKind
	for _, h := range own.handlers {
		kinds = append(kinds, h.kind)
	}
	t.Run("CH-1 kinds of handlers", func(t *testing.T) {
		want := []handlerKind{kindEvent, kindCreate, kindUpdate, kindDelete, kindResume, kindField, kindStartup, kindCleanup, kindLogin}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	SetDefaultRegistry(nil)
	if DefaultRegistry() == nil {
		t.Error("no default registry")
	}
}

// TestAnonymousFunctions checks that the panic about a function without a name says why it needs an ID.
func TestAnonymousFunctions(t *testing.T) {
	for want, register := range map[string]func(r *Registry){
		"ids are stored on the objects: give the handler an ID": func(r *Registry) {
			r.OnCreate("pods", func(context.Context, *Change) error { return nil }, nil)
		},
		"ids are in the paths that webhooks are served at: give the handler an ID": func(r *Registry) {
			r.OnValidate("pods", func(context.Context, *Admission) error { return nil }, nil)
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got the panic %s, want %s", got, want)
				}
			}()
			register(&Registry{})
		}()
	}
}
