// Package boundedset remembers a limited number of texts.
package boundedset

import "sync"

// maxTexts limits the set, because clients can invent any number of texts.
const maxTexts = 100

// Set is a growing set of texts, up to a limit. It is safe for concurrent use.
type Set struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// Add adds a text, and reports whether it is new and the set was not full.
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
