package kopf

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
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

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/webhookname"
)

// This file answers the reviews of the API server: it finds the handlers for them, calls these, and makes one answer of what they
// say. It starts and ends the server of webhooks, on whose goroutines the handlers run.

// reviewRunner answers the reviews. It comes with the handlers, so that programs without any are linked without the server.
type reviewRunner interface {
	setResources(found []Resource)
	lead()
	stop() error
}

type newReviewRunner func(*Registry, *observer) (reviewRunner, error)

// reviewServer is the engine of one operator.
type reviewServer struct {
	*environment
	operator     admissionOperator
	requests     context.Context // of the requests that take the configurations back
	all          []*handler      // in order of registration
	tasks        sync.WaitGroup
	changed      chan struct{} // holds one token when the resources have changed
	serving      reviewServing
	writing      sync.Mutex // held while the configurations are written; before mu
	written      map[handlerKind][]byte
	mu           sync.Mutex              // guards following
	resources    map[*handler][]Resource // those that each handler is for
	clientConfig *WebhookClientConfig    // nil before the server listens
	memories     reviewMemories
	failure      error // for which the operator ends
	stopping     bool
}

// reviewServing is what the reviews come by.
type reviewServing struct {
	settings AdmissionSettings // as they were at the start
	ctx      context.Context   // of the server
	cancel   context.CancelFunc
	// The announcement that the configurations follow, nil while there is none; guarded by the server's mu.
	written *WebhookClientConfig
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
func newReviewServer(r *Registry, o *observer) (reviewRunner, error) {
	s := &reviewServer{
		environment: &o.environment, operator: o, requests: o.requests, serving: reviewServing{settings: o.settings.Admission},
		changed: make(chan struct{}, 1), written: make(map[handlerKind][]byte), memories: reviewMemories{all: make(map[string]*reviewMemory)},
	}
	s.all = slices.DeleteFunc(r.snapshot(), func(h *handler) bool { return h.admission == nil })
	if s.serving.settings.Server == nil {
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
	if s.serving.cancel != nil {
		select {
		case s.changed <- struct{}{}:
		default:
		}
		return
	}
	ctx, end := context.WithCancel(withOperator(s.requests, s.client, s.log, s.sharing()))
	s.serving.ctx, s.serving.cancel = ctx, end
	s.tasks.Go(func() { s.serve(ctx) })
	if s.serving.settings.Managed == "" { // which is fine, but forgotten just as easily
		s.log.Info("Keeping no webhook configuration; the API server sends no reviews unless others have made one", "handlers", len(s.all),
			"hint", `have the operator keep it by Settings.Admission.Managed, a name such as "auto.example.com"`)
	} else {
		s.tasks.Go(func() { s.followResources(ctx) })
	}
}

// admissionResources returns the resources that a handler of admission is for. Those need not be watchable.
func (h *handler) admissionResources(found []Resource) []Resource {
	fit, _ := h.selected(found)
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
			s.log.Warn("The admission server has not announced itself; the API server sends no reviews before it calls the function announce")
		}
	})
	defer warning.Stop()
	err := safecall.Do(func() error { return s.serving.settings.Server.Serve(ctx, s.review, s.setClient) })
	if ctx.Err() != nil {
		if err != nil {
			s.log.Warn("The admission server failed while stopping", "error", err)
		}
		return
	}
	s.log.Debug("The admission server has stopped unexpectedly", "error", err) // the operator fails with that
	if err == nil {
		err = errors.New("its Serve returned before the end of the context")
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
	end, served := s.serving.cancel, s.serving.ctx
	s.mu.Unlock()
	if end != nil {
		if s.leader == nil { // other replicas go on with the reviews
			s.cleanConfigurations()
		}
		end()
		if !await.For(served, &s.tasks, serverGracePeriod) {
			s.log.Error("The admission server did not return after cancellation; abandoning it")
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
	fence := s.leader.number()
	o := Object{
		Resource: resource, Body: body, Patch: newPatch(s.settings.Persistence.resolve(true), body), Logger: objectLogger(s.log, ref), Client: s.client.as(resource.fieldManager()).during(fence), Indices: s.indices,
		fence: fence, events: s.events, memory: s.remember(Operation(request.Operation), resource, body),
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
		if !h.coversOperation(a.argument.Operation, a.argument.Subresource) || h.isIn(chosen) {
			continue
		}
		fits := false
		own := *a.argument
		own.Param = h.param
		if err := safecall.Do(func() error { fits = h.fitsReview(&own); return nil }); err != nil {
			a.argument.Logger.Error("A filter of a handler panicked; the review fails", handlerKey, h.id, "error", err, "stack", string(safecall.StackOf(err)))
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
	if h.retry.timeout == 0 {
		return maxReviewTime
	}
	return (h.retry.timeout + time.Second - 1).Truncate(time.Second)
}

// webhookNoun is what handlers of reviews are called in log lines.
const webhookNoun = "Webhook"

// call calls one handler, and notes its error.
func (a *admissionReview) call(ctx context.Context, h *handler) {
	limit := h.reviewTime()
	ctx, cancel := context.WithDeadlineCause(ctx, a.started.Add(limit-min(limit/10, reviewMargin)), fmt.Errorf("the review must be answered within %s", limit))
	defer cancel()
	defer context.AfterFunc(a.handlers, cancel)()
	call := call{handler: h, noun: webhookNoun, log: a.argument.Logger, meter: a.meter.Handler(string(h.id), false), settings: &a.settings.Execution, started: a.started}
	_, err := call.invoke(context.Background(), func(attempt Attempt) error {
		own := *a.argument
		own.Param, own.Runtime, own.Logger = h.param, attempt.Runtime, handlerLogger(own.Logger, h.id)
		err := h.admission.call(ctx, &own)
		if err == nil {
			err = own.Patch.try(own.Body)
		}
		return err
	})
	if err == nil {
		a.logSuccess(a.argument.Logger, webhookNoun, h.id)
	}
	if rank := rankOf(err); err != nil && (a.worst == nil || rank < a.rank) {
		a.worst, a.rank = err, rank
	}
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
		response["status"] = denialOf(a.worst)
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

// denialOf returns the status to deny with.
func denialOf(err error) map[string]any {
	status := map[string]any{"message": cmp.Or(err.Error(), fmt.Sprintf("%T", err)), "code": http.StatusInternalServerError}
	denied := (*AdmissionError)(nil)
	if errors.As(err, &denied) && denied.Code >= 400 && denied.Code < 600 {
		status["code"] = denied.Code
	}
	if denied != nil && len(denied.Causes) > 0 {
		status["details"] = map[string]any{"causes": denied.Causes}
	}
	return status
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

// configured are the kinds of handlers with the resources of their configurations, and the words for them.
var configured = []struct {
	kind     handlerKind
	word     string
	resource Resource
}{
	{kindValidate, "validating", Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration"}},
	{kindMutate, "mutating", Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration"}},
}

// followResources writes the configurations anew when the resources have changed.
func (s *reviewServer) followResources(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			s.configure()
		}
	}
}

// configure writes what has changed of the configurations. Operators do not go on if they cannot.
func (s *reviewServer) configure() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	client, resources, idle := s.clientConfig, s.resources, s.stopping || s.clientConfig == nil || s.serving.settings.Managed == "" || !s.leader.leads()
	s.mu.Unlock()
	if idle {
		return
	}
	for _, c := range configured {
		data, err := rawjson.Encode(s.entries(c.kind, resources, client, false))
		if err == nil && bytes.Equal(data, s.written[c.kind]) {
			continue
		}
		if !s.has(c.kind) {
			s.clearWebhooks(c.resource)
			s.written[c.kind] = data
			continue
		}
		s.log.Info("Reconfiguring the " + c.word + " webhook " + s.serving.settings.Managed + ".")
		if err == nil {
			err = s.write(c.resource, data)
		}
		if errors.Is(err, ErrLeadershipLost) {
			return // and the next holder writes
		}
		if err != nil {
			s.fail(fmt.Errorf("write the %s %q: %w", c.resource.Kind, s.serving.settings.Managed, err))
			return
		}
		s.written[c.kind] = data
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving.written = client
}

// lead has the configurations written, as another replica may have changed them.
func (s *reviewServer) lead() {
	s.writing.Lock()
	clear(s.written)
	s.mu.Lock()
	s.serving.written = nil
	s.mu.Unlock()
	s.writing.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// has reports whether there are handlers of a kind.
func (s *reviewServer) has(kind handlerKind) bool {
	return slices.ContainsFunc(s.all, func(h *handler) bool { return h.kind == kind })
}

// clearWebhooks removes the webhooks that an earlier version of the operator, which had handlers for them, may have left. A configuration that does not exist is
// not made, and what may not be changed is left alone.
func (s *reviewServer) clearWebhooks(r Resource) {
	_, err := s.client.patchObject(s.requests, r, "", s.serving.settings.Managed, "", string(MergePatch), []byte(`{"webhooks":[]}`))
	if err != nil && StatusCode(err) != http.StatusNotFound {
		s.log.Debug("Emptying a webhook configuration without handlers failed", "kind", r.Kind, "name", s.serving.settings.Managed, "error", err)
	}
}

// write replaces the webhooks of a configuration, and makes it if it is not there.
func (s *reviewServer) write(r Resource, webhooks []byte) error {
	ctx := unlimited(s.requests) // requests that are under way may be those that wait for these webhooks
	patch := slices.Concat([]byte(`{"webhooks":`), webhooks, []byte(`}`))
	_, err := s.client.patchObject(ctx, r, "", s.serving.settings.Managed, "", string(MergePatch), patch)
	verb := "patch"
	if StatusCode(err) == http.StatusNotFound {
		verb = "create"
		object := slices.Concat([]byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+r.Kind+`","metadata":{"name":`), rawjson.AppendString(nil, s.serving.settings.Managed), []byte(`},"webhooks":`), webhooks, []byte(`}`))
		_, err = s.client.body(ctx, &request{method: http.MethodPost, path: r.URL("", "", ""), contentType: "application/json", body: object})
		if StatusCode(err) == http.StatusConflict { // another replica was faster
			_, err = s.client.patchObject(ctx, r, "", s.serving.settings.Managed, "", string(MergePatch), patch)
		}
	}
	if StatusCode(err) == http.StatusForbidden {
		s.log.Error("Not enough RBAC permissions to " + verb + " a " + r.Kind + ".")
	}
	return err
}

// cleaningTimeout is how long the API server is tried to be reached at the end. The server of webhooks lives as long.
const cleaningTimeout = 5 * time.Second

// cleanConfigurations leaves only the handlers in the configurations that are to stay.
func (s *reviewServer) cleanConfigurations() {
	ctx, cancel := context.WithTimeout(unlimited(s.requests), cleaningTimeout)
	defer cancel()
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, c := range configured {
		if s.written[c.kind] == nil || !s.has(c.kind) {
			continue
		}
		s.mu.Lock()
		entries := s.entries(c.kind, s.resources, s.clientConfig, true)
		s.mu.Unlock()
		s.log.Info("Cleaning up the " + c.word + " webhook " + s.serving.settings.Managed + ".")
		data, err := rawjson.Encode(map[string]any{"webhooks": entries})
		if err == nil {
			_, err = s.client.patchObject(ctx, c.resource, "", s.serving.settings.Managed, "", string(MergePatch), data)
		}
		if err != nil && StatusCode(err) != http.StatusNotFound {
			s.log.Warn("Cleaning up the webhook configuration failed; requests may be rejected until the operator is back", "kind", c.resource.Kind, "name", s.serving.settings.Managed, "error", err)
		}
	}
}

// entries are the webhooks of one configuration: one for each id, and for each set of options that one webhook can't have together.
func (s *reviewServer) entries(kind handlerKind, resources map[*handler][]Resource, client *WebhookClientConfig, persistent bool) []any {
	list := []any{}
	bases := make(map[HandlerID][]map[string]any)
	taken := make(map[string]bool)
	for _, h := range s.all {
		if h.kind != kind || persistent && !h.admission.persistent {
			continue
		}
		entry := s.entry(h, resources[h], client)
		rules := entry["rules"].([]any)
		same := slices.IndexFunc(bases[h.id], func(other map[string]any) bool { return webhookname.SameExceptRules(entry, other) })
		if same >= 0 {
			other := bases[h.id][same]
			for _, rule := range rules {
				if old := other["rules"].([]any); !slices.ContainsFunc(old, func(o any) bool { return rawjson.EqualNormalized(o, rule) }) {
					other["rules"] = append(old, rule)
				}
			}
			continue
		}
		bases[h.id] = append(bases[h.id], entry)
		entry["name"] = s.hookName(h.id, taken)
		list = append(list, entry)
	}
	return list
}

// entry is one webhook.
func (s *reviewServer) entry(h *handler, resources []Resource, client *WebhookClientConfig) map[string]any {
	o := h.admission
	effects, failure := "None", "Fail"
	if o.sideEffects {
		effects = "NoneOnDryRun"
	}
	if o.ignoreFailures {
		failure = "Ignore"
	}
	entry := map[string]any{
		"sideEffects": effects, "failurePolicy": failure, "matchPolicy": "Equivalent", "rules": h.hookRules(resources), "objectSelector": h.objectSelector(),
		"clientConfig": client.forHandler(s.pathOf(h)), "timeoutSeconds": int(h.reviewTime().Seconds()), "admissionReviewVersions": []any{"v1", "v1beta1"},
	}
	if exact := namespaces.ExactNames(s.namespaces); exact != nil && !slices.ContainsFunc(resources, func(r Resource) bool { return r.Group == "" && r.Plural == "namespaces" }) {
		entry["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": exact}}}
	}
	return entry
}

// hookRules returns which operations on which resources the webhook is for.
func (h *handler) hookRules(resources []Resource) []any {
	operations := []any{}
	for _, op := range h.admission.operations {
		operations = append(operations, string(op))
	}
	if len(operations) == 0 {
		operations = []any{"*"}
	}
	rules := []any{}
	for _, r := range resources {
		names := []any{r.Plural}
		switch sub := h.admission.subresource; sub {
		case "":
		case "*": // which does not include the object itself for Kubernetes
			names = append(names, r.Plural+"/*")
		default:
			names = []any{r.Plural + "/" + sub}
		}
		rules = append(rules, map[string]any{"apiGroups": []any{r.Group}, "apiVersions": []any{r.Version}, "resources": names, "operations": operations, "scope": "*"})
	}
	return rules
}

// objectSelector returns the criteria for labels that a selector can express, or nil.
func (h *handler) objectSelector() any {
	var expressions []any
	keys := make([]string, 0, len(h.filters.labels))
	for key := range h.filters.labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		switch c := h.filters.labels[key]; {
		case c.predicate != nil:
		case c.marker == Present:
			expressions = append(expressions, map[string]any{"key": key, "operator": "Exists"})
		case c.marker == Absent:
			expressions = append(expressions, map[string]any{"key": key, "operator": "DoesNotExist"})
		default:
			expressions = append(expressions, map[string]any{"key": key, "operator": "In", "values": []any{c.literal}})
		}
	}
	if expressions == nil {
		return nil
	}
	return map[string]any{"matchExpressions": expressions}
}

// pathOf returns the path of a handler: its id, with its kind if there is a handler of the other kind with the same id.
func (s *reviewServer) pathOf(h *handler) string {
	if !slices.ContainsFunc(s.all, func(o *handler) bool { return o.id == h.id && o.kind != h.kind }) {
		return string(h.id)
	}
	if h.kind == kindMutate {
		return "mutating:" + string(h.id)
	}
	return "validating:" + string(h.id)
}

// hookName makes a name of an id, which the API server takes and no other webhook of the configuration has.
func (s *reviewServer) hookName(id HandlerID, taken map[string]bool) string {
	base := webhookname.Labels(string(id))
	name := base
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	taken[name] = true
	return name + "." + s.serving.settings.Managed
}

// checkNames returns which names the API server would not take.
func (s *reviewServer) checkNames() error {
	if s.serving.settings.Managed == "" {
		return nil
	}
	if !webhookname.IsDomain(s.serving.settings.Managed) {
		return fmt.Errorf("invalid Settings.Admission.Managed %q: want a domain of parts of at most 63 lower-case letters, digits and '-', as in \"auto.kopf.dev\"", s.serving.settings.Managed)
	}
	var errs []error
	for _, kind := range []handlerKind{kindValidate, kindMutate} {
		taken := make(map[string]bool)
		for _, h := range s.all {
			if h.kind != kind {
				continue
			}
			if name := s.hookName(h.id, taken); strings.Count(name, ".") < 2 {
				errs = append(errs, fmt.Errorf("invalid name %q of the webhook of the handler %q: want at least three parts: give Settings.Admission.Managed a name with a dot, such as \"%s.kopf.dev\"", name, h.id, s.serving.settings.Managed))
			} else if !webhookname.IsDomain(name) {
				errs = append(errs, fmt.Errorf("invalid name %q of the webhook of the handler %q: want at most 253 characters, and 63 in each part: give the handler a shorter ID", name, h.id))
			}
		}
	}
	return errors.Join(errs...)
}

// AdmissionServer receives the reviews of the API server, or of whatever stands between, and has them answered.
type AdmissionServer interface {
	// Serve serves until the context ends, and returns nil then. It calls review for each review that it receives, and announce with
	// how the API server reaches it: first when it listens, and again whenever its address or its CA changes. The operator's
	// context also tells the servers of this package how to reach the API server, and where to log; one that wraps them passes it on.
	Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error
}

// ReviewFunc answers a review with the JSON of an AdmissionReview. It can be called on several goroutines at once. An error is
// a [*ReviewError] if the review itself was wrong; any other error means that it could not be answered.
type ReviewFunc func(ctx context.Context, r *ReviewRequest) ([]byte, error)

// ReviewRequest is one request of the API server to an [AdmissionServer].
type ReviewRequest struct {
	// Body is the JSON of an AdmissionReview with a request.
	Body []byte
	// Handler is the id of the handler that is asked for, and empty for all handlers of the resource.
	Handler string
	// Header holds the headers of the HTTP request. It may be nil.
	Header http.Header
	// Peer is the verified certificate of the client, nil if there is none.
	Peer *x509.Certificate
}
