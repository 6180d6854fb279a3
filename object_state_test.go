package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/index"
	"github.com/kopf-go/kopf/internal/pauser"
)

// life is an operator with one resource whose object states are inspected.
type life struct {
	*observer
	server  *APIServer
	user    *Client
	fails   []error // the errors of the next calls of handlers
	tasks   bool
	workers int             // their limit; 0 for none
	logged  strings.Builder // from the level INFO
	indexed int
	block   chan struct{}
}

const lifeManifests = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: Widget, plural: widgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

var lifeObject = ObjectReference{APIVersion: "kopf.dev/v1", Kind: "Widget", Namespace: "default", Name: "a"}

// live starts an operator in a bubble, which ends with it.
func live(t *testing.T, tasks bool, register func(*life, *Registry)) *life {
	t.Helper()
	w := &life{server: NewAPIServer(nil), tasks: tasks}
	if err := w.server.Apply([]byte(lifeManifests)); err != nil {
		t.Fatal(err)
	}
	registry := &Registry{}
	register(w, registry)
	ctx, cancel := context.WithCancel(t.Context())
	client, _ := clientOf(t, w.server, nil)
	client.kinds.Set(nil)
	w.user, _ = clientOf(t, w.server, nil)
	w.user.kinds.Set(nil)
	w.observer = &observer{
		environment: environment{client: client, settings: NewSettings(), lifecycle: AllAtOnce, log: slog.New(slog.NewTextHandler(&w.logged, nil)), memo: &Memo{}, events: discardEvents{}, pauser: &pauser.Pauser{}, handlers: ctx, indices: newIndices(registry)},
		registry:    registry, clusterwide: true, requests: ctx, force: ctx,
	}
	if len(w.indices.data) > 0 {
		w.barrier = &syncBarrier{}
	}
	w.settings.Queueing.WorkerLimit = w.workers
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.observe(ctx, func() {}) // it ends with the context
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = w.stop(cancel, cancel)
	})
	w.wait()
	return w
}

// wait waits until all work has settled.
func (w *life) wait() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

// call is the function of all handlers in the tests.
func (w *life) call(ctx context.Context) error {
	if w.block != nil {
		select {
		case <-w.block:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if len(w.fails) == 0 {
		return nil
	}
	err := w.fails[0]
	w.fails = w.fails[1:]
	return err
}

func (w *life) create(t *testing.T) {
	t.Helper()
	if err := w.server.Apply([]byte("{apiVersion: kopf.dev/v1, kind: Widget, metadata: {name: a, namespace: default}, spec: {a: '1'}}")); err != nil {
		t.Fatal(err)
	}
}

// change changes the object as another client does. It does not patch it, because the tests make patches fail.
func (w *life) change(t *testing.T, change func(object map[string]any)) {
	t.Helper()
	var object map[string]any
	if err := w.user.Get(t.Context(), lifeObject, &object, nil); err != nil {
		t.Fatal(err)
	}
	change(object)
	if err := w.user.Update(t.Context(), object, nil); err != nil {
		t.Fatal(err)
	}
}

// set sets a field of the spec.
func (w *life) set(t *testing.T, value any) {
	t.Helper()
	w.change(t, func(object map[string]any) { object["spec"] = map[string]any{"a": value} })
}

// hold sets the finalizers of other clients.
func (w *life) hold(t *testing.T, finalizers ...any) {
	t.Helper()
	w.change(t, func(object map[string]any) { object["metadata"].(map[string]any)["finalizers"] = finalizers })
}

func (w *life) delete(t *testing.T) {
	t.Helper()
	if err := w.user.Delete(t.Context(), lifeObject, nil); err != nil {
		t.Fatal(err)
	}
}

// entry returns the object, nil if it is unknown.
func (w *life) entry() *entry {
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	q := w.resources["widgets.v1.kopf.dev"].reactor.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		return e
	}
	return nil
}

// set returns the names of the non-zero fields of a struct, including those of nested structs.
func set(v reflect.Value, prefix string) (names []string) {
	for i := range v.NumField() {
		f, name := v.Field(i), prefix+v.Type().Field(i).Name
		switch {
		case name == "memory.mu", name == "memory.seen", f.IsZero():
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]():
			names = append(names, set(f, name+".")...)
		case f.Kind() == reflect.Slice && f.Len() == 0, f.Kind() == reflect.Map && f.Len() == 0:
		default:
			names = append(names, name)
		}
	}
	return names
}

// left returns the remaining state of the object.
func (w *life) left() (names []string) {
	e := w.entry()
	if e == nil {
		return []string{"nothing is known"}
	}
	if e.state != nil {
		names = set(reflect.ValueOf(e.state).Elem(), "")
	}
	if e.presence != present || e.reportDeletion {
		names = append(names, "presence")
	}
	return names
}

// TestObjectState takes objects through their lives, and finds state that remains too long.
func TestObjectState(t *testing.T) {
	huge := strings.Repeat("x", 300_000)
	handlers := func(w *life, r *Registry) {
		call := func(ctx context.Context, c *Change) error {
			c.Patch.Set("status.seen", c.New.String("spec.a"))
			return w.call(ctx)
		}
		r.OnCreate("widgets", call, &ChangeOptions{ID: "create", Interruptible: true})
		r.OnUpdate("widgets", call, &ChangeOptions{ID: "update", Interruptible: true})
		r.OnDelete("widgets", call, &ChangeOptions{ID: "delete", WithoutFinalizer: true})
		OnIndexIn(r, "widgets", func(ctx context.Context, i *Indexing) (map[string]string, error) {
			if w.indexed++; w.indexed%3 == 2 {
				return nil, errors.New("oops")
			}
			return map[string]string{i.Name(): "x"}, nil
		}, &IndexOptions{ID: "index"})
		if w.tasks {
			r.OnDaemon("widgets", func(ctx context.Context, d *Daemon) error {
				<-ctx.Done()
				return nil
			}, &DaemonOptions{ID: "daemon"})
			r.OnTimer("widgets", func(ctx context.Context, t *Timer) error {
				t.Patch.Set("status.ticks", t.Retry)
				return nil
			}, &TimerOptions{ID: "timer", Interval: time.Hour})
		}
	}
	oops := errors.New("oops")
	fault := func(f APIServerFault) func(*testing.T, *life) {
		return func(t *testing.T, w *life) {
			defer w.server.Fail(f)()
			w.set(t, "2")
			w.wait()
		}
	}
	steps := []struct {
		name string
		do   func(t *testing.T, w *life)
	}{
		{"it is changed", func(t *testing.T, w *life) { w.set(t, "2") }},
		{"functions fail", func(t *testing.T, w *life) {
			w.fails = []error{oops, oops, Temporary(oops, time.Minute), oops, Permanent(oops), oops}
			w.set(t, "2")
		}},
		{"the server refuses patches for a while", fault(APIServerFault{Verb: "patch", Times: 3, Status: 500})},
		{"answers are lost", fault(APIServerFault{Verb: "patch", Times: 2, DropAfter: true})},
		{"it is changed in between", fault(APIServerFault{Verb: "patch", Times: 7, Status: 409})},
		{"a patch is refused for good", fault(APIServerFault{Verb: "patch", Times: 1, Status: 422})},
		{"streams break off", func(t *testing.T, w *life) {
			w.server.Disconnect()
			w.server.Compact()
			w.set(t, "2")
		}},
		{"its state is too large for a while", func(t *testing.T, w *life) {
			w.set(t, huge)
			w.wait()
			w.set(t, "3")
		}},
		{"it is changed during a handler", func(t *testing.T, w *life) {
			w.block = make(chan struct{})
			w.set(t, "2")
			time.Sleep(time.Minute)
			w.set(t, "3")
			time.Sleep(time.Minute)
			close(w.block)
		}},
		{"another client changes it back", func(t *testing.T, w *life) {
			for i := range 10 {
				w.set(t, fmt.Sprint(i))
				time.Sleep(time.Second)
				w.change(t, func(object map[string]any) { object["status"] = map[string]any{"seen": "theirs"} })
				time.Sleep(time.Second)
			}
		}},
		{"the operator pauses", func(t *testing.T, w *life) {
			w.pauser.Block("peer", true)
			w.set(t, "2")
			w.wait()
			w.pauser.Block("peer", false)
		}},
		{"it pauses during a handler", func(t *testing.T, w *life) {
			w.block = make(chan struct{})
			w.set(t, "2")
			time.Sleep(time.Minute)
			w.pauser.Block("peer", true)
			time.Sleep(time.Minute)
			close(w.block)
			w.wait()
			w.pauser.Block("peer", false)
		}},
		{"its resource goes and comes back", func(t *testing.T, w *life) { w.serveAgain() }},
		{"the same during a handler", func(t *testing.T, w *life) {
			w.block = make(chan struct{})
			w.set(t, "2")
			time.Sleep(time.Minute)
			w.serveAgain()
			close(w.block)
		}},
		{"the same while patches are refused", func(t *testing.T, w *life) {
			restore := w.server.Fail(APIServerFault{Verb: "patch", Status: 500})
			w.set(t, "2")
			time.Sleep(time.Minute)
			w.serveAgain()
			restore()
		}},
	}
	for _, step := range steps {
		for _, tasks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with tasks %t", step.name, tasks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { proveLife(t, live(t, tasks, handlers), step.do) })
			})
		}
	}
}

// proveLife runs a function with an object, and then deletes the object.
func proveLife(t *testing.T, w *life, do func(*testing.T, *life)) {
	t.Helper()
	w.create(t)
	w.wait()
	var always []string
	if w.tasks {
		always = []string{"live"}
	}
	do(t, w)
	w.wait()
	if left := w.left(); !slices.Equal(left, always) {
		t.Errorf("an hour later, these are set: %q", left)
	}
	w.hold(t, "x.dev/theirs")
	w.wait()
	w.delete(t)
	w.wait()
	if left, want := w.left(), append(always, "handling.deleteHandled", "end.deleting"); !slices.Equal(left, want) {
		t.Errorf("while another client holds it, these are set: %q, want %q", left, want)
	}
	w.hold(t)
	w.wait()
	if e := w.entry(); e != nil {
		t.Errorf("it is gone, and still known with %q", w.left())
	}
}

// serveAgain ends the streams of the resource for a minute, and forgets its objects meanwhile.
func (w *life) serveAgain() {
	w.observer.mu.Lock()
	served := w.resources["widgets.v1.kopf.dev"]
	served.close()
	w.observer.mu.Unlock()
	time.Sleep(time.Minute)
	w.rediscover()
}

// panickingData are the values of an index that cannot be dropped.
type panickingData struct{ index.Data }

func (panickingData) Drop(string) { panic("oops") }

// TestForgottenTasksAfterPanic forgets objects whose values in an index cannot be dropped. Their daemons stop nevertheless.
func TestForgottenTasksAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		w := live(t, false, func(w *life, r *Registry) {
			if err := w.server.Apply([]byte(twoWidgets)); err != nil {
				t.Fatal(err)
			}
			OnIndexIn(r, "widgets", func(ctx context.Context, i *Indexing) (map[string]string, error) {
				return map[string]string{i.Name(): "x"}, nil
			}, &IndexOptions{ID: "index"})
			r.OnDaemon("widgets", func(ctx context.Context, d *Daemon) error {
				running.Add(1)
				<-ctx.Done()
				running.Add(-1)
				return nil
			}, &DaemonOptions{ID: "daemon"})
		})
		w.wait()
		served := w.resources["widgets.v1.kopf.dev"]
		data := served.reactor.indexer.(*indexer).indices.data
		before := running.Load()
		for id, d := range data {
			data[id] = panickingData{d}
		}
		tasks := served.reactor.daemons.(*daemons)
		served.reactor.queue.forget("", false)
		w.wait()
		if before != 2 || running.Load() != 0 || len(tasks.objects) != 0 {
			t.Errorf("of %d daemons, %d are running, and %d objects with tasks are remembered", before, running.Load(), len(tasks.objects))
		}
		for id, d := range data {
			data[id] = d.(panickingData).Data
		}
	})
}
