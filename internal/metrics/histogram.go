package metrics

import (
	"sync/atomic"
	"time"
)

// bounds are the upper bounds of the buckets of durations, in seconds, and boundTexts what the page has for them.
var bounds = [...]float64{0.005, 0.05, 0.5, 1, 5, 30, 300}

var boundTexts = [...]string{"0.005", "0.05", "0.5", "1.0", "5.0", "30.0", "300.0", "+Inf"}

// histogram counts durations.
type histogram struct {
	buckets  [len(bounds) + 1]atomic.Int64
	nanos    atomic.Int64 // of all
	exemplar atomic.Pointer[exemplars]
}

//go:noinline
func (h *histogram) observe(d time.Duration) {
	h.nanos.Add(int64(d))
	h.buckets[bucketOf(d.Seconds())].Add(1)
}

// bucketOf returns the place of the bucket of a duration.
//
//go:noinline
func bucketOf(seconds float64) int {
	for i, bound := range bounds {
		if seconds <= bound {
			return i
		}
	}
	return len(bounds)
}
