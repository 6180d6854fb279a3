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

	// calm is how much may be allocated between two looks of a process that has come to rest.
	calm = 1 << 20

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
		if t.due(look()) {
			debug.FreeOSMemory()
			t.trimmed(look())
		}
	}
}

// look returns how many bytes of the heap were ever allocated, and how many the process has not given back. It stops the process for some microseconds.
func look() (allocated, retained uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc, m.HeapSys - m.HeapReleased
}

// trimmer knows when the heap is to be trimmed.
type trimmer struct {
	wait      int    // looks until it may be trimmed again
	allocated uint64 // bytes at the last look
	left      uint64 // bytes that the process had after it was trimmed last
}

// due reports whether the process is at rest, and has more memory than it is to keep.
func (t *trimmer) due(allocated, retained uint64) bool {
	rests := allocated-t.allocated < calm && t.wait == 0
	t.allocated, t.wait = allocated, max(t.wait-1, 0)
	return rests && retained > t.left+max(t.left/spare, minSpare)
}

func (t *trimmer) trimmed(allocated, retained uint64) {
	t.allocated, t.left, t.wait = allocated, retained, pause
}
