package kopf

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

// TestSettingsClone proves that the copy for a run shares no list with the settings of the caller.
func TestSettingsClone(t *testing.T) {
	for name, tt := range map[string]struct {
		progress ProgressStorage
		states   DiffBaseStorage
		server   AdmissionServer
	}{
		"the default storages": {&SmartProgressStorage{}, &SmartDiffBaseStorage{}, nil},
		"annotations":          {&AnnotationsProgressStorage{}, &AnnotationsDiffBaseStorage{}, &WebhookServer{}},
		"the status":           {&StatusProgressStorage{}, &StatusDiffBaseStorage{}, &WebhookNgrokTunnel{}},
		"several storages": {
			MultiProgressStorage{&AnnotationsProgressStorage{}, MultiProgressStorage{&StatusProgressStorage{}}},
			MultiDiffBaseStorage{&AnnotationsDiffBaseStorage{}, MultiDiffBaseStorage{&StatusDiffBaseStorage{}}},
			&WebhookAutoTunnel{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSettings()
			s.Persistence.ProgressStorage, s.Persistence.DiffBaseStorage = tt.progress, tt.states
			s.Admission.Server = tt.server
			if server, ok := tt.server.(*WebhookServer); ok {
				server.Service, server.TLSConfig = &ServiceReference{}, &tls.Config{}
			}
			fillLists(reflect.ValueOf(s).Elem())
			own := s.clone()
			if !reflect.DeepEqual(s, own) {
				t.Errorf("got %+v, want %+v", own, s)
			}
			compareLists(t, "Settings", reflect.ValueOf(s).Elem(), reflect.ValueOf(own).Elem())
		})
	}
}

// TestSettingsCloneShares proves that the copy shares the storages and servers that kopf cannot
// copy, also those that embed one of kopf.
func TestSettingsCloneShares(t *testing.T) {
	type embedding struct{ AnnotationsProgressStorage }
	type states struct{ *AnnotationsDiffBaseStorage }
	type server struct{ *WebhookServer }
	s := NewSettings()
	s.Persistence.ProgressStorage = MultiProgressStorage{&embedding{}, (*StatusProgressStorage)(nil)}
	s.Persistence.DiffBaseStorage = &states{&AnnotationsDiffBaseStorage{}}
	s.Admission.Server = &server{&WebhookServer{}}
	own := s.clone()
	records := own.Persistence.ProgressStorage.(MultiProgressStorage)
	if records[0] != s.Persistence.ProgressStorage.(MultiProgressStorage)[0] ||
		records[1] != ProgressStorage((*StatusProgressStorage)(nil)) {
		t.Errorf("got the storages %+v", records)
	}
	if own.Persistence.DiffBaseStorage != s.Persistence.DiffBaseStorage || own.Admission.Server != s.Admission.Server {
		t.Errorf("got %+v and %+v", own.Persistence, own.Admission)
	}
}

// typeOfTLS is the type of configurations whose own Clone keeps the lists.
var typeOfTLS = reflect.TypeFor[*tls.Config]()

// fillLists gives each list in the settings an element.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillLists(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Interface, reflect.Pointer: // storages and servers
		if !v.IsNil() && v.Type() != typeOfTLS {
			fillLists(v.Elem())
		}
	}
}

// compareLists reports the lists, maps and storages that two settings share.
func compareLists(t *testing.T, name string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				compareLists(t, name+"."+f.Name, a.Field(i), b.Field(i))
			}
		}
	case reflect.Slice, reflect.Map, reflect.Pointer:
		if !a.IsNil() && a.UnsafePointer() == b.UnsafePointer() {
			t.Errorf("%s is shared", name)
		}
		if a.Kind() == reflect.Pointer && !a.IsNil() && a.Type() != typeOfTLS {
			compareLists(t, name, a.Elem(), b.Elem())
		}
		for i := 0; a.Kind() == reflect.Slice && i < a.Len(); i++ {
			compareLists(t, fmt.Sprintf("%s[%d]", name, i), a.Index(i), b.Index(i))
		}
	case reflect.Interface:
		if !a.IsNil() {
			compareLists(t, name, a.Elem(), b.Elem())
		}
	}
}

// TestConfigureLate proves that the operator warns of a function of Configure that was registered
// after it has called the others, and before it starts.
func TestConfigureLate(t *testing.T) {
	var out bytes.Buffer
	o := &Operator{
		Registry: &Registry{}, Connection: &ConnectionInfo{Server: "https://localhost"},
		Logger: slog.New(slog.NewTextHandler(&out, nil)),
	}
	r, err := o.prepare()
	if err != nil {
		t.Fatal(err)
	}
	called := func(*Settings) { t.Error("the function was called") }
	o.Registry.Configure(called)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.run(ctx); err != nil {
		t.Error(err)
	}
	o.Registry.Configure(called)
	const want = "A function of Configure was registered while the operator runs"
	if strings.Count(out.String(), want) != 1 {
		t.Errorf("got %s", out.String())
	}
}
