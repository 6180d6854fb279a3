package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file lets operators give way to each other. Each one keeps a record of itself in a peering object that all of them watch;
// who sees the living record of an operator with a higher priority, or with the same one, pauses. A place is one
// such object: it has a goroutine that keeps the own record alive, and one for its stream.

// peeringGroups are the API groups of peering objects: today's and the legacy one.
var peeringGroups = []string{"kopf.dev", "zalando.org"}

// isPeering tells whether a resource is one of peering objects, in the whole cluster or in namespaces.
func isPeering(r Resource, clusterwide bool) bool {
	plural := "kopfpeerings"
	if clusterwide {
		plural = "clusterkopfpeerings"
	}
	return r.Plural == plural && r.Version == "v1" && r.Namespaced != clusterwide && slices.Contains(peeringGroups, r.Group)
}

// wholeSeconds rounds the lifetime of a record up to what the record says of it; it is zero for a record that is dead at once.
func wholeSeconds(lifetime time.Duration) time.Duration {
	return max((lifetime+time.Second-1)/time.Second, 0) * time.Second
}

// peeringRecord returns what an operator writes of itself: nil, which removes the record, if it is dead at once.
func peeringRecord(priority int, lifetime time.Duration) any {
	seconds := wholeSeconds(lifetime) / time.Second
	if seconds == 0 {
		return nil
	}
	return map[string]any{"priority": priority, "lifetime": int64(seconds), "lastseen": time.Now().UTC().Format(iso8601.Layout)}
}

// peeringTimeout limits the time of a request that writes records: a late one says what is not true any more.
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

// peer is the record of an operator.
type peer struct {
	priority float64
	lifetime time.Duration
	lastseen time.Time // zero if it does not say that
	raw      string
	deadline time.Time // when it is dead by our clock
}

// readPeer reads a record. What it does not say is the default, and fields that are not known are ignored.
func readPeer(raw []byte) (peer, error) {
	p := peer{lifetime: time.Minute, raw: string(raw)}
	if !strings.HasPrefix(p.raw, "{") {
		return p, errors.New("an object is expected")
	}
	var fault error
	number := func(value []byte) float64 {
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			fault = fmt.Errorf("a number is expected, not %s", value)
		}
		return n
	}
	err := rawjson.EachMember(raw, func(quoted, value []byte) bool {
		switch {
		case rawjson.QuotedIs(quoted, "priority"):
			p.priority = number(value)
		case rawjson.QuotedIs(quoted, "lifetime"):
			p.lifetime = time.Duration(min(max(number(value), 0), 1e9)) * time.Second
		case rawjson.QuotedIs(quoted, "lastseen") && !rawjson.IsNull(value):
			p.lastseen, fault = iso8601.Parse(rawjson.Unquote(value))
		case rawjson.QuotedIs(quoted, "identity"):
			fault = errors.New("the identity is the key of a record, and no field of it")
		}
		return fault == nil
	})
	return p, cmp.Or(fault, err)
}

// peering is what an operator has to do with its peers.
type peering struct {
	client   *Client
	settings *Settings
	log      *slog.Logger
	identity string
	pauses   *pausing
	meter    *metrics.Metrics
	fail     func(error) // told of a login that has failed for good

	ctx    context.Context // ends when the operator leaves its peers
	end    context.CancelFunc
	tasks  sync.WaitGroup
	mu     sync.Mutex // guards places
	places map[string]*peeringPlace
}

// join joins the peers; leave must be called at last. No request about peers waits for others.
func (p *peering) join(ctx context.Context) *peering {
	p.ctx, p.end = context.WithCancel(unlimited(context.WithoutCancel(ctx)))
	p.places = make(map[string]*peeringPlace)
	return p
}

// leave removes the own records, and waits until that is done.
func (p *peering) leave() {
	if p == nil {
		return
	}
	p.end()
	p.tasks.Wait()
}

// adjust takes places in the peering objects of the resources and namespaces that there are, and leaves the others.
func (p *peering) adjust(found []Resource, namespaces map[string]bool) {
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
			wanted[p.placeLocked(r, namespace)] = true
		}
	}
	if s.Mandatory && !exists {
		wanted[p.placeLocked(Resource{}, "")] = true
	}
	for name, place := range p.places {
		if !wanted[name] {
			delete(p.places, name)
			place.leave()
		}
	}
}

// reconsider has the places of a namespace find out anew whether it is being deleted.
func (p *peering) reconsider(namespace string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.places {
		if a.namespace == namespace {
			a.mu.Lock()
			a.doubtLocked()
			a.mu.Unlock()
		}
	}
}

// await waits until the peering objects of all places have been looked at: before that, nothing new shall be served.
func (p *peering) await(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	places := slices.Collect(maps.Values(p.places))
	p.mu.Unlock()
	for _, a := range places {
		select {
		case <-a.look.Done():
		case <-ctx.Done():
		}
	}
}

// placeLocked takes a place if it is not taken yet, and returns its name. Without a resource, it is a
// place to wait for one.
func (p *peering) placeLocked(r Resource, namespace string) string {
	a := &peeringPlace{peering: p, resource: r, namespace: namespace, nudged: make(chan struct{}, 1), peers: make(map[string]peer)}
	a.name = fmt.Sprintf("peering %q of %s", p.settings.Peering.Name, r.Name())
	if r.Plural == "" {
		a.name = "no resource of peering objects"
	} else if namespace != "" {
		a.name += " in " + namespace
	}
	if p.places[a.name] != nil {
		return a.name
	}
	if r.Plural == "" || p.pauses.paused() { // perhaps for a place that is about to be left, and this one has not been looked at
		p.pauses.block(a.name, true)
	}
	p.places[a.name] = a
	a.here, a.end = context.WithCancel(p.ctx)
	a.look, a.looked = context.WithCancel(a.here)
	p.tasks.Go(func() { a.run(a.here) })
	return a.name
}

// peeringPlace is an operator's place in one peering object.
type peeringPlace struct {
	*peering
	resource  Resource
	namespace string
	name      string
	here      context.Context // ends when the place is left
	end       context.CancelFunc
	look      context.Context // ends when a whole listing was judged, or the place is left
	looked    context.CancelFunc
	nudged    chan struct{} // holds a token when there is something to do before the time

	written bool // whether there may be a record of us, which is to be removed at the end; the goroutine's own

	mu      sync.Mutex  // guards following
	body    *Body       // the newest state of the object, nil if it is missing
	missed  int         // how often it was found missing, or its namespace to change
	asked   int         // for which of those times it is known whether the namespace is being deleted
	ending  bool        // whether it is, or is gone
	shown   bool        // whether the object was in the listing
	judged  bool        // whether a whole listing was, or will never be
	own     bool        // whether our record is in the newest state
	renewed time.Time   // when our record was last written with success; zero if never
	failure error       // why the last attempt to write it has failed, nil if it has not, or there is no object
	lapsed  bool        // whether we pause because our record counts as dead, or may
	expiry  *time.Timer // looks at that when our record is about to die
	peers   map[string]peer
	alive   int64             // others, as they were last counted
	rivals  string            // for whom we pause
	broken  map[string]string // records that we have warned of
	dead    []string          // whose records are to be removed from the newest state
	touched time.Time         // when our record was last tried to be written
	due     time.Time         // when it is to be written again
}

// run keeps the own record alive until the context ends, and then removes it.
func (a *peeringPlace) run(ctx context.Context) {
	if a.resource.Plural == "" {
		a.looked()
		a.lack(ctx)
		return
	}
	a.keepAlive(ctx) // so that of two operators that start at the same time, at least one sees the other
	var streams sync.WaitGroup
	streams.Go(func() { a.stream().run(ctx) })
	for ctx.Err() == nil {
		a.step(ctx)
	}
	streams.Wait()
	a.mu.Lock()
	if a.expiry != nil {
		a.expiry.Stop()
	}
	a.mu.Unlock()
	if !a.written {
		return
	}
	_, err := a.write(context.WithoutCancel(ctx), "", map[string]any{a.identity: nil})
	if err != nil && StatusCode(err) != http.StatusNotFound {
		a.log.Error("The own record could not be removed from the peering; it will expire.", "peering", a.name, "error", err)
	}
}

// step does what is due, or waits until something is.
func (a *peeringPlace) step(ctx context.Context) {
	a.mu.Lock()
	missed, doubtful := a.missed, a.missed != a.asked
	wait, dead := time.Until(a.due), len(a.dead) > 0
	a.mu.Unlock()
	switch {
	case doubtful:
		a.inquire(ctx, missed)
	case wait <= 0:
		a.keepAlive(ctx)
	case dead:
		a.bury(ctx)
	default:
		timer := time.NewTimer(wait)
		select {
		case <-a.nudged:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// leave leaves the place, and takes back what was decided there.
func (a *peeringPlace) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
	a.countLocked(0)
	a.pauses.block(a.name, false)
}

// lack says, from time to time, what the operator waits for.
func (a *peeringPlace) lack(ctx context.Context) {
	for {
		a.log.Warn(fmt.Sprintf("The operator pauses, as there is no resource of the mandatory peering %q.", a.settings.Peering.Name))
		if sleep(ctx, time.Minute) != nil {
			return
		}
	}
}

func (a *peeringPlace) write(ctx context.Context, version string, records map[string]any) (*Body, error) {
	return writePeering(ctx, a.client, a.resource, a.namespace, a.settings.Peering.Name, version, records)
}

// keepAlive writes the own record, and looks at those of the others in the answer.
func (a *peeringPlace) keepAlive(ctx context.Context) {
	s := &a.settings.Peering
	a.mu.Lock()
	sent, seen := time.Now(), a.body
	a.touched, a.due = sent, sent.Add(s.interval()) // which an event can hasten before the answer is there
	a.mu.Unlock()
	body, err := a.write(ctx, "", map[string]any{a.identity: peeringRecord(s.Priority, s.Lifetime)})
	if err == nil {
		a.written = s.Lifetime > 0
	} else if uncertain(err) {
		a.written = true // perhaps
	}
	if ctx.Err() != nil {
		return
	}
	missing := StatusCode(err) == http.StatusNotFound
	a.tellWritten(err, missing)
	a.mu.Lock()
	if a.failure = err; missing {
		a.failure = nil
	}
	if err == nil {
		a.renewLocked(sent)
		if a.body == seen {
			a.distrustLocked() // the answer is newer, because nothing else has been seen since it was asked for
		}
	} else if transient(err) {
		a.hastenLocked(sent.Add(max(2*time.Second, retryAfterOf(err))))
	}
	a.mu.Unlock()
	switch {
	case err == nil:
		a.judge(body)
	case missing:
		a.miss("", true)
	case transient(err):
		a.expire()
	default:
		a.judge(nil) // there will be no event that tells of a record that has expired
	}
}

// tellWritten logs how it went to write the own record, and a trouble only once.
func (a *peeringPlace) tellWritten(err error, missing bool) {
	a.mu.Lock()
	first := a.failure == nil
	a.mu.Unlock()
	switch failing := err != nil && !missing; {
	case failing && first:
		a.log.Warn("The own record could not be written; trying again.", "peering", a.name, "error", err)
	case failing, err == nil && a.settings.Peering.Stealth:
	default:
		result := "ok"
		if err != nil {
			result = "not found"
		}
		a.log.Debug("Keep-alive in "+a.name+".", "result", result)
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

// interval is how long to wait until the own record is written again, with some jitter.
func (s *PeeringSettings) interval() time.Duration {
	lifetime, jitter := wholeSeconds(s.Lifetime), time.Duration(5+rand.IntN(6))*time.Second
	if lifetime == time.Second {
		return lifetime / 2
	}
	return max(min(lifetime, max(lifetime-jitter, time.Second)), time.Second)
}

// reserve is how long before the death of its record an operator ceases to work: others must not find it dead before.
func (s *PeeringSettings) reserve() time.Duration {
	return min(time.Second, wholeSeconds(s.Lifetime)/10)
}

// renewLocked notes that the own record was written, and has its death noticed in time.
func (a *peeringPlace) renewLocked(sent time.Time) {
	a.renewed = sent
	wait := time.Until(a.lapsesLocked())
	if a.settings.Peering.Lifetime <= 0 || a.here.Err() != nil {
		return
	}
	if a.expiry == nil {
		a.expiry = time.AfterFunc(wait, a.expire)
	} else {
		a.expiry.Reset(wait)
	}
}

// lapsesLocked returns when the operator ceases to work unless its record is renewed before.
func (a *peeringPlace) lapsesLocked() time.Time {
	s := &a.settings.Peering
	return a.renewed.Add(wholeSeconds(s.Lifetime) - s.reserve())
}

// lapsedLocked reports whether our record counts as dead for the others, or will at any moment, although there is an object for it. Who
// was never allowed to write one works without, as others without the right to look at the peers do.
func (a *peeringPlace) lapsedLocked() bool {
	switch known := !a.renewed.IsZero(); {
	case a.body == nil || a.settings.Peering.Lifetime <= 0:
		return false
	case known && !time.Now().Before(a.lapsesLocked()):
		return true
	case known && a.own:
		return false
	default:
		return a.failure != nil && (known || transient(a.failure))
	}
}

// expire looks whether our record counts as dead by now.
func (a *peeringPlace) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decideLocked()
}

// bury removes the records of the dead, unless one of them has shown a sign of life meanwhile: then the object has another version.
func (a *peeringPlace) bury(ctx context.Context) {
	version, records := "", make(map[string]any)
	a.mu.Lock()
	for _, id := range a.dead {
		records[id] = nil
	}
	if a.dead = nil; a.body != nil {
		version = a.body.version
	}
	a.mu.Unlock()
	body, err := a.write(ctx, version, records)
	code := StatusCode(err)
	if err == nil {
		a.judge(body)
	} else if ctx.Err() == nil && code != http.StatusNotFound && code != http.StatusConflict {
		a.log.Warn("The records of dead operators could not be removed.", "peering", a.name, "error", err)
	}
}

// inquire asks whether the namespace of a missing object is being deleted, or gone: nothing can be missed there.
func (a *peeringPlace) inquire(ctx context.Context, missed int) {
	ending, err := false, error(nil)
	if a.namespace != "" && a.settings.Peering.Mandatory {
		ending, err = a.namespaceEnds(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.ending = missed, ending
	switch {
	case a.asked != a.missed, ctx.Err() != nil:
		return // it is asked again
	case a.body != nil: // it is not missing any more, and what it says has waited for this answer
		a.decideLocked()
		return
	}
	if err != nil && transient(err) {
		a.hastenLocked(time.Now().Add(2 * time.Second))
	}
	if a.settings.Peering.Mandatory && !ending {
		a.log.Warn("The operator pauses, as it cannot see the mandatory object: " + a.name + ".")
	}
	a.decideLocked()
}

// namespaceEnds asks the server whether the place's namespace is being deleted, or gone. It needs the right to list namespaces, which operators of
// namespaces may have anyway, or to get that one.
func (a *peeringPlace) namespaceEnds(ctx context.Context) (ends bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, peeringTimeout, fmt.Errorf("no answer in %s", peeringTimeout))
	defer cancel()
	r := request{method: http.MethodGet, path: "/api/v1/namespaces", once: true}
	list := r
	list.query = url.Values{"fieldSelector": {"metadata.name=" + a.namespace}}
	answer, err := a.client.body(ctx, &list)
	if StatusCode(err) == http.StatusForbidden {
		r.path += "/" + url.PathEscape(a.namespace)
		answer, err = a.client.body(ctx, &r)
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

// stream makes the stream of the peering objects of the place's resource, of which one is ours.
func (a *peeringPlace) stream() *stream {
	return &stream{
		client: a.client, resource: a.resource, namespace: a.namespace, settings: &a.settings.Watching, logger: a.log,
		listing: func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.shown = false
		},
		event: func(ev RawEvent) {
			if ev.Body.name != a.settings.Peering.Name {
				return
			}
			if ev.Type == Deleted {
				a.miss(ev.Body.version, true)
				return
			}
			a.mu.Lock()
			a.shown = true
			a.mu.Unlock()
			a.judge(ev.Body)
		},
		listed: func() {
			a.mu.Lock()
			shown := a.shown
			a.judged = true
			a.mu.Unlock()
			if !shown {
				a.miss("", true)
			} else {
				a.judge(nil)
			}
		},
		restored: func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.distrustLocked()
		},
		failed: a.failed,
	}
}

// distrustLocked has the next state that is seen taken for the newest one, whatever its version: the API server may have an older history now.
func (a *peeringPlace) distrustLocked() {
	if a.body != nil {
		body := *a.body
		body.version = ""
		a.body = &body
	}
}

// failed decides what becomes of a place that cannot be watched. Those who need not have peers go on without them.
func (a *peeringPlace) failed(err error) {
	if login := (*LoginError)(nil); errors.As(err, &login) {
		a.fail(err)
	}
	if code := StatusCode(err); code == http.StatusForbidden || code == http.StatusNotFound {
		a.mu.Lock()
		first := !a.judged
		a.judged = true
		a.mu.Unlock()
		if first {
			a.log.Warn("The peering objects cannot be watched, and so peers cannot be noticed.", "peering", a.name, "error", err)
			a.miss("", false)
		}
	}
}

// miss notes that there is no peering object. Without it, no operator has peers; if it is mandatory, there is nothing to do but to wait, unless
// the namespace is being deleted. The version is that of the deletion, if it is known; gone tells that it is not merely unseen.
func (a *peeringPlace) miss(version string, gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.body != nil && a.body.version != version && newerVersion(a.body.version, version) {
		return // an answer was quicker than the stream, and has shown the next object of the name
	}
	if a.body != nil && gone && !a.settings.Peering.Mandatory {
		a.log.Warn("The peering object has been deleted: peers cannot be noticed until there is one again.", "peering", a.name)
	}
	clear(a.peers)
	a.body, a.dead, a.own, a.renewed = nil, nil, false, time.Time{}
	a.countLocked(0)
	if a.settings.Peering.Mandatory {
		a.rivals = ""
		a.doubtLocked()
		return
	}
	if a.rivals != "" {
		a.log.Info("Resuming operations after the pause.")
	}
	a.rivals = ""
	a.decideLocked()
}

// doubtLocked has the goroutine of the place find out whether the namespace of the missing object is being deleted. Until that is known, all is as it was.
func (a *peeringPlace) doubtLocked() {
	if a.body == nil && a.settings.Peering.Mandatory {
		a.missed++
		a.nudge()
	}
}

// judge looks at a newer state of the peering object, or, if that is nil, again at the one known.
func (a *peeringPlace) judge(body *Body) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := a.body == nil
	if body == nil {
		body = a.body
	} else if a.body != nil && newerVersion(a.body.version, body.version) { // an answer was quicker than the stream, or the other way around
		a.decideLocked()
		return
	}
	if a.body = body; body == nil {
		return
	}
	now, own := time.Now(), false
	var higher, same []string
	a.dead = nil
	known, broken := a.peers, a.broken
	a.peers, a.broken = make(map[string]peer), make(map[string]string)
	status, _ := rawjson.Find(body.raw, "status")
	_ = rawjson.EachMember(status, func(quoted, raw []byte) bool { // what is no object has no records
		id := rawjson.Unquote(quoted)
		p, err := readPeer(raw)
		if err != nil {
			if a.broken[id] = p.raw; broken[id] != p.raw {
				a.log.Warn("Ignoring a broken record in the "+a.name+".", "identity", id, "record", p.raw, "error", err)
			}
			return true
		}
		p.deadline = a.deadlineLocked(p, known[id], now)
		a.peers[id] = p
		if id == a.identity {
			own = true
			return true
		}
		shown, priority := id+" "+p.raw, float64(a.settings.Peering.Priority)
		switch {
		case !now.Before(p.deadline):
			a.dead = append(a.dead, id)
			a.nudge()
			return true
		case p.priority > priority:
			higher = append(higher, shown)
		case p.priority == priority:
			same = append(same, shown)
		default:
			return true
		}
		a.hastenLocked(p.deadline)
		return true
	})
	if !own && (a.own || first) && a.settings.Peering.Lifetime > 0 { // it was removed, or there was no place for it: others must not believe that we are gone
		a.hastenLocked(now)
	}
	a.own = own
	alive := int64(0)
	for id, p := range a.peers {
		if id != a.identity && now.Before(p.deadline) {
			alive++
		}
	}
	a.countLocked(alive)
	a.concludeLocked(higher, same)
}

// countLocked counts the others that live.
func (a *peeringPlace) countLocked(alive int64) {
	if a.here.Err() != nil {
		alive = 0
	}
	a.meter.Add(metrics.Peers, alive-a.alive)
	a.alive = alive
}

// deadlineLocked tells when a record is dead. A record that we have seen coming counts from then on, however wrong the clock of its operator
// may be; of the others we know only what they say, but no record lives longer than it says from when it was first seen.
func (a *peeringPlace) deadlineLocked(p, known peer, now time.Time) time.Time {
	switch latest := now.Add(p.lifetime); {
	case p.lastseen.IsZero():
		return latest
	case known.raw == p.raw:
		return known.deadline
	case a.judged || p.lastseen.After(now):
		return latest
	default:
		return p.lastseen.Add(p.lifetime)
	}
}

// hastenLocked has the own record written at a time, if not before, but no more often than each second.
func (a *peeringPlace) hastenLocked(due time.Time) {
	if soonest := a.touched.Add(time.Second); due.Before(soonest) {
		due = soonest
	}
	if due.Before(a.due) {
		a.due = due
		a.nudge()
	}
}

// nudge has the goroutine of the place look what is to be done.
func (a *peeringPlace) nudge() {
	select {
	case a.nudged <- struct{}{}:
	default:
	}
}

// concludeLocked pauses in favour of the operators with a higher priority or the same one, or goes on without any.
func (a *peeringPlace) concludeLocked(higher, same []string) {
	rivals := strings.Join(append(higher, same...), ", ")
	switch {
	case len(higher) > 0:
		if a.rivals == "" {
			a.log.Info("Pausing operations in favour of " + rivals + ".")
		}
	case len(same) > 0:
		a.log.Warn("Possibly conflicting operators with the same priority: " + rivals + ".")
		if a.rivals == "" {
			a.log.Warn("Pausing all operators, including self: " + a.identity + ".")
		}
	case a.rivals != "":
		a.log.Info("Resuming operations after the pause. Gone are: " + a.rivals + ".")
	}
	a.rivals = rivals
	a.decideLocked()
}

// decideLocked lets the operator pause, or go on: it pauses for rivals, without its mandatory object, and without a living record.
func (a *peeringPlace) decideLocked() {
	if a.here.Err() != nil {
		return
	}
	if a.asked != a.missed {
		return // it depends on an answer that is not there yet
	}
	lapsed := a.lapsedLocked()
	if lapsed && !a.lapsed {
		a.log.Warn("The operator pauses, as its own record could not be renewed in time: others may take its work over.", "peering", a.name, "error", a.failure)
	} else if !lapsed && a.lapsed && a.body != nil {
		a.log.Info("The own record has been renewed.", "peering", a.name)
	}
	a.lapsed = lapsed
	a.pauses.block(a.name, a.rivals != "" || lapsed || a.body == nil && a.settings.Peering.Mandatory && !a.ending)
	if a.judged {
		a.looked()
	}
}
