package kopf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// The tests in this file hold the glance at objects against the cycle, which is its slow and obvious twin: what is settled at a glance,
// the cycle has nothing to do for either, and objects at rest are settled at a glance.

// twin is a reactor without a server, whose handlers and requests are counted.
type twin struct {
	*reactor
	calls, requests int
}

type deaf struct{}

func (deaf) post(int, ObjectReference, string, string, string) {}
func (deaf) refuse(string, error)                              {}
func (deaf) listens() (int, bool)                              { return 0, false }

// twinHandlers are sets of handlers to look at objects with.
var twinHandlers = map[string]func(r *Registry, fn ChangeFunc){
	"creation": func(r *Registry, fn ChangeFunc) { r.OnCreate("widgets", fn, &ChangeOptions{ID: "create"}) },
	"deletion": func(r *Registry, fn ChangeFunc) {
		r.OnUpdate("widgets", fn, &ChangeOptions{ID: "update"})
		r.OnDelete("widgets", fn, &ChangeOptions{ID: "delete"})
	},
	"optional deletion": func(r *Registry, fn ChangeFunc) {
		r.OnDelete("widgets", fn, &ChangeOptions{ID: "delete", Optional: true})
	},
	"resuming": func(r *Registry, fn ChangeFunc) {
		r.OnCreate("widgets", fn, &ChangeOptions{ID: "create"})
		r.OnResume("widgets", fn, &ChangeOptions{ID: "resume"})
	},
	"labels": func(r *Registry, fn ChangeFunc) {
		r.OnUpdate("widgets", fn, &ChangeOptions{ID: "update", Labels: Match{"a": "b", "c": Absent}})
		r.OnResume("widgets", fn, &ChangeOptions{ID: "resume", Annotations: Match{"note": Present}})
	},
	"fields": func(r *Registry, fn ChangeFunc) {
		r.OnField("widgets", "spec.a", fn, &ChangeOptions{ID: "field"})
		r.OnUpdate("widgets", fn, &ChangeOptions{ID: "update", Field: "spec.b", Value: 1})
	},
	"predicates": func(r *Registry, fn ChangeFunc) {
		r.OnUpdate("widgets", fn, &ChangeOptions{ID: "update", When: func(*Change) bool { return true }})
	},
	"events": func(r *Registry, fn ChangeFunc) {
		r.OnCreate("widgets", fn, &ChangeOptions{ID: "create", Labels: Match{"no": "such"}})
		r.OnEvent("widgets", func(ctx context.Context, e *WatchEvent) error { return fn(ctx, nil) }, &EventOptions{ID: "event", Labels: Match{"a": Absent}})
	},
	"all events": func(r *Registry, fn ChangeFunc) {
		r.OnEvent("widgets", func(ctx context.Context, e *WatchEvent) error { return fn(ctx, nil) }, &EventOptions{ID: "event"})
	},
	"the status": func(r *Registry, fn ChangeFunc) { r.OnField("widgets", "status.x", fn, &ChangeOptions{ID: "field"}) },
}

// twinStorages are places to keep states and records in.
var twinStorages = map[string]func(p *PersistenceSettings){
	"the default": func(p *PersistenceSettings) {},
	"the status": func(p *PersistenceSettings) {
		p.DiffBaseStorage, p.ProgressStorage = &StatusDiffBaseStorage{}, &StatusProgressStorage{}
	},
	"a prefix": func(p *PersistenceSettings) {
		p.DiffBaseStorage, p.ProgressStorage = &AnnotationsDiffBaseStorage{Prefix: "my.dev"}, &AnnotationsProgressStorage{Prefix: "my.dev"}
	},
	"two prefixes": func(p *PersistenceSettings) {
		p.DiffBaseStorage = &AnnotationsDiffBaseStorage{Prefix: "my.dev", Key: "base"}
	},
	"ignorance": func(p *PersistenceSettings) {
		p.DiffBaseStorage = &AnnotationsDiffBaseStorage{IgnoredFields: []FieldPath{"spec.a"}}
	},
	"two places": func(p *PersistenceSettings) {
		p.DiffBaseStorage = MultiDiffBaseStorage{&AnnotationsDiffBaseStorage{}, &StatusDiffBaseStorage{}}
	},
	"an older time": func(p *PersistenceSettings) { p.LegacyFinalizers = []string{"old.dev/finalizer"} },
}

var twinResource = Resource{Group: "kopf.dev", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true, Preferred: true, Verbs: []string{"list", "watch", "patch"}}

func newTwin(t *testing.T, handlers, storage string) *twin {
	t.Helper()
	w := &twin{}
	gone := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests++
		rw.WriteHeader(http.StatusNotFound)
	})
	client, _ := clientOf(t, gone, nil)
	settings := NewSettings()
	twinStorages[storage](&settings.Persistence)
	registry := &Registry{}
	twinHandlers[handlers](registry, func(context.Context, *Change) error {
		w.calls++
		return nil
	})
	served, warnings := registry.resolve([]Resource{twinResource})
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	o := &observer{client: client, settings: settings, registry: registry, lifecycle: AllAtOnce, log: slog.New(slog.DiscardHandler), memo: &Memo{},
		events: deaf{}, pauses: &pausing{}, handlers: t.Context(), requests: t.Context()}
	for _, what := range served {
		w.reactor = o.react(what)
	}
	return w
}

// object makes an object of its parts, with the state stored on it that it is in.
func (w *twin) object(t *testing.T, spec, labels, annotations, status string) *Body {
	t.Helper()
	body := mustBody(t, fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"Widget","metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"5",`+
		`"labels":%s,"annotations":%s},"spec":%s,"status":%s}`, labels, annotations, spec, status))
	p, patch := &w.settings.Persistence, &Patch{}
	what := w.served.Load()
	essence := essenceOf(body, what.fields, p)
	p.DiffBaseStorage.Store(essence, body, patch)
	p.track(p.trackingOf(what.fields), essence, body, patch)
	return patch.applied(body)
}

// tampers change objects that are at rest.
var tampers = map[string]func(object map[string]any){
	"nothing": func(map[string]any) {},
	"our finalizer": func(o map[string]any) {
		o["metadata"].(map[string]any)["finalizers"] = []any{"x", NewSettings().Persistence.Finalizer}
	},
	"an old finalizer":           func(o map[string]any) { o["metadata"].(map[string]any)["finalizers"] = []any{"old.dev/finalizer"} },
	"the specification":          func(o map[string]any) { o["spec"] = map[string]any{"a": "changed"} },
	"a new stanza":               func(o map[string]any) { o["extra"] = "new" },
	"the status":                 func(o map[string]any) { o["status"] = map[string]any{"x": "new"} },
	"a deletion":                 func(o map[string]any) { o["metadata"].(map[string]any)["deletionTimestamp"] = "2020-01-01T00:00:00Z" },
	"a record":                   annotating("kopf.zalando.org/create", `{"started":"2020-01-01T00:00:00+00:00","success":true}`),
	"a record under our prefix":  annotating("my.dev/create", `{}`),
	"a touch":                    annotating("kopf.zalando.org/touch-dummy", "x"),
	"a state of a handling":      annotating("kopf.zalando.org/handling-base", `{}`),
	"the mark of another":        annotating("others.dev/kopf-managed", "yes"),
	"the state of another":       annotating("kopf.others.dev/last-handled-configuration", "{}"),
	"no labels":                  func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") },
	"an annotation of a user":    annotating("note", "new"),
	"one of kubectl":             annotating(lastAppliedKey, "{}"),
	"one of our kind":            annotating("x."+defaultPrefix+"/y", "z"),
	"a damaged state":            annotating("kopf.zalando.org/last-handled-configuration", `{"spec":`),
	"a state with another order": annotating("kopf.zalando.org/last-handled-configuration", `{"metadata":{}, "spec": {"a":1}}`),
	"the state of nothing":       annotating("kopf.zalando.org/last-handled-configuration", "null"),
	"a record in the status": func(o map[string]any) {
		o["status"] = map[string]any{"kopf": map[string]any{"progress": map[string]any{"create": map[string]any{}}}}
	},
}

func annotating(key, value string) func(map[string]any) {
	return func(o map[string]any) {
		meta := o["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if annotations == nil {
			annotations = map[string]any{}
			meta["annotations"] = annotations
		}
		annotations[key] = value
	}
}

func tampered(t *testing.T, body *Body, tamper func(map[string]any)) *Body {
	t.Helper()
	object := body.Map()
	tamper(object)
	changed, err := NewBody(object)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// compare looks at an object at a glance, and has the cycle go about it.
func (w *twin) compare(t *testing.T, what string, event EventType, body *Body) (settled bool) {
	t.Helper()
	g := w.served.Load().glancer(&w.settings.Persistence, w.log)
	if g == nil {
		return false
	}
	var o rawjson.Header
	if err := o.Scan(body.raw); err != nil {
		t.Fatal(err)
	}
	initial := event == Listed
	v := g.look(&o, body.raw, initial)
	if v == unclear || !rawjson.IsNull(o.DeletionTimestamp.Of(body.raw)) {
		return false
	}
	s := &entry{key: body.uid, typeMeta: &typeMeta{}, in: &namespace{name: "ns"}, listed: initial}
	s.activateLocked()
	w.queue.entries[s.key] = s
	w.calls, w.requests = 0, 0
	r := w.work(s, []RawEvent{{Type: event, Body: body}})
	if w.calls > 0 || w.requests > 0 || r.due || r.held {
		t.Fatalf("%s: settled at a glance, but there are %d calls and %d requests (%+v): %s", what, w.calls, w.requests, r, body.raw)
	}
	if s.handled != (v == unchanged && initial) || s.tracked != (v == unchanged) || !s.idle() {
		t.Fatalf("%s: the glance finds %d, but the cycle leaves handled %t, tracked %t, idle %t: %s", what, v, s.handled, s.tracked, s.idle(), body.raw)
	}
	return true
}

func TestGlance(t *testing.T) {
	// What is expected to be settled at a glance when nothing was tampered with, at a listing and by a change.
	at := map[string]string{"creation": "listing change", "deletion": "", "optional deletion": "listing change", "resuming": "change",
		"labels": "change", "fields": "listing change", "predicates": "", "the status": "", "events": "listing change", "all events": ""}
	for handlers := range twinHandlers {
		for storage := range twinStorages {
			t.Run("handlers of "+handlers+", stored in "+storage, func(t *testing.T) {
				w := newTwin(t, handlers, storage)
				body := w.object(t, `{"a":1,"text":"line\nüber \"all\""}`, `{"a":"b"}`, `{"note":"x"}`, `{"phase":"done"}`)
				for name, tamper := range tampers {
					listed := w.compare(t, name, Listed, tampered(t, body, tamper))
					changed := w.compare(t, name, Modified, tampered(t, body, tamper))
					rests := slices.Contains([]string{"nothing", "one of kubectl", "one of our kind"}, name)
					if !rests || storage == "ignorance" || storage == "two places" {
						continue
					}
					if want := strings.Contains(at[handlers], "listing"); listed != want {
						t.Errorf("with %s, it is settled at a listing: %t, want %t", name, listed, want)
					}
					if want := strings.Contains(at[handlers], "change"); changed != want {
						t.Errorf("with %s, it is settled by a change: %t, want %t", name, changed, want)
					}
				}
			})
		}
	}
}

// FuzzGlance has objects of all kinds looked at, with what they have been stored in and what was done to them afterwards.
func FuzzGlance(f *testing.F) {
	f.Add(`{"a":1}`, `{"a":"b"}`, `{"note":"x"}`, `{}`, 0, 0, 0)
	f.Add(`[1,2.0]`, `null`, `{}`, `{"x":null}`, 1, 1, 3)
	f.Add(`"é\u00e9\n"`, `{"c":""}`, `{"a/b":"c","kopf.dev/x":"y"}`, `{"kopf":{}}`, 2, 2, 5)
	var handlers, storages, changes []string
	for name := range twinHandlers {
		handlers = append(handlers, name)
	}
	for name := range twinStorages {
		storages = append(storages, name)
	}
	for name := range tampers {
		changes = append(changes, name)
	}
	slices.Sort(handlers)
	slices.Sort(storages)
	slices.Sort(changes)
	pick := func(names []string, i int) string { return names[((i%len(names))+len(names))%len(names)] }
	f.Fuzz(func(t *testing.T, spec, labels, annotations, status string, i, j, k int) {
		for _, part := range []string{spec, labels, annotations, status} {
			if !json.Valid([]byte(part)) || !utf8.ValidString(part) {
				return
			}
		}
		texts := map[string]string{}
		if json.Unmarshal([]byte(labels), &texts) != nil || json.Unmarshal([]byte(annotations), &texts) != nil || !strings.HasPrefix(strings.TrimSpace(status), "{") {
			return // the API server does not let others in
		}
		w := newTwin(t, pick(handlers, i), pick(storages, j))
		body := tampered(t, w.object(t, spec, labels, annotations, status), tampers[pick(changes, k)])
		w.compare(t, pick(changes, k), Listed, body)
		w.compare(t, pick(changes, k), Modified, body)
	})
}

// TestEventsAtRest counts what events cost that are settled at a glance: no worker, and next to nothing that is to be let go.
func TestEventsAtRest(t *testing.T) {
	w := newTwin(t, "creation", "the default")
	body := w.object(t, `{"a":1,"text":"`+strings.Repeat("x", 1500)+`"}`, `{"a":"b"}`, `{"note":"x"}`, `{"phase":"done"}`)
	look := w.looker(&source{})
	line := []byte(`{"type":"MODIFIED","object":` + string(body.raw) + "}\n")
	at := bytes.Index(line, []byte(`"resourceVersion":"5"`)) + len(`"resourceVersion":"`)
	var f rawjson.Frame
	version := 0
	event := func() {
		version++
		line[at] = byte('1' + version%9) // which is older in turn, but for the version 9
		if err := f.Scan(line); err != nil {
			t.Fatal(err)
		}
		if !look(EventType(f.Type), &f.Object, f.Raw, 0) {
			t.Fatal("it takes more than a glance")
		}
	}
	event()
	s := w.queue.entries["u"]
	if s == nil || s.objectState != nil || s.name != "n" || s.in.name != "ns" {
		t.Fatalf("the object is %+v", s)
	}
	if n := testing.AllocsPerRun(100, event); n > 4 {
		t.Errorf("an event makes %v allocations", n)
	}
}

// TestBytesAtRest counts what an object takes that was seen at a glance, as at the start of an operator that has handled it before.
func TestBytesAtRest(t *testing.T) {
	const objects, limit = 20_000, 400
	w := newTwin(t, "creation", "the default")
	body := string(w.object(t, `{"a":1,"text":"`+strings.Repeat("x", 1500)+`"}`, `{"a":"b"}`, `{"note":"x"}`, `{"phase":"done"}`).raw)
	look := w.looker(&source{})
	heap := func() int {
		var m runtime.MemStats
		for last := uint64(math.MaxUint64); ; last = m.HeapAlloc { // what other tests have left goes in several rounds
			runtime.GC()
			if runtime.ReadMemStats(&m); m.HeapAlloc+1<<12 > last {
				return int(m.HeapAlloc)
			}
		}
	}
	before := heap()
	for i := range objects {
		name := fmt.Sprintf("an-object-%05d", i)
		text := strings.NewReplacer(`"name":"n"`, `"name":"`+name+`"`, `"uid":"u"`, `"uid":"4b1c8e3e-6f6e-4bd1-9c38-0f9b2c5`+name[10:]+`"`,
			`"resourceVersion":"5"`, fmt.Sprintf(`"resourceVersion":"%d"`, 100_000+i)).Replace(body)
		var o rawjson.Header
		if err := o.Scan([]byte(text)); err != nil || !look(Listed, &o, []byte(text), 0) {
			t.Fatalf("%s takes more than a glance (%v)", name, err)
		}
	}
	if got := (heap() - before) / objects; got > limit || len(w.queue.entries) != objects {
		t.Errorf("%d objects take %d bytes each, want %d at most", len(w.queue.entries), got, limit)
	} else {
		t.Logf("an object takes %d bytes", got)
	}
	runtime.KeepAlive(w)
}

// TestGlanceWaits shows objects at a glance that are at rest as they come, but not as they are known.
func TestGlanceWaits(t *testing.T) {
	version := func(v string) func(map[string]any) {
		return func(o map[string]any) { o["metadata"].(map[string]any)["resourceVersion"] = v }
	}
	tests := []struct {
		name   string
		before func(w *twin)
		t      EventType
		want   bool
		stays  bool // whether it is active afterwards
	}{
		{name: "nothing is known of it", before: func(w *twin) {}, want: true},
		{name: "the operator has a memo to copy", before: func(w *twin) { w.memo.Store("a", 1) }},
		{name: "the operator pauses", before: func(w *twin) { w.pauses.block("x", true) }},
		{name: "it is deleted", before: func(w *twin) {}, t: Deleted},
		{name: "a handler runs", before: func(w *twin) { w.known().working = true }, stays: true},
		{name: "something is left to be sent", before: func(w *twin) { w.known().unsent = &unsent{} }, stays: true},
		{name: "a pause is not over", before: func(w *twin) { w.known().errors = 1 }, stays: true},
		{name: "it is remembered", before: func(w *twin) { w.known().memory.get() }, stays: true},
		{name: "our own patch comes back", before: func(w *twin) { w.known().expected = "5" }, want: true},
		{name: "our own patch is not back", before: func(w *twin) { w.known().expected = "6" }, stays: true},
		{name: "it was seen already", before: func(w *twin) { w.known().version = "5" }, want: true, stays: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newTwin(t, "creation", "the default")
			tt.before(w)
			body := tampered(t, w.object(t, `{"a":1}`, `{}`, `{}`, `{}`), version("5"))
			var o rawjson.Header
			if err := o.Scan(body.raw); err != nil {
				t.Fatal(err)
			}
			if got := w.looker(&source{listing: 3})(tt.t, &o, body.raw, 0); got != tt.want {
				t.Errorf("it is settled: %t, want %t", got, tt.want)
			}
			s := w.queue.entries["u"]
			if stays := s != nil && s.objectState != nil; stays != tt.stays {
				t.Errorf("the object has something under way: %t, want %t", stays, tt.stays)
			}
			if tt.want && (s.version != "5" || s.listing != 3) {
				t.Errorf("it is left with the version %q of the listing %d", s.version, s.listing)
			}
		})
	}
}

// known makes an object known, and active.
func (w *twin) known() *entry {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	s := w.queue.addLocked("u", ObjectReference{APIVersion: "kopf.dev/v1", Kind: "Widget", Namespace: "ns", Name: "n", UID: "u"}, false)
	s.version = "1"
	s.activateLocked()
	return s
}

// BenchmarkGlance looks at an object of 2 KiB that is at rest. It allocates nothing.
//
//	go test -run xxx -bench Glance .
func BenchmarkGlance(b *testing.B) {
	body, p := busy(b, false), &NewSettings().Persistence
	registry := &Registry{}
	registry.OnDelete("widgets", func(context.Context, *Change) error { return nil }, &ChangeOptions{ID: "delete"})
	served, _ := registry.resolve([]Resource{twinResource})
	var g *glancer
	for _, what := range served {
		g = what.glancer(p, slog.New(slog.DiscardHandler))
	}
	b.SetBytes(int64(len(body.raw)))
	b.ReportAllocs()
	var o rawjson.Header
	for b.Loop() {
		if err := o.Scan(body.raw); err != nil || g.look(&o, body.raw, false) != unchanged {
			b.Fatal("it takes more than a glance")
		}
	}
}
