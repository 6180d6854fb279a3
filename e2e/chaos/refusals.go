package chaos

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"
)

// This file refuses the operator's writes as admission webhooks, quotas, and proxies do: with codes and messages that are ambiguous.

// refusal is a response to a write that the API server would have accepted.
type refusal struct {
	name    string
	code    int
	reason  string
	message string
	details map[string]any
}

// denied is the API server's prefix for the message of a webhook.
const denied = `admission webhook "policy.example.com" denied the request: `

var refusals = []refusal{
	{name: "refused with 404 of something else", code: http.StatusNotFound, reason: "NotFound", message: denied + `configmaps "y" not found`,
		details: map[string]any{"name": "y", "kind": "configmaps"}},
	{name: "refused with 409 and a UID", code: http.StatusConflict, reason: "Conflict",
		message: denied + "the quota of the tenant with the UID 7d2c6a39-0000-4000-8000-000000000000 is being counted"},
	{name: "refused with metadata.uid in the text", code: http.StatusForbidden, reason: "Forbidden",
		message: denied + "spec.owner must be metadata.uid of a team"},
	{name: "refused with 422 without causes", code: http.StatusUnprocessableEntity, reason: "Invalid", message: denied + "not on a Sunday"},
	{name: "refused with 403", code: http.StatusForbidden, reason: "Forbidden", message: denied + "not yet"},
	{name: "refused with 413", code: http.StatusRequestEntityTooLarge, reason: "RequestEntityTooLarge", message: "the request is too large"},
	{name: "refused with 500 by a webhook", code: http.StatusInternalServerError, reason: "InternalError",
		message: `Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: context deadline exceeded`},
}

func refusalNames() []string {
	var names []string
	for _, f := range refusals {
		names = append(names, f.name)
	}
	return names
}

// body returns the Status of the response.
func (f *refusal) body() []byte {
	status := map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": f.message, "reason": f.reason, "code": f.code}
	if f.details != nil {
		status["details"] = f.details
	}
	data, err := json.Marshal(status)
	if err != nil {
		panic(err) // it is always valid
	}
	return data
}

// refuse runs one burst of refusals after another until the context is canceled. Each burst has one kind.
func (b *bench) refuse(ctx context.Context, random *rand.Rand) error {
	defer b.proxy.refusing.Store(nil)
	for ctx.Err() == nil {
		for _, i := range random.Perm(len(refusals)) {
			before := b.counts.of(refusals[i].name)
			b.proxy.refusing.Store(&refusals[i])
			pause(ctx, between(random, 500*time.Millisecond, 2*time.Second))
			for n := 0; n < 50 && b.counts.of(refusals[i].name) == before && ctx.Err() == nil; n++ { // the operator may be idle
				pause(ctx, 100*time.Millisecond)
			}
			b.proxy.refusing.Store(nil)
			pause(ctx, between(random, time.Second, 3*time.Second))
		}
	}
	return nil
}

// refused answers a write to an object during a burst, and reports whether it did.
func (p *proxy) refused(w http.ResponseWriter, r *http.Request) bool {
	f := p.refusing.Load()
	if f == nil || !isWrite(r) || !isWidgets(r.URL.Path) {
		return false
	}
	p.counts.add(f.name)
	p.note(r, f.name)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.code)
	_, _ = w.Write(f.body()) // the operator may have disconnected
	return true
}
