package kopf

import (
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file makes objects wait while another replica leads. A standby replica tracks which objects need work. The prefilter does that with the entries of
// objects, otherwise the queue keeps the newest event. It keeps it until its own term begins, or until another replica has handled it.

// lead starts the work on the waiting objects.
func (o *observer) lead() {
	o.mu.Lock()
	queues := o.queuesLocked()
	o.mu.Unlock()
	for _, q := range queues {
		q.releaseBlocked()
	}
	if o.admission != nil {
		o.admission.lead()
	}
}

// renew rewrites the own records, because another replica may have removed them. Each channel is closed after the attempt, when the records in the response
// are evaluated. Streams may show them later.
func (p *peering) renew() (looked []<-chan struct{}) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.sessions {
		if done := k.Renew(); done != nil {
			looked = append(looked, done)
		}
	}
	return looked
}

// waitRenewed waits for the result of renew, for a limited time.
func (p *peering) waitRenewed(ctx context.Context, looked []<-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, 2*peeringTimeout)
	defer cancel()
	for _, done := range looked {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// standBy makes the objects wait for a later term.
func (o *observer) standBy() {
	o.mu.Lock()
	queues := o.queuesLocked()
	var runners []taskRunner
	for _, served := range o.resources {
		if served.reactor.daemons != nil {
			runners = append(runners, served.reactor.daemons)
		}
	}
	o.mu.Unlock()
	for _, q := range queues {
		q.standBy()
	}
	for _, d := range runners {
		d.standBy()
	}
}

// versionReading is a stream whose resource version must be read.
type versionReading struct {
	queue    *queue
	resource Resource
	from     *source
}

// readVersions records the resource version of each stream in the term with a fence. Up to that version, a late stream may lack the work of earlier leaders:
// see [queue.predates]. It retries until the term ends.
func (o *observer) readVersions(ctx context.Context, fence uint64) {
	var readings []versionReading
	o.mu.Lock()
	for _, served := range o.resources {
		for _, s := range served.streams {
			readings = append(readings, versionReading{served.reactor.queue, served.reactor.resource(), &s.source})
		}
	}
	o.mu.Unlock()
	for failures := 0; len(readings) > 0 && ctx.Err() == nil; failures++ {
		var failed []versionReading
		for _, r := range readings {
			if !o.readVersion(ctx, r, fence) {
				failed = append(failed, r)
			}
		}
		readings = failed
		if len(readings) > 0 && await.Sleep(ctx, backoffDelay(failures)) != nil {
			return
		}
	}
}

// readVersion reads the version of one resource, and reports whether it needs no retry.
func (o *observer) readVersion(ctx context.Context, r versionReading, fence uint64) (done bool) {
	page := &rawjson.ListPage{Take: func(*rawjson.Header, []byte) error { return nil }}
	pages := pager{client: o.client, path: r.resource.path(r.from.namespace, "", ""), query: url.Values{}, size: 1, page: page}
	if err := pages.next(ctx); err != nil {
		o.log.Debug("Reading the version of a resource failed; its objects are read before they are handled", "resource", r.resource.Name(), "error", err)
		return r.queue.isClosed(r.from)
	}
	if version, err := strconv.ParseUint(page.Version, 10, 64); err == nil {
		r.queue.setPredecessor(r.from, version, fence)
	}
	return true
}

func (q *queue) isClosed(from *source) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return from.closed
}

// setPredecessor records the last version of an earlier leader, for the term with a fence.
func (q *queue) setPredecessor(from *source, version, fence uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.predecessor, from.fence = version, fence
}

// predates reports whether a state may be from before the term, so that another replica may have handled it since.
func (q *queue) predates(e *entry, version string) bool {
	if q.leader == nil || !q.leader.follows.Load() {
		return false
	}
	fence := q.leader.number()
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.state.handling.readIn == fence {
		return false
	}
	number, err := strconv.ParseUint(version, 10, 64)
	from := e.namespace.from
	return err != nil || from == nil || from.fence != fence || number <= from.predecessor
}

func (o *observer) queuesLocked() (queues []*queue) {
	for _, served := range o.resources {
		queues = append(queues, served.reactor.queue)
	}
	return queues
}

// standBy makes all objects with pending work wait for the next term, with their newest states. It forgets their handlings, because another replica continues
// them from the stored state.
func (q *queue) standBy() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if e.state == nil || e.presence != present || e.state.work.working { // a worker does this itself
			continue
		}
		unindexed := len(e.state.unindexed) > 0
		if q.standByLocked(e, nil); unindexed { // indexing continues on a standby replica
			e.state.work.woken = true
			q.wakeLocked(e)
		}
	}
}

// standByLocked makes one object wait for the next term if it has pending work, such as an event.
func (q *queue) standByLocked(e *entry, events []RawEvent) {
	s := e.state
	q.stopTimerLocked(e)
	if s.live != nil {
		if live := s.live.Load(); live != nil && (s.body == nil || live.version != s.body.version) {
			s.body = live
		}
	}
	events = slices.Concat(events, s.work.events)
	if n := len(events); n > 0 {
		events = slices.Clone(events[n-1:])
	}
	s.work.events, s.work.woken = events, false
	s.work.blocked = len(events) > 0 || s.body != nil
	s.failing.Clear()
	if livepage.Included {
		q.calls.Forget(e.key)
	}
	s.handling, s.retry, s.conflict = objectHandling{lostBase: s.handling.lostBase, baseStripped: s.handling.baseStripped}, objectRetry{}, nil
	e.listed = true // for this replica, the object existed before it leads
	q.releaseLocked(e)
}

// blockForTermLocked is block for an object that waits for the next term.
func (q *queue) blockForTermLocked(e *entry, events []RawEvent, r result) bool {
	newer := len(e.state.work.events) > 0
	q.standByLocked(e, events)
	deleted := len(e.state.work.events) > 0 && e.state.work.events[0].Type == Deleted // which ends the object
	if newer || deleted || q.leader.leads() {                                         // a term has begun meanwhile
		e.state.work.woken = true
		return true
	}
	q.addAfterLocked(e, r)
	return false
}

// awaitCutOff records that the end of the term has interrupted a request, which may have succeeded. In a later term of this replica, handlers wait until the
// stream shows a newer state, or the object is read.
func (c *cycle) awaitCutOff() {
	version, err := strconv.ParseUint(c.latest().version, 10, 64)
	if timeout := c.served.persistence.ConsistencyTimeout; err == nil && timeout > 0 {
		c.entry.last.expected, c.entry.last.expectedUntil = strconv.FormatUint(version+1, 10), c.reactor.clock()+timeout
	}
}

// waitsForTermLocked reports whether an object only waits for the next term, so that a newer event can replace the waiting one.
func (q *queue) waitsForTermLocked(e *entry) bool {
	w := &e.state.work
	return !q.leader.leads() && e.presence == present && w.blocked && !w.working && !w.inBarrier && w.timer == nil && e.state.live == nil
}

// endsStandingBy reports whether an object was deleted while another replica leads, which reports that.
func (q *queue) endsStandingBy(e *entry, events []RawEvent) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	deleted := len(events) > 0 && events[len(events)-1].Type == Deleted && len(e.state.work.events) == 0
	return !q.leader.leads() && (deleted || e.presence == deletionReporting)
}

// counts reports whether an event from an epoch still counts, regardless of terms.
func (q *queue) counts(e *entry, at epoch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return at == epoch{q.pauser.Epoch(), e.served, at.term}
}

// idleAtLocked reports whether the object is idle, and no newer version of it is expected.
func (q *queue) idleAtLocked(e *entry, version string) bool {
	idle := e.presence == present && (e.state == nil || e.state.idle() || q.waitsForTermLocked(e))
	return idle && (e.last.expected == "" || apirequest.NewerVersion(version, e.last.expected))
}
