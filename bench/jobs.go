package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// result is the result of one run of a job. Zero means that the job does not measure it.
type result struct {
	wall      time.Duration
	cpu       time.Duration
	server    time.Duration // CPU time of kube-apiserver and etcd
	etcd      time.Duration // of etcd alone
	settled   int64         // bytes
	peak      int64
	p50, p99  time.Duration // until the result is in the status
	recorded  tail          // until all is written, including the last-handled configuration
	requests  map[string]int
	perObject int64   // bytes of memory, in addition to an idle operator
	reordered float64 // CPU, relative to a restart with the stored state as the operator writes it
}

// tail has the maximum times for half of the objects, and for 99 % of them.
type tail struct{ p50, p99 time.Duration }

// tailOf computes the tail from durations.
func tailOf(took []time.Duration) tail {
	if len(took) == 0 {
		return tail{}
	}
	slices.Sort(took)
	return tail{took[len(took)/2], took[len(took)*99/100]}
}

// kind is the kind of a job, which determines its targets.
type kind int

const (
	other kind = iota
	handling
	restarting
	answering
	ignoring
	storming
	resting
	takeover
	handover
	huge
	parenting
	reparenting
	reparentingPages
	repairing
	unparented
)

// job is one of the tasks for the operators.
type job struct {
	kind    kind
	name    string
	unit    int  // the number of objects or changes that the costs are divided by
	count   int  // the number of widgets before the operator starts
	handled bool // which the same operator has handled
	// shared is set if the job can use widgets that another operator has handled, because both leave the same status.
	shared bool
	// reordered is set if the stored state has another format: other programs keep neither the order of keys nor the spacing.
	reordered bool
	// namespaces is the number of separately watched namespaces; 0 for the whole cluster.
	namespaces int
	pages      int                // the number of pages of each object, which are its children; 0 if it has none, or others
	kopfOnly   bool               // whether only kopf runs the job
	changed    bool               // whether the job changes objects, so that they are handled again
	orderly    bool               // whether replicas are shut down
	args       []string           // additional arguments of the operator
	before     func(server) error // runs before the operator starts
	// again replaces do for a job that starts more operators, and stops the first one.
	again func(ctx context.Context, s server, o *operator, start func() (*operator, error)) (result, error)
	// do runs the job with an operator that has just started. A negative CPU time in the result is subtracted.
	do func(ctx context.Context, s server, o *operator) (result, error)
}

// server is an API server with widgets, for the jobs.
type server interface {
	// Kubeconfig returns the path of a kubeconfig for the server.
	Kubeconfig() string
	// Add creates one more widget.
	Add(ctx context.Context) error
	// Change changes the status of count widgets from a number on, like another client.
	Change(ctx context.Context, from, count int) error
	// Resize increments the desired size of count widgets from a number on. They are handled when the status has the new size.
	Resize(ctx context.Context, from, count int) error
	// OnHandled calls a function for each widget that is added or resized from now on. It gets the times until the status has the size, and until all is
	// written.
	OnHandled(f func(answered, recorded time.Duration))
	// Handled returns the number of completely handled widgets.
	Handled() (int, error)
	// CPU returns the CPU time of etcd, and of the whole server; zero if the server is part of the bench.
	CPU() (etcd, all time.Duration)
	// Watched returns the start of the operator's first watch, and the server's time for responses until then.
	Watched(ctx context.Context) (time.Time, time.Duration, error)
	// Requests returns the requests for widgets by an operator that has ended, by verb.
	Requests(ctx context.Context) (map[string]int, error)
	// Close releases the server.
	Close()
}

// place is where jobs run. Its servers are used one after the other.
type place interface {
	open(ctx context.Context, v variant, dir string, j job) (server, error)
	name() string
	close()
}

// run runs the job once.
func (j job) run(ctx context.Context, p place, v variant, dir string) (result, error) {
	s, err := p.open(ctx, v, dir, j)
	if err != nil {
		return result{}, err
	}
	defer s.Close()
	etcd, server := s.CPU()
	if j.before != nil {
		if err := j.before(s); err != nil {
			return result{}, err
		}
	}
	v.args = append(slices.Clone(v.args), j.args...)
	start := func() (*operator, error) { return v.start(dir, s.Kubeconfig(), j.namespaces) }
	o, err := start()
	if err != nil {
		return result{}, err
	}
	defer o.kill()
	if j.again != nil {
		return j.again(ctx, s, o, start)
	}
	r, err := j.do(ctx, s, o)
	if err != nil {
		return r, err
	}
	if err := o.settle(ctx); err != nil {
		return r, err
	}
	r.cpu += o.cpu()
	r.settled, r.peak = o.memory()
	etcdNow, serverNow := s.CPU()
	r.etcd, r.server = etcdNow-etcd, serverNow-server
	if err := o.stop(); err != nil {
		return r, err
	}
	r.requests, err = s.Requests(ctx)
	if n := r.requests["patch"]; err == nil && n > 0 && j.handled && j.kind != storming && !j.changed {
		err = fmt.Errorf("%d patches were sent, although all objects were handled", n)
	}
	return r, err
}

// waitFor waits for a condition while the operator runs.
func waitFor(ctx context.Context, o *operator, done func() (bool, error)) error {
	limit := time.Now().Add(15 * time.Minute)
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

// waitForWatch waits until an operator watches and is idle.
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

// backlog measures the handling of many new objects.
func backlog(count int) job {
	return job{kind: handling, name: fmt.Sprintf("backlog of %d", count), unit: count, count: count, do: func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForHandled(ctx, s, o, count); err != nil {
			return result{}, err
		}
		return result{wall: time.Since(o.started)}, nil
	}}
}

// restart starts an operator with objects that it has handled before.
func restart(count int) job {
	return job{kind: restarting, name: fmt.Sprintf("restart over %d", count), unit: count, count: count, handled: true, do: nothing}
}

// restartReordered is a restart with objects whose stored state has another order of keys, and spaces.
func restartReordered(count int) job {
	j := restart(count)
	j.name, j.reordered = j.name+", keys in another order", true
	return j
}

// restartHuge starts the operator of kopf with too many objects for the others. The wall time is from its start until it is idle.
func restartHuge(count int) job {
	j := restart(count)
	j.kind, j.kopfOnly = huge, true
	j.do = func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		return result{wall: time.Since(o.started) - calm}, nil
	}
	return j
}

// nothing does no work except the start.
func nothing(context.Context, server, *operator) (result, error) { return result{}, nil }

// ignored changes the status of handled objects as fast as the server can, at most 10,000 times a second.
func ignored(count int) job {
	return job{kind: ignoring, name: fmt.Sprintf("%d changes to ignore", count), unit: count, count: 1000, handled: true, do: func(ctx context.Context, s server, o *operator) (result, error) {
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

// changing changes the status of handled objects at a rate, for a duration.
func changing(perSecond int, over time.Duration) job {
	count := int(over.Seconds() * float64(perSecond))
	return job{kind: other, name: fmt.Sprintf("%d changes a second to ignore", perSecond), unit: count, count: 1000, handled: true, do: func(ctx context.Context, s server, o *operator) (result, error) {
		if err := o.settle(ctx); err != nil {
			return result{}, err
		}
		r := result{cpu: -o.cpu()}
		began := time.Now()
		err := atRate(ctx, count, perSecond, func(from, count int) error { return s.Change(ctx, from, count) })
		r.wall = time.Since(began)
		return r, err
	}}
}

// atRate calls a function for batches of changes, at the given rate per second.
func atRate(ctx context.Context, count, perSecond int, change func(from, count int) error) error {
	began := time.Now()
	ticker := time.NewTicker(max(10*time.Millisecond, time.Second/time.Duration(perSecond)))
	defer ticker.Stop()
	for sent := 0; sent < count; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		due := min(count, int(time.Since(began).Seconds()*float64(perSecond)))
		if err := change(sent, due-sent); err != nil {
			return err
		}
		sent = due
	}
	return nil
}

// storm changes the specs of handled objects at a rate, each once. The wall time is from the first change until all are handled.
func storm(objects, count, perSecond int) job {
	return job{kind: storming, name: fmt.Sprintf("storm of %d changes, %d a second, over %d", count, perSecond, objects), unit: count, count: objects, handled: true, do: func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		r := result{cpu: -o.cpu()}
		times := newTimes(s)
		began := time.Now()
		err := atRate(ctx, count, perSecond, func(from, count int) error { return s.Resize(ctx, from, count) })
		if err != nil {
			return r, err
		}
		err = times.waitFor(ctx, o, count)
		r.wall = time.Since(began)
		times.show(s, &r)
		return r, err
	}}
}

// times collects the handling times of objects.
type times struct {
	mu                 sync.Mutex // guards all below
	answered, recorded []time.Duration
}

func newTimes(s server) *times {
	t := &times{}
	s.OnHandled(func(answered, recorded time.Duration) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answered, t.recorded = append(t.answered, answered), append(t.recorded, recorded)
	})
	return t
}

// waitFor waits until the given number of objects is handled.
func (t *times) waitFor(ctx context.Context, o *operator, count int) error {
	return waitFor(ctx, o, func() (bool, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return len(t.recorded) == count, nil
	})
}

// show ends the collection, and sets the times in the result.
func (t *times) show(s server, r *result) {
	s.OnHandled(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	answered := tailOf(t.answered)
	r.p50, r.p99, r.recorded = answered.p50, answered.p99, tailOf(t.recorded)
}

// latency creates objects at a low rate, and measures the time until each is handled.
func latency(count, perSecond int) job {
	return job{kind: answering, name: fmt.Sprintf("%d created, %d a second", count, perSecond), unit: count, do: func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		r := result{cpu: -o.cpu()}
		times := newTimes(s)
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for range count {
			<-ticker.C
			if err := s.Add(ctx); err != nil {
				return r, err
			}
		}
		err := times.waitFor(ctx, o, count)
		times.show(s, &r)
		return r, err
	}}
}

// namespaced starts an idle operator that watches many namespaces separately.
func namespaced(count int) job {
	return job{kind: other, name: fmt.Sprintf("idle in %d namespaces", count), unit: 1, namespaces: count, do: func(ctx context.Context, s server, o *operator) (result, error) {
		err := waitForWatch(ctx, s, o)
		return result{}, err
	}}
}

// idle starts an operator without work. Its wall time is that until the first watch, without the time of the server.
func idle() job {
	return job{kind: resting, name: "idle", unit: 1, do: func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		at, answered, err := s.Watched(ctx)
		return result{wall: at.Sub(o.started) - answered}, err
	}}
}
