package metrics

import (
	"slices"
	"strings"
)

// reconciling is the section of the page that shows reconcile handlers as controllers, and their children.
type reconciling struct{ reconciler Reconciler }

func (s reconciling) write(v *view, p *page) {
	p.table(controllerFamilies, v.controllers())
	var rows []*row
	counts := s.reconciler.CountChildren()
	for _, r := range v.resources {
		n := counts[r]
		if n == nil {
			if n = (&[3]float64{}); !r.wrote.Load() {
				continue
			}
		}
		one := newRow(r.name, "", r.writes[:])
		one.numbers = append(n[:len(n):len(n)], one.numbers...)
		rows = append(rows, one)
	}
	p.table(childFamilies, rows)
}

// controllers returns the rows of the reconcile handlers.
func (v *view) controllers() (all []*row) {
	handlers := v.handlers.Load()
	for _, id := range handlers.ids {
		h := handlers.byID[id]
		if Kind(h.kind.Load()) != Reconcile {
			continue
		}
		running, _, _ := h.running.look(v.now)
		failures := load(&h.results[Failure])
		errors := load(&h.results[Retry]) + failures
		one := newRow(id, "", h.settled[:], errors, 0, errors, failures, load(&h.panics), float64(running), float64(v.limit))
		one.histograms = []*histogram{&h.durations}
		all = append(all, one)
	}
	return all
}

// live implements [section].
func (s reconciling) live() (all []LiveChildren) {
	for r, n := range s.reconciler.CountChildren() {
		all = append(all, LiveChildren{r.name, int64(n[0]), int64(n[1]), int64(n[2])})
	}
	slices.SortFunc(all, func(a, b LiveChildren) int { return strings.Compare(a.Resource, b.Resource) })
	return all
}
