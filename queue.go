package kopf

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// This file knows which objects of one resource are there, who works on them, and when
// they are due again. An object has one worker at most: a goroutine that lives while there is something
// to do. An object at rest is a slot without a worker, and without its body.

// queue hands the events of each object to its worker, one after another.
type queue struct {
	work   func(s *slot, events []RawEvent) rest
	left   func(s *slot) // told of objects that are not served any more
	passes passes        // what the objects have to wait for; may be nil
	counts bool          // whether others wait for the objects that are listed
	limit  chan struct{} // a place for each working worker; nil for no limit
	crew   *crew         // which all queues share
	log    *slog.Logger
	meter  *metrics
	known  *resourceMetrics

	workers sync.WaitGroup // workers, and timers that are going to start one

	mu     sync.Mutex // guards following, and in all slots what is said to be the queue's
	slots  map[string]*slot
	kin    *kin              // of the newest object
	spaces map[string]string // the namespaces of all objects, so that each is there once
	closed bool
}

// passes is what all objects have to wait for.
type passes interface {
	closed() bool
	add()
	done()
}

// rest is what a worker leaves: when the object is due again, and the body to go on with then.
type rest struct {
	due    bool
	after  time.Duration
	body   *Body
	gone   bool       // whether the object is not there any more
	quiet  bool       // whether only the bout is to be forgotten then
	held   bool       // whether it has to wait until it may pass
	events []RawEvent // that wait with it
}

// within makes the object due in the given time at the latest, unless that is negative.
func (r rest) within(wait time.Duration, body *Body) rest {
	if wait < 0 {
		return r
	}
	r.quiet = false
	if !r.due || wait < r.after {
		r.due, r.after = true, wait
	}
	if r.body == nil {
		r.body = body
	}
	return r
}

// slot is one object: what is remembered of it while it is at rest, and the desk of its worker, if there is anything on that.
type slot struct {
	// What is above the desk is set once; the rest is the queue's, under its lock.
	key, namespace, name string
	kin                  *kin
	named                bool // whether the key is its uid
	listed               bool // whether it was there before the operator

	*desk             // nil while there is nothing on it
	version    string // the newest one seen
	listing    uint64 // the last listing that showed it
	round      uint64 // of the operator's work, in which the newest event came
	deleted    bool
	remembered bool // whether it was seen with a memo of the operator that had nothing in it
	unwanted   bool // whether no handler was for it when it was seen last, without a worker

	// The worker's, while there is one, and the queue's otherwise. Times are in nanoseconds since 1970.
	handled       bool   // whether a handling has ended since then
	wrote         bool   // whether the operator has changed it, and not only kept its records there
	tracked       bool   // whether the stored state was made of the fields that are tracked now
	base          uint64 // the digest of what was last stored as handled
	based         int64  // when that was
	expected      string // the version of our last patch, "" if it has come back
	expectedUntil int64
}

// kin is what most objects of a resource have in common.
type kin struct{ apiVersion, kind string }

// ref returns the reference to the object.
func (s *slot) ref() ObjectReference {
	ref := ObjectReference{APIVersion: s.kin.apiVersion, Kind: s.kin.kind, Namespace: s.namespace, Name: s.name}
	if s.named {
		ref.UID = s.key
	}
	return ref
}

// desk is what is under way with an object.
type desk struct {
	// The queue's, under its lock.
	events  []RawEvent            // not yet taken by the worker
	working bool                  // whether there is a worker
	woken   bool                  // whether it is due without an event
	held    bool                  // whether it waits until it may pass
	passing bool                  // whether the others wait for it
	lent    bool                  // whether others may hold its memory
	live    *atomic.Pointer[Body] // where those who follow the object find its newest state; nil if there are none
	timer   *time.Timer
	running HandlerID      // the handler that runs now, for messages at the exit
	news    func(RawEvent) // told each event while a handler runs that wants to know; nil if none does

	// The worker's.
	took      uint64 // the round of the events that it works on
	body      *Body  // kept only while the object is due later
	memory    memory
	halfway   bool                          // whether a handling has begun and may have left records
	unindexed map[HandlerID]*ProgressRecord // what went wrong with it in indices
	parted    bool                          // whether the handling of its deletion has ended
	released  bool                          // whether only its disappearance is awaited

	robbed      bool // whether somebody removes what is stored
	errors      int  // in a row, that were not of handlers
	pausedUntil time.Time
	overflow    uint64 // the digest of a state that was too large to be stored, 0 for none
	bout        *bout  // nil unless the object is changed again and again
	unsent      *unsent
}

// calm tells whether there is nothing on the desk.
func (d *desk) calm() bool {
	return len(d.events) == 0 && !d.working && !d.woken && !d.held && !d.passing && !d.lent && d.live == nil && d.timer == nil && d.news == nil &&
		d.body == nil && !d.memory.used() && !d.halfway && len(d.unindexed) == 0 && !d.parted && !d.released &&
		!d.robbed && d.errors == 0 && d.pausedUntil.IsZero() && d.overflow == 0 && d.bout == nil && d.unsent == nil
}

// clearLocked takes the desk of an object away if there is nothing on it.
func (s *slot) clearLocked() {
	if s.desk != nil && !s.deleted && s.calm() {
		s.remembered, s.desk = s.memory.seen, nil
	}
}

// sitLocked makes sure that the object has a desk.
func (s *slot) sitLocked() {
	if s.desk == nil {
		s.desk = &desk{memory: memory{seen: s.remembered}}
	}
}

// bout is what the operator has changed of an object again and again lately. An object that it has changed once has none.
type bout struct {
	claims map[string]uint64 // the fields, as their keys with a NUL between them, and the digests of the values that they were given
	rounds int               // in a row: changes of what was changed back since, or of what was changed only because of the change before
	last   time.Time         // when the last one was
	pause  time.Duration     // between two of them; zero while they are few
	shown  uint64            // the digest of the object as our last patch alone has left it, 0 if others have changed it as well
}

// boutWindow is how long after one another two rounds have something to do with each other.
const boutWindow = 10 * time.Second

// left returns how long it takes until there was no round for so long that it counts as the end; -1 if there is no bout.
func (b *bout) left() time.Duration {
	if b == nil {
		return -1
	}
	return max(time.Until(b.last.Add(2*b.pause+boutWindow)), 0)
}

// unsent is what could not be sent: it is sent with the next cycle instead of calling the
// handlers again.
type unsent struct {
	parts   []*part
	records map[HandlerID]*ProgressRecord
	carried *Essence // the oldest one that a finished handler has seen
	base    uint64   // the digest of the last handled state that the object had when the records were made
}

// pending returns the parts that are still to be sent.
func (s *slot) pending() []*part {
	if s.unsent == nil {
		return nil
	}
	return slices.Clone(s.unsent.parts)
}

func newQueue(limit int, log *slog.Logger, work func(*slot, []RawEvent) rest) *queue {
	q := &queue{work: work, left: func(*slot) {}, log: log, slots: make(map[string]*slot), spaces: make(map[string]string)}
	if limit > 0 {
		q.limit = make(chan struct{}, limit)
	}
	return q
}

// put adds an event, which has come in a round of the operator's work. The number of the listing is that of the stream, for events of
// type Listed. What was seen already in this round is dropped; only the newest event is kept if all are not needed.
func (q *queue) put(ev RawEvent, round, listing uint64, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	key := ev.Body.key()
	s := q.slots[key]
	if s == nil {
		if ev.Type == Deleted {
			return // nobody has known it
		}
		s = q.addLocked(key, ev.Body.Reference(), ev.Type == Listed)
		s.sitLocked()
		if s.passing = q.counts && s.listed; s.passing {
			q.passes.add()
		}
	} else if ev.Type != Deleted && newerVersion(s.version, ev.Body.version) && (s.round == round || s.version != ev.Body.version) {
		s.listing = max(s.listing, listing)
		return
	}
	s.version, s.listing = ev.Body.version, max(s.listing, listing)
	s.sitLocked()
	if s.live != nil {
		s.live.Store(ev.Body)
	}
	if !all {
		s.events = s.events[:0]
	}
	q.giveLocked(s, ev, round)
}

// addLocked adds an object.
func (q *queue) addLocked(key string, ref ObjectReference, listed bool) *slot {
	if q.kin == nil || q.kin.apiVersion != ref.APIVersion || q.kin.kind != ref.Kind {
		q.kin = &kin{ref.APIVersion, ref.Kind}
	}
	space, ok := q.spaces[ref.Namespace]
	if !ok {
		space = ref.Namespace
		q.spaces[space] = space
	}
	s := &slot{key: key, namespace: space, name: ref.Name, kin: q.kin, named: ref.UID != "", listed: listed}
	q.slots[key] = s
	q.known.known(1)
	return s
}

// giveLocked gives an event of an object to its worker.
func (q *queue) giveLocked(s *slot, ev RawEvent, round uint64) {
	s.sitLocked()
	s.unwanted = false
	s.round, s.events = round, append(s.events, ev)
	if s.news != nil {
		s.news(ev)
	}
	q.wakeLocked(s)
}

// listen has a function told of the events of an object that its worker has not taken, and of those to come, beside the one that
// is told already, until what it returns is called. The function must not wait for anything.
func (q *queue) listen(s *slot, news func(RawEvent)) (stop func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := s.news
	s.news = func(ev RawEvent) {
		news(ev)
		if before != nil {
			before(ev)
		}
	}
	for _, ev := range s.events {
		news(ev)
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		s.news = before
	}
}

// sweep makes up the deletions that happened while nobody watched: of the objects of a
// namespace, or of all, which a complete listing has not shown.
func (q *queue) sweep(namespace string, round, listing uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.slots {
		if s.listing >= listing || namespace != "" && s.namespace != namespace || q.closed {
			continue
		}
		ref := s.ref()
		body, err := NewBody(map[string]any{
			"apiVersion": ref.APIVersion, "kind": ref.Kind,
			"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace, "uid": ref.UID, "resourceVersion": s.version},
		})
		if err != nil {
			continue // strings are always JSON
		}
		q.giveLocked(s, RawEvent{Type: Deleted, Body: body}, round)
	}
}

// forget drops the objects of a namespace, or all, because they are not served any more.
func (q *queue) forget(namespace string) {
	q.mu.Lock()
	var left []*slot
	for key, s := range q.slots {
		if namespace == "" || s.namespace == namespace {
			if s.deleted = true; s.desk != nil {
				q.stopTimerLocked(s)
				s.events = nil
			}
			delete(q.slots, key)
			q.known.known(-1)
			left = append(left, s)
		}
	}
	q.mu.Unlock()
	for _, s := range left {
		q.passed(s)
		q.left(s)
	}
}

// follow gives those who follow an object a place to find its newest state.
func (q *queue) follow(s *slot, live *atomic.Pointer[Body]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.live = live
}

// settled returns an object, nil if it is not known, and whether an event of it can be taken without a worker: nothing is under way with
// the object, except that our own patch is to come back, which this may be. It also tells whether the event was seen already, which needs
// nothing more.
func (q *queue) settled(key, version []byte, round, listing uint64) (s *slot, settled, seen bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false, true
	}
	if s = q.slots[string(key)]; s == nil {
		return nil, true, false
	}
	if now := string(version); newerVersion(s.version, now) && (s.round == round || s.version != now) {
		s.listing = max(s.listing, listing)
		return s, false, true
	}
	return s, s.free(version), false
}

// free tells whether nothing is under way with the object, and no newer version of it is expected than this one. The caller holds the queue's lock.
func (s *slot) free(version []byte) bool {
	return !s.deleted && (s.desk == nil || s.calm()) && (s.expected == "" || newerVersion(string(version), s.expected))
}

// take takes the newest state of an object without a worker. The slot is nil if the object was not known. It fails if somebody else was
// quicker.
func (q *queue) take(s *slot, t EventType, ref ObjectReference, version string, round, listing uint64, change func(*slot)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.slots[ref.UID] != s || s != nil && !s.free([]byte(version)) {
		return false
	}
	if s == nil {
		s = q.addLocked(ref.UID, ref, t == Listed)
		s.remembered = true
	}
	s.version, s.listing, s.round = version, max(s.listing, listing), round
	s.expected = ""
	s.clearLocked()
	change(s)
	return true
}

// recall returns what is remembered of an object, nil if it is not known.
func (q *queue) recall(key string) *memory {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.slots[key]; s != nil {
		s.sitLocked()
		s.lent = true
		return &s.memory
	}
	return nil
}

// passed tells that the others need not wait for an object any more.
func (q *queue) passed(s *slot) {
	q.mu.Lock()
	passing := s.desk != nil && s.passing
	if passing {
		s.passing = false
	}
	q.mu.Unlock()
	if passing {
		q.passes.done()
	}
}

// release lets the objects go on that have waited until they may pass.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.slots {
		if s.desk != nil && s.held && !s.working && !q.closed {
			s.woken = true
			q.wakeLocked(s)
		}
	}
}

// wake has an object looked at again.
func (q *queue) wake(s *slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || s.deleted || q.slots[s.key] != s {
		return
	}
	s.sitLocked()
	s.woken = true
	q.wakeLocked(s)
}

// wakeLocked makes sure that a worker looks at the slot.
func (q *queue) wakeLocked(s *slot) {
	q.stopTimerLocked(s)
	if !s.working {
		s.working = true
		q.meter.waiting(1)
		q.workers.Add(1)
		q.crew.start(func() { go q.worker(s) })
	}
}

func (q *queue) stopTimerLocked(s *slot) {
	if s.timer != nil && s.timer.Stop() {
		q.workers.Done()
	}
	s.timer = nil
}

// worker does what is to be done for one object, and ends when there is nothing more.
func (q *queue) worker(s *slot) {
	defer q.workers.Done()
	defer q.crew.leave()
	defer q.meter.waiting(-1)
	for {
		if q.limit != nil {
			q.crew.leave()
			q.limit <- struct{}{}
			q.crew.enter()
		}
		r, more := q.turn(s)
		if q.limit != nil {
			<-q.limit
		}
		if !more || !q.settle(s, r) {
			return
		}
	}
}

// turn takes the events that have come and works on them. It tells whether there was something to do.
func (q *queue) turn(s *slot) (rest, bool) {
	q.mu.Lock()
	events, woken := s.events, s.woken
	s.took = s.round
	s.events, s.woken, s.held = nil, false, false
	if len(events) == 0 && !woken {
		s.working = false
		s.clearLocked()
	}
	q.mu.Unlock()
	if len(events) == 0 && !woken {
		return rest{}, false
	}
	var r rest
	err := call(func() error {
		r = q.work(s, events)
		return nil
	})
	if err != nil { // a fault of our own must neither end the operator nor forget the object
		q.note(s, "")
		q.log.Error("The processing has panicked and will be repeated.", "object", s.ref(), "error", err, "stack", string(stackOf(err)))
		if len(events) > 0 {
			s.body = events[len(events)-1].Body
		}
		r = rest{due: true, after: time.Minute, body: s.body}
	}
	return r, true
}

// settle puts the object to rest, or tells the worker to go on.
func (q *queue) settle(s *slot, r rest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.body, s.deleted = r.body, s.deleted || r.gone
	if r.held {
		s.events, s.held = append(r.events, s.events...), true
		if len(s.events) == len(r.events) && q.passes.closed() {
			q.pauseLocked(s, r)
			return false
		}
		s.woken = true
		return true
	}
	if len(s.events) > 0 || s.woken && !s.deleted { // what has ended meanwhile has no object any more
		return true
	}
	if s.deleted {
		if q.slots[s.key] == s {
			delete(q.slots, s.key)
			q.known.known(-1)
		}
	} else if r.due && r.after <= 0 && !q.closed {
		s.woken = true
		return true
	}
	q.pauseLocked(s, r)
	return false
}

// pauseLocked ends the work on an object until something happens, or its time comes.
func (q *queue) pauseLocked(s *slot, r rest) {
	s.working = false
	if !r.due || q.closed || s.deleted {
		s.clearLocked()
		return
	}
	q.workers.Add(1)
	var t *time.Timer
	t = time.AfterFunc(max(r.after, 0), func() { q.fire(s, &t, r.quiet) })
	s.timer = t
}

// fire wakes an object whose time has come.
func (q *queue) fire(s *slot, t **time.Timer, quiet bool) {
	defer q.workers.Done()
	q.mu.Lock() // which also orders the reading of the timer after its setting
	defer q.mu.Unlock()
	if s.desk == nil || s.timer != *t || q.closed || s.deleted {
		return // an event was quicker
	}
	if s.timer = nil; quiet {
		s.bout = nil
		s.clearLocked()
		return
	}
	s.woken = true
	q.wakeLocked(s)
}

// waits tells whether an event newer than a version waits for the slot's worker.
func (q *queue) waits(s *slot, version string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, ev := range s.events {
		if ev.Type == Deleted || ev.Body.version != version && newerVersion(ev.Body.version, version) {
			return true
		}
	}
	return false
}

// note tells which handler of an object runs now, "" for none. Meanwhile the worker does not count: the handler may take its time.
func (q *queue) note(s *slot, id HandlerID) {
	q.mu.Lock()
	before := s.running
	s.running = id
	q.mu.Unlock()
	switch {
	case before == "" && id != "":
		q.crew.leave()
	case before != "" && id == "":
		q.crew.enter()
	}
}

// close takes no more events, and calls off all delays. Workers go on with what they have.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, s := range q.slots {
		if s.desk != nil {
			q.stopTimerLocked(s)
		}
	}
}

// wait waits for the workers to end, until the context does. It returns the
// objects whose workers still run, with the handlers that hold them.
func (q *queue) wait(ctx context.Context) []string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.workers.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []string
	for _, s := range q.slots {
		if s.desk != nil && s.working {
			left = append(left, strings.TrimSuffix(s.ref().String()+" in handler "+string(s.running), " in handler "))
		}
	}
	return left
}
