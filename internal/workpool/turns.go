package workpool

import "sync"

// Turn is a worker or a handler that waits to proceed.
type Turn struct {
	run    func()        // function of the worker; nil for an existing one that waits for ready
	ready  chan struct{} // closed when it may proceed
	urgent bool
	taken  bool
}

// newTurn returns a new turn.
func newTurn(urgent bool) *Turn { return &Turn{ready: make(chan struct{}), urgent: urgent} }

// Ready returns a channel that is closed when the turn may proceed.
func (t *Turn) Ready() <-chan struct{} { return t.ready }

// fairness is the number of turns among which one is not urgent, if both kinds wait.
const fairness = 5

// turns are waiting turns: the urgent ones first, and then in order of arrival. Every fifth turn is not urgent, so that none waits forever.
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

// hurry makes a waiting turn urgent.
func (w *turns) hurry(t *Turn) {
	if !t.urgent && !t.taken {
		t.urgent = true
		w.urgent = append(w.urgent, t)
	}
}

// drop removes a turn.
func (w *turns) drop(t *Turn) {
	if !t.taken {
		t.taken = true
		w.waiting--
	}
}

// pop removes and returns the next turn, or nil.
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

// skip returns the turns from the first one on that still waits.
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

// Slots limits concurrency.
type Slots struct {
	mu    sync.Mutex // guards following
	free  int
	turns turns
}

// NewSlots returns n slots.
func NewSlots(n int) *Slots { return &Slots{free: n} }

// Enter returns a turn whose channel is closed when it has a slot. Urgent turns come first, except for every fifth.
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

// Hurry makes a waiting turn urgent.
func (s *Slots) Hurry(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns.hurry(t)
}

// Leave cancels a turn.
func (s *Slots) Leave(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.taken {
		s.releaseLocked()
	} else {
		s.turns.drop(t)
	}
}

// Release passes a slot to the next turn.
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
