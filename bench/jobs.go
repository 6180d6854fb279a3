package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// result is what one run of a job has shown. Zero means that the job does not show it.
type result struct {
	wall      time.Duration
	cpu       time.Duration
	settled   int64 // bytes
	peak      int64
	p50, p99  time.Duration
	requests  map[string]int
	perObject int64 // bytes of memory, beyond those of an idle operator
}

// kind is what a job shows, and so what is aimed at in it.
type kind int

const (
	other kind = iota
	handling
	restarting
	answering
	ignoring
	resting
)

// job is one of the tasks that the operators are given.
type job struct {
	kind    kind
	name    string
	unit    int  // the number of objects or changes that the costs are divided by
	count   int  // of widgets that are there before the operator
	handled bool // which were handled by the same operator before
	// do lives through the job with an operator that has just been started. A negative CPU time is what is not to be counted.
	do func(ctx context.Context, s server, o *operator) (result, error)
}

// server is an API server with widgets, as the jobs see it.
type server interface {
	// Kubeconfig returns the path of a file that tells how to reach the server.
	Kubeconfig() string
	// Add creates one more widget.
	Add(ctx context.Context) error
	// Change changes the status of the widgets from one number on, as somebody else would.
	Change(ctx context.Context, from, count int) error
	// OnHandled has a function called with how long it took to handle each widget that is added from now on.
	OnHandled(f func(took time.Duration))
	// Handled returns how many widgets are handled.
	Handled() (int, error)
	// Watched returns when the first watch of the operator began, and how long the server took for its answers until then.
	Watched(ctx context.Context) (time.Time, time.Duration, error)
	// Requests returns what an operator that has ended has asked of widgets, by the verb.
	Requests(ctx context.Context) (map[string]int, error)
	// Close ends the use of the server.
	Close()
}

// place is where jobs are done. Its servers are used one after the other.
type place interface {
	open(ctx context.Context, v variant, dir string, count int, handled bool) (server, error)
	name() string
	close()
}

// run has the job done once.
func (j job) run(ctx context.Context, p place, v variant, dir string) (result, error) {
	s, err := p.open(ctx, v, dir, j.count, j.handled)
	if err != nil {
		return result{}, err
	}
	defer s.Close()
	o, err := v.start(dir, s.Kubeconfig())
	if err != nil {
		return result{}, err
	}
	defer o.kill()
	r, err := j.do(ctx, s, o)
	if err != nil {
		return r, err
	}
	if err := o.settle(ctx); err != nil {
		return r, err
	}
	r.cpu += o.cpu()
	r.settled, r.peak = o.memory()
	if err := o.stop(); err != nil {
		return r, err
	}
	r.requests, err = s.Requests(ctx)
	if n := r.requests["patch"]; err == nil && n > 0 && j.handled {
		err = fmt.Errorf("%d patches were sent, although all objects were handled", n)
	}
	return r, err
}

// waitFor waits for what an operator is to do.
func waitFor(ctx context.Context, o *operator, done func() (bool, error)) error {
	limit := time.Now().Add(5 * time.Minute)
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		if o.dead() {
			return fmt.Errorf("it has ended by itself: %w\n%s", o.err, &o.stderr)
		}
		if time.Now().After(limit) {
			o.kill()
			return fmt.Errorf("it takes too long\n%s", &o.stderr)
		}
	}
}

func waitForHandled(ctx context.Context, s server, o *operator, count int) error {
	return waitFor(ctx, o, func() (bool, error) {
		n, err := s.Handled()
		return n == count, err
	})
}

// waitForWatch waits until an operator watches and has come to rest.
func waitForWatch(ctx context.Context, s server, o *operator) error {
	err := waitFor(ctx, o, func() (bool, error) {
		at, _, err := s.Watched(ctx)
		return !at.IsZero(), err
	})
	if err != nil {
		return err
	}
	return o.settle(ctx)
}

// backlog has many new objects handled.
func backlog(count int) job {
	return job{handling, fmt.Sprintf("backlog of %d", count), count, count, false, func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForHandled(ctx, s, o, count); err != nil {
			return result{}, err
		}
		return result{wall: time.Since(o.started)}, nil
	}}
}

// restart starts an operator over objects that it has handled before.
func restart(count int) job {
	return job{restarting, fmt.Sprintf("restart over %d", count), count, count, true, func(ctx context.Context, s server, o *operator) (result, error) {
		return result{}, nil
	}}
}

// ignored changes the status of handled objects as fast as the server can, at most 10,000 times a second.
func ignored(count int) job {
	return job{ignoring, fmt.Sprintf("%d changes to ignore", count), count, 1000, true, func(ctx context.Context, s server, o *operator) (result, error) {
		if err := o.settle(ctx); err != nil {
			return result{}, err
		}
		r := result{cpu: -o.cpu()}
		for from := 0; from < count; from += 100 {
			if err := s.Change(ctx, from, 100); err != nil {
				return r, err
			}
			if err := pause(ctx, 10*time.Millisecond); err != nil {
				return r, err
			}
		}
		return r, nil
	}}
}

// changing changes the status of handled objects at a rate, and measures for how long.
func changing(perSecond int, over time.Duration) job {
	count := int(over.Seconds() * float64(perSecond))
	return job{other, fmt.Sprintf("%d changes a second to ignore", perSecond), count, 1000, true, func(ctx context.Context, s server, o *operator) (result, error) {
		if err := o.settle(ctx); err != nil {
			return result{}, err
		}
		r := result{cpu: -o.cpu()}
		began := time.Now()
		ticker := time.NewTicker(max(10*time.Millisecond, time.Second/time.Duration(perSecond)))
		defer ticker.Stop()
		for sent := 0; sent < count; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return r, ctx.Err()
			}
			due := min(count, int(time.Since(began).Seconds()*float64(perSecond)))
			if err := s.Change(ctx, sent, due-sent); err != nil {
				return r, err
			}
			sent = due
		}
		r.wall = time.Since(began)
		return r, nil
	}}
}

// latency creates an object now and then, and measures how long it takes until it is handled.
func latency(count, perSecond int) job {
	return job{answering, fmt.Sprintf("%d created, %d a second", count, perSecond), count, 0, false, func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		r := result{cpu: -o.cpu()}
		var mu sync.Mutex
		var took []time.Duration
		s.OnHandled(func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
		})
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for range count {
			<-ticker.C
			if err := s.Add(ctx); err != nil {
				return r, err
			}
		}
		if err := waitForHandled(ctx, s, o, count); err != nil {
			return r, err
		}
		s.OnHandled(nil)
		mu.Lock()
		defer mu.Unlock()
		if len(took) != count {
			return r, fmt.Errorf("%d of %d objects were seen to be handled", len(took), count)
		}
		slices.Sort(took)
		r.p50, r.p99 = took[len(took)/2], took[len(took)*99/100]
		return r, nil
	}}
}

// idle starts an operator that has nothing to do: its wall time is that until the first watch, beyond what the server took.
func idle() job {
	return job{resting, "idle", 1, 0, false, func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		at, answered, err := s.Watched(ctx)
		return result{wall: at.Sub(o.started) - answered}, err
	}}
}
