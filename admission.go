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

	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file answers the reviews of the API server: it finds the handlers that are asked, calls them, and makes one answer of what they
// say. It starts and ends the server of webhooks, on whose goroutines the handlers run.

// OnValidate registers a validating handler in the default registry. See [Registry.OnValidate].
func OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, DefaultRegistry().onAdmission(kindValidate, s, fn, opts, newAdmissions))
}

// OnMutate registers a mutating handler in the default registry. See [Registry.OnMutate].
func OnMutate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindMutate, DefaultRegistry().onAdmission(kindMutate, s, fn, opts, newAdmissions))
}

// OnValidate registers a handler that admits or denies operations on objects of the selected resources before they happen. It needs
// Settings.Admission.Server. It panics as [Registry.OnEvent] does.
func (g *Registry) OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, g.onAdmission(kindValidate, s, fn, opts, newAdmissions))
}

// OnMutate registers a handler that changes objects of the selected resources by its Patch before they are stored, and can deny
// operations, too. It needs Settings.Admission.Server. It panics as [Registry.OnEvent] does.
func (g *Registry) OnMutate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindMutate, g.onAdmission(kindMutate, s, fn, opts, newAdmissions))
}

// admissions is the engine of one operator.
type admissions struct {
	*admissionHost
	operator admissionOperator
	server   AdmissionServer
	managed  string
	all      []*handler // in order of registration
	work     sync.WaitGroup
	changed  chan struct{}   // holds one token when the resources have changed
	served   context.Context // of the server
	end      context.CancelFunc
	writing  sync.Mutex // held while the configurations are written; before mu
	written  map[handlerKind][]byte
	mu       sync.Mutex               // guards following
	serving  map[*handler][]Resource  // those that each handler is for
	client   *WebhookClientConfig     // nil before the server listens
	memories map[string]*reviewMemory // of objects that only reviews have shown, by uid
	swept    time.Time                // when the old ones among them were last dropped
	failure  error                    // for which the operator ends
	stopping bool
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

// newAdmissions makes the engine.
func newAdmissions(g *Registry, operator admissionOperator) (admissionEngine, error) {
	host := operator.admissionHost()
	a := &admissions{
		admissionHost: host, operator: operator, server: host.settings.Admission.Server, managed: host.settings.Admission.Managed,
		changed: make(chan struct{}, 1), written: make(map[handlerKind][]byte), memories: make(map[string]*reviewMemory),
	}
	a.all = slices.DeleteFunc(g.snapshot(), func(h *handler) bool { return h.admitting == nil })
	if a.server == nil {
		return nil, errors.New("admission handlers exist, but no admission server is configured: set Settings.Admission.Server, such as to a WebhookServer, in a start-up handler")
	}
	return a, a.checkNames()
}

// adjust takes the resources, and starts the server when they come first.
func (a *admissions) adjust(found []Resource) {
	serving := make(map[*handler][]Resource, len(a.all))
	for _, h := range a.all {
		serving[h] = h.admits(found)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serving = serving
	if a.stopping {
		return
	}
	if a.end != nil {
		select {
		case a.changed <- struct{}{}:
		default:
		}
		return
	}
	ctx, end := context.WithCancel(withOperator(a.requests, a.admissionHost.client, a.log))
	a.served, a.end = ctx, end
	a.work.Go(func() { a.serve(ctx) })
	if a.managed != "" {
		a.work.Go(func() { a.follow(ctx) })
	}
}

// admits returns the resources that a handler of admission is for. Those need not be watchable.
func (h *handler) admits(found []Resource) []Resource {
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
func (a *admissions) serve(ctx context.Context) {
	warning := time.AfterFunc(announcementTimeout, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.client == nil {
			a.log.Warn("The admission server has not been announced yet: it has not called the function that Serve gets for that. The API server asks nothing before.")
		}
	})
	defer warning.Stop()
	err := call(func() error { return a.server.Serve(ctx, a.review, a.setClient) })
	if ctx.Err() != nil {
		if err != nil {
			a.log.Warn("The admission server has not ended well.", "error", err)
		}
		return
	}
	a.log.Warn("The admission server has finished unexpectedly.", "error", err)
	if err == nil {
		err = errors.New("it has just returned")
	}
	a.fail(fmt.Errorf("the admission server has finished unexpectedly: %w", err))
}

// fail ends the operator.
func (a *admissions) fail(err error) {
	a.mu.Lock()
	if a.failure == nil {
		a.failure = err
	}
	a.mu.Unlock()
	a.operator.end(err)
}

// setClient takes how the server is reached, and returns when the API server has been told.
func (a *admissions) setClient(client WebhookClientConfig) {
	a.mu.Lock()
	a.client = &client
	a.mu.Unlock()
	a.configure()
}

// servingEnding is how long a server may go on after the end of its context: longer than API servers wait for the reviews under way.
const servingEnding = time.Minute

// stop takes the configurations back, so that nobody asks, and then stops the server.
func (a *admissions) stop() error {
	a.mu.Lock()
	a.stopping = true
	end, served := a.end, a.served
	a.mu.Unlock()
	if end != nil {
		a.clean()
		end()
		if !waitFor(served, &a.work, servingEnding) {
			a.log.Error("The admission server is left behind, because it ignores that its context has ended.")
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
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

// readReview reads an AdmissionReview, and says what is wrong with it.
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
func (a *admissions) review(ctx context.Context, r *ReviewRequest) ([]byte, error) {
	started := time.Now()
	question, err := readReview(r.Body)
	if err != nil {
		return nil, err
	}
	resource, handlers, err := a.handlersFor(question, r.Handler)
	if err != nil {
		return nil, err
	}
	x := &reviewing{admissions: a, started: started, mutating: slices.ContainsFunc(handlers, func(h *handler) bool { return h.kind == kindMutate })}
	if x.argument, err = a.argument(question, r, resource); err != nil {
		return nil, &ReviewError{Code: http.StatusBadRequest, Message: "the object of the review cannot be read: " + err.Error()}
	}
	x.argument.warnings, x.argument.Started = &x.warnings, started
	if resource.Namespaced && !a.operator.serves(question.Request.Namespace) {
		handlers = nil // the API server asks for all namespaces where they cannot be told by name
	}
	if handlers, err = x.choose(handlers); err != nil {
		return nil, err
	}
	for _, h := range handlers {
		x.call(ctx, h)
	}
	return x.answer(question)
}

// handlersFor finds the resource of a review, and the handlers that are handlersFor about it.
func (a *admissions) handlersFor(q *reviewRequest, path string) (resource Resource, handlers []*handler, err error) {
	kind, id := handlerPath(path)
	want := q.Request.Resource
	known := false
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.all {
		named := path == "" || h.id == id && (kind == 0 || h.kind == kind) || path == servicePath(a.pathOf(h))
		known = known || named
		i := slices.IndexFunc(a.serving[h], func(r Resource) bool {
			return r.Group == want.Group && r.Version == want.Version && r.Plural == want.Resource
		})
		if named && i >= 0 {
			resource, handlers = a.serving[h][i], append(handlers, h)
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
func (a *admissions) argument(q *reviewRequest, r *ReviewRequest, resource Resource) (*Admission, error) {
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
		Resource: resource, Body: body, Patch: &Patch{}, Logger: objectLogger(a.log, ref), Client: a.admissionHost.client, Indices: a.indices,
		events: a.events, memory: a.remember(Operation(request.Operation), resource, body),
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
func (a *admissions) remember(op Operation, resource Resource, body *Body) *memory {
	if op == OperationCreate || body.UID() == "" {
		m := &memory{}
		m.see(a.memo)
		return m
	}
	if m := a.operator.memoryOf(resource.Name(), body.key()); m != nil {
		m.see(a.memo)
		return m
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.swept) > reviewMemoryLife/10 {
		a.swept = now
		maps.DeleteFunc(a.memories, func(_ string, m *reviewMemory) bool { return now.Sub(m.used) > reviewMemoryLife })
	}
	m := a.memories[body.UID()]
	if m == nil || now.Sub(m.used) > reviewMemoryLife {
		m = &reviewMemory{}
		m.see(a.memo)
		if len(a.memories) < maxReviewMemories {
			a.memories[body.UID()] = m
		}
	}
	m.used = now
	return &m.memory
}

// reviewing is one review under way.
type reviewing struct {
	*admissions
	started  time.Time
	argument *Admission
	mutating bool // whether a patch may be answered
	warnings []string
	worst    error // the one to be reported
	rank     int   // of that, the lower the worse
}

// choose returns the handlers that the operation concerns, each function once under one id.
func (x *reviewing) choose(handlers []*handler) (chosen []*handler, err error) {
	for _, h := range handlers {
		twin := func(o *handler) bool { return o.id == h.id && o.fn == h.fn }
		if !h.covers(x.argument.Operation, x.argument.Subresource) || slices.ContainsFunc(chosen, twin) {
			continue
		}
		fits := false
		own := *x.argument
		own.Param = h.param
		if err := call(func() error { fits = h.fitsReview(&own); return nil }); err != nil {
			x.argument.Logger.Error(fmt.Sprintf("A filter of handler '%s' has panicked, and the review fails.", h.id), "error", err, "stack", string(stackOf(err)))
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
func (x *reviewing) call(ctx context.Context, h *handler) {
	began := time.Now()
	limit := h.reviewTime()
	ctx, cancel := context.WithDeadlineCause(ctx, x.started.Add(limit-min(limit/10, reviewMargin)), fmt.Errorf("the review must be answered within %s", limit))
	defer cancel()
	defer context.AfterFunc(x.handlers, cancel)()
	own := *x.argument
	own.Param, own.Runtime = h.param, began.Sub(x.started)
	err := call(func() error { return h.rules().call(ctx, &own) })
	if err == nil {
		err = own.Patch.try(own.Body)
	}
	x.log(h, err)
	outcome := metrics.Success
	if err != nil {
		outcome = metrics.Failure
	}
	x.meter.Handler(string(h.id), false).Ended(outcome, int64(time.Since(began)))
	if rank := rankOf(err); err != nil && (x.worst == nil || rank < x.rank) {
		x.worst, x.rank = err, rank
	}
}

// log tells how a handler has decided.
func (x *reviewing) log(h *handler, err error) {
	name := "Webhook '" + string(h.id) + "'"
	if denied := (*AdmissionError)(nil); errors.As(err, &denied) {
		x.argument.Logger.Error(name + " failed with a denial: " + err.Error())
		return
	}
	logOutcome(context.Background(), x.argument.Logger, "Webhook", h.id, outcome{final: true, err: err}, err)
}

// rankOf tells which errors are reported rather than others: the lower ones.
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
func (x *reviewing) answer(q *reviewRequest) ([]byte, error) {
	response := map[string]any{"uid": q.Request.UID, "allowed": x.worst == nil}
	if len(x.warnings) > 0 {
		response["warnings"] = x.warnings
	}
	if x.worst != nil {
		response["status"] = map[string]any{"message": cmp.Or(x.worst.Error(), fmt.Sprintf("%T", x.worst)), "code": codeOf(x.worst)}
	}
	if p := x.argument.Patch; x.mutating && !p.Empty() {
		if operations := p.JSONPatch(x.argument.Body); len(operations) > 0 {
			data, err := rawjson.Encode(decoded(operations))
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
