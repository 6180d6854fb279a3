package kopf

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestReferenceOf(t *testing.T) {
	want := ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", Namespace: "ns"}
	type meta struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	}
	type pod struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
		Metadata   meta   `json:"metadata"`
	}
	body, err := ParseBody([]byte(podText))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		object any
		want   ObjectReference
		err    string
	}{
		{want, want, ""},
		{&want, want, ""},
		{body, want, ""},
		{body.Map(), want, ""},
		{pod{"v1", "Pod", meta{"p", "ns"}}, want, ""},
		{Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}, ObjectReference{APIVersion: "apps/v1", Kind: "Deployment"}, ""},
		{map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "p-"}}, ObjectReference{APIVersion: "v1", Kind: "Pod"}, ""},
		{pod{Metadata: meta{"p", "ns"}}, ObjectReference{}, `invalid apiVersion "" and kind "" of a kopf.pod: want both`},
		{(*ObjectReference)(nil), ObjectReference{}, "want both"},
		{(*Body)(nil), ObjectReference{}, "want both"},
		{nil, ObjectReference{}, "<nil>"},
		{"pods/p", ObjectReference{}, "string"},
		{func() {}, ObjectReference{}, "func()"},
	} {
		got, err := ReferenceOf(tt.object)
		got.UID = ""
		if (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) || err == nil && got != tt.want {
			t.Errorf("%v: got %+v, error %v, want %+v, error %q", tt.object, got, err, tt.want, tt.err)
		}
	}
}

func TestIgnoredErrors(t *testing.T) {
	missing := fmt.Errorf("wrapped: %w", &APIError{Code: http.StatusNotFound, Reason: "NotFound"})
	exists := fmt.Errorf("wrapped: %w", &APIError{Code: http.StatusConflict, Reason: "AlreadyExists"})
	conflict, other := &APIError{Code: http.StatusConflict, Reason: "Conflict"}, errors.New("oops")
	for _, tt := range []struct {
		name      string
		got, want error
	}{
		{"none", IgnoreNotFound(nil), nil},
		{"missing", IgnoreNotFound(missing), nil},
		{"exists, for the missing", IgnoreNotFound(exists), exists},
		{"another, for the missing", IgnoreNotFound(other), other},
		{"none, for the existing", IgnoreAlreadyExists(nil), nil},
		{"exists", IgnoreAlreadyExists(exists), nil},
		{"a conflict", IgnoreAlreadyExists(conflict), conflict},
		{"missing, for the existing", IgnoreAlreadyExists(missing), missing},
	} {
		if tt.got != tt.want { //nolint:errorlint // it must be the same one
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

// TestUnnamed registers function literals without an ID.
func TestUnnamed(t *testing.T) {
	r := &Registry{}
	r.OnStartup(func(context.Context, *Activity) error { return nil }, nil)
	r.OnCleanup(func(context.Context, *Activity) error { return nil }, nil)
	r.OnLogin(func(context.Context, *Login) (*ConnectionInfo, error) { return nil, nil }, nil)
	r.OnProbe(func(context.Context, *Probe) (any, error) { return nil, nil }, nil)
	r.OnEvent("pods", func(context.Context, *WatchEvent) error { return nil }, nil)
	OnIndexIn(r, "pods", func(context.Context, *Indexing) (map[string]string, error) { return nil, nil }, nil)
	seen := map[HandlerID]bool{}
	for _, h := range r.handlers {
		if !strings.HasPrefix(string(h.id), "references_test.go:") || seen[h.id] {
			t.Errorf("the id of %s is %q", kindNames[h.kind], h.id)
		}
		seen[h.id] = true
	}
	for name, register := range map[string]func(){
		"OnCreate":   func() { r.OnCreate("pods", func(context.Context, *Change) error { return nil }, nil) },
		"OnDaemon":   func() { r.OnDaemon("pods", func(context.Context, *Daemon) error { return nil }, nil) },
		"OnValidate": func() { r.OnValidate("pods", func(context.Context, *Admission) error { return nil }, nil) },
		"OnIndex": func() {
			for _, key := range []string{"a", "b"} {
				OnIndexIn(r, "pods", func(context.Context, *Indexing) (map[string]string, error) { return map[string]string{key: key}, nil }, nil)
			}
		},
	} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "ID") {
					t.Errorf("%s: got the panic %v", name, v)
				}
			}()
			register()
		}()
	}
}

func TestZeroSettings(t *testing.T) {
	err := (&Operator{Settings: &Settings{}, Registry: &Registry{}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "NewSettings()") {
		t.Errorf("got %v", err)
	}
}

func TestFieldManager(t *testing.T) {
	for _, tt := range []struct {
		resource Resource
		want     string
	}{
		{Resource{Group: "kopf.dev", Plural: "kopfexamples"}, "kopf-kopfexamples.kopf.dev"},
		{Resource{Plural: "pods"}, "kopf-pods"},
		{Resource{Group: strings.Repeat("g", 200), Plural: "pods"}, "kopf-pods." + strings.Repeat("g", 118)},
	} {
		if got := tt.resource.fieldManager(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
