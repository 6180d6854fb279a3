package apiserver

import (
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
)

// reservations are the addresses and the ports of services that are being stored, so that two requests at the same time do not get the same ones. A request takes its reservations in
// one go under the lock, after a look at the stored services, and gives them up when it has stored the service or has failed. The holder of the lock therefore sees each address in one of
// the two places.
type reservations struct {
	mu    sync.Mutex // held while a request looks for what is in use, and takes it
	taken map[string]bool

	// What stored services have, as of a version. Each request catches up with the changes since then, so that it does not have to decode all services.
	version   uint64
	uses      map[string]int      // how often an address or a port is used
	byService map[string][]string // the addresses and the ports, by the keys of services
}

// catchUpLocked makes the uses those of the services that are stored now. The caller holds the lock.
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
	r.uses, r.byService = make(map[string]int), make(map[string][]string) // the history does not go back that far
	var items []*store.Item
	items, r.version = db.List(services)
	for _, item := range items {
		r.setLocked(item.Key, item)
	}
}

// setLocked makes the uses of a service those of a stored state, or none if that is nil. The caller holds the lock.
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

// release gives up what a request has reserved.
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
