package chaos

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file delays the responses to creations with generated names, so that credentials change during the requests.

// callKey is the annotation with the call of a handler that created a ticket.
const callKey = group + "/call"

func isCreation(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/tickets")
}

// answerLate sends a creation at once, and delays its response.
func (p *proxy) answerLate(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	p.counts.add(lateCreation)
	p.creations.Add(1)
	defer p.creations.Add(-1)
	if random.IntN(3) == 0 {
		p.relogin.Store(true)
		defer p.relogin.Store(false)
	}
	resp, err := p.send(r)
	if err != nil {
		cut(r)
	}
	defer resp.Body.Close()
	pause(r.Context(), between(random, 300*time.Millisecond, 2*time.Second))
	p.hand(w, r, resp)
}

// reloginNow reports whether to refuse the credentials of a request because a creation is running.
func (p *proxy) reloginNow(r *http.Request) bool {
	return !isCreation(r) && p.relogin.Load() && p.relogin.CompareAndSwap(true, false)
}

// refuseLogin refuses the credentials as expired.
func (p *proxy) refuseLogin(w http.ResponseWriter) {
	if p.creations.Load() > 0 {
		p.counts.add(creationRelogin)
	}
	answer(w, http.StatusUnauthorized, "Unauthorized", "")
}

// created checks the objects that handlers created with generated names.
func (c *court) created() {
	made := map[string][]string{} // the names by call
	for _, versions := range c.Tickets {
		o := versions[0].Object
		call := o.Metadata.Annotations[callKey]
		made[call] = append(made[call], o.Metadata.Name)
	}
	for _, call := range slices.Sorted(maps.Keys(made)) {
		if len(made[call]) > 1 {
			c.complain(createdOnce, "", "", "the creation of the call %s was carried out %d times: %q", call, len(made[call]), made[call])
		}
	}
	for _, e := range c.Journal {
		if e.Event == journal.Created && len(made[e.Note]) == 0 {
			c.complain(createdOnce, e.UID, e.Name, "the creation of the call %s has succeeded, and was not carried out", e.Note)
		}
	}
}
