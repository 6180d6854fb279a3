package metrics

import (
	"sync"
	"time"
)

// ages tracks the start times of activities of one kind, to know their number and the oldest at any time. It is a list in the order of the starts, in memory
// that is reused, so that a start and an end cost a few assignments.
type ages struct {
	mu    sync.Mutex // guards following
	all   []age      // element 0 is unused
	free  int32      // the first free element
	first int32      // the oldest
	last  int32
	n     int
	sum   float64 // of the start times
}

// age is one activity, or a free element.
type age struct {
	begun        float64 // in seconds since 1970
	before, next int32
}

// shrinkAbove is how many elements are kept while there are no activities.
const shrinkAbove = 256

// seconds converts a time to seconds since 1970.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// begin records the start of an activity, and returns its index.
//
//go:noinline
func (a *ages) begin(at time.Time) int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		a.all = make([]age, 1, 4)
	}
	i := a.free
	if i != 0 {
		a.free = a.all[i].next
	} else {
		i = int32(len(a.all))
		a.all = append(a.all, age{})
	}
	a.all[i] = age{begun: seconds(at), before: a.last}
	if a.last != 0 {
		a.all[a.last].next = i
	} else {
		a.first = i
	}
	a.last = i
	a.n++
	a.sum += a.all[i].begun
	return i
}

// end records the end of the activity at an index.
func (a *ages) end(i int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.all[i]
	if one.before != 0 {
		a.all[one.before].next = one.next
	} else {
		a.first = one.next
	}
	if one.next != 0 {
		a.all[one.next].before = one.before
	} else {
		a.last = one.before
	}
	a.n--
	a.sum -= one.begun
	a.all[i].next, a.free = a.free, i
	if a.n == 0 {
		if a.sum = 0; len(a.all) > shrinkAbove {
			a.all, a.free = nil, 0
		}
	}
}

// look returns the number of activities, the duration of the oldest, and the sum of the durations, in seconds.
func (a *ages) look(now time.Time) (n int, oldest, sum float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == 0 {
		return 0, 0, 0
	}
	at := seconds(now)
	return a.n, max(at-a.all[a.first].begun, 0), max(at*float64(a.n)-a.sum, 0)
}
