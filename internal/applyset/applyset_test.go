package applyset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/validation"
)

// TestID compares with IDs from kubectl 1.36.3.
func TestID(t *testing.T) {
	for _, tt := range []struct{ name, namespace, kind, group, want string }{
		{"x", "default", "ConfigMap", "", "applyset-3_FYCE2hIhzPdZubIB_jBNgfONr3R_sXqPJX3g4YBhI-v1"},
		{"website", "", "Website", "kopf.dev", "applyset-Q1WnEruiXkCSr_UHBRryleHXxKW5tL6CuxWgr28zDk0-v1"},
		{"a.b", "n", "Deployment", "apps", "applyset--u-rce8NAh06aguyzycl1GrWG2rmwWiK9cFyqbIK16s-v1"},
	} {
		t.Run("RC-47 "+tt.kind, func(t *testing.T) {
			got := ID(tt.name, tt.namespace, tt.kind, tt.group)
			if got != tt.want || len(got) > 63 || !validation.IsName(got, "-_.") {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTooling(t *testing.T) {
	for tooling, want := range map[string]bool{
		Tooling("0.1.0"): true, "kopf/2": true, "kopf": true, "kopf/": true,
		"": false, "/kopf": false, "kubectl/v1.36.3": false, "kro/0.1": false, "kopf/extra/1": false, "notkopf/1": false, "Kopf/1": false,
	} {
		t.Run("RC-47 "+tooling, func(t *testing.T) {
			if got := IsOwnTooling(tooling); got != want {
				t.Errorf("got %t, want %t", got, want)
			}
		})
	}
	if got := Tooling("0.1.0"); got != "kopf/0.1.0" {
		t.Errorf("got %s", got)
	}
}

func TestGroupKinds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kinds  []GroupKind
		want   string
		parsed []GroupKind
	}{
		{"none", nil, "", nil},
		{"one of the core", []GroupKind{{"", "Secret"}}, "Secret", []GroupKind{{"", "Secret"}}},
		{"sorted as texts, once each", []GroupKind{{"kopf.dev", "Website"}, {"apps", "Deployment"}, {"", "Secret"}, {"apps", "Deployment"}, {"", "ConfigMap"}},
			"ConfigMap,Deployment.apps,Secret,Website.kopf.dev", []GroupKind{{"", "ConfigMap"}, {"apps", "Deployment"}, {"", "Secret"}, {"kopf.dev", "Website"}}},
	} {
		t.Run("RC-47 "+tt.name, func(t *testing.T) {
			got := FormatGroupKinds(tt.kinds)
			parsed, err := ParseGroupKinds(got)
			if got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if diff := cmp.Diff(tt.parsed, parsed); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for _, annotation := range []string{",", "Secret,", " Secret", ".apps", "Deployment.", "Deployment.apps ", "Deployment.apps/v1", "a b", strings.Repeat("ä", 1000)} {
		t.Run("RC-47 invalid "+annotation[:min(len(annotation), 20)], func(t *testing.T) {
			if got, err := ParseGroupKinds(annotation); err == nil || len(err.Error()) > 300 || !strings.HasPrefix(err.Error(), `invalid kind "`) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	for _, tt := range []struct {
		name       string
		namespaces []string
		parent     string
		want       string
		parsed     []string
	}{
		{"none", nil, "own", "", nil},
		{"that of the parent", []string{"own"}, "own", "", nil},
		{"sorted, once each", []string{"b", "own", "a", "b"}, "own", "a,b", []string{"a", "b"}},
		{"of a parent without one", []string{"b", "", "a"}, "", "a,b", []string{"a", "b"}},
		{"next to members without one", []string{"b", "", "a"}, "own", "a,b", []string{"a", "b"}},
	} {
		t.Run("RC-47 "+tt.name, func(t *testing.T) {
			given := strings.Join(tt.namespaces, ",")
			got := FormatNamespaces(tt.namespaces, tt.parent)
			parsed, err := ParseNamespaces(got)
			if got != tt.want || err != nil || strings.Join(tt.namespaces, ",") != given {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if diff := cmp.Diff(tt.parsed, parsed); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for _, annotation := range []string{",", "a,", " a", "a.b", "A", strings.Repeat("ä", 1000)} {
		t.Run("RC-47 invalid "+annotation[:min(len(annotation), 20)], func(t *testing.T) {
			if got, err := ParseNamespaces(annotation); err == nil || len(err.Error()) > 300 || !strings.HasPrefix(err.Error(), `invalid namespace "`) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestScope(t *testing.T) {
	t.Run("RC-47 the union has each kind and each namespace once", func(t *testing.T) {
		one := Scope{}.Add(GroupKind{"apps", "Deployment"}, "b").Add(GroupKind{"", "Secret"}, "")
		two := Scope{}.Add(GroupKind{"", "ConfigMap"}, "a").Add(GroupKind{"", "Secret"}, "b")
		want := Scope{Kinds: []GroupKind{{"", "ConfigMap"}, {"apps", "Deployment"}, {"", "Secret"}}, Namespaces: []string{"a", "b"}}
		for _, got := range []Scope{one.Union(two), two.Union(one), want.Union(one)} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !got.Equal(want) || got.Equal(one) || got.IsEmpty() {
				t.Errorf("%v is not equal to itself, or is equal to another one", got)
			}
		}
		if diff := cmp.Diff(Scope{Kinds: []GroupKind{{"apps", "Deployment"}, {"", "Secret"}}, Namespaces: []string{"b"}}, one); diff != "" {
			t.Errorf("the union has changed one of both (-want +got)\n%s", diff)
		}
	})
	t.Run("RC-47 what can be read of damaged annotations counts", func(t *testing.T) {
		got, err := ParseScope("Deployment.apps,.,Secret,", "a,B,c")
		if err == nil {
			t.Error("the damage is not noticed")
		}
		if diff := cmp.Diff(Scope{Kinds: []GroupKind{{"apps", "Deployment"}, {"", "Secret"}}, Namespaces: []string{"a", "c"}}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("RC-47 an empty scope has no members", func(t *testing.T) {
		if got, err := ParseScope("", ""); err != nil || !got.IsEmpty() || !got.Equal(Scope{}) {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// TestStore makes an object the parent of a set, and then removes the set.
func TestStore(t *testing.T) {
	t.Run("RC-47 an object is the parent of a set, and then of none", func(t *testing.T) {
		object := map[string]any{"metadata": map[string]any{"name": "x", "namespace": "own", "labels": map[string]any{"their": "label"}}}
		scope := Scope{}.Add(GroupKind{"", "Secret"}, "b").Add(GroupKind{"apps", "Deployment"}, "own")
		if err := scope.Store(object, "applyset-x-v1", "2"); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"metadata": map[string]any{
			"name": "x", "namespace": "own", "labels": map[string]any{"their": "label", IDLabel: "applyset-x-v1"},
			"annotations": map[string]any{ToolingAnnotation: "kopf/2", GroupKindsAnnotation: "Deployment.apps,Secret", NamespacesAnnotation: "b"},
		}}
		if diff := cmp.Diff(want, object); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if err := (Scope{}).Store(object, "applyset-x-v1", "2"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]any{"metadata": map[string]any{"name": "x", "namespace": "own", "labels": map[string]any{"their": "label"}}}, object); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("RC-47 only what kopf says of its own sets is no part of the object", func(t *testing.T) {
		for tooling, want := range map[string]string{"kopf/1": `{"a":"1"} {"b":"2"}`, "kubectl/1": ""} {
			labels, annotations := `{"a":"1","`+IDLabel+`":"x"}`, `{"`+ToolingAnnotation+`":"`+tooling+`","b":"2","`+GroupKindsAnnotation+`":"Secret","`+NamespacesAnnotation+`":""}`
			otherLabels, otherAnnotations := WithoutOwn([]byte(labels), []byte(annotations))
			if want == "" {
				want = labels + " " + annotations
			}
			if got := string(otherLabels) + " " + string(otherAnnotations); got != want {
				t.Errorf("%s: got %s, want %s", tooling, got, want)
			}
		}
	})
}

// FuzzAnnotations parses arbitrary annotations, and formats them again.
func FuzzAnnotations(f *testing.F) {
	f.Add("ConfigMap,Deployment.apps", "a,b")
	f.Add("A,A,", ",")
	f.Fuzz(func(t *testing.T, kinds, namespaces string) {
		if parsed, err := ParseGroupKinds(kinds); err == nil {
			again, err := ParseGroupKinds(FormatGroupKinds(parsed))
			if diff := cmp.Diff(parsed, again); diff != "" || err != nil {
				t.Fatalf("%v (-want +got)\n%s", err, diff)
			}
		}
		if parsed, err := ParseNamespaces(namespaces); err == nil {
			again, err := ParseNamespaces(FormatNamespaces(parsed, ""))
			if diff := cmp.Diff(parsed, again); diff != "" || err != nil {
				t.Fatalf("%v (-want +got)\n%s", err, diff)
			}
		}
	})
}
