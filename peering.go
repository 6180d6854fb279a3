package kopf

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/peers"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
)

// This file implements peering. Each operator maintains a record in a peering object that all of them watch. It pauses while another one has a live record
// with the same or a higher priority. Each peering object has a keeper in internal/peers, with one goroutine for the record and one for the stream.

// peeringGroups are the API groups of peering objects: the current and the legacy one.
var peeringGroups = []string{"kopf.dev", "zalando.org"}

// isPeering reports whether a resource is that of peering objects, in the whole cluster or in namespaces.
func isPeering(r discovery.Resource, clusterwide bool) bool {
	plural := "kopfpeerings"
	if clusterwide {
		plural = "clusterkopfpeerings"
	}
	return r.Plural == plural && r.Version == "v1" && r.Namespaced != clusterwide && slices.Contains(peeringGroups, r.Group)
}

// peeringTimeout limits the time of a request that writes records, because late records are outdated.
const peeringTimeout = 5 * time.Second

// writePeering writes the records of a peering object, removes nil ones, and returns the object. With a version, it fails with 409 if the object has another
// one.
func writePeering(ctx context.Context, c *Client, r Resource, namespace, name, version string, records map[string]any) (*Body, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, peeringTimeout, fmt.Errorf("no answer in %s", peeringTimeout))
	defer cancel()
	what := map[string]any{"status": records}
	if version != "" {
		what["metadata"] = map[string]any{"resourceVersion": version}
	}
	patch, err := rawjson.Encode(what)
	if err != nil {
		return nil, err
	}
	subresource := ""
	if r.hasStatus() {
		subresource = "status"
	}
	return c.body(ctx, &request{method: http.MethodPatch, path: r.path(namespace, name, subresource), contentType: "application/merge-patch+json", body: patch, once: true})
}

// peering is the state of an operator's peering.
type peering struct {
	client   *Client
	settings *Settings
	log      *slog.Logger
	identity string
	pauser   *pauser.Pauser
	leader   *leadership // whose terms are required to write the own record
	meter    *metrics.Metrics
	operator ender
	force    context.Context // ends when the operator must not wait any more

	ctx      context.Context // ends when the operator leaves the peering
	end      context.CancelFunc
	tasks    sync.WaitGroup
	mu       sync.Mutex // guards these
	sessions map[string]*peers.Keeper
	unserved bool // whether it has warned that there is no resource
}

// start joins the peers. The caller must call stop at the end. Requests about peers skip all rate limits.
func (p *peering) start(ctx context.Context) *peering {
	p.ctx, p.end = context.WithCancel(unlimited(context.WithoutCancel(ctx)))
	p.sessions = make(map[string]*peers.Keeper)
	return p
}

// stop removes the own records, and waits for that.
func (p *peering) stop() {
	if p == nil {
		return
	}
	p.end()
	p.tasks.Wait()
}

// leave returns a context for the removal of an own record, after the end of the session.
func (p *peering) leave(session context.Context) (context.Context, context.CancelFunc) {
	return await.EndAfter(context.WithoutCancel(session), p.force, forcedRequestTime)
}

// reconcile starts sessions for the peering objects of the resources and namespaces, and stops the others.
func (p *peering) reconcile(found []discovery.Resource, namespaces map[string]bool) {
	if p == nil {
		return
	}
	s := &p.settings.Peering
	if s.Clusterwide {
		namespaces = map[string]bool{"": true}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := make(map[string]bool)
	exists := false
	for _, r := range found {
		if !isPeering(r, s.Clusterwide) {
			continue
		}
		exists = true
		for namespace := range namespaces {
			wanted[p.startSessionLocked(Resource(r), namespace)] = true
		}
	}
	if !exists && s.named() && !s.Mandatory && !p.unserved {
		p.unserved = true
		p.log.Warn("The peering of the settings has no resource; working as without peers", "peering", s.Name,
			"hint", "apply the custom resource definitions of peering", "help", "K221")
	}
	if s.Mandatory && !exists {
		wanted[p.startSessionLocked(Resource{}, "")] = true
	}
	for name, session := range p.sessions {
		if !wanted[name] {
			delete(p.sessions, name)
			session.Stop()
		}
	}
}

// recheckNamespace makes the sessions of a namespace check again whether it is being deleted.
func (p *peering) recheckNamespace(namespace string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.sessions {
		if k.Namespace() == namespace {
			k.Recheck()
		}
	}
}

// waitObserved waits until the peering objects of all sessions are evaluated. Before that, the operator serves no new resources.
func (p *peering) waitObserved(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	sessions := slices.Collect(maps.Values(p.sessions))
	p.mu.Unlock()
	for _, k := range sessions {
		select {
		case <-k.Observed().Done():
		case <-ctx.Done():
		}
	}
}

// startSessionLocked starts a session if there is none yet, and returns its name. Without a resource, the session waits for one.
func (p *peering) startSessionLocked(r Resource, namespace string) string {
	settings := &p.settings.Peering
	name, log := fmt.Sprintf("peering %q of %s", settings.Name, r.Name()), p.log.With("peering", settings.Name, "resource", r.Name())
	if r.Plural == "" {
		name = "no resource of peering objects"
	} else if namespace != "" {
		name += " in " + namespace
		log = log.With("namespace", namespace)
	}
	if p.sessions[name] != nil {
		return name
	}
	o := &peers.Options{Name: name, Stealth: settings.Stealth, Pauser: p.pauser, Meter: p.meter, Leave: p.leave, Session: peers.Session{
		Identity: p.identity, Priority: settings.Priority, Lifetime: settings.Lifetime, Mandatory: settings.Mandatory, Chosen: settings.named(),
		Name: settings.Name, Namespace: namespace, Logger: p.log, Log: log,
	}}
	if r.Plural != "" {
		o.Server = &peeringServer{peering: p, resource: r, namespace: namespace}
	}
	if p.leader != nil {
		o.Elector = p.leader
	}
	k := peers.NewKeeper(p.ctx, o)
	p.sessions[name] = k
	p.tasks.Go(k.Run)
	return name
}

// peeringServer sends the requests for one peering object.
type peeringServer struct {
	*peering
	resource  Resource
	namespace string
}

// Read implements [peers.Object].
func (s *peeringServer) Read(ctx context.Context) (peers.State, error) {
	body, err := s.client.object(ctx, s.resource, s.namespace, s.settings.Peering.Name)
	if err != nil {
		return peers.State{}, err
	}
	return peeringState(body), nil
}

// Write implements [peers.Server].
func (s *peeringServer) Write(ctx context.Context, version string, records map[string]any) (peers.State, error) {
	body, err := writePeering(ctx, s.client, s.resource, s.namespace, s.settings.Peering.Name, version, records)
	if err != nil {
		return peers.State{}, err
	}
	return peeringState(body), nil
}

// peeringState returns the state of a peering object for its keeper.
func peeringState(b *Body) peers.State {
	status := b.of(b.status)
	return peers.State{Version: b.version, Status: status}
}

// Failure implements [peers.Server].
func (s *peeringServer) Failure(err error) peers.Failure {
	return peers.Failure{Code: StatusCode(err), Denied: isDenied(err), RetryAfter: retryAfterOf(err)}
}

// NamespaceEnding implements [peers.Server]. It needs the permission to list namespaces, which operators for namespaces may have anyway, or to get that one.
func (s *peeringServer) NamespaceEnding(ctx context.Context) (ends bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, peeringTimeout, fmt.Errorf("no answer in %s", peeringTimeout))
	defer cancel()
	r := request{method: http.MethodGet, path: "/api/v1/namespaces", once: true}
	list := r
	list.query = url.Values{"fieldSelector": {apirequest.NameSelector(s.namespace)}}
	answer, err := s.client.body(ctx, &list)
	if StatusCode(err) == http.StatusForbidden {
		r.path += "/" + url.PathEscape(s.namespace)
		answer, err = s.client.body(ctx, &r)
		if StatusCode(err) == http.StatusNotFound {
			return true, nil
		}
		return err == nil && answer.deleting, err
	} else if err != nil {
		return false, err
	}
	items, ends := answer.find("items") // an empty list means that the namespace is gone
	err = rawjson.EachItem(items, func(item []byte) bool {
		deleted, _ := rawjson.Find(item, "metadata", "deletionTimestamp")
		ends = !rawjson.IsNull(deleted)
		return false
	})
	return ends && err == nil, err
}

// Follow implements [peers.Server]. The stream shows all objects of the resource, and the handler selects one.
func (s *peeringServer) Follow(ctx context.Context, k *peers.Keeper) {
	s.client.stream(s.resource, s.namespace, "", &peersHandler{meta: s.resource.typeMeta(), keeper: k, name: s.settings.Peering.Name, operator: s.operator}).Run(ctx)
}

// peersHandler passes the peering object to the session.
type peersHandler struct {
	watchstream.Ignore
	meta     *typeMeta
	keeper   *peers.Keeper
	name     string // of the object
	operator ender
}

func (h *peersHandler) OnEvent(t string, o *rawjson.Header, raw []byte) {
	switch ev := streamed(t, o, raw, h.meta); {
	case ev.Body.name != h.name:
	case ev.Type == Deleted:
		h.keeper.SeeDeleted(ev.Body.version)
	default:
		h.keeper.See(peeringState(ev.Body))
	}
}

func (h *peersHandler) OnListing()      { h.keeper.BeginListing() }
func (h *peersHandler) OnListed(string) { h.keeper.EndListing() }
func (h *peersHandler) OnRestored()     { h.keeper.ForgetVersion() }

func (h *peersHandler) OnStatus(err error) {
	if login := (*LoginError)(nil); errtype.As(err, &login) {
		h.operator.end(err)
	}
	h.keeper.FailWatching(err)
}
