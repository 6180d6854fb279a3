// Package peerrecord reads and writes what operators store of themselves in peering objects.
package peerrecord

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// WholeSeconds rounds the lifetime of a record up to what the record says of it; it is zero for a record that is dead at once.
func WholeSeconds(lifetime time.Duration) time.Duration { return apirequest.WholeSeconds(lifetime) }

// Interval returns how long to wait until a record with that lifetime is written again, with some jitter.
func Interval(lifetime time.Duration) time.Duration {
	whole, jitter := WholeSeconds(lifetime), time.Duration(5+rand.IntN(6))*time.Second
	if whole == time.Second {
		return whole / 2
	}
	return max(min(whole, max(whole-jitter, time.Second)), time.Second)
}

// SafeLifetime returns for how long after its last record an operator may work: it ceases a little before the death of the record, because others must not
// find that dead before.
func SafeLifetime(lifetime time.Duration) time.Duration {
	whole := WholeSeconds(lifetime)
	return whole - min(time.Second, whole/10)
}

// Record returns what an operator writes of itself: nil, which removes the record, if it is dead at once.
func Record(priority int, lifetime time.Duration) any {
	seconds := WholeSeconds(lifetime) / time.Second
	if seconds == 0 {
		return nil
	}
	return map[string]any{"priority": priority, "lifetime": int64(seconds), "lastseen": time.Now().UTC().Format(iso8601.Layout)}
}

// Peer is the record of an operator.
type Peer struct {
	Priority float64
	Lifetime time.Duration
	Lastseen time.Time // zero if it does not say that
	Raw      string
	Deadline time.Time // when it is dead by our clock
}

// DeadlineAt returns when a record is dead that is seen now. After the first listing, a record has been seen coming and counts from then on, however wrong
// the clock of its operator may be. Of earlier ones only their content is known, but no record lives longer than its lifetime from when it was
// first seen. The known record is the one that was seen before.
func (p Peer) DeadlineAt(now time.Time, known Peer, listed bool) time.Time {
	switch latest := now.Add(p.Lifetime); {
	case p.Lastseen.IsZero():
		return latest
	case known.Raw == p.Raw:
		return known.Deadline
	case listed || p.Lastseen.After(now):
		return latest
	default:
		return p.Lastseen.Add(p.Lifetime)
	}
}

// Read reads a record. What it does not say is the default, and fields that are not known are ignored.
func Read(raw []byte) (Peer, error) {
	p := Peer{Lifetime: time.Minute, Raw: string(raw)}
	if !strings.HasPrefix(p.Raw, "{") {
		return p, errors.New("an object is expected")
	}
	var fault error
	number := func(value []byte) float64 {
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			fault = fmt.Errorf("a number is expected, not %s", value)
		}
		return n
	}
	err := rawjson.EachMember(raw, func(quoted, value []byte) bool {
		switch {
		case rawjson.QuotedIs(quoted, "priority"):
			p.Priority = number(value)
		case rawjson.QuotedIs(quoted, "lifetime"):
			p.Lifetime = time.Duration(min(max(number(value), 0), 1e9)) * time.Second
		case rawjson.QuotedIs(quoted, "lastseen") && !rawjson.IsNull(value):
			p.Lastseen, fault = iso8601.Parse(rawjson.Unquote(value))
		case rawjson.QuotedIs(quoted, "identity"):
			fault = errors.New("the identity is the key of a record, and no field of it")
		}
		return fault == nil
	})
	return p, cmp.Or(fault, err)
}
