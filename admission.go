package kopf

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/webhookname"
)

// This file answers the reviews of the API server: it finds the handlers for them, calls these, and makes one answer of what they
// say. It starts and ends the server of webhooks, on whose goroutines the handlers run.

// reviewServer is the engine of one operator.
type reviewServer struct {
	*environment
	operator     admissionOperator
	requests     context.Context // of the requests that take the configurations back
	all          []*handler      // in order of registration
	tasks        sync.WaitGroup
	changed      chan struct{}   // holds one token when the resources have changed
	serveCtx     context.Context // of the server
	cancel       context.CancelFunc
	writing      sync.Mutex // held while the configurations are written; before mu
	written      map[handlerKind][]byte
	mu           sync.Mutex              // guards following
	resources    map[*handler][]Resource // those that each handler is for
	clientConfig *WebhookClientConfig    // nil before the server listens
	memories     reviewMemories
	failure      error // for which the operator ends
	stopping     bool
}

// reviewMemories are what is remembered of objects that only reviews have shown.
type reviewMemories struct {
	all     map[string]*reviewMemory // by uid
	sweptAt time.Time                // when the old ones among them were last dropped
}

// reviewMemory is what is remembered of an object that is not watched.
type reviewMemory struct {
	memory
	used time.Time
}

// reviewMemoryLife is how long an object is remembered after its last review, unless it is watched.
const reviewMemoryLife = 10 * time.Minute

// maxReviewMemories is how many of them are remembered. What comes beyond that is forgotten with its review.
const maxReviewMemories = 10_000

// newReviewServer makes the engine.
func newReviewServer(r *Registry, env *environment, requests context.Context, operator admissionOperator) (*reviewServer, error) {
	s := &reviewServer{
		environment: env, operator: operator, requests: requests,
		changed: make(chan struct{}, 1), written: make(map[handlerKind][]byte), memories: reviewMemories{all: make(map[string]*reviewMemory)},
	}
	s.all = slices.DeleteFunc(r.snapshot(), func(h *handler) bool { return h.admission == nil })
	if s.settings.Admission.Server == nil {
		return nil, errors.New("admission handlers exist, but no admission server is configured: set Settings.Admission.Server, such as to a WebhookServer, in a start-up handler")
	}
	return s, s.checkNames()
}

// setResources takes the resources, and starts the server when they come first.
func (s *reviewServer) setResources(found []Resource) {
	resources := make(map[*handler][]Resource, len(s.all))
	for _, h := range s.all {
		resources[h] = h.admissionResources(found)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources = resources
	if s.stopping {
		return
	}
	if s.cancel != nil {
		select {
		case s.changed <- struct{}{}:
		default:
		}
		return
	}
	ctx, end := context.WithCancel(withOperator(s.requests, s.client, s.log))
	s.serveCtx, s.cancel = ctx, end
	s.tasks.Go(func() { s.serve(ctx) })
	if s.settings.Admission.Managed != "" {
		s.tasks.Go(func() { s.followResources(ctx) })
	}
}

// admissionResources returns the resources that a handler of admission is for. Those need not be watchable.
func (h *handler) admissionResources(found []Resource) []Resource {
	fit, _ := h.selected(found)
	if core := coreOf(fit); h.selector.named() && len(core) > 0 {
		fit = core
	}
	sortByName(fit)
	if h.selector.specific() && len(fit) > 1 {
		return nil
	}
	return fit
}

// announcementTimeout is after what time a server that is not announced is warned of. Tunnels are opened by then.
const announcementTimeout = 30 * time.Second

// serve runs the server. Operators do not go on without it.
func (s *reviewServer) serve(ctx context.Context) {
	warning := time.AfterFunc(announcementTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.clientConfig == nil {
			s.log.Warn("The admission server has not been announced yet: it has not called the function that Serve gets for that. The API server asks nothing before.")
		}
	})
	defer warning.Stop()
	err := call(func() error { return s.settings.Admission.Server.Serve(ctx, s.review, s.setClient) })
	if ctx.Err() != nil {
		if err != nil {
			s.log.Warn("The admission server has not ended well.", "error", err)
		}
		return
	}
	s.log.Warn("The admission server has finished unexpectedly.", "error", err)
	if err == nil {
		err = errors.New("it has just returned")
	}
	s.fail(fmt.Errorf("the admission server has finished unexpectedly: %w", err))
}

// fail ends the operator.
func (s *reviewServer) fail(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	s.mu.Unlock()
	s.operator.end(err)
}

// setClient takes how the server is reached, and returns when the configurations are written.
func (s *reviewServer) setClient(client WebhookClientConfig) {
	s.mu.Lock()
	s.clientConfig = &client
	s.mu.Unlock()
	s.configure()
}

// serverGracePeriod is how long a server may go on after the end of its context: longer than API servers wait for the reviews under way.
const serverGracePeriod = time.Minute

// stop removes the webhooks from the configurations, so that no review is requested, and then stops the server.
func (s *reviewServer) stop() error {
	s.mu.Lock()
	s.stopping = true
	end, served := s.cancel, s.serveCtx
	s.mu.Unlock()
	if end != nil {
		s.cleanConfigurations()
		end()
		if !waitFor(served, &s.tasks, serverGracePeriod) {
			s.log.Error("The admission server is left behind, because it ignores that its context has ended.")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// reviewRequest is what matters of an AdmissionReview.
type reviewRequest struct {
	APIVersion, Kind string
	Request          *struct {
		UID                                     string
		Name, Namespace, Operation, SubResource string
		Resource                                *struct{ Group, Version, Resource string }
		DryRun                                  bool
		UserInfo, Object, OldObject             json.RawMessage
	}
}

// readReview reads an AdmissionReview, and returns what is wrong with it.
func readReview(data []byte) (*reviewRequest, error) {
	bad := func(code int, message string) error { return &ReviewError{Code: code, Message: message} }
	r := &reviewRequest{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, bad(http.StatusBadRequest, "the review cannot be read: "+err.Error())
	}
	if r.Request == nil {
		return nil, bad(http.StatusInternalServerError, "the review has no request")
	}
	if r.Request.Resource == nil {
		return nil, bad(http.StatusInternalServerError, "the request has no resource")
	}
	if rawjson.IsNull(r.Request.UserInfo) {
		return nil, bad(http.StatusBadRequest, "the request has no userInfo")
	}
	if rawjson.IsNull(r.Request.Object) && rawjson.IsNull(r.Request.OldObject) {
		return nil, bad(http.StatusBadRequest, "the request has neither an object nor an oldObject")
	}
	return r, nil
}

// review answers one review. See [ReviewFunc].
func (s *reviewServer) review(ctx context.Context, r *ReviewRequest) ([]byte, error) {
	started := time.Now()
	question, err := readReview(r.Body)
	if err != nil {
		return nil, err
	}
	resource, handlers, err := s.handlersFor(question, r.Handler)
	if err != nil {
		return nil, err
	}
	a := &admissionReview{reviewServer: s, started: started, mutating: slices.ContainsFunc(handlers, func(h *handler) bool { return h.kind == kindMutate })}
	if a.argument, err = s.argument(question, r, resource); err != nil {
		return nil, &ReviewError{Code: http.StatusBadRequest, Message: "the object of the review cannot be read: " + err.Error()}
	}
	a.argument.warnings, a.argument.Started = &a.warnings, started
	if resource.Namespaced && !s.operator.serves(question.Request.Namespace) {
		handlers = nil // the API server asks for all namespaces where they cannot be named
	}
	if handlers, err = a.choose(handlers); err != nil {
		return nil, err
	}
	for _, h := range handlers {
		a.call(ctx, h)
	}
	return a.answer(question)
}

// handlersFor finds the resource of a review, and the handlers that it is for.
func (s *reviewServer) handlersFor(q *reviewRequest, path string) (resource Resource, handlers []*handler, err error) {
	kind, id := handlerPath(path)
	want := q.Request.Resource
	known := false
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		named := path == "" || h.id == id && (kind == 0 || h.kind == kind) || path == webhookname.ServicePath(s.pathOf(h))
		known = known || named
		i := slices.IndexFunc(s.resources[h], func(r Resource) bool {
			return r.Group == want.Group && r.Version == want.Version && r.Plural == want.Resource
		})
		if named && i >= 0 {
			resource, handlers = s.resources[h][i], append(handlers, h)
		}
	}
	name := Resource{Group: want.Group, Version: want.Version, Plural: want.Resource}.Name()
	switch {
	case !known:
		return resource, nil, &ReviewError{Code: http.StatusNotFound, Message: fmt.Sprintf("there is no handler %q", path)}
	case handlers == nil && path == "":
		return resource, nil, &ReviewError{Code: http.StatusNotFound, Message: "the specified resource has no handlers: " + name}
	case handlers == nil:
		return resource, nil, &ReviewError{Code: http.StatusNotFound, Message: fmt.Sprintf("the specified resource has no handlers of the id %q: %s", path, name)}
	}
	return resource, handlers, nil
}

// argument makes what the handlers get.
func (s *reviewServer) argument(q *reviewRequest, r *ReviewRequest, resource Resource) (*Admission, error) {
	request := q.Request
	raw := request.Object
	if rawjson.IsNull(raw) {
		raw = request.OldObject
	}
	body, err := ParseBody(raw)
	if err != nil {
		return nil, err
	}
	ref := body.Reference()
	ref.Name, ref.Namespace = cmp.Or(ref.Name, request.Name), cmp.Or(ref.Namespace, request.Namespace)
	o := Object{
		Resource: resource, Body: body, Patch: &Patch{}, Logger: objectLogger(s.log, ref), Client: s.client, Indices: s.indices,
		events: s.events, memory: s.remember(Operation(request.Operation), resource, body),
	}
	return &Admission{
		Object: o, Operation: Operation(request.Operation), Subresource: request.SubResource, DryRun: request.DryRun,
		UserInfo: View{raw: request.UserInfo}, Old: viewOrNone(request.OldObject), New: viewOrNone(request.Object), Request: r,
	}, nil
}

func viewOrNone(raw []byte) View {
	if rawjson.IsNull(raw) {
		return View{}
	}
	return View{raw: bytes.TrimSpace(raw)}
}

// remember returns the memory of the object: that of the object itself if it is watched, else one that is kept for a while. Nothing is kept of
// what is only being created: it may never come to be.
func (s *reviewServer) remember(op Operation, resource Resource, body *Body) *memory {
	if op == OperationCreate || body.UID() == "" {
		m := &memory{}
		m.see(s.memo)
		return m
	}
	if m := s.operator.memoryOf(resource.Name(), body.key()); m != nil {
		m.see(s.memo)
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.memories.sweptAt) > reviewMemoryLife/10 {
		s.memories.sweptAt = now
		maps.DeleteFunc(s.memories.all, func(_ string, m *reviewMemory) bool { return now.Sub(m.used) > reviewMemoryLife })
	}
	m := s.memories.all[body.UID()]
	if m == nil || now.Sub(m.used) > reviewMemoryLife {
		m = &reviewMemory{}
		m.see(s.memo)
		if len(s.memories.all) < maxReviewMemories {
			s.memories.all[body.UID()] = m
		}
	}
	m.used = now
	return &m.memory
}

// admissionReview is one review under way.
type admissionReview struct {
	*reviewServer
	started  time.Time
	argument *Admission
	mutating bool // whether a patch may be answered
	warnings []string
	worst    error // the one to be reported
	rank     int   // of that, the lower the worse
}

// choose returns the handlers that the operation concerns, each function once under one id.
func (a *admissionReview) choose(handlers []*handler) (chosen []*handler, err error) {
	for _, h := range handlers {
		twin := func(o *handler) bool { return o.id == h.id && o.fn == h.fn }
		if !h.coversOperation(a.argument.Operation, a.argument.Subresource) || slices.ContainsFunc(chosen, twin) {
			continue
		}
		fits := false
		own := *a.argument
		own.Param = h.param
		if err := call(func() error { fits = h.fitsReview(&own); return nil }); err != nil {
			a.argument.Logger.Error(fmt.Sprintf("A filter of handler '%s' has panicked, and the review fails.", h.id), "error", err, "stack", string(stackOf(err)))
			return nil, fmt.Errorf("a filter of the handler %q has panicked", h.id)
		}
		if fits {
			chosen = append(chosen, h)
		}
	}
	return chosen, nil
}

// reviewMargin is how much earlier than the API server a handler gives up, for the answer to come in time: a tenth, and no more than this.
const reviewMargin = time.Second

// reviewTime returns how long the API server waits for a handler.
func (h *handler) reviewTime() time.Duration {
	if h.timeout == 0 {
		return maxReviewTime
	}
	return (h.timeout + time.Second - 1).Truncate(time.Second)
}

// call calls one handler, and notes its error.
func (a *admissionReview) call(ctx context.Context, h *handler) {
	began := time.Now()
	limit := h.reviewTime()
	ctx, cancel := context.WithDeadlineCause(ctx, a.started.Add(limit-min(limit/10, reviewMargin)), fmt.Errorf("the review must be answered within %s", limit))
	defer cancel()
	defer context.AfterFunc(a.handlers, cancel)()
	own := *a.argument
	own.Param, own.Runtime = h.param, began.Sub(a.started)
	err := call(func() error { return h.admission.call(ctx, &own) })
	if err == nil {
		err = own.Patch.try(own.Body)
	}
	a.log(h, err)
	outcome := metrics.Success
	if err != nil {
		outcome = metrics.Failure
	}
	a.meter.Handler(string(h.id), false).Ended(outcome, int64(time.Since(began)))
	if rank := rankOf(err); err != nil && (a.worst == nil || rank < a.rank) {
		a.worst, a.rank = err, rank
	}
}

// log logs how a handler has decided.
func (a *admissionReview) log(h *handler, err error) {
	name := "Webhook '" + string(h.id) + "'"
	if denied := (*AdmissionError)(nil); errors.As(err, &denied) {
		a.argument.Logger.Error(name + " failed with a denial: " + err.Error())
		return
	}
	logOutcome(context.Background(), a.argument.Logger, "Webhook", h.id, outcome{final: true, err: err}, err)
}

// rankOf returns which errors are reported rather than others: the lower ones.
func rankOf(err error) int {
	var admission *AdmissionError
	var permanent *PermanentError
	var temporary *TemporaryError
	switch {
	case errors.As(err, &admission):
		return 0
	case errors.As(err, &permanent):
		return 1
	case errors.As(err, &temporary):
		return 2
	}
	return 3
}

// answer makes the AdmissionReview with the response.
func (a *admissionReview) answer(q *reviewRequest) ([]byte, error) {
	response := map[string]any{"uid": q.Request.UID, "allowed": a.worst == nil}
	if len(a.warnings) > 0 {
		response["warnings"] = a.warnings
	}
	if a.worst != nil {
		response["status"] = map[string]any{"message": cmp.Or(a.worst.Error(), fmt.Sprintf("%T", a.worst)), "code": codeOf(a.worst)}
	}
	if p := a.argument.Patch; a.mutating && !p.Empty() {
		if operations := p.operations(a.argument.Body); len(operations) > 0 {
			data, err := rawjson.Encode(jsonpatch.Values(operations))
			if err != nil {
				return nil, err
			}
			response["patchType"], response["patch"] = "JSONPatch", base64.StdEncoding.EncodeToString(data)
		}
	}
	return rawjson.Encode(map[string]any{"apiVersion": cmp.Or(q.APIVersion, "admission.k8s.io/v1"), "kind": cmp.Or(q.Kind, "AdmissionReview"), "response": response})
}

// codeOf returns the code to deny with.
func codeOf(err error) int {
	if denied := (*AdmissionError)(nil); errors.As(err, &denied) && denied.Code >= 400 && denied.Code < 600 {
		return denied.Code
	}
	return http.StatusInternalServerError
}

// handlerPath reads what comes after the root path of a server: an id, or one with the kind of the handler.
func handlerPath(path string) (handlerKind, HandlerID) {
	if id, ok := strings.CutPrefix(path, "validating:"); ok {
		return kindValidate, HandlerID(id)
	}
	if id, ok := strings.CutPrefix(path, "mutating:"); ok {
		return kindMutate, HandlerID(id)
	}
	return 0, HandlerID(path)
}
