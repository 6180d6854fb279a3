package kopf

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/metrics"
)

// This file knows which objects of one resource are there, who works on them, and when
// they are due again. An object has one worker at most: a goroutine that lives while there is something
// to do. An idle object is an entry without a worker, and without its body.

// queue hands the events of each object to its worker, one after another.
type queue struct {
	work        func(s *entry, events []RawEvent) rest
	left        func(s *entry) // told of objects that are not served any more
	passes      passes         // what the objects have to wait for; may be nil
	counts      bool           // whether others wait for the objects that are listed
	limit       chan struct{}  // a place for each working worker; nil for no limit
	workerLimit *workerLimit   // which all queues share
	log         *slog.Logger
	meter       *metrics.Metrics
	known       *metrics.Resource

	workers sync.WaitGroup // workers, and timers that are going to start one

	mu         sync.Mutex // guards following, and the fields of all entries that belong to the queue
	entries    map[string]*entry
	typeMeta   *typeMeta             // of the newest object
	namespaces map[string]*namespace // of all objects
	absent     map[string]absentee   // by the keys of objects that were forgotten, and of which something is still to be done
	listings   uint64                // that were begun
	closed     bool
}

// namespace is one that there are objects in, so that its name is there once.
type namespace struct {
	name    string
	objects int
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
	quiet  bool       // whether only the write conflict is to be forgotten then
	untold bool       // whether its deletion was not told, because the operator pauses
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

// entry is one object: what is remembered of it while it is idle, and its state while it is active.
type entry struct {
	// What is above the state is set once; the rest is the queue's, under its lock.
	key, name string
	in        *namespace
	typeMeta  *typeMeta
	named     bool // whether the key is its uid
	listed    bool // whether it was there before the operator

	*objectState        // nil while there is nothing on it
	version      string // the newest one seen
	listing      uint64 // the last listing that showed it
	round        uint64 // of the operator's work, in which the newest event came
	presence     presence
	remembered   bool // whether it was seen with a memo of the operator that had nothing in it
	unwanted     bool // whether no handler was for it when it was seen last, without a worker

	// The worker's, while there is one, and the queue's otherwise. Times are in nanoseconds since 1970.
	handled       bool          // whether a handling has ended since then
	wrote         bool          // whether the operator has changed it, and not only kept its records there
	tracked       bool          // whether the stored state was made of the fields that are tracked now
	base          uint64        // the digest of what was last stored as handled
	based         time.Duration // when that was, by the reactor's clock
	expected      string        // the version of our last patch, "" if it has come back
	expectedUntil time.Duration // by the reactor's clock
}

// presence tells whether an object is there to be worked on.
type presence uint8

const (
	present   presence = iota
	unserved           // forgotten while its worker was at it: nothing is begun for it, and its next event makes it present again
	ending             // forgotten, and gone since: its worker is to tell only that
	reporting          // the same while the worker tells it
	gone               // deleted, or forgotten without a worker: it is in no queue any more when its worker ends
)

// typeMeta is what most objects of a resource have in common.
type typeMeta struct{ apiVersion, kind string }

// ref returns the reference to the object.
func (s *entry) ref() ObjectReference {
	ref := ObjectReference{APIVersion: s.typeMeta.apiVersion, Kind: s.typeMeta.kind, Namespace: s.in.name, Name: s.name}
	if s.named {
		ref.UID = s.key
	}
	return ref
}

// objectState is what is under way with an object.
type objectState struct {
	// The queue's, under its lock.
	events     []RawEvent            // not yet taken by the worker
	working    bool                  // whether there is a worker
	woken      bool                  // whether it is due without an event
	held       bool                  // whether it waits until it may pass
	passing    bool                  // whether the others wait for it
	memoShared bool                  // whether others may hold its memory
	live       *atomic.Pointer[Body] // where those who follow the object find its newest state; nil if there are none
	timer      *time.Timer
	running    HandlerID     // the handler that runs now, for messages at the exit
	arrived    chan struct{} // closed when an event comes; nil if no handler that runs wants to know
	deleted    bool          // whether the newest event says that it is gone; false again if its worker could not tell that

	// The worker's.
	took          uint64 // the round of the events that it works on
	body          *Body  // kept only while the object is due later
	memory        memory
	inProgress    bool                          // whether a handling has begun and may have left records
	unindexed     map[HandlerID]*ProgressRecord // what went wrong with it in indices
	deleteHandled bool                          // whether the handling of its deletion has ended
	goneVersion   string                        // the version with which it was gone, or only its disappearance is awaited; "" otherwise

	deleting     bool // whether an event has said that it is being deleted
	baseStripped bool // whether another client removes what is stored
	errors       int  // in a row, that were not of handlers
	conflicts    int  // in a row, of our patches with changes by others
	pausedUntil  time.Time
	overflow     uint64         // the digest of a state that was too large to be stored, 0 for none
	conflict     *writeConflict // nil unless the object is changed again and again
	unsent       *unsent
	seen         *handlingState // by the finished handlers of the handling under way
}

// idle reports whether nothing is under way with the object.
func (d *objectState) idle() bool {
	return len(d.events) == 0 && !d.working && !d.woken && !d.held && !d.passing && !d.memoShared && d.live == nil && d.timer == nil && d.arrived == nil &&
		d.body == nil && !d.memory.used() && !d.inProgress && len(d.unindexed) == 0 && !d.deleteHandled && d.goneVersion == "" &&
		!d.baseStripped && d.errors+d.conflicts == 0 && d.pausedUntil.IsZero() && d.overflow == 0 && d.conflict == nil && d.unsent == nil && d.seen == nil
}

// releaseIdleLocked drops the state of an object with which nothing is under way.
func (s *entry) releaseIdleLocked() {
	if s.objectState != nil && s.presence == present && s.idle() {
		s.remembered, s.objectState = s.memory.seen, nil
	}
}

// activateLocked makes sure that the object has a state.
func (s *entry) activateLocked() {
	if s.objectState == nil {
		s.objectState = &objectState{memory: memory{seen: s.remembered}}
	}
}

// writeConflict is what the operator has changed of an object again and again lately. An object that it has changed once has none.
type writeConflict struct {
	claims map[string]uint64 // the fields, as their keys with a NUL between them, and the digests of the values that they were given
	rounds int               // in a row: changes of what was changed back since, or of what was changed only because of the change before
	last   time.Time         // when the last one was
	pause  time.Duration     // between two of them; zero while they are few
	shown  uint64            // the digest of the object as our last patch alone has left it, 0 if others have changed it as well
}

// conflictWindow is how long after one another two rounds have something to do with each other.
const conflictWindow = 10 * time.Second

// left returns how long it takes until there was no round for so long that it counts as the end; -1 if there is no write conflict.
func (b *writeConflict) left() time.Duration {
	if b == nil {
		return -1
	}
	return max(time.Until(b.last.Add(2*b.pause+conflictWindow)), 0)
}

// unsent is what could not be sent: it is sent with the next cycle instead of calling the
// handlers again.
type unsent struct {
	parts     []*part
	succeeded []HandlerID // whose success is to be logged
	records   map[HandlerID]*ProgressRecord
	base      uint64 // the digest of the last handled state that the object had when the records were made
}

// pending returns the parts that are still to be sent.
func (s *entry) pending() []*part {
	if s.unsent == nil {
		return nil
	}
	return slices.Clone(s.unsent.parts)
}

func newQueue(limit int, log *slog.Logger, work func(*entry, []RawEvent) rest) *queue {
	q := &queue{work: work, left: func(*entry) {}, log: log, entries: make(map[string]*entry), namespaces: make(map[string]*namespace), absent: make(map[string]absentee)}
	if limit > 0 {
		q.limit = make(chan struct{}, limit)
	}
	return q
}

// put adds an event of a source, which has come in a round of the operator's work. What was seen already in this round is dropped; only
// the newest event is kept if all are not needed.
func (q *queue) put(ev RawEvent, from *source, round uint64, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || from.closed {
		return
	}
	listing := from.listing
	key := ev.Body.key()
	s := q.entries[key]
	if s == nil {
		if ev.Type == Deleted {
			return // it is not known, or the listing has already reported its deletion
		}
		s = q.addLocked(key, ev.Body.Reference(), ev.Type == Listed)
		s.activateLocked()
		if s.passing = q.counts && s.listed; s.passing {
			q.passes.add()
		}
	} else if s.presence != present { // it is served again, before its worker has ended
		s.presence = present
		delete(q.absent, key)
		q.known.Add(metrics.Objects, 1)
	} else if ev.Type != Deleted && newerVersion(s.version, ev.Body.version) && (s.round == round || s.version != ev.Body.version) {
		s.listing = max(s.listing, listing)
		return
	}
	s.version, s.listing = ev.Body.version, max(s.listing, listing)
	s.activateLocked()
	if s.live != nil {
		s.live.Store(ev.Body)
	}
	if !all {
		s.events = s.events[:0]
	}
	q.giveLocked(s, ev, round)
}

// addLocked adds an object.
func (q *queue) addLocked(key string, ref ObjectReference, listed bool) *entry {
	if q.typeMeta == nil || q.typeMeta.apiVersion != ref.APIVersion || q.typeMeta.kind != ref.Kind {
		q.typeMeta = &typeMeta{ref.APIVersion, ref.Kind}
	}
	in := q.namespaces[ref.Namespace]
	if in == nil {
		in = &namespace{name: ref.Namespace}
		q.namespaces[ref.Namespace] = in
	}
	in.objects++
	s := &entry{key: key, in: in, name: ref.Name, typeMeta: q.typeMeta, named: ref.UID != "", listed: listed}
	q.entries[key] = s
	q.known.Add(metrics.Objects, 1)
	if was, ok := q.absent[key]; ok {
		delete(q.absent, key)
		s.takeUp(was)
	}
	return s
}

// dismissLocked notes that an object is not to be worked on any more, and takes it away as soon as it has no worker.
func (q *queue) dismissLocked(s *entry, why presence) {
	if s.presence == present {
		s.presence = why
		q.known.Add(metrics.Objects, -1)
	}
	if s.objectState != nil && s.working || q.entries[s.key] != s {
		return
	}
	delete(q.entries, s.key)
	if s.in.objects--; s.in.objects == 0 {
		delete(q.namespaces, s.in.name)
	}
}

// source is one stream of the resource's events.
type source struct {
	namespace string // "" for all

	// The queue's, under its lock.
	listing uint64 // the newest listing, by a number that is higher than those of all listings before, of whatever source
	closed  bool   // whether nothing counts that still comes of it
}

// begin notes that a source begins a listing.
func (q *queue) begin(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.listings++
	from.listing = q.listings
}

// end makes sure that nothing counts any more that still comes of a source.
func (q *queue) end(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from.closed = true
}

// move notes that the objects are seen in another version of their resource from now on.
func (q *queue) move(apiVersion, kind string, known *metrics.Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.typeMeta = &typeMeta{apiVersion, kind}
	n := int64(0)
	for _, s := range q.entries {
		if s.typeMeta = q.typeMeta; s.presence == present {
			n++
		}
	}
	for key, was := range q.absent {
		was.ref.APIVersion, was.ref.Kind = apiVersion, kind
		q.absent[key] = was
	}
	q.known.Add(metrics.Objects, -n)
	q.known = known
	q.known.Add(metrics.Objects, n)
}

// empty tells whether there are no objects, nor any that were forgotten and still have workers or deletions to be told.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)+len(q.absent) == 0
}

// serves tells whether an object is still to be worked on: whether it was not forgotten while its worker was at it.
func (q *queue) serves(s *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.presence == present || s.presence == reporting
}

// reports tells whether the worker of an object only tells that it is gone.
func (q *queue) reports(s *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.presence == reporting
}

// restore forgets which versions of the objects of a source were seen, because the API server has an older history now.
func (q *queue) restore(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.entries {
		if from.closed || from.namespace != "" && s.in.name != from.namespace {
			continue
		}
		s.version = ""
		if s.objectState == nil || !s.working {
			if s.expected = ""; s.objectState != nil {
				s.body, s.goneVersion = nil, "" // the listing will bring what there is now
			}
		}
	}
}

// giveLocked gives an event of an object to its worker.
func (q *queue) giveLocked(s *entry, ev RawEvent, round uint64) {
	s.activateLocked()
	s.unwanted, s.deleted = false, ev.Type == Deleted
	s.round, s.events = round, append(s.events, ev)
	if s.arrived != nil {
		close(s.arrived)
		s.arrived = nil
	}
	q.wakeLocked(s)
}

// waiting returns the events of an object that its worker has not taken, and what is closed when another one comes. Only the worker, and what
// it waits for, may ask.
func (q *queue) waiting(s *entry) (events []RawEvent, arrived <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.arrived == nil {
		s.arrived = make(chan struct{})
	}
	return slices.Clone(s.events), s.arrived
}

// follow gives those who follow an object a place to find its newest state, and tells whether the object is still served.
func (q *queue) follow(s *entry, live *atomic.Pointer[Body]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.live = live
	return s.presence == present
}

// settled returns an object, nil if it is not known, and whether an event of it can be taken without a worker: nothing is under way with
// the object, except that our own patch is to come back, which this may be. It also tells whether the event was seen already, which needs
// nothing more.
func (q *queue) settled(key, version []byte, from *source, round uint64) (s *entry, settled, seen bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || from.closed {
		return nil, false, true
	}
	if s = q.entries[string(key)]; s == nil {
		return nil, q.absent[string(key)].kept == nil, false
	}
	if now := string(version); s.presence == present && newerVersion(s.version, now) && (s.round == round || s.version != now) {
		s.listing = max(s.listing, from.listing)
		return s, false, true
	}
	return s, s.free(version), false
}

// free tells whether nothing is under way with the object, and no newer version of it is expected than this one. The caller holds the queue's lock.
func (s *entry) free(version []byte) bool {
	return s.presence == present && (s.objectState == nil || s.idle()) && (s.expected == "" || newerVersion(string(version), s.expected))
}

// take takes the newest state of an object without a worker. The entry is nil if the object was not known. It fails if another goroutine was
// quicker.
func (q *queue) take(s *entry, t EventType, ref ObjectReference, version string, from *source, round uint64, change func(*entry)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || from.closed || q.entries[ref.UID] != s || s != nil && !s.free([]byte(version)) {
		return false
	}
	if s == nil {
		s = q.addLocked(ref.UID, ref, t == Listed)
		s.remembered = true
	}
	s.version, s.listing, s.round = version, max(s.listing, from.listing), round
	s.expected = ""
	s.releaseIdleLocked()
	change(s)
	return true
}

// memoryOf returns what is remembered of an object, nil if it is not known.
func (q *queue) memoryOf(key string) *memory {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.entries[key]; s != nil {
		s.activateLocked()
		s.memoShared = true
		return &s.memory
	}
	return nil
}

// passed tells that the others need not wait for an object any more.
func (q *queue) passed(s *entry) {
	q.mu.Lock()
	passing := s.objectState != nil && s.passing
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
	for _, s := range q.entries {
		if s.objectState != nil && s.held && !s.working && !q.closed {
			s.woken = true
			q.wakeLocked(s)
		}
	}
}

// wake has an object looked at again.
func (q *queue) wake(s *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || s.presence != present || q.entries[s.key] != s {
		return
	}
	s.activateLocked()
	s.woken = true
	q.wakeLocked(s)
}

// wakeLocked makes sure that a worker looks at the entry.
func (q *queue) wakeLocked(s *entry) {
	q.stopTimerLocked(s)
	if !s.working {
		s.working = true
		q.meter.Add(metrics.Queued, 1)
		q.workers.Add(1)
		q.workerLimit.start(func() { go q.worker(s) })
	}
}

func (q *queue) stopTimerLocked(s *entry) {
	if s.timer != nil && s.timer.Stop() {
		q.workers.Done()
	}
	s.timer = nil
}

// worker does what is to be done for one object, and ends when there is nothing more.
func (q *queue) worker(s *entry) {
	defer q.workers.Done()
	defer q.workerLimit.release()
	defer q.meter.Add(metrics.Queued, -1)
	for {
		if q.limit != nil {
			q.workerLimit.release()
			q.limit <- struct{}{}
			q.workerLimit.acquire()
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
func (q *queue) turn(s *entry) (rest, bool) {
	q.mu.Lock()
	events, woken := s.events, s.woken
	if s.presence == ending {
		s.presence = reporting
	}
	s.took = s.round
	s.events, s.woken, s.held = nil, false, false
	if len(events) == 0 && !woken {
		q.idleLocked(s)
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
func (q *queue) settle(s *entry, r rest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.body, s.arrived = r.body, nil
	if r.untold {
		s.deleted = false
	}
	if s.presence == reporting {
		r.gone = true
		if r.untold { // until the pause is over
			q.absent[s.key] = absentee{ref: s.ref(), version: s.version, tell: true}
		}
	}
	if r.held && s.presence == present {
		s.events, s.held = append(r.events, s.events...), true
		if len(s.events) == len(r.events) && q.passes.closed() {
			q.pauseLocked(s, r)
			return false
		}
		s.woken = true
		return true
	}
	if len(s.events) > 0 {
		return true
	}
	if r.gone {
		q.dismissLocked(s, gone)
	} else if s.presence == present && (s.woken || r.due && r.after <= 0 && !q.closed) {
		s.woken = true
		return true
	}
	q.pauseLocked(s, r)
	return false
}

// idleLocked notes that the worker of an object has ended.
func (q *queue) idleLocked(s *entry) {
	if s.working = false; s.presence == unserved {
		q.leaveLocked(s, q.absent[s.key].tell)
	}
	if s.presence != present {
		q.dismissLocked(s, gone)
	}
	s.releaseIdleLocked()
}

// pauseLocked ends the work on an object until something happens, or its time comes.
func (q *queue) pauseLocked(s *entry, r rest) {
	if !r.due || q.closed || s.presence != present {
		q.idleLocked(s)
		return
	}
	s.working = false
	q.workers.Add(1)
	var t *time.Timer
	t = time.AfterFunc(max(r.after, 0), func() { q.fire(s, &t, r.quiet) })
	s.timer = t
}

// fire wakes an object whose time has come.
func (q *queue) fire(s *entry, t **time.Timer, quiet bool) {
	defer q.workers.Done()
	q.mu.Lock() // which also orders the reading of the timer after its setting
	defer q.mu.Unlock()
	if s.objectState == nil || s.timer != *t || q.closed || s.presence != present {
		return // an event was quicker
	}
	if s.timer = nil; quiet {
		s.conflict = nil
		s.releaseIdleLocked()
		return
	}
	s.woken = true
	q.wakeLocked(s)
}

// waits tells whether an event newer than a version waits for the entry's worker.
func (q *queue) waits(s *entry, version string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, ev := range s.events {
		if ev.Type == Deleted || ev.Body.version != version && newerVersion(ev.Body.version, version) {
			return true
		}
	}
	return false
}

// newest returns the newest state among the events of an object that its worker has not taken, nil if there is none.
func (q *queue) newest(s *entry) *Body {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(s.events); n > 0 && s.events[n-1].Type != Deleted {
		return s.events[n-1].Body
	}
	return nil
}

// note tells which handler of an object runs now, "" for none. Meanwhile the worker does not count: the handler may take its time.
func (q *queue) note(s *entry, id HandlerID) {
	q.mu.Lock()
	before := s.running
	s.running = id
	q.mu.Unlock()
	switch {
	case before == "" && id != "":
		q.workerLimit.release()
	case before != "" && id == "":
		q.workerLimit.acquire()
	}
}

// close takes no more events, and calls off all delays. Workers go on with what they have.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, s := range q.entries {
		if s.objectState != nil {
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
	for _, s := range q.entries {
		if s.objectState != nil && s.working {
			left = append(left, strings.TrimSuffix(s.ref().String()+" in handler "+string(s.running), " in handler "))
		}
	}
	return left
}
