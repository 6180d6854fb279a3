package webhookconfig

import (
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/validation"
)

func FuzzHookName(f *testing.F) {
	f.Add("fn/spec.x")
	f.Add("_a//b__")
	f.Add("Größe")
	f.Fuzz(func(t *testing.T, id string) {
		name := Labels(id)
		for label := range strings.SplitSeq(name, ".") {
			if label != "" && len(label) < 64 && !IsDomain(label) {
				t.Errorf("%q becomes %q", id, name)
			}
		}
	})
}

func FuzzServicePath(f *testing.F) {
	f.Add("fn/spec.x")
	f.Add("_a//B__")
	f.Add("validateAll")
	f.Add("mutating:" + strings.Repeat("Größe.", 50))
	f.Add(strings.Repeat("x", 198) + "-.Y")
	f.Fuzz(func(t *testing.T, id string) {
		path := servicePath(id)
		for segment := range strings.SplitSeq(path, "/") {
			if !validation.IsDNSSubdomain(segment) || len(segment) > 253 {
				t.Errorf("%q becomes %q", id, path)
			}
		}
		if again := servicePath(path); len(path) < 64 && again != path {
			t.Errorf("%q becomes %q and then %q", id, path, again)
		}
	})
}

func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		path, id string
		shared   bool
		want     bool
	}{
		{"fn", "fn", false, true},
		{"fn", "fn", true, true}, // both handlers match
		{"mutating:fn", "fn", true, true},
		{"mutating:fn", "fn", false, true},
		{"validating:fn", "fn", true, false},
		{servicePath("Fn"), "Fn", false, true},
		{servicePath("mutating:fn"), "fn", true, true},
		{servicePath("mutating:fn"), "fn", false, false},
		{"", "fn", false, false},
		{"fn/", "fn", false, false},
		{"FN", "fn", false, false},
	} {
		if got := Mutating.IsPath(tt.path, tt.id, tt.shared); got != tt.want {
			t.Errorf("%q is a path of %q, shared %t: %t, want %t", tt.path, tt.id, tt.shared, got, tt.want)
		}
		if path := Mutating.Path(tt.id, tt.shared); !Mutating.IsPath(path, tt.id, tt.shared) || !Mutating.IsPath(servicePath(path), tt.id, tt.shared) {
			t.Errorf("%q is no path of %q, shared %t", path, tt.id, tt.shared)
		}
	}
}

func TestCheckNames(t *testing.T) {
	for _, tt := range []struct {
		name string
		ids  []string
		want string // of the error; "" for none
	}{
		{name: "auto.kopf.dev", ids: []string{"fn", "fn", "fn/spec.x"}},
		{name: "kopf.dev", ids: []string{"fn"}},
		{name: "Kopf", want: `invalid Settings.Admission.Managed "Kopf"`},
		{name: "", want: `invalid Settings.Admission.Managed ""`},
		{name: "auto", ids: []string{"a.b", "fn"}, want: `invalid name "fn.auto" of the webhook of the handler "fn": want at least three parts`},
		{name: "kopf.dev", ids: []string{strings.Repeat("x", 64)}, want: "want at most 253 characters, and 63 in each part"},
	} {
		var hooks []Hook
		for _, id := range tt.ids {
			hooks = append(hooks, Hook{ID: id})
		}
		err := CheckNames(tt.name, nil, hooks)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q of %q: got %v, want %q", tt.ids, tt.name, err, tt.want)
		}
	}
}
