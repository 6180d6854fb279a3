package heaptrim

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestTrimmer(t *testing.T) {
	type look struct {
		collections uint32
		retained    uint64
		want        bool
		after       int // looks before
	}
	const mb = 1 << 20
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"nothing was collected", []look{{0, 100 * mb, false, 0}, {0, 100 * mb, false, 0}}},
		{"the first burst", []look{{3, 100 * mb, false, 0}, {5, 100 * mb, false, 0}, {5, 100 * mb, true, 0}, {6, 50 * mb, false, 0}, {6, 50 * mb, false, 0}}},
		{"a collection without a burst", []look{{1, 50 * mb, false, 0}, {1, 50 * mb, true, 0}, {2, 50 * mb, false, 0}, {3, 60 * mb, false, 0}, {3, 60 * mb, false, 0}}},
		{"another burst", []look{{1, 50 * mb, false, 0}, {1, 50 * mb, true, 0}, {2, 50 * mb, false, 0}, {9, 90 * mb, false, 0}, {9, 90 * mb, false, 0}, {12, 90 * mb, false, 4}, {12, 90 * mb, true, 0}}},
		{"work without an end", []look{{1, 90 * mb, false, 0}, {2, 90 * mb, false, 0}, {3, 90 * mb, false, 0}, {4, 90 * mb, false, 0}}},
		{"a small process", []look{{1, 1 * mb, false, 0}, {1, 1 * mb, false, 0}, {1, 1 * mb, false, 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trim := trimmer{}
			for i, l := range tt.looks {
				for range l.after {
					trim.rests(l.collections - 1)
				}
				got := trim.rests(l.collections) && trim.exceeds(l.retained)
				if got != l.want {
					t.Errorf("look %d: got %t, want %t", i, got, l.want)
				}
				if got {
					trim.trimmed(l.collections+1, 50*mb)
				}
			}
		})
	}
}

// TestRun has a process that needed much memory for a moment give it back.
func TestRun(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx)
	}()
	var burst [][]byte
	for range 64 {
		burst = append(burst, make([]byte, 1<<20))
	}
	for _, b := range burst { // pages that were never touched are no memory
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	_, before := look()
	runtime.KeepAlive(burst)
	burst = nil
	runtime.GC() // as it happens in a burst
	for {
		_, retained := look()
		if retained <= before-(48<<20) {
			break
		}
		if ctx.Err() != nil {
			t.Errorf("the process keeps %d MiB after a burst, want less than %d", retained>>20, before>>20-48)
			break
		}
		time.Sleep(10 * time.Millisecond) // the clock of the collector is the real one
	}
	cancel()
	<-ended
}
