package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// This file runs operators for the suites. A suite can read their requests and their log lines, and can make their requests fail. The harness checks
// that no goroutine remains when an operator has stopped.

// Running is a running operator.
type Running struct {
	// Wire is the transport between the operator and the server.
	Wire *Wire
	// Logs has the log lines of the operator.
	Logs *Logs

	c      *C
	number string // identifies its goroutines
	runner *kopf.Runner
}

var operators atomic.Int64

// Operator starts an operator in the namespace of the leaf, and returns when it is ready. The operator is stopped at the end of the leaf, unless it
// was stopped before. The functions may adjust the operator, including its namespaces and its connection.
func (c *C) Operator(registry *kopf.Registry, adjust ...func(*kopf.Operator)) *Running {
	c.Helper()
	r := &Running{c: c, Wire: &Wire{base: c.transport()}, Logs: &Logs{}, number: fmt.Sprint(operators.Add(1))}
	op := &kopf.Operator{Registry: registry, Namespaces: []string{c.Namespace}, Settings: kopf.NewSettings()}
	op.Logger = c.logger(r.Logs)
	op.Connection = c.ConnectionInfo()
	op.Connection.HTTPClient = &http.Client{Transport: r.Wire}
	for _, f := range adjust {
		f(op)
	}
	ready := make(chan struct{})
	userReady := op.Ready
	op.Ready = func() {
		if userReady != nil {
			userReady()
		}
		close(ready)
	}
	c.Cleanup(r.checkLeaks) // after the operator was stopped
	c.Cleanup(r.checkCodes)
	// All goroutines that the operator starts inherit the labels.
	r.runner = kopf.NewRunner(c, kopf.RunFunc(func(ctx context.Context) (err error) {
		pprof.Do(ctx, pprof.Labels("operator", r.number), func(ctx context.Context) { err = op.Run(ctx) })
		return err
	}), nil)
	select {
	case <-ready:
	case <-r.runner.Context().Done():
		c.Fatalf("the operator is not ready: %v", context.Cause(r.runner.Context()))
	case <-time.After(c.patience()):
		c.Fatalf("the operator is not ready after %s", c.patience())
	}
	return r
}

// transport returns a transport to the server with its own connections.
func (c *C) transport() http.RoundTripper {
	if t, ok := c.info.HTTPClient.Transport.(*http.Transport); ok {
		return t.Clone()
	}
	return c.info.HTTPClient.Transport
}

// Stop shuts the operator down, and checks that no goroutine remains.
func (r *Running) Stop() {
	r.c.Helper()
	if err := r.runner.Stop(); err != nil {
		r.c.Errorf("the operator has returned an error: %v", err)
	}
	r.checkLeaks()
}

// Err stops the operator and returns its error.
func (r *Running) Err() error { return r.runner.Stop() }

// Crash stops the operator like kill -9 from the view of the server: no more requests arrive.
func (r *Running) Crash() {
	r.Wire.Cut()
	_ = r.runner.Stop() // errors are expected
}

// checkLeaks fails the test if goroutines of the operator remain.
func (r *Running) checkLeaks() {
	r.c.Helper()
	var left string
	for range 100 { // ending goroutines need a moment
		r.Wire.CloseIdleConnections() // a stream may have ended after the operator
		if r.c.InBubble() {
			synctest.Wait()
		}
		if left = r.goroutines(); left == "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.c.Errorf("the operator has left goroutines behind:\n%s", left)
}

// checkCodes fails the test if a message for debugging has a code.
func (r *Running) checkCodes() {
	r.c.Helper()
	for _, line := range r.Logs.All() {
		if line.Level < slog.LevelInfo && line.Attrs["help"] != "" {
			r.c.Errorf("a message for debugging has a code: %+v", line)
		}
	}
}

// goroutines returns the stacks of the operator's goroutines, including those that other goroutines of the operator have started.
func (r *Running) goroutines() string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		r.c.Fatal(err)
	}
	var left []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("%q:%q", "operator", r.number)) {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func contextWithout(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// Request is a request by an operator.
type Request struct {
	Time        time.Time
	Method      string
	Path        string // with the query
	ContentType string
	TraceParent string
	Body        string
	Code        int // of the response, 0 if there was none
}

// Wire sends the requests of an operator, records them, and can fail.
type Wire struct {
	base http.RoundTripper

	mu       sync.Mutex // guards all below
	requests []*Request
	faults   []func(*Request) (*http.Response, error)
	lose     func(*Request) bool
	cut      bool
	ended    []context.CancelFunc
	writes   int // so far
	killer   func(n int) (before, after bool)
}

var errCut = errors.New("the wire is cut")

// RoundTrip sends a request to the server, unless the wire is cut or has a fault.
func (w *Wire) RoundTrip(req *http.Request) (*http.Response, error) {
	record := &Request{Time: time.Now(), Method: req.Method, Path: req.URL.RequestURI(), ContentType: req.Header.Get("Content-Type"), TraceParent: req.Header.Get("Traceparent")}
	if req.Body != nil {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close() // it has been read
		record.Body = string(data)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(data))
	}
	ctx, end := context.WithCancel(req.Context())
	w.mu.Lock()
	w.requests = append(w.requests, record)
	w.ended = append(w.ended, end)
	var last bool // whether the server gets the request, but its response is dropped
	if w.killer != nil && req.Method != http.MethodGet {
		var now bool
		w.writes++
		if now, last = w.killer(w.writes); now {
			w.cutLocked()
		}
	}
	cut, faults, lose := w.cut, w.faults, w.lose
	w.mu.Unlock()
	if cut {
		end()
		return nil, errCut
	}
	for _, fault := range faults {
		resp, err := fault(record)
		if err != nil {
			end()
			return nil, err
		}
		if resp != nil {
			body := resp.Body
			context.AfterFunc(ctx, func() { _ = body.Close() }) // like other transports
			resp.Body = &endingBody{body, end}
			return resp, nil
		}
	}
	resp, err := w.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	w.mu.Lock()
	record.Code = resp.StatusCode
	if last {
		w.cutLocked()
	}
	w.mu.Unlock()
	if last || lose != nil && lose(record) {
		_ = resp.Body.Close() // it is not read
		end()
		return nil, errCut
	}
	resp.Body = &endingBody{resp.Body, end}
	return resp, nil
}

// endingBody cancels the context of a request at the end of its response.
type endingBody struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// CloseIdleConnections closes the connections to the server.
func (w *Wire) CloseIdleConnections() {
	if base, ok := w.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Cut ends all current and future requests with an error.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutLocked()
}

func (w *Wire) cutLocked() {
	w.cut = true
	w.dropLocked()
}

// Dead reports whether the wire is cut.
func (w *Wire) Dead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// CutAt cuts the wire at the n-th writing request: before it reaches the server, or before its response arrives.
func (w *Wire) CutAt(n int, after bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killer = func(at int) (bool, bool) { return at == n && !after, at == n && after }
}

// Drop ends all current requests, such as watches, with an error.
func (w *Wire) Drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
}

func (w *Wire) dropLocked() {
	for _, end := range w.ended {
		end()
	}
	w.ended = nil
}

// Fault calls the function for each future request, before it is sent. A response or an error of the function replaces that of the server. The
// function runs on the goroutine of the request.
func (w *Wire) Fault(fault func(*Request) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults[:len(w.faults):len(w.faults)], fault)
}

// Lose drops the responses to the requests for which the function returns true. The server gets the requests.
func (w *Wire) Lose(lose func(*Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = lose
}

// Answer returns an error response of an API server, for faults.
func Answer(code int, reason, message string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// Requests returns the requests so far with the given methods, such as "PATCH". Without methods, it returns all.
func (w *Wire) Requests(methods ...string) []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Request
	for _, r := range w.requests {
		if len(methods) == 0 || strings.Contains(" "+strings.Join(methods, " ")+" ", " "+r.Method+" ") {
			all = append(all, *r)
		}
	}
	return all
}

// Writes returns the writing requests so far, except those for events.
func (w *Wire) Writes() []Request {
	var writes []Request
	for _, r := range w.Requests("POST", "PUT", "PATCH", "DELETE") {
		path, _, _ := strings.Cut(r.Path, "?")
		if !strings.HasSuffix(path, "/events") {
			writes = append(writes, r)
		}
	}
	return writes
}

// Logs are structured log lines.
type Logs struct {
	mu    sync.Mutex // guards lines
	lines []Line
}

// Line is a log line.
type Line struct {
	Time    time.Time
	Level   slog.Level
	Message string
	Attrs   map[string]string    // with the attributes of the logger
	Object  kopf.ObjectReference // the object of the line; zero if there is none
}

// waitLogged waits for a log line, which comes after its request.
func (r *Running) waitLogged(c *C, text string) {
	c.Helper()
	c.WaitFor("the line "+text, func() bool { return len(r.Logs.Find(text)) > 0 })
}

// All returns the lines so far.
func (l *Logs) All() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Line(nil), l.lines...)
}

// Find returns the lines so far whose message contains the text.
func (l *Logs) Find(text string) []Line {
	var found []Line
	for _, line := range l.All() {
		if strings.Contains(line.Message, text) {
			found = append(found, line)
		}
	}
	return found
}

// logger returns a logger for an operator. It keeps the lines in logs, and prints them if the leaf fails, or at once with -v.
func (c *C) logger(logs *Logs) *slog.Logger {
	next := kopf.NewLogHandler(&kopf.LogOptions{Verbose: true, Output: c.Output()})
	if !testing.Verbose() {
		next = &bufferedHandler{lines: c.lines, next: next}
	}
	return slog.New(&recorder{logs: logs, next: next})
}

// bufferedLines has the log lines of all operators of a leaf. Most leaves pass: their lines are never formatted.
type bufferedLines struct {
	mu    sync.Mutex
	lines []bufferedLine
}

type bufferedLine struct {
	record slog.Record
	next   slog.Handler
}

// printIf prints the lines if the leaf has failed, and drops them.
func (b *bufferedLines) printIf(failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		if failed {
			_ = line.next.Handle(context.Background(), line.record)
		}
	}
	b.lines = nil
}

// bufferedHandler is a log handler that keeps the lines for the end of the leaf.
type bufferedHandler struct {
	lines *bufferedLines
	next  slog.Handler
}

func (h *bufferedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *bufferedHandler) Handle(_ context.Context, record slog.Record) error {
	h.lines.mu.Lock()
	defer h.lines.mu.Unlock()
	h.lines.lines = append(h.lines.lines, bufferedLine{record.Clone(), h.next})
	return nil
}

func (h *bufferedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &bufferedHandler{lines: h.lines, next: h.next.WithAttrs(attrs)}
}

func (h *bufferedHandler) WithGroup(name string) slog.Handler {
	return &bufferedHandler{lines: h.lines, next: h.next.WithGroup(name)}
}

// recorder is a log handler that keeps the lines and passes them on.
type recorder struct {
	logs  *Logs
	next  slog.Handler
	attrs []slog.Attr
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(ctx context.Context, record slog.Record) error {
	line := Line{Time: record.Time, Level: record.Level, Message: record.Message, Attrs: map[string]string{}}
	for _, a := range r.attrs {
		line.Attrs[a.Key] = a.Value.String()
		if about, ok := a.Value.Any().(kopf.ObjectReference); ok {
			line.Object = about
		}
	}
	record.Attrs(func(a slog.Attr) bool {
		line.Attrs[a.Key] = a.Value.String()
		return true
	})
	r.logs.mu.Lock()
	r.logs.lines = append(r.logs.lines, line)
	r.logs.mu.Unlock()
	return r.next.Handle(ctx, record)
}

func (r *recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := append(r.attrs[:len(r.attrs):len(r.attrs)], attrs...)
	return &recorder{logs: r.logs, next: r.next.WithAttrs(attrs), attrs: all}
}

func (r *recorder) WithGroup(name string) slog.Handler {
	return &recorder{logs: r.logs, next: r.next.WithGroup(name), attrs: r.attrs}
}
