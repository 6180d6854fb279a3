package webhookserver

import (
	"sync"
	"time"
)

// heldBytes limits the bytes of all bodies. Beyond the limit, bodies that are arriving make room for others. So strangers that send large bodies slowly do
// not lock out other clients.
type heldBytes struct {
	mu       sync.Mutex // guards following
	total    int64
	arriving map[*heldBody]bool
}

// heldBody is the body of a request.
type heldBody struct {
	address string // of the client
	since   time.Time
	abort   func() // ends the reading
	size    int64
	dropped bool
}

// slowArrival is the time after which a body makes room for those of the same client.
const slowArrival = time.Second

// grow gives a body another size, if there is room for it below a limit.
func (h *heldBytes) grow(b *heldBody, size, limit int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.dropped {
		return false
	}
	for h.total+size-b.size > limit {
		victim := h.victimLocked(b)
		if victim == nil {
			return false
		}
		h.total -= victim.size
		victim.size, victim.dropped = 0, true
		delete(h.arriving, victim)
		victim.abort()
	}
	h.total += size - b.size
	b.size = size
	if h.arriving == nil {
		h.arriving = make(map[*heldBody]bool)
	}
	h.arriving[b] = true
	return true
}

// victimLocked returns the body that makes room for another one, nil for none: one of the client with the most arriving bytes, and of these the oldest.
func (h *heldBytes) victimLocked(newer *heldBody) (victim *heldBody) {
	bytes := make(map[string]int64) // by address
	for b := range h.arriving {
		bytes[b.address] += b.size
	}
	for b := range h.arriving {
		own := bytes[b.address] <= bytes[newer.address] // the client has no more than this one
		if b == newer || own && time.Since(b.since) < slowArrival {
			continue
		}
		if victim == nil || bytes[b.address] > bytes[victim.address] || bytes[b.address] == bytes[victim.address] && b.since.Before(victim.since) {
			victim = b
		}
	}
	return victim
}

// arrived notes that a body has arrived, or does not.
func (h *heldBytes) arrived(b *heldBody) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.arriving, b)
}

// release frees the bytes of a body.
func (h *heldBytes) release(b *heldBody) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total -= b.size
	b.size = 0
}
