// Package healthz serves the state of an operator by HTTP: whether it is alive, by its probes, whether it is ready, and what it has counted.
package healthz

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

const (
	fresh        = 10 * time.Second // how long the results of the probes are given again
	readTimeout  = 10 * time.Second // for a request to come
	closing      = time.Second      // for open connections, at the end
	idleTimeout  = 2 * time.Minute  // for connections between two requests
	debugTimeout = 10 * time.Minute // for what is asked for debugging, such as profiles
)

// The paths that are served in addition to that of the liveness.
const (
	readinessPath = "/readyz"
	metricsPath   = "/metrics"
	debugPath     = "/debug/"
)

// Probes are the functions of users that tell the state of an operator.
type Probes interface {
	// Call calls all of them, and returns the values of those that have one, and the ids of those that have failed. The context ends when the
	// server stops.
	Call(context.Context) (values map[string]any, failed []string)
}

// Server serves the endpoint of an operator. All exported fields are required.
type Server struct {
	Probes Probes
	Meter  *metrics.Metrics
	Log    *slog.Logger

	path     string // of the liveness
	host     string // as it was given
	server   http.Server
	listener net.Listener
	requests sync.WaitGroup
	tasks    sync.WaitGroup
	ctx      context.Context // of the probes
	end      context.CancelFunc

	mu       sync.Mutex   // guards following, and the beginning of requests
	begun    bool         // whether the probes may be called
	debug    http.Handler // of the paths for debugging, nil if there are none
	page     http.Handler // the live page, nil without it
	last     *probeRun    // nil before the first request
	stopping bool
}

// probeRun is one run of all probes.
type probeRun struct {
	done   chan struct{} // closed when the following is known
	at     time.Time     // when they were done
	values map[string]any
	failed []string
}

// Listen opens the port, if there is no listener yet, and serves it until Stop.
func (s *Server) Listen(endpoint string, listener net.Listener) error {
	address, path, err := httplimit.SplitEndpoint(endpoint)
	if err != nil {
		return err
	}
	if listener == nil {
		if host, _, _ := net.SplitHostPort(address); host == "localhost" || net.ParseIP(host).IsLoopback() {
			s.Log.Warn("The liveness endpoint can be reached from this host only; use 0.0.0.0 for the kubelet", "help", "K1101", "endpoint", endpoint)
		}
		if listener, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("the liveness endpoint %q: %w", endpoint, err)
		}
	}
	s.path, s.listener = path, listener
	s.host, _, _ = net.SplitHostPort(address) // it was joined
	s.ctx, s.end = context.WithCancel(context.Background())
	s.server.Handler = s
	s.server.ReadTimeout, s.server.IdleTimeout, s.server.MaxHeaderBytes = readTimeout, idleTimeout, httplimit.MaxHeaderBytes
	httplimit.LimitConnections(&s.server, httplimit.MaxConnections)
	s.server.ErrorLog = slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)
	s.Log.Debug("Serving health status at http://" + listener.Addr().String() + path)
	s.tasks.Go(func() { _ = s.server.Serve(listener) }) // it ends with Stop, or with its listener
	return nil
}

// Begin lets the probes be called from now on, and serves what is for debugging, unless that is nil.
func (s *Server) Begin(debug http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.debug = true, debug
}

// ServePage serves the live page from now on, in addition to what else is served.
func (s *Server) ServePage(p *livepage.Server) error {
	if livepage.Serves(s.path) {
		return fmt.Errorf("the path %q of the liveness endpoint is one of the live page: want another one, such as /healthz", s.path)
	}
	if err := livepage.CheckAddress(s.listener.Addr(), p.Auth); err != nil {
		return err
	}
	p.Hosts = append(p.Hosts, s.host)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = p
	return nil
}

// Stop stops serving, and reports whether that was the first time; it does nothing without Listen. Requests that ignore the end of their
// contexts are left behind.
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
	_ = s.listener.Close() // it is not used any more in any case
	late := time.AfterFunc(closing, func() { _ = s.server.Close() })
	if !await.For(s.ctx, &s.requests, 2*closing) { // it is a while after the end of their connections
		s.Log.Error("Some requests to the liveness endpoint did not return after cancellation; abandoning them", "help", "K1103")
	}
	late.Stop()
	_ = s.server.Close() // whatever is wrong with connections that are not used any more
	s.tasks.Wait()
	return true
}

// ServeHTTP answers one request.
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
	defer func() { _ = http.NewResponseController(w).Flush() }() // Stop closes the connections as soon as nothing is under way
	path, control := r.URL.Path, http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(httplimit.SendTimeout)) // as the following ones, which the server's connections know
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
		_ = s.Meter.Write(&page, open) // which takes everything
		code, kind, body = http.StatusOK, metrics.TextType, page.Bytes()
		if open {
			kind = metrics.OpenType
		}
	}
	s.Log.Debug("Answered a request to the liveness endpoint", "method", r.Method, "path", path, "code", code)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // who does not wait for the answer does not need it
}

// liveness answers that the operator is alive, with what its probes tell, or that some of them have failed.
func (s *Server) liveness() (code int, body []byte) {
	now := s.results()
	if now == nil {
		return http.StatusOK, []byte("{}")
	}
	code, answer := http.StatusOK, any(now.values)
	if len(now.failed) > 0 {
		code, answer = http.StatusInternalServerError, map[string]any{"failed": now.failed}
	}
	body, _ = rawjson.Encode(answer) // each value was tried
	return code, body
}

// readiness answers whether the operator does its work. One that pauses in favour of others, or stands by for another replica, is ready to take their place.
// A replica that has never reached the Lease is not: a rollout must not replace those that work by it. If it is asked for, the answer tells the holder, too.
func (s *Server) readiness(holder bool) (code int, body []byte) {
	all, working := s.Meter.AllStreams()
	started, login, paused := s.Meter.Ready.Load(), s.Meter.LoggedIn.Load(), s.Meter.Paused()
	code = http.StatusServiceUnavailable
	e := s.Meter.Election.Load()
	reached := e == nil || e.Reached()
	if started && login && reached && (paused || all == working) {
		code = http.StatusOK
	}
	body = fmt.Appendf(nil, `{"started":%t,"login":%t,"paused":%t,"streams":{"wanted":%d,"working":%d}`, started, login, paused, all, working)
	if !reached {
		body = append(body, `,"lease":false`...)
	}
	if holder && e != nil {
		body = fmt.Appendf(body, `,"leading":%t,"holder":%s`, e.Leading(), rawjson.AppendString(nil, e.Holder()))
	}
	return code, append(body, '}')
}

// results returns what the probes have told in the last seconds, or asks them; nil if they must not be called yet. All requests meanwhile wait
// for one run.
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
