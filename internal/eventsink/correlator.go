package eventsink

import "time"

// This file decides what becomes of an event that is to be posted: whether it is a new one or repeats another, and whether there
// have been too many about its object.

const (
	window         = 10 * time.Minute // how long the repetitions of an event are added to it
	burst          = 25               // events about one object at once
	refillInterval = 5 * time.Minute  // until there may be one more
	maxRemembered  = 4096             // objects, and events
)

// Object is what an event is about. Its fields are those of kopf.ObjectReference, so that one is converted to the other.
type Object struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

// String returns "namespace/name", or the name alone for objects without a namespace.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// Event is what its repetitions have in common.
type Event struct {
	Object                Object
	Type, Reason, Message string
}

// postedEvent is an event that was posted, and how often it has happened.
type postedEvent struct {
	Namespace, Name string
	Count           int
	At              time.Time // of the last one
}

// bucket limits the events about an object: one in each refill interval, and some at once.
type bucket struct {
	used  float64
	since time.Time
}

// correlator remembers the events that were posted, and those that each object has had, within bounds. It is for one goroutine.
type correlator struct {
	posted  map[Event]*postedEvent
	buckets map[Object]*bucket
}

// newCorrelator returns a correlator that remembers nothing yet.
func newCorrelator() *correlator {
	return &correlator{posted: make(map[Event]*postedEvent), buckets: make(map[Object]*bucket)}
}

// correlate counts an event. It returns the posted event that this one repeats, with this one in its count, nil if there is none; and whether there may
// be one more request about the object.
func (c *correlator) correlate(e Event, at time.Time) (repeated *postedEvent, allowed bool) {
	c.evict()
	if p := c.posted[e]; p != nil && at.Sub(p.At) <= window {
		p.Count++
		p.At = at
		repeated = p
	}
	return repeated, c.allow(e.Object, at)
}

// add remembers an event that was posted.
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

// evict keeps the memory within bounds.
func (c *correlator) evict() {
	if len(c.posted) >= maxRemembered {
		clear(c.posted)
	}
	if len(c.buckets) >= maxRemembered {
		clear(c.buckets)
	}
}
