package kopf

import (
	"os"
	"runtime"
	"runtime/debug"
)

// This file paces the garbage collector of an operator that is a program of its own. What an operator keeps is little, and what it works with
// is gone a moment later: by the collector's own rule, which looks at what is kept, it would run all the time for nothing in a small operator,
// and take twice the memory that is needed after a burst of work. It runs on a goroutine of the runtime, once after each collection.

// A heap is collected when it has a size that is worth it, and otherwise when it has grown by a part of what was kept. The heaps of
// operators that keep a lot are left to the collector's own rule, which costs less time.
const (
	minHeap       = 10 << 20 // bytes
	largeHeap     = 64 << 20
	smallGrowth   = 50 // percent
	defaultGrowth = 100
	mostGrowth    = 250 // which also is that of the smallest heap that the runtime collects, of 4 MiB at 100 %
)

// growth returns by how many percent a heap may grow over what is kept before it is collected.
func growth(kept uint64) int {
	if kept >= largeHeap {
		return defaultGrowth
	}
	return min(max(smallGrowth, int(100*(minHeap-int64(kept))/int64(max(kept, 1)))), mostGrowth)
}

// paceCollector paces the collector from now on, unless the environment says how.
func paceCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	now := growth(0)
	debug.SetGCPercent(now)
	afterCollection(func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if next := growth(m.HeapAlloc); next > now*5/4 || next < now*4/5 { // each change stops the world for a moment
			now = next
			debug.SetGCPercent(now)
		}
	})
}

// afterCollection has a function called after each collection.
func afterCollection(f func()) {
	mark := new([2]uint64) // which nobody keeps
	runtime.AddCleanup(mark, func(struct{}) {
		f()
		afterCollection(f)
	}, struct{}{})
}
