package journal

import "runtime"

// Census is what an operator tells of itself when it is asked.
type Census struct {
	Goroutines int                 `json:"goroutines"`
	Heap       uint64              `json:"heap"`    // bytes in use
	Daemons    map[string]bool     `json:"daemons"` // the objects whose daemon runs
	Colors     map[string][]string `json:"colors"`  // the index: under which colours the objects stand
	Seen       map[string]int64    `json:"seen"`    // the values of the objects as they were last seen
	Fence      uint64              `json:"fence"`   // of the term, 0 if the process does not lead
}

// TakeCensus begins one for this process.
func TakeCensus() *Census {
	runtime.GC()
	runtime.GC() // what had a finalizer is gone after the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &Census{Goroutines: runtime.NumGoroutine(), Heap: m.HeapAlloc, Daemons: map[string]bool{}, Colors: map[string][]string{}, Seen: map[string]int64{}}
}
