package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kopf-go/kopf/bench/replay"
)

// result is what one run of a job has shown. Zero means that the job does not show it.
type result struct {
	wall     time.Duration
	cpu      time.Duration
	settled  int64 // bytes
	peak     int64
	p50, p99 time.Duration
	requests map[string]int
}

// job is one of the tasks that both operators are given.
type job struct {
	name string
	unit int // the number of objects or changes that the costs are divided by
	run  func(ctx context.Context, v variant, dir string) (result, error)
}

// replaying gives a job a server of its own, with so many widgets that are handled already or not.
func replaying(count int, handled bool, run func(ctx context.Context, s *replay.Server, start func() (*operator, error)) (result, error)) func(context.Context, variant, string) (result, error) {
	return func(ctx context.Context, v variant, dir string) (result, error) {
		var marks []json.RawMessage
		if handled {
			var err error
			if marks, err = v.marks(ctx, dir); err != nil {
				return result{}, err
			}
		}
		s, err := replay.New(count, marks)
		if err != nil {
			return result{}, err
		}
		defer s.Close()
		kubeconfig := filepath.Join(dir, "kubeconfig")
		if err := s.WriteKubeconfig(kubeconfig); err != nil {
			return result{}, err
		}
		return run(ctx, s, func() (*operator, error) { return v.start(dir, kubeconfig) })
	}
}

// marks returns what an operator leaves on an object that it has handled, as patches.
func (v variant) marks(ctx context.Context, dir string) ([]json.RawMessage, error) {
	s, err := replay.New(1, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := s.WriteKubeconfig(kubeconfig); err != nil {
		return nil, err
	}
	o, err := v.start(dir, kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := waitFor(ctx, o, func() bool { return s.Handled() == 1 }); err != nil {
		return nil, err
	}
	if err := o.settle(ctx); err != nil {
		return nil, err
	}
	return s.Patches(), o.stop()
}

// waitFor waits for what an operator is to do.
func waitFor(ctx context.Context, o *operator, done func() bool) error {
	limit := time.Now().Add(5 * time.Minute)
	for !done() {
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
	return nil
}

// measured fills in what an operator at rest has cost, and ends it.
func measured(ctx context.Context, o *operator, r result) (result, error) {
	if err := o.settle(ctx); err != nil {
		return r, err
	}
	r.cpu = o.cpu()
	r.settled, r.peak = o.memory()
	return r, o.stop()
}

// backlog has many new objects handled.
func backlog(count int) job {
	return job{fmt.Sprintf("backlog of %d", count), count, replaying(count, false, func(ctx context.Context, s *replay.Server, start func() (*operator, error)) (result, error) {
		o, err := start()
		if err != nil {
			return result{}, err
		}
		if err := waitFor(ctx, o, func() bool { return s.Handled() == count }); err != nil {
			return result{}, err
		}
		r := result{wall: time.Since(o.started)}
		r, err = measured(ctx, o, r)
		r.requests = s.Requests()
		return r, err
	})}
}

// restart starts an operator over objects that it has handled before.
func restart(count int) job {
	return job{fmt.Sprintf("restart over %d", count), count, replaying(count, true, func(ctx context.Context, s *replay.Server, start func() (*operator, error)) (result, error) {
		o, err := start()
		if err != nil {
			return result{}, err
		}
		r, err := measured(ctx, o, result{})
		r.requests = s.Requests()
		if n := r.requests["patch"]; n > 0 && err == nil {
			err = fmt.Errorf("%d objects were patched, although all were handled", n)
		}
		return r, err
	})}
}

// ignored changes the status of handled objects.
func ignored(count int) job {
	return job{fmt.Sprintf("%d changes to ignore", count), count, replaying(1000, true, func(ctx context.Context, s *replay.Server, start func() (*operator, error)) (result, error) {
		o, err := start()
		if err != nil {
			return result{}, err
		}
		if err := o.settle(ctx); err != nil {
			return result{}, err
		}
		before := o.cpu()
		for i := range count {
			if err := s.Tick(i%1000, i+1); err != nil {
				return result{}, err
			}
			if i%100 == 99 { // 10,000 a second
				if err := pause(ctx, 10*time.Millisecond); err != nil {
					return result{}, err
				}
			}
		}
		r, err := measured(ctx, o, result{})
		r.cpu -= before
		r.requests = s.Requests()
		return r, err
	})}
}

// latency creates an object now and then, and measures how long it takes until it is handled.
func latency(count, perSecond int) job {
	return job{fmt.Sprintf("%d created, %d a second", count, perSecond), count, replaying(0, false, func(ctx context.Context, s *replay.Server, start func() (*operator, error)) (result, error) {
		o, err := start()
		if err != nil {
			return result{}, err
		}
		if err := waitFor(ctx, o, func() bool { at, _ := s.Watched(); return !at.IsZero() }); err != nil {
			return result{}, err
		}
		if err := o.settle(ctx); err != nil {
			return result{}, err
		}
		before := o.cpu()
		var mu sync.Mutex
		began := map[int]time.Time{}
		var took []time.Duration
		s.OnHandled(func(i int) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began[i]))
		})
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for i := range count {
			<-ticker.C
			mu.Lock()
			began[i] = time.Now()
			mu.Unlock()
			s.Add()
		}
		if err := waitFor(ctx, o, func() bool { return s.Handled() == count }); err != nil {
			return result{}, err
		}
		r, err := measured(ctx, o, result{})
		r.cpu -= before
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(took)
		r.p50, r.p99 = took[len(took)/2], took[len(took)*99/100]
		r.requests = s.Requests()
		return r, err
	})}
}

// idle starts an operator that has nothing to do: its wall time is that until the first watch, beyond what the server took.
func idle() job {
	return job{"idle", 1, replaying(0, false, func(ctx context.Context, s *replay.Server, start func() (*operator, error)) (result, error) {
		o, err := start()
		if err != nil {
			return result{}, err
		}
		if err := waitFor(ctx, o, func() bool { at, _ := s.Watched(); return !at.IsZero() }); err != nil {
			return result{}, err
		}
		at, answered := s.Watched()
		return measured(ctx, o, result{wall: at.Sub(o.started) - answered})
	})}
}

// sizeOf returns the size of a variant's binary.
func sizeOf(v variant, dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, v.program))
	if err != nil {
		return 0
	}
	return info.Size()
}
