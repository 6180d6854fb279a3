package kopf_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// The tests and benchmarks in this file measure the memory of operators for existing and for deleted objects.

// mood is the memo of a handler for an object.
type mood struct{ text [64]byte }

// memos are the memos of handled objects, and the number of collected ones.
type memos struct {
	freed atomic.Int64
	kept  sync.Map // the names of the objects of the others
}

// coming returns an operator whose handlers use a memo for each object, and counts the collected memos.
func coming(server *kopf.APIServer, handled chan<- string, all *memos) *kopf.Operator {
	r := &kopf.Registry{}
	kopf.OnIndexIn(r, "kopfexamples", func(ctx context.Context, x *kopf.Indexing) (map[string]string, error) {
		return map[string]string{x.Name(): x.UID()}, nil
	}, &kopf.IndexOptions{ID: "uids"})
	r.OnTimer("kopfexamples", func(ctx context.Context, t *kopf.Timer) error { return nil }, &kopf.TimerOptions{ID: "t", Interval: time.Hour, WithoutFinalizer: true})
	r.OnEvent("kopfexamples", func(ctx context.Context, e *kopf.WatchEvent) error {
		m := kopf.MemoOf[mood](e)
		if m.text[0] == 0 {
			m.text[0] = 1
			all.kept.Store(e.Name(), true)
			runtime.AddCleanup(m, func(name string) {
				all.kept.Delete(name)
				all.freed.Add(1)
			}, e.Name())
		}
		handled <- string(e.Type)
		return nil
	}, &kopf.EventOptions{ID: "event"})
	return &kopf.Operator{Registry: r, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
}

// comeAndGo creates and deletes objects, each after the operator has seen the one before.
func comeAndGo(tb testing.TB, client *kopf.Client, handled <-chan string, count int) {
	tb.Helper()
	for i := range count {
		ref := kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Name: fmt.Sprint("object-", i), Namespace: "default"}
		object := map[string]any{"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace}}
		if err := client.Create(tb.Context(), object, nil); err != nil {
			tb.Fatal(err)
		}
		if typ := <-handled; typ == "DELETED" { // the first one may still be in the list
			tb.Fatalf("the operator has seen %q, want the new object", typ)
		}
		if err := client.Delete(tb.Context(), ref, nil); err != nil {
			tb.Fatal(err)
		}
		if typ := <-handled; typ != "DELETED" {
			tb.Fatalf("the operator has seen %q, want DELETED", typ)
		}
	}
}

func startComing(tb testing.TB, all *memos) (client *kopf.Client, handled chan string, stop func()) {
	tb.Helper()
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(definition)); err != nil {
		tb.Fatal(err)
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	handled = make(chan string, 1)
	op := coming(server, handled, all)
	ready := make(chan struct{})
	op.Ready = func() { close(ready) }
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	<-ready
	return client, handled, func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	}
}

func TestMemosAreLetGo(t *testing.T) {
	const objects = 300
	var all memos
	client, handled, stop := startComing(t, &all)
	defer stop()
	comeAndGo(t, client, handled, objects)
	// The last object's worker may still exist, and Go keeps stopped timers until they are a quarter of all. Nothing references the other memos.
	const few = 10
	for range 1000 {
		if runtime.GC(); all.freed.Load() >= objects-few {
			return
		}
	}
	var kept []string
	all.kept.Range(func(name, _ any) bool {
		kept = append(kept, name.(string))
		return true
	})
	stacks := make([]byte, 1<<20)
	t.Errorf("%d memos of %d objects that have gone were let go, all but those of %q; these goroutines are there:\n%s", all.freed.Load(), objects, kept, stacks[:runtime.Stack(stacks, true)])
}

// BenchmarkComingAndGoing creates and deletes ten thousand objects, twice, while an operator indexes and times each of them and uses memos. It reports the
// memory that the second ten thousand have added. That includes the embedded API server, whose history is full by then. They have added nothing (-3 B an
// object), and all memos were collected.
//
//	go test -run xxx -bench ComingAndGoing -benchtime 1x .
func BenchmarkComingAndGoing(b *testing.B) {
	const objects = 10_000
	var all memos
	client, handled, stop := startComing(b, &all)
	defer stop()
	comeAndGo(b, client, handled, objects)
	first := measured()
	comeAndGo(b, client, handled, objects)
	second := measured()
	for b.Loop() { // the figures do not depend on the number of rounds
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(second.heap-first.heap)/objects, "B/object")
	b.ReportMetric(float64(second.goroutines-first.goroutines)/objects, "goroutines/object")
	b.ReportMetric(float64(all.freed.Load())/(2*objects), "memos-freed/object")
}

// BenchmarkIndex indexes a hundred thousand pods by their thousand nodes, from the embedded API server. On two cores of an Intel Xeon, it was full after 3.2
// s, and took 606 B for each pod, including the owners of the entries.
//
//	go test -run xxx -bench 'Index$' -benchtime 1x .
func BenchmarkIndex(b *testing.B) {
	const pods, nodes = 100_000, 1000
	server := kopf.NewAPIServer(nil)
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range pods {
		err := client.Create(b.Context(), map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("pod-", i), "namespace": "default"},
			"spec": map[string]any{"nodeName": fmt.Sprint("node-", i%nodes), "containers": []any{map[string]any{"name": "main", "image": "example.com/image:1"}}},
		}, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
	index := func(r *kopf.Registry) *kopf.Index[string, string] {
		return kopf.OnIndexIn(r, "v1/pods", func(ctx context.Context, x *kopf.Indexing) (map[string]string, error) {
			return map[string]string{x.Spec().String("nodeName"): x.Name()}, nil
		}, &kopf.IndexOptions{ID: "pods"})
	}
	without := settled(b, server, func(r *kopf.Registry, seen func()) {
		r.OnEvent("v1/pods", func(context.Context, *kopf.WatchEvent) error { seen(); return nil }, &kopf.EventOptions{ID: "event"})
	}, pods)
	var began time.Time
	var took atomic.Int64
	with := settled(b, server, func(r *kopf.Registry, seen func()) {
		x := index(r)
		began = time.Now()
		r.OnEvent("v1/pods", func(ctx context.Context, e *kopf.WatchEvent) error { // it waits for the index to be full
			if took.Load() == 0 && x.Len(e) == nodes {
				took.Store(int64(time.Since(began)))
			}
			seen()
			return nil
		}, &kopf.EventOptions{ID: "event"})
	}, pods)
	for b.Loop() { // the figures do not depend on the number of rounds
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(with.heap-without.heap)/pods, "B/entry")
	b.ReportMetric(time.Duration(took.Load()).Seconds(), "s/filled")
}

// TestOwnersWaitAsTheyCame applies the children of many new objects to a slow API server. The number of active objects does not exceed the limit of requests,
// and waiting objects do not keep their children in memory.
func TestOwnersWaitAsTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, atOnce = 10, 2
		server := kopf.NewAPIServer(nil)
		if err := server.Apply([]byte(definition)); err != nil {
			t.Fatal(err)
		}
		for i := range objects {
			object := fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":"object-%d","namespace":"default"}}`, i)
			if err := server.Apply([]byte(object)); err != nil {
				t.Fatal(err)
			}
		}
		server.Fail(kopf.APIServerFault{Verb: "patch", Resource: "configmaps", Delay: 40 * time.Second})
		var called atomic.Int64
		r := &kopf.Registry{}
		r.OnReconcile("kopfexamples", func(ctx context.Context, r *kopf.Reconcile) error {
			called.Add(1)
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, nil)
			return nil
		}, &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})
		settings := kopf.NewSettings()
		settings.Networking.MaxInFlight = atOnce
		kopf.NewRunner(t, &kopf.Operator{Registry: r, Connection: server.ConnectionInfo(), Settings: settings}, nil)
		time.Sleep(30 * time.Second)
		if n := called.Load(); n != atOnce {
			t.Errorf("%d handlers of %d objects were called while no child was applied, want %d", n, objects, atOnce)
		}
		time.Sleep(time.Hour)
		if n := called.Load(); n != objects {
			t.Errorf("%d handlers were called in the end, want %d", n, objects)
		}
	})
}
