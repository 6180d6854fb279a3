package kopf

import (
	"runtime"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	const mib = 1 << 20
	for kept, want := range map[uint64]int{0: 250, 1 * mib: 250, 2 * mib: 250, 4 * mib: 150, 5 * mib: 100, 8 * mib: 50, 20 * mib: 50, 64 * mib: 100, 1 << 40: 100} {
		if got := growth(kept); got != want {
			t.Errorf("growth(%d) = %d, want %d", kept, got, want)
		}
	}
}

func TestAfterCollection(t *testing.T) {
	done := make(chan struct{}, 10)
	afterCollection(func() {
		select {
		case done <- struct{}{}:
		default: // nobody waits any more
		}
	})
	for range 3 {
		runtime.GC()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("nothing is called after a collection")
		}
	}
}
