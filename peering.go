package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/peers"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
)

// This file lets operators give way to each other. Each one keeps a record of itself in a peering object that all of them watch;
// an operator that sees the living record of another one with a higher or the same priority pauses. Each membership in such an object is kept by internal/peers:
// on a goroutine that keeps the own record alive, and one for its stream.

// peeringGroups are the API groups of peering objects: today's and the legacy one.
var peeringGroups = []string{"kopf.dev", "zalando.org"}

// isPeering reports whether a resource is one of peering objects, in the whole cluster or in namespaces.
func isPeering(r discovery.Resource, clusterwide bool) bool {
	plural := "kopfpeerings"
	if clusterwide {
		plural = "clusterkopfpeerings"
	}
	return r.Plural == plural && r.Version == "v1" && r.Namespaced != clusterwide && slices.Contains(peeringGroups, r.Group)
}

// peeringTimeout limits the time of a request that writes records: a late one is not true any more.
const peeringTimeout = 5 * time.Second

// writePeering writes records into a peering object, or removes those that are nil, and returns what the object is then. If a version is given, it fails
// with 409 when the object has another one.
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
	if slices.Contains(r.Subresources, "status") {
		subresource = "status"
	}
	return c.body(ctx, &request{method: http.MethodPatch, path: r.path(namespace, name, subresource), contentType: "application/merge-patch+json", body: patch, once: true})
}

// peering is what an operator has to do with its peers.
type peering struct {
	client   *Client
	settings *Settings
	log      *slog.Logger
	identity string
	pauser   *pauser.Pauser
	leader   *leadership // in whose terms alone the own record is written
	meter    *metrics.Metrics
	operator ender

	ctx      context.Context // ends when the operator leaves its peers
	end      context.CancelFunc
	tasks    sync.WaitGroup
	mu       sync.Mutex // guards sessions
	sessions map[string]*peers.Keeper
}

// start joins the peers; leave must be called at last. No request about peers waits for others.
func (p *peering) start(ctx context.Context) *peering {
	p.ctx, p.end = context.WithCancel(unlimited(context.WithoutCancel(ctx)))
	p.sessions = make(map[string]*peers.Keeper)
	return p
}

// stop removes the own records, and waits until that is done.
func (p *peering) stop() {
	if p == nil {
		return
	}
	p.end()
	p.tasks.Wait()
}

// reconcile starts sessions for the peering objects of the resources and namespaces that there are, and stops the others.
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

// recheckNamespace has the sessions of a namespace find out anew whether it is being deleted.
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

// waitObserved waits until the peering objects of all sessions have been evaluated: before that, nothing new is served.
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

// startSessionLocked starts a session if there is none yet, and returns its name. Without a resource, it is one
// that waits for a resource.
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
	o := &peers.Options{Name: name, Stealth: settings.Stealth, Pauser: p.pauser, Meter: p.meter, Session: peers.Session{
		Identity: p.identity, Priority: settings.Priority, Lifetime: settings.Lifetime, Mandatory: settings.Mandatory,
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

// peeringServer is where one peering object is.
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

// peeringState returns what matters of a peering object.
func peeringState(b *Body) peers.State {
	status := b.of(b.status)
	return peers.State{Version: b.version, Status: status}
}

// Failure implements [peers.Server].
func (s *peeringServer) Failure(err error) peers.Failure {
	return peers.Failure{Code: StatusCode(err), Denied: isDenied(err), RetryAfter: retryAfterOf(err)}
}

// NamespaceEnding implements [peers.Server]. It needs the right to list namespaces, which operators of
// namespaces may have anyway, or to get that one.
func (s *peeringServer) NamespaceEnding(ctx context.Context) (ends bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, peeringTimeout, fmt.Errorf("no answer in %s", peeringTimeout))
	defer cancel()
	r := request{method: http.MethodGet, path: "/api/v1/namespaces", once: true}
	list := r
	list.query = url.Values{"fieldSelector": {"metadata.name=" + s.namespace}}
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
	items, ends := answer.find("items") // an empty list is one of a namespace that is gone
	err = rawjson.EachItem(items, func(item []byte) bool {
		deleted, _ := rawjson.Find(item, "metadata", "deletionTimestamp")
		ends = !rawjson.IsNull(deleted)
		return false
	})
	return ends && err == nil, err
}

// Follow implements [peers.Server]: of the objects of the resource, one is ours.
func (s *peeringServer) Follow(ctx context.Context, k *peers.Keeper) {
	s.client.stream(s.resource, s.namespace, "", &peersHandler{meta: s.resource.typeMeta(), keeper: k, name: s.settings.Peering.Name, operator: s.operator}).Run(ctx)
}

// peersHandler hands over the peering object of a session.
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

func (h *peersHandler) OnListing()  { h.keeper.BeginListing() }
func (h *peersHandler) OnListed()   { h.keeper.EndListing() }
func (h *peersHandler) OnRestored() { h.keeper.ForgetVersion() }

func (h *peersHandler) OnStatus(err error) {
	if login := (*LoginError)(nil); errors.As(err, &login) {
		h.operator.end(err)
	}
	h.keeper.FailWatching(err)
}
