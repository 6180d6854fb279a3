package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/healthz"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
)

// probeTimeout is the default timeout of a probe.
const probeTimeout = 10 * time.Second

// prober serves the health endpoint of an operator, and calls its probes. A nil one does nothing.
type prober struct {
	handlers []*handler
	server   *healthz.Server // nil before listen
	log      *slog.Logger
	meter    *metrics.Metrics
	run      *run

	mu      sync.Mutex  // guards running
	running []HandlerID // the probes that have not returned
}

// listen opens the port, unless the user has, and serves it until stop.
func (p *prober) listen(endpoint string, listener net.Listener) error {
	p.server = &healthz.Server{Probes: p, Meter: p.meter, Log: p.log}
	return p.server.Listen(endpoint, listener)
}

// begin enables the probes.
func (p *prober) begin(handlers []*handler) {
	if p != nil {
		p.handlers = handlers
		p.server.Begin(p.run.Settings.Process.Debug)
	}
}

// stop stops serving, once. It abandons probes and requests that ignore their canceled contexts.
func (p *prober) stop() {
	if p == nil || !p.server.Stop() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.running) > 0 {
		p.log.Error("Some probes did not return after cancellation; abandoning them", "probes", p.running, "help", "K1102")
	}
}

// Call calls all probes concurrently, so that none delays the others. It implements [healthz.Probes].
func (p *prober) Call(ctx context.Context) (values map[string]any, failed []string) {
	results, errs := make([]any, len(p.handlers)), make([]error, len(p.handlers))
	var all sync.WaitGroup
	for i, h := range p.handlers {
		all.Go(func() { results[i], errs[i] = p.attempt(ctx, h) })
	}
	all.Wait()
	values = make(map[string]any)
	for i, h := range p.handlers {
		if errs[i] != nil {
			failed = append(failed, string(h.id))
		} else if results[i] != nil {
			values[string(h.id)] = results[i]
		}
	}
	return values, failed
}

// attempt calls one probe, unless it is still running.
func (p *prober) attempt(ctx context.Context, h *handler) (value any, err error) {
	p.mu.Lock()
	hangs := slices.Contains(p.running, h.id)
	if !hangs {
		p.running = append(p.running, h.id)
	}
	p.mu.Unlock()
	call := call{handler: h, noun: "Activity", log: p.log, meter: p.meter.Handler(string(h.id), false), settings: p.run.Settings, replica: p.run.Identity, started: time.Now()}
	_, err = call.invoke(ctx, func(ctx context.Context, _ Attempt) (err error) {
		if hangs {
			return errors.New("it has not returned from an earlier call")
		}
		if value, err = p.await(ctx, h); err != nil && ctx.Err() != nil {
			return &cancelledError{err}
		}
		return err
	})
	return value, err
}

// await calls one probe, and waits for it until its timeout.
func (p *prober) await(ctx context.Context, h *handler) (any, error) {
	limit := cmp.Or(h.retry.timeout, probeTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type answer struct {
		value any
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		err := safecall.Do(func() (err error) {
			if a.value, err = p.run.callProbe(ctx, h); err == nil {
				a.value, err = rawjson.Normalize(a.value)
			}
			return err
		})
		a.err = err
		p.mu.Lock()
		p.running = slices.DeleteFunc(p.running, func(id HandlerID) bool { return id == h.id })
		p.mu.Unlock()
		answers <- a
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("it has not answered in %s", limit)
	}
}

// newMetrics returns the counters of an operator.
func newMetrics(r *Registry, p *pauser.Pauser, log *slog.Logger) *metrics.Metrics {
	return metrics.New(metrics.State{Version: Version, Go: runtime.Version(), Paused: p.Paused, Goroutines: runtime.NumGoroutine, Log: log}, described(r.snapshot()))
}

// described describes the handlers for the metrics.
func described(handlers []*handler) (all []metrics.Described) {
	for _, h := range handlers {
		d := metrics.Described{ID: string(h.id)}
		switch h.kind {
		case kindDaemon:
			d.Kind = metrics.Endless
		case kindReconcile:
			d.Kind = metrics.Reconcile
		}
		all = append(all, d)
	}
	return all
}
