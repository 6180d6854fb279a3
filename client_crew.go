package kopf

import (
	"context"
	"sync"
	"time"
)

// This file knows how many goroutines work on objects at the same time. Ten thousand new objects need no ten thousand goroutines, most of
// which would wait for their turn at the API server with all that they hold: the objects wait as they came, and the listings that bring more
// of them wait, too. Whoever runs a function of a user, or pauses, does not count, so that nobody ever waits for those.

// crew has a place for each of those who work. A nil crew has places for all.
type crew struct {
	limit int

	mu        sync.Mutex // guards following
	working   int
	returning []chan struct{} // of those who want their places back, the first one first
	ready     []func()        // starts those who have not begun; ready[begun:] are left
	begun     int
	lulls     []chan struct{} // of those who wait until few are left
}

func newCrew(maxInFlight int) *crew {
	if maxInFlight <= 0 {
		maxInFlight = NewSettings().Networking.MaxInFlight
	}
	return &crew{limit: maxInFlight}
}

// start calls a function that starts a worker, as soon as there is a place for it. The worker gives the place up with leave.
func (c *crew) start(run func()) {
	if c == nil {
		run()
		return
	}
	c.mu.Lock()
	if c.working >= c.limit {
		c.ready = append(c.ready, run)
		c.mu.Unlock()
		return
	}
	c.working++
	c.mu.Unlock()
	run()
}

// leave gives a place up: to somebody who returns, or to somebody who has not begun.
func (c *crew) leave() {
	if c == nil {
		return
	}
	c.mu.Lock()
	if len(c.returning) > 0 {
		close(c.returning[0])
		c.returning = c.returning[1:]
		c.mu.Unlock()
		return
	}
	if c.begun == len(c.ready) || c.working > c.limit {
		c.working--
		c.mu.Unlock()
		return
	}
	next := c.ready[c.begun]
	c.ready[c.begun] = nil
	if c.begun++; c.begun == len(c.ready) {
		c.ready, c.begun = nil, 0
	}
	if len(c.ready)-c.begun <= lull {
		for _, waits := range c.lulls {
			close(waits)
		}
		c.lulls = nil
	}
	c.mu.Unlock()
	next()
}

// enter waits for a place.
func (c *crew) enter() {
	if c == nil {
		return
	}
	c.mu.Lock()
	if c.working < c.limit {
		c.working++
		c.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	c.returning = append(c.returning, turn)
	c.mu.Unlock()
	<-turn
}

// lull is how many may still wait for a place when more are asked for.
const lull = 100

// rest waits until few are left that have not begun, for a limited time.
func (c *crew) rest(ctx context.Context, limit time.Duration) {
	if c == nil || limit <= 0 {
		return
	}
	c.mu.Lock()
	if len(c.ready)-c.begun <= lull {
		c.mu.Unlock()
		return
	}
	calm := make(chan struct{})
	c.lulls = append(c.lulls, calm)
	c.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-calm:
	case <-t.C:
	case <-ctx.Done():
	}
}

type crewKey struct{}

// withCrew returns a context whose requests are made by members of a crew, which leave their places while they pause.
func withCrew(ctx context.Context, c *crew) context.Context {
	return context.WithValue(ctx, crewKey{}, c)
}

// pause is sleep for those who may be members of a crew.
func pause(ctx context.Context, d time.Duration) error {
	c, _ := ctx.Value(crewKey{}).(*crew)
	c.leave()
	defer c.enter()
	return sleep(ctx, d)
}
