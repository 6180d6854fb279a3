package eventsink

import "time"

// This file correlates events: whether an event is new or repeats another, and whether its object already has too many.

const (
	window         = 10 * time.Minute // for adding repetitions to an event
	burst          = 25               // events about one object at once
	refillInterval = 5 * time.Minute  // until one more is allowed
	maxRemembered  = 4096             // objects, and events
)

// Object is the object of an event. It is convertible to kopf.ObjectReference.
type Object struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

// String returns "namespace/name", or the name for objects without a namespace.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// Event has the fields that repetitions have in common.
type Event struct {
	Object                Object
	Type, Reason, Message string
}

// postedEvent is a posted event with its number of repetitions.
type postedEvent struct {
	Namespace, Name string
	Count           int
	At              time.Time // of the last repetition
}

// bucket limits the events about an object: to a burst, and then one in each refill interval.
type bucket struct {
	used  float64
	since time.Time
}

// correlator remembers posted events, and the recent events of each object, within bounds. It is not safe for concurrent use.
type correlator struct {
	posted  map[Event]*postedEvent
	buckets map[Object]*bucket
}

// newCorrelator returns an empty correlator.
func newCorrelator() *correlator {
	return &correlator{posted: make(map[Event]*postedEvent), buckets: make(map[Object]*bucket)}
}

// correlate counts an event. It returns the posted event that this one repeats, with an updated count, or nil, and whether another request about the object is
// allowed.
func (c *correlator) correlate(e Event, at time.Time) (repeated *postedEvent, allowed bool) {
	c.evict()
	if p := c.posted[e]; p != nil && at.Sub(p.At) <= window {
		p.Count++
		p.At = at
		repeated = p
	}
	return repeated, c.allow(e.Object, at)
}

// add remembers a posted event.
func (c *correlator) add(e Event, p *postedEvent) { c.posted[e] = p }

func (c *correlator) allow(o Object, at time.Time) bool {
	b := c.buckets[o]
	if b == nil {
		b = &bucket{since: at}
		c.buckets[o] = b
	}
	b.used = max(b.used-float64(at.Sub(b.since))/float64(refillInterval), 0)
	b.since = at
	if b.used > burst-1 {
		return false
	}
	b.used++
	return true
}

// evict limits the memory.
func (c *correlator) evict() {
	if len(c.posted) >= maxRemembered {
		clear(c.posted)
	}
	if len(c.buckets) >= maxRemembered {
		clear(c.buckets)
	}
}
