package kopf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file serves the state of the operator: whether it is alive, by its probes, whether it is ready, and what it has counted. The
// server has its own goroutines, and each probe that runs has one.

const (
	probesFresh   = 10 * time.Second // how long an answer of the probes is given again
	probeTimeout  = 10 * time.Second // of a probe without one of its own
	probesClosing = time.Second      // for open connections, at the end
	probesIdle    = 2 * time.Minute  // for connections between two requests
	debugTimeout  = 10 * time.Minute // for what is asked for debugging, such as profiles
)

// The paths that are served in addition to that of the liveness.
const (
	readinessPath = "/readyz"
	metricsPath   = "/metrics"
	debugPath     = "/debug/"
)

// prober serves the endpoint of an operator. A nil one does nothing.
type prober struct {
	path     string // of the liveness
	handlers []*handler
	log      *slog.Logger
	meter    *metrics.Metrics
	run      *run

	begun    atomic.Bool // whether the start-up handlers are done, so that probes may be called
	server   http.Server
	listener net.Listener
	requests sync.WaitGroup
	tasks    sync.WaitGroup
	ctx      context.Context // of the probes
	end      context.CancelFunc

	mu       sync.Mutex // guards following, and the beginning of requests
	last     *probeRun  // nil before the first request
	running  []HandlerID
	stopping bool
}

// probeRun is one run of all probes.
type probeRun struct {
	done   chan struct{} // closed when the following is known
	at     time.Time     // when they were done
	values map[string]any
	failed []string // in the order of registration
}

// listen opens the port, if that was not done by the user, and serves it until stop.
func (p *prober) listen(endpoint string, listener net.Listener) error {
	address, path, err := httplimit.SplitEndpoint(endpoint)
	if err != nil {
		return err
	}
	if listener == nil {
		if host, _, _ := net.SplitHostPort(address); host == "localhost" || net.ParseIP(host).IsLoopback() {
			p.log.Warn("The liveness endpoint can be reached from this host only. The kubelet asks from outside of the pod: use 0.0.0.0 for it.", "endpoint", endpoint)
		}
		if listener, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("the liveness endpoint %q: %w", endpoint, err)
		}
	}
	p.path, p.listener = path, listener
	p.ctx, p.end = context.WithCancel(context.Background())
	p.server.Handler = p
	p.server.ReadTimeout, p.server.IdleTimeout, p.server.MaxHeaderBytes = probeTimeout, probesIdle, httplimit.MaxHeaderBytes
	httplimit.LimitConnections(&p.server, httplimit.MaxConnections)
	p.server.ErrorLog = slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)
	p.log.Debug("Serving health status at http://" + listener.Addr().String() + path)
	p.tasks.Go(func() { _ = p.server.Serve(listener) }) // it ends with stop, or with its listener
	return nil
}

// begin lets the probes be called from now on.
func (p *prober) begin() {
	if p != nil {
		p.begun.Store(true)
	}
}

// stop stops serving, once. Probes and requests that ignore the end of their contexts are left behind.
func (p *prober) stop() {
	if p == nil || p.end == nil {
		return
	}
	p.end()
	p.mu.Lock()
	again := p.stopping
	p.stopping = true
	p.mu.Unlock()
	if again {
		return
	}
	_ = p.listener.Close() // it is not used any more in any case
	closing := time.AfterFunc(probesClosing, func() { _ = p.server.Close() })
	if !await.For(p.ctx, &p.requests, 2*probesClosing) { // it is a while after the end of their connections
		p.log.Error("Some requests to the liveness endpoint are left behind, because they do not end with their connections.")
	}
	closing.Stop()
	_ = p.server.Close() // whatever is wrong with connections that are not used any more
	p.tasks.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.running) > 0 {
		p.log.Error("Some probes ignore that their contexts have ended; they are left behind.", "probes", p.running)
	}
}

// ServeHTTP answers one request.
func (p *prober) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	late := p.stopping
	if !late {
		p.requests.Add(1)
	}
	p.mu.Unlock()
	if late {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer p.requests.Done()
	defer func() { _ = http.NewResponseController(w).Flush() }() // stop closes the connections as soon as nothing is under way
	path, control := r.URL.Path, http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(httplimit.SendTimeout)) // as the following ones, which the server's connections know
	if debug := p.debugger(); debug != nil && strings.HasPrefix(path, debugPath) && path != p.path {
		_ = control.SetWriteDeadline(time.Now().Add(debugTimeout))
		debug.ServeHTTP(w, r)
		return
	}
	code, kind, body := http.StatusNotFound, "text/plain; charset=utf-8", []byte("404: Not Found")
	switch known := path == p.path || path == readinessPath || path == metricsPath; {
	case known && r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET,HEAD")
		code, body = http.StatusMethodNotAllowed, []byte("405: Method Not Allowed")
	case path == p.path:
		kind = "application/json; charset=utf-8"
		code, body = p.liveness()
	case path == readinessPath:
		kind = "application/json; charset=utf-8"
		code, body = p.readiness()
	case known:
		var page bytes.Buffer
		_ = p.meter.Write(&page) // which takes everything
		code, kind, body = http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", page.Bytes()
	}
	p.log.Debug("The endpoint was asked.", "method", r.Method, "path", path, "code", code)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // who does not wait for the answer does not need it
}

// debugger returns the user's handler of paths for debugging, once it is known.
func (p *prober) debugger() http.Handler {
	if !p.begun.Load() {
		return nil
	}
	return p.run.Settings.Process.Debug
}

// liveness answers that the operator is alive, with what its probes tell, or that some of them have failed.
func (p *prober) liveness() (code int, body []byte) {
	if !p.begun.Load() {
		return http.StatusOK, []byte("{}")
	}
	now := p.results()
	code, answer := http.StatusOK, any(now.values)
	if len(now.failed) > 0 {
		code, answer = http.StatusInternalServerError, map[string]any{"failed": now.failed}
	}
	body, _ = rawjson.Encode(answer) // each value was tried
	return code, body
}

// readiness answers whether the operator does its work. One that pauses in favour of others is ready to take their place.
func (p *prober) readiness() (code int, body []byte) {
	all, working := p.meter.AllStreams()
	started, login, paused := p.meter.Ready.Load(), p.meter.LoggedIn.Load(), p.meter.Paused()
	code = http.StatusServiceUnavailable
	if started && login && (paused || all == working) {
		code = http.StatusOK
	}
	return code, fmt.Appendf(nil, `{"started":%t,"login":%t,"paused":%t,"streams":{"wanted":%d,"working":%d}}`, started, login, paused, all, working)
}

// results returns what the probes have told in the last seconds, or asks them. All requests meanwhile wait for one run.
func (p *prober) results() *probeRun {
	p.mu.Lock()
	now := p.last
	if now == nil || now.finished() && (len(now.failed) > 0 || time.Since(now.at) >= probesFresh) {
		now = &probeRun{done: make(chan struct{})}
		p.last = now
		p.tasks.Go(func() { p.collect(now) })
	}
	p.mu.Unlock()
	<-now.done
	return now
}

func (r *probeRun) finished() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// collect calls all probes at the same time, so that none holds up the others.
func (p *prober) collect(r *probeRun) {
	defer close(r.done)
	values, errs := make([]any, len(p.handlers)), make([]error, len(p.handlers))
	var all sync.WaitGroup
	for i, h := range p.handlers {
		all.Go(func() { values[i], errs[i] = p.attempt(h) })
	}
	all.Wait()
	r.at, r.values = time.Now(), make(map[string]any)
	for i, h := range p.handlers {
		if errs[i] != nil {
			r.failed = append(r.failed, string(h.id))
		} else if values[i] != nil {
			r.values[string(h.id)] = values[i]
		}
	}
}

// attempt calls one probe, unless it still runs.
func (p *prober) attempt(h *handler) (value any, err error) {
	p.mu.Lock()
	hangs := slices.Contains(p.running, h.id)
	if !hangs {
		p.running = append(p.running, h.id)
	}
	p.mu.Unlock()
	call := call{handler: h, noun: "Activity", log: p.log, meter: p.meter.Handler(string(h.id), false), settings: &p.run.Settings.Execution, started: time.Now()}
	_, err = call.invoke(p.ctx, func(Attempt) (err error) {
		if hangs {
			return errors.New("it has not returned from an earlier call")
		}
		if value, err = p.await(h); err != nil && p.ctx.Err() != nil {
			return &cancelledError{err}
		}
		return err
	})
	return value, err
}

// await calls one probe, and waits for it as long as it may take.
func (p *prober) await(h *handler) (any, error) {
	limit := cmp.Or(h.retry.timeout, probeTimeout)
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	type answer struct {
		value any
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		err := safecall.Do(func() (err error) {
			a.value, err = p.run.callProbe(ctx, h)
			return err
		})
		if err == nil {
			a.value, err = rawjson.Normalize(a.value)
		}
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
func newMetrics(r *Registry, p *pauser.Pauser) *metrics.Metrics {
	var ids []string
	for _, h := range r.snapshot() {
		ids = append(ids, string(h.id))
	}
	return metrics.New(metrics.State{Paused: p.Paused, Goroutines: runtime.NumGoroutine, Memory: metrics.ResidentMemory}, ids)
}
