package discovery

import (
	"strings"
	"testing"
)

var some = []Resource{
	{Version: "v1", Plural: "pods", Kind: "Pod", Singular: "pod", ShortNames: []string{"po"}, Preferred: true},
	{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", ShortNames: []string{"cm"}, Preferred: true},
	{Group: "metrics.k8s.io", Version: "v1beta1", Plural: "pods", Kind: "PodMetrics", Preferred: true},
	{Group: "metrics.k8s.io", Version: "v1", Plural: "pods", Kind: "PodMetrics"},
}

func TestSelector(t *testing.T) {
	for _, tt := range []struct {
		selector string
		chosen   bool
		want     []bool // for each resource, whether it is selected
	}{
		{"pods", false, []bool{true, false, true, false}},
		{"po", false, []bool{true, false, false, false}},
		{"pods.v1", false, []bool{true, false, false, true}},
		{"v1/pods", false, []bool{true, false, false, false}},
		{"metrics.k8s.io/pods", false, []bool{false, false, true, false}},
		{"pods.v1.metrics.k8s.io", false, []bool{false, false, false, true}},
		{"kind:PodMetrics", false, []bool{false, false, true, false}},
		{"*", false, []bool{true, true, true, false}},
		{"*", true, []bool{true, true, true, true}}, // the condition applies to all versions
		{"", true, []bool{true, true, true, true}},
	} {
		var where func(Resource) bool
		if tt.chosen {
			where = func(Resource) bool { return true }
		}
		s, err := ParseSelector(tt.selector, where)
		if err != nil {
			t.Errorf("%q: %v", tt.selector, err)
			continue
		}
		for i, r := range some {
			if got := s.Matches(r); got != tt.want[i] {
				t.Errorf("%q selects %v: %t, want %t", tt.selector, r, got, tt.want[i])
			}
		}
	}
	for _, wrong := range []string{"", "a/b/c/d", "pods.", "po ds", "category:"} {
		if s, err := ParseSelector(wrong, nil); err == nil {
			t.Errorf("%q is read as %+v, want an error", wrong, s)
		}
	}
}

func TestSelect(t *testing.T) {
	for selector, want := range map[string]string{
		"pods":     "pods.v1", // the core group takes precedence
		"*":        "configmaps.v1, pods.v1, pods.v1beta1.metrics.k8s.io",
		"pods.v1":  "pods.v1",
		"v1/*":     "configmaps.v1, pods.v1",
		"services": "",
	} {
		s, err := ParseSelector(selector, nil)
		if got := Names(s.Select(some)); err != nil || got != want {
			t.Errorf("%q selects %q, want %q (%v)", selector, got, want, err)
		}
	}
}

// TestNearest checks that the first of equally similar resources wins.
func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"podz": "Pod", "PODS": "Pod", "configmap": "ConfigMap", "PodMetric": "PodMetrics", "": "", "services": ""} {
		got := ""
		if r := nearest(word, some, false); r != nil {
			got = r.Kind
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if r := nearest("configmaps", some, true); r == nil || r.Kind != "ConfigMap" {
		t.Errorf("got %v for a kind", r)
	}
	if r := nearest("po", some, true); r != nil {
		t.Errorf("got %v for a short name that is no kind", r)
	}
}

func TestUnknownKind(t *testing.T) {
	for kind, want := range map[string]string{
		"Secret": `there is no kind "Secret" in v1`,
		"pods":   `there is no kind "pods" in v1: its kind is Pod`,
		"Podd":   `there is no kind "Podd" in v1: did you mean Pod?`,
	} {
		if got := UnknownKind("v1", kind, some).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestServable(t *testing.T) {
	made := func(group string, verbs ...string) Resource {
		return Resource{Group: group, Version: "v1", Plural: "things", Kind: "Thing", Verbs: verbs, Preferred: true}
	}
	all, deaf, mute := made("a.com", "list", "watch", "patch"), made("b.com", "list", "patch"), made("c.com", "list", "watch")
	for _, tt := range []struct {
		selector string
		found    []Resource
		patches  bool
		able     int
		warnings string
		follow   string // warning about watching it
	}{
		{"things", []Resource{all}, true, 1, ``, ``},
		{"things", []Resource{deaf}, true, 0, `Non-watchable resources will not be served: things.v1.b.com.`, `Non-watchable resources will not be followed by "me": things.v1.b.com.`},
		{"things", []Resource{mute}, true, 0, `Non-patchable resources will not be served by "me": things.v1.c.com.`, ``},
		{"things", []Resource{mute}, false, 1, ``, ``},
		{"things", []Resource{all, mute}, false, 0, `Ambiguous resources will not be served (try specifying API groups): things is any of things.v1.a.com, things.v1.c.com.`,
			`Ambiguous resources will not be followed by "me" (try specifying API groups): things is any of things.v1.a.com, things.v1.c.com.`},
		{"thinks", []Resource{all}, true, 0, `Unresolved resources cannot be served (try creating their CRDs): thinks. Did you mean things.a.com?`,
			`Unresolved resources cannot be followed by "me" (try creating their CRDs): thinks. Did you mean things.a.com?`},
		{"*", []Resource{all, deaf}, true, 1, `Non-watchable resources will not be served: things.v1.b.com.`,
			`Ambiguous resources will not be followed by "me" (try specifying API groups): * is any of things.v1.a.com, things.v1.b.com.`},
	} {
		s, err := ParseSelector(tt.selector, nil)
		if err != nil {
			t.Fatal(err)
		}
		able, warnings := s.Servable(s.Select(tt.found), tt.found, tt.patches, "me")
		if len(able) != tt.able || strings.Join(warnings, "\n") != tt.warnings {
			t.Errorf("%s of %s: got %s and %q, want %d and %q", tt.selector, Names(tt.found), Names(able), warnings, tt.able, tt.warnings)
		}
		r, warning := s.Followable(tt.found, "me")
		if warning != tt.follow || (r.Plural == "") != (warning != "") {
			t.Errorf("%s of %s: follows %s, with the warning %q, want %q", tt.selector, Names(tt.found), r.Name(), warning, tt.follow)
		}
	}
}
