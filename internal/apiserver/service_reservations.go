package apiserver

import (
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
)

// reservations are the addresses and the ports of services that are being stored, so that concurrent requests do not get the same ones. A request
// reserves all of its own under the lock, after it has read those of the stored services. It releases them when it has stored the service or has
// failed. The holder of the lock sees each address in one of the two places.
type reservations struct {
	mu    sync.Mutex // held while a request looks for unused values, and reserves them
	taken map[string]bool

	// The values of stored services, as of a version. Each request catches up with the changes since then, so that it does not decode all services.
	version   uint64
	uses      map[string]int      // how often an address or a port is used
	byService map[string][]string // the addresses and the ports, by the keys of services
}

// catchUpLocked updates the uses to the services that are stored now. The caller holds the lock.
func (r *reservations) catchUpLocked(db *store.Store, services string) {
	if r.uses != nil {
		steps, now, _, known := db.Since(services, r.version)
		for _, step := range steps {
			if step.Type == store.Deleted {
				r.setLocked(step.Now.Key, nil)
			} else {
				r.setLocked(step.Now.Key, step.Now)
			}
		}
		if r.version = now; known {
			return
		}
	}
	r.uses, r.byService = make(map[string]int), make(map[string][]string) // the history is too short
	var items []*store.Item
	items, r.version = db.List(services)
	for _, item := range items {
		r.setLocked(item.Key, item)
	}
}

// setLocked replaces the uses of a service by those of a stored state, or of none if it is nil. The caller holds the lock.
func (r *reservations) setLocked(key string, item *store.Item) {
	for _, what := range r.byService[key] {
		if r.uses[what]--; r.uses[what] == 0 {
			delete(r.uses, what)
		}
	}
	if delete(r.byService, key); item == nil {
		return
	}
	all := usesOf(unstructured.View(item.Raw).View("spec").Map())
	for _, what := range all {
		r.uses[what]++
	}
	r.byService[key] = all
}

// takeLocked reserves an address or a port for a request. The caller holds the lock.
func (r *reservations) takeLocked(a *apiRequest, what string) {
	if a.dryRun || r.taken[what] {
		return
	}
	if r.taken == nil {
		r.taken = make(map[string]bool)
	}
	r.taken[what] = true
	a.reserved = append(a.reserved, what)
}

// release releases the reservations of a request.
func (a *apiRequest) release() {
	if len(a.reserved) == 0 {
		return
	}
	r := &a.server.reservations
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, what := range a.reserved {
		delete(r.taken, what)
	}
	a.reserved = nil
}
