package chaos

import (
	"net/http"
	"strings"
	"time"
)

// This file is an extension of the API server that is down, and asks for patience. Nothing else is to wait for it, least of all the record
// by which other operators know that this one is there.

const (
	extensionGroup    = "extension.example.com"
	extensionPatience = "25" // seconds
	// recordLifetime is how long the record of the operator is good, as its settings say.
	recordLifetime = 10 * time.Second
	// recordSlack is what a write may come later on a busy machine, or after one that was stalled.
	recordSlack = 6 * time.Second
)

// extension answers for what the extension serves while things go wrong, and tells whether it did.
func (p *proxy) extension(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, "/apis/"+extensionGroup+"/v1/namespaces/") || !p.extensionDown.Load() {
		return false
	}
	p.counts.add(downExtension)
	answer(w, http.StatusServiceUnavailable, "ServiceUnavailable", extensionPatience)
	return true
}

// span is a time.
type span struct{ from, to time.Time }

// life is when a process has run, or was not able to.
type life struct {
	run int
	span
}

// outside returns how much of the time between two moments is in none of the spans.
func outside(from, to time.Time, spans []span) time.Duration {
	left := to.Sub(from)
	for _, s := range spans {
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			left -= end.Sub(begin)
		}
	}
	return left
}

// kept looks at whether each process has tried to renew its record in time, when there was anything to reach.
func (c *court) kept() {
	for _, process := range c.Processes {
		var before time.Time
		for _, t := range c.KeepAlives {
			if t.Before(process.from) || t.After(process.to) {
				continue
			}
			if gap := outside(before, t, c.Outages); !before.IsZero() && gap > recordLifetime+recordSlack {
				c.complain(keepsAlive, "", "", "the record was not renewed for %s before %s", gap.Round(time.Second), t.Format(clock))
			}
			before = t
		}
	}
}
