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

// This file has the objects wait while another replica works. A replica that stands by knows of each whether anything is to be handled: by the prefilter, which takes no
// more of an object than its entry, or by keeping the newest event of the object until its term begins, or until another replica has handled it.

// lead has the objects handled that have something to be handled, as this replica knows.
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

// renew writes the own records anew, as another replica may have removed them. The channels are closed when that was tried, and the records in the answers
// were looked at, which the streams may not have shown yet.
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

// waitRenewed waits for what renew has begun, for a limited time.
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

// standBy has what is to be handled kept for a later term.
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

// versionReading is a stream whose resource's version is to be read.
type versionReading struct {
	queue    *queue
	resource Resource
	from     *source
}

// readVersions notes for each stream which version its resource has in the term with a fence. What another replica has done before can be missing in what a late stream
// brings up to that version, as [queue.predates] tells. What cannot be read is tried again, until the term ends.
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

// readVersion reads the version of one resource, and reports whether that needs no other attempt.
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

// isClosed reports whether nothing comes of a source any more.
func (q *queue) isClosed(from *source) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return from.closed
}

// setPredecessor notes up to which version another replica may have worked before the term with a fence.
func (q *queue) setPredecessor(from *source, version, fence uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.predecessor, from.fence = version, fence
}

// predates reports whether a state of an object may be from before the term, so that another replica may have handled it since.
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

// standBy has all objects wait for the next term that have something to be handled, with their newest states. What is remembered of their handlings is forgotten:
// another replica goes on with them, by what is stored.
func (q *queue) standBy() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if e.state == nil || e.presence != present || e.state.work.working { // a worker does it itself
			continue
		}
		unindexed := len(e.state.unindexed) > 0
		if q.standByLocked(e, nil); unindexed { // which goes on while this replica stands by
			e.state.work.woken = true
			q.wakeLocked(e)
		}
	}
}

// standByLocked has one object wait for the next term if anything is to be handled, such as an event.
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
	e.listed = true // for this replica, the object was there before it works
	q.releaseLocked(e)
}

// blockForTermLocked is block for an object that waits for the next term.
func (q *queue) blockForTermLocked(e *entry, events []RawEvent, r result) bool {
	newer := len(e.state.work.events) > 0
	q.standByLocked(e, events)
	deleted := len(e.state.work.events) > 0 && e.state.work.events[0].Type == Deleted // with which the object ends
	if newer || deleted || q.leader.leads() {                                         // which has begun meanwhile
		e.state.work.woken = true
		return true
	}
	q.addAfterLocked(e, r)
	return false
}

// awaitCutOff notes that a request was cut off by the end of the term, and may have been carried out: in a next term of this replica, handlers are not called for
// the state from before it, until the stream has shown a newer one, or the object was read.
func (c *cycle) awaitCutOff() {
	version, err := strconv.ParseUint(c.latest().version, 10, 64)
	if timeout := c.served.persistence.ConsistencyTimeout; err == nil && timeout > 0 {
		c.entry.last.expected, c.entry.last.expectedUntil = strconv.FormatUint(version+1, 10), c.reactor.clock()+timeout
	}
}

// waitsForTermLocked reports whether all that is to be done with an object waits for the next term, so that a newer event takes its place.
func (q *queue) waitsForTermLocked(e *entry) bool {
	w := &e.state.work
	return !q.leader.leads() && e.presence == present && w.blocked && !w.working && !w.inBarrier && w.timer == nil && e.state.live == nil
}

// endsStandingBy reports whether an object is gone while another replica works, which reports that.
func (q *queue) endsStandingBy(e *entry, events []RawEvent) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	deleted := len(events) > 0 && events[len(events)-1].Type == Deleted && len(e.state.work.events) == 0
	return !q.leader.leads() && (deleted || e.presence == deletionReporting)
}

// counts reports whether what has come of an object in an epoch still counts, also if a term has begun or ended since.
func (q *queue) counts(e *entry, at epoch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return at == epoch{q.pauser.Epoch(), e.served, at.term}
}

// idleAtLocked reports whether nothing is under way with the object, and no newer version of it is expected than this one.
func (q *queue) idleAtLocked(e *entry, version string) bool {
	idle := e.presence == present && (e.state == nil || e.state.idle() || q.waitsForTermLocked(e))
	return idle && (e.last.expected == "" || apirequest.NewerVersion(version, e.last.expected))
}
