package kopf

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/discovery"
)

// selectorRow is a vector of selectors in Kopf for Python.
type selectorRow struct {
	Args   []string
	Kwargs map[string]string
	Result map[string]any
	Check  []string `json:"check (used at handling time)"`
	Select []string `json:"select (used at discovery time)"`
}

// translate converts a selector of Kopf for Python to a text and perhaps a predicate. Two names, or a predicate together with a name, have no valid
// equivalent here.
func (r selectorRow) translate() (s Selector, where func(Resource) bool, ok bool) {
	args := slices.Clone(r.Args)
	if len(args) > 0 && strings.HasPrefix(args[0], "@callable") {
		where = func(res Resource) bool { return args[0] == "@callable" || res.Plural == "deployments" }
		if len(args) > 1 || r.Kwargs["plural"] != "" {
			return "", nil, false
		}
		r.Args = []string{"*"}
	}
	text := strings.ReplaceAll(strings.Join(r.Args, "/"), "@everything", "*")
	names := 0
	for _, by := range []string{"kind", "category", "plural", "singular"} {
		if name, given := r.Kwargs[by]; given {
			text, names = by+":"+name, names+1
		}
	}
	if names > 1 || names == 1 && len(r.Args) > 0 || slices.Equal(r.Args, []string{"apps/v1"}) {
		return "", nil, false // kopf for Go reads the last one as a group and a name
	}
	for _, part := range []string{"version", "group"} {
		if value := r.Kwargs[part]; value != "" && text != "" {
			text += "." + value
		}
	}
	return Selector(text), where, true
}

// id returns the ID of the row's statement.
func (r selectorRow) id() string {
	switch {
	case r.Result["error"] == "no-name":
		return "CH-29"
	case r.Result["error"] == "empty-name":
		return "CH-30"
	case r.Result["error"] != nil:
		return "CH-31"
	case len(r.Kwargs) > 0:
		return "CH-20"
	}
	return []string{"", "CH-19", "CH-18", "CH-17"}[len(r.Args)]
}

func TestSelectorParsing(t *testing.T) {
	skipped := 0
	for _, r := range golden[selectorRow](t, "selector_parsing") {
		s, where, ok := r.translate()
		if !ok {
			skipped++
			continue
		}
		t.Run(fmt.Sprintf("%s golden: %q", r.id(), s), func(t *testing.T) {
			spec, err := s.spec(where)
			if r.Result["error"] != nil {
				if err == nil {
					t.Fatalf("%q is read as %+v, want an error", s, spec)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{"specific": spec.Specific()}
			if spec.HasGroup {
				got["group"] = spec.Group
			}
			if spec.Version != "" {
				got["version"] = spec.Version
			}
			switch {
			case spec.By == "*" && spec.Where != nil:
				got["fn"] = "@callable"
			case spec.By == "*":
				got["any_name"] = "@everything"
			case spec.By == "":
				got["any_name"] = spec.Name
			default:
				got[spec.By] = spec.Name
			}
			if diff := cmp.Diff(r.Result, got); diff != "" {
				t.Errorf("%q (-want +got)\n%s", s, diff)
			}
		})
	}
	if skipped != 5 {
		t.Errorf("%d vectors have no form of ours, want 5", skipped)
	}
}

// goldenResources are the resources of the selector vectors.
func goldenResources(t *testing.T) []discovery.Resource {
	t.Helper()
	var rows map[string]struct {
		Group, Version, Plural, Kind, Singular string
		Shortcuts, Categories                  []string
		Preferred                              bool
	}
	if err := json.Unmarshal(goldenSections(t)["selector_resources"], &rows); err != nil {
		t.Fatal(err)
	}
	var all []discovery.Resource
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		all = append(all, discovery.Resource{
			Group: r.Group, Version: r.Version, Plural: r.Plural, Kind: r.Kind, Singular: r.Singular,
			ShortNames: r.Shortcuts, Categories: r.Categories, Preferred: r.Preferred,
		})
		if got := all[len(all)-1].Name(); got != name {
			t.Fatalf("the name is %q, want %q", got, name)
		}
	}
	return all
}

func TestSelectorMatching(t *testing.T) {
	for _, r := range golden[selectorRow](t, "selector_matching") {
		s, where, ok := r.translate()
		if !ok {
			t.Errorf("%q %q has no form of ours", r.Args, r.Kwargs)
			continue
		}
		spec, err := s.spec(where)
		matched, chosen := []string{}, []string{}
		if err == nil {
			for _, res := range goldenResources(t) {
				if spec.Matches(res) {
					matched = append(matched, res.Name())
				}
			}
			// Two resources of a specific selector are ambiguous only outside of the core group, and no row has such.
			var found []discovery.Resource
			for _, res := range goldenResources(t) {
				res.Verbs = []string{"list", "watch", "patch"}
				found = append(found, res)
			}
			fit, _ := (&handler{selector: spec}).resources(found)
			for _, res := range fit {
				chosen = append(chosen, res.Name())
			}
		}
		slices.Sort(matched)
		slices.Sort(chosen)
		id := "CH-21"
		switch {
		case where != nil:
			id = "CH-24"
		case strings.Contains(string(s), "*"):
			id = "CH-25"
		case strings.Contains(string(s), "v1"):
			id = "CH-22"
		}
		t.Run(fmt.Sprintf("%s golden: %q", id, s), func(t *testing.T) {
			if diff := cmp.Diff(r.Check, matched); err != nil || diff != "" {
				t.Errorf("%q: %v (-want +got)\n%s", s, err, diff)
			}
		})
		t.Run(fmt.Sprintf("CH-27 golden: %q", s), func(t *testing.T) {
			if diff := cmp.Diff(r.Select, chosen); err != nil || diff != "" {
				t.Errorf("%q: %v (-want +got)\n%s", s, err, diff)
			}
		})
	}
}

func TestSelectorForms(t *testing.T) {
	for _, tt := range []struct {
		s    Selector
		want string // the resources, or "error"
	}{
		{"kopf.dev/v1/kopfexamples", "kopfexamples.v1.kopf.dev"},
		{"kopf.dev/kopfexamples", "kopfexamples.v1.kopf.dev"},
		{"kopfexamples.v1.kopf.dev", "kopfexamples.v1.kopf.dev"},
		{"/v1/pods", "pods.v1"},
		{"/pods", "pods.v1"},
		{Kind("KopfExample"), "kopfexamples.v1.kopf.dev"},
		{Kind("KopfExample") + ".v1.kopf.dev", "kopfexamples.v1.kopf.dev"},
		{Kind("KopfExample") + ".v2.kopf.dev", ""},
		{Kind("kopfexamples"), ""},
		{Category("all") + ".apps", "deployments.v1.apps"},
		{Everything + ".v1.apps", "deployments.v1.apps"},
		{"apps/v1/*", "deployments.v1.apps"},
		{Kind(""), "error"},
		{Category(""), "error"},
		{"pods.", "error"},
		{"pods.v1.", "error"},
		{".v1.apps", "error"},
		{"apps/v1/", "error"},
		{"apps/v1/deployments.x", "error"},
		{"two words", "error"},
		{"pods.two words", "error"},
		{"pods\n", "error"},
		{"kindly:Pod", "error"},
		{"**", "error"},
	} {
		t.Run(fmt.Sprintf("CH-16 %q", tt.s), func(t *testing.T) {
			spec, err := tt.s.spec(nil)
			var all []string
			for _, r := range goldenResources(t) {
				if err == nil && spec.Matches(r) {
					all = append(all, r.Name())
				}
			}
			got := strings.Join(all, " ")
			if err != nil {
				got = "error"
			}
			if got != tt.want {
				t.Errorf("%q: got %q (%v), want %q", tt.s, got, err, tt.want)
			}
		})
	}
}

func TestSelectorPreferred(t *testing.T) {
	old := Resource{Group: "apps", Version: "v1beta1", Plural: "deployments", Kind: "Deployment"}
	events := Resource{Group: "events.k8s.io", Version: "v1beta1", Plural: "events", Kind: "Event"}
	any := func(Resource) bool { return true }
	for _, tt := range []struct {
		name  string
		s     Selector
		where func(Resource) bool
		r     Resource
		want  bool
	}{
		{"CH-22 no version", "deployments", nil, old, false},
		{"CH-22 that version", "deployments.v1beta1.apps", nil, old, true},
		{"CH-22 everything", Everything, nil, old, false},
		{"CH-24 a predicate sees all versions", "", any, old, true},
		{"CH-24 a predicate with a group", "*.apps", any, old, true},
		{"CH-24 a predicate with another group", "*.batch", any, old, false},
		{"CH-T19 events of an old version", "", any, events, false},
		{"CH-25 events by name", "events.v1beta1.events.k8s.io", nil, events, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := tt.s.spec(tt.where)
			if err != nil {
				t.Fatal(err)
			}
			if got := spec.Matches(discovery.Resource(tt.r)); got != tt.want {
				t.Errorf("%q matches %s: %t, want %t", tt.s, tt.r, got, tt.want)
			}
		})
	}
}

func FuzzSelector(f *testing.F) {
	for _, seed := range []string{"pods", "pods.v1", "apps/v1/deployments", "kind:Pod.v1", "category:all", "*", "*.v1.apps", "/pods", "", "a/b/c/d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := Selector(text).spec(nil)
		if err != nil {
			return
		}
		if spec.By != "*" && spec.Name == "" {
			t.Errorf("%q names nothing", text)
		}
		if !spec.HasGroup && spec.Group != "" {
			t.Errorf("%q has the group %q and has none", text, spec.Group)
		}
	})
}

func TestSelectorSuggestions(t *testing.T) {
	found := []discovery.Resource{
		{Group: "kopf.dev", Version: "v1", Plural: "kopfexamples", Kind: "KopfExample", Singular: "kopfexample", ShortNames: []string{"kopfex"}, Preferred: true},
		{Group: "kopf.dev", Version: "v1beta1", Plural: "kopfoldies", Kind: "KopfOldie", Singular: "kopfoldie"},
		{Group: "metrics.k8s.io", Version: "v1", Plural: "configmaps", Kind: "ConfigMapMetrics", Preferred: true},
		{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Singular: "configmap", ShortNames: []string{"cm"}, Preferred: true},
	}
	for selector, want := range map[Selector]string{
		"kopfexmples":             " Did you mean kopfexamples.kopf.dev?",
		"kopfexampel.kopf.dev":    " Did you mean kopfexamples.kopf.dev?",
		"KopfExmple":              " Did you mean kopfexamples.kopf.dev?",
		"kopfxe":                  " Did you mean kopfexamples.kopf.dev?",
		"kopf.dev/v1/kopfexmples": " Did you mean kopfexamples.v1.kopf.dev?",
		"kopfexamples.v2":         " Did you mean kopfexamples.v1.kopf.dev?",
		"kopfoldeis.v1":           " Did you mean kopfoldies.v1beta1.kopf.dev?",
		"configmps":               " Did you mean configmaps?",
		"v1/configmps":            " Did you mean configmaps.v1?",
		Kind("kopfexample"):       " Did you mean KopfExample.kopf.dev?",
		Kind("configmaps"):        " Did you mean ConfigMap?",
		"kopfoldeis":              "", // not in the preferred version
		"kopfexmples.zalando.org": "",
		"widgets.kopf.dev":        "",
		Category("kopfexmples"):   "",
		Everything:                "",
	} {
		spec, err := selector.spec(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.Suggestion(found); got != want {
			t.Errorf("%s: got %q, want %q", selector, got, want)
		}
	}
	spec, err := Selector("kopfexmples").spec(func(Resource) bool { return false })
	if got := spec.Suggestion(found); err != nil || got != "" {
		t.Errorf("with a predicate: got %q, want none (%v)", got, err)
	}
}
