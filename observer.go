package kopf

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/kindschema"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/logsampler"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/stopper"
	"github.com/kopf-go/kopf/internal/watchstream"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file discovers resources and namespaces, and maintains a reactor for each served resource and a stream for each of its namespaces. Watch streams of
// definitions and of namespaces report changes.

var (
	definitionsResource = Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"}
	namespacesResource  = Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
)

// environment is shared by all work of one operator. It does not change while the operator works.
type environment struct {
	client     *Client
	settings   *Settings
	lifecycle  Lifecycle
	log        *slog.Logger
	successes  *logsampler.Sampler // nil if each success is logged
	looks      *decision.Looks     // nil if no decisions are kept
	calls      *livepage.Calls     // nil without the live page
	memo       *Memo               // of the operator
	events     eventRecorder
	meter      *metrics.Metrics
	indices    Indices
	limiter    *workpool.Limiter
	pauser     *pauser.Pauser
	leader     *leadership     // nil without an election
	reconciler reconcileRunner // nil without reconcile handlers
	namespaces []string        // patterns; none means all
	replica    string          // the identity of the operator
	handlers   context.Context // of the handlers: ends when the operator stops waiting for them
}

// observer serves the existing resources that have handlers.
type observer struct {
	environment
	registry    *Registry
	barrier     *syncBarrier // nil without indices
	clusterwide bool
	peers       *peering     // nil without peers
	admission   reviewRunner // nil without admission handlers

	requests context.Context // of the requests that store results of handlers
	force    context.Context // ends when the shutdown must not wait for handlers any more

	streams sync.WaitGroup
	changed chan struct{}           // holds one token while definitions have changed since the last discovery
	resumed chan struct{}           // holds one token when a pause has ended since the last reconciliation
	fail    context.CancelCauseFunc // ends the work for an error that retries cannot fix

	mu sync.Mutex // guards following
	servedScope
}

// servedScope holds the desired and the actual scope of serving.
type servedScope struct {
	discovered       []discovery.Resource
	wanted           map[string]*resolved           // the discovered resources with handlers, by name
	unresolved       []string                       // selectors that match no resource
	lost             map[string]kindschema.Obstacle // why the status of a kind cannot store the state, by the name of the resource
	unpublished      bool                           // whether the schema of a kind was missing at the last discovery
	resources        map[string]*servedResource
	existing         map[string]bool // the served namespaces
	warned           map[string]bool // messages that were logged once
	warnedUnresolved map[string]bool // unresolved selectors at the last reconciliation
	warnedGroups     map[string]bool // groups that the last discovery could not read
	definitions      discovery.Definitions
	cluster          string // a name for people; "" before the operator is ready
}

// servedResource is one served resource with its streams.
type servedResource struct {
	reactor *reactor
	streams map[string]*servedStream // by namespace, "" for all
	missing int                      // number of successful discoveries in a row without the resource
	since   time.Time                // of the first of them
	closed  bool                     // whether it is not served any more; kept while its objects have running work, and reopened when it is served again
}

// servedStream is one stream of a resource, with its source in the queue.
type servedStream struct {
	source
	stream *watchstream.Stream
	cancel context.CancelFunc
}

const (
	// rediscoverReads is how often the resources are read again after a definition has changed, at growing intervals.
	rediscoverReads = 5
	// rediscoverInterval is the first interval, and the minimum time between two discoveries. Many changes can come at once, such as those of an installation.
	rediscoverInterval = 200 * time.Millisecond
	// rediscoverTime is the sum of the intervals between as many discoveries.
	rediscoverTime = (1<<(rediscoverReads-1) - 1) * rediscoverInterval
)

// observe serves until the context ends. It calls ready when it opens the first streams.
func (o *observer) observe(ctx context.Context, ready func()) error {
	o.changed, o.resumed = make(chan struct{}, 1), make(chan struct{}, 1)
	inFlight := o.settings.Networking.MaxInFlight
	if inFlight <= 0 {
		inFlight = NewSettings().Networking.MaxInFlight
	}
	o.limiter = workpool.New(inFlight, o.settings.Execution.MaxWorkers)
	o.meter.SetLimits(o.settings.Queueing.WorkerLimit, o.settings.Execution.MaxWorkers)
	o.lost = make(map[string]kindschema.Obstacle)
	o.mu.Lock() // the live page may already read them
	o.resources, o.existing = make(map[string]*servedResource), make(map[string]bool)
	o.mu.Unlock()
	o.warned, o.warnedGroups = make(map[string]bool), make(map[string]bool)
	broken, err := o.discover(ctx)
	if err != nil {
		return err
	}
	last := time.Now()
	o.recommendStorage()
	ctx, o.fail = context.WithCancelCause(ctx)
	defer o.streams.Wait()
	defer o.fail(nil)
	if !o.settings.Scanning.Disabled {
		o.startStream(ctx, o.watchDefinitions())
	}
	o.startNamespaces(ctx)
	if ctx.Err() != nil {
		return loginFailure(context.Cause(ctx))
	}
	o.streams.Go(func() { o.watchPauses(ctx) })
	reads := 0
	o.updateAdmission()
	o.reconcile(ctx)
	if len(o.unresolved) > 0 { // only this goroutine changes it
		reads = rediscoverReads // discovery lacks definitions that are very new
	}
	ready()
	for attempt := 0; ; attempt++ {
		var again <-chan time.Time
		if broken || o.unpublished || reads > 0 || o.lags() {
			again = time.After(min(rediscoverInterval<<min(attempt, 10), time.Minute))
		}
		select {
		case <-ctx.Done():
			return loginFailure(context.Cause(ctx))
		case <-o.resumed:
			o.reconcile(ctx) // reports the namespaces that were deleted during the pause
			continue
		case <-o.changed: // discovery follows a definition with some delay, so it is read several times
			attempt, reads = -1, rediscoverReads+1
			_ = pause(ctx, time.Until(last.Add(rediscoverInterval))) // the next iteration ends with ctx
			select {
			case <-o.changed: // the discovery follows these changes, too
			default:
			}
		case <-again:
		}
		if broken, err = o.discover(ctx); err == nil {
			reads--
		} else if broken = true; ctx.Err() == nil {
			o.log.Warn("Discovering the resources again failed; serving those known", "error", err, "help", "K112")
		}
		last = time.Now()
		o.updateAdmission()
		o.reconcile(ctx)
	}
}

// lags reports whether discovery still has a wanted resource whose definition was deleted. A busy API server updates it late.
func (o *observer) lags() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, what := range o.wanted {
		if r := what.resource; o.definitions.Deleted(r.Plural + "." + r.Group) {
			return true
		}
	}
	return false
}

// servedNames returns the sorted names of the served resources, and the peering.
func (o *observer) servedNames() (resources []string, peering string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	settings := &o.settings.Peering
	switch {
	case settings.Standalone:
		peering = "standalone"
	case settings.Mandatory || slices.ContainsFunc(o.discovered, func(r discovery.Resource) bool { return isPeering(r, o.clusterwide) }):
		peering = settings.Name
	default:
		peering = "none"
	}
	return rawjson.SortedKeys(o.wanted), peering
}

// watchPauses requests a reconciliation of the streams after each pause.
func (o *observer) watchPauses(ctx context.Context) {
	for ctx.Err() == nil {
		paused := false
		inner, _, release := o.pauser.WaitActive(ctx, func(string) { paused = true })
		if paused {
			select {
			case o.resumed <- struct{}{}:
			default:
			}
		}
		<-inner.Done()
		release()
	}
}

// discover reads the resources. Groups that cannot be read keep their former resources. It reports whether there are such groups, so that they are read
// again.
func (o *observer) discover(ctx context.Context) (broken bool, err error) {
	found, failed, err := o.client.discover(ctx, o.groups())
	if err != nil {
		return false, err
	}
	found = discovery.WithFormer(found, o.discovered, failed) // no other goroutine changes them
	wanted, unresolved := o.registry.resolve(found, failed)   // without the lock, because it calls functions of users
	warnings, unpublished := o.locateState(ctx, wanted)
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, what := range wanted { // with the lock, so that dropResource does not drop them
		what.counts = o.meter.Resource(name)
	}
	maps.DeleteFunc(o.lost, func(name string, _ kindschema.Obstacle) bool { return wanted[name] == nil && o.resources[name] == nil })
	o.warnGroupsLocked(failed)
	o.discovered, o.wanted, o.unresolved, o.unpublished = found, wanted, append(unresolved, warnings...), unpublished
	for name, served := range o.resources {
		if served.missing++; wanted[name] != nil {
			served.missing = 0
		} else if served.missing == 1 {
			served.since = time.Now()
		}
	}
	return len(failed) > 0, nil
}

// groups returns the groups to discover, or nil for all.
func (o *observer) groups() []string {
	groups := o.registry.groups()
	if groups != nil && o.peers != nil {
		groups = append(groups, peeringGroups...)
	}
	return groups
}

// warnGroupsLocked warns once of each group that could not be discovered. After a success, it can warn again.
func (o *observer) warnGroupsLocked(failed map[string]error) {
	maps.DeleteFunc(o.warnedGroups, func(group string, _ bool) bool { return failed[group] == nil })
	for _, group := range rawjson.SortedKeys(failed) {
		if !o.warnedGroups[group] {
			o.warnedGroups[group] = true
			o.log.Warn("Discovering the resources of an API group failed; serving those known", "group", group, "error", failed[group], "help", "K113")
		}
	}
}

// warnUnresolvedLocked warns of selectors that match no resource, in the same way.
func (o *observer) warnUnresolvedLocked() {
	still := make(map[string]bool)
	for _, text := range o.unresolved {
		if !o.warnedUnresolved[text] && !still[text] {
			o.log.Warn(text, "help", "K103")
		}
		still[text] = true
	}
	o.warnedUnresolved = still
}

// updateAdmission passes the discovered resources to the admission server.
func (o *observer) updateAdmission() {
	if o.admission != nil {
		o.admission.setResources(o.discovered)
	}
}

// warn logs each message once. The caller holds the lock.
func (o *observer) warn(message string, args ...any) {
	if !o.warned[message] {
		o.warned[message] = true
		o.log.Warn(message, args...)
	}
}

// reconcile opens and closes streams to match the desired scope.
func (o *observer) reconcile(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peers.reconcile(o.discovered, o.existing)
	o.warnUnresolvedLocked()
	if o.barrier != nil { // no stream may open the barrier before all have begun
		o.barrier.add()
		defer o.barrier.done()
	}
	o.switchVersions()
	if o.reconciler != nil {
		o.reconciler.keepFollowing()
	}
	for name, served := range o.resources {
		if o.wanted[name] != nil {
			continue
		}
		if !served.closed && o.isMissing(served) {
			text := "The resource is gone; not serving it any more"
			if o.isUnneeded(served) { // such as a child's, when the owner's is gone
				text = "No handler needs the resource any more; not serving it"
			}
			o.log.Info(text, "resource", name)
			served.close()
		}
		if served.closed {
			o.dropResource(name, served)
		}
	}
	for name, r := range o.wanted {
		served := o.resources[name]
		if served == nil {
			served = &servedResource{reactor: o.newReactor(r), streams: make(map[string]*servedStream)}
			o.resources[name] = served
		}
		if !served.closed && !r.sameHandlers(served.reactor.served.Load()) {
			o.log.Info("Other handlers are for the resource than before; listing its objects anew", "resource", name)
			served.close()
		}
		served.reactor.serve(r)
		served.open()
		o.reconcileStreams(ctx, served, r.resource)
	}
	o.definitions.Forget(o.servesDefinitionLocked)
	o.meter.SetUnserved(o.unservedLocked())
}

// servesDefinitionLocked reports whether a definition is, or was, that of a served resource.
func (o *observer) servesDefinitionLocked(name string) bool {
	for _, served := range o.resources {
		if r := served.reactor.resource(); r.Plural+"."+r.Group == name {
			return true
		}
	}
	return false
}

// unservedLocked returns why no handler can be served, for the readiness, or nil if one can be.
// With admission handlers, a replica has to be ready nevertheless: the API server calls it.
func (o *observer) unservedLocked() []string {
	if o.admission != nil {
		return nil
	}
	for _, served := range o.resources {
		if !served.closed {
			return nil
		}
	}
	reasons := slices.Clone(o.unresolved)
	for _, group := range rawjson.SortedKeys(o.warnedGroups) {
		reasons = append(reasons, "Discovering the API group "+group+" failed")
	}
	return reasons
}

// dropResource removes a closed resource that has no work left. If its definition was deleted, its objects are gone, too.
func (o *observer) dropResource(name string, served *servedResource) {
	if r := served.reactor.served.Load().resource; o.definitions.Deleted(r.Plural + "." + r.Group) {
		served.reactor.queue.reportDeletions("")
	}
	if served.reactor.queue.empty() {
		delete(o.resources, name)
		o.meter.Drop(name)
		if runner := served.reactor.reconciler; runner != nil {
			runner.drop(served.reactor)
		}
	}
}

// switchVersions keeps the state of objects whose resource is now served in another version, because the objects are the same.
func (o *observer) switchVersions() {
	for _, name := range rawjson.SortedKeys(o.wanted) {
		if o.resources[name] != nil {
			continue
		}
		what := o.wanted[name]
		for _, before := range rawjson.SortedKeys(o.resources) {
			served := o.resources[before]
			r := served.reactor.served.Load().resource
			if o.wanted[before] != nil || !r.isVersionOf(what.resource) {
				continue
			}
			o.log.Info("Serving the resource in another version", "resource", name, "before", before)
			served.endStreams()
			served.reactor.queue.setVersion(what.resource.APIVersion(), what.resource.Kind, what.counts)
			delete(o.resources, before)
			o.meter.Drop(before)
			o.resources[name] = served
			break
		}
	}
}

// isMissing reports whether to stop serving a resource that no handler selects. A starting API server lacks custom resources for a moment, and their objects must not be handled as
// new afterwards.
func (o *observer) isMissing(served *servedResource) bool {
	return o.isDiscovered(served) || o.isGivenUp(served)
}

// isDiscovered reports whether the API server has a resource.
func (o *observer) isDiscovered(served *servedResource) bool {
	r := served.reactor.served.Load().resource
	return slices.ContainsFunc(o.discovered, func(f discovery.Resource) bool { return f.Name() == r.Name() })
}

// isUnneeded reports whether the API server serves a resource as before, which no handler selects now. While a
// definition is being deleted, discovery has its resource without the verbs for changes.
func (o *observer) isUnneeded(served *servedResource) bool {
	r := served.reactor.served.Load().resource
	return slices.ContainsFunc(o.discovered, func(f discovery.Resource) bool {
		return f.Name() == r.Name() && slices.Contains(f.Verbs, "patch")
	})
}

// isGivenUp reports whether a resource has been missing for long enough, or its definition was deleted.
func (o *observer) isGivenUp(served *servedResource) bool {
	r := served.reactor.served.Load().resource
	return served.missing >= rediscoverReads && time.Since(served.since) >= rediscoverTime || o.definitions.Deleted(r.Plural+"."+r.Group)
}

// reconcileStreams opens and closes the streams of a resource, to match the served namespaces.
func (o *observer) reconcileStreams(ctx context.Context, served *servedResource, r Resource) {
	wanted := map[string]bool{"": true}
	if r.Namespaced && !o.clusterwide {
		wanted = o.existing
	}
	for namespace, s := range served.streams {
		if !wanted[namespace] {
			served.reactor.queue.closeSource(&s.source)
			s.cancel()
			served.reactor.listing.Leave(o.log, r.Name(), &s.source)
			delete(served.streams, namespace)
			served.forget(namespace)
		}
	}
	if !wanted[""] {
		for _, namespace := range served.reactor.queue.unservedNamespaces(wanted) { // their namespaces are gone
			served.reactor.queue.reportDeletions(namespace)
		}
	}
	for namespace := range wanted {
		if served.streams[namespace] != nil {
			continue
		}
		inner, cancel := context.WithCancel(ctx)
		s := &servedStream{source: source{namespace: namespace}, cancel: cancel}
		served.streams[namespace] = s
		s.stream = o.stream(served.reactor, r, &s.source)
		o.startStream(inner, s.stream)
	}
}

// endStreams ends the streams of the resource. Their further events do not count.
func (s *servedResource) endStreams() {
	for _, stream := range s.streams {
		s.reactor.queue.closeSource(&stream.source)
		stream.cancel()
	}
	clear(s.streams)
	s.reactor.listing.Forget()
}

// close ends the streams of the resource, and forgets its objects.
func (s *servedResource) close() {
	r := s.reactor
	s.endStreams()
	r.queue.barrier.serve(r.queue, false)
	s.forget("")
	s.closed = true
}

// forget forgets the objects of a namespace, or all. Event handlers are called for those that turn out to be deleted.
func (s *servedResource) forget(namespace string) {
	s.reactor.queue.forget(namespace, len(s.reactor.served.Load().events) > 0)
}

// open serves the resource, perhaps again.
func (s *servedResource) open() {
	r := s.reactor
	r.queue.barrier.serve(r.queue, true)
	s.closed = false
}

func (o *observer) newReactor(what *resolved) *reactor {
	r := &reactor{
		environment: &o.environment, began: time.Now().Add(-1), // a time of zero means never
		requests: workpool.NewContext(o.requests, o.limiter), discovery: o, handed: o.client.as(what.resource.fieldManager()),
	}
	r.queue = newQueue(o.settings.Queueing.WorkerLimit, o.log, r)
	r.queue.limiter = o.limiter
	r.queue.meter, r.queue.known = o.meter, what.counts
	if h := o.registry.first(func(h *handler) bool { return h.indexing != nil }); h != nil {
		r.indexer = h.indexing.runner(o)
	}
	r.queue.pauser, r.queue.leader, r.queue.barrier, r.queue.calls = o.pauser, o.leader, o.barrier, o.calls
	r.serve(what)
	if r.reconciler != nil {
		r.reconciler.serve(r)
		r.handed = r.handed.recording(r.reconciler)
	}
	if h := o.registry.first(func(h *handler) bool { return h.task != nil }); h != nil {
		r.daemons = h.task.runner(o, r)
	}
	return r
}

// stream makes the stream of one resource, a source of its queue.
func (o *observer) stream(r *reactor, resource Resource, from *source) *watchstream.Stream {
	h := &objectsHandler{observerHandler: observerHandler{o: o}, reactor: r, resource: resource, meta: resource.typeMeta(), from: from}
	if served := r.served.Load(); len(served.indices)+len(served.follows) > 0 {
		h.sync = &listingSync{barrier: o.barrier, log: o.log, resource: resource.Name(), handlers: served.indices, follows: served.follows}
		o.barrier.add()
	}
	r.listing.Add(from)
	st := o.newStream(resource, from.namespace, h, r.served.Load().counts)
	st.Overlaps = true
	return st
}

func (o *observer) newStream(resource Resource, namespace string, h watchstream.Handler, meter *metrics.Resource) *watchstream.Stream {
	s := o.client.stream(resource, namespace, "", h)
	s.Meter = meter.Open()
	return s
}

// observerHandler is the common part of the handlers of all streams of an observer.
type observerHandler struct {
	watchstream.Ignore
	o *observer
}

// OnStatus ends the operator after a permanently failed login.
func (h *observerHandler) OnStatus(err error) {
	if loginFailure(err) != nil {
		h.o.fail(err)
	}
}

// startStream runs a stream until its context ends.
func (o *observer) startStream(ctx context.Context, s *watchstream.Stream) {
	o.streams.Go(func() {
		s.Run(ctx)
		s.Meter.Close()
	})
}

// loginFailure returns the error if it is a [LoginError], nil otherwise.
func loginFailure(err error) error {
	if login := (*LoginError)(nil); errtype.As(err, &login) {
		return err
	}
	return nil
}

// rediscover requests a discovery.
func (o *observer) rediscover() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// watchDefinitions makes the stream of resource definitions. Each change, and each new list, triggers a discovery.
func (o *observer) watchDefinitions() *watchstream.Stream {
	h := &definitionsHandler{observerHandler: observerHandler{o: o}, meta: definitionsResource.typeMeta(), groups: o.groups(), began: time.Now()}
	return o.newStream(definitionsResource, "", h, nil)
}

// definitionsHandler tracks the resource definitions, and resets the learned facts about a redefined kind. Changes of labels and of the status do not count.
type definitionsHandler struct {
	observerHandler
	meta     *typeMeta
	groups   []string  // that are discovered; nil for all
	began    time.Time // after the first discovery
	failed   bool      // whether a request has failed, so that the first list comes late
	outdated bool      // whether a definition in a list within the first second has other versions than those discovered; all later lists trigger a discovery
}

func (h *definitionsHandler) OnListing() {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	h.o.definitions.BeginListing()
}

func (h *definitionsHandler) OnEvent(t string, header *rawjson.Header, raw []byte) {
	ev, state := streamed(t, header, raw, h.meta), ""
	if ev.Type != Deleted {
		state = ev.Body.uid + " " + strconv.FormatInt(ev.Body.View("metadata").Int("generation"), 10)
	}
	h.o.mu.Lock()
	changed := h.o.definitions.Note(ev.Body.Name(), state)
	if ev.Type == Listed && !h.outdated && time.Since(h.began) <= time.Second && (h.groups == nil || slices.Contains(h.groups, ev.Body.View("spec").String("group"))) {
		h.outdated = discovery.Outdated(raw, h.o.discovered)
	}
	h.o.mu.Unlock()
	if changed && h.o.reconciler != nil {
		h.o.reconciler.redefine(ev.Body)
	}
	if ev.Type != Listed {
		h.o.rediscover()
	}
}

func (h *definitionsHandler) OnListed(string) {
	h.o.mu.Lock()
	again := h.o.definitions.EndListing()
	late := h.failed || h.outdated || h.o.undefinedLocked() || time.Since(h.began) > time.Second
	h.o.mu.Unlock()
	if again || late { // a change since the first discovery comes with no event
		h.o.rediscover()
	}
}

// undefinedLocked reports whether a wanted resource has no definition, as if that was deleted after
// the discovery. A resource of an extension API server never has one, which costs a few requests.
func (o *observer) undefinedLocked() bool {
	for _, what := range o.wanted {
		if r := what.resource; !isBuiltin(r) && !o.definitions.Defines(r.Plural, r.Group) {
			return true
		}
	}
	return false
}

func (h *definitionsHandler) OnStatus(err error) {
	h.observerHandler.OnStatus(err)
	h.failed = h.failed || err != nil
	if StatusCode(err) == 403 {
		h.o.mu.Lock()
		defer h.o.mu.Unlock()
		h.o.warn("Watching custom resource definitions failed; new and changed ones are not noticed until that is permitted", "error", err, "help", "K108")
	}
}

// startNamespaces finds the namespaces to serve, unless all are served.
func (o *observer) startNamespaces(ctx context.Context) {
	if o.clusterwide {
		return
	}
	if o.settings.Scanning.Disabled {
		o.useExactNames("")
		return
	}
	h := &namespacesHandler{observerHandler: observerHandler{o: o}, meta: namespacesResource.typeMeta(), ctx: ctx, known: make(chan struct{})}
	o.startStream(ctx, o.newStream(namespacesResource, "", h, nil))
	select {
	case <-h.known:
	case <-ctx.Done():
	}
}

// namespacesHandler tracks the existing namespaces.
type namespacesHandler struct {
	observerHandler
	meta  *typeMeta
	ctx   context.Context // of the streams in the namespaces
	known chan struct{}   // closed when the namespaces are known, or cannot be known
	found map[string]bool // in the newest list
}

func (h *namespacesHandler) OnListing() { h.found = make(map[string]bool) }

func (h *namespacesHandler) OnEvent(t string, header *rawjson.Header, raw []byte) {
	ev := streamed(t, header, raw, h.meta)
	name := ev.Body.Name()
	if !h.o.serves(name) {
		return
	}
	if ev.Body.Deleting() {
		h.o.peers.recheckNamespace(name)
	}
	if ev.Type != Listed {
		h.o.updateNamespace(h.ctx, ev)
	} else if !h.o.namespaceGone(ev) {
		h.found[name] = true
	}
}

func (h *namespacesHandler) OnListed(string) {
	changed := h.o.setNamespaces(h.found)
	if !h.isKnown() {
		h.o.warnUnmatched(h.found)
		close(h.known)
	} else if changed {
		h.o.reconcile(h.ctx)
	}
}

func (h *namespacesHandler) OnStatus(err error) {
	h.observerHandler.OnStatus(err)
	if StatusCode(err) != 403 {
		return
	}
	if !h.isKnown() {
		h.o.useExactNames("listing failed", "error", err)
		close(h.known)
		return
	}
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	h.o.warn("Watching namespaces failed; new and deleted ones are not noticed until that is permitted", "error", err, "help", "K109")
}

func (h *namespacesHandler) isKnown() bool {
	select {
	case <-h.known:
		return true
	default:
		return false
	}
}

// useExactNames serves the patterns that are plain names, and assumes that those namespaces exist. It logs why, unless the settings require that and no
// pattern is dropped.
func (o *observer) useExactNames(why string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var dropped []string
	for _, pattern := range o.namespaces {
		if namespaces.IsPattern(pattern) {
			dropped = append(dropped, pattern)
		} else {
			o.existing[strings.TrimSpace(pattern)] = true
		}
	}
	if why == "" && len(dropped) == 0 {
		return
	}
	o.warn("Serving only the namespaces given by exact names, because namespaces are not listed",
		append(args, "reason", cmp.Or(why, "Settings.Scanning.Disabled"), "dropped", dropped, "help", "K110")...)
}

// warnUnmatched warns if the first list of namespaces matches no pattern.
func (o *observer) warnUnmatched(found map[string]bool) {
	if len(found) == 0 {
		o.log.Warn("No namespace matches the patterns; waiting until one does", "patterns", o.namespaces, "help", "K111")
	}
}

// setNamespaces serves exactly the namespaces of a complete list, and reports whether that is a change.
func (o *observer) setNamespaces(found map[string]bool) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = !maps.Equal(o.existing, found)
	o.existing = found
	return changed
}

// updateNamespace handles a change of a namespace that the operator selects.
func (o *observer) updateNamespace(ctx context.Context, ev RawEvent) {
	name, gone := ev.Body.Name(), o.namespaceGone(ev)
	o.mu.Lock()
	changed := o.existing[name] == gone
	if gone {
		delete(o.existing, name)
	} else {
		o.existing[name] = true
	}
	o.mu.Unlock()
	if changed {
		o.reconcile(ctx)
	}
}

// namespaceGone reports whether a namespace is deleted, or is being deleted without pending finalizers or content.
func (o *observer) namespaceGone(ev RawEvent) bool {
	raw, _ := ev.Body.find("status", "conditions")
	conditions := namespaces.Conditions(raw)
	if ev.Type == Deleted || !ev.Body.Deleting() || len(conditions) == 0 {
		return ev.Type == Deleted
	}
	for _, c := range conditions {
		if c.Status == "True" { // the deletion is still pending
			o.log.Debug(fmt.Sprintf("Namespace %q termination is pending: %s: %s", ev.Body.Name(), c.Reason, c.Message))
			return false
		}
	}
	return true
}

// serves reports whether the operator selects a namespace.
func (o *observer) serves(namespace string) bool {
	return o.clusterwide || slices.ContainsFunc(o.namespaces, func(p string) bool { return namespaces.Match(p, namespace) })
}

func (o *observer) end(err error) { o.fail(err) }

// memoryOf returns the memory of an object, nil if there is none.
func (o *observer) memoryOf(resource, key string) *memory {
	o.mu.Lock()
	served := o.resources[resource]
	o.mu.Unlock()
	if served == nil {
		return nil
	}
	return served.reactor.queue.memoryOf(key)
}

// stop ends the work on all objects. It waits for running handlers for the time in the settings, and then cancels their contexts and logs those that ignore
// it. It returns the error of the admission server, if there is one.
func (o *observer) stop(endHandlers, endRequests context.CancelFunc) (err error) {
	began := time.Now()
	o.mu.Lock()
	var queues []*queue
	var runners []taskRunner
	for _, served := range o.resources {
		served.reactor.queue.close()
		queues = append(queues, served.reactor.queue)
		if served.reactor.daemons != nil {
			runners = append(runners, served.reactor.daemons)
		}
	}
	o.mu.Unlock()
	grace := o.settings.Queueing.ExitTimeout
	if left := drainQueues(o.force, queues, grace); len(left) > 0 {
		o.log.Warn("Some handlers have not finished in time; canceling their contexts", "objects", left, "timeout", grace, "help", "K914")
		endHandlers()
		drainQueues(o.force, queues, max(grace, time.Second))
	}
	for _, e := range runners {
		e.stop(stopper.OperatorExiting)
	}
	for _, e := range runners { // after a timeout, wait abandons them
		if left := e.wait(o.force); len(left) > 0 {
			o.log.Error("Some daemons did not return after cancellation; abandoning them", "daemons", left, "help", "K916")
		}
	}
	if o.admission != nil { // last, because the requests until now may have needed reviews
		err = o.admission.stop(began)
	}
	endHandlers()
	endRequests()
	if left := drainQueues(context.Background(), queues, time.Second); len(left) > 0 {
		for _, q := range queues {
			o.leader.abandonAll(&q.workers)
		}
		o.log.Error("Some handlers did not return after cancellation; abandoning them", "objects", left, "help", "K915")
	}
	return err
}

// drainQueues waits for the workers of all queues, and returns the objects of those that exceed the timeout.
func drainQueues(ctx context.Context, queues []*queue, timeout time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var left []string
	for _, q := range queues {
		left = append(left, q.wait(ctx)...)
	}
	return left
}
