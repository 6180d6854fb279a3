package index

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"unsafe"
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
					_ = x.Put(fmt.Sprint("owner-", i), map[string]int{key(i): i})
				}
				values := map[string]int{key(3): -1}
				read := x.Get(key(3))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range 100 {
					_ = x.Put("owner-3", values)
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

// point is a key with floats in it.
type point struct {
	_    float64
	name string
	At   struct{ X, Y float64 }
	Both [2]complex64
	Else any
}

func TestUnequalKeys(t *testing.T) {
	nan := math.NaN()
	blank := *(*point)(unsafe.Pointer(&[10]float64{nan})) // Go does not compare its first field
	at, both, other := point{name: "a"}, point{name: "a"}, point{name: "a", Else: [2]any{1, point{Else: nan}}}
	at.At.Y, both.Both[1] = nan, complex(0, float32(nan))
	for _, tt := range []struct {
		key  any
		want string // at the end of the error; "" for none
	}{
		{nan, "invalid key NaN of an index: want a value that equals itself"},
		{float32(nan), "equals itself"},
		{complex(nan, 0), "equals itself"},
		{at, ", unlike its part At.Y"},
		{both, ", unlike its part Both[1]"},
		{other, ", unlike its part Else[1].Else"},
		{blank, ""},
		{nil, ""},
		{math.Inf(1), ""},
	} {
		x := &Values[any, int]{}
		if err := x.Put("a", map[any]int{"kept": 1}); err != nil {
			t.Fatal(err)
		}
		err := x.Put("a", map[any]int{"other": 2, tt.key: 2})
		if tt.want == "" {
			if err != nil || x.Len() != 2 {
				t.Errorf("%+v: got %v and %v", tt.key, err, x.All())
			}
		} else if err == nil || !strings.HasSuffix(err.Error(), tt.want) || x.Len() != 1 || !x.Has("kept") {
			t.Errorf("%+v: got %v and %v, want an error with %q, and the former values", tt.key, err, x.All(), tt.want)
		}
		if x.Drop("a"); x.Len() != 0 {
			t.Errorf("%+v: got %v, want an empty index", tt.key, x.All())
		}
	}
}

// A map panics for a key that cannot be compared. The index can be changed nevertheless.
func TestUncomparableKey(t *testing.T) {
	for name, read := range map[string]func(x *Values[any, int]){
		"Get":    func(x *Values[any, int]) { x.Get([]int{}) },
		"Has":    func(x *Values[any, int]) { x.Has([]int{}) },
		"Lookup": func(x *Values[any, int]) { x.Lookup([]int{}) },
	} {
		x := &Values[any, int]{}
		if err := x.Put("a", map[any]int{1: 1}); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }() // as for any map
			read(x)
		}()
		if !x.mu.TryLock() {
			t.Errorf("after %s, the index is locked", name)
		}
	}
}

// BenchmarkPut replaces one of a thousand values under a key.
func BenchmarkPut(b *testing.B) {
	x := &Values[string, int]{}
	for i := range 1000 {
		_ = x.Put(fmt.Sprint("owner-", i), map[string]int{"all": i})
	}
	values := map[string]int{"all": -1}
	b.ReportAllocs()
	for b.Loop() {
		_ = x.Put("owner-3", values)
	}
}
