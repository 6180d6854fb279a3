package store

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// Pages of older lists (resourceVersionMatch=Exact) may keep states that were replaced before the store kept the list. Those must count, because they
// stay in memory when the history has dropped them.
func TestOldListsAreBounded(t *testing.T) {
	s := New(10_000)
	text := strings.Repeat("x", 1<<20)
	const objects = 8
	var now [objects]*Item
	for round := range 60 {
		var before uint64
		for i := range objects {
			if i == 0 {
				before = s.Now()
			}
			key := fmt.Sprintf("default/o%d", i)
			object := map[string]any{"metadata": map[string]any{"name": key}, "data": fmt.Sprint(round, i, text)}
			var ok bool
			var err error
			if now[i], ok, err = s.Put("os.", key, now[i], object, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if round == 0 {
			continue
		}
		items, ok := s.At("os.", before) // GET ?resourceVersion=before&resourceVersionMatch=Exact&limit=1
		if !ok {
			t.Fatal("the history is too short")
		}
		s.Keep("os.", before, items)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.mu.RLock()
	defer s.mu.RUnlock()
	states := make(map[*Item]bool)
	size := 0
	for _, kept := range s.snapshots {
		for _, item := range kept.items {
			if !states[item] {
				states[item] = true
				size += len(item.Raw)
			}
		}
	}
	if limit := MaxHistoryBytes + MaxSnapshotBytes + objects<<20; size > limit {
		t.Errorf("%d lists keep %d MiB of states, want at most %d MiB; the store counts %d MiB; the heap has %d MiB", len(s.snapshots), size>>20, limit>>20, s.kept>>20, m.HeapAlloc>>20)
	}
}
