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
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/peerrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file lets operators give way to each other. Each one keeps a record of itself in a peering object that all of them watch;
// an operator that sees the living record of another one with a higher or the same priority pauses. A session is for one
// such object: it has a goroutine that keeps the own record alive, and one for its stream.

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
			s.recheckLocked()
			s.mu.Unlock()
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
	s := &peerSession{peering: p, resource: r, namespace: namespace, wakeup: make(chan struct{}, 1), peers: make(map[string]peerrecord.Peer)}
	s.name = fmt.Sprintf("peering %q of %s", p.settings.Peering.Name, r.Name())
	if r.Plural == "" {
		s.name = "no resource of peering objects"
	} else if namespace != "" {
		s.name += " in " + namespace
	}
	if p.sessions[s.name] != nil {
		return s.name
	}
	if r.Plural == "" || p.pauser.Paused() { // perhaps because of a session that is about to stop, and this one has not been evaluated
		p.pauser.Block(s.name, true)
	}
	p.sessions[s.name] = s
	s.sessionCtx, s.cancel = context.WithCancel(p.ctx)
	s.observed, s.setObserved = context.WithCancel(s.sessionCtx)
	p.tasks.Go(func() { s.run(s.sessionCtx) })
	return s.name
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
	wakeup      chan struct{} // holds a token when there is something to do before the time

	mayHaveRecord bool // whether there may be a record of us, which is to be removed at the end; the goroutine's own

	mu              sync.Mutex  // guards following
	body            *Body       // the newest state of the object, nil if it is missing
	missingSeen     int         // how often it was found missing, or its namespace to change
	missingChecked  int         // for which of those times it is known whether the namespace is being deleted
	namespaceEnding bool        // whether it is, or is gone
	inListing       bool        // whether the object was in the listing
	listed          bool        // whether a whole listing was, or will never be
	hasOwnRecord    bool        // whether our record is in the newest state
	renewedAt       time.Time   // when our record was last written with success; zero if never
	writeErr        error       // why the last attempt to write it has failed, nil if it has not, or there is no object
	lapsed          bool        // whether we pause because our record counts as dead, or may
	expiryTimer     *time.Timer // checks that when our record is about to expire
	peers           map[string]peerrecord.Peer
	alive           int64             // others, as they were last counted
	blockers        string            // for whom we pause
	warnedVersion   string            // the last state of the object that has the same priority in it, and was warned of
	broken          map[string]string // records that we have warned of
	expired         []string          // whose records are to be removed from the newest state
	attemptedAt     time.Time         // when our record was last tried to be written
	nextWrite       time.Time         // when it is to be written again
	looked          chan struct{}     // closed when an attempt has ended that begins from now on; nil if nothing waits for that
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
		s.log.Error("Removing our record from the peering object failed; the record will expire", s.attrs("error", err)...)
	}
}

// standbyInterval is how often a replica that stands by looks whether anything is due, without being woken.
const standbyInterval = time.Minute

// attrs returns the attributes of a log line about the peering object: where that is, and more.
func (s *peerSession) attrs(more ...any) []any {
	attrs := []any{"peering", s.settings.Peering.Name, "resource", s.resource.Name()}
	if s.namespace != "" {
		attrs = append(attrs, "namespace", s.namespace)
	}
	return append(attrs, more...)
}

// step does what is due, or waits until something is.
func (s *peerSession) step(ctx context.Context) {
	s.mu.Lock()
	seen, doubtful := s.missingSeen, s.missingSeen != s.missingChecked
	wait, expired := time.Until(s.nextWrite), len(s.expired) > 0
	s.mu.Unlock()
	if !s.leader.holds() { // the other replica writes
		wait, expired = standbyInterval, false
	}
	switch {
	case doubtful:
		s.checkNamespace(ctx, seen)
	case wait <= 0:
		s.keepAlive(ctx)
	case expired:
		s.removeExpired(ctx)
	default:
		timer := time.NewTimer(wait)
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
	sent, seen, looked := time.Now(), s.body, s.looked
	s.looked = nil
	s.attemptedAt, s.nextWrite = sent, sent.Add(peerrecord.Interval(settings.Lifetime)) // which an event can bring forward before the answer is there
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
	missing := StatusCode(err) == http.StatusNotFound
	s.logWrite(err, missing)
	s.mu.Lock()
	if s.writeErr = err; missing {
		s.writeErr = nil
	}
	if err == nil {
		s.renewLocked(sent)
		if s.body == seen {
			s.forgetVersionLocked() // the answer is newer, because nothing else has been seen since it was asked for
		}
	} else if transient(err) {
		s.rescheduleLocked(sent.Add(max(2*time.Second, retryAfterOf(err))))
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		s.evaluate(body)
	case missing:
		s.setMissing("", true)
	case transient(err):
		s.checkExpiry()
	default:
		s.evaluate(nil) // there will be no event that tells of a record that has expired
	}
}

// logWrite logs how it went to write the own record, and a trouble only once.
func (s *peerSession) logWrite(err error, missing bool) {
	s.mu.Lock()
	first := s.writeErr == nil
	s.mu.Unlock()
	switch failing := err != nil && !missing; {
	case failing && first:
		s.log.Warn("Writing our record to the peering object failed; retrying", s.attrs("error", err)...)
	case failing, err == nil && s.settings.Peering.Stealth:
	default:
		result := "ok"
		if err != nil {
			result = "not found"
		}
		s.log.Debug("Keep-alive in "+s.name+".", "result", result)
	}
}

// uncertain reports whether a request that has failed may have been carried out.
func uncertain(err error) bool {
	return StatusCode(err) == 0 || StatusCode(err) >= 500 && !isDenied(err)
}

// transient reports whether the server may well take the same request soon.
func transient(err error) bool {
	return uncertain(err) || StatusCode(err) == http.StatusTooManyRequests && !isDenied(err)
}

// renewLocked notes that the own record was written, and has its death noticed in time.
func (s *peerSession) renewLocked(sent time.Time) {
	s.renewedAt = sent
	wait := time.Until(s.lapseTimeLocked())
	if s.settings.Peering.Lifetime <= 0 || s.sessionCtx.Err() != nil {
		return
	}
	if s.expiryTimer == nil {
		s.expiryTimer = time.AfterFunc(wait, s.checkExpiry)
	} else {
		s.expiryTimer.Reset(wait)
	}
}

// lapseTimeLocked returns when the operator ceases to work unless its record is renewed before.
func (s *peerSession) lapseTimeLocked() time.Time {
	return s.renewedAt.Add(peerrecord.SafeLifetime(s.settings.Peering.Lifetime))
}

// lapsedLocked reports whether our record counts as dead for the others, or will at any moment, although there is an object for it. An
// operator that was never allowed to write one works without, as those without the permission to watch the peers do.
func (s *peerSession) lapsedLocked() bool {
	switch known := !s.renewedAt.IsZero(); {
	case s.body == nil || s.settings.Peering.Lifetime <= 0 || !s.leader.holds():
		return false
	case known && !time.Now().Before(s.lapseTimeLocked()):
		return true
	case known && s.hasOwnRecord:
		return false
	default:
		return s.writeErr != nil && (known || transient(s.writeErr))
	}
}

// checkExpiry pauses the operator if its record has expired.
func (s *peerSession) checkExpiry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyLocked()
}

// removeExpired removes the expired records, unless one of them has shown a sign of life meanwhile: then the object has another version.
func (s *peerSession) removeExpired(ctx context.Context) {
	version, records := "", make(map[string]any)
	s.mu.Lock()
	for _, id := range s.expired {
		records[id] = nil
	}
	if s.expired = nil; s.body != nil {
		version = s.body.version
	}
	s.mu.Unlock()
	body, err := s.write(ctx, version, records)
	code := StatusCode(err)
	if err == nil {
		s.evaluate(body)
	} else if ctx.Err() == nil && code != http.StatusNotFound && code != http.StatusConflict {
		s.log.Warn("Removing the records of dead operators failed", s.attrs("error", err)...)
	}
}

// checkNamespace asks whether the namespace of a missing object is being deleted, or gone: nothing can be missed there.
func (s *peerSession) checkNamespace(ctx context.Context, seen int) {
	ending, err := false, error(nil)
	if s.namespace != "" && s.settings.Peering.Mandatory {
		ending, err = s.namespaceDeleted(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missingChecked, s.namespaceEnding = seen, ending
	switch {
	case s.missingChecked != s.missingSeen, ctx.Err() != nil:
		return // it is asked again
	case s.body != nil: // it is not missing any more, and what it says has waited for this answer
		s.applyLocked()
		return
	}
	if err != nil && transient(err) {
		s.rescheduleLocked(time.Now().Add(2 * time.Second))
	}
	if s.settings.Peering.Mandatory && !ending {
		s.log.Warn("Pausing, because the mandatory peering object does not exist or cannot be read", s.attrs()...)
	}
	s.applyLocked()
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
	if ev.Type == Deleted {
		h.s.setMissing(ev.Body.version, true)
		return
	}
	h.s.mu.Lock()
	h.s.inListing = true
	h.s.mu.Unlock()
	h.s.evaluate(ev.Body)
}

func (h *peersHandler) onListed() {
	h.s.mu.Lock()
	shown := h.s.inListing
	h.s.listed = true
	h.s.mu.Unlock()
	if !shown {
		h.s.setMissing("", true)
	} else {
		h.s.evaluate(nil)
	}
}

func (h *peersHandler) onRestored() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.forgetVersionLocked()
}

func (h *peersHandler) onStatus(err error) { h.s.watchFailed(err) }

// forgetVersionLocked has the next state that is seen taken for the newest one, whatever its version: the API server may have an older history now.
func (s *peerSession) forgetVersionLocked() {
	if s.body != nil {
		body := *s.body
		body.version = ""
		s.body = &body
	}
}

// watchFailed decides what becomes of a session whose object cannot be watched. Operators whose peering is not mandatory go on without it.
func (s *peerSession) watchFailed(err error) {
	if login := (*LoginError)(nil); errors.As(err, &login) {
		s.operator.end(err)
	}
	if code := StatusCode(err); code == http.StatusForbidden || code == http.StatusNotFound {
		s.mu.Lock()
		first := !s.listed
		s.listed = true
		s.mu.Unlock()
		if first {
			s.log.Warn("Watching the peering objects failed; working as without peers", s.attrs("error", err)...)
			s.setMissing("", false)
		}
	}
}

// setMissing notes that there is no peering object. Without it, no operator has peers; if it is mandatory, there is nothing to do but to wait, unless
// the namespace is being deleted. The version is that of the deletion, if it is known; gone means that it is not merely unseen.
func (s *peerSession) setMissing(version string, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.body != nil && s.body.version != version && apirequest.NewerVersion(s.body.version, version) {
		return // an answer was quicker than the stream, and has shown the next object of the name
	}
	if s.body != nil && gone && !s.settings.Peering.Mandatory {
		s.log.Warn("The peering object has been deleted; working as without peers until it exists again", s.attrs()...)
	}
	clear(s.peers)
	s.body, s.expired, s.hasOwnRecord, s.renewedAt = nil, nil, false, time.Time{}
	s.countLocked(0)
	if s.settings.Peering.Mandatory {
		s.blockers = ""
		s.recheckLocked()
		return
	}
	if s.blockers != "" {
		s.log.Info("Resuming operations after the pause.")
	}
	s.blockers = ""
	s.applyLocked()
}

// recheckLocked has the goroutine of the session find out whether the namespace of the missing object is being deleted. Until that is known, all is as it was.
func (s *peerSession) recheckLocked() {
	if s.body == nil && s.settings.Peering.Mandatory {
		s.missingSeen++
		s.wake()
	}
}

// evaluate looks at a newer state of the peering object, or, if that is nil, again at the one known.
func (s *peerSession) evaluate(body *Body) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.body == nil
	if body == nil {
		body = s.body
	} else if s.body != nil && apirequest.NewerVersion(s.body.version, body.version) { // an answer was quicker than the stream, or the other way around
		s.applyLocked()
		return
	}
	if s.body = body; body == nil {
		return
	}
	now, own := time.Now(), false
	var higher, same []string
	var expiry time.Time // of the last of their records
	s.expired = nil
	known, broken := s.peers, s.broken
	s.peers, s.broken = make(map[string]peerrecord.Peer), make(map[string]string)
	status, _ := rawjson.Find(body.raw, "status")
	_ = rawjson.EachMember(status, func(quoted, raw []byte) bool { // what is no object has no records
		id := rawjson.Unquote(quoted)
		p, err := peerrecord.Read(raw)
		if err != nil {
			if s.broken[id] = p.Raw; broken[id] != p.Raw {
				s.log.Warn("Ignoring a broken record in the peering object", s.attrs("identity", id, "record", p.Raw, "error", err)...)
			}
			return true
		}
		p.Deadline = p.DeadlineAt(now, known[id], s.listed)
		s.peers[id] = p
		if id == s.identity {
			own = true
			return true
		}
		shown, priority := id+" "+p.Raw, float64(s.settings.Peering.Priority)
		switch {
		case !now.Before(p.Deadline):
			s.expired = append(s.expired, id)
			s.wake()
			return true
		case p.Priority > priority:
			higher = append(higher, shown)
		case p.Priority == priority:
			same = append(same, shown)
		default:
			return true
		}
		if p.Deadline.After(expiry) {
			expiry = p.Deadline
		}
		s.rescheduleLocked(p.Deadline)
		return true
	})
	if !own && (s.hasOwnRecord || first) && s.settings.Peering.Lifetime > 0 { // it was removed, or there was no object for it: others must not believe that we are gone
		s.rescheduleLocked(now)
	}
	s.hasOwnRecord = own
	alive := int64(0)
	for id, p := range s.peers {
		if id != s.identity && now.Before(p.Deadline) {
			alive++
		}
	}
	s.countLocked(alive)
	s.setBlockersLocked(higher, same, expiry)
}

// countLocked counts the others that live.
func (s *peerSession) countLocked(alive int64) {
	if s.sessionCtx.Err() != nil {
		alive = 0
	}
	s.meter.Add(metrics.Peers, alive-s.alive)
	s.alive = alive
}

// rescheduleLocked has the own record written at a time, if not before, but no more often than each second.
func (s *peerSession) rescheduleLocked(due time.Time) {
	if soonest := s.attemptedAt.Add(time.Second); due.Before(soonest) {
		due = soonest
	}
	if due.Before(s.nextWrite) {
		s.nextWrite = due
		s.wake()
	}
}

// wake has the goroutine of the session check what is due.
func (s *peerSession) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// hintOfPause says what ends a pause.
func (s *peerSession) hintOfPause() string {
	where := s.settings.Peering.Name
	if s.namespace != "" {
		where += " --namespace " + s.namespace
	}
	return "the pause ends when these records are removed or expire: stop the other operators, or run this one with a higher --priority, or with --standalone; " +
		"a record that an operator has left when it was killed, or that a person has left, is removed by: resume --peering " + where + " --id KEY"
}

// setBlockersLocked pauses in favor of the operators with a higher priority or the same one, or goes on without any.
func (s *peerSession) setBlockersLocked(higher, same []string, expiry time.Time) {
	blockers := strings.Join(append(higher, same...), ", ")
	attrs := s.attrs("priority", s.settings.Peering.Priority, "expiry", expiry, "hint", s.hintOfPause())
	switch {
	case len(higher) > 0:
		if s.blockers == "" {
			s.log.Info("Pausing operations in favour of "+blockers+".", attrs...)
		}
	case len(same) > 0 && s.warnedVersion != "" && s.warnedVersion == s.body.version && s.blockers == blockers:
		// That state of the object was warned of, as the answer to a request of ours or as what the stream has shown.
	case len(same) > 0:
		s.warnedVersion = s.body.version
		s.log.Warn("Possibly conflicting operators with the same priority: "+blockers+".", attrs...)
		if s.blockers == "" {
			s.log.Warn("Pausing all operators, including self: " + s.identity + ".")
		}
	case s.blockers != "":
		s.log.Info("Resuming operations after the pause. Gone are: " + s.blockers + ".")
	}
	s.blockers = blockers
	s.applyLocked()
}

// applyLocked lets the operator pause, or go on: it pauses for rivals, without its mandatory object, and without a living record.
func (s *peerSession) applyLocked() {
	if s.sessionCtx.Err() != nil {
		return
	}
	if s.missingChecked != s.missingSeen {
		return // it depends on an answer that is not there yet
	}
	lapsed := s.lapsedLocked()
	if lapsed && !s.lapsed {
		s.log.Warn("Pausing, because our record could not be renewed in time and others may take over", s.attrs("error", s.writeErr)...)
	} else if !lapsed && s.lapsed && s.body != nil {
		s.log.Info("Renewed our record in the peering object", s.attrs()...)
	}
	s.lapsed = lapsed
	s.pauser.Block(s.name, s.blockers != "" || lapsed || s.body == nil && s.settings.Peering.Mandatory && !s.namespaceEnding)
	if s.listed {
		s.setObserved()
	}
}
