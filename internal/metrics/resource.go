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
	Objects ResourceCount = iota // that are known
	Failed                       // objects for which a handler has failed permanently
	listed                       // events by their types, from here on
	_
	_
	_
	Restarts // of its streams
	Streams  // that are to be open
	Working  // streams that have listed their objects, and whose last connection has worked
	Adds     // to the queue
	Delays   // times that an object was to be looked at again later
	resourceCounts
)

// Resource holds the counters of one resource. Nil counts nothing.
type Resource struct {
	name     string
	counters [resourceCounts]atomic.Int64
	queue    queue
	writes   [2 * writeResults]atomic.Int64 // of children, by verb and result
	wrote    atomic.Bool                    // whether there were any

	mu      sync.Mutex // guards following
	failing []*failing
	streams map[*Stream]bool
}

// queue is what is known of the queue of a resource.
type queue struct {
	waiting, working ages
	waits, works     histogram
}

// eventTypes are the types of events that are counted. Objects of lists have none.
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

// Stream is one that is to be open. Nil counts nothing.
type Stream struct {
	resource *Resource
	last     atomic.Int64 // when something has come last while it works, in nanoseconds since 1970; 0 if it does not work
	restarts atomic.Int64 // of the stream
	marked   atomic.Bool  // whether bookmarks come, so that it is never quiet for long
}

// Open counts a stream that is to be open.
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

// Close counts a stream off that has ended.
func (s *Stream) Close() {
	if s == nil {
		return
	}
	s.resource.Add(Streams, -1)
	s.resource.mu.Lock()
	defer s.resource.mu.Unlock()
	delete(s.resource.streams, s)
}

// Restart counts another connection of the stream.
func (s *Stream) Restart() {
	if s != nil {
		s.restarts.Add(1)
		s.resource.Add(Restarts, 1)
	}
}

// Works notes whether the stream works.
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

// Came notes that something has come.
func (s *Stream) Came(bookmark bool) {
	if s == nil {
		return
	}
	s.last.Store(time.Now().UnixNano())
	if bookmark {
		s.marked.Store(true)
	}
}

// quiet returns when something has come last on the stream on which that is the longest ago; 0 if there is none that works, and that brings bookmarks.
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

// Pass is the way of an object through a queue: it waits for a worker, and then is worked on.
type Pass struct {
	resource *Resource
	since    time.Time
	place    int32
}

// Queue counts an object that waits for a worker from now on.
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

// End counts that the worker is done with the object, which may wait again.
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

// failing is how many objects are to be handled again by one handler after an error.
type failing struct {
	handler string
	objects [1]atomic.Int64
}

// Failing is the handlers that are to be called again for one object after an error. Who has it clears it before it is dropped.
type Failing []*failing

// Set makes it these handlers.
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

// Clear makes it none.
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

// Children are numbers of children by their resources: of those that are ready, that are not, and that are being deleted.
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

// Reconciler counts the children that there are.
type Reconciler interface{ CountChildren() Children }

// Verb is what is done with a child.
type Verb int

// The verbs of children's writes.
const (
	Apply Verb = iota
	Delete
)

// writeResults is how many results there are of a write: success, conflict, refusal, and other errors.
const writeResults = 4

// Wrote counts a request that writes a child, by the code of its answer, 0 if there was none, and whether it has succeeded.
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
