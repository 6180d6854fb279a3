// Package peerrecord reads and writes the records of operators in peering objects.
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

// WholeSeconds rounds the lifetime of a record up to whole seconds. It returns zero for a record that expires immediately.
func WholeSeconds(lifetime time.Duration) time.Duration { return apirequest.WholeSeconds(lifetime) }

// Interval returns the time until the next renewal of a record with a lifetime, with some jitter.
func Interval(lifetime time.Duration) time.Duration {
	whole, jitter := WholeSeconds(lifetime), time.Duration(5+rand.IntN(6))*time.Second
	if whole == time.Second {
		return whole / 2
	}
	return max(min(whole, max(whole-jitter, time.Second)), time.Second)
}

// SafeLifetime returns how long an operator may work after the last renewal of its record: a little shorter than the lifetime, so that the operator pauses
// before the record expires for others.
func SafeLifetime(lifetime time.Duration) time.Duration {
	whole := WholeSeconds(lifetime)
	return whole - min(time.Second, whole/10)
}

// Record returns the record that an operator writes. It returns nil, which removes the record, if the lifetime is zero.
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
	Lastseen time.Time // zero if absent
	Raw      string
	Deadline time.Time // expiration time by the local clock
}

// DeadlineAt returns the expiration time of a record that is seen now. After the first list, a record counts from its arrival, however wrong the clock of its
// operator is. The age of earlier records is only known from their content, but no record outlives its lifetime from when it was first seen. The record known
// is the one that was seen before.
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

// Read reads a record. It uses defaults for missing fields and ignores unknown fields.
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
