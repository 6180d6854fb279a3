package chaos

import "github.com/kopf-go/kopf/e2e/chaos/journal"

// This file counts the faults within the operator: storages, predicates and transformations that panic.

// inside counts the faults in the operator's journal.
func (e *Evidence) inside(counts *tally) {
	for _, entry := range e.Journal {
		if entry.Event == journal.Panicked {
			counts.add(entry.Note)
		}
	}
}
