// Package flapping detects hot loops: fields of an object that two clients change in turns, or that one client changes in reaction to its own changes.
package flapping

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Tracker tracks the recent changes of one client to an object.
type Tracker struct {
	written map[string]uint64 // digests of the written values by path, joined with NUL
	state   uint64            // digest of the object after the last change, 0 if other clients changed it as well
	rounds  int               // number of repeated changes in a row
	last    time.Time         // time of the last one
	backoff time.Duration     // between two of them; 0 while they are few
}

// New returns a tracker of an object that has just changed.
func New() *Tracker { return &Tracker{last: time.Now()} }

// Change is a change of one field.
type Change struct {
	Path []string
	New  any  // new value; nil if removed
	Ours bool // the tracked client made it, not another one
}

const (
	maxFields  = 16
	minBackoff = time.Second
)

// Window is the maximum time between two related changes.
const Window = 10 * time.Second

// Observe records the changes between two states. It returns the indices of the client's own changes that repeat a change because the field was changed back
// since, and whether another client did that. With the flag repeats, a change of the exact state after the last change is a repetition, too.
func (t *Tracker) Observe(old, now map[string]any, changes []Change, repeats bool) (conflicting []int, foreign bool) {
	if len(t.written) > maxFields || t.written == nil {
		t.written = make(map[string]uint64)
	}
	repeats = repeats && digest(old) == t.state
	t.state = digest(now)
	for i, c := range changes {
		if !c.Ours {
			t.state = 0
			continue
		}
		again := false
		for name, value := range t.written {
			path := strings.Split(name, "\x00")
			if n := min(len(path), len(c.Path)); !slices.Equal(path[:n], c.Path[:n]) {
				continue
			}
			was, _ := rawjson.Lookup(old, path...)
			theirs := digest(was) != value
			again, foreign = again || theirs || repeats, foreign || theirs
			delete(t.written, name) // it may be above or below the changed field
		}
		if again {
			conflicting = append(conflicting, i)
		}
		t.written[strings.Join(c.Path, "\x00")] = digest(c.New)
	}
	return conflicting, foreign
}

// Count counts a repetition. After a number of repetitions in a row, it sets a backoff, which doubles up to a maximum. It reports whether this is the first
// backoff.
func (t *Tracker) Count(rounds int, maxBackoff time.Duration) (first bool) {
	t.last = time.Now()
	if t.rounds++; t.rounds > rounds {
		t.backoff = min(max(2*t.backoff, minBackoff), maxBackoff)
	}
	return t.rounds == rounds+1
}

// Slowed reports whether there is a backoff between changes.
func (t *Tracker) Slowed() bool { return t.backoff > 0 }

// Pause returns the remaining time of the backoff.
func (t *Tracker) Pause() time.Duration { return time.Until(t.last.Add(t.backoff)) }

// Remaining returns the time until the tracker is obsolete without another change, or -1 for a nil tracker.
func (t *Tracker) Remaining() time.Duration {
	if t == nil {
		return -1
	}
	return max(time.Until(t.last.Add(2*t.backoff+Window)), 0)
}

// digest returns a non-zero digest of a decoded JSON value.
func digest(v any) uint64 {
	data, _ := rawjson.Encode(v) // cannot fail, the value was JSON
	sum := fnv.New64a()
	sum.Write(data) // never fails
	return sum.Sum64() | 1
}

// Writers returns the managers that own a field in the object's managed fields.
func Writers(managedFields any, path []string) (names []string) {
	entries, _ := managedFields.([]any)
	for _, entry := range entries {
		e, _ := entry.(map[string]any)
		fields, ok := e["fieldsV1"].(map[string]any)
		for i := 0; ok && i < len(path) && (i == 0 || len(fields) > 0); i++ { // a field without fields below is owned as a whole
			fields, ok = fields["f:"+path[i]].(map[string]any)
		}
		if name, _ := e["manager"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}
