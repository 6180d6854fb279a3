// Package peerrecord reads and writes what operators store of themselves in peering objects.
package peerrecord

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// WholeSeconds rounds the lifetime of a record up to what the record says of it; it is zero for a record that is dead at once.
func WholeSeconds(lifetime time.Duration) time.Duration {
	return max((lifetime+time.Second-1)/time.Second, 0) * time.Second
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
