package metrics

import (
	"sync"
	"sync/atomic"
	"time"
)

// ResourceCount names a counter of a resource.
type ResourceCount int

// The counters of a resource, in the order of the page.
const (
	Objects ResourceCount = iota // known
	Failed                       // objects with a permanently failed handler
	listed                       // the first of the events by type
	_
	_
	_
	Restarts // reconnections of its streams
	Streams  // to be open
	Working  // streams that have listed their objects, and whose last connection succeeded
	Adds     // to the queue
	Delays   // objects scheduled for later
	resourceCounts
)

// Resource holds the counters of one resource. Nil counts nothing.
type Resource struct {
	name     string
	counters [resourceCounts]atomic.Int64
	queue    queue
	writes   [2 * writeResults]atomic.Int64 // of children, by verb and result
	wrote    atomic.Bool                    // whether there were any writes

	mu      sync.Mutex // guards following
	failing []*failing
	streams map[*Stream]bool
}

// queue holds the counters of a resource's queue.
type queue struct {
	waiting, working ages
	waits, works     histogram
}

// eventTypes are the counted types of watch events. An object from a list has no type.
var eventTypes = [...]string{"", "ADDED", "MODIFIED", "DELETED"}

// Add adds to a counter.
//
//go:noinline
func (r *Resource) Add(c ResourceCount, n int64) {
	if r != nil {
		r.counters[c].Add(n)
	}
}

// Received counts an event from a stream.
func (r *Resource) Received(eventType string) {
	if r == nil {
		return
	}
	for i, t := range eventTypes {
		if t == eventType {
			r.counters[int(listed)+i].Add(1)
			return
		}
	}
}

// Stream is an open watch stream. Nil counts nothing.
type Stream struct {
	resource *Resource
	last     atomic.Int64 // time of the last event, in nanoseconds since 1970; 0 if the stream does not work
	restarts atomic.Int64 // of the resource's streams
	denied   atomic.Bool  // whether the permission is missing
	marked   atomic.Bool  // whether bookmarks arrive, so that the stream is never quiet for long
}

// Open counts a new stream.
//
//go:noinline
func (r *Resource) Open() *Stream {
	if r == nil {
		return nil
	}
	s := &Stream{resource: r}
	r.Add(Streams, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil {
		r.streams = make(map[*Stream]bool)
	}
	r.streams[s] = true
	return s
}

// Close removes a stream that has ended from the counts.
func (s *Stream) Close() {
	if s == nil {
		return
	}
	s.resource.Add(Streams, -1)
	s.resource.mu.Lock()
	defer s.resource.mu.Unlock()
	delete(s.resource.streams, s)
}

// Denied sets whether the permission for the stream is missing.
func (s *Stream) Denied(now bool) {
	if s != nil {
		s.denied.Store(now)
	}
}

// denied reports whether the permission for one of the streams is missing.
func (r *Resource) denied() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.streams {
		if s.denied.Load() {
			return true
		}
	}
	return false
}

// Restart counts a reconnection of the stream.
func (s *Stream) Restart() {
	if s != nil {
		s.restarts.Add(1)
		s.resource.Add(Restarts, 1)
	}
}

// Works sets whether the stream works.
//
//go:noinline
func (s *Stream) Works(now bool) {
	if s == nil {
		return
	}
	n, last := int64(-1), int64(0)
	if now {
		n, last = 1, time.Now().UnixNano()
	}
	s.last.Store(last)
	s.resource.Add(Working, n)
}

// Came records that data has arrived.
func (s *Stream) Came(bookmark bool) {
	if s == nil {
		return
	}
	s.last.Store(time.Now().UnixNano())
	if bookmark {
		s.marked.Store(true)
	}
}

// quiet returns the time of the last event on the stream that has been quiet the longest, or 0. It considers only working streams with bookmarks.
func (r *Resource) quiet() (oldest int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.streams {
		if last := s.last.Load(); last != 0 && s.marked.Load() && (oldest == 0 || last < oldest) {
			oldest = last
		}
	}
	return oldest
}

// Pass is the passage of an object through the queue: it waits for a worker, and then has one.
type Pass struct {
	resource *Resource
	since    time.Time
	place    int32
}

// Queue counts an object that begins to wait for a worker.
//
//go:noinline
func (r *Resource) Queue() Pass {
	if r == nil {
		return Pass{}
	}
	r.Add(Adds, 1)
	now := time.Now()
	return Pass{r, now, r.queue.waiting.begin(now)}
}

// Begin counts that a worker begins with the object.
func (p Pass) Begin() Pass {
	if p.resource == nil {
		return p
	}
	q, now := &p.resource.queue, time.Now()
	q.waiting.end(p.place)
	q.waits.observe(now.Sub(p.since))
	return Pass{p.resource, now, q.working.begin(now)}
}

// End counts that the worker has finished. The flag says whether the object waits again.
func (p Pass) End(again bool) Pass {
	if p.resource == nil {
		return p
	}
	q := &p.resource.queue
	q.working.end(p.place)
	if q.works.observe(time.Since(p.since)); !again {
		return Pass{}
	}
	return p.resource.Queue()
}

// failing is the number of objects that one handler will retry after an error.
type failing struct {
	handler string
	objects [1]atomic.Int64
}

// Failing holds the handlers that will retry one object after an error. Its owner must clear it before dropping it.
type Failing []*failing

// Set replaces the handlers.
func (f *Failing) Set(r *Resource, handlers ...string) {
	var now Failing
	if r != nil {
		for _, h := range handlers {
			one := r.failingOf(h)
			one.objects[0].Add(1)
			now = append(now, one)
		}
	}
	f.Clear()
	*f = now
}

// Clear removes all handlers.
func (f *Failing) Clear() {
	for _, one := range *f {
		one.objects[0].Add(-1)
	}
	*f = nil
}

func (r *Resource) failingOf(handler string) *failing {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.failing {
		if f.handler == handler {
			return f
		}
	}
	f := &failing{handler: handler}
	r.failing = append(r.failing, f)
	return f
}

// Children counts child objects by resource: those that are ready, not ready, and being deleted.
type Children map[*Resource]*[3]float64

// Add counts a child.
func (c Children) Add(r *Resource, ready, deleted bool) {
	n := c[r]
	if n == nil {
		n = &[3]float64{}
		c[r] = n
	}
	switch {
	case deleted:
		n[2]++
	case ready:
		n[0]++
	default:
		n[1]++
	}
}

// Reconciler counts the existing child objects.
type Reconciler interface{ CountChildren() Children }

// Verb is a kind of write to a child object.
type Verb int

// The verbs of children's writes.
const (
	Apply Verb = iota
	Delete
)

// writeResults is the number of results of a write: success, conflict, refusal, and other errors.
const writeResults = 4

// Wrote counts a request that writes a child object, by the status code of its response, 0 without one, and by its success.
func (r *Resource) Wrote(v Verb, code int, ok bool) {
	i := 3
	switch {
	case r == nil:
		return
	case ok:
		i = 0
	case code == 409:
		i = 1
	case code >= 400 && code < 500:
		i = 2
	}
	r.wrote.Store(true)
	r.writes[int(v)*writeResults+i].Add(1)
}
