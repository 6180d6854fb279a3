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

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/peerrecord"
	"github.com/kopf-go/kopf/internal/peers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file lets operators give way to each other. Each one keeps a record of itself in a peering object that all of them watch;
// an operator that sees the living record of another one with a higher or the same priority pauses. A session is for one
// such object: it has a goroutine that keeps the own record alive, and one for its stream. What follows from the records is decided by internal/peers.

// peeringGroups are the API groups of peering objects: today's and the legacy one.
var peeringGroups = []string{"kopf.dev", "zalando.org"}

// isPeering reports whether a resource is one of peering objects, in the whole cluster or in namespaces.
func isPeering(r Resource, clusterwide bool) bool {
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
	path := r.URL(url.PathEscape(namespace), url.PathEscape(name), subresource)
	return c.body(ctx, &request{method: http.MethodPatch, path: path, contentType: "application/merge-patch+json", body: patch, once: true})
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
	sessions map[string]*peerSession
}

// start joins the peers; leave must be called at last. No request about peers waits for others.
func (p *peering) start(ctx context.Context) *peering {
	p.ctx, p.end = context.WithCancel(unlimited(context.WithoutCancel(ctx)))
	p.sessions = make(map[string]*peerSession)
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
func (p *peering) reconcile(found []Resource, namespaces map[string]bool) {
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
			wanted[p.startSessionLocked(r, namespace)] = true
		}
	}
	if s.Mandatory && !exists {
		wanted[p.startSessionLocked(Resource{}, "")] = true
	}
	for name, session := range p.sessions {
		if !wanted[name] {
			delete(p.sessions, name)
			session.stop()
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
	for _, s := range p.sessions {
		if s.namespace == namespace {
			s.mu.Lock()
			s.state.Recheck()
			s.mu.Unlock()
			s.wake()
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
	for _, s := range sessions {
		select {
		case <-s.observed.Done():
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
	s := &peerSession{peering: p, resource: r, namespace: namespace, name: name, wakeup: make(chan struct{}, 1), state: peers.Session{
		Identity: p.identity, Priority: settings.Priority, Lifetime: settings.Lifetime, Mandatory: settings.Mandatory,
		Name: settings.Name, Namespace: namespace, Logger: p.log, Log: log,
	}}
	if r.Plural == "" || p.pauser.Paused() { // perhaps because of a session that is about to stop, and this one has not been evaluated
		p.pauser.Block(name, true)
	}
	p.sessions[name] = s
	s.sessionCtx, s.cancel = context.WithCancel(p.ctx)
	s.observed, s.setObserved = context.WithCancel(s.sessionCtx)
	p.tasks.Go(func() { s.run(s.sessionCtx) })
	return name
}

// peerSession is an operator's membership in one peering object.
type peerSession struct {
	*peering
	resource    Resource
	namespace   string
	name        string
	sessionCtx  context.Context // ends when the session stops
	cancel      context.CancelFunc
	observed    context.Context // ends when a whole listing was evaluated, or the session stops
	setObserved context.CancelFunc
	wakeup      chan struct{} // holds a token when there may be something to do before the time

	mayHaveRecord bool // whether there may be a record of us, which is to be removed at the end; the goroutine's own

	mu          sync.Mutex // guards following
	state       peers.Session
	inListing   bool          // whether the object was in the listing
	expiryTimer *time.Timer   // checks whether we are to pause when our record is about to expire
	alive       int64         // others, as they are counted
	looked      chan struct{} // closed when an attempt has ended that begins from now on; nil if nothing waits for that
}

// run keeps the own record alive until the context ends, and then removes it.
func (s *peerSession) run(ctx context.Context) {
	if s.resource.Plural == "" {
		s.setObserved()
		s.warnMissing(ctx)
		return
	}
	if s.leader.holds() {
		s.keepAlive(ctx) // so that of two operators that start at the same time, at least one sees the other
	}
	var streams sync.WaitGroup
	streams.Go(func() { s.stream().run(ctx) })
	for ctx.Err() == nil {
		s.step(ctx)
	}
	streams.Wait()
	s.mu.Lock()
	s.endLookLocked()
	if s.expiryTimer != nil {
		s.expiryTimer.Stop()
	}
	s.mu.Unlock()
	if !s.mayHaveRecord || s.leader != nil { // with an election, the record is that of all replicas: another one goes on with it, or it expires
		return
	}
	nothing, began := map[string]any{s.identity: nil}, time.Now()
	_, err := s.write(context.WithoutCancel(ctx), "", nothing)
	if err != nil && uncertain(err) && time.Since(began) < time.Second { // perhaps the connection has ended with the streams that it was shared with
		_, err = s.write(context.WithoutCancel(ctx), "", nothing)
	}
	if err != nil && StatusCode(err) != http.StatusNotFound {
		s.state.Log.Error("Removing our record from the peering object failed; the record will expire", "error", err)
	}
}

// step does what is due, or waits until something is.
func (s *peerSession) step(ctx context.Context) {
	s.mu.Lock()
	next := s.state.Next(time.Now(), s.leader.holds())
	s.mu.Unlock()
	switch next.Action {
	case peers.CheckNamespace:
		s.checkNamespace(ctx, next.Question)
	case peers.Write:
		s.keepAlive(ctx)
	case peers.RemoveExpired:
		s.removeExpired(ctx)
	case peers.Idle:
		timer := time.NewTimer(next.Wait)
		select {
		case <-s.wakeup:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// stop ends the session, and withdraws its reasons to pause.
func (s *peerSession) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.endLookLocked()
	s.countLocked(0)
	s.pauser.Block(s.name, false)
}

// warnMissing logs, from time to time, what the operator waits for.
func (s *peerSession) warnMissing(ctx context.Context) {
	for {
		s.log.Warn("Pausing, because the mandatory peering has no resource", "peering", s.settings.Peering.Name, "hint", "apply the custom resource definitions of peering")
		if await.Sleep(ctx, time.Minute) != nil {
			return
		}
	}
}

func (s *peerSession) write(ctx context.Context, version string, records map[string]any) (*Body, error) {
	return writePeering(ctx, s.client, s.resource, s.namespace, s.settings.Peering.Name, version, records)
}

// writeGrace is how long the end of an operator waits for a record that is being written.
const writeGrace = 2 * time.Second

// keepAlive writes the own record, and looks at those of the others in the answer.
func (s *peerSession) keepAlive(ctx context.Context) {
	settings := &s.settings.Peering
	s.mu.Lock()
	looked := s.looked
	s.looked = nil
	s.state.Begin(time.Now())
	s.mu.Unlock()
	if looked != nil {
		defer close(looked)
	}
	writing, done := await.Outlive(ctx, writeGrace) // what is cut off may be carried out later than the removal of the record
	body, err := s.write(writing, "", map[string]any{s.identity: peerrecord.Record(settings.Priority, settings.Lifetime)})
	done()
	if err == nil {
		s.mayHaveRecord = settings.Lifetime > 0
	} else if uncertain(err) {
		s.mayHaveRecord = true // perhaps
	}
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		if !settings.Stealth {
			s.log.Debug("Keep-alive in "+s.name+".", "result", "ok")
		}
		s.state.Written(time.Now(), peeringState(body))
		s.awaitExpiryLocked()
	case StatusCode(err) == http.StatusNotFound:
		s.log.Debug("Keep-alive in "+s.name+".", "result", "not found")
		s.state.NotFound()
	case transient(err):
		s.state.Failed(err, max(2*time.Second, retryAfterOf(err)))
	default:
		s.state.Failed(err, 0)
		if !s.state.Look(time.Now()) { // there will be no event that tells of a record that has expired
			return
		}
	}
	s.applyLocked()
}

// peeringState returns what matters of a peering object.
func peeringState(b *Body) peers.State {
	status := b.of(b.status)
	return peers.State{Version: b.version, Status: status}
}

// uncertain reports whether a request that has failed may have been carried out.
func uncertain(err error) bool {
	return StatusCode(err) == 0 || StatusCode(err) >= 500 && !isDenied(err)
}

// transient reports whether the server may well take the same request soon.
func transient(err error) bool {
	return uncertain(err) || StatusCode(err) == http.StatusTooManyRequests && !isDenied(err)
}

// awaitExpiryLocked has it noticed in time when the own record dies.
func (s *peerSession) awaitExpiryLocked() {
	if s.settings.Peering.Lifetime <= 0 || s.sessionCtx.Err() != nil {
		return
	}
	if wait := time.Until(s.state.LapseTime()); s.expiryTimer == nil {
		s.expiryTimer = time.AfterFunc(wait, s.checkExpiry)
	} else {
		s.expiryTimer.Reset(wait)
	}
}

// checkExpiry pauses the operator if its record has expired.
func (s *peerSession) checkExpiry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyLocked()
}

// removeExpired removes the expired records, unless one of them has shown a sign of life meanwhile.
func (s *peerSession) removeExpired(ctx context.Context) {
	records := make(map[string]any)
	s.mu.Lock()
	version, expired := s.state.TakeExpired()
	s.mu.Unlock()
	for _, id := range expired {
		records[id] = nil
	}
	body, err := s.write(ctx, version, records)
	code := StatusCode(err)
	if err == nil {
		s.mu.Lock()
		s.state.See(time.Now(), peeringState(body))
		s.applyLocked()
		s.mu.Unlock()
	} else if ctx.Err() == nil && code != http.StatusNotFound && code != http.StatusConflict {
		s.state.Log.Warn("Removing the records of dead operators failed", "error", err)
	}
}

// checkNamespace asks whether the namespace of a missing object is being deleted, or gone: nothing can be missed there.
func (s *peerSession) checkNamespace(ctx context.Context, question int) {
	ending, err := false, error(nil)
	if s.namespace != "" && s.settings.Peering.Mandatory {
		ending, err = s.namespaceDeleted(ctx)
	}
	var after time.Duration
	if err != nil && transient(err) {
		after = 2 * time.Second
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil && s.state.Checked(time.Now(), question, ending, after) {
		s.applyLocked()
	}
}

// namespaceDeleted asks the server whether the session's namespace is being deleted, or gone. It needs the right to list namespaces, which operators of
// namespaces may have anyway, or to get that one.
func (s *peerSession) namespaceDeleted(ctx context.Context) (ends bool, err error) {
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

// stream makes the stream of the peering objects of the session's resource, of which one is ours.
func (s *peerSession) stream() *stream {
	return &stream{client: s.client, resource: s.resource, namespace: s.namespace, settings: &s.settings.Watching, logger: s.log, handler: &peersHandler{s: s}}
}

// peersHandler hands over the peering object of a session.
type peersHandler struct {
	ignoreStream
	s *peerSession
}

func (h *peersHandler) onListing() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.inListing = false
}

func (h *peersHandler) onEvent(ev RawEvent) {
	if ev.Body.name != h.s.settings.Peering.Name {
		return
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if ev.Type == Deleted {
		h.s.state.Lost(ev.Body.version, true)
	} else {
		h.s.inListing = true
		h.s.state.See(time.Now(), peeringState(ev.Body))
	}
	h.s.applyLocked()
}

func (h *peersHandler) onListed() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.state.Listed()
	if !h.s.inListing {
		h.s.state.Lost("", true)
	} else if !h.s.state.Look(time.Now()) {
		return
	}
	h.s.applyLocked()
}

func (h *peersHandler) onRestored() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.state.ForgetVersion()
}

func (h *peersHandler) onStatus(err error) { h.s.watchFailed(err) }

// watchFailed decides what becomes of a session whose object cannot be watched. Operators whose peering is not mandatory go on without it.
func (s *peerSession) watchFailed(err error) {
	if login := (*LoginError)(nil); errors.As(err, &login) {
		s.operator.end(err)
	}
	if code := StatusCode(err); code == http.StatusForbidden || code == http.StatusNotFound {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.state.Listed() {
			s.state.Log.Warn("Watching the peering objects failed; working as without peers", "error", err)
			s.state.Lost("", false)
			s.applyLocked()
		}
	}
}

// countLocked counts the others that live.
func (s *peerSession) countLocked(alive int64) {
	s.meter.Add(metrics.Peers, alive-s.alive)
	s.alive = alive
}

// wake has the goroutine of the session check what is due.
func (s *peerSession) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// applyLocked does what follows from what is known now: the operator pauses or goes on, and the goroutine of the session checks what is due.
func (s *peerSession) applyLocked() {
	if s.sessionCtx.Err() != nil {
		s.countLocked(0)
		return
	}
	s.countLocked(s.state.Alive())
	s.wake()
	decision, decided := s.state.Decide(time.Now(), s.leader.holds())
	if !decided {
		return // it depends on an answer that is not there yet
	}
	s.pauser.Block(s.name, decision.Pause)
	if decision.Observed {
		s.setObserved()
	}
}
