package journal

import "runtime"

// Census is the state that an operator reports on request.
type Census struct {
	Goroutines int                 `json:"goroutines"`
	Heap       uint64              `json:"heap"`    // bytes in use
	Daemons    map[string]bool     `json:"daemons"` // the objects with a running daemon
	Colors     map[string][]string `json:"colors"`  // the index: the objects by color
	Seen       map[string]int64    `json:"seen"`    // the latest values of the objects
	Fence      uint64              `json:"fence"`   // of the term, 0 without the Lease
}

// TakeCensus starts a census of this process.
func TakeCensus() *Census {
	runtime.GC()
	runtime.GC() // memory with finalizers is freed by the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &Census{Goroutines: runtime.NumGoroutine(), Heap: m.HeapAlloc, Daemons: map[string]bool{}, Colors: map[string][]string{}, Seen: map[string]int64{}}
}
