package metrics

import (
	"sync/atomic"
	"time"
)

// bounds are the upper bounds of the duration buckets, in seconds, and boundTexts their text on the page.
var bounds = [...]float64{0.005, 0.05, 0.5, 1, 5, 30, 300}

var boundTexts = [...]string{"0.005", "0.05", "0.5", "1.0", "5.0", "30.0", "300.0", "+Inf"}

// histogram counts durations.
type histogram struct {
	buckets  [len(bounds) + 1]atomic.Int64
	nanos    atomic.Int64 // sum of all durations
	exemplar atomic.Pointer[exemplars]
}

//go:noinline
func (h *histogram) observe(d time.Duration) {
	h.nanos.Add(int64(d))
	h.buckets[bucketOf(d.Seconds())].Add(1)
}

// bucketOf returns the index of a duration's bucket.
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
