package kopf

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/leaderelection"
)

// releasedLeases has a Lease that was released, and accepts any.
type releasedLeases struct{}

func (releasedLeases) Get(context.Context) ([]byte, int, error) {
	return []byte(`{"metadata":{"resourceVersion":"7"},"spec":{"holderIdentity":"","leaseDurationSeconds":1}}`), 200, nil
}

func (releasedLeases) Create(context.Context, []byte) ([]byte, int, error) {
	return nil, 409, errors.New("already exists")
}

func (releasedLeases) Update(_ context.Context, raw []byte) ([]byte, int, error) {
	return raw, 200, nil
}

// leading returns the leadership of a replica with the Lease, but without renewals, as in a stopped process.
func leading(t *testing.T) *leadership {
	t.Helper()
	l := &leadership{log: slog.New(slog.DiscardHandler)}
	l.elector = &leaderelection.Elector{Config: leaderelection.Config{
		Namespace: "default", Name: "l", Identity: "a", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Leases: releasedLeases{}, Log: l.log,
	}}
	if _, err := l.elector.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(context.Background())
	l.terms = termContexts{handlers: ctx, tasks: ctx, requests: ctx, end: end}
	l.fence.Store(7)
	return l
}

func TestNoCallAfterTheLease(t *testing.T) {
	t.Run("HA-21 no handler starts when the time of the Lease is over, before the renewals notice it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := leading(t)
			ctx := l.terms.handlers
			called := 0
			attempt := func() (outcome, error) {
				c := call{handler: &handler{id: "h"}, noun: "Handler", log: l.log, settings: &Settings{}, leader: l}
				return c.invoke(ctx, func(context.Context, Attempt) error { called++; return nil })
			}
			if o, err := attempt(); err != nil || !o.final || called != 1 {
				t.Errorf("got %+v, %v and %d calls in the term", o, err, called)
			}
			time.Sleep(10 * time.Second)
			if o, err := attempt(); !o.cancelled || !errors.Is(err, ErrLeadershipLost) || called != 1 {
				t.Errorf("got %+v, %v and %d calls after the term", o, err, called)
			}
			if got := context.Cause(ctx); !errors.Is(got, ErrLeadershipLost) || l.leads() || l.number() != 0 {
				t.Errorf("got the cause %v, leading %t, the fence %d after the term", got, l.leads(), l.number())
			}
		})
	})
	t.Run("HA-22 a request that is refused ends the term", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := leading(t)
			ctx := l.terms.handlers
			time.Sleep(10 * time.Second)
			if _, _, err := (&Client{leader: l}).enter(t.Context(), "PATCH", "/x"); !errors.Is(err, ErrLeadershipLost) {
				t.Errorf("got %v", err)
			}
			if !errors.Is(context.Cause(ctx), ErrLeadershipLost) {
				t.Error("the handlers go on")
			}
		})
	})
}
