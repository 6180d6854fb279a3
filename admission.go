package kopf

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/admissionreview"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/webhookconfig"
)

// This file answers admission reviews: it selects the handlers, calls them, and combines their results. The handlers run on the webhook server's goroutines.

// reviewRunner answers the reviews. It is an interface so that programs without admission handlers are linked without the webhook server.
type reviewRunner interface {
	setResources(found []discovery.Resource)
	lead()
	stop(signaled time.Time) error
	wait()
}

type newReviewRunner func(*Registry, *observer) (reviewRunner, error)

// reviewServer answers the reviews of one operator.
type reviewServer struct {
	*environment
	operator admissionOperator
	requests context.Context // of the server, and of the requests for the configurations; it has no end of its own
	force    context.Context // ends when the shutdown must not wait any more
	reviews  context.Context // of the handlers; ends after the server
	all      []*handler      // in order of registration
	tasks    sync.WaitGroup
	changed  chan struct{} // holds one token when the resources have changed
	overdue  chan struct{} // holds one token when another client has changed a configuration
	refused  chan struct{} // holds one token when a write of a configuration has failed
	doubted  chan struct{} // holds one token when the webhooks are doubtful, see [webhookconfig.Keeper.Ask]
	settled  *sync.Cond    // of mu; signaled when published may have changed
	serving  reviewServing

	writing        chan struct{}           // holds one token while the configurations are written, which takes requests; before mu
	configurations []*webhookconfig.Keeper // that the operator manages; guarded by writing
	configuring    context.Context         // of the requests that write the configurations; ends when the operator stops
	endConfiguring context.CancelFunc
	endReviews     context.CancelFunc
	waited         sync.Once // for the end of the server

	mu           sync.Mutex                        // guards following
	resources    map[*handler][]discovery.Resource // that each handler serves
	clientConfig *WebhookClientConfig              // nil before the server listens
	memories     reviewMemories
	replicated   bool                           // whether other replicas may serve the same webhooks without an election
	secret       string                         // with the authority that they share, as namespace/name; empty for none
	grace        time.Duration                  // of the server after its context ends
	announced    *WebhookClientConfig           // the last one, which may wait until the operator is ready
	wasReady     bool                           // whether the operator was ready, for a Service
	unwatched    map[*webhookconfig.Keeper]bool // configurations that the operator may not watch
	outdated     bool                           // whether another replica may have written the configurations since this one
	failure      error                          // ends the operator
	stopping     bool
}

// reviewServing is the state of serving reviews.
type reviewServing struct {
	settings AdmissionSettings // as they were at the start
	ctx      context.Context   // of the server
	cancel   context.CancelFunc
}

// reviewMemories keeps memories of unwatched objects between their reviews.
type reviewMemories struct {
	all     map[string]*reviewMemory // by uid
	sweptAt time.Time                // when old memories were last dropped
}

// reviewMemory is the memory of one unwatched object.
type reviewMemory struct {
	memory
	used time.Time
}

// reviewMemoryLife is how long the memory of an unwatched object is kept after its last review.
const reviewMemoryLife = 10 * time.Minute

// maxReviewMemories limits the memories of unwatched objects. Beyond the limit, an object's memory lasts for one review.
const maxReviewMemories = 10_000

func newReviewServer(r *Registry, o *observer) (reviewRunner, error) {
	s := &reviewServer{
		environment: &o.environment, operator: o, requests: context.WithoutCancel(o.requests), force: o.force, grace: serverGracePeriod, serving: reviewServing{settings: o.settings.Admission},
		changed: make(chan struct{}, 1), overdue: make(chan struct{}, 1), refused: make(chan struct{}, 1), doubted: make(chan struct{}, 1), writing: make(chan struct{}, 1), memories: reviewMemories{all: make(map[string]*reviewMemory)},
	}
	s.settled, s.unwatched = sync.NewCond(&s.mu), make(map[*webhookconfig.Keeper]bool)
	// Requests under way may wait for these webhooks. A write that is carried out after the cleaning would leave webhooks without a server.
	s.configuring, s.endConfiguring = context.WithCancel(withAnswerGrace(unlimited(s.requests), cleaningTimeout))
	s.reviews, s.endReviews = context.WithCancel(s.requests)
	s.all = slices.DeleteFunc(r.snapshot(), func(h *handler) bool { return h.admission == nil })
	if s.serving.settings.Server == nil {
		return nil, errors.New("admission handlers exist, but no admission server is configured: set Settings.Admission.Server, such as to a WebhookServer, in a start-up handler")
	}
	name := s.serving.settings.Managed
	if name == "" {
		return s, nil
	}
	for _, kind := range []webhookconfig.Kind{webhookconfig.Validating, webhookconfig.Mutating} {
		requests := &configurationRequests{s.client, configurationResource(kind), name}
		s.configurations = append(s.configurations, &webhookconfig.Keeper{Kind: kind, Name: name, Requests: requests, Log: s.log})
	}
	return s, webhookconfig.CheckNames(name, s.hooks(webhookconfig.Validating, nil), s.hooks(webhookconfig.Mutating, nil))
}

// setResources stores the resources, and starts the server at the first call.
func (s *reviewServer) setResources(found []discovery.Resource) {
	resources := make(map[*handler][]discovery.Resource, len(s.all))
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
		note(s.changed)
		return
	}
	ctx, end := context.WithCancel(withOperator(s.requests, s.client, s.log, s.sharing()))
	s.serving.ctx, s.serving.cancel = ctx, end
	s.tasks.Go(func() { s.serve(ctx) })
	if s.serving.settings.Managed == "" { // a valid choice, but also easily forgotten
		s.log.Info("Keeping no webhook configuration; the API server sends no reviews unless others have made one", "handlers", len(s.all),
			"hint", `have the operator keep it by Settings.Admission.Managed, a name such as "auto.example.com"`)
	} else {
		s.tasks.Go(func() { s.followResources(ctx) })
		s.followConfigurations(ctx)
	}
}

// note puts a token into a channel that holds one.
func note(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// admissionResources returns the resources that an admission handler selects. They need not be watchable.
func (h *handler) admissionResources(found []discovery.Resource) []discovery.Resource {
	fit, _ := h.selected(found)
	if h.selector.Specific() && len(fit) > 1 {
		return nil
	}
	return fit
}

// announcementTimeout is the time until kopf warns that a server has not announced its address. Tunnels open within it.
const announcementTimeout = 30 * time.Second

// serve runs the server. The operator fails if it ends early.
func (s *reviewServer) serve(ctx context.Context) {
	warning := time.AfterFunc(announcementTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.announced == nil {
			s.log.Warn("The admission server has not announced itself; the API server sends no reviews before it calls the function announce", "help", "K1002")
		}
	})
	defer warning.Stop()
	err := safecall.Do(func() error { return s.serving.settings.Server.Serve(ctx, s.review, s.setClient) })
	if ctx.Err() != nil {
		if err != nil {
			s.log.Warn("The admission server failed while stopping", "error", err, "help", "K1003")
		}
		return
	}
	s.log.Debug("The admission server has stopped unexpectedly", "error", err) // the operator fails with this error
	if err == nil {
		err = errors.New("its Serve returned before the end of the context")
	}
	s.fail(fmt.Errorf("the admission server has finished unexpectedly: %w", err))
}

// fail ends the operator with an error.
func (s *reviewServer) fail(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	s.mu.Unlock()
	s.operator.end(err)
}

// serverGracePeriod is how long a server may run after its context ends, so that the operator ends within the grace period of its pod. A [WebhookServer] has
// the time of its own limits.
const serverGracePeriod = 20 * time.Second

// forcedGracePeriod is how long a server may run after its context ends if the shutdown must not wait.
const forcedGracePeriod = time.Second

// stop removes the webhooks from the configurations, so that no review is requested, and stops the server. If other replicas serve the webhooks, the server
// goes on instead until the API server knows that this one is stopping.
func (s *reviewServer) stop(signaled time.Time) error {
	s.mu.Lock()
	s.stopping = true
	end := s.serving.cancel
	s.settled.Broadcast()
	s.mu.Unlock()
	s.endConfiguring()
	switch {
	case end == nil:
	case s.hasReplicas():
		delay := max(s.serving.settings.ShutdownDelay-time.Since(signaled), 0)
		s.log.Debug("Answering reviews until they go to other replicas", "delay", delay)
		time.AfterFunc(delay, end)
		context.AfterFunc(s.force, end)
		if s.leader == nil { // otherwise the next leader writes
			s.tasks.Go(func() { s.leaveConfigurations(true) })
		}
	default:
		s.leaveConfigurations(false)
		end()
		s.wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// wait waits for the end of the server after stop.
func (s *reviewServer) wait() {
	s.waited.Do(func() {
		s.mu.Lock()
		served, grace := s.serving.ctx, s.grace
		s.mu.Unlock()
		defer s.endReviews()
		if served == nil {
			return
		}
		limit, cancel := await.Outlive(served, grace)
		defer cancel()
		defer context.AfterFunc(s.force, cancel)()
		if !await.For(limit, &s.tasks, forcedGracePeriod) {
			s.log.Error("The admission server did not return after cancellation; abandoning it", "help", "K1004")
		}
	})
}

// hasReplicas reports whether other replicas may serve the same webhooks.
func (s *reviewServer) hasReplicas() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader != nil || s.replicated
}

// review answers one review. See [ReviewFunc].
func (s *reviewServer) review(ctx context.Context, r *ReviewRequest) ([]byte, error) {
	started := time.Now()
	question, bad := admissionreview.Read(r.Body)
	if bad != nil {
		return nil, (*ReviewError)(bad)
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
		handlers = nil // the API server sends reviews for all namespaces where a configuration cannot name them
	}
	if handlers, err = a.choose(handlers); err != nil {
		return nil, err
	}
	ctx, span := s.traceReview(ctx, r, a.argument)
	for _, h := range handlers {
		a.call(ctx, h)
	}
	endSpan(span, a.worst)
	return a.answer(question)
}

// handlersFor finds the resource of a review, and its handlers.
func (s *reviewServer) handlersFor(q *admissionreview.Review, path string) (resource Resource, handlers []*handler, err error) {
	want := q.Request.Resource
	known := false
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		named := path == "" || h.webhookKind().IsPath(path, string(h.id), s.shared(h))
		known = known || named
		i := slices.IndexFunc(s.resources[h], func(r discovery.Resource) bool {
			return r.Group == want.Group && r.Version == want.Version && r.Plural == want.Resource
		})
		if named && i >= 0 {
			resource, handlers = Resource(s.resources[h][i]), append(handlers, h)
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

// argument makes the argument of the handlers.
func (s *reviewServer) argument(q *admissionreview.Review, r *ReviewRequest, resource Resource) (*Admission, error) {
	request := q.Request
	body, err := reviewed(request.Object, request, resource)
	if err != nil {
		return nil, err
	}
	former, err := reviewed(request.OldObject, request, resource)
	if err != nil {
		return nil, err
	}
	if body == nil {
		body, former = former, nil
	}
	ref := body.Reference()
	fence := s.leader.number()
	o := Object{
		Resource: resource, Body: body, Patch: newPatch(s.settings.Persistence.resolve(true), &resource, body), Logger: objectLogger(s.log, ref), Client: s.client.as(resource.fieldManager()).during(fence), Indices: s.indices,
		fence: fence, events: s.events, memory: s.remember(Operation(request.Operation), resource, body),
	}
	return &Admission{
		Object: o, Operation: Operation(request.Operation), Subresource: request.SubResource, DryRun: request.DryRun,
		UserInfo: View{raw: request.UserInfo}, Old: body.viewOrNone(request.OldObject), New: body.viewOrNone(request.Object), Request: r,
		former: former,
	}, nil
}

// reviewed parses an object of a review, and returns nil for none. An object without metadata, such
// as the options of a connection, gets the name and the namespace of the request.
func reviewed(raw []byte, q *admissionreview.Request, resource Resource) (*Body, error) {
	if rawjson.IsNull(raw) {
		return nil, nil
	}
	body, err := ParseBody(raw)
	if err != nil {
		return nil, err
	}
	body.name = cmp.Or(body.name, q.Name)
	if resource.Namespaced { // requests for a Namespace name it as their namespace
		body.namespace = cmp.Or(body.namespace, q.Namespace)
	}
	return body, nil
}

// viewOrNone returns a view of a state of the object in a review.
func (b *Body) viewOrNone(raw []byte) View {
	if rawjson.IsNull(raw) {
		return View{}
	}
	return b.viewOf(bytes.TrimSpace(raw))
}

// remember returns the memory of a watched object, or one kept for a while for an unwatched object. It keeps none for a creation, which can still be
// rejected.
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
	mutating bool // whether the response may have a patch
	warnings []string
	worst    error // the error to report
	rank     int   // of the worst error; lower is worse
}

// choose returns the handlers for the operation, each function once per ID.
func (a *admissionReview) choose(handlers []*handler) (chosen []*handler, err error) {
	for _, h := range handlers {
		if !h.coversOperation(a.argument.Operation, a.argument.Subresource) || h.isIn(chosen) {
			continue
		}
		fits := false
		own := *a.argument
		own.Param = h.param
		if err := safecall.Do(func() error { fits = h.fitsReview(&own, nil); return nil }); err != nil {
			a.argument.Logger.Error("A filter of a handler panicked; the review fails", handlerKey, h.id, "error", err, "stack", string(safecall.StackOf(err)), "help", "K1011")
			return nil, fmt.Errorf("a filter of the handler %q has panicked", h.id)
		}
		if fits {
			chosen = append(chosen, h)
		}
	}
	return chosen, nil
}

// reviewMargin limits how much earlier than the API server a handler gives up, so that the response is in time. The margin is a tenth of the time otherwise.
const reviewMargin = time.Second

// reviewTime returns how long the API server waits for a handler.
func (h *handler) reviewTime() time.Duration {
	if h.retry.timeout == 0 {
		return maxReviewTime
	}
	return (h.retry.timeout + time.Second - 1).Truncate(time.Second)
}

// webhookNoun is the name of admission handlers in log lines.
const webhookNoun = "Webhook"

// call calls one handler, and records its error.
func (a *admissionReview) call(ctx context.Context, h *handler) {
	limit := h.reviewTime()
	ctx, cancel := context.WithDeadlineCause(ctx, a.started.Add(limit-min(limit/10, reviewMargin)), fmt.Errorf("the review must be answered within %s", limit))
	defer cancel()
	defer context.AfterFunc(a.reviews, cancel)()
	call := call{handler: h, noun: webhookNoun, log: a.argument.Logger, meter: a.meter.Handler(string(h.id), false), settings: a.settings, replica: a.replica, started: a.started, object: &a.argument.Object}
	_, err := call.invoke(within(context.Background(), ctx), func(traced context.Context, attempt Attempt) error {
		own, ctx := *a.argument, within(ctx, traced)
		own.Param, own.Runtime, own.Logger = h.param, attempt.Runtime, tracedLogger(ctx, handlerLogger(own.Logger, h.id))
		err := h.admission.call(ctx, &own)
		if err == nil {
			err = own.Patch.try(own.Body)
		}
		return err
	})
	a.dropPatch(h)
	if err == nil {
		a.logSuccess(a.argument.Logger, webhookNoun, h.id)
	}
	if rank := rankOf(err); err != nil && (a.worst == nil || rank < a.rank) {
		a.worst, a.rank = err, rank
	}
}

// dropPatch drops the changes of a validating handler, for which the response has no place.
func (a *admissionReview) dropPatch(h *handler) {
	if a.mutating || a.argument.Patch.Empty() {
		return
	}
	if h.admission.patched.CompareAndSwap(false, true) {
		a.argument.Logger.Warn("The patch of a validating handler was dropped", handlerAttr(h.id),
			"hint", "change the object in a handler of OnMutate", "help", "K1022")
	}
	a.argument.Patch.Clear()
}

// rankOf returns the rank of an error. The error with the lowest rank is reported.
func rankOf(err error) int {
	var admission *AdmissionError
	var permanent *PermanentError
	var temporary *TemporaryError
	switch {
	case errtype.As(err, &admission):
		return 0
	case errtype.As(err, &permanent):
		return 1
	case errtype.As(err, &temporary):
		return 2
	}
	return 3
}

// answer makes the AdmissionReview with the response.
func (a *admissionReview) answer(q *admissionreview.Review) ([]byte, error) {
	response := admissionreview.Response{Warnings: a.warnings}
	if a.worst != nil {
		response.Denial = denialOf(a.worst)
	}
	if p := a.argument.Patch; a.mutating && !p.Empty() {
		response.Patch = p.operations(a.argument.Body)
	}
	return q.Answer(response)
}

// denialOf converts an error to a denial.
func denialOf(err error) *admissionreview.Denial {
	denial := &admissionreview.Denial{Message: cmp.Or(err.Error(), fmt.Sprintf("%T", err))}
	if denied := (*AdmissionError)(nil); errtype.As(err, &denied) {
		if denial.Code = denied.Code; len(denied.Causes) > 0 {
			denial.Causes = denied.Causes
		}
	}
	return denial
}

// AdmissionServer receives admission reviews from the API server. [WebhookServer] is one, and you can write your own.
type AdmissionServer interface {
	// Serve serves until the context is canceled, and returns nil then. It calls review for each review that it receives. It calls announce with its address
	// and CA bundle when it listens, and when these change. The context also carries the connection to the API server and the logger, so a server that wraps
	// another one passes the context on.
	Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error
}

// ReviewFunc answers a review with an AdmissionReview in JSON. It is safe for concurrent use. It returns a [*ReviewError] for a wrong review, and another error
// if it cannot answer.
type ReviewFunc func(ctx context.Context, r *ReviewRequest) ([]byte, error)

// ReviewRequest is a request of the API server to an [AdmissionServer].
type ReviewRequest struct {
	// Body is the JSON of an AdmissionReview with a request.
	Body []byte
	// Handler is the ID of the handler to call, or empty for all handlers of the resource.
	Handler string
	// Header holds the headers of the HTTP request. It may be nil.
	Header http.Header
	// Peer is the verified certificate of the client, nil if there is none.
	Peer *x509.Certificate
}
