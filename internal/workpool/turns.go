package workpool

import "sync"

// Turn is what waits to go on.
type Turn struct {
	run    func()        // what the worker does; nil for one that is there, and waits for ready
	ready  chan struct{} // closed when it may go on
	urgent bool
	taken  bool
}

// newTurn returns a turn of a worker that waits.
func newTurn(urgent bool) *Turn { return &Turn{ready: make(chan struct{}), urgent: urgent} }

// Ready returns a channel that is closed when the turn has come.
func (t *Turn) Ready() <-chan struct{} { return t.ready }

// fairness is how many turns there are for one that is for what is not urgent, if both wait.
const fairness = 5

// turns are those that wait, in the order in which they came, the urgent ones first. Every fifth turn is for one that is not, so that none waits for ever.
type turns struct {
	urgent, routine []*Turn
	waiting         int
	served          int // turns since the last one that was not urgent
}

func (w *turns) push(t *Turn) {
	w.waiting++
	if t.urgent {
		w.urgent = append(w.urgent, t)
	} else {
		w.routine = append(w.routine, t)
	}
}

// hurry makes a turn that waits an urgent one.
func (w *turns) hurry(t *Turn) {
	if !t.urgent && !t.taken {
		t.urgent = true
		w.urgent = append(w.urgent, t)
	}
}

// drop takes a turn away that does not wait any more.
func (w *turns) drop(t *Turn) {
	if !t.taken {
		t.taken = true
		w.waiting--
	}
}

// pop takes the next turn, nil if none waits.
func (w *turns) pop() *Turn {
	w.urgent = skip(w.urgent, func(t *Turn) bool { return t.taken })
	w.routine = skip(w.routine, func(t *Turn) bool { return t.taken || t.urgent })
	from := &w.urgent
	if w.served++; len(w.urgent) == 0 || len(w.routine) > 0 && w.served >= fairness {
		from, w.served = &w.routine, 0
	}
	if len(*from) == 0 {
		return nil
	}
	t := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	t.taken = true
	w.waiting--
	return t
}

// skip returns the turns from the first one that still waits.
func skip(all []*Turn, over func(*Turn) bool) []*Turn {
	for len(all) > 0 && over(all[0]) {
		all[0] = nil
		all = all[1:]
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Slots lets a limited number go on at the same time.
type Slots struct {
	mu    sync.Mutex // guards following
	free  int
	turns turns
}

// NewSlots returns so many slots.
func NewSlots(n int) *Slots { return &Slots{free: n} }

// Enter returns a turn, whose channel is closed when it has a slot. Urgent ones come first, but for every fifth.
func (s *Slots) Enter(urgent bool) *Turn {
	t := newTurn(urgent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 && s.turns.waiting == 0 {
		s.free--
		t.taken = true
		close(t.ready)
		return t
	}
	s.turns.push(t)
	return t
}

// Hurry makes a turn urgent, if it waits.
func (s *Slots) Hurry(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns.hurry(t)
}

// Leave ends a turn that is not wanted any more.
func (s *Slots) Leave(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.taken {
		s.releaseLocked()
	} else {
		s.turns.drop(t)
	}
}

// Release gives a slot to the next turn.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

func (s *Slots) releaseLocked() {
	if next := s.turns.pop(); next != nil {
		close(next.ready)
	} else {
		s.free++
	}
}
