package heaptrim

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestTrimmer(t *testing.T) {
	type look struct {
		allocated uint64 // MiB since the last check
		retained  uint64 // MiB
		want      bool
	}
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"the first burst", []look{{200, 80, false}, {90, 100, false}, {0, 100, true}, {0, 50, false}}},
		{"a burst without an end", []look{{9, 90, false}, {9, 90, false}, {9, 90, false}, {9, 90, false}}},
		{"a small process", []look{{1, 1, false}, {0, 1, false}, {0, 2, false}}},
		{"a little more than before", []look{{60, 60, false}, {0, 60, true}, {0, 50, false}, {0, 50, false}, {0, 50, false}, {0, 50, false}, {0, 50, false}, {9, 60, false}, {0, 60, false}}},
		{"another burst", []look{{60, 60, false}, {0, 60, true}, {0, 50, false}, {0, 50, false}, {0, 50, false}, {0, 50, false}, {0, 50, false}, {90, 90, false}, {0, 90, true}}},
		{"another burst at once", []look{{60, 60, false}, {0, 60, true}, {90, 90, false}, {0, 90, false}, {0, 90, false}, {0, 90, false}, {0, 90, false}, {0, 90, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trim, allocated := trimmer{}, uint64(0)
			for i, l := range tt.looks {
				allocated += l.allocated << 20
				got := trim.due(allocated, l.retained<<20)
				if got != l.want {
					t.Errorf("look %d: got %t, want %t", i, got, l.want)
				}
				if got {
					trim.trimmed(allocated, 50<<20)
				}
			}
		})
	}
}

// TestRun checks that a process returns memory after it has needed much for a moment.
func TestRun(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(ctx)
		}()
		var burst [][]byte
		for range 64 {
			burst = append(burst, make([]byte, 1<<20))
		}
		for _, b := range burst { // untouched pages use no memory
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
		}
		_, before := look()
		runtime.KeepAlive(burst) // until here
		time.Sleep(3 * interval) // the second check finds the process idle
		synctest.Wait()
		if _, retained := look(); retained > before-(48<<20) {
			t.Errorf("the process keeps %d MiB after a burst, want less than %d", retained>>20, before>>20-48)
		}
		cancel()
		<-ended
	})
}
