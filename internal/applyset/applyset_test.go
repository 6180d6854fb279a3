package applyset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/validation"
)

// TestID has IDs that kubectl 1.36.3 gives.
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

// FuzzAnnotations reads what another client can have stored, and writes it again.
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
