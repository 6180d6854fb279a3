package settingscheck

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func texts(errs []error) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func TestNumbers(t *testing.T) {
	type group struct {
		Count    int
		Pause    time.Duration
		Pauses   []time.Duration
		Priority int
		Name     string
	}
	type groups struct{ One, Other group }
	good := &groups{One: group{Priority: -1, Pauses: []time.Duration{0, 1}}}
	if errs := Numbers(good, "One.Priority"); len(errs) > 0 {
		t.Errorf("got %v", errs)
	}
	bad := &groups{Other: group{Count: -1, Pause: -time.Second, Pauses: []time.Duration{1, -1}, Priority: -1}}
	want := []string{
		"invalid Settings.Other.Count -1: want zero or more",
		"invalid Settings.Other.Pause -1s: want zero or more",
		"invalid Settings.Other.Pauses [1ns -1ns]: want durations of zero or more",
		"invalid Settings.Other.Priority -1: want zero or more",
	}
	if diff := cmp.Diff(want, texts(Numbers(bad, "One.Priority"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPosting(t *testing.T) {
	for _, prefix := range []string{"", "kopf-event-", "operator", "a.b-", "x-", strings.Repeat("x", 240)} {
		if errs := Posting("example.com/operator", strings.Repeat("x", 128), prefix); len(errs) > 0 {
			t.Errorf("%q: got %v", prefix, errs)
		}
	}
	for _, prefix := range []string{"-", "x.", "x..y", "X-", "a_b", " ", strings.Repeat("x", 241)} {
		if errs := Posting("kopf", "dev", prefix); len(errs) != 1 {
			t.Errorf("%q: got %v", prefix, errs)
		}
	}
	if errs := Posting("a b", "", "kopf-event-"); len(errs) != 2 {
		t.Errorf("got %v", errs)
	}
}

func TestFinalizers(t *testing.T) {
	for _, name := range []string{"kopf.zalando.org/KopfFinalizerMarker", "example.com/finalizer", "old", strings.Repeat("x", 63)} {
		if errs := finalizers(name, []string{"example.com/older", "old.example.com/x"}); len(errs) > 0 {
			t.Errorf("%q: got %v", name, errs)
		}
	}
	for _, name := range []string{"", " ", "exa mple.com/x", "example.com/ä", "example.com/a/b", strings.Repeat("x", 64), "example.com/x ", "Example.com/x", "/x", "example.com/"} {
		for _, errs := range [][]error{finalizers(name, nil), finalizers("example.com/x", []string{name})} {
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), `want a qualified name such as "example.com/finalizer"`) {
				t.Errorf("%q: got %v", name, errs)
			}
		}
	}
	want := []string{
		`invalid Settings.Persistence.Finalizer "orphan": want another name than those of Kubernetes, such as "example.com/finalizer"`,
		`invalid Settings.Persistence.LegacyFinalizers[1] "foregroundDeletion": want another name than those of Kubernetes, such as "example.com/finalizer"`,
	}
	if diff := cmp.Diff(want, texts(finalizers("orphan", []string{"old", "foregroundDeletion"}))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want = []string{`invalid Settings.Persistence.LegacyFinalizers[1] "example.com/x": want another finalizer than Settings.Persistence.Finalizer`}
	if diff := cmp.Diff(want, texts(finalizers("example.com/x", []string{"old", "example.com/x"}))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// settings returns settings with the given storages.
func settings(inStatus bool, all ...Storage) *Persistence {
	return &Persistence{Finalizer: "example.com/finalizer", InStatus: inStatus, Progress: Setting{all: all}}
}

func TestErrors(t *testing.T) {
	path := func(text string) []string { return strings.Split(text, ".") }
	records := func(change func(*Storage)) Storage {
		s := Storage{setting: "P", progress: true, annotated: true, prefix: "example.com", key: "touch-dummy", Field: path("status.kopf.progress"), Touched: path("status.kopf.dummy")}
		change(&s)
		return s
	}
	states := func(change func(*Storage)) Storage {
		s := Storage{setting: "D", annotated: true, prefix: "example.com", key: "last-handled-configuration", Field: path("status.kopf.last-handled-configuration")}
		change(&s)
		return s
	}
	same := func(*Storage) {}
	for _, tt := range []struct {
		name    string
		records func(*Storage)
		states  func(*Storage)
		want    []string
	}{
		{"the defaults", same, same, nil},
		{"a prefix in upper case", func(s *Storage) { s.prefix = "Example.com" }, same, nil},
		{"a prefix that is none", func(s *Storage) { s.prefix = "bad prefix!" }, same, []string{`invalid P.Prefix "bad prefix!": want a domain such as "example.com"`}},
		{"a prefix that is too long", same, func(s *Storage) { s.prefix = strings.Repeat("x.", 127) + "x" }, []string{`invalid D.Prefix "` + strings.Repeat("x.", 127) + `x": want a domain such as "example.com"`}},
		{"a key that is none", same, func(s *Storage) { s.key = "-x" }, []string{`invalid D.Key "-x": want letters and digits, with '-', '_' and '.' between them`}},
		{"a key with a slash, which is replaced", same, func(s *Storage) { s.key = "a/b" }, nil},
		{"a touched key that is none", func(s *Storage) { s.key = "ä" }, same, []string{`invalid P.TouchKey "ä": want letters and digits, with '-', '_' and '.' between them`}},
		{"records in the spec", func(s *Storage) { s.Field = path("spec.x") }, same, []string{`invalid P.Field "spec.x": want a field of the status, such as "status.kopf.progress"`}},
		{"touching the spec", func(s *Storage) { s.Touched = path("spec.x") }, same, []string{`invalid P.TouchField "spec.x": want a field of the status, such as "status.kopf.progress"`}},
		{"the status as the state", same, func(s *Storage) { s.Field = path("status") }, []string{`invalid D.Field "status": want a field of the status, such as "status.kopf.progress"`}},
		{"an empty key", same, func(s *Storage) { s.Field = path(".x") }, []string{`invalid D.Field ".x": want a field of the status, such as "status.kopf.progress"`}},
		{"one field for both", same, func(s *Storage) { s.Field = path("status.kopf.progress") }, []string{`invalid D.Field "status.kopf.progress": want a place apart from P.Field "status.kopf.progress"`}},
		{"the state among the records", same, func(s *Storage) { s.Field = path("status.kopf.progress.create") }, []string{`invalid D.Field "status.kopf.progress.create": want a place apart from P.Field "status.kopf.progress"`}},
		{"the records in the state", same, func(s *Storage) { s.Field = path("status.kopf") }, []string{`invalid D.Field "status.kopf": want a place apart from P.Field "status.kopf.progress"`}},
		{"the state where it is touched", same, func(s *Storage) { s.Field = path("status.kopf.dummy") }, []string{`invalid D.Field "status.kopf.dummy": want a place apart from P.TouchField "status.kopf.dummy"`}},
		{"the records in place of the tracked fields", func(s *Storage) { s.Field = path("status.kopf.tracked-fields") }, same, []string{`invalid P.Field "status.kopf.tracked-fields": want a place apart from the field "status.kopf.tracked-fields"`}},
		{"a key that is the ID of a handler", same, func(s *Storage) { s.key = "create" }, []string{`invalid D.Key "create": want a place apart from the progress of the handler "create"`}},
		{"a key that may be the ID of a sub-handler", same, func(s *Storage) { s.key = "create.x" }, []string{`invalid D.Key "create.x": want a place apart from the progress of the handler "create"`}},
		{"the same under another prefix", same, func(s *Storage) { s.key, s.prefix = "create", "example.org" }, nil},
		{"a touched key that is the ID of a handler", func(s *Storage) { s.key = "create" }, same, []string{`invalid P.TouchKey "create": want a place apart from the progress of the handler "create"`}},
		{"the state in what is touched", func(s *Storage) { s.key = "x" }, func(s *Storage) { s.key = "x" }, []string{`invalid D.Key "x": want a place apart from P.TouchKey "x"`}},
		{"a key of our own", same, func(s *Storage) { s.key = "kopf-managed" }, []string{`invalid D.Key "kopf-managed": want a place apart from the annotation "example.com/kopf-managed"`}},
		{"a handler whose result is in the way", func(s *Storage) { s.Field, s.Touched = path("status.made.x"), nil }, same, []string{`invalid P.Field "status.made.x": want a field apart from "status.made", where the result of the handler with that ID is stored`}},
		{"one that is not", func(s *Storage) { s.Field, s.Touched = path("status.kopf2.x"), nil }, same, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := texts(settings(true, records(tt.records), states(tt.states)).Errors([]string{"create", "update"}, []string{"create", "made"}))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if errs := settings(false, records(same), states(same)).Errors(nil, []string{"kopf"}); len(errs) > 0 { // only read
		t.Errorf("got %v", errs)
	}
	several := settings(true, records(same), records(func(s *Storage) { s.setting = "P[1]" }), states(same), states(func(s *Storage) { s.setting = "D[1]" }))
	if errs := several.Errors([]string{"create"}, nil); len(errs) > 0 { // both write the same
		t.Errorf("got %v", errs)
	}
}
