// Package firstlisting counts what the streams of a resource list first, for one line in the log.
package firstlisting

import (
	"log/slog"
	"sync"
	"time"
)

// Counts are the numbers of objects of a listing: those that need nothing, because they are as they were handled, or because no handler is for them.
type Counts struct{ objects, upToDate, unmatched int }

// Add counts an object.
func (n *Counts) Add(skipped, unmatched bool) {
	n.objects++
	switch {
	case unmatched:
		n.unmatched++
	case skipped:
		n.upToDate++
	}
}

// Listing is the first listing of a resource, which several streams make: one for each namespace.
type Listing struct {
	mu      sync.Mutex // guards following
	began   time.Time  // zero before the first one has begun
	waiting map[any]struct{}
	counts  Counts
	some    bool // whether there was a complete listing of a stream
	logged  bool
}

// Add has the listing of a stream waited for.
func (l *Listing) Add(stream any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = make(map[any]struct{})
	}
	l.waiting[stream] = struct{}{}
}

// Begin notes that a stream begins to list.
func (l *Listing) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
}

// End takes the first listing of one stream in. The last one has the sum logged.
func (l *Listing) End(log *slog.Logger, resource string, stream any, n Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.waiting[stream]; !waits {
		return
	}
	delete(l.waiting, stream)
	l.counts = Counts{l.counts.objects + n.objects, l.counts.upToDate + n.upToDate, l.counts.unmatched + n.unmatched}
	l.some = true
	l.logLocked(log, resource)
}

// Leave forgets a stream whose namespace is gone, perhaps before it has listed anything. The others do not wait for it.
func (l *Listing) Leave(log *slog.Logger, resource string, stream any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, stream)
	l.logLocked(log, resource)
}

// Forget forgets all streams, whose resource is gone or served in another version.
func (l *Listing) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.waiting)
}

func (l *Listing) logLocked(log *slog.Logger, resource string) {
	if len(l.waiting) > 0 || l.logged || !l.some {
		return
	}
	l.logged = true
	n := &l.counts
	attrs := []any{"resource", resource, "objects", n.objects, "upToDate", n.upToDate}
	if n.unmatched > 0 {
		attrs = append(attrs, "unmatched", n.unmatched)
	}
	log.Info("Listed objects", append(attrs, "toHandle", n.objects-n.upToDate-n.unmatched, "duration", time.Since(l.began).Round(time.Millisecond))...)
}
