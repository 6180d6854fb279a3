// Package heaptrim gives the memory that a burst of work has left behind back to the operating system.
//
// The garbage collector lets the heap grow to twice of what is in use before it looks for garbage, and after that it goes on keeping as much for what
// may come. An operator works in bursts, of which its start is the largest: afterwards it would keep for days what it has needed for seconds.
package heaptrim

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	interval = time.Second // between two looks
	pause    = 5           // looks after a trim until the next one at the earliest, for each costs a collection

	// spare is what the process may keep beyond what it had after it was trimmed last, as a part of that, and at least.
	spare    = 4 // a quarter
	minSpare = 2 << 20
)

// Run trims the heap of the process whenever it has come to rest after a burst, until the end of ctx. It is for processes that are the operator's own:
// it collects the garbage of all that runs in them.
func Run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	t := trimmer{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n, retained := look(); t.rests(n) && t.exceeds(retained) {
			debug.FreeOSMemory()
			t.trimmed(look())
		}
	}
}

// look returns how often garbage was collected, and how many bytes of its heap the process has not given back. It stops the process for some microseconds.
func look() (collections uint32, retained uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC, m.HeapSys - m.HeapReleased
}

// trimmer knows when the heap is to be trimmed.
type trimmer struct {
	wait int    // looks until it may be trimmed again
	seen uint32 // collections at the last look
	done uint32 // collections when it was looked whether there is anything to be trimmed
	left uint64 // bytes that the process had after it was trimmed last
}

// rests reports whether there were collections since the heap was looked at, and none since the last look: that tells a burst from its
// end.
func (t *trimmer) rests(collections uint32) bool {
	rests := collections == t.seen && collections != t.done && t.wait == 0
	t.seen, t.wait = collections, max(t.wait-1, 0)
	if rests {
		t.done = collections
	}
	return rests
}

// exceeds reports whether the process has more memory than it is to keep.
func (t *trimmer) exceeds(retained uint64) bool {
	return retained > t.left+max(t.left/spare, minSpare)
}

func (t *trimmer) trimmed(collections uint32, retained uint64) {
	t.seen, t.done, t.left, t.wait = collections, collections, retained, pause
}
