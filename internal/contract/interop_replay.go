package contract

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This file replays lives of objects that were recorded with Kopf for Python, request by request. It recreates the handlers, the clock, and a watch
// stream with a delay of a second.

//go:embed testdata/golden/change-handling.json
var golden []byte

// trace is the life of an object under Kopf for Python.
type trace struct {
	Name     string
	Settings any
	Resource struct {
		Status bool `json:"status_is_subresource"`
	}
	Before  map[string]any `json:"object_before"`
	Steps   []*traceStep
	Finally any `json:"object_finally"`

	script *traceScript
}

// traceStep is the reaction of Kopf for Python to one event.
type traceStep struct {
	Event    struct{ Type *string }
	Now      time.Time
	Log      []string
	Requests []*traceRequest
	After    any `json:"object_after"`
}

type traceRequest struct {
	Method      string
	Subresource string
	ContentType string
	Body        any
}

// invoked returns the called handlers, in order.
func (s *traceStep) invoked() []string {
	var ids []string
	for _, code := range s.Log {
		if id, ok := strings.CutPrefix(code, "DEBUG: handler-invoked("); ok {
			ids = append(ids, strings.TrimSuffix(id, ")"))
		}
	}
	return ids
}

func (s *traceStep) logs(code string) bool {
	return slices.ContainsFunc(s.Log, func(line string) bool { return strings.Contains(line, ": "+code) })
}

// end returns the time at which Kopf for Python has sent its requests: every attempt of a handler takes 0.1 s.
func (s *traceStep) end() time.Time {
	return s.Now.Add(time.Duration(len(s.invoked())) * attemptTime)
}

const (
	attemptTime = 100 * time.Millisecond
	streamLag   = time.Second // from the end of a step to the next one
)

// traceScript has the parts of the vectors that are only in prose.
type traceScript struct {
	handlers func(r *kopf.Registry, on kopf.Selector, s *scene)
	persist  func(p *kopf.PersistenceSettings)
	user     map[int]func(c *C, kind *Kind) // changes of the object at the end of a step
	prefix   string                         // the annotation prefix, if it is not the default
}

// scene records the calls of a trace's handlers, with their attempts. Each handler takes its time.
type scene struct{ calls calls }

func (s *scene) handler(result any, errs ...error) func(id string) kopf.ChangeFunc {
	return func(id string) kopf.ChangeFunc {
		return func(ctx context.Context, ch *kopf.Change) error {
			s.calls.add("%s %d", id, ch.Retry)
			time.Sleep(attemptTime) // the duration of the handler
			if ch.Retry < len(errs) {
				return errs[ch.Retry]
			}
			if result != nil {
				ch.SetResult(result)
			}
			return nil
		}
	}
}

const universe = "create_the_whole_universe_from_scratch_in_six_days"

func (s *scene) universe(ctx context.Context, ch *kopf.Change) error {
	s.calls.add("%s %d", universe, ch.Retry)
	time.Sleep(attemptTime) // the duration of the handler
	ch.Subhandler("item1", s.handler("ITEM1")(universe+"/item1"), nil)
	ch.Subhandler("item2", s.handler("ITEM2", errors.New("some error"))(universe+"/item2"), nil)
	return nil
}

func temporary(text string, delay time.Duration) error {
	return kopf.Temporary(errors.New(text), delay)
}

var traceScripts = []*traceScript{
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		r.OnCreate(on, s.handler(map[string]any{"message": "hello world"})("create_fn"), named("create_fn"))
	}},
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		r.OnCreate(on, s.handler(map[string]any{"job1": 100})("create_1"), named("create_1"))
		r.OnCreate(on, s.handler(nil, temporary("not yet", 10*time.Second))("create_2"), named("create_2"))
		r.OnDelete(on, s.handler(nil)("delete_fn"), named("delete_fn"))
	}, user: map[int]func(*C, *Kind){5: func(c *C, kind *Kind) { kind.Delete("a") }}},
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		r.OnCreate(on, s.universe, named(universe))
	}, prefix: "my-op.example.com", persist: func(p *kopf.PersistenceSettings) {
		p.ProgressStorage = &kopf.AnnotationsProgressStorage{Prefix: "my-op.example.com"}
		p.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: "my-op.example.com"}
		p.Finalizer = "my-op.example.com/finalizer"
	}},
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		r.OnUpdate(on, s.handler(nil, temporary("oops", 5*time.Second))("update_fn"), named("update_fn"))
	}},
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		again := temporary("not resumed", 30*time.Second)
		r.OnResume(on, s.handler(nil, again, again)("resume_fn"), named("resume_fn"))
		r.OnUpdate(on, s.handler(nil)("update_fn"), named("update_fn"))
	}, user: map[int]func(*C, *Kind){0: func(c *C, kind *Kind) { kind.Patch("a", spec(map[string]any{"field": "new-value"})) }}},
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		r.OnCreate(on, s.handler(nil)("create_1"), named("create_1"))
		r.OnCreate(on, s.handler(nil)("create_2"), named("create_2"))
		r.OnDelete(on, s.handler(nil, kopf.Permanent(errors.New("cannot delete")))("delete_fn"), named("delete_fn"))
	}},
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		r.OnCreate(on, s.handler(nil, temporary("not yet", 10*time.Second))("create_fn"), named("create_fn"))
	}, persist: func(p *kopf.PersistenceSettings) {
		p.ProgressStorage, p.DiffBaseStorage = &kopf.StatusProgressStorage{}, &kopf.StatusDiffBaseStorage{}
	}},
	{handlers: func(r *kopf.Registry, on kopf.Selector, s *scene) {
		r.OnCreate(on, s.handler(nil)("create_1"), named("create_1"))
		r.OnCreate(on, s.handler(nil)("create_2"), named("create_2"))
	}},
}

// traces parses the recorded lives. Each call returns new copies.
func traces() []*trace {
	var sections struct{ Objects []*trace }
	if err := json.Unmarshal(golden, &sections); err != nil {
		panic(err)
	}
	if len(sections.Objects) != len(traceScripts) {
		panic(fmt.Sprintf("there are %d traces and %d scripts", len(sections.Objects), len(traceScripts)))
	}
	for i, tr := range sections.Objects {
		tr.script = traceScripts[i]
	}
	return sections.Objects
}

func (tr *trace) prefix() string {
	if tr.script.prefix != "" {
		return tr.script.prefix
	}
	return "kopf.zalando.org"
}

// state returns the object after a step of Kopf for Python, -1 for the initial state; nil if it is gone.
func (tr *trace) state(step int) map[string]any {
	for ; step >= 0; step-- {
		if object, ok := tr.Steps[step].After.(map[string]any); ok {
			return object
		}
	}
	return tr.Before
}

// kind returns the replacement for the kind of the trace, and its selector. The ReplicaSet is not that of the group apps, because its objects have
// another spec. Only its name matters (CH-135).
func (tr *trace) kind(c *C) (*Kind, kopf.Selector) {
	switch {
	case tr.Before["kind"] == "ReplicaSet":
		c.Define(definition("replicasets", "ReplicaSet", "Namespaced", nil))
		return c.Of("kopf.dev/v1", "ReplicaSet"), "replicasets.v1.kopf.dev"
	case tr.Resource.Status:
		return c.Of("kopf.dev/v1", "KopfStatusExample"), "kopfstatusexamples"
	}
	return c.Kind, Examples
}

// bring gives the object a state of the trace, except for the fields that the server controls.
func (tr *trace) bring(c *C, kind *Kind, state map[string]any) {
	meta := maps.Clone(state["metadata"].(map[string]any))
	_, deleted := meta["deletionTimestamp"]
	for _, own := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp"} {
		delete(meta, own)
	}
	fields := map[string]any{"metadata": meta, "spec": state["spec"]}
	if status, has := state["status"]; has {
		fields["status"] = status
	}
	kind.Create("a", fields)
	if tr.Resource.Status && fields["status"] != nil {
		kind.PatchStatus("a", map[string]any{"status": fields["status"]})
	}
	if deleted {
		kind.Delete("a")
	}
}

// operator starts an operator with the handlers of the trace, and with the delayed stream of the recording.
func (tr *trace) operator(c *C, on kopf.Selector, adjust ...func(*kopf.Operator)) (*Running, *scene, *tape) {
	s, tape := &scene{}, &tape{}
	r := &kopf.Registry{}
	tr.script.handlers(r, on, s)
	op := c.Operator(r, append([]func(*kopf.Operator){func(op *kopf.Operator) {
		tape.next = op.Connection.HTTPClient.Transport
		op.Connection.HTTPClient = &http.Client{Transport: tape}
		if tr.script.persist != nil {
			tr.script.persist(&op.Settings.Persistence)
		}
	}}, adjust...)...)
	return op, s, tape
}

// asOriginal makes an operator call one handler in a cycle and store its outcome at once.
func asOriginal(op *kopf.Operator) {
	op.Lifecycle = kopf.ASAP
	op.Settings.Execution.FlushAfter = 0
}

// at waits until a time, and until all work at that time is done.
func (c *C) at(t time.Time) {
	c.Helper()
	if passed := time.Since(t); passed > 0 {
		c.Fatalf("it is %s too late for %s", passed, t)
	}
	c.Pass(time.Until(t))
}

// tape is a transport that records the result of each patch, and delays the events of watches. If several events arrive at the same time, it passes
// on the newest, like the recorded steps.
type tape struct {
	next http.RoundTripper

	mu     sync.Mutex // guards following
	frames []frame
	limit  int // the number of frames after which the wire is cut; 0 means none
	wire   *Wire
}

// cutAfter cuts the wire after a number of patches.
func (t *tape) cutAfter(n int, wire *Wire) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.wire = n, wire
}

// frame is a patch and the object after it.
type frame struct {
	request Request
	after   map[string]any
}

func (t *tape) all() []frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.frames)
}

// RoundTrip sends the request, and records or delays its response.
func (t *tape) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/events") { // not part of the object's life
		return t.next.RoundTrip(req)
	}
	var sent []byte
	if req.Method == http.MethodPatch {
		sent, _ = io.ReadAll(req.Body) // from memory
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := t.next.RoundTrip(req)
	switch {
	case err != nil:
		return resp, err
	case req.Method == http.MethodPatch:
		data, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it has been read
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(data))
		f := frame{request: Request{
			Time: time.Now(), Method: req.Method, Path: req.URL.RequestURI(), ContentType: req.Header.Get("Content-Type"), Body: string(sent), Code: resp.StatusCode,
		}}
		_ = json.Unmarshal(data, &f.after) // other responses have no expectation
		t.mu.Lock()
		t.frames = append(t.frames, f)
		if t.limit == len(t.frames) {
			t.wire.Cut()
		}
		t.mu.Unlock()
	case strings.Contains(req.URL.RawQuery, "watch=true") && strings.HasPrefix(req.URL.Path, "/apis/kopf.dev/"):
		resp.Body = late(resp.Body)
	}
	return resp, nil
}

// late delays the lines of a stream.
func late(body io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	var group sync.WaitGroup
	var mu sync.Mutex // guards newest
	newest := map[time.Time]string{}
	group.Go(func() {
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				_ = w.CloseWithError(err) // it never fails
				return
			}
			came := time.Now()
			mu.Lock()
			_, more := newest[came]
			newest[came] = line
			mu.Unlock()
			if more {
				continue
			}
			group.Go(func() {
				time.Sleep(streamLag) // the delay of an event
				mu.Lock()
				line := newest[came]
				mu.Unlock()
				_, _ = w.Write([]byte(line)) // the reader may be closed
			})
		}
	})
	return &laggingBody{r, body, &group}
}

var _ = Suite("interop_replay", func(t *testing.T, c *C) {
	for _, tr := range traces() {
		c.Run(t, "CH-222 all requests, states and log lines of: "+tr.Name, func(c *C) {
			c.OnlyInBubble("the clock is set")
			replay(c, tr)
		})
		c.Run(t, "all at once, the object ends the same: "+tr.Name, func(c *C) {
			c.OnlyInBubble("the delays are long")
			settle(c, tr)
		})
	}
})

// begin creates the object and starts an operator. The operator starts first if the first event comes from a stream, and last if it comes from a list.
func (tr *trace) begin(c *C, adjust ...func(*kopf.Operator)) (kind *Kind, op *Running, s *scene, reel *tape) {
	kind, on := tr.kind(c)
	first := tr.Steps[0]
	if typ := first.Event.Type; typ != nil && *typ == "ADDED" {
		c.at(first.Now.Add(-streamLag))
		op, s, reel = tr.operator(c, on, adjust...)
		c.idle() // the stream is open
		tr.bring(c, kind, tr.Before)
		return kind, op, s, reel
	}
	tr.bring(c, kind, tr.Before)
	c.at(first.Now)
	op, s, reel = tr.operator(c, on, adjust...)
	return kind, op, s, reel
}

// replay lives the whole life under one operator, and compares all that can be seen of it.
func replay(c *C, tr *trace) {
	kind, op, s, reel := tr.begin(c, asOriginal)
	k := ourClock(tr)
	state := kind.Get("a").Map()
	acted := map[int]map[string]any{} // the object after the changes of the user
	for i, step := range tr.Steps {
		if act := tr.script.user[i]; act != nil {
			c.at(k.of(step.end()))
			act(c, kind)
			acted[i] = kind.Get("a").Map()
		}
	}
	last := tr.Steps[len(tr.Steps)-1]
	c.at(last.Now.Add(time.Minute))
	op.Stop()

	frames := reel.all()
	var lines, invoked []string
	for i, step := range tr.Steps {
		e := tr.expected(i, k, plain(state))
		for n, want := range e.requests {
			if len(frames) == 0 {
				c.Fatalf("step %d: request %d is missing: %v", i, n, want)
			}
			c.compare(fmt.Sprintf("step %d: request %d", i, n), kind, want, frames[0])
			state, frames = frames[0].after, frames[1:]
		}
		if acted[i] != nil {
			state = acted[i]
		}
		if after, ok := step.After.(map[string]any); ok {
			want := untouched(k.in(tr.comparable(after)).(map[string]any))
			tr.carry(i, want)
			c.same(fmt.Sprintf("step %d: the object", i), tr.comparable(want), tr.comparable(plain(state)))
		}
		lines = append(lines, e.lines...)
		invoked = append(invoked, step.invoked()...)
	}
	for _, f := range frames {
		c.Errorf("nobody expects %s %s %s", f.request.Path, f.request.ContentType, f.request.Body)
	}
	c.same("the log", lines, objectLines(op))
	c.same("the calls", invoked, withoutAttempts(s.calls.all()))
	tr.checkEnd(c, kind)
}

// settle lets the operator work with its default settings, and compares the result at the end.
func settle(c *C, tr *trace) {
	kind, op, s, _ := tr.begin(c)
	k := ourClock(tr)
	for i, step := range tr.Steps {
		if act := tr.script.user[i]; act != nil {
			c.at(k.of(step.end()))
			act(c, kind)
		}
	}
	c.at(tr.Steps[len(tr.Steps)-1].Now.Add(time.Minute))
	op.Stop()
	tr.checkEnd(c, kind)
	var want []string
	for _, step := range tr.Steps {
		want = append(want, step.invoked()...)
	}
	got := withoutAttempts(s.calls.all())
	parents := func(id string) bool { return id == universe } // their calls depend on the number of cycles (CH-106)
	c.same("the calls", slices.DeleteFunc(want, parents), slices.DeleteFunc(got, parents))
}

// checkEnd compares the object at the end of its life. It may be gone.
func (tr *trace) checkEnd(c *C, kind *Kind) {
	c.Helper()
	want, ok := tr.Finally.(map[string]any)
	switch {
	case ok:
		c.same("the object in the end", tr.comparable(want), tr.comparable(plain(kind.Get("a").Map())))
	case kind.Exists("a"):
		c.Errorf("the object is still there: %v", kind.Get("a").Map())
	}
}

func (c *C) compare(what string, kind *Kind, want expectedRequest, got frame) {
	c.Helper()
	plural := map[string]string{"KopfExample": "kopfexamples", "KopfStatusExample": "kopfstatusexamples", "ReplicaSet": "replicasets"}[kind.kind]
	path := "/apis/kopf.dev/v1/namespaces/" + c.Namespace + "/" + plural + "/" + want.path
	if got.request.Path != path || got.request.ContentType != want.contentType || got.request.Code != http.StatusOK {
		c.Errorf("%s: got %s, %s, %d; want %s, %s, 200", what, got.request.Path, got.request.ContentType, got.request.Code, path, want.contentType)
	}
	if !got.request.Time.Equal(want.at) {
		c.Errorf("%s: sent at %s, want %s", what, got.request.Time.UTC(), want.at)
	}
	c.same(what, want.body, decoded(got.request.Body))
}

// same compares values as JSON.
func (c *C) same(what string, want, got any) {
	c.Helper()
	if a, b := indented(want), indented(got); a != b {
		c.Errorf("%s: got\n%s\nwant\n%s", what, b, a)
	}
}

func indented(v any) string {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// plain returns an object as encoding/json decodes it.
func plain(object map[string]any) map[string]any { return decoded(encoded(object)).(map[string]any) }

// objectLines returns the log lines about objects, except those about requests (CH-215), which are compared themselves.
func objectLines(op *Running) []string {
	var lines []string
	for _, line := range op.Logs.All() {
		if line.Attrs["object"] == "" || line.Message == "Patching." {
			continue
		}
		text := line.Level.String() + " " + line.Message
		if strings.Contains(text, "with an exception") {
			text += " " + line.Attrs["error"]
		}
		lines = append(lines, text)
	}
	return lines
}

func withoutAttempts(calls []string) []string {
	ids := make([]string, len(calls))
	for i, call := range calls {
		ids[i], _, _ = strings.Cut(call, " ")
	}
	return ids
}
