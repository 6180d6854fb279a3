// Package healthz serves the state of an operator over HTTP: its liveness with the results of probes, its readiness, and its metrics.
package healthz

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

const (
	fresh        = 10 * time.Second // how long the results of the probes are cached
	readTimeout  = 10 * time.Second // to receive a request
	closing      = time.Second      // for open connections, at shutdown
	idleTimeout  = 2 * time.Minute  // for idle connections
	debugTimeout = 10 * time.Minute // for requests about debugging, such as profiles
)

// The paths that are served in addition to the liveness.
const (
	readinessPath = "/readyz"
	metricsPath   = "/metrics"
	debugPath     = "/debug/"
)

// Probes are the users' functions that report the state of an operator.
type Probes interface {
	// Call calls all probes, and returns the values of the successful ones and the ids of the failed ones. The context ends when the server stops.
	Call(context.Context) (values map[string]any, failed []string)
}

// Server serves the endpoint of an operator. All exported fields are required.
type Server struct {
	Probes Probes
	Meter  *metrics.Metrics
	Log    *slog.Logger

	path     string // of the liveness
	host     string // as given
	server   http.Server
	listener net.Listener
	requests sync.WaitGroup
	tasks    sync.WaitGroup
	ctx      context.Context // of the probes
	end      context.CancelFunc

	mu       sync.Mutex   // guards the following, and the start of requests
	begun    bool         // the probes may be called
	debug    http.Handler // for debugging paths; nil for none
	page     http.Handler // live page; nil for none
	last     *probeRun    // nil before the first request
	stopping bool
}

// probeRun is one run of all probes.
type probeRun struct {
	done   chan struct{} // closed when the following fields are set
	at     time.Time     // end of the run
	values map[string]any
	failed []string
}

// Listen opens the port, unless there is a listener, and serves it until Stop.
func (s *Server) Listen(endpoint string, listener net.Listener) error {
	address, path, err := httplimit.SplitEndpoint(endpoint)
	if err != nil {
		return err
	}
	shown := apirequest.RedactURL(endpoint)
	if listener == nil {
		host, _, _ := net.SplitHostPort(address)
		if inPod() && (host == "localhost" || net.ParseIP(host).IsLoopback()) {
			s.Log.Warn("The liveness endpoint can be reached from this host only; use 0.0.0.0 for the kubelet", "endpoint", shown, "help", "K1101")
		}
		if listener, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("the liveness endpoint %q: %w", shown, err)
		}
	}
	s.path, s.listener = path, listener
	s.host, _, _ = net.SplitHostPort(address) // the address is valid
	s.ctx, s.end = context.WithCancel(context.Background())
	s.server.Handler = s
	s.server.ReadTimeout, s.server.IdleTimeout, s.server.MaxHeaderBytes = readTimeout, idleTimeout, httplimit.MaxHeaderBytes
	httplimit.LimitConnections(&s.server, httplimit.MaxConnections)
	s.server.ErrorLog = slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)
	s.Log.Debug("Serving health status at http://" + listener.Addr().String() + path)
	s.tasks.Go(func() { _ = s.server.Serve(listener) }) // ends with Stop, or with its listener
	return nil
}

// inPod reports whether the kubelet has started this process, and so wants to reach the probes.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// Begin allows calls of the probes, and serves the debugging handler, unless it is nil.
func (s *Server) Begin(debug http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.debug = true, debug
}

// ServePage starts serving the live page, and recording its history.
func (s *Server) ServePage(p *livepage.Server) error {
	if livepage.Serves(s.path) {
		return livepage.PathError(s.path)
	}
	if err := livepage.CheckAddress(s.listener.Addr(), p.Auth); err != nil {
		return err
	}
	p.Hosts = append(p.Hosts, s.host)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = p
	s.tasks.Go(func() { p.Record(s.ctx) })
	return nil
}

// Stop stops serving, and reports whether it was the first call. Without Listen, it does nothing. It does not wait for requests that ignore the end of their
// contexts.
func (s *Server) Stop() (first bool) {
	if s.end == nil {
		return false
	}
	s.end()
	s.mu.Lock()
	again := s.stopping
	s.stopping = true
	s.mu.Unlock()
	if again {
		return false
	}
	_ = s.listener.Close() // not used any more
	late := time.AfterFunc(closing, func() { _ = s.server.Close() })
	if !await.For(s.ctx, &s.requests, 2*closing) { // after the end of their connections
		s.Log.Error("Some requests to the liveness endpoint did not return after cancellation; abandoning them", "help", "K1103")
	}
	late.Stop()
	_ = s.server.Close() // errors of unused connections do not matter
	s.tasks.Wait()
	return true
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	late, debug, page := s.stopping, s.debug, s.page
	if !late {
		s.requests.Add(1)
	}
	s.mu.Unlock()
	if late {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.requests.Done()
	defer func() { _ = http.NewResponseController(w).Flush() }() // Stop closes idle connections immediately
	path, control := r.URL.Path, http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(httplimit.SendTimeout)) // cannot fail, like the next one: these connections support deadlines
	if debug != nil && strings.HasPrefix(path, debugPath) && path != s.path {
		_ = control.SetWriteDeadline(time.Now().Add(debugTimeout))
		debug.ServeHTTP(w, r)
		return
	}
	if page != nil && livepage.Serves(path) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		page.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	code, kind, body := http.StatusNotFound, "text/plain; charset=utf-8", []byte("404: Not Found")
	switch known := path == s.path || path == readinessPath || path == metricsPath; {
	case known && r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET,HEAD")
		code, body = http.StatusMethodNotAllowed, []byte("405: Method Not Allowed")
	case path == s.path:
		kind = "application/json; charset=utf-8"
		code, body = s.liveness()
	case path == readinessPath:
		kind = "application/json; charset=utf-8"
		code, body = s.readiness(r.URL.Query().Has("holder"))
	case known:
		var page bytes.Buffer
		open := metrics.IsOpen(strings.Join(r.Header.Values("Accept"), ",")) && !metrics.TextOnly()
		_ = s.Meter.Write(&page, open) // never fails
		code, kind, body = http.StatusOK, metrics.TextType, page.Bytes()
		if open {
			kind = metrics.OpenType
		}
	}
	s.Log.Debug("Answered a request to the liveness endpoint", "method", r.Method, "path", path, "code", code)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client has disconnected
}

// liveness responds that the operator is alive, with the values of its probes, or that some of them have failed.
func (s *Server) liveness() (code int, body []byte) {
	now := s.results()
	if now == nil {
		return http.StatusOK, []byte("{}")
	}
	code, answer := http.StatusOK, any(now.values)
	if len(now.failed) > 0 {
		code, answer = http.StatusInternalServerError, map[string]any{"failed": now.failed}
	}
	body, _ = rawjson.Encode(answer) // each value was encoded before
	return code, body
}

// readiness responds whether the operator is ready, see [metrics.Metrics.IsReady]. If no handler can be served, the response has the reasons. On
// request, it names the holder, too.
func (s *Server) readiness(holder bool) (code int, body []byte) {
	all, working := s.Meter.AllStreams()
	started, login, paused := s.Meter.Ready.Load(), s.Meter.LoggedIn.Load(), s.Meter.Paused()
	code = http.StatusServiceUnavailable
	if s.Meter.IsReady() {
		code = http.StatusOK
	}
	e := s.Meter.Election.Load()
	reached := e == nil || e.Reached()
	unserved := slices.Clone(s.Meter.Unserved())
	body = fmt.Appendf(nil, `{"started":%t,"login":%t,"paused":%t,"streams":{"wanted":%d,"working":%d}`, started, login, paused, all, working)
	if !reached {
		body = append(body, `,"lease":false`...)
	}
	for _, name := range s.Meter.Denied() {
		unserved = append(unserved, "No permission to list and watch "+name)
	}
	if len(unserved) > 0 {
		list, _ := rawjson.Encode(unserved)
		body = fmt.Appendf(body, `,"unserved":%s`, list)
	}
	if holder && e != nil {
		body = fmt.Appendf(body, `,"leading":%t,"holder":%s`, e.Leading(), rawjson.AppendString(nil, e.Holder()))
	}
	return code, append(body, '}')
}

// results returns the results of the probes, cached for some seconds, or nil if the probes must not be called yet. Concurrent requests wait for one run.
func (s *Server) results() *probeRun {
	s.mu.Lock()
	if !s.begun {
		s.mu.Unlock()
		return nil
	}
	now := s.last
	if now == nil || now.finished() && (len(now.failed) > 0 || time.Since(now.at) >= fresh) {
		now = &probeRun{done: make(chan struct{})}
		s.last = now
		s.tasks.Go(func() {
			defer close(now.done)
			now.values, now.failed = s.Probes.Call(s.ctx)
			now.at = time.Now()
		})
	}
	s.mu.Unlock()
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
