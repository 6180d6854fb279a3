package livepage

import (
	"context"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
)

// The extent of a history.
const (
	sampleEvery = 30 * time.Second
	maxSamples  = int(time.Hour / sampleEvery)
)

// Sample is the state of the work at one moment.
type Sample struct {
	Waiting   int   // objects that wait for a worker
	Succeeded int64 // calls of handlers since the start
	Failed    int64 // the same, with those to retry
}

// History is the work in the last hour, the oldest interval first. The names of its fields in JSON
// are stable.
type History struct {
	Interval  int     `json:"intervalSeconds"`
	Waiting   []int   `json:"waiting"`   // at the end of each interval
	Succeeded []int64 `json:"succeeded"` // calls within each interval
	Failed    []int64 `json:"failed"`
}

// recorder keeps the samples of the last hour. It is safe for concurrent use.
type recorder struct {
	mu      sync.Mutex
	samples []Sample // one more than intervals
}

// Record takes samples until the context ends.
func (s *Server) Record(ctx context.Context) {
	for {
		s.past.add(s.Source.Sample())
		if await.Sleep(ctx, sampleEvery) != nil {
			return
		}
	}
}

func (r *recorder) add(s Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.samples = append(r.samples, s); len(r.samples) > maxSamples+1 {
		r.samples = append(r.samples[:0], r.samples[1:]...)
	}
}

// history returns the complete intervals.
func (r *recorder) history() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Interval: int(sampleEvery / time.Second), Waiting: []int{}, Succeeded: []int64{}, Failed: []int64{}}
	for i := 1; i < len(r.samples); i++ {
		before, now := r.samples[i-1], r.samples[i]
		h.Waiting = append(h.Waiting, now.Waiting)
		h.Succeeded = append(h.Succeeded, now.Succeeded-before.Succeeded)
		h.Failed = append(h.Failed, now.Failed-before.Failed)
	}
	return h
}
