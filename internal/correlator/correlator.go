// Package correlator decides what becomes of an event that is to be posted: whether it is a new one or repeats another, and whether there
// have been too many about its object.
package correlator

import "time"

const (
	window         = 10 * time.Minute // how long the repetitions of an event are added to it
	burst          = 25               // events about one object at once
	refillInterval = 5 * time.Minute  // until there may be one more
	maxRemembered  = 4096             // objects, and events
)

// Object is what an event is about.
type Object struct {
	APIVersion, Kind, Name, UID, Namespace string
}

// Event is what its repetitions have in common.
type Event struct {
	Object                Object
	Type, Reason, Message string
}

// Posted is an event that was posted, and how often it has happened.
type Posted struct {
	Namespace, Name string
	Count           int
	At              time.Time // of the last one
}

// bucket limits the events about an object: one in each refill interval, and some at once.
type bucket struct {
	used  float64
	since time.Time
}

// Correlator remembers the events that were posted, and those that each object has had, within bounds. It is for one goroutine.
type Correlator struct {
	posted  map[Event]*Posted
	buckets map[Object]*bucket
}

// New returns a correlator that remembers nothing yet.
func New() *Correlator {
	return &Correlator{posted: make(map[Event]*Posted), buckets: make(map[Object]*bucket)}
}

// Correlate counts an event. It returns the posted event that this one repeats, with this one in its count, nil if there is none; and whether there may
// be one more request about the object.
func (c *Correlator) Correlate(e Event, at time.Time) (repeated *Posted, allowed bool) {
	c.evict()
	if p := c.posted[e]; p != nil && at.Sub(p.At) <= window {
		p.Count++
		p.At = at
		repeated = p
	}
	return repeated, c.allow(e.Object, at)
}

// Add remembers an event that was posted.
func (c *Correlator) Add(e Event, p *Posted) { c.posted[e] = p }

func (c *Correlator) allow(o Object, at time.Time) bool {
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
func (c *Correlator) evict() {
	if len(c.posted) >= maxRemembered {
		clear(c.posted)
	}
	if len(c.buckets) >= maxRemembered {
		clear(c.buckets)
	}
}
