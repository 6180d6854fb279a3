package store

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/proof"
)

func object(name, data string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}, "data": data}
}

// A list has the newest state of each object by key, regardless of the number of changes since the last one.
func TestList(t *testing.T) {
	for seed := range uint64(proof.Rounds(20, 500)) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := New(100)
		want := map[string]*Item{}
		var kept []*Item // of an earlier list, which must not change
		var copied []*Item
		for range 400 {
			key := fmt.Sprint("k", random.IntN(1+int(seed)*5))
			var err error
			if before := want[key]; before != nil && random.IntN(3) == 0 {
				_, _, err = s.Remove("all", key, before, before.Object())
				delete(want, key)
			} else {
				want[key], _, err = s.Put("all", key, want[key], object(key, ""), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if random.IntN(8) != 0 {
				continue
			}
			got, version := s.List("all")
			if version != s.Now() {
				t.Fatalf("seed %d: the version of the list is %d, want %d", seed, version, s.Now())
			}
			var all []*Item
			for _, i := range want {
				all = append(all, i)
			}
			slices.SortFunc(all, func(a, b *Item) int { return cmp.Compare(a.Key, b.Key) })
			if !slices.Equal(got, all) {
				t.Fatalf("seed %d: the list has %d objects, want the %d newest by key", seed, len(got), len(all))
			}
			if !slices.Equal(kept, copied) {
				t.Fatalf("seed %d: a list has changed after it was returned", seed)
			}
			kept, copied = got, slices.Clone(got)
		}
	}
}

// The history drops large states earlier than small ones, first from the collection with the largest history.
func TestHistoryBytes(t *testing.T) {
	s := New(10_000)
	put := func(name string, before *Item, size int) *Item {
		now, ok, err := s.Put(name, "a", before, object("a", strings.Repeat("x", size)), 0)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return now
	}
	small := put("small", nil, 10)
	first := put("large", nil, 1<<20)
	last := first
	for range 200 {
		last = put("large", last, 1<<20)
	}
	if s.bytes > MaxHistoryBytes {
		t.Errorf("the history has %d bytes, want at most %d", s.bytes, MaxHistoryBytes)
	}
	if _, _, _, known := s.Since("large", first.Version); known {
		t.Error("the history of the large object goes back to its beginning")
	}
	if steps, _, _, known := s.Since("large", last.Version-1); !known || len(steps) != 1 {
		t.Errorf("the last change is %v, %t, want to be known", steps, known)
	}
	if _, _, _, known := s.Since("small", small.Version-1); !known {
		t.Error("the history of the small object was dropped")
	}
	s.Compact()
	if s.bytes != 0 {
		t.Errorf("%d bytes are counted after all was dropped", s.bytes)
	}
}

// BenchmarkListAfterWrite lists many objects right after one was written.
func BenchmarkListAfterWrite(b *testing.B) {
	s := New(10_000)
	var last *Item
	for i := range 50_000 {
		key := fmt.Sprintf("default/object-%05d", i)
		now, _, err := s.Put("all", key, nil, object(key, ""), 0)
		if err != nil {
			b.Fatal(err)
		}
		last = now
	}
	s.List("all")
	for b.Loop() {
		now, _, err := s.Put("all", last.Key, last, object(last.Key, ""), 0)
		if err != nil {
			b.Fatal(err)
		}
		last = now
		s.List("all")
	}
}

// A list at a version contains nothing newer during writes and trimming.
func TestAtWhileWriting(t *testing.T) {
	s := New(4)
	done := make(chan error)
	go func() {
		var before *Item
		for range 20_000 {
			now, _, err := s.Put("all", "k", before, object("k", ""), 0)
			if before = now; err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for n := 0; ; n++ {
		version := s.Now()
		items, ok := s.At("all", version)
		if ok && (len(items) > 1 || len(items) == 1 && items[0].Version > version) {
			t.Fatalf("the list at %d has %d objects, the first of version %d", version, len(items), items[0].Version)
		}
		select {
		case err := <-done:
			if err != nil || n == 0 {
				t.Errorf("after %d lists: %v", n, err)
			}
			return
		default:
		}
	}
}

// Paged lists keep a limited number of bytes of old states, and none after their last pages.
func TestSnapshotBytes(t *testing.T) {
	s := New(10)
	text := strings.Repeat("x", 1<<20)
	var last [4]*Item
	replaceAll := func() {
		for i := range last {
			now, ok, err := s.Put("all", fmt.Sprint(i), last[i], object(fmt.Sprint(i), text), 0)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			last[i] = now
		}
	}
	replaceAll()
	items, first := s.List("all")
	s.Keep("all", first, items)
	s.Keep("all", first, items)
	if s.kept > 1000 {
		t.Errorf("a list of the newest states keeps %d bytes, want few: the states are kept anyway", s.kept)
	}
	replaceAll()
	if s.kept < 4<<20 || s.kept > 5<<20 {
		t.Errorf("a list of old states keeps %d bytes, want those of the states, once", s.kept)
	}
	s.Release("all", first)
	if got, ok := s.Snapshot("all", first); !ok || !slices.Equal(got, items) {
		t.Error("the list is gone while it has a reader")
	}
	s.Release("all", first)
	s.Release("all", first) // by a reader that requests the last page again
	if _, ok := s.Snapshot("all", first); ok || s.kept != 0 {
		t.Errorf("the list is kept after its last pages: %t, with %d bytes", ok, s.kept)
	}

	var versions []uint64
	for range 20 {
		items, version := s.List("all")
		s.Keep("all", version, items)
		versions = append(versions, version)
		replaceAll()
		if s.kept > MaxSnapshotBytes {
			t.Fatalf("lists keep %d bytes, want at most %d", s.kept, MaxSnapshotBytes)
		}
	}
	if n := len(s.snapshots); n < 7 || n > 8 {
		t.Errorf("%d lists are kept, want as many as fit", n)
	}
	if _, ok := s.Snapshot("all", versions[19]); !ok {
		t.Error("the newest list is not kept")
	}
	for _, version := range slices.Backward(versions) { // older ones keep their states
		s.Release("all", version)
	}
	if s.kept != 0 || len(s.snapshots) != 0 {
		t.Errorf("%d lists keep %d bytes in the end, want none", len(s.snapshots), s.kept)
	}
}
