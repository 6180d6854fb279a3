package kopf

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
	"github.com/kopf-go/kopf/internal/webhookconfig"
)

// This file keeps the webhook configurations: it writes them when the server, the resources or other clients change
// something, and leaves or removes the webhooks at the end.

// setClient stores the address of the server, and writes it into the configurations. If the API server refuses that, followResources
// repeats it.
//
// A Service sends reviews only to ready pods, so its address has to wait until the operator is ready. The API server would refuse
// the writes of all clients before.
func (s *reviewServer) setClient(client WebhookClientConfig) {
	s.mu.Lock()
	s.announced = &client
	ctx, wait := s.serving.ctx, client.Service != nil && !s.wasReady
	s.mu.Unlock()
	if wait && s.awaitReadiness(ctx) != nil {
		return
	}
	s.mu.Lock()
	s.wasReady = s.wasReady || wait
	late := s.announced != &client
	if !late {
		s.clientConfig = &client
	}
	s.mu.Unlock()
	if !late {
		s.configure()
	}
}

// readinessInterval is the time between two checks of the readiness before the first write of the configurations.
const readinessInterval = 100 * time.Millisecond

// awaitReadiness waits until the operator is ready. It returns an error when the context ends.
func (s *reviewServer) awaitReadiness(ctx context.Context) error {
	began, warned := time.Now(), false
	for !s.meter.IsReady() {
		if !warned && time.Since(began) > announcementTimeout {
			warned = true
			s.log.Warn("The operator is not ready yet; writing its webhook configurations when it is", "help", "K1023")
		}
		if err := await.Sleep(ctx, readinessInterval); err != nil {
			return err
		}
	}
	return nil
}

// awaitPublished waits until the stored webhooks have the certificates that a server needs of the CA bundle that it has announced, whichever
// replica writes them. The server may show a certificate of them then. If another server in front has announced another bundle, it waits
// for that. It returns at once if the operator does not know the stored webhooks.
func (s *reviewServer) awaitPublished(ctx context.Context, bundle, needed []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer context.AfterFunc(ctx, s.settle)()
	for ctx.Err() == nil && !s.stopping {
		if s.clientConfig != nil && !bytes.Equal(s.clientConfig.CABundle, bundle) {
			needed = s.clientConfig.CABundle
		}
		if s.publishedLocked(needed) {
			return
		}
		s.settled.Wait()
	}
}

// publishedLocked reports whether the stored webhooks have a CA bundle, as far as the operator knows
// them. Users update unmanaged configurations, and have the overlap for that.
func (s *reviewServer) publishedLocked(bundle []byte) bool {
	if s.serving.settings.Managed == "" {
		return true
	}
	leads := s.leader.leads()
	for _, keeper := range s.configurations {
		switch has := s.hasHandlers(keeper.Kind); {
		case has && leads && (s.outdated || !keeper.IsOwn()):
			return false
		case !keeper.IsKnown(), !has && keeper.IsForeign():
		case !keeper.HasBundle(bundle):
			return false
		}
	}
	return true
}

// settle makes awaitPublished look again.
func (s *reviewServer) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled.Broadcast()
}

// hasHandlers reports whether there are handlers with webhooks of a kind.
func (s *reviewServer) hasHandlers(kind webhookconfig.Kind) bool {
	return slices.ContainsFunc(s.all, func(h *handler) bool { return h.webhookKind() == kind })
}

// followResources rewrites the configurations when the resources change, when another client has changed a configuration, and when a write has failed. Two
// clients that both insist on their webhooks write less and less often.
func (s *reviewServer) followResources(ctx context.Context) {
	var edits, refusals restoring
	var restored time.Time      // after an edit
	var doubts <-chan time.Time // when another replica is asked; nil for never
	var reads <-chan time.Time  // when unwatched configurations are read; nil for never
	for {
		if reads == nil && s.isUnwatched() {
			reads = time.After(refreshInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-s.overdue:
			if s.isAsked() {
				break
			}
			if edits.due == nil && time.Since(restored) > 2*longestRestoring {
				edits.delay = 0
			}
			edits.plan()
			continue
		case <-s.refused:
			refusals.plan()
			continue
		case <-s.doubted:
			if doubts == nil {
				doubts = time.After(doubtTime)
			}
			continue
		case <-edits.due:
			edits.due, restored = nil, time.Now()
		case <-refusals.due:
			refusals.due = nil
		case <-doubts:
			doubts = nil
			s.ask()
		case <-reads:
			reads = nil
			s.refresh()
			continue
		}
		s.configure()
		if len(s.refused) == 0 {
			refusals.delay = 0
		}
	}
}

// doubtTime is how long the webhooks of a later replica may be doubtful before it is asked whether it still runs, and the time for its answer.
const doubtTime = time.Minute

// isAsked reports whether another replica asks whether this one still runs.
func (s *reviewServer) isAsked() bool {
	return slices.ContainsFunc(s.configurations, (*webhookconfig.Keeper).IsAsked)
}

// ask asks the replicas whose webhooks are doubtful whether they still run.
func (s *reviewServer) ask() {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if s.isIdle() {
		return
	}
	for _, keeper := range s.configurations {
		if err := keeper.Ask(s.configuring); err != nil {
			s.log.Debug("Asking another replica whether it still runs failed", "kind", keeper.Kind.Name, "name", keeper.Name, "error", err)
		}
	}
}

// refreshInterval is the time between two reads of configurations that the operator may not watch. It is shorter than the time for
// the answer to a question.
const refreshInterval = 20 * time.Second

// isUnwatched reports whether the operator may not watch a configuration.
func (s *reviewServer) isUnwatched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(slices.Collect(maps.Values(s.unwatched)), true)
}

// refresh reads the configurations that the operator has written and may not watch.
func (s *reviewServer) refresh() {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if s.isIdle() {
		return
	}
	for _, keeper := range s.configurations {
		s.mu.Lock()
		unwatched := s.unwatched[keeper]
		s.mu.Unlock()
		if !unwatched || !keeper.IsOwn() {
			continue
		}
		if err := keeper.Refresh(s.configuring); err != nil {
			s.log.Debug("Reading a webhook configuration failed", "kind", keeper.Kind.Name, "name", keeper.Name, "error", err)
			continue
		}
		s.look(keeper)
	}
}

// restoring plans the next write of the configurations for one reason. Its delays grow.
type restoring struct {
	due   <-chan time.Time // nil for none
	delay time.Duration    // of the next one to plan
}

func (r *restoring) plan() {
	if r.due == nil {
		r.due = time.After(r.delay)
		r.delay = min(max(2*r.delay, time.Second), longestRestoring)
	}
}

// longestRestoring is the longest delay before a configuration is written that another client changes again and again, or the API server refuses.
const longestRestoring = 5 * time.Minute

// followConfigurations watches the configurations, also those without handlers: another version of the operator may have some.
func (s *reviewServer) followConfigurations(ctx context.Context) {
	for _, keeper := range s.configurations {
		stream := s.client.stream(configurationResource(keeper.Kind), "", keeper.Name, &configurationHandler{server: s, keeper: keeper})
		s.tasks.Go(func() { stream.Run(ctx) })
	}
}

// configurationHandler passes the events of a configuration to its keeper.
type configurationHandler struct {
	watchstream.Ignore
	server *reviewServer
	keeper *webhookconfig.Keeper
	listed bool   // whether the present list has the configuration
	known  uint64 // the version that the keeper knew at the beginning of the list
}

// OnListing implements [watchstream.Handler].
func (h *configurationHandler) OnListing() { h.listed, h.known = false, h.keeper.Known() }

// OnEvent implements [watchstream.Handler].
func (h *configurationHandler) OnEvent(t string, header *rawjson.Header, raw []byte) {
	h.listed = true
	if EventType(t) == Deleted {
		version, _ := strconv.ParseUint(rawjson.StringAt(raw[:header.End], "metadata", "resourceVersion"), 10, 64)
		h.keeper.NoteMissing(version)
	} else {
		h.keeper.Note(raw[:header.End], t == "")
	}
	h.server.look(h.keeper)
}

// OnListed implements [watchstream.Handler].
func (h *configurationHandler) OnListed(version string) {
	listed, _ := strconv.ParseUint(version, 10, 64)
	known := h.keeper.Known()
	if !h.listed && (known == h.known || listed >= known) { // otherwise it may have been created since, which an event will show
		h.keeper.NoteMissing(0)
		h.server.look(h.keeper)
	}
}

// OnStatus implements [watchstream.Handler].
func (h *configurationHandler) OnStatus(err error) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.server.unwatched[h.keeper] = StatusCode(err) == http.StatusForbidden
	note(h.server.changed) // so that followResources begins to read it
}

// look makes followResources do what the state of a configuration requires.
func (s *reviewServer) look(keeper *webhookconfig.Keeper) {
	if keeper.IsDue() {
		note(s.overdue)
	}
	if keeper.IsDoubtful() {
		note(s.doubted)
	}
	s.settle()
}

// isIdle reports whether this replica must not write the configurations now.
func (s *reviewServer) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isIdleLocked()
}

func (s *reviewServer) isIdleLocked() bool {
	return s.stopping || s.clientConfig == nil || s.serving.settings.Managed == "" || !s.leader.leads()
}

// configure writes the changed configurations. The operator fails if it cannot write one for the first time. Later writes are repeated.
func (s *reviewServer) configure() {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	client, resources, outdated, secret := s.clientConfig, s.resources, s.outdated, s.secret
	idle := s.isIdleLocked()
	s.outdated = outdated && idle
	s.mu.Unlock()
	if idle {
		return
	}
	defer s.settle()
	if outdated { // also those after one that is refused
		for _, keeper := range s.configurations {
			keeper.Forget()
		}
	}
	complete := true
	for _, keeper := range s.configurations {
		if s.configuring.Err() != nil {
			return // the webhooks are removed at the end of the operator
		}
		hooks := s.hooks(keeper.Kind, resources)
		err := s.keep(keeper, hooks, client.asClient(secret))
		if errors.Is(err, ErrLeadershipLost) || s.configuring.Err() != nil {
			return // the next leader writes
		}
		if err != nil && len(hooks) > 0 && !keeper.HasWritten() {
			s.fail(err)
			return
		}
		if err != nil && keeper.HasFailed(StatusCode(err)) {
			s.log.Warn("Writing a webhook configuration failed; retrying", "kind", keeper.Kind.Name, "name", keeper.Name, "error", err, "help", "K1020")
		}
		complete = complete && err == nil && !keeper.IsDue() // another replica may have been faster
		if keeper.IsDoubtful() {
			note(s.doubted)
		}
	}
	if !complete {
		note(s.refused)
	}
}

// keep writes the webhooks of a configuration, or removes them if there are no handlers for it.
func (s *reviewServer) keep(keeper *webhookconfig.Keeper, hooks []webhookconfig.Hook, client webhookconfig.Client) error {
	if len(hooks) == 0 {
		return keeper.Clear(s.configuring, client)
	}
	return keeper.Write(s.configuring, hooks, client)
}

// lead rewrites the configurations, because another replica may have changed them.
func (s *reviewServer) lead() {
	s.mu.Lock()
	s.outdated = true
	s.mu.Unlock()
	note(s.changed)
}

// cleaningTimeout limits the time for the answer of a write under way at the shutdown, and then that of the cleaning. The webhook server runs as long.
const cleaningTimeout = 5 * time.Second

// leaveConfigurations removes the webhooks from the configurations, or leaves them to other replicas.
func (s *reviewServer) leaveConfigurations(toOthers bool) {
	select {
	case s.writing <- struct{}{}:
	case <-s.force.Done():
		return
	}
	defer func() { <-s.writing }()
	ctx, cancel := context.WithTimeout(unlimited(s.requests), cleaningTimeout)
	defer cancel()
	defer context.AfterFunc(s.force, cancel)()
	var leaving sync.WaitGroup // so that retries for one of them leave time for the other one
	for _, keeper := range s.configurations {
		leaving.Go(func() { s.leaveConfiguration(ctx, keeper, toOthers) })
	}
	leaving.Wait()
}

// leaveConfiguration removes the webhooks from a configuration, except those of permanent handlers, or
// leaves it to other replicas.
func (s *reviewServer) leaveConfiguration(ctx context.Context, keeper *webhookconfig.Keeper, toOthers bool) {
	s.mu.Lock()
	client, resources, secret := s.clientConfig, s.resources, s.secret
	s.mu.Unlock()
	hooks := s.hooks(keeper.Kind, resources)
	if toOthers || len(hooks) == 0 || client == nil {
		keeper.Release(ctx)
		return
	}
	keeper.CleanUp(ctx, hooks, client.asClient(secret))
}

// configurationResource returns the resource of the configurations of a kind.
func configurationResource(kind webhookconfig.Kind) Resource {
	return Resource{Group: webhookconfig.Group, Version: webhookconfig.Version, Plural: kind.Plural, Kind: kind.Name}
}

// configurationRequests sends the requests for one of the configurations.
type configurationRequests struct {
	client   *Client
	resource Resource
	name     string
}

// Patch implements [webhookconfig.Requests].
func (c *configurationRequests) Patch(ctx context.Context, patch []byte) (stored []byte, code int, err error) {
	return storedConfiguration(c.client.patchObject(ctx, c.resource, "", c.name, "", string(MergePatch), patch))
}

// Create implements [webhookconfig.Requests]. It applies the configuration, because permissions for
// a POST cannot be limited to a name. It does not force conflicts with replicas that were faster.
func (c *configurationRequests) Create(ctx context.Context, configuration []byte) (stored []byte, code int, err error) {
	r := &request{
		method: http.MethodPatch, path: c.resource.path("", c.name, ""), query: url.Values{"fieldManager": {fieldManager}},
		contentType: string(ApplyPatch), body: configuration,
	}
	return storedConfiguration(c.client.body(ctx, r))
}

// storedConfiguration converts an answer for the webhookconfig package.
func storedConfiguration(body *Body, err error) (stored []byte, code int, _ error) {
	if err != nil {
		return nil, StatusCode(err), err
	}
	return body.raw, 0, nil
}

// hooks returns the webhooks of the handlers of a kind.
func (s *reviewServer) hooks(kind webhookconfig.Kind, resources map[*handler][]discovery.Resource) (hooks []webhookconfig.Hook) {
	exact := namespaces.ExactNames(s.namespaces)
	for _, h := range s.all {
		if h.webhookKind() != kind {
			continue
		}
		hook := h.hook(resources[h])
		hook.Path, hook.Namespaces = kind.Path(string(h.id), s.shared(h)), exact
		hooks = append(hooks, hook)
	}
	return hooks
}

// shared reports whether a handler of the other kind has the same ID.
func (s *reviewServer) shared(h *handler) bool {
	return slices.ContainsFunc(s.all, func(o *handler) bool { return o.id == h.id && o.kind != h.kind })
}

// webhookKind returns the kind of webhook for an admission handler.
func (h *handler) webhookKind() webhookconfig.Kind {
	if h.kind == kindMutate {
		return webhookconfig.Mutating
	}
	return webhookconfig.Validating
}

// hook returns the webhook of a handler. Selectors cannot express predicates, so kopf checks those during each review.
func (h *handler) hook(resources []discovery.Resource) webhookconfig.Hook {
	a := h.admission
	hook := webhookconfig.Hook{
		ID: string(h.id), Subresource: a.subresource, Timeout: h.reviewTime(), SideEffects: a.sideEffects, IgnoreFailures: a.ignoreFailures, Persistent: a.persistent,
	}
	for _, op := range a.operations {
		hook.Operations = append(hook.Operations, string(op))
	}
	for _, r := range resources {
		hook.Resources = append(hook.Resources, webhookconfig.Resource{Group: r.Group, Version: r.Version, Plural: r.Plural})
	}
	for _, c := range h.filters.labels {
		switch {
		case c.predicate != nil:
		case c.marker == Present:
			hook.Labels = append(hook.Labels, webhookconfig.Requirement{Key: c.key, Operator: "Exists"})
		case c.marker == Absent:
			hook.Labels = append(hook.Labels, webhookconfig.Requirement{Key: c.key, Operator: "DoesNotExist"})
		default:
			hook.Labels = append(hook.Labels, webhookconfig.Requirement{Key: c.key, Operator: "In", Values: []any{c.literal}})
		}
	}
	return hook
}
