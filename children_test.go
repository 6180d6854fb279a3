package kopf_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// passes are the costs of three passes of a reconcile handler over the children of one owner: it
// creates all, changes none, and deletes all.
type passes struct {
	create, unchanged, prune time.Duration // CPU time
	allocated                uint64        // bytes in the first pass, with the API server
}

// reconcileChildren reconciles one owner with a number of ConfigMaps.
func reconcileChildren(tb testing.TB, n int) (p passes) {
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(definition)); err != nil {
		tb.Fatal(err)
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	r := &kopf.Registry{}
	r.OnReconcile("kopfexamples", func(_ context.Context, r *kopf.Reconcile) error {
		round := r.Spec().Int("round")
		r.Patch.Set("status.round", round)
		if round == 3 {
			r.NoChildren()
			return nil
		}
		for i := range n {
			r.Desired(map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("child-", i)}, "data": map[string]any{"a": "b"},
			}, nil)
		}
		return nil
	}, &kopf.ReconcileOptions{ID: "children", Owns: []kopf.Selector{"configmaps"}})
	settings := kopf.NewSettings()
	settings.Networking.RequestRate = 0
	runner := kopf.NewRunner(tb, &kopf.Operator{
		Registry: r, Settings: settings, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler),
	}, nil)
	pass := func(round int64) time.Duration {
		time.Sleep(time.Second) // the events of the last pass
		runtime.GC()
		began := cpuTime()
		if _, err := client.Patch(tb.Context(), example, map[string]any{"spec": map[string]any{"round": round}}, nil); err != nil {
			tb.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(runner.Context(), 5*time.Minute)
		defer cancel()
		done := func(b *kopf.Body) bool { return b != nil && b.Status().Int("round") == round }
		if _, err := kopf.WaitFor(ctx, client, example, "to be reconciled", done); err != nil {
			tb.Fatal(err)
		}
		return cpuTime() - began
	}
	owner := map[string]any{
		"apiVersion": example.APIVersion, "kind": example.Kind, "metadata": map[string]any{"name": example.Name, "namespace": "default"},
		"spec": map[string]any{"round": 3},
	}
	if err := client.Create(tb.Context(), owner, nil); err != nil {
		tb.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.create = pass(1)
	runtime.ReadMemStats(&after)
	p.allocated = after.TotalAlloc - before.TotalAlloc
	p.unchanged, p.prune = pass(2), pass(3)
	if err := runner.Stop(); err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestMemoryOfManyChildren counts the bytes that a pass allocates for each child, which must not
// grow with the number of children.
func TestMemoryOfManyChildren(t *testing.T) {
	if testing.Short() {
		t.Skip("it creates thousands of children")
	}
	t.Run("DF-45 four times as many children take four times as much memory", func(t *testing.T) {
		var few, many passes
		synctest.Test(t, func(t *testing.T) { few = reconcileChildren(t, 500) })
		synctest.Test(t, func(t *testing.T) { many = reconcileChildren(t, 2000) })
		if ratio := float64(many.allocated) / float64(few.allocated); ratio > 4.4 {
			t.Errorf("the first pass allocates %.1f times as much: %d and %d bytes", ratio, few.allocated, many.allocated)
		}
	})
}

// BenchmarkChildren measures the CPU time of a child in three passes over the children of one owner, including that of the embedded API server. The times must
// be about the same for 1,000 and for 10,000 children.
//
//	go test -run xxx -bench Children -benchtime 1x .
func BenchmarkChildren(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var p passes
			for b.Loop() {
				p = reconcileChildren(b, n)
			}
			b.ReportMetric(0, "ns/op")
			for unit, took := range map[string]time.Duration{"us-CPU/created": p.create, "us-CPU/unchanged": p.unchanged, "us-CPU/deleted": p.prune} {
				b.ReportMetric(float64(took.Microseconds())/float64(n), unit)
			}
			b.ReportMetric(float64(p.allocated)/float64(n), "B/created")
		})
	}
}
