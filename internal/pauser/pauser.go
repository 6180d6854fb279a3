// Package pauser knows whether an operator works or pauses, and why. Time is divided into epochs, in which the operator works
// and pauses alternately; what belongs to an epoch that is over is ignored. Peers block it on goroutines of their own, and workers
// compare the number of the epoch.
package pauser

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Pauser pauses an operator. A nil one never pauses.
type Pauser struct {
	current atomic.Uint32 // even while the operator works, odd while it pauses

	mu       sync.Mutex // guards following
	blockers []string   // the reasons to pause, by name
	end      context.Context
	cancel   context.CancelFunc // ends the above with the epoch; nil if it is not used
}

// Epoch returns the number of the epoch.
func (p *Pauser) Epoch() uint32 {
	if p == nil {
		return 0
	}
	return p.current.Load()
}

// Paused reports whether the operator pauses now.
func (p *Pauser) Paused() bool { return IsPause(p.Epoch()) }

// IsPause reports whether the operator pauses in the epoch of a number.
func IsPause(epoch uint32) bool { return epoch%2 == 1 }

// Block adds a reason for the operator to pause, or takes it away. When it returns, the new epoch
// has begun: nothing of the old one will start.
func (p *Pauser) Block(name string, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.blockers, name); i < 0 && wanted {
		p.blockers = append(p.blockers, name)
	} else if i >= 0 && !wanted {
		p.blockers = slices.Delete(p.blockers, i, i+1)
	}
	if p.Paused() == (len(p.blockers) > 0) {
		return
	}
	p.current.Add(1)
	if p.cancel != nil {
		p.cancel()
		p.cancel = nil
	}
}

// state returns the number of the epoch, a context that ends with it, and the reasons to pause.
func (p *Pauser) state() (epoch uint32, end context.Context, blockers string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel == nil {
		p.end, p.cancel = context.WithCancel(context.Background())
	}
	return p.Epoch(), p.end, strings.Join(p.blockers, ", ")
}

// Blockers returns the reasons to pause, "" if the operator works.
func (p *Pauser) Blockers() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.blockers, ", ")
}

// WaitActive waits until the operator works, and returns the number of that epoch, with a context that ends with the epoch or
// when it is released. A function is called for a pause before its end is awaited.
func (p *Pauser) WaitActive(ctx context.Context, pause func(blockers string)) (inner context.Context, epoch uint32, release func()) {
	inner, cancel := context.WithCancel(ctx)
	for {
		epoch, end, blockers := p.state()
		if blockers == "" || ctx.Err() != nil {
			stop := context.AfterFunc(end, cancel)
			return inner, epoch, func() { stop(); cancel() }
		}
		pause(blockers)
		select {
		case <-end.Done():
		case <-ctx.Done():
		}
	}
}
