package kopf

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/essence"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestEssences(t *testing.T) {
	type config struct {
		Diffbase, Progress string
		Fields             []FieldPath `json:"fields_of_registered_handlers"`
		Ignored            []FieldPath `json:"ignored_fields"`
	}
	ids := []string{"CH-77", "CH-79", "CH-79", "CH-76", "CH-78", "CH-78", "CH-78", "CH-78", "CH-81", "CH-77", "CH-81", "CH-77", "CH-80", "CH-T30"}
	for i, r := range golden[struct {
		Name          string
		Body, Essence json.RawMessage
		Config        json.RawMessage
	}](t, "essences") {
		t.Run(ids[i]+" golden: "+r.Name, func(t *testing.T) {
			var c config
			if string(r.Config) != `"defaults"` {
				if err := json.Unmarshal(r.Config, &c); err != nil {
					t.Fatal(err)
				}
			}
			_, prefix, _ := strings.Cut(strings.TrimSuffix(c.Diffbase, ")"), "prefix=")
			p := &PersistenceSettings{
				ProgressStorage: &SmartProgressStorage{Prefix: prefix},
				DiffBaseStorage: &AnnotationsDiffBaseStorage{Prefix: prefix, IgnoredFields: c.Ignored},
			}
			if c.Diffbase == "status" {
				p.ProgressStorage, p.DiffBaseStorage = &StatusProgressStorage{}, &StatusDiffBaseStorage{}
			}
			want := mustObject(t, string(r.Essence))
			if c.Progress == "status" {
				delete(rawjson.AsMap(want["status"]), "kopf") // the dummy in it; see docs/deviations.md
			}
			e := essenceOf(mustBody(t, string(r.Body)), c.Fields, p)
			if diff := cmp.Diff(want, e.Map()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if want := rawjson.AppendCompact(nil, r.Essence); c.Progress != "status" && !bytes.Equal(e.text(), want) {
				t.Errorf("got the bytes %s, want %s", e.text(), want)
			}
			again := &Essence{}
			if err := json.Unmarshal(r.Essence, again); err != nil {
				t.Fatal(err)
			}
			p.stripRecords(again, mustBody(t, string(r.Body)))
			if !e.Equal(again) || !again.Equal(e) {
				t.Errorf("not equal to the golden one: %s and %s", e.text(), again.text())
			}
		})
	}
}

func TestEssence(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"X","metadata":{"name":"n","uid":"u","resourceVersion":"1","generation":2,"managedFields":[],` +
		`"labels":{"a":"1"},"annotations":{"kopf.zalando.org/x":"{}","note":"y"}},"spec":{"a":{"b":1},"n":null},"status":{"s":"str","l":[1],"n":null}}`
	defaults := NewSettings().Persistence.resolve(true)
	build := func(p *PersistenceSettings, fields ...FieldPath) string {
		return string(essenceOf(mustBody(t, object), fields, p).text())
	}
	ignoring := func(fields ...FieldPath) *PersistenceSettings {
		return &PersistenceSettings{DiffBaseStorage: &AnnotationsDiffBaseStorage{IgnoredFields: fields}, ProgressStorage: &SmartProgressStorage{}}
	}
	const spec, meta = `{"spec":{"a":{"b":1},"n":null}`, `,"metadata":{"labels":{"a":"1"},"annotations":{"note":"y"}`
	t.Run("CH-148 metadata comes last, then the status", func(t *testing.T) {
		if got, want := build(defaults, "status.s"), spec+meta+`},"status":{"s":"str"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("CH-T18 fields that cannot be reached", func(t *testing.T) {
		got := build(defaults, "status.s.x", "status.l.0", "status.n.x", "status.none.x", "metadata.name.x", "kind.x", "spec.n.x", "")
		if want := spec + meta + `}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("CH-T30 never what our patches change", func(t *testing.T) {
		want := spec + meta + `}}`
		if got := build(defaults, "metadata.resourceVersion", "metadata.managedFields"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		want = spec + `,"metadata":{"name":"n","labels":{"a":"1"},"annotations":{"note":"y"}}}`
		if got := build(defaults, "metadata"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("CH-79 empty stanzas are dropped, and then their parents", func(t *testing.T) {
		for text, want := range map[string]string{
			`{"metadata":{"labels":{},"annotations":{}},"status":{},"spec":{},"data":{}}`:           `{"spec":{},"data":{}}`,
			`{"metadata":{"labels":{"a":"1"},"annotations":{"kopf.zalando.org/x":""}},"status":{}}`: `{"metadata":{"labels":{"a":"1"}}}`,
			`{"metadata":{"labels":{ },"annotations":{"a":"1"}},"status":{"x":{}}}`:                 `{"metadata":{"annotations":{"a":"1"}},"status":{"x":{}}}`,
			`{"metadata":{"labels":null},"status":null,"spec":null}`:                                `{"spec":null}`,
		} {
			if got := string(essenceOf(mustBody(t, text), []FieldPath{"status"}, defaults).text()); got != want {
				t.Errorf("%s: got %s, want %s", text, got, want)
			}
		}
	})
	t.Run("CH-80 parents that become empty", func(t *testing.T) {
		got := build(ignoring("metadata.labels.a", "metadata.annotations.note", "spec.a.b", "spec.n.x", "spec.none.x", "none"))
		if want := `{"spec":{"n":null}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("CH-82 the stored essence is cleaned, but of our traces only", func(t *testing.T) {
		b := mustBody(t, `{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":`+
			`"{\"spec\": {\"a\":1},\"metadata\":{\"annotations\":{\"kopf.zalando.org/fn\":\"{}\"}},\"status\":{\"kopf\":{\"progress\":{}}}}\n"}}}`)
		e, err := storedEssence(b, ignoring("spec.a"))
		if want := `{"spec":{"a":1}}`; err != nil || string(e.text()) != want {
			t.Errorf("got %s, %v, want %s", e.text(), err, want)
		}
	})
	t.Run("CH-83 absent is not empty", func(t *testing.T) {
		for text, want := range map[string]string{`"null\n"`: "null", `"{}"`: "{}", `" { } \n"`: "{}", ``: "null"} {
			b := mustBody(t, `{"metadata":{}}`)
			if text != "" {
				b = mustBody(t, annotated("kopf.zalando.org/last-handled-configuration", text))
			}
			e, err := storedEssence(b, defaults)
			if got := string(e.text()); err != nil || got != want {
				t.Errorf("%s is read as %s, %v, want %s", text, got, err, want)
			}
		}
	})
	t.Run("CH-151 numbers survive", func(t *testing.T) {
		const numbers = `{"spec":{"a":18446744073709551617,"b":1.0,"c":1e400,"d":-0.10,"e":"1","f":true}}`
		if got := string(essenceOf(mustBody(t, numbers), nil, defaults).text()); got != numbers {
			t.Errorf("got %s, want %s", got, numbers)
		}
	})
	t.Run("methods", func(t *testing.T) {
		e := &Essence{}
		if err := json.Unmarshal([]byte(` {"a": {"b": "ž"}, "c": 1} `), e); err != nil {
			t.Fatal(err)
		}
		if err := e.Set("a.x", 2); err != nil {
			t.Error(err)
		}
		if e.Set("c.x", 2) == nil || e.Set("", 2) == nil || e.Set("f", func() {}) == nil {
			t.Error("Set of what cannot be set: want errors")
		}
		e.Remove("c")
		if got, err := json.Marshal(e); err != nil || string(got) != `{"a":{"b":"\u017e","x":2}}` || e.Get("a.b") != "ž" || e.View().Int("a.x") != 2 {
			t.Errorf("got %s, %v, %v", got, err, e.Get("a.b"))
		}
		if json.Unmarshal([]byte(`[]`), e) == nil || json.Unmarshal([]byte(`null`), e) != nil {
			t.Error("only objects are essences; null changes nothing")
		}
		if e := (*Essence)(nil); e.Get("a") != nil || len(e.Map()) > 0 || !e.Equal(nil) || e.Equal(essenceIn([]byte("{}"))) {
			t.Error("a nil essence has fields")
		}
	})
}

func TestDiffBaseStoredForm(t *testing.T) {
	storages := map[string]DiffBaseStorage{
		"annotations (defaults)":                                &AnnotationsDiffBaseStorage{},
		"annotations (prefix=my-op.example.com, key=last-seen)": &AnnotationsDiffBaseStorage{Prefix: "my-op.example.com", Key: "last-seen"},
		"status (defaults)":                                     &StatusDiffBaseStorage{},
		"status (field=status.diff-base)":                       &StatusDiffBaseStorage{Field: "status.diff-base"},
	}
	for _, r := range golden[struct {
		Storage string
		Essence *Essence
		Patch   json.RawMessage `json:"patch (bytes)"`
	}](t, "diffbase_stored_form") {
		id := "CH-148"
		if strings.HasPrefix(r.Storage, "status") {
			id = "CH-149"
		}
		t.Run(id+" golden: "+r.Storage, func(t *testing.T) {
			s, b, p := storages[r.Storage], mustBody(t, `{"metadata":{}}`), &Patch{}
			s.Store(r.Essence, b, p)
			if diff := cmp.Diff(mustObject(t, string(r.Patch)), merged(p)); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
			stored, err := NewBody(rawjson.Merge(b.Map(), any(p.Map())))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Fetch(stored); err != nil || !bytes.Equal(got.text(), r.Essence.text()) {
				t.Errorf("what was stored is read as %s, %v", got.text(), err)
			}
		})
	}
}

// ownStorage is a typical storage of a user.
type ownStorage struct {
	AnnotationsDiffBaseStorage
	stored *Essence
}

func (s *ownStorage) Build(body *Body, fields []FieldPath) *Essence {
	e := s.AnnotationsDiffBaseStorage.Build(body, fields)
	e.Remove("spec.secret")
	return e
}
func (s *ownStorage) Fetch(*Body) (*Essence, error)             { return s.stored, nil }
func (s *ownStorage) Store(essence *Essence, _ *Body, _ *Patch) { s.stored = essence }

func TestDiffBaseStorages(t *testing.T) {
	const object = `{"kind":"X","metadata":{"name":"n"},"spec":{"a":1,"secret":2},"status":{"x":1,"kopf":{"last-handled-configuration":"{\"old\":1}"}}}`
	text := func(e *Essence) string { return string(e.text()) }
	t.Run("CH-150 several storages", func(t *testing.T) {
		own := &ownStorage{}
		s := MultiDiffBaseStorage{&StatusDiffBaseStorage{IgnoredFields: []FieldPath{"spec.a"}}, own, &AnnotationsDiffBaseStorage{Key: "k"}}
		b, p := mustBody(t, object), &Patch{}
		e := s.Build(b, []FieldPath{"status"})
		if want := `{"status":{"x":1}}`; text(e) != want {
			t.Errorf("built %s, want %s", text(e), want)
		}
		if got, err := s.Fetch(b); err != nil || text(got) != `{"old":1}` {
			t.Errorf("fetched %s, %v", text(got), err)
		}
		s.Store(e, b, p)
		want := `{"metadata":{"annotations":{"kopf.zalando.org/k":"{\"status\":{\"x\":1}}\n"}},"status":{"kopf":{"last-handled-configuration":"{\"status\":{\"x\":1}}"}}}`
		if diff := cmp.Diff(mustObject(t, want), merged(p)); diff != "" || own.stored != e {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if got, err := s.Fetch(mustBody(t, `{"metadata":{}}`)); err != nil || got != e {
			t.Errorf("the second storage is not asked: %s, %v", text(got), err)
		}
	})
	t.Run("CH-T21 damaged diff-bases", func(t *testing.T) {
		for _, bad := range []string{`"{"`, `"[]"`, `"1"`, `""`, `"{} {}"`, `"{\"a\":1,}"`} {
			a := mustBody(t, annotated("kopf.zalando.org/last-handled-configuration", bad))
			s := mustBody(t, `{"metadata":{},"status":{"kopf":{"last-handled-configuration":`+bad+`}}}`)
			for _, storage := range []DiffBaseStorage{&AnnotationsDiffBaseStorage{}, &StatusDiffBaseStorage{}} {
				e, err := MultiDiffBaseStorage{storage}.Fetch(a)
				if err == nil {
					e, err = storage.Fetch(s)
				}
				if e != nil || err == nil || !strings.Contains(err.Error(), "last-handled-configuration") {
					t.Errorf("%s is read as %s, %v, want an error that says where", bad, text(e), err)
				}
			}
		}
		if e, err := (&StatusDiffBaseStorage{}).Fetch(mustBody(t, `{"status":{"kopf":{"last-handled-configuration":{}}}}`)); e != nil || err == nil {
			t.Errorf("an object is read as %s, %v, want an error", text(e), err)
		}
	})
	t.Run("CH-135 replica sets", func(t *testing.T) {
		b := mustBody(t, `{"kind":"ReplicaSet","metadata":{"ownerReferences":[{"kind":"Deployment"}],"annotations":{"kopf.zalando.org/last-handled-configuration":"{}"}}}`)
		if e, err := (&AnnotationsDiffBaseStorage{}).Fetch(b); e != nil || err != nil {
			t.Errorf("that of the deployment is read: %s, %v", text(e), err)
		}
	})
}

func TestStorageBeside(t *testing.T) {
	const e, quoted = `{"spec":{"a":1}}`, `{\"spec\":{\"a\":1}}`
	for _, tt := range []struct {
		name    string
		storage DiffBaseStorage
		stored  string // the patch
	}{
		{"annotations", &AnnotationsDiffBaseStorage{}, `{"metadata":{"annotations":{"kopf.zalando.org/tracked-fields":"` + quoted + `\n"}}}`},
		{"a prefix", &AnnotationsDiffBaseStorage{Prefix: "kopf.x"}, `{"metadata":{"annotations":{"kopf.x/tracked-fields":"` + quoted + `\n"}}}`},
		{"status", &StatusDiffBaseStorage{}, `{"status":{"kopf":{"tracked-fields":"` + quoted + `"}}}`},
		{"a field", &StatusDiffBaseStorage{Field: `status.a\.b.c`}, `{"status":{"a.b":{"tracked-fields":"` + quoted + `"}}}`},
		{"of a user", &ownStorage{}, `{"metadata":{"annotations":{"kopf.zalando.org/tracked-fields":"` + quoted + `\n"}}}`},
		{"of a user, not of ours", struct{ DiffBaseStorage }{&ownStorage{}}, `{"metadata":{"annotations":{"kopf.zalando.org/tracked-fields":"` + quoted + `\n"}}}`},
		{"several", MultiDiffBaseStorage{&StatusDiffBaseStorage{}, &AnnotationsDiffBaseStorage{}},
			`{"metadata":{"annotations":{"kopf.zalando.org/tracked-fields":"` + quoted + `\n"}},"status":{"kopf":{"tracked-fields":"` + quoted + `"}}}`},
	} {
		t.Run("CH-T28 "+tt.name, func(t *testing.T) {
			s := siblingStorage(tt.storage, trackedKey)
			b, p := mustBody(t, `{"metadata":{"name":"n"},"spec":{"a":1}}`), &Patch{}
			essence := essenceIn([]byte(e))
			s.Store(essence, b, p)
			if diff := cmp.Diff(mustObject(t, tt.stored), merged(p)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			stored, err := NewBody(rawjson.Merge(b.Map(), any(p.Map())))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Fetch(stored); err != nil || !essence.Equal(got) {
				t.Errorf("what was stored is read as %s, %v", got.text(), err)
			}
			settings := &PersistenceSettings{DiffBaseStorage: tt.storage, ProgressStorage: &AnnotationsProgressStorage{Prefix: "other"}}
			if now := essenceOf(stored, []FieldPath{"status", "metadata.annotations"}, settings); !essence.Equal(now) {
				t.Errorf("it is in the essence: %s", now.text())
			}
			purgeEssence(s, b, p)
			if len(merged(p)) > 0 {
				t.Errorf("not taken out of the patch: %v", merged(p))
			}
			purgeEssence(s, stored, p)
			after, _ := NewBody(rawjson.Merge(stored.Map(), any(p.Map())))
			if got, err := s.Fetch(after); got != nil || err != nil {
				t.Errorf("not purged: %s, %v", got.text(), err)
			}
		})
	}
}

// FuzzEssence compares the tracked fields from bytes with those from maps.
func FuzzEssence(f *testing.F) {
	f.Add([]byte(`{"kind":"X","metadata":{"labels":{"a":"1"},"annotations":{"kopf.zalando.org/x":"1","o/kopf-managed":"","o/y":"2","z":"ž"}},"spec":{"a":{}}}`), "status.a\nmetadata.annotations", "spec.a.b")
	f.Add([]byte(`{"metadata":{"annotations":null,"labels":{}},"status":{"a":null},"x":null}`), "status", "x.y")
	f.Add([]byte(`{"metadata":{"annotations":{"a":"b"},"name":"n"},"spec":1}`), "metadata.name", "metadata.annotations.a")
	f.Fuzz(func(t *testing.T, data []byte, fields, ignored string) {
		object, err := rawjson.DecodeObject(data)
		if err != nil {
			t.Skip()
		}
		if meta, ok := object["metadata"]; ok && rawjson.AsMap(meta) == nil {
			t.Skip() // no API server sends this
		}
		for _, key := range []string{"labels", "annotations"} {
			if v, ok := rawjson.Lookup(object, "metadata", key); ok && v != nil && rawjson.AsMap(v) == nil {
				t.Skip() // as above
			}
		}
		b, err := ParseBody(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		s := &AnnotationsDiffBaseStorage{IgnoredFields: paths(ignored)}
		p := &PersistenceSettings{DiffBaseStorage: s, ProgressStorage: &SmartProgressStorage{}}
		got := essenceOf(b, paths(fields), p)
		want := plainEssence(object, paths(fields), paths(ignored))
		if diff := cmp.Diff(want, got.Map()); diff != "" {
			t.Fatalf("%s, fields %q, ignored %q: (-want +got)\n%s", data, fields, ignored, diff)
		}
		patch := &Patch{}
		s.Store(got, b, patch)
		stored, err := NewBody(rawjson.Merge(b.Map(), any(patch.Map())))
		if err != nil {
			t.Fatal(err)
		}
		again, err := storedEssence(stored, p)
		if err != nil || !bytes.Equal(again.text(), got.text()) || !again.Equal(got) {
			t.Fatalf("stored %s, fetched %s, %v", got.text(), again.text(), err)
		}
	})
}

func paths(lines string) []FieldPath {
	var all []FieldPath
	for line := range strings.Lines(lines) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line != "metadata" {
			all = append(all, FieldPath(line))
		}
	}
	return all
}

// plainEssence computes the tracked fields for the default storages, directly by the statements.
func plainEssence(object map[string]any, fields, ignored []FieldPath) map[string]any {
	e := rawjson.AsMap(rawjson.Clone(object))
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(e, key)
	}
	set := func(path ...string) {
		v, ok := rawjson.Lookup(object, path...)
		if !ok {
			return
		}
		m := e
		for _, key := range path[:len(path)-1] {
			if rawjson.AsMap(m[key]) == nil {
				m[key] = map[string]any{}
			}
			m = rawjson.AsMap(m[key])
		}
		m[path[len(path)-1]] = rawjson.Clone(v)
	}
	set("metadata", "labels")
	set("metadata", "annotations")
	annotations, _ := rawjson.Lookup(e, "metadata", "annotations")
	for key := range rawjson.AsMap(annotations) {
		prefix, _, ok := strings.Cut(key, "/")
		_, managed := rawjson.AsMap(rawjson.AsMap(object["metadata"])["annotations"])[prefix+"/kopf-managed"]
		if key == markers.LastApplied || ok && (managed || prefix == markers.DefaultPrefix || strings.HasSuffix(prefix, "."+markers.DefaultPrefix)) {
			delete(rawjson.AsMap(annotations), key)
		}
	}
	for _, field := range fields {
		if keys := field.Keys(); len(keys) < 2 || keys[0] != "metadata" || keys[1] != "managedFields" && keys[1] != "resourceVersion" {
			set(keys...)
		}
	}
	tidy := func() {
		meta := rawjson.AsMap(e["metadata"])
		for _, key := range []string{"annotations", "labels"} {
			if len(rawjson.AsMap(meta[key])) == 0 {
				delete(meta, key)
			}
		}
		if len(meta) == 0 {
			delete(e, "metadata")
		}
		if v := e["status"]; v == nil || rawjson.AsMap(v) != nil && len(rawjson.AsMap(v)) == 0 {
			delete(e, "status")
		}
	}
	tidy()
	for _, field := range ignored {
		plainRemove(e, field.Keys())
	}
	annotations, _ = rawjson.Lookup(e, "metadata", "annotations")
	for key := range rawjson.AsMap(annotations) {
		if strings.HasPrefix(key, markers.DefaultPrefix+"/") {
			delete(rawjson.AsMap(annotations), key)
		}
	}
	tidy()
	plainRemove(e, []string{"status", "kopf", "progress"})
	tidy()
	return e
}

func plainRemove(m map[string]any, path []string) {
	if len(path) == 1 {
		delete(m, path[0])
	} else if next := rawjson.AsMap(m[path[0]]); next != nil {
		if plainRemove(next, path[1:]); len(next) == 0 {
			delete(m, path[0])
		}
	}
}

// busy returns an object of about 2 KiB that was handled before.
func busy(t testing.TB, changed bool) *Body {
	object := map[string]any{
		"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
		"metadata": map[string]any{
			"name": "busy", "namespace": "default", "uid": "4b1c8e3e-6f6e-4bd1-9c38-0f9b2c5d7a11", "resourceVersion": "123456", "generation": 3,
			"creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": []string{"kopf.zalando.org/KopfFinalizerMarker"},
			"labels":      map[string]string{"app": "busy", "tier": "backend", "env": "production"},
			"annotations": map[string]string{"note": "what people write here", "example.com/owner": "a team"},
		},
		"spec":   map[string]any{"duration": "1m", "field": "value", "replicas": 3, "items": slices.Repeat([]any{map[string]any{"name": "item", "size": 10, "text": "two\nlines"}}, 10)},
		"status": map[string]any{"phase": "Ready", "create": map[string]any{"message": strings.Repeat("done ", 20)}},
	}
	b, err := NewBody(object)
	if err != nil {
		t.Fatal(err)
	}
	p := &Patch{}
	s := &AnnotationsDiffBaseStorage{}
	s.Store(s.Build(b, nil), b, p)
	if changed {
		p.Set("spec.field", "another value")
	}
	if b, err = NewBody(rawjson.Merge(b.Map(), any(p.Map()))); err != nil {
		t.Fatal(err)
	}
	return b
}

func BenchmarkEssence(b *testing.B) {
	body, p := busy(b, false), NewSettings().Persistence.resolve(true)
	b.SetBytes(int64(len(body.raw)))
	b.ReportAllocs()
	for b.Loop() {
		essenceOf(body, nil, p).bytes()
	}
}

func BenchmarkEssenceUnchanged(b *testing.B) {
	body, p := busy(b, false), NewSettings().Persistence.resolve(true)
	b.SetBytes(int64(len(body.raw)))
	b.ReportAllocs()
	for b.Loop() {
		old, err := storedEssence(body, p)
		if err != nil || !old.Equal(essenceOf(body, nil, p)) {
			b.Fatal("it has changed")
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	body, p := busy(b, true), NewSettings().Persistence.resolve(true)
	old, err := storedEssence(body, p)
	if err != nil {
		b.Fatal(err)
	}
	now := essenceOf(body, nil, p)
	b.SetBytes(int64(len(now.text())))
	b.ReportAllocs()
	for b.Loop() {
		if d := diffRaw(old.bytes(), now.bytes()); len(d) != 1 {
			b.Fatal(d)
		}
	}
}

func BenchmarkParseBody(b *testing.B) {
	raw := busy(b, false).raw
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseBody(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// statesOf returns the states of a handling with one state.
func statesOf(e *Essence, stored []byte, since time.Time) *handlingStates {
	return &handlingStates{all: []essence.Seen{{State: e.in()}}, base: essence.StoredDigest(stored), since: since}
}

func TestHandlingState(t *testing.T) {
	const last, seen = `{"spec":{"x":1,"text":"né"},"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"x":27,"text":"ne"},"metadata":{"labels":{"a":"b"}}}`
	began := time.Date(2020, 1, 1, 0, 0, 0, 123456000, time.UTC)
	store := func(stored []byte, text string) *ProgressRecord {
		e, err := parseEssence([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return statesOf(e, stored, began).record(1, stored)
	}
	t.Run("DF-25 it is kept as the difference", func(t *testing.T) {
		if message := *store([]byte(last), seen).Message; !strings.HasSuffix(message, ` 13 35 27,"text":"ne`) {
			t.Errorf("got %q", message)
		}
	})
	for name, stored := range map[string][]byte{
		"none": nil, "the same": []byte(seen), "another": []byte(last), "with spaces and a newline": []byte(" " + strings.ReplaceAll(last, ":", ": ") + "\n"),
		"escaped": []byte(strings.ReplaceAll(last, "é", `\u00e9`)), "empty": []byte("{}"), "its beginning": []byte(`{"spec":{"x":2}}`),
	} {
		t.Run("DF-24 it is read as it was kept: "+name, func(t *testing.T) {
			got := handlingStatesOf(store(stored, seen), stored)
			if got == nil || string(got.all[0].State.Text()) != seen || !got.since.Equal(began) || got.base != essence.StoredDigest(stored) {
				t.Errorf("got %+v", got)
			}
			if other := handlingStatesOf(store(stored, seen), []byte(`{"spec":{"x":5}}`)); other != nil {
				t.Errorf("it counts for another state: %s", other.all[0].State.Text())
			}
		})
	}
	t.Run("DF-24 damage counts as none", func(t *testing.T) {
		sum := essence.StoredDigest([]byte(last))
		for _, message := range []string{"", sum, sum + " 1 1", sum + " x 1 y", sum + " 1 x y", sum + " -1 1 y", sum + " 1 -1 y", sum + " 999 0 y", sum + " 5 999 y", sum + " 0 0 y", sum + " 0 0 null", sum + " 0 0 [1]", "none 0 0 {}"} {
			if got := handlingStatesOf(&ProgressRecord{Message: &message}, []byte(last)); got != nil {
				t.Errorf("%q is read as %s", message, got.all[0].State.Text())
			}
		}
		if handlingStatesOf(nil, nil) != nil || handlingStatesOf(&ProgressRecord{}, nil) != nil {
			t.Error("nothing is read as something")
		}
	})
	t.Run("DF-46 each handler has seen the state that was current when it ended", func(t *testing.T) {
		one, two := essenceIn([]byte(last)), essenceIn([]byte(seen))
		ended := func(at time.Time) *ProgressRecord { return &ProgressRecord{Success: true, Stopped: at} }
		first, late := ended(began), ended(began.Add(-time.Hour)) // the latter of an operator whose clock is slow
		s := statesOf(one, nil, began)
		s.add(two.in(), []*ProgressRecord{late}, first.Stopped)
		third := ended(began.Add(time.Hour))
		s.add(two.in(), []*ProgressRecord{third}, first.Stopped)
		if len(s.all) != 2 || s.of(first) != &s.all[0] || s.of(late) != &s.all[1] || s.of(third) != &s.all[1] {
			t.Errorf("got %v for the ends %v, %v, %v", s.all, first.Stopped, late.Stopped, third.Stopped)
		}
		if s.of(ended(began.Add(-time.Minute))) != &s.all[0] || s.of(&ProgressRecord{}) != &s.all[0] {
			t.Error("records with an early or no end do not count as those that have seen the oldest state")
		}
		if got := s.without(one, []*ProgressRecord{first, late}); len(got.all) != 1 || !got.all[0].Is(two.in()) {
			t.Errorf("without the first state: got %v", got.all)
		}
		if got := s.without(nil, []*ProgressRecord{first}); len(got.all) != 1 || !got.all[0].Is(one.in()) {
			t.Errorf("without states that no handler has seen: got %v", got.all)
		}
		if got := s.without(two, []*ProgressRecord{late}); got != nil {
			t.Errorf("without all: got %v", got.all)
		}
	})
	t.Run("DF-25 without room its digest is kept", func(t *testing.T) {
		state := statesOf(essenceIn([]byte(seen)), []byte(last), began)
		got := handlingStatesOf(state.shortRecord(), []byte(last))
		if got == nil || got.all[0].State != nil || !got.since.Equal(began) || got.base != state.base {
			t.Fatalf("got %+v", got)
		}
		is := func(text string) bool { return got.all[0].Is(essenceIn([]byte(text)).in()) }
		if !is(seen) || !is(`{"metadata":{"labels":{"a":"b"}}, "spec":{"text":"ne","x":27}}`) {
			t.Error("it is not recognized")
		}
		if is(last) {
			t.Error("another state is taken for it")
		}
		if other := handlingStatesOf(state.shortRecord(), []byte(seen)); other != nil {
			t.Error("it counts for another state")
		}
	})
}

func TestAnnotationsSize(t *testing.T) {
	body := mustBody(t, `{"metadata":{"annotations":{"a":"12","b":"345","c":"6"}}}`)
	one, two := &Patch{}, &Patch{}
	one.put("x", "metadata", "annotations", "a")
	one.put("yy", "metadata", "annotations", "d")
	two.put(nil, "metadata", "annotations", "b")
	two.put("z", "metadata", "annotations", "d")
	if got := annotationsSize(body, one, &Patch{}, two); got != 6 {
		t.Errorf("DF-25: got %d bytes, want 6", got)
	}
	if got := annotationsSize(mustBody(t, `{"metadata":{}}`)); got != 0 {
		t.Errorf("DF-25: got %d bytes, want none", got)
	}
}

// TestEssenceOwnsItsText checks that a decoded Essence does not change with the buffer that it was decoded from, which decoders use again.
func TestEssenceOwnsItsText(t *testing.T) {
	data := []byte(`{"spec":{"field":"value"}}`)
	var essence Essence
	if err := essence.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	copy(data, `{"spec":{"field":"other"}}`)
	if got, want := string(essence.text()), `{"spec":{"field":"value"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
