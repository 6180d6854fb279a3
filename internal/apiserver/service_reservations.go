package apiserver

import "sync"

// reservations are the addresses and the ports of services that are being stored, so that two requests at the same time do not get the same ones. A request takes its reservations in
// one go under the lock, after a look at the stored services, and gives them up when it has stored the service or has failed. The holder of the lock therefore sees each address in one of
// the two places.
type reservations struct {
	mu    sync.Mutex // held while a request looks for what is in use, and takes it
	taken map[string]bool
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
