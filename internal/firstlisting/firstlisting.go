// Package firstlisting counts the objects in the first lists of a resource's watch streams, for one log line.
package firstlisting

import (
	"log/slog"
	"sync"
	"time"
)

// Counts are numbers of objects in a list, including those without work: they were handled before, or no handler matches them.
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

// Listing is the first list of a resource, from several streams: one for each namespace.
type Listing struct {
	mu      sync.Mutex // guards following
	began   time.Time  // zero before the first list
	waiting map[any]struct{}
	counts  Counts
	some    bool // a stream has completed its list
	logged  bool
}

// Add adds a stream to wait for.
func (l *Listing) Add(stream any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = make(map[any]struct{})
	}
	l.waiting[stream] = struct{}{}
}

// Begin records that a stream begins to list.
func (l *Listing) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
}

// End adds the first list of one stream. After the last stream, it logs the sum.
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

// Leave removes a stream whose namespace was deleted, perhaps before its list. The other streams do not wait for it.
func (l *Listing) Leave(log *slog.Logger, resource string, stream any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, stream)
	l.logLocked(log, resource)
}

// Forget removes all streams, because the resource was deleted or is served in another version.
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
