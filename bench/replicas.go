package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// This file has the jobs for several replicas with an election. They run only with kopf, on the replaying server.

const replicasName = "replicas"

// elected are the arguments of a replica.
var elected = []string{"--leader-elect=bench", "--leader-elect-namespace=default"}

// standingBy measures a standby operator with handled objects, while another holder has the Lease.
func standingBy(count int) job {
	return job{kind: other, name: fmt.Sprintf("standing by over %d", count), unit: count, count: count, handled: true, kopfOnly: true, args: elected, before: holdLease, do: func(ctx context.Context, s server, o *operator) (result, error) {
		return result{}, waitForWatch(ctx, s, o)
	}}
}

func holdLease(s server) error {
	r, ok := s.(*replayedServer)
	if !ok {
		return errors.New("several replicas are for the replaying server")
	}
	r.HoldLease()
	return nil
}

// takingOver gives the Lease to a standby operator with handled objects, one of which must be handled. The wall time is from the response with the Lease
// until the server gets the first patch. It is a little longer than the time until the handler is called.
func takingOver(count int) job {
	return job{kind: takeover, name: fmt.Sprintf("taking over %d", count), unit: count, count: count, handled: true, kopfOnly: true, changed: true, args: elected, before: holdLease, do: func(ctx context.Context, s server, o *operator) (result, error) {
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		r := s.(*replayedServer)
		if err := r.Resize(ctx, count/2, 1); err != nil {
			return result{}, err
		}
		if err := o.settle(ctx); err != nil {
			return result{}, err
		}
		before := o.cpu()
		r.ReleaseLease()
		var got, first time.Time
		err := waitFor(ctx, o, func() (bool, error) {
			got, first = r.Led()
			return !first.IsZero(), nil
		})
		if err == nil {
			err = o.settle(ctx)
		}
		return result{wall: first.Sub(got), cpu: -before}, err
	}}
}

// handingOver stops the leader repeatedly, while another replica stands by. p50 and p99 are the times from the signal to the first patch of the next leader.
func handingOver(name string, times, count, perSecond int, signal syscall.Signal) job {
	j := job{kind: handover, name: name, unit: times, count: count, handled: true, kopfOnly: true, changed: true, args: elected, orderly: signal == syscall.SIGTERM}
	j.again = func(ctx context.Context, s server, o *operator, start func() (*operator, error)) (result, error) {
		h := &handovers{ctx: ctx, server: s.(*replayedServer), count: count, perSecond: perSecond, signal: signal}
		if err := waitForWatch(ctx, s, o); err != nil {
			return result{}, err
		}
		var took []time.Duration
		for range times {
			next, err := start()
			if err != nil {
				return result{}, err
			}
			d, err := h.once(o, next)
			if err != nil {
				next.kill()
				return result{}, err
			}
			took, o = append(took, d), next
		}
		defer o.kill()
		t := tailOf(took)
		return result{p50: t.p50, p99: slices.Max(took)}, nil
	}
	return j
}

// handovers is the common state of a job's handovers.
type handovers struct {
	ctx              context.Context
	server           *replayedServer
	count, perSecond int
	signal           syscall.Signal
	resized          int
}

// once stops a replica, and returns the time until another one worked.
func (h *handovers) once(leader, next *operator) (time.Duration, error) {
	if err := h.settle(next); err != nil {
		return 0, err
	}
	before, _ := h.server.Led()
	ctx, stop := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	go func() { done <- h.load(ctx) }()
	if h.perSecond > 0 {
		if err := pause(ctx, 2*time.Second); err != nil {
			stop()
			return 0, err
		}
	}
	began := time.Now()
	_ = leader.cmd.Process.Signal(h.signal) // if it has ended, the takeover below fails
	var first, resized time.Time
	err := waitFor(ctx, next, func() (bool, error) {
		got, at := h.server.Led()
		first = at
		if h.perSecond > 0 || time.Since(resized) < 20*time.Millisecond {
			return got.After(before) && !at.IsZero(), nil
		}
		resized = time.Now()
		return got.After(before) && !at.IsZero(), h.server.Resize(ctx, h.next(), 1) // so that there is always work: the ending replica may still handle the first of them
	})
	stop()
	<-leader.ended
	return first.Sub(began), errors.Join(err, <-done)
}

// settle waits until a replica stands by.
func (h *handovers) settle(o *operator) error {
	if err := pause(h.ctx, 3*time.Second); err != nil {
		return err
	}
	if err := o.settle(h.ctx); err != nil {
		return err
	}
	return pause(h.ctx, rand.N(2400*time.Millisecond)) // so that the signal comes at a random time between two attempts of the standby replica
}

func (h *handovers) next() int { h.resized++; return h.resized % h.count }

// load changes the specs of objects at the rate until the context is canceled.
func (h *handovers) load(ctx context.Context) error {
	for h.perSecond > 0 && pause(ctx, 10*time.Millisecond) == nil {
		for range max(1, h.perSecond/100) {
			if err := h.server.Resize(ctx, h.next(), 1); err != nil {
				return err
			}
		}
	}
	return nil
}
