package chaos

import (
	"net/http"
	"strings"
	"time"
)

// This file is an extension of the API server that is down, and answers with Retry-After. No other request may wait for it, in particular not the peering
// record that keeps other operators paused.

const (
	extensionGroup    = "extension.example.com"
	extensionPatience = "25" // in seconds
	// recordLifetime is the lifetime of the operator's record in its settings.
	recordLifetime = 10 * time.Second
	// recordSlack is the tolerated delay of a write on a busy machine, or after a stalled one.
	recordSlack = 6 * time.Second
)

// extension answers requests for the extension during faults, and reports whether it did.
func (p *proxy) extension(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, "/apis/"+extensionGroup+"/v1/namespaces/") || !p.extensionDown.Load() {
		return false
	}
	p.counts.add(downExtension)
	answer(w, http.StatusServiceUnavailable, "ServiceUnavailable", extensionPatience)
	return true
}

// span is a period of time.
type span struct{ from, to time.Time }

// life is a period in which a process ran, or was frozen.
type life struct {
	run int
	span
}

// outside returns the time between two moments that is in none of the spans.
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

// kept checks that each process tried to renew its record in time, while the server was reachable.
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
