package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves with random handlers and objects that the command explain and the operator agree, in 8-operations.md.

var _ = SerialSuite("inspection_random", func(t *testing.T, c *C) {
	operators := proof.Rounds(4, 40) // each compares 60 objects five times
	pairs, calls, twice := 0, 0, 0
	for seed := range uint64(operators) {
		c.Run(t, fmt.Sprintf("OB-12 the operator calls the handlers that were explained (seed %d)", seed), func(c *C) {
			c.OnlyInBubble("it would take hours")
			g := &randomInspection{C: c, Rand: rand.New(rand.NewPCG(seed, 12)), calls: make(map[string]map[string]bool), outcomes: rand.New(rand.NewPCG(seed, 13))}
			g.play()
			pairs, calls, twice = pairs+g.pairs, calls+g.called, twice+g.twice
		})
	}
	t.Run("OB-T4 the pairs that were compared are many", func(t *testing.T) {
		c := &C{TB: t, judge: c.judge}
		c.OnlyInBubble("there are none")
		c.NotShort("they are few")
		if t.Logf("%d pairs, %d calls, %d handled twice", pairs, calls, twice); pairs < operators*250 || calls < pairs/2 || twice > 1+pairs/100 {
			t.Errorf("got %d pairs and %d calls, and %d were handled twice", pairs, calls, twice)
		}
	})
})

// randomInspection is one registry, with objects that the test explains, and that an operator with the registry handles.
type randomInspection struct {
	*C
	*rand.Rand
	registry *kopf.Registry
	ids      []string // the ids of change handlers

	mu       sync.Mutex // guards following
	calls    map[string]map[string]bool
	failing  bool
	outcomes *rand.Rand

	pairs, called, twice int
}

// quiet disables the log of an operator.
func quiet(op *kopf.Operator) { op.Logger = slog.New(slog.DiscardHandler) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// play explains objects before an operator starts, while it runs, and after a crash, and compares the result with the calls of handlers.
func (g *randomInspection) play() {
	g.registry = g.handlersFor(g.register)
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("object-%d", i)
		g.Create(names[i], g.object())
		if g.IntN(5) == 0 {
			g.Delete(names[i]) // it is gone if it has no finalizer
		}
	}
	want := g.explainAll(names, "--event", "resumed")
	op := g.Operator(g.registry, quiet)
	g.compare("start", names, want)

	// New objects, and objects that another operator has left.
	want = make(map[string]*explained)
	for i := range names {
		names[i] = fmt.Sprintf("new-%d", i)
		object := g.Kind.object(names[i], g.object())
		want[names[i]] = g.explain(g.registry, "--file", g.file(object))
		if err := g.Client.Create(g.Context(), g.body(object), nil); err != nil {
			g.Fatal(err)
		}
	}
	g.compare("creation", names, want)

	// Changes of handled objects. Tasks run already.
	want = make(map[string]*explained)
	for _, name := range names {
		if !g.Exists(name) {
			continue
		}
		patch := g.object()
		delete(patch["metadata"].(map[string]any), "annotations")
		delete(patch["metadata"].(map[string]any), "finalizers")
		patch["status"] = map[string]any{"changed": g.Int()} // so that there is at least an event
		changed := merged(g.Get(name).Map(), patch)
		want[name] = g.explain(g.registry, "--file", g.file(changed))
		g.Patch(name, patch)
	}
	g.compare("change", slices.Sorted(maps.Keys(want)), want, "OnDaemon", "OnTimer", "OnReconcile")

	// Deletions.
	want = make(map[string]*explained)
	for _, name := range names {
		if g.Exists(name) && g.IntN(2) == 0 {
			want[name] = g.explain(g.registry, "kopfexamples", name, "-n", g.Namespace, "--event", "deleted")
			g.Delete(name)
		}
	}
	g.compare("deletion", slices.Sorted(maps.Keys(want)), want, "OnDaemon", "OnTimer", "OnReconcile")
	op.Stop()

	g.crash()
}

// crash runs an operator whose handlers fail, crashes it, changes its objects, and starts another operator.
func (g *randomInspection) crash() {
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("left-%d", i)
		g.Create(names[i], g.object())
	}
	g.fail(true)
	op := g.Operator(g.registry, quiet)
	g.Pass(time.Duration(g.IntN(20)) * time.Second)
	for _, name := range names {
		if g.IntN(3) == 0 && g.Exists(name) {
			g.Patch(name, map[string]any{"spec": map[string]any{"size": g.IntN(4)}})
		}
	}
	g.Pass(time.Duration(g.IntN(20)) * time.Second)
	op.Crash()
	g.fail(false)
	g.Pass(time.Minute)
	for _, name := range names {
		if g.IntN(3) == 0 && g.Exists(name) {
			g.Patch(name, map[string]any{"spec": map[string]any{"size": g.IntN(4)}})
		}
		if g.IntN(4) == 0 && g.Exists(name) {
			g.Delete(name)
		}
	}
	want := g.explainAll(names, "--event", "resumed")
	op = g.Operator(g.registry, quiet)
	g.compare("crash", names, want)
	op.Stop()
}

// fail has all handlers fail from now on, or none.
func (g *randomInspection) fail(all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing = all
}

// explainAll explains the existing objects.
func (g *randomInspection) explainAll(names []string, args ...string) map[string]*explained {
	g.Helper()
	g.mu.Lock()
	clear(g.calls)
	g.mu.Unlock()
	all := make(map[string]*explained)
	for _, name := range names {
		if g.Exists(name) {
			all[name] = g.explain(g.registry, append([]string{"kopfexamples", name, "-n", g.Namespace}, args...)...)
		}
	}
	return all
}

// compare waits for the calls of handlers, and compares them with the explanations, except for some kinds of handlers. It then drops the calls.
func (g *randomInspection) compare(when string, names []string, want map[string]*explained, except ...string) {
	g.Helper()
	g.Pass(2 * time.Second)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		x := want[name]
		if x == nil {
			continue
		}
		told := make(map[string]bool)
		skipped := make(map[string]bool)
		for _, h := range x.Handlers {
			id, _, _ := strings.Cut(h.ID, "/")
			if slices.Contains(except, h.Kind) {
				skipped[id] = true
			} else if h.Called {
				told[id] = true
			}
		}
		got := maps.Clone(g.calls[name])
		maps.DeleteFunc(got, func(id string, _ bool) bool { return skipped[id] })
		g.pairs++
		g.called += len(got)
		if slices.ContainsFunc(x.Notes, func(note string) bool {
			return strings.Contains(note, "kopf calls handlers for what has changed since that state")
		}) {
			g.twice++ // in the second handling, any handler may be called
			maps.DeleteFunc(got, func(id string, _ bool) bool { return !told[id] })
		}
		if !maps.Equal(got, told) {
			g.Errorf("%s of %s: the operator has called %q, and explained are %q:\n%s", when, name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(told)), indented(x))
		}
	}
	clear(g.calls)
}

// note records a call, and returns its result.
func (g *randomInspection) note(id, name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[name] == nil {
		g.calls[name] = make(map[string]bool)
	}
	g.calls[name][id] = true
	if g.failing {
		return pick(g.outcomes, nil, errors.New("oops"), kopf.Temporary(errors.New("soon"), time.Second), kopf.Temporary(errors.New("later"), time.Hour), kopf.Permanent(errors.New("never")))
	}
	return nil
}

// register registers some handlers.
func (g *randomInspection) register(r *kopf.Registry) {
	for i := range 1 + g.IntN(7) {
		id := fmt.Sprintf("h%d", i)
		switch kind := g.IntN(12); kind {
		case 0, 1, 2, 3, 4, 5, 6:
			g.ids = append(g.ids, id)
			g.registerChange(r, id, kind)
		case 7:
			o := &kopf.EventOptions{ID: kopf.HandlerID(id), Labels: g.match(), Annotations: g.match(), Field: g.field()}
			if o.Field != "" {
				o.Value = g.value()
			}
			if g.IntN(4) == 0 {
				o.When = func(e *kopf.WatchEvent) bool { return e.Body.Has("spec.size") }
			}
			r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
				_ = g.note(id, e.Body.Name()) // events are not repeated
				return nil
			}, o)
		case 8:
			o := &kopf.DaemonOptions{ID: kopf.HandlerID(id), Labels: g.match(), Annotations: g.match(), Field: g.field(), WithoutFinalizer: g.IntN(2) == 0}
			if o.Field != "" {
				o.Value = g.value()
			}
			if g.IntN(4) == 0 {
				o.When = func(d *kopf.Daemon) bool { return d.Body.Spec().Int("size") > 1 }
			}
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				_ = g.note(id, d.Body.Name()) // it continues
				<-ctx.Done()
				return nil
			}, o)
		case 9:
			o := &kopf.TimerOptions{ID: kopf.HandlerID(id), Labels: g.match(), Field: g.field(), WithoutFinalizer: g.IntN(2) == 0, Interval: time.Hour}
			r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
				_ = g.note(id, tm.Body.Name()) // it is called again
				return nil
			}, o)
		case 10:
			o := &kopf.IndexOptions{ID: kopf.HandlerID(id), Labels: g.match(), Field: g.field()}
			kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
				_ = g.note(id, i.Body.Name()) // the error is not stored
				return nil, nil
			}, o)
		case 11:
			r.OnReconcile(Examples, func(_ context.Context, rc *kopf.Reconcile) error {
				_ = g.note(id, rc.Body.Name()) // it would be called again in the next second
				return nil
			}, &kopf.ReconcileOptions{ID: kopf.HandlerID(id), Labels: g.match()})
		}
	}
}

// registerChange registers a change handler, sometimes for several causes.
func (g *randomInspection) registerChange(r *kopf.Registry, id string, kind int) {
	fn := func(_ context.Context, ch *kopf.Change) error { return g.note(id, ch.Body.Name()) }
	o := &kopf.ChangeOptions{ID: kopf.HandlerID(id), Labels: g.match(), Annotations: g.match()}
	switch g.IntN(6) {
	case 0:
		o.When = func(ch *kopf.Change) bool { return ch.Body.Spec().Int("size") > 1 }
	case 1:
		o.When = func(ch *kopf.Change) bool { return !ch.Old.Has("spec.size") || ch.New.Has("spec.size") }
	case 2:
		o.When = func(ch *kopf.Change) bool {
			if ch.Body.Spec().Int("size") == 3 {
				panic("three")
			}
			return true
		}
	}
	if g.IntN(4) == 0 {
		o.Retries = 1 + g.IntN(3)
	}
	if g.IntN(4) == 0 {
		o.Timeout = pick(g.Rand, 10*time.Second, time.Hour, 5*time.Hour)
	}
	if o.Field = g.field(); o.Field != "" {
		o.Value = g.value()
	}
	switch kind {
	case 0:
		r.OnCreate(Examples, fn, o)
		if g.IntN(2) == 0 {
			r.OnUpdate(Examples, fn, o)
		}
	case 1, 2:
		if o.Field != "" && g.IntN(2) == 0 {
			o.Value, o.Old, o.New = nil, g.value(), g.value()
		}
		r.OnUpdate(Examples, fn, o)
	case 3, 4:
		o.WithoutFinalizer = g.IntN(2) == 0
		r.OnDelete(Examples, fn, o)
	case 5:
		o.IncludeDeleted = g.IntN(2) == 0
		r.OnResume(Examples, fn, o)
		if g.IntN(2) == 0 {
			o := *o
			o.IncludeDeleted = false
			r.OnCreate(Examples, fn, &o)
		}
	case 6:
		field := cmpOr(o.Field, "spec.size")
		if o.Field = ""; g.IntN(2) == 0 {
			o.Value, o.Old, o.New = nil, g.value(), g.value()
		}
		r.OnField(Examples, field, fn, o)
	}
}

func cmpOr(a, b kopf.FieldPath) kopf.FieldPath {
	if a != "" {
		return a
	}
	return b
}

func (g *randomInspection) field() kopf.FieldPath {
	return pick(g.Rand, "", "", "spec.size", "spec.deep.x", "metadata.labels.a", "status.phase", kopf.FieldPath(""))
}

func (g *randomInspection) value() any {
	return pick[any](g.Rand, nil, nil, kopf.Present, kopf.Absent, 1, 2, "x", func(v *kopf.FieldValue) bool { return v.Present })
}

func (g *randomInspection) match() kopf.Match {
	m := kopf.Match{}
	for _, key := range []string{"a", "b"} {
		if g.IntN(8) == 0 {
			m[key] = pick[any](g.Rand, "x", "y", kopf.Present, kopf.Absent, func(v *kopf.FieldValue) bool { return v.Value == "x" })
		}
	}
	return m
}

// object returns the fields of an object, possibly from another operator.
func (g *randomInspection) object() map[string]any {
	spec, labels, annotations := g.spec(), g.pairsOf(), g.pairsOf()
	essence := map[string]any{"spec": spec}
	meta := map[string]any{}
	if len(labels) > 0 {
		meta["labels"] = maps.Clone(labels)
	}
	if len(annotations) > 0 {
		meta["annotations"] = maps.Clone(annotations)
	}
	if len(meta) > 0 {
		essence["metadata"] = meta
	}
	if len(spec) == 0 {
		delete(essence, "spec")
	}
	switch g.IntN(4) {
	case 0:
		annotations[diffBase] = encoded(essence) + "\n"
	case 1:
		annotations[diffBase] = encoded(map[string]any{"spec": g.spec(), "metadata": map[string]any{"labels": g.pairsOf()}}) + "\n"
	}
	if g.IntN(2) == 0 {
		for _, id := range g.ids {
			if g.IntN(2) == 0 {
				annotations["kopf.zalando.org/"+id] = g.record()
			}
		}
	}
	object := map[string]any{"spec": spec, "metadata": map[string]any{"labels": labels, "annotations": annotations}}
	if finalizers := pick(g.Rand, nil, nil, []any{finalizer}, []any{"example.com/hold"}, []any{"example.com/hold", finalizer}); finalizers != nil {
		object["metadata"].(map[string]any)["finalizers"] = finalizers
	}
	if g.IntN(4) == 0 {
		object["status"] = map[string]any{"phase": pick(g.Rand, "x", "y")}
	}
	return object
}

func (g *randomInspection) spec() map[string]any {
	spec := map[string]any{}
	if g.IntN(4) > 0 {
		spec["size"] = g.IntN(4)
	}
	if g.IntN(3) == 0 {
		spec["deep"] = map[string]any{"x": pick[any](g.Rand, "x", 1, nil, map[string]any{})}
	}
	return spec
}

func (g *randomInspection) pairsOf() map[string]any {
	m := map[string]any{}
	for _, key := range []string{"a", "b"} {
		if g.IntN(2) == 0 {
			m[key] = pick(g.Rand, "x", "y")
		}
	}
	return m
}

// record returns a record of a handler with earlier calls.
func (g *randomInspection) record() string {
	format := func(d time.Duration) string {
		return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000000+00:00")
	}
	r := map[string]any{
		"started": format(-pick(g.Rand, time.Minute, 2*time.Hour, 24*time.Hour)), "purpose": pick[any](g.Rand, "create", "update", "delete", "resume", nil), "retries": g.IntN(4),
		"success": false, "failure": false, "message": pick[any](g.Rand, nil, "oops"),
	}
	switch g.IntN(5) {
	case 0:
		r["success"], r["stopped"] = true, format(-time.Minute)
	case 1:
		r["failure"], r["stopped"] = true, format(-time.Minute)
	case 2:
		r["delayed"] = format(pick(g.Rand, -time.Second, time.Minute, time.Hour))
	}
	return encoded(r)
}
