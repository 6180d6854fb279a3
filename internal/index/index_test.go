package index

import (
	"fmt"
	"runtime"
	"testing"
)

// An update allocates as much in an index of a hundred thousand values as in one of ten, also if all are under one key and have just been read.
func TestUpdate(t *testing.T) {
	for what, key := range map[string]func(i int) string{
		"one key for all": func(int) string { return "all" },
		"a key for each":  func(i int) string { return fmt.Sprint("key-", i) },
	} {
		t.Run(what, func(t *testing.T) {
			cost := func(size int) uint64 {
				x := &Values[string, int]{}
				for i := range size {
					x.Put(fmt.Sprint("owner-", i), map[string]int{key(i): i})
				}
				values := map[string]int{key(3): -1}
				read := x.Get(key(3))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range 100 {
					x.Put("owner-3", values)
				}
				runtime.ReadMemStats(&after)
				if got := x.Get(key(3)); read[min(3, len(read)-1)] != 3 || got[min(3, len(got)-1)] != -1 {
					t.Errorf("before and after the update, readers see %d and %d, want 3 and -1", read[min(3, len(read)-1)], got[min(3, len(got)-1)])
				}
				return after.TotalAlloc - before.TotalAlloc
			}
			small, large := cost(10), cost(100_000)
			if large > 2*small+4096 {
				t.Errorf("100 updates allocate %d bytes in a small index, and %d in a large one", small, large)
			}
		})
	}
}

// BenchmarkPut replaces one of a thousand values under a key.
func BenchmarkPut(b *testing.B) {
	x := &Values[string, int]{}
	for i := range 1000 {
		x.Put(fmt.Sprint("owner-", i), map[string]int{"all": i})
	}
	values := map[string]int{"all": -1}
	b.ReportAllocs()
	for b.Loop() {
		x.Put("owner-3", values)
	}
}
