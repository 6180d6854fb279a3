package kopf

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// This file knows whether the operator works or pauses, and for whom. Time is cut into rounds, in which the operator works
// and pauses in turn; what belongs to a round that is over has no say any more. Whoever finds a reason to pause calls block on
// a goroutine of its own, and those who work look at the number of the round.

// pausing is the pausing of an operator. A nil one never pauses.
type pausing struct {
	round atomic.Uint64 // even while the operator works, odd while it pauses

	mu       sync.Mutex // guards following
	blockers []string   // the names of those who want it to pause
	end      context.Context
	turn     context.CancelFunc // ends the above with the round; nil if nobody has asked for it
}

// now returns the number of the round.
func (p *pausing) now() uint64 {
	if p == nil {
		return 0
	}
	return p.round.Load()
}

// paused tells whether the operator pauses now.
func (p *pausing) paused() bool { return p.now()%2 == 1 }

// block notes that somebody wants the operator to pause, or does not want it any more. When it returns, the new round
// has begun: nothing of the old one will start.
func (p *pausing) block(name string, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.blockers, name); i < 0 && wanted {
		p.blockers = append(p.blockers, name)
	} else if i >= 0 && !wanted {
		p.blockers = slices.Delete(p.blockers, i, i+1)
	}
	if p.paused() == (len(p.blockers) > 0) {
		return
	}
	p.round.Add(1)
	if p.turn != nil {
		p.turn()
		p.turn = nil
	}
}

// look returns the number of the round, a context that ends with it, and who wants the operator to pause.
func (p *pausing) look() (round uint64, end context.Context, blockers string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn == nil {
		p.end, p.turn = context.WithCancel(context.Background())
	}
	return p.now(), p.end, strings.Join(p.blockers, ", ")
}

// await waits until the operator works, and returns the number of that round, with a context that ends at the round's end or
// when it is released. A function is told of a pause before its end is awaited.
func (p *pausing) await(ctx context.Context, pause func(blockers string)) (inner context.Context, round uint64, release func()) {
	inner, cancel := context.WithCancel(ctx)
	for {
		round, end, blockers := p.look()
		if blockers == "" || ctx.Err() != nil {
			stop := context.AfterFunc(end, cancel)
			return inner, round, func() { stop(); cancel() }
		}
		pause(blockers)
		select {
		case <-end.Done():
		case <-ctx.Done():
		}
	}
}
