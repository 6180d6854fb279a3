package leaderelection

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// slowLeases stores a Lease immediately, but responds to updates late.
type slowLeases struct {
	raw  []byte
	slow time.Duration
}

func (s *slowLeases) Get(context.Context) ([]byte, int, error) {
	if s.raw == nil {
		return nil, 404, errors.New("not found")
	}
	return s.raw, 200, nil
}

func (s *slowLeases) Create(_ context.Context, raw []byte) ([]byte, int, error) {
	s.raw = bytes.Replace(raw, []byte(`"metadata":{`), []byte(`"metadata":{"resourceVersion":"7",`), 1)
	return s.raw, 201, nil
}

func (s *slowLeases) Update(_ context.Context, raw []byte) ([]byte, int, error) { // in a bubble
	s.raw = raw
	time.Sleep(s.slow)
	return raw, 200, nil
}

func TestNoRevival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &slowLeases{slow: 7 * time.Second}
		e := &Elector{Config: Config{Namespace: "default", Name: "l", Identity: "a", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
			RetryPeriod: 6 * time.Second, Leases: leases, Log: slog.New(slog.DiscardHandler)}}
		if _, err := e.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		lost := make(chan error, 1)
		go func() { lost <- e.Hold(ctx) }() // renews after 6 s and gets a response after 13 s; the renewal itself is in time
		time.Sleep(11 * time.Second)
		if e.Valid() {
			t.Fatal("the Lease is valid after its time")
		}
		time.Sleep(3 * time.Second)
		if e.Valid() {
			t.Error("the Lease is valid again, though others have ended what they did")
		}
		select {
		case err := <-lost:
			if err == nil {
				t.Error("got no reason for the loss")
			}
		default:
			t.Error("the Lease is held on")
		}
	})
}

// TestNewServer checks that a replica does not wait for the holder of a Lease that never existed, and that this is so for the first attempt only.
func TestNewServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &slowLeases{}
		e := &Elector{Config: Config{Namespace: "default", Name: "l", Identity: "a", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
			RetryPeriod: 2 * time.Second, Leases: leases, Log: slog.New(slog.DiscardHandler), NewServer: true}}
		for _, want := range []time.Duration{0, 15 * time.Second} {
			leases.raw = nil
			began := time.Now()
			if _, err := e.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("the Lease was taken after %s, want %s", got, want)
			}
		}
	})
}
