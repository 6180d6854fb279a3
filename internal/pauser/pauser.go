// Package pauser tracks whether and why an operator pauses. Time is divided into epochs of work and of pause, in turn. Work of an earlier epoch is ignored.
// Peers pause the operator on their own goroutines, and workers compare the number of the epoch.
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
	blockers []string   // reasons to pause, by name
	end      context.Context
	cancel   context.CancelFunc // cancels the above at the end of the epoch; nil if unused
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

// IsPause reports whether the operator pauses in an epoch.
func IsPause(epoch uint32) bool { return epoch%2 == 1 }

// Block adds or removes a reason to pause. When it returns, the new epoch has begun, and no work of the old one starts any more.
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

// Blockers returns the reasons to pause, or "" if the operator works.
func (p *Pauser) Blockers() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.blockers, ", ")
}

// WaitActive waits until the operator works, and returns the number of that epoch, with a context that ends with the epoch or with release. Before it waits for
// the end of a pause, it calls a function.
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
