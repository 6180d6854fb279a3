package chaos

import "github.com/kopf-go/kopf/e2e/chaos/journal"

// This file counts what the operator has let go wrong in itself: storages, predicates and transformations that panic.

// inside counts the faults that the operator tells of.
func (e *Evidence) inside(counts *tally) {
	for _, entry := range e.Journal {
		if entry.Event == journal.Panicked {
			counts.add(entry.Note)
		}
	}
}
