// Package heaptrim returns memory to the operating system after bursts of work.
//
// The garbage collector lets the heap grow to twice the size in use before a collection, and then keeps that memory for later. An operator works in bursts, the
// largest of which is its start. Without this package, it would keep that peak memory for days.
package heaptrim

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	interval = time.Second // between two checks
	pause    = 5           // minimum number of checks between two trims, because each trim costs a collection

	// calm is the maximum number of bytes that an idle process allocates between two checks.
	calm = 1 << 20

	// spare and minSpare limit the growth since the last trim: to a part of the memory after that trim, and at least a minimum.
	spare    = 4 // a quarter
	minSpare = 2 << 20
)

// Run trims the heap whenever the process becomes idle after a burst, until ctx ends. Use it only in processes of an operator's own, because it collects the
// garbage of the whole process.
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

// look returns the total number of allocated bytes, and the bytes of the heap that the process retains. It stops the process for some microseconds.
func look() (allocated, retained uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc, m.HeapSys - m.HeapReleased
}

// trimmer decides when to trim the heap.
type trimmer struct {
	wait      int    // checks until the next trim is allowed
	allocated uint64 // bytes at the last check
	left      uint64 // bytes retained after the last trim
}

// due reports whether the process is idle, and has more memory than it may keep.
func (t *trimmer) due(allocated, retained uint64) bool {
	rests := allocated-t.allocated < calm && t.wait == 0
	t.allocated, t.wait = allocated, max(t.wait-1, 0)
	return rests && retained > t.left+max(t.left/spare, minSpare)
}

func (t *trimmer) trimmed(allocated, retained uint64) {
	t.allocated, t.left, t.wait = allocated, retained, pause
}
