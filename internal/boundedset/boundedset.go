// Package boundedset remembers which of a few texts were seen.
package boundedset

import "sync"

// maxTexts bounds what is remembered: more texts than that are made up.
const maxTexts = 100

// Set is a set of texts that only grows, up to a limit. It is safe for concurrent use.
type Set struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// Add adds a text, and reports whether it was not there before, and the set is not full.
func (s *Set) Add(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[string]bool)
	}
	if s.seen[text] || len(s.seen) >= maxTexts {
		return false
	}
	s.seen[text] = true
	return true
}
