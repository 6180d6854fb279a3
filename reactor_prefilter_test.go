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

	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// The tests in this file compare the prefilter with the cycle, which makes the same decisions slowly and obviously. Where the prefilter skips an object, the
// cycle has no work either. The prefilter skips idle objects.

// prefilterPair is a reactor without a server, whose handlers and requests are counted.
type prefilterPair struct {
	*reactor
	calls, requests int
}

type discardEvents struct{}

func (discardEvents) post(slog.Level, ObjectReference, string, string, string) {}
func (discardEvents) reject(string, error)                                     {}
func (discardEvents) logLevel() (slog.Level, bool)                             { return 0, false }

// prefilterHandlers are sets of handlers for the objects.
var prefilterHandlers = map[string]func(r *Registry, fn ChangeFunc){
	"creation": func(r *Registry, fn ChangeFunc) { r.OnCreate("widgets", fn, &ChangeOptions{ID: "create"}) },
	"deletion": func(r *Registry, fn ChangeFunc) {
		r.OnUpdate("widgets", fn, &ChangeOptions{ID: "update"})
		r.OnDelete("widgets", fn, &ChangeOptions{ID: "delete"})
	},
	"optional deletion": func(r *Registry, fn ChangeFunc) {
		r.OnDelete("widgets", fn, &ChangeOptions{ID: "delete", WithoutFinalizer: true})
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

// prefilterStorages are storages for states and records.
var prefilterStorages = map[string]func(p *PersistenceSettings){
	"the default":                func(p *PersistenceSettings) {},
	"the status, or annotations": func(p *PersistenceSettings) { p.Storage = InStatus },
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
	"traces": func(p *PersistenceSettings) { p.untracked = "trace" },
	"two places": func(p *PersistenceSettings) {
		p.DiffBaseStorage = MultiDiffBaseStorage{&AnnotationsDiffBaseStorage{}, &StatusDiffBaseStorage{}}
	},
	"an older time": func(p *PersistenceSettings) { p.LegacyFinalizers = []string{"old.dev/finalizer"} },
}

var prefilterResource = Resource{Group: "kopf.dev", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true, Preferred: true, Verbs: []string{"list", "watch", "patch"}}

func newPrefilterPair(t *testing.T, handlers, storage string) *prefilterPair {
	t.Helper()
	w := &prefilterPair{}
	gone := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests++
		rw.WriteHeader(http.StatusNotFound)
	})
	client, _ := clientOf(t, gone, nil)
	settings := NewSettings()
	prefilterStorages[storage](&settings.Persistence)
	registry := &Registry{}
	prefilterHandlers[handlers](registry, func(context.Context, *Change) error {
		w.calls++
		return nil
	})
	served, warnings := registry.resolve([]discovery.Resource{discovery.Resource(prefilterResource)}, nil)
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	o := &observer{environment: environment{client: client, settings: settings, lifecycle: AllAtOnce, log: slog.New(slog.DiscardHandler), memo: &Memo{}, events: discardEvents{}, pauser: &pauser.Pauser{}, handlers: t.Context()}, registry: registry,
		requests: t.Context()}
	for _, what := range served {
		what.persistence = settings.Persistence.resolve(true)
		w.reactor = o.newReactor(what)
	}
	return w
}

// object makes an object from its members, with its current state stored on it.
func (w *prefilterPair) object(t *testing.T, spec, labels, annotations, status string) *Body {
	t.Helper()
	body := mustBody(t, fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"Widget","metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"5",`+
		`"labels":%s,"annotations":%s},"spec":%s,"status":%s}`, labels, annotations, spec, status))
	r := w.served.Load()
	p, patch := r.persistence, &Patch{}
	essence := essenceOf(body, r.fields, p)
	p.DiffBaseStorage.Store(essence, body, patch)
	p.track(p.trackingOf(r.fields), essence, body, patch)
	return patch.applied(body)
}

// mutations change idle objects.
var mutations = map[string]func(object map[string]any){
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
	"a trace":                    annotating("trace", "x"),
	"one of kubectl":             annotating(markers.LastApplied, "{}"),
	"one of our kind":            annotating("x."+markers.DefaultPrefix+"/y", "z"),
	"a damaged state":            annotating("kopf.zalando.org/last-handled-configuration", `{"spec":`),
	"a state with another order": annotating("kopf.zalando.org/last-handled-configuration", `{"metadata":{}, "spec": {"a":1}}`),
	"the same state with another order": func(o map[string]any) {
		annotations, _ := o["metadata"].(map[string]any)["annotations"].(map[string]any)
		for key, text := range annotations {
			if state, err := rawjson.Decode([]byte(text.(string))); strings.HasSuffix(key, "/last-handled-configuration") && err == nil {
				annotations[key] = backwards(state)
			}
		}
	},
	"the state of nothing": annotating("kopf.zalando.org/last-handled-configuration", "null"),
	"what records leave in the status": func(o map[string]any) {
		status, _ := o["status"].(map[string]any)
		if status == nil {
			status = map[string]any{}
			o["status"] = status
		}
		own, _ := status["kopf"].(map[string]any)
		if own == nil {
			own = map[string]any{}
			status["kopf"] = own
		}
		own["progress"] = map[string]any{}
	},
	"a record in the status": func(o map[string]any) {
		o["status"] = map[string]any{"kopf": map[string]any{"progress": map[string]any{"create": map[string]any{}}}}
	},
}

// backwards encodes a value with the keys of its objects in reverse order, and with spaces.
func backwards(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var members []string
		for _, key := range slices.Backward(rawjson.SortedKeys(v)) {
			members = append(members, string(rawjson.AppendString(nil, key))+" : "+backwards(v[key]))
		}
		return "{ " + strings.Join(members, ",\n") + "}"
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, backwards(item))
		}
		return "[" + strings.Join(items, ", ") + " ]"
	}
	text, err := rawjson.Encode(v)
	if err != nil {
		panic(err) // it was decoded before
	}
	return string(text)
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

func mutated(t testing.TB, body *Body, tamper func(map[string]any)) *Body {
	t.Helper()
	object := body.Map()
	tamper(object)
	changed, err := NewBody(object)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// compare passes an object to the prefilter, and then to a cycle.
func (w *prefilterPair) compare(t *testing.T, what string, event EventType, body *Body) (settled bool) {
	t.Helper()
	p := w.served.Load().prefilter(w.log)
	if p == nil {
		return false
	}
	var o rawjson.Header
	if err := o.Scan(body.raw); err != nil {
		t.Fatal(err)
	}
	initial := event == Listed
	v := p.decide(&o, body.raw, initial)
	if v.Kind != decision.Skip && v.Kind != decision.Unchanged || !rawjson.IsNull(o.DeletionTimestamp.Of(body.raw)) {
		return false
	}
	e := &entry{key: body.uid, namespace: &namespace{name: "ns"}, listed: initial}
	e.typeMeta.Store(&typeMeta{})
	e.activateLocked()
	w.queue.entries[e.key] = e
	w.calls, w.requests = 0, 0
	r := w.reconcile(e, []RawEvent{{Type: event, Body: body}}, epoch{})
	if w.calls > 0 || w.requests > 0 || r.requeue {
		t.Fatalf("%s: skipped by the prefilter, but there are %d calls and %d requests (%+v): %s", what, w.calls, w.requests, r, body.raw)
	}
	if e.last.handled != (v.Kind == decision.Unchanged && initial) || e.last.trackingCurrent != (v.Kind == decision.Unchanged) || !e.state.idle() {
		t.Fatalf("%s: the prefilter decides %+v, but the cycle leaves handled %t, tracked %t, idle %t: %s", what, v, e.last.handled, e.last.trackingCurrent, e.state.idle(), body.raw)
	}
	return true
}

func TestPrefilter(t *testing.T) {
	// The events of unchanged objects that the prefilter must skip: a list, a change, or both.
	at := map[string]string{"creation": "listing change", "deletion": "", "optional deletion": "listing change", "resuming": "change",
		"labels": "change", "fields": "listing change", "predicates": "", "the status": "", "events": "listing change", "all events": ""}
	for handlers := range prefilterHandlers {
		for storage := range prefilterStorages {
			t.Run("handlers of "+handlers+", stored in "+storage, func(t *testing.T) {
				w := newPrefilterPair(t, handlers, storage)
				body := w.object(t, `{"a":1,"text":"line\nüber \"all\""}`, `{"a":"b"}`, `{"note":"x"}`, `{"phase":"done"}`)
				for name, tamper := range mutations {
					listed := w.compare(t, name, Listed, mutated(t, body, tamper))
					changed := w.compare(t, name, Modified, mutated(t, body, tamper))
					rests := slices.Contains([]string{"nothing", "one of kubectl", "one of our kind", "the same state with another order", "what records leave in the status"}, name)
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

// TestPrefilterForeignStates tests stored configurations with fields that kopf omits.
func TestPrefilterForeignStates(t *testing.T) {
	for _, tt := range []struct{ name, annotations, rest string }{
		{"annotations of a marked prefix", `"others.dev/kopf-managed":"yes","others.dev/x":"1"`, ""},
		{"annotations before the mark of their prefix", `"others.dev/a":"1","others.dev/kopf-managed":"yes"`, ""},
		{"annotations of an operator that is not marked", `"kopf.others.dev/last-handled-configuration":"{}","kopf.others.dev/x":"1"`, ""},
		{"a null", `"a":"1"`, `"x":null,`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stored := fmt.Sprintf(`{"spec":{"a":1},%s"metadata":{"annotations":{%s}}}`, tt.rest, tt.annotations)
			body := mustBody(t, fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"Widget","metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"5",`+
				`"annotations":{%s,"kopf.zalando.org/last-handled-configuration":%q}},"spec":{"a":1}}`, tt.annotations, stored))
			for _, handlers := range []string{"creation", "fields"} {
				w := newPrefilterPair(t, handlers, "the default")
				w.compare(t, handlers+" at a listing", Listed, body)
				w.compare(t, handlers+" after a change", Modified, body)
			}
		})
	}
}

// FuzzPrefilter tests all kinds of objects, storages and later mutations.
func FuzzPrefilter(f *testing.F) {
	f.Add(`{"a":1}`, `{"a":"b"}`, `{"note":"x"}`, `{}`, 0, 0, 0)
	f.Add(`[1,2.0]`, `null`, `{}`, `{"x":null}`, 1, 1, 3)
	f.Add(`"é\u00e9\n"`, `{"c":""}`, `{"a/b":"c","kopf.dev/x":"y"}`, `{"kopf":{}}`, 2, 2, 5)
	var handlers, storages, changes []string
	for name := range prefilterHandlers {
		handlers = append(handlers, name)
	}
	for name := range prefilterStorages {
		storages = append(storages, name)
	}
	for name := range mutations {
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
			return // the API server does not accept others
		}
		w := newPrefilterPair(t, pick(handlers, i), pick(storages, j))
		body := mutated(t, w.object(t, spec, labels, annotations, status), mutations[pick(changes, k)])
		w.compare(t, pick(changes, k), Listed, body)
		w.compare(t, pick(changes, k), Modified, body)
	})
}

// TestEventsAtRest counts the cost of events that the prefilter skips: no worker, and almost no allocations.
func TestEventsAtRest(t *testing.T) {
	w := newPrefilterPair(t, "creation", "the default")
	body := w.object(t, `{"a":1,"text":"`+strings.Repeat("x", 1500)+`"}`, `{"a":"b"}`, `{"note":"x"}`, `{"phase":"done"}`)
	p, from := &streamPrefilter{}, &source{}
	line := []byte(`{"type":"MODIFIED","object":` + string(body.raw) + "}\n")
	at := bytes.Index(line, []byte(`"resourceVersion":"5"`)) + len(`"resourceVersion":"`)
	var f rawjson.Frame
	version := 0
	event := func() {
		version++
		line[at] = byte('1' + version%9) // older in turn, except for the version 9
		if err := f.Scan(line); err != nil {
			t.Fatal(err)
		}
		if skipped, _ := p.skip(w.reactor, EventType(f.Type), &f.Object, f.Raw, from); !skipped {
			t.Fatal("it takes more than a glance")
		}
	}
	event()
	e := w.queue.entries["u"]
	if e == nil || e.state != nil || e.name != "n" || e.namespace.name != "ns" {
		t.Fatalf("the object is %+v", e)
	}
	if n := testing.AllocsPerRun(100, event); n > 4 {
		t.Errorf("an event makes %v allocations", n)
	}
}

// TestBytesAtRest measures the memory of an object that only the prefilter has seen, as at the start of an operator with handled objects.
func TestBytesAtRest(t *testing.T) {
	const objects, limit = 20_000, 400
	w := newPrefilterPair(t, "creation", "the default")
	body := string(w.object(t, `{"a":1,"text":"`+strings.Repeat("x", 1500)+`"}`, `{"a":"b"}`, `{"note":"x"}`, `{"phase":"done"}`).raw)
	p, from := &streamPrefilter{}, &source{}
	heap := func() int {
		var m runtime.MemStats
		for last := uint64(math.MaxUint64); ; last = m.HeapAlloc { // the garbage of other tests takes several rounds
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
		if err := o.Scan([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if skipped, _ := p.skip(w.reactor, Listed, &o, []byte(text), from); !skipped {
			t.Fatalf("%s takes more than a glance", name)
		}
	}
	if got := (heap() - before) / objects; got > limit || len(w.queue.entries) != objects {
		t.Errorf("%d objects take %d bytes each, want %d at most", len(w.queue.entries), got, limit)
	} else {
		t.Logf("an object takes %d bytes", got)
	}
	runtime.KeepAlive(w)
}

// TestPrefilterWaits passes idle objects to the prefilter whose entries are not idle.
func TestPrefilterWaits(t *testing.T) {
	version := func(v string) func(map[string]any) {
		return func(o map[string]any) { o["metadata"].(map[string]any)["resourceVersion"] = v }
	}
	tests := []struct {
		name   string
		before func(w *prefilterPair)
		t      EventType
		want   bool
		stays  bool // whether it is active afterwards
		drops  bool // whether the event does not count
	}{
		{name: "nothing is known of it", before: func(w *prefilterPair) {}, want: true},
		{name: "the operator has a memo to copy", before: func(w *prefilterPair) { w.memo.Store("a", 1) }},
		{name: "the operator pauses", before: func(w *prefilterPair) { w.pauser.Block("x", true) }, want: true, drops: true},
		{name: "it is deleted", before: func(w *prefilterPair) {}, t: Deleted},
		{name: "a handler runs", before: func(w *prefilterPair) { w.known().state.work.working = true }, stays: true},
		{name: "something is left to be sent", before: func(w *prefilterPair) { w.known().state.handling.pendingFlush = &pendingFlush{} }, stays: true},
		{name: "a pause is not over", before: func(w *prefilterPair) { w.known().state.retry.errors = 1 }, stays: true},
		{name: "it is remembered", before: func(w *prefilterPair) { w.known().state.memory.get() }, stays: true},
		{name: "our own patch comes back", before: func(w *prefilterPair) { w.known().last.expected = "5" }, want: true},
		{name: "our own patch is not back", before: func(w *prefilterPair) { w.known().last.expected = "6" }, stays: true},
		{name: "it was seen already", before: func(w *prefilterPair) { w.known().version = "5" }, want: true, stays: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newPrefilterPair(t, "creation", "the default")
			tt.before(w)
			body := mutated(t, w.object(t, `{"a":1}`, `{}`, `{}`, `{}`), version("5"))
			var o rawjson.Header
			if err := o.Scan(body.raw); err != nil {
				t.Fatal(err)
			}
			if got, _ := (&streamPrefilter{}).skip(w.reactor, tt.t, &o, body.raw, &source{listing: 3}); got != tt.want {
				t.Errorf("it is settled: %t, want %t", got, tt.want)
			}
			e := w.queue.entries["u"]
			if stays := e != nil && e.state != nil; stays != tt.stays {
				t.Errorf("the object has something under way: %t, want %t", stays, tt.stays)
			}
			if tt.drops && e != nil {
				t.Error("the object is known")
			}
			if tt.want && !tt.drops && (e.version != "5" || e.listing != 3) {
				t.Errorf("it is left with the version %q of the listing %d", e.version, e.listing)
			}
		})
	}
}

// known adds the object and makes it active.
func (w *prefilterPair) known() *entry {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	e := w.queue.addEntryLocked("u", ObjectReference{APIVersion: "kopf.dev/v1", Kind: "Widget", Namespace: "ns", Name: "n", UID: "u"}, false)
	e.version = "1"
	e.activateLocked()
	return e
}

// BenchmarkPrefilter checks an idle object of 2 KiB. It allocates nothing.
//
//	go test -run xxx -bench Prefilter .
func BenchmarkPrefilter(b *testing.B) {
	body := busy(b, false)
	registry := &Registry{}
	registry.OnDelete("widgets", func(context.Context, *Change) error { return nil }, &ChangeOptions{ID: "delete"})
	served, _ := registry.resolve([]discovery.Resource{discovery.Resource(prefilterResource)}, nil)
	var g *prefilter
	for _, r := range served {
		r.persistence = NewSettings().Persistence.resolve(true)
		g = r.prefilter(slog.New(slog.DiscardHandler))
	}
	for name, body := range map[string]*Body{"stored by us": body, "stored in another order": mutated(b, body, mutations["the same state with another order"])} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body.raw)))
			b.ReportAllocs()
			var o rawjson.Header
			for b.Loop() {
				if err := o.Scan(body.raw); err != nil || g.decide(&o, body.raw, false).Kind != decision.Unchanged {
					b.Fatal("it takes more than a glance")
				}
			}
		})
	}
}
