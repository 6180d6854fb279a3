package kopf_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// The benchmark in this file runs an operator with 100,000 objects.

const (
	loadObjects = 100_000
	loadChanges = 1000 // a second
	loadSeconds = 10
)

// load is a server with many objects, and the measurements of successive operators.
type load struct {
	*testing.B
	server *kopf.APIServer
	client *kopf.Client
	base   footprint // with the server, without an operator

	created atomic.Int64 // objects that were handled as new

	mu   sync.Mutex // guards lags
	lags []time.Duration
}

// BenchmarkLoad measures an operator in four steps. It handles 100,000 new objects as fast as it can, and stops. It starts again with the default settings
// and handled objects. It follows a thousand changes a second, every other one without a handler. It stops during these changes. The embedded API server is
// in the same process, and its CPU time is in all figures. Memory is the increase over its own.
//
//	go test -run '^$' -bench 'Load$' -benchtime 1x .
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		l := newLoad(b)
		began := time.Now()
		op := l.start(func(s *kopf.Settings) { s.Networking.RequestRate = 0 })
		l.until(op, "the new objects to be handled", 5*time.Minute, func() bool { return l.created.Load() == loadObjects && op.count("kopf_queue_depth") == 0 })
		l.report(began, "s/new")
		began = op.stop()
		l.report(began, "s/stop")
		l.bound("seconds to stop", time.Since(began).Seconds(), 15)
		l.drained("after the first operator")
		l.base.heap = measured().heap // with the state on the objects

		began = time.Now()
		op = l.start(func(*kopf.Settings) {})
		l.until(op, "all objects to be seen again", time.Minute, func() bool { return op.count("kopf_objects") == loadObjects && op.count("kopf_queue_depth") == 0 })
		l.report(began, "s/restart")
		if n := op.count("kopf_api_requests_total{verb=\"PATCH\""); n != 0 || l.created.Load() != loadObjects {
			b.Fatalf("%d requests were made for objects that had been handled, and the handlers were called %d times", n, l.created.Load())
		}
		settled := measured()
		l.ReportMetric(float64(settled.heap-l.base.heap)/loadObjects, "B/object")
		l.ReportMetric(float64(op.peak)/(1<<20), "MiB/peak-of-restart")
		l.bound("bytes of an object at rest", float64(settled.heap-l.base.heap)/loadObjects, 600)
		l.change(op)
		l.bound("seconds to stop amid changes", op.stopAmid().Seconds(), 15)
		l.drained("at the end")
	}
	b.ReportMetric(0, "ns/op")
}

// newLoad creates the objects.
func newLoad(b *testing.B) *load {
	began := time.Now()
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(definition)); err != nil {
		b.Fatal(err)
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), &kopf.NetworkingSettings{})
	if err != nil {
		b.Fatal(err)
	}
	l := &load{B: b, server: server, client: client}
	var group sync.WaitGroup
	for part := range 4 {
		group.Go(func() {
			for n := part; n < loadObjects; n += 4 {
				ref := l.ref(n)
				object := map[string]any{
					"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace},
					"spec": map[string]any{"number": n, "text": "something that is said of each of them, so that there is something to be kept"},
				}
				if err := client.Create(b.Context(), object, nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.Logf("%d objects were made in %s", loadObjects, time.Since(began))
	l.base = measured()
	return l
}

func (l *load) ref(n int) kopf.ObjectReference {
	return kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Name: fmt.Sprintf("object-%06d", n), Namespace: "default"}
}

// loaded is a running operator.
type loaded struct {
	*load
	page   string // of the metrics
	cancel context.CancelFunc
	done   chan error
	peak   uint64 // of the heap beyond the base, including uncollected garbage
	ended  chan struct{}
}

func (l *load) start(adjust func(*kopf.Settings)) *loaded {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatal(err)
	}
	r := &kopf.Registry{}
	r.OnCreate("kopfexamples", func(_ context.Context, c *kopf.Change) error {
		c.Patch.Set("status.phase", "Ready")
		l.created.Add(1)
		return nil
	}, &kopf.ChangeOptions{ID: "create"})
	r.OnField("kopfexamples", "spec.at", func(_ context.Context, c *kopf.Change) error {
		if at := c.Spec().Int("at"); at > 0 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lags = append(l.lags, time.Since(time.Unix(0, at)))
		}
		return nil
	}, &kopf.ChangeOptions{ID: "at"})
	op := &kopf.Operator{
		Registry: r, Connection: l.server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler), Settings: kopf.NewSettings(),
		LivenessEndpoint: "http://127.0.0.1/healthz", LivenessListener: listener,
	}
	adjust(op.Settings)
	ctx, cancel := context.WithCancel(l.Context())
	o := &loaded{load: l, page: "http://" + listener.Addr().String() + "/metrics", cancel: cancel, done: make(chan error, 1), ended: make(chan struct{})}
	go func() { o.done <- op.Run(ctx) }()
	go o.sample(ctx)
	return o
}

// sample records the largest heap.
func (o *loaded) sample(ctx context.Context) {
	defer close(o.ended)
	var m runtime.MemStats
	for ctx.Err() == nil {
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > uint64(o.base.heap) {
			o.mu.Lock()
			o.peak = max(o.peak, m.HeapAlloc-uint64(o.base.heap))
			o.mu.Unlock()
		}
		time.Sleep(50 * time.Millisecond) // the interval of the samples
	}
}

// stop stops the operator, and returns the time of the request to stop.
func (o *loaded) stop() (began time.Time) {
	began = time.Now()
	o.cancel()
	if err := <-o.done; err != nil {
		o.Fatal(err)
	}
	<-o.ended
	return began
}

// count reads a metric without labels, or the sum of those with labels.
func (o *loaded) count(name string) (sum int) {
	resp, err := http.Get(o.page)
	if err != nil {
		return -1 // it is not listening yet
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		o.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		if at := bytes.LastIndexByte(line, ' '); bytes.HasPrefix(line, []byte(name)) {
			var n float64
			_, _ = fmt.Sscan(string(line[at:]), &n)
			sum += int(n)
		}
	}
	return sum
}

func (l *load) until(o *loaded, what string, limit time.Duration, condition func() bool) {
	l.Helper()
	for began := time.Now(); !condition(); time.Sleep(50 * time.Millisecond) { // polls a page of metrics
		select {
		case err := <-o.done:
			l.Fatalf("%s: the operator has ended: %v", what, err)
		default:
		}
		if time.Since(began) > limit {
			l.Fatalf("%s: not within %s", what, limit)
		}
	}
}

// report reports the time since began.
func (l *load) report(began time.Time, unit string) {
	l.ReportMetric(time.Since(began).Seconds(), unit)
	l.Logf("%s: %s", unit, time.Since(began))
}

// bound fails if a value is much larger than ever before.
func (l *load) bound(what string, got, most float64) {
	l.Helper()
	if got > most {
		l.Fatalf("%s: %g, want at most %g", what, got, most)
	}
}

// drained checks that no goroutine of an operator remains.
func (l *load) drained(when string) {
	l.Helper()
	http.DefaultClient.CloseIdleConnections()
	for range 100 {
		if runtime.NumGoroutine() <= l.base.goroutines {
			return
		}
		time.Sleep(20 * time.Millisecond) // goroutines have no signal of their end
	}
	l.Fatalf("%d goroutines %s, want %d as before", runtime.NumGoroutine(), when, l.base.goroutines)
}

// changeOne changes an object so that a handler is called, or not.
func (l *load) changeOne(n int, handled bool) error {
	change, opts := map[string]any{"status": map[string]any{"seen": time.Now().UnixNano()}}, &kopf.PatchOptions{Subresource: "status"}
	if handled {
		change, opts = map[string]any{"spec": map[string]any{"at": time.Now().UnixNano()}}, nil
	}
	_, err := l.client.Patch(l.Context(), l.ref(n*7%loadObjects), change, opts)
	return err
}

// stopAmid stops the operator during changes as fast as possible, and returns the time that takes.
func (o *loaded) stopAmid() (took time.Duration) {
	ctx, cancel := context.WithCancel(o.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := o.changeOne(n, true); err != nil {
				o.Error(err)
				return
			}
		}
	})
	time.Sleep(time.Second) // changes go on for the whole second
	took = time.Since(o.stop())
	o.ReportMetric(took.Seconds(), "s/stop-amid-changes")
	cancel()
	group.Wait()
	return took
}

// change changes objects evenly over the time, and reports the time until they are handled.
func (l *load) change(o *loaded) {
	const all = loadChanges * loadSeconds
	began, writes := time.Now(), o.count("kopf_api_requests_total{verb=\"PATCH\"")
	var group sync.WaitGroup
	for part := range 4 {
		group.Go(func() {
			for n := part; n < all; n += 4 {
				time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / loadChanges))) // the rate
				if err := l.changeOne(n, n/4%2 == 0); err != nil {
					l.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	lags := func() []time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Sorted(slices.Values(l.lags))
	}
	l.until(o, "the changes to be handled", time.Minute, func() bool { return len(lags()) >= all/2 })
	l.until(o, "the operator to be at rest", time.Minute, func() bool { return o.count("kopf_queue_depth") == 0 })
	sorted := lags()
	l.ReportMetric(float64(all)/took.Seconds(), "changes/s")
	l.ReportMetric(float64(sorted[len(sorted)/2])/1e6, "ms/p50")
	l.ReportMetric(float64(sorted[len(sorted)*99/100])/1e6, "ms/p99")
	l.bound("p99 in seconds", sorted[len(sorted)*99/100].Seconds(), 5)
	if n := o.count("kopf_api_requests_total{verb=\"PATCH\"") - max(writes, 0); len(sorted) != all/2 || n != all/2 {
		l.Fatalf("%d changes were handled by %d requests, want %d", len(sorted), n, all/2)
	}
	l.ReportMetric(float64(measured().heap-l.base.heap)/loadObjects, "B/object-after")
}
