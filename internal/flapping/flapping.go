// Package flapping notices that fields of an object are changed again and again: in turns by two clients, or by one that reacts to its own changes.
package flapping

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Tracker is what one client has changed of an object lately.
type Tracker struct {
	written map[string]uint64 // the fields, as their keys with a NUL between them, and the digests of the values that they were given
	state   uint64            // the digest of the object as the last change alone has left it, 0 if others have changed it as well
	rounds  int               // in a row: changes of what was changed back since, or of what was changed only because of the change before
	last    time.Time         // when the last one was
	backoff time.Duration     // between two of them; zero while they are few
}

// New returns a tracker of an object that has changed now.
func New() *Tracker { return &Tracker{last: time.Now()} }

// Change is a change of one field.
type Change struct {
	Path []string
	New  any  // the value; nil if it was removed
	Ours bool // whether the client has made it, and not another one meanwhile
}

const (
	maxFields  = 16
	minBackoff = time.Second
)

// Window is how long after one another two changes have something to do with each other.
const Window = 10 * time.Second

// Observe notes what has changed between two states, and returns which of the client's own changes repeat what was changed back since, and whether another client has done
// that. With the flag, a change of the very state that the last one has left is a repetition, too.
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
			delete(t.written, name) // it may be of more or less than the change is
		}
		if again {
			conflicting = append(conflicting, i)
		}
		t.written[strings.Join(c.Path, "\x00")] = digest(c.New)
	}
	return conflicting, foreign
}

// Count counts a repetition. After more than a number of them in a row, there is a pause, which grows up to a limit; it reports whether this is the first
// one with a pause.
func (t *Tracker) Count(rounds int, maxBackoff time.Duration) (first bool) {
	t.last = time.Now()
	if t.rounds++; t.rounds > rounds {
		t.backoff = min(max(2*t.backoff, minBackoff), maxBackoff)
	}
	return t.rounds == rounds+1
}

// Slowed reports whether there are pauses between the changes.
func (t *Tracker) Slowed() bool { return t.backoff > 0 }

// Pause returns for how long nothing is to be changed.
func (t *Tracker) Pause() time.Duration { return time.Until(t.last.Add(t.backoff)) }

// Remaining returns after what time without another change it is over; -1 for a nil tracker.
func (t *Tracker) Remaining() time.Duration {
	if t == nil {
		return -1
	}
	return max(time.Until(t.last.Add(2*t.backoff+Window)), 0)
}

// digest returns a digest of a decoded JSON value, which is never 0.
func digest(v any) uint64 {
	data, _ := rawjson.Encode(v) // it was JSON
	sum := fnv.New64a()
	sum.Write(data) // it never fails
	return sum.Sum64() | 1
}

// Writers returns who has last written a field, by the managed fields of the object.
func Writers(managedFields any, path []string) (names []string) {
	entries, _ := managedFields.([]any)
	for _, entry := range entries {
		e, _ := entry.(map[string]any)
		fields, ok := e["fieldsV1"].(map[string]any)
		for i := 0; ok && i < len(path) && (i == 0 || len(fields) > 0); i++ { // where there is nothing below, all of it is theirs
			fields, ok = fields["f:"+path[i]].(map[string]any)
		}
		if name, _ := e["manager"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}
